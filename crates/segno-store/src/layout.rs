//! Where everything of a session lies.
//!
//! Responsible for: the names of files and directories under the root, and finding a session by id.
//! Must not: read what is in the files, or build a path from any text but a checked id or hash.

use crate::disk::{Disk, Meta};
use crate::error::store_error;
use segno_model::SessionId;
use segno_model::child::parent_of;
use segno_model::record::Header;
use segno_model::store::StoreError;
use segno_model::time::Timestamp;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The log's name in its session's directory.
pub(crate) const LOG: &str = "log.jsonl";

/// The name of the directory of its supervised commands.
const ACTIONS: &str = "actions";

/// The name of the directory of its children.
const CHILDREN: &str = "children";

/// The paths of one session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SessionDir(PathBuf);

impl SessionDir {
    pub(crate) fn new(path: PathBuf) -> Self {
        Self(path)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    pub(crate) fn log(&self) -> PathBuf {
        self.0.join(LOG)
    }

    pub(crate) fn owner(&self) -> PathBuf {
        self.0.join("owner")
    }

    pub(crate) fn draft(&self) -> PathBuf {
        self.0.join("draft")
    }

    pub(crate) fn blobs(&self) -> PathBuf {
        self.0.join("blobs")
    }

    pub(crate) fn actions(&self) -> PathBuf {
        self.0.join(ACTIONS)
    }

    pub(crate) fn children(&self) -> PathBuf {
        self.0.join(CHILDREN)
    }

    /// The session that it is a child of: by where it lies.
    pub(crate) fn parent(&self) -> Option<Self> {
        let children =
            self.0.parent().filter(|dir| dir.file_name().is_some_and(|n| n == CHILDREN))?;
        children.parent().map(|parent| Self(parent.to_owned()))
    }

    pub(crate) fn set_aside(&self) -> PathBuf {
        self.0.join("set-aside")
    }

    pub(crate) fn inbox(&self) -> PathBuf {
        self.0.join("inbox")
    }

    pub(crate) fn input_index(&self) -> PathBuf {
        self.0.join("inputs.idx")
    }
}

/// The paths under a root.
#[derive(Debug, Clone)]
pub(crate) struct Layout {
    root: PathBuf,
}

impl Layout {
    pub(crate) fn new(root: PathBuf) -> Self {
        Self { root }
    }

    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    pub(crate) fn sessions(&self) -> PathBuf {
        self.root.join("sessions")
    }

    pub(crate) fn trash(&self) -> PathBuf {
        self.root.join("trash")
    }

    /// Where a session is created: in the month that its id carries.
    pub(crate) fn home(&self, id: &SessionId) -> SessionDir {
        SessionDir(self.sessions().join(month(id)).join(id.as_str()))
    }

    /// Where a session with this header is created: a child below its parent, wherever that is.
    pub(crate) fn home_of<D: Disk>(&self, disk: &D, header: &Header) -> SessionDir {
        match parent_of(header) {
            Some(parent) => {
                let parent = self.locate(disk, &parent).unwrap_or_else(|_| self.home(&parent));
                SessionDir(parent.children().join(header.id.as_str()))
            }
            None => self.home(&header.id),
        }
    }

    /// Where an existing session is: at home, in another month's directory, or below its parent.
    pub(crate) fn locate<D: Disk>(
        &self,
        disk: &D,
        id: &SessionId,
    ) -> Result<SessionDir, StoreError> {
        let home = self.home(id);
        if has_log(disk, &home)? {
            return Ok(home);
        }
        let months = directories(disk, &self.sessions())?;
        for month in &months {
            let dir = SessionDir(self.sessions().join(month).join(id.as_str()));
            if has_log(disk, &dir)? {
                return Ok(dir);
            }
        }
        if !may_be_child(id) {
            return Err(StoreError::NotFound(id.clone()));
        }
        // Nothing names a child's parent but its own header: every session is asked, all of a month at once.
        for month in &months {
            let dir = self.sessions().join(month);
            let parents = ids_in(disk, &dir)?;
            let below = format!("{CHILDREN}/{id}");
            let found = disk.metas(&dir, &parents, &format!("{below}/{LOG}"));
            if let Some(at) = found.iter().position(Result::is_ok) {
                return Ok(SessionDir(dir.join(parents[at].as_str()).join(below)));
            }
        }
        Err(StoreError::NotFound(id.clone()))
    }

    /// The children of a session; and which of them are links.
    pub(crate) fn children<D: Disk>(
        &self,
        disk: &D,
        parent: &SessionId,
    ) -> Result<Vec<(Found, bool)>, StoreError> {
        let dir = match self.locate(disk, parent) {
            Ok(dir) => dir.children(),
            Err(StoreError::NotFound(_)) => return Ok(Vec::new()),
            Err(error) => return Err(error),
        };
        let found = sessions_in(disk, &dir)?;
        if found.is_empty() {
            return Ok(Vec::new());
        }
        let entries = disk.list(&dir).map_err(|e| store_error("listing", &dir, e))?;
        let is_link = |id: &SessionId| entries.iter().any(|e| e.is_link && e.name == id.as_str());
        Ok(found
            .into_iter()
            .map(|found| (is_link(&found.id), found))
            .map(|(l, f)| (f, l))
            .collect())
    }

    /// Every session that has, or had, supervised commands: the directories of their files.
    pub(crate) fn actions<D: Disk>(
        &self,
        disk: &D,
    ) -> Result<Vec<(SessionId, PathBuf)>, StoreError> {
        let mut found = Vec::new();
        for month in directories(disk, &self.sessions())? {
            let dir = self.sessions().join(month);
            let ids = ids_in(disk, &dir)?;
            let parents = disk.metas(&dir, &ids, CHILDREN);
            for (parent, _) in ids.iter().zip(parents).filter(|(_, meta)| meta.is_ok()) {
                let below = dir.join(parent.as_str()).join(CHILDREN);
                let children = ids_in(disk, &below)?;
                found.extend(with_actions(disk, &below, children));
            }
            found.extend(with_actions(disk, &dir, ids));
        }
        Ok(found)
    }

    /// Every directory that is named like a session and has a log; within a month in the order of the ids.
    pub(crate) fn all<D: Disk>(&self, disk: &D) -> Result<Vec<Found>, StoreError> {
        self.all_and_lost(disk).map(|(found, _)| found)
    }

    /// The same, and those that are named like a session and have no log.
    pub(crate) fn all_and_lost<D: Disk>(&self, disk: &D) -> Result<(Vec<Found>, Lost), StoreError> {
        let mut months = directories(disk, &self.sessions())?;
        months.sort_unstable();
        let dirs = months.into_iter().map(|month| self.sessions().join(month)).collect::<Vec<_>>();
        sessions_below(disk, &dirs)
    }

    /// The directory of a session that is there and has no log, in any month.
    pub(crate) fn without_log<D: Disk>(
        &self,
        disk: &D,
        id: &SessionId,
    ) -> Result<Option<SessionDir>, StoreError> {
        match self.locate(disk, id) {
            Ok(_) => return Ok(None),
            Err(StoreError::NotFound(_)) => {}
            Err(error) => return Err(error),
        }
        for month in directories(disk, &self.sessions())? {
            let dir = SessionDir(self.sessions().join(month).join(id.as_str()));
            if exists(disk, dir.path())? {
                return Ok(Some(dir));
            }
        }
        Ok(None)
    }
}

/// The directories of these sessions' supervised commands, of those that have one.
fn with_actions<D: Disk>(disk: &D, dir: &Path, ids: Vec<SessionId>) -> Vec<(SessionId, PathBuf)> {
    let metas = disk.metas(dir, &ids, ACTIONS);
    let there = ids.into_iter().zip(metas).filter(|(_, meta)| meta.is_ok());
    let path = |id: &SessionId| dir.join(id.as_str()).join(ACTIONS);
    there.map(|(id, _)| (id.clone(), path(&id))).collect()
}

/// The ids after which directories in a directory are named.
fn ids_in<D: Disk>(disk: &D, dir: &Path) -> Result<Vec<SessionId>, StoreError> {
    let names = directories(disk, dir)?;
    Ok(names.iter().flat_map(|name| SessionId::parse(name)).collect())
}

/// Directories that are named like a session and have no log.
pub(crate) type Lost = Vec<(SessionId, SessionDir)>;

/// A session on disk.
#[derive(Debug)]
pub(crate) struct Found {
    pub(crate) id: SessionId,
    /// The directory that its directory is in, shared with the others there.
    within: Arc<Path>,
    /// Of its log.
    pub(crate) meta: Meta,
}

impl Found {
    pub(crate) fn dir(&self) -> SessionDir {
        SessionDir(self.within.join(self.id.as_str()))
    }
}

/// The sessions that lie directly in a directory, in the order of their ids.
pub(crate) fn sessions_in<D: Disk>(disk: &D, dir: &Path) -> Result<Vec<Found>, StoreError> {
    sessions_below(disk, &[dir.to_owned()]).map(|(found, _)| found)
}

/// The same of several directories, one behind the other, and what is only named so. Their logs are looked at
/// all together, so that many directories with few sessions each keep all processors busy too.
fn sessions_below<D: Disk>(disk: &D, dirs: &[PathBuf]) -> Result<(Vec<Found>, Lost), StoreError> {
    let mut named = Vec::with_capacity(dirs.len());
    for dir in dirs {
        let mut ids = ids_in(disk, dir)?;
        ids.sort_unstable();
        named.push((dir.as_path(), ids));
    }
    let asked: Vec<_> = named.iter().map(|(dir, ids)| (*dir, ids.as_slice())).collect();
    let mut metas = disk.metas_in(&asked, LOG).into_iter();
    let (mut found, mut lost) = (Vec::with_capacity(metas.len()), Lost::new());
    for (dir, ids) in named {
        let within = Arc::from(dir);
        for (id, meta) in ids.into_iter().zip(metas.by_ref()) {
            match if_any(meta) {
                Ok(Some(meta)) => found.push(Found { id, within: Arc::clone(&within), meta }),
                Ok(None) => {
                    let at = SessionDir(dir.join(id.as_str()));
                    lost.push((id, at));
                }
                Err(e) => {
                    return Err(store_error("looking at", &dir.join(id.as_str()).join(LOG), e));
                }
            }
        }
    }
    Ok((found, lost))
}

/// Whether an id can be a child's: those follow from a call and carry no time (version 8). All others need
/// not be looked for below every session.
fn may_be_child(id: &SessionId) -> bool {
    id.as_str().as_bytes().get(14) == Some(&b'8')
}

/// The month of an id's making, e.g. `2026-11`.
fn month(id: &SessionId) -> String {
    let mut text = Timestamp(id.created_ms()).to_string();
    text.truncate("2026-11".len());
    text
}

fn has_log<D: Disk>(disk: &D, dir: &SessionDir) -> Result<bool, StoreError> {
    exists(disk, &dir.log())
}

pub(crate) fn exists<D: Disk>(disk: &D, path: &Path) -> Result<bool, StoreError> {
    look(disk, path).map(|meta| meta.is_some())
}

/// What is at a path, if anything is.
fn look<D: Disk>(disk: &D, path: &Path) -> Result<Option<Meta>, StoreError> {
    if_any(disk.meta(path)).map_err(|e| store_error("looking at", path, e))
}

fn if_any(meta: std::io::Result<Meta>) -> std::io::Result<Option<Meta>> {
    match meta {
        Ok(meta) => Ok(Some(meta)),
        Err(e) if is_nothing(&e) => Ok(None),
        Err(e) => Err(e),
    }
}

/// Nothing there, or links that lead nowhere: one such name must not hide every other session.
fn is_nothing(error: &std::io::Error) -> bool {
    matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory)
        || error.raw_os_error() == Some(rustix::io::Errno::LOOP.raw_os_error())
}

/// The names of the directories in a directory; none when it is not there.
fn directories<D: Disk>(disk: &D, path: &Path) -> Result<Vec<String>, StoreError> {
    match disk.list(path) {
        Ok(entries) => Ok(entries.into_iter().filter(|e| e.is_dir).map(|e| e.name).collect()),
        Err(e) if e.kind() == ErrorKind::NotFound => Ok(Vec::new()),
        Err(e) => Err(store_error("listing", path, e)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_month_comes_from_the_id() {
        let id = |text| SessionId::parse(text).unwrap();
        assert_eq!(month(&id("01939a4c-7b1e-7000-8000-000000000000")), "2024-12");
        assert_eq!(month(&id("00000000-0000-7000-8000-000000000000")), "1970-01");
        // Out of the calendar's range: any fixed month will do, as long as there is one.
        assert_eq!(month(&id("ffffffff-ffff-4fff-8fff-ffffffffffff")).len(), 7);
    }
}
