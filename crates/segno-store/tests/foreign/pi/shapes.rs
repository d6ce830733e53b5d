//! What the formats can say that no file of the corpus says, and what must come of it.

use crate::scene::{context_lines, corpus, findings, lines, transcript};
use segno_model::Body;
use segno_model::record::{AssistantBlock, Message};
use segno_store::foreign::{ForeignRecord, Roots, View, locate, recognise};
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::MetadataExt;

const HEADER: &str =
    r#"{"type":"session","version":3,"id":"s","timestamp":"2026-03-02T09:00:00.000Z","cwd":"/w"}"#;

/// A session of these lines behind a header.
pub(super) fn told(rows: &[String]) -> View {
    let rows: Vec<&str> = rows.iter().map(String::as_str).collect();
    read(&[&[HEADER], &rows[..]].concat())
}

/// A session of these lines.
fn read(rows: &[&str]) -> View {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s.jsonl");
    fs::write(&path, rows.iter().map(|row| format!("{row}\n")).collect::<String>()).unwrap();
    let session = recognise(&path).unwrap();
    let view = View::transcript(&session).unwrap();
    let active = View::active(&session).unwrap();
    assert_eq!(context_lines(&active.context()), context_lines(&view.context()));
    view
}

fn parent_json(parent: &str) -> String {
    if parent.is_empty() { "null".to_owned() } else { format!("{parent:?}") }
}

/// An entry of a type, with what else stands in it.
fn entry(what: &str, id: &str, parent: &str, rest: &str) -> String {
    let parent = parent_json(parent);
    format!(
        r#"{{"type":"{what}","id":"{id}","parentId":{parent},"timestamp":"2026-03-02T09:00:01.000Z",{rest}}}"#
    )
}

pub(super) fn user(id: &str, parent: &str, text: &str) -> String {
    entry("message", id, parent, &format!(r#""message":{{"role":"user","content":"{text}"}}"#))
}

pub(super) fn reply(id: &str, parent: &str, text: &str) -> String {
    let message = format!(
        r#""message":{{"role":"assistant","content":[{{"type":"text","text":"{text}"}}],"provider":"p","model":"m","stopReason":"stop"}}"#
    );
    entry("message", id, parent, &message)
}

pub(super) fn call(id: &str, parent: &str, call: &str, arguments: &str) -> String {
    let message = format!(
        r#""message":{{"role":"assistant","content":[{{"type":"toolCall","id":"{call}","name":"t","arguments":{arguments}}}],"provider":"p","model":"m","stopReason":"toolUse"}}"#
    );
    entry("message", id, parent, &message)
}

pub(super) fn result(id: &str, parent: &str, call: &str, text: &str) -> String {
    let message = format!(
        r#""message":{{"role":"toolResult","toolCallId":"{call}","toolName":"t","content":[{{"type":"text","text":"{text}"}}],"isError":false}}"#
    );
    entry("message", id, parent, &message)
}

fn edit(id: &str, parent: &str, target: &str, replacement: &str) -> String {
    entry(
        "context_edit",
        id,
        parent,
        &format!(r#""targetId":"{target}","replacement":{replacement}"#),
    )
}

/// The context without our own notices.
fn sent(view: &View) -> Vec<String> {
    let lines = context_lines(&view.context());
    lines.into_iter().filter(|line| !line.starts_with("user: (Segno: ")).collect()
}

/// Covers: G3.
#[test]
fn a_missing_parent_is_bridged() {
    let view = told(&[user("a", "", "A"), reply("b", "a", "B"), user("d", "c", "D")]);
    assert_eq!(findings(&view), ["missing-parent@4"]);
    assert_eq!(sent(&view), ["user: A", "assistant: B", "user: D"]);
}

/// An entry that follows itself, and two that follow each other.
///
/// Covers: G3.
#[test]
fn a_cycle_is_told_and_bridged() {
    let view = told(&[user("a", "", "A"), reply("b", "b", "B"), user("c", "b", "C")]);
    assert_eq!(findings(&view), ["cycle@3"]);
    assert_eq!(sent(&view), ["user: A", "assistant: B", "user: C"]);

    let view = told(&[
        user("a", "", "A"),
        reply("b", "d", "B"),
        user("c", "b", "C"),
        reply("d", "c", "D"),
    ]);
    assert_eq!(findings(&view), ["missing-parent@3", "cycle@5"]);
    assert_eq!(sent(&view), ["user: A", "assistant: B", "user: C", "assistant: D"]);
}

/// Covers: G3.
#[test]
fn one_id_for_two_records_is_told() {
    let view = told(&[
        user("a", "", "A"),
        reply("b", "a", "B"),
        user("b", "b", "C"),
        reply("d", "b", "D"),
    ]);
    assert_eq!(findings(&view), ["duplicate-record@4", "cycle@4"]);
    assert_eq!(sent(&view), ["user: A", "assistant: B", "user: C", "assistant: D"]);
}

/// Settings and the extension's own entries move the current place, as in pi.
///
/// Covers: G3.
#[test]
fn the_last_entry_is_the_current_place() {
    let custom = entry("custom", "x", "b", r#""customType":"e","data":1"#);
    let view = told(&[
        user("a", "", "A"),
        reply("b", "a", "B"),
        user("c", "b", "C"),
        reply("d", "c", "D"),
        custom,
    ]);
    assert_eq!(findings(&view), [""; 0]);
    assert_eq!(sent(&view), ["user: A", "assistant: B"]);
}

/// A stale window that renames a session must not hide what was said since (earendil-works/pi#9930).
///
/// Covers: G3.
#[test]
fn a_name_or_a_label_does_not_move_the_current_place() {
    let name = entry("session_info", "x", "b", r#""name":"N""#);
    let rows = [user("a", "", "A"), reply("b", "a", "B"), user("c", "b", "C"), name.clone()];
    let view = told(&rows);
    assert_eq!(findings(&view), ["stale-branch@5"]);
    assert_eq!(view.facts.named.as_deref(), Some("N"));
    assert_eq!(sent(&view), ["user: A", "assistant: B", "user: C"]);

    // Going on from there does.
    let rows = [&rows[..], &[user("d", "x", "D")]].concat();
    let view = told(&rows);
    assert_eq!(findings(&view), [""; 0]);
    assert_eq!(sent(&view), ["user: A", "assistant: B", "user: D"]);
}

/// Covers: G3.
#[test]
fn an_edit_holds_on_its_branch() {
    let rows = [
        user("a", "", "A"),
        reply("b", "a", "B"),
        edit("e1", "b", "a", "null"),
        user("c", "e1", "C"),
        edit("e2", "c", "b", r#"{"content":"B2"}"#),
    ];
    assert_eq!(sent(&told(&rows)), ["assistant: B2", "user: C"]);

    // Another branch from before the edits.
    let other = [&rows[..], &[user("d", "b", "D")]].concat();
    assert_eq!(sent(&told(&other)), ["user: A", "assistant: B", "user: D"]);

    // One from between them, and back.
    let between = [&other[..], &[user("f", "c", "F")]].concat();
    assert_eq!(sent(&told(&between)), ["assistant: B", "user: C", "user: F"]);
    let back = [&between[..], &[user("g", "e2", "G")]].concat();
    assert_eq!(sent(&told(&back)), ["assistant: B2", "user: C", "user: G"]);
}

/// Covers: G3.
#[test]
fn an_edit_or_label_of_nothing_is_kept_and_told() {
    let label = entry("label", "l", "a", r#""targetId":"zz","label":"L""#);
    let view = told(&[user("a", "", "A"), label, edit("e", "a", "zz", "null")]);
    assert_eq!(findings(&view), ["missing-target@3", "missing-target@4"]);
    assert_eq!(lines(&view)[2..], ["custom pi.label", "custom pi.context_edit"]);
}

/// Two processes on one file, with a local model that has one id for all calls.
///
/// Covers: G6.
#[test]
fn results_pair_on_their_branch() {
    let view = told(&[
        user("a", "", "A"),
        call("b1", "a", "call_0", "1"),
        call("b2", "a", "call_0", "2"),
        result("r1", "b1", "call_0", "one"),
        result("r2", "b2", "call_0", "two"),
        reply("d", "r1", "D"),
    ]);
    assert_eq!(findings(&view), [""; 0]);
    assert_eq!(sent(&view), ["user: A", "call t call_0 1", "result call_0: one", "assistant: D"]);
}

/// Covers: G6.
#[test]
fn arguments_are_as_they_stand() {
    for arguments in ["null", r#"{ "b":1, "a":[1.50,"\u00e9"] }"#, r#""text""#, "{}"] {
        let view = told(&[user("a", "", "A"), call("b", "a", "c", arguments)]);
        assert_eq!(lines(&view)[2], format!("call t c {arguments}"));
    }
}

/// A record whose fields are not of their kinds keeps its place, and its children theirs.
///
/// Covers: G13.
#[test]
fn what_has_another_shape_is_kept_in_its_place() {
    let odd = entry("message", "b", "a", r#""message":{"role":"assistant","content":7}"#);
    let rows = [user("a", "", "A"), odd, user("c", "b", "C"), r#"{"what":1}"#.to_owned()];
    let view = told(&rows);
    assert_eq!(findings(&view), ["odd-field@3", "unknown-record@5"]);
    // The reply says nothing, and the line is kept as it is.
    assert_eq!(lines(&view)[2..], ["custom pi.line", "user: C", "custom pi.unknown"]);
    assert_eq!(view.records[4].record.envelope.parent, Some(2));
}

/// Covers: #54.
#[test]
fn a_compaction_keeps_from_a_line_in_version_1() {
    let header = r#"{"type":"session","id":"s","timestamp":"2025-12-01T09:00:00.000Z","cwd":"/w"}"#;
    let bare = |row: String| {
        let from = row.find(r#""id""#).unwrap();
        let to = row.find(r#""timestamp""#).unwrap();
        format!("{}{}", &row[..from], &row[to..])
    };
    let compaction =
        entry("compaction", "-", "", r#""summary":"S","firstKeptEntryIndex":3,"tokensBefore":9"#);
    let rows = [user("-", "", "A"), reply("-", "", "B"), user("-", "", "C"), reply("-", "", "D")];
    let rows: Vec<String> =
        rows.into_iter().chain([compaction, user("-", "", "E")]).map(bare).collect();
    let rows: Vec<&str> = [header].into_iter().chain(rows.iter().map(String::as_str)).collect();
    let view = read(&rows);
    assert_eq!(findings(&view), [""; 0]);
    assert_eq!(view.facts.format.as_deref(), Some("v1"));
    let sent = sent(&view);
    assert!(sent[0].contains("\nS\n"));
    assert_eq!(sent[1..], ["user: C", "assistant: D", "user: E"]);

    // A lost line does not shift what is kept.
    let torn = [&rows[..1], &[r#"{"type":"mess"#], &rows[2..]].concat();
    let view = read(&torn);
    assert_eq!(findings(&view), ["torn-line@2"]);
    assert_eq!(self::sent(&view)[1..], ["user: C", "assistant: D", "user: E"]);
}

/// Covers: G3.
#[test]
fn what_extensions_and_commands_say_is_no_prompt() {
    let message = |id: &str, parent: &str, message: &str| {
        entry("message", id, parent, &format!(r#""message":{message}"#))
    };
    let view = told(&[
        user("a", "", "A"),
        message(
            "b",
            "a",
            r#"{"role":"hookMessage","customType":"h","content":"H","display":true}"#,
        ),
        message(
            "c",
            "b",
            r#"{"role":"custom","customType":"e","content":[{"type":"text","text":"E"}]}"#,
        ),
        message(
            "d",
            "c",
            r#"{"role":"bashExecution","command":"make","output":"no","exitCode":2,"truncated":true}"#,
        ),
        message(
            "e",
            "d",
            r#"{"role":"bashExecution","command":"pw","output":"x","exitCode":0,"excludeFromContext":true}"#,
        ),
    ]);
    let notices: Vec<_> = view.records.iter().filter_map(notice).collect();
    assert_eq!(
        notices,
        [None, Some("h".to_owned()), Some("e".to_owned()), Some("command".to_owned())]
    );
    let command = "user: The user ran this command:\nmake\n\nIts output:\nno\n(It ended with exit code 2.)\n(The output was cut.)";
    assert_eq!(sent(&view), ["user: A", "user: H", "user: E", command]);
    assert_eq!(lines(&view).last().unwrap(), "custom pi.bashExecution");
}

fn notice(read: &ForeignRecord) -> Option<Option<String>> {
    let Body::Message(message) = read.record.body() else { return None };
    let Message::User(user) = &**message else { return None };
    Some(user.notice.clone())
}

/// Covers: G3.
#[test]
fn thinking_keeps_its_signature_and_images_their_bytes() {
    let view = told(&[
        entry(
            "message",
            "a",
            "",
            r#""message":{"role":"user","content":[{"type":"text","text":"A"},{"type":"image","mimeType":"image/png","data":"iVBORw0="}]}"#,
        ),
        entry(
            "message",
            "b",
            "a",
            r#""message":{"role":"assistant","content":[{"type":"thinking","thinking":"T","thinkingSignature":"sig=="},{"type":"text","text":"B"}],"provider":"p","model":"m","stopReason":"length"}"#,
        ),
    ]);
    assert_eq!(lines(&view)[1..], ["user: A | [image/png]", "thinking: T", "assistant: B"]);
    let Body::Message(message) = view.records[2].record.body() else { panic!() };
    let Message::Assistant(reply) = &**message else { panic!() };
    let AssistantBlock::Thinking { signature, .. } = &reply.content[0] else { panic!() };
    assert_eq!(signature.as_deref(), Some("sig=="));
}

/// What a fork has of its parent is marked, and costs nothing twice.
///
/// Covers: G14.
#[test]
fn a_fork_marks_what_it_copied() {
    let parent = transcript("foreign/pi/04a-fork-parent.jsonl");
    let fork = transcript("foreign/pi/04b-fork-child.jsonl");
    assert_eq!(fork.facts.fork_of, Some((parent.facts.id.clone().unwrap(), None)));
    let responses = |view: &View, copy: bool| -> BTreeSet<String> {
        let records = view.records.iter().filter(|read| read.copy == copy);
        records.filter_map(|read| read.response.clone()).collect()
    };
    assert_eq!(responses(&fork, true), responses(&parent, false));
    assert_eq!(responses(&fork, false).len(), 1);
    assert!(responses(&fork, false).is_disjoint(&responses(&parent, false)));
    assert_eq!(
        lines(&fork),
        [
            "custom pi.session",
            "user: Question in the fork. [[say Answer in the fork.]]",
            "assistant: Answer in the fork."
        ]
    );
}

/// Covers: G3.
#[test]
fn version_4_says_where_it_stands() {
    let lanes = transcript("foreign/pi/31-v4-lanes-agent-core-0.84.4-api.jsonl");
    assert_eq!(lanes.facts.format.as_deref(), Some("v4-lanes"));
    assert_eq!(lanes.facts.named.as_deref(), Some("named"));
    assert_eq!(lanes.facts.pending, ["steer"]);
    assert_eq!(sent(&lanes), ["user: hello"]);

    let values = transcript("foreign/pi/32-v4-values-agent-core-0.87.1-api.jsonl");
    assert_eq!(values.facts.format.as_deref(), Some("v4-values"));
    assert_eq!(values.facts.named.as_deref(), Some("named"));
    assert_eq!(values.facts.pending, [""; 0]);
    let sent_now = sent(&values);
    assert_eq!(sent_now[0], "user: hello");
    assert!(sent_now[1].contains("left branch did X"), "{sent_now:?}");

    // The file of version 3 that this one was made of says the same.
    let upgraded = transcript("foreign/pi/33-v4-upgraded-from-11a.jsonl");
    let original = transcript("foreign/pi/11a-tui-tree-labels-branch-summary.jsonl");
    assert_eq!(sent(&upgraded), sent(&original));
    assert_eq!(upgraded.facts.id, original.facts.id);
    let spent = |view: &View| view.records.iter().filter(|r| r.response.is_some()).count();
    assert_eq!(spent(&upgraded), spent(&original));
}

const V4: &str = r#"{"v":4,"kind":"header","id":"s","storageVersion":1,"createdAt":1,"cwd":"/w"}"#;

/// Covers: G3.
#[test]
fn a_compaction_of_version_4_holds_what_it_keeps() {
    let view = read(&[
        V4,
        r#"[{"kind":"entry","id":"a","parentId":null,"type":"message","message":{"role":"user","content":"A"},"seq":1,"timestamp":1},{"kind":"value","op":"set","seq":2,"namespace":"pi.branch.tip","key":"main","value":"a"}]"#,
        r#"[{"kind":"entry","id":"b","parentId":"a","type":"compaction","summary":"S","retainedTail":[{"role":"user","content":"A"},{"role":"assistant","content":[{"type":"toolCall","id":"c","name":"t","arguments":{}}]},{"role":"toolResult","toolCallId":"c","toolName":"t","content":[{"type":"text","text":"R"}]}],"tokensBefore":5,"seq":3,"timestamp":2},{"kind":"value","op":"set","seq":4,"namespace":"pi.branch.tip","key":"main","value":"b"}]"#,
        r#"[{"kind":"entry","id":"d","parentId":"b","type":"message","message":{"role":"user","content":"D"},"seq":5,"timestamp":3},{"kind":"value","op":"set","seq":6,"namespace":"pi.branch.tip","key":"main","value":"d"}]"#,
        // Another branch, without a move to it.
        r#"{"kind":"entry","id":"e","parentId":"a","type":"message","message":{"role":"user","content":"E"},"seq":7,"timestamp":4}"#,
    ]);
    assert_eq!(findings(&view), [""; 0]);
    let sent = sent(&view);
    assert!(sent[0].contains("\nS\n"), "{sent:?}");
    assert_eq!(sent[1..], ["user: A", "call t c {}", "result c: R", "user: D"]);
    let shown: Vec<_> =
        lines(&view).into_iter().filter(|line| !line.starts_with("custom")).collect();
    assert_eq!(shown, ["user: A", "summary: S", "user: D", "user: E"]);
}

/// Covers: G3.
#[test]
fn a_tip_that_is_nowhere_is_told() {
    let view = read(&[
        V4,
        r#"{"kind":"entry","id":"a","parentId":null,"type":"message","message":{"role":"user","content":"A"},"seq":1,"timestamp":1}"#,
        r#"{"kind":"value","op":"set","seq":2,"namespace":"pi.branch.tip","key":"main","value":"zz"}"#,
    ]);
    assert_eq!(findings(&view), ["missing-tip@3"]);
    assert_eq!(sent(&view), ["user: A"]);
}

/// Covers: G13.
#[test]
fn a_newer_version_is_read_and_told() {
    let header = HEADER.replace(r#""version":3"#, r#""version":9"#);
    let view = read(&[&header, &user("a", "", "A")]);
    assert_eq!(findings(&view), ["unknown-version@1"]);
    assert_eq!(view.facts.format.as_deref(), Some("v9"));
}

/// Covers: G3.
#[test]
fn a_session_without_its_header_is_read() {
    let view = read(&[r#"{"type":"sess"#, &user("a", "", "A"), &reply("b", "a", "B")]);
    assert_eq!(findings(&view), ["torn-line@1"]);
    assert_eq!(sent(&view), ["user: A", "assistant: B"]);
}

/// Covers: G14.
#[test]
fn sessions_are_where_pi_keeps_them() {
    let home = tempfile::tempdir().unwrap();
    let put = |path: &str| {
        let path = home.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, format!("{HEADER}\n")).unwrap();
    };
    put(".pi/agent/sessions/--w--/2026-03-02T09-00-00-000Z_my_run.42.jsonl");
    put(".pi/agent/sessions/--w--/notes.txt");
    put("moved/sessions/--w--/2026-03-02T09-00-00-000Z_b.jsonl");
    put("flat/2026-03-02T09-00-00-000Z_c.jsonl");
    let ids = |env: &[(&str, &str)]| {
        let place = |(name, dir): &(&str, &str)| {
            ((*name).to_owned(), home.path().join(dir).to_str().unwrap().to_owned())
        };
        let env = env.iter().map(place).collect();
        let (found, failed) =
            locate(&Roots { home: home.path().to_owned(), env, ..Roots::default() });
        assert!(failed.is_empty(), "{failed:?}");
        let mut ids: Vec<_> = found.into_iter().map(|session| session.id.unwrap()).collect();
        ids.sort();
        ids
    };
    assert_eq!(ids(&[]), ["my_run.42"]);
    assert_eq!(ids(&[("PI_CODING_AGENT_DIR", "moved")]), ["b"]);
    assert_eq!(ids(&[("PI_CODING_AGENT_SESSION_DIR", "flat")]), ["c", "my_run.42"]);
    for named in ["~/flat", home.path().join("flat").to_str().unwrap(), "../../flat"] {
        let settings = serde_json::json!({ "theme": 5, "sessionDir": named }).to_string();
        fs::write(home.path().join(".pi/agent/settings.json"), settings).unwrap();
        assert_eq!(ids(&[]), ["c", "my_run.42"], "{named}");
    }
}

/// Covers: G14.
#[test]
fn reading_leaves_a_file_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s.jsonl");
    let original = fs::read(corpus("foreign/pi/02-tool-calls.jsonl")).unwrap();
    fs::write(&path, &original).unwrap();
    let long_ago = std::time::UNIX_EPOCH + std::time::Duration::from_secs(1_000_000_000);
    let times = fs::FileTimes::new().set_accessed(long_ago).set_modified(long_ago);
    fs::File::options().write(true).open(&path).unwrap().set_times(times).unwrap();
    let before = fs::metadata(&path).unwrap();
    let session = recognise(&path).unwrap();
    View::transcript(&session).unwrap();
    View::active(&session).unwrap();
    let after = fs::metadata(&path).unwrap();
    assert_eq!((before.atime(), before.mtime()), (after.atime(), after.mtime()));
    assert_eq!(fs::read(&path).unwrap(), original);
}
