//! Any records of any session erased: what is left is a whole session without a word of them.
//!
//! Responsible for: references between records after an erasure, and what compactions carry. Must not: cut an
//! erasure short; `erase.rs` does.

#![allow(clippy::unwrap_used, reason = "a failing test may panic")]

mod support;

use proptest::prelude::*;
use segno_model::line::{checksum, readable_json, split_crc};
use segno_model::record::{
    Compaction, CompactionState, ContextEdit, Label, StepStatus, Task, TaskStep, Text, Tip,
};
use segno_model::store::{Level, SessionLog, SessionStore};
use segno_model::{Body, Pos, Record, Seq, Timestamp, context};
use segno_store::{FileLog, FileStore, Options};
use segno_testkit::sessions::{Rng, answer, prompt};
use segno_testkit::sim_disk::SimDisk;
use serde_json::Value;
use support::*;

const AT: Timestamp = Timestamp(1_764_450_000_000);

fn store(disk: &SimDisk) -> FileStore<SimDisk> {
    let options = Options { checkpoint_every: 1500, ..Options::default() };
    FileStore::with_options(disk.clone(), "/segno", options)
}

fn put(log: &mut FileLog<SimDisk>, body: Body) -> Record {
    now(log.append(vec![draft(body)], Level::Synced)).unwrap().remove(0)
}

fn secret(n: u64) -> String {
    format!("Never show key ZK{n:04}.")
}

fn task(n: u64) -> Task {
    let step = TaskStep { text: secret(n), status: StepStatus::Pending };
    Task { goal: secret(n), constraints: vec![secret(n)], steps: vec![step] }
}

fn compaction(kept: &[Pos], said: &[(Seq, u64)], task: Option<&(Seq, Task)>) -> Compaction {
    let (kept, first) = kept.split_at(kept.len().saturating_sub(1));
    Compaction {
        summary: Some(Text::Inline("what was".to_owned())),
        first_kept: first.first().copied(),
        kept: kept.to_vec(),
        sentences: said.iter().map(|(_, n)| secret(*n)).collect(),
        task: task.map(|(_, task)| task.clone()),
        ..Compaction::marker(CompactionState::Done, None)
    }
}

/// Records that hold secrets, with the secret of each.
fn life(log: &mut FileLog<SimDisk>, rng: &mut Rng) -> Vec<(Seq, u64)> {
    let (mut holders, mut prompts) = (Vec::new(), Vec::new());
    let (mut nodes, mut in_force): (Vec<Pos>, _) = (Vec::new(), None);
    for n in 0..12 + rng.below(20) as u64 {
        let any = nodes.get(rng.below(nodes.len().max(1))).copied();
        let record = match (rng.below(8), any) {
            (0, _) => put(log, Body::Task(task(n))),
            (1, Some(target)) => put(log, Body::Label(Label { target, label: secret(n) })),
            (2, Some(tip)) => {
                put(log, Body::Tip(Tip { tip: Some(tip) }));
                continue;
            }
            (3, Some(at)) => {
                let content = vec![segno_model::record::Block::text(secret(n))];
                let edit = "replace".to_owned();
                put(
                    log,
                    Body::ContextEdit(ContextEdit {
                        target: at.seq,
                        edit,
                        content,
                        ..ContextEdit::default()
                    }),
                )
            }
            (4, Some(_)) => {
                let from = rng.below(nodes.len());
                let body = compaction(&nodes[from..], &prompts, in_force.as_ref());
                nodes.push(put(log, Body::Compaction(Box::new(body))).pos());
                // Its copies are of other records: it holds no secret of its own.
                holders.push((nodes.last().unwrap().seq, u64::MAX));
                continue;
            }
            (5, _) => put(log, answer(&format!("{} {}", secret(n), "long ".repeat(rng.below(90))))),
            _ => put(log, prompt(&format!("Do it.\n{}  Please.", secret(n)))),
        };
        match record.body() {
            Body::Task(task) => in_force = Some((record.seq(), task.clone())),
            Body::Message(_) => nodes.push(record.pos()),
            _ => {}
        }
        if record.envelope.kind == "message" && record.line.windows(6).any(|w| w == b"\"user\"") {
            prompts.push((record.seq(), n));
        }
        holders.push((record.seq(), n));
    }
    holders
}

/// Every position in a record, wherever it stands.
fn positions(record: &Record) -> Vec<Pos> {
    fn collect(value: &Value, found: &mut Vec<Pos>) {
        match value {
            Value::Object(members) if members.len() == 3 && members.contains_key("crc") => {
                found.extend(serde_json::from_value::<Pos>(value.clone()).ok());
            }
            Value::Object(members) => members.values().for_each(|value| collect(value, found)),
            Value::Array(items) => items.iter().for_each(|item| collect(item, found)),
            _ => {}
        }
    }
    let (mut found, value) = (Vec::new(), serde_json::from_str(&readable_json(&record.line)));
    collect(&value.unwrap(), &mut found);
    found
}

/// The records of a log in which every position names one, and what else is found wrong with it.
fn whole(disk: &SimDisk) -> (Vec<Record>, Vec<String>) {
    let opened = open(&store(disk), &id(1)).unwrap();
    let context = context::build(&opened.active.records, opened.log.state().tip());
    let findings = opened.active.findings.iter().chain(&context.findings);
    let findings = findings.map(|f| format!("{} {:?}", f.code, f.seq)).collect();
    drop(opened);
    let records = scan(&store(disk), &id(1));
    for record in &records {
        for pos in positions(record) {
            let named = records.iter().find(|r| r.seq() == pos.seq).unwrap();
            assert_eq!(named.pos(), pos, "named by record {}", record.seq());
        }
    }
    (records, findings)
}

fn erase(disk: &SimDisk, seqs: &[Seq]) {
    now(store(disk).erase(&id(1), seqs, AT)).unwrap();
    store(disk).end_erasure(&id(1)).unwrap();
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    /// Covers: G10, G15.
    #[test]
    fn any_records_erased_leave_a_whole_session_without_them(seed: u64) {
        let (disk, mut rng) = (SimDisk::new(seed), Rng::new(seed));
        let mut log = store(&disk).create(header(1));
        put(&mut log, prompt("hello"));
        let holders = life(&mut log, &mut rng);
        put(&mut log, answer("the end"));
        drop(log);
        let (before, findings) = whole(&disk);
        let chosen: Vec<(Seq, u64)> =
            holders.into_iter().filter(|_| rng.below(3) == 0).collect();
        let seqs: Vec<Seq> = chosen.iter().map(|(seq, _)| *seq).collect();
        prop_assume!(!seqs.is_empty());
        let (first, rest) = seqs.split_at(rng.below(seqs.len()));
        for some in [first, rest].into_iter().filter(|some| !some.is_empty()) {
            erase(&disk, some);
            let (after, now) = whole(&disk);
            assert!(after.len() > before.len(), "seed {seed}: it says what was erased");
            assert_eq!(now, findings, "seed {seed}");
        }
        let path = store(&disk).log_path(&id(1)).unwrap();
        let bytes = disk.peek(&path).unwrap();
        let log = String::from_utf8(bytes.clone()).unwrap();
        for (seq, n) in &chosen {
            assert!(!log.contains(&format!("ZK{n:04}")), "seed {seed}: {n} of record {seq} is there");
        }
        erase(&disk, &seqs);
        assert_eq!(disk.peek(&path).unwrap(), bytes, "seed {seed}: again");
    }
}

/// A compaction that an earlier version erased: its sentences stayed, and it names a record as that was
/// before it was erased. Covers: G3.
#[test]
fn what_an_earlier_version_left_in_an_erased_compaction_opens_and_goes() {
    let disk = SimDisk::new(1);
    let mut log = store(&disk).create(header(1));
    let asked = put(&mut log, prompt(&secret(1)));
    put(&mut log, answer("yes"));
    let body = Compaction {
        kept: vec![asked.pos()],
        sentences: vec![secret(2)],
        task: Some(task(2)),
        ..compaction(&[], &[], None)
    };
    let summed = put(&mut log, Body::Compaction(Box::new(body)));
    drop(log);
    erase(&disk, &[asked.seq()]);
    let path = store(&disk).log_path(&id(1)).unwrap();
    let as_it_was = |records: &[Record]| {
        let mut lines: Vec<Vec<u8>> = records.iter().map(|r| r.line.to_vec()).collect();
        let old = lines
            .iter_mut()
            .find(|l| l.starts_with(format!("{{\"seq\":{}", summed.seq()).as_bytes()));
        let old = old.unwrap();
        let text = String::from_utf8(split_crc(old).unwrap().0.to_vec()).unwrap();
        let new = positions(&records[usize::try_from(summed.seq()).unwrap()]).iter().fold(
            text,
            |text, pos| {
                if pos.seq != asked.seq() {
                    return text;
                }
                let crc = |pos: &Pos| {
                    format!(
                        "\"seq\":{},\"offset\":{},\"crc\":\"{:08x}\"",
                        pos.seq, pos.offset, pos.crc
                    )
                };
                text.replace(&crc(pos), &crc(&asked.pos()))
            },
        );
        let new = format!("{new},\"erased\":true");
        *old = format!("{new},\"crc\":\"{:08x}\"}}", checksum(new.as_bytes())).into_bytes();
        lines.iter().flat_map(|line| [line.as_slice(), b"\n"].concat()).collect::<Vec<u8>>()
    };
    let records = scan(&store(&disk), &id(1));
    let upto = records.iter().position(|r| r.seq() == summed.seq()).unwrap();
    disk.poke(&path, &as_it_was(&records[..=upto]));
    let opened = open(&store(&disk), &id(1)).unwrap();
    assert!(opened.active.findings.is_empty(), "{:?}", opened.active.findings);
    let tip = opened.log.state().tip();
    let texts: Vec<String> = context::build(&opened.active.records, tip)
        .messages
        .iter()
        .map(context::ContextMessage::text)
        .collect();
    assert!(texts.contains(&"(erased)".to_owned()), "{texts:?}");
    drop(opened);
    erase(&disk, &[summed.seq()]);
    let log = String::from_utf8(disk.peek(&path).unwrap()).unwrap();
    assert!(!log.contains("ZK"), "{log}");
    assert!(open(&store(&disk), &id(1)).unwrap().active.findings.is_empty());
}
