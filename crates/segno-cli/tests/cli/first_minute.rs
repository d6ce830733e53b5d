//! The first minute of somebody who has sessions of many agents and no key.
//!
//! Responsible for: the commands on a home that is built from real files of every agent. Must not: test how
//! a format is read; that is done beside the readers.

use super::place::Place;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Stdio;

/// A home with the corpus in it, and the ages that do not depend on the day.
struct Home {
    place: Place,
    user: PathBuf,
}

fn corpus(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/corpus").join(name)
}

impl Home {
    fn new() -> Self {
        let place = Place::new("rule any\n  say \"never asked\"\n");
        let user = place.home().parent().unwrap().to_owned();
        let home = Self { place, user };
        for (from, to) in [
            ("foreign/claude/multi-turn-tools.jsonl", ".claude/projects/-p/multi.jsonl"),
            ("foreign/claude/killed-mid-tool.jsonl", ".claude/projects/-p/killed.jsonl"),
            (
                "cases/01-torn-middle-lines/c0de0001-1111-4111-8111-000000000001.jsonl",
                ".claude/projects/-k/c0de0001-1111-4111-8111-000000000001.jsonl",
            ),
            (
                "foreign/codex/multi-turn-tools.jsonl",
                ".codex/sessions/2026/11/29/rollout-2026-11-29T10-00-00-01a228f9-0000-7000-8000-000000000001.jsonl",
            ),
            (
                "foreign/codex/killed-mid-tool.jsonl",
                ".codex/sessions/2026/11/29/rollout-2026-11-29T11-00-00-01a228f9-0000-7000-8000-000000000002.jsonl",
            ),
            ("foreign/pi/02-tool-calls.jsonl", ".pi/agent/sessions/--p--/2026_02.jsonl"),
            ("foreign/gemini/multi-turn-tools.jsonl", ".gemini/tmp/p/chats/session-2026-a.jsonl"),
            ("foreign/opencode/opencode.db", ".local/share/opencode/opencode.db"),
        ] {
            home.put(from, to);
        }
        home
    }

    fn put(&self, from: &str, to: &str) {
        let to = self.user.join(to);
        fs::create_dir_all(to.parent().unwrap()).unwrap();
        fs::copy(corpus(from), to).unwrap();
    }

    fn run(&self, args: &[&str]) -> (i32, String, String) {
        let mut command = self.place.segno(args);
        command.stdin(Stdio::null()).env("COLUMNS", "110");
        for key in ["ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY"] {
            command.env_remove(key);
        }
        let ran = command.output().unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        (ran.status.code().unwrap(), text(ran.stdout), text(ran.stderr))
    }

    fn out(&self, args: &[&str]) -> String {
        let (code, out, err) = self.run(args);
        assert_eq!(code, 0, "{args:?}: {out}{err}");
        out
    }

    fn json(&self, args: &[&str]) -> serde_json::Value {
        let (_, out, err) = self.run(args);
        serde_json::from_str(&out).unwrap_or_else(|e| panic!("{args:?}: {e}: {out}{err}"))
    }

    /// Every file of the other agents: bytes, modification and access time.
    fn untouched(&self) -> Vec<(PathBuf, String, i64, i64)> {
        let mut files = Vec::new();
        for agent in [".claude", ".codex", ".pi", ".gemini", ".local"] {
            walk(&self.user.join(agent), &mut files);
        }
        files.sort();
        files
    }
}

fn walk(dir: &Path, files: &mut Vec<(PathBuf, String, i64, i64)>) {
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            walk(&path, files);
        } else {
            // First the bytes: reading them here moves the access time, once.
            let bytes = segno_model::sha256_hex(&fs::read(&path).unwrap());
            let meta = fs::metadata(&path).unwrap();
            let times = (meta.mtime() * 1_000_000_000 + meta.mtime_nsec(), meta.atime());
            files.push((path, bytes, times.0, times.1));
        }
    }
}

/// Ages depend on the day.
fn without_ages(text: &str) -> String {
    let age = |word: &str| {
        let digits = word.trim_end_matches(|c: char| c.is_ascii_alphabetic());
        !digits.is_empty()
            && digits.len() < word.len()
            && digits.bytes().all(|b| b.is_ascii_digit())
            && matches!(&word[digits.len()..], "s" | "m" | "h" | "d" | "w" | "mo" | "y")
    };
    let line = |line: &str| {
        let words: Vec<&str> =
            line.split_whitespace().map(|w| if age(w) { "AGE" } else { w }).collect();
        words.join("  ") + "\n"
    };
    text.lines().map(line).collect()
}

/// Covers: #65, #68, #69, #70, #73, #79, G12, G13, G14.
#[test]
fn everything_that_is_there_is_found() {
    let home = Home::new();
    let before = home.untouched();
    let user = home.user.display().to_string();
    let shown = |args: &[&str]| without_ages(&home.out(args).replace(&user, "~"));
    insta::assert_snapshot!("overview", shown(&[]));
    insta::assert_snapshot!("list", shown(&["list", "--all"]));
    insta::assert_snapshot!("sources", shown(&["sources"]));
    insta::assert_snapshot!("search", shown(&["search", "echo", "one", "--limit", "8"]));
    let found = home.out(&["search", "echo", "one", "--limit", "8"]);
    let named =
        found.lines().filter_map(|line| line.split("  ").next().filter(|w| w.contains(':')));
    for word in named.filter(|word| !word.starts_with(' ') && !word.is_empty()) {
        assert_eq!(home.run(&["show", word]).0, 0, "{word} names one session");
    }
    insta::assert_snapshot!("stats", shown(&["stats", "--by", "agent"]));
    assert_eq!(home.untouched(), before, "nothing of another agent was touched");
}

/// Covers: #1, G3.
#[test]
fn a_damaged_session_is_shown_checked_and_located() {
    let home = Home::new();
    let (code, out, _) = home.run(&["check", "c0de0001"]);
    assert_eq!(code, 1);
    assert!(
        out.contains("line 6") && out.contains("line 7") && out.contains("damaged in 2 places"),
        "{out}"
    );
    let out = home.out(&["show", "claude:c0de0001"]);
    assert!(out.contains("FINAL-01") && out.contains("2 places are damaged"), "{out}");
    let (code, out, _) = home.run(&["check", "--all"]);
    assert_eq!(code, 1, "{out}");
    assert!(out.contains("claude:c0de0001-1111-4111-8111-000000000001"), "{out}");
    let path = home.user.join(".claude/projects/-k/c0de0001-1111-4111-8111-000000000001.jsonl");
    let (code, out, _) = home.run(&["check", path.to_str().unwrap(), "--json"]);
    let report: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!((code, report["verdict"].as_str()), (1, Some("damage")));
}

/// A file that is nobody's, one with data and no turn, and one that is not there are three errors.
/// Covers: #133.
#[test]
fn what_is_no_session_is_an_error() {
    let home = Home::new();
    let path = |name: &str| home.place.file(name).to_str().unwrap().to_owned();
    fs::write(path("noise.jsonl"), "{\"a\":1}\n{\"b\":2}\n").unwrap();
    let meta = fs::read_to_string(corpus("foreign/codex/killed-mid-tool.jsonl")).unwrap();
    let header: String = meta.lines().take(1).map(|line| format!("{line}\n")).collect();
    fs::write(path("header.jsonl"), header).unwrap();
    for (name, code) in [("noise.jsonl", 6), ("header.jsonl", 2), ("gone.jsonl", 6)] {
        let (exit, out, err) = home.run(&["check", &path(name)]);
        assert_eq!(exit, code, "{name}: {out}{err}");
        assert!(err.contains("next:") || err.lines().count() > 1, "{name}: {err}");
    }
}

/// Covers: #85, #138. The list is what is on disk, whatever became of it since the last time.
#[test]
fn files_that_come_and_go_are_noticed() {
    let home = Home::new();
    let count = || home.json(&["list", "--all", "--json"])["sessions"].as_array().unwrap().len();
    let all = count();
    let file = home.user.join(".claude/projects/-p/killed.jsonl");
    let moved = home.user.join("killed.jsonl");
    fs::rename(&file, &moved).unwrap();
    assert_eq!(count(), all - 1);
    fs::rename(&moved, &file).unwrap();
    assert_eq!(count(), all);
    // A folder that is a link, and the catalog gone.
    fs::rename(home.user.join(".claude/projects"), home.user.join("elsewhere")).unwrap();
    std::os::unix::fs::symlink(home.user.join("elsewhere"), home.user.join(".claude/projects"))
        .unwrap();
    assert_eq!(count(), all);
    fs::write(home.place.home().join("catalog.sqlite"), vec![0; 4096]).unwrap();
    assert_eq!(count(), all);
}

/// Covers: G17, #115.
#[test]
fn the_catalog_is_private() {
    let home = Home::new();
    home.out(&["list"]);
    let mode = |path: PathBuf| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(home.place.home()), 0o700);
    assert_eq!(mode(home.place.home().join("catalog.sqlite")), 0o600);
}

#[test]
fn a_session_opens_in_the_agent_that_owns_it() {
    let home = Home::new();
    let sessions = home.json(&["list", "--all", "--json"]);
    for session in sessions["sessions"].as_array().unwrap() {
        if session["child"].as_bool() == Some(true) {
            continue;
        }
        let word =
            format!("{}:{}", session["source"].as_str().unwrap(), session["id"].as_str().unwrap());
        let out = home.out(&["resume", &word, "--print"]);
        let program = session["source"].as_str().unwrap();
        let cwd = session["cwd"].as_str().unwrap_or("");
        assert!(out.contains(program) && out.contains(cwd), "{word}: {out}");
    }
    // The session's directory is not on this machine.
    let (code, _, err) = home.run(&["resume", "claude:c0de0001"]);
    assert_eq!(code, 6, "{err}");
    assert!(err.contains("--here"), "{err}");
}

/// A stub stands for the agent: it must be called in the session's directory with the session's id.
#[test]
fn the_agent_is_started_in_the_sessions_directory() {
    let home = Home::new();
    let dir = home.user.join("project");
    let file = home.user.join(".claude/projects/-k/c0de0001-1111-4111-8111-000000000001.jsonl");
    let text = fs::read_to_string(&file).unwrap();
    let json: serde_json::Value = text
        .lines()
        .filter_map(|l| serde_json::from_str(l).ok())
        .find(|v: &serde_json::Value| v["cwd"].is_string())
        .unwrap();
    let cwd = json["cwd"].as_str().unwrap();
    fs::write(&file, text.replace(cwd, dir.to_str().unwrap())).unwrap();
    let bin = home.user.join("bin");
    fs::create_dir(&bin).unwrap();
    fs::write(bin.join("claude"), "#!/bin/sh\necho \"$PWD $*\"\n").unwrap();
    fs::set_permissions(bin.join("claude"), fs::Permissions::from_mode(0o755)).unwrap();
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap());
    let mut command = home.place.segno(&["resume", "claude:c0de0001"]);
    let out = command.env("PATH", path).current_dir(&home.user).output().unwrap();
    let said = String::from_utf8(out.stdout).unwrap();
    assert_eq!(
        said.trim(),
        format!("{} --resume c0de0001-1111-4111-8111-000000000001", dir.display())
    );
}
