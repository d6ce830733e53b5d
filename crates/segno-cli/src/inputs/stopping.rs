//! The user's stop of what runs in a session, whoever runs it.
//!
//! Responsible for: naming the run that is open, sending the stop, waiting for its end, and finishing it when
//! nobody has the session; a signal to the holder where the stop cannot be written. Must not: signal a
//! process that is not certainly the holder, or print.

use super::{Control, signal};
use crate::args::AgentArgs;
use crate::engine::Engine;
use crate::error::{CliError, ExitCode};
use crate::home::Home;
use crate::stores::Stores;
use crate::terminal::{Text, Tone};
use rustix::process::Signal;
use segno_model::SessionId;
use segno_model::inbox::{InputBody, holder_key};
use segno_model::record::{AssistantMessage, ModelRef};
use segno_model::store::{Owner, SessionStore as _};
use segno_runtime::{Model, ModelError, ModelErrorKind, ModelRequest, Stop, StreamEvent};
use segno_store::{SystemClock, is_running_here, this_process};
use std::time::Duration;

/// How long a stop may take to end the run before it is said that it has not yet.
const PATIENCE: Duration = Duration::from_secs(30);

/// After so long a run that was told by a signal has ended, if it ever does where nothing can be written.
const SIGNAL_PATIENCE: Duration = Duration::from_secs(10);

/// A run that was stopped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stopped {
    /// Its number.
    pub run: u64,
    /// The stop could not be written down.
    pub unwritten: Option<Unwritten>,
}

/// A stop that could not be written down, and was given by a signal instead.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unwritten {
    /// Why not.
    pub why: String,
    /// Who was told.
    pub pid: u32,
    /// Whether the log says by now that the run has ended.
    pub recorded: bool,
}

/// Stops the run that is open and waits for its end; none when nothing runs.
///
/// # Errors
/// A session that cannot be written, or a holder that does not act; the stop is then kept, or it is said
/// that it is not.
pub async fn stop(stores: &Stores, id: &SessionId) -> Result<Option<Stopped>, CliError> {
    let Some(run) = open_run(stores, id).await? else { return Ok(None) };
    match super::control(stores, id, InputBody::Stop { run }).await {
        Err(error) if matches!(error.exit, ExitCode::Unwritable | ExitCode::Failed) => {
            return by_signal(stores, id, run, error).await.map(Some);
        }
        Err(error) => return Err(error),
        Ok(Control::Waits(owner)) => {
            return Err(CliError::new(ExitCode::Held, "The run has not stopped yet.")
                .because(format!(
                    "process {} on {} has the session and has not acted; the stop is kept",
                    owner.pid, owner.host
                ))
                .next(format!("Whoever takes the session next finds it: segno resume {id}")));
        }
        Ok(Control::Unattended) => finish(&stores.home, id).await?,
        Ok(Control::Settled(_)) => {}
    }
    let over = super::until(PATIENCE, async || {
        if open_run(stores, id).await? != Some(run) {
            return Ok(true);
        }
        // A holder that died on the way leaves the rest to us.
        if stores.files.holder(id)?.is_none() {
            finish(&stores.home, id).await?;
        }
        Ok(false)
    });
    if !over.await? {
        return Err(CliError::new(ExitCode::Held, "The run is stopping, and has not ended yet.")
            .because("the stop is recorded; what still runs is being ended")
            .next(format!(
                "`segno show {id}` tells whether it has; `segno status` lists what still runs."
            )));
    }
    Ok(Some(Stopped { run, unwritten: None }))
}

/// The stop has no place on disk: whoever drives the run is told as by Ctrl-C, which needs none. Only a
/// process that certainly is the holder, and that works on nothing else, is signalled.
async fn by_signal(
    stores: &Stores,
    id: &SessionId,
    run: u64,
    error: CliError,
) -> Result<Stopped, CliError> {
    let why = match &error.cause {
        Some(cause) => format!("{} ({cause})", error.sentence),
        None => error.sentence.clone(),
    };
    let Some(owner) = stores.files.holder(id)? else { return Err(nobody(id, &why)) };
    let others = held_by(stores, &owner).await?;
    if !is_running_here(&owner) || others > 1 {
        return Err(out_of_reach(id, &owner, others, &why));
    }
    // What it drives now is what is to be stopped.
    if open_run(stores, id).await? == Some(run) {
        signal(&owner, Signal::INT)?;
    }
    let key = holder_key(&owner);
    let ended = async || Ok::<_, CliError>(open_run(stores, id).await? != Some(run));
    super::until(SIGNAL_PATIENCE, async || {
        let holder = stores.files.holder(id)?;
        Ok(ended().await? || holder.is_none_or(|holder| holder_key(&holder) != key))
    })
    .await?;
    let recorded = ended().await?;
    Ok(Stopped { run, unwritten: Some(Unwritten { why, pid: owner.pid, recorded }) })
}

/// What a person is told of a stop that could not be written down.
#[must_use]
pub fn lines(id: &SessionId, run: u64, unwritten: &Unwritten) -> Vec<Text> {
    let Unwritten { why, pid, recorded } = unwritten;
    let told =
        format!("The stop could not be written: {why} Process {pid} was told by a signal instead.");
    let (tone, what) = if *recorded {
        (Tone::Plain, format!("Run {run} is stopped, and that is recorded."))
    } else {
        let what = format!(
            "Run {run} starts nothing more. Its stop is recorded as soon as there is room; free some \
             space, and `segno stop {id}` makes sure of it before anybody resumes the session."
        );
        (Tone::Warning, what)
    };
    vec![Text::line(Tone::Warning, &told), Text::line(tone, &what)]
}

/// How many sessions a process holds.
async fn held_by(stores: &Stores, owner: &Owner) -> Result<usize, CliError> {
    let key = holder_key(owner);
    let held = stores.files.list().await?.into_iter().filter(|listed| listed.held);
    let holders = held.filter_map(|listed| stores.files.holder(&listed.id).ok().flatten());
    Ok(holders.filter(|holder| holder_key(holder) == key).count())
}

fn nobody(id: &SessionId, why: &str) -> CliError {
    CliError::new(ExitCode::Unwritable, "The stop could not be recorded.")
        .because(format!(
            "{why}. Nobody drives the run now, so nothing of it goes on by itself here"
        ))
        .next(format!(
            "Free some space, then `segno stop {id}` again, before anybody resumes the session: \
             until then its policy says what becomes of it."
        ))
}

fn out_of_reach(id: &SessionId, owner: &Owner, others: usize, why: &str) -> CliError {
    let reason = if others > 1 {
        format!(
            "process {} works on {others} sessions, and a signal would stop them all",
            owner.pid
        )
    } else {
        format!("process {} on {} cannot be signalled from here", owner.pid, owner.host)
    };
    CliError::new(ExitCode::Unwritable, "The stop could not be recorded, and the run goes on.")
        .because(format!("{why}; {reason}"))
        .next(format!(
            "Free some space, then `segno stop {id}` again; or press Ctrl-C where it runs. \
             `kill -INT {}` on {} stops everything that it works on.",
            owner.pid, owner.host
        ))
}

async fn open_run(stores: &Stores, id: &SessionId) -> Result<Option<u64>, CliError> {
    let now = stores.files.read(id).await?.state.in_force;
    Ok(now.open_run.map(|open| open.run))
}

/// Records and finishes a stop of a run that nobody drives.
async fn finish(home: &Home, id: &SessionId) -> Result<(), CliError> {
    let engine = Engine::load(home.clone()).await?;
    let mut session = match engine.open_sound(id).await {
        Ok(session) => session,
        // Somebody was faster, and finds the stop.
        Err(error) if error.exit == ExitCode::Held => return Ok(()),
        Err(error) => return Err(error),
    };
    session.attend(&this_process(&SystemClock)).await?;
    if session.state().in_force.open_run.as_ref().is_some_and(|open| open.stopping) {
        let mut agent = engine.agent(session, engine.mode(&AgentArgs::default())?, None);
        agent.take_up(&Nobody, &ModelRef::default(), &Stop::never(), &mut ()).await?;
    }
    Ok(())
}

/// A stop is finished without a model.
struct Nobody;

impl Model for Nobody {
    async fn reply(
        &self,
        _: ModelRequest<'_>,
        _: &mut (dyn FnMut(StreamEvent) + Send),
    ) -> Result<AssistantMessage, ModelError> {
        let message = "a stopped run asks no model".to_owned();
        Err(ModelError::new(ModelErrorKind::Refused, message))
    }
}
