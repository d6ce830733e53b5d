//! Taking a session over from the process that has it.
//!
//! Responsible for: asking the holder to suspend, waiting for the lock, and going further only when a person
//! says so, step by step. Must not: signal a process that is not certainly the holder, or kill silently.

use crate::error::{CliError, ExitCode};
use crate::stores::Stores;
use crate::terminal::confirm::confirm;
use rustix::process::Signal;
use segno_model::SessionId;
use segno_model::inbox::{InputBody, NewInput, holder_key};
use segno_model::store::Owner;
use segno_store::is_running_here;
use std::io::IsTerminal as _;
use std::time::Duration;

/// How long the holder may take for each step.
const PATIENCE: Duration = Duration::from_secs(5);

/// Waits until the session is free, asking its holder to let go.
///
/// # Errors
/// A holder that does not let go, and nobody who says what then.
pub async fn take_over(stores: &Stores, id: &SessionId) -> Result<(), CliError> {
    let Some(owner) = stores.files.holder(id)? else { return Ok(()) };
    let body = InputBody::Suspend { holder: holder_key(&owner) };
    super::admit(stores, id, &NewInput::new(super::new_id(), body)).await?;
    if is_free(stores, id, &owner).await? {
        return Ok(());
    }
    for (signal, question) in [
        (Signal::TERM, "has not let go of the session. End it (SIGTERM)?"),
        (
            Signal::KILL,
            "is still there. Kill it (SIGKILL)? What it is doing is found out afterwards.",
        ),
    ] {
        let about = format!("Process {} on {} {question}", owner.pid, owner.host);
        if !is_running_here(&owner) || !std::io::stdin().is_terminal() || !confirm(&about, "a yes")?
        {
            return Err(still_held(id, &owner));
        }
        super::signal(&owner, signal)?;
        if is_free(stores, id, &owner).await? {
            return Ok(());
        }
    }
    Err(still_held(id, &owner))
}

/// Waits until this owner has the session no more.
async fn is_free(stores: &Stores, id: &SessionId, owner: &Owner) -> Result<bool, CliError> {
    super::until(PATIENCE, async || {
        let holder = stores.files.holder(id)?;
        Ok(holder.is_none_or(|holder| holder_key(&holder) != holder_key(owner)))
    })
    .await
}

fn still_held(id: &SessionId, owner: &Owner) -> CliError {
    CliError::new(ExitCode::Held, "The holder of the session has not let go of it.")
        .because(format!(
            "process {} on {} was asked, and still has it; the request is kept",
            owner.pid, owner.host
        ))
        .next(format!(
            "It lets go as soon as it acts; then `segno resume {id}` goes on. In a terminal, \
             `segno resume {id} --take-over` offers to end it; `segno fork {id}` goes on in a copy."
        ))
}
