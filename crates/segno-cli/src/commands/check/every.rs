//! `segno check --all`: every session of every agent.
//!
//! Responsible for: one line for each session that is not sound, and the sum. Must not: stop at one that
//! cannot be read.

use super::other::copies;
use super::{Verdict, examine};
use crate::commands::Workplace;
use crate::commands::list::everything;
use crate::error::{CliError, ExitCode};
use crate::listing::Listed;
use crate::others::{self, Other};
use crate::stores::Stores;
use crate::terminal::table::plural;
use crate::terminal::{Screen, Text, Tone};
use segno_model::finding::Severity;
use segno_store::kept::Kept;
use serde::Serialize;

#[derive(Debug, Serialize)]
struct Checked {
    source: &'static str,
    id: String,
    verdict: &'static str,
    notes: usize,
    warnings: usize,
    damage: usize,
    problem: Option<String>,
}

impl Checked {
    /// With what is the matter with the copies, where nothing else is left.
    fn with_copies(self, other: &Other, kept: &[Kept], stores: &Stores) -> Self {
        let flaws = if other.is_copy() { copies(other, kept, stores) } else { Vec::new() };
        match flaws.first() {
            None => self,
            Some(_) if self.verdict == "unreadable" => self,
            Some(flaw) => Self {
                verdict: "damage",
                damage: self.damage + flaws.len(),
                problem: Some(flaw.sentence.clone()),
                ..self
            },
        }
    }
}

/// Checks all of them.
///
/// # Errors
/// When our own cannot be listed.
pub(super) async fn check(
    json: bool,
    place: &Workplace,
    screen: &mut Screen,
) -> Result<ExitCode, CliError> {
    let (sessions, others) = everything(place).await?;
    // That the index cannot be read is told among the trouble.
    let (kept, _) = others::kept(&place.stores).unwrap_or_default();
    let mut checked = Vec::new();
    for session in &sessions {
        checked.push(match session {
            Listed::Own(entry) => own(place, entry).await,
            Listed::Other(other) => {
                of_row(session, &other.row).with_copies(other, &kept, &place.stores)
            }
        });
    }
    let count = |word: &str| checked.iter().filter(|c| c.verdict == word).count();
    let (unreadable, damaged, warned) = (count("unreadable"), count("damage"), count("warnings"));
    if json {
        screen.json(&serde_json::json!({
            "version": 1, "sessions": checked, "trouble": others.trouble,
        }));
    } else {
        for one in checked.iter().filter(|c| !matches!(c.verdict, "sound" | "notes")) {
            screen.line(line(one));
        }
        let sound = checked.len() - unreadable - damaged - warned;
        screen.line(format!(
            "{} checked: {sound} sound, {warned} with warnings, {damaged} damaged, {unreadable} unreadable",
            plural(checked.len(), "session"),
        ));
        for trouble in &others.trouble {
            screen.line(Text::line(Tone::Warning, &format!("note: {trouble}")));
        }
    }
    // Behind a database or a folder that cannot be read are sessions that nobody could check.
    Ok(match (unreadable + others.trouble.len(), damaged + warned) {
        (1.., _) => ExitCode::Usage,
        (0, 1..) => ExitCode::Failed,
        (0, 0) => ExitCode::Done,
    })
}

async fn own(place: &Workplace, entry: &crate::sessions::Entry) -> Checked {
    let (source, id) = (crate::listing::OWN, entry.id.to_string());
    let report = match examine(&place.stores, &entry.id).await {
        Ok(report) => report,
        Err(error) => {
            let said = error.cause.unwrap_or(error.sentence);
            // A log that is gone was seen to be when the sessions were listed.
            let problem = Some(entry.trouble.clone().unwrap_or(said));
            return Checked {
                source,
                id,
                verdict: "unreadable",
                notes: 0,
                warnings: 0,
                damage: 0,
                problem,
            };
        }
    };
    let count = |severity| report.findings.iter().filter(|f| f.severity == severity).count();
    let worst =
        report.findings.iter().max_by_key(|f| f.severity).filter(|f| f.severity > Severity::Note);
    Checked {
        source,
        id,
        verdict: match report.verdict {
            Verdict::Sound => "sound",
            Verdict::Notes => "notes",
            Verdict::Warnings => "warnings",
            Verdict::Damage => "damage",
        },
        notes: count(Severity::Note),
        warnings: count(Severity::Warning),
        damage: count(Severity::Damage),
        problem: worst.map(|finding| finding.sentence.clone()),
    }
}

/// The catalog read every one of these from its first byte to its last.
fn of_row(session: &Listed, row: &segno_store::catalog::ForeignRow) -> Checked {
    let verdict = match row {
        _ if !row.readable => "unreadable",
        _ if row.damage > 0 => "damage",
        _ if row.warnings > 0 => "warnings",
        _ if row.notes > 0 => "notes",
        _ => "sound",
    };
    Checked {
        source: session.source(),
        id: row.id.clone(),
        verdict,
        notes: row.notes as usize,
        warnings: row.warnings as usize,
        damage: row.damage as usize,
        problem: row.problem.clone(),
    }
}

fn line(one: &Checked) -> Text {
    let tone = if one.verdict == "warnings" { Tone::Warning } else { Tone::Bad };
    let mut text = Text::line(tone, one.verdict);
    text.add(Tone::Plain, &format!("  {}:{}", one.source, one.id));
    if let Some(problem) = &one.problem {
        text.add(Tone::Dim, &format!("  {problem}"));
    }
    text
}
