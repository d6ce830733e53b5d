//! The medium under strict stores: what is written, what of it is durable, who holds what.
//!
//! Responsible for: bytes, rights, crashes and failures on command. Must not: know records; it keeps
//! bytes as a disk would.

use super::inbox::Entries;
use segno_model::store::{Owner, StoreError};
use segno_model::{Seq, SessionId};
use std::collections::{BTreeMap, VecDeque};

/// An operation that can be made to fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Op {
    /// Writing a batch.
    Write,
    /// Making what was written durable.
    Sync,
    /// Storing a blob.
    PutBlob,
    /// Reading a log.
    Read,
    /// Keeping a draft.
    Draft,
}

/// A failure on command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// No room is left; nothing is written.
    NoRoom,
    /// The medium fails.
    Broken,
}

/// One log as it lies on the medium.
#[derive(Debug, Default)]
pub(super) struct Stored {
    pub(super) bytes: Vec<u8>,
    pub(super) durable: usize,
    /// What was set aside and is kept.
    pub(super) set_aside: Vec<Vec<u8>>,
}

/// Everything that outlives a process.
#[derive(Debug, Default)]
pub(super) struct World {
    pub(super) logs: BTreeMap<SessionId, Stored>,
    pub(super) blobs: BTreeMap<(SessionId, String), Vec<u8>>,
    /// Never durable.
    pub(super) drafts: BTreeMap<SessionId, (Seq, String)>,
    pub(super) inboxes: BTreeMap<SessionId, Entries>,
    /// Children, and below whom they lie.
    pub(super) parents: BTreeMap<SessionId, SessionId>,
    holders: BTreeMap<SessionId, (u64, Owner)>,
    tickets: u64,
    /// Each with how many operations of its kind still succeed before it.
    faults: VecDeque<(Op, Fault, usize)>,
}

impl World {
    /// Gives the right to write `id`, as a ticket that is never given twice.
    pub(super) fn take_right(&mut self, id: &SessionId, owner: Owner) -> Result<u64, StoreError> {
        if let Some((_, holder)) = self.holders.get(id) {
            return Err(StoreError::Held(Box::new(holder.clone())));
        }
        self.tickets += 1;
        self.holders.insert(id.clone(), (self.tickets, owner));
        Ok(self.tickets)
    }

    pub(super) fn has_right(&self, id: &SessionId, ticket: u64) -> bool {
        self.holders.get(id).is_some_and(|(held, _)| *held == ticket)
    }

    pub(super) fn is_held(&self, id: &SessionId) -> bool {
        self.holders.contains_key(id)
    }

    pub(super) fn give_back(&mut self, id: &SessionId, ticket: u64) {
        if self.has_right(id, ticket) {
            self.holders.remove(id);
        }
    }

    pub(super) fn revoke(&mut self, id: &SessionId) {
        self.holders.remove(id);
    }

    pub(super) fn fail_after(&mut self, op: Op, successes: usize, fault: Fault) {
        self.faults.push_back((op, fault, successes));
    }

    pub(super) fn heal(&mut self) {
        self.faults.clear();
    }

    /// Fails when a failure of this operation is waiting, and uses it up.
    pub(super) fn check(&mut self, op: Op, action: &'static str) -> Result<(), StoreError> {
        let Some(i) = self.faults.iter().position(|(o, ..)| *o == op) else { return Ok(()) };
        if self.faults[i].2 > 0 {
            self.faults[i].2 -= 1;
            return Ok(());
        }
        match self.faults.remove(i) {
            Some((_, Fault::NoRoom, _)) => Err(StoreError::NoRoom("the log".to_owned())),
            _ => Err(StoreError::Backend {
                action,
                what: "the simulated medium".to_owned(),
                source: "a failure on command".into(),
            }),
        }
    }

    /// Power is lost: what was not durable is gone, except for the first `keep` bytes of it per log,
    /// and so are all rights.
    pub(super) fn crash(&mut self, keep: usize) {
        self.holders.clear();
        self.faults.clear();
        for log in self.logs.values_mut() {
            let kept = log.durable.saturating_add(keep).min(log.bytes.len());
            log.bytes.truncate(kept);
            log.durable = kept;
        }
        for (_, text) in self.drafts.values_mut() {
            text.truncate(text.floor_char_boundary(keep.min(text.len())));
        }
        self.logs.retain(|_, log| !log.bytes.is_empty());
    }
}
