//! The user's stop of what runs in a session, whoever runs it.
//!
//! Responsible for: naming the run that is open, sending the stop, waiting for its end, and finishing it when
//! nobody has the session. Must not: signal any process, or print.

use super::Control;
use crate::args::AgentArgs;
use crate::engine::Engine;
use crate::error::{CliError, ExitCode};
use crate::home::Home;
use crate::stores::Stores;
use segno_model::SessionId;
use segno_model::inbox::InputBody;
use segno_model::record::{AssistantMessage, ModelRef};
use segno_model::store::SessionStore as _;
use segno_runtime::{Model, ModelError, ModelErrorKind, ModelRequest, Stop, StreamEvent};
use segno_store::{SystemClock, this_process};
use std::time::Duration;

/// How long a stop may take to end the run before it is said that it has not yet.
const PATIENCE: Duration = Duration::from_secs(30);

/// Stops the run that is open and waits for its end; gives its number, or none when nothing runs.
///
/// # Errors
/// A session that cannot be written, or a holder that does not act; the stop is then kept.
pub async fn stop(stores: &Stores, id: &SessionId) -> Result<Option<u64>, CliError> {
    let Some(run) = open_run(stores, id).await? else { return Ok(None) };
    match super::control(stores, id, InputBody::Stop { run }).await? {
        Control::Waits(owner) => {
            return Err(CliError::new(ExitCode::Held, "The run has not stopped yet.")
                .because(format!(
                    "process {} on {} has the session and has not acted; the stop is kept",
                    owner.pid, owner.host
                ))
                .next(format!("Whoever takes the session next finds it: segno resume {id}")));
        }
        Control::Unattended => finish(&stores.home, id).await?,
        Control::Settled(_) => {}
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
    Ok(Some(run))
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
