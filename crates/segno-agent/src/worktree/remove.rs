//! Removing a worktree that holds nothing.
//!
//! Responsible for: looking again right before, and removing worktree, branch and note in an order that a crash
//! leaves listed. Must not: remove what holds work, or force git.

use super::plan::git_dir;
use super::{Note, State, UNFINISHED, Work, Worktrees};
use crate::git;
use std::fs::{File, TryLockError};
use std::path::{Path, PathBuf};

/// Why a worktree stays.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Kept(pub String);

impl Work {
    /// Whether nothing is lost with it; `ignored` is a person's word that files which git ignores may go.
    #[must_use]
    pub fn is_removable(&self, ignored: bool) -> bool {
        if !self.unseen.is_empty() || (self.ignored > 0 && !ignored) {
            return false;
        }
        match self.state {
            State::Clean | State::Merged | State::Unfinished => true,
            State::Missing => self.unmerged == 0,
            State::Uncommitted | State::Unmerged | State::Replaced | State::Unknown => false,
        }
    }

    /// Whether a process that makes it may not have come further yet.
    #[must_use]
    pub fn may_be_under_way(&self) -> bool {
        matches!(self.state, State::Missing | State::Unfinished)
    }
}

impl Worktrees {
    /// The notes that were never finished: nothing was made yet when their writers died.
    ///
    /// # Errors
    /// When the directory is there and cannot be read.
    pub fn unfinished_notes(&self) -> std::io::Result<Vec<PathBuf>> {
        let unfinished = |path: &PathBuf| path.extension().is_some_and(|end| end == UNFINISHED);
        let odd = self.notes()?.1.into_iter().map(|(path, _)| path);
        let mut paths: Vec<_> = odd.filter(unfinished).collect();
        paths.sort();
        Ok(paths)
    }

    /// Removes one of them, unless somebody is at it.
    ///
    /// # Errors
    /// Why it stays.
    pub fn remove_unfinished(&self, path: &Path) -> Result<(), Kept> {
        let gone = |error: &std::io::Error| error.kind() == std::io::ErrorKind::NotFound;
        let file = match File::open(path) {
            Err(error) if gone(&error) => return Ok(()),
            file => file.map_err(|error| Kept(error.to_string()))?,
        };
        file.try_lock().map_err(|error| match error {
            TryLockError::WouldBlock => Kept("somebody is at work on it".to_owned()),
            TryLockError::Error(error) => Kept(error.to_string()),
        })?;
        match std::fs::remove_file(path) {
            Err(error) if !gone(&error) => Err(Kept(error.to_string())),
            _ => Ok(()),
        }
    }

    /// Removes a worktree that was found to hold nothing, with its branch and its note. Nobody may be at work in
    /// it. `ignored` as for [`Work::is_removable`].
    ///
    /// # Errors
    /// Why it stays.
    pub async fn remove(&self, note: &Note, found: &Work, ignored: bool) -> Result<(), Kept> {
        let now = self.work(note).await;
        if now != *found || !now.is_removable(ignored) {
            return Err(Kept("it has changed meanwhile".to_owned()));
        }
        if now.state == State::Unfinished {
            let left = self.take_back(note).await;
            return if left.is_empty() { Ok(()) } else { Err(Kept(left)) };
        }
        let worktree = &note.worktree;
        let repository = Path::new(&worktree.repo_root);
        if super::today::is_repository(repository) {
            self.unregister(note, &now).await?;
        }
        std::fs::remove_file(self.note_path(&note.child)).map_err(|e| Kept(e.to_string()))
    }

    async fn unregister(&self, note: &Note, now: &Work) -> Result<(), Kept> {
        let worktree = &note.worktree;
        let (repository, path) = (Path::new(&worktree.repo_root), Path::new(&worktree.path));
        let at = git_dir(repository);
        let kept = |error: git::GitError| Kept(error.to_string());
        if super::today::entry(repository, path).await.map_err(kept)?.is_some() {
            let remove = [&at, "worktree", "remove", worktree.path.as_str()];
            git::call(&self.directory, &remove)
                .await
                .and_then(git::Answer::output)
                .map_err(kept)?;
        }
        if let Some(tip) = &now.tip {
            // Only as long as it is where it was.
            let name = format!("refs/heads/{}", worktree.branch);
            let delete = [&at, "update-ref", "-d", &name, tip];
            git::call(&self.directory, &delete)
                .await
                .and_then(git::Answer::output)
                .map_err(kept)?;
        }
        Ok(())
    }
}
