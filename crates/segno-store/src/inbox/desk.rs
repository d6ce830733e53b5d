//! The inbox as the holder of a session sees it.
//!
//! Responsible for: what waits, told from what the log settles already; taking away what is settled for
//! good; keeping what is damaged. Must not: take anything away whose record is not durable.

use super::{Entry, damaged_finding, name_of, names, read_entry, set_aside, unknown_finding};
use crate::disk::Disk;
use crate::error::write_error;
use crate::inbox::index;
use crate::layout::SessionDir;
use crate::reading::LogFile;
use crate::store::FileStore;
use segno_model::inbox::{Inbox, Pending, sort, used};
use segno_model::store::StoreError;
use segno_model::{Record, Seq, SessionId};
use std::collections::{BTreeMap, BTreeSet};
use std::io::ErrorKind;

/// What a holder knows about the files in its inbox.
#[derive(Debug, Default)]
pub(crate) struct InboxDesk {
    /// Names that were there before the right was taken.
    stale: BTreeSet<String>,
    /// Waiting inputs that were looked up in the log and not found: only this holder writes it.
    waiting: BTreeMap<String, Pending>,
    /// Ids that the log settles, with the record that does it.
    settled: BTreeMap<String, Seq>,
}

impl InboxDesk {
    /// What is there now is stale for whoever takes the right next.
    pub(crate) fn before_the_lock<D: Disk>(disk: &D, dir: &SessionDir) -> Result<Self, StoreError> {
        let stale = names(disk, &dir.inbox())?.into_iter().collect();
        Ok(Self { stale, ..Self::default() })
    }

    /// Takes note of what the holder appended.
    pub(crate) fn note(&mut self, records: &[Record]) {
        for used in records.iter().flat_map(used).filter(|used| used.stage.is_settled()) {
            let name = name_of(&used.id);
            // Others come into the inbox later, and are looked up then.
            if self.waiting.remove(&name).is_some() {
                self.settled.insert(name, seq_of(&used.stage));
            }
        }
    }

    /// What waits.
    pub(crate) fn pending<D: Disk>(
        &mut self,
        store: &FileStore<D>,
        dir: &SessionDir,
        id: &SessionId,
    ) -> Result<Inbox, StoreError> {
        let mut found = Inbox::default();
        let names = names(store.disk(), &dir.inbox())?;
        let there: BTreeSet<&String> = names.iter().collect();
        // A file that somebody took away is no input any more.
        self.waiting.retain(|name, _| there.contains(name));
        let mut new = Vec::new();
        for name in &names {
            if self.waiting.contains_key(name) || self.settled.contains_key(name) {
                continue;
            }
            match read_entry(store.disk(), &dir.inbox(), name)? {
                Entry::Input(pending) => new.push((name.clone(), *pending)),
                Entry::Damaged(why) => {
                    set_aside(store.disk(), dir, &dir.inbox().join(name))?;
                    let done = "it is kept in set-aside/".to_owned();
                    found.findings.push(damaged_finding(name, why, done));
                }
                Entry::Unknown => found.findings.push(unknown_finding(name)),
                Entry::Gone => {}
            }
        }
        self.look_up(store, dir, id, new)?;
        found.pending = self.waiting.values().cloned().collect();
        sort(&mut found.pending);
        Ok(found)
    }

    /// Tells new files that wait from those that the log settles.
    fn look_up<D: Disk>(
        &mut self,
        store: &FileStore<D>,
        dir: &SessionDir,
        id: &SessionId,
        new: Vec<(String, Pending)>,
    ) -> Result<(), StoreError> {
        if new.is_empty() {
            return Ok(());
        }
        let log = LogFile::open(store, dir, id)?;
        let names: Vec<&str> = new.iter().map(|(name, _)| name.as_str()).collect();
        let used = index::look_up(store, dir, &log, &names)?;
        for (name, pending) in new {
            match used.get(&name).map(|used| used.stage).filter(|stage| stage.is_settled()) {
                Some(stage) => drop(self.settled.insert(name, seq_of(&stage))),
                None => {
                    let stale = self.stale.contains(&name);
                    self.waiting.insert(name, Pending { stale, ..pending });
                }
            }
        }
        Ok(())
    }

    /// The newest record that settles something whose file is still there.
    pub(crate) fn newest_settled(&self) -> Option<Seq> {
        self.settled.values().copied().max()
    }

    /// Takes away what is settled; the records that do it are durable. No directory is synced: what
    /// comes back is settled all the same.
    pub(crate) fn clear<D: Disk>(&mut self, disk: &D, dir: &SessionDir) -> Result<(), StoreError> {
        while let Some(name) = self.settled.first_key_value().map(|(name, _)| name.clone()) {
            let path = dir.inbox().join(&name);
            match disk.remove_file(&path) {
                Err(e) if e.kind() != ErrorKind::NotFound => {
                    return Err(write_error("removing", &path, e));
                }
                _ => self.settled.remove(&name),
            };
        }
        Ok(())
    }
}

fn seq_of(stage: &segno_model::inbox::Stage) -> Seq {
    use segno_model::inbox::Stage;
    match stage {
        Stage::Pending => 0,
        Stage::Parked { seq }
        | Stage::Delivered { seq }
        | Stage::Withdrawn { seq }
        | Stage::Acted { seq }
        | Stage::Dropped { seq } => *seq,
    }
}
