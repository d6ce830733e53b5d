//! What erasing some records would come to.
//!
//! Responsible for: which records go together, what was said in them, and where else that is. Must not:
//! change anything.

use super::sound;
use crate::disk::Disk;
use crate::inbox::name_of;
use crate::layout::SessionDir;
use crate::reading::LogFile;
use crate::store::FileStore;
use crate::{draft, durable::read_file};
use segno_model::erase::{
    Gone, Pieces, blobs_in, calls_of, emptied, goes_along, says_something, texts,
};
use segno_model::record::{Message, Native, RepairItem};
use segno_model::store::StoreError;
use segno_model::{Body, Record, Seq, SessionId};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// Other records that hold the same words are named up to this many.
const NAMED: usize = 50;

/// One record that is erased.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part {
    /// Its number.
    pub seq: Seq,
    /// Its type.
    pub kind: String,
    /// Whether it was asked for, and does not go along with one that was.
    pub asked: bool,
}

/// What an erasure would come to.
#[derive(Debug, Clone, Default)]
pub struct Study {
    /// The records that are still to be emptied.
    pub parts: Vec<Part>,
    /// Compactions that lose the state that a provider made of them: it may tell of what is erased.
    pub states: Vec<Seq>,
    /// Blobs that only they refer to, and their sizes.
    pub blobs: Vec<(String, u64)>,
    /// Files of the session outside the log that hold some of it, or nothing that is needed.
    pub files: Vec<String>,
    /// Inputs that wait and hold some of it; they stay.
    pub waiting: Vec<String>,
    /// Other records that hold a long word of it, or refer to a blob of it; they stay.
    pub also_in: Vec<Seq>,
    /// Subagents' sessions, and the one that started this one, that hold a long word of it; they stay.
    pub family: Vec<SessionId>,
    /// What people typed among it, for lists of typed prompts.
    pub prompts: Vec<String>,
    /// What was said, to be found again.
    pub pieces: Pieces,
    /// Whether a record says already that these are erased.
    pub(super) told: bool,
    /// Blobs of them that other records refer to, too.
    shared: BTreeSet<String>,
    /// The inputs that they are.
    inputs: Vec<String>,
    /// The requests that the log holds answers of.
    answered: BTreeSet<Seq>,
}

/// What one reading of the log tells.
#[derive(Default)]
struct Walk {
    found: BTreeSet<Seq>,
    parts: Vec<Part>,
    told: BTreeSet<Seq>,
    /// How often each blob is referred to, by the records that stay and those that are emptied.
    blobs: BTreeMap<String, (u64, u64)>,
    prompts: Vec<String>,
    inputs: Vec<String>,
    answered: BTreeSet<Seq>,
    refused: Option<String>,
    study: Study,
}

/// All of it, for whoever decides.
pub(super) fn study<D: Disk>(
    store: &FileStore<D>,
    dir: &SessionDir,
    id: &SessionId,
    seqs: &[Seq],
) -> Result<Study, StoreError> {
    let log = LogFile::open(store, dir, id)?;
    let mut study = within(store.disk(), dir, &log, seqs)?;
    let gone: BTreeSet<Seq> = study.parts.iter().map(|part| part.seq).collect();
    if !gone.is_empty() {
        let mut carried = Gone::new(gone.clone());
        sound(&log, &mut |record| {
            carried.pass(record);
            let other =
                !gone.contains(&record.seq()) && !matches!(record.body(), Body::Checkpoint(_));
            let holds = |record: &Record| {
                // What it carries of them goes along.
                let rest = carried.rest_of(record).and_then(|body| body.to_json().ok());
                let line = rest.as_ref().map_or(&*record.line, |rest| rest.as_bytes());
                let mut blobs = blobs_in(line);
                study.pieces.name(line) || blobs.any(|blob| study.shared.contains(blob))
            };
            if other && study.also_in.len() < NAMED && holds(record) {
                study.also_in.push(record.seq());
            }
        })?;
    }
    study.family = family(store, id, &log, &study.pieces)?;
    Ok(study)
}

/// What goes, without what stays elsewhere.
pub(super) fn within<D: Disk>(
    disk: &D,
    dir: &SessionDir,
    log: &LogFile<D>,
    seqs: &[Seq],
) -> Result<Study, StoreError> {
    let asked: BTreeSet<Seq> = seqs.iter().copied().collect();
    // Which calls are meant is known only behind the records, which may come before or after.
    let mut calls = BTreeSet::new();
    sound(log, &mut |record| {
        if asked.contains(&record.seq()) {
            calls.extend(calls_of(record));
        }
    })?;
    let mut walk = Walk::default();
    sound(log, &mut |record| walk.take(record, &asked, &calls))?;
    if let Some(missing) = asked.iter().find(|seq| !walk.found.contains(seq)) {
        return Err(StoreError::Refused(format!("there is no record {missing}")));
    }
    if let Some(why) = walk.refused {
        return Err(StoreError::Refused(why));
    }
    let Walk { parts, prompts, inputs, answered, blobs, told, study, .. } = walk;
    let told = parts.iter().all(|part| told.contains(&part.seq));
    let (shared, alone): (Vec<_>, Vec<_>) =
        blobs.into_iter().filter(|(_, (_, go))| *go > 0).partition(|(_, (stay, _))| *stay > 0);
    let names = |found: Vec<(String, _)>| found.into_iter().map(|(name, _)| name);
    let of_size = |name: String| (name.clone(), size(disk, &dir.blobs().join(name)));
    let mut study = Study {
        parts,
        prompts,
        inputs,
        answered,
        told,
        shared: names(shared).collect(),
        blobs: names(alone).map(of_size).collect(),
        ..study
    };
    beside(disk, dir, &mut study)?;
    Ok(study)
}

/// The sessions of subagents, and of whoever started this one, in whose logs a long word stands.
fn family<D: Disk>(
    store: &FileStore<D>,
    id: &SessionId,
    log: &LogFile<D>,
    pieces: &Pieces,
) -> Result<Vec<SessionId>, StoreError> {
    let mut near: Vec<SessionId> =
        store.children_now(id)?.into_iter().map(|child| child.id).collect();
    let header = log.load()?.0.header_or_bare(id);
    near.extend(header.origin.and_then(|origin| origin.belongs_to()));
    let holds = |id: &SessionId| {
        let mut found = false;
        let read = store.log_file(id).and_then(|log| {
            log.lines(0, &mut |line, _| {
                found = pieces.name(line);
                !found
            })
        });
        read.is_ok() && found
    };
    near.retain(holds);
    Ok(near)
}

fn size<D: Disk>(disk: &D, path: &Path) -> u64 {
    disk.meta(path).map_or(0, |meta| meta.len)
}

impl Walk {
    fn take(
        &mut self,
        record: &Record,
        asked: &BTreeSet<Seq>,
        calls: &BTreeSet<(Seq, Option<String>)>,
    ) {
        let seq = record.seq();
        let is_asked = asked.contains(&seq);
        if is_asked {
            self.found.insert(seq);
        }
        match record.body() {
            Body::Repair(repair) => self.told.extend(repair.items.iter().filter_map(|item| {
                if let RepairItem::Erased { seq } = item { Some(*seq) } else { None }
            })),
            Body::Message(message) => {
                if let Message::Assistant(reply) = &**message {
                    self.answered.extend(reply.request);
                }
            }
            _ => {}
        }
        let chosen = (is_asked || goes_along(record, calls)) && says_something(record);
        let state = Gone::new(asked.clone()).empties_state_of(record) && !chosen;
        let state_blob = match record.body() {
            Body::Compaction(c) if state => c.native.as_ref().and_then(Native::blob),
            _ => None,
        };
        if state {
            self.study.states.push(seq);
        }
        // Checkpoints are made again from the records before them.
        if !matches!(record.body(), Body::Checkpoint(_)) {
            for name in blobs_in(&record.line) {
                let goes = chosen || state_blob.as_ref().is_some_and(|blob| blob.blob == name);
                let (stay, go) = self.blobs.entry(name.to_owned()).or_default();
                *(if goes { go } else { stay }) += 1;
            }
        }
        if chosen {
            self.choose(record, is_asked);
        }
    }

    fn choose(&mut self, record: &Record, asked: bool) {
        let (seq, kind) = (record.seq(), record.envelope.kind.clone());
        if emptied(record.body()).is_none() {
            self.refused = Some(format!("nothing was said in record {seq} ({kind})"));
        }
        let said = texts(record);
        said.iter().for_each(|text| self.study.pieces.add(text));
        if let Body::Message(message) = record.body()
            && let Message::User(user) = &**message
        {
            self.inputs.extend(user.input_id.clone());
            self.prompts.extend(said);
        }
        self.parts.push(Part { seq, kind, asked });
    }
}

/// Finds what is beside the log.
pub(super) fn beside<D: Disk>(
    disk: &D,
    dir: &SessionDir,
    study: &mut Study,
) -> Result<(), StoreError> {
    study.files.clear();
    study.waiting.clear();
    if study.parts.is_empty() {
        return Ok(());
    }
    let holds = |path: &Path, pieces: &Pieces| {
        read_file(disk, path).is_ok_and(|bytes| pieces.touch(&bytes))
    };
    let drafted = draft::read(disk, dir)?;
    let is_stale = drafted.is_none_or(|draft| study.answered.contains(&draft.request));
    let path = dir.draft();
    if disk.meta(&path).is_ok() && (is_stale || holds(&path, &study.pieces)) {
        study.files.push("draft".to_owned());
    }
    let heads: Vec<&str> = study.blobs.iter().filter_map(|(name, _)| name.get(..16)).collect();
    for entry in disk.list(&dir.set_aside()).unwrap_or_default().iter().filter(|e| !e.is_dir) {
        let of_blob = heads.iter().any(|head| entry.name.starts_with(&format!("blob-{head}-")));
        if of_blob || holds(&dir.set_aside().join(&entry.name), &study.pieces) {
            study.files.push(format!("set-aside/{}", entry.name));
        }
    }
    let delivered: BTreeSet<String> = study.inputs.iter().map(|id| name_of(id)).collect();
    for entry in disk.list(&dir.inbox()).unwrap_or_default().iter().filter(|e| !e.is_dir) {
        let path = dir.inbox().join(&entry.name);
        if delivered.contains(&entry.name) {
            study.files.push(format!("inbox/{}", entry.name));
        } else if holds(&path, &study.pieces) {
            study.waiting.push(entry.name.clone());
        }
    }
    Ok(())
}
