//! What was done in a worktree, and what would be lost with it.
//!
//! Responsible for: counting changes and commits through git, one table from that to a state, and the
//! difference to the baseline. Must not: change anything but a copy of an index.

use super::plan::git_dir;
use super::strays;
use super::today::{self, Entry};
use super::unseen::{self, Unseen};
use super::{Note, Worktrees};
use crate::git::{self, GitError};
use segno_model::child::drift::Tree;
use serde::Serialize;
use std::path::Path;

/// Where a worktree stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum State {
    /// As it was made.
    Clean,
    /// Something in it is in no commit.
    Uncommitted,
    /// It has commits that no other branch has; also those that are on its own no more.
    Unmerged,
    /// All of its commits are on other branches, too.
    Merged,
    /// Its directory is gone.
    Missing,
    /// Something else is in its place, or it was changed so that it is not the child's any more.
    Replaced,
    /// Whoever made it died meanwhile.
    Unfinished,
    /// Git cannot tell.
    Unknown,
}

impl State {
    /// Its word.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Clean => "clean",
            Self::Uncommitted => "uncommitted",
            Self::Unmerged => "unmerged",
            Self::Merged => "merged",
            Self::Missing => "missing",
            Self::Replaced => "replaced",
            Self::Unfinished => "unfinished",
            Self::Unknown => "unknown",
        }
    }
}

/// What is known of a worktree's content.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Work {
    /// Where it stands.
    pub state: State,
    /// Files with changes in no commit, untracked ones included.
    pub uncommitted: usize,
    /// Commits since the baseline.
    pub commits: usize,
    /// Those of them that no other branch has.
    pub unmerged: usize,
    /// Where its branch is; none when that is gone.
    pub tip: Option<String>,
    /// Why it cannot be used as it is, for people.
    pub problem: Option<String>,
    /// What else keeps it, a sentence each: what git's status does not show.
    pub unseen: Vec<String>,
    /// Files in it that git ignores.
    pub ignored: usize,
}

/// What the state follows from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Facts {
    tree: Tree,
    unfinished: bool,
    uncommitted: bool,
    commits: bool,
    unmerged: bool,
    strays: bool,
}

/// A row: what it is about, whether it applies, and the state.
type Row = (&'static str, fn(&Facts) -> bool, State);

fn is_usable(facts: &Facts) -> bool {
    facts.tree == Tree::Same && !facts.unfinished
}

fn holds_nothing(facts: &Facts) -> bool {
    is_usable(facts) && !facts.uncommitted && !facts.unmerged && !facts.strays
}

/// Every input matches exactly one row.
const TABLE: &[Row] = &[
    ("its directory is gone", |f| f.tree == Tree::Gone, State::Missing),
    ("it is not what it was", |f| !matches!(f.tree, Tree::Gone | Tree::Same), State::Replaced),
    ("it was never finished", |f| f.tree == Tree::Same && f.unfinished, State::Unfinished),
    ("changes", |f| is_usable(f) && f.uncommitted, State::Uncommitted),
    ("commits of its own", |f| is_usable(f) && !f.uncommitted && f.unmerged, State::Unmerged),
    (
        "commits that are on no branch at all",
        |f| is_usable(f) && !f.uncommitted && !f.unmerged && f.strays,
        State::Unmerged,
    ),
    ("commits that others have", |f| holds_nothing(f) && f.commits, State::Merged),
    ("nothing", |f| holds_nothing(f) && !f.commits, State::Clean),
];

impl Worktrees {
    /// What was done in a worktree.
    pub async fn work(&self, note: &Note) -> Work {
        match self.look(note).await {
            Ok(work) => work,
            Err(error) => {
                let problem = Some(error.to_string());
                let (uncommitted, commits, unmerged, tip) = (0, 0, 0, None);
                let (state, unseen, ignored) = (State::Unknown, Vec::new(), 0);
                Work { state, uncommitted, commits, unmerged, tip, problem, unseen, ignored }
            }
        }
    }

    async fn look(&self, note: &Note) -> Result<Work, GitError> {
        let worktree = &note.worktree;
        let (repository, path) = (Path::new(&worktree.repo_root), Path::new(&worktree.path));
        let tree = self.tree(&note.child, worktree).await;
        let nothing = tree == Tree::RepoGone && path.symlink_metadata().is_err();
        let state_of = if nothing { Tree::Gone } else { tree };
        let (mut entry, mut tip) = (None, None);
        let (mut commits, mut unmerged, mut uncommitted) = (0, 0, 0);
        if tree != Tree::RepoGone {
            entry = today::entry(repository, path).await?;
            tip = self::tip(repository, &worktree.branch).await?;
        }
        if tip.is_some() {
            let baseline = format!("^{}", worktree.baseline);
            commits = count(repository, &worktree.branch, &[&baseline]).await.unwrap_or(0);
            unmerged = own_commits(repository, &worktree.branch, &worktree.baseline).await?;
        }
        let unfinished = is_unfinished(entry.as_ref()) && commits == 0;
        let (mut unseen, mut strays) = (Unseen::default(), None);
        if tree != Tree::RepoGone && !unfinished {
            strays = strays::look(repository, worktree).await?;
        }
        if tree == Tree::Same {
            uncommitted = self::uncommitted(path).await?;
            if !unfinished {
                unseen = unseen::look(path, &worktree.branch).await?;
            }
        }
        if !unfinished {
            unseen.reasons.extend(unseen::lock(entry.as_ref()));
        }
        let has_strays = strays.is_some();
        unseen.reasons.extend(strays);
        let facts = Facts {
            tree: state_of,
            unfinished,
            uncommitted: uncommitted > 0,
            commits: commits > 0,
            unmerged: unmerged > 0,
            strays: has_strays,
        };
        let row = TABLE.iter().find(|(_, applies, _)| applies(&facts));
        let state = row.map_or(State::Unknown, |(_, _, state)| *state);
        let problem = problem(tree).map(str::to_owned);
        let Unseen { reasons: unseen, ignored } = unseen;
        Ok(Work { state, uncommitted, commits, unmerged, tip, problem, unseen, ignored })
    }

    /// The difference of a worktree to its baseline, with what is in no commit and with new files; `options` go
    /// to `git diff`.
    ///
    /// # Errors
    /// When git cannot tell.
    pub async fn diff(&self, note: &Note, options: &[&str]) -> Result<String, GitError> {
        let path = Path::new(&note.worktree.path);
        // New files show in a copy of the index, which holds nothing but that they are meant.
        let copies = tempfile::tempdir().map_err(GitError::Io)?;
        let copy = copies.path().join("index");
        let index = git::line(path, &["rev-parse", "--git-path", "index"]).await?;
        match copy_as_old(&path.join(index), &copy) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(GitError::Io(error));
            }
            _ => {}
        }
        let variables = [("GIT_INDEX_FILE", copy.as_path())];
        let add = ["add", "--intent-to-add", "--all", "."];
        git::call_with(path, &add, &variables).await?.output()?;
        let diff = ["diff", "--no-ext-diff", "--no-textconv", "--no-color"];
        let diff = [&diff[..], options, &[&note.worktree.baseline, "--"]].concat();
        git::call_with(path, &diff, &variables).await?.output()
    }
}

/// Copies a file with the time of its last change. By that of an index git knows which files may have changed right
/// behind it, without that their own times tell, and looks into those.
fn copy_as_old(from: &Path, to: &Path) -> std::io::Result<()> {
    let changed = std::fs::metadata(from)?.modified()?;
    std::fs::copy(from, to)?;
    std::fs::File::options().write(true).open(to)?.set_modified(changed)
}

/// Git locks what it is about to make.
fn is_unfinished(entry: Option<&Entry>) -> bool {
    entry.is_some_and(|entry| entry.locked.as_deref() == Some("initializing"))
}

fn problem(tree: Tree) -> Option<&'static str> {
    match tree {
        Tree::None | Tree::Same => None,
        Tree::RepoGone => Some("its repository is gone"),
        Tree::Gone => Some("its directory is gone"),
        Tree::Replaced => Some("something else is in its place"),
        Tree::OtherBranch => Some("another branch is checked out, or none"),
        Tree::Unregistered => Some("its repository does not know it"),
        Tree::OtherHistory => Some("its branch does not come from its baseline"),
    }
}

/// How many files of a working tree have changes that are in no commit.
pub(super) async fn uncommitted(path: &Path) -> Result<usize, GitError> {
    let status = ["status", "--porcelain", "-z", "--no-renames", "--untracked-files=all"];
    // A submodule's work counts, whatever the configuration says.
    let status = [&status[..], &["--ignore-submodules=none"]].concat();
    let out = git::call(path, &status).await?.output()?;
    Ok(out.split('\0').filter(|entry| !entry.is_empty()).count())
}

/// Where a branch is; none when there is none of that name.
pub(super) async fn tip(repository: &Path, branch: &str) -> Result<Option<String>, GitError> {
    let (at, name) = (git_dir(repository), format!("refs/heads/{branch}"));
    let answer = git::call(repository, &[&at, "rev-parse", "--verify", "--quiet", &name]).await?;
    Ok(answer.is_content().then(|| answer.out.trim().to_owned()))
}

/// Commits of a branch that would be on none without it: other subagents' branches do not count.
async fn own_commits(repository: &Path, branch: &str, baseline: &str) -> Result<usize, GitError> {
    let baseline = format!("^{baseline}");
    let others = ["--not", "--exclude=segno/*", "--branches", "--remotes", "--tags", "HEAD"];
    count(repository, branch, &[&[baseline.as_str()], &others[..]].concat()).await
}

async fn count(repository: &Path, branch: &str, rest: &[&str]) -> Result<usize, GitError> {
    let (at, name) = (git_dir(repository), format!("refs/heads/{branch}"));
    let list = [&[at.as_str(), "rev-list", "--count", &name], rest].concat();
    let out = git::call(repository, &list).await?.output()?;
    out.trim().parse().map_err(|_| GitError::Said(out))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_input_matches_one_row() {
        let trees = [
            Tree::None,
            Tree::Same,
            Tree::RepoGone,
            Tree::Gone,
            Tree::Replaced,
            Tree::OtherBranch,
            Tree::Unregistered,
            Tree::OtherHistory,
        ];
        for tree in trees {
            for bits in 0..32_u8 {
                let bit = |n: u8| bits & (1 << n) != 0;
                let (unfinished, uncommitted, commits) = (bit(0), bit(1), bit(2));
                let (unmerged, strays) = (bit(3), bit(4));
                let facts = Facts { tree, unfinished, uncommitted, commits, unmerged, strays };
                let hits = TABLE.iter().filter(|(_, applies, _)| applies(&facts)).count();
                assert_eq!(hits, 1, "{facts:?}");
            }
        }
    }
}
