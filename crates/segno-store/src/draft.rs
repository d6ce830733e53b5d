//! The file `draft` of a session: the reply that is being streamed.
//!
//! Responsible for: one request's draft in it at a time, and reading what is there. What its lines mean is
//! decided in `segno_model::draft`. Must not: sync (`docs/format/draft.md` says why), or touch the log.

use crate::disk::{Disk, DiskFile as _, Writes};
use crate::durable::{read_file, write_all};
use crate::error::{store_error, write_error};
use crate::layout::SessionDir;
use segno_model::Seq;
use segno_model::draft;
use segno_model::store::{DraftText, StoreError};
use std::io::ErrorKind;
use std::path::PathBuf;

/// The draft that is being written.
#[derive(Debug)]
pub(crate) struct DraftFile<D: Disk> {
    request: Seq,
    part: u64,
    path: PathBuf,
    file: D::File,
}

impl<D: Disk> DraftFile<D> {
    /// Begins the draft of a request; what another request left is given up.
    pub(crate) fn begin(disk: &D, dir: &SessionDir, request: Seq) -> Result<Self, StoreError> {
        let path = dir.draft();
        let file = match disk.create_new(&path, Writes::Append) {
            Err(e) if e.kind() == ErrorKind::AlreadyExists => {
                let file = disk.open_append(&path).map_err(|e| write_error("opening", &path, e))?;
                file.truncate(0).map_err(|e| write_error("cutting", &path, e))?;
                file
            }
            other => other.map_err(|e| write_error("creating", &path, e))?,
        };
        Ok(Self { request, part: 0, path, file })
    }

    /// Whether it is this request's.
    pub(crate) fn is_of(&self, request: Seq) -> bool {
        self.request == request
    }

    /// Adds text.
    pub(crate) fn add(&mut self, more: &str) -> Result<(), StoreError> {
        let lines = draft::encode(self.request, &mut self.part, more);
        write_all(&self.file, &lines).map_err(|e| write_error("writing", &self.path, e))
    }
}

/// What is there.
pub(crate) fn read<D: Disk>(disk: &D, dir: &SessionDir) -> Result<Option<DraftText>, StoreError> {
    let path = dir.draft();
    match read_file(disk, &path) {
        Ok(bytes) => Ok(draft::decode(&bytes)),
        Err(e) if e.kind() == ErrorKind::NotFound => Ok(None),
        Err(e) => Err(store_error("reading", &path, e)),
    }
}
