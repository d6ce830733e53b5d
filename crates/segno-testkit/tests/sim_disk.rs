//! The simulated disk loses what it may and keeps what it must.
//!
//! Responsible for: checks of the simulation itself, so that a store's passing means something. Must
//! not: know the store.

#![allow(clippy::unwrap_used, reason = "a failing test may panic")]

use segno_store::disk::{Disk, DiskFile, Writes};
use segno_testkit::sim_disk::{Fault, OpKind, SimDisk};
use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::path::Path;

const FILE: &str = "/dir/file";

/// A file of `synced` bytes that are safe and `more` that are not.
fn disk(seed: u64, synced: usize, more: usize) -> SimDisk {
    let disk = SimDisk::new(seed);
    disk.create_dir(Path::new("/dir")).unwrap();
    disk.sync_dir(Path::new("/")).unwrap();
    let file = disk.create_new(Path::new(FILE), Writes::Append).unwrap();
    disk.sync_dir(Path::new("/dir")).unwrap();
    file.write(&vec![b's'; synced]).unwrap();
    file.sync_data().unwrap();
    file.write(&vec![b'u'; more]).unwrap();
    disk
}

/// The content after each of many crashes.
fn outcomes(synced: usize, more: usize) -> BTreeSet<Vec<u8>> {
    (0..200).map(|seed| disk(seed, synced, more).crash().peek(Path::new(FILE)).unwrap()).collect()
}

#[test]
fn what_was_synced_survives_every_crash() {
    for found in outcomes(700, 3000) {
        assert_eq!(found[..700], vec![b's'; 700], "{} bytes", found.len());
    }
}

#[test]
fn what_was_not_synced_is_lost_torn_and_kept_by_turns() {
    let found = outcomes(700, 3000);
    let is = |wanted: &dyn Fn(&Vec<u8>) -> bool| found.iter().any(wanted);
    assert!(is(&|f| f.len() == 700), "all of it lost");
    assert!(is(&|f| f.len() == 3700 && f[700..].iter().all(|b| *b == b'u')), "all of it kept");
    assert!(is(&|f| f.contains(&0) && f.ends_with(b"u")), "a hole in front of what was kept");
}

#[test]
fn the_same_seed_gives_the_same_crash() {
    let crashed = || disk(5, 700, 9000).crash().peek(Path::new(FILE));
    assert_eq!(crashed(), crashed());
}

#[test]
fn a_kill_loses_nothing_but_locks() {
    let before = disk(1, 700, 3000);
    let file = before.open_append(Path::new(FILE)).unwrap();
    assert!(file.try_lock().unwrap());
    let after = before.kill();
    assert_eq!(after.peek(Path::new(FILE)).unwrap().len(), 3700);
    assert!(after.open_append(Path::new(FILE)).unwrap().try_lock().unwrap());
    assert!(file.write(b"x").is_err(), "the killed process does nothing any more");
}

#[test]
fn names_that_were_not_synced_may_be_gone() {
    let present: BTreeSet<bool> = (0..50)
        .map(|seed| {
            let disk = SimDisk::new(seed);
            let file = disk.create_new(Path::new("/new"), Writes::Append).unwrap();
            file.write(b"x").unwrap();
            file.sync_all().unwrap();
            disk.crash().peek(Path::new("/new")).is_some()
        })
        .collect();
    assert_eq!(present, BTreeSet::from([false, true]));
}

#[test]
fn a_rename_happens_wholly_or_not_at_all() {
    for seed in 0..50 {
        let disk = disk(seed, 10, 0);
        disk.rename(Path::new(FILE), Path::new("/dir/other")).unwrap();
        let after = disk.crash();
        let there = [FILE, "/dir/other"].map(|p| after.peek(Path::new(p)).is_some());
        assert_eq!(there.iter().filter(|t| **t).count(), 1, "seed {seed}");
    }
}

#[test]
fn after_a_failed_sync_memory_shows_what_the_medium_lacks() {
    let disk = disk(1, 700, 3000);
    let file = disk.open_append(Path::new(FILE)).unwrap();
    disk.inject(Fault::next(OpKind::Sync, ErrorKind::Other));
    assert!(file.sync_data().is_err());
    file.sync_data().unwrap();
    assert_eq!(disk.peek(Path::new(FILE)).unwrap().len(), 3700);
    let after = disk.crash().peek(Path::new(FILE)).unwrap();
    assert!(!after.contains(&b'u'), "the sync that succeeded wrote nothing");
}

#[test]
fn a_write_that_crosses_the_capacity_is_short_and_the_next_one_fails() {
    let disk = disk(1, 700, 0);
    disk.set_capacity(Some(1000));
    let file = disk.open_append(Path::new(FILE)).unwrap();
    assert_eq!(file.write(&[0; 500]).unwrap(), 300);
    assert_eq!(file.write(&[0; 1]).unwrap_err().kind(), ErrorKind::StorageFull);
    file.truncate(900).unwrap();
    assert_eq!(file.write(&[0; 500]).unwrap(), 100);
}
