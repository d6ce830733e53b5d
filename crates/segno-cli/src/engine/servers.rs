//! Servers of tools (MCP): which there are, which were approved, and starting them.
//!
//! Responsible for: the user's own servers, those of the project's `.mcp.json` as far as a person approved
//! each, and telling once what did not come up. Must not: approve one itself, or write into a project.

use super::Engine;
use crate::config;
use crate::error::CliError;
use crate::terminal::{Screen, Text, Tone, clean};
use segno_agent::mcp::{ServerConfig, Servers, Start, Transport, Trouble, from_project_file};
use segno_agent::provider::ProviderId;
use segno_store::UuidIds;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The project file that several agents read.
const PROJECT_FILE: &str = ".mcp.json";

/// The servers of a place.
#[derive(Debug, Default)]
pub struct Offered {
    /// They may be started.
    pub ready: Vec<ServerConfig>,
    /// Nobody approved them.
    pub unapproved: Vec<Unapproved>,
    /// Entries that cannot be used.
    pub troubles: Vec<Trouble>,
}

/// A server that a project's file names and that nobody approved.
#[derive(Debug)]
pub struct Unapproved {
    /// It.
    pub config: ServerConfig,
    /// What its approval is kept under.
    pub hash: String,
}

impl Unapproved {
    /// What it would run or ask, for people.
    #[must_use]
    pub fn shown(&self) -> String {
        match &self.config.transport {
            Transport::Stdio { command, args, .. } => {
                let words: Vec<&str> =
                    std::iter::once(command).chain(args).map(String::as_str).collect();
                clean::reveal(&words.join(" "))
            }
            Transport::Http { url, .. } => clean::reveal(url),
        }
    }
}

impl Engine {
    /// The servers of the place where the engine is. Starts none.
    #[must_use]
    pub fn offered_servers(&self) -> Offered {
        let mut offered = Offered::default();
        for (name, entry) in &self.config.mcp {
            let entry = serde_json::to_value(entry).unwrap_or_default();
            match ServerConfig::from_own(name, &entry) {
                Ok(config) => offered.ready.push(config),
                Err(e) => offered.troubles.push(trouble(name, &e)),
            }
        }
        let root = self.place();
        let path = root.join(PROJECT_FILE);
        let text = match std::fs::read_to_string(&path) {
            Ok(text) => text,
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => return offered,
            Err(e) => {
                offered.troubles.push(trouble(PROJECT_FILE, &e));
                return offered;
            }
        };
        let hidden = hidden_env();
        let variable = |name: &str| {
            (!hidden.iter().any(|h| h == name)).then(|| std::env::var(name).ok()).flatten()
        };
        match from_project_file(&text, &root, &variable) {
            Err(e) => offered.troubles.push(trouble(PROJECT_FILE, &e)),
            Ok(entries) => {
                for (name, hash, config) in entries {
                    if self.config.mcp.contains_key(&name) {
                        continue;
                    }
                    match config {
                        Err(e) => offered.troubles.push(trouble(&name, &e)),
                        Ok(config) if self.config.mcp_approved.contains(&hash) => {
                            offered.ready.push(config);
                        }
                        Ok(config) => offered.unapproved.push(Unapproved { config, hash }),
                    }
                }
            }
        }
        offered
    }

    /// Remembers that a person approved a server.
    ///
    /// # Errors
    /// When the configuration cannot be written.
    pub fn approve(&mut self, server: &Unapproved) -> Result<(), CliError> {
        config::add_approval(&self.stores.home.config, &server.hash)?;
        self.read_config()
    }

    /// Starts servers in place of those that run; gives those that did not come up.
    pub async fn start_servers(&mut self, configs: Vec<ServerConfig>) -> Vec<Trouble> {
        self.servers_of = Some(self.place());
        self.servers = None;
        if configs.is_empty() {
            return Vec::new();
        }
        let start = Start { cwd: self.place(), hidden_env: hidden_env(), ids: Arc::new(UuidIds) };
        let (servers, troubles) = Servers::start(configs, start).await;
        self.servers = Some(Arc::new(servers));
        troubles
    }

    /// Whether the servers that run are those of another place.
    #[must_use]
    pub fn needs_servers(&self) -> bool {
        self.servers_of.as_deref() != Some(self.place().as_path())
    }

    /// Starts what may be started without asking, for scripts, and tells what is missing.
    pub async fn start_approved_servers(&mut self) {
        let offered = self.offered_servers();
        let mut aside = Screen::stderr();
        for server in &offered.unapproved {
            let name = clean::line(&server.config.name);
            let said = format!(
                "note: the server {name} of {PROJECT_FILE} was not started: nobody approved it; \
                 `segno` in a terminal here asks about it"
            );
            aside.line(Text::line(Tone::Dim, &said));
        }
        let late = self.start_servers(offered.ready).await;
        tell(offered.troubles.iter().chain(&late), &mut aside);
        // A note that nobody can read changes nothing.
        let _ = aside.finish();
    }

    /// The project's root, or the working directory.
    fn place(&self) -> PathBuf {
        let root: &Path = self.project.root.as_deref().unwrap_or(&self.cwd);
        root.to_owned()
    }
}

/// Says which servers are not there.
pub fn tell<'a>(troubles: impl Iterator<Item = &'a Trouble>, screen: &mut Screen) {
    for Trouble { server, why } in troubles {
        let said = format!("The server {} is not there: {why}", clean::line(server));
        screen.line(Text::line(Tone::Warning, &said));
    }
}

/// The variables that neither commands nor servers get to see.
#[must_use]
pub(super) fn hidden_env() -> Vec<String> {
    let names = ProviderId::ALL.iter().flat_map(|provider| provider.key_variables());
    names.map(|name| (*name).to_owned()).collect()
}

fn trouble(name: &str, error: &dyn std::fmt::Display) -> Trouble {
    Trouble { server: name.to_owned(), why: error.to_string() }
}
