//! Prompts that look like an agent's own notices.

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
