//! API keys: where they come from, and that they stay there.
//!
//! Responsible for: the order in which keys are looked for, and a type that never shows one. Must
//! not: read files (the command line hands in what its configuration holds) or store a key.

use super::ProviderId;
use std::collections::BTreeMap;
use std::fmt;

/// A key. Debug output shows only that there is one.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Takes a key; white space around it is not part of it. An empty one is none.
    #[must_use]
    pub fn new(key: &str) -> Option<Self> {
        let key = key.trim();
        (!key.is_empty()).then(|| Self(key.to_owned()))
    }

    /// The key itself, for a request's header and nothing else.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// `text` without the key.
    pub(super) fn mask(&self, text: &str) -> String {
        if self.0.len() < 8 { text.to_owned() } else { text.replace(&self.0, "[key]") }
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

/// Where a key was found; for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeySource {
    /// This environment variable.
    Environment(&'static str),
    /// The user's configuration.
    Configuration,
}

impl fmt::Display for KeySource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Environment(name) => write!(f, "environment variable {name}"),
            Self::Configuration => f.write_str("configuration"),
        }
    }
}

/// The keys at hand: the environment first, then the configuration.
#[derive(Debug, Clone, Default)]
pub struct Credentials {
    environment: BTreeMap<&'static str, Secret>,
    configuration: BTreeMap<String, Secret>,
}

impl Credentials {
    /// From an environment and, by provider id, what the configuration holds.
    #[must_use]
    pub fn new(
        environment: impl Fn(&str) -> Option<String>,
        configuration: BTreeMap<String, Secret>,
    ) -> Self {
        let names = ProviderId::ALL.iter().flat_map(|p| p.key_variables());
        let environment =
            names.filter_map(|name| Some((*name, Secret::new(&environment(name)?)?))).collect();
        Self { environment, configuration }
    }

    /// From this process's environment.
    #[must_use]
    pub fn from_env(configuration: BTreeMap<String, Secret>) -> Self {
        Self::new(|name| std::env::var(name).ok(), configuration)
    }

    /// A provider's key and where it is from.
    #[must_use]
    pub fn find(&self, provider: ProviderId) -> Option<(Secret, KeySource)> {
        let from_env = provider.key_variables().iter().find_map(|name| {
            Some((self.environment.get(name)?.clone(), KeySource::Environment(name)))
        });
        from_env.or_else(|| {
            let key = self.configuration.get(provider.as_str())?.clone();
            Some((key, KeySource::Configuration))
        })
    }

    /// A provider's key.
    #[must_use]
    pub fn key(&self, provider: ProviderId) -> Option<Secret> {
        self.find(provider).map(|(key, _)| key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_environment_comes_before_the_configuration() {
        let credentials = |env: &'static [(&str, &str)], config: &[(&str, &str)]| {
            let config = config
                .iter()
                .filter_map(|(p, k)| Some(((*p).to_owned(), Secret::new(k)?)))
                .collect();
            Credentials::new(
                |name| env.iter().find(|(k, _)| *k == name).map(|(_, v)| (*v).to_owned()),
                config,
            )
        };
        let found = |c: &Credentials, p| c.find(p).map(|(k, s)| format!("{} from {s}", k.expose()));
        let c = credentials(
            &[("ANTHROPIC_API_KEY", "a"), ("GOOGLE_API_KEY", " g "), ("OPENAI_API_KEY", "")],
            &[("anthropic", "x"), ("openai", "o")],
        );
        assert_eq!(
            found(&c, ProviderId::Anthropic).as_deref(),
            Some("a from environment variable ANTHROPIC_API_KEY")
        );
        assert_eq!(
            found(&c, ProviderId::Gemini).as_deref(),
            Some("g from environment variable GOOGLE_API_KEY")
        );
        assert_eq!(found(&c, ProviderId::OpenAi).as_deref(), Some("o from configuration"));
        assert_eq!(found(&c, ProviderId::OpenAiChat), None);
        assert_eq!(found(&c, ProviderId::Ollama), None);
    }

    #[test]
    fn a_key_is_never_shown() {
        let key = Secret::new("sk-very-secret").unwrap();
        let all = Credentials::new(|_| Some("sk-very-secret".to_owned()), BTreeMap::new());
        assert!(!format!("{key:?} {all:?}").contains("very"));
        assert_eq!(key.mask("bad key sk-very-secret!"), "bad key [key]!");
    }
}
