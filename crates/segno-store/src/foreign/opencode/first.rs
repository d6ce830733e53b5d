//! Messages of OpenCode's first engine: a message is a row of its own, and its parts are rows of their own.
//!
//! Responsible for: what a message and its parts mean. Must not: know whether they come from the database,
//! from an export or from the older tree of files.

use super::super::calls::Calls;
use super::super::emitter::{Emitter, Meta};
use super::super::item::{Fact, Origin, RawPiece};
use super::super::mend::Mended;
use super::super::view::pos;
use super::reply::{Reply, ReplyMeta, Thread, block, is_named_only};
use super::shape::{Info, Part, Revert, at};
use segno_model::finding::Severity;
use segno_model::record::{
    Block, Compaction, CompactionState, Message, ModelChange, ModelRef, Text, UserMessage,
};
use segno_model::{Body, Seq, Timestamp};
use serde_json::value::RawValue;
use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};

/// A message or a part as it is stored: its id, where the format keeps that apart, and its JSON.
pub(super) struct Stored<'a> {
    pub(super) id: Option<String>,
    pub(super) json: &'a str,
    pub(super) origin: Origin,
    /// How it is called in a finding.
    pub(super) place: String,
}

/// A session that is being read.
pub(super) struct Messages {
    pub(super) thread: Thread,
    revert: Option<Revert>,
    /// Where the session stands when its end is taken back.
    reverted: Option<Option<Seq>>,
    /// The first record of each message, by the hash of its id.
    first: HashMap<u64, Seq>,
    /// The request for a summary that was read last: its message, and from where on things are kept.
    asked: Option<(u64, Option<u64>)>,
    model: Option<ModelRef>,
}

/// A compact key: ids are long, and there are many of them.
fn key(id: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    id.hash(&mut hasher);
    hasher.finish()
}

impl Messages {
    pub(super) fn new(revert: Option<Revert>) -> Self {
        let thread = Thread { tip: None, calls: Calls::default(), task: None };
        let first = HashMap::new();
        Self { thread, revert, reverted: None, first, asked: None, model: None }
    }

    /// One message with its parts, in order.
    pub(super) fn take(
        &mut self,
        message: &Stored<'_>,
        parts: &[Stored<'_>],
        out: &mut Emitter<'_>,
    ) {
        let mended = Mended::default();
        let info = info(message, &mended, parts, out);
        let id = message.id.clone().or_else(|| info.id.clone()).unwrap_or_default();
        let origin = Origin { id: Some(id), ..message.origin.clone() };
        if self.taken_back_from(&origin, None) {
            self.reverted.get_or_insert(self.thread.tip);
        }
        if info.role.as_deref() == Some("assistant") {
            self.assistant(&info, parts, &origin, out);
        } else {
            self.user(&info, parts, &origin, out);
        }
    }

    /// The session's end.
    pub(super) fn finish(&mut self, out: &mut Emitter<'_>) {
        self.thread.calls.finish(out);
        if let Some(tip) = self.reverted {
            out.fact(Fact::Tip(tip));
        }
    }

    /// Whether the session's end is taken back from this message, or this part of it, on.
    fn taken_back_from(&self, message: &Origin, part: Option<&str>) -> bool {
        self.revert.as_ref().is_some_and(|revert| {
            Some(&revert.message) == message.id.as_ref() && revert.part.as_deref() == part
        })
    }

    fn begins(&mut self, id: Option<&str>, seq: Seq) {
        if let Some(id) = id {
            self.first.entry(key(id)).or_insert(seq);
        }
    }

    fn user(
        &mut self,
        info: &Info<'_>,
        parts: &[Stored<'_>],
        origin: &Origin,
        out: &mut Emitter<'_>,
    ) {
        let when = at(info.time.and_then(|time| time.created));
        self.choose_model(info, when, origin, out);
        let mut said = Said { when, origin: origin.clone(), ..Said::default() };
        for stored in parts {
            let mended = Mended::default();
            let Some(part) = parsed(stored, &mended, when, out) else { continue };
            let part_id = part.id.as_deref().or(stored.id.as_deref());
            if part_id.is_some() && self.taken_back_from(origin, part_id) {
                self.say(&mut said, out);
                self.reverted.get_or_insert(self.thread.tip);
            }
            match part.kind.as_str() {
                "text" if part.ignored != Some(true) => {
                    let notice = (part.synthetic == Some(true)).then(|| synthetic(&part));
                    self.turn_to(&mut said, notice, out);
                    said.content.extend(part.text.filter(|t| !t.is_empty()).map(Block::text));
                }
                "file" => {
                    keep("opencode.file", stored, when, out);
                    let mime = part.mime.as_deref().unwrap_or_default();
                    // Of these the text stands in a part beside it.
                    if matches!(mime, "text/plain" | "application/x-directory") {
                        said.beside(stored);
                    } else {
                        self.turn_to(&mut said, None, out);
                        said.file(&part, stored);
                    }
                }
                "subtask" => {
                    keep("opencode.subtask", stored, when, out);
                    self.turn_to(&mut said, Some("subtask".to_owned()), out);
                    let text = "The following tool was executed by the user";
                    said.content.push(Block::text(text));
                }
                "compaction" => self.asked(&part, origin, when, out),
                kind => {
                    keep(&format!("opencode.{kind}"), stored, when, out);
                    said.beside(stored);
                }
            }
        }
        self.say(&mut said, out);
    }

    /// Hands on what was said so far, if what comes next is said for another reason.
    fn turn_to(&mut self, said: &mut Said, notice: Option<String>, out: &mut Emitter<'_>) {
        if said.notice != notice {
            self.say(said, out);
            said.notice = notice;
        }
    }

    fn say(&mut self, said: &mut Said, out: &mut Emitter<'_>) {
        let content = std::mem::take(&mut said.content);
        if content.is_empty() {
            return;
        }
        let notice = said.notice.clone();
        let message = UserMessage { content, notice, ..UserMessage::default() };
        let meta = Meta {
            parent: self.thread.tip,
            at: said.when,
            origin: said.origin.clone(),
            pieces: std::mem::take(&mut said.pieces),
            ..Meta::default()
        };
        let seq = out.record(Body::Message(Box::new(Message::User(message))), meta);
        self.thread.tip = Some(seq);
        self.begins(said.origin.id.as_deref(), seq);
    }

    fn choose_model(
        &mut self,
        info: &Info<'_>,
        when: Option<Timestamp>,
        origin: &Origin,
        out: &mut Emitter<'_>,
    ) {
        let Some(model) = info.model.as_ref().map(super::shape::Model::reference) else { return };
        if model.id.is_empty() || self.model.as_ref() == Some(&model) {
            return;
        }
        let meta = Meta { at: when, origin: origin.clone(), ..Meta::default() };
        let change = ModelChange { model: model.clone(), chosen: true, base_url: None };
        out.record(Body::Model(change), meta);
        self.model = Some(model);
    }

    /// A request for a summary. It is no prompt of the person's.
    fn asked(
        &mut self,
        part: &Part<'_>,
        origin: &Origin,
        when: Option<Timestamp>,
        out: &mut Emitter<'_>,
    ) {
        let id = origin.id.as_deref().unwrap_or_default();
        self.asked = Some((key(id), part.tail_start_id.as_deref().map(key)));
        let meta = Meta { at: when, origin: origin.clone(), ..Meta::default() };
        let started = Compaction::marker(CompactionState::Started, None);
        out.record(Body::Compaction(Box::new(started)), meta);
    }

    fn assistant(
        &mut self,
        info: &Info<'_>,
        parts: &[Stored<'_>],
        origin: &Origin,
        out: &mut Emitter<'_>,
    ) {
        let time = info.time.unwrap_or_default();
        let aborted = info.error.as_ref().is_some_and(super::shape::Fault::is_abort);
        let meta = ReplyMeta {
            model: info.answered_by(),
            at: at(time.created),
            origin: origin.clone(),
            response: response(info),
            aborted,
            failed: info.error.is_some() && !aborted,
            completed: time.completed.is_some(),
        };
        if info.is_summary() && self.summary(info, &meta, parts, out) {
            return;
        }
        if !meta.completed {
            let sentence = "A reply was not written to its end.";
            let done =
                "What there is of it is shown: the agent was interrupted, or is still at it.";
            out.found("interrupted-reply", Severity::Note, origin, sentence, done);
        }
        let mut reply = Reply::new(meta);
        for stored in parts {
            self.part_of_reply(&mut reply, stored, out);
        }
        if reply.steps() == 0 {
            reply.ended(info.tokens, info.finish.clone());
        }
        if reply.steps() == 0 || !reply.is_empty() {
            self.flush(&mut reply, out);
        }
    }

    fn flush(&mut self, reply: &mut Reply, out: &mut Emitter<'_>) {
        let seq = reply.flush(&mut self.thread, out);
        self.begins(reply.meta().origin.id.as_deref(), seq);
    }

    fn part_of_reply(&mut self, reply: &mut Reply, stored: &Stored<'_>, out: &mut Emitter<'_>) {
        let when = reply.meta().at;
        let mended = Mended::default();
        let Some(mut part) = parsed(stored, &mended, when, out) else { return };
        part.id = part.id.or_else(|| stored.id.clone());
        if part.id.is_some() && self.taken_back_from(&reply.meta().origin, part.id.as_deref()) {
            if !reply.is_empty() {
                self.flush(reply, out);
            }
            self.reverted.get_or_insert(self.thread.tip);
        }
        match part.kind.as_str() {
            "text" => reply.text(part.text.unwrap_or_default()),
            "reasoning" => reply.thinking(part, raw_of(stored)),
            "tool" => {
                let id = part.call_id.clone().unwrap_or_default();
                let name = part.tool.clone().unwrap_or_default();
                reply.call(id, name, part, out);
            }
            // Older versions keep all steps of a turn in one message.
            "step-start" => {
                if !reply.is_empty() {
                    self.flush(reply, out);
                }
                keep("opencode.step-start", stored, when, out);
            }
            "step-finish" => {
                reply.ended(part.tokens, part.reason);
                keep("opencode.step-finish", stored, when, out);
            }
            kind => {
                keep(&format!("opencode.{kind}"), stored, when, out);
                match raw_of(stored) {
                    Some(raw) if kind == "file" => reply.unknown(raw),
                    Some(raw) => reply.beside(raw),
                    None => {}
                }
            }
        }
    }

    /// A summary. One that answers no request for one is a reply like others: OpenCode, too, sends
    /// everything before it. One that was not finished stands for nothing.
    fn summary(
        &mut self,
        info: &Info<'_>,
        meta: &ReplyMeta,
        parts: &[Stored<'_>],
        out: &mut Emitter<'_>,
    ) -> bool {
        let texts =
            parts.iter().filter_map(|stored| serde_json::from_str::<Part<'_>>(stored.json).ok());
        let texts = texts.filter(|part| part.kind == "text").filter_map(|part| part.text);
        let text: Vec<String> = texts.filter(|text| !text.is_empty()).collect();
        let whole = info.finish.is_some() && info.error.is_none();
        let asked =
            self.asked.filter(|(message, _)| info.parent.as_deref().map(key) == Some(*message));
        if whole && asked.is_none() {
            let sentence = "A summary stands here that answers no request for one.";
            let done = "It is read as a reply; OpenCode, too, sends everything before it.";
            out.found("loose-summary", Severity::Warning, &meta.origin, sentence, done);
            return false;
        }
        for stored in parts {
            keep("opencode.part", stored, meta.at, out);
        }
        let state = if whole { CompactionState::Done } else { CompactionState::Failed };
        let kept = asked.and_then(|(_, tail)| tail).and_then(|tail| self.first.get(&tail).copied());
        let compaction = Compaction {
            summary: whole.then(|| Text::Inline(text.join("\n"))),
            first_kept: kept.filter(|_| whole).map(pos),
            model: Some(meta.model.clone()),
            usage: info.tokens.and_then(super::shape::Tokens::usage),
            ..Compaction::marker(state, (!whole).then(|| "the summary was not finished".to_owned()))
        };
        let response = meta.response.clone().filter(|_| compaction.usage.is_some());
        let record = Meta {
            parent: self.thread.tip,
            at: meta.at,
            origin: meta.origin.clone(),
            response,
            ..Meta::default()
        };
        let seq = out.record(Body::Compaction(Box::new(compaction)), record);
        if whole {
            self.thread.tip = Some(seq);
        }
        self.begins(meta.origin.id.as_deref(), seq);
        true
    }
}

/// What the person's side says, until something of another kind comes.
#[derive(Default)]
struct Said {
    when: Option<Timestamp>,
    origin: Origin,
    notice: Option<String>,
    content: Vec<Block>,
    /// What our terms do not hold of it.
    pieces: Vec<RawPiece>,
}

impl Said {
    /// A file; what it holds, where the block only names it.
    fn file(&mut self, part: &Part<'_>, stored: &Stored<'_>) {
        if let Some(raw) = raw_of(stored).filter(|_| is_named_only(part)) {
            self.pieces.push(RawPiece::of(self.content.len(), raw));
        }
        self.content.push(block(part));
    }

    /// A part that is no part of what was said.
    fn beside(&mut self, stored: &Stored<'_>) {
        let piece = raw_of(stored).map(|raw| RawPiece::beside(self.content.len(), raw));
        self.pieces.extend(piece);
    }
}

fn raw_of<'a>(stored: &Stored<'a>) -> Option<&'a RawValue> {
    serde_json::from_str(stored.json).ok()
}

/// Why OpenCode said something on the person's side.
fn synthetic(part: &Part<'_>) -> String {
    let after_summary = part.metadata.is_some_and(|raw| raw.get().contains("compaction_continue"));
    if after_summary { "compaction" } else { "synthetic" }.to_owned()
}

/// Forks copy replies under new ids, with their times to the millisecond.
fn response(info: &Info<'_>) -> Option<String> {
    let time = info.time?;
    Some(format!("opencode:{}:{}", time.created?, time.completed?))
}

/// A message's own fields; what its parts let guess when they cannot be read.
fn info<'a>(
    message: &Stored<'a>,
    mended: &'a Mended,
    parts: &[Stored<'_>],
    out: &mut Emitter<'_>,
) -> Info<'a> {
    let info = mended.parse::<Info<'a>>(message.json);
    if let Some(info) = info.filter(|info| info.role.is_some()) {
        mended.found(&message.origin, out);
        keep("opencode.message", message, at(info.time.and_then(|t| t.created)), out);
        return info;
    }
    unknown("opencode.message", message, None, out);
    let of_reply = |part: &Stored<'_>| {
        let part = serde_json::from_str::<Part<'_>>(part.json);
        part.is_ok_and(|part| matches!(part.kind.as_str(), "tool" | "step-start" | "reasoning"))
    };
    let role = if parts.iter().any(of_reply) { "assistant" } else { "user" };
    Info { role: Some(role.to_owned()), ..Info::default() }
}

fn parsed<'a>(
    stored: &Stored<'a>,
    mended: &'a Mended,
    when: Option<Timestamp>,
    out: &mut Emitter<'_>,
) -> Option<Part<'a>> {
    let part = mended.parse(stored.json);
    if part.is_none() {
        unknown("opencode.part", stored, when, out);
    }
    let id = stored.origin.id.clone().or_else(|| stored.id.clone());
    let origin = Origin { id, ..stored.origin.clone() };
    mended.tell("opencode.part", stored.json, &Meta { at: when, origin, ..Meta::default() }, out);
    part
}

/// Tells what could not be read, and keeps it if it is JSON.
pub(super) fn unknown(
    kind: &str,
    stored: &Stored<'_>,
    when: Option<Timestamp>,
    out: &mut Emitter<'_>,
) {
    if serde_json::from_str::<&RawValue>(stored.json).is_ok() {
        let sentence = format!("{} has a shape that this reader does not know.", stored.place);
        let done = "It was kept as it is.";
        out.found("unknown-record", Severity::Note, &stored.origin, &sentence, done);
        keep(kind, stored, when, out);
    } else {
        let sentence = format!("{} holds no JSON.", stored.place);
        let done = "It was left out; everything else of the session was read.";
        out.found("bad-row", Severity::Damage, &stored.origin, &sentence, done);
    }
}

/// Keeps what is stored as it is.
pub(super) fn keep(
    kind: &str,
    stored: &Stored<'_>,
    when: Option<Timestamp>,
    out: &mut Emitter<'_>,
) {
    if let Ok(raw) = serde_json::from_str::<&RawValue>(stored.json) {
        let id = stored.origin.id.clone().or_else(|| stored.id.clone());
        let origin = Origin { id, ..stored.origin.clone() };
        out.custom(kind, raw, Meta { at: when, origin, ..Meta::default() });
    }
}
