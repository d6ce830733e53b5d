//! `segno repair` on other agents' sessions: shown first, written only where and when somebody said so.

use super::desk::{Desk, id};
use super::json_page::{example, same_shape};
use super::machine::{CLAUDE, CLINE, CODEX, Machine, PI, corpus};
use segno_testkit::sessions::{answer, prompt};
use serde_json::json;
use std::fs;

const TORN: &str = "claude:c0de0001";

fn torn() -> Machine {
    Machine::with(CLAUDE, &["01-torn-middle-lines"])
}

/// Covers: #1, G14.
#[test]
fn what_would_be_changed_is_shown_and_nothing_is_written() {
    let machine = torn();
    let before = machine.untouched(".claude");
    let said = machine.run(&["repair", TORN]);
    assert_eq!(said.code, 5, "{said:?}");
    for text in [
        "line 6",
        "line 7",
        "[torn-line] line 6",
        "set aside",
        "--install",
        "--in-place",
        "-o FILE",
    ] {
        assert!(said.out.contains(text), "{text}: {said:?}");
    }
    let report = machine.run(&["repair", TORN, "--install", "--json"]);
    assert_eq!(report.code, 5, "{report:?}");
    let report = report.json();
    assert_eq!((&report["changed"], &report["source"]), (&json!(false), &json!("claude")));
    assert_eq!(report["files"][0]["changes"][0]["rule"], "torn-line");
    assert_eq!(report["files"][0]["changes"][0]["line"], 6);
    // A file is named as it was: what goes by its id may be another one.
    let copy = machine.place.file("a copy.jsonl");
    let path = machine.user.join(CLAUDE).join("c0de0001-1111-4111-8111-000000000001.jsonl");
    fs::copy(path, &copy).unwrap();
    let checked = machine.run(&["check", copy.to_str().unwrap()]);
    assert!(
        checked.out.contains("segno repair '") && checked.out.contains("a copy.jsonl"),
        "{checked:?}"
    );
    // Nobody is there who could say yes.
    for words in [&["--install"][..], &["--in-place"], &["-o", "new.jsonl"]] {
        let said = machine.run(&[&["repair", TORN], words].concat());
        assert_eq!(said.code, 2, "{said:?}");
        assert!(said.out.contains("line 6") && said.err.contains("--yes"), "{said:?}");
    }
    assert_eq!(machine.untouched(".claude"), before);
    let checked = machine.run(&["check", TORN]);
    assert!(
        checked.out.contains(&format!("segno repair {TORN}"))
            || checked.out.contains("repair claude:"),
        "{checked:?}"
    );
}

/// Covers: #1, #160, G14.
#[test]
fn a_repaired_copy_is_installed_once_and_its_command_is_printed() {
    let machine = torn();
    let before = machine.untouched(".claude");
    let said = machine.run(&["repair", TORN, "--install", "--yes"]);
    assert_eq!(said.code, 0, "{said:?}");
    let report = machine.run(&["repair", TORN, "--install", "--yes", "--json"]).json();
    same_shape("repair-other", &example("repair-other"), &report);
    let command = said
        .out
        .lines()
        .find_map(|line| line.split_once("claude --resume "))
        .unwrap_or_else(|| panic!("{said:?}"));
    assert!(command.0.contains("cd ") && command.0.contains("&&"), "{said:?}");
    let new = command.1.trim().to_owned();
    assert_eq!(new.len(), 36, "{new}");
    let listed = machine.list(&["--all"]);
    assert_eq!(listed.len(), 2, "{listed:?}");
    let copy = format!("claude:{new}");
    let checked = machine.run(&["check", &copy]);
    assert_eq!(checked.code, 0, "{checked:?}");
    let sent = machine.out(&["show", &copy, "--context"]);
    assert!(sent.contains("FINAL-01"), "{sent}");
    let again = machine.run(&["repair", TORN, "--install", "--yes", "--json"]);
    assert_eq!(again.code, 0, "{again:?}");
    assert_eq!(again.json()["results"][0]["was_there"], true);
    assert_eq!(machine.list(&["--all"]).len(), 2);
    // What was there is as it was.
    let after = machine.untouched(".claude");
    assert!(before.iter().all(|file| after.contains(file)));
    // The copy needs no repair.
    let sound = machine.run(&["repair", &copy, "-o", "copy.jsonl"]);
    assert_eq!(sound.code, 0, "{sound:?}");
    assert!(sound.out.contains("A copy is not needed"), "{sound:?}");
    assert!(!machine.place.file("copy.jsonl").exists());
}

/// Covers: G14.
#[test]
fn a_file_is_repaired_in_place_and_kept() {
    let machine = torn();
    let path = machine.user.join(CLAUDE).join("c0de0001-1111-4111-8111-000000000001.jsonl");
    let before = fs::read(&path).unwrap();
    let said = machine.run(&["repair", TORN, "--in-place", "--yes"]);
    assert_eq!(said.code, 0, "{said:?}");
    let backup = path.with_file_name("c0de0001-1111-4111-8111-000000000001.jsonl.before-repair");
    assert_eq!(fs::read(&backup).unwrap(), before);
    assert!(said.out.contains("before-repair") && said.out.contains("claude --resume"), "{said:?}");
    assert_eq!(machine.run(&["check", TORN]).code, 0);
    assert_eq!(machine.run(&["repair", TORN]).code, 0);
    assert_eq!(machine.list(&["--all"]).len(), 1, "the backup is no session");
}

/// Covers: G14.
#[test]
fn what_its_agent_has_open_is_not_replaced() {
    let machine = torn();
    let pid = std::process::id();
    let id = "c0de0001-1111-4111-8111-000000000001";
    machine.put(
        &format!(".claude/sessions/{pid}.json"),
        &format!("{{\"pid\":{pid},\"sessionId\":\"{id}\",\"status\":\"idle\"}}"),
    );
    let path = machine.user.join(CLAUDE).join(format!("{id}.jsonl"));
    let before = fs::read(&path).unwrap();
    let said = machine.run(&["repair", TORN, "--in-place", "--yes"]);
    assert_eq!(said.code, 4, "{said:?}");
    assert!(said.err.contains("open in its agent") && said.err.contains("--install"), "{said:?}");
    assert_eq!(fs::read(&path).unwrap(), before);
}

/// Covers: G14. A fork that begins with a reference needs the file as it is.
#[test]
fn a_file_that_others_begin_with_is_not_replaced() {
    let machine = Machine::with(CODEX, &["15-orphan-call-tail"]);
    let id = "019c0000-000f-7000-8000-00000000000f";
    let fork = json!({"timestamp": "2026-03-02T10:00:00.000Z", "ordinal": 7, "type": "session_meta", "payload": {
        "id": "019c0000-00f0-7000-8000-0000000000f0", "timestamp": "2026-03-02T10:00:00.000Z", "cwd": "/srv/x",
        "history_base": {"thread_id": id, "end_ordinal_exclusive": 7, "end_byte_offset": 900}}});
    let name =
        format!("{CODEX}/rollout-2026-03-02T10-00-00-019c0000-00f0-7000-8000-0000000000f0.jsonl");
    machine.put(&name, &format!("{fork}\n"));
    let before = machine.untouched(CODEX);
    let said = machine.run(&["repair", "codex:019c0000-000f", "--in-place", "--yes"]);
    assert_eq!(said.code, 1, "{said:?}");
    assert!(said.err.contains("begins with lines") && said.err.contains("--install"), "{said:?}");
    assert_eq!(machine.untouched(CODEX), before);
    assert_eq!(machine.run(&["repair", "codex:019c0000-000f", "--install", "--yes"]).code, 0);
}

#[test]
fn a_new_file_is_written_beside_nothing_and_over_nothing() {
    let machine = torn();
    let said = machine.run(&["repair", TORN, "-o", "new.jsonl", "--yes"]);
    assert_eq!(said.code, 0, "{said:?}");
    let new = machine.place.file("new.jsonl");
    let aside = fs::read_to_string(machine.place.file("new.jsonl.set-aside")).unwrap();
    assert_eq!(aside.lines().count(), 2, "{aside}");
    let before = fs::read(&new).unwrap();
    let again = machine.run(&["repair", TORN, "-o", "new.jsonl", "--yes"]);
    assert_eq!(again.code, 1, "{again:?}");
    assert!(again.err.contains("exists already"), "{again:?}");
    assert_eq!(fs::read(&new).unwrap(), before);
    // A file is repaired as well as a session.
    let sound = machine.run(&["repair", new.to_str().unwrap(), "--json"]);
    assert_eq!(sound.code, 0, "{sound:?}");
    assert_eq!(sound.json()["files"], json!([]));
}

/// Covers: #11, #12, #32, #36.
#[test]
fn every_agents_sessions_are_repaired_in_their_own_way() {
    let rows = [
        (CODEX, "08-bom-crlf", "codex:019c0000-0008", "byte-order-mark"),
        (CODEX, "15-orphan-call-tail", "codex:019c0000-000f", "unanswered-call"),
        (PI, "18-duplicate-results", "pi:019c1111-0012", "second-result"),
        (CLINE, "49-truncated-json-array", "cline:1772442000000", "torn-array"),
    ];
    for (folder, case, session, rule) in rows {
        let machine = Machine::with(folder, &[case]);
        let before = machine.untouched(folder);
        let said = machine.run(&["repair", session, "--json"]);
        assert_eq!(said.code, 5, "{case}: {said:?}");
        assert!(said.out.contains(&format!("\"{rule}\"")), "{case}: {said:?}");
        assert_eq!(machine.untouched(folder), before, "{case}");
        let fixed = machine.run(&["repair", session, "--in-place", "--yes"]);
        assert_eq!(fixed.code, 0, "{case}: {fixed:?}");
        let again = machine.run(&["repair", session]);
        assert_eq!(again.code, 0, "{case}: {again:?}");
        assert!(again.out.contains("needs no repair"), "{case}: {again:?}");
    }
}

/// A rollout whose lines have these numbers: its header, a prompt, a call, its result, a reply.
fn numbered(id: &str, numbers: [&str; 5]) -> String {
    let at = "2026-03-02T09:00:0";
    let rows = [
        format!("\"type\":\"session_meta\",\"payload\":{{\"id\":\"{id}\",\"timestamp\":\"{at}0.000Z\",\"cwd\":\"/srv/kiln\",\"cli_version\":\"0.171.0\",\"history_mode\":\"paginated\",\"source\":\"cli\"}}"),
        "\"type\":\"response_item\",\"payload\":{\"type\":\"message\",\"role\":\"user\",\"content\":[{\"type\":\"input_text\",\"text\":\"ASK-N\"}]}".to_owned(),
        "\"type\":\"response_item\",\"payload\":{\"type\":\"function_call\",\"name\":\"shell\",\"arguments\":\"{}\",\"call_id\":\"c\"}".to_owned(),
        "\"type\":\"response_item\",\"payload\":{\"type\":\"function_call_output\",\"call_id\":\"c\",\"output\":\"OUT-N\"}".to_owned(),
        "\"type\":\"response_item\",\"payload\":{\"type\":\"message\",\"role\":\"assistant\",\"content\":[{\"type\":\"output_text\",\"text\":\"SAY-N\"}]}".to_owned(),
    ];
    let line = |(n, (number, row)): (usize, (&str, String))| {
        format!("{{\"timestamp\":\"{at}{n}.000Z\",\"ordinal\":{number},{row}}}\n")
    };
    std::iter::zip(numbers, rows).enumerate().map(line).collect()
}

/// Numbers that are too high, repeated or backwards hide nothing, in the session, in its forks and in what is made
/// of it, and a repaired file counts up by one.
#[test]
fn wrong_numbers_of_lines_hide_nothing_anywhere() {
    let wrong = [
        ["0", "1", "9000000000", "3", "4"],
        ["0", "1", "18446744073709551615", "3", "4"],
        ["9000000000", "1", "2", "3", "4"],
        ["0", "1", "2", "2", "3"],
        ["0", "1", "1", "1", "1"],
        ["0", "3", "2", "1", "4"],
        ["4", "3", "2", "1", "0"],
    ];
    let (id, fork) =
        ("019c0000-0001-7000-8000-000000000001", "019c0000-0002-7000-8000-000000000002");
    let file = |id: &str| format!("{CODEX}/rollout-2026-03-02T09-00-00-{id}.jsonl");
    for numbers in wrong {
        let machine = Machine::new();
        let text = numbered(id, numbers);
        machine.put(&file(id), &text);
        // A fork names the end of its base as a place and as a number, or only as a number.
        for (n, base) in
            [format!(",\"end_byte_offset\":{}", text.len()), String::new()].iter().enumerate()
        {
            let fork = fork.replace("0002-7000", &format!("000{}-7000", n + 2));
            let head = format!(
                "{{\"timestamp\":\"2026-03-02T10:00:00.000Z\",\"ordinal\":5,\"type\":\"session_meta\",\"payload\":{{\"id\":\"{fork}\",\"timestamp\":\"2026-03-02T10:00:00.000Z\",\"cwd\":\"/srv/kiln\",\"history_base\":{{\"thread_id\":\"{id}\",\"end_ordinal_exclusive\":5{base}}}}}}}\n"
            );
            let own = "{\"timestamp\":\"2026-03-02T10:00:01.000Z\",\"ordinal\":6,\"type\":\"response_item\",\"payload\":{\"type\":\"message\",\"role\":\"user\",\"content\":[{\"type\":\"input_text\",\"text\":\"FORK-N\"}]}}\n";
            machine.put(&file(&fork), &format!("{head}{own}"));
        }
        assert_eq!(machine.list(&["--all"]).len(), 3, "{numbers:?}");
        let holds_all = |text: &str, words: &[&str]| {
            let missing: Vec<_> = words.iter().filter(|word| !text.contains(**word)).collect();
            assert!(missing.is_empty(), "{numbers:?}: {missing:?} in {text}");
        };
        let all = ["ASK-N", "OUT-N", "SAY-N"];
        let session = "codex:019c0000-0001";
        holds_all(&machine.out(&["show", session]), &all);
        holds_all(&machine.out(&["show", session, "--context"]), &all);
        holds_all(&machine.out(&["export", session, "--format", "markdown"]), &all);
        holds_all(&machine.out(&["export", session, "--format", "pi"]), &all);
        for fork in ["codex:019c0000-0002", "codex:019c0000-0003"] {
            holds_all(&machine.out(&["show", fork, "--context"]), &["FORK-N"]);
            holds_all(&machine.out(&["show", fork, "--context"]), &all);
        }
        let said = machine.run(&["repair", session, "-o", "mended.jsonl", "--yes"]);
        assert_eq!(said.code, 0, "{numbers:?}: {said:?}");
        let mended = fs::read_to_string(machine.place.file("mended.jsonl")).unwrap();
        let counted: Vec<u64> = mended
            .lines()
            .map(|line| {
                serde_json::from_str::<serde_json::Value>(line).unwrap()["ordinal"]
                    .as_u64()
                    .unwrap()
            })
            .collect();
        assert_eq!(counted, [0, 1, 2, 3, 4], "{numbers:?}");
        holds_all(&mended, &all);
        let path = machine.place.file("mended.jsonl");
        assert_eq!(machine.run(&["check", path.to_str().unwrap()]).code, 0, "{numbers:?}");
        assert_eq!(machine.run(&["repair", path.to_str().unwrap()]).code, 0, "{numbers:?}");
    }
}

/// What changes with a change is told, so that the rest is what it is said to be.
#[test]
fn lines_that_change_with_a_change_are_counted_and_placed() {
    let machine = Machine::new();
    let text =
        fs::read_to_string(corpus("foreign/codex/killed-mid-tool-then-resumed.jsonl")).unwrap();
    let name = "rollout-2026-11-29T20-43-31-01a2290c-7482-75b2-9fc6-3b8e9518290b.jsonl";
    let path = machine.put(&format!("{CODEX}/{name}"), &text);
    let path = path.to_str().unwrap();
    let said = machine.run(&["repair", path]);
    assert_eq!(said.code, 5, "{said:?}");
    assert!(said.out.contains("with it: 11 lines numbered anew (15-25)"), "{said:?}");
    assert!(said.out.contains("1 change, and 11 lines that change with it;"), "{said:?}");
    let report = machine.run(&["repair", path, "--json"]).json();
    let follows = json!([{"what": "numbered anew", "count": 11, "lines": [[15, 25]]}]);
    assert_eq!(report["files"][0]["follows"], follows);
    let copy = machine.run(&["repair", path, "--install", "--yes"]);
    assert!(copy.out.contains("byte for byte, but for the session's id"), "{copy:?}");
}

/// Whose subagent is damaged is told so, with a command that mends it; a copy of it is refused.
#[test]
fn damaged_subagents_are_told_and_repaired_where_they_are() {
    let machine = Machine::with(CLAUDE, &["42-subagents-before-fork"]);
    let parent = "claude:c0de002a-1111-4111-8111-0000000000a0";
    assert_eq!(machine.run(&["check", parent]).code, 0);
    let folder = format!("{CLAUDE}/c0de002a-1111-4111-8111-0000000000a0/subagents");
    let path = machine.user.join(&folder).join("agent-a42b.jsonl");
    let before = fs::read_to_string(&path).unwrap();
    fs::write(&path, format!("{before}{{\"type\":\"user\",\"uuid\":\"be\n")).unwrap();
    let shown = path.to_str().unwrap();
    let next = format!("next: segno repair {shown} --in-place");
    let checked = machine.run(&["check", parent]);
    assert_eq!(checked.code, 1, "{checked:?}");
    assert!(
        checked.out.contains("its subagent a42b") && checked.out.contains(&next),
        "{checked:?}"
    );
    let report = machine.run(&["check", parent, "--json"]).json();
    assert_eq!(report["damaged_subagents"][0]["path"], shown, "{report}");
    let said = machine.run(&["repair", parent]);
    assert_eq!(said.code, 0, "{said:?}");
    assert!(said.out.contains("needs no repair") && said.out.contains(&next), "{said:?}");
    let child = machine.run(&["repair", shown]);
    assert_eq!(child.code, 5, "{child:?}");
    assert!(child.out.contains(&next) && !child.out.contains("--install"), "{child:?}");
    let alone = machine.untouched(CLAUDE);
    let refused = machine.run(&["repair", shown, "--install", "--yes"]);
    assert_eq!(refused.code, 1, "{refused:?}");
    assert!(refused.err.contains("which no call names") && refused.err.contains("--in-place"));
    assert_eq!(machine.untouched(CLAUDE), alone);
    let fixed = machine.run(&["repair", shown, "--in-place", "--yes"]);
    assert_eq!(fixed.code, 0, "{fixed:?}");
    assert!(fixed.out.contains(&format!("next: segno resume {parent}")), "{fixed:?}");
    assert_eq!(machine.run(&["check", parent]).code, 0);
    assert_eq!(machine.run(&["repair", parent]).code, 0);
}

/// What `repair` offers works where the header is lost: the id is the one that the repaired file has.
#[test]
fn a_copy_of_a_session_without_its_header_is_installed() {
    let machine = Machine::new();
    let rows = [
        (
            PI,
            "pi/02-tool-calls.jsonl",
            "2026-11-29T20-44-20-827Z_01a2290d-33d7-7244-9c12-1832ff2518c4.jsonl",
        ),
        (
            CODEX,
            "codex/multi-turn-tools.jsonl",
            "rollout-2026-03-02T09-00-00-019c0000-0008-7000-8000-000000000008.jsonl",
        ),
    ];
    for (folder, fixture, name) in rows {
        let text = fs::read_to_string(corpus(&format!("foreign/{fixture}"))).unwrap();
        let rest = text.split_once('\n').unwrap().1;
        let path = machine.put(&format!("{folder}/{name}"), rest);
        let said = machine.run(&["repair", path.to_str().unwrap(), "--install", "--yes"]);
        assert_eq!(said.code, 0, "{name}: {said:?}");
        assert!(
            said.out.contains("missing-header") && said.out.contains("next: "),
            "{name}: {said:?}"
        );
    }
    assert_eq!(machine.list(&["--all"]).len(), 4);
}

/// A folder that is not there is made by no command; all of them say how it is, and exit alike.
#[test]
fn a_new_file_needs_a_folder_that_is_there() {
    let machine = torn();
    let to = "no/such/x";
    let rows: &[&[&str]] = &[
        &["repair", TORN, "-o", to, "--yes"],
        &["repair", TORN, "-o", to],
        &["export", TORN, "--format", "html", "-o", to],
        &["export", TORN, "--format", "markdown", "-o", to],
        &["export", TORN, "--format", "pi", "-o", to],
        &["export", TORN, "--format", "codex", "-o", to],
    ];
    for words in rows {
        let said = machine.run(words);
        assert_eq!(said.code, 7, "{words:?}: {said:?}");
        assert!(
            said.err.contains("mkdir -p ") && said.err.contains("no/such"),
            "{words:?}: {said:?}"
        );
        assert!(!machine.place.file("no").exists(), "{words:?}");
    }
}

/// Covers: #113. A folder that cannot be written is named, and so is a way that works.
#[test]
fn a_folder_that_cannot_be_written_is_said_with_a_way_on() {
    use std::os::unix::fs::PermissionsExt as _;
    let machine = torn();
    let folder = machine.user.join(CLAUDE);
    let mode = |mode| fs::set_permissions(&folder, fs::Permissions::from_mode(mode)).unwrap();
    mode(0o555);
    if fs::write(folder.join("x"), "").is_ok() {
        fs::remove_file(folder.join("x")).unwrap();
        segno_testkit::skipped("root writes everywhere");
        return mode(0o755);
    }
    for way in ["--install", "--in-place"] {
        let said = machine.run(&["repair", TORN, way, "--yes"]);
        assert_eq!(said.code, 7, "{said:?}");
        assert!(
            said.err.contains("-o FILE") && said.err.contains(folder.to_str().unwrap()),
            "{said:?}"
        );
        assert!(!said.err.contains(".tmp-") && !said.err.contains("--home"), "{said:?}");
    }
    mode(0o755);
}

/// Other names of a file are told before it is replaced.
#[test]
fn other_names_of_a_file_are_told() {
    let machine = torn();
    let path = machine.user.join(CLAUDE).join("c0de0001-1111-4111-8111-000000000001.jsonl");
    fs::hard_link(&path, machine.place.file("snapshot")).unwrap();
    let said = machine.run(&["repair", TORN, "--in-place", "--yes"]);
    assert_eq!(said.code, 0, "{said:?}");
    assert!(said.out.contains("1 other name (hard links)"), "{said:?}");
}

/// `check` names `repair` only where that changes something.
#[test]
fn check_and_repair_agree() {
    let cases = fs::read_dir(corpus("cases")).unwrap();
    let mut files = Vec::new();
    for case in cases {
        super::machine::each_file(&case.unwrap().path(), &mut |path| {
            files.extend(path.extension().is_some_and(|e| e == "jsonl").then(|| path.to_owned()));
        });
    }
    let machine = Machine::new();
    let mut named = 0;
    for path in files {
        let shown = path.to_str().unwrap();
        let checked = machine.run(&["check", shown]);
        let says = checked.out.lines().any(|line| line.starts_with("next: segno repair"));
        if !says {
            continue;
        }
        named += 1;
        assert_eq!(machine.run(&["repair", shown]).code, 5, "{shown}: {checked:?}");
    }
    assert!(named > 10, "{named}");
}

/// Covers: G14.
#[test]
fn databases_are_left_alone_and_the_way_on_is_said() {
    let machine = Machine::new();
    let to = machine.user.join(".local/share/opencode");
    fs::create_dir_all(&to).unwrap();
    fs::copy(corpus("foreign/opencode/opencode.db"), to.join("opencode.db")).unwrap();
    let listed = machine.list(&["--all", "--source", "opencode"]);
    let session = format!("opencode:{}", listed[0]["id"].as_str().unwrap());
    let said = machine.run(&["repair", &session]);
    assert_eq!(said.code, 1, "{said:?}");
    assert!(said.err.contains("database") && said.err.contains("--here"), "{said:?}");
    // The command that it names works.
    assert!(said.err.contains(&format!("segno export {session} --format opencode --install")));
    let copied = machine.run(&["export", &session, "--format", "opencode", "--install", "--yes"]);
    assert_eq!(copied.code, 0, "{copied:?}");
    assert!(copied.out.contains("opencode import "), "{copied:?}");
}

#[test]
fn ones_own_sessions_are_repaired_where_they_are() {
    let desk = Desk::new();
    desk.session(1, vec![prompt("hello"), answer("hi")]);
    let said = desk.run(&["repair", id(1).as_ref(), "--install"]);
    assert_eq!(said.code, 2, "{said:?}");
    assert!(said.err.contains("without -o"), "{said:?}");
}
