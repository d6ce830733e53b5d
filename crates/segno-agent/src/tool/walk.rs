//! Walking files the way a developer means it: without what git ignores.
//!
//! Responsible for: the walk's options and its stable order. Must not: know what is looked for.

use super::error::ToolError;
use ignore::WalkBuilder;
use ignore::overrides::OverrideBuilder;
use segno_runtime::StopKind;
use std::io::Read;
use std::path::Path;
use std::sync::{Arc, OnceLock};

/// Tells blocking work that the user's stop came.
#[derive(Debug, Clone, Default)]
pub(crate) struct Cancel(Arc<OnceLock<StopKind>>);

impl Cancel {
    /// Asks the work to end.
    pub(crate) fn cancel(&self, kind: StopKind) {
        let _ = self.0.set(kind);
    }

    /// An error when it should end.
    pub(crate) fn check(&self) -> Result<(), ToolError> {
        self.0.get().map_or(Ok(()), |kind| Err(ToolError::Stopped(*kind)))
    }
}

/// A reader that ends with an error when the work should end.
pub(crate) struct Watched<'a, R> {
    pub(crate) inner: R,
    pub(crate) cancel: &'a Cancel,
}

impl<R: Read> Read for Watched<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        self.cancel.check().map_err(std::io::Error::other)?;
        self.inner.read(buffer)
    }
}

/// A walk from `base`, sorted by path: ignore files are obeyed also outside of a repository, `.git` is
/// never entered, links are not followed.
pub(crate) fn walk(
    base: &Path,
    hidden: bool,
    glob: Option<&str>,
) -> Result<ignore::Walk, ToolError> {
    let mut builder = WalkBuilder::new(base);
    builder
        .hidden(!hidden)
        .require_git(false)
        .sort_by_file_path(Path::cmp)
        .filter_entry(|entry| entry.file_name() != ".git" || entry.depth() == 0);
    if let Some(glob) = glob {
        let mut overrides = OverrideBuilder::new(base);
        let bad = |e: ignore::Error| ToolError::Arguments(format!("`glob` is not valid: {e}"));
        overrides.add(glob).map_err(bad)?;
        builder.overrides(overrides.build().map_err(bad)?);
    }
    Ok(builder.build())
}
