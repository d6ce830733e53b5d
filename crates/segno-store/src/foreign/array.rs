//! Sessions that are one JSON value: an array of messages, or an object with such arrays in it.
//!
//! Responsible for: handing over the elements one by one, with their places, in memory bounded by the
//! largest; an array that was cut gives all elements before the cut. Must not: know what an element
//! means.

use super::emitter::Emitter;
use super::input::{self, ForeignError};
use super::item::Origin;
use super::lines::{CHUNK, LONGEST, TRIES, readable, unknown_shape};
use segno_model::finding::Severity;
use serde::de::IgnoredAny;
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};

/// A JSON value on its way from a stream to a reader, piece by piece.
pub(crate) struct Pieces<R> {
    input: R,
    path: PathBuf,
    /// Members of the outer object whose arrays are handed over element by element.
    split: &'static [&'static str],
    chunk: Vec<u8>,
    start: usize,
    end: usize,
    /// The file's offset of `chunk[start]`.
    offset: u64,
    line: u64,
    ended: bool,
}

/// One element of an array, or one member of the outer object.
pub(crate) struct Piece<'a> {
    /// The member that it is, or of whose array it is an element; none in an outer array.
    pub(crate) key: Option<&'a str>,
    /// Its place in the array, counted from 0; none for a member.
    pub(crate) index: Option<u64>,
    /// Its text. Whether it is JSON is known when it has been parsed.
    pub(crate) json: &'a str,
    /// As it stands there.
    pub(crate) raw: &'a [u8],
    /// Where it begins.
    pub(crate) origin: Origin,
}

/// Takes a piece and says whether it could parse it.
type Take<'t> = dyn FnMut(&Piece<'_>, &mut Emitter<'_>) -> Result<bool, ForeignError> + 't;

/// How a container was left.
#[derive(PartialEq, Eq)]
enum End {
    /// At its bracket.
    Closed,
    /// At the end of the file, which was told.
    Cut,
    /// Nobody wants more.
    Stopped,
}

/// How much of a value there was.
enum Value {
    Whole,
    Cut,
    /// Longer than is taken: how long.
    Oversize(u64),
}

impl Pieces<Box<dyn Read>> {
    /// The value in a file. Arrays that are members named in `split` come element by element.
    pub(crate) fn open(path: &Path, split: &'static [&'static str]) -> Result<Self, ForeignError> {
        let file = input::open(path).map_err(|e| ForeignError::io(path, e))?;
        Ok(Self::new(Box::new(file), path, split))
    }
}

impl<R: Read> Pieces<R> {
    /// The value in a stream; `path` is for errors.
    pub(super) fn new(input: R, path: &Path, split: &'static [&'static str]) -> Self {
        let (path, chunk) = (path.to_owned(), vec![0; CHUNK]);
        Self { input, path, split, chunk, start: 0, end: 0, offset: 0, line: 1, ended: false }
    }

    /// How many bytes were read.
    pub(super) fn bytes(&self) -> u64 {
        self.offset + (self.end - self.start) as u64
    }

    /// Hands every piece to `take`, in order. A piece that it could not parse is told; it is kept as
    /// `custom` under the name `kind` if it is JSON.
    pub(crate) fn each(
        &mut self,
        kind: &str,
        out: &mut Emitter<'_>,
        mut take: impl FnMut(&Piece<'_>, &mut Emitter<'_>) -> Result<bool, ForeignError>,
    ) -> Result<(), ForeignError> {
        self.skip(is_blank)?;
        let end = match self.peek()? {
            Some(b'[') => self.elements(None, kind, out, &mut take)?,
            Some(b'{') => self.members(kind, out, &mut take)?,
            _ => return Ok(()),
        };
        if end == End::Closed { self.behind(out) } else { Ok(()) }
    }

    fn elements(
        &mut self,
        key: Option<&str>,
        kind: &str,
        out: &mut Emitter<'_>,
        take: &mut Take<'_>,
    ) -> Result<End, ForeignError> {
        self.advance(1);
        let (mut text, mut index) = (Vec::new(), 0);
        while !out.is_stopped() {
            self.skip(is_separator)?;
            match self.peek()? {
                None => return Ok(cut(index, 0, &self.origin(), out)),
                Some(b']') => {
                    self.advance(1);
                    return Ok(End::Closed);
                }
                Some(b'}' | b':') => self.stray(out),
                Some(_) => {
                    let origin = self.origin();
                    match self.value(&mut text)? {
                        Value::Whole => {
                            let place = (key, Some(index));
                            hand_over(&text, place, origin, kind, out, take)?;
                        }
                        Value::Cut => match next_element(&text) {
                            Some(next) => {
                                torn_element(&origin, out);
                                self.go_back(&text[next..]);
                            }
                            None => return Ok(cut(index, text.len(), &origin, out)),
                        },
                        Value::Oversize(bytes) => oversize(bytes, &origin, out),
                    }
                    index += 1;
                }
            }
        }
        Ok(End::Stopped)
    }

    fn members(
        &mut self,
        kind: &str,
        out: &mut Emitter<'_>,
        take: &mut Take<'_>,
    ) -> Result<End, ForeignError> {
        self.advance(1);
        let (mut text, mut members) = (Vec::new(), 0);
        while !out.is_stopped() {
            self.skip(is_separator)?;
            match self.peek()? {
                None => return Ok(cut(members, 0, &self.origin(), out)),
                Some(b'}') => {
                    self.advance(1);
                    return Ok(End::Closed);
                }
                Some(b']' | b':') => self.stray(out),
                Some(_) => match self.member(&mut text, members, kind, out, take)? {
                    End::Closed => members += 1,
                    end => return Ok(end),
                },
            }
        }
        Ok(End::Stopped)
    }

    /// One key with its value.
    fn member(
        &mut self,
        text: &mut Vec<u8>,
        members: u64,
        kind: &str,
        out: &mut Emitter<'_>,
        take: &mut Take<'_>,
    ) -> Result<End, ForeignError> {
        let origin = self.origin();
        if matches!(self.value(text)?, Value::Cut) {
            return Ok(cut(members, text.len(), &origin, out));
        }
        let key: String = serde_json::from_slice(text).unwrap_or_default();
        self.skip(|b| is_blank(b) || b == b':')?;
        let origin = self.origin();
        match self.peek()? {
            None => return Ok(cut(members, text.len(), &origin, out)),
            Some(b'[') if self.split.contains(&key.as_str()) => {
                return self.elements(Some(&key), kind, out, take);
            }
            Some(b',' | b'}') => {
                torn_element(&origin, out);
                return Ok(End::Closed);
            }
            Some(b']') => {
                self.stray(out);
                return Ok(End::Closed);
            }
            Some(_) => {}
        }
        match self.value(text)? {
            Value::Whole => hand_over(text, (Some(&key), None), origin, kind, out, take)?,
            Value::Cut => return Ok(cut(members, text.len(), &origin, out)),
            Value::Oversize(bytes) => oversize(bytes, &origin, out),
        }
        Ok(End::Closed)
    }

    /// Copies the value that begins here. Brackets are counted and not matched: what does not fit together
    /// is no JSON, which is found out when it is parsed.
    fn value(&mut self, into: &mut Vec<u8>) -> Result<Value, ForeignError> {
        into.clear();
        let (mut depth, mut in_string, mut skipped) = (0_usize, false, 0_u64);
        while let Some(byte) = self.peek()? {
            let rest = &self.chunk[self.start..self.end];
            let plain = plain_run(rest, in_string, depth);
            if plain > 0 {
                into.extend_from_slice(&rest[..plain]);
                self.advance(plain);
                if into.len() > LONGEST {
                    skipped += into.len() as u64;
                    into.clear();
                }
                continue;
            }
            match byte {
                b'\\' if in_string => {
                    into.push(byte);
                    self.advance(1);
                    if self.peek()?.is_none() {
                        break;
                    }
                }
                b'"' => in_string = !in_string,
                b'{' | b'[' => depth += 1,
                b'}' | b']' if depth > 0 => depth -= 1,
                _ => return Ok(whole(skipped, into)),
            }
            into.push(self.chunk[self.start]);
            self.advance(1);
            if depth == 0 && !in_string && matches!(byte, b'"' | b'}' | b']') {
                return Ok(whole(skipped, into));
            }
        }
        Ok(Value::Cut)
    }

    /// Tells what stands behind the value, if anything does.
    fn behind(&mut self, out: &mut Emitter<'_>) -> Result<(), ForeignError> {
        self.skip(is_blank)?;
        let (origin, mut bytes) = (self.origin(), 0);
        while self.peek()?.is_some() {
            bytes += (self.end - self.start) as u64;
            self.advance(self.end - self.start);
        }
        if bytes > 0 {
            let stand = if bytes == 1 { "byte stands" } else { "bytes stand" };
            let sentence = format!("{bytes} {stand} behind the end of the JSON value.");
            let done = "They were left out; the value was read.";
            out.found("trailing-bytes", Severity::Warning, &origin, &sentence, done);
        }
        Ok(())
    }

    fn stray(&mut self, out: &mut Emitter<'_>) {
        let sentence = "A bracket or colon stands here that belongs to nothing.";
        let done = "It was passed over.";
        out.found("stray-bracket", Severity::Warning, &self.origin(), sentence, done);
        self.advance(1);
    }

    fn origin(&self) -> Origin {
        Origin { line: Some(self.line), offset: Some(self.offset), id: None }
    }

    /// Passes over bytes of a kind.
    fn skip(&mut self, of_kind: impl Fn(u8) -> bool) -> Result<(), ForeignError> {
        while self.peek()?.is_some_and(&of_kind) {
            self.advance(1);
        }
        Ok(())
    }

    /// Reads again what was read last, up to the end of the file.
    fn go_back(&mut self, bytes: &[u8]) {
        self.offset -= bytes.len() as u64;
        self.line -= memchr::memchr_iter(b'\n', bytes).count() as u64;
        bytes.clone_into(&mut self.chunk);
        (self.start, self.end) = (0, self.chunk.len());
    }

    fn advance(&mut self, by: usize) {
        let passed = &self.chunk[self.start..self.start + by];
        self.line += memchr::memchr_iter(b'\n', passed).count() as u64;
        self.start += by;
        self.offset += by as u64;
    }

    fn peek(&mut self) -> Result<Option<u8>, ForeignError> {
        while self.start == self.end && !self.ended {
            match self.input.read(&mut self.chunk) {
                Ok(read) => (self.start, self.end, self.ended) = (0, read, read == 0),
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) => return Err(ForeignError::io(&self.path, e)),
            }
        }
        Ok((self.start < self.end).then(|| self.chunk[self.start]))
    }
}

/// How many bytes there are before the next one that matters.
fn plain_run(rest: &[u8], in_string: bool, depth: usize) -> usize {
    let matters = |b: u8| matches!(b, b'"' | b'{' | b'}' | b'[' | b']');
    let found = match (in_string, depth) {
        (true, _) => memchr::memchr2(b'"', b'\\', rest),
        (false, 0) => rest.iter().position(|&b| matters(b) || is_separator(b)),
        (false, _) => rest.iter().position(|&b| matters(b)),
    };
    found.unwrap_or(rest.len())
}

fn whole(skipped: u64, value: &[u8]) -> Value {
    if skipped > 0 { Value::Oversize(skipped + value.len() as u64) } else { Value::Whole }
}

/// White space, and what crashes, byte order marks and record separators leave.
fn is_blank(byte: u8) -> bool {
    byte.is_ascii_whitespace() || matches!(byte, 0 | 0x1E | 0xEF | 0xBB | 0xBF)
}

fn is_separator(byte: u8) -> bool {
    byte.is_ascii_whitespace() || matches!(byte, b',' | 0)
}

fn hand_over(
    bytes: &[u8],
    (key, index): (Option<&str>, Option<u64>),
    origin: Origin,
    kind: &str,
    out: &mut Emitter<'_>,
    take: &mut Take<'_>,
) -> Result<(), ForeignError> {
    let Some(json) = readable(bytes, &origin, out) else { return Ok(()) };
    let piece = Piece { key, index, json: &json, raw: bytes, origin };
    if take(&piece, out)? {
        return Ok(());
    }
    if serde_json::from_str::<IgnoredAny>(piece.json).is_ok() {
        unknown_shape(kind, piece.json, &piece.origin, out);
    } else {
        torn_element(&piece.origin, out);
    }
    Ok(())
}

/// Tells that the file ended after `whole` pieces and `bytes` bytes of a further one.
fn cut(whole: u64, bytes: usize, at: &Origin, out: &mut Emitter<'_>) -> End {
    if bytes == 0 {
        let sentence = format!("The JSON value has no end; {whole} whole pieces stand in it.");
        let done = "They were read; whether more followed is unknown.";
        out.found("torn-array", Severity::Warning, at, &sentence, done);
    } else {
        let sentence = format!("The JSON value is cut inside its piece {}.", whole + 1);
        let done = format!("The {whole} whole pieces were read; {bytes} bytes were left out.");
        out.found("torn-array", Severity::Damage, at, &sentence, &done);
    }
    End::Cut
}

/// Where, in an element that seems to go on to the end of the file, the next one begins: an object behind
/// a comma, whole, with the same first key. A quotation mark that is lost makes an element look as if it
/// took in all that follow.
fn next_element(element: &[u8]) -> Option<usize> {
    let key = first_key(element)?;
    let starts = memchr::memchr_iter(b'{', element).filter(|&at| {
        element[..at].trim_ascii_end().ends_with(b",") && first_key(&element[at..]) == Some(key)
    });
    starts.take(TRIES).find(|&at| {
        let rest = serde_json::Deserializer::from_slice(&element[at..]);
        matches!(rest.into_iter::<IgnoredAny>().next(), Some(Ok(_)))
    })
}

fn first_key(object: &[u8]) -> Option<&[u8]> {
    let key = object.strip_prefix(b"{")?.trim_ascii_start().strip_prefix(b"\"")?;
    Some(&key[..memchr::memchr(b'"', key)?])
}

fn torn_element(at: &Origin, out: &mut Emitter<'_>) {
    let sentence = "A piece of the JSON value is no JSON: it was cut or overwritten.";
    let done = "It was left out; what stands around it was read.";
    out.found("torn-element", Severity::Damage, at, sentence, done);
}

fn oversize(bytes: u64, at: &Origin, out: &mut Emitter<'_>) {
    let sentence = format!("The piece is {bytes} bytes long, more than this reader takes.");
    out.found("oversize-line", Severity::Damage, at, &sentence, "It was left out.");
}

#[cfg(test)]
mod tests {
    use super::Pieces;
    use crate::foreign::Item;
    use crate::foreign::emitter::Emitter;
    use std::io::Read;
    use std::ops::ControlFlow;
    use std::path::Path;

    /// Gives one byte at a time.
    struct Drip<'a>(&'a [u8]);

    impl Read for Drip<'_> {
        fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
            let n = self.0.len().min(into.len()).min(1);
            into[..n].copy_from_slice(&self.0[..n]);
            self.0 = &self.0[n..];
            Ok(n)
        }
    }

    /// The pieces as `key[index]@line+offset text`, and the findings as `code@line+offset`.
    fn pieces(input: impl Read) -> Vec<String> {
        let (mut lines, mut findings) = (Vec::new(), Vec::new());
        let mut sink = |item: Item| {
            if let Item::Finding(f) = item {
                let place = (f.line.unwrap_or(0), f.offset.unwrap_or(0));
                findings.push(format!("{}@{}+{}", f.code, place.0, place.1));
            }
            ControlFlow::Continue(())
        };
        let mut out = Emitter::new(&mut sink);
        let mut pieces = Pieces::new(input, Path::new("x"), &["messages"]);
        let each = pieces.each("x", &mut out, |piece, _| {
            let value = serde_json::from_str::<serde_json::Value>(piece.json);
            if value.is_err() {
                return Ok(false);
            }
            let index = piece.index.map(|i| format!("[{i}]")).unwrap_or_default();
            let (line, offset) = (piece.origin.line.unwrap_or(0), piece.origin.offset.unwrap_or(0));
            let key = piece.key.unwrap_or_default();
            lines.push(format!("{key}{index}@{line}+{offset} {}", piece.json));
            Ok(true)
        });
        each.expect("memory can be read");
        lines.extend(findings);
        lines
    }

    /// Covers: #12.
    #[test]
    fn every_whole_element_is_handed_over_and_everything_else_is_told() {
        let rows: &[(&str, &[&str])] = &[
            ("", &[]),
            ("[]", &[]),
            ("{}", &[]),
            ("nothing", &[]),
            (
                "[1, \"a]\\\"b\", {\"c\":[2]}]",
                &["[0]@1+1 1", "[1]@1+4 \"a]\\\"b\"", "[2]@1+13 {\"c\":[2]}"],
            ),
            ("[\n {\"a\":1},\n {\"b\":2}\n]\n", &["[0]@2+3 {\"a\":1}", "[1]@3+13 {\"b\":2}"]),
            ("[{\"a\":1}]]", &["[0]@1+1 {\"a\":1}", "trailing-bytes@1+9"]),
            ("[{\"a\":1}", &["[0]@1+1 {\"a\":1}", "torn-array@1+8"]),
            ("[{\"a\":1},{\"b\":\"]", &["[0]@1+1 {\"a\":1}", "torn-array@1+9"]),
            ("[{\"a\":1},{\"b\":\"\\", &["[0]@1+1 {\"a\":1}", "torn-array@1+9"]),
            ("[}{\"a\":1}]", &["[0]@1+2 {\"a\":1}", "stray-bracket@1+1"]),
            ("[{\"a\" 1},{\"b\":2}]", &["[1]@1+9 {\"b\":2}", "torn-element@1+1"]),
            (
                "{\"id\":\"x\",\"messages\":[{\"a\":1},{\"b\":2}],\"n\":3}",
                &[
                    "id@1+6 \"x\"",
                    "messages[0]@1+22 {\"a\":1}",
                    "messages[1]@1+30 {\"b\":2}",
                    "n@1+43 3",
                ],
            ),
            ("{\"messages\":[{\"a\":1},{", &["messages[0]@1+13 {\"a\":1}", "torn-array@1+21"]),
            ("{\"id\":\"x\",\"mess", &["id@1+6 \"x\"", "torn-array@1+10"]),
            ("{\"id\"}", &["torn-element@1+5"]),
            ("\u{feff}[7]", &["[0]@1+4 7"]),
        ];
        for (input, expected) in rows {
            assert_eq!(pieces(input.as_bytes()), *expected, "{input}");
            assert_eq!(pieces(Drip(input.as_bytes())), *expected, "{input}, byte by byte");
        }
    }

    /// Covers: #12, G4.
    #[test]
    fn every_prefix_gives_the_elements_that_are_whole_in_it() {
        let elements = ["{\"t\":\"M0 ] [ , \\\" {\"}", "{\"t\":[\"M1\",{}]}", "{\"t\":\"M2 }\"}"];
        let input = format!("[{}]", elements.join(","));
        let ends = elements.map(|e| input.find(e).expect("it is in it") + e.len());
        for cut in 0..input.len() {
            let read = pieces(&input.as_bytes()[..cut]);
            let got: Vec<&String> = read.iter().filter(|line| line.starts_with('[')).collect();
            assert_eq!(
                got.len(),
                ends.iter().filter(|&&end| end <= cut).count(),
                "{cut}: {read:?}"
            );
            assert!(got.iter().zip(elements).all(|(line, element)| line.ends_with(element)));
        }
    }
}
