//! `segno demo`: the experiment, and a scripted model to play with.
//!
//! Responsible for: running it, cleaning up however it ends, and the exit code. Must not: read the user's
//! configuration, keys or sessions, or leave anything behind unless asked to.

use crate::args::{DemoArgs, quoted};
use crate::demo::{self, Stage};
use crate::error::{CliError, ExitCode};
use crate::terminal::{Screen, Text, Tone};
use segno_testkit::scripted_model::ScriptedModel;
use segno_testkit::scripted_model::demo::PLAY_SCRIPT;
use std::path::Path;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// Runs the experiment, or serves.
///
/// # Errors
/// When it could not be carried out. A wrong result is no error but a failing exit code.
pub async fn demo(args: &DemoArgs, screen: &mut Screen) -> Result<ExitCode, CliError> {
    if args.serve {
        return serve(args.port.unwrap_or(0), screen).await;
    }
    let mut interruptions = Interruptions::listen()?;
    let mut stage = Stage::set_up().await?;
    let outcome = tokio::select! {
        outcome = demo::experiment(&mut stage, screen) => Some(outcome),
        () = interruptions.first() => None,
    };
    let left = stage.strike(args.keep).await;
    if let Some(root) = left.map_err(|e| not_removed(&e))? {
        show_kept(&root, screen);
    }
    match outcome {
        None => {
            screen.line(Text::line(Tone::Warning, "Interrupted; nothing was left behind."));
            Ok(ExitCode::Stopped)
        }
        Some(Err(error)) => Err(error),
        Some(Ok(true)) => Ok(ExitCode::Done),
        Some(Ok(false)) => Ok(ExitCode::Failed),
    }
}

/// A scripted model until Ctrl-C, for trying the whole agent.
async fn serve(port: u16, screen: &mut Screen) -> Result<ExitCode, CliError> {
    let mut interruptions = Interruptions::listen()?;
    let server = ScriptedModel::start_at(port, PLAY_SCRIPT).map_err(|e| {
        CliError::failed("The scripted model cannot listen.")
            .because(e)
            .next("Leave --port out: then any free port is taken.")
    })?;
    let model = format!("--model anthropic/scripted --base-url {}", server.url());
    let segno = own_command();
    let rows = [
        ("An interactive session:", format!("{segno} {model}")),
        ("One task:", format!("{segno} run {model} \"list\"")),
    ];
    screen.line(
        Text::default()
            .with(Tone::Good, "A scripted model listens on ")
            .with(Tone::Accent, &server.url()),
    );
    screen.line(Text::line(
        Tone::Plain,
        "It is no real model: it needs no key and obeys a few commands. Say anything to be told which.",
    ));
    screen.line(Text::line(Tone::Plain, "Try it from a directory whose files may change:"));
    for (what, command) in rows {
        screen.line(Text::default());
        screen.line(Text::line(Tone::Plain, what));
        screen.line(Text::default().with(Tone::Accent, &format!("  {command}")));
    }
    screen.line(Text::default());
    screen.line(Text::line(Tone::Dim, "Ctrl-C here ends it."));
    screen.flush();
    interruptions.first().await;
    Ok(ExitCode::Done)
}

/// What wants this process to end.
struct Interruptions([Signal; 3]);

impl Interruptions {
    /// From here on they no longer end the process by themselves.
    fn listen() -> Result<Self, CliError> {
        let listen = |kind| signal(kind).map_err(|e| crate::engine::no_signals(&e));
        let [interrupt, terminate, hangup] =
            [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup()].map(listen);
        Ok(Self([interrupt?, terminate?, hangup?]))
    }

    async fn first(&mut self) {
        let Self([interrupt, terminate, hangup]) = self;
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
            _ = hangup.recv() => {}
        }
    }
}

fn show_kept(root: &Path, screen: &mut Screen) {
    let home = quoted(&root.join("home").display().to_string());
    screen.line(
        Text::default().with(Tone::Plain, "Kept: ").with(Tone::Accent, &root.display().to_string()),
    );
    screen.line(Text::default().with(
        Tone::Dim,
        &format!("  {} --home {home} list --all    shows its sessions", own_command()),
    ));
}

fn not_removed(error: &std::io::Error) -> CliError {
    CliError::failed("The demo's directory could not be removed.")
        .because(error)
        .next("It is named segno-demo-… in the temporary directory; remove it by hand.")
}

/// How this program is called: by its name when the shell would find it, else by its path.
fn own_command() -> String {
    let Ok(own) = std::env::current_exe() else { return "segno".to_owned() };
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path).map(|dir| dir.join("segno")).find(|p| p.is_file());
    let is_own =
        found.and_then(|found| found.canonicalize().ok()).is_some_and(|found| found == own);
    if is_own { "segno".to_owned() } else { quoted(&own.display().to_string()) }
}
