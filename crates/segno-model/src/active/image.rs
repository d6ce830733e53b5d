//! The parts of a log that have been read, as lines.
//!
//! Responsible for: joining byte ranges, read in any order, into whole lines, and saying which range to
//! read next to make a part longer. Must not: judge lines.

use crate::judge::Line;
use std::collections::VecDeque;

/// How much is read at least when a part grows towards the beginning of the log.
const BACK: u64 = 64 * 1024;
/// How much is read at least when a single line is looked up or a part grows towards the end.
const FORWARD: u64 = 4 * 1024;

/// A byte range of the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Range {
    pub(super) at: u64,
    pub(super) len: u64,
}

/// A contiguous stretch of a log.
#[derive(Debug, Default)]
pub(super) struct Part {
    pub(super) start: u64,
    pub(super) end: u64,
    /// The end of a line whose beginning has not been read, with its line end if that was read.
    head: Vec<u8>,
    /// The beginning of a line whose end has not been read.
    rest: Vec<u8>,
    pub(super) lines: VecDeque<Line>,
    /// Whether it grew since it was judged.
    pub(super) grown: bool,
}

/// All parts, in order, disjoint and never adjacent.
#[derive(Debug, Default)]
pub(super) struct Image {
    pub(super) file_end: u64,
    /// Where line 1 ends.
    pub(super) origin: u64,
    pub(super) parts: Vec<Part>,
}

impl Image {
    pub(super) fn new(file_end: u64) -> Self {
        Self { file_end, ..Self::default() }
    }

    /// The index of the part that holds this byte.
    pub(super) fn part_at(&self, at: u64) -> Option<usize> {
        let i = self.parts.partition_point(|p| p.end <= at);
        self.parts.get(i).filter(|p| p.start <= at).map(|_| i)
    }

    /// What to read to make a part begin earlier; none when it begins with the log.
    pub(super) fn before(&self, part: usize) -> Option<Range> {
        let Part { start, end, .. } = self.parts.get(part)?;
        let floor = part.checked_sub(1).map_or(0, |i| self.parts[i].end);
        let len = BACK.max((end - start) / 2).min(start - floor);
        (len > 0).then(|| Range { at: start - len, len })
    }

    /// What to read to make a part end later; none when it ends with the log.
    pub(super) fn after(&self, part: usize) -> Option<Range> {
        let Part { start, end, .. } = self.parts.get(part)?;
        let ceiling = self.parts.get(part + 1).map_or(self.file_end, |next| next.start);
        let len = FORWARD.max((end - start) / 2).min(ceiling - end);
        (len > 0).then_some(Range { at: *end, len })
    }

    /// What to read to see the line at `at`, of which `have` bytes are known already.
    pub(super) fn line_at(&self, at: u64, have: u64) -> Option<Range> {
        let i = self.parts.partition_point(|p| p.end <= at);
        let ceiling = self.parts.get(i).map_or(self.file_end, |next| next.start);
        let from = at + have;
        let len = FORWARD.max(have).min(ceiling.saturating_sub(from));
        (len > 0).then_some(Range { at: from, len })
    }

    /// Takes the beginning of the log, with at least the whole of line 1.
    pub(super) fn put_first(&mut self, bytes: &[u8]) {
        let len = memchr::memchr(b'\n', bytes);
        let (line, origin) = Line::read_first(&bytes[..len.unwrap_or(bytes.len())], len.is_some());
        self.origin = origin;
        let end = line.end();
        let lines = VecDeque::from([line]);
        self.parts.insert(0, Part { end, lines, grown: true, ..Part::default() });
        self.put_after(0, &bytes[usize::try_from(end).unwrap_or(bytes.len())..]);
    }

    /// Begins a part at the end of the log; there may be nothing in it yet.
    pub(super) fn put_end(&mut self) {
        if self.parts.last().is_none_or(|p| p.end < self.file_end) {
            let (start, end) = (self.file_end, self.file_end);
            self.parts.push(Part { start, end, grown: true, ..Part::default() });
        }
    }

    /// Begins a part with bytes that start at a line's beginning.
    pub(super) fn put_at(&mut self, at: u64, bytes: &[u8]) {
        let i = self.parts.partition_point(|p| p.end <= at);
        self.parts.insert(i, Part { start: at, end: at, ..Part::default() });
        self.put_after(i, bytes);
        if i > 0 {
            self.join(i - 1);
        }
    }

    /// Takes the bytes right behind a part.
    pub(super) fn put_after(&mut self, i: usize, bytes: &[u8]) {
        let (file_end, origin) = (self.file_end, self.origin);
        let part = &mut self.parts[i];
        let at = part.end - part.rest.len() as u64;
        part.rest.extend_from_slice(bytes);
        part.end += bytes.len() as u64;
        part.grown = true;
        let open = std::mem::take(&mut part.rest);
        let used = read_lines(at, &open, origin, &mut part.lines);
        part.rest = open[used..].to_vec();
        part.close(file_end, origin);
        self.join(i);
    }

    /// Takes the bytes right before a part.
    pub(super) fn put_before(&mut self, i: usize, bytes: &[u8]) {
        let (file_end, origin) = (self.file_end, self.origin);
        let part = &mut self.parts[i];
        part.start -= bytes.len() as u64;
        part.grown = true;
        let mut joined = bytes.to_vec();
        joined.append(&mut part.head);
        let cut = match memchr::memchr(b'\n', &joined) {
            _ if part.start == 0 => 0,
            Some(first) => first + 1,
            None => joined.len(),
        };
        let mut lines = VecDeque::new();
        let used = cut + read_lines(part.start + cut as u64, &joined[cut..], origin, &mut lines);
        let begins = part.lines.is_empty() && part.rest.is_empty();
        if begins {
            part.rest = joined[used..].to_vec();
        } else if used < joined.len() {
            // The part began in the middle of a line, behind the stub that these bytes are.
            lines.push_back(Line::read(part.start + used as u64, &joined[used..], true, origin));
        }
        joined.truncate(cut);
        part.head = joined;
        lines.append(&mut part.lines);
        part.lines = lines;
        part.close(file_end, origin);
        if i > 0 {
            self.join(i - 1);
        }
    }

    /// Makes one part of two that meet.
    fn join(&mut self, i: usize) {
        let meets = self.parts.get(i + 1).is_some_and(|next| next.start == self.parts[i].end);
        if !meets {
            return;
        }
        let next = self.parts.remove(i + 1);
        let (file_end, origin) = (self.file_end, self.origin);
        let part = &mut self.parts[i];
        let at = part.end - part.rest.len() as u64;
        let mut joined = std::mem::take(&mut part.rest);
        joined.extend_from_slice(&next.head);
        let used = read_lines(at, &joined, origin, &mut part.lines);
        let open = joined.split_off(used);
        if next.lines.is_empty() && next.rest.is_empty() {
            part.rest = open;
        } else if !open.is_empty() {
            part.lines.push_back(Line::read(at + used as u64, &open, true, origin));
        }
        part.lines.extend(next.lines);
        part.rest.extend_from_slice(&next.rest);
        part.end = next.end;
        part.grown = true;
        part.close(file_end, origin);
    }
}

impl Part {
    /// At the end of the log, what has no line end is a line all the same.
    fn close(&mut self, file_end: u64, origin: u64) {
        if self.end == file_end && !self.rest.is_empty() {
            let at = self.end - self.rest.len() as u64;
            let rest = std::mem::take(&mut self.rest);
            self.lines.push_back(Line::read(at, &rest, false, origin));
        }
    }
}

/// Reads the lines of `bytes` that have an end; says how many bytes they are.
fn read_lines(at: u64, bytes: &[u8], origin: u64, lines: &mut VecDeque<Line>) -> usize {
    let mut used = 0;
    while let Some(len) = memchr::memchr(b'\n', &bytes[used..]) {
        lines.push_back(Line::read(at + used as u64, &bytes[used..used + len], true, origin));
        used += len + 1;
    }
    used
}
