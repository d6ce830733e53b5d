//! Where a compaction cuts: what is summarised, what is kept.
//!
//! Responsible for: never splitting a call from its result, and keeping the person's own words while
//! they fit. Must not: decide when to compact, or call a model.

use super::estimate::is_notice;
use super::place::Place;
use super::{BoundaryState, ContextMessage, Parts};
use crate::compaction::Carried;
use crate::id::{Pos, Seq};
use crate::line::Record;
use crate::record::{Block, Body, Message, StopReason, Text};
use crate::tree::is_prompt;
use std::borrow::Borrow;
use std::collections::{HashMap, HashSet};

/// How much may be kept, in tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Budget {
    /// For the end of the path, kept as it is.
    pub tail: u64,
    /// For the person's own words from before that.
    pub words: u64,
    /// For the last prompt, however much of the other budgets is used up.
    pub prompt: u64,
    /// Whether notices of changed instructions are kept like the person's words, because the system prompt
    /// in force does not hold them.
    pub notices: bool,
}

/// A cut.
#[derive(Debug, Clone, Default)]
pub struct Boundary {
    /// What [`Compaction::first_kept`](crate::record::Compaction) is to be.
    pub first_kept: Option<Pos>,
    /// What [`Compaction::kept`](crate::record::Compaction) is to be.
    pub kept: Vec<Pos>,
    /// What the summary has to tell, the summary before it included.
    pub summarised: Vec<ContextMessage>,
    /// A provider's own state of the beginning of `summarised`.
    pub state: Option<BoundaryState>,
    /// Guessed tokens of what is kept.
    pub kept_tokens: u64,
    /// Of those, the end of the path.
    pub tail_tokens: u64,
    /// The person's words that are neither kept nor told by a summary yet, by prompt, oldest first.
    pub dropped: Vec<Vec<Text>>,
    /// The person's words that the compaction before this one carried.
    pub carried: Carried,
    /// Everything readable of what is kept.
    pub kept_text: String,
}

impl Boundary {
    /// Guessed tokens of what the summary stands for: the words that are kept are told beside it.
    #[must_use]
    pub fn replaces(&self) -> u64 {
        let words = self.kept_tokens.saturating_sub(self.tail_tokens);
        super::estimate_messages(&self.summarised).saturating_sub(words)
    }
}

/// Chooses a cut in the context at `tip`; none when there is nothing to summarise.
///
/// Of the end of the path as much is kept as fits into `budget.tail`, beginning where no call is split
/// from its result and no call is left without one, and never behind what no reply has followed yet: results
/// and prompts that the model has not seen stay, whatever they cost. Of the person's words before that, the newest that
/// fit into `budget.words`; the last prompt also where room for it is left in `budget.tail`, or in
/// `budget.prompt`. Where all that is before the cut would be kept, there is nothing to summarise.
#[must_use]
pub fn choose_boundary<R: Borrow<Record>>(
    records: &[R],
    tip: Option<Pos>,
    budget: Budget,
) -> Option<Boundary> {
    let parts = Parts::new(records, tip);
    let context = parts.context();
    let tokens = context.tokens_by_record();
    let units = units(&parts, &tokens);
    let first = units.iter().position(|unit| unit.place == Place::OnPath)?;
    let cut = cut(&units, first, budget.tail);
    if cut == first {
        return None;
    }
    let tail: u64 = units[cut..].iter().map(|unit| unit.tokens).sum();
    let (kept, words) = own_words(&units[..cut], &units[cut..], budget, tail);
    if kept.len() == cut {
        return None;
    }
    let prompts: HashSet<Seq> = units[..cut]
        .iter()
        .map(|unit| unit.record)
        .filter(|r| is_prompt(r))
        .map(Record::seq)
        .collect();
    let (summarised, tail_messages) =
        split(context.messages, units.get(cut).map(|unit| unit.record.seq()));
    let is_kept = |seq: &Seq| kept.iter().any(|pos| pos.seq == *seq);
    let mut kept_text: String = tail_messages.iter().map(|m| m.text() + "\n").collect();
    let mut dropped = Vec::new();
    for message in &summarised {
        match message {
            ContextMessage::User { seq, .. } if is_kept(seq) => {
                kept_text.push_str(&message.text());
                kept_text.push('\n');
            }
            ContextMessage::User { seq, content } if prompts.contains(seq) => {
                dropped.push(texts(content));
            }
            _ => {}
        }
    }
    Some(Boundary {
        first_kept: units.get(cut).map(|unit| unit.record.pos()),
        kept,
        summarised,
        state: context.state,
        kept_tokens: tail + words,
        tail_tokens: tail,
        dropped,
        carried: parts.carried(),
        kept_text,
    })
}

fn texts(content: &[Block]) -> Vec<Text> {
    let texts = content.iter().filter_map(|block| match block {
        Block::Text { text } => Some(text.clone()),
        _ => None,
    });
    texts.collect()
}

/// A record of the context that is no result, with the results of its calls.
struct Unit<'a> {
    place: Place,
    record: &'a Record,
    tokens: u64,
    /// The last record that belongs to it; unending while a call waits for its result.
    ends: Seq,
}

fn units<'a>(parts: &Parts<'a>, tokens: &HashMap<Seq, u64>) -> Vec<Unit<'a>> {
    let sent = parts.nodes.iter().filter_map(|(place, record, shaped)| {
        let tokens = *tokens.get(&record.seq())?;
        let ends = parts.turn_ends(record.seq(), shaped.calls());
        (*place != Place::Boundary).then_some(Unit { place: *place, record, tokens, ends })
    });
    sent.collect()
}

impl Parts<'_> {
    /// What the newest compaction carried of the person's words, unless an edit took its place.
    fn carried(&self) -> Carried {
        let boundary = self.nodes.iter().find(|(place, ..)| *place == Place::Boundary);
        let record = boundary.map(|(_, record, _)| record).filter(|r| !self.edits.replace(r.seq()));
        match record.map(|record| record.body()) {
            Some(Body::Compaction(c)) => {
                Carried { sentences: c.sentences.clone(), left_out: c.sentences_left_out }
            }
            _ => Carried::default(),
        }
    }

    fn turn_ends(&self, turn: Seq, calls: usize) -> Seq {
        let ends = (0..calls).map(|index| match self.results.of_call(turn, index) {
            None => Seq::MAX,
            // A result on another branch is found wherever it lies, so it does not bind the cut.
            Some((result, _)) if self.places.at(result.seq()).is_none() => turn,
            Some((result, _)) => result.seq(),
        });
        ends.max().unwrap_or(turn)
    }
}

/// The unit with which what is kept begins; the end when nothing fits.
///
/// It is the earliest place within the budget that splits no turn. A call that waits for its result is
/// kept whatever it costs, and so is what nobody has answered: it is what the next request is about.
fn cut(units: &[Unit<'_>], first: usize, budget: u64) -> usize {
    let starts = units.iter().map(|unit| unit.record.seq()).chain([Seq::MAX]);
    let mut latest_end = 0;
    let mut tokens: u64 = units.iter().map(|unit| unit.tokens).sum();
    let mut best = first;
    for (i, start) in starts.enumerate().take(unanswered(units) + 1) {
        if i >= first && latest_end < start {
            best = i;
            if tokens <= budget {
                break;
            }
        }
        if let Some(unit) = units.get(i) {
            latest_end = latest_end.max(unit.ends);
            tokens -= unit.tokens;
        }
    }
    best
}

/// The first unit of which something came behind the last reply: a prompt, news, or the turn whose results the
/// model has not seen. A reply whose stream broke is made again, so it answers nothing. The end when there is none.
fn unanswered(units: &[Unit<'_>]) -> usize {
    let is_reply = |unit: &&Unit<'_>| match unit.record.body() {
        Body::Message(message) => match &**message {
            Message::Assistant(reply) => reply.stop != StopReason::Broken,
            _ => false,
        },
        _ => false,
    };
    let replied = units.iter().rfind(is_reply).map_or(0, |unit| unit.record.seq());
    units.iter().position(|unit| unit.ends > replied).unwrap_or(units.len())
}

/// The person's words among `summarised` that are kept singly, in order, and their tokens.
fn own_words(
    summarised: &[Unit<'_>],
    tail: &[Unit<'_>],
    budget: Budget,
    tail_tokens: u64,
) -> (Vec<Pos>, u64) {
    let mut kept = Vec::new();
    let mut used = 0;
    let mut is_last = !tail.iter().any(|unit| is_prompt(unit.record));
    let spare = budget.tail.saturating_sub(tail_tokens);
    let is_notice = |record| budget.notices && is_instructions(record);
    for unit in summarised.iter().rev() {
        let room = budget.words.saturating_sub(used);
        if is_notice(unit.record) && unit.tokens <= room {
            used += unit.tokens;
            kept.push(unit.record.pos());
        }
        if !is_prompt(unit.record) {
            continue;
        }
        if unit.tokens <= room || (is_last && unit.tokens <= spare.max(budget.prompt)) {
            used += unit.tokens;
            kept.push(unit.record.pos());
        }
        is_last = false;
    }
    kept.reverse();
    (kept, used)
}

/// The messages before the one that comes from `first`, and the others.
fn split(
    mut messages: Vec<ContextMessage>,
    first: Option<Seq>,
) -> (Vec<ContextMessage>, Vec<ContextMessage>) {
    let comes_from_it = |message: &ContextMessage| match message {
        ContextMessage::User { seq, .. } => Some(*seq) == first,
        ContextMessage::Assistant(turn) => Some(turn.seq) == first,
        ContextMessage::Results(_) | ContextMessage::State(_) => false,
    };
    let end = messages.iter().position(comes_from_it).unwrap_or(messages.len());
    let tail = messages.split_off(end);
    if messages.last().is_some_and(is_notice) {
        messages.pop();
    }
    (messages, tail)
}

/// Whether a record is a notice of changed instructions.
fn is_instructions(record: &Record) -> bool {
    let Body::Message(message) = record.body() else { return false };
    matches!(&**message, Message::User(user) if user.notice.as_deref() == Some("instructions"))
}
