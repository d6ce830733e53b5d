//! The one file handle that appends to a log.
//!
//! Responsible for: one write per batch, syncing, cutting a half-written batch off again, and refusing
//! everything once something happened after which nobody can know what is on disk (G1, G15, G16).
//! Must not: know records; bytes are bytes here.

use crate::disk::{Disk, DiskFile, FileId};
use crate::durable::write_all;
use crate::error::is_no_room;
use segno_model::store::StoreError;
use std::io;
use std::path::{Path, PathBuf};

/// An open, locked log.
#[derive(Debug)]
pub(crate) struct Writer<D: Disk> {
    disk: D,
    path: PathBuf,
    file: D::File,
    id: FileId,
    /// How long the file is as far as this writer made it so.
    end: u64,
    /// Why nothing can be written any more.
    poison: Option<String>,
}

impl<D: Disk> Writer<D> {
    /// Takes over a locked file.
    pub(crate) fn new(disk: D, path: PathBuf, file: D::File) -> io::Result<Self> {
        let meta = file.meta()?;
        Ok(Self { disk, path, file, id: meta.id, end: meta.len, poison: None })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn file(&self) -> &D::File {
        &self.file
    }

    /// The file's length.
    pub(crate) fn end(&self) -> u64 {
        self.end
    }

    /// Refuses when this handle is poisoned.
    pub(crate) fn check(&self) -> Result<(), StoreError> {
        match &self.poison {
            Some(why) => Err(StoreError::Poisoned(why.clone())),
            None => Ok(()),
        }
    }

    /// Writes one batch at the end of the file that the path names. When it does not fit, the file is as
    /// before.
    pub(crate) fn append(&mut self, bytes: &[u8]) -> Result<(), StoreError> {
        self.check_path()?;
        if let Err(error) = write_all(&self.file, bytes) {
            return Err(self.take_back(bytes.len() as u64, &error));
        }
        self.end += bytes.len() as u64;
        Ok(())
    }

    /// Makes everything durable.
    pub(crate) fn sync(&mut self) -> Result<(), StoreError> {
        self.check()?;
        self.file
            .sync_data()
            .map_err(|e| self.poisoned(format!("syncing {} failed ({e})", self.path.display())))
    }

    /// Makes sure that what was written can be found again: the path is still this file, with exactly
    /// what this writer wrote.
    pub(crate) fn check_path(&mut self) -> Result<(), StoreError> {
        self.check()?;
        let why = match self.disk.meta(&self.path) {
            Ok(found) if found.id != self.id => "another file has taken its place",
            Ok(found) if found.links == 0 => "it was deleted",
            Ok(found) if found.len != self.end => "somebody else changed its length",
            Ok(_) => return Ok(()),
            Err(e) if e.kind() == io::ErrorKind::NotFound => "it was deleted or moved",
            Err(_) => "it cannot be looked at any more",
        };
        Err(self.poisoned(format!("{}: {why}", self.path.display())))
    }

    /// Cuts the file at `end` and makes that durable.
    pub(crate) fn cut(&mut self, end: u64) -> Result<(), StoreError> {
        self.check()?;
        self.check_length()?;
        let cut = self.file.truncate(end).and_then(|()| self.file.sync_data());
        cut.map_err(|e| self.poisoned(format!("cutting {} failed ({e})", self.path.display())))?;
        self.end = end;
        Ok(())
    }

    /// A writer that finds the file longer or shorter than it left it has no business in it: its
    /// offsets would be wrong.
    fn check_length(&mut self) -> Result<(), StoreError> {
        match self.file.meta() {
            Ok(meta) if meta.len == self.end => Ok(()),
            Ok(_) => {
                let why = format!("{}: somebody else changed its length", self.path.display());
                Err(self.poisoned(why))
            }
            Err(e) => Err(self.poisoned(format!("{}: {e}", self.path.display()))),
        }
    }

    /// Cuts off what a failed write of `tried` bytes left, and says what the failure means.
    fn take_back(&mut self, tried: u64, error: &io::Error) -> StoreError {
        let path = self.path.display().to_string();
        let ours = |meta: &crate::disk::Meta| (self.end..=self.end + tried).contains(&meta.len);
        let cut = match self.file.meta() {
            Ok(meta) if meta.len == self.end => Ok(()),
            Ok(meta) if ours(&meta) => self.file.truncate(self.end),
            Ok(_) => Err(io::Error::other("somebody else changed its length")),
            Err(e) => Err(e),
        };
        match cut {
            Ok(()) if is_no_room(error) => StoreError::NoRoom(path),
            Ok(()) => self.poisoned(format!("writing {path} failed ({error})")),
            Err(e) => self.poisoned(format!(
                "writing {path} failed ({error}) and what it left could not be cut off ({e})"
            )),
        }
    }

    /// Makes every later call fail for this reason.
    pub(crate) fn poisoned(&mut self, why: String) -> StoreError {
        self.poison = Some(why.clone());
        StoreError::Poisoned(why)
    }
}
