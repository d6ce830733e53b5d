//! The two views of a session: the transcript (everything) and the context (what the next request would
//! hold).
//!
//! Responsible for: both, from the same stream. The context is built by the same pure function as for our
//! own sessions; only the records that it needs are held. Must not: know any agent.

use super::facts::Facts;
use super::input::ForeignError;
use super::item::{ForeignRecord, Item};
use super::locate::Located;
use super::outline::Short;
use super::state::is_state;
use segno_model::context::{self, Context};
use segno_model::finding::Finding;
use segno_model::record::{
    AssistantBlock, AssistantMessage, Compaction, Custom, Message, ToolCall, ToolMessage,
    UserMessage,
};
use segno_model::{Body, Pos, Record, Seq};
use serde_json::value::RawValue;
use std::collections::{HashMap, HashSet};
use std::ops::ControlFlow;

/// A session held in memory: all of it, or what the context needs.
#[derive(Debug, Clone, Default)]
pub struct View {
    /// What is known about it.
    pub facts: Facts,
    /// The records, in the order of reading.
    pub records: Vec<ForeignRecord>,
    /// The current node; none when there is none.
    pub tip: Option<Seq>,
    /// What was noticed while reading.
    pub findings: Vec<Finding>,
}

impl View {
    /// Everything. For sessions of any size read the stream instead ([`super::read`]).
    ///
    /// # Errors
    /// As [`super::read`].
    pub fn transcript(session: &Located) -> Result<Self, ForeignError> {
        Self::of(session, Some)
    }

    /// Everything that a conversion looks at: the same without what is kept as its agent wrote it and is no part of
    /// what was said, which is often more than that.
    ///
    /// # Errors
    /// As [`super::read`].
    pub fn to_convert(session: &Located) -> Result<Self, ForeignError> {
        Self::of(session, |read| match read.record.body() {
            Body::Custom(_) if !read.record.is_node() => is_state(&read.record).then(|| {
                // That there is one is all that is told of it.
                ForeignRecord { record: read.record.reduced(without_data), ..read }
            }),
            _ => Some(read),
        })
    }

    fn of(
        session: &Located,
        keep: impl Fn(ForeignRecord) -> Option<ForeignRecord>,
    ) -> Result<Self, ForeignError> {
        let mut view = Self::default();
        let mut last = None;
        super::read(session, &mut |item| {
            view.note(&mut last, &item);
            match item {
                // The first one tells when it began.
                Item::Record(record) if view.records.is_empty() => view.records.push(record),
                Item::Record(record) => view.records.extend(keep(record)),
                Item::Fact(fact) => view.facts.take(fact),
                Item::Finding(finding) => view.findings.push(finding),
            }
            ControlFlow::Continue(())
        })?;
        view.tip = view.facts.tip.unwrap_or(last);
        Ok(view)
    }

    /// What the context needs. Reads the session twice and holds, besides that, twelve bytes per record.
    ///
    /// # Errors
    /// As [`super::read`].
    pub fn active(session: &Located) -> Result<Self, ForeignError> {
        Self::active_as(session, &|record| record)
    }

    /// The same without what was said: which calls there are, and which results.
    ///
    /// # Errors
    /// As [`super::read`].
    pub(crate) fn pairs(session: &Located) -> Result<Self, ForeignError> {
        Self::active_as(session, &|read| ForeignRecord {
            record: read.record.reduced(without_words),
            pieces: Vec::new(),
            ..read
        })
    }

    fn active_as(
        session: &Located,
        keep: &dyn Fn(ForeignRecord) -> ForeignRecord,
    ) -> Result<Self, ForeignError> {
        let mut outline = Outline::default();
        let mut view = Self::default();
        let mut last = None;
        super::read(session, &mut |item| {
            view.note(&mut last, &item);
            match item {
                Item::Record(record) => outline.take(&record),
                Item::Fact(fact) => view.facts.take(fact),
                Item::Finding(finding) => view.findings.push(finding),
            }
            ControlFlow::Continue(())
        })?;
        view.tip = view.facts.tip.unwrap_or(last);
        let needed = outline.needed(view.tip);
        super::read(session, &mut |item| {
            if let Item::Record(record) = item
                && needed.contains(&record.record.seq())
            {
                view.records.push(keep(record));
            }
            ControlFlow::Continue(())
        })?;
        Ok(view)
    }

    /// What the next request would hold.
    #[must_use]
    pub fn context(&self) -> Context {
        let main = self.records.iter().filter(|r| r.subagent.is_none());
        let records: Vec<&Record> = main.map(|r| &r.record).collect();
        context::build(&records, self.tip.map(pos))
    }

    fn note(&mut self, last: &mut Option<Seq>, item: &Item) {
        if let Item::Record(record) = item
            && record.subagent.is_none()
            && record.record.is_node()
        {
            *last = Some(record.record.seq());
            self.facts.node();
        }
    }
}

/// What a record is, without what an agent or an extension keeps in it.
fn without_data(body: Body) -> Body {
    match body {
        Body::Custom(custom) => Body::Custom(Custom { data: RawValue::NULL.to_owned(), ..custom }),
        other => other,
    }
}

/// What a record is, without its words.
fn without_words(body: Body) -> Body {
    match body {
        Body::Message(message) => Body::Message(Box::new(match *message {
            Message::User(user) => Message::User(UserMessage { content: Vec::new(), ..user }),
            Message::Assistant(reply) => Message::Assistant(AssistantMessage {
                content: reply.calls().map(bare).collect(),
                native: None,
                ..reply
            }),
            Message::Tool(result) => Message::Tool(ToolMessage { content: Vec::new(), ..result }),
        })),
        other => other,
    }
}

fn bare(call: &ToolCall) -> AssistantBlock {
    let (id, name) = (call.id.clone(), call.name.clone());
    AssistantBlock::ToolCall(ToolCall { id, name, arguments: String::new() })
}

/// The position of a record that has only a number.
#[must_use]
pub fn pos(seq: Seq) -> Pos {
    Pos { seq, offset: 0, crc: 0 }
}

/// The shape of a session, without what was said.
#[derive(Debug, Default)]
struct Outline {
    /// Of each record, as most are nodes; [`Short::LAST`] for none.
    parents: Vec<Short>,
    compactions: HashMap<Seq, (Option<Seq>, Vec<Seq>)>,
    /// Results with the record that made the call, in the order of the results.
    results: Vec<(Short, Short)>,
    edits: Vec<(Seq, Seq)>,
}

impl Outline {
    fn take(&mut self, read: &ForeignRecord) {
        if read.subagent.is_some() {
            return;
        }
        let (record, seq) = (&read.record, read.record.seq());
        if let Some(parent) = record.envelope.parent.filter(|_| record.is_node())
            && let Ok(at) = usize::try_from(seq)
        {
            self.parents.resize(at, Short::LAST);
            self.parents.push(Short::of(parent));
        }
        match record.body() {
            Body::Compaction(compaction) => {
                self.compactions.insert(seq, kept(compaction));
            }
            Body::ContextEdit(edit) => self.edits.push((edit.target, seq)),
            Body::Message(message) => {
                if let Message::Tool(result) = &**message
                    && let Some(call) = result.call_seq
                {
                    self.results.push((Short::of(call), Short::of(seq)));
                }
            }
            _ => {}
        }
    }

    fn parent(&self, seq: Seq) -> Option<Seq> {
        let parent = self.parents.get(usize::try_from(seq).ok()?)?;
        Some(parent.seq()).filter(|_| *parent != Short::LAST)
    }

    /// The path from the tip to what its newest compaction keeps, with all results and edits.
    fn needed(&self, tip: Option<Seq>) -> HashSet<Seq> {
        let mut needed = HashSet::new();
        let mut at = tip;
        let mut until: Option<Option<Seq>> = None;
        while let Some(seq) = at {
            if until.flatten().is_some_and(|first| seq < first) || !needed.insert(seq) {
                break;
            }
            if until.is_none()
                && let Some((first, kept)) = self.compactions.get(&seq)
            {
                needed.extend(kept);
                until = Some(*first);
                if first.is_none() {
                    break;
                }
            }
            at = self.parent(seq);
        }
        let answers = self.results.iter().filter(|(call, _)| needed.contains(&call.seq()));
        let answers: Vec<Seq> = answers.map(|(_, result)| result.seq()).collect();
        needed.extend(answers);
        let edits: Vec<Seq> = self
            .edits
            .iter()
            .filter(|(of, _)| needed.contains(of))
            .map(|(_, edit)| *edit)
            .collect();
        needed.extend(edits);
        needed
    }
}

fn kept(compaction: &Compaction) -> (Option<Seq>, Vec<Seq>) {
    (compaction.first_kept.map(|at| at.seq), compaction.kept.iter().map(|at| at.seq).collect())
}
