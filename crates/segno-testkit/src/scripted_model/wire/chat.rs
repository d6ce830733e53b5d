//! Chat Completions: `POST /v1/chat/completions`, as OpenAI-compatible servers speak it.
//!
//! Responsible for: this wire's spelling. Must not: judge pairing, order or signatures.

use super::{
    OutPart, Outgoing, check_tools, chunks, data, data_url, list_of, model_of, require_alternation,
    require_stream, result, text_of, unit,
};
use crate::scripted_model::reply::Stop;
use crate::scripted_model::seen::{Findings, Piece, Said, Seen, SeenResult, SeenTool, Turn, Wire};
use serde_json::{Value, json};

pub(super) fn parse(body: &Value, findings: &mut Findings) -> Seen {
    require_stream(body, findings);
    refuse_empty_list(body, "tools", "tools", findings);
    let tools: Vec<SeenTool> = list_of(body, "tools")
        .iter()
        .map(|tool| SeenTool {
            name: tool.pointer("/function/name").and_then(Value::as_str).unwrap_or("").to_owned(),
            parameters: tool.pointer("/function/parameters").cloned().unwrap_or_default(),
        })
        .collect();
    check_tools(&tools, findings);
    let mut units: Vec<String> = list_of(body, "tools").iter().map(|t| unit("tool", t)).collect();
    let (mut system, mut turns, mut roles) = (Vec::new(), Vec::<Turn>::new(), Vec::new());
    for (index, message) in list_of(body, "messages").iter().enumerate() {
        let at = format!("messages.{index}");
        let role = text_of(message, "role");
        push_units(message, role, &mut units);
        match role {
            "system" | "developer" if turns.is_empty() => {
                system.push(joined(&content(message, &at, findings)));
            }
            "user" => turns.push(Turn::User(content(message, &at, findings))),
            "assistant" => turns.push(Turn::Assistant(assistant(message, &at, findings))),
            "tool" => push_result(tool_result(message, &at, findings), &mut turns),
            other => findings.add("role", &at, format!("unexpected role `{other}` here")),
        }
        roles.push((at, role));
    }
    if system.len() > 1 {
        findings.add("role", "messages", "more than one system message");
    }
    if system.iter().any(|text| text.trim().is_empty()) {
        findings.add("empty-text", "messages.0", "the system message is empty");
    }
    require_alternation(&roles, findings);
    Seen {
        wire: Wire::Chat,
        model: model_of(body, findings),
        session: text_of(body, "prompt_cache_key").to_owned(),
        system: system.join("\n"),
        tools,
        turns,
        compaction: false,
        extras: body.pointer("/stream_options/include_usage") == Some(&Value::Bool(true)),
        units,
    }
}

/// The parts of a message's content one by one, then whatever else it carries.
fn push_units(message: &Value, role: &str, units: &mut Vec<String>) {
    match message.get("content") {
        Some(Value::String(text)) => {
            units.push(unit(role, &json!({"type": "text", "text": text})));
        }
        Some(Value::Array(parts)) => units.extend(parts.iter().map(|part| unit(role, part))),
        _ => {}
    }
    let beside = |key: &str| !matches!(key, "role" | "content" | "cache_control");
    let rest: Value = message
        .as_object()
        .into_iter()
        .flatten()
        .filter(|(key, _)| beside(key))
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect();
    if rest.as_object().is_some_and(|map| !map.is_empty()) {
        units.push(unit(role, &rest));
    }
}

fn refuse_empty_list(value: &Value, key: &str, at: &str, findings: &mut Findings) {
    if value.get(key).and_then(Value::as_array).is_some_and(Vec::is_empty) {
        findings.add("empty-list", at, format!("`{key}` is an empty list; leave it out"));
    }
}

fn joined(pieces: &[Piece]) -> String {
    result("", "", pieces, false).text
}

fn content(message: &Value, at: &str, findings: &mut Findings) -> Vec<Piece> {
    let Some(parts) = message.get("content").and_then(Value::as_array) else {
        return match message.get("content") {
            Some(Value::String(text)) => vec![Piece::Text(text.clone())],
            _ => Vec::new(),
        };
    };
    let mut pieces = Vec::new();
    for (index, part) in parts.iter().enumerate() {
        let at = format!("{at}.content.{index}");
        match text_of(part, "type") {
            "text" => pieces.push(Piece::Text(text_of(part, "text").to_owned())),
            "image_url" => {
                let url = part.pointer("/image_url/url").and_then(Value::as_str);
                pieces.push(data_url(Wire::Chat, url.unwrap_or_default(), &at, findings));
            }
            other => findings.add("block", at, format!("unexpected part `{other}`")),
        }
    }
    pieces
}

fn assistant(message: &Value, at: &str, findings: &mut Findings) -> Vec<Said> {
    let mut said = Vec::new();
    for key in ["reasoning_content", "reasoning"] {
        if let Some(text) = message.get(key).and_then(Value::as_str) {
            said.push(Said::Thinking { text: text.to_owned(), signature: None, redacted: false });
        }
    }
    for piece in content(message, at, findings) {
        match piece {
            Piece::Text(text) => said.push(Said::Text { text, signature: None }),
            Piece::Image { .. } => findings.add("block", at, "an image in an assistant message"),
        }
    }
    refuse_empty_list(message, "tool_calls", at, findings);
    for (index, call) in list_of(message, "tool_calls").iter().enumerate() {
        if text_of(call, "type") != "function" {
            let at = format!("{at}.tool_calls.{index}");
            findings.add("block", at, "a tool call must be of type `function`");
        }
        let function = call.get("function").unwrap_or(&Value::Null);
        said.push(Said::Call {
            id: text_of(call, "id").to_owned(),
            name: text_of(function, "name").to_owned(),
            arguments: text_of(function, "arguments").to_owned(),
            signature: None,
        });
    }
    said
}

fn tool_result(message: &Value, at: &str, findings: &mut Findings) -> SeenResult {
    let pieces = content(message, at, findings);
    result(text_of(message, "tool_call_id"), text_of(message, "name"), &pieces, false)
}

/// Results in a row belong to one turn.
fn push_result(result: SeenResult, turns: &mut Vec<Turn>) {
    match turns.last_mut() {
        Some(Turn::Results(results)) => results.push(result),
        _ => turns.push(Turn::Results(vec![result])),
    }
}

pub(super) fn encode(reply: &Outgoing) -> Vec<String> {
    let chunk = |delta: &Value, finish: &Value| {
        let choice = json!({"index": 0, "delta": delta, "finish_reason": finish});
        data(&envelope(reply, &json!([choice]), None))
    };
    let open = json!({"role": "assistant", "content": ""});
    let mut events = vec![chunk(&open, &Value::Null)];
    let mut calls = 0;
    for part in &reply.parts {
        let deltas: Vec<Value> = match part {
            OutPart::Thinking { redacted: true, .. } => Vec::new(),
            OutPart::Thinking { text, .. } => {
                chunks(text).into_iter().map(|t| json!({"reasoning_content": t})).collect()
            }
            OutPart::Text(text) => {
                chunks(text).into_iter().map(|t| json!({"content": t})).collect()
            }
            OutPart::Call { id, name, arguments } => {
                calls += 1;
                call_deltas(calls - 1, id, name, arguments)
            }
        };
        events.extend(deltas.iter().map(|delta| chunk(delta, &Value::Null)));
    }
    let finish = match reply.stop {
        Stop::End => "stop",
        Stop::Tools => "tool_calls",
        Stop::Length => "length",
        Stop::Refusal => "content_filter",
    };
    events.push(chunk(&json!({}), &json!(finish)));
    if reply.extras {
        events.push(data(&envelope(reply, &json!([]), Some(usage(reply)))));
    }
    events.push("data: [DONE]\n\n".to_owned());
    events
}

fn call_deltas(index: usize, id: &str, name: &str, arguments: &str) -> Vec<Value> {
    let open = json!({"tool_calls": [{
        "index": index, "id": id, "type": "function",
        "function": {"name": name, "arguments": ""},
    }]});
    let more = chunks(arguments)
        .into_iter()
        .map(|t| json!({"tool_calls": [{"index": index, "function": {"arguments": t}}]}));
    [open].into_iter().chain(more).collect()
}

fn envelope(reply: &Outgoing, choices: &Value, usage: Option<Value>) -> Value {
    let mut value = json!({
        "id": format!("chatcmpl-{}", reply.tag), "object": "chat.completion.chunk",
        "created": 1_700_000_000, "model": reply.model, "choices": choices,
    });
    if let Some(usage) = usage {
        value["usage"] = usage;
    }
    value
}

fn usage(reply: &Outgoing) -> Value {
    let usage = reply.usage;
    json!({
        "prompt_tokens": usage.whole_input(),
        "completion_tokens": usage.output,
        "total_tokens": usage.whole_input().saturating_add(usage.output),
        "prompt_tokens_details": {"cached_tokens": usage.cache_read},
        "completion_tokens_details": {"reasoning_tokens": usage.reasoning},
    })
}
