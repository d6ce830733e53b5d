//! Which result belongs to which tool call (G6).
//!
//! Responsible for: the rules of pairing as one labelled table, and the ids under which calls are
//! sent. Must not: know where in the tree a record lies; [`crate::context`] says which calls count.
//!
//! A result names its call's record where the writer knew it; that decides. Otherwise it belongs to
//! the nearest earlier call with its id that has no result yet, so that ids which repeat or are empty
//! still pair by order. The first result stands, because the model may have seen it. There is one
//! exception: a result of which recovery only knew that it knew nothing gives way to a real one, as
//! long as no reply was made on it.

use crate::id::Seq;
use std::collections::{HashMap, HashSet, VecDeque};

/// A turn of the model with its calls.
#[derive(Debug, Clone)]
pub struct Turn<'a> {
    /// The record.
    pub seq: Seq,
    /// Id and tool of each call, in order.
    pub calls: Vec<(&'a str, &'a str)>,
}

/// A recorded result.
#[derive(Debug, Clone, Copy)]
pub struct Reported<'a> {
    /// The record.
    pub seq: Seq,
    /// The call's record, where it is known.
    pub call_seq: Option<Seq>,
    /// The call's id.
    pub id: &'a str,
    /// The tool.
    pub name: &'a str,
    /// False when recovery only said that the outcome is unknown.
    pub real: bool,
}

/// What becomes of a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Verdict {
    /// It is the result of a call.
    Answers,
    /// It is, and takes the place of an unknown one.
    Replaces,
    /// The call has a result that stands.
    Duplicate,
    /// It said "unknown" and a real one came.
    Superseded,
    /// There is no call with its id.
    NoCall,
    /// Its call is recorded but not among the turns.
    Outside,
}

/// Where a result's record points.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Names {
    Nothing,
    Turn,
    Elsewhere,
}

/// The call that it would answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Candidate {
    None,
    Open,
    Answered,
}

/// The result that an answered call has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Standing {
    Real,
    UnknownUnseen,
    UnknownSeen,
}

#[derive(Debug, Clone, Copy)]
struct Facts {
    names: Names,
    candidate: Candidate,
    standing: Standing,
    real: bool,
}

struct Row {
    #[cfg_attr(not(test), allow(dead_code))]
    label: &'static str,
    matches: fn(&Facts) -> bool,
    verdict: Verdict,
}

/// Every input matches exactly one row.
const TABLE: &[Row] = &[
    Row {
        label: "its call is in a record that is not sent",
        matches: |f| f.names == Names::Elsewhere,
        verdict: Verdict::Outside,
    },
    Row {
        label: "no call has its id",
        matches: |f| f.names != Names::Elsewhere && f.candidate == Candidate::None,
        verdict: Verdict::NoCall,
    },
    Row {
        label: "a call waits for it",
        matches: |f| f.names != Names::Elsewhere && f.candidate == Candidate::Open,
        verdict: Verdict::Answers,
    },
    Row {
        label: "its call has an unknown result that no reply was made on",
        matches: |f| f.is_second() && f.real && f.standing == Standing::UnknownUnseen,
        verdict: Verdict::Replaces,
    },
    Row {
        label: "its call has a result that stands",
        matches: |f| f.is_second() && !(f.real && f.standing == Standing::UnknownUnseen),
        verdict: Verdict::Duplicate,
    },
];

impl Facts {
    fn is_second(&self) -> bool {
        self.names != Names::Elsewhere && self.candidate == Candidate::Answered
    }

    fn verdict(&self) -> Verdict {
        let row = TABLE.iter().find(|row| (row.matches)(self));
        row.map_or(Verdict::NoCall, |row| row.verdict)
    }
}

/// A call: which turn, and which of its calls.
type CallAt = (usize, usize);

/// The outcome of pairing.
#[derive(Debug, Default)]
pub struct Pairs {
    /// Per turn and call, the index of its result.
    pub answers: Vec<Vec<Option<usize>>>,
    /// Per result, what became of it.
    pub verdicts: Vec<Verdict>,
}

/// Pairs results with calls. Turns and results must each come in the order of the log; `replies` are
/// the records at which the model spoke, ascending. Later records never change what was decided for
/// earlier ones, but for the one exception above.
#[must_use]
pub fn pair(turns: &[Turn<'_>], results: &[Reported<'_>], replies: &[Seq]) -> Pairs {
    let mut pairing = Pairing::new(turns, replies);
    let mut next_turn = 0;
    for (i, result) in results.iter().enumerate() {
        while next_turn < turns.len() && turns[next_turn].seq < result.seq {
            pairing.reach(next_turn);
            next_turn += 1;
        }
        pairing.take(i, result, results);
    }
    pairing.pairs
}

struct Pairing<'a> {
    turns: &'a [Turn<'a>],
    replies: &'a [Seq],
    by_seq: HashMap<Seq, usize>,
    /// The turns passed so far that have calls of an id, newest last; ended ones are dropped lazily.
    reached: HashMap<&'a str, Vec<usize>>,
    newest: HashMap<&'a str, usize>,
    /// Calls in order, by turn and id, and by turn, id and tool; answered ones are dropped lazily.
    open: HashMap<(usize, &'a str), VecDeque<usize>>,
    open_named: HashMap<(usize, &'a str, &'a str), VecDeque<usize>>,
    /// Calls in order, by turn and id, answered or not.
    calls: HashMap<(usize, &'a str), Vec<usize>>,
    pairs: Pairs,
}

impl<'a> Pairing<'a> {
    fn new(turns: &'a [Turn<'a>], replies: &'a [Seq]) -> Self {
        let mut new = Self {
            turns,
            replies,
            by_seq: HashMap::new(),
            reached: HashMap::new(),
            newest: HashMap::new(),
            open: HashMap::new(),
            open_named: HashMap::new(),
            calls: HashMap::new(),
            pairs: Pairs::default(),
        };
        for (t, turn) in turns.iter().enumerate() {
            new.by_seq.entry(turn.seq).or_insert(t);
            new.pairs.answers.push(vec![None; turn.calls.len()]);
            for (c, (id, name)) in turn.calls.iter().enumerate() {
                new.open.entry((t, id)).or_default().push_back(c);
                new.open_named.entry((t, id, name)).or_default().push_back(c);
                new.calls.entry((t, id)).or_default().push(c);
            }
        }
        new
    }

    fn reach(&mut self, t: usize) {
        for (id, _) in &self.turns[t].calls {
            let stack = self.reached.entry(id).or_default();
            if stack.last() != Some(&t) {
                stack.push(t);
            }
            self.newest.insert(id, t);
        }
    }

    fn take(&mut self, i: usize, result: &Reported<'a>, results: &[Reported<'a>]) {
        let named = result.call_seq.map(|seq| self.by_seq.get(&seq).copied());
        let names = match named {
            None => Names::Nothing,
            Some(Some(_)) => Names::Turn,
            Some(None) => Names::Elsewhere,
        };
        let named = named.flatten();
        let open = match names {
            Names::Nothing => self.nearest_open(result),
            Names::Turn => named.and_then(|t| self.open_in(t, result)),
            Names::Elsewhere => None,
        };
        // Nothing depends on what an answered call has where an open one waits.
        let answered = named.or_else(|| self.newest.get(result.id).copied());
        let answered = answered.filter(|_| open.is_none());
        let second = answered.and_then(|t| self.answered_in(t, result, results));
        let (candidate, at) = match (open, second) {
            (Some(at), _) => (Candidate::Open, Some(at)),
            (None, Some(at)) => (Candidate::Answered, Some(at)),
            (None, None) => (Candidate::None, None),
        };
        let standing = second.map_or(Standing::Real, |at| self.standing(at, result, results));
        let verdict = Facts { names, candidate, standing, real: result.real }.verdict();
        self.pairs.verdicts.push(verdict);
        if let (Verdict::Answers | Verdict::Replaces, Some((t, c))) = (verdict, at)
            && let Some(old) = self.pairs.answers[t][c].replace(i)
        {
            self.pairs.verdicts[old] = Verdict::Superseded;
        }
    }

    fn nearest_open(&mut self, result: &Reported<'a>) -> Option<CallAt> {
        while let Some(t) = self.reached.get(result.id).and_then(|s| s.last().copied()) {
            if let Some(at) = self.open_in(t, result) {
                return Some(at);
            }
            self.reached.get_mut(result.id)?.pop();
        }
        None
    }

    /// The first open call of this id in a turn; one of the same tool before others.
    fn open_in(&mut self, t: usize, result: &Reported<'a>) -> Option<CallAt> {
        let answers = &self.pairs.answers[t];
        let same_tool = self.open_named.get_mut(&(t, result.id, result.name));
        let queues = [same_tool, self.open.get_mut(&(t, result.id))];
        for queue in queues.into_iter().flatten() {
            while let Some(c) = queue.front().copied() {
                if answers[c].is_none() {
                    return Some((t, c));
                }
                queue.pop_front();
            }
        }
        None
    }

    /// The call of this id in a turn that a second result would be for: one whose result is only
    /// "unknown" before others.
    fn answered_in(&self, t: usize, result: &Reported<'a>, all: &[Reported<'a>]) -> Option<CallAt> {
        let unknown = |c: &&usize| self.pairs.answers[t][**c].is_some_and(|r| !all[r].real);
        let calls = self.calls.get(&(t, result.id))?;
        calls.iter().find(unknown).or(calls.first()).map(|c| (t, *c))
    }

    fn standing(&self, (t, c): CallAt, new: &Reported<'a>, all: &[Reported<'a>]) -> Standing {
        match self.pairs.answers[t][c].map(|r| &all[r]) {
            Some(old) if !old.real => {
                let after = self.replies.partition_point(|seq| *seq <= old.seq);
                let seen = self.replies.get(after).is_some_and(|seq| *seq < new.seq);
                if seen { Standing::UnknownSeen } else { Standing::UnknownUnseen }
            }
            _ => Standing::Real,
        }
    }
}

/// The ids under which calls are sent: unique, never empty, the model's own where possible.
///
/// Calls must be asked for in the order of the context; what a call gets depends only on those before.
#[derive(Debug, Default)]
pub struct SentIds {
    used: HashSet<String>,
}

impl SentIds {
    /// The id for call number `index` of the turn `seq`, whose own id is `id`.
    pub fn give(&mut self, id: &str, seq: Seq, index: usize) -> String {
        let mut sent = id.to_owned();
        if id.trim().is_empty() {
            sent = format!("call_{seq}_{index}");
        } else if self.used.contains(id) {
            sent = format!("{id}_{seq}_{index}");
        }
        while !self.used.insert(sent.clone()) {
            sent.push('x');
        }
        sent
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Covers: G6, #36. Every combination of facts matches exactly one row of the table.
    #[test]
    fn every_input_matches_exactly_one_row() {
        for names in [Names::Nothing, Names::Turn, Names::Elsewhere] {
            for candidate in [Candidate::None, Candidate::Open, Candidate::Answered] {
                for standing in [Standing::Real, Standing::UnknownUnseen, Standing::UnknownSeen] {
                    for real in [true, false] {
                        let facts = Facts { names, candidate, standing, real };
                        let rows: Vec<_> = TABLE.iter().filter(|r| (r.matches)(&facts)).collect();
                        let labels: Vec<_> = rows.iter().map(|r| r.label).collect();
                        assert_eq!(rows.len(), 1, "{facts:?} matches {labels:?}");
                    }
                }
            }
        }
    }
}
