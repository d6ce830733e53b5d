//! Where deleted sessions go, and come back from.
//!
//! Responsible for: moving whole session directories into and out of the trash, never while somebody
//! writes, and emptying it when a person says so. Must not: delete anything by itself.

use crate::disk::Disk;
use crate::durable::{create_dirs, remove_tree, sync_dir};
use crate::error::{store_error, write_error};
use crate::layout::{SessionDir, exists, sessions_in};
use crate::lock;
use crate::reading::{self, LogFile};
use crate::store::FileStore;
use segno_model::SessionId;
use segno_model::record::Header;
use segno_model::store::{Listed, Snapshot, StoreError};
use std::path::Path;

impl<D: Disk> FileStore<D> {
    /// Moves a session to the trash, with its children.
    ///
    /// # Errors
    /// [`StoreError::Held`] while somebody writes it, [`StoreError::NotFound`], or a failing disk.
    pub fn trash(&self, id: &SessionId) -> Result<(), StoreError> {
        let dir = self.layout().locate(self.disk(), id)?;
        let _locked = lock::open_locked(self.disk(), &dir, id)?;
        // Its children go with it, and nobody may be writing one.
        let children = self.layout().children(self.disk(), id)?;
        let locked = children
            .iter()
            .filter(|(_, is_link)| !is_link)
            .map(|(child, _)| lock::open_locked(self.disk(), &child.dir(), &child.id));
        let _children = locked.collect::<Result<Vec<_>, _>>()?;
        self.move_session(&dir, &self.in_trash(id))
    }

    /// The sessions in the trash.
    ///
    /// # Errors
    /// A failing disk.
    pub fn list_trash(&self) -> Result<Vec<Listed>, StoreError> {
        let all = sessions_in(self.disk(), &self.layout().trash())?;
        let locks = self.locks();
        Ok(all.into_iter().map(|found| self.listed(found, &locks)).collect())
    }

    /// Reads a session in the trash.
    ///
    /// # Errors
    /// [`StoreError::NotFound`] when it is not there, or a failing disk.
    pub fn read_trashed(&self, id: &SessionId) -> Result<Snapshot, StoreError> {
        reading::snapshot(&LogFile::open(self, &self.in_trash(id), id)?, id)
    }

    /// Whether a session is in the trash.
    ///
    /// # Errors
    /// A failing disk.
    pub fn is_trashed_now(&self, id: &SessionId) -> Result<bool, StoreError> {
        exists(self.disk(), &self.in_trash(id).log())
    }

    /// Moves a session back from the trash: a child below its parent, when that is there.
    ///
    /// # Errors
    /// [`StoreError::NotFound`] when it is not there, [`StoreError::Exists`] when a session with its
    /// id is, or a failing disk.
    pub fn restore(&self, id: &SessionId) -> Result<(), StoreError> {
        let dir = self.in_trash(id);
        if !self.is_trashed_now(id)? {
            return Err(StoreError::NotFound(id.clone()));
        }
        let header = self.read_trashed(id).map(|snapshot| snapshot.header);
        let home = header.map_or_else(|_| self.layout().home(id), |header| self.home_now(&header));
        self.move_session(&dir, &home)
    }

    /// Deletes what is in the trash, for good; gives the ids.
    ///
    /// # Errors
    /// A failing disk; what was not deleted by then is still there.
    pub fn empty_trash(&self) -> Result<Vec<SessionId>, StoreError> {
        let mut gone = Vec::new();
        let trash = self.layout().trash();
        for found in sessions_in(self.disk(), &trash)? {
            let (dir, id) = (found.dir(), found.id);
            let entries =
                self.disk().list(&trash).map_err(|e| store_error("listing", &trash, e))?;
            if entries.iter().any(|e| e.is_link && e.name == id.as_str()) {
                let path = dir.path();
                self.disk().remove_file(path).map_err(|e| write_error("removing", path, e))?;
            } else {
                remove_tree(self.disk(), dir.path())?;
            }
            gone.push(id);
        }
        Ok(gone)
    }

    /// Where a session belongs as things are: a child without its parent is a session of its own.
    fn home_now(&self, header: &Header) -> SessionDir {
        let home = self.layout().home_of(self.disk(), header);
        match home.parent() {
            Some(parent) if !exists(self.disk(), &parent.log()).unwrap_or(false) => {
                self.layout().home(&header.id)
            }
            _ => home,
        }
    }

    fn in_trash(&self, id: &SessionId) -> SessionDir {
        SessionDir::new(self.layout().trash().join(id.as_str()))
    }

    fn move_session(&self, from: &SessionDir, to: &SessionDir) -> Result<(), StoreError> {
        let disk = self.disk();
        if exists(disk, to.path())? {
            return Err(StoreError::Exists(to.path().display().to_string()));
        }
        let (old, new) = (parent(from), parent(to));
        create_dirs(disk, self.root(), new)?;
        disk.rename(from.path(), to.path()).map_err(|e| write_error("moving", to.path(), e))?;
        sync_dir(disk, new)?;
        sync_dir(disk, old)
    }
}

fn parent(dir: &SessionDir) -> &Path {
    dir.path().parent().unwrap_or(dir.path())
}
