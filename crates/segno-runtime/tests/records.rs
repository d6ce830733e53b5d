//! What the records of a run hold, what waits for the first of them, and what is durable when a setting,
//! a move or a compaction returns.

mod support;

use segno_model::record::*;
use segno_model::store::{HeldSession as _, Judged, Level, SessionStore as _, StoreError};
use segno_model::{Record, Seq, SessionId, Standing};
use segno_runtime::*;
use segno_testkit::sessions;
use segno_testkit::strict_store::{StrictLog, StrictStore};
use std::sync::Arc;
use support::*;

fn id() -> SessionId {
    SessionId::parse("0195f3a0-0000-7000-8000-000000000005").expect("an id")
}

struct Scene {
    store: StrictStore,
    watch: Arc<Watch>,
    session: Session<Watched<StrictLog>>,
}

impl Scene {
    fn new() -> Self {
        let (store, watch) = (StrictStore::default(), Arc::<Watch>::default());
        let log = store.create(sessions::header(id()));
        let session = Session::new(Watched { log, watch: Arc::clone(&watch) }, clock());
        Self { store, watch, session }
    }

    /// Lets the next append find no room.
    fn fill(&self) {
        let next = self.watch.appends.load(std::sync::atomic::Ordering::SeqCst);
        let full = StoreError::NoRoom("the log".to_owned());
        self.watch.faults.lock().expect("faults").insert(next, full);
    }

    async fn run<T: Tools>(&mut self, plan: &[Say], tools: &T) -> Result<Finished, RunError> {
        let (model, never) = (PlannedModel::new(plan), Stop::never());
        let input = UserMessage::text("go");
        run(&mut self.session, &model, tools, env(&never), input, &mut ()).await
    }

    async fn say(&mut self, text: &'static str) -> Result<Finished, RunError> {
        let tools = PlannedTools::new(&self.store);
        self.run(&[Say::Text(text)], &tools).await
    }

    fn log(&self) -> String {
        log_text(&self.store, &id())
    }

    fn durable(&self) -> bool {
        self.store.durable_bytes(&id()) == self.store.log_bytes(&id())
    }

    fn records(&self) -> Vec<Record> {
        let bytes = self.store.log_bytes(&id()).expect("a log");
        let lines = bytes.split(|b| *b == b'\n').filter(|line| !line.is_empty());
        lines.map(|line| segno_model::line::decode(line, 0).expect("a record")).collect()
    }
}

async fn reopen(store: &StrictStore) -> Session<Watched<StrictLog>> {
    match store.elsewhere().open(&id()).await.expect("free").judge().await.expect("judged") {
        Judged::Sound(opened) => {
            let log = Watched { log: opened.log, watch: Arc::default() };
            let active = opened.active;
            Session::resume(segno_model::store::Opened { log, active }, clock())
        }
        Judged::Damaged(_) => panic!("damaged"),
    }
}

/// Each result names the record of its call and each reply that of its request, also where the model
/// gives one id again and again. Covers: G6, #36.
#[tokio::test]
async fn results_name_their_calls_and_replies_their_requests() {
    let mut scene = Scene::new();
    let call = Say::Calls(&[("same", "write")]);
    let tools = PlannedTools::new(&scene.store);
    scene.run(&[call.clone(), call, Say::Text("ok")], &tools).await.expect("runs");
    let (mut request, mut reply) = (None::<Seq>, None::<Seq>);
    let mut checked = 0;
    for record in scene.records() {
        match record.body() {
            Body::Request(_) => request = Some(record.seq()),
            Body::Message(message) => match &**message {
                Message::Assistant(assistant) => {
                    assert_eq!(assistant.request, request, "{}", brief(&record));
                    reply = Some(record.seq());
                    checked += 1;
                }
                Message::Tool(result) => {
                    assert_eq!(result.call_seq, reply, "{}", brief(&record));
                    checked += 1;
                }
                Message::User(_) => {}
            },
            _ => {}
        }
    }
    assert_eq!(checked, 3 + 2);
}

/// Of a long output the whole is kept, though the model sees a part. Covers: G13.
#[tokio::test]
async fn the_whole_of_a_long_output_is_kept() {
    let mut scene = Scene::new();
    let tools = PlannedTools::new(&scene.store);
    scene.run(&[Say::Calls(&[("a", "big")]), Say::Text("ok")], &tools).await.expect("runs");
    let whole = scene.records().into_iter().find_map(|record| match record.into_body() {
        Body::Message(message) => match *message {
            Message::Tool(result) => result.whole,
            _ => None,
        },
        _ => None,
    });
    let bytes = scene.store.blob(&id(), &whole.expect("named")).await.expect("kept");
    assert_eq!(bytes, vec![b'x'; 200_000]);
}

/// Keeps a task list, and lets a second call look whether the first one's result is recorded yet.
struct Lists(StrictStore);

impl Tools for Lists {
    fn specs(&self) -> Vec<ToolSpec> {
        Vec::new()
    }
    async fn judge(&self, _: &ToolCall) -> Verdict {
        Verdict::Run(ToolPlan::new(ReplayClass::Read))
    }
    async fn run(&self, call: &ToolCall, _: ToolRun<'_>) -> ToolOutput {
        let mut output = ToolOutput::done("done");
        if call.id == "a" {
            output.task = Some(Task { goal: "the goal".to_owned(), ..Task::default() });
            return output;
        }
        for _ in 0..200 {
            if log_text(&self.0, &id()).contains("result(a") {
                return output;
            }
            tokio::task::yield_now().await;
        }
        ToolOutput::failed("the finished sibling is not recorded")
    }
}

/// Each result is recorded as soon as it is there, so that a kill loses no finished sibling; a task list
/// comes with it and is in force. Covers: G7.
#[tokio::test]
async fn a_finished_result_is_recorded_while_its_siblings_run() {
    let mut scene = Scene::new();
    let tools = Lists(scene.store.clone());
    let plan = [Say::Calls(&[("b", "todo"), ("a", "todo")]), Say::Text("ok")];
    scene.run(&plan, &tools).await.expect("runs");
    assert!(scene.log().contains("result(b Done Observed)"), "{}", scene.log());
    let task = scene.session.state().in_force.task.clone();
    assert_eq!(task.map(|task| task.goal), Some("the goal".to_owned()));
}

fn thinking(level: &str) -> Body {
    Body::Thinking(ThinkingChange { level: level.to_owned() })
}

/// What waits for the first input is written with it, before it, once, the newest of each kind; and it
/// waits on when that input finds no room. Covers: G10, G16.
#[tokio::test]
async fn what_waits_for_an_input_is_written_once_before_it() {
    let mut scene = Scene::new();
    scene.session.queue(thinking("low"));
    scene.session.set_name("a name").await.expect("waits");
    scene.session.queue(thinking("high"));
    assert_eq!(scene.session.thinking(), Some("high"));
    scene.fill();
    scene.say("never").await.expect_err("no room");
    scene.say("one").await.expect("room");
    scene.say("two").await.expect("runs");
    let begins = "name\nthinking\nrun 1 started 1\nuser(go)\nrequest 1\n";
    assert!(scene.log().starts_with(begins), "{}", scene.log());
    assert_eq!(scene.log().matches("thinking").count(), 1, "{}", scene.log());
    assert_eq!(scene.session.state().in_force.thinking.as_deref(), Some("high"));
}

/// What recovery has to say is not lost with an append that fails, and comes before what waits.
/// Covers: G6, G7, G16.
#[tokio::test]
async fn recovery_survives_a_failed_append_and_comes_first() {
    let mut scene = Scene::new();
    let tools = PlannedTools::new(&scene.store);
    // 0: input, 1: request, 2: reply, 3: intent, 4: result.
    let killed = StoreError::Poisoned("killed".to_owned());
    scene.watch.faults.lock().expect("faults").insert(4, killed);
    scene.run(&[Say::Calls(&[("a", "write")])], &tools).await.expect_err("killed");
    let store = scene.store.clone();
    drop(scene);
    store.crash(usize::MAX);
    let mut session = reopen(&store).await;
    session.queue(thinking("high"));
    let full = StoreError::NoRoom("the log".to_owned());
    session.log_mut().watch.faults.lock().expect("faults").insert(0, full);
    session.begin_compaction().await.expect_err("no room");
    session.begin_compaction().await.expect("room");
    session.set_name("a name").await.expect("room");
    let ends = "action a\nresult(a Unknown Recovery)\nrun 1 Suspended\nthinking\ncompaction\nname";
    let log = log_text(&store, &id());
    assert!(log.ends_with(ends), "{log}");
}

/// Naming interrupted work, or changing a setting of it, does not settle it, and does not make a crash a
/// suspension. Covers: G9.
#[tokio::test]
async fn a_setting_leaves_interrupted_work_as_it_is() {
    let mut scene = Scene::new();
    let tools = PlannedTools::new(&scene.store);
    let killed = StoreError::Poisoned("killed".to_owned());
    scene.watch.faults.lock().expect("faults").insert(4, killed);
    scene.run(&[Say::Calls(&[("a", "write")])], &tools).await.expect_err("killed");
    let store = scene.store.clone();
    drop(scene);
    store.crash(usize::MAX);
    let mut session = reopen(&store).await;
    session.set_name("a name").await.expect("named");
    session.set_thinking("high").await.expect("set");
    assert_eq!(session.standing(), Standing::Interrupted);
    assert!(log_text(&store, &id()).ends_with("action a\nname\nthinking"));
    assert_eq!(session.pending_recovery().len(), 2, "it is still to be settled");
}

/// Setting what is in force already writes nothing; choosing it in person does. Covers: G10.
#[tokio::test]
async fn only_changes_are_recorded() {
    let mut scene = Scene::new();
    scene.say("one").await.expect("runs");
    let model = |chosen| ModelChange { model: model_ref(), base_url: None, chosen };
    let place = Environment { cwd: "/here".to_owned(), ..Environment::default() };
    let before = scene.log().lines().count();
    for (chosen, expected) in [
        (false, "model\nthinking\nenvironment\nname"),
        (false, "name"),
        (true, "model\nname"),
        (false, "name"),
    ] {
        let before = scene.log().lines().count();
        scene.session.set_model(model(chosen)).await.expect("set");
        scene.session.set_thinking("high").await.expect("set");
        scene.session.note_environment(place.clone());
        scene.session.set_name("a name").await.expect("set");
        let added: Vec<_> = scene.log().lines().skip(before).map(ToOwned::to_owned).collect();
        assert_eq!(added.join("\n"), expected);
    }
    assert_eq!(scene.log().lines().count(), before + 8);
}

/// Settings, moves of the tip and compactions are durable when they return, and what a compaction took
/// out of the context leaves memory. Covers: G1, G11.
#[tokio::test]
async fn settings_moves_and_compactions_are_durable_when_they_return() {
    let mut scene = Scene::new();
    scene.say("one").await.expect("runs");
    let first = scene.session.state().tip();
    scene.say("two").await.expect("runs");
    scene.session.set_name("a name").await.expect("named");
    assert!(scene.durable(), "a name");
    let tip = scene.session.state().tip();
    scene.session.navigate(first).await.expect("moves");
    assert!(scene.durable(), "a move");
    let context = render(&scene.session.context(&model_ref()).messages);
    assert!(context.contains("assistant: one") && !context.contains("two"), "{context}");
    scene.session.navigate(tip).await.expect("moves back");
    let before = scene.session.records().len();
    scene.session.begin_compaction().await.expect("begins");
    assert!(scene.durable(), "the beginning of a compaction");
    let summary = Some(Text::Inline("what happened".to_owned()));
    let done = Compaction { summary, ..Compaction::marker(CompactionState::Done, None) };
    scene.session.end_compaction(done).await.expect("ends");
    assert!(scene.durable(), "a compaction");
    assert!(scene.session.records().len() < before, "what was summarised is still in memory");
    let kept = render(&scene.session.context(&model_ref()).messages);
    drop(scene.session);
    assert_eq!(render(&reopen(&scene.store).await.context(&model_ref()).messages), kept);
}

/// A session counts as resumable from when a record is durable, not when it is written.
/// Covers: G1.
#[tokio::test]
async fn a_session_is_resumable_when_a_record_is_durable() {
    let mut scene = Scene::new();
    scene.session.append(vec![thinking("high")], Level::Written).await.expect("written");
    assert!(!scene.session.is_durable());
    scene.session.sync().await.expect("synced");
    assert!(scene.session.is_durable());
    drop(scene.session);
    assert!(reopen(&scene.store).await.is_durable());
    // All that is left is line 1.
    let bytes = scene.store.log_bytes(&id()).expect("a log");
    let end = bytes.iter().position(|b| *b == b'\n').expect("a line");
    scene.store.set_log_bytes(&id(), bytes[..=end].to_vec());
    assert!(!reopen(&scene.store).await.is_durable());
}
