//! A window that is too small for the work.
//!
//! Responsible for: noticing that summaries only make room for the same output again. Must not: look at
//! what was said.

use crate::event::CompactionCause;

/// Replies between two summaries that count as progress.
const PROGRESS: u64 = 3;

/// How many summaries in a row, without progress between them, show that another does not help. A provider that
/// refuses says so itself; near a threshold, small windows work on with a summary every few replies.
fn most(cause: CompactionCause) -> u32 {
    match cause {
        CompactionCause::Person => u32::MAX,
        CompactionCause::Threshold => 8,
        CompactionCause::TooLong => 3,
    }
}

/// How often a run's context was summarised, one time soon after the other.
#[derive(Debug, Default)]
pub(crate) struct Tight {
    at: Option<u64>,
    times: u32,
}

impl Tight {
    /// Whether another summary would help no more than the last ones; `replies` is how many the model has given.
    pub(super) fn leads_nowhere(&self, replies: u64, cause: CompactionCause) -> bool {
        self.is_soon(replies) && self.times >= most(cause)
    }

    /// A summary is asked for.
    pub(super) fn note(&mut self, replies: u64) {
        self.times = if self.is_soon(replies) { self.times.saturating_add(1) } else { 1 };
        self.at = Some(replies);
    }

    fn is_soon(&self, replies: u64) -> bool {
        self.at.is_some_and(|at| replies.saturating_sub(at) < PROGRESS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The replies at each attempt, the cause, and how many attempts are made.
    #[test]
    fn it_gives_up_when_there_is_no_progress_in_between() {
        use CompactionCause::{Person, Threshold, TooLong};
        let every = |step: usize| (0..100).step_by(step).collect::<Vec<u64>>();
        let cases = [
            ("refused again after each reply", every(1), TooLong, 3),
            ("refused again after two replies", every(2), TooLong, 3),
            ("refused after three replies each", every(3), TooLong, 34),
            ("large again after each reply", every(1), Threshold, 8),
            ("large again after two replies", every(2), Threshold, 8),
            ("large after three replies each", every(3), Threshold, 34),
            ("large without any reply", vec![5; 100], Threshold, 8),
            ("progress in between", vec![1, 2, 3, 9, 10, 11, 20, 21], TooLong, 8),
            ("a person asks", every(1), Person, 100),
        ];
        for (label, replies, cause, expected) in cases {
            let mut tight = Tight::default();
            let mut made = 0;
            for n in replies {
                if tight.leads_nowhere(n, cause) {
                    break;
                }
                tight.note(n);
                made += 1;
            }
            assert_eq!(made, expected, "{label}");
        }
    }
}
