//! Reads logs and has them judged.
//!
//! Responsible for: handing bytes to the pure reader and judge of `segno-model`. Must not: decide
//! anything about a line.

use crate::disk::{Disk, DiskFile};
use crate::durable::read_full;
use crate::error::store_error;
use crate::layout::SessionDir;
use crate::log::{Known, Tail};
use crate::store::FileStore;
use crate::writer::Writer;
use segno_model::finding::{Finding, Severity};
use segno_model::line::decode;
use segno_model::record::{FORMAT, Header, ProjectFacts};
use segno_model::state::State;
use segno_model::store::{Active, Scanned, Snapshot, StoreError};
use segno_model::{Body, Pos, SessionId};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// A log opened for reading.
#[derive(Debug)]
pub(crate) struct LogFile<D: Disk> {
    pub(crate) file: D::File,
    pub(crate) path: PathBuf,
    pub(crate) len: u64,
}

impl<D: Disk> LogFile<D> {
    pub(crate) fn open(
        store: &FileStore<D>,
        dir: &SessionDir,
        id: &SessionId,
    ) -> Result<Self, StoreError> {
        let path = dir.log();
        let file = store.disk().open_read(&path).map_err(|e| match e.kind() {
            ErrorKind::NotFound => StoreError::NotFound(id.clone()),
            _ => store_error("opening", &path, e),
        })?;
        let len = file.meta().map_err(|e| store_error("looking at", &path, e))?.len;
        Ok(Self { file, path, len })
    }
}

/// What judging a log found.
#[derive(Debug)]
pub(crate) struct Verdict {
    pub(crate) known: Known,
    pub(crate) active: Active,
    pub(crate) damage: Vec<Finding>,
}

/// The header of a session whose line 1 was cut: what is certain about it, and nothing else.
pub(crate) fn bare_header(id: &SessionId) -> Header {
    Header {
        format: FORMAT,
        id: id.clone(),
        project: ProjectFacts::default(),
        git: None,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        origin: None,
        launch: None,
    }
}

fn load<F: DiskFile>(file: &F, path: &Path, len: u64) -> Result<Vec<u8>, StoreError> {
    let mut bytes = vec![0; usize::try_from(len).unwrap_or(0)];
    let read = read_full(file, &mut bytes, 0).map_err(|e| store_error("reading", path, e))?;
    bytes.truncate(read);
    Ok(bytes)
}

/// Where line 1 ends: the place that record offsets count from.
pub(crate) fn origin<D: Disk>(log: &LogFile<D>, id: &SessionId) -> Result<u64, StoreError> {
    judge(&log.file, &log.path, log.len, id).map(|verdict| verdict.known.first_line)
}

/// Judges the first `len` bytes of a log.
pub(crate) fn judge<F: DiskFile>(
    file: &F,
    path: &Path,
    len: u64,
    id: &SessionId,
) -> Result<Verdict, StoreError> {
    let bytes = load(file, path, len)?;
    let mut known = Known {
        header: bare_header(id),
        state: State::default(),
        synced: None,
        first_line: 0,
        tail: Tail::Clean,
    };
    let mut active = Active { bytes_read: bytes.len() as u64, ..Active::default() };
    let mut damage = Vec::new();
    let mut at = 0;
    let lines = || bytes.split_inclusive(|b| *b == b'\n');
    let text = |line: &'_ [u8]| line.strip_suffix(b"\n").unwrap_or(line).to_vec();
    let marks = lines().filter_map(|line| decode(&text(line), 0).ok()?.envelope.synced);
    let mark = marks.max();
    for line in lines() {
        match decode(&text(line), at - known.first_line.min(at)) {
            Ok(record) => {
                known.tail = if line.ends_with(b"\n") { Tail::Clean } else { Tail::Unended };
                if let Body::Session(header) = &record.body {
                    known.header = (**header).clone();
                    known.first_line = line.len() as u64;
                }
                known.synced = known.synced.max(record.envelope.synced);
                known.state.apply(&record);
                active.records.push(record);
            }
            Err(_) if mark.is_some_and(|mark| known.state.next_seq <= mark) => {
                damage.push(finding("damaged-line", Severity::Damage, at));
            }
            Err(_) => {
                known.tail = Tail::Torn(at);
                break;
            }
        }
        at += line.len() as u64;
    }
    if let Tail::Torn(from) = known.tail {
        active.findings.push(finding("torn-tail", Severity::Warning, from));
    }
    Ok(Verdict { known, active, damage })
}

fn finding(code: &'static str, severity: Severity, offset: u64) -> Finding {
    Finding {
        code,
        severity,
        line: None,
        offset: Some(offset),
        seq: None,
        sentence: "bytes that are no record".to_owned(),
        done: String::new(),
    }
}

/// Reads the active part without the writer's right.
pub(crate) fn snapshot<D: Disk>(log: &LogFile<D>, id: &SessionId) -> Result<Snapshot, StoreError> {
    let verdict = judge(&log.file, &log.path, log.len, id)?;
    let Known { header, state, .. } = verdict.known;
    Ok(Snapshot { header, state, active: verdict.active })
}

/// Reads everything.
pub(crate) fn scan<D: Disk>(
    log: &LogFile<D>,
    id: &SessionId,
    visit: &mut (dyn FnMut(Scanned) -> bool + Send),
) -> Result<(), StoreError> {
    let verdict = judge(&log.file, &log.path, log.len, id)?;
    let records = verdict.active.records.into_iter().map(|r| Scanned::Record(Box::new(r)));
    let findings = verdict.active.findings.into_iter().map(Scanned::Finding);
    for item in records.chain(findings) {
        if !visit(item) {
            break;
        }
    }
    Ok(())
}

/// What the context at `tip` needs.
pub(crate) fn active_at<D: Disk>(
    writer: &Writer<D>,
    known: &Known,
    _tip: Option<Pos>,
) -> Result<Active, StoreError> {
    let verdict = judge(writer.file(), writer.path(), writer.end(), &known.header.id)?;
    Ok(verdict.active)
}
