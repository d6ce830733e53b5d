//! What a person is shown of files that are attached to another agent's messages.
//!
//! Responsible for: words in the place of a block that says nothing. Must not: change what stands for itself, or what is
//! kept or handed on.

use crate::terminal::table;
use segno_model::Record;
use segno_model::record::{AssistantBlock, Block, Body, Message};
use segno_store::foreign::{Agent, Attachment, AttachmentContent, ForeignRecord};
use std::borrow::Cow;

/// The record as it is shown: with words for attached files.
#[must_use]
pub fn shown(agent: Agent, read: &ForeignRecord) -> Cow<'_, Record> {
    let record = &read.record;
    let (Body::Message(message), false) = (record.body(), read.pieces.is_empty()) else {
        return Cow::Borrowed(record);
    };
    let mut copy = None;
    for (at, attachment) in read.attachments(agent) {
        put(copy.get_or_insert_with(|| message.clone()), at, words(&attachment));
    }
    match copy {
        Some(copy) => Cow::Owned(Record::loose(record.envelope.clone(), Body::Message(copy))),
        None => Cow::Borrowed(record),
    }
}

fn put(message: &mut Message, at: usize, words: String) {
    let content = match message {
        Message::User(user) => &mut user.content,
        Message::Tool(result) => &mut result.content,
        Message::Assistant(reply) => {
            if let Some(block @ AssistantBlock::Unknown) = reply.content.get_mut(at) {
                *block = AssistantBlock::text(words);
            }
            return;
        }
    };
    if let Some(block @ Block::Unknown) = content.get_mut(at) {
        *block = Block::text(words);
    }
}

/// `[document: kiln.pdf, application/pdf, 12 KB]`, and what is in it where that is text.
fn words(attachment: &Attachment) -> String {
    let elsewhere = match &attachment.content {
        AttachmentContent::Elsewhere(place) => Some(place.clone()),
        _ => None,
    };
    let size = attachment.bytes().map(table::size);
    let about: Vec<String> =
        [attachment.name.clone(), attachment.media_type.clone(), size, elsewhere]
            .into_iter()
            .flatten()
            .filter(|part| !part.is_empty())
            .collect();
    let about = if about.is_empty() { String::new() } else { format!(": {}", about.join(", ")) };
    let words = format!("[{}{about}]", attachment.kind);
    match &attachment.content {
        AttachmentContent::Text(text) => format!("{words}\n{text}"),
        _ => words,
    }
}
