//! A session of any agent, for another one to go on with.
//!
//! Responsible for: reading the session with those of its subagents, where the target keeps its files, making
//! them there, and the command that goes on. Must not: know a format, or change a session.

use super::{Launch, Other, Target, roots};
use crate::args::quoted;
use crate::error::{CliError, ExitCode};
use crate::history::History;
use crate::secrets::Masker;
use crate::stores::Stores;
use crate::terminal::clean;
use crate::terminal::table::plural;
use segno_model::record::{BlobRef, Body, GitFacts};
use segno_model::store::Clock as _;
use segno_model::store::StoreError;
use segno_model::{Record, SessionId, Timestamp};
use segno_store::convert::{
    self, Blobs, Child, ConvertError, Converted, Loss, NoBlobs, Options, Session, convert, new_id,
};
use segno_store::foreign::{self, Agent, Roots, View};
use segno_store::install::{InstallError, Installed, install, installed};
use segno_store::{RealDisk, SystemClock};
use std::collections::HashSet;
use std::path::{Path, PathBuf};

/// How deep subagents of subagents are looked for.
const DEPTH: u32 = 8;

/// A session as another agent's files, which are not there yet.
#[derive(Debug)]
pub struct HandOver {
    /// Whose it becomes.
    pub target: Agent,
    /// The files, the command and the losses.
    pub converted: Converted,
    /// Where the files go.
    root: PathBuf,
    /// Where agents keep theirs.
    roots: Roots,
    /// How commands name the original.
    word: String,
    /// What else there is to know about it.
    pub notes: Vec<String>,
}

/// Masks the secrets in files, also where one stands in front of what gives it away.
fn mask(files: &mut [convert::File], masker: &mut Masker) {
    for file in &*files {
        masker.look_through(&String::from_utf8_lossy(&file.bytes));
    }
    for file in files {
        let masked = masker.json(&String::from_utf8_lossy(&file.bytes)).into_owned();
        file.bytes = masked.into_bytes();
    }
}

impl HandOver {
    /// Converts a session. Where its directory is not there, the copy is one of `here`. What `masker` masks is
    /// masked in it.
    ///
    /// # Errors
    /// When it cannot be read, nothing was said in it, or the target is none.
    pub async fn of(
        target: Agent,
        session: Target,
        stores: &Stores,
        here: &Path,
        masker: &mut Masker,
    ) -> Result<Self, CliError> {
        let mut notes = Vec::new();
        let (mut read, word, blobs): (_, _, Box<dyn Blobs>) = match session {
            Target::Own(id) => {
                let mut own = Own::of(stores).await?;
                let read = own.read(&id, DEPTH).await?;
                notes.append(&mut own.notes);
                let blobs = OwnBlobs { stores: stores.clone(), ids: own.ids };
                (read, id.to_string(), Box::new(blobs))
            }
            Target::Other(session) => {
                if session.state.is_live() {
                    notes.push(
                        "its agent is at work on it: the copy ends where it is now".to_owned(),
                    );
                }
                let read = other(&session, &mut notes)?;
                (read, session.word(), Box::new(NoBlobs))
            }
        };
        if read.is_damaged() {
            notes.push(format!("it is damaged; `segno check {}` tells where", quoted(&word)));
        }
        notes.extend(moved_here(&mut read, here));
        let roots = roots(&stores.home);
        let project = foreign::project_name(target, &roots, &read.cwd);
        if masker.is_on() {
            // Another copy than the one with everything in it.
            read.id.push_str(" masked");
            // An agent's titles are cut, and half a secret is none that could be found.
            for title in [&mut read.named, &mut read.titled].into_iter().flatten() {
                *title = masker.text(title).into_owned();
            }
        }
        let (id, now) = (new_id(&read, target), Some(SystemClock.now()));
        let options = Options { id, project, now, ..Options::default() };
        let mut converted =
            convert(&read, target, &options, &*blobs).map_err(|e| refused(&e, &word))?;
        if masker.is_on() {
            mask(&mut converted.files, masker);
            for note in &mut notes {
                *note = masker.text(note).into_owned();
            }
        }
        let own_place = || stores.home.data.join("handed-over").join(target.id());
        let root = foreign::home(target, &roots).unwrap_or_else(own_place);
        Ok(Self { target, converted, root, roots, word, notes })
    }

    /// How many different secrets are in it, as far as they can be told.
    #[must_use]
    pub fn secrets(&self) -> usize {
        let mut masker = Masker::new(true);
        for file in &self.converted.files {
            masker.look_through(&String::from_utf8_lossy(&file.bytes));
        }
        masker.different()
    }

    /// Notes how many secrets go along, and what makes a copy without them.
    pub fn tell_of_secrets(&mut self) {
        let count = self.secrets();
        if count > 0 {
            let (word, target) = (&self.word, self.target.id());
            let go = if count == 1 { "goes" } else { "go" };
            let without = format!("`segno export {word} --format {target} --redact --install`");
            let secrets = plural(count, "secret");
            self.notes.push(format!("{secrets} {go} along; {without} makes a copy without"));
        }
    }

    /// Where its files are once they are there, its own first.
    #[must_use]
    pub fn files(&self) -> Vec<PathBuf> {
        self.converted.whole().iter().map(|file| self.root.join(&file.path)).collect()
    }

    /// The session's own file, if it was installed before and nothing was said in the original since, wherever its
    /// agent has put it.
    ///
    /// # Errors
    /// When that cannot be seen.
    pub fn installed(&self) -> Result<Option<PathBuf>, CliError> {
        let Converted { files, id, .. } = &self.converted;
        let there = installed(&RealDisk, &self.root, files, id);
        let there = there.map_err(|e| self.not_installed(e))?;
        // What its importer took in is in a database, and the file stays where it was made.
        let has_folder = foreign::home(self.target, &self.roots).is_some();
        let elsewhere = || foreign::whereabouts(self.target, &self.roots, id);
        Ok(there.or_else(|| has_folder.then(elsewhere).flatten()))
    }

    /// Makes the files in the target's folder.
    ///
    /// # Errors
    /// When a name is taken, or they cannot be written. Nothing was made then.
    pub fn install(&self) -> Result<Installed, CliError> {
        if let Some(path) = self.installed()? {
            return Ok(Installed::Before(path));
        }
        install(&RealDisk, &self.root, &self.converted.whole(), &self.converted.id)
            .map_err(|e| self.not_installed(e))
    }

    /// What is lost, each with a line for people.
    pub fn losses(&self) -> impl Iterator<Item = (&Loss, String)> {
        self.converted.losses.iter().map(|loss| (loss, sentence(loss)))
    }

    /// How commands name the original.
    #[must_use]
    pub fn word(&self) -> &str {
        &self.word
    }

    /// The commands that go on with it, once its files are there: `cd … && agent …`.
    #[must_use]
    pub fn line(&self) -> String {
        let before = self.before();
        let before: String = before.iter().map(|words| format!("{} && ", joined(words))).collect();
        let launch = self.launch();
        match &launch.cwd {
            Some(cwd) => {
                format!(
                    "cd {} && {before}{}",
                    quoted(&cwd.display().to_string()),
                    joined(&launch.words)
                )
            }
            None => format!("{before}{}", launch.line()),
        }
    }

    /// Becomes the target, with the session.
    ///
    /// # Errors
    /// When a program is not there, or an import by the target failed.
    pub fn launch_it(&self) -> Result<ExitCode, CliError> {
        let launch = self.launch();
        for words in self.before() {
            launch.run_before(&words, &self.line())?;
        }
        launch.run(&self.word)
    }

    fn launch(&self) -> Launch {
        let resume = &self.converted.resume;
        Launch { words: resume.command.clone(), cwd: resume.cwd.clone().map(PathBuf::from) }
    }

    /// The commands that have to run first, each with its file in its place.
    fn before(&self) -> Vec<Vec<String>> {
        let with_file = |(words, file): (&Vec<String>, &convert::File)| {
            let path = self.root.join(&file.path).display().to_string();
            let named = |word: &String| match word == convert::Resume::FILE {
                true => path.clone(),
                false => word.clone(),
            };
            words.iter().map(named).collect()
        };
        self.converted.resume.before.iter().zip(&self.converted.files).map(with_file).collect()
    }

    fn not_installed(&self, error: InstallError) -> CliError {
        match error {
            InstallError::Store(error @ StoreError::ReadOnly(_)) => {
                let folder = self.root.display().to_string();
                CliError::from(error).next(format!(
                    "Make {} writable and do it again; or write a file elsewhere: `segno export {} --format {} -o FILE`.",
                    quoted(&folder),
                    quoted(&self.word),
                    self.target.id()
                ))
            }
            InstallError::Store(error) => error.into(),
            other => CliError::failed(format!("Nothing was written for {}.", self.target))
                .because(other)
                .next(format!(
                    "If a file is in the way, move it away; or write one elsewhere: \
                     `segno export {} --format {} -o FILE`.",
                    quoted(&self.word),
                    self.target.id()
                )),
        }
    }
}

/// Makes a session whose directory is not there one of `here`. That is another copy than the one of another directory:
/// one id in two of them would be one session with two histories. What there is to say of it.
fn moved_here(session: &mut Session, here: &Path) -> Option<String> {
    if Path::new(&session.cwd).is_dir() {
        return None;
    }
    let gone = std::mem::replace(&mut session.cwd, here.display().to_string());
    session.id.push_str(" in ");
    session.id.push_str(&session.cwd);
    (!gone.is_empty()).then(|| format!("{gone} is not there; the copy is for this directory"))
}

fn joined(words: &[String]) -> String {
    words.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" ")
}

fn refused(error: &ConvertError, word: &str) -> CliError {
    let names: Vec<&str> = convert::TARGETS.iter().map(|agent| agent.id()).collect();
    let next = match error {
        ConvertError::NotATarget(_) => format!("Those that can: {}.", names.join(", ")),
        ConvertError::Empty => format!("`segno show {}` shows what is in it.", quoted(word)),
    };
    CliError::failed("The session cannot be handed over.").because(error).next(next)
}

/// `3 branches beside the current one (records 4, 9, 12)`
fn sentence(loss: &Loss) -> String {
    /// So many records are named.
    const NAMED: usize = 6;
    let named: Vec<String> = loss.records.iter().take(NAMED).map(u64::to_string).collect();
    let more = if loss.records.len() > NAMED { ", …" } else { "" };
    let which = match loss.records.len() {
        0 => String::new(),
        1 => format!(" (record {})", named.join("")),
        _ => format!(" (records {}{more})", named.join(", ")),
    };
    let whose = loss.subagent.as_ref().map_or(String::new(), |id| format!(", of subagent {id}"));
    format!("{}{which}{whose}", loss.kind.words(loss.count))
}

/// Reads sessions of ours with those of their subagents.
struct Own<'a> {
    stores: &'a Stores,
    /// Imported subagents: their parents, what they are, and what they were imported from.
    imported: Vec<(String, SessionId, String)>,
    /// What was read.
    ids: Vec<SessionId>,
    notes: Vec<String>,
}

impl<'a> Own<'a> {
    async fn of(stores: &'a Stores) -> Result<Self, CliError> {
        let entries = stores.entries(SystemClock.now()).await?;
        let imported = entries
            .into_iter()
            .filter_map(|entry| Some((entry.parent?, entry.id, entry.imported_from?)))
            .collect();
        Ok(Self { stores, imported, ids: Vec::new(), notes: Vec::new() })
    }

    async fn read(&mut self, id: &SessionId, depth: u32) -> Result<Session, CliError> {
        let history = History::read(self.stores, id).await?;
        self.ids.push(id.clone());
        let mut children = Vec::new();
        for (child, from) in self.below(id, &history.records)? {
            if depth == 0 || self.ids.contains(&child) {
                continue;
            }
            match Box::pin(self.read(&child, depth - 1)).await {
                Ok(session) => {
                    let of_import = match &from {
                        Some(from) => self.facts_of_original(from).await,
                        None => (None, None),
                    };
                    let call = called(&history.records, &child).or(of_import.0);
                    let role = role(&session.records).or(of_import.1);
                    children.push(Child { session, call, role });
                }
                Err(error) => self.notes.push(without_subagent(&error)),
            }
        }
        Ok(whole(id, history, children))
    }

    /// Its subagents' sessions: those below it, those that it tells of and that are below its origin, and those
    /// that were imported with it, with where they come from.
    fn below(
        &self,
        id: &SessionId,
        records: &[Record],
    ) -> Result<Vec<(SessionId, Option<String>)>, CliError> {
        let own = self.stores.files.children_now(id)?.into_iter().filter(|child| !child.is_link);
        let told = records.iter().filter_map(|record| match record.body() {
            Body::Child(told) => SessionId::parse(&told.child).ok(),
            _ => None,
        });
        let imported = self.imported.iter().filter(|(parent, ..)| parent == id.as_str());
        let imported = imported.map(|(_, id, from)| (id.clone(), Some(from.clone())));
        let below = own.map(|child| child.id).chain(told).map(|id| (id, None));
        let mut seen = HashSet::new();
        Ok(below.chain(imported).filter(|(id, _)| seen.insert(id.clone())).collect())
    }

    /// The call that started an imported subagent, and its role: only the original says that, if it is there.
    async fn facts_of_original(&self, from: &str) -> (Option<String>, Option<String>) {
        match self.stores.find_any(from, Path::new("/")).await {
            Ok(Target::Other(session)) => match View::transcript(&session.located()) {
                Ok(View { facts, .. }) => (facts.call, facts.role),
                Err(_) => (None, None),
            },
            _ => (None, None),
        }
    }
}

fn without_subagent(error: &CliError) -> String {
    format!("a subagent's session is not in it: {}", error.sentence)
}

fn whole(id: &SessionId, history: History, children: Vec<Child>) -> Session {
    let header = history.header();
    let mut cwd = header.map(|header| header.project.cwd.clone()).unwrap_or_default();
    let mut git = header.and_then(|header| header.git.clone());
    for record in &history.records {
        if let Body::Environment(now) = record.body() {
            git = now.git.clone().or(git);
            if let Some(project) = &now.project {
                cwd.clone_from(&project.cwd);
            }
        }
    }
    let GitFacts { branch, commit, .. } = git.unwrap_or_default();
    Session {
        source: "segno".to_owned(),
        id: id.to_string(),
        named: history.state.in_force.name.clone(),
        titled: None,
        cwd,
        branch,
        commit,
        created: id.dated_ms().map(Timestamp),
        tip: history.tip(),
        damages: convert::damages(&history.findings),
        records: history.records,
        children,
        ..Session::default()
    }
}

/// The call that started a child.
fn called(parent: &[Record], child: &SessionId) -> Option<String> {
    parent.iter().find_map(|record| match record.body() {
        Body::Child(told) if told.child == child.as_str() => Some(told.call_id.clone()),
        _ => None,
    })
}

fn role(records: &[Record]) -> Option<String> {
    records.iter().find_map(|record| match record.body() {
        Body::Session(header) => {
            let name = header.launch.as_ref()?.get("role")?.get("name")?;
            name.as_str().map(str::to_owned)
        }
        _ => None,
    })
}

/// Another agent's session, with those of its subagents. One of those that cannot be read is told.
fn other(session: &Other, notes: &mut Vec<String>) -> Result<Session, CliError> {
    let mut seen = HashSet::from([session.row.path.clone()]);
    Ok(read(session, DEPTH, &mut seen, notes)?.session)
}

fn read(
    session: &Other,
    depth: u32,
    seen: &mut HashSet<PathBuf>,
    notes: &mut Vec<String>,
) -> Result<Child, CliError> {
    let located = session.located();
    let view = View::to_convert(&located)?;
    let (call, role) = (view.facts.call.clone(), view.facts.role.clone());
    notes.extend(view.facts.pending.iter().map(|prompt| {
        format!("not in it: a prompt that waited and was never delivered: {}", clean::line(prompt))
    }));
    let mut whole = Session::of_view(located.agent, view);
    for child in session.all_subagents() {
        // In a database all have one path.
        if depth == 0 || child.row.key.is_none() && !seen.insert(child.row.path.clone()) {
            continue;
        }
        match read(&child, depth - 1, seen, notes) {
            Ok(child) => whole.children.push(child),
            Err(error) => notes.push(without_subagent(&error)),
        }
    }
    Ok(Child { session: whole, call, role })
}

/// The large values of sessions of ours.
struct OwnBlobs {
    stores: Stores,
    ids: Vec<SessionId>,
}

impl Blobs for OwnBlobs {
    fn bytes(&self, blob: &BlobRef) -> Option<Vec<u8>> {
        self.ids.iter().find_map(|id| self.stores.files.blob_now(id, blob).ok())
    }
}
