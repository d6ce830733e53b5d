//! Claude Code's sessions.
//!
//! Responsible for: where they are and how they are read. Must not: be known outside this module.
//!
//! Paths: `$CLAUDE_CONFIG_DIR`, or `~/.claude` and `~/.config/claude`; in it
//! `projects/<directory with / and . as ->/<session>.jsonl`, its subagents in
//! `<session>/subagents/agent-<id>.jsonl` with `agent-<id>.meta.json` beside (earlier:
//! `agent-<id>.jsonl` beside the session), running ones in `sessions/<pid>.json`.
//! Versions seen: 2.1.332; rows of 1.0 and 2.0 as others describe them.
//!
//! Traps:
//! - One row per content block; rows of one response share `message.id`, and results may stand between
//!   them. They become one message, in the place of the first row. While a session is written, its last
//!   message can still grow.
//! - A result hangs on the row of its own call, so results of one response lie on sibling branches, and
//!   only the last of them on the way from the end to the beginning.
//! - `compact_boundary` has no parent; the summary is the row behind it (`isCompactSummary`). Rows that
//!   it preserves stand again *behind* the summary without being written again, and what comes later may
//!   hang on them.
//! - Forks copy rows with their uuids, mostly without naming the origin: a uuid is unique in a file only.
//!   A second compaction can write old rows again; what hangs on the last copy goes on where the session
//!   was.
//! - A refused call and an interrupted one are told with the same words.
//! - `summary` rows may speak about another session; rows of other sessions may stand in a file.

mod agents;
mod chain;
mod injected;
mod queue;
mod reader;
mod retold;
mod row;
mod say;
mod unknown;

pub(super) use agents::subagents;
pub(crate) use chain::MOST_HELD;

use super::agent::Agent;
use super::emitter::Emitter;
use super::input::{ForeignError, Head};
use super::locate::{Located, Roots, files_below_each};
use super::mend::Mended;
use serde_json::Value;
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Whether a file is one of Claude Code's, by its beginning.
pub(super) fn recognises(head: &Head<'_>) -> bool {
    if head.objects().any(|row| is_row(&row)) {
        return true;
    }
    // A first line that is longer than the beginning that was read, or broken.
    let has = |text: &str| memchr::memmem::find(head.bytes, text.as_bytes()).is_some();
    has("{\"parentUuid\":") && has("\"isSidechain\":") && has("\"sessionId\":\"")
}

fn is_row(row: &Value) -> bool {
    let has = |name: &str| row.get(name).is_some();
    match row.get("type").and_then(Value::as_str) {
        Some("user" | "assistant" | "system" | "attachment" | "progress") => {
            has("uuid") && has("parentUuid") && has("isSidechain")
        }
        Some("queue-operation") => has("operation"),
        Some("summary") => has("summary") && has("leafUuid"),
        Some("custom-title") => has("customTitle"),
        Some("last-prompt") => has("lastPrompt"),
        Some("file-history-snapshot") => has("snapshot") && has("messageId"),
        _ => false,
    }
}

/// What a row tells that stands where a reply would: an error of the provider's or of Claude Code itself, which is not
/// sent.
pub(super) fn failure(json: &str) -> Option<String> {
    let mended = Mended::default();
    let row: row::Row<'_> = mended.parse(json)?;
    let message = row.message.filter(|_| row.is_api_error_message)?;
    Some(message.content.text().into_owned())
}

/// The folders that hold Claude Code's things.
pub(super) fn homes(roots: &Roots) -> Vec<PathBuf> {
    let named = roots.dir("CLAUDE_CONFIG_DIR", ".claude");
    let moved = roots.env.get("CLAUDE_CONFIG_DIR").is_some_and(|dir| !dir.is_empty());
    let newer = (!moved).then(|| roots.home.join(".config/claude"));
    [named].into_iter().chain(newer).collect()
}

/// All sessions under `roots`.
pub(super) fn locate(roots: &Roots, found: &mut Vec<Located>, failed: &mut Vec<ForeignError>) {
    for home in homes(roots) {
        let projects = home.join("projects");
        let entries = match fs::read_dir(&projects) {
            Ok(entries) => entries,
            Err(e) if e.kind() == io::ErrorKind::NotFound => continue,
            Err(e) => {
                failed.push(ForeignError::io(&projects, e));
                continue;
            }
        };
        let mut folders = Vec::new();
        for entry in entries.filter_map(Result::ok) {
            let Ok(kind) = entry.file_type() else { continue };
            let path = entry.path();
            if kind.is_dir() || kind.is_symlink() && leads_elsewhere(&path, &projects) {
                folders.push(path);
            }
        }
        files_below_each(&folders, ".jsonl", 4, failed, &mut |project, file, meta| {
            found.extend(located(project, file, &meta));
        });
    }
}

/// Whether a link names a folder that is not listed anyway.
fn leads_elsewhere(link: &Path, projects: &Path) -> bool {
    let (Ok(target), Ok(projects)) = (link.canonicalize(), projects.canonicalize()) else {
        return false;
    };
    target.is_dir() && target.parent() != Some(&projects) && !projects.starts_with(&target)
}

/// A file below a project's folder as a session, if its place is one of a session.
fn located(project: &Path, path: PathBuf, meta: &fs::Metadata) -> Option<Located> {
    // As bytes: taking paths apart takes longer than asking the system about them.
    let below = path.as_os_str().as_bytes().strip_prefix(project.as_os_str().as_bytes())?;
    let mut names = below.split(|byte| *byte == b'/').filter(|name| !name.is_empty());
    let parent = match (names.next(), names.next(), names.next()) {
        (Some(_), None, _) => None,
        (Some(session), Some(b"subagents"), Some(_)) => {
            Some(String::from_utf8_lossy(session).into_owned())
        }
        _ => return None,
    };
    let stem = path.file_stem().and_then(OsStr::to_str)?;
    let id = Some(stem.strip_prefix("agent-").unwrap_or(stem).to_owned());
    Some(Located { id, parent, ..Located::file(Agent::Claude, path, meta) })
}

/// What tells an unchanged copy of a row from another one with its id; none when it is no row.
pub(crate) fn print_of(row: &str) -> Option<u32> {
    let mended = Mended::default();
    Some(mended.parse::<row::Row<'_>>(row)?.print())
}

/// Reads one.
pub(super) fn read(session: &Located, out: &mut Emitter<'_>) -> Result<(), ForeignError> {
    reader::read(session, out)
}
