//! Kills at every step of launching, running, delivering and continuing a child.
//!
//! The parent's future is polled so and so often and then dropped, as a killed process would end, with and
//! without loss of what was not synced. Then another process opens what is there.

use super::scene::{Say, Scene, Seen, call, model_ref, parent_id, prompts, text};
use segno_model::child::child_id;
use segno_model::record::{AttemptStatus, Body, Message, RunEnd, RunState, UserMessage};
use segno_model::store::SessionStore as _;
use segno_runtime::Stop;
use serde_json::json;
use std::collections::BTreeSet;
use std::future::Future;
use std::pin::pin;
use std::task::Poll;

/// Polls so often, and gives the output if that was enough.
pub(crate) async fn polled<F: Future>(work: F, polls: usize) -> Option<F::Output> {
    let mut work = pin!(work);
    let mut left = polls;
    std::future::poll_fn(|context| {
        if left == 0 {
            return Poll::Ready(None);
        }
        left -= 1;
        work.as_mut().poll(context).map(Some)
    })
    .await
}

/// A parent that gives a task, tells of it, and continues the child when it is asked to.
fn script(seen: &Seen) -> Say {
    if seen.child {
        return match seen.last.as_str() {
            "one" | "two" => call("todo", &json!({"steps": [{"text": "look", "status": "done"}]})),
            _ => text(if seen.all.contains("two") { "second words" } else { "first words" }),
        };
    }
    match seen.last.as_str() {
        "go" => call("task", &json!({"prompt": "one"})),
        last if last.starts_with("again ") => {
            call("task", &json!({"resume": last.trim_start_matches("again "), "prompt": "two"}))
        }
        _ => text("told"),
    }
}

/// What must hold after a kill, whenever it came.
async fn check(scene: &Scene, label: &str) -> Vec<AttemptStatus> {
    let records = scene.records(&parent_id()).await;
    let (mut calls, mut results) = (0, 0);
    for record in &records {
        let Body::Message(message) = record.body() else { continue };
        match &**message {
            Message::Assistant(reply) => calls += reply.calls().count(),
            Message::Tool(_) => results += 1,
            Message::User(_) => {}
        }
    }
    assert_eq!(calls, results, "{label}: each call has one result");
    let attempts = scene.attempts().await;
    let ids: BTreeSet<_> = attempts.iter().map(|attempt| attempt.id.clone()).collect();
    assert_eq!(ids.len(), attempts.len(), "{label}");
    let children = scene.children().await;
    assert!(children.len() <= 1, "{label}: never two");
    for child in children {
        let asked = prompts(&scene.records(&child).await);
        let ids: BTreeSet<_> = asked.iter().filter_map(|(_, id)| id.clone()).collect();
        assert_eq!(ids.len(), asked.len(), "{label}: no prompt is given twice");
    }
    attempts.into_iter().map(|attempt| attempt.status).collect()
}

/// Kills the parent after so many steps of `words`, then takes up what is left; false when it was over.
pub(crate) async fn killed(scene: Scene, words: &str, polls: usize, power: bool) -> (Scene, bool) {
    let parent = match scene.resume().await {
        Some(parent) => parent,
        None => scene.begin().await,
    };
    let mut parent = parent;
    let input = UserMessage::text(words);
    let stop = Stop::never();
    let (model, name) = (scene.player.clone(), model_ref());
    let over = {
        let mut nobody = ();
        let run = parent.prompt(&model, &name, input, &stop, &mut nobody);
        polled(run, polls).await.is_some()
    };
    drop(parent);
    scene.store.crash(if power { 0 } else { usize::MAX });
    (scene.elsewhere(), !over)
}

/// Takes the parent's work up as another process; recovery never asks a child's model.
pub(crate) async fn taken_up(scene: &Scene, label: &str) {
    let Some(mut parent) = scene.resume().await else { return };
    let (asked, intents) = (scene.player.of_children(), intents(scene).await);
    let taken = parent.take_up(&scene.player, &model_ref(), &Stop::never(), &mut ()).await;
    let taken = taken.expect("the log can be written");
    if let Some(finished) = taken {
        assert_eq!(finished.end, RunEnd::Completed, "{label}: {finished:?}");
    }
    if self::intents(scene).await == intents {
        assert_eq!(scene.player.of_children(), asked, "{label}: no child ran again");
    }
}

/// How many calls of subagents were about to be made.
async fn intents(scene: &Scene) -> usize {
    let records = scene.records(&parent_id()).await;
    records.iter().filter(|record| matches!(record.body(), Body::Action(_))).count()
}

/// Covers: G6, G7, G8, LB7, RS7, SD1, TR12, #142.
#[tokio::test]
async fn a_kill_at_any_step_of_a_launch_is_settled() {
    let mut seen = BTreeSet::new();
    for power in [false, true] {
        for polls in 0.. {
            let label = format!("launch, power {power}, step {polls}");
            let (scene, dead) = killed(Scene::new(script), "go", polls, power).await;
            taken_up(&scene, &label).await;
            if scene.store.log_bytes(&parent_id()).is_some() {
                for status in check(&scene, &label).await {
                    seen.insert(format!("{status:?}"));
                }
                if let Some(child) = scene.children().await.first() {
                    delivered(&scene, child, &label).await;
                }
            }
            if !dead {
                break;
            }
        }
    }
    let every = ["Completed", "Interrupted", "Rejected"].map(str::to_owned);
    assert_eq!(seen, BTreeSet::from(every), "every kind of end was met");
}

/// What the child's log says and what the parent was told are the same, and the child goes on.
async fn delivered(scene: &Scene, child: &segno_model::SessionId, label: &str) {
    let records = scene.records(child).await;
    let ended = records.iter().any(|record| {
        matches!(record.body(), Body::Run(run)
        if matches!(run.state, RunState::Ended { end: RunEnd::Completed, .. }))
    });
    let results = scene.results().await;
    let result = results.first().map_or("", String::as_str);
    assert_eq!(result.starts_with("first words"), ended, "{label}: {result}");
    let never = prompts(&records).is_empty();
    assert_eq!(result.contains("never started"), never, "{label}: {result}");
    if never {
        return;
    }
    let mut parent = scene.resume().await.expect("it is there");
    scene.ask(&mut parent, &format!("again {child}")).await;
    let results = scene.results().await;
    let last = results.last().map_or("", String::as_str);
    assert!(last.starts_with("second words"), "{label}: {last}");
}

/// Covers: G6, G7, G8, RS7, RS17, SD1.
#[tokio::test]
async fn a_kill_at_any_step_of_continuing_is_settled() {
    for power in [false, true] {
        for polls in 0.. {
            let label = format!("continue, power {power}, step {polls}");
            let scene = Scene::new(script);
            let mut parent = scene.begin().await;
            scene.ask(&mut parent, "go").await;
            drop(parent);
            let child = scene.children().await.remove(0);
            let (scene, dead) = killed(scene, &format!("again {child}"), polls, power).await;
            taken_up(&scene, &label).await;
            check(&scene, &label).await;
            let mut parent = scene.resume().await.expect("it is there");
            scene.ask(&mut parent, &format!("again {child}")).await;
            drop(parent);
            let results = scene.results().await;
            let last = results.last().map_or("", String::as_str);
            assert!(last.starts_with("second words"), "{label}: {last}");
            if !dead {
                break;
            }
        }
    }
}

/// A stop that reached the parent's log and not the child: recovery finishes it there. Covers: G9.
#[tokio::test]
async fn a_stop_reaches_a_child_whose_process_died() {
    use segno_runtime::{StopHandle, StopKind};
    for polls in 0..40 {
        let scene = Scene::new(|seen| if seen.child { Say::Hang } else { script(seen) });
        let (handle, stop) = StopHandle::new();
        let mut parent = scene.begin().await;
        let (model, name) = (scene.player.clone(), model_ref());
        let player = scene.player.clone();
        let over = {
            let (input, mut nobody) = (UserMessage::text("go"), ());
            let run = parent.prompt(&model, &name, input, &stop, &mut nobody);
            let mut run = pin!(run);
            let mut left = None;
            std::future::poll_fn(|context| {
                if player.of_children() > 0 && left.is_none() {
                    handle.stop(StopKind::User);
                    left = Some(polls);
                }
                match &mut left {
                    Some(0) => return Poll::Ready(false),
                    Some(left) => *left -= 1,
                    None => {}
                }
                context.waker().wake_by_ref();
                run.as_mut().poll(context).map(|_| true)
            })
            .await
        };
        drop(parent);
        scene.store.crash(usize::MAX);
        let scene = scene.elsewhere();
        let child = child_id(&parent_id(), 6, 0);
        let noted = scene.store.read(&parent_id()).await.unwrap().state.in_force.open_run;
        let mut parent = scene.resume().await.expect("it is there");
        let done = parent.take_up(&scene.player, &name, &Stop::never(), &mut ()).await.unwrap();
        let own = scene.store.read(&child).await.unwrap().state.in_force;
        if noted.is_some_and(|run| run.stopping) {
            assert_eq!(done.map(|d| d.end), Some(RunEnd::Stopped), "step {polls}");
            assert_eq!(
                (own.last_end, own.open_run.is_none()),
                (Some(RunEnd::Stopped), true),
                "step {polls}"
            );
            let attempt = scene.attempts().await.remove(0);
            assert_eq!(attempt.status, AttemptStatus::Stopped, "step {polls}");
        }
        if over {
            return;
        }
    }
    panic!("the stop never came to its end");
}
