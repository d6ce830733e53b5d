//! Records of work in progress: runs, requests, effects, questions, compactions, repairs.
//!
//! Responsible for: their stored shape. Must not: hold transition rules (those are in
//! [`crate::state`] and the runtime).

use crate::id::{Pos, Seq};
use crate::record::{BlobRef, GitFacts, ModelRef, Native, ProjectFacts, Text, Usage, is_false};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// `action`: an effect about to start. Synced before it starts (G7).
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Action {
    /// The call's id as the model gave it.
    pub call_id: String,
    /// The assistant message that holds the call.
    pub call_seq: Seq,
    /// The tool.
    pub tool: String,
    /// What may be done after a crash.
    pub class: ReplayClass,
    /// The host on which it runs; outcomes are established only there.
    pub host: String,
    /// The boot in which it runs.
    pub boot: String,
    /// An idempotency key or external reference.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// Facts for establishing the outcome later, by the tool's own rules.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub probe: Option<Box<RawValue>>,
    /// What the effect replaces, kept so that it can be brought back: a file's content before an edit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<BlobRef>,
}

/// The tool of an `action` that is no call: a person has a file brought back. The next `tip` record ends
/// all of them.
pub const RESTORE: &str = "segno.restore";

impl Action {
    /// Whether it brings a file back for a person, and is no call.
    #[must_use]
    pub fn is_restore(&self) -> bool {
        self.tool == RESTORE
    }
}

/// What recovery may do about an effect whose result is missing (section 6 of the design).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReplayClass {
    /// Changes nothing; no `action` record is written for it.
    Read,
    /// Its outcome can be read off the files.
    Verified,
    /// A supervisor knows.
    Supervised,
    /// It can be asked for by its key.
    Keyed,
    /// Nobody can tell.
    Opaque,
}

/// `run`: the life of one run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Run {
    /// The run's number, counted 1, 2, 3 … per session. (Not a `seq`: the batch that starts a run already
    /// names it.)
    pub run: u64,
    /// Started, stopping or ended.
    #[serde(flatten)]
    pub state: RunState,
}

/// Where a run stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum RunState {
    /// It begins, or is taken up again.
    Started {
        /// 1 for the first, counted up before anything else is done.
        attempt: u32,
        /// Who runs it: pid, start time, boot, host.
        owner: String,
    },
    /// The user asked it to stop.
    Stopping {
        /// Inputs that were queued behind it and do not start by themselves.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        parked: Vec<String>,
    },
    /// It is over.
    Ended {
        /// How.
        end: RunEnd,
        /// More about it, for people.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
}

/// How a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunEnd {
    /// The model finished.
    Completed,
    /// It could not go on.
    Failed,
    /// The user stopped it; final (G9).
    Stopped,
    /// Segno was shut down; it may be taken up again.
    Suspended,
    /// A budget ran out.
    Exhausted,
}

/// `request`: a model call about to be made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Request {
    /// Counted 1, 2, 3 … per session.
    pub number: u64,
    /// The model that is asked.
    pub model: ModelRef,
    /// Estimated input tokens.
    pub estimate: u64,
    /// What it is for: absent for a turn, `compaction`, `title` …
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub purpose: Option<String>,
}

/// `input`: what became of an admitted input other than its delivery.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct InputEvent {
    /// The input's id.
    pub input_id: String,
    /// Its fate.
    pub event: InputFate,
    /// With `reordered`: the id that it now stands before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<String>,
    /// With `reordered`: all waiting inputs as they stand now. Whatever is admitted later comes after them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub order: Vec<String>,
    /// What was admitted under the id, where it is settled by this record.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<InputKind>,
    /// SHA-256 of what was admitted, likewise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sha256: Option<String>,
    /// With `dropped`: why, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

impl InputEvent {
    /// What became of `input_id`, and nothing else.
    #[must_use]
    pub fn new(input_id: impl Into<String>, event: InputFate) -> Self {
        Self {
            input_id: input_id.into(),
            event,
            before: None,
            order: Vec::new(),
            kind: None,
            sha256: None,
            reason: None,
        }
    }
}

/// What kind of thing was admitted to a session's inbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum InputKind {
    /// Words for the model, at the next safe step of the run.
    Steer,
    /// Words for the model, when the run has ended.
    Queue,
    /// The user's stop of one run.
    Stop,
    /// Takes a waiting input back.
    Withdraw,
    /// Moves a waiting input.
    Reorder,
    /// Lets the model see an input that waits for a person.
    Deliver,
    /// The answer to a permission question.
    Answer,
    /// Asks the holder of the session to suspend its work and let go.
    Suspend,
    /// One that this version does not know.
    #[serde(other)]
    Unknown,
}

/// Fates of an undelivered input.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum InputFate {
    /// Taken back.
    Withdrawn,
    /// Moved in the queue.
    Reordered,
    /// Waits for a person because of a stop.
    Parked,
    /// A control that was carried out.
    Acted,
    /// A control that there was nothing to do about.
    Dropped,
}

/// `approval`: a permission question and its answer, in two records.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Approval {
    /// The call's id.
    pub call_id: String,
    /// The assistant message that holds it.
    pub call_seq: Seq,
    /// Asked or answered.
    #[serde(flatten)]
    pub state: ApprovalState,
}

/// Where a permission question stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum ApprovalState {
    /// Open.
    Asked {
        /// What is asked, for people.
        question: String,
    },
    /// Answered.
    Answered {
        /// Whether the call may run.
        allowed: bool,
        /// `once`, `session`, `always` or a mode's name.
        scope: String,
        /// A refusal's reason, for the model.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
}

/// `task`: what is being worked on; the newest one holds.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Task {
    /// The goal in the person's or the model's words.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub goal: String,
    /// What must or must not be done on the way.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub constraints: Vec<String>,
    /// The steps, in order.
    pub steps: Vec<TaskStep>,
}

impl Task {
    /// Whether it says nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.goal.is_empty() && self.constraints.is_empty() && self.steps.is_empty()
    }
}

/// A step of a task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskStep {
    /// What.
    pub text: String,
    /// How far.
    pub status: StepStatus,
}

/// How far a step is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StepStatus {
    /// Not begun.
    Pending,
    /// Being worked on.
    InProgress,
    /// Finished.
    Done,
    /// Given up.
    Dropped,
}

impl StepStatus {
    /// The word for it.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::InProgress => "in_progress",
            Self::Done => "done",
            Self::Dropped => "dropped",
        }
    }
}

/// `environment`: the surroundings, written when they changed. Every field is the full new state.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Environment {
    /// The working directory.
    pub cwd: String,
    /// Git.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub git: Option<GitFacts>,
    /// Segno's version.
    pub version: String,
    /// Instruction files in the order of reading.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub instructions: Vec<InstructionFile>,
    /// The tools on offer.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<ToolFact>,
    /// The assembled system prompt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub system: Option<BlobRef>,
    /// The project's facts, when the session was relocated; the header's hold otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub project: Option<ProjectFacts>,
}

/// An instruction file that went into the system prompt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct InstructionFile {
    /// Where.
    pub path: String,
    /// SHA-256 of its bytes.
    pub sha256: String,
}

/// A tool on offer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolFact {
    /// Its name.
    pub name: String,
    /// SHA-256 of its description and parameters.
    pub sha256: String,
    /// Bytes of its name, description and parameters; 0 where an earlier version did not say.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub bytes: u64,
}

/// `compaction`: started, failed or done. Only a done one is a node.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Compaction {
    /// How far it got.
    pub state: CompactionState,
    /// Done: the summary.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub summary: Option<Text>,
    /// Done: everything on the path from here on is kept. None with an empty `kept`: nothing is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_kept: Option<Pos>,
    /// Done: single records that are kept from before `first_kept` (the user's own words), in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub kept: Vec<Pos>,
    /// Context tokens before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens_before: Option<u64>,
    /// Context tokens after, estimated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens_after: Option<u64>,
    /// The model that summarised.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<ModelRef>,
    /// What the summary cost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
    /// Done: sentences of the person that neither the summary nor what is kept holds, word for word.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sentences: Vec<String>,
    /// Done: how many more of such sentences there was no room for.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub sentences_left_out: u64,
    /// Done: the task in force, which the summary is not to be the only memory of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<Task>,
    /// Done: the state that the provider of `model` itself made of what lies back, in place of the summary
    /// and of `kept`, for that very model, protocol and `endpoint` alone. Its items are a list, or a blob that
    /// holds one ([`Native::blob`]).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub native: Option<Native>,
    /// The server that made `native`, as [`endpoint_hash`](crate::record::endpoint_hash) of its address, also
    /// where that is the provider's own. A state of which nobody knows the server is never sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub endpoint: Option<String>,
    /// About how many tokens `native` has for its maker.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub native_tokens: Option<u64>,
    /// Done: why there is no `native`, although the provider was asked for one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub no_native: Option<String>,
    /// Failed: why. Done: why no model wrote the summary.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

impl Compaction {
    /// A record that says only how far a compaction got.
    #[must_use]
    pub fn marker(state: CompactionState, reason: Option<String>) -> Self {
        Self {
            state,
            reason,
            summary: None,
            first_kept: None,
            kept: Vec::new(),
            tokens_before: None,
            tokens_after: None,
            model: None,
            usage: None,
            sentences: Vec::new(),
            sentences_left_out: 0,
            task: None,
            native: None,
            endpoint: None,
            native_tokens: None,
            no_native: None,
        }
    }
}

fn is_zero(count: &u64) -> bool {
    *count == 0
}

impl Compaction {
    /// Whether the edit that left out an old output is over with this compaction, which is record `seq`: the
    /// summary tells of what the edit was about. So that edits do not pile up for as long as a session lives.
    #[must_use]
    pub fn ends_pruning_of(&self, target: Seq, seq: Seq) -> bool {
        let kept_from = self.first_kept.map_or(seq, |first| first.seq);
        self.state == CompactionState::Done && target < kept_from
    }

    /// Whether an edit of `target` changes what the provider's own state tells of, so that the state must not be
    /// sent any more: it is `edit` and came after this compaction, which is record `seq`.
    #[must_use]
    pub fn is_altered_by(&self, target: Seq, edit: Seq, seq: Seq) -> bool {
        let kept_from = self.first_kept.map_or(seq, |first| first.seq);
        self.native.is_some() && edit > seq && target < kept_from
    }
}

/// How far a compaction got.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CompactionState {
    /// The summary is being made.
    Started,
    /// It was not made.
    Failed,
    /// It holds.
    Done,
}

/// `usage`: tokens that belong to no message.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct UsageRecord {
    /// What they were spent on: `retry`, `title`, `summary` …
    pub purpose: String,
    /// By which model.
    pub model: ModelRef,
    /// How many.
    pub usage: Usage,
}

/// `repair`: a decision about damage, taken by a rule or by a person.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Repair {
    /// The rule's name, from the tables of the format page.
    pub rule: String,
    /// Whether a person decided.
    #[serde(skip_serializing_if = "is_false")]
    pub by_person: bool,
    /// What it covers.
    pub items: Vec<RepairItem>,
}

impl Repair {
    /// Whether it says anything about damage that is still in the log.
    #[must_use]
    pub fn settles_damage(&self) -> bool {
        let gone = |item: &RepairItem| {
            matches!(item, RepairItem::SetAside { .. } | RepairItem::Erased { .. })
        };
        self.items.iter().any(|item| !gone(item))
    }
}

/// One thing that a repair settles.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "what", rename_all = "snake_case")]
pub enum RepairItem {
    /// Bytes moved out of the log.
    SetAside {
        /// Where they began, in the file.
        offset: u64,
        /// How many.
        bytes: u64,
        /// SHA-256 of them.
        sha256: String,
        /// The file under `set-aside/`.
        file: String,
    },
    /// A damaged stretch that is passed over from now on.
    Bridged {
        /// Where it begins, counted from the end of line 1.
        offset: u64,
        /// How many bytes.
        bytes: u64,
        /// SHA-256 of them: other damage in the same place is not covered.
        sha256: String,
    },
    /// Records that are not there any more.
    Missing {
        /// The first.
        first: Seq,
        /// The last.
        last: Seq,
    },
    /// A well-formed line with a wrong checksum that a person takes as it is.
    Accepted {
        /// Its number.
        seq: Seq,
        /// Its offset, counted from the end of line 1.
        offset: u64,
        /// SHA-256 of the line: another alteration is not covered.
        sha256: String,
    },
    /// A record whose content a person had removed for good; it says so itself ([`crate::erase`]).
    Erased {
        /// Its number.
        seq: Seq,
    },
    /// Something that this version does not know.
    #[serde(other)]
    Unknown,
}
