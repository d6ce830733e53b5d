//! Other agents' sessions, as the commands see them.
//!
//! Responsible for: where to look, bringing the catalog up to date with a meter, and one [`Other`] per
//! session. Must not: read a format (that is `segno_store::foreign`), or change anything of another agent.

mod entry;
mod find;
mod import;
mod launch;
mod lineage;

pub use entry::{Other, OtherState};
pub use find::Target;
pub use import::{Imported, import};
pub use launch::Launch;

use crate::error::chain;
use crate::home::Home;
use crate::stores::Stores;
use crate::terminal::table::{plural, size};
use crate::terminal::{Screen, Text, Tone};
use segno_agent::project::Project;
use segno_store::catalog::{Catalog, ForeignRow, Progress, Unread};
use segno_store::foreign::{self, Agent, Roots};
use std::path::{Path, PathBuf};

/// How much a listing reads before it shows what it has.
pub const PATIENCE: u64 = 1 << 30;

/// Every session of every other agent that was found.
#[derive(Debug, Default)]
pub struct Others {
    /// The sessions, in no particular order.
    pub sessions: Vec<Other>,
    /// What was left for the next time because there is so much.
    pub unread: Unread,
    /// What could not be listed at all, as sentences.
    pub trouble: Vec<String>,
}

/// Where other agents keep their sessions: the home directory, what the environment says, the working
/// directory, and the directories of `projects`.
#[must_use]
pub fn roots(home: &Home, projects: Vec<PathBuf>) -> Roots {
    let env = std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
    let here = std::env::current_dir().ok();
    let projects = here.into_iter().chain(projects).collect();
    Roots { home: home.user.clone().unwrap_or_default(), env: env.collect(), projects }
}

/// How many sessions of which agents are there, subagents' left out. Reads none of them.
#[must_use]
pub fn counted(home: &Home) -> Vec<(Agent, usize)> {
    let (located, _) = foreign::locate(&roots(home, Vec::new()));
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

/// Looks for them, brings the catalog up to date, reading at most `limit` bytes, and says how far it is
/// on standard error if that is a terminal.
pub async fn all(stores: &Stores, limit: u64) -> Others {
    let known = stores.home.catalog();
    let mut catalog = known.is_file().then(|| Catalog::open(&known));
    let projects = catalog.as_mut().map(Catalog::known_places).unwrap_or_default();
    let roots = roots(&stores.home, projects);
    let (located, failed) = foreign::locate(&roots);
    let mut trouble: Vec<String> = failed.iter().map(|error| chain(error)).collect();
    // A folder is looked through once for each kind of file.
    trouble.dedup();
    if located.is_empty() && catalog.is_none() {
        return Others { trouble, ..Others::default() };
    }
    let mut catalog = catalog.unwrap_or_else(|| {
        stores.make_home();
        Catalog::open(&known)
    });
    let mut meter = Meter::new();
    let unread = catalog.refresh_foreign(located, limit, &mut |progress, _| meter.show(progress));
    meter.clear();
    look_at_places(&mut catalog).await;
    let running = foreign::running(&roots);
    let other = |row: ForeignRow| Other::new(row, &running);
    let mut sessions: Vec<Other> = catalog.into_foreign_rows().into_iter().map(other).collect();
    lineage::trace(&mut sessions);
    Others { sessions, unread, trouble }
}

/// Finds out what is known of the directories in which sessions ran, once for each.
async fn look_at_places(catalog: &mut Catalog) {
    let mut found = Vec::new();
    for cwd in catalog.unknown_places() {
        let path = Path::new(&cwd);
        if path.is_dir() {
            let facts = Project::facts_of(path).await;
            found.push((cwd, facts));
        }
    }
    if !found.is_empty() {
        catalog.set_places(found);
    }
}

/// One line that says how far indexing is.
struct Meter {
    screen: Screen,
    shown: usize,
    next: u64,
}

impl Meter {
    /// A new line is shown after so many bytes.
    const STEP: u64 = 16 << 20;

    fn new() -> Self {
        Self { screen: Screen::stderr(), shown: 0, next: Self::STEP }
    }

    fn show(&mut self, progress: Progress) {
        if !self.screen.look().terminal || progress.bytes < self.next {
            return;
        }
        self.next = progress.bytes + Self::STEP;
        self.clear();
        let text = format!(
            "reading {} of {}, {} of {}",
            progress.read,
            plural(progress.of, "session"),
            size(progress.bytes),
            size(progress.of_bytes)
        );
        self.shown = text.len();
        self.screen.text(Text::line(Tone::Dim, &text));
        self.screen.flush();
    }

    fn clear(&mut self) {
        self.screen.step_back(std::mem::take(&mut self.shown));
        self.screen.flush();
    }
}
