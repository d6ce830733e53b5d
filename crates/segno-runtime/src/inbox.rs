//! Inputs and controls that others send to a session.
//!
//! Responsible for: when a waiting input may be delivered, carrying out controls, and hearing of them while
//! a run goes on. Must not: decide what a control does (`segno_model::inbox::control`), or deliver what
//! waits for a person.
//!
//! | what waits | when it is delivered |
//! |---|---|
//! | steer, admitted while this holder has the session | before the next request; begins a run when none is open |
//! | queue, likewise | begins a run when none is open |
//! | either, in a run that takes what is late | when its model has nothing more to do, in the same run |
//! | either, from before (stale), or parked by a stop | when a person asks for it |
//! | what no person said (a notice), from before | with the next run, as a steer |
//! | an answer to a permission question | when the question is put, now or by whoever goes on with the work |

use crate::run::{Driver, Either, RunEnv, RunError, either};
use crate::{Answer, Session, Sleep, Stop, StopHandle, StopKind, blobs};
use segno_model::finding::Finding;
use segno_model::inbox::control::{Plan, Standing, bodies};
use segno_model::inbox::{Inbox, InputBody, NewInput, Pending, arrange, holder_key};
use segno_model::record::{Body, InputKind, Message, Run, RunState, UserMessage};
use segno_model::store::{Level, Owner, SessionLog, SessionStore, StoreError};
use segno_model::{Seq, SessionId};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Poll;
use tokio::sync::watch;

/// How often a run looks whether others sent something.
const LOOK_EVERY_MS: u64 = 100;

/// Whether a waiting input may be delivered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Due {
    /// It may.
    Now,
    /// It was there before this holder: a person is asked.
    Stale,
    /// A stop came before it: a person is asked.
    Parked,
}

/// A waiting input.
#[derive(Debug, Clone)]
pub struct Waiting {
    /// What was admitted.
    pub pending: Pending,
    /// Whether it may be delivered.
    pub due: Due,
}

impl Waiting {
    /// Its id.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.pending.input.id
    }

    /// Whether no person said it.
    fn is_notice(&self) -> bool {
        self.pending.input.body.words().is_some_and(|words| words.notice.is_some())
    }

    /// Whether it goes into the run that is open.
    fn steers(&self) -> bool {
        let steer = self.pending.input.body.kind() == InputKind::Steer;
        self.due == Due::Now && steer || self.due == Due::Stale && self.is_notice()
    }
}

/// What is left to do after the controls were carried out.
#[derive(Debug, Default)]
pub struct Attended {
    /// Somebody asked this process to let go of the session.
    pub let_go: bool,
    /// The inputs that wait, in the order of delivery.
    pub waiting: Vec<Waiting>,
    /// What is in the inbox and cannot be read.
    pub findings: Vec<Finding>,
}

impl Attended {
    /// The user message that is to begin the next run, if any may.
    #[must_use]
    pub fn next(&self) -> Option<UserMessage> {
        let next = self.waiting.iter().find(|waiting| waiting.due == Due::Now)?;
        next.pending.input.message()
    }

    /// The inputs that wait for a person.
    pub fn held_back(&self) -> impl Iterator<Item = &Waiting> {
        self.waiting.iter().filter(|waiting| waiting.due != Due::Now && !waiting.is_notice())
    }
}

/// What was found, and what is to be done about the controls in it.
struct Look {
    plan: Plan,
    /// Without those that the plan takes back.
    waiting: Vec<Waiting>,
    findings: Vec<Finding>,
}

impl<L: SessionLog> Session<L> {
    /// Looks into the inbox and plans. Changes nothing but that damaged entries are kept elsewhere.
    async fn look(&mut self, holder: &str) -> Result<Look, StoreError> {
        let Inbox { mut pending, findings } = self.log_mut().pending().await?;
        self.notice(&findings);
        let in_force = &self.state().in_force;
        arrange(&mut pending, &in_force.inputs);
        let words = |p: &&Pending| p.input.body.words().is_some();
        let ids: Vec<String> = pending.iter().filter(words).map(|p| p.input.id.clone()).collect();
        let run = in_force.open_run.as_ref().map(|open| open.run);
        let open = in_force.open_approvals.iter();
        let questions: Vec<_> = open.map(|a| (a.call_seq, a.call_id.clone())).collect();
        let now = Standing { run, holder, questions: &questions, waiting: &ids };
        let plan = Plan::of(&pending, &now);
        let order = plan.order(&ids);
        let parked = in_force.inputs.parked.clone();
        let gone = plan.withdrawn();
        let mut waiting: Vec<Waiting> = pending
            .into_iter()
            .filter(|p| p.input.body.words().is_some() && !gone.contains(p.input.id.as_str()))
            .map(|pending| {
                let id = &pending.input.id;
                let asked = self.asked_for.contains(id) || plan.delivers.contains(id);
                let due = match () {
                    () if asked => Due::Now,
                    () if parked.contains(id) => Due::Parked,
                    () if pending.stale => Due::Stale,
                    () => Due::Now,
                };
                Waiting { pending, due }
            })
            .collect();
        waiting.sort_by_key(|w| order.iter().position(|id| id == w.id()));
        Ok(Look { plan, waiting, findings })
    }

    /// Carries out the controls that wait, while no run goes on here; says what else waits. A stop of a run
    /// that an earlier holder left open is noted, and recovery then finds that run stopped; nothing of
    /// what was interrupted is settled or taken up here.
    ///
    /// # Errors
    /// As the store.
    pub async fn attend(&mut self, owner: &Owner) -> Result<Attended, StoreError> {
        if !self.is_durable() {
            return Ok(Attended::default());
        }
        let Look { plan, mut waiting, findings } = self.look(&holder_key(owner)).await?;
        let let_go = !plan.suspends.is_empty();
        let mut all = Vec::new();
        if let Some(open) =
            self.state().in_force.open_run.clone().filter(|_| !plan.stops.is_empty())
        {
            if !open.stopping {
                let state = RunState::Stopping { parked: to_park(&waiting) };
                all.push(Body::Run(Run { run: open.run, state }));
            }
            for parked in waiting.iter_mut().filter(|w| !w.is_notice()) {
                parked.due = Due::Parked;
            }
        }
        // Answers to open questions stay where they are until the work that asked goes on.
        let events = [plan.stops, plan.bodies, plan.suspends].into_iter().flatten();
        all.extend(bodies(events.collect()));
        self.asked_for.extend(plan.delivers);
        if !all.is_empty() {
            self.append_alone(all, Level::Synced).await?;
            self.log_mut().clear_inbox().await?;
        }
        Ok(Attended { let_go, waiting, findings })
    }

    /// As [`Session::attend`], before work begins in `env`.
    pub(crate) async fn attend_before_work(
        &mut self,
        env: &mut RunEnv<'_>,
    ) -> Result<(), StoreError> {
        if self.attend(&env.owner).await?.let_go {
            env.stop = env.stop.clone().or(Stop::asked_for(StopKind::Shutdown));
        }
        Ok(())
    }

    /// The answer that was sent to a question before anybody put it again, and the control that brings it.
    pub(crate) async fn sent_answer(
        &mut self,
        call_seq: Seq,
        call_id: &str,
    ) -> Result<Option<(Answer, NewInput)>, StoreError> {
        if !self.is_durable() {
            return Ok(None);
        }
        let pending = self.log_mut().pending().await?.pending;
        Ok(newest_answer(pending.into_iter().map(in_order).collect(), call_seq, call_id))
    }

    /// Lets what was sent before this holder had the session go into its next run, as it is what the work is gone
    /// on with for; what a stop parked still waits for a person. Writes nothing.
    ///
    /// # Errors
    /// As the store.
    pub async fn ask_for_stale(&mut self, owner: &Owner) -> Result<(), StoreError> {
        if !self.is_durable() {
            return Ok(());
        }
        let Look { waiting, .. } = self.look(&holder_key(owner)).await?;
        let stale = waiting.iter().filter(|waiting| waiting.due == Due::Stale);
        self.asked_for.extend(stale.map(|waiting| waiting.id().to_owned()));
        Ok(())
    }

    /// Lets the next run begin with this input although it waits for a person; it is one who asks.
    pub fn ask_for(&mut self, input_id: &str) {
        self.asked_for.insert(input_id.to_owned());
    }
}

/// What a stop keeps from starting by itself. What no person said is no work that could start.
fn to_park(waiting: &[Waiting]) -> Vec<String> {
    let words = waiting.iter().filter(|w| w.due != Due::Parked && !w.is_notice());
    words.map(|w| w.id().to_owned()).collect()
}

/// The messages of those that go into the open run.
fn steering(waiting: &[Waiting]) -> Vec<UserMessage> {
    let steers = waiting.iter().filter(|waiting| waiting.steers());
    steers.filter_map(|waiting| waiting.pending.input.message()).collect()
}

impl<L: SessionLog, M, T> Driver<'_, L, M, T> {
    /// Drives this run from now on.
    pub(crate) fn is_run(&mut self, run: u64) {
        self.run = run;
        self.heard.run.store(run, Ordering::SeqCst);
    }

    /// A safe step: controls are carried out, and what steers becomes part of the conversation, durably.
    pub(crate) async fn take_inputs(&mut self) -> Result<(), RunError> {
        let Look { plan, waiting, .. } = self.session.look(&holder_key(&self.env.owner)).await?;
        let asked = match () {
            () if !plan.stops.is_empty() => Some(StopKind::User),
            () if !plan.suspends.is_empty() => Some(StopKind::Shutdown),
            () => None,
        };
        if let Some(kind) = asked {
            self.env.stop = self.env.stop.clone().or(Stop::asked_for(kind));
        }
        self.session.asked_for.extend(plan.delivers);
        let mut all = bodies(plan.bodies);
        let stopping = self.env.stop.is_stopped();
        for mut message in steering(&waiting).into_iter().filter(|_| !stopping) {
            self.store_large(&mut message).await?;
            all.push(Body::Message(Box::new(Message::User(message))));
        }
        if !all.is_empty() {
            self.append(all, Level::Synced).await?;
            self.session.log_mut().clear_inbox().await?;
        }
        Ok(())
    }

    /// Behind a reply that asks for nothing: whether something waits that goes on with this run. The reply is then
    /// recorded; what steers is taken at the next step, of what was queued one input now.
    pub(crate) async fn take_late(&mut self, reply: &Body) -> Result<bool, RunError> {
        if self.env.stop.is_stopped() {
            return Ok(false);
        }
        let Look { waiting, .. } = self.session.look(&holder_key(&self.env.owner)).await?;
        let Some(next) = waiting.iter().find(|waiting| waiting.due == Due::Now) else {
            return Ok(false);
        };
        let mut all = vec![reply.clone()];
        if !next.steers()
            && let Some(mut message) = next.pending.input.message()
        {
            self.store_large(&mut message).await?;
            all.push(Body::Message(Box::new(Message::User(message))));
        }
        self.append(all, Level::Synced).await?;
        self.session.log_mut().clear_inbox().await?;
        Ok(true)
    }

    /// Puts what is large in a message into blobs; on a full disk it waits.
    async fn store_large(&mut self, message: &mut UserMessage) -> Result<(), RunError> {
        while let Err(error) =
            blobs::store_large(self.session.log_mut(), &mut message.content).await
        {
            self.wait_for_room(error).await?;
        }
        Ok(())
    }

    /// The records of a stop: what waits behind the run waits for a person from now on. An inbox that
    /// cannot be read keeps no stop from being noted; what is in it is stale for whoever comes next.
    pub(crate) async fn stopping(&mut self) -> Vec<Body> {
        let look = self.session.look(&holder_key(&self.env.owner)).await;
        let (parked, stops) = look.map_or_else(
            |_| (Vec::new(), Vec::new()),
            |look| (to_park(&look.waiting), look.plan.stops),
        );
        let stopping = Run { run: self.run, state: RunState::Stopping { parked } };
        [Body::Run(stopping)].into_iter().chain(bodies(stops)).collect()
    }

    /// The records of stops of this run that came after the first one.
    pub(crate) async fn later_stops(&mut self) -> Vec<Body> {
        let look = self.session.look(&holder_key(&self.env.owner)).await;
        look.map_or_else(|_| Vec::new(), |look| bodies(look.plan.stops))
    }
}

/// A session's inbox as it looks from outside its log: how a run hears of what others send while it waits
/// for the model or a tool.
pub trait InboxSource: Send + Sync {
    /// As [`SessionStore::inbox_mark`].
    fn mark(&self) -> Pin<Box<dyn Future<Output = Result<u64, StoreError>> + Send + '_>>;
    /// As [`SessionStore::pending`].
    fn pending(&self) -> Pin<Box<dyn Future<Output = Result<Inbox, StoreError>> + Send + '_>>;
}

/// The inbox of one session of a store.
#[derive(Debug, Clone)]
pub struct StoreInbox<S> {
    /// The store.
    pub store: S,
    /// The session.
    pub id: SessionId,
}

impl<S: SessionStore> InboxSource for StoreInbox<S> {
    fn mark(&self) -> Pin<Box<dyn Future<Output = Result<u64, StoreError>> + Send + '_>> {
        Box::pin(self.store.inbox_mark(&self.id))
    }

    fn pending(&self) -> Pin<Box<dyn Future<Output = Result<Inbox, StoreError>> + Send + '_>> {
        Box::pin(self.store.pending(&self.id))
    }
}

/// What a watched inbox tells a run at once. Everything else waits for the next safe step.
#[derive(Clone)]
pub(crate) struct Heard {
    answers: watch::Receiver<Vec<(u64, NewInput)>>,
    /// The number of the run that is driven; 0 before there is one.
    run: Arc<AtomicU64>,
}

impl Heard {
    /// The answer to a question and the control that brings it, when somebody sends one.
    pub(crate) async fn answer(&self, call_seq: Seq, call_id: &str) -> (Answer, NewInput) {
        let mut answers = self.answers.clone();
        loop {
            let sent = answers.borrow_and_update().clone();
            match newest_answer(sent, call_seq, call_id) {
                Some(found) => return found,
                None if answers.changed().await.is_err() => std::future::pending().await,
                None => {}
            }
        }
    }
}

/// Whoever sends a second answer before the first one counted has changed their mind.
fn newest_answer(mut sent: Vec<(u64, NewInput)>, seq: Seq, id: &str) -> Option<(Answer, NewInput)> {
    sent.sort_by_key(|(order, _)| std::cmp::Reverse(*order));
    sent.into_iter().find_map(|(_, input)| answer_to(&input, seq, id).map(|a| (a, input)))
}

fn in_order(pending: Pending) -> (u64, NewInput) {
    (pending.order, pending.input)
}

fn answer_to(input: &NewInput, seq: Seq, id: &str) -> Option<Answer> {
    match &input.body {
        InputBody::Answer { call_id, call_seq, allowed, scope, reason }
            if *call_seq == seq && call_id == id =>
        {
            let (scope, reason) = (scope.clone(), reason.clone());
            Some(Answer { allowed: *allowed, scope, reason })
        }
        _ => None,
    }
}

/// Watches an inbox for what cannot wait.
pub(crate) struct Watcher {
    source: Option<Arc<dyn InboxSource>>,
    sleep: Sleep,
    run: Arc<AtomicU64>,
    holder: String,
    stop: StopHandle,
    answers: watch::Sender<Vec<(u64, NewInput)>>,
}

impl Watcher {
    /// A watcher whose stops count in `env`, and what else it tells.
    pub(crate) fn of(env: &mut RunEnv<'_>) -> (Self, Heard) {
        let (stop, stopped) = StopHandle::new();
        env.stop = env.stop.clone().or(stopped);
        let (answers, heard) = watch::channel(Vec::new());
        let run = Arc::new(AtomicU64::new(0));
        let heard = Heard { answers: heard, run: Arc::clone(&run) };
        let (source, sleep) = (env.inbox.clone(), Arc::clone(&env.sleep));
        let holder = holder_key(&env.owner);
        (Self { source, sleep, run, holder, stop, answers }, heard)
    }

    /// Drives `work` to its end, and watches meanwhile.
    pub(crate) async fn beside<T>(self, work: impl Future<Output = T>) -> T {
        match either(work, self.watch()).await {
            Either::First(done) => done,
            Either::Second(never) => match never {},
        }
    }

    async fn watch(self) -> std::convert::Infallible {
        let Some(source) = &self.source else { return std::future::pending().await };
        let mut seen = 0;
        loop {
            (self.sleep)(LOOK_EVERY_MS).await;
            yield_once().await;
            // What cannot be read now is looked at again, and at the next safe step for sure.
            let Ok(mark) = source.mark().await else { continue };
            if mark == seen {
                continue;
            }
            if let Ok(inbox) = source.pending().await {
                seen = mark;
                self.tell(inbox.pending);
            }
        }
    }

    fn tell(&self, pending: Vec<Pending>) {
        let mut answers = Vec::new();
        for pending in pending {
            match &pending.input.body {
                InputBody::Stop { run } if *run == self.run.load(Ordering::SeqCst) => {
                    self.stop.stop(StopKind::User);
                }
                InputBody::Suspend { holder } if *holder == self.holder => {
                    self.stop.stop(StopKind::Shutdown);
                }
                InputBody::Answer { .. } => answers.push(in_order(pending)),
                _ => {}
            }
        }
        self.answers.send_replace(answers);
    }
}

/// Lets everybody else go first.
async fn yield_once() {
    let mut yielded = false;
    std::future::poll_fn(|context| {
        if std::mem::replace(&mut yielded, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}
