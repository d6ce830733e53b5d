//! The real clock and the real source of ids.
//!
//! Responsible for: the only two places that read the time or draw random numbers. Must not: be used
//! by anything that wants the same answer twice.

use segno_model::SessionId;
use segno_model::store::{Clock, Ids};
use segno_model::time::Timestamp;
use std::time::{SystemTime, UNIX_EPOCH};

/// The system's wall clock.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    #[expect(
        clippy::disallowed_methods,
        reason = "this is the Clock that everything else is given"
    )]
    fn now(&self) -> Timestamp {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Timestamp(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
    }
}

/// UUIDs of version 7: they sort by the time of their making.
#[derive(Debug, Clone, Copy, Default)]
pub struct UuidIds;

impl Ids for UuidIds {
    #[expect(clippy::disallowed_methods, reason = "this is the Ids that everything else is given")]
    fn session_id(&self) -> SessionId {
        let text = uuid::Uuid::now_v7().hyphenated().to_string();
        SessionId::parse(&text).expect("invariant: a UUID in its usual form is a session id")
    }
}
