//! goose's sessions.
//!
//! Responsible for: where they are and how they are read. Must not: be known outside this module.
//!
//! `~/.local/share/goose/sessions/sessions.db` (`GOOSE_PATH_ROOT/data`, `XDG_DATA_HOME`), before that one
//! `ID.jsonl` per session in the same folder. Read after the source of aaif-goose/goose, before block/goose
//! (`crates/goose/src/session/session_manager.rs`, schema versions 1 to 17, `session/legacy.rs`,
//! `conversation/message.rs`, `conversation/tool_result_serde.rs`); what the tests read is constructed from it.
//!
//! Traps: a summary hides the messages before it from the model by a flag and deletes none; results may be
//! hidden while their calls are not. A value may be a result, a list or an error. Pieces may be for the
//! person alone. Times are in seconds or milliseconds. Old sessions were taken over into the database and
//! their files left.

#[cfg(feature = "catalog")]
mod database;
mod message;

use super::agent::Agent;
use super::chain::Chain;
use super::emitter::{Emitter, Meta};
use super::input::{ForeignError, Head};
use super::item::Fact;
use super::lines::{Lines, Object};
use super::locate::{Located, Roots, files_below};
use super::mend::Mended;
use message::{Said, emit};
use segno_model::Timestamp;
use segno_model::record::ModelRef;
use serde::Deserialize;
use std::ffi::OsStr;
use std::path::PathBuf;

/// Whether a file is one of goose's, by its beginning.
pub(super) fn recognises(head: &Head<'_>) -> bool {
    #[cfg(feature = "catalog")]
    if head.is_sqlite() {
        return database::is_ours(head.path);
    }
    let rows: Vec<serde_json::Value> = head.objects().take(4).collect();
    let is_metadata = |row: &serde_json::Value| {
        row.get("description").is_some() && row.get("working_dir").is_some()
    };
    let is_message = |row: &serde_json::Value| {
        row.get("created").is_some_and(serde_json::Value::is_i64)
            && row.get("role").is_some()
            && row.get("content").is_some_and(serde_json::Value::is_array)
    };
    rows.iter().take(1).any(is_metadata) || rows.iter().any(is_message)
}

/// All sessions under `roots`. A file that the database has taken over is not a session of its own.
pub(super) fn locate(roots: &Roots, found: &mut Vec<Located>, failed: &mut Vec<ForeignError>) {
    let mut places = vec![roots.dir("XDG_DATA_HOME", ".local/share").join("goose/sessions")];
    if let Some(root) = roots.env.get("GOOSE_PATH_ROOT").filter(|root| !root.is_empty()) {
        places.push(PathBuf::from(root).join("data/sessions"));
    }
    for place in places {
        let start = found.len();
        #[cfg(feature = "catalog")]
        database::locate(&place.join("sessions.db"), found, failed);
        let taken: Vec<Option<String>> = found[start..].iter().map(|s| s.id.clone()).collect();
        files_below(&place, ".jsonl", 0, failed, &mut |path, meta| {
            let id = path.file_stem().and_then(OsStr::to_str).map(str::to_owned);
            if !taken.contains(&id) {
                found.push(Located { id, ..Located::file(Agent::Goose, path, &meta) });
            }
        });
    }
}

/// Reads one.
pub(super) fn read(session: &Located, out: &mut Emitter<'_>) -> Result<(), ForeignError> {
    let name = session.path.file_name().and_then(OsStr::to_str).unwrap_or_default();
    if session.key.is_none() && !name.ends_with(".db") {
        return read_file(session, out);
    }
    #[cfg(feature = "catalog")]
    return database::read(session, out);
    #[cfg(not(feature = "catalog"))]
    Err(ForeignError::Unsupported { agent: Agent::Goose })
}

/// The first line of a file.
#[derive(Deserialize)]
struct Metadata {
    description: String,
    working_dir: Option<String>,
}

fn read_file(session: &Located, out: &mut Emitter<'_>) -> Result<(), ForeignError> {
    out.fact(Fact::Format("jsonl".to_owned()));
    if let Some(id) = session.path.file_stem().and_then(OsStr::to_str) {
        out.fact(Fact::Id(id.to_owned()));
    }
    let mut chain = Chain::default();
    let mut lines = Lines::open(&session.path)?;
    lines.each_object("goose.unknown", out, |object, out| Ok(take(object, &mut chain, out)))?;
    chain.finish(out);
    out.finish(&session.path, lines.bytes())
}

fn take(object: &Object<'_>, chain: &mut Chain, out: &mut Emitter<'_>) -> bool {
    let mended = Mended::default();
    if let Some(metadata) = mended.parse::<Metadata>(object.json) {
        mended.found(&object.origin, out);
        out.fact(Fact::Titled(metadata.description));
        metadata.working_dir.into_iter().for_each(|cwd| out.fact(Fact::Cwd(cwd)));
        return true;
    }
    let mended = Mended::default();
    let Some(said) = mended.parse::<Said<'_>>(object.json) else { return false };
    let mut origin = object.origin.clone();
    origin.id.clone_from(&said.id);
    let meta = Meta { at: said.created.map(at), origin, ..Meta::default() };
    let known = emit(&said, &ModelRef::default(), &meta, chain, out);
    if known {
        mended.tell("goose.message", object.json, &meta, out);
    }
    known
}

/// A time in seconds or milliseconds.
fn at(time: i64) -> Timestamp {
    Timestamp(if time.abs() < 10_000_000_000 { time.saturating_mul(1000) } else { time })
}
