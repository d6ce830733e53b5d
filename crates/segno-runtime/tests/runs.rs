//! What a run writes, in which order, and what it leaves when it is stopped, refused or killed.

mod support;

use segno_model::record::{RunEnd, UserMessage};
use segno_model::store::{HeldSession as _, Judged, Opened, SessionStore as _, StoreError};
use segno_model::{Record, SessionId};
use segno_runtime::*;
use segno_testkit::sessions;
use segno_testkit::strict_store::{StrictLog, StrictStore};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use support::*;

fn id() -> SessionId {
    SessionId::parse("0195f3a0-0000-7000-8000-000000000001").expect("an id")
}

struct Scene {
    store: StrictStore,
    model: PlannedModel,
    tools: PlannedTools,
    handle: StopHandle,
    stop: Stop,
    events: Arc<Mutex<Vec<String>>>,
    watch: Arc<Watch>,
}

impl Scene {
    fn new(plan: &[Say]) -> Self {
        let store = StrictStore::default();
        let (handle, stop) = StopHandle::new();
        let tools = PlannedTools::new(&store);
        let (events, watch) = (Arc::default(), Arc::default());
        Self { tools, store, model: PlannedModel::new(plan), handle, stop, events, watch }
    }

    fn session(&self) -> Session<Watched<StrictLog>> {
        let log = self.store.create(sessions::header(id()));
        Session::new(Watched { log, watch: Arc::clone(&self.watch) }, clock())
    }

    /// Lets append number `number` (from 0) fail.
    fn fail(&self, number: usize, error: StoreError) {
        self.watch.faults.lock().expect("faults").insert(number, error);
    }

    async fn reopen(&self) -> Session<Watched<StrictLog>> {
        let held = self.store.elsewhere().open(&id()).await.expect("free");
        match held.judge().await.expect("judged") {
            Judged::Sound(Opened { log, active }) => {
                let log = Watched { log, watch: Arc::default() };
                Session::resume(Opened { log, active }, clock())
            }
            Judged::Damaged(_) => panic!("damaged"),
        }
    }

    async fn prompt(
        &self,
        session: &mut Session<Watched<StrictLog>>,
        text: &str,
    ) -> Result<Finished, RunError> {
        let events = self.events.clone();
        let mut observer = move |event: Event<'_>| {
            let mut events = events.lock().expect("events");
            match event {
                Event::Recorded(record) => events.push(brief(record)),
                Event::Retry { reason, .. } => events.push(format!("retry {reason}")),
                Event::Paused { .. } => events.push("paused".to_owned()),
                _ => {}
            }
        };
        let input = UserMessage::text(text);
        run(session, &self.model, &self.tools, env(&self.stop), input, &mut observer).await
    }

    fn log(&self) -> String {
        log_text(&self.store, &id())
    }

    fn seen(&self) -> Vec<String> {
        self.model.seen.lock().expect("seen").clone()
    }
}

/// Covers: ST1, EV2.
#[tokio::test]
async fn a_question_and_its_answer() {
    let scene = Scene::new(&[Say::Text("four")]);
    let finished = scene.prompt(&mut scene.session(), "two and two?").await.expect("runs");
    assert_eq!(finished.end, RunEnd::Completed);
    assert_eq!(finished.text, "four");
    let log = "run 1 started 1\nuser(two and two?)\nrequest 1\nassistant(four)\nrun 1 Completed";
    assert_eq!(scene.log(), log);
    assert_eq!(scene.seen(), ["user: two and two?"]);
}

/// Covers: G7, EV2.
#[tokio::test]
async fn tools_run_between_their_intent_and_their_result() {
    let calls = Say::Calls(&[("a", "read"), ("b", "write"), ("c", "bash"), ("d", "read")]);
    let scene = Scene::new(&[calls, Say::Text("ok")]);
    scene.prompt(&mut scene.session(), "go").await.expect("runs");
    let expected = "run 1 started 1\nuser(go)\nrequest 1\ncalls(4)\naction b\naction c\n\
        result(a Done Observed)\nresult(b Done Observed)\nresult(c Done Observed)\n\
        result(d Done Observed)\nrequest 2\nassistant(ok)\nrun 1 Completed";
    assert_eq!(scene.log(), expected);
    let second = "user: go\nassistant: [read a] [write b] [bash c] [read d]\n\
        results: a=a done; b=b done; c=c done; d=d done";
    assert_eq!(scene.seen()[1], second);
}

/// Syncs per turn: 1 for the input, 1 per request, at most 2 per round of tools, 1 for the end.
#[tokio::test]
async fn a_turn_costs_the_syncs_that_the_design_allows() {
    let cases: [(&[Say], usize); 4] = [
        (&[Say::Text("x")], 1 + 1 + 1),
        (&[Say::Calls(&[("a", "read"), ("b", "read")]), Say::Text("x")], 1 + 2 + 1 + 1),
        (&[Say::Calls(&[("a", "write"), ("b", "bash")]), Say::Text("x")], 1 + 2 + 2 + 1),
        (
            &[Say::Calls(&[("a", "write")]), Say::Calls(&[("b", "bash")]), Say::Text("x")],
            1 + 3 + 4 + 1,
        ),
    ];
    for (plan, expected) in cases {
        let scene = Scene::new(plan);
        scene.prompt(&mut scene.session(), "go").await.expect("runs");
        assert_eq!(scene.watch.syncs.load(Ordering::SeqCst), expected, "{plan:?}");
    }
}

/// Nothing is reported as recorded that a power cut could still take away.
/// Covers: G1, #126.
#[tokio::test]
async fn events_never_run_ahead_of_the_disk() {
    let scene = Scene::new(&[Say::Calls(&[("a", "read"), ("b", "write")]), Say::Text("ok")]);
    let store = scene.store.clone();
    let reported = Mutex::new(0);
    let mut observer = |event: Event<'_>| {
        if let Event::Recorded(record) = event {
            let copy = durable_records(&store);
            assert!(copy.contains(&record.seq()), "{} is not durable", brief(record));
            *reported.lock().expect("count") += 1;
        }
    };
    let mut session = scene.session();
    let input = UserMessage::text("go");
    run(&mut session, &scene.model, &scene.tools, env(&scene.stop), input, &mut observer)
        .await
        .expect("runs");
    assert_eq!(*reported.lock().expect("count"), 10);
}

fn durable_records(store: &StrictStore) -> Vec<u64> {
    let bytes = store.durable_bytes(&id()).unwrap_or_default();
    let lines = bytes.split(|b| *b == b'\n').filter(|line| !line.is_empty());
    lines.filter_map(|l| segno_model::line::decode(l, 0).ok()).map(|r: Record| r.seq()).collect()
}

/// Covers: G9, #32.
#[tokio::test]
async fn a_stop_while_the_model_streams_keeps_the_finished_text() {
    let scene = Scene::new(&[Say::Hangs("half an ans")]);
    *scene.model.stop_when_hanging.lock().expect("set") =
        Some((scene.handle.clone(), StopKind::User));
    let mut session = scene.session();
    let finished = scene.prompt(&mut session, "go").await.expect("ends");
    assert_eq!((finished.end, finished.text.as_str()), (RunEnd::Stopped, "half an ans"));
    let expected = "run 1 started 1\nuser(go)\nrequest 1\nrun 1 stopping\n\
        partial(half an ans Stopped)\nrun 1 Stopped";
    assert_eq!(scene.log(), expected);
}

/// A terminal that is closed in the middle of a reply: prompt and partial reply are on disk, and the
/// work is suspended, not stopped.
/// Covers: G9, #124.
#[tokio::test]
async fn a_shutdown_while_the_model_streams_suspends_the_run() {
    let scene = Scene::new(&[Say::Hangs("half")]);
    *scene.model.stop_when_hanging.lock().expect("set") =
        Some((scene.handle.clone(), StopKind::Shutdown));
    let mut session = scene.session();
    assert_eq!(scene.prompt(&mut session, "go").await.expect("ends").end, RunEnd::Suspended);
    let expected = "run 1 started 1\nuser(go)\nrequest 1\npartial(half Stopped)\nrun 1 Suspended";
    assert_eq!(scene.log(), expected);
}

/// The stop is on disk before the running tool hears of it; what had not started is said not to have
/// run; each call has one result.
/// Covers: G6, G9.
#[tokio::test]
async fn a_stop_while_tools_run_ends_them_and_starts_no_more() {
    let mut scene = Scene::new(&[
        Say::Calls(&[("a", "write"), ("b", "wait"), ("c", "write")]),
        Say::Text("no"),
    ]);
    scene.tools.stop_when_waiting = Some((scene.handle.clone(), StopKind::User));
    let mut session = scene.session();
    assert_eq!(scene.prompt(&mut session, "go").await.expect("ends").end, RunEnd::Stopped);
    let expected = "run 1 started 1\nuser(go)\nrequest 1\ncalls(3)\naction a\naction b\naction c\n\
        result(a Done Observed)\nrun 1 stopping\nresult(b Stopped Stop)\nresult(c NotRun Stop)\n\
        run 1 Stopped";
    assert_eq!(scene.log(), expected);
    assert_eq!(*scene.tools.ran.lock().expect("ran"), ["write a", "wait b"]);
}

/// Covers: G6, #43.
#[tokio::test]
async fn a_question_is_on_disk_before_it_is_put_and_so_is_its_answer() {
    let mut scene = Scene::new(&[Say::Calls(&[("a", "ask"), ("b", "deny")]), Say::Text("ok")]);
    scene.prompt(&mut scene.session(), "go").await.expect("runs");
    assert_eq!(
        scene.log(),
        "run 1 started 1\nuser(go)\nrequest 1\ncalls(2)\nasked a\nanswered a true\naction a\n\
        result(a Done Observed)\nresult(b Denied Permission)\nrequest 2\nassistant(ok)\n\
        run 1 Completed"
    );
    scene = Scene::new(&[Say::Calls(&[("a", "ask")]), Say::Text("ok")]);
    let reason = Some("not on a Friday".to_owned());
    scene.tools.answer = Answer { allowed: false, scope: "once".to_owned(), reason };
    scene.prompt(&mut scene.session(), "go").await.expect("runs");
    assert!(scene.tools.ran.lock().expect("ran").is_empty());
    assert!(scene.seen()[1].contains("not on a Friday"), "{}", scene.seen()[1]);
}

/// Each attempt is announced, so that a repeated call counts against the budget.
#[tokio::test]
async fn busy_and_broken_calls_are_repeated_and_counted() {
    use ModelErrorKind::{Broken, Busy};
    let scene = Scene::new(&[Say::Fails(Busy), Say::Fails(Broken), Say::Text("at last")]);
    let finished = scene.prompt(&mut scene.session(), "go").await.expect("runs");
    assert_eq!(finished.text, "at last");
    assert!(scene.log().contains("request 1\nrequest 2\nrequest 3\nassistant(at last)"));
    let events = scene.events.lock().expect("events");
    assert_eq!(events.iter().filter(|e| e.starts_with("retry")).count(), 2);
}

#[tokio::test]
async fn a_failure_that_repeating_cannot_help_ends_the_run_as_failed() {
    for kind in [ModelErrorKind::Key, ModelErrorKind::TooLong, ModelErrorKind::Refused] {
        let scene = Scene::new(&[Say::Fails(kind), Say::Text("never asked")]);
        let finished = scene.prompt(&mut scene.session(), "go").await.expect("ends");
        assert_eq!(finished.end, RunEnd::Failed);
        assert_eq!(finished.error.map(|e| e.kind), Some(kind));
        assert_eq!(scene.seen().len(), 1);
    }
}

#[tokio::test]
async fn a_run_ends_when_its_calls_are_used_up() {
    let round = Say::Calls(&[("a", "read")]);
    let scene = Scene::new(&[round.clone(), round.clone(), round]);
    let mut session = scene.session();
    let limited = RunEnv { max_requests: Some(2), ..env(&scene.stop) };
    let mut observer = |_: Event<'_>| {};
    let input = UserMessage::text("go");
    let finished =
        run(&mut session, &scene.model, &scene.tools, limited, input, &mut observer).await;
    assert_eq!(finished.expect("ends").end, RunEnd::Exhausted);
}

/// Killed at every single append of a run: the next process finds a history without holes, says that
/// outcomes are unknown, never runs an effect again by itself, and goes on.
/// Covers: G4, G6, G7, G9, #34, #41, #69, #123, RS17, SD1.
#[tokio::test]
async fn killed_at_every_append_the_next_process_goes_on() {
    let plan =
        [Say::Calls(&[("a", "read"), ("b", "write")]), Say::Text("done"), Say::Text("again")];
    for fatal in 0.. {
        let scene = Scene::new(&plan);
        let mut session = scene.session();
        scene.fail(fatal, StoreError::Poisoned("killed".to_owned()));
        let first = scene.prompt(&mut session, "go").await;
        drop(session);
        scene.store.crash(usize::MAX);
        if first.is_ok() {
            assert!(fatal > 4, "the sweep ended after {fatal}");
            return;
        }
        if scene.store.log_bytes(&id()).is_none() {
            assert_eq!(fatal, 0);
            continue;
        }
        let mut session = scene.reopen().await;
        let effects = scene.tools.ran.lock().expect("ran").len();
        *scene.model.plan.lock().expect("plan") = [Say::Text("again")].into();
        scene.prompt(&mut session, "and?").await.unwrap_or_else(|e| panic!("{fatal}: {e}"));
        assert_eq!(scene.tools.ran.lock().expect("ran").len(), effects, "{fatal}: ran again");
        let seen = scene.seen().pop().expect("asked");
        assert!(seen.starts_with("user: go\n"), "{fatal}: {seen}");
        assert!(seen.ends_with("user: and?"), "{fatal}: {seen}");
        let calls = seen.matches("[write b]").count();
        assert_eq!(seen.matches("b=").count(), calls, "{fatal}: {seen}");
    }
}

/// Looking is not writing; what recovery has to say comes with the first input, in front of it.
/// Covers: G6, G10, RS17.
#[tokio::test]
async fn recovery_is_written_once_and_only_with_an_input() {
    let scene = Scene::new(&[Say::Calls(&[("a", "write")]), Say::Text("x")]);
    let mut session = scene.session();
    scene.fail(4, StoreError::Poisoned("killed".to_owned()));
    scene.prompt(&mut session, "go").await.expect_err("killed");
    drop(session);
    scene.store.crash(usize::MAX);
    let before = scene.store.log_bytes(&id());
    let shown = {
        let session = scene.reopen().await;
        render(&session.context(&model_ref()).messages)
    };
    assert_eq!(scene.store.log_bytes(&id()), before);
    let mut session = scene.reopen().await;
    *scene.model.plan.lock().expect("plan") = [Say::Text("1"), Say::Text("2")].into();
    scene.prompt(&mut session, "and?").await.expect("runs");
    scene.prompt(&mut session, "more?").await.expect("runs");
    assert_eq!(scene.log().matches("Unknown Recovery").count(), 1, "{}", scene.log());
    assert!(scene.log().contains("run 1 Suspended\nrun 2 started"), "{}", scene.log());
    assert!(scene.seen()[1].starts_with(&shown), "{shown}\n---\n{}", scene.seen()[1]);
}

/// Covers: G16.
#[tokio::test]
async fn without_room_the_run_waits_and_goes_on_when_there_is_some() {
    let scene = Scene::new(&[Say::Calls(&[("a", "write")]), Say::Text("ok")]);
    let mut session = scene.session();
    for number in [1, 2, 4, 6, 8] {
        scene.fail(number, StoreError::NoRoom("the log".to_owned()));
    }
    let finished = scene.prompt(&mut session, "go").await.expect("runs");
    assert_eq!(finished.end, RunEnd::Completed);
    assert!(scene.events.lock().expect("events").contains(&"paused".to_owned()));
}

/// Covers: G16.
#[tokio::test]
async fn without_room_an_input_is_refused_and_nothing_is_half_there() {
    let scene = Scene::new(&[Say::Text("ok")]);
    let mut session = scene.session();
    scene.fail(0, StoreError::NoRoom("the log".to_owned()));
    let refused = scene.prompt(&mut session, "go").await.expect_err("no room");
    assert!(matches!(refused, RunError::Store(StoreError::NoRoom(_))));
    assert!(scene.seen().is_empty(), "the model was asked");
    assert!(!session.is_durable());
    assert_eq!(scene.prompt(&mut session, "go").await.expect("room").end, RunEnd::Completed);
}

/// Large texts and outputs leave the log, and are sent whole again.
#[tokio::test]
async fn large_values_are_blobs_on_disk_and_whole_in_the_request() {
    let scene = Scene::new(&[Say::Calls(&[("a", "big")]), Say::Text("ok")]);
    let mut session = scene.session();
    let long = "x".repeat(300_000);
    scene.prompt(&mut session, &long).await.expect("runs");
    assert!(scene.seen()[1].starts_with("user: 300000 bytes"), "{}", scene.seen()[1]);
    assert!(scene.seen()[1].ends_with("results: a=a cut"));
    let bytes = scene.store.log_bytes(&id()).expect("a log");
    assert!(bytes.len() < 20_000, "{}", bytes.len());
}

/// Covers: G10, ST2.
#[tokio::test]
async fn after_reopening_the_context_is_the_same() {
    let scene = Scene::new(&[
        Say::Calls(&[("a", "read"), ("b", "write")]),
        Say::Text("one"),
        Say::Text("two"),
    ]);
    let mut session = scene.session();
    scene.prompt(&mut session, "first").await.expect("runs");
    scene.prompt(&mut session, "second").await.expect("runs");
    let before = render(&session.context(&model_ref()).messages);
    drop(session);
    let session = scene.reopen().await;
    assert_eq!(render(&session.context(&model_ref()).messages), before);
    assert!(session.pending_recovery().is_empty());
}

/// NUL, the six characters that spell it, and what a broken half of a pair becomes: all come back
/// exactly after a restart.
/// Covers: #7, #121.
#[tokio::test]
async fn odd_characters_come_back_exactly() {
    let text = "a\u{0}b \\u0000 \u{fffd} \u{2028} \u{feff} \u{1f600}";
    let scene = Scene::new(&[Say::Text("ok")]);
    scene.prompt(&mut scene.session(), text).await.expect("runs");
    let session = scene.reopen().await;
    let messages = session.context(&model_ref()).messages;
    assert!(render(&messages).starts_with(&format!("user: {text}\n")), "{messages:?}");
}
