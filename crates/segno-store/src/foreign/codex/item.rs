//! Items as they went to the provider and came from it, in our terms.
//!
//! Responsible for: what one item says, and by which of them the agent itself spoke. Must not: know what
//! stands around an item.

use super::super::calls::UNKNOWN_OUTCOME;
use super::rows::{Item, Part, Tags, object, owned, pieces, text};
use segno_model::record::{
    AssistantBlock, Block, Established, Message, Outcome, Text, ToolMessage, UserMessage,
};
use serde::de::IgnoredAny;
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::hash::{DefaultHasher, Hash, Hasher};

/// What an item is.
pub(super) enum Said {
    /// Words on the user's side.
    User(UserMessage),
    /// A piece of a reply.
    Reply(ReplyPiece),
    /// A result; its call's record and name are not known yet.
    Result(ToolMessage),
    /// The provider's own compacted state.
    Compacted,
    /// Nothing that has a counterpart.
    Other,
}

/// A piece of a reply.
pub(super) struct ReplyPiece {
    pub(super) block: Vec<AssistantBlock>,
    /// Whether it is words, not thinking and not a call.
    pub(super) is_message: bool,
    /// Whether the item can be sent back as it stands.
    pub(super) replay: Replay,
}

/// What becomes of an item when a reply is sent back in the provider's own words.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Replay {
    /// It is sent as it stands.
    Verbatim,
    /// It is left out.
    LeftOut,
    /// It is not what the provider sent, so that nothing of the reply is.
    Never,
}

/// What an item says, and whether our terms hold all of it.
pub(super) fn said(item: &Item<'_>) -> (Said, bool) {
    let kind = text(item.kind).unwrap_or_default();
    let (said, whole) = match (&*kind, text(item.role).as_deref()) {
        ("message", Some("assistant")) => words(item),
        ("message", _) | ("agent_message", None) => user(item),
        ("reasoning", _) => (thinking(item), true),
        ("function_call", _) => (call(item, text(item.name).as_deref(), &arguments(item)), true),
        ("custom_tool_call", _) => (call(item, text(item.name).as_deref(), &input(item)), true),
        ("local_shell_call", _) => {
            let action = item.action.map_or("{}", RawValue::get);
            (call(item, Some("local_shell"), action), true)
        }
        // Run by the provider itself: there is no result.
        ("web_search_call" | "image_generation_call", _) => {
            (piece(item, vec![AssistantBlock::Unknown], Replay::Verbatim), true)
        }
        ("function_call_output" | "custom_tool_call_output" | "mcp_tool_call_output", _) => {
            result(item)
        }
        ("compaction" | "compaction_summary" | "context_compaction", _) => (Said::Compacted, true),
        _ => (Said::Other, false),
    };
    (said, whole && !item.unknown)
}

fn piece(item: &Item<'_>, block: Vec<AssistantBlock>, replay: Replay) -> Said {
    // Codex's own notes inside of an item are none of the provider's.
    let replay = if item.tags.is_some() { Replay::Never } else { replay };
    Said::Reply(ReplyPiece { block, is_message: false, replay })
}

fn words(item: &Item<'_>) -> (Said, bool) {
    let mut whole = true;
    let mut block = Vec::new();
    for part in parts(item.content) {
        let said = part.and_then(|part| owned(part.text).filter(|_| !part.unknown));
        whole &= said.is_some();
        block.push(said.map_or(AssistantBlock::Unknown, |text| AssistantBlock::Text { text }));
    }
    if let Some(text) = owned(item.content) {
        block.push(AssistantBlock::Text { text });
    }
    let blank = |b: &AssistantBlock| matches!(b, AssistantBlock::Text { text } if text.is_empty());
    let refused = block.is_empty() || block.iter().any(blank);
    let replay = if refused || item.tags.is_some() { Replay::Never } else { Replay::Verbatim };
    (Said::Reply(ReplyPiece { block, is_message: true, replay }), whole)
}

fn thinking(item: &Item<'_>) -> Said {
    let texts = |raw| {
        let texts = parts(raw).into_iter().flatten().filter_map(|part| owned(part.text));
        texts.collect::<Vec<_>>().join("\n\n")
    };
    let summary = texts(item.summary);
    let text = if summary.is_empty() { texts(item.content) } else { summary };
    let signature = owned(item.encrypted).filter(|encrypted| !encrypted.is_empty());
    let redacted = text.is_empty() && signature.is_some();
    let replay = if signature.is_some() { Replay::Verbatim } else { Replay::LeftOut };
    piece(item, vec![AssistantBlock::Thinking { text, signature, redacted }], replay)
}

fn call(item: &Item<'_>, name: Option<&str>, arguments: &str) -> Said {
    let id = owned(item.call_id).or_else(|| owned(item.id)).unwrap_or_default();
    let is_json = serde_json::from_str::<IgnoredAny>(arguments).is_ok();
    let replay = if is_json && !id.is_empty() { Replay::Verbatim } else { Replay::Never };
    piece(item, vec![AssistantBlock::call(&id, name.unwrap_or_default(), arguments)], replay)
}

fn arguments(item: &Item<'_>) -> String {
    let json = || item.arguments.map_or_else(String::new, |raw| raw.get().to_owned());
    owned(item.arguments).unwrap_or_else(json)
}

/// A custom tool takes text, not JSON.
fn input(item: &Item<'_>) -> String {
    format!("{{\"input\":{}}}", item.input.map_or("\"\"", RawValue::get))
}

fn user(item: &Item<'_>) -> (Said, bool) {
    let (content, whole) = blocks(item.content);
    let notice = notice(item, &content);
    (Said::User(UserMessage { content, notice, ..UserMessage::default() }), whole)
}

/// The pieces of an array of content; none for one that is no object.
fn parts(raw: Option<&RawValue>) -> Vec<Option<Part<'_>>> {
    pieces(raw).into_iter().map(|part| object(Some(part))).collect()
}

/// Content in our terms, and whether that is all of it.
pub(super) fn blocks(raw: Option<&RawValue>) -> (Vec<Block>, bool) {
    if let Some(text) = owned(raw) {
        return (vec![Block::text(text)], true);
    }
    let mut whole = true;
    let blocks = parts(raw).into_iter().map(|part| {
        let known = part.and_then(|part| block(&part));
        whole &= known.is_some() && part.is_some_and(|part| !part.unknown);
        known.unwrap_or(Block::Unknown)
    });
    let blocks = blocks.collect();
    (blocks, whole)
}

fn block(part: &Part<'_>) -> Option<Block> {
    if let Some(text) = owned(part.text) {
        return Some(Block::text(text));
    }
    let url = text(part.image)?;
    let (media_type, data) = url.strip_prefix("data:")?.split_once(";base64,")?;
    Some(Block::Image { media_type: media_type.to_owned(), data: Text::Inline(data.to_owned()) })
}

/// How texts begin that Codex puts on the user's side by itself, and what they are.
const NOTICES: &[(&str, &str)] = &[
    ("<environment_context>", "environment"),
    ("<user_instructions>", "instructions"),
    ("# AGENTS.md instructions", "instructions"),
    ("<INSTRUCTIONS>", "instructions"),
    ("<permissions instructions>", "permissions"),
    ("<collaboration_mode>", "mode"),
    ("<model_switch>", "model"),
    ("<skill>", "skill"),
    ("<skills_instructions>", "skills"),
    ("<user_shell_command>", "shell"),
    ("<user_action>", "review"),
    ("<turn_aborted>", "interrupted"),
    ("<subagent_notification>", "subagent"),
    ("<goal_context>", "goal"),
    (SUMMARY.marker, "compaction"),
];

/// The message that holds a summary.
pub(crate) struct SummaryMessage {
    /// How it begins.
    pub(crate) marker: &'static str,
    /// What stands before a summary that Codex did not make; it is no part of it.
    pub(crate) before: &'static str,
}

/// The message that holds a summary.
pub(crate) const SUMMARY: SummaryMessage = SummaryMessage {
    marker: "Another language model started to solve this problem",
    before: "Another language model started to solve this problem. What follows is a summary of \
        its work up to here: history, not a request.\n\n",
};

/// Whether only its words tell that a message on the user's side is no prompt: a person may write the same.
pub(super) fn is_guess(item: &Item<'_>, user: &UserMessage) -> bool {
    user.notice.is_some()
        && text(item.role).as_deref() == Some("user")
        && kinds(item).first().is_none_or(|kind| kind == "unknown")
}

/// What Codex notes of a message's pieces.
fn kinds<'a>(item: &Item<'a>) -> Vec<Cow<'a, str>> {
    let tags: Option<Tags<'_>> = object(item.tags);
    let kinds = pieces(tags.and_then(|tags| tags.kinds)).into_iter();
    kinds.filter_map(|kind| text(Some(kind))).collect()
}

/// Why a message on the user's side is no prompt; none for a prompt.
fn notice(item: &Item<'_>, content: &[Block]) -> Option<String> {
    match text(item.role).as_deref() {
        Some("user") => {}
        Some(role) => return Some(role.to_owned()),
        None => return Some("agent".to_owned()),
    }
    let kinds = kinds(item);
    if kinds.iter().any(|kind| kind.starts_with("user.")) {
        return None;
    }
    if let Some(kind) = kinds.first().filter(|kind| **kind != "unknown") {
        return Some(reason(kind).to_owned());
    }
    let mut reasons = content.iter().map(|block| match block {
        Block::Text { text } => by_text(text.head()),
        _ => None,
    });
    let first = reasons.next()??;
    reasons.all(|reason| reason.is_some()).then(|| first.to_owned())
}

fn reason(kind: &str) -> &str {
    match kind {
        "environments.environment_context" => "environment",
        "generic.turn_aborted" => "interrupted",
        "compaction.summary" => "compaction",
        other => other,
    }
}

fn by_text(text: &str) -> Option<&'static str> {
    let text = text.trim_start_matches('\u{feff}').trim_start();
    NOTICES.iter().find(|(start, _)| text.starts_with(start)).map(|(_, reason)| *reason)
}

fn result(item: &Item<'_>) -> (Said, bool) {
    /// The oldest form of an output.
    #[derive(serde::Deserialize)]
    struct Old<'a> {
        #[serde(borrow)]
        content: Option<&'a RawValue>,
        success: Option<bool>,
    }
    let old: Option<Old<'_>> =
        item.output.filter(|raw| raw.get().starts_with('{')).and_then(|raw| object(Some(raw)));
    let output = old.as_ref().map_or(item.output, |old| old.content);
    let (content, whole) = blocks(output);
    let (mut outcome, mut established) = match content.first() {
        Some(Block::Text { text }) => outcome(text.head()),
        _ => (Outcome::Done, Established::Origin),
    };
    if old.and_then(|old| old.success) == Some(false) && outcome == Outcome::Done {
        (outcome, established) = (Outcome::Failed, Established::Observed);
    }
    let message = ToolMessage {
        call_id: owned(item.call_id).unwrap_or_default(),
        call_seq: None,
        name: String::new(),
        content,
        whole: None,
        is_error: matches!(outcome, Outcome::Failed | Outcome::Stopped),
        outcome,
        established,
        background: None,
    };
    (Said::Result(message), whole)
}

/// What an output says about the effect. Codex writes the exit code into the text, and "aborted" for
/// what it lost sight of: that is no knowledge.
fn outcome(output: &str) -> (Outcome, Established) {
    if output.trim() == "aborted" {
        return (Outcome::Unknown, Established::Origin);
    }
    if output == UNKNOWN_OUTCOME {
        return (Outcome::Unknown, Established::Recovery);
    }
    let code = if output.starts_with('{') { code_in_json(output) } else { code_in_head(output) };
    match code {
        Some(Ended::Code(0)) => (Outcome::Done, Established::Observed),
        Some(Ended::Code(_)) => (Outcome::Failed, Established::Observed),
        Some(Ended::Stopped) => (Outcome::Stopped, Established::Stop),
        None => (Outcome::Done, Established::Origin),
    }
}

enum Ended {
    Code(i64),
    Stopped,
}

fn code_in_head(output: &str) -> Option<Ended> {
    for line in output.lines().take(8).take_while(|line| *line != "Output:") {
        let code = line.strip_prefix("Process exited with code ");
        if let Some(code) = code.or_else(|| line.strip_prefix("Exit code: ")) {
            return code.trim().parse().ok().map(Ended::Code);
        }
        if line.starts_with("aborted by user") {
            return Some(Ended::Stopped);
        }
    }
    None
}

fn code_in_json(output: &str) -> Option<Ended> {
    #[derive(serde::Deserialize)]
    struct Output {
        metadata: Metadata,
    }
    #[derive(serde::Deserialize)]
    struct Metadata {
        exit_code: i64,
    }
    let output: Output = serde_json::from_str(output).ok()?;
    Some(Ended::Code(output.metadata.exit_code))
}

/// What a message holds, as one number: the same for copies of it.
pub(super) fn fingerprint(message: &Message) -> u64 {
    let mut hasher = DefaultHasher::new();
    match message {
        Message::User(user) => {
            1_u8.hash(&mut hasher);
            user.content.iter().for_each(|block| hash_block(block, &mut hasher));
        }
        Message::Assistant(reply) => {
            2_u8.hash(&mut hasher);
            reply.content.iter().for_each(|block| hash_reply(block, &mut hasher));
        }
        Message::Tool(result) => {
            3_u8.hash(&mut hasher);
            result.call_id.hash(&mut hasher);
            result.content.iter().for_each(|block| hash_output(block, &mut hasher));
        }
    }
    hasher.finish()
}

fn hash_block(block: &Block, hasher: &mut DefaultHasher) {
    match block {
        Block::Text { text } | Block::Image { data: text, .. } => text.head().hash(hasher),
        Block::Unknown => 4_u8.hash(hasher),
    }
}

/// An output is known by its call; what may have been cut off is the end.
fn hash_output(block: &Block, hasher: &mut DefaultHasher) {
    if let Block::Text { text } = block {
        let bytes = text.head().as_bytes();
        (bytes.len(), &bytes[..bytes.len().min(256)]).hash(hasher);
    } else {
        hash_block(block, hasher);
    }
}

fn hash_reply(block: &AssistantBlock, hasher: &mut DefaultHasher) {
    match block {
        AssistantBlock::Text { text } => text.hash(hasher),
        AssistantBlock::Thinking { text, signature, .. } => (text, signature).hash(hasher),
        AssistantBlock::ToolCall(call) => (&call.id, &call.name, &call.arguments).hash(hasher),
        AssistantBlock::Unknown => 4_u8.hash(hasher),
    }
}
