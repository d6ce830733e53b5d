//! OpenCode's older storage: a file per session, per message and per part.
//!
//! Where: `storage/session/<project>/<session>.json`, `storage/message/<session>/<message>.json` and
//! `storage/part/<message>/<part>.json`.
//!
//! Responsible for: finding and reading it. Must not: hold more than one message with its parts.

use super::super::agent::Agent;
use super::super::emitter::Emitter;
use super::super::input::{self, ForeignError};
use super::super::item::{Fact, Origin};
use super::super::lines::readable;
use super::super::locate::{Located, Stamp, files_below};
use super::facts;
use super::first::{Messages, Stored};
use super::shape::{About, ExportInfo, Info};
use std::collections::HashSet;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

/// Whether a file is a session's, by its beginning.
pub(super) fn is_session(text: &str) -> bool {
    let squeezed: String = text.chars().take(200).filter(|c| !c.is_whitespace()).collect();
    squeezed.starts_with("{\"id\":\"ses_") && text.contains("\"projectID\"")
}

/// All sessions that `found` does not hold from `from` on.
pub(super) fn locate(
    storage: &Path,
    from: usize,
    found: &mut Vec<Located>,
    failed: &mut Vec<ForeignError>,
) {
    let known: HashSet<String> = found[from..].iter().filter_map(|s| s.id.clone()).collect();
    files_below(&storage.join("session"), ".json", 1, failed, &mut |path, meta| {
        let id = path.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default().to_owned();
        if !id.starts_with("ses_") || known.contains(&id) {
            return;
        }
        let mut session = Located::file(Agent::OpenCode, path, &meta);
        if let Ok(messages) = fs::metadata(storage.join("message").join(&id)) {
            let changed = Stamp::of(&messages).modified_ns;
            session.stamp.modified_ns = session.stamp.modified_ns.max(changed);
        }
        session.id = Some(id);
        found.push(session);
    });
}

/// Reads the session of which `path` is the file.
pub(super) fn read(path: &Path, out: &mut Emitter<'_>) -> Result<(), ForeignError> {
    let about = file(path)?;
    let mut bytes = about.len() as u64;
    let text = readable(&about, &Origin::default(), out).unwrap_or_default();
    let about: About = serde_json::from_str::<ExportInfo>(&text).unwrap_or_default().into();
    let id = path.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
    let about = About { id: if about.id.is_empty() { id.to_owned() } else { about.id }, ..about };
    out.fact(Fact::Format("files".to_owned()));
    facts(&about, out);
    let storage = path.ancestors().nth(3).unwrap_or(path);
    let mut messages = Messages::new(about.revert.clone());
    for (_, message) in messages_of(&storage.join("message").join(id))? {
        if out.is_stopped() {
            break;
        }
        let parts = files(&storage.join("part").join(stem(&message)))?;
        bytes += take(&message, &parts, &mut messages, out)?;
    }
    messages.finish(out);
    out.finish(path, bytes)
}

/// The messages of a session in the order of their times: the names are made from a clock that wraps.
fn messages_of(folder: &Path) -> Result<Vec<(i64, PathBuf)>, ForeignError> {
    let mut messages = Vec::new();
    for path in files(folder)? {
        let text = file(&path)?;
        let info = serde_json::from_slice::<Info<'_>>(&text).unwrap_or_default();
        let created = super::shape::at(info.time.and_then(|time| time.created));
        messages.push((created.map_or(i64::MAX, |at| at.0), path));
    }
    messages.sort();
    Ok(messages)
}

fn take(
    message: &Path,
    parts: &[PathBuf],
    messages: &mut Messages,
    out: &mut Emitter<'_>,
) -> Result<u64, ForeignError> {
    let contents = |path: &PathBuf| file(path).map(|bytes| (stem(path), bytes));
    let parts = parts.iter().map(contents).collect::<Result<Vec<_>, _>>()?;
    let whole = file(message)?;
    let bytes = whole.len() + parts.iter().map(|(_, part)| part.len()).sum::<usize>();
    let texts: Vec<_> = parts
        .iter()
        .map(|(id, part)| {
            (id, readable(part, &Origin::default(), out).unwrap_or_default().into_owned())
        })
        .collect();
    let stored = |id: &str, json, place: &str| Stored {
        id: Some(id.to_owned()),
        json,
        origin: Origin { id: Some(id.to_owned()), ..Origin::default() },
        place: place.to_owned(),
    };
    let parts: Vec<_> = texts.iter().map(|(id, json)| stored(id, json, "A part's file")).collect();
    let text = readable(&whole, &Origin::default(), out).unwrap_or_default();
    messages.take(&stored(&stem(message), &text, "A message's file"), &parts, out);
    Ok(bytes as u64)
}

fn files(folder: &Path) -> Result<Vec<PathBuf>, ForeignError> {
    let (mut paths, mut failed) = (Vec::new(), Vec::new());
    files_below(folder, ".json", 0, &mut failed, &mut |path, _| paths.push(path));
    paths.sort();
    failed.pop().map_or(Ok(paths), Err)
}

fn stem(path: &Path) -> String {
    path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default()
}

fn file(path: &Path) -> Result<Vec<u8>, ForeignError> {
    let mut bytes = Vec::new();
    let mut file = input::open(path).map_err(|e| ForeignError::io(path, e))?;
    file.read_to_end(&mut bytes).map_err(|e| ForeignError::io(path, e))?;
    Ok(bytes)
}
