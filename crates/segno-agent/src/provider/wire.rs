//! The four wires as pure functions.
//!
//! Responsible for: from a call to the bytes of its request, and from the bytes of the answer, in any
//! pieces, to the reply. Must not: do I/O, hold a key, or retry.

use super::error::refused;
use super::places::Places;
use super::sse::{Event, Lines};
use super::thinking::{Known, known};
use super::{anthropic, gemini, openai_chat, openai_responses, sendable};
use segno_model::record::{AssistantBlock, AssistantMessage};
use segno_runtime::{ModelError, ModelRequest, StreamEvent};
use serde::Serialize;

/// A provider's protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wire {
    /// Anthropic Messages.
    Anthropic,
    /// OpenAI Responses.
    OpenAiResponses,
    /// OpenAI Chat Completions, as many servers speak it.
    OpenAiChat,
    /// Gemini's `streamGenerateContent`.
    Gemini,
}

/// What shapes a request besides the call itself.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Settings {
    /// The largest reply to ask for, where the wire wants it said; else by the model's family.
    pub max_output: Option<u32>,
    /// Whether the server is OpenAI itself and takes its own extensions.
    pub is_openai: bool,
    /// Where it is, as replies name it; none at the provider's own address.
    pub endpoint: Option<String>,
    /// Whether the model is known to take no images.
    pub no_images: bool,
}

/// A request without its address and key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HttpRequest {
    /// Path and query below the base URL.
    pub path: String,
    /// Headers besides the key and the content type.
    pub headers: Vec<(&'static str, String)>,
    /// The JSON body: the same bytes for the same call, and with the messages last, so that a longer
    /// history only adds bytes at the end.
    pub body: Vec<u8>,
    /// Where in it each record is.
    pub places: Places,
}

impl HttpRequest {
    pub(super) fn new(
        path: &str,
        headers: Vec<(&'static str, String)>,
        body: &impl Serialize,
    ) -> Self {
        let body = serde_json::to_vec(body).expect("invariant: our bodies have text keys only");
        let path = path.to_owned();
        Self { path, headers, body, places: Places::default() }
    }
}

impl Wire {
    /// The request for one call.
    ///
    /// # Errors
    /// When the call cannot be said on this wire, e.g. an unknown thinking level.
    pub fn request(
        self,
        request: &ModelRequest<'_>,
        settings: &Settings,
    ) -> Result<HttpRequest, ModelError> {
        let repaired = sendable::repair(self, request, settings);
        let mut request = repaired.request(request);
        if let Some(level) = request.thinking {
            request.thinking = match known(self, &request.model.id, settings.is_openai, level) {
                Known::AsIs => Some(level),
                Known::Nearest(nearest) => Some(nearest),
                Known::Not => None,
            };
        }
        let request = &request;
        let encoded = match self {
            Self::Anthropic => anthropic::request(request, settings),
            Self::OpenAiResponses => Ok(openai_responses::request(request, settings)),
            Self::OpenAiChat => Ok(openai_chat::request(request, settings)),
            Self::Gemini => gemini::request(request, settings),
        }?;
        Ok(HttpRequest { places: Places::of(self, &repaired), ..encoded })
    }

    /// The request for the provider's own state of a history.
    ///
    /// # Errors
    /// On a wire that has none.
    pub(super) fn compaction(
        self,
        request: &ModelRequest<'_>,
        settings: &Settings,
    ) -> Result<HttpRequest, ModelError> {
        if self != Self::OpenAiResponses {
            return Err(refused("this protocol has no compaction of its own".to_owned()));
        }
        let repaired = sendable::repair(self, request, settings);
        let mut request = repaired.request(request);
        // Nobody is to go on here, so nothing is said behind the model's last turn.
        let is_notice = repaired.ends_with_notice();
        let end = request.messages.len() - usize::from(is_notice);
        request.messages = &request.messages[..end];
        Ok(openai_responses::compaction_request(&request))
    }

    /// The name of this wire in [`segno_model::record::Native`].
    pub(super) fn dialect(self) -> &'static str {
        match self {
            Self::Anthropic => anthropic::DIALECT,
            Self::OpenAiResponses => openai_responses::DIALECT,
            Self::OpenAiChat => openai_chat::DIALECT,
            Self::Gemini => gemini::DIALECT,
        }
    }

    /// What decodes the answer to that request.
    #[must_use]
    pub fn decoder(self, request: &ModelRequest<'_>) -> Decoder {
        let reply = match self {
            Self::Anthropic => Reply::Anthropic(anthropic::Reply::new(request)),
            Self::OpenAiResponses => Reply::OpenAiResponses(openai_responses::Reply::new(request)),
            Self::OpenAiChat => Reply::OpenAiChat(openai_chat::Reply::new(request)),
            Self::Gemini => Reply::Gemini(gemini::Reply::new(request)),
        };
        let names = sendable::own_names(self, request.tools);
        Decoder { lines: Lines::default(), reply, names }
    }
}

/// Decodes one answer.
#[derive(Debug)]
pub struct Decoder {
    lines: Lines,
    reply: Reply,
    /// Tools whose names were sent otherwise: sent name, own name.
    names: Vec<(String, String)>,
}

#[derive(Debug)]
enum Reply {
    Anthropic(anthropic::Reply),
    OpenAiResponses(openai_responses::Reply),
    OpenAiChat(openai_chat::Reply),
    Gemini(gemini::Reply),
}

impl Decoder {
    /// Takes more bytes of the stream.
    ///
    /// # Errors
    /// When they make no sense or carry the provider's own error; the call is over then.
    pub fn feed(&mut self, bytes: &[u8]) -> Result<Vec<StreamEvent>, ModelError> {
        let mut shown = Vec::new();
        for event in self.lines.feed(bytes) {
            shown.extend(self.event(&event)?);
        }
        Ok(shown)
    }

    /// Takes a whole answer that is one JSON document, from a server that does not stream.
    ///
    /// # Errors
    /// As [`Self::feed`].
    pub fn feed_document(&mut self, body: &str) -> Result<Vec<StreamEvent>, ModelError> {
        self.event(&Event { name: String::new(), data: body.to_owned() })
    }

    /// Whether the terminal event was seen; nothing more is needed.
    #[must_use]
    pub fn is_done(&self) -> bool {
        match &self.reply {
            Reply::Anthropic(reply) => reply.is_done(),
            Reply::OpenAiResponses(reply) => reply.is_done(),
            Reply::OpenAiChat(reply) => reply.is_done(),
            // This wire has no last word; the stream's end is awaited.
            Reply::Gemini(_) => false,
        }
    }

    /// The reply, when the stream has ended.
    ///
    /// # Errors
    /// When it ended too early.
    pub fn finish(mut self) -> Result<AssistantMessage, ModelError> {
        if let Some(event) = self.lines.finish() {
            self.event(&event)?;
        }
        let mut reply = match self.reply {
            Reply::Anthropic(reply) => reply.finish(),
            Reply::OpenAiResponses(reply) => reply.finish(),
            Reply::OpenAiChat(reply) => reply.finish(),
            Reply::Gemini(reply) => reply.finish(),
        }?;
        for block in &mut reply.content {
            if let AssistantBlock::ToolCall(call) = block {
                own_name(&self.names, &mut call.name);
            }
        }
        Ok(reply)
    }

    fn event(&mut self, event: &Event) -> Result<Vec<StreamEvent>, ModelError> {
        if self.is_done() || event.data.is_empty() {
            return Ok(Vec::new());
        }
        let mut shown = match &mut self.reply {
            Reply::Anthropic(reply) => reply.feed(event),
            Reply::OpenAiResponses(reply) => reply.feed(event),
            Reply::OpenAiChat(reply) => reply.feed(event),
            Reply::Gemini(reply) => reply.feed(event),
        }?;
        for event in &mut shown {
            if let StreamEvent::ToolCall { name, .. } = event {
                own_name(&self.names, name);
            }
        }
        Ok(shown)
    }
}

/// The tool that a model means, where its name was sent otherwise.
fn own_name(names: &[(String, String)], name: &mut String) {
    if let Some((_, own)) = names.iter().find(|(sent, _)| sent == name) {
        name.clone_from(own);
    }
}
