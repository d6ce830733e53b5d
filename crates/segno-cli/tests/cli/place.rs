//! A place of its own for the real binary: a home, a project and a scripted model server.

use segno_model::record::{Body, Message, Run, RunEnd, RunState};
use segno_model::store::{Scanned, SessionStore as _};
use segno_model::{Record, SessionId};
use segno_store::{FileStore, RealDisk};
use segno_testkit::scripted_model::ScriptedModel;
use std::ffi::OsStr;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

/// Longer than anything takes on a busy machine; only a failing test waits for it.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// The provider ids and a model of each; one for every wire.
pub(crate) const PROVIDERS: [&str; 4] =
    ["anthropic/demo", "openai/demo", "openai-chat/demo", "gemini/demo"];

pub(crate) struct Place {
    dir: tempfile::TempDir,
    pub(crate) server: ScriptedModel,
    /// What `--model` says.
    pub(crate) model: &'static str,
}

/// What a process came to.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl From<Output> for Ran {
    fn from(output: Output) -> Self {
        let text = |bytes| String::from_utf8(bytes).unwrap();
        Self { code: output.status.code(), out: text(output.stdout), err: text(output.stderr) }
    }
}

impl Place {
    pub(crate) fn new(script: &str) -> Self {
        Self::with_model("anthropic/demo", script)
    }

    pub(crate) fn with_model(model: &'static str, script: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("project")).unwrap();
        Self { dir, server: ScriptedModel::start(script).unwrap(), model }
    }

    pub(crate) fn home(&self) -> PathBuf {
        self.dir.path().join("home")
    }

    /// A file in the project.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.dir.path().join("project").join(name)
    }

    pub(crate) fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.file(name)).unwrap()
    }

    /// `segno` with these words, in the project, with nothing of the environment but PATH.
    pub(crate) fn segno<S: AsRef<OsStr>>(&self, args: &[S]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_segno"));
        command.args(args).current_dir(self.file("")).stdin(Stdio::null()).env_clear();
        command.env("PATH", std::env::var_os("PATH").unwrap_or_default());
        command.env("HOME", self.dir.path()).env("SEGNO_HOME", self.home());
        for key in ["ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY"] {
            command.env(key, "test-key-1");
        }
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// `segno run` against the server, with these words behind.
    pub(crate) fn run(&self, args: &[&str]) -> Command {
        let url = self.server.url();
        let fixed = ["run", "--model", self.model, "--base-url", &url];
        self.segno(&[&fixed[..], args].concat())
    }

    pub(crate) fn done(&self, args: &[&str]) -> Ran {
        self.run(args).output().unwrap().into()
    }

    pub(crate) fn sessions(&self) -> Vec<SessionId> {
        let listed = wait(self.store().list()).unwrap_or_default();
        listed.into_iter().map(|listed| listed.id).collect()
    }

    /// Waits until an action of a session has a file.
    pub(crate) fn until_action_has(&self, name: &str) {
        let store = self.store();
        let there = || {
            let logs = self.sessions().into_iter().filter_map(|id| store.log_path(&id).ok());
            logs.map(|log| log.with_file_name("actions")).any(|actions| {
                let all = segno_agent::supervisor::ActionDir::all(&actions);
                all.iter().any(|action| action.path().join(name).exists())
            })
        };
        self.until(name, there);
    }

    /// The only session's records, as far as they are on disk.
    pub(crate) fn records(&self) -> Vec<Record> {
        let mut records = Vec::new();
        for id in self.sessions() {
            let mut visit = |item| {
                if let Scanned::Record(record) = item {
                    records.push(*record);
                }
                true
            };
            wait(self.store().scan(&id, &mut visit)).unwrap();
        }
        records
    }

    /// The only session as one line: `user assistant tool … | completed …`.
    pub(crate) fn story(&self) -> String {
        let words = self.records().into_iter().filter_map(|record| match record.into_body() {
            Body::Message(message) => Some(match *message {
                Message::User(_) => "user".to_owned(),
                Message::Assistant(m) if m.partial => "half".to_owned(),
                Message::Assistant(_) => "assistant".to_owned(),
                Message::Tool(t) => format!("{:?}", t.outcome).to_lowercase(),
            }),
            Body::Run(Run { state: RunState::Ended { end, .. }, .. }) => Some(end_word(end)),
            _ => None,
        });
        words.collect::<Vec<_>>().join(" ")
    }

    pub(crate) fn store(&self) -> FileStore {
        FileStore::new(RealDisk, self.home())
    }
}

fn end_word(end: RunEnd) -> String {
    format!("| {}", format!("{end:?}").to_lowercase())
}

/// Sends a signal to a process of ours that has not been waited for.
pub(crate) fn signal(child: &Child, signal: rustix::process::Signal) {
    let pid = rustix::process::Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap();
    rustix::process::kill_process(pid, signal).unwrap();
}

pub(crate) use segno_testkit::skipped;

/// Runs a future of the store to its end.
pub(crate) fn wait<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(future)
}
