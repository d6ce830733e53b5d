//! Texts and the contents of messages.
//!
//! Responsible for: empty texts, NUL, kinds that are not known, what only a reference is left of. Must not:
//! look at images or calls.

use super::Draft;
use segno_model::record::{AssistantBlock, Block, Text};
use std::borrow::Cow;

/// Sent where a result has nothing to show.
const NO_OUTPUT: &str = "(no output)";
/// Sent where a user message has nothing that can be sent.
const NO_CONTENT: &str = "(no content)";
/// Stands for NUL, which databases behind providers do not take.
const NUL_PICTURE: &str = "\u{2400}";

pub(super) fn is_blank(text: &str) -> bool {
    text.trim().is_empty()
}

pub(super) fn unknown_blocks(draft: &mut Draft<'_>) {
    let is_known = |block: &&Block| !matches!(block, Block::Unknown);
    draft.contents(|_, blocks| {
        let all = blocks.iter().all(|block| is_known(&block));
        (!all).then(|| blocks.iter().filter(is_known).cloned().collect())
    });
    draft.turns(|turn| {
        let unknown = |block: &AssistantBlock| matches!(block, AssistantBlock::Unknown);
        let broken = turn.content.iter().any(unknown);
        if broken {
            let mut blocks = turn.content.take();
            blocks.retain(|block| !unknown(block));
            turn.content = blocks.into();
        }
        broken
    });
}

pub(super) fn lost_blobs(draft: &mut Draft<'_>) {
    draft.contents(|seq, blocks| {
        let is_lost = |block: &Block| {
            matches!(
                block,
                Block::Text { text: Text::Blob(_) } | Block::Image { data: Text::Blob(_), .. }
            )
        };
        blocks.iter().any(is_lost).then(|| {
            let found = |block: &Block| match block {
                Block::Text { text: Text::Blob(blob) } => {
                    Block::text(format!("{}[the rest of this text is not available]", blob.head))
                }
                Block::Image { media_type, data: Text::Blob(_) } => {
                    super::pictures::left_out(media_type, seq, "it is not available any more")
                }
                other => other.clone(),
            };
            blocks.iter().map(found).collect()
        })
    });
}

/// A text without NUL.
pub(super) fn without_nul(text: &str) -> Cow<'_, str> {
    match text.contains('\0') {
        true => Cow::Owned(text.replace('\0', NUL_PICTURE)),
        false => Cow::Borrowed(text),
    }
}

pub(super) fn nul(draft: &mut Draft<'_>) {
    draft.contents(|_, blocks| {
        let has_nul =
            |block: &Block| matches!(block, Block::Text { text } if text.head().contains('\0'));
        blocks.iter().any(has_nul).then(|| {
            let clean = |block: &Block| match block {
                Block::Text { text } => Block::text(without_nul(text.head())),
                other => other.clone(),
            };
            blocks.iter().map(clean).collect()
        })
    });
    draft.turns(|turn| {
        let has_nul =
            |block: &AssistantBlock| matches!(block, AssistantBlock::Text { text } if text.contains('\0'));
        let broken = turn.content.iter().any(has_nul);
        if broken {
            let mut blocks = turn.content.take();
            for block in &mut blocks {
                if let AssistantBlock::Text { text } = block {
                    *text = without_nul(text).into_owned();
                }
            }
            turn.content = blocks.into();
        }
        broken
    });
}

pub(super) fn empty_texts(draft: &mut Draft<'_>) {
    draft.contents(|_, blocks| {
        let is_empty =
            |block: &&Block| matches!(block, Block::Text { text } if is_blank(text.head()));
        let broken = blocks.iter().any(|block| is_empty(&block));
        broken.then(|| blocks.iter().filter(|block| !is_empty(block)).cloned().collect())
    });
    draft.turns(|turn| {
        let is_empty =
            |block: &AssistantBlock| matches!(block, AssistantBlock::Text { text } if is_blank(text));
        let broken = turn.content.iter().any(is_empty);
        if broken {
            let mut blocks = turn.content.take();
            blocks.retain(|block| !is_empty(block));
            turn.content = blocks.into();
        }
        broken
    });
}

pub(super) fn empty_messages(draft: &mut Draft<'_>) {
    use segno_model::context::ContextMessage::{Assistant, Results, State, User};
    let mut empty = Vec::new();
    for message in &mut draft.messages {
        match message {
            User { seq, content } if content.is_empty() => {
                empty.push(Some(*seq));
                *content = vec![Block::text(NO_CONTENT)].into();
            }
            Results(results) => {
                for result in results.iter_mut().filter(|result| result.content.is_empty()) {
                    empty.push(result.seq);
                    result.content = vec![Block::text(NO_OUTPUT)].into();
                }
            }
            User { .. } | Assistant(_) | State(_) => {}
        }
    }
    empty.into_iter().for_each(|seq| draft.note(seq));
}
