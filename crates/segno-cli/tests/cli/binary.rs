//! The binary itself: exit codes, where output goes, and readers that leave.

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
    assert!(!err.contains('\x1b') && !err.contains("]0;"), "{err:?}");
}
