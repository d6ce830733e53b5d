//! What was said, as a target writes it: turns with their results, on the branches where they stand.
//!
//! Responsible for: the same shape for every target. Each call has exactly one result, behind its turn;
//! ids of calls are unique; blobs are resolved; what no provider takes (empty texts, calls of broken
//! replies) is not in it; edits of the context are carried out. Must not: know a target's format.

use super::build::Builder;
use super::{Blobs, LossKind, Losses, Session, pieces};
use crate::foreign::Agent;
use segno_model::record::{ModelRef, Outcome, StopReason, Usage};
use segno_model::{Record, Seq, Timestamp};
use serde_json::{Map, Value};
use std::collections::HashSet;

/// What a call without a result is answered with.
pub(super) const UNKNOWN_OUTCOME: &str = "The outcome of this call is unknown: the session was interrupted \
    before a result was recorded. It may have happened completely, partly or not at all. Check before \
    repeating it.";

/// Everything that was said in a session.
#[derive(Debug, Clone, Default)]
pub struct Transcript {
    /// Each is followed by what hangs on it, branch by branch; the end of the current path is the last of all.
    pub turns: Vec<Turn>,
}

/// Something said, and where it stands.
#[derive(Debug, Clone)]
pub struct Turn {
    /// The record.
    pub seq: Seq,
    /// When.
    pub at: Timestamp,
    /// The turn behind which it stands, by index.
    pub parent: Option<usize>,
    /// Whether it is on the current path.
    pub active: bool,
    /// What.
    pub said: Said,
}

/// What a turn says.
#[derive(Debug, Clone)]
pub enum Said {
    /// The user's side.
    User {
        /// Never empty.
        parts: Vec<Part>,
        /// Set when it is not the person's words: a notice, a command, a reminder.
        notice: Option<String>,
    },
    /// The model.
    Reply(Reply),
    /// A summary of what stands before it on its path.
    Compaction {
        /// The summary with what stands below it.
        summary: String,
        /// The turns that go on to be sent, by index, in the order in which they are sent.
        kept: Vec<usize>,
        /// Context tokens before.
        tokens_before: Option<u64>,
    },
    /// A summary of another branch.
    BranchSummary {
        /// The summary.
        summary: String,
        /// The same in its frame, as the model is sent it.
        framed: String,
        /// The turn that was the end of that branch.
        from: Option<usize>,
    },
}

/// A reply of the model with the results of its calls.
#[derive(Debug, Clone)]
pub struct Reply {
    /// In order; never only reasoning.
    pub pieces: Vec<Piece>,
    /// Who said it.
    pub model: ModelRef,
    /// Whether it was asked elsewhere than at the provider's own address.
    pub elsewhere: bool,
    /// Tokens.
    pub usage: Option<Usage>,
    /// Why it ended.
    pub stop: StopReason,
}

impl Reply {
    /// Its calls, in order.
    pub fn calls(&self) -> impl Iterator<Item = &Call> {
        self.pieces.iter().filter_map(|piece| match piece {
            Piece::Call(call) => Some(call),
            _ => None,
        })
    }

    /// Whether its reasoning may be carried to an agent that asks `provider`: what was signed by that
    /// provider, at its own address.
    #[must_use]
    pub fn thinks_for(&self, provider: &str) -> bool {
        self.model.provider == provider && !self.elsewhere
    }
}

/// A piece of a reply.
#[derive(Debug, Clone, PartialEq)]
pub enum Piece {
    /// Text; never blank.
    Text(String),
    /// Reasoning with its maker's signature.
    Thinking {
        /// The text; may be empty.
        text: String,
        /// The signature, or the encrypted content.
        signature: String,
        /// Whether only the signature counts.
        redacted: bool,
    },
    /// A call.
    Call(Call),
    /// Something of the target's own, as it stood in the source.
    Raw(Value),
}

/// A call and its result.
#[derive(Debug, Clone, PartialEq)]
pub struct Call {
    /// Unique in the session, never empty.
    pub id: String,
    /// The tool's name, as it was recorded.
    pub name: String,
    /// The arguments. Those that were no object stand as text under `arguments`; texts that nobody writes stand for
    /// numbers that no value holds to the last digit.
    pub arguments: Map<String, Value>,
    /// The result.
    pub answer: Answer,
}

/// The result of a call.
#[derive(Debug, Clone, PartialEq)]
pub struct Answer {
    /// The record; none where there was no result.
    pub seq: Option<Seq>,
    /// When; the reply's time where nobody knows.
    pub at: Timestamp,
    /// Never empty.
    pub parts: Vec<Part>,
    /// Whether the model is told that it failed.
    pub is_error: bool,
    /// What is known about the effect.
    pub outcome: Outcome,
}

/// A piece of what a person or a tool said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Part {
    /// Text; never blank.
    Text(String),
    /// An image.
    Image {
        /// e.g. `image/png`.
        media_type: String,
        /// Base64.
        data: String,
    },
    /// A document; only for targets that hold it.
    Document(Document),
    /// Something of the target's own, as it stood in the source.
    Raw(Value),
}

impl Part {
    /// Whether it is no text.
    #[must_use]
    pub fn is_media(&self) -> bool {
        !matches!(self, Self::Text(_))
    }
}

/// A file that the model is shown, as a PDF.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Document {
    /// e.g. `application/pdf`.
    pub media_type: String,
    /// What it is called.
    pub name: Option<String>,
    /// Base64.
    pub data: String,
}

/// The texts among some parts, a line each.
pub(super) fn text_of(parts: &[Part]) -> String {
    let texts = parts.iter().filter_map(|part| match part {
        Part::Text(text) => Some(text.as_str()),
        _ => None,
    });
    texts.collect::<Vec<_>>().join("\n")
}

impl Transcript {
    /// The transcript of a session, for a target. What cannot be in one is told.
    #[must_use]
    pub fn of(session: &Session, target: Agent, blobs: &dyn Blobs, losses: &mut Losses) -> Self {
        let (changed, pieces) = pieces::stand_ins(session, target, losses);
        let record = |record| changed.get(&Record::seq(record)).unwrap_or(record);
        let records: Vec<&Record> = session.records.iter().map(record).collect();
        Builder::new((session, &records, target), &pieces, blobs, losses).build()
    }

    /// The current path, in order.
    pub fn path(&self) -> impl Iterator<Item = (usize, &Turn)> {
        self.turns.iter().enumerate().filter(|(_, turn)| turn.active)
    }

    /// Tells the branches beside the current path as lost, by their ends.
    pub(super) fn lose_branches(&self, losses: &mut Losses) {
        let parents: HashSet<usize> = self.turns.iter().filter_map(|turn| turn.parent).collect();
        let ends = self.turns.iter().enumerate().filter(|(i, _)| !parents.contains(i));
        for (_, turn) in ends.filter(|(_, turn)| !turn.active) {
            losses.of(LossKind::Branches, turn.seq);
        }
    }
}
