//! Copies of other agents' files: through power loss, kills and rewrites, on the simulated disk.

#![allow(clippy::unwrap_used, reason = "a failing test may panic")]

use segno_model::Timestamp;
use segno_model::store::StoreError;
use segno_store::disk::Writes;
use segno_store::foreign::{Agent, Located, Stamp};
use segno_store::kept::{Depth, Flaw, Taken};
use segno_store::{Disk as _, DiskFile as _, FileStore};
use segno_testkit::sim_disk::{Fault, OpKind, SimDisk};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

const ORIGINAL: &str = "/home/a.jsonl";
const COPY: &str = "/segno/kept/tree/home/a.jsonl";
const VERSIONS: &str = "/segno/kept/versions/home/a.jsonl";

fn disk(seed: u64) -> SimDisk {
    let disk = SimDisk::new(seed);
    disk.create_dir(Path::new("/home")).unwrap();
    let file = disk.create_new(Path::new(ORIGINAL), Writes::Sequential).unwrap();
    file.sync_all().unwrap();
    disk.sync_dir(Path::new("/home")).unwrap();
    disk.sync_dir(Path::new("/")).unwrap();
    disk
}

fn store(disk: &SimDisk) -> FileStore<SimDisk> {
    FileStore::new(disk.clone(), "/segno")
}

fn session() -> Located {
    Located {
        agent: Agent::Claude,
        path: PathBuf::from(ORIGINAL),
        key: None,
        id: Some("a".to_owned()),
        parent: None,
        archived: false,
        stamp: Stamp::default(),
    }
}

/// One run, as a process of its own does it.
fn run(disk: &SimDisk) -> Result<Taken, StoreError> {
    let mut keeper = store(disk).keeper()?.expect("nobody else");
    let taken = keeper.keep(&session(), &[PathBuf::from(ORIGINAL)], Timestamp(1))?;
    keeper.finish()?;
    match taken.trouble.first() {
        Some(why) => Err(StoreError::refused(why)),
        None => Ok(taken),
    }
}

/// What the original is in one run after the other: it grows, is written again, shorter, and grows.
fn lives() -> Vec<Vec<u8>> {
    let text = |word: &str, n: usize| word.repeat(n).into_bytes();
    let (first, second) = (text("first ", 300), text("second ", 200));
    let grown = [first.clone(), text("more ", 400)].concat();
    vec![first, grown, second.clone(), [second, text("end ", 700)].concat()]
}

/// Every copy that is there: the newest, and the versions.
fn copies(disk: &SimDisk) -> Vec<Vec<u8>> {
    let versions = disk.list(Path::new(VERSIONS)).unwrap_or_default();
    let versions = versions.iter().map(|entry| Path::new(VERSIONS).join(&entry.name));
    [PathBuf::from(COPY)].into_iter().chain(versions).filter_map(|path| disk.peek(&path)).collect()
}

/// Everything whose keeping was said to be done is still there, and the next run gets what is new.
fn check(disk: &SimDisk, done: usize, what: &str) {
    let lives = lives();
    let holds = |disk: &SimDisk| {
        let copies = copies(disk);
        for (n, life) in lives[..done].iter().enumerate() {
            let there = copies.iter().any(|copy| copy.starts_with(life));
            assert!(there, "{what}: what was kept in run {n} is gone");
        }
    };
    holds(disk);
    let last = lives.last().unwrap();
    disk.poke(Path::new(ORIGINAL), last);
    run(disk).unwrap_or_else(|e| panic!("{what}: {e}"));
    holds(disk);
    assert_eq!(disk.peek(Path::new(COPY)).as_ref(), Some(last), "{what}");
    assert!(run(disk).unwrap().is_nothing(), "{what}: nothing is new");
    assert_eq!(store(disk).kept().unwrap()[0].copy, Path::new(COPY), "{what}");
}

/// All runs; how many ended well.
fn live(disk: &SimDisk) -> usize {
    let mut done = 0;
    for life in lives() {
        disk.poke(Path::new(ORIGINAL), &life);
        if run(disk).is_err() {
            break;
        }
        done += 1;
    }
    done
}

/// Covers: G1, G4.
#[test]
fn power_lost_at_any_moment_loses_nothing_that_was_kept() {
    let whole = disk(0);
    assert_eq!(live(&whole), lives().len());
    for n in 0..=whole.operations() {
        let disk = disk(n);
        disk.stop_after(n);
        let done = live(&disk);
        check(&disk.crash(), done, &format!("power, operation {n}"));
    }
}

/// Covers: G1, G5.
#[test]
fn a_kill_at_any_moment_loses_nothing_that_was_kept_and_frees_the_lock() {
    let whole = disk(0);
    live(&whole);
    for n in 0..=whole.operations() {
        let disk = disk(1);
        disk.stop_after(n);
        let done = live(&disk);
        check(&disk.kill(), done, &format!("kill, operation {n}"));
    }
}

/// Covers: G15. What a failed sync left in memory counts as kept only when a later one succeeded.
#[test]
fn a_failed_sync_is_no_copy() {
    for after in 0..8 {
        for kind in [OpKind::Sync, OpKind::SyncDir, OpKind::Write] {
            let disk = disk(after);
            disk.inject(Fault { after, ..Fault::next(kind, ErrorKind::Other) });
            let done = live(&disk);
            disk.heal();
            check(&disk.crash(), done, &format!("{kind:?} {after}"));
        }
    }
}

#[test]
fn growth_copies_only_what_is_new_and_a_rewrite_keeps_both() {
    let disk = disk(0);
    let lives = lives();
    let mut runs = lives.iter().map(|life| {
        disk.poke(Path::new(ORIGINAL), life);
        run(&disk).unwrap()
    });
    let len = |n: usize| lives[n].len() as u64;
    let taken = Taken::default();
    assert_eq!(runs.next().unwrap(), Taken { new: 1, bytes: len(0), ..taken.clone() });
    assert_eq!(runs.next().unwrap(), Taken { grown: 1, bytes: len(1) - len(0), ..taken.clone() });
    assert_eq!(runs.next().unwrap(), Taken { rewritten: 1, bytes: len(2), ..taken.clone() });
    assert_eq!(runs.next().unwrap(), Taken { grown: 1, bytes: len(3) - len(2), ..taken });
    assert_eq!(copies(&disk), [lives[3].clone(), lives[1].clone()]);
}

/// Covers: G12. The index can be lost, torn or damaged.
#[test]
fn without_its_index_everything_is_compared_again() {
    let index = Path::new("/segno/kept/index.jsonl");
    for damage in [&b""[..], b"{\"type\":\"file\"", b"\0\0\0\n{}\n"] {
        let disk = disk(0);
        disk.poke(Path::new(ORIGINAL), &lives()[0]);
        run(&disk).unwrap();
        disk.poke(index, damage);
        assert!(run(&disk).unwrap().is_nothing(), "nothing is copied again");
        assert_eq!(store(&disk).kept().unwrap().len(), 1);
        assert_eq!(copies(&disk), [lives()[0].clone()]);
    }
}

/// Lines of an earlier version have no checksum of what they are about: they count, and get one when it is compared again.
#[test]
fn a_line_without_a_checksum_counts_and_gets_one() {
    let index = Path::new("/segno/kept/index.jsonl");
    let disk = disk(0);
    disk.poke(Path::new(ORIGINAL), &lives()[0]);
    run(&disk).unwrap();
    let text = String::from_utf8(disk.peek(index).unwrap()).unwrap();
    let old: String = text
        .lines()
        .map(|line| {
            let Some((before, rest)) = line.split_once(",\"sha256\":\"") else {
                return format!("{line}\n");
            };
            assert_eq!(&rest[..64], segno_model::sha256_hex(&lives()[0]));
            let crc = segno_model::line::checksum(before.as_bytes());
            format!("{before},\"crc\":\"{crc:08x}\"}}\n")
        })
        .collect();
    assert_ne!(old, text);
    disk.poke(index, old.as_bytes());
    let flaws = |disk: &SimDisk| {
        let kept = store(disk).kept().unwrap();
        store(disk).kept_flaws(&kept[0], Depth::Bytes)
    };
    assert!(flaws(&disk).is_empty());
    assert!(run(&disk).unwrap().is_nothing(), "nothing is copied again");
    let mut spoiled = lives()[0].clone();
    spoiled[5] ^= 1;
    disk.poke(Path::new(COPY), &spoiled);
    assert_eq!(flaws(&disk)[0].flaw, Flaw::Changed);
    disk.poke(Path::new(COPY), &spoiled[..10]);
    let kept = lives()[0].len() as u64;
    assert_eq!(flaws(&disk)[0].flaw, Flaw::Shorter { bytes: 10, kept });
    // What a killed run appended is no damage.
    disk.poke(Path::new(COPY), &lives()[1]);
    assert!(flaws(&disk).is_empty());
}

/// Covers: G5.
#[test]
fn one_run_at_a_time_keeps() {
    let disk = disk(0);
    let first = store(&disk).keeper().unwrap().unwrap();
    assert!(store(&disk).keeper().unwrap().is_none());
    drop(first);
    assert!(store(&disk).keeper().unwrap().is_some());
}

/// Covers: G16.
#[test]
fn a_full_disk_is_an_error_and_no_copy() {
    let disk = disk(0);
    disk.poke(Path::new(ORIGINAL), &lives()[0]);
    run(&disk).unwrap();
    disk.poke(Path::new(ORIGINAL), &lives()[1]);
    disk.set_capacity(Some(disk.used() + 100));
    assert!(matches!(run(&disk), Err(StoreError::NoRoom(_))));
    disk.set_capacity(None);
    check(&disk.kill(), 1, "after a full disk");
}

/// Covers: G16. What does not fit, new or grown, keeps a smaller one from nothing, and leaves its room.
#[test]
fn a_session_that_does_not_fit_holds_up_no_smaller_one() {
    for is_grown in [false, true] {
        let disk = disk(0);
        let small = Path::new("/home/small.jsonl");
        disk.create_new(small, Writes::Sequential).unwrap();
        disk.poke(small, &[b's'; 2000]);
        let mut keeper = store(&disk).keeper().unwrap().unwrap();
        if is_grown {
            disk.poke(Path::new(ORIGINAL), &[b'b'; 10]);
            keeper.keep(&session(), &[PathBuf::from(ORIGINAL)], Timestamp(1)).unwrap();
        }
        disk.poke(Path::new(ORIGINAL), &[b'b'; 50_000]);
        disk.set_capacity(Some(disk.used() + 20_000));
        let big = keeper.keep(&session(), &[PathBuf::from(ORIGINAL)], Timestamp(2));
        assert!(matches!(big, Err(StoreError::NoRoom(_))), "{is_grown}: {big:?}");
        let other = Located { path: small.to_owned(), id: Some("small".to_owned()), ..session() };
        let taken = keeper.keep(&other, &[small.to_owned()], Timestamp(2)).unwrap();
        assert_eq!((taken.new, taken.bytes), (1, 2000), "{is_grown}");
        keeper.finish().unwrap();
        let kept = store(&disk).kept().unwrap();
        assert_eq!(kept.len(), 1 + usize::from(is_grown));
        disk.set_capacity(None);
        run(&disk).unwrap();
        assert_eq!(disk.peek(Path::new(COPY)).unwrap(), [b'b'; 50_000]);
    }
}

#[test]
fn only_what_is_named_is_removed() {
    let disk = disk(0);
    live(&disk);
    let kept = store(&disk).kept().unwrap();
    let mut keeper = store(&disk).keeper().unwrap().unwrap();
    let (files, versions) = keeper.room(&kept[0]);
    assert!(files > 0 && versions > 0);
    assert_eq!(keeper.remove(&kept[0], true).unwrap(), versions);
    assert_eq!(copies(&disk).len(), 1);
    assert_eq!(keeper.remove(&kept[0], false).unwrap(), files);
    keeper.finish().unwrap();
    assert!(copies(&disk).is_empty() && store(&disk).kept().unwrap().is_empty());
}

/// The example on the page is an index.
#[test]
fn the_page_tells_the_index() {
    let page = include_str!("../../../docs/format/kept.md");
    let example = page.split("```jsonl\n").nth(1).unwrap().split("```").next().unwrap();
    let disk = disk(0);
    disk.poke(Path::new(ORIGINAL), b"x");
    run(&disk).unwrap();
    let index = Path::new("/segno/kept/index.jsonl");
    disk.poke(index, example.as_bytes());
    let mut kept = store(&disk).kept().unwrap();
    kept.sort_by_key(|kept| kept.agent);
    let agents: Vec<Agent> = kept.iter().map(|kept| kept.agent).collect();
    assert_eq!(agents, [Agent::Claude, Agent::Goose]);
    assert_eq!(kept[1].key.as_deref(), Some("20260302_1"));
    assert!(kept[1].copy.ends_with("sessions.db.sessions/20260302_1.sqlite"));
    // What is written is of the same kind: the run's own lines stand behind the page's.
    run(&disk).unwrap();
    let written = String::from_utf8(disk.peek(index).unwrap()).unwrap();
    assert!(written.starts_with(example), "{written}");
    assert_eq!(store(&disk).kept().unwrap().len(), 3);
}
