//! Children that work beside their parent's turns.

use super::crashes::{killed, taken_up};
use super::scene::{Say, Scene, Seen, call, parent_id, prompts, text};
use segno_agent::subagent::MAX_BESIDE;
use segno_model::Body;
use segno_model::record::{AttemptStatus, Message, RunEnd, RunState, UserMessage};
use segno_model::store::SessionStore as _;
use segno_runtime::{StopHandle, StopKind, Tools as _};
use serde_json::json;
use std::collections::BTreeSet;

fn begin() -> Say {
    call("task", &json!({"agent": "scout", "prompt": "look", "background": true}))
}

/// The inputs that tell of ends: their ids and texts.
pub(crate) async fn ends(scene: &Scene) -> Vec<(String, String)> {
    let records = scene.records(&parent_id()).await;
    let end = |record: &segno_model::Record| match record.body() {
        Body::Message(message) => match &**message {
            Message::User(UserMessage { notice: Some(_), input_id: Some(id), .. }) => {
                Some((id.clone(), segno_testkit::sessions::text_of(record)))
            }
            _ => None,
        },
        _ => None,
    };
    records.iter().filter_map(end).collect()
}

/// A parent that starts a child in the background, and says what it was told last.
fn parent(seen: &Seen) -> Say {
    match (seen.turns, seen.last.as_str()) {
        (1, _) => begin(),
        (_, last) if last.starts_with("again ") => {
            call("task", &json!({"resume": last.trim_start_matches("again "), "prompt": "on"}))
        }
        (_, last) => text(&format!("told: {last}")),
    }
}

/// The call answers at once, with the child's id; a run after which nobody is there waits for the end, which is an
/// input with an id of its own. Covers: G8, #142.
#[tokio::test]
async fn a_run_that_nobody_stays_behind_waits_and_is_told() {
    let scene = Scene::new(|seen| if seen.child { text("It is blue.") } else { parent(seen) });
    let mut agent = scene.begin().await;
    let finished = scene.ask(&mut agent, "go").await;
    assert_eq!(finished.end, RunEnd::Completed);
    assert!(finished.text.contains("It is blue."), "{}", finished.text);
    let child = scene.children().await.remove(0);
    let result = scene.results().await.remove(0);
    assert!(result.contains("works in the background") && result.contains(child.as_str()));
    let ends = ends(&scene).await;
    assert_eq!(ends.len(), 1, "{ends:?}");
    assert!(ends[0].0.starts_with(&format!("background:{child}.")), "{ends:?}");
    let attempts = scene.attempts().await;
    assert_eq!((attempts.len(), attempts[0].status), (1, AttemptStatus::Completed));
    let now = agent.session.state().in_force.clone();
    assert!(now.open_children.is_empty() && now.open_background.is_empty());
}

/// Where somebody stays, the turn ends and the child goes on; its end is told with the next turn, once.
/// Covers: G8.
#[tokio::test]
async fn a_child_goes_on_beside_the_turns() {
    let scene = Scene::together(2, |seen| match seen.child {
        true => text("It is blue."),
        false => match seen.turns {
            1 => Say::Calls(vec![(
                "task".into(),
                json!({"prompt": "a", "background": true}).to_string(),
            )]),
            3 => text("begun"),
            4.. if seen.last == "one more" => Say::Calls(vec![(
                "task".into(),
                json!({"prompt": "b", "background": true}).to_string(),
            )]),
            _ => text(&format!("told: {}", seen.last)),
        },
    });
    let mut agent = scene.begin().await;
    agent.tools.stay();
    assert_eq!(scene.ask(&mut agent, "go").await.text, "begun");
    assert_eq!(agent.tools.subagents_beside(), 1, "it waits for the other one");
    // Both can answer now, and do so while nobody says anything.
    scene.ask(&mut agent, "one more").await;
    while agent.tools.subagents_beside() > 0 {
        tokio::task::yield_now().await;
    }
    scene.ask(&mut agent, "and?").await;
    assert_eq!(ends(&scene).await.len(), 2);
    scene.ask(&mut agent, "and now?").await;
    assert_eq!(ends(&scene).await.len(), 2, "each is told once");
    let statuses: Vec<_> = scene.attempts().await.into_iter().map(|a| a.status).collect();
    assert_eq!(statuses, [AttemptStatus::Completed; 2]);
}

/// A stop of the parent is one of a child in the background, durable there, and told with it. Covers: G9.
#[tokio::test]
async fn a_stop_reaches_a_child_in_the_background() {
    let scene = Scene::new(|seen| match (seen.child, seen.turns) {
        (false, 1) => begin(),
        _ => Say::Hang,
    });
    let (handle, stop) = StopHandle::new();
    let mut agent = scene.begin().await;
    let player = scene.player.clone();
    let watch = async {
        while player.of_children() == 0 || player.seen.lock().unwrap().len() < 3 {
            tokio::task::yield_now().await;
        }
        handle.stop(StopKind::User);
    };
    let (finished, ()) = tokio::join!(scene.ask_until(&mut agent, "go", &stop), watch);
    assert_eq!(finished.end, RunEnd::Stopped);
    let child = scene.children().await.remove(0);
    let own = scene.store.read(&child).await.unwrap().state.in_force;
    assert_eq!((own.last_end, own.open_run), (Some(RunEnd::Stopped), None));
    assert_eq!(scene.attempts().await[0].status, AttemptStatus::Stopped);
    assert_eq!(ends(&scene).await.len(), 1);
    let standing = agent.session.standing();
    assert!(!standing.is_open(), "nothing starts again by itself: {standing:?}");
}

/// The parent's process ends: the child's work is interrupted with it, which the next process tells, once, and
/// the child can be continued. Covers: G8, RS7, #142.
#[tokio::test]
async fn a_process_that_ends_interrupts_its_children() {
    for shut_down in [false, true] {
        let scene = Scene::new(|seen| match (seen.child, seen.last.as_str()) {
            (true, "on") => text("at last"),
            (true, _) => Say::Hang,
            (false, _) => parent(seen),
        });
        let mut agent = scene.begin().await;
        agent.tools.stay();
        scene.ask(&mut agent, "go").await;
        while scene.player.of_children() == 0 {
            tokio::task::yield_now().await;
        }
        if shut_down {
            agent.tools.halt(StopKind::Shutdown).await;
        }
        drop(agent);
        scene.store.crash(usize::MAX);
        let scene = scene.elsewhere();
        let mut agent = scene.resume().await.unwrap();
        assert_eq!(agent.session.standing(), segno_model::Standing::Finished);
        for _ in 0..2 {
            scene.ask(&mut agent, "and?").await;
            let ends = ends(&scene).await;
            assert_eq!(ends.len(), 1);
            assert!(ends[0].1.contains("it was interrupted"), "{ends:?}");
        }
        assert_eq!(scene.attempts().await[0].status, AttemptStatus::Interrupted);
        let child = scene.children().await.remove(0);
        scene.ask(&mut agent, &format!("again {child}")).await;
        let last = scene.results().await.pop().unwrap();
        assert!(last.starts_with("at last"), "{last}");
    }
}

/// No more than so many at once, and it is said.
#[tokio::test]
async fn there_is_a_cap_on_those_that_work_at_once() {
    let scene = Scene::new(|seen| match (seen.child, seen.turns) {
        (true, _) => Say::Hang,
        (false, 1) => Say::Calls(
            (0..=MAX_BESIDE)
                .map(|n| {
                    let task = json!({"prompt": format!("part {n}"), "background": true});
                    ("task".to_owned(), task.to_string())
                })
                .collect(),
        ),
        _ => text("begun"),
    });
    let mut agent = scene.begin().await;
    agent.tools.stay();
    scene.ask(&mut agent, "go").await;
    let refused: Vec<_> = scene.results().await;
    let refused: Vec<_> = refused.iter().filter(|text| text.contains("(too-many)")).collect();
    assert_eq!((refused.len(), agent.tools.subagents_beside()), (1, MAX_BESIDE));
}

/// It asks nobody: what would ask is refused, though a person is there for its parent.
#[tokio::test]
async fn a_child_in_the_background_asks_nobody() {
    use segno_agent::permission::{Mode, PrefixRule};
    use segno_agent::tool::{Asker, Asking, Question};
    struct Nobody;
    impl Asker for Nobody {
        fn ask<'a>(&'a self, question: Question<'a>) -> Asking<'a> {
            panic!("it was asked: {}", question.text)
        }
        fn save(&self, _: &[PrefixRule]) {}
    }
    let scene = Scene::new(|seen| match (seen.child, seen.turns) {
        (true, 1) => call("write", &json!({"path": "a.txt", "content": "x"})),
        (true, _) => text("refused"),
        (false, _) => parent(seen),
    });
    let scene = Scene { mode: Mode::Ask, asker: Some(std::sync::Arc::new(Nobody)), ..scene };
    let mut agent = scene.begin().await;
    scene.ask(&mut agent, "go").await;
    assert!(!scene.cwd.join("a.txt").exists());
    assert_eq!(scene.attempts().await[0].status, AttemptStatus::Completed);
}

/// Whoever is named as working in the background is there.
async fn are_there(scene: &Scene, label: &str) {
    if scene.store.log_bytes(&parent_id()).is_none() {
        return;
    }
    for result in scene.results().await {
        let Some((_, named)) = result.split_once("works in the background, id ") else { continue };
        let id = named.split('.').next().unwrap_or_default();
        let child = segno_model::SessionId::parse(id).unwrap();
        assert!(scene.store.read(&child).await.is_ok(), "{label}: {child} is not there");
    }
}

/// Killed at any step, with and without power: each end is told once, and as the child's log says. Covers: G6, G7,
/// G8, SD1, #142.
#[tokio::test]
async fn a_kill_at_any_step_tells_each_end_once() {
    let mut seen = BTreeSet::new();
    for power in [false, true] {
        for polls in 0.. {
            let label = format!("background, power {power}, step {polls}");
            let scene = Scene::new(|seen| match (seen.child, seen.last.as_str()) {
                (true, "look") => call("read", &json!({"path": "a.txt"})),
                (true, _) => text("It is blue."),
                (false, _) => parent(seen),
            });
            let (scene, dead) = killed(scene, "go", polls, power).await;
            are_there(&scene, &label).await;
            taken_up(&scene, &label).await;
            if let Some(mut agent) = scene.resume().await {
                scene.ask(&mut agent, "and?").await;
                scene.ask(&mut agent, "and now?").await;
                drop(agent);
                let told = ends(&scene).await;
                let ids: BTreeSet<_> = told.iter().map(|(id, _)| id.clone()).collect();
                assert_eq!(ids.len(), told.len(), "{label}: {told:?}");
                let children = scene.children().await;
                let attempts = scene.attempts().await;
                assert!(children.len() <= attempts.len(), "{label}: each is told of");
                for (child, attempt) in children.iter().zip(attempts) {
                    let own = scene.records(child).await;
                    let completed = own.iter().any(|record| {
                        matches!(record.body(), Body::Run(run)
                        if matches!(run.state, RunState::Ended { end: RunEnd::Completed, .. }))
                    });
                    assert_eq!(attempt.status == AttemptStatus::Completed, completed, "{label}");
                    assert!(prompts(&own).len() <= 1, "{label}: asked once");
                    seen.insert(format!("{:?}", attempt.status));
                }
            }
            if !dead {
                break;
            }
        }
    }
    assert!(seen.contains("Completed") && seen.contains("Interrupted"), "{seen:?}");
}
