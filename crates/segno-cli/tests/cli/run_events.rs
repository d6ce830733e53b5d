//! `segno run --json`, held against the page that describes it; and what a turn costs in syncs.

use crate::place::{PROVIDERS, Place, Ran, skipped};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::process::{Command, Stdio};

const PAGE: &str = include_str!("../../../../docs/protocol/run-events.md");

/// The events with their fields, as the page shows them.
pub(crate) fn documented() -> BTreeMap<String, BTreeSet<String>> {
    let blocks = PAGE.split("```json\n").skip(1).filter_map(|rest| rest.split("```").next());
    let lines =
        blocks.flat_map(str::lines).map(|line| serde_json::from_str::<Value>(line).unwrap());
    let mut events = BTreeMap::new();
    for value in lines {
        let (name, fields) = shape(&value);
        assert!(events.insert(name.clone(), fields).is_none(), "{name} is shown twice");
    }
    events
}

pub(crate) fn shape(value: &Value) -> (String, BTreeSet<String>) {
    let keys = |value: &Value| value.as_object().unwrap().keys().cloned().collect();
    match value["event"].as_str() {
        Some(name) => (name.to_owned(), keys(value)),
        None => ("error".to_owned(), keys(&value["error"])),
    }
}

const SCRIPT: &str = r#"
rule busy
  once
  status 529 retry-after 0
rule work
  when last user
  think "Hm."
  say "Looking."
  call bash {"command": "echo hi"}
otherwise
  say "Done."
"#;

#[test]
fn every_event_is_as_the_page_says_on_every_wire() {
    let documented = documented();
    let mut met = BTreeSet::new();
    for model in PROVIDERS {
        let place = Place::with_model(model, SCRIPT);
        let ran = place.done(&["--json", "--permission", "all", "--thinking", "medium", "x y"]);
        assert_eq!((ran.code, ran.err.as_str()), (Some(0), ""), "{model}: {}", ran.out);
        let events: Vec<Value> =
            ran.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        for event in &events {
            let (name, fields) = shape(event);
            assert_eq!(documented.get(&name), Some(&fields), "{model} {name}");
            met.insert(name);
        }
        assert_eq!(events[0]["event"], "session");
        assert_eq!(events[0]["version"], 1);
        assert_eq!(events[0]["session"], place.sessions()[0].to_string());
        let last = events.last().unwrap();
        assert_eq!((&last["end"], &last["exit"]), (&"completed".into(), &0.into()));
        assert_eq!(last["text"], "Done.");
        assert_eq!(last["resume"], format!("segno resume {}", place.sessions()[0]));
        records_are_the_logs_lines(&place, &events);
    }
    let unmet: Vec<_> = documented.keys().filter(|name| !met.contains(*name)).collect();
    let elsewhere = [
        "answered",
        "compaction_done",
        "compaction_failed",
        "compaction_given_up",
        "compaction_local",
        "compaction_started",
        "error",
        "left_out",
        "paused",
        "pruned",
        "tool_reattached",
    ];
    assert_eq!(unmet, elsewhere, "these have tests of their own");
}

/// What a provider refused is told, and the run goes on without it. Covers: #46.
#[test]
fn what_is_left_out_is_told() {
    let script =
        "rule refuse\n  once\n  status 400 \"Could not process image\"\notherwise\n  say \"Fine.\"";
    for model in PROVIDERS {
        let place = Place::with_model(model, script);
        std::fs::write(place.file("a.png"), pixel()).unwrap();
        let ran = place.done(&["--json", "look at @a.png"]);
        assert_eq!((ran.code, ran.err.as_str()), (Some(0), ""), "{model}: {}", ran.out);
        let events: Vec<Value> =
            ran.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let told: Vec<_> = events.iter().filter(|e| e["event"] == "left_out").collect();
        let [told] = told[..] else { panic!("{model}: {}", ran.out) };
        assert_eq!(Some(&shape(told).1), documented().get("left_out"), "{model}");
        assert_eq!(told["part"], "images");
        let edit = events.iter().find(|e| e["record"]["type"] == "context_edit").unwrap();
        assert_eq!(edit["record"]["target"], told["seqs"][0]);
        assert_eq!(events.last().unwrap()["text"], "Fine.");
    }
}

/// A PNG of one pixel.
pub(crate) fn pixel() -> Vec<u8> {
    let mut png = b"\x89PNG\r\n\x1a\n\0\0\0\x0dIHDR\0\0\0\x01\0\0\0\x01\x08\x02\0\0\0".to_vec();
    png.extend([
        0x90, 0x77, 0x53, 0xde, 0x00, 0x00, 0x00, 0x0c, 0x49, 0x44, 0x41, 0x54, 0x78, 0xda, 0x63,
        0xf8, 0xcf, 0xc0, 0x00, 0x00, 0x03, 0x01, 0x01, 0x00, 0xf7, 0x03, 0x41, 0x43, 0x00, 0x00,
        0x00, 0x00, 0x49, 0x45, 0x4e, 0x44, 0xae, 0x42, 0x60, 0x82,
    ]);
    png
}

/// The last line says what the run took and cost, and nothing of what the session had cost before; what is not known is
/// marked as in `segno stats`. Covers: US8, US15.
#[test]
fn the_last_line_tells_what_the_run_cost() {
    let script = "rule refused\n  when prompt is \"refuse\"\n  status 400 \"no\"\n\
                  otherwise\n  say \"Hello.\"\n  usage input 100 output 10";
    let place = Place::new(script);
    let cost = |args: &[&str]| {
        let ran = place.done(&[&["--json"], args].concat());
        serde_json::from_str::<Value>(ran.out.lines().last().unwrap()).unwrap()["cost"].clone()
    };
    let total = || {
        let ran = place.ask(&["stats", "last", "--json"]);
        serde_json::from_str::<Value>(&ran.out).unwrap()["total"].clone()
    };
    let unpriced = cost(&["hello"]);
    assert_eq!(unpriced, total(), "of a new session it is all");
    assert_eq!((&unpriced["usd"], &unpriced["unpriced"]), (&Value::Null, &1.into()));
    let prices = "[prices.\"demo\"]\ninput = 3\noutput = 15\ncache-read = 0\ncache-write = 0\n";
    std::fs::write(place.home().join("config.toml"), prices).unwrap();
    let second = cost(&["--continue", "hello again"]);
    assert_eq!((&second["input"], &second["output"]), (&100.into(), &10.into()));
    assert_eq!(second["usd"].to_string(), "0.00045");
    assert_eq!((&second["responses"], &total()["responses"]), (&1.into(), &2.into()));
    let refused = cost(&["--continue", "refuse"]);
    assert_eq!((&refused["responses"], &refused["usd"]), (&0.into(), &Value::Null));
    assert_eq!(refused["unknown"], total()["unknown"]);
    assert!(refused["unknown"]["reply"].as_u64() > Some(0), "{refused}");
}

/// Every record but the header is told once, in order, as it is on disk. Covers: G1.
fn records_are_the_logs_lines(place: &Place, events: &[Value]) {
    let told: Vec<String> =
        events.iter().filter(|e| e["event"] == "record").map(|e| e["record"].to_string()).collect();
    let lines: Vec<String> = place
        .records()
        .iter()
        .skip(1)
        .map(|record| serde_json::from_slice::<Value>(&record.line).unwrap().to_string())
        .collect();
    assert_eq!(told, lines);
}

#[test]
fn an_error_is_one_line_of_json_too() {
    let place = Place::new(SCRIPT);
    let ran = place.done(&["--json", "--session", "0123", "x y"]);
    assert_eq!((ran.code, ran.out.as_str()), (Some(6), ""));
    let error: Value = serde_json::from_str(&ran.err).unwrap_or_else(|_| panic!("{ran:?}"));
    assert_eq!(documented().get("error"), Some(&shape(&error).1));
    assert_eq!(error["error"]["exit"], 6);
}

/// How often the log itself was synced while a run with these words went on; none without strace.
fn syncs(place: &Place, args: &[&str]) -> Option<usize> {
    let run = place.run(args);
    let trace = place.file("../trace");
    let mut strace = Command::new("strace");
    strace.args(["-f", "-y", "-e", "trace=fdatasync,fsync", "-o"]).arg(&trace);
    strace.arg(run.get_program()).args(run.get_args()).env_clear();
    strace.envs(run.get_envs().filter_map(|(name, value)| Some((name, value?))));
    strace.current_dir(place.file("")).stdin(Stdio::null());
    let ran: Ran = strace.output().ok()?.into();
    let trace = std::fs::read_to_string(trace).ok()?;
    if !trace.contains("sync(") {
        return None;
    }
    assert_eq!(ran.code, Some(0), "{ran:?}");
    Some(trace.lines().filter(|l| l.contains("sync(") && l.contains("log.jsonl>")).count())
}

/// One sync for the input, one for each request, at most two for a round of tools, one for the end.
/// Covers: G1.
#[test]
fn a_turn_costs_the_syncs_that_it_must_and_no_more() {
    let script = r#"
rule tools
  when last user
  when prompt is "use two"
  call bash {"command": "true"}
  call bash {"command": "true"}
otherwise
  say "Done."
"#;
    let place = Place::new(script);
    let Some(first) = syncs(&place, &["hello there"]) else {
        return skipped("system calls cannot be traced here");
    };
    assert_eq!(first, 3, "input, request, end");
    assert_eq!(syncs(&place, &["--continue", "hello again"]), Some(3));
    let with_tools = syncs(&place, &["--continue", "--permission", "all", "use two"]);
    assert!(with_tools.is_some_and(|n| n <= 6), "input, request, two for tools, request, end");
}
