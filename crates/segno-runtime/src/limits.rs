//! What a run may use up before a person has to look at it.
//!
//! Responsible for: the caps, and two pure decisions: whether interrupted work is taken up once more, and
//! whether another model call may be made. Must not: count (the state of the log does), or know a price
//! list.

use segno_model::Standing;
use segno_model::checkpoint::OpenRun;
use segno_model::record::{ModelRef, Usage};
use std::sync::Arc;

/// What so many tokens of a model cost, in millionths of a unit; none where that is not known.
pub type Price = Arc<dyn Fn(&ModelRef, &Usage) -> Option<u64> + Send + Sync>;

/// The caps of one run, over all its attempts.
#[derive(Clone)]
pub struct Limits {
    /// How often in a row it is taken up after a crash without any progress in between.
    pub stalled: u32,
    /// Attempts at all, the first included; progress does not reset them.
    pub attempts: u32,
    /// Tokens at all, cached ones included.
    pub tokens: Option<u64>,
    /// Money at all.
    pub spend: Option<SpendLimit>,
}

/// What a run may cost.
#[derive(Clone)]
pub struct SpendLimit {
    /// In millionths of the price list's unit.
    pub micros: u64,
    /// The price list; what has no price is not limited.
    pub price: Price,
}

impl Default for Limits {
    fn default() -> Self {
        Self { stalled: 3, attempts: 10, tokens: None, spend: None }
    }
}

impl std::fmt::Debug for Limits {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let spend = self.spend.as_ref().map(|spend| spend.micros);
        f.debug_struct("Limits")
            .field("stalled", &self.stalled)
            .field("attempts", &self.attempts)
            .field("tokens", &self.tokens)
            .field("spend_micros", &spend)
            .finish()
    }
}

/// What becomes of interrupted work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Attempt {
    /// It is taken up, as this attempt of this run.
    Begin { run: u64, attempt: u32 },
    /// A cap is reached; why, for people.
    Exhausted { run: u64, why: String },
}

impl Limits {
    /// Whether work that stands like this is taken up by `model`. `before` is the run as it was left,
    /// `next_run` the number of a new one.
    pub(crate) fn attempt(
        &self,
        standing: Standing,
        before: Option<&OpenRun>,
        next_run: u64,
        model: &ModelRef,
    ) -> Attempt {
        let Some(before) = before else { return Attempt::Begin { run: next_run, attempt: 1 } };
        let run = before.run;
        if let Some(why) = self.used_up(before, model) {
            return Attempt::Exhausted { run, why };
        }
        if !standing.costs_an_attempt() {
            return Attempt::Begin { run, attempt: before.attempt };
        }
        let why = if before.stalled >= self.stalled {
            format!("it was interrupted {} times in a row without progress", before.stalled + 1)
        } else if before.attempt >= self.attempts {
            format!("it was interrupted {} times", before.attempt)
        } else {
            return Attempt::Begin { run, attempt: before.attempt.saturating_add(1) };
        };
        Attempt::Exhausted { run, why }
    }

    /// Which of the caps that progress does not reset is reached, for people.
    pub(crate) fn used_up(&self, run: &OpenRun, model: &ModelRef) -> Option<String> {
        let used = run.used();
        if let Some(tokens) = self.tokens.filter(|tokens| used.context() >= *tokens) {
            return Some(format!("the limit of {tokens} tokens for one run was reached"));
        }
        let cost = |spend: &SpendLimit| (spend.price)(model, &used).unwrap_or(0);
        let spend = self.spend.as_ref().filter(|spend| cost(spend) >= spend.micros)?;
        let (whole, cents) = (spend.micros / 1_000_000, spend.micros % 1_000_000 / 10_000);
        Some(format!("the limit of ${whole}.{cents:02} for one run was reached"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn left(attempt: u32, stalled: u32, input: u64) -> OpenRun {
        let usage = Usage { input, ..Usage::default() };
        OpenRun { run: 4, attempt, stalled, usage, ..OpenRun::default() }
    }

    /// Crashes cost attempts, everything else costs none, and caps are checked before anything is begun.
    /// Covers: G9.
    #[test]
    fn the_table() {
        let price: Price =
            Arc::new(|model, used| (model.id == "known").then(|| used.input * 10_000));
        let model = ModelRef::new("test", "known");
        let limits = Limits {
            stalled: 2,
            attempts: 5,
            tokens: Some(1_000),
            spend: Some(SpendLimit { micros: 2_500_000, price }),
        };
        let begin = |attempt| Ok((4, attempt));
        let cases = [
            (Standing::Interrupted, left(1, 0, 0), begin(2)),
            (Standing::Suspended, left(1, 0, 0), begin(1)),
            (Standing::Waiting, left(3, 2, 0), begin(3)),
            (Standing::Interrupted, left(2, 1, 0), begin(3)),
            (Standing::Interrupted, left(3, 2, 0), Err("3 times in a row")),
            (Standing::Suspended, left(3, 2, 0), begin(3)),
            (Standing::Interrupted, left(5, 0, 0), Err("5 times")),
            (Standing::Suspended, left(5, 0, 0), begin(5)),
            (Standing::Suspended, left(1, 0, 1_000), Err("1000 tokens")),
            (Standing::Interrupted, left(1, 0, 250), Err("$2.50")),
            (Standing::Interrupted, left(1, 0, 249), begin(2)),
        ];
        for (standing, before, expected) in cases {
            let decided = match limits.attempt(standing, Some(&before), 9, &model) {
                Attempt::Begin { run, attempt } => Ok((run, attempt)),
                Attempt::Exhausted { why, .. } => Err(why),
            };
            match (&decided, expected) {
                (Ok(found), Ok(wanted)) => assert_eq!(*found, wanted, "{standing:?} {before:?}"),
                (Err(why), Err(part)) => assert!(why.contains(part), "{why}"),
                other => panic!("{standing:?} {before:?}: {other:?}"),
            }
        }
        let fresh = limits.attempt(Standing::Unanswered, None, 9, &model);
        assert_eq!(fresh, Attempt::Begin { run: 9, attempt: 1 });
        let unpriced = ModelRef::new("test", "other");
        assert_eq!(limits.used_up(&left(1, 0, 999), &unpriced), None, "nothing is made up");
    }
}
