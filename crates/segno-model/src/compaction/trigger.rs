//! Whether a context is made smaller before the next request, and how.
//!
//! Responsible for: one table from facts to a decision. What keeps it from paying again and again: an
//! automatic summary needs a step of growth since the last attempt, whatever came of that. Must not: choose
//! what is left out.

/// Whether a context is at its threshold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Size {
    /// Below it.
    Fits,
    /// At it or above.
    Over,
}

/// What leaving out old outputs would bring.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Prunable {
    /// Less than a step.
    Nothing,
    /// A step at least, and it would not last.
    Some,
    /// So much that the context would be a step below its threshold.
    Enough,
}

/// The last attempt at a summary for this model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Last {
    /// None, or the context has grown by a step since.
    Past,
    /// It was made, and the context has not grown by a step since.
    JustMade,
    /// It failed, and the context has not grown by a step since.
    JustFailed,
}

/// What the decision depends on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Facts {
    /// Whether the person lets it happen by itself.
    pub auto: bool,
    /// How large the context is.
    pub size: Size,
    /// What could be left out.
    pub prunable: Prunable,
    /// The last attempt.
    pub last: Last,
}

/// What is done before the next request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Decision {
    /// Nothing.
    Nothing,
    /// Old outputs are left out.
    Prune,
    /// A summary is made.
    Compact,
    /// Nothing, although the context is large; for this reason.
    GiveUp(Why),
}

/// Why a large context stays as it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Why {
    /// The last summary hardly made it smaller.
    Unshrunk,
    /// The last summary failed.
    Failed,
}

impl Why {
    /// For people.
    #[must_use]
    pub fn sentence(self) -> &'static str {
        match self {
            Self::Unshrunk => "the last summary left it almost as large as it is now",
            Self::Failed => "the last summary could not be made",
        }
    }
}

/// A row of the table.
#[derive(Debug)]
pub struct Row {
    /// Its name.
    pub label: &'static str,
    /// Whether it holds.
    pub holds: fn(Facts) -> bool,
    /// What follows.
    pub then: Decision,
}

/// The table; exactly one row holds for any facts.
pub const ROWS: &[Row] = &[
    Row { label: "switched-off", holds: |f| !f.auto, then: Decision::Nothing },
    Row { label: "fits", holds: |f| f.auto && f.size == Size::Fits, then: Decision::Nothing },
    Row {
        label: "old-outputs-are-enough",
        holds: |f| is_large(f) && f.prunable == Prunable::Enough,
        then: Decision::Prune,
    },
    Row {
        label: "a-summary-is-due",
        holds: |f| is_large(f) && f.prunable != Prunable::Enough && f.last == Last::Past,
        then: Decision::Compact,
    },
    Row {
        label: "old-outputs-at-least",
        holds: |f| is_large(f) && f.prunable == Prunable::Some && f.last != Last::Past,
        then: Decision::Prune,
    },
    Row {
        label: "unshrunk",
        holds: |f| is_large(f) && f.prunable == Prunable::Nothing && f.last == Last::JustMade,
        then: Decision::GiveUp(Why::Unshrunk),
    },
    Row {
        label: "failed",
        holds: |f| is_large(f) && f.prunable == Prunable::Nothing && f.last == Last::JustFailed,
        then: Decision::GiveUp(Why::Failed),
    },
];

fn is_large(facts: Facts) -> bool {
    facts.auto && facts.size == Size::Over
}

impl Facts {
    /// The row that holds.
    #[must_use]
    pub fn row(self) -> &'static Row {
        ROWS.iter().find(|row| (row.holds)(self)).unwrap_or(&ROWS[0])
    }
}

/// The sizes that the facts follow from, in tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Measure {
    /// The next request.
    pub estimate: u64,
    /// From where on it is to be made smaller.
    pub threshold: u64,
    /// Growth that counts.
    pub step: u64,
    /// What leaving out old outputs would free; 0 when that is less than what is worth it.
    pub freeable: u64,
    /// How large the context was behind the last attempt for this model, and whether that failed.
    pub last: Option<(u64, bool)>,
}

impl Measure {
    /// The facts.
    #[must_use]
    pub fn facts(self, auto: bool) -> Facts {
        let left = self.estimate.saturating_sub(self.freeable);
        let size = if self.estimate >= self.threshold { Size::Over } else { Size::Fits };
        let prunable = match self.freeable {
            0 => Prunable::Nothing,
            _ if left.saturating_add(self.step) <= self.threshold => Prunable::Enough,
            _ => Prunable::Some,
        };
        let last = match self.last {
            Some((then, failed)) if self.estimate < then.saturating_add(self.step) => {
                match failed {
                    true => Last::JustFailed,
                    false => Last::JustMade,
                }
            }
            _ => Last::Past,
        };
        Facts { auto, size, prunable, last }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    fn all() -> Vec<Facts> {
        let mut all = Vec::new();
        for auto in [true, false] {
            for size in [Size::Fits, Size::Over] {
                for prunable in [Prunable::Nothing, Prunable::Some, Prunable::Enough] {
                    for last in [Last::Past, Last::JustMade, Last::JustFailed] {
                        all.push(Facts { auto, size, prunable, last });
                    }
                }
            }
        }
        all
    }

    /// Any facts have exactly one row, and every row some facts.
    #[test]
    fn every_combination_has_exactly_one_row() {
        let mut used = HashSet::new();
        for facts in all() {
            let rows: Vec<_> = ROWS.iter().filter(|row| (row.holds)(facts)).collect();
            assert_eq!(rows.len(), 1, "{facts:?}: {rows:?}");
            used.insert(rows[0].label);
        }
        assert_eq!(used.len(), ROWS.len(), "a row that never holds");
    }

    #[test]
    fn the_table_by_sizes() {
        let none = None;
        let cases = [
            // estimate, freeable, last: decision (threshold 1000, step 100)
            (999, 900, none, Decision::Nothing),
            (1_000, 0, none, Decision::Compact),
            (1_000, 100, none, Decision::Prune),
            (1_000, 99, none, Decision::Compact),
            (1_000, 0, Some((400, false)), Decision::Compact),
            (1_000, 0, Some((901, false)), Decision::GiveUp(Why::Unshrunk)),
            (1_000, 0, Some((900, false)), Decision::Compact),
            (1_050, 0, Some((1_000, true)), Decision::GiveUp(Why::Failed)),
            (1_050, 60, Some((1_000, true)), Decision::Prune),
            (1_100, 0, Some((1_000, true)), Decision::Compact),
            (5_000, 0, Some((9_000, true)), Decision::GiveUp(Why::Failed)),
        ];
        for (estimate, freeable, last, expected) in cases {
            let measure = Measure { estimate, threshold: 1_000, step: 100, freeable, last };
            assert_eq!(measure.facts(true).row().then, expected, "{measure:?}");
            assert_eq!(measure.facts(false).row().then, Decision::Nothing);
        }
    }

    /// However a context grows and whatever comes of its summaries, there are never more summaries than
    /// steps that it grew by, and one.
    /// Covers: EV3.
    #[test]
    fn nobody_pays_again_and_again() {
        for (shrinks_to, failed) in [(1_000_u64, false), (990, false), (0, true)] {
            let (mut size, mut paid, mut last, mut grown) = (950_u64, 0, None, 0);
            for _ in 0..200 {
                size += 10;
                grown += 10;
                let measure =
                    Measure { estimate: size, threshold: 1_000, step: 100, freeable: 0, last };
                if measure.facts(true).row().then == Decision::Compact {
                    paid += 1;
                    size = if failed { size } else { shrinks_to };
                    last = Some((size, failed));
                }
            }
            assert!(paid <= grown / 100 + 1, "{paid} summaries for {grown} tokens");
        }
    }
}
