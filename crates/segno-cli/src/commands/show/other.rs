//! Another agent's session: its transcript, its tree, its context, or one record as it is stored.
//!
//! Responsible for: printing a transcript while it is read, in memory that does not grow with it. Must not:
//! change anything, or leave out a branch.

use super::context;
use super::transcript::{record_lines, unsent_line};
use super::tree;
use super::unsent::Answered;
use crate::args::ShowArgs;
use crate::error::{CliError, ExitCode};
use crate::others::{Other, shown as as_shown};
use crate::terminal::table::plural;
use crate::terminal::{Screen, Text, Tone};
use segno_model::record::Message;
use segno_model::{Body, Record, Seq};
use segno_store::foreign::{self, ForeignRecord, Item, Origin, View};
use serde_json::json;
use std::borrow::Cow;
use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _, Seek as _, SeekFrom};
use std::ops::ControlFlow;

/// How many records are shown before and behind the one that was asked for.
const AROUND: u64 = 6;
/// A stored line is shown up to this many bytes.
const LINE_MAX: u64 = 64 << 20;

/// Shows it.
///
/// # Errors
/// When it cannot be read.
pub(super) fn show(session: &Other, args: &ShowArgs, screen: &mut Screen) -> Result<(), CliError> {
    if args.context {
        return next_request(session, args.json, screen);
    }
    if args.tree {
        return branches(session, args.json, screen);
    }
    match args.raw {
        Some(seq) => raw(session, seq, args.json, screen),
        None if args.json => document(session, args.at, &mut |part| {
            screen.json_part(part);
            if screen.is_gone() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        }),
        None => transcript(session, args.at, screen),
    }
}

/// Whether a record is near the one that was asked for.
fn is_near(seq: Seq, at: Option<Seq>) -> bool {
    at.is_none_or(|at| seq.abs_diff(at) <= AROUND)
}

fn is_behind(seq: Seq, at: Option<Seq>) -> bool {
    at.is_some_and(|at| seq > at.saturating_add(AROUND))
}

fn heading(session: &Other) -> Vec<Text> {
    let row = &session.row;
    let mut about = format!("{}  {}", session.word(), row.agent);
    for part in [row.version.as_deref(), Some(row.project.cwd.as_str())].into_iter().flatten() {
        if !part.is_empty() {
            about = format!("{about}  {part}");
        }
    }
    let mut out = vec![Text::line(Tone::Dim, &about)];
    // What was said in one that cannot be read is not known.
    let title = session.title().or(row.readable.then_some("(nothing was said)"));
    out.extend(title.map(|title| Text::line(Tone::Strong, title)));
    if let Some(parent) = &row.parent {
        out.push(Text::line(Tone::Dim, &format!("a subagent of {}:{parent}", row.agent.id())));
    }
    if let Some(gone) = session.gone() {
        out.push(Text::line(Tone::Warning, &gone));
    }
    if row.damage > 0 {
        let places = if row.damage == 1 {
            "1 place is".to_owned()
        } else {
            format!("{} places are", row.damage)
        };
        let told = format!(
            "{places} damaged; what could be read is shown. `segno check {}` tells more.",
            session.word()
        );
        out.push(Text::line(Tone::Bad, &told));
    }
    out
}

fn transcript(session: &Other, at: Option<Seq>, screen: &mut Screen) -> Result<(), CliError> {
    screen.lines(heading(session));
    let columns = screen.look().columns;
    let mut last: Option<Seq> = None;
    let mut shown = 0_u64;
    let mut pending = Vec::new();
    let (mut answered, mut beginning) = (Answered::default(), Beginning::Unseen);
    foreign::read(&session.located(), &mut |item| {
        match item {
            Item::Record(read) if is_shown(&read) => {
                let seq = read.record.seq();
                let turned = turns(&read, last);
                if read.record.is_node() {
                    last = Some(seq);
                }
                if is_behind(seq, at) {
                    return ControlFlow::Break(());
                }
                let lines = record_lines(&as_shown(session.row.agent, &read), columns);
                let unsent = answered.take(&read.record);
                if is_near(seq, at) && !lines.is_empty() {
                    screen.lines(beginning.turns(&read, session));
                    screen.line("");
                    if let Some(from) = turned {
                        let text = format!("— goes on behind #{from}: another branch —");
                        screen.line(Text::line(Tone::Warning, &text));
                    }
                    screen.lines(lines);
                    screen.lines(unsent.map(unsent_line));
                    shown += 1;
                }
            }
            Item::Fact(foreign::Fact::Pending(prompts)) => pending = prompts,
            _ => {}
        }
        if screen.is_gone() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    })?;
    if let Some(at) = at.filter(|_| shown == 0) {
        return Err(no_record(session, at));
    }
    for prompt in pending {
        screen.line("");
        screen.line(Text::line(Tone::Warning, "waits, was never delivered"));
        screen.line(Text::block(Tone::Plain, &prompt));
    }
    if at.is_none() {
        subagent_lines(&session.all_subagents(), screen);
    }
    Ok(())
}

fn subagent_lines(subagents: &[Other], screen: &mut Screen) {
    if subagents.is_empty() {
        return;
    }
    screen.line("");
    screen.line(Text::line(Tone::Dim, "subagents:"));
    for other in subagents {
        let role = other.row.role.as_deref().unwrap_or("subagent");
        let about = format!("  {role}  {}", other.state.word());
        let line = Text::default().with(Tone::Plain, "  ").with(Tone::Accent, &other.word());
        screen.line(line.with(Tone::Plain, &about));
    }
}

/// What a fork copied from its origin, as it is shown.
#[derive(Clone, Copy)]
enum Beginning {
    Unseen,
    Copied,
    Over,
}

impl Beginning {
    /// The mark in front of a record with which the copies begin, or are over.
    fn turns(&mut self, read: &ForeignRecord, session: &Other) -> Vec<Text> {
        let (next, says) = match (*self, read.inherited) {
            (Self::Unseen, true) => {
                let origin = session.row.fork_of.as_deref();
                let origin = origin
                    .map_or("the session that it was forked from".to_owned(), |id| {
                        format!("{}:{id}", session.row.agent.id())
                    });
                (Self::Copied, Some(format!("— copied from {origin} —")))
            }
            (Self::Copied, false) => (Self::Over, Some("— its own from here on —".to_owned())),
            (now, _) => (now, None),
        };
        *self = next;
        let line = |says: String| Text::line(Tone::Dim, &says);
        says.into_iter().flat_map(|says| [Text::default(), line(says)]).collect()
    }
}

/// Not what is said twice, not what a subagent said, and nothing that only a machine reads.
fn is_shown(read: &ForeignRecord) -> bool {
    (!read.copy || read.inherited)
        && read.subagent.is_none()
        && (!matches!(read.record.body(), Body::Custom(c) if c.context.is_none())
            || foreign::failure(&read.record).is_some())
}

/// The node behind which a record goes on, when that is not the last one. Results stand where they came.
fn turns(read: &ForeignRecord, last: Option<Seq>) -> Option<Seq> {
    let is_result =
        matches!(read.record.body(), Body::Message(m) if matches!(**m, Message::Tool(_)));
    let parent = read.record.envelope.parent?;
    (read.record.is_node() && !is_result && last.is_some_and(|last| last != parent))
        .then_some(parent)
}

/// The transcript as one JSON document, handed over in parts as it is read.
///
/// # Errors
/// When it cannot be read.
pub(crate) fn document(
    session: &Other,
    at: Option<Seq>,
    out: &mut dyn FnMut(&str) -> ControlFlow<()>,
) -> Result<(), CliError> {
    let row = &session.row;
    let head = json!({
        "version": 1, "source": row.agent.id(), "id": row.id, "name": row.name, "title": row.title,
        "project": *row.project, "path": row.path, "parent": row.parent,
    });
    let head = head.to_string();
    if out(&format!("{},\"records\":[", head.trim_end_matches('}'))).is_break() {
        return Ok(());
    }
    let mut findings = Vec::new();
    let mut first = true;
    foreign::read(&session.located(), &mut |item| {
        match item {
            Item::Record(read) if is_near(read.record.seq(), at) => {
                let comma = if std::mem::take(&mut first) { "" } else { "," };
                return out(&format!("{comma}{}", record(&read)));
            }
            Item::Record(read) if is_behind(read.record.seq(), at) => return ControlFlow::Break(()),
            Item::Finding(finding) if findings.len() < 10_000 => findings.push(finding),
            _ => {}
        }
        ControlFlow::Continue(())
    })?;
    let subagents: Vec<_> = session.all_subagents().iter().map(subagent).collect();
    let (findings, subagents) = (json!(findings), json!(subagents));
    // Whoever left does not take the end either.
    let _ = out(&format!("],\"findings\":{findings},\"subagents\":{subagents}}}"));
    Ok(())
}

fn subagent(other: &Other) -> serde_json::Value {
    let row = &other.row;
    json!({
        "id": row.id, "role": row.role, "state": other.state.word(), "parent": row.parent,
        "path": row.path,
    })
}

/// As JSON text: the body is what it is, to the last digit.
fn record(read: &ForeignRecord) -> String {
    let envelope = &read.record.envelope;
    let Origin { line, offset, id } = &read.origin;
    let head = json!({
        "seq": envelope.seq, "parent": envelope.parent, "type": envelope.kind,
        "at": read.dated.then_some(envelope.at), "line": line, "offset": offset, "agent_id": id,
        "subagent": read.subagent, "copy": read.copy,
    });
    let body = read.record.body().to_json().unwrap_or_else(|_| "null".to_owned());
    format!("{},\"body\":{body}}}", head.to_string().trim_end_matches('}'))
}

fn next_request(session: &Other, as_json: bool, screen: &mut Screen) -> Result<(), CliError> {
    let view = in_words(session, View::active(&session.located())?);
    let built = view.context();
    let main = view.records.iter().filter(|read| read.subagent.is_none());
    let records: Vec<Record> = main.map(|read| read.record.clone()).collect();
    context::show_other(&session.row.id, &records, &built, as_json, screen);
    Ok(())
}

/// With words for what our terms do not hold.
fn in_words(session: &Other, mut view: View) -> View {
    for read in &mut view.records {
        if let Cow::Owned(record) = as_shown(session.row.agent, read) {
            read.record = record;
        }
    }
    view
}

fn branches(session: &Other, as_json: bool, screen: &mut Screen) -> Result<(), CliError> {
    let view = in_words(session, View::transcript(&session.located())?);
    let main = view.records.iter().filter(|read| read.subagent.is_none());
    let records: Vec<Record> = main.map(|read| read.record.clone()).collect();
    tree::show_records(heading(session), &session.row.id, &records, view.tip, as_json, screen);
    Ok(())
}

/// The line from which a record was read, byte for byte; from a database, the record as it was read.
fn raw(session: &Other, seq: Seq, as_json: bool, screen: &mut Screen) -> Result<(), CliError> {
    let mut found: Option<ForeignRecord> = None;
    foreign::read(&session.located(), &mut |item| match item {
        Item::Record(read) if read.record.seq() == seq => {
            found = Some(read);
            ControlFlow::Break(())
        }
        _ => ControlFlow::Continue(()),
    })?;
    let read = found.ok_or_else(|| no_record(session, seq))?;
    let line = match read.origin.offset.filter(|_| session.row.path.is_file()) {
        Some(offset) => line_at(session, offset)?,
        None => record(&read).into_bytes(),
    };
    if as_json {
        screen.json(&json!({
            "version": 1, "id": session.row.id, "seq": seq, "line": String::from_utf8_lossy(&line),
        }));
    } else {
        screen.exact(&line);
        screen.exact(b"\n");
    }
    Ok(())
}

fn line_at(session: &Other, offset: u64) -> Result<Vec<u8>, CliError> {
    let path = &session.row.path;
    let read = || -> std::io::Result<Vec<u8>> {
        let mut file = File::open(path)?;
        file.seek(SeekFrom::Start(offset))?;
        let mut line = Vec::new();
        BufReader::new(file.take(LINE_MAX)).read_until(b'\n', &mut line)?;
        line.pop_if(|last| *last == b'\n');
        Ok(line)
    };
    read().map_err(|e| {
        CliError::failed(format!("{} could not be read.", path.display()))
            .because(e)
            .next("Check that the file is there, that it is yours, and that its disk works.")
    })
}

fn no_record(session: &Other, seq: Seq) -> CliError {
    CliError::new(ExitCode::NotFound, format!("There is no record {seq}."))
        .because(format!(
            "the session holds {}",
            plural(usize::try_from(session.messages()).unwrap_or(usize::MAX), "message")
        ))
        .next(format!("`segno show {} --tree` shows their numbers.", session.word()))
}
