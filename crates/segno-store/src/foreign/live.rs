//! Which sessions a process has right now.
//!
//! Responsible for: the shape of the answer, asking each agent's registry, and asking who has a file open. Must not: take a lock, or
//! believe a process id whose start time is another one's.

use super::agent::Agent;
use super::claude;
use super::codex;
use super::input;
use super::locate::Roots;
use crate::platform;
pub use crate::platform::Openers;
use serde::Deserialize;
use std::fs;
use std::io::Read as _;
use std::path::Path;

/// A session that a process has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Running {
    /// Whose it is.
    pub agent: Agent,
    /// The session's id.
    pub id: String,
    /// The process.
    pub pid: u32,
    /// Whether it waits for a person (true) or is at work (false); none when it does not say.
    pub waiting: Option<bool>,
}

/// All of them, as far as the agents' registries tell. A registry that cannot be read tells nothing.
#[must_use]
pub fn running(roots: &Roots) -> Vec<Running> {
    let mut running = claude_code(roots);
    running.extend(codex::running(roots));
    running
}

/// The other processes that have a file open, whoever's agent they are. On Linux, those whose files this user
/// may see; elsewhere none can be seen.
#[must_use]
pub fn openers(path: &Path) -> Openers {
    platform::openers(path)
}

/// Claude Code: `sessions/PID.json`. `procStart` is the process's start in clock ticks since boot.
fn claude_code(roots: &Roots) -> Vec<Running> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Entry {
        pid: u32,
        session_id: String,
        #[serde(default)]
        proc_start: Option<serde_json::Value>,
        #[serde(default)]
        status: Option<String>,
    }
    let dirs = claude::homes(roots).into_iter().map(|home| home.join("sessions"));
    let entries = dirs.filter_map(|dir| fs::read_dir(dir).ok()).flatten();
    let texts = entries.filter_map(|entry| small_file(&entry.ok()?.path()));
    let parsed = texts.filter_map(|text| serde_json::from_slice::<Entry>(&text).ok());
    let alive = parsed.filter(|e| is_alive(e.pid, e.proc_start.as_ref()));
    let running = |e: Entry| Running {
        agent: Agent::Claude,
        id: e.session_id,
        pid: e.pid,
        waiting: e.status.as_deref().and_then(waits),
    };
    alive.map(running).collect()
}

/// An entry is a few hundred bytes; what is much longer is none.
fn small_file(path: &Path) -> Option<Vec<u8>> {
    let mut text = Vec::new();
    input::open(path).ok()?.take(64 << 10).read_to_end(&mut text).ok()?;
    Some(text)
}

fn waits(status: &str) -> Option<bool> {
    match status {
        "idle" | "waiting" => Some(true),
        "busy" | "running" | "active" => Some(false),
        _ => None,
    }
}

/// Whether the process is there and began when its entry says.
fn is_alive(pid: u32, started: Option<&serde_json::Value>) -> bool {
    let now = platform::process_started(pid);
    let said = started.and_then(|value| match value {
        serde_json::Value::String(text) => text.trim().parse().ok(),
        other => other.as_u64(),
    });
    now != 0 && said.is_none_or(|said: u64| said == now)
}
