//! Which result answers which call, while a session is read.
//!
//! Responsible for: pairing by the call's id with the nearest earlier call that has no result yet, and
//! telling what does not pair. Must not: change or drop anything; the context decides what is sent.

use super::emitter::Emitter;
use super::item::Origin;
use segno_model::Seq;
use segno_model::finding::Severity;
use std::collections::HashMap;

/// The calls of one session.
#[derive(Debug, Default)]
pub(super) struct Calls {
    by_id: HashMap<Box<str>, Vec<Call>>,
}

#[derive(Debug)]
struct Call {
    seq: Seq,
    name: Box<str>,
    origin: Origin,
    answered: bool,
}

impl Calls {
    /// Notes a call that the record `seq` makes.
    pub(super) fn call(&mut self, id: &str, name: &str, seq: Seq, origin: &Origin) {
        let origin = Origin { id: None, ..*origin };
        let call = Call { seq, name: name.into(), origin, answered: false };
        // Most ids are used once, and there may be as many as there are calls in a gigabyte.
        self.by_id.entry(id.into()).or_insert_with(|| Vec::with_capacity(1)).push(call);
    }

    /// The record that made the call which a result answers, and the tool's name. What does not pair is
    /// told: a second result names the call of the first.
    pub(super) fn result(
        &mut self,
        id: &str,
        at: &Origin,
        out: &mut Emitter<'_>,
    ) -> Option<(Seq, String)> {
        self.result_on(id, None, at, out)
    }

    /// As [`Self::result`], for formats in which a result hangs on the record that made the call: a call
    /// of `turn` with this id is meant before any other. On branches that were written in turn, the
    /// nearest open call may be another branch's.
    pub(super) fn result_on(
        &mut self,
        id: &str,
        turn: Option<Seq>,
        at: &Origin,
        out: &mut Emitter<'_>,
    ) -> Option<(Seq, String)> {
        let Some(calls) = self.by_id.get_mut(id) else {
            let sentence = "A result stands here whose call is nowhere in the session.";
            out.found(
                "orphan-result",
                Severity::Warning,
                at,
                sentence,
                "It is shown and not sent to a model.",
            );
            return None;
        };
        let is_meant = |call: &Call| turn == Some(call.seq);
        let at_turn = |turn| calls.binary_search_by_key(&turn, |call| call.seq).is_ok();
        let meant = turn.is_some_and(at_turn);
        let fits = |call: &&mut Call| !call.answered && (!meant || is_meant(call));
        if let Some(open) = calls.iter_mut().rev().find(fits) {
            open.answered = true;
            return Some((open.seq, open.name.to_string()));
        }
        let sentence = "A second result stands here for a call that has one.";
        out.found(
            "duplicate-result",
            Severity::Warning,
            at,
            sentence,
            "The first one counts; both are shown.",
        );
        let last = calls.iter().rev().find(|call| !meant || is_meant(call));
        last.map(|call| (call.seq, call.name.to_string()))
    }

    /// Tells which calls have no result. Readers call it at the end.
    pub(super) fn finish(&self, out: &mut Emitter<'_>) {
        let mut open: Vec<&Call> = self.by_id.values().flatten().filter(|c| !c.answered).collect();
        open.sort_by_key(|call| call.seq);
        for call in open {
            let sentence = "A call has no result: the agent was interrupted, or is still at it.";
            let done = "Its outcome is unknown; it is never taken as failed or as not run.";
            out.found("interrupted-call", Severity::Note, &call.origin, sentence, done);
        }
    }
}
