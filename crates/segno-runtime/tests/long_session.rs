//! A session that goes on and on with a small window: every request fits, and what is kept for it does not grow.

mod support;

use segno_model::SessionId;
use segno_model::compaction::Window;
use segno_model::context::{ContextMessage, estimate_messages};
use segno_model::record::*;
use segno_model::store::{HeldSession as _, Judged, Opened, SessionStore as _};
use segno_runtime::*;
use segno_testkit::sessions;
use segno_testkit::strict_store::{StrictLog, StrictStore};
use std::sync::Mutex;
use support::*;

const WINDOW: Window = Window { context: 6_000, output: 500 };

const SUMMARY: &str = "<summary>\n## Goal\nTo go on.\n## Constraints\n## Decisions\n## Done\n\
    ## In progress\n## Next\n## Files\n## Open questions\n</summary>";

/// Refuses what does not fit, and what is not legal; reads now and then, and says how much it took.
#[derive(Default)]
struct Strict {
    calls: Mutex<u64>,
    refused: Mutex<Vec<String>>,
    largest: Mutex<u64>,
}

impl Model for Strict {
    async fn reply(
        &self,
        request: ModelRequest<'_>,
        _: &mut (dyn FnMut(StreamEvent) + Send),
    ) -> Result<AssistantMessage, ModelError> {
        let tokens = estimate_messages(request.messages);
        let mut largest = self.largest.lock().expect("largest");
        *largest = tokens.max(*largest);
        if tokens > WINDOW.room() {
            self.refused.lock().expect("refused").push(format!("{tokens} tokens"));
            let (kind, message) = (ModelErrorKind::TooLong, "too long".to_owned());
            return Err(ModelError { kind, message, retry_after_ms: None, refusal: None });
        }
        if matches!(request.messages.last(), Some(ContextMessage::Assistant(_)) | None) {
            self.refused.lock().expect("refused").push("the last turn is the model's".to_owned());
        }
        let usage = Some(Usage { input: tokens, ..Usage::default() });
        let say = |text: &str| vec![AssistantBlock::Text { text: text.to_owned() }];
        if request.system.starts_with("You summarise") {
            let reply = AssistantMessage::new(request.model, say(SUMMARY));
            return Ok(AssistantMessage { usage, ..reply });
        }
        let mut calls = self.calls.lock().expect("calls");
        *calls += 1;
        let answered = matches!(request.messages.last(), Some(ContextMessage::Results(_)));
        let content = match *calls % 4 {
            0 if !answered => say("done"),
            3 if answered => say("read it"),
            _ if answered && calls.is_multiple_of(2) => say("that is all"),
            n => {
                let name = if n == 1 { "long" } else { "read" };
                let (id, name) = (format!("c{calls}"), name.to_owned());
                let call = ToolCall { id, name, arguments: "{}".to_owned() };
                vec![AssistantBlock::ToolCall(call)]
            }
        };
        Ok(AssistantMessage { usage, ..AssistantMessage::new(request.model, content) })
    }

    async fn window(&self, _: &ModelRef) -> Option<Window> {
        Some(WINDOW)
    }
}

async fn reopen(store: &StrictStore, id: &SessionId) -> (Session<StrictLog>, usize) {
    match store.elsewhere().open(id).await.expect("free").judge().await.expect("judged") {
        Judged::Sound(Opened { log, active }) => {
            let records = active.records.len();
            (Session::resume(Opened { log, active }, clock()), records)
        }
        Judged::Damaged(_) => panic!("damaged"),
    }
}

/// Reopened again and again, killed now and then, every turn ends well; no request is too long, and what has
/// to be read to go on, and what a checkpoint holds, stay as small as they were.
/// Covers: G6, G11, EV3.
#[tokio::test]
async fn a_session_goes_on_and_on_with_a_small_window() {
    let id = SessionId::parse("0195f3a0-0000-7000-8000-000000000001").expect("an id");
    let store = StrictStore::default();
    let (model, tools) = (Strict::default(), PlannedTools::new(&store));
    let mut session = Session::new(store.create(sessions::header(id.clone())), clock());
    let (mut most_read, mut most_edits) = (Vec::new(), 0);
    for turn in 0..400_u64 {
        let words = "so much to say ".repeat(usize::try_from(turn * 7 % 60).expect("small"));
        let text = format!("turn {turn}: never touch file_{turn}.rs. {words}");
        let (_handle, stop) = StopHandle::new();
        let env = RunEnv { model: model_ref(), ..env(&stop) };
        let ran = run(&mut session, &model, &tools, env, UserMessage::text(text), &mut ()).await;
        let ended = ran.expect("the log works");
        assert_eq!(ended.end, RunEnd::Completed, "turn {turn}: {ended:?}");
        most_edits = most_edits.max(session.state().in_force.context_edits.len());
        if turn % 10 == 9 {
            drop(session);
            if turn % 20 == 19 {
                store.crash(0);
            }
            let read;
            (session, read) = reopen(&store, &id).await;
            most_read.push(read);
        }
    }
    let refused = model.refused.lock().expect("refused").clone();
    assert!(refused.is_empty(), "{refused:?}");
    assert!(*model.largest.lock().expect("largest") <= WINDOW.room());
    let totals = session.state().in_force.totals;
    assert!(totals.compactions > 20, "{totals:?}");
    let (early, late) = (most_read[..10].iter().max(), most_read[10..].iter().max());
    assert!(late <= early.map(|most| most * 2).as_ref(), "{most_read:?}");
    assert!(most_edits < 60, "{most_edits} edits in force");
    let context = session.context(&model_ref());
    let first = context.messages.first().map(ContextMessage::text).unwrap_or_default();
    assert!(first.contains("never touch file_"), "words that were said long ago: {first}");
    assert!(first.contains("more of such sentences"), "and how many there is no room for");
}
