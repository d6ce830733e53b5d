//! What a person gives to a session: files, long texts, an editor, and keys at odd moments.

use crate::interactive::Desk;
use crate::terminal_process::Played;
use portable_pty::CommandBuilder;
use std::os::unix::fs::PermissionsExt as _;

const SAYS_WHAT_IT_SAW: &str = r#"
rule inside
  when user contains "inside the file"
  say "I saw the file."

otherwise
  say "I saw nothing."
"#;

/// The prompts that reached the model.
fn asked(desk: &Desk) -> usize {
    desk.server.requests().iter().filter(|request| request.seen.is_some()).count()
}

#[test]
fn files_with_spaces_and_in_the_home_directory_go_along() {
    let desk = Desk::with(SAYS_WHAT_IT_SAW);
    let user = desk.project().parent().unwrap().join("user");
    std::fs::write(desk.project().join("with space.txt"), "inside the file\n").unwrap();
    std::fs::write(user.join("notes.md"), "inside the file\n").unwrap();
    for named in ["@\"with space.txt\"", "@with\\ space.txt", "(@~/notes.md)"] {
        let mut segno = desk.play(&[]);
        segno.enter(&format!("look at {named} now"));
        segno.wait_for("I saw the file.");
    }
    let mut segno = desk.play(&[]);
    segno.ready();
    segno.send("look at @with\t");
    segno.wait_for("@\"with space.txt\"");
    segno.send("\r");
    segno.wait_for("I saw the file.");
}

/// An image goes to the model as one.
#[test]
fn an_image_goes_along() {
    let desk = Desk::with("otherwise\n  say \"Seen.\"\n");
    // One pixel.
    let png = b"\x89PNG\r\n\x1a\n\x00\x00\x00\x0dIHDR\x00\x00\x00\x01\x00\x00\x00\x01\x08\x02\x00\x00\x00\x90wS\xde\x00\x00\x00\x0cIDATx\xdac\xf8\xcf\xc0\x00\x00\x03\x01\x01\x00\xf7\x03AC\x00\x00\x00\x00IEND\xaeB\x60\x82";
    std::fs::write(desk.project().join("a picture.png"), png).unwrap();
    let mut segno = desk.play(&[]);
    segno.enter("look at @\"a picture.png\" now");
    segno.wait_for("Seen.");
    segno.ready();
    let requests = desk.server.requests();
    let body = requests.iter().find(|r| r.seen.is_some()).unwrap().body.to_string();
    assert!(body.contains("image") && body.contains("iVBORw0KGgo"), "{body}");
}

#[test]
fn a_file_that_is_not_there_is_said_before_anything_is_sent() {
    let desk = Desk::with(SAYS_WHAT_IT_SAW);
    let mut segno = desk.play(&[]);
    segno.enter("look at @missing.txt now");
    segno.wait_for("There is no file missing.txt. Nothing was sent.");
    segno.ends_with("> look at @missing.txt now");
    assert_eq!(asked(&desk), 0);
    assert!(desk.logs().is_empty());
    segno.send("\r");
    segno.wait_for("I saw nothing.");
    segno.enter("the @param of @types/node, ask me@example.org");
    segno.wait_for_times("I saw nothing.", 2);
}

/// What is typed during a turn is not shown between its lines, and stands on the next line.
#[test]
fn typing_does_not_disturb_what_is_shown() {
    let desk = Desk::new();
    let mut segno = desk.play(&["--permission", "all"]);
    segno.enter("run: echo begun; until test -e go; do sleep 0.02; done; echo over");
    segno.wait_for("│ begun");
    segno.send("typed ahead");
    std::fs::write(desk.project().join("go"), "").unwrap();
    segno.ends_with("> typed ahead");
    let raw = String::from_utf8_lossy(segno.raw()).into_owned();
    let (over, typed) = (raw.find("│ over").unwrap(), raw.find("typed ahead").unwrap());
    assert!(over < typed, "it was echoed between the lines:\n{raw}");
    segno.send("\x15\x04");
    assert_eq!(segno.exit_code(), 0);
    assert!(segno.cooked());
}

/// DESIGN 3.1: what does not fit into a record is a blob, and the model gets all of it.
#[test]
fn an_editor_can_give_a_long_prompt() {
    let desk = Desk::with("otherwise\n  say \"Read it.\"\n");
    let editor = desk.project().join("editor.sh");
    let text = "yes 'a line of a long text that somebody wrote into a file' | head -n 40000";
    std::fs::write(&editor, format!("#!/bin/sh\n({text}; echo the end) > \"$1\"\n")).unwrap();
    std::fs::set_permissions(&editor, std::fs::Permissions::from_mode(0o755)).unwrap();
    let mut segno = desk.play_with(&[], &[("EDITOR", editor.to_str().unwrap())]);
    segno.ready();
    segno.send("\x18\x05");
    segno.ends_with("> [text 1: 40001 lines]");
    segno.send("\r");
    segno.wait_for("Read it.");
    segno.ready();
    let requests = desk.server.requests();
    let body = requests.iter().find(|r| r.seen.is_some()).unwrap().body.to_string();
    assert!(body.len() > 2 << 20 && body.contains("the end"), "{}", body.len());
    assert!(!body.contains("[text 1") && desk.log().len() < 64 << 10);
}

#[test]
fn a_long_paste_is_a_note_on_the_line_and_whole_for_the_model() {
    let desk = Desk::with("otherwise\n  say \"Read it.\"\n");
    let mut segno = desk.play(&[]);
    segno.ready();
    let pasted = "a pasted line with some words in it\n".repeat(10_000) + "the end";
    segno.send("explain ");
    segno.send(&format!("\x1b[200~{pasted}\x1b[201~"));
    segno.ends_with("> explain [text 1: 10001 lines]");
    segno.send("\r");
    segno.wait_for("Read it.");
    segno.ready();
    let requests = desk.server.requests();
    let body = requests.iter().find(|r| r.seen.is_some()).unwrap().body.to_string();
    assert!(body.len() > 300_000 && body.contains("explain a pasted") && body.contains("the end"));
}

/// Ctrl-Z gives the terminal back to the shell, and `fg` goes on: on a line, and in a turn.
#[test]
fn it_can_be_suspended() {
    let desk = Desk::new();
    let mut command = CommandBuilder::new("bash");
    command.args(["--norc", "--noprofile", "-i"]);
    command.cwd(desk.project());
    command.env("SEGNO_HOME", desk.home());
    command.env("HOME", desk.project());
    command.env("PS1", "shell$ ");
    let mut shell = Played::spawn(command, 100, 40);
    shell.ends_with("shell$");
    let segno = env!("CARGO_BIN_EXE_segno");
    shell.send(&format!("{segno} --permission all --base-url {}\r", desk.url()));
    shell.ready();
    shell.send("half a li");
    shell.ends_with("> half a li");
    shell.send("\x1a");
    shell.wait_for("Stopped");
    shell.ends_with("shell$");
    shell.send("fg\r");
    shell.ends_with("> half a li");
    shell.send("\x15run: echo begun; until test -e go; do sleep 0.02; done; echo over\r");
    shell.wait_for("│ begun");
    shell.send("\x1a");
    shell.wait_for_times("Stopped", 2);
    shell.ends_with("shell$");
    shell.send("echo back in the $((1+1))nd shell\r");
    shell.wait_for("back in the 2nd shell");
    std::fs::write(desk.project().join("go"), "").unwrap();
    shell.send("fg\r");
    shell.wait_for("│ over");
    shell.ready();
    shell.send("\x04");
    shell.ends_with("shell$");
}

#[test]
fn a_narrow_terminal_is_enough() {
    let desk = Desk::new();
    let url = desk.url();
    let mut segno = desk.play_exactly(&["--base-url", &url], &desk.project(), 20, 30);
    segno.ready();
    segno.send("run: touch x\r");
    segno.wait_for("n  no");
    segno.send("y");
    segno.wait_for("→ yes, once");
    segno.ready();
    assert!(desk.project().join("x").exists());
    segno.send("/help\r");
    segno.wait_for("/quit");
    segno.ready();
    segno.send("\x04");
    assert_eq!(segno.exit_code(), 0);
}

/// A terminal that cannot move its cursor gets plain lines and no control sequence.
#[test]
fn a_dumb_terminal_gets_plain_lines() {
    let desk = Desk::new();
    let mut segno = desk.play_with(&[], &[("TERM", "dumb")]);
    segno.ready();
    segno.send("hello\r");
    segno.wait_for("You said: hello");
    segno.ready();
    segno.send("run: touch x\r");
    segno.ends_with("n  no");
    segno.send("y");
    segno.wait_for("→ yes, once");
    segno.ready();
    segno.send("\x04");
    assert_eq!(segno.exit_code(), 0);
    assert!(desk.project().join("x").exists());
    let raw = String::from_utf8_lossy(segno.raw());
    assert!(!raw.contains('\x1b'), "{raw:?}");
    let mut segno = desk.play_with(&[], &[("TERM", "dumb")]);
    segno.ready();
    segno.signal("TERM");
    assert_eq!(segno.exit_code(), 0);
}

/// A copy whose question is left is kept, and its command is told.
#[test]
fn a_copy_that_is_not_gone_to_is_told() {
    let desk = Desk::new();
    let mut segno = desk.play(&[]);
    segno.enter("hello");
    segno.wait_for("You said: hello");
    segno.enter("/model openai-chat/not-there");
    segno.wait_for("The model is openai-chat/not-there now.");
    segno.enter("/fork");
    segno.wait_for("cannot be used now.");
    segno.wait_for("l  leave");
    segno.send("\x1b");
    segno.wait_for("You are in the original still. The copy is kept: segno");
    segno.ready();
    assert_eq!(desk.logs().len(), 2);
    let copy = desk.logs().iter().map(|log| crate::interactive::id_of(log)).max().unwrap();
    assert!(segno.screen().replace('\n', "").contains(&format!("resume {copy}")));
}
