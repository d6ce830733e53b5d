//! `segno` and `segno PROMPT`: an interactive session.
//!
//! Responsible for: beginning one, the words of the first time, and what a pipe gets instead. Must not:
//! carry on the conversation (that is `interactive`).

use crate::args::{AgentArgs, quoted};
use crate::engine::{Engine, Signals, no_signals, offer};
use crate::error::{CliError, ExitCode};
use crate::home::Home;
use crate::interactive::{Desk, Interactive, Keyboard};
use crate::others;
use crate::sessions::{Entry, Standing};
use crate::terminal::table::plural;
use crate::terminal::{Screen, Text, Tone};
use segno_agent::provider::{FoundBy, discover};
use segno_model::store::Clock as _;
use segno_store::SystemClock;
use std::io::IsTerminal as _;

/// Begins a session, or tells what there is.
///
/// # Errors
/// When there is no model, or a prompt and no terminal.
pub async fn interactive(
    prompt: Option<&str>,
    args: &AgentArgs,
    home: Home,
    screen: &mut Screen,
) -> Result<ExitCode, CliError> {
    let engine = Engine::load(home).await?;
    if !is_conversation(screen) {
        return match prompt {
            Some(prompt) => Err(needs_terminal(&format!("segno run {}", quoted(prompt)))),
            None => overview(&engine, screen).await,
        };
    }
    let rows = engine.stores.entries(SystemClock.now()).await?;
    if rows.is_empty() && !engine.stores.home.config.exists() {
        first_time(&engine, args, screen).await;
    } else if let Some(interrupted) = interrupted(&engine, &rows) {
        let title = Text::line(Tone::Plain, interrupted.title().unwrap_or("(no prompt)"));
        screen.line(
            Text::default()
                .with(Tone::Warning, "Interrupted: ")
                .with_text(title.cut(40))
                .with(Tone::Dim, "  segno resume last"),
        );
    }
    let signals = Signals::listen().map_err(|e| no_signals(&e))?;
    engine.mode(args)?;
    let keyboard = Keyboard::new(signals.leaving());
    let arrival =
        Desk { engine: &engine, keyboard: &keyboard, screen: &mut *screen }.start(args).await?;
    Interactive::new(engine, keyboard, signals, screen, args, arrival).await?.run(prompt).await
}

/// Whether both ends are a terminal.
#[must_use]
pub fn is_conversation(screen: &Screen) -> bool {
    screen.look().terminal && std::io::stdin().is_terminal()
}

/// What somebody without a terminal is to do instead.
#[must_use]
pub fn needs_terminal(instead: &str) -> CliError {
    CliError::usage("A conversation needs a terminal.")
        .because("input or output is a pipe or a file")
        .next(instead)
}

async fn overview(engine: &Engine, screen: &mut Screen) -> Result<ExitCode, CliError> {
    let rows = engine.stores.entries(SystemClock.now()).await?;
    let here = rows.iter().filter(|row| row.is_of(&engine.project.facts) == Some(true)).count();
    let elsewhere = rows.len() - here;
    screen.line(format!("{} of this project, {elsewhere} elsewhere", plural(here, "session")));
    if let Some(words) = others::counted_words(&engine.stores.home) {
        screen.line(format!("found besides: {words}"));
    }
    for line in [
        "",
        "  segno                   a conversation, in a terminal",
        "  segno run PROMPT        one task",
        "  segno resume [SESSION]  go on with a session",
        "  segno list              the sessions of this project, of all agents",
        "  segno search WORDS      find something that was said",
        "  segno demo              see one survive; needs no key",
        "  segno --help            everything",
    ] {
        screen.line(Text::default().with(Tone::Plain, line));
    }
    Ok(ExitCode::Done)
}

async fn first_time(engine: &Engine, args: &AgentArgs, screen: &mut Screen) {
    screen
        .line(Text::line(Tone::Strong, "Welcome to Segno, a coding agent whose sessions survive."));
    let found = discover(&engine.credentials).await;
    for one in &found {
        let by = match &one.by {
            FoundBy::Key(source) => format!("a key ({source})"),
            FoundBy::Server { base_url, .. } => format!("a server at {base_url}"),
        };
        let model = offer(one).map_or_else(String::new, |choice| format!(": {}", choice.model));
        let said = format!("  found {}{model} by {by}", one.provider);
        screen.line(Text::default().with(Tone::Plain, &said));
    }
    let named = args.model.is_some() || args.base_url.is_some();
    if found.is_empty() && !named {
        for line in [
            "  No model was found. Set ANTHROPIC_API_KEY, OPENAI_API_KEY or GEMINI_API_KEY,",
            "  start Ollama, or name a server: segno --base-url URL",
        ] {
            screen.line(Text::default().with(Tone::Plain, line));
        }
    }
    screen.line(Text::default().with(Tone::Dim, "  `segno demo` and `segno list` need no model."));
    if let Some(words) = others::counted_words(&engine.stores.home) {
        let told = format!("  found sessions: {words}; `segno list` shows this project's");
        screen.line(Text::default().with(Tone::Plain, &told));
    }
}

/// This project's newest session, if it was cut off and nobody is at it.
fn interrupted<'a>(engine: &Engine, rows: &'a [Entry]) -> Option<&'a Entry> {
    let newest = rows.iter().find(|row| {
        let counts =
            !row.is_child && !matches!(row.standing, Standing::Empty | Standing::Unreadable);
        counts && row.is_of(&engine.project.facts) == Some(true)
    })?;
    (newest.standing == Standing::Interrupted).then_some(newest)
}
