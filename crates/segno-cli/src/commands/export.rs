//! `segno export`: a session for others, as markdown, JSON or lines.
//!
//! Responsible for: the three formats, masking, and writing a file that was not there. Must not: change
//! the session, overwrite anything, or let a secret out unasked.

mod markdown;

use super::{Workplace, show};
use crate::args::{ExportArgs, ExportFormat, quoted};
use crate::error::{CliError, ExitCode};
use crate::history::{History, as_json};
use crate::secrets;
use crate::terminal::table::plural;
use crate::terminal::{Screen, Text, Tone};
use segno_model::{Record, context, line};
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

/// Exports a session.
///
/// # Errors
/// When it is not found or cannot be read, or the file exists or cannot be written.
pub async fn export(
    args: &ExportArgs,
    place: &Workplace,
    screen: &mut Screen,
) -> Result<ExitCode, CliError> {
    let id = place.stores.find(&args.session, &place.cwd).await?;
    let history = History::read(&place.stores, &id).await?;
    let (bytes, masked) = render(&history, args.format, !args.keep_secrets);
    match &args.output {
        Some(path) => write_new(&place.cwd.join(path), &bytes)?,
        None => screen.exact(&bytes),
    }
    let children = place.stores.files.children_now(&id)?;
    let without = (!children.is_empty()).then(|| {
        format!("its {} not in it; `segno children {id}` lists them", plural_are(children.len()))
    });
    for note in notes(&history, masked).into_iter().chain(without) {
        let mut stderr = Screen::stderr();
        stderr.line(Text::line(Tone::Dim, &format!("note: {note}")));
        // A note that nobody can read changes nothing about the export.
        let _ = stderr.finish();
    }
    Ok(ExitCode::Done)
}

fn plural_are(children: usize) -> String {
    let are = if children == 1 { "is" } else { "are" };
    format!("{} {are}", plural(children, "subagent"))
}

/// The export's bytes, and how many secrets were masked in them.
fn render(history: &History, format: ExportFormat, mask: bool) -> (Vec<u8>, usize) {
    let masked = |text: String, by: fn(&str) -> (String, usize)| {
        let (text, count) = if mask { by(&text) } else { (text, 0) };
        (text.into_bytes(), count)
    };
    match format {
        ExportFormat::Markdown => masked(markdown::render(history), secrets::mask),
        ExportFormat::Json => masked(document(history), secrets::mask_json),
        ExportFormat::Jsonl => {
            let (mut bytes, mut total) = (Vec::new(), 0);
            for record in &history.records {
                let (line, count) =
                    if mask { masked_line(record) } else { (record.line.to_vec(), 0) };
                bytes.extend_from_slice(&line);
                bytes.push(b'\n');
                total += count;
            }
            (bytes, total)
        }
    }
}

fn document(history: &History) -> String {
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
    format!("{document}\n")
}

/// A line with its secrets masked and a checksum of its own again; as it is when it has none.
fn masked_line(record: &Record) -> (Vec<u8>, usize) {
    let Some((covered, _)) = line::split_crc(&record.line) else {
        return (record.line.to_vec(), 0);
    };
    match secrets::mask_json(&String::from_utf8_lossy(covered)) {
        (_, 0) => (record.line.to_vec(), 0),
        (masked, count) => {
            let crc = line::checksum(masked.as_bytes());
            (format!("{masked},\"crc\":\"{crc:08x}\"}}").into_bytes(), count)
        }
    }
}

fn notes(history: &History, masked: usize) -> Vec<String> {
    let mut notes = Vec::new();
    if masked > 0 {
        let were = if masked == 1 { "was" } else { "were" };
        notes.push(format!(
            "{} {were} masked; --keep-secrets leaves them in",
            plural(masked, "secret")
        ));
    }
    let damages = history.damages();
    if damages > 0 {
        let places = if damages == 1 { "1 place".to_owned() } else { format!("{damages} places") };
        notes.push(format!(
            "the session is damaged in {places}; what can be read was exported (segno check {})",
            history.id
        ));
    }
    notes
}

/// A new file that only the user can read, durably.
fn write_new(path: &Path, bytes: &[u8]) -> Result<(), CliError> {
    let shown = path.display().to_string();
    let opened = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
    let mut file = opened.map_err(|e| match e.kind() {
        std::io::ErrorKind::AlreadyExists => CliError::failed(format!("{shown} exists already."))
            .because("an export never overwrites a file")
            .next(format!("Choose another name, or move it away: mv {0} {0}.old", quoted(&shown))),
        _ => CliError::failed(format!("{shown} could not be created."))
            .because(e)
            .next("Name a file in a directory that is there and that you may write to: -o FILE"),
    })?;
    file.write_all(bytes).and_then(|()| file.sync_all()).map_err(|e| {
        CliError::new(ExitCode::Unwritable, format!("{shown} could not be written."))
            .because(e)
            .next("What is there is not whole. Free some space, remove it, and export again.")
    })
}
