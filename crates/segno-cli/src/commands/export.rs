//! `segno export`: a session for others, as a page, Markdown, JSON or lines, or its whole tree for another Segno.
//!
//! Responsible for: the choice of the format, whether secrets are masked, and writing a file that was not
//! there. Must not: change the session, overwrite anything, or let a secret out unasked.

pub(super) mod agent;
mod bundle;
mod html;
mod json;
mod markdown;
mod subject;

use super::Workplace;
use super::output::{Standard, can_be_file, file};
use crate::args::{ExportArgs, ExportFormat, quoted};
use crate::error::{CliError, ExitCode};
use crate::history::History;
use crate::others::Target;
use crate::secrets::Masker;
use crate::terminal::table::plural;
use crate::terminal::{Screen, Text, Tone};
use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use subject::{Broken, Subject};

/// Subagents' sessions that go into one page, at most.
const SUBAGENTS: usize = 1000;

/// Exports a session.
///
/// # Errors
/// When it is not found or cannot be read, or the file exists or cannot be written.
pub async fn export(
    args: &ExportArgs,
    place: &Workplace,
    screen: &mut Screen,
) -> Result<ExitCode, CliError> {
    if let Some(target) = args.format.agent() {
        return agent::export(args, target, place, screen).await;
    }
    if args.install || args.json {
        return Err(agent::only_for_agents(args));
    }
    let target = place.stores.find_any(&args.session, &place.cwd).await?;
    if args.format == ExportFormat::Segno {
        bundle::check(args, &target)?;
    }
    let mut masker = Masker::new(args.masks());
    let path = file(args.output.as_deref());
    let mut output = Output::open(path, args.format, place, screen)?;
    let written = write(args.format, target, &mut masker, place, &mut output).await;
    let written = written.and_then(|notes| Ok(output.close().map(|()| notes)?));
    let mut notes = written.map_err(|broken| {
        output.discard();
        match broken {
            Broken::Read(error) => error,
            Broken::Write(error) => unwritable(path, error),
        }
    })?;
    let count = masker.masked();
    for note in &mut notes {
        *note = masker.text(note).into_owned();
    }
    notes.extend(masked(count));
    notes.iter().for_each(|note| tell(note));
    Ok(ExitCode::Done)
}

/// Says something about the export beside it.
fn tell(note: &str) {
    let mut stderr = Screen::stderr();
    stderr.line(Text::line(Tone::Dim, &format!("note: {note}")));
    // A note that nobody can read changes nothing about the export.
    let _ = stderr.finish();
}

/// Writes it, and says what there is to know about what was written.
async fn write(
    format: ExportFormat,
    target: Target,
    masker: &mut Masker,
    place: &Workplace,
    out: &mut (dyn Write + Send),
) -> Result<Vec<String>, Broken> {
    match (format, target) {
        (ExportFormat::Segno, target) => bundle::write(&target, place, out).await,
        (ExportFormat::Html, target) => page(target, masker, place, out).await,
        (ExportFormat::Markdown, target) => {
            let subject = Subject::open(target, place).await.map_err(Broken::Read)?;
            markdown::write(&subject, masker, out)?;
            let children = subject.children(place).map_err(Broken::Read)?;
            let word = &subject.head.word;
            let without = without_children(children.len(), word, subject.is_own());
            Ok(damaged(subject.head.damages, word).into_iter().chain(without).collect())
        }
        (format, Target::Own(id)) => {
            let history = History::read(&place.stores, &id).await.map_err(Broken::Read)?;
            match format {
                ExportFormat::Jsonl => json::lines(&history, masker, out)?,
                _ => json::document(&history, masker, out)?,
            }
            let children = place.stores.files.children_now(&id);
            let children = children.map_err(|e| Broken::Read(e.into()))?.len();
            let without = without_children(children, id.as_str(), true);
            Ok(damaged(history.damages(), id.as_str()).into_iter().chain(without).collect())
        }
        (ExportFormat::Jsonl, Target::Other(session)) => {
            Err(Broken::Read(json::no_lines(&session)))
        }
        (_, Target::Other(session)) => {
            json::other(&session, masker, out)?;
            let damages = usize::try_from(session.row.damage).unwrap_or(usize::MAX);
            Ok(damaged(damages, &session.word()).into_iter().collect())
        }
    }
}

/// A page with the session and those of its subagents.
async fn page(
    target: Target,
    masker: &mut Masker,
    place: &Workplace,
    out: &mut (dyn Write + Send),
) -> Result<Vec<String>, Broken> {
    let first = Subject::open(target, place).await.map_err(Broken::Read)?;
    let mut notes: Vec<String> =
        damaged(first.head.damages, &first.head.word).into_iter().collect();
    let mut page = html::Page::begin(out, masker, &first.head)?;
    let mut waiting = VecDeque::new();
    let mut named = 1;
    let mut next = Some((first, ("s0".to_owned(), None)));
    while let Some((subject, (name, parents))) = next.take() {
        let children = subject.children(place).map_err(Broken::Read)?;
        let (mut places, own) = (Vec::new(), Some(name.clone()));
        for child in children.into_iter().take(SUBAGENTS.saturating_sub(named - 1)) {
            let id = match &child {
                Target::Own(id) => id.to_string(),
                Target::Other(session) => session.row.id.clone(),
            };
            let name = format!("s{named}");
            named += 1;
            places.push((id, name.clone()));
            waiting.push_back((child, (name, own.clone())));
        }
        page.session(&subject, (&name, parents.as_deref()), &places)?;
        while let Some((child, name)) = waiting.pop_front().filter(|_| next.is_none()) {
            match Subject::open(child, place).await {
                Ok(subject) => next = Some((subject, name)),
                Err(error) => {
                    page.unreadable(&name.0, &error.sentence)?;
                    notes.push(format!("a subagent's session is not in it: {}", error.sentence));
                }
            }
        }
    }
    page.end()?;
    Ok(notes)
}

fn without_children(children: usize, word: &str, own: bool) -> Option<String> {
    let are = if children == 1 { "is" } else { "are" };
    let lists =
        if own { format!("`segno children {word}`") } else { format!("`segno show {word}`") };
    (children > 0).then(|| {
        let also = if own { ", `--format segno` takes them along" } else { "" };
        format!("its {} {are} not in it; {lists} lists them{also}", plural(children, "subagent"))
    })
}

fn masked(count: usize) -> Option<String> {
    let were = if count == 1 { "was" } else { "were" };
    let text = format!("{} {were} masked; --keep-secrets leaves them in", plural(count, "secret"));
    (count > 0).then_some(text)
}

fn damaged(damages: usize, word: &str) -> Option<String> {
    let places = if damages == 1 { "1 place".to_owned() } else { format!("{damages} places") };
    (damages > 0).then(|| {
        format!(
            "the session is damaged in {places}; what can be read was exported (segno check {word})"
        )
    })
}

/// Where the export goes: to a new file that only the user can read, or to the screen.
enum Output<'a> {
    File(BufWriter<File>, PathBuf),
    Screen(Standard<'a>),
}

impl<'a> Output<'a> {
    fn open(
        path: Option<&Path>,
        format: ExportFormat,
        place: &Workplace,
        screen: &'a mut Screen,
    ) -> Result<Self, CliError> {
        let Some(path) = path else { return Ok(Self::Screen(Standard::of(screen))) };
        let path = place.cwd.join(path);
        can_be_file(&path, format.file_name())?;
        let opened = File::options().write(true).create_new(true).mode(0o600).open(&path);
        let file = opened.map_err(|e| not_created(&path, &e))?;
        Ok(Self::File(BufWriter::new(file), path))
    }

    /// Removes the file, which was made here and is not whole.
    fn discard(&mut self) {
        if let Self::File(_, path) = self {
            // What cannot be removed is empty or cut off; the error that is told says so.
            let _ = std::fs::remove_file(path);
        }
    }

    /// Makes the file durable, or shows what there is.
    fn close(&mut self) -> io::Result<()> {
        self.flush()?;
        match self {
            Self::File(file, path) => {
                file.get_ref().sync_all()?;
                let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty());
                File::open(dir.unwrap_or(Path::new(".")))?.sync_all()
            }
            Self::Screen(_) => Ok(()),
        }
    }
}

impl Write for Output<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::File(file, _) => file.write(bytes),
            Self::Screen(screen) => screen.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::File(file, _) => file.flush(),
            Self::Screen(screen) => screen.flush(),
        }
    }
}

fn not_created(path: &Path, error: &io::Error) -> CliError {
    let shown = path.display().to_string();
    match error.kind() {
        io::ErrorKind::AlreadyExists => CliError::failed(format!("{shown} exists already."))
            .because("an export never overwrites a file")
            .next(format!("Choose another name, or move it away: mv {0} {0}.old", quoted(&shown))),
        _ => CliError::new(ExitCode::Unwritable, format!("{shown} could not be created."))
            .because(error)
            .next("Name a file in a directory that is there and that you may write to: -o FILE"),
    }
}

fn unwritable(path: Option<&Path>, error: io::Error) -> CliError {
    let shown = path.map_or("The output".to_owned(), |path| path.display().to_string());
    CliError::new(ExitCode::Unwritable, format!("{shown} could not be written."))
        .because(error)
        .next("Nothing was left behind. Free some space, and export again.")
}
