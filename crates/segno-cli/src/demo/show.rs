//! How the experiment is told.
//!
//! Responsible for: steps, commands, records and the verdict, for somebody who has never seen Segno.
//! Must not: know what comes next, or judge.

use super::stage::{Died, Process, Stage, role};
use super::verdict::Check;
use crate::error::CliError;
use crate::terminal::{Screen, Text, Tone};
use segno_model::record::{AssistantBlock, Block, Body, Message, Run, RunState};
use segno_model::{Record, SessionId};
use segno_testkit::scripted_model::demo::CODE_FILE;
use std::collections::HashMap;

/// Tells it on a screen.
pub(super) struct Narrator<'a> {
    screen: &'a mut Screen,
    steps: u32,
    /// How many records of each session were shown.
    shown: HashMap<SessionId, usize>,
}

impl<'a> Narrator<'a> {
    /// Nothing is told yet.
    pub(super) fn new(screen: &'a mut Screen) -> Self {
        Self { screen, steps: 0, shown: HashMap::new() }
    }

    /// What this is about.
    pub(super) fn opening(&mut self, stage: &Stage) {
        self.line(Text::line(Tone::Heading, "Does a session survive the death of its process?"));
        for text in [
            "Real agent processes work with real files and tools in a temporary repository. Only the",
            "model is a stand-in: a server on this machine that takes its answers from nothing but the",
            "request in front of it, and refuses every history that a provider would refuse.",
        ] {
            self.line(Text::line(Tone::Plain, text));
        }
        self.line(Text::default());
        let code = format!("CODE={}", stage.code);
        for (name, value) in [
            ("model", stage.server.url()),
            ("directory", stage.root().display().to_string()),
            (CODE_FILE, code),
        ] {
            let value = Text::default()
                .with(Tone::Dim, &format!("  {name:<11}"))
                .with(Tone::Accent, &value);
            self.line(value);
        }
    }

    /// The next step begins.
    pub(super) fn step(&mut self, what: &str) {
        self.steps += 1;
        self.line(Text::default());
        let number = format!("{}. ", self.steps);
        self.line(Text::default().with(Tone::Heading, &number).with(Tone::Strong, what));
    }

    /// A remark.
    pub(super) fn note(&mut self, text: &str) {
        self.line(Text::default().with(Tone::Plain, &format!("  {text}")));
    }

    /// A process was started.
    pub(super) fn command(&mut self, process: &Process) {
        let command = format!("  $ {}", process.command);
        self.line(Text::default().with(Tone::Accent, &command));
        self.line(Text::default().with(Tone::Dim, &format!("  pid      {}", process.pid)));
    }

    /// A process was killed.
    pub(super) fn died(&mut self, died: &Died) {
        let how = died.signal.map_or("nothing".to_owned(), |signal| format!("signal {signal}"));
        let text = format!("  pid      {} ended by {how}", died.pid);
        self.line(Text::default().with(Tone::Warning, &text));
    }

    /// The records that were added since they were last shown.
    ///
    /// # Errors
    /// When they cannot be read.
    pub(super) async fn records(&mut self, stage: &Stage, id: &SessionId) -> Result<(), CliError> {
        let records = stage.records(id).await?;
        let shown = self.shown.insert(id.clone(), records.len()).unwrap_or(0);
        if shown == 0 {
            let log =
                Text::default().with(Tone::Dim, "  session  ").with(Tone::Accent, id.as_str());
            self.line(log);
        }
        self.line(Text::default().with(Tone::Dim, "  record   type          role"));
        let width = self.screen.look().columns;
        for record in records.iter().skip(shown) {
            self.line(row(record).cut(width));
        }
        Ok(())
    }

    /// What a file holds.
    pub(super) fn file(&mut self, name: &str, content: &str) {
        for line in content.lines() {
            let line =
                Text::default().with(Tone::Dim, &format!("  {name}: ")).with(Tone::Plain, line);
            self.line(line);
        }
    }

    /// Every check, and what they come to.
    pub(super) fn verdict(&mut self, checks: &[Check]) {
        self.line(Text::default());
        self.line(Text::line(Tone::Heading, "The verdict"));
        for check in checks {
            let (mark, tone) = if check.holds { ("✓", Tone::Good) } else { ("✗", Tone::Bad) };
            let mark = Text::default().with(tone, &format!("  {mark} "));
            self.line(mark.with(Tone::Plain, &check.sentence));
        }
        let all = checks.iter().all(|check| check.holds);
        self.line(if all {
            Text::line(Tone::Good, "The session survived.")
        } else {
            Text::line(Tone::Bad, "The session did not survive as it must.")
        });
    }

    /// A line.
    pub(super) fn line(&mut self, text: Text) {
        self.screen.line(text);
        self.screen.flush();
    }
}

fn row(record: &Record) -> Text {
    let role = role(record);
    let tone = if role.is_some() { Tone::Plain } else { Tone::Dim };
    let head = format!("  {:>6}   {:<12}  ", record.seq(), record.envelope.kind);
    Text::default()
        .with(tone, &head)
        .with(Tone::Strong, &format!("{:<11}", role.unwrap_or_default()))
        .with_text(Text::line(tone, &summary(record.body())))
}

/// A record in a few words.
fn summary(body: &Body) -> String {
    match body {
        Body::Message(message) => match &**message {
            Message::User(user) => first_text(&user.content),
            Message::Tool(result) => format!("{}: {}", result.name, first_text(&result.content)),
            Message::Assistant(reply) => {
                let parts = reply.content.iter().map(|block| match block {
                    AssistantBlock::Text { text } => text.clone(),
                    AssistantBlock::ToolCall(c) => format!("calls {} {}", c.name, c.arguments),
                    _ => String::new(),
                });
                parts.collect::<Vec<_>>().join(" ")
            }
        },
        Body::Run(Run { state, .. }) => match state {
            RunState::Started { .. } => "started".to_owned(),
            RunState::Stopping { .. } => "stopping".to_owned(),
            RunState::Ended { end, reason } => {
                let end = format!("{end:?}").to_lowercase();
                reason.as_ref().map_or_else(|| end.clone(), |reason| format!("{end}: {reason}"))
            }
        },
        Body::Model(change) => change.model.to_string(),
        Body::Request(_) => "about to ask the model".to_owned(),
        Body::Environment(_) => "what the agent finds around it".to_owned(),
        Body::Action(action) => format!("about to run {}", action.tool),
        Body::Child(child) => match &child.attempt {
            Some(attempt) => format!("subagent: {}", attempt.detail.as_deref().unwrap_or("ended")),
            None => "a subagent begins".to_owned(),
        },
        Body::Tip(_) => "where the next message goes".to_owned(),
        Body::Session(_) => "the log begins".to_owned(),
        _ => String::new(),
    }
}

fn first_text(blocks: &[Block]) -> String {
    let text = blocks.iter().find_map(|block| match block {
        Block::Text { text } => Some(text.head()),
        _ => None,
    });
    text.unwrap_or_default().trim_end().to_owned()
}
