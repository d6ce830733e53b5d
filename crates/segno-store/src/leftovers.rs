//! What killed processes left behind besides torn tails: forks that were never finished, files that
//! never got their name.
//!
//! Responsible for: removing them once it is certain that nobody works on them any more. Must not: go by
//! age or by process numbers; only the kernel's locks tell. Must not: fail; a leftover is only clutter.
//!
//! A fork that is being built holds the lock of its log from before it writes anything. Files without a
//! name are made in a session's directories only by the holder of its lock.

use crate::disk::{Disk, DiskFile, Writes};
use crate::durable::{TEMP, create_dirs, remove_tree};
use crate::error::{store_error, write_error};
use crate::layout::{Layout, SessionDir, exists};
use crate::lock;
use segno_model::store::StoreError;
use std::io;
use std::path::Path;

const FORK: &str = ".fork-";

/// How often a fork's directory may be taken for a leftover before it has its lock.
const SWEPT_TRIES: u32 = 100;

/// Where a fork is built.
pub(crate) fn fork_name(id: &segno_model::SessionId) -> String {
    format!("{FORK}{id}-{}", std::process::id())
}

/// Creates a fork's directory and log, locked. Whoever finds the log unlocked knows that its builder is
/// gone, or is about to notice that the directory is.
pub(crate) fn begin_fork<D: Disk>(
    disk: &D,
    root: &Path,
    building: &SessionDir,
) -> Result<D::File, StoreError> {
    let path = building.log();
    for _ in 0..SWEPT_TRIES {
        let made = create_dirs(disk, root, building.path()).and_then(|()| {
            disk.create_new(&path, Writes::Sequential)
                .map_err(|e| write_error("creating", &path, e))
        });
        match made {
            Ok(file) => {
                let locked = lock::lock(&file).map_err(|e| store_error("locking", &path, e))?;
                if locked && is_named(disk, &path, &file) {
                    return Ok(file);
                }
            }
            Err(error) if exists(disk, &path).unwrap_or(true) => return Err(error),
            Err(error) if exists(disk, building.path()).unwrap_or(true) => return Err(error),
            Err(_) => {}
        }
    }
    Err(StoreError::Refused(format!("{} is removed all the time", building.path().display())))
}

/// Removes forks whose builders are gone.
pub(crate) fn sweep_forks<D: Disk>(disk: &D, layout: &Layout) {
    for month in directories(disk, &layout.sessions()) {
        sweep_forks_in(disk, &layout.sessions().join(month));
    }
}

/// The same in one directory of sessions: a month's, or one of children.
pub(crate) fn sweep_forks_in<D: Disk>(disk: &D, dir: &Path) {
    for name in directories(disk, dir).filter(|name| name.starts_with(FORK)) {
        let _ = sweep_fork(disk, &SessionDir::new(dir.join(name)));
    }
}

/// The forks in a directory of sessions, a month's or one of children, whose builders are gone.
pub(crate) fn abandoned_forks<D: Disk>(disk: &D, dir: &Path) -> Vec<String> {
    let abandoned = |name: &String| {
        let log = SessionDir::new(dir.join(name)).log();
        // Without a log, one is about to be made, or was about to be.
        !disk.open_read(&log).and_then(|file| file.is_locked()).unwrap_or(false)
    };
    directories(disk, dir).filter(|name| name.starts_with(FORK)).filter(abandoned).collect()
}

/// Removes one fork if its builder is gone.
pub(crate) fn sweep_fork<D: Disk>(disk: &D, building: &SessionDir) -> io::Result<()> {
    let path = building.log();
    let file = match disk.open_read(&path) {
        Ok(file) => file,
        // Killed before there was a log. Only an empty directory can be removed like this.
        Err(e) if e.kind() == io::ErrorKind::NotFound => return disk.remove_dir(building.path()),
        Err(e) => return Err(e),
    };
    // One that was locked and renamed meanwhile is finished, and somebody's session.
    if !file.try_lock()? || !is_named(disk, &path, &file) {
        return Ok(());
    }
    // The log goes last: without it, nobody could tell any more that the builder is gone.
    for entry in
        disk.list(building.path())?.into_iter().filter(|e| building.path().join(&e.name) != path)
    {
        let path = building.path().join(entry.name);
        if entry.is_dir && !entry.is_link {
            remove_tree(disk, &path).map_err(io::Error::other)?;
        } else {
            disk.remove_file(&path)?;
        }
    }
    disk.remove_file(&path)?;
    disk.remove_dir(building.path())
}

/// Removes the nameless files in a session's directories; to be called by the holder of its lock.
pub(crate) fn sweep_temps<D: Disk>(disk: &D, session: &SessionDir) {
    for dir in [session.path().to_owned(), session.blobs(), session.set_aside()] {
        let Ok(entries) = disk.list(&dir) else { continue };
        for entry in entries.iter().filter(|e| !e.is_dir && e.name.starts_with(TEMP)) {
            let _ = disk.remove_file(&dir.join(&entry.name));
        }
    }
    sweep_inbox_temps(disk, &session.inbox());
}

/// Anybody makes files in an inbox, and has them locked until they have their name or are gone.
fn sweep_inbox_temps<D: Disk>(disk: &D, inbox: &Path) {
    let Ok(entries) = disk.list(inbox) else { return };
    for entry in entries.iter().filter(|e| !e.is_dir && e.name.starts_with(TEMP)) {
        let path = inbox.join(&entry.name);
        let Ok(file) = disk.open_read(&path) else { continue };
        if file.try_lock().unwrap_or(false) {
            let _ = disk.remove_file(&path);
        }
    }
}

/// Removes what killed processes left in a folder of another agent's: whole sessions without a name.
pub(crate) fn sweep_nameless<D: Disk>(disk: &D, dir: &Path) {
    let Ok(entries) = disk.list(dir) else { return };
    for entry in entries.iter().filter(|e| !e.is_dir && !e.is_link && is_nameless(&e.name)) {
        let path = dir.join(&entry.name);
        let Ok(file) = disk.open_read(&path) else { continue };
        if file.try_lock().unwrap_or(false) && is_named(disk, &path, &file) {
            let _ = disk.remove_file(&path);
        }
    }
}

/// Whether a name is one that we give to files that have none: `.tmp-PROCESS-NUMBER`.
fn is_nameless(name: &str) -> bool {
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let parts = name.strip_prefix(TEMP).and_then(|rest| rest.split_once('-'));
    parts.is_some_and(|(process, number)| is_number(process) && is_number(number))
}

fn is_named<D: Disk>(disk: &D, path: &Path, file: &D::File) -> bool {
    match (disk.meta(path), file.meta()) {
        (Ok(named), Ok(ours)) => named.id == ours.id,
        _ => false,
    }
}

fn directories<D: Disk>(disk: &D, path: &Path) -> impl Iterator<Item = String> {
    let entries = disk.list(path).unwrap_or_default();
    entries.into_iter().filter(|e| e.is_dir && !e.is_link).map(|e| e.name)
}
