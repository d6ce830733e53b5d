//! Choosing a session from a list.
//!
//! Responsible for: the rows of the picker: this project's sessions, then all others, each with its subagents.
//! Must not: open one.

use super::keyboard::Keyboard;
use crate::commands::list::state_tone;
use crate::engine::{Engine, Signals};
use crate::error::{CliError, ExitCode};
use crate::listing::Listed;
use crate::sessions::{Entry, Standing};
use crate::terminal::picker::{Picker, pick};
use crate::terminal::table::{Column, age, count, plural};
use crate::terminal::{Look, Text, Tone};
use segno_model::store::Clock as _;
use segno_model::{SessionId, Timestamp};
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
    let rows = rows
        .into_iter()
        .filter(|row| !matches!(row.standing, Standing::Empty | Standing::Unreadable));
    let (mut children, rows): (Vec<Entry>, Vec<Entry>) = rows.partition(|row| row.is_child);
    let (ours, others): (Vec<Entry>, Vec<Entry>) =
        rows.into_iter().partition(|row| row.is_of(&engine.project.facts) == Some(true));
    if ours.is_empty() && others.is_empty() {
        return Err(CliError::new(ExitCode::NotFound, "There is no session to resume yet.")
            .next("`segno` starts one."));
    }
    let here = ours.len();
    let mut ordered = Vec::new();
    for (i, session) in ours.into_iter().chain(others).enumerate() {
        let own: Vec<Entry> = children.extract_if(.., |child| belongs(child, &session)).collect();
        ordered.push(Row {
            entry: session,
            is_child: false,
            children: own.len(),
            is_here: i < here,
        });
        let below = |child| Row { entry: child, is_child: true, children: 0, is_here: i < here };
        ordered.extend(own.into_iter().map(below));
    }
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
    Ok(picked.and_then(|i| ordered.get(i)).map(|row| row.entry.id.clone()))
}

/// A session in the list.
struct Row {
    entry: Entry,
    /// Whether it is a subagent's of the one before it.
    is_child: bool,
    /// How many subagents it has.
    children: usize,
    /// Whether it is of this project.
    is_here: bool,
}

fn belongs(child: &Entry, session: &Entry) -> bool {
    child.parent.as_deref() == Some(session.id.as_str())
}

/// Where a session stands, and who works on it.
fn state_shown(row: &Entry) -> String {
    match row.standing {
        Standing::Ended | Standing::Stopped => String::new(),
        _ => Listed::Own(Box::new(row.clone())).state_shown(),
    }
}

fn list(rows: &[Row], here: usize) -> Picker {
    let now = SystemClock.now();
    let columns = vec![
        Column::left("CREATED").leaves(3),
        Column::left("ACTIVE").leaves(1),
        Column::right("TOKENS").leaves(2),
        Column::left("STATE").shrinks_to(11).leaves(5),
        Column::left("SESSION").shrinks_to(12),
        Column::left("DIRECTORY").shrinks_to(8).leaves(4),
    ];
    let sessions = rows.iter().filter(|row| !row.is_child).count();
    let title = match (here, sessions - here) {
        (0, _) => "Sessions (none of this project)".to_owned(),
        (_, 0) => "Sessions of this project".to_owned(),
        (ours, others) => format!("Sessions: {ours} of this project, then {others} elsewhere"),
    };
    let mut picker = Picker::new(&title, "resume", columns);
    for row in rows {
        let entry = &row.entry;
        let more = format!("{} {}", entry.id, entry.first_prompt.as_deref().unwrap_or(""));
        match row.is_child {
            false => picker.row(cells(row, now), &more),
            true => picker.row_below(cells(row, now), &more, "subagents"),
        }
    }
    picker
}

fn cells(Row { entry, is_child, children, is_here }: &Row, now: Timestamp) -> Vec<Text> {
    let title = Text::line(Tone::Plain, entry.title().unwrap_or(""));
    let title = match (is_child, children) {
        (true, _) => Text::default().with(Tone::Dim, "└ subagent: ").with_text(title),
        (false, 0) => title,
        (false, n) => title.with(Tone::Dim, &format!(" ({})", plural(*n, "subagent"))),
    };
    let place = entry.project.as_ref().filter(|_| !is_here).map_or("", |p| p.cwd.as_str());
    let usage = entry.totals.usage;
    vec![
        Text::line(Tone::Dim, &age(now, entry.created)),
        Text::line(Tone::Plain, &age(now, entry.last_active(now))),
        Text::line(Tone::Plain, &count(usage.input.saturating_add(usage.output))),
        Text::line(state_tone(entry.standing.word()), &state_shown(entry)),
        title,
        Text::line(Tone::Dim, place),
    ]
}
