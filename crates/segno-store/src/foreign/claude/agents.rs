//! Subagents of Claude Code and the calls that started them.
//!
//! Responsible for: what a subagent's file does not say about itself, and which subagents belong to a
//! session, also those of the sessions that it was forked from. Must not: read a file into memory.

use super::super::emitter::Emitter;
use super::super::input::{self, ForeignError, Head};
use super::super::item::Fact;
use super::super::lines::Lines;
use super::super::locate::{Located, files_below};
use super::located;
use super::row::{Block, Content, Row};
use serde::Deserialize;
use serde_json::Value;
use std::collections::HashSet;
use std::ffi::OsStr;
use std::io::Read;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

/// How a subagent was started, as far as it is written beside its file.
#[derive(Debug, Default)]
pub(super) struct Launch {
    /// The subagent's id.
    pub(super) id: Option<String>,
    parent: Option<String>,
    call: Option<String>,
    role: Option<String>,
    prompt: Option<String>,
}

/// `agent-<id>.meta.json`.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Beside {
    agent_type: Option<String>,
    tool_use_id: Option<String>,
}

impl Launch {
    /// The launch as facts about the subagent's session.
    pub(super) fn facts(&self) -> Vec<Fact> {
        let format = Fact::Format("jsonl".to_owned());
        let id = self.id.clone().map(Fact::Id);
        let child = self.parent.clone().map(|parent| Fact::ChildOf {
            parent,
            call: self.call.clone(),
            role: self.role.clone(),
        });
        [Some(format), id, child].into_iter().flatten().collect()
    }

    /// What it was asked to do, from the parent's call.
    pub(super) fn prompt(&self) -> Option<String> {
        self.prompt.clone()
    }
}

/// What is known about a subagent besides its file. With `prompted` the prompt is in the file, and nothing
/// is looked up in the parent's.
pub(super) fn launch(session: &Located, row: &Row<'_>, prompted: bool) -> Launch {
    let path = &session.path;
    let stem = path.file_stem().and_then(OsStr::to_str).unwrap_or_default();
    let agent = row.agent_id.as_deref().or_else(|| stem.strip_prefix("agent-"));
    let parent = session.parent.as_deref().or(row.session_id.as_deref());
    let beside = beside(path);
    let mut launch = Launch {
        id: agent.map(str::to_owned),
        parent: parent.map(str::to_owned),
        call: beside.tool_use_id,
        role: beside.agent_type,
        prompt: None,
    };
    if !prompted && let Some(file) = parents_file(path, parent) {
        // A parent that cannot be read tells nothing; that is told where it is read itself.
        let _ = launch.look_up(&file);
    }
    launch
}

fn beside(path: &Path) -> Beside {
    let Ok(file) = input::open(&path.with_extension("meta.json")) else { return Beside::default() };
    let mut text = String::new();
    match file.take(1 << 20).read_to_string(&mut text) {
        Ok(_) => serde_json::from_str(&text).unwrap_or_default(),
        Err(_) => Beside::default(),
    }
}

/// The parent's file: beside the folder that holds `subagents`, or beside the file itself.
fn parents_file(path: &Path, parent: Option<&str>) -> Option<PathBuf> {
    let session = path.ancestors().find(|dir| dir.ends_with("subagents")).and_then(Path::parent);
    match session {
        Some(session) => Some(session.with_extension("jsonl")),
        None => Some(path.parent()?.join(parent?).with_extension("jsonl")),
    }
}

impl Launch {
    /// Finds the call in the parent's file.
    fn look_up(&mut self, file: &Path) -> Result<(), ForeignError> {
        let Some(id) = self.id.clone() else { return Ok(()) };
        let mut calls: Vec<AgentCall> = Vec::new();
        each_row(file, |row| {
            calls.extend(agent_calls(row));
            let answered = || answers(row, &id);
            let Some(call) = self.call.clone().or_else(answered) else { return true };
            let Some(found) = calls.iter().find(|known| known.id == call) else { return true };
            self.prompt.clone_from(&found.prompt);
            self.role = self.role.take().or_else(|| found.role.clone());
            self.call = Some(call);
            false
        })
    }
}

/// A call that starts a subagent.
struct AgentCall {
    id: String,
    prompt: Option<String>,
    role: Option<String>,
}

fn agent_calls(row: &Row<'_>) -> Vec<AgentCall> {
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct Input {
        prompt: Option<String>,
        subagent_type: Option<String>,
    }
    let call = |block: &Block<'_>| {
        let name = block.name.as_deref()?;
        let input: Input = serde_json::from_str(block.input?.get()).ok()?;
        let (prompt, role) = (input.prompt, input.subagent_type);
        let id = block.id.as_deref()?.to_owned();
        matches!(name, "Task" | "Agent").then_some(AgentCall { id, prompt, role })
    };
    blocks(row).iter().filter_map(call).collect()
}

fn blocks<'r>(row: &'r Row<'_>) -> &'r [Block<'r>] {
    match row.message.as_ref().map(|message| &message.content) {
        Some(Content::Blocks(blocks)) => blocks,
        _ => &[],
    }
}

/// The call whose result in this row names the subagent.
fn answers(row: &Row<'_>, agent: &str) -> Option<String> {
    let named = mentioned(row);
    let block = blocks(row).iter().find(|block| &*block.kind == "tool_result")?;
    named.iter().any(|id| id == agent).then(|| block.tool_use_id.as_deref().map(str::to_owned))?
}

/// The subagents that a row's results name.
fn mentioned(row: &Row<'_>) -> Vec<String> {
    #[derive(Default, Deserialize)]
    #[serde(rename_all = "camelCase", default)]
    struct Told {
        agent_id: Option<String>,
    }
    let told = row.tool_use_result.filter(|raw| raw.get().starts_with('{'));
    let told: Told = told.and_then(|raw| serde_json::from_str(raw.get()).ok()).unwrap_or_default();
    let mut found: Vec<String> = told.agent_id.into_iter().collect();
    for block in blocks(row).iter().filter(|block| &*block.kind == "tool_result") {
        let text = block.content.text();
        found.extend(text.split("agentId: ").skip(1).map(|rest| {
            rest.chars().take_while(|c| c.is_ascii_alphanumeric() || *c == '-').collect()
        }));
    }
    found
}

/// Calls `each` with every row that can concern a subagent or a fork, until it says false.
fn each_row(file: &Path, mut each: impl FnMut(&Row<'_>) -> bool) -> Result<(), ForeignError> {
    const MARKS: [&str; 4] = ["agentId", "\"Task\"", "\"Agent\"", "\"forkedFrom\""];
    let finders = MARKS.map(memchr::memmem::Finder::new);
    let mut ending = |_| ControlFlow::Break(());
    let mut out = Emitter::new(&mut ending);
    Lines::open(file)?.each_object("", &mut out, |object, out| {
        let json = object.json.as_bytes();
        if finders.iter().any(|mark| mark.find(json).is_some())
            && let Ok(row) = serde_json::from_str::<Row<'_>>(object.json)
            && !each(&row)
        {
            // Whatever is handed on ends the reading.
            out.fact(Fact::Archived);
        }
        Ok(true)
    })
}

/// The files of the subagents whose calls are in a session: its own, and those of the sessions that it was
/// forked from, which stay with them.
pub(in super::super) fn subagents(session: &Located) -> Result<Vec<Located>, ForeignError> {
    let path = &session.path;
    let (Some(project), Some(stem)) = (path.parent(), path.file_stem()) else {
        return Ok(Vec::new());
    };
    let own = stem.to_string_lossy().into_owned();
    let (mut failed, mut all) = (Vec::new(), Vec::new());
    files_below(project, ".jsonl", 4, &mut failed, &mut |file, meta| {
        let found = located(project, file, &meta);
        all.extend(found.filter(|found| found.parent.is_some() || is_agent(&found.path)));
    });
    let is_own = |found: &Located| match &found.parent {
        Some(parent) => *parent == own,
        None => first_row(&found.path).is_some_and(|first| first.session == own),
    };
    let (mut mine, others): (Vec<_>, Vec<_>) = all.into_iter().partition(is_own);
    if !others.is_empty() {
        let known = Known::of(path)?;
        let inherited = |found: &Located| {
            let named = found.id.as_ref().is_some_and(|id| known.agents.contains(id));
            named && found.parent.as_ref().is_none_or(|parent| known.descends(project, parent))
        };
        mine.extend(others.into_iter().filter(inherited));
    }
    mine.sort_by(|a, b| a.path.cmp(&b.path));
    match failed.into_iter().next() {
        Some(error) if mine.is_empty() => Err(error),
        _ => Ok(mine),
    }
}

fn is_agent(path: &Path) -> bool {
    let name = path.file_name().and_then(OsStr::to_str);
    name.is_some_and(|name| name.starts_with("agent-"))
}

/// What a session tells about where it comes from.
#[derive(Default)]
struct Known {
    first: Option<FirstRow>,
    /// The subagents that its results name.
    agents: HashSet<String>,
    /// The sessions that its rows were copied from.
    origins: HashSet<String>,
}

impl Known {
    fn of(path: &Path) -> Result<Self, ForeignError> {
        let mut known = Self { first: first_row(path), ..Self::default() };
        each_row(path, |row| {
            known.agents.extend(mentioned(row));
            known.origins.extend(row.forked_from.iter().map(|fork| fork.session_id.to_string()));
            true
        })?;
        Ok(known)
    }

    /// Whether the session `parent` is an ancestor: named as one, begun with the same row, or no longer
    /// there to be asked.
    fn descends(&self, project: &Path, parent: &str) -> bool {
        let file = project.join(parent).with_extension("jsonl");
        let first = |first: &FirstRow| first.uuid.clone();
        self.origins.contains(parent)
            || !file.exists()
            || first_row(&file).as_ref().map(first) == self.first.as_ref().map(first)
    }
}

/// The beginning of a session's chain.
struct FirstRow {
    uuid: String,
    session: String,
}

fn first_row(path: &Path) -> Option<FirstRow> {
    let (_, bytes) = input::head(path).ok()?;
    let head = Head { path, bytes: &bytes };
    let text = |row: &Value, name: &str| Some(row.get(name)?.as_str()?.to_owned());
    head.objects().find_map(|row| {
        Some(FirstRow { uuid: text(&row, "uuid")?, session: text(&row, "sessionId")? })
    })
}
