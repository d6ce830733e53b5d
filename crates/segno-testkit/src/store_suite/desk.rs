//! The cases' vocabulary: short steps on a bench that fail loudly.
//!
//! Responsible for: making cases read like what they prove. Must not: contain cases.

use super::{Ability, Bench};
use crate::sessions::{Generator, Shape, header, text_of};
use crate::sim_clock::{EPOCH, SimClock, SimIds};
use segno_model::batch::Draft;
use segno_model::context;
use segno_model::finding::Finding;
use segno_model::record::Header;
use segno_model::state::State;
use segno_model::store::{
    Active, Clock, ForkPoint, HeldSession, Ids, Judged, Level, LogOf, Opened, Scanned, SessionLog,
    SessionStore, Snapshot, StoreError,
};
use segno_model::{Body, Pos, Record, Seq, SessionId};
use std::cell::Cell;
use std::rc::Rc;

/// The log type of a bench's store.
pub(super) type Log<H> = LogOf<<H as Bench>::Store>;

/// The damaged type of a bench's store.
pub(super) type Damaged<H> = <<<H as Bench>::Store as SessionStore>::Held as HeldSession>::Damaged;

/// A bench with a clock, ids and the words for working on it.
#[derive(Debug)]
pub(super) struct Desk<H: Bench> {
    pub(super) bench: H,
    clock: SimClock,
    ids: SimIds,
    skipped: Rc<Cell<bool>>,
}

/// Everything that a forward scan found.
#[derive(Debug, Default)]
pub(super) struct All {
    pub(super) records: Vec<Record>,
    pub(super) findings: Vec<Finding>,
}

impl All {
    pub(super) fn seqs(&self) -> Vec<Seq> {
        self.records.iter().map(Record::seq).collect()
    }

    pub(super) fn kinds(&self) -> Vec<&str> {
        self.records.iter().map(|r| r.envelope.kind.as_str()).collect()
    }

    pub(super) fn texts(&self) -> Vec<String> {
        texts(&self.records)
    }
}

/// The texts of the records that have one.
pub(super) fn texts(records: &[Record]) -> Vec<String> {
    records.iter().map(text_of).filter(|t| !t.is_empty()).collect()
}

/// The context at the state's tip, in full, as text that can be compared.
pub(super) fn context_of(active: &Active, state: &State) -> String {
    format!("{:#?}", context::build(&active.records, state.tip()).messages)
}

/// Everything in force, as text that can be compared.
pub(super) fn in_force(state: &State) -> String {
    let json = serde_json::to_string_pretty(&state.in_force).expect("a checkpoint is JSON");
    format!("next {} end {} {json}", state.next_seq, state.end)
}

impl<H: Bench> Desk<H> {
    pub(super) fn new() -> Self {
        let clock = SimClock::stepping(EPOCH, 1000);
        let ids = SimIds::new(7, clock.clone());
        Self { bench: H::fresh(), clock, ids, skipped: Rc::default() }
    }

    pub(super) fn skipped(&self) -> &Rc<Cell<bool>> {
        &self.skipped
    }

    /// Whether the bench has the ability; the case counts as skipped when not.
    pub(super) fn can(&self, ability: Ability) -> bool {
        let can = self.bench.can(ability);
        self.skipped.set(self.skipped.get() || !can);
        can
    }

    pub(super) fn clock(&self) -> &SimClock {
        &self.clock
    }

    pub(super) fn new_header(&self) -> Header {
        header(self.ids.session_id())
    }

    pub(super) fn drafts(&self, bodies: Vec<Body>) -> Vec<Draft> {
        bodies.into_iter().map(|body| Draft::new(self.clock.now(), body)).collect()
    }

    /// A log that does not exist yet.
    pub(super) fn unborn(&self) -> (SessionId, Log<H>) {
        let header = self.new_header();
        (header.id.clone(), self.bench.store().create(header))
    }

    /// A session whose first batch is this.
    pub(super) async fn begun(&self, bodies: Vec<Body>) -> (SessionId, Log<H>, Vec<Record>) {
        let (id, mut log) = self.unborn();
        let records = self.put(&mut log, bodies).await;
        (id, log, records)
    }

    /// A session that is written and closed.
    pub(super) async fn closed(&self, bodies: Vec<Body>) -> (SessionId, Vec<Record>) {
        let (id, _, records) = self.begun(bodies).await;
        (id, records)
    }

    /// A closed session made by a generator.
    pub(super) async fn generated(&self, shape: Shape) -> SessionId {
        let (id, mut log) = self.unborn();
        let mut generator = Generator::new(shape);
        let mut before = Vec::new();
        while let Some(drafts) = generator.next_batch(log.state(), &before) {
            before = log.append(drafts, Level::Synced).await.expect("a generated batch is taken");
        }
        id
    }

    pub(super) async fn append(
        &self,
        log: &mut Log<H>,
        bodies: Vec<Body>,
        level: Level,
    ) -> Result<Vec<Record>, StoreError> {
        log.append(self.drafts(bodies), level).await
    }

    /// Appends, synced.
    pub(super) async fn put(&self, log: &mut Log<H>, bodies: Vec<Body>) -> Vec<Record> {
        self.append(log, bodies, Level::Synced).await.expect("the append succeeds")
    }

    /// Appends, only written.
    pub(super) async fn write(&self, log: &mut Log<H>, bodies: Vec<Body>) -> Vec<Record> {
        self.append(log, bodies, Level::Written).await.expect("the append succeeds")
    }

    /// Opens as another process and judges.
    pub(super) async fn judge(&self, id: &SessionId) -> Judged<Log<H>, Damaged<H>> {
        let held = self.bench.elsewhere().open(id).await.expect("the session is free");
        held.judge().await.expect("it can be judged")
    }

    /// Opens as another process; it must be sound.
    pub(super) async fn open(&self, id: &SessionId) -> Opened<Log<H>> {
        match self.judge(id).await {
            Judged::Sound(opened) => opened,
            Judged::Damaged(damaged) => {
                use segno_model::store::DamagedSession;
                panic!("judged damaged: {:?}", damaged.findings())
            }
        }
    }

    /// Opens as another process; it must be damaged.
    pub(super) async fn open_damaged(&self, id: &SessionId) -> Damaged<H> {
        match self.judge(id).await {
            Judged::Damaged(damaged) => damaged,
            Judged::Sound(_) => panic!("judged sound, though its active context is damaged"),
        }
    }

    /// Reads as another process, without the right.
    pub(super) async fn read(&self, id: &SessionId) -> Snapshot {
        self.bench.elsewhere().read(id).await.expect("it can be read")
    }

    /// Scans everything as another process, without the right.
    pub(super) async fn scan(&self, id: &SessionId) -> All {
        let mut all = All::default();
        let mut visit = |step| {
            match step {
                Scanned::Record(record) => all.records.push(*record),
                Scanned::Finding(finding) => all.findings.push(finding),
            }
            true
        };
        self.bench.elsewhere().scan(id, &mut visit).await.expect("it can be scanned");
        all
    }

    pub(super) async fn fork(&self, source: &SessionId, point: ForkPoint) -> SessionId {
        self.try_fork(source, point).await.expect("it can be forked")
    }

    pub(super) async fn try_fork(
        &self,
        source: &SessionId,
        point: ForkPoint,
    ) -> Result<SessionId, StoreError> {
        let (header, at) = (self.new_header(), self.clock.now());
        self.bench.store().fork(source, point, header, at).await
    }

    pub(super) fn bytes(&self, id: &SessionId) -> Vec<u8> {
        self.bench.log(id).expect("the log exists")
    }

    /// Changes the log's bytes by hand.
    pub(super) fn change(&self, id: &SessionId, change: impl FnOnce(&mut Vec<u8>)) {
        let mut bytes = self.bytes(id);
        change(&mut bytes);
        self.bench.set_log(id, &bytes);
    }

    /// The context that the active part at `tip` gives.
    pub(super) async fn context_at(&self, log: &Log<H>, tip: Option<Pos>) -> String {
        let active = log.active(tip).await.expect("the active part can be read");
        format!("{:#?}", context::build(&active.records, tip).messages)
    }
}
