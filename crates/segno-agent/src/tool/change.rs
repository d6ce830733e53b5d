//! A change to one file: what `write` and `edit` work out before anything is touched.
//!
//! Responsible for: the facts by which recovery can tell its outcome, its preview, and carrying it
//! out. Must not: work out the new content.

use super::diff;
use super::error::ToolError;
use super::replace::{self, Old, Way};
use segno_model::id::sha256_hex;
use segno_runtime::ToolOutput;
use serde::Serialize;
use std::path::{Path, PathBuf};

/// New content for a file.
#[derive(Debug, Clone)]
pub(crate) struct Change {
    /// Where, links resolved.
    pub(crate) path: PathBuf,
    /// The same for people.
    pub(crate) shown: String,
    /// What is there.
    pub(crate) old: Old,
    /// What is to be there.
    pub(crate) new: Vec<u8>,
    /// More about it for the model.
    pub(crate) note: String,
}

/// What the intent says about a change, so that its outcome can be read off the file later (G7).
#[derive(Debug, Serialize)]
pub(crate) struct Probe {
    path: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    path_hex: Option<String>,
    old_sha256: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    new_sha256: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    way: Option<Way>,
}

impl Probe {
    /// For an edit that does not fit the file yet: only where it would be. Its outcome is unknown
    /// after a crash.
    pub(crate) fn unplanned(path: &Path) -> Self {
        use std::os::unix::ffi::OsStrExt;
        let bytes = path.as_os_str().as_bytes();
        let hex = || bytes.iter().map(|b| format!("{b:02x}")).collect();
        Self {
            path: path.display().to_string(),
            path_hex: path.to_str().is_none().then(hex),
            old_sha256: None,
            new_sha256: None,
            way: None,
        }
    }
}

impl Change {
    /// The facts for the intent.
    pub(crate) fn probe(&self) -> Result<Probe, ToolError> {
        Ok(Probe {
            old_sha256: self.old.sha256(),
            new_sha256: Some(sha256_hex(&self.new)),
            way: Some(Way::find(&self.path)?),
            ..Probe::unplanned(&self.path)
        })
    }

    /// What a person is shown before it happens.
    pub(crate) fn preview(&self) -> String {
        diff::unified(&self.shown, self.old.bytes(), &self.new)
    }

    /// Carries it out; file and directory are synced when this returns.
    pub(crate) fn apply(&self) -> Result<ToolOutput, ToolError> {
        let (shown, bytes) = (&self.shown, self.new.len());
        if self.old.bytes() == self.new && self.old != Old::Absent {
            return Ok(ToolOutput::done(format!("{shown} already holds exactly that; unchanged")));
        }
        let way = replace::replace(&self.path, &self.old, &self.new)?;
        let in_place = if way == Way::InPlace { " (in place)" } else { "" };
        let head = match self.old {
            Old::Absent => format!("created {shown} ({bytes} bytes)\n"),
            Old::Content(_) => format!("changed {shown}{in_place}\n{}", self.preview()),
        };
        Ok(ToolOutput::done(format!("{head}{}", self.note)))
    }
}
