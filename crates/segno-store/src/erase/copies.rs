//! Sessions that share a record with another one.
//!
//! Responsible for: finding them by what their first lines say of forks, in any direction, in the trash too.
//! Must not: read further than line 1, or change any of them.

use crate::disk::Disk;
use crate::layout::{Found, sessions_in};
use crate::reading::LogFile;
use crate::store::FileStore;
use segno_model::line::decode;
use segno_model::record::OriginKind;
use segno_model::store::StoreError;
use segno_model::{Body, Seq, SessionId};
use std::collections::{BTreeMap, BTreeSet};

/// A session that has the same record.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Copy {
    /// Which.
    pub id: SessionId,
    /// Whether it is in the trash.
    pub trashed: bool,
}

impl<D: Disk> FileStore<D> {
    /// The sessions, other than this one, that have its record `seq` because one is a fork of the other.
    ///
    /// # Errors
    /// A failing disk.
    pub fn copies(&self, id: &SessionId, seq: Seq) -> Result<Vec<Copy>, StoreError> {
        let (mut trashed, mut shares) = (BTreeMap::new(), Vec::new());
        let there = self.layout().all(self.disk())?;
        let in_trash = sessions_in(self.disk(), &self.layout().trash())?;
        let both = there.into_iter().map(|found| (found, false));
        for (found, is_trashed) in both.chain(in_trash.into_iter().map(|found| (found, true))) {
            trashed.insert(found.id.clone(), is_trashed);
            shares.extend(self.forked_from(&found, seq).map(|of| (found.id, of)));
        }
        let mut reached = BTreeSet::from([id.clone()]);
        loop {
            let before = reached.len();
            for (one, other) in &shares {
                if reached.contains(one) || reached.contains(other) {
                    reached.extend([one.clone(), other.clone()]);
                }
            }
            if reached.len() == before {
                break;
            }
        }
        let others = reached.into_iter().filter(|other| other != id);
        let copy = |id: SessionId| Some(Copy { trashed: *trashed.get(&id)?, id });
        Ok(others.filter_map(copy).collect())
    }

    /// What a session was forked from, behind this record.
    fn forked_from(&self, found: &Found, seq: Seq) -> Option<SessionId> {
        let log = LogFile::open(self, &found.dir(), &found.id).ok()?;
        let mut of = None;
        log.lines(0, &mut |line, _| {
            if let Ok(record) = decode(line, 0)
                && let Body::Session(header) = record.body()
                && let Some(origin) = &header.origin
                && origin.kind == OriginKind::Fork
                && origin.up_to.is_none_or(|up_to| up_to >= seq)
            {
                of = SessionId::parse(&origin.of).ok();
            }
            false
        })
        .ok()?;
        of
    }
}
