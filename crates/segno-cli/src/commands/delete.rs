//! `segno delete`: sessions into the trash.
//!
//! Responsible for: asking first, and moving all or saying which stayed. Must not: delete anything for
//! good, or take a session from under a process that writes it.

use super::{Workplace, trash, worktree};
use crate::args::DeleteArgs;
use crate::error::{CliError, ExitCode};
use crate::sessions::Entry;
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
        let forks = forks_that_need(id, &entries);
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
        if forks > 0 {
            let read = if forks == 1 { "reads" } else { "read" };
            let text = format!(
                "{} of it {read} its subagents' sessions there, and cannot go on with them until it is put back.",
                plural(forks, "fork")
            );
            screen.line(Text::line(Tone::Warning, &text));
        }
    }
    Ok(ExitCode::Done)
}

/// How many other sessions are forks of this one and look its subagents up.
fn forks_that_need(id: &SessionId, entries: &[Entry]) -> usize {
    let named = |of: &Option<String>| of.as_deref() == Some(id.as_str());
    let has_children = entries.iter().any(|entry| named(&entry.parent));
    entries.iter().filter(|entry| has_children && named(&entry.forked_from)).count()
}
