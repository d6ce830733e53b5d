//! The history of a session as its records change it: appended to, rewritten, replaced, taken back.
//!
//! Responsible for: which message is where in the tree, and each message and result once. Must not: hold what
//! was said, but for the message that may still be rewritten.

use super::super::calls::UNKNOWN_OUTCOME;
use super::super::chain::{Answer, Chain};
use super::super::emitter::{Emitter, Meta};
use super::super::item::{Fact, Origin, RawPiece};
use super::super::lines::unknown_shape;
use super::super::mend::Mended;
use super::super::view::pos;
use super::rest;
use super::shape::{Facts, Message, Part, Parts, Record, Response, ToolCall, key, outcome};
use segno_model::finding::Severity;
use segno_model::record::{
    AssistantBlock, AssistantMessage, Block, Child, ChildState, ContextEdit, Established, ModelRef,
    Outcome,
};
use segno_model::{Body, Seq, Timestamp};
use serde_json::value::RawValue;
use std::collections::HashMap;

/// A session that is being read.
pub(super) struct History {
    /// The session whose subagent this is.
    parent: Option<String>,
    chain: Chain,
    /// The node that was handed on last.
    newest: Option<Seq>,
    /// The messages that make up the history now.
    order: Vec<Place>,
    /// All messages that were handed on, by id.
    known: HashMap<u64, Place>,
    /// The results that were handed on, by call, with what they say.
    answers: HashMap<u64, (Seq, u64)>,
    /// The message that was read last: it may be written again.
    open: Option<Open>,
    named_cwd: bool,
}

/// A message in the history.
#[derive(Debug, Clone, Copy)]
struct Place {
    id: u64,
    /// What it says, as far as copies say it too.
    said: u64,
    first: Seq,
    last: Seq,
}

struct Open {
    id: String,
    json: String,
    origin: Origin,
}

impl History {
    pub(super) fn new(parent: Option<String>) -> Self {
        Self {
            parent,
            chain: Chain::default(),
            newest: None,
            order: Vec::new(),
            known: HashMap::new(),
            answers: HashMap::new(),
            open: None,
            named_cwd: false,
        }
    }

    /// One record. False when it has a shape that is not known.
    pub(super) fn record(&mut self, json: &str, origin: &Origin, out: &mut Emitter<'_>) -> bool {
        let mended = Mended::default();
        let Some(record) = mended.parse::<Record<'_>>(json) else { return false };
        if let Some(id) = record.rewind_to {
            self.close(out);
            self.rewind(&id, origin, out);
        } else if let Some(set) = record.set {
            return self.set(set, json, origin, out);
        } else if record.session.is_some() && (record.project.is_some() || record.id.is_none()) {
            self.facts(json, origin, out);
        } else if let Some(id) = record.id {
            if self.open.as_ref().is_none_or(|open| open.id != id) {
                self.close(out);
            }
            let (json, origin) = (json.to_owned(), origin.clone());
            self.open = Some(Open { id, json, origin });
        } else {
            return false;
        }
        true
    }

    /// A fact of an older session, which is one document.
    pub(super) fn member(&mut self, name: &str, json: &str, out: &mut Emitter<'_>) -> bool {
        let facts = format!("{{{}:{json}}}", serde_json::json!(name));
        self.facts(&facts, &Origin::default(), out);
        true
    }

    /// The session's end.
    pub(super) fn finish(&mut self, out: &mut Emitter<'_>) {
        self.close(out);
        self.chain.finish(out);
        if self.chain.last() != self.newest {
            out.fact(Fact::Tip(self.chain.last()));
        }
    }

    fn facts(&mut self, json: &str, origin: &Origin, out: &mut Emitter<'_>) {
        self.close(out);
        let mended = Mended::default();
        let facts = mended.parse::<Facts<'_>>(json).unwrap_or_default();
        mended.found(origin, out);
        self.tell(&facts, out);
        let told = facts.messages.as_ref().and_then(|_| without_messages(json));
        let raw = serde_json::from_str::<&RawValue>(told.as_deref().unwrap_or(json));
        if let Ok(raw) = raw {
            let meta = Meta { origin: origin.clone(), ..Meta::default() };
            out.custom("gemini.metadata", raw, meta);
        }
        // A line of facts may hold messages, too: they come behind those that were read.
        for message in facts.messages.into_iter().flatten() {
            if !self.record(message.get(), origin, out) {
                unknown_shape("gemini.message", message.get(), origin, out);
            }
        }
    }

    fn tell(&mut self, facts: &Facts<'_>, out: &mut Emitter<'_>) {
        if let Some(id) = facts.session_id.clone() {
            out.fact(Fact::Id(id));
            if let Some(parent) = self.parent.take() {
                out.fact(Fact::ChildOf { parent, call: None, role: None });
            }
        }
        // A session that is resumed says when that was; it began before.
        let start = facts.start_time.as_deref().and_then(Timestamp::parse);
        if let Some(at) = start.filter(|_| self.newest.is_none()) {
            out.fact(Fact::Created(at));
        }
        if let Some(summary) = facts.summary.clone() {
            out.fact(Fact::Titled(summary));
        }
    }

    fn set(&mut self, set: &RawValue, json: &str, origin: &Origin, out: &mut Emitter<'_>) -> bool {
        let mended = Mended::default();
        let Some(facts) = mended.parse::<Facts<'_>>(set.get()) else { return false };
        let meta = Meta { origin: origin.clone(), ..Meta::default() };
        mended.tell("gemini.set", json, &meta, out);
        self.tell(&facts, out);
        match facts.messages {
            Some(messages) => {
                self.close(out);
                self.replace(&messages, origin, out);
            }
            // Says only when: nothing that the messages do not say.
            None if set.get().contains("\"lastUpdated\"") && set.get().len() < 64 => {}
            None => {
                self.close(out);
                if let Ok(raw) = serde_json::from_str::<&RawValue>(json) {
                    out.custom(
                        "gemini.set",
                        raw,
                        Meta { origin: origin.clone(), ..Meta::default() },
                    );
                }
            }
        }
        true
    }

    /// Everything from this message on is taken back.
    fn rewind(&mut self, id: &str, origin: &Origin, out: &mut Emitter<'_>) {
        let id = key(&id);
        if let Some(at) = self.order.iter().position(|place| place.id == id) {
            self.go_back_to(at);
            return;
        }
        let sentence = "The session goes back to before a message that it does not hold.";
        let done = "It was passed over; everything that was said stays.";
        out.found("missing-parent", Severity::Warning, origin, sentence, done);
    }

    /// Leaves only the first `count` messages of the history.
    fn go_back_to(&mut self, count: usize) {
        self.order.truncate(count);
        self.chain.go_to(self.order.last().map(|place| place.last));
    }

    /// The whole history is replaced. As far as it says the same, it is what was read; what follows is read
    /// as a branch, with copies of what was read before.
    fn replace(&mut self, messages: &[&RawValue], origin: &Origin, out: &mut Emitter<'_>) {
        if let [only] = messages
            && !self.order.is_empty()
            && tells_surroundings(only.get())
        {
            return;
        }
        let mut same = 0;
        // Of what follows a summary, what it keeps.
        let mut passed = 0;
        for (at, raw) in messages.iter().enumerate() {
            if passed > 0 {
                passed -= 1;
                continue;
            }
            let mended = Mended::default();
            let Some(message) = mended.parse::<Message<'_>>(raw.get()) else {
                unknown_shape("gemini.message", raw.get(), origin, out);
                continue;
            };
            if is_shown_only(&message) {
                self.message(&message, raw, origin, out);
                continue;
            }
            if self.is_answered(&message, origin, out) {
                continue;
            }
            let said = said(&message);
            let next = self.order.get(same);
            if next.is_some_and(|place| place.id == key(&message.id.as_str()) && place.said == said)
            {
                same += 1;
                self.results_again(&message, origin, out);
                continue;
            }
            let origin = Origin { id: Some(message.id.clone()), ..origin.clone() };
            if let Some(summary) = snapshot(&message) {
                let kept = self.kept(&messages[at + 1..]);
                passed = kept.len();
                self.sum_up((same, summary), kept, &message, &origin, out);
                same = self.order.len();
                continue;
            }
            if same < self.order.len() {
                self.go_back_to(same);
            }
            self.message(&message, raw, &origin, out);
            let meta = meta(&message, &origin, false);
            mended.tell("gemini.message", raw.get(), &meta, out);
            same = self.order.len();
        }
        if same < self.order.len() {
            self.go_back_to(same);
        }
    }

    /// The messages at the beginning of these that were read before, as they are.
    fn kept(&self, messages: &[&RawValue]) -> Vec<Place> {
        let known = |raw: &&RawValue| {
            let mended = Mended::default();
            let message = mended.parse::<Message<'_>>(raw.get())?;
            let (id, said) = (key(&message.id.as_str()), said(&message));
            self.known.get(&id).filter(|place| place.said == said).copied()
        };
        messages.iter().map_while(known).collect()
    }

    /// A summary stands for everything but the first `count` messages of the history and what it keeps.
    fn sum_up(
        &mut self,
        (count, summary): (usize, String),
        kept: Vec<Place>,
        message: &Message<'_>,
        origin: &Origin,
        out: &mut Emitter<'_>,
    ) {
        let id = key(&message.id.as_str());
        let meta = meta(message, origin, self.known.contains_key(&id));
        let records = kept.iter().flat_map(|place| place.first..=place.last).map(pos).collect();
        let seq = self.chain.summary(summary, records, meta, out);
        self.newest = Some(seq);
        self.order.truncate(count);
        self.take(Place { id, said: said(message), first: seq, last: seq });
        // Whoever goes back to one of those goes back to behind the summary.
        self.order.extend(kept.into_iter().map(|place| Place { last: seq, ..place }));
    }

    /// Whether a message only repeats results that were read. One that says something else by now is
    /// changed in the context.
    fn is_answered(
        &mut self,
        message: &Message<'_>,
        origin: &Origin,
        out: &mut Emitter<'_>,
    ) -> bool {
        let parts = &message.content;
        let responses: Vec<_> =
            parts.iter().filter_map(|part| part.function_response.as_ref()).collect();
        if responses.is_empty() || responses.len() < parts.len() || message.kind != "user" {
            return false;
        }
        let is_known =
            |id: &Option<String>| self.answers.contains_key(&key(&id.as_deref().unwrap_or("")));
        if !responses.iter().all(|response| is_known(&response.id)) {
            return false;
        }
        for response in responses {
            let call = response.id.as_deref().unwrap_or("");
            self.tell_again(call, response.content().0, origin, out);
        }
        true
    }

    /// A result that was read is told again. One that says something else by now is changed in the context.
    fn tell_again(&mut self, call: &str, text: String, origin: &Origin, out: &mut Emitter<'_>) {
        let (call, now) = (key(&call), key(&text));
        let Some((seq, _)) = self.answers.get(&call).copied().filter(|(_, said)| *said != now)
        else {
            return;
        };
        let content = vec![Block::text(text)];
        let edit = ContextEdit {
            target: seq,
            edit: "replace".to_owned(),
            content,
            ..ContextEdit::default()
        };
        out.record(Body::ContextEdit(edit), Meta { origin: origin.clone(), ..Meta::default() });
        self.answers.insert(call, (seq, now));
    }

    /// The results in a reply that was read before.
    fn results_again(&mut self, message: &Message<'_>, origin: &Origin, out: &mut Emitter<'_>) {
        for call in message.tool_calls.iter().flatten() {
            let mended = Mended::default();
            let parts = call.result.and_then(|raw| mended.parse::<Parts<'_>>(raw.get()));
            if let [text] = told_of(&call.id, &parts.unwrap_or_default()).as_slice() {
                self.tell_again(&call.id, text.clone(), origin, out);
            }
        }
    }

    /// Hands on the message that was open: it is not written again.
    fn close(&mut self, out: &mut Emitter<'_>) {
        let Some(open) = self.open.take() else { return };
        let mended = Mended::default();
        let Some(message) = mended.parse::<Message<'_>>(&open.json) else {
            return unknown_shape("gemini.message", &open.json, &open.origin, out);
        };
        let Ok(raw) = serde_json::from_str::<&RawValue>(&open.json) else { return };
        let origin = Origin { id: Some(open.id), ..open.origin };
        if self.is_answered(&message, &origin, out) || self.is_rewritten(&message, &origin, out) {
            return;
        }
        let meta = meta(&message, &origin, false);
        self.message(&message, raw, &origin, out);
        mended.tell("gemini.message", raw.get(), &meta, out);
    }

    /// Whether a message was read before, and others after it: then only what is new in it is handed on.
    fn is_rewritten(
        &mut self,
        message: &Message<'_>,
        origin: &Origin,
        out: &mut Emitter<'_>,
    ) -> bool {
        let id = key(&message.id.as_str());
        let Some(place) = self.order.iter().find(|place| place.id == id).copied() else {
            return false;
        };
        let late = message.tool_calls.iter().flatten();
        let late = late.filter(|call| !self.answers.contains_key(&key(&call.id.as_str())));
        let late: Vec<_> = late.collect();
        if place.said == said(message) {
            self.results_again(message, origin, out);
            self.results(late.into_iter(), origin, false, out);
            return true;
        }
        let meta = meta(message, origin, false);
        if !late.is_empty() {
            let content = late.iter().map(|call| called(call)).collect();
            let reply = AssistantMessage::new(&model(message), content);
            let seq = self.chain.reply(reply, meta, out);
            self.newest = Some(seq);
            self.results(late.into_iter(), origin, false, out);
        } else {
            let content = message.content.iter().filter_map(Part::block).collect();
            let edit = ContextEdit {
                target: place.first,
                edit: "replace".to_owned(),
                content,
                ..ContextEdit::default()
            };
            out.record(Body::ContextEdit(edit), meta);
        }
        true
    }

    /// Hands on a message at the end of the history.
    fn message(
        &mut self,
        message: &Message<'_>,
        raw: &RawValue,
        origin: &Origin,
        out: &mut Emitter<'_>,
    ) {
        let id = key(&message.id.as_str());
        let copy = self.known.contains_key(&id);
        let meta = meta(message, origin, copy);
        let (before, first) = (self.newest, out.next_seq());
        match message.kind.as_str() {
            "user" => self.user(&message.content, raw, meta, out),
            "gemini" => self.reply(message, raw, meta, out),
            _ if is_shown_only(message) => {
                out.custom(&format!("gemini.{}", message.kind), raw, meta);
            }
            _ => unknown_shape("gemini.message", raw.get(), origin, out),
        }
        if let Some(last) = self.newest.filter(|_| self.newest != before) {
            self.take(Place { id, said: said(message), first, last });
        }
    }

    fn take(&mut self, place: Place) {
        self.known.insert(place.id, place);
        self.order.push(place);
    }

    fn user(&mut self, parts: &[Part<'_>], raw: &RawValue, meta: Meta, out: &mut Emitter<'_>) {
        for response in parts.iter().filter_map(|part| part.function_response.as_ref()) {
            let call = response.id.clone().unwrap_or_default();
            let (text, failed) = response.content();
            let said = key(&text);
            if self.answers.get(&key(&call.as_str())).is_some_and(|(_, before)| *before == said) {
                continue;
            }
            let outcome = if failed { Outcome::Failed } else { Outcome::Done };
            let answer = Answer {
                call: call.clone(),
                name: response.name.clone(),
                content: vec![Block::text(text)],
                outcome,
                established: Established::Origin,
            };
            let seq = self.chain.result(answer, meta.clone(), out);
            self.newest = Some(seq);
            self.answers.insert(key(&call.as_str()), (seq, said));
        }
        let (content, pieces) = rest::shown(parts, || rest::content(raw), Vec::new());
        if content.is_empty() {
            return;
        }
        let meta = Meta { pieces, ..meta };
        let text = parts.iter().find_map(|part| part.text.as_deref()).unwrap_or_default();
        self.name_cwd(text, out);
        self.newest = Some(self.chain.user(content, notice(text), meta, out));
    }

    /// The surroundings name the directory; where the project's folder does too, that stands first.
    fn name_cwd(&mut self, text: &str, out: &mut Emitter<'_>) {
        if self.named_cwd || !text.starts_with("<session_context>") {
            return;
        }
        let after = text.split_once("**Workspace Directories:**").map(|(_, after)| after);
        let first = after.and_then(|after| after.trim_start().strip_prefix("- "));
        if let Some(cwd) = first.and_then(|rest| rest.lines().next()) {
            out.fact(Fact::Cwd(cwd.trim().to_owned()));
            self.named_cwd = true;
        }
    }

    fn reply(&mut self, message: &Message<'_>, raw: &RawValue, meta: Meta, out: &mut Emitter<'_>) {
        let thoughts = message.thoughts.iter().flatten().map(super::shape::Thought::text);
        let mut content: Vec<AssistantBlock> = thoughts
            .map(|text| AssistantBlock::Thinking { text, signature: None, redacted: false })
            .collect();
        let mut calls: Vec<_> = message.tool_calls.iter().flatten().collect();
        let mut pieces = rest::thoughts(raw, content.len());
        let files = rest::of_parts(&message.content, Part::is_file, || rest::content(raw));
        for (part, file) in message.content.iter().zip(files) {
            if let Some(file) = file {
                pieces.push(RawPiece::of(content.len(), file));
                content.push(AssistantBlock::Unknown);
                continue;
            }
            // A call that is told with its result is taken from there.
            let told = listed(part, &message.content, &calls).map(|at| called(calls.remove(at)));
            content.extend(told.or_else(|| said_in(part)));
        }
        content.extend(calls.into_iter().map(called));
        for block in &content {
            if let AssistantBlock::ToolCall(call) = block {
                // A copy's call gets its result anew.
                self.answers.remove(&key(&call.id.as_str()));
            }
        }
        let usage = message.tokens.map(super::shape::Tokens::usage);
        let usage = usage.filter(|usage| usage.context() > 0);
        let response = usage.map(|_| format!("gemini:{}", message.id));
        let (copy, origin) = (meta.copy, meta.origin.clone());
        let reply = AssistantMessage { usage, ..AssistantMessage::new(&model(message), content) };
        let seq = self.chain.reply(reply, Meta { response, pieces, ..meta }, out);
        self.newest = Some(seq);
        self.results(message.tool_calls.iter().flatten(), &origin, copy, out);
    }

    fn results<'c, 'a: 'c>(
        &mut self,
        calls: impl Iterator<Item = &'c ToolCall<'a>>,
        origin: &Origin,
        copy: bool,
        out: &mut Emitter<'_>,
    ) {
        for call in calls {
            let Some(outcome) = outcome(&call.status) else { continue };
            let mended = Mended::default();
            let parts = call.result.and_then(|raw| mended.parse::<Parts<'_>>(raw.get()));
            let parts = parts.unwrap_or_default();
            let meta = Meta { origin: origin.clone(), ..Meta::default() };
            mended.tell("gemini.result", call.result.map_or("", RawValue::get), &meta, out);
            let texts = told_of(&call.id, &parts);
            let said = key(&texts.concat());
            let is_lost = texts.as_slice() == [UNKNOWN_OUTCOME];
            let shown = texts.into_iter().filter(|text| !text.is_empty()).map(Block::text);
            let raw = || call.result.map(rest::elements).unwrap_or_default();
            let (content, pieces) = rest::shown(&parts, raw, shown.collect());
            let answer = Answer {
                call: call.id.clone(),
                name: Some(call.name.clone()),
                content,
                outcome: if is_lost { Outcome::Unknown } else { outcome },
                established: if is_lost { Established::Recovery } else { Established::Origin },
            };
            let at = call.timestamp.as_deref().and_then(Timestamp::parse);
            let meta = Meta { at, origin: origin.clone(), copy, ..Meta::default() };
            let seq = self.chain.result(answer, Meta { pieces, ..meta.clone() }, out);
            self.newest = Some(seq);
            self.answers.insert(key(&call.id.as_str()), (seq, said));
            if let Some(child) = call.agent_id.clone() {
                out.record(Body::Child(Child::new(child, &call.id, ChildState::Ended)), meta);
            }
        }
    }
}

/// Facts alone.
fn without_messages(json: &str) -> Option<String> {
    let mut facts: serde_json::Map<String, serde_json::Value> = serde_json::from_str(json).ok()?;
    facts.remove("messages");
    serde_json::to_string(&facts).ok()
}

fn meta(message: &Message<'_>, origin: &Origin, copy: bool) -> Meta {
    let at = message.timestamp.as_deref().and_then(Timestamp::parse);
    Meta { at, origin: origin.clone(), copy, ..Meta::default() }
}

/// A piece of a reply.
fn said_in(part: &Part<'_>) -> Option<AssistantBlock> {
    if let Some(call) = &part.function_call {
        let id = call.id.as_deref().unwrap_or_default();
        return Some(AssistantBlock::call(id, &call.name, call.args.map_or("{}", RawValue::get)));
    }
    if part.is_unknown() {
        return Some(AssistantBlock::Unknown);
    }
    let text = part.text.clone().filter(|text| !text.is_empty())?;
    Some(match part.thought {
        Some(true) => {
            let signature = part.thought_signature.clone();
            AssistantBlock::Thinking { text, signature, redacted: false }
        }
        _ => AssistantBlock::Text { text },
    })
}

/// What is told of a call. After resuming, each call of a turn holds the results of all of them.
fn told_of(call: &str, parts: &[Part<'_>]) -> Vec<String> {
    let told: Vec<_> = parts.iter().filter_map(|part| part.function_response.as_ref()).collect();
    let is_own = |response: &&&Response<'_>| response.id.as_deref() == Some(call);
    match told.iter().find(is_own) {
        Some(own) => vec![own.content().0],
        None => told.iter().map(|response| response.content().0).collect(),
    }
}

/// Where the call that a piece is stands in the list: by its id, or, where it lost that, the first of its name that
/// no other piece names.
fn listed(part: &Part<'_>, parts: &[Part<'_>], calls: &[&ToolCall<'_>]) -> Option<usize> {
    let call = part.function_call.as_ref()?;
    let id = |part: &Part<'_>| part.function_call.as_ref().and_then(|call| call.id.clone());
    if let Some(id) = id(part).filter(|id| !id.is_empty()) {
        return calls.iter().position(|listed| listed.id == id);
    }
    let is_named =
        |listed: &ToolCall<'_>| parts.iter().any(|part| id(part).as_deref() == Some(&listed.id));
    calls.iter().position(|listed| listed.name == call.name && !is_named(listed))
}

fn called(call: &ToolCall<'_>) -> AssistantBlock {
    AssistantBlock::call(&call.id, &call.name, call.args.map_or("{}", RawValue::get))
}

fn model(message: &Message<'_>) -> ModelRef {
    ModelRef::new("gemini", message.model.as_deref().unwrap_or_default())
}

/// What a message says, in a form that its copies share: its words and the calls in it.
fn said(message: &Message<'_>) -> u64 {
    let parts = &message.content;
    let own = |part: &&Part<'_>| part.thought != Some(true);
    let text: String = parts.iter().filter(own).filter_map(|part| part.text.as_deref()).collect();
    let within = parts.iter().filter_map(|part| part.function_call.as_ref()?.id.clone());
    let told = message.tool_calls.iter().flatten().map(|call| call.id.clone());
    let mut calls: Vec<String> = within.chain(told).collect();
    calls.sort();
    calls.dedup();
    let images = parts.iter().filter(|part| part.inline_data.is_some()).count();
    key(&(text, calls, images))
}

/// Whether a message is only the surroundings.
pub(super) fn tells_surroundings(json: &str) -> bool {
    let mended = Mended::default();
    let Some(message) = mended.parse::<Message<'_>>(json) else { return false };
    let parts = &message.content;
    let text = parts.iter().find_map(|part| part.text.as_deref()).unwrap_or_default();
    matches!(notice(text), Some("context"))
}

/// The summary that a message of the person's side is, without the tags around it.
fn snapshot(message: &Message<'_>) -> Option<String> {
    let texts = message.content.iter().map(|part| part.text.as_deref());
    let text = texts.collect::<Option<Vec<_>>>()?.concat();
    let inner = text.trim().strip_prefix("<state_snapshot>").filter(|_| message.kind == "user")?;
    let inner = inner.strip_suffix("</state_snapshot>").map(|inner| {
        let inner = inner.strip_prefix('\n').unwrap_or(inner);
        inner.strip_suffix('\n').unwrap_or(inner)
    });
    Some(inner.map_or_else(|| text.clone(), str::to_owned))
}

/// Whether a message is shown to the person and not sent.
fn is_shown_only(message: &Message<'_>) -> bool {
    matches!(message.kind.as_str(), "info" | "error" | "warning")
}

/// Why Gemini CLI said something on the person's side.
fn notice(text: &str) -> Option<&'static str> {
    let begins = |with: &[&str]| with.iter().any(|start| text.starts_with(start));
    match () {
        () if begins(&[
            "<session_context>",
            "This is the Gemini CLI. We are setting up the context",
        ]) =>
        {
            Some("context")
        }
        () if begins(&["<state_snapshot>"]) => Some("summary"),
        () if begins(&["<hook_context>", "System: Please continue", "<system-reminder>"]) => {
            Some("notice")
        }
        () => None,
    }
}
