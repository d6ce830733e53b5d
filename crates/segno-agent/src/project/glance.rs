//! How a directory looks to one who does not ask git.
//!
//! Responsible for: whether there is a repository at all, and a mark that changes when git's answers may.
//! Must not: tell a fact of a project itself; git knows its own rules best.

use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// How much of one of git's small files is read.
const SMALL: u64 = 4096;

/// A look at a directory, which starts no program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Glance {
    /// The directory; none when it is not there.
    pub(super) real: Option<PathBuf>,
    /// What git finds first on its way up, if it finds anything.
    pub(super) dot_git: Option<PathBuf>,
}

impl Glance {
    pub(super) fn at(cwd: &Path) -> Self {
        let real = cwd.canonicalize().ok();
        let up = real.iter().flat_map(|real| real.ancestors());
        let dot_git = up.map(|dir| dir.join(".git")).find(|path| path.symlink_metadata().is_ok());
        Self { real, dot_git }
    }

    /// What stands for this look: the place, which repository is there, what is checked out, and whether
    /// its history is cut.
    pub(super) fn mark(&self) -> String {
        let Some(real) = &self.real else { return String::new() };
        let place = real.display();
        let Some(dot_git) = &self.dot_git else { return format!("{place}\n") };
        // A repository that was made anew may get the number of the one before.
        let found = fs::metadata(dot_git).map(|meta| (meta.ino(), meta.created().ok()));
        let made = format!("{:?}", found.ok());
        // In a worktree it is a file that names the directory.
        let linked = small(dot_git);
        let dir = match linked.strip_prefix("gitdir:") {
            Some(named) => dot_git.with_file_name("").join(named.trim()),
            None => dot_git.clone(),
        };
        let shared = dir.join(small(&dir.join("commondir")).trim_end());
        let shallow = shared.join("shallow").exists();
        let head = small(&dir.join("HEAD"));
        format!("{place}\n{}\n{made}\n{shallow}\n{head}", shared.display())
    }
}

/// The beginning of a file; nothing where there is none.
fn small(path: &Path) -> String {
    let mut text = String::new();
    // A pipe under such a name is waited for by git as well.
    if path.is_file()
        && let Ok(file) = File::open(path)
    {
        // What is no text is nothing that git understands.
        let _ = file.take(SMALL).read_to_string(&mut text);
    }
    text
}
