//! The arguments of `segno keep`.
//!
//! Responsible for: their shape and help texts. Must not: decide anything.

use clap::Args;
use std::path::PathBuf;

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

    /// List what the files of SESSION were before they were written again
    #[arg(long, requires = "sessions", conflicts_with_all = ["all", "source", "restore"])]
    pub versions: bool,

    /// With --restore: an earlier version of a file, as --versions lists it: N, or NAME:N
    #[arg(long = "version", id = "of_version", value_name = "VERSION", requires = "restore")]
    pub version: Vec<String>,

    /// With --restore: the session's own file, or one --version, into this new file and nothing else, or with `-`
    /// to standard output
    #[arg(short, long, value_name = "FILE", requires = "restore")]
    pub output: Option<PathBuf>,

    /// Print JSON
    #[arg(long)]
    pub json: bool,
}
