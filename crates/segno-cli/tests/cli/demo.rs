//! `segno demo`, as a newcomer runs it.

use crate::place::{Ran, signal};
use rustix::process::Signal;
use std::io::{BufRead as _, BufReader, Read as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Stdio};

/// `segno demo` in an environment in which nothing of the user's can be used.
fn demo(args: &[&str], dir: &Path) -> Command {
    let home = dir.join("user");
    std::fs::create_dir_all(home.join("segno")).unwrap();
    std::fs::create_dir_all(dir.join("tmp")).unwrap();
    std::fs::write(home.join("config.toml"), "this is no configuration\n").unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_segno"));
    command.arg("demo").args(args).stdin(Stdio::null()).current_dir(dir);
    command.env("TMPDIR", dir.join("tmp")).env("SEGNO_HOME", &home).env("HOME", &home);
    command.env("ANTHROPIC_API_KEY", "\n").env("http_proxy", "http://192.0.2.1:9");
    command.env("HTTP_PROXY", "http://192.0.2.1:9").env("ALL_PROXY", "http://192.0.2.1:9");
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn left_in(dir: &Path) -> Vec<std::path::PathBuf> {
    std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).collect()
}

/// The numbers behind `pid` in the output, each once.
fn pids(out: &str) -> Vec<&str> {
    let mut pids: Vec<&str> = out
        .lines()
        .filter_map(|line| line.trim().strip_prefix("pid "))
        .filter_map(|rest| rest.split_whitespace().next())
        .collect();
    pids.dedup();
    pids
}

/// Covers: G1, G4, G6, G7, G9, G10, SD2, RS7.
#[test]
fn the_experiment_succeeds_with_nothing_of_the_users_and_leaves_nothing_behind() {
    let dir = tempfile::tempdir().unwrap();
    let Ran { code, out, err } = demo(&[], dir.path()).output().unwrap().into();
    assert_eq!((code, err.as_str()), (Some(0), ""), "{out}");
    assert!(out.contains("The session survived.") && !out.contains('✗'), "{out}");
    assert_eq!(out.matches("ended by signal 9").count(), 5, "{out}");
    let pids = pids(&out);
    assert_eq!(pids.len(), 13, "{pids:?}");
    assert!(!out.contains('\x1b'), "no colours in a pipe");
    assert_eq!(left_in(&dir.path().join("tmp")), [] as [std::path::PathBuf; 0]);
    assert!(!dir.path().join("user/sessions").exists(), "the user's own sessions are elsewhere");
}

/// Two runs draw two codes, and the answers follow the codes.
#[test]
fn the_answer_is_this_runs_code_also_without_git() {
    let dir = tempfile::tempdir().unwrap();
    let mut codes = Vec::new();
    for _ in 0..2 {
        let output = demo(&[], dir.path()).env("PATH", "").output().unwrap();
        let Ran { code, out, err } = output.into();
        assert_eq!(code, Some(0), "{out}{err}");
        let drawn = out.split("CODE=").nth(1).unwrap().split_whitespace().next().unwrap();
        assert_eq!(out.matches(&format!("answer   The code is {drawn}.")).count(), 2, "{out}");
        codes.push(drawn.to_owned());
    }
    assert_ne!(codes[0], codes[1]);
}

#[test]
fn what_is_kept_on_request_can_be_looked_at() {
    let dir = tempfile::tempdir().unwrap();
    let Ran { code, out, .. } = demo(&["--keep"], dir.path()).output().unwrap().into();
    assert_eq!(code, Some(0), "{out}");
    let left = left_in(&dir.path().join("tmp"));
    assert_eq!(left.len(), 1);
    assert!(out.contains(&format!("Kept: {}", left[0].display())), "{out}");
    let mode = std::fs::metadata(left[0].join("home")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o700);
    assert!(!left[0].join("repository/code.txt").exists());
}

/// Interrupted at its first line, at its last step, and at every step between.
#[test]
fn an_interruption_at_any_step_leaves_nothing_behind() {
    for (number, kind) in [(0, Signal::INT), (1, Signal::TERM), (4, Signal::HUP), (6, Signal::INT)]
    {
        let dir = tempfile::tempdir().unwrap();
        let mut child = demo(&[], dir.path()).spawn().unwrap();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        let mark = format!("{number}. ");
        while number > 0 && !line.starts_with(&mark) {
            line.clear();
            assert_ne!(out.read_line(&mut line).unwrap(), 0, "step {number} never came");
        }
        if number == 0 {
            out.read_line(&mut line).unwrap();
        }
        signal(&child, kind);
        let mut rest = String::new();
        out.read_to_string(&mut rest).unwrap();
        // It may have come to its end before the signal arrived.
        let code = child.wait().unwrap().code();
        assert!(matches!(code, Some(3 | 0)), "{code:?} {rest}");
        assert_eq!(left_in(&dir.path().join("tmp")), [] as [std::path::PathBuf; 0], "{number}");
    }
}

/// A served model that ends with its test, however that ends.
struct Serving(std::process::Child);

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_newcomer_can_play_with_a_served_model() {
    let dir = tempfile::tempdir().unwrap();
    let mut serving = Serving(demo(&["--serve"], dir.path()).spawn().unwrap());
    let child = &mut serving.0;
    let mut out = BufReader::new(child.stdout.take().unwrap());
    let (mut shown, mut commands) = (String::new(), Vec::new());
    while !shown.contains("Ctrl-C here ends it.") {
        let mut line = String::new();
        assert_ne!(out.read_line(&mut line).unwrap(), 0, "{shown}");
        if line.contains("--base-url") {
            commands.push(line.trim().to_owned());
        }
        shown.push_str(&line);
    }
    assert_eq!(commands.len(), 2, "{shown}");
    assert!(!commands[0].contains(" run "), "the interactive session: {}", commands[0]);
    std::fs::write(dir.path().join("note.txt"), "hello").unwrap();
    let home = dir.path().join("home");
    let run = |command: &str| -> Ran {
        let mut shell = Command::new("/bin/sh");
        shell.args(["-c", command]).current_dir(dir.path()).stdin(Stdio::null()).env_clear();
        shell.env("SEGNO_HOME", &home).env("PATH", "").output().unwrap().into()
    };
    let said = "Done. The result begins with: ";
    let ran = run(&commands[1]);
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    assert!(ran.out.starts_with(said), "{}", ran.out);
    let ran = run(&commands[1].replace("\"list\"", "\"task: list\""));
    assert!(ran.out.starts_with(&said.repeat(2)), "a subagent did: {}", ran.out);
    let port = commands[0].rsplit(':').next().unwrap();
    let taken: Ran = demo(&["--serve", "--port", port], dir.path()).output().unwrap().into();
    assert_eq!(taken.code, Some(1));
    assert!(taken.err.contains("cannot listen"), "{}", taken.err);
    signal(child, Signal::INT);
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[test]
fn options_that_contradict_each_other_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    for args in [&["--serve", "--keep"][..], &["--port", "1"]] {
        assert_eq!(demo(args, dir.path()).output().unwrap().status.code(), Some(2), "{args:?}");
    }
}
