//! Which old outputs are left out of the context before a summary is made.
//!
//! Responsible for: choosing results that are large, old and no recent error, and the line that stands for
//! each. They are left out in steps and not on every request, so that what was sent stays the beginning of
//! what is sent next for long. Must not: remove anything; each is a `context_edit` that can be taken back.

use super::budget::Window;
use super::result::cut_result;
use crate::context::{self, ContextMessage, ContextResult};
use crate::id::{Pos, Seq, SessionId};
use crate::line::Record;
use crate::record::{Block, Body, ContextEdit, Text};
use std::borrow::Borrow;
use std::collections::HashSet;

/// Rounds of calls at the end that keep their results.
const RECENT_ROUNDS: usize = 3;
/// A result that is smaller stays, in tokens.
const SMALLEST: u64 = 250;
/// Freeing less at once is not worth a cold cache, in tokens, however large the window is.
const LARGEST_STEP: u64 = 20_000;
/// The end of the context that is never touched, in tokens, however large the window is.
const MOST_PROTECTED: u64 = 40_000;
/// How much of an output's beginning is repeated, in characters.
const HEAD_CHARS: usize = 80;

/// What is to be left out.
#[derive(Debug, Clone, PartialEq)]
pub struct Pruning {
    /// One per result, ascending.
    pub edits: Vec<ContextEdit>,
    /// The tokens that this frees, guessed.
    pub frees: u64,
}

/// What of the context at `tip` can be left out; none when that is less than a step.
#[must_use]
pub fn prune<R: Borrow<Record>>(
    records: &[R],
    tip: Option<Pos>,
    session: &SessionId,
    window: Window,
) -> Option<Pruning> {
    let context = context::build_untraced(records, tip);
    let edited = edited(records);
    let mut pruning = Pruning { edits: Vec::new(), frees: 0 };
    for result in old(&context.messages, window) {
        let Some(seq) = result.seq.filter(|seq| !edited.contains(seq)) else { continue };
        let tokens = context::estimate_blocks(&result.content);
        let line = line(result, seq, session);
        let left = context::estimate_blocks(std::slice::from_ref(&line));
        if tokens >= SMALLEST && tokens > left {
            pruning.frees += tokens - left;
            pruning.edits.push(pruned(seq, vec![line]));
        }
    }
    pruning.edits.sort_by_key(|edit| edit.target);
    (pruning.frees >= step(window)).then_some(pruning)
}

/// Cuts the results that no reply has followed yet, so that together they take about `tokens`; none when they do.
/// Each keeps its beginning and its end: the model has not seen them, so none is left out.
#[must_use]
pub fn cut_unanswered<R: Borrow<Record>>(
    records: &[R],
    tip: Option<Pos>,
    session: &SessionId,
    tokens: u64,
) -> Option<Pruning> {
    let messages = context::build_untraced(records, tip).messages;
    let is_reply = |message: &ContextMessage| matches!(message, ContextMessage::Assistant(_));
    let open = messages.iter().rposition(is_reply).unwrap_or(messages.len());
    let results = messages[open..].iter().flat_map(|message| match message {
        ContextMessage::Results(results) => results.as_slice(),
        _ => &[],
    });
    let results: Vec<&ContextResult> = results.collect();
    let share = tokens / results.len().max(1) as u64;
    let edited = edited(records);
    let mut pruning = Pruning { edits: Vec::new(), frees: 0 };
    for result in results {
        let Some(seq) = result.seq.filter(|seq| !edited.contains(seq)) else { continue };
        let Some(mut content) = cut_result(&result.content, share) else { continue };
        content.push(Block::text(format!(
            "(Segno: `segno show {session} --raw {seq}` prints all of it.)"
        )));
        let (before, after) =
            (context::estimate_blocks(&result.content), context::estimate_blocks(&content));
        if after < before {
            pruning.frees += before - after;
            pruning.edits.push(pruned(seq, content));
        }
    }
    pruning.edits.sort_by_key(|edit| edit.target);
    (!pruning.edits.is_empty()).then_some(pruning)
}

fn pruned(target: Seq, content: Vec<Block>) -> ContextEdit {
    ContextEdit {
        target,
        edit: "replace".to_owned(),
        content,
        cause: Some(ContextEdit::PRUNED.to_owned()),
        ..ContextEdit::default()
    }
}

/// What must be freed at once.
fn step(window: Window) -> u64 {
    LARGEST_STEP.min(window.context / 8).max(1)
}

/// What an edit is in force of already. Whoever restored an output wants it to stay.
fn edited<R: Borrow<Record>>(records: &[R]) -> HashSet<Seq> {
    let edits = records.iter().filter_map(|record| match record.borrow().body() {
        Body::ContextEdit(edit) => Some(edit.target),
        _ => None,
    });
    edits.collect()
}

/// The results before the protected end, and of what came after the last prompt only those that went well.
fn old(messages: &[ContextMessage], window: Window) -> Vec<&ContextResult> {
    let mut room = MOST_PROTECTED.min(window.room() / 4);
    let (mut rounds, mut ended, mut last_turn) = (0, false, true);
    let mut old = Vec::new();
    for message in messages.iter().rev() {
        let tokens = context::estimate_messages(std::slice::from_ref(message));
        ended |= tokens > room;
        room = room.saturating_sub(tokens);
        match message {
            ContextMessage::Results(results) => {
                rounds += 1;
                if ended && rounds > RECENT_ROUNDS {
                    old.extend(results.iter().filter(|result| !(last_turn && result.is_error)));
                }
            }
            ContextMessage::User { .. } => last_turn = false,
            ContextMessage::Assistant(_) | ContextMessage::State(_) => {}
        }
    }
    old
}

/// What stands for an output: what was there, and how to see it again.
fn line(result: &ContextResult, seq: Seq, session: &SessionId) -> Block {
    let mut bytes = 0;
    let mut images = 0;
    let mut head = "";
    for block in &result.content {
        match block {
            Block::Text { text } => {
                bytes += match text {
                    Text::Inline(text) => text.len() as u64,
                    Text::Blob(blob) => blob.bytes,
                };
                head = if head.is_empty() { text.head().trim_start() } else { head };
            }
            Block::Image { .. } => images += 1,
            Block::Unknown => {}
        }
    }
    let first = head.lines().next().unwrap_or_default();
    let words: String = first.chars().take(HEAD_CHARS).collect();
    let more = if words.len() < head.len() { "…" } else { "" };
    let pictures = match images {
        0 => String::new(),
        1 => " and an image".to_owned(),
        n => format!(" and {n} images"),
    };
    Block::text(format!(
        "(Segno: an old output of `{}` is left out here to save room: {bytes} bytes{pictures}, beginning \
         \"{words}{more}\". Make the call again if it is needed; `segno show {session} --raw {seq}` prints \
         what was there.)",
        result.name
    ))
}
