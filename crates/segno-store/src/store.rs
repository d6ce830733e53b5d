//! The sessions under one root directory.
//!
//! Responsible for: the store trait on files, by handing each question to the module that answers it.
//! Must not: hold any state about sessions; the directory is the truth, and other processes change it.

use crate::blobs;
use crate::disk::{Disk, Medium, RealDisk};
use crate::error::store_error;
use crate::fork;
use crate::held::FileHeld;
use crate::inbox;
use crate::layout::{Found, Layout};
use crate::lock::{self, Locks};
use crate::log::FileLog;
use crate::reading::{self, LogFile};
use segno_model::batch::CHECKPOINT_EVERY;
use segno_model::finding::Finding;
use segno_model::inbox::admission::Admission;
use segno_model::inbox::{Inbox, NewInput};
use segno_model::judge::{Damage, Tail};
use segno_model::record::{BlobRef, Header};
use segno_model::store::{
    ForkPoint, Listed, ListedChild, Owner, Scanned, SessionStore, Snapshot, StoreError,
};
use segno_model::{Seq, SessionId, Timestamp};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What may be chosen about a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// How much log may lie between two checkpoints, in bytes.
    pub checkpoint_every: u64,
    /// How much is read at once, in bytes.
    pub block: usize,
    /// How much log may lie behind the input index, in bytes.
    pub index_every: u64,
    /// Whether to write on a network file system. Nothing is claimed to be durable there.
    pub allow_network: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            checkpoint_every: CHECKPOINT_EVERY,
            block: 64 * 1024,
            index_every: 256 * 1024,
            allow_network: false,
        }
    }
}

/// The sessions under one root directory. Cloning gives another handle onto the same ones.
#[derive(Debug, Clone)]
pub struct FileStore<D: Disk = RealDisk> {
    inner: Arc<Inner<D>>,
}

#[derive(Debug)]
struct Inner<D> {
    disk: D,
    layout: Layout,
    options: Options,
}

impl<D: Disk> FileStore<D> {
    /// The sessions under `root`, which need not exist yet.
    #[must_use]
    pub fn new(disk: D, root: impl Into<PathBuf>) -> Self {
        Self::with_options(disk, root, Options::default())
    }

    /// As [`FileStore::new`], with other options.
    #[must_use]
    pub fn with_options(disk: D, root: impl Into<PathBuf>, options: Options) -> Self {
        // The process may change its working directory; the sessions stay where they are.
        let root = root.into();
        let layout = Layout::new(std::path::absolute(&root).unwrap_or(root));
        Self { inner: Arc::new(Inner { disk, layout, options }) }
    }

    /// The root directory.
    #[must_use]
    pub fn root(&self) -> &Path {
        self.layout().root()
    }

    /// Where a session's log is, for people.
    ///
    /// # Errors
    /// [`StoreError::NotFound`] when there is no such session.
    pub fn log_path(&self, id: &SessionId) -> Result<PathBuf, StoreError> {
        self.layout().locate(self.disk(), id).map(|dir| dir.log())
    }

    /// The directories of supervised commands, by session: of all that have, or had, any.
    ///
    /// # Errors
    /// A failing disk.
    pub fn actions(&self) -> Result<Vec<(SessionId, PathBuf)>, StoreError> {
        self.layout().actions(self.disk())
    }

    /// Whether somebody holds a session's writer's right now.
    ///
    /// # Errors
    /// [`StoreError::NotFound`] when there is no such session.
    pub fn is_held(&self, id: &SessionId) -> Result<bool, StoreError> {
        let dir = self.layout().locate(self.disk(), id)?;
        Ok(lock::is_held(self.disk(), &dir))
    }

    /// Who holds a session's writer's right now, as far as is known; nobody holds it when there is none.
    ///
    /// # Errors
    /// [`StoreError::NotFound`] when there is no such session.
    pub fn holder(&self, id: &SessionId) -> Result<Option<Owner>, StoreError> {
        let dir = self.layout().locate(self.disk(), id)?;
        let held = lock::is_held(self.disk(), &dir);
        Ok(held.then(|| lock::read_owner(self.disk(), &dir)))
    }

    /// Reads everything, from line 1, in bounded memory, in this thread. The visitor returns false to end
    /// it.
    ///
    /// # Errors
    /// [`StoreError::NotFound`], or a failing disk.
    pub fn scan_now(
        &self,
        id: &SessionId,
        visit: &mut (dyn FnMut(Scanned) -> bool + Send),
    ) -> Result<(), StoreError> {
        self.log_file(id)?.scan(visit)
    }

    /// A blob's bytes, verified, in this thread.
    ///
    /// # Errors
    /// [`StoreError::NotFound`] when there is no such session, [`StoreError::Damaged`] when the blob is gone or
    /// is another one, or a failing disk.
    pub fn blob_now(&self, id: &SessionId, blob: &BlobRef) -> Result<Vec<u8>, StoreError> {
        let dir = self.layout().locate(self.disk(), id)?;
        blobs::get(self.disk(), &dir, blob)
    }

    /// All damage in a whole log, settled or not, and its tail: what a repair has to decide upon.
    /// Reads everything, in bounded memory.
    ///
    /// # Errors
    /// [`StoreError::NotFound`], or a failing disk.
    pub fn survey(&self, id: &SessionId) -> Result<(Vec<Damage>, Option<Tail>), StoreError> {
        self.log_file(id)?.survey()
    }

    /// Says of findings where they are: in which line, and at which byte if they only name a record;
    /// `offset_of` knows where records are, counted from the end of line 1. Reads up to the last of them,
    /// and nothing when all of them say it already.
    ///
    /// # Errors
    /// [`StoreError::NotFound`], or a failing disk.
    pub fn locate(
        &self,
        id: &SessionId,
        findings: &mut [Finding],
        offset_of: &dyn Fn(Seq) -> Option<u64>,
    ) -> Result<(), StoreError> {
        self.log_file(id)?.locate(findings, offset_of)
    }

    pub(crate) fn disk(&self) -> &D {
        &self.inner.disk
    }

    pub(crate) fn layout(&self) -> &Layout {
        &self.inner.layout
    }

    pub(crate) fn options(&self) -> &Options {
        &self.inner.options
    }

    /// Whether the medium's syncs mean what they say; an error where nothing may be written.
    pub(crate) fn check_medium(&self) -> Result<bool, StoreError> {
        let root = self.root();
        match self.disk().medium(root).map_err(|e| store_error("looking at", root, e))? {
            Medium::Local => Ok(true),
            Medium::Network(_) if self.options().allow_network => Ok(false),
            Medium::Network(name) => Err(StoreError::ReadOnly(format!(
                "{} is on a network file system ({name}), where locks and syncs may not hold",
                root.display()
            ))),
        }
    }

    pub(crate) fn log_file(&self, id: &SessionId) -> Result<LogFile<D>, StoreError> {
        let dir = self.layout().locate(self.disk(), id)?;
        LogFile::open(self, &dir, id)
    }

    /// Whether a session lies below another one.
    ///
    /// # Errors
    /// [`StoreError::NotFound`] when there is no such session.
    pub fn is_child(&self, id: &SessionId) -> Result<bool, StoreError> {
        Ok(self.layout().locate(self.disk(), id)?.parent().is_some())
    }

    /// The children of a session, by id; none when there is no such session.
    ///
    /// # Errors
    /// A failing disk.
    pub fn children_now(&self, parent: &SessionId) -> Result<Vec<ListedChild>, StoreError> {
        let all = self.layout().children(self.disk(), parent)?;
        let child = |(found, is_link): (Found, bool)| {
            let held = lock::is_held(self.disk(), &found.dir());
            ListedChild { id: found.id, bytes: found.meta.len, held, is_link }
        };
        Ok(all.into_iter().map(child).collect())
    }

    pub(crate) fn locks(&self) -> Locks {
        Locks::now(self.disk(), self.root())
    }

    pub(crate) fn listed(&self, found: Found, locks: &Locks) -> Listed {
        let held = locks.is_held(self.disk(), &found);
        Listed { id: found.id, bytes: found.meta.len, held }
    }
}

impl<D: Disk> SessionStore for FileStore<D> {
    type Held = FileHeld<D>;

    fn create(&self, header: Header) -> FileLog<D> {
        FileLog::unborn(self.clone(), header)
    }

    async fn open(&self, id: &SessionId) -> Result<FileHeld<D>, StoreError> {
        FileHeld::take(self.clone(), id)
    }

    async fn is_trashed(&self, id: &SessionId) -> Result<bool, StoreError> {
        self.is_trashed_now(id)
    }

    async fn read(&self, id: &SessionId) -> Result<Snapshot, StoreError> {
        reading::snapshot(&self.log_file(id)?, id)
    }

    async fn scan(
        &self,
        id: &SessionId,
        visit: &mut (dyn FnMut(Scanned) -> bool + Send),
    ) -> Result<(), StoreError> {
        self.log_file(id)?.scan(visit)
    }

    async fn list(&self) -> Result<Vec<Listed>, StoreError> {
        let all = self.layout().all(self.disk())?;
        let locks = self.locks();
        Ok(all.into_iter().map(|found| self.listed(found, &locks)).collect())
    }

    async fn children(&self, parent: &SessionId) -> Result<Vec<ListedChild>, StoreError> {
        self.children_now(parent)
    }

    async fn fork(
        &self,
        source: &SessionId,
        point: ForkPoint,
        header: Header,
        at: Timestamp,
    ) -> Result<SessionId, StoreError> {
        fork::fork(self, source, point, header, at)
    }

    async fn blob(&self, id: &SessionId, blob: &BlobRef) -> Result<Vec<u8>, StoreError> {
        self.blob_now(id, blob)
    }

    async fn admit(
        &self,
        id: &SessionId,
        input: &NewInput,
        at: Timestamp,
    ) -> Result<Admission, StoreError> {
        inbox::admit(self, id, input, at)
    }

    async fn pending(&self, id: &SessionId) -> Result<Inbox, StoreError> {
        inbox::pending(self, id)
    }

    async fn inbox_mark(&self, id: &SessionId) -> Result<u64, StoreError> {
        match self.layout().locate(self.disk(), id) {
            Ok(dir) => inbox::mark(self.disk(), &dir),
            Err(StoreError::NotFound(_)) => Ok(0),
            Err(error) => Err(error),
        }
    }
}
