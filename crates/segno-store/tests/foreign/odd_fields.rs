//! A field of a type that it never has: it costs itself, and nothing else.

use crate::scene::{corpus, findings, lines};
use segno_store::foreign::{Agent, Located, Stamp, View};
use serde_json::{Value, json};
use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};

/// A file, and how much of it is bent.
struct Bent {
    agent: Agent,
    /// In the corpus.
    name: &'static str,
    /// As the agent calls it.
    as_name: &'static str,
    /// How many of its lines make a session with all that matters; 0 for a file that is one document.
    lines: usize,
    /// Fields without which what they stand in is nothing, or that are what is shown.
    needed: &'static [&'static str],
}

const FILES: [Bent; 11] = [
    Bent {
        agent: Agent::Claude,
        name: "claude/multi-turn-tools.jsonl",
        as_name: "736050d5-5e0a-4ba0-adae-e919a6953bc3.jsonl",
        lines: 20,
        needed: &[
            "type",
            "uuid",
            "message",
            "role",
            "content",
            "text",
            "thinking",
            "id",
            "name",
            "input",
            "tool_use_id",
            "attachment",
            "rendered",
            "command",
        ],
    },
    Bent {
        agent: Agent::Codex,
        name: "codex/multi-turn-tools.jsonl",
        as_name: "rollout-2026-11-29T21-00-00-0199.jsonl",
        lines: 24,
        needed: &[
            "type",
            "payload",
            "role",
            "content",
            "text",
            "summary",
            "name",
            "arguments",
            "input",
            "call_id",
            "output",
            "encrypted_content",
            "id",
        ],
    },
    Bent {
        agent: Agent::Pi,
        name: "pi/02-tool-calls.jsonl",
        as_name: "a.jsonl",
        lines: 14,
        needed: &[
            "type",
            "id",
            "message",
            "role",
            "content",
            "text",
            "thinking",
            "name",
            "arguments",
            "toolCallId",
        ],
    },
    Bent {
        agent: Agent::Gemini,
        name: "gemini/multi-turn-tools.jsonl",
        as_name: "session-2026-11-29T21-17-b26388b2.jsonl",
        lines: 12,
        needed: &[
            "type",
            "id",
            "content",
            "text",
            "toolCalls",
            "thoughts",
            "name",
            "args",
            "result",
            "status",
            "functionResponse",
            "response",
            "output",
            "$set",
            "messages",
            "subject",
            "description",
        ],
    },
    Bent {
        agent: Agent::Ink,
        name: "ink/-home-ada-wheel--shop/2026-07-04T09-00-00_5b0c.jsonl",
        as_name: "a.jsonl",
        lines: 15,
        needed: &[
            "type",
            "id",
            "parentId",
            "message",
            "role",
            "content",
            "text",
            "thinking",
            "name",
            "arguments",
            "results",
            "toolCallId",
            "summary",
            "retainedTail",
            "position",
            "targetId",
            "childId",
            "taskRecord",
            "leafId",
            "launch",
            "model",
        ],
    },
    Bent {
        agent: Agent::Evo,
        name: "evo/1780452000125_9f3a01c7/messages.jsonl",
        as_name: "messages.jsonl",
        lines: 12,
        needed: &[
            "type",
            "message",
            "role",
            "content",
            "text",
            "thinking",
            "id",
            "name",
            "input",
            "tool_use_id",
            "summary",
            "goal_text",
        ],
    },
    Bent {
        agent: Agent::Cline,
        name: "cline/1772450000000/api_conversation_history.json",
        as_name: "api_conversation_history.json",
        lines: 0,
        needed: &[
            "role",
            "content",
            "type",
            "text",
            "thinking",
            "id",
            "name",
            "input",
            "tool_use_id",
        ],
    },
    Bent {
        agent: Agent::Goose,
        name: "goose/20250310_101500.jsonl",
        as_name: "20250310_101500.jsonl",
        lines: 4,
        needed: &[
            "role",
            "content",
            "type",
            "text",
            "id",
            "toolCall",
            "toolResult",
            "value",
            "name",
            "arguments",
            "description",
        ],
    },
    Bent {
        agent: Agent::Qwen,
        name: "qwen/-home-ada-forge/chats/0b8a1f00-0000-4000-8000-00000000000a.jsonl",
        as_name: "a.jsonl",
        lines: 13,
        needed: &[
            "type",
            "uuid",
            "message",
            "parts",
            "text",
            "thought",
            "functionCall",
            "id",
            "name",
            "args",
            "functionResponse",
            "response",
            "output",
            "error",
            "modelId",
            "compressedHistory",
            "systemPayload",
            "subtype",
            "inlineData",
            "mimeType",
            "data",
            "isSidechain",
        ],
    },
    Bent {
        agent: Agent::Kimi,
        name: "kimi/5f1c0a9e77d2b8431f6a0c4be9d3187a/3a1e6d5c-0001-4a7b-9c3d-000000000001/context.jsonl",
        as_name: "context.jsonl",
        lines: 12,
        needed: &[
            "role",
            "content",
            "type",
            "text",
            "think",
            "tool_calls",
            "function",
            "id",
            "name",
            "arguments",
            "tool_call_id",
            "image_url",
            "url",
        ],
    },
    Bent {
        agent: Agent::OpenCode,
        name: "opencode/basic-tools.json",
        as_name: "export.json",
        lines: 0,
        needed: &[
            "info", "messages", "id", "role", "parts", "type", "text", "tool", "callID", "state",
            "status", "input", "output", "time",
        ],
    },
];

/// What is read from `text`.
fn view(file: &Bent, folder: &Path, text: &str) -> Option<View> {
    let path: PathBuf = folder.join(file.as_name);
    fs::write(&path, text).expect("a file");
    let (agent, stamp) = (file.agent, Stamp::default());
    let located =
        Located { agent, path, key: None, id: None, parent: None, archived: false, stamp };
    View::transcript(&located).ok()
}

/// What was said: what is only kept, and settings, may be more or less.
fn said(view: &View) -> Vec<String> {
    let is_said = |line: &String| {
        let starts = ["user: ", "assistant: ", "thinking: ", "call ", "result ", "summary: "];
        starts.iter().any(|start| line.starts_with(start))
    };
    lines(view).into_iter().filter(is_said).collect()
}

/// The ways to all members of objects, as JSON pointers.
fn members(value: &Value, way: &str, found: &mut Vec<String>) {
    match value {
        Value::Object(object) => {
            for (name, value) in object {
                let way = format!("{way}/{}", name.replace('~', "~0").replace('/', "~1"));
                members(value, &way, found);
                found.push(way);
            }
        }
        Value::Array(list) => {
            for (at, value) in list.iter().enumerate() {
                members(value, &format!("{way}/{at}"), found);
            }
        }
        _ => {}
    }
}

fn kind(value: &Value) -> (Option<&str>, Option<&str>) {
    let text = |way: &str| value.pointer(way).and_then(Value::as_str);
    (text("/type"), text("/role").or(text("/message/role")).or(text("/payload/type")))
}

fn is_within(part: &[String], whole: &[String]) -> bool {
    let mut whole = whole.iter();
    part.iter().all(|line| whole.any(|other| other == line))
}

/// Bends each field of a value in each way; `rest` puts the value into its file, or leaves it out.
fn bend(file: &Bent, folder: &Path, value: &Value, rest: &dyn Fn(Option<&Value>) -> String) {
    let whole = said(&view(file, folder, &rest(Some(value))).expect("it reads"));
    let others = view(file, folder, &rest(None)).map(|view| said(&view)).unwrap_or_default();
    let mut ways = Vec::new();
    members(value, "", &mut ways);
    for way in ways {
        let name = way.rsplit('/').next().unwrap_or_default();
        for odd in [json!(5), json!(null), json!({"odd": 1}), json!([7]), json!("odd")] {
            let mut bent = value.clone();
            let field = bent.pointer_mut(&way).expect("it is there");
            let same = std::mem::discriminant(&*field) == std::mem::discriminant(&odd);
            if same || field.is_null() {
                continue;
            }
            *field = odd.clone();
            let what = format!("{}: {way} = {odd}", file.name);
            let Some(view) = view(file, folder, &rest(Some(&bent))) else {
                assert!(others.is_empty(), "{what}: nothing was read");
                continue;
            };
            // What a call is given is shown as it is.
            let given = ["/input/", "/arguments/", "/args/", "/response/", "/output/"];
            if file.needed.contains(&name) || given.iter().any(|within| way.contains(within)) {
                assert!(
                    is_within(&others, &said(&view)),
                    "{what}: {:#?} {:#?}",
                    others,
                    said(&view)
                );
            } else {
                assert_eq!(said(&view), whole, "{what}");
            }
        }
    }
}

/// Covers: G3, G13.
#[test]
fn a_field_of_an_odd_type_costs_at_most_itself() {
    for file in &FILES {
        let folder = tempfile::tempdir().expect("a folder");
        let text = fs::read_to_string(corpus(&format!("foreign/{}", file.name))).expect("text");
        if file.lines == 0 {
            let document: Value = serde_json::from_str(&text).expect("JSON");
            let put = |value: Option<&Value>| value.map(Value::to_string).unwrap_or_default();
            bend(file, folder.path(), &document, &put);
            continue;
        }
        let all: Vec<&str> = text.lines().take(file.lines).collect();
        let mut seen = HashSet::new();
        for (at, line) in all.iter().enumerate() {
            let Ok(value) = serde_json::from_str::<Value>(line) else { continue };
            if !seen.insert(format!("{:?}", kind(&value))) {
                continue;
            }
            bend(file, folder.path(), &value, &|value| {
                let (before, after) = (&all[..at], &all[at + 1..]);
                let own = value.map(Value::to_string);
                let lines =
                    before.iter().copied().chain(own.as_deref()).chain(after.iter().copied());
                lines.map(|line| format!("{line}\n")).collect()
            });
        }
    }
}

/// A session whose times are numbers is read; that it does not say when is told, and the row is kept.
#[test]
fn a_claude_row_whose_time_is_a_number_is_read_without_it() {
    let text = fs::read_to_string(corpus("foreign/claude/multi-turn-tools.jsonl")).expect("text");
    let numbered =
        text.replace("\"timestamp\":\"2026-11-29T21:00:31.281Z\"", "\"timestamp\":1795986031281");
    assert_ne!(text, numbered);
    let folder = tempfile::tempdir().expect("a folder");
    let before = view(&FILES[0], folder.path(), &text).expect("it reads");
    let after = view(&FILES[0], folder.path(), &numbered).expect("it reads");
    assert_eq!(said(&after), said(&before));
    let odd: Vec<_> = after.findings.iter().filter(|f| f.code == "odd-field").collect();
    assert!(odd[0].sentence.contains("timestamp"), "{:?}", odd[0]);
    assert!(findings(&after).iter().any(|finding| finding.starts_with("odd-field@")));
    let kept = after.records.iter().filter(|read| match read.record.body() {
        segno_model::Body::Custom(custom) => custom.data.get().contains("1795986031281"),
        _ => false,
    });
    assert!(kept.count() > 0, "the row is kept as it is");
}
