//! Looking for other agents' sessions, step by step.
//!
//! Responsible for: what is known at once, what has to be read, and handing over each session as it is
//! read. Must not: print.

use super::versions::{says_something, versions};
use super::{KeptMark, Original, Other, OtherState, Others, lineage, places, roots};
use crate::error::chain;
use crate::stores::Stores;
use segno_store::FileStore;
use segno_store::catalog::{Catalog, ForeignRow, Progress, Stale};
use segno_store::foreign::{self, Agent, Located, Roots, Running};
use segno_store::kept::Kept;
use std::collections::{HashMap, HashSet};
use std::io::ErrorKind;
use std::panic::resume_unwind;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread;
use tokio::sync::mpsc;

/// How many sessions are handed over at a time.
const BATCH: usize = 64;

/// Other agents' sessions, found and not all read.
#[derive(Debug)]
pub struct Survey {
    roots: Roots,
    running: Vec<Running>,
    catalog: Option<Catalog>,
    stale: Option<Stale>,
    trouble: Vec<String>,
    /// Where copies are kept.
    copies: PathBuf,
    /// Whether what is gone is told now, and not again.
    forgets: bool,
    links: Vec<String>,
    /// What could not be looked into.
    unseen: Vec<PathBuf>,
    files: FileStore,
    /// What is kept, by the original's name and by the copy's.
    kept: HashMap<(Agent, PathBuf, Option<String>), Kept>,
}

impl Survey {
    /// Finds them. Without a catalog, one is made when there is something to keep.
    pub async fn begin(stores: &Stores, catalog: Option<Catalog>) -> Self {
        let roots = roots(&stores.home);
        let catalog = catalog.or_else(|| new_catalog(stores, &roots));
        let mut survey = Self {
            roots,
            running: Vec::new(),
            catalog,
            stale: None,
            trouble: Vec::new(),
            copies: stores.files.root().join("kept"),
            forgets: false,
            links: Vec::new(),
            unseen: Vec::new(),
            files: stores.files.clone(),
            kept: HashMap::new(),
        };
        if let Some(catalog) = &mut survey.catalog {
            let (kept, trouble) =
                super::kept(stores).unwrap_or_else(|error| (Vec::new(), Some(chain(&error))));
            let stale = catalog.find_foreign(&survey.roots, &kept);
            survey.kept = marks(kept);
            survey.links = stale.links.iter().map(linked).collect();
            survey.unseen =
                stale.failed.iter().filter_map(|e| Some(e.path()?.to_owned())).collect();
            survey.trouble = stale.failed.iter().map(|error| chain(error)).chain(trouble).collect();
            // A folder is looked through once for each kind of file.
            survey.trouble.dedup();
            survey.stale = Some(stale);
            places::look(catalog).await;
        }
        survey.running = foreign::running(&survey.roots);
        survey
    }

    /// For who tells what is gone: it is not told again.
    #[must_use]
    pub fn forgetting(self) -> Self {
        Self { forgets: true, ..self }
    }

    /// The catalog in which they are kept.
    pub fn catalog(&mut self) -> Option<&mut Catalog> {
        self.catalog.as_mut()
    }

    /// Whether none was found.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        let known = self.catalog.as_ref().map_or(0, |catalog| catalog.foreign_rows().len());
        known == 0 && self.unread().next().is_none()
    }

    /// The sessions that have to be read.
    pub fn unread(&self) -> impl Iterator<Item = &Located> {
        self.stale.iter().flat_map(Stale::sessions)
    }

    /// What is ahead.
    #[must_use]
    pub fn progress(&self) -> Option<Progress> {
        self.stale.as_ref().map(Stale::progress)
    }

    /// The sessions that need not be read.
    #[must_use]
    pub fn known(&self) -> Vec<Other> {
        let rows = self.catalog.as_ref().map_or(&[][..], Catalog::foreign_rows);
        rows.iter().map(|row| self.other(row.clone())).collect()
    }

    /// Reads what has to be read, and gives everything. `seen` is called with each session that was read.
    pub async fn read(mut self, seen: &mut dyn FnMut(Progress, Other)) -> Others {
        let (Some(mut catalog), Some(stale)) = (self.catalog.take(), self.stale.take()) else {
            return Others { trouble: self.trouble, links: self.links, ..Others::default() };
        };
        let gone = stale.gone.clone();
        if stale.sessions().len() > 0 {
            catalog = self.read_stale(catalog, stale, seen).await;
            self.running = foreign::running(&self.roots);
        }
        if self.forgets {
            catalog.forget_foreign(&gone);
        }
        let rows = catalog.take_foreign_rows().into_iter();
        let mut sessions: Vec<Other> = rows.map(|row| self.other(row)).collect();
        lineage::trace(&mut sessions);
        let gone = self.vanished(gone, &sessions);
        Others { sessions, trouble: self.trouble, links: self.links, gone }
    }

    /// Of the rows whose file is not where it was, those of sessions that are nowhere else. A file that is there
    /// still is outside of the folders that are looked into now.
    fn vanished(&self, gone: Vec<ForeignRow>, sessions: &[Other]) -> Vec<Other> {
        if gone.is_empty() {
            return Vec::new();
        }
        let ids: HashSet<_> = sessions.iter().map(|s| (s.row.agent, s.row.id.as_str())).collect();
        let databases: HashSet<_> = sessions.iter().map(|s| s.row.path.as_path()).collect();
        let is_missing = |row: &ForeignRow| match row.key {
            Some(_) => databases.contains(row.path.as_path()),
            None => row.path.symlink_metadata().is_err_and(|e| e.kind() == ErrorKind::NotFound),
        };
        let is_kept = |row: &ForeignRow| {
            self.kept.contains_key(&(row.agent, row.path.clone(), row.key.clone()))
        };
        let is_lost = |row: &ForeignRow| {
            row.parent.is_none()
                && !is_kept(row)
                && !ids.contains(&(row.agent, row.id.as_str()))
                && !row.path.starts_with(&self.copies)
                && is_missing(row)
        };
        gone.into_iter().filter(is_lost).map(|row| self.other(row)).collect()
    }

    /// A row with what else is known of it. Where its agent has emptied the session before it went, what it was
    /// before is what is told.
    fn other(&self, row: ForeignRow) -> Other {
        let kept = self.kept.get(&(row.agent, row.path.clone(), row.key.clone()));
        let Some(kept) = kept else { return Other::new(row, &self.running) };
        let mut other = Other::new(row, &self.running);
        let original = match kept.copy == other.row.path {
            true => self.original(kept),
            false => Original::There,
        };
        // Of a copy in which no prompt is found, it is looked whether anything is.
        let is_hollow = || {
            let no_prompt = original != Original::There && other.row.first_prompt.is_none();
            no_prompt && !says_something(kept, &kept.copy)
        };
        let versions = match other.state == OtherState::Empty || is_hollow() {
            true => versions(&self.files, kept),
            false => Vec::new(),
        };
        let mut mark = KeptMark::of(kept, original);
        mark.versions = versions.len();
        if original != Original::There
            && let Some((version, row)) = versions.into_iter().next_back()
        {
            mark.version = Some(version.number);
            // What is known of its place, if the emptied one still says it.
            let known = Some(&other.row.project).filter(|known| known.cwd == row.project.cwd);
            let project = Arc::clone(known.unwrap_or(&row.project));
            other = Other::new(ForeignRow { project, ..row }, &self.running);
        }
        Other { kept: Some(mark), ..other }
    }

    /// What became of the original of a session of which the copy is read.
    fn original(&self, kept: &Kept) -> Original {
        let is_hidden = self.unseen.iter().any(|path| kept.path.starts_with(path));
        match std::fs::metadata(&kept.path) {
            _ if is_hidden => Original::Unseen,
            Ok(_) if kept.is_rows() => Original::Gone,
            Err(e) if matches!(e.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
                Original::Gone
            }
            _ => Original::Unseen,
        }
    }

    /// Reads in a thread of its own; what is known of places is found out beside.
    async fn read_stale(
        &self,
        mut catalog: Catalog,
        stale: Stale,
        seen: &mut dyn FnMut(Progress, Other),
    ) -> Catalog {
        let (send, mut receive) = mpsc::channel::<(Progress, ForeignRow)>(BATCH);
        let reading = thread::spawn(move || {
            catalog.read_foreign(&stale, &mut |progress, row| {
                // Nobody takes it only when this command is being dropped.
                let _ = send.blocking_send((progress, row.clone()));
            });
            catalog
        });
        let (mut batch, mut found) = (Vec::new(), HashMap::new());
        while receive.recv_many(&mut batch, BATCH).await > 0 {
            let cwds = batch.iter().filter(|(_, row)| row.project.real_path.is_none());
            let cwds = cwds.map(|(_, row)| row.project.cwd.clone());
            places::look_at_all(cwds.collect(), &mut found).await;
            for (progress, mut row) in batch.drain(..) {
                if let Some(place) = found.get(&row.project.cwd) {
                    row.project = Arc::clone(&place.facts);
                }
                seen(progress, self.other(row));
            }
        }
        // It ended when nothing more came.
        let mut catalog = reading.join().unwrap_or_else(|panic| resume_unwind(panic));
        if !found.is_empty() {
            catalog.set_places(found);
        }
        catalog
    }
}

fn linked((link, listed): &(PathBuf, PathBuf)) -> String {
    format!("{} is the same file as {}, which is listed", link.display(), listed.display())
}

fn marks(kept: Vec<Kept>) -> HashMap<(Agent, PathBuf, Option<String>), Kept> {
    let mut marks = HashMap::new();
    for kept in kept {
        marks.insert((kept.agent, kept.copy.clone(), kept.key.clone()), kept.clone());
        marks.insert((kept.agent, kept.path.clone(), kept.key.clone()), kept);
    }
    marks
}

/// A catalog in a home that is only made now, if there is a session of another agent.
fn new_catalog(stores: &Stores, roots: &Roots) -> Option<Catalog> {
    let (located, failed) = foreign::locate(roots);
    if located.is_empty() && failed.is_empty() {
        return None;
    }
    stores.make_home();
    Some(stores.open_catalog())
}
