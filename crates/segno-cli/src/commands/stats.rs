//! `segno stats`: what was spent, over the sessions of all agents.
//!
//! Responsible for: counting every response once, however many files hold it, and the table. Must not: guess
//! a price that is not known.

use super::Workplace;
use super::list::{everything, project_at, source};
use crate::args::{StatsArgs, StatsBy};
use crate::error::{CliError, ExitCode};
use crate::listing::{Listed, Wanted};
use crate::price;
use crate::stores::Stores;
use crate::terminal::table::{Column, Table, count};
use crate::terminal::{Screen, Text, Tone};
use crate::when;
use segno_model::record::{Body, Message, ModelRef, Usage};
use segno_model::store::Scanned;
use segno_model::{SessionId, Timestamp};
use segno_store::catalog::{Catalog, Spent};
use serde::Serialize;
use std::collections::{BTreeMap, HashSet};

/// Sums up.
///
/// # Errors
/// When our own sessions cannot be listed, or an option means nothing.
pub async fn stats(
    args: &StatsArgs,
    place: &Workplace,
    screen: &mut Screen,
) -> Result<ExitCode, CliError> {
    let now = place.now();
    let since = args.since.as_deref().map(|text| when::parse(text, now)).transpose()?;
    let wanted = Wanted {
        project: match &args.project {
            Some(dir) => Some(project_at(place, dir).await),
            None => None,
        },
        source: args.source.as_deref().map(source).transpose()?,
        ..Wanted::default()
    };
    let (mut sessions, others) = everything(place).await?;
    // Copies come after what they were copied from, so that the original is what counts.
    sessions.sort_by_cached_key(|s| (s.created(), s.last_active(now), s.id().to_owned()));
    let mut sum = Sum { by: args.by, since, rows: BTreeMap::new(), seen: HashSet::new() };
    let mut catalog = Catalog::open(&place.stores.home.catalog());
    let mut trouble = others.trouble;
    for session in &sessions {
        let counts = wanted.holds(session, now);
        match spent(session, &mut catalog, &place.stores) {
            Ok(spent) => sum.add(session, &spent, counts),
            Err(why) => trouble.push(format!("{}: {why}", session.id())),
        }
    }
    print(&sum, args, &trouble, screen);
    Ok(ExitCode::Done)
}

fn spent(session: &Listed, catalog: &mut Catalog, stores: &Stores) -> Result<Vec<Spent>, String> {
    match session {
        Listed::Other(other) => Ok(catalog.spent(&other.row)),
        Listed::Own(entry) => own_spent(stores, &entry.id),
    }
}

/// Every response in one of our logs. A fork's copies have the same time and tokens as their originals.
fn own_spent(stores: &Stores, id: &SessionId) -> Result<Vec<Spent>, String> {
    let mut spent = Vec::new();
    let visit = &mut |item| {
        let Scanned::Record(record) = item else { return true };
        let at = record.envelope.at;
        let mut add = |model: &ModelRef, usage: Usage| {
            let key = format!("{} {model} {usage:?} {}", at.0, record.seq());
            let response = Some(Spent::response_key(&key));
            spent.push(Spent { response, at, model: model.clone(), usage });
        };
        match record.body() {
            Body::Message(message) => {
                if let Message::Assistant(reply) = &**message
                    && let Some(usage) = reply.usage
                {
                    add(&reply.model, usage);
                }
            }
            Body::Usage(usage) => add(&usage.model, usage.usage),
            Body::Compaction(compaction) => {
                if let (Some(model), Some(usage)) = (&compaction.model, compaction.usage) {
                    add(model, usage);
                }
            }
            _ => {}
        }
        true
    };
    stores.files.scan_now(id, visit).map_err(|e| e.to_string())?;
    Ok(spent)
}

/// What one line sums up.
#[derive(Debug, Clone, Default, Serialize)]
struct Line {
    responses: u64,
    sessions: u64,
    /// Responses that another session holds as well, and that are counted there.
    inherited: u64,
    input: u64,
    output: u64,
    cache_read: u64,
    cache_write: u64,
    /// US dollars, of the responses whose model has a known price.
    usd: f64,
    /// Responses without one.
    unpriced: u64,
    #[serde(skip)]
    last_session: Option<String>,
}

impl Line {
    fn add(&mut self, session: &str, spent: &Spent) {
        self.responses += 1;
        if self.last_session.as_deref() != Some(session) {
            self.sessions += 1;
            self.last_session = Some(session.to_owned());
        }
        let usage = &spent.usage;
        self.input += usage.input;
        self.output += usage.output;
        self.cache_read += usage.cache_read;
        self.cache_write += usage.cache_write;
        match price::usd(&spent.model, usage) {
            Some(usd) => self.usd += usd,
            None => self.unpriced += 1,
        }
    }
}

struct Sum {
    by: StatsBy,
    since: Option<Timestamp>,
    rows: BTreeMap<String, Line>,
    seen: HashSet<u64>,
}

impl Sum {
    /// Adds a session. One that does not count still tells which responses are originals of it.
    fn add(&mut self, session: &Listed, spent: &[Spent], counts: bool) {
        let mut own = HashSet::new();
        for one in spent {
            let fresh = one.response.is_none_or(|response| self.seen.insert(response));
            if !counts || self.since.is_some_and(|since| one.at < since) {
                continue;
            }
            let key = self.key(session, one);
            match (fresh, one.response) {
                (true, _) => self.rows.entry(key).or_default().add(session.id(), one),
                // A response that is told in several records of one session is no copy.
                (false, Some(response)) if !own.contains(&response) => {
                    self.rows.entry(key).or_default().inherited += 1;
                }
                (false, _) => {}
            }
            own.extend(one.response);
        }
    }

    fn key(&self, session: &Listed, spent: &Spent) -> String {
        match self.by {
            StatsBy::Day => spent.at.to_string()[..10].to_owned(),
            StatsBy::Model => spent.model.to_string(),
            StatsBy::Agent => session.source().to_owned(),
            StatsBy::Session => format!("{}:{}", session.source(), session.id()),
            StatsBy::Project => match session {
                Listed::Own(entry) => entry.project.as_ref().map(|project| project.cwd.clone()),
                Listed::Other(other) => Some(other.row.project.cwd.clone()),
            }
            .filter(|cwd| !cwd.is_empty())
            .unwrap_or_else(|| "(unknown)".to_owned()),
        }
    }

    fn total(&self) -> Line {
        let mut total = Line::default();
        for line in self.rows.values() {
            total.responses += line.responses;
            total.inherited += line.inherited;
            total.input += line.input;
            total.output += line.output;
            total.cache_read += line.cache_read;
            total.cache_write += line.cache_write;
            total.usd += line.usd;
            total.unpriced += line.unpriced;
        }
        total
    }
}

fn print(sum: &Sum, args: &StatsArgs, trouble: &[String], screen: &mut Screen) {
    let total = sum.total();
    if args.json {
        let word = format!("{:?}", args.by).to_lowercase();
        screen.json(&serde_json::json!({
            "version": 1, "by": word, "rows": sum.rows, "total": total,
            "prices_of": price::AS_OF, "trouble": trouble,
        }));
        return;
    }
    if sum.rows.is_empty() {
        screen.line("No session says what was spent.");
    } else {
        screen.lines(table(sum, &total).lines(screen.look().columns));
    }
    if total.unpriced > 0 {
        let text = format!(
            "≥: {} of a model whose price is not known here (prices as of {})",
            crate::terminal::table::plural(
                usize::try_from(total.unpriced).unwrap_or(usize::MAX),
                "response"
            ),
            price::AS_OF
        );
        screen.line(Text::line(Tone::Dim, &text));
    }
    for trouble in trouble {
        screen.line(Text::line(Tone::Warning, &format!("note: {trouble}")));
    }
}

fn table(sum: &Sum, total: &Line) -> Table {
    let title = match sum.by {
        StatsBy::Day => "DAY",
        StatsBy::Project => "PROJECT",
        StatsBy::Model => "MODEL",
        StatsBy::Agent => "AGENT",
        StatsBy::Session => "SESSION",
    };
    let mut table = Table::new(vec![
        Column::left(title).shrinks_to(16),
        Column::right("RESPONSES").leaves(3),
        Column::right("INHERITED").leaves(4),
        Column::right("INPUT"),
        Column::right("OUTPUT"),
        Column::right("CACHE READ").leaves(1),
        Column::right("CACHE WRITTEN").leaves(2),
        Column::right("USD"),
    ]);
    for (key, line) in &sum.rows {
        table.row(cells(key, line));
    }
    table.row(cells("total", total));
    table
}

fn cells(key: &str, line: &Line) -> Vec<Text> {
    let plain = |text: String| Text::line(Tone::Plain, &text);
    let usd = match (line.unpriced, line.usd) {
        (0, usd) => format!("{usd:.2}"),
        (_, 0.0) => "?".to_owned(),
        (_, usd) => format!("≥ {usd:.2}"),
    };
    vec![
        Text::line(Tone::Accent, key),
        plain(line.responses.to_string()),
        plain(line.inherited.to_string()),
        plain(count(line.input)),
        plain(count(line.output)),
        plain(count(line.cache_read)),
        plain(count(line.cache_write)),
        plain(usd),
    ]
}
