//! One file and its copy.
//!
//! Responsible for: seeing whether the copy still is the original's beginning, copying only what is new then, and
//! otherwise keeping both. At every moment the copy's name stands for something whole. Must not: change the
//! original, or drop bytes of a copy.

use super::index::KeptFile;
use super::sound::{self, Depth, hex};
use crate::disk::{Disk, DiskFile, Entry};
use crate::durable::{TempFile, read_full, sync_dir, write_all};
use crate::error::{store_error, write_error};
use segno_model::store::StoreError;
use sha2::{Digest, Sha256};
use std::io::ErrorKind;
use std::path::Path;

const BLOCK: usize = 1 << 20;

/// What was done about a file, and how many bytes were copied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Copied {
    /// It is as it was.
    Unchanged,
    /// It was not kept before.
    New(u64),
    /// What was kept is its beginning.
    Grown(u64),
    /// What was kept is something else than its beginning, and stays as a version.
    Rewritten(u64),
}

/// What was done, how long the copy is, and the SHA-256 of what it holds.
pub(super) type Done = (Copied, u64, String);

/// What a look at the original tells.
pub(super) enum Look<F> {
    /// It is not there.
    Gone,
    /// It and its copy are as they were.
    Unchanged,
    /// It has to be compared.
    Changed(Source<F>),
}

/// An original that is open, and how it was then.
pub(super) struct Source<F> {
    file: F,
    bytes: u64,
    stamp: (u64, i64, u64),
    /// When it was changed last, in ns since 1970; the copy says the same.
    pub(super) modified_ns: i64,
}

/// Opens the original, if it or its copy can have changed; of the copy, that is found out as closely as is said.
pub(super) fn look<D: Disk>(
    disk: &D,
    original: &Path,
    copy: &Path,
    (known, depth): (Option<&KeptFile>, Depth),
) -> Result<Look<D::File>, StoreError> {
    let file = match disk.open_untouched(original) {
        Ok(file) => file,
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(Look::Gone),
        Err(e) => return Err(store_error("reading", original, e)),
    };
    let meta = file.meta().map_err(|e| store_error("looking at", original, e))?;
    let stamp = (meta.len, meta.modified_ns, meta.id.ino);
    let unchanged = known.is_some_and(|known| {
        known.stamp == Some(stamp) && sound::is_as_kept(disk, copy, known, depth)
    });
    if unchanged {
        return Ok(Look::Unchanged);
    }
    let modified_ns = meta.modified_ns;
    Ok(Look::Changed(Source { file, bytes: meta.len, stamp, modified_ns }))
}

/// How the original was when it was opened; none if it is another one by now, so that it is compared again.
pub(super) fn stamp_after<D: Disk>(
    disk: &D,
    original: &Path,
    source: &Source<D::File>,
) -> Option<(u64, i64, u64)> {
    let meta = disk.meta(original).ok()?;
    let same = meta.id.ino == source.stamp.2 && meta.len >= source.bytes;
    same.then_some(source.stamp)
}

/// Makes the copy, or appends to it what is new; gives how long it is. Nothing if it is no beginning of the
/// original.
pub(super) fn grow<D: Disk>(
    disk: &D,
    source: &Source<D::File>,
    copy: &Path,
    known: Option<&KeptFile>,
) -> Result<Option<Done>, StoreError> {
    let (Some(dir), Some(name)) = (copy.parent(), copy.file_name().and_then(|n| n.to_str())) else {
        return Err(StoreError::refused("a copy has no name"));
    };
    let file = match disk.open_append(copy) {
        Ok(file) => file,
        Err(e) if e.kind() == ErrorKind::NotFound => {
            let (temp, sum) = whole(disk, dir, source)?;
            temp.link_as(name)?;
            return Ok(Some((Copied::New(source.bytes), source.bytes, sum)));
        }
        Err(e) => return Err(write_error("opening", copy, e)),
    };
    let fail = |e| store_error("reading", copy, e);
    let kept = file.meta().map_err(fail)?.len;
    // What memory holds behind the last sync may not be what the medium holds.
    file.forget_cached(known.map_or(0, |known| known.bytes));
    let mut sum = Sha256::new();
    if kept > source.bytes || !is_beginning(&file, kept, &source.file, &mut sum).map_err(fail)? {
        return Ok(None);
    }
    let fail = |e| write_error("writing", copy, e);
    if let Err(error) = append(&file, &source.file, (kept, source.bytes), &mut sum) {
        // What came of it is of no use, and may be in the way of another session. If it stays, the next run goes
        // on behind it.
        let _ = file.truncate(kept);
        return Err(fail(error));
    }
    date(disk, copy, source);
    // Also when nothing was appended: an earlier process may have died before it came to this.
    file.sync_data().map_err(fail)?;
    sync_dir(disk, dir)?;
    let grown = source.bytes - kept;
    let copied = if grown == 0 { Copied::Unchanged } else { Copied::Grown(grown) };
    Ok(Some((copied, source.bytes, hex(sum))))
}

/// All of the original in a file that has no name of its own yet, and its SHA-256.
fn whole<'a, D: Disk>(
    disk: &'a D,
    dir: &'a Path,
    source: &Source<D::File>,
) -> Result<(TempFile<'a, D>, String), StoreError> {
    let (temp, sum) = TempFile::copy(disk, dir, &source.file, (0, source.bytes))?;
    date(disk, temp.path(), source);
    Ok((temp, sum))
}

/// Gives a copy its original's time. Without it, it is a copy all the same.
fn date<D: Disk>(disk: &D, copy: &Path, source: &Source<D::File>) {
    let _ = disk.set_modified(copy, source.modified_ns);
}

/// Whether all of the copy is what the original begins with; it is added to `sum`.
fn is_beginning<F: DiskFile>(
    copy: &F,
    kept: u64,
    original: &F,
    sum: &mut Sha256,
) -> std::io::Result<bool> {
    let (mut ours, mut theirs) = (vec![0; BLOCK], vec![0; BLOCK]);
    let mut at = 0;
    while at < kept {
        let want = usize::try_from(kept - at).unwrap_or(BLOCK).min(BLOCK);
        let read = read_full(copy, &mut ours[..want], at)?;
        let other = read_full(original, &mut theirs[..read], at)?;
        if read == 0 || ours[..read] != theirs[..other] {
            return Ok(false);
        }
        sum.update(&ours[..read]);
        at += read as u64;
    }
    Ok(true)
}

fn append<F: DiskFile>(
    copy: &F,
    original: &F,
    (from, to): (u64, u64),
    sum: &mut Sha256,
) -> std::io::Result<()> {
    let mut block = vec![0; BLOCK];
    let mut at = from;
    while at < to {
        let want = usize::try_from(to - at).unwrap_or(BLOCK).min(BLOCK);
        let read = read_full(original, &mut block[..want], at)?;
        if read == 0 {
            return Err(std::io::Error::other("the original became shorter while it was read"));
        }
        write_all(copy, &block[..read])?;
        sum.update(&block[..read]);
        at += read as u64;
    }
    Ok(())
}

/// Puts the original in the place of its copy, which becomes a version.
pub(super) fn rewrite<D: Disk>(
    disk: &D,
    source: &Source<D::File>,
    copy: &Path,
    versions: &Path,
) -> Result<Done, StoreError> {
    let (Some(dir), Some(name)) = (copy.parent(), copy.file_name().and_then(|n| n.to_str())) else {
        return Err(StoreError::refused("a copy has no name"));
    };
    let (temp, sum) = whole(disk, dir, source)?;
    let numbers = entries(disk, versions)?.into_iter().filter_map(|e| e.name.parse::<u64>().ok());
    let version = versions.join(format!("{:06}", numbers.max().unwrap_or(0) + 1));
    match disk.hard_link(copy, &version) {
        Ok(()) => {}
        // Some local file systems have no hard links. The copy has no name then until the next line but one.
        Err(e) if e.kind() != ErrorKind::AlreadyExists => {
            disk.rename(copy, &version).map_err(|e| write_error("naming", &version, e))?;
        }
        Err(e) => return Err(write_error("linking", &version, e)),
    }
    sync_dir(disk, versions)?;
    temp.replace(name)?;
    Ok((Copied::Rewritten(source.bytes), source.bytes, sum))
}

/// Puts what holds all that the copy held in its place.
pub(super) fn replace<D: Disk>(
    disk: &D,
    source: &Source<D::File>,
    copy: &Path,
) -> Result<Done, StoreError> {
    let (Some(dir), Some(name)) = (copy.parent(), copy.file_name().and_then(|n| n.to_str())) else {
        return Err(StoreError::refused("a copy has no name"));
    };
    let (temp, sum) = whole(disk, dir, source)?;
    temp.replace(name)?;
    Ok((Copied::Grown(source.bytes), source.bytes, sum))
}

/// What is in a directory; nothing when it is not there.
pub(super) fn entries<D: Disk>(disk: &D, dir: &Path) -> Result<Vec<Entry>, StoreError> {
    match disk.list(dir) {
        Ok(entries) => Ok(entries.into_iter().filter(|entry| !entry.is_dir).collect()),
        Err(e) if e.kind() == ErrorKind::NotFound => Ok(Vec::new()),
        Err(e) => Err(store_error("listing", dir, e)),
    }
}
