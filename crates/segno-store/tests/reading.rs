//! What reading costs, and what it survives.
//!
//! Responsible for: the guarantees G3 and G11 on whole logs, and readers of any block size. Must not:
//! repeat the judge's own tests line by line.

#![allow(clippy::unwrap_used, reason = "a failing test may panic")]

mod support;

use segno_model::record::{Message, RepairItem, Tip};
use segno_model::store::{
    DamagedSession, HeldSession, Judged, Level, Opened, Scanned, SessionLog, SessionStore,
    StoreError,
};
use segno_model::{Body, Pos};
use segno_store::{FileDamaged, FileLog, FileStore, Options};
use segno_testkit::sessions;
use segno_testkit::sim_disk::SimDisk;
use support::*;

fn store_with(disk: &SimDisk, options: Options) -> FileStore<SimDisk> {
    FileStore::with_options(disk.clone(), "/segno", options)
}

fn store(disk: &SimDisk) -> FileStore<SimDisk> {
    store_with(disk, Options { checkpoint_every: 64 << 10, ..Options::default() })
}

/// Far longer than any line that a writer makes.
const HUGE: usize = 50 << 20;

/// Turns of about 10 kB each.
fn grow(log: &mut FileLog<SimDisk>, turns: usize) {
    for n in 0..turns {
        let answer = draft(sessions::answer(&format!("answer {n} {}", "y".repeat(9000))));
        let batch = vec![say(&format!("question {n} {}", "x".repeat(900))), answer];
        now(log.append(batch, Level::Written)).unwrap();
    }
}

fn compact(log: &mut FileLog<SimDisk>) {
    let kept = log.state().tip();
    let done = draft(sessions::summary("what happened so far", kept, Vec::new()));
    now(log.append(vec![done], Level::Synced)).unwrap();
}

/// Covers: G11.
#[test]
fn opening_reads_what_the_context_needs_and_not_the_history() {
    let disk = SimDisk::new(1);
    let store = store(&disk);
    let mut log = store.create(header(1));
    grow(&mut log, 800);
    compact(&mut log);
    grow(&mut log, 10);
    let (bytes, state) = (log.bytes(), log.state().clone());
    assert!(bytes > 8_000_000, "{bytes}");
    drop(log);
    let before = disk.bytes_read();
    let opened = open(&store, &id(1)).unwrap();
    let read = disk.bytes_read() - before;
    assert_eq!(read, opened.active.bytes_read);
    assert!(read < 400_000, "{read} of {bytes} bytes were read for 100 kB of context");
    assert_eq!(opened.active.records.iter().filter(|r| r.is_node()).count(), 22);
    assert_eq!(opened.log.state().next_seq, state.next_seq);
    assert_eq!(opened.log.state().in_force.totals, state.in_force.totals);
    assert!(opened.active.findings.is_empty());
}

/// Covers: G11. The tip lies on a branch that was left long ago.
#[test]
fn opening_at_an_old_branch_reads_that_branch_and_not_what_lies_between() {
    let disk = SimDisk::new(1);
    let store = store(&disk);
    let mut log = store.create(header(1));
    grow(&mut log, 100);
    compact(&mut log);
    grow(&mut log, 5);
    let old: Option<Pos> = log.state().tip();
    grow(&mut log, 600);
    now(log.append(vec![draft(Body::Tip(Tip { tip: old }))], Level::Synced)).unwrap();
    let bytes = log.bytes();
    drop(log);
    let opened = open(&store, &id(1)).unwrap();
    let read = opened.active.bytes_read;
    assert!(read < 800_000, "{read} of {bytes} bytes");
    assert_eq!(opened.log.state().tip(), old);
    assert!(opened.active.records.iter().any(|r| Some(r.pos()) == old));
    let mut log = opened.log;
    append(&mut log, "a new branch").unwrap();
    assert_eq!(scan(&store, &id(1)).last().unwrap().envelope.parent, old.map(|p| p.seq));
}

/// Covers: G11. A log without any compaction costs its context, which is all of it.
#[test]
fn the_same_records_come_back_with_every_block_size() {
    let disk = SimDisk::new(1);
    let mut log = store(&disk).create(header(1));
    grow(&mut log, 5);
    drop(log);
    let whole = scan(&store(&disk), &id(1));
    for block in [1, 2, 7, 64, 4095, 4096, 1 << 20] {
        let store = store_with(&disk, Options { block, ..Options::default() });
        let lines: Vec<_> = scan(&store, &id(1)).into_iter().map(|r| r.line).collect();
        let wanted: Vec<_> = whole.iter().map(|r| r.line.clone()).collect();
        assert_eq!(lines, wanted, "block {block}");
    }
}

/// Covers: G3, ST4. Megabytes without a line end cost no record around them.
#[test]
fn a_line_of_many_megabytes_hides_nothing() {
    let disk = SimDisk::new(1);
    let store = store(&disk);
    let mut log = store.create(header(1));
    append(&mut log, "before").unwrap();
    append(&mut log, "between").unwrap();
    append(&mut log, "after").unwrap();
    drop(log);
    let path = store.log_path(&id(1)).unwrap();
    let bytes = disk.peek(&path).unwrap();
    let lines: Vec<&[u8]> = bytes.split_inclusive(|b| *b == b'\n').collect();
    let mut huge = vec![b'z'; HUGE];
    huge.push(b'\n');
    disk.poke(&path, &[lines[0], lines[1], &huge, lines[2], lines[3]].concat());
    assert_eq!(texts(&store, &id(1)), ["before", "between", "after"]);
    let findings = findings(&store);
    let offset = (lines[0].len() + lines[1].len()) as u64;
    assert!(findings.iter().any(|f| f.offset == Some(offset)), "{findings:?}");
}

fn findings(store: &FileStore<SimDisk>) -> Vec<segno_model::finding::Finding> {
    let mut found = Vec::new();
    now(store.scan(&id(1), &mut |item| {
        if let Scanned::Finding(finding) = item {
            found.push(finding);
        }
        true
    }))
    .unwrap();
    found
}

/// A log of three texts, with something done to the middle one's line.
fn damaged(change: impl Fn(&mut Vec<u8>)) -> (SimDisk, FileStore<SimDisk>) {
    let disk = SimDisk::new(1);
    let store = store(&disk);
    let mut log = store.create(header(1));
    for text in ["one", "two", "three", "four"] {
        append(&mut log, text).unwrap();
    }
    drop(log);
    let path = store.log_path(&id(1)).unwrap();
    let bytes = disk.peek(&path).unwrap();
    let mut lines: Vec<Vec<u8>> =
        bytes.split_inclusive(|b| *b == b'\n').map(<[u8]>::to_vec).collect();
    change(&mut lines[2]);
    disk.poke(&path, &lines.concat());
    (disk, store)
}

fn replace(line: &mut Vec<u8>, from: &str, to: &str) {
    *line = String::from_utf8(line.clone()).unwrap().replace(from, to).into_bytes();
}

fn judge_damaged(store: &FileStore<SimDisk>) -> FileDamaged<SimDisk> {
    match now(now(store.open(&id(1))).unwrap().judge()).unwrap() {
        Judged::Damaged(damaged) => damaged,
        Judged::Sound(_) => panic!("the damage was not seen"),
    }
}

fn repaired(
    damaged: FileDamaged<SimDisk>,
    plan: Vec<RepairItem>,
) -> Result<Opened<FileLog<SimDisk>>, StoreError> {
    now(damaged.repair(plan, say("").at))
}

/// Covers: G3, ST4.
#[test]
fn damage_in_the_active_context_waits_for_a_decision_and_is_bridged_by_an_append() {
    let (disk, store) = damaged(|line| {
        let cut = line.len() / 2;
        line.truncate(cut);
        line.push(b'\n');
    });
    let path = store.log_path(&id(1)).unwrap();
    let before = disk.peek(&path).unwrap();
    let damaged = judge_damaged(&store);
    assert_eq!(damaged.findings().len(), 1);
    assert!(damaged.findings()[0].offset.is_some());
    assert_eq!(disk.peek(&path).unwrap(), before, "judging changes no byte");
    let plan = damaged.plan(&[]);
    let mut log = repaired(damaged, plan).unwrap().log;
    assert!(disk.peek(&path).unwrap().starts_with(&before), "nothing is rewritten");
    append(&mut log, "goes on").unwrap();
    drop(log);
    assert!(open(&store, &id(1)).is_ok(), "decided once and for all");
    assert_eq!(texts(&store, &id(1)), ["one", "three", "four", "goes on"]);
}

/// Covers: G3.
#[test]
fn an_altered_line_counts_only_after_a_person_accepted_it() {
    let (_, store) = damaged(|line| replace(line, "two", "2wo and more"));
    let damaged = judge_damaged(&store);
    let plan = damaged.plan(&[2]);
    assert!(matches!(plan[..], [RepairItem::Accepted { seq: 2, .. }]), "{plan:?}");
    let opened = repaired(damaged, plan).unwrap();
    let said = |m: &Message| matches!(m, Message::User(_));
    let users =
        opened.active.records.iter().filter(|r| matches!(r.body(), Body::Message(m) if said(m)));
    let users: Vec<_> = users.map(sessions::text_of).collect();
    assert_eq!(users, ["one", "2wo and more", "three", "four"]);
    drop(opened);
    assert!(open(&store, &id(1)).is_ok());
}

/// Covers: G3. An altered last node is the tip again once it is accepted.
#[test]
fn the_state_after_a_repair_is_the_state_that_the_next_opening_finds() {
    for accept in [&[][..], &[2]] {
        let (_, store) = damaged(|line| replace(line, "two", "2wo and more"));
        let damaged = judge_damaged(&store);
        let plan = damaged.plan(accept);
        let opened = repaired(damaged, plan).unwrap();
        let state = opened.log.state().clone();
        drop(opened);
        let again = open(&store, &id(1)).unwrap();
        assert_eq!(again.log.state().tip(), state.tip());
        assert_eq!(again.log.state().next_seq, state.next_seq);
        assert_eq!(again.log.state().end, state.end);
    }
}

/// Covers: G3. One flipped bit is explained and needs nobody.
#[test]
fn one_flipped_bit_is_corrected_for_reading_and_said() {
    let (_, store) = damaged(|line| line[40] ^= 4);
    assert!(open(&store, &id(1)).is_ok());
    assert_eq!(texts(&store, &id(1)), ["one", "two", "three", "four"]);
    assert!(!findings(&store).is_empty());
}

/// Covers: ST3, G3.
#[test]
fn a_foreign_first_line_is_reported_and_never_written_over() {
    let disk = SimDisk::new(1);
    let store = store(&disk);
    append(&mut store.create(header(1)), "one").unwrap();
    let path = store.log_path(&id(1)).unwrap();
    disk.poke(&path, b"this is no log\nand this is not either\n");
    let damaged = judge_damaged(&store);
    assert!(!damaged.findings().is_empty());
    let plan = damaged.plan(&[]);
    assert!(repaired(damaged, plan).is_err());
    assert_eq!(disk.peek(&path).unwrap(), b"this is no log\nand this is not either\n");
}

/// Covers: G3, G2. A repair of damage and a torn tail go together.
#[test]
fn a_torn_tail_behind_damage_is_set_aside_by_the_repair() {
    let (disk, store) = damaged(|line| replace(line, "two", "2wo and more"));
    let path = store.log_path(&id(1)).unwrap();
    let mut bytes = disk.peek(&path).unwrap();
    bytes.extend_from_slice(b"{\"seq\":5,\"par");
    disk.poke(&path, &bytes);
    let damaged = judge_damaged(&store);
    let plan = damaged.plan(&[]);
    let mut log = repaired(damaged, plan).unwrap().log;
    append(&mut log, "goes on").unwrap();
    drop(log);
    let opened = open(&store, &id(1)).unwrap();
    assert!(opened.active.findings.iter().all(|f| f.code != "torn-tail"));
    assert_eq!(texts(&store, &id(1)), ["one", "three", "four", "goes on"]);
}

/// Covers: G5. A reader sees whole records only, whatever a writer is in the middle of.
#[test]
fn reading_a_log_that_is_being_written_leaves_the_unfinished_record_out() {
    let disk = SimDisk::new(1);
    let store = store(&disk);
    let mut log = store.create(header(1));
    append(&mut log, "one").unwrap();
    append(&mut log, "two").unwrap();
    let path = store.log_path(&id(1)).unwrap();
    let bytes = disk.peek(&path).unwrap();
    for cut in 0..bytes.len() {
        let copy = disk.kill_copy();
        copy.poke(&path, &bytes[..cut]);
        let reader = FileStore::new(copy, "/segno");
        let snapshot = now(reader.read(&id(1))).unwrap();
        let wanted = ["one", "two"];
        let found: Vec<_> = snapshot.active.records.iter().filter(|r| r.is_node()).collect();
        assert!(found.len() <= 2);
        assert!(found.iter().zip(wanted).all(|(r, text)| sessions::text_of(r) == text), "{cut}");
    }
}

/// Covers: G1, G4. A follower gives each record once, whatever happens to the log meanwhile.
#[test]
fn a_follower_gives_every_record_once() {
    let disk = SimDisk::new(1);
    let store = FileStore::new(disk.clone(), "/segno");
    let mut log = store.create(header(1));
    append(&mut log, "one").unwrap();
    let mut follower = store.follow(&id(1)).unwrap();
    let mut seen: Vec<u64> = Vec::new();
    let mut look = |seen: &mut Vec<u64>| {
        seen.extend(follower.look().unwrap().iter().map(segno_model::Record::seq));
    };
    look(&mut seen);
    assert_eq!(seen, [0, 1]);
    look(&mut seen);
    for n in 0..5 {
        append(&mut log, &format!("{n}")).unwrap();
        if n % 2 == 0 {
            look(&mut seen);
        }
    }
    // A tail that is being written, and one that is set aside.
    let path = store.log_path(&id(1)).unwrap();
    drop(log);
    let good = disk.peek(&path).unwrap();
    disk.poke(&path, &[good.as_slice(), b"{\"seq\":7,"].concat());
    look(&mut seen);
    look(&mut seen);
    let mut log = open(&store, &id(1)).unwrap().log;
    append(&mut log, "after").unwrap();
    look(&mut seen);
    append(&mut log, "more").unwrap();
    look(&mut seen);
    assert_eq!(seen, (0..seen.len() as u64).collect::<Vec<_>>());
    assert_eq!(seen.len(), scan(&store, &id(1)).len());
}
