//! A store in memory that forgives nothing.
//!
//! Responsible for: the store traits, stricter than any medium: it forgets what was not synced, fails on
//! command, refuses whoever lost the right, and checks every batch. Must not: be used for real sessions.

mod fork;
mod held;
mod inbox;
mod load;
mod log;
mod world;

pub use held::{StrictDamaged, StrictHeld};
pub use log::StrictLog;
pub use world::{Fault, Op};

use crate::sim_clock::EPOCH;
use log::{Right, Shared};
use segno_model::child::parent_of;
use segno_model::inbox::admission::Admission;
use segno_model::inbox::{Inbox, NewInput};
use segno_model::record::{BlobRef, Header};
use segno_model::store::{
    ForkPoint, Listed, ListedChild, Owner, Scanned, SessionStore, Snapshot, StoreError,
};
use segno_model::{SessionId, Timestamp};
use world::{Stored, World};

/// A process's view of sessions that live in memory. [`StrictStore::elsewhere`] gives the view of
/// another process onto the same ones.
#[derive(Debug, Clone)]
pub struct StrictStore {
    world: Shared,
    pid: u32,
}

impl Default for StrictStore {
    fn default() -> Self {
        Self { world: Shared::default(), pid: 1 }
    }
}

impl StrictStore {
    /// The same sessions as another process sees them.
    #[must_use]
    pub fn elsewhere(&self) -> Self {
        Self { world: self.world.clone(), pid: self.pid + 1 }
    }

    /// Power is lost: all rights end, and so does what was not synced but for its first `keep` bytes.
    pub fn crash(&self, keep: usize) {
        self.world.lock().crash(keep);
    }

    /// The next operation of this kind fails.
    pub fn fail_next(&self, op: Op, fault: Fault) {
        self.fail_after(op, 0, fault);
    }

    /// After so many more operations of this kind have succeeded, the next one fails.
    pub fn fail_after(&self, op: Op, successes: usize, fault: Fault) {
        self.world.lock().fail_after(op, successes, fault);
    }

    /// Forgets the failures that have not happened yet.
    pub fn heal(&self) {
        self.world.lock().heal();
    }

    /// Takes the right away from whoever writes `id`.
    pub fn revoke(&self, id: &SessionId) {
        self.world.lock().revoke(id);
    }

    /// The log as it lies on the medium.
    #[must_use]
    pub fn log_bytes(&self, id: &SessionId) -> Option<Vec<u8>> {
        self.world.lock().logs.get(id).map(|log| log.bytes.clone())
    }

    /// What of the log a power cut could not take.
    #[must_use]
    pub fn durable_bytes(&self, id: &SessionId) -> Option<Vec<u8>> {
        self.world.lock().logs.get(id).map(|log| log.bytes[..log.durable].to_vec())
    }

    /// Puts other bytes in the place of a log, durably.
    pub fn set_log_bytes(&self, id: &SessionId, bytes: Vec<u8>) {
        let mut world = self.world.lock();
        let log = world.logs.entry(id.clone()).or_default();
        log.durable = bytes.len();
        log.bytes = bytes;
    }

    /// Everything that was set aside from `id`, oldest first.
    #[must_use]
    pub fn set_aside(&self, id: &SessionId) -> Vec<Vec<u8>> {
        self.world.lock().logs.get(id).map(|log| log.set_aside.clone()).unwrap_or_default()
    }

    /// Replaces a blob's bytes, or removes it.
    pub fn set_blob(&self, id: &SessionId, blob: &BlobRef, bytes: Option<Vec<u8>>) {
        let key = (id.clone(), blob.blob.clone());
        let mut world = self.world.lock();
        match bytes {
            Some(bytes) => world.blobs.insert(key, bytes),
            None => world.blobs.remove(&key),
        };
    }

    fn owner(&self) -> Owner {
        let (boot, host) = ("boot-1".to_owned(), "testhost".to_owned());
        Owner { pid: self.pid, started: 1, boot, host, since: EPOCH }
    }

    fn right(&self, id: &SessionId, ticket: Option<u64>) -> Right {
        Right { world: self.world.clone(), id: id.clone(), owner: self.owner(), ticket }
    }

    /// A fork must not hold what its source could still lose.
    fn make_durable(&self, id: &SessionId) -> Result<(), StoreError> {
        let mut world = self.world.lock();
        if !world.logs.contains_key(id) {
            return Err(StoreError::NotFound(id.clone()));
        }
        world.check(Op::Sync, "syncing")?;
        if let Some(log) = world.logs.get_mut(id) {
            log.durable = log.bytes.len();
        }
        Ok(())
    }

    fn bytes_of(&self, id: &SessionId) -> Result<Vec<u8>, StoreError> {
        let mut world = self.world.lock();
        world.check(Op::Read, "reading")?;
        let log = world.logs.get(id).ok_or_else(|| StoreError::NotFound(id.clone()))?;
        Ok(log.bytes.clone())
    }
}

impl SessionStore for StrictStore {
    type Held = StrictHeld;

    fn create(&self, header: Header) -> StrictLog {
        StrictLog::unborn(self.right(&header.id, None), header)
    }

    async fn open(&self, id: &SessionId) -> Result<StrictHeld, StoreError> {
        let mut world = self.world.lock();
        if !world.logs.contains_key(id) {
            return Err(StoreError::NotFound(id.clone()));
        }
        let stale = inbox::ids(&world, id);
        let ticket = world.take_right(id, self.owner())?;
        Ok(StrictHeld { right: self.right(id, Some(ticket)), stale })
    }

    async fn read(&self, id: &SessionId) -> Result<Snapshot, StoreError> {
        let (loaded, active) = load::load(&self.bytes_of(id)?);
        Ok(Snapshot { header: loaded.header_or_bare(id), state: loaded.state, active })
    }

    async fn scan(
        &self,
        id: &SessionId,
        visit: &mut (dyn FnMut(Scanned) -> bool + Send),
    ) -> Result<(), StoreError> {
        load::scan(&self.bytes_of(id)?, visit);
        Ok(())
    }

    async fn list(&self) -> Result<Vec<Listed>, StoreError> {
        let world = self.world.lock();
        let listed = |(id, log): (&SessionId, &Stored)| Listed {
            id: id.clone(),
            bytes: log.bytes.len() as u64,
            held: world.is_held(id),
        };
        let is_session = |(id, _): &(&SessionId, &Stored)| !world.parents.contains_key(*id);
        Ok(world.logs.iter().filter(is_session).map(listed).collect())
    }

    async fn children(&self, parent: &SessionId) -> Result<Vec<ListedChild>, StoreError> {
        let world = self.world.lock();
        let child = |(id, of): (&SessionId, &SessionId)| {
            let log = world.logs.get(id).filter(|_| of == parent)?;
            let (bytes, held) = (log.bytes.len() as u64, world.is_held(id));
            Some(ListedChild { id: id.clone(), bytes, held, is_link: false })
        };
        Ok(world.parents.iter().filter_map(child).collect())
    }

    async fn fork(
        &self,
        source: &SessionId,
        point: ForkPoint,
        header: Header,
        at: Timestamp,
    ) -> Result<SessionId, StoreError> {
        self.make_durable(source)?;
        let bytes = self.bytes_of(source)?;
        let copy = fork::copy(&bytes, source, point, header.clone(), at)?;
        let mut world = self.world.lock();
        if world.logs.contains_key(&header.id) {
            return Err(StoreError::Exists(header.id.to_string()));
        }
        if let Some(parent) = parent_of(&header) {
            if !world.logs.contains_key(&parent) {
                return Err(StoreError::NotFound(parent));
            }
            world.parents.insert(header.id.clone(), parent);
        }
        copy_blobs(&mut world, source, &header.id);
        let stored = Stored { durable: copy.len(), bytes: copy, set_aside: Vec::new() };
        world.logs.insert(header.id.clone(), stored);
        Ok(header.id)
    }

    async fn blob(&self, id: &SessionId, blob: &BlobRef) -> Result<Vec<u8>, StoreError> {
        load::blob(&self.world.lock(), id, blob)
    }

    async fn admit(
        &self,
        id: &SessionId,
        input: &NewInput,
        at: Timestamp,
    ) -> Result<Admission, StoreError> {
        inbox::admit(&mut self.world.lock(), id, input, at)
    }

    async fn pending(&self, id: &SessionId) -> Result<Inbox, StoreError> {
        inbox::pending(&mut self.world.lock(), id)
    }

    async fn inbox_mark(&self, id: &SessionId) -> Result<u64, StoreError> {
        use std::hash::{DefaultHasher, Hash, Hasher};
        let ids = inbox::ids(&self.world.lock(), id);
        if ids.is_empty() {
            return Ok(0);
        }
        let mut hasher = DefaultHasher::new();
        ids.hash(&mut hasher);
        Ok(hasher.finish().max(1))
    }
}

fn copy_blobs(world: &mut World, from: &SessionId, to: &SessionId) {
    let of_source = world.blobs.iter().filter(|((id, _), _)| id == from);
    let copies: Vec<_> =
        of_source.map(|((_, name), bytes)| ((to.clone(), name.clone()), bytes.clone())).collect();
    world.blobs.extend(copies);
}
