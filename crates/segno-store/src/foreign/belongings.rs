//! Which files belong to a session.
//!
//! Responsible for: naming them, the session's own first, so that copies of all of them can be read as the originals
//! are. Must not: read what is in them, or name a file of another session but a subagent's.

use super::agent::Agent;
use super::input::ForeignError;
use super::locate::{Located, files_below};
use std::collections::HashSet;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

/// How deep folders of a session are looked into.
const DEPTH: usize = 8;

/// The files of a session that has files; none of a session in a database.
///
/// # Errors
/// When a folder of it cannot be listed.
pub fn belongings(session: &Located) -> Result<Vec<PathBuf>, ForeignError> {
    if session.key.is_some() {
        return Ok(Vec::new());
    }
    let path = &session.path;
    if path.is_dir() {
        return below(std::slice::from_ref(path));
    }
    let mut files = vec![path.clone()];
    files.extend(below(&folders(session))?);
    files.extend(beside(session).into_iter().filter(|file| file.is_file()));
    let mut seen = HashSet::new();
    files.retain(|file| seen.insert(file.clone()));
    Ok(files)
}

/// Folders that belong to a session as a whole.
fn folders(session: &Located) -> Vec<PathBuf> {
    let path = &session.path;
    let stem = path.file_stem().unwrap_or_default();
    match session.agent {
        // Subagents, and results that are too long for a row; what the files were before they were edited.
        Agent::Claude if session.parent.is_none() && is_id(stem) => {
            let home = path.ancestors().nth(3);
            let history = home.map(|home| home.join("file-history").join(stem));
            [Some(path.with_extension("")), history].into_iter().flatten().collect()
        }
        Agent::Kimi if path.file_name() == Some(OsStr::new("context.jsonl")) => {
            path.parent().map(Path::to_owned).into_iter().collect()
        }
        Agent::OpenCode => {
            let storage = path.ancestors().nth(3).unwrap_or(path);
            let messages = storage.join("message").join(stem);
            let names = below(std::slice::from_ref(&messages)).unwrap_or_default();
            let parts =
                names.iter().filter_map(|name| Some(storage.join("part").join(name.file_stem()?)));
            parts.chain([messages.clone()]).collect()
        }
        _ => Vec::new(),
    }
}

/// Whether a name is a session's id, so that a folder of that name belongs to it.
fn is_id(stem: &OsStr) -> bool {
    stem.to_str().is_some_and(|stem| uuid::Uuid::try_parse(stem).is_ok())
}

/// Files beside a session that its reader looks at.
fn beside(session: &Located) -> Vec<PathBuf> {
    let path = &session.path;
    let above = |name: &str| path.ancestors().find(|dir| dir.file_name() == Some(OsStr::new(name)));
    match session.agent {
        Agent::Claude => vec![path.with_extension("meta.json")],
        // The names that people gave.
        Agent::Codex => {
            let tree = above("sessions").or_else(|| above("archived_sessions"));
            let home = tree.and_then(Path::parent);
            home.map(|home| home.join("session_index.jsonl")).into_iter().collect()
        }
        // Which directory the project is.
        Agent::Gemini => {
            let project = above("chats").and_then(Path::parent);
            let registry = project.and_then(|p| Some(p.parent()?.parent()?.join("projects.json")));
            let root = project.map(|project| project.join(".project_root"));
            root.into_iter().chain(registry).collect()
        }
        _ => Vec::new(),
    }
}

fn below(folders: &[PathBuf]) -> Result<Vec<PathBuf>, ForeignError> {
    let (mut files, mut failed) = (Vec::new(), Vec::new());
    for folder in folders {
        files_below(folder, "", DEPTH, &mut failed, &mut |path, _| files.push(path));
    }
    // The same files in the same order, whatever the folder says.
    files.sort();
    failed.pop().map_or(Ok(files), Err)
}
