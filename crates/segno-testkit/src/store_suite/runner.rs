//! Runs cases and says by name what became of each.
//!
//! Responsible for: isolation of the cases and the report. Must not: print.

use super::desk::Desk;
use super::properties::block_on;
use super::{Bench, Case, cases_of};
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;

/// What became of a case.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// It holds.
    Passed,
    /// The bench lacks an ability that it needs.
    Skipped,
    /// It does not hold, and how that showed.
    Failed(String),
}

/// What became of all cases.
#[derive(Debug, Default)]
pub struct Report {
    /// Each case's name (`group::name`), what it proves, and its verdict.
    pub rows: Vec<(String, &'static str, Verdict)>,
}

impl Report {
    /// How many cases passed.
    #[must_use]
    pub fn passed(&self) -> usize {
        self.rows.iter().filter(|(_, _, v)| *v == Verdict::Passed).count()
    }

    /// Panics with every failure when there is one.
    pub fn assert_passed(&self) {
        let failed = self.rows.iter().any(|(_, _, v)| matches!(v, Verdict::Failed(_)));
        assert!(!failed, "the store does not conform:\n{self}");
        assert!(!self.rows.is_empty(), "no case was run");
    }
}

/// Failures in full; what passed is only counted.
impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, proves, verdict) in &self.rows {
            if let Verdict::Failed(how) = verdict {
                writeln!(f, "FAILED {name}\n  should hold: {proves}\n  {how}")?;
            }
        }
        write!(f, "{} of {} cases passed", self.passed(), self.rows.len())
    }
}

/// Runs every case.
#[must_use]
pub fn run<H: Bench>() -> Report {
    run_where::<H>(|_| true)
}

/// Runs one group's cases.
#[must_use]
pub fn run_group<H: Bench>(group: &str) -> Report {
    run_where::<H>(|case| case.group == group)
}

fn run_where<H: Bench>(wanted: impl Fn(&Case<H>) -> bool) -> Report {
    let cases = cases_of::<H>().into_iter().filter(wanted);
    Report { rows: cases.map(|case| (name_of(&case), case.proves(), run_one(&case))).collect() }
}

fn name_of<H: Bench>(case: &Case<H>) -> String {
    format!("{}::{}", case.group, case.name)
}

fn run_one<H: Bench>(case: &Case<H>) -> Verdict {
    let outcome = catch_unwind(AssertUnwindSafe(|| {
        let desk = Desk::<H>::new();
        let skipped = Rc::clone(desk.skipped());
        block_on((case.work)(desk));
        skipped.get()
    }));
    match outcome {
        Ok(false) => Verdict::Passed,
        Ok(true) => Verdict::Skipped,
        Err(panic) => Verdict::Failed(message_of(&*panic)),
    }
}

fn message_of(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("it panicked").to_owned()
}
