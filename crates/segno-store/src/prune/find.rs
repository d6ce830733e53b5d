//! What of a session's files is needed by nothing.
//!
//! Responsible for: looking. Must not: change anything, or guess where something cannot be judged.

use super::references::References;
use super::{GONE, Item, Kind};
use crate::disk::{Disk, DiskFile as _, Entry};
use crate::durable::{TEMP, sync_dir};
use crate::error::{store_error, write_error};
use crate::layout::{SessionDir, sessions_in};
use crate::leftovers;
use crate::reading::LogFile;
use crate::set_aside;
use crate::store::FileStore;
use segno_model::SessionId;
use segno_model::record::RepairItem;
use segno_model::store::StoreError;
use std::collections::HashSet;
use std::io::ErrorKind;
use std::path::Path;

/// What can be removed of a session, and the log that says so.
pub(super) struct Found<D: Disk> {
    pub(super) items: Vec<Item>,
    pub(super) log: LogFile<D>,
}

impl<D: Disk> LogFile<D> {
    /// Makes durable what the judgement about a session's files rests on.
    pub(super) fn sync_data_for(&self, disk: &D, dir: &SessionDir) -> Result<(), StoreError> {
        self.file.sync_data().map_err(|e| write_error("syncing", &self.path, e))?;
        sync_dir(disk, dir.path())
    }
}

/// Looks through one session's directory.
pub(super) fn in_session<D: Disk>(
    store: &FileStore<D>,
    dir: &SessionDir,
    id: &SessionId,
) -> Result<Found<D>, StoreError> {
    let disk = store.disk();
    let log = LogFile::open(store, dir, id)?;
    let mut items = Vec::new();
    let mut add = |kind, name: String| {
        let bytes = size(disk, &dir.path().join(&name));
        items.push(Item { kind, session: Some(id.clone()), name, bytes });
    };
    let blobs = entries(disk, &dir.blobs())?;
    let commands = entries(disk, &dir.actions())?;
    if !blobs.is_empty() || !commands.is_empty() {
        let needed = References::of(disk, dir, &log)?;
        let free = |entry: &&Entry| !entry.is_dir && !needed.blobs.contains(&entry.name);
        let is_temp = |entry: &&Entry| entry.name.starts_with(TEMP);
        for entry in blobs.iter().filter(free).filter(|entry| !is_temp(entry)) {
            add(Kind::Blob, format!("blobs/{}", entry.name));
        }
        let command = |entry: &&Entry| entry.is_dir && !needed.commands.contains(&entry.name);
        for entry in commands.iter().filter(command) {
            let lock = dir.actions().join(&entry.name).join("lock");
            if !disk.open_read(&lock).and_then(|file| file.is_locked()).unwrap_or(false) {
                add(Kind::Command, format!("actions/{}", entry.name));
            }
        }
    }
    let untold = untold(store, dir, &log)?;
    for entry in entries(disk, &dir.set_aside())?.iter().filter(|e| !e.is_dir) {
        if !untold.contains(&entry.name) && !entry.name.starts_with(TEMP) {
            add(Kind::SetAside, format!("set-aside/{}", entry.name));
        }
    }
    for below in ["", "blobs/", "set-aside/"] {
        let there = entries(disk, &dir.path().join(below))?;
        for entry in there.iter().filter(|e| !e.is_dir && e.name.starts_with(TEMP)) {
            add(Kind::Leftover, format!("{below}{}", entry.name));
        }
    }
    Ok(Found { items, log })
}

/// Kept tails of which no record tells yet: the next append does.
fn untold<D: Disk>(
    store: &FileStore<D>,
    dir: &SessionDir,
    log: &LogFile<D>,
) -> Result<HashSet<String>, StoreError> {
    let (loaded, _) = log.load()?;
    let items = set_aside::untold(store.disk(), dir, loaded.content_end)?;
    let file = |item| match item {
        RepairItem::SetAside { file, .. } => Some(file),
        _ => None,
    };
    Ok(items.into_iter().filter_map(file).collect())
}

/// What belongs to no session, and sessions in the trash.
pub(super) fn outside<D: Disk>(store: &FileStore<D>) -> Result<Vec<Item>, StoreError> {
    let (disk, trash, mut items) = (store.disk(), store.layout().trash(), Vec::new());
    for found in sessions_in(disk, &trash)? {
        let (bytes, name) = (size(disk, found.dir().path()), format!("trash/{}", found.id));
        items.push(Item { kind: Kind::Trash, session: Some(found.id), name, bytes });
    }
    let mut left = |name: String| {
        let bytes = size(disk, &store.root().join(&name));
        items.push(Item { kind: Kind::Leftover, session: None, name, bytes });
    };
    for entry in entries(disk, &trash)?.iter().filter(|e| e.name.starts_with(GONE)) {
        left(format!("trash/{}", entry.name));
    }
    for month in entries(disk, &store.layout().sessions())?.iter().filter(|e| e.is_dir) {
        let dir = store.layout().sessions().join(&month.name);
        for name in leftovers::abandoned_forks(disk, &dir) {
            left(format!("sessions/{}/{name}", month.name));
        }
        for session in entries(disk, &dir)?.iter().filter(|e| e.is_dir && !e.is_link) {
            let below = SessionDir::new(dir.join(&session.name)).children();
            for name in leftovers::abandoned_forks(disk, &below) {
                left(format!("sessions/{}/{}/children/{name}", month.name, session.name));
            }
        }
    }
    Ok(items)
}

/// What is in a directory; nothing when it is not there.
fn entries<D: Disk>(disk: &D, dir: &Path) -> Result<Vec<Entry>, StoreError> {
    match disk.list(dir) {
        Ok(entries) => Ok(entries),
        Err(e) if e.kind() == ErrorKind::NotFound => Ok(Vec::new()),
        Err(e) => Err(store_error("listing", dir, e)),
    }
}

/// How many bytes a file or all files of a directory hold. Links are not followed.
pub(super) fn size<D: Disk>(disk: &D, path: &Path) -> u64 {
    let Ok(meta) = disk.meta(path) else { return 0 };
    if !meta.is_dir {
        return meta.len;
    }
    let entries = disk.list(path).unwrap_or_default();
    let own = entries.iter().filter(|entry| !entry.is_link);
    own.map(|entry| size(disk, &path.join(&entry.name))).fold(0, u64::saturating_add)
}
