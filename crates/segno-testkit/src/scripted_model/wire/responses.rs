//! OpenAI Responses: `POST /v1/responses`, without state on the server.
//!
//! Responsible for: this wire's spelling. Must not: judge pairing, order or signatures.

use super::{
    Incoming, OutPart, Outgoing, check_tools, chunks, data_url, event, list_of, model_of,
    refuse_unknown_fields, require_stream, result, text_of, unit,
};
use crate::scripted_model::reply::Stop;
use crate::scripted_model::seen::{Findings, Piece, Said, Seen, SeenTool, Turn, Wire};
use crate::scripted_model::signature::Verified;
use crate::scripted_model::state;
use serde_json::{Value, json};

/// What a request for a state may hold.
const COMPACTION_FIELDS: &[&str] = &[
    "model",
    "input",
    "instructions",
    "previous_response_id",
    "prompt_cache_key",
    "prompt_cache_options",
    "prompt_cache_retention",
    "service_tier",
];

pub(super) fn parse(incoming: &Incoming<'_>, findings: &mut Findings) -> Seen {
    let body = incoming.body;
    if body.get("previous_response_id").is_some_and(|id| !id.is_null()) {
        let message = "this server stores no responses";
        findings.add("server-state", "previous_response_id", message);
    }
    if incoming.compaction {
        refuse_unknown_fields(body, COMPACTION_FIELDS, findings);
    } else {
        require_stream(body, findings);
    }
    if !incoming.compaction && body.get("store") != Some(&Value::Bool(false)) {
        findings.add("server-state", "store", "must be false: this server stores no responses");
    }
    let tools: Vec<SeenTool> = list_of(body, "tools").iter().filter_map(tool).collect();
    check_tools(&tools, findings);
    let mut units: Vec<String> = list_of(body, "tools").iter().map(|t| unit("tool", t)).collect();
    let instructions = text_of(body, "instructions");
    units.push(unit("system", &json!(instructions)));
    let model = model_of(body, findings);
    let scope = state::scope(&model, incoming.host);
    let mut items = Items { system: vec![instructions.to_owned()], turns: Vec::new(), scope };
    if let Some(text) = body.get("input").and_then(Value::as_str) {
        units.push(unit("user", &json!({"type": "input_text", "text": text})));
        items.turns.push(Turn::User(vec![Piece::Text(text.to_owned())]));
    }
    for (index, item) in list_of(body, "input").iter().enumerate() {
        push_units(item, &mut units);
        items.push(item, &format!("input.{index}"), findings);
    }
    let include = list_of(body, "include").iter().filter_map(Value::as_str);
    let system: Vec<String> = items.system.into_iter().filter(|s| !s.is_empty()).collect();
    Seen {
        wire: Wire::Responses,
        model,
        session: text_of(body, "prompt_cache_key").to_owned(),
        system: system.join("\n"),
        tools,
        turns: items.turns,
        compaction: incoming.compaction,
        extras: include.into_iter().any(|what| what == "reasoning.encrypted_content"),
        units,
    }
}

/// A tool that the client runs. Groups of tools and free-form ones have no arguments of their own; what the
/// provider runs itself has no name.
fn tool(tool: &Value) -> Option<SeenTool> {
    let name = text_of(tool, "name").to_owned();
    match text_of(tool, "type") {
        "namespace" | "custom" => Some(SeenTool { name, parameters: json!({"type": "object"}) }),
        "" | "function" => {
            let parameters = tool.get("parameters").cloned().unwrap_or_default();
            Some(SeenTool { name, parameters })
        }
        _ => None,
    }
}

/// A message's parts one by one; any other item as a whole.
fn push_units(item: &Value, units: &mut Vec<String>) {
    let role = text_of(item, "role");
    match item.get("content") {
        Some(Value::Array(parts)) if !role.is_empty() => {
            units.extend(parts.iter().map(|part| unit(role, part)));
        }
        Some(Value::String(text)) if role == "user" => {
            units.push(unit(role, &json!({"type": "input_text", "text": text})));
        }
        _ => units.push(unit("item", item)),
    }
}

/// The flat list of items, gathered into turns.
struct Items {
    system: Vec<String>,
    turns: Vec<Turn>,
    /// What states are bound to here.
    scope: String,
}

impl Items {
    fn push(&mut self, item: &Value, at: &str, findings: &mut Findings) {
        let kind = match text_of(item, "type") {
            "" if item.get("role").is_some() => "message",
            kind => kind,
        };
        let own = |key: &str| text_of(item, key).to_owned();
        match kind {
            "message" => self.message(item, at, findings),
            "reasoning" => {
                check_id(item, "rs_", at, findings);
                let summary = list_of(item, "summary").iter().map(|part| text_of(part, "text"));
                let proof = item.get("encrypted_content").and_then(Value::as_str);
                self.say(Said::Thinking {
                    text: summary.collect::<Vec<_>>().join("\n"),
                    signature: proof.map(str::to_owned),
                    redacted: false,
                });
            }
            "function_call" => {
                check_id(item, "fc_", at, findings);
                self.say(Said::Call {
                    id: own("call_id"),
                    name: own("name"),
                    arguments: own("arguments"),
                    signature: None,
                });
            }
            "custom_tool_call" => {
                check_id(item, "ctc_", at, findings);
                let arguments = json!({"input": own("input")}).to_string();
                let (id, name) = (own("call_id"), own("name"));
                self.say(Said::Call { id, name, arguments, signature: None });
            }
            "function_call_output" | "custom_tool_call_output" => {
                let pieces = match item.get("output") {
                    Some(Value::String(text)) => vec![Piece::Text(text.clone())],
                    _ => parts(item, "output", at, findings),
                };
                let answer = result(text_of(item, "call_id"), "", &pieces, false);
                match self.turns.last_mut() {
                    Some(Turn::Results(results)) => results.push(answer),
                    _ => self.turns.push(Turn::Results(vec![answer])),
                }
            }
            "compaction" => {
                check_id(item, "cmp_", at, findings);
                let whole = &self.turns;
                match state::open(&self.scope, whole, text_of(item, "encrypted_content")) {
                    Ok(told) => self.turns.push(Turn::User(vec![Piece::Text(told)])),
                    Err(broken) => {
                        let rule = match broken {
                            Verified::Foreign => "foreign-state",
                            _ => "altered-state",
                        };
                        let message = "The encrypted content could not be verified. Reason: it could not \
                            be decrypted or parsed.";
                        findings.add(rule, at, message);
                        self.turns.push(Turn::User(vec![Piece::Text("(unreadable)".to_owned())]));
                    }
                }
            }
            other => findings.add("block", at, format!("unexpected item `{other}`")),
        }
    }

    fn message(&mut self, item: &Value, at: &str, findings: &mut Findings) {
        let pieces = match item.get("content") {
            Some(Value::String(text)) => vec![Piece::Text(text.clone())],
            _ => parts(item, "content", at, findings),
        };
        match text_of(item, "role") {
            "system" | "developer" if self.turns.is_empty() => {
                self.system.push(result("", "", &pieces, false).text);
            }
            "user" | "developer" => self.turns.push(Turn::User(pieces)),
            "assistant" => {
                check_id(item, "msg_", at, findings);
                let before = self.turns.len();
                for piece in pieces {
                    if let Piece::Text(text) = piece {
                        self.say(Said::Text { text, signature: None });
                    }
                }
                if before == self.turns.len() && list_of(item, "content").is_empty() {
                    self.turns.push(Turn::Assistant(Vec::new()));
                }
            }
            other => findings.add("role", at, format!("unexpected role `{other}`")),
        }
    }

    /// Items of the model in a row belong to one turn.
    fn say(&mut self, said: Said) {
        match self.turns.last_mut() {
            Some(Turn::Assistant(all)) => all.push(said),
            _ => self.turns.push(Turn::Assistant(vec![said])),
        }
    }
}

fn check_id(item: &Value, prefix: &str, at: &str, findings: &mut Findings) {
    let id = item.get("id").and_then(Value::as_str);
    if id.is_some_and(|id| !id.starts_with(prefix)) {
        let message = format!("expected an id that begins with `{prefix}`");
        findings.add("item-id", format!("{at}.id"), message);
    }
}

fn parts(item: &Value, key: &str, at: &str, findings: &mut Findings) -> Vec<Piece> {
    let mut pieces = Vec::new();
    let assistant = text_of(item, "role") == "assistant";
    for (index, part) in list_of(item, key).iter().enumerate() {
        let at = format!("{at}.{key}.{index}");
        match (text_of(part, "type"), assistant) {
            ("input_text", false) | ("output_text", true) => {
                pieces.push(Piece::Text(text_of(part, "text").to_owned()));
            }
            ("refusal", true) => pieces.push(Piece::Text(text_of(part, "refusal").to_owned())),
            ("input_image", false) => {
                pieces.push(data_url(Wire::Responses, text_of(part, "image_url"), &at, findings));
            }
            (other, _) => findings.add("block", at, format!("unexpected part `{other}` here")),
        }
    }
    pieces
}

/// Numbers the events as they are made.
struct Stream {
    events: Vec<String>,
    output: Vec<Value>,
}

impl Stream {
    fn emit(&mut self, kind: &str, fields: Value) {
        let mut value = json!({"type": kind, "sequence_number": self.events.len()});
        if let (Some(value), Value::Object(fields)) = (value.as_object_mut(), fields) {
            value.extend(fields);
        }
        self.events.push(event(kind, &value));
    }

    /// Opens an item, lets `body` stream its inside, and closes it as `done`.
    fn item(&mut self, open: &Value, done: &Value, body: impl FnOnce(&mut Self, usize, &str)) {
        let index = self.output.len();
        self.emit("response.output_item.added", json!({"output_index": index, "item": open}));
        body(self, index, text_of(done, "id"));
        self.emit("response.output_item.done", json!({"output_index": index, "item": done}));
        self.output.push(done.clone());
    }
}

pub(super) fn encode(reply: &Outgoing) -> Vec<String> {
    let mut stream = Stream { events: Vec::new(), output: Vec::new() };
    let opening = response(reply, "in_progress", &[], &Value::Null);
    stream.emit("response.created", json!({"response": opening}));
    stream.emit("response.in_progress", json!({"response": opening}));
    for (index, part) in reply.parts.iter().enumerate() {
        let tag = format!("{}{index:02}", reply.tag);
        match part {
            OutPart::Thinking { text, signature, redacted } => {
                let shown = if *redacted { "" } else { text.as_str() };
                encode_reasoning(&mut stream, &tag, shown, reply.extras.then_some(signature));
            }
            OutPart::Text(text) => encode_text(&mut stream, &tag, text),
            OutPart::Call { id, name, arguments } => {
                encode_call(&mut stream, &tag, [id, name, arguments]);
            }
        }
    }
    let (kind, status) = match reply.stop {
        Stop::Length | Stop::Refusal => ("response.incomplete", "incomplete"),
        Stop::End | Stop::Tools => ("response.completed", "completed"),
    };
    let closing = response(reply, status, &stream.output, &usage(reply));
    stream.emit(kind, json!({"response": closing}));
    stream.events
}

fn encode_reasoning(stream: &mut Stream, tag: &str, text: &str, signature: Option<&String>) {
    let id = format!("rs_{tag}");
    let open = json!({"id": id, "type": "reasoning", "summary": []});
    let mut done = open.clone();
    if !text.is_empty() {
        done["summary"] = json!([{"type": "summary_text", "text": text}]);
    }
    if let Some(signature) = signature {
        done["encrypted_content"] = json!(signature);
    }
    stream.item(&open, &done, |stream, index, id| {
        if text.is_empty() {
            return;
        }
        let place = json!({"item_id": id, "output_index": index, "summary_index": 0});
        let with = |key: &str, value: Value| with(&place, key, value);
        let empty = json!({"type": "summary_text", "text": ""});
        stream.emit("response.reasoning_summary_part.added", with("part", empty));
        for piece in chunks(text) {
            stream.emit("response.reasoning_summary_text.delta", with("delta", json!(piece)));
        }
        stream.emit("response.reasoning_summary_text.done", with("text", json!(text)));
        let part = json!({"type": "summary_text", "text": text});
        stream.emit("response.reasoning_summary_part.done", with("part", part));
    });
}

fn encode_text(stream: &mut Stream, tag: &str, text: &str) {
    let message = |status: &str, content: Value| {
        json!({
            "id": format!("msg_{tag}"), "type": "message", "status": status,
            "role": "assistant", "content": content,
        })
    };
    let part = |text: &str| json!({"type": "output_text", "text": text, "annotations": []});
    let open = message("in_progress", json!([]));
    let done = message("completed", json!([part(text)]));
    stream.item(&open, &done, |stream, index, id| {
        let place = json!({"item_id": id, "output_index": index, "content_index": 0});
        let with = |key: &str, value: Value| with(&place, key, value);
        stream.emit("response.content_part.added", with("part", part("")));
        for piece in chunks(text) {
            stream.emit("response.output_text.delta", with("delta", json!(piece)));
        }
        stream.emit("response.output_text.done", with("text", json!(text)));
        stream.emit("response.content_part.done", with("part", part(text)));
    });
}

fn encode_call(stream: &mut Stream, tag: &str, [call_id, name, arguments]: [&str; 3]) {
    let call = |status: &str, arguments: &str| {
        json!({
            "id": format!("fc_{tag}"), "type": "function_call", "status": status,
            "call_id": call_id, "name": name, "arguments": arguments,
        })
    };
    stream.item(&call("in_progress", ""), &call("completed", arguments), |stream, index, id| {
        let place = json!({"item_id": id, "output_index": index});
        for piece in chunks(arguments) {
            let delta = with(&place, "delta", json!(piece));
            stream.emit("response.function_call_arguments.delta", delta);
        }
        let whole = with(&place, "arguments", json!(arguments));
        stream.emit("response.function_call_arguments.done", whole);
    });
}

fn with(place: &Value, key: &str, value: Value) -> Value {
    let mut out = place.clone();
    out[key] = value;
    out
}

fn response(reply: &Outgoing, status: &str, output: &[Value], usage: &Value) -> Value {
    let details = match reply.stop {
        _ if status != "incomplete" => Value::Null,
        Stop::Refusal => json!({"reason": "content_filter"}),
        _ => json!({"reason": "max_output_tokens"}),
    };
    json!({
        "id": format!("resp_{}", reply.tag), "object": "response", "created_at": 1_700_000_000,
        "status": status, "error": null, "incomplete_details": details, "model": reply.model,
        "output": output, "store": false, "usage": usage,
    })
}

fn usage(reply: &Outgoing) -> Value {
    let usage = reply.usage;
    json!({
        "input_tokens": usage.whole_input(),
        "input_tokens_details": {"cached_tokens": usage.cache_read},
        "output_tokens": usage.output,
        "output_tokens_details": {"reasoning_tokens": usage.reasoning},
        "total_tokens": usage.whole_input().saturating_add(usage.output),
    })
}

/// The event that ends a stream which fails half-way.
pub(super) fn failed(overloaded: bool, message: &str) -> String {
    let code = if overloaded { "server_is_overloaded" } else { "server_error" };
    let response = json!({
        "object": "response", "status": "failed",
        "error": {"code": code, "message": message}, "output": [], "usage": null,
    });
    event("response.failed", &json!({"type": "response.failed", "response": response}))
}
