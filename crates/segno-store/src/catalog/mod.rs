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

use crate::disk::{Disk, Meta};
use crate::layout::{Found, SessionDir};
use crate::reading::{self, LogFile};
use crate::store::FileStore;
use database::{Database, Stored};
use segno_model::SessionId;
use segno_model::record::ProjectFacts;
use segno_model::store::StoreError;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};

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
    rows: BTreeMap<SessionId, Row>,
    foreign: Vec<index::Slot>,
    places: HashMap<String, ProjectFacts>,
}

impl Catalog {
    /// Opens or makes the database at `path`. This never fails and never blocks: at worst the list
    /// lives in memory.
    #[must_use]
    pub fn open(path: &Path) -> Self {
        Self {
            database: Database::open(path),
            rows: BTreeMap::new(),
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
        let on_disk = store.layout().all(store.disk())?;
        let mut known = self.database.load();
        let mut report = Refreshed::default();
        let mut changed = Vec::new();
        self.rows.clear();
        for Found { id, dir, meta } in on_disk {
            let fingerprint = Fingerprint::of(&meta);
            let row = match known.remove(&id) {
                Some(stored) if stored.fingerprint == fingerprint => stored.row,
                _ => {
                    report.read += 1;
                    let row = read_row(store, &id, &dir, meta.len);
                    changed.push(Stored { fingerprint, row: row.clone() });
                    row
                }
            };
            self.rows.insert(id, row);
        }
        report.total = self.rows.len();
        report.gone = known.into_keys().filter(|id| !self.rows.contains_key(id)).collect();
        report.saved = self.database.save(&changed, &report.gone);
        Ok(report)
    }

    /// The rows of the last refresh, the session with the newest message first.
    #[must_use]
    pub fn rows(&self, filter: &Filter) -> Vec<&Row> {
        let wanted = |row: &&Row| filter.project.as_ref().is_none_or(|p| row.is_of(p));
        let mut rows: Vec<_> = self.rows.values().filter(wanted).collect();
        rows.sort_by_key(|row| std::cmp::Reverse((row.last_active(), row.id.clone())));
        rows
    }

    /// The row of one session.
    #[must_use]
    pub fn row(&self, id: &SessionId) -> Option<&Row> {
        self.rows.get(id)
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
