//! Lines of JSON as other programs leave them: torn, fused, full of NULs, in odd encodings.
//!
//! Responsible for: cutting a stream into lines at byte 0x0A and nowhere else, in memory bounded by the
//! longest line, and getting every whole JSON object out of a line, with a finding for everything that
//! was not. Must not: know what an object means.

use super::agent::Agent;
use super::control;
use super::emitter::Emitter;
use super::input::{self, ForeignError};
use super::item::Origin;
use super::order::{Moved, Order, Spot};
use segno_model::finding::Severity;
use segno_model::line::readable_json;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::io::Read;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Longer lines are told and left out.
pub(super) const LONGEST: usize = 256 << 20;

/// How much is read at once.
pub(super) const CHUNK: usize = 256 << 10;

/// How many places in a broken line are tried as the beginning of a whole object.
pub(super) const TRIES: usize = 64;

/// Lines of a stream.
pub(crate) struct Lines<R> {
    input: R,
    path: PathBuf,
    buffer: Vec<u8>,
    start: usize,
    end: usize,
    /// The file's offset of `buffer[start]`.
    offset: u64,
    number: u64,
    ended: bool,
    /// The order in which records are handed out, where that is not the one in which they stand.
    order: Arc<Order>,
    /// Lines of which something is still to come.
    held: BTreeMap<u64, Held>,
    /// Pieces that come next, the last of them first.
    next: Vec<(u64, Range<usize>)>,
    /// The held line of which the last piece is out.
    done: Option<u64>,
}

/// A line that does not come in one piece, or not where it stands.
struct Held {
    offset: u64,
    bytes: Vec<u8>,
    /// Objects that were not handed out so far.
    left: Vec<usize>,
    /// Whether something of it was handed out.
    is_begun: bool,
}

/// Where a line stands in the buffer.
struct Cut {
    offset: u64,
    from: usize,
    len: usize,
    whole: bool,
    oversize: Option<u64>,
}

/// What an object was taken for.
pub(super) enum Taken {
    /// A record.
    Record,
    /// None.
    Unknown,
    /// A record that names one which was not read so far: it is asked again, in its place or in the one where it
    /// stands.
    Early,
}

impl Taken {
    pub(super) fn is_record(is_record: bool) -> Self {
        if is_record { Self::Record } else { Self::Unknown }
    }
}

/// One line, without its end, or a piece of it.
pub(crate) struct Line<'a> {
    pub(crate) number: u64,
    pub(crate) offset: u64,
    pub(crate) bytes: &'a [u8],
    /// Whether it ends with 0x0A.
    pub(crate) whole: bool,
    /// How long it is, when it was too long to be kept.
    pub(crate) oversize: Option<u64>,
    /// Those of its objects that come now; none: all.
    piece: Option<Range<usize>>,
    /// Whether nothing of it came before.
    pub(crate) is_first: bool,
    /// Whether nothing of it comes later.
    is_last: bool,
}

/// How much of a line was a record, and how many bytes were none.
#[derive(Default)]
struct Tally {
    read: usize,
    lost: usize,
}

/// What takes objects.
type Take<'t> = &'t mut dyn FnMut(&Object<'_>, &mut Emitter<'_>) -> Result<Taken, ForeignError>;

/// One JSON object of a line, not yet parsed.
pub(super) struct Object<'a> {
    /// Its text. Whether it is JSON is known when it has been parsed.
    pub(super) json: &'a str,
    /// Where its line begins.
    pub(super) origin: Origin,
}

impl Lines<Box<dyn Read>> {
    /// The lines of a file.
    pub(crate) fn open(path: &Path) -> Result<Self, ForeignError> {
        let file = input::open(path).map_err(|e| ForeignError::io(path, e))?;
        Ok(Self::new(Box::new(file), path))
    }
}

impl<R: Read> Lines<R> {
    /// The lines of a stream; `path` is for errors.
    pub(crate) fn new(input: R, path: &Path) -> Self {
        let buffer = vec![0; CHUNK];
        let path = path.to_owned();
        Self {
            input,
            path,
            buffer,
            start: 0,
            end: 0,
            offset: 0,
            number: 0,
            ended: false,
            order: Arc::default(),
            held: BTreeMap::new(),
            next: Vec::new(),
            done: None,
        }
    }

    /// The same records in another order.
    pub(crate) fn in_order(self, order: Arc<Order>) -> Self {
        Self { order, ..self }
    }

    /// How many bytes were read.
    pub(super) fn bytes(&self) -> u64 {
        self.offset + (self.end - self.start) as u64
    }

    /// Hands every object of every line to `take`, in order. `take` says whether it is a record; an
    /// object that is none is whole JSON of an unknown shape, is told, and is kept as `custom` under the
    /// name `kind`. Behind a broken beginning it is a piece of what is broken, and counts as lost.
    pub(super) fn each_object(
        &mut self,
        kind: &str,
        out: &mut Emitter<'_>,
        mut take: impl FnMut(&Object<'_>, &mut Emitter<'_>) -> Result<bool, ForeignError>,
    ) -> Result<(), ForeignError> {
        while !out.is_stopped()
            && let Some(line) = self.next_raw()?
        {
            let Some(text) = line.text(out) else { continue };
            let mut take = |object: &Object<'_>, out: &mut Emitter<'_>| {
                take(object, out).map(Taken::is_record)
            };
            line.objects(&text, kind, out, &mut take, &mut Tally::default())?;
        }
        Ok(())
    }

    /// As [`Self::each_object`], in the order in which the records name each other: `take` says of one that comes
    /// early that it does, while it may. Then the file is gone through once for what stands where.
    pub(super) fn each_in_order(
        &mut self,
        agent: Agent,
        kind: &str,
        out: &mut Emitter<'_>,
        mut take: impl FnMut(&Object<'_>, &mut Emitter<'_>, bool) -> Taken,
    ) -> Result<(), ForeignError> {
        let (mut may_wait, path) = (true, self.path.clone());
        let mut order = Arc::<Order>::default();
        let mut tallies: HashMap<u64, Tally> = HashMap::new();
        while !out.is_stopped() {
            let Some(line) = self.next_raw()? else { break };
            let Some(text) = line.text(out) else { continue };
            let mut tally = tallies.remove(&line.number).unwrap_or_default();
            let mut asked =
                |object: &Object<'_>, out: &mut Emitter<'_>| Ok(take(object, out, may_wait));
            let left = line.objects(&text, kind, out, &mut asked, &mut tally)?;
            line.tell_moved(&order, out);
            let (number, offset) = (line.number, line.offset);
            if let Some(left) = left {
                may_wait = false;
                order =
                    Arc::new(Order::of(&path, agent, Spot { line: number, object: left.start })?);
                if order.is_given_up() {
                    tell_given_up(&line.origin(), out);
                }
                let (bytes, left) = (text.into_owned().into_bytes(), left.collect());
                self.order = Arc::clone(&order);
                self.hold(number, Held { offset, bytes, left, is_begun: true });
            } else if line.is_last {
                continue;
            }
            tallies.insert(number, tally);
        }
        Ok(())
    }

    /// The next line as it stands there, or what comes next of one that does not come in one piece.
    pub(crate) fn next_raw(&mut self) -> Result<Option<Line<'_>>, ForeignError> {
        if let Some(done) = self.done.take() {
            self.held.remove(&done);
        }
        loop {
            if let Some((number, piece)) = self.next.pop() {
                if self.held.contains_key(&number) {
                    return Ok(self.piece(number, piece));
                }
                continue;
            }
            let Some(Cut { offset, from, len, whole, oversize }) = self.next_cut()? else {
                // The file is another one by now.
                let left = self.held.iter().rev().flat_map(|(&number, held)| {
                    held.left.iter().rev().map(move |&object| (number, object..object + 1))
                });
                self.next.extend(left);
                if self.next.is_empty() {
                    return Ok(None);
                }
                continue;
            };
            let (number, bytes) = (self.number, from..from + len);
            if let Some(count) = self.order.apart(number).filter(|_| oversize.is_none()) {
                let (bytes, left) = (self.buffer[bytes].to_vec(), (0..count).collect());
                self.hold(number, Held { offset, bytes, left, is_begun: false });
                continue;
            }
            let has_more = self.follow(Spot { line: number, object: 0 });
            // What comes behind the last line begins on one of its own.
            let (bytes, whole) = (&self.buffer[bytes], whole || has_more);
            let (piece, is_first, is_last) = (None, true, true);
            return Ok(Some(Line {
                number,
                offset,
                bytes,
                whole,
                oversize,
                piece,
                is_first,
                is_last,
            }));
        }
    }

    /// Keeps a line of which something comes later, and has come next what comes where it stands.
    fn hold(&mut self, number: u64, held: Held) {
        let objects = held.left.first().map_or(0..0, |&first| first..first + held.left.len());
        let pieces = self.order.pieces(number, objects);
        self.next.extend(pieces.into_iter().rev().map(|piece| (number, piece)));
        self.held.insert(number, held);
    }

    /// Has come next what waited for a record; whether something did.
    fn follow(&mut self, spot: Spot) -> bool {
        let behind = self.order.behind(spot);
        let pieces = behind.iter().rev().map(|spot| (spot.line, spot.object..spot.object + 1));
        self.next.extend(pieces);
        !behind.is_empty()
    }

    /// Some of the objects of a held line.
    fn piece(&mut self, number: u64, piece: Range<usize>) -> Option<Line<'_>> {
        if let Some(object) = piece.end.checked_sub(1) {
            self.follow(Spot { line: number, object });
        }
        let held = self.held.get_mut(&number)?;
        held.left.retain(|object| !piece.contains(object));
        let is_first = !std::mem::replace(&mut held.is_begun, true);
        let is_last = held.left.is_empty();
        self.done = is_last.then_some(number);
        let (offset, whole, oversize, piece) = (held.offset, true, None, Some(piece));
        let bytes = &held.bytes;
        Some(Line { number, offset, bytes, whole, oversize, piece, is_first, is_last })
    }

    /// The next line of the file.
    fn next_cut(&mut self) -> Result<Option<Cut>, ForeignError> {
        let mut searched = 0;
        let mut skipped: u64 = 0;
        loop {
            let found = memchr::memchr(b'\n', &self.buffer[self.start + searched..self.end]);
            if let Some(at) = found {
                return Ok(Some(self.cut(searched + at, 1, skipped)));
            }
            searched = self.end - self.start;
            if self.ended {
                return Ok((searched > 0 || skipped > 0).then(|| self.cut(searched, 0, skipped)));
            }
            if searched > LONGEST {
                skipped += searched as u64;
                (self.start, self.end, searched) = (0, 0, 0);
            }
            self.fill()?;
        }
    }

    fn cut(&mut self, len: usize, end: usize, skipped: u64) -> Cut {
        let (from, offset) = (self.start, self.offset);
        self.start += len + end;
        self.offset += skipped + (len + end) as u64;
        self.number += 1;
        let oversize = (skipped > 0).then_some(skipped + len as u64);
        Cut { offset, from, len, whole: end == 1, oversize }
    }

    fn fill(&mut self) -> Result<(), ForeignError> {
        if self.start > 0 {
            self.buffer.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
        }
        if self.end == self.buffer.len() {
            self.buffer.resize(self.buffer.len() * 2, 0);
        }
        loop {
            match self.input.read(&mut self.buffer[self.end..]) {
                Ok(read) => {
                    self.end += read;
                    self.ended = read == 0;
                    return Ok(());
                }
                Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
                Err(e) => return Err(ForeignError::io(&self.path, e)),
            }
        }
    }
}

impl Line<'_> {
    /// Whether an object of the line comes now.
    pub(crate) fn has(&self, object: usize) -> bool {
        self.piece.as_ref().is_none_or(|piece| piece.contains(&object))
    }

    /// Hands every object of the line that comes now to `take`, but for those from one on that comes early.
    fn objects(
        &self,
        text: &str,
        kind: &str,
        out: &mut Emitter<'_>,
        take: Take<'_>,
        tally: &mut Tally,
    ) -> Result<Option<Range<usize>>, ForeignError> {
        // Else it may be several that look like one.
        if looks_whole(text)
            && self.has(0)
            && let Taken::Record = take(&Object { json: text, origin: self.origin() }, out)?
        {
            return Ok(None);
        }
        let (objects, lost) = whole_objects(text);
        let is_broken = lost > 0;
        if self.is_first {
            tally.lost = lost;
            if !is_broken && objects.len() > 1 {
                self.tell_fused(out);
            }
        }
        for (at, json) in objects.iter().enumerate().filter(|(at, _)| self.has(*at)) {
            let object = Object { json, origin: self.origin() };
            match take(&object, out)? {
                Taken::Record => tally.read += 1,
                Taken::Early => return Ok(Some(at..objects.len())),
                Taken::Unknown if is_broken => tally.lost += json.len(),
                Taken::Unknown => unknown_shape(kind, object.json, &object.origin, out),
            }
        }
        if is_broken && self.is_last {
            self.tell_broken(tally.read, tally.lost, out);
        }
        Ok(None)
    }

    /// Tells what of the line was read elsewhere than where it stands.
    fn tell_moved(&self, order: &Order, out: &mut Emitter<'_>) {
        let moved =
            order.moved(self.number, 0..=usize::MAX).filter(|(object, _)| self.has(*object));
        for (_, moved) in moved {
            let (sentence, done) = match moved {
                Moved::Behind(line) if line == self.number => (
                    "The record stands before what it hangs on, on one line with it.",
                    "It was read behind it.".to_owned(),
                ),
                Moved::Before(line) if line == self.number => (
                    "The record stands behind what hangs on it, on one line with it.",
                    "It was read before it.".to_owned(),
                ),
                Moved::Behind(line) => (
                    "The record stands before what it hangs on.",
                    format!("It was read behind line {line}."),
                ),
                Moved::Before(line) => (
                    "The record stands behind what hangs on it.",
                    format!("It was read before line {line}."),
                ),
            };
            out.found("out-of-order", Severity::Warning, &self.origin(), sentence, &done);
        }
    }

    fn origin(&self) -> Origin {
        Origin { line: Some(self.number), offset: Some(self.offset), id: None }
    }

    /// The line as text that a JSON parser can take; none when there is nothing in it. What had to be done for that
    /// is told, once for a line.
    fn text(&self, out: &mut Emitter<'_>) -> Option<Cow<'_, str>> {
        let at = self.origin();
        if let Some(bytes) = self.oversize {
            let sentence = format!("The line is {bytes} bytes long, more than this reader takes.");
            out.found("oversize-line", Severity::Damage, &at, &sentence, "It was left out.");
            return None;
        }
        if self.is_first { readable(self.unmarked(), &at, out) } else { Some(self.quiet_text()) }
    }

    /// The same of a line that is not too long, and nothing is told.
    pub(super) fn quiet_text(&self) -> Cow<'_, str> {
        control::readable_text(without_nuls(self.unmarked()).trim_ascii())
    }

    /// Its bytes without the mark with which some programs begin a file.
    fn unmarked(&self) -> &[u8] {
        let marked = self.bytes.strip_prefix(b"\xEF\xBB\xBF").filter(|_| self.number == 1);
        marked.unwrap_or(self.bytes)
    }

    fn tell_fused(&self, out: &mut Emitter<'_>) {
        let sentence = "Several records stand on one line.";
        let done = "All of them were read.";
        out.found("fused-line", Severity::Warning, &self.origin(), sentence, done);
    }

    /// Tells that `lost` bytes are no whole record, beside `read` that are.
    fn tell_broken(&self, read: usize, lost: usize, out: &mut Emitter<'_>) {
        let at = self.origin();
        if read > 0 {
            let sentence =
                format!("{lost} bytes of a broken record share the line with a whole one.");
            out.found("fused-line", Severity::Damage, &at, &sentence, "The whole one was read.");
        } else if self.whole {
            let sentence = "The line is no JSON: it was cut or overwritten.";
            let done = "It was left out; what stands around it was read.";
            out.found("torn-line", Severity::Damage, &at, sentence, done);
        } else {
            let sentence = "The last line was not written to its end.";
            out.found("torn-tail", Severity::Warning, &at, sentence, "It was left out.");
        }
    }
}

/// Stored bytes as text that a JSON parser can take; none when there is nothing in them. NUL runs, broken UTF-8,
/// halves of surrogate pairs and control bytes are told.
pub(super) fn readable<'b>(
    bytes: &'b [u8],
    at: &Origin,
    out: &mut Emitter<'_>,
) -> Option<Cow<'b, str>> {
    use Severity::Warning;
    let without = without_nuls(bytes);
    if without.len() < bytes.len() {
        let sentence = format!("{} NUL bytes stand in the line.", bytes.len() - without.len());
        let done = "They were left out; what stands beside them was read.";
        out.found("nul-run", Warning, at, &sentence, done);
    }
    let bytes = without.trim_ascii();
    if bytes.is_empty() {
        return None;
    }
    let text = unicode(bytes, at, out);
    let Some(escaped) = control::escaped(&text) else { return Some(text) };
    let sentence = "Control bytes stand in a text of the line as they are.";
    let done = "They were read as if they were escaped.";
    out.found("control-byte", Warning, at, sentence, done);
    Some(Cow::Owned(escaped))
}

fn unicode<'b>(bytes: &'b [u8], at: &Origin, out: &mut Emitter<'_>) -> Cow<'b, str> {
    use Severity::Warning;
    match std::str::from_utf8(bytes) {
        Ok(text) if !has_surrogate_escape(bytes) => return Cow::Borrowed(text),
        Ok(_) => {}
        Err(_) => {
            let sentence = "The line holds bytes that are no UTF-8.";
            out.found("bad-utf8", Warning, at, sentence, "Each stands as U+FFFD.");
        }
    }
    let text = readable_json(bytes);
    if std::str::from_utf8(bytes).is_ok_and(|before| before != text) {
        let sentence = "The line holds half of a surrogate pair.";
        out.found("lone-surrogate", Warning, at, sentence, "It stands as U+FFFD.");
    }
    text
}

/// Tells that records are not put in order from here on.
fn tell_given_up(at: &Origin, out: &mut Emitter<'_>) {
    let sentence =
        "From here on, more records stand before what they hang on than can wait for it.";
    let done = "They were read where they stand; what they hang on was not found.";
    out.found("unordered", Severity::Damage, at, sentence, done);
}

/// Keeps a record of a shape that nobody knows, and tells it.
pub(super) fn unknown_shape(kind: &str, json: &str, at: &Origin, out: &mut Emitter<'_>) {
    let sentence = "The record has a shape that this reader does not know.";
    out.found("unknown-record", Severity::Note, at, sentence, "It was kept as it is.");
    if let Ok(raw) = serde_json::from_str::<&RawValue>(json) {
        let meta = super::emitter::Meta { origin: at.clone(), ..Default::default() };
        out.custom(kind, raw, meta);
    }
}

/// Whether a text may be one whole object or array.
pub(crate) fn looks_whole(text: &str) -> bool {
    text.starts_with('{') && text.ends_with('}') || text.starts_with('[') && text.ends_with(']')
}

/// NULs at the ends are what an interrupted append leaves.
pub(crate) fn without_nuls(bytes: &[u8]) -> &[u8] {
    let start = bytes.iter().position(|&b| b != 0).unwrap_or(bytes.len());
    let end = bytes.iter().rposition(|&b| b != 0).map_or(start, |last| last + 1);
    &bytes[start..end]
}

fn has_surrogate_escape(bytes: &[u8]) -> bool {
    memchr::memmem::find_iter(bytes, b"\\u").any(|at| {
        bytes.get(at + 2).is_some_and(|b| matches!(b, b'd' | b'D'))
            && bytes
                .get(at + 3)
                .is_some_and(|b| matches!(b, b'8'..=b'9' | b'a'..=b'f' | b'A'..=b'F'))
    })
}

/// The whole objects (or arrays) of a text, in order, and how many bytes belong to none.
pub(crate) fn whole_objects(text: &str) -> (Vec<&str>, usize) {
    let (mut objects, mut lost, mut at) = (Vec::new(), 0, 0);
    while at < text.len() {
        let rest = &text[at..];
        let blank = rest.len() - rest.trim_start().len();
        if blank > 0 {
            at += blank;
        } else if let Some(len) = value_at(rest) {
            objects.push(&rest[..len]);
            at += len;
        } else {
            let next = next_object(rest);
            lost += next;
            at += next;
        }
    }
    (objects, lost)
}

/// The length of the whole object or array with which a text begins.
fn value_at(text: &str) -> Option<usize> {
    if !text.starts_with(['{', '[']) {
        return None;
    }
    let mut values = serde_json::Deserializer::from_str(text).into_iter::<IgnoredAny>();
    matches!(values.next(), Some(Ok(_))).then(|| values.byte_offset())
}

/// Where, behind a broken beginning, a run of whole objects starts that reaches to the end of the line.
/// What stands in a broken list belongs to it: such lists are written as a whole or not at all.
fn next_object(text: &str) -> usize {
    let is_list = text.starts_with('[');
    let stands_alone =
        |&at: &usize| at > 0 && !(is_list && matches!(text.as_bytes()[at - 1], b'[' | b','));
    let starts = memchr::memmem::find_iter(text.as_bytes(), b"{\"").filter(stands_alone);
    let reaches_end = |&at: &usize| {
        let mut values = serde_json::Deserializer::from_str(&text[at..]).into_iter::<IgnoredAny>();
        values.by_ref().all(|value| value.is_ok())
    };
    starts.take(TRIES).find(reaches_end).unwrap_or(text.len())
}
