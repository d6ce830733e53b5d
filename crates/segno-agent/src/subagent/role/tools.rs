//! The tools that a role has.
//!
//! Responsible for: what a role file's names stand for, Claude Code's among them, and whether a tool is among them. What
//! cannot be had as it is asked for is left out; what cannot be taken away as it is asked for is taken away whole,
//! or the file is none of a role. Must not: know which tools there are in a session.

use super::front::{Field, unclear};
use crate::file_note::FileFault;

/// Which tools one may have; all, unless something else is said.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ToolSet {
    /// These only.
    only: Option<Vec<String>>,
    /// None of these, in small letters.
    without: Vec<String>,
}

const OURS: &[&str] =
    &["read", "write", "edit", "bash", "grep", "find", "ls", "todo", "background"];

/// Those that change nothing.
const LOOKING: &[&str] = &["read", "grep", "find", "ls", "todo"];

/// Tools of Claude Code that there is nothing like here: nothing has to be done to take them away.
const ELSEWHERE: &[&str] = &[
    "webfetch",
    "websearch",
    "notebookedit",
    "notebookread",
    "askuserquestion",
    "enterplanmode",
    "exitplanmode",
    "enterworktree",
    "exitworktree",
    "skill",
    "slashcommand",
    "lsp",
    "toolsearch",
    "sendmessage",
    "monitor",
    "powershell",
    "listmcpresourcestool",
    "readmcpresourcetool",
    "taskcreate",
    "taskget",
    "tasklist",
    "taskupdate",
    "croncreate",
    "crondelete",
    "cronlist",
];

/// What a name stands for.
enum Named {
    All,
    Tool(String),
    /// A part of this tool.
    Part(String),
    /// What starts subagents, which those never have.
    Task,
    Nothing,
}

impl ToolSet {
    /// These only.
    #[must_use]
    pub fn only(names: Vec<String>) -> Self {
        Self { only: Some(names), without: Vec::new() }
    }

    /// Whether a tool is one of them.
    #[must_use]
    pub fn has(&self, tool: &str) -> bool {
        let small = tool.to_ascii_lowercase();
        self.only.as_ref().is_none_or(|only| only.iter().any(|own| covers(own, tool)))
            && !self.without.iter().any(|own| covers(own, &small))
    }

    /// Those of them that change nothing.
    pub(super) fn looking(self) -> Self {
        let looking = LOOKING.iter().filter(|tool| self.has(tool)).map(|tool| (*tool).to_owned());
        Self::only(looking.collect())
    }

    /// Those that the field `tools` names.
    pub(super) fn asked(field: &Field, notes: &mut Vec<FileFault>) -> Result<Self, FileFault> {
        let names = field.names()?;
        if names.is_empty() {
            notes.push(FileFault::NoTools);
        }
        let mut only = Vec::new();
        for name in names {
            match stands_for(&name) {
                Named::All => return Ok(Self::default()),
                Named::Tool(tool) => only.push(tool),
                Named::Part(_) => notes.push(FileFault::PartOfATool(name)),
                Named::Task => notes.push(FileFault::StartsNone),
                Named::Nothing => notes.push(FileFault::NoSuchTool(name)),
            }
        }
        only.sort();
        only.dedup();
        Ok(Self::only(only))
    }

    /// These without those that the field `disallowedTools` names.
    pub(super) fn without(
        mut self,
        field: &Field,
        notes: &mut Vec<FileFault>,
    ) -> Result<Self, FileFault> {
        for name in field.names()? {
            match stands_for(&name) {
                Named::All => self.only = Some(Vec::new()),
                Named::Tool(tool) => self.without.push(tool.to_ascii_lowercase()),
                Named::Part(tool) => {
                    self.without.push(tool.to_ascii_lowercase());
                    notes.push(FileFault::WholeTool(name));
                }
                Named::Task => {}
                Named::Nothing if ELSEWHERE.contains(&name.to_ascii_lowercase().as_str()) => {}
                Named::Nothing => {
                    let why = format!("there is no tool {name:?} that it could be kept from");
                    return Err(unclear(field.line, &why));
                }
            }
        }
        Ok(self)
    }
}

fn stands_for(given: &str) -> Named {
    let (name, part) = match given.split_once('(') {
        Some((name, _)) => (name, true),
        None => (given, false),
    };
    let ours = match name {
        "*" => return Named::All,
        "Glob" => "find",
        "LS" => "ls",
        "TodoWrite" => "todo",
        "MultiEdit" => "edit",
        "BashOutput" | "KillShell" => "background",
        other => other,
    };
    let small = ours.to_ascii_lowercase();
    let tool = match small.as_str() {
        "task" | "agent" => return Named::Task,
        small if OURS.contains(&small) => small.to_owned(),
        _ if crate::mcp::is_external(ours) => ours.to_owned(),
        _ => return Named::Nothing,
    };
    if part { Named::Part(tool) } else { Named::Tool(tool) }
}

/// Whether a name of a role's, which may stand for a server's tools or hold `*`, means this tool.
fn covers(own: &str, tool: &str) -> bool {
    if own == tool {
        return true;
    }
    if !own.contains('*') {
        let is_server = own.strip_prefix("mcp__").is_some_and(|server| !server.contains("__"));
        let rest = tool.strip_prefix(own);
        return is_server && rest.is_some_and(|rest| rest.starts_with("__"));
    }
    let mut parts = own.split('*');
    let Some(mut rest) = parts.next().and_then(|first| tool.strip_prefix(first)) else {
        return false;
    };
    let mut parts = parts.peekable();
    while let Some(part) = parts.next() {
        if parts.peek().is_none() {
            return rest.ends_with(part);
        }
        let Some((_, behind)) = rest.split_once(part) else { return false };
        rest = behind;
    }
    rest.is_empty()
}
