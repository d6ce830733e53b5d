//! Torn bytes beside the log: kept in files of their own before they are cut off.
//!
//! Responsible for: keeping them durably, and finding out which of them no record tells of, because a
//! process died between cutting them off and saying so (G2). Must not: decide what is torn.

use crate::disk::Disk;
use crate::durable::{TempFile, create_dirs, read_full};
use crate::error::store_error;
use crate::layout::SessionDir;
use segno_model::finding::{Finding, Severity};
use segno_model::record::RepairItem;
use segno_model::store::StoreError;
use sha2::{Digest, Sha256};
use std::io::ErrorKind;
use std::path::Path;

/// Copies the bytes of a log from an offset on; gives what a `repair` record says of them.
pub(crate) fn keep<D: Disk>(
    disk: &D,
    session: &SessionDir,
    log: &D::File,
    (offset, bytes): (u64, u64),
) -> Result<RepairItem, StoreError> {
    let dir = session.set_aside();
    create_dirs(disk, session.path(), &dir)?;
    let (temp, sha256) = TempFile::copy(disk, &dir, log, (offset, bytes))?;
    let file = format!("tail-{offset}-{}", &sha256[..16]);
    // The name holds the hash: if it is taken, an earlier attempt came this far and no further.
    temp.link_as(&file)?;
    Ok(RepairItem::SetAside { offset, bytes, sha256, file })
}

/// The kept tails that no record tells of. The record that does is the first one behind the cut, so
/// where the sound part of the log ends at the cut or before it, there is none.
pub(crate) fn untold<D: Disk>(
    disk: &D,
    session: &SessionDir,
    sound_end: u64,
) -> Result<Vec<RepairItem>, StoreError> {
    let dir = session.set_aside();
    let entries = match disk.list(&dir) {
        Ok(entries) => entries,
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        Err(e) => return Err(store_error("listing", &dir, e)),
    };
    let mut items = Vec::new();
    for entry in entries.into_iter().filter(|entry| !entry.is_dir) {
        let Some(offset) = cut_of(&entry.name).filter(|offset| *offset >= sound_end) else {
            continue;
        };
        let path = dir.join(&entry.name);
        let (bytes, sha256) = measure(disk, &path).map_err(|e| store_error("reading", &path, e))?;
        items.push(RepairItem::SetAside { offset, bytes, sha256, file: entry.name });
    }
    items.sort_by_key(|item| match item {
        RepairItem::SetAside { offset, .. } => *offset,
        _ => 0,
    });
    Ok(items)
}

/// What to say of a kept tail; nothing of bytes that still are the log's tail.
pub(crate) fn finding(item: &RepairItem, tail: Option<(u64, u64)>) -> Option<Finding> {
    let RepairItem::SetAside { offset, bytes, file, .. } = item else { return None };
    (tail != Some((*offset, *bytes))).then(|| Finding {
        code: "torn-tail",
        severity: Severity::Warning,
        offset: Some(*offset),
        sentence: format!(
            "a write was cut short; the process that set its {bytes} bytes aside ended before it could say so"
        ),
        done: format!("they are in set-aside/{file}; the next append says so"),
        ..Finding::default()
    })
}

/// Where the bytes of a file with this name were cut off.
fn cut_of(name: &str) -> Option<u64> {
    let (offset, hash) = name.strip_prefix("tail-")?.split_once('-')?;
    (hash.len() == 16).then(|| offset.parse().ok()).flatten()
}

/// A file's length and SHA-256.
fn measure<D: Disk>(disk: &D, path: &Path) -> std::io::Result<(u64, String)> {
    let file = disk.open_read(path)?;
    let (mut hasher, mut block, mut len) = (Sha256::new(), vec![0; 64 * 1024], 0);
    loop {
        let read = read_full(&file, &mut block, len)?;
        if read == 0 {
            break;
        }
        hasher.update(&block[..read]);
        len += read as u64;
    }
    Ok((len, hasher.finalize().iter().map(|b| format!("{b:02x}")).collect()))
}
