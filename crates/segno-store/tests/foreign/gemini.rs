//! Gemini CLI: its event log, its older documents, subagents.

use super::scene::{context, context_lines, corpus, findings, lines, transcript};
use segno_model::Body;
use segno_model::record::{Message, Outcome};
use segno_store::foreign::{Agent, Located, Roots, View, locate, project_name, recognise};
use std::fs;
use std::path::Path;

fn log(name: &str) -> String {
    format!("foreign/gemini/{name}.jsonl")
}

/// What was said, without facts and without the surroundings with which every session begins.
fn said(lines: Vec<String>) -> Vec<String> {
    let is_said =
        |line: &String| !line.starts_with("custom ") && !line.contains("<session_context>");
    lines.into_iter().filter(is_said).collect()
}

/// A session of these lines.
fn session(text: impl AsRef<[u8]>) -> View {
    let file = tempfile::NamedTempFile::new().expect("a file");
    fs::write(file.path(), text).expect("written");
    View::transcript(&recognise(file.path()).expect("it is Gemini's")).expect("it is read")
}

fn context_of(view: &View) -> Vec<String> {
    context_lines(&view.context())
}

const HEAD: &str = "{\"sessionId\":\"s\",\"projectHash\":\"h\",\"startTime\":\"2026-01-01T00:00:00.000Z\",\
                    \"lastUpdated\":\"2026-01-01T00:00:00.000Z\",\"kind\":\"main\"}\n";

fn row(id: &str, kind: &str, rest: &str) -> String {
    format!(
        "{{\"id\":\"{id}\",\"timestamp\":\"2026-01-01T00:00:01.000Z\",\"type\":\"{kind}\",{rest}}}\n"
    )
}

fn text(id: &str, kind: &str, text: &str) -> String {
    row(id, kind, &format!("\"content\":[{{\"text\":\"{text}\"}}]"))
}

/// Three plain messages.
fn plain() -> String {
    [HEAD, &text("u1", "user", "one"), &text("g1", "gemini", "yes"), &text("u2", "user", "two")]
        .concat()
}

fn outcomes(view: &View) -> Vec<Outcome> {
    let outcome = |body: &Body| match body {
        Body::Message(message) => match &**message {
            Message::Tool(result) => Some(result.outcome),
            _ => None,
        },
        _ => None,
    };
    view.records.iter().filter_map(|r| outcome(r.record.body())).collect()
}

/// A call is written again when it has finished, its result in three places, and resuming
/// writes everything once more: all of it is read once.
#[test]
fn a_resumed_session_is_read_once() {
    let view = transcript(&log("multi-turn-tools"));
    let id = |n: &str| format!("run_shell_command__run_shell_command_{n}");
    let output = |text: &str, group: u32| {
        format!(
            "<untrusted_context>\nOutput: {text}\nProcess Group PGID: {group}\n</untrusted_context>"
        )
    };
    let call = |id: &str, command: &str, why: &str| {
        format!(
            "call run_shell_command {id} {{\"command\":\"{command}\",\"description\":\"{why}\"}}"
        )
    };
    let (one, two, three) = (id("1795987060826_0"), id("1795987074407_0"), id("1795987074663_1"));
    let expected = [
        "user: RUN: echo one; ls".to_owned(),
        "assistant: I will run it.".to_owned(),
        call(&one, "echo one; ls", "run it"),
        format!("result {one}: {}", output("one\na.txt", 758)),
        "assistant: done: got tool result".to_owned(),
        "user: RUN2: echo p1 &&& echo p2".to_owned(),
        call(&two, "echo p1", "a"),
        call(&three, "echo p2", "b"),
        format!("result {two}: {}", output("p1", 830)),
        format!("result {three}: {}", output("p2", 832)),
        "assistant: done: got tool result".to_owned(),
        "user: SAY: third turn".to_owned(),
        "assistant: third turn".to_owned(),
    ];
    assert_eq!(said(lines(&view)), expected);
    assert_eq!(said(context(&log("multi-turn-tools")))[..13], expected);
    assert_eq!(findings(&view), [""; 0]);
    assert_eq!(outcomes(&view), [Outcome::Done; 3]);
    let facts = &view.facts;
    assert_eq!(facts.id.as_deref(), Some("b26388b2-cc21-4b1c-acdf-82276e974edf"));
    assert_eq!(facts.cwd.as_deref(), Some("/home/dev/agents/proj-gemini"));
    assert_eq!(facts.created.map(|at| at.0), Some(1_795_987_060_540));
    let responses: Vec<_> = view.records.iter().filter_map(|r| r.response.as_deref()).collect();
    assert_eq!(responses.len(), 5);
    assert_eq!(responses[0], "gemini:d0d9efcd-d0e8-4557-8814-4b2f34ccc299");
}

/// Gemini writes a call when it has finished: a killed one is nowhere, and nothing is made up for it.
#[test]
fn killed_sessions_hold_what_was_written() {
    let rows: [(&str, &[&str]); 8] = [
        (
            "killed-mid-tool",
            &["user: RUN: echo start; sleep 47; echo end", "assistant: I will run it."],
        ),
        (
            "killed-mid-tool-then-resumed",
            &[
                "user: RUN: echo start; sleep 47; echo end",
                "assistant: I will run it.",
                "user: SAY: continuing after crash",
                "assistant: continuing after crash",
            ],
        ),
        ("killed-parallel-one-done", &["user: RUN2: echo quick-done &&& echo w; sleep 41; echo z"]),
        ("killed-mid-stream", &["user: HANGMID please"]),
        (
            "killed-mid-stream-then-resumed",
            &["user: HANGMID please", "user: SAY: continuing after crash"],
        ),
        ("sigint-mid-tool", &["user: RUN: echo a; sleep 43; echo b", "assistant: I will run it."]),
        (
            "sigint-mid-tool-then-resumed",
            &[
                "user: RUN: echo a; sleep 43; echo b",
                "assistant: I will run it.",
                "user: SAY: continuing after crash",
                "assistant: continuing after crash",
            ],
        ),
        ("sigterm-mid-tool", &["user: RUN: echo a; sleep 44; echo b", "assistant: I will run it."]),
    ];
    for (name, expected) in rows {
        let view = transcript(&log(name));
        assert_eq!(said(lines(&view)), expected, "{name}");
        assert_eq!(findings(&view), [""; 0], "{name}");
        assert_eq!(said(context(&log(name)))[..expected.len()], *expected, "{name}");
    }
}

#[test]
fn the_surroundings_are_no_prompt() {
    let view = transcript(&log("killed-mid-stream"));
    let notices: Vec<_> = view
        .records
        .iter()
        .filter_map(|r| match r.record.body() {
            Body::Message(message) => match &**message {
                Message::User(user) => Some(user.notice.clone()),
                _ => None,
            },
            _ => None,
        })
        .collect();
    assert_eq!(notices, [Some("context".to_owned()), None]);
}

/// Covers: #30. What was taken back is there, and off the path; the next message hangs where it was said.
#[test]
fn going_back_leaves_what_was_said_off_the_path() {
    let back = "{\"$rewindTo\":\"g1\"}\n";
    let view = session([plain(), back.to_owned()].concat());
    assert_eq!(said(lines(&view)), ["user: one", "assistant: yes", "user: two"]);
    assert_eq!(context_of(&view), ["user: one"]);
    let view = session([plain(), back.to_owned(), text("u3", "user", "else")].concat());
    assert_eq!(context_of(&view), ["user: one", "user: else"]);
    let unknown = session([plain(), "{\"$rewindTo\":\"nope\"}\n".to_owned()].concat());
    assert_eq!(findings(&unknown), ["missing-parent@5"]);
    assert_eq!(context_of(&unknown), ["user: one", "assistant: yes", "user: two"]);
    let all = session([plain(), "{\"$rewindTo\":\"u1\"}\n".to_owned()].concat());
    assert_eq!(context_of(&all), [""; 0]);
}

/// A history that is replaced: by a beginning of itself, by a summary with the rest, by a masked result.
#[test]
fn a_replaced_history_is_a_branch_with_copies() {
    let set = |messages: &[String]| {
        let messages: Vec<_> = messages.iter().map(|m| m.trim_end()).collect();
        format!("{{\"$set\":{{\"messages\":[{}]}}}}\n", messages.join(","))
    };
    let (u1, g1, u2) =
        (text("u1", "user", "one"), text("g1", "gemini", "yes"), text("u2", "user", "two"));
    let shorter = session([plain(), set(&[u1.clone(), g1.clone()])].concat());
    assert_eq!(context_of(&shorter)[..2], ["user: one", "assistant: yes"]);
    assert_eq!(shorter.records.iter().filter(|r| r.copy).count(), 0);
    let same = session([plain(), set(&[u1, g1, u2.clone()]), text("g2", "gemini", "ok")].concat());
    assert_eq!(same.records.iter().filter(|r| r.copy).count(), 0);
    assert_eq!(
        context_of(&same)[..4],
        ["user: one", "assistant: yes", "user: two", "assistant: ok"]
    );
}

/// A summary is one: what was said before stays above it, and what it keeps are copies behind it.
#[test]
fn a_snapshot_sums_up_what_stands_before() {
    let set = |messages: &[String]| {
        let messages: Vec<_> = messages.iter().map(|m| m.trim_end()).collect();
        format!("{{\"$set\":{{\"messages\":[{}]}}}}\n", messages.join(","))
    };
    let (u2, ack) = (text("u2", "user", "two"), text("a1", "gemini", "Got it."));
    for (told, summary) in [
        ("<state_snapshot>\\n<goal>so far</goal>\\n</state_snapshot>", "<goal>so far</goal>"),
        ("<state_snapshot>so far", "<state_snapshot>so far"),
    ] {
        let snapshot = text("c1", "user", told);
        let history = [snapshot, ack.clone(), u2.clone()];
        let end = text("g2", "gemini", "ok");
        // Resuming tells the same history once more.
        let again = set(&[&history[..], std::slice::from_ref(&end)].concat());
        let view = session([plain(), set(&history), end, again].concat());
        let context = context_of(&view);
        assert!(context[0].contains(&format!(">\n{summary}\n</session_history>")), "{context:?}");
        assert_eq!(context[1..4], ["assistant: Got it.", "user: two", "assistant: ok"]);
        assert_eq!(view.records.iter().filter(|r| r.copy).count(), 1);
        let summary = format!("summary: {summary}");
        let expected = [
            "user: one",
            "assistant: yes",
            "user: two",
            &summary,
            "assistant: Got it.",
            "assistant: ok",
        ];
        assert_eq!(said(lines(&view)), expected);
    }
}

/// Calls stand where they were made, with what is told of them.
#[test]
fn calls_stand_between_the_words() {
    let told = |id: &str| {
        format!(
            "{{\"id\":\"{id}\",\"name\":\"ls\",\"args\":{{}},\"status\":\"success\",\"result\":\
             [{{\"functionResponse\":{{\"id\":\"{id}\",\"response\":{{\"output\":\"of {id}\"}}}}}}]}}"
        )
    };
    let parts = "[{\"text\":\"first\"},{\"functionCall\":{\"id\":\"c2\",\"name\":\"ls\",\"args\":{}}},\
                 {\"text\":\"then\"}]";
    let calls = format!("\"content\":{parts},\"toolCalls\":[{},{}]", told("c1"), told("c2"));
    let view = session([plain(), row("g3", "gemini", &calls)].concat());
    let expected = [
        "assistant: first",
        "call ls c2 {}",
        "assistant: then",
        "call ls c1 {}",
        "result c2: of c2",
        "result c1: of c1",
    ];
    assert_eq!(context_of(&view)[3..9], expected);
}

fn call(status: &str, result: &str) -> String {
    format!(
        "\"content\":\"\",\"toolCalls\":[{{\"id\":\"c1\",\"name\":\"edit\",\"args\":{{\"a\":1}},\
         \"status\":\"{status}\",\"timestamp\":\"2026-01-01T00:00:02.000Z\",\
         \"result\":[{{\"functionResponse\":{{\"id\":\"c1\",\"name\":\"edit\",\"response\":{result}}}}}]}}]"
    )
}

#[test]
fn a_call_says_what_became_of_it() {
    let rows = [
        ("success", "{\"output\":\"fine\"}", Some(Outcome::Done), "fine"),
        ("error", "{\"error\":\"no such file\"}", Some(Outcome::Failed), "no such file"),
        ("cancelled", "{\"error\":\"stopped\"}", Some(Outcome::Stopped), "stopped"),
        ("success", "{\"n\":1}", Some(Outcome::Done), "{\"n\":1}"),
        ("executing", "{}", None, ""),
    ];
    for (status, result, outcome, shown) in rows {
        let reply = row("g1", "gemini", &call(status, result));
        let view = session([HEAD, &text("u1", "user", "do"), &reply].concat());
        assert_eq!(outcomes(&view), outcome.into_iter().collect::<Vec<_>>(), "{status}");
        let sent = context_of(&view);
        assert_eq!(sent[1], "call edit c1 {\"a\":1}");
        if outcome.is_some() {
            assert_eq!(sent[2], format!("result c1: {shown}"));
            assert_eq!(findings(&view), [""; 0]);
        } else {
            assert_eq!(findings(&view), ["interrupted-call@3"]);
        }
    }
}

/// A result that was masked later is sent masked; a call that comes late still has its place.
#[test]
fn what_changes_later_is_told_where_it_was_said() {
    let reply = row("g1", "gemini", &call("success", "{\"output\":\"long\"}"));
    let masked = "\"content\":[{\"functionResponse\":{\"id\":\"c1\",\"name\":\"edit\",\
                  \"response\":{\"output\":\"[masked]\"}}}]";
    let view =
        session([HEAD, &text("u1", "user", "do"), &reply, &row("r1", "user", masked)].concat());
    assert!(context_of(&view).contains(&"result c1: [masked]".to_owned()));
    assert_eq!(outcomes(&view), [Outcome::Done]);
    let early = text("g1", "gemini", "yes");
    let late = row("g1", "gemini", &call("success", "{\"output\":\"fine\"}"));
    let view = session(
        [HEAD, &text("u1", "user", "do"), &early, &text("u2", "user", "and"), &late].concat(),
    );
    let expected =
        ["user: do", "assistant: yes", "user: and", "call edit c1 {\"a\":1}", "result c1: fine"];
    assert_eq!(said(lines(&view)), expected);
}

/// A message that is written again counts as it was written last, whatever stood before it or between: also the first.
#[test]
fn a_message_that_is_written_again_counts_as_it_is_then() {
    let between = "{\"$set\":{\"later\":1}}\n";
    let (one, two, three) =
        (text("u1", "user", "one"), text("g1", "gemini", "two"), text("u2", "user", "three"));
    for facts in [0, 1, 3] {
        let facts = between.repeat(facts);
        for (id, kind) in [("u1", "user"), ("g1", "gemini"), ("u2", "user")] {
            let again = text(id, kind, "again");
            let view =
                session([HEAD, &one, &facts, &two, &facts, &three, between, &again].concat());
            let expected = [("u1", "user: one"), ("g1", "assistant: two"), ("u2", "user: three")]
                .map(|(of, said)| match said.split_once(' ') {
                    Some((who, _)) if of == id => format!("{who} again"),
                    _ => said.to_owned(),
                });
            assert_eq!(context_of(&view), expected, "{id} behind {} facts", facts.len());
        }
    }
}

/// Covers: #3. A torn line takes the next record with it in Gemini; here it does not.
#[test]
fn a_record_behind_a_torn_one_is_read() {
    let torn = format!("{{\"id\":\"g1\",\"timestamp\":\"2026{}", text("u2", "user", "two"));
    let view = session([HEAD, &text("u1", "user", "one"), &torn].concat());
    assert_eq!(said(lines(&view)), ["user: one", "user: two"]);
    assert_eq!(findings(&view), ["fused-line@3"]);
    let view = session(plain().trim_end_matches("\"}]}\n"));
    assert_eq!(findings(&view), ["torn-tail@4"]);
    assert_eq!(said(lines(&view)), ["user: one", "assistant: yes"]);
}

/// Covers: #62. Facts that are lost do not hide what was said.
#[test]
fn a_session_without_its_first_line_is_read() {
    let view = session(plain().trim_start_matches(HEAD));
    assert_eq!(said(lines(&view)), ["user: one", "assistant: yes", "user: two"]);
    assert_eq!(view.facts.id, None);
}

#[test]
fn an_older_document_is_read_message_by_message() {
    let messages = [
        text("u1", "user", "one"),
        row(
            "g1",
            "gemini",
            "\"content\":\"yes\",\"model\":\"gemini-2.5-pro\",\
            \"thoughts\":[{\"subject\":\"Plan\",\"description\":\"say yes\",\"timestamp\":\"\"}],\
            \"tokens\":{\"input\":10,\"output\":2,\"cached\":4,\"thoughts\":3,\"tool\":0,\"total\":15}",
        ),
        row("i1", "info", "\"content\":\"Request cancelled.\""),
    ];
    let document = format!(
        "{{\n  \"sessionId\": \"s1\",\n  \"projectHash\": \"h\",\n  \"startTime\": \
         \"2026-01-01T00:00:00.000Z\",\n  \"lastUpdated\": \"x\",\n  \"messages\": [{}],\n  \
         \"summary\": \"A greeting\"\n}}",
        messages.join(",")
    );
    let view = session(&document);
    assert_eq!(view.facts.id.as_deref(), Some("s1"));
    assert_eq!(view.facts.titled.as_deref(), Some("A greeting"));
    assert_eq!(view.facts.format.as_deref(), Some("document"));
    assert_eq!(said(lines(&view)), ["user: one", "thinking: **Plan**\nsay yes", "assistant: yes"]);
    assert!(lines(&view).contains(&"custom gemini.info".to_owned()));
    let usage = view.records.iter().find_map(|r| match r.record.body() {
        Body::Message(message) => match &**message {
            Message::Assistant(reply) => reply.usage,
            _ => None,
        },
        _ => None,
    });
    let usage = usage.expect("it was counted");
    assert_eq!((usage.input, usage.cache_read, usage.output, usage.reasoning), (6, 4, 5, Some(3)));
    // Cut inside the second message.
    let cut = session(&document[..document.find("gemini-2.5").expect("it is there")]);
    assert_eq!(said(lines(&cut)), ["user: one"]);
    assert_eq!(findings(&cut), ["torn-array@7"]);
}

fn put(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().expect("a folder")).expect("made");
    fs::write(path, text).expect("written");
}

#[test]
fn sessions_and_subagents_are_found_with_their_project() {
    let home = tempfile::tempdir().expect("a folder");
    let gemini = home.path().join(".gemini");
    put(&gemini.join("projects.json"), "{\"projects\":{\"/srv/app\":\"app\"}}");
    put(&gemini.join("tmp/app/chats/session-2026-01-01T00-00-aaaaaaaa.jsonl"), &plain());
    put(&gemini.join("tmp/app/chats/parent-id/child-id.jsonl"), &plain());
    put(&gemini.join("tmp/0123abc/chats/session-2026-01-01T00-00-bbbbbbbb.json"), "{}");
    put(&gemini.join("tmp/0123abc/chats/session-2026-01-01T00-00-cccccccc.json"), "{}");
    put(&gemini.join("tmp/0123abc/chats/session-2026-01-01T00-00-cccccccc.jsonl"), &plain());
    put(&gemini.join("tmp/0123abc/logs.json"), "[]");
    let roots = Roots { home: home.path().to_owned(), ..Roots::default() };
    let (mut found, failed) = locate(&roots);
    assert!(failed.is_empty(), "{failed:?}");
    found.sort_by(|a, b| a.path.cmp(&b.path));
    let names: Vec<_> = found
        .iter()
        .map(|s| (s.path.extension().and_then(|e| e.to_str()), s.parent.as_deref()))
        .collect();
    let main = (Some("jsonl"), None);
    assert_eq!(names, [(Some("json"), None), main, (Some("jsonl"), Some("parent-id")), main]);
    let read = |session: &Located| View::transcript(session).expect("it is read");
    let child = read(&found[2]);
    assert_eq!(child.facts.parent.as_deref(), Some("parent-id"));
    assert_eq!(child.facts.cwd.as_deref(), Some("/srv/app"));
    assert_eq!(read(&found[3]).facts.cwd.as_deref(), Some("/srv/app"));
    assert_eq!(read(&found[3]).facts.parent, None);
    assert_eq!(read(&found[1]).facts.cwd, None);
    let moved = [("GEMINI_CLI_HOME".to_owned(), home.path().display().to_string())];
    let elsewhere = Roots { home: "/nonexistent".into(), env: moved.into(), ..Roots::default() };
    assert_eq!(locate(&elsewhere).0.len(), 4);
}

/// As Gemini CLI 0.61.0 chooses a project's folder.
#[test]
fn a_project_has_the_folder_that_gemini_cli_would_give_it() {
    /// What it is about, the projects that there are, the directory, and the folder's name.
    type Case = (&'static str, &'static [(&'static str, &'static str)], &'static str, &'static str);
    let cases: [Case; 12] = [
        ("a first one", &[], "/srv/My App", "my-app"),
        ("without a name", &[], "/", "project"),
        (
            "of the list",
            &[("projects.json", r#"{"projects":{"/srv/app":"kiln"}}"#)],
            "/srv/app",
            "kiln",
        ),
        (
            "another one's name in the list",
            &[("projects.json", r#"{"projects":{"/a/app":"app"}}"#)],
            "/b/app",
            "app-1",
        ),
        ("another one's folder", &[("tmp/app/.project_root", "/a/app")], "/b/app", "app-1"),
        ("another one's history", &[("history/app/.project_root", "/a/app")], "/b/app", "app-1"),
        (
            "two others",
            &[("tmp/app/.project_root", "/a/app"), ("tmp/app-1/.project_root", "/c/app")],
            "/b/app",
            "app-2",
        ),
        ("its own folder", &[("tmp/kiln/.project_root", "/b/app\n")], "/b/app", "kiln"),
        ("with a slash behind", &[("tmp/kiln/.project_root", "/b/app/")], "/b/app", "kiln"),
        (
            "a list that the folder contradicts",
            &[
                ("projects.json", r#"{"projects":{"/b/app":"app"}}"#),
                ("tmp/app/.project_root", "/a/app"),
            ],
            "/b/app",
            "app-1",
        ),
        (
            "a list that leads out",
            &[("projects.json", r#"{"projects":{"/b/app":"../.."}}"#)],
            "/b/app",
            "app",
        ),
        ("a list that is none", &[("projects.json", "{")], "/b/app", "app"),
    ];
    for (label, files, cwd, expected) in cases {
        let home = tempfile::tempdir().expect("a folder");
        for (path, text) in files {
            put(&home.path().join(".gemini").join(path), text);
        }
        let roots = Roots { home: home.path().to_owned(), ..Roots::default() };
        let name = project_name(Agent::Gemini, &roots, cwd);
        assert_eq!(name.as_deref(), Some(expected), "{label}");
    }
}

/// Covers: G14. Reading leaves bytes and times as they are.
#[test]
fn reading_leaves_no_trace() {
    use std::os::unix::fs::MetadataExt;
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("session.jsonl");
    fs::copy(corpus(&log("multi-turn-tools")), &path).expect("copied");
    let stat = || {
        let meta = fs::metadata(&path).expect("a stat");
        (meta.mtime_nsec(), meta.atime_nsec(), meta.len())
    };
    let before = stat();
    let found = recognise(&path).expect("it is Gemini's");
    assert_eq!(found.agent, Agent::Gemini);
    let _ = View::active(&found).expect("it is read");
    assert_eq!(stat(), before);
}

#[test]
fn every_prefix_is_read_and_keeps_what_came_before() {
    let whole = fs::read(corpus(&log("multi-turn-tools"))).expect("read");
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("session.jsonl");
    let all = said(lines(&transcript(&log("multi-turn-tools"))));
    let mut most = 0;
    for end in (0..=whole.len()).step_by(61) {
        fs::write(&path, &whole[..end]).expect("written");
        let Ok(found) = recognise(&path) else { continue };
        let Ok(view) = View::transcript(&found) else { continue };
        let got = said(lines(&view));
        assert!(got.len() >= most, "at {end}");
        assert_eq!(got, all[..got.len()], "at {end}");
        most = got.len();
    }
    assert!(most >= all.len() - 1);
}

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig { cases: 64, ..Default::default() })]

    #[test]
    fn overwritten_bytes_never_end_in_a_panic(
        flips in proptest::collection::vec((0.0_f64..1.0, proptest::num::u8::ANY), 1..20),
    ) {
        let mut bytes = fs::read(corpus(&log("multi-turn-tools"))).expect("read");
        for (at, byte) in flips {
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss,
                clippy::cast_precision_loss, reason = "a place in the file")]
            let at = (at * bytes.len() as f64) as usize;
            bytes[at] = byte;
        }
        let file = tempfile::NamedTempFile::new().expect("a file");
        fs::write(file.path(), &bytes).expect("written");
        if let Ok(found) = recognise(file.path()) {
            let _ = View::active(&found);
        }
    }
}
