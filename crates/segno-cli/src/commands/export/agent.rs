//! `segno export --format AGENT`: a session as another agent's own.
//!
//! Responsible for: what is told before anything is written, and where it goes: to standard output, to files,
//! or to where that agent finds it. Must not: know a format, or install unasked.

use super::super::Workplace;
use super::super::output::{can_be_file, file, folder_is_there};
use super::tell;
use crate::args::{ExportArgs, quoted};
use crate::error::{CliError, ExitCode};
use crate::others::HandOver;
use crate::secrets::Masker;
use crate::terminal::confirm::confirm;
use crate::terminal::table::plural;
use crate::terminal::{Screen, Text, Tone};
use segno_store::RealDisk;
use segno_store::convert::{File, Loss};
use segno_store::foreign::Agent;
use segno_store::install::{Installed, install};
use serde_json::json;
use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};

/// Exports it.
pub(super) async fn export(
    args: &ExportArgs,
    target: Agent,
    place: &Workplace,
    screen: &mut Screen,
) -> Result<ExitCode, CliError> {
    let session = place.stores.find_any(&args.session, &place.cwd).await?;
    let mut masker = Masker::new(args.masks());
    let mut copy = HandOver::of(target, session, &place.stores, &place.cwd, &mut masker).await?;
    let secrets = Secrets::of(&copy, &masker);
    copy.notes.extend(secrets.note(args.keep_secrets));
    if args.install {
        return installed(args, &copy, secrets, screen);
    }
    let output = file(args.output.as_deref());
    if args.json && output.is_none() && args.output.is_some() {
        return Err(CliError::usage("Only one of them can go to standard output.")
            .because("--json prints a report there, and `-o -` the session")
            .next("Leave one of them out, or name a file: -o FILE"));
    }
    if !args.json {
        told(&copy);
    }
    match (output, copy.converted.files.split_first()) {
        (Some(path), _) => {
            let paths = written(&copy, args.format.file_name(), &place.cwd.join(path))?;
            if args.json {
                report(&copy, secrets, &paths, Outcome::Written, screen);
            }
        }
        (None, _) if args.json => report(&copy, secrets, &[], Outcome::Nothing, screen),
        (None, Some((first, rest))) => {
            screen.exact(&first.bytes);
            if !rest.is_empty() {
                let more = plural(rest.len(), "file");
                tell(&format!(
                    "{more} beside it not written; -o DIRECTORY or --install writes all"
                ));
            }
        }
        (None, None) => {}
    }
    Ok(ExitCode::Done)
}

fn installed(
    args: &ExportArgs,
    copy: &HandOver,
    secrets: Secrets,
    screen: &mut Screen,
) -> Result<ExitCode, CliError> {
    let asks = !args.yes && can_ask();
    if copy.installed()?.is_none() {
        if asks || !args.json {
            told(copy);
        }
        let files = plural(copy.files().len(), "file");
        let question = format!("Make {files} for {}, as a new session?", copy.target);
        if asks && !confirm(&question, "--yes")? {
            if args.json {
                report(copy, secrets, &[], Outcome::Nothing, screen);
            } else {
                screen.line(Text::line(Tone::Dim, "Nothing was written."));
            }
            return Ok(ExitCode::Stopped);
        }
    }
    if args.json {
        let (outcome, files) = match copy.install()? {
            Installed::New(files) => (Outcome::Installed, files),
            Installed::Before(path) if is_as_made(copy, &path) => (Outcome::There, copy.files()),
            Installed::Before(path) => (Outcome::There, vec![path]),
        };
        report(copy, secrets, &files, outcome, screen);
    } else {
        install_it(copy)?;
        screen.line(copy.line());
    }
    Ok(ExitCode::Done)
}

/// Whether somebody is there who can be asked.
fn can_ask() -> bool {
    std::io::stdin().is_terminal() && std::io::stderr().is_terminal()
}

/// Tells what a copy that is not there yet will lack; where somebody is there, asks whether to go on without it.
/// Without a terminal it goes on, as what was asked for is to be done.
pub(in super::super) fn agreed(copy: &HandOver, yes: bool) -> Result<bool, CliError> {
    if copy.installed()?.is_some() {
        return Ok(true);
    }
    told(copy);
    if yes || copy.converted.losses.is_empty() || !can_ask() {
        return Ok(true);
    }
    confirm(&format!("Go on in {} without this?", copy.target), "--yes")
}

/// How many different secrets were masked, and how many are left in, since an agent goes on with them.
#[derive(Debug, Clone, Copy)]
struct Secrets {
    masked: usize,
    left: usize,
}

impl Secrets {
    fn of(copy: &HandOver, masker: &Masker) -> Self {
        let left = if masker.is_on() { 0 } else { copy.secrets() };
        Self { masked: masker.different(), left }
    }

    /// What there is to know about them; nothing about ones that were asked for.
    fn note(self, asked_for: bool) -> Option<String> {
        match (self.masked, self.left) {
            (0, 0) => None,
            (0, _) if asked_for => None,
            (0, left) => {
                let are = if left == 1 { "is" } else { "are" };
                let secrets = plural(left, "secret");
                Some(format!("{secrets} {are} left in it for the agent; --redact masks them"))
            }
            (masked, _) => {
                let were = if masked == 1 { "was" } else { "were" };
                let secrets = plural(masked, "secret");
                Some(format!("{secrets} {were} masked; without --redact they stay in"))
            }
        }
    }
}

/// What became of the files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outcome {
    /// Nothing was to be written.
    Nothing,
    /// They are where -o said.
    Written,
    /// They are where the agent finds them.
    Installed,
    /// They were there already.
    There,
}

impl Outcome {
    fn word(self) -> &'static str {
        match self {
            Self::Nothing => "nothing",
            Self::Written => "written",
            Self::Installed => "installed",
            Self::There => "there",
        }
    }

    /// Whether the agent can go on with them.
    fn is_installed(self) -> bool {
        matches!(self, Self::Installed | Self::There)
    }
}

fn report(
    copy: &HandOver,
    secrets: Secrets,
    files: &[PathBuf],
    outcome: Outcome,
    screen: &mut Screen,
) {
    let loss = |(loss, text): (&Loss, String)| {
        json!({
            "kind": loss.kind, "count": loss.count, "records": loss.records,
            "subagent": loss.subagent, "text": text,
        })
    };
    screen.json(&json!({
        "version": 1,
        "session": copy.word(),
        "target": copy.target.id(),
        "id": copy.converted.id,
        "outcome": outcome.word(),
        "files": files,
        "losses": copy.losses().map(loss).collect::<Vec<_>>(),
        "secrets": { "masked": secrets.masked, "left": secrets.left },
        "notes": copy.notes,
        "command": outcome.is_installed().then(|| copy.line()),
    }));
}

/// Makes the files, and says so; a session that is there already is not made again.
pub(in super::super) fn install_it(copy: &HandOver) -> Result<(), CliError> {
    let (path, there) = match copy.install()? {
        Installed::New(paths) => (paths.into_iter().next().unwrap_or_default(), "it is now in"),
        Installed::Before(path) if is_as_made(copy, &path) => {
            (path, "nothing was said since it was written to")
        }
        Installed::Before(path) => {
            (path, "nothing was said since it was written; its agent keeps it in")
        }
    };
    tell(&format!("{there} {}", path.display()));
    Ok(())
}

/// Whether a copy that was there before is where it was made.
fn is_as_made(copy: &HandOver, path: &Path) -> bool {
    copy.files().first().is_some_and(|first| first == path)
}

/// What the copy lacks, before it is written.
pub(in super::super) fn told(copy: &HandOver) {
    copy.notes.iter().for_each(|note| tell(note));
    for (_, loss) in copy.losses() {
        tell(&format!("not in it: {loss}"));
    }
}

/// One file under this name, or several in a directory of this name; where they are.
fn written(copy: &HandOver, name: &str, path: &Path) -> Result<Vec<PathBuf>, CliError> {
    let shown = path.display().to_string();
    let done = match &copy.converted.files[..] {
        [only] => {
            can_be_file(path, name)?;
            let (root, name) = match (path.parent(), path.file_name()) {
                (Some(root), Some(name)) => (root, PathBuf::from(name)),
                _ => {
                    return Err(
                        CliError::usage(format!("{shown} is no name of a file.")).next("-o FILE")
                    );
                }
            };
            install(&RealDisk, root, &[File { path: name, bytes: only.bytes.clone() }], "")
        }
        _ if path.is_dir() => return Err(directory_is_there(path)),
        _ => {
            folder_is_there(path)?;
            match path.exists() {
                true => Ok(Installed::Before(path.to_owned())),
                false => install(&RealDisk, path, &copy.converted.whole(), ""),
            }
        }
    };
    match done {
        Ok(Installed::New(paths)) => Ok(paths),
        Ok(Installed::Before(_)) => {
            let error = CliError::failed(format!("{shown} exists already."));
            Err(error.because("an export never overwrites a file").next(format!(
                "Choose another name, or move it away: mv {0} {0}.old",
                quoted(&shown)
            )))
        }
        Err(error) => {
            Err(CliError::new(ExitCode::Unwritable, format!("{shown} could not be written."))
                .because(error)
                .next("Nothing was left behind. Name a place that you may write to: -o FILE"))
        }
    }
}

/// Several files, for which a directory was named that is there.
fn directory_is_there(path: &Path) -> CliError {
    let folder: PathBuf = path.components().collect();
    let inside = quoted(&folder.join("session").display().to_string());
    CliError::failed(format!("{} exists already.", folder.display()))
        .because("this session is several files, which get a directory of their own")
        .next(format!("Name one in it that is not there: -o {inside}"))
}

/// `--install` or `--json` with a format that no agent reads.
pub(super) fn only_for_agents(args: &ExportArgs) -> CliError {
    let word = if args.install { "--install" } else { "--json" };
    let json = if args.install { "" } else { " The session itself as JSON: --format json." };
    CliError::usage(format!("{word} is for the format of an agent."))
        .next(format!("Say which: --format claude, codex, pi, opencode or gemini.{json}"))
}
