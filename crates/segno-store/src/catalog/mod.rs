//! The list of sessions, our own and other agents', kept so that listing need not read them.
//!
//! Responsible for: one row per session, made from its file, refreshed when the file changed, and shown
//! whatever happens to the database. Must not: be the only place of anything (G12): delete it, fill it
//! with zeros, lock it, and the list is the same, only slower.

mod database;
mod digest;
mod foreign_rows;
mod index;
mod row;

pub use digest::{Ending, ForeignRow, Spent};
pub use index::{Progress, Unread};
pub use row::{Activity, Row};

use crate::disk::{Disk, FileId, Meta};
use crate::layout::{Found, SessionDir};
use crate::parallel::in_parallel;
use crate::reading::{self, LogFile};
use crate::store::FileStore;
use database::{Database, Kept, Stored};
use segno_model::SessionId;
use segno_model::record::ProjectFacts;
use segno_model::store::StoreError;
use serde::{Deserialize, Serialize};
use std::collections::{HashMap, HashSet};
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::thread;

/// How the database was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Opened {
    /// In order.
    Kept,
    /// Not there; a new one was made.
    New,
    /// Not usable; it was moved here and a new one was made.
    SetAside(PathBuf),
    /// Not usable and not replaceable, for this reason; the list lives in memory only.
    Memory(String),
}

/// What a refresh did.
#[derive(Debug, Default)]
pub struct Refreshed {
    /// How many sessions there are.
    pub total: usize,
    /// How many logs were read because they were new or had changed.
    pub read: usize,
    /// Sessions that the database knew and that are gone.
    pub gone: Vec<SessionId>,
    /// Whether the database holds all of this now. If not, the next refresh reads more.
    pub saved: bool,
}

/// Which rows are wanted.
#[derive(Debug, Clone, Default)]
pub struct Filter {
    /// Only sessions of this project.
    pub project: Option<ProjectFacts>,
}

/// By what a log's file is known to be the one that was read. Every append changes the length; a file
/// that was put in its place has another number or time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Fingerprint {
    bytes: u64,
    modified_ns: i64,
    ino: u64,
}

impl Fingerprint {
    fn of(meta: &Meta) -> Self {
        Self { bytes: meta.len, modified_ns: meta.modified_ns, ino: meta.id.ino }
    }
}

/// The list of sessions.
#[derive(Debug)]
pub struct Catalog {
    database: Database,
    /// In the order of their ids.
    rows: Vec<Row>,
    /// The directory and log of each row.
    logs: Vec<(SessionDir, FileId)>,
    foreign: Vec<ForeignRow>,
    places: HashMap<String, ProjectFacts>,
}

impl Catalog {
    /// Opens or makes the database at `path`. This never fails and never blocks: at worst the list
    /// lives in memory.
    #[must_use]
    pub fn open(path: &Path) -> Self {
        Self {
            database: Database::open(path),
            rows: Vec::new(),
            logs: Vec::new(),
            foreign: Vec::new(),
            places: HashMap::new(),
        }
    }

    /// How the database was found.
    #[must_use]
    pub fn opened(&self) -> &Opened {
        self.database.opened()
    }

    /// Brings the list up to date with what is on disk.
    ///
    /// # Errors
    /// Only when the sessions themselves cannot be listed.
    pub fn refresh<D: Disk>(&mut self, store: &FileStore<D>) -> Result<Refreshed, StoreError> {
        let (on_disk, known) = thread::scope(|scope| {
            let walk = scope.spawn(|| walk(store));
            let known = self.database.load();
            let on_disk = walk.join().unwrap_or_else(|panic| resume_unwind(panic));
            on_disk.map(|on_disk| (on_disk, known))
        })?;
        let (wanted, gone) = matched(on_disk, known);
        let made = in_parallel(&wanted, |(found, kept)| make(store, found, kept.as_ref()));
        let (mut changed, mut report) = (Vec::new(), Refreshed { gone, ..Refreshed::default() });
        self.rows = Vec::with_capacity(wanted.len());
        self.logs = Vec::with_capacity(wanted.len());
        for ((found, _), (row, is_new)) in wanted.into_iter().zip(made) {
            if is_new {
                let fingerprint = Fingerprint::of(&found.meta);
                changed.push(Stored { fingerprint, row: row.clone() });
            }
            self.rows.push(row);
            self.logs.push((found.dir, found.meta.id));
        }
        (report.total, report.read) = (self.rows.len(), changed.len());
        report.saved = self.database.save(&changed, &report.gone);
        Ok(report)
    }

    /// Those of the last refresh that somebody holds now.
    #[must_use]
    pub fn held<D: Disk>(&self, store: &FileStore<D>) -> HashSet<SessionId> {
        let locks = store.locks();
        let all = self.rows.iter().zip(&self.logs);
        let held = all.filter(|(_, (dir, log))| locks.is_held(store.disk(), dir, *log));
        held.map(|(row, _)| row.id.clone()).collect()
    }

    /// The rows of the last refresh in no particular order, for one who needs the catalog no more.
    #[must_use]
    pub fn into_rows(self) -> Vec<Row> {
        self.rows
    }

    /// The rows of the last refresh, the session with the newest message first.
    #[must_use]
    pub fn rows(&self, filter: &Filter) -> Vec<&Row> {
        let wanted = |row: &&Row| filter.project.as_ref().is_none_or(|p| row.is_of(p));
        let mut rows: Vec<_> = self.rows.iter().filter(wanted).collect();
        rows.sort_by(|a, b| (b.last_active(), &b.id).cmp(&(a.last_active(), &a.id)));
        rows
    }

    /// The row of one session.
    #[must_use]
    pub fn row(&self, id: &SessionId) -> Option<&Row> {
        let at = self.rows.binary_search_by(|row| row.id.cmp(id)).ok()?;
        self.rows.get(at)
    }
}

/// What is on disk, in the order of the ids. Of two directories of one session, the one in its month
/// counts.
fn walk<D: Disk>(store: &FileStore<D>) -> Result<Vec<Found>, StoreError> {
    let mut found = store.layout().all(store.disk())?;
    found.sort_by(|a, b| a.id.cmp(&b.id));
    found.dedup_by(|second, first| {
        let is_same = second.id == first.id;
        if is_same && second.dir == store.layout().home(&second.id) {
            std::mem::swap(first, second);
        }
        is_same
    });
    Ok(found)
}

/// What is on disk, each with its stored row if that is up to date, and the ids that are stored and not
/// on disk. Both lists are in the order of their ids.
fn matched(on_disk: Vec<Found>, known: Vec<Kept>) -> (Vec<(Found, Option<Kept>)>, Vec<SessionId>) {
    let (mut wanted, mut gone) = (Vec::with_capacity(on_disk.len()), Vec::new());
    let mut known = known.into_iter().peekable();
    for found in on_disk {
        while let Some(before) = known.next_if(|kept| kept.id < found.id) {
            gone.push(before.id);
        }
        let kept = known.next_if(|kept| kept.id == found.id);
        let fingerprint = Fingerprint::of(&found.meta);
        wanted.push((found, kept.filter(|kept| kept.fingerprint == fingerprint)));
    }
    gone.extend(known.map(|kept| kept.id));
    (wanted, gone)
}

/// The row of a session, and whether it had to be read off the log.
fn make<D: Disk>(store: &FileStore<D>, found: &Found, kept: Option<&Kept>) -> (Row, bool) {
    match kept.and_then(|kept| serde_json::from_str::<Row>(&kept.row).ok()) {
        Some(row) if row.id == found.id => (row, false),
        _ => (read_row(store, &found.id, &found.dir, found.meta.len), true),
    }
}

/// Reads a row off a log. A log that cannot be read has a row all the same, which says why.
fn read_row<D: Disk>(store: &FileStore<D>, id: &SessionId, dir: &SessionDir, bytes: u64) -> Row {
    let snapshot = LogFile::open(store, dir, id).and_then(|log| reading::snapshot(&log, id));
    match snapshot {
        Ok(snapshot) => Row::of(&snapshot, id, bytes),
        Err(error) => Row::unreadable(id, bytes, error.to_string()),
    }
}
