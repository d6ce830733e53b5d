//! `segno sources`: which agents were found, where, and whether their sessions can be read.
//!
//! Responsible for: one line per agent, after reading whatever was not read yet. Must not: leave out an
//! agent because something of it cannot be read.

use super::Workplace;
use super::list::everything;
use crate::args::SourcesArgs;
use crate::error::{CliError, ExitCode};
use crate::listing::{Listed, OWN};
use crate::terminal::table::{Column, Table, plural, size};
use crate::terminal::{Screen, Text, Tone};
use segno_store::foreign::Agent;
use serde::Serialize;
use std::collections::BTreeSet;

#[derive(Debug, Default, Serialize)]
struct Source {
    source: &'static str,
    name: &'static str,
    sessions: usize,
    subagents: usize,
    bytes: u64,
    /// The folders or databases that hold them.
    places: BTreeSet<String>,
    versions: BTreeSet<String>,
    interrupted: usize,
    warnings: usize,
    damaged: usize,
    unreadable: usize,
}

/// Lists the agents.
///
/// # Errors
/// When our own sessions cannot be listed.
pub async fn sources(
    args: &SourcesArgs,
    place: &Workplace,
    screen: &mut Screen,
) -> Result<ExitCode, CliError> {
    let (sessions, others) = everything(place).await?;
    let mut found: Vec<Source> = Vec::new();
    found.extend(summed(OWN, "Segno", &sessions));
    for agent in Agent::ALL {
        found.extend(summed(agent.id(), agent.name(), &sessions));
    }
    for source in found.iter_mut().filter(|source| source.source == OWN) {
        source.places.insert(place.stores.home.data.join("sessions").display().to_string());
    }
    if args.json {
        screen.json(&serde_json::json!({
            "version": 1, "sources": found, "trouble": others.trouble,
        }));
        return Ok(ExitCode::Done);
    }
    if found.is_empty() {
        screen.line("No sessions of any agent were found.");
    }
    screen.lines(lines(&found, screen.look().columns));
    for trouble in &others.trouble {
        screen.line(Text::line(Tone::Warning, &format!("note: {trouble}")));
    }
    Ok(ExitCode::Done)
}

/// What there is of one agent; none when there is nothing.
fn summed(id: &'static str, name: &'static str, sessions: &[Listed]) -> Option<Source> {
    let mut source = Source { source: id, name, ..Source::default() };
    for session in sessions.iter().filter(|session| session.source() == id) {
        source.bytes += session.bytes();
        match session.is_child() {
            true => source.subagents += 1,
            false => source.sessions += 1,
        }
        match session.state() {
            "interrupted" => source.interrupted += 1,
            "damaged" => source.damaged += 1,
            "unreadable" => source.unreadable += 1,
            _ => {}
        }
        if let Listed::Other(other) = session {
            let row = &other.row;
            source.warnings += usize::from(row.warnings > 0 && row.damage == 0 && row.readable);
            source.versions.extend(row.version.clone());
            let holder =
                if row.key.is_some() { Some(row.path.as_path()) } else { row.path.parent() };
            source.places.extend(holder.map(|path| path.display().to_string()));
        }
    }
    (source.sessions + source.subagents > 0).then_some(source)
}

fn lines(found: &[Source], width: usize) -> Vec<Text> {
    let plain = |text: &str| Text::line(Tone::Plain, text);
    let mut table = Table::new(vec![
        Column::left("AGENT"),
        Column::right("SESSIONS"),
        Column::right("SUBAGENTS").leaves(3),
        Column::right("SIZE").leaves(4),
        Column::left("VERSIONS").leaves(2),
        Column::left("READS").leaves(5),
        Column::left("WHERE").shrinks_to(20).leaves(1),
    ]);
    for source in found {
        let (tone, reads) = reads(source);
        table.row([
            Text::line(Tone::Accent, source.name),
            plain(&source.sessions.to_string()),
            plain(&source.subagents.to_string()),
            plain(&if source.bytes == 0 { "-".to_owned() } else { size(source.bytes) }),
            plain(&span(&source.versions)),
            Text::line(tone, &reads),
            plain(&common(&source.places)),
        ]);
    }
    table.lines(width)
}

fn reads(source: &Source) -> (Tone, String) {
    let mut parts = Vec::new();
    if source.unreadable > 0 {
        parts.push(format!("{} not at all", source.unreadable));
    }
    if source.damaged > 0 {
        parts.push(format!("{} damaged", source.damaged));
    }
    if source.warnings > 0 {
        parts.push(format!("{} with warnings", source.warnings));
    }
    match (parts.is_empty(), source.unreadable + source.damaged) {
        (true, _) => (Tone::Good, "cleanly".to_owned()),
        (false, 0) => (Tone::Warning, parts.join(", ")),
        (false, _) => (Tone::Bad, parts.join(", ")),
    }
}

fn span(versions: &BTreeSet<String>) -> String {
    match (versions.first(), versions.last(), versions.len()) {
        (Some(only), _, 1) => only.clone(),
        (Some(first), Some(last), 2) => format!("{first}, {last}"),
        (Some(first), Some(last), n) => format!("{first} … {last} ({n})"),
        _ => "-".to_owned(),
    }
}

/// The folder that all places share, and how many there are below it.
fn common(places: &BTreeSet<String>) -> String {
    let (Some(first), Some(last)) = (places.first(), places.last()) else { return "-".to_owned() };
    if first == last {
        return first.clone();
    }
    let shared = first.split('/').zip(last.split('/')).take_while(|(a, b)| a == b).count();
    let folder = first.split('/').take(shared).collect::<Vec<_>>().join("/");
    format!("{folder}/ ({})", plural(places.len(), "folder"))
}
