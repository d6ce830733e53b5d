//! `segno prune kept` and `kept-versions`: room that copies of other agents' sessions take.
//!
//! Responsible for: showing it, asking, and removing what was named. Must not: remove a copy that nobody named, or
//! anything of another agent.

use crate::args::{PruneArgs, PruneKind};
use crate::commands::{Workplace, keep};
use crate::error::{CliError, ExitCode};
use crate::others::{self, Target};
use crate::terminal::confirm::confirm;
use crate::terminal::table::{plural, size};
use crate::terminal::{Screen, Text, Tone, clean};
use segno_store::kept::Kept;
use serde_json::{Value, json};

/// How much room copies take, and how much their older versions.
pub(super) fn room(place: &Workplace) -> Result<(usize, u64, u64), CliError> {
    let kept = others::kept(&place.stores)?.0;
    let rooms = kept.iter().map(|kept| place.stores.files.kept_room(kept));
    let (files, versions) =
        rooms.fold((0, 0), |(f, v), (files, versions)| (f + files, v + versions));
    Ok((kept.len(), files, versions))
}

/// What is told of it among the rest.
pub(super) fn line(place: &Workplace) -> Result<Option<Text>, CliError> {
    let (sessions, files, versions) = room(place)?;
    let text = format!(
        "Copies of {} of other agents take {}, older versions of them {}: `segno prune kept SESSION…`, `segno prune kept-versions`.",
        plural(sessions, "session"),
        size(files),
        size(versions)
    );
    Ok((sessions > 0).then(|| Text::line(Tone::Plain, &text)))
}

/// Removes copies, or their older versions.
///
/// # Errors
/// When nothing was named, a session is not found, or the disk fails.
pub(super) async fn prune(
    args: &PruneArgs,
    place: &Workplace,
    screen: &mut Screen,
) -> Result<ExitCode, CliError> {
    let only_versions = args.kind == Some(PruneKind::KeptVersions);
    if args.sessions.is_empty() && !only_versions {
        return Err(CliError::usage("Which copies?")
            .because("a copy may be all that is left of a session; it is removed only by name")
            .next("`segno prune kept SESSION…`; `segno list --all` shows what is kept."));
    }
    let named = named(args, place).await?;
    let free = |kept: &Kept| {
        let (files, versions) = place.stores.files.kept_room(kept);
        if only_versions { versions } else { files + versions }
    };
    let sized = named.into_iter().map(|kept| (free(&kept), kept));
    let of_use = sized.filter(|(bytes, _)| *bytes > 0 || !only_versions);
    let items: Vec<(Kept, u64)> = of_use.map(|(bytes, kept)| (kept, bytes)).collect();
    let bytes: u64 = items.iter().map(|(_, bytes)| bytes).sum();
    if !args.json {
        for (kept, bytes) in &items {
            screen.line(Text::line(
                Tone::Plain,
                &clean::line(&format!("{}  {}", word(kept), size(*bytes))),
            ));
        }
        screen.flush();
    }
    if items.is_empty() || args.dry_run || (args.json && !args.yes) {
        say(&items, false, args.json, screen);
        return Ok(ExitCode::Done);
    }
    let what = if only_versions { "older versions" } else { "the copies" };
    let sessions = plural(items.len(), "session");
    let question = format!("Delete {what} of {sessions} for good ({})?", size(bytes));
    if !args.yes && !confirm(&question, "--yes")? {
        screen.line("Nothing was deleted.");
        return Ok(ExitCode::Stopped);
    }
    let mut keeper = keep::keeper(place).await?;
    for (kept, _) in &items {
        keeper.remove(kept, only_versions)?;
    }
    keeper.finish()?;
    say(&items, true, args.json, screen);
    Ok(ExitCode::Done)
}

/// What is kept of the named sessions and their subagents; of all, if none is named.
async fn named(args: &PruneArgs, place: &Workplace) -> Result<Vec<Kept>, CliError> {
    let all = others::kept(&place.stores)?.0;
    if args.sessions.is_empty() {
        return Ok(all);
    }
    let mut found: Vec<Kept> = Vec::new();
    for query in &args.sessions {
        let Target::Other(session) = place.stores.find_any(query, &place.cwd).await? else {
            return Err(CliError::usage(format!("`{query}` is a session of ours."))
                .next("`segno delete` moves one to the trash."));
        };
        let is_it = |kept: &&Kept| {
            let own = kept.agent == session.row.agent
                && kept.key == session.row.key
                && (kept.path == session.row.path || kept.copy == session.row.path);
            let below =
                kept.agent == session.row.agent && kept.parent.as_ref() == Some(&session.row.id);
            own || below
        };
        let before = found.len();
        found.extend(all.iter().filter(is_it).cloned());
        if found.len() == before {
            return Err(CliError::new(
                ExitCode::NotFound,
                format!("Nothing is kept of `{query}`."),
            )
            .next("`segno list --all` shows what is kept."));
        }
    }
    found.dedup();
    Ok(found)
}

fn word(kept: &Kept) -> String {
    let path = || kept.path.display().to_string();
    format!("{}:{}", kept.agent.id(), kept.id.clone().unwrap_or_else(path))
}

fn say(items: &[(Kept, u64)], done: bool, as_json: bool, screen: &mut Screen) {
    let bytes: u64 = items.iter().map(|(_, bytes)| bytes).sum();
    if as_json {
        let item = |(kept, bytes): &(Kept, u64)| -> Value {
            json!({ "kind": "kept", "session": word(kept), "name": kept.path, "bytes": bytes })
        };
        screen.json(&json!({
            "version": 1, "done": done, "items": items.iter().map(item).collect::<Vec<_>>(),
            "bytes": bytes, "sessions": [], "left_out": [], "left": [],
        }));
        return;
    }
    let text = match (items.len(), done) {
        (0, _) => "There is nothing of that to remove.".to_owned(),
        (_, false) => "Nothing was deleted.".to_owned(),
        (_, true) => format!("{} deleted for good.", size(bytes)),
    };
    screen.line(text);
}
