//! A session's life on files: coming into being, holding, reopening, being found.
//!
//! Responsible for: what an embedder sees of the file store when nothing fails. Must not: inject faults.

#![allow(clippy::unwrap_used, reason = "a failing test may panic")]

mod support;

use segno_model::Body;
use segno_model::record::{Run, RunState};
use segno_model::store::{ForkPoint, Level, SessionLog, SessionStore, StoreError};
use segno_store::{FileStore, Match};
use segno_testkit::sessions;
use segno_testkit::sim_disk::SimDisk;
use std::path::Path;
use support::*;

fn store() -> (SimDisk, FileStore<SimDisk>) {
    let disk = SimDisk::new(1);
    (disk.clone(), FileStore::new(disk, "/segno"))
}

/// Covers: ST1, MS1, MS2.
#[test]
fn nothing_exists_until_the_first_append_and_then_the_header_comes_with_it() {
    let (disk, store) = store();
    let mut log = store.create(header(1));
    assert_eq!(disk.operations(), 0, "constructing a session touches nothing");
    append(&mut log, "first").unwrap();
    append(&mut log, "second").unwrap();
    let records = scan(&store, &id(1));
    assert_eq!(records.len(), 3);
    assert_eq!(records[2].envelope.parent, Some(1));
    assert_eq!(log.state().tip().map(|t| t.seq), Some(2));
    assert_eq!(texts(&store, &id(1)), ["first", "second"]);
}

/// Covers: ST2.
#[test]
fn reopening_gives_the_same_records_and_state() {
    let (_, store) = store();
    let mut log = store.create(header(1));
    append(&mut log, "first").unwrap();
    let before = log.state().clone();
    drop(log);
    let mut opened = open(&store, &id(1)).unwrap();
    assert_eq!(opened.log.state().next_seq, before.next_seq);
    assert_eq!(opened.log.state().end, before.end);
    assert_eq!(opened.log.header(), &header(1));
    append(&mut opened.log, "second").unwrap();
    assert_eq!(texts(&store, &id(1)), ["first", "second"]);
}

/// Covers: MS6.
#[test]
fn a_log_that_is_there_already_is_never_overwritten() {
    let (disk, store) = store();
    let mut first = store.create(header(1));
    append(&mut first, "mine").unwrap();
    drop(first);
    let before = disk.peek(&store.log_path(&id(1)).unwrap());
    let mut second = store.create(header(1));
    assert!(matches!(append(&mut second, "theirs"), Err(StoreError::Exists(_))));
    assert_eq!(second.state().next_seq, 0, "memory has not moved");
    assert_eq!(disk.peek(&store.log_path(&id(1)).unwrap()), before);
}

/// Covers: G5, LE1, LE2, #102.
#[test]
fn a_second_writer_in_the_same_process_is_refused_until_the_first_is_gone() {
    let (_, store) = store();
    let mut log = store.create(header(1));
    append(&mut log, "mine").unwrap();
    let Err(StoreError::Held(owner)) = now(store.open(&id(1))) else { panic!("must be held") };
    assert_eq!(owner.pid, std::process::id());
    assert!(now(store.list()).unwrap()[0].held);
    assert_eq!(texts(&store, &id(1)), ["mine"], "reading needs no right");
    drop(log);
    assert!(!now(store.list()).unwrap()[0].held);
    assert!(open(&store, &id(1)).is_ok());
}

/// Covers: G5, #103.
#[test]
fn an_owner_file_alone_holds_nothing_and_an_unreadable_one_hides_nothing() {
    let (disk, store) = store();
    let mut log = store.create(header(1));
    append(&mut log, "mine").unwrap();
    let owner = store.log_path(&id(1)).unwrap().with_file_name("owner");
    assert!(disk.peek(&owner).is_some());
    for bytes in [&b"\0\0"[..], b"{\"pid\":", b"", b"{\"pid\":4194303,\"host\":\"gone\"}"] {
        disk.poke(&owner, bytes);
        assert!(matches!(now(store.open(&id(1))), Err(StoreError::Held(_))));
    }
    drop(log);
    assert!(open(&store, &id(1)).is_ok(), "a dead process named there blocks nobody");
}

#[test]
fn a_missing_session_is_an_error_and_never_a_new_one() {
    let (disk, store) = store();
    assert!(matches!(now(store.open(&id(9))), Err(StoreError::NotFound(_))));
    assert!(matches!(now(store.read(&id(9))), Err(StoreError::NotFound(_))));
    assert!(disk.peek(Path::new("/segno")).is_none());
    assert!(now(store.list()).unwrap().is_empty());
}

#[test]
fn a_beginning_of_an_id_finds_it_when_it_is_the_only_one() {
    let (_, store) = store();
    for n in [0x1000, 0x1001, 0x2000] {
        append(&mut store.create(header(n)), "x").unwrap();
    }
    assert_eq!(store.find("01992").unwrap(), Match::One(id(0x2000)));
    assert_eq!(store.find(id(0x1001).as_str()).unwrap(), Match::One(id(0x1001)));
    assert_eq!(store.find("01991").unwrap(), Match::Several(vec![id(0x1000), id(0x1001)]));
    assert_eq!(store.find("fff").unwrap(), Match::Nothing);
    assert_eq!(store.find("").unwrap(), Match::Nothing);
    assert_eq!(store.find("../").unwrap(), Match::Nothing);
}

#[test]
fn the_trash_takes_and_gives_back_and_is_emptied_only_on_request() {
    let (_, store) = store();
    let mut log = store.create(header(1));
    append(&mut log, "kept").unwrap();
    assert!(matches!(store.trash(&id(1)), Err(StoreError::Held(_))));
    drop(log);
    store.trash(&id(1)).unwrap();
    assert!(now(store.list()).unwrap().is_empty());
    assert_eq!(store.list_trash().unwrap()[0].id, id(1));
    store.restore(&id(1)).unwrap();
    assert_eq!(texts(&store, &id(1)), ["kept"]);
    store.trash(&id(1)).unwrap();
    assert_eq!(store.empty_trash().unwrap(), [id(1)]);
    assert!(store.list_trash().unwrap().is_empty());
    assert!(matches!(store.restore(&id(1)), Err(StoreError::NotFound(_))));
}

#[test]
fn a_blob_is_there_before_and_after_the_session_exists() {
    let (disk, store) = store();
    let mut log = store.create(header(1));
    let blob = now(log.put_blob(b"large", "la")).unwrap();
    assert_eq!(disk.operations(), 0, "a blob alone makes no session");
    assert_eq!(now(log.blob(&blob)).unwrap(), b"large");
    append(&mut log, "with a blob").unwrap();
    assert_eq!(now(store.blob(&id(1), &blob)).unwrap(), b"large");
    let second = now(log.put_blob(b"other", "")).unwrap();
    assert_eq!(now(log.blob(&second)).unwrap(), b"other");
}

#[test]
fn a_damaged_blob_is_reported_and_mended_by_storing_it_again() {
    let (disk, store) = store();
    let mut log = store.create(header(1));
    append(&mut log, "x").unwrap();
    let blob = now(log.put_blob(b"large", "")).unwrap();
    let path = store.log_path(&id(1)).unwrap().with_file_name("blobs").join(&blob.blob);
    disk.poke(&path, b"lArge");
    assert!(matches!(now(log.blob(&blob)), Err(StoreError::Damaged { .. })));
    now(log.put_blob(b"large", "")).unwrap();
    assert_eq!(now(log.blob(&blob)).unwrap(), b"large");
    let mut hostile = blob.clone();
    hostile.blob = "../../../etc/passwd".to_owned();
    assert!(matches!(now(log.blob(&hostile)), Err(StoreError::Damaged { .. })));
}

/// Covers: #126.
#[test]
fn a_fork_of_a_live_session_holds_everything_that_was_acknowledged() {
    let (disk, store) = store();
    let mut log = store.create(header(1));
    append(&mut log, "one").unwrap();
    now(log.append(vec![say("two")], Level::Written)).unwrap();
    let blob = now(log.put_blob(b"large", "")).unwrap();
    let before = disk.peek(&store.log_path(&id(1)).unwrap()).unwrap();
    now(store.fork(&id(1), ForkPoint::Whole, header(2), say("").at)).unwrap();
    assert_eq!(texts(&store, &id(2)), ["one", "two"]);
    assert_eq!(now(store.blob(&id(2), &blob)).unwrap(), b"large");
    assert_eq!(disk.peek(&store.log_path(&id(1)).unwrap()).unwrap(), before);
    let mut fork = open(&store, &id(2)).unwrap().log;
    assert_eq!(fork.header().origin.as_ref().unwrap().of, id(1).to_string());
    append(&mut fork, "three").unwrap();
    assert_eq!(texts(&store, &id(2)), ["one", "two", "three"]);
    assert_eq!(texts(&store, &id(1)), ["one", "two"]);
    append(&mut log, "the source goes on").unwrap();
}

#[test]
fn a_fork_ends_at_or_before_a_node_and_nowhere_else() {
    let (_, store) = store();
    let mut log = store.create(header(1));
    for text in ["one", "two", "three"] {
        append(&mut log, text).unwrap();
    }
    now(log.append(vec![draft(sessions::task("goal"))], Level::Synced)).unwrap();
    let fork = |n, point| now(store.fork(&id(1), point, header(n), say("").at));
    fork(2, ForkPoint::At(2)).unwrap();
    fork(3, ForkPoint::Before(2)).unwrap();
    fork(4, ForkPoint::Before(1)).unwrap();
    assert!(matches!(fork(5, ForkPoint::At(4)), Err(StoreError::Refused(_))));
    assert!(matches!(fork(5, ForkPoint::At(99)), Err(StoreError::Refused(_))));
    assert!(matches!(fork(5, ForkPoint::Before(0)), Err(StoreError::Refused(_))));
    assert!(matches!(fork(2, ForkPoint::Whole), Err(StoreError::Exists(_))));
    assert_eq!(texts(&store, &id(2)), ["one", "two"]);
    assert_eq!(texts(&store, &id(3)), ["one"]);
    assert_eq!(texts(&store, &id(4)), [""; 0]);
    let tip = |n| open(&store, &id(n)).unwrap().log.state().tip().map(|t| t.seq);
    assert_eq!([tip(2), tip(3), tip(4)], [Some(2), Some(1), None]);
    assert_eq!(now(store.list()).unwrap().len(), 4);
}

#[test]
fn what_is_open_in_the_source_is_settled_as_the_sources_in_the_copy() {
    let (_, store) = store();
    let mut log = store.create(header(1));
    append(&mut log, "do it").unwrap();
    let reply = sessions::reply("", &[sessions::call("c1")]);
    now(log.append(vec![draft(reply)], Level::Synced)).unwrap();
    let started = RunState::Started { attempt: 1, owner: "me".to_owned() };
    let run = Body::Run(Run { run: 1, state: started });
    now(log.append(vec![draft(run), draft(sessions::action("c1", 2))], Level::Synced)).unwrap();
    now(store.fork(&id(1), ForkPoint::Whole, header(2), say("").at)).unwrap();
    let fork = open(&store, &id(2)).unwrap();
    assert!(fork.log.state().in_force.open_actions.is_empty());
    let settled = |r: &segno_model::Record| {
        String::from_utf8_lossy(&r.line).contains("\"established\":\"origin\"")
    };
    assert!(scan(&store, &id(2)).iter().any(settled));
    assert_eq!(fork.log.state().tip(), log.state().tip());
    assert_eq!(log.state().in_force.open_actions.len(), 1, "the source's is still its own");
}

/// Covers: MS3. Looking at a session, or opening it and doing nothing, leaves its log as it was.
#[test]
fn opening_and_closing_changes_nothing_about_the_log() {
    let root = tempfile::tempdir().unwrap();
    let store = FileStore::new(segno_store::RealDisk, root.path());
    append(&mut store.create(header(1)), "one").unwrap();
    let path = store.log_path(&id(1)).unwrap();
    let facts =
        || (std::fs::read(&path).unwrap(), std::fs::metadata(&path).unwrap().modified().unwrap());
    let before = facts();
    drop(open(&store, &id(1)).unwrap());
    now(store.read(&id(1))).unwrap();
    assert_eq!(facts(), before);
}

/// Covers: G1. A batch costs one sync, whatever it holds.
#[test]
fn a_batch_is_one_sync_and_only_a_new_session_syncs_directories() {
    let (disk, store) = store();
    let mut log = store.create(header(1));
    append(&mut log, "first").unwrap();
    let (files, dirs) = disk.syncs();
    assert_eq!(files, 1, "header and first records in one");
    assert!(dirs >= 4, "session, month, sessions and root: {dirs}");
    for n in 1..=3 {
        now(log.append(vec![say("a"), say("b"), say("c")], Level::Synced)).unwrap();
        assert_eq!(disk.syncs(), (files + n, dirs));
    }
    now(log.append(vec![say("d")], Level::Written)).unwrap();
    assert_eq!(disk.syncs(), (files + 3, dirs));
}
