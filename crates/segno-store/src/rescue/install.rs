//! A repaired copy where its agent finds it.
//!
//! Responsible for: the copy's id and its name beside the damaged file. The id is made from what the copy holds,
//! so that the same repair gives the same copy. Must not: name a place that the agent does not look at.

use super::error::RescueError;
use super::place::Placed;
use super::{Plan, Rename};
use crate::foreign::{self, Agent, Roots};
use sha2::{Digest, Sha256};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

impl Plan {
    /// Puts a repaired copy with a new id beside the session's file, in a folder in which its agent looks.
    ///
    /// # Errors
    /// When the file does not lie in such a folder, or cannot be written.
    pub fn install(&self, roots: &Roots) -> Result<Placed, RescueError> {
        let unplaced = |why: &str| RescueError::Unplaced { why: why.to_owned() };
        let Some(from) = self.id.clone().filter(|id| !id.is_empty()) else {
            return Err(unplaced("the session does not say its id"));
        };
        if !is_found(&self.path, self.agent, roots) {
            return Err(unplaced("the file does not lie where its agent keeps sessions"));
        }
        let to = self.new_id(&from)?;
        let name = new_name(self.agent, &self.path, &to);
        let name =
            name.ok_or_else(|| unplaced("its agent keeps a session in a folder, not in a file"))?;
        let path = self.path.parent().unwrap_or(Path::new(".")).join(name);
        self.to_new_file_as(&path, Some(&Rename { from, to }))
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

/// Whether an agent finds a file where it is.
fn is_found(path: &Path, agent: Agent, roots: &Roots) -> bool {
    let Ok(path) = path.canonicalize() else { return false };
    let (found, _) = foreign::locate_of(agent, roots);
    found.into_iter().any(|other| other.path.canonicalize().is_ok_and(|other| other == path))
}

/// The name of a file that holds a session with this id; none where sessions are folders.
fn new_name(agent: Agent, path: &Path, id: &str) -> Option<PathBuf> {
    let stem = path.file_name()?.to_str()?.strip_suffix(".jsonl")?;
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
