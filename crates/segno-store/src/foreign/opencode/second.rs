//! Messages of OpenCode's second engine: one row holds a message whole, with its type and its place in the
//! session's sequence.
//!
//! Responsible for: what such a row means. Must not: know whether it comes from the database or an export.

use super::super::calls::Calls;
use super::super::emitter::{Emitter, Meta};
use super::super::item::{Fact, Origin};
use super::super::mend::Mended;
use super::first::{Stored, keep, unknown};
use super::reply::{Reply, ReplyMeta, Thread, block, file};
use super::shape::{Fault, Model, Part, Revert, Time, Tokens, at, lenient};
use segno_model::finding::Severity;
use segno_model::record::{
    Block, Compaction, CompactionState, Message, ModelChange, Text, UserMessage,
};
use segno_model::{Body, Seq};
use serde::Deserialize;
use serde_json::value::RawValue;

/// A row's `data`.
#[derive(Deserialize, Default)]
#[serde(default)]
struct Row<'a> {
    #[serde(rename = "type")]
    kind: Option<String>,
    id: Option<String>,
    #[serde(deserialize_with = "lenient")]
    time: Option<Time>,
    text: Option<String>,
    #[serde(borrow, deserialize_with = "lenient")]
    files: Option<Vec<Part<'a>>>,
    #[serde(borrow, deserialize_with = "lenient")]
    content: Option<Vec<&'a RawValue>>,
    #[serde(deserialize_with = "lenient")]
    model: Option<Model>,
    finish: Option<String>,
    #[serde(deserialize_with = "lenient")]
    tokens: Option<Tokens>,
    #[serde(deserialize_with = "lenient")]
    error: Option<Fault>,
    // A command that the person ran.
    command: Option<String>,
    #[serde(borrow)]
    output: Option<&'a RawValue>,
    // A summary.
    status: Option<String>,
    summary: Option<String>,
    recent: Option<String>,
    #[serde(borrow, rename = "providerContext")]
    native: Option<&'a RawValue>,
}

/// A session that is being read.
pub(super) struct Rows {
    thread: Thread,
    revert: Option<Revert>,
    reverted: Option<Option<Seq>>,
}

impl Rows {
    pub(super) fn new(revert: Option<Revert>) -> Self {
        let thread = Thread { tip: None, calls: Calls::default(), task: None };
        Self { thread, revert, reverted: None }
    }

    /// One row; `kind` is its type, where that stands apart.
    pub(super) fn take(&mut self, kind: Option<&str>, stored: &Stored<'_>, out: &mut Emitter<'_>) {
        let mended = Mended::default();
        let Some(row) = mended.parse::<Row<'_>>(stored.json) else {
            return unknown("opencode.row", stored, None, out);
        };
        let kind = kind.or(row.kind.as_deref()).unwrap_or_default().to_owned();
        let id = stored.id.clone().or_else(|| row.id.clone());
        let time = row.time.unwrap_or_default();
        let meta = Meta {
            at: at(time.created),
            origin: Origin { id, ..stored.origin.clone() },
            ..Meta::default()
        };
        mended.tell("opencode.row", stored.json, &meta, out);
        if self.revert.as_ref().is_some_and(|r| Some(&r.message) == meta.origin.id.as_ref()) {
            self.reverted.get_or_insert(self.thread.tip);
        }
        match kind.as_str() {
            "user" => self.user(row, None, meta, out),
            "synthetic" | "skill" | "system" => self.user(row, Some(&kind), meta, out),
            "shell" => self.shell(&row, meta, out),
            "assistant" => self.assistant(row, time, &meta, out),
            "compaction" => self.compaction(row, stored, meta, out),
            "model-switched" if row.model.is_some() => {
                let model = row.model.unwrap_or_default().reference();
                let change = ModelChange { model, chosen: true, base_url: None };
                out.record(Body::Model(change), meta);
            }
            "agent-switched" | "model-switched" => {
                keep(&format!("opencode.{kind}"), stored, meta.at, out);
            }
            _ => unknown("opencode.row", stored, meta.at, out),
        }
    }

    /// The session's end.
    pub(super) fn finish(&mut self, out: &mut Emitter<'_>) {
        self.thread.calls.finish(out);
        if let Some(tip) = self.reverted {
            out.fact(Fact::Tip(tip));
        }
    }

    fn node(&mut self, body: Body, meta: Meta, out: &mut Emitter<'_>) {
        let parent = self.thread.tip;
        self.thread.tip = Some(out.record(body, Meta { parent, ..meta }));
    }

    fn said(
        &mut self,
        content: Vec<Block>,
        notice: Option<&str>,
        meta: Meta,
        out: &mut Emitter<'_>,
    ) {
        let notice = notice.map(str::to_owned);
        let message = UserMessage { content, notice, ..UserMessage::default() };
        self.node(Body::Message(Box::new(Message::User(message))), meta, out);
    }

    fn user(&mut self, row: Row<'_>, notice: Option<&str>, meta: Meta, out: &mut Emitter<'_>) {
        let text = row.text.filter(|text| !text.is_empty()).map(Block::text);
        let files = row.files.unwrap_or_default();
        let mut content: Vec<Block> = text.into_iter().collect();
        let mut meta = meta;
        for part in &files {
            meta.pieces.extend(file(content.len(), part));
            content.push(block(part));
        }
        self.said(content, notice, meta, out);
    }

    fn shell(&mut self, row: &Row<'_>, meta: Meta, out: &mut Emitter<'_>) {
        #[derive(Deserialize)]
        struct Output {
            output: String,
        }
        let raw = row.output.map_or("null", RawValue::get);
        let output = serde_json::from_str::<String>(raw)
            .or_else(|_| serde_json::from_str::<Output>(raw).map(|inner| inner.output));
        let command = row.command.as_deref().unwrap_or_default();
        let text = format!("Shell command: {command}\n\n{}", output.unwrap_or_default());
        self.said(vec![Block::text(text)], Some("shell"), meta, out);
    }

    fn assistant(&mut self, row: Row<'_>, time: Time, meta: &Meta, out: &mut Emitter<'_>) {
        let aborted = row.error.as_ref().is_some_and(Fault::is_abort);
        let response = time.created.zip(time.completed);
        let reply = ReplyMeta {
            model: row.model.unwrap_or_default().reference(),
            at: meta.at,
            origin: meta.origin.clone(),
            response: response.map(|(from, to)| format!("opencode:{from}:{to}")),
            aborted,
            failed: row.error.is_some() && !aborted,
            completed: time.completed.is_some(),
        };
        if !reply.completed {
            let sentence = "A reply was not written to its end.";
            let done =
                "What there is of it is shown: the agent was interrupted, or is still at it.";
            out.found("interrupted-reply", Severity::Note, &meta.origin, sentence, done);
        }
        let mut reply = Reply::new(reply);
        for raw in row.content.into_iter().flatten() {
            let mended = Mended::default();
            let part = mended.parse::<Part<'_>>(raw.get()).unwrap_or_default();
            mended.tell("opencode.content", raw.get(), meta, out);
            match part.kind.as_str() {
                "text" => reply.text(part.text.unwrap_or_default()),
                "reasoning" => reply.thinking(part, None),
                "tool" => {
                    let id = part.id.clone().unwrap_or_default();
                    let name = part.name.clone().unwrap_or_default();
                    reply.call(id, name, part, out);
                }
                _ => drop(out.custom("opencode.content", raw, meta.clone())),
            }
        }
        reply.ended(row.tokens, row.finish);
        reply.flush(&mut self.thread, out);
    }

    /// A summary. The end of the session before it stands in it as text. A provider's own state without a
    /// summary is no boundary for another model.
    fn compaction(&mut self, row: Row<'_>, stored: &Stored<'_>, meta: Meta, out: &mut Emitter<'_>) {
        let status = row.status.as_deref().unwrap_or("completed");
        let summary = row.summary.unwrap_or_default();
        let state = match status {
            "completed" if !summary.is_empty() => CompactionState::Done,
            "running" => CompactionState::Started,
            _ => CompactionState::Failed,
        };
        if row.native.is_some() || state != CompactionState::Done {
            keep("opencode.compaction", stored, meta.at, out);
        }
        let recent = row.recent.filter(|recent| !recent.is_empty());
        let recent = recent.map(|r| format!("\n\n<recent-context>\n{r}\n</recent-context>"));
        let text = format!("{summary}{}", recent.unwrap_or_default());
        let summary = (state == CompactionState::Done).then_some(Text::Inline(text));
        let compaction = Compaction { summary, ..Compaction::marker(state, None) };
        let body = Body::Compaction(Box::new(compaction));
        if state == CompactionState::Done {
            self.node(body, meta, out);
        } else {
            out.record(body, meta);
        }
    }
}
