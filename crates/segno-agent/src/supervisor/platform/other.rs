//! Systems other than Linux (macOS first).
//!
//! Responsible for: the same functions with what every Unix offers; facts that need more are empty. Must
//! not: guess.

use super::Survivor;
use rustix::process::Pid;
use rustix::time::ClockId;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

/// The clock that nobody can set.
pub(crate) const STEADY: ClockId = ClockId::Monotonic;

pub(crate) fn own_program() -> Option<PathBuf> {
    None
}

pub(crate) fn call_itself(_name: &str) {}

pub(crate) fn boot_id() -> String {
    String::new()
}

pub(crate) fn process_started(_pid: u32) -> u64 {
    0
}

pub(crate) fn watch(_dir: &Path) -> Option<OwnedFd> {
    None
}

pub(crate) fn group_lives(_group: Pid) -> Option<bool> {
    None
}

pub(crate) fn survivors(_leader: u32, _started: u64, _mark: &str) -> Vec<Survivor> {
    Vec::new()
}
