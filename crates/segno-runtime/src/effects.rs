//! The tool calls of one reply.
//!
//! Responsible for: permission → intent on disk → effect → result on disk, for each call (G7), and for
//! ending all of them on a stop. Reads that stand next to each other run together; everything else runs
//! in the order in which the model asked, because later calls may rely on earlier ones. Must not: know
//! a tool, or start an effect whose `action` record is not durable.
//!
//! When a call is prepared and its intent written:
//!
//! | call | effects before it in the reply | prepared |
//! |---|---|---|
//! | names no subject | any | with the reply; one sync for all such |
//! | names a subject | all name other subjects | with the reply |
//! | names a subject | one names the same, or none | when its turn comes, with a sync of its own |
//! | names a subject that somebody else has in use, and all later ones that name one | any | the same |

use crate::event::Event;
use crate::run::{Driver, Either, RunError, either};
use crate::{
    Answer, CallAt, LARGE_VALUE_BYTES, Model, Progress, StopHandle, StopKind, ToolOutput, ToolPlan,
    ToolRun, Tools, Verdict, blobs, fit,
};
use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use segno_model::compaction;
use segno_model::inbox::NewInput;
use segno_model::record::{
    Action, Approval, ApprovalState, BlobRef, Block, Body, Child, ChildState, Established,
    InputFate, Message, Outcome, ReplayClass, Task, ToolCall,
};
use segno_model::store::{Level, SessionLog};
use segno_model::{Record, Seq};
use std::collections::BTreeSet;
use tokio::sync::mpsc;

/// What the model is told about a call that a stop came before.
const NOT_RUN: &str = "Not run: the user stopped the turn before this call started.";

/// What the model is told about a call that a shutdown came before.
const NOT_RUN_SHUTDOWN: &str = "Not run: Segno was shut down before this call started.";

/// What the model is told about a call that is larger than a record.
const TOO_LARGE: &str = "Not run: this call is larger than one record can hold. Do it in several \
    smaller calls.";

/// What the model is told about a task list that is larger than a record should be.
const TASK_TOO_LARGE: &str = "Not kept: the list is too long. Keep it to what is still to be done.";

/// What the model is told about a call whose subject is still in use when its turn comes.
const IN_USE: &str = "Not run: what it changes is in use by somebody else. Try again.";

/// What the model is told about a refusal without a reason.
const DENIED: &str = "The user did not allow this call.";

/// A call after judging.
enum Step {
    /// It may run; nothing was prepared for it yet.
    Allowed(ToolPlan),
    /// It was prepared, and its intent is on disk when it needs one.
    Ready(ToolPlan),
    Settled(ToolOutput, Established),
    /// A shutdown came before a person answered: the question stays open, and with it the round.
    Open(StopKind),
}

impl Step {
    /// The plan of an effect that is to happen.
    fn effect(&self) -> Option<&ToolPlan> {
        match self {
            Self::Allowed(plan) | Self::Ready(plan) => {
                Some(plan).filter(|plan| plan.class != ReplayClass::Read)
            }
            Self::Settled(..) | Self::Open(_) => None,
        }
    }
}

impl<L: SessionLog, M: Model, T: Tools> Driver<'_, L, M, T> {
    /// Runs the calls of the assistant message `call_seq`; each ends with exactly one result record.
    /// Gives the kind of stop when one came.
    pub(crate) async fn run_calls(
        &mut self,
        calls: &[ToolCall],
        cut: &BTreeSet<usize>,
        call_seq: Seq,
    ) -> Result<Option<StopKind>, RunError> {
        let mut steps = Vec::new();
        for (i, call) in calls.iter().enumerate() {
            let step = match cut.contains(&i) {
                true => too_large(),
                false => self.judge(call, call_seq).await?,
            };
            if let Step::Open(kind) = step {
                return Ok(Some(kind));
            }
            steps.push(step);
        }
        let early = early(&steps);
        self.make_ready(calls, &mut steps, &early, (call_seq, 0)).await?;
        let mut i = 0;
        while i < calls.len() {
            let end = i + group_len(&steps[i..]);
            let (calls, steps) = (&calls[i..end], &mut steps[i..end]);
            if self.env.stop.kind().is_none() {
                self.make_ready(calls, steps, &vec![true; steps.len()], (call_seq, i)).await?;
                steps.iter_mut().for_each(give_up);
            }
            self.run_group(calls, steps, call_seq).await?;
            i = end;
        }
        Ok(self.env.stop.kind())
    }

    /// Prepares those of the allowed calls that are `due`, and puts their intents on disk. `first` is which
    /// call of the reply the first of them is.
    async fn make_ready(
        &mut self,
        calls: &[ToolCall],
        steps: &mut [Step],
        due: &[bool],
        (call_seq, first): (Seq, usize),
    ) -> Result<(), RunError> {
        let (mut made, mut in_use) = (Vec::new(), false);
        for (i, step) in steps.iter_mut().enumerate() {
            if let (Step::Allowed(plan), Some(true)) = (&mut *step, due.get(i)) {
                if in_use && plan.subject.is_some() {
                    continue;
                }
                let mut plan = std::mem::replace(plan, ToolPlan::new(ReplayClass::Opaque));
                plan.at = CallAt { seq: call_seq, index: first + i };
                *step = self.prepare(&calls[i], plan, call_seq).await;
                match &*step {
                    Step::Allowed(_) => in_use = true,
                    _ => made.push(i),
                }
            }
        }
        let announced = self.announce(calls, steps, &made, call_seq).await;
        if announced.is_err() {
            for i in made {
                self.tools.discard(&calls[i]).await;
            }
        }
        announced
    }

    /// Decides about one call; a question to a person is durable before it is put.
    async fn judge(&mut self, call: &ToolCall, call_seq: Seq) -> Result<Step, RunError> {
        if let Some(kind) = self.env.stop.kind() {
            return self.not_run(kind).await;
        }
        let (asked, plan) = match self.tools.judge(call).await {
            Verdict::Run(plan) | Verdict::Ask { plan, .. } | Verdict::NobodyToAsk { plan, .. }
                if !fit::fits(&self.action(call, &plan, None, call_seq)) =>
            {
                return Ok(too_large());
            }
            Verdict::Run(plan) => return Ok(Step::Allowed(plan)),
            Verdict::Refuse(output) => return Ok(Step::Settled(output, Established::Permission)),
            Verdict::Ask { question, plan } => (Ok(question), plan),
            Verdict::NobodyToAsk { plan, refused } => (Err(refused), plan),
        };
        let given = self.given(call, call_seq).await?;
        let answer = match (given, asked) {
            (Some(answer), _) => answer,
            (None, Err(refused)) => return Ok(Step::Settled(refused, Established::Permission)),
            (None, Ok(question)) => match self.ask_person(call, &question, call_seq).await? {
                Either::First(answer) => answer,
                Either::Second(StopKind::Shutdown) => return Ok(Step::Open(StopKind::Shutdown)),
                Either::Second(kind) => return self.not_run(kind).await,
            },
        };
        if answer.allowed {
            return Ok(Step::Allowed(plan));
        }
        let told = match answer.reason {
            Some(reason) => format!("{DENIED} Reason given: {reason}"),
            None => DENIED.to_owned(),
        };
        Ok(Step::Settled(ToolOutput::denied(told), Established::Permission))
    }

    /// The answer that is there before anybody is asked: on record from before an interruption, or sent to
    /// the question that it left open.
    async fn given(&mut self, call: &ToolCall, call_seq: Seq) -> Result<Option<Answer>, RunError> {
        if let Some(answer) = self.answers.remove(&(call_seq, call.id.clone())) {
            return Ok(Some(answer));
        }
        if !self.is_open(call, call_seq) {
            return Ok(None);
        }
        let Some((answer, sent)) = self.session.sent_answer(call_seq, &call.id).await? else {
            return Ok(None);
        };
        self.answered(call, call_seq, &answer, Some(sent)).await?;
        Ok(Some(answer))
    }

    /// Whether the question about a call is on record without an answer.
    fn is_open(&self, call: &ToolCall, call_seq: Seq) -> bool {
        let open = &self.session.state().in_force.open_approvals;
        open.iter().any(|a| a.call_seq == call_seq && a.call_id == call.id)
    }

    /// Puts a question to a person and records the answer. One that is on record already is put again.
    async fn ask_person(
        &mut self,
        call: &ToolCall,
        question: &str,
        call_seq: Seq,
    ) -> Result<Either<Answer, StopKind>, RunError> {
        if !self.is_open(call, call_seq) {
            let asked = ApprovalState::Asked { question: fit::sentence(question) };
            self.append(vec![approval(call, call_seq, asked)], Level::Synced).await?;
        }
        let stop = self.env.stop.clone();
        let here = self.tools.ask(call, question);
        let anybody = either(here, self.heard.answer(call_seq, &call.id));
        let (answer, sent) = match either(anybody, stop.stopped()).await {
            Either::First(Either::First(answer)) => (answer, None),
            Either::First(Either::Second((answer, sent))) => (answer, Some(sent)),
            Either::Second(kind) => return Ok(Either::Second(kind)),
        };
        self.answered(call, call_seq, &answer, sent).await?;
        Ok(Either::First(answer))
    }

    /// Records an answer. What somebody else sent is settled together with it, for good.
    async fn answered(
        &mut self,
        call: &ToolCall,
        call_seq: Seq,
        answer: &Answer,
        sent: Option<NewInput>,
    ) -> Result<(), RunError> {
        let state = ApprovalState::Answered {
            allowed: answer.allowed,
            scope: answer.scope.clone(),
            reason: answer.reason.as_deref().map(fit::sentence),
        };
        let mut bodies = vec![approval(call, call_seq, state)];
        let Some(sent) = sent else {
            self.append(bodies, Level::Written).await?;
            return Ok(());
        };
        let (allowed, reason) = (answer.allowed, answer.reason.as_deref());
        self.observer.event(Event::Answered { call_id: &call.id, allowed, reason });
        bodies.push(Body::Input(sent.event(InputFate::Acted)));
        self.append(bodies, Level::Synced).await?;
        // Whoever sent it waits for that.
        self.session.log_mut().clear_inbox().await?;
        Ok(())
    }

    /// The step of a call that a stop came before; the stop is recorded before that result is.
    async fn not_run(&mut self, kind: StopKind) -> Result<Step, RunError> {
        self.note_stopping(kind).await?;
        let told = if kind == StopKind::User { NOT_RUN } else { NOT_RUN_SHUTDOWN };
        Ok(Step::Settled(ToolOutput::new(told, true, Outcome::NotRun), Established::Stop))
    }

    /// Has an allowed call make what its intent will name.
    async fn prepare(&mut self, call: &ToolCall, plan: ToolPlan, call_seq: Seq) -> Step {
        match self.tools.prepare(call, plan).await {
            Ok(plan) if !fit::fits(&self.action(call, &plan, None, call_seq)) => {
                self.tools.discard(call).await;
                too_large()
            }
            Ok(plan) if plan.not_yet => Step::Allowed(ToolPlan { not_yet: false, ..plan }),
            Ok(plan) => Step::Ready(plan),
            Err(output) => Step::Settled(output, Established::Observed),
        }
    }

    /// Puts the intents of the effects among `made` on disk, with one sync, behind what they replace.
    async fn announce(
        &mut self,
        calls: &[ToolCall],
        steps: &[Step],
        made: &[usize],
        call_seq: Seq,
    ) -> Result<(), RunError> {
        let mut actions = Vec::new();
        for i in made {
            let Some(plan) = steps[*i].effect() else { continue };
            let before = match &plan.before {
                Some(bytes) => Some(self.put_blob(bytes).await?),
                None => None,
            };
            actions.push(self.action(&calls[*i], plan, before, call_seq));
            actions.extend(plan.child.as_ref().map(|child| {
                let started = Child::new(child.as_str(), &calls[*i].id, ChildState::Started);
                Body::Child(Child { call_seq: Some(call_seq), ..started })
            }));
        }
        if !actions.is_empty() {
            self.append(actions, Level::Synced).await?;
        }
        Ok(())
    }

    fn action(
        &self,
        call: &ToolCall,
        plan: &ToolPlan,
        before: Option<BlobRef>,
        call_seq: Seq,
    ) -> Body {
        Body::Action(Box::new(Action {
            call_id: call.id.clone(),
            call_seq,
            tool: call.name.clone(),
            class: plan.class,
            host: self.env.owner.host.clone(),
            boot: self.env.owner.boot.clone(),
            key: plan.key.clone(),
            probe: plan.probe.clone(),
            before,
        }))
    }

    /// Runs the calls of one group together and records each result as soon as it is there, so that a
    /// finished sibling is never lost.
    async fn run_group(
        &mut self,
        calls: &[ToolCall],
        steps: &mut [Step],
        call_seq: Seq,
    ) -> Result<(), RunError> {
        let (signal, inner) = StopHandle::new();
        let (progress, mut shown) = mpsc::unbounded_channel::<(usize, Progress)>();
        let mut running = FuturesUnordered::new();
        for (i, (call, step)) in calls.iter().zip(steps).enumerate() {
            if let (Step::Allowed(_) | Step::Ready(_), Some(kind)) = (&*step, self.env.stop.kind())
            {
                self.tools.discard(call).await;
                *step = self.not_run(kind).await?;
            }
            match step {
                Step::Settled(output, how) => {
                    self.observer.event(Event::ToolNotRun(call));
                    self.record(call, output.clone(), *how, call_seq).await?;
                }
                Step::Open(_) => {}
                Step::Allowed(_) | Step::Ready(_) => {
                    self.observer.event(Event::ToolStarted(call));
                    let (tools, stop, progress) = (self.tools, inner.clone(), progress.clone());
                    running.push(async move {
                        let show = move |p| drop(progress.send((i, p)));
                        (i, tools.run(call, ToolRun { stop, progress: &show }).await)
                    });
                }
            }
        }
        let outer = self.env.stop.clone();
        let mut stopping = false;
        loop {
            tokio::select! {
                biased;
                Some((i, progress)) = shown.recv() => self.observer.event(match progress {
                    Progress::Paused(ref reason) => Event::Paused { reason },
                    progress => Event::ToolProgress { call_id: &calls[i].id, progress },
                }),
                kind = outer.stopped(), if !stopping => {
                    self.note_stopping(kind).await?;
                    signal.stop(kind);
                    stopping = true;
                }
                finished = running.next() => {
                    let Some((i, output)) = finished else { return Ok(()) };
                    if output.unfinished {
                        continue;
                    }
                    let how = if output.outcome == Outcome::Stopped {
                        Established::Stop
                    } else {
                        Established::Observed
                    };
                    self.record(&calls[i], output, how, call_seq).await?;
                }
            }
        }
    }

    /// Stores bytes; on a full disk it waits until there is room or a stop comes.
    async fn put_blob(&mut self, bytes: &[u8]) -> Result<BlobRef, RunError> {
        loop {
            match blobs::store_bytes(self.session.log_mut(), bytes).await {
                Ok(blob) => return Ok(blob),
                Err(error) => self.wait_for_room(error).await?,
            }
        }
    }

    /// Cuts an output that would fill the model's window; the whole of it goes into a blob.
    async fn fit_window(&mut self, output: &mut ToolOutput, call_seq: Seq) {
        let Some(window) = self.window().await else { return };
        let calls = match self.session.record(call_seq).map(Record::body) {
            Some(Body::Message(message)) => match &**message {
                Message::Assistant(reply) => reply.calls().count() as u64,
                _ => 1,
            },
            _ => 1,
        };
        let share = compaction::result_share(window.room(), calls);
        let Some(cut) = compaction::cut_result(&output.content, share) else { return };
        let texts = output.content.iter().filter_map(|block| match block {
            Block::Text { text } => Some(text.head()),
            _ => None,
        });
        let whole = texts.collect::<Vec<_>>().join("\n").into_bytes();
        output.whole.get_or_insert(whole);
        output.content = cut;
    }

    /// Records one result; large parts go into blobs first.
    pub(crate) async fn record(
        &mut self,
        call: &ToolCall,
        mut output: ToolOutput,
        established: Established,
        call_seq: Seq,
    ) -> Result<(), RunError> {
        // It goes into every checkpoint.
        if output.task.as_ref().is_some_and(|task| task_bytes(task) > LARGE_VALUE_BYTES) {
            output = ToolOutput::failed(TASK_TOO_LARGE);
        }
        self.fit_window(&mut output, call_seq).await;
        let of = fit::ResultOf { call_id: &call.id, call_seq, tool: &call.name, established };
        let fitted = loop {
            match fit::output(self.session.log_mut(), &of, &mut output).await {
                Ok(body) => break body,
                Err(error) => self.wait_for_room(error).await?,
            }
        };
        // A batch may arrive in part: a result without what stands beside it would be the whole story.
        let child = output.child.map(|child| of_call(*child, &call.id, call_seq));
        let mut bodies: Vec<Body> = child.into_iter().chain(output.task.map(Body::Task)).collect();
        bodies.push(fitted);
        self.append(bodies, Level::Written).await?;
        Ok(())
    }
}

/// What could not be prepared when its turn came does not run.
fn give_up(step: &mut Step) {
    if matches!(step, Step::Allowed(_)) {
        let output = ToolOutput::new(IN_USE, true, Outcome::NotRun);
        *step = Step::Settled(output, Established::Observed);
    }
}

/// Which calls can be prepared before any of them runs, by the table above.
fn early(steps: &[Step]) -> Vec<bool> {
    let mut before: Vec<Option<&str>> = Vec::new();
    let mut early = Vec::new();
    for step in steps {
        let subject = match step {
            Step::Allowed(plan) | Step::Ready(plan) => plan.subject.as_deref(),
            Step::Settled(..) | Step::Open(_) => None,
        };
        let touched = |other: &Option<&str>| other.is_none() || *other == subject;
        early.push(subject.is_none() || !before.iter().any(touched));
        before.extend(step.effect().map(|_| subject));
    }
    early
}

/// How many of the next steps run together: all reads and settled ones up to the next effect, or that
/// effect alone, or with those next to it when all of them may run beside each other.
fn group_len(steps: &[Step]) -> usize {
    let is_effect = |step: &Step| step.effect().is_some();
    let beside = |step: &Step| step.effect().is_some_and(|plan| plan.beside);
    if steps.first().is_some_and(beside) {
        return steps.iter().position(|step| !beside(step)).unwrap_or(steps.len());
    }
    steps.iter().position(is_effect).unwrap_or(steps.len()).max(1)
}

/// What is recorded of a subagent, with the call that it belongs to.
pub(crate) fn of_call(child: Child, call_id: &str, call_seq: Seq) -> Body {
    Body::Child(Child { call_id: call_id.to_owned(), call_seq: Some(call_seq), ..child })
}

fn too_large() -> Step {
    Step::Settled(ToolOutput::denied(TOO_LARGE), Established::Permission)
}

fn task_bytes(task: &Task) -> usize {
    serde_json::to_vec(task).map_or(usize::MAX, |json| json.len())
}

fn approval(call: &ToolCall, call_seq: Seq, state: ApprovalState) -> Body {
    Body::Approval(Approval { call_id: call.id.clone(), call_seq, state })
}
