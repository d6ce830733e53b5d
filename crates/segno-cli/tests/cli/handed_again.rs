//! The same session handed over again: when its copy was moved, from another directory, and by several at once.

use super::desk::{Desk, Ran, header_in, id, ran};
use super::hand_over::{files, run, session, told};
use super::machine::{CLAUDE, Machine};
use segno_testkit::sessions::{answer, prompt};
use std::fs;
use std::path::{Path, PathBuf};

/// Runs it in a directory.
fn run_in(desk: &Desk, dir: &str, args: &[&str]) -> Ran {
    let dir = desk.path(dir);
    fs::create_dir_all(&dir).unwrap();
    let mut command = desk.command(args);
    command.current_dir(&dir).env("PWD", &dir).env("HOME", desk.path(""));
    for moved in ["CLAUDE_CONFIG_DIR", "CODEX_HOME", "PI_CODING_AGENT_DIR", "GEMINI_CLI_HOME"] {
        command.env_remove(moved);
    }
    ran(command)
}

/// As zstd packs it when nothing gets shorter: one raw block.
fn packed(bytes: &[u8]) -> Vec<u8> {
    let header = u32::try_from(bytes.len()).unwrap() << 3 | 1;
    let magic = [0x28, 0xb5, 0x2f, 0xfd, 0x00, 0x38];
    [&magic[..], &header.to_le_bytes()[..3], bytes].concat()
}

fn moved(agent: &str, way: &str, file: &Path, home: &Path) -> PathBuf {
    let name = file.file_name().unwrap();
    match (agent, way) {
        ("codex", "archived") => home.join("archived_sessions").join(name),
        ("codex", _) => PathBuf::from(format!("{}.zst", file.display())),
        ("claude", _) => home.join("projects/-srv-elsewhere").join(name),
        ("pi", _) => home.join("agent/sessions/--srv-elsewhere--").join(name),
        _ => home.join("tmp/elsewhere/chats").join(name),
    }
}

/// Covers: G14, #160. What was said in a copy that its agent packed or put elsewhere is not hidden by a second one of
/// the same id; what only has its name is no copy.
#[test]
fn a_copy_that_its_agent_has_moved_is_there_already() {
    for (agent, folder, way) in [
        ("codex", ".codex", "archived"),
        ("codex", ".codex", "packed"),
        ("claude", ".claude", "moved"),
        ("pi", ".pi", "moved"),
        ("gemini", ".gemini", "moved"),
    ] {
        let desk = Desk::new();
        session(&desk);
        let own = id(1);
        let again = ["export", own.as_str(), "--format", agent, "--install", "--json"];
        let made = run(&desk, &again).json();
        let file = PathBuf::from(made["files"][0].as_str().unwrap());
        let to = moved(agent, way, &file, &desk.path(folder));
        fs::create_dir_all(to.parent().unwrap()).unwrap();
        let bytes = fs::read(&file).unwrap();
        fs::remove_file(&file).unwrap();
        fs::write(&to, if way == "packed" { packed(&bytes) } else { bytes }).unwrap();
        let before = files(&desk.path(folder));
        let there = run(&desk, &again).json();
        assert_eq!(
            (&there["outcome"], &there["id"]),
            (&"there".into(), &made["id"]),
            "{agent} {way}"
        );
        assert_eq!(there["files"], serde_json::json!([to]), "{agent} {way}");
        let going = run(&desk, &["resume", id(1).as_str(), "--in", agent, "--print"]);
        assert!(told(&going).contains("its agent keeps it in "), "{agent} {way}: {going:?}");
        assert_eq!(files(&desk.path(folder)), before, "{agent} {way}");
        fs::write(&to, "").unwrap();
        let anew = run(&desk, &again).json();
        assert_eq!(anew["outcome"], "installed", "{agent} {way}: {anew}");
    }
}

/// Covers: #160. A session without its directory becomes one of where it is handed over: in two directories that is
/// two sessions, each with its own id and command; in one directory it is one.
#[test]
fn where_the_directory_is_gone_each_directory_has_a_copy_of_its_own() {
    let desk = Desk::new();
    let gone = desk.path("gone");
    fs::create_dir(&gone).unwrap();
    desk.session_with(header_in(1, &gone), vec![prompt("Why is it cold?"), answer("It is off.")]);
    for agent in ["claude", "codex", "pi", "gemini", "opencode"] {
        let own = id(1);
        let args = ["export", own.as_str(), "--format", agent, "--install", "--json"];
        fs::create_dir_all(&gone).unwrap();
        let whole = run_in(&desk, "d1", &args).json();
        fs::remove_dir(&gone).unwrap();
        let [one, two] = ["d1", "d2"].map(|dir| {
            let made = run_in(&desk, dir, &args).json();
            assert_eq!(made["outcome"], "installed", "{agent} {dir}: {made}");
            let again = run_in(&desk, dir, &args).json();
            assert_eq!(
                (&again["outcome"], &again["id"]),
                (&"there".into(), &made["id"]),
                "{agent}"
            );
            let command = made["command"].as_str().unwrap();
            let cd = format!("cd {} && ", desk.path(dir).display());
            assert!(command.starts_with(&cd), "{agent}: {command}");
            made["id"].clone()
        });
        assert!(one != two && one != whole["id"] && two != whole["id"], "{agent}: {one} {two}");
        if agent != "opencode" {
            let listed = run(&desk, &["list", "--all", "--source", agent, "--json"]).json();
            assert_eq!(listed["sessions"].as_array().unwrap().len(), 3, "{agent}");
        }
    }
}

/// Covers: G14. Several processes hand the same session over at once: each finds it there, and it is whole.
#[test]
fn several_at_once_make_one_copy() {
    let word = "claude:c0de002a-1111-4111-8111-0000000000a0";
    for agent in ["claude", "codex", "gemini", "opencode"] {
        let machine = Machine::with(CLAUDE, &["42-subagents-before-fork"]);
        // What is listed is known, so that they are at it at the same time.
        machine.list(&["--all"]);
        let args = ["export", word, "--format", agent, "--install", "--yes", "--json"];
        let running: Vec<_> = (0..6).map(|_| machine.place.segno(&args).spawn().unwrap()).collect();
        let mut outcomes = Vec::new();
        for running in running {
            let out = running.wait_with_output().unwrap();
            assert!(out.status.success(), "{agent}: {}", String::from_utf8_lossy(&out.stderr));
            let report: serde_json::Value = serde_json::from_slice(&out.stdout).unwrap();
            for file in report["files"].as_array().unwrap() {
                assert!(Path::new(file.as_str().unwrap()).is_file(), "{agent}: {file}");
            }
            outcomes.push(report["outcome"].as_str().unwrap().to_owned());
        }
        let made = outcomes.iter().filter(|outcome| *outcome == "installed").count();
        assert!(made == 1 && outcomes.len() == 6, "{agent}: {outcomes:?}");
    }
}

/// Ids that are shown name the session that they are shown for, also where many began in the same moment, only some
/// of them are shown, and they are of several agents; `segno:` is said of ours.
#[test]
fn every_id_that_is_shown_names_its_session() {
    let desk = Desk::new();
    let gone = desk.path("gone");
    fs::create_dir(&gone).unwrap();
    desk.session_with(header_in(1, &gone), vec![prompt("Why is it cold?"), answer("It is off.")]);
    fs::remove_dir(&gone).unwrap();
    // Their ids begin with the time of the original.
    for (dir, agent) in [("d1", "codex"), ("d1", "pi"), ("d2", "codex"), ("d2", "pi")] {
        let made = run_in(&desk, dir, &["export", id(1).as_str(), "--format", agent, "--install"]);
        assert_eq!(made.code, 0, "{made:?}");
    }
    let mut seen = 0;
    for args in [&["list"][..], &["list", "--all"], &["search", "cold"]] {
        for dir in ["d1", "d2"] {
            let shown = run_in(&desk, dir, args);
            assert_eq!(shown.code, 0, "{shown:?}");
            let words = shown.out.lines().filter_map(|line| line.split(' ').next());
            let ids = words.filter(|word| word.contains("019b"));
            for id in ids {
                let named = run_in(&desk, dir, &["show", id, "--json"]);
                assert_eq!(named.code, 0, "{args:?} {id}: {named:?}");
                let begin = id.split_once(':').map_or(id, |(_, begin)| begin);
                let whole = named.json()["id"].as_str().unwrap().to_owned();
                assert!(whole.starts_with(begin), "{args:?} {id}: {whole}");
                seen += 1;
            }
        }
    }
    assert_eq!(seen, 2 * (2 + 5 + 5), "two in each, and all five");
    let own = format!("segno:{}", &id(1).as_str()[..13]);
    for args in
        [&["show", &own][..], &["name", &own, "cold"], &["check", &own], &["children", &own]]
    {
        let ran = run(&desk, args);
        assert_eq!(ran.code, 0, "{args:?}: {ran:?}");
    }
    let none = run(&desk, &["show", "segno:ffff"]);
    assert!(none.code == 6 && none.err.contains("no session"), "{none:?}");
}
