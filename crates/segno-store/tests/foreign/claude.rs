//! Claude Code: what its files say, damaged ones included.

use crate::scene::{context, findings, lines, transcript};

/// The lines without what a person does not read: rows that are only kept.
fn said(name: &str) -> Vec<String> {
    let all = lines(&transcript(name));
    all.into_iter().filter(|line| !line.starts_with("custom ")).collect()
}

/// Covers: G3, #1.
#[test]
fn torn_lines_in_the_middle_are_told_and_everything_around_them_is_read() {
    let name = "cases/01-torn-middle-lines/c0de0001-1111-4111-8111-000000000001.jsonl";
    let view = transcript(name);
    assert_eq!(findings(&view), ["torn-line@6", "torn-line@7"]);
    assert_eq!(said(name).len(), 12);
    assert!(said(name)[11].contains("FINAL-01"));
    assert!(context(name).iter().any(|line| line.contains("FINAL-01")));
}
