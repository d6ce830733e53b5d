//! What differs from one operating system to the next: file system kinds, process identity, copying.
//!
//! Responsible for: one file per platform with the same functions. Must not: be called from anywhere
//! but the real disk, the owner file and the readers of other agents' files.

#[cfg(target_os = "linux")]
mod linux;
#[cfg(target_os = "linux")]
pub(crate) use linux::{
    boot_id, copy_range, forget_cached, has_open, held_locks, locked_files, medium, open_untouched,
    openers, process_started,
};

#[cfg(not(target_os = "linux"))]
mod other;
#[cfg(not(target_os = "linux"))]
pub(crate) use other::{
    boot_id, copy_range, forget_cached, has_open, held_locks, locked_files, medium, open_untouched,
    openers, process_started,
};

/// Which other processes have a file open, as far as can be seen.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Openers {
    /// Their ids, ascending.
    pub pids: Vec<u32>,
    /// Whether there are processes whose files cannot be seen: another user's, or all of them where the system
    /// does not tell.
    pub unseen: bool,
}

/// A lock on a file that a process holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct HeldLock {
    /// The process that took it.
    pub(crate) pid: u32,
    /// The file's device.
    pub(crate) dev: u64,
    /// The file's number.
    pub(crate) ino: u64,
}

/// This machine's name on the network.
pub(crate) fn host() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}
