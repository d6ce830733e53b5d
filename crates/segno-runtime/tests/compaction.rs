//! Compaction: when it comes by itself, what it writes in which order, and what a failed one leaves.

mod support;

use segno_model::compaction::{Settings, Window};
use segno_model::context::ContextMessage;
use segno_model::record::{Body, CompactionState, Message, RunEnd, UserMessage};
use segno_model::store::{HeldSession as _, Judged, Opened, SessionStore as _};
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

/// About 500 tokens.
fn long(word: &str) -> String {
    format!("{word} {}", "abcdefg ".repeat(250))
}

struct Scene {
    store: StrictStore,
    model: PlannedModel,
    tools: PlannedTools,
    handle: StopHandle,
    stop: Stop,
    events: Arc<Mutex<Vec<String>>>,
    watch: Arc<Watch>,
    limits: Limits,
    /// Tokens of the model's context.
    window: u64,
}

impl Scene {
    fn new(window: u64, plan: &[Say]) -> Self {
        let store = StrictStore::default();
        let (handle, stop) = StopHandle::new();
        let tools = PlannedTools::new(&store);
        let model = PlannedModel::new(plan);
        let (events, watch, limits) = (Arc::default(), Arc::default(), Limits::default());
        Self { store, model, tools, handle, stop, events, watch, limits, window }
    }

    fn session(&self) -> Session<Watched<StrictLog>> {
        let log = self.store.create(sessions::header(id()));
        Session::new(Watched { log, watch: Arc::clone(&self.watch) }, clock())
    }

    async fn reopen(&self) -> Session<Watched<StrictLog>> {
        let held = self.store.elsewhere().open(&id()).await.expect("free");
        match held.judge().await.expect("judged") {
            Judged::Sound(Opened { log, active }) => {
                let log = Watched { log, watch: Arc::clone(&self.watch) };
                Session::resume(Opened { log, active }, clock())
            }
            Judged::Damaged(_) => panic!("damaged"),
        }
    }

    fn env(&self) -> RunEnv<'static> {
        let window = (self.window > 0).then_some(Window { context: self.window, output: 0 });
        let compaction = Settings { window, ..Settings::default() };
        RunEnv { compaction, limits: self.limits.clone(), ..env(&self.stop) }
    }

    fn observer(&self) -> impl FnMut(Event<'_>) + Send + use<> {
        let events = self.events.clone();
        move |event: Event<'_>| {
            let mut events = events.lock().expect("events");
            match event {
                Event::Recorded(record) => events.push(told(record)),
                Event::Compaction(event) => events.push(format!("{event:?}")),
                _ => {}
            }
        }
    }

    async fn prompt(&self, session: &mut Session<Watched<StrictLog>>, text: &str) -> Finished {
        let input = UserMessage::text(text);
        let mut observer = self.observer();
        let ended = run(session, &self.model, &self.tools, self.env(), input, &mut observer).await;
        ended.expect("the log works")
    }

    async fn compact(
        &self,
        session: &mut Session<Watched<StrictLog>>,
    ) -> Result<Compacted, CompactError> {
        let mut observer = self.observer();
        compact(session, &self.model, &self.tools, self.env(), None, &mut observer).await
    }

    fn seen(&self) -> Vec<String> {
        self.model.seen.lock().expect("seen").clone()
    }

    fn events(&self) -> Vec<String> {
        std::mem::take(&mut *self.events.lock().expect("events"))
    }
}

fn told(record: &Record) -> String {
    match record.body() {
        Body::Compaction(compaction) => match compaction.state {
            CompactionState::Started => "compaction started".to_owned(),
            CompactionState::Failed => {
                format!("compaction failed: {}", compaction.reason.clone().unwrap_or_default())
            }
            CompactionState::Done => "compaction done".to_owned(),
        },
        _ => brief(record),
    }
}

const SUMMARY: &str = "<summary>\n## Goal\nThey said long things.\n## Constraints\n## Decisions\n\
    ## Done\n## In progress\n## Next\n## Files\n## Open questions\n</summary>";

/// Near the threshold a summary is made before the next request, in the order that a crash needs, and the
/// next request holds it instead of the history.
/// Covers: EV3, G1.
#[tokio::test]
async fn near_the_threshold_it_comes_by_itself() {
    let answers = [Say::Text("one"), Say::Text("two"), Say::Text(SUMMARY), Say::Text("three")];
    let scene = Scene::new(1_800, &answers);
    let mut session = scene.session();
    scene.prompt(&mut session, &long("first")).await;
    scene.prompt(&mut session, &long("second")).await;
    assert!(!scene.events().iter().any(|e| e.contains("compaction")), "too early");
    let finished = scene.prompt(&mut session, &long("third")).await;
    assert_eq!((finished.end, finished.text.as_str()), (RunEnd::Completed, "three"));
    let events = scene.events();
    let order = ["compaction started", "request 3", "compaction done", "request 4"];
    let at = order.map(|what| events.iter().position(|e| e == what));
    assert!(at.iter().all(Option::is_some) && at.is_sorted(), "{events:?}");
    let last = scene.seen().pop().expect("a request");
    assert!(last.contains("session_history") || last.lines().count() < 5, "{last}");
    assert_eq!(session.state().in_force.totals.compactions, 1);
    assert_eq!(scene.watch.syncs.load(Ordering::SeqCst), 3 * 3 + 3, "three more syncs, no more");
}

/// Without a known window, and when it is switched off, nothing happens by itself.
#[tokio::test]
async fn without_a_window_nothing_comes_by_itself() {
    let scene = Scene::new(0, &[]);
    let mut session = scene.session();
    for _ in 0..5 {
        scene.prompt(&mut session, &long("more")).await;
    }
    assert_eq!(session.state().in_force.totals.compactions, 0);
}

/// A summary that fails leaves the context, is said once, and is not paid for again until the context has
/// grown; a person may ask at any time.
/// Covers: EV3.
#[tokio::test]
async fn a_failing_summary_is_not_paid_for_again_and_again() {
    let large = SUMMARY.replace("long things", &"long things and more of them ".repeat(500));
    for bad in ["<summary>cut off", &*large.leak()] {
        fails_once(Say::Text(bad)).await;
    }
}

async fn fails_once(bad: Say) {
    let plan = [Say::Text("one"), bad.clone(), bad, Say::Text("two"), Say::Text("three")];
    let scene = Scene::new(1_200, &plan);
    let mut session = scene.session();
    scene.prompt(&mut session, &long("first")).await;
    let second = scene.prompt(&mut session, &long("second long")).await;
    let third = scene.prompt(&mut session, "and?").await;
    assert_eq!((second.text.as_str(), third.text.as_str()), ("two", "three"));
    let events = scene.events();
    let count = |what: &str| events.iter().filter(|e| e.contains(what)).count();
    assert_eq!((count("compaction started"), count("compaction failed: ")), (1, 1), "{events:?}");
    assert_eq!(count("GivenUp"), 1, "{events:?}");
    assert_eq!(session.state().in_force.totals.requests, 5);
    scene.model.plan.lock().expect("plan").push_back(Say::Text(SUMMARY));
    scene.compact(&mut session).await.expect("asked for by a person");
}

/// A request that the provider calls too long is made shorter once, whatever was estimated; a second time
/// the run fails and says so.
#[tokio::test]
async fn what_is_too_long_is_made_shorter_once() {
    let too_long = Say::Fails(ModelErrorKind::TooLong);
    for (again, end) in [(false, RunEnd::Completed), (true, RunEnd::Failed)] {
        let mut plan = vec![Say::Text("one"), too_long.clone(), Say::Text(SUMMARY)];
        plan.extend(again.then(|| too_long.clone()));
        plan.push(Say::Text("two"));
        let scene = Scene::new(100_000, &plan);
        let mut session = scene.session();
        scene.prompt(&mut session, &long("first")).await;
        let finished = scene.prompt(&mut session, "second").await;
        assert_eq!(finished.end, end, "{finished:?}");
        let told = finished.reason.as_ref().is_some_and(|why| why.contains("larger window"));
        assert_eq!(told, again, "{finished:?}");
        assert_eq!(session.state().in_force.totals.compactions, 1);
        let events = scene.events();
        assert!(events.iter().any(|e| e.contains("TooLong")), "{events:?}");
    }
}

/// A summary's request that is itself too long is cut; busy providers are waited for.
#[tokio::test]
async fn the_request_for_a_summary_is_cut_and_repeated() {
    let plan = [
        Say::Text("one"),
        Say::Text("two"),
        Say::Fails(ModelErrorKind::TooLong),
        Say::Fails(ModelErrorKind::Busy),
        Say::Text(SUMMARY),
    ];
    let scene = Scene::new(8_000, &plan);
    let mut session = scene.session();
    scene.prompt(&mut session, &long("first")).await;
    scene.prompt(&mut session, &long("second")).await;
    let compacted = scene.compact(&mut session).await.expect("compacted");
    assert!(compacted.summary.contains("They said long things."));
    assert!(compacted.tokens_after < compacted.tokens_before, "{compacted:?}");
}

/// A stop and a shutdown in the middle of a summary end it, and the run as they do elsewhere.
/// Covers: G9.
#[tokio::test]
async fn a_stop_in_the_middle_of_a_summary() {
    for (kind, end) in [(StopKind::User, RunEnd::Stopped), (StopKind::Shutdown, RunEnd::Suspended)]
    {
        let scene = Scene::new(1_200, &[Say::Text("one"), Say::Hangs("<summ")]);
        *scene.model.stop_when_hanging.lock().expect("stop") = Some((scene.handle.clone(), kind));
        let mut session = scene.session();
        scene.prompt(&mut session, &long("first")).await;
        let finished = scene.prompt(&mut session, &long("second")).await;
        assert_eq!(finished.end, end);
        assert!(session.state().in_force.open_compaction.is_none());
        assert!(session.state().in_force.last_compaction.is_none(), "it says nothing");
        assert!(scene.events().contains(&"compaction failed: stopped".to_owned()));
        assert_eq!(finished.text, "", "a summary is no reply");
    }
}

/// Killed at every write of a compaction, the next process has the context of before or of after, and what
/// the call cost counts against the run's limits.
/// Covers: G4, G9.
#[tokio::test]
async fn killed_in_the_middle_its_cost_counts() {
    let answers = [Say::Text("one"), Say::Text(SUMMARY), Say::Text("two")];
    for fatal in 0..5 {
        let scene = Scene::new(1_200, &answers);
        let mut session = scene.session();
        scene.prompt(&mut session, &long("first")).await;
        let appends = scene.watch.appends.load(Ordering::SeqCst);
        let refused = segno_model::store::StoreError::Poisoned("killed".to_owned());
        scene.watch.faults.lock().expect("faults").insert(appends + fatal, refused);
        let input = UserMessage::text(long("second"));
        let mut observer = scene.observer();
        let env = scene.env();
        let died = run(&mut session, &scene.model, &scene.tools, env, input, &mut observer).await;
        died.expect_err("killed");
        drop(session);
        scene.store.crash(0);
        let mut session = scene.reopen().await;
        let open = session.state().in_force.open_run.clone();
        if let Some(open) = open.filter(|open| open.asking.is_some()) {
            assert!(open.used().input > 400, "{open:?}");
        }
        let (env, mut observer) = (scene.env(), scene.observer());
        let taken = take_up(&mut session, &scene.model, &scene.tools, env, &mut observer);
        taken.await.expect("the log works");
        assert!(session.state().in_force.open_compaction.is_none(), "at append {fatal}");
    }
}

/// A run whose limit is reached makes no summary.
/// Covers: G9.
#[tokio::test]
async fn a_summary_counts_against_the_limits() {
    let mut scene = Scene::new(1_200, &[Say::Text("one"), Say::Text(SUMMARY), Say::Text("two")]);
    scene.limits.tokens = Some(400);
    let mut session = scene.session();
    let first = scene.prompt(&mut session, &long("first")).await;
    assert_eq!(first.end, RunEnd::Completed);
    let second = scene.prompt(&mut session, &long("second")).await;
    assert_eq!(second.end, RunEnd::Exhausted, "{second:?}");
    assert_eq!(scene.seen().len(), 2, "the summary was the last call");
}

/// What the person said stays, word for word, when it is neither kept nor in the summary, and the task in
/// force stands below it; the next compaction carries both on.
/// Covers: EV3, EV9.
#[tokio::test]
async fn the_persons_words_and_the_task_outlive_summaries() {
    use segno_model::record::Task;
    let answers = [Say::Text("one"), Say::Text("two"), Say::Text(SUMMARY), Say::Text(SUMMARY)];
    let scene = Scene::new(4_000, &answers);
    let mut session = scene.session();
    scene.prompt(&mut session, &format!("不改公共接口。 {}", long("Never push. first"))).await;
    let task = Task { goal: "tidy up".to_owned(), ..Task::default() };
    session.set(Body::Task(task)).await.expect("recorded");
    scene.prompt(&mut session, &long("second")).await;
    for again in [false, true] {
        if again {
            scene.model.plan.lock().expect("plan").push_front(Say::Text("three"));
            scene.prompt(&mut session, &long("third")).await;
        }
        scene.compact(&mut session).await.expect("compacted");
        let context = session.context(&model_ref());
        let text = context.messages.first().map(ContextMessage::text).unwrap_or_default();
        for part in ["- 不改公共接口。", "Never push.", "Goal: tidy up"] {
            assert!(text.contains(part), "again {again}: {text}");
        }
        assert_eq!(text.matches("公共接口").count(), 1);
        let before = render(&context.messages);
        drop(session);
        session = scene.reopen().await;
        assert_eq!(render(&session.context(&model_ref()).messages), before);
    }
}

/// Old outputs go before a summary is made, in one batch; the call stays with its line, and the next
/// requests extend each other again.
/// Covers: G6, G10.
#[tokio::test]
async fn old_outputs_are_left_out_before_a_summary_is_made() {
    let call = |id| {
        Say::Calls(match id {
            0 => &[("c0", "long")],
            1 => &[("c1", "long")],
            2 => &[("c2", "read")],
            3 => &[("c3", "read")],
            4 => &[("c4", "read")],
            _ => &[("c5", "long")],
        })
    };
    let mut plan: Vec<Say> = (0..6).map(call).collect();
    plan.push(Say::Text("done"));
    let scene = Scene::new(4_000, &plan);
    let mut session = scene.session();
    let finished = scene.prompt(&mut session, "go").await;
    assert_eq!(finished.text, "done", "{finished:?}");
    let events = scene.events();
    assert!(events.iter().any(|e| e.starts_with("Pruned { results: 2")), "{events:?}");
    assert_eq!(session.state().in_force.totals.compactions, 0);
    let seen = scene.seen();
    let last = seen.last().expect("a request");
    assert!(last.contains("c0=") && last.contains("c5=5000 bytes"), "{last}");
    assert_eq!(last.matches("5000 bytes").count(), 1);
}

/// When what is too long cannot be summarised, the session is not stuck: the records say what they can, and
/// that no model wrote it.
#[tokio::test]
async fn a_session_that_cannot_be_summarised_is_not_stuck() {
    let (too_long, bad) = (Say::Fails(ModelErrorKind::TooLong), Say::Text("I would rather not."));
    let plan = [Say::Text("one"), too_long, bad.clone(), bad, Say::Text("on we go")];
    let scene = Scene::new(100_000, &plan);
    let mut session = scene.session();
    scene.prompt(&mut session, &long("first")).await;
    let finished = scene.prompt(&mut session, "second").await;
    assert_eq!((finished.end, finished.text.as_str()), (RunEnd::Completed, "on we go"));
    let context = session.context(&model_ref());
    let text = context.messages.first().map(ContextMessage::text).unwrap_or_default();
    assert!(text.contains("No model wrote this summary") && text.contains("first"), "{text}");
    assert!(render(&context.messages).contains("user: second"), "the prompt in work stays");
}

/// An output that would fill the window is shown in part; the whole of it is kept.
/// Covers: #94.
#[tokio::test]
async fn an_output_larger_than_the_window_is_shown_in_part() {
    for (window, cut) in [(2_000, true), (200_000, false)] {
        let plan = [Say::Calls(&[("1", "long")]), Say::Text("seen")];
        let scene = Scene::new(window, &plan);
        let mut session = scene.session();
        let finished = scene.prompt(&mut session, "look").await;
        assert_eq!(finished.end, RunEnd::Completed);
        let messages = session.context(&model_ref()).messages;
        let shown: String = messages.iter().map(ContextMessage::text).collect();
        assert_eq!(shown.contains("characters are not shown"), cut, "{window}");
        assert_eq!(shown.len() < 5_000, cut, "{window}: {} bytes", shown.len());
        let records = session.records();
        let whole = records.iter().find_map(|record| match record.body() {
            Body::Message(message) => match &**message {
                Message::Tool(result) => Some(result.whole.clone()),
                _ => None,
            },
            _ => None,
        });
        assert_eq!(whole.flatten().is_some_and(|blob| blob.bytes == 5_000), cut);
    }
}

/// Where every summary only makes room for the same output again, the run ends instead of paying for ever.
#[tokio::test]
async fn summaries_that_lead_nowhere_come_to_an_end() {
    let mut plan = vec![Say::Text("one")];
    for _ in 0..10 {
        plan.extend([
            Say::Calls(&[("1", "read")]),
            Say::Fails(ModelErrorKind::TooLong),
            Say::Text(SUMMARY),
        ]);
    }
    let scene = Scene::new(100_000, &plan);
    let mut session = scene.session();
    scene.prompt(&mut session, &long("first")).await;
    let finished = scene.prompt(&mut session, "look").await;
    assert_eq!(finished.end, RunEnd::Failed, "{finished:?}");
    assert!(finished.reason.is_some_and(|why| why.contains("larger window")));
    assert_eq!(session.state().in_force.totals.compactions, 3);
    scene.model.plan.lock().expect("plan").clear();
    scene.model.plan.lock().expect("plan").push_back(Say::Text("better"));
    let finished = scene.prompt(&mut session, "only say something").await;
    assert_eq!(finished.end, RunEnd::Completed, "the session is not stuck");
}

/// A result that the model has not seen is sent, whatever has to make room for it: near the threshold, and, in
/// part, after a refusal.
#[tokio::test]
async fn a_result_that_was_not_seen_is_sent() {
    let look = Say::Calls(&[("1", "long")]);
    let plan = [
        Say::Text("one"),
        Say::Text("two"),
        Say::Text("three"),
        look.clone(),
        Say::Text(SUMMARY),
        Say::Text("seen"),
    ];
    let scene = Scene::new(3_900, &plan);
    let mut session = scene.session();
    for word in ["first", "second", "third"] {
        scene.prompt(&mut session, &long(word)).await;
    }
    let finished = scene.prompt(&mut session, &long("look")).await;
    assert_eq!((finished.end, finished.text.as_str()), (RunEnd::Completed, "seen"));
    assert_eq!(session.state().in_force.totals.compactions, 1);
    assert!(scene.seen().last().is_some_and(|sent| sent.ends_with("results: 1=5000 bytes")));

    let too_long = Say::Fails(ModelErrorKind::TooLong);
    let plan = [Say::Text("one"), look, too_long, Say::Text(SUMMARY), Say::Text("seen")];
    let scene = Scene::new(100_000, &plan);
    let mut session = scene.session();
    scene.prompt(&mut session, &long("first")).await;
    let finished = scene.prompt(&mut session, "look").await;
    assert_eq!((finished.end, finished.text.as_str()), (RunEnd::Completed, "seen"));
    let messages = session.context(&model_ref()).messages;
    let result = messages.iter().rev().find(|m| matches!(m, ContextMessage::Results(_)));
    let shown = result.map(ContextMessage::text).unwrap_or_default();
    assert!(shown.starts_with("xxx") && shown.len() < 3_000, "{} bytes", shown.len());
    assert!(shown.contains("characters are not shown") && shown.contains("--raw"), "{shown}");
}

/// Reads for ever, and summarises well.
struct Looping(PlannedModel);

impl Model for Looping {
    async fn reply(
        &self,
        request: ModelRequest<'_>,
        events: &mut (dyn FnMut(StreamEvent) + Send),
    ) -> Result<segno_model::record::AssistantMessage, ModelError> {
        assert!(self.0.seen.lock().expect("seen").len() < 500, "it is paid for for ever");
        let summarises = request.system.starts_with("You summarise");
        let say = if summarises { Say::Text(SUMMARY) } else { Say::Calls(&[("1", "long")]) };
        self.0.plan.lock().expect("plan").push_back(say);
        self.0.reply(request, events).await
    }
}

/// A model that reads for ever in a window that is too small for what it reads: the run ends by itself, with what
/// can be done, and the session goes on.
#[tokio::test]
async fn a_loop_in_a_small_window_comes_to_an_end() {
    for window in [700, 1_200, 2_400] {
        let scene = Scene::new(window, &[]);
        let mut session = scene.session();
        let model = Looping(PlannedModel::default());
        let (input, env) = (UserMessage::text("read it all"), scene.env());
        let mut observer = scene.observer();
        let ended = run(&mut session, &model, &scene.tools, env, input, &mut observer).await;
        let finished = ended.expect("the log works");
        assert_eq!(finished.end, RunEnd::Failed, "{window}: {finished:?}");
        let why = finished.reason.unwrap_or_default();
        assert!(why.contains("larger window") && why.contains("segno compact"), "{window}: {why}");
        assert!(session.state().in_force.totals.requests < 40, "{window}");
        assert_eq!(scene.prompt(&mut session, "and?").await.end, RunEnd::Completed, "{window}");
    }
}
