//! New files in another agent's folder: the only place that makes any (G14), but for copies of files that are
//! repaired, which are written line by line (`rescue/place.rs`).
//!
//! Responsible for: all of the files or none, each whole and durable when it is there, private (G17), and
//! never in the place of one that is there. The first file is the session's own and comes last, so that its agent
//! finds nothing before all is there; an installation that was cut off is finished by the next one. Must not:
//! change or replace anything that was there, or know any agent.

use crate::convert::File;
use crate::disk::{Disk, DiskFile, Writes};
use crate::durable::{TempFile, read_file, sync_dir, write_all};
use crate::error::{store_error, write_error};
use crate::layout::exists;
use crate::leftovers::sweep_nameless;
use segno_model::store::StoreError;
use std::io::ErrorKind;
use std::path::{Component, Path, PathBuf};

/// What became of an installation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Installed {
    /// All files are there now, the session's own first.
    New(Vec<PathBuf>),
    /// The session's own file was there before, as an earlier installation made it or grown since.
    Before(PathBuf),
}

/// Why nothing was installed.
#[derive(Debug, thiserror::Error)]
pub enum InstallError {
    /// A file would not lie below the agent's folder.
    #[error("{} does not lie below the agent's folder", .0.display())]
    Outside(PathBuf),
    /// Another file has the name.
    #[error("{} is there already, and is another file", .0.display())]
    Taken(PathBuf),
    /// The files could not be written. What had been made was removed, as far as that was possible.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// The file that shows that a session is installed, if it is there. `mark` is what stands in it however it has
/// grown, the session's id there; nothing for any file of its name.
///
/// # Errors
/// When that cannot be seen, or something else has its name.
pub fn installed<D: Disk>(
    disk: &D,
    root: &Path,
    files: &[File],
    mark: &str,
) -> Result<Option<PathBuf>, InstallError> {
    let Some(first) = files.first() else { return Ok(None) };
    let path = below(root, &first.path)?;
    if !exists(disk, &path)? {
        return Ok(None);
    }
    let failed = |e| store_error("reading", &path, e);
    let found = match disk.meta(&path).map_err(failed)? {
        found if found.is_dir => Vec::new(),
        _ => read_file(disk, &path).map_err(failed)?,
    };
    // The agent has gone on with it, or has written it anew: what stays is its id.
    if memchr::memmem::find(&found, mark.as_bytes()).is_none() {
        return Err(InstallError::Taken(path));
    }
    Ok(Some(path))
}

/// Makes the files below `root`, an agent's own folder, which is made too if it is not there. `mark` is as for
/// [`installed`].
///
/// # Errors
/// When a name is taken or something cannot be written. Nothing is there then that was not there before.
pub fn install<D: Disk>(
    disk: &D,
    root: &Path,
    files: &[File],
    mark: &str,
) -> Result<Installed, InstallError> {
    put(disk, root, files, mark, None)
}

/// Makes one file again that was there before, as of when it was changed last (ns since 1970).
///
/// # Errors
/// As [`install`].
pub fn put_back<D: Disk>(
    disk: &D,
    root: &Path,
    file: File,
    modified_ns: i64,
) -> Result<Installed, InstallError> {
    put(disk, root, &[file], "", Some(modified_ns))
}

fn put<D: Disk>(
    disk: &D,
    root: &Path,
    files: &[File],
    mark: &str,
    modified_ns: Option<i64>,
) -> Result<Installed, InstallError> {
    if let Some(path) = installed(disk, root, files, mark)? {
        return Ok(Installed::Before(path));
    }
    let paths: Vec<PathBuf> =
        files.iter().map(|file| below(root, &file.path)).collect::<Result<_, _>>()?;
    let (dirs, made) = (Vec::new(), Vec::new());
    let mut made = Made { disk, dirs, files: made, modified_ns, keep: false };
    let mut own = true;
    for (file, path) in files.iter().zip(&paths).rev() {
        own = match made.file(path, &file.bytes) {
            Ok(own) => own,
            Err(error @ InstallError::Taken(_)) => {
                // Another process was quicker with the same session? What was made here is a part of that, too.
                let Ok(Some(path)) = installed(disk, root, files, mark) else { return Err(error) };
                made.keep = true;
                return Ok(Installed::Before(path));
            }
            Err(error) => return Err(error),
        };
    }
    made.keep = true;
    match paths.first() {
        Some(path) if !own => Ok(Installed::Before(path.clone())),
        _ => Ok(Installed::New(paths)),
    }
}

/// A path below the folder: names only, no way out.
fn below(root: &Path, path: &Path) -> Result<PathBuf, InstallError> {
    let only_names = path.components().all(|part| matches!(part, Component::Normal(_)));
    if only_names && path.file_name().is_some() {
        Ok(root.join(path))
    } else {
        Err(InstallError::Outside(path.to_owned()))
    }
}

/// What was made so far; removed again unless it is to be kept.
struct Made<'a, D: Disk> {
    disk: &'a D,
    dirs: Vec<PathBuf>,
    files: Vec<PathBuf>,
    /// What the files say of when they were changed last; none for now.
    modified_ns: Option<i64>,
    keep: bool,
}

impl<D: Disk> Made<'_, D> {
    /// One file with its directory, durable when it returns; whether it was made here.
    fn file(&mut self, path: &Path, bytes: &[u8]) -> Result<bool, InstallError> {
        let Some(dir) = path.parent() else { return Err(InstallError::Outside(path.to_owned())) };
        self.dir(dir)?;
        sweep_nameless(self.disk, dir);
        let own = !exists(self.disk, path)? && self.link(dir, path, bytes)?;
        if own {
            self.files.push(path.to_owned());
        } else {
            // One that was cut off left it, or one that runs now makes it.
            let found = read_file(self.disk, path).map_err(|e| store_error("reading", path, e))?;
            if found != bytes {
                return Err(InstallError::Taken(path.to_owned()));
            }
        }
        sync_dir(self.disk, dir)?;
        Ok(own)
    }

    /// Gives the file its name; false when that was taken meanwhile.
    fn link(&self, dir: &Path, path: &Path, bytes: &[u8]) -> Result<bool, InstallError> {
        let temp = TempFile::write_held(self.disk, dir, bytes)?;
        if let Some(ns) = self.modified_ns {
            // Before it has its name: its agent never sees another time. Without it, it is the file all the same.
            let _ = self.disk.set_modified(temp.path(), ns);
        }
        match temp.link_new(path) {
            Ok(()) => Ok(true),
            Err(e) if e.kind() == ErrorKind::AlreadyExists => Ok(false),
            Err(e) if !no_links(e.kind()) => Err(write_error("linking", path, e).into()),
            // Some local file systems have no hard links.
            Err(_) => match self.disk.create_new(path, Writes::Sequential) {
                Ok(file) => {
                    let written = write_all(&file, bytes).and_then(|()| file.sync_all());
                    written.map(|()| true).map_err(|e| {
                        // A part of the file must not stay.
                        let _ = self.disk.remove_file(path);
                        write_error("writing", path, e).into()
                    })
                }
                Err(e) if e.kind() == ErrorKind::AlreadyExists => Ok(false),
                Err(e) => Err(write_error("creating", path, e).into()),
            },
        }
    }

    /// A directory and what is missing above it. Those that were there stay as they are.
    fn dir(&mut self, dir: &Path) -> Result<(), StoreError> {
        let mut missing = Vec::new();
        for dir in dir.ancestors().filter(|dir| !dir.as_os_str().is_empty()) {
            if exists(self.disk, dir)? {
                break;
            }
            missing.push(dir);
        }
        for dir in missing.into_iter().rev() {
            match self.disk.create_dir(dir) {
                Ok(()) => self.dirs.push(dir.to_owned()),
                Err(e) if e.kind() == ErrorKind::AlreadyExists => {}
                Err(e) => return Err(write_error("creating", dir, e)),
            }
        }
        // Also one that an installation made that was cut off.
        for above in dir.ancestors().skip(1).filter(|dir| !dir.as_os_str().is_empty()) {
            match self.disk.sync_dir(above) {
                // What is closed to us we have made nothing in.
                Err(e) if e.kind() == ErrorKind::PermissionDenied => break,
                other => other.map_err(|e| write_error("syncing", above, e))?,
            }
        }
        Ok(())
    }
}

fn no_links(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::Unsupported | ErrorKind::PermissionDenied | ErrorKind::TooManyLinks)
}

impl<D: Disk> Drop for Made<'_, D> {
    fn drop(&mut self) {
        if self.keep {
            return;
        }
        // What cannot be removed is a file that nobody lists, or a folder with nothing in it.
        for path in &self.files {
            let _ = self.disk.remove_file(path);
        }
        for dir in self.dirs.iter().rev() {
            let _ = self.disk.remove_dir(dir);
        }
    }
}
