//! Lines that are typed while a turn runs.
//!
//! Responsible for: reading them as the terminal collects them, and telling by the key that ended each what
//! is meant: Enter steers, Tab queues. Must not: read while a question has the terminal, or show what is
//! typed between the turn's lines.
//!
//! The terminal collects lines by itself then, unseen, with Tab as a second key that ends one (`quiet`).
//! What is not ended stays with it, for the next line.

use super::Keyboard;
use crate::terminal::clean;
use crate::terminal::entry::{self, Line};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io::{IsTerminal as _, stdin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::sync::mpsc;

/// How long a look at the terminal takes; a question waits so long at most.
const LOOK: Timespec = Timespec { tv_sec: 0, tv_nsec: 20_000_000 };

/// How long the terminal is left to others between two looks.
const PAUSE: Duration = Duration::from_millis(5);

/// What was typed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Typed {
    /// For the next step of the turn.
    Steer(String),
    /// For when it has ended.
    Queue(String),
    /// Stops the turn.
    Stop,
    /// Something that only means something between turns.
    Later(String),
}

impl Typed {
    /// The line, to be put back.
    pub(super) fn into_text(self) -> String {
        match self {
            Self::Steer(text) | Self::Queue(text) | Self::Later(text) => text,
            Self::Stop => "/stop".to_owned(),
        }
    }
}

/// Reads until it is finished or dropped.
pub(super) struct Meanwhile {
    over: Arc<AtomicBool>,
    reading: Option<tokio::task::JoinHandle<()>>,
}

impl Drop for Meanwhile {
    fn drop(&mut self) {
        self.over.store(true, Ordering::SeqCst);
    }
}

impl Meanwhile {
    /// Starts reading, if standard input is a terminal.
    pub(super) fn begin(keyboard: &Keyboard) -> (Self, mpsc::UnboundedReceiver<Typed>) {
        let over = Arc::new(AtomicBool::new(false));
        let (sender, typed) = mpsc::unbounded_channel();
        let (keyboard, ends) = (keyboard.clone(), Arc::clone(&over));
        let reading = stdin()
            .is_terminal()
            .then(|| tokio::task::spawn_blocking(move || read(&keyboard, &ends, &sender)));
        (Self { over, reading }, typed)
    }

    /// Reads no more; everything that was read has been told when this returns.
    pub(super) async fn finish(mut self) {
        self.over.store(true, Ordering::SeqCst);
        if let Some(reading) = self.reading.take() {
            // A reader that panicked reads no more, either.
            let _ = reading.await;
        }
    }
}

fn read(keyboard: &Keyboard, over: &AtomicBool, sender: &mpsc::UnboundedSender<Typed>) {
    let mut rest = Vec::new();
    while !over.load(Ordering::SeqCst) {
        if let Some(_terminal) = keyboard.lend_if_free()
            && !over.load(Ordering::SeqCst)
            && !look(&mut rest)
        {
            return;
        }
        while let Some(line) = next_line(&mut rest) {
            if line.is_some_and(|typed| sender.send(typed).is_err()) {
                return;
            }
        }
        std::thread::sleep(PAUSE);
    }
}

/// Takes what the terminal has; false when it is gone.
fn look(rest: &mut Vec<u8>) -> bool {
    let stdin = stdin();
    let mut asked = [PollFd::new(&stdin, PollFlags::IN)];
    if poll(&mut asked, Some(&LOOK)).is_err() || asked[0].revents().is_empty() {
        return true;
    }
    let mut buffer = [0; 4096];
    match rustix::io::read(&stdin, &mut buffer[..]) {
        Ok(n) => {
            rest.extend_from_slice(&buffer[..n]);
            !asked[0].revents().contains(PollFlags::HUP)
        }
        Err(rustix::io::Errno::INTR | rustix::io::Errno::AGAIN) => true,
        Err(_) => false,
    }
}

/// The next line that was ended, and what it means; a blank one means nothing.
fn next_line(rest: &mut Vec<u8>) -> Option<Option<Typed>> {
    let at = rest.iter().position(|byte| matches!(byte, b'\n' | b'\t'))?;
    let line: Vec<u8> = rest.drain(..=at).collect();
    let queued = line.last() == Some(&b'\t');
    let text = clean::block(&String::from_utf8_lossy(&line[..at]));
    Some(meaning(&text, queued))
}

fn meaning(text: &str, queued: bool) -> Option<Typed> {
    Some(match entry::parse(text)? {
        Line::Text(text) if queued => Typed::Queue(text),
        Line::Text(text) => Typed::Steer(text),
        Line::Command { name, args } if name == "queue" && !args.is_empty() => Typed::Queue(args),
        Line::Command { name, args } if name == "stop" && args.is_empty() => Typed::Stop,
        _ => Typed::Later(text.trim().to_owned()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_key_that_ends_a_line_says_what_is_meant() {
        let owned = |text: &str| text.to_owned();
        let rows = [
            ("and b\n", vec![Some(Typed::Steer(owned("and b")))], ""),
            ("then c\t", vec![Some(Typed::Queue(owned("then c")))], ""),
            ("a\nb\tc", vec![Some(Typed::Steer(owned("a"))), Some(Typed::Queue(owned("b")))], "c"),
            ("\n \n", vec![None, None], ""),
            ("/queue d\n", vec![Some(Typed::Queue(owned("d")))], ""),
            ("/stop\n", vec![Some(Typed::Stop)], ""),
            (
                "/model x\n!ls\n",
                vec![Some(Typed::Later(owned("/model x"))), Some(Typed::Later(owned("!ls")))],
                "",
            ),
        ];
        for (typed, expected, left) in rows {
            let mut rest = typed.as_bytes().to_vec();
            let mut found = Vec::new();
            while let Some(line) = next_line(&mut rest) {
                found.push(line);
            }
            assert_eq!((found, rest.as_slice()), (expected, left.as_bytes()), "{typed:?}");
        }
    }
}
