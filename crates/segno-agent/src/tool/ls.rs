//! `ls`: one directory.
//!
//! Responsible for: its entries with kind and size. Must not: go deeper.

use super::error::ToolError;
use super::workspace::Workspace;
use segno_runtime::ToolOutput;
use serde::Deserialize;
use std::fmt::Write;
use std::fs::DirEntry;

/// How many entries are shown.
const MAX_ENTRIES: usize = 500;

/// The arguments.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Args {
    pub(crate) path: Option<String>,
}

/// Lists.
pub(crate) fn run(workspace: &Workspace, args: &Args) -> Result<ToolOutput, ToolError> {
    let path = workspace.resolve(args.path.as_deref().unwrap_or("."))?;
    let shown = workspace.show(&path);
    let io = |source| ToolError::Io { path: shown.clone(), source };
    let meta = std::fs::metadata(&path).map_err(io)?;
    if !meta.is_dir() {
        return Ok(ToolOutput::done(format!("{shown} ({} bytes, not a directory)", meta.len())));
    }
    let entries: Result<Vec<DirEntry>, _> = std::fs::read_dir(&path).map_err(io)?.collect();
    let mut entries = entries.map_err(io)?;
    entries.sort_by_key(DirEntry::file_name);
    let mut out = String::new();
    for entry in entries.iter().take(MAX_ENTRIES) {
        let _ = writeln!(out, "{}", describe(entry));
    }
    match entries.len() {
        0 => out = format!("({shown} is empty)"),
        n if n > MAX_ENTRIES => {
            let _ = writeln!(out, "({} more entries; `find` narrows with a glob)", n - MAX_ENTRIES);
        }
        _ => {}
    }
    Ok(ToolOutput::done(out))
}

fn describe(entry: &DirEntry) -> String {
    let name = entry.file_name();
    let odd = if name.to_str().is_none() { " (the name is not UTF-8)" } else { "" };
    let name =
        name.to_string_lossy().escape_debug().to_string().replace("\\'", "'").replace("\\\"", "\"");
    let Ok(meta) = entry.metadata() else {
        return format!("{name} (cannot be read){odd}");
    };
    let kind = meta.file_type();
    if kind.is_dir() {
        format!("{name}/{odd}")
    } else if kind.is_symlink() {
        let target = std::fs::read_link(entry.path()).unwrap_or_default();
        format!("{name} -> {}{odd}", target.display())
    } else if kind.is_file() {
        format!("{name} ({} bytes){odd}", meta.len())
    } else {
        format!("{name} (special file){odd}")
    }
}
