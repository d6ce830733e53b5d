//! Model providers: four wires, spoken directly.
//!
//! Responsible for: [`segno_runtime::Model`] over Anthropic Messages, OpenAI Responses, Chat
//! Completions and Gemini; keys; finding what is there. Must not: try again (the run loop does), keep
//! history, or let a provider's types into the session format. Why no library does this is told in
//! decision 0002.

mod anthropic;
mod content;
mod discover;
mod error;
mod gemini;
mod http;
mod images;
mod json;
mod keys;
mod openai_chat;
mod openai_responses;
mod places;
pub mod sendable;
pub(crate) mod sse;
mod thinking;
mod window;
mod wire;

pub use discover::{Found, FoundBy, ModelInfo, discover, discover_at};
pub(crate) use http::{cause as http_cause, client as http_client};
pub use keys::{Credentials, KeySource, Secret};
pub use places::Places;
pub use window::{known_window, window};
pub use wire::{Decoder, HttpRequest, Settings, Wire};

use http::{KeyHeader, Server};
use segno_model::compaction::Window;
use segno_model::record::{AssistantMessage, ModelRef, endpoint_hash};
use segno_runtime::{
    Model, ModelError, ModelErrorKind, ModelRequest, Refusal, RefusedPart, StreamEvent,
};
use sendable::Takes;
use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use thinking::{Known, known};

/// How long the end of a finished stream is waited for, so that its connection can be used again.
const DRAIN: Duration = Duration::from_millis(200);

/// A provider, by Segno's name for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ProviderId {
    /// Anthropic Messages.
    Anthropic,
    /// OpenAI Responses.
    OpenAi,
    /// Anything that speaks Chat Completions.
    OpenAiChat,
    /// Google Gemini.
    Gemini,
    /// A local Ollama, over Chat Completions.
    Ollama,
}

impl ProviderId {
    /// All of them.
    pub const ALL: [Self; 5] =
        [Self::Anthropic, Self::OpenAi, Self::OpenAiChat, Self::Gemini, Self::Ollama];

    /// Its name, as in `PROVIDER/MODEL`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Anthropic => "anthropic",
            Self::OpenAi => "openai",
            Self::OpenAiChat => "openai-chat",
            Self::Gemini => "gemini",
            Self::Ollama => "ollama",
        }
    }

    /// The provider of this name.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|p| p.as_str() == name)
    }

    /// The environment variables that may hold its key, first one first.
    #[must_use]
    pub fn key_variables(self) -> &'static [&'static str] {
        match self {
            Self::Anthropic => &["ANTHROPIC_API_KEY"],
            Self::OpenAi | Self::OpenAiChat => &["OPENAI_API_KEY"],
            Self::Gemini => &["GEMINI_API_KEY", "GOOGLE_API_KEY"],
            Self::Ollama => &[],
        }
    }

    /// Where it is, unless the person says otherwise.
    #[must_use]
    pub fn default_base_url(self) -> &'static str {
        match self {
            Self::Anthropic => "https://api.anthropic.com",
            Self::OpenAi | Self::OpenAiChat => "https://api.openai.com",
            Self::Gemini => "https://generativelanguage.googleapis.com",
            Self::Ollama => "http://127.0.0.1:11434",
        }
    }

    /// The protocol that it speaks.
    #[must_use]
    pub fn wire(self) -> Wire {
        match self {
            Self::Anthropic => Wire::Anthropic,
            Self::OpenAi => Wire::OpenAiResponses,
            Self::OpenAiChat | Self::Ollama => Wire::OpenAiChat,
            Self::Gemini => Wire::Gemini,
        }
    }

    fn key_header(self) -> KeyHeader {
        match self {
            Self::Anthropic => KeyHeader("x-api-key", ""),
            Self::Gemini => KeyHeader("x-goog-api-key", ""),
            Self::OpenAi | Self::OpenAiChat | Self::Ollama => KeyHeader("authorization", "Bearer "),
        }
    }
}

impl fmt::Display for ProviderId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// How to reach a provider.
#[derive(Debug, Clone)]
pub struct ProviderConfig {
    /// Which one.
    pub provider: ProviderId,
    /// Another address than the provider's own, with or without the version (`/v1`).
    pub base_url: Option<String>,
    /// The key, if there is one.
    pub key: Option<Secret>,
    /// The largest reply to ask for; else by the model's family.
    pub max_output: Option<u32>,
}

impl ProviderConfig {
    /// A provider at its own address, with the key that `credentials` hold for it.
    #[must_use]
    pub fn new(provider: ProviderId, credentials: &Credentials) -> Self {
        Self { provider, base_url: None, key: credentials.key(provider), max_output: None }
    }
}

/// A provider that can be called.
#[derive(Debug, Clone)]
pub struct Provider {
    id: ProviderId,
    server: Server,
    key: Option<Secret>,
    settings: Settings,
    /// Learned from refusals: the models that take no images.
    without_images: Arc<Mutex<BTreeSet<String>>>,
}

impl Provider {
    /// Prepares a provider; connects nowhere yet.
    ///
    /// # Errors
    /// [`ModelErrorKind::Key`] when its own address needs a key and there is none;
    /// [`ModelErrorKind::Refused`] when the base URL is unusable.
    pub fn new(config: ProviderConfig) -> Result<Self, ModelError> {
        let id = config.provider;
        let base_url = config.base_url.as_deref().unwrap_or(id.default_base_url());
        let server = Server::new(base_url, id.key_header(), config.key.as_ref())
            .map_err(|e| named(id, None, e))?;
        let is_own = config.base_url.is_none() && id != ProviderId::Ollama;
        if is_own && config.key.is_none() {
            return Err(missing_key(id));
        }
        let elsewhere = config.base_url.as_deref().map(endpoint_hash);
        let settings = Settings {
            max_output: config.max_output,
            is_openai: matches!(id, ProviderId::OpenAi | ProviderId::OpenAiChat)
                && base_url.starts_with("https://api.openai.com"),
            endpoint: elsewhere
                .filter(|endpoint| *endpoint != endpoint_hash(id.default_base_url())),
            no_images: false,
        };
        Ok(Self { id, server, key: config.key, settings, without_images: Arc::default() })
    }

    /// Which provider it is.
    #[must_use]
    pub fn id(&self) -> ProviderId {
        self.id
    }

    /// Where it is, as replies name it; none at its own address.
    #[must_use]
    pub fn endpoint(&self) -> Option<&str> {
        self.settings.endpoint.as_deref()
    }

    /// What to tell when a model does not know a thinking level: which one is used instead.
    #[must_use]
    pub fn thinking_note(&self, model: &str, level: &str) -> Option<String> {
        let instead = match known(self.id.wire(), model, self.settings.is_openai, level) {
            Known::AsIs => return None,
            Known::Nearest(nearest) => format!("`{nearest}` is the nearest, and is used"),
            Known::Not => "its own default is used".to_owned(),
        };
        Some(format!("{model} does not know the thinking level `{level}`: {instead}."))
    }

    /// Whether it runs on this machine.
    #[must_use]
    pub fn is_local(&self) -> bool {
        self.server.is_local()
    }

    /// The models that are known to take no images.
    fn without_images(&self) -> MutexGuard<'_, BTreeSet<String>> {
        self.without_images.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Remembers of a model that it takes no images.
    fn learn(&self, model: &str, failure: ModelError) -> ModelError {
        let is_any_image = |refusal: Refusal| refusal.part == RefusedPart::AnyImage;
        if failure.refusal.is_some_and(is_any_image) {
            self.without_images().insert(model.to_owned());
        }
        failure
    }

    async fn call(
        &self,
        request: &ModelRequest<'_>,
        events: &mut (dyn FnMut(StreamEvent) + Send),
    ) -> Result<AssistantMessage, ModelError> {
        let wire = self.id.wire();
        let messages = images::fit(request.messages, &Takes::of(wire).images).await;
        let request = &ModelRequest { messages: &messages, ..*request };
        let no_images = self.without_images().contains(&request.model.id);
        let settings = Settings { no_images, ..self.settings.clone() };
        let http_request = wire.request(request, &settings)?;
        let mut decoder = wire.decoder(request);
        let posted = self.server.post(&http_request).await;
        let mut response = posted.map_err(|failure| {
            self.learn(&request.model.id, http_request.places.diagnose(failure))
        })?;
        if http::is_document(&response) {
            let mut body = Vec::new();
            while let Some(chunk) = http::next_chunk(&mut response).await? {
                body.extend(chunk);
            }
            let shown = decoder.feed_document(&String::from_utf8_lossy(&body))?;
            shown.into_iter().for_each(events);
            return decoder.finish();
        }
        while !decoder.is_done() {
            match http::next_chunk(&mut response).await {
                Ok(Some(chunk)) => decoder.feed(&chunk)?.into_iter().for_each(&mut *events),
                Ok(None) => break,
                // What came is still complete if the wire's last word was among it.
                Err(failure) => return decoder.finish().map_err(|_| failure),
            }
        }
        let drain = async { while let Ok(Some(_)) = http::next_chunk(&mut response).await {} };
        let _ = tokio::time::timeout(DRAIN, drain).await;
        decoder.finish()
    }
}

impl Model for Provider {
    async fn reply(
        &self,
        request: ModelRequest<'_>,
        events: &mut (dyn FnMut(StreamEvent) + Send),
    ) -> Result<AssistantMessage, ModelError> {
        let reply = self.call(&request, events).await;
        let named = reply.map_err(|e| named(self.id, self.key.as_ref(), e))?;
        Ok(AssistantMessage { endpoint: self.settings.endpoint.clone(), ..named })
    }

    async fn window(&self, model: &ModelRef) -> Option<Window> {
        Some(self.window_of(model).await)
    }
}

/// The error as people see it: with the provider's name, a next step for keys, and no key.
fn named(id: ProviderId, key: Option<&Secret>, mut failure: ModelError) -> ModelError {
    let mut message = format!("{id}: {}", failure.message);
    if failure.kind == ModelErrorKind::Key {
        message = format!("{message}; {}", key_hint(id));
    }
    failure.message = key.map_or(message.clone(), |k| k.mask(&message));
    failure
}

fn missing_key(id: ProviderId) -> ModelError {
    named(id, None, error::error(ModelErrorKind::Key, "there is no API key".to_owned()))
}

fn key_hint(id: ProviderId) -> String {
    match id.key_variables() {
        [] => "this server asks for a key: use openai-chat with --base-url and a key".to_owned(),
        names => format!("set {} or put the key into the configuration", names.join(" or ")),
    }
}
