//! What killed processes leave behind, and who may take it away.
//!
//! Responsible for: that clutter goes once it is certain whose it was, and nothing else does. Must not:
//! wait for anything.

#![allow(clippy::unwrap_used, reason = "a failing test may panic")]

mod support;

use segno_model::store::{ForkPoint, HeldSession, SessionLog, SessionStore, StoreError};
use segno_store::FileStore;
use segno_store::disk::{Disk, DiskFile, Writes};
use segno_testkit::sim_disk::SimDisk;
use std::path::{Path, PathBuf};
use support::*;

fn store(disk: &SimDisk) -> FileStore<SimDisk> {
    FileStore::new(disk.clone(), "/segno")
}

fn month(disk: &SimDisk) -> PathBuf {
    let log = store(disk).log_path(&id(1)).unwrap();
    log.ancestors().nth(2).unwrap().to_owned()
}

fn names(disk: &SimDisk, dir: &Path) -> Vec<String> {
    disk.list(dir).unwrap_or_default().into_iter().map(|entry| entry.name).collect()
}

fn fork(disk: &SimDisk, n: u32) -> Result<(), StoreError> {
    now(store(disk).fork(&id(1), ForkPoint::Whole, header(n), say("").at)).map(drop)
}

/// A session with some text and a blob.
fn begun(seed: u64) -> SimDisk {
    let disk = SimDisk::new(seed);
    let mut log = store(&disk).create(header(1));
    append(&mut log, "one").unwrap();
    now(log.put_blob(b"a blob", "")).unwrap();
    drop(log);
    disk
}

/// Covers: MS7.
#[test]
fn half_made_forks_of_killed_processes_go_with_the_next_fork() {
    let mut half_made = 0;
    for n in 0..80 {
        let disk = begun(n);
        disk.stop_after(n);
        let _ = fork(&disk, 2);
        for disk in [disk.kill(), disk.crash()] {
            let is_half = |name: &String| name.starts_with('.');
            half_made += names(&disk, &month(&disk)).iter().filter(|name| is_half(name)).count();
            fork(&disk, 3).unwrap();
            let left = names(&disk, &month(&disk));
            assert!(!left.iter().any(is_half), "operation {n}: {left:?}");
            assert_eq!(texts(&store(&disk), &id(3)), ["one"], "operation {n}");
            assert_eq!(texts(&store(&disk), &id(1)), ["one"], "operation {n}");
            if left.contains(&id(2).to_string()) {
                assert_eq!(texts(&store(&disk), &id(2)), ["one"], "operation {n}");
            }
        }
    }
    assert!(half_made > 20, "only {half_made} forks were cut short");
}

/// Covers: G5.
#[test]
fn a_fork_that_is_being_made_is_left_alone() {
    let disk = begun(1);
    let building = month(&disk).join(".fork-of-somebody-else");
    disk.create_dir(&building).unwrap();
    let log = disk.create_new(&building.join("log.jsonl"), Writes::Sequential).unwrap();
    assert!(log.try_lock().unwrap());
    fork(&disk, 2).unwrap();
    assert_eq!(names(&disk, &building), ["log.jsonl"]);
    drop(log);
    fork(&disk, 3).unwrap();
    assert_eq!(names(&disk, &month(&disk)).iter().filter(|name| name.starts_with('.')).count(), 0);
}

/// Between making its log and locking it, a fork may be taken for a leftover. It is begun again.
#[test]
fn a_fork_that_was_taken_for_a_leftover_is_begun_again() {
    let disk = begun(1);
    disk.before_the_next_lock(|disk| fork(disk, 9).unwrap());
    fork(&disk, 2).unwrap();
    for n in [2, 9] {
        assert_eq!(texts(&store(&disk), &id(n)), ["one"]);
    }
}

/// Covers: MS7.
#[test]
fn nameless_files_of_killed_writers_go_with_the_next_append() {
    let disk = begun(1);
    let session = store(&disk).log_path(&id(1)).unwrap().parent().unwrap().to_owned();
    disk.create_dir(&session.join("set-aside")).unwrap();
    let dirs = [session.clone(), session.join("blobs"), session.join("set-aside")];
    for dir in &dirs {
        disk.create_new(&dir.join(".tmp-1-1"), Writes::Sequential).unwrap();
        disk.create_new(&dir.join("tmp-of-a-person"), Writes::Sequential).unwrap();
    }
    let has_temp = |dir: &PathBuf| names(&disk, dir).iter().any(|name| name.starts_with(".tmp"));
    let held = now(store(&disk).open(&id(1))).unwrap();
    drop(now(held.judge()).unwrap());
    now(store(&disk).read(&id(1))).unwrap();
    assert!(dirs.iter().all(has_temp), "looking changes nothing");
    append(&mut open(&store(&disk), &id(1)).unwrap().log, "two").unwrap();
    assert!(!dirs.iter().any(has_temp));
    assert!(dirs.iter().all(|dir| names(&disk, dir).contains(&"tmp-of-a-person".to_owned())));
    assert_eq!(texts(&store(&disk), &id(1)), ["one", "two"]);
}
