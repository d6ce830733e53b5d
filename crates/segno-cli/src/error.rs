//! The one room where errors become sentences.
//!
//! Responsible for: what a person reads when something fails (a sentence, a cause, a next step), what a
//! script gets (the exit code), and the table from typed errors to both. Must not: be reached by
//! libraries; they return typed errors and say nothing.

use crate::terminal::clean;
use crate::terminal::picker::PickError;
use crate::terminal::{Screen, Text, Tone};
use segno_agent::AgentError;
use segno_model::store::{Owner, StoreError};
use segno_runtime::{CompactError, ModelError, ModelErrorKind};
use segno_store::foreign::ForeignError;
use serde::Serialize;
use std::error::Error as _;

/// The exit codes of `segno`. Scripts rely on them; they never change their meaning.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum ExitCode {
    /// Done; for a run: completed. Notes of `check` are no failure.
    Done = 0,
    /// It failed, for a reason without a code of its own; for `check`: there are warnings or damage.
    Failed = 1,
    /// The command line makes no sense; for `check`: the session cannot be read.
    Usage = 2,
    /// The user stopped it.
    Stopped = 3,
    /// Another process holds the session.
    Held = 4,
    /// The session is damaged and a person has to decide.
    Damaged = 5,
    /// What was named is not there, or the name fits several.
    NotFound = 6,
    /// Nothing can be written: full disk, failing medium, newer format.
    Unwritable = 7,
    /// No model can be used: none found, no key, refused.
    Model = 8,
    /// A shutdown ended it; it can be taken up again.
    Suspended = 9,
    /// Something else was sent under this id before.
    Conflict = 10,
    /// Interrupted work waits for a decision, and nobody can be asked.
    Undecided = 11,
}

impl ExitCode {
    /// All of them, for documentation and completeness checks.
    pub const ALL: [Self; 12] = [
        Self::Done,
        Self::Failed,
        Self::Usage,
        Self::Stopped,
        Self::Held,
        Self::Damaged,
        Self::NotFound,
        Self::Unwritable,
        Self::Model,
        Self::Suspended,
        Self::Conflict,
        Self::Undecided,
    ];

    /// One line for the manual.
    #[must_use]
    pub fn meaning(self) -> &'static str {
        match self {
            Self::Done => "done; for a run: completed",
            Self::Failed => {
                "failed, for a reason without a code of its own; check: warnings or damage"
            }
            Self::Usage => "the command line makes no sense; check: the session cannot be read",
            Self::Stopped => "stopped by the user",
            Self::Held => "the session is held by another process",
            Self::Damaged => "the session is damaged and needs a decision",
            Self::NotFound => "not found, or the name fits several",
            Self::Unwritable => "nothing can be written (full disk, failing medium, newer format)",
            Self::Model => "no usable model (none found, no key, refused)",
            Self::Suspended => "ended by a shutdown; it can be resumed",
            Self::Conflict => "something else was sent under this id before",
            Self::Undecided => {
                "interrupted work waits for a decision: `--policy auto` goes on with it"
            }
        }
    }
}

impl From<ExitCode> for std::process::ExitCode {
    fn from(code: ExitCode) -> Self {
        Self::from(code as u8)
    }
}

/// A failure, ready to be told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CliError {
    /// What did not work: one sentence.
    pub sentence: String,
    /// Why, if that is known beyond the sentence.
    pub cause: Option<String>,
    /// What to do now; often a command. There always is something.
    pub next_step: String,
    /// What a script gets.
    pub exit: ExitCode,
}

/// A failure that lacks its next step: none can be told without one.
#[must_use = "a failure is told with a next step"]
#[derive(Debug, Clone)]
pub struct Unfinished {
    sentence: String,
    cause: Option<String>,
    exit: ExitCode,
}

impl Unfinished {
    /// With the reason.
    pub fn because(self, cause: impl std::fmt::Display) -> Self {
        Self { cause: Some(cause.to_string()), ..self }
    }

    /// With what to do now.
    #[must_use]
    pub fn next(self, step: impl Into<String>) -> CliError {
        let Self { sentence, cause, exit } = self;
        CliError { sentence, cause, next_step: step.into(), exit }
    }
}

impl CliError {
    /// A failure with this sentence.
    #[expect(clippy::new_ret_no_self, reason = "it has a next step before it is one")]
    pub fn new(exit: ExitCode, sentence: impl Into<String>) -> Unfinished {
        Unfinished { sentence: sentence.into(), cause: None, exit }
    }

    /// A failure of the general kind.
    pub fn failed(sentence: impl Into<String>) -> Unfinished {
        Self::new(ExitCode::Failed, sentence)
    }

    /// A command line that makes no sense.
    pub fn usage(sentence: impl Into<String>) -> Unfinished {
        Self::new(ExitCode::Usage, sentence)
    }

    /// With the reason.
    #[must_use]
    pub fn because(self, cause: impl std::fmt::Display) -> Self {
        Self { cause: Some(cause.to_string()), ..self }
    }

    /// With something else to do now.
    #[must_use]
    pub fn next(self, step: impl Into<String>) -> Self {
        Self { next_step: step.into(), ..self }
    }

    /// The same, its commands called as `program` instead of `segno`.
    #[must_use]
    pub fn called_as(self, program: &str) -> Self {
        let next_step = self.next_step.replace("`segno ", &format!("`{program} "));
        Self { next_step, ..self }
    }

    /// The three parts as lines. Stored text in them is cleaned.
    #[must_use]
    pub fn lines(&self) -> Vec<Text> {
        self.lines_as(Tone::Bad, "error:")
    }

    /// The same about something that is no failure of the command.
    #[must_use]
    pub fn as_warning(&self) -> Vec<Text> {
        self.lines_as(Tone::Warning, "warning:")
    }

    fn lines_as(&self, tone: Tone, word: &str) -> Vec<Text> {
        let mut lines = vec![
            Text::line(tone, word)
                .with(Tone::Plain, " ")
                .with(Tone::Plain, &clean::line(&self.sentence)),
        ];
        for (label, part) in [("cause:", self.cause.as_ref()), ("next:", Some(&self.next_step))] {
            if let Some(part) = part {
                let body = clean::block(part).trim_end().replace('\n', "\n         ");
                lines.push(
                    Text::default()
                        .with(Tone::Dim, &format!("  {label:<6}"))
                        .with(Tone::Plain, " ")
                        .with(Tone::Plain, &body),
                );
            }
        }
        lines
    }

    /// Tells it to a person.
    pub fn print(&self, screen: &mut Screen) {
        screen.lines(self.lines());
    }

    /// Tells it to a script: one line of JSON, `{"error":{…}}`.
    pub fn print_json(&self, screen: &mut Screen) {
        #[derive(Serialize)]
        struct Shape<'a> {
            sentence: &'a str,
            cause: Option<&'a str>,
            next_step: &'a str,
            exit: u8,
        }
        let shape = Shape {
            sentence: &self.sentence,
            cause: self.cause.as_deref(),
            next_step: &self.next_step,
            exit: self.exit as u8,
        };
        screen.json(&serde_json::json!({ "error": shape }));
    }

    /// What [`CliError::print_json`] printed, read back.
    #[must_use]
    pub fn from_json(line: &str) -> Option<Self> {
        let told: serde_json::Value = serde_json::from_str(line).ok()?;
        let told = told.get("error")?;
        let part = |name| told.get(name)?.as_str().map(str::to_owned);
        let exit = told.get("exit")?.as_u64()?;
        Some(Self {
            sentence: part("sentence")?,
            cause: part("cause"),
            next_step: part("next_step").unwrap_or_default(),
            exit: ExitCode::ALL.into_iter().find(|code| *code as u64 == exit)?,
        })
    }
}

impl From<ModelError> for CliError {
    fn from(error: ModelError) -> Self {
        let (sentence, next) = match error.kind {
            ModelErrorKind::Busy => ("The model is busy.", "Try again in a while."),
            ModelErrorKind::Broken => ("The model's reply was cut off.", "Try again."),
            ModelErrorKind::Key => {
                ("The model needs a key.", "`segno models` says how to set one.")
            }
            ModelErrorKind::TooLong => (
                "The conversation is too long for the model.",
                "/compact shortens it; or start anew.",
            ),
            ModelErrorKind::Refused | ModelErrorKind::Thinking => (
                "The model refused the request.",
                "`segno show --context SESSION` shows what is sent and `segno context SESSION omit SEQ` leaves \
                 a record out; `/compact` makes a summary of all; another model may take it as it is: \
                 --model PROVIDER/ID.",
            ),
        };
        Self::new(ExitCode::Model, sentence).because(error.message).next(next)
    }
}

impl From<AgentError> for CliError {
    fn from(error: AgentError) -> Self {
        match error {
            AgentError::Store(error) => error.into(),
            AgentError::Model(error) => error.into(),
            AgentError::Compact(error) => error.into(),
        }
    }
}

impl From<CompactError> for CliError {
    fn from(error: CompactError) -> Self {
        match error {
            CompactError::Store(error) => error.into(),
            CompactError::Model(error) => error.into(),
            CompactError::Nothing => Self::failed("There is nothing to compact yet.")
                .because("the conversation is so short that a summary would not make it shorter")
                .next("Say more first; it is compacted when there is something to gain."),
            CompactError::Stopped(_) => {
                Self::new(ExitCode::Stopped, "Stopped; nothing has changed.")
                    .next("Do it again when you like.")
            }
            CompactError::NoSummary(error) => Self::failed("The model gave no usable summary.")
                .because(error)
                .next("Nothing has changed. Try again, or with another model."),
        }
    }
}

impl From<ForeignError> for CliError {
    fn from(error: ForeignError) -> Self {
        let (said, why) = (format!("{error}."), error.source().map(ToString::to_string));
        let (exit, next) = match &error {
            ForeignError::NotRecognised { .. } => (
                ExitCode::NotFound,
                "`segno sources` shows which agents are known and where they are looked for.",
            ),
            ForeignError::Nothing { .. } => {
                (ExitCode::NotFound, "`segno list --all` shows the sessions that there are.")
            }
            ForeignError::NoTurns { .. } => (
                ExitCode::Usage,
                "Nothing was changed. The file may be of a newer version of its agent, or damaged from its beginning.",
            ),
            ForeignError::Incomplete { .. } => {
                (ExitCode::Usage, "Look for it in a backup; sessions of one agent belong together.")
            }
            _ => (ExitCode::Usage, "Nothing was changed. Check that the file can be read."),
        };
        let told = Self::new(exit, said).next(next);
        match why {
            Some(why) => told.because(why),
            None => told,
        }
    }
}

impl From<StoreError> for CliError {
    /// The table. The last row stands for variants that a newer store adds.
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::NotFound(id) => {
                Self::new(ExitCode::NotFound, format!("There is no session {id}."))
                    .next("`segno list --all` shows every session.")
            }
            StoreError::Exists(what) => Self::failed(format!("{what} exists already."))
                .because("nothing that exists is ever overwritten")
                .next("Choose another name, or move the existing one away."),
            StoreError::Held(owner) => held(&owner),
            StoreError::Poisoned(reason) => {
                let next = if reason.contains("it was deleted or moved") {
                    "What was recorded is in that file and nowhere else: put it back where it was, then \
                     `segno resume` reads it anew."
                } else {
                    "What was acknowledged is kept. Check the disk, then `segno resume` reads it anew."
                };
                Self::new(ExitCode::Unwritable, "This session can no longer be written from here.")
                    .because(reason)
                    .next(next)
            }
            StoreError::NoRoom(what) => {
                Self::new(ExitCode::Unwritable, "There is no room left to write the session.")
                    .because(format!("the disk or the quota is full at {what}"))
                    .next("Free some space, then repeat; nothing was written half.")
            }
            StoreError::ReadOnly(reason) => {
                Self::new(ExitCode::Unwritable, "Nothing can be written there.")
                    .because(reason)
                    .next(
                        "Reading works: `segno show`, `segno export`. A place that can be written \
                         is chosen with --home DIR; a newer format needs a newer segno.",
                    )
            }
            StoreError::Refused(reason) => {
                Self::failed("That was refused, and nothing was changed.")
                    .because(reason)
                    .next("Correct what was asked for and repeat it.")
            }
            StoreError::Damaged { what, offset, reason } => {
                Self::new(ExitCode::Damaged, format!("{what} is damaged at byte {offset}."))
                    .because(reason)
                    .next("`segno check SESSION` lists all damage; `segno repair SESSION` offers what can be done.")
            }
            StoreError::Backend { action, what, source } => {
                let writes = !matches!(action, "listing" | "locking" | "looking at" | "opening" | "reading");
                let exit = if writes { ExitCode::Unwritable } else { ExitCode::Failed };
                Self::new(exit, format!("{} {what} failed.", capitalised(action)))
                    .because(chain(source.as_ref()))
                    .next("Put that right and repeat; what was acknowledged is kept.")
            }
            other => Self::failed("The store failed.")
                .because(other)
                .next("What was acknowledged is kept. `segno check SESSION` tells whether it is sound; then repeat."),
        }
    }
}

impl From<PickError> for CliError {
    fn from(error: PickError) -> Self {
        match error {
            PickError::NotATerminal => Self::usage("Choosing from a list needs a terminal.")
                .because(
                    "input or output is a pipe, a file, or a terminal that cannot move its cursor",
                )
                .next(
                    "Name the session: `segno list` shows them, `last` is this project's newest.",
                ),
            PickError::Io(source) => Self::failed("The terminal failed.")
                .because(source)
                .next("Try another terminal, or name the session: `segno list` shows them."),
        }
    }
}

fn held(owner: &Owner) -> CliError {
    let since = if owner.since.0 > 0 { format!(" since {}", owner.since) } else { String::new() };
    let who = if owner.pid == 0 {
        "another process".to_owned()
    } else if owner.host.is_empty() {
        format!("process {}", owner.pid)
    } else {
        format!("process {} on {}", owner.pid, owner.host)
    };
    CliError::new(ExitCode::Held, format!("The session is being written by {who}."))
        .because(format!("a session has one writer at a time; this one has it{since}"))
        .next("`segno attach` watches it, `segno resume --take-over` asks for it, `segno fork` goes on in a copy.")
}

/// An error with everything beneath it, outermost first.
#[must_use]
pub fn chain(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut below = error.source();
    while let Some(source) = below {
        let reason = source.to_string();
        // Many errors repeat what is below them in their own text.
        if !text.contains(&reason) {
            text.push_str(": ");
            text.push_str(&reason);
        }
        below = source.source();
    }
    text
}

/// The text with a capital first letter.
#[must_use]
pub fn capitalised(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or_else(String::new, |first| first.to_uppercase().chain(chars).collect())
}
