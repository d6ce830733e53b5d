//! pi's results that do not stand right behind the reply that made their call: pi sends them where they stand.

use crate::bench::{Copy, keeps_its_promises, repaired, session};
use crate::pi_sends;
use segno_store::foreign::View;
use serde_json::{Value, json};

const FIXTURE: &str = "foreign/pi/02-tool-calls.jsonl";

fn header() -> Value {
    json!({"type": "session", "version": 3, "id": "019c1111-0025-7000-8000-000000000025",
        "timestamp": "2026-03-02T09:00:00.000Z", "cwd": "/srv/kiln"})
}

/// An entry from `ID PARENT KIND REST`; of the kinds `say`, `reply`, `calls`, `broke` (a reply that broke off, with
/// calls), `result` (of a call, and what it says), and what pi does not send.
fn row(told: &str) -> Value {
    let mut words = told.split(' ');
    let mut next = || words.next().expect("a word");
    let (id, parent, kind) = (next(), next(), next());
    let rest: Vec<&str> = words.collect();
    let text = |text: &str| json!([{"type": "text", "text": text}]);
    let call = |id: &&str| json!({"type": "toolCall", "id": id, "name": "bash", "arguments": {}});
    let calls = || rest.iter().map(call).collect::<Value>();
    let reply = |content: Value, stop: &str| {
        json!({"role": "assistant", "content": content, "api": "openai-completions", "provider": "openai", "model": "m",
            "usage": {"input": 1}, "stopReason": stop})
    };
    let first = || rest.first().copied().unwrap_or_default();
    let message = match kind {
        "say" => json!({"role": "user", "content": rest.join(" ")}),
        "reply" => reply(text(&rest.join(" ")), "stop"),
        "calls" => reply(calls(), "toolUse"),
        "broke" => reply(calls(), "aborted"),
        "failed" => reply(text("failed"), "error"),
        "result" => json!({"role": "toolResult", "toolCallId": first(), "toolName": "bash",
            "content": text(&rest[1..].join(" ")), "isError": false}),
        "hidden" => {
            json!({"role": "bashExecution", "command": "ls", "output": "x", "excludeFromContext": true})
        }
        "system" => json!({"role": "system", "content": "s"}),
        _ => Value::Null,
    };
    let mut row = match kind {
        "label" => json!({"type": "label", "targetId": first(), "label": "l"}),
        "named" => json!({"type": "session_info", "name": first()}),
        "model" => json!({"type": "model_change", "provider": "p", "modelId": "m"}),
        "omit" => json!({"type": "context_edit", "targetId": first(), "replacement": null}),
        "sums" => {
            json!({"type": "compaction", "summary": "S", "firstKeptEntryId": first(), "tokensBefore": 1})
        }
        _ => json!({"type": "message", "message": message}),
    };
    row["id"] = json!(id);
    row["parentId"] = if parent == "-" { Value::Null } else { json!(parent) };
    row["timestamp"] = json!("2026-03-02T09:00:01.000Z");
    row
}

fn file(rows: &[&str]) -> String {
    let rows = std::iter::once(header()).chain(rows.iter().map(|told| row(told)));
    rows.map(|row| format!("{row}\n")).collect()
}

/// What is there, what is changed, and what pi sends afterwards.
type Case<'c> = (&'c str, &'c [&'c str], &'c [&'c str], &'c [&'c str]);

/// Results that are not behind their call's reply, but on its branch.
const LATE: &[Case<'_>] = &[
    (
        "behind a prompt",
        &["p - say one", "a p calls c1", "q a say two", "r q result c1 late", "b r reply end"],
        &["out-of-order@5"],
        &["one", "call c1", "result c1: late", "two", "end"],
    ),
    (
        "behind a reply, and the last line",
        &["p - say one", "a p calls c1", "b a reply two", "r b result c1 late"],
        &["out-of-order@5"],
        &["one", "call c1", "result c1: late", "two"],
    ),
    (
        "the last line, behind another branch",
        &["p - say one", "a p calls c1", "q a say two", "x p reply other", "r q result c1 late"],
        &["out-of-order@6"],
        &["one", "call c1", "result c1: late", "two"],
    ),
    (
        "both of one reply",
        &[
            "p - say one",
            "a p calls c1 c2",
            "q a say two",
            "r q result c2 second",
            "s r result c1 first",
            "b s reply end",
        ],
        &["out-of-order@5", "out-of-order@6"],
        &["one", "call c1 | call c2", "result c2: second", "result c1: first", "two", "end"],
    ),
    (
        "one is in its place",
        &[
            "p - say one",
            "a p calls c1 c2",
            "r a result c1 first",
            "q r say two",
            "s q result c2 late",
            "b s reply end",
        ],
        &["out-of-order@6"],
        &["one", "call c1 | call c2", "result c1: first", "result c2: late", "two", "end"],
    ),
    (
        "behind a reply that broke off",
        &[
            "p - say one",
            "a p calls c1 c2",
            "r a result c1 first",
            "f r failed",
            "s f result c2 late",
            "q s say two",
        ],
        &["out-of-order@6"],
        &["one", "call c1 | call c2", "result c1: first", "result c2: late", "two"],
    ),
    (
        "another call has no result",
        &["p - say one", "a p calls c1 c2", "q a say two", "r q result c2 late", "b r reply end"],
        &["unanswered-call@3", "out-of-order@5"],
        &["one", "call c1 | call c2", "result c1: ?", "result c2: late", "two", "end"],
    ),
    (
        "of a reply behind which another one calls",
        &[
            "p - say one",
            "a p calls c1",
            "b a calls c2 c3",
            "r b result c1 late",
            "s r result c2 there",
            "q s say two",
        ],
        &["unanswered-call@6", "out-of-order@5"],
        &[
            "one",
            "call c1",
            "result c1: late",
            "call c2 | call c3",
            "result c2: there",
            "result c3: ?",
            "two",
        ],
    ),
    (
        "one within the other",
        &[
            "p - say one",
            "a p calls c1",
            "b a calls c2",
            "q b say two",
            "r q result c1 first",
            "s r result c2 second",
        ],
        &["out-of-order@6", "out-of-order@7"],
        &["one", "call c1", "result c1: first", "call c2", "result c2: second", "two"],
    ),
    (
        "a label hangs on it, and a name on that",
        &[
            "p - say one",
            "a p calls c1",
            "m a model",
            "q m say two",
            "r q result c1 late",
            "l r label r",
            "n l named kiln",
        ],
        &["out-of-order@6"],
        &["one", "call c1", "result c1: late", "two"],
    ),
    (
        "a name on another branch is the last line",
        &["p - say one", "a p calls c1", "q a say two", "r q result c1 late", "n p named kiln"],
        &["out-of-order@5", "stale-tip@6"],
        &["one", "call c1", "result c1: late", "two"],
    ),
    (
        "two branches go on behind it",
        &[
            "p - say one",
            "a p calls c1",
            "q a say two",
            "r q result c1 late",
            "b r reply other",
            "d r reply end",
        ],
        &["out-of-order@5"],
        &["one", "call c1", "result c1: late", "two", "end"],
    ),
    (
        "a summary keeps what follows it",
        &[
            "p - say one",
            "a p calls c1",
            "q a say two",
            "r q result c1 late",
            "b r reply three",
            "s b sums r",
            "d s reply end",
        ],
        &["out-of-order@5"],
        &["notice", "three", "end"],
    ),
    (
        "a summary keeps it, and not its call",
        &[
            "p - say one",
            "a p calls c1 c2",
            "r a result c1 first",
            "s r result c2 second",
            "b s reply two",
            "k b sums r",
            "d k reply end",
        ],
        &["lost-kept@7"],
        &["notice", "two", "end"],
    ),
    (
        "its call is told by a summary",
        &[
            "p - say one",
            "a p calls c1",
            "q a say two",
            "s q sums q",
            "r s result c1 late",
            "d r reply end",
        ],
        &["out-of-order@6"],
        &["notice", "two", "end"],
    ),
    (
        "an edit leaves it out",
        &[
            "p - say one",
            "a p calls c1",
            "q a say two",
            "r q result c1 late",
            "e r omit r",
            "b e reply end",
        ],
        &["out-of-order@5"],
        &["one", "call c1", "result c1: No result provided", "two", "end"],
    ),
    (
        "what it goes before hangs on nothing that is there",
        &["p - say one", "a p calls c1", "q x say two", "r q result c1 late", "b r reply end"],
        &["missing-parent@4", "out-of-order@5"],
        &["one", "call c1", "result c1: late", "two", "end"],
    ),
    (
        "it hangs on nothing that is there",
        &["p - say one", "a p calls c1", "q a say two", "r x result c1 late", "b r reply end"],
        &["missing-parent@5", "out-of-order@5"],
        &["one", "call c1", "result c1: late", "two", "end"],
    ),
    (
        "what hangs on it hangs on nothing that is there",
        &["p - say one", "a p calls c1", "q a say two", "r q result c1 late", "b x reply end"],
        &["out-of-order@5", "missing-parent@6"],
        &["one", "call c1", "result c1: late", "two", "end"],
    ),
    (
        "its id was given before",
        &[
            "p - say one",
            "r p reply zero",
            "a r calls c1",
            "q a say two",
            "r q result c1 late",
            "b r reply end",
        ],
        &["reused-id@6", "out-of-order@6"],
        &["one", "zero", "call c1", "result c1: late", "two", "end"],
    ),
    (
        "its call's id was given before",
        &[
            "p - say one",
            "a p calls c1",
            "r a result c1 first",
            "b r calls c1",
            "q b say two",
            "s q result c1 late",
            "d s reply end",
        ],
        &["reused-call-id@5", "out-of-order@7"],
        &["one", "call c1", "result c1: first", "call c1_2", "result c1_2: late", "two", "end"],
    ),
    (
        "a later call of another branch has its id",
        &[
            "p - say one",
            "a p calls c1",
            "q a say two",
            "x p calls c1",
            "r q result c1 late",
            "b r reply end",
        ],
        &["reused-call-id@5", "out-of-order@6"],
        &["one", "call c1", "result c1: late", "two", "end"],
    ),
];

/// Results whose call is not sent with them.
const UNSENT: &[Case<'_>] = &[
    (
        "of a reply that broke off",
        &["p - say one", "a p broke c1", "r a result c1 out", "q r say two", "b q reply end"],
        &["orphan-result@4"],
        &["one", "two", "end"],
    ),
    (
        "two of a reply that broke off, the last lines",
        &["p - say one", "a p broke c1 c2", "r a result c1 out", "s r result c2 out"],
        &["orphan-result@4", "orphan-result@5"],
        &["one"],
    ),
    (
        "of another branch, beside its call",
        &["p - say one", "a p calls c1", "r p result c1 off", "b r reply end"],
        &["orphan-result@4"],
        &["one", "end"],
    ),
    (
        "of another branch, and the call is on this one",
        &["p - say one", "x p reply zero", "a p calls c1", "r x result c1 off", "b a say end"],
        &["unanswered-call@4", "orphan-result@5"],
        &["one", "call c1", "result c1: ?", "end"],
    ),
    (
        "and the call has a result on its own branch",
        &[
            "p - say one",
            "a p calls c1",
            "r p result c1 off",
            "s a result c1 there",
            "b s reply end",
        ],
        &["orphan-result@4"],
        &["one", "call c1", "result c1: there", "end"],
    ),
];

/// What pi itself makes sound: nothing is changed, and nothing told.
const SOUND: &[Case<'_>] = &[
    (
        "with nothing in between that is sent",
        &[
            "p - say one",
            "a p calls c1",
            "m a model",
            "h m hidden",
            "y h system",
            "l y label a",
            "r l result c1 there",
            "b r reply end",
        ],
        &[],
        &["one", "call c1", "result c1: there", "end"],
    ),
    (
        "on one of two branches behind the call",
        &["p - say one", "a p calls c1", "r a result c1 there", "b r reply end", "q a say two"],
        &[],
        &["one", "call c1", "result c1: No result provided", "two"],
    ),
    (
        "without a result in a reply that broke off",
        &["p - say one", "a p broke c1", "q a say two"],
        &[],
        &["one", "two"],
    ),
];

/// Covers: #26, #32, G6, G14.
#[test]
fn a_result_is_sent_right_behind_its_call_or_not_at_all() {
    for (what, rows, changes, sent) in LATE.iter().chain(UNSENT).chain(SOUND) {
        let text = file(rows);
        let result =
            keeps_its_promises(&session(FIXTURE), text.as_bytes(), what).expect("it reads");
        let mut told = result.changes.clone();
        let mut expected: Vec<String> = changes.iter().map(|change| (*change).to_owned()).collect();
        told.sort();
        expected.sort();
        assert_eq!(told, expected, "{what}");
        let now = pi_sends::sent(&result.bytes).expect("version 3");
        let now: Vec<String> = now.into_iter().map(shortened).collect();
        assert_eq!(now, *sent, "{what}");
        assert!(result.aside.is_empty(), "{what}");
        let (before, after) = (messages(text.as_bytes()), messages(&result.bytes));
        let is_there = |message: &&Value| after.contains(message);
        // An id may be another one.
        let kept = before.iter().filter(is_there).count();
        let renamed = changes.iter().filter(|change| change.starts_with("reused-call")).count();
        assert!(kept + 2 * renamed >= before.len(), "{what}: every message is there as it was");
    }
}

fn shortened(line: String) -> String {
    match line.split_once(": The outcome of this call is unknown") {
        Some((call, _)) => format!("{call}: ?"),
        None => line,
    }
}

/// The messages, also of rows that are not sent any more.
fn messages(bytes: &[u8]) -> Vec<Value> {
    let rows = bytes.split(|&b| b == b'\n').filter(|line| !line.is_empty());
    let rows = rows.map(|line| serde_json::from_slice::<Value>(line).expect("JSON"));
    let message = |row: Value| row.get("message").or(row.get("data")).cloned();
    rows.filter_map(message).collect()
}

/// But for what it hangs on, the line of a result that is moved is as it was, and so are all others but the one that
/// hangs on it now and those that hung on it.
#[test]
fn a_result_moves_as_its_bytes() {
    let text = file(&[
        "p - say one",
        "a p calls c1",
        "q a say two",
        "r q result c1 late",
        "b r reply three",
        "d b say four",
    ]);
    let result = repaired(&Copy::of(&session(FIXTURE), text.as_bytes()).session).expect("it reads");
    let after = String::from_utf8(result.bytes).expect("text");
    let before: Vec<&str> = text.lines().collect();
    let expected = [
        before[0].to_owned(),
        before[1].to_owned(),
        before[2].to_owned(),
        before[4].replace("\"parentId\":\"q\"", "\"parentId\":\"a\""),
        before[3].replace("\"parentId\":\"a\"", "\"parentId\":\"r\""),
        before[5].replace("\"parentId\":\"r\"", "\"parentId\":\"q\""),
        before[6].to_owned(),
    ];
    assert_eq!(after.lines().collect::<Vec<_>>(), expected);
}

/// Several records on one line, in any way.
///
/// Covers: #5, G4.
#[test]
fn a_late_result_on_one_line_with_others_is_moved() {
    // Which of two calls with one id on one line is meant nobody can tell.
    let is_clear =
        |case: &&Case<'_>| !case.2.iter().any(|change| change.starts_with("reused-call"));
    for (what, rows, _, sent) in LATE.iter().chain(UNSENT).filter(is_clear) {
        let lines: Vec<String> = file(rows).lines().map(str::to_owned).collect();
        for at in 1..lines.len() {
            let mut fused = lines.clone();
            let line = fused.remove(at);
            fused[at - 1].push_str(&line);
            let shown = format!("{what}, lines {at} and {} fused", at + 1);
            let text = fused.join("\n") + "\n";
            let result = keeps_its_promises(&session(FIXTURE), text.as_bytes(), &shown);
            let now = pi_sends::sent(&result.expect("it reads").bytes).unwrap_or_default();
            let now: Vec<String> = now.into_iter().map(shortened).collect();
            assert_eq!(now, *sent, "{shown}");
        }
    }
}

/// Covers: G2, G3, G4. Whatever of it is lost, doubled or stands elsewhere.
#[test]
fn damaged_files_with_late_results_are_repaired() {
    for (what, rows, ..) in LATE.iter().chain(UNSENT).chain(SOUND) {
        let lines: Vec<String> = file(rows).lines().map(str::to_owned).collect();
        for at in 0..lines.len() {
            let (mut lost, mut doubled, mut torn) = (lines.clone(), lines.clone(), lines.clone());
            lost.remove(at);
            doubled.insert(at, lines[at].clone());
            torn[at].truncate(lines[at].len() / 2);
            let mut swapped = lines.clone();
            swapped.swap(at, (at + 1) % lines.len());
            for (how, bent) in
                [("lost", lost), ("twice", doubled), ("torn", torn), ("swapped", swapped)]
            {
                let text = bent.join("\n") + "\n";
                let shown = format!("{what}, line {} {how}:\n{text}", at + 1);
                if how == "swapped" {
                    crate::bench::loses_nothing(&session(FIXTURE), text.as_bytes(), &shown);
                } else {
                    keeps_its_promises(&session(FIXTURE), text.as_bytes(), &shown);
                }
            }
        }
    }
}

/// Version 1 has no ids: one entry follows the other.
#[test]
fn a_late_result_of_the_first_version_is_moved() {
    let strip = |told: &str| {
        let mut row = row(told);
        let row = row.as_object_mut().expect("an object");
        row.remove("id");
        row.remove("parentId");
        Value::Object(row.clone())
    };
    let mut first = header();
    first.as_object_mut().expect("an object").remove("version");
    let rows =
        ["- - say one", "- - calls c1", "- - say two", "- - result c1 late", "- - reply end"];
    let lines: Vec<String> = std::iter::once(first.to_string())
        .chain(rows.iter().map(|told| strip(told).to_string()))
        .collect();
    let text = lines.join("\n") + "\n";
    let fixture = session("foreign/pi/20-v1-pi-0.30.2.jsonl");
    let result = keeps_its_promises(&fixture, text.as_bytes(), "version 1").expect("it reads");
    assert_eq!(result.changes, ["out-of-order@5"]);
    let moved = [0, 1, 2, 4, 3, 5].map(|at| lines[at].as_str());
    assert_eq!(String::from_utf8(result.bytes).expect("text").lines().collect::<Vec<_>>(), moved);
    for at in 2..lines.len() {
        let mut fused = lines.clone();
        let line = fused.remove(at);
        fused[at - 1].push_str(&line);
        let text = fused.join("\n") + "\n";
        let shown = format!("version 1, lines {at} and {} fused", at + 1);
        let result = keeps_its_promises(&fixture, text.as_bytes(), &shown).expect("it reads");
        let text = String::from_utf8(result.bytes).expect("text");
        assert_eq!(text.lines().collect::<Vec<_>>(), moved, "{shown}");
    }
}

/// What is told, and that our own view pairs or leaves out the same without a repair.
#[test]
fn the_reader_tells_each_of_them() {
    for (what, rows, changes, _) in LATE.iter().chain(UNSENT).chain(SOUND) {
        let copy = Copy::of(&session(FIXTURE), file(rows).as_bytes());
        let view = View::transcript(&copy.session).expect("it reads");
        let of = |code: &str| {
            let found = view.findings.iter().filter(|found| found.code == code);
            let found = found.map(|found| format!("{code}@{}", found.line.unwrap_or_default()));
            found.collect::<Vec<_>>()
        };
        for code in ["out-of-order", "orphan-result"] {
            let expected: Vec<&str> =
                changes.iter().copied().filter(|change| change.starts_with(code)).collect();
            assert_eq!(of(code), expected, "{what}");
        }
        let has_broken = rows.iter().any(|row| row.contains(" broke "));
        let has_result = rows.iter().any(|row| row.contains(" result "));
        if has_broken && has_result {
            assert_eq!(of("interrupted-call"), [""; 0], "{what}: its calls have results");
        }
    }
}
