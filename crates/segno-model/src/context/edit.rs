//! Whether a record may be left out of the context, replaced in it, or put back.
//!
//! Responsible for: the decision, as one labelled table, and what the change comes to in tokens. Must not:
//! write the edit; nothing stored is ever changed by one.

use super::{build_untraced, estimate_messages};
use crate::id::{Pos, Seq};
use crate::line::{Envelope, Record};
use crate::record::{Body, ContextEdit};
use serde::Serialize;

/// A label, and what it means for the edit.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct EditRule {
    /// The label, e.g. `open-call`.
    pub label: &'static str,
    /// Whether the edit may be recorded.
    pub allowed: bool,
    /// The reason in words.
    pub why: &'static str,
    #[serde(skip)]
    matches: fn(&EditFacts) -> bool,
}

/// What is known about an edit and the record that it is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EditFacts {
    /// The record is there.
    pub found: bool,
    /// It is a node: a part of the conversation.
    pub node: bool,
    /// It holds a call that has no result yet.
    pub open_call: bool,
    /// The edit puts back what an earlier one changed.
    pub restore: bool,
    /// An earlier edit of the record is in force.
    pub edited: bool,
    /// That edit says the same.
    pub same: bool,
}

impl EditFacts {
    /// The facts about `edit` of `record`, where `in_force` is the edit of it that counts now and
    /// `open_calls` are the turns with calls that have no result.
    #[must_use]
    pub fn of(
        record: Option<&Record>,
        edit: &ContextEdit,
        in_force: Option<&ContextEdit>,
        open_calls: &[Seq],
    ) -> Self {
        Self {
            found: record.is_some(),
            node: record.is_some_and(Record::is_node),
            open_call: open_calls.contains(&edit.target),
            restore: edit.edit == "restore",
            edited: in_force.is_some(),
            same: in_force == Some(edit),
        }
    }

    /// The one rule that matches.
    #[must_use]
    pub fn rule(&self) -> &'static EditRule {
        EDIT_RULES.iter().find(|rule| (rule.matches)(self)).unwrap_or(&EDIT_RULES[0])
    }

    fn is_said(&self) -> bool {
        self.found && self.node
    }

    /// It would change something, as far as its record is concerned.
    fn is_news(&self) -> bool {
        self.is_said() && !self.restore && !(self.edited && self.same)
    }
}

macro_rules! edit_rules {
    ($($label:literal, $allowed:literal, $why:literal, $matches:expr;)*) => {
        &[$(EditRule { label: $label, allowed: $allowed, why: $why, matches: $matches }),*]
    };
}

/// All labels. Every edit matches exactly one.
pub const EDIT_RULES: &[EditRule] = edit_rules! {
    "no-record", false, "there is no such record", |f| !f.found;
    "no-part", false, "it is no part of the conversation", |f| f.found && !f.node;
    "open-call", false, "a call of it has no result yet", |f| f.is_news() && f.open_call;
    "unchanged", false, "it stands like that already",
        |f| f.is_said() && !f.restore && f.edited && f.same;
    "not-edited", false, "nothing about it was changed", |f| f.is_said() && f.restore && !f.edited;
    "restored", true, "what it said stands again", |f| f.is_said() && f.restore && f.edited;
    "changed", true, "the model is sent something else in its place",
        |f| f.is_news() && !f.open_call;
};

/// What an edit comes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct EditEffect {
    /// Guessed tokens of the context before.
    pub tokens_before: u64,
    /// And after.
    pub tokens_after: u64,
    /// Results that go out, or come back in, with the turn that holds their calls.
    pub results: usize,
}

/// What `edit` would come to for the next request at `tip`. A turn with calls and their results are one:
/// what is left out or replaced takes its results along.
#[must_use]
pub fn edit_effect(records: &[Record], tip: Option<Pos>, edit: &ContextEdit) -> EditEffect {
    let seq = records.last().map_or(1, |last| last.seq().saturating_add(1));
    let body = Body::ContextEdit(edit.clone());
    let kind = body.kind().to_owned();
    let at = records.last().map(|last| last.envelope.at).unwrap_or_default();
    let envelope = Envelope { seq, parent: None, parent_at: None, at, kind, synced: None };
    let made = Record::loose(envelope, body);
    let after: Vec<&Record> = records.iter().chain([&made]).collect();
    let (before, after) = (build_untraced(records, tip), build_untraced(&after, tip));
    EditEffect {
        tokens_before: estimate_messages(&before.messages),
        tokens_after: estimate_messages(&after.messages),
        results: results(&before).abs_diff(results(&after)),
    }
}

fn results(context: &super::Context) -> usize {
    let count = |message: &super::ContextMessage| match message {
        super::ContextMessage::Results(results) => results.len(),
        _ => 0,
    };
    context.messages.iter().map(count).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Covers: G6. Every combination of facts gets exactly one label.
    #[test]
    fn every_edit_matches_exactly_one_rule() {
        for bits in 0..64u8 {
            let bit = |n: u8| bits >> n & 1 == 1;
            let facts = EditFacts {
                found: bit(0),
                node: bit(1),
                open_call: bit(2),
                restore: bit(3),
                edited: bit(4),
                same: bit(5),
            };
            let found: Vec<_> =
                EDIT_RULES.iter().filter(|r| (r.matches)(&facts)).map(|r| r.label).collect();
            assert_eq!(found.len(), 1, "{facts:?} matches {found:?}");
        }
    }
}
