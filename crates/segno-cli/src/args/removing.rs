//! The arguments of the commands that take sessions away and bring them back.
//!
//! Responsible for: their shape and help texts. Must not: decide anything.

use clap::{Args, Subcommand};
use std::path::PathBuf;

/// `segno delete`
#[derive(Debug, Clone, PartialEq, Eq, Args)]
pub struct DeleteArgs {
    /// Which sessions
    #[arg(required = true, value_name = "SESSION")]
    pub sessions: Vec<String>,

    /// Do it without asking
    #[arg(long)]
    pub yes: bool,
}

/// `segno import`
#[derive(Debug, Clone, PartialEq, Eq, Args)]
pub struct ImportArgs {
    /// The file
    pub file: PathBuf,

    /// Of a file that is damaged or cut, take what is there
    #[arg(long)]
    pub partial: bool,

    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// `segno trash`
#[derive(Debug, Clone, PartialEq, Eq, Args)]
pub struct TrashArgs {
    /// What to do; `list` if nothing is said
    #[command(subcommand)]
    pub action: Option<TrashAction>,
}

/// What can be done with the trash.
#[derive(Debug, Clone, PartialEq, Eq, Subcommand)]
pub enum TrashAction {
    /// List what is in it
    List {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Put sessions back
    Restore {
        /// Which sessions
        #[arg(required = true, value_name = "SESSION")]
        sessions: Vec<String>,
    },
    /// Delete for good what is in it
    Empty {
        /// Do it without asking
        #[arg(long)]
        yes: bool,
    },
}
