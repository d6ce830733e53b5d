//! Which project this is, and where git stands in it.
//!
//! Responsible for: the facts of `session` and `environment` records, through the git program. Must not:
//! change anything, wait long, or fail: without git, or when git does not answer, facts are absent.

mod glance;

use crate::git;
use glance::Glance;
use segno_model::record::{GitFacts, ProjectFacts};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

/// How long one question to git may take.
const PATIENCE: Duration = Duration::from_secs(3);

/// What is known of a directory.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Project {
    /// The facts by which a session's project is found again.
    pub facts: ProjectFacts,
    /// Git's state; none outside of a repository.
    pub git: Option<GitFacts>,
    /// The top of the working tree that the directory is in.
    pub root: Option<PathBuf>,
}

impl Project {
    /// Looks at a directory.
    pub async fn look(cwd: &Path) -> Self {
        Self::look_with(cwd, Path::new("git")).await
    }

    /// Looks at a directory with a certain git program.
    pub async fn look_with(cwd: &Path, git: &Path) -> Self {
        let git = Git { program: git, cwd };
        if Glance::at(cwd).dot_git.is_none() {
            return Self { facts: git.facts_without(), ..Self::default() };
        }
        let (facts, root, state) = tokio::join!(git.facts(), git.top(), git.state());
        let inside = facts.git_common_dir.is_some();
        Self { facts, git: inside.then_some(state), root }
    }

    /// Only the facts: what lists ask for, who do not need to know what was changed in a working tree.
    pub async fn facts_of(cwd: &Path) -> ProjectFacts {
        let git = Git { program: Path::new("git"), cwd };
        match Glance::at(cwd).dot_git {
            Some(_) => git.facts().await,
            None => git.facts_without(),
        }
    }

    /// A mark under which these facts of a directory can be remembered: they hold as long as the mark is
    /// the same. It is made without git, whose answer takes as long as the history is. None while git has
    /// no answer to remember, as before the first commit.
    #[must_use]
    pub fn mark(cwd: &Path, facts: &ProjectFacts) -> Option<String> {
        let glance = Glance::at(cwd);
        let known = facts.root_commit.is_some() || glance.dot_git.is_none();
        (known && glance.real.is_some()).then(|| glance.mark())
    }
}

/// The git program, asked about one directory.
struct Git<'a> {
    program: &'a Path,
    cwd: &'a Path,
}

impl Git<'_> {
    /// Standard output, and whether git was content. None: no git, no answer in time.
    async fn ask(&self, arguments: &[&str]) -> Option<(String, bool)> {
        let mut command = git::command(self.program, self.cwd);
        command.args(arguments).stderr(Stdio::null());
        let output = tokio::time::timeout(PATIENCE, command.output()).await.ok()?.ok()?;
        Some((String::from_utf8_lossy(&output.stdout).into_owned(), output.status.success()))
    }

    /// An answer that git was content with.
    async fn line(&self, arguments: &[&str]) -> Option<String> {
        let (text, ok) = self.ask(arguments).await?;
        let line = text.trim_end_matches('\n');
        (ok && !line.is_empty()).then(|| line.to_owned())
    }

    /// The facts by which a session's project is found again.
    async fn facts(&self) -> ProjectFacts {
        let (repository, roots) = tokio::join!(
            self.line(&["rev-parse", "--is-shallow-repository", "--git-common-dir"]),
            self.line(&["rev-list", "--max-parents=0", "HEAD"]),
        );
        let repository = repository.as_deref().and_then(|answer| answer.split_once('\n'));
        // The oldest of several first commits. A shallow clone does not know it.
        let is_whole = repository.is_some_and(|(shallow, _)| shallow == "false");
        let root = roots.filter(|_| is_whole).and_then(|r| r.lines().last().map(str::to_owned));
        ProjectFacts {
            git_common_dir: repository.map(|(_, dir)| text(&self.real(dir))),
            root_commit: root,
            ..self.facts_without()
        }
    }

    /// The facts that need no git.
    fn facts_without(&self) -> ProjectFacts {
        let real_path = self.cwd.canonicalize().ok().map(|path| text(&path));
        ProjectFacts { cwd: text(self.cwd), real_path, ..ProjectFacts::default() }
    }

    /// The top of the working tree.
    async fn top(&self) -> Option<PathBuf> {
        let line = self.line(&["rev-parse", "--show-toplevel"]).await?;
        Some(self.real(&line))
    }

    fn real(&self, answer: &str) -> PathBuf {
        let path = self.cwd.join(answer);
        path.canonicalize().unwrap_or(path)
    }

    async fn state(&self) -> GitFacts {
        let (branch, commit, status) = tokio::join!(
            self.line(&["symbolic-ref", "--quiet", "--short", "HEAD"]),
            self.line(&["rev-parse", "--verify", "--quiet", "HEAD"]),
            self.ask(&["status", "--porcelain", "--untracked-files=no"]),
        );
        // Where git does not say, nothing may be taken for clean.
        let dirty = status.is_none_or(|(text, ok)| !ok || !text.is_empty());
        GitFacts { branch, commit, dirty }
    }
}

fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}
