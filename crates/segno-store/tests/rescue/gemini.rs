//! Gemini CLI's sessions, in lines and in the older document: what it sends of them after a repair.

use crate::bench::{keeps_its_promises, session};
use crate::gemini_sends::sent;
use segno_store::foreign::{Located, recognise};
use serde_json::Value;
use std::collections::BTreeSet;
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

const LINES: &str = "session-2026-03-02T09-00-019c2222.jsonl";
const DOCUMENT: &str = "session-2026-03-02T09-00-019c2222.json";

fn answer(id: &str, call: &str, said: &str) -> String {
    let response = response(call, said);
    format!(
        r#"{{"id":"{id}","timestamp":"2026-03-02T09:00:02.500Z","type":"user","content":[{response}]}}"#
    )
}

fn response(call: &str, said: &str) -> String {
    format!(
        r#"{{"functionResponse":{{"id":"{call}","name":"run_shell_command","response":{{"output":"{said}"}}}}}}"#
    )
}

fn done(responses: &[&str]) -> String {
    format!(r#","status":"success","result":[{}]"#, responses.join(","))
}

/// Repairs messages as lines and as a document: what is changed, and what Gemini CLI sends then.
fn both(messages: &[&str], shown: &str) -> Vec<(Vec<String>, Vec<String>, Vec<u8>)> {
    let files = [(LINES, lines(messages)), (DOCUMENT, document(messages))];
    let repair = |(name, bytes): (&str, Vec<u8>)| {
        let shown = format!("{name} {shown}");
        let result = keeps_its_promises(&named(name), &bytes, &shown).expect("it reads");
        let changes =
            result.changes.iter().map(|c| c.split('@').next().unwrap_or_default().to_owned());
        (changes.collect(), sent(&result.bytes).expect("it is found"), result.aside)
    };
    files.into_iter().map(repair).collect()
}

/// Covers: #36, #38. Gemini CLI writes each result with its call and as a message, and again when it resumes, and sends
/// all of them: each call gets one, and a result without a call is not sent.
#[test]
fn each_call_is_sent_one_result_and_no_result_without_a_call() {
    let (out, other) = (response("g0", "OUT-G"), response("g1", "OUT-H"));
    let all = done(&[&out, &other]);
    let one = reply(&[DONE]);
    let two = reply(&[&all, &all]);
    let bare = reply(&[r#","status":"success","result":[]"#]);
    let text = reply(&[r#","status":"success","result":"OUT-G""#]);
    let (echo, later) = (answer("m4", "g0", "OUT-G"), answer("m5", "g0", "OUT-G"));
    let mixed = echo.replacen("]}", r#",{"text":"BESIDE"}]}"#, 1);
    let changed = answer("m4", "g0", "CUT-G");
    let g0 = "user result g0 {\"output\":\"OUT-G\"}";
    let g1 = "user result g1 {\"output\":\"OUT-H\"}";
    let cut = "user result g0 {\"output\":\"CUT-G\"}";
    let called = ["user ASK-G", "model I run it.", "model call g0"];
    type Row<'a> = (&'a str, Vec<&'a str>, Vec<&'a str>, Vec<&'a str>, bool);
    let rows: [Row<'_>; 9] = [
        ("as it writes it", vec![ASK, &one, &echo, AFTER], vec!["second-result"], vec![g0], false),
        (
            "resumed",
            vec![ASK, &one, &echo, &later, AFTER],
            vec!["second-result"; 2],
            vec![g0],
            false,
        ),
        (
            "all in each",
            vec![ASK, &two, AFTER],
            vec!["second-result"],
            vec!["model call g1", g0, g1],
            false,
        ),
        (
            "beside text",
            vec![ASK, &one, &mixed],
            vec!["second-result"],
            vec![g0, "user BESIDE"],
            false,
        ),
        ("changed since", vec![ASK, &one, &changed], vec!["second-result"], vec![cut], true),
        ("as a message alone", vec![ASK, &bare, &echo], vec![], vec![g0], false),
        ("as a text", vec![ASK, &text, &echo], vec!["second-result"], vec![g0], false),
        ("no call", vec![ASK, &echo, AFTER], vec!["orphan-result"], vec![], false),
        (
            "no call, text",
            vec![ASK, &mixed, AFTER],
            vec!["orphan-result"],
            vec!["user BESIDE"],
            true,
        ),
    ];
    for (shown, messages, rules, expected, is_set_aside) in rows {
        for (changes, sent, aside) in both(&messages, shown) {
            assert_eq!(
                changes.iter().map(String::as_str).collect::<BTreeSet<_>>(),
                rules.iter().copied().collect(),
                "{shown}"
            );
            let has_call = messages.iter().any(|message| message.contains("toolCalls"));
            let start = if has_call { &called[..] } else { &called[..1] };
            let end = messages.contains(&AFTER).then_some("user AFTER-G");
            let expected: Vec<&str> =
                start.iter().copied().chain(expected.iter().copied()).chain(end).collect();
            assert_eq!(sent, expected, "{shown}");
            assert_eq!(aside.is_empty(), !is_set_aside, "{shown}");
        }
    }
}

/// Covers: G14. What another history took the place of is sent to nobody, and stays.
#[test]
fn only_what_is_sent_is_changed() {
    let (one, echo) = (reply(&[DONE]), answer("m4", "g0", "OUT-G"));
    let set = format!(r#"{{"$set":{{"messages":[{ASK},{one}]}}}}"#);
    let bytes = lines(&[ASK, &one, &echo, &set, AFTER]);
    let result = keeps_its_promises(&named(LINES), &bytes, "replaced").expect("it reads");
    assert_eq!(result.changes, [""; 0]);
    // The fixture was resumed twice: only its last history and what follows are sent.
    let fixture = session("foreign/gemini/multi-turn-tools.jsonl");
    let bytes = fs::read(&fixture.path).expect("it is in the corpus");
    let result = keeps_its_promises(&fixture, &bytes, "resumed").expect("it reads");
    assert_eq!(result.changes, ["second-result@26"]);
    let before = sent(&bytes).expect("it is found");
    let mut once: Vec<String> = Vec::new();
    for line in &before {
        if !line.starts_with("user result") || !once.contains(line) {
            once.push(line.clone());
        }
    }
    assert_eq!(before.len() - once.len(), 7);
    assert_eq!(sent(&result.bytes).expect("it is found"), once);
    assert!(result.aside.is_empty());
}

/// Parts of a message that have a form which is never written: Gemini CLI dies of them, leaves the message out, or sends
/// what the provider refuses.
#[test]
fn odd_parts_of_messages_get_a_form_that_can_be_sent() {
    let ask = |content: &str| ASK.replace(r#"[{"text":"ASK-G"}]"#, content);
    let say = |content: &str| reply(&[DONE]).replace(r#""I run it.""#, content);
    let calls = |calls: &str| {
        reply(&[DONE]).replace(r#""toolCalls":["#, &format!(r#""toolCalls":[{calls}"#))
    };
    let result = |result: &str| reply(&[&format!(r#","status":"success","result":{result}"#)]);
    let stands = "user (a piece of a kind that is not known here:";
    let g0 = "user result g0";
    let rows = [
        ("a null in content", ask(r#"[null,{"text":"ASK-G"}]"#), "odd-field", "user ASK-G"),
        ("a number in content", ask(r#"[{"text":"ASK-G"},5]"#), "odd-field", "user ASK-G"),
        ("an unknown piece", ask(r#"[{"text":"ASK-G"},{"odd":1}]"#), "unknown-piece", stands),
        ("a text that is a number", ask(r#"[{"text":5}]"#), "unknown-piece", stands),
        ("a piece alone", ask(r#"{"text":5}"#), "unknown-piece", stands),
        ("a number as a reply", say("5"), "odd-field", "model call g0"),
        ("an empty text", say(r#"[{"text":""}]"#), "empty-text", "model call g0"),
        ("empty texts", say(r#"[{"text":""},{"text":"X"},{"text":""}]"#), "empty-text", "model X"),
        ("a null among calls", calls("null,"), "odd-field", "model call g0"),
        ("thoughts that are none", say(r#""X","thoughts":[7,null]"#), "odd-field", "model X"),
        ("thoughts as a text", say(r#""X","thoughts":"deep""#), "odd-field", "model X"),
        (
            "a result that is a text",
            result(
                r#"[{"functionResponse":{"id":"g0","name":"run_shell_command","response":"OUT"}}]"#,
            ),
            "odd-field",
            g0,
        ),
        (
            "a result that says nothing",
            result(r#"[{"functionResponse":{"id":"g0","name":"run_shell_command"}}]"#),
            "odd-field",
            g0,
        ),
        (
            "a result without its call's id",
            result(
                r#"[{"functionResponse":{"name":"run_shell_command","response":{"output":"OUT"}}}]"#,
            ),
            "odd-field",
            g0,
        ),
        ("texts in place of a result", result(r#"["OUT"]"#), "unanswered-call", g0),
    ];
    for (shown, message, rule, expected) in rows {
        let messages =
            if message.contains("\"gemini\"") { [ASK, &message] } else { [&message, AFTER] };
        for (changes, sent, _) in both(&messages, shown) {
            assert_eq!(
                changes.iter().collect::<BTreeSet<_>>(),
                BTreeSet::from([&rule.to_owned()]),
                "{shown}"
            );
            assert!(sent.iter().any(|line| line.starts_with(expected)), "{shown}: {sent:?}");
            assert!(!sent.iter().any(|line| line.contains("REFUSED")), "{shown}: {sent:?}");
            let calls = sent.iter().filter(|line| line.starts_with("model call")).count();
            let results = sent.iter().filter(|line| line.starts_with("user result")).count();
            assert_eq!(calls, results, "{shown}: {sent:?}");
        }
    }
}

/// Covers: #32. A call that stands in a reply's content alone gets its place among the calls, with a result.
#[test]
fn calls_within_the_words_get_a_result() {
    let call = r#"{"functionCall":{"id":"g0","name":"run_shell_command","args":{"command":"ls"}}}"#;
    for list in ["", r#","toolCalls":[]"#, r#","toolCalls":null"#] {
        let reply = format!(
            r#"{{"id":"m2","timestamp":"2026-03-02T09:00:02.000Z","type":"gemini","content":[{{"text":"I run it."}},{call}]{list}}}"#
        );
        for (changes, sent, _) in both(&[ASK, &reply, AFTER], list) {
            assert_eq!(changes, ["unanswered-call"], "{list}");
            assert_eq!(sent[2], "model call g0", "{list}");
            assert!(
                sent[3].starts_with("user result g0 {\"error\":\"The outcome"),
                "{list}: {sent:?}"
            );
            assert_eq!(sent.len(), 5, "{list}");
        }
    }
}

/// Lines that take everything back: what the process was killed in while it resumed, and a way back to a message that
/// was lost. Once the history is written again, nothing is lost by them.
#[test]
fn lines_that_take_everything_back_are_set_aside() {
    let context = r#"{"id":"s0","timestamp":"2026-03-02T09:00:04.000Z","type":"user","content":[{"text":"<session_context>\nThis is the Gemini CLI."}]}"#;
    let emptied = format!(r#"{{"$set":{{"messages":[{context}]}}}}"#);
    let again = format!(r#"{{"$set":{{"messages":[{context},{ASK}]}}}}"#);
    let lost = r#"{"$rewindTo":"m0"}"#;
    let back = r#"{"$rewindTo":"m3"}"#;
    let rows = [
        (vec![&*emptied, ASK, AFTER], vec![], "user AFTER-G"),
        (vec![ASK, &emptied], vec!["lost-history@3"], "user ASK-G"),
        (vec![ASK, &emptied, AFTER], vec!["lost-history@3"], "user ASK-G"),
        (vec![ASK, &emptied, &again, AFTER], vec![], "user ASK-G"),
        (vec![ASK, lost, AFTER], vec!["lost-history@3"], "user ASK-G"),
        (vec![ASK, lost, &again], vec!["lost-history@3"], "user ASK-G"),
        (vec![lost, ASK], vec!["lost-history@2"], "user ASK-G"),
        (vec![ASK, AFTER, back], vec![], "user ASK-G"),
    ];
    for (rows, changes, expected) in rows {
        let bytes = lines(&rows);
        let shown = format!("{rows:?}");
        let result = keeps_its_promises(&named(LINES), &bytes, &shown).expect("it reads");
        assert_eq!(result.changes, changes, "{shown}");
        let sent = sent(&result.bytes).expect("it is found");
        assert!(sent.contains(&expected.to_owned()), "{shown}: {sent:?}");
        assert_eq!(
            sent.contains(&"user AFTER-G".to_owned()),
            rows.contains(&AFTER) && !rows.contains(&back),
            "{shown}"
        );
        assert_eq!(result.aside.is_empty(), changes.is_empty(), "{shown}");
    }
}

/// Without the line that says what it is, Gemini CLI does not find a session; it is put together.
#[test]
fn sessions_without_their_first_line_are_found_again() {
    let whole = lines(&[ASK, AFTER]);
    let header = HEADER.len() + 1;
    let bent = [HEADER.replace("sessionId", "session"), HEADER.replace("projectHash", "project")];
    let bent =
        bent.iter().map(|header| [header.as_bytes(), b"\n", &whole[HEADER.len() + 1..]].concat());
    let cut = (1..header).step_by(7).map(|at| whole[at..].to_vec());
    for bytes in cut.chain([whole[header..].to_vec()]).chain(bent) {
        let shown = String::from_utf8_lossy(&bytes).into_owned();
        assert_eq!(sent(&bytes), None, "{shown}");
        let result = keeps_its_promises(&named(LINES), &bytes, &shown).expect("it reads");
        assert!(
            result.changes.contains(&"missing-header".to_owned()),
            "{shown}: {:?}",
            result.changes
        );
        assert_eq!(
            sent(&result.bytes).expect("it is found"),
            ["user ASK-G", "user AFTER-G"],
            "{shown}"
        );
        let first: Value =
            serde_json::from_slice(result.bytes.split(|&b| b == b'\n').next().expect("a line"))
                .expect("JSON");
        let id = first["sessionId"].as_str().expect("an id");
        assert!(id.starts_with("019c2222") && id.len() == 36, "{shown}: {id}");
        assert_eq!(first["projectHash"].as_str().map(str::len), Some(64), "{shown}");
    }
}

/// Covers: G4. Whether a file holds lines or is one document is decided the same before and after a repair, whatever became
/// of its first line: cut, fused with the next one, or both, under any name.
#[test]
fn a_file_of_lines_is_one_whatever_became_of_its_first_line() {
    let (reply, echo) = (reply(&[DONE]), answer("m4", "g0", "OUT-G"));
    let set = format!(r#"{{"$set":{{"messages":[{ASK},{reply}]}}}}"#);
    let rest = [ASK, &reply, &echo, &set, AFTER];
    let heads = [HEADER.to_owned(), [HEADER, ASK].concat(), [HEADER, &reply, ASK].concat()];
    for (n, head) in heads.iter().enumerate() {
        let behind: String = rest.iter().map(|row| format!("{row}\n")).collect();
        for end in (1..=head.len()).step_by(9).chain([head.len()]) {
            let bytes = format!("{}\n{behind}", &head[..end]);
            for name in [LINES, DOCUMENT, "copy.txt"] {
                let shown = format!("{name}, head {n} cut at {end}");
                let Some(result) = keeps_its_promises(&named(name), bytes.as_bytes(), &shown)
                else {
                    panic!("{shown}: it does not read");
                };
                assert!(sent(&result.bytes).is_some_and(|sent| sent.len() == 5), "{shown}");
            }
        }
    }
}

/// A call of the content whose id or kind is lost is sent as the list of calls has it, where its result is.
#[test]
fn calls_of_the_content_that_lost_their_id_are_sent_with_it() {
    let call = |id: &str| {
        format!(
            r#"{{"functionCall":{{{id}"name":"run_shell_command","args":{{"command":"ls"}}}}}}"#
        )
    };
    let with_id = |n: usize| call(&format!("\"id\":\"g{n}\","));
    let cases = [
        ("both", vec![with_id(0), with_id(1)], 0),
        ("the second lacks its id", vec![with_id(0), call("")], 1),
        ("the first lacks its id", vec![call("\"x\":\"g0\","), with_id(1)], 1),
        ("none has one", vec![call(""), call("")], 2),
        (
            "one is no call any more",
            vec![with_id(0), r#"{"functionCal?":{"id":"g1"}}"#.to_owned()],
            2,
        ),
        ("one is not there", vec![with_id(1)], 1),
    ];
    let response = |n: usize| {
        format!(
            r#"{{"functionResponse":{{"id":"g{n}","name":"run_shell_command","response":{{"output":"OUT-{n}"}}}}}}"#
        )
    };
    let results = format!(
        r#"{{"id":"m4","timestamp":"2026-03-02T09:00:02.500Z","type":"user","content":[{},{}]}}"#,
        response(0),
        response(1)
    );
    let name = "session-2026-03-02T09-00-019c2222.jsonl";
    for (what, pieces, changes) in cases {
        let content = format!("\"content\":[{}]", pieces.join(","));
        let reply = reply(&[r#","status":"success""#, r#","status":"success""#]);
        let reply = reply.replace("\"content\":\"I run it.\"", &content);
        let bytes = lines(&[ASK, &reply, &results, AFTER]);
        let result = keeps_its_promises(&named(name), &bytes, what).expect("it reads");
        assert_eq!(result.changes.len(), changes, "{what}: {:?}", result.changes);
        let sent = sent(&result.bytes).expect("it is listed");
        for n in 0..2 {
            let of = |side: &str| {
                let start = format!("{side} g{n}");
                sent.iter().filter(|line| line.starts_with(&start)).count()
            };
            assert_eq!((of("model call"), of("user result")), (1, 1), "{what}: {sent:?}");
        }
    }
}
