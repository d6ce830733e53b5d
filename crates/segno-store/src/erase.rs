//! Taking what a record said out of a session's files for good (`docs/decisions/0020-erase.md`).
//!
//! Responsible for: the order of steps, so that whenever the process dies the log is whole, the old one or the
//! new one, and nothing that a record refers to is gone. Must not: decide what is left of a record, or touch
//! any other session.
//!
//! The steps, under the writer's right: a note that an erasure is under way; a record that says so; copies of
//! what is erased outside the log; the new log beside the old one, locked, synced, read again and compared;
//! the exchange; what no record refers to any more. The note goes last, once the caller has cleaned what is
//! derived from the log. Each step can be done again.

mod copies;
mod study;
mod sweep;

pub use copies::Copy;
pub use study::{Part, Study};

use crate::disk::{Disk, DiskFile};
use crate::durable::{TempFile, create_temp, read_file, sync_dir, write_all};
use crate::error::{store_error, write_error};
use crate::held::FileHeld;
use crate::layout::SessionDir;
use crate::lock;
use crate::log::FileLog;
use crate::reading::LogFile;
use crate::store::FileStore;
use segno_model::batch::Draft;
use segno_model::erase::Rewriter;
use segno_model::finding::{Finding, Severity};
use segno_model::record::{Repair, RepairItem};
use segno_model::store::{HeldSession, Judged, Level, Opened, Scanned, SessionLog, StoreError};
use segno_model::{Body, Record, Seq, SessionId, Timestamp};
use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// What an erasure removed besides what stood in the log.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Removed {
    /// Blobs that nothing refers to any more.
    pub blobs: usize,
    /// Directories of commands, likewise.
    pub commands: usize,
    /// Other files, by their names in the session's directory.
    pub files: Vec<String>,
}

impl<D: Disk> FileStore<D> {
    /// What erasing records would come to. Changes nothing.
    ///
    /// # Errors
    /// [`StoreError::NotFound`], a failing disk, or [`StoreError::Refused`] when it is not possible.
    pub fn study_erasure(&self, id: &SessionId, seqs: &[Seq]) -> Result<Study, StoreError> {
        let dir = self.layout().locate(self.disk(), id)?;
        study::study(self, &dir, id, seqs)
    }

    /// Erases what records said. When this returns, no file of the session holds it; what is derived from
    /// the log is the caller's to clean, before [`FileStore::end_erasure`]. Doing it again finishes what was
    /// cut off.
    ///
    /// # Errors
    /// As [`FileStore::study_erasure`]; [`StoreError::Held`] while somebody has the session.
    pub async fn erase(
        &self,
        id: &SessionId,
        seqs: &[Seq],
        at: Timestamp,
    ) -> Result<Removed, StoreError> {
        let held = FileHeld::take(self.clone(), id)?;
        let dir = held.dir.clone();
        let Judged::Sound(Opened { mut log, .. }) = held.judge().await? else {
            return Err(StoreError::refused("the session is damaged; it has to be repaired first"));
        };
        let mut study = study::within(self.disk(), &dir, &LogFile::open(self, &dir, id)?, seqs)?;
        let open: Vec<Seq> = log.state().in_force.open_actions.iter().map(|a| a.seq).collect();
        if study.parts.iter().any(|part| open.contains(&part.seq)) {
            return Err(StoreError::refused("a call of it has no result yet"));
        }
        begin(self.disk(), &dir, seqs)?;
        let (mut removed, mut new) = (Removed::default(), None);
        if !study.parts.is_empty() {
            tell(&mut log, &study, at).await?;
            // Torn bytes are beside the log by now, and looked into like everything else there.
            study::beside(self.disk(), &dir, &mut study)?;
            removed.files = sweep::copies_of_pieces(self.disk(), &dir, &study)?;
            new = Some(self.replace_log(&dir, id, &study)?);
        }
        sweep::unreferenced(self, &dir, id, &mut removed)?;
        // Until here the right to the old log and to the new one was ours.
        drop((log, new));
        Ok(removed)
    }

    /// Takes away the note that an erasure is under way.
    ///
    /// # Errors
    /// A failing disk.
    pub fn end_erasure(&self, id: &SessionId) -> Result<(), StoreError> {
        let dir = self.layout().locate(self.disk(), id)?;
        match self.disk().remove_file(&note(&dir)) {
            Err(e) if e.kind() != ErrorKind::NotFound => {
                Err(write_error("removing", &note(&dir), e))
            }
            _ => sync_dir(self.disk(), dir.path()),
        }
    }

    /// Writes the new log beside the old one and gives it its name. Its lock is ours before it has the name,
    /// and as long as the file is open.
    fn replace_log(
        &self,
        dir: &SessionDir,
        id: &SessionId,
        study: &Study,
    ) -> Result<D::File, StoreError> {
        let disk = self.disk();
        let old = LogFile::open(self, dir, id)?;
        let (path, file) = create_temp(disk, dir.path())?;
        let written = self.write_new(&old, (&path, &file), study).and_then(|()| {
            disk.rename(&path, &dir.log()).map_err(|e| write_error("naming", &dir.log(), e))
        });
        if let Err(error) = written {
            // What stays is swept by the next holder.
            let _ = disk.remove_file(&path);
            return Err(error);
        }
        sync_dir(disk, dir.path())?;
        Ok(file)
    }

    fn write_new(
        &self,
        old: &LogFile<D>,
        (path, file): (&Path, &D::File),
        study: &Study,
    ) -> Result<(), StoreError> {
        if !lock::lock(file).map_err(|e| store_error("locking", path, e))? {
            return Err(StoreError::refused("the new log was locked by somebody else"));
        }
        let records = rewrite(old, file, path, study)?;
        file.sync_all().map_err(|e| write_error("syncing", path, e))?;
        self.compare(path, records)
    }

    /// Reads the new log as anybody would: all of it must be sound.
    fn compare(&self, path: &Path, records: usize) -> Result<(), StoreError> {
        let file = self.disk().open_read(path).map_err(|e| store_error("opening", path, e))?;
        let found = sound(&LogFile::of(self, file, path)?, &mut |_| {})?;
        if found == records {
            return Ok(());
        }
        let why = format!("the new log has {found} records and not {records}; nothing was changed");
        Err(StoreError::Refused(why))
    }
}

/// Writes every record anew; says how many.
fn rewrite<D: Disk>(
    old: &LogFile<D>,
    file: &D::File,
    path: &Path,
    study: &Study,
) -> Result<usize, StoreError> {
    let chosen: BTreeSet<Seq> = study.parts.iter().map(|part| part.seq).collect();
    let (mut rewriter, mut failed) = (Rewriter::new(chosen), None);
    let records = sound(old, &mut |record| {
        if failed.is_none() {
            let line = rewriter.line(record);
            let written = line.and_then(|line| {
                write_all(file, &line).map_err(|e| write_error("writing", path, e))
            });
            failed = written.err();
        }
    })?;
    failed.map_or(Ok(records), Err)
}

/// Goes through a log in which nothing is wrong; says how many records there are.
fn sound<D: Disk>(
    log: &LogFile<D>,
    visit: &mut (dyn FnMut(&Record) + Send),
) -> Result<usize, StoreError> {
    let (mut records, mut trouble) = (0, None);
    let scanner = log.scan_with(&mut |item| {
        match item {
            Scanned::Record(record) => {
                records += 1;
                visit(&record);
            }
            // Torn bytes are no part of the log; the next append sets them aside.
            Scanned::Finding(finding) if finding.code == "torn-tail" => {}
            Scanned::Finding(finding) if finding.severity > Severity::Note => {
                trouble = Some(finding);
            }
            Scanned::Finding(_) => {}
        }
        trouble.is_none()
    })?;
    let told = scanner.damages().first().map(|damage| damage.finding.clone());
    match trouble.or(told) {
        None => Ok(records),
        Some(finding) => Err(StoreError::Damaged {
            what: "the log".to_owned(),
            offset: finding.offset.unwrap_or_default(),
            reason: format!("{}; such bytes may hold what is to be erased", finding.sentence),
        }),
    }
}

/// Appends the record that says what is erased, unless one says it already. It also tells of torn bytes
/// that nobody told of.
async fn tell<D: Disk>(
    log: &mut FileLog<D>,
    study: &Study,
    at: Timestamp,
) -> Result<(), StoreError> {
    if study.told && !log.has_torn_end() {
        return Ok(());
    }
    let items = study.parts.iter().map(|part| RepairItem::Erased { seq: part.seq }).collect();
    let repair = Repair { rule: "erase".to_owned(), by_person: true, items };
    log.append(vec![Draft::new(at, Body::Repair(repair))], Level::Synced).await?;
    Ok(())
}

fn note(dir: &SessionDir) -> PathBuf {
    dir.path().join("erasing")
}

/// Notes durably which records are being erased.
fn begin<D: Disk>(disk: &D, dir: &SessionDir, seqs: &[Seq]) -> Result<(), StoreError> {
    let mut all: BTreeSet<Seq> = under_way(disk, dir).unwrap_or_default().into_iter().collect();
    all.extend(seqs);
    let text = serde_json::to_vec(&all).map_err(|e| StoreError::refused(&e.to_string()))?;
    TempFile::write(disk, dir.path(), &text)?.replace("erasing")
}

/// The records that an erasure was to empty that was cut off; none without a note.
pub(crate) fn under_way<D: Disk>(disk: &D, dir: &SessionDir) -> Option<Vec<Seq>> {
    let bytes = read_file(disk, &note(dir)).ok()?;
    Some(serde_json::from_slice(&bytes).unwrap_or_default())
}

/// What whoever opens the session is told of an erasure that was cut off.
pub(crate) fn finding<D: Disk>(disk: &D, dir: &SessionDir, id: &SessionId) -> Option<Finding> {
    let seqs = under_way(disk, dir)?;
    let words: Vec<String> = seqs.iter().map(Seq::to_string).collect();
    Some(Finding {
        code: "erase-unfinished",
        severity: Severity::Warning,
        seq: seqs.first().copied(),
        sentence: format!("erasing record {} was cut off", words.join(", ")),
        done: format!("`segno erase {id} {}` finishes it", words.join(" ")),
        ..Finding::default()
    })
}
