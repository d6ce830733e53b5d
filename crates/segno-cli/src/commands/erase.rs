//! `segno erase`: what a record said, gone for good.
//!
//! Responsible for: showing what goes and what stays elsewhere, asking, and cleaning what is derived from the
//! log. Must not: rewrite a log itself, or say that something is gone that is not.

use super::Workplace;
use crate::args::EraseArgs;
use crate::error::{CliError, ExitCode};
use crate::home::Home;
use crate::stores::not_opened;
use crate::terminal::confirm::confirm;
use crate::terminal::table::{plural, size};
use crate::terminal::{Screen, Text, Tone, clean};
use segno_model::store::StoreError;
use segno_model::{Seq, SessionId};
use segno_store::{Copy, Removed, Study};
use serde_json::json;
use std::collections::BTreeSet;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

/// What is to be erased, and where else it is.
struct Plan {
    id: SessionId,
    seqs: Vec<Seq>,
    study: Study,
    copies: BTreeSet<Copy>,
}

/// Erases what records said.
///
/// # Errors
/// When the session is not found, held or damaged, when nothing was said in a record, or when the disk fails.
pub async fn erase(
    args: &EraseArgs,
    place: &Workplace,
    screen: &mut Screen,
) -> Result<ExitCode, CliError> {
    let id = place.stores.find(&args.session, &place.cwd).await?;
    let files = &place.stores.files;
    let study = files.study_erasure(&id, &args.seqs).map_err(|error| not_erased(&id, error))?;
    let mut copies = BTreeSet::new();
    for seq in &args.seqs {
        copies.extend(files.copies(&id, *seq)?);
    }
    let plan = Plan { id, seqs: args.seqs.clone(), study, copies };
    if !args.json {
        screen.lines(plan.lines());
        screen.flush();
    }
    if args.dry_run || (args.json && !args.yes) {
        plan.say(None, &[], args.json, screen);
        return Ok(ExitCode::Done);
    }
    if !args.yes && !confirm("Erase this for good? There is no way back.", "--yes")? {
        screen.line("Nothing was changed.");
        return Ok(ExitCode::Stopped);
    }
    let done = files.erase(&plan.id, &plan.seqs, place.now()).await;
    let removed = done.map_err(|error| not_erased(&plan.id, error))?;
    let left = clean_derived(place, &plan);
    files.end_erasure(&plan.id)?;
    plan.say(Some(&removed), &left, args.json, screen);
    Ok(if left.is_empty() { ExitCode::Done } else { ExitCode::Failed })
}

/// A damaged log is not rewritten, repaired or not: what is whole of it can go on in a new one.
fn not_erased(id: &SessionId, error: StoreError) -> CliError {
    let is_damaged = matches!(error, StoreError::Damaged { .. });
    let error = not_opened(id, error);
    if !is_damaged {
        return error;
    }
    error.next(format!(
        "A log with damage is not rewritten, but a fork up to the damage has none: `segno fork {id} --before SEQ`. \
         Erase there; then `segno delete {id}` and `segno trash empty`."
    ))
}

/// Takes it out of the list of sessions and of the prompts typed before; gives the files where that failed.
fn clean_derived(place: &Workplace, plan: &Plan) -> Vec<PathBuf> {
    let home = &place.stores.home;
    let mut left = Vec::new();
    if home.catalog().exists() && !place.stores.open_catalog().scrub(&plan.id) {
        left.push(home.catalog());
    }
    let set_aside = std::fs::read_dir(&home.data).into_iter().flatten().flatten();
    for entry in set_aside {
        let name = entry.file_name().to_string_lossy().into_owned();
        let holds =
            || std::fs::read(entry.path()).is_ok_and(|bytes| plan.study.pieces.touch(&bytes));
        let old_list = name.starts_with("catalog.sqlite.damaged-");
        // It is derived, and of no use to anybody.
        if old_list && holds() && std::fs::remove_file(entry.path()).is_err() {
            left.push(entry.path());
        }
    }
    if forget_prompts(home, &plan.study).is_err() {
        left.push(home.history());
    }
    left
}

/// Drops the lines of the prompts typed before that are among what was erased.
fn forget_prompts(home: &Home, study: &Study) -> std::io::Result<()> {
    let path = home.history();
    let text = match std::fs::read_to_string(&path) {
        Ok(text) => text,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        Err(e) => return Err(e),
    };
    let erased = |line: &&str| {
        let typed = line.replace("<\\n>", "\n");
        study.prompts.iter().any(|prompt| prompt.trim() == typed.trim())
            || study.pieces.name(typed.as_bytes())
    };
    let kept: Vec<&str> = text.lines().filter(|line| !erased(line)).collect();
    if kept.len() == text.lines().count() {
        return Ok(());
    }
    replace(&path, kept.iter().map(|line| format!("{line}\n")).collect::<String>().as_bytes())
}

fn replace(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let temp = path.with_extension("new");
    let mut options = std::fs::OpenOptions::new();
    let mut file = options.write(true).create(true).truncate(true).mode(0o600).open(&temp)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    std::fs::rename(&temp, path)?;
    std::fs::File::open(path.parent().unwrap_or(path))?.sync_all()
}

impl Plan {
    fn lines(&self) -> Vec<Text> {
        let study = &self.study;
        let mut lines = Vec::new();
        if study.parts.is_empty() {
            lines.push(Text::line(
                Tone::Good,
                "These records are erased already; what is left of them is looked for.",
            ));
        }
        for part in &study.parts {
            let along = if part.asked { "" } else { " (goes along)" };
            let text = format!("record {} ({}){along}", part.seq, clean::line(&part.kind));
            lines.push(Text::line(Tone::Plain, &text));
        }
        if !study.states.is_empty() && !study.parts.is_empty() {
            let seqs: Vec<String> = study.states.iter().map(Seq::to_string).collect();
            let text = format!(
                "the provider's own state in compaction {}, which may tell of it; the summary stays",
                seqs.join(", ")
            );
            lines.push(Text::line(Tone::Plain, &text));
        }
        if !study.blobs.is_empty() {
            let bytes = study.blobs.iter().map(|(_, bytes)| bytes).sum();
            let text = format!(
                "{} that only they refer to ({})",
                plural(study.blobs.len(), "blob"),
                size(bytes)
            );
            lines.push(Text::line(Tone::Plain, &text));
        }
        lines.extend(study.files.iter().map(|name| Text::line(Tone::Plain, &clean::line(name))));
        lines.extend(self.elsewhere());
        lines
    }

    /// Where it stays.
    fn elsewhere(&self) -> Vec<Text> {
        let mut lines = Vec::new();
        if !self.study.also_in.is_empty() {
            let seqs: Vec<String> = self.study.also_in.iter().map(Seq::to_string).collect();
            lines.push(format!("Words of it stand in other records, too: {}", seqs.join(", ")));
        }
        for id in &self.study.family {
            lines.push(format!(
                "Words of it stand in {id}, too (a subagent's session, or who started it)."
            ));
        }
        if !self.study.waiting.is_empty() {
            let inputs = plural(self.study.waiting.len(), "input");
            lines.push(format!("Words of it stand in {inputs} that wait: segno inbox {}", self.id));
        }
        for copy in &self.copies {
            let (where_, how) = match copy.trashed {
                true => (
                    "in the trash",
                    "`segno trash restore` brings it back, `segno trash empty` deletes it"
                        .to_owned(),
                ),
                false => ("a fork", format!("`segno erase {}` with its numbers", copy.id)),
            };
            lines.push(format!("{} ({where_}) has the same records: {how}", copy.id));
        }
        lines.iter().map(|line| Text::line(Tone::Warning, line)).collect()
    }

    fn say(&self, removed: Option<&Removed>, left: &[PathBuf], as_json: bool, screen: &mut Screen) {
        if as_json {
            screen.json(&self.json(removed, left));
            return;
        }
        let Some(removed) = removed else {
            screen.line("Nothing was changed.");
            return;
        };
        let text = format!(
            "Erased: {}, {}, {}, {}.",
            plural(self.study.parts.len(), "record"),
            plural(removed.blobs, "blob"),
            plural(removed.commands, "command's output"),
            plural(removed.files.len(), "other file")
        );
        screen.line(Text::line(Tone::Good, &text));
        for path in left {
            let text = format!(
                "{} may hold it still and could not be cleaned; delete it while no segno runs.",
                path.display()
            );
            screen.line(Text::line(Tone::Bad, &text));
        }
        let note = "Out of reach: snapshots and backups of the disk, blocks that it has not used again, other agents' files, and the provider.";
        screen.line(Text::line(Tone::Dim, note));
    }

    fn json(&self, removed: Option<&Removed>, left: &[PathBuf]) -> serde_json::Value {
        let study = &self.study;
        let part = |part: &segno_store::Part| json!({ "seq": part.seq, "type": part.kind, "asked": part.asked });
        let copy = |copy: &Copy| json!({ "id": copy.id, "trashed": copy.trashed });
        json!({
            "version": 1, "id": self.id, "done": removed.is_some(),
            "records": study.parts.iter().map(part).collect::<Vec<_>>(),
            "states": study.states, "blobs": study.blobs.len(), "files": study.files,
            "also_in": study.also_in, "family": study.family, "waiting": study.waiting.len(),
            "copies": self.copies.iter().map(copy).collect::<Vec<_>>(),
            "not_cleaned": left.iter().map(|path| path.display().to_string()).collect::<Vec<_>>(),
        })
    }
}
