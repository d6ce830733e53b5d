//! Thousands of calls in one reply: run, recorded, recovered, sent back.
//!
//! Responsible for: that every call keeps its own result, in a time that a test can bear. Must not:
//! measure that time.

mod support;

use segno_model::context::{ContextMessage, ContextResult, UNKNOWN_OUTCOME};
use segno_model::record::*;
use segno_model::store::{HeldSession as _, Judged, Level, Opened, SessionStore as _};
use segno_model::{Record, SessionId};
use segno_runtime::*;
use segno_testkit::sessions;
use segno_testkit::strict_store::{StrictLog, StrictStore};
use std::sync::Mutex;
use support::*;

const CALLS: usize = 5_000;

fn id() -> SessionId {
    SessionId::parse("0195f3a0-0000-7000-8000-000000000003").expect("an id")
}

/// Reads and effects in turn; every tenth id is the one before.
fn calls() -> Vec<AssistantBlock> {
    let call = |i: usize| {
        let id = format!("c{}", i - usize::from(i % 10 == 9));
        let name = if i.is_multiple_of(2) { "look" } else { "change" };
        AssistantBlock::call(&id, name, &format!("{{\"n\":{i}}}"))
    };
    (0..CALLS).map(call).collect()
}

/// Asks for all calls once, then says "ok"; keeps the results that it was sent.
#[derive(Default)]
struct Crowd {
    asked: Mutex<bool>,
    results: Mutex<Vec<ContextResult>>,
}

impl Model for Crowd {
    async fn reply(
        &self,
        request: ModelRequest<'_>,
        _: &mut (dyn FnMut(StreamEvent) + Send),
    ) -> Result<AssistantMessage, ModelError> {
        for message in request.messages {
            if let ContextMessage::Results(results) = message {
                *self.results.lock().expect("results") = results.clone();
            }
        }
        let again = std::mem::replace(&mut *self.asked.lock().expect("asked"), true);
        let content = if again { vec![AssistantBlock::text("ok")] } else { calls() };
        Ok(AssistantMessage::new(&model_ref(), content))
    }
}

/// Gives back what it was called with.
struct Echo;

impl Tools for Echo {
    fn specs(&self) -> Vec<ToolSpec> {
        Vec::new()
    }
    async fn judge(&self, call: &ToolCall) -> Verdict {
        let effect = call.name == "change";
        Verdict::Run(ToolPlan::new(if effect { ReplayClass::Opaque } else { ReplayClass::Read }))
    }
    async fn ask(&self, _: &ToolCall, _: &str) -> Answer {
        Answer { allowed: true, scope: "once".to_owned(), reason: None }
    }
    async fn run(&self, call: &ToolCall, _: ToolRun<'_>) -> ToolOutput {
        ToolOutput::done(call.arguments.clone())
    }
}

async fn go(session: &mut Session<StrictLog>, model: &Crowd) -> Finished {
    let input = UserMessage::text("go");
    let mut seen = |_: Event<'_>| {};
    let done = run(session, model, &Echo, env(&Stop::never()), input, &mut seen).await;
    done.expect("the run ends")
}

async fn reopened(store: &StrictStore) -> Opened<StrictLog> {
    let held = store.elsewhere().open(&id()).await.expect("it is free");
    match held.judge().await.expect("it can be judged") {
        Judged::Sound(opened) => opened,
        Judged::Damaged(damaged) => panic!("{damaged:?}"),
    }
}

fn texts(results: &[ContextResult]) -> Vec<&str> {
    let blocks = results.iter().flat_map(|result| &result.content);
    blocks.map(text_of).collect()
}

fn text_of(block: &Block) -> &str {
    match block {
        Block::Text { text } => text.head(),
        other => panic!("{other:?}"),
    }
}

/// Covers: G6, G7, G10.
#[tokio::test]
async fn thousands_of_calls_in_one_reply_get_each_its_result() {
    let store = StrictStore::default();
    let mut session = Session::new(store.create(sessions::header(id())), clock());
    let model = Crowd::default();
    assert_eq!(go(&mut session, &model).await.end, RunEnd::Completed);
    let results = model.results.lock().expect("results").clone();
    let expected: Vec<String> = (0..CALLS).map(|i| format!("{{\"n\":{i}}}")).collect();
    assert_eq!(texts(&results), expected);
    assert!(session.state().in_force.open_actions.is_empty());
    let before = format!("{:?}", session.context(&model_ref()).messages);
    drop(session);
    let session = Session::resume(reopened(&store).await, clock());
    assert_eq!(format!("{:?}", session.context(&model_ref()).messages), before);
    assert!(session.pending_recovery().is_empty());
}

/// Covers: G6, G7. Nobody knows what became of the effects, reads are to be repeated, and each is said once.
#[tokio::test]
async fn thousands_of_interrupted_calls_are_settled_once_each() {
    let store = StrictStore::default();
    let mut session = Session::new(store.create(sessions::header(id())), clock());
    let reply = Message::Assistant(AssistantMessage::new(&model_ref(), calls()));
    let said = [Message::User(UserMessage::text("go")), reply];
    let bodies = said.map(|message| Body::Message(Box::new(message))).to_vec();
    let records = session.append(bodies, Level::Synced).await.expect("it is written");
    let call_seq = records.last().map(Record::seq).expect("the reply");
    let actions = calls().into_iter().filter_map(|block| match block {
        AssistantBlock::ToolCall(call) if call.name == "change" => {
            let (call_id, tool) = (call.id, call.name);
            let (host, boot) = (String::new(), String::new());
            let class = ReplayClass::Opaque;
            let (key, probe, before) = (None, None, None);
            let action = Action { call_id, call_seq, tool, class, host, boot, key, probe, before };
            Some(Body::Action(Box::new(action)))
        }
        _ => None,
    });
    session.append(actions.collect(), Level::Synced).await.expect("they are written");
    drop(session);
    let mut session = Session::resume(reopened(&store).await, clock());
    assert_eq!(session.pending_recovery().len(), CALLS);
    let model = Crowd { asked: Mutex::new(true), ..Crowd::default() };
    assert_eq!(go(&mut session, &model).await.end, RunEnd::Completed);
    let results = model.results.lock().expect("results").clone();
    for (text, call) in texts(&results).into_iter().zip(calls()) {
        let AssistantBlock::ToolCall(call) = call else { panic!("a call") };
        match call.name.as_str() {
            // An effect has the same id.
            "look" if call.arguments.ends_with("8}") => assert_eq!(text, UNKNOWN_OUTCOME),
            "change" => assert_eq!(text, UNKNOWN_OUTCOME),
            _ => assert!(text.starts_with("Not recorded"), "{text}"),
        }
    }
    assert!(session.state().in_force.open_actions.is_empty());
}
