//! Whole logs, streamed.
//!
//! Responsible for: the bytes that a store would have written for a generated session. Must not: hold
//! more than one batch in memory.

use super::bodies::header;
use super::{Generator, Shape};
use crate::sim_clock::EPOCH;
use segno_model::batch::{Draft, plan_with_checkpoint};
use segno_model::state::State;
use segno_model::{Body, Record, SessionId};
use std::io::{self, Write};

/// What was written.
#[derive(Debug, Clone)]
pub struct Written {
    /// How many bytes.
    pub bytes: u64,
    /// How many records.
    pub records: u64,
    /// The state at the end.
    pub state: State,
}

/// Writes the log of the session `id` of this shape, as if every batch had been synced.
///
/// # Errors
/// As the writer.
pub fn write_log(id: &SessionId, shape: Shape, out: &mut dyn Write) -> io::Result<Written> {
    let mut generator = Generator::new(shape);
    let mut written = Written { bytes: 0, records: 0, state: State::default() };
    let first = Draft::new(EPOCH, Body::Session(Box::new(header(id.clone()))));
    let mut next = Some(vec![first]);
    while let Some(drafts) = next {
        let records = write_batch(drafts, &mut written, out)?;
        next = generator.next_batch(&written.state, &records);
    }
    out.flush()?;
    Ok(written)
}

fn write_batch(
    drafts: Vec<Draft>,
    written: &mut Written,
    out: &mut dyn Write,
) -> io::Result<Vec<Record>> {
    let synced = written.state.next_seq.checked_sub(1);
    let batch = plan_with_checkpoint(&written.state, synced, drafts).map_err(io::Error::other)?;
    out.write_all(&batch.bytes)?;
    written.bytes += batch.bytes.len() as u64;
    written.records += batch.records.len() as u64;
    batch.apply_to(&mut written.state);
    Ok(batch.records)
}

/// The whole log in memory; for small shapes.
#[must_use]
pub fn log_bytes(id: &SessionId, shape: Shape) -> Vec<u8> {
    let mut bytes = Vec::new();
    write_log(id, shape, &mut bytes).expect("invariant: memory takes every write");
    bytes
}
