//! `segno attach`: watch a session that another process works on, and say something to it.
//!
//! Responsible for: the transcript and the permission questions as the log grows, and lines that are typed:
//! sent, queued, an answer, or a stop.
//! Must not: take the session, or stop anything by leaving.

use super::Workplace;
use super::show::record_lines;
use crate::args::AttachArgs;
use crate::engine::{Signals, no_signals};
use crate::error::{CliError, ExitCode};
use crate::home::Home;
use crate::inputs;
use crate::inputs::questions::{self, Answered, Question, Said};
use crate::inputs::stopping::{self, Stopped};
use crate::stores::Stores;
use crate::terminal::{Screen, Text, Tone, clean};
use segno_model::inbox::{InputBody, NewInput, Words};
use segno_model::record::{ApprovalState, Body, RunEnd, RunState};
use segno_model::store::SessionStore as _;
use segno_model::{Record, SessionId};
use segno_store::{Follower, RealDisk};
use std::io::{BufRead as _, IsTerminal as _};
use std::time::Duration;
use tokio::sync::mpsc;

/// How often the log is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// After so many looks it is clear that nobody comes for what was sent.
const UNATTENDED_LOOKS: u32 = 300;

/// Every so many looks the subagents' logs are looked at for questions.
const SUBAGENT_LOOKS: u32 = 10;

/// Records from before that are shown.
const SHOWN: usize = 12;

/// What a typed line is.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Typed {
    Steer(String),
    Queue(String),
    Stop,
    Answer(Said),
    Leave,
    Nothing,
    Unknown(String),
}

/// Watches until the person leaves; without a terminal, until nobody has the session any more.
///
/// # Errors
/// No such session, or a failing disk.
pub async fn attach(
    args: &AttachArgs,
    home: Home,
    screen: &mut Screen,
) -> Result<ExitCode, CliError> {
    let stores = Stores::new(home);
    let id = stores.find(&args.session, &Workplace::cwd()?).await?;
    let signals = Signals::listen().map_err(|e| no_signals(&e))?;
    let follower = stores.files.follow(&id)?;
    let (sent, looks) = (Vec::new(), 0);
    let (asked, until_subagents, shown) = (false, 0, Vec::new());
    let mut attached =
        Attached { stores, id, follower, sent, looks, asked, until_subagents, shown, screen };
    attached.begin()?;
    attached.show_questions().await?;
    let mut lines = typed_lines();
    let terminal = std::io::stdin().is_terminal();
    let mut tick = tokio::time::interval(LOOK_EVERY);
    let mut reading = true;
    while !signals.is_leaving() {
        tokio::select! {
            line = lines.recv(), if reading => match line {
                Some(Ok(line)) if parse(&line) == Typed::Leave => break,
                Some(Ok(line)) => attached.act(parse(&line)).await,
                Some(Err(error)) => error.print(attached.screen),
                None if terminal => break,
                None => reading = false,
            },
            _ = tick.tick() => {
                let idle = attached.is_idle().await?;
                attached.show_new()?;
                attached.show_questions().await?;
                if !reading && idle {
                    break;
                }
            }
        }
        if attached.screen.is_gone() {
            break;
        }
    }
    Ok(ExitCode::Done)
}

/// The lines of standard input, read by a thread that the process does not wait for.
fn typed_lines() -> mpsc::UnboundedReceiver<Result<String, CliError>> {
    let (sender, lines) = mpsc::unbounded_channel();
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().split(b'\n') {
            let Ok(line) = line else { return };
            if sender.send(inputs::utf8(line)).is_err() {
                return;
            }
        }
    });
    lines
}

fn parse(line: &str) -> Typed {
    let line = line.trim();
    let (word, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    match word {
        "" => Typed::Nothing,
        "/stop" if rest.is_empty() => Typed::Stop,
        "/quit" | "/exit" if rest.is_empty() => Typed::Leave,
        "/allow" if rest.is_empty() => Typed::Answer(Said { allowed: true, reason: None }),
        "/deny" => {
            let reason = Some(rest.trim().to_owned()).filter(|reason| !reason.is_empty());
            Typed::Answer(Said { allowed: false, reason })
        }
        "/queue" if !rest.trim().is_empty() => Typed::Queue(rest.trim().to_owned()),
        "/steer" if !rest.trim().is_empty() => Typed::Steer(rest.trim().to_owned()),
        command if command.starts_with('/') && !command[1..].contains('/') => {
            Typed::Unknown(command.to_owned())
        }
        _ => Typed::Steer(line.to_owned()),
    }
}

struct Attached<'a> {
    stores: Stores,
    id: SessionId,
    follower: Follower<RealDisk>,
    sent: Vec<String>,
    /// How often in a row nobody had the session.
    looks: u32,
    /// Whether a question came in that was not shown.
    asked: bool,
    /// Looks until the subagents' logs are looked at again for questions.
    until_subagents: u32,
    /// The subagents' questions that wait and were shown.
    shown: Vec<Question>,
    screen: &'a mut Screen,
}

impl Attached<'_> {
    /// The last of what there is, and who has the session.
    fn begin(&mut self) -> Result<(), CliError> {
        let records = self.follower.look()?;
        self.asked = records.iter().any(is_question);
        let columns = self.screen.look().columns;
        let told: Vec<_> =
            records.iter().map(|r| record_lines(r, columns)).filter(|l| !l.is_empty()).collect();
        for lines in told.into_iter().rev().take(SHOWN).rev() {
            self.screen.lines(lines);
        }
        let said = match self.stores.files.holder(&self.id)? {
            Some(owner) => format!("process {} on {} has the session", owner.pid, owner.host),
            None => "nobody has the session; what you say starts a process".to_owned(),
        };
        self.dim(&format!(
            "— {}: {said}. Enter says it at the next step; /queue TEXT after the turn; /stop stops; \
             Ctrl-C leaves, and stops nothing.",
            self.id
        ));
        Ok(())
    }

    /// Nobody has the session, and what was sent from here was taken, or nobody came for it.
    async fn is_idle(&mut self) -> Result<bool, CliError> {
        if self.stores.files.holder(&self.id)?.is_some() {
            self.looks = 0;
            return Ok(false);
        }
        self.looks += 1;
        let pending = self.stores.files.pending(&self.id).await?.pending;
        let waits = pending.iter().any(|pending| self.sent.contains(&pending.input.id));
        Ok(!waits || self.looks > UNATTENDED_LOOKS)
    }

    fn show_new(&mut self) -> Result<(), CliError> {
        for record in self.follower.look()? {
            let lines = record_lines(&record, self.screen.look().columns);
            self.screen.lines(lines);
            self.asked |= is_question(&record);
            if let Some(said) = ended(&record) {
                self.dim(said);
            }
        }
        self.screen.flush();
        Ok(())
    }

    /// Carries out a typed line; what goes wrong is told, and nothing else happens.
    async fn act(&mut self, typed: Typed) {
        let done = match typed {
            Typed::Steer(text) => self.send(InputBody::Steer(Words::text(text))).await,
            Typed::Queue(text) => self.send(InputBody::Queue(Words::text(text))).await,
            Typed::Stop => self.stop().await,
            Typed::Answer(said) => self.answer(&said).await,
            Typed::Leave | Typed::Nothing => Ok(()),
            Typed::Unknown(command) => {
                Err(CliError::usage(format!("There is no `{}` here.", clean::line(&command))).next(
                    "/allow, /deny [REASON], /queue TEXT, /stop and /quit; anything else is said.",
                ))
            }
        };
        if let Err(error) = done {
            error.print(self.screen);
        }
        self.screen.flush();
    }

    async fn send(&mut self, body: InputBody) -> Result<(), CliError> {
        let queued = matches!(body, InputBody::Queue(_));
        let input = NewInput::new(inputs::new_id(), body);
        inputs::admit(&self.stores, &self.id, &input).await?;
        self.sent.push(input.id.clone());
        if self.stores.files.holder(&self.id)?.is_none() {
            inputs::start_worker(&self.stores.home, &self.id, &[input.id]).await?;
            self.dim("(sent; a process was started for it)");
        } else if queued {
            self.dim("(queued; it begins when the turn ends)");
        } else {
            self.dim("(sent; it is told at the next step)");
        }
        Ok(())
    }

    /// Answers the question that waits; of several the first, which is the one that the run waits for.
    async fn answer(&mut self, said: &Said) -> Result<(), CliError> {
        let open = questions::open(&self.stores, &self.id).await?;
        // Nothing is answered that was not on the screen.
        let question = match open.first().or(self.shown.first()) {
            Some(question) => question,
            None => questions::one(&open, None, &self.id)?,
        };
        let answered = questions::answer(&self.stores, &self.id, question, said).await?;
        let what = if said.allowed { "allowed" } else { "not allowed" };
        self.dim(&match answered {
            Answered::Taken => format!("({what})"),
            Answered::Kept | Answered::Waits(_) => {
                format!("({what}; kept until the work goes on: segno resume {})", self.id)
            }
        });
        Ok(())
    }

    /// Shows the questions that nobody has answered, once each.
    async fn show_questions(&mut self) -> Result<(), CliError> {
        if std::mem::take(&mut self.asked) {
            let open = questions::open(&self.stores, &self.id).await?;
            open.iter().for_each(|question| self.show_question(question));
        }
        if self.until_subagents == 0 {
            self.until_subagents = SUBAGENT_LOOKS;
            let open = questions::of_subagents(&self.stores, &self.id).await?;
            let before = std::mem::replace(&mut self.shown, open.clone());
            let is_new = |question: &&Question| !before.iter().any(|shown| shown.is(question));
            open.iter().filter(is_new).for_each(|question| self.show_question(question));
        }
        self.until_subagents -= 1;
        self.screen.flush();
        Ok(())
    }

    fn show_question(&mut self, question: &Question) {
        self.screen.lines(super::answer::lines(question));
        self.dim("It waits for approval: /allow, or /deny [REASON].");
    }

    async fn stop(&mut self) -> Result<(), CliError> {
        let stopped = stopping::stop(&self.stores, &self.id).await?;
        self.show_new()?;
        match stopped {
            None => self.dim("(nothing runs)"),
            Some(Stopped { unwritten: None, .. }) => self.dim("(stopped)"),
            Some(Stopped { run, unwritten: Some(unwritten) }) => {
                self.screen.lines(stopping::lines(&self.id, run, &unwritten));
            }
        }
        Ok(())
    }

    fn dim(&mut self, said: &str) {
        self.screen.line(Text::line(Tone::Dim, said));
    }
}

fn is_question(record: &Record) -> bool {
    matches!(record.body(), Body::Approval(a) if matches!(a.state, ApprovalState::Asked { .. }))
}

/// What a run's end is, where the transcript says nothing about it.
fn ended(record: &Record) -> Option<&'static str> {
    match record.body() {
        Body::Run(run) => match &run.state {
            RunState::Ended { end: RunEnd::Completed, .. } => Some("— done"),
            _ => None,
        },
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_said_unless_they_are_commands() {
        let steer = |text: &str| Typed::Steer(text.to_owned());
        for (line, expected) in [
            ("", Typed::Nothing),
            ("  and b ", steer("and b")),
            ("/queue then c", Typed::Queue("then c".to_owned())),
            ("/queue", Typed::Unknown("/queue".to_owned())),
            ("/stop", Typed::Stop),
            ("/stop it", Typed::Unknown("/stop".to_owned())),
            ("/usr/bin/env is missing", steer("/usr/bin/env is missing")),
            ("/quit", Typed::Leave),
            ("/allow", Typed::Answer(Said { allowed: true, reason: None })),
            ("/allow it", Typed::Unknown("/allow".to_owned())),
            ("/deny", Typed::Answer(Said { allowed: false, reason: None })),
            (
                "/deny not on a Friday",
                Typed::Answer(Said { allowed: false, reason: Some("not on a Friday".to_owned()) }),
            ),
        ] {
            assert_eq!(parse(line), expected, "{line}");
        }
    }
}
