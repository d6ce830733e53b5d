//! The HTTP side: routes, keys, sizes, lists of models.
//!
//! Responsible for: turning an HTTP request into a judged [`Recorded`] one and an answer into a
//! response. Must not: know a wire's spelling or a rule of a script.

use super::judge::judge;
use super::prefix::{Heads, Prefix};
use super::reply::Answer;
use super::script::{Auth, Script, Settings};
use super::seen::{Findings, Seen, Turn, Violation, Wire};
use super::state;
use super::stream::{Broken, Delivery, plan, send};
use super::wire::{Incoming, prepare};
use http_body_util::{BodyExt, Full, combinators::BoxBody};
use hyper::body::{Bytes, Incoming as HttpBody};
use hyper::header::{CONTENT_TYPE, HeaderMap, RETRY_AFTER};
use hyper::{Method, Request, Response, StatusCode};
use serde_json::{Value, json};
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// What answers.
pub(crate) enum Brain {
    Script(Script),
    Code(Box<dyn Fn(&Seen) -> Answer + Send + Sync>),
}

/// A request as it was received, judged and answered.
#[derive(Debug, Clone)]
pub struct Recorded {
    /// The wire.
    pub wire: Wire,
    /// The body as JSON; null when it is none.
    pub body: Arc<Value>,
    /// What it contains, when it could be parsed.
    pub seen: Option<Arc<Seen>>,
    /// What it breaks; empty for a good request.
    pub violations: Vec<Violation>,
    /// How it relates to the one before in its session, when it was good.
    pub prefix: Option<Prefix>,
    /// The rule of the script that answered.
    pub rule: Option<String>,
    /// The HTTP status of the answer.
    pub status: u16,
    /// How far the answer's stream came.
    pub delivery: Delivery,
}

/// Bytes of requests that are kept; older ones are forgotten.
const KEPT_BYTES: usize = 256 * 1024 * 1024;

/// What all connections share.
pub(crate) struct Shared {
    brain: Brain,
    settings: Settings,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    records: VecDeque<(usize, Recorded)>,
    forgotten: usize,
    bytes: usize,
    sessions: HashMap<String, Session>,
}

#[derive(Default)]
struct Session {
    heads: Heads,
    used: HashMap<usize, usize>,
}

type Reply = Response<BoxBody<Bytes, Broken>>;

impl Shared {
    pub(crate) fn new(brain: Brain) -> Self {
        let settings = match &brain {
            Brain::Script(script) => script.settings.clone(),
            Brain::Code(_) => Settings::default(),
        };
        Self { brain, settings, state: Mutex::default(), changed: Condvar::new() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn records(&self) -> Vec<Recorded> {
        self.state().records.iter().map(|(_, record)| record.clone()).collect()
    }

    pub(crate) fn wait_until(
        &self,
        timeout: std::time::Duration,
        mut enough: impl FnMut(&[Recorded]) -> bool,
    ) -> bool {
        let all = |state: &State| -> Vec<Recorded> {
            state.records.iter().map(|(_, record)| record.clone()).collect()
        };
        let waited = self
            .changed
            .wait_timeout_while(self.state(), timeout, |state| !enough(&all(state)))
            .unwrap_or_else(PoisonError::into_inner);
        !waited.1.timed_out()
    }

    /// Keeps a record and gives its number.
    fn keep(&self, record: Recorded, bytes: usize) -> usize {
        let mut state = self.state();
        state.records.push_back((bytes, record));
        state.bytes += bytes;
        while state.bytes > KEPT_BYTES && state.records.len() > 1 {
            if let Some((bytes, _)) = state.records.pop_front() {
                state.bytes -= bytes;
                state.forgotten += 1;
            }
        }
        self.changed.notify_all();
        state.forgotten + state.records.len() - 1
    }

    fn report(&self, number: usize, delivery: Delivery) {
        let mut state = self.state();
        let index = number.checked_sub(state.forgotten);
        if let Some((_, record)) = index.and_then(|index| state.records.get_mut(index)) {
            record.delivery = delivery;
        }
        self.changed.notify_all();
    }

    /// Answers one HTTP request.
    pub(crate) async fn serve(self: Arc<Self>, request: Request<HttpBody>) -> Reply {
        let (head, body) = request.into_parts();
        let path = head.uri.path().to_owned();
        let query = head.uri.query().unwrap_or_default().to_owned();
        match (&head.method, route(&path)) {
            (&Method::GET, _) => self.list(&path),
            (&Method::POST, Some((wire, model, compaction))) => {
                let body = match receive(body, self.settings.max_bytes).await {
                    Ok(Some(body)) => body,
                    Ok(None) => {
                        let message = "request exceeds the maximum size";
                        return self.refuse(wire, 413, message, Recorded::empty(wire), 0);
                    }
                    Err(_) => return plain(400, &json!({"error": "the body broke off"})),
                };
                let headers = &head.headers;
                let arrival = Arrival { headers, query: &query, model, compaction, body };
                self.answer(wire, &arrival)
            }
            _ => {
                let error = format!("the scripted model has no {} {path}", head.method);
                plain(404, &json!({"error": {"message": error, "type": "not_found_error"}}))
            }
        }
    }

    /// The lists by which clients discover models.
    fn list(&self, path: &str) -> Reply {
        let models = &self.settings.models;
        let value = match path {
            "/v1/models" | "/models" => json!({
                "object": "list", "has_more": false,
                "first_id": models.first(), "last_id": models.last(),
                "data": models.iter().map(|id| json!({
                    "id": id, "object": "model", "type": "model", "display_name": id,
                    "created": 1_700_000_000, "created_at": "2023-11-14T22:13:20Z",
                    "owned_by": "segno",
                })).collect::<Vec<_>>(),
            }),
            "/v1beta/models" => json!({
                "models": models.iter().map(|id| json!({
                    "name": format!("models/{id}"), "displayName": id,
                    "inputTokenLimit": self.settings.window.unwrap_or(1_000_000),
                    "outputTokenLimit": 65_536,
                    "supportedGenerationMethods": ["generateContent", "streamGenerateContent"],
                })).collect::<Vec<_>>(),
            }),
            "/api/tags" => json!({
                "models": models.iter().map(|id| json!({
                    "name": id, "model": id, "modified_at": "2023-11-14T22:13:20Z", "size": 0,
                    "digest": "", "details": {"family": "scripted"},
                })).collect::<Vec<_>>(),
            }),
            "/api/version" => json!({"version": "0.0.0-scripted"}),
            "/" | "/health" => json!({"status": "ok", "server": "Segno's scripted model"}),
            _ => return plain(404, &json!({"error": {"message": "no such page"}})),
        };
        plain(200, &value)
    }

    /// Judges a request and answers it.
    fn answer(self: &Arc<Self>, wire: Wire, arrival: &Arrival<'_>) -> Reply {
        let size = arrival.body.len();
        if let Some((status, message)) = self.key_problem(wire, arrival) {
            return self.refuse(wire, status, message, Recorded::empty(wire), size);
        }
        let mut findings = Findings::default();
        let body = serde_json::from_slice(&arrival.body).unwrap_or(Value::Null);
        let mut record = Recorded { body: Arc::new(body), ..Recorded::empty(wire) };
        if !record.body.is_object() {
            findings.add("json", "body", "the body is not a JSON object");
        } else {
            arrival.check_headers(wire, &mut findings);
            let incoming = Incoming {
                body: &record.body,
                path_model: arrival.model.as_deref(),
                session: arrival.header("x-segno-session"),
                host: arrival.header("host").unwrap_or_default(),
                compaction: arrival.compaction,
            };
            let seen = wire.parse(&incoming, &mut findings);
            judge(&seen, &mut findings);
            record.seen = Some(Arc::new(seen));
        }
        record.violations = findings.broken;
        match (record.violations.first(), record.seen.clone()) {
            (None, Some(seen)) if seen.compaction => {
                let host = arrival.header("host").unwrap_or_default();
                self.compact(&seen, &state::scope(&seen.model, host), record, size)
            }
            (None, Some(seen)) => self.consider(&seen, record, size),
            (Some(_), Some(seen)) if self.settings.lenient => self.consider(&seen, record, size),
            (first, _) => {
                let message = first.map_or_else(String::new, wording);
                self.refuse(wire, 400, &message, record, size)
            }
        }
    }

    /// Lets the script, or the code, answer a good request.
    fn consider(self: &Arc<Self>, seen: &Seen, mut record: Recorded, size: usize) -> Reply {
        let wire = seen.wire;
        let tokens = (size as u64).div_ceil(4);
        if let Some(window) = self.settings.window.filter(|window| tokens > *window) {
            return self.too_long(wire, tokens, window, record, size);
        }
        let mut state = self.state();
        let key = format!("{}\n{}\n{}", wire.name(), seen.model, seen.session);
        let session = state.sessions.entry(key).or_default();
        let (prefix, cached) = session.heads.observe(&seen.units);
        let picked = match &self.brain {
            Brain::Code(_) => None,
            Brain::Script(script) => script.pick(seen, &mut session.used),
        };
        drop(state);
        record.prefix = Some(prefix);
        record.rule = picked.as_ref().map(|picked| picked.rule.name.clone());
        let may_change = picked.as_ref().is_some_and(|picked| picked.rule.new_prefix);
        if self.settings.strict_prefix && prefix == Prefix::Changed && !may_change {
            let message = "the request does not extend the session's previous one";
            let violation = Violation {
                rule: "prefix-changed",
                at: "messages".to_owned(),
                message: message.to_owned(),
            };
            let wording = wording(&violation);
            record.violations.push(violation);
            return self.refuse(wire, 400, &wording, record, size);
        }
        let answer = match (&self.brain, picked) {
            (Brain::Code(code), _) => code(seen),
            (Brain::Script(_), Some(picked)) => picked.answer,
            (Brain::Script(_), None) => {
                return self.refuse(wire, 500, &no_rule(seen), record, size);
            }
        };
        self.deliver(seen, answer, cached, record, size)
    }

    /// Answers a request for a state. A script's rule, or the code, may say that it fails.
    fn compact(
        self: &Arc<Self>,
        seen: &Seen,
        scope: &str,
        mut record: Recorded,
        size: usize,
    ) -> Reply {
        let tokens = (size as u64).div_ceil(4);
        if let Some(window) = self.settings.window.filter(|window| tokens > *window) {
            return self.too_long(seen.wire, tokens, window, record, size);
        }
        let answer = match &self.brain {
            Brain::Code(code) => Some(code(seen)),
            Brain::Script(script) => {
                let key = format!("{}\n{}\n{}", seen.wire.name(), seen.model, seen.session);
                let mut state = self.state();
                let used = &mut state.sessions.entry(key).or_default().used;
                let picked = script.pick(seen, used);
                record.rule = picked.as_ref().map(|picked| picked.rule.name.clone());
                picked.map(|picked| picked.answer)
            }
        };
        match answer {
            Some(failure @ (Answer::Status { .. } | Answer::TooLong)) => {
                self.deliver(seen, failure, 0, record, size)
            }
            Some(Answer::Reply(_)) | None => {
                let body = state::compacted(seen, &record.body, scope);
                self.keep(Recorded { status: 200, ..record }, size);
                plain(200, &body)
            }
        }
    }

    fn deliver(
        self: &Arc<Self>,
        seen: &Seen,
        answer: Answer,
        cached: usize,
        record: Recorded,
        size: usize,
    ) -> Reply {
        let wire = seen.wire;
        match answer {
            Answer::TooLong => {
                let tokens = (size as u64).div_ceil(4);
                let window = self.settings.window.unwrap_or(tokens.saturating_sub(1));
                self.too_long(wire, tokens, window, record, size)
            }
            Answer::Status { code, retry_after_s, message } => {
                let message = message.unwrap_or_else(|| default_message(code).to_owned());
                let mut reply = self.refuse(wire, code, &message, record, size);
                if let Some(seconds) = retry_after_s {
                    reply.headers_mut().insert(RETRY_AFTER, seconds.into());
                }
                reply
            }
            Answer::Reply(reply) => {
                let events = wire.encode(&prepare(seen, &reply, cached));
                let plan = plan(events, &reply.faults, wire);
                let number = self.keep(Recorded { status: 200, ..record }, size);
                let shared = Arc::clone(self);
                let body = send(plan, move |delivery| shared.report(number, delivery));
                let response = Response::builder()
                    .header(CONTENT_TYPE, "text/event-stream; charset=utf-8")
                    .header("cache-control", "no-cache")
                    .header("request-id", format!("req_{number}"));
                response.body(body.boxed()).unwrap_or_else(|_| plain(500, &Value::Null))
            }
        }
    }

    fn too_long(
        &self,
        wire: Wire,
        tokens: u64,
        window: u64,
        record: Recorded,
        size: usize,
    ) -> Reply {
        let (status, body) = wire.too_long(tokens, window);
        self.keep(Recorded { status, ..record }, size);
        plain(status, &body)
    }

    fn refuse(
        &self,
        wire: Wire,
        status: u16,
        message: &str,
        record: Recorded,
        size: usize,
    ) -> Reply {
        self.keep(Recorded { status, ..record }, size);
        plain(status, &wire.error_body(status, message))
    }

    fn key_problem(&self, wire: Wire, arrival: &Arrival<'_>) -> Option<(u16, &'static str)> {
        let bearer = arrival.header("authorization").and_then(|v| v.strip_prefix("Bearer "));
        let key = match wire {
            Wire::Anthropic => arrival.header("x-api-key").or(bearer),
            Wire::Responses | Wire::Chat => bearer,
            Wire::Gemini => arrival.header("x-goog-api-key").or_else(|| arrival.parameter("key")),
        };
        let usable = key.is_some_and(|key| !key.trim().is_empty());
        let named = arrival.header("authorization").is_some();
        let asked = match self.settings.auth {
            Auth::Off => false,
            Auth::Refuse if wire == Wire::Gemini => {
                return Some((400, "API key not valid. Please pass a valid API key."));
            }
            Auth::Refuse => return Some((401, "invalid API key")),
            Auth::Required => true,
            Auth::Usual => wire != Wire::Chat || named,
        };
        let missing = match wire {
            Wire::Gemini => (403, "Method doesn't allow unregistered callers: use an API key."),
            Wire::Anthropic => (401, "x-api-key header is required"),
            _ => (401, "You didn't provide an API key."),
        };
        (asked && !usable).then_some(missing)
    }
}

impl Recorded {
    fn empty(wire: Wire) -> Self {
        Self {
            wire,
            body: Arc::new(Value::Null),
            seen: None,
            violations: Vec::new(),
            prefix: None,
            rule: None,
            status: 0,
            delivery: Delivery::Open,
        }
    }
}

/// What came over HTTP.
struct Arrival<'a> {
    headers: &'a HeaderMap,
    query: &'a str,
    model: Option<String>,
    compaction: bool,
    body: Bytes,
}

impl Arrival<'_> {
    fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }

    fn parameter(&self, name: &str) -> Option<&str> {
        self.query
            .split('&')
            .filter_map(|pair| pair.split_once('='))
            .find_map(|(key, value)| (key == name).then_some(value))
    }

    fn check_headers(&self, wire: Wire, findings: &mut Findings) {
        let kind = self.header("content-type").unwrap_or_default();
        if kind.split(';').next().map(str::trim) != Some("application/json") {
            let message = format!("expected application/json, not `{kind}`");
            findings.add("content-type", "content-type", message);
        }
        if wire == Wire::Anthropic && self.header("anthropic-version").is_none() {
            findings.add("version-header", "anthropic-version", "header is required");
        }
        if wire == Wire::Gemini && self.parameter("alt") != Some("sse") {
            findings.add("not-streaming", "alt", "this server answers only with `alt=sse`");
        }
    }
}

/// The body, or nothing when it is too large. Even then it is read to its end: a client that is still
/// writing would take an early answer for a broken connection.
async fn receive(mut body: HttpBody, max_bytes: usize) -> Result<Option<Bytes>, hyper::Error> {
    let (mut bytes, mut too_large) = (Vec::new(), false);
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame?.into_data() else { continue };
        too_large = too_large || bytes.len() + data.len() > max_bytes;
        if too_large {
            bytes = Vec::new();
        } else {
            bytes.extend_from_slice(&data);
        }
    }
    Ok((!too_large).then(|| Bytes::from(bytes)))
}

/// The wire that a path belongs to, the model that it names, and whether a state is asked for.
fn route(path: &str) -> Option<(Wire, Option<String>, bool)> {
    let short = path.strip_prefix("/v1").unwrap_or(path);
    match short {
        "/messages" => return Some((Wire::Anthropic, None, false)),
        "/responses" => return Some((Wire::Responses, None, false)),
        "/responses/compact" => return Some((Wire::Responses, None, true)),
        "/chat/completions" => return Some((Wire::Chat, None, false)),
        _ => {}
    }
    let rest = path.strip_prefix("/v1beta/models/").or(path.strip_prefix("/models/"))?;
    let model = rest.strip_suffix(":streamGenerateContent").filter(|model| !model.is_empty())?;
    Some((Wire::Gemini, Some(model.to_owned()), false))
}

fn plain(status: u16, body: &Value) -> Reply {
    let bytes = Full::new(Bytes::from(body.to_string()));
    let mut response = Response::new(bytes.map_err(|never| match never {}).boxed());
    *response.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::BAD_REQUEST);
    let json = hyper::header::HeaderValue::from_static("application/json");
    response.headers_mut().insert(CONTENT_TYPE, json);
    response
}

fn wording(violation: &Violation) -> String {
    format!("{}: {}", violation.at, violation.message)
}

fn default_message(status: u16) -> &'static str {
    match status {
        401 => "invalid API key",
        403 => "permission denied",
        404 => "model not found",
        408 => "request timed out",
        413 => "request exceeds the maximum size",
        429 => "rate limit exceeded, please try again later",
        529 => "Overloaded",
        400..500 => "invalid request",
        _ => "internal server error",
    }
}

fn no_rule(seen: &Seen) -> String {
    let last = seen.turns.last();
    let role = last.map_or("missing", Turn::role);
    let text: String = last.map(Turn::text).unwrap_or_default().chars().take(80).collect();
    format!(
        "The script has no rule for this request: its last turn is {role}, \"{text}\". Add a rule \
         that fits, or `otherwise`."
    )
}
