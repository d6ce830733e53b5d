//! Markdown as it streams in.
//!
//! Responsible for: tones for text that arrives in pieces. Must not: lose, add or change a character:
//! markers stay visible, so what is copied from the terminal is the markdown.
//!
//! Output is only ever appended, each character once, in its final tone: no cursor moves, no flicker,
//! the same in a pipe. Ordinary text passes at once. What depends on what follows (is this `*` the
//! start of emphasis?) is held until it is certain, or the line ends, or `HELD_MAX` is reached; then it
//! is plain. Since every character is judged as it comes, the pieces make no difference.

use super::clean;
use super::style::{Text, Tone};

/// How many bytes wait at most for what may follow.
const HELD_MAX: usize = 160;

/// Markdown that is being written.
#[derive(Debug, Default)]
pub struct Markdown {
    cleaner: clean::Stream,
    place: Place,
    fence: Option<Fence>,
    /// Of the current line, what is not in `out` yet.
    held: String,
    /// The last character before `held`.
    before: Option<char>,
    out: Text,
}

/// Where in a line the text stands.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Place {
    /// Before it is known what the line is.
    #[default]
    Start,
    /// In text that may hold emphasis, code and links.
    Inline(Tone),
    /// In text that is taken as it is, to the end of the line.
    Verbatim(Tone),
}

/// An open code block: what closes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Fence {
    mark: char,
    len: usize,
}

/// What the start of a line was found to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Start {
    /// It depends on what follows.
    Wait,
    /// This many bytes are a marker in this tone, and the rest of the line is that.
    Marked(usize, Tone, Place),
    /// The line opens a code block.
    Opens(Fence),
    /// The line closes the code block.
    Closes,
}

const TEXT: Start = Start::Marked(0, Tone::Plain, Place::Inline(Tone::Plain));

impl Markdown {
    /// Takes a piece; gives what can be shown now.
    pub fn push(&mut self, piece: &str) -> Text {
        for c in self.cleaner.push(piece).chars() {
            if c == '\n' {
                self.end_line();
                self.out.add_cleaned(Tone::Plain, "\n");
            } else {
                self.held.push(c);
                self.settle(false);
            }
        }
        std::mem::take(&mut self.out)
    }

    /// The text is over; gives what was held.
    pub fn finish(&mut self) -> Text {
        self.cleaner.finish();
        self.end_line();
        self.fence = None;
        std::mem::take(&mut self.out)
    }

    fn end_line(&mut self) {
        self.settle(true);
        self.place = Place::Start;
        self.before = None;
    }

    /// Moves from `held` to `out` what is certain; all of it if the line is `over`.
    fn settle(&mut self, over: bool) {
        if self.place == Place::Start {
            self.settle_start(over);
        }
        match self.place {
            Place::Start => {}
            Place::Verbatim(tone) => self.emit(self.held.len(), tone),
            Place::Inline(base) => {
                while !self.held.is_empty() {
                    let give_up = over || self.held.len() > HELD_MAX;
                    match inline(&self.held, self.before, give_up) {
                        Some((len, tone)) => self.emit(len, tone.unwrap_or(base)),
                        None => return,
                    }
                }
            }
        }
    }

    fn settle_start(&mut self, over: bool) {
        let decide = over || self.held.len() > HELD_MAX;
        let start = match self.fence {
            None => line_start(&self.held, decide),
            Some(fence) => fenced_start(&self.held, fence, decide),
        };
        match start {
            Start::Wait => {}
            Start::Marked(len, tone, rest) => {
                self.emit(len, tone);
                self.place = rest;
            }
            Start::Opens(fence) => {
                self.fence = Some(fence);
                self.place = Place::Verbatim(Tone::Dim);
            }
            Start::Closes => {
                self.fence = None;
                self.place = Place::Verbatim(Tone::Dim);
            }
        }
    }

    fn emit(&mut self, len: usize, tone: Tone) {
        let shown: String = self.held.drain(..len).collect();
        self.before = shown.chars().next_back().or(self.before);
        self.out.add_cleaned(tone, &shown);
    }
}

/// A whole markdown text in tones.
#[must_use]
pub fn show(text: &str) -> Text {
    let mut markdown = Markdown::default();
    let mut out = markdown.push(text);
    out.append(markdown.finish());
    out
}

/// How often the first character of `text` stands there in a row, in bytes; marks are ASCII.
fn run(text: &str) -> usize {
    let first = text.chars().next();
    text.chars().take_while(|c| Some(*c) == first).map(char::len_utf8).sum()
}

/// What a line outside of a code block is.
fn line_start(held: &str, decide: bool) -> Start {
    let body = held.trim_start_matches([' ', '\t']);
    let indent = held.len() - body.len();
    let Some(mark) = body.chars().next() else {
        return if decide { TEXT } else { Start::Wait };
    };
    let len = run(body);
    let behind = body[len..].chars().next();
    if !"#`~-*_+>|".contains(mark) && !mark.is_ascii_digit() {
        return TEXT;
    }
    if behind.is_none() && !decide && len <= HELD_MAX && !matches!(mark, '>' | '|') {
        return Start::Wait;
    }
    match mark {
        '>' => Start::Marked(indent + 1, Tone::Dim, Place::Inline(Tone::Italic)),
        '|' => Start::Marked(0, Tone::Plain, Place::Verbatim(Tone::Plain)),
        '#' if len <= 6 && behind.is_none_or(|c| c == ' ') => {
            Start::Marked(0, Tone::Plain, Place::Verbatim(Tone::Heading))
        }
        '-' | '*' | '_' if len >= 3 && behind.is_none() => {
            Start::Marked(0, Tone::Plain, Place::Verbatim(Tone::Dim))
        }
        '-' | '*' | '+' if len == 1 && behind.is_none_or(|c| c == ' ') => {
            Start::Marked(indent + 1, Tone::Accent, Place::Inline(Tone::Plain))
        }
        '`' | '~' if len >= 3 => fence_opening(body, mark, len, decide),
        '0'..='9' => numbered(body, indent, decide),
        _ => TEXT,
    }
}

/// A line that starts like a fence is one unless it has further backticks: then it is inline code.
fn fence_opening(body: &str, mark: char, len: usize, decide: bool) -> Start {
    match (mark == '`' && body[len..].contains('`'), decide) {
        (true, _) => TEXT,
        (false, true) => Start::Opens(Fence { mark, len }),
        (false, false) => Start::Wait,
    }
}

/// `12. ` or `12) `.
fn numbered(body: &str, indent: usize, decide: bool) -> Start {
    let digits = body.bytes().take_while(u8::is_ascii_digit).count();
    let mut behind = body[digits..].chars();
    match (behind.next(), behind.next()) {
        _ if digits > 9 => TEXT,
        (None, _) | (Some('.' | ')'), None) if !decide => Start::Wait,
        (Some('.' | ')'), None | Some(' ')) => {
            Start::Marked(indent + digits + 1, Tone::Accent, Place::Inline(Tone::Plain))
        }
        _ => TEXT,
    }
}

/// What a line inside of a code block is.
fn fenced_start(held: &str, fence: Fence, decide: bool) -> Start {
    const CODE: Start = Start::Marked(0, Tone::Plain, Place::Verbatim(Tone::Code));
    let body = held.trim_start_matches(' ');
    if held.len() - body.len() > 3 {
        return CODE;
    }
    let len = if body.starts_with(fence.mark) { run(body) } else { 0 };
    match (body[len..].trim_end_matches(' ').is_empty(), decide) {
        (true, false) => Start::Wait,
        (true, true) if len >= fence.len => Start::Closes,
        (false, _) | (true, true) => CODE,
    }
}

/// How many bytes of `held` are certain, and their tone (`None`: that of the surrounding text). Nothing
/// when it depends on what follows; with `give_up` there is always something.
fn inline(held: &str, before: Option<char>, give_up: bool) -> Option<(usize, Option<Tone>)> {
    let mark = held.chars().next()?;
    match mark {
        '`' => code(held, give_up),
        '*' | '_' => emphasis(held, mark, before, give_up),
        '[' => link(held, give_up),
        '\\' => match held[1..].chars().next() {
            None if !give_up => None,
            Some(c) if c.is_ascii_punctuation() => Some((2, None)),
            _ => Some((1, None)),
        },
        _ => Some((held.find(['`', '*', '_', '[', '\\']).unwrap_or(held.len()), None)),
    }
}

fn code(held: &str, give_up: bool) -> Option<(usize, Option<Tone>)> {
    let len = run(held);
    if len == held.len() && !give_up {
        return None;
    }
    match closing(held, '`', len, give_up, |_, _| true) {
        Closing::At(end) => Some((end, Some(Tone::Code))),
        Closing::None if give_up => Some((len, None)),
        Closing::None | Closing::Wait => None,
    }
}

fn emphasis(
    held: &str,
    mark: char,
    before: Option<char>,
    give_up: bool,
) -> Option<(usize, Option<Tone>)> {
    let len = run(held);
    let plain = Some((len, None));
    let Some(behind) = held[len..].chars().next() else {
        return if give_up { plain } else { None };
    };
    let in_word = mark == '_' && before.is_some_and(char::is_alphanumeric);
    if len > 3 || behind.is_whitespace() || in_word {
        return plain;
    }
    let may_close = |left: Option<char>, right: Option<char>| {
        left.is_some_and(|c| !c.is_whitespace())
            && (mark != '_' || !right.is_some_and(char::is_alphanumeric))
    };
    match closing(held, mark, len, give_up, may_close) {
        Closing::At(end) => Some((end, Some(if len == 1 { Tone::Italic } else { Tone::Strong }))),
        Closing::None if give_up => plain,
        Closing::None | Closing::Wait => None,
    }
}

/// Where a span that `held` starts ends.
enum Closing {
    /// Behind this byte.
    At(usize),
    /// There may be more of the closing mark.
    Wait,
    /// Not in what is there.
    None,
}

/// Looks for a run of `mark` as long as the one at the start, whose neighbours `may_close` agrees to.
fn closing(
    held: &str,
    mark: char,
    len: usize,
    give_up: bool,
    may_close: impl Fn(Option<char>, Option<char>) -> bool,
) -> Closing {
    let mut at = len;
    while let Some(found) = held[at..].find(mark) {
        let start = at + found;
        let end = start + run(&held[start..]);
        if end == held.len() && !give_up {
            return Closing::Wait;
        }
        let (left, right) = (held[..start].chars().next_back(), held[end..].chars().next());
        if end - start == len && may_close(left, right) {
            return Closing::At(end);
        }
        at = end;
    }
    Closing::None
}

/// `[text](address)`.
fn link(held: &str, give_up: bool) -> Option<(usize, Option<Tone>)> {
    let plain = Some((1, None));
    let wait = if give_up { plain } else { None };
    let Some(close) = held.find(']') else { return wait };
    match held[close + 1..].chars().next() {
        None => wait,
        Some('(') => match held[close..].find(')') {
            None => wait,
            Some(end) => Some((close + end + 1, Some(Tone::Link))),
        },
        Some(_) => plain,
    }
}
