//! A bare HTTP client that sees everything: chunks, broken ends, halves of characters.
//!
//! Responsible for: one request per connection, and what a reply says in neutral terms. Must not:
//! hide anything that arrived.

use segno_testkit::scripted_model::{ScriptedModel, Wire};
use serde_json::Value;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

/// What came back.
#[derive(Debug)]
pub(crate) struct Response {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
    /// Whether the body ended as it should.
    pub(crate) whole: bool,
}

impl Response {
    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).expect("a JSON body")
    }

    /// The data of the events so far.
    pub(crate) fn events(&self) -> Vec<String> {
        self.text().lines().filter_map(|l| l.strip_prefix("data: ")).map(str::to_owned).collect()
    }
}

/// Opens a connection.
pub(crate) fn connect(server: &ScriptedModel) -> TcpStream {
    let url = server.url();
    let stream = TcpStream::connect(url.trim_start_matches("http://")).expect("a connection");
    stream.set_read_timeout(Some(Duration::from_secs(20))).expect("a timeout");
    stream
}

/// Writes one request.
pub(crate) fn send(stream: &mut TcpStream, line: &str, headers: &[(&str, &str)], body: &str) {
    let mut text = format!("{line} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n");
    for (name, value) in headers {
        text.push_str(&format!("{name}: {value}\r\n"));
    }
    text.push_str(&format!("content-length: {}\r\n\r\n{body}", body.len()));
    stream.write_all(text.as_bytes()).expect("the request is sent");
}

/// One request, read to its end.
pub(crate) fn http(
    server: &ScriptedModel,
    line: &str,
    headers: &[(&str, &str)],
    body: &str,
) -> Response {
    let mut stream = connect(server);
    send(&mut stream, line, headers, body);
    let mut bytes = Vec::new();
    // A broken connection may end in an error; what came before it counts.
    let _ = stream.read_to_end(&mut bytes);
    response(&bytes)
}

fn response(bytes: &[u8]) -> Response {
    let end = bytes.windows(4).position(|w| w == b"\r\n\r\n").expect("a head") + 4;
    let head = String::from_utf8_lossy(&bytes[..end]).to_lowercase();
    let status = head.split(' ').nth(1).and_then(|s| s.parse().ok()).expect("a status");
    let (body, whole) = if head.contains("transfer-encoding: chunked") {
        unchunk(&bytes[end..])
    } else {
        (bytes[end..].to_vec(), true)
    };
    Response { status, head, body, whole }
}

fn unchunk(mut bytes: &[u8]) -> (Vec<u8>, bool) {
    let mut body = Vec::new();
    while let Some(at) = bytes.windows(2).position(|w| w == b"\r\n") {
        let size = std::str::from_utf8(&bytes[..at]).expect("a chunk size");
        let size = usize::from_str_radix(size, 16).expect("a chunk size");
        if size == 0 {
            return (body, true);
        }
        let data = &bytes[at + 2..];
        body.extend(&data[..size.min(data.len())]);
        bytes = data.get(size + 2..).unwrap_or_default();
    }
    (body, false)
}

/// The request line of a wire for this model.
pub(crate) fn line(wire: Wire, model: &str) -> String {
    match wire {
        Wire::Anthropic => "POST /v1/messages".to_owned(),
        Wire::Responses => "POST /v1/responses".to_owned(),
        Wire::Chat => "POST /v1/chat/completions".to_owned(),
        Wire::Gemini => format!("POST /v1beta/models/{model}:streamGenerateContent?alt=sse"),
    }
}

/// The headers of a proper client of a wire.
pub(crate) fn headers(wire: Wire) -> Vec<(&'static str, &'static str)> {
    let key = match wire {
        Wire::Anthropic => ("x-api-key", "k"),
        Wire::Responses | Wire::Chat => ("authorization", "Bearer k"),
        Wire::Gemini => ("x-goog-api-key", "k"),
    };
    vec![("content-type", "application/json"), ("anthropic-version", "2023-06-01"), key]
}

/// Posts a body as a proper client of a wire.
pub(crate) fn post(server: &ScriptedModel, wire: Wire, body: &Value) -> Response {
    http(server, &line(wire, super::spell::MODEL), &headers(wire), &body.to_string())
}

/// What a reply said, put together from its events.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct Heard {
    pub(crate) thinking: String,
    pub(crate) signature: String,
    pub(crate) text: String,
    /// Id, name, arguments.
    pub(crate) calls: Vec<[String; 3]>,
    pub(crate) stop: String,
    /// Input with cache, output, cache read, as the wire counts.
    pub(crate) numbers: [u64; 3],
}

/// Puts a reply together.
pub(crate) fn hear(wire: Wire, response: &Response) -> Heard {
    let mut heard = Heard::default();
    for data in response.events() {
        let Ok(event) = serde_json::from_str::<Value>(&data) else { continue };
        match wire {
            Wire::Anthropic => hear_anthropic(&event, &mut heard),
            Wire::Responses => hear_responses(&event, &mut heard),
            Wire::Chat => hear_chat(&event, &mut heard),
            Wire::Gemini => hear_gemini(&event, &mut heard),
        }
    }
    heard
}

fn at<'a>(value: &'a Value, pointer: &str) -> &'a str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

fn number(value: &Value, pointer: &str) -> u64 {
    value.pointer(pointer).and_then(Value::as_u64).unwrap_or_default()
}

fn hear_anthropic(event: &Value, heard: &mut Heard) {
    if at(event, "/content_block/type") == "tool_use" {
        let [id, name] = ["/content_block/id", "/content_block/name"].map(|p| at(event, p).into());
        heard.calls.push([id, name, String::new()]);
    }
    heard.signature += at(event, "/content_block/data");
    heard.thinking += at(event, "/delta/thinking");
    heard.signature += at(event, "/delta/signature");
    heard.text += at(event, "/delta/text");
    if let Some(call) = heard.calls.last_mut() {
        call[2] += at(event, "/delta/partial_json");
    }
    if at(event, "/type") == "message_delta" {
        heard.stop = at(event, "/delta/stop_reason").to_owned();
        let cached = number(event, "/usage/cache_read_input_tokens");
        let written = number(event, "/usage/cache_creation_input_tokens");
        let input = number(event, "/usage/input_tokens") + cached + written;
        heard.numbers = [input, number(event, "/usage/output_tokens"), cached];
    }
}

fn hear_responses(event: &Value, heard: &mut Heard) {
    match at(event, "/type") {
        "response.reasoning_summary_text.delta" => heard.thinking += at(event, "/delta"),
        "response.output_text.delta" => heard.text += at(event, "/delta"),
        "response.output_item.added" if at(event, "/item/type") == "function_call" => {
            let [id, name] = ["/item/call_id", "/item/name"].map(|p| at(event, p).into());
            heard.calls.push([id, name, String::new()]);
        }
        "response.function_call_arguments.delta" => {
            heard.calls.last_mut().expect("a call")[2] += at(event, "/delta");
        }
        "response.output_item.done" => heard.signature += at(event, "/item/encrypted_content"),
        "response.completed" | "response.incomplete" => {
            heard.stop = at(event, "/response/status").to_owned();
            heard.numbers = [
                number(event, "/response/usage/input_tokens"),
                number(event, "/response/usage/output_tokens"),
                number(event, "/response/usage/input_tokens_details/cached_tokens"),
            ];
        }
        _ => {}
    }
}

fn hear_chat(event: &Value, heard: &mut Heard) {
    heard.thinking += at(event, "/choices/0/delta/reasoning_content");
    heard.text += at(event, "/choices/0/delta/content");
    let calls = event.pointer("/choices/0/delta/tool_calls").and_then(Value::as_array);
    for call in calls.into_iter().flatten() {
        if call.get("id").is_some() {
            let [id, name] = ["/id", "/function/name"].map(|p| at(call, p).into());
            heard.calls.push([id, name, String::new()]);
        }
        let index = usize::try_from(number(call, "/index")).expect("a small index");
        heard.calls[index][2] += at(call, "/function/arguments");
    }
    heard.stop += at(event, "/choices/0/finish_reason");
    if event.get("usage").is_some() {
        heard.numbers = [
            number(event, "/usage/prompt_tokens"),
            number(event, "/usage/completion_tokens"),
            number(event, "/usage/prompt_tokens_details/cached_tokens"),
        ];
    }
}

fn hear_gemini(event: &Value, heard: &mut Heard) {
    let parts = event.pointer("/candidates/0/content/parts").and_then(Value::as_array);
    for part in parts.into_iter().flatten() {
        match part.get("thought") {
            Some(_) => heard.thinking += at(part, "/text"),
            None => heard.text += at(part, "/text"),
        }
        heard.signature += at(part, "/thoughtSignature");
        if let Some(call) = part.get("functionCall") {
            let [id, name] = ["/id", "/name"].map(|p| at(call, p).into());
            heard.calls.push([id, name, call["args"].to_string()]);
        }
    }
    heard.stop += at(event, "/candidates/0/finishReason");
    let thoughts = number(event, "/usageMetadata/thoughtsTokenCount");
    heard.numbers = [
        number(event, "/usageMetadata/promptTokenCount"),
        number(event, "/usageMetadata/candidatesTokenCount") + thoughts,
        number(event, "/usageMetadata/cachedContentTokenCount"),
    ];
}
