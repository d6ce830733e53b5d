//! Sessions with several models over real wires: refusals that are got around, and models that are changed.
//!
//! Responsible for: an agent at a desk with one strict server per wire. Must not: wait for the clock.

#![allow(clippy::unwrap_used, reason = "a failed test says where it failed")]

mod blobs;
mod changes;
mod refusals;
mod states;

use segno_agent::permission::Mode;
use segno_agent::provider::{Provider, ProviderConfig, ProviderId, Secret};
use segno_agent::tool::{Toolbox, ToolboxConfig};
use segno_agent::{Agent, Surroundings, World};
use segno_model::record::{Block, Body, ContextEdit, ModelRef, Text, UserMessage};
use segno_model::store::{HeldSession as _, Judged, Owner, SessionStore as _};
use segno_model::{Record, SessionId};
use segno_runtime::{Event, Finished, RetryPolicy, Session, StopHandle};
use segno_testkit::scripted_model::{Answer, ScriptedModel, Seen};
use segno_testkit::sessions;
use segno_testkit::sim_clock::SimClock;
use segno_testkit::strict_store::{StrictLog, StrictStore};
use std::sync::Arc;

/// One model per wire.
pub(crate) const MODELS: [(ProviderId, &str); 4] = [
    (ProviderId::Anthropic, "claude-sonnet-4-5"),
    (ProviderId::OpenAi, "gpt-5"),
    (ProviderId::OpenAiChat, "scripted"),
    (ProviderId::Gemini, "gemini-3-flash"),
];

/// A PNG of one pixel.
pub(crate) const PIXEL: &str =
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR42mP4z8AAAAMBAQD3A0FDAAAAAElFTkSuQmCC";

pub(crate) fn image() -> Block {
    Block::Image { media_type: "image/png".to_owned(), data: Text::Inline(PIXEL.to_owned()) }
}

fn id() -> SessionId {
    SessionId::parse("0195f3a0-0000-7000-8000-000000000001").unwrap()
}

pub(crate) fn model_ref((provider, model): (ProviderId, &str)) -> ModelRef {
    ModelRef::new(provider.as_str(), model)
}

/// A session, a directory and a server.
pub(crate) struct Desk {
    pub(crate) store: StrictStore,
    pub(crate) server: ScriptedModel,
    dir: tempfile::TempDir,
}

impl Desk {
    pub(crate) fn new<A: Into<Answer>>(
        answer: impl Fn(&Seen) -> A + Send + Sync + 'static,
    ) -> Self {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("a.txt"), "one\ntwo\n").unwrap();
        use base64::Engine as _;
        let png = base64::engine::general_purpose::STANDARD.decode(PIXEL).unwrap();
        std::fs::write(dir.path().join("a.png"), png).unwrap();
        let server = ScriptedModel::reply_with(answer).unwrap();
        Self { store: StrictStore::default(), server, dir }
    }

    /// A provider at this desk's server; `host` is how it is called.
    pub(crate) fn provider(&self, id: ProviderId, host: &str) -> Provider {
        let base_url = Some(self.server.url().replace("127.0.0.1", host));
        let key = Secret::new("k");
        Provider::new(ProviderConfig { provider: id, base_url, key, max_output: None }).unwrap()
    }

    fn agent(&self, session: Session<StrictLog>) -> Agent<StrictLog, Toolbox> {
        let tools = Toolbox::new(ToolboxConfig {
            session: (id().to_string(), "h".to_owned()),
            cwd: self.dir.path().to_owned(),
            root: self.dir.path().to_owned(),
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
        let world = World {
            clock: Arc::new(SimClock::default()),
            sleep: Arc::new(|_| Box::pin(std::future::ready(()))),
            owner: Owner { host: "h".to_owned(), ..Owner::default() },
            retry: RetryPolicy { max_attempts: 2, ..RetryPolicy::default() },
            limits: segno_runtime::Limits::default(),
        };
        let around = Surroundings {
            system: "You are Segno.".to_owned(),
            cwd: "/p".to_owned(),
            version: "1".to_owned(),
            ..Surroundings::default()
        };
        Agent::new(session, tools, around, world)
    }

    pub(crate) fn begin(&self) -> Agent<StrictLog, Toolbox> {
        let log = self.store.create(sessions::header(id()));
        self.agent(Session::new(log, Arc::new(SimClock::default())))
    }

    pub(crate) async fn resume(&self) -> Agent<StrictLog, Toolbox> {
        let held = self.store.elsewhere().open(&id()).await.unwrap();
        match held.judge().await.unwrap() {
            Judged::Sound(opened) => {
                self.agent(Session::resume(opened, Arc::new(SimClock::default())))
            }
            Judged::Damaged(_) => panic!("damaged"),
        }
    }
}

/// One input to its end; with what was said to be left out on the way.
pub(crate) async fn say(
    agent: &mut Agent<StrictLog, Toolbox>,
    provider: &Provider,
    model: &ModelRef,
    content: Vec<Block>,
) -> (Finished, Vec<String>) {
    let (_handle, stop) = StopHandle::new();
    let mut left = Vec::new();
    let mut observer = |event: Event<'_>| {
        if let Event::LeftOut { seqs, part, .. } = event {
            left.push(format!("{part:?} {seqs:?}"));
        }
    };
    let input = UserMessage { content, ..UserMessage::default() };
    let finished = agent.prompt(provider, model, input, &stop, &mut observer).await.unwrap();
    (finished, left)
}

/// The edits of a session, as text.
pub(crate) fn edits(agent: &Agent<StrictLog, Toolbox>) -> Vec<String> {
    let records = agent.session.records();
    let edit = |record: &Record| match record.body() {
        Body::ContextEdit(ContextEdit { target, edit, parts, cause, .. }) => {
            Some(format!("{target} {edit} {parts:?} {cause:?}"))
        }
        _ => None,
    };
    records.iter().filter_map(edit).collect()
}
