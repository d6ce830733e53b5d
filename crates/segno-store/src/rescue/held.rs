//! The reply of Claude Code whose rows are still coming, as our reader holds it.
//!
//! Responsible for: which rows stand in or between the rows of the last reply: a repeat of such a row does not end
//! the reply, and what hangs on it hangs where it always did. Must not: know how anything is repaired.

use super::tree::hash;
use crate::foreign::claude::MOST_HELD;
use std::collections::HashSet;

/// The last reply, as long as it may go on.
#[derive(Debug, Default)]
pub(super) struct Held(Option<Reply>);

#[derive(Debug)]
struct Reply {
    id: u64,
    lane: u64,
    rows: HashSet<u64>,
    /// How much stands between its rows.
    bytes: usize,
    /// Whether another row stands again behind the last one of its own.
    is_copied: bool,
}

impl Held {
    /// Whether a row is one of them, and none of another kind stands again behind them.
    pub(super) fn holds(&self, row: u64) -> bool {
        self.0.as_ref().is_some_and(|reply| !reply.is_copied && reply.rows.contains(&row))
    }

    /// Another row stands again.
    pub(super) fn copy(&mut self) {
        if let Some(reply) = &mut self.0 {
            reply.is_copied = true;
        }
    }

    /// A row of a reply.
    pub(super) fn reply(&mut self, id: &str, lane: u64, row: u64) {
        let id = hash(id);
        if !self.0.as_ref().is_some_and(|reply| reply.id == id && reply.lane == lane) {
            self.0 = Some(Reply { id, lane, rows: HashSet::new(), bytes: 0, is_copied: false });
        }
        if let Some(reply) = &mut self.0 {
            reply.is_copied = false;
            reply.rows.insert(row);
        }
    }

    /// A row that may stand between the rows of a reply.
    pub(super) fn between(&mut self, lane: u64, row: Option<u64>, bytes: usize) {
        match &mut self.0 {
            Some(reply) if reply.lane == lane && reply.bytes + bytes <= MOST_HELD => {
                reply.bytes += bytes;
                reply.rows.extend(row);
            }
            _ => self.end(),
        }
    }

    /// Nothing more of it comes.
    pub(super) fn end(&mut self) {
        self.0 = None;
    }
}
