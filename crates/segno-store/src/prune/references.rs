//! Which blobs and commands a session's files name, in whatever state they are.
//!
//! Responsible for: naming too many rather than too few. Must not: understand what refers to them.

use crate::disk::Disk;
use crate::durable::read_file;
use crate::layout::SessionDir;
use crate::reading::LogFile;
use segno_model::Body;
use segno_model::erase::blobs_in;
use segno_model::finding::Severity;
use segno_model::store::{Scanned, StoreError};
use serde::Deserialize;
use std::collections::HashSet;

/// What is referred to.
#[derive(Debug, Default)]
pub(super) struct References {
    pub(super) blobs: HashSet<String>,
    pub(super) commands: HashSet<String>,
}

impl References {
    /// All that a log names: in its records as they are read, in any line as it is, and in what lies beside it.
    /// A log of which a part is lost may have named anything.
    pub(super) fn of<D: Disk>(
        disk: &D,
        dir: &SessionDir,
        log: &LogFile<D>,
    ) -> Result<Self, StoreError> {
        let (mut found, mut lost) = (Self::default(), None);
        let scanner = log.scan_with(&mut |item| {
            match item {
                Scanned::Record(record) => {
                    found.blobs.extend(blobs_in(&record.line).map(str::to_owned));
                    if let Body::Action(action) = record.body() {
                        let probe = action.probe.as_ref();
                        found.commands.extend(probe.and_then(|probe| command_of(probe.get())));
                    }
                }
                Scanned::Finding(finding) if finding.severity == Severity::Damage => {
                    lost = Some(finding.sentence);
                }
                Scanned::Finding(_) => {}
            }
            true
        })?;
        let settled = scanner.damages().first().map(|damage| damage.finding.sentence.clone());
        if let Some(why) = lost.or(settled) {
            return Err(StoreError::Refused(format!("what is lost may have named it: {why}")));
        }
        log.lines(0, &mut |line, _| {
            found.blobs.extend(hashes(line));
            true
        })?;
        for beside in [dir.set_aside(), dir.inbox()] {
            for entry in disk.list(&beside).unwrap_or_default().iter().filter(|e| !e.is_dir) {
                let bytes = read_file(disk, &beside.join(&entry.name)).unwrap_or_default();
                found.blobs.extend(hashes(&bytes));
            }
        }
        Ok(found)
    }
}

/// The directory that an intent names, by the rules of supervised commands.
pub(crate) fn command_of(probe: &str) -> Option<String> {
    #[derive(Deserialize)]
    struct Probe {
        action: String,
    }
    serde_json::from_str::<Probe>(probe).ok().map(|probe| probe.action)
}

/// Everything in some bytes that may be the name of a blob: 64 hex digits in a row.
fn hashes(bytes: &[u8]) -> Vec<String> {
    const LEN: usize = 64;
    let is_digit = |b: &u8| b.is_ascii_digit() || (b'a'..=b'f').contains(b);
    let runs = bytes.split(|b| !is_digit(b)).filter(|run| run.len() >= LEN);
    let names = runs.flat_map(|run| run.windows(LEN));
    names.filter_map(|name| String::from_utf8(name.to_vec()).ok()).collect()
}
