//! Long texts that stand on the line as a note, so that the line stays quick.
//!
//! Responsible for: the note and the text that it stands for. Must not: change the text.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Longer texts are kept aside.
const ON_THE_LINE: usize = 16 << 10;

/// What is kept aside; cloning gives another handle onto the same texts.
#[derive(Debug, Clone, Default)]
pub(super) struct Aside(Arc<Mutex<Vec<String>>>);

impl Aside {
    /// The text, or the note that stands for it.
    pub(super) fn short(&self, text: String) -> String {
        if text.len() <= ON_THE_LINE {
            return text;
        }
        let mut texts = self.texts();
        texts.push(text);
        note(texts.len(), texts.last().map_or("", String::as_str))
    }

    /// A line with the texts in place of their notes.
    pub(super) fn whole(&self, line: &str) -> String {
        let texts = self.texts();
        let notes = texts.iter().enumerate().map(|(i, text)| (note(i + 1, text), text));
        let mut found: Vec<(usize, usize, &String)> = notes
            .filter_map(|(note, text)| line.find(&note).map(|at| (at, at + note.len(), text)))
            .collect();
        found.sort_unstable_by_key(|(at, ..)| *at);
        let (mut out, mut done) = (String::new(), 0);
        for (from, to, text) in found {
            out.push_str(&line[done..from]);
            out.push_str(text);
            done = to;
        }
        out.push_str(&line[done..]);
        out
    }

    fn texts(&self) -> MutexGuard<'_, Vec<String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn note(number: usize, text: &str) -> String {
    format!("[text {number}: {} lines]", text.lines().count())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_text_is_a_note_on_the_line_and_itself_when_it_is_entered() {
        let aside = Aside::default();
        let long = |word: &str| format!("{word}\n").repeat(10_000);
        assert_eq!(aside.short("short\ntext".to_owned()), "short\ntext");
        assert_eq!(aside.short(long("one")), "[text 1: 10000 lines]");
        assert_eq!(aside.short(long("[text 1: 10000 lines]")), "[text 2: 10000 lines]");
        let line =
            "compare [text 2: 10000 lines] with [text 1: 10000 lines], not [text 3: 1 lines]";
        let expected = format!(
            "compare {} with {}, not [text 3: 1 lines]",
            long("[text 1: 10000 lines]"),
            long("one")
        );
        assert_eq!(aside.whole(line), expected);
        assert_eq!(aside.whole("nothing"), "nothing");
    }
}
