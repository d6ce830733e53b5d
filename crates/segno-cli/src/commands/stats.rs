//! `segno stats`: what was spent, over the sessions of all agents, or in one session and its branches.
//!
//! Responsible for: counting every response once, however many files hold it. Must not: guess a price or
//! tokens that are not known.

mod session;
mod table;

pub(crate) use session::lines as session_lines;

use super::Workplace;
use super::list::{everything, project_at, source};
use crate::args::{StatsArgs, StatsBy};
use crate::config;
use crate::costs::SessionCosts;
use crate::error::{CliError, ExitCode};
use crate::listing::{Listed, Wanted};
use crate::others::Target;
use crate::price::Prices;
use crate::stores::Stores;
use crate::terminal::Screen;
use crate::when;
use segno_model::Timestamp;
use segno_model::accounting::{Entry, Kind, Purpose, Sum};
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
    let prices = Prices::new(&config::read(&place.stores.home.config)?.prices);
    let since = args.since.as_deref().map(|text| when::parse(text, now)).transpose()?;
    let target = match &args.session {
        Some(query) => Some(place.stores.find_any(query, &place.cwd).await?),
        None => None,
    };
    let by = args.by.unwrap_or(match &target {
        Some(Target::Own(_)) => StatsBy::Branch,
        Some(Target::Other(_)) => StatsBy::Model,
        None => StatsBy::Day,
    });
    match (&target, by) {
        (Some(Target::Own(id)), StatsBy::Branch) if since.is_none() => {
            session::show(id, &prices, args.json, place, screen)?;
            return Ok(ExitCode::Done);
        }
        (_, StatsBy::Branch) => return Err(no_branches()),
        _ => {}
    }
    let only = target.map(|target| match target {
        Target::Own(id) => id.to_string(),
        Target::Other(session) => session.row.id.clone(),
    });
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
    sessions.sort_by(|a, b| {
        let by = |s: &'_ Listed| (s.created(), s.last_active(now));
        by(a).cmp(&by(b)).then_with(|| (a.id(), a.place()).cmp(&(b.id(), b.place())))
    });
    let originals = sessions.iter().filter_map(|session| match session {
        Listed::Other(other) => Some(other.word()),
        Listed::Own(_) => None,
    });
    let mut all = All {
        by,
        since,
        prices: &prices,
        rows: BTreeMap::new(),
        seen: HashSet::new(),
        originals: originals.collect(),
    };
    let mut catalog = Catalog::open(&place.stores.home.catalog());
    let mut trouble = others.trouble;
    for session in &sessions {
        let asked = only.as_deref().is_none_or(|id| id == session.id());
        let counts = asked && wanted.holds(session, now);
        match spent(session, &mut catalog, &place.stores) {
            Ok(spent) => all.add(session, &spent, counts),
            Err(why) => trouble.push(format!("{}: {why}", session.id())),
        }
        if let Listed::Other(other) = session
            && counts
            && !other.row.readable
        {
            let why = other.row.problem.as_deref().unwrap_or("it cannot be read");
            trouble.push(format!("not in it: {}: {why}", other.word()));
        }
    }
    table::print(&all, args.json, &trouble, screen);
    Ok(ExitCode::Done)
}

fn no_branches() -> CliError {
    CliError::usage("Branches are of one session of ours, and of all times.")
        .because("sessions of other agents, and several at once, are not summed up by branch")
        .next("`segno stats SESSION --by branch` without `--since`, or another `--by`.")
}

/// One thing that was spent, and what it is known by in every file that holds it.
struct Item {
    response: Option<u64>,
    /// Whether it was not made here: it came with an import.
    imported: bool,
    entry: Entry,
}

fn spent(session: &Listed, catalog: &mut Catalog, stores: &Stores) -> Result<Vec<Item>, String> {
    match session {
        Listed::Other(other) => Ok(catalog.spent(&other.row).into_iter().map(other_item).collect()),
        Listed::Own(entry) => {
            let costs = SessionCosts::read(stores, &entry.id).map_err(|e| e.to_string())?;
            // A subagent's session may be listed itself, and is counted where it was started.
            let mut items = own_items(&costs, entry.id.as_str());
            for (child, costs) in costs.children(stores) {
                items.extend(own_items(&costs, &child));
            }
            Ok(items)
        }
    }
}

fn other_item(spent: Spent) -> Item {
    let Spent { response, at, model, usage } = spent;
    let (purpose, usage) = (Purpose::Reply, Some(usage));
    let kind = Kind::Call { model, purpose, usage, ms: None };
    Item { response, imported: false, entry: Entry { key: 0, since: at, at, node: None, kind } }
}

fn own_items(costs: &SessionCosts, id: &str) -> Vec<Item> {
    let item = |entry: &Entry| own_item(entry, costs.made_in(id, entry.key));
    costs.accounts.entries().map(item).collect()
}

/// A fork's copies have the same number and time as their originals, and name the same subagents; a subagent's
/// copy goes by the id of the one in which it was made.
fn own_item(entry: &Entry, child: &str) -> Item {
    let (what, imported) = match &entry.kind {
        Kind::Call { model, .. } => (model.to_string(), entry.node == Some(entry.key)),
        Kind::Tools { .. } => ("tools".to_owned(), false),
    };
    let key = format!("{child} {} {} {what}", entry.key, entry.since.0);
    Item { response: Some(Spent::response_key(&key)), imported, entry: entry.clone() }
}

/// What one line sums up.
#[derive(Debug, Clone, Default, Serialize)]
struct Line {
    #[serde(flatten)]
    sum: Sum,
    sessions: u64,
    /// Responses that another session holds as well, and that are counted there.
    inherited: u64,
    #[serde(skip)]
    last_session: Option<String>,
}

impl Line {
    fn add(&mut self, session: &str, entry: &Entry, prices: &Prices) {
        if self.last_session.as_deref() != Some(session) {
            self.sessions += 1;
            self.last_session = Some(session.to_owned());
        }
        let price = match &entry.kind {
            Kind::Call { model, .. } if !model.id.is_empty() => prices.of(model),
            _ => None,
        };
        self.sum.add(entry, price);
    }
}

struct All<'a> {
    by: StatsBy,
    since: Option<Timestamp>,
    prices: &'a Prices,
    rows: BTreeMap<String, Line>,
    seen: HashSet<u64>,
    /// The sessions of others that are there, as imports name them.
    originals: HashSet<String>,
}

impl All<'_> {
    /// Adds a session. One that does not count still tells which responses are originals of it.
    fn add(&mut self, session: &Listed, spent: &[Item], counts: bool) {
        let of = match session {
            Listed::Own(entry) => entry.imported_from.as_ref(),
            Listed::Other(_) => None,
        };
        let has_original = of.is_some_and(|of| self.originals.contains(of));
        let mut own = HashSet::new();
        for one in spent {
            let fresh = one.response.is_none_or(|response| self.seen.insert(response));
            // How long tools ran is no model's.
            if self.by == StatsBy::Model && matches!(one.entry.kind, Kind::Tools { .. }) {
                continue;
            }
            let elsewhere = one.imported && has_original;
            if !counts || self.since.is_some_and(|since| one.entry.at < since) {
                continue;
            }
            let line = || self.key(session, &one.entry);
            match (fresh && !elsewhere, one.response) {
                (true, _) => {
                    let key = line();
                    self.rows.entry(key).or_default().add(session.id(), &one.entry, self.prices);
                }
                // A response that is told in several records of one session is no copy.
                (false, Some(response)) if is_response(&one.entry) && !own.contains(&response) => {
                    let key = line();
                    self.rows.entry(key).or_default().inherited += 1;
                }
                (false, _) => {}
            }
            own.extend(one.response);
        }
    }

    fn key(&self, session: &Listed, entry: &Entry) -> String {
        match self.by {
            // Nothing in the session says when, up to there.
            StatsBy::Day if entry.at <= Timestamp::default() => "unknown day".to_owned(),
            StatsBy::Day => entry.at.to_string()[..10].to_owned(),
            StatsBy::Model => match &entry.kind {
                Kind::Call { model, .. } => model.to_string(),
                Kind::Tools { .. } => String::new(),
            },
            StatsBy::Agent => session.source().to_owned(),
            StatsBy::Session | StatsBy::Branch => format!("{}:{}", session.source(), session.id()),
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
            total.sum.merge(&line.sum);
            total.inherited += line.inherited;
        }
        total
    }
}

/// A model call whose tokens are known.
fn is_response(entry: &Entry) -> bool {
    matches!(entry.kind, Kind::Call { usage: Some(_), .. })
}
