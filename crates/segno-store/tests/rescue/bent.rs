//! Every fixture, damaged in every way that is known, repaired.

use crate::bench::{corpus, keeps_its_promises, loses_nothing, rows, session};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use serde_json::Value;
use std::fs;

const FOLDERS: [&str; 4] = ["claude", "codex", "pi", "gemini"];

fn files() -> Vec<String> {
    let mut files = Vec::new();
    for folder in FOLDERS {
        let dir = corpus(&format!("foreign/{folder}"));
        for entry in fs::read_dir(&dir).expect("it is in the corpus").filter_map(Result::ok) {
            let name = entry.file_name().into_string().expect("UTF-8");
            if name.ends_with(".jsonl") {
                files.push(format!("foreign/{folder}/{name}"));
            }
        }
    }
    files.sort();
    files
}

/// Covers: G3, G4, G14.
#[test]
fn whole_fixtures_keep_everything() {
    for name in files() {
        let session = session(&name);
        let bytes = fs::read(&session.path).expect("it is in the corpus");
        let result = keeps_its_promises(&session, &bytes, &name).expect("it reads");
        let is_whole = !name.contains("killed") && !name.contains("-derived-");
        assert!(!is_whole || result.aside.is_empty(), "{name}: {:?}", result.changes);
    }
}

/// Covers: G2, G4.
#[test]
fn fixtures_cut_at_every_line_are_repaired() {
    for name in files() {
        let session = session(&name);
        let bytes = fs::read(&session.path).expect("it is in the corpus");
        let ends: Vec<usize> = memchr::memchr_iter(b'\n', &bytes).collect();
        for end in &ends {
            // Behind the line, before its end, and in its middle.
            for at in [end + 1, *end, end.saturating_sub(40)] {
                keeps_its_promises(&session, &bytes[..at], &format!("{name} cut at {at}"));
            }
        }
    }
}

/// Covers: G4. Whatever an interrupted write leaves of a session: cut at every byte.
#[test]
fn small_sessions_cut_at_every_byte_are_repaired() {
    let names = [
        "foreign/gemini/killed-mid-tool-then-resumed.jsonl",
        "cases/17-orphan-result/c0de0011-1111-4111-8111-000000000011.jsonl",
        "cases/15-orphan-call-tail/rollout-2026-03-02T09-00-00-019c0000-000f-7000-8000-00000000000f.jsonl",
        "cases/10-duplicate-prefix/2026-03-02T09-00-00-000Z_019c1111-000a-7000-8000-00000000000a.jsonl",
    ];
    // All of them where the build is quick; else others for each file.
    let step = if cfg!(debug_assertions) { 23 } else { 1 };
    for (first, name) in names.iter().enumerate() {
        let session = session(name);
        let bytes = fs::read(&session.path).expect("it is in the corpus");
        for at in (first..bytes.len()).step_by(step) {
            keeps_its_promises(&session, &bytes[..at], &format!("{name} cut at {at}"));
        }
    }
}

/// Covers: G3. NUL bytes and bytes that are no UTF-8 within a line, and a line of megabytes, each in every line.
#[test]
fn odd_bytes_and_huge_lines_cost_no_more_than_their_line() {
    for name in files().iter().step_by(3) {
        let session = session(name);
        let bytes = fs::read(&session.path).expect("it is in the corpus");
        let lines: Vec<&[u8]> = bytes.split_inclusive(|&b| b == b'\n').collect();
        for at in (0..lines.len()).step_by(2) {
            for odd in [&b"\0\0"[..], b"\xFF\xC3", b"\xED\xA0\x80"] {
                let middle = lines[at].len() / 2;
                let line = [&lines[at][..middle], odd, &lines[at][middle..]].concat();
                let bent = [&lines[..at], &[&line], &lines[at + 1..]].concat().concat();
                keeps_its_promises(&session, &bent, &format!("{name} {odd:?} in line {}", at + 1));
            }
        }
        let huge = vec![b'x'; 3 << 20];
        let bent = [&bytes, &b"\n"[..], &huge, b"\n"].concat();
        let result = keeps_its_promises(&session, &bent, &format!("{name} with a huge line"));
        assert!(result.is_some_and(|result| result.aside.len() > 3 << 20), "{name}");
    }
}

/// A member of a row that says nothing of what was said, where it stands, and what it is instead, as JSON; nothing
/// takes it away.
type Aside = (&'static [&'static str], &'static str, &'static str);

const ASIDE: &[Aside] = &[
    (&["message", "usage"], "output_tokens", "99"),
    (&["message", "usage"], "output", "99"),
    (&["message"], "usage", "\"7\""),
    (&["message"], "usage", ""),
    (&[], "isSidechain", "\"false\""),
    (&[], "gitBranch", "{\"name\":\"main\"}"),
    (&[], "version", "null"),
    (&[], "later", "[1]"),
    (&["payload", "info"], "extra", "1"),
];

/// The row with the member as it is said there, if that is another row.
fn bent(row: &Value, (path, name, json): &Aside) -> Option<Vec<u8>> {
    let mut bent = row.clone();
    let inner = path.iter().try_fold(&mut bent, |at, name| at.get_mut(name))?.as_object_mut()?;
    match serde_json::from_str(json) {
        Ok(value) => inner.insert((*name).to_owned(), value),
        Err(_) => inner.remove(*name),
    };
    (bent != *row).then(|| bent.to_string().into_bytes())
}

/// Covers: #7, G4. What a reader takes for the same record is the same record for a repair too: the session goes on
/// where it was.
#[test]
fn rows_that_stand_again_with_other_words_beside_them_change_no_context() {
    for name in files() {
        let session = session(&name);
        let bytes = fs::read(&session.path).expect("it is in the corpus");
        let lines = rows(&bytes);
        let values: Vec<Value> =
            lines.iter().filter_map(|line| serde_json::from_slice(line).ok()).collect();
        for aside in ASIDE {
            let again: Vec<Vec<u8>> = values.iter().filter_map(|row| bent(row, aside)).collect();
            // One of them, a few, all of them.
            let picks = [(again.len() / 3, 1), (0, 4), (0, again.len())];
            for (from, count) in picks {
                let some = again.iter().skip(from).take(count).map(Vec::as_slice);
                let file = lines.iter().copied().chain(some).collect::<Vec<_>>().join(&b'\n');
                let file = [&file, &b"\n"[..]].concat();
                keeps_its_promises(
                    &session,
                    &file,
                    &format!("{name}: {aside:?}, {count} from {from}"),
                );
            }
        }
    }
}

/// Covers: #7, G4. An earlier row may stand again anywhere, also between the rows of one reply. One of Gemini CLI takes
/// the place of the first.
#[test]
fn earlier_rows_that_stand_again_between_others_change_no_context() {
    for name in files() {
        let session = session(&name);
        let bytes = fs::read(&session.path).expect("it is in the corpus");
        let lines = rows(&bytes);
        // All of them where the build is quick.
        let step = if cfg!(debug_assertions) { 1 + lines.len() / 6 } else { 1 };
        for at in (2..=lines.len()).step_by(step) {
            for earlier in [at / 2, at - 2] {
                let before = lines.iter().take(at).copied();
                let again = lines.iter().skip(earlier).take(1).copied();
                let file = before.chain(again).chain(lines.iter().skip(at).copied());
                let file = [&file.collect::<Vec<_>>().join(&b'\n'), &b"\n"[..]].concat();
                keeps_its_promises(&session, &file, &format!("{name}: {earlier} before {at}"));
            }
        }
    }
}

/// A way in which files were found damaged.
#[derive(Debug, Clone, Copy)]
enum Damage {
    Nuls,
    NulLine,
    Torn,
    Fused,
    Doubled,
    DoubledRun,
    Lost,
    Byte,
    Stub,
    Surrogate,
    Swapped,
    Number,
}

fn damage(lines: &mut Vec<Vec<u8>>, at: usize, by: usize, how: Damage) {
    let at = at % lines.len();
    let len = lines[at].len();
    match how {
        Damage::Nuls => {
            lines[at].splice(0..0, vec![0; 1 + by % 600]);
        }
        Damage::NulLine => lines.insert(at, vec![0; 1 + by % 600]),
        Damage::Torn => lines[at].truncate(by % len.max(1)),
        Damage::Fused => {
            if at + 1 < lines.len() {
                let next = lines.remove(at + 1);
                lines[at].extend(next);
            }
        }
        Damage::Doubled => lines.insert(at + 1, lines[at].clone()),
        Damage::DoubledRun => {
            let from = at - (by % 4).min(at);
            let run = lines[from..=at].to_vec();
            lines.extend(run);
        }
        Damage::Lost => {
            if lines.len() > 1 {
                lines.remove(at);
            }
        }
        Damage::Byte => {
            if len > 0 {
                lines[at][by % len] = 0xFE;
            }
        }
        Damage::Stub => {
            let stub = lines[at][..len.min(by % 80)].to_vec();
            lines[at].splice(0..0, stub);
        }
        Damage::Swapped => {
            let other = by % lines.len();
            lines.swap(at, other);
        }
        Damage::Number => {
            // Far too high, given twice, backwards.
            let key = b"\"ordinal\":";
            if let Some(key_at) = memchr::memmem::find(&lines[at], key) {
                let start = key_at + key.len();
                let digits = lines[at][start..].iter().take_while(|b| b.is_ascii_digit()).count();
                let wrong = [u64::MAX, 9_000_000_000, at as u64 + 1, at as u64 / 2, 0][by % 5];
                lines[at].splice(start..start + digits, wrong.to_string().into_bytes());
            }
        }
        Damage::Surrogate => {
            if let Some(quote) = memchr::memmem::find(&lines[at], b"\"text\":\"") {
                lines[at].splice(quote + 8..quote + 8, *b"\\ud83c");
            }
        }
    }
}

fn damages() -> impl Strategy<Value = Vec<(usize, usize, Damage)>> {
    let how = prop::sample::select(vec![
        Damage::Nuls,
        Damage::NulLine,
        Damage::Torn,
        Damage::Fused,
        Damage::Doubled,
        Damage::DoubledRun,
        Damage::Lost,
        Damage::Byte,
        Damage::Stub,
        Damage::Surrogate,
        Damage::Swapped,
        Damage::Number,
    ]);
    prop::collection::vec((any::<u16>(), any::<u16>(), how), 1..5).prop_map(|damages| {
        damages.into_iter().map(|(at, by, how)| (usize::from(at), usize::from(by), how)).collect()
    })
}

/// The same cases each time, so that a failure is the work of what changed. It names its seed; `PROPTEST_RNG_SEED` takes one, `PROPTEST_CASES` their number.
fn config() -> ProptestConfig {
    let given = ProptestConfig::default();
    let cases = if std::env::var_os("PROPTEST_CASES").is_some() { given.cases } else { 256 };
    let rng_seed = RngSeed::Fixed(seed());
    ProptestConfig { cases, rng_seed, failure_persistence: None, ..given }
}

/// The seed of this run.
fn seed() -> u64 {
    match ProptestConfig::default().rng_seed {
        RngSeed::Fixed(named) => named,
        RngSeed::Random => 70_001,
    }
}

proptest! {
    #![proptest_config(config())]

    /// Covers: G3, G4.
    #[test]
    fn whatever_happened_to_a_file_its_repair_loses_nothing_that_reads(
        which in any::<prop::sample::Index>(),
        damages in damages(),
        is_ended in any::<bool>(),
    ) {
        let files = files();
        let name = which.get(&files);
        let session = session(name);
        let bytes = fs::read(&session.path).expect("it is in the corpus");
        let mut lines: Vec<Vec<u8>> = rows(&bytes).into_iter().map(<[u8]>::to_vec).collect();
        for (at, by, how) in &damages {
            damage(&mut lines, *at, *by, *how);
        }
        let mut bytes = lines.join(&b'\n');
        if is_ended {
            bytes.push(b'\n');
        }
        let shown = format!("PROPTEST_RNG_SEED={} {name} {damages:?}", seed());
        let swaps = damages.iter().any(|(.., how)| matches!(how, Damage::Swapped));
        if swaps {
            // Where rows name what they hang on, an agent finds one that stands elsewhere; our reader need not.
            // Where each turn stands twice, an echo on the other side of what it repeats may be read as well.
            loses_nothing(&session, &bytes, &shown);
        } else {
            keeps_its_promises(&session, &bytes, &shown);
        }
    }
}
