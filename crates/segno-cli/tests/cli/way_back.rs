//! The way that README shows for a session which its own agent no longer opens, walked as a person does.
//!
//! Responsible for: the three lines, in a terminal, for each agent, from the project and from elsewhere; that what
//! the last one opens is where that agent looks for it. Must not: say what is repaired (that is `rescue`).

use super::machine::{Machine, corpus, each_file};
use super::terminal_process::Played;
use portable_pty::CommandBuilder;
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};

/// The directory in which the cases were recorded.
const KILN: &str = concat!("/srv/", "work/kiln");

/// An agent with a session that it does not open, or not whole.
struct Broken {
    agent: &'static str,
    /// What the way back is about.
    rule: &'static str,
    /// The agent's command, up to what it opens.
    command: &'static str,
    /// What the session must hold afterwards.
    holds: &'static [&'static str],
    /// Lays the session's file for a project in this directory; gives its path.
    lay: fn(&Machine, &Path) -> PathBuf,
    /// The file that the agent opens in this directory when it is given this.
    opens: fn(&Path, &Path, &str) -> PathBuf,
}

const BROKEN: [Broken; 5] = [
    Broken {
        agent: "claude",
        rule: "torn-line",
        command: "claude --resume ",
        holds: &["FINAL-01", "The glaze timer"],
        lay: |machine, dir| case(machine, "01-torn-middle-lines", &claude_folder(dir), dir),
        opens: |home, dir, id| home.join(claude_folder(dir)).join(format!("{id}.jsonl")),
    },
    Broken {
        agent: "claude",
        rule: "unsigned-thinking",
        command: "claude --resume ",
        holds: &["Yes, 2 C per minute.", "LEAF-21"],
        lay: |machine, dir| case(machine, "21-unsigned-thinking", &claude_folder(dir), dir),
        opens: |home, dir, id| home.join(claude_folder(dir)).join(format!("{id}.jsonl")),
    },
    Broken {
        agent: "codex",
        rule: "byte-order-mark",
        command: "codex resume ",
        holds: &["Dryer on.", "END-08"],
        lay: |machine, dir| case(machine, "08-bom-crlf", ".codex/sessions/2026/03/02", dir),
        // It looks for the id at the end of the names below its folder, from anywhere.
        opens: |home, _, id| only(&home.join(".codex/sessions"), &format!("-{id}.jsonl")),
    },
    Broken {
        agent: "pi",
        rule: "second-result",
        command: "pi --session ",
        holds: &["REAL-18", "LEAF-18"],
        lay: |machine, dir| case(machine, "18-duplicate-results", &pi_folder(dir), dir),
        opens: |home, dir, path| {
            assert!(Path::new(path).starts_with(home.join(pi_folder(dir))), "{path}");
            PathBuf::from(path)
        },
    },
    Broken {
        agent: "gemini",
        rule: "unanswered-call",
        command: "gemini --resume ",
        holds: &["ASK-G", "I run it."],
        lay: gemini,
        opens: |home, _, id| {
            // It goes by the first line of the files of the directory's project.
            let mut found = Vec::new();
            each_file(&home.join(".gemini/tmp/kilns/chats"), &mut |path| {
                let text = fs::read_to_string(path).unwrap();
                let first: Value = serde_json::from_str(text.lines().next().unwrap()).unwrap();
                found.extend((first["sessionId"] == id).then(|| path.to_owned()));
            });
            assert_eq!(found.len(), 1, "{found:?}");
            found.remove(0)
        },
    },
];

/// Each character that is no letter and no digit becomes a dash.
fn dashed(dir: &Path) -> String {
    let path = dir.to_str().unwrap();
    path.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect()
}

fn claude_folder(dir: &Path) -> String {
    format!(".claude/projects/{}", dashed(dir))
}

fn pi_folder(dir: &Path) -> String {
    let inner = dir.to_str().unwrap().trim_matches('/').replace('/', "-");
    format!(".pi/agent/sessions/--{inner}--")
}

fn case(machine: &Machine, case: &str, folder: &str, dir: &Path) -> PathBuf {
    let file = fs::read_dir(corpus(&format!("cases/{case}"))).unwrap().next().unwrap().unwrap();
    let text = fs::read_to_string(file.path()).unwrap().replace(KILN, dir.to_str().unwrap());
    machine.put(&format!("{folder}/{}", file.file_name().to_str().unwrap()), &text)
}

/// A call that has no result, after which the person went on.
fn gemini(machine: &Machine, dir: &Path) -> PathBuf {
    let projects = json!({"projects": {dir.to_str().unwrap(): "kilns"}});
    machine.put(".gemini/projects.json", &projects.to_string());
    let at = |n: u32| format!("2026-03-02T09:00:0{n}.000Z");
    let rows = [
        json!({"sessionId": "019c2222-0001-7000-8000-000000000001", "projectHash": "ab", "startTime": at(0), "lastUpdated": at(0), "kind": "main"}),
        json!({"id": "m1", "timestamp": at(1), "type": "user", "content": [{"text": "ASK-G"}]}),
        json!({"id": "m2", "timestamp": at(2), "type": "gemini", "content": "I run it.", "model": "gemini-2.5-pro",
            "toolCalls": [{"id": "g0", "name": "run_shell_command", "args": {"command": "ls"}, "status": "executing"}]}),
        json!({"id": "m3", "timestamp": at(3), "type": "user", "content": [{"text": "AFTER-G"}]}),
    ];
    let text: String = rows.iter().map(|row| format!("{row}\n")).collect();
    machine.put(".gemini/tmp/kilns/chats/session-2026-03-02T09-00-019c2222.jsonl", &text)
}

/// The one file below a folder whose name ends so.
fn only(folder: &Path, end: &str) -> PathBuf {
    let mut found = Vec::new();
    each_file(folder, &mut |path| {
        if path.to_str().unwrap().ends_with(end) {
            found.push(path.to_owned());
        }
    });
    assert_eq!(found.len(), 1, "{end}: {found:?}");
    found.remove(0)
}

/// What a command in a terminal shows, with a yes to its question.
fn answered(machine: &Machine, dir: &Path, args: &[&str]) -> String {
    let mut command = CommandBuilder::new(env!("CARGO_BIN_EXE_segno"));
    command.args(args);
    command.cwd(dir);
    command.env_clear();
    command.env("HOME", &machine.user);
    command.env("SEGNO_HOME", machine.place.home());
    let mut played = Played::spawn(command, 400, 60);
    played.wait_for("[y/N]");
    played.send("y\r");
    played.wait_for("next: ");
    let code = played.exit_code();
    let screen = played.screen();
    assert_eq!(code, 0, "{screen}");
    screen
}

/// The words of a printed line, as a shell takes them.
fn words(line: &str) -> Vec<String> {
    let echo = format!("for word in {line}; do printf '%s\\n' \"$word\"; done");
    let out = std::process::Command::new("sh").args(["-c", &echo]).output().unwrap();
    assert!(out.status.success(), "{line}: {out:?}");
    String::from_utf8(out.stdout).unwrap().lines().map(str::to_owned).collect()
}

/// Covers: #1, #32, #36, #46, #160, G14.
#[test]
fn the_three_lines_of_the_readme_bring_a_session_back() {
    for broken in &BROKEN {
        let what = format!("{} {}", broken.agent, broken.rule);
        let machine = Machine::new();
        let dir = machine.place.file("").canonicalize().unwrap();
        let original = (broken.lay)(&machine, &dir);
        let before = fs::read(&original).unwrap();
        let last = format!("{}:last", broken.agent);
        assert!(machine.out(&["show", &last]).contains(broken.holds[1]), "{what}");

        let told = machine.run(&["repair", &last]);
        assert!(told.code == 5 && told.out.contains(&format!("[{}]", broken.rule)), "{told:?}");
        let next = format!("next: segno repair {last} --install");
        assert!(told.out.contains(&next), "{what}: {told:?}");

        let screen = answered(&machine, &dir, &["repair", &last, "--install"]);
        let line = screen.lines().find_map(|line| line.trim().strip_prefix("next: ")).unwrap();
        let (there, command) = line.trim().split_once(" && ").unwrap();
        let there = words(there);
        assert_eq!(there[0], "cd", "{what}: {line}");
        assert!(Path::new(&there[1]).is_dir(), "{what}: {line}");
        let opened = command.strip_prefix(broken.command).unwrap_or_else(|| panic!("{line}"));
        let opened = words(opened);
        assert_eq!(opened.len(), 1, "{what}: {line}");
        let file = (broken.opens)(&machine.user, Path::new(&there[1]), &opened[0]);

        assert_ne!(file, original, "{what}");
        let path = file.to_str().unwrap();
        let checked = machine.run(&["check", path, "--json"]).json();
        assert_eq!((&checked["findings"], &checked["repairs"]), (&json!([]), &json!(0)), "{what}");
        let id = checked["id"].as_str().unwrap();
        assert!(opened[0].contains(id), "{what}: {id} is not in {line}");
        let sent = machine.out(&["show", path, "--context"]);
        assert!(broken.holds.iter().all(|text| sent.contains(text)), "{what}: {sent}");
        assert_eq!(fs::read(&original).unwrap(), before, "{what}");
        // It is listed as its agent's, in this project.
        let listed = machine.list(&["--source", broken.agent]);
        assert!(listed.iter().any(|session| session["id"] == id), "{what}: {listed:?}");
    }
}

/// From another directory `last` means nothing, and what is said leads to a name that does.
#[test]
fn from_elsewhere_the_way_to_the_session_is_said() {
    for broken in &BROKEN {
        let machine = Machine::new();
        let dir = machine.place.file("").canonicalize().unwrap();
        (broken.lay)(&machine, &dir);
        let elsewhere = machine.user.join("elsewhere");
        fs::create_dir(&elsewhere).unwrap();
        let last = format!("{}:last", broken.agent);
        for args in [
            &["show", &last][..],
            &["check", &last],
            &["repair", &last],
            &["resume", &last, "--print"],
        ] {
            let said = machine.run_in(&elsewhere, args);
            assert_eq!(said.code, 6, "{args:?}: {said:?}");
            assert!(said.err.contains("segno list --all"), "{args:?}: {said:?}");
        }
        let listed = machine.list_in(&elsewhere, &["--all"]);
        let id = listed[0]["id"].as_str().unwrap();
        let told = machine.run_in(&elsewhere, &["repair", id]);
        assert!(told.code == 5 && told.out.contains("--install"), "{told:?}");
        let done = machine.run_in(&elsewhere, &["repair", id, "--install", "--yes"]);
        assert!(
            done.code == 0 && done.out.contains(&format!("next: cd {}", dir.display())),
            "{done:?}"
        );
    }
}

/// Covers: #158, #160. OpenCode's database is never written: the way leads over its importer.
#[test]
fn a_session_of_opencode_comes_back_by_its_importer() {
    let machine = Machine::new();
    let to = machine.user.join(".local/share/opencode");
    fs::create_dir_all(&to).unwrap();
    fs::copy(corpus("foreign/opencode/opencode.db"), to.join("opencode.db")).unwrap();
    let before = machine.untouched(".local/share/opencode");
    for listed in machine.list(&["--all", "--source", "opencode"]) {
        let session = format!("opencode:{}", listed["id"].as_str().unwrap());
        let said = machine.run(&["repair", &session]);
        let command = said.err.split('`').find(|part| part.starts_with("segno export "));
        let args: Vec<&str> =
            command.unwrap_or_else(|| panic!("{said:?}")).split(' ').skip(1).collect();
        let copied = machine.run(&[&args[..], &["--yes"]].concat());
        if copied.err.contains("nothing was said") {
            continue;
        }
        assert_eq!(copied.code, 0, "{copied:?}");
        let (import, open) = copied.out.trim().rsplit_once(" && ").unwrap();
        let file = words(import.rsplit_once("opencode import ").unwrap().1).remove(0);
        let id = open.strip_prefix("opencode --session ").unwrap();
        let checked = machine.run(&["check", &file, "--json"]).json();
        assert_eq!((&checked["id"], &checked["findings"]), (&json!(id), &json!([])), "{session}");
    }
    assert_eq!(machine.untouched(".local/share/opencode"), before);
}
