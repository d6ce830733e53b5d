//! What sessions cost, through the real binary.

use super::place::{Place, Ran};
use serde_json::Value;

const SCRIPT: &str = r#"
rule refused
  when prompt is "refuse"
  status 400 "no"
rule work
  when prompt is "work"
  say "Done."
  usage input 1000 output 200 cache-read 500 reasoning 50
otherwise
  say "Hello."
  usage input 100 output 10
"#;

const PRICES: &str =
    "[prices.\"demo\"]\ninput = 3\noutput = 15\ncache-read = 0.3\ncache-write = 3.75\n";

fn segno(place: &Place, args: &[&str]) -> Ran {
    place.segno(args).output().unwrap().into()
}

fn stats(place: &Place, args: &[&str]) -> Value {
    let ran = segno(place, &[&["stats"], args, &["--json"]].concat());
    assert_eq!(ran.code, Some(0), "{ran:?}");
    serde_json::from_str(&ran.out).unwrap()
}

fn set_prices(place: &Place, text: &str) {
    std::fs::create_dir_all(place.home()).unwrap();
    std::fs::write(place.home().join("config.toml"), text).unwrap();
}

/// Covers: US2, US3, US15. Money is exact, a price that is not known is never 0, what was abandoned is paid for.
#[test]
fn a_session_is_summed_up_by_branch() {
    // A wire that reports reasoning.
    let place = Place::with_model("openai/demo", SCRIPT);
    assert_eq!(place.done(&["hello"]).code, Some(0));
    assert_eq!(place.done(&["--continue", "work"]).code, Some(0));
    let unpriced = stats(&place, &["last"]);
    assert_eq!(
        (&unpriced["total"]["usd"], &unpriced["total"]["unpriced"]),
        (&Value::Null, &2.into())
    );
    let shown = segno(&place, &["stats", "last"]);
    assert!(shown.out.contains("unpriced") && !shown.out.contains("0.00"), "{shown:?}");

    set_prices(&place, PRICES);
    let told = stats(&place, &["last"]);
    let total = &told["total"];
    // (1100 * 3 + 210 * 15 + 500 * 0.3) / 1e6
    assert_eq!(total["usd"].to_string(), "0.0066");
    assert_eq!((&total["reasoning"], &total["responses"]), (&50.into(), &2.into()));
    assert!(total["model_ms"].as_u64().is_some());
    assert_eq!(told["branches"].as_array().unwrap().len(), 1);

    // Back to the first answer, and on from there.
    let records = segno(&place, &["show", "last", "--json"]);
    let records: Value = serde_json::from_str(&records.out).unwrap();
    let first = records["records"].as_array().unwrap().iter().find(|r| r["role"] == "assistant");
    let first = first.unwrap()["seq"].to_string();
    assert_eq!(segno(&place, &["rewind", "last", &first]).code, Some(0));
    assert_eq!(place.done(&["--continue", "hello again"]).code, Some(0));
    let told = stats(&place, &["last"]);
    assert_eq!(told["total"]["responses"], 3, "{told}");
    let branches: Vec<_> = told["branches"]
        .as_array()
        .unwrap()
        .iter()
        .map(|b| (&b["current"], &b["sum"]["output"]))
        .collect();
    assert_eq!(branches, [(&true.into(), &20.into()), (&false.into(), &210.into())]);
    let shown = segno(&place, &["stats", "last"]);
    assert!(shown.out.contains("* #") && shown.out.contains("session"), "{shown:?}");
}

/// Covers: US8, US15. A call that nobody answered is not free.
#[test]
fn a_call_without_an_answer_is_told_as_unknown() {
    let place = Place::new(SCRIPT);
    set_prices(&place, PRICES);
    assert_eq!(place.done(&["hello"]).code, Some(0));
    assert_ne!(place.done(&["--continue", "refuse"]).code, Some(0));
    let told = stats(&place, &["--by", "session"]);
    assert!(told["total"]["unknown"]["reply"].as_u64() > Some(0), "{told}");
    let shown = segno(&place, &["stats"]);
    assert!(
        shown.out.contains("≥ 0.0005") && shown.out.contains("without a word about tokens"),
        "{shown:?}"
    );
}

/// Covers: #156, #157, US5. A fork shares what it copied.
#[test]
fn a_fork_of_ours_does_not_count_what_it_copied() {
    let place = Place::new(SCRIPT);
    set_prices(&place, PRICES);
    assert_eq!(place.done(&["work"]).code, Some(0));
    let ran = segno(&place, &["fork", "last", "--json"]);
    let fork: Value = serde_json::from_str(&ran.out).unwrap();
    let fork = fork["id"].as_str().unwrap();
    assert_eq!(place.done(&["--session", fork, "hello"]).code, Some(0));
    let told = stats(&place, &["--by", "session"]);
    assert_eq!(
        (&told["total"]["responses"], &told["total"]["inherited"]),
        (&2.into(), &1.into()),
        "{told}"
    );
    let own = &told["rows"][format!("segno:{fork}")];
    assert_eq!(
        (&own["responses"], &own["inherited"], &own["output"]),
        (&1.into(), &1.into(), &10.into())
    );
    let alone = stats(&place, &[fork]);
    assert_eq!(
        (&alone["total"]["responses"], &alone["copied"]["sum"]["responses"]),
        (&2.into(), &1.into())
    );
}

/// Covers: US1, US14. A subagent's session counts once: in the one that started it, and not in a fork again.
#[test]
fn subagents_count_once() {
    use segno_model::Body;
    use segno_model::record::{
        AssistantMessage, Child, ChildState, Message, ModelRef, Origin, OriginKind, Usage,
    };
    let desk = super::desk::Desk::new();
    let reply = |output| {
        let usage = Some(Usage { output, ..Usage::default() });
        let reply = AssistantMessage {
            usage,
            ..AssistantMessage::new(&ModelRef::new("test", "m"), vec![])
        };
        Body::Message(Box::new(Message::Assistant(reply)))
    };
    let child = super::desk::id(2).to_string();
    let started = || Body::Child(Child::new(child.clone(), "c1", ChildState::Started));
    let parent = desk.session(1, vec![reply(100), started(), started()]);
    let mut header = desk.header(2);
    header.origin = Some(Origin {
        kind: OriginKind::Child,
        of: parent.to_string(),
        up_to: Some(1),
        parent: None,
    });
    desk.session_with(header, vec![reply(7)]);
    assert_eq!(desk.run(&["fork", parent.as_str()]).code, 0);
    let all = desk.run(&["stats", "--json"]).json();
    assert_eq!(all["total"]["output"], 107, "{all}");
    let one = desk.run(&["stats", parent.as_str(), "--json"]).json();
    assert_eq!(
        (&one["total"]["output"], &one["total"]["children_unknown"]),
        (&107.into(), &0.into())
    );
    assert_eq!(one["branches"][0]["sum"]["output"], 100);
}

#[test]
fn branches_are_of_one_session() {
    let place = Place::new(SCRIPT);
    let ran = segno(&place, &["stats", "--by", "branch"]);
    assert_eq!(ran.code, Some(2), "{ran:?}");
}
