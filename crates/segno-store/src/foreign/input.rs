//! Opening other agents' files.
//!
//! Responsible for: reading without a trace, and the errors of doing so. Must not: write.

use super::agent::Agent;
use super::control::readable_text;
use super::lines::{Lines, looks_whole, whole_objects, without_nuls};
use std::fs::{self, File, Metadata};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// Why a session of another agent cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ForeignError {
    /// The disk refused.
    #[error("{path} cannot be read")]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// A database refused.
    #[cfg(feature = "catalog")]
    #[error("the database {path} cannot be read")]
    Database {
        /// The database.
        path: PathBuf,
        /// Why.
        #[source]
        source: rusqlite::Error,
    },
    /// Some sessions of a database could not be listed.
    #[error("{path} holds sessions that could not be listed: {why}")]
    SessionsLost {
        /// The database.
        path: PathBuf,
        /// Why.
        why: String,
    },
    /// It holds data and nothing that was recognised as a turn.
    #[error("{path} holds {bytes} bytes and no turn that is recognised")]
    NoTurns {
        /// The file.
        path: PathBuf,
        /// How long it is.
        bytes: u64,
    },
    /// It is no session of any known agent.
    #[error("{path} is no session of a known agent")]
    NotRecognised {
        /// The file.
        path: PathBuf,
    },
    /// It holds nothing, or is nothing that could hold a session.
    #[error("{path} is no session: {why}")]
    Nothing {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        why: &'static str,
    },
    /// It needs another file, which is not there.
    #[error("{path} needs {needs}, which is not there")]
    Incomplete {
        /// The file.
        path: PathBuf,
        /// What it needs.
        needs: String,
    },
    /// This build does not read this agent.
    #[error("sessions of {agent} are not read by this build")]
    Unsupported {
        /// The agent.
        agent: Agent,
    },
}

impl ForeignError {
    pub(super) fn io(path: &Path, source: io::Error) -> Self {
        Self::Io { path: path.to_owned(), source }
    }

    /// The file, folder or database that it is about; none where it is about an agent.
    #[must_use]
    pub fn path(&self) -> Option<&Path> {
        match self {
            #[cfg(feature = "catalog")]
            Self::Database { path, .. } => Some(path),
            Self::Io { path, .. }
            | Self::SessionsLost { path, .. }
            | Self::NoTurns { path, .. }
            | Self::NotRecognised { path }
            | Self::Nothing { path, .. }
            | Self::Incomplete { path, .. } => Some(path),
            Self::Unsupported { .. } => None,
        }
    }
}

/// Opens a file for reading so that its access time stays as it is, where the system allows that. What
/// is no file (a pipe, a device) has no end, and may be waited for without one: it is refused.
pub(crate) fn open(path: &Path) -> io::Result<File> {
    let file = crate::platform::open_untouched(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("it is no regular file"));
    }
    Ok(file)
}

/// The beginning of a file of which it is not known whose it is.
pub(super) struct Head<'a> {
    /// Where it is. May be a folder; then there are no bytes.
    pub(super) path: &'a Path,
    /// Up to 64 KiB, or the first whole lines behind them: [`ask`].
    pub(super) bytes: &'a [u8],
}

impl Head<'_> {
    /// Whether it is a SQLite database, whosever.
    pub(super) fn is_sqlite(&self) -> bool {
        self.bytes.starts_with(b"SQLite format 3\0")
    }

    /// The objects on its first lines, as far as they are whole.
    pub(super) fn objects(&self) -> impl Iterator<Item = serde_json::Value> {
        let bytes = self.bytes.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(self.bytes);
        bytes
            .split(|&b| b == b'\n')
            .filter_map(|line| serde_json::from_slice(line.trim_ascii()).ok())
    }
}

/// The beginning of a file, for [`Head`].
pub(super) fn head(path: &Path) -> Result<(Metadata, Vec<u8>), ForeignError> {
    let fail = |e| ForeignError::io(path, e);
    let meta = fs::metadata(path).map_err(fail)?;
    let mut bytes = Vec::new();
    if meta.is_file() {
        open(path).map_err(fail)?.take(64 << 10).read_to_end(&mut bytes).map_err(fail)?;
    }
    Ok((meta, bytes))
}

/// Asks about the beginning of a file or folder, and where that tells nothing, about the first whole lines: a file
/// may begin with a line that is longer than what is looked at first, or with what an interrupted write left.
pub(super) fn ask<T>(
    path: &Path,
    about: impl Fn(&Head<'_>) -> Option<T>,
) -> Result<(Metadata, Option<T>), ForeignError> {
    let (meta, bytes) = head(path)?;
    let mut told = about(&Head { path, bytes: &bytes });
    if told.is_none() && !bytes.is_empty() {
        let file = open(path).map_err(|e| ForeignError::io(path, e))?;
        let bytes = first_whole_lines(file, path)?;
        told = about(&Head { path, bytes: &bytes });
    }
    Ok((meta, told))
}

/// The first lines of a stream that are JSON from end to end, without the NUL bytes around them. What was torn is
/// passed over.
pub(super) fn first_whole_lines(input: impl Read, path: &Path) -> Result<Vec<u8>, ForeignError> {
    /// No more of a file is read, whatever it is; a line can be long.
    const LOOKED_AT: u64 = 64 << 20;
    /// With so many lines, or bytes of them, it is known what the file is.
    const LINES: usize = 64;
    const BYTES: usize = 1 << 20;
    let mut lines = Lines::new(input.take(LOOKED_AT), path);
    let (mut found, mut count) = (Vec::new(), 0);
    while count < LINES
        && found.len() < BYTES
        && let Some(line) = lines.next_raw()?
    {
        let bytes = without_nuls(line.bytes).trim_ascii();
        let bytes = bytes.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(bytes);
        let text = readable_text(bytes);
        if looks_whole(&text) && whole_objects(&text).1 == 0 {
            found.extend_from_slice(text.as_bytes());
            found.push(b'\n');
            count += 1;
        }
    }
    Ok(found)
}
