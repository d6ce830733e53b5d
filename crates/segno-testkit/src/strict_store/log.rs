//! The log that one holder appends to.
//!
//! Responsible for: when an append may happen, and the checks that no store may fail. Must not: judge.

use super::world::{Op, World};
use super::{inbox, load};
use segno_model::batch::{Batch, Draft, plan_with_checkpoint};
use segno_model::child::parent_of;
use segno_model::id::sha256_hex;
use segno_model::inbox::Inbox;
use segno_model::line::decode;
use segno_model::record::{BlobRef, Header, Repair, RepairItem};
use segno_model::state::State;
use segno_model::store::{Active, DraftText, Level, Owner, SessionLog, StoreError};
use segno_model::{Body, Pos, Record, Seq, SessionId};
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;

/// The world behind its lock.
#[derive(Debug, Clone, Default)]
pub(super) struct Shared(Arc<Mutex<World>>);

impl Shared {
    pub(super) fn lock(&self) -> MutexGuard<'_, World> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The right to write one session; given back when dropped.
#[derive(Debug)]
pub(super) struct Right {
    pub(super) world: Shared,
    pub(super) id: SessionId,
    pub(super) owner: Owner,
    /// None while the session does not exist yet.
    pub(super) ticket: Option<u64>,
}

impl Drop for Right {
    fn drop(&mut self) {
        if let Some(ticket) = self.ticket {
            self.world.lock().give_back(&self.id, ticket);
        }
    }
}

/// Bytes that the first append sets aside.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Tail {
    /// Where they begin, in the log.
    pub(super) at: usize,
}

/// A log that may be appended to.
#[derive(Debug)]
pub struct StrictLog {
    pub(super) right: Right,
    pub(super) header: Header,
    pub(super) state: State,
    /// The highest seq known durable.
    pub(super) synced: Option<Seq>,
    /// How long the log was when this holder last touched it.
    pub(super) length: usize,
    pub(super) tail: Option<Tail>,
    /// Whether the last line still lacks its line end.
    pub(super) unended: bool,
    pub(super) poison: Option<String>,
    /// Ids of inputs that waited before the right was taken.
    pub(super) stale: BTreeSet<String>,
}

impl StrictLog {
    /// A session that does not exist yet.
    pub(super) fn unborn(right: Right, header: Header) -> Self {
        Self {
            right,
            header,
            state: State::default(),
            synced: None,
            length: 0,
            tail: None,
            unended: false,
            poison: None,
            stale: BTreeSet::new(),
        }
    }

    fn poisoned(&mut self, why: &str) -> StoreError {
        self.poison = Some(why.to_owned());
        StoreError::Poisoned(why.to_owned())
    }

    /// Refuses a handle that lost its right, or whose log changed under it (G5, G15).
    fn check_right(&mut self, world: &World) -> Result<(), StoreError> {
        if let Some(why) = &self.poison {
            return Err(StoreError::Poisoned(why.clone()));
        }
        let Some(ticket) = self.right.ticket else { return Ok(()) };
        if !world.has_right(&self.right.id, ticket) {
            return Err(self.poisoned("the writer's right was lost"));
        }
        let length = world.logs.get(&self.right.id).map(|log| log.bytes.len());
        if length != Some(self.length) {
            return Err(self.poisoned("the log is not the one that was opened"));
        }
        Ok(())
    }

    fn under_lock<T>(&mut self, work: impl FnOnce(&mut Self, &mut World) -> T) -> T {
        let shared = self.right.world.clone();
        let mut world = shared.lock();
        work(self, &mut world)
    }

    /// Checks and plans; nothing has changed yet.
    fn begin(&mut self, drafts: Vec<Draft>) -> Result<(Batch, usize), StoreError> {
        self.under_lock(|log, world| {
            log.check_right(world)?;
            let (batch, added) = log.plan(world, drafts)?;
            check_batch(&log.state, log.synced, &batch)?;
            check_mark(world, &log.right.id, log.synced)?;
            Ok((batch, added))
        })
    }

    /// The whole batch: what the log adds of its own comes before the drafts.
    fn plan(&self, world: &World, drafts: Vec<Draft>) -> Result<(Batch, usize), StoreError> {
        let mut all = Vec::new();
        let Some(at) = drafts.first().map(|d| d.at) else {
            return Err(StoreError::refused("an empty batch"));
        };
        if self.state.next_seq == 0 {
            all.push(Draft::new(at, Body::Session(Box::new(self.header.clone()))));
        }
        if let Some(tail) = &self.tail {
            all.push(Draft::new(at, self.set_aside_record(world, tail)));
        }
        let added = all.len();
        all.extend(drafts);
        Ok((plan_with_checkpoint(&self.state, self.synced, all)?, added))
    }

    fn set_aside_record(&self, world: &World, tail: &Tail) -> Body {
        let bytes = world.logs.get(&self.right.id).map_or(&[][..], |log| &log.bytes[tail.at..]);
        let item = RepairItem::SetAside {
            offset: tail.at as u64,
            bytes: bytes.len() as u64,
            sha256: sha256_hex(bytes),
            file: format!("tail-{}", tail.at),
        };
        Body::Repair(Repair { rule: "torn-tail".into(), by_person: false, items: vec![item] })
    }

    /// Writes the batch where the intact part ends.
    fn write(&mut self, world: &mut World, batch: &Batch) -> Result<(), StoreError> {
        world.check(Op::Write, "writing")?;
        if self.right.ticket.is_none() {
            if world.logs.contains_key(&self.right.id) {
                return Err(StoreError::Exists(self.right.id.to_string()));
            }
            if let Some(parent) = parent_of(&self.header) {
                if !world.logs.contains_key(&parent) {
                    return Err(StoreError::NotFound(parent));
                }
                world.parents.insert(self.right.id.clone(), parent);
            }
            let owner = self.right.owner.clone();
            self.right.ticket = Some(world.take_right(&self.right.id, owner)?);
        }
        let log = world.logs.entry(self.right.id.clone()).or_default();
        if let Some(tail) = self.tail.take() {
            log.set_aside.push(log.bytes.split_off(tail.at));
            log.durable = log.durable.min(tail.at);
        }
        if std::mem::take(&mut self.unended) {
            log.bytes.push(b'\n');
        }
        log.bytes.extend_from_slice(&batch.bytes);
        self.length = log.bytes.len();
        Ok(())
    }

    /// Makes everything durable; the next record then gets `next_seq`.
    fn sync_now(&mut self, world: &mut World, next_seq: Seq) -> Result<(), StoreError> {
        if let Err(e) = world.check(Op::Sync, "syncing") {
            return Err(self.poisoned(&e.to_string()));
        }
        if let Some(log) = world.logs.get_mut(&self.right.id) {
            log.durable = log.bytes.len();
        }
        self.synced = next_seq.checked_sub(1);
        Ok(())
    }
}

/// Lets everybody else go first, as a medium does that one waits for: a caller can go away here.
async fn pause() {
    let mut waited = false;
    std::future::poll_fn(|context| {
        if std::mem::replace(&mut waited, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

/// What every batch must fulfil, whatever planned it.
fn check_batch(before: &State, synced: Option<Seq>, batch: &Batch) -> Result<(), StoreError> {
    let broken = |what: &str| Err(StoreError::Refused(format!("invariant broken: {what}")));
    let mut seq = before.next_seq;
    let mut offset = before.end;
    for line in batch.bytes.split_inclusive(|b| *b == b'\n') {
        let Some(text) = line.strip_suffix(b"\n") else { return broken("a line without its end") };
        let Ok(record) = decode(text, offset) else { return broken("a line that is no record") };
        match () {
            () if record.seq() != seq => return broken("numbers have a gap"),
            () if (record.envelope.kind == "session") != (seq == 0) => {
                return broken("the header is not line 1");
            }
            () if record.envelope.parent.is_some_and(|p| p >= seq) => {
                return broken("a parent is not older");
            }
            () if record.envelope.parent.is_some() && !record.is_node() => {
                return broken("metadata has a parent");
            }
            () if record.envelope.synced != synced => return broken("a mark that is not known"),
            () => {}
        }
        offset = if seq == 0 { 0 } else { offset + line.len() as u64 };
        seq += 1;
    }
    if (seq, offset) == (batch.head.next_seq, batch.head.end) {
        return Ok(());
    }
    broken("the state does not fit the bytes")
}

/// The mark in a batch may never claim more than the medium holds for sure.
fn check_mark(world: &World, id: &SessionId, synced: Option<Seq>) -> Result<(), StoreError> {
    let Some(mark) = synced else { return Ok(()) };
    let log = world.logs.get(id);
    let durable = log.map_or(&[][..], |log| &log.bytes[..log.durable.min(log.bytes.len())]);
    let newest = durable
        .rsplit(|b| *b == b'\n')
        .filter_map(|line| decode(line.strip_suffix(b"\r").unwrap_or(line), 0).ok())
        .next()
        .map(|record| record.seq());
    let holds = newest.is_some_and(|newest| mark <= newest);
    if holds {
        Ok(())
    } else {
        Err(StoreError::refused("invariant broken: a mark beyond the sync"))
    }
}

impl SessionLog for StrictLog {
    fn header(&self) -> &Header {
        &self.header
    }

    fn state(&self) -> &State {
        &self.state
    }

    async fn append(
        &mut self,
        drafts: Vec<Draft>,
        level: Level,
    ) -> Result<Vec<Record>, StoreError> {
        let wanted = drafts.len();
        pause().await;
        let (batch, added) = self.begin(drafts)?;
        // A caller that goes away between here and the end leaves a log that nobody knows.
        self.poison = Some("an append was broken off".to_owned());
        pause().await;
        let written = self.under_lock(|log, world| log.write(world, &batch));
        if let Err(e) = written {
            self.poison = None;
            return Err(e);
        }
        if level == Level::Synced {
            pause().await;
            self.under_lock(|log, world| log.sync_now(world, batch.head.next_seq))?;
        }
        pause().await;
        self.poison = None;
        batch.apply_to(&mut self.state);
        Ok(batch.records.into_iter().skip(added).take(wanted).collect())
    }

    async fn sync(&mut self) -> Result<(), StoreError> {
        let shared = self.right.world.clone();
        let mut world = shared.lock();
        self.check_right(&world)?;
        self.sync_now(&mut world, self.state.next_seq)
    }

    async fn put_blob(&mut self, bytes: &[u8], head: &str) -> Result<BlobRef, StoreError> {
        let shared = self.right.world.clone();
        let mut world = shared.lock();
        self.check_right(&world)?;
        world.check(Op::PutBlob, "storing a blob")?;
        let blob =
            BlobRef { blob: sha256_hex(bytes), bytes: bytes.len() as u64, head: head.to_owned() };
        world.blobs.insert((self.right.id.clone(), blob.blob.clone()), bytes.to_vec());
        Ok(blob)
    }

    async fn blob(&self, blob: &BlobRef) -> Result<Vec<u8>, StoreError> {
        load::blob(&self.right.world.lock(), &self.right.id, blob)
    }

    async fn pending(&mut self) -> Result<Inbox, StoreError> {
        let mut world = self.right.world.lock();
        if self.right.ticket.is_none() {
            return Ok(Inbox::default());
        }
        let mut found = inbox::pending(&mut world, &self.right.id)?;
        for pending in &mut found.pending {
            pending.stale = self.stale.contains(&pending.input.id);
        }
        Ok(found)
    }

    async fn clear_inbox(&mut self) -> Result<(), StoreError> {
        if inbox::ids(&self.right.world.lock(), &self.right.id).is_empty() {
            return Ok(());
        }
        self.sync().await?;
        inbox::clear(&mut self.right.world.lock(), &self.right.id);
        Ok(())
    }

    async fn save_draft(&mut self, request: Seq, more: &str) -> Result<(), StoreError> {
        self.under_lock(|log, world| {
            log.check_right(world)?;
            if log.right.ticket.is_none() {
                return Ok(());
            }
            world.check(Op::Draft, "keeping a draft")?;
            let draft = world.drafts.entry(log.right.id.clone()).or_default();
            if draft.0 != request {
                *draft = (request, String::new());
            }
            draft.1.push_str(more);
            Ok(())
        })
    }

    async fn draft(&self) -> Result<Option<DraftText>, StoreError> {
        let world = self.right.world.lock();
        let kept = world.drafts.get(&self.right.id);
        Ok(kept.map(|(request, text)| DraftText {
            request: *request,
            text: text.clone(),
            damaged: false,
        }))
    }

    async fn active(&self, tip: Option<Pos>) -> Result<Active, StoreError> {
        let mut world = self.right.world.lock();
        world.check(Op::Read, "reading")?;
        let bytes = world.logs.get(&self.right.id).map_or(&[][..], |log| &log.bytes);
        Ok(load::load_at(bytes, tip).1)
    }
}
