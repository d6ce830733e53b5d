//! The four wires: how each spells a request, a reply and an error.
//!
//! Responsible for: choosing the codec of a wire, and what the codecs share. Must not: judge a
//! history (that is neutral and happens once for all wires).

mod anthropic;
mod chat;
mod gemini;
pub(crate) use gemini::text_content;
mod responses;

use super::reply::{Part, Reply, Stop};
use super::seen::{Findings, Piece, Seen, SeenResult, SeenTool, Turn, Wire};
use super::{picture, signature};
use serde_json::{Value, json};

/// A request before it is parsed.
#[derive(Debug)]
pub(crate) struct Incoming<'a> {
    /// The JSON body.
    pub(crate) body: &'a Value,
    /// The model named in the path (Gemini).
    pub(crate) path_model: Option<&'a str>,
    /// The session named in the header.
    pub(crate) session: Option<&'a str>,
    /// What the client calls this server.
    pub(crate) host: &'a str,
    /// Whether a state is asked for (Responses).
    pub(crate) compaction: bool,
}

/// A reply ready to be spelled: ids, signatures and numbers are settled.
#[derive(Debug)]
pub(crate) struct Outgoing {
    /// A tag derived from the request, for the ids of the reply and its items.
    pub(crate) tag: String,
    pub(crate) model: String,
    pub(crate) parts: Vec<OutPart>,
    pub(crate) usage: Usage,
    pub(crate) stop: Stop,
    pub(crate) extras: bool,
}

/// A part of an [`Outgoing`] reply.
#[derive(Debug)]
pub(crate) enum OutPart {
    Thinking { text: String, signature: String, redacted: bool },
    Text(String),
    Call { id: String, name: String, arguments: String },
}

/// Settled numbers.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Usage {
    pub(crate) input: u64,
    pub(crate) output: u64,
    pub(crate) cache_read: u64,
    pub(crate) cache_write: u64,
    pub(crate) reasoning: u64,
}

impl Usage {
    /// Everything on the input side, as wires count it that do not set the cache apart.
    pub(crate) fn whole_input(&self) -> u64 {
        self.input.saturating_add(self.cache_read).saturating_add(self.cache_write)
    }
}

impl Wire {
    /// Parses a request, noting what its shape breaks.
    pub(crate) fn parse(self, incoming: &Incoming<'_>, findings: &mut Findings) -> Seen {
        let mut seen = match self {
            Self::Anthropic => anthropic::parse(incoming.body, findings),
            Self::Responses => responses::parse(incoming, findings),
            Self::Chat => chat::parse(incoming.body, findings),
            Self::Gemini => gemini::parse(incoming, findings),
        };
        picture::together(self, findings);
        if let Some(session) = incoming.session {
            session.clone_into(&mut seen.session);
        }
        if seen.session.is_empty() {
            // Not the system prompt and the tools: if those change, the session must still be the
            // same for the change to be seen.
            let first = seen.turns.first().map(Turn::text).unwrap_or_default();
            let first = first.lines().next().unwrap_or_default();
            seen.session = format!("first-{:016x}", signature::hash(&[first]));
        }
        seen
    }

    /// Spells a reply as the events of this wire's stream.
    pub(crate) fn encode(self, reply: &Outgoing) -> Vec<String> {
        match self {
            Self::Anthropic => anthropic::encode(reply),
            Self::Responses => responses::encode(reply),
            Self::Chat => chat::encode(reply),
            Self::Gemini => gemini::encode(reply),
        }
    }

    /// An error's body.
    pub(crate) fn error_body(self, status: u16, message: &str) -> Value {
        match self {
            Self::Anthropic => anthropic::error_body(status, message),
            Self::Responses | Self::Chat => openai_error(status, message),
            Self::Gemini => gemini::error_body(status, message),
        }
    }

    /// The status and body for a prompt longer than the window.
    pub(crate) fn too_long(self, tokens: u64, window: u64) -> (u16, Value) {
        let message = match self {
            Self::Anthropic => format!("prompt is too long: {tokens} tokens > {window} maximum"),
            Self::Responses | Self::Chat => format!(
                "This model's maximum context length is {window} tokens. However, your messages \
                 resulted in {tokens} tokens. Please reduce the length of the messages."
            ),
            Self::Gemini => format!(
                "The input token count ({tokens}) exceeds the maximum number of tokens allowed \
                 ({window})."
            ),
        };
        let mut body = self.error_body(400, &message);
        if matches!(self, Self::Responses | Self::Chat) {
            body["error"]["code"] = json!("context_length_exceeded");
        }
        (400, body)
    }

    /// The error event inside a stream.
    pub(crate) fn error_event(self, overloaded: bool) -> String {
        let (status, message) = if overloaded {
            (529, "Overloaded: please try again later.")
        } else {
            (500, "Internal server error.")
        };
        match self {
            Self::Anthropic => event("error", &self.error_body(status, message)),
            Self::Responses => responses::failed(overloaded, message),
            Self::Chat | Self::Gemini => {
                data(&self.error_body(if overloaded { 503 } else { 500 }, message))
            }
        }
    }
}

/// OpenAI's error shape, for both of its wires.
fn openai_error(status: u16, message: &str) -> Value {
    let kind = match status {
        401 => "authentication_error",
        403 => "permission_error",
        404 => "not_found_error",
        429 => "rate_limit_error",
        400..500 => "invalid_request_error",
        _ => "server_error",
    };
    let code = match status {
        401 => json!("invalid_api_key"),
        429 => json!("rate_limit_exceeded"),
        503 | 529 => json!("server_is_overloaded"),
        _ if message.contains("encrypted_content") || message.contains("encrypted content") => {
            json!("invalid_encrypted_content")
        }
        _ => Value::Null,
    };
    json!({"error": {"message": message, "type": kind, "param": null, "code": code}})
}

/// Settles what a reply leaves open: ids, signatures, numbers. `cached` counts the request's bytes
/// that the session had sent before.
pub(crate) fn prepare(seen: &Seen, reply: &Reply, cached: usize) -> Outgoing {
    let units: Vec<&str> = seen.units.iter().map(String::as_str).collect();
    let tag = format!("{:016x}", signature::hash(&units));
    let scope = scope(seen);
    let parts: Vec<OutPart> = reply
        .parts
        .iter()
        .enumerate()
        .map(|(index, part)| match part {
            Part::Thinking { text, redacted } => OutPart::Thinking {
                signature: signature::sign(&scope, &thinking_content(text, *redacted)),
                text: text.clone(),
                redacted: *redacted,
            },
            Part::Text(text) => OutPart::Text(text.clone()),
            Part::Call { id, name, arguments } => OutPart::Call {
                id: id.clone().unwrap_or_else(|| call_id(seen, &tag, index)),
                name: name.clone(),
                arguments: arguments.clone(),
            },
        })
        .collect();
    Outgoing {
        usage: settle_usage(seen, reply, cached),
        stop: reply.stop_reason(),
        extras: seen.extras,
        model: seen.model.clone(),
        tag,
        parts,
    }
}

fn call_id(seen: &Seen, tag: &str, index: usize) -> String {
    match seen.wire {
        Wire::Anthropic => format!("toolu_{tag}{index:02}"),
        Wire::Responses | Wire::Chat => format!("call_{tag}{index:02}"),
        // Only newer Gemini models name their calls.
        Wire::Gemini if seen.model.contains("gemini-3") => format!("fc-{tag}{index:02}"),
        Wire::Gemini => String::new(),
    }
}

/// What a signature is bound to besides its content.
pub(crate) fn scope(seen: &Seen) -> String {
    format!("{}/{}", seen.wire.name(), seen.model)
}

/// What the signature of reasoning covers; of hidden reasoning nothing comes back but itself.
pub(crate) fn thinking_content(text: &str, redacted: bool) -> String {
    if redacted || text.is_empty() { "hidden".to_owned() } else { format!("thinking:{text}") }
}

/// What the signature of a call covers: name and arguments, whatever the order of the keys.
pub(crate) fn call_content(name: &str, arguments: &str) -> String {
    let arguments = serde_json::from_str::<Value>(arguments).map(sorted).unwrap_or_default();
    format!("call:{name}:{arguments}")
}

fn sorted(value: Value) -> Value {
    match value {
        Value::Object(map) => {
            let mut entries: Vec<_> = map.into_iter().map(|(k, v)| (k, sorted(v))).collect();
            entries.sort_by(|a, b| a.0.cmp(&b.0));
            Value::Object(entries.into_iter().collect())
        }
        Value::Array(items) => Value::Array(items.into_iter().map(sorted).collect()),
        other => other,
    }
}

/// About four bytes are a token.
fn settle_usage(seen: &Seen, reply: &Reply, cached: usize) -> Usage {
    let tokens = |bytes: usize| (bytes as u64).div_ceil(4);
    let sent: usize = seen.units.iter().map(String::len).sum();
    let (mut said, mut thought) = (0, 0);
    for part in &reply.parts {
        match part {
            Part::Thinking { text, .. } => thought += text.len(),
            Part::Text(text) => said += text.len(),
            Part::Call { name, arguments, .. } => said += name.len() + arguments.len(),
        }
    }
    let given = reply.usage;
    Usage {
        input: given.input.unwrap_or(tokens(sent.saturating_sub(cached))),
        output: given.output.unwrap_or(tokens(said + thought).max(1)),
        cache_read: given.cache_read.unwrap_or(tokens(cached)),
        cache_write: given.cache_write.unwrap_or(0),
        reasoning: given.reasoning.unwrap_or(tokens(thought)),
    }
}

/// One event with a name.
fn event(name: &str, value: &Value) -> String {
    format!("event: {name}\ndata: {value}\n\n")
}

/// One event without a name.
fn data(value: &Value) -> String {
    format!("data: {value}\n\n")
}

/// Cuts text into pieces of uneven size, as streams do: short first, at most about 64 of them.
fn chunks(text: &str) -> Vec<&str> {
    const SIZES: [usize; 4] = [3, 14, 6, 21];
    let at_least = text.len() / 64;
    let (mut out, mut rest, mut sizes) = (Vec::new(), text, SIZES.iter().cycle());
    while !rest.is_empty() {
        let size = at_least + sizes.next().copied().unwrap_or(8);
        let cut = rest.char_indices().map(|(i, _)| i).chain([rest.len()]).find(|i| *i >= size);
        let (piece, tail) = rest.split_at(cut.unwrap_or(rest.len()));
        out.push(piece);
        rest = tail;
    }
    out
}

/// A string field, empty when absent or of another type.
pub(super) fn text_of<'a>(value: &'a Value, key: &str) -> &'a str {
    value.get(key).and_then(Value::as_str).unwrap_or_default()
}

/// An array field, empty when absent or of another type.
pub(super) fn list_of<'a>(value: &'a Value, key: &str) -> &'a [Value] {
    value.get(key).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

/// The requested model; a request without one is noted.
fn model_of(body: &Value, findings: &mut Findings) -> String {
    let model = text_of(body, "model");
    if model.is_empty() {
        findings.add("field-missing", "model", "a model is required");
    }
    model.to_owned()
}

/// Notes a request that does not ask for a stream: this server only streams.
fn require_stream(body: &Value, findings: &mut Findings) {
    if body.get("stream") != Some(&Value::Bool(true)) {
        findings.add("not-streaming", "stream", "this server answers only with `stream: true`");
    }
}

/// Notes top-level fields that the wire does not define.
fn refuse_unknown_fields(body: &Value, known: &[&str], findings: &mut Findings) {
    for key in body.as_object().into_iter().flat_map(|map| map.keys()) {
        if !known.contains(&key.as_str()) {
            findings.add("unknown-field", key, "extra inputs are not permitted");
        }
    }
}

/// Notes two messages of one role in a row, which strict servers and prompt templates refuse.
fn require_alternation(roles: &[(String, &str)], findings: &mut Findings) {
    for pair in roles.windows(2) {
        if pair[0].1 == pair[1].1 && pair[0].1 != "tool" {
            let message = format!("two messages of role `{}` in a row", pair[1].1);
            findings.add("roles-alternate", &pair[1].0, message);
        }
    }
}

/// Notes tools without a usable name or schema.
fn check_tools(tools: &[SeenTool], findings: &mut Findings) {
    for (index, tool) in tools.iter().enumerate() {
        let at = format!("tools.{index}");
        let legal = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
        if tool.name.is_empty() || tool.name.len() > 64 || !tool.name.chars().all(legal) {
            findings.add("tool-name", &at, format!("illegal tool name `{}`", tool.name));
        }
        if tools[..index].iter().any(|other| other.name == tool.name) {
            findings.add("tool-name", &at, format!("tool `{}` is there twice", tool.name));
        }
        if text_of(&tool.parameters, "type") != "object" {
            findings.add("tool-schema", &at, "the arguments' schema must be of type `object`");
        }
    }
}

/// Notes an image that the provider does not take; gives it as a piece.
fn image(wire: Wire, media_type: &str, base64: &str, at: &str, findings: &mut Findings) -> Piece {
    picture::judge(wire, media_type, base64, at, findings);
    Piece::Image { media_type: media_type.to_owned(), base64_bytes: base64.len() }
}

/// The image of a `data:` URL.
fn data_url(wire: Wire, url: &str, at: &str, findings: &mut Findings) -> Piece {
    let parts = url.strip_prefix("data:").and_then(|rest| rest.split_once(";base64,"));
    let (media_type, base64) = parts.unwrap_or_default();
    image(wire, media_type, base64, at, findings)
}

/// A result from the pieces of its content.
fn result(call_id: &str, name: &str, pieces: &[Piece], is_error: bool) -> SeenResult {
    let texts: Vec<&str> = pieces
        .iter()
        .filter_map(|p| match p {
            Piece::Text(text) => Some(text.as_str()),
            Piece::Image { .. } => None,
        })
        .collect();
    SeenResult {
        call_id: call_id.to_owned(),
        name: name.to_owned(),
        images: pieces.len() - texts.len(),
        text: texts.join("\n"),
        is_error,
    }
}

/// A value as the prompt cache sees it: cache marks are not part of the prompt.
fn unit(role: &str, value: &Value) -> String {
    match value.as_object() {
        Some(map) if map.contains_key("cache_control") => {
            let kept = map.iter().filter(|(k, _)| *k != "cache_control");
            let kept: Value = kept.map(|(k, v)| (k.clone(), v.clone())).collect();
            format!("{role}:{kept}")
        }
        _ => format!("{role}:{value}"),
    }
}
