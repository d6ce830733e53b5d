//! What differs from one operating system to the next about processes.
//!
//! Responsible for: one file per platform with the same functions; facts that a platform does not offer
//! are empty or none, and the callers then claim less. Must not: decide anything.

#[cfg(target_os = "linux")]
mod linux;
#[cfg(target_os = "linux")]
use linux as this;

#[cfg(not(target_os = "linux"))]
mod other;
#[cfg(not(target_os = "linux"))]
use other as this;

pub(crate) use this::{boot_id, call_itself, group_lives, process_started, survivors, watch};

use rustix::time::{ClockId, clock_gettime};
use segno_model::Timestamp;
use std::path::PathBuf;
use std::time::Duration;

/// A process that a command left behind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Survivor {
    /// Its number.
    pub pid: u32,
    /// Its program and arguments, as far as they can be seen.
    pub command: String,
}

/// Where the running program is, also when its file was replaced since it started.
#[must_use]
pub fn this_program() -> PathBuf {
    this::own_program()
        .or_else(|| std::env::current_exe().ok())
        .unwrap_or_else(|| PathBuf::from("segno"))
}

/// This machine's name on the network.
pub(crate) fn host() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

/// Now, for people.
#[must_use]
pub fn wall_clock() -> Timestamp {
    let now = clock_gettime(ClockId::Realtime);
    Timestamp(now.tv_sec.saturating_mul(1000).saturating_add(now.tv_nsec / 1_000_000))
}

/// Time that nobody can set.
pub(crate) fn steady() -> Duration {
    let now = clock_gettime(this::STEADY);
    let (seconds, nanos) = (u64::try_from(now.tv_sec), u32::try_from(now.tv_nsec));
    Duration::new(seconds.unwrap_or(0), nanos.unwrap_or(0))
}
