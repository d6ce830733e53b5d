//! Other agents' sessions, as the commands see them.
//!
//! Responsible for: where to look, bringing the catalog up to date, and one [`Other`] per session. Must not: read a format (that is `segno_store::foreign`), or change anything of another agent.

mod attached;
mod entry;
mod find;
mod hand_over;
mod import;
mod launch;
mod lineage;
mod meter;
mod places;
mod survey;
mod versions;

pub use attached::shown;
pub use entry::{KeptMark, Original, Other, OtherState};
pub use find::Target;
pub use hand_over::HandOver;
pub use import::{Imported, import};
pub use launch::Launch;
pub(crate) use lineage::continued;
pub use meter::Meter;
pub use places::Here;
pub use survey::Survey;
pub use versions::{says_something, versions};

use crate::home::Home;
use crate::stores::Stores;
use segno_model::store::StoreError;
use segno_store::catalog::Catalog;
use segno_store::foreign::{self, Agent, Roots};
use segno_store::kept::Kept;

/// So many damaged lines are named.
const NAMED: usize = 5;

/// Every session of every other agent that was found.
#[derive(Debug, Default)]
pub struct Others {
    /// The sessions, in no particular order.
    pub sessions: Vec<Other>,
    /// What could not be listed at all, as sentences.
    pub trouble: Vec<String>,
    /// Sessions that were known and are not there any more, nor is a copy of them.
    pub gone: Vec<Other>,
    /// Which files are others under another name, as sentences.
    pub links: Vec<String>,
}

/// Where other agents keep their sessions: the home directory, what the environment says, and the working
/// directory.
#[must_use]
pub fn roots(home: &Home) -> Roots {
    let env = std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
    let projects = std::env::current_dir().into_iter().collect();
    Roots { home: home.user.clone().unwrap_or_default(), env: env.collect(), projects }
}

/// What is kept of other agents' sessions, also what the index of that does not name any more; and what is the matter
/// with the index, as a sentence.
///
/// # Errors
/// A failing disk.
pub fn kept(stores: &Stores) -> Result<(Vec<Kept>, Option<String>), StoreError> {
    let (kept, damaged) = stores.files.kept_below(&roots(&stores.home))?;
    let said = |lines: &[usize]| {
        let numbers: Vec<String> = lines.iter().take(NAMED).map(usize::to_string).collect();
        let more = lines.len().saturating_sub(NAMED);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        let what = if lines.len() == 1 { "line" } else { "lines" };
        format!(
            "{}: {what} {}{more} damaged; what is kept was looked for among the copies, and the next `segno keep` \
             writes it anew",
            stores.files.kept_index().display(),
            numbers.join(", ")
        )
    };
    Ok((kept, (!damaged.is_empty()).then(|| said(&damaged))))
}

/// How many sessions of which agents are there, subagents' left out. Reads none of them.
#[must_use]
pub fn counted(home: &Home) -> Vec<(Agent, usize)> {
    let (located, _) = foreign::locate(&roots(home));
    let count = |agent| located.iter().filter(|l| l.agent == agent && l.parent.is_none()).count();
    Agent::ALL.into_iter().map(|agent| (agent, count(agent))).filter(|(_, n)| *n > 0).collect()
}

/// The same as words: `3 of Claude Code, 1 of Codex`; nothing when there are none.
#[must_use]
pub fn counted_words(home: &Home) -> Option<String> {
    let words: Vec<String> =
        counted(home).into_iter().map(|(agent, n)| format!("{n} of {agent}")).collect();
    (!words.is_empty()).then(|| words.join(", "))
}

/// Looks for them, brings the catalog up to date, and says how far it is on standard error if that is a
/// terminal.
pub async fn all(stores: &Stores, catalog: Option<Catalog>) -> Others {
    read(Survey::begin(stores, catalog).await).await
}

/// The same with those that were found.
pub async fn read(survey: Survey) -> Others {
    let mut meter = Meter::default();
    let seen = &mut |progress, other: Other| meter.show(progress, other.row.agent);
    let others = survey.read(seen).await;
    meter.clear();
    others
}
