//! `segno list`: this project's sessions, or all.
//!
//! Responsible for: the table, its closing line, and the JSON of `docs/protocol/cli-json.md`. Must not:
//! hide a session because it cannot be read.

use super::Workplace;
use crate::args::ListArgs;
use crate::error::{CliError, ExitCode};
use crate::sessions::{Entry, Standing, short_ids};
use crate::terminal::table::{self, Column, Table, plural};
use crate::terminal::{Screen, Text, Tone};
use segno_model::record::ProjectFacts;
use segno_model::{SessionId, Timestamp};
use serde::Serialize;

/// Lists sessions.
///
/// # Errors
/// When the sessions cannot be listed at all.
pub async fn list(
    args: &ListArgs,
    place: &Workplace,
    screen: &mut Screen,
) -> Result<ExitCode, CliError> {
    let now = place.now();
    let project = place.project().await.facts;
    let entries = place.stores.entries(now).await?;
    // One whose project is unknown may be anybody's, so it is shown everywhere.
    let shown = |e: &&Entry| args.all || e.is_of(&project).unwrap_or(true);
    let chosen: Vec<&Entry> = entries.iter().filter(shown).collect();
    let elsewhere = entries.len() - chosen.len();
    if args.json {
        screen.json(&json(&chosen, elsewhere, args.all, &project));
    } else {
        screen.lines(lines(&chosen, elsewhere, now, screen.look().columns));
    }
    Ok(ExitCode::Done)
}

/// The columns of every listing of sessions.
#[must_use]
pub fn columns() -> Vec<Column> {
    vec![
        Column::left("ID"),
        Column::right("ACTIVE"),
        Column::right("CREATED").leaves(4),
        Column::right("MSGS").leaves(3),
        Column::right("TOKENS").leaves(2),
        Column::right("SIZE").leaves(5),
        Column::left("STATE").leaves(1),
        Column::left("TITLE").shrinks_to(16),
    ]
}

/// The cells of one session; `id` is as much of its id as is shown.
#[must_use]
pub fn cells(entry: &Entry, id: &str, now: Timestamp) -> Vec<Text> {
    let plain = |text: &str| Text::line(Tone::Plain, text);
    vec![
        Text::line(Tone::Accent, id),
        plain(&table::age(now, entry.last_active(now))),
        plain(&table::age(now, entry.created)),
        plain(&entry.messages().to_string()),
        plain(&table::count(entry.totals.usage.context())),
        plain(&table::size(entry.bytes)),
        Text::line(tone(entry.standing), entry.standing.word()),
        title(entry),
    ]
}

fn tone(standing: Standing) -> Tone {
    match standing {
        Standing::Running | Standing::Held => Tone::Good,
        Standing::Waiting | Standing::Interrupted => Tone::Warning,
        Standing::Failed | Standing::Damaged | Standing::Newer | Standing::Unreadable => Tone::Bad,
        Standing::Stopped | Standing::Ended | Standing::Empty => Tone::Dim,
    }
}

fn title(entry: &Entry) -> Text {
    match (entry.title(), &entry.trouble) {
        (Some(title), _) => Text::line(Tone::Plain, title),
        (None, Some(trouble)) => Text::line(Tone::Dim, &format!("({trouble})")),
        (None, None) if entry.is_empty() => Text::line(Tone::Dim, "(nothing was said)"),
        (None, None) => Text::line(Tone::Dim, "(untitled)"),
    }
}

fn lines(chosen: &[&Entry], elsewhere: usize, now: Timestamp, columns_wide: usize) -> Vec<Text> {
    if chosen.is_empty() {
        return nothing(elsewhere);
    }
    let ids: Vec<&SessionId> = chosen.iter().map(|e| &e.id).collect();
    let mut table = Table::new(columns());
    for (entry, id) in chosen.iter().zip(short_ids(&ids)) {
        table.row(cells(entry, &id, now));
    }
    let mut out = table.lines(columns_wide);
    out.extend(closing(chosen, elsewhere).map(|text| Text::line(Tone::Dim, &text)));
    out
}

fn nothing(elsewhere: usize) -> Vec<Text> {
    let line = |text: &str| Text::line(Tone::Plain, text);
    if elsewhere == 0 {
        return vec![
            line("There are no sessions yet."),
            line("`segno` starts one; `segno demo` shows how one survives, without a key."),
        ];
    }
    vec![
        line(&format!(
            "This project has no sessions; there {} elsewhere.",
            if elsewhere == 1 { "is 1".to_owned() } else { format!("are {elsewhere}") }
        )),
        line(
            "`segno list --all` shows them; `segno` starts one here. If this project has moved, tell",
        ),
        line("a session of it with `segno relocate SESSION`."),
    ]
}

/// What the table does not show.
fn closing(chosen: &[&Entry], elsewhere: usize) -> Option<String> {
    let unread = chosen.iter().filter(|e| e.standing == Standing::Unreadable).count();
    let mut parts = Vec::new();
    if elsewhere > 0 {
        parts.push(format!("{} elsewhere (segno list --all)", plural(elsewhere, "more session")));
    }
    if unread > 0 {
        parts.push(format!("{} could not be read", plural(unread, "session")));
    }
    (!parts.is_empty()).then(|| parts.join("; "))
}

#[derive(Serialize)]
struct Listing<'a> {
    version: u32,
    project: Option<&'a str>,
    sessions: Vec<Item<'a>>,
    elsewhere: usize,
    unreadable: usize,
}

#[derive(Serialize)]
struct Item<'a> {
    id: &'a SessionId,
    name: Option<&'a str>,
    first_prompt: Option<&'a str>,
    state: Standing,
    created: Timestamp,
    last_message: Option<Timestamp>,
    user_messages: u64,
    assistant_messages: u64,
    tool_results: u64,
    tokens: Tokens,
    bytes: u64,
    model: Option<String>,
    cwd: Option<&'a str>,
    child: bool,
    error: Option<&'a str>,
}

#[derive(Serialize)]
struct Tokens {
    input: u64,
    output: u64,
    cache_read: u64,
    cache_write: u64,
}

fn json<'a>(
    chosen: &[&'a Entry],
    elsewhere: usize,
    all: bool,
    project: &'a ProjectFacts,
) -> Listing<'a> {
    Listing {
        version: 1,
        project: Some(project.cwd.as_str()).filter(|_| !all),
        sessions: chosen.iter().map(|e| item(e)).collect(),
        elsewhere,
        unreadable: chosen.iter().filter(|e| e.standing == Standing::Unreadable).count(),
    }
}

/// What is in the trash, in the shape of [`list`] without places.
#[must_use]
pub fn trash_json(entries: &[&Entry]) -> serde_json::Value {
    let sessions: Vec<Item<'_>> = entries.iter().map(|e| item(e)).collect();
    serde_json::json!({ "version": 1, "sessions": sessions })
}

fn item(entry: &Entry) -> Item<'_> {
    let usage = &entry.totals.usage;
    Item {
        id: &entry.id,
        name: entry.name.as_deref(),
        first_prompt: entry.first_prompt.as_deref(),
        state: entry.standing,
        created: entry.created,
        last_message: entry.last_message,
        user_messages: entry.totals.user_messages,
        assistant_messages: entry.totals.assistant_messages,
        tool_results: entry.totals.tool_results,
        tokens: Tokens {
            input: usage.input,
            output: usage.output,
            cache_read: usage.cache_read,
            cache_write: usage.cache_write,
        },
        bytes: entry.bytes,
        model: entry.model.as_ref().map(ToString::to_string),
        cwd: entry.project.as_ref().map(|p| p.cwd.as_str()),
        child: entry.is_child,
        error: entry.trouble.as_deref(),
    }
}
