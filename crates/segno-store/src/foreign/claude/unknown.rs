//! Blocks of kinds that have no counterpart here, as they stand in a row.
//!
//! Responsible for: finding those for which unknown blocks stand in what was read of a row. Looked for only in rows
//! that have any. Must not: decide what is unknown otherwise than the reader of rows does.

use super::super::item::RawPiece;
use super::say::Said;
use segno_model::record::{AssistantBlock, Block};
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;
use std::borrow::Cow;

#[derive(Deserialize)]
struct Row<'a> {
    #[serde(borrow)]
    message: Message<'a>,
}

#[derive(Deserialize)]
struct Message<'a> {
    #[serde(borrow)]
    content: &'a RawValue,
}

#[derive(Deserialize)]
struct Attachment<'a> {
    #[serde(borrow)]
    prompt: &'a RawValue,
}

#[derive(Deserialize)]
struct Kind<'a> {
    #[serde(borrow, rename = "type")]
    kind: Cow<'a, str>,
    #[serde(borrow, default)]
    content: Option<&'a RawValue>,
    #[serde(default)]
    source: Option<Source>,
}

#[derive(Deserialize)]
struct Source {
    data: Option<IgnoredAny>,
}

/// The pieces of each message and result of a user's row.
pub(super) fn of_user(json: &str, said: &[Said]) -> Vec<Vec<RawPiece>> {
    let row = serde_json::from_str::<Row<'_>>(json);
    row.map(|row| among(row.message.content, said)).unwrap_or_default()
}

/// The pieces of a prompt that waited.
pub(super) fn of_prompt(attachment: Option<&RawValue>, said: &[Said]) -> Vec<Vec<RawPiece>> {
    if !said.iter().any(|said| blocks(said).contains(&Block::Unknown)) {
        return Vec::new();
    }
    let attachment =
        attachment.and_then(|raw| serde_json::from_str::<Attachment<'_>>(raw.get()).ok());
    attachment.map(|attachment| among(attachment.prompt, said)).unwrap_or_default()
}

/// The pieces of a reply's row.
pub(super) fn of_reply(json: &str, said: &[AssistantBlock]) -> Vec<RawPiece> {
    const KNOWN: [&str; 4] = ["text", "thinking", "redacted_thinking", "tool_use"];
    let Ok(row) = serde_json::from_str::<Row<'_>>(json) else { return Vec::new() };
    let blocks = elements(row.message.content);
    let is_unknown = |raw: &&&RawValue| kind(raw).is_some_and(|kind| !KNOWN.contains(&&*kind.kind));
    let unknown: Vec<&RawValue> = blocks.iter().filter(is_unknown).copied().collect();
    let places = places(said, &AssistantBlock::Unknown);
    if places.len() != unknown.len() {
        return Vec::new();
    }
    places.into_iter().zip(unknown).map(|(at, raw)| RawPiece::of(at, raw)).collect()
}

/// Puts the unknown blocks of some content to what was read of it; nothing where the two do not fit.
fn among(content: &RawValue, said: &[Said]) -> Vec<Vec<RawPiece>> {
    let mut unknown = Vec::new();
    for block in elements(content) {
        match kind(block) {
            Some(result) if result.kind == "tool_result" => {
                let within = result.content.map(elements).unwrap_or_default();
                unknown.extend(within.into_iter().filter(|raw| is_unknown(raw)));
            }
            _ if is_unknown(block) => unknown.push(block),
            _ => {}
        }
    }
    let places: Vec<Vec<usize>> =
        said.iter().map(|said| places(blocks(said), &Block::Unknown)).collect();
    if places.iter().map(Vec::len).sum::<usize>() != unknown.len() {
        return Vec::new();
    }
    let mut unknown = unknown.into_iter();
    let of = |places: Vec<usize>| -> Vec<RawPiece> {
        places.into_iter().zip(&mut unknown).map(|(at, raw)| RawPiece::of(at, raw)).collect()
    };
    places.into_iter().map(of).collect()
}

fn blocks(said: &Said) -> &[Block] {
    match said {
        Said::User(message) => &message.content,
        Said::Result(result) => &result.content,
    }
}

fn places<T: PartialEq>(blocks: &[T], unknown: &T) -> Vec<usize> {
    blocks.iter().enumerate().filter(|(_, block)| *block == unknown).map(|(at, _)| at).collect()
}

fn elements(content: &RawValue) -> Vec<&RawValue> {
    serde_json::from_str(content.get()).unwrap_or_default()
}

fn kind(block: &RawValue) -> Option<Kind<'_>> {
    serde_json::from_str(block.get()).ok()
}

/// Whether the reader has no block for it on the user's side.
fn is_unknown(block: &RawValue) -> bool {
    kind(block).is_none_or(|block| match &*block.kind {
        "text" => false,
        "image" => block.source.is_none_or(|source| source.data.is_none()),
        _ => true,
    })
}
