//! A command's output on disk, bounded.
//!
//! Responsible for: writing it as it comes into pieces of a fixed size, of which the first and the last
//! ones are kept, and reading it back by its position in the whole. Must not: interpret a byte.

use super::action::{ActionDir, private_file};
use std::fs::{self, File};
use std::io::{self, ErrorKind, Write as _};
use std::os::unix::fs::FileExt as _;
use std::path::PathBuf;

/// How long a piece is. The first and the newest two are kept: at least the first and the last 16 MiB.
pub(crate) const PIECE: u64 = 16 << 20;

/// How much waits for room on a full disk before the command has to.
const WAITING: usize = 1 << 20;

/// How much is read at once.
const AT_ONCE: usize = 64 << 10;

/// Writes output.
#[derive(Debug)]
pub(crate) struct OutputWriter {
    dir: ActionDir,
    piece: u64,
    file: File,
    /// Position behind the last byte that was written.
    written: u64,
    /// What finds no room yet.
    waiting: Vec<u8>,
    /// How many bytes were lost to a failing disk.
    unwritten: u64,
}

impl OutputWriter {
    /// Begins it; the file is there from now on.
    pub(crate) fn begin(dir: &ActionDir, piece: u64) -> io::Result<Self> {
        let file = private_file(&dir.file(&name(0)))?;
        let waiting = Vec::new();
        Ok(Self { dir: dir.clone(), piece, file, written: 0, waiting, unwritten: 0 })
    }

    /// Adds bytes. What finds no room waits for some; what the disk refuses is counted.
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.waiting.extend_from_slice(bytes);
        let _ = self.flush();
    }

    /// Writes what waits; an error is a disk that is still full.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        let waiting = std::mem::take(&mut self.waiting);
        let mut rest = waiting.as_slice();
        while !rest.is_empty() {
            match self.push_some(rest) {
                Ok(n) => rest = rest.get(n..).unwrap_or_default(),
                Err(e) if is_full(&e) => {
                    self.waiting = rest.to_vec();
                    return Err(e);
                }
                Err(_) => {
                    self.unwritten += rest.len() as u64;
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// Whether something waits for room, and whether nothing more should be taken until there is some.
    pub(crate) fn waits(&self) -> (bool, bool) {
        (!self.waiting.is_empty(), self.waiting.len() >= WAITING)
    }

    fn push_some(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let (at, within) = (self.written / self.piece, self.written % self.piece);
        if within == 0 && at > 0 {
            self.next(at)?;
        }
        let room = usize::try_from(self.piece - within).unwrap_or(usize::MAX);
        let n = self.file.write(bytes.get(..room.min(bytes.len())).unwrap_or(bytes))?;
        if n == 0 {
            return Err(ErrorKind::WriteZero.into());
        }
        self.written += n as u64;
        Ok(n)
    }

    /// Goes on in another piece, and gives up the one that is neither first nor among the newest.
    fn next(&mut self, at: u64) -> io::Result<()> {
        self.file = match private_file(&self.dir.file(&name(at))) {
            // Made a moment ago, when there was no room to write into it.
            Err(e) if e.kind() == ErrorKind::AlreadyExists => {
                fs::OpenOptions::new().append(true).open(self.dir.file(&name(at)))?
            }
            made => made?,
        };
        if at > 2 {
            let _ = fs::remove_file(self.dir.file(&name(at - 2)));
        }
        Ok(())
    }

    /// Makes it durable.
    pub(crate) fn sync(&self) {
        // A failed sync loses output at worst, and the status says nothing about its bytes.
        let _ = self.file.sync_data();
    }

    /// Its length, and how much of that the disk refused.
    pub(crate) fn lengths(&self) -> (u64, u64) {
        (self.written + self.unwritten, self.unwritten)
    }
}

/// Whether there is no room, now.
pub(crate) fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded)
}

fn name(piece: u64) -> String {
    if piece == 0 { "output".to_owned() } else { format!("output.{piece}") }
}

/// Reads a command's output from any position, also while it grows.
#[derive(Debug)]
pub struct OutputReader {
    dir: PathBuf,
    piece: u64,
    at: u64,
}

/// Some output.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Chunk {
    /// How many bytes before it were given up.
    pub(crate) gap: u64,
    /// It; empty at the end, for now.
    pub(crate) bytes: Vec<u8>,
}

impl OutputReader {
    /// From the beginning.
    #[must_use]
    pub fn new(dir: &ActionDir) -> Self {
        Self { dir: dir.path().to_owned(), piece: PIECE, at: 0 }
    }

    /// What comes next.
    pub(crate) fn next(&mut self) -> Chunk {
        let mut chunk = Chunk::default();
        if !self.dir.join(name(self.at / self.piece)).exists() {
            let Some(later) = self.later() else { return chunk };
            chunk.gap = later - self.at;
            self.at = later;
        }
        chunk.bytes = self.read().unwrap_or_default();
        self.at += chunk.bytes.len() as u64;
        chunk
    }

    fn read(&self) -> io::Result<Vec<u8>> {
        let file = File::open(self.dir.join(name(self.at / self.piece)))?;
        let mut bytes = vec![0; AT_ONCE];
        let n = file.read_at(&mut bytes, self.at % self.piece)?;
        bytes.truncate(n);
        Ok(bytes)
    }

    /// Where the first piece behind this position begins.
    fn later(&self) -> Option<u64> {
        let entries = fs::read_dir(&self.dir).ok()?.filter_map(Result::ok);
        let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
        let pieces = names.filter_map(|name| name.strip_prefix("output.")?.parse::<u64>().ok());
        let starts = pieces.filter_map(|piece| piece.checked_mul(self.piece));
        starts.filter(|start| *start > self.at).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::supervisor::action::Request;

    fn action(dir: &std::path::Path) -> ActionDir {
        let request = Request {
            command: String::new(),
            shell: String::new(),
            cwd: String::new(),
            env: Default::default(),
            unset: Vec::new(),
            timeout_ms: 1,
            background: false,
        };
        ActionDir::create(dir, &request).unwrap()
    }

    fn read_all(reader: &mut OutputReader) -> (u64, Vec<u8>) {
        let (mut gap, mut bytes) = (0, Vec::new());
        loop {
            let chunk = reader.next();
            if chunk == Chunk::default() {
                return (gap, bytes);
            }
            gap += chunk.gap;
            bytes.extend(chunk.bytes);
        }
    }

    /// Any length, written in any portions, read while it grows or at the end: the beginning and the end
    /// are there, and what is between is counted.
    #[test]
    fn beginning_and_end_are_kept_and_the_rest_is_counted() {
        for length in [0_usize, 1, 9, 10, 11, 20, 29, 30, 31, 45, 50, 123] {
            for portion in [1_usize, 3, 10, 64] {
                let root = tempfile::tempdir().unwrap();
                let dir = action(root.path());
                let mut writer = OutputWriter::begin(&dir, 10).unwrap();
                let all: Vec<u8> = (0..length).map(|n| (n % 251) as u8).collect();
                let mut early = OutputReader { piece: 10, ..OutputReader::new(&dir) };
                let (mut seen, mut missed) = (Vec::new(), 0);
                for part in all.chunks(portion) {
                    writer.push(part);
                    let (gap, bytes) = read_all(&mut early);
                    missed += gap;
                    seen.extend(bytes);
                }
                assert_eq!(missed + seen.len() as u64, length as u64, "{length} by {portion}");
                assert_eq!(writer.lengths(), (length as u64, 0));
                let mut late = OutputReader { piece: 10, ..OutputReader::new(&dir) };
                let (gap, bytes) = read_all(&mut late);
                assert_eq!(gap + bytes.len() as u64, length as u64);
                let head = length.min(10);
                assert_eq!(bytes[..head], all[..head]);
                assert!(bytes.ends_with(&all[length - head..]), "{length} by {portion}");
                assert!(bytes.len() <= 30);
            }
        }
    }
}
