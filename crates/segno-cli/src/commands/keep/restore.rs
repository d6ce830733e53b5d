//! `segno keep --restore`: kept files under their old names again, as they are kept or as they were before.
//!
//! Responsible for: which files of which session, and saying what became of each. Must not: replace anything: a name that is taken stays
//! with whoever has it.

use super::{Workplace, flaws, versions};
use crate::args::{KeepArgs, quoted};
use crate::commands::output::{can_be_file, file};
use crate::error::{CliError, ExitCode};
use crate::others::{self, Other, Target};
use crate::terminal::{Screen, Text, Tone, clean};
use segno_model::store::StoreError;
use segno_store::convert::File;
use segno_store::foreign::Agent;
use segno_store::install::{InstallError, Installed, put_back};
use segno_store::kept::{Flaw, Flawed, Kept, Version};
use segno_store::{Disk as _, RealDisk};
use serde_json::json;
use std::path::{Path, PathBuf};

/// What became of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    Restored,
    /// An earlier version, into a new file.
    Written,
    /// What is there is the same.
    There,
    /// Something else is there, and stays.
    Taken,
    /// The copy is not what was kept, and nothing was put back.
    Damaged,
}

impl Fate {
    fn word(self) -> &'static str {
        match self {
            Self::Restored => "restored",
            Self::Written => "written",
            Self::There => "there",
            Self::Taken => "taken",
            Self::Damaged => "damaged",
        }
    }
}

/// A file and what became of it.
struct Restored {
    path: PathBuf,
    fate: Fate,
    /// The version that was taken because what was kept last holds nothing.
    version: Option<u64>,
    /// What is the matter with the copy.
    flaw: Option<Flawed>,
}

pub(super) async fn restore(
    args: &KeepArgs,
    place: &Workplace,
    screen: &mut Screen,
) -> Result<ExitCode, CliError> {
    let all = others::kept(&place.stores)?.0;
    let sessions = kept(args, &all, place).await?;
    if args.versions {
        return versions::list(args, &sessions, place, screen);
    }
    if args.output.is_some() && (args.version.len() > 1 || sessions.len() > 1) {
        return Err(CliError::usage("-o names a file for one version of one session.")
            .next("Give one SESSION, at most one --version, and -o FILE."));
    }
    let mut fates: Vec<Restored> = Vec::new();
    let mut hints = Vec::new();
    for (query, kept) in &sessions {
        let chosen = versions::chosen(&args.version, query, kept, place)?;
        if let Some(output) = &args.output {
            if file(Some(output)).is_none() {
                return to_standard(args, kept, chosen.first(), place, screen);
            }
            let target = place.cwd.join(output);
            can_be_file(&target, "session.jsonl")?;
            fates.push(written(kept, chosen.first(), &target, place)?);
            continue;
        }
        if kept.is_rows() {
            return Err(no_database(query, kept, place)?);
        }
        fates.extend(put_all_back(kept, &all, &chosen, place)?);
        if chosen.is_empty() {
            hints.extend(versions::hint(query, kept, place)?);
        }
    }
    Ok(tell(args, &fates, &hints, screen))
}

/// Puts the files of a session and its subagents back. A copy that is not what was kept is left where it is.
fn put_all_back(
    kept: &Kept,
    all: &[Kept],
    chosen: &[Version],
    place: &Workplace,
) -> Result<Vec<Restored>, CliError> {
    let parts = parts(kept, all);
    let mut flaws = flaws::by_original(parts.iter().copied(), place);
    let mut fates = Vec::new();
    for original in files(&parts) {
        let version = chosen.iter().find(|version| version.original == original);
        let copy = place.stores.files.kept_copy(&original).unwrap_or_default();
        let fuller = match version {
            Some(_) => None,
            None => versions::fuller(kept, &original, &copy, place)?,
        };
        let copy = version.or(fuller.as_ref()).map_or(copy, |version| version.path.clone());
        let is_newest = version.is_none() && fuller.is_none();
        let flaw = flaws.iter().position(|(path, _)| is_newest && *path == original);
        let flaw = flaw.map(|at| flaws.swap_remove(at).1);
        let fate = match flaw {
            Some(_) => Fate::Damaged,
            None => one(&copy, &original)?,
        };
        let version = fuller.map(|version| version.number);
        fates.push(Restored { path: original, fate, version, flaw });
    }
    Ok(fates)
}

/// What is kept of a session's own file, or a version of one, on standard output. What is told goes beside it.
fn to_standard(
    args: &KeepArgs,
    kept: &Kept,
    version: Option<&Version>,
    place: &Workplace,
    screen: &mut Screen,
) -> Result<ExitCode, CliError> {
    if args.json {
        return Err(CliError::usage("Only one of them can go to standard output.")
            .because("--json prints a report there, and `-o -` the session")
            .next("Leave one of them out, or name a file: -o FILE"));
    }
    let Source { path, version, flaw } = source(kept, version, place)?;
    let mut beside = Screen::stderr();
    let told = |text: String| Text::line(Tone::Warning, &clean::line(&format!("note: {text}")));
    if let Some(number) = version {
        beside.line(told(format!("version {number}, as what was kept last holds nothing")));
    }
    if let Some(Flawed { flaw, copy, .. }) = &flaw {
        beside.line(told(format!("its copy {flaw}: {}", copy.display())));
    }
    // What nobody can read there changes nothing about the result.
    let _ = beside.finish();
    if !flaw.as_ref().is_some_and(is_nothing) {
        screen.exact(&std::fs::read(&path).map_err(|error| unreadable(&path, error))?);
    }
    Ok(if flaw.is_some() { ExitCode::Damaged } else { ExitCode::Done })
}

/// What is taken of a session's own file.
struct Source {
    path: PathBuf,
    /// The version that is taken because what was kept last holds nothing.
    version: Option<u64>,
    /// What is the matter with it.
    flaw: Option<Flawed>,
}

/// What is kept of a session's own file: the version that was asked for, or else the newest that holds something.
fn source(kept: &Kept, version: Option<&Version>, place: &Workplace) -> Result<Source, CliError> {
    let own = kept.files.first();
    let fuller = match (version, own) {
        (None, Some(own)) => versions::fuller(kept, own, &kept.copy, place)?,
        _ => None,
    };
    let is_newest = version.is_none() && fuller.is_none();
    let mut flaws = flaws::by_original(std::iter::once(kept), place).into_iter();
    let flaw = flaws.find(|(path, _)| is_newest && Some(path) == own).map(|(_, flaw)| flaw);
    let path = version.or(fuller.as_ref()).map_or(&kept.copy, |version| &version.path).clone();
    Ok(Source { path, version: fuller.map(|version| version.number), flaw })
}

/// Whether a flaw leaves nothing to be had.
fn is_nothing(flawed: &Flawed) -> bool {
    matches!(flawed.flaw, Flaw::Gone | Flaw::Unreadable(_))
}

/// What is kept of a session's own file, or a version of one, in a new file: also what is left of a damaged copy.
fn written(
    kept: &Kept,
    version: Option<&Version>,
    target: &Path,
    place: &Workplace,
) -> Result<Restored, CliError> {
    let Source { path: from, version, flaw } = source(kept, version, place)?;
    let path = target.to_owned();
    if flaw.as_ref().is_some_and(is_nothing) {
        return Ok(Restored { path, fate: Fate::Damaged, version: None, flaw });
    }
    let fate = match one(&from, target)? {
        Fate::Restored => Fate::Written,
        // It asks for a new file, whatever is in the one that is there.
        _ => Fate::Taken,
    };
    Ok(Restored { path, fate, version, flaw })
}

/// Why a session of a database is not put back, and what can be had of it.
fn no_database(query: &str, kept: &Kept, place: &Workplace) -> Result<CliError, CliError> {
    let fuller = match kept.files.first() {
        Some(own) => versions::fuller(kept, own, &kept.copy, place)?,
        None => None,
    };
    let copy = fuller.map_or_else(|| kept.copy.clone(), |version| version.path);
    let word = quoted(&flaws::word(kept));
    Ok(CliError::failed("It was a session in a database, and a database is never written.")
        .because(format!("its rows are kept in {}", copy.display()))
        .next(format!(
            "Go on with it here: `segno resume {word} --here`. Its rows as a database of their own: \
             `segno keep --restore {} -o FILE`.",
            quoted(query)
        )))
}

fn tell(args: &KeepArgs, fates: &[Restored], hints: &[String], screen: &mut Screen) -> ExitCode {
    let taken = fates.iter().any(|one| one.fate == Fate::Taken);
    if args.json {
        let file = |one: &Restored| {
            let problem = one.flaw.as_ref().map(|flawed| format!("the copy {}", flawed.flaw));
            json!({
                "path": one.path, "outcome": one.fate.word(), "version": one.version,
                "problem": problem,
            })
        };
        screen.json(&json!({ "version": 1, "files": fates.iter().map(file).collect::<Vec<_>>() }));
    } else {
        for one in fates {
            screen.line(line(one));
        }
        for hint in hints {
            screen.line(Text::line(Tone::Dim, hint));
        }
        if fates.iter().any(|one| one.fate == Fate::Damaged) && args.output.is_none() {
            let query = args.sessions.first().map(|query| quoted(query)).unwrap_or_default();
            let left = format!(
                "What is left of a session's own file: `segno keep --restore {query} -o FILE`."
            );
            screen.line(left.as_str());
        }
        if taken {
            let (away, read) = ("Move what is there away and do it again", "`segno show`");
            screen.line(format!("{away}, or read the copy: {read}.").as_str());
        }
    }
    match (fates.iter().any(|one| one.flaw.is_some()), taken) {
        (true, _) => ExitCode::Damaged,
        (false, true) => ExitCode::Conflict,
        (false, false) => ExitCode::Done,
    }
}

fn line(Restored { path, fate, version, flaw }: &Restored) -> Text {
    let (tone, text) = match fate {
        Fate::Restored => (Tone::Good, "is back"),
        Fate::Written => (Tone::Good, "is written"),
        Fate::There => (Tone::Dim, "is there as it was kept"),
        Fate::Taken => (Tone::Warning, "is something else now, and stays"),
        Fate::Damaged => (Tone::Bad, "is not put back"),
    };
    let path = clean::line(&path.display().to_string());
    let more = match (flaw, version, fate) {
        (Some(flawed), ..) => format!(": its copy {}: {}", flawed.flaw, flawed.copy.display()),
        (None, Some(number), Fate::Restored | Fate::There | Fate::Written) => {
            format!(": version {number}, as what was kept last holds nothing")
        }
        _ => String::new(),
    };
    let tone = if flaw.is_some() { Tone::Bad } else { tone };
    Text::line(tone, &format!("{path} {text}{}", clean::line(&more)))
}

/// The sessions that are named, as they are kept.
async fn kept(
    args: &KeepArgs,
    all: &[Kept],
    place: &Workplace,
) -> Result<Vec<(String, Kept)>, CliError> {
    let mut found = Vec::new();
    for query in &args.sessions {
        let kept = match place.stores.find_any(query, &place.cwd).await {
            Ok(Target::Other(session)) => of_session(&session, all),
            Ok(Target::Own(_)) => {
                return Err(CliError::usage(format!("`{query}` is a session of ours."))
                    .next("`segno trash restore` brings one back from the trash."));
            }
            // Its original may hold nothing any more by which it could be found.
            Err(error) if error.exit == ExitCode::NotFound => {
                Some(by_name(query, all, &place.cwd).ok_or(error)?)
            }
            Err(error) => return Err(error),
        };
        let none = || {
            CliError::new(ExitCode::NotFound, format!("Nothing is kept of `{query}`."))
                .next("`segno list --all` shows what is kept; `segno keep` keeps more.")
        };
        found.push((query.clone(), kept.ok_or_else(none)?.clone()));
    }
    Ok(found)
}

pub(in crate::commands) fn of_session<'a>(session: &Other, all: &'a [Kept]) -> Option<&'a Kept> {
    let row = &session.row;
    let original = session.kept.as_ref().map(|mark| &mark.original);
    all.iter().find(|kept| {
        let same = kept.path == row.path || Some(&kept.path) == original;
        kept.agent == row.agent && kept.key == row.key && same
    })
}

/// By its id, with or without its agent, or by its file.
fn by_name<'a>(query: &str, all: &'a [Kept], here: &Path) -> Option<&'a Kept> {
    let path = here.join(query);
    let (agent, id) = match query.split_once(':') {
        Some((agent, id)) => (Agent::parse(agent), id),
        None => (None, query),
    };
    let is_it = |kept: &&Kept| {
        agent.is_none_or(|agent| kept.agent == agent) && kept.id.as_deref() == Some(id)
            || kept.path == path
    };
    let mut found = all.iter().filter(is_it);
    found.next().filter(|_| found.next().is_none())
}

/// What is kept of a session's subagents, and of itself.
fn parts<'a>(kept: &'a Kept, all: &'a [Kept]) -> Vec<&'a Kept> {
    let below = all.iter().filter(|other| {
        other.agent == kept.agent
            && other.parent.is_some()
            && other.parent == kept.id
            && !other.is_rows()
    });
    below.chain([kept]).collect()
}

/// The originals of all of these, the session's own file last, so that its agent finds nothing before all is
/// there.
fn files(parts: &[&Kept]) -> Vec<PathBuf> {
    let mut files = Vec::new();
    if let Some((kept, below)) = parts.split_last() {
        files.extend(below.iter().flat_map(|child| child.files.clone()));
        files.extend(kept.files.iter().rev().cloned());
    }
    let mut seen = std::collections::HashSet::new();
    files.retain(|file| seen.insert(file.clone()));
    files
}

/// Puts one copy under a name, if that is free.
fn one(copy: &Path, target: &Path) -> Result<Fate, CliError> {
    let failed = |error| unreadable(copy, error);
    let bytes = std::fs::read(copy).map_err(failed)?;
    match Place::of(target) {
        Place::Free => {}
        Place::Taken => return Ok(Fate::Taken),
        Place::File => {
            let same = std::fs::read(target).is_ok_and(|there| is_kept(&bytes, &there));
            return Ok(if same { Fate::There } else { Fate::Taken });
        }
    }
    let below = target.strip_prefix("/").unwrap_or(target).to_owned();
    let modified = RealDisk.meta(copy).map_err(failed)?.modified_ns;
    match put_back(&RealDisk, Path::new("/"), File { path: below, bytes }, modified) {
        Ok(Installed::New(_)) => Ok(Fate::Restored),
        Ok(Installed::Before(_)) | Err(InstallError::Taken(_)) => Ok(Fate::Taken),
        Err(InstallError::Store(error)) => Err(unwritable(error, target)),
        Err(error @ InstallError::Outside(_)) => {
            Err(CliError::failed("A file cannot be put back.")
                .because(error)
                .next(format!("Copy it by hand from {}.", quoted(&copy.display().to_string()))))
        }
    }
}

fn unreadable(copy: &Path, error: std::io::Error) -> CliError {
    CliError::failed(format!("{} could not be read.", copy.display()))
        .because(error)
        .next("Nothing was changed but for the files that were said to be back.")
}

/// An error of the place where a file belongs, which is none of ours.
fn unwritable(error: StoreError, target: &Path) -> CliError {
    let is_closed = matches!(error, StoreError::ReadOnly(_));
    let told = CliError::from(error);
    if !is_closed {
        return told;
    }
    let folder = target.parent().unwrap_or(target).display().to_string();
    told.next(format!(
        "Make {} writable and do it again, or take a file of your own: -o FILE.",
        quoted(&folder)
    ))
}

/// Whether a file is as it was kept: an agent that went on since has more. What begins with nothing says
/// nothing.
fn is_kept(kept: &[u8], there: &[u8]) -> bool {
    if kept.is_empty() { there.is_empty() } else { there.starts_with(kept) }
}

/// What has a name now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    Free,
    /// A plain file, or a link to one.
    File,
    /// Anything else: a folder, a link that leads nowhere, a pipe; or a file where a folder above would be.
    Taken,
}

impl Place {
    fn of(path: &Path) -> Self {
        for above in path.ancestors().skip(1) {
            if std::fs::symlink_metadata(above).is_ok() {
                let is_dir = std::fs::metadata(above).is_ok_and(|meta| meta.is_dir());
                if !is_dir {
                    return Self::Taken;
                }
                break;
            }
        }
        match (std::fs::symlink_metadata(path), std::fs::metadata(path)) {
            (Err(_), _) => Self::Free,
            (_, Ok(meta)) if meta.is_file() => Self::File,
            _ => Self::Taken,
        }
    }
}
