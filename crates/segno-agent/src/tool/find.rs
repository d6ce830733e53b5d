//! `find`: files and directories by a glob.
//!
//! Responsible for: listing paths within fixed bounds, in a stable order. Must not: look into files.

use super::error::ToolError;
use super::walk::{Cancel, walk};
use super::workspace::Workspace;
use globset::GlobBuilder;
use segno_runtime::ToolOutput;
use serde::Deserialize;
use std::fmt::Write;

/// How many paths are shown unless told otherwise.
const DEFAULT_LIMIT: usize = 200;
/// How many paths are shown at most.
const MAX_LIMIT: usize = 2000;

/// The arguments.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Args {
    pub(crate) glob: Option<String>,
    pub(crate) path: Option<String>,
    #[serde(default)]
    pub(crate) hidden: bool,
    pub(crate) limit: Option<usize>,
}

/// Finds.
pub(crate) fn run(
    workspace: &Workspace,
    args: &Args,
    cancel: &Cancel,
) -> Result<ToolOutput, ToolError> {
    let base = workspace.resolve(args.path.as_deref().unwrap_or("."))?;
    std::fs::metadata(&base)
        .map_err(|source| ToolError::Io { path: workspace.show(&base), source })?;
    let glob = args.glob.as_deref().unwrap_or("**");
    // Without a slash a glob is about the name alone, as in .gitignore.
    let by_name = !glob.contains('/');
    let matcher = GlobBuilder::new(glob)
        .literal_separator(true)
        .build()
        .map_err(|e| ToolError::Arguments(format!("`glob` is not valid: {e}")))?
        .compile_matcher();
    let limit = args.limit.unwrap_or(DEFAULT_LIMIT).clamp(1, MAX_LIMIT);
    let (mut out, mut count, mut unread) = (String::new(), 0, 0);
    for entry in walk(&base, args.hidden, None)? {
        cancel.check()?;
        let Ok(entry) = entry else {
            unread += 1;
            continue;
        };
        let relative = entry.path().strip_prefix(&base).unwrap_or(entry.path());
        let hit =
            if by_name { matcher.is_match(entry.file_name()) } else { matcher.is_match(relative) };
        if entry.depth() == 0 || !hit {
            continue;
        }
        if count == limit {
            let _ = writeln!(
                out,
                "(stopped after {limit}; there are more: narrow the glob or raise `limit`, at most {MAX_LIMIT})"
            );
            break;
        }
        count += 1;
        let slash = if entry.file_type().is_some_and(|t| t.is_dir()) { "/" } else { "" };
        let _ = writeln!(out, "{}{slash}", workspace.show(entry.path()));
    }
    if count == 0 {
        out = format!("nothing matches {glob}\n");
    }
    if unread > 0 {
        let _ = writeln!(out, "({unread} entries could not be read)");
    }
    Ok(ToolOutput::done(out))
}
