//! What a reader noticed about a log.
//!
//! Responsible for: one shape for every anomaly, so that nothing is skipped silently. Must not: print.

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
