//! Git worktrees of subagents: a working tree and a branch of a child's own.
//!
//! Responsible for: where they are and what they are called, whether one can be made (`plan`), making it whole
//! or not at all (`make`), what it is today (`today`), what was done in it (`work`, and
//! `unseen` and `strays` for what git's status does not show), bringing that back
//! (`merge`) and removing what holds nothing (`remove`). Git is asked through its program. Must not: know a
//! session's log, or remove what holds work.
//!
//! A worktree's path and branch follow from the child's id, so a call makes one at most, whatever dies in
//! between. A note beside it, written first, says whose it is: what is made is listed even where no log tells
//! of it any more.

mod in_the_way;
mod make;
mod merge;
mod plan;
mod remove;
mod strays;
#[cfg(test)]
mod tests;
mod today;
mod unseen;
mod work;

pub(crate) use today::directory;

pub use crate::git::GitError;
pub use merge::{Merged, NotMerged};
pub use plan::{Planned, Refusal};
pub use remove::Kept;
pub use work::{State, Work};

use segno_model::SessionId;
use segno_model::record::{LaunchRecord, Worktree};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// The worktrees of one place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Worktrees {
    directory: PathBuf,
}

/// What is known of one beside itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Note {
    /// Of this note.
    pub version: u32,
    /// The session whose call made it.
    pub parent: SessionId,
    /// The subagent that works in it.
    pub child: SessionId,
    /// That one's role.
    pub role: String,
    /// The worktree.
    pub worktree: Worktree,
}

/// How the name of a note ends that is not whole yet.
const UNFINISHED: &str = "new";

/// All notes, by child; and what could not be read as one, with why.
pub type Notes = (Vec<Note>, Vec<(PathBuf, String)>);

/// Where a child works when it has a worktree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Directories {
    /// The top of the worktree.
    pub(crate) root: PathBuf,
    /// The position in it that its parent had in its own.
    pub(crate) cwd: PathBuf,
}

impl Directories {
    /// Of a launch.
    pub(crate) fn of(launch: &LaunchRecord) -> Option<Self> {
        let root = PathBuf::from(&launch.worktree.as_ref()?.path);
        Some(Self { root, cwd: PathBuf::from(&launch.cwd) })
    }
}

impl Worktrees {
    /// Those below this directory.
    #[must_use]
    pub fn new(directory: PathBuf) -> Self {
        // It may not be there yet; git names its worktrees by their real paths.
        let above =
            directory.ancestors().find_map(|above| Some((above, above.canonicalize().ok()?)));
        let real = above.and_then(|(above, real)| {
            let rest = directory.strip_prefix(above).ok()?;
            Some(if rest.as_os_str().is_empty() { real } else { real.join(rest) })
        });
        Self { directory: real.unwrap_or(directory) }
    }

    /// Where a child's is.
    #[must_use]
    pub fn path(&self, child: &SessionId) -> PathBuf {
        self.directory.join(child.as_str())
    }

    /// A child's branch.
    #[must_use]
    pub fn branch(child: &SessionId) -> String {
        format!("segno/{child}")
    }

    fn note_path(&self, child: &SessionId) -> PathBuf {
        self.directory.join(format!("{child}.json"))
    }

    /// All notes, by child; and what could not be read as one.
    ///
    /// # Errors
    /// When the directory is there and cannot be read.
    pub fn notes(&self) -> std::io::Result<Notes> {
        let entries = match std::fs::read_dir(&self.directory) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(<_>::default()),
            entries => entries?,
        };
        let (mut notes, mut odd) = (Vec::new(), Vec::new());
        for entry in entries {
            let path = entry?.path();
            match path.extension().and_then(|end| end.to_str()) {
                Some("json") => match self.note_at(&path) {
                    Ok(note) => notes.push(note),
                    Err(why) => odd.push((path, why)),
                },
                Some(UNFINISHED) => {
                    let why =
                        "whoever wrote this note died meanwhile; `segno worktree prune` removes it";
                    odd.push((path, why.to_owned()));
                }
                _ => {}
            }
        }
        notes.sort_by(|a, b| a.child.cmp(&b.child));
        Ok((notes, odd))
    }

    fn note_at(&self, path: &Path) -> Result<Note, String> {
        let text = std::fs::read_to_string(path).map_err(|e| e.to_string())?;
        let note: Note = serde_json::from_str(&text).map_err(|e| e.to_string())?;
        if note.version != 1 || self.note_path(&note.child) != path {
            return Err("it is no note of this version about the worktree beside it".to_owned());
        }
        Ok(note)
    }
}

/// What a child is told of where it works, behind everything else that it is told.
#[must_use]
pub fn told_child(worktree: &Worktree) -> String {
    let Worktree { path, branch, baseline, .. } = worktree;
    format!(
        "\n# Worktree\n\nYou work in a git worktree of your own, {path}, on the branch {branch}, which was made \
         from the commit {baseline}. Commit there what is to be kept: only commits of that branch can be \
         merged. Do not check out another branch, and leave other working trees of the repository alone. Tools whose \
         names begin with `mcp__` belong to programs that work in another directory, not in this one.\n"
    )
}
