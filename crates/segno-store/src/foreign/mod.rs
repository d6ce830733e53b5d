//! Other agents' sessions, read in place.
//!
//! Responsible for: finding their files and reading them as our own records, with every anomaly located.
//! One module per agent knows its paths, its formats and its traps; everything else is shared. Must not:
//! write anything (G14), change a file's times, or hold a session in memory: a session is a stream of
//! [`Item`]s, read as often as needed.

mod agent;
pub(crate) mod array;
mod attachment;
mod belongings;
mod blocks;
mod calls;
mod chain;
pub(crate) mod claude;
mod cline;
pub(crate) mod codex;
pub(crate) mod control;
mod crush;
pub(crate) mod emitter;
mod entries;
mod evo;
mod facts;
mod failure;
mod gemini;
mod goose;
mod ink;
mod input;
mod item;
mod kimi;
pub(crate) mod lines;
mod live;
mod locate;
mod mend;
mod opencode;
pub(crate) mod order;
mod outline;
mod pi;
mod qwen;
#[cfg(feature = "catalog")]
mod rows;
#[cfg(feature = "catalog")]
mod sqlite;
mod state;
mod view;

pub use agent::Agent;
pub use attachment::{Attachment, AttachmentContent};
pub use belongings::belongings;
pub use calls::UNKNOWN_OUTCOME;
pub use facts::Facts;
pub use failure::failure;
pub use input::ForeignError;
pub(crate) use item::Astray;
pub use item::{Fact, ForeignRecord, Item, Origin, RawPiece, Sink};
pub use live::{Openers, Running, openers, running};
pub use locate::{Located, Roots, Stamp};
#[cfg(feature = "catalog")]
pub use rows::{copy_rows, lost_rows};
pub(crate) use state::is_state;
pub use view::{View, pos};

pub(crate) use codex::SUMMARY as CODEX_SUMMARY;
use emitter::Emitter;
pub(crate) use gemini::{
    first_name as gemini_project_name, is_one_document as is_document, is_surroundings,
};
use input::Head;
pub(crate) use input::open as open_untouched;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

/// Reads a session from its beginning and hands over every record, fact and finding, in order.
///
/// # Errors
/// When it cannot be read at all, and when it holds data but nothing that was recognised: that is no
/// empty session.
pub fn read(session: &Located, sink: &mut dyn Sink) -> Result<(), ForeignError> {
    let mut out = Emitter::new(sink);
    match session.agent {
        Agent::Claude => claude::read(session, &mut out),
        Agent::Codex => codex::read(session, &mut out),
        Agent::Pi => pi::read(session, &mut out),
        Agent::OpenCode => opencode::read(session, &mut out),
        Agent::Gemini => gemini::read(session, &mut out),
        Agent::Ink => ink::read(session, &mut out),
        Agent::Evo => evo::read(session, &mut out),
        Agent::Cline => cline::read(session, &mut out),
        Agent::Goose => goose::read(session, &mut out),
        Agent::Crush => crush::read(session, &mut out),
        Agent::Qwen => qwen::read(session, &mut out),
        Agent::Kimi => kimi::read(session, &mut out),
    }
}

/// All sessions of all agents under `roots`, unread, and what could not be listed.
#[must_use]
pub fn locate(roots: &Roots) -> (Vec<Located>, Vec<ForeignError>) {
    let (mut found, mut failed) = (Vec::new(), Vec::new());
    for agent in Agent::ALL {
        locate_agent(agent, roots, &mut found, &mut failed);
    }
    (found, failed)
}

/// All sessions of one agent under `roots`, unread, and what could not be listed.
#[must_use]
pub fn locate_of(agent: Agent, roots: &Roots) -> (Vec<Located>, Vec<ForeignError>) {
    let (mut found, mut failed) = (Vec::new(), Vec::new());
    locate_agent(agent, roots, &mut found, &mut failed);
    (found, failed)
}

fn locate_agent(
    agent: Agent,
    roots: &Roots,
    found: &mut Vec<Located>,
    failed: &mut Vec<ForeignError>,
) {
    match agent {
        Agent::Claude => claude::locate(roots, found, failed),
        Agent::Codex => codex::locate(roots, found, failed),
        Agent::Pi => pi::locate(roots, found, failed),
        Agent::OpenCode => opencode::locate(roots, found, failed),
        Agent::Gemini => gemini::locate(roots, found, failed),
        Agent::Ink => ink::locate(roots, found, failed),
        Agent::Evo => evo::locate(roots, found, failed),
        Agent::Cline => cline::locate(roots, found, failed),
        Agent::Goose => goose::locate(roots, found, failed),
        Agent::Crush => crush::locate(roots, found, failed),
        Agent::Qwen => qwen::locate(roots, found, failed),
        Agent::Kimi => kimi::locate(roots, found, failed),
    }
}

/// The folder of an agent's own, below which it finds sessions that are put there; none where there is no such
/// place, or where it is a database.
#[must_use]
pub fn home(agent: Agent, roots: &Roots) -> Option<PathBuf> {
    match agent {
        Agent::Claude => claude::homes(roots).into_iter().next(),
        Agent::Codex => Some(codex::home(roots)),
        Agent::Pi => Some(pi::home(roots)),
        Agent::Gemini => Some(gemini::home(roots)),
        _ => None,
    }
}

/// Where an agent keeps the session of this id, if it does: in the folder of whatever project, packed, or moved out of
/// its own list. A file that only has the name, and in which nothing of it is said, is none.
#[must_use]
pub fn whereabouts(agent: Agent, roots: &Roots, id: &str) -> Option<PathBuf> {
    // Not every agent's names of files hold the whole id.
    let begins = id.get(..8).unwrap_or(id);
    let is_named = |found: &Located| match &found.id {
        Some(own) => own == id,
        None => found.path.to_str().is_some_and(|path| path.contains(begins)),
    };
    let is_it = |found: &Located| found.parent.is_none() && is_named(found) && holds(found, id);
    locate_of(agent, roots).0.into_iter().find(is_it).map(|found| found.path)
}

/// Whether something is said in a session, and it says of itself that it is the one of this id, or leaves that to the
/// name of its file.
fn holds(session: &Located, id: &str) -> bool {
    let (mut told, mut said) = (None, false);
    let read = read(session, &mut |item| {
        match item {
            Item::Fact(Fact::Id(own)) => told = Some(own),
            Item::Record(_) => said = true,
            _ => {}
        }
        if said && told.is_some() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    // What cannot be read to its end is that session all the same.
    let _ = read;
    said && told.or_else(|| session.id.clone()).as_deref() == Some(id)
}

/// The name under which an agent keeps, or would keep, the project in `cwd`, where it does not follow from the
/// directory alone.
#[must_use]
pub fn project_name(agent: Agent, roots: &Roots, cwd: &str) -> Option<String> {
    match agent {
        Agent::Gemini => Some(gemini::project_name(roots, cwd)),
        _ => None,
    }
}

/// The sessions of the subagents that a session called, where they have files of their own: also those
/// that ran before the session was forked from another one.
///
/// # Errors
/// When the session cannot be read.
pub fn subagents(session: &Located) -> Result<Vec<Located>, ForeignError> {
    match session.agent {
        Agent::Claude => claude::subagents(session),
        _ => Ok(Vec::new()),
    }
}

/// Whose session a file or folder is, by what is in it.
///
/// # Errors
/// When it cannot be read, or is nobody's.
pub fn recognise(path: &Path) -> Result<Located, ForeignError> {
    // Qwen's rows look like Claude's and Ink's like pi's, but for what only they have.
    let order = || [Agent::Qwen, Agent::Ink].into_iter().chain(Agent::ALL);
    let whose = |head: &Head<'_>| order().find(|agent| recognises(*agent, head));
    let (meta, agent) = input::ask(path, whose)?;
    let nothing = |why| ForeignError::Nothing { path: path.to_owned(), why };
    match agent {
        Some(agent) => Ok(Located::file(agent, path.to_owned(), &meta)),
        None if !meta.is_file() && !meta.is_dir() => Err(nothing("it is no regular file")),
        None if meta.is_file() && meta.len() == 0 => Err(nothing("it is empty")),
        None => Err(ForeignError::NotRecognised { path: path.to_owned() }),
    }
}

/// The same with what the place tells: a file in which nothing is recognised is still its agent's where it lies
/// where that keeps its sessions.
///
/// # Errors
/// When it cannot be read, or is nobody's.
pub fn recognise_among(path: &Path, roots: &Roots) -> Result<Located, ForeignError> {
    let error = match recognise(path) {
        Err(error @ (ForeignError::NotRecognised { .. } | ForeignError::Nothing { .. })) => error,
        found => return found,
    };
    let Ok(real) = path.canonicalize() else { return Err(error) };
    let is_it = |other: &Located| {
        other.key.is_none()
            && (other.path == path || other.path.canonicalize().is_ok_and(|other| other == real))
    };
    let found = locate(roots).0.into_iter().find(is_it);
    found.map(|found| Located { path: path.to_owned(), ..found }).ok_or(error)
}

fn recognises(agent: Agent, head: &Head<'_>) -> bool {
    match agent {
        Agent::Claude => claude::recognises(head),
        Agent::Codex => codex::recognises(head),
        Agent::Pi => pi::recognises(head),
        Agent::OpenCode => opencode::recognises(head),
        Agent::Gemini => gemini::recognises(head),
        Agent::Ink => ink::recognises(head),
        Agent::Evo => evo::recognises(head),
        Agent::Cline => cline::recognises(head),
        Agent::Goose => goose::recognises(head),
        Agent::Crush => crush::recognises(head),
        Agent::Qwen => qwen::recognises(head),
        Agent::Kimi => kimi::recognises(head),
    }
}
