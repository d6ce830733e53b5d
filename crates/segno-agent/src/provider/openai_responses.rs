//! OpenAI's Responses wire.
//!
//! Responsible for: the request of `/v1/responses` and the decoding of its stream. Must not: do I/O.
//!
//! Nothing is kept at the provider (`store: false`), so reasoning comes back encrypted and is sent
//! again as it came. The cache follows the prefix by itself; `prompt_cache_key` keeps a session's
//! requests together.

use super::anthropic::shown;
use super::content::{Piece, has_text, pieces};
use super::error::{broken, stream_error, stream_error_object};
use super::json::{Object, sendable_arguments, to_raw};
use super::sendable::{Declared, declared};
use super::sse::Event;
use super::wire::{HttpRequest, Settings};
use segno_model::context::{ContextAssistant, ContextMessage, ContextResult, ContextState};
use segno_model::record::{
    AssistantBlock, AssistantMessage, ModelRef, Native, StopReason, ToolCall, Usage,
};
use segno_runtime::{ModelError, ModelRequest, OwnCompaction, StreamEvent};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Value, json};
use std::borrow::Cow;

/// The name of this wire in [`Native`].
pub(super) const DIALECT: &str = "openai";

#[derive(Serialize)]
struct Body<'a> {
    model: &'a str,
    stream: bool,
    store: bool,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    include: Vec<&'static str>,
    prompt_cache_key: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_output_tokens: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning: Option<Value>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_choice: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    instructions: Option<&'a str>,
    input: Vec<Cow<'a, RawValue>>,
}

/// The request for one call.
pub(super) fn request(request: &ModelRequest<'_>, settings: &Settings) -> HttpRequest {
    let model = &request.model.id;
    let Declared { tools: specs, callable } = declared(request);
    let tools: Vec<Value> = specs
        .iter()
        .map(|t| {
            json!({
                "type": "function", "name": t.name, "description": t.description,
                "parameters": t.parameters, "strict": false,
            })
        })
        .collect();
    let include = if super::thinking::openai_reasons(model) {
        vec!["reasoning.encrypted_content"]
    } else {
        Vec::new()
    };
    let body = Body {
        model,
        stream: true,
        store: false,
        include,
        prompt_cache_key: request.session.as_str(),
        max_output_tokens: settings.max_output,
        reasoning: super::thinking::openai(model, request.thinking)
            .map(|effort| json!({"effort": effort, "summary": "auto"})),
        tool_choice: (!callable && !tools.is_empty()).then_some("none"),
        tools,
        instructions: Some(request.system).filter(|s| has_text(s)),
        input: input(request.messages),
    };
    HttpRequest::new("/v1/responses", Vec::new(), &body)
}

fn input(history: &[ContextMessage]) -> Vec<Cow<'_, RawValue>> {
    let mut items = Vec::new();
    for message in history {
        match message {
            ContextMessage::User { content, .. } => {
                let pieces = pieces(content);
                let content: Vec<Value> = pieces.iter().map(part).collect();
                items.push(made(&json!({"type": "message", "role": "user", "content": content})));
            }
            ContextMessage::Results(results) => items.extend(results.iter().map(result)),
            ContextMessage::Assistant(turn) => items.extend(assistant(turn)),
            ContextMessage::State(own) => items.extend(state(own)),
        }
    }
    items
}

/// A state's items, as they came.
pub(super) fn state(state: &ContextState) -> Vec<Cow<'_, RawValue>> {
    let items: Vec<&RawValue> = serde_json::from_str(state.native.items.get()).unwrap_or_default();
    items.into_iter().map(Cow::Borrowed).collect()
}

#[derive(Serialize)]
struct Compaction<'a> {
    model: &'a str,
    prompt_cache_key: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    instructions: Option<&'a str>,
    input: Vec<Cow<'a, RawValue>>,
}

/// The request for a state of the history: `POST /v1/responses/compact`
/// (<https://developers.openai.com/api/docs/guides/compaction>). It has no tools and is not streamed.
pub(super) fn compaction_request(request: &ModelRequest<'_>) -> HttpRequest {
    let body = Compaction {
        model: &request.model.id,
        prompt_cache_key: request.session.as_str(),
        instructions: Some(request.system).filter(|s| has_text(s)),
        input: input(request.messages),
    };
    HttpRequest::new("/v1/responses/compact", Vec::new(), &body)
}

/// The state in an answer to that request: all its items, which are to be sent back as they are. The person's
/// messages are among them; one stands for everything else.
pub(super) fn compacted(body: &str) -> Result<OwnCompaction, ModelError> {
    let answer = Object::parse(body).ok_or_else(|| broken("the state is not JSON"))?;
    let items: Vec<Box<RawValue>> = answer.get("output").unwrap_or_default();
    let is_state = |item: &RawValue| {
        Object::parse(item.get()).is_some_and(|item| {
            matches!(item.text("type").as_str(), "compaction" | "compaction_summary")
                && !item.text("encrypted_content").is_empty()
        })
    };
    let is_strict = serde_json::from_str::<Value>(body).is_ok();
    if items.iter().filter(|item| is_state(item.as_ref())).count() != 1 || !is_strict {
        return Err(broken("the answer holds no state, or several"));
    }
    Ok(OwnCompaction {
        native: Native { dialect: DIALECT.to_owned(), items: to_raw(&items) },
        usage: answer.get::<WireUsage>("usage").map(WireUsage::normalised),
    })
}

fn made<'a>(value: &Value) -> Cow<'a, RawValue> {
    Cow::Owned(to_raw(value))
}

fn part(piece: &Piece<'_>) -> Value {
    match piece {
        Piece::Text(text) => json!({"type": "input_text", "text": text}),
        Piece::Image { media_type, data } => json!({
            "type": "input_image", "image_url": format!("data:{media_type};base64,{data}"),
        }),
    }
}

fn result<'a>(result: &ContextResult) -> Cow<'a, RawValue> {
    let pieces = pieces(&result.content);
    let output = match pieces.as_slice() {
        [Piece::Text(text)] => json!(text),
        _ => Value::Array(pieces.iter().map(part).collect()),
    };
    made(&json!({
        "type": "function_call_output", "call_id": result.call_id, "output": output,
    }))
}

/// A turn's items. Reasoning is refused unless what it led to follows.
pub(super) fn assistant(turn: &ContextAssistant) -> Vec<Cow<'_, RawValue>> {
    let mut items: Vec<Cow<'_, RawValue>> = match native_items(turn) {
        Some(native) => native.into_iter().map(Cow::Borrowed).collect(),
        None => turn.content.iter().filter_map(rebuilt).collect(),
    };
    while items.last().is_some_and(|item| is_reasoning(item)) {
        items.pop();
    }
    items
}

fn is_reasoning(item: &RawValue) -> bool {
    Object::parse(item.get()).is_some_and(|item| item.text("type") == "reasoning")
}

fn native_items(turn: &ContextAssistant) -> Option<Vec<&RawValue>> {
    let native = turn.native.as_ref().filter(|n| n.dialect == DIALECT)?;
    serde_json::from_str(native.items.get()).ok()
}

fn rebuilt<'a>(block: &AssistantBlock) -> Option<Cow<'a, RawValue>> {
    match block {
        AssistantBlock::Text { text } if has_text(text) => Some(made(&json!({
            "type": "message", "role": "assistant",
            "content": [{"type": "output_text", "text": text}],
        }))),
        AssistantBlock::Thinking { signature: Some(encrypted), .. } => Some(made(&json!({
            "type": "reasoning", "summary": [], "encrypted_content": encrypted,
        }))),
        AssistantBlock::ToolCall(call) => Some(made(&json!({
            "type": "function_call", "call_id": call.id, "name": call.name,
            "arguments": sendable_arguments(&call.arguments),
        }))),
        _ => None,
    }
}

/// A reply as it streams.
#[derive(Debug)]
pub(super) struct Reply {
    model: ModelRef,
    /// Finished items by their place in the output, each with its own text.
    items: Vec<(u64, Box<RawValue>)>,
    /// The place of the newest call; shown arguments belong to it.
    newest_call: Option<u64>,
    /// The terminal event's type and response.
    end: Option<(String, Object)>,
}

impl Reply {
    pub(super) fn new(request: &ModelRequest<'_>) -> Self {
        Self { model: request.model.clone(), items: Vec::new(), newest_call: None, end: None }
    }

    pub(super) fn is_done(&self) -> bool {
        self.end.is_some()
    }

    pub(super) fn feed(&mut self, event: &Event) -> Result<Vec<StreamEvent>, ModelError> {
        if event.data.trim() == "[DONE]" {
            return Ok(Vec::new());
        }
        let data = Object::parse(&event.data).ok_or_else(|| broken("an event is not JSON"))?;
        let delta = || data.text("delta");
        Ok(match data.text("type").as_str() {
            "response.output_text.delta" | "response.refusal.delta" => {
                shown(StreamEvent::Text, delta())
            }
            "response.reasoning_summary_text.delta" | "response.reasoning_text.delta" => {
                shown(StreamEvent::Thinking, delta())
            }
            "response.function_call_arguments.delta" => {
                let is_newest = data.get("output_index") == self.newest_call;
                shown(StreamEvent::Arguments, if is_newest { delta() } else { String::new() })
            }
            "response.output_item.added" => {
                let item = data.object("item").unwrap_or_default();
                if item.text("type") != "function_call" {
                    return Ok(Vec::new());
                }
                self.newest_call = data.get("output_index");
                vec![StreamEvent::ToolCall { id: item.text("call_id"), name: item.text("name") }]
            }
            "response.output_item.done" => {
                let item = data.raw("item").ok_or_else(|| broken("an item without content"))?;
                let place = data.get("output_index").unwrap_or(self.items.len() as u64);
                self.items.push((place, item.to_owned()));
                Vec::new()
            }
            kind @ ("response.completed" | "response.incomplete") => {
                self.end = Some((kind.to_owned(), data.object("response").unwrap_or_default()));
                Vec::new()
            }
            "response.failed" => {
                let response = data.object("response").unwrap_or_default();
                let error = response.object("error").unwrap_or_default();
                return Err(stream_error(&error.text("code"), &error.text("message")));
            }
            "error" => return Err(stream_error_object(&data)),
            _ => Vec::new(),
        })
    }

    pub(super) fn finish(mut self) -> Result<AssistantMessage, ModelError> {
        let Some((kind, response)) = self.end else {
            return Err(broken("the stream ended before the reply was complete"));
        };
        if self.items.is_empty() {
            // A server that announces no items still lists them at the end.
            let listed: Vec<Box<RawValue>> = response.get("output").unwrap_or_default();
            self.items = (0..).zip(listed).collect();
        }
        self.items.sort_by_key(|(place, _)| *place);
        let mut content = Vec::new();
        let mut native = Vec::new();
        let mut has_refused = false;
        for (_, raw) in self.items {
            let item =
                Object::parse(raw.get()).ok_or_else(|| broken("an item is not an object"))?;
            let (blocks, refused) = blocks_of(&item)?;
            has_refused |= refused;
            content.extend(blocks);
            if is_replayable(&item) {
                native.push(with_sendable_arguments(item, raw));
            }
        }
        let has_calls = content.iter().any(|b| matches!(b, AssistantBlock::ToolCall(_)));
        let reason = response.object("incomplete_details").map(|d| d.text("reason"));
        let stop = match (kind.as_str(), reason.as_deref()) {
            ("response.incomplete", Some("content_filter")) => StopReason::Refusal,
            ("response.incomplete", _) => StopReason::Length,
            _ if has_calls => StopReason::ToolUse,
            _ if has_refused => StopReason::Refusal,
            _ => StopReason::End,
        };
        Ok(AssistantMessage {
            content,
            native: (!native.is_empty())
                .then(|| Native { dialect: DIALECT.to_owned(), items: to_raw(&native) }),
            model: self.model,
            endpoint: None,
            usage: response.get::<WireUsage>("usage").map(WireUsage::normalised),
            stop,
            partial: false,
            request: None,
        })
    }
}

/// The item as it came, unless its arguments would be refused when they are sent back.
fn with_sendable_arguments(mut item: Object, raw: Box<RawValue>) -> Box<RawValue> {
    let arguments = item.text("arguments");
    let sendable = sendable_arguments(&arguments);
    if item.text("type") != "function_call" || sendable == arguments {
        return raw;
    }
    item.set("arguments", &sendable);
    item.to_raw()
}

/// Reasoning without its encrypted content names something that the provider did not keep, and a
/// message without text would be refused.
fn is_replayable(item: &Object) -> bool {
    match item.text("type").as_str() {
        "reasoning" => !item.text("encrypted_content").is_empty(),
        "message" => !item.objects("content").is_empty(),
        _ => true,
    }
}

/// An item in our terms, and whether it is a refusal.
fn blocks_of(item: &Object) -> Result<(Vec<AssistantBlock>, bool), ModelError> {
    match item.text("type").as_str() {
        "message" => {
            let parts = item.objects("content");
            let refused = parts.iter().any(|p| p.text("type") == "refusal");
            let texts = parts.iter().map(|p| p.text("text") + &p.text("refusal"));
            let blocks =
                texts.filter(|t| has_text(t)).map(|text| AssistantBlock::Text { text }).collect();
            Ok((blocks, refused))
        }
        "reasoning" => {
            let parts = [item.objects("summary"), item.objects("content")].concat();
            let texts: Vec<String> = parts.iter().map(|p| p.text("text")).collect();
            let signature = item.get("encrypted_content").filter(|s: &String| !s.is_empty());
            let text = texts.join("\n\n");
            if text.is_empty() && signature.is_none() {
                return Ok((Vec::new(), false));
            }
            Ok((vec![AssistantBlock::Thinking { text, signature, redacted: false }], false))
        }
        "function_call" => {
            let (id, name) = (item.text("call_id"), item.text("name"));
            if name.is_empty() {
                return Err(broken("a tool call has no name"));
            }
            let arguments = item.text("arguments");
            Ok((vec![AssistantBlock::ToolCall(ToolCall { id, name, arguments })], false))
        }
        _ => Ok((Vec::new(), false)),
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct WireUsage {
    input_tokens: Option<u64>,
    output_tokens: Option<u64>,
    input_tokens_details: Option<InputDetails>,
    output_tokens_details: Option<OutputDetails>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct InputDetails {
    cached_tokens: Option<u64>,
    cache_write_tokens: Option<u64>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct OutputDetails {
    reasoning_tokens: Option<u64>,
}

impl WireUsage {
    fn normalised(self) -> Usage {
        let details = self.input_tokens_details.unwrap_or_default();
        let cache_read = details.cached_tokens.unwrap_or(0);
        let cache_write = details.cache_write_tokens.unwrap_or(0);
        let all = self.input_tokens.unwrap_or(0);
        Usage {
            input: all.saturating_sub(cache_read).saturating_sub(cache_write),
            output: self.output_tokens.unwrap_or(0),
            cache_read,
            cache_write,
            reasoning: self.output_tokens_details.and_then(|d| d.reasoning_tokens),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::compacted;

    /// An answer that holds no state, or several, or one that nobody could send back, is none.
    #[test]
    fn only_one_state_is_a_state() {
        let state = r#"{"type":"compaction","id":"cmp_1","encrypted_content":"gAAA"}"#;
        let user = r#"{"type":"message","role":"user","content":[]}"#;
        let empty = r#"{"type":"compaction","encrypted_content":""}"#;
        let torn = r#"{"type":"message","role":"user","content":[{"text":"\ud800"}]}"#;
        let cases = [
            (format!("[{user},{state}]"), true),
            (format!("[{state}]"), true),
            ("[]".to_owned(), false),
            (format!("[{user}]"), false),
            (format!("[{state},{state}]"), false),
            (format!("[{empty}]"), false),
            (format!("[{torn},{state}]"), false),
            ("{}".to_owned(), false),
        ];
        for (output, good) in cases {
            let answer = format!(r#"{{"object":"response.compaction","output":{output}}}"#);
            let found = compacted(&answer);
            assert_eq!(found.is_ok(), good, "{output}");
            if let Ok(found) = found {
                assert_eq!(found.native.items.get(), output, "as it came");
            }
        }
        assert!(compacted("<html>").is_err());
    }
}
