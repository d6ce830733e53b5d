//! goose and Crush.

use crate::scene::{context_lines, corpus, findings, lines};
use segno_model::Body;
use segno_model::record::{Message, Outcome, Usage};
use segno_store::foreign::{Agent, Located, Roots, View, locate, recognise};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

const GOOSE: &str = "foreign/goose/sessions.db";
const CRUSH: &str = "foreign/crush/.crush/crush.db";

/// The session `key` of a database.
fn one(name: &str, key: &str) -> Located {
    let database = recognise(&corpus(name)).unwrap_or_else(|e| panic!("{name}: {e}"));
    Located { key: Some(key.to_owned()), ..database }
}

fn transcript(session: &Located) -> View {
    View::transcript(session).unwrap_or_else(|e| panic!("{}: {e}", session.path.display()))
}

fn context(session: &Located) -> Vec<String> {
    let active = View::active(session).expect("it reads");
    let sent = context_lines(&active.context());
    assert_eq!(sent, context_lines(&transcript(session).context()));
    sent
}

fn outcomes(view: &View) -> Vec<(String, Outcome)> {
    let outcome = |read: &segno_store::foreign::ForeignRecord| match read.record.body() {
        Body::Message(message) => match &**message {
            Message::Tool(result) => Some((result.call_id.clone(), result.outcome)),
            _ => None,
        },
        _ => None,
    };
    view.records.iter().filter_map(outcome).collect()
}

/// Copies the corpus file `name` to `to`.
fn copy(name: &str, to: &Path) {
    fs::create_dir_all(to.parent().expect("it has one")).expect("a folder");
    fs::copy(corpus(name), to).expect("a copy");
}

#[test]
fn a_goose_session_reads_with_its_tools_and_tokens() {
    let session = one(GOOSE, "20260901_1");
    assert_eq!(session.agent, Agent::Goose);
    let view = transcript(&session);
    assert_eq!(
        lines(&view),
        [
            "user: Grind the wheat",
            "thinking: Stones first.",
            "assistant: Turning the stones.",
            "call developer__shell call_a {\"command\":\"turn\"}",
            "call developer__text_editor call_b {\"path\":\"mill.txt\"}",
            // What is for the person alone is not what the model is shown.
            "result call_a: turning",
            "result call_b: -32603: no such file",
            "custom goose.systemNotification",
            "assistant: The flour is fine.",
            "user: Bag it",
            "call developer__shell call_c {\"command\":\"bag\"}",
            "usage",
            "usage",
            "usage",
        ]
    );
    assert_eq!(findings(&view), ["interrupted-call"]);
    assert_eq!(
        outcomes(&view),
        [("call_a".to_owned(), Outcome::Done), ("call_b".to_owned(), Outcome::Failed)]
    );
    let facts = &view.facts;
    assert_eq!(facts.cwd.as_deref(), Some("/home/ada/mill"));
    assert_eq!(facts.format.as_deref(), Some("sqlite v17"));
    assert_eq!(facts.titled.as_deref(), Some("Grind the wheat"));
    assert_eq!(facts.created.map(|at| at.to_string()).as_deref(), Some("2026-09-01T10:00:00.000Z"));
    let spent: Vec<_> = view
        .records
        .iter()
        .filter_map(|read| match read.record.body() {
            Body::Usage(spent) => {
                Some((spent.purpose.as_str(), spent.model.id.as_str(), spent.usage))
            }
            _ => None,
        })
        .collect();
    let usage = |input, output, cache_read, cache_write| Usage {
        input,
        output,
        cache_read,
        cache_write,
        reasoning: None,
    };
    assert_eq!(
        spent,
        [
            ("reply", "claude-sonnet-4-5", usage(300, 40, 600, 100)),
            ("reply", "claude-sonnet-4-5", usage(100, 12, 1000, 0)),
            ("compaction", "claude-haiku-4-5", usage(900, 80, 0, 0)),
        ]
    );
    // Seconds and milliseconds.
    let times: Vec<i64> = view.records.iter().map(|read| read.record.envelope.at.0).collect();
    assert!(
        times.iter().all(|at| (1_788_256_800_000..1_788_256_900_000).contains(at)),
        "{times:?}"
    );
}

/// Covers: #45.
#[test]
fn a_goose_summary_that_cuts_a_call_from_its_result_is_sendable() {
    let session = one(GOOSE, "20260901_2");
    let view = transcript(&session);
    assert_eq!(view.facts.named.as_deref(), Some("Mend the sails"));
    assert!(view.facts.archived);
    assert_eq!(findings(&view), ["unknown-record"]);
    let said: Vec<String> =
        lines(&view).into_iter().filter(|line| line != "context_edit").collect();
    assert_eq!(
        said,
        [
            "user: Mend the sails",
            "call developer__shell call_d {\"command\":\"sew\"}",
            "result call_d: sewn",
            "user: The sails were mended; the rope is frayed.",
            "call developer__shell call_e {\"command\":\"splice\"}",
            "result call_e: spliced",
            "user: Is the rope whole?",
            "custom goose.message",
        ]
    );
    let sent = context(&session);
    assert_eq!(
        sent[..2],
        [
            "user: The sails were mended; the rope is frayed.",
            "call developer__shell call_e {\"command\":\"splice\"}",
        ]
    );
    assert!(sent[2].starts_with("result call_e:"), "{sent:?}");
    assert_eq!(sent[3], "user: Is the rope whole?");
}

#[test]
fn an_old_goose_file_reads_like_the_database() {
    let view =
        transcript(&recognise(&corpus("foreign/goose/20250310_101500.jsonl")).expect("goose"));
    assert_eq!(
        lines(&view),
        [
            "user: Clean the hopper",
            "assistant: Cleaning.",
            "call developer__shell call_z {\"command\":\"brush\"}",
            "result call_z: brushed",
        ]
    );
    assert_eq!(findings(&view), ["torn-tail@5"]);
    assert_eq!(view.facts.titled.as_deref(), Some("Clean the hopper"));
    assert_eq!(view.facts.id.as_deref(), Some("20250310_101500"));
}

/// Covers: G14.
#[test]
fn goose_sessions_are_found_in_the_database_and_beside_it() {
    let home = tempfile::tempdir().expect("a folder");
    let place = home.path().join(".local/share/goose/sessions");
    copy(GOOSE, &place.join("sessions.db"));
    copy("foreign/goose/20250310_101500.jsonl", &place.join("20250310_101500.jsonl"));
    // The database has taken this one over.
    copy("foreign/goose/20250310_101500.jsonl", &place.join("20260901_1.jsonl"));
    let (found, failed) = locate(&Roots { home: home.path().to_owned(), ..Roots::default() });
    assert!(failed.is_empty(), "{failed:?}");
    let told: Vec<_> = found
        .iter()
        .map(|s| (s.id.as_deref().unwrap_or_default(), s.parent.as_deref(), s.archived))
        .collect();
    assert_eq!(
        told,
        [
            ("20260901_1", None, false),
            ("20260901_2", None, true),
            ("20260901_3", Some("20260901_1"), false),
            ("20260901_4", None, false),
            ("20250310_101500", None, false),
        ]
    );
    let last = found.iter().map(|session| transcript(session).records.len()).collect::<Vec<_>>();
    assert_eq!(last.len(), 5);
    assert_eq!(last[3], 0, "a session without messages is an empty one");
}

/// Covers: #32.
#[test]
fn a_crush_session_reads_with_its_tools_and_what_was_interrupted() {
    let session = one(CRUSH, "7c1e3f60-0000-4000-8000-00000000000a");
    assert_eq!(session.agent, Agent::Crush);
    let view = transcript(&session);
    assert_eq!(
        lines(&view),
        [
            "user: Stoke the furnace | [image/png]",
            "thinking: Coal.",
            "assistant: Stoking.",
            "call bash call_1 {\"command\":\"stoke\"}",
            "call agent call_2 {\"prompt\":\"coal?\"}",
            "call bash call_3 {\"command\":\"rm\"}",
            "result call_1: hot",
            "result call_2: ten sacks",
            "result call_3: User denied permission",
            "assistant: It glows.",
            "user: Hotter | $ date\nMon\n(exit code 0)",
            "assistant: More co",
            "call bash call_4 {\"comm",
        ]
    );
    assert_eq!(findings(&view), ["partial-reply", "interrupted-call"]);
    assert_eq!(outcomes(&view)[2], ("call_3".to_owned(), Outcome::Denied));
    assert_eq!(view.facts.titled.as_deref(), Some("Stoke the furnace"));
    assert!(view.facts.cwd.as_deref().is_some_and(|cwd| cwd.ends_with("foreign/crush")));
    // It is never said that the call may be made again.
    let sent = context(&session).join("\n");
    assert!(!sent.contains("retry"), "{sent}");
}

#[test]
fn a_crush_summary_begins_the_context_and_a_broken_row_hides_nothing() {
    let session = one(CRUSH, "7c1e3f60-0000-4000-8000-00000000000b");
    let view = transcript(&session);
    assert_eq!(
        lines(&view),
        [
            "user: Rake the ash",
            "assistant: Raked.",
            "summary: The ash is raked.",
            "user: And the grate?",
        ]
    );
    assert_eq!(findings(&view), ["torn-element"]);
    let sent = context(&session);
    assert!(sent[0].contains("The ash is raked."), "{sent:?}");
    assert_eq!(sent[1..], ["user: And the grate?"]);
}

/// Covers: G14.
#[test]
fn crush_sessions_are_found_in_its_own_list_of_projects() {
    let home = tempfile::tempdir().expect("a folder");
    let project = home.path().join("furnace");
    copy(CRUSH, &project.join("data/crush.db"));
    let list = serde_json::json!({ "projects": [{ "path": project, "data_dir": "data" }] });
    let data = home.path().join(".local/share/crush");
    fs::create_dir_all(&data).expect("a folder");
    fs::write(data.join("projects.json"), list.to_string()).expect("a file");
    let (found, failed) = locate(&Roots { home: home.path().to_owned(), ..Roots::default() });
    assert!(failed.is_empty(), "{failed:?}");
    assert_eq!(found.len(), 3);
    let child = found.iter().find(|s| s.parent.is_some()).expect("the subagent");
    let view = transcript(child);
    assert_eq!(view.facts.parent.as_deref(), Some("7c1e3f60-0000-4000-8000-00000000000a"));
    assert_eq!(view.facts.call.as_deref(), Some("call_2"));
    // Without a key it is the session that was used last.
    let last = recognise(&project.join("data/crush.db")).expect("Crush's");
    assert_eq!(transcript(&last).facts.titled.as_deref(), Some("Rake the ash"));
}

/// Covers: G14.
#[test]
fn reading_a_database_leaves_no_trace() {
    for (name, key) in [(GOOSE, "20260901_1"), (CRUSH, "7c1e3f60-0000-4000-8000-00000000000a")] {
        let home = tempfile::tempdir().expect("a folder");
        let path = home.path().join(Path::new(name).file_name().expect("it has one"));
        copy(name, &path);
        let state = || {
            let meta = fs::metadata(&path).expect("it is there");
            let beside = fs::read_dir(home.path()).expect("a folder").count();
            (fs::read(&path).expect("it is there"), meta.mtime_nsec(), meta.mtime(), beside)
        };
        let before = state();
        let database = recognise(&path).expect("it is known");
        transcript(&Located { key: Some(key.to_owned()), ..database });
        assert!(state() == before, "{name}");
    }
}
