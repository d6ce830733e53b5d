//! What a recorded worktree is today.
//!
//! Responsible for: the facts that continuing a child is judged by: repository, place, registration, branch,
//! ancestry, and whether the child's directory lies within. Must not: judge them, or change anything; whether
//! it is clean does not matter here.

use super::Worktrees;
use super::plan::git_dir;
use crate::git::{self, GitError};
use segno_model::SessionId;
use segno_model::child::drift::{Directory, Tree};
use segno_model::record::Worktree;
use std::path::{Path, PathBuf};

/// What a repository says of one of its worktrees.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Entry {
    /// The full name of what is checked out; none when that is no branch.
    pub(super) branch: Option<String>,
    /// Why it is locked; none when it is not.
    pub(super) locked: Option<String>,
}

impl Worktrees {
    /// What has become of a child's worktree. Git that cannot be asked leaves it unregistered: nobody vouches
    /// for it.
    pub(crate) async fn tree(&self, child: &SessionId, worktree: &Worktree) -> Tree {
        let (repository, path) = (Path::new(&worktree.repo_root), Path::new(&worktree.path));
        if !is_repository(repository) {
            return Tree::RepoGone;
        }
        match path.symlink_metadata() {
            Err(_) => return Tree::Gone,
            // A record names no place that is not this child's.
            Ok(meta) if !meta.is_dir() || path != self.path(child) => return Tree::Replaced,
            Ok(_) => {}
        }
        if !belongs(path, repository) {
            return Tree::Replaced;
        }
        let Ok(Some(entry)) = entry(repository, path).await else { return Tree::Unregistered };
        let branch = format!("refs/heads/{}", worktree.branch);
        if entry.branch.as_ref() != Some(&branch) {
            return Tree::OtherBranch;
        }
        let at = git_dir(repository);
        let is_from = [&at, "merge-base", "--is-ancestor", &worktree.baseline, &branch];
        match git::call(repository, &is_from).await {
            Ok(answer) if answer.is_content() => Tree::Same,
            _ => Tree::OtherHistory,
        }
    }
}

/// Where a child's recorded directory leads, within its worktree or not.
pub(crate) fn directory(worktree: &Worktree, cwd: &str) -> Directory {
    let path = Path::new(cwd);
    match std::fs::metadata(path) {
        Err(_) => Directory::Gone,
        Ok(meta) if !meta.is_dir() => Directory::NotDirectory,
        Ok(_) => match (path.canonicalize(), Path::new(&worktree.path).canonicalize()) {
            (Ok(real), Ok(top)) if real.starts_with(&top) => Directory::Same,
            _ => Directory::Outside,
        },
    }
}

pub(super) fn is_repository(path: &Path) -> bool {
    path.join("HEAD").symlink_metadata().is_ok() && path.join("objects").is_dir()
}

/// Whether the directory says of itself that it is a worktree of this repository; read without git, which
/// would follow wherever it leads.
fn belongs(path: &Path, repository: &Path) -> bool {
    let dot_git = path.join(".git");
    if !dot_git.symlink_metadata().is_ok_and(|meta| meta.is_file()) {
        return false;
    }
    let text = std::fs::read_to_string(&dot_git).unwrap_or_default();
    let Some(named) = text.strip_prefix("gitdir:") else { return false };
    let admin: PathBuf = path.join(named.trim());
    let Some(all) = admin.parent() else { return false };
    // Its own entry may be gone; that is another matter.
    let real = all.canonicalize().unwrap_or_else(|_| all.to_owned());
    let here = repository.canonicalize().unwrap_or_else(|_| repository.to_owned());
    real == here.join("worktrees")
}

/// What the repository says of the worktree at this path; none when it knows none there.
pub(super) async fn entry(repository: &Path, path: &Path) -> Result<Option<Entry>, GitError> {
    let at = git_dir(repository);
    let answer = git::call(repository, &[&at, "worktree", "list", "--porcelain", "-z"]).await?;
    Ok(parse(&answer.output()?, path))
}

/// Entries end with an empty line; lines end with a NUL.
fn parse(list: &str, path: &Path) -> Option<Entry> {
    let entry = list.split("\0\0").find(|entry| {
        let named = entry.split('\0').find_map(|line| line.strip_prefix("worktree "));
        named.is_some_and(|named| Path::new(named) == path)
    })?;
    let value = |name: &str| {
        let line = entry.split('\0').find_map(|line| line.strip_prefix(name))?;
        Some(line.trim_start().to_owned())
    };
    Some(Entry { branch: value("branch "), locked: value("locked") })
}
