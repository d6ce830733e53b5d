//! Every session as a list tells it.
//!
//! Responsible for: one [`Entry`] per session, from the catalog, and the one word for where it stands. Must not: print, or hide a session that cannot be read.

use crate::error::chain;
use crate::stores::Stores;
use crate::terminal::table::plural;
use segno_model::checkpoint::Totals;
use segno_model::record::{ModelRef, Origin, OriginKind, ProjectFacts};
use segno_model::store::StoreError;
use segno_model::{SessionId, Standing as Stands, Timestamp};
use segno_store::catalog::{Catalog, Opened, Row};
use segno_store::{FileStore, Remains};
use serde::Serialize;
use std::collections::HashSet;
use std::sync::Arc;

/// Where a session stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Standing {
    /// Another process works on it.
    Running,
    /// Another process has it open and waits for input.
    Held,
    /// A question of the agent waits for an answer.
    Waiting,
    /// Work was cut off and can be taken up again.
    Interrupted,
    /// The user stopped the last run.
    Stopped,
    /// The last run failed.
    Failed,
    /// A limit of the last run was reached.
    Exhausted,
    /// The last run was stopped, and what became of one of its effects is unknown.
    Unknown,
    /// Nothing is open.
    Ended,
    /// Something that was written cannot be read.
    Damaged,
    /// Its format is newer than this segno.
    Newer,
    /// It cannot be read at all.
    Unreadable,
    /// Nothing was said in it.
    Empty,
}

impl Standing {
    /// Whether a person has to look at it before anything goes on.
    #[must_use]
    pub fn needs_attention(self) -> bool {
        matches!(self, Self::Failed | Self::Exhausted | Self::Unknown)
    }

    /// The word for lists.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Held => "held",
            Self::Waiting => "waiting",
            Self::Interrupted => "interrupted",
            Self::Stopped => "stopped",
            Self::Failed => "failed",
            Self::Exhausted => "exhausted",
            Self::Unknown => "unknown",
            Self::Ended => "ended",
            Self::Damaged => "damaged",
            Self::Newer => "newer",
            Self::Unreadable => "unreadable",
            Self::Empty => "empty",
        }
    }
}

/// A session in a list.
#[derive(Debug, Clone)]
pub struct Entry {
    /// Its id.
    pub id: SessionId,
    /// When it was made.
    pub created: Timestamp,
    /// When the last message was written; none if nothing was said.
    pub last_message: Option<Timestamp>,
    /// Sums over its whole life.
    pub totals: Totals,
    /// Bytes of its log.
    pub bytes: u64,
    /// Where it stands.
    pub standing: Standing,
    /// The process that holds it, as far as is known.
    pub pid: Option<u32>,
    /// Its name.
    pub name: Option<String>,
    /// The first thing that a person said.
    pub first_prompt: Option<String>,
    /// The model in force.
    pub model: Option<Arc<ModelRef>>,
    /// Its project; none if it cannot be read, or its first line was lost.
    pub project: Option<Arc<ProjectFacts>>,
    /// Whether it is a subagent's.
    pub is_child: bool,
    /// The session of ours to which it then belongs.
    pub parent: Option<String>,
    /// The session that it is a fork of.
    pub forked_from: Option<String>,
    /// The session of another agent that it was imported from: the agent's word, a colon and its id there.
    pub imported_from: Option<String>,
    /// Why it cannot be read.
    pub trouble: Option<String>,
}

impl Entry {
    /// Messages of the person and of the model.
    #[must_use]
    pub fn messages(&self) -> u64 {
        self.totals.user_messages + self.totals.assistant_messages
    }

    /// Its name, or the first prompt, or nothing.
    #[must_use]
    pub fn title(&self) -> Option<&str> {
        self.name.as_deref().or(self.first_prompt.as_deref())
    }

    /// When it was last active. A time that is still to come counts as now, so that one wrong clock
    /// does not keep a session on top for ever.
    #[must_use]
    pub fn last_active(&self, now: Timestamp) -> Timestamp {
        self.last_message.unwrap_or(self.created).min(now)
    }

    /// Whether it belongs to the project; unknown for one that cannot be read.
    #[must_use]
    pub fn is_of(&self, project: &ProjectFacts) -> Option<bool> {
        self.project.as_ref().map(|own| own.same_project(project))
    }

    /// Whether anything was said in it.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.standing == Standing::Empty
    }
}

/// All sessions, newest last message first, and a sentence if the catalog could not help.
///
/// # Errors
/// When the sessions cannot even be listed.
pub fn all(
    catalog: &mut Catalog,
    files: &FileStore,
    now: Timestamp,
) -> Result<(Vec<Entry>, Option<String>), StoreError> {
    catalog.refresh(files)?;
    let (held, trouble) = (catalog.held(files), trouble(catalog.opened()));
    let rows = catalog.take_rows().into_iter();
    let lost = catalog.remains(files).into_iter().map(|remains| {
        entry(
            Row::unreadable(&remains.id, 0, format!("its log is gone; {}", left(&remains))),
            false,
        )
    });
    let lost: Vec<Entry> = lost.collect();
    let mut entries: Vec<Entry> = rows
        .map(|row| {
            let is_held = held.contains(&row.id);
            let owner = is_held.then(|| files.holder(&row.id).ok().flatten()).flatten();
            let pid = owner.map(|owner| owner.pid).filter(|pid| *pid > 0);
            Entry { pid, ..entry(row, is_held) }
        })
        .collect();
    entries.extend(lost);
    ask_for_subagents(&mut entries, &held);
    sort(&mut entries, now);
    Ok((entries, trouble))
}

/// What a subagent at work asks, its parent's person is asked: both wait for the answer.
fn ask_for_subagents(entries: &mut [Entry], held: &HashSet<SessionId>) {
    let asks = |e: &&Entry| e.is_child && e.standing == Standing::Waiting && held.contains(&e.id);
    let asked: HashSet<String> =
        entries.iter().filter(asks).filter_map(|entry| entry.parent.clone()).collect();
    for entry in entries.iter_mut().filter(|entry| asked.contains(entry.id.as_str())) {
        if matches!(entry.standing, Standing::Running | Standing::Held) {
            entry.standing = Standing::Waiting;
        }
    }
}

/// What there is of a session whose log is gone.
#[must_use]
pub fn left(remains: &Remains) -> String {
    let counted = [
        (remains.inputs, "admitted input"),
        (remains.set_aside, "file set aside"),
        (remains.blobs, "blob"),
        (remains.actions, "command"),
    ];
    let told = counted.iter().filter(|(n, _)| *n > 0).map(|(n, what)| match (*n, *what) {
        (n, "file set aside") if n > 1 => format!("{n} files set aside"),
        (n, what) => plural(n, what),
    });
    let told: Vec<String> = told.collect();
    if told.is_empty() {
        "nothing else is left".to_owned()
    } else {
        format!("left: {}", told.join(", "))
    }
}

/// What a person should know about how the catalog was found.
fn trouble(opened: &Opened) -> Option<String> {
    match opened {
        Opened::Kept | Opened::New => None,
        Opened::SetAside(path) => Some(format!(
            "the catalog was damaged and was made anew from the logs; the old one is {}",
            path.display()
        )),
        Opened::Memory(why) => {
            Some(format!("the catalog cannot be used, so every log was read: {why}"))
        }
    }
}

/// All sessions in the trash, newest last message first.
///
/// # Errors
/// When the trash cannot be listed.
pub fn trashed(stores: &Stores, now: Timestamp) -> Result<Vec<Entry>, StoreError> {
    let mut entries = Vec::new();
    for listed in stores.files.list_trash()? {
        match stores.files.read_trashed(&listed.id) {
            Ok(snapshot) => {
                entries.push(entry(Row::of(&snapshot, &listed.id, listed.bytes), listed.held));
            }
            Err(StoreError::NotFound(_)) => {}
            Err(error) => {
                let row = Row::unreadable(&listed.id, listed.bytes, chain(&error));
                entries.push(entry(row, listed.held));
            }
        }
    }
    sort(&mut entries, now);
    Ok(entries)
}

fn sort(entries: &mut [Entry], now: Timestamp) {
    entries.sort_by(|a, b| (b.last_active(now), &b.id).cmp(&(a.last_active(now), &a.id)));
}

/// One session, of which it is known whether another process holds it.
#[must_use]
pub fn entry(row: Row, held: bool) -> Entry {
    Entry {
        // The id of a child, or of a copy that was imported, carries no time.
        created: row.last_message_at.filter(|_| row.created.0 == 0).unwrap_or(row.created),
        last_message: row.last_message_at,
        totals: row.totals,
        bytes: row.bytes,
        standing: standing(&row, held),
        pid: None,
        name: row.name,
        first_prompt: row.first_prompt,
        model: row.model,
        project: Some(row.project).filter(|facts| **facts != ProjectFacts::default()),
        is_child: row.origin.as_ref().is_some_and(is_child),
        parent: row.origin.as_ref().and_then(Origin::belongs_to).map(|id| id.to_string()),
        forked_from: row.origin.as_ref().and_then(Origin::fork_of).map(str::to_owned),
        imported_from: row
            .origin
            .filter(|origin| origin.kind == OriginKind::Import)
            .map(|origin| origin.of),
        trouble: row.problem.filter(|_| !row.readable),
        id: row.id,
    }
}

/// Whether it is one of our subagents', a fork's copy of one, or was imported as the session of another agent's.
pub(crate) fn is_child(origin: &Origin) -> bool {
    origin.kind == OriginKind::Child || origin.parent.is_some()
}

/// Where a session stands; the first of these that applies.
fn standing(row: &Row, held: bool) -> Standing {
    match () {
        () if !row.readable => Standing::Unreadable,
        () if row.newer => Standing::Newer,
        () if row.problem.is_some() => Standing::Damaged,
        () if row.standing == Stands::Waiting => Standing::Waiting,
        () if held && row.open_run => Standing::Running,
        () if held => Standing::Held,
        () => match row.standing {
            Stands::Empty => Standing::Empty,
            Stands::Idle | Stands::Finished => Standing::Ended,
            Stands::Stopped | Stands::Stopping => Standing::Stopped,
            Stands::Waiting => Standing::Waiting,
            Stands::Interrupted | Stands::Suspended | Stands::Unanswered => Standing::Interrupted,
            Stands::Failed => Standing::Failed,
            Stands::Exhausted => Standing::Exhausted,
            Stands::Unknown => Standing::Unknown,
        },
    }
}
