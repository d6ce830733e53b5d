//! Large values beside the log, named by their hash.
//!
//! Responsible for: storing a blob durably before any record names it, and never handing out bytes that
//! do not match their name. Must not: decide what is large, or delete anything.

use crate::disk::{Disk, DiskFile};
use crate::durable::{TempFile, create_dirs, read_file, sync_dir};
use crate::error::{store_error, write_error};
use crate::layout::{SessionDir, exists};
use segno_model::id::sha256_hex;
use segno_model::record::BlobRef;
use segno_model::store::StoreError;
use std::io::ErrorKind;

/// Whether a text is a blob's name; nothing else ever becomes a path.
pub(crate) fn is_hash(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
}

/// Stores bytes under their hash. One that is there already is verified; a damaged one is set aside
/// and replaced.
pub(crate) fn put<D: Disk>(
    disk: &D,
    session: &SessionDir,
    hash: &str,
    bytes: &[u8],
) -> Result<(), StoreError> {
    let dir = session.blobs();
    create_dirs(disk, session.path(), &dir)?;
    let path = dir.join(hash);
    if exists(disk, &path)? {
        let found = read_file(disk, &path).map_err(|e| store_error("reading", &path, e))?;
        if found == bytes {
            // Whoever wrote it may have died before it was durable.
            let file = disk.open_append(&path).map_err(|e| write_error("opening", &path, e))?;
            file.sync_all().map_err(|e| write_error("syncing", &path, e))?;
            return sync_dir(disk, &dir);
        }
        keep_damaged(disk, session, hash, &found)?;
        return TempFile::write(disk, &dir, bytes)?.replace(hash);
    }
    TempFile::write(disk, &dir, bytes)?.link_as(hash)
}

fn keep_damaged<D: Disk>(
    disk: &D,
    session: &SessionDir,
    hash: &str,
    found: &[u8],
) -> Result<(), StoreError> {
    let aside = session.set_aside();
    create_dirs(disk, session.path(), &aside)?;
    let name = format!("blob-{}-{}", &hash[..16], &sha256_hex(found)[..16]);
    TempFile::write(disk, &aside, found)?.link_as(&name)
}

/// A blob's bytes, verified.
pub(crate) fn get<D: Disk>(
    disk: &D,
    session: &SessionDir,
    blob: &BlobRef,
) -> Result<Vec<u8>, StoreError> {
    let damaged = |reason: &str| StoreError::Damaged {
        what: format!("blob {}", blob.blob.chars().take(64).collect::<String>()),
        offset: 0,
        reason: reason.to_owned(),
    };
    if !is_hash(&blob.blob) {
        return Err(damaged("its name is not a SHA-256"));
    }
    let path = session.blobs().join(&blob.blob);
    let bytes = match read_file(disk, &path) {
        Ok(bytes) => bytes,
        Err(e) if e.kind() == ErrorKind::NotFound => return Err(damaged("the file is gone")),
        Err(e) => return Err(store_error("reading", &path, e)),
    };
    if bytes.len() as u64 == blob.bytes && sha256_hex(&bytes) == blob.blob {
        Ok(bytes)
    } else {
        Err(damaged("its bytes do not match its name"))
    }
}
