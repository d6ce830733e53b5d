//! The recorded cases of damage and of surprises, as the commands show them.
//!
//! Responsible for: lists, titles, order, sums, exit codes and what is shown. Must not: test how a case is
//! read; that is done beside the readers.

use super::machine::{CLAUDE, CLINE, CODEX, Machine, PI, field};
use serde_json::Value;
use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, SystemTime};

/// The directory in which the cases were recorded.
const KILN: &str = concat!("/srv/", "work/kiln");

/// One case: where it goes, what `check` says, what `show` and `show --context` hold and do not hold.
pub(super) struct Case {
    pub(super) folder: &'static str,
    pub(super) name: &'static str,
    pub(super) session: &'static str,
    verdict: &'static str,
    /// Lines that `check` names.
    lines: &'static [u64],
    shown: &'static [&'static str],
    pub(super) sent: &'static [&'static str],
    pub(super) unsent: &'static [&'static str],
}

pub(super) const CASES: &[Case] = &[
    Case {
        folder: CLAUDE,
        name: "01-torn-middle-lines",
        session: "claude:c0de0001",
        verdict: "damage",
        lines: &[6, 7],
        shown: &["FINAL-01"],
        sent: &["FINAL-01"],
        unsent: &[],
    },
    Case {
        folder: CLAUDE,
        name: "03-fused-stub",
        session: "claude:c0de0003",
        verdict: "damage",
        lines: &[7],
        shown: &["SALVAGE-03", "LEAF-03"],
        sent: &["SALVAGE-03", "LEAF-03"],
        unsent: &[],
    },
    Case {
        folder: CLAUDE,
        name: "04-nul-block",
        session: "claude:c0de0004",
        verdict: "warnings",
        lines: &[6, 9],
        shown: &["AFTER-NUL-04", "LAST-04"],
        sent: &["AFTER-NUL-04", "LAST-04"],
        unsent: &[],
    },
    Case {
        folder: CLAUDE,
        name: "05-lone-surrogate",
        session: "claude:c0de0005",
        verdict: "warnings",
        lines: &[3, 6],
        shown: &["\u{fffd}", "\u{1f525}"],
        sent: &["\u{fffd}", "\u{1f525}"],
        unsent: &[],
    },
    Case {
        folder: CODEX,
        name: "08-bom-crlf",
        session: "codex:019c0000-0008",
        verdict: "notes",
        lines: &[],
        shown: &[],
        sent: &[],
        unsent: &[],
    },
    Case {
        folder: PI,
        name: "10-duplicate-prefix",
        session: "pi:019c1111-000a",
        verdict: "notes",
        lines: &[],
        shown: &[],
        sent: &[],
        unsent: &[],
    },
    Case {
        folder: CLAUDE,
        name: "12-missing-parent",
        session: "claude:c0de000c",
        verdict: "warnings",
        lines: &[],
        shown: &["OLD-12", "SUMMARY-12", "NEW-12a", "LEAF-12"],
        sent: &["SUMMARY-12", "NEW-12a", "Soak is 30 min.", "NEW-12b", "LEAF-12"],
        unsent: &["OLD-12"],
    },
    Case {
        folder: CLAUDE,
        name: "17-orphan-result",
        session: "claude:c0de0011",
        verdict: "warnings",
        lines: &[4],
        shown: &["KEEP-17", "restarted ok", "LEAF-17"],
        sent: &["KEEP-17", "LEAF-17"],
        unsent: &["toolu_17_lost"],
    },
    Case {
        folder: PI,
        name: "18-duplicate-results",
        session: "pi:019c1111-0012",
        verdict: "warnings",
        lines: &[5, 7],
        shown: &["REAL-18", "LEAF-18"],
        sent: &["REAL-18", "LEAF-18"],
        unsent: &["Tool call was interrupted"],
    },
    Case {
        folder: PI,
        name: "20-reused-call-ids",
        session: "pi:019c1111-0014",
        verdict: "notes",
        lines: &[],
        shown: &["OUT-20-1", "OUT-20-2", "OUT-20-3", "OUT-20-4", "LEAF-20"],
        sent: &["OUT-20-1", "OUT-20-2", "OUT-20-3", "OUT-20-4", "LEAF-20"],
        unsent: &["missing"],
    },
    Case {
        folder: CODEX,
        name: "37-unknown-variants",
        session: "codex:019c0000-0025",
        verdict: "notes",
        lines: &[],
        shown: &["AFTER-37"],
        sent: &["AFTER-37"],
        unsent: &[],
    },
    Case {
        folder: PI,
        name: "37-unknown-variants",
        session: "pi:019c1111-0025",
        verdict: "notes",
        lines: &[],
        shown: &["LEAF-37"],
        sent: &["LEAF-37"],
        unsent: &[],
    },
    Case {
        folder: CLAUDE,
        name: "13-parallel-tool-branches",
        session: "claude:c0de000d",
        verdict: "notes",
        lines: &[],
        shown: &["RES-13a", "RES-13b", "RES-13c", "END-13"],
        sent: &["RES-13a", "RES-13b", "RES-13c", "LEAF-13", "END-13"],
        unsent: &["interrupted", "unknown"],
    },
    Case {
        folder: CLAUDE,
        name: "21-unsigned-thinking",
        session: "claude:c0de0015",
        verdict: "notes",
        lines: &[],
        shown: &["Sorry, yes."],
        sent: &["Yes, 2 C per minute.", "Sorry, yes."],
        unsent: &[],
    },
    Case {
        folder: CLAUDE,
        name: "23-empty-text-blocks",
        session: "claude:c0de0017",
        verdict: "notes",
        lines: &[],
        shown: &["LEAF-23"],
        sent: &["mkdir x", "image/png", "LEAF-23"],
        unsent: &[],
    },
    Case {
        folder: CLAUDE,
        name: "24-compaction-resume/later",
        session: "claude:c0de0018",
        verdict: "notes",
        lines: &[],
        shown: &["PRE-24", "SUMMARY-24", "LEAF-24"],
        sent: &["SUMMARY-24", "POST-24", "LEAF-24"],
        unsent: &["PRE-24"],
    },
    Case {
        folder: CLAUDE,
        name: "24-compaction-resume/right-after",
        session: "claude:c0de0018",
        verdict: "notes",
        lines: &[],
        shown: &["PRE-24", "SUMMARY-24"],
        sent: &["SUMMARY-24"],
        unsent: &["PRE-24"],
    },
    Case {
        folder: CLAUDE,
        name: "27-replayed-copies",
        session: "claude:c0de001b",
        verdict: "warnings",
        lines: &[9],
        shown: &["A3-27", "LEAF-27"],
        sent: &["SUMMARY2-27", "U4-27", "LEAF-27"],
        unsent: &["A3-27"],
    },
    Case {
        folder: CLAUDE,
        name: "48-queued-prompts",
        session: "claude:c0de0030",
        verdict: "notes",
        lines: &[2],
        shown: &["Q1-48"],
        sent: &["toolu_48", "Q1-48", "unknown"],
        unsent: &["Q2-48", "Q3-48"],
    },
    Case {
        folder: CODEX,
        name: "15-orphan-call-tail",
        session: "codex:019c0000-000f",
        verdict: "notes",
        lines: &[5],
        shown: &["Flash the controller."],
        sent: &["call_15", "unknown"],
        unsent: &["aborted"],
    },
    Case {
        folder: CODEX,
        name: "51-in-flight-turn",
        session: "codex:019c0000-0033",
        verdict: "notes",
        lines: &[11],
        shown: &["LEAF-51"],
        sent: &["call_51", "unknown"],
        unsent: &[],
    },
    Case {
        folder: PI,
        name: "07-unicode-separators",
        session: "pi:019c1111-0007",
        verdict: "notes",
        lines: &[],
        shown: &["TAIL-07"],
        sent: &["TAIL-07"],
        unsent: &[],
    },
    Case {
        folder: PI,
        name: "26-fork-label-boundary",
        session: "pi:019c1111-001a-7000-8000-00000000001a",
        verdict: "notes",
        lines: &[],
        shown: &["LEAF-26"],
        sent: &["SUMMARY-26", "KEEP-26c", "KEEP-26d", "LEAF-26"],
        unsent: &["EARLY-26"],
    },
    Case {
        folder: PI,
        name: "40-clock-backwards",
        session: "pi:019c1111-0028",
        verdict: "notes",
        lines: &[],
        shown: &["FUTURE-40", "LEAF-40"],
        sent: &["FIRST-40", "FUTURE-40", "LEAF-40"],
        unsent: &[],
    },
    Case {
        folder: PI,
        name: "46-nul-in-text",
        session: "pi:019c1111-002e",
        verdict: "warnings",
        lines: &[6],
        shown: &["LIT-46", "LEAF-46"],
        sent: &["NUL-46", "LIT-46", "LEAF-46"],
        unsent: &[],
    },
];

/// Covers: #1, #3, #5, #10, #20, #24, #26, #32, #34, #36, #39, #46, #48, #51, #54, #109, #121, #130, #131, #132,
/// #135, #147, G3.
#[test]
fn each_case_is_checked_and_shown() {
    let mut wrong = String::new();
    for case in CASES {
        let machine = Machine::with(case.folder, &[case.name]);
        let before = machine.untouched(case.folder);
        let checked = machine.run(&["check", case.session, "--json"]);
        let report = checked.json();
        let lines: Vec<u64> = report["findings"]
            .as_array()
            .unwrap()
            .iter()
            .filter_map(|finding| finding["line"].as_u64())
            .collect();
        let fits = match case.verdict {
            "notes" => ["sound", "notes"].contains(&report["verdict"].as_str().unwrap()),
            verdict => report["verdict"] == verdict,
        };
        let code = i32::from(case.verdict != "notes");
        if !fits || checked.code != code || !case.lines.iter().all(|line| lines.contains(line)) {
            writeln!(wrong, "{}: {report}", case.name).unwrap();
        }
        let shown = machine.out(&["show", case.session]);
        let context = machine.run(&["show", case.session, "--context", "--json"]).json();
        let sent = context["messages"].to_string();
        for text in case.shown.iter().filter(|text| !shown.contains(**text)) {
            writeln!(wrong, "{} does not show {text}: {shown}", case.name).unwrap();
        }
        for text in case.sent.iter().filter(|text| !sent.contains(**text)) {
            writeln!(wrong, "{} does not send {text}: {sent}", case.name).unwrap();
        }
        for text in case.unsent.iter().filter(|text| sent.contains(**text)) {
            writeln!(wrong, "{} sends {text}: {sent}", case.name).unwrap();
        }
        assert_eq!(machine.untouched(case.folder), before, "{}", case.name);
    }
    assert!(wrong.is_empty(), "{wrong}");
}

/// How many of the results in a context hold this.
fn results_with(machine: &Machine, session: &str, text: &str) -> usize {
    let context = machine.run(&["show", session, "--context", "--json"]).json();
    let messages = context["messages"].as_array().unwrap();
    let results = messages.iter().filter_map(|m| m["results"].as_array()).flatten();
    results.filter(|result| result["content"].to_string().contains(text)).count()
}

/// Covers: #34, #36, #38, #39.
#[test]
fn every_call_has_the_one_result_that_is_its_own() {
    let machine = Machine::with(PI, &["18-duplicate-results", "20-reused-call-ids"]);
    assert_eq!(results_with(&machine, "pi:019c1111-0012", ""), 1);
    for n in 1..=4 {
        assert_eq!(results_with(&machine, "pi:019c1111-0014", &format!("OUT-20-{n}")), 1);
    }
    let machine = Machine::with(CLAUDE, &["17-orphan-result"]);
    let context = machine.run(&["show", "claude:c0de0011", "--context", "--json"]).json();
    let roles = field(context["messages"].as_array().unwrap(), "role");
    // What the next prompt will say is not there yet.
    assert_eq!(roles[..4], ["user", "assistant", "user", "assistant"]);
}

/// Covers: #70.
#[test]
fn a_late_first_prompt_is_the_title() {
    let machine = Machine::with(CODEX, &["29-late-first-prompt"]);
    let listed = machine.list(&["--all"]);
    assert_eq!(listed.len(), 1);
    assert!(listed[0]["first_prompt"].as_str().unwrap().starts_with("TITLE-29"), "{listed:?}");
    assert_eq!(listed[0]["user_messages"], 1);
    assert_eq!(listed[0]["id"], "019c0000-001d-7000-8000-00000000001d");
    let text = machine.out(&["list", "--all"]);
    assert!(text.contains("TITLE-29") && !text.contains("AGENTS.md"), "{text}");
}

/// Covers: #72, #73.
#[test]
fn titles_are_what_a_person_said() {
    let machine = Machine::with(CLAUDE, &["31-slash-command-title"]);
    let listed = machine.list(&["--all"]);
    assert_eq!(listed.len(), 3);
    let text = machine.out(&["list", "--all"]);
    for title in ["TITLE-31A", "/model fast", "product - new 31"] {
        assert!(text.contains(title), "{title}: {text}");
    }
    for markup in ["<", "reminder", "Caveat"] {
        assert!(!text.contains(markup), "{markup}: {text}");
    }
    let found = machine.run(&["show", "product - new 31", "--json"]).json();
    assert_eq!(found["id"], "c0de001f-1111-4111-8111-0000000000d0");
    let resumed = machine.out(&["resume", "product - new 31", "--print"]);
    assert!(resumed.contains("claude --resume c0de001f-1111-4111-8111-0000000000d0"), "{resumed}");
}

/// Covers: #74.
#[test]
fn order_comes_from_messages_and_not_from_file_times() {
    let machine = Machine::with(CLAUDE, &["32-mtime-lies/sessions"]);
    let id = |n: usize| format!("c0de0020-1111-4111-8111-00000000000{n}");
    let here = machine.place.file("").to_str().unwrap().to_owned();
    for n in 1..=3 {
        let path = machine.user.join(CLAUDE).join(format!("{}.jsonl", id(n)));
        let text = fs::read_to_string(&path).unwrap();
        let at = SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000 + 86_400 * n as u64);
        fs::write(&path, text.replace(KILN, here.trim_end_matches('/'))).unwrap();
        fs::File::options().write(true).open(&path).unwrap().set_modified(at).unwrap();
    }
    let before = machine.untouched(".claude");
    let listed = machine.list(&[]);
    assert_eq!(field(&listed, "id"), [id(1), id(2), id(3)]);
    let last = ["2026-03-12T19:00:14.000Z", "2026-03-08T03:53:34.000Z", "2026-03-02T09:16:54.000Z"];
    assert_eq!(field(&listed, "last_message"), last);
    assert_eq!(machine.run(&["show", "claude:last", "--json"]).json()["id"], id(1));
    let printed = machine.out(&["resume", "claude:last", "--print"]);
    assert!(printed.contains(&id(1)), "{printed}");
    assert_eq!(machine.untouched(".claude"), before, "no file time moved");
}

/// Covers: #155, #156.
#[test]
fn a_response_counts_once() {
    let machine = Machine::with(CLAUDE, &["35-usage-dedup"]);
    let stats = machine.run(&["stats", "--by", "session", "--json"]).json();
    let counts = |line: &Value| {
        ["responses", "output", "input", "cache_read", "cache_write", "inherited"]
            .map(|name| line[name].as_u64().unwrap())
    };
    assert_eq!(counts(&stats["total"]), [3, 292, 37, 3000, 600, 2]);
    let own = |id: &str| counts(&stats["rows"][format!("claude:c0de0023-1111-4111-8111-{id}")]);
    assert_eq!((own("000000000023")[1], own("000000000023")[5]), (270, 0));
    assert_eq!((own("0000000000b0")[1], own("0000000000b0")[5]), (22, 2));
    let first = machine
        .list(&["--all"])
        .into_iter()
        .find(|s| s["id"] == "c0de0023-1111-4111-8111-000000000023");
    assert_eq!(first.unwrap()["tokens"]["output"], 270);
}

/// Covers: #157.
#[test]
fn a_fork_does_not_count_what_it_copied() {
    let machine = Machine::with(CODEX, &["36-fork-usage"]);
    let stats = machine.run(&["stats", "--json"]).json();
    let sum = |line: &Value| line["input"].as_u64().unwrap() + line["output"].as_u64().unwrap();
    assert_eq!(sum(&stats["total"]), 1500);
    let listed = machine.list(&["--all"]);
    let fork = listed.iter().find(|s| !s["fork_of"].is_null()).unwrap();
    assert_eq!(fork["fork_of"], "019c0000-0024-7000-8000-000000000024");
    assert_eq!(sum(&fork["tokens"]), 500);
    let parent = listed.iter().find(|s| s["fork_of"].is_null()).unwrap();
    assert_eq!(sum(&parent["tokens"]), 1000);
}

/// Characters that a terminal acts on, other than the end of a line.
fn acts(c: char) -> bool {
    let bidi =
        matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    (c.is_control() && c != '\n') || bidi
}

/// Covers: #163.
#[test]
fn nothing_that_was_stored_reaches_the_terminal_as_a_command() {
    let machine = Machine::with(PI, &["39-terminal-escapes"]);
    let session = "pi:019c1111-0027";
    for args in [
        &["list", "--all"] as &[&str],
        &["show", session],
        &["show", session, "--tree"],
        &["show", session, "--context"],
        &["search", "copy"],
        &["check", session],
        &["check", "--all"],
        &["sources"],
        &["stats", "--by", "project"],
        &["resume", session, "--print"],
    ] {
        let said = machine.run(args);
        let all = format!("{}{}", said.out, said.err);
        assert!(!all.contains(acts), "{args:?}: {all:?}");
        for residue in ["[31m", "[2J", "]0;", "]52;", "PWNED", "example.invalid"] {
            // A command for the shell has to name the directory as it is, in the shell's own escapes.
            let all = match args.contains(&"--print") {
                true => all.replace(r"\x1b[31mred\x1b[0m'", ""),
                false => all.clone(),
            };
            assert!(!all.contains(residue), "{args:?} shows {residue}: {all:?}");
        }
    }
    let text = machine.out(&["list", "--all"]);
    assert_eq!(text.lines().filter(|line| line.contains("safe")).count(), 1, "{text}");
    let listed = machine.list(&["--all"]);
    let name = "safe\u{1b}]0;PWNED-TITLE\u{7} name\u{1b}[2J\r\nsecond line";
    assert_eq!(listed[0]["name"], name);
    assert_eq!(listed[0]["cwd"], format!("{}\u{1b}[31mred\u{1b}[0m", KILN.replace("kiln", "")));
    let shown = machine.run(&["show", session, "--json"]).json();
    assert!(shown["records"].to_string().contains(r"\u001b]52;c;cHduZWQ=\u0007copy"));
}

/// Covers: #74, #109, #110.
#[test]
fn a_clock_that_jumped_decides_nothing() {
    let machine = Machine::with(PI, &["40-clock-backwards"]);
    let listed = machine.list(&["--all"]);
    assert_eq!(listed[0]["last_message"], "2026-03-02T10:02:00.000Z");
    let shown = machine.out(&["show", "pi:019c1111-0028"]);
    let order = ["FIRST-40", "r1", "FUTURE-40", "r2", "BACK-40", "same", "LEAF-40"];
    let places: Vec<usize> = order.iter().map(|text| shown.find(text).unwrap()).collect();
    assert!(places.is_sorted(), "{places:?}: {shown}");
}

/// Covers: #115, #116, G14, G17.
#[test]
fn what_is_made_is_private_and_what_is_read_stays_as_it_was() {
    let machine = Machine::with(CLAUDE, &["41-secrets-and-modes/session"]);
    let file = machine.user.join(CLAUDE).join("c0de0029-1111-4111-8111-000000000029.jsonl");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
    let before = machine.untouched(".claude");
    for args in [
        &["list", "--all"] as &[&str],
        &["show", "claude:c0de0029", "--json"],
        &["search", "AKIA"],
        &["stats"],
        &["sources"],
    ] {
        machine.out(args);
    }
    let checked = machine.run(&["check", "claude:c0de0029"]);
    assert_eq!(checked.code, 0, "{checked:?}");
    assert_eq!(machine.untouched(".claude"), before);
    let mode = |path: &std::path::Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&machine.place.home()), 0o700);
    super::machine::each_file(&machine.place.home(), &mut |path| {
        assert_eq!(mode(path), 0o600, "{}", path.display());
        assert_eq!(mode(path.parent().unwrap()), 0o700, "{}", path.display());
    });
}

/// Covers: #140, #141.
#[test]
fn subagents_stand_behind_the_session_that_they_belong_to() {
    let machine = Machine::with(CLAUDE, &["42-subagents-before-fork"]);
    let (old, fork) =
        ("c0de002a-1111-4111-8111-0000000000a0", "c0de002a-1111-4111-8111-0000000000f0");
    let roots = machine.list(&["--all"]);
    assert_eq!(roots.len(), 2);
    let said = machine.run(&["list", "--all"]);
    assert!(said.out.contains("1 session of subagents (--children)"), "{said:?}");
    let all = machine.list(&["--all", "--children"]);
    let at = all.iter().position(|session| session["child"] == true).unwrap();
    assert_eq!((&all[at]["parent"], &all[at - 1]["id"]), (&all[at - 1]["id"], &Value::from(old)));
    let turns = |id: &str| roots.iter().find(|s| s["id"] == id).unwrap()["user_messages"].clone();
    assert_eq!((turns(old), turns(fork)), (Value::from(1), Value::from(1)), "copies are no turns");
    let agent = all[at]["id"].as_str().unwrap();
    for session in [old, fork] {
        let text = machine.out(&["show", &format!("claude:{session}")]);
        let tail = text.split("subagents:").nth(1).unwrap_or_else(|| panic!("{text}"));
        assert!(tail.contains(agent) && tail.contains("ended"), "{tail}");
        let json = machine.run(&["show", &format!("claude:{session}"), "--json"]).json();
        assert_eq!(field(json["subagents"].as_array().unwrap(), "id"), [agent]);
    }
    let shown = machine.out(&["show", &format!("claude:{agent}")]);
    assert!(shown.contains("PROMPT-42"), "its prompt comes from the call: {shown}");
    let refused = machine.run(&["resume", &format!("claude:{agent}"), "--print"]);
    assert!(refused.code != 0 && refused.err.contains(old), "{refused:?}");
}

/// A subagent that was at work last is not what `last` means.
/// Covers: #75, #140.
#[test]
fn a_subagent_is_never_the_last_session() {
    let machine = Machine::with(CLAUDE, &["42-subagents-before-fork"]);
    let here = machine.place.file("").to_str().unwrap().trim_end_matches('/').to_owned();
    super::machine::each_file(&machine.user.join(CLAUDE), &mut |path| {
        let text = fs::read_to_string(path).unwrap().replace(KILN, &here);
        let later = path.to_string_lossy().contains("subagents");
        let text = if later { text.replace("2026-03-02", "2026-03-03") } else { text };
        fs::write(path, text).unwrap();
    });
    let last = machine.run(&["show", "claude:last", "--json"]).json();
    assert_eq!(last["id"], "c0de002a-1111-4111-8111-0000000000f0");
}

/// Covers: #29.
#[test]
fn a_deep_chain_is_read_to_its_end() {
    let id = "019c1111-002c-7000-8000-00000000002c";
    let mut text = format!(
        "{{\"type\":\"session\",\"version\":3,\"id\":\"{id}\",\"timestamp\":\"2026-03-02T09:00:00.000Z\",\"cwd\":\"/srv/kiln\"}}\n"
    );
    let mut parent = "null".to_owned();
    for n in 0..5000 {
        let (role, says) = match (n % 2, n) {
            (_, 4999) => ("assistant", "LEAF-44".to_owned()),
            (0, _) => ("user", format!("step {n}")),
            _ => ("assistant", format!("step {n}")),
        };
        let nested = format!("{}1{}", "{\"a\":".repeat(400), "}".repeat(400));
        let block = match n {
            2501 => {
                format!(r#"{{"type":"toolCall","id":"t44","name":"nest","arguments":{nested}}}"#)
            }
            _ => format!(r#"{{"type":"text","text":"{says}"}}"#),
        };
        let own = format!("\"6c{n:06x}\"");
        writeln!(
            text,
            r#"{{"type":"message","id":{own},"parentId":{parent},"timestamp":"2026-03-02T09:00:00.000Z","message":{{"role":"{role}","content":[{block}],"timestamp":0}}}}"#
        )
        .unwrap();
        parent = own;
    }
    let machine = Machine::new();
    machine.put(&format!("{PI}/2026-03-02T09-00-00-000Z_{id}.jsonl"), &text);
    let listed = machine.list(&["--all"]);
    assert_eq!((listed.len(), &listed[0]["id"]), (1, &Value::from(id)));
    let session = "pi:019c1111-002c";
    assert!(machine.out(&["show", session]).contains("LEAF-44"));
    assert!(machine.out(&["show", session, "--context"]).contains("LEAF-44"));
    let tree = machine.run(&["show", session, "--tree", "--json"]).json();
    assert_eq!(tree["nodes"].as_array().unwrap().len(), 5000);
    let raw = machine.run(&["show", session, "--json"]).out;
    assert!(raw.contains(&r#"{\"a\":"#.repeat(400)), "the deep record is kept");
    for format in ["markdown", "html", "claude", "codex", "pi", "gemini", "opencode"] {
        let exported = machine.out(&["export", session, "--format", format]);
        assert!(exported.contains("LEAF-44"), "{format}");
    }
    let checked = machine.run(&["check", session]);
    assert!(checked.code <= 1, "{checked:?}");
}

/// Covers: #96.
#[test]
fn an_image_line_is_no_trouble() {
    let id = "019c1111-002d-7000-8000-00000000002d";
    let at = "2026-03-02T09:00:00.000Z";
    let wide = "\u{7aaf}".repeat(30_000);
    let image = "QUJD".repeat(512 << 10);
    let text = [
        format!(r#"{{"type":"session","version":3,"id":"{id}","timestamp":"{at}","cwd":"/srv/kiln"}}"#),
        format!(r#"{{"type":"message","id":"6d000000","parentId":null,"timestamp":"{at}","message":{{"role":"user","content":[{{"type":"text","text":"TITLE-45 look {wide}"}}],"timestamp":0}}}}"#),
        format!(r#"{{"type":"message","id":"6d000001","parentId":"6d000000","timestamp":"{at}","message":{{"role":"assistant","content":[{{"type":"toolCall","id":"t45","name":"shot","arguments":{{}}}}],"timestamp":0}}}}"#),
        format!(r#"{{"type":"message","id":"6d000002","parentId":"6d000001","timestamp":"{at}","message":{{"role":"toolResult","content":[{{"type":"text","text":"{wide}"}},{{"type":"image","mimeType":"image/png","data":"{image}"}}],"toolCallId":"t45","toolName":"shot","isError":false,"timestamp":0}}}}"#),
        format!(r#"{{"type":"message","id":"6d000003","parentId":"6d000002","timestamp":"{at}","message":{{"role":"user","content":[{{"type":"text","text":"LEAF-45"}}],"timestamp":0}}}}"#),
    ]
    .map(|line| line + "\n")
    .concat();
    let machine = Machine::new();
    machine.put(&format!("{PI}/2026-03-02T09-00-00-000Z_{id}.jsonl"), &text);
    let list = machine.out(&["list", "--all"]);
    assert!(list.contains("TITLE-45"), "{list}");
    let session = "pi:019c1111-002d";
    let shown = machine.out(&["show", session]);
    assert!(shown.contains("LEAF-45") && !shown.contains("QUJDQUJD"), "no base64 is shown");
    let checked = machine.run(&["check", session, "--json"]);
    assert_eq!(
        (checked.code, checked.json()["verdict"].as_str()),
        (0, Some("sound")),
        "{checked:?}"
    );
}

/// Covers: #135, #150.
#[test]
fn prompts_that_were_never_delivered_are_shown() {
    let machine = Machine::with(CLAUDE, &["48-queued-prompts"]);
    let listed = machine.list(&["--all"]);
    assert_eq!((listed.len(), &listed[0]["state"]), (1, &Value::from("interrupted")));
    let shown = machine.out(&["show", "claude:c0de0030"]);
    let waiting: Vec<&str> = shown.split("waits, was never delivered").skip(1).collect();
    assert_eq!(waiting.len(), 2, "{shown}");
    assert!(waiting[0].contains("Q2-48 write the log") && waiting[1].contains("Q3-48 mail me"));
    assert!(!waiting.concat().contains("Q1-48") && !waiting.concat().contains("notification"));
}

/// Covers: #12.
#[test]
fn a_task_folder_whose_array_is_cut_is_read() {
    let machine = Machine::with(CLINE, &["49-truncated-json-array"]);
    let before = machine.untouched(".cline");
    let listed = machine.list(&["--all"]);
    assert_eq!((listed.len(), &listed[0]["source"]), (1, &Value::from("cline")));
    assert_eq!(listed[0]["id"], "1772442000000");
    let folder = machine.user.join(CLINE).join("1772442000000");
    let checked = machine.run(&["check", folder.to_str().unwrap(), "--json"]);
    let report = checked.json();
    assert_eq!((checked.code, report["source"].as_str()), (1, Some("cline")), "{report}");
    assert_eq!(report["verdict"], "damage");
    let shown = machine.out(&["show", folder.to_str().unwrap()]);
    for text in ["M0-49", "M1-49", "M2-49", "M3-49", "M4-49"] {
        assert!(shown.contains(text), "{text}: {shown}");
    }
    assert_eq!(machine.untouched(".cline"), before);
}

/// Covers: #123, #146, #147.
#[test]
fn a_turn_that_nobody_is_at_is_interrupted() {
    let machine = Machine::with(CODEX, &["51-in-flight-turn"]);
    for _ in 0..2 {
        let listed = machine.list(&["--all"]);
        assert_eq!(
            (&listed[0]["state"], &listed[0]["user_messages"]),
            (&Value::from("interrupted"), &Value::from(2))
        );
    }
    assert!(machine.list(&["--live"]).is_empty());
    let text = machine.out(&["list", "--all"]);
    assert!(text.contains("interrupted") && !text.contains("running"), "{text}");
}
