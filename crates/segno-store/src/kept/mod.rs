//! Copies of other agents' sessions, kept before those agents' clean-ups delete them.
//!
//! Responsible for: copying their files byte for byte, so that a kill or a power loss at any moment leaves
//! every copy whole or as it was before; and what is kept of which session. Must not: write, lock or touch
//! anything of another agent, or drop bytes that were kept: only a person removes them.
//!
//! The layout is in `docs/format/kept.md`: a tree that mirrors the originals' paths, older versions of files that
//! were written again, and an index. The index can be lost: then everything is compared once more.

mod copy;
mod found;
mod index;
mod sound;
mod version;

pub use index::Kept;
pub use sound::{Depth, Flaw, Flawed};
pub use version::Version;

use crate::disk::Disk;
use crate::durable::create_dirs;
use crate::error::{store_error, write_error};
use crate::foreign::{Agent, Located, Roots};
use crate::lock;
use crate::store::FileStore;
use copy::Copied;
use index::{Index, KeptFile, Line};
use segno_model::Timestamp;
use segno_model::store::StoreError;
use std::collections::HashSet;
use std::io::ErrorKind;
use std::path::{Component, Path, PathBuf};

/// After so many sessions the index is written: what is not in it is compared again.
const INDEX_EVERY: usize = 64;

/// Where kept things lie.
#[derive(Debug, Clone)]
struct Place {
    root: PathBuf,
}

impl Place {
    fn tree(&self) -> PathBuf {
        self.root.join("tree")
    }

    fn versions(&self) -> PathBuf {
        self.root.join("versions")
    }

    fn index(&self) -> PathBuf {
        self.root.join("index.jsonl")
    }

    fn lock(&self) -> PathBuf {
        self.root.join("lock")
    }
}

/// What was taken of a session, or of several.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Taken {
    /// Files that were not kept before.
    pub new: u64,
    /// Files that had grown.
    pub grown: u64,
    /// Files that were written again; what they were is kept as well.
    pub rewritten: u64,
    /// Bytes that were copied.
    pub bytes: u64,
    /// What could not be taken, as sentences.
    pub trouble: Vec<String>,
}

impl Taken {
    /// Adds what was taken of another one.
    pub fn add(&mut self, other: Self) {
        self.new += other.new;
        self.grown += other.grown;
        self.rewritten += other.rewritten;
        self.bytes += other.bytes;
        self.trouble.extend(other.trouble);
    }

    /// Whether there was nothing to take, and nothing went wrong.
    #[must_use]
    pub fn is_nothing(&self) -> bool {
        *self == Self::default()
    }

    fn count(&mut self, copied: Copied) {
        match copied {
            Copied::Unchanged => {}
            Copied::New(bytes) => (self.new, self.bytes) = (self.new + 1, self.bytes + bytes),
            Copied::Grown(bytes) => (self.grown, self.bytes) = (self.grown + 1, self.bytes + bytes),
            Copied::Rewritten(bytes) => {
                (self.rewritten, self.bytes) = (self.rewritten + 1, self.bytes + bytes);
            }
        }
    }
}

impl<D: Disk> FileStore<D> {
    /// Every session of another agent of which something is kept, in no particular order.
    ///
    /// # Errors
    /// A failing disk.
    pub fn kept(&self) -> Result<Vec<Kept>, StoreError> {
        let place = self.kept_place();
        Ok(Index::read(self.disk(), &place.index())?.sessions(&place.tree()))
    }

    /// The same, with those that the index does not name any more and of which copies lie where an agent that looks
    /// below `roots` would find them; and which of its lines, from 1, are damaged.
    ///
    /// # Errors
    /// A failing disk.
    pub fn kept_below(&self, roots: &Roots) -> Result<(Vec<Kept>, Vec<usize>), StoreError> {
        let place = self.kept_place();
        let index = Index::read(self.disk(), &place.index())?;
        let mut kept = index.sessions(&place.tree());
        if !index.is_whole() {
            kept.extend(found::found(&place.tree(), roots, &kept));
        }
        Ok((kept, index.damaged().to_vec()))
    }

    /// Where the index of what is kept is.
    #[must_use]
    pub fn kept_index(&self) -> PathBuf {
        self.kept_place().index()
    }

    /// The right to keep more, which one process has at a time; none while another one has it.
    ///
    /// # Errors
    /// A failing disk.
    pub fn keeper(&self) -> Result<Option<Keeper<D>>, StoreError> {
        let (disk, place) = (self.disk().clone(), self.kept_place());
        create_dirs(&disk, self.root(), &place.root)?;
        let path = place.lock();
        let file = match disk.open_append(&path) {
            Err(e) if e.kind() == ErrorKind::NotFound => {
                match disk.create_new(&path, crate::disk::Writes::Append) {
                    Err(e) if e.kind() == ErrorKind::AlreadyExists => disk.open_append(&path),
                    made => made,
                }
            }
            opened => opened,
        };
        let file = file.map_err(|e| write_error("opening", &path, e))?;
        if !lock::lock(&file).map_err(|e| store_error("locking", &path, e))? {
            return Ok(None);
        }
        let index = Index::read(&disk, &place.index())?;
        Ok(Some(Keeper {
            disk,
            place,
            index,
            waiting: 0,
            dirs: HashSet::new(),
            depth: Depth::Length,
            _lock: file,
        }))
    }

    fn kept_place(&self) -> Place {
        Place { root: self.root().join("kept") }
    }
}

/// The right to keep. What it was told to keep is there when [`Keeper::finish`] has returned.
#[derive(Debug)]
pub struct Keeper<D: Disk> {
    disk: D,
    place: Place,
    index: Index,
    /// Sessions since the index was written.
    waiting: usize,
    /// Directories that are there for good.
    dirs: HashSet<PathBuf>,
    /// How closely a copy of what has not changed is looked at.
    depth: Depth,
    _lock: D::File,
}

impl<D: Disk> Keeper<D> {
    /// The same, which looks at copies so closely before it takes them for what was kept.
    #[must_use]
    pub fn looking_at(self, depth: Depth) -> Self {
        Self { depth, ..self }
    }

    /// Takes up again what the index does not name any more, as [`FileStore::kept_below`] finds it; only then a damaged
    /// one is written anew.
    pub fn mend(&mut self, roots: &Roots) {
        if self.index.is_whole() {
            return;
        }
        let tree = self.place.tree();
        let found = found::found(&tree, roots, &self.index.sessions(&tree)).into_iter();
        let below = |kept: Kept| {
            let copy = kept.copy.strip_prefix(&tree).map(Path::to_owned);
            Kept { copy: copy.unwrap_or_default(), ..kept }
        };
        self.index.mend(found.map(below).collect());
        for path in self.index.unknown_files() {
            let copy = mirrored(&path).map(|below| tree.join(below));
            let Some(Ok(meta)) = copy.map(|copy| self.disk.meta(&copy)) else { continue };
            let known = KeptFile { path, bytes: meta.len, stamp: None, sha256: None };
            self.index.add(Line::File(known));
        }
    }

    /// Every session of which something is kept by now, in no particular order.
    #[must_use]
    pub fn kept(&self) -> Vec<Kept> {
        self.index.sessions(&self.place.tree())
    }

    /// Keeps a session whose originals are these files, the session's own first. One file that cannot be
    /// taken is told, and holds up no other; one for which there is no room is an error when all were tried.
    ///
    /// # Errors
    /// When nothing can be written.
    pub fn keep(
        &mut self,
        session: &Located,
        files: &[PathBuf],
        at: Timestamp,
    ) -> Result<Taken, StoreError> {
        let mut taken = Taken::default();
        let mut kept = Vec::new();
        let mut full = None;
        for original in files {
            match self.file(original, original, (Changed::Versioned, None)) {
                Ok(Some(copied)) => {
                    taken.count(copied);
                    kept.push(original.clone());
                }
                // It went between being listed and being read; a copy of it stays.
                Ok(None) if self.index.file(original).is_some() => kept.push(original.clone()),
                Ok(None) => {}
                Err(error @ StoreError::ReadOnly(_)) => return Err(error),
                Err(error @ StoreError::NoRoom(_)) => {
                    // What is kept of it stays kept.
                    if self.index.file(original).is_some() {
                        kept.push(original.clone());
                    }
                    full = Some(error);
                }
                Err(error) => taken.trouble.push(error.to_string()),
            }
        }
        if let Some(main) = kept.first() {
            let copy = mirrored(main).unwrap_or_default();
            self.note(session, copy, kept, at)?;
        }
        full.map_or(Ok(taken), Err)
    }

    /// Keeps a session out of a database: `rows` is a small database with its rows alone, which was made for
    /// this. When rows are `lost` that are kept, what was kept stays as a version.
    ///
    /// # Errors
    /// When nothing can be written.
    pub fn keep_rows(
        &mut self,
        session: &Located,
        rows: &Path,
        lost: bool,
        at: Timestamp,
    ) -> Result<Taken, StoreError> {
        let mut taken = Taken::default();
        let original = rows_path(session);
        let changed = if lost { Changed::Versioned } else { Changed::Replaced };
        let modified = Some(session.stamp.modified_ns).filter(|ns| *ns > 0);
        match self.file(rows, &original, (changed, modified)) {
            Ok(copied) => taken.count(copied.unwrap_or(Copied::Unchanged)),
            Err(error @ (StoreError::NoRoom(_) | StoreError::ReadOnly(_))) => return Err(error),
            Err(error) => taken.trouble.push(error.to_string()),
        }
        if taken.trouble.is_empty() {
            let copy = mirrored(&original).unwrap_or_default();
            self.note(session, copy, vec![original], at)?;
        }
        Ok(taken)
    }

    /// Whether a session of a database was kept when it was as it is now, and the copy is still there.
    #[must_use]
    pub fn has_rows(&self, session: &Located) -> bool {
        let stamped = session.stamp != crate::foreign::Stamp::default();
        let is_same = |known: &Kept| {
            stamped && known.rows == Some((session.stamp.bytes, session.stamp.modified_ns))
        };
        self.index.session(session).is_some_and(is_same) && self.is_there(&rows_path(session))
    }

    /// Whether the copy of a file is what it was when it was kept, as far as that is looked at.
    fn is_there(&self, original: &Path) -> bool {
        let Some(copy) = mirrored(original).map(|below| self.place.tree().join(below)) else {
            return false;
        };
        let known = self.index.file(original);
        known.is_some_and(|known| sound::is_as_kept(&self.disk, &copy, known, self.depth))
    }

    /// Where the rows of a session of a database are kept, whether they are or not.
    #[must_use]
    pub fn rows_copy(&self, session: &Located) -> Option<PathBuf> {
        Some(self.place.tree().join(mirrored(&rows_path(session))?))
    }

    /// A new file in which something can be made that is then kept; whoever asks for it removes it.
    ///
    /// # Errors
    /// A failing disk.
    pub fn scratch(&mut self) -> Result<PathBuf, StoreError> {
        let dir = self.place.root.join("scratch");
        self.make(&dir)?;
        // Nobody else is at it: the lock is ours. What is there, a killed process left.
        for entry in self.disk.list(&dir).map_err(|e| store_error("listing", &dir, e))? {
            let path = dir.join(entry.name);
            self.disk.remove_file(&path).map_err(|e| write_error("removing", &path, e))?;
        }
        Ok(dir.join("rows.sqlite"))
    }

    /// Takes one file; none if it is not there. What was made for this does not say when it was `modified`.
    fn file(
        &mut self,
        from: &Path,
        original: &Path,
        (changed, modified): (Changed, Option<i64>),
    ) -> Result<Option<Copied>, StoreError> {
        let Some(below) = mirrored(original) else {
            let path = original.display();
            return Err(StoreError::Refused(format!("{path} is no absolute path in plain text")));
        };
        let copy = self.place.tree().join(&below);
        let Some(dir) = copy.parent().map(Path::to_owned) else { return Ok(None) };
        let known = self.index.file(original).cloned();
        let known = known.as_ref();
        let source = match copy::look(&self.disk, from, &copy, (known, self.depth))? {
            copy::Look::Gone => return Ok(None),
            copy::Look::Unchanged => return Ok(Some(Copied::Unchanged)),
            copy::Look::Changed(mut source) => {
                source.modified_ns = modified.unwrap_or(source.modified_ns);
                source
            }
        };
        self.make(&dir)?;
        let versions = self.place.versions().join(&below);
        let (copied, bytes, sum) = match copy::grow(&self.disk, &source, &copy, known)? {
            Some(done) => done,
            None if changed == Changed::Replaced => copy::replace(&self.disk, &source, &copy)?,
            None => {
                self.make(&versions)?;
                copy::rewrite(&self.disk, &source, &copy, &versions)?
            }
        };
        // What was made for this is not there the next time.
        let stamp = copy::stamp_after(&self.disk, from, &source).filter(|_| from == original);
        let (path, sha256) = (original.to_owned(), Some(sum));
        self.index.add(Line::File(KeptFile { path, bytes, stamp, sha256 }));
        Ok(Some(copied))
    }

    fn make(&mut self, dir: &Path) -> Result<(), StoreError> {
        if !self.dirs.contains(dir) {
            create_dirs(&self.disk, &self.place.root, dir)?;
            self.dirs.insert(dir.to_owned());
        }
        Ok(())
    }

    fn note(
        &mut self,
        session: &Located,
        copy: PathBuf,
        files: Vec<PathBuf>,
        at: Timestamp,
    ) -> Result<(), StoreError> {
        let rows = session.key.is_some();
        let kept = Kept {
            agent: session.agent,
            path: session.path.clone(),
            key: session.key.clone(),
            id: session.id.clone(),
            parent: session.parent.clone(),
            archived: session.archived,
            at,
            rows: rows.then_some((session.stamp.bytes, session.stamp.modified_ns)),
            copy,
            files,
            known: Vec::new(),
        };
        if self.index.session(session).is_none_or(|known| !known.is_same(&kept)) {
            self.index.add(Line::Session(kept));
        }
        self.waiting += 1;
        if self.waiting >= INDEX_EVERY {
            self.write_index()?;
        }
        Ok(())
    }

    fn write_index(&mut self) -> Result<(), StoreError> {
        self.waiting = 0;
        self.index.write(&self.disk, &self.place.index())
    }

    /// Makes durable what is known about what was kept.
    ///
    /// # Errors
    /// When it cannot be written. What was copied is there, and is compared again the next time.
    pub fn finish(mut self) -> Result<(), StoreError> {
        self.write_index()
    }

    /// How many bytes are kept of a session: its files, and their older versions.
    #[must_use]
    pub fn room(&self, kept: &Kept) -> (u64, u64) {
        room(&self.disk, &self.place, kept)
    }

    /// Removes what is kept of a session, but for files that belong to another one as well.
    ///
    /// # Errors
    /// A failing disk. What was not removed by then is still kept.
    pub fn remove(&mut self, kept: &Kept, only_versions: bool) -> Result<u64, StoreError> {
        let mut freed = 0;
        let shared = self.index.files_of_others(kept);
        if !only_versions {
            self.index.add(Line::Removed {
                agent: kept.agent,
                path: kept.path.clone(),
                key: kept.key.clone(),
            });
        }
        for original in kept.files.iter().filter(|file| !shared.contains(*file)) {
            let Some(below) = mirrored(original) else { continue };
            freed += self.remove_versions(&self.place.versions().join(&below))?;
            let copy = self.place.tree().join(&below);
            if only_versions {
                continue;
            }
            self.index.add(Line::FileRemoved { path: original.clone() });
            freed += self.remove_file(&copy)?;
        }
        self.write_index()?;
        Ok(freed)
    }

    fn remove_versions(&self, dir: &Path) -> Result<u64, StoreError> {
        let mut freed = 0;
        for entry in copy::entries(&self.disk, dir)? {
            freed += self.remove_file(&dir.join(entry.name))?;
        }
        Ok(freed)
    }

    fn remove_file(&self, path: &Path) -> Result<u64, StoreError> {
        let bytes = self.disk.meta(path).map_or(0, |meta| meta.len);
        match self.disk.remove_file(path) {
            Err(e) if e.kind() == ErrorKind::NotFound => Ok(0),
            Err(e) => Err(write_error("removing", path, e)),
            Ok(()) => Ok(bytes),
        }
    }
}

impl<D: Disk> FileStore<D> {
    /// How many bytes are kept of a session: its files, and their older versions.
    #[must_use]
    pub fn kept_room(&self, kept: &Kept) -> (u64, u64) {
        room(self.disk(), &self.kept_place(), kept)
    }

    /// The kept copy of a file of another agent, whether it is there or not.
    #[must_use]
    pub fn kept_copy(&self, original: &Path) -> Option<PathBuf> {
        Some(self.kept_place().tree().join(mirrored(original)?))
    }
}

fn room<D: Disk>(disk: &D, place: &Place, kept: &Kept) -> (u64, u64) {
    let size = |path: &Path| disk.meta(path).map_or(0, |meta| meta.len);
    let (mut files, mut versions) = (0, 0);
    for below in kept.files.iter().filter_map(|file| mirrored(file)) {
        files += size(&place.tree().join(&below));
        let dir = place.versions().join(&below);
        let old = copy::entries(disk, &dir).unwrap_or_default();
        versions += old.iter().map(|entry| size(&dir.join(&entry.name))).sum::<u64>();
    }
    (files, versions)
}

/// What becomes of a copy that is no beginning of its original any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Changed {
    /// It stays, as a version.
    Versioned,
    /// The new one holds all that it held.
    Replaced,
}

/// Under which path the rows of a session of a database are mirrored.
fn rows_path(session: &Located) -> PathBuf {
    let key = session.key.as_deref().unwrap_or_default();
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_".contains(c);
    let name = match key {
        key if !key.is_empty() && key.len() <= 100 && key.chars().all(plain) => key.to_owned(),
        key => segno_model::sha256_hex(key.as_bytes()),
    };
    let mut folder = session.path.clone().into_os_string();
    folder.push(".sessions");
    PathBuf::from(folder).join(format!("{name}.sqlite"))
}

/// An absolute path as one below a folder of ours; none when it leads anywhere else, or the index could not
/// name it.
fn mirrored(original: &Path) -> Option<PathBuf> {
    original.to_str()?;
    let mut below = PathBuf::new();
    for part in original.components() {
        match part {
            Component::RootDir => {}
            Component::Normal(name) => below.push(name),
            Component::Prefix(_) | Component::CurDir | Component::ParentDir => return None,
        }
    }
    (original.is_absolute() && below.file_name().is_some()).then_some(below)
}

/// Which session a line of the index is about.
type Name = (Agent, PathBuf, Option<String>);

#[cfg(test)]
mod tests {
    use super::mirrored;
    use std::path::Path;

    /// Covers: G17.
    #[test]
    fn no_path_leads_out_of_the_tree() {
        let cases = [
            ("/home/me/.claude/a.jsonl", Some("home/me/.claude/a.jsonl")),
            ("/home/../etc/passwd", None),
            ("a.jsonl", None),
            ("/", None),
            ("", None),
        ];
        for (original, expected) in cases {
            assert_eq!(
                mirrored(Path::new(original)).as_deref(),
                expected.map(Path::new),
                "{original}"
            );
        }
    }
}
