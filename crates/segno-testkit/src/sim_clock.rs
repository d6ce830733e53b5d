//! A clock and an id source that do only what a test tells them.
//!
//! Responsible for: reproducible times and session ids. Must not: read the real clock or draw real
//! random numbers.

use crate::sessions::Rng;
use segno_model::store::{Clock, Ids};
use segno_model::{SessionId, Timestamp};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// 2026-01-01T00:00:00Z, where simulated time begins.
pub const EPOCH: Timestamp = Timestamp(1_767_225_600_000);

/// A clock that moves only when told, or by a fixed step each time it is read. Clones share the time.
#[derive(Debug, Clone)]
pub struct SimClock {
    time: Arc<Mutex<Time>>,
}

#[derive(Debug)]
struct Time {
    now: i64,
    step: i64,
}

impl Default for SimClock {
    fn default() -> Self {
        Self::at(EPOCH)
    }
}

impl SimClock {
    /// A clock that stands still at `now`.
    #[must_use]
    pub fn at(now: Timestamp) -> Self {
        Self::stepping(now, 0)
    }

    /// A clock that advances by `step` milliseconds with each reading.
    #[must_use]
    pub fn stepping(start: Timestamp, step: i64) -> Self {
        Self { time: Arc::new(Mutex::new(Time { now: start.0, step })) }
    }

    /// Moves the time by `ms`, which may be negative: clocks do go backwards.
    pub fn advance(&self, ms: i64) {
        self.lock().now += ms;
    }

    /// Sets the time.
    pub fn set(&self, now: Timestamp) {
        self.lock().now = now.0;
    }

    fn lock(&self) -> MutexGuard<'_, Time> {
        self.time.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Clock for SimClock {
    fn now(&self) -> Timestamp {
        let mut time = self.lock();
        let now = Timestamp(time.now);
        time.now += time.step;
        now
    }
}

/// Session ids in the form of version 7 UUIDs: the same sequence for the same seed. Clones share it.
#[derive(Debug, Clone)]
pub struct SimIds {
    rng: Arc<Mutex<Rng>>,
    clock: SimClock,
}

impl SimIds {
    /// Ids whose random part follows from `seed` and whose time part is read from `clock`.
    #[must_use]
    pub fn new(seed: u64, clock: SimClock) -> Self {
        Self { rng: Arc::new(Mutex::new(Rng::new(seed))), clock }
    }
}

impl Ids for SimIds {
    fn session_id(&self) -> SessionId {
        let ms = u64::try_from(self.clock.now().0).unwrap_or(0) & 0xffff_ffff_ffff;
        let mut rng = self.rng.lock().unwrap_or_else(PoisonError::into_inner);
        let (a, b) = (rng.next_u64(), rng.next_u64());
        let text = format!(
            "{:08x}-{:04x}-7{:03x}-{:04x}-{:012x}",
            ms >> 16,
            ms & 0xffff,
            a & 0xfff,
            0x8000 | (a >> 16) & 0x3fff,
            b & 0xffff_ffff_ffff,
        );
        SessionId::parse(&text).expect("invariant: the text is grouped lower-case hex")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    /// Time stands still until it is told to move, also backwards. Covers: #109.
    #[test]
    fn time_moves_only_when_told() {
        let clock = SimClock::default();
        assert_eq!((clock.now(), clock.now()), (EPOCH, EPOCH));
        clock.clone().advance(-1500);
        assert_eq!(clock.now(), Timestamp(EPOCH.0 - 1500));
        let stepping = SimClock::stepping(EPOCH, 2);
        assert_eq!((stepping.now().0, stepping.now().0), (EPOCH.0, EPOCH.0 + 2));
    }

    /// A thousand ids under a clock that stands still are all different, carry that clock's time, and
    /// repeat for the same seed. Covers: #22, EV7.
    #[test]
    fn ids_are_unique_dated_and_reproducible() {
        let ids = |seed| {
            let source = SimIds::new(seed, SimClock::default());
            (0..1000).map(|_| source.session_id()).collect::<Vec<_>>()
        };
        let first = ids(1);
        assert_eq!(first.iter().collect::<HashSet<_>>().len(), 1000);
        assert!(first.iter().all(|id| id.created_ms() == EPOCH.0));
        assert_eq!(first, ids(1));
        assert_ne!(first[0], ids(2)[0]);
    }
}
