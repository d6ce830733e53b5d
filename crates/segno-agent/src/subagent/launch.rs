//! A child's launch, and the same facts today.
//!
//! Responsible for: putting a launch record and today's facts together from what the parent, its tools and
//! the file system say. Must not: compare them, or change anything.

use super::Role;
use crate::Surroundings;
use crate::instructions::Instruction;
use segno_model::child::drift::{Directory, Today, Tree};
use segno_model::child::system_sha256;
use segno_model::record::{InstructionFile, LaunchRecord, ModelRef, ToolSource};
use segno_model::store::Snapshot;
use segno_model::{SessionId, sha256_hex};
use segno_runtime::ToolSpec;
use std::path::Path;

/// What a child asks, and how much it thinks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Binding {
    pub(super) model: ModelRef,
    pub(super) base_url: Option<String>,
    pub(super) thinking: Option<String>,
}

impl Binding {
    /// Of a child with this role, as its parent's log says what is in force.
    pub(super) fn of(parent: &Snapshot, role: &Role) -> Self {
        let now = &parent.state.in_force;
        let parents = now.model.clone().unwrap_or_default();
        let model = role.model.clone().unwrap_or_else(|| parents.clone());
        let base_url = Self::address(parent, &model);
        let thinking = role.thinking.clone().or_else(|| now.thinking.clone());
        Self { model, base_url, thinking }
    }

    /// Where a model is asked today: where its parent's is, when that is the same provider.
    pub(super) fn address(parent: &Snapshot, model: &ModelRef) -> Option<String> {
        let now = &parent.state.in_force;
        let same = now.model.as_ref().is_some_and(|parents| parents.provider == model.provider);
        now.base_url.clone().filter(|_| same)
    }
}

/// The record of a launch.
pub(super) fn record(
    (parent, child, intent): (&SessionId, &SessionId, &str),
    role: &Role,
    binding: &Binding,
    around: &Surroundings,
    (specs, cwd): (&[ToolSpec], &Path),
) -> LaunchRecord {
    LaunchRecord {
        parent: parent.clone(),
        child: child.clone(),
        intent: intent.to_owned(),
        role: role.fact(),
        model: binding.model.clone(),
        base_url: binding.base_url.clone(),
        system_sha256: system_sha256(&around.system),
        instructions: files(around),
        tools: tools(specs),
        cwd: cwd.display().to_string(),
        worktree: None,
        version: around.version.clone(),
    }
}

/// A launch with what is around its child; `around` has the role's words already.
pub(super) fn seen(launch: LaunchRecord, around: &Surroundings) -> LaunchRecord {
    let (system_sha256, instructions) = (system_sha256(&around.system), files(around));
    LaunchRecord { system_sha256, instructions, ..launch }
}

/// A launch with the real path of its directory.
pub(super) fn at_real_path(launch: LaunchRecord) -> LaunchRecord {
    let cwd = Path::new(&launch.cwd).canonicalize();
    let cwd = cwd.map_or_else(|_| launch.cwd.clone(), |real| real.display().to_string());
    LaunchRecord { cwd, ..launch }
}

/// A launch with the directory that a person gave the child since (`segno relocate`). A worktree stays its own.
pub(super) fn placed(launch: &LaunchRecord, child: &Snapshot) -> LaunchRecord {
    let moved = child.state.in_force.project.as_ref().filter(|_| launch.worktree.is_none());
    let cwd = moved.map_or_else(|| launch.cwd.clone(), |project| project.cwd.clone());
    LaunchRecord { cwd, ..launch.clone() }
}

/// Today's facts about a child, and what has become of its place.
pub(super) fn today(
    role: Option<&Role>,
    (can_be_asked, base_url): (bool, Option<String>),
    around: &Surroundings,
    specs: &[ToolSpec],
    (directory, tree): (Directory, Tree),
) -> Today {
    let system = role.map_or_else(|| around.system.clone(), |role| role.around(around).system);
    let unread = |i: &&Instruction| i.note.is_some() && i.text.is_empty();
    let unreadable = around.instructions.iter().filter(unread).map(|i| i.file.path.clone());
    Today {
        role: role.map(Role::fact),
        model: can_be_asked,
        base_url,
        system_sha256: system_sha256(&system),
        instructions: files(around),
        unreadable: unreadable.collect(),
        tools: tools(specs),
        directory,
        tree,
        version: around.version.clone(),
        said_anything: true,
    }
}

fn files(around: &Surroundings) -> Vec<InstructionFile> {
    around.instructions.iter().map(|instruction| instruction.file.clone()).collect()
}

fn tools(specs: &[ToolSpec]) -> Vec<ToolSource> {
    let mut tools: Vec<ToolSource> = specs.iter().map(tool).collect();
    tools.sort();
    tools
}

fn tool(spec: &ToolSpec) -> ToolSource {
    let server = spec.name.strip_prefix("mcp__").and_then(|rest| rest.split("__").next());
    ToolSource {
        name: spec.name.clone(),
        source: server.map_or_else(|| "builtin".to_owned(), |server| format!("mcp:{server}")),
        sha256: sha256_hex(format!("{}\n{}", spec.description, spec.parameters).as_bytes()),
    }
}

/// What is where a child worked.
pub(super) fn directory(recorded: &str, here: &Path) -> Directory {
    let path = Path::new(recorded);
    match std::fs::metadata(path) {
        Err(_) => Directory::Gone,
        Ok(meta) if !meta.is_dir() => Directory::NotDirectory,
        Ok(_) => match path.canonicalize() {
            Ok(real) if real == here => Directory::Same,
            _ => Directory::Elsewhere,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Covers: RS14, RS30, VA12.
    #[test]
    fn where_a_child_worked() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        let at = |name: &str| root.join(name);
        std::fs::create_dir(at("here")).unwrap();
        std::fs::create_dir(at("there")).unwrap();
        std::fs::write(at("file"), "x").unwrap();
        std::os::unix::fs::symlink(at("file"), at("to-file")).unwrap();
        std::os::unix::fs::symlink(at("here"), at("to-here")).unwrap();
        std::os::unix::fs::symlink(at("nothing"), at("to-nothing")).unwrap();
        let cases = [
            ("here", Directory::Same),
            ("to-here", Directory::Same),
            ("there", Directory::Elsewhere),
            ("file", Directory::NotDirectory),
            ("to-file", Directory::NotDirectory),
            ("nothing", Directory::Gone),
            ("to-nothing", Directory::Gone),
        ];
        for (name, expected) in cases {
            let path = at(name).display().to_string();
            assert_eq!(directory(&path, &at("here")), expected, "{name}");
        }
    }
}
