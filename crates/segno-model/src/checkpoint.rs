//! The session-wide state that a log's records add up to, and the record that stores it.
//!
//! Responsible for: the shape of [`Checkpoint`]: everything that must be known to go on and is not in
//! the active context. Must not: contain the folding rules ([`crate::state`]).

use crate::id::{Pos, Seq};
use crate::record::{
    Action, Approval, Child, Environment, ModelRef, Policy, ProjectFacts, RunEnd, Task, Usage,
};
use crate::time::Timestamp;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// `checkpoint`: the state after all records before it. Nothing older than the newest checkpoint and
/// the kept records is needed to resume.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Checkpoint {
    /// The current node.
    pub tip: Option<Pos>,
    /// The node written last (differs from the tip after navigation).
    pub last_node: Option<Pos>,
    /// The session's name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Labels by record.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<Seq, LabelAt>,
    /// The model in force.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<ModelRef>,
    /// Whether a person chose it.
    pub model_chosen: bool,
    /// The address that is asked, when it is not the provider's own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub base_url: Option<String>,
    /// The thinking level in force.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub thinking: Option<String>,
    /// What becomes of interrupted work, if that was said for this session.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub policy: Option<Policy>,
    /// The task in force.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub task: Option<Task>,
    /// The surroundings in force.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub environment: Option<Environment>,
    /// The project as relocated last; the header's when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub project: Option<ProjectFacts>,
    /// The run that started and has no end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub open_run: Option<OpenRun>,
    /// The run that a shutdown suspended, while nothing else began since: it can be taken up.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub suspended_run: Option<OpenRun>,
    /// How the newest finished run ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_end: Option<RunEnd>,
    /// Effects that started and have no result.
    #[serde(skip_serializing_if = "VecDeque::is_empty")]
    pub open_actions: VecDeque<OpenAction>,
    /// Effects that go on behind their results and whose end was not told yet.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub open_background: Vec<Background>,
    /// Questions without an answer.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub open_approvals: Vec<Approval>,
    /// What the log says of inputs that still wait in the inbox.
    #[serde(skip_serializing_if = "WaitingInputs::is_empty")]
    pub inputs: WaitingInputs,
    /// Children that started and did not end.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub open_children: Vec<Child>,
    /// A compaction that started and neither failed nor finished.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub open_compaction: Option<Seq>,
    /// The newest attempt at a compaction that says how large the context was behind it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_compaction: Option<LastCompaction>,
    /// The newest model call, while nobody said what it cost.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unreported: Option<UnreportedCall>,
    /// Context edits in force, by record.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub context_edits: BTreeMap<Seq, Pos>,
    /// Of the records in `context_edits`, the old outputs that were left out because they took room: the
    /// compaction that tells of them ends that.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub pruned: BTreeSet<Seq>,
    /// The edits that brought a record back, by record: who restored an old output wants it to stay. Until
    /// the compaction that tells of it.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub restored: BTreeMap<Seq, Pos>,
    /// The repairs that settle damage still in the log; they are needed to judge it again.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub repairs: Vec<Pos>,
    /// Counted over the session's whole life.
    pub totals: Totals,
    /// The first real prompt, cut to 200 characters.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first_prompt: Option<String>,
    /// The time of the last message.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_message_at: Option<Timestamp>,
    /// The offset at which the newest checkpoint begins.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub checkpoint_at: Option<u64>,
}

/// A label in force.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LabelAt {
    /// The labelled record.
    pub target: Pos,
    /// The label.
    pub label: String,
}

/// A run that is not over, and what it has used up so far.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct OpenRun {
    /// Its number.
    pub run: u64,
    /// The newest attempt, counted from 1; progress does not reset it.
    pub attempt: u32,
    /// Whether a stop was asked for.
    #[serde(skip_serializing_if = "is_false")]
    pub stopping: bool,
    /// Its first `started`.
    pub since: Seq,
    /// How often in a row it was taken up after a crash without progress since.
    pub stalled: u32,
    /// Model calls.
    pub requests: u64,
    /// Tokens that providers reported, and the estimates of calls that were never answered.
    pub usage: Usage,
    /// The newest call, while it has no answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub asking: Option<Asking>,
}

impl OpenRun {
    /// Tokens used, the call that has no answer included.
    #[must_use]
    pub fn used(&self) -> Usage {
        let mut used = self.usage;
        let input = self.asking.map_or(0, |asking| asking.estimate);
        used.add(&Usage { input, ..Usage::default() });
        used
    }
}

/// A model call without an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Asking {
    /// The `request` record.
    pub seq: Seq,
    /// Its input tokens, estimated.
    pub estimate: u64,
}

/// A model call of which nobody said yet how many tokens it took.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct UnreportedCall {
    /// The `request` record.
    pub seq: Seq,
    /// The model that was asked.
    pub model: ModelRef,
    /// What for, as the request says.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub purpose: Option<String>,
}

/// What came of an attempt at a compaction.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct LastCompaction {
    /// Whose summary it was to be.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<ModelRef>,
    /// The context's size behind it, estimated.
    pub tokens: u64,
    /// Whether it failed.
    #[serde(skip_serializing_if = "is_false")]
    pub failed: bool,
}

fn is_false(value: &bool) -> bool {
    !*value
}

fn is_zero(value: &u64) -> bool {
    *value == 0
}

/// What the log says of inputs that wait in the inbox; what they hold is only there.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct WaitingInputs {
    /// Those that do not start by themselves, because of a stop.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub parked: Vec<String>,
    /// Those that a person put into an order. All others come after them, as they were admitted.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub order: Vec<String>,
}

impl WaitingInputs {
    /// Whether there is nothing to say.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.parked.is_empty() && self.order.is_empty()
    }

    /// An input that was parked.
    pub(crate) fn park(&mut self, input_id: &str) {
        if !self.parked.iter().any(|id| id == input_id) {
            self.parked.push(input_id.to_owned());
        }
    }

    /// An input that waits no more.
    pub(crate) fn settle(&mut self, input_id: &str) {
        self.parked.retain(|id| id != input_id);
        self.order.retain(|id| id != input_id);
    }
}

/// An effect without a result.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct OpenAction {
    /// The `action` record.
    pub seq: Seq,
    /// What it said.
    pub action: Action,
}

/// An effect that goes on behind its result.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Background {
    /// Its handle, by its tool's own rules.
    pub handle: String,
    /// The result that said so.
    pub seq: Seq,
    /// The tool.
    pub tool: String,
}

/// Sums over the session's whole life, all branches.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Totals {
    /// Runs started.
    pub runs: u64,
    /// Attempts, over all runs.
    pub attempts: u64,
    /// Model calls announced.
    pub requests: u64,
    /// Those of them whose tokens nobody reported (refused, cut off, still going on): as long as there are
    /// any, more was used than `usage` says.
    #[serde(skip_serializing_if = "is_zero")]
    pub unknown: u64,
    /// Messages of the person (notices not counted).
    pub user_messages: u64,
    /// Replies.
    pub assistant_messages: u64,
    /// Tool results.
    pub tool_results: u64,
    /// Finished compactions.
    pub compactions: u64,
    /// Tokens reported by providers.
    pub usage: Usage,
}
