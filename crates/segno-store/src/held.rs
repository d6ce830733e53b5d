//! Sessions that are held and not judged, or judged and found damaged.
//!
//! Responsible for: the way from the lock to a log that can be appended to. Must not: change a byte of
//! the log before something is appended.

use crate::disk::{Disk, DiskFile};
use crate::erase;
use crate::error::store_error;
use crate::inbox::InboxDesk;
use crate::layout::SessionDir;
use crate::lock;
use crate::log::FileLog;
use crate::reading::{self, LogFile};
use crate::set_aside;
use crate::store::FileStore;
use crate::writer::Writer;
use segno_model::active::{Loaded, Loader};
use segno_model::batch::Draft;
use segno_model::finding::Finding;
use segno_model::record::{Repair, RepairItem};
use segno_model::store::{
    DamagedSession, HeldSession, Judged, Level, Opened, SessionLog, StoreError,
};
use segno_model::{Body, Seq, SessionId, Timestamp};

/// How much of a log's end is read from the medium and not from memory when it is opened: after a
/// failed sync in another process, memory may show records that the medium never got (G15).
const REREAD: u64 = 16 << 20;

/// A held, unjudged session.
#[derive(Debug)]
pub struct FileHeld<D: Disk> {
    pub(crate) store: FileStore<D>,
    pub(crate) id: SessionId,
    pub(crate) dir: SessionDir,
    pub(crate) writer: Writer<D>,
    pub(crate) trusted: bool,
    pub(crate) inbox: InboxDesk,
}

impl<D: Disk> FileHeld<D> {
    /// Takes the lock of a session's log.
    pub(crate) fn take(store: FileStore<D>, id: &SessionId) -> Result<Self, StoreError> {
        let dir = store.layout().locate(store.disk(), id)?;
        let trusted = store.check_medium()?;
        let inbox = InboxDesk::before_the_lock(store.disk(), &dir)?;
        let file = lock::open_locked(store.disk(), &dir, id)?;
        lock::note_owner(store.disk(), &dir);
        make_private(store.disk(), &dir);
        let path = dir.log();
        let writer = Writer::new(store.disk().clone(), path.clone(), file)
            .map_err(|e| store_error("looking at", &path, e))?;
        Ok(Self { store, id: id.clone(), dir, writer, trusted, inbox })
    }
}

/// Takes from others what older versions or a person let them see. One that may not be changed does
/// not keep anybody from working.
fn make_private<D: Disk>(disk: &D, dir: &SessionDir) {
    let _ = disk.make_private(dir.path());
    let _ = disk.make_private(&dir.log());
}

impl<D: Disk> HeldSession for FileHeld<D> {
    type Log = FileLog<D>;
    type Damaged = FileDamaged<D>;

    async fn judge(self) -> Result<Judged<FileLog<D>, FileDamaged<D>>, StoreError> {
        let (file, len) = (self.writer.file(), self.writer.end());
        file.forget_cached(len.saturating_sub(REREAD) / 4096 * 4096);
        let (mut loaded, bytes) = reading::load(file, self.writer.path(), Loader::new(len))?;
        loaded.check_writable()?;
        let untold = set_aside::untold(self.store.disk(), &self.dir, loaded.content_end)?;
        let tail = loaded.tail.as_ref().map(|tail| (tail.at, len - tail.at));
        loaded.findings.extend(untold.iter().filter_map(|item| set_aside::finding(item, tail)));
        loaded.findings.extend(erase::finding(self.store.disk(), &self.dir, &self.id));
        if loaded.blocking().next().is_some() {
            return FileDamaged::new(self, loaded, untold).map(Judged::Damaged);
        }
        let known = reading::known_of(&loaded, len, &self.id, untold);
        let active = reading::active_of(&mut loaded, bytes);
        Ok(Judged::Sound(Opened { log: FileLog::born(self, known), active }))
    }
}

/// A held session with damage in its active context.
#[derive(Debug)]
pub struct FileDamaged<D: Disk> {
    held: FileHeld<D>,
    loaded: Loaded,
    findings: Vec<Finding>,
    untold: Vec<RepairItem>,
}

impl<D: Disk> FileDamaged<D> {
    /// Somebody has to decide now, so the lines up to the damage are counted.
    fn new(held: FileHeld<D>, loaded: Loaded, untold: Vec<RepairItem>) -> Result<Self, StoreError> {
        let mut findings: Vec<_> = loaded.blocking().map(|damage| damage.finding.clone()).collect();
        reading::number_lines(held.writer.file(), held.writer.path(), &mut findings)?;
        Ok(Self { held, loaded, findings, untold })
    }
}

impl<D: Disk> DamagedSession for FileDamaged<D> {
    type Log = FileLog<D>;

    fn findings(&self) -> &[Finding] {
        &self.findings
    }

    fn plan(&self, accept: &[Seq]) -> Vec<RepairItem> {
        self.loaded.plan(accept)
    }

    async fn repair(
        self,
        plan: Vec<RepairItem>,
        at: Timestamp,
    ) -> Result<Opened<FileLog<D>>, StoreError> {
        self.loaded.check_plan(&plan)?;
        let Self { held, loaded, untold, .. } = self;
        let (store, id) = (held.store.clone(), held.id.clone());
        let known = reading::known_of(&loaded, held.writer.end(), &id, untold);
        let mut log = FileLog::born(held, known);
        let repair = Repair { rule: "person".to_owned(), by_person: true, items: plan };
        log.append(vec![Draft::new(at, Body::Repair(repair))], Level::Synced).await?;
        // The lock is still ours, so this is the log that was just repaired.
        let file = LogFile::open(&store, log.dir(), &id)?;
        let (mut loaded, bytes) = file.load()?;
        loaded.check_repaired(&file.path.display().to_string())?;
        // What was accepted is read now, and may even be the tip.
        log.restate(loaded.state.clone());
        let active = reading::active_of(&mut loaded, bytes);
        Ok(Opened { log, active })
    }
}
