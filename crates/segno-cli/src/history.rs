//! A session read from its first line to its last.
//!
//! Responsible for: all intact records with what was noticed between them, and short forms of what a
//! record says. Must not: hold the writer's right; a damaged, held or newer session can be read.

use crate::error::CliError;
use crate::stores::Stores;
use crate::terminal::{clean, table};
use segno_model::finding::{Finding, Severity};
use segno_model::record::{AssistantBlock, Block, Body, Header, Message, ModelRef, Text as Stored};
use segno_model::state::State;
use segno_model::store::{Scanned, SessionStore as _};
use segno_model::{Record, Seq, SessionId};

/// All of a session.
#[derive(Debug)]
pub struct History {
    /// Its id.
    pub id: SessionId,
    /// Its intact records, in the order of the log.
    pub records: Vec<Record>,
    /// What was noticed.
    pub findings: Vec<Finding>,
    /// What the records add up to.
    pub state: State,
}

impl History {
    /// Reads it.
    ///
    /// # Errors
    /// When there is none, or the disk fails.
    pub async fn read(stores: &Stores, id: &SessionId) -> Result<Self, CliError> {
        Self::read_with(stores, id, |record| record).await
    }

    /// Reads it and keeps of each record what `keep` makes of it, so that a log of any size can be looked
    /// through.
    ///
    /// # Errors
    /// When there is none, or the disk fails.
    pub async fn read_with(
        stores: &Stores,
        id: &SessionId,
        mut keep: impl FnMut(Record) -> Record + Send,
    ) -> Result<Self, CliError> {
        let mut all = Self {
            id: id.clone(),
            records: Vec::new(),
            findings: Vec::new(),
            state: State::default(),
        };
        let visit = &mut |item| {
            match item {
                Scanned::Record(record) => {
                    all.state.apply(&record);
                    all.findings.extend(not_json(&record));
                    all.records.push(keep(*record));
                }
                Scanned::Finding(finding) => all.findings.push(finding),
            }
            true
        };
        stores.files.scan(id, visit).await?;
        Ok(all)
    }

    /// Line 1, if it could be read.
    #[must_use]
    pub fn header(&self) -> Option<&Header> {
        self.records.iter().find_map(|record| match record.body() {
            Body::Session(header) => Some(header.as_ref()),
            _ => None,
        })
    }

    /// The record with this number.
    #[must_use]
    pub fn record(&self, seq: Seq) -> Option<&Record> {
        let found = self.records.binary_search_by_key(&seq, Record::seq).ok();
        let found = found.map(|i| &self.records[i]);
        // One that was moved far down does not stand in the order of the numbers.
        found.or_else(|| self.records.iter().find(|record| record.seq() == seq))
    }

    /// The current node.
    #[must_use]
    pub fn tip(&self) -> Option<Seq> {
        self.state.tip().map(|tip| tip.seq)
    }

    /// Its name, or the first prompt.
    #[must_use]
    pub fn title(&self) -> Option<&str> {
        self.state.in_force.name.as_deref().or(self.state.in_force.first_prompt.as_deref())
    }

    /// How many findings mean that something is lost.
    #[must_use]
    pub fn damages(&self) -> usize {
        self.findings.iter().filter(|f| f.severity == Severity::Damage).count()
    }
}

/// Where a finding is: line, byte and record, as far as they are known.
#[must_use]
pub fn place(finding: &Finding) -> String {
    let mut place: Vec<String> = finding.file.iter().map(|name| clean::line(name)).collect();
    place.extend(finding.line.map(|line| format!("line {line}")));
    place.extend(finding.offset.map(|offset| format!("byte {offset}")));
    place.extend(finding.seq.map(|seq| format!("record {seq}")));
    place.join(", ")
}

/// A record whose checksum vouches for bytes that are no JSON: whoever wrote it made a mistake.
fn not_json(record: &Record) -> Option<Finding> {
    let unread = matches!(record.body(), Body::Unknown { .. }) && as_json(record).is_none();
    unread.then(|| Finding {
        code: "not-json",
        severity: Severity::Warning,
        seq: Some(record.seq()),
        sentence: format!("record {} was written like this, and is no JSON", record.seq()),
        done: "it is kept and skipped".to_owned(),
        ..Finding::default()
    })
}

/// The name over a reply, also where the model is not known.
#[must_use]
pub fn model_word(model: &ModelRef) -> String {
    match (model.provider.as_str(), model.id.as_str()) {
        ("", "") => "reply".to_owned(),
        (provider, "") => provider.to_owned(),
        ("", id) => id.to_owned(),
        _ => model.to_string(),
    }
}

/// The text of blocks, with a word for what is no text.
#[must_use]
pub fn blocks_text(blocks: &[Block]) -> String {
    let texts = blocks.iter().map(|block| match block {
        Block::Text { text } => stored_text(text),
        Block::Image { media_type, .. } => format!("[image: {media_type}]"),
        Block::Unknown => "[something this version does not know]".to_owned(),
    });
    texts.collect::<Vec<_>>().join("\n")
}

/// Text that may lie outside of the log; then its beginning and how long it is.
#[must_use]
pub fn stored_text(text: &Stored) -> String {
    match text {
        Stored::Inline(text) => text.clone(),
        Stored::Blob(blob) => {
            format!("{}\n[cut here; {} in blob {}]", blob.head, table::size(blob.bytes), blob.blob)
        }
    }
}

/// Who speaks in a record, as one word.
#[must_use]
pub fn role(record: &Record) -> &str {
    match record.body() {
        Body::Message(message) => match &**message {
            Message::User(user) if user.notice.is_some() => "notice",
            Message::User(_) => "user",
            Message::Assistant(_) => "assistant",
            Message::Tool(_) => "tool",
        },
        _ => record.envelope.kind.as_str(),
    }
}

/// What a record says, in short.
#[must_use]
pub fn gist(record: &Record) -> String {
    match record.body() {
        Body::Message(message) => match &**message {
            Message::User(user) => blocks_text(&user.content),
            Message::Assistant(reply) => {
                let said = reply.content.iter().filter_map(|block| match block {
                    AssistantBlock::Text { text } => Some(text.clone()),
                    AssistantBlock::ToolCall(call) => {
                        Some(format!("{} {}", call.name, call.arguments))
                    }
                    AssistantBlock::Thinking { .. } | AssistantBlock::Unknown => None,
                });
                said.collect::<Vec<_>>().join(" · ")
            }
            Message::Tool(result) => blocks_text(&result.content),
        },
        Body::Compaction(compaction) => {
            compaction.summary.as_ref().map(stored_text).unwrap_or_default()
        }
        Body::BranchSummary(summary) => stored_text(&summary.summary),
        Body::Custom(custom) => {
            let told = custom.context.clone().or_else(|| segno_store::foreign::failure(record));
            told.unwrap_or_else(|| custom.name.clone())
        }
        Body::Name(name) => name.name.clone(),
        Body::Label(label) => label.label.clone(),
        Body::Model(model) => model.model.to_string(),
        Body::Unknown { reason, .. } => reason.clone(),
        _ => String::new(),
    }
}

/// A stored line as JSON that every parser takes.
#[must_use]
pub fn as_json(record: &Record) -> Option<Box<serde_json::value::RawValue>> {
    let json = segno_model::line::readable_json(&record.line);
    serde_json::from_str(&json).ok()
}
