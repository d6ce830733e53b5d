//! Histories for the tests, and replies as text.
//!
//! Responsible for: building contexts in one line and showing replies in a few.

use segno_agent::provider::{HttpRequest, Settings, Wire};
use segno_model::SessionId;
use segno_model::context::{ContextAssistant, ContextMessage, ContextResult};
use segno_model::record::{
    AssistantBlock, AssistantMessage, Block, ModelRef, Native, Text, ToolCall,
};
use segno_runtime::{ModelError, ModelRequest, StreamEvent, ToolSpec};
use serde_json::json;

pub(crate) const WIRES: [(Wire, &str, &str); 4] = [
    (Wire::Anthropic, "anthropic", "claude-sonnet-4-5"),
    (Wire::OpenAiResponses, "openai", "gpt-5"),
    (Wire::OpenAiChat, "openai-chat", "local"),
    (Wire::Gemini, "gemini", "gemini-3-flash"),
];

/// Everything that a request borrows.
#[derive(Clone)]
pub(crate) struct Call {
    pub(crate) model: ModelRef,
    pub(crate) system: String,
    pub(crate) tools: Vec<ToolSpec>,
    pub(crate) messages: Vec<ContextMessage>,
    pub(crate) thinking: Option<String>,
    pub(crate) session: SessionId,
}

impl Call {
    pub(crate) fn new(provider: &str, model: &str, messages: Vec<ContextMessage>) -> Self {
        let model = ModelRef { provider: provider.to_owned(), id: model.to_owned() };
        let mut messages = messages;
        for message in &mut messages {
            // A turn of nobody in particular is the model's own.
            if let ContextMessage::Assistant(turn) = message
                && turn.model == ModelRef::default()
            {
                turn.model = model.clone();
            }
        }
        Self {
            model,
            system: "You are Segno.".to_owned(),
            tools: vec![tool("read"), tool("bash")],
            messages,
            thinking: None,
            session: SessionId::parse("01890a5d-ac96-774b-bcce-b302099a8057").unwrap(),
        }
    }

    pub(crate) fn request(&self) -> ModelRequest<'_> {
        ModelRequest {
            model: &self.model,
            system: &self.system,
            tools: &self.tools,
            messages: &self.messages,
            thinking: self.thinking.as_deref(),
            session: &self.session,
        }
    }

    pub(crate) fn http(&self, wire: Wire) -> HttpRequest {
        wire.request(&self.request(), &Settings::default()).unwrap()
    }
}

fn tool(name: &str) -> ToolSpec {
    ToolSpec {
        name: name.to_owned(),
        description: format!("The {name} tool."),
        parameters: json!({"type": "object", "properties": {"path": {"type": "string"}}}),
    }
}

pub(crate) fn user(seq: u64, content: Vec<Block>) -> ContextMessage {
    ContextMessage::User { seq, content: content.into() }
}

/// A PNG of one pixel.
pub(crate) const PIXEL: &str =
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR42mP4z8AAAAMBAQD3A0FDAAAAAElFTkSuQmCC";

pub(crate) fn image() -> Block {
    Block::Image { media_type: "image/png".to_owned(), data: Text::Inline(PIXEL.to_owned()) }
}

pub(crate) fn text(text: &str) -> AssistantBlock {
    AssistantBlock::Text { text: text.to_owned() }
}

pub(crate) fn call(id: &str, name: &str, arguments: &str) -> AssistantBlock {
    AssistantBlock::ToolCall(ToolCall {
        id: id.to_owned(),
        name: name.to_owned(),
        arguments: arguments.to_owned(),
    })
}

pub(crate) fn thinking(text: &str, signature: Option<&str>) -> AssistantBlock {
    let signature = signature.map(ToOwned::to_owned);
    AssistantBlock::Thinking { text: text.to_owned(), signature, redacted: false }
}

pub(crate) fn assistant(
    seq: u64,
    content: Vec<AssistantBlock>,
    native: Option<Native>,
) -> ContextMessage {
    let (content, model) = (content.into(), ModelRef::default());
    ContextMessage::Assistant(ContextAssistant { seq, content, native, model, endpoint: None })
}

/// A decoded reply as the next request's history holds it.
pub(crate) fn replayed(seq: u64, reply: &AssistantMessage) -> ContextMessage {
    assistant(seq, reply.content.clone(), reply.native.clone())
}

pub(crate) fn result(seq: u64, id: &str, name: &str, content: Vec<Block>) -> ContextResult {
    let (call_id, name) = (id.to_owned(), name.to_owned());
    ContextResult { seq: Some(seq), call_id, name, content: content.into(), is_error: false }
}

/// A history with everything: two parallel calls, an image in a result, an error, empty texts,
/// arguments that are no JSON, two user messages in a row.
pub(crate) fn rich() -> Vec<ContextMessage> {
    let mut failed = result(6, "call_2", "bash", vec![Block::text("exit 1")]);
    failed.is_error = true;
    vec![
        user(1, vec![Block::text("Look at this."), image(), Block::text("")]),
        assistant(
            3,
            vec![
                thinking("Two tools.", Some("c2ln")),
                thinking("never sent", None),
                text("Looking."),
                call("call_1", "read", r#"{"path": "a.png",  "n": 1.50}"#),
                call("call_2", "bash", r#"{"path": "#),
            ],
            None,
        ),
        ContextMessage::Results(vec![
            result(5, "call_1", "read", vec![Block::text("an image"), image()]),
            failed,
            result(7, "odd id:3", "bash", vec![Block::text("  ")]),
        ]),
        user(8, vec![Block::text("And now?")]),
        user(9, vec![Block::text("Quickly.")]),
        assistant(11, vec![text("\n\n"), text("Done.")], None),
        user(12, vec![Block::text("Thanks.")]),
    ]
}

/// A reply or an error in lines.
pub(crate) fn show(outcome: &Result<AssistantMessage, ModelError>) -> String {
    let reply = match outcome {
        Ok(reply) => reply,
        Err(failure) => return format!("{:?}: {}\n", failure.kind, failure.message),
    };
    let mut out = String::new();
    for block in &reply.content {
        out += &match block {
            AssistantBlock::Text { text } => format!("text {text:?}\n"),
            AssistantBlock::Thinking { text, signature, redacted } => {
                let kind = if *redacted { "redacted" } else { "thinking" };
                format!("{kind} {text:?} signed {signature:?}\n")
            }
            AssistantBlock::ToolCall(c) => format!("call {} {} {}\n", c.id, c.name, c.arguments),
            AssistantBlock::Unknown => "unknown\n".to_owned(),
        };
    }
    out += &format!("stop {:?}\n", reply.stop);
    if let Some(u) = reply.usage {
        out += &format!(
            "usage in {} out {} read {} write {} reasoning {:?}\n",
            u.input, u.output, u.cache_read, u.cache_write, u.reasoning
        );
    }
    if let Some(native) = &reply.native {
        out += &format!("native {} {}\n", native.dialect, native.items.get());
    }
    out
}

/// What was shown while streaming, neighbours of one kind joined.
pub(crate) fn show_events(events: &[StreamEvent]) -> String {
    let mut joined: Vec<StreamEvent> = Vec::new();
    for event in events {
        match (joined.last_mut(), event) {
            (Some(StreamEvent::Text(a)), StreamEvent::Text(b))
            | (Some(StreamEvent::Thinking(a)), StreamEvent::Thinking(b))
            | (Some(StreamEvent::Arguments(a)), StreamEvent::Arguments(b)) => a.push_str(b),
            _ => joined.push(event.clone()),
        }
    }
    joined.iter().map(|e| format!("  {e:?}\n")).collect()
}
