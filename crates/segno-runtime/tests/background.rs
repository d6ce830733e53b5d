//! Effects that go on behind their results, and ones that outlive a shutdown.

mod support;

use segno_model::checkpoint::Checkpoint;
use segno_model::record::*;
use segno_model::store::{HeldSession as _, Judged, SessionStore as _};
use segno_model::{SessionId, checkpoint};
use segno_runtime::*;
use segno_testkit::sessions;
use segno_testkit::strict_store::StrictStore;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use support::*;

fn id() -> SessionId {
    SessionId::parse("0195f3a0-0000-7000-8000-000000000005").expect("an id")
}

/// Tools whose calls go on under their ids until `ended`; `stays` outlives a shutdown.
#[derive(Default)]
struct Behind {
    ended: AtomicBool,
    asked: Mutex<Vec<usize>>,
    kept: Mutex<Vec<usize>>,
}

impl Tools for Behind {
    fn specs(&self) -> Vec<ToolSpec> {
        Vec::new()
    }

    async fn run(&self, call: &ToolCall, run: ToolRun<'_>) -> ToolOutput {
        if call.id == "stays" {
            let kind = run.stop.stopped().await;
            let output = ToolOutput::new("it goes on", true, Outcome::Unknown);
            return ToolOutput { unfinished: kind == StopKind::Shutdown, ..output };
        }
        ToolOutput::done("it goes on").in_background(&call.id)
    }

    async fn establish(&self, _: Begun<'_>) -> Settlement {
        Settlement::Told(ToolOutput::done("it ended by itself"))
    }

    async fn news(&self, open: &[checkpoint::Background]) -> Vec<News> {
        self.asked.lock().expect("whole").push(open.len());
        if !self.ended.load(Ordering::SeqCst) {
            return Vec::new();
        }
        let news = |b: &checkpoint::Background| News::new(&b.handle, format!("{} ended", b.handle));
        // One that nobody began is not told.
        let stray = News::new("stray", "stray ended".to_owned());
        open.iter().map(news).chain([stray]).collect()
    }

    async fn settled(&self, open: &Checkpoint) {
        self.kept.lock().expect("whole").push(open.open_background.len());
    }
}

async fn reopened(store: &StrictStore) -> Session<segno_testkit::strict_store::StrictLog> {
    let held = store.open(&id()).await.expect("it opens");
    let Judged::Sound(opened) = held.judge().await.expect("it is judged") else {
        panic!("it is sound")
    };
    Session::resume(opened, clock())
}

/// The end of an effect in the background is an input with an id of its own: told at the next safe step,
/// after a restart too, once, and never for what was not begun here. Covers: G8, G7.
#[tokio::test]
async fn the_end_of_a_background_effect_is_told_once() {
    let store = StrictStore::default();
    let tools = Behind::default();
    let stop = Stop::never();
    let mut session = Session::new(store.create(sessions::header(id())), clock());
    let model =
        PlannedModel::new(&[Say::Calls(&[("a", "bash"), ("b", "bash")]), Say::Text("begun")]);
    let input = UserMessage::text("go");
    run(&mut session, &model, &tools, env(&stop), input, &mut ()).await.expect("it runs");
    let open = &session.state().in_force.open_background;
    assert_eq!(open.iter().map(|b| b.handle.as_str()).collect::<Vec<_>>(), ["a", "b"]);
    assert_eq!(*tools.asked.lock().expect("whole"), [2], "asked only while something is open");
    assert_eq!(tools.kept.lock().expect("whole").last(), Some(&2));
    drop(session);

    tools.ended.store(true, Ordering::SeqCst);
    for round in 0..2 {
        let mut session = reopened(&store).await;
        let model = PlannedModel::new(&[Say::Text("I see")]);
        let input = UserMessage::text("and?");
        run(&mut session, &model, &tools, env(&stop), input, &mut ()).await.expect("it runs");
        assert_eq!(session.state().in_force.open_background, [], "round {round}");
        let told: Vec<_> = session
            .records()
            .iter()
            .filter_map(|record| match record.body() {
                Body::Message(message) => match &**message {
                    Message::User(user) if user.notice.is_some() => user.input_id.clone(),
                    _ => None,
                },
                _ => None,
            })
            .collect();
        assert_eq!(told, [background_input_id("a"), background_input_id("b")], "round {round}");
    }
}

/// A shutdown is no stop: an effect that goes on gets no result, and the next process establishes it.
/// Covers: G9, G7.
#[tokio::test]
async fn what_outlives_a_shutdown_is_established_by_the_next_process() {
    let store = StrictStore::default();
    let tools = Behind::default();
    let mut session = Session::new(store.create(sessions::header(id())), clock());
    let (handle, stop) = StopHandle::new();
    let model = PlannedModel::new(&[Say::Calls(&[("stays", "bash")])]);
    let mut stopping = |event: Event<'_>| {
        if matches!(event, Event::ToolStarted(_)) {
            handle.stop(StopKind::Shutdown);
        }
    };
    let input = UserMessage::text("go");
    let finished = run(&mut session, &model, &tools, env(&stop), input, &mut Seen(&mut stopping))
        .await
        .expect("it runs");
    assert_eq!(finished.end, RunEnd::Suspended);
    assert_eq!(session.state().in_force.open_actions.len(), 1);
    assert!(!log_text(&store, &id()).contains("result("));
    drop(session);

    let mut session = reopened(&store).await;
    let (model, stop) = (PlannedModel::new(&[Say::Text("good")]), Stop::never());
    let input = UserMessage::text("and?");
    run(&mut session, &model, &tools, env(&stop), input, &mut ()).await.expect("it runs");
    let text = log_text(&store, &id());
    assert!(text.contains("result(stays Done Traces)"), "{text}");
}

struct Seen<'a>(&'a mut (dyn FnMut(Event<'_>) + Send));

impl Observer for Seen<'_> {
    fn event(&mut self, event: Event<'_>) {
        (self.0)(event);
    }
}
