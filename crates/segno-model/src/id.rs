//! Identifiers and the two ways of naming a record.
//!
//! Responsible for: what a session id may look like (so that an id can never be a path), record
//! numbers, and the verified position of a distant record. Must not: generate ids (randomness comes
//! in through [`crate::store::Ids`]) or look anything up.

use serde::{Deserialize, Serialize};
use std::fmt;

/// A record's number: its line's number in the log, counted from 0 (the header).
pub type Seq = u64;

/// A session's id: a lower-case hyphenated UUID. Version 7 for sessions that we create.
///
/// The type is the guard against path traversal (G17): no other text can become one.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(transparent)]
pub struct SessionId(String);

/// Text that is not a session id.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a session id (expected a lower-case UUID)")]
pub struct InvalidId(pub String);

impl SessionId {
    /// Checks `text` and takes it as an id.
    ///
    /// # Errors
    /// [`InvalidId`] when it is not 36 characters of lower-case hex in the UUID grouping.
    pub fn parse(text: &str) -> Result<Self, InvalidId> {
        let grouped = text.len() == 36
            && text.bytes().enumerate().all(|(i, b)| match i {
                8 | 13 | 18 | 23 => b == b'-',
                _ => b.is_ascii_digit() || (b'a'..=b'f').contains(&b),
            });
        if grouped { Ok(Self(text.to_owned())) } else { Err(InvalidId(text.to_owned())) }
    }

    /// The id's text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The first eight characters, for people; not unique.
    #[must_use]
    pub fn short(&self) -> &str {
        &self.0[..8]
    }

    /// Milliseconds since 1970 that a version 7 id carries; meaningless for other versions.
    #[must_use]
    pub fn created_ms(&self) -> i64 {
        let hex: String = self.0.chars().filter(|c| *c != '-').take(12).collect();
        i64::from_str_radix(&hex, 16).unwrap_or(0)
    }
}

impl fmt::Display for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for SessionId {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::parse(&text).map_err(serde::de::Error::custom)
    }
}

/// A record named so that a reader can jump to it and know that it is the right one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Pos {
    /// The record's number.
    pub seq: Seq,
    /// Byte offset of its line, counted from the end of line 1, so that it stays right in a fork.
    pub offset: u64,
    /// Its checksum.
    #[serde(with = "crate::line::hex_crc")]
    pub crc: u32,
}

/// SHA-256 of some bytes as 64 lower-case hex digits: the name of a blob, the identity of a tool set.
#[must_use]
pub fn sha256_hex(bytes: &[u8]) -> String {
    use sha2::{Digest, Sha256};
    Sha256::digest(bytes).iter().map(|b| format!("{b:02x}")).collect()
}
