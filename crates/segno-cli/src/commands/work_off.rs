//! `segno work-off`: the process that `send` starts when nobody has a session.
//!
//! Responsible for: taking the session, running what may be delivered, one after the other, and letting
//! go. Must not: ask anybody anything, or deliver what waits for a person.
//!
//! Whoever finds the session held after admitting an input counts on the holder. So after letting go, the
//! inbox is looked at once more: what came in between the last look and that is taken up again.

use crate::args::{AgentArgs, WorkOffArgs};
use crate::engine::{Engine, Signals, Wanted, no_signals};
use crate::error::{CliError, ExitCode};
use crate::home::Home;
use crate::inputs;
use crate::stores::Log;
use segno_agent::Agent;
use segno_agent::tool::Toolbox;
use segno_model::SessionId;
use segno_model::inbox::{InputBody, NewInput};
use segno_model::record::RunEnd;
use segno_model::store::SessionStore as _;
use segno_runtime::{Session, StopKind, Tools as _};
use segno_store::{SystemClock, this_process};
use std::collections::BTreeSet;
use std::time::Duration;

/// How long it waits for a holder to take over what this process was started for.
const PATIENCE: Duration = Duration::from_secs(600);

/// Works it off.
///
/// # Errors
/// When the session cannot be opened, has no usable model, or cannot be written.
pub async fn work_off(args: &WorkOffArgs, home: Home) -> Result<ExitCode, CliError> {
    // A closed terminal of the sender's is none of ours. It fails only if that is so already.
    let _ = rustix::process::setsid();
    let id = SessionId::parse(&args.session).map_err(|e| {
        CliError::usage(e.to_string()).next("Give the whole id: `segno list --all` shows them.")
    })?;
    let signals = Signals::listen_without_reader().map_err(|e| no_signals(&e))?;
    let mut deliver = args.deliver.clone();
    loop {
        let mut engine = Engine::load(home.clone()).await?;
        engine.review(&id, false, None).await?;
        let Some(session) = take(&engine, &id, &deliver).await? else { return Ok(ExitCode::Done) };
        engine.enter(&session).await?;
        inputs::tell_starter();
        let seen = sitting(&engine, session, &deliver, &signals).await?;
        let Some(seen) = seen.filter(|_| !signals.is_leaving()) else { return Ok(ExitCode::Done) };
        let inbox = engine.stores.files.pending(&id).await?;
        deliver = inputs::words(&inbox.pending)
            .map(|pending| pending.input.id.clone())
            .filter(|input_id| !seen.contains(input_id))
            .collect();
        if deliver.is_empty() {
            return Ok(ExitCode::Done);
        }
    }
}

/// The session; none when its holder takes over what was asked for.
async fn take(
    engine: &Engine,
    id: &SessionId,
    deliver: &[String],
) -> Result<Option<Session<Log>>, CliError> {
    let mut taken = None;
    let settled = inputs::until(PATIENCE, async || {
        match engine.open_sound(id).await {
            Ok(session) => taken = Some(session),
            Err(error) if error.exit != ExitCode::Held => return Err(error),
            Err(_) => {
                inputs::tell_starter();
                return asked_holder(engine, id, deliver).await;
            }
        }
        Ok(true)
    });
    if settled.await? {
        return Ok(taken);
    }
    Err(CliError::new(ExitCode::Held, "The holder of the session does not act.")
        .because("what was sent is kept")
        .next(format!(
            "`segno inbox {id}` shows it; `segno resume {id} --take-over` asks for the session."
        )))
}

/// Tells the holder that a person asked for these inputs; says whether it knows about all of them.
async fn asked_holder(
    engine: &Engine,
    id: &SessionId,
    deliver: &[String],
) -> Result<bool, CliError> {
    let mut all = true;
    for input_id in deliver {
        let control_id = format!("deliver {input_id}");
        let body = InputBody::Deliver { input_id: input_id.clone() };
        let short = control_id.len() <= segno_model::inbox::MAX_ID_BYTES;
        let control_id =
            if short { control_id } else { segno_model::sha256_hex(control_id.as_bytes()) };
        inputs::admit(&engine.stores, id, &NewInput::new(control_id.clone(), body)).await?;
        all &= inputs::is_settled(&engine.stores, id, &control_id).await?;
    }
    Ok(all)
}

/// Runs what may be delivered, and lets go of the session. Gives the ids of all inputs that were seen;
/// none when no more is to be run.
async fn sitting(
    engine: &Engine,
    session: Session<Log>,
    deliver: &[String],
    signals: &Signals,
) -> Result<Option<BTreeSet<String>>, CliError> {
    let stored = session.state().in_force.clone();
    let wanted = Wanted::decide(&AgentArgs::default(), Some(&stored), &engine.config)?;
    let choice = wanted.settle(&engine.credentials).await?;
    let model = choice.connect(&engine.credentials)?;
    let mut agent: Agent<Log, Toolbox> =
        engine.agent(session, engine.mode(&AgentArgs::default())?, None);
    for input_id in deliver {
        agent.session.ask_for(input_id);
    }
    let me = this_process(&SystemClock);
    let mut seen = BTreeSet::new();
    loop {
        let attended = agent.session.attend(&me).await?;
        seen.extend(attended.waiting.iter().map(|waiting| waiting.id().to_owned()));
        let Some(input) = attended.next().filter(|_| !attended.let_go) else { break };
        let stop = signals.begin_turn();
        let finished = agent.prompt(&model, &choice.model, input, &stop, &mut ()).await;
        signals.end_turn();
        agent.tools.halt(StopKind::Shutdown).await;
        // What waits behind a run that did not end well is not tried one after the other.
        if finished?.end != RunEnd::Completed || signals.is_leaving() {
            return Ok(None);
        }
    }
    Ok(Some(seen))
}
