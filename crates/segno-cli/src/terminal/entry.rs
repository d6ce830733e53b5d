//! What a line that was entered in an interactive session means.
//!
//! Responsible for: telling text from `/commands` and `!commands`, and what Ctrl-C means in a row; all of it
//! pure. Must not: read keys (that is `prompt`) or carry anything out.

/// One entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Line {
    /// Text for the model.
    Text(String),
    /// `/name args`. An unknown name is the caller's to refuse; it never reaches the model.
    Command {
        /// Without the slash.
        name: String,
        /// The rest, without white space around it.
        args: String,
    },
    /// `!command`, for the shell.
    Shell(String),
    /// Ctrl-D on an empty line, or the input ended, or a signal did.
    Eof,
    /// Ctrl-C twice on an empty line.
    Interrupt,
    /// Reading was broken off from outside; what stood on the line stands on the next one.
    Woken,
}

/// What was entered; nothing if it is blank. A backslash before the first `/` or `!` makes it text.
#[must_use]
pub fn parse(entered: &str) -> Option<Line> {
    let text = entered.trim();
    if text.is_empty() {
        return None;
    }
    if let Some(shell) = text.strip_prefix('!') {
        return Some(Line::Shell(shell.trim().to_owned()));
    }
    if let Some(rest) = text.strip_prefix('/')
        && let Some(command) = command(rest)
    {
        return Some(command);
    }
    let escaped = text.strip_prefix('\\').filter(|rest| rest.starts_with(['/', '!']));
    Some(Line::Text(escaped.unwrap_or(text).to_owned()))
}

/// A path such as `/usr/bin` is no command.
fn command(rest: &str) -> Option<Line> {
    let (name, args) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
    let named = name.starts_with(|c: char| c.is_ascii_alphabetic())
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-');
    named.then(|| Line::Command { name: name.to_owned(), args: args.trim().to_owned() })
}

/// Text whose lines were continued with a backslash, without those backslashes. `continued` holds the
/// text as it was each time that happened, so that backslashes in pasted text are left alone.
#[must_use]
pub fn without_continuations(text: &str, continued: &[String]) -> String {
    let mut out = text.to_owned();
    let mut marks: Vec<&String> = continued.iter().collect();
    marks.sort_by_key(|mark| std::cmp::Reverse(mark.len()));
    marks.dedup();
    for mark in marks {
        if mark.ends_with('\\')
            && text.strip_prefix(mark.as_str()).is_some_and(|rest| rest.starts_with('\n'))
        {
            out.remove(mark.len() - 1);
        }
    }
    out
}

/// Whether Enter continues the text: its last line ends with a backslash that is not itself escaped.
#[must_use]
pub fn is_continued(text: &str) -> bool {
    text.chars().rev().take_while(|c| *c == '\\').count() % 2 == 1
}

/// What a Ctrl-C means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pressed {
    /// It cleared what was typed.
    Cleared,
    /// There was nothing to clear: the next one leaves.
    Warned,
    /// It leaves.
    Leave,
}

/// Ctrl-C in a row.
#[derive(Debug, Clone, Copy, Default)]
pub struct Interrupts {
    warned: bool,
}

impl Interrupts {
    /// One more, on an empty line or not.
    pub fn press(&mut self, empty: bool) -> Pressed {
        let pressed = match (empty, self.warned) {
            (false, _) => Pressed::Cleared,
            (true, false) => Pressed::Warned,
            (true, true) => Pressed::Leave,
        };
        self.warned = pressed == Pressed::Warned;
        pressed
    }

    /// Something else was entered.
    pub fn reset(&mut self) {
        self.warned = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn command(name: &str, args: &str) -> Option<Line> {
        Some(Line::Command { name: name.into(), args: args.into() })
    }

    fn text(text: &str) -> Option<Line> {
        Some(Line::Text(text.into()))
    }

    fn shell(command: &str) -> Option<Line> {
        Some(Line::Shell(command.into()))
    }

    #[test]
    fn commands_shell_and_text_are_told_apart() {
        let rows = [
            ("", None),
            (" \n\t", None),
            ("fix it", text("fix it")),
            ("  fix it\n", text("fix it")),
            ("/resume", command("resume", "")),
            (" /resume  019c  ", command("resume", "019c")),
            ("/model ollama/qwen 3", command("model", "ollama/qwen 3")),
            ("/reusme", command("reusme", "")),
            ("/name a\nb", command("name", "a\nb")),
            ("/usr/bin/env is missing", text("/usr/bin/env is missing")),
            ("/tmp/x", text("/tmp/x")),
            ("/", text("/")),
            ("// a comment", text("// a comment")),
            ("/* c */", text("/* c */")),
            ("/2", text("/2")),
            ("/é", text("/é")),
            ("!ls -l", shell("ls -l")),
            (" ! ls", shell("ls")),
            ("!", shell("")),
            ("\\/resume is what I typed", text("/resume is what I typed")),
            ("\\!important", text("!important")),
            ("\\d+ is a pattern", text("\\d+ is a pattern")),
            ("say /resume", text("say /resume")),
            ("a\n/resume", text("a\n/resume")),
        ];
        for (entered, expected) in rows {
            assert_eq!(parse(entered), expected, "{entered:?}");
        }
    }

    #[test]
    fn only_typed_continuations_lose_their_backslash() {
        let marks = |marks: &[&str]| marks.iter().map(|m| (*m).to_owned()).collect::<Vec<_>>();
        let rows: &[(&str, &[&str], &str)] = &[
            ("a\\\nb", &["a\\"], "a\nb"),
            ("a\\\nb\\\nc", &["a\\", "a\\\nb\\"], "a\nb\nc"),
            ("cmd \\\n --flag", &[], "cmd \\\n --flag"),
            ("cmd \\\n --flag\\\nx", &["cmd \\\n --flag\\"], "cmd \\\n --flag\nx"),
            ("changed\\\nb", &["a\\"], "changed\\\nb"),
            ("a\\\nb", &["a\\", "a\\"], "a\nb"),
            ("世\\\nb", &["世\\"], "世\nb"),
        ];
        for (text, continued, expected) in rows {
            assert_eq!(without_continuations(text, &marks(continued)), *expected, "{text:?}");
        }
    }

    #[test]
    fn a_backslash_continues_unless_it_is_escaped() {
        for (text, expected) in
            [("a\\", true), ("a\\\\", false), ("a", false), ("\\", true), ("", false)]
        {
            assert_eq!(is_continued(text), expected, "{text:?}");
        }
    }

    #[test]
    fn ctrl_c_clears_then_warns_then_leaves() {
        use Pressed::{Cleared, Leave, Warned};
        let run = |presses: &[bool]| -> Vec<Pressed> {
            let mut interrupts = Interrupts::default();
            presses.iter().map(|empty| interrupts.press(*empty)).collect()
        };
        assert_eq!(run(&[true, true]), [Warned, Leave]);
        assert_eq!(run(&[false, true, true]), [Cleared, Warned, Leave]);
        assert_eq!(run(&[true, false, true, true]), [Warned, Cleared, Warned, Leave]);
        let mut interrupts = Interrupts::default();
        interrupts.press(true);
        interrupts.reset();
        assert_eq!(interrupts.press(true), Warned);
    }
}
