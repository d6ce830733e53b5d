//! Interrupted work that is taken up: what is counted, what is found out, what the model is told, and that
//! a kill anywhere in it changes nothing about the rest.

mod support;

use segno_model::record::*;
use segno_model::store::{
    HeldSession as _, Judged, SessionLog as _, SessionStore as _, StoreError,
};
use segno_model::{Body, SessionId, Standing};
use segno_runtime::*;
use segno_testkit::sessions;
use segno_testkit::strict_store::{StrictLog, StrictStore};
use std::sync::{Arc, Mutex};
use support::*;

fn id() -> SessionId {
    SessionId::parse("0195f3a0-0000-7000-8000-000000000007").expect("an id")
}

type Open = Session<Watched<StrictLog>>;

/// A store, a model and tools that outlive processes.
struct Scene {
    store: StrictStore,
    model: PlannedModel,
    tools: PlannedTools,
    limits: Limits,
}

impl Scene {
    fn new(plan: &[Say]) -> Self {
        let store = StrictStore::default();
        let tools = PlannedTools::new(&store);
        Self { tools, store, model: PlannedModel::new(plan), limits: Limits::default() }
    }

    fn plan(&self, plan: &[Say]) {
        *self.model.plan.lock().expect("plan") = plan.iter().cloned().collect();
    }

    fn begin(&self) -> Open {
        let log = self.store.create(sessions::header(id()));
        Session::new(Watched { log, watch: Arc::default() }, clock())
    }

    /// The next process, which dies at its `fatal`th append.
    async fn next(&self, fatal: Option<usize>) -> Open {
        let held = self.store.elsewhere().open(&id()).await.expect("it is free");
        let Judged::Sound(opened) = held.judge().await.expect("it can be judged") else {
            panic!("damaged")
        };
        let watch = Arc::<Watch>::default();
        if let Some(fatal) = fatal {
            let killed = StoreError::Poisoned("killed".to_owned());
            watch.faults.lock().expect("faults").insert(fatal, killed);
        }
        let log = Watched { log: opened.log, watch };
        Session::resume(segno_model::store::Opened { log, active: opened.active }, clock())
    }

    fn env(&self, stop: &Stop) -> RunEnv<'static> {
        RunEnv { limits: self.limits.clone(), ..env(stop) }
    }

    /// A run whose process dies at append `fatal`.
    async fn killed_at(&self, fatal: usize) {
        let mut session = self.begin();
        let killed = StoreError::Poisoned("killed".to_owned());
        session.log_mut().watch.faults.lock().expect("faults").insert(fatal, killed);
        let stop = Stop::never();
        let input = UserMessage::text("go");
        run(&mut session, &self.model, &self.tools, self.env(&stop), input, &mut ())
            .await
            .expect_err("killed");
        drop(session);
        self.store.crash(usize::MAX);
    }

    async fn take_up(&self) -> Option<Finished> {
        let mut session = self.next(None).await;
        self.take_up_in(&mut session).await.expect("it is taken up")
    }

    async fn take_up_in(&self, session: &mut Open) -> Result<Option<Finished>, RunError> {
        let stop = Stop::never();
        take_up(session, &self.model, &self.tools, self.env(&stop), &mut ()).await
    }

    fn log(&self) -> String {
        log_text(&self.store, &id())
    }

    fn last_seen(&self) -> String {
        self.model.seen.lock().expect("seen").last().cloned().unwrap_or_default()
    }
}

/// The attempt is counted before anything else, what was left open is said once, and the run goes on to
/// its end. Covers: G7, G9, #146, #147.
#[tokio::test]
async fn an_interrupted_run_is_counted_settled_and_finished() {
    // 0: input, 1: request, 2: reply, 3: intents, 4: first result.
    let scene = Scene::new(&[Say::Calls(&[("a", "read"), ("b", "write")])]);
    scene.killed_at(4).await;
    scene.plan(&[Say::Text("done")]);
    let finished = scene.take_up().await.expect("there was something");
    assert_eq!((finished.end, finished.text.as_str()), (RunEnd::Completed, "done"));
    let expected = "run 1 started 1\nuser(go)\nrequest 1\ncalls(2)\naction b\nrun 1 started 2\n\
        result(a NotRecorded Recovery)\nresult(b Unknown Recovery)\nrequest 2\nassistant(done)\n\
        run 1 Completed";
    assert_eq!(scene.log(), expected);
    assert!(scene.last_seen().contains("b=UNKNOWN"), "{}", scene.last_seen());
    assert_eq!(scene.take_up().await, None, "nothing is left");
}

/// A round whose intents are not on record: nobody says that its effects did not happen. Covers: G7.
#[tokio::test]
async fn nothing_is_concluded_from_an_intent_that_is_missing() {
    let scene = Scene::new(&[Say::Calls(&[("b", "write")])]);
    scene.killed_at(3).await;
    scene.plan(&[Say::Text("done")]);
    scene.take_up().await.expect("taken up");
    assert!(scene.log().contains("result(b Unknown Recovery)"), "{}", scene.log());
    let seen = scene.last_seen();
    assert!(seen.contains("b=") && !seen.contains("Not run"), "{seen}");
}

/// Killed at every append of a turn, and then at every append of its recovery, and of the recovery of
/// that: each attempt is on record before anything else it did, every call has one result, no effect
/// happens twice, and the last one finishes. Covers: G4, G6, G7, G9, SD1, SD2.
#[tokio::test]
async fn recovery_that_is_killed_anywhere_is_recovered_from() {
    let plan = [Say::Calls(&[("a", "read"), ("b", "write"), ("c", "ask")]), Say::Text("done")];
    for first in 1.. {
        let scene = Scene::new(&plan);
        let mut session = scene.begin();
        let killed = StoreError::Poisoned("killed".to_owned());
        session.log_mut().watch.faults.lock().expect("faults").insert(first, killed);
        let stop = Stop::never();
        let input = UserMessage::text("go");
        let ran =
            run(&mut session, &scene.model, &scene.tools, scene.env(&stop), input, &mut ()).await;
        drop(session);
        if ran.is_ok() {
            assert!(first > 8, "the sweep ended after {first}");
            return;
        }
        for second in 0..7 {
            killed_again(&scene, second, &format!("{first}/{second}")).await;
        }
    }
}

/// From a copy of where `scene` stands: one take-up that dies at `second`, then one that finishes.
async fn killed_again(from: &Scene, second: usize, about: &str) {
    let scene = Scene::new(&[Say::Text("done"), Say::Text("done"), Say::Text("done")]);
    scene.store.set_log_bytes(&id(), from.store.log_bytes(&id()).expect("a log"));
    let before = scene.log();
    let mut session = scene.next(Some(second)).await;
    let died = scene.take_up_in(&mut session).await.is_err();
    drop(session);
    scene.store.crash(usize::MAX);
    if died {
        let after = scene.log();
        let added = after.strip_prefix(&before).unwrap_or_else(|| panic!("{about}: rewritten"));
        let first = added.trim_start().lines().next().unwrap_or("run 1 started");
        assert!(first.starts_with("run 1 started"), "{about}: {first} came before the attempt");
        scene.take_up().await;
    }
    let log = scene.log();
    assert!(log.ends_with("run 1 Completed"), "{about}: {log}");
    for call in ["a", "b", "c"] {
        let results = log.matches(&format!("result({call} ")).count();
        assert!(results <= 1, "{about}: {log}");
        assert_eq!(results == 1, log.contains("calls(3)"), "{about}: {log}");
        let began = log.matches(&format!("action {call}")).count();
        assert!(began <= 1, "{about}: {log}");
    }
    assert_eq!(log.matches("user(go)").count(), 1, "{about}");
    let ran = [&from.tools, &scene.tools].map(|t| t.ran.lock().expect("ran").clone()).concat();
    for effect in ["write b", "ask c"] {
        assert!(ran.iter().filter(|r| *r == effect).count() <= 1, "{about}: {ran:?}");
    }
}

/// Few attempts without progress, and then a person is told; a reply or a result in between is progress.
/// Covers: G9, #123.
#[tokio::test]
async fn attempts_without_progress_are_few() {
    let scene = Scene::new(&[Say::Text("never")]);
    scene.killed_at(2).await;
    let mut attempts = 0;
    let finished = loop {
        // 0: the attempt, 1: the request, 2: the reply.
        let mut session = scene.next(Some(2)).await;
        match scene.take_up_in(&mut session).await {
            Err(_) => attempts += 1,
            Ok(finished) => break finished.expect("it was told"),
        }
        assert!(attempts < 10, "it never ends");
    };
    assert_eq!((attempts, finished.end), (3, RunEnd::Exhausted));
    let why = finished.reason.expect("a reason");
    assert!(why.contains("without progress"), "{why}");
    let session = scene.next(None).await;
    assert_eq!(session.standing(), Standing::Exhausted);
    drop(session);
    assert_eq!(scene.take_up().await, None, "a person has to say so");
    // A person goes on as if nothing had happened.
    scene.plan(&[Say::Text("here I am")]);
    let mut session = scene.next(None).await;
    let (stop, input) = (Stop::never(), UserMessage::text("again"));
    run(&mut session, &scene.model, &scene.tools, scene.env(&stop), input, &mut ())
        .await
        .expect("runs");
}

/// Progress does not reset the cap on attempts as such. Covers: G9.
#[tokio::test]
async fn attempts_with_progress_have_a_cap_too() {
    let mut scene = Scene::new(&[Say::Text("never")]);
    scene.limits.attempts = 5;
    scene.killed_at(2).await;
    let mut attempts = 0;
    loop {
        scene.plan(&[Say::Calls(&[("a", "read")]), Say::Text("never")]);
        // 0: the attempt, then perhaps recovery; it dies at its second request.
        let mut session = scene.next(None).await;
        let standing = session.standing();
        assert!(matches!(standing, Standing::Interrupted | Standing::Exhausted), "{standing:?}");
        let killed = StoreError::Poisoned("killed".to_owned());
        session.log_mut().watch.faults.lock().expect("faults").insert(4, killed);
        match scene.take_up_in(&mut session).await {
            Err(_) => attempts += 1,
            Ok(finished) => {
                assert_eq!(finished.expect("told").end, RunEnd::Exhausted);
                break;
            }
        }
        assert!(attempts < 20, "it never ends");
    }
    assert_eq!(attempts, 4, "and the first one: {}", scene.log());
}

/// Tokens are counted over all attempts, and a call whose answer nobody recorded counts by its estimate.
/// Covers: G9.
#[tokio::test]
async fn tokens_have_a_cap_that_nothing_resets() {
    let mut scene = Scene::new(&[Say::Text("never")]);
    scene.killed_at(2).await;
    let session = scene.next(None).await;
    let used = session.state().in_force.open_run.as_ref().expect("a run").used();
    assert!(used.input > 0, "the estimate");
    drop(session);
    scene.limits.tokens = Some(used.context());
    let finished = scene.take_up().await.expect("told");
    assert_eq!(finished.end, RunEnd::Exhausted);
    assert!(finished.reason.expect("why").contains("tokens"));
}

/// A clean shutdown costs no attempt, however often it comes. Covers: G9.
#[tokio::test]
async fn shutdowns_cost_no_attempt() {
    let mut scene = Scene::new(&[]);
    scene.limits = Limits { stalled: 1, attempts: 2, ..Limits::default() };
    for deploy in 0..6 {
        scene.plan(&[Say::Hangs("half")]);
        let (handle, stop) = StopHandle::new();
        *scene.model.stop_when_hanging.lock().expect("set") = Some((handle, StopKind::Shutdown));
        let ended = if deploy == 0 {
            let mut session = scene.begin();
            let input = UserMessage::text("go");
            run(&mut session, &scene.model, &scene.tools, scene.env(&stop), input, &mut ()).await
        } else {
            let mut session = scene.next(None).await;
            assert_eq!(session.standing(), Standing::Suspended);
            take_up(&mut session, &scene.model, &scene.tools, scene.env(&stop), &mut ())
                .await
                .map(|finished| finished.expect("there was something"))
        };
        assert_eq!(ended.expect("ends").end, RunEnd::Suspended, "{deploy}");
    }
    scene.plan(&[Say::Text("whole")]);
    assert_eq!(scene.take_up().await.expect("taken up").end, RunEnd::Completed);
    assert_eq!(scene.log().matches("run 1 started 1").count(), 7, "{}", scene.log());
}

/// What was streamed before a shutdown is in the context, and what follows it is the user's side.
/// Covers: G6, G9.
#[tokio::test]
async fn a_reply_that_a_shutdown_cut_off_is_gone_on_with() {
    let scene = Scene::new(&[Say::Hangs("half")]);
    let (handle, stop) = StopHandle::new();
    *scene.model.stop_when_hanging.lock().expect("set") = Some((handle, StopKind::Shutdown));
    let mut session = scene.begin();
    let input = UserMessage::text("go");
    run(&mut session, &scene.model, &scene.tools, scene.env(&stop), input, &mut ())
        .await
        .expect("ends");
    drop(session);
    scene.plan(&[Say::Text("whole")]);
    scene.take_up().await.expect("taken up");
    let seen = scene.last_seen();
    assert!(seen.starts_with("user: go\nassistant: half\nuser: "), "{seen}");
}

/// A stop is finished and never taken up, whatever was going on. Covers: G9.
#[tokio::test]
async fn a_stop_is_finished_and_stays() {
    let mut scene = Scene::new(&[Say::Calls(&[("a", "wait")])]);
    let (handle, stop) = StopHandle::new();
    scene.tools.stop_when_waiting = Some((handle, StopKind::User));
    let mut session = scene.begin();
    // 0: input, 1: request, 2: reply, 3: intent, 4: stopping, 5: result.
    let killed = StoreError::Poisoned("killed".to_owned());
    session.log_mut().watch.faults.lock().expect("faults").insert(5, killed);
    let input = UserMessage::text("go");
    run(&mut session, &scene.model, &scene.tools, scene.env(&stop), input, &mut ())
        .await
        .expect_err("killed");
    drop(session);
    scene.store.crash(usize::MAX);
    assert!(scene.log().ends_with("run 1 stopping"), "{}", scene.log());
    let finished = scene.take_up().await.expect("the stop");
    assert_eq!(finished.end, RunEnd::Stopped);
    assert!(scene.log().ends_with("result(a Unknown Recovery)\nrun 1 Stopped"), "{}", scene.log());
    assert_eq!(scene.next(None).await.standing(), Standing::Unknown);
    assert_eq!(scene.take_up().await, None);
    assert_eq!(scene.model.seen.lock().expect("seen").len(), 1, "the model was asked again");
}

/// A question that was open when the process ended, however it ended, is put again; the whole round then
/// runs, answers that were given stand, and waiting costs no attempt. Covers: G7, G9, #43.
#[tokio::test]
async fn an_open_question_survives_a_restart() {
    // 0: input, 1: request, 2: reply, 3: first question, 4: answer, 5: second question, 6: answer.
    let calls = Say::Calls(&[("a", "write"), ("b", "ask"), ("c", "ask"), ("d", "read")]);
    let scene = Scene::new(&[calls]);
    scene.killed_at(6).await;
    assert_eq!(scene.next(None).await.standing(), Standing::Waiting);
    scene.plan(&[Say::Text("done")]);
    scene.take_up().await.expect("taken up");
    let expected = "run 1 started 1\nuser(go)\nrequest 1\ncalls(4)\nasked b\nanswered b true\n\
        asked c\nrun 1 started 1\nanswered c true\naction a\naction b\naction c\n\
        result(a Done Observed)\nresult(b Done Observed)\nresult(c Done Observed)\n\
        result(d Done Observed)\nrequest 2\nassistant(done)\nrun 1 Completed";
    assert_eq!(scene.log(), expected);
}

/// Nobody answered; a shutdown leaves the question open, and a new prompt says that the call did not run.
/// Covers: G7, G9, #43.
#[tokio::test]
async fn a_shutdown_leaves_a_question_open() {
    struct Absent(StopHandle);
    impl Tools for Absent {
        fn specs(&self) -> Vec<ToolSpec> {
            Vec::new()
        }
        async fn judge(&self, _: &ToolCall) -> Verdict {
            let plan = ToolPlan::new(ReplayClass::Opaque);
            Verdict::Ask { question: "may I?".to_owned(), plan }
        }
        async fn ask(&self, _: &ToolCall, _: &str) -> Answer {
            self.0.stop(StopKind::Shutdown);
            std::future::pending().await
        }
        async fn run(&self, _: &ToolCall, _: ToolRun<'_>) -> ToolOutput {
            panic!("nobody allowed it")
        }
    }
    let scene = Scene::new(&[Say::Calls(&[("a", "ask"), ("b", "ask")])]);
    let (handle, stop) = StopHandle::new();
    let mut session = scene.begin();
    let input = UserMessage::text("go");
    let ended =
        run(&mut session, &scene.model, &Absent(handle), scene.env(&stop), input, &mut ()).await;
    assert_eq!(ended.expect("ends").end, RunEnd::Suspended);
    assert!(scene.log().ends_with("calls(2)\nasked a\nrun 1 Suspended"), "{}", scene.log());
    drop(session);
    let mut session = scene.next(None).await;
    assert_eq!(session.standing(), Standing::Waiting);
    scene.plan(&[Say::Text("ok")]);
    let (stop, input) = (Stop::never(), UserMessage::text("never mind"));
    run(&mut session, &scene.model, &scene.tools, scene.env(&stop), input, &mut ())
        .await
        .expect("runs");
    let log = scene.log();
    assert!(log.contains("result(a NotRun Recovery)\nresult(b NotRun Recovery)"), "{log}");
}

/// Tools of which one command still runs.
struct Running {
    stopped: Mutex<Vec<Option<StopKind>>>,
}

impl Tools for Running {
    fn specs(&self) -> Vec<ToolSpec> {
        Vec::new()
    }
    async fn establish(&self, begun: Begun<'_>) -> Settlement {
        let unknown = ToolOutput::new("it still runs", true, Outcome::Unknown);
        match begun.action.call_id.as_str() {
            "a" => Settlement::Running(unknown),
            _ => Settlement::Told(ToolOutput::done("it had ended")),
        }
    }
    async fn reattach(&self, _: &Action, run: ToolRun<'_>) -> ToolOutput {
        (run.progress)(Progress::Output("still here\n".to_owned()));
        tokio::task::yield_now().await;
        let kind = run.stop.kind();
        self.stopped.lock().expect("stopped").push(kind);
        match kind {
            Some(_) => ToolOutput::new("stopped", true, Outcome::Stopped),
            None => ToolOutput::done("its end was seen"),
        }
    }
    async fn run(&self, _: &ToolCall, _: ToolRun<'_>) -> ToolOutput {
        ToolOutput::done("ran")
    }
}

async fn left_running(scene: &Scene, stopping: bool) {
    let mut session = scene.begin();
    let started = RunState::Started { attempt: 1, owner: String::new() };
    let calls = ["a", "b"].map(|id| AssistantBlock::call(id, "bash", "{}")).to_vec();
    let bodies = vec![
        Body::Run(Run { run: 1, state: started }),
        Body::Message(Box::new(Message::User(UserMessage::text("go")))),
        Body::Message(Box::new(Message::Assistant(AssistantMessage::new(&model_ref(), calls)))),
    ];
    let level = segno_model::store::Level::Synced;
    let records = session.append(bodies, level).await.expect("written");
    let call_seq = records.last().expect("the reply").seq();
    let action = |id: &str| {
        Body::Action(Box::new(Action {
            call_id: id.to_owned(),
            call_seq,
            tool: "bash".to_owned(),
            class: ReplayClass::Supervised,
            host: String::new(),
            boot: String::new(),
            key: None,
            probe: None,
            before: None,
        }))
    };
    let mut bodies = vec![action("a"), action("b")];
    if stopping {
        bodies.push(Body::Run(Run { run: 1, state: RunState::Stopping { parked: Vec::new() } }));
    }
    session.append(bodies, level).await.expect("written");
}

/// A command that still runs is waited for, shown as it goes on, and its true end is the result.
/// Covers: G7.
#[tokio::test]
async fn commands_that_still_run_are_waited_for() {
    let scene = Scene::new(&[Say::Text("done")]);
    left_running(&scene, false).await;
    let tools = Running { stopped: Mutex::default() };
    let mut session = scene.next(None).await;
    let shown = Mutex::new(String::new());
    let mut observer = |event: Event<'_>| match event {
        Event::Reattached { call_id, .. } => {
            shown.lock().expect("shown").push_str(&format!("waiting for {call_id}: "));
        }
        Event::ToolProgress { progress: Progress::Output(text), .. } => {
            shown.lock().expect("shown").push_str(&text);
        }
        _ => {}
    };
    let stop = Stop::never();
    take_up(&mut session, &scene.model, &tools, scene.env(&stop), &mut observer)
        .await
        .expect("taken up");
    assert_eq!(*shown.lock().expect("shown"), "waiting for a: still here\n");
    let log = scene.log();
    let expected = "run 1 started 2\nresult(b Done Traces)\nresult(a Done Traces)\nrequest 1";
    assert!(log.contains(expected), "{log}");
    assert!(scene.last_seen().contains("a=its end was seen; b=it had ended"));
}

/// A shutdown does not touch a command that is waited for: it runs on, and the next one waits again.
/// Covers: G7, G9.
#[tokio::test]
async fn a_shutdown_lets_go_of_what_still_runs() {
    let scene = Scene::new(&[Say::Text("done")]);
    left_running(&scene, false).await;
    let tools = Running { stopped: Mutex::default() };
    let mut session = scene.next(None).await;
    let (handle, stop) = StopHandle::new();
    let mut observer = |event: Event<'_>| {
        if let Event::Reattached { .. } = event {
            handle.stop(StopKind::Shutdown);
        }
    };
    let env = scene.env(&stop);
    let ended = take_up(&mut session, &scene.model, &tools, env, &mut observer).await;
    assert_eq!(ended.expect("ends").expect("taken up").end, RunEnd::Suspended);
    assert!(scene.log().ends_with("result(b Done Traces)\nrun 1 Suspended"), "{}", scene.log());
    drop(session);
    let mut session = scene.next(None).await;
    assert_eq!(session.standing(), Standing::Suspended);
    let stop = Stop::never();
    let ended = take_up(&mut session, &scene.model, &tools, scene.env(&stop), &mut ()).await;
    assert_eq!(ended.expect("ends").expect("taken up").end, RunEnd::Completed);
    assert!(scene.log().contains("result(a Done Traces)"), "{}", scene.log());
    let stopped = tools.stopped.lock().expect("stopped");
    assert!(stopped.iter().all(Option::is_none), "it was told to stop: {stopped:?}");
}

/// The kills of a user's stop are finished by whoever comes next: the one that goes on with it, and the
/// one that begins something new. Covers: G9.
#[tokio::test]
async fn the_kills_of_a_stop_are_finished() {
    for anew in [false, true] {
        let scene = Scene::new(&[Say::Text("ok")]);
        left_running(&scene, true).await;
        let tools = Running { stopped: Mutex::default() };
        let mut session = scene.next(None).await;
        assert_eq!(session.standing(), Standing::Stopping);
        let stop = Stop::never();
        if anew {
            let input = UserMessage::text("something else");
            run(&mut session, &scene.model, &tools, scene.env(&stop), input, &mut ())
                .await
                .expect("runs");
        } else {
            take_up(&mut session, &scene.model, &tools, scene.env(&stop), &mut ())
                .await
                .expect("finished");
        }
        assert_eq!(*tools.stopped.lock().expect("stopped"), [Some(StopKind::User)]);
        let log = scene.log();
        let stopped =
            "run 1 stopping\nresult(a Stopped Stop)\nresult(b Done Traces)\nrun 1 Stopped";
        assert!(log.contains(stopped), "{log}");
        assert_eq!(log.contains("run 2 started 1\nuser(something else)"), anew, "{log}");
    }
}

/// The model had finished, and only the end of the run was not written: it is written, and nothing is asked
/// again. What was never recorded is not made up. Covers: G9.
#[tokio::test]
async fn what_was_answered_is_ended_and_not_asked_again() {
    let scene = Scene::new(&[Say::Text("four")]);
    let mut session = scene.begin();
    let (stop, input) = (Stop::never(), UserMessage::text("two and two?"));
    run(&mut session, &scene.model, &scene.tools, scene.env(&stop), input, &mut ())
        .await
        .expect("runs");
    drop(session);
    let whole = scene.store.log_bytes(&id()).expect("a log");
    let cut = whole[..whole.len() - 1].iter().rposition(|b| *b == b'\n').expect("lines") + 1;
    scene.store.set_log_bytes(&id(), whole[..cut].to_vec());
    assert_eq!(scene.next(None).await.standing(), Standing::Interrupted);
    assert_eq!(scene.take_up().await.expect("ended").end, RunEnd::Completed);
    assert_eq!(scene.model.seen.lock().expect("seen").len(), 1);
}

/// Streams a text in pieces and then is gone for ever, as a process that is killed.
struct Dying(&'static [&'static str]);

impl Model for Dying {
    async fn reply(
        &self,
        _: ModelRequest<'_>,
        events: &mut (dyn FnMut(StreamEvent) + Send),
    ) -> Result<AssistantMessage, ModelError> {
        for piece in self.0 {
            events(StreamEvent::Thinking("(hm) ".to_owned()));
            events(StreamEvent::Text((*piece).to_owned()));
            tokio::task::yield_now().await;
        }
        let (id, name) = ("x".to_owned(), "bash".to_owned());
        events(StreamEvent::ToolCall { id, name });
        events(StreamEvent::Arguments("{\"comm".to_owned()));
        std::future::pending().await
    }
}

/// A session whose process was killed in the middle of a reply.
async fn killed_while_streaming(scene: &Scene, pieces: &'static [&'static str]) {
    let mut session = scene.begin();
    let stop = Stop::never();
    let (model, input) = (Dying(pieces), UserMessage::text("go"));
    let mut nobody = ();
    let work = run(&mut session, &model, &scene.tools, scene.env(&stop), input, &mut nobody);
    let idle = async {
        for _ in 0..1_000 {
            tokio::task::yield_now().await;
        }
    };
    tokio::select! {
        biased;
        _ = work => panic!("it ended"),
        () = idle => {}
    }
    drop(session);
    scene.store.crash(usize::MAX);
}

/// What was streamed is taken over, once: finished text, no thinking, no call; the model is told that it
/// was cut off. Covers: G6, G7, #124, SD1.
#[tokio::test]
async fn a_draft_is_taken_over_once() {
    let scene = Scene::new(&[Say::Text("and done")]);
    killed_while_streaming(&scene, &["The loop ", "has no end."]).await;
    let before = scene.store.log_bytes(&id());
    assert_eq!(scene.next(None).await.standing(), Standing::Interrupted);
    assert_eq!(scene.store.log_bytes(&id()), before, "looking changes nothing");
    scene.take_up().await.expect("taken up");
    let log = scene.log();
    let expected = "request 1\nrun 1 started 2\npartial(The loop has no end. Broken)\nuser(";
    assert!(log.contains(expected), "{log}");
    assert!(log.ends_with("request 2\nassistant(and done)\nrun 1 Completed"), "{log}");
    let seen = scene.last_seen();
    assert!(seen.starts_with("user: go\nassistant: The loop has no end.\nuser: "), "{seen}");
    assert!(!seen.contains("hm") && !seen.contains("bash"), "{seen}");
}

/// The same when a person says something new instead. Covers: G6, #124.
#[tokio::test]
async fn a_draft_is_in_front_of_a_new_prompt() {
    let scene = Scene::new(&[Say::Text("ok")]);
    killed_while_streaming(&scene, &["half"]).await;
    let mut session = scene.next(None).await;
    let (stop, input) = (Stop::never(), UserMessage::text("never mind"));
    run(&mut session, &scene.model, &scene.tools, scene.env(&stop), input, &mut ())
        .await
        .expect("runs");
    assert_eq!(scene.last_seen(), "user: go\nassistant: half\nuser: never mind");
}

/// A draft counts only while its request has no answer and is the newest; text alone is no reason for a
/// reply. Covers: G6.
#[tokio::test]
async fn a_draft_without_its_request_is_ignored() {
    for (request, text) in [(99, "of nobody"), (0, "of the header"), (3, "  \n")] {
        let scene = Scene::new(&[Say::Text("never")]);
        scene.killed_at(2).await;
        let mut session = scene.next(None).await;
        let asking = session.state().in_force.open_run.as_ref().and_then(|run| run.asking);
        assert_eq!(asking.map(|asking| asking.seq), Some(3));
        session.log_mut().save_draft(request, text).await.expect("kept");
        drop(session);
        scene.plan(&[Say::Text("done")]);
        scene.take_up().await.expect("taken up");
        assert!(!scene.log().contains("partial"), "{}", scene.log());
    }
    // Its request was answered.
    let scene = Scene::new(&[Say::Calls(&[("a", "write")])]);
    scene.killed_at(3).await;
    let mut session = scene.next(None).await;
    session.log_mut().save_draft(3, "what became the reply").await.expect("kept");
    drop(session);
    scene.plan(&[Say::Text("done")]);
    scene.take_up().await.expect("taken up");
    assert!(!scene.log().contains("partial"), "{}", scene.log());
}

/// Killed at every append of taking a draft over: it is in the log once, or not yet. Covers: G4, G6.
#[tokio::test]
async fn taking_a_draft_over_may_be_killed_anywhere() {
    for fatal in 0..4 {
        let scene = Scene::new(&[]);
        killed_while_streaming(&scene, &["half an answer"]).await;
        scene.plan(&[Say::Text("done"), Say::Text("done")]);
        let mut session = scene.next(Some(fatal)).await;
        let _ = scene.take_up_in(&mut session).await;
        drop(session);
        scene.store.crash(usize::MAX);
        scene.take_up().await;
        let log = scene.log();
        assert_eq!(log.matches("partial(half an answer").count(), 1, "{fatal}: {log}");
        assert!(log.ends_with("run 1 Completed"), "{fatal}: {log}");
    }
}

/// A disk that takes no draft holds nothing up: the reply counts, and it is recorded. Covers: G16.
#[tokio::test]
async fn a_draft_that_cannot_be_kept_costs_nothing_else() {
    use segno_testkit::strict_store::{Fault, Op};
    let scene = Scene::new(&[Say::Text("whole")]);
    scene.store.fail_next(Op::Draft, Fault::NoRoom);
    let mut session = scene.begin();
    let (stop, input) = (Stop::never(), UserMessage::text("go"));
    let finished =
        run(&mut session, &scene.model, &scene.tools, scene.env(&stop), input, &mut ()).await;
    assert_eq!(finished.expect("runs").text, "whole");
}
