//! Carrying a plan out: the repaired bytes, and what is kept beside them.
//!
//! Responsible for: copying every line that needs no change as its bytes. Holds one line. Must not: decide
//! anything, or know where the result goes.

use super::codex;
use super::draft::{At, Edit, Fate};
use super::error::RescueError;
use super::json::spliced;
use super::salvage::salvage;
use super::{Plan, Source};
use crate::foreign::lines::Line;
use std::io::{self, BufRead as _, BufReader, Read as _, Write};
use std::sync::Arc;

/// What is changed in every line besides.
#[derive(Debug, Clone, Default)]
pub struct Rename {
    /// The id that the session has.
    pub from: String,
    /// The id that the copy gets.
    pub to: String,
}

/// Where the result goes.
pub(super) struct Output<'o> {
    pub(super) result: &'o mut dyn Write,
    pub(super) aside: &'o mut dyn Write,
    pub(super) rename: Option<&'o Rename>,
    /// Numbering of lines: from which line on, and the last number given.
    numbers: Option<u64>,
    /// Whether that line was come to.
    anew: bool,
    last: Option<u64>,
    /// Lines of the file that got another number.
    numbered: Vec<u64>,
}

impl<'o> Output<'o> {
    pub(super) fn new(
        plan: &Plan,
        result: &'o mut dyn Write,
        aside: &'o mut dyn Write,
        rename: Option<&'o Rename>,
    ) -> Self {
        Self {
            result,
            aside,
            rename,
            numbers: plan.renumber_from,
            anew: false,
            last: None,
            numbered: Vec::new(),
        }
    }

    /// Writes the whole result.
    pub(super) fn write(&mut self, plan: &Plan, source: &Source) -> Result<(), RescueError> {
        let (lines, _) = source.lines()?;
        let mut lines = lines.in_order(Arc::clone(&plan.order));
        let failed = |e| RescueError::write(e);
        while let Some(line) = lines.next_raw()? {
            if let Some(bytes) = line.oversize {
                if plan.is_packed {
                    // Places in the file are no places in what is packed in it.
                    return Err(RescueError::NoRules { path: plan.path.clone() });
                }
                let ended = u64::from(line.whole);
                self.copy(source, line.offset, bytes + ended).map_err(failed)?;
                continue;
            }
            match plan.edits.get(&line.number) {
                None => self.line(line.number, line.bytes, line.whole).map_err(failed)?,
                Some(edit) => {
                    self.edited(plan, source, &line, edit).map_err(failed)?;
                }
            }
        }
        self.result.flush().map_err(failed)?;
        self.aside.flush().map_err(failed)
    }

    /// The lines of a file that get another number when its plan is carried out.
    pub(super) fn numbered_anew(plan: &Plan, source: &Source) -> Result<Vec<u64>, RescueError> {
        let (mut result, mut aside) = (io::sink(), io::sink());
        let mut output = Output::new(plan, &mut result, &mut aside, None);
        if output.numbers.is_some() {
            output.write(plan, source)?;
        }
        Ok(std::mem::take(&mut output.numbered))
    }

    fn copy(&mut self, source: &Source, offset: u64, bytes: u64) -> io::Result<()> {
        let mut part = source.from(offset)?.take(bytes);
        io::copy(&mut part, self.result).map(drop)
    }

    fn edited(
        &mut self,
        plan: &Plan,
        source: &Source,
        line: &Line<'_>,
        edit: &Edit,
    ) -> io::Result<()> {
        let Line { number, bytes, whole: ended, .. } = *line;
        for json in edit.before.iter().filter(|_| line.is_first) {
            self.put(number, json)?;
        }
        let found = salvage(bytes, number == 1);
        let stays = edit.objects.is_empty() && edit.moved.is_empty() && found.rules.is_empty();
        if stays && found.objects.is_empty() {
            self.line(number, bytes, true)?;
        }
        for (at, object) in found.objects.iter().enumerate().filter(|(at, _)| line.has(*at)) {
            for other in edit.comes.get(&at).into_iter().flatten() {
                self.moved(plan, source, other)?;
            }
            match edit.objects.get(&at) {
                _ if edit.moved.contains(&at) => {}
                None if stays => self.line(number, bytes, true)?,
                None => self.line(number, object.as_bytes(), true)?,
                Some(Fate::Out) => {}
                Some(Fate::Spliced(splices)) => {
                    self.line(number, spliced(object, splices).as_bytes(), true)?;
                }
            }
            for json in edit.after.get(&at).into_iter().flatten() {
                self.put(number, json)?;
            }
        }
        if edit.set_aside && line.is_first {
            self.aside.write_all(bytes)?;
            self.aside.write_all(if ended { b"\n" } else { b"" })?;
        }
        Ok(())
    }

    /// An object of another line.
    fn moved(&mut self, plan: &Plan, source: &Source, at: &At) -> io::Result<()> {
        let mut bytes = Vec::new();
        BufReader::new(source.from(at.offset)?).read_until(b'\n', &mut bytes)?;
        let found = salvage(&bytes, at.line == 1);
        let Some(object) = found.objects.get(at.object) else { return Ok(()) };
        let edit = plan.edits.get(&at.line);
        match edit.and_then(|edit| edit.objects.get(&at.object)) {
            Some(Fate::Out) => Ok(()),
            Some(Fate::Spliced(splices)) => {
                self.line(at.line, spliced(object, splices).as_bytes(), true)
            }
            None => self.line(at.line, object.as_bytes(), true),
        }
    }

    /// One line that the file did not have.
    fn put(&mut self, number: u64, json: &str) -> io::Result<()> {
        let before = self.numbered.len();
        self.line(number, json.as_bytes(), true)?;
        self.numbered.truncate(before);
        Ok(())
    }

    /// One line of the result.
    fn line(&mut self, number: u64, bytes: &[u8], ended: bool) -> io::Result<()> {
        let renamed = self.rename.and_then(|rename| renamed(bytes, rename));
        let bytes = renamed.as_deref().unwrap_or(bytes);
        self.anew |= self.numbers.is_some_and(|from| number >= from);
        let numbered = self.numbers.and_then(|_| self.renumbered(bytes));
        if numbered.is_some() && self.numbered.last() != Some(&number) {
            self.numbered.push(number);
        }
        self.result.write_all(numbered.as_deref().unwrap_or(bytes))?;
        self.result.write_all(if ended { b"\n" } else { b"" })
    }

    /// The line with the number that it should have; none when it has that.
    fn renumbered(&mut self, bytes: &[u8]) -> Option<Vec<u8>> {
        let json = std::str::from_utf8(bytes).ok()?;
        let (place, number) = codex::ordinal(json)?;
        let next = match self.last {
            Some(last) if self.anew => last.saturating_add(1),
            _ => number,
        };
        self.last = Some(next);
        (next != number).then(|| spliced(json, &[(place, next.to_string())]).into_bytes())
    }
}

/// The line with another id for the session, wherever that stands as a whole text.
pub(super) fn renamed(bytes: &[u8], rename: &Rename) -> Option<Vec<u8>> {
    let from = format!("\"{}\"", rename.from);
    memchr::memmem::find(bytes, from.as_bytes())?;
    let (mut out, mut at) = (Vec::with_capacity(bytes.len()), 0);
    for found in memchr::memmem::find_iter(bytes, from.as_bytes()) {
        out.extend_from_slice(&bytes[at..found]);
        out.extend_from_slice(format!("\"{}\"", rename.to).as_bytes());
        at = found + from.len();
    }
    out.extend_from_slice(&bytes[at..]);
    Some(out)
}
