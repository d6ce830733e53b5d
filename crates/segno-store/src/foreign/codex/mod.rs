//! Codex's sessions ("rollouts"), seen from 0.118 to 0.171.
//!
//! Responsible for: where they are and how they are read. Must not: be known outside this module.
//!
//! `$CODEX_HOME` (`~/.codex`) holds `sessions/YYYY/MM/DD/rollout-<time>-<id>.jsonl`, which may be packed
//! (`.jsonl.zst`), `archived_sessions/`, `session_index.jsonl` with the names that people gave, and
//! `thread-writer-locks/<id>.lock`, locked while a process writes. A line is `{timestamp, ordinal, type,
//! payload}`; before 0.15x there were no ordinals ("legacy"), in the first months of 2025 no wrapper
//! either ("bare"). Traps:
//!
//! - Each turn stands twice: as items of the provider (`response_item`) and as events for the screen. The
//!   items are the messages; events become messages only where a turn has no items of that role.
//! - One response is several items. It ends where its tokens are reported, or where somebody else speaks.
//! - `compacted` holds the whole new prompt. What of it stands earlier in the session is kept there; from
//!   the first piece on that does not, the pieces stand as copies behind the summary.
//! - `thread_rolled_back` takes back prompts, not lines; a compaction within goes with them, and what it
//!   summarised counts again.
//! - A fork begins with a reference (`history_base`) and holds none of the records before it, or, in
//!   legacy files, copies of all of them, with old or new times.
//! - Token counts are totals that go on over forks, and are repeated.
//! - "aborted" as a result means that Codex did not see the end, not that there was none.

mod ancestry;
mod compaction;
mod item;
mod live;
pub(crate) mod numbers;
mod places;
mod rows;
mod thread;
mod tokens;
mod turn;
pub(crate) mod unpack;

pub(crate) use item::SUMMARY;

use super::agent::Agent;
use super::emitter::Emitter;
use super::input::{ForeignError, Head, first_whole_lines};
use super::item::{Fact, Origin};
use super::lines::{Lines, Taken};
use super::live::Running;
use super::locate::{Located, Roots};
use segno_model::finding::Severity;
use serde_json::Value;
use std::io::Read;
use std::path::PathBuf;
use thread::Thread;

/// Whether a file is one of Codex's, by its beginning.
pub(super) fn recognises(head: &Head<'_>) -> bool {
    if unpack::is_packed(head.bytes) {
        let mut bytes = Vec::new();
        let unpacked = unpack::open(head.path)
            .and_then(|(input, _)| input.take(64 << 10).read_to_end(&mut bytes));
        let is_ours = |bytes: &[u8]| recognises(&Head { path: head.path, bytes });
        return unpacked.is_ok() && is_ours(&bytes)
            || unpack::open(head.path).is_ok_and(|(input, _)| {
                first_whole_lines(input, head.path).is_ok_and(|b| is_ours(&b))
            });
    }
    head.objects().take(8).any(|object| is_row(&object)) || begins_with_header(head.bytes)
}

fn is_row(object: &Value) -> bool {
    let kinds = ["session_meta", "response_item", "event_msg", "turn_context", "compacted"];
    let kind = object.get("type").and_then(Value::as_str);
    let wrapped = object.get("payload").is_some_and(Value::is_object);
    let is_bare_header = || {
        let has = |key| object.get(key).is_some_and(Value::is_string);
        kind.is_none() && has("id") && has("timestamp") && object.get("instructions").is_some()
    };
    kind.is_some_and(|kind| wrapped && kinds.contains(&kind)) || is_bare_header()
}

/// A header may be longer than what is looked at.
fn begins_with_header(bytes: &[u8]) -> bool {
    let start = &bytes[..bytes.len().min(200)];
    let has = |text: &[u8]| memchr::memmem::find(start, text).is_some();
    has(b"\"type\":\"session_meta\"") && has(b"\"payload\":{")
}

/// The folder that holds Codex's things.
pub(super) fn home(roots: &Roots) -> PathBuf {
    places::home(roots)
}

/// All sessions under `roots`.
pub(super) fn locate(roots: &Roots, found: &mut Vec<Located>, failed: &mut Vec<ForeignError>) {
    places::locate(&places::home(roots), found, failed);
}

/// The sessions that a process writes right now.
pub(super) fn running(roots: &Roots) -> Vec<Running> {
    live::running(&places::home(roots))
}

/// Reads one.
pub(super) fn read(session: &Located, out: &mut Emitter<'_>) -> Result<(), ForeignError> {
    let path = &session.path;
    let (input, torn) = unpack::open(path).map_err(|e| ForeignError::io(path, e))?;
    if session.archived || places::is_archived(path) {
        out.fact(Fact::Archived);
    }
    let mut lines = Lines::new(input, path);
    let mut thread = Thread::new(path);
    lines.each_in_order(Agent::Codex, "codex.unknown", out, |object, out, may_wait| {
        if may_wait && thread.is_early(object.json) {
            return Taken::Early;
        }
        Taken::is_record(thread.row(object, out))
    })?;
    thread.finish(out);
    if torn.get() {
        let at = Origin { offset: Some(lines.bytes()), ..Origin::default() };
        out.found(
            "torn-archive",
            Severity::Damage,
            &at,
            "The packed file is broken or ends early.",
            "What could be unpacked was read; the place is counted in unpacked bytes.",
        );
    }
    name(session, &thread, out);
    out.finish(path, lines.bytes())
}

/// The name from the index counts more than one in the file: it is written at every change.
fn name(session: &Located, thread: &Thread, out: &mut Emitter<'_>) {
    let id = thread.id().or(session.id.as_deref()).or(places::id_of(&session.path));
    let Some(id) = id else { return };
    let (name, damaged) = places::name_of(id, &session.path);
    if let Some(name) = name {
        out.fact(Fact::Named(name));
    }
    if damaged {
        let sentence = "A line about this session in the index of names cannot be read.";
        let done = "The newest name that can be read counts.";
        out.found("damaged-index", Severity::Note, &Origin::default(), sentence, done);
    }
}
