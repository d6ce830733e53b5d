//! One change at a time to a file, across processes.
//!
//! Responsible for: a lock per file that the kernel holds, from the reading of the content that a change
//! expects until the change is durable. Whoever dies lets go of it. Must not: put anything beside the file
//! that is changed, wait without end, or stand in for the check at the exchange: editors do not ask here.
//!
//! A lock is an empty file that is held with `flock`, in a private directory, named by the hash of the
//! resolved path; a second one is named by the file's identity, for what is reached under several names.
//! Whoever holds one removes it before letting go, so a lock counts only while its name still leads to it.

use super::error::ToolError;
use segno_model::id::sha256_hex;
use std::fs::{DirBuilder, File, Metadata, OpenOptions, TryLockError};
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How often a file that somebody else changes is asked for, ten seconds in all.
const TRIES: u32 = 200;

/// The pause between two tries.
const PAUSE: Duration = Duration::from_millis(50);

/// How often a name that was removed at this moment is made again within one try.
const RACES: u32 = 100;

/// The locks of everybody who uses the same directory.
#[derive(Debug, Default)]
pub(crate) struct FileLocks {
    /// Where they are; none, and everything is free.
    directory: Option<PathBuf>,
}

/// The right to change a file, while this lives.
#[derive(Debug, Default)]
pub(crate) struct FileLock {
    _parts: Vec<Part>,
}

/// One held name.
#[derive(Debug)]
struct Part {
    name: PathBuf,
    _held: File,
}

impl Drop for Part {
    fn drop(&mut self) {
        // One that stays is empty, held by nobody, and taken by whoever comes next.
        let _ = std::fs::remove_file(&self.name);
    }
}

impl FileLocks {
    pub(crate) fn new(directory: Option<PathBuf>) -> Self {
        Self { directory }
    }

    /// The lock of the file at this resolved path, if nobody has it.
    pub(crate) fn try_take(&self, path: &Path) -> Result<Option<FileLock>, ToolError> {
        let Some(directory) = &self.directory else { return Ok(Some(FileLock::default())) };
        attempt(directory, path).map_err(|e| ToolError::io(path, e))
    }

    /// The same; waits for it for a while. Not to be called by one who holds another one.
    pub(crate) fn take(&self, path: &Path) -> Result<FileLock, ToolError> {
        self.take_pausing(path, || std::thread::sleep(PAUSE))
    }

    fn take_pausing(&self, path: &Path, mut pause: impl FnMut()) -> Result<FileLock, ToolError> {
        for _ in 0..TRIES {
            if let Some(lock) = self.try_take(path)? {
                return Ok(lock);
            }
            pause();
        }
        Err(ToolError::Refused(format!(
            "{} is being changed by another agent, and that does not end; nothing was written. Try \
             again, or go on with something else first.",
            path.display()
        )))
    }
}

/// Both names of a file, or nothing.
fn attempt(directory: &Path, path: &Path) -> io::Result<Option<FileLock>> {
    DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
    let by_path = sha256_hex(path.as_os_str().as_bytes());
    let Some(path_part) = part(directory, &by_path)? else { return Ok(None) };
    let identity = identity(path)?;
    let Some(id) = &identity else { return Ok(Some(FileLock { _parts: vec![path_part] })) };
    let Some(file_part) = part(directory, &sha256_hex(id.as_bytes()))? else { return Ok(None) };
    // Under another of its names it may have been replaced meanwhile.
    let same = self::identity(path)? == identity;
    Ok(same.then(|| FileLock { _parts: vec![path_part, file_part] }))
}

/// What lies at a path; none when nothing does.
fn identity(path: &Path) -> io::Result<Option<String>> {
    match std::fs::metadata(path) {
        Ok(meta) => Ok(Some(format!("file {}:{}", meta.dev(), meta.ino()))),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

fn part(directory: &Path, name: &str) -> io::Result<Option<Part>> {
    let name = directory.join(name);
    for _ in 0..RACES {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(&name)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Ok(None),
            Err(TryLockError::Error(error)) => return Err(error),
        }
        if std::fs::symlink_metadata(&name).is_ok_and(|at| is_same(&at, &file)) {
            return Ok(Some(Part { name, _held: file }));
        }
    }
    Ok(None)
}

fn is_same(at: &Metadata, file: &File) -> bool {
    file.metadata().is_ok_and(|meta| (meta.dev(), meta.ino()) == (at.dev(), at.ino()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    fn scene() -> (tempfile::TempDir, PathBuf, FileLocks) {
        let dir = tempfile::tempdir().unwrap();
        let project = dir.path().join("project");
        std::fs::create_dir(&project).unwrap();
        let locks = FileLocks::new(Some(dir.path().join("locks")));
        (dir, project, locks)
    }

    /// Covers: G7.
    #[test]
    fn one_holds_a_file_and_lets_go_of_it() {
        let (dir, project, locks) = scene();
        let (a, b) = (project.join("a"), project.join("b"));
        std::fs::write(&a, "x").unwrap();
        let held = locks.take(&a).unwrap();
        assert!(locks.try_take(&a).unwrap().is_none());
        assert!(locks.try_take(&b).unwrap().is_some(), "another file");
        let mode = std::fs::metadata(dir.path().join("locks")).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o700);
        drop(held);
        assert!(locks.try_take(&a).unwrap().is_some());
        assert_eq!(std::fs::read_dir(dir.path().join("locks")).unwrap().count(), 0, "none stays");
        assert_eq!(std::fs::read_dir(&project).unwrap().count(), 1, "none beside the file");
    }

    #[test]
    fn a_file_under_two_names_and_one_that_is_not_there_yet() {
        let (_dir, project, locks) = scene();
        let (a, b, new) = (project.join("a"), project.join("b"), project.join("new"));
        std::fs::write(&a, "x").unwrap();
        std::fs::hard_link(&a, &b).unwrap();
        let held = locks.take(&a).unwrap();
        assert!(locks.try_take(&b).unwrap().is_none());
        drop(held);
        let held = locks.take(&new).unwrap();
        std::fs::write(&new, "x").unwrap();
        assert!(locks.try_take(&new).unwrap().is_none(), "its name is held, too");
        drop(held);
    }

    /// What a killed process left counts for nothing, and a wait ends either way.
    #[test]
    fn a_wait_ends() {
        let (dir, project, locks) = scene();
        let a = project.join("a");
        let first = locks.take(&a).unwrap();
        let name = std::fs::read_dir(dir.path().join("locks")).unwrap().next().unwrap().unwrap();
        let (mut held, mut pauses) = (Some(first), 0);
        let second = locks.take_pausing(&a, || {
            pauses += 1;
            if pauses == 3 {
                held = None;
            }
        });
        assert!(second.is_ok() && pauses == 3);
        let refused = locks.take_pausing(&a, || {}).unwrap_err().to_string();
        assert!(refused.contains("another agent") && refused.contains("nothing was written"));
        drop(second);
        std::fs::write(name.path(), "").unwrap();
        assert!(locks.try_take(&a).unwrap().is_some(), "left by a dead process");
    }
}
