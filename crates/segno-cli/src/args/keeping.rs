//! The arguments of `segno keep`.
//!
//! Responsible for: their shape and help texts. Must not: decide anything.

use clap::Args;

/// `segno keep`
#[derive(Debug, Clone, PartialEq, Eq, Args)]
pub struct KeepArgs {
    /// Which sessions; without one, those of this project
    #[arg(value_name = "SESSION")]
    pub sessions: Vec<String>,

    /// Those of all projects
    #[arg(long, conflicts_with = "sessions")]
    pub all: bool,

    /// Only those of this agent, e.g. claude
    #[arg(long, value_name = "AGENT")]
    pub source: Option<String>,

    /// Put the files of SESSION back under their old names, where those are free
    #[arg(long, requires = "sessions", conflicts_with_all = ["all", "source"])]
    pub restore: bool,

    /// Print JSON
    #[arg(long)]
    pub json: bool,
}
