//! The writer's right: a kernel lock on the log itself, and a note about who has it.
//!
//! Responsible for: taking the lock without ever waiting, and telling the loser who won (G5). Must not:
//! decide by the note: it is information, and the lock is the truth.

use crate::disk::{Disk, DiskFile};
use crate::durable::{read_file, write_note};
use crate::error::{store_error, write_error};
use crate::layout::{Found, SessionDir};
use crate::platform;
use crate::system::SystemClock;
use segno_model::SessionId;
use segno_model::store::{Clock, Owner, StoreError};
use std::collections::HashSet;
use std::io::{self, ErrorKind};
use std::path::Path;
use std::time::Duration;

/// How often a log may change its file between opening and locking it before that is an error.
const REPLACED_TRIES: u32 = 8;

/// How often a lock that only askers seem to have is tried.
const PROBE_TRIES: u32 = 1000;

/// How often, and how far apart, a lock is tried that this very process seems to have.
const SELF_TRIES: u32 = 25;
const SELF_PAUSE: Duration = Duration::from_millis(2);

/// Opens a session's log and takes its lock.
pub(crate) fn open_locked<D: Disk>(
    disk: &D,
    session: &SessionDir,
    id: &SessionId,
) -> Result<D::File, StoreError> {
    let path = session.log();
    for _ in 0..REPLACED_TRIES {
        let file = match disk.open_append(&path) {
            Ok(file) => file,
            Err(e) if e.kind() == ErrorKind::NotFound => {
                return Err(StoreError::NotFound(id.clone()));
            }
            Err(e) => return Err(write_error("opening", &path, e)),
        };
        let locked =
            lock(&file).and_then(|locked| Ok(locked || lock_from_self(disk, session, &file)?));
        if !locked.map_err(|e| store_error("locking", &path, e))? {
            return Err(StoreError::Held(Box::new(read_owner(disk, session))));
        }
        let ours = file.meta().map_err(|e| store_error("looking at", &path, e))?;
        match disk.meta(&path) {
            Ok(named) if named.id == ours.id => return Ok(file),
            // Moved to the trash or replaced while we waited for nothing: look again.
            _ => {}
        }
    }
    Err(StoreError::Refused(format!("{} is being replaced all the time", path.display())))
}

/// Takes the lock. A process that only asks whether there is a writer holds a shared lock for some
/// microseconds; that must not look like a writer.
pub(crate) fn lock<F: DiskFile>(file: &F) -> io::Result<bool> {
    for _ in 0..PROBE_TRIES {
        if file.try_lock()? {
            return Ok(true);
        }
        if file.is_locked()? {
            return Ok(false);
        }
        std::thread::yield_now();
    }
    Ok(false)
}

/// Tries again when the note says that this very process has the lock. A program that another thread is
/// starting has a copy of every open file until it begins to run, also of one that was closed meanwhile.
fn lock_from_self<D: Disk>(disk: &D, session: &SessionDir, file: &D::File) -> io::Result<bool> {
    let (owner, me) = (read_owner(disk, session), std::process::id());
    if (owner.pid, owner.started) != (me, platform::process_started(me)) {
        return Ok(false);
    }
    for _ in 0..SELF_TRIES {
        std::thread::sleep(SELF_PAUSE);
        if lock(file)? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Says who we are. Only information, so a failure is nobody's business.
pub(crate) fn note_owner<D: Disk>(disk: &D, session: &SessionDir) {
    let owner = this_process(&SystemClock);
    if let Ok(text) = serde_json::to_vec(&owner) {
        let _ = write_note(disk, session.path(), "owner", &text);
    }
}

/// This process, as others are told.
#[must_use]
pub fn this_process(clock: &dyn Clock) -> Owner {
    let pid = std::process::id();
    Owner {
        pid,
        started: platform::process_started(pid),
        boot: platform::boot_id(),
        host: platform::host(),
        since: clock.now(),
    }
}

/// Whether this owner is a process that runs on this host in this boot now, and not another one that got
/// its number.
#[must_use]
pub fn is_running_here(owner: &Owner) -> bool {
    let here = owner.host == platform::host() && owner.boot == platform::boot_id();
    here && owner.started != 0 && platform::process_started(owner.pid) == owner.started
}

/// Who has the lock, as far as the note tells; process 0 on an unknown host otherwise.
pub(crate) fn read_owner<D: Disk>(disk: &D, session: &SessionDir) -> Owner {
    read_file(disk, &session.owner())
        .ok()
        .and_then(|bytes| serde_json::from_slice(&bytes).ok())
        .unwrap_or_else(|| Owner { host: "an unknown host".to_owned(), ..Owner::default() })
}

/// Whether somebody has the lock now.
pub(crate) fn is_held<D: Disk>(disk: &D, session: &SessionDir) -> bool {
    disk.open_read(&session.log()).and_then(|file| file.is_locked()).unwrap_or(false)
}

/// Which logs are locked, asked once for many sessions.
#[derive(Debug)]
pub(crate) struct Locks(Option<HashSet<u64>>);

impl Locks {
    /// The locks of this moment on files below `root`.
    pub(crate) fn now<D: Disk>(disk: &D, root: &Path) -> Self {
        Self(disk.locked(root))
    }

    /// Whether somebody has the lock of a session's log. The system's list rules most out; the lock itself
    /// decides.
    pub(crate) fn is_held<D: Disk>(&self, disk: &D, found: &Found) -> bool {
        let listed = |locked: &HashSet<u64>| locked.contains(&found.meta.id.ino);
        self.0.as_ref().is_none_or(listed) && is_held(disk, &found.dir())
    }
}
