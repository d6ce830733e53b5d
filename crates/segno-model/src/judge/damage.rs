//! Facts become verdicts: records to read, findings to show, damage to decide upon, a tail to cut.
//!
//! Responsible for: applying [`super::table`] to facts, given the mark and the repairs in force, and
//! saying it in a sentence. Must not: establish facts, or know which damage is in the way of writing;
//! [`crate::active`] knows the path.

use super::classify::PieceKind;
use super::sequence::{Fact, Loss, Order, Reading, What};
use super::settle::Settled;
use super::table::{self, Case, Place, Thing, Verdict};
use crate::finding::{Finding, Severity};
use crate::id::{Seq, sha256_hex};
use crate::line::Record;
use std::sync::Arc;

/// What is known before a log is judged.
#[derive(Debug, Clone, Default)]
pub struct Basis {
    /// The largest intact `synced`: the highest number that is known to have been durable.
    pub mark: Option<Seq>,
    /// The repairs in force.
    pub settled: Settled,
}

/// Something that was written and acknowledged and cannot be read, or not as it was.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Damage {
    /// Of which kind.
    pub kind: DamageKind,
    /// Where it begins, in the file.
    pub at: u64,
    /// Where it begins, counted from the end of line 1.
    pub offset: u64,
    /// How many bytes it covers.
    pub bytes: u64,
    /// Of these bytes.
    pub sha256: String,
    /// The numbers that are missing because of it, first and last.
    pub lost: Option<(Seq, Seq)>,
    /// Whether it is where the header should be. No repair settles that.
    pub at_header: bool,
    /// Whether a repair settles it already.
    pub settled: bool,
    /// Whether it is, or may be, in the active context, so that writing waits for a decision.
    pub blocking: bool,
    /// How it is shown.
    pub finding: Finding,
}

impl Damage {
    /// Whether a record with this number may have been lost by it.
    #[must_use]
    pub fn concerns(&self, seq: Seq) -> bool {
        let claimed = match self.kind {
            DamageKind::Altered { seq } | DamageKind::Conflict { seq } => Some(seq),
            _ => None,
        };
        claimed == Some(seq) || self.lost.is_some_and(|(first, last)| (first..=last).contains(&seq))
    }

    /// The highest number that may have been lost by it.
    #[must_use]
    pub fn last_lost(&self) -> Option<Seq> {
        self.lost.map(|(_, last)| last)
    }
}

/// Kinds of damage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DamageKind {
    /// A well-formed record with a wrong checksum.
    Altered {
        /// The number that it claims.
        seq: Seq,
    },
    /// Bytes that are no record.
    Malformed,
    /// Zero bytes.
    Nul,
    /// Numbers without any bytes in their place.
    Missing {
        /// The first.
        first: Seq,
        /// The last.
        last: Seq,
    },
    /// A second record with a number.
    Conflict {
        /// The number.
        seq: Seq,
    },
    /// A record from elsewhere.
    Foreign {
        /// Its number.
        seq: Seq,
    },
}

/// Where a log's sound part ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tail {
    /// Where the tail begins, in the file.
    pub at: u64,
    /// How many intact records are in it; they were written after the bad bytes, never acknowledged
    /// as durable, and are set aside with them.
    pub records: u64,
}

/// A verdict on one fact.
#[derive(Debug)]
pub enum Outcome {
    /// A record to read; what to say about it, if anything.
    Read(Arc<Record>, Option<Finding>),
    /// Something to say.
    Say(Finding),
    /// Damage, settled or not.
    Damage(Damage),
    /// Nothing: it is part of the tail.
    Tail,
}

/// Judges facts in the order of the log.
#[derive(Debug)]
pub struct Judge<'a> {
    basis: &'a Basis,
    origin: u64,
    progress: Progress,
}

/// How far a judge is.
#[derive(Debug, Clone, Default)]
pub(super) struct Progress {
    tail: Option<Tail>,
    /// Whether anything stands where the header should be.
    begun: bool,
}

impl<'a> Judge<'a> {
    /// For a log whose line 1 ends at `origin`.
    #[must_use]
    pub fn new(basis: &'a Basis, origin: u64) -> Self {
        Self::resume(basis, origin, Progress::default())
    }

    /// Goes on where another one stopped.
    pub(super) fn resume(basis: &'a Basis, origin: u64, progress: Progress) -> Self {
        Self { basis, origin, progress }
    }

    pub(super) fn suspend(self) -> Progress {
        self.progress
    }

    /// The verdict on the next fact.
    pub fn judge(&mut self, fact: &Fact) -> Outcome {
        let record = match &fact.what {
            What::Record { record, .. } => Some(record),
            _ => None,
        };
        if let Some(tail) = &mut self.progress.tail {
            tail.records += u64::from(record.is_some());
            return Outcome::Tail;
        }
        let damage = self.damage(fact);
        let case = self.case(fact, damage.as_ref().is_some_and(|d| d.settled));
        let verdict = table::judge(&case).verdict;
        match (verdict, record, damage) {
            (Verdict::Read, Some(record), _) => self.read(record, None),
            (Verdict::ReadAndSay(severity), Some(record), _) => {
                self.read(record, Some(say(fact, &case, severity)))
            }
            (Verdict::Tail, _, _) => {
                let at = if case.place == Place::Header { 0 } else { fact.at };
                self.progress.tail = Some(Tail { at, records: u64::from(record.is_some()) });
                Outcome::Tail
            }
            (Verdict::Damage, _, Some(damage)) => {
                self.progress.begun = true;
                let finding = say(fact, &case, Severity::Damage);
                Outcome::Damage(Damage { finding, ..damage })
            }
            (Verdict::Skip(severity), _, Some(damage)) if damage.settled => {
                let finding = say(fact, &case, severity);
                Outcome::Damage(Damage { finding, ..damage })
            }
            (Verdict::Skip(severity), _, _) => Outcome::Say(say(fact, &case, severity)),
            _ => Outcome::Say(say(fact, &case, Severity::Damage)),
        }
    }

    fn read(&mut self, record: &Arc<Record>, finding: Option<Finding>) -> Outcome {
        self.progress.begun = true;
        Outcome::Read(record.clone(), finding)
    }

    /// The tail, once the log has been judged up to its end. A log with nothing but white space is all tail.
    #[must_use]
    pub fn tail(&self, file_end: u64) -> Option<Tail> {
        let nothing = !self.progress.begun && file_end > 0;
        self.progress.tail.clone().or_else(|| nothing.then_some(Tail { at: 0, records: 0 }))
    }

    fn case(&self, fact: &Fact, settled: bool) -> Case {
        let above = |expected: Seq| self.basis.mark.is_none_or(|mark| expected > mark);
        let place = match fact.expected {
            Some(0) => Place::Header,
            Some(expected) if above(expected) => Place::Above,
            _ => Place::Below,
        };
        let loss = fact.loss != Loss::Nothing;
        Case { thing: thing(&fact.what), place, loss, settled, ended: fact.ended }
    }

    /// The damage that a bad fact is, if it turns out to be any.
    fn damage(&self, fact: &Fact) -> Option<Damage> {
        let (kind, sha256) = kind_of(fact)?;
        let lost = match fact.loss {
            Loss::Records(first, last) => Some((first, last)),
            Loss::Unknown => fact.expected.map(|expected| (expected, expected)),
            Loss::Nothing => None,
        };
        let offset = fact.at.saturating_sub(self.origin);
        let settled = match kind {
            DamageKind::Missing { first, last } => self.basis.settled.misses(first, last),
            _ => self.basis.settled.bridges(offset, fact.len, &sha256),
        };
        Some(Damage {
            kind,
            at: fact.at,
            offset,
            bytes: fact.len,
            sha256,
            lost,
            at_header: fact.expected == Some(0),
            settled,
            blocking: false,
            finding: Finding::default(),
        })
    }
}

fn thing(what: &What) -> Thing {
    match what {
        What::Record { order: Order::Next, reading: Reading::Intact, .. } => Thing::Next,
        What::Record { order: Order::Next, reading: Reading::Corrected, .. } => Thing::Corrected,
        What::Record { order: Order::Next, reading: Reading::Accepted, .. } => Thing::Accepted,
        What::Record { order: Order::Displaced, .. } => Thing::Displaced,
        What::Record { order: Order::Repeat, .. } => Thing::Repeat,
        What::Record { order: Order::Conflict, .. } => Thing::Conflict,
        What::Record { order: Order::Foreign, .. } => Thing::Foreign,
        What::Record { order: Order::Earlier, .. } => Thing::Earlier,
        What::Bad(PieceKind::Altered { .. }) => Thing::Altered,
        What::Bad(PieceKind::Nul { .. }) => Thing::Nul,
        What::Bad(_) => Thing::Malformed,
        What::Formatting(_) => Thing::Formatting,
        What::Gap => Thing::Gap,
    }
}

fn kind_of(fact: &Fact) -> Option<(DamageKind, String)> {
    match (&fact.what, fact.loss) {
        (What::Bad(PieceKind::Altered { record, sha256 }), _) => {
            Some((DamageKind::Altered { seq: record.seq() }, sha256.clone()))
        }
        (What::Bad(PieceKind::Malformed { sha256, .. }), _) => {
            Some((DamageKind::Malformed, sha256.clone()))
        }
        (What::Bad(PieceKind::Nul { sha256 }), _) => Some((DamageKind::Nul, sha256.clone())),
        (What::Gap, Loss::Records(first, last)) => {
            Some((DamageKind::Missing { first, last }, String::new()))
        }
        (What::Record { record, order: Order::Conflict, .. }, _) => {
            Some((DamageKind::Conflict { seq: record.seq() }, sha256_hex(&record.line)))
        }
        (What::Record { record, order: Order::Foreign, .. }, _) => {
            Some((DamageKind::Foreign { seq: record.seq() }, sha256_hex(&record.line)))
        }
        _ => None,
    }
}

/// A fact and its verdict in words.
fn say(fact: &Fact, case: &Case, severity: Severity) -> Finding {
    let (code, sentence, done) = words(fact, case, severity);
    let seq = match (&fact.what, fact.loss) {
        (What::Record { record, .. } | What::Bad(PieceKind::Altered { record, .. }), _) => {
            Some(record.seq())
        }
        (_, Loss::Records(first, _)) => Some(first),
        _ => None,
    };
    let done = if case.settled { "a repair settled it" } else { done };
    Finding {
        code,
        severity,
        file: None,
        line: fact.line,
        offset: Some(fact.at),
        seq,
        sentence,
        done: done.to_owned(),
    }
}

const PASSED_OVER: &str = "it is passed over; the records around it are read";
const IGNORED: &str = "it is ignored";

fn words(fact: &Fact, case: &Case, severity: Severity) -> (&'static str, String, &'static str) {
    let lost = lost_words(fact.loss);
    if case.place == Place::Header && severity == Severity::Damage {
        let sentence = format!("the first record of the log is not an intact header{lost}");
        return ("header-damaged", sentence, "the log can be read, not written");
    }
    match case.thing {
        Thing::Next => {
            ("unended", "the last record has no line end".into(), "it is kept, and ended later")
        }
        Thing::Corrected => ("corrected", "one bit of this record is flipped".into(), "corrected"),
        Thing::Accepted => {
            ("accepted", "this record was altered and accepted as it is".into(), "it is read")
        }
        Thing::Displaced => {
            ("displaced", "this record does not stand in its place".into(), "it is read")
        }
        Thing::Repeat => ("doubled", "this record was read before".into(), IGNORED),
        Thing::Earlier => {
            let sentence = "this record's number is from an earlier part of the log";
            ("earlier", sentence.into(), IGNORED)
        }
        Thing::Conflict => {
            let sentence = "another record before this one has the same number";
            ("conflict", sentence.into(), "the first one is read")
        }
        Thing::Foreign => ("foreign", "this record does not belong into this log".into(), IGNORED),
        Thing::Altered => {
            let sentence = format!("this record was altered: its checksum does not match{lost}");
            ("altered", sentence, PASSED_OVER)
        }
        Thing::Malformed
            if matches!(&fact.what, What::Bad(PieceKind::Malformed { fused: true, .. })) =>
        {
            let sentence = format!("a part of a record shares a line with an intact one{lost}");
            ("fused", sentence, PASSED_OVER)
        }
        Thing::Malformed => ("malformed", format!("these bytes are no record{lost}"), PASSED_OVER),
        Thing::Nul => {
            ("nul-run", format!("{} zero bytes are in the log{lost}", fact.len), PASSED_OVER)
        }
        Thing::Gap => ("missing", format!("records are not there{lost}"), PASSED_OVER),
        Thing::Formatting => formatting_words(&fact.what),
    }
}

fn formatting_words(what: &What) -> (&'static str, String, &'static str) {
    match what {
        What::Formatting(PieceKind::CarriageReturn) => {
            ("crlf", "this line ends in CR LF".into(), "the CR is ignored")
        }
        What::Formatting(PieceKind::ByteOrderMark) => {
            ("byte-order-mark", "the log begins with a byte order mark".into(), IGNORED)
        }
        What::Formatting(PieceKind::FlippedLineEnd) => {
            ("flipped-line-end", "one bit of this line end is flipped".into(), "corrected")
        }
        What::Formatting(PieceKind::NoLineEnd) => {
            ("joined", "two records share this line".into(), "both are read")
        }
        _ => ("blank", "this line is blank".into(), IGNORED),
    }
}

fn lost_words(loss: Loss) -> String {
    match loss {
        Loss::Records(first, last) if first == last => format!("; record {first} is missing"),
        Loss::Records(first, last) => format!("; records {first} to {last} are missing"),
        Loss::Nothing | Loss::Unknown => String::new(),
    }
}
