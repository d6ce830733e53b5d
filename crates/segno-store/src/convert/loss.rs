//! What a target cannot hold.
//!
//! Responsible for: the kinds of loss, their words, and counting them. Must not: decide what is lost.

use super::Session;
use segno_model::Seq;
use serde::Serialize;
use std::collections::BTreeMap;

/// A kind of thing that does not come along, or comes along as something else.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum LossKind {
    /// Places that are damaged: what cannot be read of them is not in any copy.
    Damage,
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
    /// What an agent told the model of its own surroundings, rules and instructions, left out.
    Surroundings,
    /// What was told to the model without being anybody's words, told as the person's.
    Notices,
    /// Settings, tasks, labels, questions of permission.
    Metadata,
    /// State of an agent, an extension or an embedder: snapshots of files, an extension's own records.
    State,
}

impl LossKind {
    /// What it means, for people, with how many there are.
    #[must_use]
    pub fn words(self, count: u64) -> String {
        let (one, many) = self.one_and_many();
        if count == 1 { format!("1 {one}") } else { format!("{count} {many}") }
    }

    fn one_and_many(self) -> (&'static str, &'static str) {
        match self {
            Self::Damage => (
                "damaged place, of which comes along what can be read",
                "damaged places, of which comes along what can be read",
            ),
            Self::Thinking => (
                "piece of reasoning that only its own provider can read",
                "pieces of reasoning that only their own provider can read",
            ),
            Self::Branches => ("branch beside the current one", "branches beside the current one"),
            Self::BeforeSummary => (
                "message from before the newest summary",
                "messages from before the newest summary",
            ),
            Self::Kept => (
                "message that a summary keeps, told as a part of it",
                "messages that a summary keeps, told as a part of it",
            ),
            Self::Edits => (
                "thing that was edited out of the context",
                "things that were edited out of the context",
            ),
            Self::BrokenReplies => (
                "reply that broke off, but for its finished text",
                "replies that broke off, but for their finished text",
            ),
            Self::Unanswered => (
                "call without a result, told as unknown",
                "calls without a result, told as unknown",
            ),
            Self::LooseResults => (
                "result without a call, or the second one of a call",
                "results without a call, or second ones of a call",
            ),
            Self::Failures => ("mark of a result as a failure", "marks of results as failures"),
            Self::WholeOutputs => (
                "whole output of which the model was shown a part",
                "whole outputs of which the model was shown a part",
            ),
            Self::MissingBlobs => ("large value that is gone", "large values that are gone"),
            Self::UnknownContent => {
                ("piece of content of an unknown kind", "pieces of content of unknown kinds")
            }
            Self::BadArguments => (
                "call whose arguments are no JSON object, told as text",
                "calls whose arguments are no JSON objects, told as text",
            ),
            Self::Images => ("image", "images"),
            Self::Subagents => ("session of a subagent", "sessions of subagents"),
            Self::Title => ("title", "titles"),
            Self::Usage => ("count of tokens", "counts of tokens"),
            Self::Models => ("name of a model's provider", "names of models' providers"),
            Self::Surroundings => (
                "notice of the agent's own surroundings or instructions, left out",
                "notices of the agent's own surroundings or instructions, left out",
            ),
            Self::Notices => (
                "notice to the model, told as the person's words",
                "notices to the model, told as the person's words",
            ),
            Self::Metadata => (
                "record of a setting, a task or a permission",
                "records of settings, tasks or permissions",
            ),
            Self::State => (
                "record of an extension's state or a snapshot of files",
                "records of an extension's state or snapshots of files",
            ),
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
    /// The id of the subagent's session in which these records are, or that is lost; none is the session itself.
    pub subagent: Option<String>,
}

/// What is lost, as it is found.
#[derive(Debug, Clone, Default)]
pub struct Losses {
    found: BTreeMap<(Option<String>, LossKind), (u64, Vec<Seq>)>,
    /// Whose session is being written.
    subagent: Option<String>,
}

impl Losses {
    /// Something of the record `seq`.
    pub(super) fn of(&mut self, kind: LossKind, seq: Seq) {
        let (count, records) = self.found.entry((self.subagent.clone(), kind)).or_default();
        *count += 1;
        records.push(seq);
    }

    /// Something that is no record.
    pub(super) fn add(&mut self, kind: LossKind, count: u64) {
        if count > 0 {
            self.found.entry((self.subagent.clone(), kind)).or_default().0 += count;
        }
    }

    /// What `write` loses is a subagent's.
    pub(super) fn within(&mut self, child: &Session, write: impl FnOnce(&mut Self)) {
        let outside = self.subagent.replace(child.id.clone());
        write(self);
        self.subagent = outside;
    }

    /// All, the session's own first, by kind.
    pub(super) fn into_list(self) -> Vec<Loss> {
        let loss = |((subagent, kind), (count, mut records)): (_, (u64, Vec<Seq>))| {
            records.sort_unstable();
            records.dedup();
            Loss { kind, count, records, subagent }
        };
        self.found.into_iter().map(loss).collect()
    }
}
