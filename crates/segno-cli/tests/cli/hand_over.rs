//! Sessions that go on in another agent: `export --format AGENT`, with and without `--install`, and
//! `resume --in`.

use super::desk::{Desk, Ran, id, ran};
use segno_model::Body;
use segno_model::record::Name;
use segno_testkit::sessions::{call, prompt, reply, result};
use std::fs;
use std::path::{Path, PathBuf};

/// Runs a command with a home directory of its own: nothing is ever written into the one of whoever tests.
fn run(desk: &Desk, args: &[&str]) -> Ran {
    let mut command = desk.command(args);
    command.env("HOME", desk.path(""));
    for moved in [
        "CLAUDE_CONFIG_DIR",
        "CODEX_HOME",
        "PI_CODING_AGENT_DIR",
        "PI_CODING_AGENT_SESSION_DIR",
        "GEMINI_CLI_HOME",
        "XDG_DATA_HOME",
    ] {
        command.env_remove(moved);
    }
    ran(command)
}

fn session(desk: &Desk) {
    desk.session(
        1,
        vec![
            prompt("Why does the kiln stay cold?"),
            reply("Let me look.", &[call("a"), call("b")]),
            result("a", 2, "GITHUB_TOKEN=ghp_FAKEfakeFAKEfakeFAKEfakeFAKEfakeFAKE\n"),
        ],
    );
}

/// All files below a folder, with what is in them.
fn files(root: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let (mut found, mut folders) = (Vec::new(), vec![root.to_owned()]);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).into_iter().flatten() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                found.push((path.clone(), fs::read(&path).unwrap()));
            }
        }
    }
    found.sort();
    found
}

fn told(ran: &Ran) -> &str {
    assert_eq!(ran.code, 0, "{ran:?}");
    &ran.err
}

/// Covers: G14, #160. Once, as a new session; the second time it is there already, and when something was said
/// since, it is another one.
#[test]
fn an_installed_copy_is_found_by_its_agent_and_made_once() {
    let desk = Desk::new();
    session(&desk);
    let before = desk.bytes(&id(1));
    for (agent, folder, program) in [
        ("claude", ".claude", "claude --resume "),
        ("codex", ".codex", "codex resume "),
        ("pi", ".pi", "pi --session "),
        ("gemini", ".gemini", "gemini --resume "),
    ] {
        let ran = run(&desk, &["export", id(1).as_str(), "--format", agent, "--install"]);
        let losses = told(&ran);
        assert!(losses.contains("not in it: 1 call without a result, told as unknown"), "{losses}");
        assert!(
            ran.out.starts_with("cd ") && ran.out.contains(&format!(" && {program}")),
            "{ran:?}"
        );
        let made = files(&desk.path(folder));
        assert!(!made.is_empty(), "{agent}");
        let new = ran.out.trim().rsplit(' ').next().unwrap().to_owned();
        let listed = run(&desk, &["list", "--all", "--source", agent, "--json"]).json();
        assert_eq!(listed["sessions"][0]["id"], new.as_str(), "{agent}: {listed}");
        let again = run(&desk, &["export", id(1).as_str(), "--format", agent, "--install"]);
        assert!(told(&again).contains("nothing was said since it was written to"), "{again:?}");
        assert_eq!((&again.out, files(&desk.path(folder))), (&ran.out, made), "{agent}");
    }
    assert_eq!(desk.bytes(&id(1)), before, "the session itself is as it was");
    let made = files(&desk.path(".claude"));
    desk.append(&id(1), 9, vec![result("b", 2, "cold"), prompt("And now?")]);
    let grown = run(&desk, &["export", id(1).as_str(), "--format", "claude", "--install"]);
    assert!(!told(&grown).contains("nothing was said since"), "{grown:?}");
    let now = files(&desk.path(".claude"));
    assert_eq!(now.len(), made.len() + 1);
    assert!(made.iter().all(|file| now.contains(file)), "what was there stays");
}

/// Covers: G17.
#[test]
fn a_copy_goes_out_whole_unless_secrets_are_to_be_masked() {
    let desk = Desk::new();
    session(&desk);
    for agent in ["claude", "codex", "pi", "gemini", "opencode"] {
        let plain = run(&desk, &["export", "last", "--format", agent]);
        assert!(told(&plain).contains("not in it: "), "{agent}: {plain:?}");
        assert!(plain.out.contains("ghp_FAKE") && plain.out.contains("kiln stay cold"), "{agent}");
        let masked = run(&desk, &["export", "last", "--format", agent, "--redact"]);
        assert!(told(&masked).contains(" masked; "), "{agent}: {masked:?}");
        assert!(
            !masked.out.contains("ghp_FAKE") && masked.out.contains("kiln stay cold"),
            "{agent}"
        );
    }
    let file = desk.path("copy.jsonl");
    let args = ["export", "last", "--format", "claude", "-o", file.to_str().unwrap()];
    told(&run(&desk, &args));
    assert!(fs::read_to_string(&file).unwrap().contains("kiln stay cold"));
    let again = run(&desk, &args);
    assert!(again.code != 0 && again.err.contains("exists already"), "{again:?}");
    // What an agent goes on with can be handed on.
    let path = file.to_str().unwrap();
    let next = run(&desk, &["export", path, "--format", "codex"]);
    assert!(told(&next).contains("not in it: ") && next.out.contains("kiln stay cold"), "{next:?}");
}

#[test]
fn a_session_is_resumed_in_another_agent_by_one_command() {
    let desk = Desk::new();
    session(&desk);
    let ran = run(&desk, &["resume", "last", "--in", "codex", "--print"]);
    assert!(told(&ran).contains("not in it: "), "{ran:?}");
    assert!(ran.out.contains(" && codex resume "), "{ran:?}");
    assert_eq!(files(&desk.path(".codex")).len(), 1);
    let codex = ran.out.trim().rsplit(' ').next().unwrap().to_owned();
    let back = run(&desk, &["resume", &format!("codex:{codex}"), "--in", "claude", "--print"]);
    assert!(back.code == 0 && back.out.contains(" && claude --resume "), "{back:?}");
    // In its own agent nothing is copied.
    let own = run(&desk, &["resume", &format!("codex:{codex}"), "--in", "codex", "--print"]);
    assert!(own.out.contains(&format!("codex resume {codex}")), "{own:?}");
    assert_eq!(files(&desk.path(".codex")).len(), 1);
    let opencode = run(&desk, &["resume", "last", "--in", "opencode", "--print"]);
    assert!(
        opencode.out.contains("opencode import ")
            && opencode.out.contains(" && opencode --session ses_")
    );
}

#[test]
fn what_cannot_be_is_told_with_a_next_step() {
    let desk = Desk::new();
    session(&desk);
    let rows: [(&[&str], &str); 3] = [
        (&["export", "last", "--install"], "--install is for the format of an agent"),
        (&["resume", "last", "--in", "cline"], "one of claude, codex, pi"),
        (&["export", "last", "--format", "claude", "--yes"], "--install"),
    ];
    for (args, says) in rows {
        let ran = run(&desk, args);
        assert!(ran.code != 0 && ran.err.contains(says), "{args:?}: {ran:?}");
    }
    desk.session(2, vec![Body::Name(Name { name: "empty".to_owned() })]);
    let empty = run(&desk, &["export", id(2).as_str(), "--format", "claude"]);
    assert!(empty.code != 0 && empty.err.contains("nothing was said"), "{empty:?}");
}
