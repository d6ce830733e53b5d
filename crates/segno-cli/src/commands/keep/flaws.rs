//! Kept copies that are not what was kept, told.
//!
//! Responsible for: which of them `segno keep --all` tells of, and in which words. Must not: change anything.

use crate::args::quoted;
use crate::commands::Workplace;
use segno_store::kept::{Depth, Flawed, Kept};
use std::collections::HashSet;
use std::path::PathBuf;

/// So many are told one by one.
const NAMED: usize = 20;

/// What is the matter with copies that cannot be made again, as their originals are not there.
pub(super) fn of_gone<'a>(kept: impl Iterator<Item = &'a Kept>, place: &Workplace) -> Vec<String> {
    let mut told = HashSet::new();
    let mut said = Vec::new();
    for kept in kept {
        said.extend(displaced(kept));
        let flaws = place.stores.files.kept_flaws(kept, Depth::Length);
        let lost =
            flaws.into_iter().filter(|flawed| std::fs::symlink_metadata(&flawed.original).is_err());
        said.extend(
            lost.filter(|flawed| told.insert(flawed.copy.clone()))
                .map(|flawed| line(kept, &flawed)),
        );
    }
    said.sort();
    said.dedup();
    let more = said.len().saturating_sub(NAMED);
    said.truncate(NAMED);
    if more > 0 {
        said.push(format!("and {more} more copies like that"));
    }
    said
}

/// That something that is no file has the name of a session's own file.
fn displaced(kept: &Kept) -> Option<String> {
    let own = kept.files.first().filter(|own| **own == kept.path)?;
    let meta = std::fs::metadata(own).ok().filter(|meta| !meta.is_file())?;
    let what = if meta.is_dir() { "a folder" } else { "no file" };
    Some(format!("{}: {} is {what} now; what was kept of it stays", word(kept), own.display()))
}

fn line(kept: &Kept, flawed: &Flawed) -> String {
    let word = word(kept);
    let own = kept.is_rows() || kept.files.first() == Some(&flawed.original);
    let (what, copy) = (&flawed.flaw, flawed.copy.display());
    let of = if own { String::new() } else { format!(" of {}", flawed.original.display()) };
    format!(
        "{word}: the copy{of} {what}, and its original is not there: {copy}. `segno keep --versions {0}` lists \
         what else is kept; `segno prune kept {0}` forgets it",
        quoted(&word)
    )
}

/// How commands name a kept session.
pub(super) fn word(kept: &Kept) -> String {
    let id = kept.id.clone().or_else(|| kept.key.clone());
    let path = || kept.path.display().to_string();
    id.map_or_else(path, |id| format!("{}:{id}", kept.agent.id()))
}

/// The flaws of the copies of some sessions, each byte looked at, by the original.
pub(super) fn by_original<'a>(
    kept: impl Iterator<Item = &'a Kept>,
    place: &Workplace,
) -> Vec<(PathBuf, Flawed)> {
    let flaws = kept.flat_map(|kept| place.stores.files.kept_flaws(kept, Depth::Bytes));
    flaws.map(|flawed| (flawed.original.clone(), flawed)).collect()
}
