//! A parent, its children and a model that plays all of them.
//!
//! Responsible for: a family on the strict store, and words for what happened. Must not: assert.

use segno_agent::instructions::Instruction;
use segno_agent::permission::Mode;
use segno_agent::subagent::{Family, Nursery, Roles};
use segno_agent::tool::{Asker, Toolbox, ToolboxConfig};
use segno_agent::worktree::Worktrees;
use segno_agent::{Agent, Surroundings, World};
use segno_model::context::ContextMessage;
use segno_model::record::{
    AssistantBlock, AssistantMessage, Attempt, Body, InstructionFile, Message, ModelChange,
    ModelRef, Usage, UserMessage,
};
use segno_model::store::{
    HeldSession as _, Judged, LogOf, Owner, Scanned, SessionStore as _, StoreError,
};
use segno_model::{Record, SessionId, sha256_hex};
use segno_runtime::{
    Finished, InboxSource, Limits, Model, ModelError, ModelErrorKind, ModelRequest, RetryPolicy,
    Session, Stop, StoreInbox, StreamEvent,
};
use segno_testkit::sessions;
use segno_testkit::sim_clock::SimClock;
use segno_testkit::strict_store::{StrictLog, StrictStore};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use tokio::sync::Barrier;

/// The parent of every scene.
pub(crate) fn parent_id() -> SessionId {
    SessionId::parse("0195f3a0-0000-7000-8000-000000000001").expect("an id")
}

pub(crate) fn model_ref() -> ModelRef {
    ModelRef::new("test", "one")
}

/// What a model does when it is asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Say {
    Text(String),
    /// Tools and their arguments.
    Calls(Vec<(String, String)>),
    /// Never answers.
    Hang,
    Fail,
}

pub(crate) fn text(text: &str) -> Say {
    Say::Text(text.to_owned())
}

pub(crate) fn call(tool: &str, arguments: &serde_json::Value) -> Say {
    Say::Calls(vec![(tool.to_owned(), arguments.to_string())])
}

/// One request: whose, and what was in it.
#[derive(Debug, Clone)]
pub(crate) struct Seen {
    pub(crate) child: bool,
    /// What was said last.
    pub(crate) last: String,
    /// Everything, the system prompt included.
    pub(crate) all: String,
    /// The tools on offer.
    pub(crate) tools: Vec<String>,
    /// Messages before this request.
    pub(crate) turns: usize,
}

type Script = dyn Fn(&Seen) -> Say + Send + Sync;

/// The model of parents and children.
#[derive(Clone)]
pub(crate) struct Player {
    script: Arc<Script>,
    pub(crate) seen: Arc<Mutex<Vec<Seen>>>,
    /// Children wait for each other here before they answer.
    together: Option<Arc<Barrier>>,
}

impl Player {
    fn reply(&self, request: &ModelRequest<'_>) -> (Seen, Say) {
        let texts: Vec<String> = request.messages.iter().map(ContextMessage::text).collect();
        let seen = Seen {
            child: request.system.contains("# Role"),
            last: texts.last().cloned().unwrap_or_default(),
            all: format!("{}\n{}", request.system, texts.join("\n")),
            tools: request.tools.iter().map(|tool| tool.name.clone()).collect(),
            turns: request.messages.len(),
        };
        self.seen.lock().expect("not poisoned").push(seen.clone());
        let say = (self.script)(&seen);
        (seen, say)
    }

    /// Lets a child answer that waits for others.
    pub(crate) async fn join_in(&self) {
        if let Some(together) = &self.together {
            together.wait().await;
        }
    }

    /// Waits until so many requests were made, its own and its children's.
    pub(crate) async fn asked(&self, times: usize) {
        while self.seen.lock().expect("not poisoned").len() < times {
            tokio::task::yield_now().await;
        }
    }

    /// How often children were asked.
    pub(crate) fn of_children(&self) -> usize {
        self.seen.lock().expect("not poisoned").iter().filter(|seen| seen.child).count()
    }
}

impl Model for Player {
    async fn reply(
        &self,
        request: ModelRequest<'_>,
        events: &mut (dyn FnMut(StreamEvent) + Send),
    ) -> Result<AssistantMessage, ModelError> {
        let (seen, say) = self.reply(&request);
        if let (true, Some(together)) = (seen.child, &self.together) {
            together.wait().await;
        }
        let content = match say {
            Say::Hang => std::future::pending().await,
            Say::Fail => {
                let (kind, message) = (ModelErrorKind::Refused, "no".to_owned());
                return Err(ModelError::new(kind, message));
            }
            Say::Text(text) => {
                events(StreamEvent::Text(text.clone()));
                vec![AssistantBlock::text(text)]
            }
            Say::Calls(calls) => calls
                .iter()
                .enumerate()
                .map(|(i, (tool, arguments))| {
                    AssistantBlock::call(&format!("c{}-{i}", seen.turns), tool, arguments)
                })
                .collect(),
        };
        let usage = Some(Usage { input: 10, output: 1, ..Usage::default() });
        Ok(AssistantMessage { usage, ..AssistantMessage::new(request.model, content) })
    }
}

/// What the families of a scene need.
pub(crate) struct Home {
    store: StrictStore,
    player: Player,
    around: Surroundings,
    /// What may be connected to.
    models: Vec<ModelRef>,
    worktrees: Worktrees,
    hears: bool,
}

impl Nursery for Home {
    type Store = StrictStore;
    type Model = Player;

    fn store(&self) -> &StrictStore {
        &self.store
    }

    fn connect(&self, model: &ModelRef, _: Option<&str>) -> Result<Player, String> {
        let known = self.models.contains(model);
        known.then(|| self.player.clone()).ok_or_else(|| "there is no key".to_owned())
    }

    fn actions(&self, _: &LogOf<StrictStore>) -> Option<PathBuf> {
        None
    }

    fn surroundings(&self) -> Surroundings {
        self.around.clone()
    }

    fn inbox(&self, child: &SessionId) -> Option<Arc<dyn InboxSource>> {
        let inbox = StoreInbox { store: self.store.clone(), id: child.clone() };
        self.hears.then(|| Arc::new(inbox) as Arc<dyn InboxSource>)
    }

    fn worktrees(&self) -> Option<Worktrees> {
        Some(self.worktrees.clone())
    }

    /// A deadline passes as soon as some child was asked something.
    fn world(&self) -> World {
        let player = self.player.clone();
        let sleep: segno_runtime::Sleep = Arc::new(move |_| {
            let player = player.clone();
            Box::pin(async move {
                while player.of_children() == 0 {
                    tokio::task::yield_now().await;
                }
            })
        });
        World { sleep, ..world() }
    }
}

pub(crate) fn world() -> World {
    World {
        clock: Arc::new(SimClock::default()),
        sleep: Arc::new(|_| Box::pin(std::future::ready(()))),
        owner: Owner { host: "h".to_owned(), ..Owner::default() },
        retry: RetryPolicy { max_attempts: 1, ..RetryPolicy::default() },
        limits: Limits::default(),
    }
}

/// One place, with everything that can change between two days.
pub(crate) struct Scene {
    pub(crate) store: StrictStore,
    pub(crate) player: Player,
    pub(crate) dir: tempfile::TempDir,
    pub(crate) around: Surroundings,
    pub(crate) models: Vec<ModelRef>,
    pub(crate) mode: Mode,
    pub(crate) asker: Option<Arc<dyn Asker>>,
    pub(crate) cwd: PathBuf,
    /// Whether children hear at once of what is sent to them, and not only at their next step.
    pub(crate) hears: bool,
}

impl Scene {
    pub(crate) fn new(script: impl Fn(&Seen) -> Say + Send + Sync + 'static) -> Self {
        Self::with(script, None)
    }

    /// Children answer only when so many of them are asked.
    pub(crate) fn together(
        n: usize,
        script: impl Fn(&Seen) -> Say + Send + Sync + 'static,
    ) -> Self {
        Self::with(script, Some(Arc::new(Barrier::new(n))))
    }

    fn with(
        script: impl Fn(&Seen) -> Say + Send + Sync + 'static,
        together: Option<Arc<Barrier>>,
    ) -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let cwd = dir.path().canonicalize().expect("it is there").join("project");
        std::fs::create_dir(&cwd).expect("made");
        let player = Player { script: Arc::new(script), seen: Arc::default(), together };
        let around = Surroundings {
            system: "You work.".to_owned(),
            cwd: cwd.display().to_string(),
            version: "1".to_owned(),
            ..Surroundings::default()
        };
        let scene = Self {
            store: StrictStore::default(),
            player,
            dir,
            around,
            models: vec![model_ref()],
            mode: Mode::All,
            asker: None,
            cwd,
            hears: false,
        };
        scene.role("scout", "tools: read, write\n", "You scout.");
        scene
    }

    /// The same place as another process finds it.
    pub(crate) fn elsewhere(self) -> Self {
        Self { store: self.store.elsewhere(), ..self }
    }

    /// Writes a role of the project.
    pub(crate) fn role(&self, name: &str, front: &str, prompt: &str) {
        let agents = self.cwd.join(".segno/agents");
        std::fs::create_dir_all(&agents).expect("made");
        let text = format!("---\nname: {name}\ndescription: it looks\n{front}---\n{prompt}\n");
        std::fs::write(agents.join(format!("{name}.md")), text).expect("written");
    }

    pub(crate) fn instructions(&mut self, text: &str) {
        let path = self.cwd.join("AGENTS.md").display().to_string();
        let file = InstructionFile { path, sha256: sha256_hex(text.as_bytes()) };
        let (text, note) = (text.to_owned(), None);
        self.around.instructions = vec![Instruction { file, text, note }];
    }

    pub(crate) fn worktrees(&self) -> Worktrees {
        Worktrees::new(self.dir.path().join("segno/worktrees"))
    }

    fn toolbox(&self, parent: &SessionId) -> Toolbox {
        let home = Home {
            store: self.store.clone(),
            player: self.player.clone(),
            around: self.around.clone(),
            models: self.models.clone(),
            worktrees: self.worktrees(),
            hears: self.hears,
        };
        let roles = Roles::load(&self.cwd, None);
        let tools = Toolbox::new(ToolboxConfig {
            session: (parent.to_string(), "h".to_owned()),
            cwd: self.cwd.clone(),
            root: self.cwd.clone(),
            home: None,
            own: vec![self.dir.path().join("segno")],
            mode: self.mode,
            rules: Vec::new(),
            hidden_env: Vec::new(),
            supervision: None,
            locks: Some(self.dir.path().join("locks")),
            servers: None,
            asker: self.asker.clone(),
        });
        tools.with_subagents(Family::new(home, parent.clone(), roles))
    }

    pub(crate) async fn begin(&self) -> Agent<StrictLog, Toolbox> {
        self.begin_as(&parent_id()).await
    }

    pub(crate) async fn begin_as(&self, id: &SessionId) -> Agent<StrictLog, Toolbox> {
        let log = self.store.create(sessions::header(id.clone()));
        let mut session = Session::new(log, Arc::new(SimClock::default()));
        let change = ModelChange { model: model_ref(), chosen: true, base_url: None };
        session.set_model(change).await.expect("queued");
        Agent::new(session, self.toolbox(id), self.around.clone(), world())
    }

    /// The parent, opened by this process; none when nothing of it is on the medium.
    pub(crate) async fn resume(&self) -> Option<Agent<StrictLog, Toolbox>> {
        self.resume_as(&parent_id()).await
    }

    pub(crate) async fn resume_as(&self, id: &SessionId) -> Option<Agent<StrictLog, Toolbox>> {
        let held = match self.store.open(id).await {
            Err(StoreError::NotFound(_)) => return None,
            held => held.expect("free"),
        };
        let Ok(Judged::Sound(opened)) = held.judge().await else { panic!("the parent is damaged") };
        let session = Session::resume(opened, Arc::new(SimClock::default()));
        Some(Agent::new(session, self.toolbox(id), self.around.clone(), world()))
    }

    pub(crate) async fn ask(&self, agent: &mut Agent<StrictLog, Toolbox>, words: &str) -> Finished {
        self.ask_until(agent, words, &Stop::never()).await
    }

    pub(crate) async fn ask_until(
        &self,
        agent: &mut Agent<StrictLog, Toolbox>,
        words: &str,
        stop: &Stop,
    ) -> Finished {
        let input = UserMessage::text(words);
        let (name, mut nobody) = (model_ref(), ());
        let run = agent.prompt(&self.player, &name, input, stop, &mut nobody);
        run.await.expect("the log can be written")
    }

    pub(crate) async fn children(&self) -> Vec<SessionId> {
        let listed = self.store.children(&parent_id()).await.expect("lists");
        listed.into_iter().map(|child| child.id).collect()
    }

    /// Every record of a session.
    pub(crate) async fn records(&self, id: &SessionId) -> Vec<Record> {
        let mut records = Vec::new();
        let mut visit = |step| {
            if let Scanned::Record(record) = step {
                records.push(*record);
            }
            true
        };
        self.store.scan(id, &mut visit).await.expect("it is there");
        records
    }

    /// The attempts that the parent's log tells of.
    pub(crate) async fn attempts(&self) -> Vec<Attempt> {
        let records = self.records(&parent_id()).await;
        segno_model::child::attempts(&records).into_iter().cloned().collect()
    }

    /// The results of the parent's calls, as text.
    pub(crate) async fn results(&self) -> Vec<String> {
        let records = self.records(&parent_id()).await;
        let result = |record: &Record| match record.body() {
            Body::Message(message) => match &**message {
                Message::Tool(_) => Some(sessions::text_of(record)),
                _ => None,
            },
            _ => None,
        };
        records.iter().filter_map(result).collect()
    }
}

/// The kinds of a log's records, in a line.
pub(crate) fn kinds(records: &[Record]) -> String {
    records.iter().map(|record| record.envelope.kind.as_str()).collect::<Vec<_>>().join(" ")
}

/// What a child was asked, in order.
pub(crate) fn prompts(records: &[Record]) -> Vec<(String, Option<String>)> {
    let prompt = |record: &Record| match record.body() {
        Body::Message(message) => match &**message {
            Message::User(user) if user.notice.is_none() => {
                Some((sessions::text_of(record), user.input_id.clone()))
            }
            _ => None,
        },
        _ => None,
    };
    records.iter().filter_map(prompt).collect()
}
