//! `segno keep --versions`: what kept files were before they were written again.
//!
//! Responsible for: listing these versions, and the words that choose one. Must not: write anything.

use crate::args::{KeepArgs, quoted};
use crate::commands::Workplace;
use crate::error::{CliError, ExitCode};
use crate::others;
use crate::terminal::table::{Column, Table, plural, size};
use crate::terminal::{Screen, Text, Tone};
use segno_store::kept::{Kept, Version};
use serde_json::json;
use std::path::{Path, PathBuf};

/// A version with the word that chooses it.
#[derive(Debug, Clone)]
pub(super) struct Named {
    /// `N` of the session's own file, otherwise `NAME:N`.
    pub word: String,
    pub version: Version,
}

pub(super) fn list(
    args: &KeepArgs,
    sessions: &[(String, Kept)],
    place: &Workplace,
    screen: &mut Screen,
) -> Result<ExitCode, CliError> {
    let mut all = Vec::new();
    for (query, kept) in sessions {
        all.push((query, of(kept, place)?));
    }
    if args.json {
        let one = |(query, versions): &(&String, Vec<Named>)| {
            let one = |Named { word, version }: &Named| {
                json!({
                    "version": word, "original": version.original, "path": version.path,
                    "bytes": version.bytes, "at": version.at,
                })
            };
            json!({ "session": query, "versions": versions.iter().map(one).collect::<Vec<_>>() })
        };
        screen.json(&json!({ "version": 1, "sessions": all.iter().map(one).collect::<Vec<_>>() }));
        return Ok(ExitCode::Done);
    }
    for ((query, versions), (_, kept)) in all.iter().zip(sessions) {
        let Some(last) = versions.last() else {
            screen.line(format!("Of {query} no earlier version is kept.").as_str());
            continue;
        };
        screen.lines(table(versions).lines(screen.look().columns));
        let command =
            format!("segno keep --restore {} --version {}", quoted(query), quoted(&last.word));
        let text = match kept.is_rows() {
            // A database is never written.
            true => format!("`{command} -o FILE` writes one into a new file."),
            false => format!("`{command}` puts one back, with -o FILE into a new file."),
        };
        screen.line(Text::line(Tone::Dim, &text));
    }
    Ok(ExitCode::Done)
}

fn table(versions: &[Named]) -> Table {
    let mut table = Table::new(vec![
        Column::left("VERSION"),
        Column::left("LAST CHANGED"),
        Column::right("SIZE"),
        Column::left("FILE").shrinks_to(20),
    ]);
    for Named { word, version } in versions {
        let at = version.at.to_string();
        let minute = at.get(..16).unwrap_or(&at).replace('T', " ");
        let cells =
            [word.clone(), minute, size(version.bytes), version.original.display().to_string()];
        table.row(cells.iter().map(|cell| Text::line(Tone::Plain, cell)));
    }
    table
}

/// The earlier versions of a session's files, with their words.
pub(super) fn of(kept: &Kept, place: &Workplace) -> Result<Vec<Named>, CliError> {
    let versions = place.stores.files.kept_versions(kept)?;
    let named = |version: Version| {
        let word = if kept.files.first() == Some(&version.original) {
            version.number.to_string()
        } else {
            format!("{}:{}", name(&version.original, &kept.files).display(), version.number)
        };
        Named { word, version }
    };
    Ok(versions.into_iter().map(named).collect())
}

/// As much of the end of a path as tells it from all others.
fn name(path: &Path, all: &[PathBuf]) -> PathBuf {
    let mut name = PathBuf::new();
    for part in path.components().rev() {
        name = Path::new(part.as_os_str()).join(&name);
        // A join with nothing leaves a slash at the end.
        name = name.components().collect();
        if all.iter().filter(|other| other.ends_with(&name)).count() < 2 {
            break;
        }
    }
    name
}

/// The versions that were asked for, one of a file.
pub(super) fn chosen(
    words: &[String],
    query: &str,
    kept: &Kept,
    place: &Workplace,
) -> Result<Vec<Version>, CliError> {
    let known = of(kept, place)?;
    let mut chosen: Vec<Version> = Vec::new();
    for word in words {
        let Some(found) = known.iter().find(|named| is_called(named, word)) else {
            let what = format!("There is no version `{word}` of `{query}`.");
            let next =
                format!("`segno keep --versions {}` lists those that are kept.", quoted(query));
            return Err(CliError::new(ExitCode::NotFound, what).next(next));
        };
        if chosen.iter().any(|other| other.original == found.version.original) {
            return Err(CliError::usage("Two versions of one file were asked for.")
                .next("Give one --version for a file."));
        }
        chosen.push(found.version.clone());
    }
    Ok(chosen)
}

/// With any zeros in front, and any longer end of the path.
fn is_called(named: &Named, word: &str) -> bool {
    let (name, number) = word.rsplit_once(':').unwrap_or(("", word));
    let same_number = number.parse() == Ok(named.version.number);
    let own = !named.word.contains(':');
    same_number
        && if name.is_empty() {
            own
        } else {
            named.word.rsplit_once(':').map(|(known, _)| known) == Some(name)
                || (name.contains('/') && named.version.original.ends_with(name))
        }
}

/// The version that is put back where what was kept last of a file holds nothing: the newest that does.
pub(super) fn fuller(
    kept: &Kept,
    original: &Path,
    copy: &Path,
    place: &Workplace,
) -> Result<Option<Version>, CliError> {
    let files = &place.stores.files;
    if kept.files.first().is_some_and(|own| own == original) {
        if others::says_something(kept, copy) {
            return Ok(None);
        }
        return Ok(others::versions(files, kept).pop().map(|(version, _)| version));
    }
    if std::fs::metadata(copy).is_ok_and(|meta| meta.len() > 0) {
        return Ok(None);
    }
    let mut all = files.kept_versions(kept)?.into_iter();
    Ok(all.rfind(|version| version.original == original && version.bytes > 0))
}

/// That there is more than what was put back.
pub(super) fn hint(
    query: &str,
    kept: &Kept,
    place: &Workplace,
) -> Result<Option<String>, CliError> {
    let count = place.stores.files.kept_versions(kept)?.len();
    let text = || {
        let versions = plural(count, "earlier version");
        format!("{versions} of its files are kept too: segno keep --versions {}", quoted(query))
    };
    Ok((count > 0).then(text))
}
