//! Asking a model for a summary.
//!
//! Responsible for: the calls, each announced like any other, and what is done when one fails: a busy
//! provider is waited for, a request that is too long is cut, an answer that is no summary is asked for once
//! more. Must not: write what comes of it.

use super::CompactError;
use crate::retry::{self, Next};
use crate::run::{Driver, Either, RunError, either};
use crate::{Model, ModelErrorKind, ModelRequest, Tools};
use segno_model::compaction::{Asking, Budgets, NoSummary, parse_summary, summary_request};
use segno_model::context::{self, ContextMessage};
use segno_model::record::{AssistantMessage, Block, Body, Request, Usage, UsageRecord};
use segno_model::state::COMPACTION;
use segno_model::store::{Level, SessionLog};

const SYSTEM: &str = "You summarise the history of a coding session so that the work can go on.";

/// How many bytes of text a token has at least, for the size of a request.
const BYTES_PER_TOKEN: u64 = 3;

/// How often a request that is too long is cut in half.
const CUTS: u32 = 4;

/// A summary and what its call cost.
pub(super) struct Summarised {
    pub(super) summary: String,
    pub(super) usage: Option<Usage>,
    /// Why no model wrote it, if none did.
    pub(super) mechanical: Option<String>,
}

/// What a summary is made from.
#[derive(Clone, Copy)]
pub(super) enum History<'a> {
    /// The messages themselves, told in the request.
    Told(&'a [ContextMessage]),
    /// The model's own state of them, sent in front of it.
    State(&'a ContextMessage),
}

/// What has been tried.
#[derive(Default)]
struct Tried {
    attempts: u32,
    cuts: u32,
    rejected: Option<NoSummary>,
}

impl<L: SessionLog, M: Model, T: Tools> Driver<'_, L, M, T> {
    pub(super) async fn summarise(
        &mut self,
        history: History<'_>,
        focus: Option<&str>,
        (budgets, most): (Budgets, u64),
    ) -> Result<Summarised, CompactError> {
        let mut tried = Tried::default();
        let bytes = usize::try_from(budgets.request * BYTES_PER_TOKEN).unwrap_or(usize::MAX);
        let (told, state) = match history {
            History::Told(messages) => (messages, None),
            History::State(state) => (&[][..], Some(state)),
        };
        loop {
            let asking = Asking {
                focus,
                from_state: state.is_some(),
                complaint: tried.rejected,
                max_bytes: bytes >> tried.cuts,
                max_words: budgets.summary / 4 * 3,
            };
            let text = summary_request(told, asking);
            let reply = match self.ask_for_summary(state, text).await? {
                Ok(reply) => reply,
                // There is nothing in it that could be cut.
                Err(error) if state.is_some() && error.kind == ModelErrorKind::TooLong => {
                    return Err(error.into());
                }
                Err(error) => {
                    self.try_again(&mut tried, error).await?;
                    continue;
                }
            };
            let summary = parse_summary(&reply.text(), reply.stop);
            let is_small = |summary: &String| context::estimate_text(summary) <= most;
            match summary.and_then(|s| if is_small(&s) { Ok(s) } else { Err(NoSummary::TooLarge) })
            {
                Ok(summary) => {
                    return Ok(Summarised { summary, usage: reply.usage, mechanical: None });
                }
                Err(why) => {
                    self.note_cost(reply.usage).await?;
                    if tried.rejected.replace(why).is_some() {
                        return Err(why.into());
                    }
                }
            }
        }
    }

    /// Waits or cuts, when that may help; otherwise the error.
    async fn try_again(
        &mut self,
        tried: &mut Tried,
        error: crate::ModelError,
    ) -> Result<(), CompactError> {
        tried.attempts += 1;
        if error.kind == ModelErrorKind::TooLong && tried.cuts < CUTS {
            tried.cuts += 1;
            return Ok(());
        }
        match retry::decide(self.env.retry, tried.attempts, &error) {
            Next::Retry { wait_ms } => {
                let stop = self.env.stop.clone();
                match either((self.env.sleep)(wait_ms), stop.stopped()).await {
                    Either::First(()) => Ok(()),
                    Either::Second(kind) => Err(CompactError::Stopped(kind)),
                }
            }
            Next::Fail => Err(error.into()),
        }
    }

    /// One call, with its `request` in front.
    async fn ask_for_summary(
        &mut self,
        state: Option<&ContextMessage>,
        text: String,
    ) -> Result<Result<AssistantMessage, crate::ModelError>, CompactError> {
        if let Some(kind) = self.env.stop.kind() {
            return Err(CompactError::Stopped(kind));
        }
        let request = Request {
            number: self.session.state().in_force.totals.requests.saturating_add(1),
            model: self.env.model.clone(),
            estimate: context::estimate_text(&text)
                + context::estimate_text(SYSTEM)
                + context::estimate_messages(state.map_or(&[], std::slice::from_ref)),
            purpose: Some(COMPACTION.to_owned()),
        };
        self.append(vec![Body::Request(request)], Level::Synced).await?;
        self.requests += 1;
        let asked = ContextMessage::User { seq: 0, content: vec![Block::text(text)].into() };
        let messages: Vec<ContextMessage> = state.cloned().into_iter().chain([asked]).collect();
        let request = ModelRequest {
            model: &self.env.model,
            system: SYSTEM,
            tools: &[],
            messages: &messages,
            thinking: None,
            session: self.session.id(),
        };
        let mut ignore = |_| {};
        let stop = self.env.stop.clone();
        match either(self.model.reply(request, &mut ignore), stop.stopped()).await {
            Either::First(reply) => Ok(reply),
            Either::Second(kind) => Err(CompactError::Stopped(kind)),
        }
    }

    /// An answer that is no use was paid for.
    pub(super) async fn note_cost(&mut self, usage: Option<Usage>) -> Result<(), RunError> {
        let Some(usage) = usage else { return Ok(()) };
        let (purpose, model) = (COMPACTION.to_owned(), self.env.model.clone());
        let cost = Body::Usage(UsageRecord { purpose, model, usage });
        self.append(vec![cost], Level::Written).await.map(drop)
    }
}
