//! Opening a session in the agent that owns it.
//!
//! Responsible for: each agent's own command for that, and running it in the session's directory. Must
//! not: change the session.

use super::Other;
use crate::args::quoted;
use crate::error::{CliError, ExitCode};
use segno_store::foreign::Agent;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A command and where it is to be run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Launch {
    /// The program and its arguments.
    pub words: Vec<String>,
    /// The session's directory; none when it is not known.
    pub cwd: Option<PathBuf>,
}

impl Launch {
    /// The command that opens a session in its own agent.
    ///
    /// # Errors
    /// For agents that have none, and for a subagent's session.
    pub fn of(session: &Other) -> Result<Self, CliError> {
        let row = &session.row;
        if session.is_copy() && !session.is_gone() {
            return Err(CliError::failed(format!(
                "Whether {} still has this session could not be seen.",
                row.agent
            ))
            .because("its own file could not be looked at; a copy of it was kept")
            .next(format!(
                "`segno list --all` says why; `segno resume {} --here` goes on in Segno.",
                session.word()
            )));
        }
        if session.is_gone() {
            let word = session.word();
            return Err(CliError::new(
                ExitCode::NotFound,
                format!("{} does not have this session any more.", row.agent),
            )
            .because("its own file is gone; a copy of it was kept")
            .next(match row.key {
                // A database is never written.
                Some(_) => format!(
                    "`segno resume {word} --here` goes on in Segno, `segno resume {word} --in AGENT` in another agent."
                ),
                None => format!(
                    "`segno keep --restore {word}` puts the file back; `segno resume {word} --here` goes on in Segno."
                ),
            }));
        }
        let words = words(row.agent, &row.id, &row.path.to_string_lossy()).ok_or_else(|| {
            CliError::failed(format!("{} has no command that opens a session.", row.agent))
                .next(format!("Go on with it here: `segno resume {} --here`.", session.word()))
        })?;
        if words.contains(&row.id) && !is_plain(&row.id) {
            return Err(CliError::failed(format!(
                "The session's id is none that {} gives, so it is not handed to it.",
                row.agent
            ))
            .because(format!("it is written in {}: {:?}", row.path.display(), row.id))
            .next(format!(
                "Go on with it here: `segno resume {} --here`.",
                quoted(&row.path.to_string_lossy())
            )));
        }
        if let Some(parent) = &row.parent {
            return Err(CliError::failed(
                "This is a subagent's session; its agent opens only whole ones.",
            )
            .because(format!("it belongs to {parent}"))
            .next(format!(
                "`segno resume {}:{parent}` opens that; `segno show {}` reads this one.",
                row.agent.id(),
                session.word()
            )));
        }
        let cwd = Some(PathBuf::from(&row.project.cwd)).filter(|cwd| !cwd.as_os_str().is_empty());
        Ok(Self { words, cwd })
    }

    /// As one line for a shell. Agents look for a session by the directory in which they are started: one that is
    /// gone is made anew, empty.
    #[must_use]
    pub fn line(&self) -> String {
        let words: Vec<String> = self.words.iter().map(|word| quoted(word)).collect();
        let command = words.join(" ");
        match &self.cwd {
            Some(cwd) => {
                let dir = quoted(&cwd.display().to_string());
                let made = if cwd.is_dir() { String::new() } else { format!("mkdir -p {dir} && ") };
                format!("{made}cd {dir} && {command}")
            }
            None => command,
        }
    }

    /// Runs another command of the agent's in the same place, to its end. `by_hand` does all that is to be done.
    ///
    /// # Errors
    /// When it is not there, or failed.
    pub fn run_before(&self, words: &[String], by_hand: &str) -> Result<(), CliError> {
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]);
        if let Some(cwd) = &self.cwd {
            command.current_dir(cwd);
        }
        let failed = |why: String| {
            CliError::failed(format!("{} did not take the session.", words[0]))
                .because(why)
                .next(format!("By hand: {by_hand}"))
        };
        let status = command.status().map_err(|e| match is_missing(&e, self.cwd.as_deref()) {
            true => missing(&words[0], by_hand),
            false => failed(e.to_string()),
        })?;
        if status.success() { Ok(()) } else { Err(failed(format!("it ended with {status}"))) }
    }

    /// Becomes the agent. `session` is how commands name the session.
    ///
    /// # Errors
    /// When the directory is gone, or the program is not there.
    pub fn run(&self, session: &str) -> Result<ExitCode, CliError> {
        if let Some(cwd) = self.cwd.as_deref().filter(|cwd| !cwd.is_dir()) {
            return Err(CliError::new(
                ExitCode::NotFound,
                format!("{} is not there.", cwd.display()),
            )
            .because("the session ran in that directory; it was moved or removed")
            .next(format!(
                "Go on here: `segno resume {session} --here`. Or there, in an empty directory: {}",
                self.line()
            )));
        }
        let mut command = Command::new(&self.words[0]);
        command.args(&self.words[1..]);
        if let Some(cwd) = &self.cwd {
            command.current_dir(cwd);
        }
        let error = command.exec();
        if is_missing(&error, self.cwd.as_deref()) {
            return Err(missing(&self.words[0], &self.line()));
        }
        Err(CliError::failed(format!("{} could not be started.", self.words[0]))
            .because(error)
            .next(format!("By hand: {}", self.line())))
    }
}

/// Whether it is the program that is not there, and not the directory.
fn is_missing(error: &io::Error, cwd: Option<&Path>) -> bool {
    error.kind() == io::ErrorKind::NotFound && cwd.is_none_or(Path::is_dir)
}

fn missing(program: &str, line: &str) -> CliError {
    CliError::failed(format!("`{program}` is not on the PATH."))
        .because("the session itself is there")
        .next(format!("Install it, or put its directory on the PATH; then: {line}"))
}

/// Whether an id can be nothing but an id to the program that is given it. A file says its id itself:
/// one that looks like an option, or like a path, would be taken for that.
fn is_plain(id: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_.:".contains(c);
    id.starts_with(|c: char| c.is_ascii_alphanumeric()) && id.chars().all(plain)
}

/// Each agent's own command.
fn words(agent: Agent, id: &str, path: &str) -> Option<Vec<String>> {
    let words: &[&str] = match agent {
        Agent::Claude => &["claude", "--resume", id],
        Agent::Codex => &["codex", "resume", id],
        Agent::Pi => &["pi", "--session", path],
        Agent::OpenCode => &["opencode", "--session", id],
        Agent::Gemini => &["gemini", "--resume", id],
        Agent::Goose => &["goose", "session", "--resume", "--session-id", id],
        Agent::Qwen => &["qwen", "--resume", id],
        Agent::Kimi => &["kimi", "--session", id],
        Agent::Ink | Agent::Evo | Agent::Cline | Agent::Crush => return None,
    };
    Some(words.iter().map(|&word| word.to_owned()).collect())
}
