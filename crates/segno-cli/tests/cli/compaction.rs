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
