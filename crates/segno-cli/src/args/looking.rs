//! The arguments of the commands that look at sessions.
//!
//! Responsible for: their shape and help texts. Must not: decide anything.

use clap::{Args, ValueEnum};
use std::path::PathBuf;

/// `segno list`
#[derive(Debug, Clone, Default, PartialEq, Eq, Args)]
pub struct ListArgs {
    /// The sessions of every project
    #[arg(long)]
    pub all: bool,

    /// Only this agent's: segno, claude, codex, pi, opencode, gemini …
    #[arg(long, value_name = "AGENT")]
    pub source: Option<String>,

    /// The sessions of the project in this directory
    #[arg(long, value_name = "DIR", conflicts_with = "all")]
    pub project: Option<PathBuf>,

    /// Only those in which something was said since then: 2026-11-30, or 3d, 12h, 30m ago
    #[arg(long, value_name = "WHEN")]
    pub since: Option<String>,

    /// Only those that a process has now
    #[arg(long)]
    pub live: bool,

    /// Subagents' sessions, and sessions that went on in another one, too
    #[arg(long)]
    pub children: bool,

    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// `segno children`
#[derive(Debug, Clone, Default, PartialEq, Eq, Args)]
pub struct ChildrenArgs {
    /// Whose
    #[arg(default_value = "last")]
    pub session: String,

    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// `segno show`
#[derive(Debug, Clone, Default, PartialEq, Eq, Args)]
pub struct ShowArgs {
    /// Which session
    #[arg(default_value = "last")]
    pub session: String,

    /// Show its branches
    #[arg(long, group = "view")]
    pub tree: bool,

    /// Show what the next request would hold, and why each record is in or out
    #[arg(long, group = "view")]
    pub context: bool,

    /// Show one record as it is stored
    #[arg(long, value_name = "SEQ", group = "view")]
    pub raw: Option<u64>,

    /// Show what stands around one record
    #[arg(long, value_name = "SEQ", group = "view")]
    pub at: Option<u64>,

    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// `segno search`
#[derive(Debug, Clone, PartialEq, Eq, Args)]
pub struct SearchArgs {
    /// Words; all of them have to stand in one message. Several words in quotes stand as they are
    #[arg(required = true, value_name = "QUERY")]
    pub query: Vec<String>,

    /// Only this agent's sessions
    #[arg(long, value_name = "AGENT")]
    pub source: Option<String>,

    /// Only the sessions of the project in this directory
    #[arg(long, value_name = "DIR")]
    pub project: Option<PathBuf>,

    /// Only what this side said: user, assistant or tool
    #[arg(long, value_name = "ROLE")]
    pub role: Option<Role>,

    /// Only calls of this tool and their results
    #[arg(long, value_name = "NAME")]
    pub tool: Option<String>,

    /// Only what was said since then: 2026-11-30, or 3d, 12h, 30m ago
    #[arg(long, value_name = "WHEN")]
    pub since: Option<String>,

    /// Only what was said before then
    #[arg(long, value_name = "WHEN")]
    pub until: Option<String>,

    /// Only calls that name this path, and their results
    #[arg(long, value_name = "PATH")]
    pub path: Option<String>,

    /// At most so many hits
    #[arg(long, value_name = "N", default_value_t = 50)]
    pub limit: usize,

    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// Who said something.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Role {
    /// The person
    User,
    /// The model: words, thoughts and calls
    Assistant,
    /// Results of tools
    Tool,
}

/// `segno sources`
#[derive(Debug, Clone, PartialEq, Eq, Args)]
pub struct SourcesArgs {
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// `segno status`
#[derive(Debug, Clone, PartialEq, Eq, Args)]
pub struct StatusArgs {
    /// Only this session's
    #[arg(value_name = "SESSION")]
    pub session: Option<String>,

    /// End the command with this handle, and wait until it has ended
    #[arg(long, value_name = "HANDLE")]
    pub stop: Option<String>,

    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// `segno stats`
#[derive(Debug, Clone, PartialEq, Eq, Args)]
pub struct StatsArgs {
    /// Only this session; by branch, if it is one of ours
    pub session: Option<String>,

    /// One line for each; by day, if nothing is said
    #[arg(long, value_name = "WHAT")]
    pub by: Option<StatsBy>,

    /// Only this agent's sessions
    #[arg(long, value_name = "AGENT")]
    pub source: Option<String>,

    /// Only the sessions of the project in this directory
    #[arg(long, value_name = "DIR")]
    pub project: Option<PathBuf>,

    /// Only since then: 2026-11-30, or 3d, 12h, 30m ago
    #[arg(long, value_name = "WHEN")]
    pub since: Option<String>,

    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// What `segno stats` counts by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum StatsBy {
    /// The day, in UTC
    Day,
    /// The project's directory
    Project,
    /// The model
    Model,
    /// The agent
    Agent,
    /// The session
    Session,
    /// The branch; for one session of ours
    Branch,
}

/// `segno check`
#[derive(Debug, Clone, PartialEq, Eq, Args)]
pub struct CheckArgs {
    /// Which session of which agent, or a file
    #[arg(default_value = "last")]
    pub session: String,

    /// Every session of every agent
    #[arg(long, conflicts_with = "session")]
    pub all: bool,

    /// Print JSON
    #[arg(long)]
    pub json: bool,
}
