//! Subagents: launched, continued, stopped and found again. The store is the strict one, the model a
//! function.
#![allow(clippy::unwrap_used)]

mod background;
mod continuing;
mod crashes;
mod reached;
mod scene;
mod worktrees;
mod worktrees_beside;

use scene::{Say, Scene, Seen, call, kinds, parent_id, prompts, text};
use segno_agent::permission::{Mode, PrefixRule};
use segno_agent::tool::{Asker, Asking, Question, Reply};
use segno_model::Body;
use segno_model::child::{child_id, input_id, launch_of};
use segno_model::record::{AttemptStatus, ChildState, Message, Outcome, ReplayClass, RunEnd};
use segno_model::store::SessionStore as _;
use segno_runtime::{StopHandle, StopKind};
use serde_json::json;
use std::sync::{Arc, Mutex};

/// The parent gives one task and then says what came back; the child does as `child` says.
fn one_task(child: impl Fn(&Seen) -> Say + Send + Sync + 'static) -> Scene {
    Scene::new(move |seen| match (seen.child, seen.turns) {
        (true, _) => child(seen),
        (false, 1) => call("task", &json!({"agent": "scout", "prompt": "look at a.txt"})),
        _ => text(&format!("came back: {}", seen.last)),
    })
}

/// The intent stands before the child, the child's first records name it, and only its last words come
/// back. Covers: G7, RS1, RS5, TR1, TR12, LB7, LK8, LK18, EV4, #141, #142.
#[tokio::test]
async fn a_child_does_its_task_and_its_last_words_come_back() {
    let scene = one_task(|seen| match seen.turns {
        1 => call("write", &json!({"path": "a.txt", "content": "seen"})),
        _ => text("There is an a.txt."),
    });
    let mut parent = scene.begin().await;
    let finished = scene.ask(&mut parent, "what is there?").await;
    assert_eq!(finished.end, RunEnd::Completed);
    assert_eq!(std::fs::read_to_string(scene.cwd.join("a.txt")).unwrap(), "seen");

    let records = scene.records(&parent_id()).await;
    assert_eq!(
        kinds(&records),
        "session model environment run message request message action child child message request message run"
    );
    let call_seq = records[6].seq();
    let child = child_id(&parent_id(), call_seq, 0);
    assert_eq!(scene.children().await, std::slice::from_ref(&child));
    let Body::Action(action) = records[7].body() else { panic!("an intent") };
    assert_eq!((action.class, action.key.as_deref()), (ReplayClass::Keyed, Some(child.as_str())));
    let Body::Child(started) = records[8].body() else { panic!("a start") };
    assert_eq!((started.state, started.child.as_str()), (ChildState::Started, child.as_str()));

    let own = scene.records(&child).await;
    let Body::Session(header) = own[0].body() else { panic!("a header") };
    let launch = launch_of(header, &child, &parent_id()).unwrap();
    let attempt = format!("{call_seq}.0");
    assert_eq!((launch.intent.as_str(), launch.role.name.as_str()), (attempt.as_str(), "scout"));
    let names: Vec<_> = launch.tools.iter().map(|tool| tool.name.as_str()).collect();
    assert_eq!(names, ["read", "write"]);
    assert_eq!(
        prompts(&own),
        [("look at a.txt".to_owned(), Some(input_id(&parent_id(), &attempt)))]
    );

    let results = scene.results().await;
    assert!(results[0].starts_with("There is an a.txt.\n\n[subagent scout, id "), "{}", results[0]);
    assert!(results[0].contains("2 replies, 20 tokens in, 2 out"), "{}", results[0]);
    let attempts = scene.attempts().await;
    assert_eq!((attempts.len(), attempts[0].status), (1, AttemptStatus::Completed));
    assert_eq!((attempts[0].turns, attempts[0].text, attempts[0].run), (2, true, Some(1)));
    assert!(parent.session.state().in_force.open_children.is_empty());
}

/// A child has no `task` tool and only its role's tools, and no record of an attempt is ever sent.
/// Covers: RS2, TR12, RS10.
#[tokio::test]
async fn what_the_models_see() {
    let scene = one_task(|seen| match seen.turns {
        1 => Say::Calls(vec![
            ("task".to_owned(), r#"{"prompt":"more"}"#.to_owned()),
            ("bash".to_owned(), r#"{"command":"true"}"#.to_owned()),
        ]),
        _ => text("no"),
    });
    let mut parent = scene.begin().await;
    scene.ask(&mut parent, "go").await;
    scene.ask(&mut parent, "and again").await;
    let seen = scene.player.seen.lock().unwrap().clone();
    for request in &seen {
        assert_eq!(request.tools.iter().any(|tool| tool == "task"), !request.child);
        assert!(!request.all.contains("\"attempt\""), "{}", request.all);
        assert!(!request.all.contains("timeout_ms"), "{}", request.all);
    }
    let child = seen.iter().filter(|seen| seen.child).nth(1).unwrap();
    assert_eq!(child.tools, ["read", "write"]);
    assert!(child.last.contains("there is no tool \"task\" for this agent"), "{}", child.last);
    assert!(child.last.contains("there is no tool \"bash\" for this agent"), "{}", child.last);
    assert!(child.all.contains("You scout."));
    assert_eq!(scene.children().await.len(), 1);
}

/// Tasks of one reply run at once: each child waits until the other one is asked. Covers: TR12.
#[tokio::test]
async fn several_children_run_at_once() {
    let scene = Scene::together(3, |seen| match (seen.child, seen.turns) {
        (true, _) => text(&format!("done: {}", seen.last)),
        (false, 1) => Say::Calls(
            (0..3)
                .map(|n| ("task".to_owned(), json!({"prompt": format!("part {n}")}).to_string()))
                .collect(),
        ),
        _ => text("all there"),
    });
    let mut parent = scene.begin().await;
    assert_eq!(scene.ask(&mut parent, "go").await.text, "all there");
    assert_eq!(scene.children().await.len(), 3);
    let attempts = scene.attempts().await;
    assert!(attempts.iter().all(|attempt| attempt.status == AttemptStatus::Completed));
    let mut results = scene.results().await;
    results.sort();
    for (n, result) in results.iter().enumerate() {
        assert!(result.starts_with(&format!("done: part {n}\n")), "{result}");
    }
}

/// Covers: RS3, RS4, TR4, TR12, RS8. Nothing is made, and the record says so.
#[tokio::test]
async fn what_makes_no_sense_starts_nothing() {
    let cases = [
        (json!({"prompt": ""}), "`prompt` is empty", "arguments"),
        (
            json!({"agent": "nobody", "prompt": "p"}),
            "There is no agent \"nobody\"",
            "agent-missing",
        ),
        (json!({"resume": "latest", "prompt": "p"}), "`resume` is \"latest\"", "arguments"),
        (json!({"prompt": "p", "worktree": 1}), "it is true or false", "arguments"),
        (
            json!({"agent": "odd", "prompt": "p"}),
            "cannot be asked: there is no key",
            "model-missing",
        ),
    ];
    for (arguments, said, code) in cases {
        let scene = Scene::new(move |seen| match seen.turns {
            1 => call("task", &arguments),
            _ => text("ok"),
        });
        scene.role("odd", "model: test/other\n", "You are odd.");
        let mut parent = scene.begin().await;
        scene.ask(&mut parent, "go").await;
        let result = scene.results().await.remove(0);
        assert!(result.contains(said), "{result}");
        let attempts = scene.attempts().await;
        let attempt = &attempts[0];
        assert_eq!((attempt.status, attempt.launched), (AttemptStatus::Rejected, false));
        assert_eq!(
            (attempt.reason.as_deref(), attempt.turns, attempt.usage),
            (Some(code), 0, None)
        );
        assert!(scene.children().await.is_empty());
        assert_eq!(scene.player.of_children(), 0);
    }
}

/// A user's stop of the parent is one of its children, durable there before anything is signalled.
/// Covers: G9, TR12.
#[tokio::test]
async fn a_stop_cascades() {
    let scene = one_task(|_| Say::Hang);
    let (handle, stop) = StopHandle::new();
    let mut parent = scene.begin().await;
    let player = scene.player.clone();
    let asked = scene.ask_until(&mut parent, "go", &stop);
    let watch = async {
        while player.of_children() == 0 {
            tokio::task::yield_now().await;
        }
        handle.stop(StopKind::User);
    };
    let (finished, ()) = tokio::join!(asked, watch);
    assert_eq!(finished.end, RunEnd::Stopped);
    let child = scene.children().await.remove(0);
    let own = scene.records(&child).await;
    assert!(kinds(&own).ends_with("run run"), "stopping, then ended: {}", kinds(&own));
    assert_eq!(
        scene.store.read(&child).await.unwrap().state.in_force.last_end,
        Some(RunEnd::Stopped)
    );
    let attempt = scene.attempts().await.remove(0);
    assert_eq!((attempt.status, attempt.usage_incomplete), (AttemptStatus::Stopped, true));
}

/// Covers: RS7, TR12.
#[tokio::test]
async fn a_deadline_ends_the_child_and_not_its_parent() {
    let scene = Scene::new(|seen| match (seen.child, seen.turns) {
        (true, _) => Say::Hang,
        (false, 1) => call("task", &json!({"prompt": "look", "timeout": 1})),
        _ => text("too slow"),
    });
    let mut parent = scene.begin().await;
    let finished = scene.ask(&mut parent, "go").await;
    assert_eq!((finished.end, finished.text.as_str()), (RunEnd::Completed, "too slow"));
    let attempt = scene.attempts().await.remove(0);
    assert_eq!((attempt.status, attempt.timeout_ms), (AttemptStatus::Timeout, Some(1000)));
    assert!(scene.results().await[0].contains("its time ran out"));
    assert!(scene.results().await[0].contains("≥ 0 tokens in"));
}

/// Covers: TR12, RS26.
#[tokio::test]
async fn a_failure_of_the_model_is_told() {
    let scene = one_task(|_| Say::Fail);
    let mut parent = scene.begin().await;
    assert_eq!(scene.ask(&mut parent, "go").await.end, RunEnd::Completed);
    let attempt = scene.attempts().await.remove(0);
    assert_eq!((attempt.status, attempt.text), (AttemptStatus::Failed, false));
    assert!(scene.results().await[0].starts_with("(the subagent said nothing)"));
}

/// A child's question is put to the parent's person, with the child's name.
struct Refuses(Mutex<Vec<String>>);

impl Asker for Refuses {
    fn ask<'a>(&'a self, question: Question<'a>) -> Asking<'a> {
        self.0.lock().unwrap().push(question.text.to_owned());
        Box::pin(async { Reply::No { reason: Some("not today".to_owned()) } })
    }

    fn save(&self, _: &[PrefixRule]) {}
}

/// The live gate decides every call of a child; a record grants nothing. Covers: RS10.
#[tokio::test]
async fn the_live_gate_decides_a_childs_calls() {
    let mut scene = one_task(|seen| match seen.turns {
        1 => call("write", &json!({"path": "a.txt", "content": "x"})),
        _ => text("refused"),
    });
    let asker = Arc::new(Refuses(Mutex::default()));
    scene.mode = Mode::Ask;
    scene.asker = Some(Arc::<Refuses>::clone(&asker));
    let mut parent = scene.begin().await;
    scene.ask(&mut parent, "go").await;
    assert!(!scene.cwd.join("a.txt").exists());
    let asked = asker.0.lock().unwrap().clone();
    assert_eq!(asked.len(), 1);
    assert!(asked[0].starts_with("Subagent scout: Change a.txt"), "{}", asked[0]);
    scene.mode = Mode::ReadOnly;
    scene.asker = None;
    let read_only = one_task(|seen| match seen.turns {
        1 => call("write", &json!({"path": "a.txt", "content": "x"})),
        _ => text("refused"),
    });
    let read_only = Scene { mode: Mode::ReadOnly, ..read_only };
    let mut parent = read_only.begin().await;
    read_only.ask(&mut parent, "go").await;
    assert!(!read_only.cwd.join("a.txt").exists());
}

/// Children that edit one file at once lose no update, and none has to do its edit again: each has the file
/// to itself from reading it until its edit is durable. Covers: G7.
#[tokio::test]
async fn children_that_edit_one_file_lose_no_update() {
    const WORDS: [&str; 4] = ["one", "two", "three", "four"];
    for _ in 0..8 {
        let scene = Scene::together(WORDS.len(), |seen| match (seen.child, seen.turns) {
            (true, 1) => {
                let new = format!("{}!", seen.last);
                let edit = json!({"path": "a.txt", "old_text": seen.last, "new_text": new});
                call("edit", &edit)
            }
            (true, _) => text(&seen.last),
            (false, 1) => Say::Calls(
                WORDS
                    .iter()
                    .map(|w| ("task".to_owned(), json!({"prompt": w}).to_string()))
                    .collect(),
            ),
            _ => text("all there"),
        });
        std::fs::write(scene.cwd.join("a.txt"), "one\ntwo\nthree\nfour\n").unwrap();
        let mut parent = scene.begin().await;
        scene.ask(&mut parent, "go").await;
        let content = std::fs::read_to_string(scene.cwd.join("a.txt")).unwrap();
        let mut done = 0;
        for child in scene.children().await {
            let records = scene.records(&child).await;
            let (word, _) = prompts(&records).remove(0);
            let outcome = records.iter().find_map(|record| match record.body() {
                Body::Message(message) => match &**message {
                    Message::Tool(result) => Some(result.outcome),
                    _ => None,
                },
                _ => None,
            });
            let is_done = outcome == Some(Outcome::Done);
            assert_eq!(content.contains(&format!("{word}!")), is_done, "{word}: {content}");
            done += usize::from(is_done);
        }
        assert_eq!(done, WORDS.len(), "{content}");
        assert_eq!(content.lines().count(), WORDS.len(), "{content}");
    }
}
