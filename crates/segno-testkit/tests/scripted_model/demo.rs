//! The scripts that ship: the demo's experiment, and the agent to play with.

use super::client::{hear, post};
use super::spell::{body, turns};
use segno_testkit::scripted_model::demo::{
    CODE_FILE, DEMO_SCRIPT, FIRST_PROMPT, PLAY_SCRIPT, READ_ANSWER, SECOND_PROMPT, UNKNOWN_ANSWER,
    WAIT_PROMPT, answer, code_file,
};
use segno_testkit::scripted_model::{Delivery, Piece, ScriptedModel, Turn, Wire};
use std::time::Duration;

/// What is said: text, or the calls.
fn ask(server: &ScriptedModel, wire: Wire, conversation: &str) -> String {
    let response = post(server, wire, &body(wire, &turns(conversation)));
    assert_eq!(response.status, 200, "{}", response.text());
    let heard = hear(wire, &response);
    let calls = heard.calls.iter().map(|[_, name, arguments]| format!("{name} {arguments}"));
    [heard.text].into_iter().filter(|t| !t.is_empty()).chain(calls).collect::<Vec<_>>().join("; ")
}

/// The whole experiment as the server sees it.
///
/// Covers: SD2.
#[test]
fn the_demo_answers_from_the_stored_result_and_from_nothing_else() {
    for wire in Wire::ALL {
        let server = ScriptedModel::start(DEMO_SCRIPT).expect("the script is good");
        let file = code_file("7f3a91");
        let file = file.trim_end();
        let first = format!("user {FIRST_PROMPT}");
        assert_eq!(ask(&server, wire, &first), "read {\"path\":\"code.txt\"}");
        let read =
            format!("{first}\ncall c read {{\"path\":\"{CODE_FILE}\"}}\nresult c read {file}");
        assert_eq!(ask(&server, wire, &read), READ_ANSWER);
        let resumed = format!("{read}\nsay {READ_ANSWER}\nuser {SECOND_PROMPT}");
        assert_eq!(ask(&server, wire, &resumed), answer("7f3a91"));
        assert_eq!(server.violations(), [], "{wire:?}");
        assert_eq!(server.requests().len(), 3);
    }
    assert!(!READ_ANSWER.contains("CODE") && !FIRST_PROMPT.contains("CODE"));
}

/// A prompt that was being answered when the process was killed is joined with the next one.
///
/// Covers: SD2.
#[test]
fn the_demo_answers_after_a_kill_in_the_middle_of_a_reply() {
    let joined = format!("{WAIT_PROMPT}\n\n{SECOND_PROMPT}");
    let result = "call c read {}\nresult c read CODE=7f3a91\nsay read";
    for wire in Wire::ALL {
        let server = ScriptedModel::start(DEMO_SCRIPT).expect("the script is good");
        let mut history = turns(&format!("user {FIRST_PROMPT}\n{result}"));
        history.push(Turn::User(vec![Piece::Text(joined.clone())]));
        let heard = hear(wire, &post(&server, wire, &body(wire, &history)));
        assert_eq!(heard.text, answer("7f3a91"), "{wire:?}");
    }
}

/// Covers: SD2 (the verdict must be able to fail).
#[test]
fn the_demo_does_not_know_what_the_history_does_not_hold() {
    let histories = [
        format!("user {SECOND_PROMPT}"),
        format!("user {FIRST_PROMPT}\nsay {READ_ANSWER}\nuser {SECOND_PROMPT}"),
        format!(
            "user {FIRST_PROMPT}\ncall c read {{}}\nresult c read The outcome is unknown.\n\
             say {READ_ANSWER}\nuser {SECOND_PROMPT}"
        ),
    ];
    for history in histories {
        let server = ScriptedModel::start(DEMO_SCRIPT).expect("the script is good");
        assert_eq!(ask(&server, Wire::Anthropic, &history), UNKNOWN_ANSWER);
    }
}

#[test]
fn the_demo_hangs_when_it_is_asked_to_wait() {
    let server = ScriptedModel::start(DEMO_SCRIPT).expect("the script is good");
    let request = body(Wire::Anthropic, &turns(&format!("user {WAIT_PROMPT}")));
    std::thread::scope(|scope| {
        let server = &server;
        let mut stream = super::client::connect(server);
        scope.spawn(move || {
            let line = super::client::line(Wire::Anthropic, "scripted");
            let headers = super::client::headers(Wire::Anthropic);
            super::client::send(&mut stream, &line, &headers, &request.to_string());
            let hangs = |r: &[segno_testkit::scripted_model::Recorded]| {
                r.last().is_some_and(|r| r.delivery == Delivery::Hanging)
            };
            assert!(server.wait_until(Duration::from_secs(20), hangs));
        });
    });
}

/// Everything that the play script offers.
#[test]
fn the_play_script_obeys_its_commands() {
    let rows = [
        ("user list", "ls {}"),
        ("user list src", "ls {\"path\":\"src\"}"),
        ("user find *.rs", "find {\"glob\":\"*.rs\"}"),
        ("user grep fn main", "grep {\"pattern\":\"fn main\"}"),
        ("user read a.txt", "read {\"path\":\"a.txt\"}"),
        ("user read a and b", "I read both at once.; read {\"path\":\"a\"}; read {\"path\":\"b\"}"),
        ("user write a: one two", "write {\"path\":\"a\",\"content\":\"one two\\n\"}"),
        (
            "user edit a.rs: x: 1 => x: 2",
            "edit {\"path\":\"a.rs\",\"old_text\":\"x: 1\",\"new_text\":\"x: 2\"}",
        ),
        ("user run: cargo test", "bash {\"command\":\"cargo test\"}"),
        ("user todo: mend it", "todo {\"steps\":[{\"text\":\"mend it\",\"status\":\"pending\"}]}"),
        ("user think: hm", "I have thought about it."),
        (
            "user run: x\ncall c bash {}\nresult c bash all good",
            "Done. The result begins with: all good",
        ),
        (
            "user edit a: x => y; then run: make",
            "edit {\"path\":\"a\",\"old_text\":\"x\",\"new_text\":\"y\"}",
        ),
        (
            "user edit a: x => y; then run: make\ncall c edit {}\nresult c edit ok",
            "a is edited. Now the command.; bash {\"command\":\"make\"}",
        ),
        (
            "user edit a: x => y; then run: make\ncall c edit {}\nresult c edit ok\n\
             call d bash {}\nresult d bash made",
            "Done. The result begins with: made",
        ),
    ];
    let server = ScriptedModel::start(PLAY_SCRIPT).expect("the script is good");
    for wire in Wire::ALL {
        for (conversation, expected) in rows {
            assert_eq!(ask(&server, wire, conversation), expected, "{wire:?} {conversation}");
        }
        assert!(ask(&server, wire, "user what now").contains("I can do this"));
    }
    assert_eq!(server.violations(), []);
}
