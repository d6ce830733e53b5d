//! What Gemini CLI stores, as far as it is read.
//!
//! Responsible for: taking records leniently, and a message's content apart. Must not: know what came
//! before.

use segno_model::record::{Block, Outcome, Text, Usage};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
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
    pub(super) content: Option<&'a RawValue>,
    #[serde(borrow, deserialize_with = "lenient")]
    pub(super) tool_calls: Option<Vec<ToolCall<'a>>>,
    #[serde(deserialize_with = "lenient")]
    pub(super) thoughts: Option<Vec<Thought>>,
    #[serde(deserialize_with = "lenient")]
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

fn lenient<'de, D, T>(deserializer: D) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    let raw = <&RawValue>::deserialize(deserializer)?;
    Ok(serde_json::from_str(raw.get()).ok())
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

/// Content: a text, a part, or a list of both; none when it is something else.
pub(super) fn parts<'a>(content: Option<&'a RawValue>) -> Option<Vec<Part<'a>>> {
    let json = content.map_or("[]", RawValue::get);
    let one = |json: &'a str| match json.as_bytes().first() {
        Some(b'"') => {
            let text = serde_json::from_str::<String>(json).ok()?;
            Some(Part { text: Some(text), ..Part::default() })
        }
        _ => serde_json::from_str::<Part<'a>>(json).ok(),
    };
    match json.as_bytes().first() {
        Some(b'[') => {
            let list = serde_json::from_str::<Vec<&'a RawValue>>(json).ok()?;
            list.into_iter().map(|part| one(part.get())).collect()
        }
        Some(b'n') => Some(Vec::new()),
        _ => one(json).map(|part| vec![part]),
    }
}

impl Part<'_> {
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
