//! `segno delete`: sessions into the trash.
//!
//! Responsible for: asking first, and moving all or saying which stayed. Must not: delete anything for
//! good, or take a session from under a process that writes it.

use super::{Workplace, trash, worktree};
use crate::args::DeleteArgs;
use crate::error::{CliError, ExitCode};
use crate::stores::not_opened;
use crate::terminal::confirm::confirm;
use crate::terminal::table::plural;
use crate::terminal::{Screen, Text, Tone};
use segno_model::SessionId;

/// Moves sessions to the trash.
///
/// # Errors
/// When one is not found (then nothing is moved), held, or cannot be moved.
pub async fn delete(
    args: &DeleteArgs,
    place: &Workplace,
    screen: &mut Screen,
) -> Result<ExitCode, CliError> {
    let mut ids: Vec<SessionId> = Vec::new();
    for query in &args.sessions {
        let id = place.stores.find(query, &place.cwd).await?;
        if !ids.contains(&id) {
            ids.push(id);
        }
    }
    let now = place.now();
    let entries = place.stores.entries(now).await?;
    let chosen: Vec<_> = entries.iter().filter(|e| ids.contains(&e.id)).collect();
    if !args.yes {
        screen.lines(trash::table(&chosen, now, screen.look().columns));
        screen.flush();
        let question = format!("Move {} to the trash?", plural(ids.len(), "session"));
        if !confirm(&question, "--yes")? {
            screen.line("Nothing was moved.");
            return Ok(ExitCode::Stopped);
        }
    }
    for id in &ids {
        place.stores.files.trash(id).map_err(|error| not_opened(id, error))?;
        let program = place.stores.home.command();
        let text = format!("{id} is in the trash; `{program} trash restore {id}` puts it back.");
        screen.line(Text::line(Tone::Plain, &text));
        let kept = worktree::of_session(place, id);
        if kept > 0 {
            let what = plural(kept, "worktree");
            let (stay, them) = if kept == 1 { ("stays", "it") } else { ("stay", "them") };
            let text =
                format!("{what} of its subagents {stay}; `{program} worktree list` shows {them}.");
            screen.line(Text::line(Tone::Plain, &text));
        }
    }
    Ok(ExitCode::Done)
}
