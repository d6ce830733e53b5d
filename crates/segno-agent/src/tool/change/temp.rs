//! Files beside the one that is changed.
//!
//! Responsible for: their names, making them, and sweeping away what a dead process of the same session
//! left. Must not: remove what holds somebody else's words.
//!
//! A name is `.segno-TAG-PID-N`, where the tag stands for one session on one host. Only one process at a
//! time writes a session, so what carries our tag and was not made by us is a dead process's; and what
//! an open intent names is never swept, because intents are settled before anything is prepared. Beside it
//! there may be `NAME.old` (a second name of the file while it is replaced) and `NAME.kept` (what came out
//! of the path and was not ours to remove; never swept).

use super::file::FileId;
use std::collections::{HashMap, HashSet};
use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Write as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

const PREFIX: &str = ".segno-";
/// How many names are tried before it is given up.
const TRIES: u32 = 1000;

/// The temp files of one session's tools.
#[derive(Debug, Default)]
pub(crate) struct Temps {
    tag: String,
    made: AtomicU64,
    live: Mutex<HashSet<PathBuf>>,
    swept: Mutex<HashSet<PathBuf>>,
    /// By device: whether names can be exchanged there.
    exchange: Mutex<HashMap<u64, bool>>,
}

/// A synced file beside the one that is changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Temp {
    /// Where.
    pub(crate) path: PathBuf,
    /// Which file.
    pub(crate) id: FileId,
    /// Its permissions.
    pub(crate) mode: u32,
}

impl Temps {
    /// `session` and `host` are those that the intents name.
    pub(crate) fn new(session: &str, host: &str) -> Self {
        let tag = segno_model::id::sha256_hex(format!("{session}\n{host}").as_bytes());
        Self { tag: tag.chars().take(16).collect(), ..Self::default() }
    }

    /// Makes a file with this content in `directory` and syncs it, but not its name. Without a mode it is
    /// an ordinary new file's.
    pub(crate) fn make(
        &self,
        directory: &Path,
        content: &[u8],
        mode: Option<u32>,
    ) -> std::io::Result<Temp> {
        let (path, mut file) = self.create(directory)?;
        let written = (|| {
            file.write_all(content)?;
            if let Some(mode) = mode {
                file.set_permissions(std::fs::Permissions::from_mode(mode))?;
            }
            file.sync_all()?;
            file.metadata()
        })();
        match written {
            Ok(meta) => {
                let mode = meta.permissions().mode() & 0o7777;
                Ok(Temp { path, id: FileId::of(&meta), mode })
            }
            Err(error) => {
                self.remove(&path);
                Err(error)
            }
        }
    }

    /// A name in `directory` that is free.
    pub(crate) fn free_name(&self, directory: &Path) -> std::io::Result<PathBuf> {
        for _ in 0..TRIES {
            let path = self.name(directory);
            if FileId::at(&path)?.is_none() {
                lock(&self.live).insert(path.clone());
                return Ok(path);
            }
        }
        Err(std::io::Error::other("no free name for a temporary file"))
    }

    fn name(&self, directory: &Path) -> PathBuf {
        let number = self.made.fetch_add(1, Ordering::Relaxed);
        directory.join(format!("{PREFIX}{}-{:x}-{number:x}", self.tag, std::process::id()))
    }

    fn create(&self, directory: &Path) -> std::io::Result<(PathBuf, File)> {
        for _ in 0..TRIES {
            let path = self.name(directory);
            let made = OpenOptions::new().write(true).create_new(true).mode(0o666).open(&path);
            match made {
                Ok(file) => {
                    lock(&self.live).insert(path.clone());
                    return Ok((path, file));
                }
                Err(e) if e.kind() == ErrorKind::AlreadyExists => {}
                Err(e) => return Err(e),
            }
        }
        Err(std::io::Error::other("no free name for a temporary file"))
    }

    /// Removes one of ours that is of no more use, with its second name. What cannot be removed is swept
    /// later.
    pub(crate) fn remove(&self, path: &Path) {
        for path in [path, &second_name(path)] {
            let _ = std::fs::remove_file(path);
            lock(&self.live).remove(path);
        }
    }

    /// Removes what dead processes of this session left in a directory; once per directory, since only an
    /// earlier process can have left something.
    pub(crate) fn sweep(&self, directory: &Path) {
        if self.tag.is_empty() || !lock(&self.swept).insert(directory.to_owned()) {
            return;
        }
        let ours = format!("{PREFIX}{}-", self.tag);
        for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
            let name = entry.file_name();
            let name = name.to_string_lossy();
            let path = entry.path();
            let swept = name.starts_with(&ours) && !name.ends_with(".kept");
            if swept && !lock(&self.live).contains(&path) {
                let _ = std::fs::remove_file(path);
            }
        }
    }

    /// Whether two names can be exchanged in a directory: tried once per device, with two empty files.
    pub(crate) fn can_exchange(&self, directory: &Path, dev: u64) -> std::io::Result<bool> {
        if let Some(known) = lock(&self.exchange).get(&dev) {
            return Ok(*known);
        }
        let (one, _) = self.create(directory)?;
        let other = self.create(directory);
        let can = other.map(|(other, _)| {
            let can = exchange(&one, &other).is_ok();
            self.remove(&other);
            can
        });
        self.remove(&one);
        let can = can?;
        lock(&self.exchange).insert(dev, can);
        Ok(can)
    }

    /// Takes it that names cannot be exchanged on any device.
    #[cfg(test)]
    pub(crate) fn without_exchange(self, dev: u64) -> Self {
        lock(&self.exchange).insert(dev, false);
        self
    }
}

/// Exchanges two names in one step.
#[cfg(any(target_os = "linux", target_os = "android", target_vendor = "apple"))]
pub(crate) fn exchange(one: &Path, other: &Path) -> std::io::Result<()> {
    use rustix::fs::{CWD, RenameFlags, renameat_with};
    Ok(renameat_with(CWD, one, CWD, other, RenameFlags::EXCHANGE)?)
}

#[cfg(not(any(target_os = "linux", target_os = "android", target_vendor = "apple")))]
pub(crate) fn exchange(_one: &Path, _other: &Path) -> std::io::Result<()> {
    Err(ErrorKind::Unsupported.into())
}

/// Gives a file another name unless that is taken.
pub(crate) fn rename_new(from: &Path, to: &Path) -> std::io::Result<()> {
    #[cfg(any(target_os = "linux", target_os = "android", target_vendor = "apple"))]
    {
        use rustix::fs::{CWD, RenameFlags, renameat_with};
        match renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
            Ok(()) => return Ok(()),
            Err(rustix::io::Errno::INVAL | rustix::io::Errno::NOSYS) => {}
            Err(e) => return Err(e.into()),
        }
    }
    std::fs::hard_link(from, to)?;
    std::fs::remove_file(from)
}

/// The second name of a file while a temp file replaces it.
pub(crate) fn second_name(temp: &Path) -> PathBuf {
    with_ending(temp, ".old")
}

/// Where something is kept that came out of a path and is not ours to remove.
pub(crate) fn kept_name(temp: &Path) -> PathBuf {
    with_ending(temp, ".kept")
}

fn with_ending(path: &Path, ending: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(ending);
    name.into()
}

/// A poisoned lock's data is still whole: every change under these locks is one call.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
