//! Sending something to a session from outside, and the process that works an inbox off.
//!
//! Responsible for: ids of inputs, what an admission is called, waiting for the holder, and starting a
//! process when nobody has the session. Must not: act on inputs (the runtime does), or print.

pub mod questions;
pub mod stopping;
pub mod taking_over;

use crate::args::AgentArgs;
use crate::engine::{Engine, Wanted};
use crate::error::{CliError, ExitCode};
use crate::home::Home;
use crate::stores::Stores;
use rustix::process::{Pid, Signal, kill_process};
use segno_model::SessionId;
use segno_model::inbox::admission::Admission;
use segno_model::inbox::{Inbox, InputBody, NewInput, Pending, Stage, arrange, holder_key};
use segno_model::store::{Clock as _, Ids as _, Owner, SessionStore as _};
use segno_store::{SystemClock, UuidIds, is_running_here};
use std::io::{Read as _, Write as _};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// How often it is looked whether a holder has acted.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// How long a holder may take before it is said that it has not acted yet.
pub const HOLDER_PATIENCE: Duration = Duration::from_secs(20);

/// An id that nobody has used.
#[must_use]
pub fn new_id() -> String {
    UuidIds.session_id().to_string()
}

/// All of standard input, as text. Bytes that are none are refused: replaced, they would say something else.
///
/// # Errors
/// When it cannot be read, or is no UTF-8.
pub fn piped() -> Result<String, CliError> {
    let mut bytes = Vec::new();
    std::io::stdin().read_to_end(&mut bytes).map_err(|e| {
        CliError::failed("Standard input could not be read.")
            .because(e)
            .next("Nothing was sent. Give the text as an argument, or pipe it in again.")
    })?;
    utf8(bytes)
}

/// Bytes as text.
///
/// # Errors
/// When they are no UTF-8; says from which byte on.
pub fn utf8(bytes: Vec<u8>) -> Result<String, CliError> {
    String::from_utf8(bytes).map_err(|e| {
        let at = e.utf8_error().valid_up_to();
        CliError::usage("What came in is no text.")
            .because(format!("from byte {at} on it is not UTF-8"))
            .next("Nothing was sent. Convert it first: iconv -f LATIN1 -t UTF-8; or name a file with @.")
    })
}

/// Admits something. What the first admission under its id was is in the answer; a conflict is an error.
///
/// # Errors
/// A conflict, no such session, or a store that cannot be written.
pub async fn admit(
    stores: &Stores,
    id: &SessionId,
    input: &NewInput,
) -> Result<Admission, CliError> {
    match stores.files.admit(id, input, SystemClock.now()).await? {
        Admission::Conflict(stage) => Err(conflict(&input.id, stage)),
        admission => Ok(admission),
    }
}

fn conflict(input_id: &str, stage: Stage) -> CliError {
    CliError::new(ExitCode::Conflict, format!("Something else was sent as `{input_id}` before."))
        .because(format!("the first one stands: it {}", said_of(stage)))
        .next("Nothing was added. Send it under another --id, or without one.")
}

/// What became of an input, behind "it".
#[must_use]
pub fn said_of(stage: Stage) -> String {
    match stage {
        Stage::Pending => "waits".to_owned(),
        Stage::Parked { .. } => "waits for a person, because of a stop".to_owned(),
        Stage::Delivered { seq } => format!("was delivered (record {seq})"),
        Stage::Withdrawn { seq } => format!("was taken back (record {seq})"),
        Stage::Acted { seq } => format!("was carried out (record {seq})"),
        Stage::Dropped { seq } => format!("had nothing to act on (record {seq})"),
    }
}

/// What waits in a session's inbox, in the order of delivery, and which of that is parked.
///
/// # Errors
/// As the store.
pub async fn waiting(stores: &Stores, id: &SessionId) -> Result<(Inbox, Vec<String>), CliError> {
    let mut inbox = stores.files.pending(id).await?;
    let waiting = stores.files.read(id).await?.state.in_force.inputs;
    arrange(&mut inbox.pending, &waiting);
    Ok((inbox, waiting.parked))
}

/// Whether somebody asked this holder to suspend its work and let go.
///
/// # Errors
/// As the store.
pub async fn is_asked_to_let_go(
    stores: &Stores,
    id: &SessionId,
    owner: &Owner,
) -> Result<bool, CliError> {
    let key = holder_key(owner);
    let asks =
        |p: &Pending| matches!(&p.input.body, InputBody::Suspend { holder } if *holder == key);
    Ok(stores.files.pending(id).await?.pending.iter().any(asks))
}

/// Those that the model is to see.
pub fn words(pending: &[Pending]) -> impl Iterator<Item = &Pending> {
    pending.iter().filter(|pending| pending.input.body.words().is_some())
}

/// Whether an input has been acted upon: it waits no more.
///
/// # Errors
/// As the store.
pub async fn is_settled(stores: &Stores, id: &SessionId, input_id: &str) -> Result<bool, CliError> {
    let pending = stores.files.pending(id).await?.pending;
    Ok(pending.iter().all(|pending| pending.input.id != input_id))
}

/// How a control ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Control {
    /// A holder acted on it.
    Settled(Stage),
    /// This holder has not yet.
    Waits(Owner),
    /// Nobody has the session.
    Unattended,
}

/// Admits a control and waits for the holder to act on it, if there is one.
///
/// # Errors
/// As the store.
pub async fn control(
    stores: &Stores,
    id: &SessionId,
    body: InputBody,
) -> Result<Control, CliError> {
    let control = NewInput::new(new_id(), body);
    admit(stores, id, &control).await?;
    let mut looks = looks_in(HOLDER_PATIENCE);
    loop {
        looks = looks.saturating_sub(1);
        let holder = stores.files.holder(id)?;
        if is_settled(stores, id, &control.id).await? {
            return match admit(stores, id, &control).await? {
                Admission::Stands(stage) => Ok(Control::Settled(stage)),
                _ => Ok(Control::Unattended),
            };
        }
        match holder {
            None => return Ok(Control::Unattended),
            Some(holder) if looks == 0 => return Ok(Control::Waits(holder)),
            Some(_) => tokio::time::sleep(LOOK_EVERY).await,
        }
    }
}

/// Waits until `done` says so, or `limit` is over; says which.
///
/// # Errors
/// As `done`.
pub async fn until<F>(limit: Duration, mut done: F) -> Result<bool, CliError>
where
    F: AsyncFnMut() -> Result<bool, CliError>,
{
    for _ in 0..looks_in(limit) {
        if done().await? {
            return Ok(true);
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
    Ok(false)
}

/// How often can be looked in that time.
fn looks_in(limit: Duration) -> u128 {
    limit.as_millis() / LOOK_EVERY.as_millis()
}

/// Signals the holder of a session, if it still is that process.
///
/// # Errors
/// When the system does not let us.
fn signal(owner: &Owner, signal: Signal) -> Result<(), CliError> {
    let pid = i32::try_from(owner.pid).ok().and_then(Pid::from_raw);
    match pid.filter(|_| is_running_here(owner)) {
        Some(pid) => kill_process(pid, signal).map_err(|e| {
            CliError::failed("The process could not be signalled.").because(e).next(format!(
                "Ask whoever may: kill -{} {}",
                if signal == Signal::KILL { "KILL" } else { "TERM" },
                owner.pid
            ))
        }),
        None => Ok(()),
    }
}

/// Starts a process that works the inbox off, and says first what would keep it from that.
///
/// # Errors
/// When the session's model cannot be used, no process can be started, or it cannot open the session or
/// work where that works.
pub async fn start_worker(home: &Home, id: &SessionId, deliver: &[String]) -> Result<(), CliError> {
    let engine = Engine::load(home.clone()).await?;
    let stored = engine.stores.files.read(id).await?.state.in_force;
    let wanted = Wanted::decide(&AgentArgs::default(), Some(&stored), &engine.config)?;
    wanted.settle(&engine.credentials).await?.connect(&engine.credentials)?;
    let cannot = |e: std::io::Error| {
        CliError::failed("No process could be started.")
            .because(e)
            .next(format!("Try again, or work it off here: `segno inbox {id} --deliver`."))
    };
    let mut command = Command::new(std::env::current_exe().map_err(cannot)?);
    command.arg("--home").arg(&home.data).arg("work-off").arg(id.as_str());
    for input_id in deliver {
        command.arg(format!("--deliver={input_id}"));
    }
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    // It leaves our terminal's session by itself, and is nobody's child to wait for once it works.
    let worker = command.spawn().map_err(cannot)?;
    let heard = tokio::task::spawn_blocking(move || hear_of(worker)).await;
    heard.map_err(|e| cannot(e.into()))?.map_err(cannot)?.map_or(Ok(()), Err)
}

/// Waits until a worker is at its work, or has ended; gives what kept it from working.
fn hear_of(mut worker: Child) -> std::io::Result<Option<CliError>> {
    let mut sign = [0];
    if let Some(stdout) = &mut worker.stdout
        && stdout.read(&mut sign)? > 0
    {
        return Ok(None);
    }
    let ended = worker.wait_with_output()?;
    if ended.status.success() {
        return Ok(None);
    }
    let said = String::from_utf8_lossy(&ended.stderr);
    Ok(Some(CliError::from_json(said.trim()).unwrap_or_else(|| {
        CliError::failed("The process that was started for it ended too early.")
            .because(format!("{}: {}", ended.status, said.trim()))
            .next("Try again; `segno check SESSION` tells whether the session is sound.")
    })))
}

/// Tells whoever started this worker that it is at its work, or waits for the session's holder.
pub fn tell_starter() {
    // It may be gone, and need not know.
    let mut stdout = std::io::stdout();
    let _ = stdout.write_all(b"\n").and_then(|()| stdout.flush());
}
