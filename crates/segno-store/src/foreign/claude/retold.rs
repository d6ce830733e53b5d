//! History that was written again under new ids.
//!
//! Responsible for: noticing that rows repeat the session from its beginning, word for word, as an agent did
//! that was fed turn by turn. Holds four bytes for each message. Must not: drop anything; what hangs where is
//! decided by the rows themselves.

use super::super::emitter::Emitter;
use super::super::item::Origin;
use segno_model::finding::Severity;

/// Fewer rows in a row may be chance: people say "go on" more than once.
const LEAST: usize = 3;

/// What was said so far, and how far the present rows repeat it.
#[derive(Default)]
pub(super) struct Retold {
    /// Fingerprints of the messages, each once.
    told: Vec<u32>,
    run: usize,
    first: Origin,
}

impl Retold {
    /// Takes the next message of the session.
    pub(super) fn next(&mut self, print: u32, at: &Origin, out: &mut Emitter<'_>) {
        if self.run > 0 && self.told.get(self.run) == Some(&print) {
            self.run += 1;
            return;
        }
        self.end(out);
        if self.told.first() == Some(&print) {
            (self.run, self.first) = (1, at.clone());
            return;
        }
        self.told.push(print);
    }

    /// Tells of the run that has come to its end.
    pub(super) fn end(&mut self, out: &mut Emitter<'_>) {
        let run = std::mem::take(&mut self.run);
        if run >= LEAST.min(self.told.len().max(2)) {
            let sentence =
                format!("{run} messages repeat the beginning of the session under new ids.");
            let done = "They are kept; responses among them count once.";
            out.found("history-repeated", Severity::Note, &self.first, &sentence, done);
        } else {
            self.told.extend_from_within(..run);
        }
    }
}
