//! `segno worktree prune`: away with what holds nothing.
//!
//! Responsible for: showing what would go and what stays, asking, and that nobody is at work in what goes. Must
//! not: decide what holds nothing, or remove anything that was not shown.

use super::{Found, Workplace, cannot_be_listed, find, notes};
use crate::error::{CliError, ExitCode};
use crate::terminal::confirm::confirm;
use crate::terminal::table::plural;
use crate::terminal::{Screen, Text, Tone, clean};
use segno_agent::worktree::Worktrees;
use segno_model::SessionId;
use segno_model::store::{SessionStore as _, StoreError};
use std::path::PathBuf;

/// How it is done.
#[derive(Debug, Clone, Copy)]
pub(super) struct How {
    pub(super) dry_run: bool,
    pub(super) yes: bool,
    pub(super) json: bool,
    pub(super) ignored: bool,
}

/// One that stays, and why.
struct Stays {
    found: Found,
    why: String,
}

/// Shows what would go, asks, and removes it.
///
/// # Errors
/// When what is named is not there.
pub(super) async fn prune(
    queries: &[String],
    how: How,
    place: &Workplace,
    screen: &mut Screen,
) -> Result<ExitCode, CliError> {
    let worktrees = place.stores.home.worktrees();
    let (goes, mut stays) = survey(queries, how.ignored, &worktrees).await?;
    let notes = if queries.is_empty() { unfinished(&worktrees)? } else { Vec::new() };
    if !how.json {
        say(&goes, &stays, &notes, screen);
    }
    let none = goes.is_empty() && notes.is_empty();
    if none || how.dry_run || (how.json && !how.yes) {
        tell(&goes, &stays, &notes, (how, false), screen);
        return Ok(ExitCode::Done);
    }
    if !how.yes && !confirm(&question(&goes, &notes), "--yes")? {
        screen.line("Nothing was removed.");
        return Ok(ExitCode::Stopped);
    }
    let mut gone = Vec::new();
    let mut failed = false;
    for found in goes {
        match remove(&found, how.ignored, &worktrees, place).await {
            Ok(()) => gone.push(found),
            Err(why) => {
                failed = true;
                stays.push(Stays { found, why });
            }
        }
    }
    let (mut swept, mut kept) = (Vec::new(), Vec::new());
    for path in notes {
        match worktrees.remove_unfinished(&path) {
            Ok(()) => swept.push(path),
            Err(why) => kept.push(format!("{} stays: {why}", path.display())),
        }
    }
    tell(&gone, &stays, &swept, (how, true), screen);
    for text in kept.iter().filter(|_| !how.json) {
        screen.line(Text::line(Tone::Warning, &clean::line(text)));
    }
    failed |= !kept.is_empty();
    Ok(if failed { ExitCode::Failed } else { ExitCode::Done })
}

fn unfinished(worktrees: &Worktrees) -> Result<Vec<PathBuf>, CliError> {
    worktrees.unfinished_notes().map_err(|error| cannot_be_listed(&error))
}

/// What would go, in few words.
fn what(goes: usize, notes: usize) -> String {
    let worktrees = plural(goes, "worktree");
    match (goes, notes) {
        (_, 0) => worktrees,
        (0, notes) => plural(notes, "unfinished note"),
        (_, notes) => format!("{worktrees} and {}", plural(notes, "unfinished note")),
    }
}

fn question(goes: &[Found], notes: &[PathBuf]) -> String {
    match (goes.len(), notes.len()) {
        (0, notes) => format!("Remove {}?", what(0, notes)),
        (goes, 0) => format!("Remove {} with their branches?", what(goes, 0)),
        (goes, notes) => format!("Remove {}, and the worktrees' branches?", what(goes, notes)),
    }
}

async fn survey(
    queries: &[String],
    ignored: bool,
    worktrees: &Worktrees,
) -> Result<(Vec<Found>, Vec<Stays>), CliError> {
    let mut wanted = Vec::new();
    for query in queries {
        let note = find(query, worktrees)?;
        if !wanted.contains(&note) {
            wanted.push(note);
        }
    }
    if queries.is_empty() {
        wanted = notes(worktrees)?.0;
    }
    let (mut goes, mut stays) = (Vec::new(), Vec::new());
    for note in wanted {
        let work = worktrees.work(&note).await;
        let found = Found { note, work };
        if found.work.is_removable(ignored) {
            goes.push(found);
        } else {
            let mut why = found.holds();
            if found.work.is_removable(true) {
                why.push_str("; `--ignored` lets those go");
            }
            stays.push(Stays { found, why });
        }
    }
    Ok((goes, stays))
}

/// Behind the child's lock; behind its parent's, too, where that may be about to make it.
async fn remove(
    found: &Found,
    ignored: bool,
    worktrees: &Worktrees,
    place: &Workplace,
) -> Result<(), String> {
    let mut ids: Vec<&SessionId> = vec![&found.note.child];
    if found.work.may_be_under_way() {
        ids.push(&found.note.parent);
    }
    let mut held = Vec::new();
    for id in ids {
        match place.stores.files.open(id).await {
            Ok(lock) => held.push(lock),
            Err(StoreError::Held(_)) => return Err("somebody is at work in it".to_owned()),
            // What was deleted is at work nowhere, and what a log says does not matter here.
            Err(_) => {}
        }
    }
    worktrees.remove(&found.note, &found.work, ignored).await.map_err(|kept| kept.to_string())
}

fn say(goes: &[Found], stays: &[Stays], notes: &[PathBuf], screen: &mut Screen) {
    for Stays { found, why } in stays {
        let text = format!("{} stays: {why}", found.note.child);
        screen.line(Text::line(Tone::Dim, &clean::line(&text)));
    }
    for found in goes {
        let text = format!("{} goes: {}", found.note.child, found.holds());
        screen.line(Text::line(Tone::Plain, &clean::line(&text)));
    }
    for path in notes {
        let text = format!("{} goes: a note that was never finished", path.display());
        screen.line(Text::line(Tone::Plain, &clean::line(&text)));
    }
    screen.flush();
}

fn tell(
    gone: &[Found],
    stays: &[Stays],
    notes: &[PathBuf],
    (how, done): (How, bool),
    screen: &mut Screen,
) {
    if how.json {
        let stay = |Stays { found, why }: &Stays| serde_json::json!({"child": found.note.child, "state": found.work.state, "why": why});
        screen.json(&serde_json::json!({
            "version": 1,
            "done": done,
            "worktrees": gone.iter().map(Found::json).collect::<Vec<_>>(),
            "notes": notes,
            "kept": stays.iter().map(stay).collect::<Vec<_>>(),
        }));
        return;
    }
    match (done, gone.len() + notes.len()) {
        (true, _) => {
            let text = format!("{} removed.", what(gone.len(), notes.len()));
            screen.line(Text::line(Tone::Good, &text));
        }
        (false, 0) => screen.line("There is nothing that could be removed."),
        (false, _) => screen.line("Nothing was removed."),
    }
    if done {
        let tried = |stays: &&Stays| stays.found.work.is_removable(how.ignored);
        for Stays { found, why } in stays.iter().filter(tried) {
            let text = format!("{} stays: {why}", found.note.child);
            screen.line(Text::line(Tone::Warning, &clean::line(&text)));
        }
    }
}
