//! `bash`: a shell command in a process group of its own.
//!
//! Responsible for: its arguments and surroundings, the words for its end, and running it as a child of
//! this process: starting it, streaming and collecting its output, its exit, and ending its whole group on
//! a stop or a timeout. That is for those who keep no files; nobody can tell after a crash what became of
//! such a command, so its class is `opaque`. Others have it supervised ([`super::supervised`]). Must not:
//! decide whether it may run.

use super::cut::{Collected, Utf8Stream};
use super::error::{ToolError, stop_text};
use super::workspace::Workspace;
use rustix::io::Errno;
use rustix::process::{Pid, Signal, kill_process, kill_process_group, test_kill_process_group};
use segno_model::record::Outcome;
use segno_runtime::{Progress, StopKind, ToolOutput, ToolRun};
use serde::Deserialize;
use std::os::fd::OwnedFd;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;
use tokio::net::unix::pipe;
use tokio::process::{Child, Command};

/// How long a command may run unless told otherwise, in seconds.
pub(crate) const DEFAULT_TIMEOUT: f64 = 120.0;
/// How long a command may run at most, in seconds.
pub(crate) const MAX_TIMEOUT: f64 = 600.0;
/// How long a command in the background may run unless told otherwise, and at most, in seconds.
pub(crate) const BACKGROUND_TIMEOUT: f64 = 3600.0;
pub(crate) const MAX_BACKGROUND_TIMEOUT: f64 = 86_400.0;
/// How long a group has between SIGTERM and SIGKILL.
const GRACE: Duration = Duration::from_millis(1500);
/// How often an ending group is looked at.
const POLL: Duration = Duration::from_millis(20);

/// The arguments.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Args {
    pub(crate) command: String,
    pub(crate) timeout: Option<f64>,
    #[serde(default)]
    pub(crate) background: bool,
}

impl Args {
    /// Checks what the types cannot.
    pub(crate) fn check(&self) -> Result<(), ToolError> {
        if self.command.trim().is_empty() || self.command.contains('\0') {
            return Err(ToolError::Arguments("`command` must not be empty".to_owned()));
        }
        let max = if self.background { MAX_BACKGROUND_TIMEOUT } else { MAX_TIMEOUT };
        match self.timeout {
            Some(t) if !(t > 0.0 && t <= max) => Err(ToolError::Arguments(format!(
                "`timeout` must be more than 0 and at most {max} seconds"
            ))),
            _ => Ok(()),
        }
    }

    /// How long it may run.
    pub(crate) fn timeout(&self) -> Duration {
        let usual = if self.background { BACKGROUND_TIMEOUT } else { DEFAULT_TIMEOUT };
        Duration::from_secs_f64(self.timeout.unwrap_or(usual))
    }
}

/// Why a command is over.
pub(crate) enum End {
    /// With this code.
    Exited(i32),
    /// By a signal that nobody here sent.
    Signalled(i32),
    /// It had this long.
    TimedOut(Duration),
    Stopped(StopKind),
}

/// Runs a command to its end, its timeout, or the user's stop.
pub(crate) async fn run(
    workspace: &Workspace,
    hidden_env: &[String],
    args: &Args,
    run: &ToolRun<'_>,
) -> Result<ToolOutput, ToolError> {
    let (mut group, output) = start(workspace, hidden_env, args)
        .map_err(|e| ToolError::Refused(format!("the shell could not be started: {e}")))?;
    let mut sink = Sink { collected: Collected::new(), utf8: Utf8Stream::default(), run };
    let timeout = args.timeout();
    let end = {
        let watched = watch(&mut group.child, &output, &mut sink);
        tokio::select! {
            status = watched => ended(status.map_err(|e| {
                ToolError::Unsure(format!("the command's end could not be seen: {e}"))
            })?),
            kind = run.stop.stopped() => End::Stopped(kind),
            () = tokio::time::sleep(timeout) => End::TimedOut(timeout),
        }
    };
    if matches!(end, End::Exited(_) | End::Signalled(_)) {
        group.disarm();
    } else {
        group.end().await;
    }
    let mut held_open = !drain(&output, &mut sink);
    if held_open {
        // A background process may be about to turn its output elsewhere.
        tokio::time::sleep(POLL).await;
        held_open = !drain(&output, &mut sink);
    }
    Ok(report(sink.collected, &end, held_open))
}

fn ended(status: ExitStatus) -> End {
    match (status.code(), status.signal()) {
        (Some(code), _) => End::Exited(code),
        (None, signal) => End::Signalled(signal.unwrap_or(0)),
    }
}

fn start(
    workspace: &Workspace,
    hidden_env: &[String],
    args: &Args,
) -> std::io::Result<(Group, pipe::Receiver)> {
    let (reader, writer) = std::io::pipe()?;
    let mut command = shell();
    command
        .args(["-c", &args.command])
        .current_dir(workspace.cwd())
        .stdin(Stdio::null())
        .stdout(writer.try_clone()?)
        .stderr(writer)
        .envs(environment());
    for name in hidden_env {
        command.env_remove(name);
    }
    let child = command.spawn()?;
    let output = pipe::Receiver::from_owned_fd(OwnedFd::from(reader))?;
    let pid = child.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?));
    Ok((Group { child, pid }, output))
}

/// What a command finds in its environment: nothing waits for keys, and git runs no program of a planted
/// repository.
pub(crate) fn environment() -> Vec<(String, String)> {
    let quiet =
        [("PAGER", "cat"), ("GIT_PAGER", "cat"), ("TERM", "dumb"), ("GIT_TERMINAL_PROMPT", "0")];
    let guard = git_guard(std::env::var("GIT_CONFIG_COUNT").ok().as_deref());
    quiet
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .into_iter()
        .chain(guard)
        .collect()
}

/// Settings by which git takes no plain directory for a repository: files named `HEAD`, `config`,
/// `objects` and `refs` may be written like any others, and git runs what a repository's `config` names.
/// They come behind those that are there already.
fn git_guard(count: Option<&str>) -> [(String, String); 3] {
    let at: u32 = count.and_then(|count| count.trim().parse().ok()).unwrap_or(0);
    [
        ("GIT_CONFIG_COUNT".to_owned(), at.saturating_add(1).to_string()),
        (format!("GIT_CONFIG_KEY_{at}"), "safe.bareRepository".to_owned()),
        (format!("GIT_CONFIG_VALUE_{at}"), "explicit".to_owned()),
    ]
}

/// The shell: bash where it is installed.
pub(crate) fn shell_program() -> PathBuf {
    found("bash").unwrap_or_else(|| "sh".into())
}

fn found(name: &str) -> Option<PathBuf> {
    let places = ["/usr/bin", "/bin", "/usr/local/bin"];
    places.map(|dir| Path::new(dir).join(name)).into_iter().find(|path| path.is_file())
}

/// The shell, away from our terminal: in a session of its own where `setsid` is installed, so that
/// nothing in it can ask questions there; in a process group of its own otherwise.
fn shell() -> Command {
    let bash = shell_program();
    if let Some(setsid) = found("setsid") {
        let mut command = Command::new(setsid);
        command.arg(bash);
        return command;
    }
    let mut command = Command::new(bash);
    command.process_group(0);
    command
}

/// The command's process group; dropped before its end, it is killed.
struct Group {
    child: Child,
    pid: Option<Pid>,
}

impl Group {
    fn signal(&self, signal: Signal) {
        let Some(pid) = self.pid else { return };
        // Before the child has made its own group there is only the child.
        if kill_process_group(pid, signal) == Err(Errno::SRCH) && self.child.id().is_some() {
            let _ = kill_process(pid, signal);
        }
    }

    fn is_gone(&self) -> bool {
        self.pid.is_none_or(|pid| test_kill_process_group(pid) == Err(Errno::SRCH))
    }

    fn disarm(&mut self) {
        self.pid = None;
    }

    /// SIGTERM, a grace, SIGKILL: for the whole group, not only for the shell.
    async fn end(&mut self) {
        self.signal(Signal::TERM);
        let gone = async {
            let _ = self.child.wait().await;
            while !self.is_gone() {
                tokio::time::sleep(POLL).await;
            }
        };
        if tokio::time::timeout(GRACE, gone).await.is_err() {
            self.signal(Signal::KILL);
            let _ = tokio::time::timeout(GRACE, self.child.wait()).await;
        }
        self.disarm();
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.signal(Signal::KILL);
    }
}

/// Where output goes.
struct Sink<'a, 'b> {
    collected: Collected,
    utf8: Utf8Stream,
    run: &'a ToolRun<'b>,
}

impl Sink<'_, '_> {
    fn push(&mut self, bytes: &[u8]) {
        self.collected.push(bytes);
        let text = self.utf8.push(bytes);
        if !text.is_empty() {
            (self.run.progress)(Progress::Output(text));
        }
    }
}

/// Takes output until the command itself ends; what it left running may keep the pipe open.
async fn watch(
    child: &mut Child,
    output: &pipe::Receiver,
    sink: &mut Sink<'_, '_>,
) -> std::io::Result<ExitStatus> {
    let mut open = true;
    loop {
        tokio::select! {
            status = child.wait() => return status,
            ready = output.readable(), if open => {
                ready?;
                open = take(output, sink)?;
            }
        }
    }
}

/// Takes one piece; false at the end of the output.
fn take(output: &pipe::Receiver, sink: &mut Sink<'_, '_>) -> std::io::Result<bool> {
    let mut buffer = [0; 32 << 10];
    match output.try_read(&mut buffer) {
        Ok(0) => Ok(false),
        Ok(n) => {
            sink.push(&buffer[..n]);
            Ok(true)
        }
        Err(e) if e.kind() == std::io::ErrorKind::WouldBlock => Ok(true),
        Err(e) => Err(e),
    }
}

/// Takes what is in the pipe without waiting; true when nobody holds its other end any more.
fn drain(output: &pipe::Receiver, sink: &mut Sink<'_, '_>) -> bool {
    let mut buffer = vec![0; 64 << 10];
    // What was written before the end fits the pipe; a survivor that keeps writing must not hold us.
    // The descriptor is read itself: the event loop may not have heard of the last bytes yet.
    for _ in 0..64 {
        match rustix::io::read(output, &mut buffer[..]) {
            Ok(0) => return true,
            Ok(n) => sink.push(&buffer[..n]),
            Err(_) => return false,
        }
    }
    false
}

/// What the model is told of a command that is over.
pub(crate) fn report(collected: Collected, end: &End, held_open: bool) -> ToolOutput {
    let (mut text, whole) = collected.finish();
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
    let (line, outcome) = match end {
        End::Exited(0) => ("exit code 0".to_owned(), Outcome::Done),
        End::Exited(code) => (format!("exit code {code}"), Outcome::Failed),
        End::Signalled(signal) => (format!("ended by signal {signal}"), Outcome::Failed),
        End::TimedOut(timeout) => {
            let seconds = timeout.as_secs_f64();
            (
                format!("ended after the timeout of {seconds} seconds; it may be half done"),
                Outcome::Failed,
            )
        }
        End::Stopped(kind) => {
            (format!("{}; it may be half done", stop_text(*kind)), Outcome::Stopped)
        }
    };
    if text.is_empty() {
        text.push_str("(no output)\n");
    }
    text.push_str(&format!("[{line}]"));
    if held_open && matches!(end, End::Exited(_) | End::Signalled(_)) {
        text.push_str("\n[processes that it left running still hold its output, which is not read any more; send the output of background processes to a file]");
    }
    let mut output = ToolOutput::new(text, outcome != Outcome::Done, outcome);
    output.whole = whole;
    output
}
