//! What a request contains, in terms that no wire owns.
//!
//! Responsible for: the neutral history that every wire is parsed into and that rules, checks and
//! tests look at. Must not: know how a wire spells any of it.

use serde_json::Value;

/// A wire protocol of the scripted model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Wire {
    /// Anthropic Messages.
    Anthropic,
    /// OpenAI Responses.
    Responses,
    /// OpenAI-compatible Chat Completions.
    Chat,
    /// Gemini `streamGenerateContent`.
    Gemini,
}

impl Wire {
    /// All four.
    pub const ALL: [Self; 4] = [Self::Anthropic, Self::Responses, Self::Chat, Self::Gemini];

    /// The name that scripts use.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Anthropic => "anthropic",
            Self::Responses => "responses",
            Self::Chat => "chat",
            Self::Gemini => "gemini",
        }
    }
}

/// A request as the scripted model understood it.
#[derive(Debug, Clone, PartialEq)]
pub struct Seen {
    /// The wire that it came on.
    pub wire: Wire,
    /// The model that was asked for.
    pub model: String,
    /// Requests of one session share this key.
    pub session: String,
    /// The system prompt.
    pub system: String,
    /// The tools that the model is offered.
    pub tools: Vec<SeenTool>,
    /// The conversation. What a state is about that came back to its maker stands as a turn of the user's.
    pub turns: Vec<Turn>,
    /// Whether a state of the conversation is asked for, and no reply (Responses).
    pub compaction: bool,
    /// Whether the client asked for numbers at the end of the stream (Chat Completions only sends
    /// them on request) or for encrypted reasoning (Responses only sends it on request).
    pub(crate) extras: bool,
    /// The request cut into the pieces that a provider's prompt cache compares, in order.
    pub(crate) units: Vec<String>,
}

/// A tool that the model is offered.
#[derive(Debug, Clone, PartialEq)]
pub struct SeenTool {
    /// Its name.
    pub name: String,
    /// The JSON Schema of its arguments.
    pub parameters: Value,
}

/// One turn of the conversation.
#[derive(Debug, Clone, PartialEq)]
pub enum Turn {
    /// The user's side.
    User(Vec<Piece>),
    /// A reply of the model.
    Assistant(Vec<Said>),
    /// The results of the calls right before.
    Results(Vec<SeenResult>),
}

impl Turn {
    /// `user`, `assistant` or `results`.
    #[must_use]
    pub fn role(&self) -> &'static str {
        match self {
            Self::User(_) => "user",
            Self::Assistant(_) => "assistant",
            Self::Results(_) => "results",
        }
    }

    /// Everything readable in it, one piece per line: text, reasoning, calls with their arguments,
    /// results.
    #[must_use]
    pub fn text(&self) -> String {
        let lines: Vec<String> = match self {
            Self::User(pieces) => {
                pieces.iter().filter_map(Piece::text).map(str::to_owned).collect()
            }
            Self::Assistant(said) => said.iter().map(Said::readable).collect(),
            Self::Results(results) => results.iter().map(|r| r.text.clone()).collect(),
        };
        lines.join("\n")
    }
}

/// A piece of a user turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Piece {
    /// Text.
    Text(String),
    /// An image; its bytes are not kept.
    Image {
        /// e.g. `image/png`.
        media_type: String,
        /// Length of its base64 text.
        base64_bytes: usize,
    },
}

impl Piece {
    fn text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            Self::Image { .. } => None,
        }
    }
}

/// A piece of a reply that came back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Said {
    /// Text.
    Text {
        /// The text.
        text: String,
        /// Gemini may sign text.
        signature: Option<String>,
    },
    /// Reasoning.
    Thinking {
        /// Its visible text.
        text: String,
        /// What proves that it is the model's own.
        signature: Option<String>,
        /// True when only the signature was ever shown.
        redacted: bool,
    },
    /// A tool call.
    Call {
        /// Its id; empty on Gemini where the model gives none.
        id: String,
        /// The tool.
        name: String,
        /// The arguments as JSON text.
        arguments: String,
        /// Gemini signs calls.
        signature: Option<String>,
    },
}

impl Said {
    fn readable(&self) -> String {
        match self {
            Self::Text { text, .. } | Self::Thinking { text, .. } => text.clone(),
            Self::Call { name, arguments, .. } => format!("{name} {arguments}"),
        }
    }
}

/// A result that came back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SeenResult {
    /// The call that it answers.
    pub call_id: String,
    /// The tool, where the wire names it.
    pub name: String,
    /// Its text.
    pub text: String,
    /// How many images it holds.
    pub images: usize,
    /// Whether it is told as a failure, where the wire can say so.
    pub is_error: bool,
}

impl Seen {
    /// The text of the last user turn, wherever it stands; empty when there is none.
    #[must_use]
    pub fn last_user_text(&self) -> String {
        let last = self.turns.iter().rev().find(|t| matches!(t, Turn::User(_)));
        last.map(Turn::text).unwrap_or_default()
    }

    /// The last line of the last user turn that is not blank.
    #[must_use]
    pub fn prompt(&self) -> String {
        let text = self.last_user_text();
        text.lines().rfind(|line| !line.trim().is_empty()).unwrap_or_default().to_owned()
    }

    /// The text of the results, if results are what the model has to react to now.
    #[must_use]
    pub fn last_result_text(&self) -> Option<String> {
        match self.turns.last() {
            Some(turn @ Turn::Results(_)) => Some(turn.text()),
            _ => None,
        }
    }

    /// The roles in order, e.g. `user assistant results assistant user`.
    #[must_use]
    pub fn roles(&self) -> Vec<&'static str> {
        self.turns.iter().map(Turn::role).collect()
    }

    /// All results of the history, oldest first.
    pub fn results(&self) -> impl DoubleEndedIterator<Item = &SeenResult> {
        self.turns.iter().flat_map(|turn| match turn {
            Turn::Results(results) => results.as_slice(),
            _ => &[],
        })
    }

    /// How many replies were given since the user last spoke.
    #[must_use]
    pub fn replies_since_user(&self) -> usize {
        let since = self.turns.iter().rev().take_while(|t| !matches!(t, Turn::User(_)));
        since.filter(|t| matches!(t, Turn::Assistant(_))).count()
    }
}

/// A rule that a request broke.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// The rule's label; [`super::RULES`] explains each.
    pub rule: &'static str,
    /// Where in the request, e.g. `messages.3.content.0`.
    pub at: String,
    /// What is wrong there.
    pub message: String,
}

impl std::fmt::Display for Violation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {} [{}]", self.at, self.message, self.rule)
    }
}

/// The violations found so far.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    /// What was broken.
    pub(crate) broken: Vec<Violation>,
    /// Images that are yet to be judged together.
    pub(crate) pictures: Vec<super::picture::Picture>,
}

impl Findings {
    /// Notes one.
    pub(crate) fn add(
        &mut self,
        rule: &'static str,
        at: impl Into<String>,
        message: impl Into<String>,
    ) {
        self.broken.push(Violation { rule, at: at.into(), message: message.into() });
    }
}
