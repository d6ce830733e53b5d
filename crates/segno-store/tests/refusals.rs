//! Places where nothing may or can be written.
//!
//! Responsible for: read-only roots, network file systems and newer formats. Must not: need a mount.

#![allow(clippy::unwrap_used, reason = "a failing test may panic")]

mod support;

use segno_model::store::{HeldSession, Level, SessionLog, SessionStore, StoreError};
use segno_store::disk::Medium;
use segno_store::{FileStore, Options};
use segno_testkit::sim_disk::{Fault, OpKind, SimDisk};
use std::io::ErrorKind;
use support::*;

fn read_only(disk: &SimDisk) {
    for on in [OpKind::Create, OpKind::CreateDir, OpKind::Rename, OpKind::Link, OpKind::Write] {
        disk.inject(Fault { on, after: 0, error: ErrorKind::ReadOnlyFilesystem, forever: true });
    }
}

/// Covers: #113.
#[test]
fn a_read_only_root_lists_and_reads_and_creates_nothing() {
    let disk = SimDisk::new(1);
    let store = FileStore::new(disk.clone(), "/segno");
    append(&mut store.create(header(1)), "one").unwrap();
    read_only(&disk);
    assert_eq!(now(store.list()).unwrap().len(), 1);
    assert_eq!(texts(&store, &id(1)), ["one"]);
    let mut log = store.create(header(2));
    let error = append(&mut log, "two").unwrap_err();
    assert!(matches!(error, StoreError::ReadOnly(_)), "{error}");
    assert_eq!(log.state().next_seq, 0, "no id is worth anything yet");
    assert_eq!(now(store.list()).unwrap().len(), 1);
}

/// Covers: #114.
#[test]
fn a_network_file_system_is_named_and_not_written_to_unless_told_to() {
    let disk = SimDisk::new(1);
    let local = FileStore::new(disk.clone(), "/segno");
    append(&mut local.create(header(1)), "one").unwrap();
    disk.set_medium(Medium::Network("NFS"));
    let Err(StoreError::ReadOnly(why)) = append(&mut local.create(header(2)), "two") else {
        panic!("must be refused")
    };
    assert!(why.contains("NFS"), "{why}");
    assert!(matches!(now(local.open(&id(1))), Err(StoreError::ReadOnly(_))));
    assert_eq!(texts(&local, &id(1)), ["one"], "reading is fine");
    let options = Options { allow_network: true, ..Options::default() };
    let told = FileStore::with_options(disk, "/segno", options);
    let mut log = told.create(header(3));
    append(&mut log, "three").unwrap();
    append(&mut log, "four").unwrap();
    let marks = scan(&told, &id(3)).iter().filter(|r| r.envelope.synced.is_some()).count();
    assert_eq!(marks, 0, "nothing is claimed to be durable");
}

/// Covers: G13.
#[test]
fn a_newer_format_can_be_read_and_not_written() {
    let disk = SimDisk::new(1);
    let store = FileStore::new(disk, "/segno");
    let mut newer = header(1);
    newer.format.major += 1;
    append(&mut store.create(newer), "one").unwrap();
    assert!(matches!(now(now(store.open(&id(1))).unwrap().judge()), Err(StoreError::ReadOnly(_))));
    assert_eq!(texts(&store, &id(1)), ["one"]);
    assert_eq!(now(store.read(&id(1))).unwrap().header.id, id(1));
}

/// Covers: MS8. What cannot be planned touches nothing.
#[test]
fn a_refused_batch_brings_no_session_into_being() {
    let disk = SimDisk::new(1);
    let store = FileStore::new(disk.clone(), "/segno");
    let mut log = store.create(header(1));
    assert!(matches!(now(log.append(Vec::new(), Level::Synced)), Err(StoreError::Refused(_))));
    let too_long = say(&"x".repeat(2 << 20));
    assert!(matches!(now(log.append(vec![too_long], Level::Synced)), Err(StoreError::Refused(_))));
    assert_eq!(disk.operations(), 0);
    append(&mut log, "fits").unwrap();
    let too_long = say(&"x".repeat(2 << 20));
    assert!(now(log.append(vec![say("a"), too_long], Level::Synced)).is_err());
    assert_eq!(texts(&store, &id(1)), ["fits"]);
}
