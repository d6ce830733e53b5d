//! `docs/protocol/cli-json.md` against what the commands print.

use super::desk::{Desk, id, lines};
use segno_model::Body;
use segno_model::record::Name;
use segno_testkit::sessions::{answer, prompt};
use serde_json::Value;

const PAGE: &str = include_str!("../../../../docs/protocol/cli-json.md");

/// The example in the block that is marked with this word.
pub(crate) fn example(word: &str) -> Value {
    let mark = format!("```json {word}\n");
    let start = PAGE.find(&mark).unwrap_or_else(|| panic!("no example {word}")) + mark.len();
    let text = PAGE[start..].split("\n```").next().unwrap();
    serde_json::from_str(text).unwrap_or_else(|e| panic!("{word}: {e}"))
}

/// Same fields, same kinds of values; `null` fits everything, and of lists the first items count.
pub(crate) fn same_shape(at: &str, page: &Value, real: &Value) {
    match (page, real) {
        (Value::Null, _) | (_, Value::Null) => {}
        (Value::Object(page), Value::Object(real)) => {
            let names = |object: &serde_json::Map<String, Value>| -> Vec<String> {
                let mut names: Vec<String> = object.keys().cloned().collect();
                names.sort();
                names
            };
            assert_eq!(names(page), names(real), "{at}");
            for (name, value) in page {
                same_shape(&format!("{at}.{name}"), value, &real[name]);
            }
        }
        (Value::Array(page), Value::Array(real)) => {
            if let (Some(page), Some(real)) = (page.first(), real.first()) {
                same_shape(&format!("{at}[0]"), page, real);
            }
        }
        (page, real) => {
            let kind = |value: &Value| match value {
                Value::Bool(_) => "bool",
                Value::Number(_) => "number",
                Value::String(_) => "string",
                _ => "other",
            };
            assert_eq!(kind(page), kind(real), "{at}");
        }
    }
}

#[test]
fn the_page_shows_what_the_commands_print() {
    let desk = Desk::new();
    let name = Body::Name(Name { name: "parser work".into() });
    desk.session(1, vec![prompt("fix the parser"), answer("done"), name]);
    let cases: &[(&str, &[&str])] = &[
        ("list", &["list", "--json"]),
        ("trash", &["trash", "list", "--json"]),
        ("show", &["show", "last", "--json"]),
        ("tree", &["show", "last", "--tree", "--json"]),
        ("context", &["show", "last", "--context", "--json"]),
        ("raw", &["show", "last", "--raw", "1", "--json"]),
        ("send", &["send", "last", "and the tests", "--id", "k1", "--no-run", "--json"]),
        ("inbox", &["inbox", "last", "--json"]),
        ("stop", &["stop", "last", "--json"]),
        ("context-edit", &["context", "last", "omit", "1", "--json"]),
        ("context-list", &["context", "last", "list", "--json"]),
        ("erase", &["erase", "last", "1", "--json"]),
        ("prune", &["prune", "--json"]),
        ("search", &["search", "fix", "parser", "--json"]),
        ("sources", &["sources", "--json"]),
        ("stats", &["stats", "--json"]),
        ("stats-session", &["stats", "last", "--json"]),
        ("check-all", &["check", "--all", "--json"]),
        ("export", &["export", "last", "--format", "json"]),
        ("rewind", &["rewind", "last", "1", "--dry-run", "--json"]),
        ("fork", &["fork", "parser work", "--json"]),
    ];
    for (word, args) in cases {
        let ran = desk.run(args);
        assert_eq!((ran.code, ran.out.lines().count()), (0, 1), "{word}: {ran:?}");
        same_shape(word, &example(word), &ran.json());
    }
    desk.tamper(&id(1), |bytes| {
        let mut lines = lines(&bytes);
        lines[2] = b"garbage\n".to_vec();
        lines.concat()
    });
    let me = id(1).to_string();
    for (word, args, code) in
        [("check", &["check", &me, "--json"], 1), ("repair", &["repair", &me, "--json"], 5)]
    {
        let ran = desk.run(args);
        assert_eq!(ran.code, code, "{word}: {ran:?}");
        same_shape(word, &example(word), &ran.json());
    }
    let case = "01-torn-middle-lines/c0de0001-1111-4111-8111-000000000001.jsonl";
    let file = format!("{}/../../tests/corpus/cases/{case}", env!("CARGO_MANIFEST_DIR"));
    for (word, args, code) in [
        ("show-other", &["show", &file, "--json"], 0),
        ("check-other", &["check", &file, "--json"], 1),
    ] {
        let ran = desk.run(args);
        assert_eq!(ran.code, code, "{word}: {ran:?}");
        same_shape(word, &example(word), &serde_json::from_str(&ran.out).unwrap());
    }
    let ran = desk.run(&["show", "x", "--json"]);
    assert_eq!((ran.code, ran.out.as_str()), (6, ""));
    let error: Value = serde_json::from_str(&ran.err).unwrap();
    assert_eq!(error, example("error"), "this one word for word");
}

#[test]
fn every_state_is_on_the_page() {
    use segno_cli::sessions::Standing as S;
    for state in [
        S::Running,
        S::Held,
        S::Waiting,
        S::Interrupted,
        S::Stopped,
        S::Failed,
        S::Ended,
        S::Damaged,
        S::Newer,
        S::Unreadable,
        S::Empty,
    ] {
        assert!(PAGE.contains(&format!("`{}`", state.word())), "{}", state.word());
        assert_eq!(serde_json::to_value(state).unwrap(), state.word());
    }
    use segno_cli::others::OtherState as O;
    for state in [
        O::Running,
        O::Waiting,
        O::Open,
        O::Interrupted,
        O::Stopped,
        O::Ended,
        O::Damaged,
        O::Unreadable,
        O::Empty,
    ] {
        assert!(PAGE.contains(&format!("`{}`", state.word())), "{}", state.word());
    }
}
