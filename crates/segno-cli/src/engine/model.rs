//! Which model is asked.
//!
//! Responsible for: one pure decision from what was typed, stored and configured, and carrying it out.
//! Must not: swap a model that a session was bound to for another one by itself.

use crate::args::{AgentArgs, quoted};
use crate::config::Config;
use crate::error::{CliError, ExitCode};
use segno_agent::provider::{
    Credentials, Found, FoundBy, Provider, ProviderConfig, ProviderId, discover,
};
use segno_model::Checkpoint;
use segno_model::record::{ModelChange, ModelRef};

/// A model and where it is asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelChoice {
    /// Which.
    pub model: ModelRef,
    /// Where, when it is not the provider's own address.
    pub base_url: Option<String>,
    /// Whether a person chose it.
    pub chosen: bool,
}

impl ModelChoice {
    /// As a record; user names and passwords in the address are left out.
    #[must_use]
    pub fn change(&self) -> ModelChange {
        let base_url = self.base_url.as_deref().map(without_credentials);
        ModelChange { model: self.model.clone(), chosen: self.chosen, base_url }
    }

    /// The provider's name and address, when that is not its own.
    #[must_use]
    pub fn address(&self) -> Option<(String, String)> {
        Some((self.model.provider.clone(), self.base_url.clone()?))
    }

    /// The provider, ready to be called.
    ///
    /// # Errors
    /// When it has no key or the address makes no sense.
    pub fn connect(&self, credentials: &Credentials) -> Result<Provider, CliError> {
        let id = provider_id(&self.model.provider)?;
        let config = ProviderConfig {
            base_url: self.base_url.clone(),
            ..ProviderConfig::new(id, credentials)
        };
        Provider::new(config).map_err(|e| {
            CliError::new(ExitCode::Model, format!("The model {} cannot be used.", self.model))
                .because(e)
                .next("`segno models` shows what can be used; `--model PROVIDER/ID` chooses.")
        })
    }
}

/// What is wanted, before anything is asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Wanted {
    /// This one.
    Exactly(ModelChoice),
    /// Whatever the server at this address offers first.
    At(ProviderId, String),
    /// Whatever there is.
    Any,
}

impl Wanted {
    /// The option wins over what the session was bound to, and that over the configuration.
    ///
    /// # Errors
    /// When a name is not `PROVIDER/ID`.
    pub fn decide(
        args: &AgentArgs,
        stored: Option<&Checkpoint>,
        config: &Config,
    ) -> Result<Self, CliError> {
        let typed_url = args.base_url.clone();
        if let Some(name) = &args.model {
            let model = parse(name)?;
            let base_url = typed_url
                .or_else(|| same_model_url(&model, stored))
                .or_else(|| configured_url(&model, config));
            return Ok(Self::Exactly(ModelChoice { model, base_url, chosen: true }));
        }
        if let Some((model, state)) = stored.and_then(|s| Some((s.model.clone()?, s))) {
            let base_url = match (typed_url, state.base_url.clone()) {
                (Some(url), _) => Some(url),
                (None, Some(url)) if !may_be_called(&url, &model, config) => {
                    return Err(elsewhere(&model, &url));
                }
                (None, kept) => kept,
            };
            return Ok(Self::Exactly(ModelChoice { model, base_url, chosen: state.model_chosen }));
        }
        if let Some(name) = &config.model {
            let model = parse(name)?;
            let base_url = typed_url.or_else(|| configured_url(&model, config));
            return Ok(Self::Exactly(ModelChoice { model, base_url, chosen: false }));
        }
        Ok(typed_url.map_or(Self::Any, |url| Self::At(ProviderId::OpenAiChat, url)))
    }

    /// Settles on a model; asks servers only where the decision needs it.
    ///
    /// # Errors
    /// When there is none; the error says how to set one up.
    pub async fn settle(self, credentials: &Credentials) -> Result<ModelChoice, CliError> {
        match self {
            Self::Exactly(choice) => Ok(choice),
            Self::At(provider, url) => first_at(provider, url, credentials).await,
            Self::Any => {
                let found = discover(credentials).await;
                found.iter().find_map(offer).ok_or_else(no_model)
            }
        }
    }
}

/// The model that is taken of a provider when nobody chose one.
#[must_use]
pub fn default_model(provider: ProviderId) -> Option<&'static str> {
    match provider {
        ProviderId::Anthropic => Some("claude-sonnet-4-5"),
        ProviderId::OpenAi => Some("gpt-5.1"),
        ProviderId::Gemini => Some("gemini-2.5-pro"),
        ProviderId::OpenAiChat | ProviderId::Ollama => None,
    }
}

/// The model that a provider offers when nobody names one.
#[must_use]
pub fn offer(found: &Found) -> Option<ModelChoice> {
    let (id, base_url) = match &found.by {
        FoundBy::Key(_) => (default_model(found.provider)?.to_owned(), None),
        FoundBy::Server { base_url, models } => {
            (models.first()?.id.clone(), Some(base_url.clone()))
        }
    };
    let model = ModelRef { provider: found.provider.to_string(), id };
    // Ollama's own address needs no mention.
    let base_url = base_url.filter(|url| url != found.provider.default_base_url());
    Some(ModelChoice { model, base_url, chosen: false })
}

async fn first_at(
    provider: ProviderId,
    url: String,
    credentials: &Credentials,
) -> Result<ModelChoice, CliError> {
    let probe = ModelChoice {
        model: ModelRef { provider: provider.to_string(), id: String::new() },
        base_url: Some(url.clone()),
        chosen: true,
    };
    let unusable = |e: CliError| CliError { sentence: format!("{url} cannot be used."), ..e };
    let listed = probe.connect(credentials).map_err(unusable)?.list_models().await;
    let name_it = "Name one with --model PROVIDER/ID.";
    let models = listed.map_err(|e| {
        CliError::new(ExitCode::Model, format!("{url} does not say which models it has."))
            .because(e)
            .next(name_it)
    })?;
    let first = models.first().ok_or_else(|| {
        CliError::new(ExitCode::Model, format!("{url} has no models.")).next(name_it)
    })?;
    let model = ModelRef { provider: provider.to_string(), id: first.id.clone() };
    Ok(ModelChoice { model, base_url: Some(url), chosen: true })
}

/// `PROVIDER/ID`; the id may contain slashes.
pub(crate) fn parse(name: &str) -> Result<ModelRef, CliError> {
    let (provider, id) =
        name.split_once('/').filter(|(_, id)| !id.is_empty()).ok_or_else(|| {
            CliError::usage(format!("`{name}` is not a model.")).next(
            "Write PROVIDER/ID, e.g. anthropic/claude-sonnet-4-5 or ollama/qwen3; `segno models` \
             lists them.",
        )
        })?;
    let provider = provider_id(provider)?;
    Ok(ModelRef { provider: provider.to_string(), id: id.to_owned() })
}

fn provider_id(name: &str) -> Result<ProviderId, CliError> {
    ProviderId::parse(name).ok_or_else(|| {
        let all: Vec<String> = ProviderId::ALL.iter().map(ToString::to_string).collect();
        CliError::usage(format!("There is no provider `{name}`."))
            .next(format!("The providers are {}.", all.join(", ")))
    })
}

/// A stored address is used again only for the model that it was stored with, and only on this machine:
/// a session file must not decide where keys are sent.
fn same_model_url(model: &ModelRef, stored: Option<&Checkpoint>) -> Option<String> {
    let stored = stored.filter(|s| s.model.as_ref() == Some(model))?;
    stored.base_url.clone().filter(|url| is_loopback(url))
}

/// The address that the configuration names for a model's provider.
fn configured_url(model: &ModelRef, config: &Config) -> Option<String> {
    let configured = parse(config.model.as_deref()?).ok()?;
    config.base_url.clone().filter(|_| configured.provider == model.provider)
}

/// Whether a stored address is on this machine, or the one that the person configured.
fn may_be_called(url: &str, model: &ModelRef, config: &Config) -> bool {
    let configured = configured_url(model, config);
    is_loopback(url) || configured.is_some_and(|own| without_credentials(&own) == url)
}

/// A conversation goes neither to an address that only a session file names, nor to another one than
/// before.
fn elsewhere(model: &ModelRef, url: &str) -> CliError {
    CliError::new(ExitCode::Model, format!("This session talked to {model} at {url}."))
        .because("a session does not decide where your key and your words are sent")
        .next(format!("Name the address again: --base-url {}", quoted(url)))
}

/// Whether an address is on this machine.
#[must_use]
pub(crate) fn is_loopback(url: &str) -> bool {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    let host = match host.strip_prefix('[') {
        Some(v6) => v6.split(']').next().unwrap_or_default(),
        None => host.split(':').next().unwrap_or_default(),
    };
    host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

fn without_credentials(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else { return url.to_owned() };
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    match rest[..end].rfind('@') {
        Some(at) => format!("{scheme}://{}", &rest[at + 1..]),
        None => url.to_owned(),
    }
}

pub(crate) fn no_model() -> CliError {
    CliError::new(ExitCode::Model, "There is no model to talk to.")
        .because("no key is set, and no local server answers")
        .next(
            "Set ANTHROPIC_API_KEY, OPENAI_API_KEY or GEMINI_API_KEY, start Ollama, or name a \
             server with --base-url URL. `segno demo` and `segno list` need none.",
        )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(model: Option<&str>, url: Option<&str>) -> AgentArgs {
        AgentArgs {
            model: model.map(str::to_owned),
            base_url: url.map(str::to_owned),
            ..AgentArgs::default()
        }
    }

    fn stored(model: &str, url: Option<&str>) -> Checkpoint {
        Checkpoint {
            model: Some(parse(model).expect("a model")),
            base_url: url.map(str::to_owned),
            ..Checkpoint::default()
        }
    }

    fn config(model: Option<&str>, url: Option<&str>) -> Config {
        Config {
            model: model.map(str::to_owned),
            base_url: url.map(str::to_owned),
            ..Config::default()
        }
    }

    fn show(wanted: Result<Wanted, CliError>) -> String {
        match wanted {
            Ok(Wanted::Exactly(c)) => {
                let url = c.base_url.map_or(String::new(), |u| format!(" at {u}"));
                format!("{}{url}{}", c.model, if c.chosen { " (chosen)" } else { "" })
            }
            Ok(Wanted::At(provider, url)) => format!("{provider} at {url}"),
            Ok(Wanted::Any) => "any".to_owned(),
            Err(e) => e.sentence,
        }
    }

    #[test]
    fn the_table() {
        let (none, local) = (config(None, None), config(Some("ollama/a"), None));
        let cases = [
            (args(None, None), None, &none, "any"),
            (args(None, Some("http://h:1")), None, &none, "openai-chat at http://h:1"),
            (args(None, None), None, &local, "ollama/a"),
            (args(Some("gemini/g"), None), None, &local, "gemini/g (chosen)"),
            (
                args(Some("openai-chat/a/b"), Some("http://h")),
                None,
                &none,
                "openai-chat/a/b at http://h (chosen)",
            ),
            (args(None, None), Some(stored("openai/x", None)), &local, "openai/x"),
            (
                args(None, None),
                Some(stored("openai/x", Some("http://127.0.0.1:9/"))),
                &local,
                "openai/x at http://127.0.0.1:9/",
            ),
            (
                args(Some("openai/x"), None),
                Some(stored("openai/x", Some("http://[::1]:9"))),
                &local,
                "openai/x at http://[::1]:9 (chosen)",
            ),
            (
                args(Some("openai/y"), None),
                Some(stored("openai/x", Some("http://[::1]:9"))),
                &local,
                "openai/y (chosen)",
            ),
            (args(Some("gpt"), None), None, &none, "`gpt` is not a model."),
            (args(Some("acme/gpt"), None), None, &none, "There is no provider `acme`."),
            (args(Some("openai/"), None), None, &none, "`openai/` is not a model."),
        ];
        for (args, state, config, expected) in cases {
            assert_eq!(show(Wanted::decide(&args, state.as_ref(), config)), expected);
        }
    }

    /// Covers: G17. A conversation goes on where it was, or says why it does not.
    #[test]
    fn an_address_elsewhere_is_called_only_if_the_person_named_it() {
        let local = config(Some("ollama/a"), None);
        let cases = [
            (
                args(None, None),
                Some(stored("openai/x", Some("http://evil.example"))),
                &local,
                "This session talked to openai/x at http://evil.example.",
            ),
            (
                args(None, Some("http://evil.example")),
                Some(stored("openai/x", Some("http://evil.example"))),
                &local,
                "openai/x at http://evil.example",
            ),
            (
                args(None, None),
                Some(stored("openai/x", Some("http://box:8000"))),
                &config(Some("openai/y"), Some("http://box:8000")),
                "openai/x at http://box:8000",
            ),
            (
                args(None, None),
                Some(stored("openai/x", Some("http://box:8000"))),
                &config(Some("gemini/y"), Some("http://box:8000")),
                "This session talked to openai/x at http://box:8000.",
            ),
            (
                args(Some("openai/z"), None),
                None,
                &config(Some("openai/y"), Some("http://box:8000")),
                "openai/z at http://box:8000 (chosen)",
            ),
        ];
        for (args, state, config, expected) in cases {
            assert_eq!(show(Wanted::decide(&args, state.as_ref(), config)), expected);
        }
    }

    /// Covers: G17, #117.
    #[test]
    fn addresses_are_stored_without_credentials() {
        let cases = [
            ("http://127.0.0.1:8080", "http://127.0.0.1:8080", true),
            ("https://u:p@h.example/v1", "https://h.example/v1", false),
            ("http://u@localhost", "http://localhost", true),
            ("http://localhost.evil.example", "http://localhost.evil.example", false),
            ("http://127.0.0.1@evil.example/", "http://evil.example/", false),
            ("http://h/a@b", "http://h/a@b", false),
        ];
        for (url, kept, loopback) in cases {
            assert_eq!(without_credentials(url), kept);
            assert_eq!(is_loopback(url), loopback, "{url}");
        }
    }
}
