//! `segno keep --restore`: kept files under their old names again.
//!
//! Responsible for: which files, and saying what became of each. Must not: replace anything: a name that is taken stays
//! with whoever has it.

use super::Workplace;
use crate::args::{KeepArgs, quoted};
use crate::error::{CliError, ExitCode};
use crate::others::{Other, Target};
use crate::terminal::{Screen, Text, Tone, clean};
use segno_store::RealDisk;
use segno_store::convert::File;
use segno_store::install::{InstallError, Installed, install};
use segno_store::kept::Kept;
use serde_json::json;
use std::path::{Path, PathBuf};

/// What became of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    Restored,
    /// What is there is the same.
    There,
    /// Something else is there, and stays.
    Taken,
}

impl Fate {
    fn word(self) -> &'static str {
        match self {
            Self::Restored => "restored",
            Self::There => "there",
            Self::Taken => "taken",
        }
    }
}

pub(super) async fn restore(
    args: &KeepArgs,
    place: &Workplace,
    screen: &mut Screen,
) -> Result<ExitCode, CliError> {
    let mut fates: Vec<(PathBuf, Fate)> = Vec::new();
    for query in &args.sessions {
        let Target::Other(session) = place.stores.find_any(query, &place.cwd).await? else {
            return Err(CliError::usage(format!("`{query}` is a session of ours."))
                .next("`segno trash restore` brings one back from the trash."));
        };
        for original in files(&session, query, place)? {
            let fate = one(&original, place)?;
            fates.push((original, fate));
        }
    }
    let taken = fates.iter().any(|(_, fate)| *fate == Fate::Taken);
    if args.json {
        let file = |(path, fate): &(PathBuf, Fate)| json!({ "path": path, "outcome": fate.word() });
        screen.json(&json!({ "version": 1, "files": fates.iter().map(file).collect::<Vec<_>>() }));
    } else {
        for (path, fate) in &fates {
            let (tone, text) = match fate {
                Fate::Restored => (Tone::Good, "is back"),
                Fate::There => (Tone::Dim, "is there as it was kept"),
                Fate::Taken => (Tone::Warning, "is another file now, and stays"),
            };
            let path = clean::line(&path.display().to_string());
            screen.line(Text::line(tone, &format!("{path} {text}")));
        }
        if taken {
            screen
                .line("Move what is there away and restore again, or read the copy: `segno show`.");
        }
    }
    Ok(if taken { ExitCode::Conflict } else { ExitCode::Done })
}

/// The originals of all that is kept of a session and its subagents, the session's own file last, so that its
/// agent finds nothing before all is there.
fn files(session: &Other, query: &str, place: &Workplace) -> Result<Vec<PathBuf>, CliError> {
    let all = place.stores.files.kept()?;
    let row = &session.row;
    let is_it = |kept: &&Kept| {
        let same = kept.path == row.path || kept.copy == row.path;
        kept.agent == row.agent && kept.key == row.key && same
    };
    let Some(kept) = all.iter().find(is_it) else {
        return Err(CliError::new(ExitCode::NotFound, format!("Nothing is kept of `{query}`."))
            .next("`segno list --all` shows what is kept; `segno keep` keeps more."));
    };
    if kept.is_rows() {
        return Err(CliError::failed(
            "It was a session in a database, and a database is never written.",
        )
        .because(format!("its rows are kept in {}", kept.copy.display()))
        .next(format!("Go on with it here: `segno resume {} --here`.", session.word())));
    }
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

fn one(original: &Path, place: &Workplace) -> Result<Fate, CliError> {
    let copy = place.stores.files.kept_copy(original).unwrap_or_default();
    let failed = |path: &Path, error: &std::io::Error| {
        CliError::failed(format!("{} could not be read.", path.display()))
            .because(error)
            .next("Nothing was changed but for the files that were said to be back.")
    };
    let bytes = std::fs::read(&copy).map_err(|e| failed(&copy, &e))?;
    if std::fs::symlink_metadata(original).is_ok() {
        let there = std::fs::read(original).map_err(|e| failed(original, &e))?;
        // An agent that went on since has more than was kept.
        let same = there.starts_with(&bytes);
        return Ok(if same { Fate::There } else { Fate::Taken });
    }
    let below = original.strip_prefix("/").unwrap_or(original).to_owned();
    match install(&RealDisk, Path::new("/"), &[File { path: below, bytes }]) {
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
