//! Gemini's `streamGenerateContent` wire.
//!
//! Responsible for: the request and the decoding of its stream; parts keep their thought signatures.
//! Must not: do I/O.
//!
//! Calls come without ids from many models. Then we make them, for our own records only: an id of
//! ours is never sent, and results match their calls by order, as this wire has it.

use super::anthropic::shown;
use super::content::{CallIds, Piece, has_text, joined_text, pieces};
use super::error::{broken, error, stream_error_object};
use super::json::{Object, arguments_object, to_raw};
use super::sendable::{Declared, declared, is_own_id};
use super::sse::Event;
use super::thinking::{gemini as thinking_of, gemini_version};
use super::wire::{HttpRequest, Settings};
use segno_model::context::{ContextAssistant, ContextMessage, ContextResult};
use segno_model::record::{
    AssistantBlock, AssistantMessage, ModelRef, Native, StopReason, ToolCall, Usage,
};
use segno_runtime::{ModelError, ModelErrorKind, ModelRequest, StreamEvent};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};
use std::borrow::Cow;

/// The name of this wire in [`Native`].
pub(super) const DIALECT: &str = "gemini";

/// The documented stand-in for a signature, for calls that this model did not make itself: from
/// Gemini 3 on a call without any signature is refused.
const NO_SIGNATURE: &str = "skip_thought_signature_validator";

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Body<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    tools: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_config: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    generation_config: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    system_instruction: Option<Value>,
    contents: Vec<Content<'a>>,
}

#[derive(Serialize)]
#[serde(tag = "role", rename_all = "lowercase")]
enum Content<'a> {
    User { parts: Vec<Value> },
    Model { parts: Cow<'a, RawValue> },
}

/// The request for one call.
pub(super) fn request(
    request: &ModelRequest<'_>,
    settings: &Settings,
) -> Result<HttpRequest, ModelError> {
    let model = &request.model.id;
    let Declared { tools: specs, callable } = declared(request);
    let declarations: Vec<Value> = specs
        .iter()
        .map(|t| {
            json!({
                "name": t.name, "description": t.description, "parametersJsonSchema": t.parameters,
            })
        })
        .collect();
    let mut generation = Map::new();
    if let Some(limit) = settings.max_output {
        generation.insert("maxOutputTokens".to_owned(), json!(limit));
    }
    if let Some(thinking) = thinking_of(model, request.thinking)? {
        generation.insert("thinkingConfig".to_owned(), thinking);
    }
    let has_tools = !declarations.is_empty();
    let body = Body {
        tools: has_tools.then(|| json!([{"functionDeclarations": declarations}])),
        tool_config: (has_tools && !callable)
            .then(|| json!({"functionCallingConfig": {"mode": "NONE"}})),
        generation_config: (!generation.is_empty()).then_some(Value::Object(generation)),
        system_instruction: has_text(request.system)
            .then(|| json!({"parts": [{"text": request.system}]})),
        contents: contents(request),
    };
    let model = model.strip_prefix("models/").unwrap_or(model);
    let path = format!("/v1beta/models/{model}:streamGenerateContent?alt=sse");
    Ok(HttpRequest::new(&path, Vec::new(), &body))
}

fn contents<'a>(request: &ModelRequest<'a>) -> Vec<Content<'a>> {
    let needs_signature = gemini_version(&request.model.id).is_none_or(|version| version >= (3, 0));
    let mut contents: Vec<Content<'a>> = Vec::new();
    for message in request.messages {
        let parts = match message {
            ContextMessage::User { content, .. } => pieces(content).iter().map(part).collect(),
            ContextMessage::Results(results) => result_parts(results),
            ContextMessage::State(_) => continue,
            ContextMessage::Assistant(turn) => {
                let parts = model_parts(turn, needs_signature);
                if parts.get() != "[]" {
                    contents.push(Content::Model { parts });
                }
                continue;
            }
        };
        match contents.last_mut() {
            Some(Content::User { parts: before }) => before.extend(parts),
            _ => contents.push(Content::User { parts }),
        }
    }
    contents
}

fn part(piece: &Piece<'_>) -> Value {
    match piece {
        Piece::Text(text) => json!({"text": text}),
        Piece::Image { media_type, data } => {
            json!({"inlineData": {"mimeType": media_type, "data": data}})
        }
    }
}

/// All results first, then their images: a part between two results would split them.
fn result_parts(results: &[ContextResult]) -> Vec<Value> {
    let mut parts = Vec::new();
    let mut images = Vec::new();
    for result in results {
        let pieces = pieces(&result.content);
        let own: Vec<Value> =
            pieces.iter().filter(|p| matches!(p, Piece::Image { .. })).map(part).collect();
        let mut text = joined_text(&pieces);
        if !own.is_empty() {
            let note = format!("[{} image(s) of this result follow below]", own.len());
            text = if text.is_empty() { note } else { format!("{text}\n{note}") };
            images.push(json!({"text": format!("[image(s) of {}]", result.name)}));
            images.extend(own);
        }
        let mut response = Map::new();
        if !is_own_id(&result.call_id) {
            response.insert("id".to_owned(), json!(result.call_id));
        }
        response.insert("name".to_owned(), json!(result.name));
        let key = if result.is_error { "error" } else { "output" };
        response.insert("response".to_owned(), json!({ key: text }));
        parts.push(json!({ "functionResponse": response }));
    }
    parts.extend(images);
    parts
}

fn model_parts(turn: &ContextAssistant, needs_signature: bool) -> Cow<'_, RawValue> {
    if let Some(native) = turn.native.as_ref().filter(|n| n.dialect == DIALECT) {
        return Cow::Borrowed(&native.items);
    }
    let mut parts: Vec<Object> = Vec::new();
    let mut is_first_call = true;
    for block in &turn.content {
        let mut part = Object::default();
        match block {
            AssistantBlock::Text { text } if has_text(text) => part.set("text", text),
            AssistantBlock::ToolCall(call) => {
                part.set("functionCall", &function_call(call));
                if needs_signature && std::mem::take(&mut is_first_call) {
                    part.set("thoughtSignature", NO_SIGNATURE);
                }
            }
            _ => continue,
        }
        parts.push(part);
    }
    Cow::Owned(to_raw(&parts))
}

fn function_call(call: &ToolCall) -> Object {
    let mut object = Object::default();
    if !is_own_id(&call.id) {
        object.set("id", &call.id);
    }
    object.set("name", &call.name);
    object.set_raw("args", arguments_object(&call.arguments));
    object
}

/// A reply as it streams.
#[derive(Debug)]
pub(super) struct Reply {
    model: ModelRef,
    ids: CallIds,
    parts: Vec<Object>,
    calls: usize,
    usage: Option<WireUsage>,
    finish: Option<String>,
    /// Why the prompt was not answered at all.
    blocked: Option<String>,
}

impl Reply {
    pub(super) fn new(request: &ModelRequest<'_>) -> Self {
        Self {
            model: request.model.clone(),
            ids: CallIds::new(request),
            parts: Vec::new(),
            calls: 0,
            usage: None,
            finish: None,
            blocked: None,
        }
    }

    pub(super) fn feed(&mut self, event: &Event) -> Result<Vec<StreamEvent>, ModelError> {
        let chunk = Object::parse(&event.data).ok_or_else(|| broken("a chunk is not JSON"))?;
        if chunk.raw("error").is_some() {
            return Err(stream_error_object(&chunk));
        }
        if let Some(usage) = chunk.get("usageMetadata") {
            self.usage = Some(usage);
        }
        if let Some(feedback) = chunk.object("promptFeedback") {
            self.blocked = feedback.get("blockReason").or(self.blocked.take());
        }
        let mut events = Vec::new();
        if let Some(candidate) = chunk.objects("candidates").first() {
            self.finish = candidate.get("finishReason").or(self.finish.take());
            let content = candidate.object("content").unwrap_or_default();
            for part in content.objects("parts") {
                events.extend(self.part(part));
            }
        }
        Ok(events)
    }

    fn part(&mut self, part: Object) -> Vec<StreamEvent> {
        if let Some(call) = part.object("functionCall") {
            let id = self.call_id(&call, self.calls);
            self.calls += 1;
            self.parts.push(part);
            let begin = StreamEvent::ToolCall { id, name: call.text("name") };
            return vec![begin, StreamEvent::Arguments(arguments_of(&call))];
        }
        let text = part.text("text");
        let event = if is_thought(&part) { StreamEvent::Thinking } else { StreamEvent::Text };
        match self.parts.last_mut() {
            Some(before)
                if is_plain(before)
                    && is_plain(&part)
                    && is_thought(before) == is_thought(&part) =>
            {
                before.set("text", &(before.text("text") + &text));
            }
            // Nothing in it, not even a signature: it would be refused when sent back.
            _ if is_plain(&part) && text.is_empty() => {}
            _ => self.parts.push(part),
        }
        shown(event, text)
    }

    fn call_id(&self, call: &Object, place: usize) -> String {
        call.get("id").filter(|id: &String| !id.is_empty()).unwrap_or_else(|| self.ids.make(place))
    }

    pub(super) fn finish(self) -> Result<AssistantMessage, ModelError> {
        if let (Some(reason), None) = (&self.blocked, &self.finish) {
            let message = format!("the prompt was blocked: {reason}");
            return Err(error(ModelErrorKind::Refused, message));
        }
        let mut content = Vec::new();
        let mut calls = 0;
        for part in &self.parts {
            if let Some(call) = part.object("functionCall") {
                content.push(AssistantBlock::ToolCall(ToolCall {
                    id: self.call_id(&call, calls),
                    name: call.text("name"),
                    arguments: arguments_of(&call),
                }));
                calls += 1;
                continue;
            }
            let text = part.text("text");
            if is_thought(part) {
                let signature = part.get("thoughtSignature");
                content.push(AssistantBlock::Thinking { text, signature, redacted: false });
            } else if let Some(AssistantBlock::Text { text: before }) = content.last_mut() {
                // A signed part ends a text, maybe in the middle of a word.
                before.push_str(&text);
            } else if has_text(&text) {
                content.push(AssistantBlock::Text { text });
            }
        }
        let stop = stop_reason(self.finish.as_deref(), calls > 0)?;
        let native = has_replayable(&self.parts)
            .then(|| Native { dialect: DIALECT.to_owned(), items: to_raw(&self.parts) });
        Ok(AssistantMessage {
            content,
            native,
            model: self.model,
            endpoint: None,
            usage: self.usage.map(WireUsage::normalised),
            stop,
            partial: false,
            request: None,
        })
    }
}

fn stop_reason(finish: Option<&str>, has_calls: bool) -> Result<StopReason, ModelError> {
    Ok(match finish {
        None => return Err(broken("the stream ended before the reply was complete")),
        Some("MALFORMED_FUNCTION_CALL" | "UNEXPECTED_TOOL_CALL" | "MISSING_THOUGHT_SIGNATURE") => {
            return Err(broken("the model wrote a tool call that the provider could not read"));
        }
        Some("MAX_TOKENS") => StopReason::Length,
        Some(
            "SAFETY" | "RECITATION" | "BLOCKLIST" | "PROHIBITED_CONTENT" | "SPII" | "LANGUAGE"
            | "IMAGE_SAFETY",
        ) => StopReason::Refusal,
        Some("STOP") if has_calls => StopReason::ToolUse,
        Some("STOP") => StopReason::End,
        Some(_) => StopReason::Other,
    })
}

fn is_thought(part: &Object) -> bool {
    part.get("thought").unwrap_or(false)
}

/// Text and nothing else: such parts may be joined. A signature belongs to its own part.
fn is_plain(part: &Object) -> bool {
    part.raw("text").is_some() && part.iter().all(|(key, _)| matches!(key, "text" | "thought"))
}

/// Whether something besides thoughts is there: a turn of thoughts alone is not sent back.
fn has_replayable(parts: &[Object]) -> bool {
    parts.iter().any(|p| !is_thought(p) && (p.raw("text").is_none() || has_text(&p.text("text"))))
}

fn arguments_of(call: &Object) -> String {
    call.raw("args").map_or("{}", RawValue::get).to_owned()
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct WireUsage {
    prompt_token_count: Option<u64>,
    tool_use_prompt_token_count: Option<u64>,
    cached_content_token_count: Option<u64>,
    candidates_token_count: Option<u64>,
    thoughts_token_count: Option<u64>,
}

impl WireUsage {
    fn normalised(self) -> Usage {
        let cache_read = self.cached_content_token_count.unwrap_or(0);
        let all =
            self.prompt_token_count.unwrap_or(0) + self.tool_use_prompt_token_count.unwrap_or(0);
        Usage {
            input: all.saturating_sub(cache_read),
            // Thoughts are counted beside the answer here, not within it.
            output: self.candidates_token_count.unwrap_or(0)
                + self.thoughts_token_count.unwrap_or(0),
            cache_read,
            cache_write: 0,
            reasoning: self.thoughts_token_count,
        }
    }
}
