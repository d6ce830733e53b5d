//! Calls of Gemini CLI's replies that have no result, in lines and in the older document.

use crate::bench::{keeps_its_promises, session};
use segno_store::foreign::{Located, recognise};
use serde_json::Value;
use std::fs;

const HEADER: &str = r#"{"sessionId":"019c2222-0001-7000-8000-000000000001","projectHash":"ab","startTime":"2026-03-02T09:00:00.000Z","lastUpdated":"2026-03-02T09:00:00.000Z","kind":"main"}"#;
const ASK: &str = r#"{"id":"m1","timestamp":"2026-03-02T09:00:01.000Z","type":"user","content":[{"text":"ASK-G"}]}"#;
const AFTER: &str = r#"{"id":"m3","timestamp":"2026-03-02T09:00:03.000Z","type":"user","content":[{"text":"AFTER-G"}]}"#;

/// A reply with calls, each given by its members behind id and name.
fn reply(calls: &[&str]) -> String {
    let call = |(n, rest): (usize, &&str)| {
        format!(r#"{{"id":"g{n}","name":"run_shell_command","args":{{"command":"ls"}}{rest}}}"#)
    };
    let calls: Vec<String> = calls.iter().enumerate().map(call).collect();
    format!(
        r#"{{"id":"m2","timestamp":"2026-03-02T09:00:02.000Z","type":"gemini","content":"I run it.","model":"gemini-2.5-pro","toolCalls":[{}]}}"#,
        calls.join(",")
    )
}

const DONE: &str = r#","status":"success","result":[{"functionResponse":{"id":"g0","name":"run_shell_command","response":{"output":"OUT-G"}}}]"#;

fn lines(rows: &[&str]) -> Vec<u8> {
    [HEADER].iter().chain(rows).flat_map(|row| [row.as_bytes(), b"\n"].concat()).collect()
}

fn document(messages: &[&str]) -> Vec<u8> {
    let head = HEADER.strip_suffix('}').expect("an object");
    format!("{head},\n  \"messages\": [\n    {}\n  ]\n}}", messages.join(",\n    ")).into_bytes()
}

fn named(name: &str) -> Located {
    let like = session("foreign/gemini/multi-turn-tools.jsonl");
    Located { path: like.path.with_file_name(name), ..like }
}

/// The calls in a repaired file: what is told of each.
fn told(bytes: &[u8]) -> Vec<String> {
    let mut told = Vec::new();
    let mut gather = |message: &Value| {
        for call in message["toolCalls"].as_array().into_iter().flatten() {
            let response = &call["result"][0]["functionResponse"];
            assert_eq!(response["id"], call["id"], "{call}");
            told.push(format!(
                "{} {}",
                call["status"].as_str().unwrap_or("-"),
                response["response"]
            ));
        }
    };
    for value in serde_json::Deserializer::from_slice(bytes).into_iter::<Value>() {
        let value = value.expect("JSON");
        let lists = [&value["messages"], &value["$set"]["messages"]];
        lists.iter().filter_map(|list| list.as_array()).flatten().for_each(&mut gather);
        gather(&value);
    }
    told
}

/// Covers: #32, G6. Every shape in which a call may stand without a result; what has one stays.
#[test]
fn calls_without_results_get_one_that_says_so() {
    let unknown = "The outcome of this call is unknown";
    let shapes = [
        ("", "error {\"error\":\"The outcome"),
        (r#","result":null"#, "error {\"error\":\"The outcome"),
        (r#","status":"executing""#, "error {\"error\":\"The outcome"),
        (
            r#","status":"scheduled","result":null,"timestamp":"x""#,
            "error {\"error\":\"The outcome",
        ),
        (r#","status":"success""#, "success {\"output\":\"(no output)\"}"),
        (r#","status":"cancelled","result":null"#, "cancelled {\"error\":\"(no output)\"}"),
    ];
    for (shape, expected) in shapes {
        let reply = reply(&[DONE, shape]);
        let files = [
            ("session-2026-03-02T09-00-019c2222.jsonl", lines(&[ASK, &reply, AFTER])),
            ("session-2026-03-02T09-00-019c2222.jsonl", lines(&[ASK, &reply])),
            ("session-2026-03-02T09-00-019c2222.json", document(&[ASK, &reply, AFTER])),
            ("session-2026-03-02T09-00-019c2222.json", document(&[ASK, &reply])),
        ];
        for (name, bytes) in files {
            let shown = format!("{name} {shape}");
            let result = keeps_its_promises(&named(name), &bytes, &shown).expect("it reads");
            assert!(
                result.changes[0].starts_with("unanswered-call"),
                "{shown}: {:?}",
                result.changes
            );
            assert_eq!(result.changes.len(), 1, "{shown}: {:?}", result.changes);
            let told = told(&result.bytes);
            assert_eq!(told[0], "success {\"output\":\"OUT-G\"}", "{shown}");
            assert!(told[1].starts_with(expected), "{shown}: {told:?}");
            assert_eq!(told[1].contains(unknown), expected.contains("The outcome"), "{shown}");
            let text = String::from_utf8(result.bytes).expect("UTF-8");
            assert!(
                text.contains(ASK) && text.contains(HEADER.strip_suffix('}').unwrap()),
                "{shown}"
            );
            assert!(result.aside.is_empty(), "{shown}");
        }
    }
}

/// A reply is written again when its calls have finished, and again when a session is resumed: what is told there,
/// or on the person's side, counts for all of them.
#[test]
fn calls_that_are_answered_later_stay_as_they_are() {
    let open = reply(&[r#","status":"executing""#]);
    let done = reply(&[DONE]);
    let response = r#"{"id":"m9","timestamp":"2026-03-02T09:00:04.000Z","type":"user","content":[{"functionResponse":{"id":"g0","name":"run_shell_command","response":{"output":"OUT-G"}}}]}"#;
    let set = |messages: &[&str]| format!(r#"{{"$set":{{"messages":[{}]}}}}"#, messages.join(","));
    let again = set(&[ASK, &done]);
    for rows in [
        vec![ASK, open.as_str(), done.as_str(), AFTER],
        vec![ASK, open.as_str(), response, AFTER],
        vec![ASK, open.as_str(), again.as_str(), AFTER],
    ] {
        let bytes = lines(&rows);
        let shown = format!("{rows:?}");
        let name = "session-2026-03-02T09-00-019c2222.jsonl";
        let result = keeps_its_promises(&named(name), &bytes, &shown).expect("it reads");
        assert_eq!(result.changes, [""; 0], "{shown}");
        assert_eq!(result.bytes, bytes, "{shown}");
    }
    // Told nowhere: every copy of the reply gets it.
    let again = set(&[ASK, &open]);
    let bytes = lines(&[ASK, &open, &again, AFTER]);
    let name = "session-2026-03-02T09-00-019c2222.jsonl";
    let result = keeps_its_promises(&named(name), &bytes, "copies").expect("it reads");
    let told = told(&result.bytes);
    assert_eq!(told.len(), 2);
    assert!(told.iter().all(|told| told.contains("unknown")), "{told:?}");
}

/// Two appends on the first line are lines, not a document with something behind it.
#[test]
fn fused_first_lines_lose_nothing() {
    let reply = reply(&[DONE]);
    let fused = [HEADER, ASK, &reply, AFTER].concat();
    let folder = tempfile::tempdir().expect("a folder");
    for (n, end) in ["", "\n"].iter().enumerate() {
        let path = folder.path().join(format!("session-2026-03-02T09-0{n}-019c2222.jsonl"));
        fs::write(&path, format!("{fused}{end}")).expect("a file");
        let located = recognise(&path).expect("it is known");
        let bytes = fs::read(&path).expect("it is there");
        let result = keeps_its_promises(&located, &bytes, "fused").expect("it reads");
        assert!(result.changes.contains(&"fused-line@1".to_owned()), "{:?}", result.changes);
        assert!(result.aside.is_empty());
        assert_eq!(result.bytes, lines(&[ASK, &reply, AFTER]));
    }
}
