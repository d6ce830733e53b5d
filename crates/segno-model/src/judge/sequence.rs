//! The order of a log's records: which come next, which repeat, which are missing.
//!
//! Responsible for: turning classified lines, fed in the order of the file, into facts: each record
//! with its place in the count, each anomaly with what it cost. Must not: decide what a fact means;
//! [`super::table`] does.
//!
//! Records count up by one, so the next record is known before it is read. When a higher number comes
//! instead, either records are missing or the line does not belong here (it was moved, or comes from
//! another log). A window of [`WINDOW`] records tells: the smallest number in it that is still ahead
//! continues the log; what stands before it in the window is out of place.

use super::classify::{Line, Piece, PieceKind};
use super::settle::Settled;
use crate::id::Seq;
use crate::line::Record;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// How many records are looked at before a gap is believed.
pub const WINDOW: usize = 64;

/// A record's place in the count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Order {
    /// It continues the log.
    Next,
    /// It is missing elsewhere: the line was moved.
    Displaced,
    /// The same record was read before.
    Repeat,
    /// Another record with this number was read before.
    Conflict,
    /// It fits nowhere: it comes from another log.
    Foreign,
    /// It lies before the part of the log that was read; nothing can be said about it.
    Earlier,
}

/// How a record was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Reading {
    /// As it was written.
    Intact,
    /// With one flipped bit flipped back.
    Corrected,
    /// With a wrong checksum, because a repair accepts it.
    Accepted,
}

/// What a fact is about.
#[derive(Debug, Clone)]
pub enum What {
    /// A record that can be read.
    Record {
        /// The record.
        record: Arc<Record>,
        /// Its place.
        order: Order,
        /// How its bytes became a record.
        reading: Reading,
    },
    /// Bytes that are no readable record.
    Bad(PieceKind),
    /// White space, a carriage return, a byte order mark.
    Formatting(PieceKind),
    /// Numbers that are nowhere, without any bytes in their place.
    Gap,
}

/// What an anomaly cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Loss {
    /// The log goes on without a gap.
    Nothing,
    /// These numbers are missing in this place, first and last.
    Records(Seq, Seq),
    /// No record follows that could tell.
    Unknown,
}

/// Something in a log, in its place.
#[derive(Debug, Clone)]
pub struct Fact {
    /// The line's number, counted from 1, where lines were counted.
    pub line: Option<u64>,
    /// Where it begins, in the file.
    pub at: u64,
    /// How many bytes.
    pub len: u64,
    /// False when the log ends with it, without a line end.
    pub ended: bool,
    /// What it is.
    pub what: What,
    /// The number that the next record should have here; none before the first one of a part.
    pub expected: Option<Seq>,
    /// What it cost.
    pub loss: Loss,
}

/// A piece with its place.
#[derive(Debug)]
struct Placed {
    line: Option<u64>,
    at: u64,
    ended: bool,
    piece: Piece,
    record: Option<(Arc<Record>, Reading)>,
}

impl Placed {
    fn record(&self) -> Option<&Arc<Record>> {
        self.record.as_ref().map(|(record, _)| record)
    }

    fn into_fact(self, what: What, expected: Option<Seq>, loss: Loss) -> Fact {
        let Self { line, at, ended, piece, .. } = self;
        Fact { line, at, len: piece.len as u64, ended, what, expected, loss }
    }
}

/// Establishes the order of records fed line by line.
#[derive(Debug)]
pub struct Sequencer {
    /// The number of the record that continued the log last.
    last: Option<Seq>,
    from_start: bool,
    known: Known,
    window: VecDeque<Placed>,
    /// Anomalies whose cost shows with the next record.
    open: Vec<Placed>,
    out: VecDeque<Fact>,
}

impl Sequencer {
    /// For a log from line 1 on, or for a later part of one.
    #[must_use]
    pub fn new(from_start: bool) -> Self {
        let (known, window) = (Known::default(), VecDeque::new());
        Self { last: None, from_start, known, window, open: Vec::new(), out: VecDeque::new() }
    }

    /// Takes the next line. Altered records that were accepted count as records.
    pub fn push(&mut self, line: Line, number: Option<u64>, settled: &Settled) {
        let Line { at, ended, pieces, .. } = line;
        let mut pieces = VecDeque::from(pieces);
        while let Some(piece) = pieces.pop_front() {
            let at = at + piece.at as u64;
            let ended = ended || goes_on(&piece, &pieces);
            let record = readable(&piece, settled);
            self.window.push_back(Placed { line: number, at, ended, piece, record });
            self.drain(false);
        }
    }

    /// Says that no more lines follow.
    pub fn finish(&mut self) {
        self.drain(true);
        let expected = self.expected();
        for placed in std::mem::take(&mut self.open) {
            let what = What::Bad(placed.piece.kind.clone());
            self.out.push_back(placed.into_fact(what, expected, Loss::Unknown));
        }
    }

    /// The next fact that is certain.
    pub fn next_fact(&mut self) -> Option<Fact> {
        self.out.pop_front()
    }

    fn expected(&self) -> Option<Seq> {
        match self.last {
            Some(last) => last.checked_add(1),
            None if self.from_start => Some(0),
            None => None,
        }
    }

    fn drain(&mut self, end: bool) {
        while let Some(placed) = self.window.pop_front() {
            let Some(record) = placed.record() else {
                self.no_record(placed);
                continue;
            };
            let seq = record.seq();
            if self.expected() == Some(seq) {
                self.accept(placed, Order::Next);
            } else if self.last.is_some_and(|last| seq <= last) {
                self.behind(placed);
            } else {
                self.window.push_front(placed);
                if !end && !self.is_decidable() {
                    return;
                }
                self.decide();
            }
        }
    }

    fn is_decidable(&self) -> bool {
        let expected = self.expected();
        let records = self.window.iter().filter_map(Placed::record);
        let mut count = 0;
        records.inspect(|_| count += 1).any(|r| Some(r.seq()) == expected) || count >= WINDOW
    }

    /// Goes on with the smallest number ahead and sorts out what stands before it.
    fn decide(&mut self) {
        let last = self.last;
        let ahead = |p: &Placed| p.record().map(|r| r.seq()).filter(|s| Some(*s) > last);
        let Some(next) = self.window.iter().filter_map(ahead).min() else { return };
        let mut before = Vec::new();
        while let Some(placed) = self.window.pop_front() {
            if ahead(&placed) == Some(next) {
                self.out_of_place(before, placed);
                return;
            }
            if placed.record().is_none() {
                self.no_record(placed);
            } else if ahead(&placed).is_none() {
                self.behind(placed);
            } else {
                before.push(placed);
            }
        }
    }

    /// Of the records before `next`, those that continue it were moved; the others are foreign.
    fn out_of_place(&mut self, mut before: Vec<Placed>, next: Placed) {
        let seq_of = |p: &Placed| p.record().map_or(0, |r| r.seq());
        before.sort_by_key(seq_of);
        let mut expected = seq_of(&next).saturating_add(1);
        let mut moved = Vec::new();
        for placed in before {
            if seq_of(&placed) == expected {
                expected = expected.saturating_add(1);
                moved.push(placed);
            } else {
                self.emit_record(placed, Order::Foreign, Loss::Nothing);
            }
        }
        self.accept(next, Order::Next);
        for placed in moved {
            self.accept(placed, Order::Displaced);
        }
    }

    fn accept(&mut self, placed: Placed, order: Order) {
        let Some((seq, crc)) = placed.record().map(|r| (r.seq(), r.crc)) else { return };
        let expected = self.expected();
        let loss = match expected.filter(|expected| *expected < seq) {
            Some(expected) => Loss::Records(expected, seq - 1),
            None => Loss::Nothing,
        };
        if self.open.is_empty() && loss != Loss::Nothing {
            let (line, at) = (placed.line, placed.at);
            let gap = Fact { line, at, len: 0, ended: true, what: What::Gap, expected, loss };
            self.out.push_back(gap);
        }
        for bad in std::mem::take(&mut self.open) {
            let what = What::Bad(bad.piece.kind.clone());
            self.out.push_back(bad.into_fact(what, expected, loss));
        }
        self.known.add(seq, crc);
        self.emit_record(placed, order, Loss::Nothing);
        self.last = Some(seq);
    }

    /// A number that is not ahead any more.
    fn behind(&mut self, placed: Placed) {
        let Some((seq, crc)) = placed.record().map(|r| (r.seq(), r.crc)) else { return };
        let order = match self.known.get(seq) {
            Some(known) if known == crc => Order::Repeat,
            Some(_) => Order::Conflict,
            None if self.from_start || self.known.reaches_before(seq) => {
                self.known.add(seq, crc);
                Order::Displaced
            }
            None => Order::Earlier,
        };
        self.emit_record(placed, order, Loss::Nothing);
    }

    fn no_record(&mut self, placed: Placed) {
        if is_formatting(&placed.piece.kind) {
            let what = What::Formatting(placed.piece.kind.clone());
            let fact = placed.into_fact(what, self.expected(), Loss::Nothing);
            self.out.push_back(fact);
        } else {
            self.open.push(placed);
        }
    }

    fn emit_record(&mut self, placed: Placed, order: Order, loss: Loss) {
        let expected = self.expected();
        let Placed { line, at, ended, piece, record } = placed;
        let Some((record, reading)) = record else { return };
        let what = What::Record { record, order, reading };
        self.out.push_back(Fact { line, at, len: piece.len as u64, ended, what, expected, loss });
    }
}

/// Whether the log goes on behind a piece within its line: behind a record with anything but white
/// space, behind bad bytes with a record.
fn goes_on(piece: &Piece, rest: &VecDeque<Piece>) -> bool {
    let bad = |p: &Piece| !is_formatting(&p.kind) && p.kind.record().is_none();
    rest.iter().any(|p| p.kind.record().is_some() || (bad(p) && piece.kind.record().is_some()))
}

fn is_formatting(kind: &PieceKind) -> bool {
    matches!(
        kind,
        PieceKind::Blank
            | PieceKind::CarriageReturn
            | PieceKind::ByteOrderMark
            | PieceKind::FlippedLineEnd
            | PieceKind::NoLineEnd
    )
}

fn readable(piece: &Piece, settled: &Settled) -> Option<(Arc<Record>, Reading)> {
    match &piece.kind {
        PieceKind::Intact(record) => Some((record.clone(), Reading::Intact)),
        PieceKind::Corrected(record) => Some((record.clone(), Reading::Corrected)),
        _ => settled.accepts(piece).map(|record| (record.clone(), Reading::Accepted)),
    }
}

/// The checksums of the records read, in runs of consecutive numbers: 4 bytes a record.
#[derive(Debug, Default)]
struct Known {
    runs: BTreeMap<Seq, Vec<u32>>,
}

impl Known {
    fn get(&self, seq: Seq) -> Option<u32> {
        let (first, run) = self.runs.range(..=seq).next_back()?;
        run.get(usize::try_from(seq - first).ok()?).copied()
    }

    fn add(&mut self, seq: Seq, crc: u32) {
        match self.runs.range_mut(..=seq).next_back() {
            Some((first, run)) if seq - first == run.len() as u64 => run.push(crc),
            _ => {
                self.runs.insert(seq, vec![crc]);
            }
        }
    }

    fn reaches_before(&self, seq: Seq) -> bool {
        self.runs.first_key_value().is_some_and(|(first, _)| *first < seq)
    }
}
