//! One line of a log: bytes to record and back.
//!
//! Responsible for: the envelope, its checksum, and reading JSON that strict parsers refuse (lone
//! surrogates, broken UTF-8). Must not: know about files, neighbouring lines or what to do with a bad
//! line; judging is [`crate::judge`]. The format is `docs/format/session-log.md`; what is looked at
//! when is `docs/decisions/0007`.

mod head;

use crate::id::{Pos, Seq};
use crate::record::Body;
use crate::time::Timestamp;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::sync::{Arc, OnceLock};

/// What every line carries besides its body.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Envelope {
    /// The line's number.
    pub seq: Seq,
    /// For nodes: the node that it follows; none at the root, and for metadata.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<Seq>,
    /// The parent's position, when the parent is not the node written just before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent_at: Option<Pos>,
    /// When, for people.
    #[serde(default)]
    pub at: Timestamp,
    /// The record type's name.
    #[serde(rename = "type")]
    pub kind: String,
    /// The highest seq known durable when the batch was written; none before the first sync.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub synced: Option<Seq>,
}

/// A record as read or written: its envelope, its body and its exact bytes. The body is read when it
/// is asked for first: whoever goes through a whole log needs few of them. Copies of a record share it.
#[derive(Debug, Clone)]
pub struct Record {
    /// The envelope.
    pub envelope: Envelope,
    body: OnceLock<Arc<Body>>,
    /// Where the body's own members begin in a line as this version writes them; 0 in others.
    own: usize,
    /// Its checksum as stored.
    pub crc: u32,
    /// Where its line begins, counted from the end of line 1; 0 for line 1 itself.
    pub offset: u64,
    /// The line's bytes without the line end.
    pub line: Arc<[u8]>,
}

impl Record {
    /// A record whose body is known, because it is being written.
    pub(crate) fn written(
        envelope: Envelope,
        body: Body,
        crc: u32,
        line: &[u8],
        offset: u64,
    ) -> Self {
        Self { envelope, body: Arc::new(body).into(), own: 0, crc, offset, line: line.into() }
    }

    /// A record that stands in no log (yet): one that was made from somebody else's.
    #[must_use]
    pub fn loose(envelope: Envelope, body: Body) -> Self {
        Self::written(envelope, body, 0, &[], 0)
    }

    /// The content.
    pub fn body(&self) -> &Body {
        self.body.get_or_init(|| Arc::new(self.read_body()))
    }

    /// The content, to be held beyond the record.
    pub(crate) fn shared_body(&self) -> Arc<Body> {
        Arc::clone(self.body.get_or_init(|| Arc::new(self.read_body())))
    }

    /// The content alone.
    #[must_use]
    pub fn into_body(self) -> Body {
        match self.body.into_inner() {
            Some(body) => Arc::unwrap_or_clone(body),
            None => Self { body: OnceLock::new(), ..self }.read_body(),
        }
    }

    /// The same record with as much of its content as the caller still needs, and without its line.
    #[must_use]
    pub fn reduced(self, keep: impl FnOnce(Body) -> Body) -> Self {
        let (envelope, own, crc, offset) = (self.envelope.clone(), self.own, self.crc, self.offset);
        let body = keep(self.into_body());
        Self { envelope, body: Arc::new(body).into(), own, crc, offset, line: Arc::default() }
    }

    fn read_body(&self) -> Body {
        let json = readable_json(&self.line);
        Body::parse(&self.envelope.kind, &json, json.get(self.own..).unwrap_or_default())
    }

    /// The record's number.
    #[must_use]
    pub fn seq(&self) -> Seq {
        self.envelope.seq
    }

    /// Its verified position.
    #[must_use]
    pub fn pos(&self) -> Pos {
        Pos { seq: self.envelope.seq, offset: self.offset, crc: self.crc }
    }

    /// Whether its content was erased by a person.
    #[must_use]
    pub fn is_erased(&self) -> bool {
        split_crc(&self.line).is_some_and(|(covered, _)| covered.ends_with(ERASED))
    }

    /// Whether it moves the tip. A record that this version cannot read is a node when it names a
    /// parent (only nodes do), or when it is a message (the first one has no parent), so that what
    /// follows it stays connected.
    #[must_use]
    pub fn is_node(&self) -> bool {
        let Envelope { kind, parent, .. } = &self.envelope;
        if kind == "message" {
            return true;
        }
        if parent.is_none() && !Body::kind_is_node(kind) {
            return false;
        }
        match self.body() {
            Body::Unknown { .. } => parent.is_some(),
            body => body.is_node(),
        }
    }
}

/// Why a line is not an intact record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LineError {
    /// Not one JSON object with an envelope.
    Malformed(String),
    /// An envelope without a checksum at its end.
    NoChecksum,
    /// A well-formed record whose checksum does not match.
    Altered {
        /// The seq that it claims.
        seq: Seq,
        /// The checksum that it carries.
        stored: u32,
        /// The checksum of its bytes.
        actual: u32,
    },
}

pub(crate) const CRC_KEY: &[u8] = b",\"crc\":\"";
/// `,"crc":"xxxxxxxx"}`
pub(crate) const CRC_TAIL_LEN: usize = 8 + 8 + 2;

/// Room for most lines, so that encoding them moves nothing about.
const LINE_BYTES: usize = 2 * 1024;

/// The end of a line whose covered bytes have this checksum.
pub(crate) fn crc_tail(crc: u32) -> Vec<u8> {
    let mut tail = Vec::with_capacity(CRC_TAIL_LEN);
    push_crc_tail(&mut tail, crc);
    tail
}

fn push_crc_tail(out: &mut Vec<u8>, crc: u32) {
    out.extend_from_slice(CRC_KEY);
    for shift in (0..8).rev().map(|digit| 4 * digit) {
        out.push(b"0123456789abcdef"[(crc >> shift & 0xf) as usize]);
    }
    out.extend_from_slice(b"\"}");
}

/// CRC-32 (ISO-HDLC, as in zlib) of the bytes before `,"crc"`.
#[must_use]
pub fn checksum(bytes: &[u8]) -> u32 {
    crc32fast::hash(bytes)
}

/// Splits a line into the bytes that the checksum covers and the stored checksum.
#[must_use]
pub fn split_crc(line: &[u8]) -> Option<(&[u8], u32)> {
    let start = line.len().checked_sub(CRC_TAIL_LEN)?;
    let tail = &line[start..];
    if !tail.starts_with(CRC_KEY) || !tail.ends_with(b"\"}") {
        return None;
    }
    let stored = crc_digits(&tail[CRC_KEY.len()..CRC_KEY.len() + 8])?;
    Some((&line[..start], stored))
}

/// A checksum from its eight digits; upper-case ones are nobody's.
fn crc_digits(hex: &[u8]) -> Option<u32> {
    let digits = hex.len() == 8 && hex.iter().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
    digits.then(|| u32::from_str_radix(std::str::from_utf8(hex).ok()?, 16).ok()).flatten()
}

/// Encodes one record as a line without its line end.
///
/// # Errors
/// Only when the body cannot be written as JSON (a map key that is no text).
pub fn encode(envelope: &Envelope, body: &Body) -> Result<Vec<u8>, serde_json::Error> {
    let mut line = Vec::new();
    encode_into(&mut line, envelope, body)?;
    Ok(line)
}

/// Writes one record's line, without its line end, behind what is in `out`; gives its checksum.
///
/// # Errors
/// As [`encode`]; `out` then ends with a part of the line.
pub(crate) fn encode_into(
    out: &mut Vec<u8>,
    envelope: &Envelope,
    body: &Body,
) -> Result<u32, serde_json::Error> {
    out.reserve(LINE_BYTES);
    let from = out.len();
    serde_json::to_writer(&mut *out, envelope)?;
    out.pop();
    body.write_members(out)?;
    let crc = checksum(&out[from..]);
    push_crc_tail(out, crc);
    Ok(crc)
}

/// What the covered bytes of an erased record end with. Within a text the quotes would be escaped, and
/// within another member a bracket would follow.
const ERASED: &[u8] = b",\"erased\":true";

/// Encodes a record whose content was erased: it says so with its last member.
///
/// # Errors
/// As [`encode`].
pub(crate) fn encode_erased(
    envelope: &Envelope,
    body: &Body,
) -> Result<Vec<u8>, serde_json::Error> {
    let mut line = encode(envelope, body)?;
    line.truncate(line.len() - CRC_TAIL_LEN);
    line.extend_from_slice(ERASED);
    Ok(sealed(line))
}

/// Covered bytes with their checksum behind them.
pub(crate) fn sealed(mut covered: Vec<u8>) -> Vec<u8> {
    let crc = checksum(&covered);
    push_crc_tail(&mut covered, crc);
    covered
}

/// Reads one line (without its line end) that begins `offset` bytes after the end of line 1.
///
/// A matching checksum vouches for the bytes behind an envelope as this version writes it: they are
/// looked at when the body is asked for. Any other line must be JSON from its first to its last byte.
///
/// # Errors
/// [`LineError`]; an unreadable *body* is not an error but [`Body::Unknown`].
pub fn decode(line: &[u8], offset: u64) -> Result<Record, LineError> {
    if let Some((covered, stored)) = split_crc(line)
        && let Some((envelope, own)) = head::read(covered)
        && checksum(covered) == stored
    {
        return Ok(unread(envelope, own, (line, stored), offset));
    }
    decode_slowly(line, offset)
}

/// Reads any line, going over all of its JSON.
fn decode_slowly(line: &[u8], offset: u64) -> Result<Record, LineError> {
    let envelope = parse_envelope(&readable_json(line))?;
    let (covered, stored) = split_crc(line).ok_or(LineError::NoChecksum)?;
    let actual = checksum(covered);
    if actual != stored {
        return Err(LineError::Altered { seq: envelope.seq, stored, actual });
    }
    Ok(unread(envelope, 0, (line, stored), offset))
}

/// Reads a line whose checksum a person has accepted, or that a caller will show as altered.
///
/// # Errors
/// [`LineError`] when it is not even well-formed.
pub fn decode_unchecked(line: &[u8], offset: u64) -> Result<Record, LineError> {
    let envelope = parse_envelope(&readable_json(line))?;
    let stored = split_crc(line).ok_or(LineError::NoChecksum)?.1;
    Ok(unread(envelope, 0, (line, stored), offset))
}

fn unread(envelope: Envelope, own: usize, (line, crc): (&[u8], u32), offset: u64) -> Record {
    Record { envelope, body: OnceLock::new(), own, crc, offset, line: line.into() }
}

fn parse_envelope(json: &str) -> Result<Envelope, LineError> {
    serde_json::from_str(json).map_err(|e| LineError::Malformed(e.to_string()))
}

/// JSON as strict parsers want it: broken UTF-8 and lone halves of surrogate pairs become U+FFFD.
/// Borrowed when nothing had to change. What is on disk stays as it is.
#[must_use]
pub fn readable_json(line: &[u8]) -> Cow<'_, str> {
    let text = String::from_utf8_lossy(line);
    match replace_lone_surrogates(&text) {
        Some(replaced) => Cow::Owned(replaced),
        None => text,
    }
}

/// Replaces `\udXXX` escapes that have no partner by `\ufffd`; none when there are none.
fn replace_lone_surrogates(text: &str) -> Option<String> {
    let json = text.as_bytes();
    memchr::memmem::find(json, b"\\u")?;
    let mut out: Option<String> = None;
    let mut i = 0;
    while let Some(found) = memchr::memchr(b'\\', &json[i..]) {
        let at = i + found;
        let step = match surrogate_at(json, at) {
            None => 2,
            Some(Half::High) if matches!(surrogate_at(json, at + 6), Some(Half::Low)) => 12,
            Some(_) => {
                out.get_or_insert_with(|| text.to_owned()).replace_range(at + 2..at + 6, "fffd");
                6
            }
        };
        i = at + step;
        if i >= json.len() {
            break;
        }
    }
    out
}

enum Half {
    High,
    Low,
}

fn surrogate_at(json: &[u8], at: usize) -> Option<Half> {
    let escape = json.get(at..at + 6)?;
    if &escape[..2] != b"\\u" {
        return None;
    }
    let unit = u16::from_str_radix(std::str::from_utf8(&escape[2..]).ok()?, 16).ok()?;
    match unit {
        0xD800..=0xDBFF => Some(Half::High),
        0xDC00..=0xDFFF => Some(Half::Low),
        _ => None,
    }
}

/// (De)serialises a checksum as eight hex digits.
pub mod hex_crc {
    use serde::{Deserialize, Deserializer, Serializer};

    /// Writes eight lower-case digits.
    ///
    /// # Errors
    /// As the serializer.
    pub fn serialize<S: Serializer>(crc: &u32, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&format_args!("{crc:08x}"))
    }

    /// Reads hex digits.
    ///
    /// # Errors
    /// When the text is not hex.
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u32, D::Error> {
        let text = String::deserialize(deserializer)?;
        u32::from_str_radix(&text, 16).map_err(serde::de::Error::custom)
    }
}
