//! The context: what the model is sent, built from records and nothing else (G6, G10).
//!
//! Responsible for: the pure function from records to messages, with a trace of why each record is in
//! or out. Must not: read blobs, estimate by the clock, or know a provider's wire format.

use crate::id::{Pos, Seq};
use crate::line::Record;
use crate::record::{AssistantBlock, Block, ModelRef, Native};
use serde::Serialize;

/// The next request's messages and how they came about.
#[derive(Debug, Clone, Default)]
pub struct Context {
    /// In order; each assistant turn with calls is followed by exactly one [`ContextMessage::Results`]
    /// that holds one result per call, in call order. The last one is never an assistant turn.
    pub messages: Vec<ContextMessage>,
    /// One row per record looked at.
    pub trace: Vec<TraceRow>,
    /// Calls that have no recorded result: recovery must record one for each before the next request.
    pub unanswered: Vec<Unanswered>,
}

/// A message of the context.
#[derive(Debug, Clone)]
pub enum ContextMessage {
    /// The user's side.
    User {
        /// The record that it comes from.
        seq: Seq,
        /// Non-empty; blobs not yet resolved.
        content: Vec<Block>,
    },
    /// A turn of the model.
    Assistant(ContextAssistant),
    /// The results of the turn before.
    Results(Vec<ContextResult>),
}

/// A turn of the model as it is replayed.
#[derive(Debug, Clone)]
pub struct ContextAssistant {
    /// The record.
    pub seq: Seq,
    /// Never empty; calls carry the ids that are to be sent.
    pub content: Vec<AssistantBlock>,
    /// The provider's own items, when they may be replayed verbatim: only to the same model, and only
    /// if no id had to be changed.
    pub native: Option<Native>,
    /// Who said it.
    pub model: ModelRef,
}

/// A result as it is sent.
#[derive(Debug, Clone)]
pub struct ContextResult {
    /// The record; none for a placeholder.
    pub seq: Option<Seq>,
    /// The id that is to be sent: unique in the context and never empty.
    pub call_id: String,
    /// The tool.
    pub name: String,
    /// Never empty.
    pub content: Vec<Block>,
    /// Whether it is told as a failure.
    pub is_error: bool,
}

/// A call without a result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unanswered {
    /// The assistant message.
    pub call_seq: Seq,
    /// The call's id as the model gave it.
    pub call_id: String,
    /// The tool.
    pub name: String,
}

/// Why a record is in or out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TraceRow {
    /// The record.
    pub seq: Seq,
    /// Its type.
    pub kind: String,
    /// Whether it contributes.
    pub included: bool,
    /// The rule's label, e.g. `on-path`, `before-compaction`, `duplicate-result`.
    pub rule: &'static str,
}

/// What the model is told about a call whose result was never recorded.
pub const UNKNOWN_OUTCOME: &str = "The outcome of this call is unknown: Segno was interrupted before \
    a result was recorded. It may have happened completely, partly or not at all. Check before \
    repeating it.";

/// Builds the context at `tip` from the records of an [`Active`](crate::store::Active) part, in the
/// order of the log. Edits in force are found among the records.
#[must_use]
pub fn build(records: &[Record], tip: Option<Pos>) -> Context {
    let _ = (records, tip);
    Context::default()
}
