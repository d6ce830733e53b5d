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
/// The type is the guard against path traversal (G17): no other text can become one. The text is held in
/// place: lists hold tens of thousands.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SessionId([u8; LEN]);

/// How long an id's text is.
const LEN: usize = 36;

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
        let is_fit = |(i, byte): (usize, &u8)| match i {
            8 | 13 | 18 | 23 => *byte == b'-',
            _ => byte.is_ascii_digit() || (b'a'..=b'f').contains(byte),
        };
        match <[u8; LEN]>::try_from(text.as_bytes()) {
            Ok(bytes) if bytes.iter().enumerate().all(is_fit) => Ok(Self(bytes)),
            _ => Err(InvalidId(text.to_owned())),
        }
    }

    /// The id's text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        // Nothing else is ever in it.
        std::str::from_utf8(&self.0).unwrap_or_default()
    }

    /// The first eight characters, for people; not unique.
    #[must_use]
    pub fn short(&self) -> &str {
        self.as_str().get(..8).unwrap_or_default()
    }

    /// When it was made, in milliseconds since 1970; none for a child's id, which follows from a call and carries
    /// no time (version 8).
    #[must_use]
    pub fn dated_ms(&self) -> Option<i64> {
        (self.0.get(14) != Some(&b'8')).then(|| self.created_ms())
    }

    /// Milliseconds since 1970 that a version 7 id carries; meaningless for other versions.
    #[must_use]
    pub fn created_ms(&self) -> i64 {
        let digits = self.0.iter().filter_map(|byte| char::from(*byte).to_digit(16)).take(12);
        digits.fold(0, |ms, digit| ms << 4 | i64::from(digit))
    }
}

impl AsRef<str> for SessionId {
    fn as_ref(&self) -> &str {
        self.as_str()
    }
}

impl fmt::Debug for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("SessionId").field(&self.as_str()).finish()
    }
}

impl fmt::Display for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Serialize for SessionId {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
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
