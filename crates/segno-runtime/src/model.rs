//! What the runtime needs of a model.
//!
//! Responsible for: the trait and its errors. Must not: contain a wire format or a retry loop (the
//! run loop retries, because each attempt is a `request` record of its own).

use crate::ToolSpec;
use segno_model::compaction::Window;
use segno_model::context::{ContextMessage, Target};
use segno_model::record::{AssistantMessage, ModelRef, Native, Usage};
use segno_model::{Seq, SessionId};
use std::future::Future;

/// One model call.
#[derive(Debug, Clone, Copy)]
pub struct ModelRequest<'a> {
    /// The model's id at the provider.
    pub model: &'a ModelRef,
    /// The system prompt; the same bytes on every call of a session.
    pub system: &'a str,
    /// The tools, in a stable order.
    pub tools: &'a [ToolSpec],
    /// The history; blobs are resolved to inline values.
    pub messages: &'a [ContextMessage],
    /// The thinking level in force.
    pub thinking: Option<&'a str>,
    /// The session, as a cache key.
    pub session: &'a SessionId,
}

/// What is shown while a reply streams. Nothing of it counts until the reply is recorded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StreamEvent {
    /// More text.
    Text(String),
    /// More visible reasoning.
    Thinking(String),
    /// A tool call begins.
    ToolCall {
        /// Its id.
        id: String,
        /// The tool.
        name: String,
    },
    /// More of the newest call's arguments.
    Arguments(String),
}

/// A model call that gave no reply.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ModelError {
    /// What kind of failure.
    pub kind: ModelErrorKind,
    /// One sentence for people; never contains a key.
    pub message: String,
    /// How long the provider asks to wait, in milliseconds.
    pub retry_after_ms: Option<u64>,
    /// What a refusal is about, as far as it can be told.
    pub refusal: Option<Refusal>,
}

impl ModelError {
    /// A failure that says no more than its kind and a sentence.
    #[must_use]
    pub fn new(kind: ModelErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), retry_after_ms: None, refusal: None }
    }
}

/// What a refusal is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Refusal {
    /// The record, if the provider says where.
    pub seq: Option<Seq>,
    /// What of it.
    pub part: RefusedPart,
}

/// What was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RefusedPart {
    /// Signed reasoning.
    Thinking,
    /// An image.
    Images,
    /// Any image: the model takes none. Whoever said so sends none any more.
    AnyImage,
    /// Something else.
    Other,
}

/// Kinds of failure, by what can be done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ModelErrorKind {
    /// 408, 429, 5xx, overload, no connection: wait and try again.
    Busy,
    /// The stream broke or made no sense: try again.
    Broken,
    /// No key, or the provider did not accept it.
    Key,
    /// The history is larger than the model's window: compact.
    TooLong,
    /// The provider refused this request; repeating it would not help.
    Refused,
    /// Signed reasoning was refused: once again without it.
    Thinking,
}

impl ModelErrorKind {
    /// Whether the same request may be sent again.
    #[must_use]
    pub fn is_retryable(self) -> bool {
        matches!(self, Self::Busy | Self::Broken)
    }
}

/// A provider's own state of a history.
#[derive(Debug, Clone)]
pub struct OwnCompaction {
    /// Its items.
    pub native: Native,
    /// Tokens that the provider reported.
    pub usage: Option<Usage>,
}

/// Something that answers.
pub trait Model: Send + Sync {
    /// Makes one call and gives the complete reply. Dropping the future ends the call.
    fn reply(
        &self,
        request: ModelRequest<'_>,
        events: &mut (dyn FnMut(StreamEvent) + Send),
    ) -> impl Future<Output = Result<AssistantMessage, ModelError>> + Send;

    /// How much `model` takes and gives; none where that is not known. The context is then not made smaller
    /// by itself.
    fn window(&self, model: &ModelRef) -> impl Future<Output = Option<Window>> + Send {
        let _ = model;
        std::future::ready(None)
    }

    /// Who that is, as far as it decides what goes back only to its maker; none where nobody can tell. Then
    /// replies go back by the model's name alone, and states not at all.
    fn target(&self, model: &ModelRef) -> Option<Target> {
        let _ = model;
        None
    }

    /// Whether [`Model::compact`] may be asked: where the provider is known to offer it, or `wherever` its
    /// protocol has it; not where it said that it does not.
    fn compacts(&self, model: &ModelRef, wherever: bool) -> bool {
        let _ = (model, wherever);
        false
    }

    /// The provider's own state of the request's history: what may be sent in its place later. Dropping the
    /// future ends the call.
    fn compact(
        &self,
        request: ModelRequest<'_>,
    ) -> impl Future<Output = Result<OwnCompaction, ModelError>> + Send {
        let _ = request;
        let none = "the provider offers no compaction of its own";
        std::future::ready(Err(ModelError::new(ModelErrorKind::Refused, none)))
    }
}

/// A plain function answers at once and streams nothing.
impl<F> Model for F
where
    F: Fn(ModelRequest<'_>) -> Result<AssistantMessage, ModelError> + Send + Sync,
{
    async fn reply(
        &self,
        request: ModelRequest<'_>,
        _events: &mut (dyn FnMut(StreamEvent) + Send),
    ) -> Result<AssistantMessage, ModelError> {
        self(request)
    }
}
