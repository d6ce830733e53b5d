//! Files that were cut, changed, or are still being written.

use crate::scene::corpus;
use proptest::prelude::*;
use segno_store::foreign::{ForeignError, ForeignRecord, Item, Located, read, recognise};
use std::fs;
use std::ops::ControlFlow;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, SystemTime};

const FIXTURE: &str = "foreign/claude/compacted.jsonl";

/// What is read from bytes that stand in the fixture's place.
fn records(
    located: &Located,
    path: &Path,
    bytes: &[u8],
) -> Result<Vec<ForeignRecord>, ForeignError> {
    fs::write(path, bytes).expect("written");
    let session = Located { path: path.to_owned(), ..located.clone() };
    let mut all = Vec::new();
    read(&session, &mut |item| {
        if let Item::Record(record) = item {
            all.push(record);
        }
        ControlFlow::Continue(())
    })?;
    Ok(all)
}

/// Number, parent, kind and place: what stays when a file grows. The last message's content may grow with
/// it.
fn shape(records: &[ForeignRecord]) -> Vec<(u64, Option<u64>, String, Option<u64>)> {
    let shape = |read: &ForeignRecord| {
        let envelope = &read.record.envelope;
        (envelope.seq, envelope.parent, envelope.kind.clone(), read.origin.line)
    };
    records.iter().map(shape).collect()
}

/// Covers: G4.
#[test]
fn every_prefix_reads_as_the_beginning_of_the_whole() {
    let bytes = fs::read(corpus(FIXTURE)).expect("readable");
    let located = recognise(&corpus(FIXTURE)).expect("known");
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("x.jsonl");
    let whole = shape(&records(&located, &path, &bytes).expect("readable"));
    let mut before = 0;
    // Every byte of some rows, and one in many of the rest: reading is the same within a row.
    for len in (0..bytes.len()).filter(|len| len % 1_999 == 0 || (90_000..90_150).contains(len)) {
        match records(&located, &path, &bytes[..len]) {
            Ok(all) => {
                let all = shape(&all);
                assert!(all.len() >= before, "{len}");
                assert_eq!(all, whole[..all.len()], "{len}");
                before = all.len();
            }
            Err(ForeignError::NoTurns { .. }) => assert_eq!(before, 0, "{len}"),
            Err(error) => panic!("{len}: {error}"),
        }
    }
    assert!(before > whole.len() / 2, "{before}");
}

/// Covers: G14.
#[test]
fn reading_leaves_bytes_and_times_as_they_are() {
    let bytes = fs::read(corpus(FIXTURE)).expect("readable");
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("x.jsonl");
    fs::write(&path, &bytes).expect("written");
    let old = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
    let times = fs::FileTimes::new().set_accessed(old).set_modified(old);
    fs::File::options().write(true).open(&path).expect("open").set_times(times).expect("set");
    let stamp = || {
        let meta = fs::metadata(&path).expect("there");
        (meta.atime(), meta.mtime(), meta.ctime_nsec(), meta.len())
    };
    let before = stamp();
    let session = recognise(&path).expect("known");
    read(&session, &mut |_| ControlFlow::Continue(())).expect("readable");
    assert_eq!(stamp(), before);
    assert_eq!(fs::read(&path).expect("readable"), bytes);
}

/// Covers: G3.
#[test]
fn data_without_a_turn_is_an_error_and_an_empty_file_is_not() {
    let located = recognise(&corpus(FIXTURE)).expect("known");
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("x.jsonl");
    for bytes in
        [&b"\0\0\0\0"[..], b"{\"type\":\"mode\"}\n", b"{\"a\":1}", b"null\n", b"{{{{", b"\xff"]
    {
        let error = records(&located, &path, bytes).expect_err("no turn");
        assert!(matches!(error, ForeignError::NoTurns { .. }), "{error}");
    }
    assert_eq!(records(&located, &path, b"").expect("empty").len(), 0);
}

/// A long chain of rows that each stand in the next one needs no stack.
///
/// Covers: G3, #29.
#[test]
fn nesting_is_refused_and_long_chains_are_not() {
    let located = recognise(&corpus(FIXTURE)).expect("known");
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("x.jsonl");
    let deep = "[".repeat(100_000);
    let first = r#"{"type":"user","uuid":"0","parentUuid":null,"message":{"content":"x"}}"#;
    let bytes = format!("{first}\n{{\"type\":\"user\",\"uuid\":\"d\",\"message\":{deep}\n");
    assert_eq!(records(&located, &path, bytes.as_bytes()).expect("readable").len(), 1);
    let chain: String = (1..20_000)
        .map(|n| {
            first.replace("\"0\"", &format!("\"{n}\"")).replace("null", &format!("\"{}\"", n - 1))
        })
        .map(|row| row + "\n")
        .collect();
    let all = records(&located, &path, format!("{first}\n{chain}").as_bytes()).expect("readable");
    assert_eq!(all.last().and_then(|read| read.record.envelope.parent), Some(19_998));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    /// Covers: G3.
    #[test]
    fn damage_never_panics_and_loses_no_other_line(
        at in 0_usize..120_000,
        byte in any::<u8>(),
        cut in 0_usize..400,
    ) {
        let mut bytes = fs::read(corpus(FIXTURE)).expect("readable");
        let located = recognise(&corpus(FIXTURE)).expect("known");
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("x.jsonl");
        let whole = records(&located, &path, &bytes).expect("readable");
        let end = (at + cut).min(bytes.len());
        let lines = |bytes: &[u8]| bytes.iter().filter(|&&b| b == b'\n').count() as u64;
        let (first, last) = (lines(&bytes[..at]) + 1, lines(&bytes[..end]) + 1);
        bytes[at] = byte;
        bytes.drain(at + 1..end.max(at + 1));
        if let Ok(read) = records(&located, &path, &bytes) {
            let before = whole.iter().filter(|read| read.origin.line < Some(first)).count();
            let after = whole.iter().filter(|read| read.origin.line > Some(last)).count();
            // A response that lost a row may stand in two records, and never in none.
            prop_assert!(read.len() + 2 >= before + after, "{} {before} {after}", read.len());
        }
    }
}
