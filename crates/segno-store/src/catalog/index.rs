//! Brings the rows of other agents' sessions up to date.
//!
//! Responsible for: which sessions are read again, reading them on all processors, and saving as it goes,
//! so that what was read is not lost when the process ends. Must not: hide a session that is on disk;
//! what cannot be read has a row that says so.

use super::Catalog;
use super::digest::{Digest, ForeignRow, Spent};
use super::foreign_rows::{self, Kept, Key, Made};
use crate::foreign::{self, ForeignError, Located};
use crate::parallel::in_parallel;
use segno_model::record::ProjectFacts;
use std::cmp::Reverse;
use std::collections::{BTreeSet, HashSet};
use std::error::Error;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
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

/// What a refresh left for the next time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Unread {
    /// How many sessions.
    pub sessions: usize,
    /// How many bytes they have.
    pub bytes: u64,
}

impl Catalog {
    /// Brings the rows of the sessions in `located` up to date, and forgets those of sessions that are
    /// not in it. Files that changed last are read first; once `limit` bytes were read, the rest is left
    /// for the next time. `progress` is called as sessions are read, with the row that was made.
    pub fn refresh_foreign(
        &mut self,
        located: Vec<Located>,
        limit: u64,
        progress: &mut dyn FnMut(Progress, &ForeignRow),
    ) -> Unread {
        let (mut known, _) = self.database.ask(foreign_rows::load);
        self.load_places();
        let mut stale = Vec::new();
        let mut fresh = Vec::new();
        let mut seen = HashSet::new();
        for session in located {
            let key = key(&session);
            // The same file under two names is one session. The number alone would not do: every file
            // system counts its own.
            let is_file = session.key.is_none() && session.stamp.ino != 0;
            if is_file && !seen.insert(session.stamp) {
                continue;
            }
            match known.remove(&key).map(|kept| (kept.stamp == session.stamp, kept)) {
                Some((true, kept)) => fresh.push((session, kept)),
                Some((false, kept)) => stale.push((session, Some(kept))),
                None => stale.push((session, None)),
            }
        }
        let gone: Vec<Key> = known.into_keys().collect();
        if !gone.is_empty() {
            self.database.ask(|connection| foreign_rows::remove(connection, &gone));
        }
        let rows = in_parallel(&fresh, |(_, kept)| kept.parsed());
        self.foreign = Vec::with_capacity(rows.len());
        for ((session, _), row) in fresh.into_iter().zip(rows) {
            match row {
                Some(row) => self.foreign.push(row),
                // It was written by a damaged database.
                None => stale.push((session, None)),
            }
        }
        stale.sort_by_key(|(session, _)| Reverse(session.stamp.modified_ns));
        let later = stale.split_off(within(&stale, limit));
        self.read_stale(&stale, progress);
        // What was known of a session that changed is better than nothing.
        self.foreign.extend(later.iter().filter_map(|(_, kept)| kept.as_ref()?.parsed()));
        Unread {
            sessions: later.len(),
            bytes: later.iter().map(|(session, _)| session.stamp.bytes).sum(),
        }
    }

    fn read_stale(
        &mut self,
        stale: &[(Located, Option<Kept>)],
        progress: &mut dyn FnMut(Progress, &ForeignRow),
    ) {
        let of_bytes = stale.iter().map(|(session, _)| session.stamp.bytes).sum();
        let mut done = Progress { read: 0, of: stale.len(), bytes: 0, of_bytes };
        let mut batch: Vec<Made> = Vec::new();
        let mut unsaved = 0;
        read_all(stale, &mut |made| {
            done.read += 1;
            done.bytes += made.stamp.bytes;
            unsaved += made.stamp.bytes;
            progress(done, &made.row);
            self.foreign.push(made.row.clone());
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
        self.foreign.iter().map(|row| self.placed(row.clone())).collect()
    }

    /// The same, for one who needs the catalog no more.
    #[must_use]
    pub fn into_foreign_rows(mut self) -> Vec<ForeignRow> {
        let rows = std::mem::take(&mut self.foreign);
        rows.into_iter().map(|row| self.placed(row)).collect()
    }

    /// A row with what is known of its place.
    fn placed(&self, mut row: ForeignRow) -> ForeignRow {
        if let Some(facts) = self.places.get(&row.project.cwd) {
            row.project = facts.clone();
        }
        row
    }

    /// Working directories of other agents' sessions that were not looked at yet, or were not there then.
    /// Whoever can look tells with [`Self::set_places`].
    #[must_use]
    pub fn unknown_places(&self) -> Vec<String> {
        let cwds: BTreeSet<&str> =
            self.foreign.iter().map(|row| row.project.cwd.as_str()).collect();
        let known = |cwd: &str| self.places.get(cwd).is_some_and(|facts| facts.real_path.is_some());
        let unknown = cwds.into_iter().filter(|cwd| !cwd.is_empty() && !known(cwd));
        unknown.map(str::to_owned).collect()
    }

    /// The directories that were found to be there, in which agents may keep sessions of their own.
    pub fn known_places(&mut self) -> Vec<PathBuf> {
        self.load_places();
        let there = self.places.values().filter_map(|facts| facts.real_path.as_deref());
        there.map(PathBuf::from).collect()
    }

    fn load_places(&mut self) {
        if self.places.is_empty() {
            self.places = self.database.ask(foreign_rows::places).0;
        }
    }

    /// Keeps what was found out about directories. One that was once there keeps its facts.
    pub fn set_places(&mut self, found: Vec<(String, ProjectFacts)>) {
        self.database.ask(|connection| foreign_rows::save_places(connection, &found));
        self.places.extend(found);
    }

    /// The row of one session, made now and kept nowhere.
    #[must_use]
    pub fn digest(session: &Located) -> ForeignRow {
        read(session).0
    }

    /// What was spent in one session of another agent, response by response.
    pub fn spent(&mut self, row: &ForeignRow) -> Vec<Spent> {
        let key = Key { agent: row.agent, path: row.path.clone(), key: row.key.clone() };
        self.database.ask(|connection| foreign_rows::spent(connection, &key)).0
    }
}

/// How many of the first sessions are read: at least one, and as many as stay within so many bytes.
fn within(stale: &[(Located, Option<Kept>)], limit: u64) -> usize {
    let mut bytes = 0_u64;
    let fits = |(session, _): &&(Located, Option<Kept>)| {
        bytes = bytes.saturating_add(session.stamp.bytes);
        bytes <= limit
    };
    stale.iter().take_while(fits).count().max(1).min(stale.len())
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
        && let Some(row) = kept.parsed()
    {
        return Made { key, stamp, mark, row, spent: None };
    }
    let (row, spent) = read(session);
    Made { key, stamp, mark, row, spent: Some(spent) }
}

fn read(session: &Located) -> (ForeignRow, Vec<Spent>) {
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
