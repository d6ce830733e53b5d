//! A repaired copy where its agent finds it.
//!
//! Responsible for: the copy's id and its name beside the damaged file. The id is made from what the copy holds,
//! so that the same repair gives the same copy. Must not: name a place that the agent does not look at.

use super::error::RescueError;
use super::place::Placed;
use super::write::renamed;
use super::{Plan, Rename};
use crate::disk::RealDisk;
use crate::durable::{TempFile, create_dirs};
use crate::error::store_error;
use crate::foreign::{self, Agent, Located, Roots};
use crate::leftovers::sweep_nameless;
use sha2::{Digest, Sha256};
use std::ffi::OsStr;
use std::io::{self, Read as _, Write};
use std::path::{Path, PathBuf};

impl Plan {
    /// Puts a repaired copy with a new id beside the session's file, in a folder in which its agent looks.
    ///
    /// # Errors
    /// When the file does not lie in such a folder, or cannot be written.
    pub fn install(&self, roots: &Roots) -> Result<Placed, RescueError> {
        let (from, found) = self.beside(roots)?;
        let to = self.new_id(&from)?;
        let name = new_name(self.agent, &self.path, &to).ok_or_else(in_a_folder)?;
        let path = found.path.parent().unwrap_or(Path::new(".")).join(name);
        let rename = Rename { from, to };
        // Its agent may have packed it since, or put it away.
        let elsewhere = || foreign::whereabouts(self.agent, roots, &rename.to);
        if !path.exists()
            && let Some(file) = elsewhere()
        {
            return Ok(Placed { file, backup: None, set_aside: None, was_there: true });
        }
        if let Some(dir) = path.parent() {
            sweep_nameless(&RealDisk, dir);
        }
        if self.agent == Agent::Claude {
            take_along(&found, &path, &rename)?;
        }
        self.to_new_file_as(&path, Some(&rename))
    }

    /// Whether the file is packed: then nothing can take its place.
    #[must_use]
    pub fn is_packed(&self) -> bool {
        self.is_packed
    }

    /// Whether [`Self::install`] has a place for a copy.
    #[must_use]
    pub fn has_place(&self, roots: &Roots) -> bool {
        self.beside(roots).is_ok()
    }

    /// The session's id, and the session as its agent finds it, beside which a copy can be.
    fn beside(&self, roots: &Roots) -> Result<(String, Located), RescueError> {
        let unplaced = |why: &str| RescueError::Unplaced { why: why.to_owned() };
        if self.is_child {
            return Err(RescueError::Child { path: self.path.clone() });
        }
        let Some(from) = self.id.clone().filter(|id| !id.is_empty()) else {
            return Err(unplaced("the session does not say its id"));
        };
        // An id of the usual length.
        if new_name(self.agent, &self.path, &uuid::Uuid::nil().to_string()).is_none() {
            return Err(in_a_folder());
        }
        let found = found(&self.path, self.agent, roots);
        let found = found
            .ok_or_else(|| unplaced("the file does not lie where its agent keeps sessions"))?;
        Ok((from, found))
    }

    /// Sessions that name lines and bytes of this file: forks of Codex's begin with a reference, not with a copy.
    /// Another file in its place would be another beginning for them.
    #[must_use]
    pub fn referring(&self, roots: &Roots) -> Vec<PathBuf> {
        let Some(id) = self.id.as_deref().filter(|_| self.agent == Agent::Codex) else {
            return Vec::new();
        };
        let (found, _) = foreign::locate_of(Agent::Codex, roots);
        let others = found.into_iter().map(|other| other.path).filter(|path| *path != self.path);
        others.filter(|path| begins_with_reference(path, id)).collect()
    }

    /// The same for the same content.
    fn new_id(&self, from: &str) -> Result<String, RescueError> {
        let mut hashed = Hashed(Sha256::new());
        hashed.0.update(from.as_bytes());
        self.write(&mut hashed, &mut io::sink(), None)?;
        let mut bytes = [0; 16];
        for (to, byte) in bytes.iter_mut().zip(hashed.0.finalize()) {
            *to = byte;
        }
        let random = uuid::Builder::from_random_bytes(bytes).into_uuid();
        // Ids that tell their time go on telling it.
        let made = uuid::Uuid::try_parse(from).ok().and_then(|id| id.get_timestamp());
        let id = match made.filter(|_| matches!(self.agent, Agent::Codex | Agent::Pi)) {
            Some(made) => {
                let (seconds, nanos) = made.to_unix();
                let ms = seconds.saturating_mul(1000) + u64::from(nanos / 1_000_000);
                let mut tail = [0; 10];
                tail.copy_from_slice(&bytes[..10]);
                uuid::Builder::from_unix_timestamp_millis(ms, &tail).into_uuid()
            }
            None => random,
        };
        Ok(id.to_string())
    }
}

fn in_a_folder() -> RescueError {
    let why = "its agent keeps a session in a folder, or under a name of another kind";
    RescueError::Unplaced { why: why.to_owned() }
}

/// What is written, as a hash.
struct Hashed(Sha256);

impl Write for Hashed {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.update(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Whether a rollout's header says that it goes on behind another session.
fn begins_with_reference(path: &Path, id: &str) -> bool {
    /// Headers hold instructions of some ten thousand bytes.
    const HEADER: u64 = 1 << 20;
    let mut head = Vec::new();
    let read =
        foreign::open_untouched(path).and_then(|file| file.take(HEADER).read_to_end(&mut head));
    let first = head.split(|&byte| byte == b'\n').next().unwrap_or_default();
    let has = |text: &str| memchr::memmem::find(first, text.as_bytes()).is_some();
    read.is_ok() && has("\"history_base\"") && has(&format!("\"thread_id\":\"{id}\""))
}

/// What lies in the session's own folder (subagents, long results), for the copy too. What is there stays.
fn take_along(session: &Located, to: &Path, rename: &Rename) -> Result<(), RescueError> {
    let (from, to) = (session.path.with_extension(""), to.with_extension(""));
    let root = to.parent().unwrap_or(Path::new(".")).to_owned();
    for file in foreign::belongings(session)? {
        let Ok(below) = file.strip_prefix(&from) else { continue };
        let new = to.join(below);
        let (Some(dir), Some(name)) = (new.parent(), new.file_name().and_then(OsStr::to_str))
        else {
            continue;
        };
        let mut bytes = Vec::new();
        foreign::open_untouched(&file)
            .and_then(|mut file| file.read_to_end(&mut bytes))
            .map_err(|e| store_error("reading", &file, e))?;
        create_dirs(&RealDisk, &root, dir)?;
        sweep_nameless(&RealDisk, dir);
        let bytes = renamed(&bytes, rename).unwrap_or(bytes);
        TempFile::write_held(&RealDisk, dir, &bytes)?.link_free(name)?;
    }
    Ok(())
}

/// The session as its agent finds it.
fn found(path: &Path, agent: Agent, roots: &Roots) -> Option<Located> {
    let path = path.canonicalize().ok()?;
    let is_it = |other: &Located| other.path.canonicalize().is_ok_and(|other| other == path);
    foreign::locate_of(agent, roots).0.into_iter().find(is_it)
}

/// The name of a file that holds a session with this id; none where sessions are folders.
fn new_name(agent: Agent, path: &Path, id: &str) -> Option<PathBuf> {
    let name = path.file_name()?.to_str()?;
    let stem = name.strip_suffix(".zst").unwrap_or(name).strip_suffix(".jsonl")?;
    let name = match agent {
        Agent::Claude | Agent::Qwen => format!("{id}.jsonl"),
        // `rollout-<time>-<id>`, `session-<time>-<beginning of the id>`, `<time>_<id>`.
        Agent::Codex => format!("{}{id}.jsonl", stem.get(..stem.len().checked_sub(36)?)?),
        Agent::Gemini => {
            format!("{}{}.jsonl", stem.get(..stem.len().checked_sub(8)?)?, id.get(..8)?)
        }
        Agent::Pi | Agent::Ink => format!("{}_{id}.jsonl", stem.split_once('_')?.0),
        _ => return None,
    };
    Some(PathBuf::from(name))
}
