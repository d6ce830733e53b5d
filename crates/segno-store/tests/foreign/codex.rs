//! Codex: every rollout of the corpus, both vocabularies, forks, compactions, rollbacks, damage.

mod damage;
mod history;

use crate::scene::{context, context_lines, findings, lines, transcript};
use segno_model::record::{Established, Message, Outcome, Usage};
use segno_model::{Body, Timestamp};
use segno_store::foreign::{
    Agent, Facts, ForeignError, ForeignRecord, Located, Roots, View, locate, recognise,
};
use std::fs;
use std::path::{Path, PathBuf};

/// A home with rollouts in it.
struct Home {
    dir: tempfile::TempDir,
}

impl Home {
    fn new() -> Self {
        Self { dir: tempfile::tempdir().expect("a folder") }
    }

    fn path(&self) -> PathBuf {
        self.dir.path().join(".codex")
    }

    /// Puts a rollout where Codex would.
    fn put(&self, id: &str, content: impl AsRef<[u8]>) -> PathBuf {
        self.put_at("sessions/2026/11/29", id, ".jsonl", content)
    }

    fn put_at(&self, dir: &str, id: &str, end: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let dir = self.path().join(dir);
        fs::create_dir_all(&dir).expect("a folder");
        let path = dir.join(format!("rollout-2026-11-29T20-44-38-{id}{end}"));
        fs::write(&path, content).expect("a file");
        path
    }

    fn locate(&self) -> Vec<Located> {
        let roots = Roots { home: self.dir.path().to_owned(), ..Roots::default() };
        let (mut found, failed) = locate(&roots);
        assert!(failed.is_empty(), "{failed:?}");
        found.retain(|session| session.agent == Agent::Codex);
        found.sort_by(|a, b| a.path.cmp(&b.path));
        found
    }
}

fn corpus(name: &str) -> Vec<u8> {
    fs::read(crate::scene::corpus(name)).expect("a corpus file")
}

fn fixture(name: &str) -> String {
    format!("foreign/codex/{name}.jsonl")
}

fn case(name: &str) -> String {
    let dir = crate::scene::corpus("cases").join(name);
    let files = fs::read_dir(&dir).expect("a case").filter_map(Result::ok);
    let mut names: Vec<String> =
        files.map(|file| file.file_name().to_string_lossy().into_owned()).collect();
    names.retain(|name| name.starts_with("rollout-"));
    names.sort();
    format!("cases/{name}/{}", names.first().expect("a rollout"))
}

fn read(path: &Path) -> View {
    View::transcript(&recognise(path).expect("it is recognised")).expect("it is read")
}

/// Lines of a rollout, written from payloads in order.
fn rollout(id: &str, rows: &[(&str, &str)]) -> String {
    let header = format!(
        r#"{{"timestamp":"2026-03-02T09:00:00.000Z","type":"session_meta","payload":{{"id":"{id}","timestamp":"2026-03-02T09:00:00.000Z","cwd":"/srv/kiln","cli_version":"0.150.0","source":"cli","model_provider":"openai"}}}}"#
    );
    let mut lines = vec![header];
    for (i, (kind, payload)) in rows.iter().enumerate() {
        let at = format!("2026-03-02T09:{:02}:{:02}.000Z", (i + 1) / 60, (i + 1) % 60);
        lines.push(format!(r#"{{"timestamp":"{at}","type":"{kind}","payload":{payload}}}"#));
    }
    lines.join("\n") + "\n"
}

fn user(text: &str) -> String {
    format!(
        r#"{{"type":"message","role":"user","content":[{{"type":"input_text","text":"{text}"}}]}}"#
    )
}

fn agent(text: &str) -> String {
    format!(
        r#"{{"type":"message","role":"assistant","content":[{{"type":"output_text","text":"{text}"}}]}}"#
    )
}

/// A rollout of `user: …`, `agent: …`, `call ID`, `result ID: …` and `event JSON`, `row KIND JSON`.
fn script(id: &str, script: &[&str]) -> String {
    let rows: Vec<(String, String)> = script.iter().map(|line| scripted(line)).collect();
    let rows: Vec<(&str, &str)> = rows.iter().map(|(a, b)| (a.as_str(), b.as_str())).collect();
    rollout(id, &rows)
}

fn scripted(line: &str) -> (String, String) {
    let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
    let item = |payload: String| ("response_item".to_owned(), payload);
    match word {
        "user:" => item(user(rest)),
        "agent:" => item(agent(rest)),
        "call" => item(format!(
            r#"{{"type":"function_call","name":"shell","arguments":"{{}}","call_id":"{rest}"}}"#
        )),
        "result" => {
            let (id, output) = rest.split_once(": ").expect("an output");
            item(format!(
                r#"{{"type":"function_call_output","call_id":"{id}","output":"{output}"}}"#
            ))
        }
        "event" => ("event_msg".to_owned(), rest.to_owned()),
        "rollback" => (
            "event_msg".to_owned(),
            format!(r#"{{"type":"thread_rolled_back","num_turns":{rest}}}"#),
        ),
        "item" => item(rest.to_owned()),
        "row" => {
            let (kind, payload) = rest.split_once(' ').expect("a payload");
            (kind.to_owned(), payload.to_owned())
        }
        _ => panic!("{line}"),
    }
}

/// The session of the fixture `multi-turn-tools`.
const PARENT: &str = "01a2290d-7a18-7f11-a711-baa7ed59e765";

const ID: &str = "019c0000-00aa-7000-8000-0000000000aa";

fn scene(lines: &[&str]) -> View {
    let home = Home::new();
    read(&home.put(ID, script(ID, lines)))
}

/// What the next request holds, one line per message, without the notice at the end.
fn sent(view: &View) -> Vec<String> {
    let lines = context_lines(&view.context());
    shortened(lines.into_iter().filter(|line| !line.starts_with("user: (Segno:")))
}

/// The transcript without what is kept aside.
fn said(view: &View) -> Vec<String> {
    shortened(lines(view).into_iter().filter(|line| !line.starts_with("custom ")))
}

fn kept(view: &View) -> Vec<String> {
    lines(view).into_iter().filter_map(|l| Some(l.strip_prefix("custom ")?.to_owned())).collect()
}

/// The first line of each, at most 70 characters.
fn shortened(lines: impl Iterator<Item = String>) -> Vec<String> {
    lines.map(|line| line.lines().next().unwrap_or("").chars().take(70).collect()).collect()
}

fn messages<'a>(view: &'a View) -> Vec<(&'a ForeignRecord, &'a Message)> {
    let message = |r: &'a ForeignRecord| match r.record.body() {
        Body::Message(message) => Some((r, &**message)),
        _ => None,
    };
    view.records.iter().filter_map(message).collect()
}

/// Tokens that are counted: those of copies are not.
fn spent(view: &View) -> Vec<(Option<String>, u64)> {
    let own = view.records.iter().filter(|record| !record.copy);
    let usages = own.filter_map(|record| {
        let usage: Usage = match record.record.body() {
            Body::Message(message) => match &**message {
                Message::Assistant(reply) => reply.usage?,
                _ => return None,
            },
            Body::Usage(record) => record.usage,
            Body::Compaction(compaction) => compaction.usage?,
            _ => return None,
        };
        Some((record.response.clone(), usage.context()))
    });
    usages.collect()
}

fn prompts(view: &View) -> Vec<String> {
    let prompt = |(record, message): (&ForeignRecord, &Message)| match message {
        Message::User(user) if user.notice.is_none() && !record.copy => {
            let lines = lines(&View { records: vec![record.clone()], ..View::default() });
            Some(lines.concat())
        }
        _ => None,
    };
    messages(view).into_iter().filter_map(prompt).collect()
}

fn notices(view: &View) -> Vec<String> {
    let notice = |(_, message): (&ForeignRecord, &Message)| match message {
        Message::User(user) => user.notice.clone(),
        _ => None,
    };
    messages(view).into_iter().filter_map(notice).collect()
}

const CONTEXT: [&str; 2] = ["user: <skills_instructions>", "user: <environment_context>"];

#[test]
fn a_paginated_session_is_read_whole() {
    let name = fixture("multi-turn-tools");
    let view = transcript(&name);
    let turns = [
        "user: RUN: echo one; ls",
        "thinking: I will run a command",
        "assistant: I will run it.",
        r#"call exec_command call_dd45bad92f34429eb6e1de0f {"cmd": "echo one; ls""#,
        "result call_dd45bad92f34429eb6e1de0f: Chunk ID: ab42ab",
        "assistant: done: got 1 tool output(s)",
        "user: RUN2: echo p1 &&& echo p2",
        "assistant: running two",
        r#"call exec_command call_c44b6067a3064240bfa7b9b1 {"cmd": "echo p1", "yi"#,
        r#"call exec_command call_d59bbe018e4547b495e636ab {"cmd": "echo p2", "yi"#,
        "result call_c44b6067a3064240bfa7b9b1: Chunk ID: fe22d3",
        "result call_d59bbe018e4547b495e636ab: Chunk ID: e171f1",
        "assistant: done: got 2 tool output(s)",
        "user: SAY: third turn",
        "assistant: third turn",
    ];
    let expected = [&CONTEXT[..], &["model"], &turns].concat();
    assert_eq!(said(&view), expected);
    assert_eq!(sent(&view), [&CONTEXT[..], &turns].concat());
    assert!(findings(&view).is_empty(), "{:?}", view.findings);
    assert_eq!(
        view.facts,
        Facts {
            id: Some("01a2290d-7a18-7f11-a711-baa7ed59e765".to_owned()),
            format: Some("paginated".to_owned()),
            version: Some("0.171.0".to_owned()),
            cwd: Some("/home/dev/agents/proj-codex".to_owned()),
            branch: Some("master".to_owned()),
            commit: Some("fd31c709a2801308f9a28824f1f909c4bb46627c".to_owned()),
            created: Timestamp::parse("2026-11-29T20:44:38.835Z"),
            ..Facts::default()
        }
    );
    assert_eq!(notices(&view), ["developer", "environment"]);
    context(&name);
}

/// Covers: G6. Calls of one response are one message, and each response's tokens stand once.
#[test]
fn parallel_calls_are_one_message_with_its_tokens() {
    let view = transcript(&fixture("multi-turn-tools"));
    let calls: Vec<usize> = messages(&view)
        .iter()
        .filter_map(|(_, message)| match message {
            Message::Assistant(reply) => Some(reply.calls().count()),
            _ => None,
        })
        .collect();
    assert_eq!(calls, [1, 0, 2, 0, 0]);
    let expected = [
        "resp_99dfef1abab74181a2dfc922",
        "resp_9b4c13bd500249199490398f",
        "resp_191223cde3af428192b13828",
        "resp_10fcd86d64a942fa9028e3ad",
        "resp_677d58a72e2c4720b8330668",
    ];
    assert_eq!(spent(&view), expected.map(|key| (Some(key.to_owned()), 1000)));
}

#[test]
fn results_say_how_they_ended() {
    let rows = [
        ("Process exited with code 0\\nOutput:\\nx", Outcome::Done, Established::Observed),
        (
            "Chunk ID: 1\\nProcess exited with code 2\\nOutput:",
            Outcome::Failed,
            Established::Observed,
        ),
        (
            "Exit code: 1\\nWall time: 0 seconds\\nOutput:\\n",
            Outcome::Failed,
            Established::Observed,
        ),
        ("Output:\\nExit code: 1", Outcome::Done, Established::Origin),
        ("Wall time: 1.6 seconds\\naborted by user", Outcome::Stopped, Established::Stop),
        ("aborted", Outcome::Unknown, Established::Origin),
        (
            r#"{\"output\":\"no\",\"metadata\":{\"exit_code\":3,\"duration_seconds\":0.1}}"#,
            Outcome::Failed,
            Established::Observed,
        ),
        ("", Outcome::Done, Established::Origin),
    ];
    for (output, outcome, established) in rows {
        let view = scene(&["user: go", "call c1", &format!("result c1: {output}")]);
        let last = messages(&view).pop().expect("a message").1.clone();
        let Message::Tool(result) = last else { panic!("{last:?}") };
        assert_eq!((result.outcome, result.established), (outcome, established), "{output}");
        assert_eq!((result.name.as_str(), result.call_seq), ("shell", Some(2)));
    }
    let old = r#"item {"type":"function_call_output","call_id":"c1","output":{"content":"no","success":false}}"#;
    let view = scene(&["user: go", "call c1", old]);
    assert_eq!(said(&view), ["user: go", "call shell c1 {}", "result c1: no"]);
    let last = messages(&view).pop().expect("a message").1.clone();
    assert!(matches!(last, Message::Tool(result) if result.outcome == Outcome::Failed));
}

/// Covers: #133. The vocabulary of 0.118, where each turn stands as items and as other events.
#[test]
fn a_legacy_session_is_read_whole() {
    let name = fixture("legacy-0.118-multi-turn-tools");
    let view = transcript(&name);
    let turns = [
        "user: RUN: echo one; ls",
        "thinking: I will run a command",
        "assistant: I will run it.",
        r#"call exec_command call_36bd83f061554ae7b2d5d24b {"cmd": "echo one; ls""#,
        "result call_36bd83f061554ae7b2d5d24b: Command: /bin/bash -lc 'echo one",
        "assistant: done: got 1 tool output(s)",
        "user: RUN2: echo p1 &&& echo p2",
        "assistant: running two",
        r#"call exec_command call_2bdd449baee149bdbc298307 {"cmd": "echo p1", "yi"#,
        r#"call exec_command call_30aea5636caa4ad0bc69b47d {"cmd": "echo p2", "yi"#,
        "result call_2bdd449baee149bdbc298307: Command: /bin/bash -lc 'echo p1'",
        "result call_30aea5636caa4ad0bc69b47d: Command: /bin/bash -lc 'echo p2'",
        "assistant: done: got 2 tool output(s)",
    ];
    assert_eq!(
        sent(&view),
        [&["user: <permissions instructions>", CONTEXT[1]][..], &turns].concat()
    );
    assert_eq!(view.facts.format.as_deref(), Some("legacy"));
    assert!(findings(&view).is_empty(), "{:?}", view.findings);
    let id = "01a22921-2102-7652-ac7c-1a7a07210250";
    let keys = [1000, 2000, 3000, 4000].map(|total| (Some(format!("{id}:{total}")), 1000));
    assert_eq!(spent(&view), keys);
    // The items are the provider's own, so they can be sent back as they are.
    let native = messages(&view).into_iter().find_map(|(_, message)| match message {
        Message::Assistant(reply) => reply.native.clone(),
        _ => None,
    });
    let native = native.expect("native items");
    assert_eq!(native.dialect, "openai");
    let items = native.items.get();
    assert!(
        items.starts_with(r#"[{"type":"reasoning","summary":[{"type":"summary_text","#),
        "{items}"
    );
    assert!(
        items.contains(r#""arguments":"{\"cmd\": \"echo one; ls\", \"yield_time_ms\": 60000}""#)
    );
    context(&name);
}

/// Covers: #133. Turns that stand only as events are turns; data without any is an error.
#[test]
fn both_vocabularies_are_turns_and_none_is_an_error() {
    let events = scene(&[
        r#"event {"type":"user_message","message":"one"}"#,
        r#"event {"type":"agent_message","message":"two"}"#,
        r#"event {"type":"user_message","message":"three"}"#,
        r#"event {"type":"agent_message","message":"four"}"#,
    ]);
    assert_eq!(said(&events), ["user: one", "assistant: two", "user: three", "assistant: four"]);
    assert_eq!(prompts(&events), ["user: one", "user: three"]);
    let newer = scene(&[
        r#"event {"type":"item_completed","item":{"type":"UserMessage","id":"1","content":[{"type":"text","text":"one"}]}}"#,
        r#"event {"type":"item_completed","item":{"type":"AgentMessage","id":"2","content":[{"type":"Text","text":"two"}]}}"#,
        "call c1",
        "result c1: x",
    ]);
    let expected = ["user: one", "assistant: two", "call shell c1 {}", "result c1: x"];
    assert_eq!(said(&newer), expected);
    let items = scene(&["user: one", "agent: two"]);
    assert_eq!(said(&items), ["user: one", "assistant: two"]);

    let home = Home::new();
    let none = home.put(ID, script(ID, &[r#"event {"type":"utterance","text":"one"}"#]));
    let refused = View::transcript(&recognise(&none).expect("it is Codex's"));
    assert!(matches!(refused, Err(ForeignError::NoTurns { .. })), "{refused:?}");
}

/// Covers: #11, G3. A byte order mark, CRLF, blank lines, no end of line; the mark inside of a prompt
/// stays. (What a following append must do is not a matter of reading.)
#[test]
fn marks_and_blank_lines_are_no_damage() {
    let name = case("08-bom-crlf");
    let view = transcript(&name);
    assert!(findings(&view).is_empty(), "{:?}", view.findings);
    assert_eq!(view.records.len(), 9);
    let expected = [
        "user: \u{feff}Start the dryer at 40 C.",
        "assistant: Dryer on.",
        "user: And stop at dawn.",
        "assistant: END-08 scheduled for 06:12.",
    ];
    assert_eq!(said(&view), expected);
    assert!(view.facts.cwd.is_some_and(|cwd| cwd.ends_with("/kiln")));
    context(&name);
}

/// Covers: #32, G6, G7. (That a result is written down once is not a matter of reading.)
#[test]
fn a_call_without_a_result_is_unknown_not_done() {
    let name = case("15-orphan-call-tail");
    let view = transcript(&name);
    assert_eq!(findings(&view), ["interrupted-turn@2", "interrupted-call@5"]);
    let sent = context(&name);
    let end: Vec<&str> = sent[sent.len() - 2..].iter().map(String::as_str).collect();
    assert_eq!(end[0], r#"call shell call_15 {"command": ["flash", "--all"]}"#);
    assert!(
        end[1].starts_with("result call_15: The outcome of this call is unknown"),
        "{}",
        end[1]
    );
    assert_eq!(context(&name), sent);
}

/// Covers: #70. (That it is listed without a flag is the listing's matter.)
#[test]
fn the_first_prompt_may_come_late() {
    let view = transcript(&case("29-late-first-prompt"));
    assert_eq!(view.facts.id.as_deref(), Some("019c0000-001d-7000-8000-00000000001d"));
    assert_eq!(prompts(&view), ["user: TITLE-29 convert all recipes to grams."]);
    let line = messages(&view).iter().rev().nth(1).and_then(|(record, _)| record.origin.line);
    assert_eq!(line, Some(68));
    let notices = notices(&view);
    assert_eq!(notices.len(), 61);
    assert_eq!(notices[..3], ["developer", "instructions", "environment"]);
    assert_eq!(said(&view).last().map(String::as_str), Some("assistant: Converted."));
}

/// Covers: #130, #131, #132, G13. Unknown rows, items, pieces and fields are kept as they are.
#[test]
fn what_is_not_known_is_kept() {
    let name = case("37-unknown-variants");
    let view = transcript(&name);
    assert!(findings(&view).is_empty(), "{:?}", view.findings);
    let said = said(&view);
    assert_eq!(
        said,
        ["user: Survey the site.", "assistant: AFTER-37 surveyed.", "assistant: kept"]
    );
    let kinds = ["session_meta", "sub_agent_activity", "hologram", "quantum_state", "line"];
    let mut kept = kept(&view);
    kept.sort();
    let mut expected: Vec<String> = kinds.iter().map(|kind| format!("codex.{kind}")).collect();
    expected.sort();
    assert_eq!(kept, expected);
    let text = String::from_utf8(corpus(&name)).expect("text");
    let data = |kind: &str| {
        let custom = view.records.iter().find_map(|record| match record.record.body() {
            Body::Custom(custom) if custom.name == format!("codex.{kind}") => {
                Some(custom.data.get())
            }
            _ => None,
        });
        custom.expect("it is kept")
    };
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines[2].contains(data("sub_agent_activity")));
    for (line, kind) in [(3, "hologram"), (4, "quantum_state"), (6, "line")] {
        assert_eq!(data(kind), lines[line]);
    }
    let sent = context(&name);
    assert_eq!(
        sent[..3],
        ["user: Survey the site.", "assistant: AFTER-37 surveyed.", "assistant: kept"]
    );
}

/// Covers: #146, #147. A turn that began and did not end is interrupted. (Whether a process is
/// at it is seen from its lock.)
#[test]
fn a_turn_without_an_end_is_interrupted() {
    let view = transcript(&case("51-in-flight-turn"));
    assert_eq!(findings(&view), ["interrupted-turn@8", "interrupted-call@11"]);
    assert_eq!(prompts(&view), ["user: Bake the test tile.", "user: LEAF-51 now bake all forty."]);
    let note = |f: &segno_model::finding::Finding| f.severity;
    assert!(view.findings.iter().map(note).all(|s| s == segno_model::finding::Severity::Note));

    for name in ["killed-mid-tool", "sigterm-mid-tool"] {
        let view = transcript(&fixture(name));
        assert_eq!(findings(&view), ["interrupted-turn@2", "interrupted-call@11"], "{name}");
        context(&fixture(name));
    }
    let view = transcript(&fixture("killed-mid-stream"));
    assert_eq!(findings(&view), ["interrupted-turn@2"]);
    assert_eq!(sent(&view), [&CONTEXT[..], &["user: HANGMID please"]].concat());
}

#[test]
fn a_session_that_was_killed_and_resumed_goes_on() {
    let name = fixture("killed-mid-tool-then-resumed");
    let view = transcript(&name);
    assert_eq!(findings(&view), ["interrupted-turn@2", "interrupted-call@11"]);
    let sent = context(&name);
    let unknown = sent.iter().position(|line| line.contains("outcome of this call is unknown"));
    let after = sent.iter().position(|line| line == "user: SAY: continuing after crash");
    assert!(unknown.is_some() && unknown < after, "{sent:?}");
    assert_eq!(spent(&view).len(), 2);
}

#[test]
fn subagents_know_their_parents() {
    let child = transcript(&fixture("subagent-child"));
    assert_eq!(child.facts.parent.as_deref(), Some("01a2290e-a552-7311-9381-7f47a391d53c"));
    assert_eq!(child.facts.role.as_deref(), Some("Arendt"));
    assert_eq!(child.facts.id.as_deref(), Some("01a2290e-a5ec-7531-bf2d-a1e27a7d12e0"));
    assert_eq!(prompts(&child), ["user: SAY: hi from the child"]);
    assert_eq!(notices(&child), ["developer", "environment", "interrupted"]);
    assert!(findings(&child).is_empty());

    let parent = transcript(&fixture("subagent-parent"));
    let started: Vec<(String, String)> = parent
        .records
        .iter()
        .filter_map(|record| match record.record.body() {
            Body::Child(child) => Some((child.child.clone(), child.call_id.clone())),
            _ => None,
        })
        .collect();
    let expected = ("01a2290e-a5ec-7531-bf2d-a1e27a7d12e0", "call_15cc824433e747feb05b8787");
    assert_eq!(started, [(expected.0.to_owned(), expected.1.to_owned())]);
    assert!(findings(&parent).is_empty());
    context(&fixture("subagent-parent"));
    context(&fixture("subagent-child"));
}

#[test]
fn sessions_are_found_with_their_names() {
    let home = Home::new();
    let other = "019c0000-00bb-7000-8000-0000000000bb";
    home.put(ID, script(ID, &["user: one", "agent: two"]));
    home.put_at("archived_sessions", other, ".jsonl", script(other, &["user: one", "agent: two"]));
    home.put_at("sessions/2026/11/29", "no-id", ".jsonl", "");
    fs::write(home.path().join("sessions/notes.txt"), "x").expect("a file");
    let index = format!(
        "{{\"id\":\"{ID}\",\"thread_name\":\"first\",\"updated_at\":\"2026-03-02T09:00:00Z\"}}\n\
         not JSON\n\
         {{\"id\":\"{ID}\",\"thread_name\":\"kiln\",\"updated_at\":\"2026-03-02T10:00:00Z\"}}\n\
         {{\"id\":\"{ID}\",\"thread_na"
    );
    fs::write(home.path().join("session_index.jsonl"), index).expect("a file");
    let found = home.locate();
    let told: Vec<_> = found.iter().map(|s| (s.id.as_deref(), s.archived)).collect();
    assert_eq!(told, [(Some(other), true), (Some(ID), false)]);
    let views: Vec<View> =
        found.iter().map(|session| View::transcript(session).expect("it is read")).collect();
    assert!(views[0].facts.archived && !views[1].facts.archived);
    assert_eq!(views[1].facts.named.as_deref(), Some("kiln"));
    assert_eq!((&views[0].facts.named, findings(&views[0]).len()), (&None, 0));
    assert_eq!(findings(&views[1]), ["damaged-index"]);

    // The variable moves everything.
    let roots = Roots {
        home: PathBuf::from("/nowhere"),
        env: [("CODEX_HOME".to_owned(), home.path().display().to_string())].into(),
        ..Roots::default()
    };
    assert_eq!(locate(&roots).0.len(), 2);
}

/// The first files had no wrapper around items.
#[test]
fn the_oldest_files_are_read() {
    let home = Home::new();
    let header = format!(
        r#"{{"id":"{ID}","timestamp":"2025-05-01T09:00:00.000Z","instructions":null,"git":{{}}}}"#
    );
    let lines = [
        header,
        r#"{"record_type":"state"}"#.to_owned(),
        user("one"),
        r#"{"type":"function_call","id":"fc_1","name":"shell","arguments":"{}","call_id":"c1"}"#
            .to_owned(),
        r#"{"type":"function_call_output","call_id":"c1","output":"x"}"#.to_owned(),
        agent("two"),
    ];
    let view = read(&home.put(ID, lines.join("\n")));
    let expected = ["user: one", "call shell c1 {}", "result c1: x", "assistant: two"];
    assert_eq!(said(&view), expected);
    assert_eq!((view.facts.id.as_deref(), view.facts.format.as_deref()), (Some(ID), Some("bare")));
    assert!(findings(&view).is_empty(), "{:?}", view.findings);
}

#[test]
fn other_tools_images_and_settings() {
    let view = scene(&[
        r#"row turn_context {"cwd":"/srv/other","model":"gpt-5","effort":"high"}"#,
        r#"item {"type":"message","role":"user","content":[{"type":"input_text","text":"look"},{"type":"input_image","image_url":"data:image/png;base64,AAAA"}]}"#,
        r#"item {"type":"local_shell_call","call_id":"c1","status":"completed","action":{"type":"exec","command":["ls"]}}"#,
        r#"item {"type":"custom_tool_call","call_id":"c2","name":"apply_patch","input":"*** Begin"}"#,
        r#"item {"type":"web_search_call","status":"completed","action":{"type":"search","query":"q"}}"#,
        "result c1: a.txt",
        r#"item {"type":"custom_tool_call_output","call_id":"c2","output":[{"type":"input_text","text":"done"},{"type":"input_image","image_url":"data:image/jpeg;base64,BBBB"}]}"#,
        r#"event {"type":"thread_name_updated","thread_id":"x","thread_name":"pictures"}"#,
        r#"row turn_context {"cwd":"/srv/other","model":"gpt-5-mini","collaboration_mode":{"mode":"default","settings":{"reasoning_effort":"low"}}}"#,
        r#"row inter_agent_communication {"author":"/root/a","recipient":"/root","content":"found it","trigger_turn":true}"#,
        "agent: ok",
    ]);
    let expected = [
        "model",
        "thinking",
        "user: look | [image/png]",
        r#"call local_shell c1 {"type":"exec","command":["ls"]}"#,
        r#"call apply_patch c2 {"input":"*** Begin"}"#,
        "result c1: a.txt",
        "result c2: done | [image/jpeg]",
        "model",
        "thinking",
        "user: found it",
        "assistant: ok",
    ];
    assert_eq!(said(&view), expected);
    assert_eq!(notices(&view), ["agent"]);
    assert_eq!(view.facts.named.as_deref(), Some("pictures"));
    assert_eq!(view.facts.cwd.as_deref(), Some("/srv/other"));
    let models: Vec<String> = messages(&view)
        .iter()
        .filter_map(|(_, message)| match message {
            Message::Assistant(reply) => Some(reply.model.to_string()),
            _ => None,
        })
        .collect();
    assert_eq!(models, ["openai/gpt-5", "openai/gpt-5-mini"]);
    assert!(findings(&view).is_empty(), "{:?}", view.findings);
}

#[test]
fn tokens_that_begin_again_and_belong_to_nobody_count_once() {
    let count = |total: u64, last: u64| {
        format!(
            r#"event {{"type":"token_count","info":{{"total_token_usage":{{"input_tokens":{total},"cached_input_tokens":0,"output_tokens":0,"total_tokens":{total}}},"last_token_usage":{{"input_tokens":{last},"cached_input_tokens":4,"output_tokens":0,"total_tokens":{last}}}}}}}"#
        )
    };
    let view = scene(&[
        "user: one",
        "agent: two",
        &count(100, 100),
        r#"event {"type":"token_count","info":null,"rate_limits":{}}"#,
        &count(130, 30),
        "user: three",
        "agent: four",
        &count(40, 40),
    ]);
    let spent: Vec<u64> = spent(&view).iter().map(|(_, tokens)| *tokens).collect();
    assert_eq!(spent, [100, 30, 40]);
}

/// Covers: #147. A session is running while its lock is held, and not a moment longer.
#[cfg(target_os = "linux")]
#[test]
fn a_locked_session_is_running() {
    use segno_store::foreign::running;

    let home = Home::new();
    home.put(ID, script(ID, &["user: one"]));
    let locks = home.path().join("thread-writer-locks");
    fs::create_dir_all(&locks).expect("a folder");
    let file = fs::File::create(locks.join(format!("{ID}.lock"))).expect("a file");
    let roots = Roots { home: home.dir.path().to_owned(), ..Roots::default() };
    assert!(running(&roots).is_empty());
    file.lock().expect("it is free");
    let found = running(&roots);
    let told: Vec<_> = found.iter().map(|r| (r.agent, r.id.as_str(), r.pid, r.waiting)).collect();
    assert_eq!(told, [(Agent::Codex, ID, std::process::id(), None)]);
    drop(file);
    assert!(running(&roots).is_empty());
}
