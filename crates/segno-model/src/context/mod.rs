//! The context: what the model is sent, built from records and nothing else (G6, G10).
//!
//! Responsible for: the pure function from records to messages, with a trace of why each record is in
//! or out. Must not: read blobs, estimate by the clock, or know a provider's wire format.
//!
//! The order is: the newest summary on the path, what it keeps singly, the path from its first kept
//! record on. Behind each turn with calls stand their results, wherever those were recorded. A turn of
//! the model always follows something that the user's side said, and something always follows it: where
//! the log has nothing, a fixed notice stands. So the messages of a log are the beginning of the
//! messages of every longer one, as long as only messages are added (G10); what can differ is the
//! trailing notice and the placeholder of a call whose result comes later.

mod boundary;
mod edit;
mod estimate;
mod ledger;
mod place;
mod results;
mod rule;
mod shape;
mod shared;
mod state;
mod whole;

pub use boundary::{Boundary, Budget, choose_boundary};
pub use edit::{EDIT_RULES, EditEffect, EditFacts, EditRule, edit_effect};
pub use estimate::{
    Estimate, estimate, estimate_blocks, estimate_for, estimate_messages, estimate_messages_for,
    estimate_native, estimate_text,
};
pub use ledger::Ledger;
pub use rule::{RULES, Rule};
pub use shared::Shared;
pub use state::{
    BoundaryState, ContextState, IN_STATE, STATE_RULES, StateRule, Target, state_rule,
};
pub use whole::Whole;

use crate::finding::Finding;
use crate::id::{Pos, Seq};
use crate::line::Record;
use crate::pairing::SentIds;
use crate::record::{AssistantBlock, Block, Body, ModelRef, Native, ToolCall};
use crate::tree::Tree;
use place::{Place, Places};
use results::{Results, result_of};
use rule::{Content, Facts};
use serde::Serialize;
use shape::{Edits, Said, Shaped};
use std::borrow::Borrow;
use std::collections::HashMap;
use std::rc::Rc;

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
    /// What was missing on the way, and what stands for it.
    pub findings: Vec<Finding>,
    /// What a provider itself keeps of the history before the newest compaction. It stands in no message until
    /// it is known who is asked ([`Context::for_target`]).
    pub state: Option<BoundaryState>,
}

/// A message of the context.
#[derive(Debug, Clone)]
pub enum ContextMessage {
    /// The user's side.
    User {
        /// The record that it comes from; for a notice, the assistant turn that needs it.
        seq: Seq,
        /// Non-empty; blobs not yet resolved.
        content: Shared<Block>,
    },
    /// A turn of the model.
    Assistant(ContextAssistant),
    /// The results of the turn before.
    Results(Vec<ContextResult>),
    /// A provider's own state of everything before, at the beginning.
    State(ContextState),
}

impl ContextMessage {
    /// Everything readable in it, one piece per line: words and results whole, a call as its name and its
    /// arguments.
    #[must_use]
    pub fn text(&self) -> String {
        let blocks = |blocks: &[Block]| -> Vec<String> {
            let texts = blocks.iter().filter_map(|block| match block {
                Block::Text { text } => Some(text.head().to_owned()),
                _ => None,
            });
            texts.collect()
        };
        let lines: Vec<String> = match self {
            Self::User { content, .. } => blocks(content),
            Self::Results(results) => results.iter().flat_map(|r| blocks(&r.content)).collect(),
            Self::State(_) => Vec::new(),
            Self::Assistant(turn) => turn
                .content
                .iter()
                .filter_map(|block| match block {
                    AssistantBlock::Text { text } => Some(text.clone()),
                    AssistantBlock::ToolCall(c) => Some(format!("{} {}", c.name, c.arguments)),
                    _ => None,
                })
                .collect(),
        };
        lines.join("\n")
    }
}

/// A turn of the model as it is replayed.
#[derive(Debug, Clone)]
pub struct ContextAssistant {
    /// The record.
    pub seq: Seq,
    /// Never empty; calls carry the ids that are to be sent.
    pub content: Shared<AssistantBlock>,
    /// The provider's own items, when they may be replayed verbatim: only to the same model (see
    /// [`Context::for_model`]), and only if the reply is whole, not edited, and no id had to be changed.
    pub native: Option<Native>,
    /// Who said it.
    pub model: ModelRef,
    /// Where, if not at the provider's own address.
    pub endpoint: Option<String>,
}

impl ContextAssistant {
    /// Leaves out what only its maker can read: reasoning and native items. Words and calls stay.
    pub fn forget_maker(&mut self) {
        self.native = None;
        let is_thinking = |b: &AssistantBlock| matches!(b, AssistantBlock::Thinking { .. });
        if self.content.iter().any(is_thinking) {
            let mut content = self.content.take();
            content.retain(|b| !is_thinking(b));
            self.content = content.into();
        }
    }
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
    pub content: Shared<Block>,
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
pub const UNKNOWN_OUTCOME: &str = "The outcome of this call is unknown: the agent was interrupted before a \
    result was recorded. It may have happened completely, partly or not at all. Check before \
    repeating it.";

/// Stands between two turns of the model, and at the end when the last turn is the model's.
pub const CONTINUE_NOTICE: &str = "(Segno: nothing was said here. Go on from where you were.)";

/// Stands before a turn of the model with which the history begins.
pub const LOST_BEGINNING_NOTICE: &str = "(Segno: what came before this is not available.)";

/// Builds the context at `tip` from the records of an [`Active`](crate::store::Active) part, in the
/// order of the log. Edits in force are found among the records. Any part of the log that holds
/// [`needed`] gives the same messages. Records may be owned or borrowed.
#[must_use]
pub fn build<R: Borrow<Record>>(records: &[R], tip: Option<Pos>) -> Context {
    let parts = Parts::new(records, tip);
    Context { trace: parts.trace(), ..parts.context() }
}

/// As [`build`], without the trace: what a request is made from.
#[must_use]
pub fn build_untraced<R: Borrow<Record>>(records: &[R], tip: Option<Pos>) -> Context {
    Parts::new(records, tip).context()
}

/// The records that the context at `tip` depends on: what is sent, results of sent calls, and edits of
/// either. A store may give more, but not less.
#[must_use]
pub fn needed<R: Borrow<Record>>(records: &[R], tip: Option<Pos>) -> Vec<Seq> {
    let parts = Parts::new(records, tip);
    let is_part = |seq: Seq| {
        parts.places.at(seq).is_some_and(|place| place != Place::Summarised)
            || parts.results.concerns_turn(seq)
    };
    let boundary = parts.nodes.iter().find(|(place, ..)| *place == Place::Boundary);
    let alters =
        |target: Seq, edit: Seq| match boundary.map(|(_, record, _)| (record, record.body())) {
            Some((record, Body::Compaction(c))) => c.is_altered_by(target, edit, record.seq()),
            _ => false,
        };
    let is_needed = |record: &&&Record| match record.body() {
        Body::ContextEdit(edit) => is_part(edit.target) || alters(edit.target, record.seq()),
        _ => is_part(record.seq()),
    };
    parts.records.iter().filter(is_needed).map(|r| r.seq()).collect()
}

/// Everything that is known before the messages are put together.
struct Parts<'a> {
    records: Vec<&'a Record>,
    edits: Rc<Edits<'a>>,
    places: Places<'a>,
    /// What is sent besides results, in order.
    nodes: Vec<(Place, &'a Record, Shaped<'a>)>,
    results: Results<'a>,
}

impl<'a> Parts<'a> {
    fn new<R: Borrow<Record>>(records: &'a [R], tip: Option<Pos>) -> Self {
        let tree = Tree::new(records);
        let records: Vec<&Record> = records.iter().map(Borrow::borrow).collect();
        let edits = Rc::new(Edits::in_force(&records));
        let places = place::places(&tree, &records, tip);
        let nodes: Vec<_> = places
            .selected
            .iter()
            .filter(|(place, record)| *place != Place::OlderSummary && result_of(record).is_none())
            .map(|(place, record)| (*place, *record, shape::shape(record, &edits)))
            .collect();
        let results = Results::pair(&tree, &places, &nodes);
        Self { records, edits, places, nodes, results }
    }

    /// The context without its trace.
    fn context(&self) -> Context {
        let findings = self.places.findings.clone();
        let mut context = Context { findings, ..Context::default() };
        let mut ids = SentIds::default();
        let mut covers = None;
        for (place, record, shaped) in &self.nodes {
            if *place == Place::OnPath {
                covers.get_or_insert(context.messages.len());
            }
            context.push(record.seq(), &shaped.said, &self.results, &mut ids, &self.edits);
        }
        context.state = self.state(covers.unwrap_or(context.messages.len()));
        if let Some(ContextMessage::Assistant(last)) = context.messages.last() {
            let seq = last.seq;
            context.push_notice(seq, CONTINUE_NOTICE);
        }
        context
    }

    fn trace(&self) -> Vec<TraceRow> {
        let contents: HashMap<Seq, Content> =
            self.nodes.iter().map(|(_, record, shaped)| (record.seq(), shaped.content)).collect();
        let row = |record: &&Record| {
            let seq = record.seq();
            let content = match contents.get(&seq) {
                Some(content) => *content,
                None if self.edits.concern(seq) => Content::Edited,
                None => Content::Whole,
            };
            let place = self.places.of(record);
            let rule = Facts { place, content, verdict: self.results.verdict(seq) }.rule();
            let kind = record.envelope.kind.clone();
            TraceRow { seq, kind, included: rule.included, rule: rule.label }
        };
        self.records.iter().map(row).collect()
    }
}

impl Context {
    /// The context as this model may be sent it: thinking and native items of others are left out.
    #[must_use]
    pub fn for_model(mut self, model: &ModelRef) -> Self {
        for message in &mut self.messages {
            if let ContextMessage::Assistant(turn) = message
                && turn.model != *model
            {
                turn.forget_maker();
            }
        }
        self
    }

    fn push(
        &mut self,
        seq: Seq,
        said: &Said<'_>,
        results: &Results<'_>,
        ids: &mut SentIds,
        edits: &Edits<'_>,
    ) {
        match said {
            Said::Nothing => {}
            Said::User(content) => {
                self.messages.push(ContextMessage::User { seq, content: content.clone() });
            }
            Said::Assistant { blocks, native, of } => {
                let mut content = blocks.clone();
                let mut sent = Vec::new();
                let mut answers = Vec::new();
                for (index, call) in calls(blocks).enumerate() {
                    let id = ids.give(&call.id, seq, index);
                    answers.push(self.answer(seq, index, call, &id, results, edits));
                    sent.push(id);
                }
                let renamed = calls(blocks).zip(&sent).any(|(call, id)| call.id != *id);
                if renamed {
                    let mut changed = content.take();
                    calls_mut(&mut changed).zip(sent).for_each(|(call, id)| call.id = id);
                    content = changed.into();
                }
                let native = native.filter(|_| !renamed).cloned();
                let (model, endpoint) = (of.model.clone(), of.endpoint.clone());
                self.push_turn(ContextAssistant { seq, content, native, model, endpoint });
                if !answers.is_empty() {
                    self.messages.push(ContextMessage::Results(answers));
                }
            }
        }
    }

    fn push_turn(&mut self, turn: ContextAssistant) {
        match self.messages.last() {
            None => self.push_notice(turn.seq, LOST_BEGINNING_NOTICE),
            Some(ContextMessage::Assistant(before)) => {
                self.push_notice(before.seq, CONTINUE_NOTICE);
            }
            Some(_) => {}
        }
        self.messages.push(ContextMessage::Assistant(turn));
    }

    fn push_notice(&mut self, seq: Seq, text: &str) {
        self.messages.push(ContextMessage::User { seq, content: vec![Block::text(text)].into() });
    }

    /// The result of one call, or what stands for it.
    fn answer(
        &mut self,
        seq: Seq,
        index: usize,
        call: &ToolCall,
        sent: &str,
        results: &Results<'_>,
        edits: &Edits<'_>,
    ) -> ContextResult {
        let call_id = sent.to_owned();
        let name = call.name.clone();
        let Some((record, result)) = results.of_call(seq, index) else {
            let unanswered = Unanswered { call_seq: seq, call_id: call.id.clone(), name };
            self.unanswered.push(unanswered);
            let content = vec![Block::text(UNKNOWN_OUTCOME)].into();
            let name = call.name.clone();
            return ContextResult { seq: None, call_id, name, content, is_error: true };
        };
        let content = shape::result(record, &result.content, edits);
        let is_error = result.is_error;
        ContextResult { seq: Some(record.seq()), call_id, name, content, is_error }
    }
}

fn calls(content: &[AssistantBlock]) -> impl Iterator<Item = &ToolCall> {
    content.iter().filter_map(|block| match block {
        AssistantBlock::ToolCall(call) => Some(call),
        _ => None,
    })
}

fn calls_mut(content: &mut [AssistantBlock]) -> impl Iterator<Item = &mut ToolCall> {
    content.iter_mut().filter_map(|block| match block {
        AssistantBlock::ToolCall(call) => Some(call),
        _ => None,
    })
}
