//! Taking up interrupted work.
//!
//! Responsible for: the order in which that happens (section 5 of the design). The attempt is counted,
//! durably, before anything else is done; then it is found out what became of what was left open, that is
//! written down, durably, commands that still run are waited for, an open question is put again, and the
//! run goes on with its next request. A stop is finished and never taken up. Every step may be killed:
//! the next process does the same again. Must not: decide whether a session is taken up at all; that is
//! its policy, and the caller's.

use crate::event::{Event, Observer};
use crate::inbox::Watcher;
use crate::limits::Attempt;
use crate::run::{Driver, Finished, RunEnv, RunError, Said, end_of_reply, owner_line};
use crate::session::Session;
use crate::{Answer, Model, Progress, Stop, StopHandle, StopKind, ToolRun, Tools, fit, recovery};
use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use segno_model::record::{
    Action, ApprovalState, AssistantMessage, Body, Established, Outcome, Run, RunEnd, RunState,
    StopReason, ToolCall,
};
use segno_model::store::{Level, SessionLog};
use segno_model::{Seq, Standing};
use std::collections::{BTreeSet, HashMap};
use tokio::sync::mpsc;

/// Answers that were given before the interruption, by call.
pub(crate) type Answers = HashMap<(Seq, String), Answer>;

/// Goes on with work that was interrupted or suspended, to its end; finishes a stop that was not finished.
/// `None` when there is nothing of either. Whether it should be called at all is the session's policy.
///
/// # Errors
/// [`RunError::Store`] when the log could not be written; what was left open is then taken up by the next
/// one.
pub async fn take_up<L: SessionLog, M: Model, T: Tools>(
    session: &mut Session<L>,
    model: &M,
    tools: &T,
    mut env: RunEnv<'_>,
    observer: &mut dyn Observer,
) -> Result<Option<Finished>, RunError> {
    session.attend_before_work(&mut env).await?;
    session.expect_open_work();
    let standing = session.standing();
    let (watcher, heard) = Watcher::of(&mut env);
    let mut driver = Driver::new(session, model, tools, env, heard, observer);
    let work = async {
        match standing {
            Standing::Stopping => driver.finish_stop().await.map(Some),
            standing if standing.is_open() => driver.take_up(standing).await.map(Some),
            _ => Ok(None),
        }
    };
    watcher.beside(work).await
}

/// What the end of the records says about a run that is taken up.
enum Left {
    /// The model has something to answer.
    Work,
    /// The model finished, and only the end of the run was not recorded.
    Answered(StopReason),
    /// What was to be done was never recorded.
    Nothing,
}

impl<L: SessionLog, M: Model, T: Tools> Driver<'_, L, M, T> {
    /// Ends a run whose stop by the user is on record: what still runs is told to stop.
    pub(crate) async fn finish_stop(&mut self) -> Result<Finished, RunError> {
        self.run = self.session.state().in_force.open_run.as_ref().map_or(0, |open| open.run);
        self.session.establish(self.tools, &self.env.owner).await?;
        let running = self.session.left_open.take_running();
        let left_open = std::mem::take(&mut self.session.left_open);
        self.session.expect_nothing();
        let (signal, asked) = StopHandle::new();
        signal.stop(StopKind::User);
        self.wait_for(running, &signal, &asked).await?;
        self.session.expect_open_work();
        self.session.left_open = left_open;
        // They are asked while the stop is open: it is one of what they began, too.
        let mut bodies = self.news().await?;
        bodies.extend(self.session.pending_recovery());
        self.append_alone(bodies, Level::Synced).await?;
        self.session.expect_nothing();
        self.tools.settled(&self.session.state().in_force).await;
        Ok(Finished { end: RunEnd::Stopped, reason: None, text: String::new(), error: None })
    }

    async fn take_up(&mut self, standing: Standing) -> Result<Finished, RunError> {
        if let Some(exhausted) = self.count(standing).await? {
            return Ok(exhausted);
        }
        self.session.establish_for(self.tools, &self.env.owner, true).await?;
        let running = self.session.left_open.take_running();
        self.settle().await?;
        self.tools.settled(&self.session.state().in_force).await;
        let (signal, inner) = StopHandle::new();
        self.wait_for(running, &signal, &inner).await?;
        if let Some(kind) = self.env.stop.kind() {
            return self.stopped(kind, Said::default()).await;
        }
        self.tell_news().await?;
        let left = self.left();
        match left {
            Left::Answered(stop) => {
                let (end, reason) = end_of_reply(stop);
                return self.end(Vec::new(), end, reason).await;
            }
            Left::Nothing => {
                let reason = "what was asked was never recorded".to_owned();
                return self.end(Vec::new(), RunEnd::Failed, Some(reason)).await;
            }
            Left::Work => {}
        }
        if let Some(kind) = self.put_again().await? {
            return self.stopped(kind, Said::default()).await;
        }
        self.drive().await
    }

    /// Counts the attempt before anything else is done, or ends the run whose caps are reached.
    async fn count(&mut self, standing: Standing) -> Result<Option<Finished>, RunError> {
        let now = &self.session.state().in_force;
        let before = now.open_run.as_ref().or(now.suspended_run.as_ref());
        let next = now.totals.runs.saturating_add(1);
        match self.env.limits.attempt(standing, before, next, &self.env.model) {
            Attempt::Begin { run, attempt } => {
                self.is_run(run);
                let state = RunState::Started { attempt, owner: owner_line(&self.env.owner) };
                let started = vec![Body::Run(Run { run, state })];
                self.append_alone(started, Level::Synced).await?;
                Ok(None)
            }
            Attempt::Exhausted { run, why } => {
                self.run = run;
                let state = RunState::Ended { end: RunEnd::Exhausted, reason: Some(why.clone()) };
                // Alone: what was left open stays open until a person goes on. Finding it out may be
                // what the process dies of.
                self.append_alone(vec![Body::Run(Run { run, state })], Level::Synced).await?;
                let (text, reason) = (String::new(), Some(why));
                Ok(Some(Finished { end: RunEnd::Exhausted, reason, text, error: None }))
            }
        }
    }

    /// Writes what was found out.
    async fn settle(&mut self) -> Result<(), RunError> {
        while let Err(error) = self.session.settle_and_go_on().await {
            self.wait_for_room(error).await?;
        }
        self.show();
        Ok(())
    }

    /// Waits for the ends of effects that another process began, showing what they put out, and records
    /// each as it comes. `inner` is what they see of the user's stop. A shutdown lets go of them: they run
    /// on, and stay open for the next one.
    async fn wait_for(
        &mut self,
        actions: Vec<Action>,
        signal: &StopHandle,
        inner: &Stop,
    ) -> Result<(), RunError> {
        if actions.is_empty() {
            return Ok(());
        }
        let (progress, mut shown) = mpsc::unbounded_channel::<(usize, Progress)>();
        let mut running = FuturesUnordered::new();
        for (i, action) in actions.iter().enumerate() {
            self.observer.event(Event::Reattached { call_id: &action.call_id, tool: &action.tool });
            let (tools, stop, progress) = (self.tools, inner.clone(), progress.clone());
            running.push(async move {
                let show = move |p| drop(progress.send((i, p)));
                (i, tools.reattach(action, ToolRun { stop, progress: &show }).await)
            });
        }
        let outer = self.env.stop.clone();
        loop {
            tokio::select! {
                biased;
                Some((i, progress)) = shown.recv() => {
                    let call_id = &actions[i].call_id;
                    self.observer.event(Event::ToolProgress { call_id, progress });
                }
                kind = outer.stopped(), if !inner.is_stopped() => {
                    if kind == StopKind::Shutdown {
                        break;
                    }
                    self.note_stopping(kind).await?;
                    signal.stop(kind);
                }
                finished = running.next() => {
                    let Some((i, output)) = finished else { break };
                    if output.unfinished {
                        continue;
                    }
                    let how = match output.outcome {
                        Outcome::Stopped => Established::Stop,
                        Outcome::Unknown => Established::Recovery,
                        _ => Established::Traces,
                    };
                    let Action { call_id, call_seq, tool, .. } = &actions[i];
                    let (id, name) = (call_id.clone(), tool.clone());
                    let call = ToolCall { id, name, arguments: String::new() };
                    self.record(&call, output, how, *call_seq).await?;
                }
            }
        }
        self.session.sync().await?;
        self.show();
        Ok(())
    }

    /// What there is to do.
    fn left(&self) -> Left {
        let state = self.session.state();
        let since = state.in_force.open_run.as_ref().map_or(0, |open| open.since);
        let Some(tip) = state.tip() else { return Left::Nothing };
        match self.session.reply(tip.seq) {
            Some(reply) if reply.partial || reply.calls().next().is_some() => Left::Work,
            Some(reply) if tip.seq > since => Left::Answered(reply.stop),
            Some(_) => Left::Nothing,
            None => Left::Work,
        }
    }

    /// Goes on with the round of calls that waits for a permission. Answers that were given stand.
    async fn put_again(&mut self) -> Result<Option<StopKind>, RunError> {
        let rounds = recovery::undecided_rounds(&self.session.state().in_force);
        for round in rounds {
            let open: Vec<_> =
                self.session.unanswered().into_iter().filter(|c| c.call_seq == round).collect();
            let Some(reply) = self.session.reply(round).cloned() else { continue };
            let (calls, cut) = open_calls(&reply, |id| open.iter().any(|c| c.call_id == id));
            self.answers = self.answers_of(round);
            let stopped = self.run_calls(&calls, &cut, round).await?;
            self.session.sync().await?;
            self.show();
            if stopped.is_some() {
                return Ok(stopped);
            }
        }
        Ok(None)
    }

    fn answers_of(&self, round: Seq) -> Answers {
        let mut answers = Answers::new();
        for record in self.session.active() {
            let Body::Approval(approval) = record.body() else { continue };
            if approval.call_seq != round {
                continue;
            }
            let key = (round, approval.call_id.clone());
            match &approval.state {
                ApprovalState::Asked { .. } => drop(answers.remove(&key)),
                ApprovalState::Answered { allowed, scope, reason } => {
                    let (allowed, scope, reason) = (*allowed, scope.clone(), reason.clone());
                    answers.insert(key, Answer { allowed, scope, reason });
                }
            }
        }
        answers
    }
}

/// The calls of a reply that are still to be judged, and which of them were cut when it was recorded.
fn open_calls(
    reply: &AssistantMessage,
    is_open: impl Fn(&str) -> bool,
) -> (Vec<ToolCall>, BTreeSet<usize>) {
    let was_cut = fit::cut_calls(reply);
    let open = reply.calls().enumerate().filter(|(_, call)| is_open(&call.id));
    let (mut calls, mut cut) = (Vec::new(), BTreeSet::new());
    for (i, call) in open {
        if was_cut.contains(&i) {
            cut.insert(calls.len());
        }
        calls.push(call.clone());
    }
    (calls, cut)
}
