//! A provider's own state of what lies back: whether it may be sent in place of the summary.
//!
//! Responsible for: one labelled table from what is known about the state and about who is asked to that
//! decision; the messages that follow from it. Must not: look into a state, or read its blob.
//!
//! A state is opaque. It is sent only to the very model, protocol and server that made it, and only while
//! nothing that it tells of was changed or erased. In every other case the summary beside it is sent, with the
//! person's own words, as if there were no state.

use super::place::Place;
use super::{Context, ContextMessage, Parts, estimate_native};
use crate::id::Seq;
use crate::record::{Body, ModelRef, Native};
use serde::Serialize;
use std::collections::HashSet;
use std::sync::Arc;

/// Who is asked next, as far as it decides what goes back only to its maker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// The model.
    pub model: ModelRef,
    /// Its protocol, as [`Native::dialect`] names it.
    pub dialect: String,
    /// Its server, as [`endpoint_hash`](crate::record::endpoint_hash).
    pub server: String,
    /// Whether that is the provider's own address, which replies do not name.
    pub is_own_address: bool,
    /// Whether states are to be sent at all.
    pub states: bool,
}

impl Target {
    /// Whether it made a reply that names this model and this place.
    #[must_use]
    pub fn made(&self, model: &ModelRef, endpoint: Option<&str>) -> bool {
        let place = (!self.is_own_address).then_some(self.server.as_str());
        self.model == *model && place == endpoint
    }
}

/// The state of the newest compaction.
#[derive(Debug, Clone)]
pub struct BoundaryState {
    /// The compaction.
    pub seq: Seq,
    /// Its items, or the blob that holds them.
    pub native: Arc<Native>,
    /// Who made it.
    pub model: ModelRef,
    /// On which server; none where nobody knows.
    pub endpoint: Option<String>,
    /// Its tokens, guessed.
    pub tokens: u64,
    /// So many messages at the beginning of the context tell the same otherwise.
    pub covers: usize,
    /// Something that it tells of was edited or erased since.
    pub altered: bool,
    /// Its blob cannot be read.
    pub lost: bool,
}

/// A state as it is sent.
#[derive(Debug, Clone)]
pub struct ContextState {
    /// The compaction.
    pub seq: Seq,
    /// A list of items.
    pub native: Arc<Native>,
    /// Its tokens, guessed.
    pub tokens: u64,
}

/// A label, and what it means for the state.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct StateRule {
    /// The label, e.g. `other-model`.
    pub label: &'static str,
    /// Whether the state is sent.
    pub sent: bool,
    /// The reason in words.
    pub why: &'static str,
    #[serde(skip)]
    matches: fn(&Facts) -> bool,
}

#[derive(Debug, Clone, Copy)]
struct Facts {
    /// There is a state.
    there: bool,
    /// Nothing that it tells of was changed since.
    intact: bool,
    /// It is known which server made it.
    placed: bool,
    /// The person wants states to be sent.
    wanted: bool,
    provider: bool,
    server: bool,
    model: bool,
    protocol: bool,
    /// Its items can be read.
    readable: bool,
}

impl Facts {
    fn of(state: Option<&BoundaryState>, target: &Target) -> Self {
        let is = |fact: fn(&BoundaryState, &Target) -> bool| state.is_some_and(|s| fact(s, target));
        Self {
            there: state.is_some(),
            intact: is(|s, _| !s.altered),
            placed: is(|s, _| s.endpoint.is_some()),
            wanted: target.states,
            provider: is(|s, t| s.model.provider == t.model.provider),
            server: is(|s, t| s.endpoint.as_deref() == Some(&t.server)),
            model: is(|s, t| s.model.id == t.model.id),
            protocol: is(|s, t| s.native.dialect == t.dialect),
            readable: is(|s, _| !s.lost),
        }
    }

    fn is_offered(&self) -> bool {
        self.there && self.intact && self.placed && self.wanted
    }

    fn is_of_provider(&self) -> bool {
        self.is_offered() && self.provider
    }

    fn is_of_server(&self) -> bool {
        self.is_of_provider() && self.server
    }

    fn is_of_model(&self) -> bool {
        self.is_of_server() && self.model
    }

    fn is_own(&self) -> bool {
        self.is_of_model() && self.protocol
    }
}

macro_rules! rules {
    ($($label:literal, $sent:literal, $why:literal, $matches:expr;)*) => {
        &[$(StateRule { label: $label, sent: $sent, why: $why, matches: $matches }),*]
    };
}

/// All labels. Every context and every target match exactly one.
pub const STATE_RULES: &[StateRule] = rules! {
    "no-state", false, "there is none", |f| !f.there;
    "altered", false, "something that it tells of was edited or erased since", |f| f.there && !f.intact;
    "unknown-origin", false, "nobody knows which server made it", |f| f.there && f.intact && !f.placed;
    "switched-off", false, "states of providers are switched off",
        |f| f.there && f.intact && f.placed && !f.wanted;
    "other-provider", false, "another provider made it", |f| f.is_offered() && !f.provider;
    "other-server", false, "another server made it", |f| f.is_of_provider() && !f.server;
    "other-model", false, "another model made it", |f| f.is_of_server() && !f.model;
    "other-protocol", false, "it belongs to another protocol", |f| f.is_of_model() && !f.protocol;
    "lost", false, "its blob is missing or damaged", |f| f.is_own() && !f.readable;
    "own", true, "this very model made it, on this server", |f| f.is_own() && f.readable;
};

/// The one rule that matches.
#[must_use]
pub fn state_rule(state: Option<&BoundaryState>, target: &Target) -> &'static StateRule {
    let facts = Facts::of(state, target);
    STATE_RULES.iter().find(|rule| (rule.matches)(&facts)).unwrap_or(&STATE_RULES[0])
}

/// The label of a record that a state tells of, in the trace.
pub const IN_STATE: &str = "in-state";

/// The record that a message outside of any turn of the model comes from.
fn said_by(message: &ContextMessage) -> Option<Seq> {
    match message {
        ContextMessage::User { seq, .. } => Some(*seq),
        ContextMessage::Assistant(turn) => Some(turn.seq),
        ContextMessage::Results(_) | ContextMessage::State(_) => None,
    }
}

impl Parts<'_> {
    /// The state of the newest compaction, in place of so many messages.
    pub(super) fn state(&self, covers: usize) -> Option<BoundaryState> {
        let (_, record, _) = self.nodes.iter().find(|(place, ..)| *place == Place::Boundary)?;
        let Body::Compaction(compaction) = record.body() else { return None };
        let native = Arc::new(compaction.native.clone()?);
        let seq = record.seq();
        let is_edit = |record: &&crate::line::Record| match record.body() {
            Body::ContextEdit(edit) => compaction.is_altered_by(edit.target, record.seq(), seq),
            _ => false,
        };
        let mut kept = self.nodes.iter().filter(|(place, ..)| *place == Place::Kept);
        let altered = self.edits.concern(seq)
            || self.records.iter().any(is_edit)
            || kept.any(|(_, record, _)| record.is_erased());
        Some(BoundaryState {
            seq,
            tokens: compaction.native_tokens.unwrap_or_else(|| estimate_native(&native)),
            native,
            model: compaction.model.clone().unwrap_or_default(),
            endpoint: compaction.endpoint.clone(),
            covers,
            altered,
            lost: false,
        })
    }
}

impl Context {
    /// The context as this target may be sent it: thinking and items go back only to their maker, and a
    /// provider's own state stands in place of the summary where [`STATE_RULES`] say so. Its blob is read by
    /// then.
    #[must_use]
    pub fn for_target(mut self, target: &Target) -> Self {
        for message in &mut self.messages {
            if let ContextMessage::Assistant(turn) = message
                && !target.made(&turn.model, turn.endpoint.as_deref())
            {
                turn.forget_maker();
            }
        }
        if let Some(state) = self.state.clone().filter(|s| state_rule(Some(s), target).sent) {
            let end = state.covers.min(self.messages.len());
            let told: HashSet<Seq> = self.messages[..end].iter().filter_map(said_by).collect();
            for row in self.trace.iter_mut().filter(|row| row.included && told.contains(&row.seq)) {
                (row.included, row.rule) = (false, IN_STATE);
            }
            let BoundaryState { seq, native, tokens, .. } = state;
            let stands = ContextState { seq, native, tokens };
            self.messages.splice(..end, [ContextMessage::State(stands)]);
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Covers: G6. Every combination of facts gets exactly one label, and only one of them sends a state: where
    /// everything matches.
    #[test]
    fn every_state_matches_exactly_one_rule() {
        let mut sent = 0;
        for bits in 0..512_u32 {
            let bit = |n: u32| bits >> n & 1 == 1;
            let facts = Facts {
                there: bit(0),
                intact: bit(1),
                placed: bit(2),
                wanted: bit(3),
                provider: bit(4),
                server: bit(5),
                model: bit(6),
                protocol: bit(7),
                readable: bit(8),
            };
            let found: Vec<_> = STATE_RULES.iter().filter(|r| (r.matches)(&facts)).collect();
            let labels: Vec<_> = found.iter().map(|r| r.label).collect();
            assert_eq!(labels.len(), 1, "{facts:?} matches {labels:?}");
            sent += usize::from(found[0].sent);
            assert!(!found[0].sent || bits == 511, "{facts:?}");
        }
        assert_eq!(sent, 1);
    }

    #[test]
    fn labels_are_unique() {
        let labels: std::collections::BTreeSet<_> = STATE_RULES.iter().map(|r| r.label).collect();
        assert_eq!(labels.len(), STATE_RULES.len());
    }
}
