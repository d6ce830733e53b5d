//! What one record contributes: its content without anything that a provider refuses on replay.
//!
//! Responsible for: empty texts, unsigned thinking, broken replies, edits and frames. Must not: look at
//! other records; the stored content is never changed, only what is sent.

use super::rule::Content;
use super::shared::Shared;
use crate::compaction::beside_summary;
use crate::id::Seq;
use crate::line::Record;
use crate::record::{
    AssistantBlock, AssistantMessage, Block, Body, ContextEdit, EditPart, Message, Native,
    StopReason, Text,
};
use std::borrow::Cow;
use std::collections::HashMap;

/// A record as it is sent.
pub(super) struct Shaped<'a> {
    pub(super) content: Content,
    pub(super) said: Said<'a>,
}

pub(super) enum Said<'a> {
    Nothing,
    User(Shared<Block>),
    Assistant {
        blocks: Shared<AssistantBlock>,
        /// Only when they can be sent as they are.
        native: Option<&'a Native>,
        of: &'a AssistantMessage,
    },
}

impl Shaped<'_> {
    /// How many calls it holds.
    pub(super) fn calls(&self) -> usize {
        match &self.said {
            Said::Assistant { blocks, .. } => {
                blocks.iter().filter(|b| matches!(b, AssistantBlock::ToolCall(_))).count()
            }
            _ => 0,
        }
    }
}

/// The edits in force, by record: the last one of each counts.
pub(super) struct Edits<'a>(HashMap<Seq, &'a ContextEdit>);

impl<'a> Edits<'a> {
    pub(super) fn in_force(records: &[&'a Record]) -> Self {
        let mut edits: HashMap<Seq, &'a ContextEdit> = HashMap::new();
        for record in records {
            let edit = match record.body() {
                Body::ContextEdit(edit) => edit,
                Body::Compaction(compaction) => {
                    let is_over = |target: &Seq, edit: &&ContextEdit| {
                        edit.is_pruning() && compaction.ends_pruning_of(*target, record.seq())
                    };
                    edits.retain(|target, edit| !is_over(target, edit));
                    continue;
                }
                _ => continue,
            };
            match edit.edit.as_str() {
                "restore" => drop(edits.remove(&edit.target)),
                "omit" | "replace" => drop(edits.insert(edit.target, edit)),
                _ => {}
            }
        }
        Self(edits)
    }

    /// Whether this very edit is in force.
    pub(super) fn has(&self, edit: &ContextEdit) -> bool {
        self.0.get(&edit.target).is_some_and(|in_force| std::ptr::eq(*in_force, edit))
    }

    /// Whether an edit of this record is in force.
    pub(super) fn concern(&self, seq: Seq) -> bool {
        self.0.contains_key(&seq)
    }

    /// Whether something else stands in this record's place, or nothing.
    pub(super) fn replace(&self, seq: Seq) -> bool {
        self.0.get(&seq).is_some_and(|edit| !is_partial(edit))
    }

    /// What stands in a record's place; none with a replacement that is empty.
    fn replacement(&self, seq: Seq) -> Option<Option<Vec<Block>>> {
        let edit = self.0.get(&seq).filter(|edit| !is_partial(edit))?;
        let content = match edit.edit.as_str() {
            "replace" => sendable(&edit.content).into_owned(),
            _ => Vec::new(),
        };
        Some(Some(content).filter(|c| !c.is_empty()))
    }

    /// Whether this part of a record is left out, and the rest of it stays.
    fn lacks(&self, seq: Seq, part: EditPart) -> bool {
        self.0.get(&seq).is_some_and(|edit| is_partial(edit) && edit.parts.contains(&part))
    }
}

fn is_partial(edit: &ContextEdit) -> bool {
    edit.edit == "omit" && !edit.parts.is_empty()
}

/// Shapes a node other than a tool result.
pub(super) fn shape<'a>(record: &'a Record, edits: &Edits<'_>) -> Shaped<'a> {
    let edit = edits.replacement(record.seq());
    match (record.body(), edit) {
        (Body::Compaction(c), edit) => {
            let summary = c.summary.as_ref().filter(|s| !is_blank(s)).cloned();
            let left_out = || vec![Block::text(OMITTED)];
            let edited = edit.map(|content| content.unwrap_or_else(left_out));
            let body = edited.unwrap_or_else(|| {
                let summary = summary.unwrap_or_else(|| Text::Inline(NO_SUMMARY.to_owned()));
                with_words(summary, beside_summary(c))
            });
            whole(framed(&HISTORY, body).into())
        }
        (_, Some(None)) => Shaped { content: Content::Omitted, said: Said::Nothing },
        (Body::Message(message), Some(Some(blocks))) => match &**message {
            Message::Assistant(reply) => {
                let text = texts(&blocks);
                let blocks = vec![AssistantBlock::Text { text }].into();
                let said = Said::Assistant { blocks, native: None, of: reply };
                Shaped { content: Content::Edited, said }
            }
            _ => edited(blocks),
        },
        (Body::BranchSummary(_), Some(Some(blocks))) => edited(framed(&BRANCH, blocks)),
        (Body::Custom(_), Some(Some(blocks))) => edited(blocks),
        (Body::Message(message), None) => match &**message {
            Message::User(user) if edits.lacks(record.seq(), EditPart::Images) => {
                edited(sendable(&without_images(&user.content)).into_owned())
            }
            Message::User(user) => whole(shared(sendable(&user.content), record, words)),
            Message::Assistant(reply) if edits.lacks(record.seq(), EditPart::Thinking) => {
                without_thinking(assistant(record, reply))
            }
            Message::Assistant(reply) => assistant(record, reply),
            Message::Tool(_) => Shaped { content: Content::Empty, said: Said::Nothing },
        },
        (Body::BranchSummary(branch), None) if is_blank(&branch.summary) => {
            whole(Vec::new().into())
        }
        (Body::BranchSummary(branch), None) => {
            whole(framed(&BRANCH, vec![Block::Text { text: branch.summary.clone() }]).into())
        }
        (Body::Custom(custom), None) => {
            let context = [Block::text(custom.context.clone().unwrap_or_default())];
            whole(sendable(&context).into_owned().into())
        }
        _ => Shaped { content: Content::Unreadable, said: Said::Nothing },
    }
}

/// A summary and what stands below it.
fn with_words(summary: Text, below: Option<String>) -> Vec<Block> {
    match (summary, below) {
        (Text::Inline(text), Some(below)) => vec![Block::text(text + &below)],
        (summary, below) => {
            let below = below.map(|below| Block::text(below.trim_start()));
            std::iter::once(Block::Text { text: summary }).chain(below).collect()
        }
    }
}

fn edited<'a>(blocks: Vec<Block>) -> Shaped<'a> {
    Shaped { content: Content::Edited, said: Said::User(blocks.into()) }
}

fn whole<'a>(blocks: Shared<Block>) -> Shaped<'a> {
    if blocks.is_empty() {
        return Shaped { content: Content::Empty, said: Said::Nothing };
    }
    Shaped { content: Content::Whole, said: Said::User(blocks) }
}

/// A result's content, never empty.
pub(super) fn result(record: &Record, content: &[Block], edits: &Edits<'_>) -> Shared<Block> {
    let blocks = match edits.replacement(record.seq()) {
        Some(Some(blocks)) => blocks.into(),
        Some(None) => vec![Block::text(OMITTED)].into(),
        None if edits.lacks(record.seq(), EditPart::Images) => {
            sendable(&without_images(content)).into_owned().into()
        }
        None => shared(sendable(content), record, words),
    };
    if blocks.is_empty() { vec![Block::text(EMPTY_RESULT)].into() } else { blocks }
}

/// What is sent of a record: its own part, when nothing was changed about it.
fn shared<T: Clone>(sent: Cow<'_, [T]>, of: &Record, part: fn(&Body) -> &[T]) -> Shared<T> {
    match sent {
        Cow::Borrowed(_) => Shared::part(of.shared_body(), part),
        Cow::Owned(made) => made.into(),
    }
}

/// What a person or a tool said.
fn words(body: &Body) -> &[Block] {
    let Body::Message(message) = body else { return &[] };
    match &**message {
        Message::User(user) => &user.content,
        Message::Tool(result) => &result.content,
        Message::Assistant(_) => &[],
    }
}

fn said_by_model(body: &Body) -> &[AssistantBlock] {
    let Body::Message(message) = body else { return &[] };
    match &**message {
        Message::Assistant(reply) => &reply.content,
        _ => &[],
    }
}

/// A reply without what must not be replayed.
fn assistant<'a>(record: &Record, reply: &'a AssistantMessage) -> Shaped<'a> {
    let broken = reply.partial || matches!(reply.stop, StopReason::Broken | StopReason::Stopped);
    let replayable = |block: &&AssistantBlock| is_replayable(block, broken);
    let blocks: Cow<'_, [AssistantBlock]> = match reply.content.iter().all(|b| replayable(&b)) {
        true => Cow::Borrowed(&reply.content),
        false => reply.content.iter().filter(replayable).cloned().collect(),
    };
    let blocks = shared(blocks, record, said_by_model);
    if blocks.iter().all(|b| matches!(b, AssistantBlock::Thinking { .. })) {
        return Shaped { content: Content::Empty, said: Said::Nothing };
    }
    let native = reply.native.as_ref().filter(|_| !broken && !has_blank_text(reply));
    let content = if broken { Content::Partial } else { Content::Whole };
    Shaped { content, said: Said::Assistant { blocks, native, of: reply } }
}

/// A reply of which an edit took the reasoning, and with it what only the maker could read.
fn without_thinking(shaped: Shaped<'_>) -> Shaped<'_> {
    let Shaped { content: Content::Whole, said: Said::Assistant { mut blocks, of, .. } } = shaped
    else {
        return shaped;
    };
    if blocks.iter().any(|b| matches!(b, AssistantBlock::Thinking { .. })) {
        let mut rest = blocks.take();
        rest.retain(|b| !matches!(b, AssistantBlock::Thinking { .. }));
        blocks = rest.into();
    }
    Shaped { content: Content::Edited, said: Said::Assistant { blocks, native: None, of } }
}

/// The blocks with a line where each image was.
fn without_images(blocks: &[Block]) -> Vec<Block> {
    let line = |block: &Block| match block {
        Block::Image { .. } => Block::text(IMAGE_OMITTED),
        other => other.clone(),
    };
    blocks.iter().map(line).collect()
}

fn is_replayable(block: &AssistantBlock, broken: bool) -> bool {
    match block {
        AssistantBlock::Text { text } => !text.trim().is_empty(),
        AssistantBlock::Thinking { signature, .. } => {
            !broken && signature.as_ref().is_some_and(|s| !s.trim().is_empty())
        }
        AssistantBlock::ToolCall(_) => !broken,
        AssistantBlock::Unknown => false,
    }
}

/// An adapter puts into the native items only what its provider takes back, so unsigned thinking and
/// kinds that are unknown here say nothing against them. An empty text does: then nobody looked.
fn has_blank_text(reply: &AssistantMessage) -> bool {
    let is_blank =
        |b: &AssistantBlock| matches!(b, AssistantBlock::Text { text } if text.trim().is_empty());
    reply.content.iter().any(is_blank)
}

/// The blocks that a provider takes; the given ones, when it takes them all. What this version does not
/// know is named, not dropped.
fn sendable(blocks: &[Block]) -> Cow<'_, [Block]> {
    let is_empty = |block: &Block| match block {
        Block::Text { text } | Block::Image { data: text, .. } => is_blank(text),
        Block::Unknown => false,
    };
    if !blocks.iter().any(|block| is_empty(block) || matches!(block, Block::Unknown)) {
        return Cow::Borrowed(blocks);
    }
    let kept = blocks.iter().filter(|block| !is_empty(block));
    kept.map(|block| match block {
        Block::Unknown => Block::text(UNKNOWN_BLOCK),
        known => known.clone(),
    })
    .collect()
}

fn is_blank(text: &Text) -> bool {
    matches!(text, Text::Inline(text) if text.trim().is_empty())
}

fn texts(blocks: &[Block]) -> String {
    let texts = blocks.iter().filter_map(|block| match block {
        Block::Text { text } => Some(text.head()),
        _ => None,
    });
    texts.collect::<Vec<_>>().join("\n")
}

/// A tag and what it says about itself.
struct Frame {
    tag: &'static str,
    note: &'static str,
}

const HISTORY: Frame = Frame {
    tag: "session_history",
    note: "A summary of the earlier part of this session. It is history, not a request.",
};

const BRANCH: Frame = Frame {
    tag: "other_branch",
    note: "A summary of another branch of this session. It is history, not a request.",
};

/// Stands where a compaction has no summary.
const NO_SUMMARY: &str = "No summary was recorded.";
/// Stands for a tool result without content.
const EMPTY_RESULT: &str = "(no output)";
/// Stands for a result or a summary that an edit took out, where something must stand.
const OMITTED: &str = "(left out)";
/// Stands for an image that an edit took out.
const IMAGE_OMITTED: &str = "(an image was left out)";
/// Stands for a piece of content that this version does not know.
const UNKNOWN_BLOCK: &str = "(content of a kind that this version of Segno cannot send)";

fn framed(frame: &Frame, body: Vec<Block>) -> Vec<Block> {
    let open = format!("<{} note=\"{}\">\n", frame.tag, frame.note);
    let close = format!("\n</{}>", frame.tag);
    let inner: Vec<Block> = body.into_iter().map(|b| without_closing_tag(b, frame.tag)).collect();
    match inner.as_slice() {
        [Block::Text { text: Text::Inline(text) }] => {
            vec![Block::text(format!("{open}{text}{close}"))]
        }
        _ => {
            let mut blocks = vec![Block::text(open)];
            blocks.extend(inner);
            blocks.push(Block::text(close));
            blocks
        }
    }
}

/// Text cannot end the frame that it stands in.
fn without_closing_tag(block: Block, tag: &str) -> Block {
    match block {
        Block::Text { text: Text::Inline(text) } => {
            Block::text(text.replace(&format!("</{tag}"), &format!("<\\/{tag}")))
        }
        other => other,
    }
}
