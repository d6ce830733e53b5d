//! What every store must do: one list of named cases, run on every implementation.
//!
//! Responsible for: the cases and their runner. Must not: know an implementation; what a case needs
//! beyond the store traits comes in through [`Bench`]. Cases panic when they fail; the runner collects.

mod bench;
mod desk;
mod runner;

mod active;
mod append;
mod blobs;
mod checkpoints;
mod children;
mod creation;
mod drafts;
mod forks;
mod inbox;
mod judging;
mod navigation;
mod ownership;
mod poison;
pub mod properties;
mod reading;

pub use bench::{Ability, Bench, Fault, StrictBench};
pub use runner::{Report, Verdict, run, run_group};

use desk::Desk;
use std::future::Future;
use std::pin::Pin;

/// A case's work.
type Work = Pin<Box<dyn Future<Output = ()>>>;

/// One thing that a store must do.
#[derive(Debug)]
pub struct Case<H: Bench> {
    /// The group that it belongs to.
    pub group: &'static str,
    /// Its name.
    pub name: &'static str,
    /// What it proves, and the ids that it covers.
    pub about: &'static str,
    work: fn(Desk<H>) -> Work,
}

impl<H: Bench> Case<H> {
    /// One sentence: what a passing run proves.
    #[must_use]
    pub fn proves(&self) -> &'static str {
        self.about.split(" Covers:").next().unwrap_or_default().trim()
    }

    /// The guarantees, checklist ids and bug-report rows that it holds up.
    #[must_use]
    pub fn covers(&self) -> Vec<&'static str> {
        let ids = self.about.split(" Covers:").nth(1).unwrap_or_default();
        ids.split(',')
            .map(|id| id.trim().trim_end_matches('.'))
            .filter(|id| !id.is_empty())
            .collect()
    }
}

/// Makes a module's list of cases: each name with its sentence and its `Covers:` line above it.
macro_rules! cases {
    ($group:literal: $($(#[doc = $doc:literal])+ $name:ident;)+) => {
        pub(super) fn cases<H: super::Bench>() -> Vec<super::Case<H>> {
            vec![$(super::Case {
                group: $group,
                name: stringify!($name),
                about: concat!($($doc),+),
                work: |desk| Box::pin($name(desk)),
            }),+]
        }
    };
}
use cases;

/// Every case, group by group.
#[must_use]
pub fn cases_of<H: Bench>() -> Vec<Case<H>> {
    let groups = [
        creation::cases(),
        children::cases(),
        append::cases(),
        navigation::cases(),
        forks::cases(),
        reading::cases(),
        ownership::cases(),
        judging::cases(),
        blobs::cases(),
        active::cases(),
        checkpoints::cases(),
        poison::cases(),
        drafts::cases(),
        inbox::cases(),
    ];
    groups.into_iter().flatten().collect()
}

/// Makes one `#[test]` per group of cases for a [`Bench`].
#[macro_export]
macro_rules! store_suite {
    ($bench:ty: $($group:ident),+ $(,)?) => {
        $(#[test]
        fn $group() {
            $crate::store_suite::run_group::<$bench>(stringify!($group)).assert_passed();
        })+
    };
    ($bench:ty) => {
        $crate::store_suite!($bench: creation, children, append, navigation, forks, reading, ownership,
            judging, blobs, active, checkpoints, poison, drafts, inbox);

        #[test]
        fn every_group_is_run() {
            let named = ["creation", "children", "append", "navigation", "forks", "reading", "ownership",
                "judging", "blobs", "active", "checkpoints", "poison", "drafts", "inbox"];
            for case in $crate::store_suite::cases_of::<$bench>() {
                assert!(named.contains(&case.group), "group {} has no test", case.group);
            }
        }
    };
}
