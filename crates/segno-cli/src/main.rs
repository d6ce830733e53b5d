//! The `segno` command: the whole program in one `match`.
//!
//! Responsible for: from the command line to an exit code. Must not: hold logic of any command.

use segno_cli::args::{self, Command, Intent, Parsed};
use segno_cli::commands::{self, completions};
use segno_cli::error::{CliError, ExitCode};
use segno_cli::home::Home;
use segno_cli::terminal::Screen;
use std::path::Path;

fn main() -> std::process::ExitCode {
    let (intent, home) = match args::parse(std::env::args_os()) {
        Ok(Parsed::Do { intent, home }) => (intent, home),
        Ok(Parsed::Tell(told)) => return tell(&told).into(),
        Err(error) => return report(&error).into(),
    };
    let mut screen = Screen::stdout();
    let result = start(&intent, home.as_deref(), &mut screen);
    let written = screen.finish();
    match (result, written) {
        (Err(error), _) => report(&error).into(),
        (Ok(_), Err(error)) => {
            report(&CliError::failed("The output could not be written.").because(error)).into()
        }
        (Ok(exit), Ok(())) => exit.into(),
    }
}

fn start(intent: &Intent, home: Option<&Path>, screen: &mut Screen) -> Result<ExitCode, CliError> {
    let home = Home::find(home, &|name| std::env::var(name).ok())?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|e| CliError::failed("The program's threads could not be started.").because(e))?;
    let result = runtime.block_on(run(intent, home, screen));
    // Reads of standard input may hang in a thread; the process does not wait for them.
    runtime.shutdown_background();
    result
}

async fn run(intent: &Intent, home: Home, screen: &mut Screen) -> Result<ExitCode, CliError> {
    match intent {
        Intent::Command(Command::Run(args)) => commands::run::run(args, home, screen).await,
        Intent::Command(Command::Models(args)) => {
            commands::models::models(args, home, screen).await
        }
        Intent::Command(Command::Completions(args)) => completions::completions(args, screen),
        _ => Err(CliError::failed("This build of segno cannot do that yet.")),
    }
}

fn report(error: &CliError) -> ExitCode {
    let mut screen = Screen::stderr();
    error.print(&mut screen);
    // Nothing is left to tell it to if even standard error is gone.
    let _ = screen.finish();
    error.exit
}

/// Help and the version go to standard output and are a success; a slip is neither.
fn tell(told: &clap::Error) -> ExitCode {
    // A reader that left early has read enough.
    let _ = told.print();
    if told.use_stderr() { ExitCode::Usage } else { ExitCode::Done }
}
