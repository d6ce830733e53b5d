//! What a row says, in our terms.
//!
//! Responsible for: messages, results and their outcomes, calls, tokens. Pure. Must not: know the chain.

use super::injected;
use super::row::{Block as RowBlock, Content, Message as RowMessage, Row, RowUsage, Str};
use segno_model::record::{
    AssistantBlock, Block, Body, Established, Message, ModelRef, Outcome, StopReason, Text,
    ToolCall, ToolMessage, Usage, UserMessage,
};
use serde::Deserialize;
use serde_json::value::RawValue;

/// The model of replies that the agent made up itself.
pub(super) const SYNTHETIC: &str = "<synthetic>";

/// A piece of a user row.
pub(super) enum Said {
    /// A message on the user's side.
    User(UserMessage),
    /// A result; which record made the call is not known yet.
    Result(ToolMessage),
}

impl Said {
    /// The record's body.
    pub(super) fn into_body(self) -> Body {
        let message = match self {
            Self::User(message) => Message::User(message),
            Self::Result(message) => Message::Tool(message),
        };
        Body::Message(Box::new(message))
    }
}

/// A user message of one text.
pub(super) fn user(notice: Option<&str>, text: &str) -> Said {
    let notice = notice.map(str::to_owned);
    Said::User(UserMessage { content: vec![Block::text(text)], notice, ..UserMessage::default() })
}

/// What a user row says, in order, and whether it holds a block that has no counterpart here.
pub(super) fn user_row(row: &Row<'_>, content: Content<'_>) -> (Vec<Said>, bool) {
    let mut said = UserSide { said: Vec::new(), meta: row.is_meta, odd: false };
    match content {
        Content::Nothing => {}
        Content::Text(text) => said.text(&text),
        Content::Blocks(blocks) => {
            for block in blocks {
                match &*block.kind {
                    "text" => said.text(block.text.as_deref().unwrap_or_default()),
                    "tool_result" => {
                        let result = result(row, block, &mut said.odd);
                        said.said.push(Said::Result(result));
                    }
                    _ => {
                        let block = shown(block, &mut said.odd);
                        said.block(None, block);
                    }
                }
            }
        }
    }
    (said.said, said.odd)
}

/// Messages under construction: pieces of the same kind stand in one.
struct UserSide {
    said: Vec<Said>,
    /// Everything in the row is the agent's own.
    meta: bool,
    odd: bool,
}

impl UserSide {
    fn text(&mut self, text: &str) {
        for (reason, piece) in injected::pieces(text) {
            self.block(reason, Block::text(piece));
        }
    }

    fn block(&mut self, reason: Option<&str>, block: Block) {
        let reason = reason.or(self.meta.then_some("meta"));
        if let Some(Said::User(last)) = self.said.last_mut()
            && last.notice.as_deref() == reason
        {
            last.content.push(block);
            return;
        }
        let notice = reason.map(str::to_owned);
        self.said.push(Said::User(UserMessage {
            content: vec![block],
            notice,
            ..UserMessage::default()
        }));
    }
}

fn shown(block: RowBlock<'_>, odd: &mut bool) -> Block {
    match (&*block.kind, block.text, block.source) {
        ("text", text, _) => Block::text(text.map(Str::into_owned).unwrap_or_default()),
        ("image", _, Some(source)) if source.data.is_some() => Block::Image {
            media_type: source.media_type.map(Str::into_owned).unwrap_or_default(),
            data: Text::Inline(source.data.map(Str::into_owned).unwrap_or_default()),
        },
        _ => {
            *odd = true;
            Block::Unknown
        }
    }
}

fn result(row: &Row<'_>, block: RowBlock<'_>, odd: &mut bool) -> ToolMessage {
    let is_error = block.is_error.unwrap_or(false);
    let (outcome, established) = outcome(row, &block.content.text(), is_error);
    let content = match block.content {
        Content::Nothing => Vec::new(),
        Content::Text(text) => vec![Block::text(text.into_owned())],
        Content::Blocks(blocks) => blocks.into_iter().map(|block| shown(block, odd)).collect(),
    };
    ToolMessage {
        call_id: block.tool_use_id.map(Str::into_owned).unwrap_or_default(),
        call_seq: None,
        name: String::new(),
        content,
        whole: None,
        is_error,
        outcome,
        established,
        background: None,
    }
}

/// Written when a session is resumed whose last call has no result.
const LOST: &str = "[Tool call interrupted";
/// Written for a refusal, and also when a running call is interrupted, whatever the text goes on to say.
const UNWANTED: &str = "The user doesn't want to ";
const INTERRUPTED: &str = "[Request interrupted by user";

/// What a result says about the effect. Claude Code tells a refused call and an interrupted one with the
/// same words; only its decision tells them apart, and without that nothing is claimed to have not run.
fn outcome(row: &Row<'_>, text: &str, is_error: bool) -> (Outcome, Established) {
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct Told {
        decision: Option<String>,
        interrupted: Option<bool>,
    }
    let told = |raw: Option<&RawValue>| -> Told {
        raw.filter(|raw| raw.get().starts_with('{'))
            .and_then(|raw| serde_json::from_str(raw.get()).ok())
            .unwrap_or_default()
    };
    let kind = row.tool_denial_kind.as_deref();
    let unwanted = text.starts_with(UNWANTED) || text.starts_with(INTERRUPTED);
    if text.starts_with(LOST) {
        return (Outcome::Unknown, Established::Recovery);
    }
    if kind.is_some() || unwanted {
        let decision = told(row.permission_decision).decision;
        let stopped = matches!(kind, Some("interrupted" | "cancelled"));
        let allowed = decision.as_deref().is_some_and(|d| matches!(d, "accept" | "allow"));
        let refused = kind.is_some() || decision.is_some();
        return if refused && !stopped && !allowed {
            (Outcome::Denied, Established::Permission)
        } else {
            (Outcome::Stopped, Established::Stop)
        };
    }
    if told(row.tool_use_result).interrupted == Some(true) {
        return (Outcome::Stopped, Established::Stop);
    }
    (if is_error { Outcome::Failed } else { Outcome::Done }, Established::Origin)
}

/// The blocks of a reply's row, and whether one has no counterpart here.
pub(super) fn reply(content: Content<'_>) -> (Vec<AssistantBlock>, bool) {
    let blocks = match content {
        Content::Nothing => Vec::new(),
        Content::Text(text) => vec![AssistantBlock::text(text.into_owned())],
        Content::Blocks(blocks) => blocks.into_iter().map(said_by_model).collect(),
    };
    let odd = blocks.iter().any(|block| matches!(block, AssistantBlock::Unknown));
    (blocks, odd)
}

fn said_by_model(block: RowBlock<'_>) -> AssistantBlock {
    match &*block.kind {
        "text" => AssistantBlock::text(block.text.map(Str::into_owned).unwrap_or_default()),
        "thinking" => AssistantBlock::Thinking {
            text: block.thinking.map(Str::into_owned).unwrap_or_default(),
            signature: block.signature.map(Str::into_owned),
            redacted: false,
        },
        "redacted_thinking" => AssistantBlock::Thinking {
            text: String::new(),
            signature: block.data.map(Str::into_owned),
            redacted: true,
        },
        "tool_use" => AssistantBlock::ToolCall(ToolCall {
            id: block.id.map(Str::into_owned).unwrap_or_default(),
            name: block.name.map(Str::into_owned).unwrap_or_default(),
            arguments: block.input.map(|raw| raw.get().to_owned()).unwrap_or_default(),
        }),
        _ => AssistantBlock::Unknown,
    }
}

/// Which model answered. What the agent made up itself has no provider.
pub(super) fn model(message: &RowMessage<'_>) -> ModelRef {
    match message.model.as_deref() {
        None => ModelRef::default(),
        Some(SYNTHETIC) => ModelRef::new("", SYNTHETIC),
        Some(model) => ModelRef::new("anthropic", model),
    }
}

/// Why the reply ended; older versions leave it open in every row.
pub(super) fn stop(reason: Option<&str>, blocks: &[AssistantBlock]) -> StopReason {
    match reason {
        Some("end_turn" | "stop_sequence") => StopReason::End,
        Some("tool_use") => StopReason::ToolUse,
        Some("max_tokens" | "model_context_window_exceeded") => StopReason::Length,
        Some("refusal") => StopReason::Refusal,
        Some(_) => StopReason::Other,
        None if blocks.iter().any(|b| matches!(b, AssistantBlock::ToolCall(_))) => {
            StopReason::ToolUse
        }
        None => StopReason::End,
    }
}

/// Tokens in our terms.
pub(super) fn usage(found: &RowUsage) -> Usage {
    Usage {
        input: found.input_tokens.unwrap_or(0),
        output: found.output_tokens.unwrap_or(0),
        cache_read: found.cache_read_input_tokens.unwrap_or(0),
        cache_write: found.cache_creation_input_tokens.unwrap_or(0),
        reasoning: found.output_tokens_details.as_ref().and_then(|d| d.thinking_tokens),
    }
}

/// What an attachment puts on the user's side of the next request; nothing when it is only shown, or stands
/// in the system prompt.
pub(super) fn attachment(row: &Row<'_>) -> Vec<Said> {
    said_by_attachment(row).unwrap_or_default()
}

fn said_by_attachment(row: &Row<'_>) -> Option<Vec<Said>> {
    #[derive(Default, Deserialize)]
    #[serde(rename_all = "camelCase", default)]
    struct Attachment<'a> {
        #[serde(rename = "type")]
        kind: String,
        command_mode: Option<String>,
        #[serde(borrow)]
        prompt: Content<'a>,
    }
    #[derive(Deserialize)]
    struct Rendered<'a> {
        #[serde(borrow, default)]
        content: Content<'a>,
    }
    let raw = row.attachment?.get();
    if raw.contains("\"queued_command\"")
        && let Ok(attached) = serde_json::from_str::<Attachment<'_>>(raw)
        && attached.kind == "queued_command"
    {
        let typed = attached.command_mode.as_deref().is_none_or(|mode| mode == "prompt");
        let meta = row.is_meta || !typed;
        let mut side = UserSide { said: Vec::new(), meta, odd: false };
        match attached.prompt {
            Content::Blocks(blocks) => {
                for block in blocks {
                    let block = shown(block, &mut side.odd);
                    side.block(None, block);
                }
            }
            text => side.text(&text.text()),
        }
        return Some(side.said);
    }
    if row.rendered_role.as_deref() != Some("user") {
        return None;
    }
    let rendered: Vec<Rendered<'_>> = serde_json::from_str(row.rendered?.get()).ok()?;
    let texts: Vec<_> = rendered.iter().map(|r| r.content.text()).collect();
    Some(vec![user(Some("reminder"), &texts.join("\n"))]).filter(|_| !texts.is_empty())
}
