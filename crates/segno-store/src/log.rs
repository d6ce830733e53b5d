//! A log that may be appended to.
//!
//! Responsible for: when a session comes into being, what its first append after opening does about a
//! torn tail, and moving the state only after the write held. Must not: judge lines, or write bytes
//! other than through [`Writer`].

use crate::blobs;
use crate::disk::{Disk, Writes};
use crate::draft::{self, DraftFile};
use crate::durable::{create_dirs, sync_dir};
use crate::error::{store_error, write_error};
use crate::held::FileHeld;
use crate::inbox::InboxDesk;
use crate::layout::{SessionDir, exists};
use crate::leftovers;
use crate::lock;
use crate::reading;
use crate::set_aside;
use crate::store::FileStore;
use crate::writer::Writer;
use segno_model::batch::{Batch, Draft, plan_with_checkpoint_every};
use segno_model::child::parent_of;
use segno_model::id::sha256_hex;
use segno_model::inbox::Inbox;
use segno_model::record::{BlobRef, Header, Repair, RepairItem};
use segno_model::state::State;
use segno_model::store::{Active, DraftText, Level, SessionLog, StoreError};
use segno_model::{Body, Pos, Record, Seq};
use std::io::ErrorKind;
use std::path::PathBuf;

/// Where the log is.
#[derive(Debug)]
enum Place<D: Disk> {
    /// Nowhere yet.
    Unborn,
    /// On disk.
    Born(Writer<D>),
}

/// What is known of a log that can be appended to.
#[derive(Debug)]
pub(crate) struct Known {
    pub(crate) header: Header,
    pub(crate) state: State,
    /// The highest seq known durable.
    pub(crate) synced: Option<Seq>,
    /// Bytes of line 1 with its line end; 0 while there is none.
    pub(crate) first_line: u64,
    /// From where on the file's bytes are no record; the first append cuts them off.
    pub(crate) torn: Option<u64>,
    /// Torn bytes that were set aside; the record that says so is still to be written.
    pub(crate) untold: Vec<RepairItem>,
    /// Whether the last record lacks its line end; the next batch begins with it.
    pub(crate) unended: bool,
}

/// A session's log on disk, held by this process.
#[derive(Debug)]
pub struct FileLog<D: Disk> {
    store: FileStore<D>,
    dir: SessionDir,
    place: Place<D>,
    known: Known,
    /// Blobs stored before the session exists; the first append writes them.
    staged: Vec<(String, Vec<u8>)>,
    /// Whether the medium's syncs mean what they say.
    trusted: bool,
    /// Whether the log's name is known to be durable. One that was found may have been made, forked or
    /// moved by a process that died before it synced the directories.
    name_durable: bool,
    /// Whether what a killed writer left in the session's directories was removed.
    swept: bool,
    inbox: InboxDesk,
    /// The draft that this process is writing.
    draft: Option<DraftFile<D>>,
}

impl<D: Disk> FileLog<D> {
    /// A session that does not exist yet.
    pub(crate) fn unborn(store: FileStore<D>, header: Header) -> Self {
        let dir = store.layout().home_of(store.disk(), &header);
        let known = Known {
            header,
            state: State::default(),
            synced: None,
            first_line: 0,
            torn: None,
            untold: Vec::new(),
            unended: false,
        };
        let (place, staged) = (Place::Unborn, Vec::new());
        let inbox = InboxDesk::default();
        Self {
            store,
            dir,
            place,
            known,
            staged,
            trusted: true,
            name_durable: false,
            swept: true,
            inbox,
            draft: None,
        }
    }

    /// A session on disk, judged.
    pub(crate) fn born(held: FileHeld<D>, known: Known) -> Self {
        let FileHeld { store, dir, writer, trusted, inbox, .. } = held;
        let (place, staged) = (Place::Born(writer), Vec::new());
        let (name_durable, swept, draft) = (false, false, None);
        Self { store, dir, place, known, staged, trusted, name_durable, swept, inbox, draft }
    }

    /// Takes over the state that judging the same log again gave.
    pub(crate) fn restate(&mut self, state: State) {
        self.known.state = state;
    }

    pub(crate) fn dir(&self) -> &SessionDir {
        &self.dir
    }

    /// Where the files of this session's supervised commands are (`docs/format/actions.md`). Whoever runs
    /// a command makes it, and only behind the first record: before that the session is nowhere.
    #[must_use]
    pub fn actions_dir(&self) -> PathBuf {
        self.dir.actions()
    }

    /// Whether bytes at its end are no record, or were set aside and nobody told of it yet.
    pub(crate) fn has_torn_end(&self) -> bool {
        self.known.torn.is_some() || !self.known.untold.is_empty()
    }

    /// How long the log is now.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        match &self.place {
            Place::Unborn => 0,
            Place::Born(writer) => writer.end(),
        }
    }

    fn append_now(&mut self, drafts: Vec<Draft>, level: Level) -> Result<Vec<Record>, StoreError> {
        if let Place::Born(writer) = &self.place {
            writer.check()?;
        }
        if !std::mem::replace(&mut self.swept, true) {
            leftovers::sweep_temps(self.store.disk(), &self.dir);
        }
        let born_now = matches!(self.place, Place::Unborn);
        if born_now || self.known.torn.is_some() {
            // What cannot be planned must not bring a session into being or touch a tail.
            self.plan(drafts.clone())?;
            self.be_born()?;
            self.set_tail_aside()?;
        }
        let wanted = drafts.len();
        let (batch, added) = self.plan(drafts)?;
        if let Err(error) = self.write(&batch, level) {
            if born_now {
                self.take_birth_back();
            }
            return Err(error);
        }
        let first = self.known.state.next_seq == 0;
        batch.apply_to(&mut self.known.state);
        self.inbox.note(&batch.records);
        if first || level == Level::Synced {
            self.mark_synced();
        }
        Ok(batch.records.into_iter().skip(added).take(wanted).collect())
    }

    /// The batch, and how many records of the log's own stand before the drafts'.
    fn plan(&self, drafts: Vec<Draft>) -> Result<(Batch, usize), StoreError> {
        let at =
            drafts.first().map(|d| d.at).ok_or_else(|| StoreError::refused("an empty batch"))?;
        let mut own = Vec::new();
        if self.known.state.next_seq == 0 {
            own.push(Draft::new(at, Body::Session(Box::new(self.known.header.clone()))));
        }
        if !self.known.untold.is_empty() {
            let (rule, items) = ("torn-tail".to_owned(), self.known.untold.clone());
            let repair = Repair { rule, by_person: false, items };
            own.push(Draft::new(at, Body::Repair(repair)));
        }
        let added = own.len();
        own.extend(drafts);
        let every = self.store.options().checkpoint_every;
        let (state, synced) = (&self.known.state, self.known.synced);
        Ok((plan_with_checkpoint_every(state, synced, own, every)?, added))
    }

    /// Creates directories, staged blobs and the log itself, locked and still empty.
    fn be_born(&mut self) -> Result<(), StoreError> {
        if matches!(self.place, Place::Born(_)) {
            return Ok(());
        }
        self.trusted = self.store.check_medium()?;
        let disk = self.store.disk().clone();
        let path = self.dir.log();
        if exists(&disk, &path)? {
            return Err(StoreError::Exists(path.display().to_string()));
        }
        self.check_parent()?;
        create_dirs(&disk, self.store.layout().root(), self.dir.path())?;
        for (hash, bytes) in &self.staged {
            blobs::put(&disk, &self.dir, hash, bytes)?;
        }
        let file = disk.create_new(&path, Writes::Append).map_err(|e| match e.kind() {
            ErrorKind::AlreadyExists => StoreError::Exists(path.display().to_string()),
            _ => write_error("creating", &path, e),
        })?;
        if !lock::lock(&file).map_err(|e| store_error("locking", &path, e))? {
            return Err(StoreError::Held(Box::new(lock::read_owner(&disk, &self.dir))));
        }
        let writer = Writer::new(disk, path.clone(), file);
        self.place = Place::Born(writer.map_err(|e| store_error("looking at", &path, e))?);
        Ok(())
    }

    /// A child is made below its parent, and never makes the parent's place by itself.
    fn check_parent(&self) -> Result<(), StoreError> {
        let Some(parent) = parent_of(&self.known.header) else { return Ok(()) };
        let dir = self.dir.parent().map(|dir| exists(self.store.disk(), &dir.log())).transpose()?;
        if dir == Some(true) { Ok(()) } else { Err(StoreError::NotFound(parent)) }
    }

    /// A first write that did not fit leaves nothing behind, so that it can be tried again. Only an
    /// empty file is removed, one that this log made a moment ago.
    fn take_birth_back(&mut self) {
        let Place::Born(writer) = &self.place else { return };
        let ours_and_empty = writer.check().is_ok() && writer.end() == 0;
        if ours_and_empty && self.store.disk().remove_file(writer.path()).is_ok() {
            self.place = Place::Unborn;
        }
    }

    /// Copies torn bytes to `set-aside/`, durably, and cuts them off.
    fn set_tail_aside(&mut self) -> Result<(), StoreError> {
        let (Some(from), Place::Born(writer)) = (self.known.torn, &mut self.place) else {
            return Ok(());
        };
        let torn = (from, writer.end() - from);
        let item = set_aside::keep(self.store.disk(), &self.dir, writer.file(), torn)?;
        writer.cut(from)?;
        self.known.torn = None;
        if !self.known.untold.contains(&item) {
            self.known.untold.push(item);
        }
        Ok(())
    }

    /// Writes, and syncs as asked.
    fn write(&mut self, batch: &Batch, level: Level) -> Result<(), StoreError> {
        let Place::Born(writer) = &mut self.place else {
            return Err(StoreError::refused("the session does not exist"));
        };
        let first = self.known.state.next_seq == 0;
        if self.known.unended {
            writer.append(&[b"\n", batch.bytes.as_slice()].concat())?;
        } else {
            writer.append(&batch.bytes)?;
        }
        // A new session's directories and file are worth nothing without its first records.
        if first || level == Level::Synced {
            sync(writer, self.store.disk(), &self.dir, &mut self.name_durable)?;
        }
        if first {
            self.known.first_line = batch.records.first().map_or(0, |r| r.line.len() as u64 + 1);
            lock::note_owner(self.store.disk(), &self.dir);
        }
        self.known.untold.clear();
        self.known.unended = false;
        Ok(())
    }

    /// On a medium whose syncs may not mean what they say, nothing is ever claimed to be durable.
    fn mark_synced(&mut self) {
        if self.trusted {
            self.known.synced = self.known.state.next_seq.checked_sub(1);
        }
    }
}

/// Makes the log's content durable and, once, its name and that of its directory: a record that cannot
/// be found after power loss is lost (G1).
fn sync<D: Disk>(
    writer: &mut Writer<D>,
    disk: &D,
    dir: &SessionDir,
    name_durable: &mut bool,
) -> Result<(), StoreError> {
    writer.sync()?;
    if !*name_durable {
        // A child's parent directory may have been made by the same process that died.
        let above = if dir.parent().is_some() { 3 } else { 2 };
        for path in dir.path().ancestors().take(above) {
            sync_dir(disk, path).map_err(|e| writer.poisoned(e.to_string()))?;
        }
        *name_durable = true;
    }
    writer.check_path()
}

impl<D: Disk> SessionLog for FileLog<D> {
    fn header(&self) -> &Header {
        &self.known.header
    }

    fn state(&self) -> &State {
        &self.known.state
    }

    async fn append(
        &mut self,
        drafts: Vec<Draft>,
        level: Level,
    ) -> Result<Vec<Record>, StoreError> {
        self.append_now(drafts, level)
    }

    async fn sync(&mut self) -> Result<(), StoreError> {
        if let Place::Born(writer) = &mut self.place {
            sync(writer, self.store.disk(), &self.dir, &mut self.name_durable)?;
            self.mark_synced();
        }
        Ok(())
    }

    async fn put_blob(&mut self, bytes: &[u8], head: &str) -> Result<BlobRef, StoreError> {
        let blob = sha256_hex(bytes);
        match &self.place {
            Place::Unborn => self.staged.push((blob.clone(), bytes.to_vec())),
            Place::Born(writer) => {
                writer.check()?;
                blobs::put(self.store.disk(), &self.dir, &blob, bytes)?;
            }
        }
        Ok(BlobRef { blob, bytes: bytes.len() as u64, head: head.to_owned() })
    }

    async fn blob(&self, blob: &BlobRef) -> Result<Vec<u8>, StoreError> {
        let staged = self.staged.iter().find(|(hash, _)| *hash == blob.blob);
        match (&self.place, staged) {
            (Place::Unborn, Some((_, bytes))) => Ok(bytes.clone()),
            _ => blobs::get(self.store.disk(), &self.dir, blob),
        }
    }

    async fn pending(&mut self) -> Result<Inbox, StoreError> {
        match &self.place {
            Place::Unborn => Ok(Inbox::default()),
            Place::Born(_) => self.inbox.pending(&self.store, &self.dir, &self.known.header.id),
        }
    }

    async fn clear_inbox(&mut self) -> Result<(), StoreError> {
        let Some(newest) = self.inbox.newest_settled() else { return Ok(()) };
        if self.known.synced.is_none_or(|synced| synced < newest) {
            self.sync().await?;
        }
        self.inbox.clear(self.store.disk(), &self.dir)
    }

    async fn save_draft(&mut self, request: Seq, more: &str) -> Result<(), StoreError> {
        let Place::Born(writer) = &self.place else { return Ok(()) };
        writer.check()?;
        let draft = match self.draft.take().filter(|draft| draft.is_of(request)) {
            Some(draft) => draft,
            None => DraftFile::begin(self.store.disk(), &self.dir, request)?,
        };
        self.draft.insert(draft).add(more)
    }

    async fn draft(&self) -> Result<Option<DraftText>, StoreError> {
        match &self.place {
            Place::Unborn => Ok(None),
            Place::Born(_) => draft::read(self.store.disk(), &self.dir),
        }
    }

    async fn active(&self, tip: Option<Pos>) -> Result<Active, StoreError> {
        match &self.place {
            Place::Unborn => Ok(Active::default()),
            Place::Born(writer) => {
                reading::active_at(writer.file(), writer.path(), writer.end(), tip)
            }
        }
    }
}
