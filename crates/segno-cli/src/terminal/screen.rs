//! Where everything that Segno says to a person goes through.
//!
//! Responsible for: writing [`Text`] and JSON to one place, remembering the first write error so that
//! printing never needs a `?`, and taking a reader that left (`segno list | head`) as success.
//! Must not: decide what is said. Stored text comes in as [`Text`] only, so it cannot drive a terminal.

use super::clean;
use super::style::{Look, Text};
use serde::Serialize;
use std::io::{self, IsTerminal, Write};
use std::sync::{Arc, Mutex, PoisonError};

/// A place for output.
pub struct Screen {
    sink: Box<dyn Write + Send>,
    look: Look,
    trouble: Option<io::Error>,
}

impl std::fmt::Debug for Screen {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Screen").field("look", &self.look).finish_non_exhaustive()
    }
}

impl Screen {
    /// The process's standard output.
    #[must_use]
    pub fn stdout() -> Self {
        let terminal = io::stdout().is_terminal();
        Self::new(Box::new(io::stdout()), detect(terminal))
    }

    /// The process's standard error, for errors and for progress beside `--json`.
    #[must_use]
    pub fn stderr() -> Self {
        let terminal = io::stderr().is_terminal();
        Self::new(Box::new(io::stderr()), detect(terminal))
    }

    /// Any other place.
    #[must_use]
    pub fn new(sink: Box<dyn Write + Send>, look: Look) -> Self {
        Self { sink, look, trouble: None }
    }

    /// A place that tests can read from.
    #[must_use]
    pub fn captured(look: Look) -> (Self, Captured) {
        let captured = Captured::default();
        (Self::new(Box::new(captured.clone()), look), captured)
    }

    /// What the place can do.
    #[must_use]
    pub fn look(&self) -> Look {
        self.look
    }

    /// Looks at the terminal's size again; it may have changed.
    pub fn measure(&mut self) {
        if self.look.terminal
            && let Ok((columns, _)) = crossterm::terminal::size()
        {
            self.look.columns = columns.into();
        }
    }

    /// Writes text as it is, without a line end; see [`Screen::flush`].
    pub fn text(&mut self, text: impl Into<Text>) {
        let rendered = text.into().render(self.look.colour);
        self.write(rendered.as_bytes());
    }

    /// Writes text and a line end.
    pub fn line(&mut self, text: impl Into<Text>) {
        let mut rendered = text.into().render(self.look.colour);
        rendered.push('\n');
        self.write(rendered.as_bytes());
    }

    /// Writes each as a line, and stops when nobody reads any more.
    pub fn lines(&mut self, lines: impl IntoIterator<Item = Text>) {
        for line in lines {
            if self.is_gone() {
                return;
            }
            self.line(line);
        }
    }

    /// Writes a value as one line of JSON. It holds the stored text exactly; characters that could drive
    /// a terminal are written as `\u` escapes, which is the same JSON.
    pub fn json(&mut self, value: &impl Serialize) {
        match serde_json::to_string(value) {
            Ok(text) => self.write((escape_json(&text) + "\n").as_bytes()),
            Err(error) => self.note(io::Error::other(error)),
        }
    }

    /// Writes a part of a JSON document and a line end, which is white space between its parts. For
    /// documents that are written as they are read.
    pub fn json_part(&mut self, text: &str) {
        self.write((escape_json(text) + "\n").as_bytes());
    }

    /// Writes stored bytes exactly, unless this is a terminal: there they are cleaned.
    pub fn exact(&mut self, bytes: &[u8]) {
        if self.look.terminal {
            self.write(clean::bytes(bytes).as_bytes());
        } else {
            self.write(bytes);
        }
    }

    /// Rings the bell, where there is one.
    pub fn bell(&mut self) {
        if self.look.terminal {
            self.write(b"\x07");
            self.flush();
        }
    }

    /// Wipes the last columns before the cursor, where there is one.
    pub fn step_back(&mut self, columns: usize) {
        if self.look.terminal {
            self.write("\x08 \x08".repeat(columns).as_bytes());
        }
    }

    /// Hands on what was written so far.
    pub fn flush(&mut self) {
        if self.trouble.is_none()
            && let Err(error) = self.sink.flush()
        {
            self.note(error);
        }
    }

    /// Whether writing has become pointless. Long loops ask.
    #[must_use]
    pub fn is_gone(&self) -> bool {
        self.trouble.is_some()
    }

    /// The end of all output.
    ///
    /// # Errors
    /// The first error of writing. A reader that left is none.
    pub fn finish(mut self) -> io::Result<()> {
        self.flush();
        match self.trouble {
            Some(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error),
            _ => Ok(()),
        }
    }

    fn write(&mut self, bytes: &[u8]) {
        if self.trouble.is_none()
            && let Err(error) = self.sink.write_all(bytes)
        {
            self.note(error);
        }
    }

    fn note(&mut self, error: io::Error) {
        self.trouble.get_or_insert(error);
    }
}

/// Every character that is not plain ASCII text and could drive a terminal, as `\u` escapes. Such
/// characters occur in JSON only inside strings.
pub(crate) fn escape_json(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if clean::is_shown(c) {
            out.push(c);
        } else {
            let mut units = [0; 2];
            for unit in c.encode_utf16(&mut units) {
                out.push_str(&format!("\\u{unit:04x}"));
            }
        }
    }
    out
}

fn detect(terminal: bool) -> Look {
    let size =
        if terminal { crossterm::terminal::size().ok().map(|(columns, _)| columns) } else { None };
    Look::detect(&|name| std::env::var(name).ok(), terminal, size)
}

/// What a captured screen was given.
#[derive(Debug, Clone, Default)]
pub struct Captured(Arc<Mutex<Vec<u8>>>);

impl Captured {
    /// All of it, as text.
    #[must_use]
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.0.lock().unwrap_or_else(PoisonError::into_inner)).into_owned()
    }
}

impl Write for Captured {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOOK: Look = Look { colour: false, columns: 80, terminal: false, full: false };

    struct Failing(io::ErrorKind);

    impl Write for Failing {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(self.0.into())
        }
        fn flush(&mut self) -> io::Result<()> {
            Err(self.0.into())
        }
    }

    #[test]
    fn a_reader_that_left_is_success_and_a_full_disk_is_not() {
        for (kind, ok) in [(io::ErrorKind::BrokenPipe, true), (io::ErrorKind::StorageFull, false)] {
            let mut screen = Screen::new(Box::new(Failing(kind)), LOOK);
            screen.line("a");
            screen.line("b");
            assert!(screen.is_gone());
            assert_eq!(screen.finish().is_ok(), ok, "{kind:?}");
        }
    }

    /// Covers: G17, #163.
    #[test]
    fn json_is_exact_and_still_cannot_drive_a_terminal() {
        let stored = "a\u{9b}31m\u{202e}b\x1b[2J\u{7f}\u{e0041}界";
        let (mut screen, captured) = Screen::captured(LOOK);
        screen.json(&serde_json::json!({ "text": stored }));
        let out = captured.text();
        assert!(out.chars().all(|c| c == '\n' || clean::is_shown(c)), "{out:?}");
        let back: serde_json::Value = serde_json::from_str(&out).unwrap();
        assert_eq!(back["text"], stored);
    }

    /// Covers: G17.
    #[test]
    fn exact_bytes_reach_a_pipe_exactly_and_a_terminal_cleaned() {
        for (terminal, expected) in [(false, "a\x1b[2Jb"), (true, "ab")] {
            let (mut screen, captured) = Screen::captured(Look { terminal, ..LOOK });
            screen.exact(b"a\x1b[2Jb");
            assert_eq!(captured.text(), expected);
        }
    }

    #[test]
    fn the_bell_rings_in_a_terminal_only() {
        for (terminal, expected) in [(false, ""), (true, "\x07")] {
            let (mut screen, captured) = Screen::captured(Look { terminal, ..LOOK });
            screen.bell();
            assert_eq!(captured.text(), expected);
        }
    }
}
