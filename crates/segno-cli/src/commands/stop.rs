//! `segno stop`: the user's stop of what runs in a session, whoever runs it.
//!
//! Responsible for: saying what was stopped, how, and what waited behind it. Must not: signal any process.

use super::Workplace;
use crate::args::StopArgs;
use crate::error::{CliError, ExitCode};
use crate::home::Home;
use crate::inputs;
use crate::inputs::stopping::{self, Stopped};
use crate::stores::Stores;
use crate::terminal::table::plural;
use crate::terminal::{Screen, Text, Tone};
use segno_model::SessionId;

/// Stops it.
///
/// # Errors
/// No such session, a session that cannot be written, or a holder that does not act.
pub async fn stop(args: &StopArgs, home: Home, screen: &mut Screen) -> Result<ExitCode, CliError> {
    let stores = Stores::new(home);
    let id = stores.find(&args.session, &Workplace::cwd()?).await?;
    let Some(stopped) = stopping::stop(&stores, &id).await? else {
        tell(args, &id, None, &[], screen);
        return Ok(ExitCode::Done);
    };
    let parked = match inputs::waiting(&stores, &id).await {
        Ok((_, parked)) => parked,
        // Where the stop had no place, what waits may not be readable either.
        Err(_) if stopped.unwritten.is_some() => Vec::new(),
        Err(error) => return Err(error),
    };
    tell(args, &id, Some(&stopped), &parked, screen);
    Ok(ExitCode::Done)
}

fn tell(
    args: &StopArgs,
    id: &SessionId,
    stopped: Option<&Stopped>,
    parked: &[String],
    screen: &mut Screen,
) {
    let unwritten = stopped.and_then(|stopped| stopped.unwritten.as_ref());
    if args.json {
        let told = serde_json::json!({
            "version": 1, "session": id, "stopped": stopped.map(|stopped| stopped.run), "parked": parked,
            "signalled": unwritten.map(|unwritten| unwritten.pid),
            "recorded": stopped.map(|_| unwritten.is_none_or(|unwritten| unwritten.recorded)),
        });
        return screen.json(&told);
    }
    match (stopped, unwritten) {
        (None, _) => {
            screen.line(Text::line(Tone::Plain, "Nothing runs there; there is nothing to stop."));
        }
        (Some(stopped), None) => {
            screen.line(Text::line(Tone::Plain, &format!("Run {} is stopped.", stopped.run)));
        }
        (Some(stopped), Some(unwritten)) => {
            screen.lines(stopping::lines(id, stopped.run, unwritten));
        }
    }
    if stopped.is_some() && !parked.is_empty() {
        let said = format!(
            "{} that waited behind it will not start by itself: `segno inbox {id}` lists what waits.",
            plural(parked.len(), "input")
        );
        screen.line(Text::line(Tone::Dim, &said));
    }
}
