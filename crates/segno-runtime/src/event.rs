//! What an onlooker of a run is told.
//!
//! Responsible for: the events, and which of them may be believed. Must not: format anything.

use crate::{Progress, RefusedPart, StreamEvent};
use segno_model::record::ToolCall;
use segno_model::{Record, Seq};

/// Something that happened.
#[derive(Debug)]
pub enum Event<'a> {
    /// A record is durable. Only these count (G1).
    Recorded(&'a Record),
    /// A model call is being made, for the `attempt`-th time in this step.
    Asking {
        /// From 1.
        attempt: u32,
    },
    /// A piece of a reply that may still be lost.
    Stream(StreamEvent),
    /// What was streamed of this reply is void: it will be asked for again.
    Retry {
        /// Why.
        reason: &'a str,
        /// After this many milliseconds.
        wait_ms: u64,
    },
    /// The provider refused something that is left out from here on; the request is made again at once. The
    /// edits that say so are recorded.
    LeftOut {
        /// The records; none when the model takes no images at all.
        seqs: &'a [Seq],
        /// What of them.
        part: RefusedPart,
        /// What the provider said.
        reason: &'a str,
    },
    /// A call starts to run.
    ToolStarted(&'a ToolCall),
    /// A call does not run: it was refused, or a stop came first. Its result says why.
    ToolNotRun(&'a ToolCall),
    /// A call that another process began still runs; its end is waited for.
    Reattached {
        /// The call's id.
        call_id: &'a str,
        /// The tool.
        tool: &'a str,
    },
    /// A permission question was answered by somebody who does not sit here.
    Answered {
        /// The call's id.
        call_id: &'a str,
        /// Whether it may run.
        allowed: bool,
        /// Why not.
        reason: Option<&'a str>,
    },
    /// Output of a running call.
    ToolProgress {
        /// The call's id.
        call_id: &'a str,
        /// What.
        progress: Progress,
    },
    /// The context is made smaller, or not.
    Compaction(CompactionEvent<'a>),
    /// The run waits because nothing can be written; it goes on by itself when it can (G16).
    Paused {
        /// Why.
        reason: &'a str,
    },
}

/// What becomes of a context that is large.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CompactionEvent<'a> {
    /// A summary is being made.
    Started {
        /// Why.
        cause: CompactionCause,
    },
    /// It stands for the history now.
    Done {
        /// Tokens before, estimated.
        tokens_before: u64,
        /// Tokens after, estimated.
        tokens_after: u64,
    },
    /// It was not made; the context is as before.
    Failed {
        /// Why.
        reason: &'a str,
    },
    /// The provider made no state of its own, although it was asked; a summary alone stands for the history.
    Local {
        /// Why.
        reason: &'a str,
    },
    /// Old outputs are left out from now on.
    Pruned {
        /// Of so many calls.
        results: usize,
        /// Which frees about so many tokens.
        tokens: u64,
    },
    /// The context is large and stays as it is.
    GivenUp {
        /// Why.
        why: &'a str,
    },
}

/// Why a context is made smaller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CompactionCause {
    /// A person asked for it.
    Person,
    /// It is near the end of the model's window.
    Threshold,
    /// The provider said that a request is too long.
    TooLong,
}

impl CompactionCause {
    /// The word for it.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Person => "person",
            Self::Threshold => "threshold",
            Self::TooLong => "too_long",
        }
    }
}

/// Sees events.
pub trait Observer: Send {
    /// Takes one; must not block for long.
    fn event(&mut self, event: Event<'_>);
}

/// Nobody looks.
impl Observer for () {
    fn event(&mut self, _event: Event<'_>) {}
}

impl<F: FnMut(Event<'_>) + Send> Observer for F {
    fn event(&mut self, event: Event<'_>) {
        self(event);
    }
}
