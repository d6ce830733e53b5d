//! Content in blocks as Anthropic's API has them; several agents store that shape.
//!
//! Responsible for: taking such content apart into our blocks, calls and results. Must not: decide what
//! is a prompt.

use super::chain::Answer;
use super::emitter::{Emitter, Meta};
use segno_model::record::{AssistantBlock, Block, Text, ToolCall};
use serde::Deserialize;
use serde_json::value::RawValue;

/// A piece of a message.
#[derive(Debug)]
pub(super) enum Part {
    /// Text or an image on the person's side.
    Shown(Block),
    /// A tool's result.
    Result(Answer),
    /// A piece of the model's reply.
    Said(AssistantBlock),
    /// A kind that is not known.
    Unknown(Box<RawValue>),
}

#[derive(Deserialize)]
struct Row<'a> {
    #[serde(rename = "type")]
    kind: String,
    text: Option<String>,
    thinking: Option<String>,
    signature: Option<String>,
    data: Option<String>,
    id: Option<String>,
    name: Option<String>,
    #[serde(borrow)]
    input: Option<&'a RawValue>,
    tool_use_id: Option<String>,
    #[serde(borrow)]
    content: Option<&'a RawValue>,
    is_error: Option<bool>,
    source: Option<Source>,
}

#[derive(Deserialize)]
struct Source {
    media_type: Option<String>,
    data: Option<String>,
    url: Option<String>,
}

/// The pieces of a user's message; none if it has another shape.
pub(super) fn user_parts(content: &RawValue) -> Option<Vec<Part>> {
    parts(content, |text| Part::Shown(Block::text(text)))
}

/// What the model said in a reply, in order; none if it has another shape. A kind that is not known keeps its
/// place, and is kept under the name `kind`.
pub(super) fn reply(
    content: &RawValue,
    kind: &str,
    meta: &Meta,
    out: &mut Emitter<'_>,
) -> Option<Vec<AssistantBlock>> {
    let mut said = Vec::new();
    for part in parts(content, |text| Part::Said(AssistantBlock::text(text)))? {
        match part {
            Part::Said(block) => said.push(block),
            Part::Unknown(raw) => {
                said.push(AssistantBlock::Unknown);
                out.custom(kind, &raw, meta.clone());
            }
            Part::Shown(_) | Part::Result(_) => {}
        }
    }
    Some(said)
}

fn parts(content: &RawValue, text: impl Fn(String) -> Part) -> Option<Vec<Part>> {
    if content.get().starts_with('"') {
        return Some(vec![text(serde_json::from_str(content.get()).ok()?)]);
    }
    let blocks: Vec<&RawValue> = serde_json::from_str(content.get()).ok()?;
    Some(blocks.into_iter().map(|raw| part(raw, &text)).collect())
}

fn part(raw: &RawValue, text: &impl Fn(String) -> Part) -> Part {
    let unknown = || Part::Unknown(raw.to_owned());
    let Ok(row) = serde_json::from_str::<Row<'_>>(raw.get()) else { return unknown() };
    match row.kind.as_str() {
        "text" => row.text.map_or_else(unknown, text),
        "image" => row.source.and_then(image).map_or_else(unknown, Part::Shown),
        "thinking" => Part::Said(AssistantBlock::Thinking {
            text: row.thinking.unwrap_or_default(),
            signature: row.signature.filter(|signature| !signature.is_empty()),
            redacted: false,
        }),
        "redacted_thinking" => Part::Said(AssistantBlock::Thinking {
            text: String::new(),
            signature: row.data,
            redacted: true,
        }),
        "tool_use" => Part::Said(AssistantBlock::ToolCall(ToolCall {
            id: row.id.unwrap_or_default(),
            name: row.name.unwrap_or_default(),
            arguments: row.input.map_or_else(|| "{}".to_owned(), |input| input.get().to_owned()),
        })),
        "tool_result" => {
            let content = row.content.map(shown).unwrap_or_default();
            let failed = row.is_error.unwrap_or(false);
            Part::Result(Answer::ended(row.tool_use_id.unwrap_or_default(), content, failed))
        }
        _ => unknown(),
    }
}

/// What a result shows.
pub(super) fn shown(content: &RawValue) -> Vec<Block> {
    let parts = user_parts(content).unwrap_or_default();
    let block = |part| match part {
        Part::Shown(block) => block,
        Part::Unknown(raw) => Block::text(raw.get()),
        Part::Said(_) | Part::Result(_) => Block::Unknown,
    };
    parts.into_iter().map(block).collect()
}

fn image(source: Source) -> Option<Block> {
    let media_type = source.media_type.unwrap_or_else(|| "image/*".to_owned());
    if let Some(data) = source.data {
        return Some(Block::Image { media_type, data: Text::Inline(data) });
    }
    source.url.map(Block::text)
}
