//! Which sessions a process writes right now.
//!
//! Responsible for: asking who holds the locks of sessions. Must not: take one, not even for a moment: a
//! Codex that starts just then would refuse the session.

use super::super::agent::Agent;
use super::super::live::Running;
use crate::platform::{self, HeldLock};
use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// The sessions of a home that are locked. Whether they wait for a person is not told.
pub(in super::super) fn running(home: &Path) -> Vec<Running> {
    let Ok(entries) = fs::read_dir(home.join("thread-writer-locks")) else { return Vec::new() };
    let held = platform::held_locks();
    let entries = entries.filter_map(Result::ok).map(|entry| entry.path());
    let running = |path: std::path::PathBuf| {
        let id = path.file_name().and_then(OsStr::to_str)?.strip_suffix(".lock")?.to_owned();
        let pid = holder(&path, &held)?;
        Some(Running { agent: Agent::Codex, id, pid, waiting: None })
    };
    entries.filter_map(running).collect()
}

/// The process that holds a lock on a file. Some file systems number their devices in one way for locks
/// and in another for files; there the process must have the file open.
fn holder(path: &Path, held: &[HeldLock]) -> Option<u32> {
    let meta = fs::metadata(path).ok()?;
    let same = held.iter().filter(|lock| lock.ino == meta.ino());
    let mut same = same.filter(|lock| lock.dev == meta.dev() || platform::has_open(lock.pid, path));
    same.next().map(|lock| lock.pid)
}
