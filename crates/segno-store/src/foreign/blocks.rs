//! Content in blocks as Anthropic's API has them; several agents store that shape.
//!
//! Responsible for: taking such content apart into our blocks, calls and results. Must not: decide what
//! is a prompt.

use super::chain::Answer;
use super::emitter::{Emitter, Meta};
use super::mend::Mended;
use segno_model::finding::Severity;
use segno_model::record::{AssistantBlock, Block, Text, ToolCall};
use serde::Deserialize;
use serde_json::value::RawValue;

/// A piece of a message.
#[derive(Debug)]
pub(super) enum Part {
    /// Text or an image on the person's side.
    Shown(Block),
    /// A tool's result.
    Result(Answer),
    /// A piece of the model's reply.
    Said(AssistantBlock),
    /// A kind that is not known.
    Unknown,
}

/// A piece of a message, and as what it stands there.
pub(super) struct Piece<'a> {
    pub(super) part: Part,
    raw: &'a RawValue,
    mended: Mended,
}

impl Piece<'_> {
    /// Keeps it as it is under the name `kind`.
    pub(super) fn keep(&self, kind: &str, meta: &Meta, out: &mut Emitter<'_>) {
        out.custom(kind, self.raw, meta.clone());
    }

    /// Keeps what only the other side says.
    pub(super) fn misplaced(&self, kind: &str, meta: &Meta, out: &mut Emitter<'_>) {
        misplaced(kind, self.raw, meta, out);
    }

    /// Tells, and keeps, what was odd about it.
    pub(super) fn tell(&self, kind: &str, meta: &Meta, out: &mut Emitter<'_>) {
        if !matches!(self.part, Part::Unknown) {
            self.mended.tell(kind, self.raw.get(), meta, out);
        }
    }
}

/// Keeps a piece of what one side said that only the other says.
pub(super) fn misplaced(kind: &str, raw: &RawValue, meta: &Meta, out: &mut Emitter<'_>) {
    let sentence = "A piece of a message stands on the side that never says such a thing.";
    let done = "It was kept as it is, and is not sent.";
    out.found("misplaced-part", Severity::Warning, &meta.origin, sentence, done);
    out.custom(kind, raw, meta.clone());
}

#[derive(Deserialize)]
struct Row<'a> {
    #[serde(rename = "type")]
    kind: String,
    text: Option<String>,
    thinking: Option<String>,
    signature: Option<String>,
    data: Option<String>,
    id: Option<String>,
    name: Option<String>,
    #[serde(borrow)]
    input: Option<&'a RawValue>,
    tool_use_id: Option<String>,
    #[serde(borrow)]
    content: Option<&'a RawValue>,
    is_error: Option<bool>,
    source: Option<Source>,
}

#[derive(Deserialize)]
struct Source {
    media_type: Option<String>,
    data: Option<String>,
    url: Option<String>,
}

/// The pieces of a user's message; none if it has another shape.
pub(super) fn user_parts(content: &RawValue) -> Option<Vec<Piece<'_>>> {
    pieces(content, |text| Part::Shown(Block::text(text)))
}

/// What the model said in a reply, in order; none if it has another shape. A kind that is not known keeps its
/// place, and is kept under the name `kind`, as is what a model never says.
pub(super) fn reply(
    content: &RawValue,
    kind: &str,
    meta: &Meta,
    out: &mut Emitter<'_>,
) -> Option<Vec<AssistantBlock>> {
    let mut said = Vec::new();
    for piece in pieces(content, |text| Part::Said(AssistantBlock::text(text)))? {
        piece.tell(kind, meta, out);
        match &piece.part {
            Part::Said(block) => said.push(block.clone()),
            Part::Unknown => {
                said.push(AssistantBlock::Unknown);
                piece.keep(kind, meta, out);
            }
            Part::Shown(_) | Part::Result(_) => piece.misplaced(kind, meta, out),
        }
    }
    Some(said)
}

fn pieces(content: &RawValue, text: impl Fn(String) -> Part) -> Option<Vec<Piece<'_>>> {
    if content.get().starts_with('"') {
        let part = text(serde_json::from_str(content.get()).ok()?);
        return Some(vec![Piece { part, raw: content, mended: Mended::default() }]);
    }
    let blocks: Vec<&RawValue> = serde_json::from_str(content.get()).ok()?;
    let pieces = blocks.into_iter().map(|raw| {
        let mended = Mended::default();
        let part = mended.parse(raw.get()).map_or(Part::Unknown, |row| part(row, &text));
        Piece { part, raw, mended }
    });
    Some(pieces.collect())
}

fn part(row: Row<'_>, text: &impl Fn(String) -> Part) -> Part {
    let unknown = || Part::Unknown;
    match row.kind.as_str() {
        "text" => row.text.map_or_else(unknown, text),
        "image" => row.source.and_then(image).map_or_else(unknown, Part::Shown),
        "thinking" => Part::Said(AssistantBlock::Thinking {
            text: row.thinking.unwrap_or_default(),
            signature: row.signature.filter(|signature| !signature.is_empty()),
            redacted: false,
        }),
        "redacted_thinking" => Part::Said(AssistantBlock::Thinking {
            text: String::new(),
            signature: row.data,
            redacted: true,
        }),
        "tool_use" => Part::Said(AssistantBlock::ToolCall(ToolCall {
            id: row.id.unwrap_or_default(),
            name: row.name.unwrap_or_default(),
            arguments: row.input.map_or_else(|| "{}".to_owned(), |input| input.get().to_owned()),
        })),
        "tool_result" => {
            let content = row.content.map(shown).unwrap_or_default();
            let failed = row.is_error.unwrap_or(false);
            Part::Result(Answer::ended(row.tool_use_id.unwrap_or_default(), content, failed))
        }
        _ => unknown(),
    }
}

/// What a result shows.
pub(super) fn shown(content: &RawValue) -> Vec<Block> {
    let block = |piece: Piece<'_>| match piece.part {
        Part::Shown(block) => block,
        Part::Unknown => Block::text(piece.raw.get()),
        Part::Said(_) | Part::Result(_) => Block::Unknown,
    };
    user_parts(content).unwrap_or_default().into_iter().map(block).collect()
}

fn image(source: Source) -> Option<Block> {
    let media_type = source.media_type.unwrap_or_else(|| "image/*".to_owned());
    if let Some(data) = source.data {
        return Some(Block::Image { media_type, data: Text::Inline(data) });
    }
    source.url.map(Block::text)
}
