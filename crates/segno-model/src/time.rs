//! Wall-clock times as the log stores them.
//!
//! Responsible for: the one text form of a time (RFC 3339, UTC, milliseconds). Must not: read a clock.
//! Times are for people; nothing in Segno orders or decides by them.

use serde::{Deserialize, Serialize};
use std::fmt;

/// Milliseconds since 1970-01-01T00:00:00Z.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Timestamp(pub i64);

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let time = jiff::Timestamp::from_millisecond(self.0).unwrap_or_default();
        write!(f, "{time:.3}")
    }
}

impl Timestamp {
    /// Reads RFC 3339 text.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        text.parse::<jiff::Timestamp>().ok().map(|t| Self(t.as_millisecond()))
    }
}

impl Serialize for Timestamp {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Timestamp {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::parse(&text).ok_or_else(|| serde::de::Error::custom("not an RFC 3339 time"))
    }
}
