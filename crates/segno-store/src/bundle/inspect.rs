//! Looking a file through before anything of it is used.
//!
//! Responsible for: which parts are there and whole, and where the first damage is. Must not: write, or keep a
//! part's bytes.

use super::pack::hex;
use super::{BLOCK, BundleError};
use segno_model::SessionId;
use segno_model::bundle::{MAJOR, MAX_LINE, Part, PartKind};
use sha2::{Digest as _, Sha256};
use std::io::{BufRead as _, BufReader, Read, Seek, SeekFrom};

/// Whether a part is as it was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Whole {
    /// It is.
    Yes,
    /// Its bytes have another checksum.
    Altered,
    /// The file ends within it.
    Cut,
}

/// A part that is there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Found {
    pub(super) kind: PartKind,
    pub(super) session: SessionId,
    /// Where its bytes begin in the file.
    pub(super) at: u64,
    /// How many of them are there.
    pub(super) len: u64,
    pub(super) sha256: String,
    pub(super) whole: Whole,
}

/// The first thing that is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Broken {
    /// At which byte of the file.
    pub offset: u64,
    /// What, as a phrase.
    pub reason: String,
}

/// What a file holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Inventory {
    /// Whose tree it is.
    pub session: SessionId,
    pub(super) parts: Vec<Found>,
    /// The first damage.
    pub broken: Option<Broken>,
}

impl Inventory {
    /// The sessions whose logs are there, and how whole these are; the tree's own first.
    pub fn sessions(&self) -> impl Iterator<Item = (&SessionId, Whole, u64)> {
        let logs = self.parts.iter().filter(|part| part.kind == PartKind::Log);
        logs.map(|part| (&part.session, part.whole, part.len))
    }

    /// How many large values are there as they were.
    #[must_use]
    pub fn blobs(&self) -> usize {
        self.blobs_of(None).count()
    }

    /// The large values that are there as they were, of one session or of all.
    pub(super) fn blobs_of<'a>(
        &'a self,
        of: Option<&'a SessionId>,
    ) -> impl Iterator<Item = &'a Found> {
        let whole = self.parts.iter().filter(|p| p.kind == PartKind::Blob && p.whole == Whole::Yes);
        whole.filter(move |part| of.is_none_or(|id| *id == part.session))
    }
}

/// Looks a whole file through.
///
/// # Errors
/// When it cannot be read, is none of these, or is of a later version. Damage is no error.
pub(super) fn inspect<R: Read + Seek>(file: &mut R) -> Result<Inventory, BundleError> {
    file.seek(SeekFrom::Start(0))?;
    let mut reader = Reader { inner: BufReader::with_capacity(BLOCK, file), at: 0 };
    let not_one = |reason: &str| BundleError::NotOne { offset: 0, reason: reason.to_owned() };
    let first = match reader.line()? {
        Line::Is(line) => {
            Part::parse(&line).map_err(|_| not_one("it does not begin like an exported session"))?
        }
        Line::End | Line::Cut => return Err(not_one("it is empty, or cut in its first line")),
    };
    let (PartKind::Bundle, Some(session)) = (first.part, first.session.clone()) else {
        return Err(not_one("it does not begin like an exported session"));
    };
    match first.major {
        Some(MAJOR) => {}
        Some(newer) => return Err(BundleError::Newer(newer)),
        None => return Err(not_one("its first line names no version")),
    }
    let mut inventory = Inventory { session, parts: Vec::new(), broken: None };
    let mut lines = 1;
    while let Some(end) = reader.part(&mut inventory, lines)? {
        if end {
            reader.nothing_more(&mut inventory)?;
            break;
        }
        lines += 1;
    }
    Ok(inventory)
}

enum Line {
    Is(Vec<u8>),
    /// The file ends in front of it.
    End,
    /// Or within it.
    Cut,
}

struct Reader<'a, R> {
    inner: BufReader<&'a mut R>,
    at: u64,
}

impl<R: Read> Reader<'_, R> {
    fn line(&mut self) -> Result<Line, BundleError> {
        let mut line = Vec::new();
        let read = self.inner.by_ref().take(MAX_LINE).read_until(b'\n', &mut line)?;
        self.at += read as u64;
        Ok(match line.pop() {
            None => Line::End,
            Some(b'\n') => Line::Is(line),
            Some(_) => Line::Cut,
        })
    }

    /// Reads one part; whether it was the last line, and nothing when no more can be read.
    fn part(&mut self, inventory: &mut Inventory, lines: u64) -> Result<Option<bool>, BundleError> {
        let began = self.at;
        let broken = |offset: u64, reason: &str| Broken { offset, reason: reason.to_owned() };
        let part = match self.line()? {
            Line::End => {
                note(inventory, broken(began, "the file ends before its last part"));
                return Ok(None);
            }
            Line::Cut => {
                note(inventory, broken(began, "the file ends within the line of a part"));
                return Ok(None);
            }
            Line::Is(line) => match Part::parse(&line) {
                Ok(part) => part,
                Err(why) => {
                    note(inventory, broken(began, &why));
                    return Ok(None);
                }
            },
        };
        if part.part == PartKind::End {
            if part.parts != Some(lines) {
                note(inventory, broken(began, "parts are missing in front of the end"));
            }
            return Ok(Some(true));
        }
        let bytes = part.bytes.unwrap_or_default();
        let found = self.content(part, bytes)?;
        match found.as_ref().map(|found| found.whole) {
            Some(Whole::Altered) => {
                note(
                    inventory,
                    broken(began, "the bytes of a part are not those that were written"),
                );
            }
            Some(Whole::Cut) => note(inventory, broken(self.at, "the file ends within a part")),
            Some(Whole::Yes) | None => {}
        }
        let cut = found.as_ref().is_some_and(|found| found.whole == Whole::Cut);
        inventory.parts.extend(found);
        if cut { Ok(None) } else { Ok(Some(false)) }
    }

    /// Two files in one would be taken for the first of them.
    fn nothing_more(&mut self, inventory: &mut Inventory) -> Result<(), BundleError> {
        if !self.inner.fill_buf()?.is_empty() {
            let reason = "something follows the last part; it is not read".to_owned();
            note(inventory, Broken { offset: self.at, reason });
        }
        Ok(())
    }

    /// The bytes of a part, and the line end behind them; nothing of a part that this version does not know.
    fn content(&mut self, part: Part, bytes: u64) -> Result<Option<Found>, BundleError> {
        let (at, mut left, mut hasher) = (self.at, bytes, Sha256::new());
        while left > 0 {
            let block = self.inner.fill_buf()?;
            let take = block.len().min(usize::try_from(left).unwrap_or(usize::MAX));
            if take == 0 {
                break;
            }
            hasher.update(&block[..take]);
            self.inner.consume(take);
            (self.at, left) = (self.at + take as u64, left - take as u64);
        }
        let mut end = [b'\n'];
        let ended = left == 0 && self.inner.read(&mut end)? == 1;
        self.at += u64::from(ended);
        let hash = hex(hasher);
        let (Some(session), Some(sha256)) = (part.session, part.sha256) else { return Ok(None) };
        let whole = match () {
            () if !ended && (left > 0 || hash != sha256) => Whole::Cut,
            () if hash != sha256 || end != *b"\n" => Whole::Altered,
            () => Whole::Yes,
        };
        let known = matches!(part.part, PartKind::Log | PartKind::Blob);
        let found = Found { kind: part.part, session, at, len: bytes - left, sha256, whole };
        Ok(known.then_some(found))
    }
}

/// Of all damage the first counts.
fn note(inventory: &mut Inventory, broken: Broken) {
    inventory.broken.get_or_insert(broken);
}
