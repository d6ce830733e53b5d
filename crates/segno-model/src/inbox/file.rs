//! What a file in an inbox holds (`docs/format/inbox.md`).
//!
//! Responsible for: one line of JSON with a checksum at its end, as in the log. Must not: know paths.

use super::{InputBody, MAX_INPUT_BYTES, NewInput, Pending};
use crate::line::{checksum, crc_tail, split_crc};
use crate::store::StoreError;
use crate::time::Timestamp;
use serde::{Deserialize, Serialize};

/// The members in their order.
#[derive(Serialize)]
struct Written<'a> {
    order: u64,
    at: Timestamp,
    id: &'a str,
    #[serde(flatten)]
    body: &'a InputBody,
}

#[derive(Deserialize)]
struct Read {
    order: u64,
    at: Timestamp,
    #[serde(flatten)]
    input: NewInput,
}

/// The file's bytes.
///
/// # Errors
/// [`StoreError::Refused`] when it is larger than an input may be.
pub fn encode(order: u64, at: Timestamp, input: &NewInput) -> Result<Vec<u8>, StoreError> {
    let written = Written { order, at, id: &input.id, body: &input.body };
    let mut bytes =
        serde_json::to_vec(&written).map_err(|e| StoreError::refused(&e.to_string()))?;
    if bytes.len() > MAX_INPUT_BYTES {
        return Err(StoreError::refused(
            "an input has at most 16 MiB; put what is long into a file",
        ));
    }
    bytes.pop();
    let crc = checksum(&bytes);
    bytes.extend_from_slice(&crc_tail(crc));
    bytes.push(b'\n');
    Ok(bytes)
}

/// Why a file is no input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileError {
    /// Its bytes are not those that were written; why, for people.
    Damaged(&'static str),
    /// They are, and a later version wrote them.
    Unknown,
}

/// Reads a file's bytes.
///
/// # Errors
/// [`FileError`].
pub fn decode(bytes: &[u8]) -> Result<Pending, FileError> {
    let damaged = FileError::Damaged;
    let line = bytes.strip_suffix(b"\n").ok_or(damaged("it does not end where it should"))?;
    let (covered, stored) = split_crc(line).ok_or(damaged("it has no checksum"))?;
    if checksum(covered) != stored {
        return Err(damaged("its checksum does not match"));
    }
    let Read { order, at, input } = serde_json::from_slice(line).map_err(|_| FileError::Unknown)?;
    Ok(Pending { order, at, stale: false, input })
}

/// The order that a file names, from its first bytes alone; 0 when they do not tell.
#[must_use]
pub fn order_of(head: &[u8]) -> u64 {
    let number = head.strip_prefix(b"{\"order\":").unwrap_or_default();
    let digits = number.iter().take_while(|b| b.is_ascii_digit()).count();
    let text = number.get(..digits).and_then(|digits| std::str::from_utf8(digits).ok());
    text.and_then(|text| text.parse().ok()).unwrap_or(0)
}

/// How many bytes of a file [`order_of`] looks at.
pub const ORDER_BYTES: usize = 32;
