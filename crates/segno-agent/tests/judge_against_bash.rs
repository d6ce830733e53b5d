//! The judge of commands against the shell itself.
//!
//! Responsible for: random commands that are judged to only read are run by bash in an empty directory,
//! and must neither start the one dangerous program there nor leave anything behind. `PROPTEST_CASES`
//! makes it look further. Must not: run anything that was not judged to only read.
#![allow(clippy::unwrap_used)]

use proptest::prelude::*;
use segno_agent::permission::command::judge;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::{Command, Stdio};

/// Programs that the shell finds, besides the dangerous one.
const PROGRAMS: &[&str] = &[
    "bash", "cat", "echo", "env", "find", "grep", "head", "ls", "sed", "sh", "sort", "timeout",
    "true", "wc", "xargs",
];

const FRAGMENTS: &[&str] = &[
    "danger",
    "danger",
    "$(danger)",
    "`danger`",
    "\"$(danger)\"",
    "<(danger)",
    ">(danger)",
    "'",
    "\"",
    "\\",
    "\\\n",
    "\n",
    "\\\n ",
    " ",
    " ",
    " ",
    " ",
    " ",
    ";",
    ";;",
    "&&",
    "||",
    "|",
    "|&",
    "&",
    "(",
    ")",
    "{ ",
    "; }",
    "<<E\n",
    "<<-E\n",
    "<<'E'\n",
    "\nE\n",
    "<<<",
    "<",
    ">",
    ">>",
    ">|",
    "&>",
    ">&",
    "<&",
    "2>&1",
    "2>",
    "<>",
    "/dev/null",
    "#",
    " #",
    "$'",
    "$\"",
    "x",
    "y",
    "ls",
    "echo",
    "cat",
    "true",
    "grep",
    "head",
    "sort",
    "wc",
    "find .",
    "sed -n",
    "1p",
    "1,2p",
    "-c",
    "-o",
    "-n",
    "-e",
    "-exec",
    "\\;",
    "+",
    "-delete",
    "xargs",
    "bash -c",
    "sh -c",
    "eval",
    "env",
    "timeout 1",
    "time",
    "command",
    "exec",
    "nohup",
    "*",
    "?",
    "[x]",
    "~",
    "[[",
    "]]",
    "[ ",
    " ]",
    "((",
    "))",
    "$((",
    "!",
    "! ",
    "if true; then",
    "; fi",
    "else",
    "while false; do",
    "; done",
    "for i in a; do",
    "case x in x)",
    "esac",
    "f() {",
    "function f {",
    "${x:-$(danger)}",
    "${x:=danger}",
    "a[$(danger)]",
    "'a[$(danger)]'",
    "printf",
    "-v",
    "test",
    "=",
    "==",
    "=~",
    "-eq",
    "X=",
    "PATH=.",
    "x=(",
    "{a,b}",
    "{1..3}",
    "$x",
    "$?",
    "$$",
    "@",
    "%",
    ",",
    "\t",
    "coproc",
    "trap",
    "cd",
    "..",
    ".",
    "source",
    "set",
    "-",
    "--",
    "let",
    "read",
    "\r",
    "\u{a0}",
    "é",
];

/// A directory of programs, and an empty one to work in.
fn place() -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    let programs = directory.path().join("programs");
    fs::create_dir_all(&programs).unwrap();
    for name in PROGRAMS {
        let found =
            ["/usr/bin", "/bin"].map(|d| Path::new(d).join(name)).into_iter().find(|p| p.exists());
        symlink(found.unwrap(), programs.join(name)).unwrap();
    }
    let danger = programs.join("danger");
    fs::write(&danger, format!("#!/bin/sh\n: > {}\n", directory.path().join("started").display()))
        .unwrap();
    fs::set_permissions(&danger, fs::Permissions::from_mode(0o755)).unwrap();
    directory
}

/// What running a command left behind, if anything.
fn traces(directory: &Path, command: &str) -> Vec<String> {
    let work = directory.join("work");
    let _ = fs::remove_dir_all(&work);
    let _ = fs::remove_file(directory.join("started"));
    fs::create_dir(&work).unwrap();
    Command::new("/usr/bin/timeout")
        .args(["-s", "KILL", "2", "/bin/bash", "-c", command])
        .current_dir(&work)
        .env_clear()
        .env("PATH", directory.join("programs"))
        .env("HOME", &work)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .unwrap();
    let mut left: Vec<String> = fs::read_dir(&work)
        .unwrap()
        .map(|e| e.unwrap().file_name().to_string_lossy().into_owned())
        .collect();
    if directory.join("started").exists() {
        left.push("the dangerous program ran".to_owned());
    }
    left
}

#[test]
fn what_is_judged_to_only_read_only_reads() {
    if !Path::new("/bin/bash").exists() || !Path::new("/usr/bin/timeout").exists() {
        return;
    }
    let place = place();
    assert_eq!(traces(place.path(), "danger; ls > x").len(), 2, "the trap works");
    let fragments = proptest::collection::vec(prop::sample::select(FRAGMENTS), 1..9);
    proptest!(|(fragments in fragments, start in prop::sample::select(&["ls ", "echo ", "cat ", "find . ", "", "bash -c '"][..]))| {
        let command = format!("{start}{}", fragments.concat());
        let judgement = judge(&command);
        if judgement.writes.is_empty() && judgement.runs.is_empty() && judgement.doubts.is_empty() {
            let left = traces(place.path(), &command);
            prop_assert!(left.is_empty(), "{command:?} left {left:?}");
        }
    });
}
