//! Which calls have results, while lines are gone through.
//!
//! Responsible for: pairing as the readers do (`foreign/calls.rs`), and remembering of open calls what a result
//! for them needs. Must not: hold anything of calls that have a result, but a hash.

use super::draft::At;
use super::json::Span;
use super::tree::hash;
use std::collections::{HashMap, HashSet};

/// A call without a result so far.
#[derive(Debug, Clone)]
pub(super) struct Open {
    /// The line behind which a result would stand.
    pub(super) at: At,
    /// The id under which it is sent.
    pub(super) id: String,
    /// The tool.
    pub(super) name: String,
    /// The row on which a result would hang, and its own.
    pub(super) row: String,
    /// The turn that made it: of the calls of one turn the first gets a result, of several turns the nearest.
    pub(super) turn: u64,
    /// The line where our reader has its reply begin.
    pub(super) reply: u64,
    /// Where the call says its id.
    pub(super) named: Option<(At, Span)>,
    /// The response that it is part of.
    pub(super) response: String,
    /// What the agent's result needs besides.
    pub(super) template: serde_json::Map<String, serde_json::Value>,
    /// Rows that hang on `row`, and where they say so.
    pub(super) children: Vec<(At, Span)>,
    /// Which of all calls it is.
    pub(super) order: u64,
    /// Where a result would stand behind those of earlier calls of its turn, if any stand there already.
    pub(super) behind: Option<At>,
}

/// What a result is.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// The result of a call; where that has got another id, this one.
    First(Option<String>),
    /// A further result.
    Second,
    /// There is no call.
    Orphan,
}

/// The calls of one session.
#[derive(Debug, Default)]
pub(super) struct Calls {
    known: HashSet<u64>,
    /// Ids of more than one call.
    shared: HashSet<u64>,
    /// In the order of the calls.
    open: HashMap<u64, Vec<Open>>,
    made: u64,
    /// Calls by id and turn, for agents whose results hang on the turn.
    turns: HashSet<(u64, u64)>,
}

impl Calls {
    /// Whether the id was given before, or is none.
    pub(super) fn is_used(&self, id: &str) -> bool {
        id.is_empty() || self.known.contains(&hash(id))
    }

    /// Whether several calls have the id, or it is none.
    pub(super) fn is_shared(&self, id: &str) -> bool {
        id.is_empty() || self.shared.contains(&hash(id))
    }

    /// An id that was not given before, and is not given again.
    pub(super) fn fresh(&mut self, id: &str) -> String {
        let stem = if id.is_empty() { "call" } else { id };
        let mut fresh = (2_u32..).map(|n| format!("{stem}_{n}"));
        let fresh = fresh.find(|id| !self.is_used(id)).unwrap_or_default();
        self.known.insert(hash(&fresh));
        fresh
    }

    /// A call as the file names it.
    pub(super) fn call(&mut self, id: &str, mut open: Open) {
        self.made += 1;
        open.order = self.made;
        if !self.known.insert(hash(id)) {
            self.shared.insert(hash(id));
        }
        self.known.insert(hash(&open.id));
        self.turns.insert((hash(id), open.turn));
        self.open.entry(hash(id)).or_default().push(open);
    }

    /// A result as the file names its call. With `turn`, a call of that turn is meant before any other.
    pub(super) fn result(&mut self, id: &str, turn: Option<u64>) -> Answer {
        match self.answered(id, turn) {
            Ok(call) => Answer::First(Some(call.id).filter(|sent| hash(sent) != hash(id))),
            Err(answer) => answer,
        }
    }

    /// As [`Self::result`]: the call that a result answers, or what else it is.
    pub(super) fn answered(&mut self, id: &str, turn: Option<u64>) -> Result<Open, Answer> {
        let id = hash(id);
        if !self.known.contains(&id) {
            return Err(Answer::Orphan);
        }
        let turn = turn.filter(|turn| self.turns.contains(&(id, *turn)));
        let open = self.open.get_mut(&id);
        let found = open.and_then(|open| {
            let fits = |call: &Open| turn.is_none_or(|turn| call.turn == turn);
            // Of the calls of one turn, the first; of several turns, the nearest.
            let last = open.iter().rposition(fits)?;
            let of = open.get(last)?.turn;
            let at = open.iter().position(|call| call.turn == of && fits(call))?;
            Some(open.remove(at))
        });
        found.ok_or(Answer::Second)
    }

    /// As [`Self::result`], where it is known in which line its call's reply begins: the id under which the call is
    /// sent, if it has got another one. None where there is no such call, or it has a result.
    pub(super) fn result_of(&mut self, id: &str, reply: u64) -> Option<Answer> {
        let open = self.open.get_mut(&hash(id))?;
        let at = open.iter().position(|call| call.reply == reply)?;
        let call = open.remove(at);
        Some(Answer::First(Some(call.id).filter(|sent| *sent != id)))
    }

    /// A result for `of` stands at `at`: those of later calls of its turn come behind it. Whether there are such.
    pub(super) fn come_behind(
        &mut self,
        of: &Open,
        at: &At,
        is_turn: impl Fn(&Open) -> bool,
    ) -> bool {
        let mut comes = false;
        self.each_open(|open| {
            // What hangs on a result must not stand before it.
            if open.order > of.order && open.children.is_empty() && is_turn(open) {
                open.behind = Some(*at);
                comes = true;
            }
        });
        comes
    }

    /// All that are open.
    pub(super) fn each_open(&mut self, mut each: impl FnMut(&mut Open)) {
        self.open.values_mut().flatten().for_each(&mut each);
    }

    /// Those that are sent without a result, as our context has it: `unanswered` holds where their replies begin,
    /// and their ids as the file names them. In the order of the file.
    pub(super) fn unanswered(&mut self, unanswered: &[(Option<u64>, String)]) -> Vec<Open> {
        let mut wanted = Vec::new();
        for (reply, id) in unanswered {
            let Some(open) = self.open.get_mut(&hash(id)) else { continue };
            let at = open.iter().position(|call| Some(call.reply) == *reply);
            // Some readers put a reply together from several lines.
            wanted.extend(at.map(|at| open.remove(at)).or_else(|| open.pop()));
        }
        wanted.sort_by_key(|open| (open.at.line, open.at.object));
        wanted
    }
}
