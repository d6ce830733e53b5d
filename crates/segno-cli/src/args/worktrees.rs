//! The arguments of `segno worktree`.
//!
//! Responsible for: their shape and help texts. Must not: decide anything.

use clap::{Args, Subcommand};

/// `segno worktree`
#[derive(Debug, Clone, PartialEq, Eq, Args)]
pub struct WorktreeArgs {
    /// What to do
    #[command(subcommand)]
    pub action: WorktreeAction,
}

/// What can be done with the worktrees of subagents.
#[derive(Debug, Clone, PartialEq, Eq, Subcommand)]
pub enum WorktreeAction {
    /// List them: whose they are, their branches, and what would be lost with each
    List {
        /// Only those of this session's subagents
        session: Option<String>,

        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Show what was done in one since it was made, changes in no commit and new files included
    Diff {
        /// Whose: a subagent's id, or the beginning of one
        child: String,

        /// Only which files, and how much
        #[arg(long)]
        stat: bool,

        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Merge one's commits into the checkout that you are in, or else into the repository's main one
    Merge {
        /// Whose: a subagent's id, or the beginning of one
        child: String,

        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Remove those that hold nothing but what other branches have
    Prune {
        /// Only these subagents'
        #[arg(value_name = "CHILD")]
        children: Vec<String>,

        /// Only show it
        #[arg(long)]
        dry_run: bool,

        /// Do it without asking
        #[arg(long)]
        yes: bool,

        /// Remove those, too, that hold files which git ignores
        #[arg(long)]
        ignored: bool,

        /// Print JSON; without --yes nothing is removed
        #[arg(long)]
        json: bool,
    },
}

impl WorktreeAction {
    /// Whether the output is JSON.
    #[must_use]
    pub fn prints_json(&self) -> bool {
        match self {
            Self::List { json, .. }
            | Self::Diff { json, .. }
            | Self::Merge { json, .. }
            | Self::Prune { json, .. } => *json,
        }
    }
}
