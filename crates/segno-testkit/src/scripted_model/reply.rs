//! What the scripted model answers, in terms that no wire owns.
//!
//! Responsible for: the neutral reply, its faults, and how a test writes one in code. Must not: know
//! how a wire spells any of it.

use std::time::Duration;

/// What a request is answered with.
#[derive(Debug, Clone, PartialEq)]
pub enum Answer {
    /// A streamed reply.
    Reply(Reply),
    /// An HTTP error in the provider's own shape.
    Status {
        /// e.g. 429, 529.
        code: u16,
        /// The `retry-after` header, in seconds.
        retry_after_s: Option<u64>,
        /// What the error says; a fitting sentence when absent.
        message: Option<String>,
    },
    /// The provider's own way to say that the prompt is longer than the model's window.
    TooLong,
}

impl Answer {
    /// An HTTP error.
    #[must_use]
    pub fn status(code: u16) -> Self {
        Self::Status { code, retry_after_s: None, message: None }
    }
}

impl From<Reply> for Answer {
    fn from(reply: Reply) -> Self {
        Self::Reply(reply)
    }
}

/// A reply of the model.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Reply {
    /// What is said, in order.
    pub parts: Vec<Part>,
    /// Numbers; what is left out is estimated from the request and the reply.
    pub usage: Numbers,
    /// Why it ends; derived from the parts when absent.
    pub stop: Option<Stop>,
    /// What goes wrong on the way.
    pub faults: Vec<Fault>,
}

/// A part of a reply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Part {
    /// Reasoning; the server signs it.
    Thinking {
        /// Its text.
        text: String,
        /// Whether only the signed form is shown (Anthropic's redacted thinking; elsewhere the
        /// visible text is left out).
        redacted: bool,
    },
    /// Text.
    Text(String),
    /// A tool call.
    Call {
        /// A given id, for trying odd ones; derived from the request when absent.
        id: Option<String>,
        /// The tool.
        name: String,
        /// The arguments as JSON text, well-formed or not.
        arguments: String,
    },
}

/// Token numbers as a script gives them; `input` excludes what the cache served or stored.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Numbers {
    /// Fresh input.
    pub input: Option<u64>,
    /// Output, reasoning included.
    pub output: Option<u64>,
    /// Read from the cache.
    pub cache_read: Option<u64>,
    /// Written to the cache.
    pub cache_write: Option<u64>,
    /// Reasoning within the output.
    pub reasoning: Option<u64>,
}

/// Why a reply ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stop {
    /// The turn is finished.
    End,
    /// Tools are to be run.
    Tools,
    /// The output limit.
    Length,
    /// A refusal.
    Refusal,
}

/// What goes wrong with a stream. Counted events are those of the wire, pings included.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
    /// Silence before the first event.
    Delay(Duration),
    /// Silence before each event.
    Pace(Duration),
    /// The bytes arrive in pieces of this size, whatever they cut through.
    Pieces(usize),
    /// The connection breaks after so many events.
    Drop(usize),
    /// After so many events (all but the last when absent) nothing more comes, and the connection
    /// stays open until the client leaves.
    Hang(Option<usize>),
    /// An event that is not JSON, after so many good ones.
    Malformed(usize),
    /// The provider's error event after so many events.
    ErrorEvent {
        /// Its kind: `overloaded` or `internal`.
        overloaded: bool,
        /// After so many events.
        after: usize,
    },
    /// The connection breaks inside the first character of several bytes; in a stream without one,
    /// inside its middle event.
    CutMidCharacter,
}

impl Reply {
    /// A reply of one text.
    #[must_use]
    pub fn text(text: impl Into<String>) -> Self {
        Self::default().say(text)
    }

    /// A reply of one call; `arguments` is JSON text.
    #[must_use]
    pub fn call(name: impl Into<String>, arguments: impl Into<String>) -> Self {
        Self::default().and_call(name, arguments)
    }

    /// Adds text.
    #[must_use]
    pub fn say(mut self, text: impl Into<String>) -> Self {
        self.parts.push(Part::Text(text.into()));
        self
    }

    /// Adds signed reasoning.
    #[must_use]
    pub fn think(mut self, text: impl Into<String>) -> Self {
        self.parts.push(Part::Thinking { text: text.into(), redacted: false });
        self
    }

    /// Adds a call; `arguments` is JSON text.
    #[must_use]
    pub fn and_call(mut self, name: impl Into<String>, arguments: impl Into<String>) -> Self {
        self.parts.push(Part::Call { id: None, name: name.into(), arguments: arguments.into() });
        self
    }

    /// Adds a fault.
    #[must_use]
    pub fn fault(mut self, fault: Fault) -> Self {
        self.faults.push(fault);
        self
    }

    /// Sets the numbers.
    #[must_use]
    pub fn usage(mut self, usage: Numbers) -> Self {
        self.usage = usage;
        self
    }

    /// Why it ends.
    #[must_use]
    pub fn stop_reason(&self) -> Stop {
        let calls = self.parts.iter().any(|part| matches!(part, Part::Call { .. }));
        self.stop.unwrap_or(if calls { Stop::Tools } else { Stop::End })
    }
}
