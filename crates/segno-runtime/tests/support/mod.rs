//! A model and tools that follow a plan, a log that counts syncs, and sessions as text.
#![allow(dead_code, unreachable_pub, reason = "a test binary has no users of its own")]

use segno_model::batch::Draft;
use segno_model::context::{ContextMessage, UNKNOWN_OUTCOME};
use segno_model::inbox::Inbox;
use segno_model::record::*;
use segno_model::state::State;
use segno_model::store::*;
use segno_model::{Pos, Record, Seq, Timestamp};
use segno_runtime::*;
use segno_testkit::sim_clock::SimClock;
use segno_testkit::strict_store::StrictStore;
use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

/// What the model does on one call.
#[derive(Debug, Clone)]
pub enum Say {
    Text(&'static str),
    Calls(&'static [(&'static str, &'static str)]),
    Fails(ModelErrorKind),
    /// Streams this and then hangs until it is dropped.
    Hangs(&'static str),
}

#[derive(Default)]
pub struct PlannedModel {
    pub plan: Mutex<VecDeque<Say>>,
    /// Each request as text.
    pub seen: Mutex<Vec<String>>,
    /// Asked for as soon as the model hangs.
    pub stop_when_hanging: Mutex<Option<(StopHandle, StopKind)>>,
}

impl PlannedModel {
    pub fn new(plan: &[Say]) -> Self {
        Self { plan: Mutex::new(plan.iter().cloned().collect()), ..Self::default() }
    }
}

impl Model for PlannedModel {
    async fn reply(
        &self,
        request: ModelRequest<'_>,
        events: &mut (dyn FnMut(StreamEvent) + Send),
    ) -> Result<AssistantMessage, ModelError> {
        self.seen.lock().expect("not poisoned").push(render(request.messages));
        let say = self
            .plan
            .lock()
            .expect("not poisoned")
            .pop_front()
            .unwrap_or(Say::Text("(nothing planned)"));
        let mut reply =
            AssistantMessage { model: request.model.clone(), ..AssistantMessage::default() };
        match say {
            Say::Text(text) => {
                events(StreamEvent::Text(text.to_owned()));
                reply.content.push(AssistantBlock::Text { text: text.to_owned() });
            }
            Say::Calls(calls) => {
                reply.stop = StopReason::ToolUse;
                reply.content.extend(calls.iter().map(|(id, name)| {
                    AssistantBlock::ToolCall(ToolCall {
                        id: (*id).to_owned(),
                        name: (*name).to_owned(),
                        arguments: "{}".to_owned(),
                    })
                }));
            }
            Say::Fails(kind) => {
                return Err(ModelError::new(kind, format!("{kind:?}")));
            }
            Say::Hangs(text) => {
                events(StreamEvent::Text(text.to_owned()));
                if let Some((handle, kind)) = &*self.stop_when_hanging.lock().expect("not poisoned")
                {
                    handle.stop(*kind);
                }
                std::future::pending::<()>().await;
            }
        }
        Ok(reply)
    }
}

/// Tools by name: `read` (class read), `write` and `bash` (opaque), `deny` (refused), `ask` (asks, then
/// allowed unless `answer` says no), `wait` (opaque; runs until stopped), `big` (a large output), `long` (5,000 bytes).
pub struct PlannedTools {
    pub ran: Mutex<Vec<String>>,
    pub answer: Answer,
    /// Asked for as soon as `wait` runs.
    pub stop_when_waiting: Option<(StopHandle, StopKind)>,
    /// What was durable when each effect started: the kinds of the records on the medium.
    pub durable_at_start: Mutex<Vec<Vec<String>>>,
    pub store: StrictStore,
}

impl PlannedTools {
    pub fn new(store: &StrictStore) -> Self {
        let answer = Answer { allowed: true, scope: "once".to_owned(), reason: None };
        Self {
            ran: Mutex::default(),
            answer,
            stop_when_waiting: None,
            durable_at_start: Mutex::default(),
            store: store.clone(),
        }
    }
}

impl Tools for PlannedTools {
    fn specs(&self) -> Vec<ToolSpec> {
        Vec::new()
    }

    async fn judge(&self, call: &ToolCall) -> Verdict {
        let class = match call.name.as_str() {
            "read" | "big" | "long" => ReplayClass::Read,
            _ => ReplayClass::Opaque,
        };
        let plan = ToolPlan::new(class);
        match call.name.as_str() {
            "deny" => Verdict::Refuse(ToolOutput::denied("not allowed")),
            "ask" => Verdict::Ask { question: "may I?".to_owned(), plan },
            _ => Verdict::Run(plan),
        }
    }

    async fn ask(&self, _: &ToolCall, _: &str) -> Answer {
        self.answer.clone()
    }

    async fn run(&self, call: &ToolCall, run: ToolRun<'_>) -> ToolOutput {
        self.ran.lock().expect("not poisoned").push(format!("{} {}", call.name, call.id));
        (run.progress)(Progress::Output("…".to_owned()));
        if call.name == "wait" {
            if let Some((handle, kind)) = &self.stop_when_waiting {
                handle.stop(*kind);
            }
            run.stop.stopped().await;
            return ToolOutput::new("stopped half way", true, Outcome::Stopped);
        }
        if call.name == "long" {
            return ToolOutput::done("x".repeat(5_000));
        }
        if call.name == "big" {
            let mut output = ToolOutput::done("a cut");
            output.whole = Some(vec![b'x'; 200_000]);
            return output;
        }
        ToolOutput::done(format!("{} done", call.id))
    }
}

/// What a watched log did, and which of its appends are to fail.
#[derive(Default)]
pub struct Watch {
    pub syncs: AtomicUsize,
    pub appends: AtomicUsize,
    /// By number of the append, from 0.
    pub faults: Mutex<BTreeMap<usize, StoreError>>,
    /// Whether what another tip needs can be read.
    pub fail_reading: AtomicBool,
}

/// A log that is counted and fails on command.
pub struct Watched<L> {
    pub log: L,
    pub watch: Arc<Watch>,
}

impl<L: SessionLog + Sync> SessionLog for Watched<L> {
    fn header(&self) -> &Header {
        self.log.header()
    }
    fn state(&self) -> &State {
        self.log.state()
    }
    async fn append(&mut self, d: Vec<Draft>, level: Level) -> Result<Vec<Record>, StoreError> {
        let number = self.watch.appends.fetch_add(1, Ordering::SeqCst);
        if let Some(error) = self.watch.faults.lock().expect("not poisoned").remove(&number) {
            return Err(error);
        }
        if level == Level::Synced {
            self.watch.syncs.fetch_add(1, Ordering::SeqCst);
        }
        self.log.append(d, level).await
    }
    async fn sync(&mut self) -> Result<(), StoreError> {
        self.watch.syncs.fetch_add(1, Ordering::SeqCst);
        self.log.sync().await
    }
    async fn put_blob(&mut self, bytes: &[u8], head: &str) -> Result<BlobRef, StoreError> {
        self.log.put_blob(bytes, head).await
    }
    async fn blob(&self, blob: &BlobRef) -> Result<Vec<u8>, StoreError> {
        self.log.blob(blob).await
    }
    async fn pending(&mut self) -> Result<Inbox, StoreError> {
        self.log.pending().await
    }
    async fn clear_inbox(&mut self) -> Result<(), StoreError> {
        self.log.clear_inbox().await
    }
    async fn save_draft(&mut self, request: Seq, more: &str) -> Result<(), StoreError> {
        self.log.save_draft(request, more).await
    }
    async fn draft(&self) -> Result<Option<DraftText>, StoreError> {
        self.log.draft().await
    }
    async fn active(&self, tip: Option<Pos>) -> Result<Active, StoreError> {
        if self.watch.fail_reading.load(Ordering::SeqCst) {
            return Err(StoreError::refused("it cannot be read"));
        }
        self.log.active(tip).await
    }
}

pub fn clock() -> Arc<dyn Clock> {
    Arc::new(SimClock::default())
}

pub fn model_ref() -> ModelRef {
    ModelRef { provider: "test".to_owned(), id: "m1".to_owned() }
}

pub fn env(stop: &Stop) -> RunEnv<'static> {
    RunEnv {
        model: model_ref(),
        system: "You are a test.",
        thinking: None,
        owner: Owner { pid: 7, host: "h".to_owned(), boot: "b".to_owned(), ..Owner::default() },
        retry: RetryPolicy::default(),
        max_requests: None,
        limits: Limits::default(),
        compaction: segno_model::compaction::Settings::default(),
        sleep: Arc::new(|_| Box::pin(std::future::ready(()))),
        stop: stop.clone(),
        inbox: None,
        takes_late: false,
    }
}

/// A request's messages, one per line.
pub fn render(messages: &[ContextMessage]) -> String {
    messages.iter().map(render_one).collect::<Vec<_>>().join("\n")
}

fn render_one(message: &ContextMessage) -> String {
    match message {
        ContextMessage::User { content, .. } => format!("user: {}", blocks(content)),
        ContextMessage::State(state) => format!("state: {}", state.native.items.get()),
        ContextMessage::Assistant(turn) => {
            let parts: Vec<String> = turn
                .content
                .iter()
                .map(|block| match block {
                    AssistantBlock::Text { text } => text.clone(),
                    AssistantBlock::ToolCall(call) => format!("[{} {}]", call.name, call.id),
                    other => format!("{other:?}"),
                })
                .collect();
            format!("assistant: {}", parts.join(" "))
        }
        ContextMessage::Results(results) => {
            let parts: Vec<String> =
                results.iter().map(|r| format!("{}={}", r.call_id, blocks(&r.content))).collect();
            format!("results: {}", parts.join("; "))
        }
    }
}

fn blocks(content: &[Block]) -> String {
    let texts = content.iter().map(|block| match block {
        Block::Text { text: Text::Inline(text) } if text == UNKNOWN_OUTCOME => "UNKNOWN".to_owned(),
        Block::Text { text: Text::Inline(text) } if text.len() > 100 => {
            format!("{} bytes", text.len())
        }
        Block::Text { text: Text::Inline(text) } => text.clone(),
        other => format!("{other:?}"),
    });
    texts.collect::<Vec<_>>().join("|")
}

/// A record as a few words.
pub fn brief(record: &Record) -> String {
    match record.body() {
        Body::Message(message) => match &**message {
            Message::User(user) => format!("user({})", blocks(&user.content)),
            Message::Assistant(reply) if reply.partial => {
                format!("partial({} {:?})", reply.text(), reply.stop)
            }
            Message::Assistant(reply) => match reply.calls().count() {
                0 => format!("assistant({})", reply.text()),
                n => format!("calls({n})"),
            },
            Message::Tool(result) => {
                format!("result({} {:?} {:?})", result.call_id, result.outcome, result.established)
            }
        },
        Body::Run(run) => match &run.state {
            RunState::Started { attempt, .. } => format!("run {} started {attempt}", run.run),
            RunState::Stopping { .. } => format!("run {} stopping", run.run),
            RunState::Ended { end, .. } => format!("run {} {end:?}", run.run),
        },
        Body::Request(request) => format!("request {}", request.number),
        Body::Action(action) => format!("action {}", action.call_id),
        Body::Approval(approval) => match &approval.state {
            ApprovalState::Asked { .. } => format!("asked {}", approval.call_id),
            ApprovalState::Answered { allowed, .. } => {
                format!("answered {} {allowed}", approval.call_id)
            }
        },
        other => other.kind().to_owned(),
    }
}

/// All records of a log's bytes except the header, as few words each.
pub fn log_text(store: &StrictStore, id: &segno_model::SessionId) -> String {
    let bytes = store.log_bytes(id).unwrap_or_default();
    let lines = bytes.split(|b| *b == b'\n').filter(|line| !line.is_empty()).skip(1);
    lines
        .map(|line| segno_model::line::decode(line, 0).map_or("BAD".to_owned(), |r| brief(&r)))
        .collect::<Vec<_>>()
        .join("\n")
}

pub fn at(ms: i64) -> Timestamp {
    Timestamp(ms)
}
