//! What a target cannot hold.
//!
//! Responsible for: the kinds of loss, their words, and counting them. Must not: decide what is lost.

use segno_model::Seq;
use serde::Serialize;
use std::collections::BTreeMap;

/// A kind of thing that does not come along, or comes along as something else.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum LossKind {
    /// Reasoning that only its own provider can read, or that nobody signed.
    Thinking,
    /// Branches other than the current one.
    Branches,
    /// What was said before the newest summary.
    BeforeSummary,
    /// What a summary keeps cannot be told as kept.
    Kept,
    /// Edits of the context: what they left out or replaced.
    Edits,
    /// Calls and reasoning of replies that broke off.
    BrokenReplies,
    /// Calls without a result: they get one that says that the outcome is unknown.
    Unanswered,
    /// Second results of a call, and results without a call.
    LooseResults,
    /// The mark that a result is a failure; its text stays.
    Failures,
    /// Whole outputs of which the model was shown a part.
    WholeOutputs,
    /// Large values that are gone.
    MissingBlobs,
    /// Pieces of content that this version does not know.
    UnknownContent,
    /// Arguments of calls that are no JSON object.
    BadArguments,
    /// Images.
    Images,
    /// Sessions of subagents.
    Subagents,
    /// The title.
    Title,
    /// Tokens that were used.
    Usage,
    /// Which model answered.
    Models,
    /// What was told to the model without being anybody's words, told as the person's.
    Notices,
    /// Settings, tasks, labels, questions of permission.
    Metadata,
}

impl LossKind {
    /// What it means, for people; a count stands before it.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Self::Thinking => "piece(s) of reasoning that only their own provider can read",
            Self::Branches => "branch(es) beside the current one",
            Self::BeforeSummary => "message(s) that stand before the newest summary",
            Self::Kept => "message(s) that a summary keeps, told as part of it",
            Self::Edits => {
                "edit(s) of the context: what they left out or replaced is not in the copy"
            }
            Self::BrokenReplies => "repl(ies) that broke off: only their finished text",
            Self::Unanswered => "call(s) without a result: told as unknown",
            Self::LooseResults => "second result(s), or result(s) without a call",
            Self::Failures => "mark(s) of results as failed",
            Self::WholeOutputs => "whole output(s) of which the model was shown a part",
            Self::MissingBlobs => "large value(s) that are gone",
            Self::UnknownContent => "piece(s) of content of an unknown kind",
            Self::BadArguments => "call(s) whose arguments are no JSON object, told as text",
            Self::Images => "image(s)",
            Self::Subagents => "session(s) of subagents",
            Self::Title => "title",
            Self::Usage => "count(s) of tokens",
            Self::Models => "name(s) of models",
            Self::Notices => "notice(s) to the model, told as the person's words",
            Self::Metadata => {
                "record(s) beside the conversation: settings, tasks, labels, permissions"
            }
        }
    }
}

/// What is lost of one kind.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Loss {
    /// What.
    pub kind: LossKind,
    /// How many.
    pub count: u64,
    /// The records that it is about, ascending; none for what is no record.
    pub records: Vec<Seq>,
}

/// What is lost, as it is found.
#[derive(Debug, Clone, Default)]
pub struct Losses(BTreeMap<LossKind, (u64, Vec<Seq>)>);

impl Losses {
    /// Something of the record `seq`.
    pub(super) fn of(&mut self, kind: LossKind, seq: Seq) {
        let (count, records) = self.0.entry(kind).or_default();
        *count += 1;
        records.push(seq);
    }

    /// Something that is no record.
    pub(super) fn add(&mut self, kind: LossKind, count: u64) {
        if count > 0 {
            self.0.entry(kind).or_default().0 += count;
        }
    }

    /// All, by kind.
    pub(super) fn into_list(self) -> Vec<Loss> {
        let loss = |(kind, (count, mut records)): (LossKind, (u64, Vec<Seq>))| {
            records.sort_unstable();
            records.dedup();
            Loss { kind, count, records }
        };
        self.0.into_iter().map(loss).collect()
    }
}
