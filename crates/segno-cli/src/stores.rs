//! The composition root: the only place that names concrete stores.
//!
//! Responsible for: opening the store under the data directory and finding the session that a person
//! means. Must not: know what a command does with it.

use crate::args::quoted;
use crate::error::{CliError, ExitCode};
use crate::home::Home;
use crate::listing::{Ids, OWN};
use crate::others::{Other, Target};
use crate::sessions::{self, Entry, Standing};
use crate::terminal::{Screen, Text, Tone, clean, table};
use segno_agent::project::Project;
use segno_model::record::ProjectFacts;
use segno_model::store::{
    Clock as _, DamagedSession as _, HeldSession, Judged, LogOf, Opened, SessionStore, StoreError,
};
use segno_model::{SessionId, Timestamp};
use segno_store::catalog::Catalog;
use segno_store::{FileStore, RealDisk, Remains, SystemClock};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Once};

/// The log type that commands work on.
pub type Log = LogOf<FileStore>;

/// A session of ours that needs a decision.
pub type Damaged = <<FileStore as SessionStore>::Held as HeldSession>::Damaged;

/// The stores of this machine.
#[derive(Debug, Clone)]
pub struct Stores {
    /// Our own sessions.
    pub files: FileStore,
    /// Where they are.
    pub home: Home,
    /// What is wrong with the catalog is said once.
    said: Arc<Once>,
}

/// What a query stands for.
#[derive(Debug, Clone)]
pub enum Stored {
    /// A session.
    Session(SessionId),
    /// What is left of one whose log is gone.
    Remains(Remains),
}

impl Stores {
    /// The stores under `home`. Creates nothing.
    #[must_use]
    pub fn new(home: Home) -> Self {
        Self { files: FileStore::new(RealDisk, &home.data), home, said: Arc::new(Once::new()) }
    }

    /// Makes the home directory, private, if it is not there. Where that fails the catalog lives in memory.
    pub fn make_home(&self) {
        use std::os::unix::fs::DirBuilderExt as _;
        let _ = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&self.home.data);
    }

    /// The session that `query` stands for: the beginning of an id, a name, `last` (the newest of the
    /// project that `here` belongs to), or a path of its log or directory.
    ///
    /// # Errors
    /// When nothing fits, or several do; those are listed. Never a new session.
    pub async fn find(&self, query: &str, here: &Path) -> Result<SessionId, CliError> {
        with_log(self.find_or_remains(query, here).await?)
    }

    /// The same, for one who looks among other agents' next.
    ///
    /// # Errors
    /// As [`Stores::find`].
    pub(crate) async fn find_own(&self, query: &str, here: &Path) -> Result<SessionId, CliError> {
        with_log(self.own_or_remains(query, here).await?)
    }

    /// The same, for one who can do something with a session whose log is gone.
    ///
    /// # Errors
    /// As [`Stores::find`].
    pub async fn find_or_remains(&self, query: &str, here: &Path) -> Result<Stored, CliError> {
        match self.own_or_remains(query, here).await {
            Err(error) if error.exit == ExitCode::NotFound && query != "last" => {
                // It may be there and be another agent's: that it is nowhere would not be true.
                match Box::pin(self.find_any(query, here)).await {
                    Ok(Target::Other(session)) => Err(not_ours(&session)),
                    _ => Err(error),
                }
            }
            found => found,
        }
    }

    async fn own_or_remains(&self, query: &str, here: &Path) -> Result<Stored, CliError> {
        let query = own_word(query).unwrap_or(query);
        let id = self.named(query, here).await?;
        Ok(match self.files.remains(&id)? {
            Some(remains) => Stored::Remains(remains),
            None => Stored::Session(id),
        })
    }

    async fn named(&self, query: &str, here: &Path) -> Result<SessionId, CliError> {
        if query == "last" {
            let project = Project::facts_of(here).await;
            return self.newest(&project).await?.ok_or_else(no_last);
        }
        if let Some(found) = self.by_path(query, here) {
            return found;
        }
        if let Ok(id) = SessionId::parse(&query.trim().to_ascii_lowercase())
            && self.files.log_path(&id).is_ok()
        {
            return Ok(id);
        }
        let now = SystemClock.now();
        let entries = self.entries(now).await?;
        let prefix = query.trim().to_ascii_lowercase();
        let fits = |e: &&Entry| {
            let named = e.name.as_deref().is_some_and(|name| name.trim() == query.trim());
            !prefix.is_empty() && (named || e.id.as_str().starts_with(&prefix))
        };
        let mut found: Vec<&Entry> = entries.iter().filter(fits).collect();
        // A subagent's session never makes another one's name ambiguous.
        if found.iter().any(|entry| !entry.is_child) {
            found.retain(|entry| !entry.is_child);
        }
        match found.as_slice() {
            [] => Err(self.not_found(query, &prefix)),
            [one] => Ok(one.id.clone()),
            several => Err(ambiguous(query, several, &entries, now)),
        }
    }

    /// The newest session of a project in which something was said. Subagents' do not count.
    ///
    /// # Errors
    /// When the sessions cannot be listed.
    pub async fn newest(&self, project: &ProjectFacts) -> Result<Option<SessionId>, CliError> {
        let entries = self.entries(SystemClock.now()).await?;
        let counts = |e: &&Entry| {
            let there = !matches!(e.standing, Standing::Empty | Standing::Unreadable);
            there && !e.is_child && e.is_of(project) == Some(true)
        };
        Ok(entries.iter().find(counts).map(|e| e.id.clone()))
    }

    /// The list of sessions, if there is a home that it can be in.
    #[must_use]
    pub fn catalog(&self) -> Option<Catalog> {
        self.home.data.is_dir().then(|| self.open_catalog())
    }

    /// The list of sessions.
    #[must_use]
    pub fn open_catalog(&self) -> Catalog {
        Catalog::open(&self.home.catalog())
    }

    /// Every session, newest last message first.
    ///
    /// # Errors
    /// When the sessions cannot be listed.
    pub async fn entries(&self, now: Timestamp) -> Result<Vec<Entry>, CliError> {
        match self.catalog() {
            Some(mut catalog) => self.entries_of(&mut catalog, now).await,
            None => Ok(Vec::new()),
        }
    }

    /// The same with a catalog that is open.
    ///
    /// # Errors
    /// When the sessions cannot be listed.
    #[expect(clippy::unused_async, reason = "other stores will be asked over a network")]
    pub async fn entries_of(
        &self,
        catalog: &mut Catalog,
        now: Timestamp,
    ) -> Result<Vec<Entry>, CliError> {
        let (entries, trouble) = sessions::all(catalog, &self.files, now)?;
        if let Some(trouble) = trouble {
            self.said.call_once(|| note(&trouble));
        }
        Ok(entries)
    }

    /// Takes the writer's right of a session and judges it.
    ///
    /// # Errors
    /// When somebody else has it, when damage needs a decision first, or when it can only be read. Each
    /// names the commands that help.
    pub async fn open(&self, id: &SessionId) -> Result<Opened<Log>, CliError> {
        let judged = match self.files.open(id).await {
            Ok(held) => held.judge().await.map_err(CliError::from)?,
            Err(error) => return Err(not_opened(id, error)),
        };
        match judged {
            Judged::Sound(opened) => Ok(opened),
            Judged::Damaged(damaged) => {
                let first = damaged.findings().first().map_or("", |f| f.sentence.as_str());
                Err(CliError::new(
                    ExitCode::Damaged,
                    "This session is damaged and needs a decision.",
                )
                .because(first)
                .next(format!("`segno repair {id}`, or read it with `segno show {id}`.")))
            }
        }
    }

    /// Every session's id.
    ///
    /// # Errors
    /// A failing disk.
    pub async fn ids(&self) -> Result<Vec<SessionId>, CliError> {
        Ok(self.files.list().await?.into_iter().map(|listed| listed.id).collect())
    }

    /// The session that a path names, if `query` looks like one and something is there.
    fn by_path(&self, query: &str, here: &Path) -> Option<Result<SessionId, CliError>> {
        if !query.contains('/') {
            return None;
        }
        let path = here.join(query).canonicalize().ok()?;
        let dir = if path.is_file() { path.parent()?.to_owned() } else { path };
        let id = SessionId::parse(dir.file_name()?.to_str()?).ok()?;
        let ours = self.files.log_path(&id).ok().and_then(|log| log.canonicalize().ok());
        if ours.is_some_and(|log| log.parent() == Some(dir.as_path())) {
            return Some(Ok(id));
        }
        Some(Err(elsewhere(query, &dir)))
    }

    fn not_found(&self, query: &str, prefix: &str) -> CliError {
        if let Some(error) = no_file(query) {
            return error;
        }
        let error = CliError::new(ExitCode::NotFound, format!("There is no session `{query}`."));
        let trash = self.files.list_trash().unwrap_or_default();
        let mut trashed = trash
            .iter()
            .filter(|listed| !prefix.is_empty() && listed.id.as_str().starts_with(prefix));
        match (trashed.next(), trashed.next()) {
            (Some(only), None) => {
                error.because("it is in the trash").next(format!("segno trash restore {}", only.id))
            }
            _ => error
                .because("no id begins like that, and no session has that name")
                .next("`segno list --all` shows every session."),
        }
    }
}

/// What names one of ours in `segno:…`, as lists of every agent's sessions name it.
pub(crate) fn own_word(query: &str) -> Option<&str> {
    query.split_once(':').filter(|(agent, _)| agent.eq_ignore_ascii_case(OWN)).map(|(_, rest)| rest)
}

fn with_log(found: Stored) -> Result<SessionId, CliError> {
    match found {
        Stored::Session(id) => Ok(id),
        Stored::Remains(remains) => Err(lost(&remains)),
    }
}

/// A session that was asked for where only ours can be meant.
fn not_ours(session: &Other) -> CliError {
    let word = quoted(&session.word());
    CliError::usage(format!("{} is a session of {}.", session.word(), session.row.agent))
        .because("this is done to Segno's own sessions; those of other agents are only read")
        .next(format!("Take it in first: segno resume {word} --here"))
}

/// What somebody is told who needs the log of a session that lost it.
fn lost(remains: &Remains) -> CliError {
    let (id, dir) = (&remains.id, remains.dir.display());
    let inputs = match remains.inputs {
        0 => String::new(),
        _ => format!(" `segno inbox {id}` shows the inputs."),
    };
    CliError::new(ExitCode::Damaged, format!("The log of session {id} is gone."))
        .because(format!("in {dir} there is no log.jsonl; {}", sessions::left(remains)))
        .next(format!(
            "Put log.jsonl back from a backup, and the session goes on. What is left stays where it is.{inputs}"
        ))
}

/// Why the writer's right was not given, with commands that name the session.
#[must_use]
pub fn not_opened(id: &SessionId, error: StoreError) -> CliError {
    let held = matches!(error, StoreError::Held(_));
    let error = CliError::from(error);
    if held {
        error.next(format!(
            "`segno attach {id}` watches it and says something to it; \
             `segno resume {id} --take-over` asks for it; \
             `segno fork {id}` makes a copy to go on with."
        ))
    } else {
        error
    }
}

/// What is said of a path that is not there; nothing of what can be no path.
pub(crate) fn no_file(query: &str) -> Option<CliError> {
    let ends = [".json", ".jsonl", ".jsonl.zst", ".db", ".sqlite"];
    let is_path = query.contains('/') || ends.iter().any(|end| query.ends_with(end));
    is_path.then(|| {
        CliError::new(ExitCode::NotFound, format!("There is no file `{query}`."))
            .because("and no session has that name")
            .next("`segno list --all` shows every session; one is named by its id, too.")
    })
}

/// Says something beside the output.
pub(crate) fn note(text: &str) {
    let mut screen = Screen::stderr();
    screen.line(Text::line(Tone::Dim, &format!("note: {text}")));
    // A note that nobody can read changes nothing.
    let _ = screen.finish();
}

fn no_last() -> CliError {
    CliError::new(ExitCode::NotFound, "This project has no session yet.")
        .because(
            "`last` is the newest session of the project that the working directory belongs to",
        )
        .next("`segno` starts one; `segno list --all` shows those of other projects.")
}

/// A session's directory that is not under our data directory.
fn elsewhere(query: &str, dir: &Path) -> CliError {
    let home: Option<PathBuf> = dir.ancestors().nth(3).map(Path::to_owned);
    let error =
        CliError::new(ExitCode::NotFound, format!("{query} is not a session of this home."))
            .because("sessions are found in SEGNO_HOME or the directory that --home names");
    match home {
        Some(home) => error.next(format!("Add --home {}", quoted(&home.display().to_string()))),
        None => error.next("Name the home with --home DIR."),
    }
}

fn ambiguous(query: &str, found: &[&Entry], among: &[Entry], now: Timestamp) -> CliError {
    let ids = Ids::new(among.iter().map(|entry| entry.id.as_str()));
    let candidate = |entry: &&Entry| Candidate {
        id: ids.short(entry.id.as_str()).to_owned(),
        active: Some(entry.last_active(now)),
        title: entry.title().map(str::to_owned),
    };
    fits_several(query, found.iter().map(candidate), now)
}

/// One of several sessions that a query stands for.
pub(crate) struct Candidate {
    /// How it is named without a doubt.
    pub(crate) id: String,
    /// When something was said in it last.
    pub(crate) active: Option<Timestamp>,
    /// Its title.
    pub(crate) title: Option<String>,
}

/// Whether an error says that a query stands for several sessions, or is about another thing than what is not there.
pub(crate) fn fits(error: &CliError, query: &str) -> bool {
    error.exit != ExitCode::NotFound || error.sentence.starts_with(&format!("`{query}` fits "))
}

/// What somebody is told whose query stands for several sessions.
pub(crate) fn fits_several(
    query: &str,
    found: impl ExactSizeIterator<Item = Candidate>,
    now: Timestamp,
) -> CliError {
    const SHOWN: usize = 10;
    let count = found.len();
    let line = |Candidate { id, active, title }: Candidate| {
        let age = active.map_or_else(String::new, |at| table::age(now, at));
        let title = clean::cut(&clean::line(title.as_deref().unwrap_or("(empty)")), 50);
        format!("{}  {age:>4}  {title}", clean::line(&id))
    };
    let mut lines: Vec<String> = found.take(SHOWN).map(line).collect();
    if count > SHOWN {
        lines.push(format!("and {} more", count - SHOWN));
    }
    CliError::new(ExitCode::NotFound, format!("`{query}` fits {count} sessions."))
        .because(lines.join("\n"))
        .next("Give more of the id.")
}
