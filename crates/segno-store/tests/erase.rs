//! Erasing what records said: whole or not at all, whenever the process or the power goes.
//!
//! Responsible for: the judge of an erasure on the simulated disk. Must not: depend on how many operations
//! it takes.

#![allow(clippy::unwrap_used, reason = "a failing test may panic")]

mod support;

use segno_model::context;
use segno_model::line::{readable_json, split_crc};
use segno_model::record::{
    Action, Approval, ApprovalState, AssistantBlock, AssistantMessage, Block, Message, ModelRef,
    ReplayClass, Task, Text, ToolMessage, UserMessage,
};
use segno_model::store::{ForkPoint, Level, SessionLog, SessionStore, StoreError};
use segno_model::{Body, Record, Seq, Timestamp};
use segno_store::{Copy, Disk as _, FileLog, FileStore, Options};
use segno_testkit::sessions::{answer, prompt};
use segno_testkit::sim_disk::SimDisk;
use serde_json::Value;
use std::path::{Path, PathBuf};
use support::*;

/// Must not be found anywhere. The quote and the line end look different within JSON.
const SECRET: &str = "sk-live-\"4711\"\n0815-0123456789";

/// Parts of it that are the same in every spelling.
const PARTS: [&str; 2] = ["sk-live-", "0815-0123456789"];

const AT: Timestamp = Timestamp(1_764_450_000_000);

fn store(disk: &SimDisk) -> FileStore<SimDisk> {
    let options = Options { checkpoint_every: 1500, index_every: 1, ..Options::default() };
    FileStore::with_options(disk.clone(), "/segno", options)
}

fn put(log: &mut FileLog<SimDisk>, body: Body) -> Record {
    now(log.append(vec![draft(body)], Level::Synced)).unwrap().remove(0)
}

fn message(message: Message) -> Body {
    Body::Message(Box::new(message))
}

fn tool(turn: Seq, id: &str, text: &str, whole: Option<segno_model::record::BlobRef>) -> Body {
    let result = serde_json::json!({
        "call_id": id, "call_seq": turn, "name": "bash", "content": [],
        "outcome": "done", "established": "observed",
    });
    let result: ToolMessage = serde_json::from_value(result).unwrap();
    message(Message::Tool(ToolMessage { content: vec![Block::text(text)], whole, ..result }))
}

/// What is to be erased, by number.
struct Chosen {
    prompt: Seq,
    turn: Seq,
    result: Seq,
}

/// A session with a secret in a prompt, a call, an intent, a question, a before-image, an output, and what
/// lies beside the log; then a way back, a summary, labels and settings that refer to all of it.
fn life(disk: &SimDisk) -> Chosen {
    let store = store(disk);
    let mut log = store.create(header(1));
    let first = put(&mut log, prompt("hello"));
    let user = UserMessage {
        content: vec![Block::text(format!("use {SECRET}"))],
        input_id: Some("in-1".into()),
        ..UserMessage::default()
    };
    let asked = put(&mut log, message(Message::User(user)));
    let before = now(log.put_blob(format!("KEY={SECRET}").as_bytes(), "KEY=")).unwrap();
    let output = now(log.put_blob(format!("out {SECRET}").repeat(9).as_bytes(), "out")).unwrap();
    let kept = now(log.put_blob(b"a picture", "")).unwrap();
    let arguments = serde_json::json!({ "command": format!("login {SECRET}") }).to_string();
    let turn = put(
        &mut log,
        message(Message::Assistant(AssistantMessage::new(
            &ModelRef::new("test", "m"),
            vec![AssistantBlock::call("c1", "bash", &arguments)],
        ))),
    );
    let state = ApprovalState::Asked { question: format!("run: login {SECRET}") };
    put(&mut log, Body::Approval(Approval { call_id: "c1".into(), call_seq: turn.seq(), state }));
    put(
        &mut log,
        Body::Action(Box::new(Action {
            call_id: "c1".into(),
            call_seq: turn.seq(),
            tool: "bash".into(),
            class: ReplayClass::Supervised,
            host: "h".into(),
            boot: "b".into(),
            key: None,
            probe: Some(
                serde_json::value::RawValue::from_string("{\"action\":\"abcdefghij\"}".into())
                    .unwrap(),
            ),
            before: Some(before),
        })),
    );
    let result =
        put(&mut log, tool(turn.seq(), "c1", &format!("logged in as {SECRET}"), Some(output)));
    let picture = UserMessage {
        content: vec![Block::Image { media_type: "image/png".into(), data: Text::Blob(kept) }],
        ..UserMessage::default()
    };
    put(&mut log, message(Message::User(picture)));
    for n in 0..5 {
        put(&mut log, answer(&format!("answer {n} {}", "long ".repeat(60))));
        put(&mut log, prompt(&format!("prompt {n}")));
    }
    put(&mut log, Body::Task(Task { goal: "go on".into(), ..Task::default() }));
    put(
        &mut log,
        Body::Label(segno_model::record::Label { target: result.pos(), label: "here".into() }),
    );
    put(&mut log, Body::Tip(segno_model::record::Tip { tip: Some(first.pos()) }));
    put(&mut log, answer("another branch"));
    put(&mut log, Body::Tip(segno_model::record::Tip { tip: Some(result.pos()) }));
    put(&mut log, answer("the end"));
    drop(log);
    beside(disk, &store);
    Chosen { prompt: asked.seq(), turn: turn.seq(), result: result.seq() }
}

/// What killed processes and commands left beside the log.
fn beside(disk: &SimDisk, store: &FileStore<SimDisk>) {
    let dir = store.log_path(&id(1)).unwrap().parent().unwrap().to_owned();
    let escaped = Value::from(SECRET).to_string();
    file(disk, &dir.join("draft"), format!("{{\"text\":{escaped}}}\n").as_bytes());
    let name = segno_model::sha256_hex(b"in-1");
    file(disk, &dir.join("inbox").join(name), format!("{{\"text\":{escaped}}}").as_bytes());
    let torn = "{\"seq\":99,\"text\":\"use sk-live-\\\"4711\\\"\\n0815-0123456789";
    file(disk, &dir.join("set-aside/tail-1200-0123456789abcdef"), torn.as_bytes());
    file(disk, &dir.join("set-aside/tail-1300-fedcba9876543210"), b"{\"seq\":99,\"zzzz");
    file(disk, &dir.join("actions/abcdefghij/output"), format!("hello {SECRET}").as_bytes());
    file(disk, &dir.join("actions/abcdefghij/lock"), b"");
    // The tails have to be told of, as after any later append.
    let mut log = open(store, &id(1)).unwrap().log;
    put(&mut log, prompt("later"));
    drop(log);
    file(disk, &dir.join(".tmp-1-1"), SECRET.as_bytes());
}

fn file(disk: &SimDisk, path: &Path, bytes: &[u8]) {
    for dir in path.ancestors().skip(1).collect::<Vec<_>>().into_iter().rev() {
        let _ = disk.create_dir(dir);
        let _ = dir.parent().map(|above| disk.sync_dir(above));
    }
    disk.create_new(path, segno_store::disk::Writes::Sequential).unwrap();
    disk.sync_dir(path.parent().unwrap()).unwrap();
    disk.poke(path, bytes);
}

fn files(disk: &SimDisk, dir: &Path, found: &mut Vec<PathBuf>) {
    for entry in disk.list(dir).unwrap_or_default() {
        let path = dir.join(&entry.name);
        if entry.is_dir { files(disk, &path, found) } else { found.push(path) }
    }
}

/// The files that hold a part of the secret.
fn holders(disk: &SimDisk) -> Vec<PathBuf> {
    let mut all = Vec::new();
    files(disk, Path::new("/segno"), &mut all);
    let holds = |path: &PathBuf| {
        let bytes = disk.peek(path).unwrap_or_default();
        PARTS.iter().any(|part| bytes.windows(part.len()).any(|window| window == part.as_bytes()))
    };
    all.retain(holds);
    all
}

/// What a record says, whatever the offsets and checksums of those that it refers to.
fn said(record: &Record) -> Value {
    fn without_places(value: &mut Value) {
        match value {
            Value::Object(members) => {
                let names: Vec<&str> = members.keys().map(String::as_str).collect();
                if names == ["crc", "offset", "seq"] || names == ["seq", "offset", "crc"] {
                    members.remove("offset");
                    members.remove("crc");
                }
                if let Some(Value::String(file)) = members.get_mut("file") {
                    *file = file.replacen("told-", "tail-", 1);
                }
                members.values_mut().for_each(without_places);
            }
            Value::Array(items) => items.iter_mut().for_each(without_places),
            _ => {}
        }
    }
    let mut value: Value = serde_json::from_str(&readable_json(&record.line)).unwrap();
    value.as_object_mut().unwrap().remove("crc");
    without_places(&mut value);
    value
}

fn others(records: &[Record], gone: &[Seq]) -> Vec<Value> {
    let stays = |r: &&Record| {
        !gone.contains(&r.seq()) && !matches!(r.body(), Body::Checkpoint(_) | Body::Repair(_))
    };
    records.iter().filter(stays).map(said).collect()
}

fn erase(disk: &SimDisk, seqs: &[Seq]) -> Result<(), StoreError> {
    let store = store(disk);
    now(store.erase(&id(1), seqs, AT)).map(drop)?;
    store.end_erasure(&id(1))
}

/// Either the old log is there, whole, or the new one; and it can be gone on with. Says which.
fn judge(disk: &SimDisk, before: &[Record], gone: &[Seq], what: &str) -> bool {
    let store = store(disk);
    let opened = open(&store, &id(1)).unwrap_or_else(|e| panic!("{what}: {e}"));
    let bad = opened
        .active
        .findings
        .iter()
        .filter(|f| !matches!(f.code, "erase-unfinished" | "torn-tail"));
    assert_eq!(bad.count(), 0, "{what}: {:?}", opened.active.findings);
    let after = scan(&store, &id(1));
    let erased: Vec<Seq> = after.iter().filter(|r| r.is_erased()).map(Record::seq).collect();
    assert!(erased.is_empty() || erased == gone, "{what}: half of it: {erased:?}");
    let last = before.last().unwrap().seq();
    let same: Vec<Record> = after.iter().filter(|r| r.seq() <= last).cloned().collect();
    assert_eq!(others(&same, gone), others(before, gone), "{what}");
    for record in after.iter().filter(|r| !r.is_erased()) {
        for name in segno_model::erase::blobs_in(&record.line) {
            let path = store.log_path(&id(1)).unwrap().with_file_name("blobs").join(name);
            assert!(disk.peek(&path).is_some(), "{what}: record {} lost its blob", record.seq());
        }
    }
    !erased.is_empty()
}

/// Covers: G1, G4, G5, G15. At every change and in many states of the medium: the old log or the new one, and
/// doing it again leaves nothing of the secret.
#[test]
fn power_lost_at_any_change_of_an_erasure_leaves_one_log_whole() {
    let fresh = || {
        let disk = SimDisk::new(7);
        let chosen = life(&disk);
        (disk, [chosen.prompt, chosen.turn, chosen.result])
    };
    let (disk, seqs) = fresh();
    let before = scan(&store(&disk), &id(1));
    assert!(holders(&disk).len() >= 8, "{:?}", holders(&disk));
    let from = disk.changes();
    erase(&disk, &seqs).unwrap();
    let changes = disk.changes() - from;
    let gone: Vec<Seq> =
        scan(&store(&disk), &id(1)).iter().filter(|r| r.is_erased()).map(Record::seq).collect();
    assert_eq!(gone.len(), 5, "the intent and the question go along: {gone:?}");
    let (mut old, mut new) = (0, 0);
    for n in 0..=changes {
        let (disk, seqs) = fresh();
        disk.stop_before_change(n);
        let done = erase(&disk, &seqs).is_ok();
        let states = disk.crash_states();
        let lost = states.sample(6, n).map(|state| states.nth(state)).chain([disk.kill_copy()]);
        for (i, disk) in lost.enumerate() {
            let what = format!("change {n}, state {i}");
            let is_new = judge(&disk, &before, &gone, &what);
            assert!(is_new || !done, "{what}: an erasure that was done is undone");
            *(if is_new { &mut new } else { &mut old }) += 1;
            // Cut short again, and finished only by a third process.
            disk.stop_before_change((n * 7 + i as u64 * 5) % (changes + 1));
            let _ = erase(&disk, &seqs);
            let disk = if i % 2 == 0 { disk.crash() } else { disk.kill() };
            judge(&disk, &before, &gone, &format!("{what}, again"));
            erase(&disk, &seqs).unwrap_or_else(|e| panic!("{what}: again: {e}"));
            assert!(judge(&disk, &before, &gone, &what));
            assert_eq!(holders(&disk), Vec::<PathBuf>::new(), "{what}");
            assert!(open(&store(&disk), &id(1)).unwrap().active.findings.is_empty(), "{what}");
            assert_eq!(holders(&disk.crash()), Vec::<PathBuf>::new(), "{what}: it came back");
        }
    }
    assert!(old > 0 && new > 0, "{old} {new}");
}

/// Covers: G6, G10. The context is the one before, but for what was erased; the session goes on, and erasing
/// again changes nothing.
#[test]
fn what_is_erased_is_gone_and_the_session_goes_on() {
    let disk = SimDisk::new(1);
    let Chosen { prompt, turn, result } = life(&disk);
    let store = store(&disk);
    let texts = |store: &FileStore<SimDisk>| {
        let opened = open(store, &id(1)).unwrap();
        let context = context::build(&opened.active.records, opened.log.state().tip());
        assert!(context.findings.is_empty() && context.unanswered.is_empty(), "{context:?}");
        context.messages.iter().map(segno_model::context::ContextMessage::text).collect::<Vec<_>>()
    };
    let before = texts(&store);
    let study = store.study_erasure(&id(1), &[prompt]).unwrap();
    assert_eq!(study.also_in, [turn, turn + 1, result], "the same words elsewhere are named");
    erase(&disk, &[prompt, turn, result]).unwrap();
    let after = texts(&store);
    assert_eq!(before.len(), after.len());
    let changed: Vec<&String> =
        after.iter().zip(&before).filter(|(a, b)| a != b).map(|(a, _)| a).collect();
    assert_eq!(changed, ["(erased)", "(erased)\nbash {}", "(erased)"]);
    let in_force = open(&store, &id(1)).unwrap().log.state().in_force.clone();
    assert_eq!(in_force.labels.len(), 1);
    let labelled = in_force.labels.values().next().unwrap().target;
    let records = scan(&store, &id(1));
    assert!(records.iter().any(|r| r.pos() == labelled), "the label names the record as it is now");

    let bytes = disk.peek(&store.log_path(&id(1)).unwrap()).unwrap();
    erase(&disk, &[prompt, turn, result]).unwrap();
    assert_eq!(disk.peek(&store.log_path(&id(1)).unwrap()).unwrap(), bytes);
    let mut log = open(&store, &id(1)).unwrap().log;
    append(&mut log, "and on").unwrap();
    drop(log);
    assert!(scan(&store, &id(1)).iter().all(|r| split_crc(&r.line).is_some()));
    assert!(open(&store, &id(1)).unwrap().active.findings.is_empty());
}

/// Covers: G5. Nobody's log is taken away from under them, and nobody gets in between.
#[test]
fn a_session_that_somebody_has_is_not_erased() {
    let disk = SimDisk::new(1);
    let chosen = life(&disk);
    let store = store(&disk);
    let held = open(&store, &id(1)).unwrap();
    let error = now(store.erase(&id(1), &[chosen.prompt], AT)).unwrap_err();
    assert!(matches!(error, StoreError::Held(_)), "{error}");
    drop(held);
    // A process that opened the old file just before it was replaced finds the new one.
    let other = self::store(&disk);
    let seqs = [chosen.prompt, chosen.turn, chosen.result];
    disk.before_the_next_lock(move |disk| erase(disk, &seqs).unwrap());
    let mut log = open(&other, &id(1)).unwrap().log;
    append(&mut log, "after").unwrap();
    drop(log);
    assert_eq!(texts(&store, &id(1)).last().map(String::as_str), Some("after"));
    assert_eq!(holders(&disk), Vec::<PathBuf>::new());
}

#[test]
fn what_cannot_be_erased_is_refused_and_changes_no_byte() {
    let disk = SimDisk::new(1);
    let chosen = life(&disk);
    let store = store(&disk);
    let path = store.log_path(&id(1)).unwrap();
    let bytes = disk.peek(&path).unwrap();
    let tip = scan(&store, &id(1)).iter().find(|r| r.envelope.kind == "tip").unwrap().seq();
    for (seq, why) in
        [(0, "nothing was said"), (9999, "there is no record"), (tip, "nothing was said")]
    {
        let error = now(store.erase(&id(1), &[seq], AT)).unwrap_err().to_string();
        assert!(error.contains(why), "{error}");
        assert_eq!(disk.peek(&path).unwrap(), bytes);
    }
    let mut damaged = bytes.clone();
    let at = damaged.iter().rposition(|b| *b == b'z').unwrap_or(bytes.len() / 2);
    damaged.splice(at..at + 3, *b"\0\0\0");
    disk.poke(&path, &damaged);
    assert!(now(store.erase(&id(1), &[chosen.prompt], AT)).is_err());
    assert_eq!(disk.peek(&path).unwrap(), damaged);
}

#[test]
fn copies_are_named_and_left_alone() {
    let disk = SimDisk::new(1);
    let chosen = life(&disk);
    let store = store(&disk);
    let fork = |of: u32, to: u32, point| {
        now(store.fork(&id(of), point, header(to), AT)).map(drop).unwrap();
    };
    fork(1, 2, ForkPoint::Whole);
    fork(2, 3, ForkPoint::Whole);
    fork(1, 4, ForkPoint::Before(chosen.prompt));
    store.trash(&id(3)).unwrap();
    let copy = |n: u32, trashed| Copy { id: id(n), trashed };
    assert_eq!(store.copies(&id(1), chosen.prompt).unwrap(), [copy(2, false), copy(3, true)]);
    assert_eq!(store.copies(&id(2), chosen.prompt).unwrap(), [copy(1, false), copy(3, true)]);
    assert_eq!(store.copies(&id(4), chosen.prompt).unwrap(), []);
    let before = disk.peek(&store.log_path(&id(2)).unwrap()).unwrap();
    erase(&disk, &[chosen.prompt, chosen.turn, chosen.result]).unwrap();
    assert_eq!(disk.peek(&store.log_path(&id(2)).unwrap()).unwrap(), before);
    let blobs = scan(&store, &id(2))
        .iter()
        .flat_map(|r| segno_model::erase::blobs_in(&r.line).map(str::to_owned).collect::<Vec<_>>())
        .collect::<Vec<_>>();
    let dir = store.log_path(&id(2)).unwrap().with_file_name("blobs");
    assert!(
        blobs.iter().all(|blob| disk.peek(&dir.join(blob)).is_some()),
        "a fork keeps its blobs"
    );
}
