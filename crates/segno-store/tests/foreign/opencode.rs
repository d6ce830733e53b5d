//! OpenCode: its database, its export, its older tree of files; both engines.

use super::scene::{context, context_lines, corpus, findings, lines, refusal, transcript};
use rusqlite::Connection;
use segno_model::Body;
use segno_model::record::{Message, Outcome, StepStatus};
use segno_store::foreign::{
    Agent, Fact, ForeignError, Item, Located, Roots, View, locate, read, recognise,
};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::fs;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

const CRASHED: &str = "ses_dd6f1459cffeNta4ccOhhFNij1";
const COMPACTED: &str = "ses_dd6e91bd4ffemyEYcrzAt6x7a0";
const EDITED: &str = "ses_dd6e9b97fffe2wnxS00qA3nlwr";

fn export(name: &str) -> String {
    format!("foreign/opencode/{name}.json")
}

/// A home folder in which OpenCode keeps a database.
struct Home {
    folder: tempfile::TempDir,
}

impl Home {
    fn empty() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        fs::create_dir_all(folder.path().join(".local/share/opencode")).expect("made");
        Self { folder }
    }

    /// With a copy of the corpus's database.
    fn full() -> Self {
        let home = Self::empty();
        fs::copy(corpus("foreign/opencode/opencode.db"), home.database()).expect("copied");
        home
    }

    /// With an empty database.
    fn fresh() -> Self {
        let home = Self::empty();
        let schema = fs::read_to_string(corpus("foreign/opencode/schema_1.18.33.sql"));
        let writer = home.writer();
        writer.execute_batch("PRAGMA foreign_keys=OFF;").expect("set");
        writer.execute_batch(&schema.expect("the schema")).expect("made");
        home
    }

    fn data(&self) -> PathBuf {
        self.folder.path().join(".local/share/opencode")
    }

    fn database(&self) -> PathBuf {
        self.data().join("opencode.db")
    }

    fn writer(&self) -> Connection {
        let writer = Connection::open(self.database()).expect("opened");
        writer.pragma_update(None, "foreign_keys", false).expect("set");
        writer
    }

    fn change(&self, sql: &str) {
        let writer = self.writer();
        writer.execute_batch(sql).expect("changed");
        writer.execute_batch("PRAGMA wal_checkpoint(TRUNCATE);").expect("written back");
    }

    fn roots(&self) -> Roots {
        Roots { home: self.folder.path().to_owned(), ..Roots::default() }
    }

    fn sessions(&self) -> Vec<Located> {
        let (found, failed) = locate(&self.roots());
        assert!(failed.is_empty(), "{failed:?}");
        found
    }

    fn session(&self, id: &str) -> Located {
        let found = self.sessions();
        found.into_iter().find(|s| s.id.as_deref() == Some(id)).expect("it is listed")
    }

    fn view(&self, id: &str) -> View {
        View::transcript(&self.session(id)).unwrap_or_else(|e| panic!("{id}: {e}"))
    }

    fn context(&self, id: &str) -> Vec<String> {
        context_lines(&View::active(&self.session(id)).expect("it is read").context())
    }

    /// A session with messages and parts `(id, time, data, parts)`, written in this order.
    fn write(&self, messages: &[(&str, i64, Value, Vec<Value>)]) {
        let writer = self.writer();
        let row = json!({"id": "ses_1", "project_id": "p", "slug": "s", "directory": "/srv/app",
            "title": "t", "version": "1.18.33", "time_created": 5, "time_updated": 6});
        insert(&writer, "session", &row);
        for (id, time, data, parts) in messages {
            let row = json!({"id": id, "session_id": "ses_1", "time_created": time,
                "time_updated": time, "data": data.to_string()});
            insert(&writer, "message", &row);
            for (n, part) in parts.iter().enumerate() {
                let row = json!({"id": format!("prt_{id}_{n}"), "message_id": id,
                    "session_id": "ses_1", "time_created": time, "time_updated": time,
                    "data": part.to_string()});
                insert(&writer, "part", &row);
            }
        }
    }
}

/// Puts an object into a table; objects in it become their JSON.
fn insert(writer: &Connection, table: &str, row: &Value) {
    let row = row.as_object().expect("an object");
    let names: Vec<_> = row.keys().map(String::as_str).collect();
    let marks = vec!["?"; names.len()].join(",");
    let sql = format!("INSERT INTO {table} ({}) VALUES ({marks})", names.join(","));
    let value = |value: &Value| -> rusqlite::types::Value {
        match value {
            Value::Null => rusqlite::types::Value::Null,
            Value::String(text) => text.clone().into(),
            Value::Number(n) => n
                .as_i64()
                .map_or_else(|| n.as_f64().expect("a number").into(), rusqlite::types::Value::from),
            other => other.to_string().into(),
        }
    };
    writer.execute(&sql, rusqlite::params_from_iter(row.values().map(value))).expect("inserted");
}

/// What was said, without the rows that have no counterpart.
fn said(view: &View) -> Vec<String> {
    lines(view).into_iter().filter(|line| !line.starts_with("custom ")).collect()
}

fn codes(view: &View) -> Vec<&str> {
    view.findings.iter().map(|finding| finding.code).collect()
}

fn user(text: &str) -> (Value, Vec<Value>) {
    let model = json!({"providerID": "fake", "modelID": "m"});
    let data = json!({"role": "user", "time": {"created": 10}, "agent": "build", "model": model});
    (data, vec![json!({"type": "text", "text": text})])
}

fn reply(parent: &str, created: i64) -> Value {
    json!({"role": "assistant", "parentID": parent, "providerID": "fake", "modelID": "m",
        "time": {"created": created, "completed": created + 5}, "finish": "stop",
        "tokens": {"input": 7, "output": 3, "reasoning": 2, "cache": {"read": 4, "write": 1}}})
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

#[test]
fn a_session_is_read_with_its_calls_and_their_results() {
    let view = transcript(&export("edit-with-revert"));
    let expected = [
        "model",
        "user: SCRIPT:edit",
        "assistant: Editing b.txt. ",
        "call edit call_35_0 {\"filePath\":\"/home/dev/opencode/exp/proj/b.txt\",\
         \"oldString\":\"line two\",\"newString\":\"line TWO\"}",
        "result call_35_0: Edit applied successfully.",
        "assistant: Edited. ",
    ];
    assert_eq!(said(&view), expected);
    let kept: BTreeSet<_> =
        lines(&view).into_iter().filter(|line| line.starts_with("custom ")).collect();
    let kinds = ["message", "patch", "step-finish", "step-start"];
    assert_eq!(kept, kinds.map(|kind| format!("custom opencode.{kind}")).into());
    assert_eq!(findings(&view), [""; 0]);
    let facts = &view.facts;
    assert_eq!(facts.id.as_deref(), Some(EDITED));
    assert_eq!(facts.cwd.as_deref(), Some("/home/dev/opencode/exp/proj"));
    assert_eq!(facts.version.as_deref(), Some("1.18.33"));
    assert_eq!(facts.titled.as_deref(), Some("Fake session title"));
    assert_eq!(facts.created.map(|at| at.0), Some(1_795_985_655_424));
    assert_eq!(outcomes(&view), [Outcome::Done]);
    let usages: Vec<_> = view.records.iter().filter_map(|r| r.response.as_deref()).collect();
    assert_eq!(
        usages,
        ["opencode:1795985658367:1795985662207", "opencode:1795985662212:1795985662695"]
    );
}

/// Covers: #158. What an export says is what the database says; an export that was made earlier is the
/// beginning of it.
#[test]
fn an_export_reads_like_the_database() {
    let home = Home::full();
    let names = [
        ("abort-mid-tool", true),
        ("basic-tools", true),
        ("big-tool-output", true),
        ("edit-with-revert", true),
        ("sigkill-mid-compaction", false),
        ("sigkill-mid-text-then-continue", true),
        ("sigkill-mid-tool-args-then-continue", true),
        ("sigkill-mid-tool-before-continue", false),
        ("sigkill-mid-tool-then-continue", true),
        ("sigterm-mid-tool", true),
        ("todo", true),
    ];
    for (name, whole) in names {
        let exported = transcript(&export(name));
        let id = exported.facts.id.clone().expect("an id");
        let stored = home.view(&id);
        let (from_export, from_database) = (lines(&exported), lines(&stored));
        assert!(from_database.starts_with(&from_export), "{name}");
        if whole {
            assert_eq!(from_export, from_database, "{name}");
            assert_eq!(codes(&exported), codes(&stored), "{name}");
            assert_eq!(context(&export(name)), home.context(&id), "{name}");
        }
        assert_eq!(stored.facts.titled, exported.facts.titled, "{name}");
    }
}

/// Covers: #146, #32. A killed process leaves a running call and a reply without an end: both are told,
/// nothing stands in place of the result.
#[test]
fn a_killed_call_has_no_result_and_is_a_note() {
    let view = transcript(&export("sigkill-mid-tool-then-continue"));
    let call = "call bash call_7_0 {\"command\":\"echo start >> /home/dev/opencode/exp/side.log; \
                sleep 45; echo end >> /home/dev/opencode/exp/side.log; echo finished\",\
                \"description\":\"Slow command\"}";
    let expected = [
        "model",
        "user: SCRIPT:slow",
        "assistant: Running a slow command. ",
        call,
        "user: please_continue",
        "assistant: Acknowledged follow-up: please_continue ",
    ];
    assert_eq!(said(&view), expected);
    assert_eq!(findings(&view), ["interrupted-reply@81", "interrupted-call@81"]);
    let sent = context(&export("sigkill-mid-tool-then-continue"));
    assert_eq!(sent[2], call);
    assert!(sent[3].starts_with("result call_7_0: "), "{sent:?}");
    assert_eq!(sent[4], "user: please_continue");
}

/// A call whose arguments were still coming was not begun; words that were lost stand nowhere.
#[test]
fn what_was_cut_short_is_not_sent() {
    let view = transcript(&export("sigkill-mid-tool-args-then-continue"));
    assert_eq!(codes(&view), ["interrupted-reply", "interrupted-call"]);
    assert!(said(&view).contains(&"call write call_12_0 {}".to_owned()));
    let sent = context(&export("sigkill-mid-tool-args-then-continue"));
    let expected =
        ["user: SCRIPT:argstream", "user: go_on", "assistant: Acknowledged follow-up: go_on "];
    assert_eq!(sent[..3], expected);
    assert_eq!(
        codes(&transcript(&export("sigkill-mid-text-then-continue"))),
        ["interrupted-reply"]
    );
    assert_eq!(
        codes(&transcript(&export("sigterm-mid-tool"))),
        ["interrupted-reply", "interrupted-call"]
    );
}

#[test]
fn a_stopped_command_is_no_finished_one() {
    let view = transcript(&export("abort-mid-tool"));
    assert_eq!(outcomes(&view), [Outcome::Done, Outcome::Stopped]);
    assert_eq!(context(&export("abort-mid-tool")).len(), 6);
}

#[test]
fn a_cut_output_names_the_file_that_is_missing() {
    let view = transcript(&export("big-tool-output"));
    assert_eq!(codes(&view), ["missing-output"]);
}

#[test]
fn a_todo_list_is_a_task() {
    for view in [transcript(&export("todo")), Home::full().view("ses_dd6e94ebdffemlGWJIkEa3IhF6")] {
        let task = |body: &Body| match body {
            Body::Task(task) => Some(task.clone()),
            _ => None,
        };
        let tasks: Vec<_> = view.records.iter().filter_map(|r| task(r.record.body())).collect();
        let [task] = &tasks[..] else { panic!("{tasks:?}") };
        let steps: Vec<_> = task.steps.iter().map(|s| (s.text.as_str(), s.status)).collect();
        assert_eq!(steps, [("one", StepStatus::InProgress), ("two", StepStatus::Pending)]);
    }
}

/// A finished summary is the boundary; what OpenCode says after it is no prompt.
#[test]
fn a_summary_that_was_asked_for_is_the_boundary() {
    let home = Home::full();
    let sent = home.context(COMPACTED);
    assert!(sent[0].contains("fake summary of the work so far"), "{sent:?}");
    assert!(sent[1].starts_with("user: Continue if you have next steps"), "{sent:?}");
    assert_eq!(sent[2], "assistant: Hello from fake model. ");
    let view = home.view(COMPACTED);
    let prompts = view.records.iter().filter_map(|r| match r.record.body() {
        Body::Message(message) => match &**message {
            Message::User(user) if user.notice.is_none() => Some(user.content.len()),
            _ => None,
        },
        _ => None,
    });
    assert_eq!(prompts.count(), 1);
}

/// A summary that was killed is no boundary; the one that OpenCode makes later answers no request, and
/// OpenCode then sends everything again: so does this reading, and says so.
#[test]
fn a_summary_that_was_not_asked_for_is_a_reply() {
    let home = Home::full();
    let view = home.view("ses_dd6de412fffePDmbfsU2QgXcqM");
    assert_eq!(findings(&view), ["loose-summary"]);
    let sent = home.context("ses_dd6de412fffePDmbfsU2QgXcqM");
    assert_eq!(sent[0], "user: SCRIPT:overflow");
    assert!(sent.contains(&"user: go_after_compact_kill".to_owned()), "{sent:?}");
}

/// The second engine, from rows of the real database.
#[test]
fn the_second_engine_is_read_in_its_own_order() {
    let home = Home::full();
    let view = home.view("ses_dd6eec1e7ffeNQeiZapqAITrGb");
    let expected = [
        "user: SCRIPT:slow",
        "assistant: Running a slow command. ",
        "call bash call_18_0 {\"command\":\"echo start >> /home/dev/opencode/exp/side.log; sleep 45; \
         echo end >> /home/dev/opencode/exp/side.log; echo finished\",\"description\":\"Slow command\"}",
        "result call_18_0: Tool execution interrupted",
        "user: steer_this_please",
        "user: wake_up",
        "assistant: Acknowledged follow-up: wake_up ",
        "user: queued_next_turn",
        "assistant: Acknowledged follow-up: queued_next_turn ",
    ];
    assert_eq!(lines(&view), expected);
    assert_eq!(outcomes(&view), [Outcome::Unknown]);
    assert_eq!(view.facts.format.as_deref(), Some("database v2"));
    assert_eq!(view.facts.titled, None);
    let retried = home.view("ses_dd6ef1628ffeHmDxkl68gyGdJY");
    assert_eq!(lines(&retried).iter().filter(|line| line.starts_with("user: ")).count(), 1);
    assert_eq!(outcomes(&retried), [Outcome::Done, Outcome::Failed, Outcome::Failed]);
}

/// The rows as they were saved beside the database, and prompts that were never delivered.
#[test]
fn rows_of_the_second_engine_make_a_session_with_waiting_prompts() {
    for name in ["v2-sigkill-mid-tool-steer-queue", "v2-retry-idempotent"] {
        let text = fs::read_to_string(corpus(&export(&format!("{name}.rows")))).expect("read");
        let rows: Value = serde_json::from_str(&text).expect("JSON");
        let home = Home::fresh();
        let writer = home.writer();
        insert(&writer, "session", &rows["session"]);
        for table in ["session_input", "session_message"] {
            for row in rows[table].as_array().expect("rows") {
                insert(&writer, table, row);
            }
        }
        let id = rows["session"]["id"].as_str().expect("an id");
        let from_rows = home.view(id);
        assert_eq!(lines(&from_rows), lines(&Home::full().view(id)), "{name}");
        assert!(from_rows.facts.pending.is_empty());
        let late = json!({"id": "msg_late", "session_id": id, "prompt": {"text": "and then?"},
            "delivery": "queue", "admitted_seq": 99, "time_created": 1});
        insert(&writer, "session_input", &late);
        assert_eq!(home.view(id).facts.pending, ["and then?"], "{name}");
    }
}

/// An export of a session of the second engine holds nothing: that is no empty session.
#[test]
fn an_export_without_messages_is_an_error_that_says_why() {
    let refused = refusal(&export("v2-session-v1-export"));
    assert!(matches!(refused, ForeignError::NoTurns { bytes: 633, .. }), "{refused}");
    let session = recognise(&corpus(&export("v2-session-v1-export"))).expect("it is an export");
    let mut codes = Vec::new();
    let read = read(&session, &mut |item| {
        if let Item::Finding(finding) = item {
            codes.push(finding.code);
        }
        ControlFlow::Continue(())
    });
    assert!(read.is_err());
    assert_eq!(codes, ["empty-export"]);
}

/// Covers: #109. Ids and times go backwards; rows do not.
#[test]
fn rows_are_read_in_the_order_of_writing_whatever_the_clock_says() {
    let home = Home::fresh();
    let (prompt, parts) = user("first");
    let answer = vec![json!({"type": "text", "text": "one"})];
    let (second, second_parts) = user("second");
    let last = vec![json!({"type": "text", "text": "two"})];
    home.write(&[
        ("msg_z", 900, prompt, parts),
        ("msg_y", 950, reply("msg_z", 950), answer),
        ("msg_b", 100, second, second_parts),
        ("msg_a", 150, reply("msg_b", 150), last),
    ]);
    let expected = ["model", "user: first", "assistant: one", "user: second", "assistant: two"];
    assert_eq!(said(&home.view("ses_1")), expected);
}

/// The migration from files writes rows in the order of a folder: then times are all there is.
#[test]
fn migrated_rows_are_read_in_the_order_of_time() {
    let home = Home::fresh();
    let (prompt, parts) = user("first");
    let answer = vec![json!({"type": "text", "text": "one"})];
    home.write(&[("msg_b", 200, reply("msg_a", 200), answer), ("msg_a", 100, prompt, parts)]);
    assert_eq!(said(&home.view("ses_1")), ["model", "user: first", "assistant: one"]);
}

#[test]
fn parts_of_every_kind_keep_their_meaning() {
    let home = Home::fresh();
    let (prompt, mut parts) = user("look");
    parts.extend([
        json!({"type": "text", "text": "<system-reminder>plan", "synthetic": true}),
        json!({"type": "text", "text": "not for the model", "ignored": true}),
        json!({"type": "file", "mime": "image/png", "filename": "a.png",
            "url": "data:image/png;base64,AAAA"}),
        json!({"type": "file", "mime": "application/pdf", "filename": "a.pdf", "url": "file:///a.pdf"}),
        json!({"type": "agent", "name": "explore"}),
    ]);
    let time = json!({"start": 1, "end": 2});
    let first = json!({"type": "step-finish", "reason": "tool-calls", "cost": 0,
        "tokens": {"input": 1, "output": 2, "reasoning": 0, "cache": {"read": 0, "write": 0}}});
    let answer = vec![
        json!({"type": "step-start"}),
        json!({"type": "reasoning", "text": "hm", "time": time,
            "metadata": {"anthropic": {"signature": "sig=="}}}),
        json!({"type": "tool", "callID": "c1", "tool": "read", "state": {"status": "completed",
            "input": {"b": 1.50, "a": "x"}, "output": "long", "title": "", "metadata": {},
            "time": {"start": 1, "end": 2, "compacted": 3}}}),
        first,
        json!({"type": "step-start"}),
        json!({"type": "tool", "callID": "c2", "tool": "bash", "state": {"status": "error",
            "input": {}, "error": "aborted", "time": time,
            "metadata": {"interrupted": true, "output": "half"}}}),
        json!({"type": "tool", "callID": "c3", "tool": "task", "state": {"status": "completed",
            "input": {}, "output": "done", "title": "", "time": time,
            "metadata": {"sessionId": "ses_child", "exit": 3}}}),
        json!({"type": "retry", "attempt": 1, "error": {}, "time": {"created": 1}}),
        json!({"type": "hologram", "x": 1}),
    ];
    home.write(&[("msg_1", 1, prompt, parts), ("msg_2", 2, reply("msg_1", 2), answer)]);
    let view = home.view("ses_1");
    let expected = [
        "custom opencode.message",
        "model",
        "user: look",
        "custom opencode.text",
        "custom opencode.file",
        "user: <system-reminder>plan",
        "custom opencode.file",
        "custom opencode.agent",
        "user: [image/png] | [Attached application/pdf: a.pdf]",
        "custom opencode.message",
        "custom opencode.step-start",
        "custom opencode.step-finish",
        "thinking: hm",
        "call read c1 {\"b\":1.5,\"a\":\"x\"}",
        "result c1: long",
        "context_edit",
        "custom opencode.step-start",
        "custom opencode.retry",
        "custom opencode.hologram",
        "call bash c2 {}",
        "call task c3 {}",
        "result c2: half",
        "result c3: done",
        "child",
    ];
    assert_eq!(lines(&view), expected);
    assert_eq!(outcomes(&view), [Outcome::Done, Outcome::Stopped, Outcome::Failed]);
    let sent = home.context("ses_1");
    assert!(sent.contains(&"result c1: [Old tool result content cleared]".to_owned()), "{sent:?}");
    assert!(sent.contains(&"thinking: hm".to_owned()), "{sent:?}");
}

/// What was undone is there, and is not where the session stands.
#[test]
fn a_reverted_end_is_off_the_path() {
    let home = Home::full();
    let part = "'{\"messageID\":\"msg_2291651fe00118qiGW4hZcIj0W\",\"partID\":\"prt_2291660aa0014jaeOS6qnnXzn0\"}'";
    home.change(&format!("UPDATE session SET revert = {part} WHERE id = '{EDITED}'"));
    let sent = home.context(EDITED);
    assert_eq!(sent[..2], ["user: SCRIPT:edit", "assistant: Editing b.txt. "]);
    assert!(!sent.contains(&"assistant: Edited. ".to_owned()), "{sent:?}");
    let whole = "'{\"messageID\":\"msg_2291651fe00118qiGW4hZcIj0W\"}'";
    home.change(&format!("UPDATE session SET revert = {whole} WHERE id = '{EDITED}'"));
    assert_eq!(home.context(EDITED), ["user: SCRIPT:edit"]);
    assert!(said(&home.view(EDITED)).contains(&"assistant: Edited. ".to_owned()));
}

/// One bad row costs that row.
#[test]
fn a_row_that_is_no_json_costs_only_itself() {
    let home = Home::full();
    let whole = said(&home.view(EDITED));
    home.change(
        "UPDATE part SET data = substr(data, 1, 40) WHERE id = 'prt_229165eaa001uXbqvCwZkOvH0o';
         UPDATE message SET data = x'7B00FF' WHERE id = 'msg_229166104001b4TeEOV8nACXRw';",
    );
    let view = home.view(EDITED);
    let left: Vec<_> = whole.into_iter().filter(|line| !line.contains("Editing b.txt")).collect();
    assert_eq!(said(&view), left);
    let bad: Vec<_> = view.findings.iter().filter(|f| f.code == "bad-row").collect();
    assert_eq!(bad.len(), 2);
    assert!(bad[0].sentence.starts_with("Row "), "{bad:?}");
    assert!(bad[0].sentence.contains("of the table part"), "{bad:?}");
}

/// Damage in the file costs what lies there, never the other sessions, and never a crash.
#[test]
fn a_damaged_database_gives_what_is_left() {
    let home = Home::full();
    let bytes = fs::read(home.database()).expect("read");
    let needle = b"Editing b.txt. ";
    let mut damaged = bytes.clone();
    let places = bytes.windows(needle.len()).enumerate().filter(|(_, window)| window == needle);
    for (at, _) in places {
        let page = at / 4096 * 4096;
        damaged[page..page + 4096].fill(0xA5);
    }
    fs::write(home.database(), &damaged).expect("written");
    let (mut read_whole, mut told) = (0, 0);
    for session in home.sessions() {
        match View::transcript(&session) {
            Ok(view) if view.findings.iter().any(|f| f.code == "bad-row") => told += 1,
            Ok(_) => read_whole += 1,
            Err(e) => panic!("{:?}: {e}", session.id),
        }
    }
    assert!(told >= 1, "{told}");
    assert!(read_whole >= 10, "{read_whole}");
    // Cut off: whatever lies behind the end is an error of the database or of its rows.
    fs::write(home.database(), &bytes[..bytes.len() / 2]).expect("written");
    let (found, failed) = locate(&home.roots());
    assert!(!found.is_empty() || !failed.is_empty());
    for session in found {
        let _ = View::transcript(&session);
    }
}

/// Covers: G14. A database in use, and one whose process was killed, are read and left as they are.
#[test]
fn a_live_database_is_read_and_its_folder_stays_as_it_is() {
    let home = Home::full();
    let writer = home.writer();
    writer
        .execute_batch(&format!("UPDATE session SET title = 'renamed' WHERE id = '{CRASHED}'"))
        .expect("written");
    let names = |home: &Home| -> BTreeSet<String> {
        let entries = fs::read_dir(home.data()).expect("listed");
        entries.map(|e| e.expect("an entry").file_name().to_string_lossy().into_owned()).collect()
    };
    assert!(names(&home).contains("opencode.db-wal"));
    let before = names(&home);
    assert_eq!(home.view(CRASHED).facts.titled.as_deref(), Some("renamed"));
    assert_eq!(names(&home), before);
    // The same files as a killed process leaves them, without the index.
    let crashed = Home::empty();
    for name in ["opencode.db", "opencode.db-wal"] {
        fs::copy(home.data().join(name), crashed.data().join(name)).expect("copied");
    }
    let before = names(&crashed);
    assert_eq!(crashed.view(CRASHED).facts.titled.as_deref(), Some("renamed"));
    assert_eq!(names(&crashed), before);
    drop(writer);
}

#[test]
fn sessions_are_listed_with_what_the_database_knows() {
    let home = Home::full();
    assert_eq!(home.sessions().len(), 22);
    let before = home.session(CRASHED).stamp;
    assert_eq!(before.modified_ns, 1_795_985_189_548_000_000);
    home.change(&format!(
        "UPDATE session SET parent_id = '{EDITED}', time_archived = 5, agent = 'explore'
         WHERE id = '{CRASHED}'; DELETE FROM part WHERE id =
         (SELECT max(id) FROM part WHERE session_id = '{CRASHED}')"
    ));
    let session = home.session(CRASHED);
    assert_eq!((session.parent.as_deref(), session.archived), (Some(EDITED), true));
    assert_ne!(session.stamp, before);
    let facts = home.view(CRASHED).facts;
    assert_eq!((facts.parent.as_deref(), facts.role.as_deref()), (Some(EDITED), Some("explore")));
    assert!(facts.archived);
    // The database named as it is: it holds more than one session.
    let unnamed = recognise(&home.database()).expect("it is OpenCode's");
    assert_eq!(unnamed.agent, Agent::OpenCode);
    let refused = View::transcript(&unnamed).expect_err("which one?");
    assert!(refused.to_string().contains("the id of one of its 22 sessions"), "{refused}");
    let moved = Roots {
        home: PathBuf::from("/nonexistent"),
        env: [(
            "XDG_DATA_HOME".to_owned(),
            home.data().parent().expect("it").display().to_string(),
        )]
        .into(),
        ..Roots::default()
    };
    assert_eq!(locate(&moved).0.len(), 22);
}

/// Writes a session as files, as versions before the database did.
fn write_files(storage: &Path, exported: &Value) {
    let put = |path: String, value: &Value| {
        let path = storage.join(path);
        fs::create_dir_all(path.parent().expect("a folder")).expect("made");
        fs::write(path, value.to_string()).expect("written");
    };
    let info = &exported["info"];
    let id = info["id"].as_str().expect("an id");
    // Such a file begins with the id.
    let text = info.to_string();
    let rest = text.replacen(&format!("\"id\":\"{id}\","), "", 1);
    let text = format!("{{\"id\":\"{id}\",{}", &rest[1..]);
    let path = storage.join(format!("session/global/{id}.json"));
    fs::create_dir_all(path.parent().expect("a folder")).expect("made");
    fs::write(path, text).expect("written");
    for message in exported["messages"].as_array().expect("messages") {
        let message_id = message["info"]["id"].as_str().expect("an id");
        put(format!("message/{id}/{message_id}.json"), &message["info"]);
        for part in message["parts"].as_array().expect("parts") {
            let part_id = part["id"].as_str().expect("an id");
            put(format!("part/{message_id}/{part_id}.json"), part);
        }
    }
}

/// Sessions that the migration did not take are still found and read.
#[test]
fn the_older_tree_of_files_is_read_where_the_database_lacks_a_session() {
    let home = Home::full();
    for name in ["basic-tools", "todo"] {
        let text = fs::read_to_string(corpus(&export(name))).expect("read");
        write_files(&home.data().join("storage"), &serde_json::from_str(&text).expect("JSON"));
    }
    let todo = transcript(&export("todo"));
    let id = todo.facts.id.clone().expect("an id");
    assert_eq!(home.sessions().len(), 22);
    home.change(&format!("DELETE FROM session WHERE id = '{id}'"));
    assert_eq!(home.sessions().len(), 22);
    let session = home.session(&id);
    assert_eq!(session.key, None);
    let view = View::transcript(&session).expect("it is read");
    assert_eq!(said(&view).len(), said(&todo).len());
    assert_eq!(view.facts.titled, todo.facts.titled);
    assert_eq!(view.facts.format.as_deref(), Some("files"));
    assert_eq!(recognise(&session.path).expect("its file").agent, Agent::OpenCode);
}

/// Covers: #12. Every prefix of an export is read, and never loses what a shorter one had.
#[test]
fn every_prefix_of_an_export_is_read() {
    let text = fs::read(corpus(&export("sigkill-mid-tool-before-continue"))).expect("read");
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("export.json");
    let whole = transcript(&export("sigkill-mid-tool-before-continue"));
    let mut most = 0;
    for end in (0..text.len()).step_by(13) {
        fs::write(&path, &text[..end]).expect("written");
        let Ok(session) = recognise(&path) else { continue };
        let view = View::transcript(&session).unwrap_or_default();
        let count = lines(&view).len();
        assert!(count >= most, "at {end}");
        assert_eq!(lines(&view), lines(&whole)[..count], "at {end}");
        most = count;
    }
    assert!(most > 0);
}

/// A message of an export that is broken inside costs that message.
#[test]
fn the_messages_around_a_broken_one_are_read() {
    let text = fs::read_to_string(corpus(&export("basic-tools"))).expect("read");
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("export.json");
    // A quotation mark is lost in the second message: from there everything looks quoted.
    let broken = text.replacen("\"Listing files first. \"", "\"Listing files first. ", 1);
    fs::write(&path, broken).expect("written");
    let view = View::transcript(&recognise(&path).expect("it is an export")).expect("it is read");
    let said = said(&view);
    assert_eq!(said[1], "user: SCRIPT:basic");
    assert_eq!(said.last().map(String::as_str), Some("assistant: All done: wrote b.txt. "));
    assert_eq!(findings(&view)[0], "torn-element@89");
}

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig { cases: 8, ..Default::default() })]

    /// Covers: G14. Bytes of a database or an export that were overwritten never end in a panic.
    #[test]
    fn overwritten_bytes_never_end_in_a_panic(
        flips in proptest::collection::vec((0.0_f64..1.0, proptest::num::u8::ANY), 1..40),
    ) {
        for file in ["foreign/opencode/opencode.db".to_owned(), export("todo")] {
            let mut bytes = fs::read(corpus(&file)).expect("read");
            for (at, byte) in &flips {
                #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss,
                    clippy::cast_precision_loss, reason = "a place in the file")]
                let at = (at * bytes.len() as f64) as usize;
                bytes[at] = *byte;
            }
            let home = Home::empty();
            fs::write(home.database(), &bytes).expect("written");
            let (mut found, _) = locate(&home.roots());
            found.truncate(6);
            found.extend(recognise(&home.database()).ok());
            for session in found {
                let _ = View::transcript(&session);
            }
        }
    }
}

#[test]
fn a_fact_of_every_session_is_its_id() {
    for session in Home::full().sessions() {
        let mut ids = Vec::new();
        let read = read(&session, &mut |item| {
            if let Item::Fact(Fact::Id(id)) = item {
                ids.push(id);
            }
            ControlFlow::Continue(())
        });
        assert!(read.is_ok());
        assert_eq!(ids, [session.id.expect("an id")]);
    }
}
