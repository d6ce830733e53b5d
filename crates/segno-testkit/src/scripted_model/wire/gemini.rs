//! Gemini: `POST /v1beta/models/{model}:streamGenerateContent?alt=sse`.
//!
//! Responsible for: this wire's spelling. Must not: judge pairing, order or signatures.

use super::{
    Incoming, OutPart, Outgoing, call_content, check_tools, chunks, data, image, list_of,
    require_alternation, result, text_of, unit,
};
use crate::scripted_model::reply::Stop;
use crate::scripted_model::seen::{Findings, Piece, Said, Seen, SeenResult, SeenTool, Turn, Wire};
use crate::scripted_model::signature;
use serde_json::{Value, json};

pub(super) fn parse(incoming: &Incoming<'_>, findings: &mut Findings) -> Seen {
    let body = incoming.body;
    let declared: Vec<&Value> = list_of(body, "tools")
        .iter()
        .flat_map(|tool| list_of(tool, "functionDeclarations"))
        .collect();
    let tools: Vec<SeenTool> = declared.iter().map(|tool| declaration(tool)).collect();
    check_tools(&tools, findings);
    let mut units: Vec<String> = declared.iter().map(|tool| unit("tool", tool)).collect();
    let instruction = body.get("systemInstruction").unwrap_or(&Value::Null);
    let system: Vec<&str> =
        list_of(instruction, "parts").iter().map(|part| text_of(part, "text")).collect();
    units.extend(list_of(instruction, "parts").iter().map(|part| unit("system", part)));
    if system.iter().any(|text| text.trim().is_empty()) {
        findings.add("empty-text", "systemInstruction", "an empty text part");
    }
    let (mut turns, mut roles) = (Vec::new(), Vec::new());
    for (index, content) in list_of(body, "contents").iter().enumerate() {
        let at = format!("contents.{index}");
        let role = text_of(content, "role");
        let parts = list_of(content, "parts");
        units.extend(parts.iter().map(|part| unit(role, part)));
        match role {
            "user" => user(parts, &at, &mut turns, findings),
            "model" => turns.push(Turn::Assistant(said(parts, &at, findings))),
            other => findings.add("role", &at, format!("please use a valid role, not `{other}`")),
        }
        roles.push((at, role));
    }
    require_alternation(&roles, findings);
    Seen {
        wire: Wire::Gemini,
        model: incoming.path_model.unwrap_or_default().to_owned(),
        session: String::new(),
        system: system.join("\n"),
        tools,
        turns,
        compaction: false,
        extras: false,
        units,
    }
}

/// The older field takes upper-case type names; both spellings mean the same.
fn declaration(tool: &Value) -> SeenTool {
    let schema = tool.get("parametersJsonSchema").or_else(|| tool.get("parameters"));
    let mut parameters = schema.cloned().unwrap_or_default();
    if text_of(&parameters, "type") == "OBJECT" {
        parameters["type"] = json!("object");
    }
    SeenTool { name: text_of(tool, "name").to_owned(), parameters }
}

fn user(parts: &[Value], at: &str, turns: &mut Vec<Turn>, findings: &mut Findings) {
    let (mut results, mut pieces) = (Vec::new(), Vec::new());
    for (index, part) in parts.iter().enumerate() {
        let at = format!("{at}.parts.{index}");
        if let Some(answer) = part.get("functionResponse") {
            results.push(function_response(answer, &at, findings));
        } else if let Some(text) = part.get("text").and_then(Value::as_str) {
            pieces.push(Piece::Text(text.to_owned()));
        } else if let Some(inline) = part.get("inlineData") {
            let (kind, base64) = (text_of(inline, "mimeType"), text_of(inline, "data"));
            pieces.push(image(Wire::Gemini, kind, base64, &at, findings));
        } else {
            findings.add("block", at, "unexpected part in a user content");
        }
    }
    let nothing = results.is_empty();
    if !nothing {
        turns.push(Turn::Results(results));
    }
    if nothing || !pieces.is_empty() {
        turns.push(Turn::User(pieces));
    }
}

fn function_response(answer: &Value, at: &str, findings: &mut Findings) -> SeenResult {
    let response = answer.get("response").unwrap_or(&Value::Null);
    let Some(fields) = response.as_object() else {
        findings.add("block", at, "`functionResponse.response` must be an object");
        return result(text_of(answer, "id"), text_of(answer, "name"), &[], false);
    };
    let mut pieces: Vec<Piece> = fields
        .values()
        .map(|value| match value {
            Value::String(text) => Piece::Text(text.clone()),
            other => Piece::Text(other.to_string()),
        })
        .collect();
    for part in list_of(answer, "parts") {
        let inline = part.get("inlineData").unwrap_or(&Value::Null);
        let (kind, data) = (text_of(inline, "mimeType"), text_of(inline, "data"));
        pieces.push(image(Wire::Gemini, kind, data, at, findings));
    }
    let is_error = fields.contains_key("error");
    result(text_of(answer, "id"), text_of(answer, "name"), &pieces, is_error)
}

fn said(parts: &[Value], at: &str, findings: &mut Findings) -> Vec<Said> {
    let mut said = Vec::new();
    for (index, part) in parts.iter().enumerate() {
        let proof = part.get("thoughtSignature").and_then(Value::as_str).map(str::to_owned);
        if let Some(call) = part.get("functionCall") {
            said.push(Said::Call {
                id: text_of(call, "id").to_owned(),
                name: text_of(call, "name").to_owned(),
                arguments: call.get("args").unwrap_or(&json!({})).to_string(),
                signature: proof,
            });
        } else if let Some(text) = part.get("text").and_then(Value::as_str) {
            let text = text.to_owned();
            if part.get("thought") == Some(&Value::Bool(true)) {
                said.push(Said::Thinking { text, signature: proof, redacted: false });
            } else {
                said.push(Said::Text { text, signature: proof });
            }
        } else {
            let at = format!("{at}.parts.{index}");
            findings.add("block", at, "unexpected part in a model content");
        }
    }
    said
}

pub(super) fn encode(reply: &Outgoing) -> Vec<String> {
    let scope = format!("{}/{}", Wire::Gemini.name(), reply.model);
    // From Gemini 3 on every call is signed, else only what was thought about.
    let mut signs = reply.model.contains("gemini-3")
        || reply.parts.iter().any(|part| matches!(part, OutPart::Thinking { .. }));
    let mut parts = Vec::new();
    let mut spoken = String::new();
    for part in &reply.parts {
        match part {
            OutPart::Thinking { redacted: true, .. } => {}
            OutPart::Thinking { text, .. } => {
                parts.extend(chunks(text).into_iter().map(|t| json!({"text": t, "thought": true})));
            }
            OutPart::Text(text) => {
                spoken.push_str(text);
                parts.extend(chunks(text).into_iter().map(|t| json!({"text": t})));
            }
            OutPart::Call { id, name, arguments } => {
                let args: Value = serde_json::from_str(arguments).unwrap_or_else(|_| json!({}));
                let mut part = json!({"functionCall": {"name": name, "args": args}});
                if !id.is_empty() {
                    part["functionCall"]["id"] = json!(id);
                }
                // Only the first call of a turn is signed.
                if std::mem::take(&mut signs) {
                    let content = call_content(name, &args.to_string());
                    part["thoughtSignature"] = json!(signature::sign(&scope, &content));
                }
                parts.push(part);
            }
        }
    }
    if signs && let Some(last) = parts.iter_mut().rfind(|part| part.get("thought").is_none()) {
        let content = text_content(&spoken);
        last["thoughtSignature"] = json!(signature::sign(&scope, &content));
    }
    chunked(reply, &parts)
}

/// What the signature of a text part covers: the whole text of its turn.
pub(crate) fn text_content(spoken: &str) -> String {
    format!("text:{spoken}")
}

/// One event per part; the last one carries the reason and the final numbers.
fn chunked(reply: &Outgoing, parts: &[Value]) -> Vec<String> {
    let usage = reply.usage;
    let finish = match reply.stop {
        Stop::End | Stop::Tools => "STOP",
        Stop::Length => "MAX_TOKENS",
        Stop::Refusal => "SAFETY",
    };
    let event = |parts: &[Value], last: bool| {
        let content = json!({"role": "model", "parts": parts});
        let mut candidate = json!({"content": content, "index": 0});
        let output = usage.output.saturating_sub(usage.reasoning);
        let mut numbers = json!({
            "promptTokenCount": usage.whole_input(),
            "cachedContentTokenCount": usage.cache_read,
            "totalTokenCount": usage.whole_input().saturating_add(usage.output),
        });
        if last {
            candidate["finishReason"] = json!(finish);
            numbers["candidatesTokenCount"] = json!(output);
            numbers["thoughtsTokenCount"] = json!(usage.reasoning);
        }
        data(&json!({
            "candidates": [candidate], "usageMetadata": numbers,
            "modelVersion": reply.model, "responseId": reply.tag,
        }))
    };
    let mut events: Vec<String> =
        parts.iter().map(|part| event(std::slice::from_ref(part), false)).collect();
    events.push(event(&[json!({"text": ""})], true));
    events
}

pub(super) fn error_body(status: u16, message: &str) -> Value {
    let kind = match status {
        401 => "UNAUTHENTICATED",
        403 => "PERMISSION_DENIED",
        404 => "NOT_FOUND",
        429 => "RESOURCE_EXHAUSTED",
        400..500 => "INVALID_ARGUMENT",
        503 | 529 => "UNAVAILABLE",
        _ => "INTERNAL",
    };
    json!({"error": {"code": status, "message": message, "status": kind}})
}
