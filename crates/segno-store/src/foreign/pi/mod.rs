//! pi's sessions.
//!
//! Responsible for: where they are and how they are read. Must not: be known outside this module.
//!
//! Paths: `~/.pi/agent/sessions/--CWD--/TIME_ID.jsonl` (the working directory with its separators turned
//! into `-`, which loses what was what), or flat in `$PI_CODING_AGENT_SESSION_DIR` or where `sessionDir` in
//! pi's settings says. `$PI_CODING_AGENT_DIR` moves `~/.pi/agent`.
//!
//! Versions: 1 (0.30: no ids, a chain, compactions name a line), 2 (0.32: a tree, role `hookMessage`), 3
//! (0.73 to 1.6: everything is an entry of the tree), and two of version 4, which only pi-agent-core 0.84
//! to 0.99 wrote: `lanes` (entry, record, lane and fact lines) and `values` (a line is one write or an
//! array of writes; where the session stands is a value).
//!
//! Traps: labels, names and settings are entries, so that the parent of a message, or the first that a
//! compaction keeps, may be one of them. The current place is the last line, whatever it is; version 4
//! says it. Context edits hold on their branch only. A prefix of the file may stand there twice. A fork
//! copies entries under their old ids and times, so those from before its header are copies. Ids of calls
//! are the provider's: reused or empty with local models. A result is sent where it stands, also where its call is
//! not sent or was given one by then. Two processes may write one file in turn.
//! Everything that costs tokens says so itself; version 4 keeps books besides.

mod edits;
mod entry;
mod header;
mod message;
mod reader;
mod row;
mod tree;
mod v4;

use super::agent::Agent;
use super::emitter::Emitter;
use super::input::{self, ForeignError, Head};
use super::locate::{Located, Roots, files_below};
use super::mend::Mended;
use serde::Deserialize;
use serde_json::Value;
use std::io::Read;
use std::path::{Path, PathBuf};

/// Whether a file is one of pi's, by its beginning.
pub(super) fn recognises(head: &Head<'_>) -> bool {
    let mut looks = false;
    for object in head.objects() {
        // Agents that grew out of pi have some types more.
        let what = object["type"].as_str().unwrap_or_default();
        if FOREIGN.contains(&what) || object.get("launch").is_some() {
            return false;
        }
        looks = looks || is_header(&object) || is_entry(&object);
    }
    looks
}

const FOREIGN: [&str; 4] = ["position", "session_model", "branchSummary", "thinkingLevelChange"];

fn is_header(object: &Value) -> bool {
    let is_four = |name: &str| object[name] == 4;
    match (object["type"].as_str(), object["kind"].as_str()) {
        (_, Some("header")) => (is_four("version") || is_four("v")) && object["id"].is_string(),
        (Some("session"), _) => object["timestamp"].is_string() && object["id"].is_string(),
        _ => false,
    }
}

/// For files whose header was lost.
fn is_entry(object: &Value) -> bool {
    let object = if object.is_array() { &object[0] } else { object };
    if object["kind"] == "entry" {
        return object["seq"].is_u64() && object["id"].is_string();
    }
    let is_type = object["type"].as_str().is_some_and(|what| TYPES.contains(&what));
    is_type && object["timestamp"].is_string() && object.get("parentId").is_some()
}

const TYPES: [&str; 6] = [
    "message",
    "model_change",
    "thinking_level_change",
    "custom_message",
    "branch_summary",
    "session_info",
];

/// The folder that holds pi's things.
pub(super) fn home(roots: &Roots) -> PathBuf {
    roots.dir("PI_CODING_AGENT_DIR", ".pi/agent")
}

/// All sessions under `roots`.
pub(super) fn locate(roots: &Roots, found: &mut Vec<Located>, failed: &mut Vec<ForeignError>) {
    let agent = home(roots);
    let mut dirs = vec![(agent.join("sessions"), 1)];
    if let Some(flat) = roots.env.get("PI_CODING_AGENT_SESSION_DIR").filter(|dir| !dir.is_empty()) {
        dirs.push((flat.into(), 0));
    }
    dirs.extend(named_in(&agent.join("settings.json"), roots).map(|dir| (dir, 0)));
    for (dir, depth) in dirs {
        files_below(&dir, ".jsonl", depth, failed, &mut |path, meta| {
            let id = path.to_str().and_then(header::id_of_path);
            found.push(Located { id, ..Located::file(Agent::Pi, path, &meta) });
        });
    }
}

/// The folder that pi's settings name. Settings that cannot be read name none: pi itself has none then.
fn named_in(settings: &Path, roots: &Roots) -> Option<PathBuf> {
    #[derive(Deserialize)]
    struct Settings {
        #[serde(rename = "sessionDir")]
        dir: Option<String>,
    }
    let mut text = String::new();
    input::open(settings).ok()?.take(1 << 20).read_to_string(&mut text).ok()?;
    let named = Mended::default().parse::<Settings>(&text)?.dir.filter(|dir| !dir.is_empty())?;
    Some(match named.strip_prefix("~/") {
        Some(below) => roots.home.join(below),
        None => settings.with_file_name(named),
    })
}

/// Reads one.
pub(super) fn read(session: &Located, out: &mut Emitter<'_>) -> Result<(), ForeignError> {
    reader::read(&session.path, out)
}
