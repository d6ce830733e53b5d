//! What a tool cannot do, as the model is told of it.
//!
//! Responsible for: the kinds of failure and what each says about the effect. Must not: decide what
//! to do about one.

use super::workspace::Workspace;
use segno_model::record::Outcome;
use segno_runtime::{StopKind, ToolOutput};
use std::path::Path;

/// A call that gave no success. The text goes to the model, so it says what to do next where it can.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ToolError {
    /// The arguments do not fit the tool; nothing was started.
    #[error("{0}")]
    Arguments(String),
    /// The tool will not or cannot do it; nothing changed.
    #[error("{0}")]
    Refused(String),
    /// The operating system said no; nothing changed.
    #[error("{path}: {source}")]
    Io {
        /// The path as it is shown.
        path: String,
        /// The cause.
        source: std::io::Error,
    },
    /// The effect may have happened, wholly or in part.
    #[error("{0}")]
    Unsure(String),
    /// A stop came while it ran; it changes nothing.
    #[error("{}", stop_text(*.0))]
    Stopped(StopKind),
    /// A stop came before it started.
    #[error("not started: {}", stop_text(*.0))]
    NotStarted(StopKind),
}

/// Who ended it, for the model.
pub(crate) fn stop_text(kind: StopKind) -> &'static str {
    match kind {
        StopKind::User => "stopped by the user",
        StopKind::Shutdown => "ended because Segno is shutting down",
    }
}

impl ToolError {
    /// An operating system error at a path.
    pub(crate) fn io(path: &Path, source: std::io::Error) -> Self {
        Self::Io { path: path.display().to_string(), source }
    }

    /// The result that the model gets.
    pub(crate) fn output(&self, workspace: &Workspace) -> ToolOutput {
        let outcome = match self {
            Self::Arguments(_) | Self::NotStarted(_) => Outcome::NotRun,
            Self::Refused(_) | Self::Io { .. } => Outcome::Failed,
            Self::Unsure(_) => Outcome::Unknown,
            Self::Stopped(_) => Outcome::Stopped,
        };
        ToolOutput::new(workspace.shorten(&self.to_string()), true, outcome)
    }
}
