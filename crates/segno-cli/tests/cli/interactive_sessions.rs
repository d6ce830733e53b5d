//! Going from session to session: resume, switch, fork, tree, compact, other directories, damage.

use crate::interactive::{Desk, id_of};

/// A session with one prompt and its answer; its id.
fn session(desk: &Desk, prompt: &str) -> String {
    let before = desk.logs();
    let mut segno = desk.play(&[]);
    segno.enter(prompt);
    segno.wait_for("You said:");
    segno.ready();
    segno.send("\x04");
    assert_eq!(segno.exit_code(), 0);
    let new = desk.logs().into_iter().find(|log| !before.contains(log)).unwrap();
    id_of(&new)
}

/// Covers: G5, #102.
#[test]
fn a_session_has_one_writer_and_switching_lets_go_of_it() {
    let desk = Desk::new();
    let (one, two) = (session(&desk, "first one"), session(&desk, "second one"));
    let mut a = desk.play_exactly(&["resume", &one], &desk.project(), 100, 40);
    a.wait_for("You said: first one");
    a.ready();
    let mut b = desk.play_exactly(&["resume", &one], &desk.project(), 100, 40);
    b.wait_for("is being written by process");
    b.wait_for(&format!("`segno fork {one}`"));
    assert_eq!(b.exit_code(), 4);

    let requests = desk.server.requests().len();
    a.enter(&format!("/resume {two}"));
    a.wait_for("You said: second one");
    a.ready();
    let mut c = desk.play_exactly(&["resume", &one], &desk.project(), 100, 40);
    c.wait_for("You said: first one");
    c.ready();
    // A switch that fails keeps what there is.
    a.enter(&format!("/resume {one}"));
    a.wait_for("is being written by process");
    a.enter("still here");
    a.wait_for("You said: still here");
    a.ready();
    let replies = desk.server.requests()[requests..].iter().filter(|r| r.seen.is_some()).count();
    assert_eq!(replies, 1, "only the prompt was sent");
}

#[test]
fn the_picker_filters_and_leaves() {
    let desk = Desk::new();
    session(&desk, "about apples");
    session(&desk, "about pears");
    let mut segno = desk.play_exactly(&["resume"], &desk.project(), 100, 20);
    segno.wait_for("about apples");
    segno.wait_for("about pears");
    segno.send("apples");
    segno.wait_for_no("about pears");
    segno.send("\r");
    segno.wait_for("You said: about apples");
    segno.ready();
    segno.enter("/resume");
    segno.wait_for("about pears");
    segno.send("\x1b");
    segno.wait_for_no("about pears");
    segno.ready();
    segno.send("\x04");
    assert_eq!(segno.exit_code(), 0);
}

#[test]
fn a_fork_goes_on_in_the_copy_and_the_original_stays() {
    let desk = Desk::new();
    let id = session(&desk, "hello");
    let before = desk.log();
    let mut segno = desk.play_exactly(&["resume", &id], &desk.project(), 100, 40);
    segno.enter("/fork");
    segno.wait_for("which stays as it is");
    segno.enter("in the copy");
    segno.wait_for("You said: in the copy");
    segno.ready();
    let logs = desk.logs();
    assert_eq!(logs.len(), 2);
    let original = logs.iter().find(|log| id_of(log) == id).unwrap();
    assert_eq!(std::fs::read_to_string(original).unwrap(), before);

    segno.enter("/fork 99999");
    segno.wait_for("record 99999 is not a node");
    segno.ready();
    let seq = before.lines().find(|l| l.contains("\"role\":\"assistant\"")).unwrap();
    let seq: serde_json::Value = serde_json::from_str(seq).unwrap();
    segno.enter(&format!("/fork {}", seq["seq"]));
    segno.wait_for_times("which stays as it is", 2);
    segno.ready();
    assert!(!segno.screen().trim_end().ends_with("You said: in the copy"));
    assert_eq!(desk.logs().len(), 3);
}

#[test]
fn the_tree_is_shown_and_gone_back_in() {
    let desk = Desk::new();
    let mut segno = desk.play(&[]);
    segno.enter("first");
    segno.wait_for("You said: first");
    segno.enter("second");
    segno.wait_for("You said: second");
    segno.enter("/tree");
    segno.wait_for("/tree SEQ goes back");
    let screen = segno.screen();
    let line = screen.lines().rfind(|line| line.ends_with(": second")).unwrap();
    let seq = line.split_whitespace().next().unwrap().to_owned();
    segno.enter(&format!("/tree {seq}"));
    segno.wait_for("Going on from record");
    segno.ends_with("> second");
    segno.send(" thought\r");
    segno.wait_for("You said: second thought");
    segno.ready();
    let log = desk.log();
    assert!(log.contains("\"type\":\"tip\""), "{log}");
    segno.send("\x04");
    segno.exit_code();
    let mut back = desk.play_exactly(&["resume", "last"], &desk.project(), 100, 40);
    back.wait_for("You said: second thought");
    back.ready();
    assert!(!back.screen().contains("You said: second\n"));
    back.enter("/tree 99999");
    back.wait_for("There is no node 99999");
}

/// Covers: ST13.
#[test]
fn a_label_is_kept_shown_and_taken_away() {
    let desk = Desk::new();
    let mut segno = desk.play(&[]);
    segno.enter("first");
    segno.wait_for("You said: first");
    segno.enter("/tree");
    segno.wait_for("/tree SEQ goes back");
    let screen = segno.screen();
    let line = screen.lines().rfind(|line| line.ends_with(": first")).unwrap();
    let seq = line.split_whitespace().next().unwrap().to_owned();
    segno.enter(&format!("/label {seq} good start"));
    segno.wait_for("is labelled good start");
    segno.ready();
    segno.send("\x04");
    segno.exit_code();
    let mut back = desk.play_exactly(&["resume", "last"], &desk.project(), 100, 40);
    back.ready();
    back.enter("/tree");
    back.wait_for("good start");
    back.enter(&format!("/label {seq}"));
    back.wait_for("has no label now");
    back.enter("/label 99999 x");
    back.wait_for("There is no record 99999");
}

#[test]
fn compacting_shortens_the_context_and_a_fresh_session_keeps_the_old() {
    let desk = Desk::new();
    let mut segno = desk.play(&[]);
    for n in 0..6 {
        segno.enter(&format!("say {n} {}", "words ".repeat(10)));
        segno.wait_for(&format!("You said: say {n}"));
    }
    segno.enter("/compact the words");
    segno.wait_for("Compacted: about");
    segno.enter("/new");
    segno.wait_for("The session before is kept");
    segno.enter("fresh");
    segno.wait_for("You said: fresh");
    segno.ready();
    assert_eq!(desk.logs().len(), 2);
}

#[test]
fn a_script_goes_on_in_the_directory_of_the_session() {
    let desk = Desk::new();
    let id = session(&desk, "hello");
    let elsewhere = tempfile::tempdir().unwrap();
    let args = ["resume", id.as_str(), "--permission", "all", "--", "write x.txt: here"];
    let (code, out, err) = desk.run_in(&args, elsewhere.path());
    assert_eq!(code, Some(0), "{out}{err}");
    assert!(desk.project().join("x.txt").exists());
    std::fs::remove_dir_all(desk.project()).unwrap();
    let (code, _, err) = desk.run_in(&args, elsewhere.path());
    assert_eq!(code, Some(1));
    assert!(err.contains(&format!("segno relocate {id} DIR")), "{err}");
}

/// Covers: #92.
#[test]
fn a_directory_that_is_gone_is_said_with_choices() {
    let desk = Desk::new();
    let id = session(&desk, "hello");
    let elsewhere = tempfile::tempdir().unwrap();
    let mut segno = desk.play_exactly(&["resume", &id], elsewhere.path(), 120, 40);
    segno.wait_for("This session works in");
    segno.wait_for("go on in its directory");
    segno.send("d");
    segno.wait_for("You said: hello");
    segno.enter("list");
    segno.wait_for("Done.");
    segno.ready();
    segno.send("\x04");
    segno.exit_code();

    std::fs::remove_dir_all(desk.project()).unwrap();
    let mut segno = desk.play_exactly(&["resume", &id], elsewhere.path(), 120, 40);
    segno.wait_for("is gone; you are in");
    segno.send("l");
    assert_eq!(segno.exit_code(), 0);
    let mut segno = desk.play_exactly(&["resume", &id], elsewhere.path(), 120, 40);
    segno.wait_for("is gone; you are in");
    segno.send("h");
    segno.wait_for("(. is empty)");
    segno.enter("write here.txt: x");
    segno.ends_with("n  no");
    segno.send("y");
    segno.wait_for("created here.txt");
    assert!(elsewhere.path().join("here.txt").exists());
}

#[test]
fn a_model_that_is_gone_is_named_and_not_swapped() {
    let mut desk = Desk::new();
    let id = session(&desk, "hello");
    desk.server = segno_testkit::scripted_model::ScriptedModel::start(
        "models else\notherwise\n  say \"x\"\n",
    )
    .unwrap();
    let mut segno = desk.play_exactly(&["resume", &id], &desk.project(), 100, 40);
    segno.wait_for("The session's model openai-chat/scripted cannot be used now.");
    segno.send("k");
    segno.wait_for("You said: hello");
    segno.ready();
    segno.send("\x04");
    segno.exit_code();
    let mut segno = desk.play(&["resume", &id, "--model", "openai-chat/else"]);
    segno.wait_for("You said: hello");
    segno.wait_for("openai-chat/else");
}

/// Covers: G2, G3.
#[test]
fn damage_is_settled_on_the_spot_and_scripts_get_the_command() {
    let desk = Desk::new();
    let id = session(&desk, "hello there");
    let mut segno = desk.play_exactly(&["resume", &id], &desk.project(), 100, 40);
    segno.enter("second");
    segno.wait_for("You said: second");
    segno.ready();
    segno.send("\x04");
    segno.exit_code();
    let path = desk.logs()[0].clone();
    let log = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, log.replacen("You said: hello there", "You sold: jello where", 1))
        .unwrap();

    let (code, _, err) = desk.run(&["resume", &id, "--", "go on"]);
    assert_eq!(code, Some(5), "{err}");
    assert!(err.contains(&format!("segno repair {id}")), "{err}");

    let mut view = desk.play_exactly(&["resume", &id], &desk.project(), 100, 40);
    view.wait_for("damaged where the next request needs it");
    view.send("v");
    assert_eq!(view.exit_code(), 0);
    assert!(view.screen().contains("hello there"), "{}", view.screen());

    let mut repaired = desk.play_exactly(&["resume", &id], &desk.project(), 100, 40);
    repaired.wait_for("r  repair");
    repaired.send("r");
    repaired.wait_for("t  take the record as it is now");
    repaired.send("t");
    repaired.wait_for("is taken as it is now");
    repaired.send("y");
    repaired.ready();
    repaired.enter("third");
    repaired.wait_for("You said: third");
    repaired.ready();
    assert!(std::fs::read_to_string(&path).unwrap().contains("\"type\":\"repair\""));
}
