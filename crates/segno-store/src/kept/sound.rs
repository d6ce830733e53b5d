//! Whether copies still are what was kept.
//!
//! Responsible for: comparing copies with what the index says of them. Must not: change anything, or ask the
//! originals, which may be gone.

use super::index::KeptFile;
use super::{Kept, mirrored};
use crate::disk::Disk;
use crate::durable::read_full;
use crate::store::FileStore;
use sha2::{Digest, Sha256};
use std::fmt;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

const BLOCK: usize = 1 << 20;

/// How closely copies are looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Depth {
    /// Whether they are there, and how long they are.
    Length,
    /// Every byte, by its checksum.
    Bytes,
}

/// What is the matter with a copy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Flaw {
    /// It is not there.
    Gone,
    /// It is shorter than what was kept.
    Shorter {
        /// How long it is.
        bytes: u64,
        /// How long it was.
        kept: u64,
    },
    /// Its bytes are not those that were kept.
    Changed,
    /// It cannot be read.
    Unreadable(String),
}

impl fmt::Display for Flaw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Gone => f.write_str("is gone"),
            Self::Shorter { bytes, kept } => {
                write!(f, "holds only {bytes} of the {kept} bytes that were kept")
            }
            Self::Changed => f.write_str("is damaged: its bytes are not those that were kept"),
            Self::Unreadable(why) => write!(f, "cannot be read: {why}"),
        }
    }
}

/// A copy that is not what was kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Flawed {
    /// The original's path.
    pub original: PathBuf,
    /// Where the copy is, or was.
    pub copy: PathBuf,
    /// What is the matter with it.
    pub flaw: Flaw,
}

impl<D: Disk> FileStore<D> {
    /// The copies of a session's files that are not what was kept, in the order of its files.
    #[must_use]
    pub fn kept_flaws(&self, kept: &Kept, depth: Depth) -> Vec<Flawed> {
        let tree = self.kept_place().tree();
        // In the order of the files; of some nothing is known.
        let mut known = kept.known.iter().peekable();
        let flawed = |original: &PathBuf| {
            let known = known.next_if(|known| known.path == *original);
            let copy = tree.join(mirrored(original)?);
            let flaw = flaw(self.disk(), &copy, known, depth)?;
            Some(Flawed { original: original.clone(), copy, flaw })
        };
        kept.files.iter().filter_map(flawed).collect()
    }
}

/// Whether a copy is what it was when it was kept, and nothing more. What was kept without a checksum is to get one.
pub(super) fn is_as_kept<D: Disk>(disk: &D, copy: &Path, known: &KeptFile, depth: Depth) -> bool {
    known.sha256.is_some()
        && disk.meta(copy).is_ok_and(|copy| copy.len == known.bytes)
        && flaw(disk, copy, Some(known), depth).is_none()
}

/// What is the matter with a copy; what stands behind the bytes that are known was appended by a run that was
/// killed.
fn flaw<D: Disk>(disk: &D, copy: &Path, known: Option<&KeptFile>, depth: Depth) -> Option<Flaw> {
    let bytes = match disk.meta(copy) {
        Ok(meta) => meta.len,
        Err(e) if matches!(e.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            return Some(Flaw::Gone);
        }
        Err(e) => return Some(Flaw::Unreadable(e.to_string())),
    };
    let known = known?;
    if bytes < known.bytes {
        return Some(Flaw::Shorter { bytes, kept: known.bytes });
    }
    let expected = known.sha256.as_ref().filter(|_| depth == Depth::Bytes)?;
    match checksum(disk, copy, known.bytes) {
        Ok(found) if found == *expected => None,
        Ok(_) => Some(Flaw::Changed),
        Err(e) => Some(Flaw::Unreadable(e.to_string())),
    }
}

/// The SHA-256 of a copy's first bytes.
fn checksum<D: Disk>(disk: &D, copy: &Path, bytes: u64) -> io::Result<String> {
    let file = disk.open_read(copy)?;
    let (mut hasher, mut block, mut at) = (Sha256::new(), vec![0; BLOCK], 0);
    while at < bytes {
        let want = usize::try_from(bytes - at).unwrap_or(BLOCK).min(BLOCK);
        let read = read_full(&file, &mut block[..want], at)?;
        if read == 0 {
            break;
        }
        hasher.update(&block[..read]);
        at += read as u64;
    }
    Ok(hex(hasher))
}

/// A checksum as the index has it.
pub(super) fn hex(hasher: Sha256) -> String {
    hasher.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}
