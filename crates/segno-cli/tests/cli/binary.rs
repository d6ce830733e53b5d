//! The binary itself: exit codes, where output goes, and readers that leave.

use crate::place::{Place, Ran};
use std::process::{Command, Output, Stdio};

fn segno(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_segno"));
    command.args(args).stdin(Stdio::null()).env_remove("CLICOLOR_FORCE");
    command
}

fn run(args: &[&str]) -> (Option<i32>, String, String) {
    let Output { status, stdout, stderr } = segno(args).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (status.code(), text(stdout), text(stderr))
}

#[test]
fn a_slip_is_an_error_with_a_suggestion_and_never_a_paid_call() {
    let (code, out, err) = run(&["lst"]);
    assert_eq!((code, out.as_str()), (Some(2), ""));
    assert!(err.starts_with("error: There is no command `lst`."), "{err}");
    assert!(err.contains("Did you mean `segno list`?"), "{err}");
    assert_eq!(run(&["list", "--frob"]).0, Some(2));
}

#[test]
fn help_and_version_are_output_and_succeed() {
    for args in [&["--help"][..], &["--version"], &["help", "run"]] {
        let (code, out, err) = run(args);
        assert_eq!((code, err.as_str()), (Some(0), ""), "{args:?}");
        assert!(!out.contains('\x1b') && !out.is_empty(), "{args:?}");
    }
}

#[test]
fn every_shell_gets_its_completions() {
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let (code, out, err) = run(&["completions", shell]);
        assert_eq!((code, err.as_str()), (Some(0), ""), "{shell}");
        assert!(out.contains("relocate"), "{shell}");
    }
}

#[test]
fn a_reader_that_leaves_is_success() {
    let mut child = segno(&["completions", "zsh"]).stdout(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

/// Covers: G17.
#[test]
fn what_was_typed_cannot_drive_the_terminal_either() {
    let (code, _, err) = run(&["a\x1b]0;title\x07b"]);
    assert_eq!(code, Some(2));
    assert!(err.starts_with("error: There is no command `ab`."), "{err}");
    // The command that is offered names the words as they are, in the shell's own escapes.
    let shown = err.replace(r"$'a\x1b]0;title\x07b'", "");
    assert!(!err.contains(['\x1b', '\x07']), "{err:?}");
    assert!(!shown.contains("]0;"), "{err:?}");
}

/// A command that is printed works as it stands, also when the home was named on the command line.
#[test]
fn printed_commands_name_the_home_that_was_named() {
    let place = Place::new("rule any\n  say \"hello\"\n");
    let home = place.file("../other home");
    let home = home.to_str().unwrap();
    let url = place.server.url();
    let run = ["--home", home, "run", "--model", place.model, "--base-url", &url, "hi"];
    let ran: Ran = place.segno(&run).output().unwrap().into();
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let cases: [&[&str]; 5] = [
        &["fork", "last"],
        &["delete", "last", "--yes"],
        &["show", "nothing"],
        &["resume", "last"],
        &["show", "last", "--raw", "99"],
    ];
    for args in cases {
        let args = [&["--home", home][..], args].concat();
        let ran: Ran = place.segno(&args).output().unwrap().into();
        let said = ran.out + &ran.err;
        assert!(
            said.contains("segno --home '") && said.contains("other home'"),
            "{args:?}: {said}"
        );
    }
}

/// Covers: G3. What only looks like a session hides none and keeps nobody waiting.
#[test]
fn pipes_and_loops_in_place_of_a_log_hide_no_other_session() {
    let place = Place::new("rule any\n  say \"hello\"\n");
    assert_eq!(place.done(&["hi"]).code, Some(0));
    let month = std::fs::read_dir(place.home().join("sessions")).unwrap().next().unwrap();
    let named = |digit: &str| {
        let dir =
            month.as_ref().unwrap().path().join(format!("01939a4c-7b1e-7000-8000-{digit:0>12}"));
        std::fs::create_dir(&dir).unwrap();
        dir.join("log.jsonl")
    };
    std::os::unix::fs::symlink("log.jsonl", named("1")).unwrap();
    super::strange_files::pipe(&named("2"));
    let ran: Ran = place.segno(&["list", "--all"]).output().unwrap().into();
    assert!(ran.code == Some(0) && ran.out.contains("hi"), "{ran:?}");
    for args in [
        ["show", "01939a4c-7b1e-7000-8000-000000000002"],
        ["check", "01939a4c-7b1e-7000-8000-000000000002"],
    ] {
        let ran: Ran = place.segno(&args).output().unwrap().into();
        assert!(ran.err.contains("no regular file"), "{ran:?}");
    }
}
