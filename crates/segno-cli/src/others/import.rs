//! Going on here with another agent's session.
//!
//! Responsible for: one session of ours for each that was imported, found again by where it comes from, and the
//! stream from the reader to the log. Must not: change the original.

use super::Other;
use crate::error::CliError;
use crate::sessions::Entry;
use crate::stores::{Log, Stores};
use segno_agent::project::Project;
use segno_model::batch::Draft;
use segno_model::record::{Body, FORMAT, GitFacts, Header, Name, Origin, OriginKind, ProjectFacts};
use segno_model::store::{Clock as _, Ids as _, Level, Scanned, SessionLog, SessionStore as _};
use segno_model::{Record, Seq, SessionId};
use segno_runtime::import::{Import, ImportError};
use segno_store::foreign::{self, Fact, ForeignError, ForeignRecord, Item};
use segno_store::{SystemClock, UuidIds};
use std::collections::HashSet;
use std::ops::ControlFlow;
use std::path::Path;
use tokio::sync::mpsc;

/// What an import did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Imported {
    /// The session of ours.
    pub id: SessionId,
    /// How many of the original's records are new in it.
    pub new: u64,
    /// Whether it was there before.
    pub known: bool,
    /// Whether somebody had gone on in it, so that what is new is a branch.
    pub branched: bool,
    /// How many sessions of subagents came with it that were not there before.
    pub subagents: usize,
    /// Which could not be taken, and why, as sentences.
    pub trouble: Vec<String>,
    /// Prompts that waited in it and were never delivered: nobody says them here.
    pub pending: Vec<String>,
}

/// Imports a session with those of its subagents, or brings their imports up to date. Where its directory is
/// not there, it goes on in `here`. A subagent's that cannot be taken is told and holds nothing up.
///
/// # Errors
/// When the original cannot be read, or the log not be written.
pub async fn import(stores: &Stores, session: &Other, here: &Path) -> Result<Imported, CliError> {
    let entries = stores.entries(SystemClock.now()).await?;
    let mut whole = one(stores, &entries, session, None, here).await?;
    let mut left = vec![(session.clone(), whole.id.clone())];
    let mut seen = HashSet::from([session.row.path.clone()]);
    while let Some((parent, id)) = left.pop() {
        for child in parent.all_subagents() {
            // In a database all have one path.
            if child.row.key.is_none() && !seen.insert(child.row.path.clone()) {
                continue;
            }
            match one(stores, &entries, &child, Some(&id), here).await {
                Ok(taken) => {
                    whole.subagents += usize::from(!taken.known);
                    left.push((child, taken.id));
                }
                Err(error) => whole.trouble.push(format!("{}: {}", child.word(), error.sentence)),
            }
        }
    }
    Ok(whole)
}

async fn one(
    stores: &Stores,
    entries: &[Entry],
    session: &Other,
    parent: Option<&SessionId>,
    here: &Path,
) -> Result<Imported, CliError> {
    let of = session.word();
    let known = entries.iter().find(|entry| entry.imported_from.as_deref() == Some(of.as_str()));
    if let Some(entry) = known {
        match update(stores, session, &entry.id).await {
            Err(Failed::Import(ImportError::Rewritten)) => {}
            done => return done.map_err(CliError::from),
        }
    }
    let known = Path::new(&session.row.project.cwd);
    let project = if known.is_dir() {
        ProjectFacts::clone(&session.row.project)
    } else {
        Project::facts_of(here).await
    };
    let origin = Origin { kind: OriginKind::Import, of, up_to: None, parent: parent.cloned() };
    Ok(anew(stores, session, origin, project).await?)
}

async fn update(stores: &Stores, session: &Other, id: &SessionId) -> Result<Imported, Failed> {
    let mut import = Import::default();
    let visit = &mut |item| {
        if let Scanned::Record(record) = item {
            import.look(&record);
        }
        true
    };
    stores.files.scan_now(id, visit).map_err(ImportError::from)?;
    let mut log = stores.open(id).await.map_err(Failed::Told)?.log;
    let pending = copy(session, &mut import, &mut log).await?;
    let (new, branched) = (import.added(), import.has_diverged() && import.added() > 0);
    // Once: they were told of when what stands around them came in.
    let pending = if new > 0 { pending } else { Vec::new() };
    let (id, trouble) = (id.clone(), Vec::new());
    Ok(Imported { id, new, known: true, branched, subagents: 0, trouble, pending })
}

async fn anew(
    stores: &Stores,
    session: &Other,
    origin: Origin,
    project: ProjectFacts,
) -> Result<Imported, Failed> {
    let row = &session.row;
    let header = Header {
        format: FORMAT,
        id: UuidIds.session_id(),
        project,
        git: row
            .branch
            .as_ref()
            .map(|branch| GitFacts { branch: Some(branch.clone()), ..GitFacts::default() }),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        origin: Some(origin),
        launch: None,
    };
    let id = header.id.clone();
    let mut log = stores.files.create(header);
    let mut import = Import::default();
    let pending = copy(session, &mut import, &mut log).await?;
    if let Some(name) = &row.name {
        let name = Draft::new(SystemClock.now(), Body::Name(Name { name: name.clone() }));
        log.append(vec![name], Level::Synced).await.map_err(ImportError::from)?;
    }
    let new = import.added();
    let trouble = Vec::new();
    Ok(Imported { id, new, known: false, branched: false, subagents: 0, trouble, pending })
}

/// Reads the original in a thread of its own and writes what comes. Gives the prompts that were never delivered.
async fn copy(session: &Other, import: &mut Import, log: &mut Log) -> Result<Vec<String>, Failed> {
    let (send, mut receive) = mpsc::channel::<Step>(256);
    let located = session.located();
    let reading = tokio::task::spawn_blocking(move || {
        foreign::read(&located, &mut |item| {
            let step = match item {
                Item::Record(read) => Step::Record(Box::new(read)),
                Item::Fact(Fact::Tip(tip)) => Step::Tip(tip),
                Item::Fact(Fact::Pending(prompts)) => Step::Pending(prompts),
                _ => return ControlFlow::Continue(()),
            };
            // Nobody takes it: writing failed, which is told elsewhere.
            if send.blocking_send(step).is_err() {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        })
    });
    let (mut tip, mut pending) = (None, Vec::new());
    while let Some(step) = receive.recv().await {
        match step {
            Step::Record(read) => {
                let record = taken(*read);
                if record.is_node() {
                    tip = None;
                }
                import.add(log, &record).await?;
            }
            Step::Tip(named) => tip = Some(named),
            Step::Pending(prompts) => pending = prompts,
        }
    }
    match reading.await {
        Ok(read) => read?,
        Err(_) => {
            return Err(Failed::Told(
                CliError::failed("Reading the session ended early.")
                    .next("What was imported so far is kept. Do it again."),
            ));
        }
    }
    import.finish(log, tip, SystemClock.now()).await?;
    Ok(pending)
}

enum Step {
    Record(Box<ForeignRecord>),
    Tip(Option<Seq>),
    Pending(Vec<String>),
}

/// What a subagent said in the same file is kept beside the conversation, not in it.
fn taken(read: ForeignRecord) -> Record {
    if read.subagent.is_none() {
        return read.record;
    }
    let json = read.record.body().to_json().unwrap_or_default();
    let data = serde_json::value::RawValue::from_string(json);
    let data = data.unwrap_or_else(|_| serde_json::value::RawValue::NULL.to_owned());
    let custom = segno_model::record::Custom {
        name: "segno.import.subagent".to_owned(),
        data,
        context: None,
    };
    let mut envelope = read.record.envelope.clone();
    envelope.parent = None;
    "custom".clone_into(&mut envelope.kind);
    Record::loose(envelope, Body::Custom(custom))
}

enum Failed {
    Import(ImportError),
    Told(CliError),
}

impl From<ImportError> for Failed {
    fn from(error: ImportError) -> Self {
        Self::Import(error)
    }
}

impl From<ForeignError> for Failed {
    fn from(error: ForeignError) -> Self {
        Self::Told(error.into())
    }
}

impl From<Failed> for CliError {
    fn from(failed: Failed) -> Self {
        match failed {
            Failed::Told(error) => error,
            Failed::Import(ImportError::Store(error)) => error.into(),
            Failed::Import(error @ ImportError::Rewritten) => {
                Self::failed("The import stopped.").because(error).next(
                    "What was imported before is kept as it was; `segno show` reads the agent's own file.",
                )
            }
        }
    }
}
