//! What a step of a turn costs besides the model, the tools and the medium's syncs.
//!
//! Responsible for: runs with a model that answers at once, on sessions of growing live context. Must
//! not: measure syncs; the sessions lie in memory where the system has a place for that.

use crate::Done;
use crate::logs::now;
use crate::measure::{Row, median, show, timed};
use segno_model::Timestamp;
use segno_model::batch::Draft;
use segno_model::record::{
    AssistantBlock, AssistantMessage, ReplayClass, StopReason, ToolCall, UserMessage,
};
use segno_model::store::{Ids, Level, Opened, SessionLog, SessionStore};
use segno_runtime::{
    Answer, Event, Model, ModelError, ModelRequest, RunEnv, Session, Sleep, StopHandle,
    StreamEvent, ToolOutput, ToolPlan, ToolRun, ToolSpec, Tools, Verdict,
};
use segno_store::{FileStore, RealDisk, SystemClock, UuidIds};
use segno_testkit::sessions;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// Steps of one run.
const STEPS: usize = 20;

/// Calls one tool per reply until its steps are used up.
struct Parrot(AtomicUsize);

impl Model for Parrot {
    async fn reply(
        &self,
        request: ModelRequest<'_>,
        _: &mut (dyn FnMut(StreamEvent) + Send),
    ) -> Result<AssistantMessage, ModelError> {
        let step = self.0.fetch_add(1, Ordering::Relaxed);
        let mut reply =
            AssistantMessage { model: request.model.clone(), ..AssistantMessage::default() };
        if step < STEPS {
            let (id, name) = (format!("c{step}"), "read".to_owned());
            let call = ToolCall { id, name, arguments: "{}".to_owned() };
            reply.content.push(AssistantBlock::ToolCall(call));
            reply.stop = StopReason::ToolUse;
        } else {
            reply.content.push(AssistantBlock::Text { text: "done".to_owned() });
        }
        Ok(reply)
    }
}

/// Does nothing, at once.
struct Idle;

impl Tools for Idle {
    fn specs(&self) -> Vec<ToolSpec> {
        Vec::new()
    }
    async fn judge(&self, _: &ToolCall) -> Verdict {
        Verdict::Run(ToolPlan::new(ReplayClass::Opaque))
    }
    async fn ask(&self, _: &ToolCall, _: &str) -> Answer {
        Answer { allowed: true, scope: "once".to_owned(), reason: None }
    }
    async fn run(&self, _: &ToolCall, _: ToolRun<'_>) -> ToolOutput {
        ToolOutput::done("nothing was to be done")
    }
}

/// Steps on sessions with few and many live records.
pub(crate) fn turn(home: &Path) -> Done<Vec<Row>> {
    let memory = PathBuf::from("/dev/shm");
    let in_memory = if memory.is_dir() { Some(tempfile::tempdir_in(memory)?) } else { None };
    let home = in_memory.as_ref().map_or(home, |dir| dir.path());
    let store = FileStore::new(RealDisk, home);
    let mut rows = Vec::new();
    let mut few = Duration::ZERO;
    for records in [10, 1_000, 10_000] {
        let step = median((0..5).map(|_| step(&store, records)).collect::<Done<Vec<_>>>()?);
        if records == 10 {
            few = step;
            continue;
        }
        let what = format!("a step's overhead, {records} live records");
        let figure = format!("(10 records: {})", show(few));
        rows.push(Row::time(&what, step, Duration::from_millis(10), figure));
    }
    Ok(rows)
}

/// The time per step of one run on a session with this many records.
fn step(store: &FileStore<RealDisk>, records: usize) -> Done<Duration> {
    let mut log = store.create(sessions::header(UuidIds.session_id()));
    let text = "cargo test: \"ok\"\n".repeat(60);
    let pair = [sessions::prompt(&text), sessions::answer(&text)];
    let drafts = pair.into_iter().cycle().take(records);
    let drafts = drafts.map(|body| Draft::new(Timestamp(0), body)).collect();
    let all = now(log.append(drafts, Level::Synced))?;
    let active = segno_model::store::Active { records: all, ..Default::default() };
    let mut session = Session::resume(Opened { log, active }, Arc::new(SystemClock));
    let (_handle, stop) = StopHandle::new();
    let owner = segno_store::this_process(&SystemClock);
    let sleep: Sleep = Arc::new(|_| Box::pin(std::future::ready(())));
    let env = RunEnv { stop, ..RunEnv::new(sessions::model(), "You are measured.", owner, sleep) };
    let model = Parrot(AtomicUsize::new(0));
    let mut seen = |_: Event<'_>| {};
    let input = UserMessage::text("go on");
    let (took, done) =
        timed(|| now(segno_runtime::run(&mut session, &model, &Idle, env, input, &mut seen)));
    done?;
    Ok(took / u32::try_from(STEPS)?)
}
