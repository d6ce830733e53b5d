//! Stored text, made harmless for a terminal (G17).
//!
//! Responsible for: taking every control character, escape sequence (with its body), bidi control and
//! hiding character out of text, cutting text to a width. Must not: style anything, or be applied to
//! JSON and copies for agents, which keep text exactly; what people read as a file is text for a terminal, too.
//!
//! Three flavours: [`line()`] for titles and cells, [`block`] for text of many lines, and [`reveal`] for
//! text that a person is asked to approve, where nothing may be left out.

use std::fmt::Write as _;
use unicode_segmentation::UnicodeSegmentation as _;
use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

/// How many characters without a width of their own may follow each other.
const STACKED_MARKS_MAX: usize = 8;

/// Text as one line: line breaks and tabs become spaces, runs of white space become one.
#[must_use]
pub fn line(text: &str) -> String {
    let cleaned = block(text);
    let mut out = String::with_capacity(cleaned.len());
    for word in cleaned.split_whitespace() {
        if !out.is_empty() {
            out.push(' ');
        }
        out.push_str(word);
    }
    out
}

/// Text as lines: `\n` and `\t` are the only control characters left. CR, CRLF, NEL, VT, FF, U+2028
/// and U+2029 are line breaks.
#[must_use]
pub fn block(text: &str) -> String {
    let mut stream = Stream::default();
    let mut out = stream.push(text);
    out.push_str(&stream.finish());
    out
}

/// Bytes of unknown encoding as a [`block`]. Bytes 0x80 to 0x9F that are not UTF-8 are taken as the
/// 8-bit controls that a terminal may take them for.
#[must_use]
pub fn bytes(input: &[u8]) -> String {
    let mut text = String::with_capacity(input.len());
    for chunk in input.utf8_chunks() {
        text.push_str(chunk.valid());
        match chunk.invalid() {
            [] => {}
            [byte @ 0x80..0xa0] => text.push(char::from(*byte)),
            _ => text.push('\u{fffd}'),
        }
    }
    block(&text)
}

/// Text with nothing left out: what [`block`] would remove is written as `\u{1b}`; `\n` and `\t` stay.
/// For commands and paths that somebody is about to say yes to.
#[must_use]
pub fn reveal(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        let plain = c == '\n' || c == '\t' || is_shown(c);
        if plain {
            out.push(c);
        } else {
            let _ = write!(out, "\\u{{{:x}}}", u32::from(c));
        }
    }
    out
}

/// Whether a character is always harmless and always seen: neither a control of any kind (`\n` and `\t`
/// included) nor one that reorders text or hides in it.
#[must_use]
pub fn is_shown(c: char) -> bool {
    kind(c) == Kind::Plain
}

/// How many columns clean text of one line takes.
#[must_use]
pub fn width(text: &str) -> usize {
    text.graphemes(true).map(grapheme_width).sum()
}

/// Clean text of one line, cut to at most `columns`, the last of which is then `…`.
#[must_use]
pub fn cut(text: &str, columns: usize) -> String {
    if width(text) <= columns {
        return text.to_owned();
    }
    let mut out = String::new();
    let mut used = 0;
    for grapheme in text.graphemes(true) {
        let next = used + grapheme_width(grapheme);
        if next + 1 > columns {
            break;
        }
        out.push_str(grapheme);
        used = next;
    }
    if columns > 0 {
        out.push('…');
    }
    out
}

/// A tab counts as one column here; listings have none, since [`line`] takes them out.
fn grapheme_width(grapheme: &str) -> usize {
    if grapheme == "\t" { 1 } else { grapheme.width() }
}

/// What a character means to the cleaner.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Shown.
    Plain,
    /// A tab.
    Tab,
    /// `\r`: a break, and one with a `\n` that follows.
    Return,
    /// Any other line break.
    Break,
    /// Starts an escape sequence.
    Escape,
    /// The 8-bit form of `ESC [`.
    Csi,
    /// The 8-bit form of a sequence with a body: OSC, DCS, APC, PM, SOS.
    Body,
    /// ZWJ and ZWNJ: right between letters of some scripts and in emoji, a trick elsewhere.
    Joiner,
    /// Never shown: other controls, bidi, invisible characters.
    Hidden,
}

fn kind(c: char) -> Kind {
    match c {
        '\t' => Kind::Tab,
        '\r' => Kind::Return,
        '\n' | '\u{b}' | '\u{c}' | '\u{85}' | '\u{2028}' | '\u{2029}' => Kind::Break,
        '\u{1b}' => Kind::Escape,
        '\u{9b}' => Kind::Csi,
        '\u{90}' | '\u{98}' | '\u{9d}' | '\u{9e}' | '\u{9f}' => Kind::Body,
        '\u{200c}' | '\u{200d}' => Kind::Joiner,
        c if c.is_control() || is_invisible(c) => Kind::Hidden,
        _ => Kind::Plain,
    }
}

/// Characters that reorder text or stand in it without being seen.
fn is_invisible(c: char) -> bool {
    matches!(c,
        '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}'
        | '\u{180b}'..='\u{180f}' | '\u{200b}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{feff}' | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}'
        | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}')
}

/// Where in an escape sequence the text stands.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum At {
    #[default]
    Ground,
    /// Behind `ESC`, and perhaps intermediates.
    Escape,
    /// Behind `ESC [`.
    Csi,
    /// In a body, which ends with BEL, ST, CAN, SUB or, so that one sequence without an end cannot
    /// swallow a page, with the line.
    Body,
    /// Behind an `ESC` in a body: `\` ends it.
    BodyEscape,
}

/// The cleaner for text that comes in pieces: any split of a text gives what [`block`] gives for it.
#[derive(Debug, Clone, Default)]
pub struct Stream {
    at: At,
    /// The last character was a CR, already written as a break.
    returned: bool,
    /// A joiner that waits for its right neighbour.
    joiner: Option<char>,
    /// The last character written.
    last: Option<char>,
    /// Characters without a width since the last one with.
    marks: usize,
}

impl Stream {
    /// Takes a piece; gives what can be shown of it.
    pub fn push(&mut self, piece: &str) -> String {
        let mut out = String::with_capacity(piece.len());
        for c in piece.chars() {
            self.step(c, &mut out);
        }
        out
    }

    /// The text is over. An unfinished sequence is dropped.
    pub fn finish(&mut self) -> String {
        *self = Self::default();
        String::new()
    }

    fn step(&mut self, c: char, out: &mut String) {
        let kind = kind(c);
        if matches!(kind, Kind::Return | Kind::Break) {
            self.at = At::Ground;
        }
        match self.at {
            At::Ground => self.ground(c, kind, out),
            At::Csi => match c {
                '\u{20}'..='\u{3f}' => {}
                '\u{40}'..='\u{7e}' => self.at = At::Ground,
                _ => self.ground(c, kind, out),
            },
            At::Body => match c {
                '\u{7}' | '\u{18}' | '\u{1a}' | '\u{9c}' => self.at = At::Ground,
                '\u{1b}' => self.at = At::BodyEscape,
                _ => {}
            },
            At::BodyEscape if c == '\\' => self.at = At::Ground,
            At::Escape | At::BodyEscape => self.escape(c, kind, out),
        }
    }

    fn escape(&mut self, c: char, kind: Kind, out: &mut String) {
        match c {
            '[' => self.at = At::Csi,
            // OSC, DCS, APC, PM, SOS, and the title sequence of screen and tmux.
            ']' | 'P' | '_' | '^' | 'X' | 'k' => self.at = At::Body,
            '\u{20}'..='\u{2f}' => self.at = At::Escape,
            '\u{30}'..='\u{7e}' => self.at = At::Ground,
            _ => self.ground(c, kind, out),
        }
    }

    fn ground(&mut self, c: char, kind: Kind, out: &mut String) {
        self.at = At::Ground;
        let after_return = std::mem::take(&mut self.returned);
        match kind {
            Kind::Escape => self.at = At::Escape,
            Kind::Csi => self.at = At::Csi,
            Kind::Body => self.at = At::Body,
            Kind::Hidden => {}
            Kind::Joiner => self.joiner = self.joiner.or(Some(c)),
            Kind::Plain => self.show(c, out),
            Kind::Tab => self.show('\t', out),
            Kind::Break if after_return && c == '\n' => {}
            Kind::Break => self.show('\n', out),
            Kind::Return => {
                self.show('\n', out);
                self.returned = true;
            }
        }
    }

    fn show(&mut self, c: char, out: &mut String) {
        let joiner = self.joiner.take();
        self.marks = if c.width() == Some(0) { self.marks + 1 } else { 0 };
        if self.marks > STACKED_MARKS_MAX {
            return;
        }
        if let Some(joiner) = joiner
            && self.last.is_some_and(may_join)
            && may_join(c)
        {
            out.push(joiner);
        }
        out.push(c);
        self.last = Some(c);
    }
}

/// Whether a joiner beside this character can be honest: scripts that use them, and emoji.
fn may_join(c: char) -> bool {
    u32::from(c) >= 0x600 && !c.is_whitespace()
}
