//! Segno's engine in a program of its own: your model, your tool, a crash, a recovery; no SQLite.
//! The tool's process dies in the middle of an effect. Run it: `cargo run --example embed`
#![allow(clippy::print_stdout, reason = "an example talks to its reader")]
use segno_model::{context::ContextMessage, record::*, store::*};
use segno_runtime::*;
use segno_store::{FileStore, RealDisk, SystemClock, UuidIds, this_process};
use std::{env, fs, path::PathBuf, process, sync::Arc, time::Duration};

/// Whoever answers: a provider, a program, a person. It is sent the whole history, and nothing else.
fn model(request: ModelRequest<'_>) -> Result<AssistantMessage, ModelError> {
    let history: Vec<String> = request.messages.iter().map(ContextMessage::text).collect();
    let said = match history.len() {
        1 => AssistantBlock::call("call-1", "send", "Ada"),
        _ => AssistantBlock::text(history.join("\n")),
    };
    Ok(AssistantMessage::new(request.model, vec![said]))
}

/// A tool that sends a letter (adds a line to a file). Right after that, its process dies.
struct Letters(PathBuf);
impl Tools for Letters {
    fn specs(&self) -> Vec<ToolSpec> {
        vec![ToolSpec::new("send", "Sends a letter.", serde_json::json!({"type": "object"}))]
    }
    async fn run(&self, call: &ToolCall, _run: ToolRun<'_>) -> ToolOutput {
        let sent = fs::read_to_string(&self.0).unwrap_or_default();
        fs::write(&self.0, format!("{sent}{}\n", call.arguments)).expect("it can be sent");
        process::abort()
    }
}

async fn ask<L: SessionLog>(mut session: Session<L>, tools: &Letters, text: &str) -> String {
    let sleep = Arc::new(|ms| Box::pin(tokio::time::sleep(Duration::from_millis(ms))) as _);
    let (name, owner) = (ModelRef::new("mine", "1"), this_process(&SystemClock));
    let env = RunEnv::new(name, "You send letters.", owner, sleep);
    let input = UserMessage::text(text);
    let finished = run(&mut session, &model, tools, env, input, &mut ()).await;
    finished.expect("the log can be written").text
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let fresh = env::temp_dir().join(format!("segno-embed-{}", process::id()));
    let home = env::args().nth(1).map_or(fresh, PathBuf::from);
    let (store, tools) = (FileStore::new(RealDisk, &home), Letters(home.join("letters")));
    if env::args().len() > 1 {
        let log = store.create(Header::new(UuidIds.session_id(), "embed 1.0"));
        ask(Session::new(log, Arc::new(SystemClock)), &tools, "Write to Ada.").await;
    }
    let first = process::Command::new(env::current_exe()?).arg(&home).status()?; // it dies
    let id = store.list().await?.pop().ok_or("there is no session")?.id;
    let Judged::Sound(opened) = store.open(&id).await?.judge().await? else { panic!("damaged") };
    let session = Session::resume(opened, Arc::new(SystemClock));
    let told = ask(session, &tools, "Did Ada get it?").await; // recovered with this input
    println!("Process 1: {first}. Process 2 sent its model:\n{told}");
    let kept = ["Write to Ada.", "send Ada", "outcome of this call is unknown"];
    assert!(!first.success() && kept.iter().all(|words| told.contains(words)), "history lost");
    assert_eq!(fs::read_to_string(&tools.0)?, "Ada\n", "the letter was sent exactly once");
    Ok(fs::remove_dir_all(&home)?)
}
