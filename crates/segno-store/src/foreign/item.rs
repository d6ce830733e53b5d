//! What reading a session gives.
//!
//! Responsible for: the shape of a foreign session's stream. Must not: know any agent.

use segno_model::finding::Finding;
use segno_model::{Record, Seq, Timestamp};
use serde_json::value::RawValue;
use std::ops::ControlFlow;

/// One thing read from a session.
#[derive(Debug, Clone)]
pub enum Item {
    /// A record in our terms.
    Record(ForeignRecord),
    /// Something about the session as a whole. A later fact of the same kind replaces an earlier one.
    Fact(Fact),
    /// An anomaly, with what was done about it.
    Finding(Finding),
}

/// A record of another agent's session in our terms.
///
/// Numbers and parents are ours, given in the order of reading, so that they are the same each time as
/// long as the file only grew. `crc` and `offset` of the record are 0 and its line is empty.
#[derive(Debug, Clone)]
pub struct ForeignRecord {
    /// The record.
    pub record: Record,
    /// Whether the agent wrote down when it was; otherwise `record.envelope.at` is that of the record
    /// before it.
    pub dated: bool,
    /// Where it stands.
    pub origin: Origin,
    /// Set on what a subagent said, in formats that mix it into the parent's file: the subagent's id.
    /// Such records have a tree of their own and are no turns of the session.
    pub subagent: Option<String>,
    /// True for a copy that the agent wrote of something that stands elsewhere in this session or in
    /// the one that it was forked from. It has its place in the context; it is not counted, and not
    /// shown twice.
    pub copy: bool,
    /// True for a copy whose original stands in the session that this one was forked from: here it stands
    /// once, and whoever reads only this session finds it nowhere else.
    pub inherited: bool,
    /// Identifies the model's response whose usage this record carries, over all files: copies of it in
    /// forks and resumed sessions have the same. None when the format has nothing of the kind.
    pub response: Option<String>,
    /// What the agent wrote in the message and our terms do not hold.
    pub pieces: Vec<RawPiece>,
    /// Set on a result that its agent must not send where it stands, in formats in which it would.
    pub(crate) astray: Option<Astray>,
}

/// What is wrong with the place of a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Astray {
    /// Its call is nowhere.
    Nowhere,
    /// Its call is on another branch.
    OtherBranch,
    /// Its call is in a reply that broke off, and that is not sent.
    BrokenReply,
    /// Its call has a result.
    Second,
    /// Something else was said between its call's reply and it; it belongs before this record.
    Late(Seq),
}

/// A piece of a message of which our terms hold less than it says, as the agent wrote it.
#[derive(Debug, Clone)]
pub struct RawPiece {
    /// The block of the message that stands for it.
    pub at: usize,
    /// Whether none does: it stands before that block.
    pub beside: bool,
    /// The piece.
    pub json: Box<RawValue>,
}

impl RawPiece {
    /// One for which the block `at` stands.
    pub(super) fn of(at: usize, json: &RawValue) -> Self {
        Self { at, beside: false, json: json.to_owned() }
    }

    /// One for which no block stands.
    pub(super) fn beside(at: usize, json: &RawValue) -> Self {
        Self { at, beside: true, json: json.to_owned() }
    }
}

/// Where a record comes from.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Origin {
    /// The line, counted from 1; none in a database.
    pub line: Option<u64>,
    /// The byte offset of the line in the file; none in a database.
    pub offset: Option<u64>,
    /// The agent's own id of the record.
    pub id: Option<String>,
}

/// Something about a session as a whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fact {
    /// The session's id, as its agent takes it.
    Id(String),
    /// The format's own name for its version, e.g. `v3`, `paginated`, `sqlite`.
    Format(String),
    /// The version of the agent that wrote it (last).
    Version(String),
    /// The working directory.
    Cwd(String),
    /// The git branch.
    Branch(String),
    /// The git commit.
    Commit(String),
    /// When it was created.
    Created(Timestamp),
    /// A title that a person gave. Empty: it was taken away.
    Named(String),
    /// A title or summary that the agent made up.
    Titled(String),
    /// It is a fork of another session of the same agent, up to a record of it if that is known.
    ForkOf {
        /// That session's id.
        id: String,
        /// The agent's own id of the last common record.
        up_to: Option<String>,
    },
    /// It is a subagent's session.
    ChildOf {
        /// The parent session's id.
        parent: String,
        /// The call in the parent that started it.
        call: Option<String>,
        /// The subagent's role.
        role: Option<String>,
    },
    /// The agent's own id of the first record. Forks that copy records without naming their origin share
    /// it with that.
    FirstId(String),
    /// The agent's own id of the record, in another file, behind which the first one stands.
    Follows(String),
    /// The session goes on in another one of the same agent.
    ContinuedIn(String),
    /// A command that a person gave, as it was typed: a title for a session without a prompt.
    Command(String),
    /// The current node, when it is not the last one: where the next turn will hang. None is the empty
    /// beginning. The next node record makes itself current again.
    Tip(Option<Seq>),
    /// The agent moved it out of its own list.
    Archived,
    /// Prompts that were queued and not delivered when the file ends, in order.
    Pending(Vec<String>),
}

/// Takes what is read.
pub trait Sink {
    /// Takes one item. Breaking ends the reading early, without an error.
    fn take(&mut self, item: Item) -> ControlFlow<()>;
}

impl<F: FnMut(Item) -> ControlFlow<()>> Sink for F {
    fn take(&mut self, item: Item) -> ControlFlow<()> {
        self(item)
    }
}
