//! A result that is too large for the model that is to read it.
//!
//! Responsible for: its beginning and its end with a note between, so that one output never fills a window:
//! a summary would only take it out again, and the model would ask for it again. Must not: store anything;
//! the whole of it is the caller's to keep.

use crate::context::estimate_blocks;
use crate::record::{Block, Text};

/// No output is cut below this, in tokens.
const LEAST: u64 = 200;

/// The share of one result among `calls` of one reply, in tokens, where a request may hold `room`: together
/// they take no more than two thirds of it.
#[must_use]
pub fn result_share(room: u64, calls: u64) -> u64 {
    (room / 3 * 2 / calls.max(2)).max(LEAST)
}

/// The content with its texts cut so that all of it takes about `tokens`; none when it fits. Texts in blobs
/// and images stay as they are.
#[must_use]
pub fn cut_result(content: &[Block], tokens: u64) -> Option<Vec<Block>> {
    let all = estimate_blocks(content);
    if all <= tokens {
        return None;
    }
    let texts: Vec<u64> = content.iter().filter(|b| is_inline(b)).map(of).collect();
    let count = texts.len().max(1) as u64;
    let room = tokens.saturating_sub(all - texts.iter().sum::<u64>()).max(LEAST);
    // What is small stays whole; the large ones share the rest by their sizes.
    let small = |tokens: u64| tokens <= room / count / 2;
    let large: u64 = texts.iter().filter(|t| !small(**t)).sum();
    let left = room.saturating_sub(texts.iter().filter(|t| small(**t)).sum());
    let cut = |block: &Block| match block {
        Block::Text { text: Text::Inline(text) } if !small(of(block)) => {
            let chars = text.chars().count() as u128;
            let keep = chars * u128::from(left) / u128::from(large.max(1));
            Block::text(shortened(text, usize::try_from(keep).unwrap_or(usize::MAX), not_shown))
        }
        other => other.clone(),
    };
    (large > left).then(|| content.iter().map(cut).collect())
}

fn is_inline(block: &Block) -> bool {
    matches!(block, Block::Text { text: Text::Inline(_) })
}

fn of(block: &Block) -> u64 {
    estimate_blocks(std::slice::from_ref(block))
}

/// Two thirds from the beginning, the rest from the end, and between them what `note` says of so many left
/// out characters.
pub(super) fn shortened(text: &str, chars: usize, note: impl Fn(usize) -> String) -> String {
    let count = text.chars().count();
    if count <= chars {
        return text.to_owned();
    }
    let at = |n: usize| text.char_indices().nth(n).map_or(text.len(), |(at, _)| at);
    let (head, tail) = (at(chars - chars / 3), at(count - chars / 3));
    format!("{}\n{}\n{}", &text[..head], note(count - chars), &text[tail..])
}

fn not_shown(cut: usize) -> String {
    format!(
        "[… {cut} characters are not shown: the output is larger than what this model can be shown at once; \
         ask for a part of it …]"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(content: &[Block]) -> String {
        let texts = content.iter().map(|block| match block {
            Block::Text { text } => text.head().to_owned(),
            Block::Image { .. } => "(image)".to_owned(),
            Block::Unknown => String::new(),
        });
        texts.collect::<Vec<_>>().join("|")
    }

    /// Covers: G10.
    #[test]
    fn many_calls_share_two_thirds_of_the_room() {
        let cases =
            [(9_000, 1, 3_000), (9_000, 2, 3_000), (9_000, 4, 1_500), (9_000, 1_000, LEAST)];
        for (room, calls, share) in cases {
            assert_eq!(result_share(room, calls), share, "{room} {calls}");
        }
    }

    #[test]
    fn what_fits_is_not_touched() {
        let image = Block::Image {
            media_type: "image/png".to_owned(),
            data: Text::Inline("A".repeat(100_000)),
        };
        for content in [vec![], vec![Block::text("short")], vec![image]] {
            assert_eq!(cut_result(&content, 5_000), None);
        }
    }

    #[test]
    fn a_long_text_keeps_its_beginning_and_its_end() {
        for letter in ["x", "ß", "接", "👩‍💻"] {
            let long = format!("BEGIN {}END", letter.repeat(20_000));
            let content = [Block::text("first"), Block::text(long)];
            let cut = cut_result(&content, 1_000).expect("too long");
            let shown = text(&cut);
            assert!(shown.starts_with("first|BEGIN"), "{letter}");
            assert!(
                shown.ends_with("END") && shown.contains("characters are not shown"),
                "{letter}"
            );
            assert!(estimate_blocks(&cut) < 1_300, "{letter}: {}", estimate_blocks(&cut));
        }
    }
}
