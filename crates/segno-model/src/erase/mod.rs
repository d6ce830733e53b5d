//! Taking a secret out of a log for good: what is left of a record, and the log around it.
//!
//! Responsible for: which records go together, the fixed words that stand where something was, and lines
//! whose references still hold when others became shorter. Must not: touch files, or decide what is a secret.
//!
//! An erased record keeps its number, its type, its place in the tree and everything that pairing goes by;
//! only what was said in it is gone. The lines behind it move, so every position (number, offset, checksum)
//! that names a moved or changed record is written anew, and checkpoints are made again by the one fold.

mod pieces;
mod rewrite;

pub use pieces::{Pieces, blobs_in, texts};
pub use rewrite::Rewriter;

use crate::id::Seq;
use crate::line::Record;
use crate::record::{
    Action, ApprovalState, AssistantBlock, AssistantMessage, Block, Body, Message, RunState, Text,
    ToolMessage, UserMessage,
};
use serde_json::value::RawValue;
use std::collections::BTreeSet;

/// Stands where something was erased.
pub const ERASED: &str = "(erased)";

/// What is left of a record; none when nothing in it was said by anybody.
#[must_use]
pub fn emptied(body: &Body) -> Option<Body> {
    let mut body = body.clone();
    match &mut body {
        Body::Message(message) => match &mut **message {
            Message::User(user) => empty_user(user),
            Message::Assistant(reply) => empty_reply(reply),
            Message::Tool(result) => empty_result(result),
        },
        Body::Action(action) => empty_action(action),
        Body::Approval(approval) => match &mut approval.state {
            ApprovalState::Asked { question } => erase(question),
            ApprovalState::Answered { reason, .. } => reason.iter_mut().for_each(erase),
        },
        Body::Run(run) => match &mut run.state {
            RunState::Ended { reason: Some(reason), .. } => erase(reason),
            _ => return None,
        },
        Body::Task(task) => {
            erase(&mut task.goal);
            task.constraints.iter_mut().for_each(erase);
            task.steps.iter_mut().for_each(|step| erase(&mut step.text));
        }
        Body::Environment(environment) => environment.system = None,
        Body::Compaction(compaction) => {
            compaction.summary = compaction.summary.as_ref().map(|_| erased_text());
            compaction.reason.iter_mut().for_each(erase);
            (compaction.native, compaction.native_tokens) = (None, None);
            (compaction.endpoint, compaction.no_native) = (None, None);
        }
        Body::BranchSummary(summary) => summary.summary = erased_text(),
        Body::Label(label) => erase(&mut label.label),
        Body::Name(name) => erase(&mut name.name),
        Body::ContextEdit(edit) if !edit.content.is_empty() => edit.content = erased_blocks(),
        Body::Custom(custom) => {
            custom.data = RawValue::NULL.to_owned();
            custom.context.iter_mut().for_each(erase);
        }
        Body::Child(child) => {
            child.detail.iter_mut().for_each(erase);
            child.attempt.iter_mut().for_each(|attempt| attempt.detail.iter_mut().for_each(erase));
        }
        Body::Unknown { .. } => {}
        _ => return None,
    }
    Some(body)
}

/// A compaction without the provider's own state, where that may tell of one of these records: nobody can look
/// into a state, and each is made from the one before. The summary stands then.
#[must_use]
pub fn without_state(record: &Record, chosen: &BTreeSet<Seq>) -> Option<Body> {
    let Body::Compaction(compaction) = record.body() else { return None };
    let is_later = chosen.first().is_some_and(|first| *first < record.seq());
    if compaction.native.is_none() || !is_later || chosen.contains(&record.seq()) {
        return None;
    }
    let mut rest = compaction.clone();
    (rest.native, rest.native_tokens, rest.endpoint) = (None, None, None);
    rest.no_native = Some(STATE_ERASED.to_owned());
    Some(Body::Compaction(rest))
}

/// Why a compaction has no state of the provider's any more.
const STATE_ERASED: &str = "something that it told of was erased";

fn erase(text: &mut String) {
    if !text.is_empty() {
        ERASED.clone_into(text);
    }
}

fn erased_text() -> Text {
    Text::Inline(ERASED.to_owned())
}

fn erased_blocks() -> Vec<Block> {
    vec![Block::text(ERASED)]
}

/// The id stays, so that nobody is admitted under it again; the hash of what was said goes.
fn empty_user(user: &mut UserMessage) {
    user.content = erased_blocks();
    user.input_sha256 = None;
}

/// Calls keep their ids and names, so that their results stay theirs.
fn empty_reply(reply: &mut AssistantMessage) {
    let mut content = vec![AssistantBlock::text(ERASED)];
    let calls = reply.calls().map(|call| AssistantBlock::call(&call.id, &call.name, "{}"));
    content.extend(calls.collect::<Vec<_>>());
    reply.content = content;
    reply.native = None;
}

fn empty_result(result: &mut ToolMessage) {
    result.content = erased_blocks();
    result.whole = None;
}

fn empty_action(action: &mut Action) {
    action.probe = None;
    action.before = None;
    action.key = None;
}

/// Whether a record goes along with erased ones: the intent and the questions of an erased call, and of a
/// call whose result is erased. `calls` are those calls: their turn, and their id where only one is meant.
#[must_use]
pub fn goes_along(record: &Record, calls: &BTreeSet<(Seq, Option<String>)>) -> bool {
    let (turn, id) = match record.body() {
        Body::Action(action) => (action.call_seq, &action.call_id),
        Body::Approval(approval) => (approval.call_seq, &approval.call_id),
        _ => return false,
    };
    calls.contains(&(turn, None)) || calls.contains(&(turn, Some(id.clone())))
}

/// The calls that a record holds or answers, for [`goes_along`].
#[must_use]
pub fn calls_of(record: &Record) -> Option<(Seq, Option<String>)> {
    let Body::Message(message) = record.body() else { return None };
    match &**message {
        Message::Assistant(reply) => reply.calls().next().map(|_| (record.seq(), None)),
        Message::Tool(result) => Some((result.call_seq?, Some(result.call_id.clone()))),
        Message::User(_) => None,
    }
}
