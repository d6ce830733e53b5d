//! The order of reading: line 1, the end back to a checkpoint, the path, what belongs to it.
//!
//! Responsible for: the steps and what each still needs. Must not: keep bytes ([`super::image`]) or
//! follow parents ([`super::path`]).
//!
//! Everything that was read is judged again when its part grew; parts grow by half, so that is linear.

use super::collect;
use super::image::{Image, Range};
use super::path::Walk;
use super::{Loaded, image};
use crate::checkpoint::Checkpoint;
use crate::id::{Pos, Seq};
use crate::judge::sequence::{Order, Sequencer, What};
use crate::judge::{Basis, Judge, Line, Outcome, Settled, Tail, mark_of};
use crate::line::Record;
use crate::record::Body;
use crate::state::State;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// What a loader needs next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Want {
    /// Feed exactly these bytes of the file.
    Read {
        /// From where.
        at: u64,
        /// How many.
        len: usize,
    },
    /// Nothing; call [`Loader::finish`].
    Done,
}

/// Why bytes were asked for.
#[derive(Debug)]
enum Ask {
    First(Vec<u8>),
    Before(usize),
    After(usize),
    Line(Pos, Vec<u8>),
}

/// Steps, in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Step {
    First,
    End,
    Repairs,
    Path,
    Belonging,
    Edits,
    Results,
    Done,
}

/// What a step needs before it can go on.
#[derive(Debug, Clone, Copy)]
pub(super) enum Need {
    /// The part with this index must begin earlier.
    Before(usize),
    /// It must end later.
    After(usize),
    /// The line at this position.
    Line(Pos),
}

impl From<Need> for Ask {
    fn from(need: Need) -> Self {
        match need {
            Need::Before(part) => Self::Before(part),
            Need::After(part) => Self::After(part),
            Need::Line(pos) => Self::Line(pos, Vec::new()),
        }
    }
}

/// Loads the active part of one log. Ask [`Loader::next_want`], read, [`Loader::feed`], until done.
#[derive(Debug)]
pub struct Loader {
    pub(super) image: Image,
    step: Step,
    ask: Option<Ask>,
    tip: Option<Option<Pos>>,
    /// The last step to take.
    until: Step,
    pub(super) basis: Basis,
    pub(super) state: State,
    pub(super) tail: Option<Tail>,
    /// The checkpoint that the state starts from.
    pub(super) checkpoint: Option<Seq>,
    /// Records that may be read, by number.
    pub(super) accepted: BTreeMap<Seq, Arc<Record>>,
    /// Lines that were looked up and were not the record that they should be.
    pub(super) failed: BTreeSet<Pos>,
    pub(super) walk: Walk,
    /// The largest mark that was read.
    pub(super) durable: Option<Seq>,
}

impl Loader {
    /// For a log of this length.
    #[must_use]
    pub fn new(file_end: u64) -> Self {
        Self {
            image: Image::new(file_end),
            step: Step::First,
            ask: None,
            tip: None,
            until: Step::Done,
            basis: Basis::default(),
            state: State::default(),
            tail: None,
            checkpoint: None,
            accepted: BTreeMap::new(),
            failed: BTreeSet::new(),
            walk: Walk::default(),
            durable: None,
        }
    }

    /// Loads what the context at another tip needs; none is the empty beginning.
    #[must_use]
    pub fn at_tip(mut self, tip: Option<Pos>) -> Self {
        self.tip = Some(tip);
        self
    }

    /// Loads no records: only the mark, the repairs in force and where line 1 ends, for a scan of the whole
    /// log.
    #[must_use]
    pub fn for_scan(mut self) -> Self {
        self.until = Step::Repairs;
        self
    }

    /// What to read next.
    pub fn next_want(&mut self) -> Want {
        loop {
            if let Some(range) = self.asked() {
                let len = usize::try_from(range.len).unwrap_or(usize::MAX);
                return Want::Read { at: range.at, len };
            }
            if let Some(ask) = self.ask.take() {
                self.answered(ask);
            }
            match self.take_step() {
                Some(need) => self.ask = Some(need.into()),
                None if self.step == Step::Done => return Want::Done,
                None if self.step == self.until => self.step = Step::Done,
                None => self.step = next_step(self.step),
            }
        }
    }

    /// Takes the bytes that were asked for. Fewer of them mean that the log is shorter than it was:
    /// the loader starts again with the length that it has now.
    pub fn feed(&mut self, bytes: &[u8]) {
        let Some(range) = self.asked() else { return };
        if (bytes.len() as u64) < range.len {
            let (tip, until) = (self.tip.take(), self.until);
            *self = Self { tip, until, ..Self::new(range.at + bytes.len() as u64) };
            return;
        }
        let bytes = usize::try_from(range.len).map_or(bytes, |len| &bytes[..len]);
        match self.ask.take() {
            Some(Ask::First(have)) => self.ask = Some(Ask::First([&have, bytes].concat())),
            Some(Ask::Line(pos, have)) => self.ask = Some(Ask::Line(pos, [&have, bytes].concat())),
            Some(Ask::Before(part)) => self.image.put_before(part, bytes),
            Some(Ask::After(part)) => self.image.put_after(part, bytes),
            None => {}
        }
    }

    /// The result.
    #[must_use]
    pub fn finish(self) -> Loaded {
        collect::collect(self)
    }

    /// The range that the present question still needs.
    fn asked(&self) -> Option<Range> {
        match self.ask.as_ref()? {
            Ask::Before(part) => self.image.before(*part),
            Ask::After(part) => self.image.after(*part),
            Ask::First(have) | Ask::Line(_, have) if memchr::memchr(b'\n', have).is_some() => None,
            Ask::First(have) => self.image.line_at(0, have.len() as u64),
            Ask::Line(pos, have) => {
                self.image.line_at(self.image.origin.saturating_add(pos.offset), have.len() as u64)
            }
        }
    }

    fn answered(&mut self, ask: Ask) {
        match ask {
            Ask::First(bytes) => self.image.put_first(&bytes),
            Ask::Line(pos, bytes) => {
                let at = self.image.origin.saturating_add(pos.offset);
                let len = memchr::memchr(b'\n', &bytes).unwrap_or(bytes.len());
                let line = Line::read(at, &bytes[..len], true, self.image.origin);
                if is_record(&line, pos, &self.basis.settled) {
                    self.image.put_at(at, &bytes);
                    self.judge_grown();
                } else {
                    self.failed.insert(pos);
                }
            }
            Ask::Before(_) | Ask::After(_) => {}
        }
    }

    /// Does what can be done with what is there; says what else is needed.
    fn take_step(&mut self) -> Option<Need> {
        // While the end is looked for, it is judged as a whole, with a mark that is not known yet.
        if self.step > Step::End {
            self.judge_grown();
        }
        match self.step {
            Step::First => {
                if self.image.file_end > 0 && self.image.parts.is_empty() {
                    self.ask = Some(Ask::First(Vec::new()));
                }
                None
            }
            Step::End => self.find_state(),
            Step::Repairs => self.load_repairs(),
            Step::Path => self.walk_path(),
            Step::Belonging => self.belonging(),
            Step::Edits => self.load_edits(),
            Step::Results => self.find_results(),
            Step::Done => None,
        }
    }

    /// Reads back from the end until a checkpoint can be trusted, or to line 1.
    fn find_state(&mut self) -> Option<Need> {
        if self.image.file_end == 0 {
            return None;
        }
        self.image.put_end();
        let last = self.image.parts.len() - 1;
        let earlier = self.image.before(last).is_some();
        if earlier && !holds_checkpoint(&self.image.parts[last]) {
            return Some(Need::Before(last));
        }
        self.judge_end(last);
        let found = self.trusted_checkpoint(last);
        if found.is_none() && earlier {
            return Some(Need::Before(last));
        }
        self.fold(found);
        let tip = self.tip.unwrap_or_else(|| self.state.tip());
        let end = self.tail.as_ref().map_or(self.image.file_end, |t| t.at);
        self.walk.begin(tip, end);
        self.judge_grown();
        None
    }

    /// Judges the part at the end, which knows the mark and where the tail begins.
    fn judge_end(&mut self, part: usize) {
        let mut basis = Basis::default();
        let facts = sequence(&self.image.parts[part], &Settled::default());
        for fact in &facts {
            if let What::Record { record, order: Order::Next | Order::Displaced, .. } = &fact.what {
                basis.mark = basis.mark.max(mark_of(record));
                basis.settled.add(record);
            }
        }
        self.accepted.clear();
        let facts = sequence(&self.image.parts[part], &basis.settled);
        let mut judge = Judge::new(&basis, self.image.origin);
        for fact in &facts {
            if let Outcome::Read(record, _) = judge.judge(fact) {
                self.accepted.insert(record.seq(), record);
            }
        }
        self.tail = judge.tail(self.image.file_end);
        self.durable = basis.mark;
        self.basis = basis;
    }

    /// The newest checkpoint that stands where it was written. A copy of an older part of the log at
    /// its end could hold one too: then the record that it names as the last node stands elsewhere,
    /// or what comes before it has a higher number and it is no record in its place.
    fn trusted_checkpoint(&self, part: usize) -> Option<Seq> {
        let whole = self.image.parts[part].start == 0;
        let first = *self.accepted.first_key_value()?.0;
        let trusted = |record: &Record, checkpoint: &Checkpoint| {
            let Some(node) = checkpoint.last_node else { return whole || first < record.seq() };
            let stands = self.accepted.get(&node.seq).is_none_or(|r| r.pos() == node);
            stands && (whole || (first <= node.seq && first < record.seq()))
        };
        let mut newest_first = self.accepted.values().rev();
        let found = newest_first.find(|r| checkpoint_of(r).is_some_and(|c| trusted(r, c)));
        found.map(|record| record.seq())
    }

    /// Folds the records after the checkpoint, or all of them.
    fn fold(&mut self, checkpoint: Option<Seq>) {
        self.checkpoint = checkpoint;
        let mut rest = self.accepted.range(checkpoint.unwrap_or(0)..);
        if checkpoint.is_some()
            && let Some((_, record)) = rest.next()
            && let Some(checkpoint) = checkpoint_of(record)
        {
            self.state = State::from_checkpoint(record, checkpoint);
            // Whatever comes to light before a trusted checkpoint is no tail any more.
            self.basis.mark = self.basis.mark.max(record.seq().checked_sub(1));
        }
        for (_, record) in rest {
            self.state.apply(record);
        }
    }

    fn load_repairs(&mut self) -> Option<Need> {
        let repairs = self.state.in_force.repairs.clone();
        if repairs.is_empty() {
            return None;
        }
        for pos in repairs {
            match self.look_up(pos) {
                Ok(Some(record)) => self.basis.settled.add(&record),
                Ok(None) => {}
                Err(need) => return Some(need),
            }
        }
        self.image.parts.iter_mut().for_each(|p| p.grown = true);
        self.judge_grown();
        None
    }

    /// The record at a position: from what was read, or by reading its line.
    pub(super) fn look_up(&self, pos: Pos) -> Result<Option<Arc<Record>>, Need> {
        if let Some(record) = self.accepted.get(&pos.seq) {
            return Ok(Some(record.clone()).filter(|record| self.is_at(record, pos)));
        }
        let at = self.image.origin.saturating_add(pos.offset);
        let elsewhere = at >= self.image.file_end || self.image.part_at(at).is_some();
        if elsewhere || self.failed.contains(&pos) {
            return Ok(None);
        }
        Err(Need::Line(pos))
    }

    /// Whether a record is the one that a position names, and no other with its number. Of one that a person
    /// accepted as it is, the checksum may be what was altered; one that was erased had another before.
    pub(super) fn is_at(&self, record: &Record, pos: Pos) -> bool {
        record.crc == pos.crc || self.basis.settled.has_accepted(record.seq()) || record.is_erased()
    }

    /// Judges the parts that grew and takes their records.
    pub(super) fn judge_grown(&mut self) {
        for part in &mut self.image.parts {
            if !std::mem::take(&mut part.grown) {
                continue;
            }
            let at_end = part.end == self.image.file_end;
            let basis = basis_for(&self.basis, at_end);
            let facts = sequence(part, &basis.settled);
            let mut judge = Judge::new(&basis, self.image.origin);
            for fact in &facts {
                if let Outcome::Read(record, _) = judge.judge(fact) {
                    self.accepted.insert(record.seq(), record);
                }
            }
        }
    }
}

/// Only at its end can a log have a tail; everywhere else everything counts as durable.
pub(super) fn basis_for(basis: &Basis, at_end: bool) -> std::borrow::Cow<'_, Basis> {
    if at_end {
        std::borrow::Cow::Borrowed(basis)
    } else {
        std::borrow::Cow::Owned(Basis { mark: Some(Seq::MAX), settled: basis.settled.clone() })
    }
}

/// The facts of one part.
pub(super) fn sequence(part: &image::Part, settled: &Settled) -> Vec<crate::judge::sequence::Fact> {
    let whole = part.start == 0;
    let mut sequencer = Sequencer::new(whole);
    for (i, line) in part.lines.iter().enumerate() {
        sequencer.push(line.clone(), whole.then_some(i as u64 + 1), settled);
    }
    sequencer.finish();
    std::iter::from_fn(|| sequencer.next_fact()).collect()
}

fn holds_checkpoint(part: &image::Part) -> bool {
    let mut records = part.lines.iter().flat_map(|l| &l.pieces).filter_map(|p| p.kind.record());
    records.any(|record| checkpoint_of(record).is_some())
}

/// The checkpoint that a record is; looks into no other record's body.
fn checkpoint_of(record: &Record) -> Option<&Checkpoint> {
    match record.envelope.kind.as_str() {
        "checkpoint" => match record.body() {
            Body::Checkpoint(checkpoint) => Some(checkpoint),
            _ => None,
        },
        _ => None,
    }
}

fn is_record(line: &Line, pos: Pos, settled: &Settled) -> bool {
    line.pieces.first().is_some_and(|piece| {
        let record = piece.kind.record().or_else(|| settled.accepts(piece));
        record.is_some_and(|r| r.seq() == pos.seq && r.crc == pos.crc)
    })
}

fn next_step(step: Step) -> Step {
    match step {
        Step::First => Step::End,
        Step::End => Step::Repairs,
        Step::Repairs => Step::Path,
        Step::Path => Step::Belonging,
        Step::Belonging => Step::Edits,
        Step::Edits => Step::Results,
        Step::Results | Step::Done => Step::Done,
    }
}
