//! A session to be exported, whoever's it is.
//!
//! Responsible for: what is known about it, its records in the order in which they were written with what was
//! noticed between them, and the sessions of its subagents. Must not: know any format, or mask.

use crate::commands::show::{Answered, unsent_of_log};
use crate::commands::{Workplace, children};
use crate::config;
use crate::costs::SessionCosts;
use crate::error::CliError;
use crate::history::{History, blocks_text, stored_text};
use crate::others::{Other, Target, shown};
use crate::price::Prices;
use base64::Engine as _;
use segno_model::accounting::Sum;
use segno_model::child::{parent_of, role_of};
use segno_model::finding::{Finding, Severity};
use segno_model::record::{BlobRef, Block, Body, Message, Text as Stored};
use segno_model::store::SessionStore as _;
use segno_model::tree::Tree;
use segno_model::{Record, Seq, SessionId, Timestamp};
use segno_store::foreign::{self, Item};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::io;
use std::ops::ControlFlow;

/// Blobs are put into an export up to this many bytes each, and in all.
const BLOB_MAX: u64 = 8 << 20;
const BLOBS_MAX: u64 = 64 << 20;

/// What stands at the head of an export.
#[derive(Debug, Default)]
pub(super) struct Head {
    /// How commands name it without a doubt.
    pub(super) word: String,
    /// Whose it is.
    pub(super) agent: String,
    pub(super) title: String,
    pub(super) cwd: String,
    pub(super) branch: Option<String>,
    pub(super) created: Option<Timestamp>,
    pub(super) last: Option<Timestamp>,
    pub(super) models: Vec<String>,
    pub(super) messages: usize,
    pub(super) sum: Sum,
    /// How many places are damaged.
    pub(super) damages: usize,
    /// A subagent's role.
    pub(super) role: Option<String>,
    /// The session that started it.
    pub(super) parent: Option<String>,
    /// The session that it was forked from.
    pub(super) forked: Option<String>,
    /// What is said where the original is gone and this is a copy.
    pub(super) gone: Option<String>,
}

/// A session, open for export.
#[derive(Debug)]
pub(super) struct Subject {
    pub(super) head: Head,
    source: Source,
    /// The nodes of the current branch.
    path: HashSet<Seq>,
    blobs: HashMap<String, Vec<u8>>,
    /// Children by the ids that the log has for them, where theirs are others.
    renamed: BTreeMap<String, String>,
}

#[derive(Debug)]
enum Source {
    Own(Box<History>),
    Other(Box<Other>),
}

/// A piece of a session.
#[derive(Debug)]
pub(super) enum Part<'a> {
    /// Something that was said or done.
    Record(Told<'a>),
    /// Something that was noticed there.
    Finding(&'a Finding),
    /// A prompt that was never delivered.
    Waiting(&'a str),
}

/// A record, and what there is to know about it that it does not say itself.
#[derive(Debug, Clone, Copy)]
pub(super) struct Told<'a> {
    pub(super) record: &'a Record,
    /// When, if its agent wrote that down.
    pub(super) at: Option<Timestamp>,
    /// Whether it is on the current branch.
    pub(super) current: bool,
    /// The node behind which it goes on, where that is not the one before it.
    pub(super) behind: Option<Seq>,
    /// What became of it afterwards.
    pub(super) fate: Option<&'static str>,
}

/// Why a session was not written to its end.
pub(super) enum Broken {
    /// It could not be read.
    Read(CliError),
    /// The output took no more.
    Write(io::Error),
}

impl From<io::Error> for Broken {
    fn from(error: io::Error) -> Self {
        Self::Write(error)
    }
}

impl Subject {
    /// Opens a session and looks through it once.
    ///
    /// # Errors
    /// When it cannot be read.
    pub(super) async fn open(target: Target, place: &Workplace) -> Result<Self, CliError> {
        match target {
            Target::Own(id) => Self::own(&id, place).await,
            Target::Other(session) => Self::other(session, place),
        }
    }

    async fn own(id: &SessionId, place: &Workplace) -> Result<Self, CliError> {
        let history = History::read(&place.stores, id).await?;
        let header = history.header();
        let prices = Prices::new(&config::read(&place.stores.home.config)?.prices);
        let sum = SessionCosts::read(&place.stores, id)?.total(&place.stores, &prices);
        let mut head = Head {
            word: id.to_string(),
            agent: "Segno".to_owned(),
            title: history.title().unwrap_or("Session").to_owned(),
            cwd: header.map(|header| header.project.cwd.clone()).unwrap_or_default(),
            branch: header.and_then(|header| header.git.as_ref()?.branch.clone()),
            parent: header.and_then(parent_of).map(|parent| parent.to_string()),
            role: header.and_then(role_of).map(str::to_owned),
            damages: history.damages(),
            sum,
            ..Head::default()
        };
        history.records.iter().for_each(|record| head.take(record, true));
        let path = Tree::new(&history.records).path(history.tip());
        let path = path.iter().map(|record| record.seq()).collect();
        let blobs = blobs(&history, id, place).await;
        let renamed = children::renamed(place, id, &history.records).await?;
        Ok(Self { head, path, blobs, renamed, source: Source::Own(Box::new(history)) })
    }

    fn other(session: Box<Other>, place: &Workplace) -> Result<Self, CliError> {
        let row = &session.row;
        let version = row.version.as_deref().map(|v| format!(" {v}")).unwrap_or_default();
        let mut head = Head {
            word: session.word(),
            agent: format!("{}{version}", row.agent),
            title: session.title().unwrap_or("Session").to_owned(),
            cwd: row.project.cwd.clone(),
            branch: row.branch.clone(),
            role: row.role.clone(),
            parent: row.parent.clone(),
            forked: row.fork_of.as_ref().map(|id| format!("{}:{id}", row.agent.id())),
            gone: session.gone(),
            ..Head::default()
        };
        let prices = Prices::new(&config::read(&place.stores.home.config)?.prices);
        let (mut parents, mut last, mut tip) = (HashMap::new(), None, None);
        let mut counted = HashSet::new();
        foreign::read(&session.located(), &mut |item| {
            match item {
                Item::Record(read) if read.subagent.is_none() => {
                    if read.record.is_node() {
                        parents.insert(read.record.seq(), read.record.envelope.parent);
                        (last, tip) = (Some(read.record.seq()), None);
                    }
                    head.take(&read.record, read.dated);
                    let fresh = read.response.clone().is_none_or(|id| counted.insert(id));
                    if !read.copy && fresh {
                        head.spend(&read.record, &prices);
                    }
                }
                Item::Fact(foreign::Fact::Tip(named)) => tip = Some(named),
                Item::Finding(f) => head.damages += usize::from(f.severity == Severity::Damage),
                _ => {}
            }
            ControlFlow::Continue(())
        })?;
        let path = path(&parents, tip.unwrap_or(last));
        let source = Source::Other(session);
        Ok(Self { head, source, path, blobs: HashMap::new(), renamed: BTreeMap::new() })
    }

    /// The child that the log names so.
    pub(super) fn child<'a>(&'a self, named: &'a str) -> &'a str {
        self.renamed.get(named).map_or(named, String::as_str)
    }

    /// Whether it is one of ours.
    pub(super) fn is_own(&self) -> bool {
        matches!(self.source, Source::Own(_))
    }

    /// The sessions of its subagents.
    ///
    /// # Errors
    /// When they cannot be listed.
    pub(super) fn children(&self, place: &Workplace) -> Result<Vec<Target>, CliError> {
        Ok(match &self.source {
            Source::Own(history) => {
                let children = place.stores.files.children_now(&history.id)?;
                children.into_iter().map(|child| Target::Own(child.id)).collect()
            }
            Source::Other(session) => {
                let found = session.all_subagents();
                found.into_iter().map(|child| Target::Other(Box::new(child))).collect()
            }
        })
    }

    /// Everything in it, in order.
    ///
    /// # Errors
    /// When it cannot be read to its end, or `each` fails.
    pub(super) fn each(
        &self,
        each: &mut dyn FnMut(Part<'_>) -> io::Result<()>,
    ) -> Result<(), Broken> {
        match &self.source {
            Source::Own(history) => Ok(self.each_own(history, each)?),
            Source::Other(session) => self.each_other(session, each),
        }
    }

    fn each_own(
        &self,
        history: &History,
        each: &mut dyn FnMut(Part<'_>) -> io::Result<()>,
    ) -> io::Result<()> {
        let mut findings: Vec<&Finding> = history.findings.iter().collect();
        findings.sort_by_key(|finding| finding.seq.unwrap_or(0));
        let mut findings = findings.into_iter().peekable();
        let (mut last, mut current) = (None, true);
        let unsent = unsent_of_log(&history.records);
        for record in &history.records {
            let seq = record.seq();
            while let Some(finding) = findings.next_if(|f| f.seq.unwrap_or(0) <= seq) {
                each(Part::Finding(finding))?;
            }
            let behind = turned(record, last);
            if record.is_node() {
                (last, current) = (Some(seq), self.is_current(record));
            }
            let fate = fate(history, record).or_else(|| unsent.get(&seq).copied());
            let at = Some(record.envelope.at);
            each(Part::Record(Told { record, at, current, behind, fate }))?;
        }
        findings.try_for_each(|finding| each(Part::Finding(finding)))
    }

    fn each_other(
        &self,
        session: &Other,
        each: &mut dyn FnMut(Part<'_>) -> io::Result<()>,
    ) -> Result<(), Broken> {
        let (mut last, mut waiting, mut done) = (None, Vec::new(), Ok(()));
        let mut answered = Answered::default();
        foreign::read(&session.located(), &mut |item| {
            done = match item {
                Item::Record(read) if read.subagent.is_some() => Ok(()),
                // What a fork copied stands once in it.
                Item::Record(read) if read.copy && !read.inherited => Ok(()),
                Item::Record(read) => {
                    let record = &*shown(session.row.agent, &read);
                    let behind = turned(record, last);
                    if record.is_node() {
                        last = Some(record.seq());
                    }
                    let current = !record.is_node() || self.is_current(record);
                    let at = read.dated.then_some(record.envelope.at);
                    let fate = answered.take(record);
                    each(Part::Record(Told { record, at, current, behind, fate }))
                }
                Item::Finding(finding) => each(Part::Finding(&finding)),
                Item::Fact(foreign::Fact::Pending(prompts)) => {
                    waiting = prompts;
                    Ok(())
                }
                Item::Fact(_) => Ok(()),
            };
            if done.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        })
        .map_err(|error| Broken::Read(error.into()))?;
        done?;
        Ok(waiting.iter().try_for_each(|prompt| each(Part::Waiting(prompt)))?)
    }

    /// Whether a node is on the current branch. A result that hangs beside it belongs to its call.
    fn is_current(&self, node: &Record) -> bool {
        let call = match node.body() {
            Body::Message(message) => match &**message {
                Message::Tool(result) => result.call_seq,
                _ => None,
            },
            _ => None,
        };
        self.path.contains(&node.seq()) || call.is_some_and(|call| self.path.contains(&call))
    }

    /// Text, whole, wherever it lies.
    pub(super) fn text(&self, text: &Stored) -> String {
        let blob = match text {
            Stored::Blob(blob) => self.blobs.get(&blob.blob),
            Stored::Inline(_) => None,
        };
        blob.map_or_else(|| stored_text(text), |b| String::from_utf8_lossy(b).into_owned())
    }

    /// The text of blocks, with a word for what is no text.
    pub(super) fn blocks(&self, blocks: &[Block]) -> String {
        let texts = blocks.iter().map(|block| match block {
            Block::Text { text } => self.text(text),
            other => blocks_text(std::slice::from_ref(other)),
        });
        texts.collect::<Vec<_>>().join("\n")
    }

    /// An image's bytes, if they are there.
    pub(super) fn image(&self, data: &Stored) -> Option<Vec<u8>> {
        match data {
            Stored::Blob(blob) => self.blobs.get(&blob.blob).cloned(),
            Stored::Inline(text) => base64::prelude::BASE64_STANDARD.decode(text.trim()).ok(),
        }
    }
}

impl Head {
    /// Takes what a record adds to it.
    fn take(&mut self, record: &Record, dated: bool) {
        if dated {
            let at = record.envelope.at;
            self.created = Some(self.created.map_or(at, |first| first.min(at)));
            self.last = Some(self.last.map_or(at, |last| last.max(at)));
        }
        let Body::Message(message) = record.body() else { return };
        match &**message {
            Message::User(user) => self.messages += usize::from(user.notice.is_none()),
            Message::Assistant(reply) => {
                self.messages += 1;
                let model = reply.model.to_string();
                if !reply.model.id.is_empty() && !self.models.contains(&model) {
                    self.models.push(model);
                }
            }
            Message::Tool(_) => {}
        }
    }

    /// Adds what a reply of another agent cost.
    fn spend(&mut self, record: &Record, prices: &Prices) {
        if let Body::Message(message) = record.body()
            && let Message::Assistant(reply) = &**message
            && let Some(usage) = &reply.usage
        {
            self.sum.add_call(usage, prices.of(&reply.model));
        }
    }
}

/// The nodes from the tip to the beginning.
fn path(parents: &HashMap<Seq, Option<Seq>>, tip: Option<Seq>) -> HashSet<Seq> {
    let mut path = HashSet::new();
    let mut at = tip;
    while let Some(seq) = at.filter(|seq| path.insert(*seq)) {
        at = parents.get(&seq).copied().flatten();
    }
    path
}

/// The node behind which a record goes on, when that is not the last one. Results stand where they came.
fn turned(record: &Record, last: Option<Seq>) -> Option<Seq> {
    let parent = record.envelope.parent?;
    let moves = record.is_node() && !is_result(record);
    (moves && last.is_some_and(|last| last != parent)).then_some(parent)
}

fn is_result(record: &Record) -> bool {
    matches!(record.body(), Body::Message(m) if matches!(**m, Message::Tool(_)))
}

fn fate(history: &History, record: &Record) -> Option<&'static str> {
    if record.is_erased() {
        return Some("what stood here was erased for good");
    }
    let at = history.state.in_force.context_edits.get(&record.seq())?;
    let Body::ContextEdit(edit) = history.record(at.seq)?.body() else { return None };
    Some(match edit.edit.as_str() {
        "replace" => "the model is sent something else in its place",
        _ => "left out for the model",
    })
}

/// The blobs of what was said, as far as they are there and there is room for them.
async fn blobs(history: &History, id: &SessionId, place: &Workplace) -> HashMap<String, Vec<u8>> {
    let mut named: Vec<&BlobRef> = Vec::new();
    for record in &history.records {
        let Body::Message(message) = record.body() else { continue };
        let content = match &**message {
            Message::User(user) => &user.content,
            Message::Tool(result) => &result.content,
            Message::Assistant(_) => continue,
        };
        named.extend(content.iter().filter_map(|block| match block {
            Block::Text { text: Stored::Blob(blob) }
            | Block::Image { data: Stored::Blob(blob), .. } => Some(blob),
            _ => None,
        }));
    }
    let (mut blobs, mut total) = (HashMap::new(), 0);
    for blob in named {
        if blob.bytes > BLOB_MAX || total + blob.bytes > BLOBS_MAX || blobs.contains_key(&blob.blob)
        {
            continue;
        }
        // One that is lost is told by `check`; its beginning stands in the record.
        if let Ok(bytes) = place.stores.files.blob(id, blob).await {
            total += blob.bytes;
            blobs.insert(blob.blob.clone(), bytes);
        }
    }
    blobs
}
