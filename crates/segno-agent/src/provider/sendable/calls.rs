//! Calls and their results.
//!
//! Responsible for: pairing, ids, names and arguments of calls as a wire takes them. What a call is sent under
//! depends only on what stands before it, so it never changes while messages are added. Must not: know what
//! a call did.

use super::{Draft, tools};
use crate::provider::json::sendable_arguments;
use segno_model::context::{ContextAssistant, ContextMessage, ContextResult, UNKNOWN_OUTCOME};
use segno_model::record::{AssistantBlock, Block, ToolCall};
use sha2::{Digest, Sha256};
use std::borrow::Cow;
use std::collections::HashSet;
use std::fmt::Write as _;

/// Marks ids that we made because the provider gave none.
const OWN_ID: &str = "segno_";

/// An id of our own, from what tells its call from all others.
pub(in crate::provider) fn own_id(of: &str) -> String {
    format!("{OWN_ID}{}", digest(of))
}

/// Whether we made this id.
pub(in crate::provider) fn is_own_id(id: &str) -> bool {
    id.starts_with(OWN_ID)
}

/// Sixteen characters that stand for a text.
pub(super) fn digest(text: &str) -> String {
    Sha256::digest(text).iter().take(8).fold(String::new(), |mut out, byte| {
        let _ = write!(out, "{byte:02x}");
        out
    })
}

fn calls(turn: &ContextAssistant) -> impl Iterator<Item = &ToolCall> {
    turn.content.iter().filter_map(|block| match block {
        AssistantBlock::ToolCall(call) => Some(call),
        _ => None,
    })
}

fn change_calls(turn: &mut ContextAssistant, mut change: impl FnMut(usize, &mut ToolCall)) {
    let mut blocks = turn.content.take();
    let calls = blocks.iter_mut().filter_map(|block| match block {
        AssistantBlock::ToolCall(call) => Some(call),
        _ => None,
    });
    calls.enumerate().for_each(|(place, call)| change(place, call));
    turn.content = blocks.into();
}

pub(super) fn pair(draft: &mut Draft<'_>) {
    let mut paired = Vec::new();
    let mut broken = Vec::new();
    let mut messages = std::mem::take(&mut draft.messages).into_iter().peekable();
    while let Some(message) = messages.next() {
        match message {
            ContextMessage::Assistant(turn) => {
                let mut given = match messages.peek() {
                    Some(ContextMessage::Results(_)) => match messages.next() {
                        Some(ContextMessage::Results(results)) => results,
                        _ => Vec::new(),
                    },
                    _ => Vec::new(),
                };
                let ids: Vec<&str> = given.iter().map(|result| result.call_id.as_str()).collect();
                if !calls(&turn).map(|call| call.id.as_str()).eq(ids) {
                    broken.push(Some(turn.seq));
                }
                let results: Vec<_> = calls(&turn).map(|call| answer(call, &mut given)).collect();
                paired.push(ContextMessage::Assistant(turn));
                if !results.is_empty() {
                    paired.push(ContextMessage::Results(results));
                }
            }
            ContextMessage::Results(stray) => broken.extend(stray.iter().map(|result| result.seq)),
            other @ (ContextMessage::User { .. } | ContextMessage::State(_)) => paired.push(other),
        }
    }
    draft.messages = paired;
    broken.into_iter().for_each(|seq| draft.note(seq));
}

/// The first result of a call that is not taken yet, or what stands for it.
fn answer(call: &ToolCall, given: &mut Vec<ContextResult>) -> ContextResult {
    match given.iter().position(|result| result.call_id == call.id) {
        Some(place) => given.remove(place),
        None => ContextResult {
            seq: None,
            call_id: call.id.clone(),
            name: call.name.clone(),
            content: vec![Block::text(UNKNOWN_OUTCOME)].into(),
            is_error: true,
        },
    }
}

/// Gives each turn with calls and its results, which [`pair`] put right behind it, to `mend`; it says whether
/// it changed them.
fn rounds(
    draft: &mut Draft<'_>,
    mut mend: impl FnMut(&mut ContextAssistant, &mut [ContextResult]) -> bool,
) {
    let mut broken = Vec::new();
    let mut rest = draft.messages.as_mut_slice();
    while let [first, behind @ ..] = rest {
        if let ContextMessage::Assistant(turn) = first
            && calls(turn).next().is_some()
        {
            let changed = match behind.first_mut() {
                Some(ContextMessage::Results(results)) => mend(turn, results),
                _ => mend(turn, &mut []),
            };
            if changed {
                broken.push(turn.seq);
            }
        }
        rest = behind;
    }
    broken.into_iter().for_each(|seq| draft.note(Some(seq)));
}

pub(super) fn ids(draft: &mut Draft<'_>) {
    let longest = draft.takes.id_bytes;
    let mut used = HashSet::new();
    rounds(draft, |turn, results| {
        // What the maker itself wrote, it takes back.
        let is_own = turn.native.is_some();
        let seq = turn.seq;
        let sent: Vec<String> = calls(turn)
            .enumerate()
            .map(|(place, call)| {
                let plain = match is_own && !call.id.trim().is_empty() {
                    true => Cow::Borrowed(call.id.as_str()),
                    false => plain_id(&call.id, longest),
                };
                give(&mut used, plain, seq, place, longest)
            })
            .collect();
        let renamed = calls(turn).zip(&sent).any(|(call, id)| call.id != *id);
        if renamed {
            turn.native = None;
            change_calls(turn, |place, call| call.id.clone_from(&sent[place]));
        }
        for (result, id) in results.iter_mut().zip(&sent) {
            result.call_id.clone_from(id);
        }
        renamed
    });
}

fn give(
    used: &mut HashSet<String>,
    id: Cow<'_, str>,
    seq: u64,
    place: usize,
    longest: usize,
) -> String {
    let mut sent = id.into_owned();
    if sent.is_empty() {
        sent = format!("call_{seq}_{place}");
    } else if used.contains(&sent) {
        sent = plain_id(&format!("{sent}_{seq}_{place}"), longest).into_owned();
    }
    while !used.insert(sent.clone()) {
        sent = own_id(&sent);
    }
    sent
}

/// An id in the alphabet that every provider takes: unchanged when it already is, and empty when there is none.
fn plain_id(id: &str, longest: usize) -> Cow<'_, str> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    if id.trim().is_empty() {
        return Cow::Borrowed("");
    }
    if id.len() <= longest && id.chars().all(is_plain) {
        return Cow::Borrowed(id);
    }
    let head: String = id.chars().filter(|c| is_plain(*c)).take(longest - 17).collect();
    Cow::Owned(format!("{head}_{}", digest(id)))
}

pub(super) fn names(draft: &mut Draft<'_>) {
    let takes = draft.takes;
    let renamed = std::mem::take(&mut draft.renamed);
    let sent = |name: &str| -> String {
        let known = renamed.iter().find(|(own, _)| own == name);
        known.map_or_else(|| tools::plain_name(name, takes).into_owned(), |(_, sent)| sent.clone())
    };
    rounds(draft, |turn, results| {
        let mut changed = false;
        if turn.native.is_none() && calls(turn).any(|call| sent(&call.name) != call.name) {
            change_calls(turn, |_, call| call.name = sent(&call.name));
            changed = true;
        }
        for (result, call) in results.iter_mut().zip(calls(turn)) {
            changed |= result.name != call.name;
            result.name.clone_from(&call.name);
        }
        changed
    });
    draft.renamed = renamed;
}

pub(super) fn arguments(draft: &mut Draft<'_>) {
    rounds(draft, |turn, _| {
        let bad = |call: &ToolCall| sendable_arguments(&call.arguments) != call.arguments;
        let broken = calls(turn).any(bad);
        if broken {
            change_calls(turn, |_, call| {
                call.arguments = sendable_arguments(&call.arguments).into_owned();
            });
        }
        broken
    });
}
