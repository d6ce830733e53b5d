//! Children that others reach while they work: with inputs, with a request to let go, and with a full disk.

use super::scene::{Say, Scene, Seen, call, model_ref, parent_id, prompts, text, world};
use segno_model::SessionId;
use segno_model::inbox::{InputBody, NewInput, Words, holder_key};
use segno_model::record::{AttemptStatus, RunEnd, UserMessage};
use segno_model::store::{Clock as _, SessionStore as _};
use segno_runtime::{Event, Stop};
use segno_testkit::sim_clock::SimClock;
use segno_testkit::strict_store::{Fault, Op};
use serde_json::json;

/// The parent gives one task, in the background or not, and goes on with a child that it is told the id of.
fn parent(seen: &Seen, background: bool) -> Say {
    match (seen.turns, seen.last.strip_prefix("again ")) {
        (_, Some(id)) => call("task", &json!({"resume": id, "prompt": "go on"})),
        (1, None) => {
            call("task", &json!({"agent": "scout", "prompt": "look", "background": background}))
        }
        _ => text(&format!("told: {}", seen.last)),
    }
}

fn heard(seen: &Seen) -> Say {
    text(&format!("heard: {}", seen.last))
}

/// What another process sends.
async fn send(scene: &Scene, child: &SessionId, id: &str, body: InputBody) {
    let input = NewInput::new(id, body);
    scene.store.elsewhere().admit(child, &input, SimClock::default().now()).await.unwrap();
}

async fn waits(scene: &Scene, child: &SessionId) -> usize {
    scene.store.pending(child).await.unwrap().pending.len()
}

/// Sent during its last reply, whether it steers or was queued: the child goes on with it, and its parent gets what it
/// said then. Covers: G8.
#[tokio::test]
async fn what_is_sent_during_a_childs_last_reply_is_taken_by_it() {
    for body in [InputBody::Steer, InputBody::Queue] {
        let scene = Scene::together(2, |seen| match seen.child {
            true => heard(seen),
            false => parent(seen, false),
        });
        let mut agent = scene.begin().await;
        let player = scene.player.clone();
        let others = async {
            player.asked(2).await;
            let child = scene.children().await.remove(0);
            send(&scene, &child, "late", body(Words::text("and this"))).await;
            player.join_in().await;
            player.join_in().await;
            child
        };
        let (finished, child) = tokio::join!(scene.ask(&mut agent, "go"), others);
        assert!(finished.text.starts_with("told: heard: and this"), "{}", finished.text);
        let asked = prompts(&scene.records(&child).await);
        assert_eq!(asked[1], ("and this".to_owned(), Some("late".to_owned())), "{asked:?}");
        let attempt = scene.attempts().await.remove(0);
        assert_eq!((attempt.status, attempt.turns), (AttemptStatus::Completed, 2));
        assert_eq!((waits(&scene, &child).await, scene.children().await.len()), (0, 1));
    }
}

/// Sent while nobody has the child, or too late for its last attempt: the next attempt takes it. Covers: G8.
#[tokio::test]
async fn what_waits_for_a_child_comes_with_its_next_attempt() {
    for body in [InputBody::Steer, InputBody::Queue] {
        let scene = Scene::new(|seen| match seen.child {
            true => heard(seen),
            false => parent(seen, false),
        });
        let mut agent = scene.begin().await;
        scene.ask(&mut agent, "go").await;
        let child = scene.children().await.remove(0);
        send(&scene, &child, "k1", body(Words::text("and this"))).await;
        scene.ask(&mut agent, &format!("again {child}")).await;
        let asked: Vec<String> =
            prompts(&scene.records(&child).await).into_iter().map(|(said, _)| said).collect();
        assert_eq!(asked, ["look", "go on", "and this"]);
        assert_eq!(waits(&scene, &child).await, 0);
        assert!(scene.results().await[1].starts_with("heard: and this"));
    }
}

/// Another process asks for a child: whoever waits for it is told so at once, as of every other end, and nothing of
/// that is left to find out. Covers: G9, TR12.
#[tokio::test]
async fn a_child_that_is_taken_over_is_told_to_its_parent_at_once() {
    for background in [false, true] {
        let mut scene = Scene::new(move |seen| match seen.child {
            true => Say::Hang,
            false => parent(seen, background),
        });
        scene.hears = true;
        let mut agent = scene.begin().await;
        let player = scene.player.clone();
        let others = async {
            player.asked(2 + usize::from(background)).await;
            while player.of_children() == 0 {
                tokio::task::yield_now().await;
            }
            let child = scene.children().await.remove(0);
            let holder = holder_key(&world().owner);
            send(&scene, &child, "k1", InputBody::Suspend { holder }).await;
            child
        };
        let (finished, child) = tokio::join!(scene.ask(&mut agent, "go"), others);
        assert_eq!(finished.end, RunEnd::Completed);
        let said = &finished.text;
        assert!(said.contains("another process took it over"), "{said}");
        assert!(said.contains(child.as_str()) && !said.contains("unknown"), "{said}");
        let attempts = scene.attempts().await;
        let ended = (attempts[0].status, attempts[0].reason.as_deref());
        assert_eq!((attempts.len(), ended), (1, (AttemptStatus::Interrupted, Some("taken-over"))));
        let now = agent.session.state().in_force.clone();
        assert!(now.open_children.is_empty() && now.open_background.is_empty());
        let own = scene.store.read(&child).await.unwrap().state.in_force;
        assert_eq!(own.last_end, Some(RunEnd::Suspended));
        assert!(scene.store.elsewhere().open(&child).await.is_ok(), "its lock is free");
    }
}

/// A child that waits for room says so through its parent's run, and goes on when there is some. Covers: G16.
#[tokio::test]
async fn a_child_without_room_is_told_of() {
    for background in [false, true] {
        let scene = Scene::together(2, move |seen| match seen.child {
            true => text("It is blue."),
            false => parent(seen, background),
        });
        let mut agent = scene.begin().await;
        let player = scene.player.clone();
        let others = async {
            player.asked(2 + usize::from(background)).await;
            for _ in 0..100 {
                tokio::task::yield_now().await;
            }
            scene.store.fail_next(Op::Write, Fault::NoRoom);
            player.join_in().await;
        };
        let mut paused = 0;
        let mut watch = |event: Event<'_>| {
            paused += usize::from(matches!(event, Event::Paused { .. }));
        };
        let name = model_ref();
        let stop = Stop::never();
        let run = agent.prompt(&player, &name, UserMessage::text("go"), &stop, &mut watch);
        let (finished, ()) = tokio::join!(run, others);
        assert!(finished.unwrap().text.contains("It is blue."));
        assert_eq!(paused, 1, "background: {background}");
        assert_eq!(scene.records(&parent_id()).await.last().unwrap().envelope.kind, "run");
    }
}
