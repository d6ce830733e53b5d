//! What going back needs of the tools: what an edit's record says, and bringing one file back.
//!
//! Responsible for: the same steps as for an edit, prepared before its intent and carried out behind it.
//! Must not: decide which content comes back.

use super::Toolbox;
use super::change::{self, Change, Old, Prepared, Probe};
use super::edits::new_content;
use segno_model::record::{Action, ReplayClass, ToolCall};
use segno_runtime::ToolPlan;
use serde_json::value::RawValue;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What the record of a `write` or `edit` says.
#[derive(Debug)]
pub(crate) struct EditFacts {
    probe: Probe,
    call: Option<ToolCall>,
}

impl EditFacts {
    /// The facts of an edit; none when it is none, or its record does not say enough.
    pub(crate) fn of(action: &Action, call: Option<&ToolCall>) -> Option<Self> {
        let edits = ["write", "edit"].contains(&action.tool.as_str());
        let probe = Probe::read(action.probe.as_deref()).filter(|_| edits)?;
        Some(Self { probe, call: call.cloned() })
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.probe.path()
    }

    pub(crate) fn old_sha256(&self) -> Option<&str> {
        self.probe.old_sha256.as_deref()
    }

    pub(crate) fn new_sha256(&self) -> Option<&str> {
        self.probe.new_sha256.as_deref()
    }

    /// Whether content is what this edit, written in place over `old`, leaves when it is cut off.
    pub(crate) fn half_written(&self, content: &[u8], old: &[u8]) -> bool {
        let new = self.call.as_ref().and_then(|call| new_content(call, Some(old)));
        new.is_some_and(|new| change::half_written(&self.probe, content, old, &new))
    }
}

/// A file that is about to be brought back.
#[derive(Debug)]
pub(crate) struct Restoring {
    prepared: Prepared,
    probe: Option<Box<RawValue>>,
}

impl Restoring {
    /// What a path holds now; why it is not to be touched, otherwise.
    pub(crate) fn look(path: &Path) -> Result<Old, String> {
        // A link that was put on the way leads elsewhere.
        if let Some(parent) = path.parent()
            && let Ok(real) = parent.canonicalize()
            && real != parent
        {
            return Err(format!("its directory leads to {} now", real.display()));
        }
        Old::read(path).map_err(|e| e.to_string())
    }

    /// What it replaces.
    pub(crate) fn replaced(&self) -> Option<&[u8]> {
        match &self.prepared.change.old {
            Old::Absent => None,
            Old::Content(bytes) => Some(bytes),
        }
    }

    /// The facts for its intent.
    pub(crate) fn take_probe(&mut self) -> Option<Box<RawValue>> {
        self.probe.take()
    }
}

impl Toolbox {
    /// Prepares to give a file that holds `old` this content again, or to remove it.
    pub(crate) async fn prepare_restoring(
        &self,
        path: &Path,
        old: Old,
        content: Option<Vec<u8>>,
    ) -> Result<Restoring, String> {
        let (edits, path) = (Arc::clone(&self.edits), path.to_owned());
        let shown = self.workspace.show(&path);
        let work = tokio::task::spawn_blocking(move || {
            let (remove, new) = (content.is_none(), content.unwrap_or_default());
            let change = Change { path, shown, old, new, note: String::new() };
            let prepared = if remove {
                change.prepare_removal(edits.temps())
            } else {
                change.prepare(edits.temps())
            };
            let prepared = prepared.map_err(|e| e.to_string())?;
            let plan = prepared.plan(ToolPlan::new(ReplayClass::Verified));
            let probe = plan.map_err(|e| e.to_string())?.probe;
            Ok(Restoring { prepared, probe })
        });
        work.await.map_err(|e| e.to_string())?
    }

    /// Brings the file back; durable when it returns.
    pub(crate) async fn restore(&self, restoring: Restoring) -> Result<(), String> {
        let edits = Arc::clone(&self.edits);
        let work = tokio::task::spawn_blocking(move || {
            let prepared = &restoring.prepared;
            // What it is to hold now is checked again behind the lock.
            let _held = edits.locks().take(&prepared.change.path).map_err(|error| {
                prepared.discard(edits.temps());
                error.to_string()
            })?;
            prepared.carry_out(edits.temps()).map(|_| ()).map_err(|e| e.to_string())
        });
        work.await.map_err(|e| e.to_string())?
    }

    /// Takes back what was prepared.
    pub(crate) fn discard_restoring(&self, restoring: &Restoring) {
        restoring.prepared.discard(self.edits.temps());
    }
}
