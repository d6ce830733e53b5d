//! What is said beside a run that nobody watches: on standard error, so that no output is mixed with it.
//!
//! Responsible for: what was noticed about the session's files, and what waits in its inbox. Must not: decide
//! anything.

use crate::error::CliError;
use crate::stores::Log;
use crate::terminal::table::plural;
use crate::terminal::{Screen, Text, Tone};
use segno_model::SessionId;
use segno_model::finding::{Finding, Severity};
use segno_runtime::Session;

/// What was noticed, one line each.
#[must_use]
pub fn noticed(findings: &[Finding]) -> Vec<Text> {
    let line = |finding: &Finding| {
        let tone = if finding.severity == Severity::Note { Tone::Dim } else { Tone::Warning };
        Text::line(tone, &format!("{}: {}", finding.sentence, finding.done))
    };
    findings.iter().map(line).collect()
}

/// Tells what was noticed behind the first `told`; gives how many there are now.
pub fn tell_noticed(session: &Session<Log>, told: usize) -> usize {
    let findings = session.findings();
    let mut screen = Screen::stderr();
    screen.lines(noticed(findings.get(told..).unwrap_or_default()));
    screen.flush();
    findings.len()
}

/// Tells something that went wrong after the work was done, and that is no failure of the work.
pub fn tell_trouble(trouble: &CliError) {
    let mut screen = Screen::stderr();
    screen.lines(trouble.as_warning());
    screen.flush();
}

/// Tells that inputs wait for a person, and what gets them on.
pub fn tell_waiting(id: &SessionId, waiting: usize) {
    if waiting == 0 {
        return;
    }
    let (verb, them) = if waiting == 1 { ("waits", "it") } else { ("wait", "them") };
    let mut screen = Screen::stderr();
    screen.line(Text::line(
        Tone::Warning,
        &format!("{} {verb} for you: {}.", plural(waiting, "input"), how_to_deliver(id, them)),
    ));
    screen.flush();
}

/// The commands for inputs that wait for a person.
#[must_use]
pub fn how_to_deliver(id: &SessionId, them: &str) -> String {
    format!(
        "`segno inbox {id}` shows {them}, `segno inbox {id} --deliver` lets the model see {them}"
    )
}
