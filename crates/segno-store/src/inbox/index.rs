//! Which input ids a log has used.
//!
//! Responsible for: looking ids up in bounded memory, and `inputs.idx`, which says for all of a log but its
//! end what the log says itself (G12). Must not: be believed where it does not match the log.
//!
//! The file (`docs/format/inbox.md`): a magic line, entries of fixed size in the order of the log, the
//! newest about an id holding, and a trailer that names how far it reaches. It is catched up from there by
//! whoever looks an id up, and written again when it lags far enough. Where the log's end is irregular, or
//! the trailer names no record of the log, everything is read through the judge instead.

use super::name_of;
use crate::disk::{Disk, DiskFile, Writes};
use crate::durable::{TEMP, read_full, write_all};
use crate::layout::SessionDir;
use crate::reading::LogFile;
use crate::store::FileStore;
use segno_model::inbox::{Used, used};
use segno_model::line::{checksum, decode};
use segno_model::store::{Scanned, StoreError};
use segno_model::{Body, Pos, Record, Seq};
use std::collections::{BTreeMap, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

mod entry;

use entry::{ENTRY, MAGIC, TRAILER, Trailer};

/// How much of the index is read or written at once: whole entries.
const BLOCK: usize = 512 * ENTRY;

/// What the log says of these ids, each by the name of its file; the newest record about an id holds.
pub(super) fn look_up<D: Disk>(
    store: &FileStore<D>,
    dir: &SessionDir,
    log: &LogFile<D>,
    names: &[&str],
) -> Result<BTreeMap<String, Used>, StoreError> {
    let mut wanted = Wanted { names, found: BTreeMap::new() };
    if let Some(trailer) = read_index(store.disk(), dir, &mut wanted)
        && let Some(new) = catch_up(log, &trailer)?
    {
        new.entries.iter().for_each(|(name, used)| wanted.take(name, used));
        if new.bytes >= store.options().index_every {
            let mut copy = Writing::copying(store.disk(), dir);
            new.durable.iter().for_each(|(name, used)| copy.add(name, used));
            copy.finish(dir, trailer.origin, new.sieve.reach);
        }
        return Ok(wanted.found);
    }
    wanted.found.clear();
    rebuild(store, dir, log, &mut wanted)?;
    Ok(wanted.found)
}

/// The ids that are asked for, and what is known of them so far.
struct Wanted<'a> {
    names: &'a [&'a str],
    found: BTreeMap<String, Used>,
}

impl Wanted<'_> {
    fn take(&mut self, name: &str, used: &Used) {
        if !self.names.contains(&name) {
            return;
        }
        // A record that says no more than that it waits does not undo one that settles it.
        let settled = self.found.get(name).is_some_and(|used| used.stage.is_settled());
        if !settled || used.stage.is_settled() {
            self.found.insert(name.to_owned(), used.clone());
        }
    }
}

/// Reads the index for what is wanted; none when there is none that is intact.
fn read_index<D: Disk>(disk: &D, dir: &SessionDir, wanted: &mut Wanted<'_>) -> Option<Trailer> {
    let file = disk.open_read(&dir.input_index()).ok()?;
    let len = file.meta().ok()?.len;
    let body = len.checked_sub((MAGIC.len() + TRAILER) as u64)?;
    if !body.is_multiple_of(ENTRY as u64) {
        return None;
    }
    let mut head = [0; MAGIC.len()];
    read_full(&file, &mut head, 0).ok()?;
    let mut sum = Sum::default();
    sum.add(&head);
    let (mut at, end) = (MAGIC.len() as u64, MAGIC.len() as u64 + body);
    let mut block = vec![0; BLOCK];
    while at < end {
        let want = usize::try_from(end - at).map_or(BLOCK, |n| n.min(BLOCK));
        let block = block.get_mut(..want)?;
        if read_full(&file, block, at).ok()? != want {
            return None;
        }
        sum.add(block);
        for bytes in block.chunks_exact(ENTRY) {
            let (name, used) = entry::decode(bytes)?;
            wanted.take(&name, &used);
        }
        at += want as u64;
    }
    let mut trailer = [0; TRAILER];
    read_full(&file, &mut trailer, end).ok()?;
    Trailer::decode(&trailer, sum.0).filter(|_| head == *MAGIC)
}

/// A checksum over a file that is read or written in pieces.
#[derive(Default, Clone, Copy)]
struct Sum(u32);

impl Sum {
    /// Chains the pieces' checksums: no piece can be missing, altered or moved.
    fn add(&mut self, bytes: &[u8]) {
        for part in bytes.chunks(ENTRY) {
            let mut chained = self.0.to_le_bytes().to_vec();
            chained.extend_from_slice(part);
            self.0 = checksum(&chained);
        }
    }
}

/// What the log has behind the index.
struct New {
    entries: Vec<(String, Used)>,
    /// Those that an index may hold.
    durable: Vec<(String, Used)>,
    sieve: Sieve,
    bytes: u64,
}

/// Tells records that are known to be durable from those that power loss may still take: an index that
/// knew one of those would say of an input that it is settled when it is not.
#[derive(Default)]
struct Sieve {
    /// The highest `synced` that was met.
    mark: Option<Seq>,
    ahead: VecDeque<(Pos, Vec<(String, Used)>)>,
    /// The last record that is known to be durable.
    reach: Option<Pos>,
}

impl Sieve {
    /// Takes one more record with its entries; gives those that are durable now.
    fn take(&mut self, record: &Record, entries: Vec<(String, Used)>) -> Vec<(String, Used)> {
        self.mark = self.mark.max(record.envelope.synced.filter(|mark| *mark < record.seq()));
        self.ahead.push_back((record.pos(), entries));
        let mut durable = Vec::new();
        while let Some((pos, entries)) =
            self.ahead.pop_front_if(|(pos, _)| Some(pos.seq) <= self.mark)
        {
            durable.extend(entries);
            self.reach = Some(pos);
        }
        durable
    }
}

fn entries_of(record: &Record) -> Vec<(String, Used)> {
    used(record).into_iter().map(|used| (name_of(&used.id), used)).collect()
}

/// Reads the log from where an index ends. None when it does not go on there as it should.
fn catch_up<D: Disk>(log: &LogFile<D>, trailer: &Trailer) -> Result<Option<New>, StoreError> {
    let from = trailer.origin.saturating_add(trailer.reach.offset);
    if from >= log.len {
        return Ok(None);
    }
    let sieve = Sieve { reach: Some(trailer.reach), ..Sieve::default() };
    let (entries, durable) = (Vec::new(), Vec::new());
    let mut new = New { entries, durable, sieve, bytes: log.len - from };
    let mut next = (trailer.reach.seq, from);
    let mut regular = true;
    log.lines(from, &mut |line, ended| {
        let (seq, at) = next;
        let offset = at - trailer.origin;
        match decode(line, offset) {
            // A line that is still being written; what is whole before it counts.
            Err(_) if !ended => return false,
            Ok(record) if record.seq() == seq && is_plain(&record) => {
                if at == from {
                    regular = record.pos() == trailer.reach;
                } else {
                    new.add(&record);
                }
            }
            _ => regular = false,
        }
        next = (seq.saturating_add(1), at + line.len() as u64 + u64::from(ended));
        regular
    })?;
    Ok(regular.then_some(new))
}

/// Whether what a record changes lies behind it. A repair may make an older record readable.
fn is_plain(record: &Record) -> bool {
    record.envelope.kind != "repair"
        || !matches!(record.body(), Body::Repair(repair) if repair.settles_damage())
}

impl New {
    fn add(&mut self, record: &Record) {
        let entries = entries_of(record);
        self.entries.extend(entries.iter().cloned());
        self.durable.extend(self.sieve.take(record, entries));
    }
}

/// Reads the whole log through the judge, and writes the index when the log is long enough for one.
fn rebuild<D: Disk>(
    store: &FileStore<D>,
    dir: &SessionDir,
    log: &LogFile<D>,
    wanted: &mut Wanted<'_>,
) -> Result<(), StoreError> {
    let long = log.len >= store.options().index_every;
    let mut writing =
        if long { Writing::new(store.disk(), dir) } else { Writing::none(store.disk()) };
    let mut sieve = Sieve::default();
    log.scan(&mut |item| {
        if let Scanned::Record(record) = item {
            let entries = entries_of(&record);
            entries.iter().for_each(|(name, used)| wanted.take(name, used));
            if record.seq() > 0 {
                let durable = sieve.take(&record, entries);
                durable.iter().for_each(|(name, used)| writing.add(name, used));
            }
        }
        true
    })?;
    if long {
        writing.finish(dir, log.load()?.0.origin, sieve.reach);
    }
    Ok(())
}

/// An index that is being written. It is derived, so no failure matters to anybody: the file is then not
/// there, and the next one who asks reads more.
struct Writing<'a, D: Disk> {
    disk: &'a D,
    open: Option<(PathBuf, D::File)>,
    sum: Sum,
    block: Vec<u8>,
}

impl<'a, D: Disk> Writing<'a, D> {
    fn none(disk: &'a D) -> Self {
        Self { disk, open: None, sum: Sum::default(), block: Vec::new() }
    }

    /// An empty one.
    fn new(disk: &'a D, dir: &SessionDir) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let n = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = dir.path().join(format!("{TEMP}idx-{}-{n}", std::process::id()));
        // One that a killed process left under this name: the next number will do.
        let open = disk.create_new(&path, Writes::Sequential).ok().map(|file| (path, file));
        let mut writing = Self::none(disk);
        writing.open = open;
        writing.push(MAGIC);
        writing
    }

    /// One that begins with what the index in force holds.
    fn copying(disk: &'a D, dir: &SessionDir) -> Self {
        let mut writing = Self::new(disk, dir);
        if writing.copy_entries(&dir.input_index()).is_none() {
            writing.give_up();
        }
        writing
    }

    fn copy_entries(&mut self, from: &Path) -> Option<()> {
        let file = self.disk.open_read(from).ok()?;
        let end = file.meta().ok()?.len.checked_sub(TRAILER as u64)?;
        let (mut at, mut entry) = (MAGIC.len() as u64, [0; ENTRY]);
        while at < end {
            if read_full(&file, &mut entry, at).ok()? != ENTRY {
                return None;
            }
            self.push(&entry);
            at += ENTRY as u64;
        }
        Some(())
    }

    fn add(&mut self, name: &str, used: &Used) {
        match entry::encode(name, used) {
            Some(entry) => self.push(&entry),
            None => self.give_up(),
        }
    }

    fn push(&mut self, bytes: &[u8]) {
        if self.open.is_none() {
            return;
        }
        self.sum.add(bytes);
        self.block.extend_from_slice(bytes);
        if self.block.len() >= BLOCK {
            self.flush();
        }
    }

    fn flush(&mut self) {
        let written = self.open.as_ref().map(|(_, file)| write_all(file, &self.block));
        self.block.clear();
        if !matches!(written, Some(Ok(()))) {
            self.give_up();
        }
    }

    /// Gives it its name. It is not synced: one that power loss damaged is not believed.
    fn finish(mut self, dir: &SessionDir, origin: u64, reach: Option<Pos>) {
        let Some(reach) = reach else { return self.give_up() };
        let trailer = Trailer { origin, reach }.encode(self.sum.0);
        self.block.extend_from_slice(&trailer);
        self.flush();
        if let Some((path, _)) = &self.open
            && self.disk.rename(path, &dir.input_index()).is_ok()
        {
            self.open = None;
        }
        self.give_up();
    }

    fn give_up(&mut self) {
        if let Some((path, _)) = self.open.take() {
            let _ = self.disk.remove_file(&path);
        }
    }
}

impl<D: Disk> Drop for Writing<'_, D> {
    fn drop(&mut self) {
        self.give_up();
    }
}
