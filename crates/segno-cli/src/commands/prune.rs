//! `segno prune`: what takes room, and making some.
//!
//! Responsible for: showing it by kind and session, asking, and removing what was named. Must not: decide what
//! is needed (the store does), or remove anything that was not shown.

mod kept;

use super::Workplace;
use crate::args::{PruneArgs, PruneKind};
use crate::error::{CliError, ExitCode};
use crate::sessions::Entry;
use crate::terminal::confirm::confirm;
use crate::terminal::table::{Column, Table, age, plural, size};
use crate::terminal::{Screen, Text, Tone, clean};
use segno_model::SessionId;
use segno_store::{Item, Kind, Pruned, Survey};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// The sessions that take most are shown up to this many.
const SESSIONS: usize = 10;

const KINDS: &[(PruneKind, Kind)] = &[
    (PruneKind::Trash, Kind::Trash),
    (PruneKind::Blobs, Kind::Blob),
    (PruneKind::Commands, Kind::Command),
    (PruneKind::SetAside, Kind::SetAside),
    (PruneKind::Leftovers, Kind::Leftover),
];

/// Shows what takes room, or makes some.
///
/// # Errors
/// When the sessions cannot be listed, a session is not found, or the disk fails.
pub async fn prune(
    args: &PruneArgs,
    place: &Workplace,
    screen: &mut Screen,
) -> Result<ExitCode, CliError> {
    if matches!(args.kind, Some(PruneKind::Kept | PruneKind::KeptVersions)) {
        return kept::prune(args, place, screen).await;
    }
    let survey = place.stores.files.survey_room()?;
    let Some(kind) = args.kind else {
        let entries = place.stores.entries(place.now()).await?;
        show(&survey, &entries, args.json, place, screen)?;
        return Ok(ExitCode::Done);
    };
    let named = named(args, &survey, place).await?;
    let of_kind = |item: &&Item| KINDS.contains(&(kind, item.kind));
    let wanted = |item: &&Item| {
        named.is_empty() || item.session.as_ref().is_some_and(|id| named.contains(id))
    };
    let items: Vec<Item> = survey.items.iter().filter(of_kind).filter(wanted).cloned().collect();
    if !args.json {
        screen.lines(table(&items).lines(screen.look().columns));
        screen.lines(left_out(&survey));
        screen.flush();
    }
    let look_only = items.is_empty() || args.dry_run || (args.json && !args.yes);
    if look_only {
        say(&items, None, args.json, screen);
        return Ok(ExitCode::Done);
    }
    let question =
        format!("Delete {} for good ({})?", plural(items.len(), "item"), size(bytes(&items)));
    if !args.yes && !confirm(&question, "--yes")? {
        screen.line("Nothing was deleted.");
        return Ok(ExitCode::Stopped);
    }
    let pruned = place.stores.files.prune(&items)?;
    say(&items, Some(&pruned), args.json, screen);
    Ok(if pruned.left.is_empty() { ExitCode::Done } else { ExitCode::Failed })
}

/// The sessions that were named; those in the trash by the beginning of their ids.
async fn named(
    args: &PruneArgs,
    survey: &Survey,
    place: &Workplace,
) -> Result<Vec<SessionId>, CliError> {
    let mut named = Vec::new();
    for query in &args.sessions {
        if args.kind != Some(PruneKind::Trash) {
            named.push(place.stores.find(query, &place.cwd).await?);
            continue;
        }
        let trashed = survey.items.iter().filter(|item| item.kind == Kind::Trash);
        let fits = trashed.filter_map(|item| item.session.as_ref());
        let fits: Vec<&SessionId> = fits
            .filter(|id| !query.is_empty() && id.as_str().starts_with(query.as_str()))
            .collect();
        match fits.as_slice() {
            [one] => named.push((*one).clone()),
            other => {
                let many = if other.is_empty() { "no session" } else { "several sessions" };
                let said = format!("`{query}` fits {many} in the trash.");
                return Err(CliError::new(ExitCode::NotFound, said)
                    .next("`segno trash` lists what is in it."));
            }
        }
    }
    Ok(named)
}

fn bytes(items: &[Item]) -> u64 {
    items.iter().map(|item| item.bytes).fold(0, u64::saturating_add)
}

fn word(kind: Kind) -> &'static str {
    match kind {
        Kind::Trash => "trash",
        Kind::Blob => "blobs",
        Kind::Command => "commands",
        Kind::SetAside => "set-aside",
        Kind::Leftover => "leftovers",
    }
}

fn means(kind: Kind) -> &'static str {
    match kind {
        Kind::Trash => "deleted sessions",
        Kind::Blob => "that no record refers to",
        Kind::Command => "their files; no record names them",
        Kind::SetAside => "torn or damaged bytes that were kept",
        Kind::Leftover => "what killed processes left behind",
    }
}

/// Items by kind and session.
fn grouped(items: &[Item]) -> BTreeMap<(Kind, Option<&SessionId>), (usize, u64)> {
    let mut groups = BTreeMap::new();
    for item in items {
        let group: &mut (usize, u64) =
            groups.entry((item.kind, item.session.as_ref())).or_default();
        group.0 += 1;
        group.1 = group.1.saturating_add(item.bytes);
    }
    groups
}

fn table(items: &[Item]) -> Table {
    let mut table = Table::new(vec![
        Column::left("KIND"),
        Column::left("SESSION").shrinks_to(13),
        Column::right("ITEMS"),
        Column::right("SIZE"),
        Column::left("WHAT").shrinks_to(8).leaves(1),
    ]);
    for ((kind, id), (items, bytes)) in grouped(items) {
        table.row([
            Text::line(Tone::Accent, word(kind)),
            Text::line(Tone::Plain, id.map_or("-", SessionId::as_str)),
            Text::line(Tone::Plain, &items.to_string()),
            Text::line(Tone::Plain, &size(bytes)),
            Text::line(Tone::Dim, means(kind)),
        ]);
    }
    table
}

fn left_out(survey: &Survey) -> Vec<Text> {
    let line = |(id, why): &(SessionId, String)| {
        Text::line(Tone::Warning, &clean::line(&format!("{id} is left out: {why}")))
    };
    survey.left_out.iter().map(line).collect()
}

fn show(
    survey: &Survey,
    entries: &[Entry],
    as_json: bool,
    place: &Workplace,
    screen: &mut Screen,
) -> Result<(), CliError> {
    let last = |id: &SessionId| {
        entries.iter().find(|entry| entry.id == *id).map(|entry| entry.last_active(place.now()))
    };
    if as_json {
        let session = |(id, bytes): &(SessionId, u64)| json!({"id": id, "bytes": bytes, "last_active": last(id)});
        let left = |(id, why): &(SessionId, String)| json!({"id": id, "why": why});
        let (kept, files, versions) = kept::room(place)?;
        screen.json(&json!({
            "kept": { "sessions": kept, "bytes": files, "versions": versions },
            "version": 1, "done": false, "items": survey.items.iter().map(item_json).collect::<Vec<_>>(),
            "bytes": bytes(&survey.items), "left": [],
            "sessions": survey.sessions.iter().map(session).collect::<Vec<_>>(),
            "left_out": survey.left_out.iter().map(left).collect::<Vec<_>>(),
        }));
        return Ok(());
    }
    let columns = screen.look().columns;
    let mut sessions: Vec<_> = survey.sessions.iter().collect();
    sessions.sort_by_key(|(id, bytes)| (std::cmp::Reverse(*bytes), id.clone()));
    let all = sessions.iter().map(|(_, bytes)| bytes).fold(0, |sum: u64, b| sum.saturating_add(*b));
    let take = if sessions.len() == 1 { "takes" } else { "take" };
    let head = format!("{} {take} {}; the largest:", plural(sessions.len(), "session"), size(all));
    screen.line(Text::line(Tone::Strong, &head));
    let mut largest = Table::new(vec![
        Column::left("SESSION").shrinks_to(13),
        Column::right("SIZE"),
        Column::right("AGE"),
        Column::left("TITLE").shrinks_to(8),
    ]);
    for (id, bytes) in sessions.into_iter().take(SESSIONS) {
        let title = entries.iter().find(|entry| entry.id == *id).and_then(Entry::title);
        let old = last(id).map_or_else(String::new, |at| age(place.now(), at));
        largest.row([
            Text::line(Tone::Accent, id.as_str()),
            Text::line(Tone::Plain, &size(*bytes)),
            Text::line(Tone::Plain, &old),
            Text::line(Tone::Plain, &clean::line(title.unwrap_or(""))),
        ]);
    }
    screen.lines(largest.lines(columns));
    screen.line("");
    if survey.items.is_empty() {
        screen.line(Text::line(Tone::Good, "Nothing lies about that could be removed."));
    } else {
        let text = format!("Can be removed ({}):", size(bytes(&survey.items)));
        screen.line(Text::line(Tone::Strong, &text));
        screen.lines(table(&survey.items).lines(columns));
    }
    screen.lines(left_out(survey));
    screen.lines(kept::line(place)?);
    let next = "`segno prune KIND [SESSION…]` removes what is named; `segno delete SESSION` moves one to the trash.";
    screen.line(Text::line(Tone::Dim, next));
    Ok(())
}

fn say(items: &[Item], pruned: Option<&Pruned>, as_json: bool, screen: &mut Screen) {
    if as_json {
        let left = |(item, why): &(Item, String)| json!({"name": item.name, "session": item.session, "why": why});
        let shown = pruned.map_or(items, |pruned| &pruned.gone);
        screen.json(&json!({
            "version": 1, "done": pruned.is_some(), "items": shown.iter().map(item_json).collect::<Vec<_>>(),
            "bytes": bytes(shown), "sessions": [], "left_out": [],
            "left": pruned.map_or_else(Vec::new, |pruned| pruned.left.iter().map(left).collect()),
        }));
        return;
    }
    let Some(pruned) = pruned else {
        let text = if items.is_empty() {
            "There is nothing of that to remove."
        } else {
            "Nothing was deleted."
        };
        screen.line(text);
        return;
    };
    let text = format!(
        "{} deleted for good, {}.",
        plural(pruned.gone.len(), "item"),
        size(bytes(&pruned.gone))
    );
    screen.line(Text::line(Tone::Good, &text));
    for (item, why) in &pruned.left {
        let text = format!("{} stays: {why}", item.name);
        screen.line(Text::line(Tone::Warning, &clean::line(&text)));
    }
}

fn item_json(item: &Item) -> Value {
    json!({ "kind": word(item.kind), "session": item.session, "name": item.name, "bytes": item.bytes })
}
