//! What would be done before the next request, from records alone.
//!
//! Responsible for: putting the sizes together that the table decides by. Must not: decide, or do it.

use super::{Measure, Pruning, Settings, Window, prune};
use crate::checkpoint::LastCompaction;
use crate::context::{self, Estimate, Target};
use crate::id::{Pos, SessionId};
use crate::line::Record;
use crate::record::ModelRef;
use std::borrow::Borrow;

/// A context, and what is known besides it.
#[derive(Debug, Clone, Copy)]
pub struct Outlook<'a, R> {
    /// The active records, in the order of the log.
    pub records: &'a [R],
    /// The current node.
    pub tip: Option<Pos>,
    /// The session, which the lines for old outputs name.
    pub session: &'a SessionId,
    /// The newest attempt at a compaction.
    pub last: Option<&'a LastCompaction>,
    /// The model that is asked next.
    pub model: &'a ModelRef,
    /// More about who that is, where it is known.
    pub target: Option<&'a Target>,
    /// The system prompt and the tools, in tokens; counts where nothing was measured.
    pub fixed: u64,
}

/// What follows from it.
#[derive(Debug, Clone)]
pub struct Forecast {
    /// The sizes.
    pub measure: Measure,
    /// The old outputs that could be left out.
    pub pruning: Option<Pruning>,
}

impl<R: Borrow<Record>> Outlook<'_, R> {
    /// The next request's size.
    #[must_use]
    pub fn estimate(&self) -> Estimate {
        let mut estimate =
            context::estimate_for(self.records, self.tip, Some(self.model), self.target);
        if estimate.measured_at.is_none() {
            estimate.tokens = estimate.tokens.saturating_add(self.fixed);
        }
        estimate
    }

    /// The sizes that a decision follows from.
    #[must_use]
    pub fn forecast(&self, settings: Settings, window: Window) -> Forecast {
        let (estimate, threshold) = (self.estimate().tokens, window.threshold(settings.percent));
        // Looking for old outputs costs a context, so only where it matters.
        let is_large = settings.auto && estimate >= threshold;
        let pruning =
            is_large.then(|| prune(self.records, self.tip, self.session, window)).flatten();
        let is_same = |l: &&LastCompaction| l.model.as_ref().is_none_or(|m| m == self.model);
        let measure = Measure {
            estimate,
            threshold,
            step: window.step(),
            freeable: pruning.as_ref().map_or(0, |pruning| pruning.frees),
            last: self.last.filter(is_same).map(|l| (l.tokens, l.failed)),
        };
        Forecast { measure, pruning }
    }
}
