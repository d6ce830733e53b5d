//! `segno fork`: a copy of a session, whole or up to a point.
//!
//! Responsible for: choosing the point and naming the copy. Must not: touch the original, which may be
//! held by another process.

use super::{Workplace, name};
use crate::args::ForkArgs;
use crate::error::{CliError, ExitCode};
use crate::terminal::{Screen, Text, Tone};
use segno_model::SessionId;
use segno_model::record::{FORMAT, Header, ProjectFacts};
use segno_model::store::{ForkPoint, Ids as _, SessionStore as _, Snapshot, StoreError};
use segno_store::UuidIds;

/// Forks a session.
///
/// # Errors
/// When it is not found, when the point is no message, or when nothing can be written.
pub async fn fork(
    args: &ForkArgs,
    place: &Workplace,
    screen: &mut Screen,
) -> Result<ExitCode, CliError> {
    let id = place.stores.find(&args.session, &place.cwd).await?;
    let wanted = args.name.as_deref().map(name::usable).transpose()?;
    let point = match (args.at, args.before) {
        (Some(seq), _) => ForkPoint::At(seq),
        (None, Some(seq)) => ForkPoint::Before(seq),
        (None, None) => ForkPoint::Whole,
    };
    let source = place.stores.files.read(&id).await?;
    let header = header(&source, place).await;
    let forked = place.stores.files.fork(&id, point, header, place.now()).await;
    let copy = forked.map_err(|error| refused(&id, error))?;
    let called = give_name(&copy, &source, wanted, place).await?;
    if args.json {
        screen.json(&serde_json::json!({
            "version": 1, "id": copy, "of": id, "name": called,
        }));
    } else {
        screen.line(Text::line(Tone::Plain, &format!("Forked {id}.")));
        screen.line(Text::line(
            Tone::Accent,
            &format!("{} resume {copy}", place.stores.home.command()),
        ));
    }
    Ok(ExitCode::Done)
}

/// The copy belongs to the project that the original belongs to.
async fn header(source: &Snapshot, place: &Workplace) -> Header {
    let known = source.state.in_force.project.as_ref().unwrap_or(&source.header.project);
    let project =
        if *known == ProjectFacts::default() { place.project().await } else { known.clone() };
    Header {
        format: FORMAT,
        id: UuidIds.session_id(),
        project,
        git: source.header.git.clone(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        origin: None,
        launch: None,
    }
}

/// A copied name would make the original's ambiguous, so the copy gets one of its own.
async fn give_name(
    copy: &SessionId,
    source: &Snapshot,
    wanted: Option<&str>,
    place: &Workplace,
) -> Result<Option<String>, CliError> {
    let inherited = source.state.in_force.name.as_ref().map(|name| format!("{name} (fork)"));
    let Some(called) = wanted.map(str::to_owned).or(inherited) else { return Ok(None) };
    let named = match place.stores.open(copy).await {
        Ok(mut opened) => name::append(&mut opened.log, &called, place).await,
        Err(error) => Err(error),
    };
    match named {
        Ok(()) => Ok(Some(called)),
        Err(error) => Err(CliError {
            sentence: format!("The copy {copy} was made, but could not be named."),
            cause: Some(error.sentence),
            ..error
        }),
    }
}

fn refused(id: &SessionId, error: StoreError) -> CliError {
    match error {
        StoreError::Refused(reason) => CliError::usage("The copy cannot end there.")
            .because(reason)
            .next(format!("`segno show {id} --tree` shows the numbers of the messages.")),
        other => other.into(),
    }
}
