//! Children in the background: in worktrees of their own, and behind the live gate.

use super::background::ends;
use super::crashes::polled;
use super::scene::{Say, Scene, Seen, call, model_ref, text};
use super::worktrees::{launch, scene, top};
use segno_agent::permission::Mode;
use segno_agent::worktree::State;
use segno_model::record::{AttemptStatus, UserMessage};
use segno_runtime::Stop;
use segno_testkit::git;
use serde_json::json;
use std::path::Path;

/// The parent gives a task in the background and in a worktree, and continues the child there when it is asked to.
fn parent(seen: &Seen) -> Say {
    match seen.last.as_str() {
        "go" => call("task", &json!({"prompt": "one", "worktree": true, "background": true})),
        last if last.starts_with("again ") => {
            let child = last.trim_start_matches("again ");
            call("task", &json!({"resume": child, "prompt": "two", "background": true}))
        }
        last => text(&format!("told: {last}")),
    }
}

fn child(seen: &Seen) -> Say {
    match seen.last.as_str() {
        "one" => call("write", &json!({"path": "new.txt", "content": "new"})),
        "two" => call("edit", &json!({"path": "a.txt", "old_text": "one", "new_text": "two"})),
        last => text(last),
    }
}

/// The call answers at once; what the worktree holds is told with the end, and the child goes on in it.
/// Covers: RS24.
#[tokio::test]
async fn a_child_in_the_background_works_in_its_worktree() {
    let scene = scene(|seen| if seen.child { child(seen) } else { parent(seen) });
    let mut agent = scene.begin().await;
    let told = scene.ask(&mut agent, "go").await.text;
    let id = scene.children().await.remove(0);
    let path = launch(&scene, &id).await.worktree.unwrap().path;
    assert!(scene.results().await[0].contains("works in the background"));
    let held = format!(
        "Its worktree {path} is kept, on the branch segno/{id}: 0 commits since it was made, 1 file"
    );
    assert!(told.contains(&held), "{told}");
    let content = |name: &str| std::fs::read_to_string(Path::new(&path).join("sub").join(name));
    assert_eq!(content("new.txt").unwrap(), "new");
    assert!(!scene.cwd.join("new.txt").exists());

    let told = scene.ask(&mut agent, &format!("again {id}")).await.text;
    let before = "2 files with changes in no commit; before this attempt: 0 commits since it was made, 1 file";
    assert!(told.contains(before), "{told}");
    assert_eq!(content("a.txt").unwrap(), "two\n");
    let statuses: Vec<_> = scene.attempts().await.into_iter().map(|a| a.status).collect();
    assert_eq!(statuses, [AttemptStatus::Completed; 2]);
    assert_eq!(ends(&scene).await.len(), 2);
}

/// Its parent's process dies: its worktree stays as it was, is listed, told of with the end, and worked on in again.
/// Covers: G8, RS7.
#[tokio::test]
async fn a_worktree_outlives_its_childs_process() {
    let scene = scene(|seen| match (seen.child, seen.last.as_str()) {
        (true, last) if last.starts_with("Wrote") || last.contains("new.txt") => Say::Hang,
        (true, _) => child(seen),
        (false, _) => parent(seen),
    });
    let mut agent = scene.begin().await;
    agent.tools.stay();
    scene.ask(&mut agent, "go").await;
    while scene.player.of_children() < 2 {
        tokio::task::yield_now().await;
    }
    drop(agent);
    scene.store.crash(usize::MAX);
    let scene = scene.elsewhere();
    let mut agent = scene.resume().await.unwrap();
    let told = scene.ask(&mut agent, "and?").await.text;
    let (notes, odd) = scene.worktrees().notes().unwrap();
    let path = &notes[0].worktree.path;
    assert!((notes.len(), odd.len()) == (1, 0) && told.contains(path), "{notes:?} {told}");
    assert!(told.contains("it was interrupted") && told.contains("1 file with"), "{told}");
    assert_eq!(scene.worktrees().work(&notes[0]).await.state, State::Uncommitted);
    scene.ask(&mut agent, &format!("again {}", notes[0].child)).await;
    let statuses: Vec<_> = scene.attempts().await.into_iter().map(|a| a.status).collect();
    assert_eq!(statuses, [AttemptStatus::Interrupted, AttemptStatus::Completed]);
    assert_eq!(std::fs::read_to_string(Path::new(path).join("sub/a.txt")).unwrap(), "two\n");
}

/// Killed anywhere on the way, a call makes one worktree at most, and none that is not listed and told.
/// Covers: G7.
#[tokio::test]
async fn a_kill_at_any_step_strands_no_worktree_of_one_in_the_background() {
    let mut met = std::collections::BTreeSet::new();
    for polls in (0..).step_by(5) {
        let scene = scene(|seen| if seen.child { child(seen) } else { parent(seen) });
        let mut agent = scene.begin().await;
        let (model, name, stop) = (scene.player.clone(), model_ref(), Stop::never());
        let over = {
            let mut nobody = ();
            let run = agent.prompt(&model, &name, UserMessage::text("go"), &stop, &mut nobody);
            polled(run, polls).await.is_some()
        };
        drop(agent);
        scene.store.crash(usize::MAX);
        let scene = scene.elsewhere();
        if let Some(mut agent) = scene.resume().await {
            agent.take_up(&scene.player, &name, &stop, &mut ()).await.unwrap();
            scene.ask(&mut agent, "and?").await;
        }
        let (notes, odd) = scene.worktrees().notes().unwrap();
        assert!(notes.len() <= 1 && odd.is_empty(), "step {polls}: {notes:?} {odd:?}");
        let branches = git(top(&scene), &["branch", "--list", "segno/*"]).lines().count();
        assert!(branches <= notes.len(), "step {polls}");
        for note in notes {
            met.insert(scene.worktrees().work(&note).await.state.word());
            assert_eq!(scene.children().await, std::slice::from_ref(&note.child));
            let told = ends(&scene).await.into_iter().map(|(_, text)| text);
            let told: Vec<String> = scene.results().await.into_iter().chain(told).collect();
            let names = |text: &String| {
                text.contains(&note.worktree.path) || text.contains("No worktree is there")
            };
            assert!(told.iter().any(names), "step {polls}: {told:?}");
        }
        if over {
            break;
        }
    }
    assert!(met.contains(State::Uncommitted.word()), "{met:?}");
}

/// It was begun under one permission, and another one is in force when it acts: that one decides, nobody is asked, and
/// it is told why not. Its launch grants nothing.
#[tokio::test]
async fn the_permission_in_force_decides_about_a_child_in_the_background() {
    let cases = [
        (Mode::Ask, Mode::Ask, "this needs a permission and there is nobody to ask"),
        (Mode::Edits, Mode::ReadOnly, "this session is read-only"),
        (Mode::Edits, Mode::Ask, "this needs a permission and there is nobody to ask"),
        (Mode::ReadOnly, Mode::Edits, ""),
        (Mode::Ask, Mode::All, ""),
    ];
    for (then, now, refusal) in cases {
        let scene = Scene::together(2, |seen| match (seen.child, seen.last.as_str()) {
            (true, path) if seen.turns == 1 => {
                call("write", &json!({"path": path, "content": "x"}))
            }
            (true, last) => text(last),
            (false, last) if last == "a.txt" || last == "b.txt" => {
                call("task", &json!({"agent": "scout", "prompt": last, "background": true}))
            }
            (false, _) => text("begun"),
        });
        let scene = Scene { mode: then, ..scene };
        let mut agent = scene.begin().await;
        agent.tools.stay();
        scene.ask(&mut agent, "a.txt").await;
        assert_eq!(agent.tools.subagents_beside(), 1, "it waits for the other one");
        agent.tools.set_mode(now);
        scene.ask(&mut agent, "b.txt").await;
        while agent.tools.subagents_beside() > 0 {
            tokio::task::yield_now().await;
        }
        scene.ask(&mut agent, "and?").await;
        let told: Vec<String> = ends(&scene).await.into_iter().map(|(_, text)| text).collect();
        assert_eq!(told.len(), 2, "{then:?}, {now:?}");
        for (name, told) in ["a.txt", "b.txt"].iter().zip(&told) {
            assert_eq!(scene.cwd.join(name).exists(), refusal.is_empty(), "{then:?}, {now:?}");
            assert!(told.contains(refusal), "{then:?}, {now:?}: {told}");
        }
    }
}
