//! What is refused: every rule has a request that breaks it.

use super::client::{headers, hear, http, line, post};
use super::spell::{MODEL, body, turns};
use segno_testkit::scripted_model::{RULES, ScriptedModel, Wire};
use serde_json::Value;
use std::collections::BTreeSet;

const SCRIPT: &str = "auth off\n\
         rule t\n\
          when user contains \"think\"\n\
          when last user\n\
          when turns 1\n\
          think \"deep\"\n\
          say \"done\"\n\
         otherwise\n\
          say \"fine\"";

fn start() -> ScriptedModel {
    ScriptedModel::start(SCRIPT).expect("the script is good")
}

/// Sends a body, and gives the rules that it breaks; none means that it was answered.
fn broken(server: &ScriptedModel, wire: Wire, request: &Value) -> Vec<&'static str> {
    let response = post(server, wire, request);
    let last = server.requests().pop().expect("a request");
    let refused = !last.violations.is_empty();
    assert_eq!(response.status, if refused { 400 } else { 200 }, "{}", response.text());
    if refused {
        let message = &last.violations[0].message;
        assert!(response.json()["error"]["message"].as_str().expect("text").contains(message));
    }
    last.violations.into_iter().map(|violation| violation.rule).collect()
}

/// For trying what other programs send: the answer comes, and what it broke is noted.
#[test]
fn a_lenient_server_answers_and_notes() {
    let server = ScriptedModel::start(&format!("lenient\n{SCRIPT}")).expect("the script is good");
    for wire in ALL {
        let request = body(wire, &turns("user go\ncall c read {}\nuser more"));
        assert_eq!(post(&server, wire, &request).status, 200, "{wire:?}");
        let last = server.requests().pop().expect("a request");
        assert!(last.violations.iter().any(|v| v.rule == "call-without-result"), "{wire:?}");
    }
}

const ALL: [Wire; 4] = Wire::ALL;
const NAMED: &[Wire] = &[Wire::Anthropic, Wire::Responses, Wire::Chat];
const STRICT: &[Wire] = &[Wire::Anthropic, Wire::Chat, Wire::Gemini];
const SIGNING: &[Wire] = &[Wire::Anthropic, Wire::Responses];

/// Histories that break exactly one rule, and on which wires.
const HISTORIES: &[(&str, &[Wire], &str)] = &[
    ("first-not-user", &ALL, "say hello\nuser go"),
    ("assistant-last", &ALL, "user go\nsay hello"),
    ("empty-message", &ALL, "user go\nempty assistant\nuser more"),
    ("empty-message", STRICT, "empty user"),
    ("empty-text", &ALL, "user _"),
    ("empty-text", &ALL, "user go\nsay _\ncall c read {}\nresult c read x"),
    ("nul", &ALL, "user a\0b"),
    ("nul", &ALL, "user go\ncall c read {}\nresult c read a\0b"),
    ("empty-result", &ALL, "user go\ncall c read {}\nresult c read _"),
    ("roles-alternate", STRICT, "user go\nuser more"),
    ("call-without-result", &ALL, "user go\ncall c read {}\nuser more"),
    ("call-without-result", NAMED, "user go\ncall c read {}\ncall d read {}\nresult c read x"),
    ("call-without-result", &[Wire::Gemini], "user go\ncall _ a {}\ncall _ b {}\nresult _ a x"),
    ("result-without-call", &ALL, "user go\nsay hello\nresult c read x"),
    ("result-without-call", &ALL, "user go\nresult c read x"),
    ("result-without-call", &ALL, "user go\ncall c read {}\nresult c read x\nresult d read y"),
    ("duplicate-result", NAMED, "user go\ncall c read {}\nresult c read x\nresult c read y"),
    ("result-order", &ALL, "user go\ncall c r {}\ncall d r {}\nresult d r y\nresult c r x"),
    ("result-order", &[Wire::Gemini], "user go\ncall _ a {}\nresult _ b x"),
    ("call-id", NAMED, "user go\ncall _ read {}\nresult _ read x"),
    ("call-id", &[Wire::Anthropic], "user go\ncall a:b read {}\nresult a:b read x"),
    ("call-id", &ALL, "user go\ncall LONG read {}\nresult LONG read x"),
    ("duplicate-call-id", &ALL, "user go\ncall c r {}\nresult c r x\ncall c r {}\nresult c r y"),
    ("call-name", &ALL, "user go\ncall c _ {}\nresult c _ x"),
    ("call-name", &ALL, "user go\ncall c a.b {}\nresult c a.b x"),
    ("call-arguments", &ALL, "user go\ncall c read [1]\nresult c read x"),
    ("call-arguments", NAMED, "user go\ncall c read {\"path\nresult c read x"),
    ("unsigned-thinking", SIGNING, "user go\nthink - hm\nsay hello\nuser more"),
    ("unsigned-thinking", SIGNING, "user go\nthink _ hm\nsay hello\nuser more"),
    ("foreign-signature", SIGNING, "user go\nthink EqQBCkYIBBgC hm\nsay hello\nuser more"),
    ("foreign-signature", &[Wire::Gemini], "user go\nsay hello\nsign EqQBCkYI\nuser more"),
    ("reasoning-alone", &[Wire::Responses], "user go\nsay hi\nthink SIGNED deep\nuser more"),
    ("altered-thinking", SIGNING, "user go\nthink SIGNED deeper\nsay hello\nuser more"),
    ("altered-thinking", SIGNING, "user go\nthink CUT deep\nsay hello\nuser more"),
    ("altered-thinking", &[Wire::Gemini], "user go\nsay not done\nsign SIGNED\nuser more"),
];

/// The signature that the server gives for `deep`.
fn signature(server: &ScriptedModel, wire: Wire) -> String {
    let response = post(server, wire, &body(wire, &turns("user think")));
    hear(wire, &response).signature
}

/// Covers: G6, #32, #34, #36, #39, #45, #46, #48, #49.
#[test]
fn a_broken_history_is_refused_by_its_rule() {
    for (rule, wires, text) in HISTORIES {
        for wire in *wires {
            let server = start();
            let signed = signature(&server, *wire);
            let cut = signed.get(..40).unwrap_or_default();
            let long = "x".repeat(65);
            let text = text.replace("SIGNED", &signed).replace("CUT", cut).replace("LONG", &long);
            let found = broken(&server, *wire, &body(*wire, &turns(&text)));
            assert!(found.contains(rule), "{wire:?} {rule}: {text:?} breaks {found:?}");
            // What follows from the same fault is fine; more than that is a rule gone astray.
            let distinct: BTreeSet<_> = found.iter().collect();
            assert!(distinct.len() <= 2, "{wire:?} {rule}: {text:?} breaks {found:?}");
        }
    }
}

/// Histories that look odd and are legal.
///
/// Covers: G6.
#[test]
fn legal_histories_are_not_refused() {
    let rows: &[(&[Wire], &str)] = &[
        (&ALL, "user go"),
        (&ALL, "user go\nsay hello\nuser more"),
        (&ALL, "user go\ncall c read {}\nresult c read x\nuser and now\nsay yes\nuser more"),
        (&ALL, "user go\ncall c r {}\ncall d r {}\nresult c r x\nresult d r y"),
        (&[Wire::Gemini], "user go\ncall _ r {}\ncall _ r {}\nresult _ r x\nresult _ r y"),
        (&[Wire::Responses], "user go\nuser more"),
        (&[Wire::Responses], "user go\nthink SIGNED deep\nsay hello\nuser more"),
        (&[Wire::Responses], "user go\nthink SIGNED\nsay hello\nuser more"),
        (&[Wire::Anthropic], "user go\nthink SIGNED deep\nsay hello\nuser more"),
        (&[Wire::Gemini], "user go\nthink - deep\nsay done\nsign SIGNED\nuser more"),
        (
            &[Wire::Gemini],
            "user go\ncall c r {}\nsign skip_thought_signature_validator\nresult c r x",
        ),
    ];
    for (wires, text) in rows {
        for wire in *wires {
            let server = start();
            let text = text.replace("SIGNED", &signature(&server, *wire));
            let found = broken(&server, *wire, &body(*wire, &turns(&text)));
            assert_eq!(found, [""; 0], "{wire:?}: {text}");
        }
    }
}

/// Changes to a good body that break a rule: the wire, the place, what is put there (null takes it
/// away). MARKED and TEXT stand for blocks of text.
const SHAPES: &str = r#"
not-streaming anthropic /stream false
not-streaming responses /stream null
not-streaming chat /stream null
field-missing anthropic /model ""
field-missing responses /model null
field-missing chat /model null
field-missing anthropic /max_tokens null
field-missing anthropic /messages/0/content 5
unknown-field anthropic /prompt_cache_key "x"
thinking-budget anthropic /thinking {"type":"enabled","budget_tokens":9000}
thinking-budget anthropic /thinking {"type":"enabled","budget_tokens":10}
cache-marks anthropic /system [MARKED,MARKED,MARKED,MARKED,MARKED]
server-state responses /store true
server-state responses /store null
server-state responses /previous_response_id "resp_1"
item-id responses /input/1 {"type":"function_call","id":"x","call_id":"c","name":"read"}
role anthropic /messages/0/role "system"
role responses /input/0/role "tool"
role chat /messages/1/role "function"
role chat /messages/2 {"role":"system","content":"late"}
role gemini /contents/0/role "function"
block anthropic /messages/0/content/0 {"type":"tool_use","id":"a"}
block responses /input/0/content/0 {"type":"output_text","text":"a"}
block responses /input/0 {"type":"item_reference","id":"a"}
block chat /messages/1/content/0 {"type":"input_text","text":"a"}
block gemini /contents/0/parts/0 {"functionCall":{"name":"a"}}
image chat /messages/1/content/0 {"type":"image_url","image_url":{"url":"http://x/y.png"}}
image gemini /contents/0/parts/0 {"inlineData":{"mimeType":"image/bmp","data":"AAAA"}}
image anthropic /messages/0/content/0 {"type":"image","source":{"media_type":"image/png","data":"?"}}
image anthropic /messages/0/content/0 {"type":"image","source":{"media_type":"image/png","data":"aW1n"}}
image anthropic /messages/0/content/0 {"type":"image","source":{"media_type":"image/jpeg","data":"HUGE"}}
image gemini /contents/0/parts/0 {"inlineData":{"mimeType":"image/gif","data":"R0lGODlhAQABAAAAACw="}}
image-size anthropic /messages/0/content/0 {"type":"image","source":{"media_type":"image/png","data":"HUGE"}}
image-size chat /messages/1/content/0 {"type":"image_url","image_url":{"url":"data:image/png;base64,HUGE"}}
image-size gemini /contents/0/parts/0 {"inlineData":{"mimeType":"image/png","data":"HUGE"}}
image-size responses /input/0/content/0 {"type":"input_image","image_url":"data:image/png;base64,HUGE"}
image-size anthropic /messages/0/content [MANY]
image-count anthropic /messages/0/content [TOO-MANY]
tool-name anthropic /tools/0/name "read file"
tool-name responses /tools/1 {"type":"function","name":"read","parameters":{"type":"object"}}
tool-schema chat /tools/0/function/parameters {"type":"string"}
tool-schema gemini /tools/0/functionDeclarations/0/parametersJsonSchema null
no-messages anthropic /messages []
no-messages responses /input []
no-messages chat /messages null
no-messages gemini /contents []
empty-text anthropic /system [{"type":"text","text":" "}]
empty-text chat /messages/0/content ""
empty-text gemini /systemInstruction/parts/0/text "\n"
empty-list chat /tools []
tools-undefined anthropic /tools null
thinking-first anthropic /thinking {"type":"enabled","budget_tokens":2000}
results-first anthropic /messages/2 {"role":"user","content":[TEXT,{"type":"tool_result","tool_use_id":"a","content":"y"}]}
"#;

const TEXT: &str = r#"{"type":"text","text":"x"}"#;
const MARKED: &str = r#"{"type":"text","text":"x","cache_control":{"type":"ephemeral"}}"#;

/// The header of a PNG of 9,000 pixels a side, of 3,000 and of one.
const HUGE: &str = "iVBORw0KGgoAAAANSUhEUgAAIygAACMoCAIAAADit+Xt";
const LARGE: &str = "iVBORw0KGgoAAAANSUhEUgAAC7gAAAu4CAIAAAD+d2Iu";
const PIXEL: &str = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1Pe";

fn images(data: &str, count: usize) -> String {
    let source =
        format!(r#"{{"type":"image","source":{{"media_type":"image/png","data":"{data}"}}}}"#);
    vec![source; count].join(",")
}

/// The rows of [`SHAPES`].
fn shapes() -> impl Iterator<Item = (&'static str, Wire, &'static str, Value)> {
    SHAPES.trim().lines().map(|row| {
        let [rule, wire, pointer, value] = row.splitn(4, ' ').collect::<Vec<_>>()[..] else {
            panic!("four columns: {row}")
        };
        let wire = Wire::ALL.into_iter().find(|w| w.name() == wire).expect("a wire");
        let value =
            value.replace("TOO-MANY", &images(PIXEL, 101)).replace("MANY", &images(LARGE, 21));
        let value = value.replace("MARKED", MARKED).replace("TEXT", TEXT).replace("HUGE", HUGE);
        (rule, wire, pointer, serde_json::from_str(&value).expect("JSON"))
    })
}

/// Puts a value at a place that may be one behind the end of its list.
fn put(value: &mut Value, pointer: &str, new: Value) {
    let (parent, key) = pointer.rsplit_once('/').expect("a pointer");
    match value.pointer_mut(parent).expect("a parent") {
        Value::Array(list) => match key.parse::<usize>().expect("an index") {
            index if index == list.len() => list.push(new),
            index => list[index] = new,
        },
        Value::Object(map) if new.is_null() => {
            map.remove(key);
        }
        Value::Object(map) => {
            map.insert(key.to_owned(), new);
        }
        other => panic!("{other} holds nothing"),
    }
}

/// Covers: G6.
#[test]
fn a_bad_shape_is_refused_by_its_rule() {
    for (rule, wire, pointer, new) in shapes() {
        let server = start();
        let mut request = body(wire, &turns("user go"));
        if ["results-first", "tools-undefined", "thinking-first"].contains(&rule) {
            request = body(wire, &turns("user go\ncall a read {}\nresult a read y"));
        }
        put(&mut request, pointer, new.clone());
        let found = broken(&server, wire, &request);
        assert!(found.contains(&rule), "{wire:?} {rule}: {pointer}={new} breaks {found:?}");
    }
}

#[test]
fn bad_http_is_refused_by_its_rule() {
    let good = body(Wire::Anthropic, &turns("user go")).to_string();
    let json = ("content-type", "application/json");
    let version = ("anthropic-version", "2023-06-01");
    let plain = ("content-type", "text/plain");
    let rows = [
        ("json", [json, version], "{\"model\":"),
        ("json", [json, version], "[]"),
        ("content-type", [plain, version], &good),
        ("version-header", [json, ("x-nothing", "1")], &good),
    ];
    for (rule, headers, body) in rows {
        let server = start();
        let response = http(&server, &line(Wire::Anthropic, MODEL), &headers, body);
        assert_eq!(response.status, 400);
        assert_eq!(server.violations()[0].rule, rule);
        assert_eq!(response.json()["error"]["type"], "invalid_request_error");
    }
    let server = start();
    let path = format!("POST /v1beta/models/{MODEL}:streamGenerateContent");
    let good = body(Wire::Gemini, &turns("user go")).to_string();
    assert_eq!(http(&server, &path, &[json], &good).status, 400);
    assert_eq!(server.violations()[0].rule, "not-streaming");
}

/// No rule without an example, and no example without a rule.
#[test]
fn every_rule_is_exercised() {
    let named: BTreeSet<&str> = RULES.iter().map(|(rule, _)| *rule).collect();
    let mut shown: BTreeSet<&str> = HISTORIES.iter().map(|(rule, _, _)| *rule).collect();
    shown.extend(shapes().map(|(rule, ..)| rule));
    // These have tests of their own, above, in `wires.rs` and in `sessions.rs`.
    shown.extend(["json", "content-type", "version-header"]);
    shown.extend(["signature-missing", "prefix-changed"]);
    shown.extend(["foreign-state", "altered-state"]);
    assert_eq!(named, shown);
}

#[test]
fn a_key_is_asked_for_as_the_provider_does() {
    // Wire, setting, whether a key is sent, expected status.
    let rows = [
        (Wire::Anthropic, "", false, 401),
        (Wire::Responses, "", false, 401),
        (Wire::Chat, "", false, 200),
        (Wire::Gemini, "", false, 403),
        (Wire::Anthropic, "", true, 200),
        (Wire::Gemini, "", true, 200),
        (Wire::Chat, "auth required\n", false, 401),
        (Wire::Chat, "auth required\n", true, 200),
        (Wire::Anthropic, "auth off\n", false, 200),
        (Wire::Anthropic, "auth refuse\n", true, 401),
        (Wire::Chat, "auth refuse\n", true, 401),
        (Wire::Gemini, "auth refuse\n", true, 400),
    ];
    for (wire, setting, key, status) in rows {
        let script = format!("{setting}otherwise\n say \"x\"");
        let server = ScriptedModel::start(&script).expect("the script is good");
        let mut all = headers(wire);
        if !key {
            all.pop();
        }
        let body = body(wire, &turns("user go")).to_string();
        let response = http(&server, &line(wire, MODEL), &all, &body);
        assert_eq!(response.status, status, "{wire:?} {setting:?} key: {key}");
    }
    let server = ScriptedModel::start("otherwise\n say \"x\"").expect("the script is good");
    let empty = [("content-type", "application/json"), ("authorization", "Bearer ")];
    let body = body(Wire::Chat, &turns("user go")).to_string();
    assert_eq!(http(&server, &line(Wire::Chat, MODEL), &empty, &body).status, 401);
}

#[test]
fn too_much_is_refused_as_the_provider_does() {
    for wire in Wire::ALL {
        let script = "max-bytes 4000\nwindow 500\notherwise\n say \"x\"";
        let server = ScriptedModel::start(script).expect("the script is good");
        let long = |n: usize| body(wire, &turns(&format!("user {}", "a".repeat(n))));
        let window = post(&server, wire, &long(2500));
        assert_eq!(window.status, 400, "{wire:?}");
        let said = match wire {
            Wire::Anthropic => "prompt is too long",
            Wire::Responses | Wire::Chat => "context_length_exceeded",
            Wire::Gemini => "exceeds the maximum number of tokens",
        };
        assert!(window.text().contains(said), "{wire:?}: {}", window.text());
        assert_eq!(post(&server, wire, &long(3_000_000)).status, 413, "{wire:?}");
        assert_eq!(post(&server, wire, &long(10)).status, 200, "{wire:?}");
        assert_eq!(server.violations(), []);
    }
}
