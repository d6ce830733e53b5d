//! Turns of the model, and the order of all turns.
//!
//! Responsible for: reasoning and native items, turns with nothing to say, whose turn it is. Must not: look at
//! calls.

use super::Draft;
use super::text::is_blank;
use segno_model::Seq;
use segno_model::context::{CONTINUE_NOTICE, ContextMessage, ContextState, LOST_BEGINNING_NOTICE};
use segno_model::record::{AssistantBlock, Block};

fn is_thinking(block: &AssistantBlock) -> bool {
    matches!(block, AssistantBlock::Thinking { .. })
}

pub(super) fn foreign_thinking(draft: &mut Draft<'_>) {
    let (model, endpoint) = (draft.model, draft.endpoint);
    draft.turns(|turn| {
        let is_own = turn.model == *model && turn.endpoint.as_deref() == endpoint;
        let says = turn.native.is_some() || turn.content.iter().any(is_thinking);
        if !is_own && says {
            turn.forget_maker();
        }
        !is_own && says
    });
}

/// Half a character pair (a lone surrogate) is written down by some providers and read by none.
pub(super) fn unreadable_native(draft: &mut Draft<'_>) {
    let dialect = draft.wire.dialect();
    draft.turns(|turn| {
        let bad = turn.native.as_ref().is_some_and(|native| {
            native.dialect != dialect
                || serde_json::from_str::<serde_json::Value>(native.items.get()).is_err()
        });
        if bad {
            turn.native = None;
        }
        bad
    });
    // A state goes only to its maker (the context sees to that), so this is for what an embedder gives.
    let mut bad = Vec::new();
    for message in &mut draft.messages {
        if let ContextMessage::State(ContextState { seq, native, .. }) = message
            && (native.dialect != dialect
                || serde_json::from_str::<Vec<serde_json::Value>>(native.items.get()).is_err())
        {
            bad.push(*seq);
            *message = notice(*seq, LOST_BEGINNING_NOTICE);
        }
    }
    bad.into_iter().for_each(|seq| draft.note(Some(seq)));
}

pub(super) fn unsigned_thinking(draft: &mut Draft<'_>) {
    let takes_any = draft.takes.thinking;
    let goes_back = |block: &AssistantBlock| match block {
        AssistantBlock::Thinking { signature, .. } => {
            takes_any && signature.as_deref().is_some_and(|signature| !is_blank(signature))
        }
        _ => true,
    };
    draft.turns(|turn| {
        // With native items these blocks are not what is sent.
        let broken = turn.native.is_none() && !turn.content.iter().all(goes_back);
        if broken {
            let mut blocks = turn.content.take();
            blocks.retain(goes_back);
            turn.content = blocks.into();
        }
        broken
    });
}

/// Turns of reasoning alone, too: what it led to is missing.
pub(super) fn empty_turns(draft: &mut Draft<'_>) {
    let mut empty = Vec::new();
    draft.messages.retain(|message| {
        let ContextMessage::Assistant(turn) = message else { return true };
        let says = !turn.content.iter().all(is_thinking);
        if !says {
            empty.push(turn.seq);
        }
        says
    });
    empty.into_iter().for_each(|seq| draft.note(Some(seq)));
}

fn notice(seq: Seq, text: &str) -> ContextMessage {
    ContextMessage::User { seq, content: vec![Block::text(text)].into() }
}

pub(super) fn order(draft: &mut Draft<'_>) {
    let mut ordered: Vec<ContextMessage> = Vec::new();
    let mut broken = Vec::new();
    for message in std::mem::take(&mut draft.messages) {
        if let ContextMessage::Assistant(turn) = &message {
            let before = match ordered.last() {
                None => Some((turn.seq, LOST_BEGINNING_NOTICE)),
                Some(ContextMessage::Assistant(before)) => Some((before.seq, CONTINUE_NOTICE)),
                Some(_) => None,
            };
            if let Some((seq, text)) = before {
                ordered.push(notice(seq, text));
                broken.push(seq);
            }
        }
        ordered.push(message);
    }
    let last = match ordered.last() {
        None => Some(0),
        Some(ContextMessage::Assistant(turn)) => Some(turn.seq),
        Some(_) => None,
    };
    if let Some(seq) = last {
        ordered.push(notice(seq, CONTINUE_NOTICE));
        broken.push(seq);
    }
    draft.messages = ordered;
    broken.into_iter().for_each(|seq| draft.note(Some(seq)));
}
