//! What lies at a path, told exactly: content, mode, and which file it is.
//!
//! Responsible for: reading it without following a link, and telling two files apart. Must not: change
//! anything.

use super::super::error::ToolError;
use segno_model::id::sha256_hex;
use serde::{Deserialize, Serialize};
use std::fs::{File, Metadata, OpenOptions};
use std::io::{ErrorKind, Read as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;

/// A larger file is not changed by the tools: its old content is held while it is.
pub(crate) const MAX_OLD: u64 = 64 << 20;

/// What a file held when the change was worked out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Old {
    /// Nothing was there.
    Absent,
    /// These bytes.
    Content(Vec<u8>),
}

impl Old {
    /// Reads what a resolved path holds; anything but a regular file is refused.
    pub(crate) fn read(path: &Path) -> Result<Self, ToolError> {
        let meta = match std::fs::symlink_metadata(path) {
            Ok(meta) => meta,
            Err(e) if e.kind() == ErrorKind::NotFound => return Ok(Self::Absent),
            Err(e) => return Err(ToolError::io(path, e)),
        };
        if !meta.is_file() {
            let what = if meta.is_dir() { "a directory" } else { "not a regular file" };
            return Err(ToolError::Refused(format!("{} is {what}", path.display())));
        }
        if meta.len() > MAX_OLD {
            return Err(ToolError::Refused(format!(
                "{} has {} bytes; files over {MAX_OLD} are changed with a program",
                path.display(),
                meta.len()
            )));
        }
        Ok(Self::Content(std::fs::read(path).map_err(|e| ToolError::io(path, e))?))
    }

    /// The bytes; empty when nothing was there.
    pub(crate) fn bytes(&self) -> &[u8] {
        match self {
            Self::Absent => &[],
            Self::Content(bytes) => bytes,
        }
    }

    /// The bytes' hash; none when nothing was there.
    pub(crate) fn sha256(&self) -> Option<String> {
        match self {
            Self::Absent => None,
            Self::Content(bytes) => Some(sha256_hex(bytes)),
        }
    }
}

/// Which file, on one host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) struct FileId {
    /// Its device.
    pub(crate) dev: u64,
    /// Its inode.
    pub(crate) ino: u64,
}

impl FileId {
    pub(crate) fn of(meta: &Metadata) -> Self {
        Self { dev: meta.dev(), ino: meta.ino() }
    }

    /// Which file a name leads to, links not followed; none when nothing is there.
    pub(crate) fn at(path: &Path) -> std::io::Result<Option<Self>> {
        match std::fs::symlink_metadata(path) {
            Ok(meta) => Ok(Some(Self::of(&meta))),
            Err(e) if e.kind() == ErrorKind::NotFound => Ok(None),
            Err(e) => Err(e),
        }
    }
}

/// A regular file as it was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Found {
    /// Which one.
    pub(crate) id: FileId,
    /// Its permissions.
    pub(crate) mode: u32,
    /// What it holds.
    pub(crate) bytes: Vec<u8>,
}

/// What lies at a name.
#[derive(Debug)]
pub(crate) enum Lies {
    /// Nothing.
    Nothing,
    /// A regular file of bearable size.
    File(Found),
    /// A directory, a link, a device, a huge file.
    Something(FileId),
}

impl Lies {
    /// Looks, without following a link.
    pub(crate) fn at(path: &Path) -> std::io::Result<Self> {
        let meta = match std::fs::symlink_metadata(path) {
            Ok(meta) => meta,
            Err(e) if e.kind() == ErrorKind::NotFound => return Ok(Self::Nothing),
            Err(e) => return Err(e),
        };
        if !meta.is_file() || meta.len() > MAX_OLD {
            return Ok(Self::Something(FileId::of(&meta)));
        }
        let mut file = open(path, OpenOptions::new().read(true))?;
        let meta = file.metadata()?;
        let mut bytes = Vec::new();
        file.by_ref().take(MAX_OLD + 1).read_to_end(&mut bytes)?;
        let mode = meta.permissions().mode() & 0o7777;
        Ok(Self::File(Found { id: FileId::of(&meta), mode, bytes }))
    }

    /// Which file it is.
    pub(crate) fn id(&self) -> Option<FileId> {
        match self {
            Self::Nothing => None,
            Self::File(found) => Some(found.id),
            Self::Something(id) => Some(*id),
        }
    }

    /// Whether it is a file with exactly this content.
    pub(crate) fn holds(&self, bytes: &[u8]) -> bool {
        matches!(self, Self::File(found) if found.bytes == bytes)
    }

    /// Whether it is a file with content of this hash.
    pub(crate) fn hashes_to(&self, sha256: &str) -> bool {
        matches!(self, Self::File(found) if sha256_hex(&found.bytes) == sha256)
    }
}

/// Opens a name that must not be a link; never waits, e.g. for the other end of a pipe.
pub(crate) fn open(path: &Path, options: &mut OpenOptions) -> std::io::Result<File> {
    let flags = rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK;
    options.custom_flags(flags.bits().cast_signed()).open(path)
}
