//! What is on the medium at the moments that count: when the model is asked, a question is put, an effect
//! starts, a tool hears of a stop, the caller is told the end.

mod support;

use segno_model::batch::Draft;
use segno_model::inbox::Inbox;
use segno_model::record::*;
use segno_model::state::State;
use segno_model::store::{Active, Level, SessionLog, SessionStore as _, StoreError};
use segno_model::{Pos, Record, SessionId};
use segno_runtime::*;
use segno_testkit::sessions;
use segno_testkit::strict_store::{StrictLog, StrictStore};
use std::sync::{Arc, Mutex};
use support::*;

fn id() -> SessionId {
    SessionId::parse("0195f3a0-0000-7000-8000-000000000003").expect("an id")
}

/// The newest records that would survive power loss now, in few words.
fn newest_durable(store: &StrictStore, count: usize) -> String {
    let bytes = store.durable_bytes(&id()).unwrap_or_default();
    let lines = bytes.split(|b| *b == b'\n').filter(|line| !line.is_empty());
    let all: Vec<_> = lines
        .map(|line| segno_model::line::decode(line, 0).map_or("BAD".to_owned(), |r| brief(&r)))
        .collect();
    all[all.len().saturating_sub(count)..].join(", ")
}

/// Notes what was durable at each moment.
#[derive(Clone)]
struct Notes {
    store: StrictStore,
    lines: Arc<Mutex<Vec<String>>>,
}

impl Notes {
    fn note(&self, moment: &str, count: usize) {
        let line = format!("{moment}: {}", newest_durable(&self.store, count));
        self.lines.lock().expect("lines").push(line);
    }
}

/// A log that lets every other task run before it does anything, as one on a network does.
struct Slow(StrictLog);

impl SessionLog for Slow {
    fn header(&self) -> &Header {
        self.0.header()
    }
    fn state(&self) -> &State {
        self.0.state()
    }
    async fn append(&mut self, d: Vec<Draft>, level: Level) -> Result<Vec<Record>, StoreError> {
        for _ in 0..20 {
            tokio::task::yield_now().await;
        }
        self.0.append(d, level).await
    }
    async fn sync(&mut self) -> Result<(), StoreError> {
        tokio::task::yield_now().await;
        self.0.sync().await
    }
    async fn put_blob(&mut self, bytes: &[u8], head: &str) -> Result<BlobRef, StoreError> {
        self.0.put_blob(bytes, head).await
    }
    async fn blob(&self, blob: &BlobRef) -> Result<Vec<u8>, StoreError> {
        self.0.blob(blob).await
    }
    async fn pending(&mut self) -> Result<Inbox, StoreError> {
        self.0.pending().await
    }
    async fn clear_inbox(&mut self) -> Result<(), StoreError> {
        self.0.clear_inbox().await
    }
    async fn active(&self, tip: Option<Pos>) -> Result<Active, StoreError> {
        self.0.active(tip).await
    }
}

struct Noting {
    notes: Notes,
    model: PlannedModel,
    handle: StopHandle,
}

impl Model for Noting {
    async fn reply(
        &self,
        request: ModelRequest<'_>,
        events: &mut (dyn FnMut(StreamEvent) + Send),
    ) -> Result<AssistantMessage, ModelError> {
        self.notes.note("asked", 1);
        self.model.reply(request, events).await
    }
}

impl Tools for Noting {
    fn specs(&self) -> Vec<ToolSpec> {
        Vec::new()
    }
    async fn judge(&self, call: &ToolCall) -> Verdict {
        let plan = ToolPlan::new(ReplayClass::Opaque);
        match call.name.as_str() {
            "ask" => Verdict::Ask { question: "may I?".to_owned(), plan },
            _ => Verdict::Run(plan),
        }
    }
    async fn ask(&self, _: &ToolCall, _: &str) -> Answer {
        self.notes.note("question put", 1);
        Answer { allowed: true, scope: "once".to_owned(), reason: None }
    }
    async fn run(&self, call: &ToolCall, run: ToolRun<'_>) -> ToolOutput {
        self.notes.note(&format!("{} starts", call.id), 2);
        if call.name == "wait" {
            // What a tool leaves running hears of the stop at once, not only when it is asked.
            let (notes, stop) = (self.notes.clone(), run.stop.clone());
            let heard = tokio::spawn(async move {
                stop.stopped().await;
                notes.note("stop heard", 1);
            });
            tokio::task::yield_now().await;
            self.handle.stop(StopKind::User);
            run.stop.stopped().await;
            heard.await.expect("it heard");
            return ToolOutput::new("stopped half way", true, Outcome::Stopped);
        }
        ToolOutput::done("done")
    }
}

async fn moments(plan: &[Say]) -> Vec<String> {
    let store = StrictStore::default();
    let (handle, stop) = StopHandle::new();
    let notes = Notes { store: store.clone(), lines: Arc::default() };
    let noting = Noting { notes: notes.clone(), model: PlannedModel::new(plan), handle };
    let mut session = Session::new(Slow(store.create(sessions::header(id()))), clock());
    let input = UserMessage::text("go");
    run(&mut session, &noting, &noting, env(&stop), input, &mut ()).await.expect("runs");
    notes.note("told", 2);
    notes.lines.lock().expect("lines").clone()
}

/// The input and each request are durable before the model is asked, a question before it is put, the
/// intents of a round before its first effect starts, the results before the next request, and the end
/// before the caller is told. Covers: G1, G7, G8, #43.
#[tokio::test]
async fn everything_is_durable_before_what_relies_on_it() {
    let plan = [Say::Calls(&[("a", "ask"), ("b", "write")]), Say::Text("ok")];
    let expected = [
        "asked: request 1",
        "question put: asked a",
        "a starts: action a, action b",
        "b starts: action a, action b",
        "asked: request 2",
        "told: assistant(ok), run 1 Completed",
    ];
    assert_eq!(moments(&plan).await, expected);
}

/// Covers: G9.
#[tokio::test]
async fn a_stop_is_durable_before_any_tool_hears_of_it() {
    let expected = [
        "asked: request 1",
        "a starts: calls(1), action a",
        "stop heard: run 1 stopping",
        "told: result(a Stopped Stop), run 1 Stopped",
    ];
    assert_eq!(moments(&[Say::Calls(&[("a", "wait")])]).await, expected);
}

/// Reads, each of which ends only after the other has begun.
struct Together(Mutex<usize>);

impl Tools for Together {
    fn specs(&self) -> Vec<ToolSpec> {
        Vec::new()
    }
    async fn judge(&self, _: &ToolCall) -> Verdict {
        Verdict::Run(ToolPlan::new(ReplayClass::Read))
    }
    async fn run(&self, _: &ToolCall, _: ToolRun<'_>) -> ToolOutput {
        *self.0.lock().expect("count") += 1;
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
        ToolOutput::done(format!("{} had begun", *self.0.lock().expect("count")))
    }
}

/// Reads that stand next to each other run at the same time. Covers: EV2.
#[tokio::test]
async fn neighbouring_reads_run_together() {
    let store = StrictStore::default();
    let model = PlannedModel::new(&[Say::Calls(&[("a", "r"), ("b", "r")]), Say::Text("ok")]);
    let mut session = Session::new(store.create(sessions::header(id())), clock());
    let tools = Together(Mutex::default());
    let (input, never) = (UserMessage::text("go"), Stop::never());
    run(&mut session, &model, &tools, env(&never), input, &mut ()).await.expect("runs");
    let seen = model.seen.lock().expect("seen")[1].clone();
    assert!(seen.ends_with("results: a=2 had begun; b=2 had begun"), "{seen}");
}
