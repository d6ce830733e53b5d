//! Continuing a child: what is compared, what refuses, and what it goes on with.

use super::scene::{Say, Scene, Seen, call, parent_id, prompts, text};
use segno_model::SessionId;
use segno_model::record::{AttemptStatus, Body, Message, RunEnd};
use segno_model::store::SessionStore as _;
use serde_json::json;

/// First a task, later the same child again; what the child says follows from what it was asked.
fn twice() -> Scene {
    Scene::new(|seen| match seen.child {
        true => text(&format!("seen {}", seen.last)),
        false => parents(seen),
    })
}

fn parents(seen: &Seen) -> Say {
    let again = seen.last.strip_prefix("again ");
    match (seen.last.as_str(), again) {
        ("go", _) => call("task", &json!({"agent": "scout", "prompt": "one"})),
        (_, Some(id)) => call("task", &json!({"resume": id, "prompt": "two"})),
        _ => text("ok"),
    }
}

/// Launches a child and gives its id.
async fn launched(scene: &Scene) -> SessionId {
    let mut parent = scene.begin().await;
    scene.ask(&mut parent, "go").await;
    scene.children().await.remove(0)
}

/// Asks for the child again, as the next process.
async fn again(scene: &Scene, id: &str) -> String {
    let mut parent = scene.resume().await.expect("it is there");
    scene.ask(&mut parent, &format!("again {id}")).await;
    scene.results().await.pop().unwrap_or_default()
}

/// The same child, one more message, one log; only this attempt's words, its own tokens and those of its
/// whole life. Covers: RS1, RS5, RS20, RS21, RS23, RS25, RS26, RS27, VA1.
#[tokio::test]
async fn a_child_goes_on_with_what_it_knows() {
    let scene = twice();
    let child = launched(&scene).await;
    let scene = scene.elsewhere();
    let result = again(&scene, child.as_str()).await;
    assert!(result.starts_with("seen two\n\n[subagent scout"), "{result}");
    assert!(!result.contains("seen one"), "{result}");
    assert!(
        result.contains("1 reply, 10 tokens in, 1 out; in its whole life 20 tokens in, 2 out"),
        "{result}"
    );
    assert_eq!(scene.children().await, std::slice::from_ref(&child));
    let own = scene.records(&child).await;
    let asked: Vec<_> = prompts(&own).into_iter().map(|(text, _)| text).collect();
    assert_eq!(asked, ["one", "two"]);
    let request =
        scene.player.seen.lock().unwrap().iter().rfind(|seen| seen.child).cloned().unwrap();
    assert!(request.all.contains("seen one"), "it knows what it said: {}", request.all);
    let attempts = scene.attempts().await;
    assert_eq!(attempts.iter().map(|a| a.resumed).collect::<Vec<_>>(), [false, true]);
    assert_eq!((attempts[1].run, attempts[1].usage.map(|u| u.input)), (Some(2), Some(10)));
}

/// An edited AGENTS.md, another version: the child goes on, with the prompt that it had, and it is said.
/// Covers: VA6, VA8, VA10, RS11, RS35.
#[tokio::test]
async fn what_is_only_a_notice_strands_nobody() {
    let mut scene = twice();
    scene.instructions("be quick");
    let child = launched(&scene).await;
    let before = scene.player.seen.lock().unwrap().iter().find(|seen| seen.child).cloned().unwrap();
    scene.instructions("be thorough");
    scene.around.version = "2".to_owned();
    scene.around.system = "You work well.".to_owned();
    let result = again(&scene, child.as_str()).await;
    assert!(result.starts_with("seen two\n"), "{result}");
    assert!(
        result
            .contains("changed since its launch: system-drift, instructions-drift, version-drift"),
        "{result}"
    );
    let after = scene.player.seen.lock().unwrap().iter().rfind(|seen| seen.child).cloned().unwrap();
    let prompt = |all: &str| all.split("# Role").next().unwrap().to_owned();
    assert_eq!(prompt(&after.all), prompt(&before.all));
    assert!(after.all.contains("be thorough"), "it is told: {}", after.all);
    assert_eq!(
        scene.attempts().await[1].drift,
        ["system-drift", "instructions-drift", "version-drift"]
    );
}

/// Each of these refuses before anything is changed: no byte of the child, no call of its model; all
/// reasons at once. Covers: RS6, RS9, RS11, RS12, RS14, RS30, VA7, VA12.
#[tokio::test]
async fn what_makes_continuing_wrong_is_refused() {
    type Change = fn(&mut Scene);
    let cases: [(Change, &str); 6] = [
        (
            |scene| std::fs::remove_file(scene.cwd.join(".segno/agents/scout.md")).unwrap(),
            "agent-missing",
        ),
        (
            |scene| scene.role("scout", "tools: read, write\n", "You scout otherwise."),
            "agent-drift",
        ),
        (|scene| scene.models.clear(), "model-missing"),
        (|scene| move_to(scene, "other"), "cwd-drift"),
        (
            |scene| {
                let old = scene.cwd.clone();
                move_to(scene, "other");
                std::fs::remove_dir_all(old).unwrap();
            },
            "cwd-missing",
        ),
        (
            |scene| {
                let old = scene.cwd.clone();
                move_to(scene, "other");
                std::fs::remove_dir_all(&old).unwrap();
                std::fs::write(old, "a file").unwrap();
            },
            "cwd-not-directory",
        ),
    ];
    for (change, code) in cases {
        let mut scene = twice();
        let child = launched(&scene).await;
        change(&mut scene);
        let (bytes, asked) = (scene.store.log_bytes(&child), scene.player.of_children());
        let result = again(&scene, child.as_str()).await;
        assert!(result.contains(code), "{code}: {result}");
        assert!(result.contains("The subagent is not continued"), "{result}");
        assert_eq!(scene.store.log_bytes(&child), bytes, "{code}");
        assert_eq!(scene.player.of_children(), asked, "{code}");
        let attempts = scene.attempts().await;
        let last = attempts.last().unwrap();
        assert_eq!((last.status, last.launched), (AttemptStatus::Rejected, false), "{code}");
    }
    let mut scene = twice();
    let child = launched(&scene).await;
    std::fs::remove_file(scene.cwd.join(".segno/agents/scout.md")).unwrap();
    let old = scene.cwd.clone();
    move_to(&mut scene, "other");
    std::fs::remove_file(scene.cwd.join(".segno/agents/scout.md")).unwrap();
    std::fs::remove_dir_all(old).unwrap();
    let result = again(&scene, child.as_str()).await;
    assert!(result.ends_with("(agent-missing,cwd-missing)"), "{result}");
}

/// The parent works in another directory, with the same role there.
fn move_to(scene: &mut Scene, name: &str) {
    scene.cwd = scene.dir.path().canonicalize().unwrap().join(name);
    std::fs::create_dir(&scene.cwd).unwrap();
    scene.around.cwd = scene.cwd.display().to_string();
    scene.role("scout", "tools: read, write\n", "You scout.");
}

/// Covers: RS4, LK2, LK4, LK10, LK14.
#[tokio::test]
async fn who_is_no_child_of_this_session_is_refused() {
    let scene = twice();
    let child = launched(&scene).await;
    let other: SessionId = SessionId::parse("0195f3a0-0000-7000-8000-00000000000f").unwrap();
    let mut stranger = scene.begin_as(&other).await;
    scene.ask(&mut stranger, "go").await;
    drop(stranger);
    let theirs = scene.store.children(&other).await.unwrap().remove(0).id;
    let nobody = "0195f3a0-0000-8000-8000-00000000000e";
    let cases =
        [(theirs.as_str(), "not-owned"), (other.as_str(), "not-owned"), (nobody, "not-found")];
    for (id, code) in cases {
        let result = again(&scene, id).await;
        assert!(result.contains(code) && result.contains(child.as_str()), "{result}");
    }
    assert_eq!(scene.player.of_children(), 2);
}

/// Somebody works on the child: told who, and nothing is changed. Covers: RS22, LE1, LE2, LE5.
#[tokio::test]
async fn a_held_child_is_not_continued() {
    let scene = twice();
    let child = launched(&scene).await;
    let bytes = scene.store.log_bytes(&child);
    let held = scene.store.elsewhere().open(&child).await.unwrap();
    let result = again(&scene, child.as_str()).await;
    assert!(result.contains("held"), "{result}");
    assert_eq!(scene.store.log_bytes(&child), bytes);
    drop(held);
    let result = again(&scene, child.as_str()).await;
    assert!(result.starts_with("seen two"), "{result}");
}

/// A round that another process completed is built on, not forked away from. Covers: RS28.
#[tokio::test]
async fn what_another_process_said_meanwhile_is_seen() {
    use segno_model::batch::Draft;
    use segno_model::store::{HeldSession as _, Judged, Level, SessionLog as _};
    let scene = twice();
    let child = launched(&scene).await;
    let held = scene.store.elsewhere().open(&child).await.unwrap();
    let Judged::Sound(mut opened) = held.judge().await.unwrap() else { panic!("sound") };
    let words =
        [segno_testkit::sessions::prompt("meanwhile"), segno_testkit::sessions::answer("noted")];
    let drafts = words.map(|body| Draft::new(segno_model::Timestamp(0), body)).to_vec();
    opened.log.append(drafts, Level::Synced).await.unwrap();
    drop(opened);
    again(&scene, child.as_str()).await;
    let request =
        scene.player.seen.lock().unwrap().iter().rfind(|seen| seen.child).cloned().unwrap();
    assert!(request.all.contains("noted"), "{}", request.all);
    let own = scene.records(&child).await;
    let parents: Vec<_> = own.iter().filter_map(|r| r.envelope.parent).collect();
    let mut distinct = parents.clone();
    distinct.dedup();
    assert_eq!(parents, distinct, "nothing forks");
}

/// A torn tail of the child is set aside by its next attempt. Covers: RS18, LK6, G2.
#[tokio::test]
async fn a_torn_child_goes_on() {
    let scene = twice();
    let child = launched(&scene).await;
    let mut bytes = scene.store.log_bytes(&child).unwrap();
    bytes.extend_from_slice(b"{\"seq\":99,\"at\":\"2026");
    scene.store.set_log_bytes(&child, bytes);
    let result = again(&scene, child.as_str()).await;
    assert!(result.starts_with("seen two"), "{result}");
    assert_eq!(scene.store.set_aside(&child).len(), 1);
}

/// A history in which pairing would be guessing is refused, and no byte changes. Covers: RS19, RS33.
#[tokio::test]
async fn an_unpairable_child_is_refused() {
    use segno_model::batch::Draft;
    use segno_model::record::{Block, Established, Outcome, ToolMessage};
    use segno_model::store::{HeldSession as _, Judged, Level, SessionLog as _};
    let scene = Scene::new(|seen| match (seen.child, seen.turns) {
        (true, 1) => call("read", &json!({"path": "a"})),
        (true, _) => text("read"),
        (false, _) => parents(seen),
    });
    let child = launched(&scene).await;
    let own = scene.records(&child).await;
    let result = own.iter().find_map(|record| match record.body() {
        Body::Message(message) => match &**message {
            Message::Tool(result) => Some(result.clone()),
            _ => None,
        },
        _ => None,
    });
    let differs = ToolMessage {
        content: vec![Block::text("something else")],
        outcome: Outcome::Done,
        established: Established::Observed,
        ..result.unwrap()
    };
    let held = scene.store.open(&child).await.unwrap();
    let Judged::Sound(mut opened) = held.judge().await.unwrap() else { panic!("sound") };
    let body = Body::Message(Box::new(Message::Tool(differs)));
    let draft = Draft::new(segno_model::Timestamp(0), body);
    opened.log.append(vec![draft], Level::Synced).await.unwrap();
    drop(opened);
    let bytes = scene.store.log_bytes(&child);
    let told = again(&scene, child.as_str()).await;
    assert!(told.contains("unpairable-two-results"), "{told}");
    assert_eq!(scene.store.log_bytes(&child), bytes);
}

/// The first run's model failed; the child can be continued all the same. Covers: RS7, VA3.
#[tokio::test]
async fn a_child_whose_first_run_failed_goes_on() {
    let scene = Scene::new(|seen| match (seen.child, seen.last.as_str()) {
        (true, "one") => Say::Fail,
        (true, _) => text("better now"),
        (false, _) => parents(seen),
    });
    let child = launched(&scene).await;
    let result = again(&scene, child.as_str()).await;
    assert!(result.starts_with("better now"), "{result}");
    let end = scene.store.read(&child).await.unwrap().state.in_force.last_end;
    assert_eq!(end, Some(RunEnd::Completed));
}

/// A fork looks its origin's children up, and what it continues is a copy under an id of its own.
/// Covers: #140, LK2.
#[tokio::test]
async fn a_fork_continues_a_copy_of_its_origins_child() {
    use segno_model::store::ForkPoint;
    let scene = twice();
    let child = launched(&scene).await;
    let fork = SessionId::parse("0195f3a0-0000-7000-8000-0000000000f0").unwrap();
    let header = segno_testkit::sessions::header(fork.clone());
    let at = segno_model::Timestamp(0);
    scene.store.fork(&parent_id(), ForkPoint::Whole, header, at).await.unwrap();
    let bytes = scene.store.log_bytes(&child);
    let mut parent = scene.resume_as(&fork).await.expect("it is there");
    scene.ask(&mut parent, &format!("again {child}")).await;
    drop(parent);
    assert_eq!(scene.store.log_bytes(&child), bytes, "the origin's child is as it was");
    assert_eq!(scene.children().await, std::slice::from_ref(&child));
    let copy = scene.store.children(&fork).await.unwrap().remove(0).id;
    assert_ne!(copy, child);
    let asked: Vec<_> =
        prompts(&scene.records(&copy).await).into_iter().map(|(text, _)| text).collect();
    assert_eq!(asked, ["one", "two"]);
    let request =
        scene.player.seen.lock().unwrap().iter().rfind(|seen| seen.child).cloned().unwrap();
    assert!(request.all.contains("seen one"), "{}", request.all);
    let mut parent = scene.resume_as(&fork).await.expect("it is there");
    scene.ask(&mut parent, &format!("again {copy}")).await;
    assert_eq!(scene.store.children(&fork).await.unwrap().len(), 1, "the copy itself goes on");
    // The fork's log still names the origin's child, and means the copy.
    scene.ask(&mut parent, &format!("again {child}")).await;
    assert_eq!(scene.store.children(&fork).await.unwrap().len(), 1, "it is not copied again");
    let prompts = prompts(&scene.records(&copy).await);
    assert_eq!(prompts.len(), asked.len() + 2, "{prompts:?}");
    assert_eq!(scene.store.log_bytes(&child), bytes);
}

/// How much a child thinks follows its role as it is now, or its parent, at each attempt; which model it asks
/// stays as it was when its parent asks another one. Covers: RS12, RS31, RS32.
#[tokio::test]
async fn the_model_stays_and_thinking_follows() {
    use segno_model::record::{ModelChange, ModelRef};
    let mut scene = twice();
    scene.models.push(ModelRef::new("test", "two"));
    let child = launched(&scene).await;
    let mut parent = scene.resume().await.expect("it is there");
    let other = ModelRef::new("test", "two");
    let change = ModelChange { model: other, chosen: true, base_url: None };
    parent.session.set_model(change).await.unwrap();
    parent.session.set_thinking("high").await.unwrap();
    scene.ask(&mut parent, &format!("again {child}")).await;
    let now = scene.store.read(&child).await.unwrap().state.in_force;
    assert_eq!(now.thinking.as_deref(), Some("high"));
    assert_eq!(now.model, Some(ModelRef::new("test", "one")));
    let attempts = scene.attempts().await;
    assert_eq!(attempts[1].model, Some(ModelRef::new("test", "one")));
}
