//! What Claude Code keeps beside words: documents, linked images, and errors in the place of replies.

use super::machine::{CLAUDE, Machine};
use serde_json::{Value, json};

const ID: &str = "c0de0a77-1111-4111-8111-00000000000a";
const ERROR: &str = "API Error: 529 overloaded, the kiln is full";

fn document(source: &Value, title: Option<&str>) -> Value {
    json!({ "type": "document", "source": source, "title": title })
}

/// Every form of a document, and what is shown of it.
fn documents() -> Vec<(Value, &'static str)> {
    let pdf = json!({"type": "base64", "media_type": "application/pdf", "data": "JVBERi0xLjcK"});
    let text = json!({"type": "text", "media_type": "text/plain", "data": "Heat slowly.\nCool."});
    let blocks = json!([{"type": "text", "text": "One."}, {"type": "text", "text": "Two."}]);
    vec![
        (document(&pdf, Some("kiln.pdf")), "[document: kiln.pdf, application/pdf, 9 B]"),
        (document(&pdf, None), "[document: application/pdf, 9 B]"),
        (document(&text, Some("notes")), "[document: notes, text/plain, 18 B]\nHeat slowly."),
        (
            document(&json!({"type": "content", "content": blocks}), None),
            "[document: 9 B]\nOne.\nTwo.",
        ),
        (
            document(&json!({"type": "url", "url": "https://example.com/a.pdf"}), Some("a")),
            "[document: a, https://example.com/a.pdf]",
        ),
        (document(&json!({"type": "file", "file_id": "file_17"}), None), "[document: file_17]"),
        (
            json!({"type": "image", "source": {"type": "url", "url": "https://example.com/a.png"}}),
            "[image: https://example.com/a.png]",
        ),
    ]
}

fn session() -> String {
    let mut rows = Vec::new();
    let mut parent = Value::Null;
    let mut row = |kind: &str, message: Value, more: Value| {
        let uuid = format!("0a770000-0000-4000-8000-{:012}", rows.len());
        let mut row = json!({
            "parentUuid": parent, "isSidechain": false, "type": kind, "uuid": uuid,
            "sessionId": ID, "version": "2.1.332", "cwd": "/srv/kiln",
            "timestamp": "2026-03-02T09:00:07.000Z", "message": message,
        });
        row.as_object_mut().unwrap().extend(more.as_object().cloned().unwrap_or_default());
        rows.push(row.to_string());
        parent = uuid.into();
    };
    let of = |documents: Vec<Value>, words: &str| {
        let text = [json!({"type": "text", "text": words})];
        text.into_iter().chain(documents).collect::<Vec<_>>()
    };
    let all = || documents().into_iter().map(|(document, _)| document).collect();
    row("user", json!({"role": "user", "content": of(all(), "Read these.")}), json!({}));
    let call =
        json!({"type": "tool_use", "id": "toolu_1", "name": "Read", "input": {"file_path": "/a"}});
    let reply = json!({"id": "m1", "role": "assistant", "model": "claude-x", "content": [call],
        "stop_reason": "tool_use"});
    row("assistant", reply, json!({"requestId": "r1"}));
    let result =
        json!({"type": "tool_result", "tool_use_id": "toolu_1", "content": of(all(), "Here.")});
    row("user", json!({"role": "user", "content": [result]}), json!({}));
    let error = json!({"id": "e1", "role": "assistant", "model": "<synthetic>",
        "content": [{"type": "text", "text": ERROR}], "stop_reason": "stop_sequence"});
    row("assistant", error, json!({"isApiErrorMessage": true, "error": "server_error"}));
    row("user", json!({"role": "user", "content": "Go on."}), json!({}));
    let reply = json!({"id": "m2", "role": "assistant", "model": "claude-x",
        "content": [{"type": "text", "text": "It is warm."}], "stop_reason": "end_turn"});
    row("assistant", reply, json!({"requestId": "r2"}));
    rows.join("\n") + "\n"
}

fn machine() -> Machine {
    let machine = Machine::new();
    machine.put(&format!("{CLAUDE}/{ID}.jsonl"), &session());
    machine
}

#[test]
fn documents_are_shown_as_what_they_are() {
    let machine = machine();
    let word = format!("claude:{ID}");
    for args in [
        &["show", &word][..],
        &["export", &word, "--format", "markdown"],
        &["export", &word, "--format", "html"],
    ] {
        let said = machine.run(args);
        assert_eq!(said.code, 0, "{said:?}");
        for (_, words) in documents() {
            for line in words.lines() {
                // Of a result, `show` folds what is long.
                let times = said.out.matches(line).count();
                let least = if args[0] == "show" { 1 } else { 2 };
                assert!(times >= least, "{args:?}: {line}: {times}\n{}", said.out);
            }
        }
        assert!(!said.out.contains("this version does not know"), "{args:?}: {}", said.out);
        assert!(!said.out.contains("JVBERi0xLjcK"), "{args:?}");
    }
    let sent = machine.run(&["show", &word, "--context", "--json"]);
    for (_, words) in documents() {
        let words = Value::from(words).to_string();
        let words = words.trim_matches('"');
        assert_eq!(sent.out.matches(words).count(), 2, "{words}: {sent:?}");
    }
}

/// Claude Code shows it, and sends nothing of it.
#[test]
fn an_error_is_shown_as_one_and_is_no_reply() {
    let machine = machine();
    let word = format!("claude:{ID}");
    let shown = machine.out(&["show", &word]);
    assert!(shown.contains("error instead of a reply") && shown.contains(ERROR), "{shown}");
    assert!(!shown.contains("<synthetic>"), "{shown}");
    let line = shown.lines().find(|line| line.contains("error instead")).unwrap();
    let number = line.split(' ').next().unwrap().trim_start_matches('#');
    let near = machine.out(&["show", &word, "--at", number]);
    assert!(near.contains(ERROR), "{near}");
    let page = machine.out(&["export", &word, "--format", "markdown"]);
    let heading = page.lines().find(|line| line.starts_with("## Error instead of a reply (#"));
    assert!(heading.is_some() && page.contains(ERROR), "{page}");
    let page = machine.out(&["export", &word, "--format", "html"]);
    assert!(page.contains("class=\"error\"") && page.contains(ERROR), "{page}");
    let context = machine.out(&["show", &word, "--context", "--json"]);
    assert!(!context.contains(ERROR), "{context}");
    for target in ["claude", "codex", "pi", "gemini", "opencode"] {
        let copy = machine.run(&["export", &word, "--format", target, "-o", "-"]);
        assert_eq!(copy.code, 0, "{copy:?}");
        assert!(!copy.out.contains(ERROR), "{target}: {copy:?}");
    }
    // Taken in, it is that too.
    machine.run(&["resume", &word, "--here"]);
    let own = machine.out(&["show", "segno:last"]);
    assert!(own.contains("error instead of a reply") && own.contains(ERROR), "{own}");
}
