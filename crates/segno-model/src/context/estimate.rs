//! How many tokens the next request has, roughly.
//!
//! Responsible for: starting from the last usage that a provider reported for this very context, and counting
//! what came since by the scripts of its characters (decision 0017 says why not by a tokenizer). Must
//! not: count the system prompt and tools where nothing was reported; the caller knows those.

use super::place::Place;
use super::{
    CONTINUE_NOTICE, Context, ContextAssistant, ContextMessage, LOST_BEGINNING_NOTICE, Parts,
    Target, state_rule,
};
use crate::id::{Pos, Seq};
use crate::line::Record;
use crate::picture;
use crate::record::{
    AssistantBlock, AssistantMessage, BlobRef, Block, Body, Message, ModelRef, Native, Text,
};
use std::borrow::Borrow;

/// So many quarters of a token count as one.
const QUARTERS: u64 = 4;
/// Tokens of a message's own structure.
const MESSAGE_TOKENS: u64 = 4;
/// No record can claim more than this, so that no sum of claims overflows.
const MOST_TOKENS: u64 = u32::MAX as u64;

/// A size in tokens.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Estimate {
    /// How many.
    pub tokens: u64,
    /// The reply whose reported usage it starts from; none when everything is guessed from bytes.
    pub measured_at: Option<Seq>,
}

/// Estimates the context at `tip`.
///
/// A usage counts only if its reply was made on this context: on this path, after the newest
/// compaction, and with no edit since of what it saw; what was pruned since is taken off.
#[must_use]
pub fn estimate<R: Borrow<Record>>(records: &[R], tip: Option<Pos>) -> Estimate {
    estimate_for(records, tip, None, None)
}

/// The same for this model, by which images count, and for this target, which may be sent a provider's own state
/// in place of a summary.
#[must_use]
pub fn estimate_for<R: Borrow<Record>>(
    records: &[R],
    tip: Option<Pos>,
    model: Option<&ModelRef>,
    target: Option<&Target>,
) -> Estimate {
    let parts = Parts::new(records, tip);
    let mut context = parts.context();
    let state = context.state.clone();
    if let Some(target) = target {
        context = context.for_target(target);
    }
    let messages = context.messages;
    // Whoever was sent the other one of summary and state saw another context.
    let saw_the_same = |reply: &AssistantMessage| match (&state, target) {
        (Some(state), Some(target)) => {
            let reader = Target { model: reply.model.clone(), ..target.clone() };
            let reader_is_there = target.made(&target.model, reply.endpoint.as_deref());
            let sees_state = reader_is_there && state_rule(Some(state), &reader).sent;
            sees_state == state_rule(Some(state), target).sent
        }
        _ => true,
    };
    let Some((at, tokens)) = parts.last_usage(saw_the_same) else {
        return Estimate { tokens: estimate_messages_for(&messages, model), measured_at: None };
    };
    let guessed = estimate_messages_for(&messages[after(&messages, at)..], model);
    let tokens = tokens.saturating_sub(parts.pruned_since(at, model)) + guessed;
    Estimate { tokens, measured_at: Some(at) }
}

/// The index of the first message that the reply `at` did not see. The reply itself may be left out.
fn after(messages: &[ContextMessage], at: Seq) -> usize {
    let is_it = |m: &ContextMessage| matches!(m, ContextMessage::Assistant(turn) if turn.seq == at);
    let is_later = |m: &ContextMessage| match m {
        ContextMessage::User { seq, .. } => *seq > at,
        ContextMessage::Assistant(turn) => turn.seq > at,
        ContextMessage::Results(_) | ContextMessage::State(_) => false,
    };
    let behind_it = messages.iter().position(is_it).map(|i| i + 1);
    behind_it.or_else(|| messages.iter().position(is_later)).unwrap_or(messages.len())
}

impl Parts<'_> {
    /// Guessed tokens of old outputs that the reply `at` saw and that are left out by now.
    fn pruned_since(&self, at: Seq, model: Option<&ModelRef>) -> u64 {
        let since = self.records.iter().rev().take_while(|record| record.seq() > at);
        let freed = since.filter_map(|record| {
            let Body::ContextEdit(edit) = record.body() else { return None };
            if !edit.is_pruning() || edit.target > at || !self.edits.has(edit) {
                return None;
            }
            let target = self.records.binary_search_by_key(&edit.target, |r| r.seq()).ok()?;
            let result = super::results::result_of(self.records[target])?;
            Some(blocks(&result.content, model).saturating_sub(blocks(&edit.content, model)))
        });
        freed.sum()
    }

    /// What the newest reply on this context reported, if `counts` says that it counts.
    fn last_usage(&self, counts: impl Fn(&AssistantMessage) -> bool) -> Option<(Seq, u64)> {
        let boundary = self.nodes.iter().find(|(place, ..)| *place == Place::Boundary);
        let after = boundary.map(|(_, record, _)| record.seq());
        let edit = self.records.iter().rev().find_map(|record| match record.body() {
            Body::ContextEdit(edit)
                if !edit.is_pruning() && self.places.at(edit.target).is_some() =>
            {
                Some(record.seq())
            }
            _ => None,
        });
        let mut newest = self.nodes.iter().rev().filter(|(place, ..)| *place == Place::OnPath);
        let (at, tokens, reply) = newest.find_map(|(_, record, _)| reported(record))?;
        (Some(at) > after && Some(at) > edit && counts(reply)).then_some((at, tokens))
    }
}

fn reported(record: &Record) -> Option<(Seq, u64, &AssistantMessage)> {
    let Body::Message(message) = record.body() else { return None };
    let Message::Assistant(reply) = &**message else { return None };
    let tokens = reply.usage.as_ref()?.context().min(MOST_TOKENS);
    (tokens > 0).then_some((record.seq(), tokens, reply))
}

/// Guesses the tokens of some content from its bytes.
#[must_use]
pub fn estimate_blocks(content: &[Block]) -> u64 {
    blocks(content, None)
}

/// Guesses the tokens of some messages from their bytes.
#[must_use]
pub fn estimate_messages(messages: &[ContextMessage]) -> u64 {
    estimate_messages_for(messages, None)
}

/// The same, with images as this model counts them.
#[must_use]
pub fn estimate_messages_for(messages: &[ContextMessage], model: Option<&ModelRef>) -> u64 {
    messages.iter().map(|message| tokens_of(message, model)).sum()
}

pub(super) fn tokens_of(message: &ContextMessage, model: Option<&ModelRef>) -> u64 {
    match message {
        ContextMessage::User { content, .. } => MESSAGE_TOKENS + blocks(content, model),
        ContextMessage::Assistant(turn) => of_reply(turn),
        ContextMessage::Results(results) => {
            results.iter().map(|r| MESSAGE_TOKENS + blocks(&r.content, model)).sum()
        }
        ContextMessage::State(state) => state.tokens,
    }
}

/// Guesses the tokens of a provider's own items by their texts, whatever those are called. Encrypted ones count
/// like others; an image in a URL of its own counts as one of unknown size.
#[must_use]
pub fn estimate_native(native: &Native) -> u64 {
    fn texts(value: &serde_json::Value) -> u64 {
        match value {
            serde_json::Value::String(text) if text.starts_with("data:") => picture::UNKNOWN_TOKENS,
            serde_json::Value::String(text) => estimate_text(text),
            serde_json::Value::Array(all) => all.iter().map(texts).sum(),
            serde_json::Value::Object(all) => all.values().map(texts).sum(),
            _ => 0,
        }
    }
    let items = native.items.get();
    serde_json::from_str(items).map_or_else(|_| estimate_text(items), |value| texts(&value))
}

fn blocks(blocks: &[Block], model: Option<&ModelRef>) -> u64 {
    let (words, images) = split_blocks(blocks, model);
    words + images
}

/// The tokens of texts, and of images as this model counts them.
pub(super) fn split_blocks(blocks: &[Block], model: Option<&ModelRef>) -> (u64, u64) {
    let (mut words, mut images) = (0, 0);
    for block in blocks {
        match block {
            Block::Text { text: Text::Inline(text) } => words += estimate_text(text),
            Block::Text { text: Text::Blob(blob) } => words += of_blob(blob),
            Block::Image { data, .. } => images += picture::tokens(data, model),
            Block::Unknown => {}
        }
    }
    (words, images)
}

/// The whole is taken to be written as its beginning is.
fn of_blob(blob: &BlobRef) -> u64 {
    let bytes = blob.bytes.min(MOST_TOKENS);
    match blob.head.len() as u64 {
        0 => bytes.div_ceil(QUARTERS),
        head => (bytes * quarters(&blob.head)).div_ceil(head).div_ceil(QUARTERS).min(MOST_TOKENS),
    }
}

/// The tokens of a turn of the model.
pub(super) fn of_reply(turn: &ContextAssistant) -> u64 {
    MESSAGE_TOKENS + turn.content.iter().map(reply_block).sum::<u64>()
}

fn reply_block(block: &AssistantBlock) -> u64 {
    let quarters = match block {
        AssistantBlock::Text { text } => quarters(text),
        AssistantBlock::Thinking { text, signature, .. } => {
            quarters(text) + signature.as_ref().map_or(0, |s| s.len() as u64)
        }
        AssistantBlock::ToolCall(call) => {
            (call.id.len() + call.name.len()) as u64 + quarters(&call.arguments)
        }
        AssistantBlock::Unknown => 0,
    };
    quarters.div_ceil(QUARTERS).min(MOST_TOKENS)
}

/// Whether a message is one of the fixed notices, which come from no record.
pub(super) fn is_notice(message: &ContextMessage) -> bool {
    let ContextMessage::User { content, .. } = message else { return false };
    match &**content {
        [Block::Text { text: Text::Inline(text) }] => {
            text == CONTINUE_NOTICE || text == LOST_BEGINNING_NOTICE
        }
        _ => false,
    }
}

/// Guesses the tokens of a text: four characters of English or code each, two letters of other alphabets,
/// one character of a script that writes words or syllables with one sign.
#[must_use]
pub fn estimate_text(text: &str) -> u64 {
    quarters(text).div_ceil(QUARTERS).min(MOST_TOKENS)
}

fn quarters(text: &str) -> u64 {
    if text.is_ascii() {
        return text.len() as u64;
    }
    let of_char = |c: char| match c.len_utf8() {
        1 => 1,
        2 => 2,
        // Indic scripts: a sign and its vowel are rarely two tokens.
        3 if ('\u{900}'..='\u{dff}').contains(&c) => 3,
        3 => 4,
        _ => 8,
    };
    text.chars().map(of_char).sum()
}

impl Context {
    /// The guessed tokens of what one record contributes: its message, and behind a turn its results.
    /// Notices belong to no record.
    pub(super) fn tokens_by_record(&self) -> std::collections::HashMap<Seq, u64> {
        let mut tokens = std::collections::HashMap::new();
        let mut at = None;
        for message in &self.messages {
            at = match message {
                notice if is_notice(notice) => None,
                ContextMessage::User { seq, .. } => Some(*seq),
                ContextMessage::Assistant(turn) => Some(turn.seq),
                ContextMessage::State(state) => Some(state.seq),
                ContextMessage::Results(_) => at,
            };
            if let Some(seq) = at {
                *tokens.entry(seq).or_insert(0) += tokens_of(message, None);
            }
        }
        tokens
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_count_by_their_scripts() {
        let cases = [
            ("", 0),
            ("a", 1),
            ("fn main() {}", 3),
            ("größer", 2),
            ("не меняй", 4),
            ("不改公共接口", 6),
            ("変更しない", 5),
            ("मत बदलो", 5),
            ("🎼🎼", 4),
        ];
        for (text, tokens) in cases {
            assert_eq!(estimate_text(text), tokens, "{text}");
        }
    }

    /// A blob is taken to be written as its beginning is, and nothing that a record claims overflows.
    #[test]
    fn a_blob_counts_like_its_beginning() {
        let blob = |head: &str, bytes| {
            of_blob(&BlobRef { blob: String::new(), bytes, head: head.to_owned() })
        };
        assert_eq!(blob("abcd", 4_000), 1_000);
        assert_eq!(blob("不改公共", 4_000), 1_334);
        assert_eq!(blob("", 4_000), 1_000);
        assert_eq!(blob("a", u64::MAX), MOST_TOKENS.div_ceil(QUARTERS));
    }
}
