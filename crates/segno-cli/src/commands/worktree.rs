//! `segno worktree`: what subagents did in working trees of their own.
//!
//! Responsible for: finding the one that is meant, and saying what each holds. Must not: change anything; the
//! commands that do are in files of their own.

mod merge;
mod prune;

use super::Workplace;
use crate::args::{WorktreeAction, WorktreeArgs};
use crate::error::{CliError, ExitCode};
use crate::terminal::table::plural;
use crate::terminal::{Screen, Text, Tone, clean, diff};
use segno_agent::worktree::{Note, Notes, State, Work, Worktrees};
use segno_model::SessionId;
use serde::Serialize;

/// A worktree and what it holds.
#[derive(Debug, Clone)]
struct Found {
    note: Note,
    work: Work,
}

/// The same as JSON.
#[derive(Debug, Serialize)]
struct Shown<'a> {
    child: &'a SessionId,
    session: &'a SessionId,
    role: &'a str,
    repository: &'a str,
    path: &'a str,
    branch: &'a str,
    baseline: &'a str,
    #[serde(flatten)]
    work: &'a Work,
}

impl Found {
    fn json(&self) -> Shown<'_> {
        let Note { child, parent, role, worktree, .. } = &self.note;
        Shown {
            child,
            session: parent,
            role,
            repository: &worktree.repo_root,
            path: &worktree.path,
            branch: &worktree.branch,
            baseline: &worktree.baseline,
            work: &self.work,
        }
    }

    /// What it holds, in words.
    fn holds(&self) -> String {
        let Work { state, uncommitted, commits, unmerged, problem, unseen, ignored, .. } =
            &self.work;
        let mut parts = Vec::new();
        if *uncommitted > 0 {
            parts.push(format!("{} with changes in no commit", plural(*uncommitted, "file")));
        }
        match (commits, unmerged) {
            (0, _) => {}
            (all, 0) => parts.push(format!("{}, merged", plural(*all, "commit"))),
            (all, own) if all == own => {
                parts.push(format!("{} on no other branch", plural(*own, "commit")));
            }
            (all, own) => {
                parts.push(format!("{}, {own} of them on no other branch", plural(*all, "commit")));
            }
        }
        parts.extend(problem.clone());
        parts.extend(unseen.iter().cloned());
        if *ignored > 0 {
            parts.push(format!("{} that git ignores", plural(*ignored, "file")));
        }
        let but = if *state == State::Clean { " but for" } else { "" };
        match parts.is_empty() {
            true => state.word().to_owned(),
            false => format!("{}{but}: {}", state.word(), parts.join("; ")),
        }
    }

    fn lines(&self) -> Vec<Text> {
        let Note { child, parent, role, worktree, .. } = &self.note;
        let tone = match self.work.state {
            State::Clean | State::Merged => Tone::Good,
            State::Uncommitted | State::Unmerged => Tone::Plain,
            State::Missing | State::Replaced | State::Unfinished | State::Unknown => Tone::Warning,
        };
        let baseline = worktree.baseline.get(..12).unwrap_or(&worktree.baseline);
        vec![
            Text::line(Tone::Accent, &clean::line(&format!("{child}  {role}"))),
            Text::line(tone, &clean::line(&format!("  {}", self.holds()))),
            Text::line(Tone::Dim, &clean::line(&format!("  {} from {baseline}", worktree.branch))),
            Text::line(Tone::Dim, &clean::line(&format!("  {}", worktree.path))),
            Text::line(Tone::Dim, &format!("  of session {parent}")),
        ]
    }
}

/// Lists, shows, merges or removes.
///
/// # Errors
/// When what is named is not there, or what is asked for cannot be done; nothing was changed then.
pub async fn worktree(
    args: &WorktreeArgs,
    place: &Workplace,
    screen: &mut Screen,
) -> Result<ExitCode, CliError> {
    match &args.action {
        WorktreeAction::List { session, json } => {
            list(session.as_deref(), *json, place, screen).await
        }
        WorktreeAction::Diff { child, stat, json } => {
            show(child, (*stat, *json), place, screen).await
        }
        WorktreeAction::Merge { child, json } => merge::merge(child, *json, place, screen).await,
        WorktreeAction::Prune { children, dry_run, yes, ignored, json } => {
            let (dry_run, yes, json, ignored) = (*dry_run, *yes, *json, *ignored);
            let how = prune::How { dry_run, yes, json, ignored };
            prune::prune(children, how, place, screen).await
        }
    }
}

/// The worktrees of subagents of a session, for one who takes that away.
pub fn of_session(place: &Workplace, session: &SessionId) -> usize {
    let notes = place.stores.home.worktrees().notes().map(|(notes, _)| notes).unwrap_or_default();
    notes.iter().filter(|note| note.parent == *session || note.child == *session).count()
}

fn notes(worktrees: &Worktrees) -> Result<Notes, CliError> {
    worktrees.notes().map_err(|error| cannot_be_listed(&error))
}

fn cannot_be_listed(error: &std::io::Error) -> CliError {
    CliError::failed("The worktrees cannot be listed.")
        .because(error)
        .next("Look at the permissions of that directory.")
}

/// The one that is meant.
fn find(query: &str, worktrees: &Worktrees) -> Result<Note, CliError> {
    let asked = query.trim().to_ascii_lowercase();
    let fits = |note: &Note| {
        let Note { child, worktree, .. } = note;
        let named = worktree.branch == asked || worktree.path == query;
        named || (!asked.is_empty() && child.as_str().starts_with(&asked))
    };
    let mut found: Vec<Note> = notes(worktrees)?.0.into_iter().filter(fits).collect();
    let several: Vec<String> = found.iter().map(|note| note.child.to_string()).collect();
    match (found.pop(), found.is_empty()) {
        (Some(one), true) => Ok(one),
        (None, _) => {
            let said = format!("There is no worktree of a subagent `{}`.", clean::line(query));
            Err(CliError::new(ExitCode::NotFound, said)
                .next("`segno worktree list` shows all that there are."))
        }
        _ => {
            let said = format!("`{}` fits several worktrees.", clean::line(query));
            Err(CliError::new(ExitCode::NotFound, said)
                .because(several.join("\n"))
                .next("Give more of the id."))
        }
    }
}

async fn list(
    session: Option<&str>,
    as_json: bool,
    place: &Workplace,
    screen: &mut Screen,
) -> Result<ExitCode, CliError> {
    let worktrees = place.stores.home.worktrees();
    let of = match session {
        Some(query) => Some(place.stores.find(query, &place.cwd).await?),
        None => None,
    };
    let (notes, odd) = notes(&worktrees)?;
    let mut all = Vec::new();
    for note in notes {
        if of.as_ref().is_none_or(|of| note.parent == *of || note.child == *of) {
            let work = worktrees.work(&note).await;
            all.push(Found { note, work });
        }
    }
    if as_json {
        let odd = odd.iter().map(|(path, why)| serde_json::json!({"path": path, "why": why}));
        screen.json(&serde_json::json!({
            "version": 1,
            "worktrees": all.iter().map(Found::json).collect::<Vec<_>>(),
            "odd": odd.collect::<Vec<_>>(),
        }));
        return Ok(ExitCode::Done);
    }
    if all.is_empty() {
        screen.line("There are no worktrees of subagents.");
    }
    all.iter().for_each(|found| screen.lines(found.lines()));
    for (path, why) in odd {
        let text = format!("{} is left out: {why}", path.display());
        screen.line(Text::line(Tone::Warning, &clean::line(&text)));
    }
    Ok(ExitCode::Done)
}

async fn show(
    query: &str,
    (stat, as_json): (bool, bool),
    place: &Workplace,
    screen: &mut Screen,
) -> Result<ExitCode, CliError> {
    let worktrees = place.stores.home.worktrees();
    let note = find(query, &worktrees)?;
    let work = worktrees.work(&note).await;
    if matches!(work.state, State::Missing | State::Replaced | State::Unfinished | State::Unknown) {
        let found = Found { note, work };
        return Err(CliError::failed("What was done in the worktree cannot be told.")
            .because(found.holds())
            .next(format!(
                "Its branch, if it is there: `git log {}`.",
                found.note.worktree.branch
            )));
    }
    let options: &[&str] = if stat { &["--stat"] } else { &[] };
    let text = worktrees.diff(&note, options).await.map_err(|error| {
        CliError::failed("What was done in the worktree cannot be told.")
            .because(error)
            .next(format!("Look at {} with git.", note.worktree.path))
    })?;
    if as_json {
        let (child, baseline) = (&note.child, &note.worktree.baseline);
        screen.json(&serde_json::json!({
            "version": 1, "child": child, "baseline": baseline, "diff": text,
        }));
    } else if text.is_empty() {
        screen.line("Nothing has changed since it was made.");
    } else if stat {
        screen.lines(clean::block(&text).lines().map(|line| Text::line(Tone::Plain, line)));
    } else {
        // Whole: a patch that is cut is none.
        screen.lines(diff::show(&text, usize::MAX, usize::MAX - 1));
    }
    Ok(ExitCode::Done)
}
