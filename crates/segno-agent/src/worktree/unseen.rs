//! What a worktree holds that git's status does not show.
//!
//! Responsible for: finding it through git, and a sentence about each. Must not: judge what is in the files, or
//! change anything.

use super::merge::UNDER_WAY;
use super::today::Entry;
use crate::git::{self, GitError};
use std::path::Path;

/// How many names a sentence gives.
const NAMED: usize = 3;

/// What is there.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Unseen {
    /// A sentence for everything that keeps the worktree.
    pub(super) reasons: Vec<String>,
    /// Files that git ignores.
    pub(super) ignored: usize,
}

/// Looks into a working tree that is the child's.
pub(super) async fn look(path: &Path, branch: &str) -> Result<Unseen, GitError> {
    let index = git::call(path, &["ls-files", "-v", "--stage", "-z"]).await?.output()?;
    let there = |name: &str| path.join(name).symlink_metadata().is_ok();
    let mut reasons = from_index(&index, there);
    let status = ["status", "--porcelain", "-z", "--untracked-files=all", "--ignored"];
    let status = git::call(path, &status).await?.output()?;
    let (repositories, ignored) = from_status(&status);
    reasons.extend(named("repository of its own that git ignores", &repositories));
    for name in UNDER_WAY.iter().chain(&["BISECT_LOG"]) {
        let at = git::line(path, &["rev-parse", "--git-path", name]).await?;
        if path.join(at).symlink_metadata().is_ok() {
            reasons.push(format!("it is in the middle of something ({name})"));
        }
    }
    let own = ["refs/worktree", "refs/bisect", "refs/rewritten"];
    let own = [&["for-each-ref", "--format=%(refname)"], &own[..]].concat();
    let own = git::call(path, &own).await?.output()?;
    let own: Vec<&str> = own.lines().collect();
    reasons.extend(named("name of a commit that is this worktree's alone", &own));
    let stashes = git::call(path, &["stash", "list", "-z", "--format=%gs"]).await?.output()?;
    let marks = [format!("WIP on {branch}: "), format!("On {branch}: ")];
    let is_own = |said: &&str| marks.iter().any(|mark| said.starts_with(mark.as_str()));
    match stashes.split('\0').filter(is_own).count() {
        0 => {}
        1 => reasons.push("1 entry of the stash was made on its branch".to_owned()),
        n => reasons.push(format!("{n} entries of the stash were made on its branch")),
    }
    Ok(Unseen { reasons, ignored })
}

/// What git's own lock says.
pub(super) fn lock(entry: Option<&Entry>) -> Option<String> {
    let why = entry?.locked.as_deref()?;
    let because = if why.is_empty() { String::new() } else { format!(" ({why})") };
    Some(format!("it is locked{because}; `git worktree unlock` unlocks it"))
}

/// From `git ls-files -v --stage -z`: files that git was told not to look at, and submodules. A file that is
/// skipped and not there, as in a sparse checkout, holds nothing.
fn from_index(list: &str, there: impl Fn(&str) -> bool) -> Vec<String> {
    let (mut hidden, mut modules) = (Vec::new(), Vec::new());
    for entry in list.split('\0') {
        let Some((facts, name)) = entry.split_once('\t') else { continue };
        let mut facts = facts.split(' ');
        let flag = facts.next().unwrap_or_default();
        let is_skipped = flag.eq_ignore_ascii_case("s");
        if (is_skipped && there(name)) || (!is_skipped && flag.starts_with(char::is_lowercase)) {
            hidden.push(name);
        }
        if facts.next() == Some("160000") {
            modules.push(name);
        }
    }
    let said = "file that git was told not to look at (skip-worktree or assume-unchanged)";
    let modules = named("submodule, with which git removes no worktree", &modules);
    named(said, &hidden).into_iter().chain(modules).collect()
}

/// From `git status --porcelain -z --ignored`: repositories, which end with a slash, and the number of files.
fn from_status(list: &str) -> (Vec<&str>, usize) {
    let ignored = list.split('\0').filter_map(|entry| entry.strip_prefix("!! "));
    let (repositories, files): (Vec<&str>, Vec<&str>) = ignored.partition(|n| n.ends_with('/'));
    (repositories, files.len())
}

/// A number, what there is of it, and the first names.
fn named(what: &str, names: &[&str]) -> Option<String> {
    let shown = names.iter().take(NAMED).copied().collect::<Vec<_>>().join(", ");
    let rest = if names.len() > NAMED { ", …" } else { "" };
    match names.len() {
        0 => None,
        1 => Some(format!("1 {what}: {shown}")),
        n => Some(format!("{n} times a {what}: {shown}{rest}")),
    }
}
