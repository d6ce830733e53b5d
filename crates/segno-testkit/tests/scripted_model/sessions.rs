//! Sessions: prefixes, several at once, clients that leave.

use super::client::{connect, headers, hear, http, line, post, send};
use super::spell::{MODEL, body, turns};
use segno_testkit::scripted_model::{Prefix, Reply, ScriptedModel, Wire};
use serde_json::{Value, json};
use std::io::Write;

fn prefixes(server: &ScriptedModel) -> Vec<Option<Prefix>> {
    server.requests().iter().map(|request| request.prefix).collect()
}

/// Covers: G10.
#[test]
fn each_request_is_compared_with_the_one_before() {
    use Prefix::{Changed, Equal, Extended, First};
    let steps = [
        ("user go", First),
        ("user go", Equal),
        ("user go\nsay hi\nuser more", Extended),
        ("user go\nsay hi!\nuser more\nsay a\nuser b", Changed),
        ("user other", First),
        ("user go\nsay hi!\nuser more\nsay a\nuser b\nsay c\nuser d", Extended),
    ];
    for wire in Wire::ALL {
        let server = ScriptedModel::start("otherwise\n say \"x\"").expect("the script is good");
        for (text, expected) in steps {
            post(&server, wire, &body(wire, &turns(text)));
            assert_eq!(prefixes(&server).last(), Some(&Some(expected)), "{wire:?} {text:?}");
        }
    }
}

/// Covers: G10 (changed instructions and tools are seen, moved cache marks are not).
#[test]
fn system_and_tools_belong_to_the_prefix_and_cache_marks_do_not() {
    let mark = json!({"type": "ephemeral"});
    let rows = [
        ("/messages/0/content/0/cache_control", mark.clone(), Prefix::Equal),
        ("/tools/0/cache_control", mark, Prefix::Equal),
        ("/system", json!("Be bad."), Prefix::Changed),
        ("/tools/0/description", json!("other"), Prefix::Changed),
        ("/max_tokens", json!(9000), Prefix::Equal),
    ];
    for (pointer, value, expected) in rows {
        let server = ScriptedModel::start("otherwise\n say \"x\"").expect("the script is good");
        let mut request = body(Wire::Anthropic, &turns("user go"));
        post(&server, Wire::Anthropic, &request);
        let (parent, key) = pointer.rsplit_once('/').expect("a pointer");
        request.pointer_mut(parent).expect("a parent")[key] = value;
        post(&server, Wire::Anthropic, &request);
        assert_eq!(prefixes(&server)[1], Some(expected), "{pointer}");
    }
}

/// Covers: G10.
#[test]
fn strict_scripts_refuse_a_changed_prefix_unless_a_rule_expects_it() {
    let script = "strict prefix\n\
         rule fresh\n\
          when user contains \"summary\"\n\
          new-prefix\n\
          say \"ok\"\n\
         otherwise\n\
          say \"x\"";
    let server = ScriptedModel::start(script).expect("the script is good");
    let ask = |text: &str| {
        let mut request = body(Wire::Anthropic, &turns(text));
        request["metadata"] = json!({"user_id": "s1"});
        post(&server, Wire::Anthropic, &request).status
    };
    assert_eq!(ask("user go"), 200);
    assert_eq!(ask("user went\nsay hi\nuser more"), 400);
    assert_eq!(server.violations()[0].rule, "prefix-changed");
    assert_eq!(ask("user a summary of it all"), 200);
    assert_eq!(ask("user a summary of it all\nsay ok\nuser on"), 200);
}

/// The session is named by the wire's own field, or by a header.
#[test]
fn sessions_are_told_apart_by_their_key() {
    let rows = [
        (Wire::Anthropic, "metadata", json!({"user_id": "s1"}), json!({"user_id": "s2"})),
        (Wire::Responses, "prompt_cache_key", json!("s1"), json!("s2")),
        (Wire::Chat, "prompt_cache_key", json!("s1"), json!("s2")),
    ];
    for (wire, field, first, second) in rows {
        let server = ScriptedModel::start("otherwise\n say \"x\"").expect("the script is good");
        let ask = |text: &str, key: &Value| {
            let mut request = body(wire, &turns(text));
            request[field] = key.clone();
            post(&server, wire, &request);
        };
        ask("user go", &first);
        ask("user go\nsay a\nuser b", &second);
        ask("user went", &first);
        let found = prefixes(&server);
        let expected = [Prefix::First, Prefix::First, Prefix::Changed].map(Some);
        assert_eq!(found, expected, "{wire:?}");
    }
    let server = ScriptedModel::start("otherwise\n say \"x\"").expect("the script is good");
    let mut all = headers(Wire::Gemini);
    all.push(("x-segno-session", "s1"));
    for text in ["user go", "user went"] {
        let request = body(Wire::Gemini, &turns(text)).to_string();
        http(&server, &line(Wire::Gemini, MODEL), &all, &request);
    }
    assert_eq!(prefixes(&server), [Some(Prefix::First), Some(Prefix::Changed)]);
    assert_eq!(server.requests()[0].seen.as_ref().map(|s| s.session.as_str()), Some("s1"));
}

/// Two sessions at once, on one server, each with its own counts and its own answers.
#[test]
fn interleaved_sessions_do_not_mix() {
    let script = "rule first\n\
          once\n\
          when user contains \"n=\" capture n until space\n\
          say \"first {n}\"\n\
         rule more\n\
          when history contains \"n=\" capture n until space\n\
          say \"more {n}\"";
    let server = ScriptedModel::start(script).expect("the script is good");
    std::thread::scope(|scope| {
        for worker in 0..4 {
            let server = &server;
            scope.spawn(move || {
                let wire = Wire::ALL[worker];
                let mut text = format!("user n={worker} please");
                for round in 0..8 {
                    let response = post(server, wire, &body(wire, &turns(&text)));
                    let heard = hear(wire, &response).text;
                    let word = if round == 0 { "first" } else { "more" };
                    assert_eq!(heard, format!("{word} {worker}"));
                    text.push_str(&format!("\nsay {heard}\nuser go on"));
                }
            });
        }
    });
    assert_eq!(server.requests().len(), 32);
    assert_eq!(server.violations(), []);
    let changed = prefixes(&server).into_iter().filter(|p| *p == Some(Prefix::Changed)).count();
    assert_eq!(changed, 0);
}

#[test]
fn clients_that_leave_or_talk_nonsense_do_no_harm() {
    let long = "words ".repeat(20_000);
    let server = ScriptedModel::reply_with(move |_| Reply::text(long.clone())).expect("a server");
    let request = body(Wire::Chat, &turns("user go")).to_string();
    for round in 0..20 {
        let mut stream = connect(&server);
        match round % 4 {
            // Leaves in the middle of the reply.
            0 => send(&mut stream, &line(Wire::Chat, MODEL), &headers(Wire::Chat), &request),
            // Leaves in the middle of the request.
            1 => stream
                .write_all(b"POST /v1/messages HTTP/1.1\r\ncontent-length: 99\r\n\r\n{")
                .expect("sent"),
            2 => stream.write_all(b"\x16\x03\x01 no HTTP at all\r\n\r\n").expect("sent"),
            _ => {}
        }
    }
    let response = post(&server, Wire::Chat, &body(Wire::Chat, &turns("user go")));
    assert!(response.whole);
    assert_eq!(hear(Wire::Chat, &response).text.len(), 120_000);
}

/// A reply in code sees the neutral history.
#[test]
fn code_can_answer() {
    let server = ScriptedModel::reply_with(|seen| {
        Reply::text(format!("{} turns, last: {}", seen.turns.len(), seen.last_user_text()))
    })
    .expect("a server");
    for wire in Wire::ALL {
        let response = post(&server, wire, &body(wire, &turns("user a\nsay b\nuser c")));
        assert_eq!(hear(wire, &response).text, "3 turns, last: c", "{wire:?}");
    }
}
