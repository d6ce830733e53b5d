//! Contexts that become too large, as somebody at the command line sees it.

use crate::json_page::{example, same_shape};
use crate::place::Place;
use crate::run_events::{documented, shape};
use segno_testkit::scripted_model::Turn;
use serde_json::Value;

const SCRIPT: &str = r#"
window 14000
rule summarise
  when user contains "<history>"
  new-prefix
  say "<summary>\n## Goal\nto talk\n## Constraints\n## Decisions\n## Done\n## In progress\n## Next\n## Files\n## Open questions\n</summary>"
otherwise
  new-prefix
  say "Yes."
"#;

/// A window of 14,000 tokens, of which 4,000 are kept free.
const CONFIG: &str = "[models.\"anthropic/demo\"]\ncontext = 14000\noutput = 4000\n";

/// About 3,000 tokens.
fn long(word: &str) -> String {
    format!("{word} {}", "abcdefg ".repeat(1_500))
}

fn place(script: &str) -> Place {
    let place = Place::new(script);
    std::fs::create_dir_all(place.home()).unwrap();
    std::fs::write(place.home().join("config.toml"), CONFIG).unwrap();
    place
}

/// Prompts until the context has been made smaller; the events of the last run.
fn until_compacted(place: &Place) -> Vec<Value> {
    for (i, word) in ["one", "two", "three", "four", "five"].iter().enumerate() {
        let prompt = long(word);
        let mut args = vec!["--json"];
        args.extend((i > 0).then_some("--continue"));
        args.push(&prompt);
        let ran = place.done(&args);
        assert_eq!(ran.code, Some(0), "{ran:?} {:?}", place.server.violations());
        let events: Vec<Value> =
            ran.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        if events.iter().any(|e| e["event"] == "compaction_done") {
            return events;
        }
    }
    panic!("never")
}

/// Covers: EV3, #51.
#[test]
fn a_context_near_its_end_is_summarised_and_told_of() {
    let place = place(SCRIPT);
    let documented = documented();
    let events = until_compacted(&place);
    for event in &events {
        let (name, fields) = shape(event);
        assert_eq!(documented.get(&name), Some(&fields), "{name}");
    }
    let started = events.iter().find(|e| e["event"] == "compaction_started").unwrap();
    assert_eq!(started["cause"], "threshold", "the server's refusal was not needed");
    let shown = place.segno(&["show", "last", "--context"]).output().unwrap();
    let shown = String::from_utf8(shown.stdout).unwrap();
    for part in ["summary ", "window: 14k tokens", "before the next request: nothing"] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    assert!(place.server.violations().is_empty(), "{:?}", place.server.violations());
}

/// Where the window is taken for larger than it is, the provider's refusal leads to a summary.
#[test]
fn a_refusal_for_length_leads_to_a_summary() {
    let place = place(SCRIPT);
    std::fs::remove_file(place.home().join("config.toml")).unwrap();
    let events = until_compacted(&place);
    let started = events.iter().find(|e| e["event"] == "compaction_started").unwrap();
    assert_eq!(started["cause"], "too_long");
    assert_eq!(events.last().unwrap()["text"], "Yes.");
}

/// `segno compact` says what it came to, as the page shows; held against the person's instructions.
#[test]
fn a_session_is_compacted_by_command() {
    let place = place(SCRIPT);
    for args in [&["one"][..], &["--continue", "two"], &["--continue", "three"]] {
        assert_eq!(place.done(args).code, Some(0));
    }
    let url = place.server.url();
    let args = ["compact", "last", "mind", "the tests", "--base-url", &url, "--json"];
    let ran: crate::place::Ran = place.segno(&args).output().unwrap().into();
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let told: Value = serde_json::from_str(ran.out.trim()).unwrap();
    same_shape("compact", &example("compact"), &told);
    let asked = place.server.requests().pop().unwrap().seen.unwrap();
    let asked: String = asked.turns.iter().map(Turn::text).collect();
    assert!(asked.contains("attention to: mind the tests"), "{asked}");
    let again: crate::place::Ran = place.segno(&args).output().unwrap().into();
    assert!(again.err.contains("nothing to compact yet"), "{again:?}");
}

const STATED: &str = r#"
rule summarise
  when user contains "Summarise the history"
  new-prefix
  say "<summary>\n## Goal\nto talk\n## Constraints\n## Decisions\n## Done\n## In progress\n## Next\n## Files\n## Open questions\n</summary>"
otherwise
  new-prefix
  say "LONG"
"#;

/// A session with OpenAI's own state in it.
fn stated() -> Place {
    let script: &'static str = STATED.replace("LONG", &"abcdefg ".repeat(300)).leak();
    let place = Place::with_model("openai/demo", script);
    std::fs::create_dir_all(place.home()).unwrap();
    std::fs::write(place.home().join("config.toml"), "[compaction]\nnative = true\n").unwrap();
    for args in
        [&["the secret is sk-4711-0815"][..], &["--continue", "two"], &["--continue", "three"]]
    {
        assert_eq!(place.done(args).code, Some(0));
    }
    let url = place.server.url();
    let ran: crate::place::Ran =
        place.segno(&["compact", "last", "--base-url", &url, "--json"]).output().unwrap().into();
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let told: Value = serde_json::from_str(ran.out.trim()).unwrap();
    assert_eq!(told["state"], true, "{told}");
    place
}

fn context(place: &Place) -> (String, Value) {
    let shown = |args: &[&str]| {
        let shown =
            place.segno(&[&["show", "last", "--context"][..], args].concat()).output().unwrap();
        String::from_utf8(shown.stdout).unwrap()
    };
    (shown(&[]), serde_json::from_str(&shown(&["--json"])).unwrap())
}

fn sends_a_state(place: &Place) -> bool {
    let last = place.server.requests().pop().unwrap().body.to_string();
    last.contains(r#""type":"compaction""#)
}

/// The command tells that the provider keeps a state; `show --context` says which of state and summary is sent, and
/// why, as the requests are.
#[test]
fn it_is_shown_whether_a_state_is_sent() {
    let mut place = stated();
    assert_eq!(place.done(&["--continue", "four"]).code, Some(0));
    assert!(sends_a_state(&place));
    let (text, json) = context(&place);
    assert!(text.contains("this very model made it") && text.contains("state "), "{text}");
    assert_eq!((&json["state"]["rule"], &json["state"]["sent"]), (&"own".into(), &true.into()));
    assert_eq!(json["messages"][0]["role"], "state");
    assert!(json["ledger"]["parts"]["state"].as_u64().unwrap() > 0, "{json}");
    place.model = "anthropic/demo";
    assert_eq!(place.done(&["--continue", "five"]).code, Some(0));
    assert!(!sends_a_state(&place));
    let (text, json) = context(&place);
    assert!(text.contains("another provider made it"), "{text}");
    assert_eq!(
        (&json["state"]["rule"], &json["state"]["sent"]),
        (&"other-provider".into(), &false.into())
    );
    place.model = "openai/demo";
    assert_eq!(place.done(&["--continue", "six"]).code, Some(0));
    assert!(sends_a_state(&place));
    std::fs::write(place.home().join("config.toml"), "[compaction]\nnative = false\n").unwrap();
    assert_eq!(place.done(&["--continue", "seven"]).code, Some(0));
    assert!(!sends_a_state(&place), "it is switched off");
    assert_eq!(context(&place).1["state"]["rule"], "switched-off");
    assert!(place.server.violations().is_empty(), "{:?}", place.server.violations());
}

/// A server that does not offer it is told of once, as the page says; the summary stands alone.
#[test]
fn a_provider_without_states_is_told_of() {
    let script = format!("window 14000\nrule no\n when compaction\n status 404{}", &SCRIPT[13..]);
    let place = Place::with_model("openai/demo", script.leak());
    std::fs::create_dir_all(place.home()).unwrap();
    let config = format!("[compaction]\nnative = true\n{}", CONFIG.replace("anthropic", "openai"));
    std::fs::write(place.home().join("config.toml"), config).unwrap();
    let events = until_compacted(&place);
    let told: Vec<_> = events.iter().filter(|e| e["event"] == "compaction_local").collect();
    assert_eq!(told.len(), 1, "{events:?}");
    let (name, fields) = shape(told[0]);
    assert_eq!(documented().get(&name), Some(&fields));
    assert!(!sends_a_state(&place));
}

/// What is erased may stand in a state, and nobody can look into that: it goes, and the summary is sent.
#[test]
fn an_erased_record_takes_the_state_along() {
    let place = stated();
    let records = place.records();
    let is_prompt = |record: &&segno_model::Record| matches!(record.body(), segno_model::Body::Message(m) if matches!(**m, segno_model::record::Message::User(_)));
    let seq = records.iter().find(is_prompt).unwrap().seq().to_string();
    let ran: crate::place::Ran =
        place.segno(&["erase", "last", &seq, "--yes", "--json"]).output().unwrap().into();
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let told: Value = serde_json::from_str(ran.out.trim()).unwrap();
    assert_eq!(told["states"].as_array().map(Vec::len), Some(1), "{told}");
    let log = place.store().log_path(&place.sessions()[0]).unwrap();
    assert!(!std::fs::read_to_string(log).unwrap().contains("4711"), "it is in the state no more");
    assert_eq!(context(&place).1["state"], Value::Null);
    assert_eq!(place.done(&["--continue", "four"]).code, Some(0));
    assert!(!sends_a_state(&place));
    let checked: crate::place::Ran = place.segno(&["check", "last"]).output().unwrap().into();
    assert_eq!(checked.code, Some(0), "{checked:?}");
    assert!(place.server.violations().is_empty(), "{:?}", place.server.violations());
}
