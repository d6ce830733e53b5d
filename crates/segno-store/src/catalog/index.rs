//! Brings the rows of other agents' sessions up to date.
//!
//! Responsible for: which sessions are read again, reading them on all processors, and saving as it goes,
//! so that what was read is not lost when the process ends. Must not: hide a session that is on disk;
//! what cannot be read has a row that says so.

use super::Catalog;
use super::digest::{Digest, ForeignRow};
use super::foreign_rows::{self, Kept, Made, Place};
use super::spent::{Ledger, Spent};
use crate::foreign::{self, ForeignError, Located, Roots, Stamp};
use crate::kept::Kept as Copies;
use segno_model::Timestamp;
use std::cmp::Reverse;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::error::Error;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread;

/// After so many sessions, or bytes of them, what was read is saved.
const SAVE_SESSIONS: usize = 500;
const SAVE_BYTES: u64 = 256 << 20;
/// How much of a file's beginning and end its mark covers.
const MARKED: u64 = 4096;

/// How far indexing is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// Sessions read so far in this refresh.
    pub read: usize,
    /// Sessions that have to be read.
    pub of: usize,
    /// Their bytes so far.
    pub bytes: u64,
    /// All their bytes.
    pub of_bytes: u64,
    /// When the newest of those that were not read yet was changed; none when all were. What was said in
    /// them was said no later, unless a clock was wrong.
    pub newest_unread: Option<Timestamp>,
}

impl Progress {
    /// Before anything was read.
    fn of(stale: &[(Located, Option<Kept>)]) -> Self {
        let of_bytes = stale.iter().map(|(session, _)| session.stamp.bytes).sum();
        let newest_unread = stale.first().map(|(session, _)| changed(session));
        Self { read: 0, of: stale.len(), bytes: 0, of_bytes, newest_unread }
    }
}

/// When a file was changed, in whole milliseconds and no earlier.
fn changed(session: &Located) -> Timestamp {
    let ns = session.stamp.modified_ns;
    Timestamp(ns.div_euclid(1_000_000) + i64::from(ns.rem_euclid(1_000_000) > 0))
}

/// What has to be read before the list is complete, the files that changed last first.
#[derive(Debug)]
pub struct Stale {
    /// What could not be listed at all.
    pub failed: Vec<ForeignError>,
    /// Rows of files and of rows in databases that are not there any more: deleted, or moved. They are told each time,
    /// until [`Catalog::forget_foreign`].
    pub gone: Vec<ForeignRow>,
    /// Files that are another one under another name, each with the one that is listed.
    pub links: Vec<(PathBuf, PathBuf)>,
    sessions: Vec<(Located, Option<Kept>)>,
}

impl Stale {
    /// The sessions that have to be read.
    pub fn sessions(&self) -> impl ExactSizeIterator<Item = &Located> {
        self.sessions.iter().map(|(session, _)| session)
    }

    /// What is ahead.
    #[must_use]
    pub fn progress(&self) -> Progress {
        Progress::of(&self.sessions)
    }
}

impl Catalog {
    /// Looks for other agents' sessions below `roots` and in the directories that are known from earlier,
    /// and names those that are gone. Reads none of them: rows of files that are as they were are in the list
    /// then, and the rest is handed over. Of `kept` sessions whose originals are gone, the copies are in the list.
    pub fn find_foreign(&mut self, roots: &Roots, kept: &[Copies]) -> Stale {
        let mut roots = roots.clone();
        roots.projects.extend(self.known_places());
        let (known, (mut located, failed)) = thread::scope(|scope| {
            let locating = scope.spawn(|| foreign::locate(&roots));
            let known = self.database.ask(foreign_rows::load).0;
            (known, locating.join().unwrap_or_else(|panic| resume_unwind(panic)))
        });
        let gone = gone(&located, kept);
        located.extend(gone);
        let (located, links) = each_once(located);
        let (sessions, gone) = self.match_foreign(known, located);
        Stale { failed, gone, links, sessions }
    }

    /// Forgets the rows of sessions that are gone.
    pub fn forget_foreign(&mut self, gone: &[ForeignRow]) {
        if !gone.is_empty() {
            self.database.ask(|connection| foreign_rows::remove(connection, gone));
        }
    }

    /// Takes the rows that are up to date; gives the sessions whose rows are not, and the rows that are nobody's.
    fn match_foreign(
        &mut self,
        mut known: HashMap<u64, Kept>,
        located: Vec<Located>,
    ) -> (Vec<(Located, Option<Kept>)>, Vec<ForeignRow>) {
        let mut stale = Vec::new();
        self.foreign = Vec::with_capacity(located.len());
        for session in located {
            let hash = foreign_rows::hash(session.agent, &session.path, session.key.as_deref());
            match known.remove(&hash).filter(|kept| kept.is_of(&session)) {
                Some(kept) if kept.is_sound && kept.stamp == session.stamp => {
                    let row = self.placed(*kept.row);
                    self.foreign.push(row);
                }
                kept => stale.push((session, kept)),
            }
        }
        let gone = known.into_values().map(|kept| *kept.row).collect();
        stale.sort_by_key(|(session, _)| Reverse(session.stamp.modified_ns));
        (stale, gone)
    }

    /// Reads sessions into the list. `progress` is called as they are read, with the row that was made.
    pub fn read_foreign(&mut self, stale: &Stale, progress: &mut dyn FnMut(Progress, &ForeignRow)) {
        let stale = &stale.sessions;
        let mut done = Progress::of(stale);
        let mut batch: Vec<Made> = Vec::new();
        let mut unsaved = 0;
        // Those behind the first unread one that were read already.
        let (mut first, mut ahead) = (0, BTreeSet::new());
        read_all(stale, &mut |at, made| {
            ahead.insert(at);
            while ahead.remove(&first) {
                first += 1;
            }
            done.newest_unread = stale.get(first).map(|(session, _)| changed(session));
            done.read += 1;
            done.bytes += made.stamp.bytes;
            unsaved += made.stamp.bytes;
            let row = self.placed(made.row.clone());
            progress(done, &row);
            self.foreign.push(row);
            batch.push(made);
            if batch.len() >= SAVE_SESSIONS || unsaved >= SAVE_BYTES {
                self.database.ask(|connection| foreign_rows::save(connection, &batch));
                batch.clear();
                unsaved = 0;
            }
        });
        if !batch.is_empty() {
            self.database.ask(|connection| foreign_rows::save(connection, &batch));
        }
    }

    /// The rows of other agents' sessions that are known so far, in no particular order.
    #[must_use]
    pub fn foreign_rows(&self) -> &[ForeignRow] {
        &self.foreign
    }

    /// The same, for one who asks for them once.
    pub fn take_foreign_rows(&mut self) -> Vec<ForeignRow> {
        std::mem::take(&mut self.foreign)
    }

    /// A row with what is known of its place.
    fn placed(&self, mut row: ForeignRow) -> ForeignRow {
        if let Some(place) = self.places.get(&row.project.cwd) {
            row.project = Arc::clone(&place.facts);
        }
        row
    }

    /// Working directories of other agents' sessions that were not looked at yet, or were not there then.
    /// Whoever can look tells with [`Self::set_places`].
    #[must_use]
    pub fn unknown_places(&self) -> Vec<String> {
        let cwds: BTreeSet<&str> =
            self.foreign.iter().map(|row| row.project.cwd.as_str()).collect();
        let unknown = cwds.into_iter().filter(|cwd| !cwd.is_empty() && !self.is_there(cwd));
        unknown.map(str::to_owned).collect()
    }

    fn is_there(&self, cwd: &str) -> bool {
        self.places.get(cwd).is_some_and(|place| place.facts.real_path.is_some())
    }

    /// The directories that were found to be there, in which agents may keep sessions of their own.
    fn known_places(&mut self) -> Vec<PathBuf> {
        self.load_places();
        let there = self.places.values().filter_map(|place| place.facts.real_path.as_deref());
        there.map(PathBuf::from).collect()
    }

    /// What was found out about a directory earlier.
    pub fn place(&mut self, cwd: &str) -> Option<&Place> {
        self.load_places();
        self.places.get(cwd)
    }

    fn load_places(&mut self) {
        if self.places.is_empty() {
            self.places = self.database.ask(foreign_rows::places).0;
        }
    }

    /// Keeps what was found out about directories. One that was once there keeps its facts.
    pub fn set_places(&mut self, found: HashMap<String, Place>) {
        self.database.ask(|connection| foreign_rows::save_places(connection, &found));
        self.places.extend(found);
        let rows = std::mem::take(&mut self.foreign);
        self.foreign = rows.into_iter().map(|row| self.placed(row)).collect();
    }

    /// The row of one session, made now and kept nowhere.
    #[must_use]
    pub fn digest(session: &Located) -> ForeignRow {
        read(session).0
    }

    /// What was spent in one session of another agent, response by response.
    pub fn spent(&mut self, row: &ForeignRow) -> Vec<Spent> {
        self.database.ask(|connection| foreign_rows::spent(connection, row)).0
    }
}

/// The same file under two names is one session, under the name that is no link; with those whose names tell
/// another id, and the names that are listed. The number alone would not do: every file system counts its own.
fn each_once(located: Vec<Located>) -> (Vec<Located>, Vec<(PathBuf, PathBuf)>) {
    let mut places: HashMap<Stamp, usize> = HashMap::new();
    let (mut each, mut links) = (Vec::with_capacity(located.len()), Vec::new());
    for mut session in located {
        let is_file = session.key.is_none() && session.stamp.ino != 0;
        let at = *places.entry(session.stamp).or_insert(each.len());
        if !is_file || at == each.len() {
            each.push(session);
            continue;
        }
        let Some(first) = each.get_mut(at) else { continue };
        if is_real(&session.path) && !is_real(&first.path) {
            std::mem::swap(first, &mut session);
        }
        if session.path.file_name() != first.path.file_name() {
            links.push((session.path, first.path.clone()));
        }
    }
    (each, links)
}

/// Whether no link leads to a file by this path.
fn is_real(path: &Path) -> bool {
    path.canonicalize().is_ok_and(|real| real == path)
}

/// The copies of sessions that are not there any more: neither where they were, nor moved by their agent.
fn gone(located: &[Located], kept: &[Copies]) -> Vec<Located> {
    let places: HashSet<_> = located.iter().map(|l| (l.agent, &l.path, &l.key)).collect();
    let ids: HashSet<_> = located.iter().filter_map(|l| Some((l.agent, l.id.as_ref()?))).collect();
    let is_there = |kept: &&Copies| {
        let moved = kept.id.as_ref().is_some_and(|id| ids.contains(&(kept.agent, id)));
        moved || places.contains(&(kept.agent, &kept.path, &kept.key))
    };
    // One whose copy is gone, too, is told as what cannot be read: it is no session that never was.
    kept.iter().filter(|kept| !is_there(kept)).map(Copies::located).collect()
}

/// Reads sessions on all processors and hands over each, with its place among them, as it is done.
fn read_all(stale: &[(Located, Option<Kept>)], take: &mut dyn FnMut(usize, Made)) {
    let workers = thread::available_parallelism().map_or(1, usize::from).min(stale.len());
    let next = AtomicUsize::new(0);
    let (send, receive) = mpsc::sync_channel(64);
    thread::scope(|scope| {
        for _ in 0..workers {
            let (send, next) = (send.clone(), &next);
            scope.spawn(move || {
                loop {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    let Some((session, kept)) = stale.get(at) else { break };
                    if send.send((at, make(session, kept.as_ref()))).is_err() {
                        break;
                    }
                }
            });
        }
        drop(send);
        receive.iter().for_each(|(at, made)| take(at, made));
    });
}

/// Reads one session. A file whose time changed and whose bytes did not keeps its row.
fn make(session: &Located, kept: Option<&Kept>) -> Made {
    let mark = mark(&session.path, session).unwrap_or(0);
    let stamp = session.stamp;
    if let Some(kept) = kept
        && (mark, stamp.bytes, stamp.ino) == (kept.mark, kept.stamp.bytes, kept.stamp.ino)
        && mark != 0
        && kept.is_sound
    {
        return Made { stamp, mark, row: ForeignRow::clone(&kept.row), spent: None };
    }
    let (row, spent) = read(session);
    Made { stamp, mark, row, spent: Some(spent) }
}

fn read(session: &Located) -> (ForeignRow, Ledger) {
    let mut digest = Digest::new(session);
    let failed = foreign::read(session, &mut digest).err();
    digest.finish(failed.map(|error| reason(&error)))
}

fn reason(error: &ForeignError) -> String {
    match error.source() {
        Some(source) => format!("{error}: {source}"),
        None => error.to_string(),
    }
}

/// A hash of a file's beginning and end; none for what is no file, or lies in a database.
fn mark(path: &Path, session: &Located) -> Option<u64> {
    if session.key.is_some() || session.stamp.bytes == 0 {
        return None;
    }
    let mut file = foreign::open_untouched(path).ok()?;
    let mut bytes = Vec::new();
    Read::by_ref(&mut file).take(MARKED).read_to_end(&mut bytes).ok()?;
    if session.stamp.bytes > MARKED {
        tail(&mut file, &mut bytes, session.stamp.bytes)?;
    }
    let hex = segno_model::sha256_hex(&bytes);
    u64::from_str_radix(&hex[..16], 16).ok()
}

fn tail(file: &mut File, bytes: &mut Vec<u8>, len: u64) -> Option<()> {
    file.seek(SeekFrom::Start(len.saturating_sub(MARKED).max(MARKED))).ok()?;
    file.take(MARKED).read_to_end(bytes).ok().map(drop)
}
