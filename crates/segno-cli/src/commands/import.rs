//! `segno import`: sessions out of a file that `segno export --format segno` wrote.
//!
//! Responsible for: refusing a damaged file with what could be taken of it, and saying under which ids the sessions
//! came in. Must not: decide about ids (`segno_store` does), or overwrite anything.

use super::Workplace;
use crate::args::{ImportArgs, quoted};
use crate::error::{CliError, ExitCode, capitalised};
use crate::terminal::table::plural;
use crate::terminal::{Screen, Text, Tone};
use segno_store::{Broken, BundleError, Inventory, Taken, Unpacked, Whole};
use serde_json::json;
use std::fs::File;

/// Brings them in.
///
/// # Errors
/// When the file cannot be read or is none, is damaged and that was not asked for, or nothing can be written.
#[expect(clippy::unused_async, reason = "other stores will be asked over a network")]
pub async fn import(
    args: &ImportArgs,
    place: &Workplace,
    screen: &mut Screen,
) -> Result<ExitCode, CliError> {
    let shown = args.file.display().to_string();
    let mut file = File::open(place.cwd.join(&args.file)).map_err(|e| {
        CliError::new(ExitCode::NotFound, format!("{shown} cannot be read."))
            .because(e)
            .next("Name a file that `segno export SESSION --format segno -o FILE` wrote.")
    })?;
    let files = &place.stores.files;
    let inventory = files.inspect(&mut file).map_err(|e| not_taken(&shown, e))?;
    if let Some(broken) = inventory.broken.as_ref().filter(|_| !args.partial) {
        return Err(refused(&shown, broken, &inventory));
    }
    let unpacked = files.unpack(&mut file, &inventory, place.now());
    let unpacked = unpacked.map_err(|e| not_taken(&shown, e))?;
    if args.json {
        screen.json(&as_json(&unpacked, inventory.broken.as_ref()));
    } else {
        for (line, tone) in told(&unpacked, &inventory) {
            screen.line(Text::line(tone, &line));
        }
        if let Some(own) = unpacked.sessions.first() {
            let command = format!("{} resume {}", place.stores.home.command(), own.id);
            screen.line(Text::line(Tone::Accent, &command));
        }
    }
    Ok(ExitCode::Done)
}

/// What of a damaged file is whole.
fn whole_of(inventory: &Inventory) -> String {
    let mut logs: Vec<String> = Vec::new();
    for (id, whole, bytes) in inventory.sessions() {
        logs.push(match whole {
            Whole::Yes => id.to_string(),
            Whole::Cut => format!("the first {bytes} bytes of {id}"),
            Whole::Altered => format!("{id} with what was changed in it"),
        });
    }
    if logs.is_empty() {
        return "nothing".to_owned();
    }
    format!("{}, {}", logs.join(", "), plural(inventory.blobs(), "large value"))
}

fn refused(shown: &str, broken: &Broken, inventory: &Inventory) -> CliError {
    let taken = whole_of(inventory);
    let next = match taken.as_str() {
        "nothing" => "Export the session again.".to_owned(),
        _ => format!("`segno import {} --partial` takes what is there.", quoted(shown)),
    };
    CliError::new(ExitCode::Damaged, format!("{shown} is damaged at byte {}.", broken.offset))
        .because(format!("{}; could be taken: {taken}. Nothing was changed", broken.reason))
        .next(next)
}

fn not_taken(shown: &str, error: BundleError) -> CliError {
    match error {
        BundleError::Store(error) => error.into(),
        BundleError::NotOne { offset, reason } => {
            CliError::failed(format!("{shown} holds no sessions of Segno (byte {offset})."))
                .because(reason)
                .next("Another agent's session is shown by `segno show FILE`, and gone on with by `segno resume FILE --here`.")
        }
        BundleError::Newer(_) => CliError::failed(format!("{shown} is of a later version."))
            .because(error)
            .next("Import it with the version of Segno that wrote it, or a later one."),
        BundleError::File(_) => CliError::failed(format!("{shown} could not be read."))
            .because(capitalised(&error.to_string()))
            .next("Copy the file again, then import it again."),
    }
}

fn told(unpacked: &Unpacked, inventory: &Inventory) -> Vec<(String, Tone)> {
    let mut lines = Vec::new();
    for (n, Taken { of, id, known }) in unpacked.sessions.iter().enumerate() {
        let what = if n == 0 { "Session" } else { "Subagent" };
        lines.push((
            match (known, of == id) {
                (true, true) => format!("{what} {id} is here already."),
                (true, false) => format!("{what} {of} is here already, as {id}."),
                (false, true) => format!("{what} {id} came in."),
                (false, false) => {
                    format!("{what} {of} came in as {id}: another one has its id here.")
                }
            },
            Tone::Plain,
        ));
    }
    if unpacked.blobs > 0 {
        lines.push((format!("{} came in.", plural(unpacked.blobs, "large value")), Tone::Plain));
    }
    if let Some(Broken { offset, reason }) = &inventory.broken {
        let text =
            format!("The file is damaged at byte {offset}: {reason}; what is there was taken.");
        lines.push((text, Tone::Warning));
    }
    lines
}

fn as_json(unpacked: &Unpacked, broken: Option<&Broken>) -> serde_json::Value {
    let session = |taken: &Taken| json!({"id": taken.id, "of": taken.of, "known": taken.known});
    let sessions: Vec<_> = unpacked.sessions.iter().map(session).collect();
    json!({
        "version": 1,
        "id": unpacked.sessions.first().map(|own| &own.id),
        "sessions": sessions,
        "blobs": unpacked.blobs,
        "damage": broken.map(|b| json!({"offset": b.offset, "reason": b.reason})),
    })
}
