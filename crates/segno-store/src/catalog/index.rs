//! Brings the rows of other agents' sessions up to date.
//!
//! Responsible for: which sessions are read again, reading them on all processors, and saving as it goes,
//! so that what was read is not lost when the process ends. Must not: hide a session that is on disk;
//! what cannot be read has a row that says so.

use super::Catalog;
use super::digest::{Digest, ForeignRow, Spent};
use super::foreign_rows::{self, Kept, Key, Made};
use crate::foreign::{self, ForeignError, Located};
use segno_model::record::ProjectFacts;
use std::collections::{HashMap, HashSet};
use std::error::Error;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;
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
}

/// Tells the facts of a directory: where it really is, its repository.
pub trait Places {
    /// The facts of `cwd` as they are now; only `cwd` itself when it is not there.
    fn facts(&self, cwd: &str) -> ProjectFacts;
}

impl Catalog {
    /// Brings the rows of the sessions in `located` up to date, and forgets those of sessions that are
    /// not in it. `progress` is called as sessions are read.
    pub fn refresh_foreign(
        &mut self,
        located: Vec<Located>,
        places: &dyn Places,
        progress: &mut dyn FnMut(Progress),
    ) {
        let (mut known, _) = self.database.ask(foreign_rows::load);
        let (looked_at, _) = self.database.ask(foreign_rows::places);
        let mut stale = Vec::new();
        let mut fresh = Vec::new();
        let mut seen = HashSet::new();
        for session in located {
            let key = key(&session);
            // The same file under two names is one session.
            if session.key.is_none() && session.stamp.ino != 0 && !seen.insert(session.stamp.ino) {
                continue;
            }
            match known.remove(&key).map(|kept| (kept.stamp == session.stamp, kept)) {
                Some((true, kept)) => fresh.push((key, kept)),
                Some((false, kept)) => stale.push((session, Some(kept))),
                None => stale.push((session, None)),
            }
        }
        let gone: Vec<Key> = known.into_keys().collect();
        if !gone.is_empty() {
            self.database.ask(|connection| foreign_rows::remove(connection, &gone));
        }
        self.foreign = fresh.into_iter().map(|(_, kept)| Slot::Kept(kept.row)).collect();
        let mut atlas = Atlas { known: looked_at, new: Vec::new(), places };
        self.read_stale(stale, &mut atlas, progress);
        let new = std::mem::take(&mut atlas.new);
        if !new.is_empty() {
            self.database.ask(|connection| foreign_rows::save_places(connection, &new));
        }
    }

    fn read_stale(
        &mut self,
        stale: Vec<(Located, Option<Kept>)>,
        atlas: &mut Atlas<'_>,
        progress: &mut dyn FnMut(Progress),
    ) {
        let of_bytes = stale.iter().map(|(session, _)| session.stamp.bytes).sum();
        let mut done = Progress { read: 0, of: stale.len(), bytes: 0, of_bytes };
        let mut batch: Vec<Made> = Vec::new();
        let mut unsaved = 0;
        read_all(&stale, &mut |mut made| {
            made.row.project = atlas.facts(&made.row.project.cwd);
            done.read += 1;
            done.bytes += made.stamp.bytes;
            unsaved += made.stamp.bytes;
            progress(done);
            self.foreign.push(Slot::Read(made.row.clone()));
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

    /// The rows of other agents' sessions after the last refresh, in no particular order.
    #[must_use]
    pub fn foreign_rows(&self) -> Vec<ForeignRow> {
        // A row that cannot be parsed was written by a damaged database; it is read again next time.
        self.foreign.iter().filter_map(Slot::row).collect()
    }

    /// What was spent in one session of another agent, response by response.
    pub fn spent(&mut self, row: &ForeignRow) -> Vec<Spent> {
        let key = Key { agent: row.agent, path: row.path.clone(), key: row.key.clone() };
        self.database.ask(|connection| foreign_rows::spent(connection, &key)).0
    }
}

/// A row as it is held: parsed only when it is wanted.
#[derive(Debug)]
pub(super) enum Slot {
    Kept(String),
    Read(ForeignRow),
}

impl Slot {
    fn row(&self) -> Option<ForeignRow> {
        match self {
            Self::Kept(text) => serde_json::from_str(text).ok(),
            Self::Read(row) => Some(row.clone()),
        }
    }
}

/// The facts of directories, looked up once each.
struct Atlas<'a> {
    known: HashMap<String, ProjectFacts>,
    new: Vec<(String, ProjectFacts)>,
    places: &'a dyn Places,
}

impl Atlas<'_> {
    /// A directory that was once there keeps the facts that it had; one that was not is looked up again.
    fn facts(&mut self, cwd: &str) -> ProjectFacts {
        if cwd.is_empty() {
            return ProjectFacts::default();
        }
        if let Some(facts) = self.known.get(cwd)
            && facts.real_path.is_some()
        {
            return facts.clone();
        }
        let facts = self.places.facts(cwd);
        self.known.insert(cwd.to_owned(), facts.clone());
        self.new.push((cwd.to_owned(), facts.clone()));
        facts
    }
}

fn key(session: &Located) -> Key {
    Key { agent: session.agent, path: session.path.clone(), key: session.key.clone() }
}

/// Reads sessions on all processors and hands over each as it is done.
fn read_all(stale: &[(Located, Option<Kept>)], take: &mut dyn FnMut(Made)) {
    let workers = thread::available_parallelism().map_or(1, usize::from).min(stale.len());
    let next = AtomicUsize::new(0);
    let (send, receive) = mpsc::sync_channel(64);
    thread::scope(|scope| {
        for _ in 0..workers {
            let (send, next) = (send.clone(), &next);
            scope.spawn(move || {
                while let Some((session, kept)) = stale.get(next.fetch_add(1, Ordering::Relaxed)) {
                    if send.send(make(session, kept.as_ref())).is_err() {
                        break;
                    }
                }
            });
        }
        drop(send);
        receive.iter().for_each(take);
    });
}

/// Reads one session. A file whose time changed and whose bytes did not keeps its row.
fn make(session: &Located, kept: Option<&Kept>) -> Made {
    let mark = mark(&session.path, session).unwrap_or(0);
    let (key, stamp) = (key(session), session.stamp);
    if let Some(kept) = kept
        && (mark, stamp.bytes, stamp.ino) == (kept.mark, kept.stamp.bytes, kept.stamp.ino)
        && mark != 0
        && let Ok(row) = serde_json::from_str(&kept.row)
    {
        return Made { key, stamp, mark, row, spent: None };
    }
    let mut digest = Digest::new(session);
    let failed = foreign::read(session, &mut digest).err();
    let (row, spent) = digest.finish(failed.map(|error| reason(&error)));
    Made { key, stamp, mark, row, spent: Some(spent) }
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
