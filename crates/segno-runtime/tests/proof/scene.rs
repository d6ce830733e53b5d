//! What the workloads share: a model and tools that follow a plan, effects that outlive the process, and
//! what the outside world was told.
//!
//! Responsible for: the world around a session on a simulated disk. Must not: judge.

use segno_model::compaction::Window;
use segno_model::context::Target;
use segno_model::inbox::admission::Admission;
use segno_model::inbox::{InputBody, NewInput, Words};
use segno_model::record::*;
use segno_model::store::{Clock, HeldSession as _, Judged, Owner, SessionStore as _, StoreError};
use segno_model::{Record, SessionId, Timestamp};
use segno_runtime::*;
use segno_store::disk::{Disk as _, DiskFile as _, Writes};
use segno_store::{FileLog, FileStore, Options};
use segno_testkit::sessions::Rng;
use segno_testkit::sim_clock::SimClock;
use segno_testkit::sim_disk::SimDisk;
use serde_json::json;
use std::collections::VecDeque;
use std::future::Future;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};

/// What was acknowledged, and what happened outside of the disk. It outlives every process.
#[derive(Default)]
pub(crate) struct Told {
    /// Records that were shown as durable, as their lines.
    pub(crate) shown: Vec<(SessionId, u64, Vec<u8>)>,
    /// Prompts that were tried, in order.
    pub(crate) tried: Vec<String>,
    /// Calls whose effect took place outside, in order.
    pub(crate) effects: Arc<Mutex<Vec<String>>>,
    /// Operations that the service behind `keyed` knows.
    pub(crate) service: Arc<Mutex<Vec<String>>>,
    /// Inputs of others that were acknowledged: their ids and texts.
    pub(crate) admitted: Arc<Mutex<Vec<(String, String)>>>,
    /// How many records were shown when each process began.
    pub(crate) begins: Vec<usize>,
}

impl Told {
    /// Another process begins.
    pub(crate) fn shown_by_now(&mut self) {
        self.begins.push(self.shown.len());
    }

    /// What was shown, a line per record, for people.
    pub(crate) fn story(&self) -> String {
        let mut story = String::new();
        for (i, (_, _, line)) in self.shown.iter().enumerate() {
            if self.begins.contains(&i) {
                story.push_str("--- another process\n");
            }
            let line = String::from_utf8_lossy(line);
            story.extend(line.chars().take(260));
            story.push('\n');
        }
        story
    }
}

/// Polls a future to its end; whatever it waits for comes from itself.
pub(crate) fn now<T>(future: impl Future<Output = T>) -> T {
    let mut future = pin!(future);
    for _ in 0..1_000_000 {
        if let Poll::Ready(value) = future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            return value;
        }
    }
    panic!("it waits for something that never comes")
}

pub(crate) fn store(disk: &SimDisk) -> FileStore<SimDisk> {
    // Checkpoints are part of what must survive, so there are many.
    let options = Options { checkpoint_every: 2500, ..Options::default() };
    FileStore::with_options(disk.clone(), "/segno", options)
}

pub(crate) fn id(n: u32) -> SessionId {
    let text = format!("0199{n:04x}-0000-7000-8000-{n:012x}");
    SessionId::parse(&text).unwrap_or_else(|_| panic!("{text} is an id"))
}

pub(crate) fn clock() -> Arc<dyn Clock> {
    Arc::new(SimClock::default())
}

/// A session that can go on; none when it does not exist.
pub(crate) fn resume(disk: &SimDisk, id: &SessionId) -> Result<Session<FileLog<SimDisk>>, String> {
    let opened = now(async {
        match store(disk).open(id).await?.judge().await? {
            Judged::Sound(opened) => Ok(opened),
            Judged::Damaged(_) => Err(StoreError::refused("it counts as damaged")),
        }
    });
    Ok(Session::resume(opened.map_err(|e| e.to_string())?, clock()))
}

pub(crate) fn model_ref() -> ModelRef {
    ModelRef::new("test", "m1")
}

pub(crate) fn owner() -> Owner {
    Owner { pid: 7, host: "h".to_owned(), boot: "b".to_owned(), ..Owner::default() }
}

/// Runs one prompt. What was shown is noted, as are the effects.
pub(crate) fn prompt(
    session: &mut Session<FileLog<SimDisk>>,
    text: &str,
    plan: &[Say],
    disk: &SimDisk,
    told: &mut Told,
) -> Result<Finished, RunError> {
    told.tried.push(text.to_owned());
    prompt_with(session, text, plan, &Around::still(disk), told)
}

/// What is around a run besides its session.
pub(crate) struct Around<'a> {
    pub(crate) disk: &'a SimDisk,
    pub(crate) sleep: Sleep,
    pub(crate) pause: Pause,
    /// Tokens of the model's context; contexts stay as they are where it is not known.
    pub(crate) window: Option<u64>,
    /// Whether the model's provider keeps states of its own.
    pub(crate) states: bool,
}

/// Who the model is where its provider keeps states.
pub(crate) fn target() -> Target {
    Target {
        model: model_ref(),
        dialect: "test".to_owned(),
        server: "here".to_owned(),
        is_own_address: true,
        states: true,
    }
}

/// As [`prompt`], with the timer and the scheduler of the caller's choice; the prompt is not noted.
pub(crate) fn prompt_with(
    session: &mut Session<FileLog<SimDisk>>,
    text: &str,
    plan: &[Say],
    around: &Around<'_>,
    told: &mut Told,
) -> Result<Finished, RunError> {
    let (model, tools, env) = around.run(plan, told);
    let (id, shown) = (session.id().clone(), &mut told.shown);
    let mut watch = |event: Event<'_>| note(&id, shown, &event);
    now(run(session, &model, &tools, env, UserMessage::text(text), &mut watch))
}

/// Works off what others sent and nobody has to be asked about.
pub(crate) fn work_off(
    session: &mut Session<FileLog<SimDisk>>,
    around: &Around<'_>,
    told: &mut Told,
) -> Result<(), RunError> {
    loop {
        let attended = now(session.attend(&owner()))?;
        let Some(input) = attended.next() else { return Ok(()) };
        let (model, tools, env) = around.run(&[], told);
        let (id, shown) = (session.id().clone(), &mut told.shown);
        let mut watch = |event: Event<'_>| note(&id, shown, &event);
        now(run(session, &model, &tools, env, input, &mut watch))?;
    }
}

/// Takes up what was interrupted; none when nothing was.
pub(crate) fn take_up_with(
    session: &mut Session<FileLog<SimDisk>>,
    plan: &[Say],
    around: &Around<'_>,
    told: &mut Told,
) -> Result<Option<Finished>, RunError> {
    let (model, tools, env) = around.run(plan, told);
    let (id, shown) = (session.id().clone(), &mut told.shown);
    let mut watch = |event: Event<'_>| note(&id, shown, &event);
    now(take_up(session, &model, &tools, env, &mut watch))
}

impl<'a> Around<'a> {
    /// Nothing waits, and nothing is a matter of chance.
    pub(crate) fn still(disk: &'a SimDisk) -> Self {
        let sleep: Sleep = Arc::new(|_| Box::pin(std::future::ready(())));
        Self { disk, sleep, pause: Pause::none(), window: None, states: false }
    }

    fn run(&self, plan: &[Say], told: &Told) -> (Planned, Outside, RunEnv<'static>) {
        let (handle, stop) = StopHandle::new();
        let model = Planned {
            plan: Mutex::new(plan.to_vec().into()),
            handle: handle.clone(),
            disk: self.disk.clone(),
            admitted: Arc::clone(&told.admitted),
            states: self.states,
        };
        let tools = Outside {
            disk: self.disk.clone(),
            effects: Arc::clone(&told.effects),
            service: Arc::clone(&told.service),
            handle,
            pause: self.pause.clone(),
        };
        let mut env = RunEnv::new(model_ref(), "You are a test.", owner(), self.sleep.clone());
        env.stop = stop;
        env.compaction.window = self.window.map(|context| Window { context, output: 0 });
        env.inbox = Some(Arc::new(StoreInbox { store: store(self.disk), id: id(1) }));
        (model, tools, env)
    }
}

fn note(id: &SessionId, shown: &mut Vec<(SessionId, u64, Vec<u8>)>, event: &Event<'_>) {
    if let Event::Recorded(record) = event {
        shown.push((id.clone(), record.seq(), line_of(record)));
    }
}

/// A record's line, as it stands in the log.
pub(crate) fn line_of(record: &Record) -> Vec<u8> {
    record.line.to_vec()
}

/// What the model does on one call.
#[derive(Debug, Clone)]
pub(crate) enum Say {
    Text(&'static str),
    /// Id and tool.
    Calls(&'static [(&'static str, &'static str)]),
    /// Streams this, and then it is ended.
    EndedIn(&'static str, StopKind),
    /// Before it answers, somebody else sends this under this id, to steer or behind the run.
    Sent(&'static str, &'static str, InputKind),
    /// Streams this and fails.
    Fails(&'static str, ModelErrorKind),
    /// Says something when it is asked for a summary that is none.
    Rambles,
}

/// Lets others run for a while whose length follows from a seed.
#[derive(Clone)]
pub(crate) struct Pause(Arc<Mutex<Option<Rng>>>);

impl Pause {
    /// Never waits.
    pub(crate) fn none() -> Self {
        Self(Arc::default())
    }

    pub(crate) fn seeded(seed: u64) -> Self {
        Self(Arc::new(Mutex::new(Some(Rng::new(seed)))))
    }

    async fn wait(&self) {
        let mut rounds = match &mut *self.0.lock().unwrap_or_else(PoisonError::into_inner) {
            Some(rng) => rng.below(6),
            None => 0,
        };
        std::future::poll_fn(move |context| {
            if rounds == 0 {
                return Poll::Ready(());
            }
            rounds -= 1;
            context.waker().wake_by_ref();
            Poll::Pending
        })
        .await;
    }
}

pub(crate) struct Planned {
    pub(crate) plan: Mutex<VecDeque<Say>>,
    pub(crate) handle: StopHandle,
    disk: SimDisk,
    admitted: Arc<Mutex<Vec<(String, String)>>>,
    states: bool,
}

impl Planned {
    /// Whether what comes next is no reply, or one that is no summary.
    fn misbehaves(&self) -> bool {
        let plan = self.plan.lock().unwrap_or_else(PoisonError::into_inner);
        matches!(plan.front(), Some(Say::EndedIn(..) | Say::Fails(..) | Say::Rambles))
    }

    fn next(&self) -> Option<Say> {
        self.plan.lock().unwrap_or_else(PoisonError::into_inner).pop_front()
    }
}

/// How the runtime asks for a summary.
const SUMMARISER: &str =
    "You summarise the history of a coding session so that the work can go on.";

const SUMMARY: &str = "<summary>\n## Goal\nto go on\n## Constraints\n## Decisions\n## Done\n\
    ## In progress\n## Next\n## Files\n## Open questions\n</summary>";

/// Another process sends an input; whether it was acknowledged is noted.
pub(crate) fn send(
    disk: &SimDisk,
    id: &SessionId,
    (input_id, text, kind): (&str, &str, InputKind),
    admitted: &Mutex<Vec<(String, String)>>,
) {
    let words = Words::text(text);
    let body = match kind {
        InputKind::Steer => InputBody::Steer(words),
        _ => InputBody::Queue(words),
    };
    let input = NewInput::new(input_id, body);
    let answer = now(store(disk).admit(id, &input, Timestamp(1_764_450_000_000)));
    if let Ok(Admission::Admitted) = answer {
        let acknowledged = (input_id.to_owned(), text.to_owned());
        admitted.lock().unwrap_or_else(PoisonError::into_inner).push(acknowledged);
    }
}

impl Model for Planned {
    async fn reply(
        &self,
        request: ModelRequest<'_>,
        events: &mut (dyn FnMut(StreamEvent) + Send),
    ) -> Result<AssistantMessage, ModelError> {
        if request.system == SUMMARISER && !self.misbehaves() {
            let text = SUMMARY.to_owned();
            return Ok(AssistantMessage::new(request.model, vec![AssistantBlock::Text { text }]));
        }
        let mut say = self.next();
        while let Some(Say::Sent(input, text, kind)) = say {
            send(&self.disk, request.session, (input, text, kind), &self.admitted);
            say = self.next();
        }
        let content = match say {
            Some(Say::Sent(..)) => Vec::new(),
            Some(Say::Calls(calls)) => calls.iter().map(call).collect(),
            Some(Say::EndedIn(text, kind)) => {
                events(StreamEvent::Text(text.to_owned()));
                self.handle.stop(kind);
                std::future::pending().await
            }
            Some(Say::Fails(text, kind)) => {
                events(StreamEvent::Text(text.to_owned()));
                let message = "it fails".to_owned();
                return Err(ModelError::new(kind, message));
            }
            Some(Say::Rambles) => vec![AssistantBlock::Text { text: "well, then".to_owned() }],
            Some(Say::Text(text)) => vec![AssistantBlock::Text { text: text.to_owned() }],
            None => vec![AssistantBlock::Text { text: "nothing more".to_owned() }],
        };
        Ok(AssistantMessage::new(request.model, content))
    }

    fn target(&self, _: &ModelRef) -> Option<Target> {
        self.states.then(target)
    }

    fn compacts(&self, _: &ModelRef, _: bool) -> bool {
        self.states
    }

    /// A state that is too large for a record, or what comes next in the plan.
    async fn compact(&self, _: ModelRequest<'_>) -> Result<OwnCompaction, ModelError> {
        match self.misbehaves().then(|| self.next()).flatten() {
            Some(Say::EndedIn(_, kind)) => {
                self.handle.stop(kind);
                std::future::pending().await
            }
            Some(Say::Fails(_, kind)) => Err(ModelError::new(kind, "it fails")),
            _ => {
                let items = format!("[[{}0]]", "0,".repeat(40_000));
                let items = serde_json::value::RawValue::from_string(items).expect("JSON");
                let native = Native { dialect: "test".to_owned(), items };
                Ok(OwnCompaction { native, usage: Some(Usage { input: 9, ..Usage::default() }) })
            }
        }
    }
}

fn call((id, name): &(&str, &str)) -> AssistantBlock {
    AssistantBlock::ToolCall(ToolCall {
        id: (*id).to_owned(),
        name: (*name).to_owned(),
        arguments: "{}".to_owned(),
    })
}

/// Tools by name: `read`; `act` (opaque, its effect is outside); `edit` (verified, a file on the same
/// disk); `wait` (opaque, the user stops it); `big` (reads, a long output kept beside a cut); `page` (reads,
/// 1,600 bytes); `keyed` (its effect is outside, and can be asked for by the call's id); `behind` (goes on in
/// the background, and has ended whenever it is asked for).
pub(crate) struct Outside {
    pub(crate) disk: SimDisk,
    pub(crate) effects: Arc<Mutex<Vec<String>>>,
    service: Arc<Mutex<Vec<String>>>,
    pub(crate) handle: StopHandle,
    pub(crate) pause: Pause,
}

/// The file that `edit` changes.
pub(crate) const EDITED: &str = "/project/file";

/// What `edit` call `id` puts into it.
pub(crate) fn edited_by(id: &str) -> Vec<u8> {
    format!("as {id} left it").into_bytes()
}

impl Outside {
    fn happened(&self, call: &str) {
        self.effects.lock().unwrap_or_else(PoisonError::into_inner).push(call.to_owned());
    }

    fn temp(call: &str) -> PathBuf {
        Path::new("/project").join(format!(".segno-{call}"))
    }

    fn write_temp(&self, call: &str) -> std::io::Result<u64> {
        let file = self.disk.create_new(&Self::temp(call), Writes::Sequential)?;
        let content = edited_by(call);
        let mut written = 0;
        while written < content.len() {
            written += file.write(&content[written..])?;
        }
        file.sync_all()?;
        self.disk.sync_dir(Path::new("/project"))?;
        Ok(file.meta()?.id.ino)
    }

    fn put_in_place(&self, call: &str) -> std::io::Result<()> {
        self.disk.rename(&Self::temp(call), Path::new(EDITED))?;
        self.disk.sync_dir(Path::new("/project"))
    }

    fn is_at(&self, path: &Path, ino: u64) -> bool {
        self.disk.meta(path).is_ok_and(|meta| meta.id.ino == ino)
    }
}

impl Tools for Outside {
    fn specs(&self) -> Vec<ToolSpec> {
        Vec::new()
    }

    async fn judge(&self, call: &ToolCall) -> Verdict {
        let class = match call.name.as_str() {
            "read" | "big" | "page" => ReplayClass::Read,
            "edit" => ReplayClass::Verified,
            "keyed" => ReplayClass::Keyed,
            _ => ReplayClass::Opaque,
        };
        let key = (class == ReplayClass::Keyed).then(|| call.id.clone());
        Verdict::Run(ToolPlan { key, ..ToolPlan::new(class) })
    }

    async fn prepare(&self, call: &ToolCall, plan: ToolPlan) -> Result<ToolPlan, ToolOutput> {
        if call.name != "edit" {
            return Ok(plan);
        }
        let ino = self.write_temp(&call.id).map_err(|e| ToolOutput::failed(e.to_string()))?;
        let probe = serde_json::value::to_raw_value(&json!({"ino": ino})).ok();
        Ok(ToolPlan { probe, before: Some(b"before".to_vec()), ..plan })
    }

    async fn establish(&self, begun: Begun<'_>) -> Settlement {
        let action = begun.action;
        if let Some(key) = &action.key {
            let known = self.service.lock().unwrap_or_else(PoisonError::into_inner).contains(key);
            return Settlement::Told(match known {
                true => ToolOutput::done("the service knows it"),
                false => ToolOutput::new("the service never heard of it", true, Outcome::NotRun),
            });
        }
        let ino = action.probe.as_ref().and_then(|probe| {
            serde_json::from_str::<serde_json::Value>(probe.get()).ok()?["ino"].as_u64()
        });
        // The process that renamed it may have died before syncing that, and power may still be lost.
        let durable = self.disk.sync_dir(Path::new("/project")).is_ok();
        let told = match ino.filter(|_| durable) {
            Some(ino) if self.is_at(Path::new(EDITED), ino) => ToolOutput::done("it is changed"),
            Some(ino) if self.is_at(&Self::temp(&action.call_id), ino) => {
                ToolOutput::new("it was not changed", true, Outcome::NotRun)
            }
            _ => ToolOutput::new("nobody knows", true, Outcome::Unknown),
        };
        Settlement::Told(told)
    }

    async fn news(&self, open: &[segno_model::checkpoint::Background]) -> Vec<News> {
        let ended = |b: &segno_model::checkpoint::Background| {
            News::new(&b.handle, format!("{} has ended", b.handle))
        };
        open.iter().map(ended).collect()
    }

    async fn run(&self, call: &ToolCall, run: ToolRun<'_>) -> ToolOutput {
        self.pause.wait().await;
        let output = self.do_it(call, run).await;
        self.pause.wait().await;
        output
    }
}

impl Outside {
    async fn do_it(&self, call: &ToolCall, run: ToolRun<'_>) -> ToolOutput {
        match call.name.as_str() {
            "edit" => match self.put_in_place(&call.id) {
                Ok(()) => ToolOutput::done("it is changed"),
                Err(e) => ToolOutput::new(e.to_string(), true, Outcome::Unknown),
            },
            "wait" => {
                self.happened(&call.id);
                self.handle.stop(StopKind::User);
                run.stop.stopped().await;
                ToolOutput::new("stopped half way", true, Outcome::Stopped)
            }
            "act" => {
                self.happened(&call.id);
                ToolOutput::done(format!("{} done", call.id))
            }
            "page" => ToolOutput::done("line of it\n".repeat(146)),
            "keyed" => {
                self.happened(&call.id);
                self.service.lock().unwrap_or_else(PoisonError::into_inner).push(call.id.clone());
                ToolOutput::done(format!("{} done", call.id))
            }
            "behind" => {
                self.happened(&call.id);
                ToolOutput::done("it goes on").in_background(&call.id)
            }
            "big" => {
                let mut output = ToolOutput::done("a cut");
                output.whole = Some(vec![b'x'; 1500]);
                output
            }
            _ => ToolOutput::done("what is there"),
        }
    }
}
