//! Where the experiment happens: a temporary directory, a model server, and agent processes.
//!
//! Responsible for: starting this very program with an environment of its own, waiting for what a step
//! waits for, killing, and taking everything away at the end. Must not: pass on any of the user's
//! configuration, keys, proxies or sessions, or judge what happened.

use crate::error::CliError;
use segno_model::record::{Body, Header, Message, Run, RunState};
use segno_model::store::{Clock as _, ForkPoint, Ids as _, Scanned, SessionStore as _};
use segno_model::{Record, Seq, SessionId};
use segno_store::{FileStore, RealDisk, SystemClock, UuidIds};
use segno_testkit::scripted_model::demo::{
    CODE_FILE, DEMO_SCRIPT, SIGN_FILE, code_file, sign_file,
};
use segno_testkit::scripted_model::{Delivery, ScriptedModel};
use std::io::Write as _;
use std::os::fd::OwnedFd;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;
use tempfile::TempDir;
use tokio::io::AsyncReadExt as _;
use tokio::process::{Child, Command};

/// What to do when a step of the demo failed.
const AGAIN: &str = "Try again; `segno demo --keep` leaves everything behind, to look at.";

/// What to do when its directory cannot be written.
const ROOM: &str = "Free some space there, or set TMPDIR to another directory.";

/// A step that takes longer is given up; each takes a fraction of a second.
const PATIENCE: Duration = Duration::from_secs(60);

/// How often a step looks whether it is done.
const LOOK: Duration = Duration::from_millis(5);

/// Variables of the user that the processes get; nothing else is passed on.
const PASSED_ON: [&str; 3] = ["PATH", "TMPDIR", "LD_LIBRARY_PATH"];

/// The place of the experiment.
pub struct Stage {
    dir: TempDir,
    /// The random code.
    pub code: String,
    /// The stand-in for a model.
    pub server: ScriptedModel,
    /// What earlier servers found fault with.
    faults: Vec<String>,
    /// Whether the server is another one than the sessions know.
    moved: bool,
    store: FileStore,
}

/// An agent process.
pub struct Process {
    /// Its number in the experiment.
    pub pid: u32,
    /// How a person would have started it.
    pub command: String,
    child: Child,
    /// Of an output that is held back: it must stay open.
    _held_back: Option<std::io::PipeReader>,
}

/// A process that was killed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Died {
    /// Which.
    pub pid: u32,
    /// The signal that ended it.
    pub signal: Option<i32>,
}

/// A process that came to its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ended {
    /// Which.
    pub pid: u32,
    /// What it printed.
    pub answer: String,
}

impl Stage {
    /// Makes the directory, the repository, the file with its code, and the server.
    ///
    /// # Errors
    /// When nothing can be made in the temporary directory, or nothing can listen on loopback.
    pub async fn set_up() -> Result<Self, CliError> {
        let dir = tempfile::Builder::new().prefix("segno-demo-").tempdir().map_err(|e| {
            CliError::failed("The demo needs a temporary directory and cannot make one.")
                .because(e)
                .next("Set TMPDIR to a directory that can be written, with some megabytes of room.")
        })?;
        let store = FileStore::new(RealDisk, dir.path().join("home"));
        let stage = Self {
            dir,
            code: random_code(),
            server: server()?,
            faults: Vec::new(),
            moved: false,
            store,
        };
        let fill = || {
            std::fs::create_dir(stage.repository())?;
            std::fs::write(stage.code_file(), code_file(&stage.code))
        };
        fill().map_err(|e| {
            CliError::failed("The demo's directory cannot be filled.").because(e).next(ROOM)
        })?;
        // Without git it is a directory like any other; the agent works there as well.
        let mut git = Command::new("git");
        git.args(["init", "--quiet"]).current_dir(stage.repository()).stdin(Stdio::null());
        let _ = stage.isolate(&mut git).output().await;
        Ok(stage)
    }

    /// Puts a new server in the place of the old one: it has never seen a request.
    ///
    /// # Errors
    /// When it cannot listen.
    pub fn replace_server(&mut self) -> Result<(), CliError> {
        self.faults = self.violations();
        self.server = server()?;
        self.moved = true;
        Ok(())
    }

    /// Everything that a server found fault with so far.
    #[must_use]
    pub fn violations(&self) -> Vec<String> {
        let now = self.server.violations();
        self.faults.iter().cloned().chain(now.iter().map(ToString::to_string)).collect()
    }

    /// The repository in which the agent works.
    #[must_use]
    pub fn repository(&self) -> PathBuf {
        self.dir.path().join("repository")
    }

    /// The file with the code.
    #[must_use]
    pub fn code_file(&self) -> PathBuf {
        self.repository().join(CODE_FILE)
    }

    /// Whether the file with the code is there.
    #[must_use]
    pub fn code_file_exists(&self) -> bool {
        self.code_file().exists()
    }

    /// Deletes the file with the code.
    ///
    /// # Errors
    /// When that fails.
    pub fn delete_code_file(&self) -> Result<(), CliError> {
        std::fs::remove_file(self.code_file())
            .map_err(|e| CliError::failed("The file could not be deleted.").because(e).next(ROOM))
    }

    /// Starts `segno run`, on a new session or an existing one. With `hold_back`, the process can write
    /// nothing to its standard output: when its work is done it is still there.
    ///
    /// # Errors
    /// When the program cannot be started.
    pub fn start(
        &self,
        prompt: &str,
        session: Option<&SessionId>,
        hold_back: bool,
    ) -> Result<Process, CliError> {
        self.start_with(prompt, session, hold_back, &[])
    }

    /// Starts `segno run` on a new session, free to run commands and to change files here.
    ///
    /// # Errors
    /// When the program cannot be started.
    pub fn start_working(&self, prompt: &str) -> Result<Process, CliError> {
        self.start_with(prompt, None, false, &["--permission", "all"])
    }

    fn start_with(
        &self,
        prompt: &str,
        session: Option<&SessionId>,
        hold_back: bool,
        more: &[&str],
    ) -> Result<Process, CliError> {
        let url = self.server.url();
        let mut args = vec!["run"];
        args.extend(more);
        args.extend(session.iter().flat_map(|id| ["--session", id.as_str()]));
        // A session remembers its model and the address.
        if session.is_none() || self.moved {
            args.extend(["--model", "anthropic/demo", "--base-url", url.as_str()]);
        }
        args.push(prompt);
        let failed =
            |e| CliError::failed("An agent process could not be started.").because(e).next(AGAIN);
        let exe = std::env::current_exe().map_err(failed)?;
        let mut command = Command::new(exe);
        command.args(&args).current_dir(self.repository()).stdin(Stdio::null());
        command.stderr(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true);
        // Ctrl-C in a terminal is for the demo, which then ends its processes.
        command.process_group(0);
        let mut held_back = None;
        if hold_back {
            let (reader, writer) = full_pipe().map_err(failed)?;
            command.stdout(Stdio::from(writer));
            held_back = Some(reader);
        }
        let child = self.isolate(&mut command).spawn().map_err(failed)?;
        let pid = child.id().unwrap_or_default();
        let words: Vec<String> = args.iter().map(|arg| crate::args::quoted(arg)).collect();
        let command = format!("segno {}", words.join(" "));
        Ok(Process { pid, command, child, _held_back: held_back })
    }

    fn isolate<'c>(&self, command: &'c mut Command) -> &'c mut Command {
        let home = self.dir.path().join("home");
        command.env_clear();
        for name in PASSED_ON {
            if let Some(value) = std::env::var_os(name) {
                command.env(name, value);
            }
        }
        command
            .env("HOME", &home)
            .env("SEGNO_HOME", &home)
            .env("ANTHROPIC_API_KEY", "the-scripted-model-takes-any")
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .env("GIT_CONFIG_NOSYSTEM", "1")
    }

    /// Waits until the only session's run has ended on disk, and gives the session.
    ///
    /// # Errors
    /// When the process ends before, or it takes too long.
    pub async fn until_run_ended(&self, process: &mut Process) -> Result<SessionId, CliError> {
        wait(process, async || {
            let id = self.store.list().await.ok()?.pop()?.id;
            let records = self.records(&id).await.ok()?;
            let ended = |r: &Record| matches!(r.body(), Body::Run(Run { state, .. }) if matches!(state, RunState::Ended { .. }));
            records.iter().any(ended).then_some(id)
        })
        .await
    }

    /// Waits until something holds.
    ///
    /// # Errors
    /// When the process ends before, or it takes too long.
    pub async fn until(
        &self,
        process: &mut Process,
        holds: impl Fn(&Self) -> bool,
    ) -> Result<(), CliError> {
        wait(process, async || holds(self).then_some(())).await
    }

    /// Waits until a session that is not among `known` has such a record, and gives it.
    ///
    /// # Errors
    /// When the process ends before, or it takes too long.
    pub async fn until_recorded(
        &self,
        process: &mut Process,
        known: &[SessionId],
        wanted: impl Fn(&Body) -> bool,
    ) -> Result<SessionId, CliError> {
        wait(process, async || {
            let id = self.ids().await.ok()?.into_iter().find(|id| !known.contains(id))?;
            let records = self.records(&id).await.ok()?;
            records.iter().any(|record| wanted(record.body())).then_some(id)
        })
        .await
    }

    /// Whether these words of a reply that is being streamed are on disk.
    #[must_use]
    pub fn has_draft(&self, id: &SessionId, words: &str) -> bool {
        let log = self.store.log_path(id).ok();
        let draft = log.and_then(|log| std::fs::read(log.with_file_name("draft")).ok());
        let draft = draft.and_then(|bytes| segno_model::draft::decode(&bytes));
        draft.is_some_and(|draft| draft.text.contains(words))
    }

    /// Whether a supervisor of a session's commands has written down how its command ended.
    fn has_status(&self, id: &SessionId) -> bool {
        let Ok(log) = self.store.log_path(id) else { return false };
        let actions = std::fs::read_dir(log.with_file_name("actions"));
        actions.is_ok_and(|mut all| all.any(|a| a.is_ok_and(|a| a.path().join("status").exists())))
    }

    /// Waits until a session's command is over.
    ///
    /// # Errors
    /// When it takes too long.
    pub async fn until_over(&self, id: &SessionId) -> Result<(), CliError> {
        let over = async {
            while !self.has_status(id) {
                tokio::time::sleep(LOOK).await;
            }
        };
        tokio::time::timeout(PATIENCE, over).await.map_err(|_| {
            CliError::failed("The command never came to its end.")
                .because("it waits for a file, which is there")
                .next(AGAIN)
        })
    }

    /// The sessions that there are.
    ///
    /// # Errors
    /// When they cannot be listed.
    pub async fn ids(&self) -> Result<Vec<SessionId>, CliError> {
        Ok(self.store.list().await?.into_iter().map(|listed| listed.id).collect())
    }

    /// The session that was made last.
    ///
    /// # Errors
    /// When there is none.
    pub async fn newest(&self) -> Result<SessionId, CliError> {
        let newest = self.ids().await?.into_iter().max_by_key(|id| id.as_str().to_owned());
        newest.ok_or_else(|| CliError::failed("There is no session.").next(AGAIN))
    }

    /// What the command has written so far.
    #[must_use]
    pub fn journal(&self) -> String {
        std::fs::read_to_string(self.repository().join("journal.txt")).unwrap_or_default()
    }

    /// Makes the file that the command waits for.
    ///
    /// # Errors
    /// When that fails.
    pub fn let_go(&self) -> Result<(), CliError> {
        std::fs::write(self.repository().join("go"), "").map_err(not_written)
    }

    /// Takes away what the command wrote, and what it waits for.
    ///
    /// # Errors
    /// When that fails.
    pub fn clear_journal(&self) -> Result<(), CliError> {
        ["journal.txt", "go"]
            .iter()
            .try_for_each(|name| std::fs::remove_file(self.repository().join(name)))
            .map_err(not_written)
    }

    /// Writes the file that is to be edited, large enough for an edit to take its time.
    ///
    /// # Errors
    /// When that fails.
    pub fn write_notes(&self) -> Result<(), CliError> {
        let lines = "nothing of interest\n".repeat(20_000);
        std::fs::write(self.notes(), format!("{lines}the old word\n{lines}")).map_err(not_written)
    }

    /// Whether that file holds the new word.
    #[must_use]
    pub fn notes_are_changed(&self) -> bool {
        std::fs::read_to_string(self.notes()).is_ok_and(|notes| notes.contains("the new word"))
    }

    fn notes(&self) -> PathBuf {
        self.repository().join("notes.txt")
    }

    /// Writes a file with a random sign for a subagent to read; gives the sign.
    ///
    /// # Errors
    /// When that fails.
    pub fn write_sign(&self) -> Result<String, CliError> {
        let sign = random_code();
        std::fs::write(self.sign(), sign_file(&sign)).map_err(not_written)?;
        Ok(sign)
    }

    /// Deletes that file.
    ///
    /// # Errors
    /// When that fails.
    pub fn delete_sign(&self) -> Result<(), CliError> {
        std::fs::remove_file(self.sign()).map_err(not_written)
    }

    /// Whether it is there.
    #[must_use]
    pub fn sign_exists(&self) -> bool {
        self.sign().exists()
    }

    fn sign(&self) -> PathBuf {
        self.repository().join(SIGN_FILE)
    }

    /// A session's subagents.
    ///
    /// # Errors
    /// When they cannot be listed.
    pub fn children(&self, id: &SessionId) -> Result<Vec<SessionId>, CliError> {
        Ok(self.store.children_now(id)?.into_iter().map(|child| child.id).collect())
    }

    /// Presses Ctrl-C, and waits for the end; gives the exit code.
    ///
    /// # Errors
    /// When it takes too long.
    pub async fn interrupt(&self, mut process: Process) -> Result<Option<i32>, CliError> {
        let pid = i32::try_from(process.pid).ok().and_then(rustix::process::Pid::from_raw);
        if let Some(pid) = pid {
            // One that has ended by itself shows in its exit code.
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::INT);
        }
        let ended = tokio::time::timeout(PATIENCE, process.child.wait()).await;
        let status = ended.map_err(|_| too_slow(process.pid))?.map_err(not_waited)?;
        Ok(status.code())
    }

    /// Waits until the model has stopped in the middle of a reply.
    ///
    /// # Errors
    /// When the process ends before, or it takes too long.
    pub async fn until_hanging(&self, process: &mut Process) -> Result<(), CliError> {
        wait(process, async || {
            let last = self.server.requests().pop()?;
            (last.delivery == Delivery::Hanging).then_some(())
        })
        .await
    }

    /// Waits for a process and gives what it printed.
    ///
    /// # Errors
    /// When it fails, or it takes too long.
    pub async fn until_ended(&self, process: &mut Process) -> Result<Ended, CliError> {
        let mut answer = String::new();
        let (stdout, child) = (process.child.stdout.take(), &mut process.child);
        let work = async {
            if let Some(mut stdout) = stdout {
                stdout.read_to_string(&mut answer).await?;
            }
            child.wait().await
        };
        let status = tokio::time::timeout(PATIENCE, work).await;
        let status = status.map_err(|_| too_slow(process.pid))?.map_err(not_waited)?;
        if !status.success() {
            return Err(early_end(process, status).await);
        }
        Ok(Ended { pid: process.pid, answer: answer.trim_end().to_owned() })
    }

    /// Kills a process with SIGKILL.
    ///
    /// # Errors
    /// When it is gone already.
    pub async fn kill(&self, mut process: Process) -> Result<Died, CliError> {
        process.child.start_kill().map_err(not_waited)?;
        let status = process.child.wait().await.map_err(not_waited)?;
        Ok(Died { pid: process.pid, signal: status.signal() })
    }

    /// The records of a session.
    ///
    /// # Errors
    /// When they cannot be read.
    pub async fn records(&self, id: &SessionId) -> Result<Vec<Record>, CliError> {
        let mut records = Vec::new();
        self.store
            .scan(id, &mut |item| {
                if let Scanned::Record(record) = item {
                    records.push(*record);
                }
                true
            })
            .await?;
        Ok(records)
    }

    /// The roles of a session's messages, in the order of the log.
    ///
    /// # Errors
    /// When they cannot be read.
    pub async fn roles(&self, id: &SessionId) -> Result<Vec<String>, CliError> {
        let records = self.records(id).await?;
        Ok(records.iter().filter_map(role).map(str::to_owned).collect())
    }

    /// Copies a session up to, and without, a record.
    ///
    /// # Errors
    /// When that fails.
    pub async fn fork_before(&self, id: &SessionId, seq: Seq) -> Result<SessionId, CliError> {
        let source = self.store.read(id).await?.header;
        let header = Header { id: UuidIds.session_id(), ..source };
        let point = ForkPoint::Before(seq);
        Ok(self.store.fork(id, point, header, SystemClock.now()).await?)
    }

    /// Removes everything, or keeps the directory and says where it is.
    ///
    /// # Errors
    /// When it cannot be removed.
    pub async fn strike(self, keep: bool) -> std::io::Result<Option<PathBuf>> {
        let root = self.dir.keep();
        if keep {
            return Ok(Some(root));
        }
        let mut removed = std::fs::remove_dir_all(&root);
        // A process that was killed just now may still have added a file.
        for _ in 0..100 {
            if removed.is_ok() {
                break;
            }
            tokio::time::sleep(LOOK).await;
            removed = std::fs::remove_dir_all(&root);
        }
        removed.map(|()| None)
    }

    /// The directory that everything is in.
    #[must_use]
    pub fn root(&self) -> &Path {
        self.dir.path()
    }
}

/// The role of a message.
#[must_use]
pub(super) fn role(record: &Record) -> Option<&'static str> {
    let Body::Message(message) = record.body() else { return None };
    Some(match &**message {
        Message::User(_) => "user",
        Message::Assistant(_) => "assistant",
        Message::Tool(_) => "tool",
    })
}

/// Looks again and again, as long as the process lives and patience lasts.
async fn wait<T>(
    process: &mut Process,
    mut look: impl AsyncFnMut() -> Option<T>,
) -> Result<T, CliError> {
    let pid = process.pid;
    let looking = async {
        loop {
            if let Some(found) = look().await {
                return Ok(found);
            }
            if let Some(status) = process.child.try_wait().map_err(not_waited)? {
                return Err(early_end(process, status).await);
            }
            tokio::time::sleep(LOOK).await;
        }
    };
    tokio::time::timeout(PATIENCE, looking).await.unwrap_or_else(|_| Err(too_slow(pid)))
}

async fn early_end(process: &mut Process, status: std::process::ExitStatus) -> CliError {
    let mut said = String::new();
    if let Some(mut stderr) = process.child.stderr.take() {
        // What could be read is told.
        let _ = stderr.read_to_string(&mut said).await;
    }
    let said = said.trim_end();
    CliError::failed(format!("Process {} ended too early ({status}).", process.pid))
        .because(said)
        .next(AGAIN)
}

fn too_slow(pid: u32) -> CliError {
    CliError::failed(format!("Process {pid} took too long."))
        .because("each step takes well under a second on an idle machine")
        .next("Try again when the machine is less busy.")
}

fn not_waited(error: std::io::Error) -> CliError {
    CliError::failed("A process could not be waited for.").because(error).next(AGAIN)
}

fn not_written(error: std::io::Error) -> CliError {
    CliError::failed("The demo's directory cannot be written to.").because(error).next(ROOM)
}

fn server() -> Result<ScriptedModel, CliError> {
    ScriptedModel::start(DEMO_SCRIPT)
        .map_err(|e| CliError::failed("The scripted model cannot start.").because(e).next(AGAIN))
}

/// A pipe that takes nothing more: whoever writes into it waits.
fn full_pipe() -> std::io::Result<(std::io::PipeReader, OwnedFd)> {
    let (reader, mut writer) = std::io::pipe()?;
    rustix::io::ioctl_fionbio(&writer, true)?;
    for size in [4096, 1] {
        while writer.write(&vec![b'.'; size]).is_ok() {}
    }
    rustix::io::ioctl_fionbio(&writer, false)?;
    Ok((reader, OwnedFd::from(writer)))
}

/// Twelve digits that nobody could guess: the random end of a fresh id.
fn random_code() -> String {
    let id = UuidIds.session_id();
    id.as_str().chars().rev().take(12).collect::<String>().to_uppercase()
}
