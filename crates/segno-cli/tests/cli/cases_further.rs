//! The recorded cases through the commands that make something of a session: repair, conversion, search, copies.
//!
//! Responsible for: that what a case must keep is still there, and what must not be sent is not, wherever the
//! session goes. Must not: test how a case is read, listed and shown (that is `cases`).

use super::cases::CASES;
use super::desk::{Desk, id};
use super::machine::{CLAUDE, CLINE, CODEX, Machine, PI, corpus, each_file, field};
use segno_testkit::sessions::{answer, call, prompt, reply, result};
use serde_json::Value;
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

/// The formats of other agents.
const AGENTS: [&str; 5] = ["claude", "codex", "pi", "gemini", "opencode"];

/// What a context holds, as text.
fn sent(machine: &Machine, session: &str) -> String {
    machine.run(&["show", session, "--context", "--json"]).json()["messages"].to_string()
}

/// A word of a case, not an id or a state, which another format has other words for.
fn is_mark(word: &&&str) -> bool {
    word.contains('-') && word.chars().next().is_some_and(char::is_uppercase)
}

/// What is wrong with a session that was made of a case's.
fn losses(machine: &Machine, case: &super::cases::Case, made: &str) -> String {
    let (mut wrong, sent) = (String::new(), sent(machine, made));
    for text in case.sent.iter().filter(is_mark).filter(|text| !sent.contains(**text)) {
        writeln!(wrong, "{made} lost {text}: {sent}").unwrap();
    }
    for text in case.unsent.iter().filter(|text| sent.contains(**text)) {
        writeln!(wrong, "{made} sends {text}: {sent}").unwrap();
    }
    let checked = machine.run(&["check", made]);
    if checked.code != 0 {
        writeln!(wrong, "{made}: {checked:?}").unwrap();
    }
    wrong
}

/// Covers: #1, #3, #5, #7, #10, #11, #20, #23, #24, #26, #32, #34, #36, #38, #39, #46, #48, #49, #51, #54, #130,
/// #135, #147, G14. A repaired copy holds what the case must keep, and needs no second repair.
#[test]
fn each_case_is_repaired_once_and_for_all() {
    let mut wrong = String::new();
    for case in CASES {
        let machine = Machine::with(case.folder, &[case.name]);
        let before = machine.untouched(case.folder);
        let said = machine.run(&["repair", case.session]);
        let report = machine.run(&["check", case.session, "--json"]).json();
        assert_eq!(report["repairs"] != 0, said.code == 5, "{}: {said:?}", case.name);
        if said.code == 5 {
            let checked = machine.run(&["check", case.session]);
            assert!(checked.out.contains("next: segno repair "), "{}: {checked:?}", case.name);
            machine.out(&["repair", case.session, "-o", "copy", "--yes"]);
            let copy = machine.place.file("copy");
            let mode = fs::metadata(&copy).unwrap().permissions().mode() & 0o777;
            assert_eq!(mode, 0o600, "{}", case.name);
            wrong += &losses(&machine, case, copy.to_str().unwrap());
            let again = machine.run(&["repair", copy.to_str().unwrap(), "--json"]);
            assert_eq!((again.code, &again.json()["files"]), (0, &Value::Array(Vec::new())));
        } else {
            assert_eq!(said.code, 0, "{}: {said:?}", case.name);
        }
        assert_eq!(machine.untouched(case.folder), before, "{}", case.name);
    }
    assert!(wrong.is_empty(), "{wrong}");
}

/// All files below a folder.
fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    each_file(folder, &mut |path| found.push(path.to_owned()));
    found.sort();
    found
}

/// Covers: #7, #20, #23, #24, #26, #34, #36, #38, #39, #46, #48, #49, #51, #54, #121, #160, #162. Written for every
/// other agent, it holds the same, in UTF-8 and in JSON without half of a character.
#[test]
fn each_case_goes_on_in_every_agent() {
    let mut wrong = String::new();
    for case in CASES {
        let machine = Machine::with(case.folder, &[case.name]);
        for agent in AGENTS {
            let out = format!("{agent}.out");
            let export = ["export", case.session, "--format", agent, "--json", "-o", &out];
            let report = machine.run(&export).json();
            let main = report["files"][0].as_str().unwrap_or_else(|| panic!("{report}"));
            let text = fs::read_to_string(main).unwrap();
            let lines = if agent == "opencode" { vec![&*text] } else { text.lines().collect() };
            for line in lines {
                serde_json::from_str::<Value>(line)
                    .unwrap_or_else(|e| panic!("{} for {agent}: {e}: {line}", case.name));
            }
            wrong += &losses(&machine, case, main);
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

/// Covers: #26, #121, #163. Every mark is found, in its session and once, and what is no word of it is not.
#[test]
fn each_mark_is_found_where_it_stands() {
    for case in CASES {
        let machine = Machine::with(case.folder, &[case.name]);
        for mark in case.sent.iter().filter(is_mark) {
            let found = machine.run(&["search", &format!("\"{mark}\""), "--json"]);
            let places: Vec<(String, String)> = found.json()["hits"]
                .as_array()
                .unwrap_or_else(|| panic!("{}: {found:?}", case.name))
                .iter()
                .map(|hit| (hit["id"].to_string(), hit["seq"].to_string()))
                .collect();
            let once: BTreeSet<_> = places.iter().collect();
            assert!(!places.is_empty(), "{}: {mark} is not found", case.name);
            assert_eq!(
                once.len(),
                places.len(),
                "{}: {mark} is found twice: {places:?}",
                case.name
            );
        }
    }
    // NUL is NUL, and six characters that spell it are those.
    let machine = Machine::with(PI, &["46-nul-in-text"]);
    let spelt = machine.run(&["search", r"\u0000", "--json"]).json();
    assert_eq!(field(spelt["hits"].as_array().unwrap(), "seq"), ["4"], "{spelt}");
    let real = machine.run(&["search", "\"B NUL-46\"", "--json"]).json();
    assert_eq!(field(real["hits"].as_array().unwrap(), "seq"), ["3"], "{real}");
    let exported = machine.out(&["export", "pi:019c1111-002e", "--format", "json"]);
    assert!(exported.contains(r"A\u0000B NUL-46") && exported.contains(r"The text \\u0000 is"));
}

/// Covers: #115, G14. Whatever is in them, files are kept byte for byte, and nobody else reads the copies.
#[test]
fn each_case_is_kept_as_its_bytes() {
    let machine = Machine::new();
    let folders: Vec<_> = fs::read_dir(corpus("cases")).unwrap().map(|e| e.unwrap()).collect();
    for folder in folders {
        let name = folder.file_name().into_string().unwrap();
        let to = if name.starts_with("49") { CLINE } else { "by agent" };
        machine.add(&format!("{to}/{}", if to == CLINE { "" } else { &name }), &name);
    }
    // Each file goes to the folder of its agent, under a name of its own where two cases share one.
    for path in files(&machine.user.join("by agent")) {
        let name = path.file_name().unwrap().to_str().unwrap();
        let case = path.strip_prefix(machine.user.join("by agent")).unwrap();
        let case = case.iter().next().unwrap().to_str().unwrap();
        let text = fs::read(&path).unwrap();
        let folder = match () {
            () if name.starts_with("rollout-") => CODEX.to_owned(),
            () if text.starts_with(b"{\"type\":\"session\"") => format!("{PI}-{case}"),
            () if path.to_str().unwrap().contains("subagents") => {
                format!("{CLAUDE}/c0de002a-1111-4111-8111-0000000000a0/subagents")
            }
            () if path.to_str().unwrap().contains("right-after") => format!("{CLAUDE}-{case}"),
            () => CLAUDE.to_owned(),
        };
        let to = machine.user.join(folder).join(name);
        fs::create_dir_all(to.parent().unwrap()).unwrap();
        fs::rename(&path, to).unwrap();
    }
    fs::remove_dir_all(machine.user.join("by agent")).unwrap();
    let originals: Vec<PathBuf> = [".claude", ".codex", ".pi", ".cline"]
        .iter()
        .flat_map(|f| files(&machine.user.join(f)))
        .collect();
    assert!(originals.len() > 40, "{originals:?}");
    let before: Vec<_> = originals.iter().map(|path| fs::read(path).unwrap()).collect();
    machine.out(&["keep", "--all"]);
    let again = machine.run(&["keep", "--all", "--json"]).json();
    assert_eq!(again["bytes"], 0, "{again}");
    let kept = machine.place.home().join("kept/tree");
    for (path, bytes) in originals.iter().zip(&before) {
        let copy = kept.join(path.strip_prefix("/").unwrap());
        assert_eq!(&fs::read(&copy).unwrap_or_default(), bytes, "{}", path.display());
        let mode = fs::metadata(&copy).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode, 0o600, "{}", copy.display());
    }
}

/// Covers: #34, #36. What is shown and not sent says so, in every view for people.
#[test]
fn a_result_that_is_not_sent_is_marked() {
    let rows = [
        (CLAUDE, "17-orphan-result", "claude:c0de0011", "no call has its id", 1),
        (PI, "18-duplicate-results", "pi:019c1111-0012", "its call has a result already", 2),
    ];
    for (folder, case, session, why, times) in rows {
        let machine = Machine::with(folder, &[case]);
        let mark = format!("not sent to the model: {why}");
        for args in [
            &["show", session][..],
            &["export", session, "--format", "markdown"],
            &["export", session, "--format", "html"],
        ] {
            let said = machine.out(args);
            assert_eq!(said.matches(&mark).count(), times, "{args:?}: {said}");
        }
    }
    let desk = Desk::new();
    desk.session(
        1,
        vec![
            prompt("How many samples?"),
            reply("Let me look.", &[call("a")]),
            result("a", 2, "42"),
            result("a", 2, "interrupted"),
            answer("42."),
        ],
    );
    for args in [
        &["show", id(1).as_ref()][..],
        &["export", id(1).as_ref(), "--format", "markdown"],
        &["export", id(1).as_ref(), "--format", "html"],
    ] {
        let said = desk.run(args);
        let mark = "not sent to the model: its call has a result already";
        assert_eq!((said.code, said.out.matches(mark).count()), (0, 1), "{args:?}: {said:?}");
    }
}

/// Covers: #52, #140, #157. A fork shows what it began with, and finds it where the origin is gone.
#[test]
fn a_fork_shows_the_beginning_that_it_copied() {
    let rows = [
        (
            CLAUDE,
            "42-subagents-before-fork",
            "claude:c0de002a-1111-4111-8111-0000000000",
            "AGENT-42",
            "LEAF-42",
        ),
        (
            CODEX,
            "36-fork-usage",
            "codex:019c0000-0024-7000-8000-0000000000",
            "Tray v1.",
            "Tray v3.",
        ),
    ];
    for (folder, case, id, inherited, own) in rows {
        let machine = Machine::with(folder, &[case]);
        let fork = format!("{id}f0");
        let origin = if folder == CLAUDE { format!("{id}a0") } else { format!("{id}24") };
        let shown = machine.out(&["show", &fork]);
        let places: Vec<Option<usize>> =
            [&*format!("copied from {origin}"), inherited, "its own from here on", own]
                .iter()
                .map(|text| shown.find(text))
                .collect();
        assert!(places.iter().all(Option::is_some) && places.is_sorted(), "{places:?}: {shown}");
        assert!(!machine.out(&["show", &origin]).contains("copied from"));
        for format in ["markdown", "html"] {
            let exported = machine.out(&["export", &fork, "--format", format]);
            assert_eq!(exported.matches(own).count(), 1, "{exported}");
            assert!(exported.contains(inherited) && exported.contains(&origin), "{exported}");
        }
        // Each once, as long as the origin is there.
        let hits = |machine: &Machine| {
            let found = machine.run(&["search", &format!("\"{inherited}\""), "--json"]).json();
            let hits = found["hits"].as_array().unwrap().clone();
            field(&hits, "id").into_iter().filter(|hit| hit.contains('-')).collect::<Vec<_>>()
        };
        assert_eq!(hits(&machine), [origin.split_once(':').unwrap().1]);
        for path in files(&machine.user.join(folder)) {
            let name = path.file_name().unwrap().to_str().unwrap();
            if name.contains(origin.split_once(':').unwrap().1) {
                fs::remove_file(&path).unwrap();
            }
        }
        assert_eq!(hits(&machine), [fork.split_once(':').unwrap().1]);
    }
}

/// Covers: #12. Where a session is several files, what is found names the one that it is in.
#[test]
fn a_finding_names_its_file_where_there_are_several() {
    let machine = Machine::with(CLINE, &["49-truncated-json-array"]);
    let said = machine.run(&["check", "cline:1772442000000"]);
    for line in [
        "damage [torn-array] api_conversation_history.json, line 1, byte 663: ",
        "warning [trailing-bytes] ui_messages.json, line 1, byte 420: 1 byte stands behind ",
    ] {
        assert!(said.out.contains(line), "{line}: {said:?}");
    }
    let report = machine.run(&["check", "cline:1772442000000", "--json"]).json();
    let mut named = field(report["findings"].as_array().unwrap(), "file");
    named.sort();
    assert_eq!(named, ["api_conversation_history.json", "ui_messages.json"]);
}

/// Covers: #10, #11, #20, #23. What a case says of its findings, to the number.
#[test]
fn each_trouble_is_told_once() {
    let rows: [(&str, &str, &str, &[&str]); 6] = [
        (CLAUDE, "01-torn-middle-lines", "claude:c0de0001", &["torn-line 6", "torn-line 7"]),
        (CLAUDE, "03-fused-stub", "claude:c0de0003", &["fused-line 7"]),
        (CLAUDE, "12-missing-parent", "claude:c0de000c", &["missing-parent 5", "missing-parent 7"]),
        (PI, "07-unicode-separators", "pi:019c1111-0007", &[]),
        (CODEX, "08-bom-crlf", "codex:019c0000-0008", &[]),
        (PI, "10-duplicate-prefix", "pi:019c1111-000a", &["duplicate-record 4"]),
    ];
    for (folder, case, session, told) in rows {
        let machine = Machine::with(folder, &[case]);
        let report = machine.run(&["check", session, "--json"]).json();
        let found: Vec<String> = report["findings"]
            .as_array()
            .unwrap()
            .iter()
            .map(|f| format!("{} {}", f["code"].as_str().unwrap(), f["line"]))
            .collect();
        assert_eq!(found, told, "{case}");
    }
    let machine = Machine::with(PI, &["10-duplicate-prefix"]);
    let total = machine.run(&["stats", "--json"]).json()["total"]["responses"].clone();
    assert_eq!((machine.list(&["--all"]).len(), total), (1, Value::from(1)));
}

/// Covers: #46, #48, #49. Roles alternate and no text is empty in what would be sent; the image and the call stay.
#[test]
fn what_would_be_refused_is_not_in_a_request() {
    for (case, session) in
        [("21-unsigned-thinking", "claude:c0de0015"), ("23-empty-text-blocks", "claude:c0de0017")]
    {
        let machine = Machine::with(CLAUDE, &[case]);
        let context = machine.run(&["show", session, "--context", "--json"]).json();
        let messages = context["messages"].as_array().unwrap();
        let replies: Vec<bool> = messages.iter().map(|m| m["role"] == "assistant").collect();
        assert!(replies.windows(2).all(|pair| !(pair[0] && pair[1])), "{context}");
        fn texts(value: &Value, found: &mut Vec<String>) {
            match value {
                Value::Object(fields) => {
                    if let Some(Value::String(text)) = fields.get("text") {
                        found.push(text.clone());
                    }
                    fields.values().for_each(|value| texts(value, found));
                }
                Value::Array(values) => values.iter().for_each(|value| texts(value, found)),
                _ => {}
            }
        }
        let mut found = Vec::new();
        texts(&context["messages"], &mut found);
        assert!(found.iter().all(|text| !text.trim().is_empty()), "{context}");
    }
}
