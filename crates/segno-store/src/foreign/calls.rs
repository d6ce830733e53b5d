//! Which result answers which call, while a session is read.
//!
//! Responsible for: pairing by the call's id with the nearest earlier call that has no result yet, and
//! telling what does not pair. Must not: change or drop anything; the context decides what is sent.

use super::emitter::Emitter;
use super::item::Origin;
use super::outline::{ByHash, Names, Short, hash};
use segno_model::Seq;
use segno_model::finding::Severity;
use std::collections::HashMap;
use std::collections::hash_map::Entry;

/// What a result says that was put in for one which was lost, in files that were repaired here: what the model is
/// told here, too.
pub use segno_model::context::UNKNOWN_OUTCOME;

/// The calls of one session.
#[derive(Debug, Default)]
pub(super) struct Calls {
    /// Most ids are used once, and there may be as many as there are calls in a gigabyte.
    once: ByHash<Call>,
    /// Those that were used again, in the order of the records.
    again: ByHash<Vec<Call>>,
    /// Where the calls stand that have no result, by the hash of the id and the record.
    open: HashMap<(u64, Short), Vec<Origin>>,
    tools: Names,
}

#[derive(Debug, Clone, Copy)]
struct Call {
    seq: Short,
    tool: u32,
}

/// The call that a result names.
pub(super) struct Found {
    /// The record that made it.
    pub(super) seq: Seq,
    /// The tool.
    pub(super) name: String,
    /// Whether that record is on the result's own branch.
    pub(super) is_on_branch: bool,
}

impl Calls {
    /// Notes a call that the record `seq` makes.
    pub(super) fn call(&mut self, id: &str, name: &str, seq: Seq, origin: &Origin) {
        let (id, call) = (hash(id), Call { seq: Short::of(seq), tool: self.tools.number(name) });
        let stands = Origin { id: None, ..*origin };
        self.open.entry((id, call.seq)).or_default().push(stands);
        match (self.again.get_mut(&id), self.once.remove(&id)) {
            (Some(calls), _) => calls.push(call),
            (None, Some(first)) => drop(self.again.insert(id, vec![first, call])),
            (None, None) => drop(self.once.insert(id, call)),
        }
    }

    /// Whether a call with this id was made.
    pub(super) fn knows(&self, id: &str) -> bool {
        let id = hash(id);
        self.once.contains_key(&id) || self.again.contains_key(&id)
    }

    /// The record that made the call which a result answers, and the tool's name. What does not pair is
    /// told: a second result names the call of the first.
    pub(super) fn result(
        &mut self,
        id: &str,
        at: &Origin,
        out: &mut Emitter<'_>,
    ) -> Option<(Seq, String)> {
        let Some(found) = self.find(id, None, |_| true) else {
            tell_orphan("A result stands here whose call is nowhere in the session.", at, out);
            return None;
        };
        if !self.close(id, &found) {
            tell_second(at, out);
        }
        Some((found.seq, found.name))
    }

    /// The call that a result would answer, the nearest that has no result. In formats in which a result hangs on the
    /// record that made the call, one of `turn` is meant before any other, and then one of which `is_above` says that
    /// it is on the result's own branch: of branches that were written in turn the nearest may be another one's.
    pub(super) fn find(
        &self,
        id: &str,
        turn: Option<Seq>,
        is_above: impl Fn(Seq) -> bool,
    ) -> Option<Found> {
        let id = hash(id);
        let once = self.once.get(&id).map(std::slice::from_ref);
        let calls = once.or_else(|| self.again.get(&id).map(Vec::as_slice))?;
        let turn = turn.map(Short::of);
        let at_turn = |turn| calls.binary_search_by_key(&turn, |call| call.seq).is_ok();
        let meant = turn.filter(|turn| at_turn(*turn));
        let is_above = |call: &&Call| is_above(call.seq.seq());
        let is_on_branch = meant.is_some() || calls.iter().rev().any(|call| is_above(&call));
        let fits = |call: &&Call| match meant {
            Some(seq) => call.seq == seq,
            None => !is_on_branch || is_above(call),
        };
        let mut fitting = calls.iter().rev().filter(fits);
        let last = fitting.clone().next();
        let open = fitting.find(|call| self.open.contains_key(&(id, call.seq)));
        let call = open.or(last)?;
        let name = self.tools.name(call.tool).to_owned();
        Some(Found { seq: call.seq.seq(), name, is_on_branch })
    }

    /// A call gets its result; false when it has one.
    pub(super) fn close(&mut self, id: &str, call: &Found) -> bool {
        close(&mut self.open, (hash(id), Short::of(call.seq)))
    }

    /// Tells which calls have no result. Readers call it at the end.
    pub(super) fn finish(&self, out: &mut Emitter<'_>) {
        let mut open: Vec<_> = self.open.iter().collect();
        // Of the calls of one record, as they stand in the file.
        open.sort_by_key(|((_, seq), stands)| (*seq, stands.first().and_then(|at| at.line)));
        for origin in open.into_iter().flat_map(|(_, stands)| stands) {
            let sentence = "A call has no result: the agent was interrupted, or is still at it.";
            let done = "Its outcome is unknown; it is never taken as failed or as not run.";
            out.found("interrupted-call", Severity::Note, origin, sentence, done);
        }
    }
}

/// Tells that a result has no call that is sent with it.
pub(super) fn tell_orphan(sentence: &str, at: &Origin, out: &mut Emitter<'_>) {
    let done = "It is shown and not sent to a model.";
    out.found("orphan-result", Severity::Warning, at, sentence, done);
}

/// Tells that a call has more than one result.
pub(super) fn tell_second(at: &Origin, out: &mut Emitter<'_>) {
    let sentence = "A second result stands here for a call that has one.";
    let done = "The first one counts; both are shown.";
    out.found("duplicate-result", Severity::Warning, at, sentence, done);
}

/// Takes one of the open calls of a record under one id; false when there is none.
fn close(open: &mut HashMap<(u64, Short), Vec<Origin>>, call: (u64, Short)) -> bool {
    let Entry::Occupied(mut stands) = open.entry(call) else { return false };
    stands.get_mut().pop();
    if stands.get().is_empty() {
        stands.remove();
    }
    true
}
