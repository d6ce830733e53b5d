//! `write`: a file's whole new content.
//!
//! Responsible for: working out the change and carrying it out durably. Must not: decide whether it
//! may.

use super::change::Change;
use super::change::Old;
use super::error::ToolError;
use super::workspace::Workspace;
use serde::Deserialize;

/// The arguments.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Args {
    pub(crate) path: String,
    pub(crate) content: String,
}

/// Works out the change.
pub(crate) fn plan(workspace: &Workspace, args: &Args) -> Result<Change, ToolError> {
    let path = workspace.resolve(&args.path)?;
    let old = Old::read(&path)?;
    if args.path.ends_with('/') && old == Old::Absent {
        return Err(ToolError::Refused(format!("{} names a directory", args.path)));
    }
    let new = args.content.clone().into_bytes();
    Ok(Change { shown: workspace.show(&path), path, old, new, note: String::new() })
}
