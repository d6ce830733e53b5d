//! The interactive session.
//!
//! Responsible for: the loop from a line to what it does, the turn of a prompt, and how it begins and ends.
//! Must not: know records or wires; commands are in `actions`, taking up a session in `opening`.
//!
//! While the model works the terminal collects lines as usual, but echoes nothing: Ctrl-C is a signal, lines
//! that are ended go to the turn (`meanwhile`), and what is not ended waits for the next line. Nothing that was typed ahead answers a question (`keyboard`).

mod actions;
mod asker;
mod choosing;
mod damage;
mod inbox;
mod keyboard;
mod left_open;
mod meanwhile;
mod opening;
mod recent;
mod servers;
mod shell;
mod slash;

pub use asker::TerminalAsker;
pub use choosing::choose;
pub use keyboard::{Keyboard, Pressed};
pub use opening::{Arrival, Desk, key_line};
pub use recent::prompt_lines;

use crate::args::AgentArgs;
use crate::engine::{Engine, ModelChoice, Signals, TextWatch, end_sentence, resume_command};
use crate::error::{CliError, ExitCode};
use crate::stores::Log;
use crate::terminal::entry::Line;
use crate::terminal::prompt::{Prompt, Setup, editor_command};
use crate::terminal::quiet::Quiet;
use crate::terminal::table::plural;
use crate::terminal::{Screen, Text, Tone};
use segno_agent::Agent;
use segno_agent::permission::Mode;
use segno_agent::provider::Provider;
use segno_agent::tool::Toolbox;
use segno_model::record::{Block, RunEnd, UserMessage};
use segno_model::store::Clock as _;
use segno_runtime::{ModelError, ModelErrorKind, Session, StopKind, Tools as _};
use segno_store::SystemClock;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use inbox::Typing;

/// A turn that took longer rings the bell when it ends.
const LONG_TURN_MS: i64 = 10_000;

/// How often it is looked whether others sent something.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// What stands before the line.
const LABEL: &str = ">";

/// Files that Tab offers at most.
const FILES_OFFERED: usize = 200;

/// What a turn does.
enum Work {
    /// It answers what the person said.
    Prompt(UserMessage),
    /// It goes on where an interruption cut it off.
    TakeUp,
}

/// Whether to go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum After {
    Stay,
    Leave,
}

/// A session that a person works in.
pub struct Interactive<'a> {
    engine: Engine,
    /// As the command line said.
    args: AgentArgs,
    keyboard: Keyboard,
    signals: Signals,
    screen: &'a mut Screen,
    mode: Mode,
    agent: Agent<Log, Toolbox>,
    choice: ModelChoice,
    model: Provider,
    /// Where the providers of this process's earlier models are, by their names: whoever comes back to one
    /// means the same place.
    addresses: BTreeMap<String, String>,
    /// Absent while a thread reads with it.
    prompt: Option<Prompt>,
    /// Where Tab looks for files.
    completes_in: Arc<Mutex<PathBuf>>,
    /// What the person ran since the last prompt.
    ran: Vec<shell::Ran>,
    /// What the next line begins with.
    draft: String,
    /// The prompt that was not sent because a file of it is not there.
    refused: Option<String>,
    /// Breaks the reading of a line off.
    wake: Arc<AtomicBool>,
    /// What the inbox was when it was attended last.
    mark: u64,
    /// Inputs that wait since a turn did not end well, and that the person knows of.
    looked_at: Vec<String>,
    last_end: Option<RunEnd>,
}

impl<'a> Interactive<'a> {
    /// Sits down at a session.
    ///
    /// # Errors
    /// When the configuration is unusable.
    pub async fn new(
        mut engine: Engine,
        keyboard: Keyboard,
        signals: Signals,
        screen: &'a mut Screen,
        args: &AgentArgs,
        arrival: Arrival,
    ) -> Result<Self, CliError> {
        let mode = engine.mode(args)?;
        engine.move_to(arrival.cwd.clone()).await;
        servers::start(&mut engine, &keyboard, screen).await?;
        engine.tell_of_files(screen);
        let completes_in = Arc::new(Mutex::new(arrival.cwd.clone()));
        let wake = Arc::new(AtomicBool::new(false));
        let prompt = open_prompt(&engine, Arc::clone(&wake), Arc::clone(&completes_in), screen);
        let agent = seat(&engine, &keyboard, &signals, arrival.session, mode);
        Ok(Self {
            engine,
            args: args.clone(),
            keyboard,
            signals,
            screen,
            mode,
            agent,
            addresses: BTreeMap::new(),
            choice: arrival.choice,
            model: arrival.model,
            prompt: Some(prompt),
            completes_in,
            ran: Vec::new(),
            draft: String::new(),
            refused: None,
            wake,
            mark: 0,
            looked_at: Vec::new(),
            last_end: None,
        })
    }

    /// Works until the person leaves or the process is told to end.
    ///
    /// # Errors
    /// When the terminal fails.
    pub async fn run(mut self, first: Option<&str>) -> Result<ExitCode, CliError> {
        self.greet();
        self.offer_stale().await;
        let mut next = first.map(|text| Line::Text(text.to_owned()));
        if let Some(text) = first {
            self.screen.lines(recent::prompt_lines(text));
        } else if self.left_open().await == After::Leave {
            return Ok(self.farewell());
        }
        while !self.signals.is_leaving() {
            let line = match next.take() {
                Some(line) => line,
                None => match self.attend().await {
                    Err(_) => break,
                    Ok(Some(input)) => {
                        self.work(Work::Prompt(input)).await;
                        continue;
                    }
                    Ok(None) => self.read().await?,
                },
            };
            let after = match line {
                Line::Eof | Line::Interrupt => After::Leave,
                Line::Woken => After::Stay,
                Line::Text(text) => self.turn(&text).await,
                Line::Shell(command) => self.shell(&command).await,
                Line::Command { name, args } => self.command(&name, &args).await,
            };
            if after == After::Leave {
                break;
            }
        }
        self.end_subagents().await;
        Ok(self.farewell())
    }

    fn greet(&mut self) {
        let cwd = self.engine.cwd.display().to_string();
        let facts = format!("{} · {} · {cwd}", self.choice.model, self.mode.name());
        self.screen.line(
            Text::line(Tone::Strong, "segno")
                .with(Tone::Dim, "  ")
                .with_text(Text::line(Tone::Dim, &facts))
                .cut(self.screen.look().columns),
        );
        self.screen.line(Text::line(Tone::Dim, "/help lists commands; Ctrl-D leaves."));
        self.screen.flush();
    }

    /// One entry, read by a thread of its own.
    async fn read(&mut self) -> Result<Line, CliError> {
        let resume = self.resume_command();
        let gone = |why: String| {
            let error = CliError::failed("The line editor is gone.").because(why);
            error.next(format!("Everything that was sent is on disk. Start again: {resume}"))
        };
        let taken = || gone("it is being used already".to_owned());
        let mut prompt = self.prompt.take().ok_or_else(taken)?;
        let draft = std::mem::take(&mut self.draft) + &self.keyboard.take_typed_ahead();
        let keyboard = self.keyboard.clone();
        self.screen.flush();
        let mut reading = tokio::task::spawn_blocking(move || {
            let _terminal = keyboard.lend();
            if !draft.is_empty() {
                prompt.prefill(&draft);
            }
            let line = prompt.read(LABEL, &mut Screen::stdout());
            (prompt, line)
        });
        let read = loop {
            tokio::select! {
                read = &mut reading => break read,
                () = tokio::time::sleep(LOOK_EVERY) => {}
            }
            if self.signals.is_leaving() || self.inbox_mark().await != self.mark {
                self.wake.store(true, Ordering::SeqCst);
            }
        };
        self.wake.store(false, Ordering::SeqCst);
        let (prompt, line) = read.map_err(|e| gone(e.to_string()))?;
        self.prompt = Some(prompt);
        self.screen.measure();
        // A terminal that fails is one that was closed.
        Ok(line.unwrap_or(Line::Eof))
    }

    /// A prompt, to the end of its run.
    async fn turn(&mut self, text: &str) -> After {
        let missing = self.engine.places().named(text).missing;
        if !missing.is_empty() && self.refused.take().as_deref() != Some(text) {
            return self.without_files(text, &missing);
        }
        let mut content = vec![Block::text(text)];
        content.extend(self.engine.places().attached(text));
        content.extend(self.ran.drain(..).map(|ran| ran.block()));
        self.work(Work::Prompt(UserMessage { content, ..UserMessage::default() })).await
    }

    /// A turn, to the end of its run. What is typed meanwhile is sent to it.
    async fn work(&mut self, work: Work) -> After {
        let began = SystemClock.now();
        let stop = self.signals.begin_turn();
        let cwd = self.engine.cwd.clone();
        self.engine.move_to(cwd).await;
        let around = self.engine.surroundings_of(&self.agent.session);
        self.agent.set_surroundings(around);
        let quiet = Quiet::begin();
        let mut watch = TextWatch::new(self.screen);
        let (name, id) = (&self.choice.model, self.agent.session.id().clone());
        let run = async {
            match work {
                Work::Prompt(input) => {
                    self.agent.prompt(&self.model, name, input, &stop, &mut watch).await.map(Some)
                }
                Work::TakeUp => self.agent.take_up(&self.model, name, &stop, &mut watch).await,
            }
        };
        let typing = Typing { keyboard: &self.keyboard, signals: &self.signals };
        let (ended, later) = typing.beside(run, &self.engine.stores, &id).await;
        watch.settle();
        self.draft.push_str(&later.join("\n"));
        self.signals.end_turn();
        // A question that a stop ended puts the terminal back first.
        drop(self.keyboard.lend());
        drop(quiet);
        match ended {
            Ok(None) => {}
            Ok(Some(finished)) => {
                self.last_end = Some(finished.end);
                match (end_sentence(&finished), finished.error) {
                    (_, Some(error)) => failed_turn(error).print(self.screen),
                    (Some(said), None) => self.screen.line(said),
                    (None, None) => {}
                }
            }
            Err(error) => CliError::from(error).print(self.screen),
        }
        let beside = self.agent.tools.subagents_beside();
        if beside > 0 {
            self.note(&format!("In the background: {}.", plural(beside, "subagent")));
        }
        if SystemClock.now().0 - began.0 > LONG_TURN_MS {
            self.screen.bell();
        }
        if self.last_end == Some(RunEnd::Completed) {
            self.looked_at.clear();
        } else {
            self.hold_back().await;
        }
        self.screen.flush();
        After::Stay
    }

    /// Puts a prompt back on the line whose files are not there; entered as it is, it is sent.
    fn without_files(&mut self, text: &str, missing: &[String]) -> After {
        let said = format!("There is no file {}. Nothing was sent.", missing.join(", "));
        self.screen.line(Text::line(Tone::Warning, &said));
        let how = "Correct it, or press Enter to send it as it stands.";
        self.screen.line(Text::line(Tone::Dim, how));
        self.screen.flush();
        text.clone_into(&mut self.draft);
        self.refused = Some(text.to_owned());
        After::Stay
    }

    async fn shell(&mut self, command: &str) -> After {
        if command.is_empty() {
            self.screen.line(Text::line(Tone::Dim, "!COMMAND runs a command of yours."));
            return After::Stay;
        }
        let stop = self.signals.begin_turn();
        let ran = shell::run(command, &self.engine.cwd, &stop, self.screen).await;
        self.signals.end_turn();
        match ran {
            Ok(ran) => {
                if let Some(status) = ran.trouble() {
                    self.screen.line(Text::line(Tone::Warning, status));
                }
                self.ran.push(ran);
                let said = "(goes to the model with your next prompt)";
                self.screen.line(Text::line(Tone::Dim, said));
            }
            Err(error) => {
                CliError::failed("The command could not be run.")
                    .because(error)
                    .next("Check that `bash` can be started here, or run it in another terminal.")
                    .print(self.screen);
            }
        }
        After::Stay
    }

    /// The last lines: how to come back, if there is something to come back to.
    /// Subagents in the background end with the session's process; the next one tells of them.
    async fn end_subagents(&mut self) {
        let beside = self.agent.tools.subagents_beside();
        if beside > 0 {
            let which = plural(beside, "subagent");
            self.note(&format!(
                "In the background: {which}; interrupted now, and told when this session goes on."
            ));
            self.agent.tools.halt(StopKind::Shutdown).await;
        }
    }

    fn farewell(self) -> ExitCode {
        if self.agent.session.is_durable() {
            let command = self.resume_command();
            self.screen
                .line(Text::default().with(Tone::Dim, "To go on: ").with(Tone::Accent, &command));
        }
        match self.last_end {
            Some(RunEnd::Suspended) => ExitCode::Suspended,
            _ if self.signals.is_hung_up() => ExitCode::Suspended,
            _ => ExitCode::Done,
        }
    }

    fn resume_command(&self) -> String {
        resume_command(&self.engine.stores.home, self.agent.session.id(), &self.choice)
    }

    /// Goes over to another session. The one before is let go of only now, when the other one is held.
    async fn switch(&mut self, arrival: Arrival) -> Result<(), CliError> {
        self.engine.read_config()?;
        self.engine.move_to(arrival.cwd).await;
        servers::start(&mut self.engine, &self.keyboard, self.screen).await?;
        self.engine.tell_of_files(self.screen);
        self.completes_in
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone_from(&self.engine.cwd);
        self.end_subagents().await;
        self.agent = seat(&self.engine, &self.keyboard, &self.signals, arrival.session, self.mode);
        self.choice = arrival.choice;
        self.model = arrival.model;
        self.last_end = None;
        self.looked_at.clear();
        self.greet();
        self.offer_stale().await;
        self.left_open().await;
        Ok(())
    }
}

/// A model's failure, with the next step of a conversation.
fn failed_turn(error: ModelError) -> CliError {
    let refused = matches!(error.kind, ModelErrorKind::Refused | ModelErrorKind::Thinking);
    let error = CliError::from(error);
    if refused {
        error.next(
            "`/context omit SEQ` leaves a record out and `/compact` makes a summary of all; another model may \
             take it as it is: /model PROVIDER/ID.",
        )
    } else {
        error
    }
}

fn seat(
    engine: &Engine,
    keyboard: &Keyboard,
    signals: &Signals,
    session: Session<Log>,
    mode: Mode,
) -> Agent<Log, Toolbox> {
    let config = engine.stores.home.config.clone();
    let asker = TerminalAsker::new(keyboard.clone(), signals.clone(), config);
    let agent = engine.agent(session, mode, Some(Arc::new(asker)));
    agent.tools.stay();
    agent
}

fn open_prompt(
    engine: &Engine,
    wake: Arc<AtomicBool>,
    completes_in: Arc<Mutex<PathBuf>>,
    screen: &mut Screen,
) -> Prompt {
    let home = engine.stores.home.user.clone();
    let setup = Setup {
        history: Some(engine.stores.home.history()),
        commands: slash::hints(),
        files: Box::new(move |typed| {
            let cwd = completes_in.lock().unwrap_or_else(PoisonError::into_inner).clone();
            files(&cwd, home.as_deref(), typed)
        }),
        editor: editor_command(&|name| std::env::var(name).ok()),
        stop: wake,
        dumb: std::env::var("TERM").is_ok_and(|term| term == "dumb"),
    };
    let (prompt, trouble) = Prompt::open(setup, screen.look().colour);
    if let Some(error) = trouble {
        let said = format!("The history of prompts cannot be used: {error}");
        screen.line(Text::line(Tone::Warning, &said));
    }
    prompt
}

/// Paths under `cwd` that begin with what was typed; what git ignores is left out.
fn files(cwd: &Path, home: Option<&Path>, typed: &str) -> Vec<String> {
    let (parent, _) = typed.rsplit_once('/').map_or(("", typed), |(dir, name)| (dir, name));
    let at_home = parent.strip_prefix('~').filter(|rest| rest.is_empty() || rest.starts_with('/'));
    let base = match (at_home, home) {
        (Some(rest), Some(home)) => home.join(rest.trim_start_matches('/')),
        _ if typed.starts_with('/') => Path::new("/").join(parent),
        _ => cwd.join(parent),
    };
    let mut found: Vec<String> = ignore::WalkBuilder::new(&base)
        .max_depth(Some(1))
        .build()
        .filter_map(Result::ok)
        .filter(|entry| entry.depth() == 1)
        .filter_map(|entry| {
            let name = entry.file_name().to_str()?.to_owned();
            let slash = if entry.path().is_dir() { "/" } else { "" };
            let before = if typed.contains('/') { format!("{parent}/") } else { String::new() };
            Some(format!("{before}{name}{slash}"))
        })
        .filter(|path| path.starts_with(typed))
        .collect();
    found.sort();
    found.truncate(FILES_OFFERED);
    found
}
