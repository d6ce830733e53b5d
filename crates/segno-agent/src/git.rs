//! The git program.
//!
//! Responsible for: calling it so that neither the caller's environment nor a repository's content makes it
//! look elsewhere or run something else than what was asked, and what comes of a call. Must not: know what
//! it is asked for.

use std::io;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;
use tokio::process::Command;

/// How long a call may take that writes a whole working tree.
const PATIENCE: Duration = Duration::from_mins(10);

/// Variables that would make git look at another repository, as when we are started from a hook.
const MISLEADING: &[&str] = &[
    "GIT_DIR",
    "GIT_WORK_TREE",
    "GIT_INDEX_FILE",
    "GIT_COMMON_DIR",
    "GIT_NAMESPACE",
    "GIT_PREFIX",
    "GIT_OBJECT_DIRECTORY",
    "GIT_CEILING_DIRECTORIES",
];

/// A hook is a program of the repository's or of the user's, and nobody asked for one.
const NO_HOOKS: &[&str] = &["-c", "core.hooksPath=/dev/null"];

/// A call of `program` in a directory, without its arguments; no hook runs.
pub(crate) fn command(program: &Path, cwd: &Path) -> Command {
    start(program, cwd, NO_HOOKS)
}

fn start(program: &Path, cwd: &Path, hooks: &[&str]) -> Command {
    let mut command = Command::new(program);
    // A repository's own configuration must not make a question run a program, and a directory must
    // not become a repository by files that were written into it.
    command
        .args(["-c", "core.fsmonitor=false", "-c", "safe.bareRepository=explicit"])
        .args(hooks)
        .arg("--no-optional-locks")
        .current_dir(cwd)
        .stdin(Stdio::null())
        .envs([("LC_ALL", "C"), ("GIT_TERMINAL_PROMPT", "0")])
        .kill_on_drop(true);
    for name in MISLEADING {
        command.env_remove(name);
    }
    command
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum GitError {
    /// There is no such program.
    #[error("the git program is not there")]
    Missing,
    /// It did not end in time.
    #[error("git did not answer in time")]
    Slow,
    /// It could not be started.
    #[error("git could not be started: {0}")]
    Io(#[source] io::Error),
    /// It ended without success.
    #[error("git said: {0}")]
    Said(String),
}

/// What a call came to.
#[derive(Debug)]
pub(crate) struct Answer {
    /// Its exit code.
    pub(crate) code: Option<i32>,
    /// Standard output.
    pub(crate) out: String,
    err: String,
}

impl Answer {
    pub(crate) fn is_content(&self) -> bool {
        self.code == Some(0)
    }

    /// What git was not content with.
    pub(crate) fn complaint(&self) -> String {
        let said = if self.err.trim().is_empty() { &self.out } else { &self.err };
        let lines = said.lines().map(str::trim).filter(|line| !line.is_empty());
        let text = lines.collect::<Vec<_>>().join("; ");
        let end = text.floor_char_boundary(600);
        text.get(..end).unwrap_or_default().to_owned()
    }

    /// Its output, when git was content.
    pub(crate) fn output(self) -> Result<String, GitError> {
        if self.is_content() { Ok(self.out) } else { Err(GitError::Said(self.complaint())) }
    }
}

/// Calls git in a directory.
pub(crate) async fn call(cwd: &Path, arguments: &[&str]) -> Result<Answer, GitError> {
    call_with(cwd, arguments, &[]).await
}

/// Calls git in a directory with the hooks that the user set up: for what a person asked git to do.
pub(crate) async fn call_with_hooks(cwd: &Path, arguments: &[&str]) -> Result<Answer, GitError> {
    let mut command = start(Path::new("git"), cwd, &[]);
    command.args(arguments);
    answer(command, cwd).await
}

/// Calls git in a directory, with variables.
pub(crate) async fn call_with(
    cwd: &Path,
    arguments: &[&str],
    variables: &[(&str, &Path)],
) -> Result<Answer, GitError> {
    let mut command = command(Path::new("git"), cwd);
    command.args(arguments).envs(variables.iter().copied());
    answer(command, cwd).await
}

async fn answer(mut command: Command, cwd: &Path) -> Result<Answer, GitError> {
    let output = tokio::time::timeout(PATIENCE, command.output()).await;
    let output = output.map_err(|_| GitError::Slow)?.map_err(|error| match error.kind() {
        io::ErrorKind::NotFound if cwd.is_dir() => GitError::Missing,
        _ => GitError::Io(error),
    })?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Ok(Answer { code: output.status.code(), out: text(&output.stdout), err: text(&output.stderr) })
}

/// One line of output, when git was content.
pub(crate) async fn line(cwd: &Path, arguments: &[&str]) -> Result<String, GitError> {
    let out = call(cwd, arguments).await?.output()?;
    Ok(out.trim_end_matches('\n').to_owned())
}
