//! The directory of one supervised command.
//!
//! Responsible for: its files, each written whole and synced before its name counts, and reading them
//! back. Must not: start or end a process, or conclude anything (that is [`super::standing`]).

use super::platform::{self, Survivor};
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use segno_model::Timestamp;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, ErrorKind, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

/// The supervisor's exit when somebody else has the claim: it started nothing.
pub const LOST_CLAIM: u8 = 3;
/// The supervisor's exit when it could not make the claim: it started nothing, and says why on its
/// standard error.
pub const NOTHING_STARTED: u8 = 4;

/// How a command is marked in its environment, so that what it leaves running can be found.
pub const MARK: &str = "SEGNO_ACTION";

/// How long the random part of an id is. An id is never used twice, also not in a copy of the session.
const ID_CHARS: usize = 10;

/// What a supervisor is told.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Request {
    /// The command, as the shell gets it.
    pub command: String,
    /// The shell; it is called with `-c` and the command.
    pub shell: String,
    /// The command's working directory.
    pub cwd: String,
    /// Variables that are set for it.
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    /// Variables that it does not get to see.
    #[serde(default)]
    pub unset: Vec<String>,
    /// How long it may run, in milliseconds from its claim.
    pub timeout_ms: u64,
    /// Whether nobody waits for its end.
    #[serde(default)]
    pub background: bool,
}

/// Who may start the command, or made sure that nobody does.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Claim {
    /// Which of the two.
    pub by: Claimant,
    /// The claimant's process; a supervisor leads a session of that number.
    pub pid: u32,
    /// When that process started, in the system's own count; 0 when unknown.
    pub started: u64,
    /// The boot in which it runs; empty when unknown.
    pub boot: String,
    /// The machine.
    pub host: String,
    /// When, for people.
    pub at: Timestamp,
}

/// The two kinds of claimants.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Claimant {
    /// It starts the command next.
    Supervisor,
    /// It made sure that the command never starts.
    Recovery,
}

/// How a command ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Status {
    /// The end.
    #[serde(flatten)]
    pub end: End,
    /// How long its output was, in bytes, kept or not.
    pub bytes: u64,
    /// How many bytes of that found no room on the disk.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub unwritten: u64,
    /// Whether processes that it left running still held its output.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub held_open: bool,
    /// When, for people.
    pub at: Timestamp,
}

/// The ends that there are.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "end", rename_all = "snake_case")]
pub enum End {
    /// It exited by itself.
    Exited {
        /// Its exit code.
        code: i32,
    },
    /// A signal ended it that its supervisor did not send.
    Signalled {
        /// The signal's number.
        signal: i32,
    },
    /// Its supervisor ended it at its deadline.
    TimedOut,
    /// Its supervisor ended it because that was asked for.
    Stopped,
    /// It could not be started, or a stop came first.
    NotStarted {
        /// Why.
        why: String,
    },
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exited { code } => write!(f, "exit code {code}"),
            Self::Signalled { signal } => write!(f, "ended by signal {signal}"),
            Self::TimedOut => f.write_str("ended at its deadline"),
            Self::Stopped => f.write_str("stopped"),
            Self::NotStarted { why } => write!(f, "not started: {why}"),
        }
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the shape that serde calls")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// The directory of one supervised command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ActionDir(PathBuf);

impl ActionDir {
    /// Makes a new one under `actions`, which is made too when it is not there, with what the supervisor
    /// is told. Everything is durable when this returns; the directory that `actions` lies in must be.
    ///
    /// # Errors
    /// Of the file system; what was made is removed then, as far as it can be.
    pub fn create(actions: &Path, request: &Request) -> io::Result<Self> {
        make_private(actions)?;
        let private = fs::Permissions::from_mode(0o700);
        let dir = tempfile::Builder::new()
            .prefix("")
            .rand_bytes(ID_CHARS)
            .permissions(private)
            .tempdir_in(actions)?;
        let action = Self(dir.path().to_owned());
        // The empty file first: what is synced behind it takes it along on most file systems.
        private_file(&action.file("lock"))?;
        write_synced(&action.file("request"), &serde_json::to_vec(request)?)?;
        sync_dir(&action.0)?;
        sync_dir(actions)?;
        Ok(Self(dir.keep()))
    }

    /// The one that an id names; it need not be there. None for a text that is no id.
    #[must_use]
    pub fn named(actions: &Path, id: &str) -> Option<Self> {
        let fits = id.len() <= 64 && !id.is_empty();
        let plain = id.bytes().all(|byte| byte.is_ascii_alphanumeric());
        (fits && plain).then(|| Self(actions.join(id)))
    }

    /// Every one under `actions`, sorted by id.
    #[must_use]
    pub fn all(actions: &Path) -> Vec<Self> {
        let entries = fs::read_dir(actions).into_iter().flatten().filter_map(Result::ok);
        let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
        let mut found: Vec<Self> = names.filter_map(|id| Self::named(actions, &id)).collect();
        found.sort_by(|a, b| a.0.cmp(&b.0));
        found
    }

    /// The supervisor's own, which is its working directory.
    pub(crate) fn here() -> Self {
        Self(PathBuf::from("."))
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Its id: the directory's name.
    #[must_use]
    pub fn id(&self) -> &str {
        self.0.file_name().and_then(|name| name.to_str()).unwrap_or_default()
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// What the supervisor is told.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn request(&self) -> io::Result<Request> {
        Ok(serde_json::from_slice(&fs::read(self.file("request"))?)?)
    }

    /// The claim; none when there is none, an error when it is not whole.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn claim(&self) -> io::Result<Option<Claim>> {
        read_json(&self.file("claim"))
    }

    /// The status; none when there is none, an error when it is not whole.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn status(&self) -> io::Result<Option<Status>> {
        read_json(&self.file("status"))
    }

    /// Whether a command wrote, or could have written, output here.
    pub(crate) fn has_output(&self) -> bool {
        self.file("output").exists()
    }

    /// Creates the claim, unless there is one. Gives whether this process has it now; it is durable then.
    pub(crate) fn claim_for(&self, by: Claimant) -> io::Result<bool> {
        let pid = std::process::id();
        let claim = Claim {
            by,
            pid,
            started: platform::process_started(pid),
            boot: platform::boot_id(),
            host: platform::host(),
            at: platform::wall_clock(),
        };
        // Whole before it has its name: nobody ever sees half a claim. Giving the name is what only one
        // can do.
        let mut mine = tempfile::NamedTempFile::new_in(&self.0)?;
        mine.write_all(&serde_json::to_vec(&claim)?)?;
        match mine.persist_noclobber(self.file("claim")) {
            Ok(file) => {
                // After a power loss nobody asks the claim: that was another boot.
                file.sync_all()?;
                sync_dir(&self.0).map(|()| true)
            }
            Err(e) if e.error.kind() == ErrorKind::AlreadyExists => Ok(false),
            Err(e) => Err(e.error),
        }
    }

    /// Says how the command ended, durably, behind its output, which `sync` makes durable.
    pub(crate) fn tell(&self, status: &Status, sync: impl Fn()) -> io::Result<()> {
        let temp = self.file("status.new");
        let _ = fs::remove_file(&temp);
        let mut file = private_file(&temp)?;
        file.write_all(&serde_json::to_vec(status)?)?;
        sync();
        file.sync_all()?;
        fs::rename(&temp, self.file("status"))?;
        sync_dir(&self.0)
    }

    /// Opens the lock file.
    pub(crate) fn lock_file(&self) -> io::Result<File> {
        OpenOptions::new().read(true).write(true).open(self.file("lock"))
    }

    /// Whether a supervisor lives.
    #[must_use]
    pub fn is_locked(&self) -> bool {
        let Ok(file) = File::open(self.file("lock")) else { return false };
        flock(&file, FlockOperation::NonBlockingLockShared) == Err(Errno::WOULDBLOCK)
    }

    /// What still runs of a command whose supervisor is gone, as far as it can be seen.
    #[must_use]
    pub fn survivors(&self) -> Vec<Survivor> {
        let Ok(Some(claim)) = self.claim() else { return Vec::new() };
        if claim.by != Claimant::Supervisor || claim.boot != platform::boot_id() {
            return Vec::new();
        }
        platform::survivors(claim.pid, claim.started, &format!("{MARK}={}", self.id()))
    }

    /// Asks the supervisor to end the command. Asking again changes nothing.
    ///
    /// # Errors
    /// When the request cannot be left.
    pub fn ask_to_stop(&self) -> io::Result<()> {
        match private_file(&self.file("stop")) {
            Err(e) if e.kind() != ErrorKind::AlreadyExists => Err(e),
            _ => Ok(()),
        }
    }

    /// Whether it was asked to end.
    #[must_use]
    pub fn is_asked_to_stop(&self) -> bool {
        self.file("stop").exists()
    }

    /// Says that what is here is named elsewhere and stays when the command is told of.
    pub(crate) fn keep(&self) -> io::Result<()> {
        match private_file(&self.file("kept")) {
            Err(e) if e.kind() != ErrorKind::AlreadyExists => Err(e),
            _ => Ok(()),
        }
    }

    /// Whether it stays although its command's end was told.
    #[must_use]
    pub fn is_kept(&self) -> bool {
        self.file("kept").exists()
    }

    /// Removes everything. Only for a command that has ended and whose result is recorded for good.
    ///
    /// # Errors
    /// Of the file system.
    pub fn remove(&self) -> io::Result<()> {
        fs::remove_dir_all(&self.0)
    }
}

/// A new, empty, private file.
pub(crate) fn private_file(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)
}

fn write_synced(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = private_file(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}

/// Makes what was created in a directory durable.
pub(crate) fn sync_dir(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}

/// Makes a private directory, durably, unless it is there.
fn make_private(path: &Path) -> io::Result<()> {
    match DirBuilder::new().mode(0o700).create(path) {
        Ok(()) => path.parent().map_or(Ok(()), sync_dir),
        Err(e) if e.kind() == ErrorKind::AlreadyExists => Ok(()),
        Err(e) => Err(e),
    }
}

fn read_json<T: DeserializeOwned>(path: &Path) -> io::Result<Option<T>> {
    match fs::read(path) {
        Ok(bytes) => Ok(Some(serde_json::from_slice(&bytes)?)),
        Err(e) if e.kind() == ErrorKind::NotFound => Ok(None),
        Err(e) => Err(e),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The page's examples are what is written and read.
    #[test]
    fn the_examples_of_the_page_are_read_and_written() {
        let page = include_str!("../../../../docs/format/actions.md");
        let blocks: Vec<&str> =
            page.split("```json\n").skip(1).filter_map(|b| b.split("\n```").next()).collect();
        let [request, claim, statuses] = blocks[..] else { panic!("three blocks") };
        let parsed: Request = serde_json::from_str(request).unwrap();
        assert_eq!(serde_json::to_string(&parsed).unwrap(), request);
        let parsed: Claim = serde_json::from_str(claim).unwrap();
        assert_eq!(serde_json::to_string(&parsed).unwrap(), claim);
        for status in statuses.lines() {
            let parsed: Status = serde_json::from_str(status).unwrap();
            assert_eq!(serde_json::to_string(&parsed).unwrap(), status);
        }
    }

    /// Covers: G17.
    #[test]
    fn an_id_is_no_path() {
        let root = Path::new("/a");
        for text in ["", ".", "..", "a/b", "a\0", "ä", "a b", &"a".repeat(65)] {
            assert!(ActionDir::named(root, text).is_none(), "{text:?}");
        }
        assert_eq!(
            ActionDir::named(root, "k3Rf0aZq1x").unwrap().path(),
            Path::new("/a/k3Rf0aZq1x")
        );
    }
}
