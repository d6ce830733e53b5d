//! What takes room and is needed by nothing.
//!
//! Responsible for: finding it, by kind and session, and removing what a person named. Must not: remove
//! anything of a session that somebody works on, or a blob that any record may refer to.
//!
//! Whatever is removed is looked at again under the writer's right right before: what was shown may have come
//! into use since. A kill at any moment leaves what is still referred to, and the rest to be removed again.

mod find;
mod references;

pub(crate) use references::command_of;

use crate::disk::Disk;
use crate::durable::{remove_tree, sync_dir};
use crate::error::{store_error, write_error};
use crate::layout::SessionDir;
use crate::leftovers;
use crate::lock;
use crate::store::FileStore;
use segno_model::SessionId;
use segno_model::store::StoreError;
use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::Path;

/// How the directory of a trashed session begins that is being deleted.
const GONE: &str = ".gone-";

/// A kind of thing that takes room.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// A session in the trash.
    Trash,
    /// A blob that no record refers to.
    Blob,
    /// A file or directory that a killed process left behind.
    Leftover,
    /// Damaged or torn bytes that were kept, and of which a record tells.
    SetAside,
    /// The files of a command that no record names.
    Command,
}

/// One thing that takes room.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Item {
    /// What kind of thing.
    pub kind: Kind,
    /// Whose; none for what belongs to no session.
    pub session: Option<SessionId>,
    /// Where, counted from the session's directory, or from the root.
    pub name: String,
    /// How much room.
    pub bytes: u64,
}

/// What takes room.
#[derive(Debug, Clone, Default)]
pub struct Survey {
    /// What can be removed.
    pub items: Vec<Item>,
    /// How much room each session takes, all of it.
    pub sessions: Vec<(SessionId, u64)>,
    /// Sessions in which nothing can be judged now, and why.
    pub left_out: Vec<(SessionId, String)>,
}

/// What became of removing something.
#[derive(Debug, Clone, Default)]
pub struct Pruned {
    /// What was removed.
    pub gone: Vec<Item>,
    /// What was left, and why.
    pub left: Vec<(Item, String)>,
}

impl<D: Disk> FileStore<D> {
    /// What takes room and can be removed. Changes nothing.
    ///
    /// # Errors
    /// A failing disk.
    pub fn survey_room(&self) -> Result<Survey, StoreError> {
        let mut survey = Survey::default();
        for found in self.layout().all(self.disk())? {
            survey.sessions.push((found.id.clone(), find::size(self.disk(), found.dir().path())));
            let children = self.layout().children(self.disk(), &found.id)?;
            let own = children.into_iter().filter(|(_, is_link)| !is_link).map(|(child, _)| child);
            for session in std::iter::once(found).chain(own) {
                self.survey_session(session.id.clone(), &session.dir(), &mut survey);
            }
        }
        survey.items.extend(find::outside(self)?);
        Ok(survey)
    }

    fn survey_session(&self, id: SessionId, dir: &SessionDir, survey: &mut Survey) {
        if lock::is_held(self.disk(), dir) {
            survey.left_out.push((id, "a process works on it".to_owned()));
            return;
        }
        match find::in_session(self, dir, &id) {
            Ok(found) => survey.items.extend(found.items),
            Err(error) => survey.left_out.push((id, error.to_string())),
        }
    }

    /// Removes these, as far as nothing needs them now either.
    ///
    /// # Errors
    /// A failing disk; what was not removed by then is still there.
    pub fn prune(&self, items: &[Item]) -> Result<Pruned, StoreError> {
        let mut pruned = Pruned::default();
        let mut by_session: BTreeMap<&SessionId, Vec<&Item>> = BTreeMap::new();
        for item in items {
            match (item.kind, &item.session) {
                (Kind::Trash, Some(id)) => self.delete_trashed(id, item, &mut pruned)?,
                (_, Some(id)) => by_session.entry(id).or_default().push(item),
                (_, None) => self.remove_outside(item, &mut pruned)?,
            }
        }
        for (id, items) in by_session {
            self.prune_session(id, &items, &mut pruned)?;
        }
        Ok(pruned)
    }

    fn prune_session(
        &self,
        id: &SessionId,
        items: &[&Item],
        pruned: &mut Pruned,
    ) -> Result<(), StoreError> {
        let mut leave = |why: &str| {
            pruned.left.extend(items.iter().map(|item| ((*item).clone(), why.to_owned())));
        };
        let dir = self.layout().locate(self.disk(), id)?;
        let locked = match lock::open_locked(self.disk(), &dir, id) {
            Ok(locked) => locked,
            Err(StoreError::Held(_)) => {
                leave("a process works on the session");
                return Ok(());
            }
            Err(error) => return Err(error),
        };
        let now = match find::in_session(self, &dir, id) {
            Ok(now) => now,
            Err(error) => {
                leave(&error.to_string());
                return Ok(());
            }
        };
        // What refers to nothing must be what is found after power loss, too.
        now.log.sync_data_for(self.disk(), &dir)?;
        let same = |one: &Item, other: &Item| (one.kind, &one.name) == (other.kind, &other.name);
        let mut above = Vec::new();
        for item in items {
            match now.items.iter().find(|found| same(found, item)) {
                Some(_) => {
                    let path = dir.path().join(&item.name);
                    remove(self.disk(), &path)?;
                    above.extend(path.parent().map(Path::to_owned));
                    pruned.gone.push((*item).clone());
                }
                None => pruned.left.push(((*item).clone(), "it is in use now, or gone".to_owned())),
            }
        }
        above.sort();
        above.dedup();
        above.iter().try_for_each(|dir| sync_dir(self.disk(), dir))?;
        drop(locked);
        Ok(())
    }

    /// Deletes a session in the trash: first its name, so that it is there whole or not at all.
    fn delete_trashed(
        &self,
        id: &SessionId,
        item: &Item,
        pruned: &mut Pruned,
    ) -> Result<(), StoreError> {
        let (disk, trash) = (self.disk(), self.layout().trash());
        let (from, to) = (trash.join(id.as_str()), trash.join(format!("{GONE}{id}")));
        let entries = disk.list(&trash).map_err(|e| store_error("listing", &trash, e))?;
        let Some(entry) = entries.iter().find(|entry| entry.name == id.as_str()) else {
            pruned.left.push((item.clone(), "it is not in the trash any more".to_owned()));
            return Ok(());
        };
        if entry.is_link {
            remove(disk, &from)?;
        } else {
            if disk.meta(&to).is_ok() {
                remove_tree(disk, &to)?;
            }
            disk.rename(&from, &to).map_err(|e| write_error("naming", &to, e))?;
            sync_dir(disk, &trash)?;
            remove_tree(disk, &to)?;
        }
        sync_dir(disk, &trash)?;
        pruned.gone.push(item.clone());
        Ok(())
    }

    /// Removes what belongs to no session: what is left of deleted ones, and forks whose builders are gone.
    fn remove_outside(&self, item: &Item, pruned: &mut Pruned) -> Result<(), StoreError> {
        let path = self.root().join(&item.name);
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if name.starts_with(GONE) && path.starts_with(self.layout().trash()) {
            remove(self.disk(), &path)?;
        } else {
            // Whether it is gone is looked at below.
            let _ = leftovers::sweep_fork(self.disk(), &SessionDir::new(path.clone()));
        }
        match self.disk().meta(&path) {
            Err(_) => pruned.gone.push(item.clone()),
            Ok(_) => pruned.left.push((item.clone(), "somebody works on it".to_owned())),
        }
        Ok(())
    }
}

fn remove<D: Disk>(disk: &D, path: &Path) -> Result<(), StoreError> {
    match disk.meta(path) {
        Ok(meta) if meta.is_dir => remove_tree(disk, path),
        _ => match disk.remove_file(path) {
            Err(e) if e.kind() != ErrorKind::NotFound => Err(write_error("removing", path, e)),
            _ => Ok(()),
        },
    }
}
