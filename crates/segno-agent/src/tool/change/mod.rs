//! A change to one file: what `write` and `edit` work out before anything is touched.
//!
//! Responsible for: its preview, the plan by which recovery can tell its outcome, carrying it out, and
//! what the model is told of it. Must not: work out the new content.
//!
//! | step | in |
//! |---|---|
//! | what lies at a path | `file` |
//! | how the new content gets there | `way` |
//! | temp files | `temp` |
//! | preparing and replacing | `replace` |
//! | what the intent says | `probe` |
//! | what became of it | `establish` |

mod establish;
mod file;
mod probe;
mod replace;
mod temp;
#[cfg(test)]
mod tests;
mod way;

pub(crate) use file::Old;
pub(crate) use probe::Probe;
pub(crate) use temp::Temps;

use super::diff;
use super::error::ToolError;
use establish::{Established, Finding, Holds};
use replace::{Ready, Steps};
use segno_model::id::sha256_hex;
use segno_model::record::{Outcome, ReplayClass};
use segno_runtime::{ToolOutput, ToolPlan};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use way::Way;

/// What a larger file held before is not kept; what became of a change to it is then not promised.
pub(crate) const MAX_KEPT: usize = 16 << 20;

/// Nothing listens to the steps outside of tests.
const UNHEARD: Steps<'static> = &|_| {};

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

/// A change that only has to be carried out, or taken back.
#[derive(Debug)]
pub(crate) struct Prepared {
    pub(crate) change: Change,
    ready: Ready,
}

/// A name for what lies at a path that is the same under every name of the same file.
pub(crate) fn subject(path: &Path) -> String {
    match std::fs::symlink_metadata(path) {
        Ok(meta) => format!("{}:{}", meta.dev(), meta.ino()),
        Err(_) => path.display().to_string(),
    }
}

impl Change {
    /// What a person is shown before it happens.
    pub(crate) fn preview(&self) -> String {
        diff::unified(&self.shown, self.old.bytes(), &self.new)
    }

    /// The result when there is nothing to do.
    pub(crate) fn nothing_to_do(&self) -> Option<ToolOutput> {
        let same = self.old.bytes() == self.new && self.old != Old::Absent;
        let said = || format!("{} already holds exactly that; unchanged", self.shown);
        same.then(|| ToolOutput::done(said()))
    }

    /// Makes what the intent names. Nothing at the path changes.
    pub(crate) fn prepare(self, temps: &Temps) -> Result<Prepared, ToolError> {
        self.prepare_heard(temps, UNHEARD)
    }

    /// Prepares to remove the file that holds what is old; what is new does not count.
    pub(crate) fn prepare_removal(self, temps: &Temps) -> Result<Prepared, ToolError> {
        let ready = replace::prepare_removal(&self.path, &self.old, temps)?;
        Ok(Prepared { change: self, ready })
    }

    fn prepare_heard(self, temps: &Temps, steps: Steps<'_>) -> Result<Prepared, ToolError> {
        let ready = replace::prepare(&self.path, &self.new, temps, steps)?;
        Ok(Prepared { change: self, ready })
    }
}

impl Prepared {
    /// What the intent says.
    pub(crate) fn plan(&self, plan: ToolPlan) -> Result<ToolPlan, ToolError> {
        let probe = serde_json::value::to_raw_value(&self.probe())
            .map_err(|e| ToolError::Refused(e.to_string()))?;
        let (class, before) = match &self.change.old {
            Old::Absent => (ReplayClass::Verified, None),
            Old::Content(bytes) if bytes.len() > MAX_KEPT => (ReplayClass::Opaque, None),
            Old::Content(bytes) => (ReplayClass::Verified, Some(bytes.clone())),
        };
        Ok(ToolPlan { class, before, probe: Some(probe), ..plan })
    }

    fn probe(&self) -> Probe {
        let new = (self.ready.way != Way::Remove).then(|| sha256_hex(&self.change.new));
        let hashes = (self.change.old.sha256(), new);
        let temp = self.ready.temp.as_ref().map(|temp| temp.path.as_path());
        Probe::new(&self.change.path, self.ready.way, temp, self.ready.file, hashes)
    }

    /// Carries it out; file and directory are synced when this returns.
    pub(crate) fn carry_out(&self, temps: &Temps) -> Result<ToolOutput, ToolError> {
        self.carry_out_heard(temps, UNHEARD)
    }

    fn carry_out_heard(&self, temps: &Temps, steps: Steps<'_>) -> Result<ToolOutput, ToolError> {
        let Change { path, shown, old, new, note } = &self.change;
        replace::replace(path, old, new, &self.ready, temps, steps)?;
        let in_place = if self.ready.way == Way::InPlace { " (in place)" } else { "" };
        let head = match old {
            _ if self.ready.way == Way::Remove => format!("removed {shown}\n"),
            Old::Absent => format!("created {shown} ({} bytes)\n", new.len()),
            Old::Content(_) => format!("changed {shown}{in_place}\n{}", self.change.preview()),
        };
        Ok(ToolOutput::done(format!("{head}{note}")))
    }

    /// Takes back what was made for it.
    pub(crate) fn discard(&self, temps: &Temps) {
        replace::discard(&self.ready, temps);
    }
}

/// Finds out what became of a change that another process began; `shown` is its path for the model.
/// `contents` are the old and the new content, where they are known. May be done any number of times.
pub(crate) fn establish(
    probe: &Probe,
    same_host: bool,
    contents: Option<(&[u8], &[u8])>,
    shown: &str,
) -> ToolOutput {
    told(&establish::establish(probe, same_host, contents, UNHEARD), shown)
}

/// Whether content is what a change in place from `old` to `new` leaves when it is cut off.
pub(crate) fn half_written(probe: &Probe, content: &[u8], old: &[u8], new: &[u8]) -> bool {
    let known = probe.new_sha256.as_deref() == Some(sha256_hex(new).as_str());
    probe.way == Way::InPlace && known && establish::is_mixed(content, old, new)
}

/// Removes what [`establish`] read it off, when what was found is on record.
pub(crate) fn remove_traces(probe: &Probe) {
    establish::remove_traces(probe);
}

/// What was found, in plain words.
fn told(found: &Established, shown: &str) -> ToolOutput {
    let (outcome, said) = match found.finding {
        Finding::Done if found.facts.way == Way::Remove => {
            (Outcome::Done, format!("it was carried out: {shown} was removed."))
        }
        Finding::Done => {
            (Outcome::Done, format!("it was carried out: {shown} holds exactly the new content."))
        }
        Finding::DoneThenChanged => (
            Outcome::Done,
            format!(
                "it was carried out, and {shown} was changed by someone else since. Read it again."
            ),
        ),
        Finding::NotDone => {
            let holds = match found.facts.way {
                Way::New => format!("{shown} does not exist"),
                _ => format!("{shown} holds what it held before"),
            };
            (
                Outcome::NotRun,
                format!("it was not carried out: {holds}. Do it again if it is needed."),
            )
        }
        Finding::HalfDone => (
            Outcome::Unknown,
            format!(
                "{shown} is half written: it holds parts of the old and of the new content. What it \
                 held before is kept (`segno rewind` brings it back); or `write` it whole."
            ),
        ),
        Finding::Changed | Finding::GiveBack => {
            let same = match found.facts.holds {
                Holds::New if found.finding == Finding::Changed => {
                    " It holds exactly the new content all the same."
                }
                _ => " Read it again.",
            };
            let said = format!(
                "it was not carried out: {shown} was changed by someone else meanwhile.{same}"
            );
            (Outcome::NotRun, said)
        }
        Finding::ChangedSince => (
            Outcome::Unknown,
            format!(
                "{shown} was changed by someone else; whether the edit was carried out before that \
                 cannot be told. Read it again."
            ),
        ),
        Finding::Unknown => {
            let why = found.because;
            (Outcome::Unknown, format!("whether {shown} was changed is unknown: {why}."))
        }
    };
    let kept = replace::told(found.kept.as_deref());
    let said = format!("Segno was interrupted during this edit; {said}{kept}");
    ToolOutput::new(said, outcome != Outcome::Done, outcome)
}
