//! A session with tools and surroundings: what a user interface talks to.
//!
//! Responsible for: bringing the surroundings up to date before an input, running it, and compacting.
//! Must not: choose a store, a provider or how things look.

use crate::surroundings::{self, Due, Surroundings};
use segno_model::Record;
use segno_model::compaction::{Settings, Window};
use segno_model::record::{
    BlobRef, Body, CompactionState, Environment, Message, ModelRef, UserMessage,
};
use segno_model::store::{Clock, Owner, SessionLog, StoreError};
use segno_runtime::{
    CompactError, Compacted, Finished, InboxSource, Limits, Model, ModelError, Observer,
    RetryPolicy, RunEnv, RunError, Session, Sleep, Stop, Tools, compact, run, take_up,
};
use std::collections::BTreeMap;
use std::sync::Arc;

/// How much of the system prompt stays readable in its record, in characters.
const SYSTEM_HEAD_CHARS: usize = 200;

/// Failures of an agent.
#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    /// The log could not be written or read.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The model gave no answer (only outside of runs, where it is not a run's end).
    #[error(transparent)]
    Model(#[from] ModelError),
    /// The context could not be made smaller.
    #[error(transparent)]
    Compact(CompactError),
}

impl From<CompactError> for AgentError {
    fn from(error: CompactError) -> Self {
        match error {
            CompactError::Store(error) => Self::Store(error),
            CompactError::Model(error) => Self::Model(error),
            other => Self::Compact(other),
        }
    }
}

impl From<RunError> for AgentError {
    fn from(error: RunError) -> Self {
        match error {
            RunError::Store(error) => Self::Store(error),
        }
    }
}

/// What an agent needs from the world.
#[derive(Clone)]
pub struct World {
    /// The clock.
    pub clock: Arc<dyn Clock>,
    /// The timer.
    pub sleep: Sleep,
    /// Who we are.
    pub owner: Owner,
    /// When failed model calls are repeated.
    pub retry: RetryPolicy,
    /// What a run may use up, over all its attempts.
    pub limits: Limits,
}

/// A session at work.
pub struct Agent<L: SessionLog, T: Tools> {
    /// The session.
    pub session: Session<L>,
    /// The tools.
    pub tools: T,
    /// Where others' inputs are looked for while the model or a tool is waited for.
    pub inbox: Option<Arc<dyn InboxSource>>,
    /// When the context is made smaller; without a window in it, the model says its own.
    pub compaction: Settings,
    /// Windows by `PROVIDER/ID`, where the person knows better.
    pub windows: BTreeMap<String, Window>,
    /// Model calls that a run may make at most, retries included.
    pub max_requests: Option<u64>,
    /// Whether what is sent meanwhile goes into the run that is open even when its model has nothing more to do.
    pub takes_late: bool,
    surroundings: Surroundings,
    world: World,
}

impl<L: SessionLog, T: Tools> Agent<L, T> {
    /// An agent over a new or resumed session. Writes nothing.
    pub fn new(session: Session<L>, tools: T, surroundings: Surroundings, world: World) -> Self {
        let compaction = Settings::default();
        Self {
            session,
            tools,
            inbox: None,
            compaction,
            windows: BTreeMap::new(),
            max_requests: None,
            takes_late: false,
            surroundings,
            world,
        }
    }

    /// What the next input finds around it; call it when the surroundings may have changed.
    pub fn set_surroundings(&mut self, surroundings: Surroundings) {
        self.surroundings = surroundings;
    }

    /// Runs an input to its end. See [`segno_runtime::run`] for what is durable when.
    ///
    /// # Errors
    /// When the log could not be written.
    pub async fn prompt<M: Model>(
        &mut self,
        model: &M,
        name: &ModelRef,
        input: UserMessage,
        stop: &Stop,
        observer: &mut dyn Observer,
    ) -> Result<Finished, AgentError> {
        let system = self.system().await?;
        let env = self.env(name, &system, stop);
        Ok(run(&mut self.session, model, &self.tools, env, input, observer).await?)
    }

    /// Finds out what became of work that was interrupted; writes nothing. What there is to say about it is
    /// [`Session::pending_recovery`].
    ///
    /// # Errors
    /// When the log or a trace of it could not be read.
    pub async fn establish(&mut self) -> Result<(), AgentError> {
        Ok(self.session.establish(&self.tools, &self.world.owner).await?)
    }

    /// Goes on with work that was interrupted or suspended, to its end; nothing when there is none. See
    /// [`segno_runtime::take_up`].
    ///
    /// # Errors
    /// When the log could not be written.
    pub async fn take_up<M: Model>(
        &mut self,
        model: &M,
        name: &ModelRef,
        stop: &Stop,
        observer: &mut dyn Observer,
    ) -> Result<Option<Finished>, AgentError> {
        let system = self.system().await?;
        let env = self.env(name, &system, stop);
        Ok(take_up(&mut self.session, model, &self.tools, env, observer).await?)
    }

    fn env<'a>(&self, name: &ModelRef, system: &'a str, stop: &Stop) -> RunEnv<'a> {
        let window = self.windows.get(&name.to_string()).copied().or(self.compaction.window);
        RunEnv {
            model: name.clone(),
            system,
            thinking: self.session.thinking().map(str::to_owned),
            owner: self.world.owner.clone(),
            retry: self.world.retry,
            max_requests: self.max_requests,
            limits: self.world.limits.clone(),
            compaction: Settings { window, ..self.compaction },
            sleep: Arc::clone(&self.world.sleep),
            stop: stop.clone(),
            inbox: self.inbox.clone(),
            takes_late: self.takes_late,
        }
    }

    /// The system prompt that the next requests carry; notes what changed for the next batch.
    async fn system(&mut self) -> Result<String, AgentError> {
        let in_force = self.session.state().in_force.environment.clone();
        let begins = begins(&self.session.records());
        let specs = self.tools.specs();
        let due = surroundings::decide(&self.surroundings, &specs, in_force.as_ref(), begins);
        match (due, in_force) {
            (Due::Fresh(environment), _) => self.take_prompt(environment).await,
            (Due::Nothing, None) => Ok(self.surroundings.system.clone()),
            (Due::Nothing, Some(environment)) => self.keep_prompt(environment, None).await,
            (Due::Kept { environment, notice }, _) => self.keep_prompt(environment, notice).await,
        }
    }

    /// Today's prompt holds from here on.
    async fn take_prompt(&mut self, mut environment: Environment) -> Result<String, AgentError> {
        let text = self.surroundings.system.clone();
        let head: String = text.chars().take(SYSTEM_HEAD_CHARS).collect();
        let blob = self.session.log_mut().put_blob(text.as_bytes(), &head).await?;
        environment.system = Some(blob);
        self.session.note_environment(environment);
        Ok(text)
    }

    /// The stored prompt; today's when its blob is gone.
    async fn prompt_in_force(&self, blob: Option<BlobRef>) -> String {
        let stored = match blob {
            Some(blob) => self.session.log().blob(&blob).await.ok(),
            None => None,
        };
        let stored = stored.map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
        stored.unwrap_or_else(|| self.surroundings.system.clone())
    }

    /// The prompt goes on that the conversation began with. Where its blob is missing or damaged, today's takes
    /// its place, which is recorded and said, because a request must go on.
    async fn keep_prompt(
        &mut self,
        environment: Environment,
        notice: Option<String>,
    ) -> Result<String, AgentError> {
        let mut said: Vec<String> = notice.into_iter().collect();
        let stored = match &environment.system {
            Some(blob) => self.session.log().blob(blob).await.map_err(|_| blob.blob.clone()),
            None => Ok(self.surroundings.system.clone().into_bytes()),
        };
        let text = match stored {
            Ok(bytes) => {
                self.session.note_environment(environment);
                String::from_utf8_lossy(&bytes).into_owned()
            }
            Err(lost) => {
                let text = self.take_prompt(environment).await?;
                if lost != segno_model::sha256_hex(text.as_bytes()) {
                    let name = lost.get(..16).unwrap_or(&lost);
                    said.push(format!(
                        "The system prompt that this session had is missing or damaged (blob {name}). \
                         Today's holds from here on."
                    ));
                }
                text
            }
        };
        if !said.is_empty() {
            let message = Message::User(UserMessage::notice("instructions", said.join("\n\n")));
            self.session.queue(Body::Message(Box::new(message)));
        }
        Ok(text)
    }

    /// Replaces the history in the context by a summary; the user's own words stay while they fit.
    /// `focus` is what the person wants kept in mind. The log keeps everything.
    ///
    /// # Errors
    /// When there is nothing to compact, the model fails, or a stop came; the context is then as before
    /// and the attempt is recorded as failed.
    pub async fn compact<M: Model>(
        &mut self,
        model: &M,
        name: &ModelRef,
        focus: Option<&str>,
        stop: &Stop,
        observer: &mut dyn Observer,
    ) -> Result<Compacted, AgentError> {
        // What changed around it is told with the next input, and not before it is known that there is one.
        let in_force = self.session.state().in_force.environment.as_ref();
        let system = self.prompt_in_force(in_force.and_then(|e| e.system.clone())).await;
        let env = self.env(name, &system, stop);
        Ok(compact(&mut self.session, model, &self.tools, env, focus, observer).await?)
    }
}

/// Whether no reply has been made yet on the context as it is now: there is none at all, or the newest
/// compaction came after the last one.
fn begins(records: &[Record]) -> bool {
    let last = |wanted: fn(&Body) -> bool| {
        records.iter().filter(|r| wanted(r.body())).map(Record::seq).max()
    };
    let answer = last(|b| matches!(b, Body::Message(m) if matches!(**m, Message::Assistant(_))));
    let boundary = last(|b| matches!(b, Body::Compaction(c) if c.state == CompactionState::Done));
    answer.is_none() || boundary > answer
}
