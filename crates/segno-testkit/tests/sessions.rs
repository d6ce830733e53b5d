//! The session generators make logs that are intact, reproducible and of the wanted size.

use segno_model::line::decode;
use segno_model::store::Ids;
use segno_model::{Body, SessionId};
use segno_testkit::sessions::{Shape, log_bytes, write_log};
use segno_testkit::sim_clock::{SimClock, SimIds};

fn id() -> SessionId {
    SimIds::new(1, SimClock::default()).session_id()
}

fn kinds(log: &[u8]) -> Vec<String> {
    let mut start = 0;
    let mut kinds = Vec::new();
    for (seq, line) in log.split_inclusive(|b| *b == b'\n').enumerate() {
        let offset = if seq == 0 { 0 } else { start };
        let record = decode(&line[..line.len() - 1], offset).expect("an intact line");
        assert_eq!(record.seq(), seq as u64);
        assert!(!matches!(record.body(), Body::Unknown { .. }), "{record:?}");
        kinds.push(record.envelope.kind.clone());
        start = record.offset + if seq == 0 { 0 } else { line.len() as u64 };
    }
    kinds
}

/// Every line of a generated log is an intact record with the number of its line. Covers: EV1, MS1.
#[test]
fn generated_logs_are_intact() {
    for seed in 0..50 {
        let kinds = kinds(&log_bytes(&id(), Shape::random(seed)));
        assert_eq!(kinds[0], "session");
    }
    let everything =
        Shape { turns: 12, tools: 2, branch_every: 3, compact_every: 4, ..Shape::default() };
    let kinds = kinds(&log_bytes(&id(), everything));
    for kind in ["run", "request", "message", "action", "tip", "label", "compaction", "checkpoint"]
    {
        assert!(kinds.iter().any(|k| k == kind), "no {kind} in {kinds:?}");
    }
}

/// The same seed gives the same bytes, another seed gives others.
#[test]
fn generated_logs_are_reproducible() {
    let log = |seed| log_bytes(&id(), Shape { seed, ..Shape::default() });
    assert_eq!(log(7), log(7));
    assert_ne!(log(7), log(8));
}

/// A long log has about the wanted size and exactly one compaction, near its end. Covers: G11.
#[test]
fn long_logs_have_the_wanted_size() {
    let shape = Shape::long(6 << 20, 3);
    let log = log_bytes(&id(), shape);
    assert!((5 << 20..7 << 20).contains(&log.len()), "{} bytes", log.len());
    let kinds = kinds(&log);
    let at = kinds.iter().position(|k| k == "compaction").expect("a compaction");
    assert_eq!(kinds.iter().filter(|k| *k == "compaction").count(), 1);
    assert!(kinds.len() - at < 40, "{at} of {}", kinds.len());
    let counted = write_log(&id(), shape, &mut std::io::sink()).expect("writes");
    assert_eq!((counted.bytes, counted.records), (log.len() as u64, kinds.len() as u64));
}
