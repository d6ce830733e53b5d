//! One line that says how far indexing is.
//!
//! Responsible for: showing it on standard error where that is a terminal, and taking it away again. Must
//! not: end in the output of a command.

use crate::terminal::table::{plural, size};
use crate::terminal::{Screen, Text, Tone};
use segno_store::catalog::Progress;
use segno_store::foreign::Agent;

/// The line.
#[derive(Debug)]
pub struct Meter {
    screen: Screen,
    shown: usize,
    next: u64,
}

impl Default for Meter {
    fn default() -> Self {
        Self::on(Screen::stderr())
    }
}

impl Meter {
    /// A new line is shown after so many bytes.
    pub const STEP: u64 = 16 << 20;

    /// The line on a certain screen.
    #[must_use]
    pub fn on(screen: Screen) -> Self {
        Self { screen, shown: 0, next: Self::STEP }
    }

    /// Shows it, if enough was read since the last time; `agent` is the one whose session was read last.
    pub fn show(&mut self, progress: Progress, agent: Agent) {
        if !self.screen.look().terminal || progress.bytes < self.next {
            return;
        }
        self.next = progress.bytes + Self::STEP;
        self.clear();
        let text = format!(
            "reading {} of {}, {} of {} ({agent})",
            progress.read,
            plural(progress.of, "session"),
            size(progress.bytes),
            size(progress.of_bytes)
        );
        let text = Text::line(Tone::Dim, &text).cut(self.screen.look().columns.saturating_sub(1));
        self.shown = text.width();
        self.screen.text(text);
        self.screen.flush();
    }

    /// Takes it away.
    pub fn clear(&mut self) {
        self.screen.step_back(std::mem::take(&mut self.shown));
        self.screen.flush();
    }
}
