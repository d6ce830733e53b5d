//! Where sessions come from, when they do not say so themselves.
//!
//! Responsible for: forks that share their first record with their origin, and conversations that go on in
//! another file. Must not: guess; both are told by the ids of records.

use super::Other;
use segno_model::Timestamp;
use segno_store::foreign::Agent;
use std::collections::{HashMap, HashSet};

/// Fills in what the sessions' files tell only together.
pub(super) fn trace(sessions: &mut [Other]) {
    name_origins(sessions);
    link_chains(sessions);
}

/// Of those that begin with the same record, all but the oldest are forks of it.
fn name_origins(sessions: &mut [Other]) {
    let mut oldest: HashMap<(Agent, &str), (Age, &str)> = HashMap::new();
    for session in sessions.iter().filter(|session| !session.is_child()) {
        let Some(first) = session.row.first_id.as_deref() else { continue };
        let found = (age(session), session.row.id.as_str());
        let known = oldest.entry((session.row.agent, first)).or_insert(found);
        if found < *known {
            *known = found;
        }
    }
    let origin = |session: &Other| {
        let first = session.row.first_id.as_deref().filter(|_| !session.is_child())?;
        let (_, id) = oldest.get(&(session.row.agent, first))?;
        (session.row.fork_of.is_none() && *id != session.row.id).then(|| (*id).to_owned())
    };
    let origins: Vec<Option<String>> = sessions.iter().map(origin).collect();
    for (session, origin) in sessions.iter_mut().zip(origins) {
        session.row.fork_of = session.row.fork_of.take().or(origin);
    }
}

type Age = (Option<Timestamp>, Option<Timestamp>);

/// A fork has its origin's beginning, and a later end.
fn age(session: &Other) -> Age {
    (session.row.created, session.row.last_message_at)
}

/// Marks the sessions that go on in another one.
fn link_chains(sessions: &mut [Other]) {
    let found = successors(sessions.iter());
    for (session, (next, ends)) in sessions.iter_mut().zip(found) {
        session.continued = next.is_some() && ends;
        session.row.continued_in = next.or_else(|| session.row.continued_in.take());
    }
}

/// Which of some sessions go on in another of them.
pub(crate) fn continued<'a>(sessions: impl Iterator<Item = &'a Other> + Clone) -> Vec<bool> {
    successors(sessions).into_iter().map(|(next, ends)| next.is_some() && ends).collect()
}

/// For each session the one in which it goes on, if that is among them: it is named, or begins behind the
/// last record. With that, whether the chain comes to an end.
fn successors<'a>(
    sessions: impl Iterator<Item = &'a Other> + Clone,
) -> Vec<(Option<String>, bool)> {
    let all = sessions.clone().filter(|session| !session.is_child()).map(|session| &session.row);
    let mut ids = HashSet::new();
    let mut next: HashMap<(Agent, &str), &str> = HashMap::new();
    for row in all {
        ids.insert((row.agent, row.id.as_str()));
        if let Some(before) = row.follows.as_deref() {
            next.insert((row.agent, before), &row.id);
        }
    }
    let goes_on = |session: &'a Other| {
        let row = &session.row;
        let named = row.continued_in.as_deref().filter(|id| ids.contains(&(row.agent, id)));
        let behind = || next.get(&(row.agent, row.last_id.as_deref()?)).copied();
        named.or_else(behind).filter(|id| *id != row.id && !session.is_child())
    };
    let found: Vec<Option<&str>> = sessions.clone().map(goes_on).collect();
    let link = |(session, next): (&'a Other, &Option<&'a str>)| {
        Some(((session.row.agent, session.row.id.as_str()), (*next)?))
    };
    let links: HashMap<_, _> = sessions.clone().zip(&found).filter_map(link).collect();
    let ends = sessions.map(|session| ends(&links, session));
    found.iter().map(|next| next.map(str::to_owned)).zip(ends).collect()
}

/// Whether a chain comes to an end; in a circle each would hide the other.
fn ends(links: &HashMap<(Agent, &str), &str>, session: &Other) -> bool {
    let mut at = (session.row.agent, session.row.id.as_str());
    for _ in 0..=links.len() {
        match links.get(&at) {
            Some(next) => at.1 = next,
            None => return true,
        }
    }
    false
}
