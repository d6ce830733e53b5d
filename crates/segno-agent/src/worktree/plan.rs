//! Whether a child can have a worktree, and which.
//!
//! Responsible for: one look at the repository that the parent works in, and a reason with a code where none
//! can be made. Must not: change anything.

use super::Worktrees;
use crate::git::{self, GitError};
use segno_model::SessionId;
use segno_model::record::Worktree;
use std::path::{Path, PathBuf};

/// A worktree that can be made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Planned {
    /// What the launch record holds of it.
    pub worktree: Worktree,
    /// Where the child works in it: as deep as its parent does in its own.
    pub cwd: PathBuf,
    /// Changes of the parent's working tree that are in no commit, and so not in it; none when git does not
    /// say.
    pub left_behind: Option<usize>,
    /// Whether the commit has submodules, whose content is not in it.
    pub submodules: bool,
}

/// Why there is none.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{sentence}")]
pub struct Refusal {
    /// For programs.
    pub code: &'static str,
    /// For people and for the model.
    pub sentence: String,
}

pub(super) fn refusal(code: &'static str, sentence: impl Into<String>) -> Refusal {
    Refusal { code, sentence: sentence.into() }
}

/// What `git rev-parse` found about a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Found {
    NoGit,
    /// What git says of a directory that it takes for no working tree.
    Refused(String),
    /// Within the repository's own directory.
    NoTree,
    Tree,
}

impl Worktrees {
    /// Which worktree a child of one who works in `cwd` gets.
    ///
    /// # Errors
    /// Why it can have none; nothing was changed.
    pub async fn plan(&self, child: &SessionId, cwd: &Path) -> Result<Planned, Refusal> {
        inside(cwd).await?;
        let said = |e: GitError| refusal("worktree-git", e.to_string());
        let facts = ["rev-parse", "--show-toplevel", "--git-common-dir", "--show-prefix"];
        let facts = git::line(cwd, &facts).await.map_err(said)?;
        let odd =
            || refusal("worktree-git", "the repository's path cannot be told from git's answer");
        let (top, rest) = facts.split_once('\n').ok_or_else(odd)?;
        let (common, prefix) = rest.split_once('\n').unwrap_or((rest, ""));
        let prefix = prefix.trim_end_matches('/');
        let real = |path: &Path| path.canonicalize().map_err(|_| odd());
        let (top, repository) = (real(Path::new(top))?, real(&cwd.join(common))?);
        let baseline = git::line(&top, &["rev-parse", "--verify", "HEAD^{commit}"]).await;
        let baseline = baseline.map_err(|_| {
            let why = "the repository has no commit yet that a worktree could be made from";
            refusal("worktree-no-commit", why)
        })?;
        self.is_free(child, &repository).await?;
        position(&top, &baseline, prefix).await?;
        let path = self.path(child);
        let worktree = Worktree {
            repo_root: text(&repository)?,
            path: text(&path)?,
            branch: Self::branch(child),
            baseline,
        };
        let modules = format!("{}:.gitmodules", worktree.baseline);
        let submodules = git::call(&top, &["cat-file", "-e", &modules]).await.map_err(said)?;
        Ok(Planned {
            cwd: if prefix.is_empty() { path } else { path.join(prefix) },
            left_behind: super::work::uncommitted(&top).await.ok(),
            submodules: submodules.is_content(),
            worktree,
        })
    }

    /// Both names follow from the child's id; whatever has them is nobody's to take.
    async fn is_free(&self, child: &SessionId, repository: &Path) -> Result<(), Refusal> {
        let (path, branch) = (self.path(child), Self::branch(child));
        let taken = |what: String| {
            Err(refusal("worktree-exists", format!("{what} is there already; it is left alone")))
        };
        if path.symlink_metadata().is_ok() {
            return taken(path.display().to_string());
        }
        let name = format!("refs/heads/{branch}");
        let (at, there) = (git_dir(repository), ["rev-parse", "--verify", "--quiet", &name]);
        let there = git::call(repository, &[&[at.as_str()], &there[..]].concat()).await;
        match there.map_err(|e| refusal("worktree-git", e.to_string()))?.is_content() {
            true => taken(format!("the branch {branch}")),
            false => Ok(()),
        }
    }
}

/// The option by which git takes a repository by its directory, wherever it is called.
pub(super) fn git_dir(repository: &Path) -> String {
    format!("--git-dir={}", repository.display())
}

fn text(path: &Path) -> Result<String, Refusal> {
    let why = || refusal("worktree-path", format!("{} is no text", path.display()));
    path.to_str().map(str::to_owned).ok_or_else(why)
}

/// Whether the directory lies in a working tree.
async fn inside(cwd: &Path) -> Result<(), Refusal> {
    let found = match git::call(cwd, &["rev-parse", "--is-inside-work-tree"]).await {
        Err(GitError::Missing) => Found::NoGit,
        Err(error) => Found::Refused(error.to_string()),
        Ok(answer) if !answer.is_content() => Found::Refused(answer.complaint()),
        Ok(answer) if answer.out.trim() == "true" => Found::Tree,
        Ok(_) => Found::NoTree,
    };
    let bare = "this is a repository without a working tree, and no place in one";
    match found {
        Found::Tree => Ok(()),
        Found::NoGit => Err(refusal("worktree-no-git", "the git program is not there")),
        Found::NoTree => Err(refusal("worktree-bare", bare)),
        Found::Refused(said) if said.contains("bare repository") => {
            Err(refusal("worktree-bare", bare))
        }
        Found::Refused(said) if said.contains("not a git repository") => {
            let why = "the working directory is in no git repository";
            Err(refusal("worktree-no-repository", why))
        }
        Found::Refused(said) => Err(refusal("worktree-git", format!("git said: {said}"))),
    }
}

/// Whether the parent's position can be kept: a directory of the commit, or one that can be made.
async fn position(top: &Path, baseline: &str, prefix: &str) -> Result<(), Refusal> {
    if prefix.is_empty() {
        return Ok(());
    }
    let name = format!("{baseline}:{prefix}");
    let kind = git::call(top, &["cat-file", "-t", &name]).await;
    let kind = kind.map_err(|e| refusal("worktree-git", e.to_string()))?;
    match (kind.is_content(), kind.out.trim()) {
        (false, _) | (true, "tree") => Ok(()),
        (true, other) => {
            let why = format!("in the last commit {prefix} is no directory but a {other}");
            Err(refusal("worktree-no-directory", why))
        }
    }
}
