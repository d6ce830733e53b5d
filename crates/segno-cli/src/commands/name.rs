//! `segno name`: a session's name.
//!
//! Responsible for: appending it, and saying when it will not be unique. Must not: change when the
//! session was last active.

use super::Workplace;
use crate::args::NameArgs;
use crate::error::{CliError, ExitCode};
use crate::stores::Log;
use crate::terminal::{Screen, Text, Tone};
use segno_model::Body;
use segno_model::batch::Draft;
use segno_model::record::Name;
use segno_model::store::{Level, SessionLog as _};

/// Names a session.
///
/// # Errors
/// When it is not found, or cannot be written.
pub async fn name(
    args: &NameArgs,
    place: &Workplace,
    screen: &mut Screen,
) -> Result<ExitCode, CliError> {
    let id = place.stores.find(&args.session, &place.cwd).await?;
    let wanted = usable(&args.name)?;
    let entries = place.stores.entries(place.now()).await?;
    let mut log = place.stores.open(&id).await?.log;
    append(&mut log, wanted, place).await?;
    if wanted.is_empty() {
        screen.line(Text::line(Tone::Plain, &format!("{id} has no name now.")));
        return Ok(ExitCode::Done);
    }
    screen.line(Text::line(Tone::Plain, &format!("{id} is now called {wanted}.")));
    let others = entries.iter().filter(|e| e.id != id && e.name.as_deref() == Some(wanted));
    if others.count() > 0 {
        let note = "Another session has this name, too; use ids to tell them apart.";
        screen.line(Text::line(Tone::Warning, note));
    }
    Ok(ExitCode::Done)
}

/// A name that can be asked for again.
pub(super) fn usable(name: &str) -> Result<&str, CliError> {
    let name = name.trim();
    if name == "last" || name.contains('/') {
        return Err(CliError::usage(format!("`{name}` cannot be a name."))
            .because("`last` is always the newest session, and a text with a slash is a path")
            .next("Choose another name."));
    }
    Ok(name)
}

/// Appends a name to a session.
pub(super) async fn append(log: &mut Log, name: &str, place: &Workplace) -> Result<(), CliError> {
    let body = Body::Name(Name { name: name.to_owned() });
    log.append(vec![Draft::new(place.now(), body)], Level::Synced).await?;
    Ok(())
}
