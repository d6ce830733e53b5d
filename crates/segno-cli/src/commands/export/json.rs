//! A session as JSON: one document, or its records, one per line.
//!
//! Responsible for: both, whoever's session it is. Must not: change a byte but where something is masked.

use super::subject::Broken;
use crate::commands::show;
use crate::error::CliError;
use crate::history::{History, as_json};
use crate::others::Other;
use crate::secrets::Masker;
use crate::terminal::screen::escape_json;
use segno_model::{Record, context, line};
use std::io::{self, Write};
use std::ops::ControlFlow;

/// One of ours as one document.
pub(super) fn document(
    history: &History,
    masker: &mut Masker,
    out: &mut dyn Write,
) -> io::Result<()> {
    let records: Vec<_> = history.records.iter().filter_map(as_json).collect();
    let context = context::build(&history.records, history.state.tip());
    let document = serde_json::json!({
        "version": 1,
        "id": history.id,
        "name": history.state.in_force.name,
        "header": history.header(),
        "tip": history.tip(),
        "records": records,
        "context": show::resolved(&context),
        "findings": history.findings,
    });
    writeln!(out, "{}", escape_json(&masker.json(&document.to_string())))
}

/// One of another agent as `segno show --json` gives it.
pub(super) fn other(
    session: &Other,
    masker: &mut Masker,
    out: &mut dyn Write,
) -> Result<(), Broken> {
    let mut done = Ok(());
    show::other_document(session, None, &mut |part| {
        done = writeln!(out, "{}", escape_json(&masker.json(part)));
        if done.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    })
    .map_err(Broken::Read)?;
    Ok(done?)
}

/// The lines of one of ours.
pub(super) fn lines(history: &History, masker: &mut Masker, out: &mut dyn Write) -> io::Result<()> {
    history.records.iter().try_for_each(|record| {
        out.write_all(&masked_line(record, masker))?;
        out.write_all(b"\n")
    })
}

/// A line with its secrets masked and a checksum of its own again; as it is when it has none.
fn masked_line(record: &Record, masker: &mut Masker) -> Vec<u8> {
    let Some((covered, _)) = line::split_crc(&record.line) else {
        return record.line.to_vec();
    };
    let before = masker.masked();
    let text = String::from_utf8_lossy(covered);
    let masked = masker.json(&text).into_owned();
    if masker.masked() == before {
        return record.line.to_vec();
    }
    let crc = line::checksum(masked.as_bytes());
    format!("{masked},\"crc\":\"{crc:08x}\"}}").into_bytes()
}

/// What somebody is told who wants lines of a session that is not ours.
pub(super) fn no_lines(session: &Other) -> CliError {
    CliError::usage("Only our own sessions are exported as lines of a log.")
        .because(format!("{} is one of {}", session.word(), session.row.agent))
        .next(format!(
            "`segno export {} --format json` writes its records as JSON.",
            session.word()
        ))
}
