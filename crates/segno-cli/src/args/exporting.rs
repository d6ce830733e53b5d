//! `segno export`.
//!
//! Responsible for: its formats, and what each of them takes. Must not: know what is in them.

use clap::{Args, ValueEnum};
use segno_store::foreign::Agent;
use std::path::PathBuf;

/// A format to export to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ExportFormat {
    /// The transcript, for people
    Markdown,
    /// One page for a browser, with subagents: search, folding, colours; it fetches nothing
    Html,
    /// One JSON document
    Json,
    /// The records of one of our logs, one per line
    Jsonl,
    /// The session with its subagents and large values, byte for byte, for `segno import`; nothing is masked
    Segno,
    /// A session of Claude Code
    Claude,
    /// A session of Codex
    Codex,
    /// A session of pi
    Pi,
    /// A file that OpenCode imports
    #[value(name = "opencode")]
    OpenCode,
    /// A session of Gemini CLI
    Gemini,
}

/// `segno export`
#[derive(Debug, Clone, PartialEq, Eq, Args)]
pub struct ExportArgs {
    /// Which session
    #[arg(default_value = "last")]
    pub session: String,

    /// In which format
    #[arg(long, value_name = "FORMAT", default_value = "markdown")]
    pub format: ExportFormat,

    /// Write to this file, which must not exist, instead of standard output (`-`)
    #[arg(long, short, value_name = "FILE")]
    pub output: Option<PathBuf>,

    /// Mask keys, tokens and passwords: with an agent's format, which keeps them otherwise. With markdown, html, json
    /// and jsonl it is so anyway, with `segno` it is impossible
    #[arg(long, conflicts_with = "keep_secrets")]
    pub redact: bool,

    /// Leave keys, tokens and passwords in, and with an agent's format do not mention them
    #[arg(long)]
    pub keep_secrets: bool,

    /// With an agent's format: make the files where that agent finds them, as a new session, and print the
    /// command that goes on with it
    #[arg(long, conflicts_with = "output")]
    pub install: bool,

    /// With --install: do not ask
    #[arg(long, requires = "install")]
    pub yes: bool,

    /// With an agent's format: print as JSON what is lost, what was written where, and the command; without --install
    /// and -o nothing is written
    #[arg(long)]
    pub json: bool,
}

impl ExportFormat {
    /// What a file of this format may be called.
    #[must_use]
    pub fn file_name(self) -> &'static str {
        match self {
            Self::Markdown => "session.md",
            Self::Html => "session.html",
            Self::Json | Self::OpenCode => "session.json",
            Self::Segno => "session.segno",
            Self::Jsonl | Self::Claude | Self::Codex | Self::Pi | Self::Gemini => "session.jsonl",
        }
    }

    /// The agent whose files it is.
    #[must_use]
    pub fn agent(self) -> Option<Agent> {
        match self {
            Self::Claude => Some(Agent::Claude),
            Self::Codex => Some(Agent::Codex),
            Self::Pi => Some(Agent::Pi),
            Self::OpenCode => Some(Agent::OpenCode),
            Self::Gemini => Some(Agent::Gemini),
            Self::Markdown | Self::Html | Self::Json | Self::Jsonl | Self::Segno => None,
        }
    }
}

impl ExportArgs {
    /// Whether secrets are masked. What people are shown goes out without them unless they are asked for; a copy
    /// that an agent goes on with keeps them unless it is said otherwise.
    #[must_use]
    pub fn masks(&self) -> bool {
        match self.format {
            ExportFormat::Markdown
            | ExportFormat::Html
            | ExportFormat::Json
            | ExportFormat::Jsonl => !self.keep_secrets,
            ExportFormat::Claude
            | ExportFormat::Codex
            | ExportFormat::Pi
            | ExportFormat::OpenCode
            | ExportFormat::Gemini => self.redact,
            // Masked, it would not be what it was.
            ExportFormat::Segno => false,
        }
    }
}
