//! What each provider refuses: found, and mended, before a request is sent (G6).
//!
//! Responsible for: one table of rules with the wires that each holds for. [`check`] names what a request
//! breaks and the record that it comes from; [`repair`] makes a request that breaks nothing. Both are pure:
//! the same history gives the same bytes, and a longer history keeps the bytes of a shorter one. What is
//! stored never changes. Must not: build a provider's JSON, or do I/O (large images are made smaller before:
//! `super::images`).
//!
//! The context (`segno_model::context`) decides which records are sent; nothing here does.

mod calls;
mod pictures;
mod takes;
mod text;
mod tools;
mod turns;

pub(super) use calls::{is_own_id, own_id};
pub(super) use pictures::left_out;
pub(super) use takes::{ImageTakes, Takes};
pub(super) use tools::{Declared, declared, own_names};

use super::wire::{Settings, Wire};
use segno_model::Seq;
use segno_model::context::{CONTINUE_NOTICE, ContextAssistant, ContextMessage, Shared};
use segno_model::record::{Block, ModelRef};
use segno_runtime::{ModelRequest, ToolSpec};
use std::borrow::Cow;

/// Something that a provider refuses.
pub struct Rule {
    /// Its name.
    pub label: &'static str,
    /// What is asked for, in words.
    pub asks: &'static str,
    /// Who asks for it.
    pub wires: &'static [Wire],
    mend: fn(&mut Draft<'_>),
}

const ALL: &[Wire] = &[Wire::Anthropic, Wire::OpenAiResponses, Wire::OpenAiChat, Wire::Gemini];

macro_rules! rules {
    ($($label:literal, $asks:literal, $wires:expr, $mend:path;)*) => {
        &[$(Rule { label: $label, asks: $asks, wires: $wires, mend: $mend }),*]
    };
}

/// All rules, in the order in which they are mended: a later one may rely on those before.
pub const RULES: &[Rule] = rules! {
    "foreign-thinking", "reasoning and native items go back only to the model and the place that made them",
        ALL, turns::foreign_thinking;
    "native-unreadable", "native items are of this wire, and JSON that strict readers take",
        ALL, turns::unreadable_native;
    "unsigned-thinking", "reasoning goes back with its signature or not at all", ALL, turns::unsigned_thinking;
    "unknown-block", "only content of known kinds", ALL, text::unknown_blocks;
    "lost-blob", "content is there, and not only a reference to it", ALL, text::lost_blobs;
    "no-images", "a model that takes no images gets none", ALL, pictures::without_vision;
    "image", "images are whole, of a type that is taken, and within the limits of size", ALL, pictures::unfit;
    "image-count", "so many images, and so many bytes of them, in one request", ALL, pictures::too_many;
    "nul", "no NUL in a text", ALL, text::nul;
    "empty-text", "no text that is empty or only white space", ALL, text::empty_texts;
    "empty-turn", "no turn of the model without words or calls", ALL, turns::empty_turns;
    "empty-message", "no message and no result without content", ALL, text::empty_messages;
    "call-result", "each call has one result right behind its turn, in order, and each result a call",
        ALL, calls::pair;
    "call-id", "ids of calls are there, unique, short enough and in a plain alphabet", ALL, calls::ids;
    "call-name", "calls and results name a tool that could exist", ALL, calls::names;
    "call-arguments", "arguments are a JSON object", ALL, calls::arguments;
    "order", "the first and the last message are the user's, and the roles alternate", ALL, turns::order;
};

/// A rule that a request breaks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// The rule's label.
    pub rule: &'static str,
    /// The record that it comes from; none where no single record does.
    pub seq: Option<Seq>,
}

/// What `request` would be refused for on this wire.
#[must_use]
pub fn check(wire: Wire, request: &ModelRequest<'_>, settings: &Settings) -> Vec<Violation> {
    Draft::mended(wire, request, settings).broken
}

/// The request without anything that it would be refused for.
#[must_use]
pub fn repair<'a>(wire: Wire, request: &ModelRequest<'a>, settings: &Settings) -> Repaired<'a> {
    let draft = Draft::mended(wire, request, settings);
    let messages = match draft.broken.is_empty() {
        true => Cow::Borrowed(request.messages),
        false => Cow::Owned(draft.messages),
    };
    Repaired {
        system: text::without_nul(request.system),
        messages,
        tools: tools::sent(wire, request),
    }
}

/// A request as it can be sent.
#[derive(Debug)]
pub struct Repaired<'a> {
    system: Cow<'a, str>,
    messages: Cow<'a, [ContextMessage]>,
    tools: Cow<'a, [ToolSpec]>,
}

impl Repaired<'_> {
    /// `whole` with these contents in place of its own.
    #[must_use]
    pub fn request<'b>(&'b self, whole: &ModelRequest<'b>) -> ModelRequest<'b> {
        ModelRequest {
            system: &self.system,
            messages: &self.messages,
            tools: &self.tools,
            ..*whole
        }
    }

    /// Whether there is a system prompt to send.
    pub(super) fn has_system(&self) -> bool {
        !text::is_blank(&self.system)
    }

    /// Whether the last message is the one that stands behind a turn of the model that nobody followed.
    pub(super) fn ends_with_notice(&self) -> bool {
        matches!(self.messages.last(), Some(ContextMessage::User { content, .. })
            if **content == [Block::text(CONTINUE_NOTICE)])
    }

    /// The history.
    #[must_use]
    pub fn messages(&self) -> &[ContextMessage] {
        &self.messages
    }
}

/// A history on its way to being sendable.
struct Draft<'a> {
    takes: &'static Takes,
    wire: Wire,
    model: &'a ModelRef,
    endpoint: Option<&'a str>,
    takes_images: bool,
    /// Tools whose names are sent otherwise: own name, sent name.
    renamed: Vec<(String, String)>,
    messages: Vec<ContextMessage>,
    /// The rule that is being mended.
    rule: &'static str,
    broken: Vec<Violation>,
}

impl<'a> Draft<'a> {
    fn mended(wire: Wire, request: &ModelRequest<'a>, settings: &'a Settings) -> Self {
        let mut draft = Self {
            takes: Takes::of(wire),
            wire,
            model: request.model,
            endpoint: settings.endpoint.as_deref(),
            takes_images: !settings.no_images,
            renamed: tools::renamed(wire, request.tools),
            messages: request.messages.to_vec(),
            rule: "",
            broken: Vec::new(),
        };
        for rule in RULES.iter().filter(|rule| rule.wires.contains(&wire)) {
            draft.rule = rule.label;
            (rule.mend)(&mut draft);
        }
        draft
    }

    /// Notes that the rule being mended was broken.
    fn note(&mut self, seq: Option<Seq>) {
        let violation = Violation { rule: self.rule, seq };
        if !self.broken.contains(&violation) {
            self.broken.push(violation);
        }
    }

    /// Gives every content of the user's side to `mend`, which says what is to stand instead.
    fn contents(&mut self, mut mend: impl FnMut(Option<Seq>, &[Block]) -> Option<Vec<Block>>) {
        let mut changed = Vec::new();
        let mut visit = |seq: Option<Seq>, content: &mut Shared<Block>| {
            if let Some(blocks) = mend(seq, content) {
                *content = blocks.into();
                changed.push(seq);
            }
        };
        for message in &mut self.messages {
            match message {
                ContextMessage::User { seq, content } => visit(Some(*seq), content),
                ContextMessage::Results(results) => {
                    results.iter_mut().for_each(|result| visit(result.seq, &mut result.content));
                }
                ContextMessage::Assistant(_) | ContextMessage::State(_) => {}
            }
        }
        changed.into_iter().for_each(|seq| self.note(seq));
    }

    /// Gives every turn of the model to `mend`, which says whether it changed it.
    fn turns(&mut self, mut mend: impl FnMut(&mut ContextAssistant) -> bool) {
        let mut changed = Vec::new();
        for message in &mut self.messages {
            if let ContextMessage::Assistant(turn) = message
                && mend(turn)
            {
                changed.push(turn.seq);
            }
        }
        changed.into_iter().for_each(|seq| self.note(Some(seq)));
    }
}
