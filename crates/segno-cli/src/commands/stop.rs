//! `segno stop`: the user's stop of what runs in a session, whoever runs it.
//!
//! Responsible for: saying what was stopped, and what waited behind it. Must not: signal any process.

use super::Workplace;
use crate::args::StopArgs;
use crate::error::{CliError, ExitCode};
use crate::home::Home;
use crate::inputs::{self, stopping};
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
    let Some(run) = stopping::stop(&stores, &id).await? else {
        tell(args, &id, None, &[], screen);
        return Ok(ExitCode::Done);
    };
    let (_, parked) = inputs::waiting(&stores, &id).await?;
    tell(args, &id, Some(run), &parked, screen);
    Ok(ExitCode::Done)
}

fn tell(args: &StopArgs, id: &SessionId, run: Option<u64>, parked: &[String], screen: &mut Screen) {
    if args.json {
        let told = serde_json::json!({
            "version": 1, "session": id, "stopped": run, "parked": parked,
        });
        return screen.json(&told);
    }
    let said = match run {
        None => "Nothing runs there; there is nothing to stop.".to_owned(),
        Some(run) => format!("Run {run} is stopped."),
    };
    screen.line(Text::line(Tone::Plain, &said));
    if run.is_some() && !parked.is_empty() {
        let said = format!(
            "{} that waited behind it will not start by itself: `segno inbox {id}` lists what waits.",
            plural(parked.len(), "input")
        );
        screen.line(Text::line(Tone::Dim, &said));
    }
}
