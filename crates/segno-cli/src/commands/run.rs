//! `segno run PROMPT`: one task, from start to end.
//!
//! Responsible for: the prompt (words and standard input), the session (new, `--continue`, `--session`),
//! and an exit code that says how it ended. Must not: ask anybody anything.

use crate::args::{AgentArgs, RunArgs, WhenInterrupted};
use crate::engine::{
    Engine, JsonWatch, ModelChoice, Signals, TextWatch, Wanted, aside, end_sentence, exit_of,
    no_signals, resume_command,
};
use crate::error::{CliError, ExitCode};
use crate::home::Home;
use crate::inputs;
use crate::stores::Log;
use crate::terminal::{Screen, Text, Tone};
use segno_agent::Agent;
use segno_agent::provider::Provider;
use segno_agent::tool::Toolbox;
use segno_model::SessionId;
use segno_model::record::{Block, Body, PolicyChange, UserMessage};
use segno_model::store::SessionStore as _;
use segno_runtime::{Finished, Observer, Session, StopKind, Tools as _};
use segno_store::{SystemClock, this_process};
use std::io::IsTerminal as _;

/// Runs the task.
///
/// # Errors
/// When there is no prompt, no session of that name, no model, or the log cannot be written. A run that
/// ended otherwise than well is no error but an exit code.
pub async fn run(args: &RunArgs, home: Home, screen: &mut Screen) -> Result<ExitCode, CliError> {
    let prompt = Prompt::read(&args.prompt)?;
    let mut engine = Engine::load(home).await?;
    let session = session(&mut engine, args).await?;
    engine.start_approved_servers().await;
    engine.tell_of_files_aside();
    one_shot(&engine, session, &prompt, &args.agent, args.json, screen).await
}

/// Runs one prompt in a session.
///
/// # Errors
/// When there is no model or the log cannot be written.
pub async fn one_shot(
    engine: &Engine,
    mut session: Session<Log>,
    prompt: &Prompt,
    args: &AgentArgs,
    json: bool,
    screen: &mut Screen,
) -> Result<ExitCode, CliError> {
    let content = prompt.content(engine)?;
    if let Some(policy) = args.policy {
        session.set_policy(policy.policy()).await?;
    }
    let stored = (session.state().next_seq > 0).then(|| session.state().in_force.clone());
    let wanted = Wanted::decide(args, stored.as_ref(), &engine.config)?;
    let choice = wanted.settle(&engine.credentials).await?;
    let model = choice.connect(&engine.credentials)?;
    session.set_model(choice.change()).await?;
    if let Some(level) = args
        .thinking
        .map(|t| t.as_str().to_owned())
        .or_else(|| stored.is_none().then(|| engine.config.thinking.clone()).flatten())
    {
        session.set_thinking(&level).await?;
    }
    let before =
        stored.as_ref().and_then(|state| state.model.as_ref().zip(state.thinking.as_deref()));
    let is_news = before != Some(&choice.model).zip(session.thinking());
    let note = session.thinking().and_then(|level| model.thinking_note(&choice.model.id, level));
    if let (true, Some(note)) = (is_news, note) {
        let mut aside = Screen::stderr();
        aside.line(Text::line(Tone::Warning, &note));
        aside.flush();
    }
    let mode = engine.mode(args)?;
    let mut agent = engine.agent(session, mode, None);
    let input = UserMessage { content, ..UserMessage::default() };
    let signals = Signals::listen().map_err(|e| no_signals(&e))?;
    let one = OneRun { engine, model: &model, choice: &choice, signals: &signals };
    if !json && agent.session.standing().is_open() {
        let said = "The last run was interrupted; what it left open is settled first.";
        let mut aside = Screen::stderr();
        aside.line(Text::line(Tone::Warning, said));
        aside.flush();
    }
    let exit = one.show(&mut agent, Work::Prompt(input), json, screen).await?;
    let_go(engine, agent, exit).await
}

/// Lets go of the session. What others sent meanwhile, and that this run did not take along, is worked off
/// by a process of its own: they were told that somebody has the session.
///
/// The run is over and recorded: what goes wrong here is told, and changes nothing about how it ended.
pub async fn hand_over(engine: &Engine, mut agent: Agent<Log, Toolbox>) -> HandedOver {
    let id = agent.session.id().clone();
    let held_back: Vec<String> = match agent.session.attend(&this_process(&SystemClock)).await {
        Ok(attended) => attended.held_back().map(|w| w.id().to_owned()).collect(),
        Err(error) => {
            return HandedOver { waiting: 0, trouble: Some(not_handed_over(&id, error.into())) };
        }
    };
    drop(agent);
    let waiting = held_back.len();
    let trouble = match start_rest(engine, &id, &held_back).await {
        Ok(()) => None,
        Err(error) => Some(not_handed_over(&id, error)),
    };
    HandedOver { waiting, trouble }
}

async fn start_rest(engine: &Engine, id: &SessionId, held_back: &[String]) -> Result<(), CliError> {
    let inbox = engine.stores.files.pending(id).await?;
    let sent = inputs::words(&inbox.pending).map(|pending| pending.input.id.clone());
    let sent: Vec<String> = sent.filter(|input_id| !held_back.contains(input_id)).collect();
    if sent.is_empty() {
        return Ok(());
    }
    inputs::start_worker(&engine.stores.home, id, &sent).await
}

/// What is left to others after a run.
#[derive(Debug)]
pub struct HandedOver {
    /// How many inputs wait for a person.
    pub waiting: usize,
    /// What kept the others from being worked off.
    pub trouble: Option<CliError>,
}

fn not_handed_over(id: &SessionId, error: CliError) -> CliError {
    let cause = error.cause.map_or_else(String::new, |cause| format!(" {cause}"));
    CliError::failed("What was sent during this run was not begun.")
        .because(format!("{}{cause}", error.sentence))
        .next(format!(
            "It is kept: `segno inbox {id}` shows it, `segno inbox {id} --deliver` begins it."
        ))
}

/// Lets go of the session after a run, and says what waits in it: behind a run that did not end well,
/// nothing starts by itself.
async fn let_go(
    engine: &Engine,
    agent: Agent<Log, Toolbox>,
    exit: ExitCode,
) -> Result<ExitCode, CliError> {
    let id = agent.session.id().clone();
    let waiting = if exit == ExitCode::Done {
        let HandedOver { waiting, trouble } = hand_over(engine, agent).await;
        if let Some(trouble) = trouble {
            aside::tell_trouble(&trouble);
        }
        waiting
    } else {
        let durable = agent.session.is_durable();
        drop(agent);
        if !durable {
            return Ok(exit);
        }
        match engine.stores.files.pending(&id).await {
            Ok(inbox) => inputs::words(&inbox.pending).count(),
            Err(error) => {
                aside::tell_trouble(&error.into());
                0
            }
        }
    };
    aside::tell_waiting(&id, waiting);
    Ok(exit)
}

/// Goes on with a session's interrupted work, to its end.
///
/// # Errors
/// As [`one_shot`].
pub async fn take_up(
    engine: &Engine,
    mut session: Session<Log>,
    args: &AgentArgs,
    screen: &mut Screen,
) -> Result<ExitCode, CliError> {
    let stored = session.state().in_force.clone();
    let wanted = Wanted::decide(args, Some(&stored), &engine.config)?;
    let choice = wanted.settle(&engine.credentials).await?;
    let model = choice.connect(&engine.credentials)?;
    // Behind the attempt, which is counted before anything else.
    let change = choice.change();
    if stored.model.as_ref() != Some(&change.model) || stored.base_url != change.base_url {
        session.queue(Body::Model(change));
    }
    if let Some(policy) = args.policy.map(WhenInterrupted::policy)
        && stored.policy != Some(policy)
    {
        session.queue(Body::Policy(PolicyChange { policy }));
    }
    let mut agent = engine.agent(session, engine.mode(args)?, None);
    let signals = Signals::listen().map_err(|e| no_signals(&e))?;
    let one = OneRun { engine, model: &model, choice: &choice, signals: &signals };
    let exit = one.show(&mut agent, Work::TakeUp, false, screen).await?;
    let_go(engine, agent, exit).await
}

/// What is to be done in a session.
enum Work {
    Prompt(UserMessage),
    TakeUp,
}

struct OneRun<'a> {
    engine: &'a Engine,
    model: &'a Provider,
    choice: &'a ModelChoice,
    signals: &'a Signals,
}

impl OneRun<'_> {
    async fn show(
        &self,
        agent: &mut Agent<Log, Toolbox>,
        work: Work,
        json: bool,
        screen: &mut Screen,
    ) -> Result<ExitCode, CliError> {
        let told = aside::tell_noticed(&agent.session, 0);
        let shown = if json {
            self.as_json(agent, work, screen).await
        } else {
            self.as_text(agent, work, screen).await
        };
        aside::tell_noticed(&agent.session, told);
        shown
    }

    async fn drive(
        &self,
        agent: &mut Agent<Log, Toolbox>,
        work: Work,
        observer: &mut dyn Observer,
    ) -> Result<Finished, CliError> {
        let stop = self.signals.begin_turn();
        let name = &self.choice.model;
        let ended = match work {
            Work::Prompt(input) => {
                agent.prompt(self.model, name, input, &stop, observer).await.map(Some)
            }
            Work::TakeUp => agent.take_up(self.model, name, &stop, observer).await,
        };
        self.signals.end_turn();
        // A run that did not end well waits for nobody.
        agent.tools.halt(StopKind::Shutdown).await;
        let nothing = || {
            CliError::failed("Nothing was interrupted in this session.")
                .next("Say something new: segno run --session SESSION PROMPT")
        };
        let ended = ended.map_err(CliError::from).and_then(|ended| ended.ok_or_else(nothing));
        ended.map_err(|error: CliError| {
            if !agent.session.is_durable() {
                return error;
            }
            let (step, resume) = (error.next_step.clone(), self.resume(&agent.session));
            error.next(format!("{step}\nTo go on: {resume}"))
        })
    }

    async fn as_json(
        &self,
        agent: &mut Agent<Log, Toolbox>,
        work: Work,
        screen: &mut Screen,
    ) -> Result<ExitCode, CliError> {
        let id = agent.session.id().to_string();
        let mut watch = JsonWatch::new(screen, &id, &self.choice.model.to_string());
        let finished = self.drive(agent, work, &mut watch).await?;
        let exit = exit_of(finished.end);
        let resume = agent.session.is_durable().then(|| self.resume(&agent.session));
        let cost = watch.cost(&self.engine.stores, &self.engine.prices());
        watch.end(&finished, exit, resume.as_deref(), &cost);
        Ok(exit)
    }

    /// On a terminal everything is shown as it comes; in a pipe only the last reply, and the rest goes to
    /// standard error.
    async fn as_text(
        &self,
        agent: &mut Agent<Log, Toolbox>,
        work: Work,
        screen: &mut Screen,
    ) -> Result<ExitCode, CliError> {
        let mut aside = Screen::stderr();
        let finished = {
            let mut watch = match screen.look().terminal {
                true => TextWatch::new(screen),
                false => TextWatch::beside(&mut aside),
            };
            let finished = self.drive(agent, work, &mut watch).await;
            watch.end(finished.as_ref().map_or("", |finished| finished.text.as_str()));
            finished?
        };
        if !screen.look().terminal {
            screen.exact(finished.text.as_bytes());
            screen.exact(b"\n");
            screen.flush();
        }
        if let Some(said) = end_sentence(&finished) {
            aside.line(said);
        }
        if agent.session.is_durable() {
            let command = self.resume(&agent.session);
            aside.line(Text::default().with(Tone::Dim, "To go on: ").with(Tone::Accent, &command));
        }
        aside.flush();
        Ok(exit_of(finished.end))
    }

    fn resume(&self, session: &Session<Log>) -> String {
        resume_command(&self.engine.stores.home, session.id(), self.choice)
    }
}

/// The session, and the engine in the directory that it works in.
async fn session(engine: &mut Engine, args: &RunArgs) -> Result<Session<Log>, CliError> {
    let query = match (&args.session, args.continue_newest) {
        (Some(query), _) => query.as_str(),
        (None, true) => "last",
        (None, false) => return Ok(engine.new_session()),
    };
    let id = engine.stores.find(query, &engine.cwd).await?;
    engine.review(&id, false, args.agent.base_url.as_deref()).await?;
    let session = engine.open_sound(&id).await?;
    engine.enter(&session).await?;
    Ok(session)
}

/// What a run is asked.
pub struct Prompt {
    /// What was typed; `@names` in it are files.
    pub words: String,
    /// What came in on standard input; text and nothing else.
    pub piped: String,
}

impl Prompt {
    /// The words, and behind them what comes in on standard input.
    fn read(words: &[String]) -> Result<Self, CliError> {
        let mut piped = String::new();
        if !std::io::stdin().is_terminal() {
            piped = inputs::piped()?.trim_end().to_owned();
        }
        let prompt = Self { words: words.join(" "), piped };
        if prompt.text().trim().is_empty() {
            return Err(CliError::usage("There is no prompt.")
                .next("segno run \"fix the failing test\", or pipe the task in."));
        }
        Ok(prompt)
    }

    fn text(&self) -> String {
        let both = !self.words.is_empty() && !self.piped.trim().is_empty();
        let piped = if self.piped.trim().is_empty() { "" } else { &self.piped };
        format!("{}{}{piped}", self.words, if both { "\n\n" } else { "" })
    }

    /// The text and the files that its words name.
    fn content(&self, engine: &Engine) -> Result<Vec<Block>, CliError> {
        let places = engine.places();
        if let Some(missing) = places.named(&self.words).missing.first() {
            return Err(missing_file(missing));
        }
        let mut content = vec![Block::text(self.text())];
        content.extend(places.attached(&self.words));
        Ok(content)
    }
}

/// A file that a prompt names is not there; nothing was sent.
#[must_use]
pub fn missing_file(name: &str) -> CliError {
    CliError::new(ExitCode::NotFound, format!("There is no file {name}."))
        .because("the prompt names it with @; nothing was sent to the model")
        .next("Correct the path; or write \\@ where no file is meant.")
}
