//! States of histories: made, taken back by their maker, and refused everywhere else.

use super::client::{Response, http};
use segno_testkit::scripted_model::ScriptedModel;
use serde_json::{Value, json};

const HEADERS: [(&str, &str); 2] =
    [("content-type", "application/json"), ("authorization", "Bearer k")];

fn post(server: &ScriptedModel, path: &str, body: &Value) -> Response {
    http(server, &format!("POST {path}"), &HEADERS, &body.to_string())
}

fn said(role: &str, text: &str) -> Value {
    let kind = if role == "user" { "input_text" } else { "output_text" };
    json!({"type": "message", "role": role, "content": [{"type": kind, "text": text}]})
}

/// A history that ends with the model, as one does that is cut off.
fn history() -> Vec<Value> {
    vec![
        said("user", "first"),
        said("assistant", "yes"),
        said("user", "second"),
        said("assistant", "no"),
    ]
}

fn compact(server: &ScriptedModel, model: &str, input: &[Value]) -> Vec<Value> {
    let body = json!({"model": model, "instructions": "be good", "input": input});
    let answer = post(server, "/v1/responses/compact", &body);
    assert_eq!(answer.status, 200, "{}", answer.text());
    let answer = answer.json();
    assert_eq!(answer["object"], "response.compaction");
    assert!(answer["usage"]["input_tokens"].as_u64().is_some_and(|n| n > 0), "{answer}");
    answer["output"].as_array().expect("a list").clone()
}

/// The status, and the rules that were broken.
fn ask(server: &ScriptedModel, model: &str, input: &[Value]) -> (u16, Vec<&'static str>) {
    let body = json!({"model": model, "stream": true, "store": false, "input": input});
    let status = post(server, "/v1/responses", &body).status;
    let last = server.requests().pop().expect("a request");
    (status, last.violations.iter().map(|violation| violation.rule).collect())
}

#[test]
fn a_state_comes_back_to_its_maker_and_to_nobody_else() {
    let server = ScriptedModel::start("otherwise\n say \"{user}\"").expect("a server");
    let window = compact(&server, "m", &history());
    let kinds: Vec<&str> = window.iter().map(|item| item["type"].as_str().expect("text")).collect();
    assert_eq!(kinds, ["message", "message", "compaction"], "the user's words, and one state");
    let with = |window: &[Value]| [window, &[said("user", "go on")]].concat();
    assert_eq!(ask(&server, "m", &with(&window)), (200, vec![]));
    assert_eq!(ask(&server, "n", &with(&window)), (400, vec!["foreign-state"]));
    let mut altered = window.clone();
    let sealed = altered[2]["encrypted_content"].as_str().expect("text").to_owned();
    altered[2]["encrypted_content"] = json!(sealed.replace("kept", "sold") + "AAAA");
    assert_eq!(ask(&server, "m", &with(&altered)), (400, vec!["altered-state"]));
    let mut pruned = window.clone();
    pruned.remove(0);
    assert_eq!(ask(&server, "m", &with(&pruned)), (400, vec!["altered-state"]));
    // A server that was started anew knows its states, too, and makes the next one from them.
    let again = ScriptedModel::start("otherwise\n say \"{user}\"").expect("a server");
    let next = compact(&again, "m", &[with(&window), vec![said("assistant", "done")]].concat());
    assert_eq!(next.len(), 4, "three messages and one state: {next:?}");
    assert_eq!(ask(&again, "m", &with(&next)), (200, vec![]));
}

#[test]
fn a_request_for_a_state_is_judged_too() {
    let server = ScriptedModel::start("otherwise\n say \"x\"").expect("a server");
    let broken = |body: Value| {
        let status = post(&server, "/v1/responses/compact", &body).status;
        let last = server.requests().pop().expect("a request");
        (status, last.violations.first().map(|violation| violation.rule))
    };
    let streamed = json!({"model": "m", "stream": true, "input": history()});
    assert_eq!(broken(streamed), (400, Some("unknown-field")));
    let call = json!({"type": "function_call", "call_id": "c", "name": "read", "arguments": "{}"});
    let open = json!({"model": "m", "input": [said("user", "go"), call]});
    assert_eq!(broken(open), (400, Some("call-without-result")));
    assert_eq!(broken(json!({"model": "m", "input": []})), (400, Some("no-messages")));
}

#[test]
fn a_script_can_say_that_it_fails() {
    let script =
        "rule no\n when compaction\n when model is \"m\"\n status 404\notherwise\n say \"x\"";
    let server = ScriptedModel::start(script).expect("a server");
    let body = |model: &str| json!({"model": model, "input": history()});
    assert_eq!(post(&server, "/v1/responses/compact", &body("m")).status, 404);
    assert_eq!(post(&server, "/v1/responses/compact", &body("n")).status, 200);
    assert_eq!(ask(&server, "m", &[said("user", "hi")]).0, 200, "replies have other rules");
}
