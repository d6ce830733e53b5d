//! Planning batches: when a checkpoint is added.
//!
//! Responsible for: the distance between checkpoints, also of those that do not fit. Must not: test what
//! a checkpoint holds.

use segno_model::batch::{CHECKPOINT_EVERY, Draft, MAX_LINE_BYTES, plan_with_checkpoint};
use segno_model::record::{Compaction, CompactionState, Header, Label, Message, UserMessage};
use segno_model::state::State;
use segno_model::{Body, Pos, SessionId, Timestamp};

/// A log of which only the state is kept.
struct Log {
    state: State,
}

impl Log {
    fn new() -> Self {
        let mut log = Self { state: State::default() };
        let id = SessionId::parse("0195f3a0-0000-7000-8000-000000000001").expect("an id");
        log.append(Body::Session(Box::new(Header::new(id, "0.1.0"))));
        log
    }

    /// Appends one record; says whether a checkpoint came with it.
    fn append(&mut self, body: Body) -> bool {
        let drafts = vec![Draft::new(Timestamp(0), body)];
        let batch = plan_with_checkpoint(&self.state, None, drafts).expect("it can be planned");
        assert!(batch.records.iter().all(|record| record.line.len() < MAX_LINE_BYTES));
        let lines = batch.bytes.split_inclusive(|byte| *byte == b'\n').count();
        assert_eq!(lines, batch.records.len(), "what was left out left nothing behind");
        batch.apply_to(&mut self.state);
        assert_eq!(self.state.head(), batch.head);
        batch.records.len() == 2
    }

    fn label(&mut self, seq: u64, label: &str) -> bool {
        let target = Pos { seq, offset: 0, crc: 0 };
        self.append(Body::Label(Label { target, label: label.to_owned() }))
    }

    /// Appends prompts until the log is this long; gives the lengths at which checkpoints came.
    fn fill(&mut self, until: u64) -> Vec<u64> {
        let text = "x".repeat(100_000);
        let mut at = Vec::new();
        while self.state.end < until {
            let prompt = Message::User(UserMessage::text(text.clone()));
            if self.append(Body::Message(Box::new(prompt))) {
                at.push(self.state.in_force.checkpoint_at.expect("the checkpoint's place"));
            }
        }
        at
    }
}

fn in_units(at: &[u64]) -> Vec<u64> {
    at.iter().map(|at| at / CHECKPOINT_EVERY).collect()
}

/// Covers: G11. Checkpoints come at their distance from each other.
#[test]
fn checkpoints_keep_their_distance() {
    let mut log = Log::new();
    assert_eq!(in_units(&log.fill(CHECKPOINT_EVERY * 7 / 2)), [1, 2, 3]);
}

/// Covers: G11, G12. One that does not fit is left out, and tried again only when as much log has been
/// written once more; also when it would fit earlier.
#[test]
fn a_checkpoint_that_does_not_fit_waits_for_the_next_distance() {
    let mut log = Log::new();
    let long = "x".repeat(MAX_LINE_BYTES * 6 / 10);
    assert!(!log.label(1, &long) && !log.label(2, &long));
    assert!(log.fill(CHECKPOINT_EVERY * 3 / 2).is_empty(), "two long labels fit into no line");
    assert!(!log.label(2, ""), "nothing is due");
    assert_eq!(in_units(&log.fill(CHECKPOINT_EVERY * 7 / 2)), [2, 3]);
}

/// Covers: G11. A finished compaction brings one whatever the distance, if it fits.
#[test]
fn a_finished_compaction_brings_a_checkpoint_if_it_fits() {
    let done = || {
        let mut done = Compaction::marker(CompactionState::Done, None);
        done.summary = Some(segno_model::record::Text::Inline("all is told".to_owned()));
        Body::Compaction(Box::new(done))
    };
    let mut log = Log::new();
    assert!(log.append(done()) && log.append(done()));
    let long = "x".repeat(MAX_LINE_BYTES * 6 / 10);
    log.label(1, &long);
    log.label(2, &long);
    assert!(!log.append(done()));
    log.label(1, "");
    assert!(log.append(done()));
}
