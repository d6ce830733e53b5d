//! Which agents are known.
//!
//! Responsible for: their names. Must not: know their formats or paths; those are in their own modules.

use serde::{Deserialize, Serialize};
use std::fmt;

/// A coding agent whose sessions can be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Agent {
    /// Claude Code.
    Claude,
    /// Codex.
    Codex,
    /// pi.
    Pi,
    /// OpenCode.
    OpenCode,
    /// Gemini CLI.
    Gemini,
    /// Ink, also known as imp.
    Ink,
    /// evo-agent.
    Evo,
    /// Cline.
    Cline,
    /// goose.
    Goose,
    /// Crush.
    Crush,
    /// Qwen Code.
    Qwen,
    /// Kimi.
    Kimi,
}

impl Agent {
    /// All of them, in the order in which they are shown.
    pub const ALL: [Self; 12] = [
        Self::Claude,
        Self::Codex,
        Self::Pi,
        Self::OpenCode,
        Self::Gemini,
        Self::Ink,
        Self::Evo,
        Self::Cline,
        Self::Goose,
        Self::Crush,
        Self::Qwen,
        Self::Kimi,
    ];

    /// The word for it in commands and in JSON.
    #[must_use]
    pub fn id(self) -> &'static str {
        match self {
            Self::Claude => "claude",
            Self::Codex => "codex",
            Self::Pi => "pi",
            Self::OpenCode => "opencode",
            Self::Gemini => "gemini",
            Self::Ink => "ink",
            Self::Evo => "evo",
            Self::Cline => "cline",
            Self::Goose => "goose",
            Self::Crush => "crush",
            Self::Qwen => "qwen",
            Self::Kimi => "kimi",
        }
    }

    /// What people call it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Claude => "Claude Code",
            Self::Codex => "Codex",
            Self::Pi => "pi",
            Self::OpenCode => "OpenCode",
            Self::Gemini => "Gemini CLI",
            Self::Ink => "Ink",
            Self::Evo => "evo-agent",
            Self::Cline => "Cline",
            Self::Goose => "goose",
            Self::Crush => "Crush",
            Self::Qwen => "Qwen Code",
            Self::Kimi => "Kimi",
        }
    }

    /// The agent with this id.
    #[must_use]
    pub fn parse(id: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|agent| agent.id() == id)
    }
}

impl fmt::Display for Agent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
