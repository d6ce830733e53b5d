//! Images.
//!
//! Responsible for: leaving out what a provider would refuse, with a line that names the record and says why.
//! Must not: change an image's pixels; [`crate::provider::images`] has done what can be done.

use super::Draft;
use crate::provider::images;
use segno_model::Seq;
use segno_model::context::ContextMessage;
use segno_model::record::{Block, Text};

/// What stands where an image is left out.
pub(in crate::provider) fn left_out(media_type: &str, seq: Option<Seq>, why: &str) -> Block {
    let of = seq.map_or(String::new(), |seq| format!(" of record {seq}"));
    Block::text(format!("[{media_type}{of} is left out: {why}]"))
}

fn is_image(block: &Block) -> bool {
    matches!(block, Block::Image { .. })
}

/// Changes each image by itself; `change` gives what is to stand instead.
fn each(draft: &mut Draft<'_>, change: impl Fn(Option<Seq>, &str, &str) -> Option<Block>) {
    draft.contents(|seq, blocks| {
        let change = |block: &Block| match block {
            Block::Image { media_type, data: Text::Inline(data) } => change(seq, media_type, data),
            _ => None,
        };
        let changed: Vec<Option<Block>> = blocks.iter().map(change).collect();
        changed.iter().any(Option::is_some).then(|| {
            blocks
                .iter()
                .zip(changed)
                .map(|(old, new)| new.unwrap_or_else(|| old.clone()))
                .collect()
        })
    });
}

pub(super) fn without_vision(draft: &mut Draft<'_>) {
    if draft.takes_images {
        return;
    }
    let why = format!("{} takes no images", draft.model.id);
    each(draft, |seq, media_type, _| Some(left_out(media_type, seq, &why)));
}

pub(super) fn unfit(draft: &mut Draft<'_>) {
    let takes = &draft.takes.images;
    each(draft, |seq, media_type, data| match images::judge(media_type, data, takes) {
        images::Judged::Fits => None,
        images::Judged::Mistyped(actual) => Some(Block::Image {
            media_type: actual.to_owned(),
            data: Text::Inline(data.to_owned()),
        }),
        images::Judged::Unfit(why) => Some(left_out(media_type, seq, &why)),
    });
}

/// The oldest give way, a quarter of what is taken at a time, so that what is sent changes seldom.
pub(super) fn too_many(draft: &mut Draft<'_>) {
    let takes = &draft.takes.images;
    let sizes: Vec<usize> = contents(&draft.messages)
        .flat_map(|blocks| blocks.iter())
        .filter_map(|block| match block {
            Block::Image { data, .. } => Some(data.head().len()),
            _ => None,
        })
        .collect();
    let fits = |dropped: usize| {
        let rest = &sizes[dropped.min(sizes.len())..];
        rest.len() <= takes.count && rest.iter().sum::<usize>() <= takes.total_base64_bytes
    };
    if fits(0) {
        return;
    }
    let steps = (0..).step_by((takes.count / 4).clamp(1, STEP));
    let dropped = steps.take_while(|n| *n < sizes.len() + STEP).find(|n| fits(*n));
    let dropped = dropped.unwrap_or(sizes.len());
    let mut seen = 0;
    draft.contents(|seq, blocks| {
        let first = seen;
        seen += blocks.iter().filter(|block| is_image(block)).count();
        (first < dropped && seen > first).then(|| {
            let mut place = first;
            let keep = |block: &Block| match block {
                Block::Image { media_type, .. } => {
                    place += 1;
                    match place <= dropped {
                        true => left_out(media_type, seq, "newer ones take all the room"),
                        false => block.clone(),
                    }
                }
                other => other.clone(),
            };
            blocks.iter().map(keep).collect()
        })
    });
}

/// How many images give way at a time, at most.
const STEP: usize = 8;

fn contents(messages: &[ContextMessage]) -> impl Iterator<Item = &[Block]> {
    messages.iter().flat_map(|message| -> Vec<&[Block]> {
        match message {
            ContextMessage::User { content, .. } => vec![content],
            ContextMessage::Results(results) => results.iter().map(|r| &*r.content).collect(),
            ContextMessage::Assistant(_) | ContextMessage::State(_) => Vec::new(),
        }
    })
}
