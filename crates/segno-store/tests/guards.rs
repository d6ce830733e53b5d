//! Guards that only matter when another process dies or acts at the worst moment.
//!
//! Responsible for: one test for each step of the store that could be left out without any other test
//! noticing. Must not: look at how a step is done.

#![allow(clippy::unwrap_used, reason = "a failing test may panic")]

mod support;

use segno_model::Seq;
use segno_model::finding::Severity;
use segno_model::line::split_crc;
use segno_model::record::RepairItem;
use segno_model::store::{
    DamagedSession, ForkPoint, HeldSession, Judged, Level, SessionLog, SessionStore, StoreError,
};
use segno_store::FileStore;
use segno_store::disk::{Disk, DiskFile, Writes};
use segno_testkit::sim_disk::SimDisk;
use std::path::PathBuf;
use support::*;

fn store(disk: &SimDisk) -> FileStore<SimDisk> {
    FileStore::new(disk.clone(), "/segno")
}

fn begun(seed: u64) -> (SimDisk, PathBuf) {
    let disk = SimDisk::new(seed);
    append(&mut store(&disk).create(header(1)), "one").unwrap();
    let path = store(&disk).log_path(&id(1)).unwrap();
    (disk, path)
}

/// A blob that a killed process stored is there for good once another one was told so, whether its
/// content, its name or its directory was not durable yet. Covers: G1, G12.
#[test]
fn a_blob_of_a_killed_process_is_synced_before_it_is_used_again() {
    let bytes = [9u8; 2000];
    let blob = blob_ref(&bytes);
    let putting = |disk: &SimDisk| {
        open(&store(disk), &id(1)).and_then(|mut opened| now(opened.log.put_blob(&bytes, "")))
    };
    for (n, seed) in (0..50).flat_map(|n| (0..4).map(move |seed| (n, seed))) {
        let (disk, _) = begun(seed);
        disk.stop_after(n);
        let _ = putting(&disk);
        let disk = disk.kill();
        putting(&disk).unwrap();
        let disk = disk.crash();
        let found = now(store(&disk).blob(&id(1), &blob));
        assert_eq!(found.unwrap(), bytes, "operation {n}, seed {seed}");
    }
    // One whose writer did not sync anything at all.
    for seed in 0..20 {
        let (disk, path) = begun(seed);
        let dir = path.with_file_name("blobs");
        disk.create_dir(&dir).unwrap();
        let file = disk.create_new(&dir.join(&blob.blob), Writes::Sequential).unwrap();
        file.write(&bytes).unwrap();
        drop(file);
        putting(&disk).unwrap();
        let disk = disk.crash();
        let found = now(store(&disk).blob(&id(1), &blob));
        assert_eq!(found.unwrap(), bytes, "seed {seed}");
    }
}

/// What a killed writer left in memory only is no ground to stand on: a mark that claimed it would make
/// its loss damage. Covers: G1, G2.
#[test]
fn a_mark_after_opening_claims_nothing_that_nobody_synced() {
    for seed in 0..30 {
        let (disk, _) = begun(seed);
        let mut log = open(&store(&disk), &id(1)).unwrap().log;
        for n in 0..4 {
            now(log.append(vec![say(&format!("only written {n}"))], Level::Written)).unwrap();
        }
        let disk = disk.kill();
        let mut log = open(&store(&disk), &id(1)).unwrap().log;
        now(log.append(vec![say("by the next one")], Level::Written)).unwrap();
        drop(log);
        let durable: Seq = 1;
        let last = scan(&store(&disk), &id(1)).pop().unwrap();
        assert!(last.envelope.synced.is_none_or(|mark| mark <= durable), "{last:?}");
        let disk = disk.crash();
        let opened = open(&store(&disk), &id(1)).unwrap();
        let damaged = |f: &&segno_model::finding::Finding| f.severity == Severity::Damage;
        assert_eq!(opened.active.findings.iter().find(damaged), None, "seed {seed}");
    }
}

/// A fork that can be seen is whole, and one that was reported survives power loss, also without blobs.
/// Covers: G1.
#[test]
fn a_fork_is_durable_before_it_is_shown() {
    for (n, seed) in (0..60).flat_map(|n| (0..6).map(move |seed| (n, seed))) {
        let (disk, path) = begun(seed);
        disk.stop_after(n);
        let done = now(store(&disk).fork(&id(1), ForkPoint::Whole, header(2), say("").at)).is_ok();
        let disk = disk.crash();
        let home = path.ancestors().nth(2).unwrap().join(id(2).as_str());
        let what = format!("operation {n}, seed {seed}");
        if disk.meta(&home).is_ok() {
            assert_eq!(texts(&store(&disk), &id(2)), ["one"], "{what}");
        }
        assert!(!done || disk.meta(&home).is_ok(), "{what}: the fork is gone");
    }
}

/// Between opening a log and locking it, another process may move or replace it. Then the lock is one on
/// a file that nobody finds any more. Covers: G5.
#[test]
fn the_lock_is_on_the_file_that_has_the_name() {
    let (disk, _) = begun(1);
    disk.before_the_next_lock(|disk| store(disk).trash(&id(1)).unwrap());
    let refused = now(store(&disk).open(&id(1))).err();
    assert!(matches!(refused, Some(StoreError::NotFound(_))), "{refused:?}");

    let (disk, path) = begun(2);
    let longer = {
        append(&mut open(&store(&disk), &id(1)).unwrap().log, "two").unwrap();
        disk.peek(&path).unwrap()
    };
    let replaced = path.clone();
    disk.before_the_next_lock(move |disk| {
        disk.rename(&replaced, &replaced.with_file_name("old")).unwrap();
        let file = disk.create_new(&replaced, Writes::Append).unwrap();
        file.write(&longer).unwrap();
    });
    append(&mut open(&store(&disk), &id(1)).unwrap().log, "three").unwrap();
    assert_eq!(texts(&store(&disk), &id(1)), ["one", "two", "three"]);
}

/// What a session is is not for a person to accept: a changed line 1 cannot be settled by a repair,
/// whatever its plan. Covers: G3, G13.
#[test]
fn no_repair_settles_an_altered_header() {
    let (disk, path) = begun(1);
    append(&mut open(&store(&disk), &id(1)).unwrap().log, "two").unwrap();
    let text = String::from_utf8(disk.peek(&path).unwrap()).unwrap();
    let altered =
        text.replacen("\"session\"", "\"sessiom\"", 1).replacen("\"seq\":0", "\"seq\":0 ", 1);
    assert!(split_crc(altered.lines().next().unwrap().as_bytes()).is_some());
    disk.poke(&path, altered.as_bytes());
    let plans: [fn(Vec<RepairItem>) -> Vec<RepairItem>; 2] =
        [|plan| plan, |_| vec![RepairItem::Missing { first: 0, last: 0 }]];
    for plan in plans {
        let Judged::Damaged(damaged) =
            now(now(store(&disk).open(&id(1))).unwrap().judge()).unwrap()
        else {
            panic!("a log with a changed header is not sound");
        };
        let plan = plan(damaged.plan(&[0]));
        let refused = now(damaged.repair(plan, say("").at)).err();
        assert!(matches!(refused, Some(StoreError::Refused(_))), "{refused:?}");
        assert_eq!(disk.peek(&path).unwrap(), altered.as_bytes(), "nothing was appended");
    }
}
