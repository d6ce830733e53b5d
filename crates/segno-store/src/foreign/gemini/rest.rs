//! What our terms do not hold of a message, as it stands there.
//!
//! Responsible for: the files, the code that ran at the provider and the thoughts of a message, as they are stored.
//! Looked for only where a message has some. Must not: know what came before.

use super::super::item::RawPiece;
use super::shape::Part;
use segno_model::record::Block;
use serde::Deserialize;
use serde_json::value::RawValue;

#[derive(Deserialize, Default)]
#[serde(default)]
struct Message<'a> {
    #[serde(borrow)]
    content: Option<&'a RawValue>,
    #[serde(borrow)]
    thoughts: Option<Vec<&'a RawValue>>,
}

fn message(raw: &RawValue) -> Message<'_> {
    serde_json::from_str(raw.get()).unwrap_or_default()
}

/// The parts of a message.
pub(super) fn content(raw: &RawValue) -> Vec<&RawValue> {
    message(raw).content.map(elements).unwrap_or_default()
}

/// The parts of a content: one, or a list.
pub(super) fn elements(content: &RawValue) -> Vec<&RawValue> {
    let list: Vec<&RawValue> = match content.get().starts_with('[') {
        true => serde_json::from_str(content.get()).unwrap_or_default(),
        false => vec![content],
    };
    list.into_iter().filter(|part| part.get() != "null").collect()
}

/// The thoughts of a reply, where its content begins with `blocks` of them.
pub(super) fn thoughts(raw: &RawValue, blocks: usize) -> Vec<RawPiece> {
    if blocks == 0 {
        return Vec::new();
    }
    let thoughts = message(raw).thoughts.unwrap_or_default();
    if thoughts.len() != blocks {
        return Vec::new();
    }
    thoughts.into_iter().enumerate().map(|(at, raw)| RawPiece::of(at, raw)).collect()
}

/// For each part whether it is one of those that are asked for, and then as it stands there.
pub(super) fn of_parts<'a, 'p>(
    parts: &[Part<'p>],
    is_asked: fn(&Part<'p>) -> bool,
    raw: impl FnOnce() -> Vec<&'a RawValue>,
) -> Vec<Option<&'a RawValue>> {
    if !parts.iter().any(is_asked) {
        return vec![None; parts.len()];
    }
    let raw = raw();
    let fits = raw.len() == parts.len();
    let one =
        |(at, part): (usize, &Part<'p>)| raw.get(at).copied().filter(|_| fits && is_asked(part));
    parts.iter().enumerate().map(one).collect()
}

/// What is shown of some parts behind what is shown already, and what of it only says that something is there.
pub(super) fn shown<'a>(
    parts: &[Part<'_>],
    raw: impl FnOnce() -> Vec<&'a RawValue>,
    before: Vec<Block>,
) -> (Vec<Block>, Vec<RawPiece>) {
    let (mut content, mut pieces) = (before, Vec::new());
    let named = of_parts(parts, Part::is_named_only, raw);
    for (part, raw) in parts.iter().zip(named) {
        let Some(block) = part.block() else { continue };
        pieces.extend(raw.map(|raw| RawPiece::of(content.len(), raw)));
        content.push(block);
    }
    (content, pieces)
}
