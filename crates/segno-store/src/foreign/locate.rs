//! Where sessions are.
//!
//! Responsible for: naming a session of another agent without reading it. Must not: open files.

use super::agent::Agent;
use super::input::ForeignError;
use crate::parallel::in_parallel;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, Metadata};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Where agents keep things: the home directory and the environment variables that move it.
#[derive(Debug, Clone, Default)]
pub struct Roots {
    /// The user's home directory.
    pub home: PathBuf,
    /// Environment variables, e.g. `CODEX_HOME`.
    pub env: BTreeMap<String, String>,
    /// Projects that are known, for agents that keep their sessions in the project: the current
    /// directory, and the directories of sessions found earlier.
    pub projects: Vec<PathBuf>,
}

impl Roots {
    /// What the variable `name` says, or the path `otherwise` under the home directory.
    pub(super) fn dir(&self, name: &str, otherwise: &str) -> PathBuf {
        match self.env.get(name) {
            Some(value) if !value.is_empty() => PathBuf::from(value),
            _ => self.home.join(otherwise),
        }
    }

    /// The home directory and the known projects, each once.
    pub(super) fn places(&self) -> BTreeSet<&Path> {
        self.projects.iter().chain([&self.home]).map(PathBuf::as_path).collect()
    }
}

/// A session that was found and not yet read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Located {
    /// Whose it is.
    pub agent: Agent,
    /// The file, folder or database.
    pub path: PathBuf,
    /// Which session, where a file holds several.
    pub key: Option<String>,
    /// The id, as far as the place tells it; the file itself says it for sure.
    pub id: Option<String>,
    /// The session to which this subagent's session belongs, as far as the place tells it.
    pub parent: Option<String>,
    /// Whether the agent moved it out of its own list.
    pub archived: bool,
    /// By what a change is noticed.
    pub stamp: Stamp,
}

/// By what a change is noticed without reading.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Stamp {
    /// The length in bytes; in a database, how many rows or 0.
    pub bytes: u64,
    /// The time of the last change in ns since 1970; in a database, of the session's row.
    pub modified_ns: i64,
    /// The file's number.
    pub ino: u64,
}

impl Stamp {
    pub(crate) fn of(meta: &Metadata) -> Self {
        let modified_ns =
            meta.mtime().saturating_mul(1_000_000_000).saturating_add(meta.mtime_nsec());
        Self { bytes: meta.len(), modified_ns, ino: meta.ino() }
    }
}

impl Located {
    /// The session in a file.
    pub(super) fn file(agent: Agent, path: PathBuf, meta: &Metadata) -> Self {
        let stamp = Stamp::of(meta);
        Self { agent, path, key: None, id: None, parent: None, archived: false, stamp }
    }
}

/// Calls `each` with every file below `dir` whose name ends with `suffix`, at most `depth` folders deep.
/// A folder that is not there holds nothing; one that cannot be listed is told. Links are followed, but
/// not those that lead back to a folder above them: what is there is found without them.
pub(super) fn files_below(
    dir: &Path,
    suffix: &str,
    depth: usize,
    failed: &mut Vec<ForeignError>,
    each: &mut dyn FnMut(PathBuf, Metadata),
) {
    files_below_each(&[dir.to_owned()], suffix, depth, failed, &mut |_, path, meta| {
        each(path, meta);
    });
}

/// The same for several directories, all of whose files are looked at together; `each` is told below which
/// one a file is.
pub(super) fn files_below_each(
    dirs: &[PathBuf],
    suffix: &str,
    depth: usize,
    failed: &mut Vec<ForeignError>,
    each: &mut dyn FnMut(&Path, PathBuf, Metadata),
) {
    let mut files = Vec::new();
    for dir in dirs {
        names_below(dir, suffix, depth, failed, &mut |path| files.push((dir, path)));
    }
    let metas = in_parallel(&files, |(_, path)| fs::metadata(path));
    for ((dir, path), meta) in files.into_iter().zip(metas) {
        match meta {
            Ok(meta) if meta.is_file() => each(dir, path, meta),
            Ok(_) => {}
            Err(e) => failed.push(ForeignError::io(&path, e)),
        }
    }
}

fn names_below(
    dir: &Path,
    suffix: &str,
    depth: usize,
    failed: &mut Vec<ForeignError>,
    each: &mut dyn FnMut(PathBuf),
) {
    let entries = match fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return,
        Err(e) => return failed.push(ForeignError::io(dir, e)),
    };
    for entry in entries.filter_map(Result::ok) {
        let Ok(kind) = entry.file_type() else { continue };
        let (name, path) = (entry.file_name(), entry.path());
        if kind.is_dir() || kind.is_symlink() && path.is_dir() {
            if depth > 0 && !(kind.is_symlink() && leads_back(&path)) {
                names_below(&path, suffix, depth - 1, failed, each);
            }
        } else if name.as_bytes().ends_with(suffix.as_bytes()) {
            // What asks for every file says itself what it makes of the name.
            if name.to_str().is_some() || suffix.is_empty() {
                each(path);
            } else {
                let why = "its name is no UTF-8, so it is neither read nor kept";
                failed.push(ForeignError::io(&path, io::Error::other(why)));
            }
        }
    }
}

/// Whether a link names a folder in which it stands itself, at whatever depth.
fn leads_back(link: &Path) -> bool {
    let (Ok(target), Some(Ok(folder))) =
        (link.canonicalize(), link.parent().map(Path::canonicalize))
    else {
        return false;
    };
    folder.starts_with(target)
}
