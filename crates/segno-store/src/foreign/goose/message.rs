//! goose's messages.
//!
//! Responsible for: turning one into our records. Must not: know where it is stored.

use crate::foreign::chain::{Answer, Chain};
use crate::foreign::emitter::{Emitter, Meta};
use crate::foreign::mend::Mended;
use segno_model::Body;
use segno_model::record::{
    AssistantBlock, AssistantMessage, Block, ContextEdit, ModelRef, Text, ToolCall,
};
use serde::Deserialize;
use serde_json::value::RawValue;

/// A message as it is stored.
#[derive(Deserialize)]
pub(super) struct Said<'a> {
    pub(super) id: Option<String>,
    pub(super) role: String,
    pub(super) created: Option<i64>,
    #[serde(borrow)]
    pub(super) content: Vec<&'a RawValue>,
    #[serde(default)]
    pub(super) metadata: Visible,
}

/// Who sees a message.
#[derive(Deserialize, Clone, Copy)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Visible {
    user_visible: bool,
    agent_visible: bool,
}

impl Default for Visible {
    fn default() -> Self {
        Self { user_visible: true, agent_visible: true }
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Row<'a> {
    #[serde(rename = "type")]
    kind: String,
    text: Option<String>,
    data: Option<String>,
    mime_type: Option<String>,
    thinking: Option<String>,
    signature: Option<String>,
    id: Option<String>,
    #[serde(borrow)]
    tool_call: Option<Outcome<'a>>,
    #[serde(borrow)]
    tool_result: Option<Outcome<'a>>,
    annotations: Option<Annotations>,
    #[serde(borrow)]
    resource: Option<Resource<'a>>,
}

#[derive(Deserialize)]
struct Annotations {
    audience: Option<Vec<String>>,
}

#[derive(Deserialize)]
struct Resource<'a> {
    text: Option<String>,
    #[serde(borrow)]
    #[allow(dead_code, reason = "a resource without text is kept as it is")]
    uri: Option<&'a RawValue>,
}

/// A value or an error.
#[derive(Deserialize)]
struct Outcome<'a> {
    #[serde(borrow)]
    value: Option<&'a RawValue>,
    error: Option<String>,
}

#[derive(Deserialize)]
struct CallValue<'a> {
    name: String,
    #[serde(borrow)]
    arguments: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct ResultValue<'a> {
    #[serde(borrow)]
    content: Vec<&'a RawValue>,
    #[serde(rename = "isError", default)]
    is_error: Option<bool>,
}

/// A piece of a message.
enum Part {
    Shown(Block),
    Said(AssistantBlock),
    Result(Answer),
    /// Not for the model, or of a kind that is not known.
    Kept(String),
}

/// Hands on a message. What the model does not see is taken out of the context.
pub(super) fn emit(
    said: &Said<'_>,
    model: &ModelRef,
    meta: &Meta,
    chain: &mut Chain,
    out: &mut Emitter<'_>,
) -> bool {
    let is_reply = match said.role.as_str() {
        "assistant" => true,
        "user" => false,
        _ => return false,
    };
    let (mut shown, mut reply, mut nodes) = (Vec::new(), Vec::new(), Vec::new());
    for raw in &said.content {
        let mended = Mended::default();
        let part = part(raw, &mended);
        if !matches!(part, Part::Kept(_)) {
            mended.tell("goose.part", raw.get(), meta, out);
        }
        match part {
            Part::Result(answer) => nodes.push(chain.result(answer, meta.clone(), out)),
            Part::Said(block) => reply.push(block),
            Part::Shown(Block::Text { text: Text::Inline(text) }) if is_reply => {
                reply.push(AssistantBlock::Text { text });
            }
            Part::Shown(block) => shown.push(block),
            Part::Kept(kind) => {
                out.custom(&format!("goose.{kind}"), raw, meta.clone());
            }
        }
    }
    if !reply.is_empty() {
        let reply = AssistantMessage::new(model, reply);
        nodes.push(chain.reply(reply, meta.clone(), out));
    }
    if !shown.is_empty() {
        let notice = (!said.metadata.user_visible).then_some("agent-only");
        nodes.push(chain.user(shown, notice, meta.clone(), out));
    }
    if !said.metadata.agent_visible {
        for target in nodes {
            let edit = ContextEdit { target, edit: "omit".to_owned(), ..ContextEdit::default() };
            out.record(Body::ContextEdit(edit), meta.clone());
        }
    }
    true
}

fn part(raw: &RawValue, mended: &Mended) -> Part {
    let Some(row) = mended.parse::<Row<'_>>(raw.get()) else {
        return Part::Kept("unknown".to_owned());
    };
    let audience = row.annotations.and_then(|annotations| annotations.audience);
    if audience.is_some_and(|audience| !audience.iter().any(|one| one == "assistant")) {
        return Part::Kept("shown".to_owned());
    }
    let kept = Part::Kept(row.kind.clone());
    match (row.kind.as_str(), row.id) {
        ("text", _) => row.text.map_or(kept, |text| Part::Shown(Block::text(text))),
        ("image", _) => match (row.data, row.mime_type) {
            (Some(data), Some(media_type)) => {
                Part::Shown(Block::Image { media_type, data: Text::Inline(data) })
            }
            _ => kept,
        },
        ("resource", _) => {
            let text = row.resource.and_then(|resource| resource.text);
            text.map_or(kept, |text| Part::Shown(Block::text(text)))
        }
        ("thinking", _) => Part::Said(AssistantBlock::Thinking {
            text: row.thinking.unwrap_or_default(),
            signature: row.signature.filter(|signature| !signature.is_empty()),
            redacted: false,
        }),
        ("redactedThinking", _) => Part::Said(AssistantBlock::Thinking {
            text: String::new(),
            signature: row.data,
            redacted: true,
        }),
        ("reasoning", _) => Part::Said(AssistantBlock::Thinking {
            text: row.text.unwrap_or_default(),
            signature: None,
            redacted: false,
        }),
        ("toolRequest" | "frontendToolRequest", Some(id)) => {
            row.tool_call.map_or(kept, |c| call(id, &c))
        }
        ("toolResponse", Some(id)) => row.tool_result.map_or(kept, |r| result(id, r)),
        _ => kept,
    }
}

/// A call that could not be understood has an error in place of its name.
fn call(id: String, call: &Outcome<'_>) -> Part {
    let value = call.value.and_then(|raw| serde_json::from_str::<CallValue<'_>>(raw.get()).ok());
    let (name, arguments) = match (value, call.value) {
        (Some(value), _) => (value.name, value.arguments.map_or("{}", RawValue::get).to_owned()),
        (None, raw) => (String::new(), raw.map_or("{}", RawValue::get).to_owned()),
    };
    Part::Said(AssistantBlock::ToolCall(ToolCall { id, name, arguments }))
}

fn result(id: String, result: Outcome<'_>) -> Part {
    let Some(raw) = result.value else {
        let text = result.error.unwrap_or_default();
        return Part::Result(Answer::ended(id, vec![Block::text(text)], true));
    };
    let (content, failed) = match serde_json::from_str::<ResultValue<'_>>(raw.get()) {
        Ok(value) => (value.content, value.is_error.unwrap_or(false)),
        Err(_) => (serde_json::from_str(raw.get()).unwrap_or_else(|_| vec![raw]), false),
    };
    let block = |raw: &RawValue| match part(raw, &Mended::default()) {
        Part::Shown(block) => Some(block),
        Part::Kept(kind) if kind == "shown" => None,
        _ => Some(Block::text(raw.get())),
    };
    Part::Result(Answer::ended(id, content.into_iter().filter_map(block).collect(), failed))
}
