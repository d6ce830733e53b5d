//! How much fits into a model's window, and how much of it each part may take.
//!
//! Responsible for: the arithmetic from a window to thresholds and budgets. Must not: know a model.

use crate::context::Budget;

/// How many tokens a model takes and gives at most.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    /// Of one request and its reply together.
    pub context: u64,
    /// Of that, kept free for the reply.
    pub output: u64,
}

/// The window that is assumed where nothing is known: what most models of the last years have at least.
pub const USUAL_WINDOW: Window = Window { context: 128_000, output: 16_000 };

/// The share of a window at which its context is made smaller, in percent.
pub const USUAL_SHARE: u8 = 80;

impl Window {
    /// What a request may hold: the window without the reply's share, which is never more than half.
    #[must_use]
    pub fn room(self) -> u64 {
        self.context - self.output.min(self.context / 2)
    }

    /// From how many tokens on a context is made smaller; `percent` of the window, and never so much that
    /// the reply has no room.
    #[must_use]
    pub fn threshold(self, percent: u8) -> u64 {
        let share = self.context / 100 * u64::from(percent.min(100))
            + self.context % 100 * u64::from(percent.min(100)) / 100;
        share.min(self.room()).max(1)
    }

    /// Growth that counts: less than that is not worth another summary.
    #[must_use]
    pub fn step(self) -> u64 {
        (self.context / 16).max(1)
    }
}

/// When contexts are made smaller by themselves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// Whether it happens by itself at all.
    pub auto: bool,
    /// At which share of the window, in percent.
    pub percent: u8,
    /// The model's window; nothing happens by itself while it is not known.
    pub window: Option<Window>,
    /// Whether a provider is asked for its own state of what lies back.
    pub native: Native,
}

/// Where a provider's own compaction is used.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Native {
    /// Nowhere; states that were made before are not sent either.
    Never,
    /// At the addresses that are known to offer it.
    #[default]
    WhereKnown,
    /// At any address that speaks the protocol.
    Wherever,
}

impl Default for Settings {
    fn default() -> Self {
        Self { auto: true, percent: USUAL_SHARE, window: None, native: Native::default() }
    }
}

/// What each part of a compacted context may take, in tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Budgets {
    /// What is kept as it is.
    pub keep: Budget,
    /// The request for a summary.
    pub request: u64,
    /// The summary.
    pub summary: u64,
    /// Sentences of the person that nothing else holds.
    pub sentences: u64,
}

/// Nothing kept as it is gets larger than this, however large the window is.
const MOST_KEPT: u64 = 20_000;
/// The longest summary that is asked for.
const LONGEST_SUMMARY: u64 = 4_000;
/// The most sentences that are carried over.
const MOST_SENTENCES: u64 = 4_000;
/// The largest request for a summary.
const LARGEST_REQUEST: u64 = 160_000;

impl Budgets {
    /// For a window, and a conversation of `said` tokens, of which at least half goes into the summary.
    #[must_use]
    pub fn new(window: Window, said: u64) -> Self {
        let kept = MOST_KEPT.min(window.room() / 8).min(said / 4);
        let request = LARGEST_REQUEST.min(window.room() / 8 * 7);
        let prompt = window.room() / 4;
        let keep = Budget { tail: kept, words: kept, prompt, notices: false };
        let summary = LONGEST_SUMMARY.min(window.room() / 10);
        let sentences = MOST_SENTENCES.min(window.room() / 20);
        Self { keep, request, summary, sentences }
    }

    /// The same in the middle of a run, which goes on with the system prompt that it has.
    #[must_use]
    pub fn in_a_run(self) -> Self {
        Self { keep: Budget { notices: true, ..self.keep }, ..self }
    }

    /// The same after a request turned out to be too long: estimates are not to be trusted then.
    #[must_use]
    pub fn harder(self) -> Self {
        let Budget { tail, words, prompt, notices } = self.keep;
        let keep = Budget { tail: tail / 4, words: words / 2, prompt: prompt / 2, notices };
        Self { keep, request: self.request / 2, ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_leave_room_for_the_reply() {
        let cases = [
            // context, output, percent: room, threshold
            (200_000, 64_000, 80, 136_000, 136_000),
            (1_048_576, 65_536, 80, 983_040, 838_860),
            (128_000, 16_384, 80, 111_616, 102_400),
            (8_192, 8_192, 80, 4_096, 4_096),
            (150, 0, 50, 150, 75),
            (0, 0, 80, 0, 1),
            (1_000, 0, 255, 1_000, 1_000),
        ];
        for (context, output, percent, room, threshold) in cases {
            let window = Window { context, output };
            assert_eq!((window.room(), window.threshold(percent)), (room, threshold), "{window:?}");
        }
    }

    #[test]
    fn what_is_kept_leaves_room_for_what_comes() {
        for context in [0, 400, 4_000, 200_000, 10_000_000] {
            let window = Window { context, output: context / 4 };
            let budgets = Budgets::new(window, u64::MAX);
            let kept = budgets.keep.tail + budgets.keep.words + budgets.keep.prompt;
            assert!(kept <= window.room() / 2, "{context}: {kept}");
            assert!(budgets.request <= window.room());
            assert!(budgets.harder().keep.tail <= budgets.keep.tail);
        }
    }
}
