//! Failing calls, limits, stops and shutdowns: what is kept, what counts, and what never hangs.

mod support;

use segno_model::SessionId;
use segno_model::record::*;
use segno_model::store::{SessionStore as _, StoreError};
use segno_runtime::*;
use segno_testkit::sessions;
use segno_testkit::strict_store::{StrictLog, StrictStore};
use std::collections::VecDeque;
use std::future::Future;
use std::sync::{Arc, Mutex};
use support::*;

fn id() -> SessionId {
    SessionId::parse("0195f3a0-0000-7000-8000-000000000004").expect("an id")
}

/// What a call comes to: a reply, or a failure after some streamed text.
#[derive(Clone)]
enum Comes {
    Reply(Vec<AssistantBlock>),
    Fails(&'static str, ModelErrorKind),
}

#[derive(Default)]
struct Script {
    plan: Mutex<VecDeque<Comes>>,
    seen: Mutex<Vec<String>>,
}

impl Script {
    fn new(plan: &[Comes]) -> Self {
        Self { plan: Mutex::new(plan.iter().cloned().collect()), ..Self::default() }
    }

    fn seen(&self) -> Vec<String> {
        self.seen.lock().expect("seen").clone()
    }
}

impl Model for Script {
    async fn reply(
        &self,
        request: ModelRequest<'_>,
        events: &mut (dyn FnMut(StreamEvent) + Send),
    ) -> Result<AssistantMessage, ModelError> {
        self.seen.lock().expect("seen").push(render(request.messages));
        let next = self.plan.lock().expect("plan").pop_front();
        match next.unwrap_or(Comes::Reply(vec![AssistantBlock::text("ok")])) {
            Comes::Reply(content) => Ok(AssistantMessage::new(&model_ref(), content)),
            Comes::Fails(text, kind) => {
                events(StreamEvent::Text(text.to_owned()));
                Err(ModelError::new(kind, format!("{kind:?}")))
            }
        }
    }
}

struct Scene {
    store: StrictStore,
    watch: Arc<Watch>,
    model: Script,
    session: Session<Watched<StrictLog>>,
}

impl Scene {
    fn new(plan: &[Comes]) -> Self {
        let (store, watch) = (StrictStore::default(), Arc::<Watch>::default());
        let log = store.create(sessions::header(id()));
        let session = Session::new(Watched { log, watch: Arc::clone(&watch) }, clock());
        Self { store, watch, model: Script::new(plan), session }
    }

    async fn run(&mut self, env: RunEnv<'_>, observer: &mut dyn Observer) -> Finished {
        let tools = PlannedTools::new(&self.store);
        let input = UserMessage::text("go");
        let work = run(&mut self.session, &self.model, &tools, env, input, observer);
        soon(work).await.expect("runs")
    }

    fn log(&self) -> String {
        log_text(&self.store, &id())
    }
}

/// What does not wait for anything ends within a bounded number of turns of the event loop.
async fn soon<T>(work: impl Future<Output = T>) -> T {
    let idle = async {
        for _ in 0..10_000 {
            tokio::task::yield_now().await;
        }
    };
    tokio::select! {
        biased;
        value = work => value,
        () = idle => panic!("it waits for ever"),
    }
}

fn calls(text: &str) -> Comes {
    Comes::Reply(vec![AssistantBlock::text(text), AssistantBlock::call("a", "read", "{}")])
}

/// Text that was streamed before a stream broke was paid for: it is kept, the model is told that it was cut
/// off, and goes on from there. Covers: G6, #124.
#[tokio::test]
async fn what_was_streamed_before_a_retry_is_kept() {
    let broken = Comes::Fails("half an ans", ModelErrorKind::Broken);
    let mut scene = Scene::new(&[broken, Comes::Fails("", ModelErrorKind::Busy)]);
    let finished = scene.run(env(&Stop::never()), &mut ()).await;
    assert_eq!((finished.end, finished.text.as_str()), (RunEnd::Completed, "ok"));
    let log = scene.log();
    assert!(log.contains("request 1\npartial(half an ans Broken)\nuser("), "{log}");
    let seen = scene.model.seen().pop().expect("asked");
    assert!(seen.starts_with("user: go\nassistant: half an ans\nuser: "), "{seen}");
}

/// Text that was streamed before a call failed for good is kept, marked as broken off. Covers: G6, #124.
#[tokio::test]
async fn what_was_streamed_before_a_failure_is_kept() {
    let mut scene = Scene::new(&[Comes::Fails("half an ans", ModelErrorKind::Refused)]);
    let finished = scene.run(env(&Stop::never()), &mut ()).await;
    assert_eq!((finished.end, finished.text.as_str()), (RunEnd::Failed, "half an ans"));
    let expected =
        "run 1 started 1\nuser(go)\nrequest 1\npartial(half an ans Broken)\nrun 1 Failed";
    assert_eq!(scene.log(), expected);
}

/// A failure never repeats the text of the step before it as its own. Covers: G6.
#[tokio::test]
async fn a_failed_step_does_not_take_the_words_of_an_earlier_one() {
    let mut scene = Scene::new(&[calls("first words"), Comes::Fails("", ModelErrorKind::Key)]);
    let finished = scene.run(env(&Stop::never()), &mut ()).await;
    assert_eq!((finished.end, finished.text.as_str()), (RunEnd::Failed, ""));
    assert!(scene.log().ends_with("request 2\nrun 1 Failed"), "{}", scene.log());
}

/// Repeated calls count against the limit of a run, and the limit is exact.
#[tokio::test]
async fn the_limit_of_calls_counts_repeated_ones_and_is_exact() {
    let busy = Comes::Fails("", ModelErrorKind::Busy);
    for plan in [vec![busy.clone(), busy.clone(), busy], vec![calls("1"), calls("2"), calls("3")]] {
        let mut scene = Scene::new(&plan);
        let limited = RunEnv { max_requests: Some(2), ..env(&Stop::never()) };
        assert_eq!(scene.run(limited, &mut ()).await.end, RunEnd::Exhausted);
        assert_eq!(scene.model.seen().len(), 2);
    }
}

/// After a provider refused signed reasoning it is asked once more without any. Covers: #46.
#[tokio::test]
async fn refused_reasoning_is_left_out_of_the_next_attempt() {
    let thinking = AssistantBlock::Thinking {
        text: "hm".to_owned(),
        signature: Some("sig".to_owned()),
        redacted: false,
    };
    let first = Comes::Reply(vec![thinking, AssistantBlock::call("a", "read", "{}")]);
    let mut scene = Scene::new(&[first, Comes::Fails("", ModelErrorKind::Thinking)]);
    assert_eq!(scene.run(env(&Stop::never()), &mut ()).await.end, RunEnd::Completed);
    let with: Vec<_> = scene.model.seen().iter().map(|s| s.contains("Thinking")).collect();
    assert_eq!(with, [false, true, false]);
}

/// A stop ends the waiting for a busy provider and for room on the disk, whenever it comes.
/// Covers: G9, G16.
#[tokio::test]
async fn a_stop_ends_every_waiting() {
    for wait in ["retry", "paused"] {
        let mut scene = Scene::new(&[Comes::Fails("", ModelErrorKind::Busy)]);
        if wait == "paused" {
            // 1 is the request.
            let full = StoreError::NoRoom("the log".to_owned());
            scene.watch.faults.lock().expect("faults").insert(1, full);
        }
        let (handle, stop) = StopHandle::new();
        let for_ever: Sleep = Arc::new(|_| Box::pin(std::future::pending()));
        let env = RunEnv { sleep: for_ever, ..env(&stop) };
        let mut observer = move |event: Event<'_>| {
            if matches!(event, Event::Retry { .. } | Event::Paused { .. }) {
                handle.stop(StopKind::User);
            }
        };
        let finished = scene.run(env, &mut observer).await;
        assert_eq!(finished.end, RunEnd::Stopped, "{wait}");
    }
}

/// A shutdown while tools run is no stop by the user: the run is suspended, and no stop is recorded.
/// Covers: G9.
#[tokio::test]
async fn a_shutdown_while_tools_run_is_not_recorded_as_a_stop() {
    let call = AssistantBlock::call("a", "wait", "{}");
    let mut scene = Scene::new(&[Comes::Reply(vec![call])]);
    let (handle, stop) = StopHandle::new();
    let mut tools = PlannedTools::new(&scene.store);
    tools.stop_when_waiting = Some((handle, StopKind::Shutdown));
    let input = UserMessage::text("go");
    let mut observer = ();
    let work = run(&mut scene.session, &scene.model, &tools, env(&stop), input, &mut observer);
    assert_eq!(soon(work).await.expect("ends").end, RunEnd::Suspended);
    let end = "action a\nresult(a Stopped Stop)\nrun 1 Suspended";
    assert!(scene.log().ends_with(end), "{}", scene.log());
}

/// The first stop that was asked for stands. Covers: G9.
#[tokio::test]
async fn a_shutdown_does_not_undo_a_stop() {
    let (handle, stop) = StopHandle::new();
    handle.stop(StopKind::User);
    handle.stop(StopKind::Shutdown);
    assert_eq!(stop.kind(), Some(StopKind::User));
}
