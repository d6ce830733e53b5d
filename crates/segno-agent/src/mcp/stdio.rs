//! A server as a child process: one message per line on its standard streams.
//!
//! Responsible for: starting it without the variables that it must not see, matching answers to requests,
//! and its end. Must not: wait for it for ever; every wait ends with the process or with the caller's
//! patience. A line that is no message is passed over: some servers print there.

use super::rpc::{self, Failure, MAX_MESSAGE, Message};
use serde_json::{Value, json};
use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::process::Stdio;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command};
use tokio::sync::{mpsc, oneshot};

/// How long it may take until what it said last is read.
const LAST_WORDS: Duration = Duration::from_millis(500);
/// How much of what it says on standard error is kept.
const MAX_STDERR: usize = 2 << 10;

/// A running server.
#[derive(Debug)]
pub(super) struct Pipe {
    outgoing: mpsc::UnboundedSender<Value>,
    waiting: Arc<Mutex<Waiting>>,
    next: AtomicU64,
    /// Killed when this goes.
    _child: Child,
}

#[derive(Debug, Default)]
struct Waiting {
    by_id: HashMap<u64, oneshot::Sender<Result<Value, Failure>>>,
    /// Why there will be no more answers.
    ended: Option<String>,
    stderr: String,
}

impl Waiting {
    fn end(&mut self, why: &str) {
        let last = self.stderr.lines().last().unwrap_or_default().trim();
        let said = if last.is_empty() { String::new() } else { format!("; it said: {last}") };
        let why = self.ended.get_or_insert_with(|| format!("{why}{said}")).clone();
        for (_, waits) in self.by_id.drain() {
            let _ = waits.send(Err(Failure::Lost(why.clone())));
        }
    }
}

impl Pipe {
    /// Starts a process.
    pub(super) fn start(
        command: &str,
        args: &[String],
        env: &BTreeMap<String, String>,
        cwd: &Path,
        hidden_env: &[String],
    ) -> Result<Self, Failure> {
        let mut process = Command::new(command);
        process.args(args).current_dir(cwd).kill_on_drop(true).process_group(0);
        process.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        for name in hidden_env {
            process.env_remove(name);
        }
        process.envs(env);
        let mut child = process
            .spawn()
            .map_err(|e| Failure::NotSent(format!("{command} could not be started: {e}")))?;
        let waiting = Arc::new(Mutex::new(Waiting::default()));
        let (outgoing, lines) = mpsc::unbounded_channel();
        let said = child.stderr.take();
        let said = said.map(|stderr| tokio::spawn(listen(stderr, Arc::clone(&waiting))));
        if let (Some(stdin), Some(stdout)) = (child.stdin.take(), child.stdout.take()) {
            tokio::spawn(write(stdin, lines));
            let (answers, waiting) = (outgoing.clone(), Arc::clone(&waiting));
            tokio::spawn(async move {
                let why = read(stdout, answers, &waiting).await;
                if let Some(said) = said {
                    // It tells why it ended, unless others keep the stream open.
                    let _ = tokio::time::timeout(LAST_WORDS, said).await;
                }
                lock(&waiting).end(why);
            });
        }
        Ok(Self { outgoing, waiting, next: AtomicU64::new(1), _child: child })
    }

    /// Whether it can still answer.
    pub(super) fn is_alive(&self) -> bool {
        lock(&self.waiting).ended.is_none() && !self.outgoing.is_closed()
    }

    /// Asks something and waits for the answer. Dropped before, it tells the server that nobody waits.
    pub(super) async fn request(&self, method: &str, params: &Value) -> Result<Value, Failure> {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let (sender, answer) = oneshot::channel();
        {
            let mut waiting = lock(&self.waiting);
            if let Some(why) = &waiting.ended {
                return Err(Failure::NotSent(why.clone()));
            }
            waiting.by_id.insert(id, sender);
        }
        let mut interest = Interest { pipe: self, id, over: false };
        if self.outgoing.send(rpc::request(id, method, params)).is_err() {
            return Err(Failure::NotSent("it has ended".to_owned()));
        }
        let answered = answer.await;
        interest.over = true;
        answered.unwrap_or_else(|_| Err(Failure::Lost("it has ended".to_owned())))
    }

    /// Tells something.
    pub(super) fn notify(&self, method: &str, params: &Value) {
        let _ = self.outgoing.send(rpc::notification(method, params));
    }
}

/// Somebody waits for an answer.
struct Interest<'a> {
    pipe: &'a Pipe,
    id: u64,
    over: bool,
}

impl Drop for Interest<'_> {
    fn drop(&mut self) {
        if self.over {
            return;
        }
        lock(&self.pipe.waiting).by_id.remove(&self.id);
        let params = json!({"requestId": self.id, "reason": "nobody waits for it any more"});
        self.pipe.notify("notifications/cancelled", &params);
    }
}

/// Who does not listen any more ends, and the reader notices.
async fn write(mut stdin: ChildStdin, mut messages: mpsc::UnboundedReceiver<Value>) {
    while let Some(message) = messages.recv().await {
        let line = format!("{message}\n");
        let written = async {
            stdin.write_all(line.as_bytes()).await?;
            stdin.flush().await
        };
        if written.await.is_err() {
            return;
        }
    }
}

/// Hands answers out until there are no more; says why.
async fn read(
    stdout: ChildStdout,
    outgoing: mpsc::UnboundedSender<Value>,
    waiting: &Mutex<Waiting>,
) -> &'static str {
    let mut lines = BufReader::new(stdout);
    let mut line = Vec::new();
    loop {
        line.clear();
        let mut limited = (&mut lines).take(MAX_MESSAGE as u64 + 1);
        match limited.read_until(b'\n', &mut line).await {
            Ok(0) => return "it ended",
            Ok(n) if n > MAX_MESSAGE => return "it sent a message that is too long",
            Ok(_) => {}
            Err(_) => return "it cannot be read any more",
        }
        let Ok(message) = serde_json::from_slice::<Value>(&line) else { continue };
        match rpc::understand(&message) {
            Message::Answer(id, result) => {
                if let Some(waits) = lock(waiting).by_id.remove(&id) {
                    let _ = waits.send(result);
                }
            }
            Message::Asked(answer) => drop(outgoing.send(answer)),
            Message::Other => {}
        }
    }
}

async fn listen(mut stderr: ChildStderr, waiting: Arc<Mutex<Waiting>>) {
    let mut bytes = [0; 1024];
    while let Ok(n @ 1..) = stderr.read(&mut bytes).await {
        let mut waiting = lock(&waiting);
        waiting.stderr.push_str(&String::from_utf8_lossy(bytes.get(..n).unwrap_or_default()));
        let over = waiting.stderr.len().saturating_sub(MAX_STDERR);
        let from = waiting.stderr.ceil_char_boundary(over);
        waiting.stderr.drain(..from);
    }
}

/// A poisoned lock's data is still whole: every change under it is one call.
fn lock(mutex: &Mutex<Waiting>) -> MutexGuard<'_, Waiting> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
