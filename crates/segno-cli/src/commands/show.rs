//! `segno show`: a session's transcript, its tree, its context, or one record as it is stored.
//!
//! Responsible for: choosing the view, and the exact bytes of `--raw`. Must not: take the writer's right:
//! a session that is damaged, held or of a newer format is shown as well.

mod context;
mod other;
mod outlook;
mod transcript;
mod tree;
mod unsent;

pub(super) use context::resolved;

pub(crate) use other::document as other_document;
pub(crate) use transcript::{FAILURE, child_words, record_lines};
pub(crate) use unsent::{Answered, of_log as unsent_of_log};

use super::{Workplace, children};
use crate::args::ShowArgs;
use crate::error::{CliError, ExitCode};
use crate::history::History;
use crate::others::Target;
use crate::terminal::table::plural;
use crate::terminal::{Screen, Text, Tone};
use segno_model::child::{parent_of, role_of};
use segno_model::{Seq, SessionId};
use std::io::{Read as _, Seek as _};

/// A damaged line is read up to this many bytes.
const LINE_MAX: u64 = 64 << 20;

/// Shows a session.
///
/// # Errors
/// When it is not found or cannot be read.
pub async fn show(
    args: &ShowArgs,
    place: &Workplace,
    screen: &mut Screen,
) -> Result<ExitCode, CliError> {
    let id = match place.stores.find_any(&args.session, &place.cwd).await? {
        Target::Own(id) => id,
        Target::Other(session) => {
            other::show(&session, args, screen)?;
            return Ok(ExitCode::Done);
        }
    };
    if args.context {
        context::show(&id, place, args.json, screen).await?;
        return Ok(ExitCode::Done);
    }
    let history = History::read(&place.stores, &id).await?;
    match (args.raw, args.tree) {
        (Some(seq), _) => raw(&history, seq, place, args.json, screen)?,
        (None, true) => tree::show(&history, args.json, screen),
        (None, false) => {
            if let Some(at) = args.at.filter(|at| !transcript::is_there(&history, *at)) {
                return Err(no_record(&history, at));
            }
            let renamed = children::renamed(place, &id, &history.records).await?;
            transcript::show(&history, &renamed, (args.at, args.json), screen);
        }
    }
    Ok(ExitCode::Done)
}

/// Prints the branches.
pub(crate) fn branches(history: &History, screen: &mut Screen) {
    tree::show(history, false, screen);
}

/// The line that says which session this is, and whether anything is wrong with it.
fn heading(history: &History) -> Vec<Text> {
    let title = history.title().unwrap_or("(nothing was said)");
    let mut out = vec![Text::line(Tone::Dim, history.id.as_str()), Text::line(Tone::Strong, title)];
    if let Some(parent) = history.header().and_then(parent_of) {
        let role = history.header().and_then(role_of).map(|role| format!(" {role}"));
        let role = role.unwrap_or_default();
        let told = format!("subagent{role} of {parent}; `segno show {parent}` reads that");
        out.push(Text::line(Tone::Dim, &told));
    }
    let damages = history.damages();
    if damages > 0 {
        let told = format!(
            "{} damaged; what could be read is shown. `segno check {}` tells more.",
            if damages == 1 { "1 place is".to_owned() } else { format!("{damages} places are") },
            history.id
        );
        out.push(Text::line(Tone::Bad, &told));
    }
    out
}

/// One line, byte for byte; a record that is damaged but says its number is found, too.
fn raw(
    history: &History,
    seq: Seq,
    place: &Workplace,
    json: bool,
    screen: &mut Screen,
) -> Result<(), CliError> {
    let record = history.records.iter().find(|record| record.seq() == seq);
    let (line, sound) = match record {
        Some(record) => (record.line.to_vec(), true),
        None => (damaged_line(history, seq, place)?, false),
    };
    if json {
        screen.json(&serde_json::json!({
            "version": 1,
            "id": history.id,
            "seq": seq,
            "sound": sound,
            "line": String::from_utf8_lossy(&line),
        }));
    } else {
        screen.exact(&line);
        screen.exact(b"\n");
    }
    Ok(())
}

fn no_record(history: &History, seq: Seq) -> CliError {
    CliError::new(ExitCode::NotFound, format!("There is no record {seq}."))
        .because(format!("{} can be read", plural(history.records.len(), "record")))
        .next(format!("`segno show {} --tree` shows their numbers.", history.id))
}

fn damaged_line(history: &History, seq: Seq, place: &Workplace) -> Result<Vec<u8>, CliError> {
    let at = history.findings.iter().find(|f| f.seq == Some(seq) && f.code == "altered");
    match at.and_then(|finding| finding.offset) {
        Some(offset) => Ok(line_at(place, &history.id, offset)?),
        None => Err(no_record(history, seq)),
    }
}

/// The line that begins at this byte of the file.
fn line_at(place: &Workplace, id: &SessionId, offset: u64) -> Result<Vec<u8>, CliError> {
    let mut line = bytes_at(place, id, offset, LINE_MAX)?;
    let end = line.iter().position(|byte| *byte == b'\n').unwrap_or(line.len());
    line.truncate(end);
    Ok(line)
}

/// At most so many bytes of the log from this offset on.
pub(super) fn bytes_at(
    place: &Workplace,
    id: &SessionId,
    offset: u64,
    limit: u64,
) -> Result<Vec<u8>, CliError> {
    let path = place.stores.files.log_path(id)?;
    let read = || -> std::io::Result<Vec<u8>> {
        let mut file = std::fs::File::open(&path)?;
        file.seek(std::io::SeekFrom::Start(offset))?;
        let mut bytes = Vec::new();
        file.take(limit).read_to_end(&mut bytes)?;
        Ok(bytes)
    };
    read().map_err(|e| {
        CliError::failed(format!("{} could not be read.", path.display()))
            .because(e)
            .next("Check that the file is there, that it is yours, and that its disk works.")
    })
}
