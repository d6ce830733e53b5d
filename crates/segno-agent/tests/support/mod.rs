//! A temporary project with the tools in it.
//!
//! Responsible for: making calls as the runtime does. Must not: assert on a tool's behaviour.
#![allow(dead_code, clippy::unwrap_used)]

use segno_agent::mcp::Servers;
use segno_agent::permission::{Mode, PrefixRule};
use segno_agent::tool::{Asker, Asking, Question, Reply, Supervision, Toolbox, ToolboxConfig};
use segno_model::record::{Block, ToolCall};
use segno_runtime::{Progress, Stop, StopHandle, ToolOutput, ToolPlan, ToolRun, Tools, Verdict};
use serde_json::json;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

/// A project directory, beside it a home and Segno's own directory.
pub(crate) struct Place {
    directory: tempfile::TempDir,
    calls: AtomicU32,
    pub(crate) tools: Toolbox,
}

impl Place {
    /// In mode `all`, with nobody to ask.
    pub(crate) fn new() -> Self {
        Self::with(Mode::All, None, &[])
    }

    /// As [`Place::new`], with commands supervised by this test's own program: it must have the test
    /// [`supervisor_process`] calls for.
    pub(crate) fn supervised() -> Self {
        Self::made(Mode::All, None, &[], true)
    }

    pub(crate) fn with(mode: Mode, asker: Option<Arc<dyn Asker>>, rules: &[&str]) -> Self {
        Self::made(mode, asker, rules, false)
    }

    pub(crate) fn with_servers(
        mode: Mode,
        asker: Option<Arc<dyn Asker>>,
        servers: Option<Arc<Servers>>,
    ) -> Self {
        let directory = tempfile::tempdir().unwrap();
        Self::in_directory(directory, mode, asker, &[], (false, servers))
    }

    fn made(mode: Mode, asker: Option<Arc<dyn Asker>>, rules: &[&str], supervised: bool) -> Self {
        let directory = tempfile::tempdir().unwrap();
        Self::in_directory(directory, mode, asker, rules, (supervised, None))
    }

    /// The same place as another process finds it, in mode `all`, supervised.
    pub(crate) fn reopened(self) -> Self {
        Self::in_directory(self.directory, Mode::All, None, &[], (true, None))
    }

    fn in_directory(
        directory: tempfile::TempDir,
        mode: Mode,
        asker: Option<Arc<dyn Asker>>,
        rules: &[&str],
        (supervised, servers): (bool, Option<Arc<Servers>>),
    ) -> Self {
        let at = |name: &str| {
            let path = directory.path().canonicalize().unwrap().join(name);
            fs::create_dir_all(&path).unwrap();
            path
        };
        let tools = Toolbox::new(ToolboxConfig {
            session: ("a-session".to_owned(), "a-host".to_owned()),
            cwd: at("project"),
            root: at("project"),
            home: Some(at("home")),
            own: vec![at("segno")],
            mode,
            rules: rules.iter().filter_map(|r| PrefixRule::parse(r)).collect(),
            hidden_env: vec!["SEGNO_TEST_KEY".to_owned()],
            supervision: supervised.then(|| supervision(at("segno").join("actions"))),
            locks: Some(at("segno").join("locks")),
            servers,
            asker,
        });
        Self { directory, calls: AtomicU32::new(0), tools }
    }

    /// Where supervised commands keep their files.
    pub(crate) fn actions(&self) -> PathBuf {
        self.directory.path().canonicalize().unwrap().join("segno/actions")
    }

    pub(crate) fn root(&self) -> PathBuf {
        self.directory.path().canonicalize().unwrap().join("project")
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.root().join(name)
    }

    pub(crate) fn file(&self, name: &str, content: &str) {
        self.bytes(name, content.as_bytes());
    }

    pub(crate) fn bytes(&self, name: &str, content: &[u8]) {
        fs::create_dir_all(self.path(name).parent().unwrap()).unwrap();
        fs::write(self.path(name), content).unwrap();
    }

    pub(crate) fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap()
    }

    pub(crate) fn names(&self) -> Vec<String> {
        let names = fs::read_dir(self.root()).unwrap();
        names.map(|e| e.unwrap().file_name().into_string().unwrap()).collect()
    }

    pub(crate) fn assert_no_temp_files(&self) {
        fn look(directory: &Path) {
            for entry in fs::read_dir(directory).unwrap() {
                let entry = entry.unwrap();
                let name = entry.file_name();
                assert!(!name.to_string_lossy().starts_with(".segno-"), "left behind: {name:?}");
                if entry.file_type().unwrap().is_dir() {
                    look(&entry.path());
                }
            }
        }
        look(self.directory.path());
    }

    pub(crate) fn tool_call(&self, tool: &str, arguments: &str) -> ToolCall {
        let id = format!("call{}", self.calls.fetch_add(1, Ordering::Relaxed));
        ToolCall { id, name: tool.to_owned(), arguments: arguments.to_owned() }
    }

    /// Judges, asks where it has to, prepares and runs.
    pub(crate) async fn call(&self, tool: &str, arguments: &str) -> ToolOutput {
        let call = self.tool_call(tool, arguments);
        match self.tools.judge(&call).await {
            Verdict::Run(plan) => self.carry_out(&call, plan).await,
            Verdict::Refuse(output) | Verdict::NobodyToAsk { refused: output, .. } => output,
            Verdict::Ask { question, plan } => {
                let answer = self.tools.ask(&call, &question).await;
                if answer.allowed {
                    return self.carry_out(&call, plan).await;
                }
                ToolOutput::denied(answer.reason.unwrap_or_else(|| "no".to_owned()))
            }
        }
    }

    /// Prepares and runs a call that was judged.
    pub(crate) async fn carry_out(&self, call: &ToolCall, plan: ToolPlan) -> ToolOutput {
        match self.tools.prepare(call, plan).await {
            Ok(_) => self.run(call).await,
            Err(output) => output,
        }
    }

    pub(crate) async fn run(&self, call: &ToolCall) -> ToolOutput {
        let (_handle, stop) = StopHandle::new();
        self.run_with(call, stop, &|_| {}).await
    }

    pub(crate) async fn run_with(
        &self,
        call: &ToolCall,
        stop: Stop,
        progress: &(dyn Fn(Progress) + Send + Sync),
    ) -> ToolOutput {
        self.tools.run(call, ToolRun { stop, progress }).await
    }

    /// Judges, prepares and runs an allowed call.
    pub(crate) async fn start(
        &self,
        call: &ToolCall,
        stop: Stop,
        progress: &(dyn Fn(Progress) + Send + Sync),
    ) -> ToolOutput {
        let Verdict::Run(plan) = self.tools.judge(call).await else { panic!("allowed") };
        match self.tools.prepare(call, plan).await {
            Ok(_) => self.run_with(call, stop, progress).await,
            Err(output) => output,
        }
    }

    pub(crate) async fn write(&self, path: &str, content: &str) -> String {
        let output =
            self.call("write", &json!({"path": path, "content": content}).to_string()).await;
        assert!(!output.is_error, "{}", text(&output));
        text(&output)
    }

    pub(crate) async fn bash(&self, command: &str) -> ToolOutput {
        self.call("bash", &json!({"command": command}).to_string()).await
    }
}

/// The name of the test that is the supervisor when this test program is called as one.
const SUPERVISOR: &str = "supervisor_process";

pub(crate) fn supervision(actions: PathBuf) -> Supervision {
    let program = std::env::current_exe().unwrap();
    let first = ["--exact", SUPERVISOR, "--nocapture", "--test-threads=1"];
    let supervisor = std::iter::once(program.into_os_string());
    Supervision { actions, supervisor: supervisor.chain(first.map(Into::into)).collect() }
}

/// What the test of that name does: nothing, unless it is called with an action's directory.
pub(crate) fn supervisor_process() {
    let last = PathBuf::from(std::env::args_os().next_back().unwrap());
    if last.is_absolute() && last.join("request").exists() {
        std::process::exit(segno_agent::supervisor::supervise(&last).into());
    }
}

/// A result's text.
pub(crate) fn text(output: &ToolOutput) -> String {
    let texts = output.content.iter().map(|block| match block {
        Block::Text { text } => text.head().to_owned(),
        _ => "[image]".to_owned(),
    });
    texts.collect::<Vec<_>>().join("\n")
}

/// Answers every question the same way and keeps what was asked and saved.
pub(crate) struct Scripted {
    pub(crate) reply: Reply,
    pub(crate) asked: Mutex<Vec<String>>,
    pub(crate) saved: Mutex<Vec<String>>,
}

impl Scripted {
    pub(crate) fn new(reply: Reply) -> Arc<Self> {
        Arc::new(Self { reply, asked: Mutex::default(), saved: Mutex::default() })
    }

    pub(crate) fn asked(&self) -> usize {
        self.asked.lock().unwrap().len()
    }
}

impl Asker for Scripted {
    fn ask<'a>(&'a self, question: Question<'a>) -> Asking<'a> {
        self.asked.lock().unwrap().push(question.text.to_owned());
        let reply = self.reply.clone();
        Box::pin(async move { reply })
    }

    fn save(&self, rules: &[PrefixRule]) {
        self.saved.lock().unwrap().extend(rules.iter().map(ToString::to_string));
    }
}
