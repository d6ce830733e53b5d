//! Children that work in git worktrees of their own, on real repositories.

use super::crashes::polled;
use super::scene::{Say, Scene, Seen, call, model_ref, parent_id, text};
use segno_agent::permission::{Mode, PrefixRule};
use segno_agent::tool::{Asker, Asking, Question, Reply};
use segno_agent::worktree::State;
use segno_model::SessionId;
use segno_model::child::launch_of;
use segno_model::record::{AttemptStatus, Body, LaunchRecord, UserMessage};
use segno_model::store::{ForkPoint, SessionStore as _};
use segno_runtime::Stop;
use segno_testkit::git;
use serde_json::json;
use std::path::Path;
use std::sync::{Arc, Mutex};

/// The parent works in `sub` of a repository, with a change that is in no commit.
pub(crate) fn scene(script: impl Fn(&Seen) -> Say + Send + Sync + 'static) -> Scene {
    let mut scene = Scene::new(script);
    let top = scene.cwd.clone();
    let sub = top.join("sub");
    std::fs::create_dir(&sub).unwrap();
    std::fs::write(sub.join("a.txt"), "one\n").unwrap();
    git(&top, &["init", "-q"]);
    git(&top, &["add", "--all"]);
    git(&top, &["commit", "-q", "-m", "first"]);
    std::fs::write(sub.join("a.txt"), "mine\n").unwrap();
    scene.cwd = sub;
    scene
}

pub(crate) fn top(scene: &Scene) -> &Path {
    scene.cwd.parent().unwrap()
}

/// The parent gives a task in a worktree, then continues the child when it is asked to.
fn one_task(seen: &Seen) -> Say {
    if seen.child {
        return match seen.last.as_str() {
            "one" => call("write", &json!({"path": "new.txt", "content": "new"})),
            "two" => {
                let edit = json!({"path": "a.txt", "old_text": "one", "new_text": "two"});
                call("edit", &edit)
            }
            last => text(last),
        };
    }
    match seen.last.as_str() {
        "go" => call("task", &json!({"prompt": "one", "worktree": true})),
        last if last.starts_with("again ") => {
            call("task", &json!({"resume": last.trim_start_matches("again "), "prompt": "two"}))
        }
        _ => text("told"),
    }
}

pub(crate) async fn launch(scene: &Scene, child: &SessionId) -> LaunchRecord {
    let records = scene.records(child).await;
    let Body::Session(header) = records[0].body() else { panic!("a header") };
    launch_of(header, child, &parent_id()).unwrap()
}

/// The child's files are its own, as deep as its parent's, from the last commit; continued, it works on in them,
/// and each result says what is there and what was. Covers: RS24.
#[tokio::test]
async fn a_child_works_in_a_worktree_of_its_own() {
    let scene = scene(one_task);
    let mut parent = scene.begin().await;
    scene.ask(&mut parent, "go").await;
    let child = scene.children().await.remove(0);
    let launch = launch(&scene, &child).await;
    let worktree = launch.worktree.clone().unwrap();
    let path = Path::new(&worktree.path);
    assert_eq!(Path::new(&launch.cwd), path.join("sub"));
    assert_eq!(worktree.branch, format!("segno/{child}"));
    assert_eq!(worktree.baseline, git(top(&scene), &["rev-parse", "HEAD"]));
    assert_eq!(std::fs::read_to_string(path.join("sub/new.txt")).unwrap(), "new");
    assert_eq!(std::fs::read_to_string(path.join("sub/a.txt")).unwrap(), "one\n");
    assert!(!scene.cwd.join("new.txt").exists());
    let result = scene.results().await.remove(0);
    for said in [
        format!("is kept, on the branch segno/{child}: 0 commits since it was made, 1 file with"),
        "the changes of 1 of your files that are in no commit are not in it".to_owned(),
    ] {
        assert!(result.contains(&said), "{result}");
    }
    let seen = scene.player.seen.lock().unwrap().clone();
    let told = seen.iter().find(|seen| seen.child).unwrap();
    assert!(told.all.contains("You work in a git worktree of your own"), "{}", told.all);

    git(path, &["add", "--all"]);
    git(path, &["commit", "-q", "-m", "new"]);
    let finished = scene.ask(&mut parent, &format!("again {child}")).await;
    assert_eq!(finished.text, "told");
    assert_eq!(std::fs::read_to_string(path.join("sub/a.txt")).unwrap(), "two\n");
    assert_eq!(std::fs::read_to_string(scene.cwd.join("a.txt")).unwrap(), "mine\n");
    let result = scene.results().await.remove(1);
    for said in [
        "1 commit since it was made, 1 file with changes in no commit; before this attempt: 1 commit \
         since it was made, 0 files with changes in no commit.",
        "brings its commits",
    ] {
        assert!(result.contains(said), "{result}");
    }
    assert!(
        scene
            .attempts()
            .await
            .iter()
            .all(|a| a.status == AttemptStatus::Completed && a.drift.is_empty())
    );
}

/// What a worktree has become keeps its child from going on, with its code; nothing is changed. Covers: RS15.
#[tokio::test]
async fn a_child_without_its_worktree_is_not_continued() {
    type Change = fn(&Scene, &Path);
    let cases: [(&str, Change); 3] = [
        ("cwd-missing,worktree-missing", |scene, path| {
            git(top(scene), &["worktree", "remove", "--force", path.to_str().unwrap()]);
        }),
        ("worktree-branch-swapped", |_, path| {
            git(path, &["checkout", "-q", "-b", "side"]);
        }),
        ("worktree-cwd-outside", |scene, path| {
            std::fs::rename(path.join("sub"), path.join("away")).unwrap();
            std::os::unix::fs::symlink(&scene.cwd, path.join("sub")).unwrap();
        }),
    ];
    for (codes, change) in cases {
        let scene = scene(one_task);
        let mut parent = scene.begin().await;
        scene.ask(&mut parent, "go").await;
        let child = scene.children().await.remove(0);
        let before = scene.store.log_bytes(&child);
        change(&scene, Path::new(&launch(&scene, &child).await.worktree.unwrap().path));
        scene.ask(&mut parent, &format!("again {child}")).await;
        let attempt = scene.attempts().await.remove(1);
        assert_eq!(
            (attempt.status, attempt.reason.as_deref()),
            (AttemptStatus::Rejected, Some(codes))
        );
        assert_eq!(scene.store.log_bytes(&child), before, "{codes}");
    }
}

/// Where none can be made nothing is started.
#[tokio::test]
async fn without_a_repository_there_is_no_worktree() {
    let scene = Scene::new(one_task);
    let mut parent = scene.begin().await;
    scene.ask(&mut parent, "go").await;
    assert!(scene.results().await[0].contains("is in no git repository"));
    assert_eq!(scene.attempts().await[0].reason.as_deref(), Some("worktree-no-repository"));
    assert!(scene.children().await.is_empty());
    assert_eq!(scene.worktrees().notes().unwrap(), (vec![], vec![]));
}

/// What git cannot make is not half there, and the call says so.
#[tokio::test]
async fn a_worktree_that_cannot_be_made_starts_nothing() {
    let scene = scene(one_task);
    git(top(&scene), &["branch", "segno"]);
    let mut parent = scene.begin().await;
    scene.ask(&mut parent, "go").await;
    let result = scene.results().await.remove(0);
    assert!(result.contains("the worktree was not made: git said: "), "{result}");
    assert_eq!(scene.attempts().await[0].reason.as_deref(), Some("worktree-failed"));
    assert!(scene.children().await.is_empty());
    assert_eq!(scene.worktrees().notes().unwrap(), (vec![], vec![]));
    assert_eq!(git(top(&scene), &["worktree", "list"]).lines().count(), 1);
}

/// Allows everything, and keeps what it was asked.
struct Allows(Mutex<Vec<String>>);

impl Asker for Allows {
    fn ask<'a>(&'a self, question: Question<'a>) -> Asking<'a> {
        self.0.lock().unwrap().push(question.text.to_owned());
        Box::pin(async { Reply::Once })
    }

    fn save(&self, _: &[PrefixRule]) {}
}

/// A branch is a change of the project, so the live gate decides; in its worktree a child may what its parent may
/// in its own directory, and no more.
#[tokio::test]
async fn the_live_gate_decides_about_a_worktree() {
    let read_only = Scene { mode: Mode::ReadOnly, ..scene(one_task) };
    let mut parent = read_only.begin().await;
    read_only.ask(&mut parent, "go").await;
    assert!(read_only.children().await.is_empty());
    assert_eq!(git(top(&read_only), &["branch"]).lines().count(), 1);

    let asker = Arc::new(Allows(Mutex::default()));
    let edits = Scene {
        mode: Mode::Edits,
        asker: Some(Arc::<Allows>::clone(&asker)),
        ..scene(|seen| match (seen.child, seen.turns) {
            (true, 1) => {
                let write = |path: &str| {
                    ("write".to_owned(), json!({"path": path, "content": "x"}).to_string())
                };
                let outside = seen.last.as_str();
                Say::Calls(vec![write("../inside.txt"), write(outside), write("../.git")])
            }
            (false, 1) => {
                let outside = seen.last.as_str();
                call("task", &json!({"prompt": outside, "worktree": true}))
            }
            _ => text("told"),
        })
    };
    let outside = edits.cwd.join("outside.txt").display().to_string();
    let mut parent = edits.begin().await;
    edits.ask(&mut parent, &outside).await;
    let asked = asker.0.lock().unwrap().clone();
    assert_eq!(asked.len(), 2, "{asked:?}");
    assert!(asked[0].contains("outside.txt (outside of the project)"), "{asked:?}");
    assert!(asked[1].contains(".git (a file that programs trust)"), "{asked:?}");
}

/// Covers: G7.
#[tokio::test]
async fn in_mode_ask_a_worktree_is_asked_for() {
    let asker = Arc::new(Allows(Mutex::default()));
    let scene = Scene {
        mode: Mode::Ask,
        asker: Some(Arc::<Allows>::clone(&asker)),
        ..scene(|seen| match (seen.child, seen.turns) {
            (false, 1) => call("task", &json!({"prompt": "one", "worktree": true})),
            _ => text("told"),
        })
    };
    let mut parent = scene.begin().await;
    scene.ask(&mut parent, "go").await;
    let asked = asker.0.lock().unwrap().clone();
    assert!(asked.len() == 1 && asked[0].starts_with("Make a git worktree of "), "{asked:?}");
    assert_eq!(scene.children().await.len(), 1);
}

/// A worktree is its session's alone.
#[tokio::test]
async fn a_fork_does_not_go_on_in_its_origins_worktree() {
    let scene = scene(one_task);
    let mut parent = scene.begin().await;
    scene.ask(&mut parent, "go").await;
    drop(parent);
    let child = scene.children().await.remove(0);
    let fork = SessionId::parse("0195f3a0-0000-7000-8000-0000000000f0").unwrap();
    let header = segno_testkit::sessions::header(fork.clone());
    scene
        .store
        .fork(&parent_id(), ForkPoint::Whole, header, segno_model::Timestamp(0))
        .await
        .unwrap();
    let mut parent = scene.resume_as(&fork).await.expect("it is there");
    scene.ask(&mut parent, &format!("again {child}")).await;
    assert!(scene.store.children(&fork).await.unwrap().is_empty());
    let records = scene.records(&fork).await;
    let attempts = segno_model::child::attempts(&records);
    assert_eq!(attempts.last().unwrap().reason.as_deref(), Some("worktree-not-owned"));
    let seen = scene.player.seen.lock().unwrap().last().unwrap().clone();
    for way_on in [format!("`git merge segno/{child}`"), format!("`segno resume {child}`")] {
        assert!(seen.last.contains(&way_on), "{}", seen.last);
    }
}

/// Killed anywhere on the way, a call makes one worktree at most, and none that is not listed and told.
/// Covers: G7.
#[tokio::test]
async fn a_kill_at_any_step_strands_no_worktree() {
    let mut met = std::collections::BTreeSet::new();
    // Each step asks git several things, and takes its time.
    for polls in (0..).step_by(3) {
        let scene = scene(one_task);
        let mut parent = scene.begin().await;
        let (model, name, stop) = (scene.player.clone(), model_ref(), Stop::never());
        let over = {
            let mut nobody = ();
            let input = UserMessage::text("go");
            let run = parent.prompt(&model, &name, input, &stop, &mut nobody);
            polled(run, polls).await.is_some()
        };
        drop(parent);
        scene.store.crash(usize::MAX);
        let scene = scene.elsewhere();
        if let Some(mut parent) = scene.resume().await {
            parent.take_up(&scene.player, &name, &stop, &mut ()).await.unwrap();
        }
        let (notes, odd) = scene.worktrees().notes().unwrap();
        assert!(notes.len() <= 1 && odd.is_empty(), "step {polls}: {notes:?} {odd:?}");
        let branches = git(top(&scene), &["branch", "--list", "segno/*"]).lines().count();
        assert!(branches <= notes.len(), "step {polls}");
        for note in notes {
            let state = scene.worktrees().work(&note).await.state;
            met.insert(state.word());
            assert_eq!(scene.children().await, std::slice::from_ref(&note.child));
            let result = scene.results().await.remove(0);
            let told =
                result.contains(&note.worktree.path) || result.contains("No worktree is there");
            assert!(told, "step {polls}: {result}");
        }
        if over {
            break;
        }
    }
    assert!(
        met.contains(State::Clean.word()) && met.contains(State::Uncommitted.word()),
        "{met:?}"
    );
}
