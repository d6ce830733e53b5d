//! Commits that nothing but a worktree itself names: made on no branch, reset or amended away.
//!
//! Responsible for: finding them through the history (reflog) of the worktree's HEAD and of its branch, which go
//! when the worktree does. Must not: judge what is in them, or change anything.

use super::plan::git_dir;
use crate::git::{self, GitError};
use segno_model::record::Worktree;
use std::collections::BTreeSet;
use std::path::Path;

/// How many commits a sentence names.
const NAMED: usize = 3;

/// How many characters of a commit's id are shown.
const SHORT: usize = 12;

/// A sentence about them; none when there are none.
pub(super) async fn look(
    repository: &Path,
    worktree: &Worktree,
) -> Result<Option<String>, GitError> {
    let branch = format!("refs/heads/{}", worktree.branch);
    let mut histories = vec![branch.clone()];
    let mut named = BTreeSet::new();
    if let Some(name) = admin_name(repository, Path::new(&worktree.path)) {
        histories.push(format!("worktrees/{name}/HEAD"));
        for reference in ["HEAD", "ORIG_HEAD"] {
            named.extend(commit(repository, &format!("worktrees/{name}/{reference}")).await?);
        }
    }
    for history in histories {
        if commit(repository, &history).await?.is_some() {
            let walk = [&git_dir(repository), "rev-list", "--walk-reflogs", &history];
            let out = git::call(repository, &walk).await?.output()?;
            named.extend(out.lines().map(str::to_owned));
        }
    }
    let tip = commit(repository, &branch).await?;
    named.retain(|id| *id != worktree.baseline && Some(id) != tip.as_ref());
    if named.is_empty() {
        return Ok(None);
    }
    let at = git_dir(repository);
    // What the first one comes from is kept with it.
    let mut list: Vec<&str> = vec![&at, "rev-list", "--topo-order", "--ignore-missing"];
    list.extend(named.iter().map(String::as_str));
    list.extend(["--not", &worktree.baseline]);
    list.extend(tip.as_deref());
    list.extend(["--exclude=segno/*", "--branches", "--remotes", "--tags", "HEAD"]);
    let out = git::call(repository, &list).await?.output()?;
    Ok(sentence(&out.lines().collect::<Vec<_>>()))
}

/// What a reference leads to; none when there is none, or nothing is there.
async fn commit(repository: &Path, reference: &str) -> Result<Option<String>, GitError> {
    let at = git_dir(repository);
    let name = format!("{reference}^{{commit}}");
    let answer = git::call(repository, &[&at, "rev-parse", "--verify", "--quiet", &name]).await?;
    Ok(answer.is_content().then(|| answer.out.trim().to_owned()))
}

/// What the repository calls the worktree at this path, whether or not that is there.
fn admin_name(repository: &Path, path: &Path) -> Option<String> {
    let dot_git = path.join(".git");
    let entries = std::fs::read_dir(repository.join("worktrees")).ok()?;
    let is_of = |admin: &Path| {
        let text = std::fs::read_to_string(admin.join("gitdir")).unwrap_or_default();
        admin.join(text.trim_end_matches('\n')) == dot_git
    };
    let admin = entries.filter_map(Result::ok).map(|e| e.path()).find(|admin| is_of(admin))?;
    Some(admin.file_name()?.to_str()?.to_owned())
}

fn sentence(commits: &[&str]) -> Option<String> {
    let first = commits.first()?;
    let short = |id: &&str| id.get(..SHORT).unwrap_or(id).to_owned();
    let shown = commits.iter().take(NAMED).map(short).collect::<Vec<_>>().join(", ");
    let (rest, many) = (if commits.len() > NAMED { ", …" } else { "" }, commits.len() > 1);
    let (s, one) = if many { ("s", "one") } else { ("", "it") };
    Some(format!(
        "{} commit{s} on no branch (reset, amended, or made without one): {shown}{rest}; `git branch NAME {}` \
         keeps {one}",
        commits.len(),
        short(first)
    ))
}
