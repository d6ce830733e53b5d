//! What else changes with a change: lines that name what was changed, or are numbered behind it.
//!
//! Responsible for: telling every line that does not stay byte for byte and that no change names. Must not: decide
//! what changes.

use super::draft::{Change, Edit, Fate};
use serde::Serialize;
use std::collections::{BTreeMap, HashSet};

/// Lines that change with a change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Follow {
    /// What becomes of them.
    pub what: &'static str,
    /// How many they are.
    pub count: u64,
    /// Which they are, counted from 1: first and last of each run.
    pub lines: Vec<(u64, u64)>,
}

impl Follow {
    fn of(what: &'static str, lines: impl Iterator<Item = u64>) -> Option<Self> {
        let mut follow = Self { what, count: 0, lines: Vec::new() };
        for line in lines {
            follow.count += 1;
            match follow.lines.last_mut() {
                Some((_, last)) if *last + 1 == line => *last = line,
                _ => follow.lines.push((line, line)),
            }
        }
        (follow.count > 0).then_some(follow)
    }
}

/// What follows from the changes of a draft, and from the numbers that lines get anew.
pub(super) fn follow(
    edits: &BTreeMap<u64, Edit>,
    changes: &[Change],
    numbered: &[u64],
) -> Vec<Follow> {
    let told: HashSet<u64> = changes.iter().filter_map(|change| change.line).collect();
    let is_edited = |line: &u64| edits.get(line).is_some_and(|edit| !edit.objects.is_empty());
    let untold = edits.iter().filter(|(line, _)| !told.contains(line) && is_edited(line));
    let is_out = |fate: &Fate| matches!(fate, Fate::Out);
    let (out, named): (Vec<_>, Vec<_>) =
        untold.partition(|(_, edit)| edit.objects.values().all(is_out));
    let anew = numbered.iter().copied().filter(|line| !told.contains(line) && !is_edited(line));
    let kinds = [
        Follow::of("left out: they stand there once", out.iter().map(|(line, _)| **line)),
        Follow::of("made to go with what was changed", named.iter().map(|(line, _)| **line)),
        Follow::of("numbered anew", anew),
    ];
    kinds.into_iter().flatten().collect()
}
