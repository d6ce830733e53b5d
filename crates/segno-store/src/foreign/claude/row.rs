//! The shapes of Claude Code's rows.
//!
//! Responsible for: parsing a line once, borrowing what can be borrowed and leaving big values that
//! nobody looks into unparsed. Must not: decide what a row means.

use super::super::outline::hash;
use serde::de::{self, Deserializer, SeqAccess, Visitor};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::fmt;
use std::ops::Deref;

/// A row, as far as it is looked at. Those without `uuid` stand outside the chain.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Row<'a> {
    #[serde(borrow, rename = "type")]
    pub(super) kind: Str<'a>,
    #[serde(borrow, default)]
    pub(super) uuid: Option<Str<'a>>,
    #[serde(borrow, default)]
    pub(super) parent_uuid: Option<Str<'a>>,
    #[serde(borrow, default)]
    pub(super) logical_parent_uuid: Option<Str<'a>>,
    #[serde(default)]
    pub(super) is_sidechain: bool,
    #[serde(borrow, default)]
    pub(super) agent_id: Option<Str<'a>>,
    #[serde(borrow, default)]
    pub(super) timestamp: Option<Str<'a>>,
    #[serde(borrow, default)]
    pub(super) session_id: Option<Str<'a>>,
    #[serde(borrow, default)]
    pub(super) cwd: Option<Str<'a>>,
    #[serde(borrow, default)]
    pub(super) version: Option<Str<'a>>,
    #[serde(borrow, default)]
    pub(super) git_branch: Option<Str<'a>>,
    #[serde(borrow, default)]
    pub(super) forked_from: Option<ForkedFrom<'a>>,
    #[serde(borrow, default)]
    pub(super) message: Option<Message<'a>>,
    #[serde(borrow, default)]
    pub(super) request_id: Option<Str<'a>>,
    #[serde(default)]
    pub(super) is_meta: bool,
    #[serde(default)]
    pub(super) is_compact_summary: bool,
    #[serde(default)]
    pub(super) is_visible_in_transcript_only: bool,
    #[serde(default)]
    pub(super) is_api_error_message: bool,
    #[serde(borrow, default)]
    pub(super) subtype: Option<Str<'a>>,
    #[serde(borrow, default)]
    pub(super) content: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) compact_metadata: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) microcompact_metadata: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) attachment: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) rendered: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) rendered_role: Option<Str<'a>>,
    #[serde(borrow, default)]
    pub(super) tool_use_result: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) tool_denial_kind: Option<Str<'a>>,
    #[serde(borrow, default)]
    pub(super) permission_decision: Option<&'a RawValue>,
}

/// What is left of a row whose other fields have unknown shapes.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Bare<'a> {
    #[serde(borrow, rename = "type")]
    pub(super) kind: Str<'a>,
    #[serde(borrow, default)]
    pub(super) uuid: Option<Str<'a>>,
    #[serde(borrow, default)]
    pub(super) parent_uuid: Option<Str<'a>>,
    #[serde(borrow, default)]
    pub(super) timestamp: Option<Str<'a>>,
}

/// Where a row was copied from.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ForkedFrom<'a> {
    #[serde(borrow)]
    pub(super) session_id: Str<'a>,
    #[serde(borrow, default)]
    pub(super) message_uuid: Option<Str<'a>>,
}

/// A message in the provider's terms.
#[derive(Debug, Deserialize)]
pub(super) struct Message<'a> {
    #[serde(borrow, default)]
    pub(super) id: Option<Str<'a>>,
    #[serde(borrow, default)]
    pub(super) model: Option<Str<'a>>,
    #[serde(borrow, default)]
    pub(super) content: Content<'a>,
    #[serde(borrow, default)]
    pub(super) stop_reason: Option<Str<'a>>,
    #[serde(default)]
    pub(super) usage: Option<RowUsage>,
}

/// Tokens as the provider counts them.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct RowUsage {
    pub(super) input_tokens: Option<u64>,
    pub(super) output_tokens: Option<u64>,
    pub(super) cache_creation_input_tokens: Option<u64>,
    pub(super) cache_read_input_tokens: Option<u64>,
    pub(super) output_tokens_details: Option<OutputDetails>,
}

/// What the output was spent on.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct OutputDetails {
    pub(super) thinking_tokens: Option<u64>,
}

/// A text, or blocks.
#[derive(Debug, Default)]
pub(super) enum Content<'a> {
    #[default]
    Nothing,
    Text(Str<'a>),
    Blocks(Vec<Block<'a>>),
}

/// A block of any kind: the fields of all of them.
#[derive(Debug, Deserialize)]
pub(super) struct Block<'a> {
    #[serde(borrow, rename = "type")]
    pub(super) kind: Str<'a>,
    #[serde(borrow, default)]
    pub(super) text: Option<Str<'a>>,
    #[serde(borrow, default)]
    pub(super) thinking: Option<Str<'a>>,
    #[serde(borrow, default)]
    pub(super) signature: Option<Str<'a>>,
    #[serde(borrow, default)]
    pub(super) data: Option<Str<'a>>,
    #[serde(borrow, default)]
    pub(super) id: Option<Str<'a>>,
    #[serde(borrow, default)]
    pub(super) name: Option<Str<'a>>,
    #[serde(borrow, default)]
    pub(super) input: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) tool_use_id: Option<Str<'a>>,
    #[serde(borrow, default)]
    pub(super) content: Content<'a>,
    #[serde(default)]
    pub(super) is_error: Option<bool>,
    #[serde(borrow, default)]
    pub(super) source: Option<Source<'a>>,
}

/// Where an image is.
#[derive(Debug, Deserialize)]
pub(super) struct Source<'a> {
    #[serde(borrow, default)]
    pub(super) media_type: Option<Str<'a>>,
    #[serde(borrow, default)]
    pub(super) data: Option<Str<'a>>,
}

/// `compactMetadata` of a boundary.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct CompactMetadata {
    pub(super) pre_tokens: Option<u64>,
    pub(super) post_tokens: Option<u64>,
    pub(super) preserved_messages: Option<Preserved>,
    pub(super) preserved_segment: Option<Segment>,
}

/// Rows that stand again behind the summary.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Preserved {
    pub(super) uuids: Vec<String>,
}

/// The same as an end and a beginning; older.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Segment {
    pub(super) head_uuid: Option<String>,
    pub(super) tail_uuid: Option<String>,
}

/// A small row outside the chain: the fields of all that are looked at.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Aside {
    pub(super) operation: Option<String>,
    pub(super) content: Option<String>,
    pub(super) custom_title: Option<String>,
    pub(super) ai_title: Option<String>,
    pub(super) summary: Option<String>,
    pub(super) leaf_uuid: Option<String>,
    pub(super) continued_in_session_id: Option<String>,
    pub(super) replacements: Vec<Replacement>,
}

/// What stands in place of a result.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Replacement {
    pub(super) tool_use_id: Option<String>,
    pub(super) replacement: Option<String>,
}

/// A string that is borrowed where it holds no escapes, also inside an `Option`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub(super) struct Str<'a>(pub(super) Cow<'a, str>);

impl Deref for Str<'_> {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl Str<'_> {
    pub(super) fn into_owned(self) -> String {
        self.0.into_owned()
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Str<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct StrVisitor;
        impl<'de> Visitor<'de> for StrVisitor {
            type Value = Str<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string")
            }

            fn visit_borrowed_str<E: de::Error>(self, text: &'de str) -> Result<Self::Value, E> {
                Ok(Str(Cow::Borrowed(text)))
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Self::Value, E> {
                Ok(Str(Cow::Owned(text.to_owned())))
            }
        }
        deserializer.deserialize_str(StrVisitor)
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Content<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ContentVisitor;
        impl<'de> Visitor<'de> for ContentVisitor {
            type Value = Content<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a text or blocks")
            }

            fn visit_unit<E: de::Error>(self) -> Result<Self::Value, E> {
                Ok(Content::Nothing)
            }

            fn visit_borrowed_str<E: de::Error>(self, text: &'de str) -> Result<Self::Value, E> {
                Ok(Content::Text(Str(Cow::Borrowed(text))))
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Self::Value, E> {
                Ok(Content::Text(Str(Cow::Owned(text.to_owned()))))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
                let mut blocks = Vec::new();
                while let Some(block) = seq.next_element()? {
                    blocks.push(block);
                }
                Ok(Content::Blocks(blocks))
            }
        }
        deserializer.deserialize_any(ContentVisitor)
    }
}

impl Content<'_> {
    /// All its text.
    pub(super) fn text(&self) -> Cow<'_, str> {
        match self {
            Self::Nothing => Cow::Borrowed(""),
            Self::Text(text) => Cow::Borrowed(text),
            Self::Blocks(blocks) => {
                let texts = blocks.iter().filter_map(|block| block.text.as_deref());
                Cow::Owned(texts.collect::<Vec<_>>().join("\n"))
            }
        }
    }

    /// How much text it holds; tells copies from rows that only share an id.
    fn weight(&self) -> usize {
        match self {
            Self::Nothing => 0,
            Self::Text(text) => text.len(),
            Self::Blocks(blocks) => blocks.iter().map(|b| 1 + b.weight()).sum(),
        }
    }
}

impl Block<'_> {
    fn weight(&self) -> usize {
        let texts = [&self.text, &self.thinking, &self.data, &self.id, &self.tool_use_id];
        let texts: usize = texts.iter().map(|text| text.as_ref().map_or(0, |t| t.len())).sum();
        texts + self.input.map_or(0, |raw| raw.get().len()) + self.content.weight()
    }
}

impl Row<'_> {
    /// A row's fingerprint: the same for unchanged copies.
    pub(super) fn print(&self) -> u32 {
        use std::hash::{DefaultHasher, Hash, Hasher};
        let mut hasher = DefaultHasher::new();
        (&*self.kind, self.timestamp.as_deref()).hash(&mut hasher);
        self.message.as_ref().map_or(0, |m| m.content.weight()).hash(&mut hasher);
        self.attachment.map_or(0, |raw| raw.get().len()).hash(&mut hasher);
        (hasher.finish() >> 32) as u32
    }

    /// A fingerprint of what a message says, whatever its id and time.
    pub(super) fn words(&self) -> Option<u32> {
        use std::hash::{DefaultHasher, Hash, Hasher};
        let content = &self.message.as_ref()?.content;
        let mut hasher = DefaultHasher::new();
        (&*self.kind, content.weight()).hash(&mut hasher);
        let head = |text: &str| text.as_bytes()[..text.len().min(64)].to_vec();
        match content {
            Content::Nothing => {}
            Content::Text(text) => head(text).hash(&mut hasher),
            Content::Blocks(blocks) => {
                for block in blocks {
                    let texts = [&block.text, &block.thinking, &block.id, &block.tool_use_id];
                    texts.map(|text| text.as_deref().map(head)).hash(&mut hasher);
                }
            }
        }
        Some((hasher.finish() >> 32) as u32)
    }
}

/// A row's id, a call's or a response's, in 8 bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Key(pub(super) u64);

impl Key {
    pub(super) fn of(id: &str) -> Self {
        // The same one may be spelled in capitals.
        match uuid::Uuid::try_parse(id) {
            Ok(uuid) => Self(hash(&uuid.as_u128())),
            Err(_) => Self(hash(id)),
        }
    }
}
