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
use segno_model::context::{ContextMessage, Target};
use segno_model::record::{AssistantMessage, ModelRef, endpoint_hash};
use segno_runtime::{
    Model, ModelError, ModelErrorKind, ModelRequest, OwnCompaction, Refusal, RefusedPart,
    StreamEvent,
};
use sendable::Takes;
use std::collections::{BTreeMap, BTreeSet};
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
    /// Likewise: those whose compaction is not offered here, or whose states they do not take back.
    without_states: Arc<Mutex<BTreeSet<String>>>,
    /// What Ollama says of models that it has not loaded, once asked.
    shown: Arc<Mutex<BTreeMap<String, Option<u64>>>>,
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
        let settings = Settings {
            max_output: config.max_output,
            is_openai: matches!(id, ProviderId::OpenAi | ProviderId::OpenAiChat)
                && base_url.starts_with("https://api.openai.com"),
            endpoint: endpoint(id, base_url),
            no_images: false,
        };
        let (without_images, without_states) = (Arc::default(), Arc::default());
        let (key, shown) = (config.key, Arc::default());
        Ok(Self { id, server, key, settings, without_images, without_states, shown })
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

    /// Remembers of a model that it takes no images, or none of its own states.
    fn learn(&self, request: &ModelRequest<'_>, failure: ModelError) -> ModelError {
        let model = &request.model.id;
        let is_any_image = |refusal: Refusal| refusal.part == RefusedPart::AnyImage;
        if failure.refusal.is_some_and(is_any_image) {
            held(&self.without_images).insert(model.clone());
        }
        let has_state = matches!(request.messages.first(), Some(ContextMessage::State(_)));
        if has_state && failure.kind == ModelErrorKind::Thinking {
            held(&self.without_states).insert(model.clone());
        }
        failure
    }

    async fn call_compact(&self, request: &ModelRequest<'_>) -> Result<OwnCompaction, ModelError> {
        let wire = self.id.wire();
        let messages = images::fit(request.messages, &Takes::of(wire).images).await;
        let request = &ModelRequest { messages: &messages, ..*request };
        let no_images = held(&self.without_images).contains(&request.model.id);
        let settings = Settings { no_images, ..self.settings.clone() };
        let http_request = wire.compaction(request, &settings)?;
        let mut response = self.server.post(&http_request).await?;
        let mut body = Vec::new();
        while let Some(chunk) = http::next_chunk(&mut response).await? {
            body.extend(chunk);
        }
        openai_responses::compacted(&String::from_utf8_lossy(&body))
    }

    async fn call(
        &self,
        request: &ModelRequest<'_>,
        events: &mut (dyn FnMut(StreamEvent) + Send),
    ) -> Result<AssistantMessage, ModelError> {
        let wire = self.id.wire();
        let messages = images::fit(request.messages, &Takes::of(wire).images).await;
        let request = &ModelRequest { messages: &messages, ..*request };
        let no_images = held(&self.without_images).contains(&request.model.id);
        let settings = Settings { no_images, ..self.settings.clone() };
        let http_request = wire.request(request, &settings)?;
        let mut decoder = wire.decoder(request);
        let posted = self.server.post(&http_request).await;
        let mut response =
            posted.map_err(|failure| self.learn(request, http_request.places.diagnose(failure)))?;
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

    fn target(&self, model: &ModelRef) -> Option<Target> {
        let own = || endpoint_hash(self.id.default_base_url());
        Some(Target {
            model: model.clone(),
            dialect: self.id.wire().dialect().to_owned(),
            server: self.settings.endpoint.clone().unwrap_or_else(own),
            is_own_address: self.settings.endpoint.is_none(),
            states: true,
        })
    }

    fn compacts(&self, model: &ModelRef, wherever: bool) -> bool {
        self.id.wire() == Wire::OpenAiResponses
            && (self.settings.is_openai || wherever)
            && !held(&self.without_states).contains(&model.id)
    }

    async fn compact(&self, request: ModelRequest<'_>) -> Result<OwnCompaction, ModelError> {
        self.call_compact(&request).await.map_err(|failure| {
            if failure.kind == ModelErrorKind::Refused {
                held(&self.without_states).insert(request.model.id.clone());
            }
            named(self.id, self.key.as_ref(), failure)
        })
    }
}

/// Who is asked for `model` at `base_url`, as [`Model::target`] says it; none for a provider that is not known.
#[must_use]
pub fn target(model: &ModelRef, base_url: Option<&str>) -> Option<Target> {
    let id = ProviderId::parse(&model.provider)?;
    let base_url = base_url.unwrap_or(id.default_base_url());
    Some(Target {
        model: model.clone(),
        dialect: id.wire().dialect().to_owned(),
        server: endpoint_hash(base_url),
        is_own_address: endpoint(id, base_url).is_none(),
        states: true,
    })
}

/// The place that replies name; none at the provider's own address.
fn endpoint(id: ProviderId, base_url: &str) -> Option<String> {
    let endpoint = endpoint_hash(base_url);
    (endpoint != endpoint_hash(id.default_base_url())).then_some(endpoint)
}

fn held<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
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
