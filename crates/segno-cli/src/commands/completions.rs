//! `segno completions SHELL`: a completion script on standard output.
//!
//! Responsible for: generating it from the command line's own description. Must not: install it.

use crate::args::{Cli, CompletionsArgs};
use crate::error::{CliError, ExitCode};
use crate::terminal::Screen;
use clap::CommandFactory as _;

/// Prints the script.
///
/// # Errors
/// None today; commands share this shape.
pub fn completions(args: &CompletionsArgs, screen: &mut Screen) -> Result<ExitCode, CliError> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "segno", &mut script);
    screen.exact(&script);
    Ok(ExitCode::Done)
}
