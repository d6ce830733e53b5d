//! Anthropic Messages: `POST /v1/messages`.
//!
//! Responsible for: this wire's spelling. Must not: judge pairing, order or signatures.

use super::{
    OutPart, Outgoing, check_tools, chunks, event, image, list_of, model_of, refuse_unknown_fields,
    require_alternation, require_stream, result, text_of, unit,
};
use crate::scripted_model::reply::Stop;
use crate::scripted_model::seen::{Findings, Piece, Said, Seen, SeenTool, Turn, Wire};
use serde_json::{Value, json};

const FIELDS: &[&str] = &[
    "model",
    "max_tokens",
    "messages",
    "system",
    "tools",
    "tool_choice",
    "stream",
    "thinking",
    "output_config",
    "metadata",
    "temperature",
    "top_p",
    "top_k",
    "stop_sequences",
    "service_tier",
    "cache_control",
    "context_management",
    "container",
    "mcp_servers",
];

pub(super) fn parse(body: &Value, findings: &mut Findings) -> Seen {
    refuse_unknown_fields(body, FIELDS, findings);
    require_stream(body, findings);
    check_limits(body, findings);
    let tools: Vec<SeenTool> = list_of(body, "tools")
        .iter()
        .map(|tool| SeenTool {
            name: text_of(tool, "name").to_owned(),
            parameters: tool.get("input_schema").cloned().unwrap_or_default(),
        })
        .collect();
    check_tools(&tools, findings);
    let mut units: Vec<String> = list_of(body, "tools").iter().map(|t| unit("tool", t)).collect();
    let system = system(body, &mut units, findings);
    let mut turns = Vec::new();
    let mut roles = Vec::new();
    for (index, message) in list_of(body, "messages").iter().enumerate() {
        let at = format!("messages.{index}");
        let blocks = blocks_of(message, &at, findings);
        let role = text_of(message, "role");
        units.extend(blocks.iter().map(|block| unit(role, block)));
        match role {
            "user" => user(&blocks, &at, &mut turns, findings),
            "assistant" => turns.push(Turn::Assistant(assistant(&blocks, &at, findings))),
            other => findings.add("role", &at, format!("unexpected role `{other}`")),
        }
        roles.push((at, role));
    }
    require_alternation(&roles, findings);
    check_history(body, &tools, &turns, findings);
    let session = body.pointer("/metadata/user_id").and_then(Value::as_str).unwrap_or_default();
    Seen {
        wire: Wire::Anthropic,
        model: model_of(body, findings),
        session: session.to_owned(),
        system,
        tools,
        turns,
        compaction: false,
        extras: false,
        units,
    }
}

fn check_limits(body: &Value, findings: &mut Findings) {
    let limit = body.get("max_tokens").and_then(Value::as_u64).unwrap_or(0);
    if limit == 0 {
        findings.add("field-missing", "max_tokens", "a positive number is required");
    }
    if body.pointer("/thinking/type").and_then(Value::as_str) == Some("enabled") {
        let budget = body.pointer("/thinking/budget_tokens").and_then(Value::as_u64).unwrap_or(0);
        if !(1024..limit).contains(&budget) {
            findings.add(
                "thinking-budget",
                "thinking.budget_tokens",
                "must be at least 1024 and less than `max_tokens`",
            );
        }
        if body.get("temperature").is_some_and(|t| t.as_f64() != Some(1.0)) {
            findings.add("thinking-budget", "temperature", "may only be 1 when thinking");
        }
    }
    let marks = count_marks(body);
    if marks > 4 {
        let message = format!("a maximum of 4 blocks with cache_control, found {marks}");
        findings.add("cache-marks", "cache_control", message);
    }
}

/// What this wire asks of a history with calls.
fn check_history(body: &Value, tools: &[SeenTool], turns: &[Turn], findings: &mut Findings) {
    let calls = |turn: &Turn| matches!(turn, Turn::Assistant(said) if said.iter().any(|s| matches!(s, Said::Call { .. })));
    if tools.is_empty() && turns.iter().any(calls) {
        let message = "requests which include `tool_use` blocks must define tools";
        findings.add("tools-undefined", "tools", message);
    }
    let budgeted = body.pointer("/thinking/type").and_then(Value::as_str) == Some("enabled");
    if let [.., turn @ Turn::Assistant(said), Turn::Results(_)] = turns
        && budgeted
        && calls(turn)
        && !matches!(said.first(), Some(Said::Thinking { .. }))
    {
        let at = format!("turn {} (assistant)", turns.len() - 2);
        let message = "Expected `thinking` or `redacted_thinking` as the first block";
        findings.add("thinking-first", at, message);
    }
}

fn count_marks(value: &Value) -> usize {
    match value {
        Value::Object(map) => {
            usize::from(map.contains_key("cache_control"))
                + map
                    .iter()
                    .filter(|(key, _)| !matches!(key.as_str(), "input" | "input_schema"))
                    .map(|(_, inner)| count_marks(inner))
                    .sum::<usize>()
        }
        Value::Array(items) => items.iter().map(count_marks).sum(),
        _ => 0,
    }
}

fn system(body: &Value, units: &mut Vec<String>, findings: &mut Findings) -> String {
    match body.get("system") {
        None => String::new(),
        Some(Value::String(text)) => {
            units.push(unit("system", &json!({"type": "text", "text": text})));
            text.clone()
        }
        Some(_) => {
            let mut texts = Vec::new();
            for (index, block) in list_of(body, "system").iter().enumerate() {
                units.push(unit("system", block));
                let text = text_of(block, "text");
                if text.trim().is_empty() {
                    let at = format!("system.{index}");
                    findings.add("empty-text", at, "text content blocks must be non-empty");
                }
                texts.push(text);
            }
            texts.join("\n")
        }
    }
}

/// A message's blocks; a plain string is one text block.
fn blocks_of(message: &Value, at: &str, findings: &mut Findings) -> Vec<Value> {
    match message.get("content") {
        Some(Value::String(text)) => vec![json!({"type": "text", "text": text})],
        Some(Value::Array(blocks)) => blocks.clone(),
        _ => {
            findings.add("field-missing", format!("{at}.content"), "content is required");
            Vec::new()
        }
    }
}

fn user(blocks: &[Value], at: &str, turns: &mut Vec<Turn>, findings: &mut Findings) {
    let (mut results, mut pieces) = (Vec::new(), Vec::new());
    for (index, block) in blocks.iter().enumerate() {
        let at = format!("{at}.content.{index}");
        if text_of(block, "type") == "tool_result" {
            if !pieces.is_empty() {
                findings.add("results-first", &at, "`tool_result` blocks must come first");
            }
            let inner: Vec<Piece> = match block.get("content") {
                Some(Value::String(text)) => vec![Piece::Text(text.clone())],
                _ => list_of(block, "content")
                    .iter()
                    .filter_map(|inner| piece(inner, &at, findings))
                    .collect(),
            };
            let is_error = block.get("is_error") == Some(&Value::Bool(true));
            results.push(result(text_of(block, "tool_use_id"), "", &inner, is_error));
        } else {
            pieces.extend(piece(block, &at, findings));
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

fn piece(block: &Value, at: &str, findings: &mut Findings) -> Option<Piece> {
    match text_of(block, "type") {
        "text" => Some(Piece::Text(text_of(block, "text").to_owned())),
        "image" => {
            let source = block.get("source").unwrap_or(&Value::Null);
            let (kind, data) = (text_of(source, "media_type"), text_of(source, "data"));
            Some(image(Wire::Anthropic, kind, data, at, findings))
        }
        other => {
            findings.add("block", at, format!("unexpected block `{other}` in a user message"));
            None
        }
    }
}

fn assistant(blocks: &[Value], at: &str, findings: &mut Findings) -> Vec<Said> {
    let mut said = Vec::new();
    for (index, block) in blocks.iter().enumerate() {
        let at = format!("{at}.content.{index}");
        let own = |key: &str| text_of(block, key).to_owned();
        let proof = |key: &str| block.get(key).and_then(Value::as_str).map(str::to_owned);
        match text_of(block, "type") {
            "text" => said.push(Said::Text { text: own("text"), signature: None }),
            "thinking" => said.push(Said::Thinking {
                text: own("thinking"),
                signature: proof("signature"),
                redacted: false,
            }),
            "redacted_thinking" => said.push(Said::Thinking {
                text: String::new(),
                signature: proof("data"),
                redacted: true,
            }),
            "tool_use" => {
                let legal = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
                if !own("id").chars().all(legal) {
                    findings.add("call-id", &at, format!("illegal call id `{}`", own("id")));
                }
                said.push(Said::Call {
                    id: own("id"),
                    name: own("name"),
                    arguments: block.get("input").unwrap_or(&Value::Null).to_string(),
                    signature: None,
                });
            }
            other => {
                let message = format!("unexpected block `{other}` in an assistant message");
                findings.add("block", &at, message);
            }
        }
        let marked = block.get("cache_control").is_some();
        if marked && text_of(block, "type").ends_with("thinking") {
            findings.add("cache-marks", at, "`cache_control` is not allowed on thinking");
        }
    }
    said
}

pub(super) fn encode(reply: &Outgoing) -> Vec<String> {
    let usage = reply.usage;
    let numbers = |output: u64| {
        json!({
            "input_tokens": usage.input,
            "cache_creation_input_tokens": usage.cache_write,
            "cache_read_input_tokens": usage.cache_read,
            "output_tokens": output,
        })
    };
    let message = json!({
        "id": format!("msg_{}", reply.tag), "type": "message", "role": "assistant",
        "model": reply.model, "content": [], "stop_reason": null, "stop_sequence": null,
        "usage": numbers(1),
    });
    let mut events = vec![
        event("message_start", &json!({"type": "message_start", "message": message})),
        event("ping", &json!({"type": "ping"})),
    ];
    for (index, part) in reply.parts.iter().enumerate() {
        encode_block(index, part, &mut events);
    }
    let stop = match reply.stop {
        Stop::End => "end_turn",
        Stop::Tools => "tool_use",
        Stop::Length => "max_tokens",
        Stop::Refusal => "refusal",
    };
    let delta = json!({"stop_reason": stop, "stop_sequence": null});
    let end = json!({"type": "message_delta", "delta": delta, "usage": numbers(usage.output)});
    events.push(event("message_delta", &end));
    events.push(event("message_stop", &json!({"type": "message_stop"})));
    events
}

fn encode_block(index: usize, part: &OutPart, events: &mut Vec<String>) {
    let (start, deltas) = match part {
        OutPart::Thinking { signature, redacted: true, .. } => {
            (json!({"type": "redacted_thinking", "data": signature}), Vec::new())
        }
        OutPart::Thinking { text, signature, .. } => {
            let pieces = chunks(text).into_iter();
            let mut deltas: Vec<Value> =
                pieces.map(|t| json!({"type": "thinking_delta", "thinking": t})).collect();
            deltas.push(json!({"type": "signature_delta", "signature": signature}));
            (json!({"type": "thinking", "thinking": "", "signature": ""}), deltas)
        }
        OutPart::Text(text) => {
            let pieces = chunks(text).into_iter();
            let deltas = pieces.map(|t| json!({"type": "text_delta", "text": t})).collect();
            (json!({"type": "text", "text": ""}), deltas)
        }
        OutPart::Call { id, name, arguments } => {
            let pieces = [""].into_iter().chain(chunks(arguments));
            let deltas =
                pieces.map(|t| json!({"type": "input_json_delta", "partial_json": t})).collect();
            (json!({"type": "tool_use", "id": id, "name": name, "input": {}}), deltas)
        }
    };
    let value = json!({"type": "content_block_start", "index": index, "content_block": start});
    events.push(event("content_block_start", &value));
    for delta in deltas {
        let value = json!({"type": "content_block_delta", "index": index, "delta": delta});
        events.push(event("content_block_delta", &value));
    }
    let value = json!({"type": "content_block_stop", "index": index});
    events.push(event("content_block_stop", &value));
}

pub(super) fn error_body(status: u16, message: &str) -> Value {
    let kind = match status {
        401 => "authentication_error",
        403 => "permission_error",
        404 => "not_found_error",
        413 => "request_too_large",
        429 => "rate_limit_error",
        529 => "overloaded_error",
        400..500 => "invalid_request_error",
        _ => "api_error",
    };
    json!({"type": "error", "error": {"type": kind, "message": message}})
}
