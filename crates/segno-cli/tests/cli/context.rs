//! `segno context`: what is taken out of the context, through the real binary.

use super::desk::Desk;
use super::place::{Place, Ran};
use segno_model::Body;
use segno_model::record::{
    AssistantBlock, AssistantMessage, Block, Message, ModelRef, UserMessage,
};
use segno_testkit::sessions::{answer, prompt};
use serde_json::Value;

const POISON: &str = r#"
rule refused
  when history contains "POISON"
  status 400 "this cannot be processed"
otherwise
  say "Fine."
"#;

fn segno(place: &Place, args: &[&str]) -> Ran {
    place.segno(args).output().unwrap().into()
}

/// Covers: G6. A paste that every provider refuses is taken out, and the session goes on with its history.
#[test]
fn a_paste_that_poisons_a_session_is_taken_out_and_the_session_goes_on() {
    let place = Place::new(POISON);
    assert_eq!(place.done(&["hello"]).code, Some(0));
    assert_ne!(place.done(&["--continue", "look at this: POISON"]).code, Some(0));
    assert_ne!(place.done(&["--continue", "and now?"]).code, Some(0), "it stays in the context");
    let shown = segno(&place, &["show", "last", "--json"]);
    let shown: Value = serde_json::from_str(&shown.out).unwrap();
    let poison = shown["records"].as_array().unwrap().iter().find_map(|record| {
        record.to_string().contains("POISON").then(|| record["seq"].to_string())
    });
    let poison = poison.unwrap();

    let ran = segno(&place, &["context", "last", "omit", &poison]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(
        ran.out.contains("is left out for the model") && ran.out.contains("tokens before"),
        "{ran:?}"
    );
    let ran = place.done(&["--continue", "and now?"]);
    assert_eq!((ran.code, ran.out.as_str()), (Some(0), "Fine.\n"), "{ran:?}");
    let shown = segno(&place, &["show", "last"]);
    assert!(shown.out.contains("POISON\n(left out for the model)"), "{shown:?}");
    let ran = segno(&place, &["context", "last", "list"]);
    assert!(ran.out.contains("omit") && ran.out.contains("POISON"), "{ran:?}");

    // It comes back, and with it the refusal.
    let ran = segno(&place, &["context", "last", "restore", &poison]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert_ne!(place.done(&["--continue", "and now?"]).code, Some(0));
    let ran = segno(&place, &["context", "last", "replace", &poison, "a paste of no interest"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert_eq!(place.done(&["--continue", "and now?"]).code, Some(0));
}

fn image() -> Body {
    let data = segno_model::record::Text::Inline("aGVsbG8=".into());
    let content = vec![Block::text("look"), Block::Image { media_type: "image/png".into(), data }];
    Body::Message(Box::new(Message::User(UserMessage { content, ..UserMessage::default() })))
}

fn call() -> Body {
    let content = vec![AssistantBlock::call("c1", "read", "{\"path\":\"a\"}")];
    Body::Message(Box::new(Message::Assistant(AssistantMessage::new(
        &ModelRef::new("anthropic", "m"),
        content,
    ))))
}

fn result() -> Body {
    serde_json::from_value::<segno_model::record::ToolMessage>(serde_json::json!({
        "call_id": "c1", "call_seq": 3, "name": "read",
        "content": [{"type": "text", "text": "what was in it"}],
        "outcome": "done", "established": "observed",
    }))
    .map(|result| Body::Message(Box::new(Message::Tool(result))))
    .unwrap()
}

fn sent(desk: &Desk) -> String {
    desk.run(&["show", "last", "--context", "--json"]).json()["messages"].to_string()
}

/// Covers: G6.
#[test]
fn what_is_left_out_is_whole_and_what_cannot_be_is_refused() {
    let desk = Desk::new();
    let id = desk.session(1, vec![image(), answer("a picture"), call(), result(), answer("done")]);
    assert!(sent(&desk).contains("image/png"));
    let ran = desk.run(&["context", "last", "omit", "1", "--json"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    let json = ran.json();
    assert!(json["tokens_before"].as_u64() > json["tokens_after"].as_u64(), "{json}");
    assert!(!sent(&desk).contains("image/png"));
    // A turn with calls and their results are one.
    let ran = desk.run(&["context", "last", "omit", "3"]);
    assert!(ran.out.contains("The calls of that turn and 1 result go out with it."), "{ran:?}");
    assert!(!sent(&desk).contains("what was in it"));
    assert_eq!(desk.run(&["context", "last", "restore", "3"]).code, 0);
    assert!(sent(&desk).contains("what was in it"));
    // A result alone leaves something in its place.
    assert_eq!(desk.run(&["context", "last", "omit", "4"]).code, 0);
    assert!(sent(&desk).contains("(left out)") && !sent(&desk).contains("what was in it"));

    let before = desk.bytes(&id);
    for (args, why) in [
        (["omit", "0"], "it is no part of the conversation"),
        (["omit", "999"], "there is no such record"),
        (["omit", "1"], "it stands like that already"),
        (["restore", "2"], "nothing about it was changed"),
        (["omit", "6"], "it is no part of the conversation"),
    ] {
        let ran = desk.run(&["context", "last", args[0], args[1]]);
        assert_eq!(ran.code, 2, "{ran:?}");
        assert!(ran.err.contains(why), "{ran:?}");
    }
    let held = desk.hold(&id);
    let ran = desk.run(&["context", "last", "restore", "1"]);
    assert_eq!(ran.code, 4, "{ran:?}");
    assert!(ran.err.contains("/context restore 1"), "{ran:?}");
    Desk::release(held);
    assert_eq!(desk.bytes(&id), before, "a refusal changes no byte");
}

/// Covers: G6. A call without a result cannot be hidden: it must be settled first.
#[test]
fn a_call_that_has_no_result_stays() {
    let desk = Desk::new();
    desk.session(1, vec![prompt("read a"), answer("first"), call()]);
    let ran = desk.run(&["context", "last", "omit", "3"]);
    assert_eq!(ran.code, 2, "{ran:?}");
    assert!(ran.err.contains("a call of it has no result yet"), "{ran:?}");
}
