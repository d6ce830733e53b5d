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
//!
//! [keys]
//! anthropic = "…"
//! ```

use crate::error::CliError;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::io::Write as _;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;

/// What the file may say.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
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
    /// Command prefixes that run without a question.
    pub allow: Vec<String>,
    /// Keys by provider id.
    pub keys: BTreeMap<String, String>,
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
    let config: Config = toml::from_str(&text).map_err(|e| {
        CliError::usage(format!("{} cannot be understood.", path.display()))
            .because(e.message())
            .next("Correct the file; its lines are `model`, `base-url`, `thinking`, `permission`, `allow` and a [keys] table.")
    })?;
    let mode = std::fs::metadata(path).map_err(|e| unreadable(path, &e))?.permissions().mode();
    if !config.keys.is_empty() && mode & 0o077 != 0 {
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
    let text = std::fs::read_to_string(path).unwrap_or_default();
    let mut table: toml::Table = toml::from_str(&text).map_err(|e| {
        CliError::failed(format!("{} cannot be understood.", path.display())).because(e.message())
    })?;
    let allow = table
        .entry("allow")
        .or_insert_with(|| toml::Value::Array(Vec::new()))
        .as_array_mut()
        .ok_or_else(|| CliError::failed("`allow` in the configuration is not a list."))?;
    for rule in rules {
        let rule = toml::Value::String(rule.clone());
        if !allow.contains(&rule) {
            allow.push(rule);
        }
    }
    let written = toml::to_string_pretty(&table)
        .map_err(std::io::Error::other)
        .and_then(|text| replace(path, text.as_bytes()));
    written.map_err(|e| {
        CliError::failed(format!("{} could not be written.", path.display())).because(e)
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
    CliError::failed(format!("{} cannot be read.", path.display())).because(error)
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

    #[test]
    fn what_is_read_and_what_is_refused() {
        let cases = [
            ("", 0o644, ""),
            ("model = \"ollama/x\"\n", 0o644, ""),
            ("[keys]\nanthropic = \"k\"\n", 0o600, ""),
            ("[keys]\nanthropic = \"k\"\n", 0o640, "others may read it"),
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
        assert_eq!(config.allow, ["ls", "cargo test"]);
        assert_eq!(config.model.as_deref(), Some("ollama/x"));
        let mode = std::fs::metadata(&path).expect("there").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let fresh = dir.path().join("new").join("config.toml");
        add_rules(&fresh, &["ls".to_owned()]).expect("created");
        assert_eq!(read(&fresh).expect("read").allow, ["ls"]);
    }
}
