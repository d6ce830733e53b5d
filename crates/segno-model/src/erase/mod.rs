//! Taking a secret out of a log for good: what is left of a record, and the log around it.
//!
//! Responsible for: which records go together, the fixed words that stand where something was, and lines
//! whose references still hold when others became shorter. Must not: touch files, or decide what is a secret.
//!
//! An erased record keeps its number, its type, its place in the tree and everything that pairing goes by;
//! only what was said in it is gone. The lines behind it move, so every position (number, offset, checksum)
//! that names a moved or changed record is written anew, and checkpoints are made again by the one fold.

mod carried;
mod pieces;
mod rewrite;

pub use carried::Gone;
pub use pieces::{Pieces, blobs_in, texts};
pub use rewrite::Rewriter;

use crate::id::Seq;
use crate::line::Record;
use crate::record::{
    Action, ApprovalState, AssistantBlock, AssistantMessage, Block, Body, Compaction, Message,
    RunState, Task, TaskStep, Text, ToolMessage, UserMessage,
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
            RunState::Started { .. } | RunState::Stopping { .. } | RunState::Ended { .. } => {
                return None;
            }
        },
        Body::Task(task) => empty_task(task),
        Body::Environment(environment) => environment.system = None,
        Body::Compaction(compaction) => empty_compaction(compaction),
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
        Body::Session(_)
        | Body::Request(_)
        | Body::Input(_)
        | Body::Checkpoint(_)
        | Body::Tip(_)
        | Body::Model(_)
        | Body::Thinking(_)
        | Body::Policy(_)
        | Body::ContextEdit(_)
        | Body::Usage(_)
        | Body::Repair(_) => return None,
    }
    Some(body)
}

/// Whether an erased record still says something: an earlier version left more in it than this one does.
#[must_use]
pub fn says_something(record: &Record) -> bool {
    if !record.is_erased() {
        return true;
    }
    let said = |body: &Body| body.to_json().ok();
    emptied(record.body()).is_some_and(|rest| said(&rest) != said(record.body()))
}

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

fn empty_task(task: &mut Task) {
    let Task { goal, constraints, steps } = task;
    erase(goal);
    constraints.iter_mut().for_each(erase);
    for TaskStep { text, status: _ } in steps {
        erase(text);
    }
}

/// What is kept and what it cost stays; a task in force is told by its own record. Names every field, so that
/// a new one is decided about here.
fn empty_compaction(compaction: &mut Compaction) {
    let Compaction {
        state: _,
        summary,
        first_kept: _,
        kept: _,
        tokens_before: _,
        tokens_after: _,
        model: _,
        usage: _,
        sentences,
        sentences_left_out: _,
        task,
        native,
        endpoint,
        native_tokens,
        no_native,
        reason,
    } = compaction;
    *summary = summary.as_ref().map(|_| erased_text());
    sentences.clear();
    *task = None;
    (*native, *native_tokens) = (None, None);
    (*endpoint, *no_native) = (None, None);
    reason.iter_mut().for_each(erase);
}

/// The id stays, so that nobody is admitted under it again; the hash of what was said goes.
fn empty_user(user: &mut UserMessage) {
    let UserMessage { content, input_id: _, input_kind: _, input_sha256, notice: _ } = user;
    *content = erased_blocks();
    *input_sha256 = None;
}

/// Calls keep their ids and names, so that their results stay theirs.
fn empty_reply(reply: &mut AssistantMessage) {
    let mut rest = vec![AssistantBlock::text(ERASED)];
    rest.extend(reply.calls().map(|call| AssistantBlock::call(&call.id, &call.name, "{}")));
    let AssistantMessage {
        content,
        native,
        model: _,
        endpoint: _,
        usage: _,
        stop: _,
        partial: _,
        request: _,
    } = reply;
    *content = rest;
    *native = None;
}

fn empty_result(result: &mut ToolMessage) {
    let ToolMessage {
        call_id: _,
        call_seq: _,
        name: _,
        content,
        whole,
        is_error: _,
        outcome: _,
        established: _,
        background: _,
    } = result;
    *content = erased_blocks();
    *whole = None;
}

fn empty_action(action: &mut Action) {
    let Action { call_id: _, call_seq: _, tool: _, class: _, host: _, boot: _, key, probe, before } =
        action;
    *probe = None;
    *before = None;
    *key = None;
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
