//! What a format's reader writes to.
//!
//! Responsible for: numbering records, remembering the time, and knowing whether anything was
//! recognised. Must not: know any agent.

use super::input::ForeignError;
use super::item::{Astray, Fact, ForeignRecord, Item, Origin, RawPiece, Sink};
use segno_model::finding::{Finding, Severity};
use segno_model::record::Custom;
use segno_model::{Body, Envelope, Record, Seq, Timestamp};
use serde_json::value::RawValue;
use std::ops::ControlFlow;
use std::path::Path;

/// Numbers what a reader reads and hands it on.
pub(crate) struct Emitter<'s> {
    sink: &'s mut dyn Sink,
    next: u64,
    at: Timestamp,
    turns: u64,
    stopped: bool,
    /// The file that is read, where a session is several.
    file: Option<String>,
}

/// What a record carries besides its body.
#[derive(Debug, Clone, Default)]
pub(super) struct Meta {
    /// The node that it follows; ignored for metadata.
    pub(super) parent: Option<Seq>,
    /// When.
    pub(super) at: Option<Timestamp>,
    /// Where it stands.
    pub(super) origin: Origin,
    /// See [`ForeignRecord::subagent`].
    pub(super) subagent: Option<String>,
    /// See [`ForeignRecord::copy`].
    pub(super) copy: bool,
    /// See [`ForeignRecord::inherited`].
    pub(super) inherited: bool,
    /// See [`ForeignRecord::response`].
    pub(super) response: Option<String>,
    /// See [`ForeignRecord::pieces`].
    pub(super) pieces: Vec<RawPiece>,
    /// See [`ForeignRecord::astray`].
    pub(super) astray: Option<Astray>,
}

impl<'s> Emitter<'s> {
    /// Hands on to `sink`.
    pub(crate) fn new(sink: &'s mut dyn Sink) -> Self {
        Self { sink, next: 0, at: Timestamp::default(), turns: 0, stopped: false, file: None }
    }

    /// Hands on a record and says its number.
    pub(super) fn record(&mut self, body: Body, meta: Meta) -> Seq {
        let seq = self.next;
        self.next += 1;
        self.at = meta.at.unwrap_or(self.at);
        if matches!(body, Body::Message(_)) {
            self.turns += 1;
        }
        let envelope = Envelope {
            seq,
            parent: meta.parent.filter(|_| body.is_node()),
            parent_at: None,
            at: self.at,
            kind: body.kind().to_owned(),
            synced: None,
        };
        let record = Record::loose(envelope, body);
        self.send(Item::Record(ForeignRecord {
            record,
            dated: meta.at.is_some(),
            origin: meta.origin,
            subagent: meta.subagent,
            copy: meta.copy,
            inherited: meta.inherited,
            response: meta.response,
            pieces: meta.pieces,
            astray: meta.astray,
        }));
        seq
    }

    /// The number that the next record gets.
    pub(super) fn next_seq(&self) -> Seq {
        self.next
    }

    /// Hands on what has no counterpart among our records, as it is. `kind` is the agent's name for it,
    /// e.g. `claude.attachment`.
    pub(super) fn custom(&mut self, kind: &str, raw: &RawValue, meta: Meta) -> Seq {
        let custom = Custom { name: kind.to_owned(), data: raw.to_owned(), context: None };
        self.record(Body::Custom(custom), meta)
    }

    /// Hands on something about the session.
    pub(super) fn fact(&mut self, fact: Fact) {
        // A prompt that waits is a turn that was asked for.
        self.turns += u64::from(matches!(&fact, Fact::Pending(prompts) if !prompts.is_empty()));
        self.send(Item::Fact(fact));
    }

    /// Hands on a fact of which every record speaks, when it is not what was told before.
    pub(super) fn fact_if_new(
        &mut self,
        told: &mut Option<String>,
        value: Option<&String>,
        fact: fn(String) -> Fact,
    ) {
        if let Some(value) = value.filter(|value| told.as_ref() != Some(value)) {
            *told = Some(value.clone());
            self.fact(fact(value.clone()));
        }
    }

    /// Hands on several, or none.
    pub(super) fn facts(&mut self, facts: impl IntoIterator<Item = Fact>) {
        facts.into_iter().for_each(|fact| self.fact(fact));
    }

    /// Hands on an anomaly.
    pub(super) fn finding(&mut self, finding: Finding) {
        self.send(Item::Finding(finding));
    }

    /// What is found from now on is in this one of a session's files.
    pub(super) fn in_file(&mut self, path: &Path) {
        self.file = path.file_name().map(|name| name.to_string_lossy().into_owned());
    }

    /// What is found from now on is in no file in particular.
    pub(super) fn in_no_file(&mut self) {
        self.file = None;
    }

    /// Hands on an anomaly at a place.
    pub(super) fn found(
        &mut self,
        code: &'static str,
        severity: Severity,
        at: &Origin,
        sentence: &str,
        done: &str,
    ) {
        let (sentence, done) = (sentence.to_owned(), done.to_owned());
        self.finding(Finding {
            code,
            severity,
            file: self.file.clone(),
            line: at.line,
            offset: at.offset,
            seq: None,
            sentence,
            done,
        });
    }

    /// Whether nobody wants more; readers look at it once per line.
    pub(super) fn is_stopped(&self) -> bool {
        self.stopped
    }

    /// How many messages there were.
    pub(super) fn turns(&self) -> u64 {
        self.turns
    }

    /// The end of a file that held `bytes` bytes.
    ///
    /// # Errors
    /// [`ForeignError::NoTurns`] when there was something in it and nothing was recognised as a turn.
    pub(super) fn finish(&self, path: &Path, bytes: u64) -> Result<(), ForeignError> {
        if self.turns == 0 && bytes > 0 && !self.stopped {
            return Err(ForeignError::NoTurns { path: path.to_owned(), bytes });
        }
        Ok(())
    }

    fn send(&mut self, item: Item) {
        if !self.stopped && self.sink.take(item) == ControlFlow::Break(()) {
            self.stopped = true;
        }
    }
}
