//! What tools find out about effects that another process began, and what they make before an intent.

mod support;

use segno_model::record::*;
use segno_model::store::{HeldSession as _, Judged, Level, SessionLog as _, SessionStore as _};
use segno_model::{Record, SessionId};
use segno_runtime::*;
use segno_testkit::sessions;
use segno_testkit::strict_store::StrictStore;
use support::*;

fn id() -> SessionId {
    SessionId::parse("0195f3a0-0000-7000-8000-000000000004").expect("an id")
}

/// Tools that know what became of a call by its id, and refuse to prepare `full`.
struct Knowing;

impl Tools for Knowing {
    fn specs(&self) -> Vec<ToolSpec> {
        Vec::new()
    }

    async fn prepare(&self, call: &ToolCall, plan: ToolPlan) -> Result<ToolPlan, ToolOutput> {
        if call.id == "full" {
            return Err(ToolOutput::failed("no room beside the file"));
        }
        Ok(ToolPlan { before: Some(b"as it was".to_vec()), ..plan })
    }

    async fn establish(&self, begun: Begun<'_>) -> Settlement {
        let (here, action) = (begun.here, begun.action);
        assert_eq!((here.host.as_str(), action.host.as_str()), ("h", "h"));
        assert_eq!(begun.call.map(|call| &call.id), Some(&action.call_id));
        match action.call_id.as_str() {
            "done" => Settlement::Told(ToolOutput::done("it happened")),
            "runs" => Settlement::Running(ToolOutput::new("it runs", false, Outcome::Unknown)),
            _ => Settlement::Told(ToolOutput::new("nobody knows", true, Outcome::Unknown)),
        }
    }

    async fn run(&self, call: &ToolCall, _: ToolRun<'_>) -> ToolOutput {
        ToolOutput::done(format!("{} ran", call.id))
    }
}

fn calls(ids: &[&str]) -> Vec<AssistantBlock> {
    let call = |id: &&str| {
        AssistantBlock::ToolCall(ToolCall {
            id: (*id).to_owned(),
            name: "write".to_owned(),
            arguments: "{}".to_owned(),
        })
    };
    ids.iter().map(call).collect()
}

/// A log in which calls have begun and the process is gone.
async fn interrupted(store: &StrictStore, ids: &[&str]) {
    interrupted_in(store, ids, None).await;
}

/// The same in a run that has no end; `stopping` when the user asked it to stop.
async fn interrupted_in(store: &StrictStore, ids: &[&str], stopping: Option<bool>) {
    let mut session = Session::new(store.create(sessions::header(id())), clock());
    let reply = Message::Assistant(AssistantMessage::new(&model_ref(), calls(ids)));
    let said = [Message::User(UserMessage::text("go")), reply];
    let run_of = |state| Body::Run(Run { run: 1, state });
    let started = RunState::Started { attempt: 1, owner: String::new() };
    let mut bodies: Vec<Body> = stopping.map(|_| run_of(started)).into_iter().collect();
    bodies.extend(said.map(|message| Body::Message(Box::new(message))));
    let records = session.append(bodies, Level::Synced).await.expect("it is written");
    let call_seq = records.last().map(Record::seq).expect("the reply");
    let actions = ids.iter().map(|call_id| {
        Body::Action(Box::new(Action {
            call_id: (*call_id).to_owned(),
            call_seq,
            tool: "write".to_owned(),
            class: ReplayClass::Verified,
            host: "h".to_owned(),
            boot: "b".to_owned(),
            key: None,
            probe: None,
            before: None,
        }))
    });
    let mut bodies: Vec<Body> = actions.collect();
    bodies.extend((stopping == Some(true)).then(|| run_of(RunState::Stopping { parked: vec![] })));
    session.append(bodies, Level::Synced).await.expect("it is written");
}

async fn reopened(store: &StrictStore) -> Session<segno_testkit::strict_store::StrictLog> {
    let held = store.open(&id()).await.expect("it opens");
    match held.judge().await.expect("it is judged") {
        Judged::Sound(opened) => Session::resume(opened, clock()),
        Judged::Damaged(_) => panic!("it is sound"),
    }
}

/// The model is told what was found out, and a result of recovery that only says "unknown" stays
/// recognisable as one. Covers: G7.
#[tokio::test]
async fn what_the_tools_find_out_is_what_the_model_is_told() {
    let store = StrictStore::default();
    interrupted(&store, &["done", "runs", "lost"]).await;
    let held = store.open(&id()).await.expect("it opens");
    let Judged::Sound(opened) = held.judge().await.expect("it is judged") else {
        panic!("it is sound")
    };
    let mut session = Session::resume(opened, clock());
    let model = PlannedModel::new(&[Say::Text("on it")]);
    let input = UserMessage::text("go on");
    let stop = Stop::never();
    run(&mut session, &model, &Knowing, env(&stop), input, &mut ()).await.expect("it runs");
    let text = log_text(&store, &id());
    for line in [
        "result(done Done Traces)",
        "result(runs Unknown Recovery)",
        "result(lost Unknown Recovery)",
    ] {
        assert!(text.contains(line), "{line} is not in\n{text}");
    }
}

/// Tools that only note whether somebody goes on.
#[derive(Default)]
struct Noting(std::sync::Mutex<Vec<bool>>);

impl Tools for Noting {
    fn specs(&self) -> Vec<ToolSpec> {
        Vec::new()
    }

    async fn establish(&self, begun: Begun<'_>) -> Settlement {
        self.0.lock().expect("not poisoned").push(begun.goes_on);
        Settlement::Told(ToolOutput::new("nobody knows", true, Outcome::Unknown))
    }

    async fn run(&self, _: &ToolCall, _: ToolRun<'_>) -> ToolOutput {
        ToolOutput::done("ran")
    }
}

/// What was interrupted is done again, if at all, only by who goes on with it: not in front of a new
/// input, and never behind a user's stop. Covers: G7, G9.
#[tokio::test]
async fn tools_are_told_whether_somebody_goes_on() {
    for (stopping, new_input, goes_on) in
        [(false, true, false), (true, true, false), (true, false, false), (false, false, true)]
    {
        let store = StrictStore::default();
        interrupted_in(&store, &["a"], Some(stopping)).await;
        let mut session = reopened(&store).await;
        let (tools, stop) = (Noting::default(), Stop::never());
        let model = PlannedModel::new(&[Say::Text("on it")]);
        if new_input {
            let input = UserMessage::text("go on");
            run(&mut session, &model, &tools, env(&stop), input, &mut ()).await.expect("it runs");
        } else {
            let ended = take_up(&mut session, &model, &tools, env(&stop), &mut ()).await;
            ended.expect("it runs");
        }
        let noted = tools.0.into_inner().expect("not poisoned");
        assert!(!noted.is_empty() && noted.iter().all(|noted| *noted == goes_on), "{noted:?}");
    }
}

/// An intent names what its effect replaces; a call that cannot be prepared does not run and leaves no
/// intent. Covers: G7.
#[tokio::test]
async fn what_an_intent_names_is_made_first() {
    let store = StrictStore::default();
    let mut session = Session::new(store.create(sessions::header(id())), clock());
    let model =
        PlannedModel::new(&[Say::Calls(&[("a", "write"), ("full", "write")]), Say::Text("x")]);
    let stop = Stop::never();
    run(&mut session, &model, &Knowing, env(&stop), UserMessage::text("go"), &mut ())
        .await
        .expect("it runs");
    let text = log_text(&store, &id());
    assert!(text.contains("result(a Done Observed)\nresult(full Failed Observed)"), "{text}");
    assert!(!text.contains("action full"), "{text}");
    let kept = session.records().iter().find_map(|record| match record.body() {
        Body::Action(action) => action.before.clone(),
        _ => None,
    });
    let kept = session.log().blob(&kept.expect("a blob")).await.expect("it is there");
    assert_eq!(kept, b"as it was");
}

/// Tools whose subject is the call's tool name; `any` has none. Somebody else has `busy` in use the first
/// time, and `stuck` always. They note what happens.
#[derive(Default)]
struct Subjects {
    noted: std::sync::Mutex<Vec<String>>,
    /// Asked for when this call runs.
    stop: Option<(&'static str, StopHandle)>,
}

impl Subjects {
    fn note(&self, what: &str, call: &ToolCall) {
        self.noted.lock().expect("not poisoned").push(format!("{what} {}", call.id));
    }

    fn noted(&self) -> String {
        self.noted.lock().expect("not poisoned").join(", ")
    }
}

impl Tools for Subjects {
    fn specs(&self) -> Vec<ToolSpec> {
        Vec::new()
    }

    async fn judge(&self, call: &ToolCall) -> Verdict {
        let class = if call.name == "read" { ReplayClass::Read } else { ReplayClass::Verified };
        let subject = (!["any", "read"].contains(&call.name.as_str())).then(|| call.name.clone());
        Verdict::Run(ToolPlan { subject, ..ToolPlan::new(class) })
    }

    async fn prepare(&self, call: &ToolCall, plan: ToolPlan) -> Result<ToolPlan, ToolOutput> {
        let first = !self.noted().contains(&format!("prepare {}", call.id));
        self.note("prepare", call);
        let not_yet = call.name == "stuck" || call.name == "busy" && first;
        Ok(ToolPlan { not_yet, ..plan })
    }

    async fn discard(&self, call: &ToolCall) {
        self.note("discard", call);
    }

    async fn run(&self, call: &ToolCall, _: ToolRun<'_>) -> ToolOutput {
        self.note("run", call);
        if let Some((id, stop)) = &self.stop
            && *id == call.id
        {
            stop.stop(StopKind::User);
        }
        ToolOutput::done("ran")
    }
}

/// A call is prepared when nothing before it can change any more what it relies on, and its intent is
/// on disk before it runs; what needs no waiting shares one sync. Covers: G7.
#[tokio::test]
async fn a_call_is_prepared_when_what_it_relies_on_stands_still() {
    // calls (id, subject), what happens, syncs of the round
    type Row = (&'static [(&'static str, &'static str)], &'static str, usize);
    let rows: [Row; 7] = [
        (&[("a", "x"), ("b", "y")], "prepare a, prepare b, run a, run b", 2),
        (&[("a", "x"), ("b", "x")], "prepare a, run a, prepare b, run b", 3),
        (
            &[("a", "x"), ("b", "y"), ("c", "x")],
            "prepare a, prepare b, run a, run b, prepare c, run c",
            3,
        ),
        (&[("a", "any"), ("b", "x")], "prepare a, run a, prepare b, run b", 3),
        (&[("a", "any"), ("b", "any")], "prepare a, prepare b, run a, run b", 2),
        (&[("a", "read"), ("b", "x")], "prepare a, prepare b, run a, run b", 2),
        (
            &[("a", "x"), ("b", "busy"), ("c", "y"), ("d", "z")],
            "prepare a, prepare b, run a, prepare b, run b, prepare c, run c, prepare d, run d",
            5,
        ),
    ];
    for (calls, happens, syncs) in rows {
        let store = StrictStore::default();
        let watch = std::sync::Arc::new(Watch::default());
        let log = Watched { log: store.create(sessions::header(id())), watch: watch.clone() };
        let mut session = Session::new(log, clock());
        let model = PlannedModel::new(&[Say::Calls(calls), Say::Text("x")]);
        let (tools, stop) = (Subjects::default(), Stop::never());
        let input = UserMessage::text("go");
        run(&mut session, &model, &tools, env(&stop), input, &mut ()).await.expect("it runs");
        assert_eq!(tools.noted(), happens, "{calls:?}");
        let counted = watch.syncs.load(std::sync::atomic::Ordering::SeqCst);
        assert_eq!(counted, 1 + 2 + syncs + 1, "{calls:?}");
        let text = log_text(&store, &id());
        for (call, subject) in calls {
            let intent = text.find(&format!("action {call}\n"));
            let result = text.find(&format!("result({call} "));
            assert!(*subject == "read" || intent < result && intent.is_some(), "{call}: {text}");
        }
    }
}

/// What somebody else has in use to the end is not changed, and nothing is announced for it. Covers: G7.
#[tokio::test]
async fn a_call_whose_subject_stays_in_use_does_not_run() {
    let store = StrictStore::default();
    let mut session = Session::new(store.create(sessions::header(id())), clock());
    let calls = Say::Calls(&[("a", "x"), ("b", "stuck"), ("c", "y")]);
    let model = PlannedModel::new(&[calls, Say::Text("x")]);
    let (tools, stop) = (Subjects::default(), Stop::never());
    let input = UserMessage::text("go");
    run(&mut session, &model, &tools, env(&stop), input, &mut ()).await.expect("it runs");
    let happens = "prepare a, prepare b, run a, prepare b, prepare c, run c";
    assert_eq!(tools.noted(), happens);
    let text = log_text(&store, &id());
    assert!(text.contains("result(b NotRun Observed)"), "{text}");
    assert!(!text.contains("action b"), "{text}");
}

/// What was prepared for a call that a stop comes before is taken back. Covers: G9.
#[tokio::test]
async fn what_was_prepared_and_does_not_run_is_taken_back() {
    let store = StrictStore::default();
    let mut session = Session::new(store.create(sessions::header(id())), clock());
    let calls = Say::Calls(&[("a", "x"), ("b", "y"), ("c", "x")]);
    let model = PlannedModel::new(&[calls]);
    let (handle, stop) = StopHandle::new();
    let tools = Subjects { stop: Some(("a", handle)), ..Subjects::default() };
    let input = UserMessage::text("go");
    run(&mut session, &model, &tools, env(&stop), input, &mut ()).await.expect("it runs");
    assert_eq!(tools.noted(), "prepare a, prepare b, run a, discard b, discard c");
    let text = log_text(&store, &id());
    assert!(text.contains("result(b NotRun Stop)\nresult(c NotRun Stop)"), "{text}");
    assert!(!text.contains("action c"), "{text}");
}
