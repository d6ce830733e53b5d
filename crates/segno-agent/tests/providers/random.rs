//! Random histories, as the context builder may hand them over, against the scripted model.

use crate::history::{assistant, call, image, result, text, thinking, user};
use crate::scripted::{PROVIDERS, ask, provider};
use proptest::collection::vec;
use proptest::prelude::*;
use segno_model::context::ContextMessage;
use segno_model::record::{AssistantBlock, Block};
use segno_testkit::scripted_model::ScriptedModel;

fn words() -> impl Strategy<Value = String> {
    prop_oneof![
        Just(String::new()),
        Just(" \n".to_owned()),
        "[a-zäé😀\"\\\\{}\u{0}\u{2028} ]{1,12}"
    ]
}

fn blocks() -> impl Strategy<Value = Vec<Block>> {
    let block = prop_oneof![
        4 => words().prop_map(Block::text),
        1 => Just(image()),
        1 => Just(Block::Unknown),
    ];
    vec(block, 0..4)
}

fn said() -> impl Strategy<Value = Vec<AssistantBlock>> {
    let block = prop_oneof![
        2 => words().prop_map(|w| text(&w)),
        1 => words().prop_map(|w| thinking(&w, None)),
        1 => Just(AssistantBlock::Unknown),
    ];
    vec(block, 1..4)
}

/// Arguments, well-formed and not.
fn arguments() -> impl Strategy<Value = String> {
    prop_oneof![
        Just(String::new()),
        Just("{}".to_owned()),
        Just(" {\"a\": 1.50} \n".to_owned()),
        Just("{\"a\": ".to_owned()),
        Just("[1]".to_owned()),
        Just("null".to_owned()),
        words(),
    ]
}

/// A user message, perhaps more of them, and perhaps a turn with as many calls as results.
type Round = (Vec<Block>, Option<Vec<Block>>, Vec<AssistantBlock>, Vec<(String, Vec<Block>, bool)>);

fn round() -> impl Strategy<Value = Round> {
    let calls = vec((arguments(), blocks(), any::<bool>()), 0..4);
    (blocks(), prop::option::of(blocks()), said(), calls)
}

fn history(rounds: &[Round]) -> Vec<ContextMessage> {
    let mut messages = Vec::new();
    for (number, (first, second, said, calls)) in (1_u64..).zip(rounds) {
        let seq = number * 100;
        messages.push(user(seq, first.clone()));
        messages.extend(second.clone().map(|blocks| user(seq + 1, blocks)));
        let mut content = said.clone();
        let mut results = Vec::new();
        for (place, (arguments, output, is_error)) in (0_u64..).zip(calls) {
            let id = if place == 2 {
                format!("odd:{number} {place}")
            } else {
                format!("call_{number}_{place}")
            };
            content.push(call(&id, "read", arguments));
            let mut given = result(seq + 10 + place, &id, "read", output.clone());
            given.is_error = *is_error;
            results.push(given);
        }
        messages.push(assistant(seq + 2, content, None));
        if !results.is_empty() {
            messages.push(ContextMessage::Results(results));
        }
    }
    if matches!(messages.last(), Some(ContextMessage::Assistant(_)) | None) {
        messages.push(user(9_999, vec![Block::text("go on")]));
    }
    messages
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Covers: G6, #48, #49 (nothing is sent that a provider would refuse).
    #[test]
    fn no_history_is_refused_on_any_wire(rounds in vec(round(), 0..4)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let messages = history(&rounds);
        let server = ScriptedModel::start("otherwise\n  say \"ok\"").unwrap();
        for (id, model) in PROVIDERS {
            let (_, outcome) = runtime.block_on(ask(&provider(id, &server), model, &messages));
            prop_assert_eq!(server.violations(), vec![], "{}", id);
            prop_assert_eq!(outcome.unwrap().text(), "ok", "{}", id);
        }
    }
}
