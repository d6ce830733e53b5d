//! Subagents: what a parent's log says of a call, and what a child's header says of its launch.
//!
//! Responsible for: their stored shape. Must not: compare or decide anything; that is [`crate::child`].

use crate::id::{Seq, SessionId};
use crate::record::{InstructionFile, ModelRef, Usage, is_false};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

/// `child`: the parent's side of a subagent call. For programs; never sent to a model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Child {
    /// The child's session, of ours or of the agent that it was read from; empty for a call that was
    /// rejected before there was one.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub child: String,
    /// The call's id.
    pub call_id: String,
    /// The assistant message that holds the call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call_seq: Option<Seq>,
    /// Started or ended.
    pub state: ChildState,
    /// More about it, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
    /// With `ended`: what the attempt came to. One of a shape that this version does not know is skipped;
    /// the line keeps it.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "if_understood")]
    pub attempt: Option<Box<Attempt>>,
}

impl Child {
    /// A record without details.
    #[must_use]
    pub fn new(child: impl Into<String>, call_id: &str, state: ChildState) -> Self {
        let (child, call_id) = (child.into(), call_id.to_owned());
        Self { child, call_id, call_seq: None, state, detail: None, attempt: None }
    }
}

fn if_understood<'de, D: Deserializer<'de>>(given: D) -> Result<Option<Box<Attempt>>, D::Error> {
    let attempt = serde_json::from_value(Value::deserialize(given)?).ok();
    Ok(attempt.filter(Attempt::is_sound).map(Box::new))
}

/// Where a child stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ChildState {
    /// It runs.
    Started,
    /// It is over.
    Ended,
}

/// What became of one call of a subagent.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attempt {
    /// The call in the parent's log: its record, a dot, and which of the record's calls it is, from 0.
    pub id: String,
    /// How it ended.
    pub status: AttemptStatus,
    /// Whether the child was given the prompt.
    #[serde(default, skip_serializing_if = "is_false")]
    pub launched: bool,
    /// Whether it continued a child that was there.
    #[serde(default, skip_serializing_if = "is_false")]
    pub resumed: bool,
    /// Why it ended so: a code.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The same for people, at most [`MAX_DETAIL`](crate::child::MAX_DETAIL) characters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
    /// The role's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<String>,
    /// The model that was asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<ModelRef>,
    /// Where it worked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// The names of its tools, sorted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<String>,
    /// Its deadline.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    /// The run in the child's log.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<u64>,
    /// Replies of the model.
    #[serde(default)]
    pub turns: u64,
    /// Whether it gave any text.
    #[serde(default, skip_serializing_if = "is_false")]
    pub text: bool,
    /// What this attempt used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
    /// Whether it used more than that, and nobody knows how much.
    #[serde(default, skip_serializing_if = "is_false")]
    pub usage_incomplete: bool,
    /// What had changed since the launch: codes of `docs/subagents.md`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub drift: Vec<String>,
    /// Those of them that would have been refused, and that a person allowed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub allowed: Vec<String>,
}

impl Attempt {
    /// Whether it says nothing that contradicts itself: what was rejected did not run.
    #[must_use]
    pub fn is_sound(&self) -> bool {
        let ran = self.launched || self.turns > 0 || self.text || self.usage.is_some();
        let rejected = self.status == AttemptStatus::Rejected;
        let detail = self.detail.as_ref();
        let short = detail.is_none_or(|d| d.chars().count() <= crate::child::MAX_DETAIL);
        !self.id.is_empty() && short && rejected != self.launched && !(rejected && ran)
    }
}

/// How an attempt ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AttemptStatus {
    /// The model finished.
    Completed,
    /// A budget of the run ended: turns, tokens, spend.
    Exhausted,
    /// The user stopped it.
    Stopped,
    /// Its time ran out.
    Timeout,
    /// Its process ended during the run, or was shut down. The child can be continued.
    Interrupted,
    /// It could not go on.
    Failed,
    /// It was not begun.
    Rejected,
    /// Something that this version does not know.
    #[default]
    #[serde(other)]
    Unknown,
}

/// A child's launch: everything that is compared before it is continued. In the header it is kept as it was
/// written, so that one that makes no sense does not take the log with it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LaunchRecord {
    /// The parent session.
    pub parent: SessionId,
    /// The child itself.
    pub child: SessionId,
    /// The call that launched it, as [`Attempt::id`].
    pub intent: String,
    /// Who it is.
    pub role: RoleFact,
    /// The model that it was bound to.
    pub model: ModelRef,
    /// Where that was asked, when it was not the provider's own address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base_url: Option<String>,
    /// SHA-256 of its system prompt, a line that is exactly a date line normalised.
    pub system_sha256: String,
    /// Instruction files in the order of reading.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub instructions: Vec<InstructionFile>,
    /// Its tools, sorted by name.
    pub tools: Vec<ToolSource>,
    /// The real path of its working directory.
    pub cwd: String,
    /// Its worktree, when it has one of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worktree: Option<Worktree>,
    /// The version that launched it; for people.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub version: String,
}

/// Which role.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RoleFact {
    /// Its name.
    pub name: String,
    /// The file that defines it, or `builtin`. Not compared: a role may move.
    pub source: String,
    /// SHA-256 of its definition.
    pub sha256: String,
}

/// A tool and where it comes from.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ToolSource {
    /// Its name.
    pub name: String,
    /// `builtin`, or `mcp:` and the server's name.
    pub source: String,
    /// SHA-256 of its description and parameters.
    pub sha256: String,
}

/// A worktree of a child's own.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Worktree {
    /// The repository that it belongs to.
    pub repo_root: String,
    /// The commit that it was made from.
    pub baseline: String,
    /// Where it is.
    pub path: String,
    /// Its branch.
    pub branch: String,
}
