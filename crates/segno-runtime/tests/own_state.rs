//! A provider's own compaction: what is written in which order, when the state is used, and what stands when there
//! is none.

mod support;

use segno_model::SessionId;
use segno_model::compaction::{Native as Wanted, Settings, Window};
use segno_model::context::Target;
use segno_model::record::{Body, Compaction, ModelRef, Native, Usage, UserMessage};
use segno_model::store::{HeldSession as _, Judged, Opened, SessionStore as _};
use segno_runtime::*;
use segno_testkit::sessions;
use segno_testkit::strict_store::{StrictLog, StrictStore};
use std::sync::Mutex;
use support::*;

fn id() -> SessionId {
    SessionId::parse("0195f3a0-0000-7000-8000-000000000001").expect("an id")
}

/// About 500 tokens.
fn long(word: &str) -> String {
    format!("{word} {}", "abcdefg ".repeat(250))
}

const SUMMARY: &str = "<summary>\n## Goal\nThey said long things.\n## Constraints\n## Decisions\n\
    ## Done\n## In progress\n## Next\n## Files\n## Open questions\n</summary>";

/// What comes of asking for a state.
#[derive(Clone)]
enum Answer {
    State(String),
    Fails(ModelErrorKind),
    /// The user's stop comes while it is waited for.
    Hangs,
}

/// A model whose provider keeps states.
struct Stated {
    planned: PlannedModel,
    answers: Mutex<Vec<Answer>>,
    /// What states were asked for, as text.
    asked: Mutex<Vec<String>>,
    server: &'static str,
    handle: StopHandle,
}

impl Stated {
    fn next(&self) -> Answer {
        let mut answers = self.answers.lock().expect("answers");
        match answers.is_empty() {
            true => Answer::Fails(ModelErrorKind::Refused),
            false => answers.remove(0),
        }
    }
}

impl Model for Stated {
    async fn reply(
        &self,
        request: ModelRequest<'_>,
        events: &mut (dyn FnMut(StreamEvent) + Send),
    ) -> Result<segno_model::record::AssistantMessage, ModelError> {
        let endpoint = (self.server != "own").then(|| self.server.to_owned());
        let reply = self.planned.reply(request, events).await?;
        Ok(segno_model::record::AssistantMessage { endpoint, ..reply })
    }

    fn target(&self, model: &ModelRef) -> Option<Target> {
        Some(Target {
            model: model.clone(),
            dialect: "test".to_owned(),
            server: self.server.to_owned(),
            is_own_address: self.server == "own",
            states: true,
        })
    }

    fn compacts(&self, _: &ModelRef, wherever: bool) -> bool {
        self.server == "own" || wherever
    }

    async fn compact(&self, request: ModelRequest<'_>) -> Result<OwnCompaction, ModelError> {
        self.asked.lock().expect("asked").push(render(request.messages));
        let answer = self.next();
        match answer {
            Answer::State(items) => {
                let items = serde_json::value::RawValue::from_string(items).expect("JSON");
                let usage = Some(Usage { input: 1_000, output: 10, ..Usage::default() });
                Ok(OwnCompaction { native: Native { dialect: "test".to_owned(), items }, usage })
            }
            Answer::Fails(kind) => Err(ModelError::new(kind, format!("{kind:?}"))),
            Answer::Hangs => {
                self.handle.stop(StopKind::User);
                std::future::pending().await
            }
        }
    }
}

struct Scene {
    store: StrictStore,
    model: Stated,
    tools: PlannedTools,
    stop: Stop,
    wanted: Wanted,
    events: Mutex<Vec<String>>,
}

impl Scene {
    fn new(plan: &[Say], answers: &[Answer]) -> Self {
        let store = StrictStore::default();
        let (handle, stop) = StopHandle::new();
        let planned = PlannedModel::new(plan);
        let (answers, asked) = (Mutex::new(answers.to_vec()), Mutex::default());
        let model = Stated { planned, answers, asked, server: "own", handle };
        let tools = PlannedTools::new(&store);
        let (wanted, events) = (Wanted::WhereKnown, Mutex::default());
        Self { store, model, tools, stop, wanted, events }
    }

    /// With two long turns in it.
    async fn begun(&self) -> Session<StrictLog> {
        let mut session = Session::new(self.store.create(sessions::header(id())), clock());
        for word in ["first", "second"] {
            self.say(&mut session, "m1", &long(word)).await;
        }
        session
    }

    async fn reopen(&self) -> Session<StrictLog> {
        let held = self.store.elsewhere().open(&id()).await.expect("free");
        match held.judge().await.expect("judged") {
            Judged::Sound(Opened { log, active }) => {
                Session::resume(Opened { log, active }, clock())
            }
            Judged::Damaged(_) => panic!("damaged"),
        }
    }

    fn env(&self, model: &str) -> RunEnv<'static> {
        let window = Some(Window { context: 100_000, output: 0 });
        let compaction = Settings { window, native: self.wanted, ..Settings::default() };
        RunEnv { compaction, model: ModelRef::new("test", model), ..env(&self.stop) }
    }

    async fn say(&self, session: &mut Session<StrictLog>, model: &str, text: &str) -> Finished {
        let input = UserMessage::text(text);
        let mut ignore = ();
        run(session, &self.model, &self.tools, self.env(model), input, &mut ignore)
            .await
            .expect("the log works")
    }

    async fn compact(
        &self,
        session: &mut Session<StrictLog>,
        focus: Option<&str>,
    ) -> Result<Compacted, CompactError> {
        let mut observer = |event: Event<'_>| {
            if let Event::Compaction(event) = event {
                self.events.lock().expect("events").push(format!("{event:?}"));
            }
        };
        let env = self.env("m1");
        compact(session, &self.model, &self.tools, env, focus, &mut observer).await
    }

    /// The last request, its first message.
    fn begins_with(&self) -> String {
        let seen = self.model.planned.seen.lock().expect("seen");
        seen.last().and_then(|request| request.lines().next()).unwrap_or_default().to_owned()
    }

    fn asked(&self) -> usize {
        self.model.asked.lock().expect("asked").len()
    }
}

fn state(text: &str) -> Answer {
    Answer::State(format!("[\"{text}\"]"))
}

fn newest(session: &Session<StrictLog>) -> Compaction {
    let all = session.records();
    let found = all.iter().rev().find_map(|record| match record.body() {
        Body::Compaction(compaction) => Some((**compaction).clone()),
        _ => None,
    });
    found.expect("a compaction")
}

const TWO: [Say; 2] = [Say::Text("one"), Say::Text("two")];

/// The call is announced and paid for like any other; the summary is made from the state; the state stands for
/// what lies back for its maker, before and after reopening, and the summary for every other model and server,
/// there and back.
/// Covers: G1, G6, G10, #46.
#[tokio::test]
async fn a_state_stands_for_its_maker_and_the_summary_for_everybody_else() {
    let mut plan = TWO.to_vec();
    plan.extend([
        Say::Text(SUMMARY),
        Say::Text("a"),
        Say::Text("b"),
        Say::Text("c"),
        Say::Text("d"),
    ]);
    let mut scene = Scene::new(&plan, &[state("opaque")]);
    let mut session = scene.begun().await;
    scene.compact(&mut session, None).await.expect("it works");
    assert_eq!(scene.begins_with(), "state: [\"opaque\"]", "the summary is made from it");
    let log = log_text(&scene.store, &id());
    let order = ["compaction", "request 3", "usage", "request 4", "compaction", "checkpoint"];
    let tail: Vec<&str> = log.lines().rev().take(order.len()).collect();
    assert_eq!(tail.into_iter().rev().collect::<Vec<_>>(), order, "{log}");
    let done = newest(&session);
    assert_eq!(done.endpoint.as_deref(), Some("own"));
    assert_eq!(done.model, Some(ModelRef::new("test", "m1")));
    let totals = session.state().in_force.totals;
    assert_eq!((totals.requests, totals.usage.input), (4, 1_000));
    let without = totals.requests - 1;
    assert_eq!(
        totals.unknown, without,
        "the model here reports nothing, the call for the state did"
    );
    for (model, server, begins) in [
        ("m1", "own", "state: [\"opaque\"]"),
        ("m2", "own", "user: "),
        ("m1", "elsewhere", "user: "),
        ("m1", "own", "state: [\"opaque\"]"),
    ] {
        drop(session);
        session = scene.reopen().await;
        scene.model.server = server;
        scene.say(&mut session, model, "and?").await;
        let first = scene.begins_with();
        assert!(first.starts_with(begins), "{model} at {server}: {first}");
    }
    scene.wanted = Wanted::Never;
    scene.say(&mut session, "m1", "and now?").await;
    assert!(scene.begins_with().starts_with("user: "), "states are switched off");
}

/// The next one is made from the state before it, by its maker, and from the summary by another server.
#[tokio::test]
async fn a_state_is_made_from_the_one_before() {
    let mut plan = TWO.to_vec();
    plan.extend([Say::Text(SUMMARY), Say::Text("x"), Say::Text("y"), Say::Text(SUMMARY)]);
    plan.extend([Say::Text("x"), Say::Text("y"), Say::Text(SUMMARY)]);
    let mut scene = Scene::new(&plan, &[state("one"), state("two"), state("three")]);
    let mut session = scene.begun().await;
    scene.compact(&mut session, None).await.expect("it works");
    for server in ["own", "elsewhere"] {
        scene.model.server = server;
        scene.wanted = Wanted::Wherever;
        scene.say(&mut session, "m1", &long("more")).await;
        scene.say(&mut session, "m1", &long("still more")).await;
        scene.compact(&mut session, None).await.expect("it works");
    }
    let asked = scene.model.asked.lock().expect("asked").clone();
    assert!(asked[1].starts_with("state: [\"one\"]"), "{}", asked[1]);
    assert!(!asked[2].contains("state: "), "{}", asked[2]);
}

/// A state that is refused, or that fails, or that is not smaller than what it stands for, leaves the summary, which
/// is made from the history then. It is asked for once in each compaction, and not at all where that is not known
/// to be offered, where it is switched off, or where a person says what is to be kept in mind.
#[tokio::test]
async fn without_a_state_the_summary_stands_alone() {
    let large = Answer::State(format!("[{:?}]", "x".repeat(9_000)));
    let cases = [
        (vec![Answer::Fails(ModelErrorKind::Refused)], Wanted::WhereKnown, "own", None, 1),
        (vec![Answer::Fails(ModelErrorKind::Busy)], Wanted::WhereKnown, "own", None, 1),
        (vec![Answer::Fails(ModelErrorKind::TooLong)], Wanted::WhereKnown, "own", None, 1),
        (vec![large], Wanted::WhereKnown, "own", None, 1),
        (vec![state("s")], Wanted::Never, "own", None, 0),
        (vec![state("s")], Wanted::WhereKnown, "elsewhere", None, 0),
        (vec![state("s")], Wanted::WhereKnown, "own", Some("the tests"), 0),
    ];
    for (i, (answers, wanted, server, focus, asked)) in cases.into_iter().enumerate() {
        let mut plan = TWO.to_vec();
        plan.extend([Say::Text(SUMMARY), Say::Text("three")]);
        let mut scene = Scene::new(&plan, &answers);
        let mut session = scene.begun().await;
        (scene.wanted, scene.model.server) = (wanted, server);
        scene.compact(&mut session, focus).await.expect("it works");
        let done = newest(&session);
        assert!(done.native.is_none() && done.summary.is_some(), "case {i}");
        assert_eq!((scene.asked(), done.no_native.is_some()), (asked, asked == 1), "case {i}");
        let told = scene.events.lock().expect("events").iter().any(|e| e.contains("Local"));
        assert_eq!(told, asked == 1, "case {i}");
        scene.say(&mut session, "m1", "and?").await;
        assert!(scene.begins_with().starts_with("user: "), "case {i}");
    }
}

/// A state that its own model does not take is no state: what the summary is asked for shows it.
#[tokio::test]
async fn a_state_that_cannot_be_read_is_not_kept() {
    let mut plan = TWO.to_vec();
    plan.extend([Say::Fails(ModelErrorKind::Thinking), Say::Text(SUMMARY)]);
    let scene = Scene::new(&plan, &[state("torn")]);
    let mut session = scene.begun().await;
    scene.compact(&mut session, None).await.expect("it works");
    assert!(newest(&session).native.is_none());
    assert_eq!(session.state().in_force.totals.requests, 5, "both are counted");
}

/// Later it is left out for good when it is refused, by an edit of the compaction, and the summary is sent in its
/// place at once.
/// Covers: #46.
#[tokio::test]
async fn a_state_that_is_refused_later_gives_way_to_the_summary() {
    let mut plan = TWO.to_vec();
    plan.extend([Say::Text(SUMMARY), Say::Fails(ModelErrorKind::Thinking), Say::Text("three")]);
    let scene = Scene::new(&plan, &[state("stale")]);
    let mut session = scene.begun().await;
    scene.compact(&mut session, None).await.expect("it works");
    let finished = scene.say(&mut session, "m1", "and?").await;
    assert_eq!(finished.text, "three", "{finished:?}");
    assert!(scene.begins_with().starts_with("user: "));
    drop(session);
    let mut session = scene.reopen().await;
    scene.say(&mut session, "m1", "and?").await;
    assert!(scene.begins_with().starts_with("user: "), "it stays left out");
}

/// A stop while the provider works leaves the context as it was; the call counts, and it is unknown what it cost.
#[tokio::test]
async fn a_stop_while_a_state_is_made_leaves_everything_as_it_was() {
    let scene = Scene::new(&TWO, &[Answer::Hangs]);
    let mut session = scene.begun().await;
    let before = render(&session.context(&model_ref()).messages);
    let error = scene.compact(&mut session, None).await.expect_err("stopped");
    assert!(matches!(error, CompactError::Stopped(StopKind::User)), "{error:?}");
    assert_eq!(render(&session.context(&model_ref()).messages), before);
    let totals = session.state().in_force.totals;
    assert_eq!((totals.requests, totals.unknown), (3, 3), "this model reports nothing");
    assert_eq!(session.state().in_force.open_compaction, None);
}
