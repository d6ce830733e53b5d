//! What the library that writes pi's version 4 (pi-agent-core 0.84.4 and 0.87.1) refuses a file for, by its source, for
//! tests.

use serde_json::Value;
use std::collections::{HashMap, HashSet};

/// Why it does not open a file of version 4; none when it does.
pub(crate) fn refused(bytes: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(bytes).ok()?;
    let mut lines = text.lines();
    let header: Value = match serde_json::from_str(lines.next()?) {
        Ok(header) => header,
        Err(error) => return Some(format!("the header: {error}")),
    };
    let has_version = header["version"] == 4 || header["v"] == 4 && header["storageVersion"] == 1;
    let has_texts = header["id"].is_string() && header["cwd"].is_string();
    if header["kind"] != "header" || !has_texts || !has_version || !header["createdAt"].is_u64() {
        return Some(format!("the header: {header}"));
    }
    let mut log = Log { is_values: header["v"] == 4, ..Log::default() };
    log.lanes.insert("main".to_owned(), Value::Null);
    for (n, line) in lines.enumerate() {
        let value: Value = match serde_json::from_str(line) {
            Ok(value) => value,
            Err(error) => return Some(format!("line {}: {error}", n + 2)),
        };
        let writes = value.as_array().cloned().unwrap_or_else(|| vec![value]);
        for write in &writes {
            if let Err(why) = log.take(write) {
                return Some(format!("line {}: {why}", n + 2));
            }
        }
    }
    None
}

const TYPES: &[&str] = &[
    "message",
    "model_change",
    "thinking_level_change",
    "active_tools_change",
    "compaction",
    "branch_summary",
    "custom",
    "operation_started",
    "abort_requested",
    "operation_finished",
    "step_attempt",
    "tool_started",
    "queue_enqueued",
    "queue_cancelled",
    "write_deferred",
    "usage",
];

#[derive(Default)]
struct Log {
    is_values: bool,
    last: u64,
    ids: HashSet<String>,
    entries: HashSet<String>,
    lanes: HashMap<String, Value>,
}

impl Log {
    fn take(&mut self, write: &Value) -> Result<(), String> {
        let seq = write["seq"].as_u64().ok_or("no number")?;
        if seq <= self.last || !self.is_values && seq != self.last + 1 {
            return Err(format!("number {seq} behind {}", self.last));
        }
        self.last = seq;
        let kind = write["kind"].as_str().ok_or("no kind")?;
        if matches!(kind, "entry" | "record" | "usage") {
            let id = write["id"].as_str().ok_or("no id")?;
            if !self.ids.insert(id.to_owned()) {
                return Err(format!("{id} twice"));
            }
        }
        let is_there =
            |id: &Value| id.is_null() || id.as_str().is_some_and(|id| self.entries.contains(id));
        let op = write["op"].as_str().unwrap_or_default();
        match kind {
            "value" | "list" if !write["namespace"].is_string() || !write["key"].is_string() => {
                return Err("no address".to_owned());
            }
            "entry" | "record"
                if !self.is_values
                    && !TYPES.contains(&write["type"].as_str().unwrap_or_default()) =>
            {
                return Err(format!("type {}", write["type"]));
            }
            "value" if !matches!(op, "set" | "delete") => return Err(format!("{op} of a value")),
            "list" if !matches!(op, "append" | "delete") => return Err(format!("{op} of a list")),
            "entry" | "record" if !write["timestamp"].is_u64() => return Err("no time".to_owned()),
            "entry" => {
                if !is_there(&write["parentId"]) {
                    return Err(format!("no parent {}", write["parentId"]));
                }
                if let Some(lane) = write["lane"].as_str() {
                    if self.lanes.get(lane) != Some(&write["parentId"]) {
                        return Err(format!("not at the end of {lane}"));
                    }
                    self.lanes.insert(lane.to_owned(), write["id"].clone());
                }
                self.entries.extend(write["id"].as_str().map(str::to_owned));
            }
            "lane" if !is_there(&write["leafId"]) => return Err("a lane's end".to_owned()),
            "lane" => {
                let lane = write["lane"].as_str().ok_or("no lane")?;
                self.lanes.insert(lane.to_owned(), write["leafId"].clone());
            }
            "record"
                if !write["lane"].as_str().is_some_and(|lane| self.lanes.contains_key(lane)) =>
            {
                return Err("a record's lane".to_owned());
            }
            "fact" if write["fact"] == "label" && !is_there(&write["targetId"]) => {
                return Err("a label's entry".to_owned());
            }
            "value" if write["namespace"] == "pi.branch.tip" && !is_there(&write["value"]) => {
                return Err("a branch's end".to_owned());
            }
            "value" | "list" | "usage" | "record" | "fact" => {}
            other => return Err(format!("kind {other}")),
        }
        Ok(())
    }
}
