//! A text without what hides in it: escapes of JSON, programs, pages and addresses read, colours and characters
//! without a width left out, lines that go on behind a backslash joined.
//!
//! Responsible for: that text, and where its parts stand in the one that was written. Must not: know what a
//! secret is.

use std::ops::Range;

/// Control sequences are not longer.
const SEQUENCE: usize = 2048;

/// A piece of the plain text.
#[derive(Debug)]
struct Piece {
    /// Where it begins.
    at: usize,
    /// Where it stands in the text as written: letter for letter from there on, or as one escape.
    written: usize,
    /// Where the escape ends.
    escape_end: Option<usize>,
}

/// A text without what hides in it.
#[derive(Debug, Default)]
pub(super) struct Plain {
    /// The text.
    pub(super) text: String,
    pieces: Vec<Piece>,
}

/// What stands at a place that is not to be read letter for letter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Hidden {
    /// So many bytes that stand for a character.
    Escape(usize, char),
    /// So many bytes that stand for nothing.
    Nothing(usize),
}

impl Plain {
    /// Of a text, if anything hides in it.
    pub(super) fn of(text: &str) -> Option<Self> {
        let bytes = text.as_bytes();
        let mut plain = Self::default();
        let (mut at, mut copied) = (0, 0);
        while at < bytes.len() {
            let Some(hidden) = hidden(text, at) else {
                at += 1;
                continue;
            };
            plain.copy(text, copied..at);
            match hidden {
                Hidden::Nothing(length) => at += length,
                Hidden::Escape(length, c) => {
                    let escape_end = Some(at + length);
                    plain.pieces.push(Piece { at: plain.text.len(), written: at, escape_end });
                    plain.text.push(c);
                    at += length;
                }
            }
            copied = at;
        }
        (copied > 0).then(|| {
            plain.copy(text, copied..bytes.len());
            plain
        })
    }

    fn copy(&mut self, text: &str, range: Range<usize>) {
        if let Some(copied) = text.get(range.clone()).filter(|copied| !copied.is_empty()) {
            let at = self.text.len();
            self.pieces.push(Piece { at, written: range.start, escape_end: None });
            self.text.push_str(copied);
        }
    }

    /// Where a part of it stands in the text as written.
    pub(super) fn written(&self, part: &Range<usize>) -> Range<usize> {
        let piece = |at: usize| {
            let index = self.pieces.partition_point(|piece| piece.at <= at);
            index.checked_sub(1).and_then(|i| self.pieces.get(i))
        };
        let start = piece(part.start).map_or(0, |piece| match piece.escape_end {
            Some(_) => piece.written,
            None => piece.written + (part.start - piece.at),
        });
        let last = part.end.saturating_sub(1).max(part.start);
        let end = piece(last).map_or(start, |piece| match piece.escape_end {
            Some(end) => end,
            None => piece.written + (last - piece.at) + 1,
        });
        start..end
    }
}

/// What hides here.
fn hidden(text: &str, at: usize) -> Option<Hidden> {
    let bytes = text.as_bytes();
    match bytes[at] {
        b'%' => percent(bytes, at),
        b'&' => entity(bytes, at),
        b'\\' => behind_backslash(text, at),
        0x1b => Some(Hidden::Nothing(1 + sequence(bytes, at + 1))),
        0xc2 | 0xe1 | 0xe2 | 0xef => {
            let c = text.get(at..)?.chars().next()?;
            match c {
                '\u{9b}' => Some(Hidden::Nothing(2 + parameters(bytes, at + 2))),
                c if has_no_width(c) => Some(Hidden::Nothing(c.len_utf8())),
                _ => None,
            }
        }
        _ => None,
    }
}

fn has_no_width(c: char) -> bool {
    matches!(c, '\u{ad}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}'
        | '\u{2060}'..='\u{2069}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}')
}

/// How long the rest of a control sequence is, behind its escape character.
fn sequence(bytes: &[u8], from: usize) -> usize {
    match bytes.get(from) {
        Some(b'[') => 1 + parameters(bytes, from + 1),
        Some(b']') => {
            let body = bytes.get(from + 1..).unwrap_or_default().iter().take(SEQUENCE);
            let length = body.take_while(|b| **b != 0x07 && **b != 0x1b && **b != b'\n').count();
            match bytes.get(from + 1 + length) {
                Some(0x07) => length + 2,
                Some(0x1b) => length + 3,
                _ => 1,
            }
        }
        _ => 0,
    }
}

/// The parameters and the last letter of a control sequence.
fn parameters(bytes: &[u8], from: usize) -> usize {
    let rest = bytes.get(from..).unwrap_or_default();
    let length = rest.iter().take(64).take_while(|b| (0x20..0x40).contains(*b)).count();
    let ends = rest.get(length).is_some_and(|b| (0x40..0x7f).contains(b));
    if ends { length + 1 } else { 0 }
}

fn hex(bytes: &[u8], from: usize, digits: usize) -> Option<u32> {
    let digits = std::str::from_utf8(bytes.get(from..from + digits)?).ok()?;
    let all = digits.bytes().all(|b| b.is_ascii_hexdigit());
    all.then(|| u32::from_str_radix(digits, 16).ok()).flatten()
}

/// `%3D`
fn percent(bytes: &[u8], at: usize) -> Option<Hidden> {
    let c = char::from_u32(hex(bytes, at + 1, 2)?)?;
    let shown = c.is_ascii_graphic() || matches!(c, ' ' | '\n' | '\r' | '\t');
    shown.then_some(Hidden::Escape(3, c))
}

/// `&quot;`, `&#34;`, `&#x22;`
fn entity(bytes: &[u8], at: usize) -> Option<Hidden> {
    const NAMES: &[(&[u8], char)] = &[
        (b"quot", '"'),
        (b"apos", '\''),
        (b"amp", '&'),
        (b"lt", '<'),
        (b"gt", '>'),
        (b"nbsp", ' '),
    ];
    let rest = bytes.get(at + 1..)?;
    let length = rest.iter().take(8).position(|b| *b == b';')?;
    let c = match &rest[..length] {
        [b'#', b'x' | b'X', digits @ ..] => char::from_u32(hex(digits, 0, digits.len())?)?,
        [b'#', digits @ ..] => char::from_u32(std::str::from_utf8(digits).ok()?.parse().ok()?)?,
        name => NAMES.iter().find(|(known, _)| *known == name)?.1,
    };
    let seen = !c.is_control() && !has_no_width(c);
    Some(if seen { Hidden::Escape(length + 2, c) } else { Hidden::Nothing(length + 2) })
}

/// `\n`, `\"`, `\u0067`, `\x1b[m`, behind any number of backslashes, as JSON within JSON has them.
fn behind_backslash(text: &str, at: usize) -> Option<Hidden> {
    /// JSON is not nested deeper.
    const SLASHES: usize = 31;
    let bytes = text.as_bytes();
    let slashes = bytes[at..].iter().take(SLASHES).take_while(|b| **b == b'\\').count();
    let next = at + slashes;
    let escape = |length: usize, c: u32| {
        let c = char::from_u32(c)?;
        let length = slashes + length;
        if c == '\u{1b}' {
            return Some(Hidden::Nothing(length + sequence(bytes, at + length)));
        }
        let nothing = has_no_width(c) || c == '\0';
        Some(if nothing { Hidden::Nothing(length) } else { Hidden::Escape(length, c) })
    };
    match *bytes.get(next)? {
        b'n' => escape(1, u32::from(b'\n')),
        b'r' => escape(1, u32::from(b'\r')),
        b't' => escape(1, u32::from(b'\t')),
        quote @ (b'"' | b'\'' | b'`' | b'/') => escape(1, u32::from(quote)),
        b'u' => escape(5, hex(bytes, next + 1, 4)?),
        b'x' => escape(3, hex(bytes, next + 1, 2)?),
        b'e' if bytes.get(next + 1) == Some(&b'[') => escape(1, 0x1b),
        b'0' if bytes[next..].starts_with(b"033[") => escape(3, 0x1b),
        b'\n' => Some(Hidden::Nothing(slashes + 1)),
        b'\r' if bytes.get(next + 1) == Some(&b'\n') => Some(Hidden::Nothing(slashes + 2)),
        _ => None,
    }
}
