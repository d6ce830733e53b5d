//! How much a model takes and gives.
//!
//! Responsible for: windows by model family, from the providers' public pages, and what a server on this
//! machine says of itself. Must not: be exact about models that it does not know; a window that is too small
//! costs a summary, one that is too large a refused request and then a summary.

use super::anthropic::default_output;
use super::http::next_chunk;
use super::json::Object;
use super::wire::HttpRequest;
use super::{Provider, ProviderId, held};
use segno_model::compaction::{USUAL_WINDOW, Window};
use segno_model::record::ModelRef;
use std::time::Duration;

/// How long a server on this machine may take to say what it is.
const ASK: Duration = Duration::from_millis(400);

/// What a local server is taken to have when it does not say.
const LOCAL_WINDOW: Window = Window { context: 32_768, output: 4_096 };

/// The beginning of an id, the context, and what is kept free for the reply. The first that fits counts.
const FAMILIES: &[(&str, u64, u64)] = &[
    ("gpt-5-chat", 128_000, 16_384),
    ("gpt-5", 400_000, 128_000),
    ("gpt-4.1", 1_047_576, 32_768),
    ("gpt-4o", 128_000, 16_384),
    ("chatgpt-4o", 128_000, 16_384),
    ("gpt-4-turbo", 128_000, 4_096),
    ("gpt-4", 8_192, 2_048),
    ("gpt-3.5", 16_385, 4_096),
    ("gpt-oss", 131_072, 32_768),
    ("o1-mini", 128_000, 65_536),
    ("o1", 200_000, 100_000),
    ("o3", 200_000, 100_000),
    ("o4", 200_000, 100_000),
    ("codex", 200_000, 100_000),
    ("gemini-1.5-pro", 2_097_152, 8_192),
    ("gemini-1.5", 1_048_576, 8_192),
    ("gemini-2.0", 1_048_576, 8_192),
    ("gemini-", 1_048_576, 65_536),
    ("gemma-3", 131_072, 8_192),
    ("deepseek-reasoner", 128_000, 64_000),
    ("deepseek", 128_000, 8_192),
    ("kimi-k2", 262_144, 16_384),
    ("glm-4", 131_072, 16_384),
    ("mistral-large", 131_072, 16_384),
    ("grok-4", 256_000, 16_384),
];

/// The window of a model by its family; none for one that is not known.
#[must_use]
pub fn known_window(model: &ModelRef) -> Option<Window> {
    // Gateways put the maker in front, and call a Claude by its own name too.
    let id = model.id.rsplit('/').next().unwrap_or(&model.id);
    if id.contains("claude") {
        return Some(Window { context: 200_000, output: u64::from(default_output(id)) });
    }
    let row = FAMILIES.iter().find(|(begins, ..)| id.starts_with(begins))?;
    Some(Window { context: row.1, output: row.2 })
}

/// The window of a model by its family; a cautious one where that is not known.
#[must_use]
pub fn window(model: &ModelRef) -> Window {
    let local = model.provider == ProviderId::Ollama.as_str();
    let unknown = if local { LOCAL_WINDOW } else { USUAL_WINDOW };
    // What a local server runs with is less than what its model could do.
    known_window(model).filter(|_| !local).unwrap_or(unknown)
}

impl Provider {
    /// The window of a model: what a server on this machine says of it, or else by its family.
    pub(super) async fn window_of(&self, model: &ModelRef) -> Window {
        let usual = window(model);
        let asks = matches!(self.id, ProviderId::Ollama | ProviderId::OpenAiChat);
        if !asks || !self.is_local() {
            return usual;
        }
        let said = match self.id {
            ProviderId::Ollama => match self.ollama_context(&model.id).await {
                None => self.ollama_says(&model.id).await,
                loaded => loaded,
            },
            _ => self.listed_context(&model.id).await,
        };
        said.map_or(usual, |context| Window { context, output: usual.output.min(context / 4) })
    }

    /// With how many tokens Ollama has loaded a model.
    async fn ollama_context(&self, model: &str) -> Option<u64> {
        let body = self.server.get("/api/ps", &[], ASK).await.ok()?;
        let loaded: Vec<Object> = Object::parse(&body)?.get("models")?;
        let named = |m: &&Object| [m.text("name"), m.text("model")].iter().any(|n| is_it(n, model));
        loaded.iter().find(named)?.get("context_length").filter(|context| *context > 0)
    }

    /// What Ollama says of a model that it has not loaded; asked once.
    async fn ollama_says(&self, model: &str) -> Option<u64> {
        if let Some(known) = held(&self.shown).get(model) {
            return *known;
        }
        let said = tokio::time::timeout(ASK, self.ask_ollama(model)).await.ok().flatten();
        held(&self.shown).insert(model.to_owned(), said);
        said
    }

    /// The `num_ctx` that the model is set to, or what it was made for: but where nobody sets one, Ollama loads
    /// less than that (<https://github.com/ollama/ollama/blob/main/docs/api.md#show-model-information>).
    async fn ask_ollama(&self, model: &str) -> Option<u64> {
        let request =
            HttpRequest::new("/api/show", Vec::new(), &serde_json::json!({"model": model}));
        let mut response = self.server.post(&request).await.ok()?;
        let mut body = Vec::new();
        while let Some(chunk) = next_chunk(&mut response).await.ok()? {
            body.extend(chunk);
        }
        let said = Object::parse(&String::from_utf8_lossy(&body))?;
        let set = said.text("parameters").lines().find_map(|line| {
            line.trim().strip_prefix("num_ctx")?.trim().parse::<u64>().ok().filter(|n| *n > 0)
        });
        let info = said.object("model_info").unwrap_or_default();
        let made_for = info.iter().find(|(key, _)| key.ends_with(".context_length"));
        let made_for = made_for.and_then(|(_, value)| value.get().parse::<u64>().ok());
        let least = |context: u64| context.min(LOCAL_WINDOW.context);
        set.or(made_for.filter(|context| *context > 0).map(least))
    }

    async fn listed_context(&self, model: &str) -> Option<u64> {
        let body = self.server.get("/v1/models", &[], ASK).await.ok()?;
        let models = super::discover::openai_models(&Object::parse(&body)?)?;
        models.into_iter().find(|m| m.id == model)?.context.filter(|context| *context > 0)
    }
}

/// Ollama calls a model without a tag its latest.
fn is_it(name: &str, model: &str) -> bool {
    name == model || name.strip_suffix(":latest") == Some(model)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_by_family() {
        let cases = [
            ("anthropic", "claude-sonnet-4-5", 200_000, 32_000),
            ("anthropic", "claude-3-5-haiku-20241022", 200_000, 8_192),
            ("openai", "gpt-5.1-codex", 400_000, 128_000),
            ("openai", "gpt-5-chat-latest", 128_000, 16_384),
            ("openai", "o3-mini", 200_000, 100_000),
            ("openai", "gpt-4o-mini", 128_000, 16_384),
            ("openai", "gpt-4-0613", 8_192, 2_048),
            ("gemini", "gemini-2.5-pro", 1_048_576, 65_536),
            ("openai-chat", "anthropic/claude-sonnet-4.5", 200_000, 32_000),
            ("openai-chat", "something-new", 128_000, 16_000),
            ("ollama", "gpt-oss:20b", 32_768, 4_096),
        ];
        for (provider, id, context, output) in cases {
            assert_eq!(window(&ModelRef::new(provider, id)), Window { context, output }, "{id}");
        }
    }

    /// A server that gives the same answer to everything.
    fn server(answer: &'static str) -> String {
        use std::io::{Read as _, Write as _};
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        std::thread::spawn(move || {
            while let Ok((mut stream, _)) = listener.accept() {
                let _ = stream.read(&mut [0; 4096]);
                let head =
                    "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\n";
                let _ = write!(stream, "{head}content-length: {}\r\n\r\n{answer}", answer.len());
            }
        });
        url
    }

    /// What a server on this machine says of itself counts more than the family.
    #[tokio::test]
    async fn a_local_server_is_asked() {
        use super::super::{Credentials, ProviderConfig};
        let cases = [
            (
                ProviderId::Ollama,
                "qwen3",
                r#"{"models": [{"name": "qwen3:latest", "context_length": 8192}]}"#,
                Window { context: 8_192, output: 2_048 },
            ),
            (ProviderId::Ollama, "qwen3", r#"{"models": []}"#, LOCAL_WINDOW),
            (
                ProviderId::Ollama,
                "small",
                r#"{"models": [], "model_info": {"llama.context_length": 2048}}"#,
                Window { context: 2_048, output: 512 },
            ),
            (
                ProviderId::Ollama,
                "set",
                r#"{"models": [], "parameters": "stop \"<|end|>\"\nnum_ctx      16384",
                    "model_info": {"qwen3.context_length": 40960}}"#,
                Window { context: 16_384, output: 4_096 },
            ),
            (
                ProviderId::Ollama,
                "large",
                r#"{"models": [], "model_info": {"gptoss.context_length": 131072}}"#,
                LOCAL_WINDOW,
            ),
            (
                ProviderId::OpenAiChat,
                "gpt-oss",
                r#"{"data": [{"id": "gpt-oss", "max_model_len": 40960}]}"#,
                Window { context: 40_960, output: 10_240 },
            ),
            (ProviderId::OpenAiChat, "mine", "not JSON", USUAL_WINDOW),
        ];
        for (id, model, answer, expected) in cases {
            let config = ProviderConfig {
                base_url: Some(server(answer)),
                ..ProviderConfig::new(id, &Credentials::default())
            };
            let provider = Provider::new(config).expect("a provider");
            let found = provider.window_of(&ModelRef::new(id.as_str(), model)).await;
            assert_eq!(found, expected, "{answer}");
        }
    }
}
