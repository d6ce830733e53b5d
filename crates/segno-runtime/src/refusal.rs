//! What is left out after a provider refused a request.
//!
//! Responsible for: one diagnosis per refused request, as one labelled table, and its record: an edit of the
//! context that holds for later requests and can be taken back. Must not: leave out a person's words, or part
//! a call from its result; decide about failures that are no refusals (that is [`crate::retry`]).

use crate::event::Event;
use crate::run::{Driver, RunError};
use crate::{Model, ModelError, ModelErrorKind, RefusedPart, Session, Tools};
use segno_model::Seq;
use segno_model::context::{Context, ContextMessage};
use segno_model::record::{AssistantBlock, Block, Body, ContextEdit, EditPart, Message};
use segno_model::store::{Level, SessionLog};

/// How many refusals in a row one step answers, each by leaving something else out.
pub(crate) const MOST: u32 = 4;

/// Whose words the refused record holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Whose {
    /// A person's, or Segno's on the person's side.
    User,
    /// The model's.
    Reply,
    /// A tool's.
    Result,
    /// A tool's that is left out already.
    EmptiedResult,
    /// A summary, or the state in its place.
    Summary,
}

/// What is known about a refusal.
#[derive(Debug, Clone, Copy)]
struct Facts {
    /// What the provider's words are about.
    part: RefusedPart,
    /// The record that it is about, if it can be told; with what it holds.
    record: Option<Holds>,
    /// Whether anything that was sent can be read only by its maker.
    any_thinking: bool,
}

/// A record that was sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Holds {
    whose: Whose,
    /// Reasoning, or items that only its maker can read.
    thinking: bool,
    images: bool,
}

/// What is to be done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    /// Once more without this part of the record.
    Part(EditPart),
    /// Once more with a line in the place of the record.
    Whole,
    /// Once more without any reasoning.
    AllThinking,
    /// Once more: whoever speaks to the provider knows better now.
    Again,
    /// Nothing can be left out.
    Fail,
}

struct Row {
    #[cfg_attr(not(test), allow(dead_code))]
    label: &'static str,
    matches: fn(&Facts) -> bool,
    verdict: Verdict,
}

/// Every refusal matches exactly one row.
const TABLE: &[Row] = &[
    Row {
        label: "the model takes no images at all",
        matches: |f| f.part == RefusedPart::AnyImage,
        verdict: Verdict::Again,
    },
    Row {
        label: "the reasoning or the own items of a reply, or a provider's own state",
        matches: |f| f.about().is_some_and(Holds::is_makers),
        verdict: Verdict::Part(EditPart::Thinking),
    },
    Row {
        label: "the images of a message or of a result",
        matches: |f| {
            f.about().is_some_and(|holds| {
                f.part != RefusedPart::Thinking && holds.images && !holds.is_makers()
            })
        },
        verdict: Verdict::Part(EditPart::Images),
    },
    Row {
        label: "a result",
        matches: |f| {
            f.about().is_some_and(|holds| {
                holds.whose == Whose::Result && !(holds.images && f.part != RefusedPart::Thinking)
            })
        },
        verdict: Verdict::Whole,
    },
    Row {
        label: "some reasoning, nobody says which",
        matches: |f| f.is_some_thinking(),
        verdict: Verdict::AllThinking,
    },
    Row {
        label: "a person's words, a call, a summary, or nobody can tell",
        matches: |f| f.part != RefusedPart::AnyImage && !f.is_some_thinking() && !f.can_be_spared(),
        verdict: Verdict::Fail,
    },
];

impl Holds {
    /// Only its maker can read it, and the same is there otherwise.
    fn is_makers(self) -> bool {
        matches!(self.whose, Whose::Reply | Whose::Summary) && self.thinking
    }
}

impl Facts {
    fn about(&self) -> Option<Holds> {
        self.record.filter(|_| self.part != RefusedPart::AnyImage)
    }

    fn is_some_thinking(&self) -> bool {
        self.part == RefusedPart::Thinking && self.any_thinking && !self.can_be_spared()
    }

    /// The record holds something that may be left out.
    fn can_be_spared(&self) -> bool {
        self.about().is_some_and(|holds| {
            holds.is_makers()
                || (holds.images && self.part != RefusedPart::Thinking)
                || holds.whose == Whose::Result
        })
    }

    fn verdict(&self) -> Verdict {
        let row = TABLE.iter().find(|row| (row.matches)(self));
        row.map_or(Verdict::Fail, |row| row.verdict)
    }
}

/// The records of a request, in order, with what each holds.
fn sent<L: SessionLog>(session: &Session<L>, context: &Context) -> Vec<(Seq, Holds)> {
    let has_images = |blocks: &[Block]| blocks.iter().any(|b| matches!(b, Block::Image { .. }));
    let mut all = Vec::new();
    for message in &context.messages {
        match message {
            ContextMessage::User { seq, content } => {
                let is_message = session.record(*seq).is_some_and(|record| {
                    matches!(record.body(), Body::Message(m) if matches!(**m, Message::User(_)))
                });
                let whose = if is_message { Whose::User } else { Whose::Summary };
                let images = is_message && has_images(content);
                all.push((*seq, Holds { whose, thinking: false, images }));
            }
            ContextMessage::State(state) => {
                all.push((
                    state.seq,
                    Holds { whose: Whose::Summary, thinking: true, images: false },
                ));
            }
            ContextMessage::Assistant(turn) => {
                let reasons = |b: &AssistantBlock| matches!(b, AssistantBlock::Thinking { .. });
                let thinking = turn.native.is_some() || turn.content.iter().any(reasons);
                all.push((turn.seq, Holds { whose: Whose::Reply, thinking, images: false }));
            }
            ContextMessage::Results(results) => all.extend(results.iter().filter_map(|result| {
                let seq = result.seq?;
                let edit = in_force(session, seq).is_some_and(|edit| edit.parts.is_empty());
                let whose = if edit { Whose::EmptiedResult } else { Whose::Result };
                Some((seq, Holds { whose, thinking: false, images: has_images(&result.content) }))
            })),
        }
    }
    all
}

/// The edit of a record that counts now.
fn in_force<L: SessionLog>(session: &Session<L>, target: Seq) -> Option<&ContextEdit> {
    let at = session.state().in_force.context_edits.get(&target)?;
    match session.record(at.seq)?.body() {
        Body::ContextEdit(edit) => Some(edit),
        _ => None,
    }
}

/// The record that a refusal is about: the one that the provider names, or the only one with an image since the
/// model last answered: everything before that was taken.
fn about(error: &ModelError, sent: &[(Seq, Holds)]) -> Option<(Seq, Holds)> {
    let refusal = error.refusal?;
    if let Some(seq) = refusal.seq {
        return sent.iter().find(|(sent, _)| *sent == seq).copied();
    }
    let since =
        sent.iter().rposition(|(_, holds)| holds.whose == Whose::Reply).map_or(0, |at| at + 1);
    let mut with = sent[since..].iter().filter(|(_, holds)| holds.images);
    match (refusal.part, with.next(), with.next()) {
        (RefusedPart::Images, Some(only), None) => Some(*only),
        _ => None,
    }
}

impl<L: SessionLog, M: Model, T: Tools> Driver<'_, L, M, T> {
    /// Leaves out what a refusal is about, if it can be told and spared; true when the request may be made
    /// again.
    pub(crate) async fn leave_out_refused(&mut self, error: &ModelError) -> Result<bool, RunError> {
        let part = match (error.kind, error.refusal) {
            (ModelErrorKind::Thinking, _) => RefusedPart::Thinking,
            (ModelErrorKind::Refused, Some(refusal)) => refusal.part,
            _ => return Ok(false),
        };
        let target = self.target();
        let context = self.session.context_for(&self.env.model, target.as_ref()).await;
        let sent = sent(self.session, &context);
        let about = about(error, &sent);
        let replies = sent.iter().filter(|(_, holds)| holds.is_makers());
        let replies: Vec<Seq> = replies.map(|(seq, _)| *seq).collect();
        let record = about.map(|(_, holds)| holds);
        let verdict = Facts { part, record, any_thinking: !replies.is_empty() }.verdict();
        let (seqs, parts) = match (verdict, about) {
            (Verdict::Again, _) => (Vec::new(), Vec::new()),
            (Verdict::AllThinking, _) => (replies, vec![EditPart::Thinking]),
            (Verdict::Part(part), Some((seq, _))) => (vec![seq], vec![part]),
            (Verdict::Whole, Some((seq, _))) => (vec![seq], Vec::new()),
            (Verdict::Fail | Verdict::Part(_) | Verdict::Whole, _) => return Ok(false),
        };
        let left = match verdict {
            Verdict::Again => RefusedPart::AnyImage,
            Verdict::AllThinking | Verdict::Part(EditPart::Thinking) => RefusedPart::Thinking,
            Verdict::Part(_) => RefusedPart::Images,
            Verdict::Whole | Verdict::Fail => RefusedPart::Other,
        };
        let edits: Vec<Body> =
            seqs.iter().map(|seq| Body::ContextEdit(self.without(*seq, &parts))).collect();
        if !edits.is_empty() {
            self.append(edits, Level::Written).await?;
        }
        self.observer.event(Event::LeftOut { seqs: &seqs, part: left, reason: &error.message });
        Ok(true)
    }

    /// The edit that leaves out these parts of a record, besides those that are left out already.
    fn without(&self, target: Seq, parts: &[EditPart]) -> ContextEdit {
        let before = in_force(self.session, target).map_or(&[][..], |edit| &edit.parts);
        let mut all = before.to_vec();
        all.extend(parts.iter().filter(|part| !before.contains(part)));
        ContextEdit {
            target,
            edit: "omit".to_owned(),
            parts: if parts.is_empty() { Vec::new() } else { all },
            cause: Some(ContextEdit::REFUSED.to_owned()),
            ..ContextEdit::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PARTS: [RefusedPart; 4] =
        [RefusedPart::Thinking, RefusedPart::Images, RefusedPart::AnyImage, RefusedPart::Other];
    const WHOSE: [Whose; 5] =
        [Whose::User, Whose::Reply, Whose::Result, Whose::EmptiedResult, Whose::Summary];

    /// Covers: #46, G6. Every refusal matches exactly one row; a person's words and a call are never
    /// left out.
    #[test]
    fn every_refusal_matches_exactly_one_row() {
        let mut records = vec![None];
        for whose in WHOSE {
            for bits in 0..4 {
                records.push(Some(Holds { whose, thinking: bits & 1 == 1, images: bits & 2 == 2 }));
            }
        }
        for part in PARTS {
            for record in &records {
                for any_thinking in [true, false] {
                    let facts = Facts { part, record: *record, any_thinking };
                    let rows: Vec<_> = TABLE.iter().filter(|r| (r.matches)(&facts)).collect();
                    let labels: Vec<_> = rows.iter().map(|r| r.label).collect();
                    assert_eq!(rows.len(), 1, "{facts:?} matches {labels:?}");
                    let whole = rows[0].verdict == Verdict::Whole;
                    assert!(
                        !whole || record.is_some_and(|r| r.whose == Whose::Result),
                        "{facts:?}"
                    );
                }
            }
        }
    }
}
