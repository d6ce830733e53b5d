//! Going back with the files: what comes back, what is left as it is, and what a crash leaves.

use super::*;
use segno_agent::rewind::{FileFate, Files, Plan, rewind};
use segno_model::record::{Action, RESTORE};
use segno_model::store::{Scanned, SessionLog as _, StoreError};
use segno_model::{Pos, Record, Seq};
use std::path::PathBuf;

fn here() -> Owner {
    Owner { host: "h".to_owned(), ..Owner::default() }
}

async fn records(scene: &Scene) -> Vec<Record> {
    let mut records = Vec::new();
    let visit = &mut |scanned| {
        if let Scanned::Record(record) = scanned {
            records.push(*record);
        }
        true
    };
    scene.store.scan(&id(), visit).await.expect("read");
    records
}

/// The number of the prompt that begins with `text`.
async fn prompt(scene: &Scene, text: &str) -> Seq {
    let records = records(scene).await;
    let found = records.iter().find(|record| match record.body() {
        Body::Message(message) => match &**message {
            segno_model::record::Message::User(user) => texts(&user.content).starts_with(text),
            _ => false,
        },
        _ => false,
    });
    found.map(Record::seq).expect("it was said")
}

async fn plan(scene: &Scene, agent: &Agent<StrictLog, Toolbox>, seq: Seq) -> Plan {
    let tip = agent.session.state().tip().map(|pos| pos.seq);
    Plan::of(&records(scene).await, tip, seq).expect("there is such a record")
}

async fn back(
    scene: &Scene,
    agent: &mut Agent<StrictLog, Toolbox>,
    seq: Seq,
    files: Files,
) -> Result<Vec<FileFate>, StoreError> {
    let plan = plan(scene, agent, seq).await;
    rewind(&mut agent.session, &agent.tools, &here(), &plan, files).await
}

fn told(fates: &[FileFate]) -> String {
    let one = |fate: &FileFate| {
        let name = fate.path.file_name().expect("a name").to_string_lossy().into_owned();
        let why = fate.why.as_ref().map(|why| format!(" ({why})")).unwrap_or_default();
        format!("{name} {:?}{why}", fate.outcome)
    };
    fates.iter().map(one).collect::<Vec<_>>().join(", ")
}

fn content(scene: &Scene, name: &str) -> Option<String> {
    std::fs::read_to_string(scene.dir.path().join(name)).ok()
}

fn nothing_beside(scene: &Scene) {
    for entry in std::fs::read_dir(scene.dir.path()).expect("listed") {
        let name = entry.expect("an entry").file_name().to_string_lossy().into_owned();
        assert!(!name.starts_with(".segno-"), "{name} is left");
    }
}

/// A session in which a file was edited twice, another was made, and a command ran.
async fn worked() -> (Scene, Agent<StrictLog, Toolbox>) {
    let scene = Scene::new(SCRIPT);
    let mut agent = scene.begin(surroundings("SYSTEM A", &[]));
    for text in ["one?", "change a.txt", "make b.txt", "grow a.txt", "launch touch c.txt"] {
        scene.say(&mut agent, text).await;
    }
    assert_eq!(content(&scene, "a.txt").as_deref(), Some("uno\ntwo and more\n"));
    assert_eq!(content(&scene, "b.txt").as_deref(), Some("made"));
    (scene, agent)
}

/// Covers: G7.
#[tokio::test]
async fn files_come_back_one_by_one_and_nothing_is_lost() {
    let (scene, mut agent) = worked().await;
    let seq = prompt(&scene, "make").await;
    let looked = back(&scene, &mut agent, seq, Files::Look).await.expect("looked");
    assert_eq!(told(&looked), "a.txt Restored, b.txt Removed");
    assert_eq!(content(&scene, "b.txt").as_deref(), Some("made"), "only looked");
    let at = plan(&scene, &agent, seq).await;
    let undone: Vec<_> = at.not_undone.iter().map(|effect| effect.tool.as_str()).collect();
    assert_eq!(undone, ["bash"]);

    let fates = back(&scene, &mut agent, seq, Files::Bring).await.expect("gone back");
    assert_eq!(told(&fates), "a.txt Restored, b.txt Removed");
    assert_eq!(content(&scene, "a.txt").as_deref(), Some("uno\ntwo\n"));
    assert_eq!(content(&scene, "b.txt"), None);
    assert_eq!(agent.session.state().tip().map(|p: Pos| p.seq), at.to.map(|p| p.seq));
    assert!(agent.session.state().in_force.open_actions.is_empty());
    nothing_beside(&scene);
    // What the removed file held is kept.
    let log = records(&scene).await;
    let kept = log.iter().find_map(|record| match record.body() {
        Body::Action(action) if action.is_restore() => match action.probe.as_ref()?.get() {
            probe if probe.contains("b.txt") => action.before.clone(),
            _ => None,
        },
        _ => None,
    });
    let kept = agent.session.log().blob(&kept.expect("a copy")).await.expect("there");
    assert_eq!(kept, b"made");

    // Again: everything is as it was.
    let fates = back(&scene, &mut agent, seq, Files::Bring).await.expect("gone back");
    assert_eq!(told(&fates), "a.txt Already, b.txt Already");
    // On from there, and further back.
    scene.say(&mut agent, "four?").await;
    let seq = prompt(&scene, "change").await;
    let fates = back(&scene, &mut agent, seq, Files::Bring).await.expect("gone back");
    assert_eq!(told(&fates), "a.txt Restored");
    assert_eq!(content(&scene, "a.txt").as_deref(), Some("one\ntwo\n"));
    scene.say(&mut agent, "five?").await;
    assert!(!scene.last_request().1.contains("uno"), "the model knows nothing of it");
}

/// Without files only the tip moves; a file that somebody else changed is left as it is, and comes back
/// when their change is gone. Covers: G7.
#[tokio::test]
async fn somebody_elses_change_is_left_as_it_is() {
    let (scene, mut agent) = worked().await;
    let seq = prompt(&scene, "change").await;
    let fates = back(&scene, &mut agent, seq, Files::Leave).await.expect("gone back");
    assert_eq!(fates, []);
    assert_eq!(content(&scene, "b.txt").as_deref(), Some("made"));
    let theirs = scene.dir.path().join("a.txt");
    std::fs::write(&theirs, "theirs\n").expect("written");
    std::fs::remove_file(scene.dir.path().join("b.txt")).expect("removed");
    let fates = back(&scene, &mut agent, seq, Files::Bring).await.expect("gone back");
    let said = told(&fates);
    assert!(said.starts_with("a.txt Refused (it was changed by someone else since"), "{said}");
    assert!(said.ends_with("b.txt Already"), "{said}");
    assert_eq!(content(&scene, "a.txt").as_deref(), Some("theirs\n"));
    std::fs::write(&theirs, "uno\ntwo and more\n").expect("written");
    let fates = back(&scene, &mut agent, seq, Files::Bring).await.expect("gone back");
    assert_eq!(told(&fates), "a.txt Restored, b.txt Already");
    assert_eq!(content(&scene, "a.txt").as_deref(), Some("one\ntwo\n"));
}

/// A file that somebody else changed between two edits comes back as far as their change.
#[tokio::test]
async fn a_change_between_two_edits_is_kept() {
    let scene = Scene::new(SCRIPT);
    let mut agent = scene.begin(surroundings("SYSTEM A", &[]));
    scene.say(&mut agent, "change a.txt").await;
    std::fs::write(scene.dir.path().join("a.txt"), "uno\ntwo\ntheirs\n").expect("written");
    scene.say(&mut agent, "grow a.txt").await;
    let seq = prompt(&scene, "change").await;
    let fates = back(&scene, &mut agent, seq, Files::Bring).await.expect("gone back");
    assert!(told(&fates).starts_with("a.txt Restored (not further"), "{}", told(&fates));
    assert_eq!(content(&scene, "a.txt").as_deref(), Some("uno\ntwo\ntheirs\n"));
}

/// Power is lost at every write of going back; done again, everything is back, once, and the session
/// goes on. Covers: G4, G7.
#[tokio::test]
async fn power_lost_at_every_write_of_going_back() {
    for (fatal, torn) in (0..4).flat_map(|fatal| [(fatal, 0), (fatal, usize::MAX)]) {
        let (scene, mut agent) = worked().await;
        let seq = prompt(&scene, "change").await;
        scene.store.fail_after(Op::Write, fatal, Fault::Broken);
        let died = back(&scene, &mut agent, seq, Files::Bring).await.is_err();
        assert_eq!(died, fatal < 2, "there are two writes");
        drop(agent);
        scene.store.crash(torn);
        let mut agent = scene.resume(surroundings("SYSTEM A", &[])).await;
        // What another version of the plan finds is the same: the tip has not moved.
        let fates = back(&scene, &mut agent, seq, Files::Bring).await.expect("gone back");
        assert!(!told(&fates).contains("Refused"), "{}", told(&fates));
        assert_eq!(content(&scene, "a.txt").as_deref(), Some("one\ntwo\n"), "{fatal}");
        assert_eq!(content(&scene, "b.txt"), None, "{fatal}");
        nothing_beside(&scene);
        assert!(agent.session.state().in_force.open_actions.is_empty());
        scene.say(&mut agent, "four?").await;
        let said = scene.last_request().1;
        assert!(said.contains("one?") && !said.contains(RESTORE), "{said}");
        assert!(scene.server.violations().is_empty(), "{:?}", scene.server.violations());
    }
}

/// A crash of going back that nobody repeats is settled with the next input. Covers: G7.
#[tokio::test]
async fn a_rewind_that_nobody_repeats_is_settled_with_the_next_input() {
    let (scene, mut agent) = worked().await;
    let seq = prompt(&scene, "change").await;
    scene.store.fail_after(Op::Write, 1, Fault::Broken);
    back(&scene, &mut agent, seq, Files::Bring).await.expect_err("killed");
    drop(agent);
    scene.store.crash(0);
    let mut agent = scene.resume(surroundings("SYSTEM A", &[])).await;
    let open = agent.session.state().in_force.open_actions.clone();
    let is_restore = |action: &Action| action.tool == RESTORE;
    assert_eq!(open.iter().filter(|open| is_restore(&open.action)).count(), 2);
    scene.say(&mut agent, "four?").await;
    assert!(agent.session.state().in_force.open_actions.is_empty());
    assert!(scene.server.violations().is_empty(), "{:?}", scene.server.violations());
    nothing_beside(&scene);
}

/// A link that was put where a file's directory was leads nobody astray.
#[tokio::test]
async fn a_directory_that_became_a_link_is_left_alone() {
    let scene = Scene::new(SCRIPT);
    let mut agent = scene.begin(surroundings("SYSTEM A", &[]));
    scene.say(&mut agent, "make d/b.txt").await;
    let at = |name: &str| -> PathBuf { scene.dir.path().join(name) };
    std::fs::rename(at("d"), at("e")).expect("moved");
    std::os::unix::fs::symlink("e", at("d")).expect("linked");
    let seq = prompt(&scene, "make").await;
    let fates = back(&scene, &mut agent, seq, Files::Bring).await.expect("gone back");
    assert!(told(&fates).contains("b.txt Refused (its directory leads to"), "{}", told(&fates));
    assert_eq!(content(&scene, "e/b.txt").as_deref(), Some("made"));
}
