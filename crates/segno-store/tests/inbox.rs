//! The inbox's files: power loss and kills at every operation of admitting and delivering, full disks,
//! damaged files, racing senders, and the index of used ids.
//!
//! Responsible for: G8 where it depends on files. Must not: repeat what every store must do (that is in the
//! conformance suite).

#![allow(clippy::unwrap_used, reason = "a failing test may panic")]

mod support;

use segno_model::inbox::admission::Admission;
use segno_model::inbox::{InputBody, NewInput, Stage, Words};
use segno_model::record::Message;
use segno_model::store::{Level, SessionLog, SessionStore, StoreError};
use segno_model::{Body, Timestamp, sha256_hex};
use segno_store::{Disk, FileLog, FileStore, Options, RealDisk};
use segno_testkit::sim_disk::SimDisk;
use std::path::{Path, PathBuf};
use support::*;

const AT: Timestamp = Timestamp(1_764_450_000_000);

/// With an index that is written as often as it can be.
fn store(disk: &SimDisk) -> FileStore<SimDisk> {
    let options = Options { index_every: 1, checkpoint_every: 3000, ..Options::default() };
    FileStore::with_options(disk.clone(), "/segno", options)
}

fn dir() -> PathBuf {
    PathBuf::from(format!("/segno/sessions/2025-08/{}", id(1)))
}

fn file_of(input_id: &str) -> PathBuf {
    dir().join("inbox").join(sha256_hex(input_id.as_bytes()))
}

fn input(n: usize) -> NewInput {
    let text = format!("input {n} {}", "ab ".repeat(n * 61 % 300));
    let words = Words::text(text);
    let body = if n.is_multiple_of(2) { InputBody::Steer(words) } else { InputBody::Queue(words) };
    NewInput::new(format!("in-{n}"), body)
}

fn text_of(input: &NewInput) -> String {
    input.body.words().map(|w| w.head().to_owned()).unwrap_or_default()
}

fn admit<D: Disk>(store: &FileStore<D>, input: &NewInput) -> Result<Admission, StoreError> {
    now(store.admit(&id(1), input, AT))
}

/// Delivers the first `count` of what waits, as a runner does.
fn deliver<D: Disk>(log: &mut FileLog<D>, count: usize) -> Result<(), StoreError> {
    let waiting = now(log.pending())?.pending;
    for pending in waiting.into_iter().take(count) {
        let message = Message::User(pending.input.message().unwrap());
        now(log.append(vec![draft(Body::Message(Box::new(message)))], Level::Synced))?;
        now(log.clear_inbox())?;
    }
    Ok(())
}

/// Two holders' worth of work; gives the inputs that were acknowledged.
fn whole_life(disk: &SimDisk, acknowledged: &mut Vec<usize>) -> Result<(), StoreError> {
    let store = store(disk);
    let mut log = store.create(header(1));
    append(&mut log, "begin")?;
    let mut send = |numbers: std::ops::Range<usize>| {
        for n in numbers {
            admit(&store, &input(n))?;
            acknowledged.push(n);
        }
        Ok::<(), StoreError>(())
    };
    send(0..2)?;
    deliver(&mut log, 1)?;
    // The same again, at different stages.
    send(0..3)?;
    deliver(&mut log, 9)?;
    drop(log);
    send(3..5)?;
    let mut log = open(&store, &id(1))?.log;
    append(&mut log, "between")?;
    deliver(&mut log, 1)?;
    send(5..6)?;
    deliver(&mut log, 9)
}

/// The next process delivers what waits; then every acknowledged input is there once, and no other more
/// than once.
fn check_once(disk: &SimDisk, acknowledged: &[usize], what: &str) {
    let store = store(disk);
    if now(store.list()).unwrap().is_empty() {
        assert!(acknowledged.is_empty(), "{what}: the session is gone");
        return;
    }
    let mut log = open(&store, &id(1)).unwrap_or_else(|e| panic!("{what}: {e}")).log;
    append(&mut log, "again").unwrap_or_else(|e| panic!("{what}: {e}"));
    deliver(&mut log, 99).unwrap_or_else(|e| panic!("{what}: {e}"));
    assert!(now(log.pending()).unwrap().pending.is_empty(), "{what}: something still waits");
    drop(log);
    let found = texts(&store, &id(1));
    for n in 0..6 {
        let times = found.iter().filter(|text| **text == text_of(&input(n))).count();
        let least = usize::from(acknowledged.contains(&n));
        assert!((least..=1).contains(&times), "{what}: input {n} is there {times} times");
        if times == 1 {
            let again = admit(&store, &input(n)).unwrap();
            assert!(
                matches!(again, Admission::Stands(Stage::Delivered { .. })),
                "{what}: {again:?}"
            );
        }
    }
    assert_eq!(now(store.pending(&id(1))).unwrap().pending, [], "{what}");
}

fn operations() -> u64 {
    let disk = SimDisk::new(1);
    whole_life(&disk, &mut Vec::new()).unwrap();
    disk.operations()
}

/// Covers: G1, G8, #150, #152.
#[test]
fn power_lost_at_any_operation_leaves_every_acknowledged_input_exactly_once() {
    for seed in 0..3 {
        for n in (seed % 2..=operations()).step_by(2) {
            let disk = SimDisk::new(seed * 10_000 + n);
            disk.stop_after(n);
            let mut acknowledged = Vec::new();
            let _ = whole_life(&disk, &mut acknowledged);
            check_once(&disk.crash(), &acknowledged, &format!("seed {seed}, operation {n}"));
        }
    }
}

/// Covers: G8, #150, #152.
#[test]
fn a_kill_at_any_operation_leaves_every_acknowledged_input_exactly_once() {
    for n in 0..=operations() {
        let disk = SimDisk::new(1);
        disk.stop_after(n);
        let mut acknowledged = Vec::new();
        let _ = whole_life(&disk, &mut acknowledged);
        check_once(&disk.kill(), &acknowledged, &format!("operation {n}"));
    }
}

/// Covers: G8. Power is lost again and again while the next process works.
#[test]
fn power_lost_while_delivering_after_power_loss_changes_nothing() {
    for seed in 0..40u64 {
        let mut disk = SimDisk::new(seed);
        disk.stop_after(60 + seed * 13 % 150);
        let mut acknowledged = Vec::new();
        let _ = whole_life(&disk, &mut acknowledged);
        for n in 0..10 {
            disk = disk.crash();
            disk.stop_after(4 + n * 5);
            if let Ok(mut opened) = open(&store(&disk), &id(1)) {
                let _ = append(&mut opened.log, "again").and_then(|_| deliver(&mut opened.log, 9));
            }
        }
        check_once(&disk.crash(), &acknowledged, &format!("seed {seed}"));
    }
}

/// Covers: G8, G16, #111.
#[test]
fn a_full_disk_at_any_byte_admits_whole_inputs_or_none() {
    let begun = || {
        let disk = SimDisk::new(5);
        append(&mut store(&disk).create(header(1)), "begin").unwrap();
        disk
    };
    let room = {
        let disk = begun();
        let before = disk.used();
        admit(&store(&disk), &input(4)).unwrap();
        disk.used() - before + 400
    };
    for room in (0..room).step_by(3) {
        let disk = begun();
        disk.set_capacity(Some(disk.used() + room));
        let answer = admit(&store(&disk), &input(4));
        let waiting = now(store(&disk).pending(&id(1))).unwrap();
        assert!(waiting.findings.is_empty(), "{room}: {:?}", waiting.findings);
        match answer {
            Ok(answer) => {
                assert_eq!(answer, Admission::Admitted);
                assert_eq!(waiting.pending.len(), 1, "{room}");
            }
            Err(StoreError::NoRoom(_)) => assert!(waiting.pending.is_empty(), "{room}"),
            Err(other) => panic!("{room}: {other}"),
        }
        disk.set_capacity(None);
        admit(&store(&disk), &input(4)).unwrap();
        assert_eq!(now(store(&disk).pending(&id(1))).unwrap().pending.len(), 1);
    }
}

/// A session with delivered inputs 0..4, and inputs 4 and 5 waiting.
fn worked_on() -> SimDisk {
    let disk = SimDisk::new(1);
    let store = store(&disk);
    let mut log = store.create(header(1));
    append(&mut log, "begin").unwrap();
    for n in 0..4 {
        admit(&store, &input(n)).unwrap();
        deliver(&mut log, 1).unwrap();
    }
    append(&mut log, "end").unwrap();
    for n in 4..6 {
        admit(&store, &input(n)).unwrap();
    }
    disk
}

fn check_known(disk: &SimDisk, what: &str) {
    for n in 0..6 {
        let again = admit(&store(disk), &input(n)).unwrap();
        let delivered = matches!(again, Admission::Stands(Stage::Delivered { .. }));
        assert_eq!(delivered, n < 4, "{what}: input {n}: {again:?}");
        let other = NewInput::new(format!("in-{n}"), InputBody::Stop { run: 9 });
        let answer = admit(&store(disk), &other).unwrap();
        assert!(matches!(answer, Admission::Conflict(_)), "{what}: input {n}: {answer:?}");
    }
}

/// Covers: G8, G12.
#[test]
fn the_index_is_derived_from_the_log_however_it_is_lost_or_damaged() {
    let index = dir().join("inputs.idx");
    let disk = worked_on();
    check_known(&disk, "as it is");
    let good = disk.peek(&index).expect("there is an index");
    disk.remove_file(&index).unwrap();
    check_known(&disk, "removed");
    for at in 0..good.len() {
        let mut bad = good.clone();
        bad[at] ^= 0x20;
        disk.poke(&index, &bad);
        check_known(&disk, &format!("byte {at} altered"));
        disk.poke(&index, &good[..at]);
        check_known(&disk, &format!("cut at {at}"));
    }
    disk.poke(&index, &good);
    check_known(&disk, "as it was");
}

/// Covers: G8, G12. An index of another log, or of one that power loss cut back, is not believed.
#[test]
fn an_index_that_does_not_match_the_log_is_not_believed() {
    let (index, log) = (dir().join("inputs.idx"), dir().join("log.jsonl"));
    let disk = worked_on();
    check_known(&disk, "as it is");
    let whole = disk.peek(&log).unwrap();
    let good = disk.peek(&index).unwrap();
    let lines: Vec<usize> = memchr_lines(&whole);
    // Cut behind the record that delivered input 1.
    disk.poke(&log, &whole[..lines[3]]);
    disk.poke(&index, &good);
    for n in 0..2 {
        let again = admit(&store(&disk), &input(n)).unwrap();
        assert!(matches!(again, Admission::Stands(Stage::Delivered { .. })), "{n}: {again:?}");
    }
    for n in 2..4 {
        assert_eq!(admit(&store(&disk), &input(n)).unwrap(), Admission::Admitted, "{n}");
    }
}

fn memchr_lines(bytes: &[u8]) -> Vec<usize> {
    bytes.iter().enumerate().filter(|(_, b)| **b == b'\n').map(|(i, _)| i + 1).collect()
}

/// Covers: G8, G11. What is asked costs what was added since, not the whole history.
#[test]
fn looking_an_id_up_reads_what_the_index_does_not_know() {
    let disk = SimDisk::new(1);
    let options = Options { index_every: 20_000, ..Options::default() };
    let store = FileStore::with_options(disk.clone(), "/segno", options);
    let mut log = store.create(header(1));
    for n in 0..400 {
        append(&mut log, &format!("{n} {}", "x".repeat(4000))).unwrap();
    }
    admit(&store, &input(0)).unwrap();
    let before = disk.bytes_read();
    admit(&store, &input(1)).unwrap();
    let read = disk.bytes_read() - before;
    let all = disk.peek(&dir().join("log.jsonl")).unwrap().len() as u64;
    // The judgement of the log's end reads up to its newest checkpoint; there is none in between.
    let judged = {
        let before = disk.bytes_read();
        now(store.read(&id(1))).unwrap();
        disk.bytes_read() - before
    };
    assert!(read < judged + all / 10, "{read} of {all} bytes, {judged} of them for the judgement");
}

/// Covers: G3, G8.
#[test]
fn a_damaged_file_is_said_kept_and_never_delivered() {
    for damage in 0..4 {
        let disk = worked_on();
        let path = file_of("in-4");
        let good = disk.peek(&path).unwrap();
        let bad = match damage {
            0 => good[..good.len() / 2].to_vec(),
            1 => Vec::new(),
            2 => vec![0; good.len()],
            _ => good.iter().map(|b| if *b == b'a' { b'o' } else { *b }).collect(),
        };
        disk.poke(&path, &bad);
        let looked = now(store(&disk).pending(&id(1))).unwrap();
        let codes: Vec<_> = looked.findings.iter().map(|f| f.code).collect();
        assert_eq!((codes, looked.pending.len()), (vec!["inbox-damaged"], 1), "{damage}");
        assert_eq!(disk.peek(&path).unwrap(), bad, "looking changes no byte");
        let mut log = open(&store(&disk), &id(1)).unwrap().log;
        let held = now(log.pending()).unwrap();
        assert_eq!((held.findings.len(), held.pending.len()), (1, 1), "{damage}");
        assert!(disk.peek(&path).is_none());
        let aside = disk.list(&dir().join("set-aside")).unwrap();
        let kept: Vec<_> = aside.iter().filter(|e| e.name.starts_with("input-")).collect();
        assert_eq!(disk.peek(&dir().join("set-aside").join(&kept[0].name)).unwrap(), bad);
        // Its sender can send it again.
        assert_eq!(admit(&store(&disk), &input(4)).unwrap(), Admission::Admitted, "{damage}");
    }
}

/// Covers: G8, G13. What a newer version admitted is left alone.
#[test]
fn a_file_of_an_unknown_kind_is_left_alone() {
    let disk = worked_on();
    let path = file_of("in-4");
    let line =
        String::from_utf8(disk.peek(&path).unwrap()).unwrap().replace("\"steer\"", "\"sing\"");
    let covered = &line[..line.rfind(",\"crc\"").unwrap()];
    let crc = segno_model::line::checksum(covered.as_bytes());
    let line = format!("{covered},\"crc\":\"{crc:08x}\"}}\n");
    disk.poke(&path, line.as_bytes());
    let mut log = open(&store(&disk), &id(1)).unwrap().log;
    let held = now(log.pending()).unwrap();
    assert_eq!(held.findings.iter().map(|f| f.code).collect::<Vec<_>>(), ["inbox-unknown"]);
    assert_eq!(disk.peek(&path).unwrap(), line.as_bytes());
    assert_eq!(admit(&store(&disk), &input(4)).unwrap(), Admission::Conflict(Stage::Pending));
}

/// Covers: G8. Files that somebody put back, or that a killed admitter left.
#[test]
fn files_that_come_back_are_not_delivered_again() {
    let disk = worked_on();
    let bytes = disk.peek(&file_of("in-4")).unwrap();
    let mut log = open(&store(&disk), &id(1)).unwrap().log;
    deliver(&mut log, 9).unwrap();
    for again in 0..3 {
        let file =
            disk.create_new(&file_of("in-4"), segno_store::disk::Writes::Sequential).unwrap();
        segno_store::disk::DiskFile::write(&file, &bytes).unwrap();
        if again == 2 {
            drop(log);
            log = open(&store(&disk), &id(1)).unwrap().log;
        }
        assert!(now(log.pending()).unwrap().pending.is_empty(), "{again}");
        now(log.clear_inbox()).unwrap();
        assert!(disk.peek(&file_of("in-4")).is_none(), "{again}");
    }
    let found = texts(&store(&disk), &id(1));
    assert_eq!(found.iter().filter(|text| **text == text_of(&input(4))).count(), 1);
}

/// Covers: G17.
#[test]
fn nameless_files_of_killed_senders_are_swept_and_those_of_living_ones_are_not() {
    let disk = worked_on();
    let temp = |name: &str| dir().join("inbox").join(name);
    let make = |name| disk.create_new(&temp(name), segno_store::disk::Writes::Sequential).unwrap();
    drop(make(".tmp-1-1"));
    let living = make(".tmp-1-2");
    assert!(segno_store::disk::DiskFile::try_lock(&living).unwrap());
    let mut log = open(&store(&disk), &id(1)).unwrap().log;
    append(&mut log, "sweeps").unwrap();
    assert!(disk.peek(&temp(".tmp-1-1")).is_none());
    assert!(disk.peek(&temp(".tmp-1-2")).is_some());
}

/// Covers: G8, #152. Many senders with one id and two contents, beside a holder that delivers: one content
/// wins for all of them, and appears once.
#[test]
fn of_racing_senders_one_content_wins_and_appears_once() {
    for round in 0..20 {
        let place = tempfile::tempdir().unwrap();
        let store = FileStore::new(RealDisk, place.path());
        let mut log = store.create(header(1));
        append(&mut log, "begin").unwrap();
        let answers: Vec<(usize, Admission)> = std::thread::scope(|scope| {
            let senders: Vec<_> = (0..6)
                .map(|n| {
                    scope.spawn({
                        let store = store.clone();
                        move || (n % 2, race(&store, n % 2))
                    })
                })
                .collect();
            while !senders.iter().all(std::thread::ScopedJoinHandle::is_finished) {
                deliver(&mut log, 9).unwrap();
            }
            senders.into_iter().map(|sender| sender.join().unwrap()).collect()
        });
        deliver(&mut log, 9).unwrap();
        let lost = |(_, answer): &&(usize, Admission)| matches!(answer, Admission::Conflict(_));
        let losers: Vec<usize> = answers.iter().filter(lost).map(|(which, _)| *which).collect();
        assert_eq!(losers.len(), 3, "round {round}: {answers:?}");
        assert!(losers.windows(2).all(|pair| pair[0] == pair[1]), "round {round}: {answers:?}");
        let found = texts(&store, &id(1));
        assert_eq!(found, ["begin".to_owned(), format!("content {}", 1 - losers[0])], "{round}");
    }
}

fn race(store: &FileStore<RealDisk>, which: usize) -> Admission {
    let words = Words::text(format!("content {which}"));
    admit(store, &NewInput::new("the id", InputBody::Queue(words))).unwrap()
}

/// Covers: G17.
#[cfg(unix)]
#[test]
fn the_inbox_is_private() {
    use std::os::unix::fs::PermissionsExt as _;
    let place = tempfile::tempdir().unwrap();
    let store = FileStore::new(RealDisk, place.path());
    append(&mut store.create(header(1)), "begin").unwrap();
    admit(&store, &input(1)).unwrap();
    let inbox = store.log_path(&id(1)).unwrap().with_file_name("inbox");
    let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&inbox), 0o700);
    for entry in std::fs::read_dir(&inbox).unwrap() {
        assert_eq!(mode(&entry.unwrap().path()), 0o600);
    }
}
