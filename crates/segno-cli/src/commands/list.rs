//! `segno list`: this project's sessions of all agents, or those of every project.
//!
//! Responsible for: which sessions are shown, the table, and its closing lines. Must not: hide a session
//! because it cannot be read, or leave any out without saying how many.

mod json;
mod stream;

pub use json::trash_json;

use super::Workplace;
use crate::args::ListArgs;
use crate::error::{CliError, ExitCode};
use crate::listing::{Ids, Listed, Namesakes, OWN, Wanted, ordered};
use crate::others::{self, Here, Meter, Other, Others, Survey};
use crate::sessions::Entry;
use crate::terminal::table::{self, Column, Table, plural};
use crate::terminal::{Screen, Text, Tone};
use crate::when;
use segno_agent::project::Project;
use segno_model::Timestamp;
use segno_model::record::ProjectFacts;
use segno_store::catalog::Catalog;
use segno_store::foreign::Agent;
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
    let mut wanted = Wanted {
        project: None,
        // One whose project is unknown may be anybody's, so it is shown everywhere.
        unknown: true,
        source: args.source.as_deref().map(source).transpose()?,
        since: args.since.as_deref().map(|text| when::parse(text, now)).transpose()?,
        live: args.live,
    };
    let cwd = args.project.as_ref().map_or_else(|| place.cwd.clone(), |dir| place.cwd.join(dir));
    let mut catalog = place.stores.catalog();
    let here = Here::begin(catalog.as_mut(), &cwd);
    let own = own(place, catalog.as_mut()).await?;
    let mut survey = Survey::begin(&place.stores, catalog).await.forgetting();
    let project = if own.is_empty() && survey.is_empty() {
        // Nothing is of any project, and nobody needs to wait for git.
        ProjectFacts { cwd: cwd.to_string_lossy().into_owned(), ..ProjectFacts::default() }
    } else {
        here.facts(survey.catalog()).await
    };
    wanted.project = Some(project).filter(|_| !(args.all || args.live));
    let is_whole = args.json || args.children || !screen.look().terminal;
    match survey.progress().filter(|ahead| !is_whole && ahead.of_bytes >= Meter::STEP) {
        Some(ahead) => stream::list(own, survey, ahead, &wanted, now, screen).await,
        None => whole(own, others::read(survey).await, &wanted, args, now, screen),
    }
    Ok(ExitCode::Done)
}

/// Shows the list when all of it is known.
fn whole(
    own: Vec<Listed>,
    mut others: Others,
    wanted: &Wanted,
    args: &ListArgs,
    now: Timestamp,
    screen: &mut Screen,
) {
    let page = Page::new(with(own, &mut others), wanted, args.children, now);
    if args.json {
        screen.json(&json::json(&page, &others, wanted.project.as_ref()));
    } else {
        screen.lines(lines(&page, &others, now, screen.look().columns));
    }
}

/// Every session of every agent, in no particular order, and what else is known about other agents'.
///
/// # Errors
/// When our own cannot be listed.
pub(super) async fn everything(place: &Workplace) -> Result<(Vec<Listed>, Others), CliError> {
    let mut catalog = place.stores.catalog();
    let own = own(place, catalog.as_mut()).await?;
    let mut others = others::all(&place.stores, catalog).await;
    Ok((with(own, &mut others), others))
}

async fn own(place: &Workplace, catalog: Option<&mut Catalog>) -> Result<Vec<Listed>, CliError> {
    let Some(catalog) = catalog else { return Ok(Vec::new()) };
    let entries = place.stores.entries_of(catalog, place.now()).await?;
    Ok(entries.into_iter().map(|entry| Listed::Own(Box::new(entry))).collect())
}

/// Our own sessions and those of others.
fn with(own: Vec<Listed>, others: &mut Others) -> Vec<Listed> {
    let found = std::mem::take(&mut others.sessions).into_iter();
    own.into_iter().chain(found.map(|other| Listed::Other(Box::new(other)))).collect()
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
    /// Of all sessions, among which the shown ones are looked for by their ids.
    ids: Ids,
    /// Also of all sessions.
    namesakes: Namesakes,
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
        let ids = Ids::new(sessions.iter().map(Listed::id));
        let all = sessions.iter().map(|one| (one.source(), one.id(), one.place().0));
        let namesakes = Namesakes::new(all);
        let (held, rest): (Vec<_>, Vec<_>) =
            sessions.into_iter().partition(|session| wanted.holds(session, now));
        let (shown, hidden): (Vec<_>, Vec<_>) =
            held.into_iter().partition(|s| children || !(s.is_child() || s.is_continued()));
        let left: Vec<&Listed> = rest.iter().filter(|session| !session.is_child()).collect();
        Self {
            shown: ordered(shown, now),
            ids,
            namesakes,
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
    let mut cells = any_cells(&session, id, None, now);
    cells.remove(1);
    cells
}

fn any_columns() -> Vec<Column> {
    let mut columns = columns();
    columns.insert(1, Column::left("AGENT"));
    columns
}

/// `told_by` is what tells it from others with its id.
fn any_cells(session: &Listed, id: &str, told_by: Option<&str>, now: Timestamp) -> Vec<Text> {
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
        match told_by {
            Some(name) => Text::line(Tone::Dim, &format!("[{name}]"))
                .with(Tone::Plain, " ")
                .with_text(title(session)),
            None => title(session),
        },
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
        (None, None) if empty => match session {
            Listed::Other(other) if versions(other) > 0 => {
                let versions = plural(versions(other), "earlier version");
                let text = format!("({versions} kept; nothing is said any more)");
                Text::line(Tone::Dim, &text)
            }
            _ => Text::line(Tone::Dim, "(nothing was said)"),
        },
        (None, None) => Text::line(Tone::Dim, "(untitled)"),
    };
    let role = match session {
        Listed::Other(other) if other.is_child() => other.row.role.as_deref().unwrap_or("subagent"),
        Listed::Own(entry) if entry.is_child => "subagent",
        _ => return said,
    };
    Text::default().with(Tone::Dim, &format!("└ {role}: ")).with_text(said)
}

/// How many earlier versions of an emptied session are kept.
fn versions(other: &others::Other) -> usize {
    other.kept.as_ref().map_or(0, |kept| kept.versions)
}

fn lines(page: &Page, others: &Others, now: Timestamp, columns_wide: usize) -> Vec<Text> {
    let mut out =
        if page.shown.is_empty() { nothing(page) } else { table(page, now, columns_wide) };
    out.extend(closing_lines(page, others));
    out
}

/// How many sessions that are gone are named.
const GONE: usize = 5;

/// Sessions that vanished since the last list; told once.
fn gone_lines(gone: &[Other]) -> Vec<Text> {
    let named = gone.iter().take(GONE).map(|session| {
        let title = session.title().map(|title| format!(" ({title})")).unwrap_or_default();
        format!(
            "note: {}{title} is not there any more: {}",
            session.word(),
            session.row.path.display()
        )
    });
    let more = gone.len().checked_sub(GONE).filter(|more| *more > 0);
    let more = more.map(|more| format!("note: and {}", plural(more, "more session")));
    let help = (!gone.is_empty()).then(|| {
        "note: its agent deleted it, or it was moved; `segno keep --all` keeps copies".to_owned()
    });
    named.chain(more).chain(help).map(|text| Text::line(Tone::Warning, &text)).collect()
}

/// What stands below the table.
fn closing_lines(page: &Page, others: &Others) -> Vec<Text> {
    let closing = closing(page).map(|text| Text::line(Tone::Dim, &text));
    let links = others.links.iter();
    let links = links.map(|text| Text::line(Tone::Dim, &format!("note: {text}")));
    let trouble = others.trouble.iter();
    let trouble = trouble.map(|text| Text::line(Tone::Warning, &format!("note: {text}")));
    let gone = gone_lines(&others.gone);
    closing.into_iter().chain(gone).chain(links).chain(trouble).collect()
}

fn table(page: &Page, now: Timestamp, columns_wide: usize) -> Vec<Text> {
    // Whose they are is said only where they are not all ours.
    let only_own = page.shown.iter().all(|session| session.agent().is_none());
    let mut table = Table::new(if only_own { columns() } else { any_columns() });
    for session in &page.shown {
        let told_by = page.namesakes.told_by(session);
        let id = page.ids.short(session.id());
        let mut cells = any_cells(session, id, told_by.as_deref(), now);
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
fn closing(page: &Page) -> Option<String> {
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
    (!parts.is_empty()).then(|| parts.join("; "))
}
