//! Secrets in every place of a session that an export shows, or speaks of.
//!
//! Responsible for: that none of them gets out, in what is written and in what is said about it, in any format.
//! Must not: know how a secret is found.

use super::desk::{Desk, id};
use super::machine::{CLAUDE, Machine};
use segno_model::Body;
use segno_model::record::{
    AssistantBlock, AssistantMessage, Custom, Message, ModelRef, UserMessage,
};
use segno_testkit::sessions::prompt;
use serde_json::{Value, json};

/// How each of the keys begins; a number tells them apart.
const KEY: &str = "ghp_FAKEfakeFAKEfakeFAKEfakeFAKEfake";

const ID: &str = "c0de00aa-1111-4111-8111-0000000000aa";

/// One with a secret in its directory, its title, what waits, the name of its model, and its subagent's role.
fn of_claude(machine: &Machine) {
    let row = |n: u32, kind: &str, message: Value| {
        json!({
            "type": kind, "message": message, "uuid": format!("c0de00aa-0000-4000-8000-00000000000{n}"),
            "parentUuid": (n > 1).then(|| format!("c0de00aa-0000-4000-8000-00000000000{}", n - 1)),
            "sessionId": ID, "timestamp": format!("2026-03-02T10:00:0{n}.000Z"), "version": "2.1.0",
            "isSidechain": false, "userType": "external", "gitBranch": format!("b/{KEY}b000"),
            "cwd": format!("/nowhere/{KEY}c000"),
        })
    };
    let reply = |content: Value| {
        json!({
            "id": "m", "type": "message", "role": "assistant", "model": format!("claude-{KEY}m000"),
            "content": content, "stop_reason": "end_turn", "usage": { "input_tokens": 1, "output_tokens": 1 },
        })
    };
    let queued = |text: &str| {
        json!({
            "type": "queue-operation", "operation": "enqueue", "sessionId": ID, "content": text,
            "timestamp": "2026-03-02T10:00:00.000Z",
        })
    };
    let task =
        json!({ "type": "tool_use", "id": "toolu_1", "name": "Agent", "input": { "prompt": "x" } });
    let done = json!({ "type": "tool_result", "tool_use_id": "toolu_1", "content": "done" });
    let mut result = row(3, "user", json!({ "role": "user", "content": [done] }));
    result["toolUseResult"] = json!({ "agentId": "a1234567890abcdef", "status": "completed" });
    let title = format!("{} {KEY}t000", "long words".repeat(5));
    let rows = [
        row(1, "user", json!({ "role": "user", "content": "Why is the kiln cold?" })),
        row(2, "assistant", reply(json!([task]))),
        result,
        row(4, "assistant", reply(json!([{ "type": "text", "text": "It is off." }]))),
        json!({ "type": "custom-title", "sessionId": ID, "customTitle": title }),
        queued(&format!("use {KEY}q000")),
    ];
    let lines = |rows: &[Value]| rows.iter().map(|row| format!("{row}\n")).collect::<String>();
    machine.put(&format!("{CLAUDE}/{ID}.jsonl"), &lines(&rows));
    let mut child = row(1, "user", json!({ "role": "user", "content": "x" }));
    child["isSidechain"] = json!(true);
    child["agentId"] = json!("a1234567890abcdef");
    let below = format!("{CLAUDE}/{ID}/subagents/agent-a1234567890abcdef");
    machine.put(&format!("{below}.jsonl"), &lines(&[child]));
    let meta = json!({ "agentType": format!("r-{KEY}r000"), "toolUseId": "toolu_1" });
    machine.put(&format!("{below}.meta.json"), &meta.to_string());
}

/// Covers: #116, G17. In the files, beside them, and in what `--json` says of them.
#[test]
fn no_place_of_another_agents_session_lets_a_secret_out() {
    let machine = Machine::new();
    of_claude(&machine);
    let word = format!("claude:{ID}");
    for format in ["markdown", "html", "json"] {
        let said = machine.run(&["export", &word, "--format", format]);
        assert_eq!(said.code, 0, "{format}: {said:?}");
        let all = format!("{}{}", said.out, said.err);
        assert!(!all.contains("FAKEfake") && said.out.contains("the kiln cold"), "{format}: {all}");
        assert!(said.out.contains("[masked: github-token]"), "{format}: {all}");
    }
    for format in ["claude", "codex", "pi", "gemini", "opencode"] {
        let said = machine.run(&["export", &word, "--format", format, "--redact"]);
        assert_eq!(said.code, 0, "{format}: {said:?}");
        let report = machine.run(&["export", &word, "--format", format, "--redact", "--json"]);
        for (what, text) in [("out", &said.out), ("err", &said.err), ("json", &report.out)] {
            assert!(!text.contains("FAKEfake"), "{format} {what}: {text}");
        }
        assert!(said.err.contains("was never delivered: use [masked: github-token"), "{said:?}");
        assert!(said.err.contains("/nowhere/[masked: github-token"), "{said:?}");
        assert!(report.json()["notes"].to_string().contains("use [masked: github-token"));
        let open = machine.run(&["export", &word, "--format", format]);
        assert!(open.err.contains("q000"), "what was not asked for is not masked: {open:?}");
    }
}

/// Covers: #116, G17. Names that stand between the texts of a page.
#[test]
fn names_in_a_session_of_ours_are_masked() {
    let desk = Desk::new();
    let text = |kind: &str| format!("{kind}-{KEY}0000");
    let model = ModelRef::new("anthropic", &text("model"));
    let reply = AssistantMessage::new(&model, vec![AssistantBlock::text("It is off.")]);
    let custom = Custom {
        name: text("custom"),
        data: serde_json::value::to_raw_value(&0).unwrap(),
        context: Some("A note.".to_owned()),
    };
    let notice = UserMessage::notice(&text("notice"), "Mind the kiln.");
    desk.session(
        1,
        vec![
            prompt("Why is the kiln cold?"),
            Body::Message(Box::new(Message::Assistant(reply))),
            Body::Message(Box::new(Message::User(notice))),
            Body::Custom(custom),
        ],
    );
    for format in ["markdown", "html", "json", "jsonl"] {
        let ran = desk.run(&["export", id(1).as_str(), "--format", format]);
        assert_eq!(ran.code, 0, "{format}: {ran:?}");
        assert!(!ran.out.contains("FAKEfake"), "{format}: {}", ran.out);
        for name in ["model", "custom", "notice"] {
            assert!(ran.out.contains(&format!("{name}-[masked: ")), "{format} {name}: {}", ran.out);
        }
    }
}
