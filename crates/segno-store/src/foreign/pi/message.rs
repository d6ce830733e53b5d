//! What was said in a pi session, in our terms.
//!
//! Responsible for: pi's roles and pieces of content. Must not: know the tree or number records.

use super::super::calls::UNKNOWN_OUTCOME;
use super::row::{Content, Msg, Piece, Tokens};
use segno_model::Seq;
use segno_model::record::{
    AssistantBlock, AssistantMessage, Block, Established, Message, ModelRef, Outcome, StopReason,
    Text, ToolCall, ToolMessage, UserMessage,
};

/// A message in our terms; none for what is not sent to a model, or is of an unknown role.
pub(super) fn message(message: Msg<'_>) -> Option<Message> {
    Some(match &*message.role {
        "user" => Message::User(UserMessage { content: blocks(message.content), ..no_words() }),
        "assistant" => Message::Assistant(assistant(message)),
        "toolResult" => Message::Tool(result(message)),
        "bashExecution" if message.exclude_from_context != Some(true) => {
            Message::User(UserMessage::notice("command", command(&message)))
        }
        "custom" | "hookMessage" => {
            let reason = message.custom_type.as_deref().unwrap_or("extension");
            Message::User(injected(reason, message.content))
        }
        "branchSummary" | "compactionSummary" => {
            Message::User(UserMessage::notice("summary", message.summary.unwrap_or_default()))
        }
        _ => return None,
    })
}

/// What an extension says in the person's place.
pub(super) fn injected(reason: &str, content: Option<Content<'_>>) -> UserMessage {
    UserMessage { content: blocks(content), notice: Some(reason.to_owned()), ..no_words() }
}

fn no_words() -> UserMessage {
    UserMessage::default()
}

/// The blocks of a content.
pub(super) fn blocks(content: Option<Content<'_>>) -> Vec<Block> {
    match content {
        None => Vec::new(),
        Some(Content::Text(text)) => vec![Block::text(text)],
        Some(Content::Pieces(pieces)) => pieces.into_iter().map(block).collect(),
    }
}

fn block(piece: Piece<'_>) -> Block {
    match &*piece.what {
        "text" => Block::text(piece.text.unwrap_or_default()),
        "image" => Block::Image {
            media_type: piece.mime_type.unwrap_or_default(),
            data: Text::Inline(piece.data.unwrap_or_default()),
        },
        _ => Block::Unknown,
    }
}

fn assistant(message: Msg<'_>) -> AssistantMessage {
    let model = model(message.provider.as_deref(), message.model.as_deref());
    let content = match message.content {
        None => Vec::new(),
        Some(Content::Text(text)) => vec![AssistantBlock::Text { text }],
        Some(Content::Pieces(pieces)) => pieces.into_iter().map(said).collect(),
    };
    let stop = match message.stop_reason.as_deref() {
        None | Some("stop") => StopReason::End,
        Some("toolUse") => StopReason::ToolUse,
        Some("length") => StopReason::Length,
        Some("error") => StopReason::Broken,
        Some("aborted") => StopReason::Stopped,
        Some(_) => StopReason::Other,
    };
    let partial = matches!(stop, StopReason::Broken | StopReason::Stopped);
    let usage = message.usage.and_then(Tokens::usage);
    AssistantMessage { content, model, usage, stop, partial, ..AssistantMessage::default() }
}

fn said(piece: Piece<'_>) -> AssistantBlock {
    match &*piece.what {
        "text" => AssistantBlock::Text { text: piece.text.unwrap_or_default() },
        "thinking" => AssistantBlock::Thinking {
            text: piece.thinking.unwrap_or_default(),
            signature: piece.thinking_signature.map(sealed),
            redacted: piece.redacted == Some(true),
        },
        "toolCall" => AssistantBlock::ToolCall(ToolCall {
            id: piece.id.as_deref().unwrap_or_default().to_owned(),
            name: piece.name.as_deref().unwrap_or_default().to_owned(),
            arguments: piece.arguments.map_or("{}", |arguments| arguments.get()).to_owned(),
        }),
        _ => AssistantBlock::Unknown,
    }
}

/// What of a signature goes back to the provider as it is: with OpenAI's models pi keeps the whole item.
fn sealed(signature: String) -> String {
    #[derive(serde::Deserialize)]
    struct Item {
        encrypted_content: String,
    }
    serde_json::from_str::<Item>(&signature).map_or(signature, |item| item.encrypted_content)
}

/// A result; which record made its call is known elsewhere.
fn result(message: Msg<'_>) -> ToolMessage {
    let is_error = message.is_error == Some(true);
    let content = blocks(message.content);
    let is_lost = is_error && content == [Block::text(UNKNOWN_OUTCOME)];
    let (outcome, established) = match (is_lost, is_error) {
        (true, _) => (Outcome::Unknown, Established::Recovery),
        (_, true) => (Outcome::Failed, Established::Origin),
        (_, false) => (Outcome::Done, Established::Origin),
    };
    ToolMessage {
        call_id: message.tool_call_id.as_deref().unwrap_or_default().to_owned(),
        call_seq: None::<Seq>,
        name: message.tool_name.as_deref().unwrap_or_default().to_owned(),
        content,
        whole: None,
        is_error,
        outcome,
        established,
        background: None,
    }
}

/// A command that the person ran, as it is told to the model.
fn command(message: &Msg<'_>) -> String {
    let command = message.command.as_deref().unwrap_or_default();
    let output = message.output.as_deref().unwrap_or_default();
    let mut text = format!("The user ran this command:\n{command}\n\nIts output:\n{output}");
    if message.cancelled == Some(true) {
        text.push_str("\n(It was stopped before it ended.)");
    } else if let Some(code) = message.exit_code.filter(|code| *code != 0) {
        text.push_str(&format!("\n(It ended with exit code {code}.)"));
    }
    if message.truncated == Some(true) {
        text.push_str("\n(The output was cut.)");
    }
    text
}

/// A model by its names.
pub(super) fn model(provider: Option<&str>, id: Option<&str>) -> ModelRef {
    let provider = provider.map(|name| if name == "google" { "gemini" } else { name });
    ModelRef::new(provider.unwrap_or_default(), id.unwrap_or_default())
}

/// Whether there are pieces that we have no counterpart for.
pub(super) fn has_unknown(message: &Message) -> bool {
    match message {
        Message::User(user) => user.content.contains(&Block::Unknown),
        Message::Assistant(reply) => reply.content.contains(&AssistantBlock::Unknown),
        Message::Tool(result) => result.content.contains(&Block::Unknown),
    }
}
