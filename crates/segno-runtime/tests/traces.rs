//! What tools find out about effects that another process began, and what they make before an intent.

mod support;

use segno_model::record::*;
use segno_model::store::{
    HeldSession as _, Judged, Level, Owner, SessionLog as _, SessionStore as _,
};
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

    async fn establish(&self, action: &Action, here: &Owner) -> Settlement {
        assert_eq!((here.host.as_str(), action.host.as_str()), ("h", "h"));
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
    let mut session = Session::new(store.create(sessions::header(id())), clock());
    let reply = Message::Assistant(AssistantMessage::new(&model_ref(), calls(ids)));
    let said = [Message::User(UserMessage::text("go")), reply];
    let said = said.map(|message| Body::Message(Box::new(message))).to_vec();
    let records = session.append(said, Level::Synced).await.expect("it is written");
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
    session.append(actions.collect(), Level::Synced).await.expect("it is written");
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
