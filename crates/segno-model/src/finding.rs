//! What a reader noticed about a log.
//!
//! Responsible for: one shape for every anomaly, so that nothing is skipped silently, and counting the
//! lines up to where they are. Must not: print, or read.

use serde::Serialize;

/// How much a finding matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// Worth knowing; nothing is lost.
    #[default]
    Note,
    /// Something is unusual and was dealt with.
    Warning,
    /// Something that was written cannot be read.
    Damage,
}

/// One anomaly, located.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// A stable code, e.g. `torn-tail`; listed in `docs/format/session-log.md`.
    pub code: &'static str,
    /// How much it matters.
    pub severity: Severity,
    /// The name of the file, where the session is several.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// The line's number, counted from 1, where the reader has counted lines.
    pub line: Option<u64>,
    /// The byte offset in the file.
    pub offset: Option<u64>,
    /// The record that it concerns.
    pub seq: Option<u64>,
    /// What is the matter, as one sentence without stored text in it.
    pub sentence: String,
    /// What was done about it, or what can be.
    pub done: String,
}

/// Gives findings that know their byte the number of their line. Whoever reads a log from its end does
/// not count lines; this reads the log once more, from its beginning up to the last of them.
#[derive(Debug)]
pub struct LineNumbers<'a> {
    /// The last one first.
    wanted: Vec<&'a mut Finding>,
    at: u64,
    /// Line ends before `at`.
    ends: u64,
}

impl<'a> LineNumbers<'a> {
    /// For those of these findings that have an offset and no line.
    pub fn new(findings: impl IntoIterator<Item = &'a mut Finding>) -> Self {
        let open = |f: &&mut Finding| f.line.is_none() && f.offset.is_some();
        let mut wanted: Vec<_> = findings.into_iter().filter(open).collect();
        wanted.sort_by_key(|finding| std::cmp::Reverse(finding.offset));
        Self { wanted, at: 0, ends: 0 }
    }

    /// Whether more bytes are needed.
    #[must_use]
    pub fn is_waiting(&self) -> bool {
        !self.wanted.is_empty()
    }

    /// Takes the next bytes of the log.
    pub fn feed(&mut self, mut bytes: &[u8]) {
        while let Some(offset) = self.wanted.last().and_then(|finding| finding.offset) {
            let before =
                usize::try_from(offset - self.at).map_or(bytes.len(), |n| n.min(bytes.len()));
            let (counted, rest) = bytes.split_at(before);
            self.ends += memchr::memchr_iter(b'\n', counted).count() as u64;
            self.at += before as u64;
            bytes = rest;
            if self.at < offset {
                return;
            }
            if let Some(finding) = self.wanted.pop() {
                finding.line = Some(self.ends + 1);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Covers: G3.
    #[test]
    fn lines_are_counted_whatever_the_blocks() {
        let log = b"one\n\ntwo\n\nthree";
        let line_of = |at: usize| 1 + log[..at].iter().filter(|b| **b == b'\n').count() as u64;
        for block in 1..=log.len() + 1 {
            let finding = |at| Finding { offset: Some(at), ..Finding::default() };
            let mut findings: Vec<_> = (0..=log.len() as u64).rev().map(finding).collect();
            findings.push(Finding::default());
            findings.push(Finding { line: Some(99), ..finding(5) });
            let mut numbers = LineNumbers::new(&mut findings);
            log.chunks(block).for_each(|bytes| numbers.feed(bytes));
            assert!(!numbers.is_waiting());
            for at in 0..=log.len() {
                assert_eq!(findings[log.len() - at].line, Some(line_of(at)), "{at}, {block}");
            }
            let last: Vec<_> = findings[log.len() + 1..].iter().map(|f| f.line).collect();
            assert_eq!(last, [None, Some(99)]);
        }
    }
}
