//! Compactions: a summary, and the whole prompt that replaces what was before.
//!
//! Responsible for: giving a context that holds the replacement and nothing else. Must not: count what it
//! copies as turns.

use super::super::emitter::{Emitter, Meta};
use super::super::view::pos;
use super::item::{self, SUMMARY, Said, fingerprint};
use super::rows::{Compacted, Item, object, owned, pieces};
use super::thread::{Line, Thread};
use super::turn::{DIALECT, Reply};
use segno_model::record::{Block, Compaction, CompactionState, Message, Native, Text, UserMessage};
use segno_model::{Body, Pos, Seq};
use serde_json::value::RawValue;
use std::collections::HashMap;

/// Replacements shorter than this are kept in the record's own JSON, too.
const SHORT: usize = 64;

/// What a replacement holds, in our terms.
#[derive(Default)]
struct Replacement {
    messages: Vec<Message>,
    summary: Option<String>,
    /// The provider's own state.
    native: Vec<Box<RawValue>>,
}

impl Thread {
    /// A `compacted`; false when it has an unknown shape.
    pub(super) fn compacted(
        &mut self,
        line: &Line<'_>,
        payload: &RawValue,
        out: &mut Emitter<'_>,
    ) -> bool {
        let Some(row) = object::<Compacted<'_>>(Some(payload)) else { return false };
        self.settle(out);
        self.flush(out);
        let message = owned(row.message).filter(|text| !text.is_empty());
        let mut new = self.replacement(row.replacement, message);
        let (kept, copied) = match row.replacement {
            Some(_) => self.kept(std::mem::take(&mut new.messages)),
            // Before there were replacements, the prompts stayed.
            None => (self.prompts.iter().map(|prompt| pos(prompt.seq)).collect(), Vec::new()),
        };
        let spent = self.compacting.take();
        let meta = Meta {
            parent: self.tip,
            response: spent.as_ref().and_then(|spent| spent.response.clone()),
            ..self.meta(line)
        };
        let summary = new.summary.map(|text| match text.strip_prefix(SUMMARY.before) {
            Some(summary) => summary.to_owned(),
            None => text,
        });
        let compaction = Compaction {
            summary: summary.map(Text::Inline),
            kept,
            model: Some(self.model.clone()),
            usage: spent.map(|spent| spent.usage),
            native: native(&new.native),
            ..Compaction::marker(CompactionState::Done, None)
        };
        self.tip = Some(out.record(Body::Compaction(Box::new(compaction)), meta));
        for message in copied {
            self.copy(message, line, out);
        }
        self.keep_rest(line, payload, row.replacement, out);
        true
    }

    fn replacement(&self, items: Option<&RawValue>, message: Option<String>) -> Replacement {
        let mut new = Replacement { summary: message, ..Replacement::default() };
        let mut reply: Option<Reply> = None;
        for raw in pieces(items) {
            let said = object::<Item<'_>>(Some(raw)).map(|item| item::said(&item).0);
            if let Some(Said::Reply(piece)) = said {
                reply.get_or_insert_with(|| Reply::new(Meta::default())).add(piece, Some(raw));
                continue;
            }
            if let Some(reply) = reply.take() {
                new.messages.push(Message::Assistant(reply.done(&self.model).0));
            }
            match said {
                Some(Said::User(user)) => new.user(user),
                Some(Said::Result(result)) => new.messages.push(Message::Tool(result)),
                Some(Said::Compacted) => new.native.push(raw.to_owned()),
                _ => {}
            }
        }
        if let Some(reply) = reply {
            new.messages.push(Message::Assistant(reply.done(&self.model).0));
        }
        new
    }

    /// The beginning that stands earlier in the session, and the rest.
    fn kept(&self, messages: Vec<Message>) -> (Vec<Pos>, Vec<Message>) {
        let marks: Vec<u64> = messages.iter().map(fingerprint).collect();
        let mut later: HashMap<u64, usize> = HashMap::new();
        let mut found: Vec<Option<Seq>> = Vec::with_capacity(marks.len());
        for mark in marks.iter().rev() {
            let back = later.entry(*mark).or_default();
            found.push(self.written.find(*mark, *back));
            *back += 1;
        }
        found.reverse();
        let kept: Vec<Pos> = found.into_iter().map_while(|seq| seq.map(pos)).collect();
        let copied = messages.into_iter().skip(kept.len()).collect();
        (kept, copied)
    }

    fn copy(&mut self, message: Message, line: &Line<'_>, out: &mut Emitter<'_>) {
        let meta = Meta { copy: true, inherited: false, ..self.meta(line) };
        match message {
            Message::User(_) => drop(self.node(message, meta, out)),
            Message::Assistant(reply) => self.reply(reply, meta, out),
            Message::Tool(result) => self.result(result, meta, out),
        }
    }

    /// What else the record says, without the replacement that stands in the records.
    fn keep_rest(
        &mut self,
        line: &Line<'_>,
        payload: &RawValue,
        replacement: Option<&RawValue>,
        out: &mut Emitter<'_>,
    ) {
        let long = replacement.filter(|new| new.get().len() > SHORT);
        let rest = long.and_then(|new| {
            RawValue::from_string(payload.get().replacen(new.get(), "null", 1)).ok()
        });
        self.keep_as("compacted", rest.as_deref().unwrap_or(payload), line, out);
    }
}

impl Replacement {
    fn user(&mut self, user: UserMessage) {
        let is_summary = user.notice.as_deref() == Some("compaction");
        let text = match user.content.as_slice() {
            [Block::Text { text }] => Some(text.head()),
            _ => None,
        };
        match (&self.summary, text) {
            (Some(summary), Some(text)) if summary == text => {}
            (None, Some(text)) if is_summary => self.summary = Some(text.to_owned()),
            _ => self.messages.push(Message::User(user)),
        }
    }
}

fn native(items: &[Box<RawValue>]) -> Option<Native> {
    let items = (!items.is_empty()).then(|| serde_json::value::to_raw_value(items))?.ok()?;
    Some(Native { dialect: DIALECT.to_owned(), items })
}
