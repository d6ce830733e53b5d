//! Every state that power loss can leave of recorded workloads, recovered and held against what had been
//! acknowledged.
//!
//! Responsible for: going through the moments of each workload and the states of each moment, counting
//! them, and naming the one that failed so that it can be made again. How many states are looked at is in
//! `SEGNO_CRASH_STATES`; `cargo xtask crash --states N` sets it. `SEGNO_CRASH_ONLY=WORKLOAD:MOMENT:STATE`
//! looks at one. Must not: decide what is right (that is `judge`), or what is done (that is `workloads`).
//!
//! Covers: G1, G2, G4, G6, G7, G8, G9.

use crate::judge;
use crate::scene::Told;
use crate::workloads::{self, Workload};
use segno_testkit::sim_disk::SimDisk;
use std::collections::HashSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// How many states are looked at when nobody says.
const STATES: u64 = 4_000;

/// Every `n`-th state is not only opened and judged but gone on with.
const GOES_ON_EVERY: u64 = 24;

/// A moment of a workload: power is lost right before its `change`-th change of the disk.
struct Moment<'a> {
    workload: &'a Workload,
    change: u64,
}

impl Moment<'_> {
    /// The disk and what the outside world had been told.
    fn reach(&self) -> (SimDisk, Told) {
        let (disk, mut told) = (self.workload.prepare)();
        disk.stop_before_change(self.change);
        (self.workload.act)(&disk, &mut told);
        (disk, told)
    }
}

#[derive(Default)]
struct Seen {
    states: AtomicU64,
    distinct: Mutex<HashSet<u64>>,
    failures: Mutex<Vec<String>>,
}

impl Seen {
    fn failures(&self) -> Vec<String> {
        self.failures.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Looks at up to `limit` states of one moment.
fn look(moment: &Moment<'_>, limit: usize, seen: &Seen) {
    let (disk, told) = moment.reach();
    let states = disk.crash_states();
    let (name, change) = (moment.workload.name, moment.change);
    for number in states.sample(limit, change) {
        let found = states.nth(number);
        let count = seen.states.fetch_add(1, Ordering::Relaxed);
        let print = found.fingerprint() ^ (told.shown.len() as u64) << 56 ^ change.rotate_left(40);
        if !seen.distinct.lock().unwrap_or_else(PoisonError::into_inner).insert(print) {
            continue;
        }
        let verdict = judge::judge(&found, &told, count.is_multiple_of(GOES_ON_EVERY));
        if let Err(why) = verdict {
            let mut failures = seen.failures.lock().unwrap_or_else(PoisonError::into_inner);
            failures.push(format!("SEGNO_CRASH_ONLY={name}:{change}:{number}: {why}"));
            return;
        }
    }
}

/// How many changes a workload makes.
fn changes(workload: &Workload) -> u64 {
    let (disk, mut told) = (workload.prepare)();
    let before = disk.changes();
    (workload.act)(&disk, &mut told);
    disk.changes() - before
}

#[test]
fn whatever_power_loss_leaves_is_recovered() {
    let all = workloads::all();
    if let Ok(only) = std::env::var("SEGNO_CRASH_ONLY") {
        return look_at_one(&all, &only);
    }
    let wanted = std::env::var("SEGNO_CRASH_STATES").ok().and_then(|n| n.parse().ok());
    let wanted: u64 = wanted.unwrap_or(STATES);
    let moments: Vec<Moment<'_>> = all
        .iter()
        .flat_map(|workload| (0..=changes(workload)).map(move |change| Moment { workload, change }))
        .collect();
    let sizes: Vec<u128> = moments.iter().map(|m| m.reach().0.crash_states().total()).collect();
    let limit = limit_for(&sizes, wanted);
    let seen = Seen::default();
    let next = AtomicU64::new(0);
    let began = std::time::Instant::now();
    std::thread::scope(|scope| {
        let workers = std::thread::available_parallelism().map_or(1, usize::from);
        for _ in 0..workers {
            scope.spawn(|| {
                while let Some(moment) = usize::try_from(next.fetch_add(1, Ordering::Relaxed))
                    .ok()
                    .and_then(|n| moments.get(n))
                {
                    look(moment, limit, &seen);
                }
            });
        }
    });
    let (states, seconds) = (seen.states.load(Ordering::Relaxed), began.elapsed().as_secs_f64());
    let distinct = seen.distinct.lock().unwrap_or_else(PoisonError::into_inner).len();
    eprintln!(
        "crash states: {states} looked at, {distinct} distinct, of {} workloads at {} moments; {:.0} a second",
        all.len(),
        moments.len(),
        states as f64 / seconds.max(0.001),
    );
    let failures = seen.failures();
    assert!(
        failures.is_empty(),
        "{} moments fail:\n{}",
        failures.len(),
        failures[..failures.len().min(12)].join("\n")
    );
    assert!(states >= wanted.min(all_of(&sizes)) / 2, "only {states} states were looked at");
}

fn all_of(sizes: &[u128]) -> u64 {
    u64::try_from(sizes.iter().fold(0u128, |sum, n| sum.saturating_add(*n))).unwrap_or(u64::MAX)
}

/// How many states of each moment make `wanted` together.
fn limit_for(sizes: &[u128], wanted: u64) -> usize {
    let (mut low, mut high) = (1u128, u128::from(wanted).max(1));
    while low < high {
        let middle = low + (high - low) / 2;
        let sum: u128 = sizes.iter().map(|size| (*size).min(middle)).sum();
        if sum >= u128::from(wanted) { high = middle } else { low = middle + 1 }
    }
    usize::try_from(low).unwrap_or(usize::MAX)
}

fn look_at_one(all: &[Workload], only: &str) {
    let mut parts = only.split(':');
    let workload = parts.next().and_then(|name| all.iter().find(|w| w.name == name));
    let change = parts.next().and_then(|n| n.parse().ok());
    let number = parts.next().and_then(|n| n.parse().ok());
    let (Some(workload), Some(change), Some(number)) = (workload, change, number) else {
        panic!("SEGNO_CRASH_ONLY is WORKLOAD:MOMENT:STATE")
    };
    let (disk, told) = Moment { workload, change }.reach();
    let found = disk.crash_states().nth(number);
    judge::judge(&found, &told, true).unwrap_or_else(|why| panic!("{why}"));
}
