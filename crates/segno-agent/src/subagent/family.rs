//! The children of one session: launched, continued, run, and found again.
//!
//! Responsible for: the order of section 8 of the design. A new child is made behind its parent's synced
//! intent, once; a child is continued only after everything was compared, its lock was taken, and everything
//! was read again. Must not: change a byte of a child that is refused, or run one for a result that is missing.

mod settle;

use super::grounds::{self, Grounds};
use super::kin;
use super::launch::{self, Binding};
use super::task::{MAX_TURNS, Task, Who};
use super::told::{self, Ending};
use super::traces::{Reader, Traces};
use super::{Boxed, Nursery, Prepared, Role, Roles, Shown, Subagents};
use crate::tool::{ChildTools, Toolbox};
use crate::worktree::Work;
use crate::{Agent, AgentError};
use segno_model::child::drift::{Drift, drift, refusals};
use segno_model::child::{attempt_id, child_id, input_id, launch_of, unpairable::unpairable};
use segno_model::record::{
    Action, Body, FORMAT, Header, LaunchRecord, ModelChange, Origin, OriginKind, RunEnd,
    UserMessage,
};
use segno_model::store::{
    ForkPoint, HeldSession as _, Judged, Level, LogOf, Scanned, SessionLog, SessionStore, Snapshot,
    StoreError,
};
use segno_model::{Seq, SessionId};
use segno_runtime::{
    CallAt, Event, Finished, Progress, Session, Stop, StopHandle, StopKind, ToolOutput, ToolRun,
};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// How often a child that somebody else makes or removes at this moment is looked at again.
const TRIES: usize = 3;

/// The subagents of one session.
pub struct Family<N: Nursery> {
    nursery: N,
    parent: SessionId,
    roles: Roles,
}

/// What an intent says about a subagent.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Probe {
    attempt: String,
    resumed: bool,
    launch: LaunchRecord,
}

impl Prepared {
    /// One that another process began.
    fn begun(attempt: String, resumed: bool, launch: LaunchRecord) -> Self {
        let child = launch.child.clone();
        let who = Who::Child(child.clone());
        let task =
            Task { who, prompt: String::new(), timeout: None, background: false, worktree: false };
        let (at, copy_of, planned, drift) = (CallAt::default(), None, None, Vec::new());
        Self { child, attempt, at, launch, resumed, copy_of, planned, drift, task }
    }

    /// The name under which it goes on behind its result: its child and its attempt.
    pub(crate) fn handle(&self) -> String {
        format!("{}.{}", self.child, self.attempt)
    }

    /// What the intent says of it.
    pub(crate) fn probe(&self) -> Probe {
        let Self { attempt, resumed, copy_of, launch, .. } = self;
        // A copy is made by this call, as a new child is.
        let resumed = *resumed && copy_of.is_none();
        Probe { attempt: attempt.clone(), resumed, launch: launch.clone() }
    }
}

/// A child that was opened for work.
type Child<N> = Agent<LogOf<<N as Nursery>::Store>, Toolbox>;

/// One that is ready for an attempt, and what its worktree held before it.
type Ready<N> = (Child<N>, <N as Nursery>::Model, Option<Work>);

/// How a drive ended, as the child's log says or not at all; and what asked for its end from here.
type Driven = (Result<Finished, AgentError>, Option<Cause>);

/// What in this process asks a child to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Cause {
    /// Its parent's stop or shutdown.
    Parent(StopKind),
    Deadline,
}

impl<N: Nursery> Family<N> {
    /// The subagents of `parent`, which has to be there when the first one is launched.
    pub fn new(nursery: N, parent: SessionId, roles: Roles) -> Self {
        Self { nursery, parent, roles }
    }

    /// What has changed since a child was launched; for a person who goes on with it. `tools` are those of its
    /// parent today, in the child's directory; `base_url` is where the person has its model asked, else it is asked
    /// where its parent's is. Changes nothing.
    ///
    /// # Errors
    /// A code and a sentence: it is no child of this session, or it must not go on. `allow` is the person's
    /// word for what may be allowed.
    pub async fn review(
        &self,
        tools: &Toolbox,
        child: &SessionId,
        (allow, base_url): (bool, Option<&str>),
    ) -> Result<Vec<Drift>, (String, String)> {
        let (launch, _) = self.look_up(child).await?;
        let broken = |e: StoreError| ("malformed".to_owned(), e.to_string());
        let parent = self.nursery.store().read(&self.parent).await.map_err(broken)?;
        let found = self.nursery.store().read(&launch.child).await.map_err(broken)?;
        let address = base_url.map(str::to_owned);
        let address = address.or_else(|| Binding::address(&parent, &launch.model));
        let drift = self.compare(tools, address, &launch, &found).await;
        judge(&drift, allow, found.active.records.iter())?;
        Ok(drift)
    }

    async fn prepare_now(
        &self,
        tools: &Toolbox,
        task: Task,
        at: CallAt,
    ) -> Result<Prepared, Box<ToolOutput>> {
        let parent = match self.nursery.store().read(&self.parent).await {
            Ok(parent) => parent,
            Err(error) => {
                return Err(Box::new(told::rejected(at, None, "parent", &error.to_string())));
            }
        };
        match &task.who {
            Who::New(name) => self.prepare_new(tools, &parent, name, (task.clone(), at)).await,
            Who::Child(child) => {
                self.prepare_known(tools, &parent, child, (task.clone(), at)).await
            }
        }
    }

    async fn prepare_new(
        &self,
        tools: &Toolbox,
        parent: &Snapshot,
        name: &str,
        (task, at): (Task, CallAt),
    ) -> Result<Prepared, Box<ToolOutput>> {
        let Some(role) = self.roles.get(name) else {
            let lacks = match self.roles.why_not(name) {
                Some(why) => format!("The agent {name} is not available: {why}."),
                None => format!("There is no agent {name:?}."),
            };
            let sentence = format!("{lacks} There are:{}", self.roles.described());
            return Err(Box::new(told::rejected(at, None, "agent-missing", &sentence)));
        };
        let binding = Binding::of(parent, role);
        if let Err(why) = self.nursery.connect(&binding.model, binding.base_url.as_deref()) {
            let sentence =
                format!("The agent {name} asks {}, and that cannot be asked: {why}", binding.model);
            return Err(Box::new(told::rejected(at, None, "model-missing", &sentence)));
        }
        let child = child_id(&self.parent, at.seq, at.index);
        let attempt = attempt_id(at.seq, at.index);
        let around = role.around(&self.nursery.surroundings());
        let specs = tools.child_specs(role);
        let ids = (&self.parent, &child, attempt.as_str());
        let planned = match task.worktree {
            false => None,
            true => {
                Some(grounds::plan(&self.nursery, &child, tools.cwd()).await.map_err(|why| {
                    let sentence =
                        format!("The subagent gets no worktree, and was not started: {why}.");
                    Box::new(told::rejected(at, None, why.code, &sentence))
                })?)
            }
        };
        let cwd = planned.as_ref().map_or(tools.cwd(), |planned| planned.cwd.as_path());
        let mut launch = launch::record(ids, role, &binding, &around, (&specs, cwd));
        launch.worktree = planned.as_ref().map(|planned| planned.worktree.clone());
        let (resumed, copy_of, drift) = (false, None, Vec::new());
        Ok(Prepared { child, attempt, at, launch, resumed, copy_of, planned, drift, task })
    }

    /// Looks the child up and compares it with today; reads only.
    async fn prepare_known(
        &self,
        tools: &Toolbox,
        parent: &Snapshot,
        child: &SessionId,
        (task, at): (Task, CallAt),
    ) -> Result<Prepared, Box<ToolOutput>> {
        // What this session says of the one that it was copied from is about its own copy by now.
        let copy = kin::copy_of(self.nursery.store(), &self.parent, child).await;
        let child = copy.as_ref().unwrap_or(child);
        let (launch, owner) = match self.look_up(child).await {
            Ok(found) => found,
            Err((code, why)) => {
                let known = self.known().await;
                let sentence = format!("The subagent {child} cannot be continued: {why}. {known}");
                return Err(Box::new(told::rejected(at, Some(child), &code, &sentence)));
            }
        };
        let child = &launch.child.clone();
        let found = match self.nursery.store().read(child).await {
            Ok(found) => found,
            Err(error) => {
                return Err(Box::new(told::rejected(
                    at,
                    Some(child),
                    "malformed",
                    &error.to_string(),
                )));
            }
        };
        let drift =
            self.compare(tools, Binding::address(parent, &launch.model), &launch, &found).await;
        judge(&drift, false, found.active.records.iter()).map_err(|(code, sentence)| {
            Box::new(told::rejected(at, Some(child), &code, &told::advised(&sentence)))
        })?;
        let attempt = attempt_id(at.seq, at.index);
        let drift = drift.iter().map(|drift| drift.code.to_owned()).collect();
        if owner == self.parent {
            let (child, resumed) = (child.clone(), true);
            let (copy_of, planned) = (None, None);
            return Ok(Prepared {
                child,
                attempt,
                at,
                launch,
                resumed,
                copy_of,
                planned,
                drift,
                task,
            });
        }
        if launch.worktree.is_some() {
            let why = told::not_owned(child, &owner);
            return Err(Box::new(told::rejected(at, Some(child), "worktree-not-owned", &why)));
        }
        let (old, child) = (child.clone(), child_id(&self.parent, at.seq, at.index));
        let (parent, intent) = (self.parent.clone(), attempt.clone());
        let launch = LaunchRecord { parent, child: child.clone(), intent, ..launch };
        let (resumed, copy_of, planned) = (true, Some(old), None);
        Ok(Prepared { child, attempt, at, launch, resumed, copy_of, planned, drift, task })
    }

    /// The launch record of a child of this session, or of one that it was forked from, and whose child it is; or a
    /// code and why there is none. The record names it: one that was brought in may have another id.
    async fn look_up(
        &self,
        child: &SessionId,
    ) -> Result<(LaunchRecord, SessionId), (String, String)> {
        let store = self.nursery.store();
        let broken = |code: &str, e: &StoreError| (code.to_owned(), e.to_string());
        let ancestry = kin::ancestry(store, &self.parent).await;
        for (i, owner) in ancestry.iter().enumerate() {
            let children = store.children(owner).await.map_err(|e| broken("malformed", &e))?;
            let own = children.iter().find(|listed| listed.id == *child);
            if own.is_some_and(|listed| listed.is_link) {
                let unusable = segno_model::child::Unusable::Symlink;
                return Err((unusable.code().to_owned(), unusable.to_string()));
            }
            let id = match own {
                Some(_) => child.clone(),
                None => {
                    let all = kin::stand_ins(store, &ancestry[i..], &children).await;
                    let found = all.into_iter().find(|(named, _)| named == child);
                    let Some((_, id)) = found else { continue };
                    id
                }
            };
            let found = store.read(&id).await.map_err(|e| broken("malformed", &e))?;
            let launch = launch_of(&found.header, &id, owner)
                .map_err(|unusable| (unusable.code().to_owned(), unusable.to_string()))?;
            return Ok((launch, owner.clone()));
        }
        let code = if store.read(child).await.is_ok() { "not-owned" } else { "not-found" };
        let nowhere = || "there is none with this id in this session".to_owned();
        Err((code.to_owned(), self.whereabouts(child).await.unwrap_or_else(nowhere)))
    }

    /// Why a child that is not there may be there again, also with a session that this one was forked from.
    async fn whereabouts(&self, child: &SessionId) -> Option<String> {
        if let Some(why) = self.taken_away(child).await {
            return Some(why);
        }
        for origin in kin::ancestry(self.nursery.store(), &self.parent).await.iter().skip(1) {
            if let Some(why) = self.taken_away(origin).await {
                return Some(format!(
                    "the session {origin}, which this one was forked from, may have it: {why}"
                ));
            }
        }
        None
    }

    /// Why a child that is not there may be there again; none when nothing is left of it.
    async fn taken_away(&self, child: &SessionId) -> Option<String> {
        match self.nursery.store().is_trashed(child).await {
            Ok(false) => None,
            Ok(true) => Some(told::in_the_trash(child)),
            Err(error) => Some(error.to_string()),
        }
    }

    /// The children that there are, for one who named another.
    async fn known(&self) -> String {
        let mut ids = Vec::new();
        for owner in kin::ancestry(self.nursery.store(), &self.parent).await {
            let children = self.nursery.store().children(&owner).await.unwrap_or_default();
            ids.extend(children.iter().map(|child| child.id.to_string()));
        }
        match ids.is_empty() {
            true => "This session has none yet.".to_owned(),
            false => format!("This session has: {}", ids.join(", ")),
        }
    }

    /// `address` is where its model is asked now.
    async fn compare(
        &self,
        tools: &Toolbox,
        address: Option<String>,
        then: &LaunchRecord,
        found: &Snapshot,
    ) -> Vec<Drift> {
        let then = &launch::placed(then, found);
        let role = self.roles.get(&then.role.name);
        let can_be_asked = self.nursery.connect(&then.model, address.as_deref()).is_ok();
        let specs = match role {
            Some(role) => tools.child_specs(role),
            None => tools.child_specs(&Role::instead_of(&then.tools)),
        };
        let around = Grounds::of(&self.nursery, then).await.around;
        let place = grounds::today(&self.nursery, then, tools.cwd()).await;
        let mut now = launch::today(role, (can_be_asked, address), &around, &specs, place);
        now.said_anything = found.state.in_force.totals.user_messages > 0;
        drift(then, &now)
    }

    /// The child, with its model, ready for the attempt.
    async fn open(
        &self,
        tools: &Toolbox,
        prepared: &Prepared,
        stop: &Stop,
    ) -> Result<Ready<N>, Box<ToolOutput>> {
        let before = match prepared.resumed {
            true => grounds::work(&self.nursery, &prepared.launch).await,
            false => None,
        };
        match self.open_child(tools, prepared, stop).await {
            Ok((child, model)) => Ok((child, model, before)),
            Err(output) => {
                let told = grounds::tell(&self.nursery, *output, prepared, before.as_ref()).await;
                Err(Box::new(told))
            }
        }
    }

    async fn open_child(
        &self,
        tools: &Toolbox,
        prepared: &Prepared,
        stop: &Stop,
    ) -> Result<(Child<N>, N::Model), Box<ToolOutput>> {
        let refuse = |code: &str, why: &str| Box::new(told::not_started(prepared, code, why));
        if let Some(old) = &prepared.copy_of
            && let Err(error) = self.copy(prepared, old).await
        {
            return Err(refuse("copy-failed", &error.to_string()));
        }
        let child = match prepared.resumed {
            true => self.reopen(tools, prepared).await?,
            false => self.bear(tools, prepared, stop).await?,
        };
        let launch = &prepared.launch;
        let model = self.nursery.connect(&launch.model, launch.base_url.as_deref());
        Ok((child, model.map_err(|why| refuse("model-missing", &why))?))
    }

    async fn work(
        &self,
        (mut child, model, before): Ready<N>,
        prepared: &Prepared,
        run: &ToolRun<'_>,
    ) -> ToolOutput {
        let driven = self.drive(&mut child, &model, prepared, run).await;
        let output = self.tell(child, prepared, driven).await;
        grounds::tell(&self.nursery, output, prepared, before.as_ref()).await
    }

    /// A new child; nothing of it exists before its first records do, but for its worktree.
    async fn bear(
        &self,
        tools: &Toolbox,
        prepared: &Prepared,
        stop: &Stop,
    ) -> Result<Child<N>, Box<ToolOutput>> {
        let role = self.roles.get(&prepared.launch.role.name).cloned();
        let role = role.unwrap_or_else(|| Role::instead_of(&prepared.launch.tools));
        let made = grounds::make(&self.nursery, &role, prepared, stop).await;
        let launch = made.map_err(|why| {
            let sentence = format!("The subagent was not started: {why}.");
            Box::new(told::not_started(prepared, why.code, &sentence))
        })?;
        let prepared = &Prepared { launch, ..prepared.clone() };
        let parent = self.nursery.store().read(&self.parent).await;
        let parent =
            parent.map_err(|e| Box::new(told::not_started(prepared, "parent", &e.to_string())))?;
        let header = self.header(prepared, &parent).await;
        let log = self.nursery.store().create(header);
        let mut session = Session::new(log, self.nursery.world().clock);
        let launch = &prepared.launch;
        let (model, base_url) = (launch.model.clone(), launch.base_url.clone());
        let change = ModelChange { model, base_url, chosen: true };
        let thinking = Binding::of(&parent, &role).thinking;
        let set = async {
            session.set_model(change).await?;
            if let Some(level) = thinking {
                session.set_thinking(&level).await?;
            }
            if prepared.task.background {
                // Its call returns before it was asked anything, and says that it is there.
                session.append(Vec::new(), Level::Synced).await?;
            }
            Ok(())
        };
        set.await.map_err(|error: StoreError| {
            let code = match &error {
                StoreError::Exists(_) => "exists",
                _ => "write-failed",
            };
            Box::new(told::not_started(prepared, code, &error.to_string()))
        })?;
        Ok(self.agent(tools, session, &role, !prepared.task.background).await)
    }

    /// A child of a session that this one was forked from stays as it is; a copy of it goes on.
    async fn copy(&self, prepared: &Prepared, old: &SessionId) -> Result<(), StoreError> {
        let parent = self.nursery.store().read(&self.parent).await?;
        let header = self.header(prepared, &parent).await;
        let at = self.nursery.world().clock.now();
        self.nursery.store().fork(old, ForkPoint::Whole, header, at).await.map(|_| ())
    }

    async fn header(&self, prepared: &Prepared, parent: &Snapshot) -> Header {
        let Prepared { child, launch, at, .. } = prepared;
        let origin = Origin {
            kind: OriginKind::Child,
            of: self.parent.to_string(),
            up_to: Some(at.seq).filter(|seq: &Seq| *seq > 0),
            parent: None,
        };
        let grounds = Grounds::of(&self.nursery, launch).await;
        let git = grounds.git();
        let project = grounds.project.or_else(|| parent.state.in_force.project.clone());
        Header {
            format: FORMAT,
            id: child.clone(),
            project: project.unwrap_or_else(|| parent.header.project.clone()),
            git,
            version: launch.version.clone(),
            origin: Some(origin),
            launch: serde_json::to_value(launch).ok(),
        }
    }

    /// A child that is there: its lock is taken, and everything is read and judged again behind it.
    async fn reopen(
        &self,
        tools: &Toolbox,
        prepared: &Prepared,
    ) -> Result<Child<N>, Box<ToolOutput>> {
        let refuse = |code: &str, why: &str| Box::new(told::not_started(prepared, code, why));
        let store = self.nursery.store();
        let held = store.open(&prepared.child).await.map_err(|error| match error {
            StoreError::Held(_) => refuse("held", &error.to_string()),
            _ => refuse("malformed", &error.to_string()),
        })?;
        let opened = match held.judge().await {
            Ok(Judged::Sound(opened)) => opened,
            Ok(Judged::Damaged(_)) => {
                let why =
                    "its log is damaged where the next request needs it: a person has to decide";
                return Err(refuse("damaged", why));
            }
            Err(error) => return Err(refuse("malformed", &error.to_string())),
        };
        let header = opened.log.header();
        let launch = launch_of(header, &prepared.child, &self.parent)
            .map_err(|unusable| refuse(unusable.code(), &unusable.to_string()))?;
        if launch != prepared.launch {
            return Err(refuse("invalid-launch", "another launch is on record than a moment ago"));
        }
        let parent =
            store.read(&self.parent).await.map_err(|e| refuse("parent", &e.to_string()))?;
        let found = Snapshot {
            header: header.clone(),
            state: opened.log.state().clone(),
            active: opened.active.clone(),
        };
        let drift =
            self.compare(tools, Binding::address(&parent, &launch.model), &launch, &found).await;
        judge(&drift, false, found.active.records.iter())
            .map_err(|(code, why)| refuse(&code, &told::advised(&why)))?;
        let mut session = Session::resume(opened, self.nursery.world().clock);
        let role = self.roles.get(&launch.role.name).cloned();
        let role = role.unwrap_or_else(|| Role::instead_of(&launch.tools));
        let thinking = Binding::of(&parent, &role).thinking;
        if let Some(level) = thinking.filter(|level| session.thinking() != Some(level)) {
            session.queue(Body::Thinking(segno_model::record::ThinkingChange { level }));
        }
        Ok(self.agent(tools, session, &role, !prepared.task.background).await)
    }

    /// `asks`: whether it may put questions to its parent's person.
    async fn agent(
        &self,
        tools: &Toolbox,
        session: Session<LogOf<N::Store>>,
        role: &Role,
        asks: bool,
    ) -> Child<N> {
        let grounds = Grounds::of_header(&self.nursery, session.header()).await;
        let around = role.around(&grounds.around);
        let own = ChildTools {
            session: session.id().clone(),
            actions: self.nursery.actions(session.log()),
            role,
            asks,
            directories: grounds.directories,
        };
        let mut agent = Agent::new(session, tools.for_child(own), around, self.nursery.world());
        agent.max_requests = Some(MAX_TURNS);
        agent.inbox = self.nursery.inbox(agent.session.id());
        // Its parent begins no run for what others send it.
        agent.takes_late = true;
        (agent.compaction, agent.windows) = self.nursery.compaction();
        agent
    }

    /// Runs the child's attempt. A stop of the parent is one of the child; so is its deadline.
    async fn drive(
        &self,
        child: &mut Child<N>,
        model: &N::Model,
        prepared: &Prepared,
        run: &ToolRun<'_>,
    ) -> Driven {
        let (handle, stop) = StopHandle::new();
        let name = prepared.launch.model.clone();
        let input_id = Some(input_id(&self.parent, &prepared.attempt));
        let input = UserMessage { input_id, ..UserMessage::text(&prepared.task.prompt) };
        let shown = prepared.launch.role.name.clone();
        let mut watch = |event: Event<'_>| {
            match event {
                Event::ToolStarted(call) => {
                    let line = format!("{shown}: {} {}\n", call.name, short(&call.arguments));
                    (run.progress)(Progress::Output(line));
                }
                // The person who sits there saw the question.
                Event::Answered { allowed, .. } => {
                    let said = if allowed { "allowed" } else { "not allowed" };
                    let line = format!("{shown}: {said} from elsewhere\n");
                    (run.progress)(Progress::Output(line));
                }
                Event::Paused { reason } => (run.progress)(Progress::Paused(reason.to_owned())),
                _ => {}
            }
        };
        let deadline = async {
            match prepared.task.timeout.map(|t| u64::try_from(t.as_millis()).unwrap_or(u64::MAX)) {
                Some(ms) => (self.nursery.world().sleep)(ms).await,
                None => std::future::pending().await,
            }
        };
        tokio::pin!(deadline);
        // What was sent to it since it worked last comes with this attempt: nobody else offers it.
        let asked = child.session.ask_for_stale(&self.nursery.world().owner).await;
        let work = async {
            asked?;
            child.prompt(model, &name, input, &stop, &mut watch).await
        };
        tokio::pin!(work);
        let mut cause = None;
        loop {
            tokio::select! {
                biased;
                done = &mut work => return (done, cause),
                kind = run.stop.stopped(), if cause.is_none() => {
                    cause = Some(Cause::Parent(kind));
                    handle.stop(kind);
                }
                () = &mut deadline, if cause.is_none() => {
                    cause = Some(Cause::Deadline);
                    handle.stop(StopKind::User);
                }
            }
        }
    }

    /// The result of an attempt that this process ran.
    async fn tell(&self, child: Child<N>, prepared: &Prepared, driven: Driven) -> ToolOutput {
        let durable = child.session.is_durable();
        drop(child);
        let (ended, cause) = driven;
        let traces = self.traces(prepared).await;
        let ending = match &ended {
            Ok(finished) if finished.end == RunEnd::Suspended => {
                if cause == Some(Cause::Parent(StopKind::Shutdown)) {
                    let output = told::unknown(prepared, "Segno was shut down");
                    return ToolOutput { unfinished: true, ..output };
                }
                // Nobody here asked for that: another process did, and has the child now.
                Ending::taken_over()
            }
            Ok(Finished { end, reason, .. }) => {
                Ending::of(*end, reason.as_deref(), cause == Some(Cause::Deadline))
            }
            Err(AgentError::Store(error @ StoreError::Exists(_))) => {
                return told::not_started(prepared, "exists", &error.to_string());
            }
            Err(error) if !durable => {
                return told::not_started(prepared, "write-failed", &error.to_string());
            }
            Err(error) => Ending::lost(&error.to_string()),
        };
        let traces = traces.unwrap_or_default();
        told::result(prepared, &traces, &ending)
    }

    /// What the child's log says of this attempt.
    async fn traces(&self, prepared: &Prepared) -> Result<Traces, StoreError> {
        let id = input_id(&self.parent, &prepared.attempt);
        let mut reader = Reader::new(&id);
        let mut take = |step: Scanned| {
            if let Scanned::Record(record) = step {
                reader.take(&record);
            }
            true
        };
        self.nursery.store().scan(&prepared.child, &mut take).await?;
        Ok(reader.traces())
    }
}

/// Whether the child may go on; a code and a sentence if not.
fn judge<'r>(
    drift: &[Drift],
    allow: bool,
    records: impl IntoIterator<Item = &'r segno_model::Record>,
) -> Result<(), (String, String)> {
    let refused = refusals(drift, allow);
    if !refused.is_empty() {
        return Err(told::drifted(&refused));
    }
    match unpairable(records).first() {
        Some(found) => {
            let sentence = format!("The subagent is not continued: {}.", found.sentence);
            Err((found.code.to_owned(), sentence))
        }
        None => Ok(()),
    }
}

/// The beginning of a call's arguments, in one line.
fn short(arguments: &str) -> String {
    let line: String = arguments.chars().take(100).collect();
    line.replace(['\n', '\r'], " ")
}

impl<N: Nursery + 'static> Subagents for Family<N> {
    fn roles(&self) -> &Roles {
        &self.roles
    }

    fn prepare<'a>(
        &'a self,
        tools: &'a Toolbox,
        task: Task,
        at: CallAt,
    ) -> Boxed<'a, Result<Prepared, ToolOutput>> {
        Box::pin(async move { self.prepare_now(tools, task, at).await.map_err(|output| *output) })
    }

    fn run<'a>(
        &'a self,
        tools: &'a Toolbox,
        prepared: Prepared,
        run: &'a ToolRun<'a>,
    ) -> Boxed<'a, ToolOutput> {
        Box::pin(async move {
            match self.open(tools, &prepared, &run.stop).await {
                Ok(child) => self.work(child, &prepared, run).await,
                Err(output) => *output,
            }
        })
    }

    fn begin<'a>(
        self: Arc<Self>,
        tools: &'a Toolbox,
        prepared: Prepared,
        stop: Stop,
        progress: Shown,
    ) -> Boxed<'a, Result<Boxed<'static, ToolOutput>, ToolOutput>> {
        Box::pin(async move {
            let child = self.open(tools, &prepared, &stop).await.map_err(|output| *output)?;
            let work: Boxed<'static, ToolOutput> = Box::pin(async move {
                let run = ToolRun { stop, progress: &*progress };
                self.work(child, &prepared, &run).await
            });
            Ok(work)
        })
    }

    fn end_of<'a>(&'a self, tools: &'a Toolbox, handle: &'a str) -> Boxed<'a, Option<ToolOutput>> {
        Box::pin(self.end_of_now(tools, handle))
    }

    fn establish<'a>(&'a self, tools: &'a Toolbox, action: &'a Action) -> Boxed<'a, ToolOutput> {
        Box::pin(async move {
            let told = self.establish_now(tools, action).await;
            told.unwrap_or_else(|| {
                let why = "The outcome of this call is unknown: its record does not say which subagent it was.";
                ToolOutput::new(why, true, segno_model::record::Outcome::Unknown)
            })
        })
    }
}
