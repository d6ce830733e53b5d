//! Attempts whose process is gone.
//!
//! Responsible for: what became of one, read off the child's log under its lock, and that a stop which had not
//! reached it does. Must not: run a child for a result that is missing, or make a worktree.

use super::super::grounds;
use super::super::told::{self, Ending};
use super::super::{Nursery, Prepared, Role};
use super::{Family, Probe, TRIES};
use crate::AgentError;
use crate::tool::Toolbox;
use segno_model::SessionId;
use segno_model::child::launch_of;
use segno_model::record::{Action, Body, ModelRef, Run, RunEnd, RunState};
use segno_model::store::{
    HeldSession as _, Judged, Level, LogOf, Opened, SessionLog as _, SessionStore as _, StoreError,
};
use segno_runtime::{CallAt, Session, StopHandle, ToolOutput};

impl<N: Nursery> Family<N> {
    /// Finds out what became of an attempt that another process began.
    pub(super) async fn establish_now(
        &self,
        tools: &Toolbox,
        action: &Action,
    ) -> Option<ToolOutput> {
        let probe: Probe = serde_json::from_str(action.probe.as_ref()?.get()).ok()?;
        let Probe { attempt, resumed, launch } = probe;
        let at = CallAt { seq: action.call_seq, index: 0 };
        let prepared = Prepared { at, ..Prepared::begun(attempt, resumed, launch) };
        let found = self.find_out(tools, &prepared).await;
        Some(grounds::tell(&self.nursery, found, &prepared, None).await)
    }

    async fn find_out(&self, tools: &Toolbox, prepared: &Prepared) -> ToolOutput {
        for _ in 0..TRIES {
            let held = match self.nursery.store().open(&prepared.child).await {
                Ok(held) => held,
                Err(StoreError::NotFound(_)) if !prepared.resumed => {
                    // One that was deleted did begin, and comes back under this id.
                    if let Some(why) = self.taken_away(&prepared.child).await {
                        return told::unknown(prepared, &why);
                    }
                    match self.claim(prepared).await {
                        Ok(()) => {
                            let why = "The subagent was never started.";
                            return told::not_started(prepared, "never-started", why);
                        }
                        // Somebody made it at this moment.
                        Err(StoreError::Exists(_)) => continue,
                        Err(error) => return told::unknown(prepared, &error.to_string()),
                    }
                }
                Err(error) => {
                    let why = self.taken_away(&prepared.child).await;
                    return told::unknown(prepared, &why.unwrap_or_else(|| error.to_string()));
                }
            };
            return match held.judge().await {
                Ok(Judged::Sound(opened)) => self.settle(tools, prepared, opened).await,
                Ok(Judged::Damaged(_)) => told::unknown(prepared, "its log is damaged"),
                Err(error) => told::unknown(prepared, &error.to_string()),
            };
        }
        told::unknown(prepared, "somebody else makes it again and again")
    }

    /// What became of an attempt that went on behind its result in a process that is gone.
    pub(super) async fn end_of_now(&self, tools: &Toolbox, handle: &str) -> Option<ToolOutput> {
        let store = self.nursery.store();
        let parts = handle.split_once('.');
        let parts = parts.and_then(|(child, at)| Some((SessionId::parse(child).ok()?, at)));
        let Some((child, attempt)) = parts else {
            let text = format!("What {handle} was is not known: it names no subagent.");
            return Some(ToolOutput::new(text, true, segno_model::record::Outcome::Unknown));
        };
        let unknown = |why: &StoreError| Some(told::lost_sight(&child, attempt, &why.to_string()));
        match self.look_up(&child).await {
            // A copy of it that was brought in never had this prompt from here.
            Ok((launch, owner)) if owner != self.parent || launch.child != child => {
                return Some(told::elsewhere(&child));
            }
            Err((code, _)) if code == "not-found" => {
                // Whoever was to make it is gone: its parent's lock is ours.
                return Some(match self.whereabouts(&child).await {
                    Some(why) => told::lost_sight(&child, attempt, &why),
                    None => told::never_started(&child, attempt),
                });
            }
            Ok(_) | Err(_) => {}
        }
        let held = match store.open(&child).await {
            Ok(held) => held,
            // Somebody goes on with it: its end is still to come.
            Err(StoreError::Held(_)) => return None,
            Err(error) => return unknown(&error),
        };
        let opened = match held.judge().await {
            Ok(Judged::Sound(opened)) => opened,
            Ok(Judged::Damaged(_)) => return unknown(&StoreError::refused("its log is damaged")),
            Err(error) => return unknown(&error),
        };
        let launch = match launch_of(opened.log.header(), &child, &self.parent) {
            Ok(launch) => launch,
            Err(why) => return unknown(&StoreError::Refused(why.to_string())),
        };
        let prepared = Prepared::begun(attempt.to_owned(), false, launch);
        let found = self.settle(tools, &prepared, opened).await;
        Some(grounds::tell(&self.nursery, found, &prepared, None).await)
    }

    /// Makes sure that nobody starts the child any more: it is made here, by the one creation that can
    /// succeed, and holds that it never began.
    async fn claim(&self, prepared: &Prepared) -> Result<(), StoreError> {
        let parent = self.nursery.store().read(&self.parent).await?;
        let log = self.nursery.store().create(self.header(prepared, &parent).await);
        let mut session = Session::new(log, self.nursery.world().clock);
        let reason = Some("it was never started".to_owned());
        let state = RunState::Ended { end: RunEnd::Failed, reason };
        session.append(vec![Body::Run(Run { run: 1, state })], Level::Synced).await.map(|_| ())
    }

    /// An attempt of a child that nobody works on: its lock is ours.
    async fn settle(
        &self,
        tools: &Toolbox,
        prepared: &Prepared,
        opened: Opened<LogOf<N::Store>>,
    ) -> ToolOutput {
        let traces = match self.traces(prepared).await {
            Ok(traces) => traces,
            Err(error) => return told::unknown(prepared, &error.to_string()),
        };
        let Some(run) = traces.run else {
            // Under its lock: nobody can give it the prompt any more, and no effect of it began.
            let why = "The subagent was never given this prompt.";
            return told::not_started(prepared, "never-started", why);
        };
        if let Some((end, reason)) = &traces.end {
            return told::result(prepared, &traces, &Ending::of(*end, reason.as_deref(), false));
        }
        if !(traces.stopping || self.parent_stops().await) {
            return told::result(prepared, &traces, &Ending::interrupted());
        }
        match self.finish_stop(tools, prepared, (opened, run)).await {
            Ok(()) => told::result(prepared, &traces, &Ending::of(RunEnd::Stopped, None, false)),
            Err(error) => told::unknown(prepared, &error.to_string()),
        }
    }

    /// Whether the parent's run is one that the user stopped.
    async fn parent_stops(&self) -> bool {
        let parent = self.nursery.store().read(&self.parent).await;
        let open = parent.ok().and_then(|parent| parent.state.in_force.open_run);
        open.is_some_and(|run| run.stopping)
    }

    /// The user's stop reaches a child whose process died before it did.
    async fn finish_stop(
        &self,
        tools: &Toolbox,
        prepared: &Prepared,
        (opened, run): (Opened<LogOf<N::Store>>, u64),
    ) -> Result<(), AgentError> {
        let role = self.roles.get(&prepared.launch.role.name).cloned();
        let mut session = Session::resume(opened, self.nursery.world().clock);
        let state = RunState::Stopping { parked: Vec::new() };
        session.set(Body::Run(Run { run, state })).await?;
        let role = role.unwrap_or_else(|| Role::instead_of(&prepared.launch.tools));
        let mut agent = self.agent(tools, session, &role, false).await;
        let (_, stop) = StopHandle::new();
        let name = ModelRef::default();
        agent.take_up(&nobody, &name, &stop, &mut ()).await.map(|_| ())
    }
}

/// The model of a run that only has to end.
fn nobody(
    _: segno_runtime::ModelRequest<'_>,
) -> Result<segno_model::record::AssistantMessage, segno_runtime::ModelError> {
    Err(segno_runtime::ModelError::new(
        segno_runtime::ModelErrorKind::Refused,
        "nothing is asked here",
    ))
}
