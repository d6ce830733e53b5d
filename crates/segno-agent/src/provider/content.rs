//! Content in the terms that all wires share.
//!
//! Responsible for: pieces of content, and ids for calls that come without one. Must not: build a provider's
//! JSON, or decide what is left out (that is [`super::sendable`]).

use super::sendable::own_id;
use segno_model::context::ContextMessage;
use segno_model::record::{Block, Text};
use segno_runtime::ModelRequest;
use std::borrow::Cow;

/// A piece that can be sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Piece<'a> {
    /// Text that is more than white space.
    Text(Cow<'a, str>),
    /// An image as base64.
    Image {
        /// e.g. `image/png`.
        media_type: &'a str,
        /// The base64 text.
        data: &'a str,
    },
}

/// What of `blocks` a wire can say; [`super::sendable`] has made all of it so.
pub(super) fn pieces(blocks: &[Block]) -> Vec<Piece<'_>> {
    blocks.iter().filter_map(piece).collect()
}

fn piece(block: &Block) -> Option<Piece<'_>> {
    match block {
        Block::Text { text } => Some(Piece::Text(Cow::Borrowed(text.head()))),
        Block::Image { media_type, data: Text::Inline(data) } => {
            Some(Piece::Image { media_type, data })
        }
        Block::Image { .. } | Block::Unknown => None,
    }
}

/// The texts, joined by line feeds.
pub(super) fn joined_text(pieces: &[Piece<'_>]) -> String {
    let texts: Vec<&str> = pieces
        .iter()
        .filter_map(|p| match p {
            Piece::Text(text) => Some(&**text),
            Piece::Image { .. } => None,
        })
        .collect();
    texts.join("\n")
}

/// Whether an assistant text may be sent: providers refuse empty and white text.
pub(super) fn has_text(text: &str) -> bool {
    !text.trim().is_empty()
}

/// Makes ids for calls that come without one: the same for the same request and place, and
/// different from those of every other request of the session.
#[derive(Debug, Clone)]
pub(super) struct CallIds(String);

impl CallIds {
    /// From what is asked: the session and the newest record in the context.
    pub(super) fn new(request: &ModelRequest<'_>) -> Self {
        let newest = request.messages.iter().map(newest_seq).max().unwrap_or(0);
        Self(format!("{}/{newest}", request.session))
    }

    /// The id of the call at `place`.
    pub(super) fn make(&self, place: usize) -> String {
        own_id(&format!("{}/{place}", self.0))
    }
}

fn newest_seq(message: &ContextMessage) -> u64 {
    match message {
        ContextMessage::User { seq, .. } => *seq,
        ContextMessage::Assistant(turn) => turn.seq,
        ContextMessage::State(state) => state.seq,
        ContextMessage::Results(results) => results.iter().filter_map(|r| r.seq).max().unwrap_or(0),
    }
}
