//! Where a repaired file goes: to a new name, or in place of the damaged one.
//!
//! Responsible for: that a file is never overwritten, and that the old one or the new one is there in full at
//! every moment, whatever dies (G1, G14). Must not: know what is in it.

use super::error::RescueError;
use super::{Plan, Rename};
use crate::disk::{Disk, DiskFile, Meta, RealDisk};
use crate::durable::{TempFile, read_file, sync_dir, write_all};
use crate::error::{store_error, write_error};
use crate::foreign::openers;
use crate::leftovers::sweep_nameless;
use segno_model::store::StoreError;
use std::cell::RefCell;
use std::ffi::OsStr;
use std::io::{self, BufWriter, ErrorKind, Read as _, Write};
use std::path::{Path, PathBuf};

/// What the name of a file as it was ends with.
const BACKUP: &str = "before-repair";

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
        if rename.is_some() {
            // Whoever's session it is opens the copy too. That of somebody else stays ours where it has to.
            let _ = disk.take_owner(&self.path, temp.path());
        }
        if disk.meta(to).is_ok() {
            return there(to, &temp, rename);
        }
        let aside = keep_aside(&disk, to, &aside.into_inner(), None)?;
        match link(&disk, &temp, to) {
            Ok(true) => {
                let set_aside = aside.map(|aside| aside.path);
                Ok(Placed { file: to.to_owned(), backup: None, set_aside, was_there: false })
            }
            // Another process was quicker. What it set aside is the same, and has the same name.
            Ok(false) if there(to, &temp, rename).is_ok() => there(to, &temp, rename),
            Ok(false) => take_back(&disk, aside, RescueError::Exists { path: to.to_owned() }),
            Err(error) => take_back(&disk, aside, error.into()),
        }
    }

    /// How many other names the file has, but for those that attempts of ours gave it. What is in its place later
    /// has none of them.
    #[must_use]
    pub fn other_names(&self) -> u64 {
        let Ok(path) = self.path.canonicalize() else { return 0 };
        let Ok(meta) = RealDisk.meta(&path) else { return 0 };
        let ours = free_names(&path, BACKUP)
            .map_while(|backup| RealDisk.meta(&backup).ok())
            .filter(|backup| backup.id == meta.id);
        meta.links.saturating_sub(1 + ours.count() as u64)
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
        sweep_nameless(&disk, &folder(&path));
        let bytes = RefCell::new(Vec::new());
        let aside = RefCell::new(None);
        let fill = |file: &_| {
            self.fill(file, &bytes, None)?;
            *aside.borrow_mut() = keep_aside(&disk, &path, &bytes.borrow(), Some(&path))?;
            Ok(())
        };
        let replaced = replace(&disk, &path, expected, &fill, &holder);
        let aside = aside.into_inner();
        match replaced {
            Ok(backup) => {
                let (backup, set_aside) = (Some(backup), aside.map(|aside| aside.path));
                Ok(Placed { file: path, backup, set_aside, was_there: false })
            }
            Err(error @ RescueError::Unsure { .. }) => Err(error),
            Err(error) => take_back(&disk, aside, error),
        }
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

/// A file with lines that were set aside.
struct Aside {
    path: PathBuf,
    /// Whether it is new, and not there from a repair that set aside the same.
    is_new: bool,
}

/// Keeps the lines that were set aside in a file of their own beside `of`, with the owner and mode of `like`.
fn keep_aside(
    disk: &RealDisk,
    of: &Path,
    bytes: &[u8],
    like: Option<&Path>,
) -> Result<Option<Aside>, RescueError> {
    if bytes.is_empty() {
        return Ok(None);
    }
    let dir = folder(of);
    let temp = TempFile::write_held(disk, &dir, bytes)?;
    if let Some(like) = like {
        take_access(disk, like, &temp)?;
    }
    for path in free_names(of, "set-aside") {
        if link(disk, &temp, &path)? {
            return Ok(Some(Aside { path, is_new: true }));
        }
        if read_file(disk, &path).is_ok_and(|there| there == bytes) {
            sync_dir(disk, &dir)?;
            return Ok(Some(Aside { path, is_new: false }));
        }
    }
    Err(RescueError::Exists { path: of.to_owned() })
}

/// Gives a file its name; false when that is taken. Where that fails, it does not have it.
fn link(disk: &RealDisk, temp: &TempFile<'_, RealDisk>, to: &Path) -> Result<bool, StoreError> {
    let own = disk.meta(temp.path()).map(|meta| meta.id).ok();
    let linked = temp.link_free(name(to)?);
    if linked.is_err() && own.is_some() && disk.meta(to).map(|meta| meta.id).ok() == own {
        // What cannot be removed is whole, and the error that is told says more.
        let _ = disk.remove_file(to);
    }
    linked
}

/// The file that is there already, if it is the one that was to be made.
fn there(
    to: &Path,
    temp: &TempFile<'_, RealDisk>,
    rename: Option<&Rename>,
) -> Result<Placed, RescueError> {
    let file = to.to_owned();
    if rename.is_some() && begins_with(to, temp.path()).map_err(RescueError::write)? {
        return Ok(Placed { file, backup: None, set_aside: None, was_there: true });
    }
    Err(RescueError::Exists { path: file })
}

/// The error, when what was set aside for nothing is gone again.
fn take_back<T>(
    disk: &RealDisk,
    aside: Option<Aside>,
    error: RescueError,
) -> Result<T, RescueError> {
    match aside.filter(|aside| aside.is_new) {
        Some(Aside { path, .. }) if disk.remove_file(&path).is_err() => {
            Err(RescueError::Left { path, source: Box::new(error) })
        }
        _ => Err(error),
    }
}

/// Gives a file that is to have another one's place its owner, group and mode.
fn take_access<D: Disk>(disk: &D, from: &Path, temp: &TempFile<'_, D>) -> Result<(), RescueError> {
    let owner = |source| RescueError::Owner { path: from.to_owned(), source };
    disk.take_owner(from, temp.path()).map_err(owner)?;
    disk.take_mode(from, temp.path()).map_err(|e| write_error("writing", temp.path(), e))?;
    Ok(temp.sync()?)
}

/// Puts what `fill` writes in the place of a file, and keeps that under the name that is given back. The file is
/// there in full at every moment, old or new; the new one only when the old one is kept for good.
///
/// # Errors
/// When the file is not `expected` any more, or `holder` names a process that is at work on it, or its owner cannot be
/// kept, or the disk refuses: then it is as it was and nothing is beside it, unless the error says otherwise.
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
    take_access(disk, path, &temp)?;
    if !is_same(path) {
        return Err(changed());
    }
    let backup = back_up(disk, path, expected)?;
    let refused = match holder() {
        Some(pid) => Some(RescueError::Running { path: path.to_owned(), pid }),
        None => (!is_same(path)).then(changed),
    };
    if let Some(error) = refused {
        return Err(give_up(disk, path, expected, backup, error));
    }
    if let Err(error) = temp.move_to(path) {
        return Err(give_up(disk, path, expected, backup, error.into()));
    }
    if let Err(source) = sync_dir(disk, &dir) {
        return Err(RescueError::Unsure { path: path.to_owned(), backup, source });
    }
    // Somebody who had it open may have written to it until now.
    if disk.meta(&backup).is_ok_and(|meta| meta.id == expected.id && !same(meta, expected)) {
        if let Err(e) = disk.rename(&backup, path) {
            let source = write_error("naming", path, e);
            return Err(RescueError::Unsure { path: path.to_owned(), backup, source });
        }
        sync_dir(disk, &dir)?;
        return Err(changed());
    }
    Ok(backup)
}

/// Takes the second name away from a file that was not replaced after all, and gives the error.
fn give_up<D: Disk>(
    disk: &D,
    path: &Path,
    expected: Meta,
    backup: PathBuf,
    error: RescueError,
) -> RescueError {
    // What the second name leads to may be all that is left of the old file.
    let is_old = disk.meta(path).is_ok_and(|meta| meta.id == expected.id);
    if is_old && disk.remove_file(&backup).is_ok() {
        // That it comes back when power is lost is no harm: the next attempt takes it for its own.
        let _ = disk.sync_dir(&folder(path));
        return error;
    }
    RescueError::Left { path: backup, source: Box::new(error) }
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
    for backup in free_names(path, BACKUP) {
        // An attempt that came this far and no further.
        if disk.meta(&backup).is_ok_and(|meta| meta.id == expected.id) {
            sync_dir(disk, &dir)?;
            return Ok(backup);
        }
        match disk.hard_link(path, &backup) {
            Ok(()) => {
                return match sync_dir(disk, &dir) {
                    Ok(()) => Ok(backup),
                    Err(e) => Err(give_up(disk, path, expected, backup, e.into())),
                };
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

fn name(path: &Path) -> Result<&str, StoreError> {
    let name = path.file_name().and_then(OsStr::to_str);
    name.ok_or_else(|| StoreError::refused("the file's name is no UTF-8"))
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
