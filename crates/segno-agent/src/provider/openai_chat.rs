//! The Chat Completions wire, as OpenAI-compatible servers speak it.
//!
//! Responsible for: the request of `/chat/completions` and the decoding of its stream, with the habits
//! of Ollama, vLLM, llama.cpp, OpenRouter and DeepSeek. Must not: do I/O.
//!
//! User-side messages that follow each other are one message, since some chat templates demand that
//! roles alternate. Tool messages hold text only: images of results come in a user message behind
//! all results of the turn.

use super::anthropic::shown;
use super::content::{CallIds, Piece, has_text, joined_text, pieces};
use super::error::{broken, stream_error_object};
use super::json::{Object, sendable_arguments, to_raw};
use super::sendable::{Declared, declared};
use super::sse::Event;
use super::wire::{HttpRequest, Settings};
use segno_model::context::{ContextAssistant, ContextMessage, ContextResult};
use segno_model::record::{
    AssistantBlock, AssistantMessage, ModelRef, Native, StopReason, ToolCall, Usage,
};
use segno_runtime::{ModelError, ModelRequest, StreamEvent};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};
use std::borrow::Cow;

/// The name of this wire in [`Native`].
pub(super) const DIALECT: &str = "openai-chat";

#[derive(Serialize)]
struct Body<'a> {
    model: &'a str,
    stream: bool,
    stream_options: Value,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_tokens: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning_effort: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    prompt_cache_key: Option<&'a str>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_choice: Option<&'static str>,
    messages: Vec<Message<'a>>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Message<'a> {
    User(User<'a>),
    Raw(Cow<'a, RawValue>),
}

/// A user message that may still grow.
struct User<'a>(Vec<Piece<'a>>);

impl Serialize for User<'_> {
    /// Text alone is a plain string, which every server takes; only images need a list.
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let has_image = self.0.iter().any(|p| matches!(p, Piece::Image { .. }));
        let content = if has_image {
            Value::Array(self.0.iter().map(part).collect())
        } else {
            let texts: Vec<String> =
                self.0.iter().map(|p| joined_text(std::slice::from_ref(p))).collect();
            Value::String(texts.join("\n\n"))
        };
        json!({"role": "user", "content": content}).serialize(serializer)
    }
}

fn part(piece: &Piece<'_>) -> Value {
    match piece {
        Piece::Text(text) => json!({"type": "text", "text": text}),
        Piece::Image { media_type, data } => json!({
            "type": "image_url",
            "image_url": {"url": format!("data:{media_type};base64,{data}")},
        }),
    }
}

/// The request for one call.
pub(super) fn request(request: &ModelRequest<'_>, settings: &Settings) -> HttpRequest {
    let Declared { tools: specs, callable } = declared(request);
    let tools: Vec<Value> = specs
        .iter()
        .map(|t| {
            json!({"type": "function", "function": {
                "name": t.name, "description": t.description, "parameters": t.parameters,
            }})
        })
        .collect();
    let model = &request.model.id;
    let reasoning_effort = if settings.is_openai {
        super::thinking::openai(model, request.thinking)
    } else {
        super::thinking::chat(request.thinking).map(ToOwned::to_owned)
    };
    let body = Body {
        model,
        stream: true,
        stream_options: json!({"include_usage": true}),
        max_tokens: settings.max_output,
        reasoning_effort,
        prompt_cache_key: settings.is_openai.then(|| request.session.as_str()),
        tool_choice: (!callable && !tools.is_empty()).then_some("none"),
        tools,
        messages: messages(request),
    };
    HttpRequest::new("/v1/chat/completions", Vec::new(), &body)
}

fn messages<'a>(request: &ModelRequest<'a>) -> Vec<Message<'a>> {
    let mut messages: Vec<Message<'a>> = Vec::new();
    if has_text(request.system) {
        messages.push(made(&json!({"role": "system", "content": request.system})));
    }
    for message in request.messages {
        match message {
            ContextMessage::User { content, .. } => {
                add_user(&mut messages, pieces(content));
            }
            ContextMessage::Assistant(turn) => messages.extend(assistant(turn)),
            ContextMessage::Results(results) => add_results(&mut messages, results),
            ContextMessage::State(_) => {}
        }
    }
    messages
}

fn made<'a>(value: &Value) -> Message<'a> {
    Message::Raw(Cow::Owned(to_raw(value)))
}

fn add_user<'a>(messages: &mut Vec<Message<'a>>, pieces: Vec<Piece<'a>>) {
    match messages.last_mut() {
        Some(Message::User(User(before))) => before.extend(pieces),
        _ => messages.push(Message::User(User(pieces))),
    }
}

fn add_results<'a>(messages: &mut Vec<Message<'a>>, results: &'a [ContextResult]) {
    let mut images = Vec::new();
    for result in results {
        let pieces = pieces(&result.content);
        let mut text = joined_text(&pieces);
        let own: Vec<Piece<'a>> =
            pieces.into_iter().filter(|p| matches!(p, Piece::Image { .. })).collect();
        if !own.is_empty() {
            let note = format!("[{} image(s) of this result follow below]", own.len());
            text = if text.is_empty() { note } else { format!("{text}\n{note}") };
            images.push(Piece::Text(Cow::Owned(format!("[image(s) of {}]", result.name))));
            images.extend(own);
        }
        messages.push(made(&json!({
            "role": "tool", "tool_call_id": result.call_id, "content": text,
        })));
    }
    if !images.is_empty() {
        add_user(messages, images);
    }
}

fn assistant(turn: &ContextAssistant) -> Option<Message<'_>> {
    if let Some(native) = turn.native.as_ref().filter(|n| n.dialect == DIALECT) {
        return Some(Message::Raw(Cow::Borrowed(&native.items)));
    }
    let texts: Vec<&str> = turn
        .content
        .iter()
        .filter_map(|b| match b {
            AssistantBlock::Text { text } if has_text(text) => Some(text.as_str()),
            _ => None,
        })
        .collect();
    let calls: Vec<Value> = turn
        .content
        .iter()
        .filter_map(|b| match b {
            AssistantBlock::ToolCall(call) => Some(json!({
                "id": call.id, "type": "function",
                "function": {"name": call.name, "arguments": sendable_arguments(&call.arguments)},
            })),
            _ => None,
        })
        .collect();
    let mut message = Map::new();
    message.insert("role".to_owned(), json!("assistant"));
    let text = texts.concat();
    match (text.is_empty(), calls.is_empty()) {
        (true, true) => return None,
        (true, false) => message.insert("content".to_owned(), Value::Null),
        (false, _) => message.insert("content".to_owned(), json!(text)),
    };
    if !calls.is_empty() {
        message.insert("tool_calls".to_owned(), Value::Array(calls));
    }
    Some(made(&Value::Object(message)))
}

/// A reply as it streams.
#[derive(Debug)]
pub(super) struct Reply {
    model: ModelRef,
    ids: CallIds,
    text: String,
    refusal: String,
    /// The reasoning's field name, which differs by server, and its text.
    reasoning: Option<(&'static str, String)>,
    details: Vec<Map<String, Value>>,
    calls: Vec<Call>,
    usage: Option<Usage>,
    finish: Option<String>,
    done: bool,
}

/// A call as its parts arrive.
#[derive(Debug)]
struct Call {
    index: Option<u64>,
    /// As the server gave it; may be empty.
    given_id: String,
    id: String,
    name: String,
    arguments: String,
    /// Fields that this wire does not define, e.g. a signature.
    extra: Object,
}

impl Reply {
    pub(super) fn new(request: &ModelRequest<'_>) -> Self {
        Self {
            model: request.model.clone(),
            ids: CallIds::new(request),
            text: String::new(),
            refusal: String::new(),
            reasoning: None,
            details: Vec::new(),
            calls: Vec::new(),
            usage: None,
            finish: None,
            done: false,
        }
    }

    pub(super) fn is_done(&self) -> bool {
        self.done
    }

    pub(super) fn feed(&mut self, event: &Event) -> Result<Vec<StreamEvent>, ModelError> {
        if event.data.trim() == "[DONE]" {
            self.done = true;
            return Ok(Vec::new());
        }
        let chunk = Object::parse(&event.data).ok_or_else(|| broken("a chunk is not JSON"))?;
        let has_error = chunk.raw("error").is_some_and(|e| e.get() != "null");
        if has_error || event.name == "error" {
            return Err(stream_error_object(&chunk));
        }
        if let Some(usage) = chunk.get::<WireUsage>("usage") {
            self.usage = Some(usage.normalised());
        }
        let mut events = Vec::new();
        // Only one choice is ever asked for.
        if let Some(choice) = chunk.objects("choices").first() {
            let delta = choice.object("delta").or_else(|| choice.object("message"));
            self.delta(&delta.unwrap_or_default(), &mut events);
            self.finish = choice.get("finish_reason").or(self.finish.take());
        }
        Ok(events)
    }

    fn delta(&mut self, delta: &Object, events: &mut Vec<StreamEvent>) {
        for field in ["reasoning_content", "reasoning"] {
            let part = delta.text(field);
            // A server that sends both fields sends the same words in them.
            let other = self.reasoning.as_ref().is_some_and(|(known, _)| *known != field);
            if !part.is_empty() && !other {
                self.reasoning.get_or_insert((field, String::new())).1 += &part;
                events.push(StreamEvent::Thinking(part));
            }
        }
        for detail in delta.get::<Vec<Map<String, Value>>>("reasoning_details").unwrap_or_default()
        {
            add_detail(&mut self.details, detail);
        }
        let text = delta.text("content");
        self.text += &text;
        events.extend(shown(StreamEvent::Text, text));
        let refusal = delta.text("refusal");
        self.refusal += &refusal;
        events.extend(shown(StreamEvent::Text, refusal));
        for call in delta.objects("tool_calls") {
            self.call(&call, events);
        }
    }

    fn call(&mut self, part: &Object, events: &mut Vec<StreamEvent>) {
        let function = part.object("function").unwrap_or_default();
        let (id, name) = (part.text("id"), function.text("name"));
        let index = part.get::<u64>("index");
        let place = self.place(index, &id, &name).unwrap_or_else(|| {
            let own = self.ids.make(self.calls.len());
            let id = if id.is_empty() { own } else { id.clone() };
            events.push(StreamEvent::ToolCall { id: id.clone(), name: name.clone() });
            let given_id = part.text("id");
            self.calls.push(Call {
                index,
                given_id,
                id,
                name: name.clone(),
                arguments: String::new(),
                extra: Object::default(),
            });
            self.calls.len() - 1
        });
        let is_newest = place + 1 == self.calls.len();
        let call = &mut self.calls[place];
        if call.name.is_empty() {
            call.name = name;
        }
        let arguments = function.get::<String>("arguments").or_else(|| {
            // A few servers send an object instead of its text.
            function
                .raw("arguments")
                .map(RawValue::get)
                .filter(|r| r.starts_with('{'))
                .map(ToOwned::to_owned)
        });
        let arguments = arguments.unwrap_or_default();
        call.arguments += &arguments;
        // What is shown belongs to the newest call.
        if is_newest {
            events.extend(shown(StreamEvent::Arguments, arguments));
        }
        for (key, value) in part.iter() {
            if !matches!(key, "id" | "index" | "type" | "function") && value.get() != "null" {
                call.extra.set_raw(key, value.to_owned());
            }
        }
    }

    /// Which call a part continues. Some servers give every parallel call the index 0, and some give
    /// no index at all: then another id together with a name, or a name alone, begins a new one.
    fn place(&self, index: Option<u64>, id: &str, name: &str) -> Option<usize> {
        let place = match index {
            Some(_) => self.calls.iter().rposition(|c| c.index == index),
            None if !id.is_empty() => self.calls.iter().rposition(|c| c.given_id == id),
            None if name.is_empty() => self.calls.len().checked_sub(1),
            None => None,
        }?;
        let begins = !name.is_empty() && !id.is_empty() && self.calls[place].given_id != id;
        (!begins).then_some(place)
    }

    pub(super) fn finish(self) -> Result<AssistantMessage, ModelError> {
        // A few servers send no finish reason, but do send the end mark.
        let is_empty = self.text.is_empty() && self.refusal.is_empty() && self.calls.is_empty();
        if self.finish.is_none() && (!self.done || is_empty) {
            return Err(broken("the stream ended before the reply was complete"));
        }
        if self.calls.iter().any(|c| c.name.is_empty()) {
            return Err(broken("a tool call has no name"));
        }
        let native = self.native();
        let stop = match self.finish.as_deref() {
            Some("length") => StopReason::Length,
            Some("content_filter") => StopReason::Refusal,
            _ if !self.calls.is_empty() => StopReason::ToolUse,
            _ if has_text(&self.refusal) => StopReason::Refusal,
            Some("stop" | "eos" | "end_turn" | "tool_calls" | "function_call") | None => {
                StopReason::End
            }
            Some(_) => StopReason::Other,
        };
        let mut content = Vec::new();
        if let Some((_, text)) = self.reasoning {
            content.push(AssistantBlock::Thinking { text, signature: None, redacted: false });
        }
        for text in [self.text, self.refusal] {
            if has_text(&text) {
                content.push(AssistantBlock::Text { text });
            }
        }
        content.extend(self.calls.into_iter().map(|c| {
            AssistantBlock::ToolCall(ToolCall { id: c.id, name: c.name, arguments: c.arguments })
        }));
        Ok(AssistantMessage {
            content,
            native,
            model: self.model,
            endpoint: None,
            usage: self.usage,
            stop,
            partial: false,
            request: None,
        })
    }

    /// The message object as it would have come without streaming.
    fn native(&self) -> Option<Native> {
        if !has_text(&self.text) && self.refusal.is_empty() && self.calls.is_empty() {
            return None;
        }
        let mut message = Object::default();
        message.set("role", "assistant");
        message.set("content", &has_text(&self.text).then_some(&self.text));
        if !self.refusal.is_empty() {
            message.set("refusal", &self.refusal);
        }
        if let Some((field, text)) = &self.reasoning {
            message.set(field, text);
        }
        if !self.details.is_empty() {
            message.set("reasoning_details", &self.details);
        }
        if !self.calls.is_empty() {
            let calls: Vec<Object> = self.calls.iter().map(Call::native).collect();
            message.set("tool_calls", &calls);
        }
        Some(Native { dialect: DIALECT.to_owned(), items: message.to_raw() })
    }
}

impl Call {
    fn native(&self) -> Object {
        let mut call = Object::default();
        call.set("id", &self.id);
        call.set("type", "function");
        call.set(
            "function",
            &json!({"name": self.name, "arguments": sendable_arguments(&self.arguments)}),
        );
        for (key, value) in self.extra.iter() {
            call.set_raw(key, value.to_owned());
        }
        call
    }
}

/// Adds a part of OpenRouter's `reasoning_details`: parts of one entry share type and index, their
/// texts grow, and everything else is the last value.
fn add_detail(details: &mut Vec<Map<String, Value>>, part: Map<String, Value>) {
    let same = |known: &Map<String, Value>| {
        part.contains_key("index")
            && ["type", "index"].iter().all(|k| known.get(*k) == part.get(*k))
    };
    let Some(known) = details.iter_mut().rfind(|d| same(d)) else {
        details.push(part);
        return;
    };
    for (key, value) in part {
        let grows = matches!(key.as_str(), "text" | "summary" | "data");
        match (known.get_mut(&key), value) {
            (_, Value::Null) => {}
            (Some(Value::String(text)), Value::String(more)) if grows => text.push_str(&more),
            (_, value) => {
                known.insert(key, value);
            }
        }
    }
}

/// Counts as the wire and its dialects give them.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct WireUsage {
    prompt_tokens: Option<u64>,
    completion_tokens: Option<u64>,
    prompt_tokens_details: Option<PromptDetails>,
    completion_tokens_details: Option<CompletionDetails>,
    /// DeepSeek's own name for cached tokens.
    prompt_cache_hit_tokens: Option<u64>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct PromptDetails {
    cached_tokens: Option<u64>,
    cache_write_tokens: Option<u64>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct CompletionDetails {
    reasoning_tokens: Option<u64>,
}

impl WireUsage {
    fn normalised(self) -> Usage {
        let details = self.prompt_tokens_details.unwrap_or_default();
        let cache_read = details.cached_tokens.or(self.prompt_cache_hit_tokens).unwrap_or(0);
        let cache_write = details.cache_write_tokens.unwrap_or(0);
        let all = self.prompt_tokens.unwrap_or(0);
        Usage {
            input: all.saturating_sub(cache_read).saturating_sub(cache_write),
            output: self.completion_tokens.unwrap_or(0),
            cache_read,
            cache_write,
            reasoning: self.completion_tokens_details.and_then(|d| d.reasoning_tokens),
        }
    }
}
