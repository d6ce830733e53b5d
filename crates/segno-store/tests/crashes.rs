//! Power loss and kills at every operation, full disks at every byte, failing syncs.
//!
//! Responsible for: the guarantees G1, G2, G4, G15 and G16 on the simulated disk. Must not: depend on
//! how many operations an append takes.

#![allow(clippy::unwrap_used, reason = "a failing test may panic")]

mod support;

use segno_model::record::RepairItem;
use segno_model::store::{ForkPoint, Level, SessionLog, SessionStore, StoreError};
use segno_model::{Body, Record};
use segno_store::{Disk as _, FileLog, FileStore, Options};
use segno_testkit::sim_disk::{Fault, OpKind, SimDisk};
use std::io::ErrorKind;
use std::path::PathBuf;
use support::*;

/// What a workload was told: texts that were acknowledged, and how many of them as synced.
#[derive(Debug, Default)]
struct Told {
    tried: Vec<String>,
    synced: usize,
}

fn store(disk: &SimDisk) -> FileStore<SimDisk> {
    // Checkpoints are part of what must survive, so there are many.
    let options = Options { checkpoint_every: 3000, ..Options::default() };
    FileStore::with_options(disk.clone(), "/segno", options)
}

/// Appends `texts`, every third one only written; a blob between. Stops at the first error.
fn work(log: &mut FileLog<SimDisk>, texts: &[String], told: &mut Told) -> Result<(), StoreError> {
    for (i, text) in texts.iter().enumerate() {
        let level = if i % 3 == 1 { Level::Written } else { Level::Synced };
        told.tried.push(text.clone());
        now(log.append(vec![say(text)], level))?;
        if level == Level::Synced {
            told.synced = told.tried.len();
        }
        if i % 4 == 2 {
            now(log.put_blob(text.as_bytes(), ""))?;
        }
    }
    Ok(())
}

fn words(from: usize, count: usize) -> Vec<String> {
    // Lengths around and above a sector, so that crashes tear lines in every way.
    (from..from + count).map(|n| format!("{n} {}", "ab ".repeat(n * 37 % 400))).collect()
}

/// Two processes' worth of work, the second after a reopening.
fn whole_life(disk: &SimDisk, told: &mut Told) -> Result<(), StoreError> {
    let store = store(disk);
    let mut log = store.create(header(1));
    work(&mut log, &words(0, 6), told)?;
    drop(log);
    let mut log = open(&store, &id(1))?.log;
    work(&mut log, &words(6, 6), told)
}

/// Everything that was synced is there, nothing that was never tried, in order; and work goes on.
fn check_survived(disk: &SimDisk, told: &Told, what: &str) {
    let store = store(disk);
    let listed = now(store.list()).unwrap();
    let Some(session) = listed.first() else {
        assert_eq!(told.synced, 0, "{what}: the session is gone");
        return;
    };
    let mut log = open(&store, &session.id).unwrap_or_else(|e| panic!("{what}: {e}")).log;
    let found = texts(&store, &session.id);
    assert!(found.len() >= told.synced, "{what}: {} of {} synced", found.len(), told.synced);
    assert_eq!(found, told.tried[..found.len()], "{what}: not a prefix");
    append(&mut log, "goes on").unwrap_or_else(|e| panic!("{what}: {e}"));
    append(&mut log, "and on").unwrap_or_else(|e| panic!("{what}: {e}"));
    drop(log);
    let mut expected = found;
    expected.extend(["goes on".to_owned(), "and on".to_owned()]);
    assert_eq!(texts(&store, &session.id), expected, "{what}: after going on");
    assert!(open(&store, &session.id).unwrap().active.findings.is_empty(), "{what}: still torn");
}

/// How many operations the whole workload takes.
fn operations(seed: u64) -> u64 {
    let disk = SimDisk::new(seed);
    whole_life(&disk, &mut Told::default()).unwrap();
    disk.operations()
}

/// Covers: G1, G2, G4.
#[test]
fn power_lost_after_any_operation_loses_nothing_that_was_synced() {
    for seed in 0..3 {
        // Every seed takes the operations that the one before left out.
        for n in (seed % 2..=operations(seed)).step_by(2) {
            let disk = SimDisk::new(seed * 1000 + n);
            disk.stop_after(n);
            let mut told = Told::default();
            let _ = whole_life(&disk, &mut told);
            check_survived(&disk.crash(), &told, &format!("seed {seed}, operation {n}"));
        }
    }
}

/// Covers: G1, G4, G5.
#[test]
fn a_kill_after_any_operation_loses_nothing_that_was_acknowledged_and_frees_the_lock() {
    for n in 0..=operations(1) {
        let disk = SimDisk::new(1);
        disk.stop_after(n);
        let mut told = Told::default();
        let _ = whole_life(&disk, &mut told);
        // The last one tried is the one that failed.
        told.synced = told.tried.len().saturating_sub(1);
        check_survived(&disk.kill(), &told, &format!("operation {n}"));
    }
}

/// Covers: G1. A process dies at any change while it makes the first session of all; what the next one is
/// told as durable survives power loss, whichever directories the first one left unsynced.
#[test]
fn what_a_killed_process_did_not_sync_does_not_take_the_next_ones_work_with_it() {
    for change in 0..20 {
        let disk = SimDisk::new(change);
        disk.stop_before_change(change);
        let _ = whole_life(&disk, &mut Told::default());
        let disk = disk.kill();
        let store = store(&disk);
        append(&mut store.create(header(2)), "told").unwrap();
        let states = disk.crash_states();
        for state in states.sample(300, change) {
            let found = self::store(&states.nth(state));
            assert_eq!(texts(&found, &id(2)), ["told"], "change {change}, state {state}");
        }
    }
}

/// Covers: G1, G15. A failed sync of a directory is made up for by the next attempt that succeeds.
#[test]
fn a_directory_that_could_not_be_synced_is_synced_by_the_next_attempt() {
    for after in 0..6 {
        let disk = SimDisk::new(after);
        disk.inject(Fault { after, ..Fault::next(OpKind::SyncDir, ErrorKind::Other) });
        let store = store(&disk);
        let told = (1..4).find(|n| append(&mut store.create(header(*n)), "told").is_ok());
        let told = told.expect("only one sync fails");
        let states = disk.crash_states();
        for state in states.sample(300, after) {
            let found = self::store(&states.nth(state));
            assert_eq!(texts(&found, &id(told)), ["told"], "sync {after}, state {state}");
        }
    }
}

/// Covers: G2, G4. Recovery itself is cut short again and again.
#[test]
fn power_lost_while_recovering_from_power_loss_loses_nothing_either() {
    for seed in 0..40u64 {
        let disk = SimDisk::new(seed);
        disk.stop_after(40 + seed * 7 % 60);
        let mut told = Told::default();
        let _ = whole_life(&disk, &mut told);
        let mut disk = disk.crash();
        for n in 0..12 {
            disk.stop_after(n * 3);
            let store = store(&disk);
            if now(store.list()).is_ok_and(|l| !l.is_empty())
                && let Ok(mut opened) = open(&store, &id(1))
            {
                told.tried.truncate(texts_or_none(&store).unwrap_or(told.tried.len()));
                told.tried.push("again".to_owned());
                if append(&mut opened.log, "again").is_ok() {
                    told.synced = told.tried.len();
                }
            }
            disk = disk.crash();
        }
        check_survived(&disk, &told, &format!("seed {seed}"));
    }
}

fn texts_or_none(store: &FileStore<SimDisk>) -> Option<usize> {
    let mut count = 0;
    let visited = now(store.scan(&id(1), &mut |item| {
        if let segno_model::store::Scanned::Record(record) = item
            && record.is_node()
        {
            count += 1;
        }
        true
    }));
    visited.is_ok().then_some(count)
}

/// Covers: G16, MS8, #14, #111.
#[test]
fn a_full_disk_at_any_byte_is_an_error_and_no_damage() {
    let full = {
        let disk = SimDisk::new(1);
        let mut log = store(&disk).create(header(1));
        work(&mut log, &words(0, 5), &mut Told::default()).unwrap();
        disk.used()
    };
    for capacity in (0..full).step_by(5) {
        let disk = SimDisk::new(capacity);
        disk.set_capacity(Some(capacity));
        let store = store(&disk);
        let mut log = store.create(header(1));
        let mut told = Told::default();
        let error = work(&mut log, &words(0, 5), &mut told).expect_err("it cannot fit");
        assert!(matches!(error, StoreError::NoRoom(_)), "capacity {capacity}: {error}");
        let state = log.state().clone();
        let path = PathBuf::from(format!("/segno/sessions/2025-08/{}/log.jsonl", id(1)));
        let on_disk = disk.peek(&path).unwrap_or_default();
        assert!(on_disk.is_empty() || on_disk.ends_with(b"\n"), "capacity {capacity}: half a line");
        disk.set_capacity(None);
        // The same handle goes on.
        append(&mut log, "there is room again").unwrap();
        assert!(log.state().next_seq > state.next_seq);
        drop(log);
        let found = texts(&store, &id(1));
        assert_eq!(found.last().map(String::as_str), Some("there is room again"));
        assert_eq!(found[..found.len() - 1], told.tried[..found.len() - 1]);
        assert!(open(&store, &id(1)).unwrap().active.findings.is_empty());
    }
}

/// Covers: G16, G2, MS7. Neither the torn bytes nor what was stored before the session existed get lost.
#[test]
fn a_disk_that_is_full_at_the_first_append_keeps_everything_for_the_next() {
    let disk = SimDisk::new(1);
    let store = store(&disk);
    let mut log = store.create(header(1));
    let blob = now(log.put_blob(&[7; 3000], "")).unwrap();
    for room in [0, 100, 3000, 100] {
        disk.set_capacity(Some(disk.used() + room));
        assert!(matches!(append(&mut log, "one"), Err(StoreError::NoRoom(_))), "{room}");
        disk.set_capacity(None);
    }
    append(&mut log, "one").unwrap();
    assert_eq!(now(log.blob(&blob)).unwrap(), [7; 3000]);
    drop(log);
    let path = store.log_path(&id(1)).unwrap();
    let torn = [disk.peek(&path).unwrap().as_slice(), &[b'{'; 2000]].concat();
    disk.poke(&path, &torn);
    let mut log = open(&store, &id(1)).unwrap().log;
    for room in [0, 1000] {
        disk.set_capacity(Some(disk.used() + room));
        assert!(matches!(append(&mut log, "two"), Err(StoreError::NoRoom(_))), "{room}");
        assert_eq!(disk.peek(&path).unwrap(), torn, "nothing is cut before it is kept");
    }
    disk.set_capacity(None);
    // The bytes are set aside, and the record that says so finds no room.
    let error = ErrorKind::StorageFull;
    disk.inject(Fault { on: OpKind::Write, after: 1, error, forever: false });
    assert!(matches!(append(&mut log, "two"), Err(StoreError::NoRoom(_))));
    append(&mut log, "two").unwrap();
    let kinds: Vec<_> = scan(&store, &id(1)).iter().map(|r| r.envelope.kind.clone()).collect();
    assert_eq!(kinds, ["session", "message", "repair", "message"]);
}

#[test]
fn short_writes_are_continued() {
    for seed in 0..20 {
        let disk = SimDisk::new(seed);
        disk.set_short_writes(true);
        let mut told = Told::default();
        whole_life(&disk, &mut told).unwrap();
        assert_eq!(texts(&store(&disk), &id(1)), told.tried, "seed {seed}");
    }
}

/// Covers: G15, MS7.
#[test]
fn a_failed_sync_poisons_the_handle_for_good() {
    for after in 0..3 {
        let disk = SimDisk::new(after);
        let store = store(&disk);
        let mut log = store.create(header(1));
        disk.inject(Fault { on: OpKind::Sync, after, error: ErrorKind::Other, forever: false });
        let mut good = 0;
        let error = loop {
            let before = log.state().next_seq;
            match append(&mut log, &format!("text {good}")) {
                Ok(_) => good += 1,
                Err(error) => {
                    assert_eq!(log.state().next_seq, before, "memory has not moved");
                    break error;
                }
            }
        };
        assert!(matches!(error, StoreError::Poisoned(_)), "{error}");
        assert!(matches!(append(&mut log, "later"), Err(StoreError::Poisoned(_))));
        assert!(matches!(now(log.sync()), Err(StoreError::Poisoned(_))));
        assert!(matches!(now(log.put_blob(b"x", "")), Err(StoreError::Poisoned(_))));
        drop(log);
        // Reopening sees what the medium holds and not what memory remembers.
        let mut log = open(&store, &id(1)).unwrap().log;
        append(&mut log, "after reopening").unwrap();
        drop(log);
        let mut expected: Vec<_> = (0..good).map(|n| format!("text {n}")).collect();
        expected.push("after reopening".to_owned());
        assert_eq!(texts(&self::store(&disk.crash()), &id(1)), expected, "after {after}");
    }
}

/// Covers: G15.
#[test]
fn a_failing_medium_never_leaves_half_a_line() {
    let disk = SimDisk::new(3);
    let store = store(&disk);
    let mut log = store.create(header(1));
    append(&mut log, "one").unwrap();
    disk.inject(Fault::next(OpKind::Write, ErrorKind::Other));
    assert!(matches!(append(&mut log, "two"), Err(StoreError::Poisoned(_))));
    drop(log);
    assert_eq!(texts(&store, &id(1)), ["one"]);
    let mut log = open(&store, &id(1)).unwrap().log;
    // A write that breaks off and cannot be cut off again.
    disk.set_capacity(Some(disk.used() + 10));
    disk.inject(Fault::next(OpKind::Truncate, ErrorKind::Other));
    assert!(matches!(append(&mut log, "two"), Err(StoreError::Poisoned(_))));
    assert!(matches!(append(&mut log, "three"), Err(StoreError::Poisoned(_))));
    drop(log);
    disk.set_capacity(None);
    append(&mut open(&store, &id(1)).unwrap().log, "four").unwrap();
    assert_eq!(texts(&store, &id(1)), ["one", "four"]);
}

/// Covers: G2, ST5, #111.
#[test]
fn a_torn_tail_is_set_aside_once_and_the_next_append_stands_on_its_own_line() {
    let disk = SimDisk::new(1);
    let store = store(&disk);
    let mut log = store.create(header(1));
    append(&mut log, "one").unwrap();
    drop(log);
    let path = store.log_path(&id(1)).unwrap();
    let good = disk.peek(&path).unwrap();
    let torn = b"{\"seq\":2,\"parent\":1,\"at\":\"2026";
    let with_tail = [good.as_slice(), torn].concat();
    disk.poke(&path, &with_tail);
    let mut log = open(&store, &id(1)).unwrap().log;
    assert_eq!(disk.peek(&path).unwrap(), with_tail, "opening changes no byte");
    append(&mut log, "two").unwrap();
    append(&mut log, "three").unwrap();
    assert!(disk.peek(&path).unwrap().starts_with(&good));
    let records = scan(&store, &id(1));
    let kinds: Vec<_> = records.iter().map(|r| r.envelope.kind.as_str()).collect();
    assert_eq!(kinds, ["session", "message", "repair", "message", "message"]);
    let line = String::from_utf8_lossy(&records[2].line).into_owned();
    let file = line.split("\"file\":\"").nth(1).unwrap().split('"').next().unwrap().to_owned();
    let aside = path.with_file_name("set-aside").join(file);
    assert_eq!(disk.peek(&aside).unwrap(), torn, "the bytes are kept");
}

/// Covers: G2.
#[test]
fn a_complete_last_record_without_its_line_end_is_kept() {
    let disk = SimDisk::new(1);
    let store = store(&disk);
    let mut log = store.create(header(1));
    append(&mut log, "one").unwrap();
    drop(log);
    let path = store.log_path(&id(1)).unwrap();
    let mut bytes = disk.peek(&path).unwrap();
    bytes.pop();
    disk.poke(&path, &bytes);
    let mut log = open(&store, &id(1)).unwrap().log;
    append(&mut log, "two").unwrap();
    append(&mut log, "three").unwrap();
    assert_eq!(texts(&store, &id(1)), ["one", "two", "three"]);
    assert_eq!(scan(&store, &id(1)).len(), 4, "nothing was repaired");
}

/// Covers: G4.
#[test]
fn every_byte_prefix_opens_and_goes_on() {
    let disk = SimDisk::new(1);
    whole_life(&disk, &mut Told::default()).unwrap();
    let path = store(&disk).log_path(&id(1)).unwrap();
    let bytes = disk.peek(&path).unwrap();
    let all = texts(&store(&disk), &id(1));
    for cut in (0..bytes.len()).step_by(47).chain(0..360) {
        let disk = disk.kill_copy();
        disk.poke(&path, &bytes[..cut]);
        let store = store(&disk);
        let mut log = open(&store, &id(1)).unwrap_or_else(|e| panic!("cut at {cut}: {e}")).log;
        assert_eq!(log.header().id, id(1), "cut at {cut}");
        append(&mut log, "goes on").unwrap_or_else(|e| panic!("cut at {cut}: {e}"));
        drop(log);
        let found = texts(&store, &id(1));
        assert_eq!(found[..found.len() - 1], all[..found.len() - 1], "cut at {cut}");
        assert!(open(&store, &id(1)).unwrap().active.findings.is_empty(), "cut at {cut}");
    }
}

/// Covers: G1, #126. A fork is whole and durable, or not there.
#[test]
fn power_lost_while_forking_leaves_no_half_fork_and_no_changed_source() {
    let forking = |disk: &SimDisk| {
        let store = store(disk);
        now(store.fork(&id(1), ForkPoint::Whole, header(2), say("").at)).map(drop)
    };
    let fresh = |seed| {
        let disk = SimDisk::new(seed);
        whole_life(&disk, &mut Told::default()).unwrap();
        disk
    };
    let disk = fresh(0);
    let before = disk.operations();
    forking(&disk).unwrap();
    let all = texts(&store(&disk), &id(1));
    for n in 0..=(disk.operations() - before) {
        let disk = fresh(n);
        disk.stop_after(n);
        let done = forking(&disk).is_ok();
        let disk = disk.crash();
        let store = store(&disk);
        let listed = now(store.list()).unwrap();
        assert!(listed.iter().any(|l| l.id == id(1)));
        if done || listed.iter().any(|l| l.id == id(2)) {
            assert_eq!(texts(&store, &id(2)), all, "operation {n}");
        }
        assert_eq!(texts(&store, &id(1))[..11], all[..11], "operation {n}");
    }
}

/// Covers: G1. The marks in the log never claim more than was synced.
#[test]
fn marks_name_only_what_was_durable() {
    let disk = SimDisk::new(1);
    let store = store(&disk);
    let mut log = store.create(header(1));
    append(&mut log, "one").unwrap();
    now(log.append(vec![say("two")], Level::Written)).unwrap();
    now(log.append(vec![say("three")], Level::Written)).unwrap();
    now(log.sync()).unwrap();
    append(&mut log, "four").unwrap();
    append(&mut log, "five").unwrap();
    let marks: Vec<_> = scan(&store, &id(1)).iter().map(|r: &Record| r.envelope.synced).collect();
    assert_eq!(marks, [None, None, Some(1), Some(1), Some(3), Some(4)]);
}

/// Somebody else's half-made session: killed after `n` operations of `make`, gone on with by the next
/// process, which is told that its record is synced; then power is lost.
fn goes_on_after(what: &str, session: u32, prepare: fn(&SimDisk), make: fn(&SimDisk)) {
    for n in 0..60 {
        for seed in 0..6 {
            let disk = SimDisk::new(seed);
            prepare(&disk);
            disk.stop_after(n);
            make(&disk);
            let disk = disk.kill();
            let Ok(opened) = open(&store(&disk), &id(session)) else { continue };
            let mut log = opened.log;
            append(&mut log, "acknowledged").unwrap();
            let store = store(&disk.crash());
            let listed = now(store.list()).unwrap();
            let what = format!("{what}, operation {n}, seed {seed}");
            assert!(listed.iter().any(|l| l.id == id(session)), "{what}: the session is gone");
            let found = texts(&store, &id(session));
            assert_eq!(found.last().map(String::as_str), Some("acknowledged"), "{what}");
        }
    }
}

/// A name that another process gave and did not live to sync is synced with the first record that is
/// acknowledged under it. Covers: G1.
#[test]
fn what_is_acknowledged_in_a_session_of_a_killed_process_survives_power_loss() {
    let begin = |disk: &SimDisk| {
        let _ = append(&mut store(disk).create(header(1)), "one");
    };
    goes_on_after("a new session", 1, |_| {}, begin);
    let fork = |disk: &SimDisk| {
        let _ = now(store(disk).fork(&id(1), ForkPoint::Whole, header(2), say("").at));
    };
    goes_on_after("a fork", 2, begin, fork);
    let trash = |disk: &SimDisk| {
        let _ = append(&mut store(disk).create(header(1)), "one");
        store(disk).trash(&id(1)).unwrap();
    };
    goes_on_after("a restored session", 1, trash, |disk| {
        let _ = store(disk).restore(&id(1));
    });
}

/// Torn bytes that one process named in `set-aside/` and did not live to sync are synced before the next
/// one cuts them off. Covers: G2.
#[test]
fn torn_bytes_survive_a_kill_and_then_power_loss() {
    let torn = [b'{'; 700];
    for n in 0..30 {
        for seed in 0..6 {
            let disk = SimDisk::new(seed);
            append(&mut store(&disk).create(header(1)), "one").unwrap();
            let path = store(&disk).log_path(&id(1)).unwrap();
            disk.poke(&path, &[disk.peek(&path).unwrap().as_slice(), &torn].concat());
            let mut log = open(&store(&disk), &id(1)).unwrap().log;
            disk.stop_after(n);
            let _ = append(&mut log, "two");
            let disk = disk.kill();
            append(&mut open(&store(&disk), &id(1)).unwrap().log, "three").unwrap();
            let disk = disk.crash();
            let aside = path.with_file_name("set-aside");
            let kept = disk.list(&aside).unwrap_or_default();
            let kept = kept.iter().filter_map(|e| disk.peek(&aside.join(&e.name)));
            assert!(kept.into_iter().any(|b| b == torn), "operation {n}, seed {seed}: lost");
        }
    }
}

/// The files in `set-aside/`, and those of them that `repair` records name, in their order.
fn kept_and_told(disk: &SimDisk) -> (Vec<String>, Vec<String>) {
    let store = store(disk);
    let aside = store.log_path(&id(1)).unwrap().with_file_name("set-aside");
    let entries = disk.list(&aside).unwrap_or_default();
    let kept = entries.into_iter().map(|e| e.name).filter(|name| !name.starts_with('.')).collect();
    let mut told = Vec::new();
    for record in scan(&store, &id(1)) {
        let Body::Repair(repair) = record.into_body() else { continue };
        told.extend(repair.items.into_iter().filter_map(|item| match item {
            RepairItem::SetAside { file, .. } => Some(file),
            _ => None,
        }));
    }
    (kept, told)
}

/// Whatever happened between cutting a tail off and saying so: the next opening says it, the next append
/// records it, once, and then it is over. Covers: G2.
#[test]
fn a_tail_that_was_cut_off_by_a_killed_process_is_told_once() {
    let end: [fn(&SimDisk) -> SimDisk; 2] = [SimDisk::kill, SimDisk::crash];
    let mut untold = 0;
    for (n, seed) in (0..40).flat_map(|n| (0..4).map(move |seed| (n, seed))) {
        let disk = SimDisk::new(seed);
        append(&mut store(&disk).create(header(1)), "one").unwrap();
        let path = store(&disk).log_path(&id(1)).unwrap();
        disk.poke(&path, &[disk.peek(&path).unwrap().as_slice(), &[b'{'; 700]].concat());
        let mut log = open(&store(&disk), &id(1)).unwrap().log;
        disk.stop_after(n);
        let _ = append(&mut log, "two");
        let disk = end[seed as usize % 2](&disk);
        let what = format!("operation {n}, seed {seed}");
        let (_, told) = kept_and_told(&disk);
        let mut opened = open(&store(&disk), &id(1)).unwrap();
        let findings = opened.active.findings.iter().filter(|f| f.code == "torn-tail").count();
        // Power loss may have torn the record that tells of it, too.
        let most = if seed % 2 == 0 { 1 } else { 2 };
        let said = findings + told.len();
        assert!((1..=most).contains(&said), "{what}: {told:?} {:?}", opened.active.findings);
        untold += usize::from(disk.peek(&path).unwrap().ends_with(b"\n") && told.is_empty());
        append(&mut opened.log, "three").unwrap();
        append(&mut opened.log, "four").unwrap();
        drop(opened);
        let (kept, told) = kept_and_told(&disk);
        assert_eq!(kept, told, "{what}: each is named once");
        let again = open(&store(&disk), &id(1)).unwrap();
        assert!(again.active.findings.is_empty(), "{what}: {:?}", again.active.findings);
    }
    assert!(untold > 0, "some were killed right between");
}
