//! Directories and whole files that are there for good, or not at all.
//!
//! Responsible for: creating directories and files so that they survive power loss once a function
//! returns (G1), private from the start (G17). Must not: know what the files are for.

use crate::disk::{Disk, DiskFile, Writes};
use crate::error::{store_error, write_error};
use crate::layout::exists;
use segno_model::store::StoreError;
use sha2::{Digest, Sha256};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// How the names of files begin that have no name of their own yet.
pub(crate) const TEMP: &str = ".tmp-";

/// Creates `path` and whatever is missing above it down from `root` (and above that), then makes every
/// entry on the way durable, also those that were there: an earlier attempt, of this process or of one that
/// died, may have created them and not have come to syncing them.
pub(crate) fn create_dirs<D: Disk>(disk: &D, root: &Path, path: &Path) -> Result<(), StoreError> {
    let mut missing = Vec::new();
    for dir in path.ancestors().filter(|p| !p.as_os_str().is_empty()) {
        if exists(disk, dir)? {
            break;
        }
        missing.push(dir);
    }
    for dir in missing.iter().rev() {
        match disk.create_dir(dir) {
            Err(e) if e.kind() != ErrorKind::AlreadyExists => {
                return Err(write_error("creating", dir, e));
            }
            _ => {}
        }
    }
    sync_above(disk, root, path, &missing)?;
    for dir in path.ancestors().take_while(|p| p.starts_with(root) && *p != root) {
        disk.make_private(dir).map_err(|e| write_error("making private", dir, e))?;
    }
    Ok(())
}

/// Makes the entry of `path`, and of each directory above it on the same medium, durable. What is above
/// `root` and was not made here may be closed to us; we cannot have made anything in it then.
fn sync_above<D: Disk>(
    disk: &D,
    root: &Path,
    path: &Path,
    made: &[&Path],
) -> Result<(), StoreError> {
    let device = disk.meta(path).map(|meta| meta.id.dev).ok();
    for dir in path.ancestors().skip(1) {
        let shown = if dir.as_os_str().is_empty() { Path::new(".") } else { dir };
        let ours = dir.starts_with(root) || made.iter().any(|made| made.parent() == Some(dir));
        if !ours && disk.meta(shown).map(|meta| meta.id.dev).ok() != device {
            break;
        }
        match disk.sync_dir(shown) {
            Err(e) if !ours && e.kind() == ErrorKind::PermissionDenied => {}
            other => other.map_err(|e| write_error("syncing", shown, e))?,
        }
    }
    Ok(())
}

pub(crate) fn sync_dir<D: Disk>(disk: &D, dir: &Path) -> Result<(), StoreError> {
    disk.sync_dir(dir).map_err(|e| write_error("syncing", dir, e))
}

/// Writes all bytes; a short write is continued.
pub(crate) fn write_all<F: DiskFile>(file: &F, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        match file.write(bytes) {
            Ok(0) => return Err(ErrorKind::StorageFull.into()),
            Ok(n) => bytes = &bytes[n..],
            Err(e) if e.kind() == ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(())
}

/// A synced file without its final name yet. Removed when it gets none.
pub(crate) struct TempFile<'a, D: Disk> {
    disk: &'a D,
    path: PathBuf,
    dir: &'a Path,
    /// Open and locked as long as this lives, where others have to see that somebody is at work on it.
    held: Option<D::File>,
}

impl<'a, D: Disk> TempFile<'a, D> {
    /// Writes and syncs `bytes` in `dir`.
    pub(crate) fn write(disk: &'a D, dir: &'a Path, bytes: &[u8]) -> Result<Self, StoreError> {
        let (path, file) = create_temp(disk, dir)?;
        let temp = Self { disk, path, dir, held: None };
        write_all(&file, bytes)
            .and_then(|()| file.sync_all())
            .map_err(|e| write_error("writing", &temp.path, e))?;
        Ok(temp)
    }

    /// Lets `fill` write in `dir`, a folder of somebody else's, and syncs what it wrote. It is locked until it has its
    /// name or is gone: what is found there without a lock was left behind.
    pub(crate) fn fill<E: From<StoreError>>(
        disk: &'a D,
        dir: &'a Path,
        fill: impl FnOnce(&D::File) -> Result<(), E>,
    ) -> Result<Self, E> {
        let (path, file) = create_held(disk, dir)?;
        let mut temp = Self { disk, path, dir, held: None };
        fill(&file)?;
        file.sync_all().map_err(|e| write_error("writing", &temp.path, e))?;
        temp.held = Some(file);
        Ok(temp)
    }

    /// As [`Self::write`], in a folder of somebody else's.
    pub(crate) fn write_held(disk: &'a D, dir: &'a Path, bytes: &[u8]) -> Result<Self, StoreError> {
        Self::fill(disk, dir, |file| {
            write_all(file, bytes).map_err(|e| write_error("writing a file in", dir, e))
        })
    }

    /// Makes durable what was changed about it since it was written.
    pub(crate) fn sync(&self) -> Result<(), StoreError> {
        let synced = self.held.as_ref().map_or(Ok(()), DiskFile::sync_all);
        synced.map_err(|e| write_error("writing", &self.path, e))
    }

    /// Writes and syncs `len` bytes of `source` from `offset` on; gives their SHA-256 too.
    pub(crate) fn copy(
        disk: &'a D,
        dir: &'a Path,
        source: &D::File,
        (offset, len): (u64, u64),
    ) -> Result<(Self, String), StoreError> {
        const BLOCK: u64 = 1 << 20;
        let (path, file) = create_temp(disk, dir)?;
        let temp = Self { disk, path, dir, held: None };
        let fail = |e| write_error("writing", &temp.path, e);
        let mut hasher = Sha256::new();
        let mut block = vec![0; usize::try_from(len.min(BLOCK)).unwrap_or(0)];
        let mut done = 0;
        while done < len {
            let want = usize::try_from((len - done).min(BLOCK)).unwrap_or(0);
            let read = read_full(source, &mut block[..want], offset + done).map_err(fail)?;
            if read == 0 {
                return Err(StoreError::refused("the bytes to copy are not there any more"));
            }
            hasher.update(&block[..read]);
            write_all(&file, &block[..read]).map_err(fail)?;
            done += read as u64;
        }
        file.sync_all().map_err(fail)?;
        let hash = hasher.finalize().iter().map(|b| format!("{b:02x}")).collect();
        Ok((temp, hash))
    }

    /// Gives it its name unless that is taken. Durable in both cases: whoever took the name may have
    /// died before syncing it.
    pub(crate) fn link_as(self, name: &str) -> Result<(), StoreError> {
        let to = self.dir.join(name);
        match self.disk.hard_link(&self.path, &to) {
            Ok(()) => {}
            Err(e) if e.kind() == ErrorKind::AlreadyExists => {}
            // Some local file systems have no hard links.
            Err(_) if !exists(self.disk, &to)? => self.move_to(&to)?,
            Err(e) => return Err(write_error("linking", &to, e)),
        }
        sync_dir(self.disk, self.dir)
    }

    /// Gives it another name that must be free; not durable until its directory is synced.
    pub(crate) fn link_new(self, to: &Path) -> io::Result<()> {
        self.disk.hard_link(&self.path, to)
    }

    /// Where it is until it has a name.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Gives it its name; false when that is taken.
    pub(crate) fn link_free(&self, name: &str) -> Result<bool, StoreError> {
        let to = self.dir.join(name);
        match self.disk.hard_link(&self.path, &to) {
            Ok(()) => {}
            Err(e) if e.kind() == ErrorKind::AlreadyExists => return Ok(false),
            // Some local file systems have no hard links.
            Err(_) if !exists(self.disk, &to)? => self.move_to(&to)?,
            Err(e) => return Err(write_error("linking", &to, e)),
        }
        sync_dir(self.disk, self.dir)?;
        Ok(true)
    }

    /// Gives it its name, replacing what had it.
    pub(crate) fn replace(self, name: &str) -> Result<(), StoreError> {
        self.move_to(&self.dir.join(name))?;
        sync_dir(self.disk, self.dir)
    }

    /// Gives it its name, replacing what had it; not durable until its directory is synced.
    pub(crate) fn move_to(&self, to: &Path) -> Result<(), StoreError> {
        self.disk.rename(&self.path, to).map_err(|e| write_error("naming", to, e))
    }
}

impl<D: Disk> Drop for TempFile<'_, D> {
    fn drop(&mut self) {
        // After a rename there is nothing left to remove; otherwise a leftover is only clutter.
        let _ = self.disk.remove_file(&self.path);
    }
}

/// Writes a small file that is only information: whole when it is there, not synced.
pub(crate) fn write_note<D: Disk>(
    disk: &D,
    dir: &Path,
    name: &str,
    bytes: &[u8],
) -> io::Result<()> {
    let (path, file) = create_temp(disk, dir).map_err(io::Error::other)?;
    let done = write_all(&file, bytes).and_then(|()| disk.rename(&path, &dir.join(name)));
    if done.is_err() {
        // A leftover is only clutter.
        let _ = disk.remove_file(&path);
    }
    done
}

pub(crate) fn create_temp<D: Disk>(disk: &D, dir: &Path) -> Result<(PathBuf, D::File), StoreError> {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    loop {
        let n = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = dir.join(format!("{TEMP}{}-{n}", std::process::id()));
        match disk.create_new(&path, Writes::Sequential) {
            Ok(file) => return Ok((path, file)),
            // A process with this number left it behind.
            Err(e) if e.kind() == ErrorKind::AlreadyExists => {}
            // The name says nothing to anybody.
            Err(e) => return Err(write_error("creating a file in", dir, e)),
        }
    }
}

/// A file without a name in a folder in which anybody removes what nobody has locked.
fn create_held<D: Disk>(disk: &D, dir: &Path) -> Result<(PathBuf, D::File), StoreError> {
    /// How often one may be taken for a leftover before it is locked.
    const TRIES: u32 = 100;
    for _ in 0..TRIES {
        let (path, file) = create_temp(disk, dir)?;
        // Where there are no locks, nothing is taken for a leftover.
        let locked = file.try_lock().unwrap_or(true);
        let is_named = match (disk.meta(&path), file.meta()) {
            (Ok(named), Ok(own)) => named.id == own.id,
            (Err(e), _) if e.kind() == ErrorKind::NotFound => false,
            (Err(e), _) | (_, Err(e)) => {
                let _ = disk.remove_file(&path);
                return Err(write_error("creating a file in", dir, e));
            }
        };
        if locked && is_named {
            return Ok((path, file));
        }
    }
    Err(StoreError::Refused(format!("new files in {} are removed all the time", dir.display())))
}

/// Reads a whole file.
pub(crate) fn read_file<D: Disk>(disk: &D, path: &Path) -> io::Result<Vec<u8>> {
    let file = disk.open_read(path)?;
    let len = file.meta()?.len;
    let mut bytes = Vec::new();
    let wanted = usize::try_from(len).map_err(|_| io::Error::from(ErrorKind::FileTooLarge))?;
    bytes.resize(wanted, 0);
    let read = read_full(&file, &mut bytes, 0)?;
    bytes.truncate(read);
    Ok(bytes)
}

/// Reads until the buffer is full or the file ends; says how much.
pub(crate) fn read_full<F: DiskFile>(
    file: &F,
    buffer: &mut [u8],
    offset: u64,
) -> io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match file.read_at(&mut buffer[filled..], offset + filled as u64) {
            Ok(0) => break,
            Ok(n) => filled += n,
            Err(e) if e.kind() == ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(filled)
}

/// Removes a directory with everything in it. Links are removed, never followed.
pub(crate) fn remove_tree<D: Disk>(disk: &D, dir: &Path) -> Result<(), StoreError> {
    for entry in disk.list(dir).map_err(|e| store_error("listing", dir, e))? {
        let path = dir.join(&entry.name);
        if entry.is_dir && !entry.is_link {
            remove_tree(disk, &path)?;
        } else {
            disk.remove_file(&path).map_err(|e| write_error("removing", &path, e))?;
        }
    }
    disk.remove_dir(dir).map_err(|e| write_error("removing", dir, e))
}
