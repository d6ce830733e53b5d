//! Anthropic's Messages wire.
//!
//! Responsible for: the request of `/v1/messages` and the decoding of its stream. Must not: do I/O.
//!
//! Cache breakpoints: one at the end of the system prompt (or on the last tool), and one on each of
//! the last two user-side messages, so that each request reads what the one before it wrote. Only
//! these `cache_control` markers move from request to request; all other bytes of the messages stay.

use super::content::{Piece, has_text, pieces};
use super::error::{broken, stream_error};
use super::json::{Object, arguments_object, to_raw};
use super::sendable::{Declared, declared};
use super::sse::Event;
use super::thinking::{AnthropicThinking, anthropic as thinking_of};
use super::wire::{HttpRequest, Settings};
use segno_model::SessionId;
use segno_model::context::{ContextAssistant, ContextMessage, ContextResult};
use segno_model::record::{
    AssistantBlock, AssistantMessage, ModelRef, Native, StopReason, ToolCall, Usage,
};
use segno_runtime::{ModelError, ModelRequest, StreamEvent};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Value, json};
use std::borrow::Cow;

/// The name of this wire in [`Native`].
pub(super) const DIALECT: &str = "anthropic";

#[derive(Serialize)]
struct Body<'a> {
    model: &'a str,
    max_tokens: u32,
    stream: bool,
    metadata: Value,
    #[serde(skip_serializing_if = "Option::is_none")]
    thinking: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    output_config: Option<Value>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_choice: Option<Value>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    system: Vec<Value>,
    messages: Vec<Message<'a>>,
}

#[derive(Serialize)]
#[serde(tag = "role", rename_all = "lowercase")]
enum Message<'a> {
    User { content: Vec<Value> },
    Assistant { content: Cow<'a, RawValue> },
}

/// The request for one call.
pub(super) fn request(
    request: &ModelRequest<'_>,
    settings: &Settings,
) -> Result<HttpRequest, ModelError> {
    let max_tokens = settings.max_output.unwrap_or_else(|| default_output(&request.model.id));
    let thinking = thinking_of(&request.model.id, request.thinking, max_tokens)?;
    let thinking =
        if lacks_leading_thinking(request.messages) { thinking.unless_budget() } else { thinking };
    let Declared { tools: specs, callable } = declared(request);
    let mut tools: Vec<Value> = specs
        .iter()
        .map(
            |t| json!({"name": t.name, "description": t.description, "input_schema": t.parameters}),
        )
        .collect();
    let mut system = Vec::new();
    if has_text(request.system) {
        system.push(json!({"type": "text", "text": request.system}));
    }
    mark(system.last_mut().or(tools.last_mut()));
    let mut messages = messages(request.messages);
    mark_newest(&mut messages);
    let mut headers = vec![("anthropic-version", "2023-06-01".to_owned())];
    if matches!(thinking, AnthropicThinking::Budget(_)) {
        headers.push(("anthropic-beta", "interleaved-thinking-2025-05-14".to_owned()));
    }
    let body = Body {
        model: &request.model.id,
        max_tokens,
        stream: true,
        thinking: thinking.field(),
        output_config: thinking.output_config(),
        tool_choice: (!callable && !tools.is_empty()).then(|| json!({"type": "none"})),
        tools,
        system,
        messages,
        metadata: json!({"user_id": session_key(request.session)}),
    };
    Ok(HttpRequest::new("/v1/messages", headers, &body))
}

/// What tells a session's requests from those of others, and says nothing else about it.
fn session_key(session: &SessionId) -> String {
    segno_model::sha256_hex(format!("segno session {session}").as_bytes())
}

/// The largest reply to ask for: what the model's family can give, within reason.
pub(super) fn default_output(model: &str) -> u32 {
    match super::thinking::claude_version(model) {
        Some((3, minor)) if minor < 5 => 4_096,
        Some((3, 5 | 6)) => 8_192,
        _ => 32_000,
    }
}

/// Budgeted thinking demands that an open tool turn begins with thinking; a turn that was made
/// without (thinking was switched on in between) can only be continued without.
fn lacks_leading_thinking(messages: &[ContextMessage]) -> bool {
    let newest = messages.iter().rev().find_map(|m| match m {
        ContextMessage::Assistant(turn) => Some(&turn.content),
        _ => None,
    });
    newest.is_some_and(|content| {
        let has_calls = content.iter().any(|b| matches!(b, AssistantBlock::ToolCall(_)));
        let leads =
            matches!(content.first(), Some(AssistantBlock::Thinking { signature: Some(_), .. }));
        has_calls && !leads
    })
}

fn messages<'a>(history: &'a [ContextMessage]) -> Vec<Message<'a>> {
    let mut messages: Vec<Message<'a>> = Vec::new();
    for message in history {
        let blocks: Vec<Value> = match message {
            ContextMessage::Assistant(turn) => {
                let content = assistant(turn);
                if content.get() != "[]" {
                    messages.push(Message::Assistant { content });
                }
                continue;
            }
            ContextMessage::User { content, .. } => pieces(content).iter().map(block).collect(),
            ContextMessage::Results(results) => results.iter().map(result).collect(),
            ContextMessage::State(_) => continue,
        };
        match messages.last_mut() {
            Some(Message::User { content }) => content.extend(blocks),
            _ => messages.push(Message::User { content: blocks }),
        }
    }
    messages
}

fn block(piece: &Piece<'_>) -> Value {
    match piece {
        Piece::Text(text) => json!({"type": "text", "text": text}),
        Piece::Image { media_type, data } => json!({
            "type": "image",
            "source": {"type": "base64", "media_type": media_type, "data": data},
        }),
    }
}

fn result(result: &ContextResult) -> Value {
    let content: Vec<Value> = pieces(&result.content).iter().map(block).collect();
    let mut value = json!({
        "type": "tool_result",
        "tool_use_id": result.call_id,
        "content": content,
    });
    if result.is_error {
        value["is_error"] = json!(true);
    }
    value
}

fn assistant(turn: &ContextAssistant) -> Cow<'_, RawValue> {
    if let Some(native) = turn.native.as_ref().filter(|n| n.dialect == DIALECT) {
        return Cow::Borrowed(&native.items);
    }
    let blocks: Vec<Box<RawValue>> = turn.content.iter().filter_map(rebuilt).collect();
    Cow::Owned(to_raw(&blocks))
}

fn rebuilt(block: &AssistantBlock) -> Option<Box<RawValue>> {
    match block {
        AssistantBlock::Text { text } if has_text(text) => {
            Some(to_raw(&json!({"type": "text", "text": text})))
        }
        AssistantBlock::Thinking { signature: Some(data), redacted: true, .. } => {
            Some(to_raw(&json!({"type": "redacted_thinking", "data": data})))
        }
        AssistantBlock::Thinking { text, signature: Some(signature), .. } => {
            Some(to_raw(&json!({"type": "thinking", "thinking": text, "signature": signature})))
        }
        AssistantBlock::ToolCall(call) => {
            let mut object = Object::default();
            object.set("type", "tool_use");
            object.set("id", &call.id);
            object.set("name", &call.name);
            object.set_raw("input", arguments_object(&call.arguments));
            Some(object.to_raw())
        }
        _ => None,
    }
}

fn mark(value: Option<&mut Value>) {
    if let Some(value) = value {
        value["cache_control"] = json!({"type": "ephemeral"});
    }
}

fn mark_newest(messages: &mut [Message<'_>]) {
    let newest = messages.iter_mut().rev().filter_map(|m| match m {
        Message::User { content } => Some(content),
        Message::Assistant { .. } => None,
    });
    for content in newest.take(2) {
        mark(content.last_mut());
    }
}

/// A reply as it streams.
#[derive(Debug)]
pub(super) struct Reply {
    model: ModelRef,
    blocks: Vec<Block>,
    usage: WireUsage,
    stop: Option<String>,
    done: bool,
}

/// One content block and what its deltas added.
#[derive(Debug)]
struct Block {
    index: u64,
    item: Object,
    kind: String,
    text: String,
    signature: String,
    json: String,
}

/// Counts as the wire gives them; later events replace earlier ones, field by field.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct WireUsage {
    input_tokens: Option<u64>,
    output_tokens: Option<u64>,
    cache_read_input_tokens: Option<u64>,
    cache_creation_input_tokens: Option<u64>,
}

impl WireUsage {
    fn update(&mut self, newer: &Self) {
        self.input_tokens = newer.input_tokens.or(self.input_tokens);
        self.output_tokens = newer.output_tokens.or(self.output_tokens);
        self.cache_read_input_tokens =
            newer.cache_read_input_tokens.or(self.cache_read_input_tokens);
        self.cache_creation_input_tokens =
            newer.cache_creation_input_tokens.or(self.cache_creation_input_tokens);
    }

    fn normalised(&self) -> Usage {
        Usage {
            input: self.input_tokens.unwrap_or(0),
            output: self.output_tokens.unwrap_or(0),
            cache_read: self.cache_read_input_tokens.unwrap_or(0),
            cache_write: self.cache_creation_input_tokens.unwrap_or(0),
            reasoning: None,
        }
    }
}

impl Reply {
    pub(super) fn new(request: &ModelRequest<'_>) -> Self {
        Self {
            model: request.model.clone(),
            blocks: Vec::new(),
            usage: WireUsage::default(),
            stop: None,
            done: false,
        }
    }

    pub(super) fn is_done(&self) -> bool {
        self.done
    }

    pub(super) fn feed(&mut self, event: &Event) -> Result<Vec<StreamEvent>, ModelError> {
        let data = Object::parse(&event.data).ok_or_else(|| broken("an event is not JSON"))?;
        match data.text("type").as_str() {
            "message_start" => {
                let message = data.object("message").unwrap_or_default();
                self.usage.update(&message.get("usage").unwrap_or_default());
                Ok(Vec::new())
            }
            "content_block_start" => self.start(&data),
            "content_block_delta" => self.delta(&data),
            "message_delta" => {
                self.usage.update(&data.get("usage").unwrap_or_default());
                let delta = data.object("delta").unwrap_or_default();
                self.stop = delta.get("stop_reason").or(self.stop.take());
                Ok(Vec::new())
            }
            "message_stop" => {
                self.done = true;
                Ok(Vec::new())
            }
            "error" => {
                let error = data.object("error").unwrap_or_default();
                Err(stream_error(&error.text("type"), &error.text("message")))
            }
            // `ping`, `content_block_stop` and whatever a later version of the wire adds.
            _ => Ok(Vec::new()),
        }
    }

    fn start(&mut self, data: &Object) -> Result<Vec<StreamEvent>, ModelError> {
        let item = data.object("content_block").ok_or_else(|| broken("a block without content"))?;
        let index = data.get("index").ok_or_else(|| broken("a block without an index"))?;
        if self.blocks.iter().any(|b| b.index == index) {
            return Err(broken("a block was started twice"));
        }
        let kind = item.text("type");
        let (text, events) = match kind.as_str() {
            "text" => (item.text("text"), shown(StreamEvent::Text, item.text("text"))),
            "thinking" => {
                (item.text("thinking"), shown(StreamEvent::Thinking, item.text("thinking")))
            }
            "tool_use" => {
                let call = StreamEvent::ToolCall { id: item.text("id"), name: item.text("name") };
                (String::new(), vec![call])
            }
            _ => (String::new(), Vec::new()),
        };
        let signature = item.text("signature");
        self.blocks.push(Block { index, item, kind, text, signature, json: String::new() });
        Ok(events)
    }

    fn delta(&mut self, data: &Object) -> Result<Vec<StreamEvent>, ModelError> {
        let index: u64 = data.get("index").ok_or_else(|| broken("a delta without an index"))?;
        let block = self
            .blocks
            .iter_mut()
            .find(|b| b.index == index)
            .ok_or_else(|| broken("a delta for a block that was not started"))?;
        let delta = data.object("delta").unwrap_or_default();
        match delta.text("type").as_str() {
            "text_delta" => {
                block.text += &delta.text("text");
                Ok(shown(StreamEvent::Text, delta.text("text")))
            }
            "thinking_delta" => {
                block.text += &delta.text("thinking");
                Ok(shown(StreamEvent::Thinking, delta.text("thinking")))
            }
            "signature_delta" => {
                block.signature += &delta.text("signature");
                Ok(Vec::new())
            }
            "input_json_delta" => {
                let part = delta.text("partial_json");
                block.json += &part;
                Ok(if block.kind == "tool_use" {
                    shown(StreamEvent::Arguments, part)
                } else {
                    Vec::new()
                })
            }
            "citations_delta" => {
                let mut citations =
                    block.item.get::<Vec<Box<RawValue>>>("citations").unwrap_or_default();
                citations.extend(delta.raw("citation").map(ToOwned::to_owned));
                block.item.set("citations", &citations);
                Ok(Vec::new())
            }
            _ => Ok(Vec::new()),
        }
    }

    pub(super) fn finish(self) -> Result<AssistantMessage, ModelError> {
        if !self.done {
            return Err(broken("the stream ended before the reply was complete"));
        }
        let mut content = Vec::new();
        let mut items: Vec<Object> = Vec::new();
        for block in self.blocks {
            let (ours, item) = block.finish();
            content.extend(ours);
            items.extend(item);
        }
        let stop = match self.stop.as_deref() {
            Some("end_turn" | "stop_sequence") | None => StopReason::End,
            Some("tool_use") => StopReason::ToolUse,
            Some("max_tokens" | "model_context_window_exceeded") => StopReason::Length,
            Some("refusal") => StopReason::Refusal,
            Some(_) => StopReason::Other,
        };
        let native = (!items.is_empty())
            .then(|| Native { dialect: DIALECT.to_owned(), items: to_raw(&items) });
        Ok(AssistantMessage {
            content,
            native,
            model: self.model,
            endpoint: None,
            usage: Some(self.usage.normalised()),
            stop,
            partial: false,
            request: None,
        })
    }
}

impl Block {
    /// The block in our terms and as it is sent back. Empty text is neither: it would be refused.
    fn finish(mut self) -> (Option<AssistantBlock>, Option<Object>) {
        let ours = match self.kind.as_str() {
            "text" if !has_text(&self.text) => return (None, None),
            "text" => {
                self.item.set("text", &self.text);
                Some(AssistantBlock::Text { text: self.text })
            }
            "thinking" => {
                self.item.set("thinking", &self.text);
                self.item.set("signature", &self.signature);
                let signature = Some(self.signature).filter(|s| !s.is_empty());
                Some(AssistantBlock::Thinking { text: self.text, signature, redacted: false })
            }
            "redacted_thinking" => Some(AssistantBlock::Thinking {
                text: String::new(),
                signature: Some(self.item.text("data")),
                redacted: true,
            }),
            "tool_use" => {
                let arguments = if self.json.is_empty() {
                    self.item.raw("input").map_or("{}", RawValue::get).to_owned()
                } else {
                    self.json
                };
                self.item.set_raw("input", arguments_object(&arguments));
                let (id, name) = (self.item.text("id"), self.item.text("name"));
                Some(AssistantBlock::ToolCall(ToolCall { id, name, arguments }))
            }
            _ => {
                if !self.json.is_empty() {
                    self.item.set_raw("input", arguments_object(&self.json));
                }
                None
            }
        };
        // Thinking that lost its signature would be refused; so it is kept for people only.
        let unsigned = matches!(ours, Some(AssistantBlock::Thinking { signature: None, .. }));
        (ours, (!unsigned).then_some(self.item))
    }
}

/// An event for what is not empty.
pub(super) fn shown(event: fn(String) -> StreamEvent, text: String) -> Vec<StreamEvent> {
    if text.is_empty() { Vec::new() } else { vec![event(text)] }
}
