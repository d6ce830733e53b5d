//! One run: from an input to its end.
//!
//! Responsible for: what is written when, and synced before what (section 4 of the design):
//! input (1 sync) → request (1 each) → reply → tools (at most 2 per round) → … → end (1). Must not:
//! know a provider or a tool, or keep anything in memory that the log does not have.

use crate::compaction::{Tight, still_too_long};
use crate::draft::{Streamed, keep_draft};
use crate::event::{CompactionCause, Event, Observer};
use crate::inbox::{Heard, InboxSource, Watcher};
use crate::retry::{self, Next, RetryPolicy};
use crate::session::Session;
use crate::settling::cut_off;
use crate::take_up::Answers;
use crate::{
    Limits, Model, ModelError, ModelRequest, Stop, StopKind, StreamEvent, Tools, blobs, fit,
    recovery, refusal,
};
use segno_model::compaction::{Native, Settings};
use segno_model::context::{Context, Target};
use segno_model::record::{
    AssistantMessage, Body, Message, ModelRef, Request, Run, RunEnd, RunState, StopReason,
    ToolCall, UserMessage,
};
use segno_model::store::{Level, Owner, SessionLog, StoreError};
use segno_model::{Record, Seq, Standing};
use std::collections::BTreeSet;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

/// Waits some milliseconds.
pub type Sleep = Arc<dyn Fn(u64) -> Pin<Box<dyn Future<Output = ()> + Send>> + Send + Sync>;

/// How long a run waits before it tries to write again on a full disk.
const NO_ROOM_WAIT_MS: u64 = 1_000;

/// What a run is given besides the session.
pub struct RunEnv<'a> {
    /// The model that is asked.
    pub model: ModelRef,
    /// The system prompt.
    pub system: &'a str,
    /// The thinking level.
    pub thinking: Option<String>,
    /// Who runs it.
    pub owner: Owner,
    /// When failed calls are repeated.
    pub retry: RetryPolicy,
    /// Model calls at most, retries included; the run is `exhausted` after that.
    pub max_requests: Option<u64>,
    /// What the run may use up, over all its attempts.
    pub limits: Limits,
    /// When the context is made smaller.
    pub compaction: Settings,
    /// The timer.
    pub sleep: Sleep,
    /// The user's stop or a shutdown.
    pub stop: Stop,
    /// Where others' inputs are looked for while the model or a tool is waited for; at each safe step they
    /// are looked for anyway.
    pub inbox: Option<Arc<dyn InboxSource>>,
    /// Whether what was sent meanwhile goes into this run when the model has nothing more to do, as nobody is
    /// there who would begin another run with it.
    pub takes_late: bool,
}

impl<'a> RunEnv<'a> {
    /// No thinking level, the usual retries, no limit, and nobody who stops it. `sleep` is the timer of
    /// the caller's async runtime.
    #[must_use]
    pub fn new(model: ModelRef, system: &'a str, owner: Owner, sleep: Sleep) -> Self {
        Self {
            model,
            system,
            thinking: None,
            owner,
            retry: RetryPolicy::default(),
            max_requests: None,
            limits: Limits::default(),
            compaction: Settings::default(),
            sleep,
            stop: Stop::never(),
            inbox: None,
            takes_late: false,
        }
    }
}

/// A run that could not be ended in the log.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The store failed; what was acknowledged is there.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// How a run ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finished {
    /// The end, as recorded.
    pub end: RunEnd,
    /// More about it.
    pub reason: Option<String>,
    /// The text of this run's last reply; never one of an earlier run.
    pub text: String,
    /// When the model failed: how.
    pub error: Option<ModelError>,
}

/// Runs `input` to its end. The input is durable before the model is called; every step is as the
/// module says. The same call works on a new session and on one that was interrupted.
///
/// # Errors
/// [`RunError::Store`] when the log could not be written; the run is then open and the next opening
/// settles it.
pub async fn run<L: SessionLog, M: Model, T: Tools>(
    session: &mut Session<L>,
    model: &M,
    tools: &T,
    mut env: RunEnv<'_>,
    mut input: UserMessage,
    observer: &mut dyn Observer,
) -> Result<Finished, RunError> {
    blobs::store_large(session.log_mut(), &mut input.content).await?;
    session.attend_before_work(&mut env).await?;
    session.expect_open_work();
    let (watcher, heard) = Watcher::of(&mut env);
    let mut driver = Driver::new(session, model, tools, env, heard, observer);
    let work = async {
        if driver.session.standing() == Standing::Stopping {
            driver.finish_stop().await?;
        } else {
            driver.session.establish(tools, &driver.env.owner).await?;
        }
        driver.begin(input).await?;
        tools.settled(&driver.session.state().in_force).await;
        driver.drive().await
    };
    watcher.beside(work).await
}

/// Who runs it, as a record says.
pub(crate) fn owner_line(owner: &Owner) -> String {
    format!("pid {} on {}, boot {}", owner.pid, owner.host, owner.boot)
}

/// A run in progress. Its tools' part is in [`crate::effects`].
pub(crate) struct Driver<'a, L: SessionLog, M, T> {
    pub(crate) session: &'a mut Session<L>,
    pub(crate) model: &'a M,
    pub(crate) tools: &'a T,
    pub(crate) env: RunEnv<'a>,
    /// What the watched inbox tells.
    pub(crate) heard: Heard,
    pub(crate) observer: &'a mut dyn Observer,
    pub(crate) run: u64,
    pub(crate) requests: u64,
    pub(crate) tight: Tight,
    /// Whether it was said that the context is large and stays so.
    pub(crate) told_large: bool,
    /// Whether the model was asked for its window.
    pub(crate) asked_window: bool,
    text: String,
    /// Answers that a person gave before an interruption.
    pub(crate) answers: Answers,
}

/// What a step's model call came to.
enum Asked {
    Reply(AssistantMessage),
    /// Stopped; what was said so far.
    Stopped(StopKind, Said),
    Failed(ModelError, Said),
    /// Which limit was reached.
    Exhausted(String),
}

impl<'a, L: SessionLog, M: Model, T: Tools> Driver<'a, L, M, T> {
    pub(crate) fn new(
        session: &'a mut Session<L>,
        model: &'a M,
        tools: &'a T,
        env: RunEnv<'a>,
        heard: Heard,
        observer: &'a mut dyn Observer,
    ) -> Self {
        Self {
            session,
            model,
            tools,
            env,
            heard,
            observer,
            run: 0,
            requests: 0,
            tight: Tight::default(),
            told_large: false,
            asked_window: false,
            text: String::new(),
            answers: Answers::new(),
        }
    }

    /// Begins a new run with an input; durable when it returns.
    async fn begin(&mut self, input: UserMessage) -> Result<(), RunError> {
        self.is_run(self.session.state().in_force.totals.runs.saturating_add(1));
        let owner = owner_line(&self.env.owner);
        let started = Run { run: self.run, state: RunState::Started { attempt: 1, owner } };
        let message = Body::Message(Box::new(Message::User(input)));
        self.session.append(vec![Body::Run(started), message], Level::Synced).await?;
        self.session.log_mut().clear_inbox().await?;
        self.show();
        Ok(())
    }

    /// Drives the run to its end. What cannot be recorded as it is ends it, with a record that says so.
    pub(crate) async fn drive(&mut self) -> Result<Finished, RunError> {
        match self.steps().await {
            Err(RunError::Store(StoreError::Refused(why))) => {
                let reason = Some(format!("something could not be recorded: {why}"));
                self.end(Vec::new(), RunEnd::Failed, reason).await
            }
            other => other,
        }
    }

    async fn steps(&mut self) -> Result<Finished, RunError> {
        loop {
            self.tell_news().await?;
            let reply = match self.ask().await? {
                Asked::Reply(reply) => reply,
                Asked::Stopped(kind, said) => return self.stopped(kind, said).await,
                Asked::Failed(error, said) => return self.failed(error, said).await,
                Asked::Exhausted(why) => {
                    return self.end(Vec::new(), RunEnd::Exhausted, Some(why)).await;
                }
            };
            self.text = reply.text();
            if reply.calls().next().is_none() {
                let (end, reason) = end_of_reply(reply.stop);
                let message = self.fit(&reply).await?.0;
                let may_go_on = end == RunEnd::Completed && self.used_up().is_none();
                if may_go_on && self.env.takes_late && self.take_late(&message).await? {
                    continue;
                }
                if end != RunEnd::Completed || !self.awaits() {
                    return self.end(vec![message], end, reason).await;
                }
                self.append(vec![message], Level::Synced).await?;
                match self.await_news().await? {
                    Either::First(true) => continue,
                    Either::First(false) => return self.end(Vec::new(), end, reason).await,
                    Either::Second(kind) => return self.stopped(kind, Said::default()).await,
                }
            }
            if let Some(kind) = self.round(reply).await? {
                return self.stopped(kind, Said::default()).await;
            }
        }
    }

    /// One step's model call, with its retries; each attempt is announced by a synced `request`.
    async fn ask(&mut self) -> Result<Asked, RunError> {
        let (mut attempt, mut shortened, mut refused) = (0, false, 0);
        loop {
            attempt += 1;
            self.take_inputs().await?;
            if let Err(error) = self.make_room().await? {
                return Ok(Asked::Failed(error, Said::default()));
            }
            if let Some(kind) = self.env.stop.kind() {
                return Ok(Asked::Stopped(kind, Said::default()));
            }
            if let Some(why) = self.used_up() {
                return Ok(Asked::Exhausted(why));
            }
            let (error, said) = match self.ask_once(attempt).await? {
                Ok(reply) => return Ok(Asked::Reply(reply)),
                Err(Interruption::Stopped(kind, said)) => return Ok(Asked::Stopped(kind, said)),
                Err(Interruption::Error(error, said)) => (error, said),
            };
            if !shortened && self.shorten(&error).await? {
                shortened = true;
                continue;
            }
            if refused < refusal::MOST && said.is_empty() && self.leave_out_refused(&error).await? {
                refused += 1;
                continue;
            }
            match retry::decide(self.env.retry, attempt, &error) {
                Next::Fail => {
                    let tight = shortened || self.leads_nowhere(CompactionCause::TooLong);
                    let error = if tight { still_too_long(error) } else { error };
                    return Ok(Asked::Failed(error, said));
                }
                Next::Retry { wait_ms } => {
                    self.keep_broken(said).await?;
                    self.observer.event(Event::Retry { reason: &error.message, wait_ms });
                    let stop = self.env.stop.clone();
                    let _ = either((self.env.sleep)(wait_ms), stop.stopped()).await;
                }
            }
        }
    }

    /// Keeps what arrived of a reply whose stream broke, as after a restart: it was paid for.
    async fn keep_broken(&mut self, said: Said) -> Result<(), RunError> {
        if let Some(reply) = self.cut_off(said, StopReason::Broken).await? {
            self.append(vec![reply, recovery::cut_off_notice()], Level::Written).await?;
        }
        Ok(())
    }

    /// A reply of which only finished text is kept; nothing when there is none.
    async fn cut_off(&mut self, said: Said, stop: StopReason) -> Result<Option<Body>, RunError> {
        if said.is_empty() {
            return Ok(None);
        }
        let reply = cut_off(&self.env.model, said.text, stop, said.request);
        Ok(Some(self.fit(&reply).await?.0))
    }

    /// Which limit is reached, if one is.
    pub(crate) fn used_up(&self) -> Option<String> {
        if self.env.max_requests.is_some_and(|max| self.requests >= max) {
            return Some("the limit of model calls was reached".to_owned());
        }
        let open = self.session.state().in_force.open_run.as_ref()?;
        self.env.limits.used_up(open, &self.env.model)
    }

    async fn ask_once(
        &mut self,
        attempt: u32,
    ) -> Result<Result<AssistantMessage, Interruption>, RunError> {
        let context = self.request_context().await;
        let number = self.session.state().in_force.totals.requests.saturating_add(1);
        let request = Request {
            number,
            model: self.env.model.clone(),
            estimate: self.estimate(),
            purpose: None,
        };
        let records = self.append(vec![Body::Request(request)], Level::Synced).await?;
        self.requests += 1;
        self.observer.event(Event::Asking { attempt });
        let (specs, id) = (self.tools.specs(), self.session.id().clone());
        let request = ModelRequest {
            model: &self.env.model,
            system: self.env.system,
            tools: &specs,
            messages: &context.messages,
            thinking: self.env.thinking.as_deref(),
            session: &id,
        };
        let (streamed, request_seq) = (Streamed::default(), records.last().map(Record::seq));
        let observer = &mut *self.observer;
        let mut events = |event: StreamEvent| {
            if let StreamEvent::Text(text) = &event {
                streamed.push(text);
            }
            observer.event(Event::Stream(event));
        };
        let asked = either(self.model.reply(request, &mut events), self.env.stop.stopped());
        let log = self.session.log_mut();
        let outcome = match request_seq {
            Some(seq) => either(asked, keep_draft(log, seq, &streamed, &self.env.sleep)).await,
            None => Either::First(asked.await),
        };
        let outcome = match outcome {
            Either::First(outcome) => outcome,
            Either::Second(never) => match never {},
        };
        let said = Said { request: request_seq, text: streamed.into_text() };
        Ok(match outcome {
            Either::First(Ok(mut reply)) => {
                reply.request = request_seq;
                Ok(reply)
            }
            Either::First(Err(error)) => Err(Interruption::Error(error, said)),
            Either::Second(kind) => Err(Interruption::Stopped(kind, said)),
        })
    }

    /// Who is asked, as far as it decides what goes back only to its maker.
    pub(crate) fn target(&self) -> Option<Target> {
        let target = self.model.target(&self.env.model)?;
        let states = target.states && self.env.compaction.native != Native::Never;
        Some(Target { states, ..target })
    }

    async fn request_context(&mut self) -> Context {
        let target = self.target();
        let mut context = self.session.context_for(&self.env.model, target.as_ref()).await;
        blobs::resolve(self.session.log(), &mut context).await;
        context
    }

    /// The tools of one reply. Gives the stop's kind when the run is to end.
    async fn round(&mut self, reply: AssistantMessage) -> Result<Option<StopKind>, RunError> {
        let (message, calls, cut) = self.fit(&reply).await?;
        let records = self.append(vec![message], Level::Written).await?;
        let call_seq = records.last().map_or(0, Record::seq);
        let stopped = self.run_calls(&calls, &cut, call_seq).await?;
        self.session.sync().await?;
        self.show();
        self.tools.settled(&self.session.state().in_force).await;
        Ok(stopped)
    }

    /// A reply as it is recorded, its calls, and which of those were cut and must not run.
    async fn fit(
        &mut self,
        reply: &AssistantMessage,
    ) -> Result<(Body, Vec<ToolCall>, BTreeSet<usize>), RunError> {
        loop {
            match fit::reply(self.session.log_mut(), reply).await {
                Ok(fitted) => {
                    let calls = fitted.reply.calls().cloned().collect();
                    let message = Message::Assistant(fitted.reply);
                    return Ok((Body::Message(Box::new(message)), calls, fitted.cut_calls));
                }
                Err(error) => self.wait_for_room(error).await?,
            }
        }
    }

    pub(crate) async fn stopped(
        &mut self,
        kind: StopKind,
        said: Said,
    ) -> Result<Finished, RunError> {
        if !said.is_empty() {
            self.text.clone_from(&said.text);
        }
        let mut bodies: Vec<Body> =
            self.cut_off(said, StopReason::Stopped).await?.into_iter().collect();
        match kind {
            StopKind::User => {
                self.note_stopping(kind).await?;
                self.tools.halt(kind).await;
                bodies.extend(self.news().await?);
                self.end(bodies, RunEnd::Stopped, None).await
            }
            StopKind::Shutdown => {
                self.tools.halt(kind).await;
                let reason = Some("Segno was shut down".to_owned());
                self.end(bodies, RunEnd::Suspended, reason).await
            }
        }
    }

    async fn failed(&mut self, error: ModelError, said: Said) -> Result<Finished, RunError> {
        self.text.clone_from(&said.text);
        let bodies = self.cut_off(said, StopReason::Broken).await?.into_iter().collect();
        let finished = self.end(bodies, RunEnd::Failed, Some(error.message.clone())).await?;
        Ok(Finished { error: Some(error), ..finished })
    }

    pub(crate) async fn end(
        &mut self,
        mut bodies: Vec<Body>,
        end: RunEnd,
        reason: Option<String>,
    ) -> Result<Finished, RunError> {
        let reason = reason.map(|reason| fit::sentence(&reason));
        if end == RunEnd::Stopped {
            bodies.extend(self.later_stops().await);
        }
        let state = RunState::Ended { end, reason: reason.clone() };
        bodies.push(Body::Run(Run { run: self.run, state }));
        self.append(bodies, Level::Synced).await?;
        self.session.log_mut().clear_inbox().await?;
        Ok(Finished { end, reason, text: std::mem::take(&mut self.text), error: None })
    }
}

/// What every part of a run needs.
impl<L: SessionLog, M, T> Driver<'_, L, M, T> {
    /// Shows what has become durable.
    pub(crate) fn show(&mut self) {
        for record in self.session.take_durable() {
            self.observer.event(Event::Recorded(&record));
        }
    }

    /// A stop is durable before anything is signalled (G9). A shutdown is not a stop.
    pub(crate) async fn note_stopping(&mut self, kind: StopKind) -> Result<(), RunError> {
        let noted = self.session.state().in_force.open_run.as_ref().is_none_or(|r| r.stopping);
        if kind == StopKind::Shutdown || noted {
            return Ok(());
        }
        let all = self.stopping().await;
        match self.session.append(all, Level::Synced).await {
            Ok(_) => {
                self.session.log_mut().clear_inbox().await?;
                self.show();
                Ok(())
            }
            // Without room the stop cannot be noted, but it still works (G16).
            Err(StoreError::NoRoom(_)) => {
                self.session.remember_stop(self.run);
                Ok(())
            }
            Err(e) => Err(e.into()),
        }
    }

    /// Appends; on a full disk it waits until there is room or a stop comes (G16).
    pub(crate) async fn append(
        &mut self,
        bodies: Vec<Body>,
        level: Level,
    ) -> Result<Vec<Record>, RunError> {
        loop {
            match self.session.append(bodies.clone(), level).await {
                Ok(records) => {
                    if level == Level::Synced {
                        self.show();
                    }
                    return Ok(records);
                }
                Err(error) => self.wait_for_room(error).await?,
            }
        }
    }

    /// As [`Driver::append`], with nothing of recovery in front.
    pub(crate) async fn append_alone(
        &mut self,
        bodies: Vec<Body>,
        level: Level,
    ) -> Result<(), RunError> {
        while let Err(error) = self.session.append_alone(bodies.clone(), level).await {
            self.wait_for_room(error).await?;
        }
        self.show();
        Ok(())
    }

    /// Waits a while when `error` is a full disk and nobody asked for a stop; gives it back otherwise.
    pub(crate) async fn wait_for_room(&mut self, error: StoreError) -> Result<(), RunError> {
        let stop = self.env.stop.kind();
        if !matches!(error, StoreError::NoRoom(_)) || stop.is_some() {
            if stop == Some(StopKind::User) {
                self.session.remember_stop(self.run);
            }
            return Err(error.into());
        }
        self.observer.event(Event::Paused { reason: &error.to_string() });
        let stop = self.env.stop.clone();
        let _ = either((self.env.sleep)(NO_ROOM_WAIT_MS), stop.stopped()).await;
        Ok(())
    }
}

enum Interruption {
    Stopped(StopKind, Said),
    Error(ModelError, Said),
}

/// What a reply that broke off had said.
#[derive(Debug, Default)]
pub(crate) struct Said {
    request: Option<Seq>,
    text: String,
}

impl Said {
    fn is_empty(&self) -> bool {
        self.text.trim().is_empty()
    }
}

/// How a run ends when the model has nothing more to do.
pub(crate) fn end_of_reply(stop: StopReason) -> (RunEnd, Option<String>) {
    match stop {
        StopReason::Refusal => (RunEnd::Failed, Some("the model refused to answer".to_owned())),
        StopReason::Length => {
            (RunEnd::Completed, Some("the reply reached the output limit".to_owned()))
        }
        _ => (RunEnd::Completed, None),
    }
}

pub(crate) enum Either<A, B> {
    First(A),
    Second(B),
}

/// Whichever is ready first; the first one is asked first.
pub(crate) async fn either<A: Future, B: Future>(a: A, b: B) -> Either<A::Output, B::Output> {
    let (a, b) = (std::pin::pin!(a), std::pin::pin!(b));
    match futures_util::future::select(a, b).await {
        futures_util::future::Either::Left((a, _)) => Either::First(a),
        futures_util::future::Either::Right((b, _)) => Either::Second(b),
    }
}
