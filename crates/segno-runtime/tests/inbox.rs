//! Inputs and controls from elsewhere: when they reach the model, what a stop does to what waits, and what
//! a killed process leaves.

mod support;

use segno_model::SessionId;
use segno_model::inbox::admission::Admission;
use segno_model::inbox::{InputBody, NewInput, Words, holder_key};
use segno_model::record::{Body, Message, RunEnd, ToolCall, UserMessage};
use segno_model::store::{HeldSession as _, Judged, Level, SessionLog as _, SessionStore as _};
use segno_runtime::*;
use segno_testkit::sessions;
use segno_testkit::strict_store::{StrictLog, StrictStore};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use support::*;

fn id() -> SessionId {
    SessionId::parse("0195f3a0-0000-7000-8000-000000000001").expect("an id")
}

/// What others do while the model thinks, per request.
type Meanwhile = Mutex<VecDeque<Vec<NewInput>>>;

struct Scene {
    store: StrictStore,
    model: PlannedModel,
    meanwhile: Meanwhile,
    tools: PlannedTools,
    /// Sent as soon as a tool named `wait` runs, or a question is put.
    at_tool: Mutex<Vec<NewInput>>,
}

impl Scene {
    fn new(plan: &[Say], meanwhile: Vec<Vec<NewInput>>) -> Self {
        let store = StrictStore::default();
        let tools = PlannedTools::new(&store);
        let model = PlannedModel::new(plan);
        Self {
            store,
            model,
            meanwhile: Mutex::new(meanwhile.into()),
            tools,
            at_tool: Mutex::default(),
        }
    }

    fn new_session(&self) -> Session<StrictLog> {
        Session::new(self.store.create(sessions::header(id())), clock())
    }

    async fn reopen(&self) -> Session<StrictLog> {
        let held = self.store.elsewhere().open(&id()).await.expect("free");
        match held.judge().await.expect("judged") {
            Judged::Sound(opened) => Session::resume(opened, clock()),
            Judged::Damaged(_) => panic!("damaged"),
        }
    }

    async fn send(&self, input: &NewInput) -> Admission {
        self.store.elsewhere().admit(&id(), input, at(5)).await.expect("it can be asked")
    }

    fn env(&self) -> RunEnv<'static> {
        let inbox = StoreInbox { store: self.store.elsewhere(), id: id() };
        RunEnv { inbox: Some(Arc::new(inbox)), ..env(&Stop::never()) }
    }

    async fn run(&self, session: &mut Session<StrictLog>, input: UserMessage) -> Finished {
        run(session, self, self, self.env(), input, &mut ()).await.expect("it ends")
    }

    async fn prompt(&self, session: &mut Session<StrictLog>, text: &str) -> Finished {
        self.run(session, UserMessage::text(text)).await
    }

    /// Works the inbox off, as a runner does.
    async fn work_off(&self, session: &mut Session<StrictLog>) -> usize {
        let mut runs = 0;
        while let Some(input) =
            session.attend(&self.env().owner).await.expect("it can be attended").next()
        {
            self.run(session, input).await;
            runs += 1;
        }
        runs
    }

    fn log(&self) -> String {
        log_text(&self.store, &id())
    }

    fn seen(&self) -> Vec<String> {
        self.model.seen.lock().expect("seen").clone()
    }

    async fn send_all(&self, inputs: &Mutex<Vec<NewInput>>) {
        let inputs = std::mem::take(&mut *inputs.lock().expect("inputs"));
        for input in inputs {
            self.send(&input).await;
        }
    }
}

impl Model for Scene {
    async fn reply(
        &self,
        request: ModelRequest<'_>,
        events: &mut (dyn FnMut(StreamEvent) + Send),
    ) -> Result<segno_model::record::AssistantMessage, ModelError> {
        let now = self.meanwhile.lock().expect("meanwhile").pop_front().unwrap_or_default();
        for input in now {
            self.send(&input).await;
        }
        self.model.reply(request, events).await
    }
}

impl Tools for Scene {
    fn specs(&self) -> Vec<ToolSpec> {
        self.tools.specs()
    }

    async fn judge(&self, call: &ToolCall) -> Verdict {
        self.tools.judge(call).await
    }

    async fn ask(&self, _: &ToolCall, _: &str) -> Answer {
        self.send_all(&self.at_tool).await;
        std::future::pending().await
    }

    async fn run(&self, call: &ToolCall, run: ToolRun<'_>) -> ToolOutput {
        if call.name == "wait" {
            self.send_all(&self.at_tool).await;
        }
        self.tools.run(call, run).await
    }
}

fn steer(id: &str, text: &str) -> NewInput {
    NewInput::new(id, InputBody::Steer(Words::text(text)))
}

fn queue(id: &str, text: &str) -> NewInput {
    NewInput::new(id, InputBody::Queue(Words::text(text)))
}

fn control(id: &str, body: InputBody) -> NewInput {
    NewInput::new(id, body)
}

fn ids<'a>(waiting: impl IntoIterator<Item = &'a Waiting>) -> Vec<String> {
    waiting.into_iter().map(|w| format!("{} {:?}", w.id(), w.due)).collect()
}

const READS: Say = Say::Calls(&[("r1", "read")]);

/// Covers: G8.
#[tokio::test]
async fn a_steer_reaches_the_model_with_the_next_request_and_once() {
    let scene = Scene::new(&[READS, READS, Say::Text("done")], vec![vec![steer("s", "and b")]]);
    let mut session = scene.new_session();
    scene.prompt(&mut session, "do a").await;
    let seen = scene.seen();
    assert!(!seen[0].contains("and b"));
    assert_eq!(seen[1], "user: do a\nassistant: [read r1]\nresults: r1=r1 done\nuser: and b");
    assert_eq!(seen[2].matches("and b").count(), 1);
    assert!(scene.log().contains("result(r1 Done Observed)\nuser(and b)\nrequest 2"));
    assert_eq!(scene.work_off(&mut session).await, 0);
    let again = scene.send(&steer("s", "and b")).await;
    assert!(matches!(again, Admission::Stands(_)), "{again:?}");
}

/// Covers: G8. It is durable before the model is asked.
#[tokio::test]
async fn a_steer_is_durable_before_the_request_that_shows_it() {
    let scene = Scene::new(&[READS, Say::Hangs("…")], vec![vec![steer("s", "and b")]]);
    let mut session = scene.new_session();
    let handle = scene.prompt(&mut session, "do a");
    futures_util::pin_mut!(handle);
    // Until the second reply hangs.
    while scene.seen().len() < 2 {
        let _ = futures_util::poll!(handle.as_mut());
        tokio::task::yield_now().await;
    }
    scene.store.crash(0);
    assert!(scene.log().contains("user(and b)\nrequest 2"), "{}", scene.log());
}

/// Covers: G8.
#[tokio::test]
async fn a_queued_input_begins_the_next_run_when_this_one_has_ended() {
    let plan = [READS, Say::Text("first"), Say::Text("second"), Say::Text("third")];
    let scene = Scene::new(&plan, vec![vec![queue("q1", "then b"), queue("q2", "then c")]]);
    let mut session = scene.new_session();
    scene.prompt(&mut session, "do a").await;
    assert!(!scene.log().contains("then b"));
    assert_eq!(scene.work_off(&mut session).await, 2);
    let log = scene.log();
    let order = ["run 1 Completed", "run 2 started 1\nuser(then b)", "run 2 Completed"];
    let rest = ["run 3 started 1\nuser(then c)", "run 3 Completed"];
    let at: Vec<_> = order.iter().chain(&rest).map(|text| log.find(text).expect(text)).collect();
    assert!(at.is_sorted(), "{log}");
}

/// Covers: G8. An input starts the run, and what steers comes into the same one.
#[tokio::test]
async fn an_idle_session_begins_with_the_first_and_takes_the_steers_along() {
    let scene = Scene::new(&[Say::Text("a"), Say::Text("b"), Say::Text("c")], vec![]);
    let mut session = scene.new_session();
    scene.prompt(&mut session, "hello").await;
    for input in [steer("s1", "one"), steer("s2", "two"), queue("q1", "three")] {
        scene.send(&input).await;
    }
    assert_eq!(scene.work_off(&mut session).await, 2);
    let log = scene.log();
    assert!(log.contains("run 2 started 1\nuser(one)\nuser(two)\nrequest 2"), "{log}");
    assert!(log.contains("run 3 started 1\nuser(three)\nrequest 3"), "{log}");
}

/// Covers: G9, #150.
#[tokio::test]
async fn a_stale_queue_is_offered_and_starts_only_when_asked_for() {
    let scene = Scene::new(&[Say::Text("a"), Say::Text("b")], vec![]);
    let mut session = scene.new_session();
    scene.prompt(&mut session, "hello").await;
    for input in [queue("q1", "one"), steer("s1", "two"), queue("q2", "three")] {
        scene.send(&input).await;
    }
    drop(session);
    let mut session = scene.reopen().await;
    let attended = session.attend(&scene.env().owner).await.expect("attended");
    assert_eq!(ids(attended.held_back()), ["q1 Stale", "s1 Stale", "q2 Stale"]);
    assert_eq!(attended.next(), None);
    // Not merged into a turn of another input, either.
    scene.prompt(&mut session, "something else").await;
    assert!(!scene.log().contains("user(two)"));
    session.ask_for("q2");
    assert_eq!(scene.work_off(&mut session).await, 1);
    assert!(scene.log().contains("run 3 started 1\nuser(three)"));
    // By somebody elsewhere.
    scene.send(&control("d", InputBody::Deliver { input_id: "q1".to_owned() })).await;
    assert_eq!(scene.work_off(&mut session).await, 1);
    assert!(scene.log().contains("run 4 started 1\nuser(one)"));
    let attended = session.attend(&scene.env().owner).await.expect("attended");
    assert_eq!(ids(&attended.waiting), ["s1 Stale"]);
}

/// What no person said is nobody's unasked work: it goes along with the next run.
#[tokio::test]
async fn a_stale_notice_goes_along_with_the_next_run() {
    let scene = Scene::new(&[Say::Text("a"), Say::Text("b")], vec![]);
    let mut session = scene.new_session();
    scene.prompt(&mut session, "hello").await;
    let notice = Some("background".to_owned());
    let words = Words { notice, ..Words::text("command 1 ended") };
    scene.send(&NewInput::new("n", InputBody::Steer(words))).await;
    drop(session);
    let mut session = scene.reopen().await;
    assert_eq!(scene.work_off(&mut session).await, 0);
    scene.prompt(&mut session, "go on").await;
    assert!(
        scene.log().contains("user(go on)\nuser(command 1 ended)\nrequest 2"),
        "{}",
        scene.log()
    );
}

/// Covers: G9. The stop and what it parks are durable before the tool is signalled.
#[tokio::test]
async fn a_stop_from_elsewhere_stops_the_run_and_parks_what_waits() {
    let scene = Scene::new(&[Say::Calls(&[("w", "wait")]), Say::Text("unasked")], vec![]);
    *scene.at_tool.lock().expect("inputs") =
        vec![queue("q1", "then b"), steer("s1", "and c"), control("k", InputBody::Stop { run: 1 })];
    let mut session = scene.new_session();
    let finished = scene.prompt(&mut session, "do a").await;
    assert_eq!(finished.end, RunEnd::Stopped);
    let log = scene.log();
    assert!(log.contains("run 1 stopping\ninput\nresult(w Stopped Stop)\nrun 1 Stopped"), "{log}");
    assert_eq!(session.state().in_force.inputs.parked, ["q1", "s1"]);
    assert_eq!(scene.work_off(&mut session).await, 0, "it starts unasked");
    drop(session);
    let mut session = scene.reopen().await;
    let attended = session.attend(&scene.env().owner).await.expect("attended");
    assert_eq!(ids(attended.held_back()), ["q1 Parked", "s1 Parked"]);
    session.ask_for("s1");
    assert_eq!(scene.work_off(&mut session).await, 1);
    assert!(scene.log().contains("run 2 started 1\nuser(and c)"));
}

/// Covers: G9.
#[tokio::test]
async fn a_stop_from_elsewhere_ends_a_reply_that_hangs() {
    let stop = control("k", InputBody::Stop { run: 1 });
    let scene = Scene::new(&[Say::Hangs("half")], vec![vec![stop.clone()]]);
    let mut session = scene.new_session();
    let finished = scene.prompt(&mut session, "do a").await;
    assert_eq!(finished.end, RunEnd::Stopped);
    assert!(scene.log().ends_with("run 1 stopping\ninput\npartial(half Stopped)\nrun 1 Stopped"));
    assert!(matches!(scene.send(&stop).await, Admission::Stands(_)));
}

/// Covers: G9. Neither the next run nor one that ended.
#[tokio::test]
async fn a_stop_of_another_run_is_dropped_and_says_so() {
    let stop = control("k", InputBody::Stop { run: 7 });
    let scene = Scene::new(&[READS, Say::Text("done"), Say::Text("b")], vec![vec![stop]]);
    let mut session = scene.new_session();
    assert_eq!(scene.prompt(&mut session, "do a").await.end, RunEnd::Completed);
    scene.send(&control("k2", InputBody::Stop { run: 1 })).await;
    assert_eq!(scene.prompt(&mut session, "more").await.end, RunEnd::Completed);
    let bytes = scene.store.log_bytes(&id()).expect("a log");
    let text = String::from_utf8_lossy(&bytes);
    assert_eq!(text.matches("\"event\":\"dropped\"").count(), 2, "{text}");
    assert!(text.contains("the run that it names is not open"));
}

/// Covers: G9. The stop was durable; whoever opens next finishes it.
#[tokio::test]
async fn a_stop_that_a_killed_holder_never_saw_is_finished_by_the_next() {
    let scene = Scene::new(&[Say::Text("unasked")], vec![]);
    {
        let mut session = scene.new_session();
        let started = segno_model::record::RunState::Started { attempt: 1, owner: "me".to_owned() };
        let run = Body::Run(segno_model::record::Run { run: 1, state: started });
        session.append(vec![run, sessions::prompt("do a")], Level::Synced).await.expect("begun");
    }
    scene.send(&control("k", InputBody::Stop { run: 1 })).await;
    let mut session = scene.reopen().await;
    assert_eq!(scene.work_off(&mut session).await, 0);
    assert!(session.state().in_force.open_run.as_ref().is_some_and(|open| open.stopping));
    scene.prompt(&mut session, "later").await;
    let log = scene.log();
    assert!(log.contains("run 1 stopping\ninput\nrun 1 Stopped\nrun 2 started 1"), "{log}");
}

/// Covers: G5, G9. A request to suspend is for one holder; a later one drops it.
#[tokio::test]
async fn a_request_to_suspend_ends_the_work_of_its_holder_only() {
    let suspend = |id: &str, holder: String| control(id, InputBody::Suspend { holder });
    let me = holder_key(&env(&Stop::never()).owner);
    let scene = Scene::new(
        &[READS, Say::Hangs("half"), Say::Text("b")],
        vec![vec![suspend("x", "somebody".to_owned())], vec![suspend("y", me.clone())]],
    );
    let mut session = scene.new_session();
    assert_eq!(scene.prompt(&mut session, "do a").await.end, RunEnd::Suspended);
    assert!(!scene.log().contains("stopping"));
    let owner = scene.env().owner;
    assert!(session.attend(&owner).await.expect("attended").let_go);
    assert!(!session.attend(&owner).await.expect("attended").let_go, "it is asked for once");
    scene.send(&suspend("z", me)).await;
    let other = segno_model::store::Owner { pid: 8, ..owner };
    drop(session);
    let mut session = scene.reopen().await;
    assert!(!session.attend(&other).await.expect("attended").let_go);
}

/// Covers: G8.
#[tokio::test]
async fn what_waits_can_be_withdrawn_and_moved() {
    let meanwhile = vec![vec![
        queue("q1", "one"),
        queue("q2", "two"),
        queue("q3", "three"),
        control("w", InputBody::Withdraw { input_id: "q1".to_owned() }),
        control(
            "m",
            InputBody::Reorder { input_id: "q3".to_owned(), before: Some("q2".to_owned()) },
        ),
    ]];
    let plan = [READS, Say::Text("a"), Say::Text("b"), Say::Text("c")];
    let scene = Scene::new(&plan, meanwhile);
    let mut session = scene.new_session();
    scene.prompt(&mut session, "do a").await;
    assert_eq!(scene.work_off(&mut session).await, 2);
    let log = scene.log();
    assert!(!log.contains("user(one)"));
    assert!(log.find("user(three)") < log.find("user(two)"), "{log}");
}

/// Covers: G7.
#[tokio::test]
async fn a_question_can_be_answered_from_elsewhere() {
    for (allowed, expected) in
        [(true, "result(a Done Observed)"), (false, "result(a Denied Permission)")]
    {
        let scene = Scene::new(&[Say::Calls(&[("a", "ask")]), Say::Text("done")], vec![]);
        let answer = InputBody::Answer {
            call_id: "a".to_owned(),
            call_seq: 4,
            allowed,
            scope: "once".to_owned(),
            reason: None,
        };
        *scene.at_tool.lock().expect("inputs") = vec![control("k", answer)];
        let mut session = scene.new_session();
        assert_eq!(scene.prompt(&mut session, "do a").await.end, RunEnd::Completed);
        let log = scene.log();
        assert!(log.contains(&format!("asked a\nanswered a {allowed}\ninput\n")), "{log}");
        assert!(log.contains(expected), "{log}");
    }
}

/// Covers: G8. Kills between the steps of a delivery: the input is there once, whatever the next does.
#[tokio::test]
async fn an_input_whose_delivery_was_cut_short_is_there_once() {
    for settled in [false, true] {
        let scene = Scene::new(&[Say::Text("a"), Say::Text("b"), Say::Text("c")], vec![]);
        let mut session = scene.new_session();
        scene.prompt(&mut session, "hello").await;
        let input = queue("q1", "one");
        scene.send(&input).await;
        if settled {
            // Delivered, and killed before its entry was taken away.
            session.log_mut().pending().await.expect("looked");
            let message = Message::User(input.message().expect("words"));
            let message = Body::Message(Box::new(message));
            session.append(vec![message], Level::Synced).await.expect("written");
        }
        scene.store.crash(0);
        drop(session);
        let mut session = scene.reopen().await;
        session.ask_for("q1");
        assert_eq!(scene.work_off(&mut session).await, usize::from(!settled));
        assert_eq!(scene.log().matches("user(one)").count(), 1, "{settled}");
    }
}

/// Covers: G8. Content that is too large for a record.
#[tokio::test]
async fn a_large_input_becomes_a_blob() {
    let large: &str = Box::leak("large ".repeat(100_000).into_boxed_str());
    let scene = Scene::new(&[READS, Say::Text("b")], vec![vec![steer("s", large)]]);
    let mut session = scene.new_session();
    scene.prompt(&mut session, "do a").await;
    assert!(scene.seen()[1].contains("user: 600000 bytes"), "{}", scene.seen()[1]);
    let again = scene.send(&steer("s", large)).await;
    assert!(matches!(again, Admission::Stands(_)), "{again:?}");
}
