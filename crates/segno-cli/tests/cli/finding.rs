//! Other agents' sessions are found whatever became of directories, files, the catalog and the home.

use super::machine::{CLAUDE, CODEX, Machine, PI, corpus, field};
use super::place::skipped;
use super::terminal_process::Played;
use portable_pty::CommandBuilder;
use serde_json::{Value, json};
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, UNIX_EPOCH};

/// A session of Claude Code with one question and one answer.
struct Session<'a> {
    id: &'a str,
    cwd: &'a Path,
    prompt: &'a str,
    /// The number in its records' ids; forks share them.
    records: u32,
    /// The record of another file that it stands behind.
    behind: Option<&'a str>,
    at: &'a str,
}

impl Session<'_> {
    fn uuid(&self, n: u32) -> String {
        format!("beef{:04}-2222-4222-8222-{n:012}", self.records)
    }

    fn text(&self) -> String {
        let base = |n: u32, parent: Option<&str>, kind: &str, message: Value| {
            json!({
                "parentUuid": parent, "isSidechain": false, "cwd": self.cwd, "sessionId": self.id,
                "version": "2.1.200", "type": kind, "message": message, "uuid": self.uuid(n),
                "timestamp": format!("{}T09:00:0{n}.000Z", self.at),
            })
        };
        let asked = base(1, self.behind, "user", json!({"role": "user", "content": self.prompt}));
        let said = json!({
            "id": format!("msg_{}", self.records), "type": "message", "role": "assistant",
            "model": "claude-sonnet-4-5", "content": [{"type": "text", "text": "done"}],
            "stop_reason": "end_turn", "usage": {"input_tokens": 1, "output_tokens": 1},
        });
        format!("{asked}\n{}\n", base(2, Some(&self.uuid(1)), "assistant", said))
    }

    fn put(&self, machine: &Machine) -> PathBuf {
        machine.put(&format!("{CLAUDE}/{}.jsonl", self.id), &self.text())
    }
}

const A: &str = "c0de1000-1111-4111-8111-000000000001";
const B: &str = "c0de1000-1111-4111-8111-000000000002";

fn session<'a>(id: &'a str, cwd: &'a Path) -> Session<'a> {
    Session { id, cwd, prompt: "paint the shed", records: 1, behind: None, at: "2026-03-02" }
}

fn git(dir: &Path, args: &[&str]) {
    let mut command = Command::new("git");
    command.args(["-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false"]);
    let ran = command.current_dir(dir).args(args).env("GIT_CONFIG_GLOBAL", "/dev/null").output();
    let ran = ran.unwrap();
    assert!(ran.status.success(), "{args:?}: {}", String::from_utf8_lossy(&ran.stderr));
}

fn repository(dir: &Path) {
    fs::create_dir_all(dir).unwrap();
    git(dir, &["init", "-q"]);
    git(dir, &["commit", "-q", "--allow-empty", "-m", "begin"]);
}

/// Covers: #81, #84, #90, #92.
#[test]
fn a_project_is_found_by_any_of_its_facts() {
    let machine = Machine::new();
    let app = machine.user.join("real/app");
    repository(&app);
    session(A, &app).put(&machine);
    let here = |dir: &Path| field(&machine.list_in(dir, &[]), "id");
    assert_eq!(here(&app), [A]);
    assert_eq!(here(&machine.place.file("")), Vec::<String>::new());
    // Through a link, in a worktree, and in a directory below.
    symlink(machine.user.join("real"), machine.user.join("link")).unwrap();
    assert_eq!(here(&machine.user.join("link/app")), [A]);
    git(&app, &["worktree", "add", "-q", "../tree"]);
    assert_eq!(here(&machine.user.join("real/tree")), [A]);
    git(&app, &["worktree", "remove", "../tree"]);
    // Renamed: its first commit tells.
    let renamed = machine.user.join("real/shop");
    fs::rename(&app, &renamed).unwrap();
    assert_eq!(here(&renamed), [A]);
    // From anywhere by its id; its own directory is gone.
    assert_eq!(machine.run(&["show", A, "--json"]).json()["id"], A);
    let refused = machine.run(&["resume", A]);
    assert_eq!(refused.code, 6, "{refused:?}");
    assert!(refused.err.contains("is not there") && refused.err.contains("--here"));
    // No longer a repository, and back at the old place.
    fs::remove_dir_all(renamed.join(".git")).unwrap();
    fs::rename(&renamed, &app).unwrap();
    assert_eq!(here(&app), [A]);
    repository(&app);
    assert_eq!(here(&app), [A], "another first commit, the same place");
}

/// Covers: #81. Nothing was indexed before the move, so no fact but the path is known.
#[test]
fn a_session_of_a_directory_that_was_never_seen_is_found_by_its_path() {
    let machine = Machine::new();
    let gone = machine.user.join("gone");
    session(A, &gone).put(&machine);
    assert_eq!(field(&machine.list(&["--project", gone.to_str().unwrap()]), "id"), [A]);
    let text = machine.out(&["list"]);
    assert!(text.contains("1 more session elsewhere"), "{text}");
}

/// Covers: #86, #87.
#[test]
fn case_on_a_windows_drive_parts_nothing() {
    let machine = Machine::new();
    session(A, Path::new(r"c:\work\kiln")).put(&machine);
    Session { records: 2, ..session(B, Path::new(r"C:\work\Kiln")) }.put(&machine);
    // The directory of whoever asks is on this machine; what a list takes as the project need not be.
    let listed = machine.list(&["--project", "/mnt/c/Work/kiln"]);
    assert_eq!(listed.len(), 2, "{listed:?}");
    assert!(field(&listed, "cwd").contains(&r"C:\work\Kiln".to_owned()), "shown as it was stored");
}

/// Covers: #85, #79.
#[test]
fn a_linked_folder_of_sessions_is_read_once() {
    let machine = Machine::with(CLAUDE, &["42-subagents-before-fork"]);
    let all = |machine: &Machine| field(&machine.list(&["--all", "--children"]), "id");
    let before = all(&machine);
    let projects = machine.user.join(".claude/projects");
    symlink(projects.join("-srv-work-kiln"), projects.join("-link-kiln")).unwrap();
    assert_eq!(all(&machine), before, "two names, one file");
    fs::rename(&projects, machine.user.join("kept")).unwrap();
    symlink(machine.user.join("kept"), &projects).unwrap();
    let linked = machine.list(&["--all", "--children"]);
    assert_eq!(field(&linked, "id"), before);
    assert_eq!(linked.iter().filter(|s| s["child"] == true).count(), 1);
}

/// Covers: #65, #66, #68, #119, #138. What is on disk is what is listed, whatever the catalog says.
#[test]
fn a_stale_broken_or_missing_catalog_hides_nothing() {
    let machine = Machine::new();
    let cwd = machine.place.file("");
    let path = session(A, &cwd).put(&machine);
    let catalog = machine.place.home().join("catalog.sqlite");
    assert_eq!(machine.list(&[]).len(), 1);
    for damage in [&b"these are notes, not a database"[..], &[0; 4096], b""] {
        fs::write(&catalog, damage).unwrap();
        assert_eq!(field(&machine.list(&[]), "id"), [A]);
    }
    for side in ["catalog.sqlite", "catalog.sqlite-wal", "catalog.sqlite-shm"] {
        // Not there, most of the time.
        let _ = fs::remove_file(machine.place.home().join(side));
    }
    assert_eq!(field(&machine.list(&[]), "id"), [A]);
    // Grown, replaced by another one of the same length, gone.
    let text = session(A, &cwd).text();
    fs::write(&path, format!("{text}{}", text.replace("00000000000", "00000000009"))).unwrap();
    assert_eq!(machine.list(&[])[0]["assistant_messages"], 2);
    fs::write(&path, text.replace("paint the shed", "empty the shed")).unwrap();
    assert_eq!(machine.list(&[])[0]["first_prompt"], "empty the shed");
    fs::remove_file(&path).unwrap();
    assert!(machine.list(&["--all"]).is_empty());
    let shown = machine.run(&["show", A]);
    assert_eq!(shown.code, 6, "{shown:?}");
}

/// Covers: #118, G12.
#[test]
fn eight_processes_may_list_at_once() {
    let machine = Machine::new();
    let cwd = machine.place.file("");
    let ids: Vec<String> = (0..40).map(|n| format!("c0de2000-1111-4111-8111-{n:012}")).collect();
    for (n, id) in (1..).zip(&ids) {
        Session { records: n, ..session(id, &cwd) }.put(&machine);
    }
    let mut command = machine.place.segno(&["list", "--json"]);
    let running: Vec<_> = (0..8).map(|_| command.spawn().unwrap()).collect();
    for process in running {
        let ran = process.wait_with_output().unwrap();
        assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
        let json: Value = serde_json::from_slice(&ran.stdout).unwrap();
        assert_eq!(json["sessions"].as_array().unwrap().len(), ids.len());
    }
}

/// Covers: #113.
#[test]
fn a_home_that_cannot_be_written_can_list_others() {
    let machine = Machine::with(CODEX, &["36-fork-usage"]);
    let dir = |mode| fs::set_permissions(machine.place.home(), fs::Permissions::from_mode(mode));
    fs::create_dir_all(machine.place.home()).unwrap();
    dir(0o500).unwrap();
    let listed = machine.list(&["--all"]);
    let checked = machine.run(&["check", "--all"]);
    dir(0o700).unwrap();
    assert_eq!(listed.len(), 2);
    assert_eq!(checked.code, 0, "{checked:?}");
}

/// Covers: #113. What cannot be looked into is told, and hides nothing else.
#[test]
fn a_folder_that_cannot_be_read_is_told() {
    if rustix::process::geteuid().is_root() {
        return skipped("root may read everything");
    }
    let machine = Machine::with(CODEX, &["51-in-flight-turn"]);
    machine.add(CLAUDE, "12-missing-parent");
    let folder = machine.user.join(CLAUDE);
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o000)).unwrap();
    let said = machine.run(&["list", "--all"]);
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o755)).unwrap();
    assert_eq!(said.code, 0);
    assert!(said.out.contains("note: ") && said.out.contains("-srv-work-kiln"), "{said:?}");
}

/// What is there under a session's name but cannot be opened has a row, and `check` says 2.
/// Covers: #62, #68.
#[test]
fn a_file_that_cannot_be_read_has_a_row() {
    let machine = Machine::with(CODEX, &["51-in-flight-turn"]);
    let path = machine.put(&format!("{PI}/2026-03-02T09-00-00-000Z_x.jsonl"), "{\"type\":\"se");
    let all = machine.list(&["--all"]);
    let row = all.iter().find(|s| s["source"] == "pi").unwrap();
    assert_eq!(row["state"], "unreadable", "{row}");
    assert!(!row["error"].is_null());
    assert_eq!(machine.run(&["check", "--all"]).code, 2);
    let checked = machine.run(&["check", path.to_str().unwrap()]);
    assert!([2, 6].contains(&checked.code), "{checked:?}");
    // A link to nothing is told or left out; the others are there.
    symlink(machine.user.join("nothing"), machine.user.join(PI).join("gone.jsonl")).unwrap();
    let said = machine.run(&["list", "--all"]);
    assert_eq!(said.code, 0, "{said:?}");
    assert!(said.out.contains("interrupted"), "{said:?}");
}

#[test]
fn an_archived_session_is_listed_and_marked() {
    let machine = Machine::new();
    let rollout = corpus("cases/51-in-flight-turn")
        .join("rollout-2026-03-02T09-00-00-019c0000-0033-7000-8000-000000000033.jsonl");
    let text = fs::read_to_string(&rollout).unwrap();
    let name = rollout.file_name().unwrap().to_str().unwrap();
    machine.put(&format!(".codex/archived_sessions/{name}"), &text);
    let listed = machine.list(&["--all"]);
    assert_eq!((listed.len(), &listed[0]["archived"]), (1, &json!(true)));
}

/// Covers: #30. A fork that does not say so begins with the record of its origin.
#[test]
fn a_fork_is_known_by_its_first_record() {
    let machine = Machine::new();
    let cwd = machine.place.file("");
    session(B, &cwd).put(&machine);
    let fork = session(A, &cwd);
    let later = fork.text() + &Session { records: 3, at: "2026-03-04", ..session(A, &cwd) }.text();
    machine.put(&format!("{CLAUDE}/{A}.jsonl"), &later);
    let listed = machine.list(&[]);
    assert_eq!(field(&listed, "id"), [A, B]);
    assert_eq!(field(&listed, "fork_of"), [B, "null"]);
}

/// Covers: #58. One conversation in several files is one session; the earlier parts are there when asked for.
#[test]
fn a_chain_of_files_is_one_session() {
    let machine = Machine::new();
    let cwd = machine.place.file("");
    let ids: Vec<String> = (1..=4).map(|n| format!("c0de3000-1111-4111-8111-{n:012}")).collect();
    let mut behind: Option<String> = None;
    for (n, id) in (1..).zip(&ids) {
        let at = format!("2026-03-0{n}");
        let behind_now = behind.clone();
        let part =
            Session { records: n, at: &at, behind: behind_now.as_deref(), ..session(id, &cwd) };
        part.put(&machine);
        behind = Some(part.uuid(2));
    }
    assert_eq!(field(&machine.list(&[]), "id"), [ids[3].as_str()]);
    let text = machine.out(&["list"]);
    assert!(text.contains("3 sessions that went on in another one (--children)"), "{text}");
    let all = machine.list(&["--children"]);
    assert_eq!(field(&all, "id"), [&ids[3], &ids[2], &ids[1], &ids[0]].map(String::as_str));
    assert_eq!(all[3]["continued_in"], ids[1].as_str());
    // Two that name each other hide neither.
    let named = |id: &str, next: &str| {
        let text = Session { records: 7, ..session(id, &cwd) }.text();
        let line = json!({"type": "continued-in", "sessionId": id, "continuedInSessionId": next});
        machine.put(&format!("{CLAUDE}/{id}.jsonl"), &format!("{text}{line}\n"));
    };
    named(A, B);
    named(B, A);
    assert_eq!(machine.list(&[]).len(), 3);
    // One that went on in a file that is gone is shown.
    fs::remove_file(machine.user.join(CLAUDE).join(format!("{B}.jsonl"))).unwrap();
    assert_eq!(machine.list(&[]).len(), 2);
}

/// In a terminal, what is known is shown before the rest is read, and how far reading is; the list is the
/// same in the end. Covers: #65.
#[test]
fn in_a_terminal_rows_appear_while_others_are_still_being_read() {
    let machine = Machine::new();
    let cwd = machine.place.file("").canonicalize().unwrap();
    let id = |n: u32| format!("c0de{n:04}-1111-4111-8111-000000000001");
    let put = |n: u32, day: &str, padding: usize| {
        let (id, prompt) = (id(n), format!("{day} {}", "x".repeat(padding)));
        let path =
            Session { id: &id, cwd: &cwd, prompt: &prompt, records: n, behind: None, at: day }
                .put(&machine);
        let written = segno_model::Timestamp::parse(&format!("{day}T09:00:02.500Z")).unwrap();
        let written = UNIX_EPOCH + Duration::from_millis(written.0.cast_unsigned());
        fs::File::options().write(true).open(&path).unwrap().set_modified(written).unwrap();
        path
    };
    put(1, "2026-03-05", 0);
    put(2, "2026-03-01", 0);
    assert_eq!(machine.list(&[]).len(), 2);
    let large = 17 << 20;
    put(3, "2026-03-04", large);
    put(4, "2026-03-03", large);
    let first = put(5, "2026-03-02", 0);
    // Another file with the same id.
    let second = first.parent().unwrap().with_file_name("-elsewhere");
    fs::create_dir(&second).unwrap();
    let second = second.join(first.file_name().unwrap());
    fs::copy(&first, &second).unwrap();
    let modified = fs::metadata(&first).unwrap().modified().unwrap();
    fs::File::options().write(true).open(second).unwrap().set_modified(modified).unwrap();
    let mut command = CommandBuilder::new(env!("CARGO_BIN_EXE_segno"));
    command.arg("list");
    command.cwd(&cwd);
    command.env("HOME", &machine.user);
    command.env("SEGNO_HOME", machine.place.home());
    let mut shown = Played::spawn(command, 110, 20);
    assert_eq!(shown.exit_code(), 0);
    let raw = String::from_utf8_lossy(shown.raw()).into_owned();
    let place = |text: &str| raw.find(text).unwrap_or_else(|| panic!("no {text:?} in {raw:?}"));
    let order = ["c0de0001", "reading 1 of 4 sessions, 17 MB of 34 MB (Claude Code)", "c0de0004"];
    assert!(order.map(place).is_sorted(), "{raw:?}");
    let screen = shown.screen();
    assert!(!screen.contains("reading"), "{screen}");
    let ids: Vec<&str> = screen.trim_end().lines().filter_map(|line| line.get(..8)).collect();
    let wanted =
        ["ID      ", "c0de0001", "c0de0003", "c0de0004", "c0de0005", "c0de0005", "c0de0002"];
    assert_eq!(ids, wanted, "{screen}");
    assert_eq!(field(&machine.list(&[]), "id"), [1, 3, 4, 5, 5, 2].map(id));
    assert!(screen.contains("[-elsewhere/…] 2026-03-02"), "{screen}");
}
