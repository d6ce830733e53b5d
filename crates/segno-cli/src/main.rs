//! The `segno` command: the whole program in one `match`.
//!
//! Responsible for: from the command line to an exit code. Must not: hold logic of any command.

use segno_cli::args::{self, Command, Intent, Parsed};
use segno_cli::commands::{self, Workplace, completions};
use segno_cli::error::{CliError, ExitCode};
use segno_cli::home::Home;
use segno_cli::stores::Stores;
use segno_cli::terminal::Screen;
use std::path::Path;

fn main() -> std::process::ExitCode {
    if let Some(dir) = args::supervised(std::env::args_os()) {
        return segno_agent::supervisor::supervise(&dir).into();
    }
    let (intent, home) = match args::parse(std::env::args_os()) {
        Ok(Parsed::Do { intent, home }) => (intent, home),
        Ok(Parsed::Tell(told)) => return tell(&told).into(),
        Err(error) => return report(&error, args::asks_for_json(std::env::args_os())).into(),
    };
    let json = matches!(&intent, Intent::Command(command) if command.prints_json());
    let shows = matches!(&intent, Intent::Command(command) if command.only_shows());
    let mut screen = Screen::stdout();
    let result = start(&intent, home.as_deref(), &mut screen);
    let written = screen.finish();
    match (result, written) {
        (Err(error), _) => report(&error, json).into(),
        (Ok(exit), Err(error)) => {
            let told = report(&not_shown(error, shows), json);
            // How a run ended says more than that nobody could be told.
            if exit == ExitCode::Done { told.into() } else { exit.into() }
        }
        (Ok(exit), Ok(())) => exit.into(),
    }
}

fn start(intent: &Intent, home: Option<&Path>, screen: &mut Screen) -> Result<ExitCode, CliError> {
    let home = Home::find(home, &|name| std::env::var(name).ok())?;
    home.check()?;
    let runtime =
        tokio::runtime::Builder::new_multi_thread().enable_all().build().map_err(|e| {
            CliError::failed("The program's threads could not be started.")
                .because(e)
                .next("Check the limits of this process (ulimit -u), then try again.")
        })?;
    let program = home.command();
    let result = runtime.block_on(run(intent, home, screen)).map_err(|e| e.called_as(&program));
    // Reads of standard input may hang in a thread; the process does not wait for them.
    runtime.shutdown_background();
    result
}

async fn run(intent: &Intent, home: Home, screen: &mut Screen) -> Result<ExitCode, CliError> {
    let command = match intent {
        Intent::Interactive { prompt, agent } => {
            let prompt = prompt.as_deref();
            return commands::interactive::interactive(prompt, agent, home, screen).await;
        }
        Intent::Command(command) => command,
    };
    // Where the commands work that look at sessions or settle something about them.
    let place = || -> Result<Workplace, CliError> {
        Ok(Workplace { stores: Stores::new(home.clone()), cwd: Workplace::cwd()? })
    };
    match command {
        Command::Resume(args) => commands::resume::resume(args, home, screen).await,
        Command::Run(args) => commands::run::run(args, home, screen).await,
        Command::Compact(args) => commands::compact::compact(args, home, screen).await,
        Command::Rewind(args) => commands::rewind::rewind(args, home, screen).await,
        Command::Send(args) => commands::send::send(args, home, screen).await,
        Command::Inbox(args) => commands::inbox::inbox(args, home, screen).await,
        Command::Stop(args) => commands::stop::stop(args, home, screen).await,
        Command::Answer(args) => commands::answer::answer(args, home, screen).await,
        Command::Attach(args) => commands::attach::attach(args, home, screen).await,
        Command::WorkOff(args) => commands::work_off::work_off(args, home).await,
        Command::Models(args) => commands::models::models(args, home, screen).await,
        Command::Demo(args) => commands::demo::demo(args, screen).await,
        Command::Completions(args) => completions::completions(args, screen),
        Command::List(args) => commands::list::list(args, &place()?, screen).await,
        Command::Search(args) => commands::search::search(args, &place()?, screen).await,
        Command::Status(args) => commands::status::status(args, &place()?, screen).await,
        Command::Stats(args) => commands::stats::stats(args, &place()?, screen).await,
        Command::Children(args) => commands::children::children(args, &place()?, screen).await,
        Command::Worktree(args) => commands::worktree::worktree(args, &place()?, screen).await,
        Command::Sources(args) => commands::sources::sources(args, &place()?, screen).await,
        Command::Show(args) => commands::show::show(args, &place()?, screen).await,
        Command::Check(args) => commands::check::check(args, &place()?, screen).await,
        Command::Repair(args) => commands::repair::repair(args, &place()?, screen).await,
        Command::Fork(args) => commands::fork::fork(args, &place()?, screen).await,
        Command::Context(args) => commands::context::context(args, &place()?, screen).await,
        Command::Prune(args) => commands::prune::prune(args, &place()?, screen).await,
        Command::Erase(args) => commands::erase::erase(args, &place()?, screen).await,
        Command::Keep(args) => commands::keep::keep(args, &place()?, screen).await,
        Command::Name(args) => commands::name::name(args, &place()?, screen).await,
        Command::Export(args) => commands::export::export(args, &place()?, screen).await,
        Command::Import(args) => commands::import::import(args, &place()?, screen).await,
        Command::Delete(args) => commands::delete::delete(args, &place()?, screen).await,
        Command::Trash(args) => commands::trash::trash(args, &place()?, screen),
        Command::Relocate(args) => commands::relocate::relocate(args, &place()?, screen).await,
    }
}

/// The command has done its work; only that could not be said.
fn not_shown(error: std::io::Error, only_shows: bool) -> CliError {
    let told = CliError::failed("The output could not be written.").because(error);
    if only_shows {
        return told.next("What came out is not all of it, and nothing was changed. Write it to a place with room.");
    }
    told.next(
        "What the command was to do is done. `segno show` and `segno inbox` tell, before it is repeated.",
    )
}

/// Errors go to standard error; as one line of JSON where the output would have been JSON.
fn report(error: &CliError, json: bool) -> ExitCode {
    let mut screen = Screen::stderr();
    if json {
        error.print_json(&mut screen);
    } else {
        error.print(&mut screen);
    }
    // Nothing is left to tell it to if even standard error is gone.
    let _ = screen.finish();
    error.exit
}

/// Help and the version go to standard output and are a success.
fn tell(told: &clap::Error) -> ExitCode {
    // A reader that left early has read enough.
    let _ = told.print();
    if told.use_stderr() { ExitCode::Usage } else { ExitCode::Done }
}
