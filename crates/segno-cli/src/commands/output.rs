//! Where `-o` puts things.
//!
//! Responsible for: that the folder of a new file is there before anything is asked or written; no command makes it
//! unasked. Must not: write anything.

use crate::args::quoted;
use crate::error::{CliError, ExitCode};
use std::path::Path;

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
