//! `segno children`: the subagents of a session.
//!
//! Responsible for: one line per child, with what its own log and its parent's say of it. Must not: hide one
//! that cannot be continued, or change anything.

use super::Workplace;
use crate::args::ChildrenArgs;
use crate::error::{CliError, ExitCode};
use crate::sessions::{Standing, entry};
use crate::terminal::table::plural;
use crate::terminal::{Screen, Text, Tone, clean};
use segno_agent::subagent::{ancestry, stand_ins};
use segno_model::child::{Unusable, Used, attempts, launch_of};
use segno_model::record::{Attempt, Body};
use segno_model::store::{ListedChild, Scanned, SessionStore as _, Snapshot};
use segno_model::{Record, SessionId};
use segno_store::catalog::Row;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// A child, as JSON.
#[derive(Debug, Serialize)]
struct Child {
    id: String,
    /// The session that it belongs to, where that is another one: this session's origin.
    of: Option<SessionId>,
    /// The id by which the session's log names it, where its own is another one.
    named: Option<SessionId>,
    role: Option<String>,
    state: Standing,
    /// Why it cannot be continued, whatever else has changed.
    code: Option<&'static str>,
    problem: Option<String>,
    held: bool,
    prompt: Option<String>,
    used: segno_model::record::Usage,
    used_incomplete: bool,
    attempts: Vec<Attempt>,
}

/// Lists them.
///
/// # Errors
/// When the session is not found, or cannot be read.
pub async fn children(
    args: &ChildrenArgs,
    place: &Workplace,
    screen: &mut Screen,
) -> Result<ExitCode, CliError> {
    let parent = place.stores.find(&args.session, &place.cwd).await?;
    let told = told(place, &parent).await?;
    let names = named(place, &parent)?;
    let (mut all, listed) = (Vec::new(), place.stores.files.children(&parent).await?);
    let copies = copies(place, &parent, &names, &listed).await;
    let here: BTreeSet<SessionId> = listed.iter().map(|listed| listed.id.clone()).collect();
    for listed in listed {
        let named = copies.get(&listed.id).cloned();
        // What its attempts came to is told under the id that its log has; where a child has that id, it is that one's.
        let by = named.as_ref().filter(|id| !here.contains(id)).unwrap_or(&listed.id);
        let own = told.get(by.as_str()).cloned().unwrap_or_default();
        all.push(Child { named, ..child(place, &parent, listed, own).await });
    }
    for id in elsewhere(place, &parent).await? {
        let own = told.get(id.as_str()).cloned().unwrap_or_default();
        all.push(origins(place, id, own).await);
    }
    if args.json {
        screen.json(&serde_json::json!({"version": 1, "id": parent, "children": all}));
        return Ok(ExitCode::Done);
    }
    if all.is_empty() {
        screen.line("This session has no subagents.");
    }
    for child in &all {
        lines(child).into_iter().for_each(|line| screen.line(line));
    }
    Ok(ExitCode::Done)
}

/// The children that a session's log tells of and that are not below it: its origin's, and those that are gone.
///
/// # Errors
/// When the session cannot be read.
pub(super) async fn elsewhere(
    place: &Workplace,
    parent: &SessionId,
) -> Result<Vec<SessionId>, CliError> {
    let mut names = named(place, parent)?;
    let listed = place.stores.files.children_now(parent)?;
    let copies = copies(place, parent, &names, &listed).await;
    names.retain(|id| {
        listed.iter().all(|own| own.id != *id) && copies.values().all(|named| named != id)
    });
    Ok(names.into_iter().collect())
}

/// The children below a session that its log names by other ids, because theirs were taken where they were brought in:
/// the id in the log, and theirs. Where a child has the very id that the log names, it is meant.
///
/// # Errors
/// When the session cannot be read.
pub async fn renamed(
    place: &Workplace,
    parent: &SessionId,
    records: &[Record],
) -> Result<BTreeMap<String, String>, CliError> {
    let mut names: BTreeSet<SessionId> = records.iter().filter_map(name_in).collect();
    if names.is_empty() {
        return Ok(BTreeMap::new());
    }
    let listed = place.stores.files.children_now(parent)?;
    names.retain(|id| listed.iter().all(|own| own.id != *id));
    let copies = copies(place, parent, &names, &listed).await;
    Ok(copies.into_iter().map(|(id, named)| (named.to_string(), id.to_string())).collect())
}

/// The ids of children that a session's log names.
fn named(place: &Workplace, parent: &SessionId) -> Result<BTreeSet<SessionId>, CliError> {
    let mut named = BTreeSet::new();
    let mut visit = |step| {
        if let Scanned::Record(record) = step {
            named.extend(name_in(&record));
        }
        true
    };
    place.stores.files.scan_now(parent, &mut visit)?;
    Ok(named)
}

/// The child that a record names.
fn name_in(record: &Record) -> Option<SessionId> {
    let Body::Child(child) = record.body() else { return None };
    SessionId::parse(&child.child).ok()
}

/// Of these children those that the log may mean by one of these names that is not their id, with that name.
async fn copies(
    place: &Workplace,
    parent: &SessionId,
    names: &BTreeSet<SessionId>,
    listed: &[ListedChild],
) -> BTreeMap<SessionId, SessionId> {
    // Whose names are all here has brought nothing in, or it is not read twice for that.
    if names.is_empty() || listed.iter().all(|own| names.contains(&own.id)) {
        return BTreeMap::new();
    }
    let files = &place.stores.files;
    let ancestry = ancestry(files, parent).await;
    let all = stand_ins(files, &ancestry, listed).await;
    let of_the_log = all.into_iter().filter(|(named, _)| names.contains(named));
    of_the_log.map(|(named, id)| (id, named)).collect()
}

/// A child that is not below this session: where it is, or that it is nowhere.
async fn origins(place: &Workplace, id: SessionId, attempts: Vec<Attempt>) -> Child {
    let found = place.stores.files.read(&id).await;
    let of = found.ok().and_then(|found| found.header.origin.as_ref()?.belongs_to());
    let listed = ListedChild { id, bytes: 0, held: false, is_link: false };
    let parent = of.clone().unwrap_or_else(|| listed.id.clone());
    Child { of, ..child(place, &parent, listed, attempts).await }
}

/// The attempts that the parent's log tells of, by child.
async fn told(
    place: &Workplace,
    parent: &SessionId,
) -> Result<BTreeMap<String, Vec<Attempt>>, CliError> {
    let mut records = Vec::new();
    let mut visit = |step| {
        if let Scanned::Record(record) = step
            && matches!(record.body(), Body::Child(_))
        {
            records.push(*record);
        }
        true
    };
    place.stores.files.scan(parent, &mut visit).await?;
    let once: Vec<&Attempt> = attempts(&records);
    let mut told: BTreeMap<String, Vec<Attempt>> = BTreeMap::new();
    for record in &records {
        let Body::Child(child) = record.body() else { continue };
        if let Some(attempt) = child.attempt.as_deref()
            && once.iter().any(|first| std::ptr::eq(*first, attempt))
        {
            told.entry(child.child.clone()).or_default().push(attempt.clone());
        }
    }
    Ok(told)
}

async fn child(
    place: &Workplace,
    parent: &SessionId,
    listed: ListedChild,
    attempts: Vec<Attempt>,
) -> Child {
    let read = place.stores.files.read(&listed.id).await;
    let launch = match &read {
        _ if listed.is_link => Err(Unusable::Symlink),
        Err(error) => Err(Unusable::Malformed(error.to_string())),
        Ok(found) => launch_of(&found.header, &listed.id, parent),
    };
    let role = launch.as_ref().ok().map(|launch| launch.role.name.clone());
    let row = match &read {
        Ok(found) => Row::of(found, &listed.id, listed.bytes),
        Err(error) => Row::unreadable(&listed.id, listed.bytes, error.to_string()),
    };
    let used = read.as_ref().map_or_else(|_| Used::default(), used);
    let entry = entry(row, listed.held);
    Child {
        id: listed.id.to_string(),
        of: None,
        named: None,
        role,
        state: entry.standing,
        code: launch.as_ref().err().map(Unusable::code),
        problem: launch.err().map(|unusable| unusable.to_string()),
        held: listed.held,
        prompt: entry.first_prompt,
        used: used.usage,
        used_incomplete: used.incomplete || read.is_err(),
        attempts,
    }
}

/// What a child used in its whole life; more than that when nobody reported what a call of it took.
fn used(found: &Snapshot) -> Used {
    let totals = &found.state.in_force.totals;
    Used { usage: totals.usage, incomplete: totals.unknown > 0 }
}

fn lines(child: &Child) -> Vec<Text> {
    let role = child.role.as_deref().unwrap_or("(unknown)");
    let head = format!("{}  {role}  {}", child.id, child.state.word());
    let used = Used { usage: child.used, incomplete: child.used_incomplete };
    let prompt = child.prompt.as_deref().unwrap_or("(nothing was asked)");
    // An attempt is on record when it ended.
    let attempts = match child.attempts.len() {
        0 if child.held => "its first attempt".to_owned(),
        ended => plural(ended, "attempt"),
    };
    let mut out = vec![
        Text::line(Tone::Plain, &clean::line(&head)),
        Text::line(Tone::Dim, &format!("  {}", clean::cut(&clean::line(prompt), 90))),
        Text::line(Tone::Dim, &format!("  {attempts}, {}", used.phrase())),
    ];
    if let Some(of) = &child.of {
        let said =
            format!("  of {of}, which this session was forked from; continuing it copies it");
        out.push(Text::line(Tone::Dim, &said));
    }
    if let Some(named) = &child.named {
        let said =
            format!("  a copy of {named}, the id in this session's log, which was taken here");
        out.push(Text::line(Tone::Dim, &said));
    }
    if let Some(problem) = &child.problem {
        out.push(Text::line(
            Tone::Warning,
            &clean::line(&format!("  cannot be continued: {problem}")),
        ));
    }
    out
}
