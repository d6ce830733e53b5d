//! Reading a corpus file and putting what was read as text.

#![allow(dead_code, reason = "each agent's tests use what they need")]

use segno_model::Body;
use segno_model::context::{Context, ContextMessage};
use segno_model::record::{AssistantBlock, Block, Message};
use segno_store::foreign::{ForeignError, ForeignRecord, Located, View, recognise};
use std::path::{Path, PathBuf};

/// A file of `tests/corpus`.
pub(crate) fn corpus(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/corpus").join(name)
}

/// The session in a corpus file, recognised by its content.
pub(crate) fn session(name: &str) -> Located {
    recognise(&corpus(name)).unwrap_or_else(|e| panic!("{name}: {e}"))
}

/// All of a corpus file.
pub(crate) fn transcript(name: &str) -> View {
    View::transcript(&session(name)).unwrap_or_else(|e| panic!("{name}: {e}"))
}

/// Why a corpus file cannot be read.
pub(crate) fn refusal(name: &str) -> ForeignError {
    let found = recognise(&corpus(name));
    found.and_then(|session| View::transcript(&session).map(drop)).expect_err("it is refused")
}

/// What the next request would hold, one line per piece:
/// `user: …`, `assistant: …`, `call NAME ID ARGUMENTS`, `result ID: …`.
pub(crate) fn context(name: &str) -> Vec<String> {
    let session = session(name);
    let active = View::active(&session).unwrap_or_else(|e| panic!("{name}: {e}"));
    let from_active = context_lines(&active.context());
    // What is held for the context gives the same context as everything does.
    let whole = View::transcript(&session).unwrap_or_else(|e| panic!("{name}: {e}"));
    assert_eq!(from_active, context_lines(&whole.context()), "{name}");
    from_active
}

/// A context as lines.
pub(crate) fn context_lines(context: &Context) -> Vec<String> {
    let mut lines = Vec::new();
    for message in &context.messages {
        match message {
            ContextMessage::State(state) => lines.push(format!("state {}", state.seq)),
            ContextMessage::User { content, .. } => {
                lines.push(format!("user: {}", blocks(content)));
            }
            ContextMessage::Assistant(turn) => {
                lines.extend(turn.content.iter().filter_map(said));
            }
            ContextMessage::Results(results) => {
                let line = |r: &segno_model::context::ContextResult| {
                    format!("result {}: {}", r.call_id, blocks(&r.content))
                };
                lines.extend(results.iter().map(line));
            }
        }
    }
    lines
}

/// The transcript's messages and boundaries as lines, copies and subagents left out; in the form of
/// [`context`], with `summary: …`, `custom NAME` and `TYPE` for the rest.
pub(crate) fn lines(view: &View) -> Vec<String> {
    let own = |r: &&ForeignRecord| !r.copy && r.subagent.is_none();
    view.records.iter().filter(own).flat_map(record_lines).collect()
}

fn record_lines(read: &ForeignRecord) -> Vec<String> {
    match read.record.body() {
        Body::Message(message) => match &**message {
            Message::User(user) => vec![format!("user: {}", blocks(&user.content))],
            Message::Assistant(reply) => reply.content.iter().filter_map(said).collect(),
            Message::Tool(result) => {
                vec![format!("result {}: {}", result.call_id, blocks(&result.content))]
            }
        },
        Body::Compaction(compaction) => {
            vec![format!("summary: {}", compaction.summary.as_ref().map_or("", |t| t.head()))]
        }
        Body::Custom(custom) => vec![format!("custom {}", custom.name)],
        other => vec![other.kind().to_owned()],
    }
}

fn said(block: &AssistantBlock) -> Option<String> {
    match block {
        AssistantBlock::Text { text } => Some(format!("assistant: {text}")),
        AssistantBlock::Thinking { text, .. } => Some(format!("thinking: {text}")),
        AssistantBlock::ToolCall(call) => {
            Some(format!("call {} {} {}", call.name, call.id, call.arguments))
        }
        AssistantBlock::Unknown => None,
    }
}

fn blocks(content: &[Block]) -> String {
    let text = |block: &Block| match block {
        Block::Text { text } => text.head().to_owned(),
        Block::Image { media_type, .. } => format!("[{media_type}]"),
        Block::Unknown => "[?]".to_owned(),
    };
    content.iter().map(text).collect::<Vec<_>>().join(" | ")
}

/// The findings as `code@line`, in order.
pub(crate) fn findings(view: &View) -> Vec<String> {
    let line = |f: &segno_model::finding::Finding| {
        f.line.map_or_else(|| f.code.to_owned(), |line| format!("{}@{line}", f.code))
    };
    view.findings.iter().map(line).collect()
}
