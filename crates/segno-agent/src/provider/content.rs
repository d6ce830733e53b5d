//! What every wire does with content before it has a wire's shape.
//!
//! Responsible for: leaving out what providers refuse (empty text, unknown blocks), placeholders,
//! call ids, and the tools that a history needs. Must not: build a provider's JSON.

use segno_model::context::ContextMessage;
use segno_model::record::{AssistantBlock, Block, Text, ToolCall};
use segno_runtime::{ModelRequest, ToolSpec};
use sha2::{Digest, Sha256};
use std::borrow::Cow;
use std::fmt::Write;

/// Sent where a result has nothing to show.
pub(super) const NO_OUTPUT: &str = "(no output)";
/// Sent where a user message has nothing that can be sent.
pub(super) const NO_CONTENT: &str = "(no content)";

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

/// What of `blocks` can be sent; never empty.
pub(super) fn pieces<'a>(blocks: &'a [Block], placeholder: &'static str) -> Vec<Piece<'a>> {
    let mut pieces: Vec<Piece<'a>> = blocks.iter().filter_map(piece).collect();
    if pieces.is_empty() {
        pieces.push(Piece::Text(Cow::Borrowed(placeholder)));
    }
    pieces
}

fn piece(block: &Block) -> Option<Piece<'_>> {
    match block {
        Block::Text { text } if text.head().trim().is_empty() => None,
        Block::Text { text } => Some(Piece::Text(Cow::Borrowed(text.head()))),
        Block::Image { media_type, data: Text::Inline(data) } => {
            Some(Piece::Image { media_type, data })
        }
        Block::Image { media_type, data: Text::Blob(_) } => {
            Some(Piece::Text(Cow::Owned(format!("[{media_type} that is no longer available]"))))
        }
        Block::Unknown => None,
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

/// The tools to send. A history with calls needs tools; if the caller gives none, the called names
/// are declared again, so that the history stays legal, and calling is switched off.
pub(super) fn tools<'a>(request: &ModelRequest<'a>) -> (Cow<'a, [ToolSpec]>, bool) {
    if !request.tools.is_empty() {
        return (Cow::Borrowed(request.tools), true);
    }
    let mut declared: Vec<ToolSpec> = Vec::new();
    for call in calls(request.messages) {
        if declared.iter().all(|t| t.name != call.name) {
            declared.push(ToolSpec {
                name: call.name.clone(),
                description: "Not available any more.".to_owned(),
                parameters: serde_json::json!({ "type": "object" }),
            });
        }
    }
    (Cow::Owned(declared), false)
}

fn calls(messages: &[ContextMessage]) -> impl Iterator<Item = &ToolCall> {
    messages
        .iter()
        .filter_map(|m| match m {
            ContextMessage::Assistant(turn) => Some(&turn.content),
            _ => None,
        })
        .flatten()
        .filter_map(|b| match b {
            AssistantBlock::ToolCall(call) => Some(call),
            _ => None,
        })
}

/// Marks ids that we made because the provider gave none.
const OWN_ID: &str = "segno_";

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
        let digest = Sha256::digest(format!("{}/{place}", self.0));
        digest.iter().take(8).fold(OWN_ID.to_owned(), |mut id, byte| {
            let _ = write!(id, "{byte:02x}");
            id
        })
    }
}

/// Whether we made this id.
pub(super) fn is_own_id(id: &str) -> bool {
    id.starts_with(OWN_ID)
}

fn newest_seq(message: &ContextMessage) -> u64 {
    match message {
        ContextMessage::User { seq, .. } => *seq,
        ContextMessage::Assistant(turn) => turn.seq,
        ContextMessage::Results(results) => results.iter().filter_map(|r| r.seq).max().unwrap_or(0),
    }
}

/// An id in the alphabet that every provider takes, at most 64 long: unchanged when it already is.
pub(super) fn plain_id(id: &str) -> Cow<'_, str> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    if id.len() <= 64 && id.chars().all(is_plain) {
        return Cow::Borrowed(id);
    }
    let head: String = id.chars().filter(|c| is_plain(*c)).take(40).collect();
    let digest = Sha256::digest(id);
    Cow::Owned(digest.iter().take(8).fold(format!("{head}_"), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    }))
}
