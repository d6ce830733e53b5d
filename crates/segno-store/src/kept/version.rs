//! What copies were before their originals were written again.
//!
//! Responsible for: finding these versions. Must not: remove or change one.

use super::{Kept, copy, mirrored};
use crate::disk::Disk;
use crate::error::store_error;
use crate::store::FileStore;
use segno_model::Timestamp;
use segno_model::store::StoreError;
use std::path::PathBuf;

/// What the copy of a file was before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Version {
    /// The original's path.
    pub original: PathBuf,
    /// Its number among those of this file, from 1: the oldest.
    pub number: u64,
    /// Where it is.
    pub path: PathBuf,
    /// How long it is.
    pub bytes: u64,
    /// When its original was changed last.
    pub at: Timestamp,
}

impl<D: Disk> FileStore<D> {
    /// The earlier versions of a session's files, in the order of its files, of each the oldest first.
    ///
    /// # Errors
    /// A failing disk.
    pub fn kept_versions(&self, kept: &Kept) -> Result<Vec<Version>, StoreError> {
        let (disk, place) = (self.disk(), self.kept_place());
        let mut found = Vec::new();
        for original in &kept.files {
            let Some(below) = mirrored(original) else { continue };
            let dir = place.versions().join(below);
            let mut numbers: Vec<(u64, PathBuf)> = copy::entries(disk, &dir)?
                .into_iter()
                .filter_map(|entry| Some((entry.name.parse().ok()?, dir.join(&entry.name))))
                .collect();
            numbers.sort();
            for (number, path) in numbers {
                let meta = disk.meta(&path).map_err(|e| store_error("looking at", &path, e))?;
                let (bytes, at) = (meta.len, Timestamp(meta.modified_ns / 1_000_000));
                found.push(Version { original: original.clone(), number, path, bytes, at });
            }
        }
        Ok(found)
    }
}
