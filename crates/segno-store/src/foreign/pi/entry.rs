//! pi's entries as our records.
//!
//! Responsible for: what each type of entry becomes. Must not: decide where it hangs.

use super::super::calls::{tell_orphan, tell_second};
use super::super::emitter::{Emitter, Meta};
use super::super::item::{Astray, Origin};
use super::super::lines::Object;
use super::super::mend::Mended;
use super::super::view::pos;
use super::message::{self, model};
use super::reader::Reader;
use super::row::{Msg, Row, Tokens};
use super::tree::{Became, Kept, Place, Pointer};
use segno_model::finding::Severity;
use segno_model::record::{
    BranchSummary, Compaction, CompactionState, ContextEdit, Label, Message, ModelChange, Name,
    Text, ThinkingChange, ToolMessage, UsageRecord,
};
use segno_model::{Body, Pos, Seq};
use serde::Deserialize;
use serde_json::value::RawValue;
use std::collections::{HashMap, VecDeque};

/// An entry that is being read.
pub(super) struct At<'o> {
    pub(super) object: &'o Object<'o>,
    pub(super) place: Place,
    pub(super) meta: Meta,
}

impl At<'_> {
    /// For what is handed on besides the entry's own record.
    fn aside(&self) -> Meta {
        Meta { parent: None, ..self.meta.clone() }
    }

    fn custom(&self, kind: &str, out: &mut Emitter<'_>) -> Written {
        Written::metadata(custom(kind, self.object.json, self.aside(), out))
    }
}

/// What an entry became.
#[derive(Debug, Clone, Copy)]
pub(super) struct Written {
    pub(super) record: Seq,
    pub(super) became: Became,
    /// Whether it says what it cost.
    pub(super) counted: bool,
}

impl Written {
    fn metadata(record: Seq) -> Self {
        Self { record, became: Became::Metadata, counted: false }
    }

    fn said(record: Seq) -> Self {
        Self { became: Became::Said, ..Self::metadata(record) }
    }
}

impl Reader {
    /// Hands on what an entry says.
    pub(super) fn write(
        &mut self,
        row: &mut Row<'_>,
        at: &At<'_>,
        out: &mut Emitter<'_>,
    ) -> Written {
        match row.what.as_deref() {
            Some("message") if row.message.is_some() => {
                let message = row.message.take().unwrap_or_default();
                self.message(message, row.seq.is_some(), at, out)
            }
            Some("custom_message") => {
                let reason = row.custom_type.as_deref().unwrap_or("extension");
                let said = Message::User(message::injected(reason, row.content.take()));
                Written::said(say(said, at, at.meta.clone(), out))
            }
            Some("compaction") if row.summary.is_some() => self.compaction(row, at, out),
            Some("branch_summary") if row.summary.is_some() => self.branch_summary(row, at, out),
            Some("model_change") if row.model_id.is_some() => {
                Written::metadata(self.model_change(row, at.aside(), out))
            }
            Some("thinking_level_change") if row.thinking_level.is_some() => {
                let level = row.thinking_level.as_deref().unwrap_or_default();
                Written::metadata(self.thinking_change(level, at.aside(), out))
            }
            Some("session_info") => {
                Written::metadata(named(row.name.take().unwrap_or_default(), at.aside(), out))
            }
            Some("label") => {
                let label = row.label.take().unwrap_or_default();
                self.label(row.target_id.as_deref(), label, at.object, at.aside(), out)
            }
            Some("context_edit") => self.context_edit(row, at, out),
            Some("usage") if row.usage.is_some() => self.usage(row, at, out),
            Some(what) => at.custom(&kind_of(what), out),
            None => at.custom("pi.unknown", out),
        }
    }

    pub(super) fn model_change(&mut self, row: &Row<'_>, meta: Meta, out: &mut Emitter<'_>) -> Seq {
        let model = model(row.provider.as_deref(), row.model_id.as_deref());
        self.model = model.clone();
        // The first one, before anything was said, is a default.
        let chosen = out.turns() > 0;
        out.record(Body::Model(ModelChange { model, chosen, base_url: None }), meta)
    }

    pub(super) fn thinking_change(
        &mut self,
        level: &str,
        meta: Meta,
        out: &mut Emitter<'_>,
    ) -> Seq {
        level.clone_into(&mut self.thinking);
        out.record(Body::Thinking(ThinkingChange { level: level.to_owned() }), meta)
    }

    pub(super) fn label(
        &mut self,
        target: Option<&str>,
        label: String,
        object: &Object<'_>,
        meta: Meta,
        out: &mut Emitter<'_>,
    ) -> Written {
        Written::metadata(match target.and_then(|id| self.tree.record(id)) {
            Some(target) => out.record(Body::Label(Label { target: pos(target), label }), meta),
            None => {
                tell_missing_target(&meta.origin, out);
                custom("pi.label", object.json, meta, out)
            }
        })
    }

    fn context_edit(&mut self, row: &mut Row<'_>, at: &At<'_>, out: &mut Emitter<'_>) -> Written {
        let Some(target) = row.target_id.as_deref().and_then(|id| self.tree.record(id)) else {
            tell_missing_target(&at.meta.origin, out);
            return at.custom("pi.context_edit", out);
        };
        let content = row.replacement.take().map(|by| message::blocks(Some(by.content)));
        let edit = if content.is_some() { "replace" } else { "omit" }.to_owned();
        let edit = ContextEdit {
            target,
            edit,
            content: content.unwrap_or_default(),
            ..ContextEdit::default()
        };
        Written::metadata(self.edits.add(edit, at.aside(), out))
    }

    fn usage(&mut self, row: &Row<'_>, at: &At<'_>, out: &mut Emitter<'_>) -> Written {
        let Some(usage) = row.usage.and_then(Tokens::usage) else {
            return at.custom("pi.usage", out);
        };
        let model = match &row.model {
            Some(_) => model(row.provider.as_deref(), row.model.as_deref()),
            None => self.model.clone(),
        };
        let purpose = row.kind.as_deref().unwrap_or("usage").to_owned();
        let response = response(at, row.seq.is_some(), &purpose);
        let meta = Meta { response, ..at.aside() };
        let record = out.record(Body::Usage(UsageRecord { purpose, model, usage }), meta);
        Written { counted: true, ..Written::metadata(record) }
    }

    fn message(
        &mut self,
        msg: Msg<'_>,
        is_v4: bool,
        at: &At<'_>,
        out: &mut Emitter<'_>,
    ) -> Written {
        let mut meta = at.meta.clone();
        meta.at = meta.at.or(msg.timestamp.0);
        let (role, answer, error) = (msg.role.clone(), msg.response_id.clone(), msg.error_message);
        let Some(mut said) = message::message(msg) else {
            return at.custom(&kind_of(&role), out);
        };
        let mut calls = Vec::new();
        let mut written = Written::said(0);
        match &mut said {
            Message::User(_) => {}
            Message::Tool(result) => {
                meta.astray = self.pair(result, at, out);
                written.became = Became::Result;
            }
            Message::Assistant(reply) => {
                calls = reply.calls().map(|c| (c.id.clone(), c.name.clone())).collect();
                if let Some(usage) = reply.usage {
                    let unnamed = || format!("{}:{}:{}", reply.model, usage.input, usage.output);
                    let name = answer.as_deref().map_or_else(unnamed, str::to_owned);
                    meta.response = response(at, is_v4, &name);
                    written.counted = true;
                }
                self.model = reply.model.clone();
            }
        }
        let (origin, astray) = (meta.origin.clone(), meta.astray);
        let is_broken = matches!(&said, Message::Assistant(reply) if reply.partial);
        written.record = say(said, at, meta, out);
        if is_broken && !calls.is_empty() {
            self.broken.insert(written.record);
        }
        if matches!(astray, Some(Astray::Late(_))) {
            self.late.insert(written.record);
        }
        for (id, name) in calls {
            self.calls.call(&id, &name, written.record, &origin);
        }
        if let Some(error) = error {
            out.custom("pi.error", error, at.aside());
        }
        written
    }

    /// Finds the call of a result, and says what is wrong with where the result stands: pi sends it there.
    fn pair(
        &mut self,
        result: &mut ToolMessage,
        at: &At<'_>,
        out: &mut Emitter<'_>,
    ) -> Option<Astray> {
        let (above, origin) = (at.place.node, &at.meta.origin);
        let turn = self.tree.turn_of(above).map(|node| self.tree.seq(node));
        let is_above = |seq| self.tree.is_above(above, seq);
        let Some(call) = self.calls.find(&result.call_id, turn, is_above) else {
            tell_orphan("A result stands here whose call is nowhere in the session.", origin, out);
            return Some(Astray::Nowhere);
        };
        if result.name.is_empty() {
            result.name.clone_from(&call.name);
        }
        if !call.is_on_branch {
            tell_orphan("A result stands here whose call is on another branch.", origin, out);
            return Some(Astray::OtherBranch);
        }
        result.call_seq = Some(call.seq);
        if self.broken.contains(&call.seq) {
            // It has a result, though nobody is sent that.
            self.calls.close(&result.call_id, &call);
            let sentence =
                "A result stands here whose call is in a reply that broke off, which is not sent.";
            tell_orphan(sentence, origin, out);
            return Some(Astray::BrokenReply);
        }
        if !self.calls.close(&result.call_id, &call) {
            tell_second(origin, out);
            return Some(Astray::Second);
        }
        let before = above.and_then(|above| self.tree.ends_turn(above, call.seq))?;
        let sentence = "Something else was said between the call and its result.";
        let done = "It was read as the result of that call.";
        out.found("out-of-order", Severity::Warning, origin, sentence, done);
        Some(Astray::Late(before))
    }

    fn compaction(&mut self, row: &mut Row<'_>, at: &At<'_>, out: &mut Emitter<'_>) -> Written {
        let usage = row.usage.and_then(Tokens::usage);
        let kept = retained(row, at, out);
        let body = Compaction {
            summary: row.summary.take().map(Text::Inline),
            first_kept: self.first_kept(row, at, out).map(pos),
            kept,
            tokens_before: row.tokens_before.and_then(whole),
            usage,
            ..Compaction::marker(CompactionState::Done, None)
        };
        let response = usage.and_then(|_| response(at, row.seq.is_some(), "compaction"));
        let meta = Meta { response, ..at.meta.clone() };
        let record = out.record(Body::Compaction(Box::new(body)), meta);
        if let Some(system) = row.system_message {
            out.custom("pi.system", system, at.aside());
        }
        Written { record, became: Became::Boundary, counted: usage.is_some() }
    }

    fn first_kept(&self, row: &Row<'_>, at: &At<'_>, out: &mut Emitter<'_>) -> Option<Seq> {
        let pointer = match (&row.first_kept_entry_id, row.first_kept_entry_index) {
            (Some(id), _) => Pointer::Id(id),
            (None, Some(index)) => Pointer::Line(index),
            (None, None) => return None,
        };
        let (from, lost) = match self.tree.kept(at.place.node, row.id.as_deref(), pointer) {
            Kept::Nothing => return None,
            Kept::From(seq) => (Some(seq), None),
            Kept::Unknown(from) => {
                let sentence = "The summary keeps what follows a record that is not on its branch.";
                let done = "Everything is kept that no summary before it tells.";
                (from, Some((sentence, done)))
            }
        };
        // A result is sent with its call, or not at all.
        let said = from.and_then(|from| self.tree.said_from(at.place.node?, from));
        let is_sent = |result: &Seq| said != Some(*result) && !self.late.contains(result);
        let result = || from.filter(is_sent).filter(|_| matches!(pointer, Pointer::Id(_)));
        let alone = ("The summary keeps a result, and not its call.", "What follows is kept.");
        if let Some((sentence, done)) = lost.or_else(|| result().map(|_| alone)) {
            let origin = &at.meta.origin;
            out.found("missing-kept-record", Severity::Warning, origin, sentence, done);
        }
        said
    }

    fn branch_summary(&mut self, row: &mut Row<'_>, at: &At<'_>, out: &mut Emitter<'_>) -> Written {
        let from = row.from_id.as_deref().and_then(|id| self.tree.node_of(id)).flatten();
        // One that names nothing is about what came before it.
        let from = from.map(|node| self.tree.seq(node)).or(at.meta.parent).unwrap_or_default();
        let summary = Text::Inline(row.summary.take().unwrap_or_default());
        let body = Body::BranchSummary(BranchSummary { summary, from: pos(from) });
        let record = out.record(body, at.meta.clone());
        let Some(usage) = row.usage.and_then(Tokens::usage) else { return Written::said(record) };
        let purpose = "branch_summary".to_owned();
        let response = response(at, row.seq.is_some(), &purpose);
        let spent = UsageRecord { purpose, model: self.model.clone(), usage };
        out.record(Body::Usage(spent), Meta { response, ..at.aside() });
        Written { counted: true, ..Written::said(record) }
    }
}

/// Hands on the messages that a compaction of version 4 keeps: it holds copies of them.
fn retained(row: &mut Row<'_>, at: &At<'_>, out: &mut Emitter<'_>) -> Vec<Pos> {
    let mut kept = Vec::new();
    let mut calls: HashMap<String, VecDeque<Seq>> = HashMap::new();
    let mut parent = at.meta.parent;
    for raw in row.retained_tail.take().unwrap_or_default() {
        let meta = Meta { copy: true, inherited: false, parent, ..at.meta.clone() };
        let mended = Mended::default();
        let msg = mended.parse::<Msg<'_>>(raw.get());
        mended.tell("pi.retained", raw.get(), &Meta { parent: None, ..meta.clone() }, out);
        let Some(mut said) = msg.and_then(message::message) else {
            out.custom("pi.retained", raw, Meta { parent: None, ..meta });
            continue;
        };
        let mut made = Vec::new();
        match &mut said {
            Message::User(_) => {}
            Message::Assistant(reply) => {
                made = reply.calls().map(|call| call.id.clone()).collect();
                reply.usage = None;
            }
            Message::Tool(result) => {
                let made = calls.get_mut(&result.call_id);
                result.call_seq = made.and_then(VecDeque::pop_front);
            }
        }
        let seq = out.record(Body::Message(Box::new(said)), meta);
        for id in made {
            calls.entry(id).or_default().push_back(seq);
        }
        kept.push(pos(seq));
        parent = Some(seq);
    }
    kept
}

/// Hands on a message, and beside it the pieces that have no counterpart among ours.
fn say(said: Message, at: &At<'_>, meta: Meta, out: &mut Emitter<'_>) -> Seq {
    let has_unknown = message::has_unknown(&said);
    let seq = out.record(Body::Message(Box::new(said)), meta);
    if has_unknown {
        for piece in unknown_pieces(at.object.json) {
            out.custom("pi.piece", piece, at.aside());
        }
    }
    seq
}

fn unknown_pieces(json: &str) -> Vec<&RawValue> {
    #[derive(Deserialize)]
    struct Holder<'a> {
        #[serde(borrow)]
        message: Option<Content<'a>>,
        #[serde(borrow)]
        content: Option<Vec<&'a RawValue>>,
    }
    #[derive(Deserialize)]
    struct Content<'a> {
        #[serde(borrow)]
        content: Vec<&'a RawValue>,
    }
    #[derive(Deserialize)]
    struct Kind {
        #[serde(rename = "type", default)]
        what: String,
    }
    let Ok(holder) = serde_json::from_str::<Holder<'_>>(json) else { return Vec::new() };
    let pieces = holder.message.map(|message| message.content).or(holder.content);
    let is_known = |piece: &&RawValue| {
        let kind = serde_json::from_str::<Kind>(piece.get());
        kind.is_ok_and(|kind| KNOWN_PIECES.contains(&&*kind.what))
    };
    pieces.unwrap_or_default().into_iter().filter(|piece| !is_known(piece)).collect()
}

const KNOWN_PIECES: [&str; 4] = ["text", "image", "thinking", "toolCall"];

/// Hands on a name of the session.
pub(super) fn named(name: String, meta: Meta, out: &mut Emitter<'_>) -> Seq {
    out.fact(super::super::item::Fact::Named(name.clone()));
    out.record(Body::Name(Name { name }), meta)
}

/// Hands on something as it is.
pub(super) fn custom(kind: &str, json: &str, meta: Meta, out: &mut Emitter<'_>) -> Seq {
    let raw = serde_json::from_str::<&RawValue>(json).unwrap_or(RawValue::NULL);
    out.custom(kind, raw, meta)
}

/// The name under which something is kept: pi's own word for it, if it is one.
pub(super) fn kind_of(what: &str) -> String {
    let is_word = |what: &str| {
        what.len() <= 40 && what.bytes().all(|b| b.is_ascii_alphanumeric() || b"_-.".contains(&b))
    };
    format!("pi.{}", if is_word(what) { what } else { "unknown" })
}

/// What identifies a model's response over all files. Ids of version 4 are unique. Those of version 3
/// are short, so the time is used, which copies keep, and what tells apart what has one time.
fn response(at: &At<'_>, is_v4: bool, name: &str) -> Option<String> {
    match (&at.meta.origin.id, at.meta.at) {
        (Some(id), _) if is_v4 => Some(format!("pi:{id}")),
        (_, Some(time)) => Some(format!("pi:{}:{name}", time.0)),
        _ => None,
    }
}

fn tell_missing_target(at: &Origin, out: &mut Emitter<'_>) {
    let sentence = "The record is about one that is not in the file.";
    out.found("missing-target", Severity::Warning, at, sentence, "It was kept as it is.");
}

fn whole(number: f64) -> Option<u64> {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it is positive")]
    (number >= 0.0).then_some(number as u64)
}
