//! Following a supervised command.
//!
//! Responsible for: showing its output as it comes, passing the user's stop on, and noticing its end.
//! Must not: end it. A shutdown leaves it to its supervisor: it is not a stop (G9).

use super::super::cut::{Collected, Utf8Stream};
use crate::supervisor::{ActionDir, FULL, OutputReader};
use segno_runtime::{Progress, StopKind, ToolRun};
use std::time::Duration;
use tokio::io::AsyncReadExt as _;
use tokio::process::{Child, ChildStderr};

/// How often output is looked for.
const LOOK: Duration = Duration::from_millis(20);
/// How often it is looked whether another process' supervisor is gone.
const LOOK_FOR_END: Duration = Duration::from_millis(50);
/// How long a supervisor has for a stop; it takes three seconds at most when it gets to run.
const STOP_LOOKS: u32 = 500;

/// What tells that a supervisor has ended.
pub(super) enum Ended {
    /// It is our child. What it says matters only for people.
    Child { child: Child, stderr: Option<ChildStderr>, said: Vec<u8> },
    /// Another process started it.
    Lock(ActionDir),
}

impl Ended {
    /// That of a supervisor that this process started.
    pub(super) fn of(mut child: Child) -> Self {
        let stderr = child.stderr.take();
        Self::Child { child, stderr, said: Vec::new() }
    }

    /// Waits until it has ended; says when it waits for room on the disk. May be dropped at any point.
    async fn wait(&mut self, run: &ToolRun<'_>) {
        match self {
            Self::Child { child, stderr, said } => loop {
                let mut some = [0; 512];
                tokio::select! {
                    biased;
                    n = read_some(stderr, &mut some) => match n {
                        0 => *stderr = None,
                        n => {
                            said.extend_from_slice(&some[..n]);
                            if String::from_utf8_lossy(said).contains(FULL) {
                                (run.progress)(Progress::Paused(FULL.to_owned()));
                            }
                        }
                    },
                    _ = child.wait(), if stderr.is_none() => return,
                }
            },
            Self::Lock(dir) => {
                while dir.is_locked() {
                    tokio::time::sleep(LOOK_FOR_END).await;
                }
            }
        }
    }
}

impl Ended {
    /// The exit code of a child of ours that has ended, and what it said.
    pub(super) async fn last_words(self) -> Option<(i32, String)> {
        let Self::Child { mut child, stderr, mut said } = self else { return None };
        let code = child.wait().await.ok()?.code()?;
        if let Some(stderr) = stderr {
            let _ = stderr.take(512).read_to_end(&mut said).await;
        }
        Some((code, String::from_utf8_lossy(&said).trim().chars().take(500).collect()))
    }
}

/// Reads; 0 at the end. Never ends where there is nothing to read any more.
async fn read_some(from: &mut Option<ChildStderr>, into: &mut [u8]) -> usize {
    match from {
        Some(from) => from.read(into).await.unwrap_or(0),
        None => std::future::pending().await,
    }
}

/// How following ended.
pub(super) enum Seen {
    /// The supervisor has ended.
    Over,
    /// This process shuts down; the command goes on.
    Left,
    /// The supervisor did not carry out a stop.
    Deaf,
}

/// Follows a command. `show_all`: whether output that is there already is shown.
pub(super) async fn follow(
    dir: &ActionDir,
    ended: &mut Ended,
    show_all: bool,
    run: &ToolRun<'_>,
) -> (Collected, Seen) {
    let mut sink = Sink::new(dir, run);
    if !show_all {
        sink.skip();
    }
    let mut stopping = None;
    loop {
        tokio::select! {
            () = ended.wait(run) => break,
            kind = run.stop.stopped(), if stopping.is_none() => match kind {
                StopKind::Shutdown => return (sink.collected, Seen::Left),
                StopKind::User => {
                    // Where no request can be left the supervisor is deaf, and that is told.
                    let _ = dir.ask_to_stop();
                    stopping = Some(0);
                }
            },
            () = tokio::time::sleep(LOOK) => {
                sink.take();
                if let Some(looks) = &mut stopping {
                    *looks += 1;
                    if *looks > STOP_LOOKS {
                        return (sink.collected, Seen::Deaf);
                    }
                }
            }
        }
    }
    sink.take();
    (sink.collected, Seen::Over)
}

/// All output that is there.
pub(super) fn collect(dir: &ActionDir) -> Collected {
    let mut collected = Collected::new();
    let mut reader = OutputReader::new(dir);
    while read(&mut reader, &mut collected).is_some() {}
    collected
}

/// Where output goes.
struct Sink<'a, 'b> {
    reader: OutputReader,
    collected: Collected,
    utf8: Utf8Stream,
    run: &'a ToolRun<'b>,
}

impl<'a, 'b> Sink<'a, 'b> {
    fn new(dir: &ActionDir, run: &'a ToolRun<'b>) -> Self {
        let (reader, utf8) = (OutputReader::new(dir), Utf8Stream::default());
        Self { reader, collected: Collected::new(), utf8, run }
    }

    /// Takes what is there without showing it.
    fn skip(&mut self) {
        while read(&mut self.reader, &mut self.collected).is_some() {}
    }

    fn take(&mut self) {
        while let Some(bytes) = read(&mut self.reader, &mut self.collected) {
            let text = self.utf8.push(&bytes);
            if !text.is_empty() {
                (self.run.progress)(Progress::Output(text));
            }
        }
    }
}

/// The next output, collected; none at its end, for now.
fn read(reader: &mut OutputReader, collected: &mut Collected) -> Option<Vec<u8>> {
    let chunk = reader.next();
    if chunk.gap > 0 {
        collected.skip(chunk.gap);
    }
    collected.push(&chunk.bytes);
    (!chunk.bytes.is_empty()).then_some(chunk.bytes)
}
