//! Making sessions of what a file holds.
//!
//! Responsible for: under which id each session comes in, and that it is whole and durable before anybody can
//! see it. Must not: overwrite anything, or take the writer's right of a session that is there.
//!
//! The sessions come in one behind the other, the parent first: a kill leaves a parent without some of its
//! children, and the same file brings those in later.

use super::inspect::{Found, Inventory, Whole, inspect};
use super::pack::{hash_of, hex};
use super::{BLOCK, BundleError};
use crate::disk::{Disk, DiskFile};
use crate::durable::{TempFile, create_dirs, create_temp, sync_dir, write_all};
use crate::error::{store_error, write_error};
use crate::fork::{self, cut, settle};
use crate::layout::{SessionDir, exists};
use crate::leftovers;
use crate::reading::LogFile;
use crate::store::FileStore;
use segno_model::batch::{Draft, plan};
use segno_model::bundle::{PartKind, copied_id};
use segno_model::record::{Header, Origin, OriginKind};
use segno_model::state::State;
use segno_model::store::{ForkPoint, StoreError};
use segno_model::{Body, Record, SessionId, Timestamp, line};
use sha2::{Digest as _, Sha256};
use std::io::{BufRead as _, BufReader, Read, Seek, SeekFrom};

/// The longest line 1 that is rewritten.
const MAX_HEADER: u64 = 4 << 20;

/// One session that came in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Taken {
    /// Its id in the file.
    pub of: SessionId,
    /// Its id here.
    pub id: SessionId,
    /// Whether it was here before.
    pub known: bool,
}

/// What came of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unpacked {
    /// The sessions, the parent first.
    pub sessions: Vec<Taken>,
    /// Large values that were not here before.
    pub blobs: usize,
}

/// Where a session goes.
enum Place {
    /// It is there, or one that began like it and went on.
    Known(SessionDir),
    /// Under this id; with a line 1 of its own when the id, or its parent's, is another one than in the file.
    New(SessionId),
}

impl<D: Disk> FileStore<D> {
    /// Looks through a file that [`FileStore::pack`] wrote. Changes nothing.
    ///
    /// # Errors
    /// When it cannot be read, is none, or is of a later version. Damage is no error.
    pub fn inspect<R: Read + Seek>(&self, file: &mut R) -> Result<Inventory, BundleError> {
        inspect(file)
    }

    /// Brings in what of a file is whole, and of logs also what is cut; `inventory` is what `inspect` said.
    /// Doing it again changes nothing. `at` is now.
    ///
    /// # Errors
    /// A failing file or disk, or a log without its first line that would need another one. What came in until
    /// then is there.
    pub fn unpack<R: Read + Seek>(
        &self,
        file: &mut R,
        inventory: &Inventory,
        at: Timestamp,
    ) -> Result<Unpacked, BundleError> {
        self.check_medium()?;
        leftovers::sweep_forks(self.disk(), self.layout());
        let mut unpacking = Unpacking { store: self, file, inventory, at, blobs: 0 };
        let mut sessions: Vec<Taken> = Vec::new();
        for log in inventory.parts.iter().filter(|part| part.kind == PartKind::Log) {
            // The first one is the tree's own; a second log of the same id is nobody's.
            if sessions.iter().any(|taken| taken.of == log.session) {
                continue;
            }
            let parent = sessions.first().map(|parent| (parent.of.clone(), parent.id.clone()));
            sessions.push(unpacking.session(log, parent.as_ref())?);
        }
        Ok(Unpacked { sessions, blobs: unpacking.blobs })
    }
}

struct Unpacking<'a, D: Disk, R> {
    store: &'a FileStore<D>,
    file: &'a mut R,
    inventory: &'a Inventory,
    at: Timestamp,
    blobs: usize,
}

impl<D: Disk, R: Read + Seek> Unpacking<'_, D, R> {
    /// `parent` is its parent's id in the file, and here.
    fn session(
        &mut self,
        log: &Found,
        parent: Option<&(SessionId, SessionId)>,
    ) -> Result<Taken, BundleError> {
        let of = log.session.clone();
        let taken = |id: &SessionId, known| Taken { of: of.clone(), id: id.clone(), known };
        let hash = match log.whole {
            Whole::Yes => log.sha256.clone(),
            _ => self.hash(log)?,
        };
        match self.place(log, &hash)? {
            Place::Known(dir) => {
                let id = dir.path().file_name().and_then(|name| name.to_str()).unwrap_or_default();
                let id = SessionId::parse(id).unwrap_or_else(|_| of.clone());
                self.blobs_into(&of, &dir, false)?;
                Ok(taken(&id, true))
            }
            Place::New(id) => {
                let moved = id != of || parent.is_some_and(|(of, here)| of != here);
                self.build(log, &id, (moved, parent.map(|(_, here)| here)))?;
                Ok(taken(&id, false))
            }
        }
    }

    /// By the table of the format's page.
    fn place(&mut self, log: &Found, hash: &str) -> Result<Place, BundleError> {
        let of = &log.session;
        let Some(dir) = self.there(of)? else { return Ok(Place::New(of.clone())) };
        if self.begins_like(&dir, log.len, hash)? {
            return Ok(Place::Known(dir));
        }
        let copy = copied_id(of, hash);
        Ok(match self.there(&copy)? {
            Some(dir) => Place::Known(dir),
            None => Place::New(copy),
        })
    }

    fn there(&self, id: &SessionId) -> Result<Option<SessionDir>, BundleError> {
        match self.store.layout().locate(self.store.disk(), id) {
            Ok(dir) => Ok(Some(dir)),
            Err(StoreError::NotFound(_)) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    fn begins_like(&self, dir: &SessionDir, len: u64, hash: &str) -> Result<bool, BundleError> {
        let path = dir.log();
        let file =
            self.store.disk().open_read(&path).map_err(|e| store_error("opening", &path, e))?;
        let own = file.meta().map_err(|e| store_error("looking at", &path, e))?.len;
        Ok(own >= len && hash_of(&file, &path, len)? == hash)
    }

    /// Builds a session where nobody sees it, and gives it its name.
    fn build(
        &mut self,
        log: &Found,
        id: &SessionId,
        (moved, parent): (bool, Option<&SessionId>),
    ) -> Result<(), BundleError> {
        let (store, disk) = (self.store, self.store.disk());
        let home = match parent {
            Some(parent) => {
                let above = store.layout().locate(disk, parent)?;
                leftovers::sweep_forks_in(disk, &above.children());
                SessionDir::new(above.children().join(id.as_str()))
            }
            None => store.layout().home(id),
        };
        if exists(disk, home.path())? {
            return Err(StoreError::Exists(home.path().display().to_string()).into());
        }
        let building = SessionDir::new(home.path().with_file_name(leftovers::fork_name(id)));
        // Its lock is held until it is shown.
        let file = leftovers::begin_fork(disk, store.layout().root(), &building)?;
        if moved {
            self.write_moved(log, (&file, &building), (id, parent))?;
        } else {
            self.copy(log, &mut |block| {
                Ok(write_all(&file, block)
                    .map_err(|e| write_error("writing", &building.log(), e))?)
            })?;
            file.sync_all().map_err(|e| write_error("syncing", &building.log(), e))?;
        }
        self.blobs_into(&log.session, &building, true)?;
        sync_dir(disk, building.path())?;
        fork::show(disk, &building, &home)?;
        drop(file);
        Ok(())
    }

    /// The log with another line 1, and what was open in it settled as the origin's.
    fn write_moved(
        &mut self,
        log: &Found,
        (file, building): (&D::File, &SessionDir),
        (id, parent): (&SessionId, Option<&SessionId>),
    ) -> Result<(), BundleError> {
        let (disk, at) = (self.store.disk(), self.at);
        let (raw, temp) = create_temp(disk, building.path())?;
        self.copy(log, &mut |block| {
            Ok(write_all(&temp, block).map_err(|e| write_error("writing", &raw, e))?)
        })?;
        let source = LogFile::of(self.store, temp, &raw)?;
        let (loaded, _) = source.load()?;
        let cut = cut(&source, ForkPoint::Whole)?;
        let was = self.header(log)?;
        let (Body::Session(was), began) = (was.body(), was.envelope.at) else {
            return Err(lost_header(log).into());
        };
        let header = moved(Header::clone(was), id, parent, cut.up_to());
        let draft = Draft::new(began, Body::Session(Box::new(header)));
        let first = plan(&State::default(), None, vec![draft])?;
        let last = settle(&cut, at)?;
        fork::write_log((file, building), &source, loaded.origin, (&first.bytes, &cut, &last))?;
        drop(source);
        Ok(disk.remove_file(&raw).map_err(|e| write_error("removing", &raw, e))?)
    }

    /// Line 1 as it is in the file.
    fn header(&mut self, log: &Found) -> Result<Record, BundleError> {
        self.file.seek(SeekFrom::Start(log.at))?;
        let mut text = Vec::new();
        let mut from = BufReader::new(&mut *self.file).take(log.len.min(MAX_HEADER));
        from.read_until(b'\n', &mut text)?;
        text.pop_if(|last| *last == b'\n');
        line::decode(&text, 0).map_err(|_| lost_header(log).into())
    }

    /// The large values of a session that are not there yet; each is there whole or not at all.
    fn blobs_into(
        &mut self,
        of: &SessionId,
        dir: &SessionDir,
        all: bool,
    ) -> Result<(), BundleError> {
        let (disk, blobs) = (self.store.disk(), dir.blobs());
        let wanted: Vec<Found> = self.inventory.blobs_of(Some(of)).cloned().collect();
        for found in wanted.iter().filter(|found| crate::blobs::is_hash(&found.sha256)) {
            if !all && exists(disk, &blobs.join(&found.sha256))? {
                continue;
            }
            create_dirs(disk, dir.path(), &blobs)?;
            let mut bytes = Vec::new();
            self.copy(found, &mut |block| {
                bytes.extend_from_slice(block);
                Ok(())
            })?;
            TempFile::write(disk, &blobs, &bytes)?.link_as(&found.sha256)?;
            self.blobs += 1;
        }
        Ok(())
    }

    /// The bytes of a part, block by block.
    fn copy(
        &mut self,
        part: &Found,
        visit: &mut dyn FnMut(&[u8]) -> Result<(), BundleError>,
    ) -> Result<(), BundleError> {
        self.file.seek(SeekFrom::Start(part.at))?;
        let mut block = vec![0; BLOCK];
        let mut from = (&mut *self.file).take(part.len);
        let mut left = part.len;
        while left > 0 {
            let read = from.read(&mut block)?;
            if read == 0 {
                return Err(std::io::Error::from(std::io::ErrorKind::UnexpectedEof).into());
            }
            visit(&block[..read])?;
            left -= read as u64;
        }
        Ok(())
    }

    fn hash(&mut self, part: &Found) -> Result<String, BundleError> {
        let mut hasher = Sha256::new();
        self.copy(part, &mut |block| {
            hasher.update(block);
            Ok(())
        })?;
        Ok(hex(hasher))
    }
}

/// The header of a copy: of a session it says whose copy it is, of a child whose child.
fn moved(was: Header, id: &SessionId, parent: Option<&SessionId>, up_to: u64) -> Header {
    let (of, mut header) = (was.id.clone(), Header { id: id.clone(), ..was });
    let origin = |kind, of: &SessionId, up_to| {
        Some(Origin { kind, of: of.to_string(), up_to, parent: None })
    };
    match (parent, header.launch.as_mut().and_then(serde_json::Value::as_object_mut)) {
        (Some(parent), launch) => {
            if let Some(launch) = launch {
                launch.insert("parent".to_owned(), parent.as_str().into());
                launch.insert("child".to_owned(), id.as_str().into());
            }
            let up_to = header.origin.as_ref().and_then(|origin| origin.up_to);
            header.origin = origin(OriginKind::Child, parent, up_to);
        }
        (None, _) => header.origin = origin(OriginKind::Fork, &of, Some(up_to)),
    }
    header
}

fn lost_header(log: &Found) -> StoreError {
    StoreError::Damaged {
        what: format!("the log of {}", log.session),
        offset: 0,
        reason: "its first line is lost, so it cannot come in under another id".to_owned(),
    }
}
