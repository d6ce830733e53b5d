//! Shapes that no file of the corpus has, built row by row.

use super::{kept, prompts, results, said};
use crate::scene::{context_lines, findings};
use segno_model::Body;
use segno_model::record::{Established, Outcome};
use segno_store::foreign::{Agent, Roots, View, locate, recognise, running};
use serde_json::{Value, json};
use std::fs;
use std::path::Path;

const SESSION: &str = "c0de9999-1111-4111-8111-000000000001";

/// A row of the chain: `kind id<parent`, a dash for no parent, with more fields.
fn row(head: &str, more: Value) -> String {
    let (kind, rest) = head.split_once(' ').expect("kind and id");
    let (id, parent) = rest.split_once('<').expect("id and parent");
    let parent = Some(parent).filter(|parent| *parent != "-");
    let mut row = json!({
        "parentUuid": parent, "isSidechain": false, "type": kind, "uuid": id,
        "sessionId": SESSION, "version": "2.1.332", "cwd": "/srv/x",
        "timestamp": "2026-03-02T09:00:07.000Z",
    });
    let all = row.as_object_mut().expect("an object");
    all.extend(fields(more));
    row.to_string()
}

fn fields(value: Value) -> serde_json::Map<String, Value> {
    match value {
        Value::Object(fields) => fields,
        other => panic!("no object: {other}"),
    }
}

/// Something that a person said.
fn user(link: &str, text: &str) -> String {
    row(&format!("user {link}"), json!({"message": {"role": "user", "content": text}}))
}

/// A row of the response `message` with one block.
fn reply(link: &str, message: &str, block: &Value) -> String {
    let message = json!({"id": message, "model": "claude-x", "content": [block],
        "usage": {"input_tokens": 3, "output_tokens": 5}});
    row(&format!("assistant {link}"), json!({"message": message, "requestId": "r"}))
}

fn text(text: &str) -> Value {
    json!({"type": "text", "text": text})
}

fn call(id: &str) -> Value {
    json!({"type": "tool_use", "id": id, "name": "Bash", "input": {"command": "x"}})
}

fn result(link: &str, call: &str, text: &str, more: Value) -> String {
    let block = json!({"type": "tool_result", "tool_use_id": call, "content": text});
    let mut all = json!({"message": {"role": "user", "content": [block]}});
    all.as_object_mut().expect("an object").extend(fields(more));
    row(&format!("user {link}"), all)
}

/// Reads rows as a session's file.
fn read(rows: &[String]) -> View {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join(format!("{SESSION}.jsonl"));
    fs::write(&path, rows.iter().map(|row| format!("{row}\n")).collect::<String>())
        .expect("written");
    View::transcript(&recognise(&path).expect("recognised")).expect("readable")
}

fn sent(view: &View) -> Vec<String> {
    let mut lines = context_lines(&view.context());
    if lines.last().is_some_and(|line| line.starts_with("user: (Segno")) {
        lines.pop();
    }
    lines
}

/// Covers: G6, #24.
#[test]
fn results_between_the_rows_of_one_response_do_not_divide_it() {
    let view = read(&[
        user("u<-", "go"),
        reply("a1<u", "m", &text("on it")),
        reply("a2<a1", "m", &call("c1")),
        result("r1<a2", "c1", "one", json!({})),
        reply("a3<a2", "m", &call("c2")),
        json!({"type": "mode", "mode": "normal"}).to_string(),
        result("r2<a3", "c2", "two", json!({})),
        reply("b<r2", "n", &text("done")),
    ]);
    assert_eq!(findings(&view), [""; 0]);
    assert_eq!(
        sent(&view),
        [
            "user: go",
            "assistant: on it",
            "call Bash c1 {\"command\":\"x\"}",
            "call Bash c2 {\"command\":\"x\"}",
            "result c1: one",
            "result c2: two",
            "assistant: done",
        ]
    );
    let replies = super::replies(&view);
    assert_eq!(replies.len(), 2);
    assert_eq!(view.records.iter().filter(|read| read.response.is_some()).count(), 2);
}

/// Covers: #155.
#[test]
fn a_response_that_something_else_divides_is_counted_once() {
    let view = read(&[
        user("u<-", "go"),
        reply("a<u", "m", &text("one")),
        user("v<a", "wait"),
        reply("b<v", "m", &text("two")),
    ]);
    assert_eq!(said(&view)[1..], ["assistant: one", "user: wait", "assistant: two"]);
    assert_eq!(super::replies(&view).iter().filter(|reply| reply.usage.is_some()).count(), 1);
    assert_eq!(view.records.iter().filter(|read| read.response.is_some()).count(), 1);
}

/// An agent that was fed turn by turn wrote everything again each time, under new ids.
/// Covers: #101.
#[test]
fn history_that_is_written_again_with_each_turn_is_told_and_counts_once() {
    let turns = ["one", "two", "three", "four"];
    let mut rows = Vec::new();
    for turn in 1..=turns.len() {
        let mut above = "-".to_owned();
        for (n, words) in turns[..turn].iter().enumerate() {
            let (asked, said) = (format!("u{turn}-{n}"), format!("a{turn}-{n}"));
            rows.push(user(&format!("{asked}<{above}"), words));
            rows.push(reply(&format!("{said}<{asked}"), &format!("m{n}"), &text(words)));
            above = said;
        }
    }
    let view = read(&rows);
    let expected: Vec<String> =
        turns.iter().flat_map(|t| [format!("user: {t}"), format!("assistant: {t}")]).collect();
    assert_eq!(sent(&view), expected);
    let told = findings(&view);
    let repeated = told.iter().filter(|told| told.contains("history-repeated")).count();
    assert_eq!(repeated, turns.len() - 1, "{told:?}");
    let names: std::collections::BTreeSet<_> =
        view.records.iter().filter_map(|read| read.response.clone()).collect();
    assert_eq!(names.len(), turns.len(), "each response counts once");
}

/// Covers: G3.
#[test]
fn what_is_said_again_is_no_repeated_history() {
    let view = read(&[
        user("u<-", "go on"),
        reply("a<u", "m", &text("done")),
        user("v<a", "go on"),
        reply("b<v", "n", &text("done, too")),
        user("w<b", "go on"),
        reply("c<w", "o", &text("once more")),
    ]);
    assert_eq!(findings(&view), [""; 0]);
}

/// Covers: G3.
#[test]
fn a_row_that_is_written_twice_counts_once() {
    let rows = [
        user("u<-", "go"),
        reply("a1<u", "m", &text("on it")),
        reply("a2<a1", "m", &call("c1")),
        result("r1<a2", "c1", "one", json!({})),
        reply("a3<a2", "m", &call("c2")),
        result("r2<a3", "c2", "two", json!({})),
    ];
    let twice: Vec<String> = rows.iter().flat_map(|row| [row.clone(), row.clone()]).collect();
    let (once, twice) = (read(&rows), read(&twice));
    assert_eq!(said(&twice), said(&once));
    assert_eq!(sent(&twice), sent(&once));
    assert_eq!(super::replies(&twice).len(), 1);
    assert_eq!(findings(&twice).len(), 6);
    let all: Vec<String> = rows.iter().chain(&rows).cloned().collect();
    assert_eq!(said(&read(&all)), said(&once));
    assert_eq!(findings(&read(&all)), ["duplicate-record@7"]);
}

/// Covers: G2, G3.
#[test]
fn a_part_of_a_torn_row_is_no_row() {
    let torn = reply("a<u", "m", &text("ok"));
    let torn = &torn[..torn.rfind(",\"parentUuid\"").or(torn.find(",\"requestId\"")).expect("one")];
    let view = read(&[user("u<-", "go"), torn.to_owned(), user("v<u", "on")]);
    assert_eq!(findings(&view), ["torn-line@2"]);
    assert_eq!(view.records.len(), 2);
}

/// Two terminals, or a rewind: what came last goes on, and the other branch stays readable.
///
/// Covers: G3, #30.
#[test]
fn the_last_branch_is_current_and_the_others_stay_in_the_transcript() {
    let view = read(&[
        user("u1<-", "1"),
        reply("a1<u1", "m1", &text("2")),
        user("u2<a1", "3"),
        reply("a2<u2", "m2", &text("4")),
        user("x<a1", "4x"),
        reply("y<x", "m3", &text("4y")),
    ]);
    assert_eq!(sent(&view), ["user: 1", "assistant: 2", "user: 4x", "assistant: 4y"]);
    assert_eq!(said(&view).len(), 6);
    assert_eq!(findings(&view), [""; 0]);
}

/// Covers: #35, #58.
#[test]
fn a_first_record_may_follow_another_file_or_answer_nothing() {
    let view = read(&[user("u<elsewhere", "go on"), reply("a<u", "m", &text("yes"))]);
    assert_eq!(findings(&view), ["continued-from@1"]);
    assert_eq!(sent(&view), ["user: go on", "assistant: yes"]);
    assert_eq!(view.facts.first_id.as_deref(), Some("u"));

    let goes_on = json!({"type": "continued-in", "continuedInSessionId": "next"}).to_string();
    let view =
        read(&[result("r<-", "c", "requires approval", json!({})), user("u<r", "go"), goes_on]);
    assert_eq!(findings(&view), ["orphan-result@1"]);
    assert_eq!(sent(&view), ["user: go"]);
    assert_eq!(view.facts.continued_in.as_deref(), Some("next"));
}

/// Covers: G3, #28.
#[test]
fn an_id_that_is_used_again_for_something_else_makes_a_second_record() {
    let view = read(&[user("u<-", "one"), user("u<-", "another"), reply("a<u", "m", &text("yes"))]);
    assert_eq!(findings(&view), ["duplicate-record@2"]);
    assert_eq!(said(&view), ["user: one", "user: another", "assistant: yes"]);
    assert_eq!(sent(&view), ["user: another", "assistant: yes"]);
}

/// Ids of calls and ids of records are two kinds: one text may be both, and a result is not lost to a later record.
/// Covers: #28.
#[test]
fn a_record_may_have_the_id_of_a_call() {
    let view = read(&[
        user("u<-", "go"),
        reply("a<u", "m", &call("c1")),
        result("c1<a", "c1", "OUT-28", json!({})),
        reply("b<c1", "n", &text("seen")),
        // Another record under the id of the result, which is that of the call.
        reply("c1<b", "o", &call("c1")),
        user("v<b", "next"),
    ]);
    assert_eq!(findings(&view), ["duplicate-record@5", "missing-parent@4", "interrupted-call@5"]);
    assert!(said(&view).contains(&"result c1: OUT-28".to_owned()), "{:?}", said(&view));
    assert_eq!(
        sent(&view)[..4],
        ["user: go", "call Bash c1 {\"command\":\"x\"}", "result c1: OUT-28", "assistant: seen"]
    );
}

/// Covers: G3.
#[test]
fn circles_and_rows_that_hang_on_themselves_end() {
    let view = read(&[
        user("u<u", "self"),
        user("v<w", "circle"),
        user("w<v", "circle too"),
        reply("a<w", "m", &text("yes")),
    ]);
    assert_eq!(findings(&view), ["continued-from@1", "missing-parent@2"]);
    assert_eq!(sent(&view), ["user: self", "user: circle", "user: circle too", "assistant: yes"]);
}

/// What later rows hang on stands twice: before the summary and behind it.
///
/// Covers: G6, #51.
#[test]
fn rows_that_hang_on_a_preserved_one_come_after_the_summary() {
    let boundary = |preserved: Value| {
        let more = json!({"subtype": "compact_boundary", "logicalParentUuid": "a",
            "compactMetadata": preserved});
        row("system b<-", more)
    };
    let summary = row(
        "user s<b",
        json!({"isCompactSummary": true,
        "message": {"role": "user", "content": "SUM"}}),
    );
    let messages = json!({"preservedMessages": {"anchorUuid": "s", "uuids": ["a", "gone"]}});
    let segment =
        json!({"preservedSegment": {"headUuid": "a", "anchorUuid": "s", "tailUuid": "a"}});
    for (preserved, told) in [(messages, vec!["missing-kept-record@4"]), (segment, vec![])] {
        let view = read(&[
            user("u<-", "old"),
            reply("a<u", "m", &text("kept")),
            boundary(preserved),
            summary.clone(),
            user("v<a", "new"),
        ]);
        assert_eq!(findings(&view), told);
        let sent = sent(&view);
        assert!(sent[0].contains("SUM"), "{sent:?}");
        assert_eq!(sent[1..], ["assistant: kept", "user: new"]);
    }
}

/// A boundary without its summary is an interrupted compaction.
///
/// Covers: G4.
#[test]
fn a_boundary_alone_takes_nothing_away() {
    let boundary =
        row("system b<-", json!({"subtype": "compact_boundary", "logicalParentUuid": "a"}));
    let view = read(&[user("u<-", "old"), reply("a<u", "m", &text("yes")), boundary]);
    assert_eq!(sent(&view), ["user: old", "assistant: yes"]);
}

#[test]
fn results_that_were_taken_out_or_replaced_are_edits() {
    let cleared = row(
        "system x<r2",
        json!({"subtype": "microcompact_boundary",
        "microcompactMetadata": {"compactedToolIds": ["c1", "unknown"]}}),
    );
    let replaced = json!({"type": "content-replacement",
        "replacements": [{"kind": "tool-result", "toolUseId": "c2", "replacement": "short"}]});
    let view = read(&[
        user("u<-", "go"),
        reply("a1<u", "m", &call("c1")),
        reply("a2<a1", "m", &call("c2")),
        result("r1<a1", "c1", "long", json!({})),
        result("r2<a2", "c2", "longer", json!({})),
        cleared,
        replaced.to_string(),
        user("v<x", "on"),
    ]);
    assert_eq!(sent(&view)[3..], ["result c1: (left out)", "result c2: short", "user: on"]);
    assert!(said(&view).contains(&"result c1: long".to_owned()));
}

/// Covers: G7.
#[test]
fn outcomes_are_what_the_rows_establish() {
    let refused = "The user doesn't want to proceed with this tool use.";
    let decided = |decision: &str| json!({"permissionDecision": {"decision": decision}});
    let table = [
        ("ok", json!({}), (Outcome::Done, Established::Origin)),
        (
            "x",
            json!({"toolUseResult": {"interrupted": true}}),
            (Outcome::Stopped, Established::Stop),
        ),
        (
            refused,
            json!({"toolDenialKind": "user-rejected"}),
            (Outcome::Denied, Established::Permission),
        ),
        (refused, decided("reject"), (Outcome::Denied, Established::Permission)),
        // It ran already: the same words, another truth.
        (refused, decided("accept"), (Outcome::Stopped, Established::Stop)),
        (refused, json!({}), (Outcome::Stopped, Established::Stop)),
        ("x", json!({"toolDenialKind": "cancelled"}), (Outcome::Stopped, Established::Stop)),
        (
            "[Request interrupted by user for tool use]",
            json!({}),
            (Outcome::Stopped, Established::Stop),
        ),
        (
            "[Tool call interrupted: the session ended before",
            json!({"toolDenialKind": "interrupted"}),
            (Outcome::Unknown, Established::Recovery),
        ),
    ];
    for (said, more, expected) in table {
        let view = read(&[
            user("u<-", "go"),
            reply("a<u", "m", &call("c")),
            result("r<a", "c", said, more.clone()),
        ]);
        let result = results(&view)[0];
        assert_eq!((result.outcome, result.established), expected, "{said} {more}");
    }
}

/// Covers: G9, #72.
#[test]
fn what_the_agent_puts_on_the_persons_side_is_a_notice() {
    let attach = |link: &str, attachment: Value, more: Value| {
        let mut all = json!({"attachment": attachment});
        all.as_object_mut().expect("an object").extend(fields(more));
        row(&format!("attachment {link}"), all)
    };
    let queued =
        |mode: &str| json!({"type": "queued_command", "prompt": mode, "commandMode": mode});
    let rendered = |role: &str| json!({"rendered": [{"content": role}], "renderedRole": role});
    let view = read(&[
        user("u<-", "typed"),
        reply("a<u", "m", &text("ok")),
        attach("q1<a", queued("prompt"), json!({})),
        attach("q2<q1", queued("task-notification"), json!({})),
        attach("q3<q2", json!({"type": "date"}), rendered("user")),
        attach("q4<q3", json!({"type": "environment"}), rendered("system")),
        row("user m<q4", json!({"isMeta": true, "message": {"role": "user", "content": "skill"}})),
        row(
            "system l<m",
            json!({"subtype": "local_command",
            "content": "<command-name>/cost</command-name>"}),
        ),
        user("i<l", "[Request interrupted by user]"),
        row(
            "assistant e<i",
            json!({"isApiErrorMessage": true,
            "message": {"id": "x", "model": "<synthetic>", "content": [text("API Error: 500")]}}),
        ),
        row(
            "user t<e",
            json!({"isVisibleInTranscriptOnly": true,
            "message": {"role": "user", "content": "shown"}}),
        ),
        user("v<t", "typed too"),
    ]);
    let typed: Vec<_> = prompts(&view).iter().map(|p| format!("{:?}", p.content)).collect();
    assert_eq!(typed.len(), 3, "{typed:?}");
    let reasons: Vec<_> = super::messages(&view)
        .filter_map(|message| match message {
            segno_model::record::Message::User(user) => user.notice.as_deref(),
            _ => None,
        })
        .collect();
    assert_eq!(reasons, ["meta", "reminder", "meta", "command", "interrupted"]);
    assert_eq!(view.facts.command.as_deref(), Some("/cost"));
    assert_eq!(
        sent(&view)[1..],
        [
            "assistant: ok",
            "user: prompt",
            "user: task-notification",
            "user: user",
            "user: skill",
            "user: <command-name>/cost</command-name>",
            "user: [Request interrupted by user]",
            "user: typed too",
        ]
    );
    assert!(kept(&view).contains(&"claude.assistant"));
}

#[test]
fn subagents_in_the_sessions_own_file_have_trees_of_their_own() {
    let side = |mut row: String, agent: Option<&str>| {
        row = row.replace("\"isSidechain\":false", "\"isSidechain\":true");
        if let Some(agent) = agent {
            row = row.replacen('{', &format!("{{\"agentId\":\"{agent}\","), 1);
        }
        row
    };
    let view = read(&[
        user("u<-", "go"),
        reply("a<u", "m", &call("c")),
        side(user("s1<-", "task one"), None),
        side(user("t1<-", "task two"), Some("two")),
        side(reply("s2<s1", "n", &text("one")), None),
        side(reply("t2<t1", "o", &text("two")), Some("two")),
        result("r<a", "c", "both", json!({})),
        reply("b<r", "p", &text("done")),
    ]);
    assert_eq!(findings(&view), [""; 0]);
    let main = ["user: go", "call Bash c {\"command\":\"x\"}", "result c: both", "assistant: done"];
    assert_eq!(said(&view), main);
    assert_eq!(sent(&view), main);
    let agents: Vec<_> =
        view.records.iter().filter_map(|read| Some((read.subagent.as_deref()?, read))).collect();
    assert_eq!(agents.iter().map(|(id, _)| *id).collect::<Vec<_>>(), ["s1", "two", "s1", "two"]);
    assert_eq!(agents[0].1.record.envelope.parent, None);
    assert_eq!(agents[2].1.record.envelope.parent, Some(agents[0].1.record.seq()));
    assert_eq!(agents[3].1.record.envelope.parent, Some(agents[1].1.record.seq()));
}

/// Covers: #135.
#[test]
fn a_file_with_nothing_but_queued_prompts_is_a_session() {
    let row = |operation: &str, content: Option<&str>| {
        json!({"type": "queue-operation", "operation": operation, "content": content,
            "timestamp": "2026-03-02T09:00:07.000Z", "sessionId": SESSION})
        .to_string()
    };
    let view = read(&[row("enqueue", Some("a")), row("dequeue", None), row("enqueue", Some("b"))]);
    assert_eq!(view.facts.pending, ["a", "b"]);
    assert_eq!(view.facts.id.as_deref(), Some(SESSION));
    assert!(view.facts.created.is_some());
}

/// A summary may speak about another session; the last word on a name is a person's.
///
/// Covers: #72.
#[test]
fn titles_and_names_are_this_sessions_and_the_last_ones() {
    let aside = |value: Value| value.to_string();
    let view = read(&[
        aside(json!({"type": "summary", "summary": "other work", "leafUuid": "elsewhere"})),
        aside(json!({"type": "summary", "summary": "this work", "leafUuid": "a"})),
        user("u<-", "go"),
        reply("a<u", "m", &text("ok")),
        aside(json!({"type": "custom-title", "customTitle": "first", "sessionId": SESSION})),
        aside(json!({"type": "custom-title", "customTitle": "second", "sessionId": SESSION})),
    ]);
    assert_eq!(view.facts.titled.as_deref(), Some("this work"));
    assert_eq!(view.facts.named.as_deref(), Some("second"));
}

/// Covers: G13.
#[test]
fn unknown_kinds_and_shapes_are_kept_and_break_no_chain() {
    let strange = row("hologram h<u", json!({"depth": 3}));
    let broken = row("user x<h", json!({"message": {"content": 7}}));
    let block = reply("a<x", "m", &json!({"type": "server_tool_use", "id": "z"}));
    let more = reply("a2<a", "m", &text("ok"));
    let array = "[1, 2]".to_owned();
    let rows = [user("u<-", "go"), strange, broken, block, more, array];
    let view = read(&rows);
    assert_eq!(findings(&view), ["odd-field@3", "unknown-record@6"]);
    assert_eq!(sent(&view), ["user: go", "assistant: ok"]);
    let raw = |at: usize| rows[at].as_str();
    let all: Vec<_> = view
        .records
        .iter()
        .filter_map(|read| match read.record.body() {
            Body::Custom(custom) => Some((custom.name.as_str(), custom.data.get())),
            _ => None,
        })
        .collect();
    // A response comes in the place of its first row, when its last one was read.
    for kept in [("claude.hologram", raw(1)), ("claude.row", raw(2)), ("claude.row", raw(3))] {
        assert!(all.contains(&kept), "{kept:?}");
    }
    assert!(all.contains(&("claude.row", raw(5))), "{all:?}");
}

#[test]
fn rows_that_name_another_session_are_told_once() {
    let other = |row: String| row.replace(SESSION, "c0de9999-1111-4111-8111-00000000000f");
    let view = read(&[user("u<-", "go"), other(user("v<u", "x")), other(user("w<v", "y"))]);
    assert_eq!(findings(&view), ["other-session@2"]);
    assert_eq!(view.facts.id.as_deref(), Some(SESSION));
    assert_eq!(sent(&view).len(), 3);
}

fn write(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().expect("a parent")).expect("made");
    fs::write(path, text).expect("written");
}

/// Covers: #85, #140.
#[test]
fn sessions_and_subagents_are_found_in_all_places() {
    let home = tempfile::tempdir().expect("a directory");
    let old = home.path().join(".claude/projects/-srv-x");
    let new = home.path().join(".config/claude/projects/-srv-y");
    write(&old.join("one.jsonl"), "{}");
    write(&old.join("one/subagents/agent-a1.jsonl"), "{}");
    write(&old.join("one/tool-results/x.jsonl"), "{}");
    write(&old.join("agent-b2.jsonl"), "{}");
    write(&old.join("notes.txt"), "");
    write(&new.join("two.jsonl"), "{}");
    let elsewhere = tempfile::tempdir().expect("a directory");
    write(&elsewhere.path().join("three.jsonl"), "{}");
    let linked = home.path().join(".claude/projects/-linked");
    std::os::unix::fs::symlink(elsewhere.path(), linked).expect("linked");
    std::os::unix::fs::symlink(&old, home.path().join(".claude/projects/-again")).expect("linked");

    let found = |env: &[(&str, &Path)]| {
        let env = env.iter().map(|(name, dir)| ((*name).to_owned(), dir.display().to_string()));
        let env = env.collect();
        let roots = Roots { home: home.path().to_owned(), env, ..Roots::default() };
        let (found, failed) = locate(&roots);
        assert!(failed.is_empty(), "{failed:?}");
        let claude = found.into_iter().filter(|located| located.agent == Agent::Claude);
        let mut all: Vec<_> =
            claude.map(|l| (l.id.unwrap_or_default(), l.parent.unwrap_or_default())).collect();
        all.sort();
        all.into_iter().map(|(id, parent)| format!("{id}<{parent}")).collect::<Vec<_>>()
    };
    assert_eq!(found(&[]), ["a1<one", "b2<", "one<", "three<", "two<"]);
    let moved = home.path().join("moved");
    write(&moved.join("projects/-p/four.jsonl"), "{}");
    assert_eq!(found(&[("CLAUDE_CONFIG_DIR", &moved)]), ["four<"]);
}

/// Covers: G5.
#[test]
fn running_sessions_are_those_whose_process_is_still_the_same() {
    let home = tempfile::tempdir().expect("a directory");
    let pid = std::process::id();
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let started = stat.rsplit(')').next().and_then(|rest| rest.split_whitespace().nth(19));
    let Some(started) = started.map(str::to_owned) else {
        return segno_testkit::skipped("the system does not say when a process started");
    };
    let entry = |id: &str, pid: u32, started: &str, status: &str| {
        let entry = json!({"pid": pid, "sessionId": id, "procStart": started, "status": status});
        let file = format!(".claude/sessions/{id}.json");
        write(&home.path().join(file), &entry.to_string());
    };
    entry("here", pid, &started, "busy");
    entry("waits", pid, &started, "idle");
    entry("reused", pid, "1", "busy");
    entry("gone", 0x7fff_fff0, &started, "busy");
    write(&home.path().join(".claude/sessions/torn.json"), "{\"pid\":");
    let roots = Roots { home: home.path().to_owned(), ..Roots::default() };
    let mut all: Vec<_> = running(&roots).into_iter().map(|r| (r.id, r.pid, r.waiting)).collect();
    all.sort();
    let expected = [("here", Some(false)), ("waits", Some(true))];
    assert_eq!(all, expected.map(|(id, waiting)| (id.to_owned(), pid, waiting)));
}
