//! Turns drafts into the bytes of one batch.
//!
//! Responsible for: numbering, parents, positions and `synced` marks of what is about to be appended.
//! Must not: write. Every store plans with this, so that all write the same log.

use crate::id::Seq;
use crate::line::{self, Envelope, Record};
use crate::record::{Body, CompactionState};
use crate::state::{Head, State};
use crate::store::StoreError;
use crate::time::Timestamp;

/// The longest line that a writer makes, in bytes; larger values belong into blobs.
pub const MAX_LINE_BYTES: usize = 1 << 20;

/// How much log may lie between two checkpoints, in bytes.
pub const CHECKPOINT_EVERY: u64 = 4 << 20;

/// A record that is about to be appended.
#[derive(Debug, Clone)]
pub struct Draft {
    /// When.
    pub at: Timestamp,
    /// What.
    pub body: Body,
}

impl Draft {
    /// A draft.
    #[must_use]
    pub fn new(at: Timestamp, body: Body) -> Self {
        Self { at, body }
    }
}

/// A batch ready to be written in one piece. The state moves with [`Batch::apply_to`], once it is.
#[derive(Debug, Clone)]
pub struct Batch {
    /// The lines, each with its line end.
    pub bytes: Vec<u8>,
    /// The records that they are.
    pub records: Vec<Record>,
    /// Where the log stands after them.
    pub head: Head,
}

impl Batch {
    /// Folds the batch's records into the state on which it was planned.
    pub fn apply_to(&self, state: &mut State) {
        self.records.iter().for_each(|record| state.apply(record));
    }

    fn on(head: Head) -> Self {
        Self { bytes: Vec::new(), records: Vec::new(), head }
    }

    fn add(&mut self, synced: Option<Seq>, draft: Draft) -> Result<(), StoreError> {
        let Draft { at, body } = draft;
        let is_header = matches!(body, Body::Session(_));
        if is_header != (self.head.next_seq == 0) {
            return Err(StoreError::refused("the header must be the first record and only that"));
        }
        let body = body.into_stored();
        let (parent, parent_at) = if body.is_node() { self.head.parent() } else { (None, None) };
        let kind = body.kind().to_owned();
        let envelope = Envelope { seq: self.head.next_seq, parent, parent_at, at, kind, synced };
        let from = self.bytes.len();
        let crc = line::encode_into(&mut self.bytes, &envelope, &body)
            .map_err(|e| StoreError::refused(&e.to_string()))?;
        let line = &self.bytes[from..];
        if line.len() >= MAX_LINE_BYTES {
            return Err(StoreError::refused(
                "it is too long to be one record (1 MiB); put what is long into a file",
            ));
        }
        let record = Record::written(envelope, body, crc, line, self.head.end);
        self.bytes.push(b'\n');
        self.head.pass(&record);
        self.records.push(record);
        Ok(())
    }
}

/// Plans a batch on top of `state`. `synced` is the highest seq known durable now.
///
/// Nodes follow the tip; nodes of one batch follow each other. Line 1 must be alone first in its batch
/// and only when the log is empty.
///
/// # Errors
/// [`StoreError::Refused`] for an empty batch, a header in the wrong place or a line that is too long;
/// nothing is to be written then.
pub fn plan(state: &State, synced: Option<Seq>, drafts: Vec<Draft>) -> Result<Batch, StoreError> {
    if drafts.is_empty() {
        return Err(StoreError::refused("an empty batch"));
    }
    let mut batch = Batch::on(state.head());
    for draft in drafts {
        batch.add(synced, draft)?;
    }
    Ok(batch)
}

/// As [`plan`], and ends the batch with a checkpoint when one is due: with each finished compaction,
/// and each time the last one is another [`CHECKPOINT_EVERY`] bytes back. The drafts' records come first.
/// A checkpoint that would be too long for a line is left out: it only saves reading.
///
/// # Errors
/// As [`plan`].
pub fn plan_with_checkpoint(
    state: &State,
    synced: Option<Seq>,
    drafts: Vec<Draft>,
) -> Result<Batch, StoreError> {
    plan_with_checkpoint_every(state, synced, drafts, CHECKPOINT_EVERY)
}

/// As [`plan_with_checkpoint`], with a distance of the caller's choice.
///
/// # Errors
/// As [`plan`].
pub fn plan_with_checkpoint_every(
    state: &State,
    synced: Option<Seq>,
    drafts: Vec<Draft>,
    every: u64,
) -> Result<Batch, StoreError> {
    let mut batch = plan(state, synced, drafts)?;
    if checkpoint_due(state, &batch, every)
        && let Some(at) = batch.records.last().map(|record| record.envelope.at)
    {
        let mut after = state.clone();
        batch.apply_to(&mut after);
        let checkpoint = Body::Checkpoint(Box::new(after.in_force));
        let (bytes, head) = (batch.bytes.len(), batch.head);
        if batch.add(synced, Draft::new(at, checkpoint)).is_err() {
            batch.bytes.truncate(bytes);
            batch.head = head;
        }
    }
    Ok(batch)
}

/// Each time the distance from the last checkpoint passes a multiple of `every`, not at each append from
/// there on: one that was too long for a line is built again only that much later.
fn checkpoint_due(state: &State, batch: &Batch, every: u64) -> bool {
    let compacted =
        |r: &Record| matches!(r.body(), Body::Compaction(c) if c.state == CompactionState::Done);
    if batch.records.iter().any(compacted) {
        return true;
    }
    let last = state.in_force.checkpoint_at.unwrap_or(0);
    let multiples = |end: u64| end.saturating_sub(last) / every.max(1);
    let has_one = batch.records.iter().any(|r| matches!(r.body(), Body::Checkpoint(_)));
    !has_one && multiples(batch.head.end) > multiples(state.end)
}
