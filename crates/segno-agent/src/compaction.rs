//! Compaction: the history in the context is replaced by a summary.
//!
//! Responsible for: the order of its records (started → request → done or failed, each synced), so that
//! a crash shows the context of before or the one of after, whole. Must not: choose what is kept (that is
//! `segno_model::context`), or remove anything from the log.

use crate::agent::AgentError;
use segno_model::context::{self, Boundary, Budget, ContextMessage};
use segno_model::record::{
    Block, Body, Compaction, CompactionState, ModelRef, Request, Text, Usage,
};
use segno_model::store::{Level, SessionLog};
use segno_runtime::{LARGE_VALUE_BYTES, Model, ModelRequest, Session, Stop};

/// Kept of the end of the conversation, in tokens, at most.
const MAX_TAIL_TOKENS: u64 = 20_000;

/// Kept of the person's own words from before that, in tokens, at most.
const MAX_WORDS_TOKENS: u64 = 20_000;

/// How large the request for a summary may become, in bytes.
const MAX_REQUEST_BYTES: usize = 480 * 1024;

const SYSTEM: &str = "You summarise the history of a coding session so that the work can go on.";

/// What a compaction came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Compacted {
    /// Context tokens before, estimated.
    pub tokens_before: u64,
    /// Context tokens after, estimated.
    pub tokens_after: u64,
    /// The summary.
    pub summary: String,
}

pub(crate) async fn compact<L: SessionLog, M: Model>(
    session: &mut Session<L>,
    model: &M,
    name: &ModelRef,
    focus: Option<&str>,
    stop: &Stop,
) -> Result<Compacted, AgentError> {
    let records = session.records();
    let tip = session.state().tip();
    let tokens_before = context::estimate(&records, tip).tokens;
    // By the messages alone: what was measured contains the system prompt and the tools.
    let said = context::estimate_messages(&context::build(&records, tip).messages);
    let budget =
        Budget { tail: MAX_TAIL_TOKENS.min(said / 4), words: MAX_WORDS_TOKENS.min(said / 4) };
    let boundary =
        context::choose_boundary(&records, tip, budget).ok_or(AgentError::NothingToCompact)?;
    let text = context::summary_request(&boundary.summarised, focus, MAX_REQUEST_BYTES);
    session.begin_compaction().await?;
    let summarised = summarise(session, model, name, text, stop).await;
    match summarised {
        Ok((summary, usage)) => {
            finish(session, name, boundary, tokens_before, summary, usage).await
        }
        Err(error) => {
            let reason = Some(error.to_string());
            session.end_compaction(Compaction::marker(CompactionState::Failed, reason)).await?;
            Err(error)
        }
    }
}

async fn finish<L: SessionLog>(
    session: &mut Session<L>,
    name: &ModelRef,
    boundary: Boundary,
    tokens_before: u64,
    summary: String,
    usage: Option<Usage>,
) -> Result<Compacted, AgentError> {
    let tokens_after = boundary.kept_tokens + summary.len() as u64 / 4;
    let stored = if summary.len() > LARGE_VALUE_BYTES {
        let head: String = summary.chars().take(500).collect();
        Text::Blob(session.log_mut().put_blob(summary.as_bytes(), &head).await?)
    } else {
        Text::Inline(summary.clone())
    };
    let done = Compaction {
        summary: Some(stored),
        first_kept: boundary.first_kept,
        kept: boundary.kept,
        tokens_before: Some(tokens_before),
        tokens_after: Some(tokens_after),
        model: Some(name.clone()),
        usage,
        ..Compaction::marker(CompactionState::Done, None)
    };
    session.end_compaction(done).await?;
    Ok(Compacted { tokens_before, tokens_after, summary })
}

/// One model call; it is announced like any other.
async fn summarise<L: SessionLog, M: Model>(
    session: &mut Session<L>,
    model: &M,
    name: &ModelRef,
    text: String,
    stop: &Stop,
) -> Result<(String, Option<Usage>), AgentError> {
    let request = Request {
        number: session.state().in_force.totals.requests.saturating_add(1),
        model: name.clone(),
        estimate: text.len() as u64 / 4,
        purpose: Some("compaction".to_owned()),
    };
    session.append(vec![Body::Request(request)], Level::Synced).await?;
    let messages = [ContextMessage::User { seq: 0, content: vec![Block::text(text)].into() }];
    let request = ModelRequest {
        model: name,
        system: SYSTEM,
        tools: &[],
        messages: &messages,
        thinking: None,
        session: session.id(),
    };
    let mut ignore = |_| {};
    let reply = tokio::select! {
        biased;
        reply = model.reply(request, &mut ignore) => reply?,
        _ = stop.stopped() => return Err(AgentError::Stopped),
    };
    let summary = context::parse_summary(&reply.text())?;
    Ok((summary, reply.usage))
}
