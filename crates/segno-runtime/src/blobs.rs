//! Large values: out of the records when they are written, back into the context when it is sent.
//!
//! Responsible for: both directions. Must not: change anything else; a blob that is missing or damaged
//! becomes a sentence that says so, because a request must go on.

use crate::picture;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use segno_model::context::{Context, ContextMessage, Shared, Target, state_rule};
use segno_model::record::{BlobRef, Block, Native, Text};
use segno_model::store::{SessionLog, StoreError};
use serde_json::value::RawValue;
use std::sync::Arc;

/// Values larger than this many bytes leave the log.
pub const LARGE_VALUE_BYTES: usize = 64 * 1024;

/// Values that take more than this together in one record leave the log too.
const MANY_BYTES: usize = 512 * 1024;

/// How much of a text stays in the record, in bytes at most.
const HEAD_BYTES: usize = 2 * 1024;

/// Stores large texts and images as blobs and refers to them instead; also smaller ones, where there are
/// so many that they would not fit into one record together.
///
/// # Errors
/// As the store.
pub(crate) async fn store_large<L: SessionLog>(
    log: &mut L,
    blocks: &mut [Block],
) -> Result<(), StoreError> {
    let escaped: usize = blocks.iter().map(encoded_bytes).sum();
    let limit = if escaped > MANY_BYTES { HEAD_BYTES } else { LARGE_VALUE_BYTES };
    for block in blocks {
        match block {
            Block::Text { text } => {
                if let Text::Inline(whole) = &*text
                    && whole.len() > limit
                {
                    let head = if limit < LARGE_VALUE_BYTES { "" } else { head(whole) };
                    *text = Text::Blob(log.put_blob(whole.as_bytes(), head).await?);
                }
            }
            Block::Image { data, .. } => {
                if let Text::Inline(encoded) = &*data
                    && encoded.len() > limit
                    && let Ok(bytes) = STANDARD.decode(encoded)
                {
                    // Its size stays known, because its tokens follow from that.
                    let size = picture::header(encoded).map(|(_, size)| size.to_string());
                    let head = size.unwrap_or_default();
                    *data = Text::Blob(log.put_blob(&bytes, &head).await?);
                }
            }
            Block::Unknown => {}
        }
    }
    Ok(())
}

/// Stores bytes whose beginning stays readable in the reference.
///
/// # Errors
/// As the store.
pub(crate) async fn store_bytes<L: SessionLog>(
    log: &mut L,
    bytes: &[u8],
) -> Result<BlobRef, StoreError> {
    let text = String::from_utf8_lossy(&bytes[..bytes.len().min(4096)]);
    log.put_blob(bytes, head(&text)).await
}

/// What a block that would stay takes in a record.
fn encoded_bytes(block: &Block) -> usize {
    let (Block::Text { text: inline } | Block::Image { data: inline, .. }) = block else {
        return HEAD_BYTES;
    };
    let Text::Inline(inline) = inline else { return HEAD_BYTES };
    if inline.len() > LARGE_VALUE_BYTES {
        return HEAD_BYTES;
    }
    serde_json::to_vec(inline).map_or(inline.len(), |json| json.len())
}

/// The beginning of a text that stays in its record.
pub(crate) fn head(text: &str) -> &str {
    cut_at(text, HEAD_BYTES)
}

/// The first bytes of a text, cut between characters.
pub(crate) fn cut_at(text: &str, bytes: usize) -> &str {
    let mut end = text.len().min(bytes);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

/// A text, read if it is a blob; its head when it cannot be.
pub(crate) async fn whole<L: SessionLog>(log: &L, text: &Text) -> String {
    match text {
        Text::Inline(text) => text.clone(),
        Text::Blob(blob) => match log.blob(blob).await {
            Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
            Err(_) => blob.head.clone(),
        },
    }
}

/// Replaces every blob reference in `context`.
pub(crate) async fn resolve<L: SessionLog>(log: &L, context: &mut Context) {
    for message in &mut context.messages {
        match message {
            ContextMessage::User { content, .. } => resolve_content(log, content).await,
            ContextMessage::Results(results) => {
                for result in results {
                    resolve_content(log, &mut result.content).await;
                }
            }
            ContextMessage::Assistant(_) | ContextMessage::State(_) => {}
        }
    }
}

/// Reads a provider's own state, if it is in a blob and `target` is to be sent it.
pub(crate) async fn resolve_state<L: SessionLog>(log: &L, context: &mut Context, target: &Target) {
    let Some(state) = &mut context.state else { return };
    let Some(blob) = state.native.blob() else { return };
    if !state_rule(Some(state), target).sent {
        return;
    }
    let read = log.blob(&blob).await.ok();
    let items = read.and_then(|bytes| RawValue::from_string(String::from_utf8(bytes).ok()?).ok());
    match items {
        Some(items) => {
            let dialect = state.native.dialect.clone();
            state.native = Arc::new(Native { dialect, items });
        }
        None => state.lost = true,
    }
}

async fn resolve_content<L: SessionLog>(log: &L, content: &mut Shared<Block>) {
    let is_blob = |block: &Block| match block {
        Block::Text { text: value } | Block::Image { data: value, .. } => {
            matches!(value, Text::Blob(_))
        }
        Block::Unknown => false,
    };
    // What stays as it is stays shared with its record.
    if content.iter().any(is_blob) {
        let mut blocks = content.take();
        resolve_blocks(log, &mut blocks).await;
        *content = blocks.into();
    }
}

async fn resolve_blocks<L: SessionLog>(log: &L, blocks: &mut [Block]) {
    for block in blocks {
        let (Block::Text { text: value } | Block::Image { data: value, .. }) = &*block else {
            continue;
        };
        let Text::Blob(blob) = value else { continue };
        let blob = &blob.clone();
        let read = log.blob(blob).await;
        match (&mut *block, read) {
            (Block::Text { text }, Ok(bytes)) => {
                *text = Text::Inline(String::from_utf8_lossy(&bytes).into_owned());
            }
            (Block::Image { data, .. }, Ok(bytes)) => {
                let encoded = STANDARD.encode(bytes);
                *data = Text::Inline(encoded);
            }
            (Block::Text { text }, Err(_)) => {
                let head = text.head();
                let name = short(blob);
                let note =
                    format!("{head}\n[The rest of this text is missing or damaged: blob {name}.]");
                *block = Block::text(note);
            }
            (Block::Image { media_type, .. }, Err(_)) => {
                let name = short(blob);
                *block = Block::text(format!(
                    "[An image ({media_type}) is missing or damaged: blob {name}.]"
                ));
            }
            (Block::Unknown, _) => {}
        }
    }
}

/// A blob as people and `segno check` name it.
fn short(blob: &BlobRef) -> &str {
    blob.blob.get(..16).unwrap_or(&blob.blob)
}
