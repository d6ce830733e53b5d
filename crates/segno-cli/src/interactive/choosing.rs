//! Choosing a session from a list.
//!
//! Responsible for: the rows of the picker: this project's sessions, or all of them. Must not: open one.

use super::keyboard::Keyboard;
use crate::commands::list::state_tone;
use crate::engine::{Engine, Signals};
use crate::error::{CliError, ExitCode};
use crate::listing::Listed;
use crate::sessions::{Entry, Standing};
use crate::terminal::picker::{Picker, pick};
use crate::terminal::table::{Column, age, count};
use crate::terminal::{Look, Text, Tone};
use segno_model::SessionId;
use segno_model::store::Clock as _;
use segno_store::SystemClock;

/// Lets the person choose; nothing if they left. Sessions of this project come first, then the others, each
/// newest first.
///
/// # Errors
/// When there is none, or the terminal cannot show a list.
pub async fn choose(
    engine: &Engine,
    keyboard: &Keyboard,
    signals: &Signals,
    look: Look,
) -> Result<Option<SessionId>, CliError> {
    let rows = engine.stores.entries(SystemClock.now()).await?;
    let rows = rows.into_iter().filter(|row| {
        !row.is_child && !matches!(row.standing, Standing::Empty | Standing::Unreadable)
    });
    let (ours, others): (Vec<Entry>, Vec<Entry>) =
        rows.partition(|row| row.is_of(&engine.project.facts) == Some(true));
    if ours.is_empty() && others.is_empty() {
        return Err(CliError::new(ExitCode::NotFound, "There is no session to resume yet.")
            .next("`segno` starts one."));
    }
    let here = ours.len();
    let ordered: Vec<Entry> = ours.into_iter().chain(others).collect();
    let picker = list(&ordered, here);
    let (keyboard, signals) = (keyboard.clone(), signals.clone());
    let picked = tokio::task::spawn_blocking(move || {
        let _terminal = keyboard.lend();
        pick(picker, look, &|| signals.is_leaving())
    });
    let picked = picked.await.map_err(|e| {
        CliError::failed("The list could not be shown.")
            .because(e)
            .next("Name the session: `segno list` shows them, `last` is this project's newest.")
    })??;
    Ok(picked.and_then(|i| ordered.get(i)).map(|row| row.id.clone()))
}

/// Where a session stands, and who works on it.
fn state_shown(row: &Entry) -> String {
    match row.standing {
        Standing::Ended | Standing::Stopped => String::new(),
        _ => Listed::Own(Box::new(row.clone())).state_shown(),
    }
}

fn list(rows: &[Entry], here: usize) -> Picker {
    let now = SystemClock.now();
    let columns = vec![
        Column::left("CREATED").leaves(3),
        Column::left("ACTIVE").leaves(1),
        Column::right("TOKENS").leaves(2),
        Column::left("STATE").shrinks_to(11).leaves(5),
        Column::left("SESSION").shrinks_to(12),
        Column::left("DIRECTORY").shrinks_to(8).leaves(4),
    ];
    let title = match (here, rows.len() - here) {
        (0, _) => "Sessions (none of this project)".to_owned(),
        (_, 0) => "Sessions of this project".to_owned(),
        (ours, others) => format!("Sessions: {ours} of this project, then {others} elsewhere"),
    };
    let mut picker = Picker::new(&title, "resume", columns);
    for (i, row) in rows.iter().enumerate() {
        let title = row.title().unwrap_or("");
        let place = row.project.as_ref().filter(|_| i >= here).map_or("", |p| p.cwd.as_str());
        let usage = row.totals.usage;
        picker.row(
            vec![
                Text::line(Tone::Dim, &age(now, row.created)),
                Text::line(Tone::Plain, &age(now, row.last_active(now))),
                Text::line(Tone::Plain, &count(usage.input.saturating_add(usage.output))),
                Text::line(state_tone(row.standing.word()), &state_shown(row)),
                Text::line(Tone::Plain, title),
                Text::line(Tone::Dim, place),
            ],
            &format!("{} {}", row.id, row.first_prompt.as_deref().unwrap_or("")),
        );
    }
    picker
}
