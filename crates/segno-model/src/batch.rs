//! Turns drafts into the bytes of one batch.
//!
//! Responsible for: numbering, parents, positions and `synced` marks of what is about to be appended.
//! Must not: write. Every store plans with this, so that all write the same log.

use crate::id::{Pos, Seq};
use crate::line::{self, Envelope, Record};
use crate::record::{Body, CompactionState};
use crate::state::State;
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

/// A batch ready to be written in one piece.
#[derive(Debug, Clone)]
pub struct Batch {
    /// The lines, each with its line end.
    pub bytes: Vec<u8>,
    /// The records that they are.
    pub records: Vec<Record>,
    /// The state after them.
    pub state: State,
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
    let mut batch = Batch { bytes: Vec::new(), records: Vec::new(), state: state.clone() };
    if drafts.is_empty() {
        return Err(StoreError::refused("an empty batch"));
    }
    for draft in drafts {
        let is_header = matches!(draft.body, Body::Session(_));
        if is_header != (batch.state.next_seq == 0) {
            return Err(StoreError::refused("the header must be the first record and only that"));
        }
        let record = plan_one(&batch.state, synced, draft)?;
        batch.bytes.extend_from_slice(&record.line);
        batch.bytes.push(b'\n');
        batch.state.apply(&record);
        batch.records.push(record);
    }
    Ok(batch)
}

/// As [`plan`], and ends the batch with a checkpoint when one is due: with each finished compaction,
/// and when the last one is [`CHECKPOINT_EVERY`] bytes back. The drafts' records come first.
///
/// # Errors
/// As [`plan`]. A checkpoint that would be too long for a line is left out: it only saves reading.
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
    if let Some(checkpoint) = checkpoint_due(&batch, every)
        && let Ok(added) = plan(&batch.state, synced, vec![checkpoint])
    {
        batch.bytes.extend_from_slice(&added.bytes);
        batch.records.extend(added.records);
        batch.state = added.state;
    }
    Ok(batch)
}

fn checkpoint_due(batch: &Batch, every: u64) -> Option<Draft> {
    let last = batch.records.last()?;
    let compacted = batch
        .records
        .iter()
        .any(|r| matches!(r.body(), Body::Compaction(c) if c.state == CompactionState::Done));
    let in_force = &batch.state.in_force;
    let since = batch.state.end.saturating_sub(in_force.checkpoint_at.unwrap_or(0));
    (compacted || since >= every)
        .then(|| Draft::new(last.envelope.at, Body::Checkpoint(Box::new(in_force.clone()))))
}

fn plan_one(state: &State, synced: Option<Seq>, draft: Draft) -> Result<Record, StoreError> {
    let Draft { at, body } = draft;
    let body = body.into_stored();
    let (parent, parent_at) = if body.is_node() { parent_of(state) } else { (None, None) };
    let kind = body.kind().to_owned();
    let envelope = Envelope { seq: state.next_seq, parent, parent_at, at, kind, synced };
    let line = line::encode(&envelope, &body).map_err(|e| StoreError::refused(&e.to_string()))?;
    if line.len() >= MAX_LINE_BYTES {
        return Err(StoreError::refused(
            "it is too long to be one record (1 MiB); put what is long into a file",
        ));
    }
    Ok(Record::written(envelope, body, line, state.end))
}

/// The tip's seq, and its position when it is not the node written last.
fn parent_of(state: &State) -> (Option<Seq>, Option<Pos>) {
    let tip = state.in_force.tip;
    let distant = tip.filter(|t| state.in_force.last_node != Some(*t));
    (tip.map(|t| t.seq), distant)
}
