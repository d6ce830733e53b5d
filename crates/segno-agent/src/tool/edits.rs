//! The changes of a session's `write` and `edit` calls, from judging to result.
//!
//! Responsible for: that what runs is what was judged and what the intent says, and what became of those
//! that another process began. Must not: decide whether a change may happen, or touch a file itself.

use super::change::{self, Change, Prepared, Probe, Temps};
use super::error::ToolError;
use super::file_lock::{FileLock, FileLocks};
use super::request::Request;
use super::workspace::Workspace;
use super::{ToolCallKey, edit, key, lock, plan};
use segno_model::id::sha256_hex;
use segno_model::record::{Outcome, ToolCall};
use segno_runtime::{Begun, ToolOutput, ToolPlan};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

/// How many judged and not yet prepared changes are remembered.
const MAX_PLANNED: usize = 4096;

/// The changes that are under way.
#[derive(Debug)]
pub(crate) struct Edits {
    temps: Temps,
    planned: Mutex<HashMap<ToolCallKey, Planned>>,
    /// Each with the right to its file, from before that was read until it is durable.
    prepared: Mutex<HashMap<ToolCallKey, (Prepared, FileLock)>>,
    locks: FileLocks,
    /// Those of dead processes whose traces go when what was found is on record.
    found: Mutex<Vec<Probe>>,
}

/// What a call was judged to be about.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Planned {
    /// Where the path led.
    path: PathBuf,
    /// The hash of what was there.
    old: Option<String>,
}

impl Edits {
    pub(crate) fn new(temps: Temps, locks: FileLocks) -> Self {
        let (planned, prepared, found) = Default::default();
        Self { temps, planned, prepared, locks, found }
    }

    /// The locks of the files that are changed.
    pub(crate) fn locks(&self) -> &FileLocks {
        &self.locks
    }

    /// The temp files of this session.
    pub(crate) fn temps(&self) -> &Temps {
        &self.temps
    }

    /// Remembers what a call was judged to be about.
    pub(crate) fn judged(&self, call: &ToolCall, path: &Path, change: Option<&Change>) {
        let old = change.and_then(|change| change.old.sha256());
        let mut planned = lock(&self.planned);
        if planned.len() >= MAX_PLANNED {
            planned.clear();
        }
        planned.insert(key(call), Planned { path: path.to_owned(), old });
    }

    /// Makes what the intent names, if the change is still the one that was judged. `Err` is the result.
    pub(crate) fn prepare(
        &self,
        call: &ToolCall,
        request: &Request,
        workspace: &Workspace,
        given: ToolPlan,
    ) -> Result<Result<ToolPlan, ToolOutput>, ToolError> {
        let judged = lock(&self.planned).remove(&key(call));
        let Some(held) = self.hold(judged.as_ref())? else {
            lock(&self.planned).extend(judged.map(|judged| (key(call), judged)));
            return Ok(Ok(ToolPlan { not_yet: true, ..given }));
        };
        let Some(change) = plan(workspace, request)? else { return Ok(Ok(given)) };
        let (shown, old) = (&change.shown, change.old.sha256());
        let refuse =
            |why: &str| Err(ToolError::Refused(format!("{shown} {why}; nothing was written")));
        match judged {
            Some(judged) if judged.path != change.path => {
                return refuse("is not where this path led when the call was judged");
            }
            // An edit says itself what it expects; a whole new content is only right over what was seen.
            Some(judged) if matches!(request, Request::Write(_)) && judged.old != old => {
                return refuse("was changed since this call was judged; read it again");
            }
            Some(_) => {}
            None => return refuse("is to be changed by a call that was not judged"),
        }
        if let Some(output) = change.nothing_to_do() {
            return Ok(Err(output));
        }
        let prepared = change.prepare(&self.temps)?;
        match prepared.plan(given) {
            Ok(plan) => {
                lock(&self.prepared).insert(key(call), (prepared, held));
                Ok(Ok(plan))
            }
            Err(error) => {
                prepared.discard(&self.temps);
                Err(error)
            }
        }
    }

    /// The right to a judged call's file. Only a session that holds none waits for one, so that no two wait
    /// for each other; none for one that has to come back for it.
    fn hold(&self, judged: Option<&Planned>) -> Result<Option<FileLock>, ToolError> {
        let Some(judged) = judged else { return Ok(Some(FileLock::default())) };
        if lock(&self.prepared).is_empty() {
            return self.locks.take(&judged.path).map(Some);
        }
        self.locks.try_take(&judged.path)
    }

    /// Makes the change that was prepared.
    pub(crate) fn carry_out(&self, call: &ToolCall) -> Result<ToolOutput, ToolError> {
        let prepared = lock(&self.prepared).remove(&key(call));
        let Some((prepared, _held)) = prepared else {
            let why = "the call was not prepared; nothing was written";
            return Err(ToolError::Refused(why.to_owned()));
        };
        let output = prepared.carry_out(&self.temps)?;
        // Calls of the same reply that were judged over the same content now stand over this one.
        let Change { path, old, new, .. } = &prepared.change;
        let (old, new) = (old.sha256(), sha256_hex(new));
        for other in lock(&self.planned).values_mut() {
            if other.path == *path && other.old == old {
                other.old = Some(new.clone());
            }
        }
        Ok(output)
    }

    /// Takes back what was prepared for a call that will not run.
    pub(crate) fn discard(&self, call: &ToolCall) {
        lock(&self.planned).remove(&key(call));
        let prepared = lock(&self.prepared).remove(&key(call));
        if let Some((prepared, _held)) = prepared {
            prepared.discard(&self.temps);
        }
    }

    /// What became of a change that another process began.
    pub(crate) fn establish(&self, begun: &Begun<'_>, workspace: &Workspace) -> ToolOutput {
        let Some(probe) = Probe::read(begun.action.probe.as_deref()) else {
            let said = "Segno was interrupted during this edit; its record does not say enough to tell \
                        whether it was carried out. Read the file again.";
            return ToolOutput::new(said, true, Outcome::Unknown);
        };
        let host = &begun.action.host;
        let same_host = !host.is_empty() && *host == begun.here.host;
        let old = begun.before.as_deref();
        let new = begun.call.and_then(|call| new_content(call, old));
        let new = new.filter(|new| Some(sha256_hex(new)) == probe.new_sha256);
        let contents = old.zip(new.as_deref());
        let shown = workspace.show(&probe.path());
        let output = change::establish(&probe, same_host, contents, &shown);
        if same_host {
            lock(&self.found).push(probe);
        }
        output
    }

    /// Removes what was left of changes whose outcomes are on record now.
    pub(crate) fn settled(&self) {
        let found = std::mem::take(&mut *lock(&self.found));
        found.iter().for_each(change::remove_traces);
    }
}

/// What a call was to put into its file over `old`.
pub(crate) fn new_content(call: &ToolCall, old: Option<&[u8]>) -> Option<Vec<u8>> {
    match Request::parse(call).ok()? {
        Request::Write(args) => Some(args.content.into_bytes()),
        Request::Edit(args) => edit::applied(old?, &args),
        _ => None,
    }
}
