//! What the model is told about a supervised command.
//!
//! Responsible for: the sentences, from what is known. Must not: claim more than is known.

use super::super::bash::{End as Ending, report};
use super::super::cut::Collected;
use super::follow::collect;
use crate::supervisor::{ActionDir, End, Standing, Status};
use segno_model::record::Outcome;
use segno_runtime::{StopKind, ToolOutput};
use std::fmt::Write as _;
use std::time::Duration;

/// How many survivors are listed.
const LISTED: usize = 10;

/// The result of a command that was followed to what is known of it.
pub(super) fn result(
    dir: &ActionDir,
    standing: Standing,
    collected: Collected,
    why: Option<&str>,
) -> ToolOutput {
    match standing {
        Standing::Ended => match dir.status() {
            Ok(Some(status)) => ended_like(dir, &status, collected),
            _ => unknown(dir, collected, "what its supervisor said cannot be read"),
        },
        Standing::NotStarted => {
            let why = why.unwrap_or("Segno was interrupted before it started");
            let text = format!("Not run: the command was not started; {why}.");
            ToolOutput::new(text, true, Outcome::NotRun)
        }
        Standing::Running => going_on(dir, collected, "The command still runs"),
        Standing::Gone => {
            unknown(dir, collected, "its supervisor is gone without saying how it ended")
        }
        Standing::Elsewhere => {
            let seen = match dir.status() {
                Ok(Some(status)) => {
                    format!(", although its supervisor said: {}", status.end)
                }
                _ => String::new(),
            };
            let why = format!(
                "it ran on another machine or before this one was started again, and what it did may not \
                 have reached the disk{seen}"
            );
            unknown(dir, collected, &why)
        }
        Standing::Unclaimed | Standing::Unknown => {
            unknown(dir, collected, "nothing of it can be found out")
        }
    }
}

/// As [`result`], with whatever output there is.
pub(super) fn after(dir: &ActionDir, standing: Standing, why: Option<&str>) -> ToolOutput {
    result(dir, standing, collect(dir), why)
}

/// A command that has begun in the background.
pub(super) fn begun(dir: &ActionDir) -> ToolOutput {
    let handle = dir.id();
    let seconds = timeout(dir).as_secs();
    ToolOutput::done(format!(
        "Started in the background as {handle}; it is ended after {seconds} seconds. You will be told when \
         it ends. `background` with this handle shows its output so far, and stops it with `stop`."
    ))
    .in_background(handle)
}

/// A command that runs and that nobody waits for any more.
pub(super) fn running(dir: &ActionDir) -> ToolOutput {
    going_on(dir, collect(dir), "Segno was interrupted; the command still runs")
}

/// A command whose supervisor did not carry out a stop.
pub(super) fn deaf(dir: &ActionDir, collected: Collected) -> ToolOutput {
    let output = going_on(dir, collected, "A stop was asked for and not carried out yet");
    ToolOutput { outcome: Outcome::Unknown, is_error: true, ..output }
}

/// An intent that names no command of this session.
pub(super) fn unnamed() -> ToolOutput {
    let text = "The outcome of this call is unknown: nothing is here of the command that it began. Look at what \
                it was to change before running it again.";
    ToolOutput::new(text, true, Outcome::Unknown)
}

/// A handle without a command.
pub(super) fn unknown_handle(handle: &str) -> String {
    format!(
        "The background command {handle} is not known here (any more): its files are gone, or it belongs to \
         the session that this one is a copy of. Its outcome is unknown."
    )
}

/// The end of a background command. Where the text is not all of its output, that is kept.
pub(super) fn ended(dir: &ActionDir, standing: Standing) -> String {
    let handle = dir.id();
    if !dir.path().is_dir() {
        return unknown_handle(handle);
    }
    let command = dir.request().map(|request| request.command).unwrap_or_default();
    let mut short: String = command.chars().take(200).collect();
    if short.len() < command.len() {
        short.push('…');
    }
    let output = after(dir, standing, None);
    let mut kept = String::new();
    if output.whole.is_some() && dir.keep().is_ok() {
        kept = format!("\nThe whole output: {}", dir.path().join("output").display());
    }
    let text = text_of(&output);
    format!("The background command {handle} has ended. It was: {short}\n{text}{kept}")
}

/// What a command in the background looks like now.
pub(super) fn so_far(dir: &ActionDir, standing: Standing) -> ToolOutput {
    let output = match standing {
        Standing::Running => going_on(dir, collect(dir), "It runs"),
        standing => after(dir, standing, None),
    };
    let text = text_of(&output);
    // Looking is not the command's own result: a failed command is no failed look.
    ToolOutput { whole: None, ..ToolOutput::done(text) }
}

fn ended_like(dir: &ActionDir, status: &Status, collected: Collected) -> ToolOutput {
    let end = match &status.end {
        End::Exited { code } => Ending::Exited(*code),
        End::Signalled { signal } => Ending::Signalled(*signal),
        End::TimedOut => Ending::TimedOut(timeout(dir)),
        End::Stopped => Ending::Stopped(StopKind::User),
        End::NotStarted { why } => {
            let text = format!("Not run: the command could not be started: {why}");
            return ToolOutput::new(text, true, Outcome::NotRun);
        }
    };
    let mut output = report(collected, &end, status.held_open);
    if status.unwritten > 0 {
        let lost = format!("{} bytes of the output found no room on the disk", status.unwritten);
        add(&mut output, &format!("\n[{lost}]"));
    }
    output
}

fn going_on(dir: &ActionDir, collected: Collected, what: &str) -> ToolOutput {
    let (mut text, whole) = shown(collected);
    let handle = dir.id();
    let _ = write!(
        text,
        "[{what}, as {handle}; it is ended {} seconds after its start. You will be told when it ends; \
         `background` shows its output and stops it.]",
        timeout(dir).as_secs()
    );
    let output = ToolOutput::new(text, false, Outcome::Unknown).in_background(handle);
    ToolOutput { whole, ..output }
}

fn unknown(dir: &ActionDir, collected: Collected, why: &str) -> ToolOutput {
    let (mut text, whole) = shown(collected);
    let _ = write!(
        text,
        "[the outcome of this call is unknown: {why}. It may have run to its end, in part, or not at all. Look at what \
         it was to change before running it again]"
    );
    let left = left_running(dir);
    if !left.is_empty() {
        let _ = write!(text, "\n[still running of it: {}]", left.join("; "));
    }
    ToolOutput { whole, ..ToolOutput::new(text, true, Outcome::Unknown) }
}

/// What a command left running whose supervisor is gone.
fn left_running(dir: &ActionDir) -> Vec<String> {
    let found = dir.survivors().into_iter().take(LISTED);
    found.map(|survivor| format!("pid {} ({})", survivor.pid, survivor.command)).collect()
}

fn shown(collected: Collected) -> (String, Option<Vec<u8>>) {
    let (mut text, whole) = collected.finish();
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
    (text, whole)
}

fn timeout(dir: &ActionDir) -> Duration {
    Duration::from_millis(dir.request().map_or(0, |request| request.timeout_ms))
}

fn text_of(output: &ToolOutput) -> String {
    let texts = output.content.iter().filter_map(|block| match block {
        segno_model::record::Block::Text { text } => Some(text.head()),
        _ => None,
    });
    texts.collect::<Vec<_>>().join("\n")
}

fn add(output: &mut ToolOutput, more: &str) {
    output.content.push(segno_model::record::Block::text(more.trim_start()));
}
