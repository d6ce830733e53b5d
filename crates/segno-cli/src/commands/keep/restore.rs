//! `segno keep --restore`: kept files under their old names again, as they are kept or as they were before.
//!
//! Responsible for: which files of which session, and saying what became of each. Must not: replace anything: a name that is taken stays
//! with whoever has it.

use super::{Workplace, versions};
use crate::args::{KeepArgs, quoted};
use crate::commands::output::can_be_file;
use crate::error::{CliError, ExitCode};
use crate::others::{Other, Target};
use crate::terminal::{Screen, Text, Tone, clean};
use segno_store::convert::File;
use segno_store::foreign::Agent;
use segno_store::install::{InstallError, Installed, put_back};
use segno_store::kept::Kept;
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
}

impl Fate {
    fn word(self) -> &'static str {
        match self {
            Self::Restored => "restored",
            Self::Written => "written",
            Self::There => "there",
            Self::Taken => "taken",
        }
    }
}

/// A file and what became of it.
struct Restored {
    path: PathBuf,
    fate: Fate,
    /// The version that was taken because what was kept last holds nothing.
    version: Option<u64>,
}

pub(super) async fn restore(
    args: &KeepArgs,
    place: &Workplace,
    screen: &mut Screen,
) -> Result<ExitCode, CliError> {
    let sessions = kept(args, place).await?;
    if args.versions {
        return versions::list(args, &sessions, place, screen);
    }
    if args.version.len() + usize::from(sessions.len() > 1) > 1 && args.output.is_some() {
        return Err(CliError::usage("-o names a file for one version of one session.")
            .next("Give one SESSION, one --version and -o FILE."));
    }
    let mut fates: Vec<Restored> = Vec::new();
    let mut hints = Vec::new();
    for (query, kept) in &sessions {
        let chosen = versions::chosen(&args.version, query, kept, place)?;
        if let (Some(output), Some(version)) = (&args.output, chosen.first()) {
            let target = place.cwd.join(output);
            can_be_file(&target, "session.jsonl")?;
            let fate = match one(&version.path, &target)? {
                Fate::Restored => Fate::Written,
                // It asks for a new file, whatever is in the one that is there.
                _ => Fate::Taken,
            };
            fates.push(Restored { path: target, fate, version: None });
            continue;
        }
        for original in files(kept, place)? {
            let version = chosen.iter().find(|version| version.original == original);
            let copy = place.stores.files.kept_copy(&original).unwrap_or_default();
            let fuller = match version {
                Some(_) => None,
                None => versions::fuller(kept, &original, &copy, place)?,
            };
            let copy = version.or(fuller.as_ref()).map_or(copy, |version| version.path.clone());
            let fate = one(&copy, &original)?;
            let version = fuller.map(|version| version.number);
            fates.push(Restored { path: original, fate, version });
        }
        if chosen.is_empty() {
            hints.extend(versions::hint(query, kept, place)?);
        }
    }
    Ok(tell(args, &fates, &hints, screen))
}

fn tell(args: &KeepArgs, fates: &[Restored], hints: &[String], screen: &mut Screen) -> ExitCode {
    let taken = fates.iter().any(|one| one.fate == Fate::Taken);
    if args.json {
        let file = |one: &Restored| json!({ "path": one.path, "outcome": one.fate.word(), "version": one.version });
        screen.json(&json!({ "version": 1, "files": fates.iter().map(file).collect::<Vec<_>>() }));
    } else {
        for Restored { path, fate, version } in fates {
            let (tone, text) = match fate {
                Fate::Restored => (Tone::Good, "is back"),
                Fate::Written => (Tone::Good, "is written"),
                Fate::There => (Tone::Dim, "is there as it was kept"),
                Fate::Taken => (Tone::Warning, "is something else now, and stays"),
            };
            let path = clean::line(&path.display().to_string());
            let earlier = match (version, fate) {
                (Some(number), Fate::Restored | Fate::There) => {
                    format!(": version {number}, as what was kept last holds nothing")
                }
                _ => String::new(),
            };
            screen.line(Text::line(tone, &format!("{path} {text}{earlier}")));
        }
        for hint in hints {
            screen.line(Text::line(Tone::Dim, hint));
        }
        if taken {
            let (away, read) = ("Move what is there away and do it again", "`segno show`");
            screen.line(format!("{away}, or read the copy: {read}.").as_str());
        }
    }
    if taken { ExitCode::Conflict } else { ExitCode::Done }
}

/// The sessions that are named, as they are kept.
async fn kept(args: &KeepArgs, place: &Workplace) -> Result<Vec<(String, Kept)>, CliError> {
    let all = place.stores.files.kept()?;
    let mut found = Vec::new();
    for query in &args.sessions {
        let kept = match place.stores.find_any(query, &place.cwd).await {
            Ok(Target::Other(session)) => of_session(&session, &all),
            Ok(Target::Own(_)) => {
                return Err(CliError::usage(format!("`{query}` is a session of ours."))
                    .next("`segno trash restore` brings one back from the trash."));
            }
            // Its original may hold nothing any more by which it could be found.
            Err(error) if error.exit == ExitCode::NotFound => {
                Some(by_name(query, &all, &place.cwd).ok_or(error)?)
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

fn of_session<'a>(session: &Other, all: &'a [Kept]) -> Option<&'a Kept> {
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

/// The originals of all that is kept of a session and its subagents, the session's own file last, so that its
/// agent finds nothing before all is there.
fn files(kept: &Kept, place: &Workplace) -> Result<Vec<PathBuf>, CliError> {
    if kept.is_rows() {
        let fuller = versions::fuller(kept, &kept.files[0], &kept.copy, place)?;
        let copy = fuller.map_or_else(|| kept.copy.clone(), |version| version.path);
        let id = kept.id.as_ref().or(kept.key.as_ref()).cloned().unwrap_or_default();
        return Err(CliError::failed(
            "It was a session in a database, and a database is never written.",
        )
        .because(format!("its rows are kept in {}", copy.display()))
        .next(format!("Go on with it here: `segno resume {}:{id} --here`.", kept.agent.id())));
    }
    let all = place.stores.files.kept()?;
    let below = all.iter().filter(|other| {
        other.agent == kept.agent
            && other.parent.is_some()
            && other.parent == kept.id
            && !other.is_rows()
    });
    let mut files: Vec<PathBuf> = below.flat_map(|child| child.files.clone()).collect();
    files.extend(kept.files.iter().rev().cloned());
    let mut seen = std::collections::HashSet::new();
    files.retain(|file| seen.insert(file.clone()));
    Ok(files)
}

/// Puts one copy under a name, if that is free.
fn one(copy: &Path, target: &Path) -> Result<Fate, CliError> {
    let failed = |error: std::io::Error| {
        CliError::failed(format!("{} could not be read.", copy.display()))
            .because(error)
            .next("Nothing was changed but for the files that were said to be back.")
    };
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
        Err(InstallError::Store(error)) => Err(error.into()),
        Err(error @ InstallError::Outside(_)) => {
            Err(CliError::failed("A file cannot be put back.")
                .because(error)
                .next(format!("Copy it by hand from {}.", quoted(&copy.display().to_string()))))
        }
    }
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
