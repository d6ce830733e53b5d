//! `task`: the tool that gives work to subagents.
//!
//! Responsible for: how the model is told of it, and keeping what was prepared for a call until it runs. Must
//! not: launch a child itself; [`crate::subagent`] does.

use super::{Asker, Mode, PrefixRule, ToolCallKey, Toolbox, key, lock};
use crate::mcp::Servers;
use crate::permission::Memory;
use crate::subagent::task::Args;
use crate::subagent::{Prepared, Role, Subagents};
use segno_model::SessionId;
use segno_model::record::{Action, ReplayClass, ToolCall};
use segno_runtime::{ToolOutput, ToolPlan, ToolRun, ToolSpec};
use serde_json::json;
use std::collections::{HashMap, VecDeque};
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

/// Its name.
pub(crate) const NAME: &str = "task";

/// What a child's tools are made of, beyond what they share with its parent's.
pub(crate) struct ChildTools<'a> {
    pub(crate) session: SessionId,
    /// Where its supervised commands keep their files.
    pub(crate) actions: Option<PathBuf>,
    pub(crate) role: &'a Role,
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
            "Give a task to a subagent: another agent with a context of its own, in the same directory. \
             Calls in one reply run at once. It sees nothing of this conversation, so put everything it \
             needs into `prompt`; its last message comes back. Agents:{}",
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
        Some(family.run(tools, prepared, run).await)
    }

    pub(super) async fn establish(&self, tools: &Toolbox, action: &Action) -> Option<ToolOutput> {
        Some(self.family.as_ref()?.establish(tools, action).await)
    }
}

/// How a call runs: behind its intent, beside its siblings.
pub(super) fn plan() -> ToolPlan {
    ToolPlan { beside: true, ..ToolPlan::new(ReplayClass::Keyed) }
}
