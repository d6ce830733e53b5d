//! A question with yes or no.
//!
//! Responsible for: asking a person, and refusing to guess where there is none. Must not: take silence
//! for a yes.

use super::style::{Text, Tone};
use super::{Screen, clean};
use crate::error::CliError;
use std::io::{self, BufRead as _, IsTerminal as _};

/// Asks on standard error; only `y` and `yes` mean yes. `flag` is what a script says instead.
///
/// # Errors
/// When there is no terminal to ask in.
pub fn confirm(question: &str, flag: &str) -> Result<bool, CliError> {
    if !io::stdin().is_terminal() || !io::stderr().is_terminal() {
        return Err(CliError::usage("This needs a yes, and there is no terminal to ask in.")
            .because(format!("the question was: {question}"))
            .next(format!("Add {flag} to do it without being asked. Nothing was changed.")));
    }
    let mut screen = Screen::stderr();
    screen.text(Text::line(Tone::Strong, &clean::line(question)).with(Tone::Plain, " [y/N] "));
    screen.flush();
    let mut answer = String::new();
    io::stdin().lock().read_line(&mut answer).map_err(|e| {
        CliError::failed("The answer could not be read.")
            .because(e)
            .next("Nothing was done. Repeat it in a terminal, or with --yes where there is one.")
    })?;
    Ok(is_yes(&answer))
}

fn is_yes(answer: &str) -> bool {
    matches!(answer.trim().to_ascii_lowercase().as_str(), "y" | "yes")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_yes_is_a_yes() {
        for (answer, yes) in [
            ("y\n", true),
            ("YES\n", true),
            ("", false),
            ("\n", false),
            ("n\n", false),
            ("yep", false),
        ] {
            assert_eq!(is_yes(answer), yes, "{answer:?}");
        }
    }
}
