//! A parent and its child on a disk that loses power: before every change of the disk while a child is launched,
//! runs, is delivered, is continued, works in the background and is taken up.
//!
//! Responsible for: what must hold of both logs then. Must not: depend on time; `SEGNO_CRASH_FAMILY` says how many
//! states are looked at.

use segno_agent::permission::Mode;
use segno_agent::subagent::{Family, Nursery, Roles};
use segno_agent::tool::{Toolbox, ToolboxConfig};
use segno_agent::{Agent, Surroundings, World};
use segno_model::context::ContextMessage;
use segno_model::record::{
    AssistantBlock, AssistantMessage, AttemptStatus, Body, Message, ModelChange, ModelRef, RunEnd,
    RunState, UserMessage,
};
use segno_model::store::{HeldSession as _, Judged, Owner, Scanned, SessionStore as _, StoreError};
use segno_model::{Record, SessionId};
use segno_runtime::{
    Limits, Model, ModelError, ModelRequest, RetryPolicy, Session, Stop, StreamEvent,
};
use segno_store::{FileLog, FileStore};
use segno_testkit::sessions;
use segno_testkit::sim_clock::SimClock;
use segno_testkit::sim_disk::SimDisk;
use serde_json::json;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

type Parent = Agent<FileLog<SimDisk>, Toolbox>;

/// States that are looked at by the test; `cargo xtask crash` looks at more.
const USUAL: usize = 600;

fn parent_id() -> SessionId {
    SessionId::parse("0195f3a0-0000-7000-8000-000000000001").unwrap()
}

fn model_ref() -> ModelRef {
    ModelRef::new("test", "one")
}

/// Plays parent and child, from nothing but what it is sent.
#[derive(Clone, Default)]
struct Player {
    /// How often children were asked.
    of_children: Arc<Mutex<usize>>,
}

impl Player {
    fn say(child: bool, last: &str) -> AssistantBlock {
        let task = |arguments: serde_json::Value| {
            AssistantBlock::call("c", "task", &arguments.to_string())
        };
        match (child, last) {
            (true, "one" | "two") => AssistantBlock::call("r", "ls", "{}"),
            (true, last) => AssistantBlock::text(format!("words behind {}", last.len())),
            (false, "go") => task(json!({"prompt": "one"})),
            (false, "beside") => task(json!({"prompt": "one", "background": true})),
            (false, last) => match last.strip_prefix("again ") {
                Some(id) => task(json!({"resume": id, "prompt": "two"})),
                None => AssistantBlock::text("told"),
            },
        }
    }
}

impl Model for Player {
    async fn reply(
        &self,
        request: ModelRequest<'_>,
        _: &mut (dyn FnMut(StreamEvent) + Send),
    ) -> Result<AssistantMessage, ModelError> {
        let child = request.system.contains("# Role");
        *self.of_children.lock().unwrap() += usize::from(child);
        let last = request.messages.last().map(ContextMessage::text).unwrap_or_default();
        Ok(AssistantMessage::new(request.model, vec![Self::say(child, &last)]))
    }
}

/// Where the files of the project are; sessions are on the simulated disk.
struct Home {
    store: FileStore<SimDisk>,
    player: Player,
    cwd: PathBuf,
}

impl Nursery for Home {
    type Store = FileStore<SimDisk>;
    type Model = Player;

    fn store(&self) -> &FileStore<SimDisk> {
        &self.store
    }

    fn connect(&self, _: &ModelRef, _: Option<&str>) -> Result<Player, String> {
        Ok(self.player.clone())
    }

    fn actions(&self, _: &FileLog<SimDisk>) -> Option<PathBuf> {
        None
    }

    fn surroundings(&self) -> Surroundings {
        around(&self.cwd)
    }

    fn world(&self) -> World {
        world()
    }
}

fn around(cwd: &Path) -> Surroundings {
    let cwd = cwd.display().to_string();
    Surroundings { system: "You work.".to_owned(), cwd, ..Surroundings::default() }
}

fn world() -> World {
    World {
        clock: Arc::new(SimClock::default()),
        sleep: Arc::new(|_| Box::pin(std::future::ready(()))),
        owner: Owner { host: "h".to_owned(), ..Owner::default() },
        retry: RetryPolicy { max_attempts: 1, ..RetryPolicy::default() },
        limits: Limits::default(),
    }
}

/// One process.
struct Process {
    store: FileStore<SimDisk>,
    player: Player,
    cwd: PathBuf,
}

impl Process {
    fn on(disk: &SimDisk, cwd: &Path) -> Self {
        let store = FileStore::new(disk.clone(), "/segno");
        Self { store, player: Player::default(), cwd: cwd.to_owned() }
    }

    fn agent(&self, session: Session<FileLog<SimDisk>>) -> Parent {
        let (store, player) = (self.store.clone(), self.player.clone());
        let home = Home { store, player, cwd: self.cwd.clone() };
        let tools = Toolbox::new(ToolboxConfig {
            session: (parent_id().to_string(), "h".to_owned()),
            cwd: self.cwd.clone(),
            root: self.cwd.clone(),
            home: None,
            own: Vec::new(),
            mode: Mode::All,
            rules: Vec::new(),
            hidden_env: Vec::new(),
            supervision: None,
            locks: None,
            servers: None,
            asker: None,
        });
        let roles = Roles::load(&self.cwd, None);
        let tools = tools.with_subagents(Family::new(home, parent_id(), roles));
        Agent::new(session, tools, around(&self.cwd), world())
    }

    /// The parent; a new one where nothing of it is there.
    async fn parent(&self) -> Result<Parent, StoreError> {
        let clock = Arc::new(SimClock::default());
        let held = match self.store.open(&parent_id()).await {
            Err(StoreError::NotFound(_)) => {
                let log = self.store.create(sessions::header(parent_id()));
                let mut session = Session::new(log, clock);
                let change = ModelChange { model: model_ref(), chosen: true, base_url: None };
                session.set_model(change).await?;
                return Ok(self.agent(session));
            }
            held => held?,
        };
        match held.judge().await? {
            Judged::Sound(opened) => Ok(self.agent(Session::resume(opened, clock))),
            Judged::Damaged(_) => Err(StoreError::refused("it counts as damaged")),
        }
    }

    async fn ask(&self, words: &str) -> Result<(), String> {
        let mut parent = self.parent().await.map_err(|e| e.to_string())?;
        let input = UserMessage::text(words);
        let (name, stop, mut nobody) = (model_ref(), Stop::never(), ());
        let run = parent.prompt(&self.player, &name, input, &stop, &mut nobody);
        run.await.map(drop).map_err(|e| e.to_string())
    }

    /// Asks, and gives the status and the code of the attempt that came of it.
    async fn last(&self, words: &str) -> Result<(AttemptStatus, Option<String>), String> {
        self.ask(words).await?;
        let records = self.records(&parent_id()).await;
        let last =
            segno_model::child::attempts(&records).last().map(|a| (a.status, a.reason.clone()));
        last.ok_or_else(|| "no attempt is on record".to_owned())
    }

    async fn take_up(&self) -> Result<(), String> {
        let mut parent = self.parent().await.map_err(|e| e.to_string())?;
        let (name, stop, mut nobody) = (model_ref(), Stop::never(), ());
        let taken = parent.take_up(&self.player, &name, &stop, &mut nobody);
        taken.await.map(drop).map_err(|e| e.to_string())
    }

    async fn records(&self, id: &SessionId) -> Vec<Record> {
        let mut records = Vec::new();
        let mut visit = |step| {
            if let Scanned::Record(record) = step {
                records.push(*record);
            }
            true
        };
        // What is not there has none.
        let _ = self.store.scan(id, &mut visit).await;
        records
    }

    fn children(&self) -> Vec<SessionId> {
        self.store.children_now(&parent_id()).unwrap().into_iter().map(|c| c.id).collect()
    }

    /// Both logs, a word per record, for one who reads what failed.
    async fn story(&self) -> String {
        let mut story = String::new();
        for id in [vec![parent_id()], self.children()].concat() {
            let records = self.records(&id).await;
            let lines = records.iter().map(|r| String::from_utf8_lossy(&r.line).into_owned());
            story.push_str(&format!("--- {id}\n{}\n", lines.collect::<Vec<_>>().join("\n")));
        }
        story
    }
}

/// What is done while power may be lost.
#[derive(Clone, Copy)]
struct Workload {
    name: &'static str,
    /// What the parent is told, one process each; `again` continues the child, an empty one takes up.
    before: &'static [&'static str],
    act: &'static str,
    /// Power is lost before this change, all that was on its way arriving, when `act` begins.
    cut: Option<u64>,
}

const WORKLOADS: [Workload; 6] = [
    Workload { name: "launch", before: &[], act: "go", cut: None },
    Workload { name: "continue", before: &["go"], act: "again", cut: None },
    Workload { name: "background", before: &[], act: "beside", cut: None },
    Workload { name: "taking-up", before: &["go"], act: "", cut: Some(45) },
    Workload { name: "taking-up-later", before: &["go"], act: "", cut: Some(70) },
    Workload { name: "after-background", before: &["beside"], act: "and?", cut: Some(50) },
];

async fn act(disk: &SimDisk, cwd: &Path, words: &str) -> Result<(), String> {
    let process = Process::on(disk, cwd);
    match words {
        "" => process.take_up().await,
        "again" => match process.children().first() {
            Some(child) => process.ask(&format!("again {child}")).await,
            None => Ok(()),
        },
        words => process.ask(words).await,
    }
}

async fn prepared(workload: &Workload, cwd: &Path) -> SimDisk {
    let disk = SimDisk::new(1);
    if let Some(cut) = workload.cut {
        disk.stop_before_change(cut);
    }
    for words in workload.before {
        // It fails where power is lost.
        let _ = act(&disk, cwd, words).await;
    }
    let states = disk.crash_states();
    states.nth(states.total() - 1)
}

/// Whoever works in the background as far as the parent knows has a log.
async fn are_there(process: &Process) -> Result<(), String> {
    let Ok(parent) = process.store.read(&parent_id()).await else { return Ok(()) };
    for open in &parent.state.in_force.open_background {
        let child = open.handle.split('.').next().unwrap_or_default();
        let child = SessionId::parse(child).map_err(|e| e.to_string())?;
        let found = process.store.read(&child).await;
        found.map_err(|e| format!("{child} is said to work in the background: {e}"))?;
    }
    Ok(())
}

/// What must hold after power was lost, whenever that was.
async fn judge(disk: &SimDisk, cwd: &Path) -> Result<(), String> {
    let process = Process::on(disk, cwd);
    if process.store.log_path(&parent_id()).is_err() {
        return Ok(());
    }
    let begun = process.children();
    are_there(&process).await?;
    process.take_up().await?;
    // Recovery asks a child's model only for what the parent's model calls anew.
    for words in ["and?", "and now?"] {
        process.ask(words).await?;
    }
    let (children, records) = (process.children(), process.records(&parent_id()).await);
    if children.len() > 1 || begun.len() > 1 {
        return Err(format!("it was launched twice: {children:?}"));
    }
    let (mut calls, mut results, mut ends) = (0, 0, Vec::new());
    for record in &records {
        let Body::Message(message) = record.body() else { continue };
        match &**message {
            Message::Assistant(reply) => calls += reply.calls().count(),
            Message::Tool(_) => results += 1,
            Message::User(user) => ends.extend(user.input_id.clone()),
        }
    }
    if calls != results {
        return Err(format!("{calls} calls, {results} results"));
    }
    if ends.iter().collect::<BTreeSet<_>>().len() != ends.len() {
        return Err(format!("an end was told twice: {ends:?}"));
    }
    let attempts = segno_model::child::attempts(&records);
    let Some(child) = children.first() else { return Ok(()) };
    truthful(&process, child, &attempts).await?;
    goes_on(&process, child).await
}

/// Each attempt is told as the child's log has it, and each prompt was given once.
async fn truthful(
    process: &Process,
    child: &SessionId,
    attempts: &[&segno_model::record::Attempt],
) -> Result<(), String> {
    let own = process.records(child).await;
    let whole = own.first().is_some_and(|r| matches!(r.body(), Body::Session(_)));
    let (mut given, mut completed, mut newest) = (Vec::new(), BTreeSet::new(), None);
    for record in &own {
        match record.body() {
            Body::Message(message) => {
                if let Message::User(UserMessage { input_id: Some(id), .. }) = &**message {
                    newest = id.rsplit(':').next().map(str::to_owned);
                    given.extend(newest.clone());
                }
            }
            Body::Run(run) => {
                if matches!(run.state, RunState::Ended { end: RunEnd::Completed, .. }) {
                    completed.extend(newest.clone());
                }
            }
            _ => {}
        }
    }
    if given.iter().collect::<BTreeSet<_>>().len() != given.len() {
        return Err(format!("a prompt was given twice: {given:?}"));
    }
    for attempt in attempts {
        let (is, was) = (attempt.status, completed.contains(&attempt.id));
        if (is == AttemptStatus::Completed) != was {
            return Err(format!("attempt {} is told as {is:?}; completed: {was}", attempt.id));
        }
        // Of one whose first line did not arrive, nobody can know.
        let known = whole || is != AttemptStatus::Unknown;
        if known && (is == AttemptStatus::Rejected) == given.contains(&attempt.id) {
            return Err(format!("attempt {} is told as {is:?}; given: {given:?}", attempt.id));
        }
    }
    match given.iter().find(|id| !attempts.iter().any(|attempt| attempt.id == **id)) {
        Some(untold) => Err(format!("attempt {untold} was never told of")),
        None => Ok(()),
    }
}

/// Whatever became of it: one that was given anything can be continued. One whose first line did not arrive, and whose
/// model therefore was never asked, is refused by name, and its parent starts another one.
async fn goes_on(process: &Process, child: &SessionId) -> Result<(), String> {
    let own = process.records(child).await;
    let is_prompt =
        |r: &Record| matches!(r.body(), Body::Message(m) if matches!(&**m, Message::User(_)));
    if !own.iter().any(is_prompt) {
        return Ok(());
    }
    let header = process.store.read(child).await.map_err(|e| e.to_string())?.header;
    if header.launch.is_some() {
        return match process.last(&format!("again {child}")).await? {
            (AttemptStatus::Completed, _) => Ok(()),
            other => Err(format!("it cannot be continued: {other:?}")),
        };
    }
    if own.iter().any(|r| matches!(r.body(), Body::Request(_))) {
        return Err("its model was asked, and its first line is gone".to_owned());
    }
    match process.last(&format!("again {child}")).await? {
        (AttemptStatus::Rejected, Some(code)) if code == "missing-launch" => {}
        other => return Err(format!("it is not refused: {other:?}")),
    }
    match process.last("go").await? {
        (AttemptStatus::Completed, _) => Ok(()),
        other => Err(format!("no other one can be started: {other:?}")),
    }
}

fn wanted() -> usize {
    std::env::var("SEGNO_CRASH_FAMILY").ok().and_then(|n| n.parse().ok()).unwrap_or(USUAL)
}

/// Covers: G1, G4, G6, G7, G8, RS7, SD1, #142.
#[tokio::test]
async fn a_family_survives_power_loss_at_any_change() {
    let dir = tempfile::tempdir().unwrap();
    let cwd = dir.path().canonicalize().unwrap();
    let mut moments = Vec::new();
    for workload in &WORKLOADS {
        let disk = prepared(workload, &cwd).await;
        let before = disk.changes();
        let _ = act(&disk, &cwd, workload.act).await;
        moments.extend((before + 1..=disk.changes() + 1).map(|change| (workload, change)));
    }
    assert!(moments.len() > 150, "only {} moments", moments.len());
    // Every moment has its turn, however few states are wanted.
    let each = (wanted() / moments.len()).max(1);
    let (mut looked_at, mut distinct) = (0, BTreeSet::new());
    let step = (moments.len() / wanted().max(1)).max(1);
    for (workload, change) in moments.into_iter().step_by(step) {
        let disk = prepared(workload, &cwd).await;
        disk.stop_before_change(change);
        let _ = act(&disk, &cwd, workload.act).await;
        let states = disk.crash_states();
        for number in states.sample(each, change) {
            let found = states.nth(number);
            distinct.insert(found.fingerprint());
            looked_at += 1;
            if let Err(why) = judge(&found, &cwd).await {
                let story = Process::on(&found, &cwd).story().await;
                panic!("{}:{change}:{number}: {why}\n{story}", workload.name);
            }
        }
    }
    assert!(distinct.len() > looked_at / 10, "{looked_at} states, {} distinct", distinct.len());
}
