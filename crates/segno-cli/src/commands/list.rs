//! `segno list`: this project's sessions of all agents, or those of every project.
//!
//! Responsible for: the table, its closing lines, and the JSON of `docs/protocol/cli-json.md`. Must not:
//! hide a session because it cannot be read, or leave any out without saying how many.

use super::Workplace;
use crate::args::ListArgs;
use crate::error::{CliError, ExitCode};
use crate::listing::{Listed, OWN, Wanted, ordered, short_ids};
use crate::others::{self, Others};
use crate::sessions::Entry;
use crate::terminal::table::{self, Column, Table, plural};
use crate::terminal::{Screen, Text, Tone};
use crate::when;
use segno_agent::project::Project;
use segno_model::Timestamp;
use segno_model::record::ProjectFacts;
use segno_store::foreign::Agent;
use serde::Serialize;
use std::path::Path;

/// Lists sessions.
///
/// # Errors
/// When our own sessions cannot be listed at all, or an option means nothing.
pub async fn list(
    args: &ListArgs,
    place: &Workplace,
    screen: &mut Screen,
) -> Result<ExitCode, CliError> {
    let now = place.now();
    let project = match &args.project {
        Some(dir) => project_at(place, dir).await,
        None => place.project().await,
    };
    let everywhere = args.all || args.live;
    let wanted = Wanted {
        project: Some(project.clone()).filter(|_| !everywhere),
        // One whose project is unknown may be anybody's, so it is shown everywhere.
        unknown: true,
        source: args.source.as_deref().map(source).transpose()?,
        since: args.since.as_deref().map(|text| when::parse(text, now)).transpose()?,
        live: args.live,
    };
    let (sessions, others) = everything(place, others::PATIENCE).await?;
    let page = Page::new(sessions, &wanted, args.children, now);
    if args.json {
        screen.json(&json(&page, &others, Some(&project).filter(|_| !everywhere)));
    } else {
        screen.lines(lines(&page, &others, now, screen.look().columns));
    }
    Ok(ExitCode::Done)
}

/// Every session of every agent, in no particular order, and what else is known about other agents'.
///
/// # Errors
/// When our own cannot be listed.
pub(super) async fn everything(
    place: &Workplace,
    limit: u64,
) -> Result<(Vec<Listed>, Others), CliError> {
    let own = place.stores.entries(place.now()).await?;
    let mut others = others::all(&place.stores, limit).await;
    let mut sessions: Vec<Listed> = own.into_iter().map(|e| Listed::Own(Box::new(e))).collect();
    let found = std::mem::take(&mut others.sessions);
    sessions.extend(found.into_iter().map(|other| Listed::Other(Box::new(other))));
    Ok((sessions, others))
}

/// The word for an agent, checked.
///
/// # Errors
/// When no agent has it.
pub(super) fn source(word: &str) -> Result<String, CliError> {
    let word = word.to_ascii_lowercase();
    if word == OWN || Agent::parse(&word).is_some() {
        return Ok(word);
    }
    let words: Vec<&str> = std::iter::once(OWN).chain(Agent::ALL.map(Agent::id)).collect();
    Err(CliError::usage(format!("`{word}` is no agent that is known here."))
        .next(format!("These are: {}.", words.join(", "))))
}

/// The facts of the project in a directory; one that is gone is looked for under its path.
pub(super) async fn project_at(place: &Workplace, dir: &Path) -> ProjectFacts {
    let dir = place.cwd.join(dir);
    if dir.is_dir() {
        return Project::facts_of(&dir).await;
    }
    ProjectFacts { cwd: dir.to_string_lossy().into_owned(), ..ProjectFacts::default() }
}

/// What is shown, and how much is not.
struct Page {
    shown: Vec<Listed>,
    /// Sessions, not subagents', that are left out by the filters.
    elsewhere: usize,
    /// Of those, how many are damaged.
    damaged_elsewhere: usize,
    /// Subagents' sessions that would be shown.
    children: usize,
    /// Earlier parts of sessions that go on in another file and would be shown.
    continued: usize,
}

impl Page {
    fn new(sessions: Vec<Listed>, wanted: &Wanted, children: bool, now: Timestamp) -> Self {
        let (held, rest): (Vec<_>, Vec<_>) =
            sessions.into_iter().partition(|session| wanted.holds(session, now));
        let (shown, hidden): (Vec<_>, Vec<_>) =
            held.into_iter().partition(|s| children || !(s.is_child() || s.is_continued()));
        let left: Vec<&Listed> = rest.iter().filter(|session| !session.is_child()).collect();
        Self {
            shown: ordered(shown, now),
            elsewhere: left.len(),
            damaged_elsewhere: left.iter().filter(|session| session.is_damaged()).count(),
            children: hidden.iter().filter(|session| session.is_child()).count(),
            continued: hidden.iter().filter(|session| !session.is_child()).count(),
        }
    }

    fn needing_attention(&self) -> usize {
        let needs = |session: &&Listed| matches!(session, Listed::Own(entry) if entry.standing.needs_attention());
        self.shown.iter().filter(needs).count()
    }

    fn unreadable(&self) -> usize {
        self.shown.iter().filter(|session| session.state() == "unreadable").count()
    }
}

/// The columns of a listing of our own sessions.
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

/// The cells of one session of ours; `id` is as much of its id as is shown.
#[must_use]
pub fn cells(entry: &Entry, id: &str, now: Timestamp) -> Vec<Text> {
    let session = Listed::Own(Box::new(entry.clone()));
    let mut cells = any_cells(&session, id, now);
    cells.remove(1);
    cells
}

fn any_columns() -> Vec<Column> {
    let mut columns = columns();
    columns.insert(1, Column::left("AGENT"));
    columns
}

fn any_cells(session: &Listed, id: &str, now: Timestamp) -> Vec<Text> {
    let plain = |text: &str| Text::line(Tone::Plain, text);
    let age = |at: Option<Timestamp>| at.map_or_else(|| "-".to_owned(), |at| table::age(now, at));
    let size = match session.bytes() {
        0 => "-".to_owned(),
        bytes => table::size(bytes),
    };
    vec![
        Text::line(Tone::Accent, id),
        plain(session.source()),
        plain(&age(session.last_active(now))),
        plain(&age(session.created())),
        plain(&session.messages().to_string()),
        plain(&table::count(session.usage().context())),
        plain(&size),
        Text::line(state_tone(session.state()), &session.state_shown()),
        title(session),
    ]
}

/// How a state looks.
#[must_use]
pub fn state_tone(state: &str) -> Tone {
    match state {
        "running" | "held" | "open" => Tone::Good,
        "waiting" | "interrupted" => Tone::Warning,
        "failed" | "exhausted" | "unknown" | "damaged" | "newer" | "unreadable" => Tone::Bad,
        _ => Tone::Dim,
    }
}

fn title(session: &Listed) -> Text {
    let trouble = match session {
        Listed::Own(entry) => entry.trouble.as_deref(),
        Listed::Other(other) => other.row.problem.as_deref().filter(|_| !other.row.readable),
    };
    let empty =
        matches!(session, Listed::Own(entry) if entry.is_empty()) || session.state() == "empty";
    let said = match (session.title(), trouble) {
        (Some(title), _) => Text::line(Tone::Plain, title),
        (None, Some(trouble)) => Text::line(Tone::Dim, &format!("({trouble})")),
        (None, None) if empty => Text::line(Tone::Dim, "(nothing was said)"),
        (None, None) => Text::line(Tone::Dim, "(untitled)"),
    };
    let role = match session {
        Listed::Other(other) if other.is_child() => other.row.role.as_deref().unwrap_or("subagent"),
        Listed::Own(entry) if entry.is_child => "subagent",
        _ => return said,
    };
    Text::default().with(Tone::Dim, &format!("└ {role}: ")).with_text(said)
}

fn lines(page: &Page, others: &Others, now: Timestamp, columns_wide: usize) -> Vec<Text> {
    let mut out =
        if page.shown.is_empty() { nothing(page) } else { table(page, now, columns_wide) };
    out.extend(closing(page, others).map(|text| Text::line(Tone::Dim, &text)));
    out.extend(
        others.trouble.iter().map(|trouble| Text::line(Tone::Warning, &format!("note: {trouble}"))),
    );
    out
}

fn table(page: &Page, now: Timestamp, columns_wide: usize) -> Vec<Text> {
    let ids: Vec<&str> = page.shown.iter().map(Listed::id).collect();
    // Whose they are is said only where they are not all ours.
    let only_own = page.shown.iter().all(|session| session.agent().is_none());
    let mut table = Table::new(if only_own { columns() } else { any_columns() });
    for (session, id) in page.shown.iter().zip(short_ids(&ids)) {
        let mut cells = any_cells(session, &id, now);
        if only_own {
            cells.remove(1);
        }
        table.row(cells);
    }
    table.lines(columns_wide)
}

fn nothing(page: &Page) -> Vec<Text> {
    let line = |text: &str| Text::line(Tone::Plain, text);
    if page.elsewhere == 0 {
        return vec![
            line("There are no sessions yet."),
            line("`segno` starts one; `segno demo` shows how one survives, without a key."),
        ];
    }
    vec![
        line("No session is of this project, or fits what was asked for."),
        line(
            "`segno list --all` shows all; `segno` starts one here. If this project has moved, tell",
        ),
        line("a session of it with `segno relocate SESSION`."),
    ]
}

/// What the table does not show.
fn closing(page: &Page, others: &Others) -> Option<String> {
    let mut parts = Vec::new();
    if page.elsewhere > 0 {
        let damaged = match page.damaged_elsewhere {
            0 => String::new(),
            n => format!(", {n} damaged"),
        };
        parts.push(format!(
            "{} elsewhere{damaged} (segno list --all)",
            plural(page.elsewhere, "more session")
        ));
    }
    if page.children > 0 {
        parts.push(format!("{} of subagents (--children)", plural(page.children, "session")));
    }
    if page.continued > 0 {
        parts.push(format!(
            "{} that went on in another one (--children)",
            plural(page.continued, "session")
        ));
    }
    if page.needing_attention() > 0 {
        let sessions = plural(page.needing_attention(), "session");
        parts.push(format!("{sessions} in need of attention (!)"));
    }
    if page.unreadable() > 0 {
        parts.push(format!("{} could not be read", plural(page.unreadable(), "session")));
    }
    if others.unread.sessions > 0 {
        parts.push(format!(
            "{} ({}) not read yet; the next `segno list` goes on",
            plural(others.unread.sessions, "older session"),
            table::size(others.unread.bytes)
        ));
    }
    (!parts.is_empty()).then(|| parts.join("; "))
}

#[derive(Serialize)]
struct Listing<'a> {
    version: u32,
    project: Option<&'a str>,
    sessions: Vec<Item<'a>>,
    elsewhere: usize,
    children: usize,
    continued: usize,
    unreadable: usize,
    unread: usize,
    trouble: &'a [String],
}

#[derive(Serialize)]
struct Item<'a> {
    source: &'static str,
    id: &'a str,
    name: Option<&'a str>,
    title: Option<&'a str>,
    first_prompt: Option<&'a str>,
    state: &'static str,
    needs_attention: bool,
    created: Option<Timestamp>,
    last_message: Option<Timestamp>,
    user_messages: u64,
    assistant_messages: u64,
    tool_results: u64,
    tokens: Tokens,
    bytes: u64,
    model: Option<String>,
    cwd: Option<&'a str>,
    child: bool,
    parent: Option<&'a str>,
    fork_of: Option<&'a str>,
    continued_in: Option<&'a str>,
    path: Option<String>,
    agent_version: Option<&'a str>,
    archived: bool,
    pid: Option<u32>,
    findings: Option<Findings>,
    error: Option<&'a str>,
}

#[derive(Serialize)]
struct Tokens {
    input: u64,
    output: u64,
    cache_read: u64,
    cache_write: u64,
}

#[derive(Serialize)]
struct Findings {
    notes: u32,
    warnings: u32,
    damage: u32,
}

fn json<'a>(page: &'a Page, others: &'a Others, project: Option<&'a ProjectFacts>) -> Listing<'a> {
    Listing {
        version: 2,
        project: project.map(|project| project.cwd.as_str()),
        sessions: page.shown.iter().map(item).collect(),
        elsewhere: page.elsewhere,
        children: page.children,
        continued: page.continued,
        unreadable: page.unreadable(),
        unread: others.unread.sessions,
        trouble: &others.trouble,
    }
}

/// What is in the trash, in the shape of [`list`] without places.
#[must_use]
pub fn trash_json(entries: &[&Entry]) -> serde_json::Value {
    let sessions: Vec<Item<'_>> = entries.iter().map(|e| own_item(e)).collect();
    serde_json::json!({ "version": 2, "sessions": sessions })
}

fn item(session: &Listed) -> Item<'_> {
    match session {
        Listed::Own(entry) => own_item(entry),
        Listed::Other(other) => other_item(session, other),
    }
}

fn own_item(entry: &Entry) -> Item<'_> {
    let usage = &entry.totals.usage;
    Item {
        source: OWN,
        id: entry.id.as_str(),
        name: entry.name.as_deref(),
        title: None,
        first_prompt: entry.first_prompt.as_deref(),
        state: entry.standing.word(),
        needs_attention: entry.standing.needs_attention(),
        created: Some(entry.created),
        last_message: entry.last_message,
        user_messages: entry.totals.user_messages,
        assistant_messages: entry.totals.assistant_messages,
        tool_results: entry.totals.tool_results,
        tokens: tokens(usage),
        bytes: entry.bytes,
        model: entry.model.as_ref().map(ToString::to_string),
        cwd: entry.project.as_ref().map(|project| project.cwd.as_str()),
        child: entry.is_child,
        parent: None,
        fork_of: None,
        continued_in: None,
        path: None,
        agent_version: None,
        archived: false,
        pid: entry.pid,
        findings: None,
        error: entry.trouble.as_deref(),
    }
}

fn other_item<'a>(session: &'a Listed, other: &'a others::Other) -> Item<'a> {
    let row = &other.row;
    Item {
        source: session.source(),
        id: &row.id,
        name: row.name.as_deref(),
        title: row.title.as_deref(),
        first_prompt: row.first_prompt.as_deref(),
        state: other.state.word(),
        needs_attention: false,
        created: row.created,
        last_message: row.last_message_at,
        user_messages: row.totals.user_messages,
        assistant_messages: row.totals.assistant_messages,
        tool_results: row.totals.tool_results,
        tokens: tokens(&row.totals.usage),
        bytes: row.bytes,
        model: row.model.as_ref().map(ToString::to_string),
        cwd: Some(row.project.cwd.as_str()).filter(|cwd| !cwd.is_empty()),
        child: other.is_child(),
        parent: row.parent.as_deref(),
        fork_of: row.fork_of.as_deref(),
        continued_in: row.continued_in.as_deref(),
        path: Some(row.path.to_string_lossy().into_owned()),
        agent_version: row.version.as_deref(),
        archived: row.archived,
        pid: other.pid,
        findings: Some(Findings { notes: row.notes, warnings: row.warnings, damage: row.damage }),
        error: row.problem.as_deref(),
    }
}

fn tokens(usage: &segno_model::record::Usage) -> Tokens {
    Tokens {
        input: usage.input,
        output: usage.output,
        cache_read: usage.cache_read,
        cache_write: usage.cache_write,
    }
}
