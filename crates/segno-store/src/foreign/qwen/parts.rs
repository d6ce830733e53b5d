//! Contents as Google's API has them, in the dialect that Qwen Code stores.
//!
//! Responsible for: taking them apart. Must not: know where they stand.

use crate::foreign::chain::Answer;
use crate::foreign::emitter::{Emitter, Meta};
use crate::foreign::mend::Mended;
use segno_model::record::{AssistantBlock, Block, Text, ToolCall, Usage};
use serde::Deserialize;
use serde_json::value::RawValue;

/// A message.
#[derive(Deserialize)]
pub(super) struct Content<'a> {
    pub(super) role: Option<String>,
    #[serde(borrow, default)]
    parts: Vec<&'a RawValue>,
}

/// A piece of a message.
pub(super) enum Part {
    Text(String),
    Image(Block),
    Said(AssistantBlock),
    Result(Answer),
    Unknown(Box<RawValue>),
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Row<'a> {
    text: Option<String>,
    #[serde(default)]
    thought: bool,
    thought_signature: Option<String>,
    #[serde(borrow)]
    function_call: Option<Call<'a>>,
    #[serde(borrow)]
    function_response: Option<Response<'a>>,
    inline_data: Option<Data>,
}

#[derive(Deserialize)]
struct Call<'a> {
    id: Option<String>,
    name: Option<String>,
    #[serde(borrow)]
    args: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Response<'a> {
    id: Option<String>,
    name: Option<String>,
    #[serde(borrow)]
    response: Option<&'a RawValue>,
    #[serde(borrow, default)]
    parts: Vec<&'a RawValue>,
}

#[derive(Deserialize)]
struct Output {
    output: Option<String>,
    error: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Data {
    mime_type: String,
    data: String,
}

/// Tokens as Google's API counts them.
#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Tokens {
    prompt_token_count: u64,
    candidates_token_count: u64,
    thoughts_token_count: u64,
    cached_content_token_count: u64,
    total_token_count: u64,
}

/// Some providers count thoughts among the candidates, and some do not: the total tells.
pub(super) fn usage(tokens: &Tokens) -> Usage {
    let said = tokens.prompt_token_count.saturating_add(tokens.candidates_token_count);
    let apart = tokens.total_token_count > said;
    let thoughts = if apart { tokens.thoughts_token_count } else { 0 };
    Usage {
        input: tokens.prompt_token_count.saturating_sub(tokens.cached_content_token_count),
        output: tokens.candidates_token_count.saturating_add(thoughts),
        cache_read: tokens.cached_content_token_count,
        cache_write: 0,
        reasoning: Some(tokens.thoughts_token_count).filter(|&thoughts| thoughts > 0),
    }
}

/// The pieces of a message.
pub(super) fn parts(content: Content<'_>, meta: &Meta, out: &mut Emitter<'_>) -> Vec<Part> {
    content.parts.into_iter().map(|raw| part(raw, meta, out)).collect()
}

/// The same, each with its JSON.
pub(super) fn pieces<'a>(
    content: Content<'a>,
    meta: &Meta,
    out: &mut Emitter<'_>,
) -> Vec<(Part, &'a RawValue)> {
    content.parts.into_iter().map(|raw| (part(raw, meta, out), raw)).collect()
}

fn part(raw: &RawValue, meta: &Meta, out: &mut Emitter<'_>) -> Part {
    let unknown = || Part::Unknown(raw.to_owned());
    let mended = Mended::default();
    let Some(row) = mended.parse::<Row<'_>>(raw.get()) else { return unknown() };
    mended.tell("qwen.part", raw.get(), meta, out);
    if let Some(call) = row.function_call {
        return Part::Said(AssistantBlock::ToolCall(ToolCall {
            id: call.id.unwrap_or_default(),
            name: call.name.unwrap_or_default(),
            arguments: call.args.map_or("{}", RawValue::get).to_owned(),
        }));
    }
    if let Some(response) = row.function_response {
        return Part::Result(answer(response, meta, out));
    }
    match (row.text, row.inline_data) {
        (Some(text), _) if row.thought => Part::Said(AssistantBlock::Thinking {
            text,
            signature: row.thought_signature,
            redacted: false,
        }),
        (Some(text), _) => Part::Text(text),
        (None, Some(data)) => {
            Part::Image(Block::Image { media_type: data.mime_type, data: Text::Inline(data.data) })
        }
        (None, None) => unknown(),
    }
}

fn answer(response: Response<'_>, meta: &Meta, out: &mut Emitter<'_>) -> Answer {
    let raw = response.response.map_or("{}", RawValue::get);
    let (text, failed) = match serde_json::from_str::<Output>(raw) {
        Ok(Output { error: Some(error), .. }) => (error, true),
        Ok(Output { output: Some(output), .. }) => (output, false),
        _ => (raw.to_owned(), false),
    };
    let mut content = vec![Block::text(text)];
    let more = response.parts.into_iter().map(|raw| part(raw, meta, out));
    content.extend(more.filter_map(|part| match part {
        Part::Image(block) => Some(block),
        Part::Text(text) => Some(Block::text(text)),
        _ => None,
    }));
    let id = response.id.unwrap_or_default();
    Answer { name: response.name, ..Answer::ended(id, content, failed) }
}
