//! Which models are at hand.
//!
//! Responsible for: keys that are set, servers that answer on this machine, and the list of a
//! provider's models. Must not: talk to anybody but loopback unless a list is asked for.

use super::http::probe;
use super::json::Object;
use super::keys::{Credentials, KeySource};
use super::{Provider, ProviderId, error, named};
use futures_util::future::join_all;
use segno_runtime::ModelError;
use std::time::Duration;

/// Where servers listen by default: Ollama, llama.cpp, vLLM, LM Studio.
const LOCAL: [(ProviderId, &str); 4] = [
    (ProviderId::Ollama, "http://127.0.0.1:11434"),
    (ProviderId::OpenAiChat, "http://127.0.0.1:8080"),
    (ProviderId::OpenAiChat, "http://127.0.0.1:8000"),
    (ProviderId::OpenAiChat, "http://127.0.0.1:1234"),
];

/// How long a server on this machine may take to answer a probe.
const PROBE: Duration = Duration::from_millis(400);
/// How long a provider may take to list its models.
const LIST: Duration = Duration::from_secs(20);

/// A provider that can be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// Which one.
    pub provider: ProviderId,
    /// What makes it usable.
    pub by: FoundBy,
}

/// What makes a provider usable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FoundBy {
    /// A key.
    Key(KeySource),
    /// A server on this machine.
    Server {
        /// Where it is.
        base_url: String,
        /// The models that it offers.
        models: Vec<ModelInfo>,
    },
}

/// A model, as its provider lists it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelInfo {
    /// Its id at the provider.
    pub id: String,
    /// Its name for people.
    pub name: Option<String>,
    /// How many tokens its context holds.
    pub context: Option<u64>,
}

/// The providers with a key, then the servers that answer on this machine.
pub async fn discover(credentials: &Credentials) -> Vec<Found> {
    discover_at(credentials, &LOCAL).await
}

/// As [`discover`], with these addresses to look at.
pub async fn discover_at(
    credentials: &Credentials,
    addresses: &[(ProviderId, &str)],
) -> Vec<Found> {
    let with_key = ProviderId::ALL
        .into_iter()
        // The same key serves both wires of OpenAI; the newer one is offered.
        .filter(|p| !matches!(p, ProviderId::OpenAiChat | ProviderId::Ollama))
        .filter_map(|provider| {
            let (_, source) = credentials.find(provider)?;
            Some(Found { provider, by: FoundBy::Key(source) })
        });
    let local = join_all(addresses.iter().map(|(provider, url)| at(*provider, url))).await;
    with_key.chain(local.into_iter().flatten()).collect()
}

/// No answer, or one that is not a list of models, is no server of this kind.
async fn at(provider: ProviderId, url: &str) -> Option<Found> {
    let server = probe(url, PROBE).ok()?;
    let body = server.get("/v1/models", &[], PROBE).await.ok()?;
    let models = openai_models(&Object::parse(&body)?)?;
    Some(Found { provider, by: FoundBy::Server { base_url: url.to_owned(), models } })
}

impl Provider {
    /// The models that the provider lists, in its order.
    ///
    /// # Errors
    /// When it does not answer, refuses the key, or answers something else.
    pub async fn list_models(&self) -> Result<Vec<ModelInfo>, ModelError> {
        self.fetch_models().await.map_err(|e| named(self.id, self.key.as_ref(), e))
    }

    async fn fetch_models(&self) -> Result<Vec<ModelInfo>, ModelError> {
        let (path, headers): (_, &[_]) = match self.id {
            ProviderId::Anthropic => {
                ("/v1/models?limit=1000", &[("anthropic-version", "2023-06-01")])
            }
            ProviderId::Gemini => ("/v1beta/models?pageSize=1000", &[]),
            _ => ("/v1/models", &[]),
        };
        let body = self.server.get(path, headers, LIST).await?;
        let list = Object::parse(&body);
        let models = list.and_then(|list| match self.id {
            ProviderId::Gemini => gemini_models(&list),
            _ => openai_models(&list),
        });
        models.ok_or_else(|| error::broken("the list of models is not one"))
    }
}

/// `{"data": [{"id": …}]}`, with the extras of Anthropic, OpenRouter, vLLM and llama.cpp.
pub(super) fn openai_models(list: &Object) -> Option<Vec<ModelInfo>> {
    let models: Vec<Object> = list.get("data")?;
    let context = |m: &Object| {
        ["context_length", "max_model_len", "max_input_tokens", "context_window"]
            .iter()
            .find_map(|key| m.get(key))
            .or_else(|| {
                // llama.cpp: what it runs with counts, not what the model was trained for.
                let meta = m.object("meta")?;
                meta.get("n_ctx").or_else(|| meta.get("n_ctx_train"))
            })
    };
    let info = |m: &Object| ModelInfo {
        id: m.text("id"),
        name: m.get("display_name").or_else(|| m.get("name")),
        context: context(m),
    };
    Some(models.iter().map(info).filter(|m| !m.id.is_empty()).collect())
}

/// `{"models": [{"name": "models/…"}]}`; only what generates content.
fn gemini_models(list: &Object) -> Option<Vec<ModelInfo>> {
    let models: Vec<Object> = list.get("models")?;
    let generates = |m: &&Object| {
        let methods: Vec<String> = m.get("supportedGenerationMethods").unwrap_or_default();
        methods.iter().any(|method| method == "generateContent")
    };
    let info = |m: &Object| {
        let name = m.text("name");
        ModelInfo {
            id: name.strip_prefix("models/").unwrap_or(&name).to_owned(),
            name: m.get("displayName"),
            context: m.get("inputTokenLimit"),
        }
    };
    Some(models.iter().filter(generates).map(info).collect())
}
