//! Failures on command.
//!
//! Responsible for: counting operations and deciding which of them fails. Must not: know what an
//! operation does.

use std::io::{self, ErrorKind};

/// Kinds of operations.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum OpKind {
    /// Opening an existing file.
    Open,
    /// Creating a file.
    Create,
    /// Creating a directory.
    CreateDir,
    /// Reading a file.
    Read,
    /// Writing to a file.
    Write,
    /// Syncing a file.
    Sync,
    /// Syncing a directory.
    SyncDir,
    /// Cutting a file.
    Truncate,
    /// Looking at a file, a path or the file system.
    Meta,
    /// Listing a directory.
    List,
    /// Renaming.
    Rename,
    /// Linking.
    Link,
    /// Removing.
    Remove,
    /// Locking.
    Lock,
}

impl OpKind {
    fn changes_something(self) -> bool {
        use OpKind::{Create, CreateDir, Link, Remove, Rename, Sync, SyncDir, Truncate, Write};
        let changing = [Create, CreateDir, Write, Sync, SyncDir, Truncate, Rename, Link, Remove];
        changing.contains(&self)
    }
}

/// One failure to come.
#[derive(Debug, Clone, Copy)]
pub struct Fault {
    /// Which kind of operation fails.
    pub on: OpKind,
    /// How many operations of that kind succeed before.
    pub after: u64,
    /// How.
    pub error: ErrorKind,
    /// Whether all later ones fail as well.
    pub forever: bool,
}

impl Fault {
    /// The next operation of a kind fails, once.
    #[must_use]
    pub fn next(on: OpKind, error: ErrorKind) -> Self {
        Self { on, after: 0, error, forever: false }
    }
}

/// Counters and failures to come.
#[derive(Debug, Default)]
pub(super) struct Faults {
    pub(super) count: u64,
    pub(super) changes: u64,
    pub(super) stop_at_change: Option<u64>,
    pub(super) stop_at: Option<u64>,
    pub(super) waiting: Vec<Fault>,
    pub(super) short_writes: bool,
    pub(super) file_syncs: u64,
    pub(super) dir_syncs: u64,
    pub(super) bytes_read: u64,
}

impl Faults {
    /// Counts an operation; an error when it is to fail.
    pub(super) fn begin(&mut self, kind: OpKind) -> io::Result<()> {
        if self.stop_at.is_some_and(|stop| self.count >= stop) {
            return Err(io::Error::other("the process is dead"));
        }
        if kind.changes_something() {
            if self.stop_at_change.is_some_and(|stop| self.changes >= stop) {
                self.stop_at = Some(self.count);
                return Err(io::Error::other("the process is dead"));
            }
            self.changes += 1;
        }
        self.count += 1;
        let Some(i) = self.waiting.iter().position(|f| f.on == kind) else { return Ok(()) };
        let fault = &mut self.waiting[i];
        if fault.after > 0 {
            fault.after -= 1;
            return Ok(());
        }
        let error = fault.error;
        if !fault.forever {
            self.waiting.remove(i);
        }
        Err(error.into())
    }
}
