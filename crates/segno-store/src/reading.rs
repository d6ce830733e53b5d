//! Reads logs and has them judged.
//!
//! Responsible for: carrying bytes from the disk to the pure loader and scanner of `segno-model`, and
//! counting them. Must not: decide anything about a line.

use crate::disk::{Disk, DiskFile};
use crate::durable::read_full;
use crate::error::store_error;
use crate::layout::SessionDir;
use crate::log::Known;
use crate::store::FileStore;
use segno_model::active::{Loaded, Loader, Want};
use segno_model::finding::{Finding, LineNumbers};
use segno_model::judge::{Damage, Scanner, Tail};
use segno_model::record::RepairItem;
use segno_model::store::{Active, Scanned, Snapshot, StoreError};
use segno_model::{Pos, Seq, SessionId};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// A log as it was when it was opened for reading; what is appended later is not seen.
#[derive(Debug)]
pub(crate) struct LogFile<D: Disk> {
    pub(crate) file: D::File,
    pub(crate) path: PathBuf,
    pub(crate) len: u64,
    block: usize,
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
        Ok(Self { file, path, len, block: store.options().block.max(1) })
    }

    /// A file that is no session's log yet.
    pub(crate) fn of(store: &FileStore<D>, file: D::File, path: &Path) -> Result<Self, StoreError> {
        let len = file.meta().map_err(|e| store_error("looking at", path, e))?.len;
        Ok(Self { file, path: path.to_owned(), len, block: store.options().block.max(1) })
    }

    /// Loads the active part.
    pub(crate) fn load(&self) -> Result<(Loaded, u64), StoreError> {
        load(&self.file, &self.path, Loader::new(self.len))
    }

    /// Loads what a scan needs to know beforehand.
    fn load_for_scan(&self) -> Result<Loaded, StoreError> {
        load(&self.file, &self.path, Loader::new(self.len).for_scan()).map(|(loaded, _)| loaded)
    }

    /// Reads and judges everything from line 1 on; gives all damage, settled or not, and the tail.
    pub(crate) fn survey(&self) -> Result<(Vec<Damage>, Option<Tail>), StoreError> {
        let scanner = self.scan_with(&mut |_| true)?;
        Ok((scanner.damages().to_vec(), scanner.tail()))
    }

    /// Reads and judges everything from line 1 on.
    pub(crate) fn scan(
        &self,
        visit: &mut (dyn FnMut(Scanned) -> bool + Send),
    ) -> Result<(), StoreError> {
        self.scan_with(visit).map(|_| ())
    }

    /// Says where findings are: at which byte those are that only name a record, whose place behind
    /// line 1 `offset_of` knows, and in which line. Reads up to the last of them.
    pub(crate) fn locate(
        &self,
        findings: &mut [Finding],
        offset_of: &dyn Fn(Seq) -> Option<u64>,
    ) -> Result<(), StoreError> {
        if findings.iter().any(|f| f.offset.is_none() && f.seq.is_some()) {
            let origin = self.load_for_scan()?.origin;
            let behind = |seq| offset_of(seq).map(|at| origin.saturating_add(at));
            let place = |seq| if seq == 0 { Some(0) } else { behind(seq) };
            for finding in findings.iter_mut().filter(|f| f.offset.is_none()) {
                finding.offset = finding.seq.and_then(place);
            }
        }
        number_lines(&self.file, &self.path, findings)
    }

    pub(crate) fn scan_with(
        &self,
        visit: &mut (dyn FnMut(Scanned) -> bool + Send),
    ) -> Result<Scanner, StoreError> {
        let mut scanner = Scanner::new(self.load_for_scan()?.basis());
        let mut going = true;
        self.lines(0, &mut |line, ended| {
            scanner.line(line, ended);
            going = give(&mut scanner, visit);
            going
        })?;
        if going {
            scanner.finish();
            give(&mut scanner, visit);
        }
        Ok(scanner)
    }

    /// Hands every line from byte `at` on over, without its line end, until the visitor returns false.
    pub(crate) fn lines(
        &self,
        mut at: u64,
        visit: &mut dyn FnMut(&[u8], bool) -> bool,
    ) -> Result<(), StoreError> {
        let mut buffer = vec![0; self.block];
        // What of the buffer is filled, and how much of that is known to hold no line end.
        let mut filled = 0;
        while at < self.len {
            if filled == buffer.len() {
                buffer.resize(2 * filled, 0);
            }
            let room = buffer.len() - filled;
            let want = usize::try_from(self.len - at).map_or(room, |n| n.min(room));
            let read = read_full(&self.file, &mut buffer[filled..filled + want], at)
                .map_err(|e| store_error("reading", &self.path, e))?;
            if read == 0 {
                break;
            }
            at += read as u64;
            let (old, mut line) = (filled, 0);
            filled += read;
            for end in memchr::memchr_iter(b'\n', &buffer[old..filled]) {
                let end = old + end;
                if !visit(&buffer[line..end], true) {
                    return Ok(());
                }
                line = end + 1;
            }
            buffer.copy_within(line..filled, 0);
            filled -= line;
        }
        if filled > 0 {
            visit(&buffer[..filled], false);
        }
        Ok(())
    }
}

/// Hands over what the scanner has; says whether to go on.
fn give(scanner: &mut Scanner, visit: &mut (dyn FnMut(Scanned) -> bool + Send)) -> bool {
    while let Some(item) = scanner.next_scanned() {
        if !visit(item) {
            return false;
        }
    }
    true
}

/// Counts the lines up to each finding that knows its byte.
pub(crate) fn number_lines<F: DiskFile>(
    file: &F,
    path: &Path,
    findings: &mut [Finding],
) -> Result<(), StoreError> {
    let mut numbers = LineNumbers::new(findings);
    let (mut block, mut at) = (vec![0; 256 * 1024], 0);
    while numbers.is_waiting() {
        let read = read_full(file, &mut block, at).map_err(|e| store_error("reading", path, e))?;
        numbers.feed(&block[..read]);
        if read == 0 {
            break;
        }
        at += read as u64;
    }
    Ok(())
}

/// Reads what a loader wants until it wants nothing more; also says how many bytes that were.
pub(crate) fn load<F: DiskFile>(
    file: &F,
    path: &Path,
    mut loader: Loader,
) -> Result<(Loaded, u64), StoreError> {
    let mut block = Vec::new();
    let mut total = 0;
    while let Want::Read { at, len } = loader.next_want() {
        block.resize(len, 0);
        let read = read_full(file, &mut block, at).map_err(|e| store_error("reading", path, e))?;
        total += read as u64;
        loader.feed(&block[..read]);
    }
    Ok((loader.finish(), total))
}

/// What the context needs of what was loaded.
pub(crate) fn active_of(loaded: &mut Loaded, bytes_read: u64) -> Active {
    Active {
        records: std::mem::take(&mut loaded.records),
        findings: std::mem::take(&mut loaded.findings),
        bytes_read,
    }
}

/// What the context at `tip` needs.
pub(crate) fn active_at<F: DiskFile>(
    file: &F,
    path: &Path,
    len: u64,
    tip: Option<Pos>,
) -> Result<Active, StoreError> {
    let (mut loaded, bytes) = load(file, path, Loader::new(len).at_tip(tip))?;
    Ok(active_of(&mut loaded, bytes))
}

/// Reads the active part without the writer's right.
pub(crate) fn snapshot<D: Disk>(log: &LogFile<D>, id: &SessionId) -> Result<Snapshot, StoreError> {
    let (mut loaded, bytes) = log.load()?;
    let active = active_of(&mut loaded, bytes);
    let header = loaded.header_or_bare(id);
    Ok(Snapshot { header, state: loaded.state, active })
}

/// What appending needs to know. Nothing of what is read counts as durable before the next sync: a
/// writer that was killed may have left it in memory only.
pub(crate) fn known_of(
    loaded: &Loaded,
    len: u64,
    id: &SessionId,
    untold: Vec<RepairItem>,
) -> Known {
    let empty = loaded.state.next_seq == 0;
    let torn = match &loaded.tail {
        // Whatever there is without a header, line 1 must be line 1.
        _ if empty && len > 0 => Some(0),
        tail => tail.as_ref().map(|tail| tail.at),
    };
    Known {
        header: loaded.header_or_bare(id),
        state: if empty { Default::default() } else { loaded.state.clone() },
        synced: None,
        first_line: if empty { 0 } else { loaded.origin },
        torn,
        untold,
        unended: !empty && loaded.needs_line_end,
    }
}
