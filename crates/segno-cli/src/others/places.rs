//! Which project a directory belongs to, remembered from one list to the next.
//!
//! Responsible for: asking git only where what was remembered may no longer hold, and for many directories
//! at once. Must not: tell what goes into a session's record; that is looked at afresh.

use segno_agent::project::Project;
use segno_model::record::ProjectFacts;
use segno_store::catalog::{Catalog, Place};
use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio::task::{JoinHandle, JoinSet};

/// How many directories are looked at at the same time.
const AT_ONCE: usize = 8;

/// The project of a directory, which git may still be asked about.
pub enum Here {
    /// Remembered.
    Known(Arc<ProjectFacts>),
    /// Asked.
    Asked(PathBuf, JoinHandle<ProjectFacts>),
}

impl Here {
    /// Begins to find out, beside whatever is done next.
    pub fn begin(catalog: Option<&mut Catalog>, cwd: &Path) -> Self {
        let known = catalog.and_then(|catalog| catalog.place(cwd.to_str()?));
        let holds = |place: &&Place| {
            Project::mark(cwd, &place.facts).is_some_and(|mark| mark == place.mark)
        };
        if let Some(place) = known.filter(holds) {
            return Self::Known(Arc::clone(&place.facts));
        }
        let dir = cwd.to_owned();
        let asked = dir.clone();
        Self::Asked(dir, tokio::spawn(async move { Project::facts_of(&asked).await }))
    }

    /// What was found out, and remembers it.
    pub async fn facts(self, catalog: Option<&mut Catalog>) -> ProjectFacts {
        let (cwd, asked) = match self {
            Self::Known(facts) => return ProjectFacts::clone(&facts),
            Self::Asked(cwd, asked) => (cwd, asked),
        };
        let facts = asked.await.unwrap_or_default();
        if let Some(catalog) = catalog
            && let Some(mark) = Project::mark(&cwd, &facts)
        {
            let place = Place { mark, facts: Arc::new(facts.clone()) };
            catalog.set_places(HashMap::from([(facts.cwd.clone(), place)]));
        }
        facts
    }
}

/// Looks at the directories in which other agents' sessions ran and that were not there before.
pub(super) async fn look(catalog: &mut Catalog) {
    let mut found = HashMap::new();
    look_at_all(catalog.unknown_places().into_iter().collect(), &mut found).await;
    if !found.is_empty() {
        catalog.set_places(found);
    }
}

/// Looks at those directories that are there and not among those that were found.
pub(super) async fn look_at_all(cwds: BTreeSet<String>, found: &mut HashMap<String, Place>) {
    let is_new = |cwd: &String| !found.contains_key(cwd) && Path::new(cwd).is_dir();
    let new: Vec<String> = cwds.into_iter().filter(is_new).collect();
    for some in new.chunks(AT_ONCE) {
        let looking: JoinSet<_> = some.iter().cloned().map(look_at).collect();
        found.extend(looking.join_all().await);
    }
}

async fn look_at(cwd: String) -> (String, Place) {
    let facts = Project::facts_of(Path::new(&cwd)).await;
    let mark = Project::mark(Path::new(&cwd), &facts).unwrap_or_default();
    (cwd, Place { mark, facts: Arc::new(facts) })
}
