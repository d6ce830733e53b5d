//! Lines from a terminal that cannot move its cursor (`TERM=dumb`): as it gives them, with its own editing.
//!
//! Responsible for: waiting for a line or for a signal. Must not: send anything to the terminal but the
//! label and what stands on the line already.

use super::Screen;
use super::clean;
use super::entry::{self, Line};
use super::style::{Text, Tone};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// How often it is looked whether the process is to end.
const LOOK_EVERY: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };

/// Reads lines.
#[derive(Debug)]
pub(super) struct PlainLines {
    stop: Arc<AtomicBool>,
    /// What the next line begins with.
    pub(super) begun: String,
    /// What was read and belongs to a later line.
    rest: Vec<u8>,
}

impl PlainLines {
    /// Reads until `stop` is set.
    pub(super) fn new(stop: Arc<AtomicBool>) -> Self {
        Self { stop, begun: String::new(), rest: Vec::new() }
    }

    /// One entry that is not blank.
    pub(super) fn read(&mut self, label: &str, screen: &mut Screen) -> io::Result<Line> {
        loop {
            let begun = std::mem::take(&mut self.begun);
            screen.text(Text::default().with(Tone::Plain, label).with(Tone::Plain, &begun));
            screen.flush();
            let Some(typed) = self.line()? else {
                if self.stop.load(Ordering::SeqCst) {
                    self.begun = begun;
                    return Ok(Line::Woken);
                }
                return Ok(Line::Eof);
            };
            if let Some(line) = entry::parse(&format!("{begun}{}", clean::block(&typed))) {
                return Ok(line);
            }
        }
    }

    /// The next line; nothing at the end of the input, or when the process is to end.
    fn line(&mut self) -> io::Result<Option<String>> {
        loop {
            if let Some(at) = self.rest.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.rest.drain(..=at).collect();
                return Ok(Some(String::from_utf8_lossy(&line[..at]).into_owned()));
            }
            let stdin = io::stdin();
            let mut asked = [PollFd::new(&stdin, PollFlags::IN)];
            match poll(&mut asked, Some(&LOOK_EVERY)) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
            if self.stop.load(Ordering::SeqCst) {
                return Ok(None);
            }
            if asked[0].revents().is_empty() {
                continue;
            }
            let mut buffer = [0; 4096];
            match rustix::io::read(&stdin, &mut buffer[..]) {
                Ok(0) => return Ok(None),
                Ok(n) => self.rest.extend_from_slice(&buffer[..n]),
                Err(rustix::io::Errno::INTR | rustix::io::Errno::AGAIN) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}
