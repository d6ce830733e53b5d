//! `segno check` on another agent's session.
//!
//! Responsible for: everything that reading it from its first byte to its last shows. Must not: repair.

use super::below::{self, Below};
use super::{Verdict, exit, finding_lines, verdict, verdict_words};
use crate::commands::keep::of_session;
use crate::error::{CliError, ExitCode};
use crate::others::{self, Other};
use crate::stores::Stores;
use crate::terminal::table::{plural, size};
use crate::terminal::{Screen, Text, Tone};
use segno_model::finding::{Finding, Severity};
use segno_store::foreign::{self, Item};
use segno_store::kept::{Depth, Kept};
use segno_store::rescue::{self, is_repaired};
use serde::Serialize;
use std::collections::HashMap;
use std::ops::ControlFlow;

/// Of findings that are alike, so many are told one by one.
const ALIKE: usize = 100;

#[derive(Debug, Serialize)]
struct Report<'a> {
    version: u32,
    source: &'static str,
    id: &'a str,
    path: String,
    verdict: Verdict,
    records: usize,
    bytes: u64,
    /// How many places its own agent trips over; none where that is not known.
    repairs: Option<usize>,
    /// Subagents of which something cannot be read.
    damaged_subagents: Vec<Below>,
    findings: Vec<Finding>,
}

/// Checks it. `named` is how the advice names it.
///
/// # Errors
/// When it cannot be read.
pub(super) fn check(
    session: &Other,
    named: &str,
    json: bool,
    stores: &Stores,
    screen: &mut Screen,
) -> Result<ExitCode, CliError> {
    let report = examine(session, stores)?;
    if json {
        screen.json(&report);
    } else {
        screen.lines(lines(&report, session, named));
    }
    Ok(if report.damaged_subagents.is_empty() { exit(report.verdict) } else { ExitCode::Failed })
}

fn examine<'a>(session: &'a Other, stores: &Stores) -> Result<Report<'a>, CliError> {
    let mut records = 0;
    let mut findings: Vec<Finding> = Vec::new();
    let mut alike: HashMap<&'static str, usize> = HashMap::new();
    foreign::read(&session.located(), &mut |item| {
        match item {
            Item::Record(_) => records += 1,
            Item::Finding(finding) => {
                let seen = alike.entry(finding.code).or_default();
                *seen += 1;
                if *seen <= ALIKE {
                    findings.push(finding);
                }
            }
            Item::Fact(_) => {}
        }
        ControlFlow::Continue(())
    })?;
    for (code, count) in alike.into_iter().filter(|(_, count)| *count > ALIKE) {
        let severity = findings.iter().filter(|f| f.code == code).map(|f| f.severity).max();
        let sentence = format!("{} like the first {ALIKE}", plural(count - ALIKE, "more finding"));
        let severity = severity.unwrap_or_default();
        findings.push(Finding { code, severity, sentence, ..Finding::default() });
    }
    if session.state.is_live() {
        // It is being written: the end of the file is where its agent is, not where it was torn.
        for finding in findings.iter_mut().filter(|f| f.code == "torn-tail") {
            finding.severity = Severity::Note;
            "its agent is writing it now".clone_into(&mut finding.done);
        }
    }
    // That the index cannot be read is told where sessions are looked for.
    let (kept, _) = others::kept(stores).unwrap_or_default();
    findings.extend(copies(session, &kept, stores));
    findings.sort_by_key(|f| (f.offset.is_none(), f.offset, f.seq));
    Ok(Report {
        version: 2,
        source: session.row.agent.id(),
        id: &session.row.id,
        path: session.row.path.display().to_string(),
        verdict: verdict(&findings),
        records,
        bytes: session.row.bytes,
        repairs: repairs(session),
        damaged_subagents: below::damaged(session),
        findings,
    })
}

fn lines(report: &Report<'_>, session: &Other, named: &str) -> Vec<Text> {
    let mut out: Vec<Text> = report.findings.iter().flat_map(finding_lines).collect();
    let (tone, word) = verdict_words(&report.findings);
    let size = if report.bytes == 0 { String::new() } else { format!(", {}", size(report.bytes)) };
    let read = format!("; {} read{size}", plural(report.records, "record"));
    out.push(
        Text::line(tone, &word)
            .with(Tone::Plain, &read)
            .with(Tone::Dim, &format!("  {}  ", session.word()))
            .with_text(Text::line(Tone::Dim, &report.path)),
    );
    out.extend(advice(report, session, named));
    out.extend(below::lines(&report.damaged_subagents));
    out
}

/// The code of a finding about a copy, which no repair of the session changes.
const COPY: &str = "kept-copy";

/// What is the matter with the copies that are kept of it: where the original is gone, nothing else is left.
pub(super) fn copies(session: &Other, all: &[Kept], stores: &Stores) -> Vec<Finding> {
    let Some(kept) = of_session(session, all) else { return Vec::new() };
    let flaws = stores.files.kept_flaws(kept, Depth::Bytes).into_iter();
    let word = session.word();
    let (severity, done) = match session.is_copy() {
        true => (
            Severity::Damage,
            format!("what is left can be had with `segno keep --restore {word} -o FILE`"),
        ),
        false => (Severity::Warning, format!("`segno keep {word}` makes it again")),
    };
    let finding = |flaw: segno_store::kept::Flawed| Finding {
        code: COPY,
        severity,
        sentence: format!("the kept copy of {} {}", flaw.original.display(), flaw.flaw),
        done: done.clone(),
        ..Finding::default()
    };
    flaws.map(finding).collect()
}

/// What can be done about it. What reads well here may still be what its own agent refuses, as a provider refuses
/// thinking without a signature; that is the repair's to say.
fn advice(report: &Report<'_>, session: &Other, named: &str) -> Vec<Text> {
    let next = Text::line(Tone::Plain, &format!("next: segno repair {named}"));
    let worst = report.findings.iter().filter(|f| f.code != COPY).map(|f| f.severity).max();
    let is_worth_it = worst >= Some(Severity::Warning);
    match report.repairs {
        Some(0) if is_worth_it => {
            let agent = session.row.agent;
            let told = format!("note: no repair changes that; {agent} opens the session as it is");
            vec![Text::line(Tone::Plain, &told)]
        }
        _ if is_worth_it && is_repaired(session.row.agent) => vec![next],
        None | Some(0) => Vec::new(),
        Some(places) => {
            let are = if places == 1 { "1 place is" } else { &format!("{places} places are") };
            let told = format!(
                "note: {are} no trouble here and can be for {}; the repair says what and where",
                session.row.agent
            );
            vec![Text::line(Tone::Warning, &told), next]
        }
    }
}

/// How many places its own agent trips over. One that is at work has a call without a result all the time.
fn repairs(session: &Other) -> Option<usize> {
    if !is_repaired(session.row.agent) || session.state.is_live() {
        return None;
    }
    let files = rescue::files(&session.located());
    let plans: Result<Vec<_>, _> = files.iter().map(rescue::plan).collect();
    Some(plans.ok()?.iter().map(|plan| plan.changes.len()).sum())
}
