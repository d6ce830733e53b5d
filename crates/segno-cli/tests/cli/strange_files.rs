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

/// Puts a pipe there, with the folders above it.
pub(super) fn pipe(path: &Path) {
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

/// A database that nothing can be read from is no empty one, in any of the commands that look for sessions.
///
/// Covers: G3, G13.
#[test]
fn a_database_that_cannot_be_read_is_told_wherever_sessions_are_looked_for() {
    for place in [
        ".local/share/opencode/opencode.db",
        ".local/share/goose/sessions/sessions.db",
        ".crush/crush.db",
    ] {
        let machine = Machine::new();
        let path = machine.put(place, &format!("SQLite format 3\0{}", "damaged".repeat(2000)));
        let told = format!("the database {} cannot be read", path.display());
        for args in [&["list", "--all"][..], &["sources"], &["stats"], &["search", "anything"]] {
            let said = machine.run(args);
            assert!(said.out.contains(&told) || said.err.contains(&told), "{args:?}: {said:?}");
        }
        let said = machine.run(&["check", "--all"]);
        assert_eq!(said.code, 2, "{said:?}");
        assert!(said.out.contains(&told) || said.err.contains(&told), "{said:?}");
    }
}

/// Covers: G17, #163. The shell must take the directory back as it is, and the terminal must not be driven by it.
#[test]
fn a_directory_with_control_characters_is_printed_so_that_a_shell_takes_it_back() {
    let machine = Machine::new();
    let dir = machine.user.join("a\u{1b}[2Jb\n'c'\\  d\u{202e}\u{e9}");
    fs::create_dir_all(&dir).unwrap();
    let text = question(ID);
    let mut row: serde_json::Value = serde_json::from_str(&text).unwrap();
    row["cwd"] = dir.to_str().unwrap().into();
    machine.put(&format!("{CLAUDE}/{ID}.jsonl"), &format!("{row}\n"));
    let printed = machine.out(&["resume", ID, "--print"]);
    assert!(printed.trim_end().chars().all(|c| matches!(c, ' '..='~')), "{printed:?}");
    let (change, _) = printed.trim().rsplit_once(" && ").unwrap();
    let shell = Command::new("bash").args(["-c", &format!("{change} && pwd")]).output().unwrap();
    let there = String::from_utf8(shell.stdout).unwrap();
    assert_eq!(there.strip_suffix('\n'), dir.to_str(), "{printed}");
}

/// What nobody dated is not of 1970.
#[test]
fn what_was_spent_nobody_knows_when_stands_under_an_unknown_day() {
    let machine = Machine::new();
    let reply = serde_json::json!({
        "parentUuid": null, "isSidechain": false, "sessionId": ID, "type": "assistant", "uuid": "b",
        "version": "2.1.200", "timestamp": 1_772_442_001_000_u64,
        "message": {"role": "assistant", "id": "m1", "model": "claude-x",
            "content": [{"type": "text", "text": "done"}], "usage": {"input_tokens": 7, "output_tokens": 5}},
    });
    machine.put(&format!("{CLAUDE}/{ID}.jsonl"), &format!("{reply}\n"));
    let out = machine.out(&["stats"]);
    assert!(out.contains("unknown day") && !out.contains("1970"), "{out}");
}

/// Copies of one session, of one time, have one order, whether they were read now or before.
#[test]
fn copies_are_listed_in_one_order() {
    let machine = Machine::new();
    for folder in ["-z", "-a", "-m"] {
        machine.put(&format!(".claude/projects/{folder}/{ID}.jsonl"), &question(ID));
    }
    let order = || field(&machine.list(&["--all"]), "path");
    let cold = order();
    assert_eq!(cold.len(), 3);
    assert!(cold.is_sorted(), "{cold:?}");
    assert_eq!(order(), cold);
    fs::remove_file(machine.place.home().join("catalog.sqlite")).unwrap();
    assert_eq!(order(), cold);
}

/// Covers: #94. What is read is not held: the system gives the process a fraction of the file's size.
#[test]
fn a_big_log_is_listed_checked_searched_and_shown_in_little_memory() {
    use std::io::Write as _;
    let machine = Machine::new();
    let path = machine.put(&format!("{CLAUDE}/{ID}.jsonl"), &question(ID));
    let mut file = fs::OpenOptions::new().append(true).open(&path).unwrap();
    let (rows, output) = (450, "x".repeat(200_000));
    let mut parent = "beef0001-2222-4222-8222-000000000001".to_owned();
    for n in 0..rows {
        let mut row = |role: &str, content: serde_json::Value| {
            let uuid = format!("{role}-{n}");
            let row = serde_json::json!({
                "parentUuid": parent, "isSidechain": false, "cwd": "/srv/kiln", "sessionId": ID,
                "version": "2.1.200", "type": role, "uuid": uuid, "timestamp": "2026-03-02T09:00:02.000Z",
                "message": {"role": role, "id": format!("m{n}"), "model": "claude-x", "content": content},
            });
            writeln!(file, "{row}").unwrap();
            parent = uuid;
        };
        let call = serde_json::json!({"type": "tool_use", "id": format!("t{n}"), "name": "Bash", "input": {}});
        row("assistant", serde_json::json!([call]));
        let result = serde_json::json!({"type": "tool_result", "tool_use_id": format!("t{n}"), "content": output});
        row("user", serde_json::json!([result]));
    }
    drop(file);
    assert!(fs::metadata(&path).unwrap().len() > 90_000_000);
    let segno = machine.place.segno::<&str>(&[]);
    let program = segno.get_program().to_str().unwrap();
    for words in ["list --all", "check claude:c0de", "search paint", "show claude:c0de"] {
        let line = format!("ulimit -d 65536; exec {program} {words}");
        let mut shell = Command::new("sh");
        shell.args(["-c", &line]).current_dir(machine.place.file("")).env_clear();
        shell.envs(segno.get_envs().filter_map(|(name, value)| Some((name, value?))));
        let ran = shell.stdin(Stdio::null()).stdout(Stdio::null()).output().unwrap();
        assert!(ran.status.success(), "{words}: {:?}", String::from_utf8_lossy(&ran.stderr));
    }
}
