//! `segno export --format segno`: the whole tree in one file, byte for byte.
//!
//! Responsible for: which sessions can be written so, and saying what is not in it. Must not: mask anything.

use super::subject::Broken;
use crate::args::ExportArgs;
use crate::commands::{Workplace, children};
use crate::error::{CliError, ExitCode};
use crate::others::Target;
use crate::terminal::table::plural;
use segno_store::BundleError;
use std::io::Write;

/// Refuses what this format cannot do, before a file is made.
pub(super) fn check(args: &ExportArgs, target: &Target) -> Result<(), CliError> {
    let Target::Own(id) = target else {
        return Err(CliError::failed("This format holds sessions of Segno only.")
            .because("another agent's has no log of ours")
            .next("Go on with it here first (`segno resume SESSION --here`), then export that."));
    };
    let again = format!("`segno export {id} --format segno -o FILE`");
    if args.redact {
        return Err(CliError::usage("This format masks nothing.")
            .because("it holds the whole tree, byte for byte")
            .next(format!("Choose another format for others, or leave --redact out: {again}")));
    }
    if args.output.is_none() {
        return Err(CliError::usage("This format goes into a file.")
            .because("it holds the whole tree, byte for byte")
            .next(again));
    }
    Ok(())
}

/// Writes it; gives the notes about it.
pub(super) async fn write(
    target: &Target,
    place: &Workplace,
    out: &mut (dyn Write + Send),
) -> Result<Vec<String>, Broken> {
    let Target::Own(id) = target else { return Ok(Vec::new()) };
    let packed = place.stores.files.pack(id, out).map_err(|error| match error {
        BundleError::Store(error) => Broken::Read(error.into()),
        BundleError::File(error) => Broken::Write(error),
        other => Broken::Read(
            CliError::new(ExitCode::Failed, "The session could not be written out.")
                .because(other)
                .next("`segno check` says whether it is damaged."),
        ),
    })?;
    let mut notes = vec![format!(
        "{} and {}, byte for byte and nothing masked: keep the file as private as they are",
        plural(packed.sessions, "session"),
        plural(packed.blobs, "large value"),
    )];
    notes.extend(packed.left_out.iter().map(|what| format!("not in it: {what}")));
    let elsewhere = children::elsewhere(place, id).await.map_err(Broken::Read)?;
    notes.extend(elsewhere.iter().map(|child| {
        format!("not in it: subagent {child}, which is not below this session; `segno children {id}` tells more")
    }));
    Ok(notes)
}
