//! Properties that hold for all logs and all damage. proptest prints the seed of a failure.

use crate::notation::{Log, custom, other_record, ranges, result, say, scan_text, user};
use proptest::prelude::*;
use segno_model::active::{Loaded, Loader, load_bytes, load_with};
use segno_model::finding::Severity;
use segno_model::id::Seq;
use segno_model::line::Record;
use segno_model::record::{Label, Tip};
use segno_model::store::Scanned;
use segno_model::{Body, judge};
use std::collections::BTreeMap;

/// A step of a random session.
#[derive(Debug, Clone)]
enum Step {
    User(String),
    Say(String),
    Calls(u8),
    Custom(String),
    Tip(u64),
    Label(u64),
    Checkpoint,
    Sync,
}

fn step() -> impl Strategy<Value = Step> {
    let text = prop_oneof![
        "[a-z\n\"\\\\]{0,30}",
        Just("漢字 🎼 \u{2028} \u{0} \u{feff}".to_owned()),
        Just("{\"seq\":3,\"crc\":\"00000000\"}".to_owned()),
    ];
    prop_oneof![
        4 => text.clone().prop_map(Step::User),
        4 => text.clone().prop_map(Step::Say),
        2 => (1..4u8).prop_map(Step::Calls),
        1 => text.prop_map(Step::Custom),
        1 => any::<u64>().prop_map(Step::Tip),
        1 => any::<u64>().prop_map(Step::Label),
        1 => Just(Step::Checkpoint),
        4 => Just(Step::Sync),
    ]
}

fn session(steps: &[Step]) -> Log {
    let mut log = Log::parse("header");
    for step in steps {
        let nodes: Vec<_> = log.records.iter().filter(|r| r.is_node()).map(Record::pos).collect();
        let node = |n: u64| nodes.get(usize::try_from(n % 1000).unwrap() % nodes.len().max(1));
        match step {
            Step::User(text) => log.add(user(text)),
            Step::Say(text) => log.add(say(text, &[])),
            Step::Calls(n) => {
                let seq = log.state.next_seq;
                let ids: Vec<String> = (0..*n).map(|i| format!("c{i}")).collect();
                log.add(say("", &ids.iter().map(String::as_str).collect::<Vec<_>>()));
                ids.iter().for_each(|id| log.add(result(id, Some(seq))));
            }
            Step::Custom(text) => log.add(custom(text)),
            Step::Tip(n) => log.add(Body::Tip(Tip { tip: node(*n).copied() })),
            Step::Label(n) => {
                if let Some(target) = node(*n) {
                    log.add(Body::Label(Label { target: *target, label: "x".into() }));
                }
            }
            Step::Checkpoint => {
                log.add(Body::Checkpoint(Box::new(log.state.in_force.clone())));
            }
            Step::Sync => log.synced = log.state.next_seq.checked_sub(1),
        }
    }
    log
}

fn sessions() -> impl Strategy<Value = Log> {
    prop::collection::vec(step(), 1..14).prop_map(|steps| session(&steps))
}

impl std::fmt::Debug for Log {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&String::from_utf8_lossy(&self.bytes))
    }
}

/// What a forward scan reads, by number; the same number twice would be a mistake.
fn scanned(bytes: &[u8]) -> (BTreeMap<Seq, Record>, Vec<&'static str>) {
    let (mut records, mut codes) = (BTreeMap::new(), Vec::new());
    for scanned in judge::scan_bytes(bytes) {
        match scanned {
            Scanned::Record(record) => {
                let again = records.insert(record.seq(), *record);
                assert!(again.is_none(), "record {} was read twice", again.unwrap().seq());
            }
            Scanned::Finding(finding) => codes.push(finding.code),
        }
    }
    (records, codes)
}

/// Everything read is what was written.
fn assert_only_what_was_written(log: &Log, records: &BTreeMap<Seq, Record>) {
    for (seq, record) in records {
        let written = log.records.iter().find(|r| r.seq() == *seq);
        assert_eq!(written.map(|r| &r.line), Some(&record.line), "record {seq}");
    }
}

/// Resuming and scanning agree about the tail, and resuming reads nothing that scanning does not.
fn assert_agree(bytes: &[u8], loaded: &Loaded) {
    let (records, _) = scanned(bytes);
    for record in &loaded.records {
        assert_eq!(records.get(&record.seq()).map(|r| &r.line), Some(&record.line));
    }
    let said = |code: &str| loaded.findings.iter().any(|f| f.code == code);
    assert_eq!(loaded.tail.is_some(), said("torn-tail") || said("header-cut"));
    let text = scan_text(bytes);
    for code in ["torn-tail", "header-cut", "header-damaged", "missing", "altered"] {
        assert_eq!(text.contains(code), said(code), "{code}: {text}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, max_shrink_iters: 32, ..ProptestConfig::default() })]

    /// Cuts all over a session, at random distances.
    ///
    /// Covers: G2, G4, TT1, TT2, TT5.
    #[test]
    fn a_prefix_is_a_session_of_its_whole_records(log in sessions(), stride in 3..29usize) {
        for cut in (0..=log.bytes.len()).rev().step_by(stride) {
            let loaded = load_bytes(&log.bytes[..cut]);
            // A record is whole when only its line end is missing.
            let whole = log.ends.iter().filter(|end| cut + 1 >= **end).count();
            prop_assert_eq!(loaded.state.next_seq, whole as u64, "cut at {}", cut);
            prop_assert_eq!(loaded.blocking().count(), 0);
            // Nothing at all can be gone on with as well, and is said to be a loss.
            let lost = loaded.findings.iter().filter(|f| f.severity == Severity::Damage);
            let lost: Vec<_> = lost.map(|f| f.code).collect();
            prop_assert_eq!(lost, if cut == 0 { vec!["log-empty"] } else { Vec::new() });
            let ended = whole > 0 && log.ends[whole - 1] <= cut;
            prop_assert_eq!(loaded.needs_line_end, whole > 0 && !ended);
            let end = if ended { log.ends[whole - 1] } else { cut.min(loaded.content_end as usize) };
            prop_assert_eq!(loaded.content_end, if whole > 0 { end as u64 } else { 0 });
            prop_assert_eq!(loaded.tail.is_some(), loaded.content_end < cut as u64);
            prop_assert_eq!(loaded.header.is_some(), whole > 0);
        }
    }

    /// The state and the records of a prefix are those that the writer had.
    ///
    /// Covers: G4, G10.
    #[test]
    fn a_prefix_loads_the_state_that_the_writer_had(log in sessions()) {
        let mut state = segno_model::state::State::default();
        for (record, end) in log.records.iter().zip(&log.ends) {
            state.apply(record);
            let loaded = load_bytes(&log.bytes[..*end]);
            let text = |s: &segno_model::state::State| serde_json::to_string(&s.in_force).unwrap();
            prop_assert_eq!(text(&loaded.state), text(&state));
            prop_assert_eq!((loaded.state.next_seq, loaded.state.end), (state.next_seq, state.end));
            prop_assert_eq!(loaded.path.first().copied(), state.tip().map(|t| t.seq));
        }
    }

    /// Covers: G3.
    #[test]
    fn every_flipped_bit_is_corrected_or_reported(log in sessions(), from in 0..100usize) {
        let mut log = log;
        log.synced = log.state.next_seq.checked_sub(1);
        log.add(user("last"));
        // About forty bits of each log, spread evenly from a random one on.
        let bits = log.bytes.len() * 8;
        for bit in (from..bits).step_by(bits / 40) {
            let mut bytes = log.bytes.clone();
            bytes[bit / 8] ^= 1 << (bit % 8);
            let (records, codes) = scanned(&bytes);
            assert_only_what_was_written(&log, &records);
            prop_assert!(!codes.is_empty(), "bit {bit} goes unnoticed");
            let hurt = log.ends.partition_point(|end| *end <= bit / 8) as u64;
            let made_line_end = bytes[bit / 8] == b'\n';
            for seq in 0..log.state.next_seq {
                let lost = !records.contains_key(&seq);
                // The last record is above the mark: with it a tail is lost.
                let may = made_line_end && seq == hurt;
                prop_assert!(!lost || may, "bit {bit} lost record {seq}: {codes:?}");
            }
            assert_agree(&bytes, &load_bytes(&bytes));
        }
    }

    /// Any mixture of damage below the mark loses only what it hit.
    ///
    /// Covers: G3, ST4, MS9, #1, #3, #5, #6, #20.
    #[test]
    fn damage_costs_only_what_it_hit(
        log in sessions(),
        hits in prop::collection::vec((any::<prop::sample::Index>(), 0..8u8, 1..60usize), 0..6),
    ) {
        let mut log = log;
        log.add(user("last but one"));
        log.synced = log.state.next_seq.checked_sub(1);
        log.add(user("last"));
        let lines: Vec<Vec<u8>> = log.records.iter().map(|r| r.line.to_vec()).collect();
        let mut by_line: BTreeMap<usize, (u8, usize)> = BTreeMap::new();
        for (at, kind, n) in hits {
            // The header is left alone, and the last two: the mark covers the one before the last.
            let count = lines.len() - 3;
            if count > 0 {
                by_line.insert(1 + at.index(count), (kind, n));
            }
        }
        let (mut bytes, mut expected) = (Vec::new(), Vec::new());
        for (i, line) in lines.iter().enumerate() {
            let seq = i as u64;
            let (kept, text) = match by_line.get(&i).copied() {
                None => (true, [line, &b"\n"[..]].concat()),
                Some((0, _)) => (false, Vec::new()),
                Some((1, n)) => (false, [&line[..n], b"\n"].concat()),
                Some((2, n)) => (false, line[..n].to_vec()),
                Some((3, n)) => (true, [line, &b"\n"[..], line, b"\n", &vec![0; n]].concat()),
                Some((4, n)) => (true, [&vec![0; n], &line[..], b"\n"].concat()),
                Some((5, n)) => (false, [&vec![b'#'; n], &b"\n"[..]].concat()),
                Some((6, n)) => (true, [other_record(9_000 + n as u64), line.clone(), vec![b'\n']].concat()),
                Some((_, n)) => (true, [&b"\xff{\"seq\":"[..], &line[..n], line, b"\r\n\n"].concat()),
            };
            expected.extend(kept.then_some(seq));
            bytes.extend(text);
        }
        let (records, codes) = scanned(&bytes);
        assert_only_what_was_written(&log, &records);
        prop_assert_eq!(ranges(records.keys().copied()), ranges(expected), "{:?}", codes);
        prop_assert_eq!(by_line.is_empty(), codes.is_empty());
        let loaded = load_bytes(&bytes);
        prop_assert_eq!(loaded.state.next_seq, log.state.next_seq);
        prop_assert!(loaded.tail.is_none());
        assert_agree(&bytes, &loaded);
    }

    /// Whatever the bytes are: no panic, no endless reading, no record that was not written.
    ///
    /// Covers: G2, G3, #6.
    #[test]
    fn random_bytes_do_no_harm(
        log in sessions(),
        cuts in prop::collection::vec((any::<prop::sample::Index>(), prop::collection::vec(any::<u8>(), 0..80), 0..50usize), 0..5),
        repair in any::<bool>(),
    ) {
        let mut bytes = log.bytes.clone();
        for (at, junk, remove) in cuts {
            let at = at.index(bytes.len() + 1);
            let end = (at + remove).min(bytes.len());
            bytes.splice(at..end, junk);
        }
        let (records, _) = scanned(&bytes);
        assert_only_what_was_written(&log, &records);
        let (loaded, read) = load_with(&bytes, Loader::new(bytes.len() as u64));
        prop_assert!(read <= bytes.len() as u64 * 2 + 4096);
        assert_agree(&bytes, &loaded);
        if repair && loaded.header.is_some() {
            let mut repaired = Log { bytes, ..Log::default() };
            repaired.reopen(Some(""));
            let again = load_bytes(&repaired.bytes);
            let blocks: Vec<_> = again.blocking().map(|d| &d.finding).collect();
            prop_assert!(blocks.iter().all(|f| f.code == "header-damaged"), "{:?}", blocks);
        }
    }

    /// What was set aside stays away, and work goes on, whatever stands behind a prefix.
    ///
    /// Covers: G2, G4, TT1, TT2, TT3, TT4, #14.
    #[test]
    fn a_prefix_with_junk_behind_it_can_be_continued(
        log in sessions(),
        from in 0..41usize,
        junk in prop::collection::vec(any::<u8>(), 0..20),
    ) {
        for cut in (from..=log.bytes.len()).step_by(41) {
            goes_on(&log, cut, &junk);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 3, max_shrink_iters: 8, ..ProptestConfig::default() })]

    /// Every single byte at which a random session can be cut.
    ///
    /// Covers: G2, G4, TT1, TT2, TT3, TT4, #14.
    #[test]
    fn every_prefix_can_be_continued(steps in prop::collection::vec(step(), 1..6)) {
        let log = session(&steps);
        for cut in 0..=log.bytes.len() {
            goes_on(&log, cut, &[]);
        }
    }
}

/// Opens a log that was cut and has something behind the cut, and appends to it.
fn goes_on(log: &Log, cut: usize, junk: &[u8]) {
    let bytes = [&log.bytes[..cut], junk].concat();
    if load_bytes(&bytes).blocking().count() > 0 {
        // Junk with a line end made a whole line of a cut header: no log is recognised.
        assert!(cut < log.ends[0] && junk.contains(&b'\n'), "cut at {cut}");
        return;
    }
    let mut again = Log { bytes, ..Log::default() };
    again.reopen(None);
    let first = again.state.next_seq;
    if first == 0 {
        again.add(crate::notation::header());
    }
    again.add(user("on we go"));
    let loaded = load_bytes(&again.bytes);
    assert_eq!(loaded.state.next_seq, again.state.next_seq, "cut at {cut}");
    assert!(loaded.tail.is_none() && !loaded.needs_line_end, "cut at {cut}");
    assert_eq!(loaded.blocking().count(), 0, "cut at {cut}");
    assert_eq!(loaded.path.first().copied(), again.state.tip().map(|t| t.seq), "cut at {cut}");
}
