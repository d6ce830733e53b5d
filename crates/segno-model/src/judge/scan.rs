//! Judges a whole log line by line, forward, in bounded memory.
//!
//! Responsible for: what `check`, `show` and indexing see of a log. Must not: read; lines are fed.

use super::classify::Line;
use super::damage::{Basis, Damage, Judge, Outcome, Progress, Tail};
use super::sequence::Sequencer;
use crate::finding::{Finding, Severity};
use crate::store::Scanned;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// Codes of harmless notes that come in crowds: said once, with a count.
const CROWDS: &[&str] = &["crlf", "blank", "doubled", "earlier"];

/// A forward scan. Feed all lines in order with [`Scanner::line`], then call [`Scanner::finish`]; take
/// results with [`Scanner::next_scanned`] at any time. Records come in the order of their numbers,
/// except for ones that were moved far down, and none comes from the tail.
#[derive(Debug)]
pub struct Scanner {
    basis: Basis,
    sequencer: Sequencer,
    origin: u64,
    lines: u64,
    end: u64,
    judge: Progress,
    crowds: BTreeMap<&'static str, (Finding, u64)>,
    damages: Vec<Damage>,
    out: VecDeque<Scanned>,
}

impl Scanner {
    /// A scan from line 1. The basis comes from [`crate::active::Loaded::basis`] of the same log.
    #[must_use]
    pub fn new(basis: Basis) -> Self {
        Self {
            basis,
            sequencer: Sequencer::new(true),
            origin: 0,
            lines: 0,
            end: 0,
            judge: Progress::default(),
            crowds: BTreeMap::new(),
            damages: Vec::new(),
            out: VecDeque::new(),
        }
    }

    /// Takes the next line, without its line end. Only the last one can be without a line end.
    pub fn line(&mut self, bytes: &[u8], ended: bool) {
        let line = if self.lines == 0 {
            let (line, origin) = Line::read_first(bytes, ended);
            self.origin = origin;
            line
        } else {
            Line::read(self.end, bytes, ended, self.origin)
        };
        self.lines += 1;
        self.end = line.end();
        self.sequencer.push(line, Some(self.lines), &self.basis.settled);
        self.drain();
    }

    /// Says that the log ends here.
    pub fn finish(&mut self) {
        self.sequencer.finish();
        self.drain();
        for (finding, count) in std::mem::take(&mut self.crowds).into_values() {
            self.out.push_back(Scanned::Finding(crowd(finding, count)));
        }
        if let Some(tail) = self.tail() {
            self.out.push_back(Scanned::Finding(tail_finding(&tail, self.end, self.origin)));
        }
        self.out.extend(emptied(self.end).map(Scanned::Finding));
    }

    /// The next result.
    pub fn next_scanned(&mut self) -> Option<Scanned> {
        self.out.pop_front()
    }

    /// Where the sound part ends; certain after [`Scanner::finish`].
    #[must_use]
    pub fn tail(&self) -> Option<Tail> {
        Judge::resume(&self.basis, self.origin, self.judge.clone()).tail(self.end)
    }

    /// All damage found so far.
    #[must_use]
    pub fn damages(&self) -> &[Damage] {
        &self.damages
    }

    fn drain(&mut self) {
        let state = std::mem::take(&mut self.judge);
        let mut judge = Judge::resume(&self.basis, self.origin, state);
        while let Some(fact) = self.sequencer.next_fact() {
            let outcome = judge.judge(&fact);
            // What holds a record twice would make handing it over a copy.
            drop(fact);
            match outcome {
                Outcome::Read(record, finding) => {
                    self.out.extend(finding.map(Scanned::Finding));
                    let record = Arc::unwrap_or_clone(record);
                    self.out.push_back(Scanned::Record(Box::new(record)));
                }
                Outcome::Say(finding) if CROWDS.contains(&finding.code) => {
                    self.crowds.entry(finding.code).or_insert((finding, 0)).1 += 1;
                }
                Outcome::Say(finding) => self.out.push_back(Scanned::Finding(finding)),
                Outcome::Damage(damage) => {
                    self.out.push_back(Scanned::Finding(damage.finding.clone()));
                    self.damages.push(damage);
                }
                Outcome::Tail => {}
            }
        }
        self.judge = judge.suspend();
    }
}

/// One finding for many.
pub(crate) fn crowd(mut finding: Finding, count: u64) -> Finding {
    if count > 1 {
        finding.sentence = format!("{}, and {} more like it", finding.sentence, count - 1);
    }
    finding
}

/// What is to be said of a log without a byte: none is ever made so, since its header is synced before it
/// gets its name. It can be gone on with like any other prefix, but it lost something.
pub(crate) fn emptied(end: u64) -> Option<Finding> {
    (end == 0).then(|| Finding {
        code: "log-empty",
        severity: Severity::Damage,
        file: None,
        line: None,
        offset: Some(0),
        seq: None,
        sentence: "the log is empty: its header, and everything that was said, is gone".to_owned(),
        done:
            "what else the session's directory holds is kept; a backup of log.jsonl can be put back"
                .to_owned(),
    })
}

/// The one finding for a tail.
pub(crate) fn tail_finding(tail: &Tail, end: u64, origin: u64) -> Finding {
    let bytes = end.saturating_sub(tail.at);
    let (code, what) = if tail.at < origin {
        ("header-cut", "the log ends within its header")
    } else {
        ("torn-tail", "the last write was cut short")
    };
    let records = match tail.records {
        0 => String::new(),
        n => format!(", {n} intact records among them"),
    };
    Finding {
        code,
        severity: Severity::Warning,
        file: None,
        line: None,
        offset: Some(tail.at),
        seq: None,
        sentence: format!("{what}; {bytes} bytes at the end are not part of the log{records}"),
        done: "they are set aside by the next append".to_owned(),
    }
}
