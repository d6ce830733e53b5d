//! `!command`: a command of the person, not of the model.
//!
//! Responsible for: running it in the working directory, showing its output as it comes, and keeping that
//! for the next prompt, so that the model knows what the person saw. Must not: ask for permission (the
//! person typed it) or write a record by itself.

use crate::terminal::{Screen, Text, Tone, clean};
use segno_model::record::Block;
use segno_runtime::Stop;
use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt as _};
use tokio::process::{Child, Command};

/// How much of an output goes to the model; the end of it, where errors are.
const KEPT_BYTES: usize = 32 * 1024;

/// How long output is waited for that a background process of the command may still write.
const DRAIN: Duration = Duration::from_millis(100);

/// What a command came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Ran {
    command: String,
    output: String,
    cut: bool,
    status: String,
    well: bool,
}

impl Ran {
    /// How it ended, if not well.
    #[must_use]
    pub(super) fn trouble(&self) -> Option<&str> {
        (!self.well).then_some(self.status.as_str())
    }

    /// As a part of the next prompt.
    #[must_use]
    pub(super) fn block(&self) -> Block {
        let cut = if self.cut { "[the beginning is cut off]\n" } else { "" };
        Block::text(format!(
            "<shell note=\"The person ran this command in the working directory.\">\n$ {}\n{cut}{}\n[{}]\n</shell>",
            self.command,
            self.output.trim_end(),
            self.status,
        ))
    }
}

/// Runs it. A stop ends the waiting; the terminal has told the command itself.
///
/// # Errors
/// When there is no shell.
pub(super) async fn run(
    command: &str,
    cwd: &Path,
    stop: &Stop,
    screen: &mut Screen,
) -> std::io::Result<Ran> {
    let mut child = Command::new("sh")
        .args(["-c", command])
        .current_dir(cwd)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()?;
    let mut shown = Shown { screen, output: Vec::new(), stream: clean::Stream::default() };
    let status = follow(&mut child, stop, &mut shown).await?;
    let (output, cut) = shown.finish();
    let well = status.is_some_and(|status| status.success());
    let status = status.map_or_else(|| "stopped".to_owned(), |status| status.to_string());
    Ok(Ran { command: command.to_owned(), output, cut, status, well })
}

async fn follow(
    child: &mut Child,
    stop: &Stop,
    shown: &mut Shown<'_>,
) -> std::io::Result<Option<ExitStatus>> {
    let (mut out, mut err) = (child.stdout.take(), child.stderr.take());
    let (mut from_out, mut from_err) = ([0; 8192], [0; 8192]);
    let mut ended = None;
    while out.is_some() || err.is_some() {
        tokio::select! {
            n = read(&mut out, &mut from_out), if out.is_some() => shown.take(&from_out[..n]),
            n = read(&mut err, &mut from_err), if err.is_some() => shown.take(&from_err[..n]),
            status = child.wait(), if ended.is_none() => ended = Some(status?),
            () = tokio::time::sleep(DRAIN), if ended.is_some() => break,
            _ = stop.stopped() => return Ok(None),
        }
    }
    match ended {
        Some(status) => Ok(Some(status)),
        None => tokio::select! {
            status = child.wait() => status.map(Some),
            _ = stop.stopped() => Ok(None),
        },
    }
}

/// Reads once; the end closes it.
async fn read(from: &mut Option<impl AsyncRead + Unpin>, buffer: &mut [u8]) -> usize {
    let Some(open) = from else { return 0 };
    let n = open.read(buffer).await.unwrap_or(0);
    if n == 0 {
        *from = None;
    }
    n
}

struct Shown<'a> {
    screen: &'a mut Screen,
    output: Vec<u8>,
    stream: clean::Stream,
}

impl Shown<'_> {
    fn take(&mut self, bytes: &[u8]) {
        let cleaned = self.stream.push(&String::from_utf8_lossy(bytes));
        self.screen.text(Text::default().with(Tone::Plain, &cleaned));
        self.screen.flush();
        self.output.extend_from_slice(bytes);
        // Twice as much is kept while it runs, so that this does not happen for every piece.
        if self.output.len() > 2 * KEPT_BYTES {
            self.output.drain(..self.output.len() - KEPT_BYTES - 1);
        }
    }

    fn finish(mut self) -> (String, bool) {
        let rest = self.stream.finish();
        self.screen.text(Text::default().with(Tone::Plain, &rest));
        if self.output.last().is_some_and(|last| *last != b'\n') {
            self.screen.line("");
        }
        self.screen.flush();
        let cut = self.output.len().saturating_sub(KEPT_BYTES);
        (String::from_utf8_lossy(&self.output[cut..]).into_owned(), cut > 0)
    }
}
