//! Which session a person means, among those of all agents.
//!
//! Responsible for: ids, beginnings of ids, names, `AGENT:…` and files of other agents. Must not: choose
//! between several; those are listed.

use super::{Other, Others, all, roots};
use crate::error::{CliError, ExitCode};
use crate::stores::{Candidate, Stores, fits, fits_several, no_file, note, own_word};
use segno_model::store::Clock as _;
use segno_model::{SessionId, Timestamp};
use segno_store::SystemClock;
use segno_store::catalog::Catalog;
use segno_store::foreign::{self, Agent, Roots};
use std::path::Path;

/// A session that somebody named.
#[derive(Debug)]
pub enum Target {
    /// One of ours.
    Own(SessionId),
    /// Another agent's.
    Other(Box<Other>),
}

impl Stores {
    /// The session of any agent that `query` stands for. What stands for one of ours wins, then an id or
    /// a name of another agent's; `AGENT:QUERY` asks only for that agent's (`segno:QUERY` for ours), and `AGENT:last` for
    /// its newest of the project that `here` belongs to. A path is a file of any agent.
    ///
    /// # Errors
    /// When nothing fits, or several do; those are listed.
    pub async fn find_any(&self, query: &str, here: &Path) -> Result<Target, CliError> {
        let of = query.split_once(':').and_then(|(agent, rest)| Some((Agent::parse(agent)?, rest)));
        if let Some((agent, rest)) = of {
            let mut others = all(self, self.catalog()).await;
            others.sessions.retain(|session| session.row.agent == agent);
            return self.among(others, rest, here, None).await;
        }
        if own_word(query).is_some() {
            return self.find_own(query, here).await.map(Target::Own);
        }
        let error = match self.find_own(query, here).await {
            Ok(id) => {
                tell_of_file(query, here, id.as_str());
                return Ok(Target::Own(id));
            }
            Err(error) if error.exit != ExitCode::NotFound || query == "last" => return Err(error),
            Err(error) => error,
        };
        let is_path = query.contains(['/', '.']) && is_there(query, here);
        if !is_path {
            let others = all(self, self.catalog()).await;
            match self.among(others, query, here, Some(error)).await {
                Ok(Target::Other(session)) => {
                    tell_of_file(query, here, &session.word());
                    return Ok(Target::Other(session));
                }
                // An id that several sessions begin with is an id all the same.
                Err(error) if !fits(&error, query) && is_there(query, here) => {}
                found => return found,
            }
        }
        file(query, here, &roots(&self.home)).map(|session| Target::Other(Box::new(session)))
    }

    async fn among(
        &self,
        others: Others,
        query: &str,
        here: &Path,
        own: Option<CliError>,
    ) -> Result<Target, CliError> {
        let now = SystemClock.now();
        if query == "last" {
            let project = segno_agent::project::Project::facts_of(here).await;
            let of = |s: &&Other| !s.is_child() && !s.continued && s.is_of(&project) == Some(true);
            let newest = others.sessions.iter().filter(of).max_by_key(|s| s.last_active(now));
            let none = || {
                CliError::new(ExitCode::NotFound, "This project has no session of that agent.")
                    .next("`segno list --all` shows those of other projects.")
            };
            let newest = newest.cloned().ok_or_else(none)?;
            return Ok(with_subagents(newest, &others.sessions));
        }
        match choose(&others.sessions, query) {
            Chosen::One(session) => Ok(with_subagents(*session, &others.sessions)),
            Chosen::None => Err(match choose(&others.gone, query) {
                Chosen::One(session) => vanished(&session),
                _ => own.unwrap_or_else(|| not_found(query)),
            }),
            Chosen::Several(found) => Err(ambiguous(query, &found, now)),
        }
    }
}

/// The session, with those of its subagents that are in the list.
fn with_subagents(session: Other, sessions: &[Other]) -> Target {
    /// How deep subagents of subagents are looked for.
    const DEPTH: u32 = 8;
    Target::Other(Box::new(filled(session, sessions, DEPTH)))
}

fn filled(mut session: Other, sessions: &[Other], depth: u32) -> Other {
    let is_of = |other: &&Other| {
        other.row.agent == session.row.agent && other.row.parent.as_ref() == Some(&session.row.id)
    };
    if depth > 0 {
        let found = sessions.iter().filter(is_of).cloned();
        session.subagents = found.map(|child| filled(child, sessions, depth - 1)).collect();
    }
    session
}

enum Chosen {
    None,
    One(Box<Other>),
    Several(Vec<Other>),
}

/// An exact id or name first; then beginnings of ids.
fn choose(sessions: &[Other], query: &str) -> Chosen {
    let query = query.trim();
    if query.is_empty() {
        return Chosen::None;
    }
    let exact = |s: &&Other| s.row.id == query || s.row.name.as_deref() == Some(query);
    let mut found: Vec<Other> = sessions.iter().filter(exact).cloned().collect();
    if found.is_empty() {
        let prefix = query.to_ascii_lowercase();
        let begins = |s: &&Other| s.row.id.to_ascii_lowercase().starts_with(&prefix);
        found = sessions.iter().filter(begins).cloned().collect();
    }
    match found.len() {
        0 => Chosen::None,
        1 => Chosen::One(Box::new(found.swap_remove(0))),
        _ => Chosen::Several(found),
    }
}

/// Whether there is a file of that name, of whatever kind.
fn is_there(query: &str, here: &Path) -> bool {
    !query.is_empty() && here.join(query).symlink_metadata().is_ok()
}

/// The session in a file of another agent.
fn file(query: &str, here: &Path, roots: &Roots) -> Result<Other, CliError> {
    let path = here.join(query);
    if let (Ok(target), false) = (path.read_link(), path.exists()) {
        return Err(CliError::new(ExitCode::NotFound, format!("`{query}` leads nowhere."))
            .because(format!("it is a link to {}, which is not there", target.display()))
            .next("Name the file itself, or put back what the link leads to."));
    }
    let located = foreign::recognise_among(&path, roots)?;
    Ok(Other::new(Catalog::digest(&located), &[]))
}

/// Says that an id was taken where a session's file has that name, too.
fn tell_of_file(query: &str, here: &Path, taken: &str) {
    if !query.contains('/') && foreign::recognise(&here.join(query)).is_ok() {
        note(&format!("`{query}` is taken for {taken}; the file of that name is ./{query}"));
    }
}

/// A session that was there when sessions were listed last.
fn vanished(session: &Other) -> CliError {
    let sentence = format!("{} is not there any more.", session.word());
    CliError::new(ExitCode::NotFound, sentence)
        .because(format!(
            "{} is gone: {} deleted it, or it was moved",
            session.row.path.display(),
            session.row.agent
        ))
        .next("`segno keep --all` keeps copies of sessions before their agents delete them.")
}

fn not_found(query: &str) -> CliError {
    if let Some(error) = no_file(query) {
        return error;
    }
    CliError::new(ExitCode::NotFound, format!("There is no session `{query}`."))
        .because("no id begins like that, and no session has that name")
        .next("`segno list --all` shows every session.")
}

fn ambiguous(query: &str, found: &[Other], now: Timestamp) -> CliError {
    // Copies of a file have one id. Only where they are tells them apart.
    let copies = |session: &Other| {
        let id = |other: &&Other| {
            (other.row.agent, &other.row.id) == (session.row.agent, &session.row.id)
        };
        found.iter().filter(id).count() > 1
    };
    let candidate = |session: &Other| Candidate {
        id: if copies(session) { session.row.path.display().to_string() } else { session.word() },
        active: session.last_active(now),
        title: session.title().map(str::to_owned),
    };
    let error = fits_several(query, found.iter().map(candidate), now);
    if found.iter().any(copies) {
        return error.next("Give more of the id, or the path where one is shown.");
    }
    error
}
