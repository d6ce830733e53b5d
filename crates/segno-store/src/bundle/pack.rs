//! Writing a tree into one file.
//!
//! Responsible for: which files of a session belong to it, byte for byte, and telling what was left out. Must
//! not: take the writer's right, or change anything.

use super::{BLOCK, BundleError};
use crate::disk::{Disk, DiskFile};
use crate::durable::read_full;
use crate::error::store_error;
use crate::inbox;
use crate::layout::SessionDir;
use crate::store::FileStore;
use segno_model::SessionId;
use segno_model::bundle::{Part, PartKind};
use segno_model::store::StoreError;
use sha2::{Digest as _, Sha256};
use std::io::{ErrorKind, Write};
use std::path::Path;

/// What was written.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Packed {
    /// Sessions: the one that was asked for, and its children.
    pub sessions: usize,
    /// Large values.
    pub blobs: usize,
    /// What is not in it, as phrases.
    pub left_out: Vec<String>,
}

/// A file that is being written.
struct Writer<'a, D: Disk> {
    store: &'a FileStore<D>,
    out: &'a mut dyn Write,
    parts: u64,
    packed: Packed,
}

impl<D: Disk> FileStore<D> {
    /// Writes a session with its children; a session that is written meanwhile as it was when its turn came.
    ///
    /// # Errors
    /// When there is no such session, or something cannot be read or written.
    pub fn pack(&self, id: &SessionId, out: &mut dyn Write) -> Result<Packed, BundleError> {
        let dir = self.layout().locate(self.disk(), id)?;
        let mut writer = Writer { store: self, out, parts: 0, packed: Packed::default() };
        writer.line(&Part::bundle(id))?;
        writer.session(id, &dir)?;
        for (child, is_link) in self.layout().children(self.disk(), id)? {
            if is_link {
                writer.packed.left_out.push(format!("subagent {}, which is a link", child.id));
            } else {
                writer.session(&child.id, &child.dir())?;
            }
        }
        let end = Part::end(id, writer.parts);
        writer.line(&end)?;
        writer.out.flush()?;
        Ok(writer.packed)
    }
}

impl<D: Disk> Writer<'_, D> {
    fn line(&mut self, part: &Part) -> Result<(), BundleError> {
        self.parts += 1;
        Ok(self.out.write_all(&part.line())?)
    }

    fn session(&mut self, id: &SessionId, dir: &SessionDir) -> Result<(), BundleError> {
        let disk = self.store.disk();
        self.file(PartKind::Log, id, &dir.log(), None)?;
        self.packed.sessions += 1;
        let blobs = dir.blobs();
        let mut names: Vec<String> = match disk.list(&blobs) {
            Ok(entries) => entries.into_iter().filter(|e| !e.is_dir).map(|e| e.name).collect(),
            Err(e) if e.kind() == ErrorKind::NotFound => Vec::new(),
            Err(e) => return Err(store_error("listing", &blobs, e).into()),
        };
        names.retain(|name| crate::blobs::is_hash(name));
        names.sort_unstable();
        for name in names {
            self.file(PartKind::Blob, id, &blobs.join(&name), Some(&name))?;
        }
        let waiting = inbox::pending(self.store, id)?.pending.len();
        if waiting > 0 {
            let inputs = if waiting == 1 { "1 input" } else { &format!("{waiting} inputs") };
            self.packed.left_out.push(format!("{inputs} in the inbox of {id}"));
        }
        Ok(())
    }

    /// One file as it is now; `named` is the hash that it should have. What is appended meanwhile is not in it.
    fn file(
        &mut self,
        kind: PartKind,
        id: &SessionId,
        path: &Path,
        named: Option<&str>,
    ) -> Result<(), BundleError> {
        let disk = self.store.disk();
        let file = disk.open_read(path).map_err(|e| match e.kind() {
            ErrorKind::NotFound => StoreError::NotFound(id.clone()),
            _ => store_error("opening", path, e),
        })?;
        let bytes = file.meta().map_err(|e| store_error("looking at", path, e))?.len;
        let hash = hash_of(&file, path, bytes)?;
        if named.is_some_and(|name| name != hash) {
            let name = named.unwrap_or_default().get(..16).unwrap_or_default();
            self.packed.left_out.push(format!("the large value {name}… of {id}, which is damaged"));
            return Ok(());
        }
        self.packed.blobs += usize::from(named.is_some());
        self.line(&Part::content(kind, id, bytes, &hash))?;
        let out = &mut *self.out;
        blocks(&file, path, bytes, &mut |block| Ok(out.write_all(block)?))?;
        Ok(self.out.write_all(b"\n")?)
    }
}

/// The SHA-256 of the first `len` bytes of a file.
pub(super) fn hash_of<F: DiskFile>(file: &F, path: &Path, len: u64) -> Result<String, BundleError> {
    let mut hasher = Sha256::new();
    blocks(file, path, len, &mut |block| {
        hasher.update(block);
        Ok(())
    })?;
    Ok(hex(hasher))
}

pub(super) fn hex(hasher: Sha256) -> String {
    hasher.finalize().iter().map(|b| format!("{b:02x}")).collect()
}

/// Reads the first `len` bytes of a file, block by block.
fn blocks<F: DiskFile>(
    file: &F,
    path: &Path,
    len: u64,
    visit: &mut dyn FnMut(&[u8]) -> Result<(), BundleError>,
) -> Result<(), BundleError> {
    let mut block = vec![0; BLOCK.min(usize::try_from(len).unwrap_or(BLOCK))];
    let mut done = 0;
    while done < len {
        let want = usize::try_from(len - done).unwrap_or(BLOCK).min(BLOCK);
        let read = read_full(file, &mut block[..want], done)
            .map_err(|e| store_error("reading", path, e))?;
        if read == 0 {
            let why = format!("{} became shorter while it was read", path.display());
            return Err(StoreError::Refused(why).into());
        }
        visit(&block[..read])?;
        done += read as u64;
    }
    Ok(())
}
