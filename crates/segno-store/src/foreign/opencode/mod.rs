//! OpenCode's sessions.
//!
//! Where: `$XDG_DATA_HOME` or `~/.local/share`, there `opencode/opencode*.db` (a SQLite database in WAL
//! mode, or the one that `OPENCODE_DB` names), before that a tree of JSON files in `opencode/storage`; and
//! what `opencode export` writes. Seen: 1.18.33 with both of its engines; the tables of 2.0 from its source.
//!
//! Traps:
//! - Rows are read in the order in which they were written. Ids and times are made from a clock, which
//!   wraps and is set back.
//! - A killed process leaves calls `running` and replies without an end for ever; a killed summary leaves
//!   its request and an empty reply. Nothing of that is a result, a reply or a boundary.
//! - A summary is a boundary only if it answers a request for one.
//! - A stopped command is kept as completed, without an exit status.
//! - Forks copy rows under new ids, with their times, and say nothing of where they come from.
//! - The second engine's sessions have no row in the first one's tables: their export is empty.
//! - The tree of files stays when the database is made; what the database does not hold is only there.
//!
//! Responsible for: where they are and how they are read. Must not: be known outside this module.

#[cfg(feature = "catalog")]
mod database;
mod export;
mod first;
mod reply;
mod second;
mod shape;
mod storage;

use super::emitter::Emitter;
use super::input::{ForeignError, Head};
use super::item::Fact;
use super::locate::{Located, Roots};
use shape::About;
use std::collections::HashSet;
use std::path::{Path, PathBuf};

/// Whether a file is one of OpenCode's, by its beginning.
pub(super) fn recognises(head: &Head<'_>) -> bool {
    if head.is_sqlite() {
        return is_database(head.path);
    }
    let text = String::from_utf8_lossy(head.bytes);
    let text = text.trim_start_matches('\u{FEFF}').trim_start();
    is_export(text) || storage::is_session(text)
}

#[cfg(feature = "catalog")]
fn is_database(path: &Path) -> bool {
    database::is_ours(path)
}

#[cfg(not(feature = "catalog"))]
fn is_database(_path: &Path) -> bool {
    false
}

/// An export begins with the session's facts, of which the id is the first.
fn is_export(text: &str) -> bool {
    let after = |text: &'_ str, token: &str| -> Option<usize> {
        let rest = text.trim_start();
        rest.starts_with(token).then(|| text.len() - rest.len() + token.len())
    };
    let mut at = 0;
    for token in ["{", "\"info\"", ":", "{", "\"id\"", ":", "\"ses_"] {
        match after(&text[at..], token) {
            Some(len) => at += len,
            None => return false,
        }
    }
    true
}

/// All sessions under `roots`.
pub(super) fn locate(roots: &Roots, found: &mut Vec<Located>, failed: &mut Vec<ForeignError>) {
    let data = roots.dir("XDG_DATA_HOME", ".local/share").join("opencode");
    let (from, mut rowless) = (found.len(), Vec::new());
    for path in databases(&data, roots) {
        rowless.extend(locate_in(&path, found, failed));
    }
    storage::locate(&data.join("storage"), from, found, failed);
    // A session's files tell more about it than a database that has lost its row.
    let known: HashSet<_> = found[from..].iter().filter_map(|session| session.id.clone()).collect();
    let is_known = |session: &Located| session.id.as_ref().is_some_and(|id| known.contains(id));
    found.extend(rowless.into_iter().filter(|session| !is_known(session)));
}

fn databases(data: &Path, roots: &Roots) -> Vec<PathBuf> {
    let is_database = |path: &PathBuf| {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        name.starts_with("opencode") && path.extension().is_some_and(|suffix| suffix == "db")
    };
    let entries = std::fs::read_dir(data).into_iter().flatten().filter_map(Result::ok);
    let mut found: Vec<_> = entries.map(|entry| entry.path()).filter(is_database).collect();
    if let Some(named) = roots.env.get("OPENCODE_DB").filter(|name| !name.is_empty()) {
        let named = data.join(named);
        if named.is_file() && !found.contains(&named) {
            found.push(named);
        }
    }
    found.sort();
    found
}

/// The sessions of a database; gives those whose rows are lost.
#[cfg(feature = "catalog")]
fn locate_in(
    path: &Path,
    found: &mut Vec<Located>,
    failed: &mut Vec<ForeignError>,
) -> Vec<Located> {
    match database::locate(path) {
        Ok(listed) => {
            found.extend(listed.sessions);
            failed.extend(listed.lost);
            listed.rowless
        }
        Err(e) => {
            failed.push(e);
            Vec::new()
        }
    }
}

#[cfg(not(feature = "catalog"))]
fn locate_in(
    _path: &Path,
    _found: &mut Vec<Located>,
    failed: &mut Vec<ForeignError>,
) -> Vec<Located> {
    failed.push(ForeignError::Unsupported { agent: super::Agent::OpenCode });
    Vec::new()
}

/// Reads one.
pub(super) fn read(session: &Located, out: &mut Emitter<'_>) -> Result<(), ForeignError> {
    let (_, bytes) = super::input::head(&session.path)?;
    let head = Head { path: &session.path, bytes: &bytes };
    if head.is_sqlite() {
        return read_database(session, out);
    }
    let text = String::from_utf8_lossy(&bytes);
    if storage::is_session(text.trim_start()) {
        return storage::read(&session.path, out);
    }
    export::read(&session.path, out)
}

#[cfg(feature = "catalog")]
fn read_database(session: &Located, out: &mut Emitter<'_>) -> Result<(), ForeignError> {
    database::read(session, out)
}

#[cfg(not(feature = "catalog"))]
fn read_database(_session: &Located, _out: &mut Emitter<'_>) -> Result<(), ForeignError> {
    Err(ForeignError::Unsupported { agent: super::Agent::OpenCode })
}

/// Hands on what is known about a session as a whole.
fn facts(about: &About, out: &mut Emitter<'_>) {
    out.fact(Fact::Id(about.id.clone()));
    let text = |text: &Option<String>| text.clone().filter(|text| !text.is_empty());
    if let Some(at) = about.created {
        out.fact(Fact::Created(at));
    }
    if let Some(version) = text(&about.version) {
        out.fact(Fact::Version(version));
    }
    if let Some(cwd) = text(&about.directory) {
        out.fact(Fact::Cwd(cwd));
    }
    if let Some(title) = text(&about.title).filter(|title| !is_placeholder(title)) {
        out.fact(Fact::Titled(title));
    }
    if let Some(parent) = text(&about.parent) {
        out.fact(Fact::ChildOf { parent, call: None, role: text(&about.agent) });
    }
    if let Some((id, up_to)) = about.fork_of.clone() {
        out.fact(Fact::ForkOf { id, up_to });
    }
    if about.archived {
        out.fact(Fact::Archived);
    }
}

/// What OpenCode writes where it has no title yet.
fn is_placeholder(title: &str) -> bool {
    let time = title.strip_prefix("New session - ").or(title.strip_prefix("Child session - "));
    time.is_some_and(|time| segno_model::Timestamp::parse(time).is_some())
}
