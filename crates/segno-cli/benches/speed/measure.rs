//! Time, medians and rows.
//!
//! Responsible for: how a figure comes about and how it is shown. Must not: know what is measured.

use std::fmt;
use std::time::{Duration, Instant};

/// How long `work` takes, and what it gives.
#[expect(clippy::disallowed_methods, reason = "measuring time is the subject here")]
pub(crate) fn timed<T>(work: impl FnOnce() -> T) -> (Duration, T) {
    let start = Instant::now();
    let done = work();
    (start.elapsed(), done)
}

/// The middle one.
pub(crate) fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times.get(times.len() / 2).copied().unwrap_or_default()
}

/// Our times and the floor's, taken in turns so that both meet the same machine.
#[derive(Default)]
pub(crate) struct Pairs {
    pub(crate) ours: Vec<Duration>,
    pub(crate) floor: Vec<Duration>,
}

impl Pairs {
    /// The row that says how many times the floor we take.
    pub(crate) fn row(self, what: &str, floor: &'static str, at_most: f64) -> Row {
        let (ours, base) = (median(self.ours), median(self.floor));
        let ratio = ours.as_secs_f64() / base.as_secs_f64().max(f64::MIN_POSITIVE);
        Row {
            what: what.to_owned(),
            figure: format!("{} ({floor}: {})", show(ours), show(base)),
            value: format!("{ratio:.2}x"),
            budget: format!("{at_most}x"),
            met: ratio <= at_most,
        }
    }
}

/// One line of the table.
pub(crate) struct Row {
    pub(crate) what: String,
    pub(crate) figure: String,
    pub(crate) value: String,
    pub(crate) budget: String,
    pub(crate) met: bool,
}

impl Row {
    /// A row whose budget is a time.
    pub(crate) fn time(what: &str, took: Duration, at_most: Duration, figure: String) -> Self {
        let (value, budget) = (show(took), show(at_most));
        Self { what: what.to_owned(), figure, value, budget, met: took <= at_most }
    }
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { what, figure, value, budget, .. } = self;
        let verdict = if self.met { "met" } else { "MISSED" };
        write!(f, "| {what} | {figure} | {value} | {budget} | {verdict} |")
    }
}

/// A time with a fitting unit.
pub(crate) fn show(time: Duration) -> String {
    match time.as_secs_f64() {
        s if s >= 1.0 => format!("{s:.2} s"),
        s if s >= 1e-3 => format!("{:.2} ms", s * 1e3),
        s => format!("{:.1} µs", s * 1e6),
    }
}
