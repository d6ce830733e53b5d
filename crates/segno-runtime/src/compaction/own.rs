//! Asking a provider for its own state of what lies back.
//!
//! Responsible for: the call, announced like any other, its cost, and whether the state is worth keeping. Must not:
//! fail a compaction: without a state the summary stands alone.

use super::CompactError;
use crate::event::{CompactionEvent, Event};
use crate::run::{Driver, Either, either};
use crate::{LARGE_VALUE_BYTES, Model, ModelRequest, OwnCompaction, Tools, blobs};
use segno_model::compaction::{Native as Wanted, Window};
use segno_model::context::{
    self, Boundary, Context, ContextMessage, ContextState, Target, estimate_native,
};
use segno_model::record::{Body, Compaction, Native, Request};
use segno_model::state::COMPACTION;
use segno_model::store::{Level, SessionLog};
use std::sync::Arc;

/// What came of asking; nothing where nobody was asked.
#[derive(Default)]
pub(super) struct Own {
    state: Option<State>,
    why_none: Option<String>,
}

struct State {
    native: Arc<Native>,
    tokens: u64,
    server: String,
}

impl Own {
    /// The state as a message of a request.
    pub(super) fn message(&self) -> Option<ContextMessage> {
        let State { native, tokens, .. } = self.state.as_ref()?;
        let state = ContextState { seq: 0, native: Arc::clone(native), tokens: *tokens };
        Some(ContextMessage::State(state))
    }

    pub(super) fn tokens(&self) -> Option<u64> {
        Some(self.state.as_ref()?.tokens)
    }

    /// The state is no good.
    pub(super) fn drop_state(&mut self, why: &str) {
        (self.state, self.why_none) = (None, Some(crate::fit::sentence(why)));
    }
}

impl<L: SessionLog, M: Model, T: Tools> Driver<'_, L, M, T> {
    /// Asks for a state of what the boundary cuts off, where there is somebody to ask. A person's wish for what
    /// is to be kept in mind could not be told, so with one nobody is asked.
    pub(super) async fn ask_for_state(
        &mut self,
        boundary: &Boundary,
        focus: Option<&str>,
        window: Window,
    ) -> Result<Own, CompactError> {
        let wherever = self.env.compaction.native == Wanted::Wherever;
        let asks = focus.is_none() && self.model.compacts(&self.env.model, wherever);
        let Some(target) = self.target().filter(|target| asks && target.states) else {
            return Ok(Own::default());
        };
        let messages = self.history_for(boundary, &target).await;
        let replaced = context::estimate_messages(&messages);
        let answer = self.call_for_state(&messages, replaced).await?;
        let mut own = Own::default();
        match answer {
            Ok(OwnCompaction { native, usage }) => {
                self.note_cost(usage).await?;
                let tokens = estimate_native(&native);
                if tokens >= replaced || tokens > window.room() / 2 {
                    own.drop_state("the state was hardly smaller than what it stood for");
                } else {
                    let (native, server) = (Arc::new(native), target.server);
                    own.state = Some(State { native, tokens, server });
                }
            }
            Err(error) => own.drop_state(&error.message),
        }
        if let Some(reason) = &own.why_none {
            self.observer.event(Event::Compaction(CompactionEvent::Local { reason }));
        }
        Ok(own)
    }

    /// What is cut off, as the target is sent it: with the state before this one, if that is its own.
    async fn history_for(&mut self, boundary: &Boundary, target: &Target) -> Vec<ContextMessage> {
        let messages = boundary.summarised.clone();
        let mut history = Context { messages, state: boundary.state.clone(), ..Context::default() };
        blobs::resolve_state(self.session.log(), &mut history, target).await;
        let mut history = history.for_target(target);
        blobs::resolve(self.session.log(), &mut history).await;
        history.messages
    }

    async fn call_for_state(
        &mut self,
        messages: &[ContextMessage],
        estimate: u64,
    ) -> Result<Result<OwnCompaction, crate::ModelError>, CompactError> {
        if let Some(kind) = self.env.stop.kind() {
            return Err(CompactError::Stopped(kind));
        }
        let request = Request {
            number: self.session.state().in_force.totals.requests.saturating_add(1),
            model: self.env.model.clone(),
            estimate: estimate + context::estimate_text(self.env.system),
            purpose: Some(COMPACTION.to_owned()),
        };
        self.append(vec![Body::Request(request)], Level::Synced).await?;
        self.requests += 1;
        let request = ModelRequest {
            model: &self.env.model,
            system: self.env.system,
            tools: &[],
            messages,
            thinking: None,
            session: self.session.id(),
        };
        let stop = self.env.stop.clone();
        match either(self.model.compact(request), stop.stopped()).await {
            Either::First(answer) => Ok(answer),
            Either::Second(kind) => Err(CompactError::Stopped(kind)),
        }
    }

    /// Puts a state into the record that ends its compaction; a large one into a blob that the record names.
    pub(super) async fn store_state(
        &mut self,
        own: Own,
        done: &mut Compaction,
    ) -> Result<(), CompactError> {
        done.no_native = own.why_none;
        let Some(State { native, tokens, server }) = own.state else { return Ok(()) };
        let items = native.items.get();
        let mut stored = (*native).clone();
        while items.len() > LARGE_VALUE_BYTES {
            match self.session.log_mut().put_blob(items.as_bytes(), "").await {
                Ok(blob) => {
                    stored.items = serde_json::value::to_raw_value(&blob)
                        .unwrap_or_else(|_| stored.items.clone());
                    break;
                }
                Err(error) => self.wait_for_room(error).await?,
            }
        }
        done.native = Some(stored);
        (done.endpoint, done.native_tokens) = (Some(server), Some(tokens));
        Ok(())
    }
}
