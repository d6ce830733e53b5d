//! A service with effects that cannot be taken for granted: tickets, over MCP.
//!
//! Responsible for: creating tickets with and without an operation id, finding and cancelling them by it, and
//! the faults of real services: an answer that never comes, an effect that comes late or not at all. All
//! state is in a directory, so that a killed server's effects are still there. Must not: know Segno.

mod wire;

pub use wire::{TicketServer, serve_stdio};

use serde_json::{Value, json};
use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// What happens to the next call that changes something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// It has its effect, and no answer is sent: the connection ends.
    Drop,
    /// It has its effect, and no answer is sent: the connection stays.
    Hang,
    /// It never arrives: the connection ends.
    Lose,
    /// It arrives late: behind the next question about it.
    Late,
}

impl Fault {
    const ALL: [(Self, &'static str); 4] =
        [(Self::Drop, "drop"), (Self::Hang, "hang"), (Self::Lose, "lose"), (Self::Late, "late")];
}

/// The service's state, in a directory.
#[derive(Debug)]
pub struct Tickets {
    dir: PathBuf,
    late: Mutex<Vec<(String, Value)>>,
}

/// What goes back.
#[derive(Debug)]
enum Reply {
    Send(Value),
    /// Nothing, to a notification.
    Nothing,
    /// Nothing ever; the connection stays or ends.
    Silence {
        ends: bool,
    },
}

impl Tickets {
    /// The state in a directory.
    ///
    /// # Panics
    /// When the directory cannot be made.
    #[must_use]
    pub fn new(dir: &Path) -> Self {
        fs::create_dir_all(dir).expect("a directory");
        Self { dir: dir.to_owned(), late: Mutex::default() }
    }

    /// What happens to the next calls that change something, one each.
    ///
    /// # Panics
    /// When it cannot be written down.
    pub fn fail(&self, faults: &[Fault]) {
        let names = faults.iter().filter_map(|fault| {
            Fault::ALL.iter().find(|(known, _)| known == fault).map(|(_, name)| *name)
        });
        let text = names.collect::<Vec<_>>().join("\n");
        fs::write(self.dir.join("faults"), text).expect("written");
    }

    /// Everything that was done, in order: `create TITLE`, `cancel TITLE`.
    #[must_use]
    pub fn done(&self) -> Vec<String> {
        let text = fs::read_to_string(self.dir.join("done")).unwrap_or_default();
        let entry = |line: &str| -> Option<String> {
            let entry: Value = serde_json::from_str(line).ok()?;
            Some(format!("{} {}", entry["what"].as_str()?, entry["title"].as_str()?))
        };
        text.lines().filter_map(entry).collect()
    }

    /// The operation ids that arrived.
    #[must_use]
    pub fn ids(&self) -> Vec<String> {
        let entries = self.entries().into_iter();
        entries.filter_map(|entry| Some(entry["id"].as_str()?.to_owned())).collect()
    }

    fn entries(&self) -> Vec<Value> {
        let text = fs::read_to_string(self.dir.join("done")).unwrap_or_default();
        text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
    }

    fn write(&self, what: &str, title: &str, id: Option<&str>) {
        let line = format!("{}\n", json!({"what": what, "title": title, "id": id}));
        let mut file = OpenOptions::new()
            .create(true)
            .append(true)
            .open(self.dir.join("done"))
            .expect("the service's memory");
        file.write_all(line.as_bytes()).expect("written");
    }

    /// Answers a message.
    fn answer(&self, message: &Value) -> Reply {
        let Some(id) = message.get("id") else { return Reply::Nothing };
        let result =
            |result: Value| Reply::Send(json!({"jsonrpc": "2.0", "id": id, "result": result}));
        match message["method"].as_str().unwrap_or_default() {
            "initialize" => result(json!({
                "protocolVersion": "2025-06-18",
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "tickets", "version": "1"},
            })),
            "tools/list" => result(json!({"tools": tools()})),
            "tools/call" => {
                let name = message["params"]["name"].as_str().unwrap_or_default();
                match self.call(name, &message["params"]["arguments"]) {
                    Ok((text, is_error)) => result(json!({
                        "content": [{"type": "text", "text": text}], "isError": is_error,
                    })),
                    Err(ends) => Reply::Silence { ends },
                }
            }
            _ => Reply::Send(json!({
                "jsonrpc": "2.0", "id": id,
                "error": {"code": -32601, "message": "no such method"},
            })),
        }
    }

    /// A tool's text and whether it is an error; `Err` when no answer is sent.
    fn call(&self, name: &str, arguments: &Value) -> Result<(String, bool), bool> {
        let id = arguments["operation_id"].as_str();
        match name {
            "create_ticket" | "file_ticket" | "open_ticket" | "cancel_ticket" => {
                let fault = self.next_fault();
                if fault == Some(Fault::Lose) {
                    return Err(true);
                }
                if fault == Some(Fault::Late) {
                    let late = (name.to_owned(), arguments.clone());
                    self.late.lock().unwrap_or_else(PoisonError::into_inner).push(late);
                    return Err(true);
                }
                let answer = self.change(name, arguments, id);
                match fault {
                    Some(Fault::Drop) => Err(true),
                    Some(Fault::Hang) => Err(false),
                    _ => Ok((answer, false)),
                }
            }
            "find_ticket" => {
                let answer = self.find(id.unwrap_or_default());
                let late =
                    std::mem::take(&mut *self.late.lock().unwrap_or_else(PoisonError::into_inner));
                for (name, arguments) in late {
                    self.change(&name, &arguments, arguments["operation_id"].as_str());
                }
                Ok(answer)
            }
            "environment" => {
                let name = arguments["name"].as_str().unwrap_or_default();
                Ok((std::env::var(name).unwrap_or_else(|_| "not set".to_owned()), false))
            }
            _ => Ok(("there is no such tool".to_owned(), true)),
        }
    }

    fn change(&self, name: &str, arguments: &Value, id: Option<&str>) -> String {
        let title = arguments["title"].as_str().unwrap_or_default();
        let entries = self.entries();
        let known = id.and_then(|id| entries.iter().find(|entry| entry["id"] == id));
        match (name, known) {
            ("cancel_ticket", known) => {
                let title = known.and_then(|entry| entry["title"].as_str()).unwrap_or_default();
                self.write("cancel", title, id);
                format!("cancelled {title}")
            }
            // Only this one does nothing new for an id that it has seen.
            ("create_ticket", Some(entry)) => {
                format!("ticket {}", entry["title"].as_str().unwrap_or_default())
            }
            _ => {
                self.write("create", title, id);
                format!("ticket {title}")
            }
        }
    }

    fn find(&self, id: &str) -> (String, bool) {
        let entries = self.entries();
        // The last word counts: what was cancelled is not there.
        match entries.iter().rfind(|e| e["id"] == id).filter(|e| e["what"] == "create") {
            Some(entry) => (format!("ticket {}", entry["title"].as_str().unwrap_or("?")), false),
            None => ("no such operation".to_owned(), true),
        }
    }

    fn next_fault(&self) -> Option<Fault> {
        let path = self.dir.join("faults");
        let text = fs::read_to_string(&path).unwrap_or_default();
        let (first, rest) = text.split_once('\n').unwrap_or((&text, ""));
        let _ = fs::write(&path, rest);
        Fault::ALL.iter().find(|(_, name)| *name == first).map(|(fault, _)| *fault)
    }
}

fn tools() -> Value {
    let text = json!({"type": "string"});
    let with_id = json!({
        "type": "object",
        "properties": {"title": text, "operation_id": text},
        "required": ["title", "operation_id"],
    });
    let by_id = json!({
        "type": "object", "properties": {"operation_id": text}, "required": ["operation_id"],
    });
    let plain = json!({"type": "object", "properties": {"title": text}, "required": ["title"]});
    let named = json!({"type": "object", "properties": {"name": text}, "required": ["name"]});
    json!([
        {"name": "create_ticket", "description": "Creates a ticket, once per operation id.",
         "inputSchema": with_id, "annotations": {"idempotentHint": true}},
        {"name": "file_ticket", "description": "Creates a ticket each time.",
         "inputSchema": with_id},
        {"name": "open_ticket", "description": "Creates a ticket without an operation id.",
         "inputSchema": plain},
        {"name": "find_ticket", "description": "Finds a ticket by operation id.",
         "inputSchema": by_id, "annotations": {"readOnlyHint": true}},
        {"name": "cancel_ticket", "description": "Cancels a ticket by operation id.",
         "inputSchema": by_id},
        {"name": "environment", "description": "What a variable is set to.",
         "inputSchema": named, "annotations": {"readOnlyHint": true}},
    ])
}
