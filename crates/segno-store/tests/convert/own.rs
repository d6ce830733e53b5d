//! What our terms do not hold: it stands in a copy for the same agent as it stood, documents go to each agent that
//! holds them, and nothing of it is lost without being told.

use crate::scene;
use segno_store::convert::{Converted, LossKind, Session, TARGETS};
use segno_store::foreign::Agent;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Where a piece stands.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Place {
    Prompt,
    Reply,
    Result,
    Nowhere,
}
use Place::{Prompt, Reply, Result};

/// A piece, where it stands, and what becomes of it for claude, codex, pi, opencode and gemini: `same`, it stands
/// there; `file`, what it holds does, as the target keeps documents; `text`, what it says does; `told`, it is listed as
/// lost; `kept`, it is none of the conversation and is passed over.
type Row = (Agent, Place, &'static str, &'static str);

const CLAUDE_PDF: &str = r#"{"type":"document","source":{"type":"base64","media_type":"application/pdf","data":"JVBERi0xLjcK"},"title":"kiln.pdf","citations":{"enabled":true}}"#;
const GEMINI_PDF: &str = r#"{"inlineData":{"mimeType":"application/pdf","data":"JVBERi0xLjcK","displayName":"kiln.pdf"}}"#;
const OPENCODE_PDF: &str = r#"{"type":"file","mime":"application/pdf","filename":"kiln.pdf","url":"data:application/pdf;base64,JVBERi0xLjcK","source":{"type":"file","path":"kiln.pdf"}}"#;

const ROWS: &[Row] = &[
    (Agent::Claude, Prompt, CLAUDE_PDF, "same told told file file"),
    (Agent::Claude, Result, CLAUDE_PDF, "same told told file file"),
    (
        Agent::Claude,
        Prompt,
        r#"{"type":"document","source":{"type":"text","media_type":"text/plain","data":"JVBERi0xLjcK"}}"#,
        "same text text text text",
    ),
    (
        Agent::Claude,
        Prompt,
        r#"{"type":"document","source":{"type":"content","content":[{"type":"text","text":"JVBERi0xLjcK"}]}}"#,
        "same text text text text",
    ),
    (
        Agent::Claude,
        Prompt,
        r#"{"type":"document","source":{"type":"file","file_id":"file_1"}}"#,
        "same told told told told",
    ),
    (
        Agent::Claude,
        Prompt,
        r#"{"type":"image","source":{"type":"url","url":"https://example.com/a.png"}}"#,
        "same told told told told",
    ),
    (
        Agent::Claude,
        Result,
        r#"{"type":"tool_reference","tool_name":"Glaze"}"#,
        "same told told told told",
    ),
    (
        Agent::Claude,
        Reply,
        r#"{"type":"server_tool_use","id":"srvtoolu_1","name":"web_search","input":{"query":"kiln"}}"#,
        "same told told told told",
    ),
    (
        Agent::Claude,
        Reply,
        r#"{"type":"web_search_tool_result","tool_use_id":"srvtoolu_1","content":[{"type":"web_search_result","encrypted_content":"AbC="}]}"#,
        "same told told told told",
    ),
    (
        Agent::Codex,
        Reply,
        r#"{"type":"web_search_call","id":"ws_1","status":"completed","action":{"type":"search","query":"kiln"}}"#,
        "told same told told told",
    ),
    (
        Agent::Codex,
        Reply,
        r#"{"type":"message","role":"assistant","content":[{"type":"hologram","blob":[1,2.5,null]}]}"#,
        "told same told told told",
    ),
    (
        Agent::Codex,
        Prompt,
        r#"{"type":"hologram","blob":[1,2.5,null]}"#,
        "told told told told told",
    ),
    (
        Agent::Codex,
        Result,
        r#"{"type":"hologram","blob":[1,2.5,null]}"#,
        "told told told told told",
    ),
    (
        Agent::Codex,
        Reply,
        r#"{"type":"ghost_snapshot","ghost_commit":{"id":"5b9db857"}}"#,
        "kept same kept kept kept",
    ),
    (Agent::Pi, Prompt, r#"{"type":"rule","path":"x.md"}"#, "told told told told told"),
    (Agent::Pi, Reply, r#"{"type":"rule","path":"x.md"}"#, "told told told told told"),
    (Agent::Pi, Result, r#"{"type":"rule","path":"x.md"}"#, "told told told told told"),
    (Agent::OpenCode, Prompt, OPENCODE_PDF, "file told told same file"),
    (
        Agent::OpenCode,
        Result,
        r#"{"type":"file","mime":"application/pdf","filename":"kiln.pdf","url":"data:application/pdf;base64,JVBERi0xLjcK"}"#,
        "file told told same file",
    ),
    (
        Agent::OpenCode,
        Prompt,
        r#"{"type":"file","mime":"audio/wav","filename":"a.wav","url":"data:audio/wav;base64,JVBERi0xLjcK"}"#,
        "told told told same file",
    ),
    (
        Agent::OpenCode,
        Prompt,
        r#"{"type":"file","mime":"text/plain","filename":"a.txt","url":"file:///srv/kiln/a.txt"}"#,
        "kept kept kept same kept",
    ),
    (Agent::OpenCode, Prompt, r#"{"type":"agent","name":"explore"}"#, "kept kept kept same kept"),
    (
        Agent::OpenCode,
        Reply,
        r#"{"type":"patch","hash":"5b9db857","files":["/srv/kiln/b.txt"]}"#,
        "kept kept kept same kept",
    ),
    (
        Agent::OpenCode,
        Reply,
        r#"{"type":"reasoning","text":"think","metadata":{"openai":{"itemId":"rs_1","reasoningEncryptedContent":"gAAA"}},"time":{"start":1,"end":2}}"#,
        "told file file same told",
    ),
    (
        Agent::OpenCode,
        Reply,
        r#"{"type":"file","mime":"image/png","filename":"made.png","url":"data:image/png;base64,JVBERi0xLjcK"}"#,
        "told told told same told",
    ),
    (Agent::Gemini, Prompt, GEMINI_PDF, "file told told file same"),
    (Agent::Gemini, Result, GEMINI_PDF, "file told told file same"),
    (
        Agent::Gemini,
        Prompt,
        r#"{"inlineData":{"mimeType":"audio/wav","data":"JVBERi0xLjcK"}}"#,
        "told told told file same",
    ),
    (
        Agent::Gemini,
        Prompt,
        r#"{"fileData":{"mimeType":"application/pdf","fileUri":"https://example.com/a"}}"#,
        "told told told told same",
    ),
    (Agent::Gemini, Prompt, r#"{"hologram":{"blob":[1]}}"#, "told told told told told"),
    (Agent::Gemini, Reply, r#"{"hologram":{"blob":[1]}}"#, "told told told told told"),
    (Agent::Gemini, Result, r#"{"hologram":{"blob":[1]}}"#, "told told told told told"),
    (
        Agent::Gemini,
        Reply,
        r#"{"executableCode":{"language":"PYTHON","code":"print(1)"}}"#,
        "told told told told same",
    ),
    (
        Agent::Gemini,
        Reply,
        r#"{"inlineData":{"mimeType":"image/png","data":"JVBERi0xLjcK"}}"#,
        "told told told told same",
    ),
];

/// Covers: G14, #130. What holds data is either there or listed, in every target.
#[test]
fn what_our_terms_do_not_hold_is_carried_or_told() {
    let mut wrong = Vec::new();
    for (agent, place, piece, expected) in ROWS {
        let session = session(*agent, *place, piece);
        for (target, expected) in TARGETS_SHOWN.into_iter().zip(expected.split(' ')) {
            let Some(converted) = scene::converted(&session, target, &scene::none()) else {
                wrong.push(format!("{agent} {place:?} {piece} for {target}: nothing was said"));
                continue;
            };
            let found = fate(&converted, piece);
            if found != expected {
                wrong.push(format!(
                    "{agent} {place:?} {piece} for {target}: {found}, not {expected}: {:?}",
                    converted.losses
                ));
            }
        }
    }
    assert!(wrong.is_empty(), "{} are wrong:\n{}", wrong.len(), wrong.join("\n"));
}

const TARGETS_SHOWN: [Agent; 5] =
    [Agent::Claude, Agent::Codex, Agent::Pi, Agent::OpenCode, Agent::Gemini];

/// What Codex and Gemini CLI say in the person's place, and whether it is of their own surroundings and instructions.
const NOTICES: &[(Agent, &str, &str, bool)] = &[
    (
        Agent::Codex,
        "user",
        "<environment_context>\n  <cwd>/srv/kiln</cwd>\n</environment_context>",
        true,
    ),
    (
        Agent::Codex,
        "user",
        "# AGENTS.md instructions for /srv/kiln\n\n<INSTRUCTIONS>\nGlaze.\n</INSTRUCTIONS>",
        true,
    ),
    (Agent::Codex, "user", "<user_instructions>\nGlaze.\n</user_instructions>", true),
    (
        Agent::Codex,
        "developer",
        "<permissions instructions>Ask first.</permissions instructions>",
        true,
    ),
    (Agent::Codex, "developer", "Answer in French.", true),
    (Agent::Codex, "user", "<skills_instructions>\nglaze\n</skills_instructions>", true),
    (
        Agent::Codex,
        "user",
        "<turn_aborted>\nThe user interrupted the previous turn.\n</turn_aborted>",
        false,
    ),
    (Agent::Codex, "user", "<user_shell_command>\nls\n</user_shell_command>", false),
    (Agent::Codex, "user", "<subagent_notification>\ndone\n</subagent_notification>", false),
    (Agent::Codex, "user", "<skill>\n<name>glaze</name>\nStir.\n</skill>", false),
    (Agent::Codex, "user", "the environment_context is what I typed", false),
    (Agent::Gemini, "user", "<session_context>\nThis is the Gemini CLI.\n</session_context>", true),
    (Agent::Gemini, "user", "System: Please continue.", false),
];

/// Covers: G6, #72. What is left out is listed with its record, and is in a copy for the same agent as it stood.
#[test]
fn an_agents_own_surroundings_stay_with_it_and_what_the_model_has_to_know_goes_along() {
    let mut wrong = Vec::new();
    for (agent, role, text, is_own) in NOTICES {
        let session = noticed(*agent, role, text);
        for target in TARGETS {
            let copy = scene::converted(&session, target, &scene::none()).expect("it is converted");
            let left_out = copy.losses.iter().find(|loss| loss.kind == LossKind::Surroundings);
            let left_out = left_out.map_or(0, |loss| loss.records.len());
            let values: Vec<Value> = copy.files.iter().flat_map(|f| values(&f.bytes)).collect();
            let is_said = |value: &Value| value.as_str().is_some_and(|said| said == *text);
            let is_there = values.iter().any(|value| holds(value, &is_said));
            let in_its_role = |value: &Value| value["role"] == *role;
            let in_its_role = values.iter().any(|value| holds(value, &in_its_role));
            let goes = !is_own || *agent == target;
            let right = is_there == goes && left_out == usize::from(!goes);
            if !right || target == Agent::Codex && *agent == target && !in_its_role {
                wrong.push(format!("{agent} {text:?} for {target}: {is_there}, {:?}", copy.losses));
            }
        }
    }
    assert!(wrong.is_empty(), "{} are wrong:\n{}", wrong.len(), wrong.join("\n"));
}

/// A notice before a prompt and its answer.
fn noticed(agent: Agent, role: &str, text: &str) -> Session {
    let none = |_: Place| None;
    let (name, whole) = match agent {
        Agent::Codex => {
            ("rollout-2026-03-02T09-00-00-019c0000-0025-7000-8000-000000000025.jsonl", codex(&none))
        }
        _ => ("session-2026-03-02T09-00-c0de0001.jsonl", gemini(&none)),
    };
    let message = match agent {
        Agent::Codex => {
            json!({"timestamp": "2026-03-02T09:00:00.000Z", "type": "response_item", "payload":
            {"type": "message", "role": role, "content": [{"type": "input_text", "text": text}]}})
        }
        _ => {
            json!({"id": "m0", "timestamp": "2026-03-02T09:00:00.000Z", "type": "user", "content": [{"text": text}]})
        }
    };
    let (header, rest) = whole.split_once('\n').expect("lines");
    let home = tempfile::tempdir().expect("a folder");
    let path = home.path().join(name);
    fs::write(&path, format!("{header}\n{message}\n{rest}")).expect("a file");
    scene::session(&path).expect("it is read")
}

/// What became of a piece.
fn fate(converted: &Converted, piece: &str) -> &'static str {
    let piece: Value = serde_json::from_str(piece).expect("JSON");
    let values: Vec<Value> = converted.files.iter().flat_map(|file| values(&file.bytes)).collect();
    let is_told = |kind: LossKind| converted.losses.iter().any(|loss| loss.kind == kind);
    let told = is_told(LossKind::UnknownContent) || is_told(LossKind::Thinking);
    let any = |test: &dyn Fn(&Value) -> bool| values.iter().any(|value| holds(value, test));
    let is_data = |value: &Value| {
        let text = value.as_str().unwrap_or_default();
        text == "JVBERi0xLjcK" || text.ends_with(";base64,JVBERi0xLjcK") || text.contains("gAAA")
    };
    let is_text = |value: &Value| value["text"] == "JVBERi0xLjcK" || value == "JVBERi0xLjcK";
    match told {
        true if any(&is_data) => "told and there",
        true => "told",
        false if any(&|value| scene::bare(value) == scene::bare(&piece)) => "same",
        false if any(&|value| value.is_object() && is_text(value)) => "text",
        false if any(&is_data) => "file",
        false => "kept",
    }
}

/// The JSON values of a file: one, or one a line.
fn values(bytes: &[u8]) -> Vec<Value> {
    if let Ok(value) = serde_json::from_slice(bytes) {
        return vec![value];
    }
    let text = String::from_utf8_lossy(bytes);
    text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

/// Whether a value, or one within it, is one that is looked for.
fn holds(value: &Value, test: &dyn Fn(&Value) -> bool) -> bool {
    test(value)
        || match value {
            Value::Array(all) => all.iter().any(|value| holds(value, test)),
            Value::Object(all) => all.values().any(|value| holds(value, test)),
            _ => false,
        }
}

/// A prompt, a call with its result and a last word, with a piece beside a text where it is to stand.
pub(crate) fn session(agent: Agent, place: Place, piece: &str) -> Session {
    let home = tempfile::tempdir().expect("a folder");
    let path = file(home.path(), agent, place, piece);
    scene::session(&path).unwrap_or_else(|| panic!("{agent}: it is not read"))
}

/// The file of such a session.
pub(crate) fn file(home: &Path, agent: Agent, place: Place, piece: &str) -> PathBuf {
    let piece: Value = serde_json::from_str(piece).expect("JSON");
    let at = |of: Place| Some(piece.clone()).filter(|_| place == of);
    let (name, text) = match agent {
        Agent::Claude => ("c0de0001-1111-4111-8111-0000000000d0.jsonl", claude(&at)),
        Agent::Codex => {
            ("rollout-2026-03-02T09-00-00-019c0000-0025-7000-8000-000000000025.jsonl", codex(&at))
        }
        Agent::Pi => {
            ("2026-03-02T09-00-00-000Z_019c1111-0025-7000-8000-000000000025.jsonl", pi(&at))
        }
        Agent::OpenCode => ("ses_1.json", opencode(&at)),
        _ => ("session-2026-03-02T09-00-c0de0001.jsonl", gemini(&at)),
    };
    let path = home.join(name);
    fs::write(&path, text).expect("a file");
    path
}

type At<'a> = &'a dyn Fn(Place) -> Option<Value>;

fn beside(first: Value, piece: Option<Value>) -> Value {
    std::iter::once(first).chain(piece).collect()
}

fn lines(rows: &[Value]) -> String {
    rows.iter().map(|row| format!("{row}\n")).collect()
}

fn claude(at: At<'_>) -> String {
    let text = |text: &str| json!({"type": "text", "text": text});
    let result = json!([{"type": "tool_result", "tool_use_id": "t1", "content": beside(text("pages"), at(Result))}]);
    let call = json!({"type": "tool_use", "id": "t1", "name": "Read", "input": {"file_path": "/srv/kiln/a"}});
    let mut reply = beside(text("Reading."), at(Reply));
    reply.as_array_mut().expect("blocks").push(call);
    let said = [
        ("user", beside(text("Read these."), at(Prompt))),
        ("assistant", reply),
        ("user", result),
        ("assistant", json!([text("Done.")])),
    ];
    let row = |(n, (kind, content)): (usize, &(&str, Value))| {
        let parent = n.checked_sub(1).map(|n| format!("c0de0001-2222-4111-8111-00000000000{n}"));
        let message = json!({"role": kind, "id": format!("msg_{n}"), "model": "claude-opus-5-5", "content": content});
        json!({"parentUuid": parent, "isSidechain": false, "type": kind, "message": message,
            "uuid": format!("c0de0001-2222-4111-8111-00000000000{n}"), "timestamp": "2026-03-02T10:00:00.000Z",
            "sessionId": "c0de0001-1111-4111-8111-0000000000d0", "cwd": "/srv/kiln", "version": "2.1.300"})
    };
    lines(&said.iter().enumerate().map(row).collect::<Vec<_>>())
}

fn codex(at: At<'_>) -> String {
    let text = |kind: &str, text: &str| json!({"type": kind, "text": text});
    let message =
        |role: &str, content: Value| json!({"type": "message", "role": role, "content": content});
    let mut items = vec![
        message("user", beside(text("input_text", "Read these."), at(Prompt))),
        message("assistant", json!([text("output_text", "Reading.")])),
    ];
    items.extend(at(Reply));
    items.extend([
        json!({"type": "function_call", "name": "exec_command", "arguments": "{\"cmd\":\"ls\"}", "call_id": "c1"}),
        json!({"type": "function_call_output", "call_id": "c1", "output": beside(text("input_text", "pages"), at(Result))}),
        message("assistant", json!([text("output_text", "Done.")])),
    ]);
    let row = |kind: &str, payload: Value| json!({"timestamp": "2026-03-02T09:00:00.000Z", "type": kind, "payload": payload});
    let header = json!({"id": "019c0000-0025-7000-8000-000000000025", "timestamp": "2026-03-02T09:00:00.000Z",
        "cwd": "/srv/kiln", "originator": "codex_cli_rs", "cli_version": "0.150.0", "model_provider": "openai"});
    let items = items.into_iter().map(|item| row("response_item", item));
    lines(&std::iter::once(row("session_meta", header)).chain(items).collect::<Vec<_>>())
}

fn pi(at: At<'_>) -> String {
    let text = |text: &str| json!({"type": "text", "text": text});
    let call = json!({"type": "toolCall", "id": "c1", "name": "read", "arguments": {}});
    let mut reply = beside(text("Reading."), at(Reply));
    reply.as_array_mut().expect("pieces").push(call);
    let of_model = |content: Value| {
        json!({"role": "assistant", "content": content, "api": "anthropic-messages", "provider": "anthropic",
            "model": "claude-opus-5-5", "usage": {"input": 1, "output": 1}, "stopReason": "stop"})
    };
    let said = [
        json!({"role": "user", "content": beside(text("Read these."), at(Prompt))}),
        of_model(reply),
        json!({"role": "toolResult", "toolCallId": "c1", "toolName": "read", "content": beside(text("pages"), at(Result)), "isError": false}),
        of_model(json!([text("Done.")])),
    ];
    let header = json!({"type": "session", "version": 3, "id": "019c1111-0025-7000-8000-000000000025",
        "timestamp": "2026-03-02T09:00:00.000Z", "cwd": "/srv/kiln"});
    let row = |(n, message): (usize, &Value)| {
        let parent = n.checked_sub(1).map(|n| format!("6500000{n}"));
        json!({"type": "message", "id": format!("6500000{n}"), "parentId": parent, "timestamp": "2026-03-02T09:00:05.000Z", "message": message})
    };
    let rows = said.iter().enumerate().map(row);
    lines(&std::iter::once(header).chain(rows).collect::<Vec<_>>())
}

fn opencode(at: At<'_>) -> String {
    let mut state = json!({"status": "completed", "input": {"filePath": "a"}, "output": "pages", "title": "", "metadata": {}, "time": {"start": 3, "end": 4}});
    if let Some(file) = at(Result) {
        state["attachments"] = json!([file]);
    }
    let tool = json!({"type": "tool", "callID": "c1", "tool": "read", "state": state});
    let mut reply = beside(json!({"type": "text", "text": "Reading."}), at(Reply));
    reply.as_array_mut().expect("parts").push(tool);
    let prompt = beside(json!({"type": "text", "text": "Read these."}), at(Prompt));
    let messages = json!([
        {"info": {"id": "msg_1", "role": "user", "time": {"created": 1}, "agent": "build", "model": {"providerID": "openai", "modelID": "gpt-5.1"}}, "parts": prompt},
        {"info": {"id": "msg_2", "role": "assistant", "parentID": "msg_1", "time": {"created": 2, "completed": 5}, "providerID": "openai", "modelID": "gpt-5.1", "finish": "tool-calls"}, "parts": reply},
        {"info": {"id": "msg_3", "role": "assistant", "parentID": "msg_1", "time": {"created": 6, "completed": 7}, "providerID": "openai", "modelID": "gpt-5.1", "finish": "stop"}, "parts": [{"type": "text", "text": "Done."}]},
    ]);
    json!({"info": {"id": "ses_1", "directory": "/srv/kiln", "title": "Kiln", "version": "1.18.33", "time": {"created": 1, "updated": 7}}, "messages": messages}).to_string()
}

fn gemini(at: At<'_>) -> String {
    let response = json!({"functionResponse": {"id": "c1", "name": "read_file", "response": {"output": "pages"}}});
    let call = json!({"id": "c1", "name": "read_file", "args": {}, "status": "success", "timestamp": "2026-03-02T09:00:06.000Z", "result": beside(response, at(Result))});
    let message = |id: &str, kind: &str, content: Value| json!({"id": id, "timestamp": "2026-03-02T09:00:05.000Z", "type": kind, "content": content});
    let mut reply = message("m2", "gemini", beside(json!({"text": "Reading."}), at(Reply)));
    reply["toolCalls"] = json!([call]);
    reply["model"] = json!("gemini-3-pro");
    lines(&[
        json!({"sessionId": "c0de0001-1111-4111-8111-0000000000d0", "projectHash": "ab", "startTime": "2026-03-02T09:00:00.000Z", "lastUpdated": "2026-03-02T09:00:00.000Z", "kind": "main"}),
        message("m1", "user", beside(json!({"text": "Read these."}), at(Prompt))),
        reply,
        message("m3", "gemini", json!([{"text": "Done."}])),
    ])
}

/// Kinds of pieces that a copy does not have, and why.
const OTHERWISE: &[(Agent, &str, &str)] = &[
    (Agent::Pi, "user rule", "pi sends it as an image without data: told as lost"),
    (Agent::Pi, "system text", "pi says it anew"),
    (Agent::Gemini, "gemini text", "it is empty"),
    (Agent::Claude, "user tool_result", "its call is nowhere: told as lost"),
    (Agent::OpenCode, "assistant tool", "its arguments never ended, so that it did not run: told"),
    (Agent::OpenCode, "user compaction", "it asked for a summary that was never written"),
    (Agent::Gemini, "user functionResponse", "the result stands with its call, too"),
];

/// Covers: G14, #130. Each kind of piece that real agents wrote is in the copy for the same agent, too.
#[test]
fn a_copy_for_the_same_agent_has_every_kind_of_piece_that_the_original_has() {
    let (mut wrong, mut kinds, mut used) = (Vec::new(), 0, BTreeSet::new());
    for path in scene::files("foreign").into_iter().chain(scene::files("cases")) {
        let Some(session) = scene::session(&path) else { continue };
        let Some(own) = TARGETS.into_iter().find(|target| target.id() == session.source) else {
            continue;
        };
        let Some(copy) = scene::converted(&session, own, &scene::none()) else { continue };
        let before = kinds_of(own, &values(&read(&path)));
        let after: BTreeSet<String> =
            copy.files.iter().flat_map(|file| kinds_of(own, &values(&file.bytes))).collect();
        kinds += before.len();
        for kind in before.difference(&after) {
            let row = OTHERWISE.iter().find(|(agent, of, _)| (*agent, *of) == (own, kind));
            match row {
                Some(row) => drop(used.insert(row.1)),
                None => wrong.push(format!("{}: {kind}, lost: {:?}", path.display(), copy.losses)),
            }
        }
    }
    assert!(wrong.is_empty(), "{} are wrong:\n{}", wrong.len(), wrong.join("\n"));
    assert!(kinds > 200, "{kinds}");
    assert_eq!(used.len(), OTHERWISE.len(), "{used:?}");
}

fn read(path: &Path) -> Vec<u8> {
    fs::read(path).expect("a file")
}

/// The kinds of pieces in an agent's file, with who says them.
fn kinds_of(agent: Agent, values: &[Value]) -> BTreeSet<String> {
    let mut kinds = BTreeSet::new();
    let mut add = |who: &str, pieces: &Value| {
        if pieces.is_string() {
            kinds.insert(format!("{who} text"));
        }
        for piece in pieces.as_array().into_iter().flatten() {
            let named = piece["type"].as_str().map(str::to_owned);
            let by_keys =
                || piece.as_object().map(|o| o.keys().next().cloned().unwrap_or_default());
            kinds.extend(named.or_else(by_keys).map(|kind| format!("{who} {kind}")));
        }
    };
    for value in values {
        let who = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        match agent {
            // What was sent is noted, too, in rows of other types.
            Agent::Claude if value["uuid"].is_string() => {
                add(&who(&value["type"]), &value["message"]["content"]);
            }
            Agent::Claude => {}
            Agent::Codex => {
                let item = &value["payload"];
                if value["type"] == "response_item" {
                    let role = item["role"].as_str().unwrap_or_default();
                    add(role, &item["content"]);
                    add("items", &json!([item]));
                }
            }
            Agent::Pi => add(&who(&value["message"]["role"]), &value["message"]["content"]),
            Agent::OpenCode => {
                for message in value["messages"].as_array().into_iter().flatten() {
                    add(&who(&message["info"]["role"]), &message["parts"]);
                }
            }
            _ => {
                add(&who(&value["type"]), &value["content"]);
                for call in value["toolCalls"].as_array().into_iter().flatten() {
                    add("result", &call["result"]);
                }
            }
        }
    }
    kinds
}
