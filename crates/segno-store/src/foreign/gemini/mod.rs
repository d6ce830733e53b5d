//! Gemini CLI's sessions.
//!
//! Where: `~/.gemini/tmp/<project>/chats/session-*.jsonl` (before that one JSON document, `.json`), and for
//! subagents `chats/<parent>/<id>.jsonl`; `GEMINI_CLI_HOME` stands for the home directory. `projects.json`
//! says which directory a project's name means; older names are hashes, which say nothing. Seen: 0.61.0; the
//! older document from its source.
//!
//! Traps:
//! - A message is written again when its calls have finished, under the same id: the last one holds.
//! - `$set` with messages replaces the whole history. Resuming writes it all again, with new times and
//!   without tokens: what was read before is the better copy. It begins with one that holds only the
//!   surroundings, which would leave nothing.
//! - A summary is a history that begins with a snapshot on the person's side, with copies of what it keeps.
//! - A result stands in the call, again in a message of the person's side, and after resuming once more
//!   under another id: it is one result.
//! - A call is written only when it has finished: a killed process leaves none.
//! - A torn line takes the next record with it, because nothing is written before that one.
//! - A file with a second line of facts is one session that was resumed within the same minute.
//!
//! Responsible for: where they are and how they are read. Must not: be known outside this module.

mod history;
mod project;
mod rest;
mod shape;

use super::agent::Agent;
use super::array::Pieces;
use super::emitter::Emitter;
use super::input::{self, ForeignError, Head};
use super::item::Fact;
use super::lines::{Lines, whole_objects};
use super::locate::{Located, Roots, files_below};
use history::History;
pub(crate) use project::first_name;
use std::ffi::OsStr;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// Whether a file is one of Gemini CLI's, by its beginning.
pub(super) fn recognises(head: &Head<'_>) -> bool {
    let is_record = |value: &serde_json::Value| {
        let has = |key: &str| value.get(key).is_some();
        let is_message = || value["type"] == "gemini" && has("id") && has("timestamp");
        has("sessionId") && has("projectHash") || has("$set") || has("$rewindTo") || is_message()
    };
    head.objects().any(|value| is_record(&value)) || is_document(head.bytes)
}

/// An older session: one JSON document, which may be longer than its beginning.
fn is_document(bytes: &[u8]) -> bool {
    let text = String::from_utf8_lossy(&bytes[..bytes.len().min(1024)]);
    let text = text.trim_start_matches('\u{FEFF}').trim_start();
    let has = |key: &str| text.contains(&format!("\"{key}\""));
    text.starts_with('{') && has("sessionId") && has("projectHash") && has("startTime")
}

/// The folder that holds Gemini CLI's things.
pub(super) fn home(roots: &Roots) -> PathBuf {
    roots.dir("GEMINI_CLI_HOME", "").join(".gemini")
}

/// The name of the folder of the project in `cwd`: the one that it has, or that Gemini CLI would give it.
pub(super) fn project_name(roots: &Roots, cwd: &str) -> String {
    project::name(&home(roots), cwd)
}

/// All sessions under `roots`.
pub(super) fn locate(roots: &Roots, found: &mut Vec<Located>, failed: &mut Vec<ForeignError>) {
    let projects = home(roots).join("tmp");
    let entries = match fs::read_dir(&projects) {
        Ok(entries) => entries,
        Err(e) if e.kind() == ErrorKind::NotFound => return,
        Err(e) => return failed.push(ForeignError::io(&projects, e)),
    };
    for entry in entries.filter_map(Result::ok) {
        let chats = entry.path().join("chats");
        files_below(&chats, ".jsonl", 1, failed, &mut |path, meta| {
            let parent = path.parent().filter(|folder| *folder != chats);
            let name = |path: &Path| path.file_name().map(|n| n.to_string_lossy().into_owned());
            let mut session = Located::file(Agent::Gemini, path.clone(), &meta);
            if let Some(parent) = parent.and_then(name) {
                session.parent = Some(parent);
                session.id = path.file_stem().map(|stem| stem.to_string_lossy().into_owned());
            }
            found.push(session);
        });
        files_below(&chats, ".json", 0, failed, &mut |path, meta| {
            // A document that was resumed goes on as lines, which begin with all that it held.
            if !path.with_extension("jsonl").exists() {
                found.push(Located::file(Agent::Gemini, path, &meta));
            }
        });
    }
}

/// Reads one.
pub(super) fn read(session: &Located, out: &mut Emitter<'_>) -> Result<(), ForeignError> {
    let path = &session.path;
    if let Some(cwd) = project::directory(path) {
        out.fact(Fact::Cwd(cwd));
    }
    let mut history = History::new(parent_of(path));
    let (_, head) = input::head(path)?;
    let bytes = if is_lines(path, &head) {
        out.fact(Fact::Format("lines".to_owned()));
        let mut lines = Lines::open(path)?;
        lines.each_object("gemini.record", out, |object, out| {
            Ok(history.record(object.json, &object.origin, out))
        })?;
        lines.bytes()
    } else {
        out.fact(Fact::Format("document".to_owned()));
        let mut pieces = Pieces::open(path, &["messages"])?;
        pieces.each("gemini.record", out, |piece, out| {
            Ok(match piece.key {
                Some(key) if piece.index.is_none() => history.member(key, piece.json, out),
                _ => history.record(piece.json, &piece.origin, out),
            })
        })?;
        pieces.bytes()
    };
    history.finish(out);
    out.finish(path, bytes)
}

/// Whether a session is one JSON document, as the older ones are.
///
/// # Errors
/// When it cannot be read.
pub(crate) fn is_one_document(path: &Path) -> Result<bool, ForeignError> {
    Ok(!is_lines(path, &input::head(path)?.1))
}

/// Whether a message only tells the surroundings: alone, it is no history.
pub(crate) fn is_surroundings(message: &str) -> bool {
    history::tells_surroundings(message)
}

/// Whether each line is a record. Gemini CLI gives lines a name of their own, whatever became of them; under another
/// name the first line tells, which no repair makes into one of the other kind.
fn is_lines(path: &Path, head: &[u8]) -> bool {
    if path.extension() == Some(OsStr::new("jsonl")) {
        return true;
    }
    let lines = head.split(|&byte| byte == b'\n').map(<[u8]>::trim_ascii);
    let mut lines = lines.filter(|line| !line.is_empty());
    let (first, second) = (lines.next().unwrap_or_default(), lines.next());
    if let Ok(serde_json::Value::Object(first)) = serde_json::from_slice(first) {
        // A document may stand on one line; lines may begin with all that another file held.
        return second.is_some() || !first.contains_key("messages");
    }
    let goes_on = match first.last() {
        Some(b'{' | b',') => second.is_some_and(|second| second.starts_with(b"\"")),
        last => last == Some(&b'['),
    };
    !is_document(head) || second.is_some() && !goes_on || begins_fused(first)
}

/// Whether a whole value stands on a line with something behind it: several appends.
fn begins_fused(line: &[u8]) -> bool {
    let text = String::from_utf8_lossy(line);
    let text = text.trim_start_matches('\u{FEFF}');
    let (objects, _) = whole_objects(text);
    objects.first().is_some_and(|one| text.starts_with(one) && text.len() > one.len())
}

/// The session to which a subagent's file belongs: its folder, where the files of sessions lie beside.
fn parent_of(path: &Path) -> Option<String> {
    let folder = path.parent()?;
    let chats = folder.parent()?.file_name()?;
    (chats == "chats")
        .then(|| folder.file_name().map(|name| name.to_string_lossy().into_owned()))?
}
