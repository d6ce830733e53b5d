//! Making a worktree, whole or not at all.
//!
//! Responsible for: the note first, then git's part, then the position in it; and taking all of it back where
//! one step fails or is stopped. Must not: touch a worktree or a branch that was there before.

use super::plan::{Planned, Refusal, git_dir, refusal};
use super::{Note, UNFINISHED, Worktrees};
use crate::git;
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::Path;

impl Worktrees {
    /// Makes a planned worktree. Its intent is on record; nothing of it is there.
    ///
    /// # Errors
    /// What went wrong; nothing of it is there then.
    pub async fn make(&self, planned: &Planned, note: &Note) -> Result<(), Refusal> {
        self.write_note(note).map_err(|error| {
            let why = format!("{} cannot be written: {error}", self.directory.display());
            refusal("worktree-failed", why)
        })?;
        let made = self.add(planned).await;
        if let Err(why) = made {
            let left = self.take_back(note).await;
            return Err(refusal(
                "worktree-failed",
                format!("the worktree was not made: {why}{left}"),
            ));
        }
        Ok(())
    }

    async fn add(&self, planned: &Planned) -> Result<(), String> {
        let worktree = &planned.worktree;
        let at = git_dir(Path::new(&worktree.repo_root));
        let (branch, path, baseline) = (&worktree.branch, &worktree.path, &worktree.baseline);
        let add = [&at, "worktree", "add", "--quiet", "-b", branch];
        let add = [&add[..], &["--", path, baseline]].concat();
        let answer = git::call(&self.directory, &add).await.map_err(|e| e.to_string())?;
        if !answer.is_content() {
            return Err(format!("git said: {}", answer.complaint()));
        }
        // Git keeps no empty directories, so the position may not be there.
        std::fs::create_dir_all(&planned.cwd).map_err(|e| e.to_string())?;
        let real = planned.cwd.canonicalize().map_err(|e| e.to_string())?;
        if real.starts_with(path) {
            return Ok(());
        }
        Err(format!("{} leads out of it", planned.cwd.display()))
    }

    /// Takes back what [`Worktrees::make`] made before it failed or was dropped: nobody has worked in it. Says
    /// what stays.
    pub async fn take_back(&self, note: &Note) -> String {
        let worktree = &note.worktree;
        let at = git_dir(Path::new(&worktree.repo_root));
        let path = Path::new(&worktree.path);
        let remove = [&at, "worktree", "remove", "--force", "--force", &worktree.path];
        // Git may know nothing of it yet.
        let _ = git::call(&self.directory, &remove).await;
        let gone = match std::fs::remove_dir_all(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error.to_string()),
            _ => Ok(()),
        };
        let name = format!("refs/heads/{}", worktree.branch);
        let delete = [&at, "update-ref", "-d", &name, &worktree.baseline];
        let _ = git::call(&self.directory, &delete).await;
        match gone {
            Ok(()) => {
                let _ = std::fs::remove_file(self.note_path(&note.child));
                String::new()
            }
            // The note stays, so that it is listed.
            Err(why) => format!("; {} could not be removed: {why}", worktree.path),
        }
    }

    /// Durable when it returns.
    fn write_note(&self, note: &Note) -> io::Result<()> {
        DirBuilder::new().recursive(true).mode(0o700).create(&self.directory)?;
        let text = serde_json::to_string(note).map_err(io::Error::other)?;
        let path = self.note_path(&note.child);
        let temp = path.with_extension(UNFINISHED);
        let mut file =
            OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&temp)?;
        // As long as it is locked, somebody is at it.
        file.lock()?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        std::fs::rename(&temp, &path)?;
        File::open(&self.directory)?.sync_all()
    }
}
