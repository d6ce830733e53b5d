//! Where Segno keeps things on this machine.
//!
//! Responsible for: the data directory and the configuration file, from `--home`, the environment and
//! the platform's conventions. Must not: create any of them, or read what is in them.

use crate::args::quoted;
use crate::error::CliError;
use etcetera::BaseStrategy as _;
use segno_agent::worktree::Worktrees;
use std::path::{Path, PathBuf};

/// The two places.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Home {
    /// Sessions, catalog, trash, history.
    pub data: PathBuf,
    /// The user's configuration; keys may be in it, so it is 0600.
    pub config: PathBuf,
    /// The user's home directory.
    pub user: Option<PathBuf>,
}

impl Home {
    /// `--home` wins over SEGNO_HOME, and that over the platform's data directory. A chosen directory
    /// holds the configuration, too.
    ///
    /// # Errors
    /// When none of them is known.
    pub fn find(
        flag: Option<&Path>,
        env: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Self, CliError> {
        let base = etcetera::choose_base_strategy().ok();
        let user = base.as_ref().map(|base| base.home_dir().to_owned());
        let chosen = flag
            .map(Path::to_owned)
            .or_else(|| env("SEGNO_HOME").filter(|home| !home.is_empty()).map(PathBuf::from));
        if let Some(data) = chosen {
            let data = std::path::absolute(&data).unwrap_or(data);
            return Ok(Self { config: data.join("config.toml"), data, user });
        }
        let base = base.ok_or_else(|| {
            CliError::failed("There is no place to keep sessions.")
                .because("neither HOME nor SEGNO_HOME is set")
                .next("Set SEGNO_HOME to a directory of yours.")
        })?;
        let data = base.data_dir().join("segno");
        Ok(Self { data, config: base.config_dir().join("segno").join("config.toml"), user })
    }

    /// Whether sessions can be there at all.
    ///
    /// # Errors
    /// When the place is something else than a directory.
    pub fn check(&self) -> Result<(), CliError> {
        match std::fs::metadata(&self.data) {
            Ok(meta) if !meta.is_dir() => {
                let shown = self.data.display();
                Err(CliError::failed(format!("{shown} is not a directory."))
                    .because("sessions are kept in a directory")
                    .next("Name one with --home DIR, or in SEGNO_HOME."))
            }
            // What is not there yet is made with the first session.
            _ => Ok(()),
        }
    }

    /// How this program is called so that it finds this place from any shell of this user.
    #[must_use]
    pub fn command(&self) -> String {
        let usual = Self::find(None, &|name| std::env::var(name).ok());
        if usual.is_ok_and(|usual| usual.data != self.data) {
            format!("segno --home {}", quoted(&self.data.display().to_string()))
        } else {
            "segno".to_owned()
        }
    }

    /// The list of sessions; derived, it can be deleted.
    #[must_use]
    pub fn catalog(&self) -> PathBuf {
        self.data.join("catalog.sqlite")
    }

    /// The prompts typed before.
    #[must_use]
    pub fn history(&self) -> PathBuf {
        self.data.join("history")
    }

    /// The worktrees of subagents.
    #[must_use]
    pub fn worktrees(&self) -> Worktrees {
        Worktrees::new(self.data.join("worktrees"))
    }

    /// The locks of files that agents change at this moment.
    #[must_use]
    pub fn locks(&self) -> PathBuf {
        self.data.join("locks")
    }

    /// The user's own instructions for the agent.
    #[must_use]
    pub fn instructions(&self) -> PathBuf {
        self.config.with_file_name("AGENTS.md")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chosen_directory_holds_everything() {
        let none = |_: &str| None;
        let set = |name: &str| (name == "SEGNO_HOME").then(|| "/e".to_owned());
        let cases: [(Option<&str>, bool, &str); 3] =
            [(Some("/f"), false, "/f"), (Some("/f"), true, "/f"), (None, true, "/e")];
        for (flag, env_set, expected) in cases {
            let env: &dyn Fn(&str) -> Option<String> = if env_set { &set } else { &none };
            let home = Home::find(flag.map(Path::new), env).expect("a home");
            assert_eq!(home.data, Path::new(expected));
            assert_eq!(home.config, Path::new(expected).join("config.toml"));
        }
    }
}
