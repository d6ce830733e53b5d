//! The commands, one file each.
//!
//! Responsible for: carrying out what `args` understood. Each command is a function that takes its
//! arguments and what it needs, prints to a screen and returns an exit code or a [`crate::error::CliError`].
//! Must not: parse arguments, or reach into each other.

pub mod answer;
pub mod attach;
pub mod check;
pub mod children;
pub mod compact;
pub mod completions;
pub mod context;
pub mod delete;
pub mod demo;
pub mod erase;
pub mod export;
pub mod fork;
pub mod import;
pub mod inbox;
pub mod interactive;
pub mod keep;
pub mod list;
pub mod models;
pub mod name;
mod output;
pub mod prune;
pub mod relocate;
pub mod repair;
pub mod resume;
pub mod resume_all;
pub mod rewind;
pub mod run;
pub mod search;
pub mod send;
pub mod show;
pub mod sources;
pub mod stats;
pub mod status;
pub mod stop;
pub mod trash;
pub mod work_off;
pub mod worktree;

use crate::error::CliError;
use crate::stores::Stores;
use segno_agent::project::Project;
use segno_model::Timestamp;
use segno_model::record::ProjectFacts;
use segno_model::store::Clock as _;
use segno_store::SystemClock;
use std::path::PathBuf;

/// Where a command is carried out.
#[derive(Debug, Clone)]
pub struct Workplace {
    /// The sessions.
    pub stores: Stores,
    /// The working directory, as the shell calls it.
    pub cwd: PathBuf,
}

impl Workplace {
    /// The working directory as the shell calls it: `PWD`, when that is where we are. A project behind a
    /// link is then known by both of its paths.
    ///
    /// # Errors
    /// When the working directory is gone.
    pub fn cwd() -> Result<PathBuf, CliError> {
        let real = std::env::current_dir().map_err(|e| {
            CliError::failed("The working directory cannot be found.")
                .because(e)
                .next("Change to a directory that exists.")
        })?;
        let called = std::env::var_os("PWD").map(PathBuf::from);
        let same = |path: &PathBuf| path.canonicalize().ok() == real.canonicalize().ok();
        Ok(called.filter(|path| path.is_absolute() && same(path)).unwrap_or(real))
    }

    /// The time, for people.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        SystemClock.now()
    }

    /// The facts of the project that the working directory belongs to.
    pub async fn project(&self) -> ProjectFacts {
        Project::facts_of(&self.cwd).await
    }
}
