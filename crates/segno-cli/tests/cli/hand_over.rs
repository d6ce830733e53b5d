//! Sessions that go on in another agent: `export --format AGENT`, with and without `--install`, and
//! `resume --in`.

use super::desk::{Desk, Ran, header_in, id, ran};
use super::json_page::{example, same_shape};
use super::machine::{CLAUDE, Machine};
use super::terminal_process::Played;
use portable_pty::CommandBuilder;
use segno_model::Body;
use segno_model::record::{Name, ToolCall};
use segno_testkit::sessions::{answer, call, prompt, reply, result};
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

/// Runs a command with a home directory of its own: nothing is ever written into the one of whoever tests.
pub(crate) fn run(desk: &Desk, args: &[&str]) -> Ran {
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

pub(crate) fn session(desk: &Desk) {
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
pub(crate) fn files(root: &Path) -> Vec<(PathBuf, Vec<u8>)> {
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

pub(crate) fn told(ran: &Ran) -> &str {
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

/// Covers: G17. And what is left in is told, if it was not asked for.
#[test]
fn a_copy_goes_out_whole_unless_secrets_are_to_be_masked() {
    let desk = Desk::new();
    session(&desk);
    for agent in ["claude", "codex", "pi", "gemini", "opencode"] {
        let plain = run(&desk, &["export", "last", "--format", agent]);
        assert!(told(&plain).contains("not in it: "), "{agent}: {plain:?}");
        assert!(plain.err.contains("1 secret is left in it for the agent; --redact"), "{plain:?}");
        assert!(plain.out.contains("ghp_FAKE") && plain.out.contains("kiln stay cold"), "{agent}");
        let going = run(&desk, &["resume", "last", "--in", agent, "--print"]);
        let without = format!("--format {agent} --redact --install` makes a copy without");
        assert!(told(&going).contains("1 secret goes along; "), "{going:?}");
        assert!(told(&going).contains(&without), "{going:?}");
        let kept = run(&desk, &["export", "last", "--format", agent, "--keep-secrets"]);
        assert!(!told(&kept).contains("secret") && kept.out.contains("ghp_FAKE"), "{kept:?}");
        let masked = run(&desk, &["export", "last", "--format", agent, "--redact"]);
        assert!(told(&masked).contains("1 secret was masked; "), "{agent}: {masked:?}");
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

/// Covers: G17. Secrets are masked in each place, with the same mask, also where one stands in front of what gives it
/// away, hides, or is in the arguments of a call; the copy is one that its agent's reader finds nothing wrong with.
#[test]
fn a_masked_copy_is_consistent_and_sound() {
    let desk = Desk::new();
    let hex = "04b608436325ba0af0dc003bd3b5bddc36fb0648";
    let arguments = format!(r#"{{"command":"curl -H 'x: {hex}' --token={hex}"}}"#);
    let token = ToolCall { arguments, ..call("a") };
    desk.session(
        1,
        vec![
            prompt(&format!("Why does {hex} not work?")),
            reply("Let me look.", &[token]),
            result("a", 2, &format!("-API_TOKEN={hex}\n{{\"api_key\": \"\\u0030{}\"}}", &hex[1..])),
            answer(&format!("It is {}\u{1b}[m{}.", &hex[..9], &hex[9..])),
        ],
    );
    for agent in ["claude", "codex", "pi", "gemini", "opencode"] {
        let args = ["export", "last", "--format", agent, "--redact", "--json", "-o"];
        let file = desk.path(&format!("masked-{agent}"));
        let report = run(&desk, &[&args[..], &[file.to_str().unwrap()]].concat()).json();
        assert_eq!(report["secrets"], serde_json::json!({ "masked": 1, "left": 0 }), "{report}");
        let text: String = files(&desk.path(""))
            .into_iter()
            .filter(|(path, _)| path.starts_with(&file))
            .map(|(_, bytes)| String::from_utf8(bytes).unwrap())
            .collect();
        assert!(!text.contains(&hex[9..]) && text.contains("[masked: token]"), "{agent}: {text}");
        assert!(!text.contains("[masked: token 2]"), "{agent}: {text}");
        let own = report["files"][0].as_str().unwrap();
        let shown = run(&desk, &["show", own]);
        assert!(
            told_out(&shown).contains("Why does [masked: token] not work?"),
            "{agent}: {shown:?}"
        );
        let checked = run(&desk, &["check", own]);
        assert_eq!(checked.code, 0, "{agent}: {checked:?}");
    }
    let args = ["export", "last", "--format", "codex", "--json"];
    let left = run(&desk, &args).json();
    assert_eq!(left["secrets"], serde_json::json!({ "masked": 0, "left": 1 }), "{left}");
    assert!(left["notes"][0].as_str().unwrap().contains("--redact masks them"), "{left}");
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

/// What is written where, what is lost, and how to go on, for programs.
#[test]
fn a_copy_tells_programs_where_it_is_and_what_it_lacks() {
    let desk = Desk::new();
    session(&desk);
    for (agent, folder) in [
        ("claude", ".claude"),
        ("codex", ".codex"),
        ("pi", ".pi"),
        ("gemini", ".gemini"),
        ("opencode", "home/handed-over"),
    ] {
        let base = ["export", "last", "--format", agent, "--json"];
        let plan = run(&desk, &base);
        assert_eq!((plan.code, plan.err.as_str()), (0, ""), "{agent}: {plan:?}");
        let plan = plan.json();
        same_shape("export-agent", &example("export-agent"), &plan);
        assert!(plan["outcome"] == "nothing" && plan["files"] == serde_json::json!([]), "{plan}");
        assert!(files(&desk.path(folder)).is_empty(), "{agent}: nothing is written");
        let lost = plan["losses"].as_array().unwrap();
        let unanswered = lost.iter().find(|loss| loss["kind"] == "unanswered");
        assert_eq!(unanswered.unwrap()["records"], serde_json::json!([2]), "{plan}");
        let out = desk.path(&format!("{agent}.out"));
        let written = run(&desk, &[&base[..], &["-o", out.to_str().unwrap()]].concat()).json();
        assert!(written["outcome"] == "written" && out.exists(), "{written}");
        let file = Path::new(written["files"][0].as_str().unwrap());
        assert!(file.is_file() && file == out, "it is one file: {written}");
        for outcome in ["installed", "there"] {
            let done = run(&desk, &[&base[..], &["--install"]].concat()).json();
            same_shape("export-agent", &example("export-agent"), &done);
            assert_eq!((&done["outcome"], &done["id"]), (&outcome.into(), &plan["id"]), "{agent}");
            assert_eq!(done["losses"], plan["losses"], "{agent}");
            let file = Path::new(done["files"][0].as_str().unwrap());
            assert!(file.is_file() && file.starts_with(desk.path(folder)), "{agent}: {done}");
            let command = done["command"].as_str().unwrap();
            assert!(command.starts_with("cd ") && command.contains(agent), "{agent}: {command}");
        }
    }
    let other = run(&desk, &["export", "last", "--json"]);
    assert!(other.code == 2 && other.err.contains("--format json"), "{other:?}");
}

/// Covers: G3. What cannot be read is not in a copy, and that is told before anything is written.
#[test]
fn damage_is_told_before_a_copy_is_written() {
    let machine = Machine::with(CLAUDE, &["01-torn-middle-lines", "03-fused-stub"]);
    let (torn, fused) = (
        "claude:c0de0001-1111-4111-8111-000000000001",
        "claude:c0de0003-1111-4111-8111-000000000003",
    );
    for agent in ["claude", "codex", "pi", "gemini", "opencode"] {
        for (word, places) in [(torn, 2), (fused, 1)] {
            let told = machine.run(&["export", word, "--format", agent, "--json"]).json();
            let damage = told["losses"].as_array().unwrap().iter();
            let count: Vec<_> = damage.filter(|loss| loss["kind"] == "damage").collect();
            assert!(count.len() == 1 && count[0]["count"] == places, "{agent}: {told}");
            let note = format!("it is damaged; `segno check {word}` tells where");
            assert!(told["notes"].as_array().unwrap().contains(&note.into()), "{told}");
        }
    }
    let said = machine.run(&["resume", torn, "--in", "pi", "--print"]);
    assert!(said.err.contains("not in it: 2 damaged places, of which "), "{said:?}");
}

/// A program that is not there is named; the session is not to blame.
#[test]
fn an_agent_that_is_not_installed_is_named() {
    let desk = Desk::new();
    session(&desk);
    let home = ["CLAUDE_CONFIG_DIR", "CODEX_HOME", "PI_CODING_AGENT_DIR", "GEMINI_CLI_HOME"];
    for agent in ["claude", "codex", "pi", "gemini", "opencode"] {
        let mut command = desk.command(&["resume", "last", "--in", agent]);
        command.env("HOME", desk.path("")).env("PATH", desk.path("no programs"));
        home.iter().for_each(|name| {
            command.env_remove(name);
        });
        let said = ran(command);
        assert!(said.code == 1 && said.err.contains("is not on the PATH"), "{agent}: {said:?}");
        assert!(said.err.contains(&format!("`{agent}`")), "{agent}: {said:?}");
        // As `--print` has it: in the session's directory from the first command on.
        assert!(said.err.contains("; then: cd "), "{agent}: {said:?}");
    }
}

/// Runs a printed command with stubs in place of the agents; what they say of where they are and what they were given.
fn by_hand(desk: &Desk, command: &str) -> String {
    let bin = desk.path("bin");
    for agent in ["claude", "codex", "pi", "gemini", "opencode"] {
        fs::create_dir_all(&bin).unwrap();
        fs::write(bin.join(agent), format!("#!/bin/sh\necho \"{agent} in $(pwd)\"\n")).unwrap();
        fs::set_permissions(bin.join(agent), fs::Permissions::from_mode(0o755)).unwrap();
    }
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap());
    let mut shell = std::process::Command::new("sh");
    let out = shell.args(["-c", command]).env("PATH", path).current_dir(desk.path("")).output();
    let out = out.unwrap();
    assert!(out.status.success(), "{command}: {out:?}");
    String::from_utf8(out.stdout).unwrap()
}

/// Covers: #160. The session's directory is gone: what is printed after a repair, a conversion or by `--print` works in a shell,
/// for every agent.
#[test]
fn printed_commands_work_where_the_directory_is_gone() {
    let desk = Desk::new();
    let gone = desk.path("a project that goes");
    fs::create_dir(&gone).unwrap();
    desk.session_with(header_in(1, &gone), vec![prompt("Why is it cold?"), answer("It is off.")]);
    let mut words = Vec::new();
    for agent in ["claude", "codex", "pi", "gemini"] {
        let made =
            run(&desk, &["export", id(1).as_str(), "--format", agent, "--install", "--json"]);
        let made = made.json();
        words.push((agent, format!("{agent}:{}", made["id"].as_str().unwrap())));
        let file = made["files"][0].as_str().unwrap();
        let mut bytes = fs::read(file).unwrap();
        bytes.extend_from_slice(b"{\"type\":\"torn\n");
        fs::write(file, bytes).unwrap();
    }
    fs::remove_dir(&gone).unwrap();
    for (agent, word) in words {
        let says =
            format!("{agent} in {}\n", gone.canonicalize().unwrap_or(gone.clone()).display());
        let printed = run(&desk, &["resume", &word, "--print"]);
        assert_eq!(by_hand(&desk, told_out(&printed)), says, "{agent}");
        fs::remove_dir(&gone).unwrap();
        for words in [&["--install"][..], &["--in-place"]] {
            let repaired = run(&desk, &[&["repair", &word, "--yes"], words].concat());
            let command = told_out(&repaired).lines().find_map(|line| line.strip_prefix("next: "));
            assert_eq!(by_hand(&desk, command.unwrap()), says, "{agent} {words:?}");
            fs::remove_dir(&gone).unwrap();
        }
    }
    for agent in ["claude", "codex", "pi", "gemini", "opencode"] {
        // A copy is one of the directory in which it is made.
        let made = run(&desk, &["export", id(1).as_str(), "--format", agent, "--install"]);
        let said = by_hand(&desk, told_out(&made));
        let here = desk.path("").join("project").canonicalize().unwrap();
        assert!(said.ends_with(&format!("{agent} in {}\n", here.display())), "{agent}: {said}");
        assert!(!gone.exists(), "{agent}");
    }
}

fn told_out(ran: &Ran) -> &str {
    assert_eq!(ran.code, 0, "{ran:?}");
    ran.out.trim_end()
}

/// In a terminal what would be lost is asked about, once; only a yes goes on.
#[test]
fn a_person_is_asked_before_going_on_without_what_is_lost() {
    let desk = Desk::new();
    session(&desk);
    let played = |args: &[&str]| {
        let mut command = CommandBuilder::new(env!("CARGO_BIN_EXE_segno"));
        command.args(args);
        command.cwd(&desk.project);
        command.env("SEGNO_HOME", desk.home());
        command.env("HOME", desk.path(""));
        Played::spawn(command, 100, 30)
    };
    let words = ["resume", "last", "--in", "codex", "--print"];
    let mut asked = played(&words);
    asked.wait_for("[y/N]");
    assert!(asked.screen().contains("not in it: "), "{}", asked.screen());
    asked.send("n\r");
    asked.wait_for("Nothing was written.");
    assert_eq!(asked.exit_code(), 3);
    assert!(files(&desk.path(".codex")).is_empty());
    let mut asked = played(&words);
    asked.wait_for("[y/N]");
    asked.send("y\r");
    asked.wait_for("codex resume");
    assert_eq!(asked.exit_code(), 0);
    assert_eq!(files(&desk.path(".codex")).len(), 1);
    // What is there already was said yes to; and `--yes` is a yes.
    let mut again = played(&words);
    again.wait_for("codex resume");
    assert_eq!(again.exit_code(), 0);
    let mut unasked = played(&["resume", "last", "--in", "claude", "--print", "--yes"]);
    unasked.wait_for("claude --resume");
    assert_eq!(unasked.exit_code(), 0);
}

/// Subagents of another agent's session that was imported go on with it, beside their calls, as those of the
/// original do.
#[test]
fn subagents_of_an_imported_session_come_along() {
    let machine = Machine::with(CLAUDE, &["42-subagents-before-fork"]);
    let word = "claude:c0de002a-1111-4111-8111-0000000000a0";
    let of = |word: &str, agent: &str| {
        let out = machine.place.file(&format!("{agent}-{}", word.replace(':', "-")));
        let args = ["export", word, "--format", agent, "--json", "-o", out.to_str().unwrap()];
        let said = machine.run(&args);
        assert_eq!(said.code, 0, "{said:?}");
        let mut calls = 0;
        let mut names = 0;
        for (path, bytes) in files(&out) {
            names += 1;
            let meta = path.to_string_lossy().ends_with(".meta.json");
            calls += usize::from(meta && String::from_utf8_lossy(&bytes).contains("\"toolu"));
        }
        (names, calls)
    };
    assert_eq!(machine.run(&["resume", word, "--here"]).code, 2, "nobody to talk to");
    let own = machine.list(&["--all", "--source", "segno"])[0]["id"].as_str().unwrap().to_owned();
    for agent in ["claude", "codex", "gemini", "opencode"] {
        let original = of(word, agent);
        assert!(original.0 > 1, "{agent}: {original:?}");
        assert_eq!(of(&own, agent), original, "{agent}");
    }
}
