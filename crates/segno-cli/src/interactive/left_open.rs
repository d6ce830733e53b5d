//! What an interruption left open, when a session is sat down at.
//!
//! Responsible for: finding out what became of it, saying so (one line when everything is known, otherwise
//! what is not), and whether the work goes on: by the session's policy, and where it says so by the person.
//! Must not: write anything before that is decided.

use super::keyboard::Pressed;
use super::{After, Interactive, Work};
use crate::error::CliError;
use crate::inputs::questions;
use crate::terminal::{Text, Tone};
use segno_model::Standing;
use segno_model::record::{Body, Message, Outcome, Policy, ToolMessage};

impl Interactive<'_> {
    /// Deals with what was left open; the session is as it was if the person wants nothing of it.
    pub(super) async fn left_open(&mut self) -> After {
        let standing = self.agent.session.standing();
        if standing == Standing::Stopping {
            self.warn("Your stop of the last turn is finished now.");
            return self.work(Work::TakeUp).await;
        }
        if !standing.is_open() {
            return After::Stay;
        }
        if let Err(error) = self.agent.establish().await {
            CliError::from(error).print(self.screen);
            return After::Stay;
        }
        let answered = self.is_answered().await;
        self.tell_left_open(standing, answered);
        match self.policy() {
            Policy::Auto => self.work(Work::TakeUp).await,
            Policy::Ask => self.ask_to_go_on().await,
            Policy::Never => {
                self.note("It is left as it is; say something new, or `--policy ask` next time.");
                After::Stay
            }
        }
    }

    /// Whether the questions that were open have answers from elsewhere.
    async fn is_answered(&self) -> bool {
        let open = questions::open(&self.engine.stores, self.agent.session.id()).await;
        open.is_ok_and(|open| !open.is_empty() && open.iter().all(|q| q.sent.is_some()))
    }

    fn policy(&self) -> Policy {
        let session = &self.agent.session.state().in_force;
        self.engine.policy(&self.args, session.policy, true)
    }

    async fn ask_to_go_on(&mut self) -> After {
        let lines = vec![Text::line(Tone::Strong, "Continue? [Y/n]")];
        match self.keyboard.choose(lines, "yn\n").await {
            Pressed::Key('y' | '\n') => self.work(Work::TakeUp).await,
            Pressed::Gone => After::Leave,
            _ => {
                self.note("It is left as it is; what you say next comes behind it.");
                After::Stay
            }
        }
    }

    /// One line when everything is known; otherwise each thing that is not.
    fn tell_left_open(&mut self, standing: Standing, answered: bool) {
        let session = &self.agent.session;
        let running: Vec<_> = session.running().iter().map(|a| (a.call_seq, &a.call_id)).collect();
        let pending = session.pending_recovery();
        let results = pending.iter().filter_map(result);
        let is_running = |result: &&ToolMessage| {
            result.call_seq.is_some_and(|seq| running.contains(&(seq, &result.call_id)))
        };
        let mut lines = Vec::new();
        for result in results {
            let name = &result.name;
            if is_running(&result) {
                lines.push(format!("A `{name}` call still runs; its end is waited for."));
            } else if result.outcome == Outcome::Unknown {
                lines.push(format!(
                    "Nobody recorded what became of a `{name}` call; the model will be told that its \
                     outcome is unknown."
                ));
            }
        }
        let said = match standing {
            Standing::Waiting if answered => {
                "The last turn waited for permission; the answer was sent from elsewhere."
            }
            Standing::Waiting => "The last turn waits for your answer to a question.",
            Standing::Suspended => "The last turn was suspended by a shutdown.",
            _ if lines.is_empty() => {
                "The last turn was interrupted; what became of everything in it is known."
            }
            _ => "The last turn was interrupted.",
        };
        self.warn(said);
        for line in lines {
            self.warn(&line);
        }
        self.screen.flush();
    }

    fn warn(&mut self, said: &str) {
        self.screen.line(Text::line(Tone::Warning, said));
        self.screen.flush();
    }

    pub(super) fn note(&mut self, said: &str) {
        self.screen.line(Text::line(Tone::Dim, said));
        self.screen.flush();
    }
}

fn result(body: &Body) -> Option<&ToolMessage> {
    match body {
        Body::Message(message) => match &**message {
            Message::Tool(result) => Some(result),
            _ => None,
        },
        _ => None,
    }
}
