//! What a log is made of: one struct per record type of `docs/format/session-log.md`.
//!
//! Responsible for: the typed bodies and the match between a type's name and its struct. Must not:
//! touch bytes on disk (that is [`crate::line`]) or decide what a record means for the context.
//! Every body is additive: unknown fields are skipped here and kept in the record's own line (G13).

mod child;
mod lifecycle;
mod message;
mod session;
mod tree;

pub use child::{
    Attempt, AttemptStatus, Child, ChildState, LaunchRecord, RoleFact, ToolSource, Worktree,
};
pub use lifecycle::{
    Action, Approval, ApprovalState, Compaction, CompactionState, Environment, InputEvent,
    InputFate, InputKind, InstructionFile, RESTORE, Repair, RepairItem, ReplayClass, Request, Run,
    RunEnd, RunState, StepStatus, Task, TaskStep, ToolFact, UsageRecord,
};
pub use message::{
    AssistantBlock, AssistantMessage, Block, Established, Message, ModelRef, Native, Outcome,
    StopReason, ToolCall, ToolMessage, Usage, UserMessage, background_input_id, endpoint_hash,
    plain_address,
};
pub use session::{FORMAT, FormatVersion, GitFacts, Header, Origin, OriginKind, ProjectFacts};
pub use tree::{
    BranchSummary, ContextEdit, Custom, EditPart, Label, ModelChange, Name, Policy, PolicyChange,
    ThinkingChange, Tip,
};

use crate::checkpoint::Checkpoint;
use serde::de::value::MapAccessDeserializer;
use serde::de::{self, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;
use std::fmt;

/// Text that may live in a blob because it is large (over 64 KiB).
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum Text {
    /// The text itself.
    Inline(String),
    /// A reference.
    Blob(BlobRef),
}

impl Text {
    /// The text, or what a blob reference keeps of its beginning.
    #[must_use]
    pub fn head(&self) -> &str {
        match self {
            Self::Inline(text) => text,
            Self::Blob(blob) => &blob.head,
        }
    }
}

/// By hand: what serde derives for an untagged enum copies every text twice.
impl<'de> Deserialize<'de> for Text {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(TextVisitor)
    }
}

struct TextVisitor;

impl<'de> Visitor<'de> for TextVisitor {
    type Value = Text;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a text or a reference to a blob")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Text, E> {
        Ok(Text::Inline(text.to_owned()))
    }

    fn visit_string<E: de::Error>(self, text: String) -> Result<Text, E> {
        Ok(Text::Inline(text))
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Text, A::Error> {
        BlobRef::deserialize(MapAccessDeserializer::new(map)).map(Text::Blob)
    }
}

/// A large value outside the log.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct BlobRef {
    /// SHA-256 of the bytes, 64 lower-case hex digits; also the file's name.
    pub blob: String,
    /// How many bytes.
    pub bytes: u64,
    /// The beginning, for people and for the context when the blob is gone; of an image its size (`1280x720`).
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub head: String,
}

pub(crate) fn is_false(value: &bool) -> bool {
    !*value
}

/// A record's content, by type. The log keeps the line's bytes beside it.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Body {
    /// `session`: line 1.
    Session(Box<Header>),
    /// `message`.
    Message(Box<Message>),
    /// `action`.
    Action(Box<Action>),
    /// `run`.
    Run(Run),
    /// `request`.
    Request(Request),
    /// `input`.
    Input(InputEvent),
    /// `approval`.
    Approval(Approval),
    /// `task`.
    Task(Task),
    /// `environment`.
    Environment(Box<Environment>),
    /// `compaction`.
    Compaction(Box<Compaction>),
    /// `checkpoint`.
    Checkpoint(Box<Checkpoint>),
    /// `branch_summary`.
    BranchSummary(BranchSummary),
    /// `tip`.
    Tip(Tip),
    /// `label`.
    Label(Label),
    /// `name`.
    Name(Name),
    /// `model`.
    Model(ModelChange),
    /// `thinking`.
    Thinking(ThinkingChange),
    /// `policy`.
    Policy(PolicyChange),
    /// `context_edit`.
    ContextEdit(ContextEdit),
    /// `child`.
    Child(Child),
    /// `usage`.
    Usage(UsageRecord),
    /// `custom`.
    Custom(Custom),
    /// `repair`.
    Repair(Repair),
    /// A type, or a shape of a known type, that this version cannot read. Kept and skipped.
    Unknown {
        /// The type's name.
        kind: String,
        /// Why it was not understood, for `check`.
        reason: String,
    },
}

/// Lists every known type once: name, variant. Encoding, parsing and the documentation's example
/// test all go through it.
macro_rules! bodies {
    ($($name:literal => $variant:ident),* $(,)?) => {
        /// The names of all record types, in the order of the format page.
        pub const KINDS: &[&str] = &["session", "message", $($name),*];

        impl Body {
            /// The record type's name.
            #[must_use]
            pub fn kind(&self) -> &str {
                match self {
                    Self::Session(_) => "session",
                    Self::Message(_) => "message",
                    $(Self::$variant(_) => $name,)*
                    Self::Unknown { kind, .. } => kind,
                }
            }

            /// Reads the body of a record of type `kind` from its line's JSON. `own` is what follows the
            /// envelope in a line as this version writes it; it only saves time.
            pub(crate) fn parse(kind: &str, json: &str, own: &str) -> Self {
                let parsed = match kind {
                    "session" => serde_json::from_str(json).map(Self::Session),
                    "message" => parse_message(json, own),
                    $($name => serde_json::from_str(json).map(Self::$variant),)*
                    _ => {
                        let reason = "type not known to this version".to_owned();
                        return Self::Unknown { kind: kind.to_owned(), reason };
                    }
                };
                parsed.unwrap_or_else(|e| Self::Unknown { kind: kind.to_owned(), reason: e.to_string() })
            }

            /// Appends the body's members, each with a comma before it.
            fn write_raw_members(&self, out: &mut Vec<u8>) -> serde_json::Result<()> {
                match self {
                    Self::Session(b) => write_members_of(out, b),
                    Self::Message(b) => write_message(out, b),
                    $(Self::$variant(b) => write_members_of(out, b),)*
                    Self::Unknown { .. } => Ok(()),
                }
            }
        }
    };
}

bodies! {
    "action" => Action,
    "run" => Run,
    "request" => Request,
    "input" => Input,
    "approval" => Approval,
    "task" => Task,
    "environment" => Environment,
    "compaction" => Compaction,
    "checkpoint" => Checkpoint,
    "branch_summary" => BranchSummary,
    "tip" => Tip,
    "label" => Label,
    "name" => Name,
    "model" => Model,
    "thinking" => Thinking,
    "policy" => Policy,
    "context_edit" => ContextEdit,
    "child" => Child,
    "usage" => Usage,
    "custom" => Custom,
    "repair" => Repair,
}

impl Body {
    /// Appends the body's members, each with a comma before it, without a byte 0x0A or 0x0D. Raw JSON
    /// from others may bring some, but only as white space: within strings they are escaped.
    pub(crate) fn write_members(&self, out: &mut Vec<u8>) -> serde_json::Result<()> {
        let from = out.len();
        self.write_raw_members(out)?;
        let written = &mut out[from..];
        if memchr::memchr2(b'\n', b'\r', written).is_some() {
            for byte in written.iter_mut().filter(|byte| matches!(**byte, b'\n' | b'\r')) {
                *byte = b' ';
            }
        }
        Ok(())
    }

    /// The body as one JSON object, exactly as a line would hold it.
    ///
    /// # Errors
    /// Only when it cannot be written as JSON (a map key that is no text).
    pub fn to_json(&self) -> serde_json::Result<String> {
        let mut members = Vec::new();
        self.write_members(&mut members)?;
        let members = String::from_utf8_lossy(&members);
        Ok(format!("{{{}}}", members.trim_start_matches(',')))
    }

    /// The body as it will be read again: raw JSON without line breaks. What is kept in memory after an
    /// append must not differ by a byte from what reopening gives (G10).
    pub(crate) fn into_stored(mut self) -> Self {
        let raw = match &mut self {
            Self::Message(message) => match &mut **message {
                Message::Assistant(reply) => reply.native.as_mut().map(|native| &mut native.items),
                _ => None,
            },
            Self::Compaction(compaction) => compaction.native.as_mut().map(|n| &mut n.items),
            Self::Action(action) => action.probe.as_mut(),
            Self::Custom(custom) => Some(&mut custom.data),
            _ => None,
        };
        if let Some(raw) = raw
            && raw.get().contains(['\n', '\r'])
            && let Ok(flat) = RawValue::from_string(raw.get().replace(['\n', '\r'], " "))
        {
            *raw = flat;
        }
        self
    }

    /// Nodes have a parent and move the tip; everything else is metadata. What cannot be read is judged
    /// by [`Record::is_node`](crate::Record::is_node).
    #[must_use]
    pub fn is_node(&self) -> bool {
        match self {
            Self::Message(_) | Self::BranchSummary(_) => true,
            Self::Compaction(compaction) => compaction.state == CompactionState::Done,
            Self::Custom(custom) => custom.context.is_some(),
            _ => false,
        }
    }

    /// Whether a type can be a node at all: of `compaction` only the finished ones are, of `custom` only
    /// those that stand in the context.
    #[must_use]
    pub fn kind_is_node(kind: &str) -> bool {
        matches!(kind, "message" | "compaction" | "branch_summary" | "custom")
    }
}

fn parse_message(json: &str, own: &str) -> serde_json::Result<Body> {
    let message = match role(json, own)?.as_str() {
        "user" => Message::User(serde_json::from_str(json)?),
        "assistant" => Message::Assistant(serde_json::from_str(json)?),
        "tool" => Message::Tool(serde_json::from_str(json)?),
        other => {
            return Err(serde::de::Error::custom(format_args!("role {other:?} is not known")));
        }
    };
    Ok(Body::Message(Box::new(message)))
}

/// A message's role, which this version writes first.
fn role(json: &str, own: &str) -> serde_json::Result<String> {
    #[derive(Deserialize)]
    struct RoleOnly {
        role: String,
    }
    if let Some(value) = own.strip_prefix(",\"role\":") {
        let mut values = serde_json::Deserializer::from_str(value).into_iter();
        if let Some(role) = values.next() {
            return role;
        }
    }
    serde_json::from_str::<RoleOnly>(json).map(|found| found.role)
}

/// Puts the role in front of the struct's members: `flatten` cannot carry raw JSON.
fn write_message(out: &mut Vec<u8>, message: &Message) -> serde_json::Result<()> {
    let role = match message {
        Message::User(_) => "user",
        Message::Assistant(_) => "assistant",
        Message::Tool(_) => "tool",
    };
    out.extend_from_slice(b",\"role\":\"");
    out.extend_from_slice(role.as_bytes());
    out.push(b'"');
    match message {
        Message::User(inner) => write_members_of(out, inner),
        Message::Assistant(inner) => write_members_of(out, inner),
        Message::Tool(inner) => write_members_of(out, inner),
    }
}

/// Appends the members of something whose JSON is an object: its braces become a comma and nothing.
fn write_members_of<T: Serialize>(out: &mut Vec<u8>, object: &T) -> serde_json::Result<()> {
    let from = out.len();
    serde_json::to_writer(&mut *out, object)?;
    if out.len() - from > 2 {
        out[from] = b',';
        out.pop();
    } else {
        out.truncate(from);
    }
    Ok(())
}
