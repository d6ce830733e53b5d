//! Inputs and controls on their way into a session: what is admitted, and what waits.
//!
//! Responsible for: their shape, what makes two of them the same (G8), which ids a log has used, and the
//! order in which they wait. Must not: store them, or act on them; who may admit under an id is decided in
//! [`admission`], what the holder of a session does with a control in [`control`], and what an inbox file
//! holds in [`mod@file`].

pub mod admission;
pub mod control;
pub mod file;

use crate::checkpoint::WaitingInputs;
use crate::finding::Finding;
use crate::id::{Seq, sha256_hex};
use crate::line::Record;
use crate::record::{
    Block, Body, InputEvent, InputFate, InputKind, Message, RunState, Text, UserMessage,
};
use crate::store::{Owner, StoreError};
use crate::time::Timestamp;
use serde::{Deserialize, Serialize};

/// How large an input may be, as JSON, in bytes.
pub const MAX_INPUT_BYTES: usize = 16 << 20;

/// How long an input's id may be, in bytes.
pub const MAX_ID_BYTES: usize = 256;

/// Something that is to be admitted.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NewInput {
    /// Chosen by the sender; means the same for the session's whole life.
    pub id: String,
    /// What it is.
    #[serde(flatten)]
    pub body: InputBody,
}

/// What an input or a control says.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum InputBody {
    /// For the model, at the next safe step of the run.
    Steer(Words),
    /// For the model, when the run has ended.
    Queue(Words),
    /// The user's stop of this run, whoever runs it.
    Stop {
        /// The run's number.
        run: u64,
    },
    /// Takes a waiting input back.
    Withdraw {
        /// Which.
        input_id: String,
    },
    /// Moves a waiting input.
    Reorder {
        /// Which.
        input_id: String,
        /// Before which other one; to the end when absent.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        before: Option<String>,
    },
    /// Lets the model see an input that waits for a person.
    Deliver {
        /// Which.
        input_id: String,
    },
    /// Answers a permission question.
    Answer {
        /// The call's id.
        call_id: String,
        /// The assistant message that holds it.
        call_seq: Seq,
        /// Whether it may run.
        allowed: bool,
        /// `once`, `session`, `always` or a mode's name.
        scope: String,
        /// A refusal's reason, for the model.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
    /// Asks this holder, and no later one, to suspend its work and to let the session go.
    Suspend {
        /// As [`holder_key`] names it.
        holder: String,
    },
}

/// Words for the model.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Words {
    /// What is said.
    pub content: Vec<Block>,
    /// Set when no person said it, e.g. `background`: the end of a background command.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub notice: Option<String>,
}

impl Words {
    /// A person's plain text.
    #[must_use]
    pub fn text(text: impl Into<String>) -> Self {
        Self { content: vec![Block::text(text)], notice: None }
    }

    /// The beginning of the text, for lists.
    #[must_use]
    pub fn head(&self) -> &str {
        let text = self.content.iter().find_map(|block| match block {
            Block::Text { text: Text::Inline(text) } => Some(text.as_str()),
            Block::Text { text: Text::Blob(blob) } => Some(blob.head.as_str()),
            _ => None,
        });
        text.unwrap_or_default()
    }
}

impl InputBody {
    /// Its kind.
    #[must_use]
    pub fn kind(&self) -> InputKind {
        match self {
            Self::Steer(_) => InputKind::Steer,
            Self::Queue(_) => InputKind::Queue,
            Self::Stop { .. } => InputKind::Stop,
            Self::Withdraw { .. } => InputKind::Withdraw,
            Self::Reorder { .. } => InputKind::Reorder,
            Self::Deliver { .. } => InputKind::Deliver,
            Self::Answer { .. } => InputKind::Answer,
            Self::Suspend { .. } => InputKind::Suspend,
        }
    }

    /// What the model is to see of it; none for a control.
    #[must_use]
    pub fn words(&self) -> Option<&Words> {
        match self {
            Self::Steer(words) | Self::Queue(words) => Some(words),
            _ => None,
        }
    }

    /// SHA-256 of its JSON: two inputs are the same when it is.
    #[must_use]
    pub fn sha256(&self) -> String {
        sha256_hex(&serde_json::to_vec(self).unwrap_or_default())
    }
}

impl NewInput {
    /// An input or a control.
    #[must_use]
    pub fn new(id: impl Into<String>, body: InputBody) -> Self {
        Self { id: id.into(), body }
    }

    /// Refuses what no store takes.
    ///
    /// # Errors
    /// [`StoreError::Refused`]: an id that is empty, too long or not printable, or words that say nothing.
    pub fn check(&self) -> Result<(), StoreError> {
        let refused = |why: &str| Err(StoreError::refused(why));
        if self.id.is_empty() || self.id.len() > MAX_ID_BYTES {
            return refused("an input's id has 1 to 256 bytes");
        }
        if self.id.chars().any(char::is_control) {
            return refused("an input's id has no control characters");
        }
        if self.body.words().is_some_and(|words| words.content.is_empty()) {
            return refused("an input without content");
        }
        Ok(())
    }

    /// The user message that delivers it; none for a control.
    #[must_use]
    pub fn message(&self) -> Option<UserMessage> {
        let words = self.body.words()?.clone();
        Some(UserMessage {
            content: words.content,
            notice: words.notice,
            input_id: Some(self.id.clone()),
            input_kind: Some(self.body.kind()),
            input_sha256: Some(self.body.sha256()),
        })
    }

    /// The record that says what became of it, where that was no delivery.
    #[must_use]
    pub fn event(&self, event: InputFate) -> InputEvent {
        InputEvent {
            kind: Some(self.body.kind()),
            sha256: Some(self.body.sha256()),
            ..InputEvent::new(&self.id, event)
        }
    }
}

/// An admitted input that no record settles yet.
#[derive(Debug, Clone, PartialEq)]
pub struct Pending {
    /// Counts up with each admission while others wait; ties are broken by the id's hash.
    pub order: u64,
    /// When it was admitted, for people.
    pub at: Timestamp,
    /// Whether it was there before the one who looks took the session.
    pub stale: bool,
    /// What.
    pub input: NewInput,
}

/// What waits.
#[derive(Debug, Clone, Default)]
pub struct Inbox {
    /// In the order of admission.
    pub pending: Vec<Pending>,
    /// What is there and cannot be read.
    pub findings: Vec<Finding>,
}

/// Sorts as admitted.
pub fn sort(pending: &mut [Pending]) {
    pending.sort_by_cached_key(|p| (p.order, sha256_hex(p.input.id.as_bytes())));
}

/// Sorts what waits as it is to be delivered: those that a person put into an order, then the others.
pub fn arrange(pending: &mut [Pending], waiting: &WaitingInputs) {
    sort(pending);
    let place = |p: &Pending| waiting.order.iter().position(|id| *id == p.input.id);
    pending.sort_by_cached_key(|p| place(p).unwrap_or(usize::MAX));
}

/// How far an admitted input has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(tag = "stage", rename_all = "snake_case")]
pub enum Stage {
    /// It waits.
    Pending,
    /// It waits for a person, because of a stop.
    Parked {
        /// The record that says so.
        seq: Seq,
    },
    /// The model sees it.
    Delivered {
        /// The message.
        seq: Seq,
    },
    /// It was taken back.
    Withdrawn {
        /// The record that says so.
        seq: Seq,
    },
    /// A control that was carried out.
    Acted {
        /// The record that says so.
        seq: Seq,
    },
    /// A control that there was nothing to do about.
    Dropped {
        /// The record that says so.
        seq: Seq,
    },
}

impl Stage {
    /// Whether nothing more comes of it.
    #[must_use]
    pub fn is_settled(self) -> bool {
        !matches!(self, Self::Pending | Self::Parked { .. })
    }
}

/// An id that a record uses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Used {
    /// The input's id.
    pub id: String,
    /// How far it has come; the newest record about an id holds.
    pub stage: Stage,
    /// What was admitted, where the record tells: its kind and hash.
    pub print: Option<(InputKind, String)>,
}

/// The ids that a record uses.
#[must_use]
pub fn used(record: &Record) -> Vec<Used> {
    let seq = record.seq();
    if !matches!(record.envelope.kind.as_str(), "message" | "input" | "run") {
        return Vec::new();
    }
    let parked = |id: &String| Used { id: id.clone(), stage: Stage::Parked { seq }, print: None };
    match record.body() {
        Body::Message(message) => match &**message {
            Message::User(UserMessage { input_id: Some(id), input_kind, input_sha256, .. }) => {
                let print = input_kind.zip(input_sha256.clone());
                vec![Used { id: id.clone(), stage: Stage::Delivered { seq }, print }]
            }
            _ => Vec::new(),
        },
        Body::Input(event) => {
            let stage = match event.event {
                InputFate::Withdrawn => Stage::Withdrawn { seq },
                InputFate::Parked => Stage::Parked { seq },
                InputFate::Acted => Stage::Acted { seq },
                InputFate::Dropped => Stage::Dropped { seq },
                InputFate::Reordered => return Vec::new(),
            };
            let print = event.kind.zip(event.sha256.clone());
            vec![Used { id: event.input_id.clone(), stage, print }]
        }
        Body::Run(run) => match &run.state {
            RunState::Stopping { parked: ids } => ids.iter().map(parked).collect(),
            _ => Vec::new(),
        },
        _ => Vec::new(),
    }
}

/// A holder of a session as a control names it: this process of this boot, not a later one with its number.
#[must_use]
pub fn holder_key(owner: &Owner) -> String {
    format!("{}-{}-{}@{}", owner.pid, owner.started, owner.boot, owner.host)
}
