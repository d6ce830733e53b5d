//! Making the context smaller: when it is due, and in which order that is written.
//!
//! Responsible for: the order of a compaction's records (started → request → done or failed, each synced),
//! so that a crash shows the context of before or the one of after, whole; stops, limits and full disks as
//! in a run. Must not: choose what is kept or decide when it is due (that is `segno_model`), or remove
//! anything from the log. Why this is here and not with the agent is told in decision 0017.

mod own;
mod summarise;
mod tight;

use crate::event::{CompactionCause, CompactionEvent, Event, Observer};
use crate::inbox::Watcher;
use crate::run::{Driver, RunEnv, RunError};
use crate::session::Session;
use crate::{LARGE_VALUE_BYTES, Model, ModelError, ModelErrorKind, StopKind, Tools, blobs, fit};
use own::Own;
use segno_model::Record;
use segno_model::compaction::{
    self, Budgets, Carried, Decision, Forecast, NoSummary, Outlook, Pruning, USUAL_WINDOW, Window,
};
use segno_model::context::{self, Boundary, Target};
use segno_model::record::{Body, Compaction, CompactionState, Text};
use segno_model::store::{Level, SessionLog, StoreError};
use summarise::{History, Summarised};
pub(crate) use tight::Tight;

/// What a compaction came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Compacted {
    /// Context tokens before, estimated.
    pub tokens_before: u64,
    /// Context tokens after, estimated.
    pub tokens_after: u64,
    /// The summary.
    pub summary: String,
    /// Whether the model is sent the provider's own state instead.
    pub state: bool,
}

/// Why a context was not made smaller. It is then as before, and a failed attempt is recorded.
#[derive(Debug, thiserror::Error)]
pub enum CompactError {
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// There is nothing that a summary would make shorter.
    #[error("there is nothing to compact yet")]
    Nothing,
    /// A stop or a shutdown came.
    #[error("stopped")]
    Stopped(StopKind),
    /// The model gave no answer.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// The model's answers hold no summary.
    #[error(transparent)]
    NoSummary(#[from] NoSummary),
}

impl From<RunError> for CompactError {
    fn from(error: RunError) -> Self {
        match error {
            RunError::Store(error) => Self::Store(error),
        }
    }
}

/// Replaces the history in the context by a summary, because a person asks for it; their own words stay
/// while they fit. `focus` is what they want kept in mind. The log keeps everything.
///
/// # Errors
/// [`CompactError`]; the context is as before then.
pub async fn compact<L: SessionLog, M: Model, T: Tools>(
    session: &mut Session<L>,
    model: &M,
    tools: &T,
    mut env: RunEnv<'_>,
    focus: Option<&str>,
    observer: &mut dyn Observer,
) -> Result<Compacted, CompactError> {
    let (watcher, heard) = Watcher::of(&mut env);
    let mut driver = Driver::new(session, model, tools, env, heard, observer);
    let work = async {
        let budgets = driver.budgets().await;
        driver.compact(focus, budgets, CompactionCause::Person).await
    };
    watcher.beside(work).await
}

impl<L: SessionLog, M: Model, T: Tools> Driver<'_, L, M, T> {
    /// Makes the context smaller when it is due. What comes of it is in the log; a stop that came is seen by
    /// whoever looks next. The error is the run's end: summaries lead nowhere.
    pub(crate) async fn make_room(&mut self) -> Result<Result<(), ModelError>, RunError> {
        let settings = self.env.compaction;
        let Some(window) = self.window().await else { return Ok(Ok(())) };
        if self.env.stop.kind().is_some() || self.used_up().is_some() {
            return Ok(Ok(()));
        }
        let Forecast { measure, pruning } = self.forecast(window);
        match measure.facts(settings.auto).row().then {
            Decision::Nothing => {}
            Decision::Prune => {
                if let Some(pruning) = pruning {
                    self.prune(pruning).await?;
                }
            }
            Decision::Compact if self.leads_nowhere(CompactionCause::Threshold) => {
                return Ok(Err(ModelError::new(ModelErrorKind::TooLong, NOWHERE)));
            }
            Decision::Compact => {
                let budgets = self.budgets().await.in_a_run();
                let attempt = self.compact(None, budgets, CompactionCause::Threshold).await;
                if made_or_nothing(&attempt) && self.estimate() >= measure.threshold {
                    self.cut_unanswered(window.room() / 3).await?;
                }
                ended(attempt)?;
            }
            Decision::GiveUp(why) => {
                if !self.told_large {
                    self.told_large = true;
                    let why = why.sentence();
                    self.observer.event(Event::Compaction(CompactionEvent::GivenUp { why }));
                }
            }
        }
        Ok(Ok(()))
    }

    /// Whether the last summaries of this run made room for hardly a reply each.
    pub(crate) fn leads_nowhere(&self, cause: CompactionCause) -> bool {
        self.tight.leads_nowhere(self.replies(), cause)
    }

    fn replies(&self) -> u64 {
        self.session.state().in_force.totals.assistant_messages
    }

    /// Makes results that the model has not seen yet smaller; says whether it did.
    async fn cut_unanswered(&mut self, tokens: u64) -> Result<bool, RunError> {
        let cut = {
            let (records, tip) = (self.session.active(), self.session.state().tip());
            compaction::cut_unanswered(&records, tip, self.session.id(), tokens)
        };
        let Some(cut) = cut else { return Ok(false) };
        self.prune(cut).await.map(|()| true)
    }

    /// After a provider said that a request is too long: makes the context smaller, whatever was estimated.
    /// Says whether it did.
    pub(crate) async fn shorten(&mut self, error: &ModelError) -> Result<bool, RunError> {
        if error.kind != ModelErrorKind::TooLong
            || !self.env.compaction.auto
            || self.env.stop.kind().is_some()
            || self.used_up().is_some()
            || self.leads_nowhere(CompactionCause::TooLong)
        {
            return Ok(false);
        }
        let budgets = self.budgets().await.harder().in_a_run();
        let before = self.estimate();
        let compacted = self.compact(None, budgets, CompactionCause::TooLong).await;
        let mut done = compacted.is_ok();
        // How far estimates are off is not known, so what is sent next has half the size at most.
        if made_or_nothing(&compacted) && self.estimate() > before / 2 {
            done |= self.cut_unanswered(before / 4).await?;
        }
        ended(compacted).map(|()| done)
    }

    /// Leaves out old outputs, each by an edit of its own: whichever of them a crash leaves is good.
    async fn prune(&mut self, pruning: Pruning) -> Result<(), RunError> {
        let (results, tokens) = (pruning.edits.len(), pruning.frees);
        let edits = pruning.edits.into_iter().map(Body::ContextEdit);
        self.append(edits.collect(), Level::Synced).await?;
        self.observer.event(Event::Compaction(CompactionEvent::Pruned { results, tokens }));
        Ok(())
    }

    /// The model's window: what the caller says, or the model itself. Asked once.
    pub(crate) async fn window(&mut self) -> Option<Window> {
        if self.env.compaction.window.is_none() && self.env.compaction.auto && !self.asked_window {
            self.asked_window = true;
            self.env.compaction.window = self.model.window(&self.env.model).await;
        }
        self.env.compaction.window
    }

    fn forecast(&self, window: Window) -> Forecast {
        let (records, target) = (self.session.active(), self.target());
        self.outlook(&records, target.as_ref()).forecast(self.env.compaction, window)
    }

    pub(crate) fn estimate(&self) -> u64 {
        let (records, target) = (self.session.active(), self.target());
        self.outlook(&records, target.as_ref()).estimate().tokens
    }

    fn outlook<'r>(
        &'r self,
        records: &'r [&'r Record],
        target: Option<&'r Target>,
    ) -> Outlook<'r, &'r Record> {
        let state = self.session.state();
        Outlook {
            records,
            tip: state.tip(),
            session: self.session.id(),
            last: state.in_force.last_compaction.as_ref(),
            model: &self.env.model,
            target,
            fixed: self.fixed(),
        }
    }

    /// The system prompt and the tools, guessed.
    fn fixed(&self) -> u64 {
        let specs = self.tools.specs();
        let tokens = |spec: &crate::ToolSpec| {
            let parameters = context::estimate_text(&spec.parameters.to_string());
            context::estimate_text(&spec.name)
                + context::estimate_text(&spec.description)
                + parameters
        };
        context::estimate_text(self.env.system) + specs.iter().map(tokens).sum::<u64>()
    }

    async fn budgets(&mut self) -> Budgets {
        let window = self.window().await.unwrap_or(USUAL_WINDOW);
        let records = self.session.active();
        let said = context::build_untraced(&records, self.session.state().tip()).messages;
        Budgets::new(window, context::estimate_messages(&said))
    }

    async fn compact(
        &mut self,
        focus: Option<&str>,
        budgets: Budgets,
        cause: CompactionCause,
    ) -> Result<Compacted, CompactError> {
        let tokens_before = self.estimate();
        let boundary = {
            let records = self.session.active();
            context::choose_boundary(&records, self.session.state().tip(), budgets.keep)
        };
        let boundary = boundary.ok_or(CompactError::Nothing)?;
        self.tight.note(self.replies());
        let started = Compaction::marker(CompactionState::Started, None);
        self.append(vec![Body::Compaction(Box::new(started))], Level::Synced).await?;
        self.observer.event(Event::Compaction(CompactionEvent::Started { cause }));
        let window = self.window().await.unwrap_or(USUAL_WINDOW);
        let mut own = match self.ask_for_state(&boundary, focus, window).await {
            Ok(own) => own,
            Err(error) => return self.fail(tokens_before, error).await,
        };
        let asked_for = cause == CompactionCause::Person;
        let most = compaction::largest_summary(window.room(), boundary.replaces(), asked_for);
        let error = match self.tell(&boundary, &mut own, focus, (budgets, most)).await {
            Ok(summarised) => {
                return self.finish(boundary, tokens_before, budgets, (summarised, own)).await;
            }
            Err(error) => error,
        };
        // Where the request cannot be sent as it is, anything is better than a session that is stuck.
        if cause == CompactionCause::TooLong && is_about_the_summary(&error) {
            let why = error.to_string();
            let summary = compaction::mechanical_summary(&boundary.summarised, &why);
            let summarised = Summarised { summary, usage: None, mechanical: Some(why) };
            return self.finish(boundary, tokens_before, budgets, (summarised, own)).await;
        }
        self.fail(tokens_before, error).await
    }

    /// The summary, for people, for other models, and for when the state is of no use any more. A model that has
    /// a state is asked for it from there, which costs little and shows that the state can be read; otherwise, and
    /// where that brings none, from the history itself.
    async fn tell(
        &mut self,
        boundary: &Boundary,
        own: &mut Own,
        focus: Option<&str>,
        budgets: (Budgets, u64),
    ) -> Result<Summarised, CompactError> {
        if let Some(state) = own.message() {
            match self.summarise(History::State(&state), focus, budgets).await {
                Err(CompactError::NoSummary(_)) => {}
                Err(CompactError::Model(error)) if is_about_the_state(&error) => {
                    own.drop_state(&error.message);
                    let reason = &error.message;
                    self.observer.event(Event::Compaction(CompactionEvent::Local { reason }));
                }
                other => return other,
            }
        }
        self.summarise(History::Told(&boundary.summarised), focus, budgets).await
    }

    async fn fail(
        &mut self,
        tokens_before: u64,
        error: CompactError,
    ) -> Result<Compacted, CompactError> {
        if matches!(error, CompactError::Store(_)) {
            return Err(error);
        }
        let reason = error.to_string();
        let stopped = matches!(error, CompactError::Stopped(_));
        let failed = Compaction {
            model: Some(self.env.model.clone()),
            // A stop says nothing about the next attempt.
            tokens_before: Some(tokens_before).filter(|_| !stopped),
            ..Compaction::marker(CompactionState::Failed, Some(fit::sentence(&reason)))
        };
        self.append(vec![Body::Compaction(Box::new(failed))], Level::Synced).await?;
        self.observer.event(Event::Compaction(CompactionEvent::Failed { reason: &reason }));
        Err(error)
    }

    async fn finish(
        &mut self,
        boundary: Boundary,
        tokens_before: u64,
        budgets: Budgets,
        (summarised, own): (Summarised, Own),
    ) -> Result<Compacted, CompactError> {
        let Summarised { summary, usage, mechanical } = summarised;
        let carried = self.carried(&boundary, &summary, budgets).await;
        let task = self.session.state().in_force.task.clone();
        let mut done = Compaction {
            summary: Some(self.stored(&summary).await?),
            first_kept: boundary.first_kept,
            kept: boundary.kept,
            tokens_before: Some(tokens_before),
            model: Some(self.env.model.clone()),
            usage,
            sentences: carried.sentences,
            sentences_left_out: carried.left_out,
            task: task.filter(|task| !task.is_empty()),
            ..Compaction::marker(CompactionState::Done, mechanical)
        };
        let below = compaction::beside_summary(&done).unwrap_or_default();
        let told = context::estimate_text(&summary) + context::estimate_text(&below);
        let stands = match own.tokens() {
            Some(state) => state + boundary.tail_tokens,
            None => told + boundary.kept_tokens,
        };
        let tokens_after = stands + self.fixed();
        done.tokens_after = Some(tokens_after);
        self.store_state(own, &mut done).await?;
        let state = done.native.is_some();
        self.append(vec![Body::Compaction(Box::new(done))], Level::Synced).await?;
        self.session.reload().await?;
        let told = CompactionEvent::Done { tokens_before, tokens_after };
        self.observer.event(Event::Compaction(told));
        Ok(Compacted { tokens_before, tokens_after, summary, state })
    }

    /// What of the person's words is carried over, although it is neither kept nor told.
    async fn carried(&mut self, boundary: &Boundary, summary: &str, budgets: Budgets) -> Carried {
        let mut dropped = Vec::new();
        for prompt in &boundary.dropped {
            let mut words = String::new();
            for text in prompt {
                words.push_str(&blobs::whole(self.session.log(), text).await);
                words.push('\n');
            }
            dropped.push(words);
        }
        let held = format!("{summary}\n{}", boundary.kept_text);
        let bytes = usize::try_from(budgets.sentences * 4).unwrap_or(usize::MAX);
        compaction::carry(&boundary.carried, &dropped, &held, bytes)
    }

    async fn stored(&mut self, summary: &str) -> Result<Text, RunError> {
        if summary.len() <= LARGE_VALUE_BYTES {
            return Ok(Text::Inline(summary.to_owned()));
        }
        let head = crate::blobs::head(summary).to_owned();
        loop {
            match self.session.log_mut().put_blob(summary.as_bytes(), &head).await {
                Ok(blob) => return Ok(Text::Blob(blob)),
                Err(error) => self.wait_for_room(error).await?,
            }
        }
    }
}

/// What a person is told when a context is still too long behind its summary.
pub(crate) fn still_too_long(mut error: ModelError) -> ModelError {
    if error.kind == ModelErrorKind::TooLong {
        error.message.push_str(
            "; what lies back is summarised already: leave out what is large in the rest, or choose a model \
             with a larger window",
        );
    }
    error
}

/// What a person is told when a run is ended because summaries lead nowhere.
const NOWHERE: &str = "the context was summarised again and again, with hardly a reply in between: the work does not \
    fit into this model's window; choose a model with a larger window, or run `segno compact` with instructions \
    on what matters";

/// Whether a compaction did all that it could.
fn made_or_nothing(attempt: &Result<Compacted, CompactError>) -> bool {
    matches!(attempt, Ok(_) | Err(CompactError::Nothing))
}

/// Whether another model or another try could make the summary, and it is not for want of a connection.
fn is_about_the_summary(error: &CompactError) -> bool {
    match error {
        CompactError::NoSummary(_) => true,
        CompactError::Model(error) => {
            matches!(error.kind, ModelErrorKind::TooLong | ModelErrorKind::Refused)
        }
        _ => false,
    }
}

/// Whether a model did not take its own state, and it is not for want of a connection or a key.
fn is_about_the_state(error: &ModelError) -> bool {
    use ModelErrorKind::{Refused, Thinking, TooLong};
    matches!(error.kind, Refused | Thinking | TooLong)
}

/// An attempt that nobody waits for: only what the store says keeps the run from going on.
fn ended(attempt: Result<Compacted, CompactError>) -> Result<(), RunError> {
    match attempt {
        Err(CompactError::Store(error)) => Err(error.into()),
        _ => Ok(()),
    }
}
