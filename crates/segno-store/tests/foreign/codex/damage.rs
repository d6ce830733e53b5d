//! Codex: damaged, packed and growing files.

use super::*;
use segno_store::foreign::ForeignError;

/// Covers: G3. Doubled and missing numbers are told; nothing around them is lost.
#[test]
fn numbers_of_lines_are_checked() {
    let text = String::from_utf8(corpus(&fixture("multi-turn-tools"))).expect("text");
    let lines: Vec<&str> = text.lines().collect();
    let home = Home::new();
    let read_lines = |lines: &[&str]| read(&home.put(PARENT, lines.join("\n")));
    let whole = said(&read_lines(&lines));

    let without = [&lines[..10], &lines[11..]].concat();
    let view = read_lines(&without);
    assert_eq!(findings(&view), ["ordinal-gap@11"]);
    assert_eq!(said(&view).len(), whole.len() - 1);

    let twice = [&lines[..=13], &lines[13..]].concat();
    let view = read_lines(&twice);
    assert_eq!(
        (findings(&view), said(&view)),
        (vec!["duplicate-record@15".to_owned()], whole.clone())
    );

    // Two writers gave one number to two records.
    let other = lines[18].replace("\"ordinal\":18", "\"ordinal\":17");
    let mut doubled = lines.clone();
    doubled[18] = &other;
    let view = read_lines(&doubled);
    assert_eq!(findings(&view), ["duplicate-ordinal@19", "ordinal-gap@20"]);
    assert_eq!(said(&view), whole);

    // A number that is far too high, or two lines that changed places, hide nothing behind them.
    let high = lines[5].replace("\"ordinal\":5", "\"ordinal\":9000000000");
    let mut astray = lines.clone();
    astray[5] = &high;
    let view = read_lines(&astray);
    assert_eq!(findings(&view), ["ordinal-gap@6", "ordinal-gap@7"]);
    assert_eq!(said(&view), whole);
    let mut swapped = lines.clone();
    swapped.swap(10, 11);
    let view = read_lines(&swapped);
    assert_eq!(findings(&view)[..2], ["ordinal-gap@11", "ordinal-gap@12"]);
    // An echo that stands on the other side of what it repeats may be read as well.
    assert!(whole.iter().all(|text| said(&view).contains(text)));
    let highest = lines[5].replace("\"ordinal\":5", &format!("\"ordinal\":{}", u64::MAX));
    astray[5] = &highest;
    assert_eq!(said(&read_lines(&astray)), whole);

    let headless = read_lines(&lines[1..]);
    assert_eq!(findings(&headless), ["ordinal-gap@1", "missing-header"]);
    assert_eq!(said(&headless), whole);
}

#[test]
fn packed_files_are_read_and_torn_ones_up_to_the_tear() {
    let text = corpus(&fixture("multi-turn-tools"));
    let Some(whole) = segno_testkit::zstd(&text, "-3") else {
        return segno_testkit::skipped("zstd is not there");
    };
    let home = Home::new();
    let plain = read(&home.put(PARENT, &text));
    let put = |content: &[u8]| home.put_at("sessions/2026/11/28", PARENT, ".jsonl.zst", content);
    let view = read(&put(&whole));
    assert_eq!((said(&view), view.facts.clone()), (said(&plain), plain.facts.clone()));
    assert!(findings(&view).is_empty(), "{:?}", view.findings);
    let frames = text.len() / 2;
    let two =
        [segno_testkit::zstd(&text[..frames], "-1"), segno_testkit::zstd(&text[frames..], "-19")]
            .map(Option::unwrap);
    assert_eq!(said(&read(&put(&two.concat()))), said(&plain));

    // Many blocks: a fork's worth of megabytes, cut and overwritten in the middle.
    let turn = ["user: question", "agent: answer"];
    let noise: Vec<String> = (0..9_000_u64)
        .map(|n| format!("agent: {:x}", n.wrapping_mul(0x9E37_79B9_7F4A_7C15)))
        .collect();
    let lines: Vec<&str> = turn.into_iter().chain(noise.iter().map(String::as_str)).collect();
    let long = script(PARENT, &lines);
    let whole = segno_testkit::zstd(long.as_bytes(), "-3").expect("zstd");
    assert_eq!(said(&read(&put(&whole))).len(), 9_002);
    for broken in [whole[..whole.len() * 3 / 4].to_vec(), overwritten(&whole)] {
        let view = read(&put(&broken));
        assert!(view.findings.iter().any(|f| f.code == "torn-archive"), "{:?}", view.findings);
        let said = said(&view);
        assert!(said.len() > 2_000 && said.len() < 9_002, "{}", said.len());
        assert_eq!(said[..2], ["user: question", "assistant: answer"]);
    }
}

fn overwritten(bytes: &[u8]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    let at = bytes.len() * 3 / 4;
    bytes[at..at + 4_000].fill(0xA5);
    bytes
}

#[test]
fn a_half_done_packing_is_one_session() {
    let home = Home::new();
    let text = script(ID, &["user: one", "agent: two"]);
    home.put(ID, &text);
    home.put_at("sessions/2026/11/29", ID, ".jsonl.zst", "half");
    assert_eq!(home.locate().len(), 1);
}

/// Covers: G14. Every prefix of a file gives a prefix of its records, up to the reply that is under way;
/// reading leaves no trace.
#[test]
fn every_prefix_is_a_session() {
    use std::os::unix::fs::MetadataExt;
    let text = corpus(&fixture("legacy-0.118-multi-turn-tools"));
    let home = Home::new();
    let whole = read(&home.put(ID, &text));
    let nodes = |view: &View| -> Vec<(u64, Option<u64>, Option<u64>)> {
        let nodes = view.records.iter().filter(|record| record.record.is_node());
        nodes.map(|n| (n.record.seq(), n.record.envelope.parent, n.origin.line)).collect()
    };
    let expected = nodes(&whole);
    let step = if cfg!(debug_assertions) { 37 } else { 1 };
    for end in (0..text.len()).step_by(step) {
        let path = home.put(ID, &text[..end]);
        let Ok(session) = recognise(&path) else { continue };
        let view = match View::transcript(&session) {
            Ok(view) => view,
            Err(ForeignError::NoTurns { .. }) => continue,
            Err(e) => panic!("{end}: {e}"),
        };
        let found = nodes(&view);
        let lines = text[..end].iter().filter(|&&byte| byte == b'\n').count() as u64;
        let settled = found.len().saturating_sub(1);
        assert_eq!(found[..settled], expected[..settled], "{end}");
        let due = expected.iter().filter(|(_, _, line)| line.is_some_and(|l| l <= lines)).count();
        assert!(found.len() >= due, "{end}: {} of {due}", found.len());
        assert_eq!(context_lines(&view.context()), {
            let active = View::active(&session).expect("it is read");
            context_lines(&active.context())
        });
    }

    let path = home.put(ID, &text);
    let before = fs::metadata(&path).expect("it is there");
    read(&path);
    let after = fs::metadata(&path).expect("it is there");
    let stamps = |m: &fs::Metadata| (m.len(), m.mtime_nsec(), m.atime_nsec(), m.ctime_nsec());
    assert_eq!(stamps(&before), stamps(&after));
    assert_eq!(fs::read(&path).expect("it is there"), text);
}

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig { cases: 48, ..Default::default() })]
    /// Covers: G3. Nothing that is written over a file makes reading fail or hang, or costs other lines.
    #[test]
    fn damage_costs_no_other_line(
        name in proptest::sample::select(vec!["compacted", "multi-turn-tools", "subagent-parent"]),
        at in 0.0_f64..1.0,
        bytes in proptest::collection::vec(proptest::prelude::any::<u8>(), 1..40),
    ) {
        let mut text = corpus(&fixture(name));
        let at = (at * (text.len() - bytes.len()) as f64) as usize;
        let broken = at..at + bytes.len();
        let newline = |bytes: &[u8]| bytes.contains(&b'\n');
        let splits = newline(&text[broken.clone()]) || newline(&bytes);
        text[broken].copy_from_slice(&bytes);
        let home = Home::new();
        let path = home.put(ID, &text);
        let before = transcript(&fixture(name));
        if let Ok(session) = recognise(&path) && let Ok(view) = View::transcript(&session) && !splits {
            let count = |view: &View| messages(view).len();
            // A lost item may have parted two messages, or joined them.
            proptest::prop_assert!(count(&view) + 2 >= count(&before), "{} {}", count(&view), count(&before));
            context_lines(&view.context());
        }
    }
}
