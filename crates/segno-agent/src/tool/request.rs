//! A tool call understood: which tool, with which arguments.
//!
//! Responsible for: the tools as the model is told of them, and taking its arguments apart. Must not:
//! touch anything. Arguments arrive as the model wrote them, so everything about them can be wrong.

use super::error::ToolError;
use super::supervised::background;
use super::{bash, edit, find, grep, ls, read, task, todo, write};
use crate::mcp;
use crate::subagent::task::Args;
use segno_model::record::ToolCall;
use segno_runtime::ToolSpec;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// An understood call.
#[derive(Debug, Clone)]
pub(crate) enum Request {
    Read(read::Args),
    Write(write::Args),
    Edit(edit::Args),
    Bash(bash::Args),
    Grep(grep::Args),
    Find(find::Args),
    Ls(ls::Args),
    Todo(todo::Args),
    Background(background::Args),
    Task(Args),
    /// A call of another program's tool, which understands it itself.
    External(ToolCall),
}

/// The tools' names, in the order in which they are told.
const NAMES: &[&str] =
    &["read", "write", "edit", "bash", "grep", "find", "ls", "todo", "background"];

impl Request {
    /// Understands a call, or says what is wrong with it.
    pub(crate) fn parse(call: &ToolCall) -> Result<Self, ToolError> {
        Ok(match call.name.as_str() {
            "read" => Self::Read(arguments(call)?),
            "write" => Self::Write(arguments(call)?),
            "edit" => Self::Edit(arguments(call)?),
            "bash" => {
                let args: bash::Args = arguments(call)?;
                args.check()?;
                Self::Bash(args)
            }
            "grep" => Self::Grep(arguments(call)?),
            "find" => Self::Find(arguments(call)?),
            "ls" => Self::Ls(arguments(call)?),
            "todo" => Self::Todo(arguments(call)?),
            "background" => {
                let args: background::Args = arguments(call)?;
                args.check()?;
                Self::Background(args)
            }
            task::NAME => Self::Task(arguments(call)?),
            name if mcp::is_external(name) => Self::External(call.clone()),
            other => {
                let names = NAMES.join(", ");
                return Err(ToolError::Arguments(format!(
                    "there is no tool {other:?}; there are: {names}"
                )));
            }
        })
    }
}

fn arguments<T: DeserializeOwned>(call: &ToolCall) -> Result<T, ToolError> {
    // Some providers send nothing at all for a call without arguments.
    let text = if call.arguments.trim().is_empty() { "{}" } else { &call.arguments };
    serde_json::from_str(text).map_err(|e| {
        let spec = specs(true).into_iter().find(|s| s.name == call.name);
        let shape = spec.map_or_else(String::new, |s| s.parameters["properties"].to_string());
        ToolError::Arguments(format!(
            "the arguments of `{}` do not fit, nothing was run: {e}. They are a JSON object with: {shape}",
            call.name
        ))
    })
}

/// The tools as the model is told of them. `supervised`: whether commands can run in the background.
pub(crate) fn specs(supervised: bool) -> Vec<ToolSpec> {
    let mut specs = vec![
        read_spec(),
        write_spec(),
        edit_spec(),
        bash_spec(supervised),
        grep_spec(),
        find_spec(),
        ls_spec(),
        todo_spec(),
    ];
    if supervised {
        specs.push(background_spec());
    }
    specs
}

pub(super) fn spec(
    name: &str,
    description: &str,
    required: &[&str],
    properties: &Value,
) -> ToolSpec {
    ToolSpec {
        name: name.to_owned(),
        description: description.to_owned(),
        parameters: json!({
            "type": "object",
            "properties": properties,
            "required": required,
            "additionalProperties": false,
        }),
    }
}

fn read_spec() -> ToolSpec {
    spec(
        "read",
        "Read a file. Text comes with line numbers, at most 2000 lines or 64 KiB at a time; a note says where to go on. PNG, JPEG, GIF and WebP come as images.",
        &["path"],
        &json!({
            "path": {"type": "string", "description": "relative to the working directory, or absolute"},
            "offset": {"type": "integer", "minimum": 1, "description": "first line, counted from 1"},
            "limit": {"type": "integer", "minimum": 1, "description": "how many lines"},
        }),
    )
}

fn write_spec() -> ToolSpec {
    spec(
        "write",
        "Write a whole file; missing directories are made, an existing file is replaced. Prefer `edit` for a part of a file.",
        &["path", "content"],
        &json!({
            "path": {"type": "string"},
            "content": {"type": "string", "description": "the whole new content"},
        }),
    )
}

fn edit_spec() -> ToolSpec {
    spec(
        "edit",
        "Replace an exact piece of text in a file. `old_text` must be in the file exactly once, white space included, unless replace_all is set. Line endings and byte order mark are kept.",
        &["path", "old_text", "new_text"],
        &json!({
            "path": {"type": "string"},
            "old_text": {"type": "string", "description": "exact text, without line numbers"},
            "new_text": {"type": "string"},
            "replace_all": {"type": "boolean", "description": "replace every occurrence"},
        }),
    )
}

fn bash_spec(supervised: bool) -> ToolSpec {
    let what = "Run a shell command in the working directory. Each call is a new shell; nothing can be typed into it. Output over 30 KiB is cut in the middle.";
    if !supervised {
        return spec(
            "bash",
            &format!("{what} Send the output of background processes to a file."),
            &["command"],
            &json!({
                "command": {"type": "string"},
                "timeout": {"type": "number", "description": "seconds; 120 unless given, at most 600"},
            }),
        );
    }
    spec(
        "bash",
        &format!("{what} Start servers and whatever takes long with `background`."),
        &["command"],
        &json!({
            "command": {"type": "string"},
            "timeout": {"type": "number", "description": "seconds; 120 unless given, at most 600; in the background 3600, at most 86400"},
            "background": {"type": "boolean", "description": "return a handle at once; you are told when it ends"},
        }),
    )
}

fn background_spec() -> ToolSpec {
    spec(
        "background",
        "Look at a command that runs in the background: its output so far, or how it ended. Without a handle: list them.",
        &[],
        &json!({
            "handle": {"type": "string", "description": "as `bash` gave it"},
            "wait": {"type": "number", "description": "wait so many seconds for its end, at most 600"},
            "stop": {"type": "boolean", "description": "end it"},
        }),
    )
}

fn grep_spec() -> ToolSpec {
    spec(
        "grep",
        "Search file contents with a regular expression (Rust syntax). Files that git ignores are left out.",
        &["pattern"],
        &json!({
            "pattern": {"type": "string"},
            "path": {"type": "string", "description": "file or directory, `.` unless given"},
            "glob": {"type": "string", "description": "only these files, e.g. `*.rs`; `!` before it excludes"},
            "ignore_case": {"type": "boolean"},
            "literal": {"type": "boolean", "description": "the pattern is plain text"},
            "hidden": {"type": "boolean", "description": "hidden files too"},
            "context": {"type": "integer", "minimum": 0, "description": "lines around each match, at most 20"},
            "limit": {"type": "integer", "minimum": 1, "description": "matching lines; 100 unless given, at most 1000"},
        }),
    )
}

fn find_spec() -> ToolSpec {
    spec(
        "find",
        "List files and directories by a glob. A glob without a slash is about names at any depth. Files that git ignores are left out.",
        &[],
        &json!({
            "glob": {"type": "string", "description": "e.g. `*.rs` or `src/**/mod.rs`; everything unless given"},
            "path": {"type": "string", "description": "directory, `.` unless given"},
            "hidden": {"type": "boolean", "description": "hidden files too"},
            "limit": {"type": "integer", "minimum": 1, "description": "200 unless given, at most 2000"},
        }),
    )
}

fn ls_spec() -> ToolSpec {
    spec(
        "ls",
        "List one directory with kinds and sizes, hidden and ignored files included.",
        &[],
        &json!({"path": {"type": "string", "description": "`.` unless given"}}),
    )
}

fn todo_spec() -> ToolSpec {
    spec(
        "todo",
        "Record the list of what is to be done; give the whole list each time. It outlives summaries, so keep goal and constraints in it for longer work.",
        &["steps"],
        &json!({
            "goal": {"type": "string"},
            "constraints": {"type": "array", "items": {"type": "string"}, "description": "what must or must not be done"},
            "steps": {"type": "array", "items": {
                "type": "object",
                "properties": {
                    "text": {"type": "string"},
                    "status": {"type": "string", "enum": ["pending", "in_progress", "done", "dropped"]},
                },
                "required": ["text", "status"],
                "additionalProperties": false,
            }},
        }),
    )
}
