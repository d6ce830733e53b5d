//! What Gemini CLI stores, as far as it is read.
//!
//! Responsible for: taking records leniently, and a message's content apart. Must not: know what came
//! before.

use segno_model::record::{Block, Outcome, Text, Usage};
use serde::de::value::MapAccessDeserializer;
use serde::de::{self, MapAccess, SeqAccess, Unexpected, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};

/// A line: facts, a change of facts or of all messages, a way back, or a message.
#[derive(Deserialize, Default)]
#[serde(default)]
pub(super) struct Record<'a> {
    #[serde(borrow, rename = "$set")]
    pub(super) set: Option<&'a RawValue>,
    #[serde(rename = "$rewindTo")]
    pub(super) rewind_to: Option<String>,
    #[serde(rename = "sessionId")]
    pub(super) session: Option<String>,
    #[serde(rename = "projectHash")]
    pub(super) project: Option<String>,
    pub(super) id: Option<String>,
}

/// Facts, as they stand first or are changed.
#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Facts<'a> {
    pub(super) session_id: Option<String>,
    pub(super) start_time: Option<String>,
    pub(super) summary: Option<String>,
    #[serde(borrow)]
    pub(super) messages: Option<Vec<&'a RawValue>>,
}

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Message<'a> {
    pub(super) id: String,
    pub(super) timestamp: Option<String>,
    #[serde(rename = "type")]
    pub(super) kind: String,
    #[serde(borrow)]
    pub(super) content: Parts<'a>,
    #[serde(borrow)]
    pub(super) tool_calls: Option<Vec<ToolCall<'a>>>,
    pub(super) thoughts: Option<Vec<Thought>>,
    pub(super) tokens: Option<Tokens>,
    pub(super) model: Option<String>,
}

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct ToolCall<'a> {
    pub(super) id: String,
    pub(super) name: String,
    #[serde(borrow)]
    pub(super) args: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) result: Option<&'a RawValue>,
    pub(super) status: String,
    pub(super) timestamp: Option<String>,
    pub(super) agent_id: Option<String>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
pub(super) struct Thought {
    subject: String,
    description: String,
}

#[derive(Deserialize, Default, Clone, Copy)]
#[serde(default)]
pub(super) struct Tokens {
    input: u64,
    output: u64,
    cached: u64,
    thoughts: Option<u64>,
    tool: Option<u64>,
}

impl Tokens {
    /// In our terms. Gemini counts cached tokens within the input, and thoughts apart from the output.
    pub(super) fn usage(self) -> Usage {
        let thoughts = self.thoughts.unwrap_or_default();
        Usage {
            input: self.input.saturating_sub(self.cached).saturating_add(self.tool.unwrap_or(0)),
            output: self.output.saturating_add(thoughts),
            cache_read: self.cached,
            cache_write: 0,
            reasoning: self.thoughts.filter(|&thoughts| thoughts > 0),
        }
    }
}

impl Thought {
    pub(super) fn text(&self) -> String {
        match (self.subject.as_str(), self.description.as_str()) {
            ("", description) => description.to_owned(),
            (subject, "") => subject.to_owned(),
            (subject, description) => format!("**{subject}**\n{description}"),
        }
    }
}

/// A piece of content as the model's API has it.
#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Part<'a> {
    pub(super) text: Option<String>,
    pub(super) thought: Option<bool>,
    pub(super) thought_signature: Option<String>,
    #[serde(borrow)]
    pub(super) function_call: Option<Call<'a>>,
    #[serde(borrow)]
    pub(super) function_response: Option<Response<'a>>,
    pub(super) inline_data: Option<Inline>,
    pub(super) file_data: Option<FileData>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
pub(super) struct Call<'a> {
    pub(super) id: Option<String>,
    pub(super) name: String,
    #[serde(borrow)]
    pub(super) args: Option<&'a RawValue>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
pub(super) struct Response<'a> {
    pub(super) id: Option<String>,
    pub(super) name: Option<String>,
    #[serde(borrow)]
    response: Option<&'a RawValue>,
}

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Inline {
    mime_type: String,
    data: String,
}

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct FileData {
    mime_type: String,
    file_uri: String,
}

/// Content: a text, a part, or a list of both.
#[derive(Default)]
pub(super) struct Parts<'a>(Vec<Part<'a>>);

impl<'a> std::ops::Deref for Parts<'a> {
    type Target = [Part<'a>];

    fn deref(&self) -> &[Part<'a>] {
        &self.0
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Parts<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(PartsVisitor { in_list: false }).map(Self)
    }
}

/// One of a list.
struct OfList<'a>(Vec<Part<'a>>);

impl<'de: 'a, 'a> Deserialize<'de> for OfList<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(PartsVisitor { in_list: true }).map(Self)
    }
}

struct PartsVisitor {
    in_list: bool,
}

impl<'de> Visitor<'de> for PartsVisitor {
    type Value = Vec<Part<'de>>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a text or pieces of content")
    }

    fn visit_unit<E: de::Error>(self) -> Result<Self::Value, E> {
        Ok(Vec::new())
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Self::Value, E> {
        Ok(vec![Part { text: Some(text.to_owned()), ..Part::default() }])
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
        Part::deserialize(MapAccessDeserializer::new(map)).map(|part| vec![part])
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
        if self.in_list {
            return Err(de::Error::invalid_type(Unexpected::Seq, &self));
        }
        let mut parts = Vec::new();
        while let Some(OfList(some)) = list.next_element()? {
            parts.extend(some);
        }
        Ok(parts)
    }
}

impl Part<'_> {
    /// Whether there is nothing in it that is known here.
    pub(super) fn is_unknown(&self) -> bool {
        let is_said = self.text.is_some() || self.thought.is_some();
        let is_tool = self.function_call.is_some() || self.function_response.is_some();
        let is_data = self.inline_data.is_some() || self.file_data.is_some();
        !is_said && !is_tool && !is_data && self.thought_signature.is_none()
    }

    /// Whether it is a file, or of a kind that is not known.
    pub(super) fn is_file(&self) -> bool {
        let is_data = self.inline_data.is_some() || self.file_data.is_some();
        self.text.is_none() && is_data || self.is_unknown()
    }

    /// Whether what is shown of it only says that something is there.
    pub(super) fn is_named_only(&self) -> bool {
        let is_image = |inline: &Inline| inline.mime_type.starts_with("image/");
        self.is_file() && !self.inline_data.as_ref().is_some_and(is_image)
    }

    /// What is shown of it.
    pub(super) fn block(&self) -> Option<Block> {
        if let Some(text) = self.text.as_ref().filter(|_| self.thought != Some(true)) {
            return Some(Block::text(text.clone())).filter(|_| !text.is_empty());
        }
        if let Some(Inline { mime_type, data }) = &self.inline_data {
            return Some(if mime_type.starts_with("image/") {
                let data = Text::Inline(data.clone());
                Block::Image { media_type: mime_type.clone(), data }
            } else {
                Block::text(format!("[Attached {mime_type}]"))
            });
        }
        if self.is_unknown() {
            return Some(Block::Unknown);
        }
        let file = self.file_data.as_ref()?;
        Some(Block::text(format!("[Attached {}: {}]", file.mime_type, file.file_uri)))
    }
}

impl Response<'_> {
    /// What the model is shown, and whether it says that the call failed.
    pub(super) fn content(&self) -> (String, bool) {
        #[derive(Deserialize, Default)]
        #[serde(default)]
        struct Told<'a> {
            #[serde(borrow)]
            output: Option<&'a RawValue>,
            #[serde(borrow)]
            error: Option<&'a RawValue>,
        }
        let json = self.response.map_or("", RawValue::get);
        let told = serde_json::from_str::<Told<'_>>(json).unwrap_or_default();
        let text = told.output.or(told.error).map_or(json, RawValue::get);
        let text = serde_json::from_str::<String>(text).unwrap_or_else(|_| text.to_owned());
        (text, told.output.is_none() && told.error.is_some())
    }
}

/// What a status says of a call; none while it is not over.
pub(super) fn outcome(status: &str) -> Option<Outcome> {
    match status {
        "success" => Some(Outcome::Done),
        "error" => Some(Outcome::Failed),
        "cancelled" => Some(Outcome::Stopped),
        _ => None,
    }
}

/// A compact key.
pub(super) fn key(value: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}
