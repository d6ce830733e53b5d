//! A server over streamable HTTP.
//!
//! Responsible for: one POST per message, answers as one document or as a stream of events, and the
//! server's session. Must not: follow redirects, or say that a request did not arrive when it may have.

use super::rpc::{self, Failure, MAX_MESSAGE, Message};
use crate::provider::{http_cause, http_client, sse};
use reqwest::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use reqwest::{Client, Response, StatusCode, Url};
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

const SESSION: &str = "mcp-session-id";
const VERSION: &str = "mcp-protocol-version";

/// A server's address, and what it gave us to go on with.
#[derive(Debug)]
pub(super) struct Endpoint {
    client: Client,
    url: Url,
    headers: HeaderMap,
    /// Headers that the server's first answer brought.
    given: Mutex<HeaderMap>,
    next: AtomicU64,
    expired: AtomicBool,
}

impl Endpoint {
    /// Prepares it; connects nowhere yet.
    pub(super) fn new(
        url: &str,
        given: &BTreeMap<String, String>,
        connect: Duration,
    ) -> Result<Self, Failure> {
        let unusable = |why: String| Failure::NotSent(why);
        let url = Url::parse(url).map_err(|e| unusable(format!("{url} is no address: {e}")))?;
        let mut headers = HeaderMap::new();
        for (name, value) in given {
            let bad = || unusable(format!("the header {name} cannot be sent"));
            let mut value = HeaderValue::from_str(value).map_err(|_| bad())?;
            value.set_sensitive(true);
            headers.insert(HeaderName::from_bytes(name.as_bytes()).map_err(|_| bad())?, value);
        }
        let client = http_client(&url, connect).map_err(|e| unusable(e.message))?;
        let (next, expired) = (AtomicU64::new(1), AtomicBool::new(false));
        Ok(Self { client, url, headers, given: Mutex::default(), next, expired })
    }

    /// Whether the server still knows us.
    pub(super) fn is_alive(&self) -> bool {
        !self.expired.load(Ordering::Relaxed)
    }

    /// The protocol's version that was agreed upon; every request names it from then on.
    pub(super) fn agree(&self, version: &str) {
        if let Ok(version) = HeaderValue::from_str(version) {
            let mut given = self.given.lock().unwrap_or_else(PoisonError::into_inner);
            given.insert(VERSION, version);
        }
    }

    /// Asks something and waits for the answer.
    pub(super) async fn request(&self, method: &str, params: &Value) -> Result<Value, Failure> {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let response = self.post(&rpc::request(id, method, params)).await?;
        let session = response.headers().get(SESSION).cloned();
        if let Some(session) = session.filter(|_| method == "initialize") {
            let mut given = self.given.lock().unwrap_or_else(PoisonError::into_inner);
            given.insert(SESSION, session);
        }
        let content_type = response.headers().get(CONTENT_TYPE).and_then(|v| v.to_str().ok());
        match content_type.unwrap_or_default().trim_start().starts_with("text/event-stream") {
            true => self.stream(response, id).await,
            false => document(response, id).await,
        }
    }

    /// Tells something; nobody waits for it to arrive.
    pub(super) async fn notify(&self, method: &str, params: &Value) {
        let _ = self.post(&rpc::notification(method, params)).await;
    }

    async fn post(&self, message: &Value) -> Result<Response, Failure> {
        let given = self.given.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let sent = self
            .client
            .post(self.url.clone())
            .headers(self.headers.clone())
            .headers(given.clone())
            .header(CONTENT_TYPE, "application/json")
            .header(ACCEPT, "application/json, text/event-stream")
            .body(message.to_string())
            .send()
            .await;
        let response = sent.map_err(|e| {
            let connects = e.is_connect();
            let why = http_cause(e);
            if connects { Failure::NotSent(why) } else { Failure::Lost(why) }
        })?;
        match response.status() {
            status if status.is_success() => Ok(response),
            StatusCode::NOT_FOUND if given.contains_key(SESSION) => {
                self.expired.store(true, Ordering::Relaxed);
                Err(Failure::NotSent("the server does not know this session any more".to_owned()))
            }
            status if status.is_client_error() => {
                Err(Failure::NotSent(format!("it refuses requests: {status}")))
            }
            status => Err(Failure::Lost(format!("it answered {status}"))),
        }
    }

    /// Reads events until the answer is among them.
    async fn stream(&self, mut response: Response, id: u64) -> Result<Value, Failure> {
        let mut lines = sse::Lines::default();
        let mut bytes = 0;
        loop {
            let chunk = response.chunk().await.map_err(|e| Failure::Lost(http_cause(e)))?;
            let ended = chunk.is_none();
            let events = match &chunk {
                Some(chunk) => lines.feed(chunk),
                None => lines.finish().into_iter().collect(),
            };
            bytes += chunk.map_or(0, |chunk| chunk.len());
            for event in events {
                let Ok(message) = serde_json::from_str::<Value>(&event.data) else { continue };
                match rpc::understand(&message) {
                    Message::Answer(of, result) if of == id => return result,
                    Message::Asked(answer) => drop(self.post(&answer).await),
                    _ => {}
                }
            }
            if ended {
                return Err(Failure::Lost("the answer broke off".to_owned()));
            }
            if bytes > MAX_MESSAGE {
                return Err(Failure::Lost("the answer is too long".to_owned()));
            }
        }
    }
}

async fn document(mut response: Response, id: u64) -> Result<Value, Failure> {
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(|e| Failure::Lost(http_cause(e)))? {
        body.extend_from_slice(&chunk);
        if body.len() > MAX_MESSAGE {
            return Err(Failure::Lost("the answer is too long".to_owned()));
        }
    }
    let message = serde_json::from_slice::<Value>(&body);
    match message.as_ref().map(rpc::understand) {
        Ok(Message::Answer(of, result)) if of == id => result,
        _ => Err(Failure::Lost("the answer is none".to_owned())),
    }
}
