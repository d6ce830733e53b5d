//! When a failed model call is tried again.
//!
//! Responsible for: one pure decision. Must not: wait (the caller's timer does), count across
//! runs, or change a request that was refused (that is [`crate::refusal`]).

use crate::ModelError;

/// How often, and how long between.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RetryPolicy {
    /// Calls per step, the first included.
    pub max_attempts: u32,
    /// The first wait; doubled each time.
    pub first_wait_ms: u64,
    /// No wait is longer, whatever the provider asks for.
    pub longest_wait_ms: u64,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self { max_attempts: 6, first_wait_ms: 1_000, longest_wait_ms: 60_000 }
    }
}

/// What to do about a failed call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Next {
    /// Wait, then the same request again.
    Retry { wait_ms: u64 },
    /// Give up.
    Fail,
}

/// Decides about the failure of call number `attempt` (from 1).
pub(crate) fn decide(policy: RetryPolicy, attempt: u32, error: &ModelError) -> Next {
    if !error.kind.is_retryable() || attempt >= policy.max_attempts {
        return Next::Fail;
    }
    let doubled = policy.first_wait_ms.saturating_mul(1 << attempt.saturating_sub(1).min(32));
    let wait = error.retry_after_ms.unwrap_or(doubled).min(policy.longest_wait_ms);
    Next::Retry { wait_ms: wait }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ModelErrorKind::{Broken, Busy, Key, Refused, Thinking, TooLong};

    /// Covers: #46.
    #[test]
    fn the_table() {
        let policy = RetryPolicy { max_attempts: 3, first_wait_ms: 100, longest_wait_ms: 250 };
        let cases = [
            (Busy, 1, None, Next::Retry { wait_ms: 100 }),
            (Busy, 2, None, Next::Retry { wait_ms: 200 }),
            (Busy, 2, Some(7), Next::Retry { wait_ms: 7 }),
            (Busy, 1, Some(9_999), Next::Retry { wait_ms: 250 }),
            (Busy, 3, None, Next::Fail),
            (Broken, 1, None, Next::Retry { wait_ms: 100 }),
            (Key, 1, None, Next::Fail),
            (TooLong, 1, None, Next::Fail),
            (Refused, 1, None, Next::Fail),
            (Thinking, 1, None, Next::Fail),
        ];
        for (kind, attempt, retry_after_ms, expected) in cases {
            let error = ModelError { retry_after_ms, ..ModelError::new(kind, "") };
            assert_eq!(decide(policy, attempt, &error), expected, "{kind:?} {attempt}");
        }
    }
}
