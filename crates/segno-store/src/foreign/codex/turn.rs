//! What is being put together while rows come in: a reply, the turn around it, the prompts so far.
//!
//! Responsible for: their shape and the small rules that need nothing else. Must not: hand on records.

use super::super::emitter::Meta;
use super::super::item::{Origin, RawPiece};
use super::item::{self, Replay, ReplyPiece};
use super::rows::{Event, Item, Row, object, pieces, text};
use super::tokens::Spent;
use segno_model::record::{
    AssistantBlock, AssistantMessage, Block, ModelRef, Native, Usage, UserMessage,
};
use segno_model::{Body, Seq};
use serde_json::value::RawValue;
use std::collections::HashMap;

/// The wire of the items.
pub(super) const DIALECT: &str = "openai";

/// A reply of which more may come.
pub(super) struct Reply {
    pub(super) meta: Meta,
    content: Vec<AssistantBlock>,
    /// The items as they are; none when one of them is not the provider's own.
    native: Option<Vec<Box<RawValue>>>,
    usage: Option<Usage>,
    /// What our terms do not hold of it, each as an item of its own.
    pieces: Vec<RawPiece>,
    /// What was read since it began, and is no part of it.
    pub(super) behind: Vec<(Body, Meta)>,
}

impl Reply {
    pub(super) fn new(meta: Meta) -> Self {
        Self {
            meta,
            content: Vec::new(),
            native: Some(Vec::new()),
            usage: None,
            pieces: Vec::new(),
            behind: Vec::new(),
        }
    }

    pub(super) fn add(&mut self, piece: ReplyPiece, item: Option<&RawValue>) {
        if let Some(item) = item {
            self.note(&piece, item);
        }
        self.content.extend(piece.block);
        match (piece.replay, &mut self.native, item) {
            (Replay::Verbatim, Some(native), Some(item)) => native.push(item.to_owned()),
            (Replay::LeftOut, ..) => {}
            _ => self.native = None,
        }
    }

    /// Whether it makes a call under this id.
    pub(super) fn makes(&self, id: &str) -> bool {
        let is_it = |block: &AssistantBlock| matches!(block, AssistantBlock::ToolCall(call) if call.id == id);
        self.content.iter().any(is_it)
    }

    /// Notes an item that has no counterpart.
    pub(super) fn beside(&mut self, item: &RawValue) {
        self.pieces.push(RawPiece::beside(self.content.len(), item));
    }

    fn note(&mut self, piece: &ReplyPiece, item: &RawValue) {
        let more = piece.block.iter().enumerate().filter(|(_, block)| says_more(block));
        for (at, _) in more {
            let json = if piece.is_message { alone(item, at) } else { Some(item.to_owned()) };
            let at = self.content.len() + at;
            self.pieces.extend(json.map(|json| RawPiece { at, beside: false, json }));
        }
    }

    pub(super) fn spend(&mut self, spent: Spent) {
        self.usage = Some(spent.usage);
        self.meta.response = spent.response;
    }

    pub(super) fn done(self, model: &ModelRef) -> (AssistantMessage, Meta, Vec<(Body, Meta)>) {
        let mut reply = AssistantMessage::new(model, self.content);
        reply.usage = self.usage;
        reply.native = self.native.filter(|items| !items.is_empty()).and_then(|items| {
            let items = serde_json::value::to_raw_value(&items).ok()?;
            Some(Native { dialect: DIALECT.to_owned(), items })
        });
        let meta = Meta { pieces: self.pieces, ..self.meta };
        (reply, meta, self.behind)
    }
}

/// Whether an item says more than its block: of reasoning, what nobody signed is shown by Codex alone.
fn says_more(block: &AssistantBlock) -> bool {
    matches!(block, AssistantBlock::Unknown | AssistantBlock::Thinking { signature: None, .. })
}

/// The piece `at` of a message as a message of its own: of a message with a piece that Codex does not know, it
/// drops all.
fn alone(item: &RawValue, at: usize) -> Option<Box<RawValue>> {
    let pieces = pieces(object::<Item<'_>>(Some(item))?.content);
    let piece = pieces.get(at)?.get();
    let json = format!(r#"{{"type":"message","role":"assistant","content":[{piece}]}}"#);
    RawValue::from_string(json).ok()
}

/// The turn that is under way.
#[derive(Default)]
pub(super) struct Turn {
    /// Where it began, while its end was not read.
    pub(super) open: Option<Origin>,
    /// The node before it.
    pub(super) from: Option<Option<Seq>>,
    /// Whether an item of the person was read.
    pub(super) has_user: bool,
    /// Whether words of the model were read as an item.
    pub(super) has_agent: bool,
    /// What events said and no item has said so far.
    pub(super) waiting: Vec<Waiting>,
}

/// Words that only an event has told so far.
pub(super) struct Waiting {
    pub(super) is_user: bool,
    pub(super) content: Vec<Block>,
    pub(super) meta: Meta,
}

/// What may be Codex's own words, by how they begin: the next row tells, as Codex writes behind a prompt that it was
/// one.
pub(super) struct Doubtful {
    pub(super) user: UserMessage,
    pub(super) meta: Meta,
}

impl Doubtful {
    /// The message, given the row behind it.
    pub(super) fn decided(mut self, next: Option<&Row<'_>>) -> (UserMessage, Meta) {
        if next.and_then(prompt_of).is_some_and(|words| words == bare(&self.user.content)) {
            self.user.notice = None;
        }
        (self.user, self.meta)
    }
}

/// What a row tells as a person's prompt.
fn prompt_of(row: &Row<'_>) -> Option<String> {
    let event = match text(row.kind).as_deref() {
        Some("event_msg") => object::<Event<'_>>(row.payload)?,
        _ => return None,
    };
    let words = match text(event.kind).as_deref() {
        Some("user_message") => event.message,
        Some("item_completed") => {
            let item = object::<Event<'_>>(event.item)?;
            item.content.filter(|_| text(item.kind).as_deref() == Some("UserMessage"))
        }
        _ => None,
    };
    Some(bare(&item::blocks(Some(words?)).0))
}

/// The words of a message: the two have them in other pieces.
fn bare(content: &[Block]) -> String {
    let texts = content.iter().map(|block| match block {
        Block::Text { text } => text.head().replace('\n', ""),
        _ => String::new(),
    });
    texts.collect()
}

/// A prompt on the path.
pub(super) struct Prompt {
    pub(super) seq: Seq,
    /// The tip once it is taken back.
    pub(super) back: Option<Seq>,
}

/// Which messages were handed on, by what they hold.
#[derive(Default)]
pub(super) struct Written {
    first: HashMap<u64, Seq>,
    /// The further ones of those that occur more than once.
    more: HashMap<u64, Vec<Seq>>,
}

impl Written {
    pub(super) fn note(&mut self, mark: u64, seq: Seq) {
        if let Some(before) = self.first.insert(mark, seq) {
            self.more.entry(mark).or_default().push(before);
        }
    }

    /// The last but `back` of the messages with this content; 0 is the last.
    pub(super) fn find(&self, mark: u64, back: usize) -> Option<Seq> {
        if back == 0 {
            return self.first.get(&mark).copied();
        }
        let more = self.more.get(&mark)?;
        more.len().checked_sub(back).map(|at| more[at])
    }
}

#[cfg(test)]
mod tests {
    use super::Written;

    #[test]
    fn equal_messages_are_found_from_the_last_on() {
        let mut written = Written::default();
        for (mark, seq) in [(7, 1), (8, 2), (7, 3), (7, 4)] {
            written.note(mark, seq);
        }
        let found: Vec<_> = (0..4).map(|back| written.find(7, back)).collect();
        assert_eq!(found, [Some(4), Some(3), Some(1), None]);
        assert_eq!(written.find(8, 1), None);
    }
}
