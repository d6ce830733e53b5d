//! Bringing a worktree's commits into a checkout.
//!
//! Responsible for: every reason not to, before anything is touched, and that a merge that fails leaves all as
//! it was. Must not: merge what is in no commit, or settle a conflict.

use super::in_the_way;
use super::plan::{git_dir, refusal};
use super::{Note, Refusal, State, Worktrees};
use crate::git::{self, GitError};
use std::path::{Path, PathBuf};

/// A merge that was done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Merged {
    /// The branch that has the commits now.
    pub into: String,
    /// The checkout.
    pub checkout: PathBuf,
    /// How many commits it did not have.
    pub commits: usize,
    /// Where it is now.
    pub commit: String,
}

/// Why nothing was merged.
pub type NotMerged = Refusal;

/// Files that are there while git is in the middle of something.
pub(super) const UNDER_WAY: &[&str] =
    &["MERGE_HEAD", "CHERRY_PICK_HEAD", "REVERT_HEAD", "rebase-merge", "rebase-apply"];

/// Files that are named in a refusal.
const SHOWN: usize = 5;

/// A checkout that can be merged into.
struct Checkout {
    top: PathBuf,
    branch: String,
    head: String,
}

impl Worktrees {
    /// Merges a worktree's branch into the checkout that `cwd` is in, or into the repository's main one when
    /// `cwd` is in none of it.
    ///
    /// # Errors
    /// Why not; everything is as it was.
    pub async fn merge(&self, note: &Note, cwd: &Path) -> Result<Merged, NotMerged> {
        self.is_mergeable(note).await?;
        let top = checkout_of(note, cwd).await.map_err(|e| failed(&e))?;
        let top = top.ok_or_else(|| {
            let why = "the repository has no checkout, and you are in none";
            refusal("merge-no-checkout", why)
        })?;
        let checkout = ready(top).await?;
        let branch = format!("refs/heads/{}", note.worktree.branch);
        let range = format!("HEAD..{branch}");
        let new = git::line(&checkout.top, &["rev-list", "--count", &range]).await;
        let commits: usize = new.map_err(|e| failed(&e))?.parse().unwrap_or(0);
        if commits == 0 {
            let why = format!("{} has all of its commits already", checkout.branch);
            return Err(refusal("merge-nothing", why));
        }
        conflicts(&checkout, &branch).await?;
        let lost = in_the_way::look(&checkout.top, &branch).await.map_err(|e| failed(&e))?;
        if !lost.is_empty() {
            let shown = checkout.top.display();
            let why = format!(
                "it would write over files of {shown} that are in no commit: {}",
                some(&lost)
            );
            return Err(refusal("merge-overwrites", why));
        }
        let merge = ["merge", "--no-edit", "--commit", "--no-squash", &branch];
        let merged = git::call_with_hooks(&checkout.top, &merge).await;
        let why = match merged {
            Ok(answer) if answer.is_content() => {
                let commit = git::line(&checkout.top, &["rev-parse", "HEAD"]).await;
                let commit = commit.map_err(|e| failed(&e))?;
                let Checkout { top, branch: into, .. } = checkout;
                return Ok(Merged { into, checkout: top, commits, commit });
            }
            Ok(answer) => format!("git said: {}", answer.complaint()),
            Err(error) => error.to_string(),
        };
        Err(undo(&checkout, &why).await)
    }

    async fn is_mergeable(&self, note: &Note) -> Result<(), NotMerged> {
        let work = self.work(note).await;
        let refuse = |code, why: String| Err(refusal(code, why));
        match work.state {
            State::Uncommitted => refuse(
                "merge-uncommitted",
                format!("{} of its files have changes that are in no commit", work.uncommitted),
            ),
            State::Missing if work.tip.is_some() => Ok(()),
            State::Missing | State::Replaced | State::Unfinished | State::Unknown => {
                let why = work.problem.unwrap_or_else(|| "it was never finished".to_owned());
                refuse("merge-unusable", why)
            }
            State::Clean => refuse("merge-nothing", "it has no commits of its own".to_owned()),
            State::Unmerged if work.commits == 0 => {
                refuse("merge-nothing", format!("its branch has none: {}", work.unseen.join("; ")))
            }
            State::Unmerged | State::Merged => Ok(()),
        }
    }
}

/// The first few of them, and how many more there are.
fn some(paths: &[String]) -> String {
    let shown = paths.len().min(SHOWN);
    let more = match paths.len() - shown {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    paths[..shown].join(", ") + &more
}

fn failed(error: &GitError) -> Refusal {
    refusal("merge-failed", error.to_string())
}

/// The top of the checkout that is meant.
async fn checkout_of(note: &Note, cwd: &Path) -> Result<Option<PathBuf>, GitError> {
    let repository = Path::new(&note.worktree.repo_root);
    let here = ["rev-parse", "--show-toplevel", "--git-common-dir"];
    let here = git::call(cwd, &here).await?;
    if here.is_content()
        && let Some((top, common)) = here.out.trim_end_matches('\n').split_once('\n')
        && cwd.join(common).canonicalize().ok() == repository.canonicalize().ok()
        && Path::new(top) != Path::new(&note.worktree.path)
    {
        return Ok(Some(PathBuf::from(top)));
    }
    let at = git_dir(repository);
    let list = ["worktree", "list", "--porcelain", "-z"];
    let list = git::call(repository, &[&[at.as_str()], &list[..]].concat()).await?.output()?;
    // The main one comes first.
    let first = list.split("\0\0").next().unwrap_or_default();
    let bare = first.split('\0').any(|line| line == "bare");
    let path = first.split('\0').find_map(|line| line.strip_prefix("worktree "));
    Ok(path.filter(|_| !bare).map(PathBuf::from).filter(|path| path.is_dir()))
}

/// Whether a merge into it can begin.
async fn ready(top: PathBuf) -> Result<Checkout, NotMerged> {
    let shown = top.display();
    for name in UNDER_WAY {
        let path = git::line(&top, &["rev-parse", "--git-path", name]).await;
        if top.join(path.map_err(|e| failed(&e))?).exists() {
            let why = format!("{shown} is in the middle of a merge or a rebase ({name})");
            return Err(refusal("merge-under-way", why));
        }
    }
    let status = ["status", "--porcelain", "--untracked-files=no"];
    let dirty = git::line(&top, &status).await.map_err(|e| failed(&e))?;
    if !dirty.is_empty() {
        let why = format!(
            "{shown} has changes that are in no commit, in {} of its files",
            dirty.lines().count()
        );
        return Err(refusal("merge-dirty", why));
    }
    let branch = git::line(&top, &["symbolic-ref", "--quiet", "--short", "HEAD"]).await;
    let branch = branch.map_err(|_| {
        let why = format!("{shown} is on no branch, so nothing would hold what is merged there");
        refusal("merge-detached", why)
    })?;
    let head = git::line(&top, &["rev-parse", "--verify", "HEAD"]).await.map_err(|e| failed(&e))?;
    Ok(Checkout { top, branch, head })
}

/// Tries the merge without touching the checkout, where this git can.
async fn conflicts(checkout: &Checkout, branch: &str) -> Result<(), NotMerged> {
    let tried = ["merge-tree", "--write-tree", "--name-only", "--no-messages", "HEAD", branch];
    let tried = git::call(&checkout.top, &tried).await.map_err(|e| failed(&e))?;
    if tried.code != Some(1) {
        return Ok(());
    }
    let files: Vec<&str> = tried.out.lines().skip(1).filter(|line| !line.is_empty()).collect();
    let why = format!("it conflicts with {} in {}", checkout.branch, files.join(", "));
    Err(refusal("merge-conflicts", why))
}

/// Gives up a merge that failed on the way.
async fn undo(checkout: &Checkout, why: &str) -> Refusal {
    // There is nothing to give up where it did not begin.
    let _ = git::call_with_hooks(&checkout.top, &["merge", "--abort"]).await;
    let head = git::line(&checkout.top, &["rev-parse", "--verify", "HEAD"]).await;
    let status = ["status", "--porcelain", "--untracked-files=no"];
    let status = git::line(&checkout.top, &status).await;
    let as_it_was =
        head.is_ok_and(|head| head == checkout.head) && status.is_ok_and(|s| s.is_empty());
    let left = match as_it_was {
        true => "everything is as it was".to_owned(),
        false => format!("look at {} with `git status`", checkout.top.display()),
    };
    refusal("merge-failed", format!("{why}; {left}"))
}
