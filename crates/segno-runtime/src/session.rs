//! A session open for work.
//!
//! Responsible for: the log, the active records in memory, and the rule that memory moves only after
//! a write succeeded and nothing is shown before it is durable (G1). Recovery's findings are held back
//! and written with the first append, so that looking at a session changes no byte. Must not: drive a
//! run (that is [`crate::run`]) or call a model.

use crate::blobs;
use crate::recovery::Then;
use crate::settling::Findings;
use segno_model::batch::Draft;
use segno_model::context::{self, Context, Target, Unanswered};
use segno_model::finding::Finding;
use segno_model::record::{
    Body, Compaction, CompactionState, ContextEdit, Environment, Header, Label, ModelChange,
    ModelRef, Name, Policy, PolicyChange, ThinkingChange, Tip,
};
use segno_model::state::State;
use segno_model::store::{Active, Clock, Level, Opened, SessionLog, StoreError};
use segno_model::{Checkpoint, Pos, Record, Seq, SessionId};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// A session with the writer's right, judged.
pub struct Session<L: SessionLog> {
    log: L,
    clock: Arc<dyn Clock>,
    /// Ascending by seq: the active part, and everything appended since.
    records: BTreeMap<Seq, Record>,
    findings: Vec<Finding>,
    /// Goes into the next batch, in front of it.
    queued: Vec<Body>,
    recovery_pending: bool,
    /// What was found out about work that was interrupted.
    pub(crate) left_open: Findings,
    /// The run whose stop by the user found no room on the disk (G16); it is told with its end.
    unrecorded_stop: Option<u64>,
    /// Inputs that waited for a person, and that one asked for.
    pub(crate) asked_for: BTreeSet<String>,
    /// Appended and not yet handed out as durable.
    unshown: Vec<Record>,
    /// Whether a header and a record are on disk for good.
    durable: bool,
}

impl<L: SessionLog> Session<L> {
    /// A new session over a log that does not exist yet. Nothing is written before the first input.
    pub fn new(log: L, clock: Arc<dyn Clock>) -> Self {
        let opened = Opened { log, active: Active::default() };
        Self { recovery_pending: false, ..Self::resume(opened, clock) }
    }

    /// Goes on with an opened session. Changes no byte; what recovery has to say is written with the
    /// first append.
    pub fn resume(opened: Opened<L>, clock: Arc<dyn Clock>) -> Self {
        let Opened { log, active } = opened;
        let durable = log.state().next_seq > 1;
        Self {
            durable,
            log,
            clock,
            records: active.records.into_iter().map(|r| (r.seq(), r)).collect(),
            findings: active.findings,
            queued: Vec::new(),
            recovery_pending: true,
            left_open: Findings::default(),
            unrecorded_stop: None,
            asked_for: BTreeSet::new(),
            unshown: Vec::new(),
        }
    }

    /// The session's id.
    pub fn id(&self) -> &SessionId {
        &self.log.header().id
    }

    /// Line 1.
    pub fn header(&self) -> &Header {
        self.log.header()
    }

    /// The state after everything appended.
    pub fn state(&self) -> &State {
        self.log.state()
    }

    /// What was noticed when the session was opened, and since then in its inbox.
    pub fn findings(&self) -> &[Finding] {
        &self.findings
    }

    /// Keeps what was noticed, once: whoever looks first may be nobody who tells it.
    pub(crate) fn notice(&mut self, findings: &[Finding]) {
        for finding in findings {
            if !self.findings.contains(finding) {
                self.findings.push(finding.clone());
            }
        }
    }

    /// The active records, in the order of the log.
    pub fn records(&self) -> Vec<Record> {
        self.records.values().cloned().collect()
    }

    /// Whether something is on disk that can be resumed: a header and at least one record.
    pub fn is_durable(&self) -> bool {
        self.durable
    }

    /// The log, for its blobs.
    pub fn log(&self) -> &L {
        &self.log
    }

    /// The log, for its blobs.
    pub fn log_mut(&mut self) -> &mut L {
        &mut self.log
    }

    /// The next request's messages for `model`.
    pub fn context(&self, model: &ModelRef) -> Context {
        self.whole_context().for_model(model)
    }

    /// The next request's messages for `model`; where it is known who exactly that is, for that target.
    pub async fn context_for(&self, model: &ModelRef, target: Option<&Target>) -> Context {
        let mut context = self.whole_context();
        let Some(target) = target else { return context.for_model(model) };
        blobs::resolve_state(&self.log, &mut context, target).await;
        context.for_target(target)
    }

    fn whole_context(&self) -> Context {
        let records: Vec<&Record> = self.records.values().collect();
        context::build_untraced(&records, self.state().tip())
    }

    /// Appends records, with recovery's and the queued ones in front of them.
    ///
    /// # Errors
    /// As the store; memory is unchanged then.
    pub async fn append(
        &mut self,
        bodies: Vec<Body>,
        level: Level,
    ) -> Result<Vec<Record>, StoreError> {
        let mut all = self.pending_recovery();
        all.extend(self.queued.iter().cloned());
        all.extend(bodies);
        let records = self.append_alone(all, level).await?;
        self.expect_nothing();
        self.unrecorded_stop = None;
        self.queued.clear();
        Ok(records)
    }

    /// Appends records with nothing in front of them: what recovery has to say waits.
    ///
    /// # Errors
    /// As the store; memory is unchanged then.
    pub(crate) async fn append_alone(
        &mut self,
        bodies: Vec<Body>,
        level: Level,
    ) -> Result<Vec<Record>, StoreError> {
        let at = self.clock.now();
        let drafts = bodies.into_iter().map(|body| Draft::new(at, body)).collect();
        let records = self.log.append(drafts, level).await?;
        self.records.extend(records.iter().map(|r| (r.seq(), r.clone())));
        self.unshown.extend(records.iter().cloned());
        self.durable |= level == Level::Synced;
        Ok(records)
    }

    /// Makes everything appended durable.
    ///
    /// # Errors
    /// As the store; the session can then no longer write.
    pub async fn sync(&mut self) -> Result<(), StoreError> {
        self.log.sync().await?;
        self.durable |= self.state().next_seq > 1;
        Ok(())
    }

    /// Hands out what became durable since the last call; to be called after a synced append or a
    /// sync, so that events never run ahead of the disk.
    pub fn take_durable(&mut self) -> Vec<Record> {
        std::mem::take(&mut self.unshown)
    }

    /// Puts a record in front of the next batch. For what counts only together with an input: the
    /// surroundings, instructions that changed, settings of a session that does not exist yet. Of one
    /// type only the newest is kept.
    pub fn queue(&mut self, body: Body) {
        self.queued.retain(|queued| queued.kind() != body.kind());
        self.queued.push(body);
    }

    /// Records a setting: durable at once when the session exists, with its first input otherwise.
    ///
    /// # Errors
    /// As the store.
    pub async fn set(&mut self, body: Body) -> Result<(), StoreError> {
        if self.state().next_seq == 0 {
            self.queue(body);
            return Ok(());
        }
        // A setting is no reason to settle interrupted work, or to take it for suspended.
        let mut all = self.queued.clone();
        all.push(body);
        self.append_alone(all, Level::Synced).await?;
        self.queued.clear();
        Ok(())
    }

    /// Sets the model from here on.
    ///
    /// # Errors
    /// As the store.
    pub async fn set_model(&mut self, change: ModelChange) -> Result<(), StoreError> {
        let now = &self.state().in_force;
        let same = now.model.as_ref() == Some(&change.model) && now.base_url == change.base_url;
        if same && (now.model_chosen || !change.chosen) {
            return Ok(());
        }
        self.set(Body::Model(change)).await
    }

    /// Sets the thinking level from here on.
    ///
    /// # Errors
    /// As the store.
    pub async fn set_thinking(&mut self, level: &str) -> Result<(), StoreError> {
        if self.state().in_force.thinking.as_deref() == Some(level) {
            return Ok(());
        }
        self.set(Body::Thinking(ThinkingChange { level: level.to_owned() })).await
    }

    /// Sets what becomes of this session's work when it is interrupted.
    ///
    /// # Errors
    /// As the store.
    pub async fn set_policy(&mut self, policy: Policy) -> Result<(), StoreError> {
        if self.state().in_force.policy == Some(policy) {
            return Ok(());
        }
        self.set(Body::Policy(PolicyChange { policy })).await
    }

    /// The thinking level that the next request has: the queued one, or the one in force.
    pub fn thinking(&self) -> Option<&str> {
        let queued = self.queued.iter().find_map(|body| match body {
            Body::Thinking(change) => Some(change.level.as_str()),
            _ => None,
        });
        queued.or(self.state().in_force.thinking.as_deref())
    }

    /// Names the session; an empty name removes it.
    ///
    /// # Errors
    /// As the store.
    pub async fn set_name(&mut self, name: &str) -> Result<(), StoreError> {
        self.set(Body::Name(Name { name: name.to_owned() })).await
    }

    /// Labels a record; an empty label removes it.
    ///
    /// # Errors
    /// As the store.
    pub async fn set_label(&mut self, target: Pos, label: &str) -> Result<(), StoreError> {
        self.set(Body::Label(Label { target, label: label.to_owned() })).await
    }

    /// Records what one record contributes to the context from here on.
    ///
    /// # Errors
    /// As the store.
    pub async fn edit_context(&mut self, edit: ContextEdit) -> Result<(), StoreError> {
        self.set(Body::ContextEdit(edit)).await
    }

    /// Notes the surroundings for the next batch, when they differ from those in force.
    pub fn note_environment(&mut self, environment: Environment) -> bool {
        let changed = self.state().in_force.environment.as_ref() != Some(&environment);
        if changed {
            self.queue(Body::Environment(Box::new(environment)));
        }
        changed
    }

    /// Moves the tip, durably, and reads what its context needs.
    ///
    /// # Errors
    /// As the store.
    pub async fn navigate(&mut self, tip: Option<Pos>) -> Result<(), StoreError> {
        // Read first: a tip that moved without its context would have the model see a broken history.
        let active = self.log.active(tip).await?;
        let written = self.append(vec![Body::Tip(Tip { tip })], Level::Synced).await?;
        self.records.retain(|seq, _| written.first().is_some_and(|first| *seq >= first.seq()));
        self.records.extend(active.records.into_iter().map(|r| (r.seq(), r)));
        Ok(())
    }

    /// Marks a compaction as begun.
    ///
    /// # Errors
    /// As the store.
    pub async fn begin_compaction(&mut self) -> Result<(), StoreError> {
        let started = Compaction::marker(CompactionState::Started, None);
        self.append(vec![Body::Compaction(Box::new(started))], Level::Synced).await.map(|_| ())
    }

    /// Ends a compaction, done or failed; the active part shrinks with a done one.
    ///
    /// # Errors
    /// As the store.
    pub async fn end_compaction(&mut self, compaction: Compaction) -> Result<(), StoreError> {
        let done = compaction.state == CompactionState::Done;
        self.append(vec![Body::Compaction(Box::new(compaction))], Level::Synced).await?;
        if done { self.reload().await } else { Ok(()) }
    }

    /// Reads what the context needs now, after it has become smaller.
    pub(crate) async fn reload(&mut self) -> Result<(), StoreError> {
        let active = self.log.active(self.state().tip()).await?;
        self.records = active.records.into_iter().map(|r| (r.seq(), r)).collect();
        Ok(())
    }

    /// Whatever an earlier run of this process left open, because the log failed or the caller dropped
    /// it, is settled with the next append, as after a restart.
    pub(crate) fn expect_open_work(&mut self) {
        self.recovery_pending = true;
    }

    pub(crate) fn remember_stop(&mut self, run: u64) {
        self.unrecorded_stop = Some(run);
    }

    /// Nothing is left open, or whoever drives the run takes care of it.
    pub(crate) fn expect_nothing(&mut self) {
        self.recovery_pending = false;
        self.left_open = Findings::default();
    }

    /// Everything in force; a stop for which there was no room on the disk is in it.
    pub(crate) fn checkpoint_with_stop(&self) -> Checkpoint {
        let mut in_force = self.state().in_force.clone();
        if let Some(open) = in_force.open_run.as_mut() {
            open.stopping |= self.unrecorded_stop == Some(open.run);
        }
        in_force
    }

    /// The calls of the context that have no result.
    pub(crate) fn unanswered(&self) -> Vec<Unanswered> {
        self.whole_context().unanswered
    }

    /// The active records, in the order of the log.
    pub(crate) fn active(&self) -> Vec<&Record> {
        self.records.values().collect()
    }

    /// An active record.
    pub(crate) fn record(&self, seq: Seq) -> Option<&Record> {
        self.records.get(&seq)
    }

    /// What recovery will write with the first append; for people.
    pub fn pending_recovery(&self) -> Vec<Body> {
        if self.recovery_pending { self.settling(Then::Anew) } else { Vec::new() }
    }
}
