//! The list of sessions, our own and other agents', kept so that listing need not read them.
//!
//! Responsible for: one row per session, made from its file, refreshed when the file changed, and shown
//! whatever happens to the database. Must not: be the only place of anything (G12): delete it, fill it
//! with zeros, lock it, and the list is the same, only slower.

mod database;
mod digest;
mod foreign_rows;
mod index;
mod packed;
mod row;
mod spent;

pub use digest::{Ending, ForeignRow};
pub use foreign_rows::Place;
pub use index::{Progress, Stale};
pub use row::{Activity, Row};
pub use spent::Spent;

use crate::disk::{Disk, Meta};
use crate::layout::{self, Found, Lost};
use crate::parallel::in_parallel;
use crate::reading::{self, LogFile};
use crate::remains::{self, Remains};
use crate::store::FileStore;
use database::{Database, Kept, Stored};
use segno_model::SessionId;
use segno_model::record::ProjectFacts;
use segno_model::store::StoreError;
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
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
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
    found: Vec<Found>,
    lost: Lost,
    foreign: Vec<ForeignRow>,
    places: HashMap<String, Place>,
}

impl Catalog {
    /// Opens or makes the database at `path`. This never fails and never blocks: at worst the list
    /// lives in memory.
    #[must_use]
    pub fn open(path: &Path) -> Self {
        Self {
            database: Database::open(path),
            rows: Vec::new(),
            found: Vec::new(),
            lost: Lost::new(),
            foreign: Vec::new(),
            places: HashMap::new(),
        }
    }

    /// Makes the database forget a session so that no byte of its row is in the file any more; says whether
    /// that worked. The next refresh makes the row again from the log.
    #[must_use]
    pub fn scrub(&mut self, id: &SessionId) -> bool {
        self.database.scrub(id)
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
        let (on_disk, lost, known) = thread::scope(|scope| {
            let walk = scope.spawn(|| walk(store));
            let known = self.database.load();
            let on_disk = walk.join().unwrap_or_else(|panic| resume_unwind(panic));
            on_disk.map(|(on_disk, lost)| (on_disk, lost, known))
        })?;
        let on_disk = with_children(store, on_disk, &known)?;
        let Matched { mut rows, stale, gone } = matched(&on_disk, known);
        let stale: Vec<(usize, &Found)> = stale.iter().map(|&at| (at, &on_disk[at])).collect();
        let made = in_parallel(&stale, |(_, found)| Stored {
            fingerprint: Fingerprint::of(&found.meta),
            row: read_row(store, found),
        });
        let mut report = Refreshed { total: rows.len(), read: made.len(), gone, saved: false };
        report.saved = self.database.save(&made, &report.gone);
        for ((at, _), stored) in stale.into_iter().zip(made) {
            rows[at] = stored.row;
        }
        self.rows = rows;
        self.found = on_disk;
        self.lost = lost;
        Ok(report)
    }

    /// What the last refresh found of sessions whose log is gone.
    #[must_use]
    pub fn remains<D: Disk>(&self, store: &FileStore<D>) -> Vec<Remains> {
        self.lost.iter().filter_map(|(id, dir)| remains::look(store, id, dir)).collect()
    }

    /// Those of the last refresh that somebody holds now.
    #[must_use]
    pub fn held<D: Disk>(&self, store: &FileStore<D>) -> HashSet<SessionId> {
        let locks = store.locks();
        let held = self.found.iter().filter(|found| locks.is_held(store.disk(), found));
        held.map(|found| found.id.clone()).collect()
    }

    /// The rows of the last refresh in the order of their ids, for one who asks for them once.
    pub fn take_rows(&mut self) -> Vec<Row> {
        self.found = Vec::new();
        std::mem::take(&mut self.rows)
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
fn walk<D: Disk>(store: &FileStore<D>) -> Result<(Vec<Found>, Lost), StoreError> {
    let (mut found, mut lost) = store.layout().all_and_lost(store.disk())?;
    // They are in order already but for those that lie in another month than theirs.
    found.sort_by(|a, b| a.id.cmp(&b.id));
    found.dedup_by(|second, first| {
        let is_same = second.id == first.id;
        if is_same && second.dir() == store.layout().home(&second.id) {
            std::mem::swap(first, second);
        }
        is_same
    });
    lost.retain(|(id, _)| found.binary_search_by(|found| found.id.cmp(id)).is_err());
    Ok((found, lost))
}

/// Puts children among the sessions, in the order of the ids. A child is made behind a record of its parent,
/// so only those are looked into that had some, or that changed since.
fn with_children<D: Disk>(
    store: &FileStore<D>,
    mut found: Vec<Found>,
    known: &Kept,
) -> Result<Vec<Found>, StoreError> {
    let mut rows = known.rows.iter().zip(&known.fingerprints).peekable();
    let mut parents = Vec::new();
    for session in &found {
        while rows.next_if(|(row, _)| row.id < session.id).is_some() {}
        let row = rows.next_if(|(row, _)| row.id == session.id);
        let same = row.filter(|(_, print)| **print == Some(Fingerprint::of(&session.meta)));
        if same.is_none_or(|(row, _)| row.has_children) {
            parents.push(session);
        }
    }
    let below =
        in_parallel(&parents, |parent| layout::sessions_in(store.disk(), &parent.dir().children()));
    let children = below.into_iter().collect::<Result<Vec<_>, _>>()?;
    found.extend(children.into_iter().flatten());
    found.sort_by(|a, b| a.id.cmp(&b.id));
    Ok(found)
}

/// What is on disk beside what is stored.
struct Matched {
    /// One for each session on disk.
    rows: Vec<Row>,
    /// Where those stand that have to be made.
    stale: Vec<usize>,
    /// What is stored and not on disk.
    gone: Vec<SessionId>,
}

/// Both lists are in the order of their ids.
fn matched(on_disk: &[Found], known: Kept) -> Matched {
    let (mut places, mut stale, mut gone) = (Vec::new(), Vec::new(), Vec::new());
    let mut rows = known.rows.iter().zip(&known.fingerprints).enumerate().peekable();
    for (at, found) in on_disk.iter().enumerate() {
        while let Some((_, (before, _))) = rows.next_if(|(_, (row, _))| row.id < found.id) {
            gone.push(before.id.clone());
        }
        let kept = rows.next_if(|(_, (row, _))| row.id == found.id);
        places.push(kept.map(|(place, _)| place));
        let fingerprint = kept.and_then(|(_, (_, fingerprint))| *fingerprint);
        if fingerprint != Some(Fingerprint::of(&found.meta)) {
            stale.push(at);
        }
    }
    gone.extend(rows.map(|(_, (row, _))| row.id.clone()));
    Matched { rows: in_places(known.rows, &places, on_disk), stale, gone }
}

/// The rows of what is on disk, by their places among those that are known; nearly always that is where
/// they are.
fn in_places(mut known: Vec<Row>, places: &[Option<usize>], on_disk: &[Found]) -> Vec<Row> {
    let stays = |(at, place): (usize, &Option<usize>)| *place == Some(at);
    if known.len() == places.len() && places.iter().enumerate().all(stays) {
        return known;
    }
    let blank = |found: &Found| Row::blank(found.id.clone());
    let moved = places.iter().zip(on_disk).map(|(place, found)| {
        let known = place.and_then(|place| known.get_mut(place));
        known.map_or_else(|| blank(found), |row| std::mem::replace(row, blank(found)))
    });
    moved.collect()
}

/// Reads a row off a log. A log that cannot be read has a row all the same, which says why.
fn read_row<D: Disk>(store: &FileStore<D>, found: &Found) -> Row {
    let Found { id, meta, .. } = found;
    let log = LogFile::open(store, &found.dir(), id);
    let row = match log.and_then(|log| reading::snapshot(&log, id)) {
        Ok(snapshot) => Row::of(&snapshot, id, meta.len),
        Err(error) => Row::unreadable(id, meta.len, error.to_string()),
    };
    let has_children = layout::exists(store.disk(), &found.dir().children()).unwrap_or(true);
    Row { has_children, ..row }
}
