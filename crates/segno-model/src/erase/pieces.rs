//! Pieces of what was erased, to find them again elsewhere.
//!
//! Responsible for: the texts of a record, the blobs that a line names, and whether some bytes hold a part
//! of one of the texts. Must not: understand files; bytes are bytes here.

use crate::line::{Record, readable_json};
use crate::record::Body;
use serde_json::Value;
use std::collections::HashSet;

/// How many bytes in a row count as a part of a text.
const WINDOW: usize = 12;

/// Shorter texts are too common to look for.
const LEAST: usize = 4;

/// Words and lines of at least so many bytes are looked for where a part alone would say too little.
const WORD: usize = 12;

/// Members that tell what a record is and not what was said in it.
const STRUCTURE: &[&str] = &[
    "at",
    "type",
    "role",
    "id",
    "call_id",
    "name",
    "tool",
    "class",
    "host",
    "boot",
    "crc",
    "kind",
    "provider",
    "model",
    "stop",
    "outcome",
    "established",
    "media_type",
    "dialect",
    "status",
    "blob",
    "state",
    "edit",
    "end",
    "scope",
    "input_id",
    "input_kind",
];

/// Everything that was said in a record. Of arguments that are JSON, the texts in them too.
#[must_use]
pub fn texts(record: &Record) -> Vec<String> {
    let mut found = Vec::new();
    if let Body::Name(name) = record.body() {
        found.push(name.name.clone());
    }
    if let Ok(value) = serde_json::from_str(&readable_json(&record.line)) {
        collect(&value, &mut found);
    }
    found
}

fn collect(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::String(text) => {
            if text.trim_start().starts_with(['{', '['])
                && let Ok(inner @ (Value::Object(_) | Value::Array(_))) = serde_json::from_str(text)
            {
                collect(&inner, found);
            }
            found.push(text.clone());
        }
        Value::Array(items) => items.iter().for_each(|item| collect(item, found)),
        Value::Object(members) => {
            let said = members.iter().filter(|(name, _)| !STRUCTURE.contains(&name.as_str()));
            said.for_each(|(_, value)| collect(value, found));
        }
        _ => {}
    }
}

/// The names of the blobs that a line refers to. In texts the quotes are escaped, so nothing that somebody
/// said is taken for a name.
pub fn blobs_in(line: &[u8]) -> impl Iterator<Item = &str> {
    const MARK: &[u8] = b"\"blob\":\"";
    memchr::memmem::find_iter(line, MARK).filter_map(|at| {
        let name = line.get(at + MARK.len()..at + MARK.len() + 64)?;
        let is_name = name.iter().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(b));
        std::str::from_utf8(name).ok().filter(|_| is_name)
    })
}

/// Texts to be found again, as they are and as JSON writes them.
#[derive(Debug, Clone, Default)]
pub struct Pieces {
    windows: HashSet<[u8; WINDOW]>,
    /// Texts shorter than a window.
    short: Vec<Vec<u8>>,
    words: HashSet<Vec<u8>>,
}

impl Pieces {
    /// Adds a text.
    pub fn add(&mut self, text: &str) {
        let text = text.trim();
        if text.len() < LEAST || text == super::ERASED {
            return;
        }
        for form in forms(text) {
            if form.len() < WINDOW {
                self.short.push(form);
                continue;
            }
            let windows = form.windows(WINDOW).flat_map(<[u8; WINDOW]>::try_from);
            self.windows.extend(windows);
        }
        for word in text.split_whitespace().filter(|word| word.len() >= WORD) {
            self.words.extend(forms(word));
        }
        // Whoever repeated a whole line of it repeated it.
        let lines = text.lines().map(str::trim).filter(|line| line.len() >= WORD);
        self.words.extend(lines.chain([text]).filter(|t| is_telling(t)).flat_map(forms));
    }

    /// Whether nothing is looked for.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.windows.is_empty() && self.short.is_empty()
    }

    /// Whether some bytes hold a part of a text, twelve bytes long.
    #[must_use]
    pub fn touch(&self, bytes: &[u8]) -> bool {
        let part = |part: &[u8]| {
            part.try_into().is_ok_and(|part: [u8; WINDOW]| self.windows.contains(&part))
        };
        bytes.windows(WINDOW).any(part)
            || self.short.iter().any(|text| memchr::memmem::find(bytes, text).is_some())
    }

    /// Whether some bytes hold a long word of a text, or a line of it.
    #[must_use]
    pub fn name(&self, bytes: &[u8]) -> bool {
        self.words.iter().any(|word| memchr::memmem::find(bytes, word).is_some())
    }
}

/// Whether a text says enough to be looked for as a whole.
fn is_telling(text: &str) -> bool {
    text.len() >= WORD || !text.contains(char::is_whitespace)
}

/// A text as it is, and within JSON, once and twice.
fn forms(text: &str) -> Vec<Vec<u8>> {
    let escaped = |text: &str| {
        let quoted = Value::from(text).to_string();
        quoted[1..quoted.len() - 1].to_owned()
    };
    let (once, twice) = (escaped(text), escaped(&escaped(text)));
    let mut forms = vec![text.as_bytes().to_vec(), once.into_bytes(), twice.into_bytes()];
    forms.dedup();
    forms
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_found_as_they_are_and_as_json_writes_them() {
        let mut pieces = Pieces::default();
        pieces.add("the key is \"sk-4711-0815\"\nkeep it");
        pieces.add("hunter2");
        pieces.add("at 5 I go to 47 B\nand no more");
        for (bytes, touched, named) in [
            ("torn: {\"text\":\"the key is \\\"sk-47", true, false),
            ("is \\\\\\\"sk-4711-0815\\\\\\\"", true, true),
            ("\"sk-4711-0815\"", true, true),
            ("password hunter2", true, true),
            ("said: the key is \\\"sk-4711-0815\\\", I see", true, true),
            ("keep", false, false),
            ("the key", false, false),
            ("You: at 5 I go to 47 B.", true, true),
            ("at 5 I go to 48", true, false),
        ] {
            assert_eq!(
                (pieces.touch(bytes.as_bytes()), pieces.name(bytes.as_bytes())),
                (touched, named),
                "{bytes}"
            );
        }
    }

    #[test]
    fn blobs_are_named_by_lines_and_not_by_texts() {
        let hash = "ab".repeat(32);
        let line = format!(
            "{{\"text\":{{\"blob\":\"{hash}\"}},\"said\":\"\\\"blob\\\":\\\"{}\\\"\"}}",
            "cd".repeat(32)
        );
        assert_eq!(blobs_in(line.as_bytes()).collect::<Vec<_>>(), [hash]);
    }
}
