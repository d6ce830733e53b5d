//! The recorded cases, repaired.

use crate::bench::{Copy, Repaired, corpus, keeps_its_promises, repaired, session};
use segno_store::foreign::{Agent, Located, View, recognise};
use segno_store::rescue::{self, RULES, RescueError, is_repaired};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::fs;

/// A case's file, what is changed in it, and how many bytes are set aside.
type Row = (&'static str, &'static [&'static str], usize);

const ROWS: &[Row] = &[
    (
        "01-torn-middle-lines/c0de0001-1111-4111-8111-000000000001.jsonl",
        &["torn-line@6", "torn-line@7"],
        249,
    ),
    ("03-fused-stub/c0de0003-1111-4111-8111-000000000003.jsonl", &["fused-line@7"], 458),
    ("04-nul-block/c0de0004-1111-4111-8111-000000000004.jsonl", &["nul-run@6", "nul-run@9"], 0),
    (
        "05-lone-surrogate/c0de0005-1111-4111-8111-000000000005.jsonl",
        &["lone-surrogate@3", "lone-surrogate@6"],
        0,
    ),
    (
        "07-unicode-separators/2026-03-02T09-00-00-000Z_019c1111-0007-7000-8000-000000000007.jsonl",
        &[],
        0,
    ),
    (
        "08-bom-crlf/rollout-2026-03-02T09-00-00-019c0000-0008-7000-8000-000000000008.jsonl",
        &["byte-order-mark@1"],
        0,
    ),
    (
        "10-duplicate-prefix/2026-03-02T09-00-00-000Z_019c1111-000a-7000-8000-00000000000a.jsonl",
        &["repeated-record@4", "repeated-record@5"],
        0,
    ),
    (
        "12-missing-parent/c0de000c-1111-4111-8111-00000000000c.jsonl",
        &["missing-parent@5", "missing-parent@7"],
        0,
    ),
    ("13-parallel-tool-branches/c0de000d-1111-4111-8111-00000000000d.jsonl", &[], 0),
    (
        "15-orphan-call-tail/rollout-2026-03-02T09-00-00-019c0000-000f-7000-8000-00000000000f.jsonl",
        &["unanswered-call@7"],
        0,
    ),
    (
        "17-orphan-result/c0de0011-1111-4111-8111-000000000011.jsonl",
        &["orphan-result@4", "missing-parent@4"],
        0,
    ),
    (
        "18-duplicate-results/2026-03-02T09-00-00-000Z_019c1111-0012-7000-8000-000000000012.jsonl",
        &["second-result@5", "second-result@7"],
        0,
    ),
    (
        "20-reused-call-ids/2026-03-02T09-00-00-000Z_019c1111-0014-7000-8000-000000000014.jsonl",
        &["reused-call-id@7", "reused-call-id@11", "reused-call-id@15"],
        0,
    ),
    (
        "21-unsigned-thinking/c0de0015-1111-4111-8111-000000000015.jsonl",
        &["unsigned-thinking@2", "unsigned-thinking@4"],
        713,
    ),
    (
        "23-empty-text-blocks/c0de0017-1111-4111-8111-000000000017.jsonl",
        &["empty-text@2", "empty-text@3", "empty-text@4", "empty-text@5"],
        0,
    ),
    ("24-compaction-resume/later/c0de0018-1111-4111-8111-000000000018.jsonl", &[], 0),
    ("24-compaction-resume/right-after/c0de0018-1111-4111-8111-000000000018.jsonl", &[], 0),
    (
        "26-fork-label-boundary/2026-03-02T09-00-00-000Z_019c1111-001a-7000-8000-00000000001a.jsonl",
        &[],
        0,
    ),
    ("26-fork-label-boundary/already-forked.jsonl", &["lost-kept@6"], 0),
    (
        "27-replayed-copies/c0de001b-1111-4111-8111-00000000001b.jsonl",
        &["repeated-record@9", "missing-parent@13"],
        0,
    ),
    (
        "29-late-first-prompt/rollout-2026-03-02T09-00-00-019c0000-001d-7000-8000-00000000001d.jsonl",
        &[],
        0,
    ),
    ("31-slash-command-title/c0de001f-1111-4111-8111-00000000001f.jsonl", &[], 0),
    ("31-slash-command-title/c0de001f-1111-4111-8111-0000000000b0.jsonl", &[], 0),
    ("31-slash-command-title/c0de001f-1111-4111-8111-0000000000d0.jsonl", &[], 0),
    ("32-mtime-lies/sessions/c0de0020-1111-4111-8111-000000000001.jsonl", &[], 0),
    ("32-mtime-lies/sessions/c0de0020-1111-4111-8111-000000000002.jsonl", &[], 0),
    ("32-mtime-lies/sessions/c0de0020-1111-4111-8111-000000000003.jsonl", &[], 0),
    ("35-usage-dedup/c0de0023-1111-4111-8111-000000000023.jsonl", &[], 0),
    ("35-usage-dedup/c0de0023-1111-4111-8111-0000000000b0.jsonl", &[], 0),
    (
        "36-fork-usage/rollout-2026-03-02T09-00-00-019c0000-0024-7000-8000-000000000024.jsonl",
        &[],
        0,
    ),
    (
        "36-fork-usage/rollout-2026-03-02T09-00-00-019c0000-0024-7000-8000-0000000000f0.jsonl",
        &[],
        0,
    ),
    (
        "37-unknown-variants/2026-03-02T09-00-00-000Z_019c1111-0025-7000-8000-000000000025.jsonl",
        &["unknown-piece@2"],
        0,
    ),
    (
        "37-unknown-variants/rollout-2026-03-02T09-00-00-019c0000-0025-7000-8000-000000000025.jsonl",
        &["unknown-piece@7"],
        0,
    ),
    (
        "39-terminal-escapes/2026-03-02T09-00-00-000Z_019c1111-0027-7000-8000-000000000027.jsonl",
        &[],
        0,
    ),
    (
        "40-clock-backwards/2026-03-02T09-00-00-000Z_019c1111-0028-7000-8000-000000000028.jsonl",
        &[],
        0,
    ),
    ("41-secrets-and-modes/session/c0de0029-1111-4111-8111-000000000029.jsonl", &[], 0),
    ("42-subagents-before-fork/c0de002a-1111-4111-8111-0000000000a0.jsonl", &[], 0),
    (
        "42-subagents-before-fork/c0de002a-1111-4111-8111-0000000000a0/subagents/agent-a42b.jsonl",
        &[],
        0,
    ),
    ("42-subagents-before-fork/c0de002a-1111-4111-8111-0000000000f0.jsonl", &[], 0),
    (
        "46-nul-in-text/2026-03-02T09-00-00-000Z_019c1111-002e-7000-8000-00000000002e.jsonl",
        &["lone-surrogate@6"],
        0,
    ),
    ("48-queued-prompts/c0de0030-1111-4111-8111-000000000030.jsonl", &["unanswered-call@2"], 0),
    (
        "51-in-flight-turn/rollout-2026-03-02T09-00-00-019c0000-0033-7000-8000-000000000033.jsonl",
        &["unanswered-call@11"],
        0,
    ),
];

fn repair_case(name: &str) -> (Located, Repaired) {
    let session = session(&format!("cases/{name}"));
    let bytes = fs::read(&session.path).expect("it is in the corpus");
    let result = keeps_its_promises(&session, &bytes, name).expect("it reads");
    (session, result)
}

/// Covers: #1, #3, #5, #7, #9, #10, #11, #20, #23, #24, #26, #32, #34, #35, #36, #38, #39, #46, #48, #49, #54,
/// #111, #135, #147, G3, G14.
#[test]
fn each_case_is_repaired_by_these_changes() {
    let mut wrong = Vec::new();
    for (name, changes, aside) in ROWS {
        let (session, result) = repair_case(name);
        let mut expected: Vec<String> = changes.iter().map(|change| (*change).to_owned()).collect();
        let mut found = result.changes.clone();
        expected.sort();
        found.sort();
        if found != expected || result.aside.len() != *aside {
            wrong.push(format!("{name}: {:?}, {} aside", result.changes, result.aside.len()));
        }
        // A line that needs no change is there as its bytes.
        let before = fs::read(&session.path).expect("it is in the corpus");
        let changed: BTreeSet<usize> =
            changes.iter().filter_map(|change| change.split_once('@')?.1.parse().ok()).collect();
        let after: BTreeSet<&[u8]> = result.bytes.split(|&b| b == b'\n').collect();
        for (n, line) in before.split(|&b| b == b'\n').enumerate() {
            let is_repeat = changes.iter().any(|change| change.starts_with("repeated"));
            let is_sure = !changed.contains(&(n + 1))
                && !is_repeat
                && !changes.iter().any(|c| {
                    // What hangs on a call hangs on its result then, and results go with their calls' ids.
                    c.starts_with("unanswered") || c.starts_with("reused")
                });
            if is_sure && !after.contains(line) {
                wrong.push(format!("{name}: line {} changed", n + 1));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// No case is left out of the table.
#[test]
fn every_case_has_a_row() {
    let mut folders = vec!["cases".to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(corpus(&folder)).expect("a folder").filter_map(Result::ok) {
            let name = format!("{folder}/{}", entry.file_name().to_string_lossy());
            if entry.path().is_dir() {
                folders.push(name);
            } else if let Some(case) = name.strip_prefix("cases/").filter(|n| n.ends_with(".jsonl"))
            {
                assert!(ROWS.iter().any(|(row, ..)| *row == case), "{case} has no row");
            }
        }
    }
}

pub(crate) fn rows(bytes: &[u8]) -> Vec<Value> {
    let lines = bytes.split(|&b| b == b'\n').filter(|line| !line.trim_ascii().is_empty());
    lines.map(|line| serde_json::from_slice(line).expect("each line is JSON")).collect()
}

/// The rows that Claude Code walks, from the last to the first; none where it would stop early.
fn chain(rows: &[Value]) -> Vec<&Value> {
    let has_id = |row: &&Value| row["uuid"].is_string();
    let mut at = rows.iter().rfind(has_id);
    let mut chain = Vec::new();
    while let Some(row) = at {
        chain.push(row);
        assert!(chain.len() <= rows.len(), "it never ends");
        let Some(parent) = row["parentUuid"].as_str() else { break };
        at = rows.iter().find(|row| row["uuid"] == parent);
        assert!(at.is_some(), "{parent} is missing");
    }
    chain.reverse();
    chain
}

/// Covers: #1, #3, #5, #23, #34. What the agent itself loses, it has again.
#[test]
fn the_walk_along_parents_reaches_the_beginning() {
    let cases = [
        (0, vec!["FINAL-01"]),
        (1, vec!["SALVAGE-03", "LEAF-03"]),
        (2, vec!["AFTER-NUL-04", "LAST-04"]),
        (7, vec!["SUMMARY-12", "NEW-12a", "NEW-12b", "LEAF-12"]),
        (10, vec!["KEEP-17", "LEAF-17"]),
    ];
    for (row, texts) in cases {
        let (_, result) = repair_case(ROWS[row].0);
        let rows = rows(&result.bytes);
        let chain = chain(&rows);
        let all = Value::from(chain.into_iter().cloned().collect::<Vec<_>>()).to_string();
        for text in texts {
            assert!(all.contains(text), "{}: {text}", ROWS[row].0);
        }
    }
}

/// Covers: #32, #135. Each call is followed by its one result, and what came behind the call comes behind that.
#[test]
fn an_unanswered_call_gets_a_result_between_it_and_what_follows() {
    let (_, result) = repair_case("48-queued-prompts/c0de0030-1111-4111-8111-000000000030.jsonl");
    let rows = rows(&result.bytes);
    let chain = chain(&rows);
    let at =
        chain.iter().position(|row| row.to_string().contains("\"tool_use\"")).expect("the call");
    let answer = &chain[at + 1]["message"]["content"][0];
    assert_eq!(answer["tool_use_id"], "toolu_48");
    assert!(
        answer["content"].as_str().expect("a text").contains("outcome of this call is unknown")
    );
    assert!(chain[at + 2].to_string().contains("Q1-48"));
}

/// Two results of parallel calls, `one` before `two` in the file; what is put in goes by the order of the calls, and
/// every line that was there keeps its place beside the others.
///
/// Covers: #32, G14.
#[test]
fn a_result_that_is_put_in_comes_behind_those_of_earlier_calls() {
    let claude = session("foreign/claude/killed-parallel-one-done.jsonl");
    let codex = session("foreign/codex/multi-turn-tools.jsonl");
    let pi = session(&format!("cases/{}", ROWS[4].0));
    type Made = fn(&[&str]) -> String;
    let agents: [(&Located, Made); 3] = [(&claude, in_claude), (&codex, in_codex), (&pi, in_pi)];
    // What is there, and the order in the repaired file.
    let cases = [
        ("c1 c2 r1", "c1 c2 r1 r2", "c1 c2 r1 r2"),
        ("c1 c2 r2", "c1 r1 c2 r2", "c1 c2 r1 r2"),
        ("c1 c2 c3 r2", "c1 r1 c2 c3 r2 r3", "c1 c2 c3 r1 r2 r3"),
        ("c1 c2 c3 r3 r1", "c1 c2 c3 r3 r1 r2", "c1 c2 c3 r3 r1 r2"),
        ("c1 c2 c3 r1 say", "c1 c2 c3 r1 r2 r3 say", "c1 c2 c3 r1 r2 r3 say"),
    ];
    for (before, of_claude, of_others) in cases {
        for (located, made) in agents {
            let text = made(&before.split(' ').collect::<Vec<_>>());
            let what = format!("{}: {before}", located.agent);
            let result = keeps_its_promises(located, text.as_bytes(), &what).expect("it reads");
            let rows = rows(&result.bytes);
            // pi's calls stand in one entry.
            let is_told = |word: &&str| located.agent != Agent::Pi || !word.starts_with('c');
            let order: Vec<&str> = rows.iter().filter_map(told).filter(is_told).collect();
            let in_turn = |order: &str| -> Vec<String> {
                order.split(' ').filter(is_told).map(str::to_owned).collect()
            };
            let expected = match located.agent {
                Agent::Claude => in_turn(of_claude),
                // In pi's tree each result hangs on the one before it: what is put in comes last.
                Agent::Pi => {
                    let mut expected = in_turn(before);
                    let end = expected.iter().rposition(|t| t.starts_with('r')).expect("one") + 1;
                    let put_in = in_turn(of_others).into_iter().filter(|t| !expected.contains(t));
                    let put_in: Vec<String> = put_in.collect();
                    expected.splice(end..end, put_in);
                    expected
                }
                _ => in_turn(of_others),
            };
            assert_eq!(order, expected, "{what}");
            let lines: Vec<&[u8]> = result.bytes.split(|&b| b == b'\n').collect();
            let kept = text.lines().filter(|line| lines.contains(&line.as_bytes())).count();
            assert!(kept + 1 >= text.lines().count(), "{what}: {kept} lines are as they were");
        }
    }
}

/// What a row says: a call, a result, or words.
fn told(row: &Value) -> Option<&'static str> {
    const WORDS: [&str; 7] = ["c1", "c2", "c3", "r1", "r2", "r3", "say"];
    let text = row.to_string();
    let is_result = ["\"tool_result\"", "function_call_output", "\"toolResult\""];
    let is_result = is_result.iter().any(|mark| text.contains(mark));
    let is_call = ["\"tool_use\"", "\"function_call\"", "\"toolCall\""];
    let is_call = !is_result && is_call.iter().any(|mark| text.contains(mark));
    let number = ["call_1", "call_2", "call_3"].iter().position(|id| text.contains(id));
    match number {
        Some(n) if is_call => Some(WORDS[n]),
        Some(n) if is_result => Some(WORDS[3 + n]),
        _ => text.contains("go on").then_some("say"),
    }
}

fn in_claude(told: &[&str]) -> String {
    let mut text = String::new();
    let mut last: Option<String> = None;
    for word in ["ask"].iter().chain(told) {
        let number = word.get(1..).unwrap_or_default();
        let (kind, content) = match word.get(..1) {
            Some("c") => (
                "assistant",
                json!([{"type": "tool_use", "id": format!("call_{number}"), "name": "Bash", "input": {}}]),
            ),
            Some("r") => (
                "user",
                json!([{"type": "tool_result", "tool_use_id": format!("call_{number}"), "content": "ok"}]),
            ),
            Some("a") => ("user", json!("run them")),
            _ => ("user", json!("go on")),
        };
        // Results hang on their calls.
        let parent = match kind {
            "user" if word.starts_with('r') => Some(id_of(&format!("c{number}"))),
            _ => last.clone(),
        };
        let id = id_of(word);
        let row = json!({"parentUuid": parent, "isSidechain": false, "type": kind, "uuid": id,
            "message": {"role": kind, "id": "msg_1", "model": "claude-opus-5-5", "content": content},
            "timestamp": "2026-03-02T10:00:00.000Z", "sessionId": "c0de0001-1111-4111-8111-0000000000d0",
            "cwd": "/srv/kiln", "version": "2.1.300"});
        text.push_str(&format!("{row}\n"));
        last = Some(id);
    }
    text
}

fn id_of(word: &str) -> String {
    let number: u32 = word.bytes().map(u32::from).fold(0, |sum, byte| sum * 256 + byte);
    format!("c0de0001-2222-4111-8111-0000{number:08x}")
}

fn in_codex(told: &[&str]) -> String {
    let line = |kind: &str, payload: Value| json!({"timestamp": "2026-03-02T09:00:00.000Z", "type": kind, "payload": payload});
    let said = |text: &str| json!({"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]});
    let mut lines = vec![
        line(
            "session_meta",
            json!({"id": "019c0000-0025-7000-8000-000000000025", "timestamp": "2026-03-02T09:00:00.000Z", "cwd": "/srv/kiln"}),
        ),
        line("response_item", said("run them")),
    ];
    for word in told {
        let id = format!("call_{}", word.get(1..).unwrap_or_default());
        lines.push(line("response_item", match word.get(..1) {
            Some("c") => json!({"type": "function_call", "name": "exec_command", "arguments": "{}", "call_id": id}),
            Some("r") => json!({"type": "function_call_output", "call_id": id, "output": "ok"}),
            _ => said("go on"),
        }));
    }
    lines.iter().map(|line| format!("{line}\n")).collect()
}

fn in_pi(told: &[&str]) -> String {
    let mut text =
        json!({"type": "session", "version": 3, "id": "019c1111-0025-7000-8000-000000000025",
        "timestamp": "2026-03-02T09:00:00.000Z", "cwd": "/srv/kiln"})
        .to_string();
    let calls: Vec<Value> = told.iter().filter(|word| word.starts_with('c')).map(|word| {
        json!({"type": "toolCall", "id": format!("call_{}", &word[1..]), "name": "bash", "arguments": {}})
    }).collect();
    let mut messages = vec![
        json!({"role": "user", "content": "run them"}),
        json!({"role": "assistant", "content": calls, "api": "anthropic-messages", "provider": "anthropic", "model": "m", "usage": {"input": 1}, "stopReason": "toolUse"}),
    ];
    for word in told.iter().filter(|word| !word.starts_with('c')) {
        messages.push(match word.get(..1) {
            Some("r") => json!({"role": "toolResult", "toolCallId": format!("call_{}", &word[1..]), "toolName": "bash", "content": [{"type": "text", "text": "ok"}], "isError": false}),
            _ => json!({"role": "user", "content": "go on"}),
        });
    }
    for (n, message) in messages.iter().enumerate() {
        let parent = n.checked_sub(1).map(|n| format!("{n:08x}"));
        let entry = json!({"type": "message", "id": format!("{n:08x}"), "parentId": parent, "timestamp": "2026-03-02T09:00:01.000Z", "message": message});
        text.push_str(&format!("\n{entry}"));
    }
    text + "\n"
}

/// Codex drops all of a message or an output in which one piece is of a kind that it does not know: what stands
/// beside it is sent again, and the piece as words.
///
/// Covers: #130, G14.
#[test]
fn what_stands_beside_a_piece_of_an_unknown_kind_is_sent_again() {
    let name = "37-unknown-variants/rollout-2026-03-02T09-00-00-019c0000-0025-7000-8000-000000000025.jsonl";
    let (located, result) = repair_case(name);
    let message = rows(&result.bytes).remove(6);
    let content = &message["payload"]["content"];
    assert_eq!(content[0], json!({"type": "output_text", "text": "kept"}));
    assert_eq!(content[1]["type"], "output_text");
    let words = content[1]["text"].as_str().expect("a text");
    assert!(
        words.ends_with("{\"type\":\"rule_mention\",\"rule\":{\"path\":\"old.md\"}})"),
        "{words}"
    );
    assert_eq!(message["payload"]["future_field"], 1);
    assert_eq!(message["z_unknown"], true);
    // Wherever pieces stand.
    let odd = json!({"type": "hologram", "blob": [1, 2.5]});
    let text = |kind: &str| json!({"type": kind, "text": "beside"});
    let cases = [
        (
            json!({"type": "message", "role": "user", "content": [text("input_text"), odd]}),
            "input_text",
        ),
        (
            json!({"type": "message", "role": "assistant", "content": [odd, text("output_text")]}),
            "output_text",
        ),
        (
            json!({"type": "custom_tool_call_output", "call_id": "c1", "output": [text("input_text"), odd]}),
            "input_text",
        ),
    ];
    let header = fs::read_to_string(&located.path).expect("it is in the corpus");
    let header = header.lines().next().expect("a line").to_owned();
    for (item, kind) in cases {
        for row in [
            json!({"timestamp": "2026-03-02T09:00:00.000Z", "type": "response_item", "payload": item}),
            json!({"timestamp": "2026-03-02T09:00:00.000Z", "type": "compacted", "payload": {"message": "m", "replacement_history": [item]}}),
        ] {
            let call = json!({"timestamp": "2026-03-02T09:00:00.000Z", "type": "response_item", "payload":
                {"type": "custom_tool_call", "name": "apply_patch", "input": "p", "call_id": "c1"}});
            let text = format!("{header}\n{call}\n{row}\n");
            let copy = Copy::of(&located, text.as_bytes());
            let result = repaired(&copy.session).unwrap_or_else(|e| panic!("{row}: {e}"));
            assert!(result.changes.contains(&"unknown-piece@3".to_owned()), "{:?}", result.changes);
            let after = String::from_utf8(result.bytes.clone()).expect("text");
            assert!(
                after.contains("beside") && !after.contains("{\"type\":\"hologram\""),
                "{after}"
            );
            let words = format!("{{\"type\":\"{kind}\",\"text\":\"(a piece of a kind");
            assert!(after.contains(&words), "{after}");
            let again = Copy::of(&located, &result.bytes);
            let again = repaired(&again.session).unwrap_or_else(|e| panic!("{row}: {e}"));
            assert!(!again.changes.iter().any(|c| c.starts_with("unknown-piece")), "{row}");
        }
    }
}

/// A piece whose kind was damaged is what it holds, as our reader has it.
///
/// Covers: G3, G14.
#[test]
fn a_piece_of_a_damaged_kind_is_what_it_holds() {
    let name = "37-unknown-variants/rollout-2026-03-02T09-00-00-019c0000-0025-7000-8000-000000000025.jsonl";
    let (located, _) = repair_case(name);
    let header = fs::read_to_string(&located.path).expect("it is in the corpus");
    let header = header.lines().next().expect("a line").to_owned();
    let picture = "data:image/png;base64,iVBORw0KGgo=";
    let cases = [
        (
            json!({"type": "input_t\u{FFFD}xt", "text": "words"}),
            json!({"type": "input_text", "text": "words"}),
        ),
        (
            json!({"type": "input_imag\u{FFFD}", "image_url": picture}),
            json!({"type": "input_image", "image_url": picture}),
        ),
    ];
    for (piece, expected) in cases {
        let row = json!({"timestamp": "2026-03-02T09:00:00.000Z", "type": "response_item", "payload":
            {"type": "message", "role": "user", "content": [piece]}});
        let before = Copy::of(&located, format!("{header}\n{row}\n").as_bytes());
        let result = repaired(&before.session).expect("it is repaired");
        assert_eq!(rows(&result.bytes)[1]["payload"]["content"][0], expected, "{row}");
        assert_eq!(Copy::of(&located, &result.bytes).context(), before.context(), "{row}");
    }
}

/// Covers: #36, #38, #39. pi is given one result for each call, under ids that no provider refuses.
#[test]
fn calls_and_results_pair_one_to_one() {
    for row in [11, 12] {
        let (_, result) = repair_case(ROWS[row].0);
        let (mut calls, mut results) = (Vec::new(), Vec::new());
        for row in rows(&result.bytes) {
            let message = &row["message"];
            let pieces = message["content"].as_array().into_iter().flatten();
            let ids = pieces.filter(|p| p["type"] == "toolCall").map(|p| p["id"].to_string());
            calls.extend(ids);
            if message["role"] == "toolResult" {
                results.push(message["toolCallId"].to_string());
            }
        }
        assert_eq!(calls, results, "{}", ROWS[row].0);
        assert_eq!(calls.iter().collect::<BTreeSet<_>>().len(), calls.len(), "{}", ROWS[row].0);
        assert!(!calls.contains(&"\"\"".to_owned()), "{}", ROWS[row].0);
    }
}

/// Covers: #12.
#[test]
fn cut_arrays_are_closed_behind_their_last_whole_element() {
    let folder = "cases/49-truncated-json-array/1772442000000";
    let rows = [
        ("api_conversation_history.json", 5, &["torn-array@1"][..]),
        ("ui_messages.json", 6, &["torn-array@1"][..]),
    ];
    let of_folder = rescue::files(&session(folder));
    assert_eq!(of_folder.len(), 2);
    for ((name, elements, changes), located) in rows.into_iter().zip(of_folder) {
        assert!(located.path.ends_with(name));
        let bytes = fs::read(&located.path).expect("it is in the corpus");
        let result = keeps_its_promises(&located, &bytes, name).expect("it reads");
        assert_eq!(result.changes, changes, "{name}");
        let array: Vec<Value> = serde_json::from_slice(&result.bytes).expect("an array");
        assert_eq!(array.len(), elements, "{name}");
        assert!(!result.aside.is_empty(), "{name}: what was lost is kept");
        // Cut anywhere, it is an array again, with every element before the cut.
        for end in 1..bytes.len() {
            let result =
                keeps_its_promises(&located, &bytes[..end], &format!("{name} cut at {end}"));
            let Some(result) = result else { continue };
            let array: Vec<Value> = serde_json::from_slice(&result.bytes).expect("an array");
            assert!(bytes.starts_with(&result.bytes[..result.bytes.len() - 1]) || array.is_empty());
        }
    }
}

/// Covers: #29. Case 44: long chains, and a record that is nested more deeply than parsers go.
#[test]
fn long_chains_and_deep_records_stay_as_they_are() {
    let mut text = String::from(
        "{\"type\":\"session\",\"version\":3,\"id\":\"019c1111-002c-7000-8000-00000000002c\",\"timestamp\":\"2026-03-02T09:00:00.000Z\",\"cwd\":\"/srv/x\"}\n",
    );
    let deep = format!("{}1{}", "{\"a\":".repeat(400), "}".repeat(400));
    let mut parent = "null".to_owned();
    for n in 0..5000_u32 {
        let message = match n {
            100 => format!(
                "{{\"role\":\"assistant\",\"content\":[{{\"type\":\"toolCall\",\"id\":\"d\",\"name\":\"deep\",\"arguments\":{deep}}}],\"usage\":{{}}}}"
            ),
            101 => "{\"role\":\"toolResult\",\"toolCallId\":\"d\",\"toolName\":\"deep\",\"content\":[{\"type\":\"text\",\"text\":\"ok\"}]}".to_owned(),
            _ => format!("{{\"role\":\"user\",\"content\":\"m{n}\"}}"),
        };
        text.push_str(&format!(
            "{{\"type\":\"message\",\"id\":\"{n:08x}\",\"parentId\":{parent},\"timestamp\":\"2026-03-02T09:00:01.000Z\",\"message\":{message}}}\n"
        ));
        parent = format!("\"{n:08x}\"");
    }
    let pi = session(&format!("cases/{}", ROWS[4].0));
    let result = keeps_its_promises(&pi, text.as_bytes(), "deep").expect("it reads");
    assert_eq!(result.changes, [""; 0]);
    // A lost line in it costs that line.
    let torn = text.replacen("\"id\":\"00000fa0\"", "\"id\":", 1);
    let result = keeps_its_promises(&pi, torn.as_bytes(), "deep and torn").expect("it reads");
    assert_eq!(result.changes, ["torn-line@4002", "missing-parent@4003"]);
}

/// Covers: #9, #96. Case 45: an image of megabytes between characters of three bytes.
#[test]
fn lines_of_megabytes_are_copied_as_their_bytes() {
    let image = "iVBORw0KGgo".repeat(400_000);
    let wide = "\u{2603}".repeat(100_001);
    let entry = |id: &str, parent: &str, message: &str| {
        format!(
            "{{\"type\":\"message\",\"id\":\"{id}\",\"parentId\":{parent},\"timestamp\":\"2026-03-02T09:00:01.000Z\",\"message\":{message}}}\n"
        )
    };
    let header = "{\"type\":\"session\",\"version\":3,\"id\":\"019c1111-002d-7000-8000-00000000002d\",\"timestamp\":\"2026-03-02T09:00:00.000Z\",\"cwd\":\"/srv/x\"}\n";
    let text = [
        header.to_owned(),
        entry("a0000001", "null", &format!("{{\"role\":\"user\",\"content\":\"{wide}\"}}")),
        entry("a0000002", "\"a0000001\"", &format!(
            "{{\"role\":\"user\",\"content\":[{{\"type\":\"image\",\"mimeType\":\"image/png\",\"data\":\"{image}\"}}]}}"
        )),
        entry("a0000003", "\"a0000002\"", "{\"role\":\"user\",\"content\":\"LEAF-45\"}"),
    ]
    .concat();
    let pi = session(&format!("cases/{}", ROWS[4].0));
    let copy = Copy::of(&pi, text.as_bytes());
    assert_eq!(repaired(&copy.session).expect("it reads").changes, [""; 0]);
    let torn = text.replacen("\"id\":\"a0000001\"", "\"id\":", 1);
    let copy = Copy::of(&pi, torn.as_bytes());
    let result = repaired(&copy.session).expect("it reads");
    assert_eq!(result.changes, ["torn-line@2", "missing-parent@3"]);
    assert!(memchr::memmem::find(&result.bytes, image.as_bytes()).is_some());
}

/// Covers: G14.
#[test]
fn databases_are_never_written() {
    for name in ["opencode/opencode.db", "goose/sessions.db", "crush/.crush/crush.db"] {
        let found = recognise(&corpus(&format!("foreign/{name}"))).expect("it is in the corpus");
        let refused = rescue::plan(&found);
        assert!(matches!(refused, Err(RescueError::Database { .. })), "{name}");
        assert!(!is_repaired(found.agent), "{name}");
    }
}

/// A header that is lost is put together again, where the rest of the file tells enough.
#[test]
fn lost_headers_are_put_together() {
    let codex = session("foreign/codex/multi-turn-tools.jsonl");
    let bytes = fs::read(&codex.path).expect("it is in the corpus");
    let end = memchr::memchr(b'\n', &bytes).expect("a line");
    for (session, rest) in [(&codex, &bytes[end / 2..]), (&codex, &bytes[end + 1..])] {
        let name = "rollout-2026-03-02T09-00-00-019c0000-0008-7000-8000-000000000008.jsonl";
        let named = Located { path: session.path.with_file_name(name), ..session.clone() };
        let result = keeps_its_promises(&named, rest, "codex").expect("it reads");
        assert!(result.changes.contains(&"missing-header".to_owned()), "{:?}", result.changes);
        let first = rows(&result.bytes).remove(0);
        assert_eq!(first["type"], "session_meta");
        assert_eq!(first["payload"]["id"], "019c0000-0008-7000-8000-000000000008");
        assert!(first["payload"]["cwd"].is_string());
    }
    let pi = session(&format!("cases/{}", ROWS[4].0));
    let bytes = fs::read(&pi.path).expect("it is in the corpus");
    let end = memchr::memchr(b'\n', &bytes).expect("a line");
    let result = keeps_its_promises(&pi, &bytes[end / 2..], "pi").expect("it reads");
    assert!(result.changes.contains(&"missing-header".to_owned()), "{:?}", result.changes);
    let first = rows(&result.bytes).remove(0);
    assert_eq!(first["id"], "019c1111-0007-7000-8000-000000000007");
    assert_eq!(first["cwd"], "/srv/kiln");
    let copy = Copy::of(&pi, &result.bytes);
    assert_eq!(
        View::active(&copy.session).expect("it reads").facts.cwd.as_deref(),
        Some("/srv/kiln")
    );
}

/// A byte in the name of one of the header's members costs that member, and not the session.
#[test]
fn headers_that_lost_a_member_are_headers_again() {
    let codex = session("foreign/codex/killed-mid-tool.jsonl");
    let text = fs::read_to_string(&codex.path).expect("it is in the corpus");
    let name = "rollout-2026-03-02T09-00-00-019c0000-0008-7000-8000-000000000008.jsonl";
    let named = Located { path: codex.path.with_file_name(name), ..codex };
    let members = [
        ("ordinal", Some("ordinals"), 0),
        ("type", Some("missing-header"), 0),
        ("payload", Some("missing-header"), 1),
        ("timestamp", None, 0),
    ];
    for (member, rule, aside) in members {
        let bent = text.replacen(&format!("\"{member}\":"), "\"b\u{e9}nt\":", 1);
        let result = keeps_its_promises(&named, bent.as_bytes(), member).expect("it reads");
        let found = ["missing-header", "ordinals"].into_iter().find(|rule| {
            result.changes.iter().any(|change| change.split('@').next() == Some(rule))
        });
        assert_eq!(found, rule, "{member}: {:?}", result.changes);
        let lines = rows(&result.bytes);
        assert_eq!(lines[0]["type"], "session_meta", "{member}");
        assert!(lines[0]["payload"]["cwd"].is_string(), "{member}");
        let numbers: Vec<u64> = lines.iter().filter_map(|line| line["ordinal"].as_u64()).collect();
        assert_eq!(numbers, (0..lines.len() as u64).collect::<Vec<_>>(), "{member}");
        let set_aside = result.aside.split(|&b| b == b'\n').filter(|line| !line.is_empty());
        assert_eq!(set_aside.count(), aside, "{member}");
    }
}

/// A copy in which some byte is another one is a copy, and is kept beside the result.
#[test]
fn a_damaged_copy_of_a_row_is_no_row_of_its_own() {
    let claude = session("foreign/claude/killed-mid-tool.jsonl");
    let text = fs::read_to_string(&claude.path).expect("it is in the corpus");
    let call = text.lines().find(|line| line.contains("\"tool_use\"")).expect("a call");
    let copy = call.replacen("\"service_tier\"", "\"servi\u{e9}_tier\"", 1);
    let bytes = text.replacen(call, &format!("{call}\n{copy}"), 1);
    let result = keeps_its_promises(&claude, bytes.as_bytes(), "copied").expect("it reads");
    let calls = result.changes.iter().filter(|change| change.starts_with("unanswered"));
    assert_eq!(calls.count(), 1, "{:?}", result.changes);
    assert!(result.changes.iter().any(|change| change.starts_with("repeated-record")));
    assert_eq!(String::from_utf8(result.aside).expect("UTF-8"), format!("{copy}\n"));
}

/// Covers: #38. A byte in the name of a call's id costs that name: the call gets an id, and its result stands alone.
#[test]
fn a_call_that_lost_its_id_gets_one() {
    let pi = session("foreign/pi/02-tool-calls.jsonl");
    let text = fs::read_to_string(&pi.path).expect("it is in the corpus");
    let bent = text.replacen("\"type\":\"toolCall\",\"id\":", "\"type\":\"toolCall\",\"d\":", 1);
    assert_ne!(bent, text);
    let result = keeps_its_promises(&pi, bent.as_bytes(), "lost").expect("it reads");
    for rule in ["reused-call-id", "unanswered-call", "orphan-result"] {
        assert!(result.changes.iter().any(|change| change.starts_with(rule)), "{rule}");
    }
}

/// The page holds the same table.
#[test]
fn the_page_names_every_rule_and_whose_sessions_it_is_for() {
    let page = corpus("../../docs/repair.md");
    let page = fs::read_to_string(page).expect("the page");
    for row in RULES {
        let line = page.lines().find(|line| line.starts_with(&format!("| `{}` |", row.code)));
        let line = line.unwrap_or_else(|| panic!("{} is not on the page", row.code));
        let agents: Vec<&str> =
            line.split('|').nth(2).expect("a column").trim().split(", ").collect();
        let expected: Vec<&str> = row.agents.iter().map(|agent| agent.id()).collect();
        assert_eq!(agents, expected, "{}", row.code);
    }
    let codes: BTreeSet<&str> = RULES.iter().map(|row| row.code).collect();
    assert_eq!(codes.len(), RULES.len());
    assert!(Agent::ALL.into_iter().any(|agent| !is_repaired(agent)));
}

/// What a plan does not tell stays byte for byte.
#[test]
fn lines_that_no_plan_tells_stay_byte_for_byte() {
    let mut followed = 0;
    let mut names: Vec<String> = ROWS.iter().map(|(name, ..)| format!("cases/{name}")).collect();
    for file in
        ["codex/killed-mid-tool-then-resumed.jsonl", "pi/09b-sigkill-mid-tool-resumed.jsonl"]
    {
        names.push(format!("foreign/{file}"));
    }
    for name in names {
        let session = session(&name);
        let plan = rescue::plan(&session).expect("it reads");
        let (mut bytes, mut aside) = (Vec::new(), Vec::new());
        plan.write(&mut bytes, &mut aside, None).expect("it is there");
        let kept: BTreeSet<&[u8]> = bytes.split(|&b| b == b'\n').collect();
        let told: BTreeSet<u64> = plan.changes.iter().filter_map(|change| change.line).collect();
        let lines = |out: bool| -> BTreeSet<u64> {
            let kinds = plan.follows.iter().filter(|f| !out || f.what.starts_with("left out"));
            kinds.flat_map(|f| &f.lines).flat_map(|(first, last)| *first..=*last).collect()
        };
        let (follows, told_out) = (lines(false), lines(true));
        let count: u64 = plan.follows.iter().map(|follow| follow.count).sum();
        assert_eq!(
            (count, told.intersection(&follows).count()),
            (follows.len() as u64, 0),
            "{name}"
        );
        let original = fs::read(&session.path).expect("it is in the corpus");
        for (line, number) in original.split(|&b| b == b'\n').zip(1..) {
            let line = line.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(line);
            let is_told = told.contains(&number) || follows.contains(&number);
            assert!(is_told || kept.contains(line), "{name}: line {number}");
            // And nothing is told that is not so.
            let is_left_out = told_out.contains(&number);
            let is_same = kept.contains(line) && !is_left_out;
            assert!(!follows.contains(&number) || !is_same, "{name}: line {number}");
        }
        followed += follows.len();
    }
    assert!(followed > 11, "{followed}");
}
