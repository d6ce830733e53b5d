//! An agent over a session: surroundings that change between days, and compaction with its crashes.
//! The model is the scripted one over a real wire, strict about prefixes; the store is the strict one.

mod rewind;

use segno_agent::instructions::Instruction;
use segno_agent::permission::Mode;
use segno_agent::provider::{Credentials, Provider, ProviderConfig, ProviderId, Secret};
use segno_agent::tool::{Toolbox, ToolboxConfig};
use segno_agent::{Agent, AgentError, Surroundings, World};
use segno_model::context::{self, ContextMessage};
use segno_model::record::{Block, Body, InstructionFile, ModelRef, RunEnd, UserMessage};
use segno_model::store::{HeldSession as _, Judged, Owner, SessionStore as _};
use segno_model::{SessionId, sha256_hex};
use segno_runtime::{CompactError, Event, Finished, RetryPolicy, Session, StopHandle, StopKind};
use segno_testkit::scripted_model::ScriptedModel;
use segno_testkit::sessions;
use segno_testkit::sim_clock::SimClock;
use segno_testkit::strict_store::{Fault, Op, StrictLog, StrictStore};
use std::sync::Arc;

const SCRIPT: &str = r#"
strict prefix

rule summary
  when turns 1
  when user contains "<history>"
  new-prefix
  say "<summary>\n## Goal\nThey talked about numbers.\n## Constraints\n## Decisions\n## Done\n## In progress\n## Next\n## Files\n## Open questions\n</summary>"

rule change
  when last user
  when prompt line "change " capture file until line
  call edit {"path": "{file}", "old_text": "one", "new_text": "uno"}

rule make
  when last user
  when prompt line "make " capture file until line
  call write {"path": "{file}", "content": "made"}

rule grow
  when last user
  when prompt line "grow " capture file until line
  call edit {"path": "{file}", "old_text": "two", "new_text": "two and more"}

rule launch
  when last user
  when prompt line "launch " capture command until line
  call bash {"command": "{command}"}

rule read
  when last user
  when prompt line "read " capture file until line
  call read {"path": "{file}"}

otherwise
  new-prefix
  say "Yes."
"#;

fn id() -> SessionId {
    SessionId::parse("0195f3a0-0000-7000-8000-000000000001").expect("an id")
}

fn model_ref() -> ModelRef {
    ModelRef { provider: "anthropic".to_owned(), id: "scripted".to_owned() }
}

fn surroundings(system: &str, rules: &[(&str, &str)]) -> Surroundings {
    let instruction = |(path, text): &(&str, &str)| Instruction {
        file: InstructionFile { path: (*path).to_owned(), sha256: sha256_hex(text.as_bytes()) },
        text: (*text).to_owned(),
        note: None,
    };
    Surroundings {
        system: system.to_owned(),
        instructions: rules.iter().map(instruction).collect(),
        cwd: "/p".to_owned(),
        git: None,
        version: "1".to_owned(),
    }
}

struct Scene {
    store: StrictStore,
    server: ScriptedModel,
    dir: tempfile::TempDir,
}

impl Scene {
    fn new(script: &str) -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        std::fs::write(dir.path().join("a.txt"), "one\ntwo\n").expect("written");
        let server = ScriptedModel::start(script).expect("a server");
        Self { store: StrictStore::default(), server, dir }
    }

    fn provider(&self) -> Provider {
        let credentials = Credentials::default();
        let base_url = Some(self.server.url());
        let key = Secret::new("k");
        let id = ProviderId::Anthropic;
        let config = ProviderConfig { base_url, key, ..ProviderConfig::new(id, &credentials) };
        Provider::new(config).expect("a provider")
    }

    fn agent(
        &self,
        session: Session<StrictLog>,
        around: Surroundings,
    ) -> Agent<StrictLog, Toolbox> {
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
            retry: RetryPolicy { max_attempts: 1, ..RetryPolicy::default() },
            limits: segno_runtime::Limits::default(),
        };
        Agent::new(session, tools, around, world)
    }

    fn begin(&self, around: Surroundings) -> Agent<StrictLog, Toolbox> {
        let log = self.store.create(sessions::header(id()));
        self.agent(Session::new(log, Arc::new(SimClock::default())), around)
    }

    async fn resume(&self, around: Surroundings) -> Agent<StrictLog, Toolbox> {
        let held = self.store.elsewhere().open(&id()).await.expect("free");
        match held.judge().await.expect("judged") {
            Judged::Sound(o) => {
                self.agent(Session::resume(o, Arc::new(SimClock::default())), around)
            }
            Judged::Damaged(_) => panic!("damaged"),
        }
    }

    async fn say(&self, agent: &mut Agent<StrictLog, Toolbox>, text: &str) -> Finished {
        let (_handle, stop) = StopHandle::new();
        let mut observer = |_: Event<'_>| {};
        let provider = self.provider();
        let input = UserMessage::text(text);
        let ended = agent.prompt(&provider, &model_ref(), input, &stop, &mut observer).await;
        let ended = ended.expect("the log works");
        assert_eq!(ended.end, RunEnd::Completed, "{ended:?} {:?}", self.server.violations());
        ended
    }

    async fn compact(
        &self,
        agent: &mut Agent<StrictLog, Toolbox>,
    ) -> Result<segno_runtime::Compacted, AgentError> {
        let (_handle, stop) = StopHandle::new();
        agent.compact(&self.provider(), &model_ref(), Some("numbers"), &stop, &mut ()).await
    }

    /// The last request as the server saw it: system prompt, then one line per turn.
    fn last_request(&self) -> (String, String) {
        let recorded = self.server.requests().pop().expect("a request");
        let seen = recorded.seen.expect("understood");
        let turns: Vec<String> =
            seen.turns.iter().map(|t| format!("{}: {}", t.role(), t.text())).collect();
        (seen.system.clone(), turns.join("\n"))
    }
}

fn context_text(agent: &Agent<StrictLog, Toolbox>) -> String {
    let context = agent.session.context(&model_ref());
    let line = |message: &ContextMessage| match message {
        ContextMessage::User { content, .. } => format!("user {}", texts(content)),
        ContextMessage::Assistant(turn) => format!("assistant {}", turn.content.len()),
        ContextMessage::Results(results) => format!("results {}", results.len()),
        ContextMessage::State(_) => "state".to_owned(),
    };
    context.messages.iter().map(line).collect::<Vec<_>>().join("\n")
}

fn texts(content: &[Block]) -> String {
    content
        .iter()
        .map(|b| match b {
            Block::Text { text } => text.head(),
            _ => "?",
        })
        .collect()
}

/// The same surroundings the next day: the same system prompt, one environment record, and every
/// request continues the one before it, byte for byte (the server is strict about it).
/// Covers: G10.
#[tokio::test]
async fn nothing_changed_nothing_is_said() {
    let scene = Scene::new(SCRIPT);
    let around = || surroundings("SYSTEM A", &[("/p/AGENTS.md", "be kind")]);
    let mut agent = scene.begin(around());
    scene.say(&mut agent, "one?").await;
    scene.say(&mut agent, "read a.txt").await;
    drop(agent);
    let mut agent = scene.resume(around()).await;
    scene.say(&mut agent, "three?").await;
    let environments = agent.session.records();
    let environments = environments.iter().filter(|r| matches!(r.body(), Body::Environment(_)));
    assert_eq!(environments.count(), 1);
    assert_eq!(scene.last_request().0, "SYSTEM A");
    assert!(scene.server.violations().is_empty(), "{:?}", scene.server.violations());
}

/// Instructions that changed overnight are said in a message; the system prompt keeps its bytes; the
/// day after, nothing is said again.
/// Covers: G10.
#[tokio::test]
async fn changed_instructions_are_said_once_and_the_prompt_stays() {
    let scene = Scene::new(SCRIPT);
    let mut agent = scene.begin(surroundings("SYSTEM A", &[("/p/AGENTS.md", "be kind")]));
    scene.say(&mut agent, "one?").await;
    drop(agent);
    let changed = || surroundings("SYSTEM B", &[("/p/AGENTS.md", "be quick")]);
    let mut agent = scene.resume(changed()).await;
    scene.say(&mut agent, "two?").await;
    let (system, turns) = scene.last_request();
    assert_eq!(system, "SYSTEM A");
    assert!(turns.contains("be quick") && turns.contains("two?"), "{turns}");
    drop(agent);
    let mut agent = scene.resume(changed()).await;
    scene.say(&mut agent, "three?").await;
    assert_eq!(scene.last_request().1.matches("be quick").count(), 1);
    assert!(scene.server.violations().is_empty(), "{:?}", scene.server.violations());
    assert_eq!(agent.session.state().in_force.totals.user_messages, 3, "a notice is no prompt");
}

/// Covers: ST17, EV3, #51.
#[tokio::test]
async fn a_compaction_holds_over_a_restart_and_the_log_keeps_everything() {
    let scene = Scene::new(SCRIPT);
    let mut agent = scene.begin(surroundings("SYSTEM A", &[]));
    for text in ["one?", "read a.txt", "three?"] {
        scene.say(&mut agent, text).await;
    }
    let before = scene.store.log_bytes(&id()).expect("a log");
    let compacted = scene.compact(&mut agent).await.expect("compacted");
    assert!(compacted.summary.contains("They talked about numbers."), "{compacted:?}");
    assert!(scene.last_request().1.contains("numbers"), "the focus is asked for");
    let after = context_text(&agent);
    assert!(after.starts_with("user ") && after.contains("They talked about numbers."), "{after}");
    assert!(scene.store.log_bytes(&id()).expect("a log").starts_with(&before));
    drop(agent);
    scene.store.crash(0);
    let mut agent = scene.resume(surroundings("SYSTEM B", &[])).await;
    assert_eq!(context_text(&agent), after);
    scene.say(&mut agent, "four?").await;
    assert_eq!(scene.last_request().0, "SYSTEM B", "a new beginning takes today's prompt");
    assert!(scene.last_request().1.contains("They talked about numbers."));
}

/// A compaction that fails, is stopped or dies leaves the context as it was, and says so in the log.
/// Covers: #51, SD1.
#[tokio::test]
async fn a_compaction_that_does_not_finish_changes_nothing() {
    let failing = SCRIPT.replace("say \"<summary>", "status 400 #");
    let silent = SCRIPT.replace("\\n</summary>", "");
    for script in [failing, silent] {
        let scene = Scene::new(&script);
        let mut agent = scene.begin(surroundings("SYSTEM A", &[]));
        for text in ["one?", "two?", "three?"] {
            scene.say(&mut agent, text).await;
        }
        let before = context_text(&agent);
        scene.compact(&mut agent).await.expect_err("no summary");
        assert_eq!(context_text(&agent), before);
        assert!(agent.session.state().in_force.open_compaction.is_none());
        scene.say(&mut agent, "four?").await;
    }
}

/// Power is lost at every write of a compaction: the next process sees the context of before or the one
/// of after, whole, and can go on.
/// Covers: G4, #51, #59, SD1.
#[tokio::test]
async fn power_lost_at_every_write_of_a_compaction() {
    for fatal in 0..3 {
        let scene = Scene::new(SCRIPT);
        let mut agent = scene.begin(surroundings("SYSTEM A", &[]));
        for text in ["one?", "two?", "three?"] {
            scene.say(&mut agent, text).await;
        }
        let before = context_text(&agent);
        scene.store.fail_after(Op::Write, fatal, Fault::Broken);
        scene.compact(&mut agent).await.expect_err("killed");
        drop(agent);
        scene.store.crash(0);
        let mut agent = scene.resume(surroundings("SYSTEM A", &[])).await;
        assert_eq!(context_text(&agent), before, "killed at write {fatal}");
        scene.say(&mut agent, "four?").await;
        scene.compact(&mut agent).await.expect("compacted now");
        assert!(context_text(&agent).contains("They talked about numbers."));
    }
}

/// A call that a crash left open is settled before the compaction begins.
/// Covers: #41, #45.
#[tokio::test]
async fn compaction_settles_what_a_crash_left_open() {
    let scene = Scene::new(SCRIPT);
    let mut agent = scene.begin(surroundings("SYSTEM A", &[]));
    for text in ["one?", "two?"] {
        scene.say(&mut agent, text).await;
    }
    // The input, the request and the reply with its call are written; its result is not.
    scene.store.fail_after(Op::Write, 3, Fault::Broken);
    let (_handle, stop) = StopHandle::new();
    let mut observer = |_: Event<'_>| {};
    let input = UserMessage::text("read a.txt");
    let provider = scene.provider();
    let died = agent.prompt(&provider, &model_ref(), input, &stop, &mut observer).await;
    died.expect_err("killed");
    drop(agent);
    scene.store.crash(usize::MAX);
    let mut agent = scene.resume(surroundings("SYSTEM A", &[])).await;
    assert_eq!(agent.session.pending_recovery().len(), 2, "a result and the end of the run");
    scene.compact(&mut agent).await.expect("compacted");
    assert!(agent.session.pending_recovery().is_empty());
    let context = context::build(&agent.session.records(), agent.session.state().tip());
    assert!(context.unanswered.is_empty());
    scene.say(&mut agent, "four?").await;
    assert!(scene.server.violations().is_empty(), "{:?}", scene.server.violations());
}

/// Power is lost at every write of a turn with an edit: the file holds the old or the new content whole,
/// the next process says which, and nothing is left beside it. Covers: G4, G7.
#[tokio::test]
async fn power_lost_at_every_write_of_an_edit() {
    let mut told = std::collections::BTreeSet::new();
    for fatal in 0..6 {
        let scene = Scene::new(SCRIPT);
        let mut agent = scene.begin(surroundings("SYSTEM A", &[]));
        scene.say(&mut agent, "one?").await;
        scene.store.fail_after(Op::Write, fatal, Fault::Broken);
        let (_handle, stop) = StopHandle::new();
        let (provider, input) = (scene.provider(), UserMessage::text("change a.txt"));
        let mut observer = |_: Event<'_>| {};
        let _ = agent.prompt(&provider, &model_ref(), input, &stop, &mut observer).await;
        drop(agent);
        scene.store.crash(usize::MAX);
        let content = std::fs::read_to_string(scene.dir.path().join("a.txt")).expect("read");
        let mut agent = scene.resume(surroundings("SYSTEM A", &[])).await;
        scene.say(&mut agent, "three?").await;
        let records = agent.session.records();
        let result = records.iter().find_map(|r| match r.body() {
            Body::Message(message) => match &**message {
                segno_model::record::Message::Tool(result) => Some(result.clone()),
                _ => None,
            },
            _ => None,
        });
        if let Some(result) = result {
            let said = texts(&result.content);
            match content.as_str() {
                "uno\ntwo\n" => assert!(
                    said.contains("changed a.txt") || said.contains("it was carried out: a.txt"),
                    "{said}"
                ),
                "one\ntwo\n" => assert!(!said.contains("was carried out"), "{said}"),
                other => panic!("a.txt holds {other:?}"),
            }
            told.insert(format!("{:?} {:?}", result.outcome, result.established));
        }
        let names = std::fs::read_dir(scene.dir.path()).expect("listed");
        assert_eq!(names.count(), 1, "something is left beside a.txt");
        assert!(scene.server.violations().is_empty(), "{:?}", scene.server.violations());
    }
    assert!(told.contains("Done Traces"), "{told:?}");
}

#[tokio::test]
async fn there_must_be_something_to_compact() {
    let scene = Scene::new(SCRIPT);
    let mut agent = scene.begin(surroundings("SYSTEM A", &[]));
    assert!(matches!(
        scene.compact(&mut agent).await,
        Err(AgentError::Compact(CompactError::Nothing))
    ));
    assert!(scene.store.log_bytes(&id()).is_none(), "nothing was written");
}

/// Covers: G9.
#[tokio::test]
async fn a_stopped_compaction_is_recorded_as_failed() {
    let hanging = SCRIPT.replace("say \"<summary>", "say \"x\"\n  fault hang\n  #");
    let scene = Scene::new(&hanging);
    let mut agent = scene.begin(surroundings("SYSTEM A", &[]));
    for text in ["one?", "two?", "three?"] {
        scene.say(&mut agent, text).await;
    }
    let (handle, stop) = StopHandle::new();
    handle.stop(StopKind::User);
    let stopped = agent.compact(&scene.provider(), &model_ref(), None, &stop, &mut ()).await;
    assert!(matches!(stopped, Err(AgentError::Compact(CompactError::Stopped(_)))), "{stopped:?}");
    assert!(agent.session.state().in_force.open_compaction.is_none());
}
