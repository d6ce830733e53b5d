//! The inbox: one file per admitted input or control that no record settles yet (G8).
//!
//! Responsible for: the order of steps in an admission, reading what waits, and keeping what is damaged.
//! Must not: decide who is admitted (`segno_model::inbox::admission`), or take away what the log does not
//! hold for good ([`desk`], the holder's side, does that).
//!
//! An admission puts a synced file under the hash of its id, without replacing, and makes the name
//! durable; only then it looks into the log. Whoever delivers writes and syncs the log, and takes the file
//! away after. So an admitter that finds the name free and the log without the id is the first one.

mod desk;
mod index;

pub(crate) use desk::InboxDesk;

use crate::disk::{Disk, DiskFile, Writes};
use crate::durable::{TEMP, create_dirs, read_file, read_full, sync_dir, write_all};
use crate::error::{store_error, write_error};
use crate::layout::SessionDir;
use crate::reading::LogFile;
use crate::store::FileStore;
use segno_model::finding::{Finding, Severity};
use segno_model::inbox::admission::{Admission, Decision, Held, Said, decide};
use segno_model::inbox::file::{self, FileError};
use segno_model::inbox::{Inbox, NewInput, Pending, Stage, sort};
use segno_model::store::StoreError;
use segno_model::{SessionId, Timestamp, sha256_hex};
use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// How often an admission is tried whose place others are changing.
const TRIES: u32 = 100;

/// The name of an id's file.
pub(crate) fn name_of(input_id: &str) -> String {
    sha256_hex(input_id.as_bytes())
}

fn is_name(name: &str) -> bool {
    name.len() == 64 && name.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
}

/// Admits an input, or says what was admitted under its id.
pub(crate) fn admit<D: Disk>(
    store: &FileStore<D>,
    id: &SessionId,
    input: &NewInput,
    at: Timestamp,
) -> Result<Admission, StoreError> {
    input.check()?;
    store.check_medium()?;
    let dir = store.layout().locate(store.disk(), id)?;
    let inbox = dir.inbox();
    make_header_durable(store, &dir, id)?;
    create_dirs(store.disk(), store.layout().root(), &inbox)?;
    for _ in 0..TRIES {
        let bytes = file::encode(next_order(store.disk(), &inbox)?, at, input)?;
        let held = place(store.disk(), &inbox, &bytes, input)?;
        let path = inbox.join(name_of(&input.id));
        match decide(held, said(store, &dir, id, input)?) {
            Decision::Say(admission) => return Ok(admission),
            Decision::TakeBack(admission) => {
                // The log holds the id for good, so the file is only clutter.
                let _ = store.disk().remove_file(&path);
                return Ok(admission);
            }
            Decision::SetAside => set_aside(store.disk(), &dir, &path)?,
            Decision::Again => std::thread::yield_now(),
        }
    }
    Err(StoreError::Refused(format!("{} is being changed all the time", inbox.display())))
}

/// An input of a session without a durable header would be an input of nothing.
fn make_header_durable<D: Disk>(
    store: &FileStore<D>,
    dir: &SessionDir,
    id: &SessionId,
) -> Result<(), StoreError> {
    let log = LogFile::open(store, dir, id)?;
    let (loaded, _) = log.load()?;
    loaded.check_writable()?;
    if loaded.state.next_seq == 0 {
        return Err(StoreError::NotFound(id.clone()));
    }
    log.file.sync_data().map_err(|e| write_error("syncing", &log.path, e))
}

/// One more than the highest order that waits. The clock has no say in it.
fn next_order<D: Disk>(disk: &D, inbox: &Path) -> Result<u64, StoreError> {
    let mut highest = 0;
    for name in names(disk, inbox)? {
        let mut head = [0; file::ORDER_BYTES];
        let read = disk.open_read(&inbox.join(name)).and_then(|f| read_full(&f, &mut head, 0));
        // One that is gone or cannot be read does not count.
        let order = read.map_or(0, |n| file::order_of(&head[..n]));
        highest = highest.max(order);
    }
    Ok(highest.saturating_add(1))
}

/// Puts the file in its place unless that is taken, and makes the name durable in both cases: whoever
/// took the place may have died before that.
fn place<D: Disk>(
    disk: &D,
    inbox: &Path,
    bytes: &[u8],
    input: &NewInput,
) -> Result<Held, StoreError> {
    let path = inbox.join(name_of(&input.id));
    let temp = LockedTemp::create(disk, inbox)?;
    write_all(&temp.file, bytes)
        .and_then(|()| temp.file.sync_all())
        .map_err(|e| write_error("writing", &temp.path, e))?;
    let ours = match disk.hard_link(&temp.path, &path) {
        Ok(()) => true,
        Err(e) if e.kind() == ErrorKind::AlreadyExists => false,
        Err(e) => return Err(write_error("linking", &path, e)),
    };
    sync_dir(disk, inbox)?;
    if ours { Ok(Held::Ours) } else { compare(disk, &path, input) }
}

/// What a taken place holds.
fn compare<D: Disk>(disk: &D, path: &Path, input: &NewInput) -> Result<Held, StoreError> {
    let bytes = match read_file(disk, path) {
        Ok(bytes) => bytes,
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(Held::Gone),
        Err(e) => return Err(store_error("reading", path, e)),
    };
    Ok(match file::decode(&bytes) {
        Ok(there) if there.input.id != input.id => Held::Damaged,
        Ok(there) if there.input.body.sha256() == input.body.sha256() => Held::Same,
        Ok(_) | Err(FileError::Unknown) => Held::Other,
        Err(FileError::Damaged(_)) => Held::Damaged,
    })
}

/// What the log says of the id. When it says something, that is made durable before anybody relies on it.
fn said<D: Disk>(
    store: &FileStore<D>,
    dir: &SessionDir,
    id: &SessionId,
    input: &NewInput,
) -> Result<Said, StoreError> {
    let log = LogFile::open(store, dir, id)?;
    let name = name_of(&input.id);
    let used = index::look_up(store, dir, &log, &[name.as_str()])?;
    let said = Said::of(used.get(&name), input);
    if said != Said::Nothing {
        log.file.sync_data().map_err(|e| write_error("syncing", &log.path, e))?;
    }
    Ok(said)
}

/// A file without a name of its own, locked until it has one or is gone, so that nobody takes it for a
/// leftover.
struct LockedTemp<'a, D: Disk> {
    disk: &'a D,
    path: PathBuf,
    file: D::File,
}

impl<'a, D: Disk> LockedTemp<'a, D> {
    fn create(disk: &'a D, inbox: &Path) -> Result<Self, StoreError> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        loop {
            let n = NEXT.fetch_add(1, Ordering::Relaxed);
            let path = inbox.join(format!("{TEMP}{}-{n}", std::process::id()));
            let file = match disk.create_new(&path, Writes::Sequential) {
                Ok(file) => file,
                Err(e) if e.kind() == ErrorKind::AlreadyExists => continue,
                Err(e) => return Err(write_error("creating", &path, e)),
            };
            let locked = file.try_lock().map_err(|e| store_error("locking", &path, e))?;
            let ours = file.meta().map_err(|e| store_error("looking at", &path, e))?;
            if locked && disk.meta(&path).is_ok_and(|named| named.id == ours.id) {
                return Ok(Self { disk, path, file });
            }
            // Somebody who sweeps was faster, and removes it or has removed it.
        }
    }
}

impl<D: Disk> Drop for LockedTemp<'_, D> {
    fn drop(&mut self) {
        // The input has its own name by now, or none; this one is clutter.
        let _ = self.disk.remove_file(&self.path);
    }
}

/// Moves a damaged file to `set-aside/`. Two who find the same one agree by its lock, so that none of
/// them moves what was admitted in its place.
pub(super) fn set_aside<D: Disk>(
    disk: &D,
    dir: &SessionDir,
    path: &Path,
) -> Result<(), StoreError> {
    let gone = |e: &std::io::Error| e.kind() == ErrorKind::NotFound;
    let file = match disk.open_read(path) {
        Ok(file) => file,
        Err(e) if gone(&e) => return Ok(()),
        Err(e) => return Err(store_error("opening", path, e)),
    };
    if !file.try_lock().map_err(|e| store_error("locking", path, e))? {
        return Ok(());
    }
    let ours = file.meta().map_err(|e| store_error("looking at", path, e))?;
    if !disk.meta(path).is_ok_and(|named| named.id == ours.id) {
        return Ok(());
    }
    let bytes = read_file(disk, path).map_err(|e| store_error("reading", path, e))?;
    let aside = dir.set_aside();
    create_dirs(disk, dir.path(), &aside)?;
    let to = aside.join(aside_name(path, &bytes));
    disk.rename(path, &to).map_err(|e| write_error("naming", &to, e))?;
    sync_dir(disk, &aside)?;
    sync_dir(disk, &dir.inbox())
}

fn aside_name(path: &Path, bytes: &[u8]) -> String {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let short: String = name.chars().take(16).collect();
    format!("input-{short}-{}", &sha256_hex(bytes)[..16])
}

/// The names in an inbox that are inputs'.
fn names<D: Disk>(disk: &D, inbox: &Path) -> Result<Vec<String>, StoreError> {
    match disk.list(inbox) {
        Ok(entries) => {
            let inputs = entries.into_iter().filter(|e| !e.is_dir && is_name(&e.name));
            Ok(inputs.map(|e| e.name).collect())
        }
        Err(e) if e.kind() == ErrorKind::NotFound => Ok(Vec::new()),
        Err(e) => Err(store_error("listing", inbox, e)),
    }
}

/// A number that follows from the names.
pub(crate) fn mark<D: Disk>(disk: &D, dir: &SessionDir) -> Result<u64, StoreError> {
    let mut names = names(disk, &dir.inbox())?;
    if names.is_empty() {
        return Ok(0);
    }
    names.sort_unstable();
    let mut hasher = DefaultHasher::new();
    names.hash(&mut hasher);
    Ok(hasher.finish().max(1))
}

/// What a file in an inbox is.
enum Entry {
    Input(Box<Pending>),
    Damaged(&'static str),
    Unknown,
    Gone,
}

fn read_entry<D: Disk>(disk: &D, inbox: &Path, name: &str) -> Result<Entry, StoreError> {
    let path = inbox.join(name);
    let bytes = match read_file(disk, &path) {
        Ok(bytes) => bytes,
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(Entry::Gone),
        Err(e) => return Err(store_error("reading", &path, e)),
    };
    Ok(match file::decode(&bytes) {
        Ok(pending) if name_of(&pending.input.id) != name => {
            Entry::Damaged("it has the name of another input")
        }
        Ok(pending) => Entry::Input(Box::new(pending)),
        Err(FileError::Damaged(why)) => Entry::Damaged(why),
        Err(FileError::Unknown) => Entry::Unknown,
    })
}

fn damaged_finding(name: &str, why: &str, done: String) -> Finding {
    Finding {
        code: "inbox-damaged",
        severity: Severity::Damage,
        sentence: format!("an admitted input ({}) cannot be read: {why}", &name[..16]),
        done,
        ..Finding::default()
    }
}

fn unknown_finding(name: &str) -> Finding {
    Finding {
        code: "inbox-unknown",
        severity: Severity::Warning,
        sentence: format!(
            "an admitted input ({}) is of a kind that this version does not know",
            &name[..16]
        ),
        done: "it is left for a newer version".to_owned(),
        ..Finding::default()
    }
}

/// What waits, for somebody who only looks.
pub(crate) fn pending<D: Disk>(store: &FileStore<D>, id: &SessionId) -> Result<Inbox, StoreError> {
    let dir = store.layout().locate(store.disk(), id)?;
    let mut found = files(store, &dir)?;
    // The log is looked at after the files: what is settled meanwhile is not pending.
    let settled = settled(store, &dir, id, &found.pending)?;
    found.pending.retain(|p| !settled.contains_key(&name_of(&p.input.id)));
    Ok(found)
}

/// How many files of inputs there are.
pub(crate) fn count<D: Disk>(disk: &D, dir: &SessionDir) -> usize {
    names(disk, &dir.inbox()).map_or(0, |names| names.len())
}

/// What the files say, settled by the log or not, in the order of admission.
pub(crate) fn files<D: Disk>(store: &FileStore<D>, dir: &SessionDir) -> Result<Inbox, StoreError> {
    let (inbox, mut found) = (dir.inbox(), Inbox::default());
    for name in names(store.disk(), &inbox)? {
        match read_entry(store.disk(), &inbox, &name)? {
            Entry::Input(pending) => found.pending.push(*pending),
            Entry::Damaged(why) => {
                let done = "whoever works on the session next keeps it in set-aside/".to_owned();
                found.findings.push(damaged_finding(&name, why, done));
            }
            Entry::Unknown => found.findings.push(unknown_finding(&name)),
            Entry::Gone => {}
        }
    }
    sort(&mut found.pending);
    Ok(found)
}

/// Which of these the log settles.
fn settled<D: Disk>(
    store: &FileStore<D>,
    dir: &SessionDir,
    id: &SessionId,
    pending: &[Pending],
) -> Result<BTreeMap<String, Stage>, StoreError> {
    if pending.is_empty() {
        return Ok(BTreeMap::new());
    }
    let log = LogFile::open(store, dir, id)?;
    let names: Vec<String> = pending.iter().map(|p| name_of(&p.input.id)).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let used = index::look_up(store, dir, &log, &names)?;
    let stages = used.into_iter().map(|(name, used)| (name, used.stage));
    Ok(stages.filter(|(_, stage)| stage.is_settled()).collect())
}
