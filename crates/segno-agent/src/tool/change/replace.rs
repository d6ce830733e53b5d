//! Putting new content into a file so that it is whole, durable, and never over someone else's change.
//!
//! Responsible for: the steps of each [`Way`] (G7). Before the intent: a synced temp file whose name is
//! synced too. Behind it: exchange, check, and back if it was not what was expected; file and directory
//! synced before the result. Must not: know a tool or a permission.

use super::super::error::ToolError;
use super::file::{self, FileId, Lies, Old};
use super::temp::{Temp, Temps, exchange, kept_name, rename_new, second_name};
use super::way::{Way, has_attributes, parent};
use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Write as _};
use std::path::{Path, PathBuf};

/// What is told after each step on the file system, so that tests can end or disturb it there.
pub(crate) type Steps<'a> = &'a (dyn Fn(&'static str) + Send + Sync);

/// A replacement that only has to be carried out.
#[derive(Debug)]
pub(crate) struct Ready {
    /// How.
    pub(crate) way: Way,
    /// The file that holds the new content; none in place.
    pub(crate) temp: Option<Temp>,
    /// The temp file, or in place the file itself.
    pub(crate) file: FileId,
    /// Directories that were made for it, the outermost first.
    made: Vec<PathBuf>,
}

/// Makes what the intent names. Nothing at the path changes.
pub(crate) fn prepare(
    path: &Path,
    new: &[u8],
    temps: &Temps,
    steps: Steps<'_>,
) -> Result<Ready, ToolError> {
    let io = |e| ToolError::io(path, e);
    let mut made = Vec::new();
    let ready = create_parents(parent(path), &mut made, steps).and_then(|()| {
        temps.sweep(parent(path));
        let way = Way::find(path, temps)?;
        let found = match Lies::at(path).map_err(io)? {
            Lies::File(found) => Some(found),
            Lies::Nothing if way == Way::New => None,
            _ => return Err(changed(path, "")),
        };
        let temp = match way {
            Way::InPlace => None,
            _ => make_temp(path, new, found.as_ref().map(|f| f.mode), temps, steps)?,
        };
        match (temp, found) {
            (Some(temp), _) => Ok((way, temp.id, Some(temp))),
            (None, Some(found)) => Ok((Way::InPlace, found.id, None)),
            (None, None) => Err(changed(path, "")),
        }
    });
    match ready {
        Ok((way, file, temp)) => Ok(Ready { way, temp, file, made }),
        Err(error) => {
            remove_empty(&made);
            Err(error)
        }
    }
}

/// Prepares to remove a file that holds `old`.
pub(crate) fn prepare_removal(path: &Path, old: &Old, temps: &Temps) -> Result<Ready, ToolError> {
    let io = |e| ToolError::io(path, e);
    temps.sweep(parent(path));
    match Lies::at(path).map_err(io)? {
        Lies::File(found) if found.bytes == old.bytes() => {
            let name = temps.free_name(parent(path)).map_err(io)?;
            let temp = Some(Temp { path: name, id: found.id, mode: found.mode });
            Ok(Ready { way: Way::Remove, temp, file: found.id, made: Vec::new() })
        }
        _ => Err(changed(path, "")),
    }
}

/// A synced temp file beside the path. None when it would not be like the file that it replaces (`mode`
/// is then there): a directory may hand attributes down that the old file does not have.
fn make_temp(
    path: &Path,
    new: &[u8],
    mode: Option<u32>,
    temps: &Temps,
    steps: Steps<'_>,
) -> Result<Option<Temp>, ToolError> {
    let io = |e| ToolError::io(path, e);
    let temp = temps.make(parent(path), new, mode).map_err(io)?;
    steps("temp file synced");
    if mode.is_some() && has_attributes(&temp.path) {
        temps.remove(&temp.path);
        return Ok(None);
    }
    if let Err(error) = sync(path) {
        temps.remove(&temp.path);
        return Err(io(error));
    }
    steps("temp file's name synced");
    Ok(Some(temp))
}

/// Takes back what was prepared for a change that will not happen.
pub(crate) fn discard(ready: &Ready, temps: &Temps) {
    // For a removal nothing was made.
    let ours = |temp: &&Temp| {
        ready.way != Way::Remove && FileId::at(&temp.path).is_ok_and(|id| id == Some(temp.id))
    };
    if let Some(temp) = ready.temp.as_ref().filter(ours) {
        temps.remove(&temp.path);
    }
    remove_empty(&ready.made);
}

/// Only what is still empty goes.
fn remove_empty(made: &[PathBuf]) {
    for directory in made.iter().rev() {
        let _ = std::fs::remove_dir(directory);
    }
}

/// Replaces what is at the path by what was prepared. On success file and directory are synced. On an
/// error no temp file is left, and what was there stands unless it is [`ToolError::Unsure`].
pub(crate) fn replace(
    path: &Path,
    old: &Old,
    new: &[u8],
    ready: &Ready,
    temps: &Temps,
    steps: Steps<'_>,
) -> Result<(), ToolError> {
    let Some(temp) = &ready.temp else { return in_place(path, old, new, ready.file, steps) };
    let replaced = match ready.way {
        Way::New | Way::InPlace => make_new(path, temp),
        Way::Exchange => by_exchange(path, old, temp, steps),
        Way::Rename => by_rename(path, old, temp, steps),
        Way::Remove => by_removal(path, old, temp, steps),
    };
    steps("replaced");
    let result = replaced.and_then(|()| sync(path).map_err(|e| unsynced(path, &e)));
    steps("directory synced");
    match result {
        // Its temp name may hold what is not ours; whoever establishes looks.
        Err(ToolError::Unsure(_)) => {}
        Err(_) => discard(ready, temps),
        Ok(()) => temps.remove(&temp.path),
    }
    steps("temp file removed");
    result
}

fn make_new(path: &Path, temp: &Temp) -> Result<(), ToolError> {
    if FileId::at(&temp.path).map_err(|e| ToolError::io(path, e))? != Some(temp.id) {
        return Err(gone(path));
    }
    match rename_new(&temp.path, path) {
        Err(e) if e.kind() == ErrorKind::AlreadyExists => Err(changed(path, "")),
        // Under both names it is there all the same.
        Err(e) if FileId::at(path).ok().flatten() != Some(temp.id) => Err(ToolError::io(path, e)),
        _ => Ok(()),
    }
}

fn by_exchange(path: &Path, old: &Old, temp: &Temp, steps: Steps<'_>) -> Result<(), ToolError> {
    let io = |e| ToolError::io(path, e);
    expect(path, old, temp)?;
    steps("checked");
    if FileId::at(&temp.path).map_err(io)? != Some(temp.id) {
        return Err(gone(path));
    }
    match exchange(&temp.path, path) {
        Err(e) if e.kind() == ErrorKind::NotFound => return Err(changed(path, "")),
        other => other.map_err(io)?,
    }
    steps("exchanged");
    let unsure = |e| unsure(path, &e);
    if is_expected(&Lies::at(&temp.path).map_err(unsure)?, old, temp) {
        return Ok(());
    }
    let kept = give_back(path, &temp.path, temp.id, Way::Exchange, steps).map_err(unsure)?;
    Err(changed(path, &told(kept.as_deref())))
}

fn by_rename(path: &Path, old: &Old, temp: &Temp, steps: Steps<'_>) -> Result<(), ToolError> {
    let io = |e| ToolError::io(path, e);
    let second = second_name(&temp.path);
    // Where files cannot have two names, the check alone has to do.
    let linked = std::fs::hard_link(path, &second).is_ok();
    steps("second name made");
    let expected = expect(path, old, temp);
    steps("checked");
    let same = |a: &Path, b: &Path| Ok::<_, std::io::Error>(FileId::at(a)? == FileId::at(b)?);
    if let Err(error) = expected {
        let _ = std::fs::remove_file(&second);
        return Err(error);
    }
    if linked && !same(path, &second).map_err(io)? {
        let _ = std::fs::remove_file(&second);
        return Err(changed(path, ""));
    }
    if FileId::at(&temp.path).map_err(io)? != Some(temp.id) {
        let _ = std::fs::remove_file(&second);
        return Err(gone(path));
    }
    std::fs::rename(&temp.path, path).map_err(io)?;
    steps("renamed");
    let unsure = |e| unsure(path, &e);
    if !linked || is_expected(&Lies::at(&second).map_err(unsure)?, old, temp) {
        return Ok(());
    }
    let kept = give_back(path, &second, temp.id, Way::Rename, steps).map_err(unsure)?;
    Err(changed(path, &told(kept.as_deref())))
}

fn by_removal(path: &Path, old: &Old, temp: &Temp, steps: Steps<'_>) -> Result<(), ToolError> {
    expect(path, old, temp)?;
    steps("checked");
    match rename_new(path, &temp.path) {
        Err(e) if e.kind() == ErrorKind::NotFound => return Err(changed(path, "")),
        other => other.map_err(|e| ToolError::io(path, e))?,
    }
    steps("moved out");
    let unsure = |e| unsure(path, &e);
    if is_expected(&Lies::at(&temp.path).map_err(unsure)?, old, temp) {
        return Ok(());
    }
    let kept = give_back(path, &temp.path, temp.id, Way::Remove, steps).map_err(unsure)?;
    Err(changed(path, &told(kept.as_deref())))
}

/// Puts what came out of a path back there, as long as what is there now is `ours`. What somebody put
/// there meanwhile stands, and what came out is kept beside it: where, is returned. Only on an error
/// something that is not ours may still lie at `out`.
pub(crate) fn give_back(
    path: &Path,
    out: &Path,
    ours: FileId,
    way: Way,
    steps: Steps<'_>,
) -> std::io::Result<Option<PathBuf>> {
    if way == Way::Remove {
        if rename_new(out, path).is_err() {
            return keep(out).map(Some);
        }
        steps("given back");
        return sync(path).map(|()| None);
    }
    if FileId::at(path)? != Some(ours) {
        return keep(out).map(Some);
    }
    if way == Way::Rename {
        std::fs::rename(out, path)?;
        steps("given back");
        return sync(path).map(|()| None);
    }
    match exchange(out, path) {
        Err(e) if e.kind() == ErrorKind::NotFound => return keep(out).map(Some),
        other => other?,
    }
    steps("given back");
    if FileId::at(out)? == Some(ours) {
        return sync(path).map(|()| None);
    }
    // Something newer stood there: it goes back, and the older one is kept.
    if exchange(out, path).is_err() {
        rename_new(out, path)?;
        return sync(path).map(|()| None);
    }
    keep(out).map(Some)
}

/// Moves what is not ours from a temp file's name to one that is never swept.
pub(crate) fn keep(out: &Path) -> std::io::Result<PathBuf> {
    let kept = kept_name(out);
    if rename_new(out, &kept).is_err() {
        std::fs::rename(out, &kept)?;
    }
    sync(&kept)?;
    Ok(kept)
}

/// Makes a file's content and its name durable, or that it is gone.
pub(crate) fn make_durable(path: &Path, steps: Steps<'_>) -> std::io::Result<()> {
    match file::open(path, OpenOptions::new().read(true)) {
        Err(e) if e.kind() == ErrorKind::NotFound => {}
        opened => opened?.sync_all()?,
    }
    sync(path)?;
    steps("made durable");
    Ok(())
}

/// Makes a name durable.
fn sync(path: &Path) -> std::io::Result<()> {
    File::open(parent(path))?.sync_all()
}

fn in_place(
    path: &Path,
    old: &Old,
    new: &[u8],
    expected: FileId,
    steps: Steps<'_>,
) -> Result<(), ToolError> {
    let io = |e| ToolError::io(path, e);
    let mut file = match file::open(path, OpenOptions::new().write(true)) {
        Err(e) if e.kind() == ErrorKind::NotFound => return Err(changed(path, "")),
        other => other.map_err(io)?,
    };
    let opened = FileId::of(&file.metadata().map_err(io)?);
    if !Lies::at(path).map_err(io)?.holds(old.bytes()) {
        return Err(changed(path, ""));
    }
    // Both the content that was looked at and the file that is open are what the path leads to.
    if opened != expected || FileId::at(path).map_err(io)? != Some(expected) {
        return Err(changed(path, ""));
    }
    steps("checked");
    let write = |file: &mut File| {
        let half = new.len() / 2;
        file.write_all(&new[..half])?;
        steps("half written");
        file.write_all(&new[half..])?;
        steps("written");
        file.set_len(new.len() as u64)?;
        steps("cut");
        file.sync_all()
    };
    write(&mut file).map_err(|e| {
        let path = path.display();
        ToolError::Unsure(format!("{path}: {e}; it was written in place and may be half written"))
    })?;
    steps("synced");
    Ok(())
}

/// Checks that a path still holds what the change was worked out from.
fn expect(path: &Path, old: &Old, temp: &Temp) -> Result<(), ToolError> {
    let lies = Lies::at(path).map_err(|e| ToolError::io(path, e))?;
    if is_expected(&lies, old, temp) { Ok(()) } else { Err(changed(path, "")) }
}

/// Whether it is the old file: its content, and the permissions that the new one was given.
fn is_expected(lies: &Lies, old: &Old, temp: &Temp) -> bool {
    matches!(lies, Lies::File(found) if found.bytes == old.bytes() && found.mode == temp.mode)
}

fn changed(path: &Path, more: &str) -> ToolError {
    let path = path.display();
    ToolError::Refused(format!(
        "{path} was changed by someone else meanwhile; nothing was written.{more} Read it again."
    ))
}

fn gone(path: &Path) -> ToolError {
    let path = path.display();
    ToolError::Refused(format!(
        "the temporary file beside {path} was removed by someone else; nothing was written"
    ))
}

fn unsure(path: &Path, error: &std::io::Error) -> ToolError {
    let path = path.display();
    ToolError::Unsure(format!("{path}: {error}; it is not certain what it holds now. Read it."))
}

fn unsynced(path: &Path, error: &std::io::Error) -> ToolError {
    let path = path.display();
    ToolError::Unsure(format!("{path} was written, but its directory could not be synced: {error}"))
}

/// What is said of a version that had to be kept beside the file.
pub(crate) fn told(kept: Option<&Path>) -> String {
    match kept {
        Some(kept) => {
            format!(" An earlier version that somebody else wrote is kept as {}.", kept.display())
        }
        None => String::new(),
    }
}

/// Creates missing directories, each synced in its parent, up to the first that existed.
fn create_parents(
    directory: &Path,
    made: &mut Vec<PathBuf>,
    steps: Steps<'_>,
) -> Result<(), ToolError> {
    match std::fs::metadata(directory) {
        Ok(meta) if meta.is_dir() => return Ok(()),
        Ok(_) => {
            let shown = directory.display();
            return Err(ToolError::Refused(format!("{shown} is not a directory")));
        }
        Err(e) if e.kind() == ErrorKind::NotFound => {}
        Err(e) => return Err(ToolError::io(directory, e)),
    }
    create_parents(parent(directory), made, steps)?;
    match std::fs::create_dir(directory) {
        Err(e) if e.kind() != ErrorKind::AlreadyExists => return Err(ToolError::io(directory, e)),
        Err(_) => {}
        Ok(()) => made.push(directory.to_owned()),
    }
    steps("directory made");
    sync(directory).map_err(|e| ToolError::io(directory, e))
}
