//! Files that are deep, wide, huge, cut or bent: everything ends, and nothing that was read gets lost.

use super::shapes::{call, reply, result, told, user};
use super::{fixture, fixtures};
use crate::scene::{context_lines, corpus, findings, lines};
use proptest::prelude::*;
use segno_store::foreign::{ForeignRecord, Item, View, read, recognise};
use std::fs;
use std::ops::ControlFlow;
use std::path::Path;

/// Covers: G3.
#[test]
fn a_deep_chain_and_deep_arguments_are_read() {
    let nested = format!("{}1{}", r#"{"a":"#.repeat(400), "}".repeat(400));
    let mut rows = vec![user("e0", "", "step 0")];
    for i in 1..5_000 {
        let (id, parent) = (format!("e{i}"), format!("e{}", i - 1));
        rows.push(match i {
            2_501 => call(&id, &parent, "t44", &nested),
            4_999 => user(&id, &parent, "LEAF-44"),
            _ if i % 2 == 1 => reply(&id, &parent, &format!("step {i}")),
            _ => user(&id, &parent, &format!("step {i}")),
        });
    }
    let view = told(&rows);
    assert_eq!(findings(&view), ["interrupted-call@2503"]);
    let said = lines(&view);
    assert_eq!(said.len(), 5_001);
    assert_eq!(said[2_502], format!("call t t44 {nested}"));
    let context = context_lines(&view.context());
    assert_eq!(context.last().unwrap(), "user: LEAF-44");
    assert_eq!(context[0], "user: step 0");
}

/// Characters of three bytes stand around every edge of a buffer. How much memory it takes is for the
/// benchmark to see to.
///
/// Covers: G3, #96.
#[test]
fn huge_lines_with_images_are_read_to_the_letter() {
    let data = "QUJD".repeat(512 << 10);
    let crack = |n: usize| "\u{7aaf}".repeat(n);
    let mut rows = vec![user("a", "", &format!("TITLE-45 {}", crack(30_000)))];
    let mut parent = "a".to_owned();
    for k in 1..=2 {
        let (c, r, d) = (format!("c{k}"), format!("r{k}"), format!("d{k}"));
        rows.push(call(&c, &parent, &c, "{}"));
        let text = crack(21_845 + k);
        let image = format!(r#""}},{{"type":"image","mimeType":"image/png","data":"{data}"#);
        rows.push(result(&r, &c, &c, &format!("{text}{image}")));
        rows.push(reply(&d, &r, &crack(349_525 + k)));
        parent = d;
    }
    rows.push(user("z", &parent, "LEAF-45"));
    let view = told(&rows);
    assert_eq!(findings(&view), [""; 0]);
    let said = lines(&view);
    assert_eq!(said[3], format!("result c1: {} | [image/png]", crack(21_846)));
    assert_eq!(said[7], format!("assistant: {}", crack(349_527)));
    assert_eq!(said.last().unwrap(), "user: LEAF-45");
}

/// A long chain with compactions that keep from far above, branches and edits: linear all the same.
///
/// Covers: G3.
#[test]
fn far_references_are_found_quickly() {
    let mut rows = vec![user("e0", "", "first")];
    for i in 1..20_000 {
        let (id, parent) = (format!("e{i}"), format!("e{}", i - 1));
        rows.push(if i % 2 == 0 {
            user(&id, &parent, "x")
        } else {
            let rest = r#""summary":"S","firstKeptEntryId":"e0","tokensBefore":1}"#;
            let row =
                user(&id, &parent, "x").replace(r#""type":"message""#, r#""type":"compaction""#);
            format!("{}{rest}", &row[..row.find(r#""message":"#).unwrap()])
        });
    }
    let view = told(&rows);
    assert_eq!(findings(&view), [""; 0]);
    assert_eq!(context_lines(&view.context()).len(), 10_001);
}

/// What a reading gave, as comparable text.
fn records(path: &Path) -> Vec<String> {
    let mut records = Vec::new();
    let Ok(session) = recognise(path) else { return records };
    let taken = |read: &ForeignRecord| {
        format!("{:?} {:?} {}", read.record.envelope, read.record.body(), read.copy)
    };
    let ended = read(&session, &mut |item| {
        if let Item::Record(record) = item {
            records.push(taken(&record));
        }
        ControlFlow::Continue(())
    });
    drop(ended);
    records
}

/// Covers: G2, G4.
#[test]
fn every_prefix_reads_what_the_whole_file_begins_with() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s.jsonl");
    for name in fixtures() {
        let bytes = fs::read(corpus(&fixture(&name))).unwrap();
        fs::write(&path, &bytes).unwrap();
        let whole = records(&path);
        let mut before = 0;
        // Every byte of one of them; of the others the ends of all lines, and a sample.
        let all = name.starts_with("30");
        let step = if all { 1 } else { 1 + bytes.len() / 20 };
        for end in 0..bytes.len() {
            let at_line = end > 0 && bytes[end - 1] == b'\n' || bytes[end] == b'\n';
            if end % step != 0 && !at_line {
                continue;
            }
            fs::write(&path, &bytes[..end]).unwrap();
            let read = records(&path);
            assert!(whole.starts_with(&read), "{name} cut at {end}");
            assert!(read.len() >= before, "{name} cut at {end}");
            before = read.len();
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, ..ProptestConfig::default() })]

    /// Covers: G3.
    #[test]
    fn bent_files_never_panic_and_keep_whole_lines(
        which in 0_usize..24,
        bends in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>(), 0_u8..4), 1..6),
    ) {
        let names = fixtures();
        let mut bytes = fs::read(corpus(&fixture(&names[which % names.len()]))).unwrap();
        for (at, byte, how) in bends {
            let at = at.index(bytes.len());
            match how {
                0 => bytes[at] ^= 1 << (byte % 8),
                1 => bytes[at] = b'\n',
                2 => drop(bytes.drain(at..(at + usize::from(byte)).min(bytes.len()))),
                _ => { let part = bytes[at / 2..at].to_vec(); bytes.splice(at..at, part); }
            }
        }
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("s.jsonl");
        fs::write(&path, &bytes).unwrap();
        let first = records(&path);
        prop_assert_eq!(&first, &records(&path));
        if let Ok(session) = recognise(&path)
            && let Ok(view) = View::transcript(&session)
        {
            drop(view.context());
            let active = View::active(&session).unwrap();
            prop_assert_eq!(context_lines(&active.context()), context_lines(&view.context()));
        }
    }
}
