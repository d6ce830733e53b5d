//! Large values: out of the records when they are written, back into the context when it is sent.
//!
//! Responsible for: both directions. Must not: change anything else; a blob that is missing or damaged
//! becomes a sentence that says so, because a request must go on.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use segno_model::context::{Context, ContextMessage};
use segno_model::record::{Block, Text};
use segno_model::store::{SessionLog, StoreError};

/// Values larger than this many bytes leave the log.
pub const LARGE_VALUE_BYTES: usize = 64 * 1024;

/// How much of a text stays in the record, in bytes at most.
const HEAD_BYTES: usize = 2 * 1024;

/// Stores large texts and images as blobs and refers to them instead.
///
/// # Errors
/// As the store; nothing has changed then.
pub(crate) async fn store_large<L: SessionLog>(
    log: &mut L,
    blocks: &mut [Block],
) -> Result<(), StoreError> {
    for block in blocks {
        match block {
            Block::Text { text } => {
                if let Text::Inline(whole) = &*text
                    && whole.len() > LARGE_VALUE_BYTES
                {
                    *text = Text::Blob(log.put_blob(whole.as_bytes(), head(whole)).await?);
                }
            }
            Block::Image { data, .. } => {
                if let Text::Inline(encoded) = &*data
                    && encoded.len() > LARGE_VALUE_BYTES
                    && let Ok(bytes) = STANDARD.decode(encoded)
                {
                    *data = Text::Blob(log.put_blob(&bytes, "").await?);
                }
            }
            Block::Unknown => {}
        }
    }
    Ok(())
}

/// The beginning of a text, cut between characters.
pub(crate) fn head(text: &str) -> &str {
    let mut end = text.len().min(HEAD_BYTES);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

/// Replaces every blob reference in `context`.
pub(crate) async fn resolve<L: SessionLog>(log: &L, context: &mut Context) {
    for message in &mut context.messages {
        match message {
            ContextMessage::User { content, .. } => resolve_blocks(log, content).await,
            ContextMessage::Results(results) => {
                for result in results {
                    resolve_blocks(log, &mut result.content).await;
                }
            }
            ContextMessage::Assistant(_) => {}
        }
    }
}

async fn resolve_blocks<L: SessionLog>(log: &L, blocks: &mut [Block]) {
    for block in blocks {
        let (Block::Text { text: value } | Block::Image { data: value, .. }) = &*block else {
            continue;
        };
        let Text::Blob(blob) = value else { continue };
        let read = log.blob(blob).await;
        match (&mut *block, read) {
            (Block::Text { text }, Ok(bytes)) => {
                *text = Text::Inline(String::from_utf8_lossy(&bytes).into_owned());
            }
            (Block::Image { data, .. }, Ok(bytes)) => {
                let encoded = STANDARD.encode(bytes);
                *data = Text::Inline(encoded);
            }
            (other, _) => {
                let head = if let Block::Text { text } = other { text.head() } else { "" };
                let note = "[The rest of this content is no longer available.]";
                *block = Block::text(format!("{head}{note}"));
            }
        }
    }
}
