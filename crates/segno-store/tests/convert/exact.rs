//! What comes along to the last character: numbers with many digits, and prompts that look like an agent's own notices.

use crate::scene::{converted, none, read_again};
use segno_model::record::Block;
use segno_model::record::{
    AssistantBlock, AssistantMessage, Body, Established, Message, ModelRef, Outcome, ToolMessage,
    UserMessage,
};
use segno_model::{Envelope, Record, Seq, Timestamp};
use segno_store::convert::{Session, TARGETS};
use segno_store::foreign::{Agent, View};

fn session(messages: Vec<Message>) -> Session {
    let mut records: Vec<Record> = Vec::new();
    for (seq, message) in (1..).zip(messages) {
        let parent = records.last().map(Record::seq);
        let at = Timestamp(1_790_000_000_000 + i64::try_from(seq).expect("small") * 1000);
        let kind = "message".to_owned();
        let envelope = Envelope { seq, parent, parent_at: None, at, kind, synced: None };
        records.push(Record::loose(envelope, Body::Message(Box::new(message))));
    }
    Session {
        source: "segno".to_owned(),
        id: "exact".to_owned(),
        cwd: "/srv/kiln".to_owned(),
        tip: records.last().map(Record::seq),
        records,
        ..Session::default()
    }
}

fn prompt(text: &str) -> Message {
    Message::User(UserMessage::text(text))
}

fn reply(content: Vec<AssistantBlock>) -> Message {
    Message::Assistant(AssistantMessage::new(&ModelRef::new("openai", "gpt-5"), content))
}

fn result(id: &str, name: &str, call_seq: Seq) -> Message {
    Message::Tool(ToolMessage {
        call_id: id.to_owned(),
        call_seq: Some(call_seq),
        name: name.to_owned(),
        content: vec![Block::text("done")],
        whole: None,
        is_error: false,
        outcome: Outcome::Done,
        established: Established::Observed,
        background: None,
    })
}

fn arguments(view: &View) -> Vec<String> {
    let of = |record: &Record| match record.body() {
        Body::Message(message) => match &**message {
            Message::Assistant(reply) => reply.calls().map(|call| call.arguments.clone()).collect(),
            _ => Vec::new(),
        },
        _ => Vec::new(),
    };
    view.records.iter().flat_map(|read| of(&read.record)).collect()
}

/// Covers: G14. In calls of tools that the target has and of others, at every depth, in every target.
#[test]
fn numbers_come_along_to_the_last_digit() {
    let numbers = [
        "18446744073709551616",
        "-9223372036854775809",
        "12345678901234567890123456789",
        "0.1234567890123456789012",
        "-1234567.123456789012345678",
        "1e400",
        "7",
        "1.5",
    ];
    for number in numbers {
        let deep = format!("{{\"a\":{number},\"b\":[{{\"c\":[{number},\"{number}\"]}}]}}");
        let mapped = format!("{{\"command\":\"ls\",\"level\":{number}}}");
        let session = session(vec![
            prompt("Look."),
            reply(vec![
                AssistantBlock::call("one", "mcp__kiln__fire", &deep),
                AssistantBlock::call("two", "bash", &mapped),
            ]),
            result("one", "mcp__kiln__fire", 2),
            result("two", "bash", 2),
            reply(vec![AssistantBlock::text("Done.")]),
        ]);
        for target in TARGETS {
            let written = converted(&session, target, &none()).expect("it is written");
            for file in &written.files {
                let text = String::from_utf8_lossy(&file.bytes);
                assert!(!text.contains(['\u{fdd2}', '\u{fdd3}']), "{target} {number}: {text}");
                if target != Agent::Codex {
                    for line in text.lines().filter(|_| target != Agent::OpenCode) {
                        let json: Result<&serde_json::value::RawValue, _> =
                            serde_json::from_str(line);
                        assert!(json.is_ok(), "{target} {number}: {line}");
                    }
                }
            }
            let root = tempfile::tempdir().expect("a folder");
            let again = arguments(&read_again(&written, target, root.path()));
            let flat: Vec<String> =
                again.iter().map(|json| json.replace(char::is_whitespace, "")).collect();
            assert_eq!(flat.first(), Some(&deep), "{target} {number}");
            let level = format!("\"level\":{number}");
            assert!(
                flat.get(1).is_some_and(|json| json.contains(&level)),
                "{target} {number}: {flat:?}"
            );
        }
    }
}

/// How Codex's own notices begin, and what a person may well write.
const LOOKS_LIKE_ONE: &[&str] = &[
    "<environment_context> is what you put first; why?",
    "<user_instructions>\nfollow them\n</user_instructions>",
    "# AGENTS.md instructions for the kiln: rewrite them",
    "<INSTRUCTIONS> in capitals",
    "<permissions instructions>",
    "<collaboration_mode>pair</collaboration_mode>",
    "<model_switch>",
    "<skill>glaze</skill>",
    "<skills_instructions>",
    "<user_shell_command>ls</user_shell_command>",
    "<user_action>",
    "<turn_aborted> was written, what does it mean?",
    "<subagent_notification>",
    "<goal_context>",
    "Another language model started to solve this problem. Who?",
];

/// A prompt is one whatever it begins with, and stands once.
#[test]
fn prompts_that_look_like_codexs_notices_stand_once() {
    let mut messages = Vec::new();
    for text in LOOKS_LIKE_ONE {
        messages.push(prompt(text));
        messages.push(reply(vec![AssistantBlock::text("Yes.")]));
    }
    // The last one waits for its reply.
    messages.push(prompt(LOOKS_LIKE_ONE[0]));
    let session = session(messages);
    let written = converted(&session, Agent::Codex, &none()).expect("it is written");
    let root = tempfile::tempdir().expect("a folder");
    let view = read_again(&written, Agent::Codex, root.path());
    let of = |record: &Record| match record.body() {
        Body::Message(message) => match &**message {
            Message::User(user) => Some((user.content.clone(), user.notice.clone())),
            _ => None,
        },
        _ => None,
    };
    let said: Vec<_> = view.records.iter().filter_map(|read| of(&read.record)).collect();
    let prompts = LOOKS_LIKE_ONE.iter().chain(&LOOKS_LIKE_ONE[..1]);
    let expected: Vec<_> = prompts.map(|text| (vec![Block::text(*text)], None)).collect();
    assert_eq!(said, expected);
}
