//! Following a log that somebody else writes.
//!
//! Responsible for: the records that came since the last look, each once, durable before they are given
//! (G1). Must not: read again what was read, as long as the log goes on where it ended.

use crate::disk::{Disk, DiskFile};
use crate::error::write_error;
use crate::reading::LogFile;
use crate::store::FileStore;
use segno_model::line::decode;
use segno_model::store::{Scanned, StoreError};
use segno_model::{Record, Seq, SessionId};

/// Follows one session's log.
#[derive(Debug)]
pub struct Follower<D: Disk> {
    store: FileStore<D>,
    id: SessionId,
    /// The number that the next record has.
    next: Seq,
    /// Where in the file it begins, and how long line 1 is; unknown before the first look, and where
    /// damage had to be judged.
    at: Option<(u64, u64)>,
}

impl<D: Disk> Follower<D> {
    /// From the beginning.
    pub(crate) fn new(store: FileStore<D>, id: SessionId) -> Self {
        Self { store, id, next: 0, at: None }
    }

    /// The records that came since.
    ///
    /// # Errors
    /// [`StoreError::NotFound`], or a failing disk.
    pub fn look(&mut self) -> Result<Vec<Record>, StoreError> {
        let dir = self.store.layout().locate(self.store.disk(), &self.id)?;
        let log = LogFile::open(&self.store, &dir, &self.id)?;
        if self.at.is_some_and(|(at, _)| at == log.len) {
            return Ok(Vec::new());
        }
        log.file.sync_data().map_err(|e| write_error("syncing", &log.path, e))?;
        let new = match self.at {
            Some((at, origin)) => self.go_on(&log, at, origin)?,
            None => None,
        };
        match new {
            Some(new) => Ok(new),
            None => self.judge(&log),
        }
    }

    /// Reads on where the last look ended; none when the log does not go on there as it should.
    fn go_on(
        &mut self,
        log: &LogFile<D>,
        from: u64,
        origin: u64,
    ) -> Result<Option<Vec<Record>>, StoreError> {
        let (mut new, mut next, mut at, mut regular) =
            (Vec::new(), self.next, from, from < log.len);
        log.lines(from, &mut |line, ended| {
            if !ended {
                return false;
            }
            match decode(line, at.saturating_sub(origin)) {
                Ok(record) if record.seq() == next => new.push(record),
                _ => regular = false,
            }
            next += 1;
            at += line.len() as u64 + 1;
            regular
        })?;
        if !regular {
            return Ok(None);
        }
        self.next = next;
        self.at = Some((at, origin));
        Ok(Some(new))
    }

    /// Reads everything through the judge; gives what was not given before.
    fn judge(&mut self, log: &LogFile<D>) -> Result<Vec<Record>, StoreError> {
        let (next, mut new) = (self.next, Vec::new());
        log.scan(&mut |item| {
            if let Scanned::Record(record) = item
                && record.seq() >= next
            {
                new.push(*record);
            }
            true
        })?;
        if let Some(last) = new.last() {
            self.next = last.seq().saturating_add(1);
        }
        let origin = log.load()?.0.origin;
        let ends = |record: &Record| match record.seq() {
            0 => origin,
            _ => origin + record.offset + record.line.len() as u64 + 1,
        };
        self.at = new.last().map(|last| (ends(last), origin)).filter(|(at, _)| *at <= log.len);
        Ok(new)
    }
}

impl<D: Disk> FileStore<D> {
    /// Follows a session's log from its beginning.
    ///
    /// # Errors
    /// [`StoreError::NotFound`] when there is no such session.
    pub fn follow(&self, id: &SessionId) -> Result<Follower<D>, StoreError> {
        self.layout().locate(self.disk(), id)?;
        Ok(Follower::new(self.clone(), id.clone()))
    }
}
