//! The shapes of pi's lines.
//!
//! Responsible for: what is taken out of a line, in one pass over its text. Must not: decide what it
//! means. Fields that are not named here are skipped unread; the line itself stays where it is.

use segno_model::Timestamp;
use segno_model::record::Usage;
use serde::de::{self, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt;

/// A short text, borrowed from the line where that is possible.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
pub(super) struct Str<'a>(#[serde(borrow)] Cow<'a, str>);

impl std::ops::Deref for Str<'_> {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

/// An entry of any version, or a header.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Row<'a> {
    /// Only version 4 numbers its lines.
    pub(super) seq: Option<f64>,
    /// Version 4: what the line is. In version 3 entries of type `usage` have one, too.
    #[serde(borrow)]
    pub(super) kind: Option<Str<'a>>,
    #[serde(borrow, rename = "type")]
    pub(super) what: Option<Str<'a>>,
    #[serde(borrow)]
    pub(super) id: Option<Str<'a>>,
    #[serde(borrow)]
    pub(super) parent_id: Parent<'a>,
    pub(super) timestamp: Time,
    #[serde(borrow)]
    pub(super) lane: Option<Str<'a>>,
    #[serde(borrow)]
    pub(super) message: Option<Msg<'a>>,
    #[serde(borrow)]
    pub(super) provider: Option<Str<'a>>,
    #[serde(borrow)]
    pub(super) model_id: Option<Str<'a>>,
    #[serde(borrow)]
    pub(super) model: Option<Str<'a>>,
    #[serde(borrow)]
    pub(super) thinking_level: Option<Str<'a>>,
    pub(super) name: Option<String>,
    #[serde(borrow)]
    pub(super) target_id: Option<Str<'a>>,
    pub(super) label: Option<String>,
    #[serde(borrow)]
    pub(super) replacement: Option<Replacement<'a>>,
    pub(super) summary: Option<String>,
    #[serde(borrow)]
    pub(super) first_kept_entry_id: Option<Str<'a>>,
    pub(super) first_kept_entry_index: Option<u64>,
    #[serde(borrow)]
    pub(super) retained_tail: Option<Vec<&'a RawValue>>,
    pub(super) tokens_before: Option<f64>,
    pub(super) usage: Option<Tokens>,
    #[serde(borrow)]
    pub(super) system_message: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) from_id: Option<Str<'a>>,
    #[serde(borrow)]
    pub(super) custom_type: Option<Str<'a>>,
    #[serde(borrow)]
    pub(super) content: Option<Content<'a>>,
    #[serde(borrow)]
    pub(super) entry_id: Option<Str<'a>>,
    pub(super) adjustment: bool,
    #[serde(borrow)]
    pub(super) cause: Option<Str<'a>>,
    // Headers.
    pub(super) version: Option<f64>,
    pub(super) v: Option<f64>,
    pub(super) created_at: Time,
    pub(super) cwd: Option<String>,
    pub(super) parent_session: Option<String>,
    pub(super) branched_from: Option<String>,
    pub(super) parent_session_id: Option<String>,
    pub(super) legacy_parent_session_path: Option<String>,
}

impl Row<'_> {
    /// Whether an object is a record, and not a piece of one: a block of content has a type, too.
    pub(super) fn is_record(&self) -> bool {
        let is_header = self.kind.as_deref() == Some("header") && self.id.is_some();
        let is_write = self.kind.is_some() && self.seq.is_some();
        let stands = self.timestamp.0.is_some() || self.parent_id != Parent::Unsaid;
        is_header || is_write || (self.what.is_some() && stands)
    }
}

/// What a context edit puts in place.
#[derive(Debug, Deserialize)]
pub(super) struct Replacement<'a> {
    #[serde(borrow)]
    pub(super) content: Content<'a>,
}

/// What an entry says of its parent.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) enum Parent<'a> {
    /// Nothing, as in version 1: it follows the entry before it.
    #[default]
    Unsaid,
    /// That there is none.
    Root,
    /// Its id.
    Of(Str<'a>),
}

impl<'de: 'a, 'a> Deserialize<'de> for Parent<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let id = Option::<Str<'a>>::deserialize(deserializer)?;
        Ok(id.map_or(Self::Root, Self::Of))
    }
}

/// A time as text or as milliseconds; none when it is neither.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Time(pub(super) Option<Timestamp>);

impl<'de> Deserialize<'de> for Time {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(TimeVisitor).map(Self)
    }
}

struct TimeVisitor;

impl<'de> Visitor<'de> for TimeVisitor {
    type Value = Option<Timestamp>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a time")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Self::Value, E> {
        Ok(Timestamp::parse(text))
    }

    fn visit_i64<E: de::Error>(self, ms: i64) -> Result<Self::Value, E> {
        Ok(Some(Timestamp(ms)))
    }

    fn visit_u64<E: de::Error>(self, ms: u64) -> Result<Self::Value, E> {
        Ok(i64::try_from(ms).ok().map(Timestamp))
    }

    fn visit_f64<E: de::Error>(self, ms: f64) -> Result<Self::Value, E> {
        #[expect(
            clippy::cast_possible_truncation,
            reason = "fractions of a millisecond do not count"
        )]
        Ok(ms.is_finite().then_some(Timestamp(ms as i64)))
    }

    fn visit_unit<E: de::Error>(self) -> Result<Self::Value, E> {
        Ok(None)
    }
}

/// A message of any role.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Msg<'a> {
    #[serde(borrow)]
    pub(super) role: Str<'a>,
    #[serde(borrow)]
    pub(super) content: Option<Content<'a>>,
    pub(super) timestamp: Time,
    // `assistant`.
    #[serde(borrow)]
    pub(super) provider: Option<Str<'a>>,
    #[serde(borrow)]
    pub(super) model: Option<Str<'a>>,
    pub(super) usage: Option<Tokens>,
    #[serde(borrow)]
    pub(super) stop_reason: Option<Str<'a>>,
    #[serde(borrow)]
    pub(super) response_id: Option<Str<'a>>,
    #[serde(borrow)]
    pub(super) error_message: Option<&'a RawValue>,
    // `toolResult`.
    #[serde(borrow)]
    pub(super) tool_call_id: Option<Str<'a>>,
    #[serde(borrow)]
    pub(super) tool_name: Option<Str<'a>>,
    pub(super) is_error: Option<bool>,
    // `bashExecution`.
    pub(super) command: Option<String>,
    pub(super) output: Option<String>,
    pub(super) exit_code: Option<i64>,
    pub(super) cancelled: Option<bool>,
    pub(super) truncated: Option<bool>,
    pub(super) exclude_from_context: Option<bool>,
    // `custom`, `hookMessage`.
    #[serde(borrow)]
    pub(super) custom_type: Option<Str<'a>>,
    // `branchSummary`, `compactionSummary`.
    pub(super) summary: Option<String>,
}

/// A message's content: a text, or pieces.
#[derive(Debug)]
pub(super) enum Content<'a> {
    Text(String),
    Pieces(Vec<Piece<'a>>),
}

impl<'de: 'a, 'a> Deserialize<'de> for Content<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ContentVisitor)
    }
}

struct ContentVisitor;

impl<'de> Visitor<'de> for ContentVisitor {
    type Value = Content<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a text or pieces of content")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Self::Value, E> {
        Ok(Content::Text(text.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
        let mut pieces = Vec::new();
        while let Some(piece) = seq.next_element()? {
            pieces.push(piece);
        }
        Ok(Content::Pieces(pieces))
    }
}

/// A piece of content of any kind.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Piece<'a> {
    #[serde(borrow, rename = "type")]
    pub(super) what: Str<'a>,
    pub(super) text: Option<String>,
    pub(super) thinking: Option<String>,
    pub(super) thinking_signature: Option<String>,
    pub(super) redacted: Option<bool>,
    #[serde(borrow)]
    pub(super) id: Option<Str<'a>>,
    #[serde(borrow)]
    pub(super) name: Option<Str<'a>>,
    /// As it stands there, `null` too.
    #[serde(borrow, deserialize_with = "as_it_is")]
    pub(super) arguments: Option<&'a RawValue>,
    pub(super) mime_type: Option<String>,
    pub(super) data: Option<String>,
}

fn as_it_is<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<&'de RawValue>, D::Error> {
    <&RawValue>::deserialize(deserializer).map(Some)
}

/// Tokens as pi counts them.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Tokens {
    input: f64,
    output: f64,
    cache_read: f64,
    cache_write: f64,
    reasoning: Option<f64>,
}

impl Tokens {
    /// In our terms. Replies that failed carry zeros, which nobody reported: those are none.
    pub(super) fn usage(self) -> Option<Usage> {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a negative or endless count becomes the nearest one that there is"
        )]
        let count = |tokens: f64| tokens as u64;
        let usage = Usage {
            input: count(self.input),
            output: count(self.output),
            cache_read: count(self.cache_read),
            cache_write: count(self.cache_write),
            reasoning: self.reasoning.map(count),
        };
        (usage.context() > 0).then_some(usage)
    }
}

/// The fields of an object that has not the shape of a [`Row`]; of several with one name the last.
pub(super) struct Fields<'a>(HashMap<Str<'a>, &'a RawValue>);

impl<'a> Fields<'a> {
    /// None when it is no JSON object.
    pub(super) fn of(json: &'a str) -> Option<Self> {
        serde_json::from_str(json).ok().map(Self)
    }

    /// What is said of who it is and whom it follows, as far as that is readable.
    pub(super) fn row(&self) -> Row<'a> {
        Row {
            seq: self.get("seq"),
            kind: self.get("kind"),
            what: self.get("type"),
            id: self.get("id"),
            parent_id: self.get("parentId").unwrap_or_default(),
            timestamp: self.get("timestamp").unwrap_or_default(),
            lane: self.get("lane"),
            ..Row::default()
        }
    }

    fn get<T: Deserialize<'a>>(&self, name: &'static str) -> Option<T> {
        let raw = self.0.get(&Str(Cow::Borrowed(name)))?;
        serde_json::from_str(raw.get()).ok()
    }
}

impl std::hash::Hash for Str<'_> {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.0.hash(state);
    }
}

impl Eq for Str<'_> {}
