//! What an erasure removes outside the log.
//!
//! Responsible for: copies of what is erased, and what no record of the new log refers to. Must not: remove
//! anything that a record refers to, whatever else it holds.

use super::{Removed, Study, sound};
use crate::disk::{Disk, DiskFile as _};
use crate::durable::{remove_tree, sync_dir};
use crate::error::{store_error, write_error};
use crate::layout::SessionDir;
use crate::leftovers;
use crate::prune::command_of;
use crate::reading::LogFile;
use crate::store::FileStore;
use segno_model::erase::blobs_in;
use segno_model::store::StoreError;
use segno_model::{Body, SessionId};
use std::collections::HashSet;
use std::io::ErrorKind;
use std::path::Path;

/// Removes files that hold some of what is erased; gives their names. Set-aside bytes that stay are given
/// the names that the new log has for them.
pub(super) fn copies_of_pieces<D: Disk>(
    disk: &D,
    dir: &SessionDir,
    study: &Study,
) -> Result<Vec<String>, StoreError> {
    leftovers::sweep_temps(disk, dir);
    for name in &study.files {
        remove(disk, &dir.path().join(name))?;
    }
    for name in tails(disk, dir) {
        let (old, new) = (dir.set_aside().join(&name), dir.set_aside().join(told(&name)));
        match disk.hard_link(&old, &new) {
            Err(e) if e.kind() != ErrorKind::AlreadyExists => {
                return Err(write_error("naming", &new, e));
            }
            _ => {}
        }
    }
    for below in [dir.path().to_owned(), dir.set_aside(), dir.inbox()] {
        if disk.meta(&below).is_ok() {
            sync_dir(disk, &below)?;
        }
    }
    Ok(study.files.clone())
}

/// Removes what no record refers to: blobs, directories of commands that do not run, the index of inputs
/// (it is made again), old names.
pub(super) fn unreferenced<D: Disk>(
    store: &FileStore<D>,
    dir: &SessionDir,
    id: &SessionId,
    removed: &mut Removed,
) -> Result<(), StoreError> {
    let disk = store.disk();
    // A process that was killed may have exchanged the logs and not have made that durable.
    sync_dir(disk, dir.path())?;
    let (mut blobs, mut commands) = (HashSet::new(), HashSet::new());
    sound(&LogFile::open(store, dir, id)?, &mut |record| {
        blobs.extend(blobs_in(&record.line).map(str::to_owned));
        if let Body::Action(action) = record.body() {
            let probe = action.probe.as_ref();
            commands.extend(probe.and_then(|probe| command_of(probe.get())));
        }
    })?;
    remove(disk, &dir.input_index())?;
    removed.blobs = remove_all(disk, &dir.blobs(), &|name| !blobs.contains(name))?;
    for name in tails(disk, dir) {
        if disk.meta(&dir.set_aside().join(told(&name))).is_ok() {
            remove(disk, &dir.set_aside().join(name))?;
        }
    }
    if disk.meta(&dir.set_aside()).is_ok() {
        sync_dir(disk, &dir.set_aside())?;
    }
    for entry in disk.list(&dir.actions()).unwrap_or_default() {
        let path = dir.actions().join(&entry.name);
        if entry.is_dir && !entry.is_link && !commands.contains(&entry.name) && !runs(disk, &path) {
            remove_tree(disk, &path)?;
            removed.commands += 1;
        }
    }
    if disk.meta(&dir.actions()).is_ok() {
        sync_dir(disk, &dir.actions())?;
    }
    sync_dir(disk, dir.path())
}

/// Whether a command's supervisor lives.
fn runs<D: Disk>(disk: &D, command: &Path) -> bool {
    disk.open_read(&command.join("lock")).and_then(|file| file.is_locked()).unwrap_or(false)
}

fn tails<D: Disk>(disk: &D, dir: &SessionDir) -> Vec<String> {
    let entries = disk.list(&dir.set_aside()).unwrap_or_default();
    let tails = entries.into_iter().filter(|e| !e.is_dir && e.name.starts_with("tail-"));
    tails.map(|entry| entry.name).collect()
}

/// The name of a told tail in a log that was rewritten.
fn told(tail: &str) -> String {
    tail.replacen("tail-", "told-", 1)
}

fn remove_all<D: Disk>(
    disk: &D,
    dir: &Path,
    which: &dyn Fn(&str) -> bool,
) -> Result<usize, StoreError> {
    let entries = match disk.list(dir) {
        Ok(entries) => entries,
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(0),
        Err(e) => return Err(store_error("listing", dir, e)),
    };
    let mut count = 0;
    for entry in entries.iter().filter(|e| !e.is_dir && which(&e.name)) {
        remove(disk, &dir.join(&entry.name))?;
        count += 1;
    }
    sync_dir(disk, dir)?;
    Ok(count)
}

fn remove<D: Disk>(disk: &D, path: &Path) -> Result<(), StoreError> {
    match disk.remove_file(path) {
        Err(e) if e.kind() != ErrorKind::NotFound => Err(write_error("removing", path, e)),
        _ => Ok(()),
    }
}
