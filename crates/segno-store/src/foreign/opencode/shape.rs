//! What OpenCode stores, as far as it is read: the shapes of messages and parts of both engines.
//!
//! Responsible for: taking them leniently, so that a field of another version costs that field only. Must
//! not: decide what anything means.

use segno_model::Timestamp;
use segno_model::record::{ModelRef, Usage};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

/// Takes a value if it has the expected shape, and nothing otherwise.
pub(super) fn lenient<'de, D, T>(deserializer: D) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    let raw = <&RawValue>::deserialize(deserializer)?;
    Ok(serde_json::from_str(raw.get()).ok())
}

/// Takes what is there, `null` too.
fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<&'de RawValue>, D::Error> {
    <&RawValue>::deserialize(deserializer).map(Some)
}

/// A message's `data` in the first engine; also `info` in its exports.
#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Info<'a> {
    pub(super) id: Option<String>,
    pub(super) role: Option<String>,
    #[serde(rename = "parentID")]
    pub(super) parent: Option<String>,
    #[serde(deserialize_with = "lenient")]
    pub(super) time: Option<Time>,
    #[serde(deserialize_with = "lenient")]
    pub(super) model: Option<Model>,
    #[serde(rename = "modelID")]
    pub(super) model_id: Option<String>,
    #[serde(rename = "providerID")]
    pub(super) provider_id: Option<String>,
    /// `true` on a summary; an object on a user message.
    #[serde(borrow)]
    pub(super) summary: Option<&'a RawValue>,
    pub(super) finish: Option<String>,
    #[serde(deserialize_with = "lenient")]
    pub(super) error: Option<Fault>,
    #[serde(deserialize_with = "lenient")]
    pub(super) tokens: Option<Tokens>,
}

impl Info<'_> {
    pub(super) fn is_summary(&self) -> bool {
        self.summary.is_some_and(|summary| summary.get() == "true")
    }

    pub(super) fn answered_by(&self) -> ModelRef {
        named(self.provider_id.as_deref(), self.model_id.as_deref())
    }
}

/// Milliseconds since 1970.
#[derive(Deserialize, Default, Clone, Copy)]
#[serde(default)]
pub(super) struct Time {
    pub(super) created: Option<f64>,
    pub(super) completed: Option<f64>,
    pub(super) start: Option<f64>,
    pub(super) end: Option<f64>,
    pub(super) compacted: Option<f64>,
    pub(super) pruned: Option<f64>,
}

/// A time in milliseconds, which JavaScript keeps as a float.
#[expect(clippy::cast_possible_truncation, reason = "a cast saturates, and a time has no fraction")]
pub(super) fn at(milliseconds: Option<f64>) -> Option<Timestamp> {
    milliseconds.filter(|ms| ms.is_finite()).map(|ms| Timestamp(ms as i64))
}

#[derive(Deserialize, Default)]
#[serde(default)]
pub(super) struct Model {
    /// As the second engine calls it.
    pub(super) id: Option<String>,
    #[serde(rename = "modelID")]
    pub(super) model_id: Option<String>,
    #[serde(rename = "providerID")]
    pub(super) provider_id: Option<String>,
}

impl Model {
    pub(super) fn reference(&self) -> ModelRef {
        named(self.provider_id.as_deref(), self.model_id.as_deref().or(self.id.as_deref()))
    }
}

fn named(provider: Option<&str>, id: Option<&str>) -> ModelRef {
    let provider = provider.map(|name| if name == "google" { "gemini" } else { name });
    ModelRef::new(provider.unwrap_or_default(), id.unwrap_or_default())
}

/// An error on a message (`name`) or on a call (`type`).
#[derive(Deserialize, Default)]
#[serde(default)]
pub(super) struct Fault {
    pub(super) name: Option<String>,
    #[serde(rename = "type")]
    pub(super) kind: Option<String>,
    pub(super) message: Option<String>,
}

impl Fault {
    pub(super) fn is_abort(&self) -> bool {
        let word = self.name.as_deref().or(self.kind.as_deref()).unwrap_or_default();
        word == "MessageAbortedError" || word == "aborted"
    }
}

#[derive(Deserialize, Default, Clone, Copy)]
#[serde(default)]
pub(super) struct Tokens {
    total: Option<f64>,
    input: f64,
    output: f64,
    reasoning: f64,
    cache: Cache,
}

#[derive(Deserialize, Default, Clone, Copy)]
#[serde(default)]
struct Cache {
    read: f64,
    write: f64,
}

impl Tokens {
    /// In our terms; none when nothing was counted. OpenCode counts reasoning apart from the output, except
    /// where its total says otherwise.
    pub(super) fn usage(self) -> Option<Usage> {
        let Self { total, input, output, reasoning, cache } = self;
        let within = total.is_some_and(|total| {
            let without = input + output + cache.read + cache.write;
            (total - without).abs() < 0.5
        });
        let output = if within { output } else { output + reasoning };
        let usage = Usage {
            input: count(input),
            output: count(output),
            cache_read: count(cache.read),
            cache_write: count(cache.write),
            reasoning: (reasoning > 0.0).then(|| count(reasoning)),
        };
        (usage.context() > 0).then_some(usage)
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a cast saturates, and tokens are whole and positive"
)]
fn count(tokens: f64) -> u64 {
    tokens as u64
}

/// A part of a message in the first engine, and an element of a reply's content in the second.
#[derive(Deserialize, Default)]
#[serde(default)]
pub(super) struct Part<'a> {
    pub(super) id: Option<String>,
    #[serde(rename = "type")]
    pub(super) kind: String,
    pub(super) text: Option<String>,
    pub(super) synthetic: Option<bool>,
    pub(super) ignored: Option<bool>,
    #[serde(borrow)]
    pub(super) metadata: Option<&'a RawValue>,
    #[serde(borrow, rename = "providerMetadata")]
    pub(super) provider_metadata: Option<&'a RawValue>,
    #[serde(deserialize_with = "lenient")]
    pub(super) time: Option<Time>,
    // A call.
    #[serde(rename = "callID")]
    pub(super) call_id: Option<String>,
    pub(super) tool: Option<String>,
    /// The tool, in the second engine.
    pub(super) name: Option<String>,
    #[serde(borrow, deserialize_with = "lenient")]
    pub(super) state: Option<State<'a>>,
    // A file.
    pub(super) mime: Option<String>,
    pub(super) filename: Option<String>,
    pub(super) url: Option<String>,
    pub(super) uri: Option<String>,
    /// Base64, in the second engine.
    pub(super) data: Option<String>,
    // The end of a step.
    pub(super) reason: Option<String>,
    #[serde(deserialize_with = "lenient")]
    pub(super) tokens: Option<Tokens>,
    // A compaction.
    pub(super) tail_start_id: Option<String>,
}

/// How far a call is.
#[derive(Deserialize, Default)]
#[serde(default)]
pub(super) struct State<'a> {
    pub(super) status: String,
    #[serde(borrow)]
    pub(super) input: Option<&'a RawValue>,
    /// The arguments' text as far as it had come.
    pub(super) raw: Option<String>,
    pub(super) output: Option<String>,
    /// A text in the first engine, an object in the second.
    #[serde(borrow)]
    pub(super) error: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) metadata: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) structured: Option<&'a RawValue>,
    #[serde(deserialize_with = "lenient")]
    pub(super) time: Option<Time>,
    #[serde(borrow, deserialize_with = "lenient")]
    pub(super) attachments: Option<Vec<Part<'a>>>,
    #[serde(borrow, deserialize_with = "lenient")]
    pub(super) content: Option<Vec<Part<'a>>>,
    #[serde(deserialize_with = "lenient", rename = "outputPaths")]
    pub(super) output_paths: Option<Vec<String>>,
}

/// What a tool says about its run, as far as it is of use here.
#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Told<'a> {
    /// Null when the command was killed.
    #[serde(borrow, deserialize_with = "present")]
    pub(super) exit: Option<&'a RawValue>,
    pub(super) interrupted: Option<bool>,
    #[serde(deserialize_with = "lenient")]
    pub(super) output: Option<String>,
    pub(super) output_path: Option<String>,
    pub(super) session_id: Option<String>,
    #[serde(deserialize_with = "lenient")]
    pub(super) todos: Option<Vec<Todo>>,
}

impl<'a> Told<'a> {
    pub(super) fn of(metadata: Option<&'a RawValue>) -> Self {
        metadata.and_then(|raw| serde_json::from_str(raw.get()).ok()).unwrap_or_default()
    }
}

#[derive(Deserialize, Default, Clone, PartialEq)]
#[serde(default)]
pub(super) struct Todo {
    pub(super) content: String,
    pub(super) status: String,
}

/// What a provider gave with a piece of reasoning so that it can be sent back.
#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
struct Sealed {
    signature: Option<String>,
    redacted_data: Option<String>,
    reasoning_encrypted_content: Option<String>,
    thought_signature: Option<String>,
}

/// The signature of a piece of reasoning, and whether it is all that there is.
pub(super) fn seal(metadata: Option<&RawValue>) -> (Option<String>, bool) {
    type ByProvider = std::collections::BTreeMap<String, Option<Sealed>>;
    let providers: Option<ByProvider> =
        metadata.and_then(|raw| serde_json::from_str(raw.get()).ok());
    let seals = providers.into_iter().flat_map(std::collections::BTreeMap::into_values);
    for seal in seals.flatten() {
        if let Some(data) = seal.redacted_data {
            return (Some(data), true);
        }
        let found = seal.signature.or(seal.reasoning_encrypted_content).or(seal.thought_signature);
        if found.is_some() {
            return (found, false);
        }
    }
    (None, false)
}

/// A session's row; also `info` of an export and the file of a session in the older tree.
#[derive(Default)]
pub(super) struct About {
    pub(super) id: String,
    pub(super) directory: Option<String>,
    pub(super) title: Option<String>,
    pub(super) version: Option<String>,
    pub(super) parent: Option<String>,
    pub(super) agent: Option<String>,
    pub(super) created: Option<Timestamp>,
    pub(super) archived: bool,
    pub(super) fork_of: Option<(String, Option<String>)>,
    pub(super) revert: Option<Revert>,
}

/// From where on a session's end is taken back, until the next prompt.
#[derive(Deserialize, Default, Clone)]
pub(super) struct Revert {
    #[serde(rename = "messageID")]
    pub(super) message: String,
    #[serde(rename = "partID", default)]
    pub(super) part: Option<String>,
}

/// `info` of an export.
#[derive(Deserialize, Default)]
#[serde(default)]
pub(super) struct ExportInfo {
    pub(super) id: String,
    directory: Option<String>,
    title: Option<String>,
    version: Option<String>,
    #[serde(rename = "parentID")]
    parent: Option<String>,
    agent: Option<String>,
    #[serde(deserialize_with = "lenient")]
    time: Option<ExportTime>,
    #[serde(deserialize_with = "lenient")]
    revert: Option<Revert>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct ExportTime {
    created: Option<f64>,
    archived: Option<f64>,
}

impl From<ExportInfo> for About {
    fn from(info: ExportInfo) -> Self {
        let time = info.time.unwrap_or_default();
        Self {
            id: info.id,
            directory: info.directory,
            title: info.title,
            version: info.version,
            parent: info.parent,
            agent: info.agent,
            created: at(time.created),
            archived: time.archived.is_some(),
            fork_of: None,
            revert: info.revert,
        }
    }
}
