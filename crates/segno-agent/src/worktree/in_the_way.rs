//! Files of a checkout that a merge would write over.
//!
//! Responsible for: finding what is in no commit where a branch brings a file. Git itself takes what it was told
//! to ignore for worthless, and writes over it. Must not: touch anything.

use crate::git::{self, GitError};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Paths of one call of git; command lines have an end.
const AT_ONCE: usize = 100;

/// What is in no commit, ignored or not, where `branch` adds files to the checkout at `top`; paths from there.
pub(super) async fn look(top: &Path, branch: &str) -> Result<Vec<String>, GitError> {
    let range = format!("HEAD...{branch}");
    let added = ["diff", "--name-only", "-z", "--no-renames", "--no-relative", "--diff-filter=A"];
    let added = [&added[..], &["--no-ext-diff", &range, "--"]].concat();
    let added = git::call(top, &added).await?.output()?;
    let there: BTreeSet<PathBuf> =
        added.split('\0').filter_map(|path| first_that_is_there(top, Path::new(path))).collect();
    let there: Vec<&str> = there.iter().filter_map(|path| path.to_str()).collect();
    let mut found = Vec::new();
    for some in there.chunks(AT_ONCE) {
        let list = ["--literal-pathspecs", "ls-files", "--others", "-z", "--"];
        let list = git::call(top, &[&list[..], some].concat()).await?.output()?;
        found.extend(list.split('\0').filter(|path| !path.is_empty()).map(str::to_owned));
    }
    Ok(found)
}

/// What stands where `path` would be: itself, or what is no directory on the way to it.
fn first_that_is_there(top: &Path, path: &Path) -> Option<PathBuf> {
    let mut at = PathBuf::new();
    for part in path.components() {
        at.push(part);
        let what = top.join(&at).symlink_metadata().ok()?;
        if at == path || !what.is_dir() {
            return Some(at);
        }
    }
    None
}
