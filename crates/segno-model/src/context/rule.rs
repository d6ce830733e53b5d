//! Why a record is in the context or not: one labelled table.
//!
//! Responsible for: exactly one label per record. Must not: change what is sent.

use super::place::Place;
use crate::pairing::Verdict;
use serde::Serialize;

/// A label of the trace.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Rule {
    /// The label, e.g. `on-path`.
    pub label: &'static str,
    /// Whether a record with this label contributes to the request.
    pub included: bool,
    /// The reason in words.
    pub why: &'static str,
    #[serde(skip)]
    matches: fn(&Facts) -> bool,
}

/// What is left of a record's content.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Content {
    /// Something to send.
    Whole,
    /// The finished text of a reply that broke off.
    Partial,
    /// What an edit put in its place.
    Edited,
    /// An edit took it out.
    Omitted,
    /// Nothing that a provider takes.
    Empty,
    /// A shape that this version cannot read.
    Unreadable,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Facts {
    pub(super) place: Place,
    pub(super) content: Content,
    /// For tool results.
    pub(super) verdict: Option<Verdict>,
}

impl Facts {
    fn sent(&self, place: Place) -> bool {
        self.verdict.is_none() && self.place == place
    }

    fn placed(&self, content: Content) -> bool {
        self.content == content && (self.sent(Place::Kept) || self.sent(Place::OnPath))
    }

    fn answers(&self) -> bool {
        matches!(self.verdict, Some(Verdict::Answers | Verdict::Replaces))
    }

    fn is_edited(&self) -> bool {
        matches!(self.content, Content::Edited | Content::Omitted)
    }

    /// The one rule that matches.
    pub(super) fn rule(&self) -> &'static Rule {
        RULES.iter().find(|rule| (rule.matches)(self)).unwrap_or(&RULES[0])
    }
}

macro_rules! rules {
    ($($label:literal, $included:literal, $why:literal, $matches:expr;)*) => {
        &[$(Rule { label: $label, included: $included, why: $why, matches: $matches }),*]
    };
}

/// All labels. Every record matches exactly one.
pub const RULES: &[Rule] = rules! {
    "metadata", false, "it is no part of the conversation", |f| f.sent(Place::Metadata);
    "off-path", false, "it is on another branch", |f| f.sent(Place::OffPath);
    "before-compaction", false, "the summary tells of it", |f| f.sent(Place::Summarised);
    "older-compaction", false, "a newer summary takes its place", |f| f.sent(Place::OlderSummary);
    "summary", true, "it is the newest summary", |f| f.sent(Place::Boundary);
    "kept", true, "the compaction keeps it",
        |f| f.sent(Place::Kept) && f.content == Content::Whole;
    "on-path", true, "it is on the path", |f| f.sent(Place::OnPath) && f.content == Content::Whole;
    "partial-reply", true, "it broke off; its finished text is sent", |f| f.placed(Content::Partial);
    "edited", true, "an edit put something in its place", |f| f.placed(Content::Edited);
    "omitted", false, "an edit took it out", |f| f.placed(Content::Omitted);
    "empty", false, "providers refuse a message with nothing in it", |f| f.placed(Content::Empty);
    "unreadable", false, "this version cannot read it", |f| f.placed(Content::Unreadable);
    "result", true, "it is the result of a call", |f| f.answers() && !f.is_edited();
    "edited-result", true, "an edit put something in its place", |f| f.answers() && f.is_edited();
    "duplicate-result", false, "its call has a result already",
        |f| f.verdict == Some(Verdict::Duplicate);
    "superseded-result", false, "it said unknown, and the real result came",
        |f| f.verdict == Some(Verdict::Superseded);
    "result-without-call", false, "no call has its id", |f| f.verdict == Some(Verdict::NoCall);
    "result-of-unsent-call", false, "its call is not sent",
        |f| f.verdict == Some(Verdict::Outside);
};

#[cfg(test)]
mod tests {
    use super::*;

    /// Covers: G6. Every combination of facts gets exactly one label.
    #[test]
    fn every_record_matches_exactly_one_rule() {
        use {Content as C, Place as P, Verdict as V};
        let places = [
            P::Metadata,
            P::OffPath,
            P::Summarised,
            P::OlderSummary,
            P::Boundary,
            P::Kept,
            P::OnPath,
        ];
        let contents = [C::Whole, C::Partial, C::Edited, C::Omitted, C::Empty, C::Unreadable];
        let verdicts =
            [V::Answers, V::Replaces, V::Duplicate, V::Superseded, V::NoCall, V::Outside];
        let verdicts: Vec<_> = std::iter::once(None).chain(verdicts.map(Some)).collect();
        for place in places {
            for content in contents {
                for &verdict in &verdicts {
                    let facts = Facts { place, content, verdict };
                    let found: Vec<_> =
                        RULES.iter().filter(|r| (r.matches)(&facts)).map(|r| r.label).collect();
                    assert_eq!(found.len(), 1, "{facts:?} matches {found:?}");
                }
            }
        }
    }

    #[test]
    fn labels_are_unique() {
        let labels: std::collections::BTreeSet<_> = RULES.iter().map(|r| r.label).collect();
        assert_eq!(labels.len(), RULES.len());
    }
}
