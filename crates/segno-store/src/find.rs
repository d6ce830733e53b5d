//! Sessions by the beginning of their id.
//!
//! Responsible for: telling one match from several and from none. Must not: know names or `last`; the
//! command line resolves those.

use crate::disk::Disk;
use crate::store::FileStore;
use segno_model::SessionId;
use segno_model::store::StoreError;

/// What a beginning of an id stands for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Match {
    /// Exactly this session.
    One(SessionId),
    /// Any of these, oldest first.
    Several(Vec<SessionId>),
    /// No session.
    Nothing,
}

impl<D: Disk> FileStore<D> {
    /// The sessions whose ids begin with `query`, in either case. An empty query matches nothing.
    ///
    /// # Errors
    /// A failing disk.
    pub fn find(&self, query: &str) -> Result<Match, StoreError> {
        let query = query.trim().to_ascii_lowercase();
        if query.is_empty() {
            return Ok(Match::Nothing);
        }
        let all = self.layout().all(self.disk())?.into_iter().map(|found| found.id);
        let mut found: Vec<_> = all.filter(|id| id.as_str().starts_with(&query)).collect();
        found.sort();
        found.dedup();
        Ok(match found.len() {
            0 => Match::Nothing,
            1 => Match::One(found.remove(0)),
            _ => Match::Several(found),
        })
    }
}
