//! Messages: what the user, the model and the tools said.
//!
//! Responsible for: the stored shape of the three roles. Must not: know any provider's wire format;
//! a provider's own items ride along verbatim in [`Native`].

use super::{BlobRef, InputKind, Text, is_false};
use crate::id::Seq;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// One message, by role.
#[derive(Debug, Clone)]
pub enum Message {
    /// Words (and images) of the person, or of Segno on the person's side.
    User(UserMessage),
    /// A reply of the model.
    Assistant(AssistantMessage),
    /// One result of one tool call.
    Tool(ToolMessage),
}

/// A user message.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct UserMessage {
    /// What was said.
    pub content: Vec<Block>,
    /// The id under which the input was admitted, if the sender gave one (G8).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input_id: Option<String>,
    /// What kind it was admitted as.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input_kind: Option<InputKind>,
    /// SHA-256 of what was admitted: whoever sends the id again is told whether it is the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input_sha256: Option<String>,
    /// Set when Segno wrote the message itself (a notice, changed instructions): it is sent to the
    /// model but is not a prompt for titles and lists. Names the reason, e.g. `instructions`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub notice: Option<String>,
}

impl UserMessage {
    /// A plain text prompt.
    #[must_use]
    pub fn text(text: impl Into<String>) -> Self {
        Self { content: vec![Block::text(text)], ..Self::default() }
    }

    /// A message that Segno writes on the user's side.
    #[must_use]
    pub fn notice(reason: &str, text: impl Into<String>) -> Self {
        Self { notice: Some(reason.to_owned()), ..Self::text(text) }
    }
}

/// A piece of a user message or of a tool result.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Block {
    /// Text.
    Text {
        /// The text, inline or in a blob.
        text: Text,
    },
    /// An image.
    Image {
        /// e.g. `image/png`.
        media_type: String,
        /// Base64 text, inline or in a blob (the blob holds the decoded bytes).
        data: Text,
    },
    /// A kind that this version does not know; its bytes stay in the record's line.
    #[serde(other)]
    Unknown,
}

impl Block {
    /// A text block.
    #[must_use]
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text { text: Text::Inline(text.into()) }
    }
}

/// A reply.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct AssistantMessage {
    /// What the model produced, in order, in our own terms.
    pub content: Vec<AssistantBlock>,
    /// The provider's own items, verbatim; replayed only to the model that made them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub native: Option<Native>,
    /// The model that answered.
    pub model: ModelRef,
    /// Where it was asked, as [`endpoint_hash`]; none at the provider's own address. What was signed at one
    /// place means nothing at another one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub endpoint: Option<String>,
    /// Tokens that the provider reported.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
    /// Why the model stopped.
    pub stop: StopReason,
    /// True when the stream broke and only finished text was kept.
    #[serde(default, skip_serializing_if = "is_false")]
    pub partial: bool,
    /// The `request` record that this answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request: Option<Seq>,
}

impl AssistantMessage {
    /// A whole reply in our own terms, without a provider's items.
    #[must_use]
    pub fn new(model: &ModelRef, content: Vec<AssistantBlock>) -> Self {
        let calls = content.iter().any(|block| matches!(block, AssistantBlock::ToolCall(_)));
        let stop = if calls { StopReason::ToolUse } else { StopReason::End };
        Self { content, model: model.clone(), stop, ..Self::default() }
    }

    /// The tool calls, in order.
    pub fn calls(&self) -> impl Iterator<Item = &ToolCall> {
        self.content.iter().filter_map(|b| match b {
            AssistantBlock::ToolCall(call) => Some(call),
            _ => None,
        })
    }

    /// All text blocks joined by nothing.
    #[must_use]
    pub fn text(&self) -> String {
        self.content
            .iter()
            .filter_map(|b| match b {
                AssistantBlock::Text { text } => Some(text.as_str()),
                _ => None,
            })
            .collect()
    }
}

/// A piece of a reply.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum AssistantBlock {
    /// Text.
    Text {
        /// The text.
        text: String,
    },
    /// Reasoning that the provider lets us see.
    Thinking {
        /// The text; may be empty when the provider hides it.
        text: String,
        /// The provider's signature or encrypted content, verbatim. Without one the block is never
        /// replayed.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        signature: Option<String>,
        /// True when the provider redacted the text and only the signature counts.
        #[serde(default, skip_serializing_if = "is_false")]
        redacted: bool,
    },
    /// A request to run a tool.
    ToolCall(ToolCall),
    /// A kind that this version does not know.
    #[serde(other)]
    Unknown,
}

impl AssistantBlock {
    /// Text.
    #[must_use]
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text { text: text.into() }
    }

    /// A request to run a tool; `arguments` is JSON.
    #[must_use]
    pub fn call(id: &str, name: &str, arguments: &str) -> Self {
        let (id, name, arguments) = (id.to_owned(), name.to_owned(), arguments.to_owned());
        Self::ToolCall(ToolCall { id, name, arguments })
    }
}

/// A tool call as the model wrote it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolCall {
    /// The provider's id; may repeat or be empty with some providers, so it is never a key alone.
    pub id: String,
    /// The tool's name.
    pub name: String,
    /// The arguments' JSON text exactly as the model wrote it, well-formed or not.
    pub arguments: String,
}

/// A provider's own assistant items, without those that it would refuse when they are sent back: what
/// is not here is never replayed verbatim.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Native {
    /// Which wire they belong to: `anthropic`, `openai`, `openai-chat`, `gemini`.
    pub dialect: String,
    /// The items as the provider sent them.
    pub items: Box<RawValue>,
}

impl Native {
    /// The blob that holds the items, where they are too large for a record.
    #[must_use]
    pub fn blob(&self) -> Option<BlobRef> {
        serde_json::from_str(self.items.get()).ok()
    }
}

/// One result of one call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolMessage {
    /// The call's id as the model gave it.
    pub call_id: String,
    /// The record of the assistant message that holds the call; tells repeated ids apart.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call_seq: Option<Seq>,
    /// The tool's name.
    pub name: String,
    /// What the model is shown.
    pub content: Vec<Block>,
    /// The whole output, when `content` is a cut of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub whole: Option<BlobRef>,
    /// Whether the model is told that it failed.
    #[serde(default, skip_serializing_if = "is_false")]
    pub is_error: bool,
    /// What is known about the effect.
    pub outcome: Outcome,
    /// How that is known.
    pub established: Established,
    /// The handle under which the effect goes on behind this result; its end is told by an input whose
    /// id is [`background_input_id`] of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub background: Option<String>,
}

/// The id of the input that tells the end of a background effect, once.
#[must_use]
pub fn background_input_id(handle: &str) -> String {
    format!("background:{handle}")
}

/// What became of an effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// It ran to its end and succeeded.
    Done,
    /// It ran to its end and reported a failure.
    Failed,
    /// It was refused before it started.
    Denied,
    /// It certainly did not start.
    NotRun,
    /// It was ended by the user's stop; it may be half done.
    Stopped,
    /// It only reads, and what it read was not recorded.
    NotRecorded,
    /// Nobody knows (G7).
    Unknown,
}

/// Who says so.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Established {
    /// The process that ran it saw it end.
    Observed,
    /// Recovery found the call without a result.
    Recovery,
    /// Recovery read it off what the effect left: its file, its supervisor's word, the service that was
    /// asked.
    Traces,
    /// A permission rule or a person.
    Permission,
    /// The user's stop.
    Stop,
    /// The call is the origin's of a fork; it was settled without looking.
    Origin,
}

/// Which model.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ModelRef {
    /// Segno's provider id, e.g. `anthropic`.
    pub provider: String,
    /// The provider's id of the model.
    pub id: String,
}

impl ModelRef {
    /// The model `id` of `provider`.
    #[must_use]
    pub fn new(provider: &str, id: &str) -> Self {
        Self { provider: provider.to_owned(), id: id.to_owned() }
    }
}

/// An address as it is compared: a `/` or `/v1` at its end says nothing.
#[must_use]
pub fn plain_address(base_url: &str) -> &str {
    let rest = base_url.trim_end_matches('/');
    rest.strip_suffix("/v1").unwrap_or(rest).trim_end_matches('/')
}

/// What tells the server at one address from others, and says nothing else about it. Servers on this machine
/// are told apart by the name that they are called by, not by their ports, which change with every start.
#[must_use]
pub fn endpoint_hash(base_url: &str) -> String {
    let (scheme, rest) = base_url.split_once("://").unwrap_or(("", base_url));
    let rest = plain_address(rest);
    let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let host_and_port = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    let host = host_and_port.rsplit_once(':').map_or(host_and_port, |(host, _)| host);
    let is_local = host == "localhost" || host == "[::1]" || host.starts_with("127.");
    let place = if is_local { host } else { host_and_port };
    let whole = format!("{scheme}://{place}{path}").to_ascii_lowercase();
    crate::sha256_hex(whole.as_bytes())[..16].to_owned()
}

impl std::fmt::Display for ModelRef {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.provider, self.id)
    }
}

/// Tokens of one model call. `input` excludes what the cache served or stored.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Usage {
    /// Fresh input tokens.
    pub input: u64,
    /// Output tokens, reasoning included.
    pub output: u64,
    /// Input tokens read from the provider's cache.
    pub cache_read: u64,
    /// Input tokens written to the provider's cache.
    pub cache_write: u64,
    /// Reasoning tokens within `output`, where reported.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reasoning: Option<u64>,
}

impl Usage {
    /// Everything that occupied the context window for this call.
    #[must_use]
    pub fn context(&self) -> u64 {
        let cached = self.cache_read.saturating_add(self.cache_write);
        self.input.saturating_add(cached).saturating_add(self.output)
    }

    /// Adds another call's tokens.
    pub fn add(&mut self, other: &Self) {
        self.input = self.input.saturating_add(other.input);
        self.output = self.output.saturating_add(other.output);
        self.cache_read = self.cache_read.saturating_add(other.cache_read);
        self.cache_write = self.cache_write.saturating_add(other.cache_write);
        if let Some(r) = other.reasoning {
            self.reasoning = Some(self.reasoning.unwrap_or(0).saturating_add(r));
        }
    }
}

/// Why a reply ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StopReason {
    /// The model finished its turn.
    #[default]
    End,
    /// It wants tools to run.
    ToolUse,
    /// The output limit was reached.
    Length,
    /// The provider refused.
    Refusal,
    /// The user stopped it.
    Stopped,
    /// The stream broke.
    Broken,
    /// Something that this version does not know.
    #[serde(other)]
    Other,
}
