//! Values that a name in front of them gives away: `FOO_TOKEN=…`, `"password": "…"`, `--api-key …`.
//!
//! Responsible for: which names say so, and where the value is. Must not: judge the value, or look at more of it
//! than it takes to judge it unless it is a secret.

use super::judge::{Promise, Style, is_mixed, is_placeholder, looks_set, looks_used};
use super::makers::Alphabet;
use super::scan::{JUDGED, in_bare, is_blank, line_before, run, span};
use super::spoken::is_password_elsewhere;
use std::ops::Range;

/// Names are not longer.
const NAME: usize = 64;

/// How names end that promise a secret, without case and separators. A longer one stands before a shorter
/// one.
const NAMES: &[(&str, Promise)] = &[
    ("password", Promise::Password),
    ("passwd", Promise::Password),
    ("passwort", Promise::Password),
    ("passphrase", Promise::Password),
    ("passcode", Promise::Password),
    ("pgpass", Promise::Password),
    ("sshpass", Promise::Password),
    ("storepass", Promise::Password),
    ("keypass", Promise::Password),
    ("requirepass", Promise::Password),
    ("mysqlpwd", Promise::Password),
    ("kennwort", Promise::Password),
    ("contrasena", Promise::Password),
    ("motdepasse", Promise::Password),
    ("wachtwoord", Promise::Password),
    ("senha", Promise::Password),
    ("secretstring", Promise::Password),
    ("pass", Promise::Pass),
    ("pwd", Promise::Pass),
    ("pw", Promise::Pass),
    ("psk", Promise::Pass),
    ("apikey", Promise::Token),
    ("apitoken", Promise::Token),
    ("accesskey", Promise::Token),
    ("secretkey", Promise::Token),
    ("privatekey", Promise::Token),
    ("encryptionkey", Promise::Token),
    ("signingkey", Promise::Token),
    ("authkey", Promise::Token),
    ("masterkey", Promise::Token),
    ("accountkey", Promise::Token),
    ("accesskeyid", Promise::Token),
    ("presharedkey", Promise::Token),
    ("secretkeybase", Promise::Token),
    ("fernetkey", Promise::Token),
    ("sharedkey", Promise::Token),
    ("hmackey", Promise::Token),
    ("jwtkey", Promise::Token),
    ("pat", Promise::Token),
    ("credential", Promise::Token),
    ("credentials", Promise::Token),
    ("secret", Promise::Token),
    ("token", Promise::Token),
    ("auth", Promise::Token),
];

/// How names end that say `token` and mean a place in a list, a word of a language model, or that a call is the
/// same one.
const OTHERS: &[&str] = &[
    "nexttoken",
    "pagetoken",
    "continuationtoken",
    "synctoken",
    "starttoken",
    "endtoken",
    "eostoken",
    "bostoken",
    "padtoken",
    "unktoken",
    "septoken",
    "clstoken",
    "masktoken",
    "requesttoken",
    "idempotencytoken",
];

/// Where a value begins, and what ends it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place {
    from: usize,
    style: Style,
    ends: Ends,
}

#[derive(Debug, Clone, Copy)]
enum Ends {
    /// Where a value without quotes ends.
    Bare,
    /// With this quote; the value may hold escaped ones.
    Quote(u8),
    /// With this quote, which is escaped itself.
    EscapedQuote(u8),
    /// With the next tag.
    Tag,
}

impl Place {
    /// The value, or so much of it.
    pub(super) fn range(self, text: &str, most: usize) -> Range<usize> {
        let length = match self.ends {
            Ends::Bare => span(text, self.from, most, in_bare),
            Ends::Tag => span(text, self.from, most, |b| b != b'<' && b != b'\n'),
            Ends::EscapedQuote(quote) => {
                span(text, self.from, most, |b| b != quote && b != b'\n' && b != b'\\')
            }
            Ends::Quote(quote) => {
                let mut escaped = false;
                span(text, self.from, most, |b| {
                    let inside = escaped || b != quote;
                    escaped = !escaped && b == b'\\' && quote == b'"';
                    inside && b != b'\n'
                })
            }
        };
        self.from..self.from + length
    }
}

/// A secret behind a name that begins here.
pub(super) fn assigned(text: &str, at: usize) -> Option<(Range<usize>, &'static str)> {
    let length = name_length(text, at);
    let name = &text[at..at + length];
    let spoken = || name.eq_ignore_ascii_case("key") && is_kind_of_key(line_before(text, at));
    let promise = promise(name).or_else(|| spoken().then_some(Promise::Token))?;
    if let Some(value) = block(text, at + length) {
        return Some((value, label(promise)));
    }
    let place = value(text, at, length)?;
    let judged = place.range(text, JUDGED);
    let used = looks_used(&text[judged.clone()], promise, place.style)
        || promise != Promise::Token && sets(text, at, length, &judged) && looks_set(&text[judged]);
    used.then(|| (wrapped(text, place.range(text, usize::MAX)), label(promise)))
}

/// Whether a name without a doubt is set here as in a file of settings or on a command line, and not in a program:
/// `password=…`, `--password …`, and `ansible_become_pass: …` up to the end of the line.
fn sets(text: &str, at: usize, length: usize, value: &Range<usize>) -> bool {
    let name = &text[at..at + length];
    let option = text[..at].ends_with('-');
    let ends = |of: &[u8]| text.as_bytes().get(value.end).is_none_or(|b| of.contains(b));
    match &text[at + length..value.start] {
        "=" => ends(b" \t\r\n&;\"'"),
        " " => option && ends(b" \t\r\n\"'"),
        ": " => name.contains('_') && ends(b"\r\n"),
        _ => false,
    }
}

/// Whether this, in front of `key`, says which one, as in `API key: …`.
fn is_kind_of_key(before: &str) -> bool {
    let word = before.strip_suffix(' ').and_then(|before| before.rsplit([' ', '*', '"']).next());
    let kinds = ["api", "secret", "access", "private", "signing", "encryption"];
    word.is_some_and(|word| kinds.iter().any(|kind| word.eq_ignore_ascii_case(kind)))
}

/// What a string is by its name: in JSON, both are known for sure.
pub(super) fn keyed(name: &str, value: &str) -> Option<&'static str> {
    judged(name, value, Style::Quoted)
}

/// What a string is that stands behind another one in a list, as in `["X-Auth-Token", "…"]`.
pub(super) fn beside(name: &str, value: &str) -> Option<&'static str> {
    judged(name, value, Style::Beside)
}

fn judged(name: &str, value: &str, style: Style) -> Option<&'static str> {
    let some = span(value, 0, JUDGED, |_| true);
    if is_password_elsewhere(name) {
        let used = looks_used(&value[..some], Promise::Password, style);
        return used.then_some("password");
    }
    if name_length(name, 0) != name.len() {
        return None;
    }
    let promise = promise(name)?;
    looks_used(&value[..some], promise, style).then(|| label(promise))
}

pub(super) fn label(promise: Promise) -> &'static str {
    match promise {
        Promise::Password | Promise::Pass => "password",
        Promise::Token => "token",
    }
}

pub(super) fn name_length(text: &str, at: usize) -> usize {
    run(text, at, Alphabet::Word, NAME)
}

pub(super) fn promise(name: &str) -> Option<Promise> {
    if name.len() > NAME {
        return None;
    }
    // A number behind it (`TOKEN_2`) changes nothing.
    let name = name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '_' || c == '-');
    let (word, promise) = NAMES.iter().find(|(word, _)| ends_with(name, word))?;
    if *promise == Promise::Token && OTHERS.iter().any(|other| ends_with(name, other)) {
        return None;
    }
    // `auth` is the end of `oauth`, `pass` of `bypass`: they count only as words of their own.
    let whole = match *word {
        "auth" => name.bytes().filter(u8::is_ascii_alphanumeric).count() == word.len(),
        "pass" | "pwd" | "psk" | "pw" => is_last_word(name, word),
        // Alone it is a pattern.
        "pat" => name.len() > word.len() && is_last_word(name, word),
        _ => true,
    };
    whole.then_some(*promise)
}

/// Whether a name ends so, without case and separators.
fn ends_with(name: &str, word: &str) -> bool {
    let mut letters = name.bytes().rev().filter(u8::is_ascii_alphanumeric);
    word.bytes()
        .rev()
        .all(|b| letters.next().is_some_and(|letter| letter.to_ascii_lowercase() == b))
}

/// Whether a name's last word is this one: `pass`, `DB_PASS`, `db-pass`, `dbPass`.
fn is_last_word(name: &str, word: &str) -> bool {
    let Some(from) = name.len().checked_sub(word.len()) else { return false };
    let before = name.as_bytes().get(..from).and_then(<[u8]>::last);
    let capital = name.as_bytes().get(from).is_some_and(u8::is_ascii_uppercase);
    match before {
        None | Some(b'_' | b'-') => true,
        Some(byte) => byte.is_ascii_lowercase() && capital,
    }
}

/// Whether a value of that name is a secret.
pub(super) fn promises(name: &str) -> bool {
    promise(name).is_some()
}

/// Where the value is: behind quotes of the name, a separator, spaces and the value's own quotes.
pub(super) fn value(text: &str, at: usize, name_len: usize) -> Option<Place> {
    let end = at + name_len;
    if text[..at].ends_with('<') && text[end..].starts_with('>') {
        return Some(Place { from: end + 1, style: Style::Quoted, ends: Ends::Tag });
    }
    let gap = span(text, end, JUDGED, |b| b" \t\"'`\\:=]>|,".contains(&b));
    let between = &text[end..end + gap];
    let from = end + gap;
    let bare = |style| Some(Place { from, style, ends: Ends::Bare });
    let core: String = between.chars().filter(|c| !" \t\\".contains(*c)).collect();
    if core.is_empty() {
        let style = if text[..at].ends_with('-') { Style::Argument } else { Style::Environment };
        let says = style == Style::Argument || sets_variable(text, at);
        return match between {
            " " if says => bare(style),
            // Columns.
            _ if between.contains('\t') || between.contains("  ") => {
                if is_in_capitals(&text[at..end]) { bare(Style::Beside) } else { None }
            }
            _ => None,
        };
    }
    let quoted_argument = matches!(between, " \"" | " '" | " \\\"" | " \\'");
    if quoted_argument && (text[..at].ends_with('-') || sets_variable(text, at)) {
        return quoted(from, between, Style::Quoted);
    }
    // A value that is empty, and an index: `map["token"] = …` says what it is; `map[token] = …` does not.
    let index = core.find(']').is_some_and(|i| !core[..i].ends_with(['"', '\'']));
    if core.contains("\"\"") || core.contains("''") || index {
        return None;
    }
    let separator = core.trim_matches(['"', '\'', '`', ']']);
    let in_quotes = core.starts_with(['"', '\'']) && core.ends_with(['"', '\'']);
    let style = match separator {
        "|" if is_cell(line_before(text, at)) => Style::Beside,
        "," if in_quotes => Style::Beside,
        _ if separator.contains(['|', ',']) || !separator.contains([':', '=']) => return None,
        _ if separator.contains('>') && !separator.contains("=>") => return None,
        _ => assigned_style(&text[at..end], between),
    };
    quoted(from, between, style).or_else(|| bare(style))
}

/// A value behind its quote, with which what is between it and its name ends.
fn quoted(from: usize, between: &str, style: Style) -> Option<Place> {
    let mut bytes = between.bytes().rev();
    let quote = bytes.next().filter(|b| matches!(b, b'"' | b'\''))?;
    let escaped = bytes.next() == Some(b'\\');
    let ends = if escaped { Ends::EscapedQuote(quote) } else { Ends::Quote(quote) };
    Some(Place { from, style, ends })
}

/// Whether what follows this on its line is a cell of a table: another one is in front, or nothing.
fn is_cell(before: &str) -> bool {
    let before = before.trim_end_matches([' ', '\t', '`']);
    before.is_empty() || before.ends_with('|')
}

/// How a value behind a name, a separator and perhaps a quote is written.
fn assigned_style(name: &str, between: &str) -> Style {
    match between {
        "=" if is_in_capitals(name) => Style::Environment,
        "=\"" | "='" | "=\\\"" if is_in_capitals(name) => Style::QuotedEnvironment,
        _ if between.ends_with(['"', '\'']) => Style::Quoted,
        _ => Style::Bare,
    }
}

fn is_in_capitals(name: &str) -> bool {
    name.bytes().all(|b| b.is_ascii_uppercase() || b.is_ascii_digit() || b == b'_')
}

/// Whether a command that sets a variable of the environment stands in front of its name: `ENV` of a Dockerfile,
/// `set -x` of fish, `setx`.
fn sets_variable(text: &str, at: usize) -> bool {
    let before = line_before(text, at);
    let fish = |word: &str| word.starts_with('-') && word.contains('x');
    match before.split_whitespace().collect::<Vec<_>>().as_slice() {
        [.., "ENV" | "setx"] => true,
        [.., "set", option] => fish(option),
        _ => false,
    }
}

/// A block of YAML behind a name that ends here: `private_key: |` and lines that are further in.
fn block(text: &str, end: usize) -> Option<Range<usize>> {
    let at = end + span(text, end, 4, |b| b"\"' ".contains(&b));
    let rest = text.get(at..)?.strip_prefix(':')?.trim_start_matches([' ', '\t']);
    let rest = rest.strip_prefix(['|', '>'])?.trim_start_matches(['-', '+', '1', '2', '4']);
    let rest = rest.trim_start_matches([' ', '\r']).strip_prefix('\n')?;
    let mut at = text.len() - rest.len();
    let indent = span(text, at, NAME, is_blank);
    let first = at + indent;
    let length = run(text, first, Alphabet::Base64Url, usize::MAX);
    let judged = &text[first..first + length.min(JUDGED)];
    if indent == 0
        || length < 20
        || !is_mixed(judged)
        || is_placeholder(judged)
        || !ends_line(text, first + length)
    {
        return None;
    }
    let mut last = first + length;
    loop {
        at = last + span(text, last, 2, |b| b == b'\r' || b == b'\n');
        let indented = span(text, at, indent, is_blank) == indent;
        let length = run(text, at + indent, Alphabet::Base64Url, usize::MAX);
        if !indented || length == 0 || !ends_line(text, at + indent + length) {
            return Some(first..last);
        }
        last = at + indent + length;
    }
}

fn ends_line(text: &str, at: usize) -> bool {
    matches!(text.as_bytes().get(at), None | Some(b'\n' | b'\r' | b'"' | b'\''))
}

/// A value with the lines that it goes on for, where it is as long as a line of base64 is.
fn wrapped(text: &str, value: Range<usize>) -> Range<usize> {
    /// How long such a line is at least.
    const LINE: usize = 60;
    /// The last one is what is left; if it is shorter, it may be a word.
    const LAST: usize = 12;
    let width = value.len();
    let mut end = value.end;
    if width < LINE || run(text, value.start, Alphabet::Base64Url, width) != width {
        return value;
    }
    loop {
        let line = end + span(text, end, 2, |b| b == b'\r' || b == b'\n');
        let from = line + span(text, line, NAME, is_blank);
        let length = run(text, from, Alphabet::Base64Url, width + 1);
        let last = length < width;
        let ends = ends_line(text, from + length);
        if line == end || length > width || !ends || (last && length < LAST) {
            return value.start..end;
        }
        end = from + length;
        if last {
            return value.start..end;
        }
    }
}
