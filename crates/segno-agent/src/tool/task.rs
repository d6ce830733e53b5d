//! `task`: the tool that gives work to subagents.
//!
//! Responsible for: how the model is told of it, and keeping what was prepared for a call until it runs. Must
//! not: launch a child itself; [`crate::subagent`] does.

use super::supervised::background::Args as BackgroundArgs;
use super::{Asker, Mode, PrefixRule, ToolCallKey, Toolbox, key, lock};
use crate::mcp::Servers;
use crate::permission::Memory;
use crate::subagent::task::Args;
use crate::subagent::{Beside, MAX_BESIDE, Prepared, Role, Subagents};
use crate::worktree::Directories;
use segno_model::SessionId;
use segno_model::checkpoint::Background;
use segno_model::record::{Action, Block, ReplayClass, ToolCall};
use segno_runtime::{News, Stop, StopHandle, StopKind, ToolOutput, ToolPlan, ToolRun, ToolSpec};
use serde_json::json;
use std::collections::{HashMap, VecDeque};
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Its name.
pub(crate) const NAME: &str = "task";

/// What a child's tools are made of, beyond what they share with its parent's.
pub(crate) struct ChildTools<'a> {
    pub(crate) session: SessionId,
    /// Where its supervised commands keep their files.
    pub(crate) actions: Option<PathBuf>,
    pub(crate) role: &'a Role,
    /// Whether it may put questions to its parent's person.
    pub(crate) asks: bool,
    /// Where it works when that is not where its parent does.
    pub(crate) directories: Option<Directories>,
}

/// What is kept of a toolbox for those of its children.
pub(super) struct Shared {
    pub(super) host: String,
    pub(super) supervisor: Option<Vec<OsString>>,
    pub(super) servers: Option<Arc<Servers>>,
    /// Where the locks of changed files are.
    pub(super) locks: Option<PathBuf>,
    /// One question at a time.
    pub(super) asking: Arc<tokio::sync::Mutex<()>>,
}

/// The live gate: what a person allows counts for a session and all of its children at once.
#[derive(Clone)]
pub(super) struct Gate {
    pub(super) mode: Arc<Mutex<Mode>>,
    pub(super) memory: Arc<Mutex<Memory>>,
    pub(super) asker: Option<Arc<dyn Asker>>,
}

impl Gate {
    pub(super) fn new(mode: Mode, rules: Vec<PrefixRule>, asker: Option<Arc<dyn Asker>>) -> Self {
        let memory = Arc::new(Mutex::new(Memory::new(rules)));
        Self { mode: Arc::new(Mutex::new(mode)), memory, asker }
    }
}

/// The subagents of a session, and the calls that are under way.
#[derive(Default)]
pub(super) struct Tasks {
    family: Option<Arc<dyn Subagents>>,
    prepared: Mutex<HashMap<ToolCallKey, VecDeque<Prepared>>>,
    /// Those that work beside their parent's turns.
    beside: Beside,
    /// Whether somebody goes on in this process when a run has ended.
    stays: AtomicBool,
}

impl Tasks {
    pub(super) fn of(family: Arc<dyn Subagents>) -> Self {
        Self { family: Some(family), ..Self::default() }
    }

    pub(super) fn is_there(&self) -> bool {
        self.family.is_some()
    }

    pub(super) fn spec(&self) -> Option<ToolSpec> {
        let roles = self.family.as_ref()?.roles();
        let description = format!(
            "Give a task to a subagent: another agent with a context of its own, in the same directory unless `worktree`. \
             Calls in one reply run at once. It sees nothing of this conversation, so put everything it \
             needs into `prompt`; its last message comes back. With `background` the call returns at once, and its \
             end comes as a message. Agents:{}",
            roles.described()
        );
        Some(super::request::spec(
            NAME,
            &description,
            &["prompt"],
            &json!({
                "agent": {"type": "string", "description": "which agent; general unless given"},
                "prompt": {"type": "string", "description": "the whole task"},
                "timeout": {"type": "number", "description": "seconds; none unless given"},
                "background": {"type": "boolean", "description": "go on without waiting for it; it asks nobody for permission"},
                "worktree": {"type": "boolean", "description": "true: it works in a git worktree of its own, on a branch of its own made from the last commit; commit first what it needs. For changes that would be in the way of yours or another subagent's"},
                "resume": {"type": "string", "description": "instead of `agent`: the id of a subagent of this session; it goes on with what it knows"},
            }),
        ))
    }

    /// Checks what can be checked; what the intent names comes from here.
    pub(super) async fn prepare(
        &self,
        tools: &Toolbox,
        call: &ToolCall,
        args: &Args,
        plan: ToolPlan,
    ) -> Result<ToolPlan, ToolOutput> {
        let Some(family) = &self.family else { return Ok(plan) };
        let task = args.task().map_err(|why| {
            let sentence = format!("Nothing was started: {why}");
            crate::subagent::rejected(plan.at, &sentence)
        })?;
        let prepared = family.prepare(tools, task, plan.at).await?;
        let probe = serde_json::value::to_raw_value(&prepared.probe()).ok();
        let child = prepared.child.clone();
        lock(&self.prepared).entry(key(call)).or_default().push_back(prepared);
        Ok(ToolPlan { key: Some(child.to_string()), child: Some(child), probe, ..plan })
    }

    pub(super) fn discard(&self, call: &ToolCall) -> Option<Prepared> {
        let mut prepared = lock(&self.prepared);
        let all = prepared.get_mut(&key(call))?;
        let first = all.pop_front();
        if all.is_empty() {
            prepared.remove(&key(call));
        }
        first
    }

    pub(super) async fn run(
        &self,
        tools: &Toolbox,
        call: &ToolCall,
        run: &ToolRun<'_>,
    ) -> Option<ToolOutput> {
        let family = self.family.as_ref()?;
        let prepared = self.discard(call)?;
        if prepared.task.background {
            return Some(self.start(family, tools, prepared).await);
        }
        Some(family.run(tools, prepared, run).await)
    }

    /// Lets a child work by itself; it has everything that it needs when this returns.
    async fn start(
        &self,
        family: &Arc<dyn Subagents>,
        tools: &Toolbox,
        prepared: Prepared,
    ) -> ToolOutput {
        let Some(_place) = self.beside.place() else {
            let why = format!("{MAX_BESIDE} subagents work in the background already");
            return crate::subagent::not_started(&prepared, "too-many", &why);
        };
        let (handle, started) = (prepared.handle(), crate::subagent::started(&prepared));
        let (asked, stop) = StopHandle::new();
        match Arc::clone(family).begin(tools, prepared, stop, self.beside.shown()).await {
            Ok(work) => {
                self.beside.start(&handle, asked, work);
                started.in_background(&handle)
            }
            Err(output) => output,
        }
    }

    /// Whether somebody goes on in this process when a run has ended.
    pub(super) fn set_stays(&self, stays: bool) {
        self.stays.store(stays, Ordering::SeqCst);
    }

    /// Looks at a child in the background, awaits or stops it; nothing when the call names none.
    pub(super) async fn look_at(&self, args: &BackgroundArgs, stop: &Stop) -> Option<ToolOutput> {
        let working = self.beside.handles();
        let handle = args.handle.as_ref()?;
        // A child's id will do as well.
        let handle =
            working.iter().find(|h| *h == handle || h.starts_with(&format!("{handle}.")))?;
        if args.stop {
            self.beside.halt(Some(handle), StopKind::User).await;
        } else if let Some(seconds) = args.wait {
            let longest = Duration::try_from_secs_f64(seconds).unwrap_or_default();
            tokio::select! {
                () = self.beside.wait(handle, longest) => {}
                _ = stop.stopped() => {}
            }
        }
        let works = self.beside.handles().contains(handle);
        let said = if works { "It still works." } else { "It has ended; a message tells of it." };
        Some(ToolOutput::done(said))
    }

    /// Those that work in the background, for the model.
    pub(super) fn list(&self) -> Option<Block> {
        let working = self.beside.handles();
        let text = format!("Subagents in the background: {}", working.join(", "));
        (!working.is_empty()).then(|| Block::text(text))
    }

    pub(super) fn beside(&self) -> &Beside {
        &self.beside
    }

    /// What has ended of these.
    pub(super) async fn news(&self, tools: &Toolbox, open: &[&Background]) -> Vec<News> {
        let Some(family) = &self.family else { return Vec::new() };
        self.beside.keep_only(&handles(open));
        let mut news = Vec::new();
        for Background { handle, .. } in open {
            let ended = match self.beside.end_of(handle) {
                Ok(ended) => ended,
                Err(_) => family.end_of(tools, handle).await,
            };
            news.extend(ended.map(|output| told(handle, output)));
        }
        news
    }

    /// Whether a run waits for one of these before it ends.
    pub(super) fn awaits(&self, open: &[&Background]) -> bool {
        let works = |handle: &&str| self.beside.works_or_tells(handle);
        !self.stays.load(Ordering::SeqCst) && handles(open).iter().any(works)
    }

    pub(super) async fn awaited(&self, open: &[&Background]) {
        self.beside.any_of(&handles(open)).await;
    }

    pub(super) async fn halt(&self, kind: StopKind) {
        self.beside.halt(None, kind).await;
    }

    pub(super) async fn establish(&self, tools: &Toolbox, action: &Action) -> Option<ToolOutput> {
        Some(self.family.as_ref()?.establish(tools, action).await)
    }
}

fn handles<'a>(open: &[&'a Background]) -> Vec<&'a str> {
    open.iter().map(|background| background.handle.as_str()).collect()
}

/// The end of a child as the input that tells it.
fn told(handle: &str, output: ToolOutput) -> News {
    let texts = output.content.iter().filter_map(|block| match block {
        Block::Text { text } => Some(text.head()),
        _ => None,
    });
    let text = format!(
        "A subagent that worked in the background has ended.\n\n{}",
        texts.collect::<Vec<_>>().join("\n")
    );
    News { child: output.child, ..News::new(handle, text) }
}

/// How a call runs: behind its intent, beside its siblings.
pub(super) fn plan() -> ToolPlan {
    ToolPlan { beside: true, ..ToolPlan::new(ReplayClass::Keyed) }
}
