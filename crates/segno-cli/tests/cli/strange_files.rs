//! What stands where sessions are looked for need not be a session, nor a file.
//!
//! Responsible for: pipes, links in a circle, copies, and ids that are none. Must not: test what damaged
//! files are read as; that is done beside the readers.

use super::machine::{CLAUDE, Machine, field};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

const ID: &str = "c0de1000-1111-4111-8111-000000000001";

/// One question of Claude Code's, in a session with this id.
fn question(id: &str) -> String {
    let row = serde_json::json!({
        "parentUuid": null, "isSidechain": false, "cwd": "/srv/kiln", "sessionId": id,
        "version": "2.1.200", "type": "user", "uuid": "beef0001-2222-4222-8222-000000000001",
        "message": {"role": "user", "content": "paint the shed"},
        "timestamp": "2026-03-02T09:00:01.000Z",
    });
    format!("{row}\n")
}

fn pipe(path: &Path) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    let made = Command::new("mkfifo").arg(path).status().unwrap();
    assert!(made.success(), "{}", path.display());
}

/// Whether the command ends by itself. The limit is only for one that never would.
fn ends(machine: &Machine, args: &[&str]) -> bool {
    let mut command = machine.place.segno(args);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = command.spawn().unwrap();
    for _ in 0..12_000 {
        if child.try_wait().unwrap().is_some() {
            return true;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    false
}

/// A pipe under any name that is read is not waited for; what stands beside it is found.
#[test]
fn a_pipe_in_the_place_of_a_file_is_not_waited_for() {
    for place in [
        ".claude/sessions/1.json",
        ".local/share/opencode/opencode.db",
        ".local/share/goose/sessions/sessions.db",
        ".local/share/crush/projects.json",
        ".crush/crush.db",
        ".cline/data/tasks/1/api_conversation_history.json",
    ] {
        let machine = Machine::new();
        machine.put(&format!("{CLAUDE}/{ID}.jsonl"), &question(ID));
        pipe(&machine.user.join(place));
        assert!(ends(&machine, &["list", "--all"]), "{place} is waited for");
        assert!(field(&machine.list(&["--all"]), "id").contains(&ID.to_owned()), "{place}");
    }
    let machine = Machine::new();
    machine.put(&format!("{CLAUDE}/{ID}.jsonl"), &question(ID));
    fs::create_dir_all(machine.place.home()).unwrap();
    pipe(&machine.place.home().join("catalog.sqlite"));
    assert!(ends(&machine, &["list", "--all"]), "the catalog is waited for");
}

/// A link to a folder above it shows nothing new, and what fails below is told once.
#[test]
fn a_link_that_leads_back_is_not_followed() {
    let machine = Machine::new();
    machine.put(&format!("{CLAUDE}/{ID}.jsonl"), &question(ID));
    let project = machine.user.join(CLAUDE);
    symlink("..", project.join("up")).unwrap();
    symlink("/", project.join("root")).unwrap();
    symlink(".", project.parent().unwrap().join("loop")).unwrap();
    symlink("/", project.parent().unwrap().join("root")).unwrap();
    symlink("nowhere", project.join("gone.jsonl")).unwrap();
    let said = machine.run(&["list", "--all"]);
    let told = said.out.lines().filter(|line| line.contains("gone.jsonl")).count()
        + said.err.lines().filter(|line| line.contains("gone.jsonl")).count();
    assert_eq!(told, 1, "{said:?}");
    assert_eq!(field(&machine.list(&["--all"]), "id"), [ID]);
}

/// No more of an id tells two copies of a file apart: the paths do, and are shown.
#[test]
fn copies_of_a_session_are_told_apart_by_their_paths() {
    let machine = Machine::new();
    let one = machine.put(&format!("{CLAUDE}/{ID}.jsonl"), &question(ID));
    let two = machine.put(&format!("{CLAUDE}-copy/{ID}.jsonl"), &question(ID));
    for word in [ID, &format!("claude:{ID}")] {
        let said = machine.run(&["show", word]);
        assert_eq!(said.code, 6, "{said:?}");
        for path in [&one, &two] {
            assert!(said.err.contains(path.to_str().unwrap()), "{}", said.err);
            assert_eq!(machine.run(&["show", path.to_str().unwrap()]).code, 0);
        }
        assert!(said.err.contains("or the path"), "{}", said.err);
    }
}

/// A session's file says its own id. What another program could take for an option or a path is not
/// handed to it; the way that needs no id is named.
#[test]
fn an_id_that_could_be_an_option_or_a_path_is_not_handed_on() {
    for id in ["--dangerously-skip-permissions", "../../../etc/x", "a b", "$(id)", "a\u{1b}[31mb"] {
        let machine = Machine::new();
        let file = machine.put(&format!("{CLAUDE}/odd.jsonl"), &question(id));
        let file = file.to_str().unwrap();
        for args in [&["resume", file, "--print"][..], &["resume", file]] {
            let said = machine.run(args);
            assert_eq!((said.code, said.out.as_str()), (1, ""), "{id:?}: {said:?}");
            assert!(said.err.contains("--here"), "{id:?}: {}", said.err);
        }
    }
}

/// Nothing is sound of what could not be looked at: a database that is none hides its sessions.
#[test]
fn a_check_of_everything_fails_where_a_place_cannot_be_read() {
    let machine = Machine::new();
    machine.put(&format!("{CLAUDE}/{ID}.jsonl"), &question(ID));
    assert_eq!(machine.run(&["check", "--all"]).code, 0);
    machine.put(".local/share/opencode/opencode.db", &"no database".repeat(500));
    let said = machine.run(&["check", "--all"]);
    assert_eq!(said.code, 2, "{said:?}");
    assert!(said.out.contains("opencode.db"), "{said:?}");
    let said = machine.run(&["check", "--all", "--json"]);
    assert_eq!((said.code, said.json()["trouble"].as_array().unwrap().len()), (2, 1));
}
