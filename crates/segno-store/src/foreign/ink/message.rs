//! Ink's messages.
//!
//! Responsible for: turning one into our records. Must not: know where it stands in the tree.

use crate::foreign::blocks::shown;
use crate::foreign::chain::{Answer, Chain};
use crate::foreign::emitter::{Emitter, Meta};
use crate::foreign::mend::Mended;
use segno_model::record::{
    self, AssistantBlock, AssistantMessage, Block, Child, ChildState, ModelRef, StopReason,
    ToolCall,
};
use segno_model::{Body, Seq};
use serde::Deserialize;
use serde_json::value::RawValue;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Row<'a> {
    role: String,
    #[serde(borrow)]
    content: Option<&'a RawValue>,
    #[serde(borrow)]
    results: Option<Vec<ResultRow<'a>>>,
    provider: Option<String>,
    #[serde(borrow)]
    model: Option<&'a RawValue>,
    usage: Option<Usage>,
    stop_reason: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ResultRow<'a> {
    tool_call_id: Option<String>,
    tool_name: Option<String>,
    #[serde(borrow)]
    content: Option<&'a RawValue>,
    #[serde(default)]
    is_error: bool,
    #[serde(borrow)]
    task_record: Option<&'a RawValue>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Piece<'a> {
    #[serde(rename = "type")]
    kind: String,
    text: Option<String>,
    thinking: Option<String>,
    signature: Option<String>,
    id: Option<String>,
    name: Option<String>,
    #[serde(borrow, alias = "input")]
    arguments: Option<&'a RawValue>,
}

/// Tokens as Ink counts them.
#[derive(Deserialize, Clone, Copy, Default)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Usage {
    input: u64,
    output: u64,
    cache_read: u64,
    cache_write: u64,
}

impl From<Usage> for record::Usage {
    fn from(usage: Usage) -> Self {
        let Usage { input, output, cache_read, cache_write } = usage;
        Self { input, output, cache_read, cache_write, reasoning: None }
    }
}

/// A model with its provider.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Model {
    #[serde(alias = "providerName", default)]
    provider: String,
    #[serde(alias = "wireModelId", alias = "id", default)]
    model_id: String,
}

impl From<Model> for ModelRef {
    fn from(model: Model) -> Self {
        Self { provider: model.provider, id: model.model_id }
    }
}

/// Hands on a message: its first record and how many there are, one after the other; none if its shape is
/// not known.
pub(super) fn emit(
    raw: &RawValue,
    meta: &Meta,
    chain: &mut Chain,
    out: &mut Emitter<'_>,
) -> Option<(Seq, u32)> {
    let mended = Mended::default();
    let row: Row<'_> = mended.parse(raw.get())?;
    mended.tell("ink.message", raw.get(), meta, out);
    let first = match (row.role.as_str(), &row.results) {
        ("assistant", _) => reply(row, meta, chain, out)?,
        (_, Some(_)) => return results(row.results.unwrap_or_default(), meta, chain, out),
        ("toolResult" | "tool", None) => {
            let mended = Mended::default();
            let result = mended.parse(raw.get())?;
            mended.tell("ink.message", raw.get(), meta, out);
            return results(vec![result], meta, chain, out);
        }
        ("user", None) => chain.user(shown(row.content?), None, meta.clone(), out),
        _ => return None,
    };
    Some((first, 1))
}

fn reply(row: Row<'_>, meta: &Meta, chain: &mut Chain, out: &mut Emitter<'_>) -> Option<Seq> {
    let raw = row.content?;
    let content = if raw.get().starts_with('"') {
        vec![AssistantBlock::Text { text: serde_json::from_str(raw.get()).ok()? }]
    } else {
        let pieces: Vec<&RawValue> = serde_json::from_str(raw.get()).ok()?;
        pieces.into_iter().map(|raw| block(raw, meta, out)).collect()
    };
    let mut reply = AssistantMessage::new(&model(row.provider, row.model), content);
    reply.usage = row.usage.map(Into::into);
    reply.stop = stop(row.stop_reason.as_deref(), reply.stop);
    Some(chain.reply(reply, meta.clone(), out))
}

/// A piece of a reply; one that is not known, or not all of it, is kept as it is.
fn block(raw: &RawValue, meta: &Meta, out: &mut Emitter<'_>) -> AssistantBlock {
    let mended = Mended::default();
    let Some(block) = mended.parse(raw.get()).and_then(known) else {
        out.custom("ink.block", raw, meta.clone());
        return AssistantBlock::Unknown;
    };
    mended.tell("ink.block", raw.get(), meta, out);
    block
}

fn known(piece: Piece<'_>) -> Option<AssistantBlock> {
    match piece.kind.as_str() {
        "text" => piece.text.map(AssistantBlock::text),
        "thinking" => Some(AssistantBlock::Thinking {
            text: piece.thinking.or(piece.text).unwrap_or_default(),
            signature: piece.signature,
            redacted: false,
        }),
        "toolCall" | "tool_call" | "tool_use" => Some(AssistantBlock::ToolCall(ToolCall {
            id: piece.id.unwrap_or_default(),
            name: piece.name.unwrap_or_default(),
            arguments: piece.arguments.map_or("{}", RawValue::get).to_owned(),
        })),
        _ => None,
    }
}

fn model(provider: Option<String>, model: Option<&RawValue>) -> ModelRef {
    let id = model.and_then(|raw| serde_json::from_str::<String>(raw.get()).ok());
    match (id, model) {
        (Some(id), _) => ModelRef { provider: provider.unwrap_or_default(), id },
        (None, Some(raw)) => {
            serde_json::from_str::<Model>(raw.get()).map(Into::into).unwrap_or_default()
        }
        (None, None) => ModelRef { provider: provider.unwrap_or_default(), id: String::new() },
    }
}

fn stop(reason: Option<&str>, otherwise: StopReason) -> StopReason {
    match reason {
        None => otherwise,
        Some("stop" | "end" | "end_turn" | "endTurn") => StopReason::End,
        Some("toolUse" | "tool_use" | "toolCalls") => StopReason::ToolUse,
        Some("length" | "max_tokens" | "maxTokens") => StopReason::Length,
        Some("aborted") => StopReason::Stopped,
        Some("error") => StopReason::Broken,
        Some("refusal") => StopReason::Refusal,
        Some(_) => StopReason::Other,
    }
}

fn results(
    rows: Vec<ResultRow<'_>>,
    meta: &Meta,
    chain: &mut Chain,
    out: &mut Emitter<'_>,
) -> Option<(Seq, u32)> {
    for row in &rows {
        if let Some(raw) = row.task_record {
            task_record(raw, row.tool_call_id.as_deref().unwrap_or_default(), meta, out);
        }
    }
    let first = out.next_seq();
    for row in rows {
        let content: Vec<Block> = row.content.map(shown).unwrap_or_default();
        let id = row.tool_call_id.unwrap_or_default();
        let answer = Answer { name: row.tool_name, ..Answer::ended(id, content, row.is_error) };
        chain.result(answer, meta.clone(), out);
    }
    let count = u32::try_from(out.next_seq() - first).unwrap_or(u32::MAX);
    (count > 0).then_some((first, count))
}

/// What became of a subagent: for programs, never sent to the model.
fn task_record(raw: &RawValue, call: &str, meta: &Meta, out: &mut Emitter<'_>) {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Row {
        child_id: Option<String>,
        status: Option<String>,
    }
    out.custom("ink.task_record", raw, meta.clone());
    if let Ok(Row { child_id: Some(child), status }) = serde_json::from_str(raw.get()) {
        let child = Child { detail: status, ..Child::new(child, call, ChildState::Ended) };
        out.record(Body::Child(child), meta.clone());
    }
}
