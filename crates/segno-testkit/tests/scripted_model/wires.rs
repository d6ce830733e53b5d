//! What each wire answers: the same reply, spelled four ways.

use super::client::{Heard, Response, headers, hear, http, post};
use super::spell::{body, turns};
use segno_testkit::scripted_model::{Numbers, Part, Piece, Reply, ScriptedModel, Stop, Turn, Wire};
use serde_json::{Value, json};

const EVERYTHING: &str = r#"
    rule all
      when last user
      think "Two files, so two calls."
      say "I read both: \u00e4\u00f6\u00fc \ud834\udd0b"
      call read {"path": "a.txt"}
      call read {"path": "b.txt", "lines": [1, 20]}
      usage input 100 output 40 cache-read 20 cache-write 5 reasoning 8
    otherwise
      think hidden "nobody sees this"
      say "Both were read."
"#;

fn start(script: &str) -> ScriptedModel {
    ScriptedModel::start(script).expect("the script is good")
}

fn ask(server: &ScriptedModel, wire: Wire, conversation: &str) -> Response {
    let response = post(server, wire, &body(wire, &turns(conversation)));
    assert_eq!(response.status, 200, "{wire:?}: {}", response.text());
    assert!(response.head.contains("text/event-stream"), "{}", response.head);
    response
}

/// The exact events of each wire for one request.
#[test]
fn a_request_gives_these_events() {
    for wire in Wire::ALL {
        let server = start(EVERYTHING);
        let response = ask(&server, wire, "user go");
        insta::assert_snapshot!(format!("events_{}", wire.name()), response.text());
    }
}

/// Covers: TT5 (text of several bytes arrives whole).
#[test]
fn every_wire_says_the_same() {
    for wire in Wire::ALL {
        let server = start(EVERYTHING);
        let heard = hear(wire, &ask(&server, wire, "user go"));
        assert_eq!(heard.thinking, "Two files, so two calls.", "{wire:?}");
        assert_eq!(heard.text, "I read both: äöü 𝄋", "{wire:?}");
        assert_eq!(heard.signature.is_empty(), wire == Wire::Chat, "{wire:?}");
        let arguments: Vec<Value> =
            heard.calls.iter().map(|c| serde_json::from_str(&c[2]).expect("JSON")).collect();
        let expected = [json!({"path": "a.txt"}), json!({"path": "b.txt", "lines": [1, 20]})];
        assert_eq!(arguments, expected, "{wire:?}");
        assert!(heard.calls.iter().all(|call| call[1] == "read"));
        let distinct = heard.calls[0][0] != heard.calls[1][0];
        assert_eq!(distinct, wire != Wire::Gemini, "older Gemini models give no ids");
        assert_eq!(heard.numbers, [125, 40, 20], "{wire:?}");
        let stop = match wire {
            Wire::Anthropic => "tool_use",
            Wire::Responses => "completed",
            Wire::Chat => "tool_calls",
            Wire::Gemini => "STOP",
        };
        assert_eq!(heard.stop, stop);
    }
}

/// What the server itself said is taken back, with signatures, on every wire.
///
/// Covers: G6, #46.
#[test]
fn a_reply_can_be_replayed_with_its_signatures() {
    for wire in Wire::ALL {
        let server = start(EVERYTHING);
        let first = hear(wire, &ask(&server, wire, "user go"));
        let history = format!("user go\n{}", replay(wire, &first));
        let second = hear(wire, &ask(&server, wire, &history));
        assert_eq!(second.text, "Both were read.", "{wire:?}");
        assert_eq!(second.thinking, "", "hidden reasoning stays hidden");
        assert_eq!(server.violations(), [], "{wire:?}");
    }
}

/// The first reply of [`EVERYTHING`] and its results, in the notation of the tests.
fn replay(wire: Wire, heard: &Heard) -> String {
    let signed = |line: String| format!("{line}\nsign {}", heard.signature);
    let [one, two] = heard.calls.as_slice() else { panic!("two calls") };
    let id = |call: &[String; 3]| if call[0].is_empty() { "_".into() } else { call[0].clone() };
    let call = |c: &[String; 3]| format!("call {} {} {}", id(c), c[1], c[2]);
    let thinking = match wire {
        Wire::Anthropic | Wire::Responses => {
            format!("think {} {}", heard.signature, heard.thinking)
        }
        Wire::Chat | Wire::Gemini => format!("think - {}", heard.thinking),
    };
    let first = if wire == Wire::Gemini { signed(call(one)) } else { call(one) };
    let results = [one, two].map(|c| format!("result {} read something", id(c))).join("\n");
    format!("{thinking}\nsay {}\n{first}\n{}\n{results}", heard.text, call(two))
}

/// Gemini signs the text where there is no call, and newer models name their calls.
#[test]
fn gemini_signs_text_and_names_calls_of_newer_models() {
    let server = start(
        "rule a\n\
          when last user\n\
          when turns 1\n\
          think \"hm\"\n\
          say \"well, then\"\n\
         otherwise\n\
          call read {\"path\":\"x\"}",
    );
    let first = hear(Wire::Gemini, &ask(&server, Wire::Gemini, "user go"));
    let history = format!("user go\nsay {}\nsign {}\nuser more", first.text, first.signature);
    ask(&server, Wire::Gemini, &history);
    let line = "POST /v1beta/models/gemini-3-pro:streamGenerateContent?alt=sse&key=k";
    let more = body(Wire::Gemini, &turns("user go\nsay a\nuser more"));
    let response = http(&server, line, &[("content-type", "application/json")], &more.to_string());
    let heard = hear(Wire::Gemini, &response);
    let id = &heard.calls[0][0];
    assert!(id.starts_with("fc-"), "{heard:?}");
    for (signature, status) in [(format!("sign {}", heard.signature), 200), (String::new(), 400)] {
        let call = format!("call {id} read {{\"path\":\"x\"}}\n{signature}\nresult {id} read y");
        let more = body(Wire::Gemini, &turns(&format!("user go\nsay a\nuser more\n{call}")));
        let headers = [("content-type", "application/json")];
        assert_eq!(http(&server, line, &headers, &more.to_string()).status, status, "{call}");
    }
    assert_eq!(server.violations()[0].rule, "signature-missing");
}

/// A neutral history survives being spelled and read on every wire.
#[test]
fn every_wire_sees_the_same_history() {
    let conversation = turns(
        "user one\nsay two\ncall c1 read {\"path\":\"x\"}\ncall c2 read {}\n\
         result c1 read three\nresult c2 read four\nuser five\nsay six\nuser seven",
    );
    for wire in Wire::ALL {
        let server = ScriptedModel::reply_with(|_| Reply::text("ok")).expect("a server");
        post(&server, wire, &body(wire, &conversation));
        let seen = server.requests().remove(0).seen.expect("a parsed request");
        assert_eq!(server.violations(), [], "{wire:?}");
        let roles = "user assistant results user assistant user";
        assert_eq!(seen.roles().join(" "), roles, "{wire:?}");
        let texts = |turns: &[Turn]| turns.iter().map(Turn::text).collect::<Vec<_>>();
        assert_eq!(texts(&seen.turns), texts(&conversation), "{wire:?}");
        assert_eq!(seen.system, "Be good.");
        assert_eq!(seen.tools[0].name, "read");
        assert_eq!(seen.model, "scripted");
    }
}

#[test]
fn images_are_seen_on_every_wire() {
    // A PNG of one pixel.
    let picture = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR42mP4z8AAAAMBAQD3A0FDAAAAAElFTkSuQmCC";
    let url = format!("data:image/png;base64,{picture}");
    let source = json!({"type": "base64", "media_type": "image/png", "data": picture});
    let rows = [
        (Wire::Anthropic, "/messages/0/content", json!({"type": "image", "source": source})),
        (Wire::Responses, "/input/0/content", json!({"type": "input_image", "image_url": url})),
        (
            Wire::Chat,
            "/messages/1/content",
            json!({"type": "image_url", "image_url": {"url": url}}),
        ),
        (
            Wire::Gemini,
            "/contents/0/parts",
            json!({"inlineData": {"mimeType": "image/png", "data": picture}}),
        ),
    ];
    for (wire, pointer, image) in rows {
        let server = start("otherwise\n say \"a picture\"");
        let mut request = body(wire, &turns("user look"));
        let list = request.pointer_mut(pointer).and_then(Value::as_array_mut).expect("content");
        list.push(image);
        assert_eq!(post(&server, wire, &request).status, 200, "{wire:?}");
        let seen = server.requests().remove(0).seen.expect("a parsed request");
        let image = Piece::Image { media_type: "image/png".into(), base64_bytes: picture.len() };
        assert_eq!(seen.turns, [Turn::User(vec![Piece::Text("look".into()), image])], "{wire:?}");
    }
}

#[test]
fn stop_reasons_have_each_wires_name() {
    let rows = [
        (Stop::End, ["end_turn", "completed", "stop", "STOP"]),
        (Stop::Length, ["max_tokens", "incomplete", "length", "MAX_TOKENS"]),
        (Stop::Refusal, ["refusal", "incomplete", "content_filter", "SAFETY"]),
    ];
    for (stop, names) in rows {
        for (wire, name) in Wire::ALL.into_iter().zip(names) {
            let server = ScriptedModel::reply_with(move |_| Reply {
                parts: vec![Part::Text("cut".into())],
                stop: Some(stop),
                usage: Numbers::default(),
                faults: Vec::new(),
            })
            .expect("a server");
            assert_eq!(hear(wire, &ask(&server, wire, "user go")).stop, name);
        }
    }
}

#[test]
fn models_are_listed_where_clients_look() {
    let server = start("models one two\nwindow 5000\notherwise\n say \"x\"");
    let ids = |path: &str, list: &str, key: &str| -> Vec<String> {
        let response = http(&server, &format!("GET {path}"), &[], "");
        let value = response.json();
        let list = value[list].as_array().expect("a list");
        list.iter().map(|m| m[key].as_str().expect("an id").to_owned()).collect()
    };
    assert_eq!(ids("/v1/models", "data", "id"), ["one", "two"]);
    assert_eq!(ids("/v1/models?limit=1000", "data", "id"), ["one", "two"]);
    assert_eq!(ids("/v1beta/models", "models", "name"), ["models/one", "models/two"]);
    assert_eq!(ids("/api/tags", "models", "name"), ["one", "two"]);
    assert_eq!(http(&server, "GET /elsewhere", &[], "").status, 404);
    assert_eq!(http(&server, "DELETE /v1/messages", &headers(Wire::Chat), "").status, 404);
    assert!(server.requests().is_empty(), "lists are no model calls");
}
