//! What is kept of which session: one line per fact, the last one counts.
//!
//! Responsible for: reading and writing it. Must not: be needed: without it everything is compared again, and only
//! the names of sessions whose originals are gone are lost.

use super::Name;
use crate::disk::{Disk, DiskFile as _, Writes};
use crate::durable::{TempFile, read_file, sync_dir, write_all};
use crate::error::{store_error, write_error};
use crate::foreign::{Agent, Located, Stamp};
use segno_model::store::StoreError;
use segno_model::{Timestamp, line};
use serde::{Deserialize, Serialize};
use std::collections::{HashMap, HashSet};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// A file with more lines than this beyond what counts is written anew.
const SLACK: usize = 256;

/// A session of another agent of which copies are kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Kept {
    /// Whose it is.
    pub agent: Agent,
    /// The original file, folder or database.
    pub path: PathBuf,
    /// Which session, where the original holds several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// The session's id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// The session to which this subagent's session belongs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<String>,
    /// Whether its agent had moved it out of its list.
    #[serde(default, skip_serializing_if = "is_false")]
    pub archived: bool,
    /// When something of it was kept last.
    pub at: Timestamp,
    /// Of a session in a database: by what a change is noticed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) rows: Option<(u64, i64)>,
    /// The copy: in the index below the tree of copies, to callers where it is.
    pub copy: PathBuf,
    /// The originals of all its files.
    pub files: Vec<PathBuf>,
    /// What is known of their copies; only of one that is handed out.
    #[serde(skip)]
    pub(super) known: Vec<KeptFile>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks like this")]
fn is_false(flag: &bool) -> bool {
    !flag
}

impl Kept {
    /// The copy, for reading.
    #[must_use]
    pub fn located(&self) -> Located {
        Located {
            agent: self.agent,
            path: self.copy.clone(),
            key: self.key.clone(),
            id: self.id.clone(),
            parent: self.parent.clone(),
            archived: self.archived,
            stamp: std::fs::metadata(&self.copy).map(|meta| Stamp::of(&meta)).unwrap_or_default(),
        }
    }

    /// Whether it is a session of a database, of which the rows are kept.
    #[must_use]
    pub fn is_rows(&self) -> bool {
        self.key.is_some()
    }

    /// Whether another one says the same, whenever that was.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        *self == Self { at: self.at, ..other.clone() }
    }

    fn name(&self) -> Name {
        (self.agent, self.path.clone(), self.key.clone())
    }
}

/// A file of another agent of which a copy is kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct KeptFile {
    pub(super) path: PathBuf,
    /// How long the copy was when it was durable.
    pub(super) bytes: u64,
    /// The original's length, time of change and number then; none when it changed meanwhile.
    pub(super) stamp: Option<(u64, i64, u64)>,
    /// The SHA-256 of these bytes of the copy; none when an earlier version of Segno kept it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) sha256: Option<String>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum Line {
    File(KeptFile),
    Session(Kept),
    Removed {
        agent: Agent,
        path: PathBuf,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        key: Option<String>,
    },
    FileRemoved {
        path: PathBuf,
    },
}

/// The index in memory, with the lines that are not written yet.
#[derive(Debug, Default)]
pub(super) struct Index {
    files: HashMap<PathBuf, KeptFile>,
    sessions: HashMap<Name, Kept>,
    /// Lines in the file, whether they count or not.
    lines: usize,
    unwritten: Vec<Line>,
    /// Whether the file ends within a line.
    torn: bool,
    /// Which lines, from 1, are not what was written.
    damaged: Vec<usize>,
    /// Whether it is there.
    is_there: bool,
    /// Whether what it does not say any more was looked for in the tree: it is written anew then.
    is_mended: bool,
}

impl Index {
    /// Reads it. A line that cannot be read is as good as not there, and is counted.
    pub(super) fn read<D: Disk>(disk: &D, path: &Path) -> Result<Self, StoreError> {
        let bytes = match read_file(disk, path) {
            Ok(bytes) => bytes,
            Err(e) if e.kind() == ErrorKind::NotFound => return Ok(Self::default()),
            Err(e) => return Err(store_error("reading", path, e)),
        };
        let torn = bytes.last().is_some_and(|b| *b != b'\n');
        let mut index = Self { torn, is_there: true, ..Self::default() };
        let texts = bytes.split(|byte| *byte == b'\n').enumerate();
        for (at, text) in texts.filter(|(_, text)| !text.is_empty()) {
            index.lines += 1;
            match decode(text) {
                Ok(line) => line.into_iter().for_each(|line| index.apply(line)),
                Err(Broken) => index.damaged.push(at + 1),
            }
        }
        // A process that was killed while it wrote the last one is no damage.
        if torn
            && index.damaged.last() == Some(&(bytes.iter().filter(|b| **b == b'\n').count() + 1))
        {
            index.damaged.pop();
        }
        Ok(index)
    }

    /// The lines, from 1, that are not what was written.
    pub(super) fn damaged(&self) -> &[usize] {
        &self.damaged
    }

    /// Whether it says all that it was told.
    pub(super) fn is_whole(&self) -> bool {
        self.is_mended || (self.is_there && !self.torn && self.damaged.is_empty())
    }

    /// Takes what was found in the tree for what it does not say any more.
    pub(super) fn mend(&mut self, found: Vec<Kept>) {
        found.into_iter().for_each(|kept| self.add(Line::Session(kept)));
        self.is_mended = true;
    }

    /// The files of sessions of whose copies nothing is known.
    pub(super) fn unknown_files(&self) -> Vec<PathBuf> {
        let files = self.sessions.values().flat_map(|kept| &kept.files);
        files.filter(|file| !self.files.contains_key(*file)).cloned().collect()
    }

    pub(super) fn file(&self, original: &Path) -> Option<&KeptFile> {
        self.files.get(original)
    }

    pub(super) fn session(&self, session: &Located) -> Option<&Kept> {
        self.sessions.get(&(session.agent, session.path.clone(), session.key.clone()))
    }

    /// The sessions, with where their copies are below `tree`, and what is known of these.
    pub(super) fn sessions(&self, tree: &Path) -> Vec<Kept> {
        let placed = |kept: &Kept| {
            let known = kept.files.iter().filter_map(|file| self.files.get(file).cloned());
            Kept { copy: tree.join(&kept.copy), known: known.collect(), ..kept.clone() }
        };
        self.sessions.values().map(placed).collect()
    }

    /// The files that belong to other sessions, too.
    pub(super) fn files_of_others(&self, kept: &Kept) -> HashSet<PathBuf> {
        let others = self.sessions.values().filter(|other| other.name() != kept.name());
        others.flat_map(|other| other.files.iter().cloned()).collect()
    }

    pub(super) fn add(&mut self, line: Line) {
        self.unwritten.push(line.clone());
        self.apply(line);
    }

    fn apply(&mut self, line: Line) {
        match line {
            Line::File(file) => drop(self.files.insert(file.path.clone(), file)),
            Line::Session(kept) => drop(self.sessions.insert(kept.name(), kept)),
            Line::Removed { agent, path, key } => drop(self.sessions.remove(&(agent, path, key))),
            Line::FileRemoved { path } => drop(self.files.remove(&path)),
        }
    }

    /// Appends what is new, or writes all of it anew when most of it does not count any more.
    pub(super) fn write<D: Disk>(&mut self, disk: &D, path: &Path) -> Result<(), StoreError> {
        let is_mended = self.is_mended && !self.damaged.is_empty();
        if self.unwritten.is_empty() && !is_mended {
            return Ok(());
        }
        let counting = self.files.len() + self.sessions.len();
        if is_mended {
            // What its lines may still tell a person is not thrown away.
            let aside = path.with_extension("damaged.jsonl");
            let _ = disk.remove_file(&aside);
            let _ = disk.hard_link(path, &aside);
        }
        if is_mended || self.torn || self.lines + self.unwritten.len() > 2 * counting + SLACK {
            self.write_anew(disk, path)?;
        } else {
            self.append(disk, path)?;
        }
        self.unwritten.clear();
        self.damaged.clear();
        Ok(())
    }

    fn append<D: Disk>(&mut self, disk: &D, path: &Path) -> Result<(), StoreError> {
        let (file, made) = match disk.open_append(path) {
            Err(e) if e.kind() == ErrorKind::NotFound => {
                (disk.create_new(path, Writes::Append), true)
            }
            opened => (opened, false),
        };
        let file = file.map_err(|e| write_error("opening", path, e))?;
        let bytes: Vec<u8> = self.unwritten.iter().flat_map(encode).collect();
        // A write that fails may leave half a line.
        self.torn = true;
        write_all(&file, &bytes)
            .and_then(|()| file.sync_data())
            .map_err(|e| write_error("writing", path, e))?;
        if let Some(dir) = path.parent().filter(|_| made) {
            sync_dir(disk, dir)?;
        }
        self.torn = false;
        self.lines += self.unwritten.len();
        Ok(())
    }

    fn write_anew<D: Disk>(&mut self, disk: &D, path: &Path) -> Result<(), StoreError> {
        let (Some(dir), Some(name)) = (path.parent(), path.file_name().and_then(|n| n.to_str()))
        else {
            return Err(StoreError::refused("the index has no name"));
        };
        let files = self.files.values().cloned().map(Line::File);
        let sessions = self.sessions.values().cloned().map(Line::Session);
        let bytes: Vec<u8> = files.chain(sessions).flat_map(|line| encode(&line)).collect();
        TempFile::write(disk, dir, &bytes)?.replace(name)?;
        self.torn = false;
        self.lines = self.files.len() + self.sessions.len();
        Ok(())
    }
}

/// A line with its checksum and its end; nothing of what cannot be written as text, which is refused earlier.
fn encode(line: &Line) -> Vec<u8> {
    let Ok(json) = serde_json::to_string(line) else { return Vec::new() };
    let covered = json.strip_suffix('}').unwrap_or(&json);
    let crc = line::checksum(covered.as_bytes());
    format!("{covered},\"crc\":\"{crc:08x}\"}}\n").into_bytes()
}

/// A line that is not what was written.
struct Broken;

/// What a line says; nothing where that is of a type that this version does not know.
fn decode(text: &[u8]) -> Result<Option<Line>, Broken> {
    let (covered, crc) = line::split_crc(text).ok_or(Broken)?;
    if line::checksum(covered) != crc {
        return Err(Broken);
    }
    let json = [covered, b"}"].concat();
    Ok(serde_json::from_slice(&json).ok())
}
