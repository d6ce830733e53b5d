//! `segno trash`: what was deleted, back again or gone for good.
//!
//! Responsible for: listing, restoring and emptying the trash. Must not: empty it unasked.

use super::{Workplace, list};
use crate::args::{TrashAction, TrashArgs};
use crate::error::{CliError, ExitCode};
use crate::listing::short_ids;
use crate::sessions::{self, Entry};
use crate::terminal::confirm::confirm;
use crate::terminal::table::{Table, plural};
use crate::terminal::{Screen, Text, Tone};
use segno_model::{SessionId, Timestamp};

/// Looks into the trash, or changes it.
///
/// # Errors
/// When what is named is not in it, or the disk fails.
pub fn trash(
    args: &TrashArgs,
    place: &Workplace,
    screen: &mut Screen,
) -> Result<ExitCode, CliError> {
    match args.action.as_ref().unwrap_or(&TrashAction::List { json: false }) {
        TrashAction::List { json } => show(*json, place, screen),
        TrashAction::Restore { sessions } => restore(sessions, place, screen),
        TrashAction::Empty { yes } => empty(*yes, place, screen),
    }
}

/// Sessions as a table, as `list` shows them.
pub(super) fn table(entries: &[&Entry], now: Timestamp, columns: usize) -> Vec<Text> {
    let ids: Vec<&str> = entries.iter().map(|e| e.id.as_str()).collect();
    let mut table = Table::new(list::columns());
    for (entry, id) in entries.iter().zip(short_ids(&ids)) {
        table.row(list::cells(entry, &id, now));
    }
    table.lines(columns)
}

fn entries(place: &Workplace) -> Result<Vec<Entry>, CliError> {
    Ok(sessions::trashed(&place.stores, place.now())?)
}

fn show(json: bool, place: &Workplace, screen: &mut Screen) -> Result<ExitCode, CliError> {
    let entries = entries(place)?;
    let all: Vec<&Entry> = entries.iter().collect();
    if json {
        screen.json(&list::trash_json(&all));
    } else if all.is_empty() {
        screen.line("The trash is empty.");
    } else {
        screen.lines(table(&all, place.now(), screen.look().columns));
        let text =
            "`segno trash restore ID` puts one back; `segno trash empty` deletes all for good.";
        screen.line(Text::line(Tone::Dim, text));
    }
    Ok(ExitCode::Done)
}

fn restore(
    queries: &[String],
    place: &Workplace,
    screen: &mut Screen,
) -> Result<ExitCode, CliError> {
    let entries = entries(place)?;
    let mut ids: Vec<&SessionId> = Vec::new();
    for query in queries {
        let id = find(query, &entries)?;
        if !ids.contains(&id) {
            ids.push(id);
        }
    }
    for id in ids {
        place.stores.files.restore(id)?;
        screen.line(Text::line(
            Tone::Plain,
            &format!("{id} is back; `{} resume {id}`", place.stores.home.command()),
        ));
    }
    Ok(ExitCode::Done)
}

fn find<'a>(query: &str, entries: &'a [Entry]) -> Result<&'a SessionId, CliError> {
    let prefix = query.trim().to_ascii_lowercase();
    let fits = |e: &&Entry| {
        !prefix.is_empty()
            && (e.id.as_str().starts_with(&prefix) || e.name.as_deref() == Some(query.trim()))
    };
    let found: Vec<&Entry> = entries.iter().filter(fits).collect();
    match found.as_slice() {
        [one] => Ok(&one.id),
        [] => Err(CliError::new(
            ExitCode::NotFound,
            format!("There is no session `{query}` in the trash."),
        )
        .next("`segno trash` lists what is in it.")),
        several => {
            let ids: Vec<&str> = several.iter().map(|e| e.id.as_str()).collect();
            Err(CliError::new(ExitCode::NotFound, format!("`{query}` fits several sessions."))
                .because(ids.join("\n"))
                .next("Give more of the id."))
        }
    }
}

fn empty(yes: bool, place: &Workplace, screen: &mut Screen) -> Result<ExitCode, CliError> {
    let entries = entries(place)?;
    if entries.is_empty() {
        screen.line("The trash is empty.");
        return Ok(ExitCode::Done);
    }
    let all: Vec<&Entry> = entries.iter().collect();
    if !yes {
        screen.lines(table(&all, place.now(), screen.look().columns));
        screen.flush();
        let question = format!("Delete {} for good?", plural(all.len(), "session"));
        if !confirm(&question, "--yes")? {
            screen.line("Nothing was deleted.");
            return Ok(ExitCode::Stopped);
        }
    }
    let gone = place.stores.files.empty_trash()?;
    let text = format!("{} deleted for good.", plural(gone.len(), "session"));
    screen.line(Text::line(Tone::Plain, &text));
    Ok(ExitCode::Done)
}
