//! What the bytes between two line ends are.
//!
//! Responsible for: taking one physical line apart into intact records and located anomalies, in time
//! linear in its length whatever it holds. Must not: look at neighbouring lines or decide what an
//! anomaly means; [`super::sequence`] and [`super::table`] do.
//!
//! The pieces of a line, in order, are all its bytes:
//!
//! - *intact*: a record whose checksum matches. It may be anywhere in the line: after the stub of a
//!   record that was cut, after NUL bytes, or next to another record.
//! - *corrected*: a record in which one flipped bit explains the wrong checksum. It is read with the
//!   bit flipped back. An arbitrary alteration passes for one flipped bit with a chance of its length
//!   in bits over 2^32; lines longer than any writer makes are not tried.
//! - *altered*: a well-formed record whose checksum does not match and is not explained like that.
//! - *malformed*: no record. *fused* when an intact record shares its line.
//! - *NUL*: a run of zero bytes, as a file system leaves it. *Blank*: white space.
//! - *flipped line end* behind a record, *no line end* between two intact records, *carriage return* before the line end and *byte order mark* at the start of the log: harmless.

use super::crc::{self, Places};
use crate::batch::MAX_LINE_BYTES;
use crate::id::{Seq, sha256_hex};
use crate::line::{self, LineError, Record};
use std::collections::HashMap;
use std::sync::Arc;

const BOM: &[u8] = b"\xEF\xBB\xBF";
const RECORD_START: &[u8] = b"{\"seq\":";
/// How many matching but unreadable stretches of one line are looked into: a bound for hostile lines.
const MAX_FALSE_MATCHES: usize = 32;

/// One stretch of a line.
#[derive(Debug, Clone)]
pub struct Piece {
    /// Where it begins within the line.
    pub at: usize,
    /// How many bytes.
    pub len: usize,
    /// What it is.
    pub kind: PieceKind,
}

/// What a stretch of a line is. Records carry their offset within the line until they are placed.
#[derive(Debug, Clone)]
pub enum PieceKind {
    /// An intact record.
    Intact(Arc<Record>),
    /// A record with one flipped bit, corrected.
    Corrected(Arc<Record>),
    /// A well-formed record with a wrong checksum.
    Altered {
        /// The record as it reads.
        record: Arc<Record>,
        /// Identifies this very alteration.
        sha256: String,
    },
    /// No record.
    Malformed {
        /// Whether an intact record shares the line.
        fused: bool,
        /// The number of the record that it is the beginning of, where that can be read.
        claims: Option<Seq>,
        /// Identifies these very bytes.
        sha256: String,
    },
    /// Zero bytes.
    Nul {
        /// Identifies these very bytes.
        sha256: String,
    },
    /// White space.
    Blank,
    /// A carriage return before the line end.
    CarriageReturn,
    /// A byte order mark at the start of the log.
    ByteOrderMark,
    /// A line end behind a record with one bit flipped.
    FlippedLineEnd,
    /// No bytes at all: where two intact records meet without a line end between them.
    NoLineEnd,
}

impl PieceKind {
    /// The record that may be read: intact or corrected.
    #[must_use]
    pub fn record(&self) -> Option<&Arc<Record>> {
        match self {
            Self::Intact(record) | Self::Corrected(record) => Some(record),
            _ => None,
        }
    }

    fn record_mut(&mut self) -> Option<&mut Arc<Record>> {
        match self {
            Self::Intact(record) | Self::Corrected(record) | Self::Altered { record, .. } => {
                Some(record)
            }
            _ => None,
        }
    }
}

/// A physical line, placed in its log.
#[derive(Debug, Clone)]
pub struct Line {
    /// Where it begins, in the file.
    pub at: u64,
    /// How many bytes, without the line end.
    pub len: u64,
    /// Whether a line end follows; only the last line of a log can be without.
    pub ended: bool,
    /// All of it.
    pub pieces: Vec<Piece>,
}

impl Line {
    /// Takes apart the line that begins at `at` in the file, in a log whose line 1 ends at `origin`.
    #[must_use]
    pub fn read(at: u64, bytes: &[u8], ended: bool, origin: u64) -> Self {
        let mut pieces = classify(bytes, at == 0);
        place(&mut pieces, at, origin);
        Self { at, len: bytes.len() as u64, ended, pieces }
    }

    /// Takes line 1 apart and finds out where it ends: the place that record offsets count from.
    #[must_use]
    pub fn read_first(bytes: &[u8], ended: bool) -> (Self, u64) {
        let mut pieces = classify(bytes, true);
        let origin = origin(&pieces, bytes.len());
        place(&mut pieces, 0, origin);
        (Self { at: 0, len: bytes.len() as u64, ended, pieces }, origin)
    }

    /// Where the next line begins.
    #[must_use]
    pub fn end(&self) -> u64 {
        self.at + self.len + u64::from(self.ended)
    }
}

/// Where line 1 ended when it was written: behind its line end, or, when that was damaged so that
/// more records share the line, where it must have been.
fn origin(pieces: &[Piece], len: usize) -> u64 {
    let mut records = pieces.iter().filter(|p| p.kind.record().is_some());
    let end = match (records.next(), records.next()) {
        (Some(header), Some(_)) if header.kind.record().is_some_and(|r| r.seq() == 0) => {
            header.at + header.len
        }
        _ => len,
    };
    end as u64 + 1
}

fn place(pieces: &mut [Piece], at: u64, origin: u64) {
    for piece in pieces {
        let offset = (at + piece.at as u64).saturating_sub(origin);
        if let Some(record) = piece.kind.record_mut().and_then(Arc::get_mut) {
            record.offset = offset;
        }
    }
}

/// Takes a line (without its line end) apart. `first` says that it is the log's first.
#[must_use]
pub fn classify(line: &[u8], first: bool) -> Vec<Piece> {
    let start = if first && line.starts_with(BOM) { BOM.len() } else { 0 };
    let blank = is_blank(&line[start..]);
    let end = if !blank && line.ends_with(b"\r") { line.len() - 1 } else { line.len() };
    let mut pieces = Pieces { line, all: Vec::new() };
    if start > 0 {
        pieces.push(0, start, PieceKind::ByteOrderMark);
    }
    if blank {
        // An empty line is a piece too, but nothing behind a byte order mark is none.
        if start == 0 || start < end {
            pieces.push(start, end, PieceKind::Blank);
        }
    } else if let Ok(record) = line::decode(&line[start..end], 0) {
        pieces.push(start, end, PieceKind::Intact(Arc::new(record)));
    } else {
        pieces.salvage(start, end);
    }
    if end < line.len() {
        pieces.push(end, line.len(), PieceKind::CarriageReturn);
    }
    pieces.all
}

struct Pieces<'a> {
    line: &'a [u8],
    all: Vec<Piece>,
}

impl Pieces<'_> {
    fn push(&mut self, start: usize, end: usize, kind: PieceKind) {
        if start < end || matches!(kind, PieceKind::Blank | PieceKind::NoLineEnd) {
            self.all.push(Piece { at: start, len: end - start, kind });
        }
    }

    /// Finds the intact records of a line that is not one, and says what lies between them.
    fn salvage(&mut self, start: usize, end: usize) {
        let records = intact_records(&self.line[start..end]);
        let fused = !records.is_empty();
        let mut at = start;
        for (i, (from, record)) in records.into_iter().enumerate() {
            let (from, to) = (start + from, start + from + record.line.len());
            if i > 0 && from == at {
                self.push(at, at, PieceKind::NoLineEnd);
            }
            self.leftover(at, from, fused);
            self.push(from, to, PieceKind::Intact(Arc::new(record)));
            at = to;
        }
        self.leftover(at, end, fused);
    }

    /// Says what a stretch without an intact record is, apart from NUL bytes around it.
    fn leftover(&mut self, start: usize, end: usize, fused: bool) {
        let bytes = &self.line[start..end];
        let Some(first) = bytes.iter().position(|b| *b != 0) else {
            self.push(start, end, PieceKind::Nul { sha256: sha256_hex(bytes) });
            return;
        };
        let last = bytes.iter().rposition(|b| *b != 0).unwrap_or(first) + 1;
        let core = &bytes[first..last];
        let after_record = self.all.last().is_some_and(|p| p.kind.record().is_some());
        if after_record && bytes.len() == 1 && (bytes[0] ^ b'\n').count_ones() == 1 {
            self.push(start, end, PieceKind::FlippedLineEnd);
            return;
        }
        self.push(start, start + first, PieceKind::Nul { sha256: sha256_hex(&bytes[..first]) });
        let kind = if is_blank(core) { PieceKind::Blank } else { no_intact_record(core, fused) };
        self.push(start + first, start + last, kind);
        self.push(start + last, end, PieceKind::Nul { sha256: sha256_hex(&bytes[last..]) });
    }
}

fn is_blank(bytes: &[u8]) -> bool {
    bytes.iter().all(|b| matches!(b, b' ' | b'\t' | b'\r' | 0x0B | 0x0C))
}

fn no_intact_record(bytes: &[u8], fused: bool) -> PieceKind {
    if let Some(record) = correct(bytes) {
        return PieceKind::Corrected(Arc::new(record));
    }
    let sha256 = sha256_hex(bytes);
    if let Err(LineError::Altered { .. }) = line::decode(bytes, 0)
        && let Ok(record) = line::decode_unchecked(bytes, 0)
    {
        return PieceKind::Altered { record: Arc::new(record), sha256 };
    }
    PieceKind::Malformed { fused, claims: claimed_seq(bytes), sha256 }
}

/// The number that the beginning of a record claims.
fn claimed_seq(bytes: &[u8]) -> Option<Seq> {
    let digits = bytes.strip_prefix(RECORD_START)?;
    let len = digits.iter().take(20).take_while(|b| b.is_ascii_digit()).count();
    // Without something behind it the number itself may be cut.
    digits.get(len)?;
    std::str::from_utf8(&digits[..len]).ok()?.parse().ok()
}

/// The record that these bytes are when one bit is flipped back: in its content, in its structure, in
/// the stored checksum or in the key before that.
fn correct(bytes: &[u8]) -> Option<Record> {
    if bytes.len() > MAX_LINE_BYTES {
        return None;
    }
    let covered = bytes.len().checked_sub(line::CRC_TAIL_LEN)?;
    let actual = line::checksum(&bytes[..covered]);
    let mut fixed = bytes.to_vec();
    let tail = line::crc_tail(actual);
    let distance: u32 = bytes[covered..].iter().zip(&tail).map(|(a, b)| (a ^ b).count_ones()).sum();
    if distance == 1 {
        fixed[covered..].copy_from_slice(&tail);
    } else {
        let (_, stored) = line::split_crc(bytes)?;
        let (at, mask) = crc::flipped_bit(covered, actual, stored)?;
        fixed[at] ^= mask;
    }
    line::decode(&fixed, 0).ok()
}

/// The intact records within a line that is not one, with their places, in order.
fn intact_records(bytes: &[u8]) -> Vec<(usize, Record)> {
    let mut found = Vec::new();
    let mut starts = memchr::memmem::find_iter(bytes, RECORD_START).peekable();
    let mut places = Places::new(bytes);
    let mut start_by_key = HashMap::new();
    let (mut floor, mut false_matches) = (0, 0);
    for end in memchr::memmem::find_iter(bytes, line::CRC_KEY) {
        let Some(whole) = bytes.get(..end + line::CRC_TAIL_LEN) else { break };
        let Some((_, stored)) = line::split_crc(whole) else { continue };
        while let Some(start) = starts.next_if(|start| *start < end) {
            start_by_key.insert(places.key(start, 0), start);
        }
        let Some(&start) = start_by_key.get(&places.key(end, stored)) else { continue };
        if start < floor || (start > floor && is_embedded(&bytes[whole.len()..])) {
            continue;
        }
        match line::decode(&whole[start..], 0) {
            Ok(record) => {
                found.push((start, record));
                floor = whole.len();
            }
            Err(_) if false_matches < MAX_FALSE_MATCHES => false_matches += 1,
            Err(_) => break,
        }
    }
    found
}

/// Whether what follows a record shows that the record is a value inside another one.
fn is_embedded(rest: &[u8]) -> bool {
    matches!(rest.first(), Some(b',' | b'}' | b']'))
}
