//! What no provider would accept, judged on the neutral history (G6).
//!
//! Responsible for: order of turns, pairing of calls and results, empty content, ids, arguments and
//! signatures, for all wires alike. Must not: know a wire's spelling; be laxer than the strictest
//! provider.

use super::seen::{Findings, Said, Seen, SeenResult, Turn, Wire};
use super::signature::{self, Verified};
use super::wire::{call_content, scope, text_content, thinking_content};
use serde_json::Value;

/// Every rule that a request can break: its label and what it asks for.
pub const RULES: &[(&str, &str)] = &[
    ("json", "the body is a JSON object"),
    ("content-type", "the content type is application/json"),
    ("version-header", "Anthropic requests carry an anthropic-version header"),
    ("not-streaming", "a stream is asked for"),
    ("field-missing", "required fields are there"),
    (
        "unknown-field",
        "no top-level field that is not defined (Anthropic, and where a state is asked for)",
    ),
    ("thinking-budget", "the thinking budget fits the output limit (Anthropic)"),
    ("cache-marks", "at most four cache marks, none on thinking (Anthropic)"),
    ("server-state", "nothing is expected to be stored on the server (Responses)"),
    ("item-id", "item ids carry the prefix of their kind (Responses)"),
    ("role", "only roles that the wire knows, each in its place"),
    ("block", "only content that the wire knows, each in its place"),
    ("image", "images are base64 of a supported type, and of the type that they are said to be"),
    ("image-size", "images are not larger than the provider takes, in bytes and pixels"),
    ("image-count", "no more images in one request than the provider takes"),
    ("tool-name", "tool names are legal and unique"),
    ("tool-schema", "tool arguments are described as an object"),
    ("tools-undefined", "a history with calls comes with tools (Anthropic)"),
    ("empty-list", "lists that may be left out are not empty (Chat)"),
    ("roles-alternate", "no two messages of one role in a row (all but Responses)"),
    ("no-messages", "there is at least one message"),
    ("first-not-user", "the first message is the user's"),
    ("assistant-last", "the last message is not the assistant's"),
    ("empty-message", "no message without content"),
    ("empty-text", "no text that is empty or blank"),
    ("nul", "no NUL in a text"),
    ("empty-result", "no result without content"),
    ("results-first", "results come before anything else of their message (Anthropic)"),
    ("call-without-result", "each call has its result right after its turn"),
    ("result-without-call", "each result has its call in the turn right before"),
    ("duplicate-result", "one result per call"),
    ("result-order", "results stand in the order of their calls"),
    ("call-id", "call ids are not empty, legal, and not too long"),
    ("duplicate-call-id", "call ids are unique in the whole history"),
    ("call-name", "calls name a tool that could exist"),
    ("call-arguments", "arguments are a JSON object"),
    ("unsigned-thinking", "reasoning comes back with its signature or not at all"),
    ("altered-thinking", "reasoning comes back unchanged"),
    ("foreign-signature", "only reasoning that this model signed comes back"),
    (
        "thinking-first",
        "while thinking with a budget, an open tool turn begins with thinking (Anthropic)",
    ),
    ("signature-missing", "the calls since the user last spoke carry a signature (Gemini 3)"),
    ("foreign-state", "only a state that this model made on this server comes back (Responses)"),
    (
        "altered-state",
        "a state comes back unchanged, right behind the window it was made with (Responses)",
    ),
    ("reasoning-alone", "reasoning is followed by what it led to"),
    ("prefix-changed", "with `strict prefix`: a request extends the one before"),
];

/// What Gemini's documentation names for calls that another model made.
const GEMINI_STAND_IN: &str = "skip_thought_signature_validator";

/// Judges a request.
pub(crate) fn judge(seen: &Seen, findings: &mut Findings) {
    order(seen, findings);
    for (index, turn) in seen.turns.iter().enumerate() {
        content(index, turn, findings);
        if let Turn::Assistant(said) = turn {
            signatures(seen, &place(index, turn), said, findings);
            reasoning(seen.wire, &place(index, turn), said, findings);
        }
    }
    pairing(seen, findings);
    calls(seen, findings);
    open_turn(seen, findings);
}

/// What Gemini 3 asks of the calls that it made since the user last spoke: the first of each step is
/// signed.
fn open_turn(seen: &Seen, findings: &mut Findings) {
    if seen.wire != Wire::Gemini || !seen.model.contains("gemini-3") {
        return;
    }
    let since_user = seen.turns.iter().enumerate().rev();
    for (index, turn) in since_user.take_while(|(_, turn)| !matches!(turn, Turn::User(_))) {
        let Turn::Assistant(said) = turn else { continue };
        let first = said.iter().find(|part| matches!(part, Said::Call { .. }));
        if matches!(first, Some(Said::Call { signature: None, .. })) {
            let message = "Function call is missing a thought_signature in functionCall parts";
            findings.add("signature-missing", place(index, turn), message);
        }
    }
}

fn place(index: usize, turn: &Turn) -> String {
    format!("turn {index} ({})", turn.role())
}

fn order(seen: &Seen, findings: &mut Findings) {
    match seen.turns.first() {
        None => findings.add("no-messages", "messages", "at least one message is required"),
        Some(Turn::User(_)) => {}
        Some(turn) => {
            let message = "the first message must be the user's";
            findings.add("first-not-user", place(0, turn), message);
        }
    }
    if let Some(turn @ Turn::Assistant(_)) = seen.turns.last().filter(|_| !seen.compaction) {
        let message = "the conversation must not end with the assistant";
        findings.add("assistant-last", place(seen.turns.len() - 1, turn), message);
    }
}

fn content(index: usize, turn: &Turn, findings: &mut Findings) {
    let at = place(index, turn);
    if turn.text().contains('\0') {
        findings.add("nul", &at, "unsupported Unicode: \\u0000 cannot be converted to text");
    }
    let blank = |text: &str| text.trim().is_empty();
    let empty_text = "text content blocks must be non-empty and not only white space";
    match turn {
        Turn::User(pieces) => {
            if pieces.is_empty() {
                findings.add("empty-message", &at, "the message has no content");
            }
            for piece in pieces {
                if matches!(piece, super::seen::Piece::Text(text) if blank(text)) {
                    findings.add("empty-text", &at, empty_text);
                }
            }
        }
        Turn::Assistant(said) => {
            if said.iter().all(|part| matches!(part, Said::Thinking { .. })) {
                findings.add("empty-message", &at, "the message has no content but reasoning");
            }
            for part in said {
                // Gemini may put the signature of a turn on an empty part.
                if matches!(part, Said::Text { text, signature: None } if blank(text)) {
                    findings.add("empty-text", &at, empty_text);
                }
            }
        }
        Turn::Results(results) => {
            for result in results.iter().filter(|r| blank(&r.text) && r.images == 0) {
                let message = format!("the result of call `{}` is empty", result.call_id);
                findings.add("empty-result", &at, message);
            }
        }
    }
}

fn pairing(seen: &Seen, findings: &mut Findings) {
    for (index, turn) in seen.turns.iter().enumerate() {
        match turn {
            Turn::User(_) => {}
            Turn::Assistant(said) => {
                let results = match seen.turns.get(index + 1) {
                    Some(Turn::Results(results)) => results.as_slice(),
                    _ => &[],
                };
                pair(&place(index, turn), &calls_of(said), results, findings);
            }
            Turn::Results(results) => {
                let before = index.checked_sub(1).and_then(|before| seen.turns.get(before));
                if !matches!(before, Some(Turn::Assistant(_))) {
                    pair(&place(index, turn), &[], results, findings);
                }
            }
        }
    }
}

fn calls_of(said: &[Said]) -> Vec<(&str, &str)> {
    said.iter()
        .filter_map(|part| match part {
            Said::Call { id, name, .. } => Some((id.as_str(), name.as_str())),
            _ => None,
        })
        .collect()
}

/// Pairs one turn's calls (id, name) with the results behind it.
fn pair(at: &str, calls: &[(&str, &str)], results: &[SeenResult], findings: &mut Findings) {
    if calls.iter().all(|(id, _)| id.is_empty()) && results.iter().all(|r| r.call_id.is_empty()) {
        return pair_in_order(at, calls, results, findings);
    }
    let before = findings.broken.len();
    for (id, name) in calls {
        match results.iter().filter(|result| result.call_id == *id).count() {
            0 => {
                let message = format!("call `{id}` of `{name}` has no result right after it");
                findings.add("call-without-result", at, message);
            }
            1 => {}
            n => {
                findings.add("duplicate-result", at, format!("call `{id}` has {n} results"));
            }
        }
    }
    for result in results {
        if !calls.iter().any(|(id, _)| *id == result.call_id) {
            let message = format!("unexpected result `{}`: no such call before", result.call_id);
            findings.add("result-without-call", at, message);
        }
    }
    let ordered = calls.iter().map(|call| call.0).eq(results.iter().map(|r| r.call_id.as_str()));
    if findings.broken.len() == before && !ordered {
        findings.add("result-order", at, "results must stand in the order of their calls");
    }
}

/// Where calls have no ids, order and names pair them.
fn pair_in_order(
    at: &str,
    calls: &[(&str, &str)],
    results: &[SeenResult],
    findings: &mut Findings,
) {
    for (_, name) in calls.iter().skip(results.len()) {
        let message =
            format!("the number of results must equal the number of calls: `{name}` has no result");
        findings.add("call-without-result", at, message);
    }
    for result in results.iter().skip(calls.len()) {
        let message = format!("unexpected result of `{}`: no such call before", result.name);
        findings.add("result-without-call", at, message);
    }
    for ((_, name), result) in calls.iter().zip(results) {
        if *name != result.name {
            let message = format!("`{name}` was called, the result is of `{}`", result.name);
            findings.add("result-order", at, message);
        }
    }
}

fn calls(seen: &Seen, findings: &mut Findings) {
    let mut known = std::collections::HashSet::new();
    for (index, turn) in seen.turns.iter().enumerate() {
        let Turn::Assistant(said) = turn else { continue };
        let at = place(index, turn);
        for part in said {
            let Said::Call { id, name, arguments, .. } = part else { continue };
            if id.is_empty() && seen.wire != Wire::Gemini {
                findings.add("call-id", &at, format!("a call of `{name}` has no id"));
            } else if id.len() > longest_id(seen.wire) {
                let message = format!("call id `{id}`: string too long");
                findings.add("call-id", &at, message);
            } else if !id.is_empty() && !known.insert(id.as_str()) {
                findings.add("duplicate-call-id", &at, format!("call id `{id}` is not unique"));
            }
            let legal = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
            if name.is_empty() {
                findings.add("call-name", &at, format!("call `{id}` names no tool"));
            } else if name.len() > 64 || !name.chars().all(legal) {
                findings.add("call-name", &at, format!("call `{id}` names `{name}`"));
            }
            if !matches!(serde_json::from_str(arguments), Ok(Value::Object(_))) {
                let message = format!("the arguments of call `{id}` are not a JSON object");
                findings.add("call-arguments", &at, message);
            }
        }
    }
}

fn longest_id(wire: Wire) -> usize {
    if wire == Wire::Chat { 40 } else { 64 }
}

fn signatures(seen: &Seen, at: &str, said: &[Said], findings: &mut Findings) {
    let spoken: String = said
        .iter()
        .filter_map(|part| match part {
            Said::Text { text, .. } => Some(text.as_str()),
            _ => None,
        })
        .collect();
    for part in said {
        let (content, signature) = match part {
            // A chat server signs nothing, and Gemini's visible thoughts prove nothing.
            Said::Thinking { .. } if matches!(seen.wire, Wire::Chat) => continue,
            Said::Thinking { signature: None, .. } if seen.wire == Wire::Gemini => continue,
            Said::Thinking { text, signature, redacted } => {
                if signature.as_deref().unwrap_or_default().is_empty() {
                    findings.add("unsigned-thinking", at, unsigned(seen.wire));
                    continue;
                }
                // The summary of a reasoning item may be left out, its encrypted content is all.
                let bare = seen.wire == Wire::Responses && text.is_empty();
                ((!bare).then(|| thinking_content(text, *redacted)), signature)
            }
            Said::Text { signature, .. } => (Some(text_content(&spoken)), signature),
            Said::Call { name, arguments, signature, .. } => {
                (Some(call_content(name, arguments)), signature)
            }
        };
        let Some(signature) = signature else { continue };
        if seen.wire == Wire::Gemini && signature == GEMINI_STAND_IN {
            continue;
        }
        match signature::verify(&scope(seen), content.as_deref(), signature) {
            Verified::Intact => {}
            Verified::Altered => findings.add("altered-thinking", at, refused(seen.wire)),
            Verified::Foreign => findings.add("foreign-signature", at, refused(seen.wire)),
        }
    }
}

fn unsigned(wire: Wire) -> &'static str {
    match wire {
        Wire::Anthropic => "thinking.signature: Field required",
        _ => "a reasoning item without `encrypted_content` cannot be found: nothing is stored",
    }
}

fn refused(wire: Wire) -> &'static str {
    match wire {
        Wire::Anthropic => "Invalid `signature` in `thinking` block",
        Wire::Gemini => "Thought signature is not valid",
        Wire::Responses | Wire::Chat => "The encrypted_content could not be verified",
    }
}

/// Responses refuses a reasoning item that nothing follows.
fn reasoning(wire: Wire, at: &str, said: &[Said], findings: &mut Findings) {
    if wire == Wire::Responses && matches!(said.last(), Some(Said::Thinking { .. })) {
        let message = "a `reasoning` item was provided without its required following item";
        findings.add("reasoning-alone", at, message);
    }
}
