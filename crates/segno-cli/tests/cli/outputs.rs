//! Where `-o` puts things: a new file, standard output, and never a directory.

use super::desk::{Desk, id};
use super::hand_over::{run, session, told};
use super::machine::{CLAUDE, Machine};
use std::fs;

/// Nobody is told to move a home directory away because a file was asked for in it.
#[test]
fn a_directory_is_no_file_to_write() {
    let desk = Desk::new();
    session(&desk);
    let dir = desk.path("a dir");
    fs::create_dir(&dir).unwrap();
    for format in ["markdown", "html", "json", "jsonl", "segno", "claude", "pi", "gemini"] {
        for output in [dir.to_str().unwrap(), ".", "../a dir/"] {
            let ran = run(&desk, &["export", id(1).as_str(), "--format", format, "-o", output]);
            assert!(ran.code == 1 && ran.err.contains("is a directory"), "{format}: {ran:?}");
            assert!(ran.err.contains("-o ") && ran.err.contains("/session."), "{format}: {ran:?}");
            assert!(!ran.err.contains("mv "), "{format}: {ran:?}");
        }
    }
    let machine = Machine::with(CLAUDE, &["01-torn-middle-lines", "42-subagents-before-fork"]);
    let torn = "claude:c0de0001-1111-4111-8111-000000000001";
    let ran = machine.run(&["repair", torn, "--yes", "-o", "."]);
    assert!(ran.code == 1 && ran.err.contains("is a directory"), "{ran:?}");
    let several = "claude:c0de002a-1111-4111-8111-0000000000a0";
    let ran = machine.run(&["export", several, "--format", "claude", "-o", "."]);
    assert!(ran.code == 1 && ran.err.contains("/session"), "{ran:?}");
    assert!(!ran.err.contains("mv "), "{ran:?}");
}

#[test]
fn a_dash_is_standard_output() {
    let desk = Desk::new();
    session(&desk);
    for format in ["markdown", "json", "jsonl", "claude", "codex", "pi", "gemini", "opencode"] {
        let plain = run(&desk, &["export", id(1).as_str(), "--format", format]);
        let dash = run(&desk, &["export", id(1).as_str(), "--format", format, "-o", "-"]);
        let without_now = |text: &str| text.split("lastUpdated").next().unwrap().to_owned();
        assert!(!told(&plain).is_empty() || !plain.out.is_empty(), "{format}: {plain:?}");
        assert_eq!(without_now(&dash.out), without_now(&plain.out), "{format}");
    }
    assert!(!desk.project.join("-").exists());
    let both = run(&desk, &["export", id(1).as_str(), "--format", "pi", "--json", "-o", "-"]);
    assert!(both.code == 2 && both.err.contains("standard output"), "{both:?}");
    let machine = Machine::with(CLAUDE, &["01-torn-middle-lines", "42-subagents-before-fork"]);
    let torn = "claude:c0de0001-1111-4111-8111-000000000001";
    let dash = machine.run(&["repair", torn, "-o", "-"]);
    let file = machine.place.file("repaired.jsonl");
    let written = machine.run(&["repair", torn, "--yes", "-o", file.to_str().unwrap()]);
    assert_eq!((dash.code, written.code), (0, 0), "{dash:?} {written:?}");
    assert_eq!(dash.out, fs::read_to_string(&file).unwrap());
    assert!(dash.err.contains("everything else stays byte for byte"), "{dash:?}");
    let sound = machine.run(&["repair", file.to_str().unwrap(), "-o", "-"]);
    assert!(sound.code == 0 && sound.out.is_empty(), "{sound:?}");
    assert!(sound.err.contains("needs no repair"), "{sound:?}");
}

/// Covers: G3. An agent takes a damaged session up as if nothing were missing; who resumes it is told.
#[test]
fn a_damaged_session_is_told_of_before_its_agent_has_it() {
    let machine = Machine::with(CLAUDE, &["01-torn-middle-lines"]);
    let torn = "claude:c0de0001-1111-4111-8111-000000000001";
    let said = machine.run(&["resume", torn, "--print"]);
    assert!(said.code == 0 && said.out.contains("claude --resume"), "{said:?}");
    let note = format!("damaged in 2 places; `segno repair {torn}`");
    assert!(said.err.contains(&note), "{said:?}");
    assert_eq!(said.err.lines().count(), 1, "{said:?}");
}
