//! The whole outside world of the file store, as one small trait.
//!
//! Responsible for: naming every operation that the store performs on a file system, so that a
//! simulated disk can stand in for it. Must not: know sessions, records or layouts, or retry anything.

mod real;

pub use real::{RealDisk, RealFile};

use std::collections::HashSet;
use std::io;
use std::path::Path;

/// Which file something is, independent of its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct FileId {
    /// The device.
    pub dev: u64,
    /// The inode on it.
    pub ino: u64,
}

/// What a file system tells about a file or directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Meta {
    /// Which one it is.
    pub id: FileId,
    /// How many names it has; 0 when it was removed while open.
    pub links: u64,
    /// How many bytes it holds.
    pub len: u64,
    /// Whether it is a directory.
    pub is_dir: bool,
    /// When it was changed last, in nanoseconds since 1970; only for noticing that it changed.
    pub modified_ns: i64,
}

/// An entry of a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Its name; names that are not UTF-8 are never ours and are left out.
    pub name: String,
    /// Whether it is a directory, links followed.
    pub is_dir: bool,
    /// Whether it is a link to what it is.
    pub is_link: bool,
}

/// What kind of file system a path is on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Medium {
    /// One whose locks and syncs mean what they say.
    Local,
    /// One where they may not; its name, for people.
    Network(&'static str),
}

/// How a new file is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Writes {
    /// Every write goes to the end, whoever else writes (logs).
    Append,
    /// One write after the other from the beginning (files that get their name when they are done).
    Sequential,
}

/// A file system.
///
/// Files are made readable and writable by their owner only, directories likewise, whatever the
/// umask says (G17). Links are followed everywhere.
pub trait Disk: std::fmt::Debug + Clone + Send + Sync + 'static {
    /// An open file. Dropping it closes it and gives up its lock.
    type File: DiskFile;

    /// Opens an existing file for reading.
    ///
    /// # Errors
    /// As the system says.
    fn open_read(&self, path: &Path) -> io::Result<Self::File>;

    /// Opens an existing file of somebody else for reading, so that its access time stays as it is where the system
    /// allows that.
    ///
    /// # Errors
    /// As the system says.
    fn open_untouched(&self, path: &Path) -> io::Result<Self::File> {
        self.open_read(path)
    }

    /// Opens an existing file for reading and for writing at its end.
    ///
    /// # Errors
    /// As the system says.
    fn open_append(&self, path: &Path) -> io::Result<Self::File>;

    /// Creates a file that must not exist, for reading and writing.
    ///
    /// # Errors
    /// `AlreadyExists` when anything has that name; otherwise as the system says.
    fn create_new(&self, path: &Path, writes: Writes) -> io::Result<Self::File>;

    /// Creates one directory.
    ///
    /// # Errors
    /// `AlreadyExists` when anything has that name; otherwise as the system says.
    fn create_dir(&self, path: &Path) -> io::Result<()>;

    /// Makes a directory's entries durable.
    ///
    /// # Errors
    /// As the system says.
    fn sync_dir(&self, path: &Path) -> io::Result<()>;

    /// A directory's entries, in no particular order.
    ///
    /// # Errors
    /// As the system says.
    fn list(&self, path: &Path) -> io::Result<Vec<Entry>>;

    /// What is at a path.
    ///
    /// # Errors
    /// `NotFound` when nothing is; otherwise as the system says.
    fn meta(&self, path: &Path) -> io::Result<Meta>;

    /// What is at `file` in each of several folders of a directory, in their order; as [`Disk::meta`], many
    /// at once.
    fn metas<N: AsRef<str> + Sync>(
        &self,
        dir: &Path,
        folders: &[N],
        file: &str,
    ) -> Vec<io::Result<Meta>> {
        self.metas_in(&[(dir, folders)], file)
    }

    /// The same in several directories, all of them at once: one list behind the other.
    fn metas_in<N: AsRef<str> + Sync>(
        &self,
        dirs: &[(&Path, &[N])],
        file: &str,
    ) -> Vec<io::Result<Meta>> {
        let below = |(dir, folders): &(&Path, &[N])| -> Vec<io::Result<Meta>> {
            folders.iter().map(|name| self.meta(&dir.join(name.as_ref()).join(file))).collect()
        };
        dirs.iter().flat_map(below).collect()
    }

    /// The numbers of all files on which somebody has a lock now, or none where that is not known for
    /// sure for files below `root`. A number says nothing about the device; whoever finds a file in here asks the file.
    fn locked(&self, root: &Path) -> Option<HashSet<u64>> {
        let _ = root;
        None
    }

    /// Gives a file or directory a new name, replacing what a file's new name stood for.
    ///
    /// # Errors
    /// As the system says.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Gives a file a second name without ever replacing anything.
    ///
    /// # Errors
    /// `AlreadyExists` when the new name is taken; otherwise as the system says.
    fn hard_link(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Removes a file's name.
    ///
    /// # Errors
    /// As the system says.
    fn remove_file(&self, path: &Path) -> io::Result<()>;

    /// Removes an empty directory.
    ///
    /// # Errors
    /// As the system says.
    fn remove_dir(&self, path: &Path) -> io::Result<()>;

    /// Takes from others the access that they have to an existing file or directory.
    ///
    /// # Errors
    /// As the system says.
    fn make_private(&self, path: &Path) -> io::Result<()>;

    /// Sets when a file was changed last, in ns since 1970: a copy tells the time of what it is a copy of. A disk
    /// that cannot do that leaves it.
    ///
    /// # Errors
    /// As the system says.
    fn set_modified(&self, path: &Path, ns: i64) -> io::Result<()> {
        let _ = (path, ns);
        Ok(())
    }

    /// Gives a file the owner and the group of another one, and nothing where they are its own. A disk on which nobody
    /// owns anything has nothing to do.
    ///
    /// # Errors
    /// `PermissionDenied` when that is not ours to give; otherwise as the system says.
    fn take_owner(&self, from: &Path, to: &Path) -> io::Result<()> {
        let _ = (from, to);
        Ok(())
    }

    /// Lets the same people read and write a file as another one.
    ///
    /// # Errors
    /// As the system says.
    fn take_mode(&self, from: &Path, to: &Path) -> io::Result<()> {
        let _ = (from, to);
        Ok(())
    }

    /// What kind of file system a path, or its nearest existing ancestor, is on.
    ///
    /// # Errors
    /// As the system says.
    fn medium(&self, path: &Path) -> io::Result<Medium>;
}

/// An open file.
pub trait DiskFile: std::fmt::Debug + Send + Sync + 'static {
    /// Writes bytes, possibly fewer than given; says how many.
    ///
    /// # Errors
    /// As the system says; nothing was written then.
    fn write(&self, bytes: &[u8]) -> io::Result<usize>;

    /// Reads bytes at an offset, possibly fewer than asked for; 0 at the end.
    ///
    /// # Errors
    /// As the system says.
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize>;

    /// Writes `len` bytes of `source` from `offset` on, sharing storage where the system can; says
    /// how many, which may be fewer.
    ///
    /// # Errors
    /// As the system says.
    fn copy_from(&self, source: &Self, offset: u64, len: u64) -> io::Result<u64>;

    /// Makes content and length durable.
    ///
    /// # Errors
    /// As the system says; what is on the medium is unknown then.
    fn sync_data(&self) -> io::Result<()>;

    /// Makes content, length and all other facts durable.
    ///
    /// # Errors
    /// As the system says; what is on the medium is unknown then.
    fn sync_all(&self) -> io::Result<()>;

    /// Cuts the file.
    ///
    /// # Errors
    /// As the system says.
    fn truncate(&self, len: u64) -> io::Result<()>;

    /// What the open file is now.
    ///
    /// # Errors
    /// As the system says.
    fn meta(&self) -> io::Result<Meta>;

    /// Takes the file's exclusive lock if nobody has it. The kernel frees it when the file is closed
    /// or the process ends, however it ends.
    ///
    /// # Errors
    /// As the system says; that somebody has it is `Ok(false)`.
    fn try_lock(&self) -> io::Result<bool>;

    /// Whether somebody else has the exclusive lock. Asking takes nothing from anybody.
    ///
    /// # Errors
    /// As the system says.
    fn is_locked(&self) -> io::Result<bool>;

    /// Asks the system to read from the medium, and not from memory, what was not written to since
    /// it was synced last. After a failed sync, memory can hold what the medium does not. Best effort.
    fn forget_cached(&self, offset: u64);
}
