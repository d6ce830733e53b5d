//! Cut and bent files of the agents that have no oracle: Ink, evo-agent, Cline, goose, Crush, Qwen Code, Kimi.

use crate::scene::{context_lines, corpus};
use proptest::prelude::*;
use segno_store::foreign::{Agent, Item, Located, Stamp, View, read, recognise};
use std::fs;
use std::ops::ControlFlow;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Files that are text, with their agents and the name that the agent gives them.
const TEXTS: [(Agent, &str, &str); 11] = [
    (Agent::Ink, "ink/-home-ada-wheel--shop/2026-07-04T09-00-00_5b0c.jsonl", "a.jsonl"),
    (Agent::Ink, "ink/-home-ada-wheel--shop/2026-07-04T09-01-00_9c1d.jsonl", "a.jsonl"),
    (Agent::Ink, "ink/-home-ada-wheel--shop/2026-07-04T09-02-00_d00d.jsonl", "a.jsonl"),
    (Agent::Evo, "evo/1780452000125_9f3a01c7/messages.jsonl", "messages.jsonl"),
    (Agent::Evo, "evo/1780453000000_00c0ffee/messages.jsonl", "messages.jsonl"),
    (
        Agent::Cline,
        "cline/1772450000000/api_conversation_history.json",
        "api_conversation_history.json",
    ),
    (Agent::Cline, "cline/1772460000000/ui_messages.json", "ui_messages.json"),
    (Agent::Goose, "goose/20250310_101500.jsonl", "20250310_101500.jsonl"),
    (
        Agent::Qwen,
        "qwen/-home-ada-forge/chats/0b8a1f00-0000-4000-8000-00000000000a.jsonl",
        "a.jsonl",
    ),
    (
        Agent::Qwen,
        "qwen/-home-ada-forge/chats/0b8a1f00-0000-4000-8000-00000000000b.jsonl",
        "a.jsonl",
    ),
    (
        Agent::Kimi,
        "kimi/5f1c0a9e77d2b8431f6a0c4be9d3187a/3a1e6d5c-0002-4a7b-9c3d-000000000002/context.jsonl",
        "context.jsonl",
    ),
];

fn bytes(name: &str) -> Vec<u8> {
    fs::read(corpus(&format!("foreign/{name}"))).expect("it is in the corpus")
}

fn located(agent: Agent, path: PathBuf) -> Located {
    let stamp = Stamp::default();
    Located { agent, path, key: None, id: None, parent: None, archived: false, stamp }
}

/// What a reading gave, as comparable text; as far as it came.
fn records(session: &Located) -> Vec<String> {
    let mut records = Vec::new();
    let ended = read(session, &mut |item| {
        if let Item::Record(read) = item {
            let (envelope, body) = (&read.record.envelope, read.record.body());
            records.push(format!("{envelope:?} {body:?} {}", read.copy));
        }
        ControlFlow::Continue(())
    });
    drop(ended);
    records
}

/// Covers: G2, G4, #12.
#[test]
fn every_prefix_reads_what_the_whole_file_begins_with() {
    let folder = tempfile::tempdir().expect("a folder");
    for (agent, name, as_name) in TEXTS {
        let (bytes, path) = (bytes(name), folder.path().join(as_name));
        let session = located(agent, path.clone());
        fs::write(&path, &bytes).expect("a file");
        let whole = records(&session);
        assert!(!whole.is_empty(), "{name}");
        let mut before = 0;
        // The ends of all lines, and a sample.
        let step = 1 + bytes.len() / 100;
        for end in 0..bytes.len() {
            let at_line = end > 0 && bytes[end - 1] == b'\n' || bytes[end] == b'\n';
            if end % step != 0 && !at_line {
                continue;
            }
            fs::write(&path, &bytes[..end]).expect("a file");
            let read = records(&session);
            assert!(whole.starts_with(&read), "{name} cut at {end}");
            assert!(read.len() >= before, "{name} cut at {end}");
            before = read.len();
        }
        fs::remove_file(&path).expect("it is there");
    }
}

/// Covers: G14.
#[test]
fn reading_leaves_bytes_and_times_as_they_are() {
    let folder = tempfile::tempdir().expect("a folder");
    for (agent, name, as_name) in TEXTS {
        let path = folder.path().join(as_name);
        fs::write(&path, bytes(name)).expect("a file");
        let state = || {
            let meta = fs::metadata(&path).expect("it is there");
            [
                meta.atime(),
                meta.atime_nsec(),
                meta.mtime(),
                meta.mtime_nsec(),
                meta.ino().cast_signed(),
            ]
        };
        let before = state();
        drop(recognise(&path));
        assert!(!records(&located(agent, path.clone())).is_empty(), "{name}");
        assert_eq!(state(), before, "{name}");
        assert_eq!(fs::read(&path).expect("it is there"), bytes(name), "{name}");
        fs::remove_file(&path).expect("it is there");
    }
}

/// Flips, cuts, breaks and doubles parts of a file.
fn bend(bytes: &mut Vec<u8>, bends: &[(prop::sample::Index, u8, u8)]) {
    for (at, byte, how) in bends {
        let at = at.index(bytes.len());
        match how {
            0 => bytes[at] ^= 1 << (byte % 8),
            1 => bytes[at] = b'\n',
            2 => drop(bytes.drain(at..(at + usize::from(*byte)).min(bytes.len()))),
            _ => {
                let part = bytes[at / 2..at].to_vec();
                bytes.splice(at..at, part);
            }
        }
        if bytes.is_empty() {
            bytes.push(b'{');
        }
    }
}

fn check(session: &Located) -> Result<(), TestCaseError> {
    let first = records(session);
    prop_assert_eq!(&first, &records(session));
    if let Ok(view) = View::transcript(session) {
        let active = View::active(session).expect("it reads again");
        prop_assert_eq!(context_lines(&active.context()), context_lines(&view.context()));
    }
    Ok(())
}

fn bends() -> impl Strategy<Value = Vec<(prop::sample::Index, u8, u8)>> {
    prop::collection::vec((any::<prop::sample::Index>(), any::<u8>(), 0_u8..4), 1..6)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    /// Covers: G3.
    #[test]
    fn bent_files_never_panic_and_read_the_same_twice(
        which in 0..TEXTS.len(),
        bends in bends(),
    ) {
        let (agent, name, as_name) = TEXTS[which];
        let mut bytes = bytes(name);
        bend(&mut bytes, &bends);
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join(as_name);
        fs::write(&path, &bytes).expect("a file");
        drop(recognise(&path));
        check(&located(agent, path))?;
    }

    /// Covers: G3.
    #[test]
    #[cfg(feature = "catalog")]
    fn bent_databases_never_panic(
        which in 0_usize..2,
        bends in bends(),
    ) {
        let (agent, name) =
            [(Agent::Goose, "goose/sessions.db"), (Agent::Crush, "crush/.crush/crush.db")][which];
        let mut bytes = bytes(name);
        bend(&mut bytes, &bends);
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join(Path::new(name).file_name().expect("it has one"));
        fs::write(&path, &bytes).expect("a file");
        drop(recognise(&path));
        check(&located(agent, path))?;
    }
}
