//! What a reader has no words of ours for, in a conversion.
//!
//! Responsible for: what becomes of such a piece. Where the target is the agent that wrote it, and takes it there, it
//! stands as it stood; a document goes to every target that holds documents. Anything else stays as the reader
//! put it, which is a loss. Must not: know how a target writes anything else.
//!
//! In the records, a text that nobody writes stands for a piece while contexts are built from them, so that what is
//! edited, left out or put elsewhere takes its pieces along.

use super::transcript::Document;
use super::{LossKind, Losses, Session, numbers};
use crate::foreign::{Agent, Attachment, AttachmentContent, RawPiece};
use segno_model::record::{AssistantBlock, Block, Message};
use segno_model::{Body, Record, Seq};
use serde_json::Value;
use std::collections::HashMap;

/// What stands for a piece in a target.
#[derive(Debug)]
pub(super) enum Stand {
    /// The piece itself.
    Raw(Value),
    /// A document.
    Document(Document),
    /// What a document says that is nothing but text.
    Text(String),
}

/// The pieces that are carried, by the text that stands for each.
#[derive(Debug, Default)]
pub(super) struct Pieces(HashMap<String, Stand>);

impl Pieces {
    /// The piece for which a text stands.
    pub(super) fn get(&self, text: &str) -> Option<&Stand> {
        if self.0.is_empty() { None } else { self.0.get(text) }
    }
}

/// Who says what a piece is part of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    User,
    Reply,
    Result,
}

/// The records of a session in which something stands for pieces, and those pieces. Pieces that are not carried are
/// told as lost, but for those that a block of an unknown kind tells of.
pub(super) fn stand_ins(
    session: &Session,
    target: Agent,
    losses: &mut Losses,
) -> (HashMap<Seq, Record>, Pieces) {
    let (mut changed, mut carried) = (HashMap::new(), Pieces::default());
    if session.pieces.is_empty() {
        return (changed, carried);
    }
    for record in &session.records {
        let Some(pieces) = session.pieces.get(&record.seq()) else { continue };
        let Body::Message(message) = record.body() else { continue };
        let mut copy = None;
        let place = match &**message {
            Message::User(_) => Place::User,
            Message::Assistant(_) => Place::Reply,
            Message::Tool(_) => Place::Result,
        };
        // From the end, so that places stay what they are.
        for (n, piece) in pieces.iter().enumerate().rev() {
            let Some(stand) = stand(session, target, place, piece) else {
                if !piece.beside && !is_told(message, piece.at) {
                    losses.of(LossKind::UnknownContent, record.seq());
                }
                continue;
            };
            let text = format!("\u{fdd0}{}.{n}\u{fdd1}", record.seq());
            put(copy.get_or_insert_with(|| message.clone()), piece, &text);
            carried.0.insert(text, stand);
        }
        if let Some(copy) = copy {
            let record = Record::loose(record.envelope.clone(), Body::Message(copy));
            changed.insert(record.seq(), record);
        }
    }
    (changed, carried)
}

/// Whether the loss of a block is told anyway.
fn is_told(message: &Message, at: usize) -> bool {
    match message {
        Message::User(user) => user.content.get(at) == Some(&Block::Unknown),
        Message::Tool(result) => result.content.get(at) == Some(&Block::Unknown),
        Message::Assistant(reply) => matches!(
            reply.content.get(at),
            Some(AssistantBlock::Unknown | AssistantBlock::Thinking { .. })
        ),
    }
}

fn put(message: &mut Message, piece: &RawPiece, text: &str) {
    fn into<T>(content: &mut Vec<T>, piece: &RawPiece, block: T) {
        match content.get_mut(piece.at) {
            Some(place) if !piece.beside => *place = block,
            Some(_) => content.insert(piece.at, block),
            None => content.push(block),
        }
    }
    match message {
        Message::User(user) => into(&mut user.content, piece, Block::text(text)),
        Message::Tool(result) => into(&mut result.content, piece, Block::text(text)),
        Message::Assistant(reply) => into(&mut reply.content, piece, AssistantBlock::text(text)),
    }
}

fn stand(session: &Session, target: Agent, place: Place, piece: &RawPiece) -> Option<Stand> {
    let raw: Value = numbers::value(piece.json.get())?;
    if session.source == target.id() {
        let is_taken = piece.beside || takes_its_own(target, place, &raw);
        return is_taken.then_some(Stand::Raw(raw));
    }
    if piece.beside || place == Place::Reply {
        return None;
    }
    let attached = Attachment::of(Agent::parse(&session.source)?, &raw)?;
    let Attachment { kind: "document", name, media_type, content } = attached else { return None };
    let media_type = media_type.unwrap_or_default();
    match content {
        AttachmentContent::Base64(data) if holds(target, &media_type) => {
            Some(Stand::Document(Document { media_type, name, data }))
        }
        AttachmentContent::Text(text) if !text.trim().is_empty() => Some(Stand::Text(text)),
        _ => None,
    }
}

/// What Gemini CLI sends beside texts and calls, and its thoughts.
const GEMINI: [&str; 6] =
    ["inlineData", "fileData", "executableCode", "codeExecutionResult", "subject", "description"];

/// Whether an agent goes on with a session that holds such a piece (`docs/repair.md`): pi sends one of an unknown kind
/// as an image without data, Gemini CLI as it is, and Codex drops the message around it.
fn takes_its_own(agent: Agent, place: Place, raw: &Value) -> bool {
    match agent {
        Agent::Codex => place == Place::Reply,
        Agent::Pi => false,
        Agent::Gemini => GEMINI.iter().any(|name| raw.get(name).is_some()),
        _ => true,
    }
}

/// Whether an agent holds documents of a kind.
fn holds(target: Agent, media_type: &str) -> bool {
    let begins = |start: &str| media_type.starts_with(start);
    match target {
        Agent::Claude => media_type == "application/pdf",
        Agent::Gemini => media_type == "application/pdf" || begins("audio/") || begins("video/"),
        Agent::OpenCode => !media_type.is_empty(),
        _ => false,
    }
}
