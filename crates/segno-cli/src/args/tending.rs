//! The arguments of the commands that tend a session: what is taken out of it or out of its way, its name and its place.
//!
//! Responsible for: their shape and help texts. Must not: decide anything.

use clap::{Args, Subcommand, ValueEnum};
use std::path::PathBuf;

/// `segno context`
#[derive(Debug, Clone, PartialEq, Eq, Args)]
pub struct ContextArgs {
    /// Which session
    pub session: String,

    /// Print JSON
    #[arg(long, global = true)]
    pub json: bool,

    /// What to do
    #[command(subcommand)]
    pub action: ContextAction,
}

/// What can be done about what the model is sent of a record. The log keeps the record as it is.
#[derive(Debug, Clone, PartialEq, Eq, Subcommand)]
pub enum ContextAction {
    /// Leave a record out; a turn with calls takes their results along
    Omit {
        /// The record's number
        seq: u64,
    },
    /// Send this text in a record's place
    Replace {
        /// The record's number
        seq: u64,
        /// The text
        text: String,
    },
    /// Send a record as it is again
    Restore {
        /// The record's number
        seq: u64,
    },
    /// List what is left out or replaced now
    List,
}

/// `segno erase`
#[derive(Debug, Clone, PartialEq, Eq, Args)]
pub struct EraseArgs {
    /// Which session
    pub session: String,

    /// The numbers of the records
    #[arg(required = true, value_name = "SEQ")]
    pub seqs: Vec<u64>,

    /// Only say what would be done
    #[arg(long)]
    pub dry_run: bool,

    /// Do it without asking
    #[arg(long)]
    pub yes: bool,

    /// Print JSON; without --yes only what would be done
    #[arg(long)]
    pub json: bool,
}

/// `segno prune`
#[derive(Debug, Clone, PartialEq, Eq, Args)]
pub struct PruneArgs {
    /// What to remove; without it, everything that takes room is shown and nothing removed
    pub kind: Option<PruneKind>,

    /// Only of these sessions
    #[arg(value_name = "SESSION")]
    pub sessions: Vec<String>,

    /// Only show it
    #[arg(long)]
    pub dry_run: bool,

    /// Do it without asking
    #[arg(long)]
    pub yes: bool,

    /// Print JSON; without --yes nothing is removed
    #[arg(long)]
    pub json: bool,
}

/// What can be removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum PruneKind {
    /// Deleted sessions
    Trash,
    /// Blobs that no record refers to
    Blobs,
    /// Files of commands that no record names
    Commands,
    /// Torn or damaged bytes that were kept
    SetAside,
    /// What killed processes left behind
    Leftovers,
    /// Copies of other agents' sessions that are named
    Kept,
    /// What such copies were before their originals were written again
    KeptVersions,
}

/// `segno compact`
#[derive(Debug, Clone, PartialEq, Eq, Args)]
pub struct CompactArgs {
    /// Which session
    pub session: String,

    /// What the summary is to keep in mind
    #[arg(value_name = "INSTRUCTIONS")]
    pub instructions: Vec<String>,

    /// The model that summarises, instead of the session's
    #[arg(long, value_name = "PROVIDER/ID")]
    pub model: Option<String>,

    /// Where the provider's interface is, instead of its usual place
    #[arg(long, value_name = "URL")]
    pub base_url: Option<String>,

    /// JSON instead of text (docs/protocol/cli-json.md)
    #[arg(long)]
    pub json: bool,
}

/// `segno name`
#[derive(Debug, Clone, PartialEq, Eq, Args)]
pub struct NameArgs {
    /// Which session
    pub session: String,

    /// Its new name; an empty one takes the name away
    #[arg(value_name = "NAME")]
    pub name: String,
}

/// `segno relocate`
#[derive(Debug, Clone, PartialEq, Eq, Args)]
pub struct RelocateArgs {
    /// Which session
    pub session: String,

    /// Where the project is now; the working directory if nothing is said
    #[arg(value_name = "DIR")]
    pub directory: Option<PathBuf>,
}
