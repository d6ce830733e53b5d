//! What changed since a child was launched, and whether it may go on.
//!
//! Responsible for: one labelled table from facts to reasons. Every aspect is always judged, so all reasons
//! come at once, in the table's order. What makes continuing wrong is refused: who the child is, whom it
//! asks, where it works. Everything else is a notice: the child goes on with the prompt that it has, and
//! is told. `docs/subagents.md` publishes the table. Must not: find facts out.

use crate::record::{InstructionFile, plain_address};
use crate::record::{LaunchRecord, ModelRef, RoleFact, ToolSource};
use std::collections::BTreeMap;

/// What a drift means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// It is told, and the child goes on.
    Notice,
    /// The child does not go on unless a person allows exactly that.
    RefuseUnlessAllowed,
    /// The child does not go on.
    Refuse,
}

/// One difference.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Drift {
    /// The word for programs.
    pub code: &'static str,
    /// What it means.
    pub verdict: Verdict,
    /// For people and for the model.
    pub sentence: String,
}

/// The facts of today, found out without changing anything.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Today {
    /// The role of that name.
    pub role: Option<RoleFact>,
    /// Whether the recorded model can be asked at all.
    pub model: bool,
    /// Where the recorded model would be asked.
    pub base_url: Option<String>,
    /// The hash of the prompt as it would be assembled.
    pub system_sha256: String,
    /// Instruction files as they are.
    pub instructions: Vec<InstructionFile>,
    /// Those of them that are there and cannot be read.
    pub unreadable: Vec<String>,
    /// The tools as they would be offered.
    pub tools: Vec<ToolSource>,
    /// The working directory.
    pub directory: Directory,
    /// The worktree.
    pub tree: Tree,
    /// This version.
    pub version: String,
    /// Whether anything was said in the child's log.
    pub said_anything: bool,
}

/// The recorded working directory today.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Directory {
    /// It is there, and it is where the parent works or below; for a worktree: within that.
    Same,
    /// It is there, and the parent works elsewhere.
    Elsewhere,
    /// It leads out of its worktree.
    Outside,
    /// Nothing is there.
    Gone,
    /// Something else than a directory is there.
    NotDirectory,
}

/// The recorded worktree today.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tree {
    /// None was recorded.
    None,
    /// As it was, whatever was committed or changed in it.
    Same,
    /// Its repository is not there.
    RepoGone,
    /// It is not there.
    Gone,
    /// Another repository is there, or none.
    Replaced,
    /// Another branch is checked out.
    OtherBranch,
    /// Its repository does not know it any more.
    Unregistered,
    /// Its branch does not come from the recorded commit.
    OtherHistory,
}

/// Then against now, one small answer per aspect.
#[derive(Debug, Clone, Copy)]
struct Compared {
    said_anything: bool,
    role: Role,
    model: bool,
    endpoint: bool,
    tools_gone: bool,
    tools_source: bool,
    directory: Directory,
    tree: Tree,
    system: bool,
    instructions: Files,
    tools_new: bool,
    tools_text: bool,
    version: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Role {
    Same,
    Gone,
    Edited,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Files {
    Same,
    Edited,
    Unreadable,
}

/// A row of the table: an aspect in one state.
#[derive(Debug)]
pub struct Row {
    /// Which aspect.
    pub aspect: &'static str,
    /// In which state, in words.
    pub label: &'static str,
    /// The word for programs, and what it means; none when nothing is to be said.
    pub reason: Option<(&'static str, Verdict)>,
    matches: fn(&Compared) -> bool,
}

/// Makes a row.
macro_rules! row {
    ($aspect:literal, $label:literal, $reason:expr, $matches:expr) => {
        Row { aspect: $aspect, label: $label, reason: $reason, matches: $matches }
    };
}

use Verdict::{Notice, Refuse, RefuseUnlessAllowed as Unless};

/// Of each aspect, every input matches exactly one row.
pub const TABLE: &[Row] = &[
    row!("transcript", "something was said", None, |c| c.said_anything),
    row!("transcript", "nothing was ever said", Some(("empty-transcript", Refuse)), |c| !c
        .said_anything),
    row!("role", "as it was", None, |c| c.role == Role::Same),
    row!("role", "there is none of that name", Some(("agent-missing", Unless)), |c| c.role
        == Role::Gone),
    row!("role", "its file was edited", Some(("agent-drift", Unless)), |c| c.role == Role::Edited),
    row!("model", "can be asked", None, |c| c.model),
    row!(
        "model",
        "cannot be asked: no key, no such provider",
        Some(("model-missing", Refuse)),
        |c| !c.model
    ),
    row!("address", "as it was", None, |c| c.endpoint),
    row!("address", "the model is asked elsewhere now", Some(("model-drift", Unless)), |c| !c
        .endpoint),
    row!("tool's source", "as it was", None, |c| !c.tools_source),
    row!(
        "tool's source",
        "a tool of that name is another's now",
        Some(("tools-source-drift", Unless)),
        |c| c.tools_source
    ),
    row!("directory", "there, and the parent works there too", None, |c| c.directory
        == Directory::Same),
    row!("directory", "the parent works elsewhere", Some(("cwd-drift", Unless)), |c| c.directory
        == Directory::Elsewhere),
    row!("directory", "it is gone", Some(("cwd-missing", Refuse)), |c| c.directory
        == Directory::Gone),
    row!("directory", "it is no directory any more", Some(("cwd-not-directory", Refuse)), |c| c
        .directory
        == Directory::NotDirectory),
    row!(
        "directory",
        "it leads out of its worktree",
        Some(("worktree-cwd-outside", Refuse)),
        |c| c.directory == Directory::Outside
    ),
    row!("worktree", "there was none", None, |c| c.tree == Tree::None),
    row!("worktree", "as it was, with whatever was done in it", None, |c| c.tree == Tree::Same),
    row!("worktree", "its repository is gone", Some(("worktree-repo-missing", Refuse)), |c| c.tree
        == Tree::RepoGone),
    row!("worktree", "it is gone", Some(("worktree-missing", Refuse)), |c| c.tree == Tree::Gone),
    row!("worktree", "something else is in its place", Some(("worktree-replaced", Refuse)), |c| c
        .tree
        == Tree::Replaced),
    row!(
        "worktree",
        "another branch is checked out",
        Some(("worktree-branch-swapped", Refuse)),
        |c| c.tree == Tree::OtherBranch
    ),
    row!(
        "worktree",
        "its repository does not know it",
        Some(("worktree-unregistered", Refuse)),
        |c| c.tree == Tree::Unregistered
    ),
    row!(
        "worktree",
        "its branch does not come from its baseline",
        Some(("worktree-history-replaced", Refuse)),
        |c| c.tree == Tree::OtherHistory
    ),
    row!("system prompt", "as it was but for the date", None, |c| c.system),
    row!("system prompt", "it would be another today", Some(("system-drift", Notice)), |c| !c
        .system),
    row!("instruction files", "as they were", None, |c| c.instructions == Files::Same),
    row!("instruction files", "edited, new or gone", Some(("instructions-drift", Notice)), |c| c
        .instructions
        == Files::Edited),
    row!(
        "instruction files",
        "one cannot be read",
        Some(("instructions-unreadable", Notice)),
        |c| c.instructions == Files::Unreadable
    ),
    row!("tools it had", "all there", None, |c| !c.tools_gone),
    row!("tools it had", "one is gone", Some(("tools-gone", Notice)), |c| c.tools_gone),
    row!("other tools", "none", None, |c| !c.tools_new),
    row!("other tools", "one is new", Some(("tools-new", Notice)), |c| c.tools_new),
    row!("tools' descriptions", "as they were", None, |c| !c.tools_text),
    row!("tools' descriptions", "one reads otherwise", Some(("tools-drift", Notice)), |c| c
        .tools_text),
    row!("version", "the same", None, |c| c.version),
    row!("version", "another one", Some(("version-drift", Notice)), |c| !c.version),
];

/// Compares; all differences, in the table's order.
#[must_use]
pub fn drift(then: &LaunchRecord, now: &Today) -> Vec<Drift> {
    let compared = compare(then, now);
    let told = TABLE.iter().filter(|row| (row.matches)(&compared));
    told.filter_map(|row| {
        let (code, verdict) = row.reason?;
        let what = details(code, then, now);
        let what = if what.is_empty() { String::new() } else { format!(" ({what})") };
        Some(Drift { code, verdict, sentence: format!("{}: {}{what}", row.aspect, row.label) })
    })
    .collect()
}

/// Those that keep the child from going on; `allow` is a person's word.
#[must_use]
pub fn refusals(drift: &[Drift], allow: bool) -> Vec<&Drift> {
    let stands = |d: &&Drift| match d.verdict {
        Notice => false,
        Unless => !allow,
        Refuse => true,
    };
    drift.iter().filter(stands).collect()
}

fn compare(then: &LaunchRecord, now: &Today) -> Compared {
    let tools = Tools::of(then, now);
    Compared {
        said_anything: now.said_anything,
        role: match &now.role {
            None => Role::Gone,
            Some(role) if role.sha256 == then.role.sha256 => Role::Same,
            Some(_) => Role::Edited,
        },
        model: now.model,
        endpoint: now.base_url.as_deref().map(plain_address)
            == then.base_url.as_deref().map(plain_address),
        tools_gone: !tools.gone.is_empty(),
        tools_source: !tools.moved.is_empty(),
        directory: now.directory,
        tree: now.tree,
        system: now.system_sha256 == then.system_sha256,
        instructions: match (now.unreadable.is_empty(), now.instructions == then.instructions) {
            (false, _) => Files::Unreadable,
            (true, true) => Files::Same,
            (true, false) => Files::Edited,
        },
        tools_new: !tools.new.is_empty(),
        tools_text: !tools.edited.is_empty(),
        version: now.version == then.version,
    }
}

/// What became of the tools, by name.
#[derive(Default)]
struct Tools<'a> {
    gone: Vec<&'a str>,
    moved: Vec<&'a str>,
    edited: Vec<&'a str>,
    new: Vec<&'a str>,
}

impl<'a> Tools<'a> {
    fn of(then: &'a LaunchRecord, now: &'a Today) -> Self {
        let today: BTreeMap<&str, &ToolSource> =
            now.tools.iter().map(|tool| (tool.name.as_str(), tool)).collect();
        let before: BTreeMap<&str, &ToolSource> =
            then.tools.iter().map(|tool| (tool.name.as_str(), tool)).collect();
        let mut tools = Self::default();
        for (name, old) in &before {
            match today.get(name) {
                None => tools.gone.push(name),
                Some(tool) if tool.source != old.source => tools.moved.push(name),
                Some(tool) if tool.sha256 != old.sha256 => tools.edited.push(name),
                Some(_) => {}
            }
        }
        tools.new = today.keys().filter(|name| !before.contains_key(*name)).copied().collect();
        tools
    }
}

/// Names for a sentence.
fn details(code: &str, then: &LaunchRecord, now: &Today) -> String {
    let tools = Tools::of(then, now);
    let ModelRef { provider, id } = &then.model;
    let address =
        |url: &Option<String>| url.clone().unwrap_or_else(|| "its own address".to_owned());
    match code {
        "agent-missing" | "agent-drift" => then.role.name.clone(),
        "model-missing" => format!("{provider}/{id}"),
        "model-drift" => {
            format!("then {}, now {}", address(&then.base_url), address(&now.base_url))
        }
        "tools-gone" => tools.gone.join(", "),
        "tools-source-drift" => tools.moved.join(", "),
        "tools-new" => tools.new.join(", "),
        "tools-drift" => tools.edited.join(", "),
        "cwd-drift" | "cwd-missing" | "cwd-not-directory" | "worktree-cwd-outside" => {
            then.cwd.clone()
        }
        "instructions-unreadable" => now.unreadable.join(", "),
        "instructions-drift" => edited_files(&then.instructions, &now.instructions).join(", "),
        code if code.starts_with("worktree-") => {
            then.worktree.as_ref().map_or_else(String::new, |worktree| worktree.path.clone())
        }
        _ => String::new(),
    }
}

fn edited_files<'a>(then: &'a [InstructionFile], now: &'a [InstructionFile]) -> Vec<&'a str> {
    let differs = |of: &'a [InstructionFile], in_the: &[InstructionFile]| -> Vec<&'a str> {
        of.iter().filter(|file| !in_the.contains(file)).map(|file| file.path.as_str()).collect()
    };
    let mut paths = differs(then, now);
    paths.extend(differs(now, then));
    paths.sort_unstable();
    paths.dedup();
    paths
}

#[cfg(test)]
mod tests;
