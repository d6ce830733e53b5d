//! What is larger than a record may be.
//!
//! Responsible for: making replies, results and sentences fit into one line of a log, saying what was
//! cut and where the whole of it is, so that nothing that was said or done is lost for its size. Must
//! not: change what fits.

use crate::blobs;
use crate::tools::ToolOutput;
use segno_model::batch::MAX_LINE_BYTES;
use segno_model::record::{
    AssistantBlock, AssistantMessage, BlobRef, Body, Established, Message, ToolMessage,
};
use segno_model::store::{SessionLog, StoreError};
use segno_model::{Seq, Timestamp, line};
use std::collections::BTreeSet;

/// The envelope's part of a line, at most.
const ENVELOPE_BYTES: usize = 4 * 1024;

/// How long a sentence that others wrote may be in a record, in bytes.
const SENTENCE_BYTES: usize = 64 * 1024;

/// What the pieces of a shortened reply may take together.
const ROOM: usize = MAX_LINE_BYTES / 2;

/// Pieces of a reply up to this size are not worth shortening.
const SMALL_PIECE: usize = 4 * 1024;

/// How the note in a shortened reply begins.
const SHORTENED: &str = "[Segno: this reply has ";

/// The calls of a recorded reply, by index, whose arguments may have been cut; they must not run.
pub(crate) fn cut_calls(reply: &AssistantMessage) -> BTreeSet<usize> {
    let is_note = |block: &AssistantBlock| matches!(block, AssistantBlock::Text { text } if text.starts_with(SHORTENED));
    if !reply.content.iter().any(is_note) {
        return BTreeSet::new();
    }
    reply.calls().enumerate().filter(|(_, call)| call.arguments == "{}").map(|(i, _)| i).collect()
}

/// A reply that can be recorded.
pub(crate) struct Fitted {
    pub(crate) reply: AssistantMessage,
    /// The calls, by index, whose arguments did not fit; they must not run.
    pub(crate) cut_calls: BTreeSet<usize>,
}

/// Whether a record of this can be written.
pub(crate) fn fits(body: &Body) -> bool {
    let envelope = line::Envelope {
        seq: Seq::MAX,
        parent: Some(Seq::MAX),
        parent_at: None,
        at: Timestamp(0),
        kind: body.kind().to_owned(),
        synced: Some(Seq::MAX),
    };
    line::encode(&envelope, body).is_ok_and(|line| line.len() + ENVELOPE_BYTES < MAX_LINE_BYTES)
}

/// Shortens a reply until it fits: first the provider's own items go, then the largest pieces. The whole
/// reply is then a blob, and the record names it.
///
/// # Errors
/// As the store.
pub(crate) async fn reply<L: SessionLog>(
    log: &mut L,
    reply: &AssistantMessage,
) -> Result<Fitted, StoreError> {
    let mut fitted = Fitted { reply: reply.clone(), cut_calls: BTreeSet::new() };
    if fits(&message(&fitted.reply)) {
        return Ok(fitted);
    }
    fitted.reply.native = None;
    if fits(&message(&fitted.reply)) {
        return Ok(fitted);
    }
    let whole = serde_json::to_vec(reply).map_err(|e| StoreError::refused(&e.to_string()))?;
    let blob = log.put_blob(&whole, "").await?;
    fitted.shorten(&blob);
    Ok(fitted)
}

fn message(reply: &AssistantMessage) -> Body {
    Body::Message(Box::new(Message::Assistant(reply.clone())))
}

impl Fitted {
    fn shorten(&mut self, whole: &BlobRef) {
        let note = format!(
            "{SHORTENED}{} bytes, more than one record can hold, and was shortened. The whole of it is \
             blob {} of this session.]\n",
            whole.bytes, whole.blob
        );
        let content = &mut self.reply.content;
        // Behind the thinking, which must come first, and before the calls.
        let is_call = |block: &AssistantBlock| matches!(block, AssistantBlock::ToolCall(_));
        let mut at = content.iter().position(is_call).unwrap_or(content.len());
        content.insert(at, AssistantBlock::Text { text: note });
        let mut sizes: Vec<usize> = content.iter().map(encoded_bytes).collect();
        let mut total: usize = sizes.iter().sum();
        while total > ROOM {
            let others = (0..sizes.len()).filter(|i| *i != at);
            let Some(i) = others.max_by_key(|i| sizes[*i]).filter(|i| sizes[*i] > SMALL_PIECE)
            else {
                break;
            };
            self.cut_calls.extend(shorten_piece(content, i));
            total -= sizes[i];
            sizes[i] = encoded_bytes(&content[i]);
            total += sizes[i];
        }
        // A crowd of small pieces: the last ones go.
        while total > ROOM && content.len() > 1 {
            let last = content.len() - 1;
            let last = if last == at { last - 1 } else { last };
            at -= usize::from(last < at);
            content.remove(last);
            total -= sizes.remove(last);
        }
        let calls = self.reply.calls().count();
        self.cut_calls.retain(|index| *index < calls);
    }
}

/// Shortens one piece; gives the index among the calls when it was one.
fn shorten_piece(content: &mut [AssistantBlock], i: usize) -> Option<usize> {
    let is_call = |block: &&AssistantBlock| matches!(block, AssistantBlock::ToolCall(_));
    let before = content[..i].iter().filter(is_call).count();
    match &mut content[i] {
        AssistantBlock::Text { text } => {
            text.truncate(cut_at(text, text.len() / 2).len());
            None
        }
        AssistantBlock::ToolCall(call) => {
            call.arguments = "{}".to_owned();
            call.id = cut_at(&call.id, SMALL_PIECE / 32).to_owned();
            call.name = cut_at(&call.name, SMALL_PIECE / 32).to_owned();
            Some(before)
        }
        other => {
            *other = AssistantBlock::Text { text: String::new() };
            None
        }
    }
}

fn encoded_bytes(block: &AssistantBlock) -> usize {
    serde_json::to_vec(block).map_or(usize::MAX / 4, |json| json.len())
}

/// Whose result it is.
pub(crate) struct ResultOf<'a> {
    pub(crate) call_id: &'a str,
    pub(crate) call_seq: Seq,
    pub(crate) tool: &'a str,
    /// Who says so.
    pub(crate) established: Established,
}

/// What a tool gave, as a result that can be recorded: what is large goes into blobs first. It can be asked for
/// again when the store refused.
///
/// # Errors
/// As the store.
pub(crate) async fn output<L: SessionLog>(
    log: &mut L,
    of: &ResultOf<'_>,
    output: &mut ToolOutput,
) -> Result<Body, StoreError> {
    blobs::store_large(log, &mut output.content).await?;
    let whole = match &output.whole {
        Some(bytes) => Some(blobs::store_bytes(log, bytes).await?),
        None => None,
    };
    let message = ToolMessage {
        call_id: of.call_id.to_owned(),
        call_seq: Some(of.call_seq),
        name: of.tool.to_owned(),
        content: output.content.clone(),
        whole,
        is_error: output.is_error,
        outcome: output.outcome,
        established: of.established,
        background: output.background.clone(),
    };
    result(log, message).await
}

/// Makes a result fit whose parts are too many: they become one blob.
///
/// # Errors
/// As the store.
pub(crate) async fn result<L: SessionLog>(
    log: &mut L,
    result: ToolMessage,
) -> Result<Body, StoreError> {
    let body = Body::Message(Box::new(Message::Tool(result)));
    if fits(&body) {
        return Ok(body);
    }
    let Body::Message(message) = body else { return Ok(body) };
    let Message::Tool(mut result) = *message else { return Err(StoreError::refused("no result")) };
    let parts =
        serde_json::to_vec(&result.content).map_err(|e| StoreError::refused(&e.to_string()))?;
    let blob = log.put_blob(&parts, "").await?;
    let said = format!(
        "(The result has {} parts with {} bytes, more than one record can hold. All of it is blob {} \
         of this session.)",
        result.content.len(),
        blob.bytes,
        blob.blob
    );
    result.content = vec![segno_model::record::Block::text(said)];
    result.whole = result.whole.or(Some(blob));
    Ok(Body::Message(Box::new(Message::Tool(result))))
}

/// A sentence that others wrote, as it goes into a record.
pub(crate) fn sentence(text: &str) -> String {
    match cut_at(text, SENTENCE_BYTES) {
        whole if whole.len() == text.len() => text.to_owned(),
        head => format!("{head} […]"),
    }
}

fn cut_at(text: &str, bytes: usize) -> &str {
    blobs::cut_at(text, bytes)
}
