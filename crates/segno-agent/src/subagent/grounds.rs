//! Where a child works: in its parent's directory, or in a worktree of its own.
//!
//! Responsible for: what is around a child there, the facts by which continuing is judged, making its worktree
//! behind the intent, and what the parent is told of it. Must not: ask git itself, or decide what a drift means.

use super::{Nursery, Prepared, Role, launch};
use crate::Surroundings;
use crate::project::Project;
use crate::worktree::{
    Directories, Note, Planned, Refusal, State, Work, Worktrees, directory, told_child,
};
use segno_model::SessionId;
use segno_model::child::drift::{Directory, Tree};
use segno_model::child::parse_launch;
use segno_model::record::{Block, GitFacts, Header, LaunchRecord, ProjectFacts};
use segno_runtime::{Stop, ToolOutput};
use std::path::Path;

/// Where a child works, and what is around it there.
pub(super) struct Grounds {
    pub(super) around: Surroundings,
    /// The facts of its own place; its parent's hold where it has none.
    pub(super) project: Option<ProjectFacts>,
    pub(super) directories: Option<Directories>,
}

impl Grounds {
    /// As they are now.
    pub(super) async fn of<N: Nursery>(nursery: &N, launch: &LaunchRecord) -> Self {
        let (Some(worktree), Some(directories)) = (&launch.worktree, Directories::of(launch))
        else {
            let around = nursery.surroundings();
            return Self { around, project: None, directories: None };
        };
        let project = Project::look(&directories.cwd).await;
        let mut around = nursery.surroundings_at(&directories.cwd, &project);
        around.system.push_str(&told_child(worktree));
        Self { around, project: Some(project.facts), directories: Some(directories) }
    }

    /// As they are now for the child whose header this is.
    pub(super) async fn of_header<N: Nursery>(nursery: &N, header: &Header) -> Self {
        let launch = header.launch.as_ref().and_then(|launch| parse_launch(launch).ok());
        match launch {
            Some(launch) => Self::of(nursery, &launch).await,
            None => Self { around: nursery.surroundings(), project: None, directories: None },
        }
    }

    pub(super) fn git(&self) -> Option<GitFacts> {
        self.around.git.clone()
    }
}

/// What has become of the place where a child was launched, for one whose parent works `here`.
pub(super) async fn today<N: Nursery>(
    nursery: &N,
    then: &LaunchRecord,
    here: &Path,
) -> (Directory, Tree) {
    let Some(worktree) = &then.worktree else {
        return (launch::directory(&then.cwd, here), Tree::None);
    };
    let tree = match nursery.worktrees() {
        Some(worktrees) => worktrees.tree(&then.child, worktree).await,
        // Nobody here made it.
        None => Tree::Unregistered,
    };
    (directory(worktree, &then.cwd), tree)
}

/// The worktree that a new child of one who works in `cwd` would get.
pub(super) async fn plan<N: Nursery>(
    nursery: &N,
    child: &SessionId,
    cwd: &Path,
) -> Result<Planned, Refusal> {
    worktrees(nursery)?.plan(child, cwd).await
}

fn worktrees<N: Nursery>(nursery: &N) -> Result<Worktrees, Refusal> {
    nursery.worktrees().ok_or_else(|| Refusal {
        code: "worktree-nowhere",
        sentence: "there is no place for worktrees here".to_owned(),
    })
}

/// Makes the worktree that was planned for a new child, if one was, and gives the child's launch: what was read
/// off the parent's own directory for the intent is read off the worktree now. A stop takes all of it back.
pub(super) async fn make<N: Nursery>(
    nursery: &N,
    role: &Role,
    prepared: &Prepared,
    stop: &Stop,
) -> Result<LaunchRecord, Refusal> {
    let launch = prepared.launch.clone();
    let Some(planned) = &prepared.planned else { return Ok(launch) };
    let worktrees = worktrees(nursery)?;
    let note = note(&launch, &planned.worktree);
    tokio::select! {
        biased;
        made = worktrees.make(planned, &note) => made?,
        _ = stop.stopped() => {
            let left = worktrees.take_back(&note).await;
            let sentence = format!("it was stopped while its worktree was made{left}");
            return Err(Refusal { code: "stopped", sentence });
        }
    }
    let launch = launch::at_real_path(launch);
    let around = Grounds::of(nursery, &launch).await.around;
    Ok(launch::seen(launch, &role.around(&around)))
}

fn note(launch: &LaunchRecord, worktree: &segno_model::record::Worktree) -> Note {
    Note {
        version: 1,
        parent: launch.parent.clone(),
        child: launch.child.clone(),
        role: launch.role.name.clone(),
        worktree: worktree.clone(),
    }
}

/// What a child's worktree holds now; none when it has none.
pub(super) async fn work<N: Nursery>(nursery: &N, launch: &LaunchRecord) -> Option<Work> {
    let worktree = launch.worktree.as_ref()?;
    Some(nursery.worktrees()?.work(&note(launch, worktree)).await)
}

/// A result, with what the child's worktree holds behind it; `before` is what it held when the attempt began.
pub(super) async fn tell<N: Nursery>(
    nursery: &N,
    mut output: ToolOutput,
    prepared: &Prepared,
    before: Option<&Work>,
) -> ToolOutput {
    if let Some(now) = work(nursery, &prepared.launch).await.filter(|_| !output.unfinished) {
        let told = told(&prepared.launch, prepared.planned.as_ref(), (before, &now));
        output.content.extend(told.map(Block::text));
    }
    output
}

fn told(
    launch: &LaunchRecord,
    planned: Option<&Planned>,
    (before, now): (Option<&Work>, &Work),
) -> Option<String> {
    let worktree = launch.worktree.as_ref()?;
    if now.state == State::Missing && now.tip.is_none() {
        return Some("[No worktree is there.]".to_owned());
    }
    let (path, branch) = (&worktree.path, &worktree.branch);
    let mut text = format!("[Its worktree {path} is kept, on the branch {branch}: {}", holds(now));
    if let Some(before) = before {
        text.push_str(&format!("; before this attempt: {}", holds(before)));
    }
    text.push_str(". Your own working tree has nothing of it");
    if now.commits > 0 {
        text.push_str(&format!("; `git merge {branch}` brings its commits"));
    }
    text.push('.');
    let left = planned.and_then(|planned| planned.left_behind).unwrap_or(0);
    if left > 0 {
        text.push_str(&format!(
            " It was made from your last commit: the changes of {left} of your files that are in no commit are \
             not in it."
        ));
    }
    if planned.is_some_and(|planned| planned.submodules) {
        text.push_str(" Submodules are empty in it.");
    }
    text.push(']');
    Some(text)
}

fn holds(work: &Work) -> String {
    let count = |n: usize, what: &str| format!("{n} {what}{}", if n == 1 { "" } else { "s" });
    match &work.problem {
        Some(problem) => problem.clone(),
        None => format!(
            "{} since it was made, {} with changes in no commit",
            count(work.commits, "commit"),
            count(work.uncommitted, "file")
        ),
    }
}
