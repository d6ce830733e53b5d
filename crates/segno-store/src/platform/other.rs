//! Systems other than Linux (macOS first).
//!
//! Responsible for: the same functions with what the standard library offers. Facts that need more
//! are empty. On macOS the standard library's syncs are full syncs already. Must not: guess.

use super::HeldLock;
use crate::disk::Medium;
use std::fs::File;
use std::io;
use std::path::Path;

/// Network file systems are not told apart here.
pub(crate) fn medium(_path: &Path) -> io::Result<Medium> {
    Ok(Medium::Local)
}

pub(crate) fn copy_range(_from: &File, _offset: u64, _to: &File, _len: u64) -> Option<u64> {
    None
}

/// Never waits for whoever would write into a pipe.
pub(crate) fn open_untouched(path: &Path) -> io::Result<File> {
    use std::os::unix::fs::OpenOptionsExt;
    let flags = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
    std::fs::OpenOptions::new().read(true).custom_flags(flags).open(path)
}

pub(crate) fn forget_cached(_file: &File, _offset: u64) {}

pub(crate) fn held_locks() -> Vec<HeldLock> {
    Vec::new()
}

pub(crate) fn locked_files() -> Option<std::collections::HashSet<u64>> {
    None
}

pub(crate) fn has_open(_pid: u32, _path: &Path) -> bool {
    false
}

pub(crate) fn openers(_path: &Path) -> super::Openers {
    super::Openers { pids: Vec::new(), unseen: true }
}

pub(crate) fn boot_id() -> String {
    String::new()
}

pub(crate) fn process_started(_pid: u32) -> u64 {
    0
}
