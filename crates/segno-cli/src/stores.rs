//! The composition root: the only place that names concrete stores.
//!
//! Responsible for: opening the store under the data directory and finding the session that a person
//! means. Must not: know what a command does with it.

use crate::error::{CliError, ExitCode};
use crate::home::Home;
use segno_model::SessionId;
use segno_model::store::{LogOf, SessionStore as _};
use segno_store::{FileStore, Match, RealDisk};

/// The log type that commands work on.
pub type Log = LogOf<FileStore>;

/// The stores of this machine.
#[derive(Debug, Clone)]
pub struct Stores {
    /// Our own sessions.
    pub files: FileStore,
    /// Where they are.
    pub home: Home,
}

impl Stores {
    /// The stores under `home`. Creates nothing.
    #[must_use]
    pub fn new(home: Home) -> Self {
        Self { files: FileStore::new(RealDisk, &home.data), home }
    }

    /// The session that `query` stands for: the beginning of an id, or a path of its log or directory.
    ///
    /// # Errors
    /// When nothing fits, or several do; those are listed.
    pub fn find(&self, query: &str) -> Result<SessionId, CliError> {
        if let Some(id) = by_path(query) {
            return Ok(id);
        }
        match self.files.find(query)? {
            Match::One(id) => Ok(id),
            Match::Nothing => {
                Err(CliError::new(ExitCode::NotFound, format!("There is no session `{query}`."))
                    .next("`segno list --all` shows every session."))
            }
            Match::Several(ids) => {
                let ids: Vec<&str> = ids.iter().map(SessionId::as_str).collect();
                Err(CliError::new(ExitCode::NotFound, format!("`{query}` fits several sessions."))
                    .because(ids.join("\n"))
                    .next("Give more of the id."))
            }
        }
    }

    /// Every session's id.
    ///
    /// # Errors
    /// A failing disk.
    pub async fn ids(&self) -> Result<Vec<SessionId>, CliError> {
        Ok(self.files.list().await?.into_iter().map(|listed| listed.id).collect())
    }
}

/// A path names a session by the directory that it is in.
fn by_path(query: &str) -> Option<SessionId> {
    let path = std::path::Path::new(query);
    let named = if path.ends_with("log.jsonl") { path.parent()? } else { path };
    let exists = query.contains('/') && named.is_dir();
    exists.then(|| SessionId::parse(named.file_name()?.to_str()?).ok()).flatten()
}
