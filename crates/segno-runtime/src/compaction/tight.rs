//! A window that is too small for the work.
//!
//! Responsible for: noticing that summaries only make room for the same output again. Must not: look at
//! what was said.

/// So many summaries in a row do not help.
const MOST: u32 = 3;
/// Model calls between two of them that count as progress.
const PROGRESS: u64 = 6;

/// How often a run's requests were too long, one soon after the other.
#[derive(Debug, Default)]
pub(crate) struct Tight {
    at: Option<u64>,
    times: u32,
}

impl Tight {
    /// Whether another summary may help; `requests` is how many model calls the run has made.
    pub(crate) fn may_try_again(&mut self, requests: u64) -> bool {
        let soon = self.at.is_some_and(|at| requests.saturating_sub(at) < PROGRESS);
        self.times = if soon { self.times + 1 } else { 1 };
        self.at = Some(requests);
        self.times <= MOST
    }
}

#[cfg(test)]
mod tests {
    use super::Tight;

    #[test]
    fn it_gives_up_when_there_is_no_progress_in_between() {
        let cases: [(&[u64], &[bool]); 3] = [
            (&[4, 7, 10, 13, 16], &[true, true, true, false, false]),
            (&[4, 7, 10, 20, 23], &[true, true, true, true, true]),
            (&[4, 10, 16, 22, 28], &[true, true, true, true, true]),
        ];
        for (requests, expected) in cases {
            let mut tight = Tight::default();
            let found: Vec<bool> = requests.iter().map(|n| tight.may_try_again(*n)).collect();
            assert_eq!(found, expected, "{requests:?}");
        }
    }
}
