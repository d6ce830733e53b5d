//! The same tools under the names of different agents.
//!
//! Responsible for: which calls mean the same in two agents, so that the target shows them as its own, and
//! how their arguments are called there, as one table. Must not: map what only looks alike, or change a value
//! except for the unit of a time.

use crate::foreign::Agent;
use serde_json::{Map, Value};

/// A tool that several agents have.
struct Tool {
    /// The arguments that a call must have to be one of this tool, by their common names.
    required: &'static [&'static str],
    variants: &'static [Variant],
}

/// How one agent calls it.
struct Variant {
    /// `segno`, or the agent's word.
    agent: &'static str,
    name: &'static str,
    arguments: &'static [Argument],
}

/// The common name, the agent's name, and how many milliseconds its unit is, for times.
type Argument = (&'static str, &'static str, u64);

const MS: u64 = 1;
const SECONDS: u64 = 1000;
/// Not a time: the value stays.
const SAME: u64 = 0;

macro_rules! tools {
    ($([$($required:literal),*] $($agent:literal $name:literal {
        $($common:literal: $theirs:literal $unit:ident),* $(,)?
    })+;)+) => {
        &[$(Tool {
            required: &[$($required),*],
            variants: &[$(Variant {
                agent: $agent,
                name: $name,
                arguments: &[$(($common, $theirs, $unit)),*],
            }),+],
        }),+]
    };
}

/// All of them. Versions: ours; Claude Code 2.1, Codex 0.171, pi 1.6, OpenCode 1.18, Gemini CLI 0.61.
const TOOLS: &[Tool] = tools! {
    ["command"]
        "segno" "bash" { "command": "command" SAME, "timeout": "timeout" SECONDS }
        "claude" "Bash" { "command": "command" SAME, "timeout": "timeout" MS }
        "codex" "exec_command" { "command": "cmd" SAME }
        "pi" "bash" { "command": "command" SAME, "timeout": "timeout" SECONDS }
        "opencode" "bash" { "command": "command" SAME, "timeout": "timeout" MS }
        "gemini" "run_shell_command" { "command": "command" SAME };
    ["path"]
        "segno" "read" { "path": "path" SAME, "offset": "offset" SAME, "limit": "limit" SAME }
        "claude" "Read" { "path": "file_path" SAME, "offset": "offset" SAME, "limit": "limit" SAME }
        "pi" "read" { "path": "path" SAME, "offset": "offset" SAME, "limit": "limit" SAME }
        "opencode" "read" { "path": "filePath" SAME, "offset": "offset" SAME, "limit": "limit" SAME }
        "gemini" "read_file" { "path": "file_path" SAME };
    ["path", "content"]
        "segno" "write" { "path": "path" SAME, "content": "content" SAME }
        "claude" "Write" { "path": "file_path" SAME, "content": "content" SAME }
        "pi" "write" { "path": "path" SAME, "content": "content" SAME }
        "opencode" "write" { "path": "filePath" SAME, "content": "content" SAME }
        "gemini" "write_file" { "path": "file_path" SAME, "content": "content" SAME };
    ["path", "old", "new"]
        "segno" "edit" { "path": "path" SAME, "old": "old_text" SAME, "new": "new_text" SAME, "all": "replace_all" SAME }
        "claude" "Edit" { "path": "file_path" SAME, "old": "old_string" SAME, "new": "new_string" SAME, "all": "replace_all" SAME }
        "pi" "edit" { "path": "path" SAME, "old": "oldText" SAME, "new": "newText" SAME }
        "opencode" "edit" { "path": "filePath" SAME, "old": "oldString" SAME, "new": "newString" SAME, "all": "replaceAll" SAME }
        "gemini" "replace" { "path": "file_path" SAME, "old": "old_string" SAME, "new": "new_string" SAME, "all": "allow_multiple" SAME };
    ["pattern"]
        "segno" "grep" { "pattern": "pattern" SAME, "path": "path" SAME, "glob": "glob" SAME, "case": "ignore_case" SAME }
        "claude" "Grep" { "pattern": "pattern" SAME, "path": "path" SAME, "glob": "glob" SAME, "case": "-i" SAME }
        "pi" "grep" { "pattern": "pattern" SAME, "path": "path" SAME, "glob": "glob" SAME, "case": "ignoreCase" SAME }
        "opencode" "grep" { "pattern": "pattern" SAME, "path": "path" SAME, "glob": "include" SAME }
        "gemini" "grep_search" { "pattern": "pattern" SAME, "path": "dir_path" SAME, "glob": "include_pattern" SAME };
    ["glob"]
        "segno" "find" { "glob": "glob" SAME, "path": "path" SAME }
        "claude" "Glob" { "glob": "pattern" SAME, "path": "path" SAME }
        "pi" "find" { "glob": "pattern" SAME, "path": "path" SAME }
        "opencode" "glob" { "glob": "pattern" SAME, "path": "path" SAME }
        "gemini" "glob" { "glob": "pattern" SAME, "path": "dir_path" SAME };
    ["path"]
        "segno" "ls" { "path": "path" SAME }
        "pi" "ls" { "path": "path" SAME }
        "opencode" "list" { "path": "path" SAME }
        "gemini" "list_directory" { "path": "dir_path" SAME };
    ["prompt"]
        "segno" "task" { "prompt": "prompt" SAME, "role": "agent" SAME }
        "claude" "Agent" { "prompt": "prompt" SAME, "role": "subagent_type" SAME }
        "opencode" "task" { "prompt": "prompt" SAME, "role": "subagent_type" SAME }
        "gemini" "invoke_agent" { "prompt": "prompt" SAME, "role": "agent_name" SAME };
};

/// A call's name and arguments as `target` calls them; as they are where it has no such tool. `source` is
/// whose session it is: tools of the same name are told apart by it. An argument that the target does not
/// have keeps its name.
#[must_use]
pub fn for_agent(
    source: &str,
    target: Agent,
    name: &str,
    arguments: &Map<String, Value>,
) -> (String, Map<String, Value>) {
    let as_it_is = || (name.to_owned(), arguments.clone());
    let Some((tool, from)) = meant(source, name, arguments) else { return as_it_is() };
    let Some(to) = tool.variants.iter().find(|variant| variant.agent == target.id()) else {
        return as_it_is();
    };
    match renamed(from, to, arguments) {
        Some(renamed) => (to.name.to_owned(), renamed),
        None => as_it_is(),
    }
}

/// The tool that a call means: as its session's agent calls it, or else as any does.
fn meant(
    source: &str,
    name: &str,
    arguments: &Map<String, Value>,
) -> Option<(&'static Tool, &'static Variant)> {
    let all = || TOOLS.iter().flat_map(|tool| tool.variants.iter().map(move |v| (tool, v)));
    let is_meant = |(tool, variant): &(&Tool, &Variant)| {
        let has = |common: &&str| {
            variant
                .arguments
                .iter()
                .any(|(is, theirs, _)| is == common && arguments.contains_key(*theirs))
        };
        variant.name == name && tool.required.iter().all(has)
    };
    let own = all().filter(|(_, variant)| variant.agent == source).find(is_meant);
    own.or_else(|| all().find(is_meant))
}

/// The arguments under the target's names; none where two would have one name.
fn renamed(
    from: &Variant,
    to: &Variant,
    arguments: &Map<String, Value>,
) -> Option<Map<String, Value>> {
    let mut renamed = Map::new();
    for (name, value) in arguments {
        let known = from.arguments.iter().find(|(_, theirs, _)| theirs == name);
        let there =
            known.and_then(|(common, ..)| to.arguments.iter().find(|(is, ..)| is == common));
        let (name, value) = match (known, there) {
            (Some((_, _, ours)), Some((_, theirs, unit))) => {
                (*theirs, in_unit(value, *ours, *unit))
            }
            // The target means something else by it.
            _ if to.arguments.iter().any(|(_, theirs, _)| theirs == name) => return None,
            _ => (name.as_str(), value.clone()),
        };
        if renamed.insert(name.to_owned(), value).is_some() {
            return None;
        }
    }
    Some(renamed)
}

/// A time in another unit; anything else as it is.
fn in_unit(value: &Value, from: u64, to: u64) -> Value {
    if from == to || from == SAME || to == SAME {
        return value.clone();
    }
    let whole = value.as_u64().and_then(|n| n.checked_mul(from)).filter(|ms| ms % to == 0);
    match (whole, value.as_f64()) {
        (Some(ms), _) => (ms / to).into(),
        #[expect(clippy::cast_precision_loss, reason = "1 or 1000")]
        (None, Some(n)) => (n * from as f64 / to as f64).into(),
        (None, None) => value.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn mapped(source: &str, target: Agent, name: &str, arguments: Value) -> String {
        let Value::Object(arguments) = arguments else { panic!("an object") };
        let (name, arguments) = for_agent(source, target, name, &arguments);
        format!("{name} {}", Value::from(arguments))
    }

    #[test]
    fn a_tool_that_the_target_has_is_called_as_there() {
        let rows = [
            (
                "segno",
                Agent::Claude,
                "bash",
                json!({"command": "ls", "timeout": 90}),
                r#"Bash {"command":"ls","timeout":90000}"#,
            ),
            (
                "claude",
                Agent::Pi,
                "Bash",
                json!({"command": "ls", "timeout": 1500, "description": "x"}),
                r#"bash {"command":"ls","timeout":1.5,"description":"x"}"#,
            ),
            (
                "segno",
                Agent::Claude,
                "read",
                json!({"path": "a", "limit": 3}),
                r#"Read {"file_path":"a","limit":3}"#,
            ),
            (
                "codex",
                Agent::Gemini,
                "exec_command",
                json!({"cmd": "ls"}),
                r#"run_shell_command {"command":"ls"}"#,
            ),
            (
                "opencode",
                Agent::Claude,
                "bash",
                json!({"command": "ls", "timeout": 90}),
                r#"Bash {"command":"ls","timeout":90}"#,
            ),
            // In a session of ours that was imported.
            (
                "segno",
                Agent::Codex,
                "Bash",
                json!({"command": "ls"}),
                r#"exec_command {"cmd":"ls"}"#,
            ),
            (
                "segno",
                Agent::Claude,
                "edit",
                json!({"path": "a", "old_text": "b", "new_text": "c"}),
                r#"Edit {"file_path":"a","old_string":"b","new_string":"c"}"#,
            ),
        ];
        for (source, target, name, arguments, expected) in rows {
            assert_eq!(mapped(source, target, name, arguments), expected);
        }
    }

    #[test]
    fn what_means_something_else_stays_as_it_is() {
        let rows = [
            ("segno", Agent::Codex, "read", json!({"path": "a"}), r#"read {"path":"a"}"#),
            ("segno", Agent::Claude, "bash", json!({"script": "ls"}), r#"bash {"script":"ls"}"#),
            (
                "segno",
                Agent::Claude,
                "mcp__a__b",
                json!({"path": "a"}),
                r#"mcp__a__b {"path":"a"}"#,
            ),
            // Two arguments would have one name.
            (
                "segno",
                Agent::Claude,
                "read",
                json!({"path": "a", "file_path": "b"}),
                r#"read {"path":"a","file_path":"b"}"#,
            ),
            (
                "codex",
                Agent::Claude,
                "exec_command",
                json!({"cmd": "a", "timeout": 1}),
                r#"exec_command {"cmd":"a","timeout":1}"#,
            ),
        ];
        for (source, target, name, arguments, expected) in rows {
            assert_eq!(mapped(source, target, name, arguments), expected);
        }
    }

    /// Every call that is mapped to an agent is that agent's own, and stays when it is mapped again.
    #[test]
    fn every_agent_recognises_what_is_mapped_to_it() {
        for tool in TOOLS {
            for (from, to) in
                tool.variants.iter().flat_map(|a| tool.variants.iter().map(move |b| (a, b)))
            {
                let Some(target) = Agent::parse(to.agent) else { continue };
                let theirs = |common: &&str| {
                    let found = from.arguments.iter().find(|(is, ..)| is == common);
                    found.map(|(_, theirs, _)| ((*theirs).to_owned(), json!("x")))
                };
                let arguments: Map<String, Value> =
                    tool.required.iter().filter_map(theirs).collect();
                assert_eq!(arguments.len(), tool.required.len(), "{}: {}", from.agent, from.name);
                let (name, mapped) = for_agent(from.agent, target, from.name, &arguments);
                assert_eq!(name, to.name, "{} to {}", from.agent, to.agent);
                assert_eq!(for_agent(to.agent, target, &name, &mapped), (name, mapped));
            }
        }
    }
}
