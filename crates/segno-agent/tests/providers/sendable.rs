//! What providers refuse: each rule with what breaks it, and histories in which everything is broken at once.

use crate::history::{Call, PIXEL, WIRES, assistant, call, result, text, thinking, user};
use crate::scripted::{PROVIDERS, ask, provider};
use proptest::collection::vec;
use proptest::prelude::*;
use segno_agent::provider::sendable::{RULES, check, repair};
use segno_agent::provider::{Settings, Wire};
use segno_model::context::{ContextMessage, ContextResult};
use segno_model::record::{AssistantBlock, BlobRef, Block, ModelRef, Native, Text};
use segno_testkit::scripted_model::ScriptedModel;
use serde_json::value::RawValue;
use std::collections::BTreeSet;

fn words(text: &str) -> Vec<Block> {
    vec![Block::text(text)]
}

fn picture(media_type: &str, data: &str) -> Block {
    Block::Image { media_type: media_type.to_owned(), data: Text::Inline(data.to_owned()) }
}

/// The header of a PNG of 9,000 pixels a side.
const HUGE: &str = "iVBORw0KGgoAAAANSUhEUgAAIygAACMoCAIAAAA=";

fn lost() -> Text {
    Text::Blob(BlobRef { blob: "c0ffee".to_owned(), bytes: 9, head: "begins".to_owned() })
}

fn native(dialect: &str, items: &str) -> Option<Native> {
    let items = RawValue::from_string(items.to_owned()).unwrap();
    Some(Native { dialect: dialect.to_owned(), items })
}

fn foreign(mut message: ContextMessage) -> ContextMessage {
    if let ContextMessage::Assistant(turn) = &mut message {
        turn.model = ModelRef::new("somebody", "else");
    }
    message
}

fn elsewhere(mut message: ContextMessage) -> ContextMessage {
    if let ContextMessage::Assistant(turn) = &mut message {
        turn.endpoint = Some("another place".to_owned());
    }
    message
}

/// A user message, a turn with one call, and its result.
fn round(called: AssistantBlock, answer: ContextResult) -> Vec<ContextMessage> {
    vec![
        user(1, words("go")),
        assistant(2, vec![called], None),
        ContextMessage::Results(vec![answer]),
    ]
}

/// Between two things that the person said.
fn between(turn: ContextMessage) -> Vec<ContextMessage> {
    vec![user(1, words("go")), turn, user(9, words("on"))]
}

/// What breaks a rule, by a label, with the rule, the record and who refuses it.
type Row = (&'static str, &'static str, Option<u64>, &'static [Wire], Vec<ContextMessage>);

const EVERY: &[Wire] = &[Wire::Anthropic, Wire::OpenAiResponses, Wire::OpenAiChat, Wire::Gemini];

#[rustfmt::skip]
fn rows() -> Vec<Row> {
    let long = "x".repeat(41);
    let said = |block| between(assistant(2, vec![text("so"), block], None));
    let shown = |block| vec![user(1, vec![Block::text("look"), block])];
    let answered = |id: &str| result(3, id, "read", words("x"));
    let signed = || vec![thinking("hm", Some("c2ln")), text("so")];
    let many: Vec<Block> = (0..101).map(|_| picture("image/png", PIXEL)).collect();
    vec![
        ("another model's thinking", "foreign-thinking", Some(2), EVERY, between(foreign(assistant(2, signed(), None)))),
        ("another place's thinking", "foreign-thinking", Some(2), EVERY, between(elsewhere(assistant(2, signed(), None)))),
        ("another model's items", "foreign-thinking", Some(2), EVERY, between(foreign(assistant(2, vec![text("so")], native("gemini", "[]"))))),
        ("items of no wire", "native-unreadable", Some(2), EVERY, between(assistant(2, vec![text("so")], native("smoke", "[]")))),
        ("half a character in items", "native-unreadable", Some(2), EVERY, between(assistant(2, vec![text("so")], native("anthropic", r#"[{"type":"text","text":"\ud83d"}]"#)))),
        ("unsigned thinking", "unsigned-thinking", Some(2), EVERY, said(thinking("hm", None))),
        ("a blank signature", "unsigned-thinking", Some(2), EVERY, said(thinking("hm", Some(" ")))),
        ("an unknown block", "unknown-block", Some(1), EVERY, shown(Block::Unknown)),
        ("an unknown block of a reply", "unknown-block", Some(2), EVERY, said(AssistantBlock::Unknown)),
        ("a text that is only a reference", "lost-blob", Some(1), EVERY, shown(Block::Text { text: lost() })),
        ("an image that is only a reference", "lost-blob", Some(1), EVERY, shown(Block::Image { media_type: "image/png".to_owned(), data: lost() })),
        ("an image that is none", "image", Some(1), EVERY, shown(picture("image/png", "aW1n"))),
        ("an image under a wrong name", "image", Some(1), EVERY, shown(picture("image/jpeg", PIXEL))),
        ("an image that is too large", "image", Some(1), EVERY, shown(picture("image/png", HUGE))),
        ("a gif", "image", Some(1), &[Wire::OpenAiChat, Wire::Gemini], shown(picture("image/gif", "R0lGODlhAQABAAAAACwAAAAAAQABAAACAkwBADs="))),
        ("many images", "image-count", Some(1), &[Wire::Anthropic], vec![user(1, many)]),
        ("NUL", "nul", Some(1), EVERY, vec![user(1, words("a\0b"))]),
        ("NUL in a reply", "nul", Some(2), EVERY, said(text("a\0b"))),
        ("an empty text", "empty-text", Some(1), EVERY, shown(Block::text(""))),
        ("white space", "empty-text", Some(2), EVERY, said(text(" \n"))),
        ("a turn of thinking", "empty-turn", Some(2), EVERY, between(assistant(2, vec![thinking("hm", Some("c2ln"))], None))),
        ("a turn of nothing", "empty-turn", Some(2), EVERY, between(assistant(2, vec![text("\n")], None))),
        ("a message of nothing", "empty-message", Some(1), EVERY, vec![user(1, Vec::new())]),
        ("a result of nothing", "empty-message", Some(3), EVERY, round(call("c", "read", "{}"), result(3, "c", "read", words("  ")))),
        ("a call without a result", "call-result", Some(2), EVERY, between(assistant(2, vec![call("c", "read", "{}")], None))),
        ("a result of another call", "call-result", Some(2), EVERY, round(call("c", "read", "{}"), answered("d"))),
        ("two results", "call-result", Some(2), EVERY, vec![user(1, words("go")), assistant(2, vec![call("c", "read", "{}")], None), ContextMessage::Results(vec![answered("c"), answered("c")])]),
        ("results in another order", "call-result", Some(2), EVERY, vec![user(1, words("go")), assistant(2, vec![call("c", "read", "{}"), call("d", "read", "{}")], None), ContextMessage::Results(vec![answered("d"), answered("c")])]),
        ("a result without a call", "call-result", Some(3), EVERY, vec![user(1, words("go")), ContextMessage::Results(vec![answered("c")])]),
        ("no id", "call-id", Some(2), EVERY, round(call("", "read", "{}"), answered(""))),
        ("a strange id", "call-id", Some(2), EVERY, round(call("f.read:0", "read", "{}"), answered("f.read:0"))),
        ("a long id", "call-id", Some(2), &[Wire::OpenAiChat], round(call(&long, "read", "{}"), answered(&long))),
        ("an id used again", "call-id", Some(2), EVERY, [round(call("c", "read", "{}"), answered("c")), round(call("c", "read", "{}"), answered("c"))] .concat()),
        ("a strange name", "call-name", Some(2), EVERY, round(call("c", "read file", "{}"), result(3, "c", "read file", words("x")))),
        ("no name", "call-name", Some(2), EVERY, round(call("c", "", "{}"), result(3, "c", "", words("x")))),
        ("a name that begins with a digit", "call-name", Some(2), &[Wire::Gemini], round(call("c", "7z", "{}"), result(3, "c", "7z", words("x")))),
        ("a result under another name", "call-name", Some(2), EVERY, round(call("c", "read", "{}"), result(3, "c", "bash", words("x")))),
        ("arguments that are no object", "call-arguments", Some(2), EVERY, round(call("c", "read", "[1]"), answered("c"))),
        ("arguments cut off", "call-arguments", Some(2), EVERY, round(call("c", "read", r#"{"a": "#), answered("c"))),
        ("half a character in arguments", "call-arguments", Some(2), EVERY, round(call("c", "read", r#"{"a": "\ud83d"}"#), answered("c"))),
        ("nothing", "order", Some(0), EVERY, Vec::new()),
        ("a turn of the model first", "order", Some(2), EVERY, vec![assistant(2, vec![text("so")], None), user(3, words("on"))]),
        ("a turn of the model last", "order", Some(2), EVERY, vec![user(1, words("go")), assistant(2, vec![text("so")], None)]),
        ("two turns of the model", "order", Some(2), EVERY, vec![user(1, words("go")), assistant(2, vec![text("so")], None), assistant(3, vec![text("and so")], None), user(4, words("on"))]),
    ]
}

/// Covers: G6, #32, #34, #35, #36, #38, #39, #46, #48, #49. Each row breaks its rule where it is refused, the
/// check names the record, and what the repair makes of it breaks nothing.
#[test]
fn every_rule_is_found_and_mended() {
    let mut seen = BTreeSet::from(["no-images"]);
    for (label, rule, seq, refusing, history) in rows() {
        seen.insert(rule);
        for (wire, name, model) in WIRES {
            let call = Call::new(name, model, history.clone());
            let settings = Settings::default();
            let found = check(wire, &call.request(), &settings);
            let named = found.iter().any(|v| v.rule == rule && v.seq == seq);
            assert_eq!(named, refusing.contains(&wire), "{label} on {name}: {found:?}");
            let repaired = repair(wire, &call.request(), &settings);
            let request = call.request();
            assert_eq!(
                check(wire, &repaired.request(&request), &settings),
                [],
                "{label} on {name}"
            );
        }
    }
    let all: BTreeSet<&str> = RULES.iter().map(|rule| rule.label).collect();
    assert_eq!(seen, all, "a rule without an example");
}

/// A model without eyes gets a line for each image, and nothing else changes.
#[test]
fn a_model_that_takes_no_images_gets_a_line_instead() {
    let settings = Settings { no_images: true, ..Settings::default() };
    for (wire, name, model) in WIRES {
        let shown = vec![Block::text("look"), picture("image/png", PIXEL)];
        let call = Call::new(name, model, vec![user(7, shown)]);
        assert_eq!(check(wire, &call.request(), &settings)[0].rule, "no-images");
        let body =
            String::from_utf8(wire.request(&call.request(), &settings).unwrap().body).unwrap();
        let line = format!("[image/png of record 7 is left out: {model} takes no images]");
        assert!(body.contains(&line) && !body.contains(PIXEL), "{body}");
    }
}

/// Names that a wire does not take are sent otherwise, and a call comes back under the tool's own name.
///
/// Covers: #38.
#[tokio::test]
async fn a_tool_of_any_name_can_be_called() {
    use segno_runtime::{Model as _, ToolSpec};
    let own = format!("mcp.server/read file {}", "long ".repeat(20));
    for (id, model) in PROVIDERS {
        let server = ScriptedModel::reply_with(|seen| {
            let tool = seen.tools.iter().find(|tool| tool.name != "read").expect("declared");
            match seen.turns.len() {
                1 => segno_testkit::scripted_model::Reply::call(&tool.name, "{}"),
                _ => segno_testkit::scripted_model::Reply::text("done"),
            }
        })
        .unwrap();
        let provider = provider(id, &server);
        let mut call = Call::new(id.as_str(), model, vec![user(1, words("go"))]);
        let spec = |name: &str| ToolSpec {
            name: name.to_owned(),
            description: String::new(),
            parameters: serde_json::json!({"properties": {}}),
        };
        call.tools = vec![spec(&own), spec("read")];
        let first = provider.reply(call.request(), &mut |_| {}).await.unwrap();
        let called: Vec<_> = first.calls().map(|c| c.name.as_str()).collect();
        assert_eq!(called, [own.as_str()], "{id}");
        let id_of_call = first.calls().next().unwrap().id.clone();
        call.messages.push(crate::history::replayed(2, &first));
        call.messages.push(ContextMessage::Results(vec![result(3, &id_of_call, &own, words("x"))]));
        let second = provider.reply(call.request(), &mut |_| {}).await.unwrap();
        assert_eq!(second.text(), "done", "{id}");
        assert_eq!(server.violations(), [], "{id}");
    }
}

fn odd_text() -> impl Strategy<Value = String> {
    prop_oneof![
        Just(String::new()),
        Just(" \n\t".to_owned()),
        Just("a\0b".to_owned()),
        "[a-zäé😀\"\\\\{}\u{0}\u{7}\u{2028}\u{feff} ]{1,12}"
    ]
}

fn odd_block() -> impl Strategy<Value = Block> {
    prop_oneof![
        6 => odd_text().prop_map(Block::text),
        1 => Just(picture("image/png", PIXEL)),
        1 => Just(picture("image/webp", PIXEL)),
        1 => Just(picture("image/png", HUGE)),
        1 => Just(picture("image/gif", "R0lGODlhAQABAAAAACwAAAAAAQABAAACAkwBADs=")),
        1 => Just(picture("image/svg+xml", "PHN2Zy8+")),
        1 => Just(picture("", "?")),
        1 => Just(Block::Unknown),
        1 => Just(Block::Text { text: lost() }),
        1 => Just(Block::Image { media_type: "image/png".to_owned(), data: lost() }),
    ]
}

fn odd_id() -> impl Strategy<Value = String> {
    prop_oneof![
        3 => "[a-c]",
        1 => Just(String::new()),
        1 => Just(" ".to_owned()),
        1 => Just("functions.read:0".to_owned()),
        1 => Just("call_x|fc_1".to_owned()),
        1 => Just("é".repeat(80)),
        1 => "[a-z]{39,70}",
        1 => Just("segno_00".to_owned()),
    ]
}

fn odd_arguments() -> impl Strategy<Value = String> {
    prop_oneof![
        Just("{}".to_owned()),
        Just(" {\"a\": 1.50} \n".to_owned()),
        Just("{\"a\": \"\\ud83d\"}".to_owned()),
        Just("{\"a\": ".to_owned()),
        Just("[1]".to_owned()),
        odd_text(),
    ]
}

fn odd_call() -> impl Strategy<Value = AssistantBlock> {
    let name = prop_oneof![
        4 => Just("read".to_owned()),
        1 => Just(String::new()),
        1 => Just("7 read.file/é".to_owned()),
        1 => Just("n".repeat(90)),
    ];
    (odd_id(), name, odd_arguments()).prop_map(|(id, name, arguments)| call(&id, &name, &arguments))
}

fn odd_said() -> impl Strategy<Value = AssistantBlock> {
    prop_oneof![
        4 => odd_text().prop_map(|t| text(&t)),
        2 => odd_call(),
        1 => odd_text().prop_map(|t| thinking(&t, None)),
        1 => odd_text().prop_map(|t| thinking(&t, Some(" "))),
        1 => Just(AssistantBlock::Unknown),
    ]
}

/// A turn of the model itself, or of another one with what only that one can read.
fn odd_turn() -> impl Strategy<Value = (Vec<AssistantBlock>, bool)> {
    (vec(odd_said(), 0..4), any::<bool>())
}

#[derive(Debug, Clone)]
enum Step {
    User(Vec<Block>),
    Turn((Vec<AssistantBlock>, bool)),
    /// Results of the last turn's calls, with some lost, doubled, strange or swapped.
    Results(Vec<(prop::sample::Index, Vec<Block>, bool)>, bool),
    Stray(String, Vec<Block>),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let content = || vec(odd_block(), 0..3);
    let answers = vec((any::<prop::sample::Index>(), content(), any::<bool>()), 0..4);
    let step = prop_oneof![
        3 => content().prop_map(Step::User),
        4 => odd_turn().prop_map(Step::Turn),
        3 => (answers, any::<bool>()).prop_map(|(a, whole)| Step::Results(a, whole)),
        1 => (odd_id(), content()).prop_map(|(id, blocks)| Step::Stray(id, blocks)),
    ];
    vec(step, 0..9)
}

fn history(steps: &[Step]) -> Vec<ContextMessage> {
    let mut messages = Vec::new();
    let mut open: Vec<(String, String)> = Vec::new();
    for (number, step) in (1_u64..).zip(steps) {
        let seq = number * 10;
        match step {
            Step::User(blocks) => messages.push(user(seq, blocks.clone())),
            Step::Turn((said, is_foreign)) => {
                let calls = said.iter().filter_map(|block| match block {
                    AssistantBlock::ToolCall(c) => Some((c.id.clone(), c.name.clone())),
                    _ => None,
                });
                open = calls.collect();
                let mut said = said.clone();
                if *is_foreign {
                    said.insert(0, thinking("abroad", Some("c2ln")));
                    let items = native("anthropic", r#"[{"type":"thinking","thinking":"abroad"}]"#);
                    messages.push(foreign(assistant(seq, said, items)));
                } else {
                    messages.push(assistant(seq, said, None));
                }
            }
            Step::Results(answers, whole) => {
                let mut results = Vec::new();
                for (place, (which, blocks, is_error)) in (0_u64..).zip(answers) {
                    if open.is_empty() {
                        break;
                    }
                    let (id, name) = &open[which.index(open.len())];
                    let mut given = result(seq + place, id, name, blocks.clone());
                    given.is_error = *is_error;
                    results.push(given);
                }
                if *whole {
                    results.extend(
                        open.iter().map(|(id, name)| result(seq + 5, id, name, words("x"))),
                    );
                }
                messages.push(ContextMessage::Results(results));
            }
            Step::Stray(id, blocks) => {
                messages.push(ContextMessage::Results(vec![result(
                    seq,
                    id,
                    "read",
                    blocks.clone(),
                )]));
            }
        }
    }
    messages
}

/// The bytes of the conversation, without what closes it and without cache marks.
fn conversation(wire: Wire, call: &Call) -> String {
    let body = wire.request(&call.request(), &Settings::default()).unwrap().body;
    let body = String::from_utf8(body).unwrap();
    let body = body.replace(r#","cache_control":{"type":"ephemeral"}"#, "");
    let begin = ["\"messages\":", "\"input\":", "\"contents\":"];
    let begin = begin.iter().filter_map(|key| body.find(key)).max().unwrap();
    body[begin..].trim_end_matches([']', '}', '"']).to_owned()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    /// Covers: G6, G10, #32, #34, #36, #38, #39, #46, #48, #49. Whatever a history holds: after the repair it
    /// breaks no rule on any wire, a repair of it changes nothing, what was given is as it was, the server,
    /// which shares no code with it, takes it, each message has its place, and what was sent is the beginning of
    /// what is sent next.
    #[test]
    fn whatever_a_history_holds_it_can_be_sent(steps in steps(), more in vec(odd_block(), 0..3)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let server = ScriptedModel::start("otherwise\n  say \"ok\"").unwrap();
        let mut given = history(&steps);
        given.push(user(800, words("go on")));
        for ((wire, name, _), (id, model)) in WIRES.into_iter().zip(PROVIDERS) {
            let call = Call::new(name, model, given.clone());
            let before = format!("{:?}", call.messages);
            let settings = Settings::default();
            let repaired = repair(wire, &call.request(), &settings);
            let request = call.request();
            let clean = repaired.request(&request);
            prop_assert_eq!(check(wire, &clean, &settings), vec![], "{}", name);
            let again = repair(wire, &clean, &settings);
            prop_assert_eq!(format!("{:?}", again.messages()), format!("{:?}", repaired.messages()));
            prop_assert_eq!(format!("{:?}", call.messages), before);
            let (_, outcome) = runtime.block_on(ask(&provider(id, &server), model, &given));
            prop_assert_eq!(server.violations(), vec![], "{}", id);
            prop_assert_eq!(outcome.unwrap().text(), "ok", "{}", id);
            let http = wire.request(&call.request(), &settings).unwrap();
            let body: serde_json::Value = serde_json::from_slice(&http.body).unwrap();
            let lists = ["messages", "input", "contents"].map(|key| body[key].as_array().map(Vec::len));
            prop_assert_eq!(Some(http.places.len()), lists.into_iter().flatten().next(), "{}", name);
            let mut longer = call.clone();
            longer.messages.push(assistant(810, vec![text("so")], None));
            longer.messages.push(user(820, more.clone()));
            let (shorter, longer) = (conversation(wire, &call), conversation(wire, &longer));
            prop_assert!(longer.starts_with(&shorter), "{}\n{}\n{}", name, shorter, longer);
        }
    }
}
