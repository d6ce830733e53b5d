//! Images as a provider takes them.
//!
//! Responsible for: what an image is by its own bytes, whether it fits a provider, and a smaller copy of one
//! that does not. The copy is for the request only; the record keeps the original. The same image gives the
//! same bytes in every request and every process. Must not: trust a media type or a size that somebody wrote
//! down; open an image without bounds.

mod cache;
mod scale;

use super::sendable::{ImageTakes, left_out};
use segno_model::Seq;
use segno_model::context::ContextMessage;
use segno_model::picture::Size;
use segno_model::record::{Block, Text};
use segno_runtime::picture;
use std::borrow::Cow;

/// Whether a provider takes an image as it is.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Judged {
    /// It does.
    Fits,
    /// It does under this type, which the bytes have.
    Mistyped(&'static str),
    /// It does not; why, in words.
    Unfit(String),
}

/// Judges an image by its header.
pub(super) fn judge(media_type: &str, base64: &str, takes: &ImageTakes) -> Judged {
    let Some((actual, size)) = header(base64) else {
        return Judged::Unfit("it is damaged, or no image of a known kind".to_owned());
    };
    if !takes.types.contains(&actual) {
        return Judged::Unfit(format!("{actual} is not taken here"));
    }
    if base64.len() > takes.base64_bytes {
        let (is, most) = (base64.len() / 1024, takes.base64_bytes / 1024);
        return Judged::Unfit(format!("it has {is} KiB, and {most} are taken"));
    }
    if size.width.max(size.height) > takes.side {
        return Judged::Unfit(format!("it has {size} pixels, and {} are taken", takes.side));
    }
    if actual == media_type { Judged::Fits } else { Judged::Mistyped(actual) }
}

/// Type and size by an image's own bytes, all of which must be base64.
fn header(base64: &str) -> Option<(&'static str, Size)> {
    let legal = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'/' | b'=');
    if base64.is_empty() || !base64.len().is_multiple_of(4) || !base64.bytes().all(legal) {
        return None;
    }
    picture::header(base64)
}

/// What an image becomes for a provider.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Fitted {
    /// It goes as it is.
    AsIs,
    /// A copy goes.
    Copy { media_type: &'static str, base64: String },
    /// Nothing can be sent; why, in words.
    Left(&'static str),
}

/// The history with every image as the provider takes it, as far as that is possible: too large ones made
/// smaller, kinds that it does not know made into ones that it does. Each image is opened once per process.
pub(super) async fn fit<'a>(
    messages: &'a [ContextMessage],
    takes: &'static ImageTakes,
) -> Cow<'a, [ContextMessage]> {
    let mut fitted = Vec::new();
    for (seq, content) in contents(messages) {
        for block in content {
            let Block::Image { media_type, data: Text::Inline(base64) } = block else { continue };
            let instead = match cache::fitted(base64, takes).await {
                Fitted::AsIs => None,
                Fitted::Copy { media_type, base64 } => Some(Block::Image {
                    media_type: media_type.to_owned(),
                    data: Text::Inline(base64),
                }),
                Fitted::Left(why) => Some(left_out(media_type, seq, why)),
            };
            fitted.push(instead);
        }
    }
    if fitted.iter().all(Option::is_none) {
        return Cow::Borrowed(messages);
    }
    let mut fitted = fitted.into_iter();
    let mut put = |blocks: &[Block]| -> Vec<Block> {
        let put = |block: &Block| match block {
            Block::Image { data: Text::Inline(_), .. } => {
                fitted.next().flatten().unwrap_or_else(|| block.clone())
            }
            other => other.clone(),
        };
        blocks.iter().map(put).collect()
    };
    let mut messages = messages.to_vec();
    for message in &mut messages {
        match message {
            ContextMessage::User { content, .. } => *content = put(content).into(),
            ContextMessage::Results(results) => {
                results.iter_mut().for_each(|result| result.content = put(&result.content).into());
            }
            ContextMessage::Assistant(_) | ContextMessage::State(_) => {}
        }
    }
    Cow::Owned(messages)
}

/// The contents of the user's side, in order.
fn contents(messages: &[ContextMessage]) -> impl Iterator<Item = (Option<Seq>, &[Block])> {
    messages.iter().flat_map(|message| -> Vec<(Option<Seq>, &[Block])> {
        match message {
            ContextMessage::User { seq, content } => vec![(Some(*seq), content)],
            ContextMessage::Results(results) => {
                results.iter().map(|result| (result.seq, &*result.content)).collect()
            }
            ContextMessage::Assistant(_) | ContextMessage::State(_) => Vec::new(),
        }
    })
}

#[cfg(test)]
mod tests;
