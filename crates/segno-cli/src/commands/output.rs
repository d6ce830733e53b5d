//! Where `-o` puts things.
//!
//! Responsible for: whether standard output is meant, and that a new file can have its name before anything is asked
//! or written: its folder is there, which no command makes unasked, and the name is not a folder's. Must not: write
//! anything.

use crate::args::quoted;
use crate::error::{CliError, ExitCode};
use crate::terminal::Screen;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// The file that `-o` names; none for standard output, which is `-`.
pub(super) fn file(output: Option<&Path>) -> Option<&Path> {
    output.filter(|path| *path != Path::new("-"))
}

/// That a new file can have this name, as far as folders go; `name` is what it may be called in a folder.
///
/// # Errors
/// When its folder is not there, or a folder has the name.
pub(super) fn can_be_file(path: &Path, name: &str) -> Result<(), CliError> {
    if !path.is_dir() {
        return folder_is_there(path);
    }
    // Without what means nothing in it, like a dot at its end.
    let folder: PathBuf = path.components().collect();
    let inside = quoted(&folder.join(name).display().to_string());
    Err(CliError::failed(format!("{} is a directory.", folder.display()))
        .because("-o names a new file, and nothing that is there is replaced")
        .next(format!("Name a file in it: -o {inside}")))
}

/// That the folder is there in which a new file is to be.
///
/// # Errors
/// When it is not.
pub(super) fn folder_is_there(of: &Path) -> Result<(), CliError> {
    let folder = match of.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => return Ok(()),
    };
    if folder.is_dir() {
        return Ok(());
    }
    let shown = folder.display().to_string();
    let sentence = format!("{} cannot be written.", of.display());
    Err(CliError::new(ExitCode::Unwritable, sentence)
        .because(format!("{shown} is no folder that is there"))
        .next(format!("Make it first: mkdir -p {}", quoted(&shown))))
}

/// Standard output for what is written piece by piece.
pub(super) struct Standard<'a> {
    screen: &'a mut Screen,
    waiting: Vec<u8>,
}

impl<'a> Standard<'a> {
    pub(super) fn of(screen: &'a mut Screen) -> Self {
        Self { screen, waiting: Vec::new() }
    }
}

impl Write for Standard<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // A character that comes in two pieces is written in one.
        self.waiting.extend_from_slice(bytes);
        if bytes.ends_with(b"\n") && self.waiting.len() > 1 << 16 {
            self.flush()?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.screen.exact(&std::mem::take(&mut self.waiting));
        Ok(())
    }
}
