//! What is too large for a record, and what an earlier run of the same process left open.

mod support;

use segno_model::record::*;
use segno_model::store::{SessionStore as _, StoreError};
use segno_model::{Record, SessionId};
use segno_runtime::*;
use segno_testkit::sessions;
use segno_testkit::strict_store::{StrictLog, StrictStore};
use std::sync::{Arc, Mutex};
use support::*;

fn id() -> SessionId {
    SessionId::parse("0195f3a0-0000-7000-8000-000000000002").expect("an id")
}

fn session(store: &StrictStore, watch: &Arc<Watch>) -> Session<Watched<StrictLog>> {
    let log = store.create(sessions::header(id()));
    Session::new(Watched { log, watch: Arc::clone(watch) }, clock())
}

/// Gives these replies, then "ok"; keeps what it was sent.
struct Replies {
    plan: Mutex<Vec<AssistantMessage>>,
    seen: Mutex<Vec<String>>,
}

impl Replies {
    fn new(first: AssistantMessage) -> Self {
        Self { plan: Mutex::new(vec![first]), seen: Mutex::default() }
    }
}

impl Model for Replies {
    async fn reply(
        &self,
        request: ModelRequest<'_>,
        _: &mut (dyn FnMut(StreamEvent) + Send),
    ) -> Result<AssistantMessage, ModelError> {
        self.seen.lock().expect("seen").push(render(request.messages));
        let ok = || AssistantMessage::new(&model_ref(), vec![AssistantBlock::text("ok")]);
        Ok(self.plan.lock().expect("plan").pop().unwrap_or_else(ok))
    }
}

/// Each call gives this output.
struct Outputs {
    output: ToolOutput,
    ask: bool,
    plan: fn() -> ToolPlan,
    ran: Mutex<usize>,
}

impl Outputs {
    fn new(output: ToolOutput) -> Self {
        let plan = || ToolPlan::new(ReplayClass::Opaque);
        Self { output, ask: false, plan, ran: Mutex::default() }
    }
}

impl Tools for Outputs {
    fn specs(&self) -> Vec<ToolSpec> {
        Vec::new()
    }
    async fn judge(&self, _: &ToolCall) -> Verdict {
        let plan = (self.plan)();
        if self.ask {
            return Verdict::Ask { question: "\u{1}".repeat(1_100_000), plan };
        }
        Verdict::Run(plan)
    }
    async fn ask(&self, _: &ToolCall, question: &str) -> Answer {
        assert_eq!(question.len(), 1_100_000, "the person sees all of it");
        Answer { allowed: true, scope: "once".to_owned(), reason: Some("y".repeat(1_100_000)) }
    }
    async fn run(&self, _: &ToolCall, _: ToolRun<'_>) -> ToolOutput {
        *self.ran.lock().expect("ran") += 1;
        self.output.clone()
    }
}

fn one_call() -> AssistantMessage {
    AssistantMessage::new(&model_ref(), vec![AssistantBlock::call("a", "t", "{}")])
}

fn native(bytes: usize) -> Option<Native> {
    let items = serde_json::value::to_raw_value(&"n".repeat(bytes)).expect("JSON");
    Some(Native { dialect: "test".to_owned(), items })
}

/// A reply is never lost for its size: it is recorded shortened, the whole of it is a blob that the
/// record names, and a call that could not be recorded as it is does not run. Covers: G6, G7, G16, #124.
#[tokio::test]
async fn a_reply_larger_than_a_record_is_kept_and_the_run_goes_on() {
    let text = |n| AssistantBlock::text("t".repeat(n));
    let call = |n: usize| AssistantBlock::call("a", "t", &format!("\"{}\"", "\u{1}".repeat(n)));
    let small = || AssistantBlock::call("b", "t", "{}");
    let thinking = |n| AssistantBlock::Thinking {
        text: "h".repeat(n),
        signature: Some("s".to_owned()),
        redacted: false,
    };
    let crowd = || std::iter::once(small()).chain((0..6000).map(|_| text(300))).collect();
    // Content, bytes of native items, whether a blob is needed, how many calls run.
    let cases: Vec<(&str, Vec<AssistantBlock>, usize, bool, usize)> = vec![
        ("native only", vec![text(10), small()], 1_100_000, false, 1),
        ("native and content", vec![text(500_000), small()], 500_000, false, 1),
        ("text", vec![text(1_100_000)], 0, true, 0),
        ("text before a call", vec![text(1_100_000), small()], 10, true, 1),
        ("thinking", vec![thinking(1_100_000), small()], 10, true, 1),
        ("arguments", vec![text(10), call(200_000), small()], 10, true, 1),
        ("arguments only", vec![call(200_000)], 10, true, 0),
        ("a crowd", crowd(), 10, true, 1),
        ("a long id", vec![AssistantBlock::call(&"i".repeat(1_100_000), "t", "{}")], 0, true, 0),
    ];
    for (what, content, native_bytes, blob, ran) in cases {
        let (store, watch) = (StrictStore::default(), Arc::default());
        let mut reply = AssistantMessage::new(&model_ref(), content);
        reply.native = (native_bytes > 0).then(|| native(native_bytes)).flatten();
        let (said, calls) = (reply.text(), reply.calls().count());
        let whole = reply.content.clone();
        let model = Replies::new(reply);
        let tools = Outputs::new(ToolOutput::done("done"));
        let mut session = session(&store, &watch);
        let input = UserMessage::text("go");
        let env = env(&Stop::never());
        let finished = run(&mut session, &model, &tools, env, input, &mut ()).await;
        let finished = finished.unwrap_or_else(|e| panic!("{what}: {e}"));
        assert_eq!(finished.end, RunEnd::Completed, "{what}");
        assert_eq!(finished.text, if calls == 0 { said } else { "ok".to_owned() }, "{what}");
        assert_eq!(*tools.ran.lock().expect("ran"), ran, "{what}: a call that was cut ran");
        let log = String::from_utf8(store.log_bytes(&id()).expect("a log")).expect("text");
        assert_eq!(log.contains("is blob"), blob, "{what}");
        if blob {
            let after = |what: &str| log.split(what).nth(1).and_then(|rest| rest.split(' ').next());
            let bytes = after("this reply has ").and_then(|n| n.parse().ok()).expect("its length");
            let blob = after("is blob ").expect("named").to_owned();
            let named = BlobRef { blob, bytes, head: String::new() };
            let kept = store.blob(&id(), &named).await.expect("kept");
            let kept: AssistantMessage = serde_json::from_slice(&kept).expect("a reply");
            assert_eq!(kept.content, whole, "{what}");
            assert!(kept.native.is_some() == (native_bytes > 0), "{what}");
        }
        let seen = model.seen.lock().expect("seen");
        if let Some(second) = seen.get(1) {
            let results = second.matches("=done").count() + second.matches("=Not run").count();
            let sent = second.matches("[t ").count();
            assert_eq!(sent, results, "{what}: each call has one result");
        }
    }
}

/// A result is never lost for its size. Covers: G7, G16, #124.
#[tokio::test]
async fn a_result_larger_than_a_record_is_recorded() {
    let blocks = |n: usize, bytes: usize| {
        let mut output = ToolOutput::done("x");
        output.content = (0..n).map(|_| Block::text("\u{1}".repeat(bytes))).collect();
        output
    };
    let mut task = ToolOutput::done("listed");
    let step = TaskStep { text: "s".repeat(1_100_000), status: StepStatus::Pending };
    task.task = Some(Task { steps: vec![step], ..Task::default() });
    for (what, output, ask) in [
        ("one part", blocks(1, 60_000), false),
        ("many parts", blocks(40, 60_000), false),
        ("a crowd of parts", blocks(3000, 200), false),
        ("a huge crowd of small parts", blocks(15_000, 20), false),
        ("a task", task, false),
        ("a question", ToolOutput::done("x"), true),
    ] {
        let (store, watch) = (StrictStore::default(), Arc::default());
        let model = Replies::new(one_call());
        let tools = Outputs { ask, ..Outputs::new(output) };
        let mut session = session(&store, &watch);
        let input = UserMessage::text("go");
        let finished = run(&mut session, &model, &tools, env(&Stop::never()), input, &mut ()).await;
        assert_eq!(finished.unwrap_or_else(|e| panic!("{what}: {e}")).end, RunEnd::Completed);
        assert!(log_text(&store, &id()).contains("Observed"), "{what}");
        assert!(session.state().in_force.open_actions.is_empty(), "{what}");
    }
}

/// A call whose intent cannot be written down does not run. Covers: G7.
#[tokio::test]
async fn a_call_whose_intent_is_too_large_does_not_run() {
    let (store, watch) = (StrictStore::default(), Arc::default());
    let model = Replies::new(one_call());
    let plan =
        || ToolPlan { key: Some("k".repeat(1_100_000)), ..ToolPlan::new(ReplayClass::Opaque) };
    let tools = Outputs { plan, ..Outputs::new(ToolOutput::done("x")) };
    let input = UserMessage::text("go");
    let mut session = session(&store, &watch);
    let finished = run(&mut session, &model, &tools, env(&Stop::never()), input, &mut ()).await;
    assert_eq!(finished.expect("runs").end, RunEnd::Completed);
    assert_eq!(*tools.ran.lock().expect("ran"), 0);
    assert!(log_text(&store, &id()).contains("result(a Denied Permission)"));
}

/// Many attachments that are each small enough for a record.
#[tokio::test]
async fn an_input_of_many_parts_is_taken() {
    let (store, watch) = (StrictStore::default(), Arc::default());
    let model = Replies::new(one_call());
    let tools = Outputs::new(ToolOutput::done("x"));
    let content = (0..40).map(|i| Block::text(format!("{i} {}", "\n".repeat(60_000)))).collect();
    let input = UserMessage { content, ..UserMessage::default() };
    let mut session = session(&store, &watch);
    let finished = run(&mut session, &model, &tools, env(&Stop::never()), input, &mut ()).await;
    assert_eq!(finished.expect("runs").end, RunEnd::Completed);
    let seen = model.seen.lock().expect("seen");
    assert_eq!(seen[0].matches("bytes").count(), 40, "sent whole");
}

/// What the store refuses ends the run with a record, and the next run settles what it left.
/// Covers: G7, G9.
#[tokio::test]
async fn a_refused_record_ends_the_run_and_the_next_one_begins_settled() {
    let (store, watch) = (StrictStore::default(), Arc::<Watch>::default());
    let model = Replies::new(one_call());
    let tools = Outputs::new(ToolOutput::done("x"));
    let mut session = session(&store, &watch);
    // 0: input, 1: request, 2: reply, 3: intent, 4: result.
    watch.faults.lock().expect("faults").insert(4, StoreError::refused("no"));
    for (text, end) in [("go", RunEnd::Failed), ("again", RunEnd::Completed)] {
        let input = UserMessage::text(text);
        let env = env(&Stop::never());
        let finished = run(&mut session, &model, &tools, env, input, &mut ()).await;
        assert_eq!(finished.expect("ends").end, end);
    }
    let expected = "run 1 started 1\nuser(go)\nrequest 1\ncalls(1)\naction a\nrun 1 Failed\n\
        result(a Unknown Recovery)\nrun 2 started 1\nuser(again)\nrequest 2\nassistant(ok)\nrun 2 Completed";
    assert_eq!(log_text(&store, &id()), expected);
}

/// A caller that drops a run, for a timeout of its own, and goes on with the session: the next run finds
/// everything settled, as after a restart. Covers: G6, G7, G9.
#[tokio::test]
async fn a_dropped_run_is_settled_by_the_next_one() {
    let (store, watch) = (StrictStore::default(), Arc::<Watch>::default());
    let model = PlannedModel::new(&[Say::Calls(&[("a", "wait")]), Say::Text("ok")]);
    let tools = PlannedTools::new(&store);
    let mut session = session(&store, &watch);
    let (_handle, stop) = StopHandle::new();
    {
        let first = UserMessage::text("go");
        let mut observer = ();
        let work = run(&mut session, &model, &tools, env(&stop), first, &mut observer);
        tokio::pin!(work);
        let waits = std::future::poll_fn(|context| {
            let _ = std::future::Future::poll(work.as_mut(), context);
            match tools.ran.lock().expect("ran").is_empty() {
                true => std::task::Poll::Pending,
                false => std::task::Poll::Ready(()),
            }
        });
        waits.await;
    }
    assert_eq!(*tools.ran.lock().expect("ran"), ["wait a"]);
    let input = UserMessage::text("and?");
    run(&mut session, &model, &tools, env(&stop), input, &mut ()).await.expect("runs");
    let expected = "run 1 started 1\nuser(go)\nrequest 1\ncalls(1)\naction a\n\
        result(a Unknown Recovery)\nrun 1 Suspended\nrun 2 started 1\nuser(and?)\nrequest 2\n\
        assistant(ok)\nrun 2 Completed";
    assert_eq!(log_text(&store, &id()), expected);
}

/// A stop that finds no room works, and is told as a stop when there is room again. Covers: G9, G16.
#[tokio::test]
async fn a_stop_without_room_is_recorded_as_a_stop_later() {
    let (store, watch) = (StrictStore::default(), Arc::<Watch>::default());
    let (handle, stop) = StopHandle::new();
    let model = PlannedModel::new(&[Say::Hangs("half"), Say::Text("ok")]);
    *model.stop_when_hanging.lock().expect("stop") = Some((handle, StopKind::User));
    let tools = PlannedTools::new(&store);
    let mut session = session(&store, &watch);
    for number in [2, 3] {
        let full = StoreError::NoRoom("the log".to_owned());
        watch.faults.lock().expect("faults").insert(number, full);
    }
    let input = UserMessage::text("go");
    run(&mut session, &model, &tools, env(&stop), input, &mut ()).await.expect_err("no room");
    let input = UserMessage::text("and?");
    let never = Stop::never();
    run(&mut session, &model, &tools, env(&never), input, &mut ()).await.expect("room");
    assert!(log_text(&store, &id()).contains("run 1 Stopped\nrun 2 started"));
}

/// The same when the stop comes while the run waits for room, wherever that is. Covers: G9, G16.
#[tokio::test]
async fn a_stop_while_waiting_for_room_is_recorded_as_a_stop_later() {
    // 0: input, 1: request, 2: reply, 3: intent, 4: result, 5: request.
    for full_from in 1..=5 {
        let (store, watch) = (StrictStore::default(), Arc::<Watch>::default());
        let model = PlannedModel::new(&[Say::Calls(&[("a", "write")]), Say::Text("ok")]);
        let tools = PlannedTools::new(&store);
        let mut session = session(&store, &watch);
        for number in full_from..full_from + 8 {
            let full = StoreError::NoRoom("the log".to_owned());
            watch.faults.lock().expect("faults").insert(number, full);
        }
        let (handle, stop) = StopHandle::new();
        let mut pauses = 0;
        let mut observer = |event: Event<'_>| {
            pauses += usize::from(matches!(event, Event::Paused { .. }));
            if pauses == 2 {
                handle.stop(StopKind::User);
            }
        };
        let input = UserMessage::text("go");
        run(&mut session, &model, &tools, env(&stop), input, &mut observer)
            .await
            .expect_err("no room");
        watch.faults.lock().expect("faults").clear();
        let (input, never) = (UserMessage::text("and?"), Stop::never());
        run(&mut session, &model, &tools, env(&never), input, &mut ()).await.expect("room");
        let log = log_text(&store, &id());
        assert!(log.contains("run 1 Stopped\nrun 2 started"), "full from {full_from}: {log}");
    }
}

/// Asks, and the person stops the turn instead of answering.
struct StopsWhenAsked(StopHandle);

impl Tools for StopsWhenAsked {
    fn specs(&self) -> Vec<ToolSpec> {
        Vec::new()
    }
    async fn judge(&self, call: &ToolCall) -> Verdict {
        let plan = ToolPlan::new(ReplayClass::Opaque);
        match call.name.as_str() {
            "ask" => Verdict::Ask { question: "may I?".to_owned(), plan },
            _ => Verdict::Run(plan),
        }
    }
    async fn ask(&self, _: &ToolCall, _: &str) -> Answer {
        self.0.stop(StopKind::User);
        std::future::pending().await
    }
    async fn run(&self, _: &ToolCall, _: ToolRun<'_>) -> ToolOutput {
        self.0.stop(StopKind::User);
        ToolOutput::done("done all the same")
    }
}

/// The stop is on disk before anything that it brought about: killed anywhere behind it, the run stays
/// stopped. Covers: G9.
#[tokio::test]
async fn a_stop_is_recorded_before_the_results_that_it_brings() {
    for (calls, results) in [
        (&[("a", "ask"), ("b", "do")], "result(a NotRun Stop)\nresult(b NotRun Stop)"),
        (&[("a", "ask"), ("b", "ask")], "result(a NotRun Stop)\nresult(b NotRun Stop)"),
        (&[("a", "do"), ("b", "do")], "result(a Done Observed)\nresult(b NotRun Stop)"),
    ] {
        let (store, watch) = (StrictStore::default(), Arc::<Watch>::default());
        let (handle, stop) = StopHandle::new();
        let model = PlannedModel::new(&[Say::Calls(calls)]);
        let tools = StopsWhenAsked(handle);
        let mut session = session(&store, &watch);
        let input = UserMessage::text("go");
        run(&mut session, &model, &tools, env(&stop), input, &mut ()).await.expect("stops");
        let log = log_text(&store, &id());
        let at = |what: &str| log.find(what).unwrap_or_else(|| panic!("{what}: {log}"));
        assert!(at("run 1 stopping") < at("NotRun"), "{log}");
        let without = log.replace("run 1 stopping\n", "");
        assert!(without.contains(results), "{log}");
        assert!(!log.contains("asked b"), "nothing is asked after the stop: {log}");
    }
}

/// A setting that was just recorded does not make a session look as if it was not there.
#[tokio::test]
async fn a_session_that_is_on_disk_stays_resumable_whatever_was_written_last() {
    let (store, watch) = (StrictStore::default(), Arc::<Watch>::default());
    let model = PlannedModel::new(&[Say::Text("ok")]);
    let tools = PlannedTools::new(&store);
    let mut session = session(&store, &watch);
    assert!(!session.is_durable());
    let input = UserMessage::text("go");
    run(&mut session, &model, &tools, env(&Stop::never()), input, &mut ()).await.expect("runs");
    assert!(session.is_durable());
    session.set_name("a name").await.expect("named");
    assert!(session.is_durable());
}

/// A tip whose context cannot be read does not move. Covers: G6, G10.
#[tokio::test]
async fn a_navigation_that_cannot_be_read_changes_nothing() {
    let (store, watch) = (StrictStore::default(), Arc::<Watch>::default());
    let model = PlannedModel::new(&[Say::Text("one"), Say::Text("two")]);
    let tools = PlannedTools::new(&store);
    let mut session = session(&store, &watch);
    let mut first = None;
    for text in ["first", "second"] {
        let input = UserMessage::text(text);
        run(&mut session, &model, &tools, env(&Stop::never()), input, &mut ()).await.expect("runs");
        first = first.or(session.state().tip());
    }
    let before = render(&session.context(&model_ref()).messages);
    let tip = session.state().tip();
    watch.fail_reading.store(true, std::sync::atomic::Ordering::SeqCst);
    session.navigate(first).await.expect_err("it cannot be read");
    assert_eq!(session.state().tip(), tip);
    assert_eq!(render(&session.context(&model_ref()).messages), before);
    watch.fail_reading.store(false, std::sync::atomic::Ordering::SeqCst);
    session.navigate(first).await.expect("read");
    let there = "user: first\nassistant: one\nuser:";
    assert!(render(&session.context(&model_ref()).messages).starts_with(there));
    let kinds: Vec<_> = session.records().iter().map(Record::seq).collect();
    assert!(kinds.is_sorted());
}
