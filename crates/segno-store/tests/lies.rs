//! Well-formed records with right checksums whose numbers make no sense.
//!
//! Responsible for: that no number in a log brings a reader or a writer down, and that work goes on or a
//! decision is asked for (G3). Must not: expect one particular outcome; every lie may be told.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a failing test may panic, and says on which line"
)]

mod support;

use segno_model::context;
use segno_model::line::{checksum, split_crc};
use segno_model::store::{
    DamagedSession, ForkPoint, HeldSession, Judged, Opened, SessionLog, SessionStore,
};
use segno_store::{FileLog, FileStore};
use segno_testkit::sessions::{Rng, Shape, log_bytes};
use segno_testkit::sim_disk::SimDisk;
use support::*;

const LIES: &[&str] =
    &["0", "1", "7", "9007199254740993", "18446744073709551614", "18446744073709551615"];

/// The places of all whole numbers in a line outside of its checksum.
fn numbers(line: &[u8]) -> Vec<(usize, usize)> {
    let Some((covered, _)) = split_crc(line) else { return Vec::new() };
    let (mut found, mut i) = (Vec::new(), 0);
    while i < covered.len() {
        let len = covered[i..].iter().take_while(|b| b.is_ascii_digit()).count();
        let ends = covered.get(i + len).is_some_and(|b| matches!(b, b',' | b'}' | b']'));
        if len > 0 && ends && i > 0 && matches!(covered[i - 1], b':' | b'[' | b',') {
            found.push((i, len));
        }
        i += len.max(1);
    }
    found
}

/// The log with one number of line `n` replaced, or none if it has no number left.
fn lied(lines: &[&[u8]], n: usize, rng: &mut Rng) -> Option<Vec<u8>> {
    let places = numbers(lines[n]);
    let (at, len) = *places.get(rng.below(places.len().max(1)))?;
    let (covered, _) = split_crc(lines[n])?;
    let lie = LIES[rng.below(LIES.len())].as_bytes();
    let mut line = [&covered[..at], lie, &covered[at + len..]].concat();
    let crc = checksum(&line);
    line.extend_from_slice(format!(",\"crc\":\"{crc:08x}\"}}").as_bytes());
    let mut all: Vec<&[u8]> = lines.to_vec();
    all[n] = &line;
    Some([all.join(&b'\n').as_slice(), b"\n"].concat())
}

fn go_on(store: &FileStore<SimDisk>, opened: Opened<FileLog<SimDisk>>) {
    let Opened { mut log, active } = opened;
    let _ = context::build(&active.records, log.state().tip());
    let _ = context::estimate(&active.records, log.state().tip());
    for text in ["goes on", "and on"] {
        append(&mut log, text).unwrap_or_else(|e| panic!("{text}: {e}"));
    }
    let tip = log.state().tip();
    let there = now(log.active(tip)).unwrap();
    let messages = context::build(&there.records, tip).messages;
    assert!(messages.last().is_some_and(|m| m.text().contains("and on")), "{messages:?}");
    drop(log);
    assert!(texts(store, &id(1)).ends_with(&["goes on".to_owned(), "and on".to_owned()]));
}

/// Covers: G3, G4, G13.
#[test]
fn no_number_in_a_record_with_a_right_checksum_brings_anything_down() {
    for seed in 0..20 {
        let bytes = log_bytes(&id(1), Shape::random(seed));
        let lines: Vec<&[u8]> = bytes.split(|b| *b == b'\n').filter(|l| !l.is_empty()).collect();
        let mut rng = Rng::new(seed);
        for _ in 0..15 {
            let n = rng.below(lines.len());
            let Some(lie) = lied(&lines, n, &mut rng) else { continue };
            let shown =
                || String::from_utf8_lossy(lie.split(|b| *b == b'\n').nth(n).unwrap()).into_owned();
            println!(
                "seed {seed}, line {}: {}",
                n + 1,
                shown().chars().take(300).collect::<String>()
            );
            let disk = SimDisk::new(seed);
            let store = FileStore::new(disk.clone(), "/segno");
            append(&mut store.create(header(1)), "x").unwrap();
            disk.poke(&store.log_path(&id(1)).unwrap(), &lie);
            let _ = scan(&store, &id(1));
            let _ = now(store.read(&id(1)));
            let _ = now(store.fork(&id(1), ForkPoint::Whole, header(2), say("").at));
            match now(now(store.open(&id(1))).unwrap().judge()) {
                Ok(Judged::Sound(opened)) => go_on(&store, opened),
                Ok(Judged::Damaged(damaged)) => {
                    let plan = damaged.plan(&[]);
                    if let Ok(opened) = now(damaged.repair(plan, say("").at)) {
                        go_on(&store, opened);
                    }
                }
                Err(_) => {}
            }
        }
    }
}
