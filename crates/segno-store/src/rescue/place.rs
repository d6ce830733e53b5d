//! Where a repaired file goes: to a new name, or in place of the damaged one.
//!
//! Responsible for: that a file is never overwritten, and that the old one or the new one is there in full at
//! every moment, whatever dies (G1, G14). Must not: know what is in it.

use super::error::RescueError;
use super::{Plan, Rename};
use crate::disk::{Disk, DiskFile, Meta, RealDisk};
use crate::durable::{TempFile, sync_dir, write_all};
use crate::error::{store_error, write_error};
use crate::foreign::openers;
use std::cell::RefCell;
use std::ffi::OsStr;
use std::io::{self, BufWriter, ErrorKind, Read as _, Write};
use std::path::{Path, PathBuf};

/// Where the parts of a repair are now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Placed {
    /// The repaired file.
    pub file: PathBuf,
    /// The file as it was, when another one is in its place.
    pub backup: Option<PathBuf>,
    /// The lines that were set aside.
    pub set_aside: Option<PathBuf>,
    /// The same was there already, and maybe went on since; nothing was written.
    pub was_there: bool,
}

impl Plan {
    /// Writes the repaired session to a new file, and what was set aside beside that.
    ///
    /// # Errors
    /// When there is something of that name, or the session's file changed, or writing fails.
    pub fn to_new_file(&self, to: &Path) -> Result<Placed, RescueError> {
        self.to_new_file_as(to, None)
    }

    /// As [`Self::to_new_file`], with another id for the session.
    ///
    /// # Errors
    /// As [`Self::to_new_file`].
    pub fn to_new_file_as(
        &self,
        to: &Path,
        rename: Option<&Rename>,
    ) -> Result<Placed, RescueError> {
        let (disk, dir) = (RealDisk, folder(to));
        let aside = RefCell::new(Vec::new());
        let temp = TempFile::fill(&disk, &dir, |file| self.fill(file, &aside, rename))?;
        if disk.meta(to).is_ok() {
            if rename.is_some() && begins_with(to, temp.path()).map_err(RescueError::write)? {
                let (file, was_there) = (to.to_owned(), true);
                return Ok(Placed { file, backup: None, set_aside: None, was_there });
            }
            return Err(RescueError::Exists { path: to.to_owned() });
        }
        let set_aside = keep_aside(&disk, to, &aside.into_inner())?;
        if !temp.link_free(name(to)?)? {
            return Err(RescueError::Exists { path: to.to_owned() });
        }
        Ok(Placed { file: to.to_owned(), backup: None, set_aside, was_there: false })
    }

    /// Puts the repaired session in the place of its file, which is kept under another name. `holder` is asked
    /// first and last for a process that is at work on it; so is the system, for one that has the file open.
    ///
    /// # Errors
    /// When somebody is, or the file changed, or writing fails: then it is as it was, and what a refused attempt
    /// had put beside it is gone again.
    pub fn in_place(&self, holder: &dyn Fn() -> Option<u32>) -> Result<Placed, RescueError> {
        let disk = RealDisk;
        if self.is_packed {
            return Err(RescueError::Packed { path: self.path.clone() });
        }
        let failed = |e| RescueError::from(store_error("reading", &self.path, e));
        // Of a link, what it leads to is replaced.
        let path = self.path.canonicalize().map_err(failed)?;
        let expected = disk.meta(&path).map_err(failed)?;
        let holder = || holder().or_else(|| openers(&path).pids.first().copied());
        if let Some(pid) = holder() {
            return Err(RescueError::Running { path, pid });
        }
        let aside = RefCell::new(Vec::new());
        let set_aside = RefCell::new(None);
        let fill = |file: &_| {
            self.fill(file, &aside, None)?;
            *set_aside.borrow_mut() = keep_aside(&disk, &path, &aside.borrow())?;
            Ok(())
        };
        let replaced = replace(&disk, &path, expected, &fill, &holder);
        let set_aside = set_aside.into_inner();
        if let (Err(error), Some(aside)) = (&replaced, &set_aside)
            && is_refusal(error)
        {
            disk.remove_file(aside).map_err(|e| write_error("removing", aside, e))?;
        }
        let backup = Some(replaced?);
        Ok(Placed { file: path, backup, set_aside, was_there: false })
    }

    fn fill<F: DiskFile>(
        &self,
        file: &F,
        aside: &RefCell<Vec<u8>>,
        rename: Option<&Rename>,
    ) -> Result<(), RescueError> {
        let mut result = BufWriter::with_capacity(1 << 20, ToDisk(file));
        self.write(&mut result, &mut *aside.borrow_mut(), rename)
    }
}

/// Keeps the lines that were set aside in a file of their own beside `of`.
fn keep_aside(disk: &RealDisk, of: &Path, bytes: &[u8]) -> Result<Option<PathBuf>, RescueError> {
    if bytes.is_empty() {
        return Ok(None);
    }
    let dir = folder(of);
    for path in free_names(of, "set-aside") {
        if disk.meta(&path).is_err()
            && TempFile::write(disk, &dir, bytes)?.link_free(name(&path)?)?
        {
            return Ok(Some(path));
        }
    }
    Err(RescueError::Exists { path: of.to_owned() })
}

/// Puts what `fill` writes in the place of a file, and keeps that under the name that is given back. The file is
/// there in full at every moment, old or new; the new one only when the old one is kept for good.
///
/// # Errors
/// When the file is not `expected` any more, or `holder` names a process that is at work on it, or the disk
/// refuses: then it is as it was.
pub fn replace<D: Disk>(
    disk: &D,
    path: &Path,
    expected: Meta,
    fill: &dyn Fn(&D::File) -> Result<(), RescueError>,
    holder: &dyn Fn() -> Option<u32>,
) -> Result<PathBuf, RescueError> {
    let changed = || RescueError::Changed { path: path.to_owned() };
    let is_same = |path: &Path| disk.meta(path).is_ok_and(|meta| same(meta, expected));
    let dir = folder(path);
    let temp = TempFile::fill(disk, &dir, fill)?;
    if !is_same(path) {
        return Err(changed());
    }
    let backup = back_up(disk, path, expected)?;
    let refused = match holder() {
        Some(pid) => Some(RescueError::Running { path: path.to_owned(), pid }),
        None => (!is_same(path)).then(changed),
    };
    if let Some(error) = refused {
        // What the second name leads to may be all that is left of the old file.
        if disk.meta(path).is_ok_and(|meta| meta.id == expected.id) {
            disk.remove_file(&backup).map_err(|e| write_error("removing", &backup, e))?;
            sync_dir(disk, &dir)?;
        }
        return Err(error);
    }
    temp.replace(name(path)?)?;
    // Somebody who had it open may have written to it until now.
    if disk.meta(&backup).is_ok_and(|meta| meta.id == expected.id && !same(meta, expected)) {
        disk.rename(&backup, path).map_err(|e| write_error("naming", path, e))?;
        sync_dir(disk, &dir)?;
        return Err(changed());
    }
    Ok(backup)
}

/// Whether nothing was put in the file's place because somebody is at work on it.
fn is_refusal(error: &RescueError) -> bool {
    matches!(error, RescueError::Running { .. } | RescueError::Changed { .. })
}

/// Whether one file holds all of another, and maybe more behind it.
fn begins_with(file: &Path, start: &Path) -> io::Result<bool> {
    let (mut file, mut start) =
        (crate::foreign::open_untouched(file)?, std::fs::File::open(start)?);
    let (mut ours, mut theirs) = (vec![0; 64 << 10], vec![0; 64 << 10]);
    loop {
        let read = start.read(&mut theirs)?;
        if read == 0 {
            return Ok(true);
        }
        match file.read_exact(&mut ours[..read]) {
            Ok(()) if ours[..read] == theirs[..read] => {}
            Ok(()) => return Ok(false),
            Err(e) if e.kind() == ErrorKind::UnexpectedEof => return Ok(false),
            Err(e) => return Err(e),
        }
    }
}

fn same(one: Meta, other: Meta) -> bool {
    (one.id, one.len, one.modified_ns) == (other.id, other.len, other.modified_ns)
}

/// Gives a file a second name that is free, or a copy where there are no second names.
fn back_up<D: Disk>(disk: &D, path: &Path, expected: Meta) -> Result<PathBuf, RescueError> {
    let dir = folder(path);
    for backup in free_names(path, "before-repair") {
        // An attempt that came this far and no further.
        if disk.meta(&backup).is_ok_and(|meta| meta.id == expected.id) {
            sync_dir(disk, &dir)?;
            return Ok(backup);
        }
        match disk.hard_link(path, &backup) {
            Ok(()) => {
                sync_dir(disk, &dir)?;
                return Ok(backup);
            }
            Err(e) if e.kind() == ErrorKind::AlreadyExists => {}
            Err(_) => {
                let source = disk.open_read(path).map_err(|e| store_error("reading", path, e))?;
                let (temp, _) = TempFile::copy(disk, &dir, &source, (0, expected.len))?;
                if temp.link_free(name(&backup)?)? {
                    return Ok(backup);
                }
            }
        }
    }
    Err(RescueError::Exists { path: path.to_owned() })
}

/// `FILE.WORD`, `FILE.WORD-2` and so on.
fn free_names(path: &Path, word: &str) -> impl Iterator<Item = PathBuf> {
    let base = path.as_os_str().to_owned();
    let word = word.to_owned();
    (1_u32..1000).map(move |n| {
        let mut name = base.clone();
        name.push(format!(".{word}"));
        if n > 1 {
            name.push(format!("-{n}"));
        }
        PathBuf::from(name)
    })
}

fn folder(path: &Path) -> PathBuf {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent.to_owned(),
        _ => PathBuf::from("."),
    }
}

fn name(path: &Path) -> Result<&str, RescueError> {
    let name = path.file_name().and_then(OsStr::to_str);
    name.ok_or_else(|| RescueError::write(io::Error::other("the file's name is no UTF-8")))
}

/// A file of a disk as something to write to.
struct ToDisk<'f, F>(&'f F);

impl<F: DiskFile> Write for ToDisk<'_, F> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        write_all(self.0, bytes).map(|()| bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
