//! `segno worktree merge`: a subagent's commits into a checkout.
//!
//! Responsible for: the next step behind every reason not to. Must not: decide anything about git.

use super::Workplace;
use crate::error::{CliError, ExitCode};
use crate::stores::not_opened;
use crate::terminal::table::plural;
use crate::terminal::{Screen, Text, Tone, clean};
use segno_agent::worktree::{Merged, NotMerged, Note};
use segno_model::store::{SessionStore as _, StoreError};

/// Merges.
///
/// # Errors
/// When it cannot be merged; everything is as it was.
pub(super) async fn merge(
    query: &str,
    as_json: bool,
    place: &Workplace,
    screen: &mut Screen,
) -> Result<ExitCode, CliError> {
    let worktrees = place.stores.home.worktrees();
    let note = super::find(query, &worktrees)?;
    // Who works in it may be about to commit.
    let _held = match place.stores.files.open(&note.child).await {
        Ok(held) => Some(held),
        Err(error @ StoreError::Held(_)) => return Err(not_opened(&note.child, error)),
        // What was deleted is at work nowhere, and what a log says does not matter here.
        Err(_) => None,
    };
    let merged = worktrees.merge(&note, &place.cwd).await;
    let Merged { into, checkout, commits, commit } =
        merged.map_err(|why| not_merged(&note, &why))?;
    if as_json {
        screen.json(&serde_json::json!({
            "version": 1, "child": note.child, "into": into, "checkout": checkout, "commits": commits,
            "commit": commit,
        }));
        return Ok(ExitCode::Done);
    }
    let text =
        format!("{} merged into {into} in {}.", plural(commits, "commit"), checkout.display());
    screen.line(Text::line(Tone::Good, &clean::line(&text)));
    // What only another subagent's branch has is not merged yet.
    if !into.starts_with("segno/") {
        let program = place.stores.home.command();
        let text = format!("`{program} worktree prune {}` removes the worktree.", note.child);
        screen.line(Text::line(Tone::Dim, &text));
    }
    Ok(ExitCode::Done)
}

fn not_merged(note: &Note, why: &NotMerged) -> CliError {
    let (child, worktree) = (&note.child, &note.worktree);
    let next = match why.code {
        "merge-uncommitted" => format!(
            "`segno resume {child} -- \"commit your work\"` has it committed; `segno worktree diff {child}` shows it."
        ),
        "merge-conflicts" => format!(
            "`git merge {}` in your checkout lets you settle them; or let the subagent merge your branch first: `segno resume {child}`.",
            worktree.branch
        ),
        "merge-overwrites" => {
            "Move them away first: git would write over those that it is told to ignore.".to_owned()
        }
        "merge-dirty" => "Commit or stash them first.".to_owned(),
        "merge-detached" => "Check a branch out first.".to_owned(),
        "merge-under-way" => "Finish that, or give it up, first.".to_owned(),
        "merge-no-checkout" => "Go to a checkout of the repository.".to_owned(),
        "merge-nothing" => format!("`segno worktree diff {child}` shows what there is."),
        "merge-unusable" => {
            format!("`git log {}` shows its branch, if it is there.", worktree.branch)
        }
        _ => format!("`git merge {}` shows what git makes of it.", worktree.branch),
    };
    CliError::failed("Nothing was merged.")
        .because(format!("{} ({})", why.sentence, why.code))
        .next(next)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::Cli;
    use clap::Parser as _;
    use segno_model::record::Worktree;

    /// Words as a shell takes these.
    fn words(command: &str) -> Vec<String> {
        let parts = command.split('"').enumerate();
        let split = parts.flat_map(|(n, part)| match n % 2 {
            0 => part.split_whitespace().map(str::to_owned).collect(),
            _ => vec![part.to_owned()],
        });
        split.collect()
    }

    /// Every command that is named runs as it is printed.
    #[test]
    fn what_is_printed_can_be_run() {
        let id = |text| segno_model::SessionId::parse(text).unwrap();
        let worktree = Worktree {
            repo_root: "/r/.git".into(),
            path: "/w".into(),
            branch: "segno/c".into(),
            baseline: "0".into(),
        };
        let note = Note {
            version: 1,
            parent: id("0195f3a0-0000-7000-8000-000000000001"),
            child: id("0195f3a0-0000-8000-8000-000000000001"),
            role: "general".into(),
            worktree,
        };
        let mut tried = 0;
        for code in ["merge-uncommitted", "merge-conflicts", "merge-nothing"] {
            let why = NotMerged { code, sentence: String::new() };
            let said = format!("{:?}", not_merged(&note, &why)).replace("\\\"", "\"");
            for command in said.split('`').skip(1).step_by(2).filter(|c| c.starts_with("segno ")) {
                let parsed = Cli::try_parse_from(words(command));
                assert!(parsed.is_ok(), "{command}: {parsed:?}");
                tried += 1;
            }
        }
        assert_eq!(tried, 4);
    }
}
