//! `segno check`: a session from its first byte to its last.
//!
//! Responsible for: everything that can be found without changing anything: lines, pairing, blobs. Must
//! not: repair, or call a session sound of which a part was not looked at.
//!
//! Exit codes: 0 sound or notes only, 1 warnings or damage, 2 it cannot be read.

pub(super) mod below;
mod blobs;
mod every;
mod other;
pub(super) mod pairs;

use self::blobs::Named;
use super::Workplace;
use crate::args::{CheckArgs, quoted};
use crate::error::{CliError, ExitCode};
use crate::history::{History, place};
use crate::others::Target;
use crate::stores::Stores;
use crate::terminal::table::{plural, size};
use crate::terminal::{Screen, Text, Tone};
use segno_model::finding::{Finding, Severity};
use segno_model::record::{
    AssistantBlock, AssistantMessage, Body, Compaction, FORMAT, Message, ToolCall, ToolMessage,
    UserMessage,
};
use segno_model::tree::Tree;
use segno_model::{Record, SessionId};
use serde::Serialize;

/// Everything that was found.
#[derive(Debug, Serialize)]
pub struct Report {
    version: u32,
    id: SessionId,
    verdict: Verdict,
    records: usize,
    bytes: u64,
    blobs: usize,
    findings: Vec<Finding>,
}

/// The worst of the findings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Verdict {
    Sound,
    Notes,
    Warnings,
    Damage,
}

/// Checks a session.
///
/// # Errors
/// When it is not found, or cannot be read.
pub async fn check(
    args: &CheckArgs,
    place: &Workplace,
    screen: &mut Screen,
) -> Result<ExitCode, CliError> {
    if args.all {
        return every::check(args.json, place, screen).await;
    }
    let id = match place.stores.find_any(&args.session, &place.cwd).await.map_err(unreadable)? {
        Target::Own(id) => id,
        Target::Other(session) => {
            // A file may be a copy of the session that goes by its id.
            let is_file = place.cwd.join(&args.session).exists();
            let named = if is_file { quoted(&args.session) } else { session.word() };
            return other::check(&session, &named, args.json, &place.stores, screen);
        }
    };
    let report = examine(&place.stores, &id).await.map_err(unreadable)?;
    if args.json {
        screen.json(&report);
    } else {
        screen.lines(lines(&report, &place.stores.home.command()));
    }
    Ok(exit(report.verdict))
}

fn exit(verdict: Verdict) -> ExitCode {
    match verdict {
        Verdict::Sound | Verdict::Notes => ExitCode::Done,
        Verdict::Warnings | Verdict::Damage => ExitCode::Failed,
    }
}

fn unreadable(error: CliError) -> CliError {
    match error.exit {
        ExitCode::NotFound => error,
        _ => CliError { exit: ExitCode::Usage, ..error },
    }
}

/// Looks at everything.
///
/// # Errors
/// When the log cannot be read.
pub async fn examine(stores: &Stores, id: &SessionId) -> Result<Report, CliError> {
    let mut named = Named::default();
    let keep = |record: Record| {
        named.add(&record);
        outline(record)
    };
    let history = History::read_with(stores, id, keep).await?;
    let log = stores.files.log_path(id)?;
    let bytes = std::fs::metadata(log).map_or(0, |meta| meta.len());
    let mut findings = history.findings.clone();
    if stores.files.is_held(id)? {
        for finding in findings.iter_mut().filter(|f| f.code == "torn-tail") {
            finding.severity = Severity::Note;
            "another process is writing it now".clone_into(&mut finding.done);
        }
    }
    findings.extend(newer_format(&history));
    findings.extend(unknown_records(&history));
    findings.extend(Tree::new(&history.records).bridges().map(|bridge| {
        // The loss itself is reported where it is; this is only what follows from it.
        Finding { severity: Severity::Note, ..bridge.finding() }
    }));
    findings.extend(pairs::findings(&history.records));
    findings.extend(named.verify(stores, id).await);
    let offset_of = |seq| history.record(seq).map(|record| record.offset);
    stores.files.locate(id, &mut findings, &offset_of)?;
    findings.sort_by_key(|f| (f.offset.is_none(), f.offset, f.seq));
    let verdict = verdict(&findings);
    let (records, blobs) = (history.records.len(), named.len());
    Ok(Report { version: 1, id: id.clone(), verdict, records, bytes, blobs, findings })
}

/// A record without what was said in it: where it stands, its calls, and whose result it is.
fn outline(record: Record) -> Record {
    record.reduced(|body| match body {
        Body::Message(message) => Body::Message(Box::new(match *message {
            Message::User(user) => Message::User(UserMessage { content: Vec::new(), ..user }),
            Message::Assistant(reply) => Message::Assistant(AssistantMessage {
                content: reply.calls().map(call).collect(),
                native: None,
                ..reply
            }),
            Message::Tool(result) => Message::Tool(ToolMessage { content: Vec::new(), ..result }),
        })),
        Body::Compaction(compaction) => {
            Body::Compaction(Box::new(Compaction { summary: None, native: None, ..*compaction }))
        }
        other => other,
    })
}

fn call(call: &ToolCall) -> AssistantBlock {
    AssistantBlock::ToolCall(ToolCall {
        id: call.id.clone(),
        name: call.name.clone(),
        arguments: String::new(),
    })
}

fn verdict(findings: &[Finding]) -> Verdict {
    match findings.iter().map(|f| f.severity).max() {
        None => Verdict::Sound,
        Some(Severity::Note) => Verdict::Notes,
        Some(Severity::Warning) => Verdict::Warnings,
        Some(Severity::Damage) => Verdict::Damage,
    }
}

fn newer_format(history: &History) -> Option<Finding> {
    let format = history.header().map(|header| header.format)?;
    (format.major > FORMAT.major).then(|| Finding {
        code: "newer-format",
        severity: Severity::Note,
        sentence: format!(
            "the format {}.{} is newer than this version's {}.{}",
            format.major, format.minor, FORMAT.major, FORMAT.minor
        ),
        done: "it is read, and not written".to_owned(),
        ..Finding::default()
    })
}

/// Records that are intact and not understood; one finding for all of them.
fn unknown_records(history: &History) -> Option<Finding> {
    let mut unknown = history.records.iter().filter(|r| matches!(r.body(), Body::Unknown { .. }));
    let first = unknown.next()?;
    let more = unknown.count();
    let behind = if more == 0 { String::new() } else { format!(", and {more} more") };
    Some(Finding {
        code: "unknown-record",
        severity: Severity::Note,
        seq: Some(first.seq()),
        sentence: format!(
            "record {} is of a type or shape that this version does not know{behind}",
            first.seq()
        ),
        done: "it is kept and skipped".to_owned(),
        ..Finding::default()
    })
}

/// The report for people.
fn lines(report: &Report, program: &str) -> Vec<Text> {
    let mut out: Vec<Text> = report.findings.iter().flat_map(finding_lines).collect();
    let looked_at = format!(
        "{} checked ({}, {})",
        plural(report.records, "record"),
        size(report.bytes),
        plural(report.blobs, "blob")
    );
    let (tone, word) = verdict_words(&report.findings);
    out.push(
        Text::line(tone, &word)
            .with(Tone::Plain, &format!("; {looked_at}"))
            .with(Tone::Dim, &format!("  {}", report.id)),
    );
    if report.findings.iter().any(|f| f.severity == Severity::Damage && f.offset.is_some()) {
        out.push(Text::line(Tone::Plain, &format!("next: {program} repair {}", report.id)));
    }
    out
}

/// What the findings add up to, in words.
fn verdict_words(findings: &[Finding]) -> (Tone, String) {
    let count = |severity| findings.iter().filter(|f| f.severity == severity).count();
    match verdict(findings) {
        Verdict::Sound => (Tone::Good, "sound".to_owned()),
        Verdict::Notes => (Tone::Good, format!("sound, {}", plural(count(Severity::Note), "note"))),
        Verdict::Warnings => {
            (Tone::Warning, format!("readable, {}", plural(count(Severity::Warning), "warning")))
        }
        Verdict::Damage => {
            let places = count(Severity::Damage);
            let word = if places == 1 { "1 place".to_owned() } else { format!("{places} places") };
            (Tone::Bad, format!("damaged in {word}"))
        }
    }
}

/// One finding: its severity, where it is, what it is and what is done about it.
pub(super) fn finding_lines(finding: &Finding) -> Vec<Text> {
    let (word, tone) = match finding.severity {
        Severity::Note => ("note", Tone::Dim),
        Severity::Warning => ("warning", Tone::Warning),
        Severity::Damage => ("damage", Tone::Bad),
    };
    let place = place(finding);
    let mut text = Text::line(tone, &format!("{word} [{}]", finding.code));
    if !place.is_empty() {
        text.add(Tone::Plain, &format!(" {place}"));
    }
    text.add(Tone::Plain, &format!(": {}", finding.sentence));
    let mut lines = vec![text];
    if !finding.done.is_empty() {
        lines.push(Text::default().with(Tone::Dim, &format!("  {}", finding.done)));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worst_finding_decides() {
        let of = |severities: &[Severity]| {
            let finding =
                |severity: &Severity| Finding { severity: *severity, ..Finding::default() };
            verdict(&severities.iter().map(finding).collect::<Vec<_>>())
        };
        use Severity::{Damage, Note, Warning};
        assert_eq!(of(&[]), Verdict::Sound);
        assert_eq!(of(&[Note, Note]), Verdict::Notes);
        assert_eq!(of(&[Note, Warning]), Verdict::Warnings);
        assert_eq!(of(&[Damage, Note, Warning]), Verdict::Damage);
    }
}
