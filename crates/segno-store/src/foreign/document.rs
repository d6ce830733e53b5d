//! A JSON document with one long list in it, as agents write that keep a session in one file.
//!
//! Responsible for: handing over the members and the list's elements one after the other, in memory bounded
//! by the largest of them, and everything that is whole in a document that was cut or overwritten. Must not:
//! know what an element means.

use super::emitter::Emitter;
use super::input::{self, ForeignError};
use super::item::Origin;
use super::lines::readable;
use segno_model::finding::Severity;
use std::borrow::Cow;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// How much is read at once.
const CHUNK: usize = 256 << 10;

/// A larger piece ends the reading.
const LARGEST: usize = 256 << 20;

/// How many places in a broken element are tried as the beginning of the next one.
const TRIES: usize = 64;

/// A document that is being read. One that is no object but a list is that list.
pub(super) struct Document {
    input: Box<dyn Read>,
    path: PathBuf,
    /// What is the list's key.
    list: &'static str,
    buffer: Vec<u8>,
    start: usize,
    /// The file's offset of `buffer[start]`.
    offset: u64,
    ended: bool,
    within: Within,
    piece: Vec<u8>,
}

/// Where in the document the reader stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Within {
    Nothing,
    Object,
    /// In the list; whether that is in an object.
    List(bool),
    End,
}

/// One piece of a document.
pub(super) struct Piece<'a> {
    /// The key, of a member of the outer object; none for an element of the list.
    pub(super) key: Option<String>,
    /// Its text. Whether it is JSON is known when it has been parsed.
    pub(super) json: Cow<'a, str>,
    /// Where it begins.
    pub(super) origin: Origin,
}

impl Document {
    /// Opens a file whose list is the member `list`.
    pub(super) fn open(path: &Path, list: &'static str) -> Result<Self, ForeignError> {
        let file = input::open(path).map_err(|e| ForeignError::io(path, e))?;
        Ok(Self::new(Box::new(file), path, list))
    }

    fn new(input: Box<dyn Read>, path: &Path, list: &'static str) -> Self {
        Self {
            input,
            path: path.to_owned(),
            list,
            buffer: Vec::new(),
            start: 0,
            offset: 0,
            ended: false,
            within: Within::Nothing,
            piece: Vec::new(),
        }
    }

    /// How many bytes were read.
    pub(super) fn bytes(&self) -> u64 {
        self.offset + (self.buffer.len() - self.start) as u64
    }

    /// The next piece.
    pub(super) fn next(
        &mut self,
        out: &mut Emitter<'_>,
    ) -> Result<Option<Piece<'_>>, ForeignError> {
        let found = self.find(out).map_err(|e| ForeignError::io(&self.path, e))?;
        Ok(found.map(|(key, at)| {
            let origin = Origin { line: None, offset: Some(at), id: None };
            let json = readable(&self.piece, &origin, out).unwrap_or_default();
            Piece { key, json, origin }
        }))
    }

    /// Leaves the next piece in `piece`, and says its key and where it began.
    fn find(&mut self, out: &mut Emitter<'_>) -> io::Result<Option<(Option<String>, u64)>> {
        loop {
            let byte = self.peek(b",")?;
            match (self.within, byte) {
                (Within::End, _) => return Ok(None),
                (_, None) => {
                    if self.bytes() > 0 {
                        self.torn(out);
                    }
                    self.within = Within::End;
                }
                (Within::Nothing, Some(b'{')) | (Within::List(true), Some(b']')) => {
                    self.enter(Within::Object);
                }
                (Within::Nothing, Some(b'[')) => self.enter(Within::List(false)),
                (Within::Object, Some(b'}')) | (Within::List(false), Some(b']')) => {
                    self.enter(Within::End);
                }
                (Within::Object, Some(b'"')) => {
                    if let Some(found) = self.member()? {
                        return Ok(Some(found));
                    }
                }
                // No JSON goes on like this.
                (Within::List(_), Some(b'}')) | (Within::Nothing | Within::Object, Some(_)) => {
                    self.skip(1);
                }
                (Within::List(_), Some(_)) => {
                    let at = self.offset;
                    if self.value()? {
                        return Ok(Some((None, at)));
                    }
                    self.broken(at, out);
                }
            }
        }
    }

    fn enter(&mut self, within: Within) {
        self.skip(1);
        self.within = within;
    }

    /// A key and its value; none when the value is the list, which is entered, or the document ends.
    fn member(&mut self) -> io::Result<Option<(Option<String>, u64)>> {
        if !self.value()? {
            return Ok(None);
        }
        let Ok(key) = serde_json::from_slice::<String>(&self.piece) else { return Ok(None) };
        match self.peek(b":")? {
            Some(b'[') if key == self.list => {
                self.enter(Within::List(true));
                Ok(None)
            }
            _ => {
                let at = self.offset;
                Ok(self.value()?.then_some((Some(key), at)))
            }
        }
    }

    /// Moves the next value into `piece`; false when the document ends before it does.
    fn value(&mut self) -> io::Result<bool> {
        self.piece.clear();
        let (mut depth, mut string) = (0_u64, false);
        loop {
            let mut at = self.start;
            while let Some(&byte) = self.buffer.get(at) {
                at += 1;
                match byte {
                    b'"' if string => string = false,
                    b'\\' if string => at += 1,
                    _ if string => {
                        let plain = memchr::memchr2(b'"', b'\\', &self.buffer[at..]);
                        at = plain.map_or(self.buffer.len(), |next| at + next);
                    }
                    b'"' => string = true,
                    b'{' | b'[' => depth += 1,
                    b'}' | b']' | b',' if depth == 0 => {
                        self.take(at - 1);
                        return Ok(true);
                    }
                    b'}' | b']' => depth -= 1,
                    _ => {}
                }
                if depth == 0 && !string && matches!(byte, b'}' | b']' | b'"') {
                    self.take(at);
                    return Ok(true);
                }
            }
            // An escape's second byte may lie in the next chunk.
            let over = at - self.buffer.len();
            self.take(self.buffer.len());
            if self.piece.len() > LARGEST || !self.fill()? {
                return Ok(false);
            }
            let over = over.min(self.buffer.len());
            self.take(self.start + over);
        }
    }

    fn take(&mut self, until: usize) {
        self.piece.extend_from_slice(&self.buffer[self.start..until]);
        self.skip(until - self.start);
    }

    fn skip(&mut self, bytes: usize) {
        self.start += bytes;
        self.offset += bytes as u64;
    }

    /// The next byte that is no white space, no NUL, no byte order mark and none of `also`.
    fn peek(&mut self, also: &[u8]) -> io::Result<Option<u8>> {
        loop {
            while let Some(&byte) = self.buffer.get(self.start) {
                let blank = byte.is_ascii_whitespace() || matches!(byte, 0 | 0xEF | 0xBB | 0xBF);
                if !blank && !also.contains(&byte) {
                    return Ok(Some(byte));
                }
                self.skip(1);
            }
            if !self.fill()? {
                return Ok(None);
            }
        }
    }

    fn fill(&mut self) -> io::Result<bool> {
        if self.ended {
            return Ok(false);
        }
        self.buffer.resize(CHUNK, 0);
        self.start = 0;
        let read = loop {
            match self.input.read(&mut self.buffer) {
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                read => break read?,
            }
        };
        self.buffer.truncate(read);
        self.ended = read == 0;
        Ok(!self.ended)
    }

    /// An element that began at `at` had no end. What follows it may be whole: a quotation mark or a bracket
    /// that is missing makes an element look as if it took in all the others.
    fn broken(&mut self, at: u64, out: &mut Emitter<'_>) {
        let piece = std::mem::take(&mut self.piece);
        let next = next_element(&piece);
        let origin = Origin { line: None, offset: Some(at), id: None };
        if let Some(next) = next {
            let sentence = "An element of the document is cut or overwritten.";
            let done = "It was left out; what stands around it was read.";
            out.found("torn-line", Severity::Damage, &origin, sentence, done);
            self.offset = at + next as u64;
            self.buffer = piece;
            self.start = next;
        } else {
            let sentence = "The document ends in the middle of an element.";
            let done = "That element was left out; the whole ones before it were read.";
            out.found("torn-tail", Severity::Damage, &origin, sentence, done);
            self.within = Within::End;
        }
    }

    fn torn(&self, out: &mut Emitter<'_>) {
        let origin = Origin { line: None, offset: Some(self.offset), id: None };
        let sentence = "The document ends before its last bracket.";
        let done = "The elements that are whole were read.";
        out.found("torn-tail", Severity::Damage, &origin, sentence, done);
    }
}

/// Where, in an element without an end, the next one begins that has one: an object behind a comma, with
/// the same first key.
fn next_element(piece: &[u8]) -> Option<usize> {
    let key = first_key(piece)?;
    let starts = memchr::memchr_iter(b'{', piece).filter(|&at| {
        piece[..at].trim_ascii_end().ends_with(b",") && first_key(&piece[at..]) == Some(key)
    });
    starts.take(TRIES).find(|&at| {
        let mut values =
            serde_json::Deserializer::from_slice(&piece[at..]).into_iter::<serde::de::IgnoredAny>();
        matches!(values.next(), Some(Ok(_)))
    })
}

fn first_key(object: &[u8]) -> Option<&[u8]> {
    let key = object.strip_prefix(b"{")?.trim_ascii_start().strip_prefix(b"\"")?;
    Some(&key[..memchr::memchr(b'"', key)?])
}
