//! Sessions whose log is gone: directories that still hold what was acknowledged, or kept.
//!
//! Responsible for: finding them, saying what is left, and reading the inputs that waited. Must not: make
//! a session of them, or remove anything.
//!
//! A directory with nothing but blobs is none of them: a process that was killed while it made a session
//! leaves such a one, and nothing in it was ever acknowledged.

use crate::disk::Disk;
use crate::inbox;
use crate::layout::SessionDir;
use crate::store::FileStore;
use segno_model::SessionId;
use segno_model::inbox::Inbox;
use segno_model::store::StoreError;
use std::path::PathBuf;

/// What is left of a session without a log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Remains {
    /// Its id, from the directory's name.
    pub id: SessionId,
    /// The directory.
    pub dir: PathBuf,
    /// Admitted inputs and controls that no log settled.
    pub inputs: usize,
    /// Files in `set-aside/`.
    pub set_aside: usize,
    /// Files in `blobs/`.
    pub blobs: usize,
    /// Supervised commands.
    pub actions: usize,
}

impl<D: Disk> FileStore<D> {
    /// What is left of a session whose log is gone; nothing when it has one, or left nothing.
    ///
    /// # Errors
    /// A failing disk.
    pub fn remains(&self, id: &SessionId) -> Result<Option<Remains>, StoreError> {
        Ok(self.layout().without_log(self.disk(), id)?.and_then(|dir| look(self, id, &dir)))
    }

    /// The inputs that wait in a session whose log is gone. What the log settled is among them when its
    /// file was not yet removed.
    ///
    /// # Errors
    /// [`StoreError::NotFound`] when nothing is left of it, or a failing disk.
    pub fn inputs_without_log(&self, id: &SessionId) -> Result<Inbox, StoreError> {
        let dir = self.layout().without_log(self.disk(), id)?;
        inbox::files(self, &dir.ok_or_else(|| StoreError::NotFound(id.clone()))?)
    }
}

/// What is left in a directory without a log.
pub(crate) fn look<D: Disk>(
    store: &FileStore<D>,
    id: &SessionId,
    dir: &SessionDir,
) -> Option<Remains> {
    let disk = store.disk();
    let count = |path: PathBuf| disk.list(&path).map_or(0, |entries| entries.len());
    let there = |path: PathBuf| disk.meta(&path).is_ok();
    let remains = Remains {
        id: id.clone(),
        dir: dir.path().to_owned(),
        inputs: inbox::count(disk, dir),
        set_aside: count(dir.set_aside()),
        blobs: count(dir.blobs()),
        actions: count(dir.actions()),
    };
    let had_a_log = remains.inputs + remains.set_aside + remains.actions > 0
        || [dir.owner(), dir.draft(), dir.input_index()].into_iter().any(there);
    had_a_log.then_some(remains)
}
