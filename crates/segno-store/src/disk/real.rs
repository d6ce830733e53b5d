//! The file system of this machine.
//!
//! Responsible for: one system call per operation of the [`Disk`] trait, with private modes. Must not:
//! decide anything.

use super::{Disk, DiskFile, Entry, FileId, Medium, Meta, Writes};
use crate::parallel::in_parallel;
use crate::platform;
use std::collections::HashSet;
use std::fs::{self, DirBuilder, File, OpenOptions, Permissions, TryLockError};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;
use std::time::{Duration, UNIX_EPOCH};

const FILE_MODE: u32 = 0o600;
const DIR_MODE: u32 = 0o700;
const OTHERS: u32 = 0o077;

/// The file system of this machine.
#[derive(Debug, Clone, Copy, Default)]
pub struct RealDisk;

/// An open file of this machine.
#[derive(Debug)]
pub struct RealFile(File);

fn meta_of(found: &fs::Metadata) -> Meta {
    Meta {
        id: FileId { dev: found.dev(), ino: found.ino() },
        links: found.nlink(),
        len: found.len(),
        is_dir: found.is_dir(),
        modified_ns: found.mtime().saturating_mul(1_000_000_000).saturating_add(found.mtime_nsec()),
    }
}

/// Opens what is a file. A pipe under its name would be waited for without an end.
fn open_regular(options: &mut OpenOptions, path: &Path) -> io::Result<RealFile> {
    let flags = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
    let file = options.custom_flags(flags).open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("it is no regular file"));
    }
    Ok(RealFile(file))
}

/// What is at a path below an open directory: the kernel need not walk down to the directory again.
#[allow(clippy::unnecessary_cast, reason = "the fields' types differ between systems")]
fn stat_below(dir: &File, path: &str) -> io::Result<Meta> {
    let found = rustix::fs::statat(dir, path, rustix::fs::AtFlags::empty())?;
    let seconds = (found.st_mtime as i64).saturating_mul(1_000_000_000);
    Ok(Meta {
        id: FileId { dev: found.st_dev as u64, ino: found.st_ino as u64 },
        links: found.st_nlink as u64,
        len: (found.st_size as i64).cast_unsigned(),
        is_dir: rustix::fs::FileType::from_raw_mode(found.st_mode).is_dir(),
        modified_ns: seconds.saturating_add(found.st_mtime_nsec as i64),
    })
}

impl Disk for RealDisk {
    type File = RealFile;

    fn open_read(&self, path: &Path) -> io::Result<RealFile> {
        open_regular(OpenOptions::new().read(true), path)
    }

    fn open_untouched(&self, path: &Path) -> io::Result<RealFile> {
        crate::foreign::open_untouched(path).map(RealFile)
    }

    fn open_append(&self, path: &Path) -> io::Result<RealFile> {
        open_regular(OpenOptions::new().read(true).append(true), path)
    }

    fn create_new(&self, path: &Path, writes: Writes) -> io::Result<RealFile> {
        let mut options = OpenOptions::new();
        options.read(true).create_new(true).mode(FILE_MODE);
        match writes {
            Writes::Append => options.append(true),
            Writes::Sequential => options.write(true),
        };
        let file = options.open(path)?;
        if let Err(error) = file.set_permissions(Permissions::from_mode(FILE_MODE)) {
            // Nobody would know of it. What cannot be removed either is empty.
            let _ = fs::remove_file(path);
            return Err(error);
        }
        Ok(RealFile(file))
    }

    fn create_dir(&self, path: &Path) -> io::Result<()> {
        DirBuilder::new().mode(DIR_MODE).create(path)?;
        fs::set_permissions(path, Permissions::from_mode(DIR_MODE))
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        File::open(path)?.sync_all()
    }

    fn list(&self, path: &Path) -> io::Result<Vec<Entry>> {
        let mut entries = Vec::new();
        for entry in fs::read_dir(path)? {
            let entry = entry?;
            let Ok(name) = entry.file_name().into_string() else { continue };
            let kind = entry.file_type()?;
            // A link counts as what it leads to; one that leads nowhere is a file that cannot be read.
            let is_link = kind.is_symlink();
            let is_dir = if is_link { entry.path().is_dir() } else { kind.is_dir() };
            entries.push(Entry { name, is_dir, is_link });
        }
        Ok(entries)
    }

    fn meta(&self, path: &Path) -> io::Result<Meta> {
        fs::metadata(path).map(|found| meta_of(&found))
    }

    fn metas_in<N: AsRef<str> + Sync>(
        &self,
        dirs: &[(&Path, &[N])],
        file: &str,
    ) -> Vec<io::Result<Meta>> {
        let open: Vec<_> = dirs.iter().map(|(dir, _)| (*dir, File::open(dir))).collect();
        let places = open.iter().zip(dirs);
        let places = places.flat_map(|(open, (_, folders))| folders.iter().map(move |n| (open, n)));
        let places: Vec<_> = places.collect();
        in_parallel(&places, |((dir, open), folder)| match open {
            Ok(open) => stat_below(open, &format!("{}/{file}", folder.as_ref())),
            Err(_) => self.meta(&dir.join(folder.as_ref()).join(file)),
        })
    }

    fn locked(&self, root: &Path) -> Option<HashSet<u64>> {
        match self.medium(root) {
            Ok(Medium::Local) => platform::locked_files(),
            _ => None,
        }
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn hard_link(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::hard_link(from, to)
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn remove_dir(&self, path: &Path) -> io::Result<()> {
        fs::remove_dir(path)
    }

    fn make_private(&self, path: &Path) -> io::Result<()> {
        let mode = fs::metadata(path)?.mode();
        if mode & OTHERS == 0 {
            return Ok(());
        }
        fs::set_permissions(path, Permissions::from_mode(mode & 0o7700))
    }

    fn set_modified(&self, path: &Path, ns: i64) -> io::Result<()> {
        let since = Duration::from_nanos(ns.unsigned_abs());
        let time = match ns < 0 {
            true => UNIX_EPOCH.checked_sub(since),
            false => UNIX_EPOCH.checked_add(since),
        };
        let time = time.ok_or(io::ErrorKind::InvalidInput)?;
        OpenOptions::new().write(true).open(path)?.set_modified(time)
    }

    fn take_owner(&self, from: &Path, to: &Path) -> io::Result<()> {
        let (wanted, given) = (fs::metadata(from)?, fs::metadata(to)?);
        if (wanted.uid(), wanted.gid()) == (given.uid(), given.gid()) {
            return Ok(());
        }
        std::os::unix::fs::chown(to, Some(wanted.uid()), Some(wanted.gid()))
    }

    fn take_mode(&self, from: &Path, to: &Path) -> io::Result<()> {
        const ACCESS: u32 = 0o777;
        let mode = fs::metadata(from)?.mode() & ACCESS;
        fs::set_permissions(to, Permissions::from_mode(mode))
    }

    fn medium(&self, path: &Path) -> io::Result<Medium> {
        let existing = path.ancestors().find(|p| p.exists()).unwrap_or(path);
        platform::medium(existing)
    }
}

impl DiskFile for RealFile {
    fn write(&self, bytes: &[u8]) -> io::Result<usize> {
        (&self.0).write(bytes)
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.0.read_at(buffer, offset)
    }

    fn copy_from(&self, source: &Self, offset: u64, len: u64) -> io::Result<u64> {
        match platform::copy_range(&source.0, offset, &self.0, len) {
            Some(copied) => Ok(copied),
            None => copy_by_hand(self, source, offset, len),
        }
    }

    fn sync_data(&self) -> io::Result<()> {
        self.0.sync_data()
    }

    fn sync_all(&self) -> io::Result<()> {
        self.0.sync_all()
    }

    fn truncate(&self, len: u64) -> io::Result<()> {
        self.0.set_len(len)
    }

    fn meta(&self) -> io::Result<Meta> {
        self.0.metadata().map(|found| meta_of(&found))
    }

    fn try_lock(&self) -> io::Result<bool> {
        match self.0.try_lock() {
            Ok(()) => Ok(true),
            Err(TryLockError::WouldBlock) => Ok(false),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }

    fn is_locked(&self) -> io::Result<bool> {
        match self.0.try_lock_shared() {
            Ok(()) => self.0.unlock().map(|()| false),
            Err(TryLockError::WouldBlock) => Ok(true),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }

    fn forget_cached(&self, offset: u64) {
        platform::forget_cached(&self.0, offset);
    }
}

fn copy_by_hand(to: &RealFile, from: &RealFile, offset: u64, len: u64) -> io::Result<u64> {
    const BLOCK: u64 = 256 * 1024;
    let mut block = vec![0; usize::try_from(len.min(BLOCK)).unwrap_or(0)];
    let read = from.read_at(&mut block, offset)?;
    let written = to.write(&block[..read])?;
    Ok(written as u64)
}
