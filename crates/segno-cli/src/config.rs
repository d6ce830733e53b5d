//! The user's configuration file.
//!
//! Responsible for: reading it, and adding remembered permission rules to it without disturbing the
//! rest. Must not: come from a repository, or be created before there is something to put in.
//!
//! ```toml
//! model = "anthropic/claude-sonnet-4-5"
//! thinking = "medium"
//! permission = "ask"
//! base-url = "http://127.0.0.1:8080"
//! allow = ["cargo test", "git status"]
//! policy = "ask"
//!
//! [limits]
//! without-progress = 3
//! attempts = 10
//! tokens = 5000000
//! spend = 20.0
//!
//! [compaction]
//! auto = true
//! at = 0.8
//! native = true
//!
//! [models."ollama/qwen3"]
//! context = 40960
//! output = 8192
//!
//! [keys]
//! anthropic = "…"
//!
//! [prices."claude-opus-4-6"]
//! input = 5.0
//! output = 25.0
//!
//! [mcp.tickets]
//! command = "ticket-server"
//! ```

use crate::error::CliError;
use segno_agent::provider::{ProviderId, window};
use segno_model::accounting::Price;
use segno_model::compaction::{Native, Settings, Window};
use segno_model::record::{ModelRef, Policy};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::io::Write as _;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;

/// What the file may say.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct Config {
    /// `PROVIDER/ID`.
    pub model: Option<String>,
    /// Instead of the provider's own address; for `model`'s provider.
    pub base_url: Option<String>,
    /// The thinking level.
    pub thinking: Option<String>,
    /// The permission mode.
    pub permission: Option<String>,
    /// What becomes of interrupted work, where its session does not say.
    pub policy: Option<Policy>,
    /// What one run may use up.
    pub limits: RunLimits,
    /// When contexts are made smaller.
    pub compaction: CompactionConfig,
    /// What is known better of models, by `PROVIDER/ID`.
    pub models: BTreeMap<String, ModelConfig>,
    /// Command prefixes that run without a question.
    pub allow: Vec<String>,
    /// What models cost, by `PROVIDER/ID` or id; they stand in front of the list prices.
    pub prices: BTreeMap<String, ModelPrice>,
    /// Keys by provider id.
    pub keys: BTreeMap<String, String>,
    /// Servers of tools by name.
    pub mcp: BTreeMap<String, toml::Value>,
    /// Servers of projects that a person approved.
    pub mcp_approved: Vec<String>,
}

impl Config {
    /// The windows of models that the person knows better.
    #[must_use]
    pub fn windows(&self) -> BTreeMap<String, Window> {
        let known = self.models.iter().filter_map(|(name, model)| {
            let (provider, id) = name.split_once('/').unwrap_or((name, ""));
            Some((name.clone(), model.window(window(&ModelRef::new(provider, id)))?))
        });
        known.collect()
    }

    /// A model's window, as far as it is known without asking anybody.
    #[must_use]
    pub fn window(&self, model: &ModelRef) -> Window {
        self.windows().get(&model.to_string()).copied().unwrap_or_else(|| window(model))
    }

    /// The first number with which nothing could be done.
    fn no_number(&self) -> Option<String> {
        let window = |(name, model): (&String, &ModelConfig)| {
            let (context, output) = (model.context, model.output);
            let fits = context.zip(output).is_none_or(|(all, reply)| reply < all);
            let none = context == Some(0) || output == Some(0) || !fits;
            none.then(|| format!("models.\"{name}\""))
        };
        let named = |none: bool, name: &str| none.then(|| name.to_owned());
        let no_money = self.limits.spend.is_some_and(|usd| !(0.0..1e9).contains(&usd));
        self.models
            .iter()
            .find_map(window)
            .or_else(|| named(self.compaction.at.is_some_and(f64::is_nan), "compaction.at"))
            .or_else(|| named(no_money, "limits.spend"))
    }

    /// Whether it holds what others must not read.
    fn is_secret(&self) -> bool {
        let told =
            |server: &toml::Value| ["env", "headers"].iter().any(|name| server.get(name).is_some());
        !self.keys.is_empty() || self.mcp.values().any(told)
    }
}

/// When contexts are made smaller.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct CompactionConfig {
    /// Whether it happens by itself.
    pub auto: Option<bool>,
    /// From which share of a model's window on.
    pub at: Option<f64>,
    /// Whether providers are asked for their own states: true at any address, false nowhere; where nothing is
    /// said, at the addresses that are known to offer it.
    pub native: Option<bool>,
}

impl CompactionConfig {
    /// As the runtime takes it.
    #[must_use]
    pub fn settings(&self) -> Settings {
        let usual = Settings::default();
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a cast from a float saturates, and it is clamped"
        )]
        let percent = |share: f64| (share * 100.0).clamp(10.0, 100.0) as u8;
        Settings {
            auto: self.auto.unwrap_or(usual.auto),
            native: match self.native {
                None => Native::WhereKnown,
                Some(true) => Native::Wherever,
                Some(false) => Native::Never,
            },
            percent: self.at.map_or(usual.percent, percent),
            window: None,
        }
    }
}

/// What is known better of a model.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct ModelConfig {
    /// Tokens of a request and its reply together.
    pub context: Option<u64>,
    /// Of those, kept free for the reply.
    pub output: Option<u64>,
}

impl ModelConfig {
    /// The window, if one is named; what is not named is as it would be otherwise.
    fn window(&self, usual: Window) -> Option<Window> {
        (self.context.is_some() || self.output.is_some()).then(|| Window {
            context: self.context.unwrap_or(usual.context),
            output: self.output.unwrap_or(usual.output),
        })
    }
}

/// What one run may use up, over all its attempts; beyond that a person has to look at it.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct RunLimits {
    /// How often in a row it is taken up after a crash without any progress.
    pub without_progress: Option<u32>,
    /// Attempts at all.
    pub attempts: Option<u32>,
    /// Tokens at all, cached ones included.
    pub tokens: Option<u64>,
    /// US dollars at list prices; counts only for models whose price is known.
    pub spend: Option<f64>,
}

/// US dollars for a million tokens of one model.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct ModelPrice {
    /// Fresh input.
    pub input: Option<f64>,
    /// Output.
    pub output: Option<f64>,
    /// Read from the provider's cache.
    pub cache_read: Option<f64>,
    /// Written to it.
    pub cache_write: Option<f64>,
    /// Reasoning, where it costs something else than output.
    pub reasoning: Option<f64>,
    /// It is paid for otherwise: a call costs nothing more.
    pub subscription: bool,
}

impl ModelPrice {
    /// The price; none when it is no price, or half of one.
    #[must_use]
    pub fn price(&self) -> Option<Price> {
        let parts = [self.input, self.output, self.cache_read, self.cache_write, self.reasoning];
        let usable = |usd: &f64| (0.0..1e9).contains(usd);
        if parts.iter().flatten().any(|usd| !usable(usd)) {
            return None;
        }
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "it was looked at just now"
        )]
        let micros = |usd: f64| (usd * 1e6).round() as u64;
        match (self.input, self.output, self.subscription) {
            (None, None, true) => Some(Price::Subscription),
            (Some(input), Some(output), false) => Some(Price::Tokens {
                input: micros(input),
                output: micros(output),
                cache_read: self.cache_read.map(micros),
                cache_write: self.cache_write.map(micros),
                reasoning: self.reasoning.map(micros),
            }),
            _ => None,
        }
    }
}

/// Reads the file; an absent one is empty.
///
/// # Errors
/// When it cannot be read or understood, or when it holds keys and others may read it.
pub fn read(path: &Path) -> Result<Config, CliError> {
    let text = match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(Config::default()),
        Err(e) => return Err(unreadable(path, &e)),
    };
    let config: Config = toml::from_str(&text).map_err(|e| not_understood(path, &text, &e))?;
    if let Some(name) = config.keys.keys().find(|name| ProviderId::parse(name).is_none()) {
        let all: Vec<String> = ProviderId::ALL.iter().map(ToString::to_string).collect();
        return Err(CliError::usage(format!("{} has a key for nobody.", path.display()))
            .because(format!("there is no provider `{name}`"))
            .next(format!("Name the key in [keys] after one of {}.", all.join(", "))));
    }
    if let Some((name, _)) = config.prices.iter().find(|(_, price)| price.price().is_none()) {
        return Err(CliError::usage(format!("{} has a price that is none.", path.display()))
            .because(format!("[prices.\"{name}\"] is not what a model costs"))
            .next("Give `input` and `output` in US dollars for a million tokens, or `subscription = true`."));
    }
    if let Some(name) = config.no_number() {
        return Err(CliError::usage(format!("{} has a number that is none.", path.display()))
            .because(format!("`{name}` cannot be used"))
            .next("Give windows in whole tokens from 1 on, with less for the reply than in all, a threshold from 0.1 to 1.0, and money from 0 on."));
    }
    let mode = std::fs::metadata(path).map_err(|e| unreadable(path, &e))?.permissions().mode();
    if config.is_secret() && mode & 0o077 != 0 {
        return Err(CliError::failed(format!(
            "{} holds keys and others may read it.",
            path.display()
        ))
        .because(format!("its mode is {:03o}", mode & 0o777))
        .next(format!("chmod 600 {}", crate::args::quoted(&path.display().to_string()))));
    }
    Ok(config)
}

/// Adds rules to `allow`, durably: a new file takes the old one's place.
///
/// # Errors
/// When the file cannot be read, understood or written; it is as before then.
pub fn add_rules(path: &Path, rules: &[String]) -> Result<(), CliError> {
    add(path, "allow", rules)
}

/// Adds a server's approval, as durably.
///
/// # Errors
/// As [`add_rules`].
pub fn add_approval(path: &Path, hash: &str) -> Result<(), CliError> {
    add(path, "mcp-approved", &[hash.to_owned()])
}

fn add(path: &Path, list: &str, items: &[String]) -> Result<(), CliError> {
    let text = match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => String::new(),
        Err(e) => return Err(unreadable(path, &e)),
    };
    let text = with_items(&text, list, items).map_err(|e| not_understood(path, &text, &e))?;
    // A link stays one, e.g. into a repository of dot files.
    let real = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    replace(&real, text.as_bytes()).map_err(|e| {
        CliError::failed(format!("{} could not be written.", path.display()))
            .because(e)
            .next("Check its directory's permissions and room; or change the file by hand.")
    })
}

/// The text with these items put in front of those that a list in it has; everything else in it stays as
/// it is.
fn with_items(text: &str, list: &str, items: &[String]) -> Result<String, toml::de::Error> {
    #[derive(Deserialize)]
    #[serde(rename_all = "kebab-case")]
    struct Lists {
        allow: Option<toml::Spanned<Vec<String>>>,
        mcp_approved: Option<toml::Spanned<Vec<String>>>,
    }
    let lists = toml::from_str::<Lists>(text)?;
    let found = if list == "allow" { lists.allow } else { lists.mcp_approved };
    let known = found.as_ref().map_or(&[][..], |found| found.get_ref());
    let new = items.iter().filter(|item| !known.contains(item));
    let new: Vec<String> = new.map(|item| toml::Value::from(item.as_str()).to_string()).collect();
    Ok(match found {
        _ if new.is_empty() => text.to_owned(),
        Some(found) => {
            let behind_bracket = found.span().start + 1;
            let (before, after) = text.split_at(behind_bracket);
            format!("{before}{}, {}", new.join(", "), after.trim_start_matches(' '))
        }
        // In front, where no table has begun yet.
        None => format!("{list} = [{}]\n{text}", new.join(", ")),
    })
}

fn replace(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let dir = path.parent().unwrap_or(Path::new("."));
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
    let temp = path.with_extension("toml.new");
    let mut file = std::fs::OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(&temp)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    std::fs::rename(&temp, path)?;
    std::fs::File::open(dir)?.sync_all()
}

fn unreadable(path: &Path, error: &std::io::Error) -> CliError {
    CliError::failed(format!("{} cannot be read.", path.display()))
        .because(error)
        .next("Correct the file, or move it away.")
}

fn not_understood(path: &Path, text: &str, error: &toml::de::Error) -> CliError {
    let at = error.span().map_or(0, |span| span.start).min(text.len());
    let line = text.as_bytes()[..at].iter().filter(|byte| **byte == b'\n').count() + 1;
    CliError::usage(format!("{} cannot be understood.", path.display()))
        .because(format!("line {line}: {}", without_values(error.message())))
        .next("Correct the file; its lines are `model`, `base-url`, `thinking`, `permission`, `allow`, tables [keys], [limits], [compaction], [models.\"PROVIDER/ID\"] and [mcp.NAME].")
}

/// A message without what it quotes from the file: that may be a key.
fn without_values(message: &str) -> String {
    match (message.find('"'), message.rfind('"')) {
        (Some(from), Some(to)) if from < to => {
            format!("{}…{}", &message[..=from], &message[to..])
        }
        _ => message.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(text: &str, mode: u32) -> (tempfile::TempDir, std::path::PathBuf) {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("config.toml");
        std::fs::write(&path, text).expect("written");
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).expect("set");
        (dir, path)
    }

    /// The person knows better than the table of families, as far as they say something.
    #[test]
    fn windows_and_thresholds_are_the_persons() {
        let text = "[compaction]\nauto = false\nat = 0.55\n\
            [models.\"ollama/qwen3:8b\"]\ncontext = 40960\n\
            [models.\"anthropic/claude-sonnet-4-5\"]\noutput = 1000\n\
            [models.\"openai/gpt-5\"]\n";
        let (_dir, path) = file(text, 0o600);
        let config = read(&path).expect("read");
        let settings = config.compaction.settings();
        assert_eq!((settings.auto, settings.percent, settings.window), (false, 55, None));
        let window = |provider, id| config.window(&ModelRef::new(provider, id));
        let of = |context, output| Window { context, output };
        assert_eq!(window("ollama", "qwen3:8b"), of(40_960, 4_096));
        assert_eq!(window("anthropic", "claude-sonnet-4-5"), of(200_000, 1_000));
        assert_eq!(window("openai", "gpt-5"), of(400_000, 128_000));
        let windows = config.windows();
        assert_eq!(windows.len(), 2, "who says nothing lets the server speak: {windows:?}");
        for (at, percent) in [("0.0", 10), ("7.5", 100), ("-1.0", 10)] {
            let (_dir, path) = file(&format!("compaction = {{ at = {at} }}\n"), 0o600);
            assert_eq!(read(&path).expect("read").compaction.settings().percent, percent);
        }
    }

    #[test]
    fn what_is_read_and_what_is_refused() {
        let cases = [
            ("", 0o644, ""),
            ("model = \"ollama/x\"\n", 0o644, ""),
            ("[keys]\nanthropic = \"k\"\n", 0o600, ""),
            ("[keys]\nanthropic = \"k\"\n", 0o640, "others may read it"),
            ("[keys]\nclaude = \"k\"\n", 0o600, "a key for nobody"),
            ("[prices.x]\ninput = 1\noutput = 2.5\n", 0o644, ""),
            ("[prices.x]\nsubscription = true\n", 0o644, ""),
            ("[prices.x]\ninput = 1\n", 0o644, "a price that is none"),
            ("[prices.x]\ninput = -1\noutput = 1\n", 0o644, "a price that is none"),
            ("[prices.x]\ninput = 1\noutput = nan\n", 0o644, "a price that is none"),
            ("[models.x]\ncontext = 1\n", 0o644, ""),
            ("[models.x]\ncontext = 0\n", 0o644, "a number that is none"),
            ("[models.x]\noutput = 0\n", 0o644, "a number that is none"),
            ("[models.x]\ncontext = 9\noutput = 9\n", 0o644, "a number that is none"),
            ("[compaction]\nat = nan\n", 0o644, "a number that is none"),
            ("[limits]\nspend = 0.5\n", 0o644, ""),
            ("[limits]\nspend = nan\n", 0o644, "a number that is none"),
            ("[limits]\nspend = -1.0\n", 0o644, "a number that is none"),
            ("modle = \"x\"\n", 0o600, "cannot be understood"),
            ("model = \n", 0o600, "cannot be understood"),
        ];
        for (text, mode, expected) in cases {
            let (_dir, path) = file(text, mode);
            let said = read(&path).err().map_or(String::new(), |e| e.sentence);
            assert!(
                said.contains(expected) && (expected.is_empty() == said.is_empty()),
                "{text}: {said}"
            );
        }
        assert_eq!(read(Path::new("/nowhere/config.toml")), Ok(Config::default()));
    }

    /// Covers: G17, #115.
    #[test]
    fn rules_are_added_once_and_the_rest_stays() {
        let (dir, path) = file("model = \"ollama/x\"\nallow = [\"ls\"]\n", 0o644);
        add_rules(&path, &["cargo test".to_owned(), "ls".to_owned()]).expect("added");
        let config = read(&path).expect("read");
        assert_eq!(config.allow, ["cargo test", "ls"]);
        assert_eq!(config.model.as_deref(), Some("ollama/x"));
        let mode = std::fs::metadata(&path).expect("there").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let fresh = dir.path().join("new").join("config.toml");
        add_rules(&fresh, &["ls".to_owned()]).expect("created");
        assert_eq!(read(&fresh).expect("read").allow, ["ls"]);
    }

    #[test]
    fn what_a_person_wrote_stays_as_it_is_when_a_rule_is_added() {
        let cases = [
            ("", "allow = [\"a b\"]\n"),
            (
                "# mine\n[keys]\nollama = \"k\"\n",
                "allow = [\"a b\"]\n# mine\n[keys]\nollama = \"k\"\n",
            ),
            ("allow = [] # none\n", "allow = [\"a b\", ] # none\n"),
            ("allow=[\n  \"x\", # why\n]\n", "allow=[\"a b\", \n  \"x\", # why\n]\n"),
            ("allow = ['a b']\n# end", "allow = ['a b']\n# end"),
        ];
        for (before, after) in cases {
            let text = with_items(before, "allow", &["a b".to_owned()]).expect("understood");
            assert_eq!(text, after);
            let config: Config = toml::from_str(&text).expect("still a configuration");
            assert!(config.allow.contains(&"a b".to_owned()));
        }
    }

    #[test]
    fn a_file_that_cannot_be_read_is_not_replaced() {
        let (dir, path) = file("", 0o600);
        std::fs::write(&path, b"[keys]\n# \xff\nollama = \"k\"\n").expect("written");
        let before = std::fs::read(&path).expect("read");
        assert!(add_rules(&path, &["ls".to_owned()]).is_err());
        assert_eq!(std::fs::read(&path).expect("read"), before);
        let link = dir.path().join("link.toml");
        std::os::unix::fs::symlink("config.toml", &link).expect("linked");
        std::fs::write(&path, "").expect("written");
        add_rules(&link, &["ls".to_owned()]).expect("added");
        assert!(link.is_symlink());
        assert_eq!(read(&path).expect("read").allow, ["ls"]);
    }

    /// Covers: G17, #115.
    #[test]
    fn no_error_shows_a_key() {
        let cases = [
            "keys = \"SECRET\"\n",
            "keys = \"SE\\\"CRET\"\n",
            "[keys]\nopenai = SECRET\n",
            "[keys]\nopenai = [\"SECRET\"]\n",
            "[keys]\nopenai = \"SECRET\n",
            "allow = \"SECRET\"\n",
        ];
        for text in cases {
            let (_dir, path) = file(text, 0o600);
            let error = read(&path).expect_err("no configuration");
            assert!(!format!("{error:?}").contains("CRET"), "{error:?}");
            let error = add_rules(&path, &["ls".to_owned()]).err();
            assert!(!format!("{error:?}").contains("CRET"), "{error:?}");
        }
    }
}
