//! What is sent.

use crate::history::{Call, WIRES, assistant, call, image, result, rich, text, thinking, user};
use segno_agent::provider::{Settings, Wire};
use segno_model::context::ContextMessage;
use segno_model::record::{Block, Native};
use serde_json::Value;
use serde_json::value::RawValue;

fn pretty(body: &[u8]) -> String {
    let value: Value = serde_json::from_slice(body).unwrap();
    serde_json::to_string_pretty(&value).unwrap()
}

/// Covers: #48, #49, #46, #38, G6 (no empty text, no unsigned thinking, results together and first).
#[test]
fn a_rich_history_is_legal_on_every_wire() {
    for (wire, provider, model) in WIRES {
        let mut call = Call::new(provider, model, rich());
        call.thinking = Some("high".to_owned());
        let http = call.http(wire);
        let text = format!("{}\n{:?}\n{}", http.path, http.headers, pretty(&http.body));
        insta::assert_snapshot!(format!("request_{provider}"), text);
    }
}

/// Covers: G10 (the same call is the same bytes).
#[test]
fn the_same_call_is_the_same_bytes() {
    for (wire, provider, model) in WIRES {
        let call = Call::new(provider, model, rich());
        assert_eq!(call.http(wire), call.clone().http(wire), "{provider}");
    }
}

/// The body without cache markers and without what closes its lists.
fn growing_part(body: &[u8]) -> String {
    let text = String::from_utf8(body.to_vec()).unwrap();
    let text = text.replace(r#","cache_control":{"type":"ephemeral"}"#, "");
    text.trim_end_matches([']', '}']).to_owned()
}

/// Covers: G10 (a longer history only adds bytes at the end, so provider caches stay warm).
#[test]
fn a_longer_history_keeps_every_byte_of_the_shorter_one() {
    for (wire, provider, model) in WIRES {
        let history = rich();
        // No request ends with a turn of the model.
        let is_said = |end: &usize| !matches!(history[end - 1], ContextMessage::Assistant(_));
        for end in (1..history.len()).filter(is_said) {
            let shorter = Call::new(provider, model, history[..end].to_vec());
            let longer = Call::new(provider, model, history[..=end].to_vec());
            if matches!(history[end - 1], ContextMessage::User { .. })
                && matches!(history[end], ContextMessage::User { .. })
                && wire == Wire::OpenAiChat
            {
                // A plain string grows inside its quotes.
                let (a, b) = (shorter.http(wire).body, longer.http(wire).body);
                assert!(b.starts_with(&a[..a.len() - r#""}]}"#.len()]), "{provider} {end}");
                continue;
            }
            let (a, b) = (shorter.http(wire).body, longer.http(wire).body);
            assert!(growing_part(&b).starts_with(&growing_part(&a)), "{provider} {end}");
        }
    }
}

#[test]
fn cache_markers_stand_on_the_prefix_and_the_newest_user_turns_only() {
    let markers = |messages: &[ContextMessage]| {
        let body = Call::new("anthropic", "claude-sonnet-4-5", messages.to_vec());
        String::from_utf8(body.http(Wire::Anthropic).body).unwrap().matches("cache_control").count()
    };
    let history = rich();
    assert_eq!([markers(&history[..1]), markers(&history[..3]), markers(&history)], [2, 3, 3]);
}

fn native(dialect: &str, items: &str) -> Native {
    let items = RawValue::from_string(items.to_owned()).unwrap();
    Native { dialect: dialect.to_owned(), items }
}

/// Covers: G10 (the provider's own items go back byte for byte).
#[test]
fn native_items_are_replayed_byte_for_byte_and_only_on_their_own_wire() {
    let items = [
        ("anthropic", r#"[{"type":"text","text":"\u00e9","x":1.50},{ "type":"new_kind" }]"#),
        (
            "openai",
            r#"[{"type":"reasoning","id":"r","summary":[],"encrypted_content":"e"},{"x":1.0}]"#,
        ),
        ("openai-chat", r#"{"role":"assistant","content":"\u00e9","reasoning_content":"r"}"#),
        ("gemini", r#"[{"text":"\u00e9","thoughtSignature":"s"}]"#),
    ];
    for (wire, provider, model) in WIRES {
        for (dialect, items) in items {
            let history = vec![
                user(1, vec![Block::text("hi")]),
                assistant(2, vec![text("rebuilt")], Some(native(dialect, items))),
                user(3, vec![Block::text("on")]),
            ];
            let body =
                String::from_utf8(Call::new(provider, model, history).http(wire).body).unwrap();
            let inner = if dialect == "openai" { &items[1..items.len() - 1] } else { items };
            assert_eq!(body.contains(inner), dialect == provider, "{dialect} on {provider}");
            assert_eq!(body.contains("rebuilt"), dialect != provider, "{dialect} on {provider}");
        }
    }
}

/// A caller without tools still sends a legal history.
#[test]
fn called_tools_are_declared_even_if_the_caller_gives_none() {
    for (wire, provider, model) in WIRES {
        let mut call = Call::new(provider, model, rich());
        call.tools.clear();
        let body = pretty(&call.http(wire).body);
        assert!(body.contains("Not available any more."), "{provider}");
        call.messages.truncate(1);
        assert!(!pretty(&call.http(wire).body).contains("tool"), "{provider}");
    }
}

/// Turns with nothing that can be sent vanish, and the turns beside them are merged.
///
/// Covers: #46, #49.
#[test]
fn a_turn_of_unsigned_thinking_is_left_out() {
    for (wire, provider, model) in WIRES {
        let history = vec![
            user(1, vec![Block::text("one")]),
            assistant(2, vec![thinking("hm", None), text("  \n")], None),
            user(3, vec![Block::text("two")]),
        ];
        let body: Value =
            serde_json::from_slice(&Call::new(provider, model, history).http(wire).body).unwrap();
        let text = body.to_string();
        assert!(!text.contains("hm") && text.contains("one") && text.contains("two"), "{text}");
        assert!(!text.contains("\"model\",\"parts\"") && !text.contains("\"assistant\""), "{text}");
    }
}

#[test]
fn budgeted_thinking_is_left_out_where_the_open_turn_began_without() {
    let open_turn = |first| {
        let mut blocks = vec![call("c", "read", "{}")];
        if let Some(block) = first {
            blocks.insert(0, block);
        }
        let history = vec![
            user(1, vec![Block::text("go")]),
            assistant(2, blocks, None),
            ContextMessage::Results(vec![result(3, "c", "read", vec![Block::text("x")])]),
        ];
        let mut call = Call::new("anthropic", "claude-sonnet-4-5", history);
        call.thinking = Some("low".to_owned());
        String::from_utf8(call.http(Wire::Anthropic).body).unwrap().contains("budget_tokens")
    };
    assert!(open_turn(Some(thinking("t", Some("s")))));
    assert!(!open_turn(None));
}

/// Parallel results with images: no image comes between two results.
#[test]
fn images_of_results_never_split_the_results() {
    let history = vec![
        user(1, vec![Block::text("go")]),
        assistant(2, vec![call("a", "read", "{}"), call("b", "read", "{}")], None),
        ContextMessage::Results(vec![
            result(3, "a", "read", vec![image()]),
            result(4, "b", "read", vec![image(), Block::text("b")]),
        ]),
        user(5, vec![Block::text("next")]),
    ];
    for (wire, provider, model) in WIRES {
        let body = Call::new(provider, model, history.clone()).http(wire).body;
        insta::assert_snapshot!(format!("result_images_{provider}"), pretty(&body));
    }
}

#[test]
fn openai_itself_gets_its_cache_key_and_effort_on_the_chat_wire() {
    let mut call = Call::new("openai-chat", "gpt-5", vec![user(1, vec![Block::text("x")])]);
    call.thinking = Some("off".to_owned());
    let settings = Settings { max_output: Some(100), is_openai: true, ..Settings::default() };
    let body = Wire::OpenAiChat.request(&call.request(), &settings).unwrap().body;
    let body: Value = serde_json::from_slice(&body).unwrap();
    assert_eq!(body["prompt_cache_key"], call.session.as_str());
    assert_eq!(body["reasoning_effort"], "minimal");
}
