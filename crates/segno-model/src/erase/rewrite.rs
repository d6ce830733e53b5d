//! The lines of a log with some records emptied.
//!
//! Responsible for: lines that say what they said, under positions that hold in the new log. Must not:
//! change a byte of a line that refers to nothing that moved.

use super::{Gone, emptied};
use crate::id::{Pos, Seq};
use crate::line::{LineError, Record, decode, encode, encode_erased, sealed, split_crc};
use crate::record::Body;
use crate::state::State;
use crate::store::StoreError;
use std::collections::{BTreeSet, HashMap};

/// Writes a log anew, record by record, from its first to its last.
#[derive(Debug)]
pub struct Rewriter {
    gone: Gone,
    /// Where records were, and where they are now; those that stayed as they are are not in it.
    moved: HashMap<Pos, Pos>,
    state: State,
}

impl Rewriter {
    /// With these records emptied.
    #[must_use]
    pub fn new(chosen: BTreeSet<Seq>) -> Self {
        Self { gone: Gone::new(chosen), moved: HashMap::new(), state: State::default() }
    }

    /// The next record's line in the new log, with its line end.
    ///
    /// # Errors
    /// When a chosen record cannot be emptied, or a line cannot be written.
    pub fn line(&mut self, record: &Record) -> Result<Vec<u8>, StoreError> {
        let refused = |why: &str| refused(record, why);
        self.gone.pass(record);
        let unwritten = |e: serde_json::Error| refused(&e.to_string());
        let mut line = if let Body::Checkpoint(_) = record.body() {
            // Folded from records of the new log: its positions hold there.
            let body = Body::Checkpoint(Box::new(self.state.in_force.clone()));
            encode(&record.envelope, &body).map_err(unwritten)?
        } else if let Some(line) = self.without_what_is_gone(record)? {
            let plain = decode(&line, record.offset).map_err(|e| refused(&why(&e)))?;
            self.with_new_positions(&plain)
        } else {
            self.with_new_positions(record)
        };
        let offset = if record.seq() == 0 { 0 } else { self.state.end };
        let new = decode(&line, offset).map_err(|e| refused(&why(&e)))?;
        if new.pos() != record.pos() {
            self.moved.insert(record.pos(), new.pos());
        }
        self.state.apply(&new);
        line.push(b'\n');
        Ok(line)
    }

    /// A record of which something goes, under its old positions; none when it stays as it is.
    fn without_what_is_gone(&self, record: &Record) -> Result<Option<Vec<u8>>, StoreError> {
        let written = if self.gone.is_chosen(record) {
            let rest = emptied(record.body());
            let rest = rest.ok_or_else(|| refused(record, "nothing was said in it"))?;
            encode_erased(&record.envelope, &rest)
        } else if let Some(rest) = self.gone.rest_of(record) {
            // Whoever was erased before stays so.
            let encode = if record.is_erased() { encode_erased } else { encode };
            encode(&record.envelope, &rest)
        } else {
            return Ok(None);
        };
        written.map(Some).map_err(|e| refused(record, &e.to_string()))
    }

    /// The line with every position in it that names a moved record written anew. In texts the quotes are
    /// escaped, so what looks like a position is one, whoever wrote it.
    fn with_new_positions(&self, record: &Record) -> Vec<u8> {
        let old: &[u8] = &record.line;
        // Set-aside bytes that were told of are named so that a shorter log does not take them for untold.
        let told = record.envelope.kind == "repair";
        let (mut new, mut copied) = (Vec::new(), 0);
        for start in memchr::memmem::find_iter(old, b"{\"seq\":") {
            let Some((at, len)) = position(&old[start..]) else { continue };
            if let Some(now) = self.moved.get(&at) {
                new.extend_from_slice(&old[copied..start]);
                new.extend_from_slice(text(now).as_bytes());
                copied = start + len;
            }
        }
        new.extend_from_slice(&old[copied..]);
        if told {
            new = replaced(&new, b"\"file\":\"tail-", b"\"file\":\"told-");
        }
        match split_crc(&new) {
            Some((covered, _)) if new != old => sealed(covered.to_vec()),
            _ => new,
        }
    }
}

fn refused(record: &Record, why: &str) -> StoreError {
    StoreError::Refused(format!("record {}: {why}", record.seq()))
}

fn why(error: &LineError) -> String {
    format!("its new line cannot be read ({error:?})")
}

/// A position at the beginning of some bytes, as this version writes it, and how long it is.
fn position(bytes: &[u8]) -> Option<(Pos, usize)> {
    let end = memchr::memchr(b'}', bytes.get(..96.min(bytes.len()))?)? + 1;
    let found: Pos = serde_json::from_slice(&bytes[..end]).ok()?;
    (text(&found).as_bytes() == &bytes[..end]).then_some((found, end))
}

fn text(at: &Pos) -> String {
    format!("{{\"seq\":{},\"offset\":{},\"crc\":\"{:08x}\"}}", at.seq, at.offset, at.crc)
}

fn replaced(bytes: &[u8], old: &[u8], new: &[u8]) -> Vec<u8> {
    let (mut out, mut copied) = (Vec::with_capacity(bytes.len()), 0);
    for start in memchr::memmem::find_iter(bytes, old) {
        out.extend_from_slice(&bytes[copied..start]);
        out.extend_from_slice(new);
        copied = start + old.len();
    }
    out.extend_from_slice(&bytes[copied..]);
    out
}
