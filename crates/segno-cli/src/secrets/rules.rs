//! Where secrets are in a text.
//!
//! Responsible for: the rules, one after the other, and where what they find begins and ends. Must not:
//! change the text.

use super::judge::{is_mixed, is_name, is_placeholder};
use super::makers::{Alphabet, TOKENS, Token, UNMISTAKABLE};
use super::packed::packed;
use super::plain::Plain;
use super::scan::{has, run, span, starts_word};
use super::{address, named, options, spoken};
use std::borrow::Cow;
use std::cmp::Reverse;
use std::ops::Range;

/// Values behind a name that says what they are; the name may stand in any case.
const NAMED: &[(&str, &str, Alphabet, usize)] = &[
    ("aws-secret", "aws_secret_access_key", Alphabet::Base64, 16),
    ("aws-secret", "secret access key", Alphabet::Base64, 40),
    ("aws-session-token", "aws_session_token", Alphabet::Base64, 16),
    ("aws-signature", "signature=", Alphabet::Hex, 64),
    ("aws-signature", "x-amz-signature=", Alphabet::Hex, 64),
    ("azure-key", "AccountKey", Alphabet::Base64, 40),
    ("azure-key", "SharedAccessKey", Alphabet::Base64, 40),
    ("azure-signature", "sig", Alphabet::Url, 40),
    ("api-key", "x-api-key", Alphabet::Dotted, 12),
];

/// A secret in a text.
#[derive(Debug)]
pub(super) struct Found<'a> {
    /// Where it stands.
    pub(super) range: Range<usize>,
    /// What it is, without what hid it there.
    pub(super) secret: Cow<'a, str>,
    /// Of which kind.
    pub(super) label: &'static str,
}

/// Where secrets are, in order and apart from each other: as the text was written, and as it reads without what
/// hides in it.
pub(super) fn find<'a>(text: &'a str, plain: Option<&Plain>) -> Vec<Found<'a>> {
    let as_written = find_in(text, true).into_iter().map(|(range, label)| {
        let secret = Cow::Borrowed(&text[range.clone()]);
        Found { range, secret, label }
    });
    let read = plain.into_iter().flat_map(|plain| {
        find_in(&plain.text, true).into_iter().map(|(range, label)| {
            let secret = Cow::Owned(plain.text[range.clone()].to_owned());
            Found { range: plain.written(&range), secret, label }
        })
    });
    let mut found: Vec<Found<'_>> = read.chain(as_written).collect();
    // Of two at one place the longer one counts, and of those what it reads as.
    found.sort_by_key(|found| (found.range.start, Reverse(found.range.end)));
    let mut apart: Vec<Found<'_>> = Vec::new();
    for next in found {
        match apart.last_mut().filter(|last| next.range.start < last.range.end) {
            Some(last) if next.range.end > last.range.end => {
                last.range.end = next.range.end;
                last.secret = Cow::Borrowed(&text[last.range.clone()]);
            }
            Some(_) => {}
            None => apart.push(next),
        }
    }
    apart
}

/// Where secrets are in a text as it is; what is packed in it is looked into, or not.
pub(super) fn find_in(text: &str, unpacks: bool) -> Vec<(Range<usize>, &'static str)> {
    let bytes = text.as_bytes();
    let mut found = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        let starts = starts_word(text, at);
        let (skipped, secret) = match secret_at(text, at, starts) {
            None if starts && bytes[at].is_ascii_alphanumeric() => {
                let packed = packed(text, at, unpacks);
                (packed.skipped, packed.secret)
            }
            secret => (at + 1, secret),
        };
        at = secret.as_ref().map_or(skipped, |(range, _)| range.end);
        found.extend(secret);
    }
    found
}

/// A secret whose mark begins here.
fn secret_at(text: &str, at: usize, starts: bool) -> Option<(Range<usize>, &'static str)> {
    match text.as_bytes()[at] {
        b'-' => private_key(text, at).or_else(|| flag(text, at)),
        b'_' if starts => assigned(text, at),
        b':' => address::user_info(text, at),
        b',' | b'\t' => spoken::behind_key_id(text, at),
        b'~' => spoken::of_azure(text, at),
        b'$' => password_hash(text, at),
        byte if starts && byte.is_ascii_alphabetic() => of_maker(text, at)
            .or_else(|| json_web_token(text, at))
            .or_else(|| discord(text, at))
            .or_else(|| spoken::of_firebase(text, at))
            .or_else(|| address::telegram(text, at))
            .or_else(|| address::path(text, at))
            .or_else(|| authorization(text, at))
            .or_else(|| bearer(text, at))
            .or_else(|| by_name(text, at))
            .or_else(|| spoken::spoken(text, at))
            .or_else(|| spoken::elsewhere(text, at))
            .or_else(|| spoken::private_member(text, at))
            .or_else(|| assigned(text, at)),
        byte if byte.is_ascii_alphabetic() => within_word(text, at),
        byte if starts && byte.is_ascii_digit() => {
            address::telegram(text, at).or_else(|| of_maker(text, at))
        }
        byte if !byte.is_ascii() && text.is_char_boundary(at) => spoken::elsewhere(text, at),
        _ => None,
    }
}

/// A secret behind its name; where its maker marked it, by that mark.
fn assigned(text: &str, at: usize) -> Option<(Range<usize>, &'static str)> {
    let (range, label) = named::assigned(text, at)?;
    let marked = of_maker(text, range.start).or_else(|| json_web_token(text, range.start));
    Some(marked.filter(|(marked, _)| marked.end >= range.end).unwrap_or((range, label)))
}

/// What an option of a command says: `--token …`, `curl -u user:…`, `sshpass -p …`.
fn flag(text: &str, at: usize) -> Option<(Range<usize>, &'static str)> {
    if !starts_word(text, at) {
        return None;
    }
    let named = text[at..].starts_with("--").then(|| assigned(text, at + 2)).flatten();
    named.or_else(|| options::of_curl(text, at)).or_else(|| options::short_option(text, at))
}

fn of_maker(text: &str, at: usize) -> Option<(Range<usize>, &'static str)> {
    let first = text.as_bytes().get(at)?;
    let of_first = |token: &&Token| token.prefix.as_bytes().first() == Some(first);
    TOKENS.iter().filter(of_first).find_map(|token| made(text, at, token))
}

/// A credential of this maker that begins here.
fn made(text: &str, at: usize, token: &Token) -> Option<(Range<usize>, &'static str)> {
    if !text.as_bytes()[at..].starts_with(token.prefix.as_bytes()) {
        return None;
    }
    let body = at + token.prefix.len();
    let length = run(text, body, token.alphabet, token.most.saturating_add(1));
    let end = body + length;
    // What makers print in their own documentation.
    let fits = (token.least..=token.most).contains(&length) && !text[body..end].contains("EXAMPLE");
    fits.then_some((at..end, token.label))
}

/// A credential whose mark is in use for nothing else, behind a letter or a dash: `xxghp_…`. What it consists of
/// must look made, as the mark may come up in long letters of base64.
fn within_word(text: &str, at: usize) -> Option<(Range<usize>, &'static str)> {
    if !b"sgxrndpG".contains(&text.as_bytes()[at]) {
        return None;
    }
    let prefix = UNMISTAKABLE.iter().find(|prefix| text[at..].starts_with(**prefix))?;
    let token = TOKENS.iter().find(|token| token.prefix == *prefix)?;
    let (range, label) = made(text, at, token)?;
    let body = &text[at + prefix.len()..range.end];
    let has = |of: fn(&u8) -> bool| body.bytes().any(|b| of(&b));
    let mixed =
        has(u8::is_ascii_digit) && has(u8::is_ascii_lowercase) && has(u8::is_ascii_uppercase);
    mixed.then_some((range, label))
}

/// Three parts, each behind a dot, of letters that a machine made; five where it is encrypted.
fn json_web_token(text: &str, at: usize) -> Option<(Range<usize>, &'static str)> {
    if !text[at..].starts_with("eyJ") {
        return None;
    }
    let (mut end, mut parts, mut short) = (at, 0, false);
    while parts < 6 {
        let length = run(text, end, Alphabet::Word, usize::MAX);
        if length == 0 {
            break;
        }
        // The second of five may be empty of what is said, and is short.
        short |= length < 10;
        parts += 1;
        end += length;
        match text.as_bytes().get(end) {
            Some(b'.') if run(text, end + 1, Alphabet::Word, 1) == 1 => end += 1,
            _ => break,
        }
    }
    (matches!(parts, 3 | 5) && !short).then_some((at..end, "web-token"))
}

/// The token of a bot at Discord: an id in base64, a time, and what signs both.
fn discord(text: &str, at: usize) -> Option<(Range<usize>, &'static str)> {
    if !matches!(text.as_bytes()[at], b'M' | b'N' | b'O') {
        return None;
    }
    let mut end = at;
    for (part, lengths) in [24..=28, 6..=6, 27..=38].into_iter().enumerate() {
        end += usize::from(part > 0);
        let length = run(text, end, Alphabet::Word, 39);
        let dot = text.as_bytes().get(end + length) == Some(&b'.');
        if !lengths.contains(&length) || (part < 2 && !dot) {
            return None;
        }
        end += length;
    }
    is_mixed(&text[at..end]).then_some((at..end, "discord-token"))
}

fn private_key(text: &str, at: usize) -> Option<(Range<usize>, &'static str)> {
    let rest = text[at..].strip_prefix("-----BEGIN ")?;
    let kind = rest.get(..64.min(rest.len())).unwrap_or(rest).split("-----").next()?;
    if !kind.ends_with("PRIVATE KEY") && !kind.ends_with("PRIVATE KEY BLOCK") {
        return None;
    }
    let body = at + "-----BEGIN ".len() + kind.len() + "-----".len();
    let end_mark = format!("-----END {kind}-----");
    let end = key_end(text, body).filter(|end| text[*end..].starts_with(&end_mark));
    // Numbered lines, escapes and the quotes of a program's text may stand between; a program does not.
    let stray = |c: char| "{}();<".contains(c);
    if let Some(end) = end.filter(|end| !text[body..*end].contains(stray)) {
        return Some((at..end + end_mark.len(), "private-key"));
    }
    // One that is cut off is a secret as far as it goes on.
    let of_key = |c: char| c.is_ascii_alphanumeric() || "+/=\\ \t\r\n".contains(c);
    let length = span(text, body, usize::MAX, |byte| of_key(char::from(byte)));
    let letters = text[body..body + length].bytes().filter(u8::is_ascii_alphanumeric).count();
    let whole = body + length == text.len() && letters > 0;
    (whole || letters >= 40).then_some((at..body + length, "private-key"))
}

/// Where the line that ends a key begins, if nothing else begins before it. So each byte is looked at for one key.
fn key_end(text: &str, body: usize) -> Option<usize> {
    let mut dashes = 0;
    let length = span(text, body, usize::MAX, |byte| {
        let ends = dashes >= 5 && byte != b'-';
        dashes = if byte == b'-' { dashes + 1 } else { 0 };
        !ends
    });
    // The last five of the dashes belong to it.
    (body + length).checked_sub(5).filter(|at| *at >= body && text.is_char_boundary(*at))
}

/// Behind a name: quotes, a colon or an equals sign, and spaces, in any escaping.
fn behind_separator(text: &str, from: usize) -> Option<usize> {
    let rest = text.get(from..)?;
    let gap = span(rest, 0, usize::MAX, |b| b" \t\"'\\:=".contains(&b));
    rest[..gap].contains([':', '=']).then_some(from + gap)
}

fn authorization(text: &str, at: usize) -> Option<(Range<usize>, &'static str)> {
    const NAME: &str = "authorization";
    if !has(text, at, NAME) {
        return None;
    }
    let from = behind_separator(text, at + NAME.len())?;
    let of_value = |b: u8| !b.is_ascii_whitespace() && !b"\"'`\\,;".contains(&b);
    let value = |body: usize| body..body + span(text, body, usize::MAX, of_value);
    let scheme = ["bearer ", "basic ", "token ", "apikey "].iter().find(|s| has(text, from, s));
    if let Some(scheme) = scheme {
        let value = value(from + scheme.len());
        let used = value.len() >= 8 && !stands_for_one(&text[value.clone()]);
        return used.then_some((value, "authorization"));
    }
    // Another scheme, or none.
    let first = value(from);
    let second = has(text, first.end, " ").then(|| value(first.end + 1));
    let value = second.filter(|second| !second.is_empty() && first.len() <= 24).unwrap_or(first);
    let said = &text[value.clone()];
    let alone = !matches!(text.as_bytes().get(value.end), Some(b' ' | b','));
    let made = said.len() >= 16 && is_mixed(said) && said.bytes().any(|b| b.is_ascii_digit());
    let of_program = said.trim_end_matches('=').contains(['=', '(', '{', '[', '$', '<']);
    let used = alone && made && !of_program && !is_name(said) && !stands_for_one(said);
    used.then_some((value, "authorization"))
}

/// Whether something stands where a token is to be put. A long one is a token whatever is in it.
fn stands_for_one(value: &str) -> bool {
    /// Longer than what people write there.
    const LONG: usize = 40;
    value.starts_with(['$', '{', '<', '*', '[']) || value.len() <= LONG && is_placeholder(value)
}

fn by_name(text: &str, at: usize) -> Option<(Range<usize>, &'static str)> {
    let (label, name, alphabet, least) =
        NAMED.iter().find(|(_, name, _, _)| has(text, at, name))?;
    let end = at + name.trim_end_matches('=').len();
    let from = behind_separator(text, end + default(text, end))?;
    let length = run(text, from, *alphabet, usize::MAX);
    (length >= *least).then_some((from..from + length, *label))
}

/// What is shown of a value that is there already, as in `AWS Secret Access Key [None]: `.
fn default(text: &str, at: usize) -> usize {
    let length = span(text, at, 32, |b| b" []*".contains(&b) || b.is_ascii_alphanumeric());
    if text[at..at + length].starts_with(" [") && text[at..at + length].ends_with(']') {
        length
    } else {
        0
    }
}

/// Whether a key's value is known by this name for what it is.
pub(super) fn is_header(key: &str) -> bool {
    NAMED.iter().any(|(_, name, _, _)| key.eq_ignore_ascii_case(name))
}

/// `Bearer` and what a machine made, wherever it stands.
fn bearer(text: &str, at: usize) -> Option<(Range<usize>, &'static str)> {
    const NAME: &str = "bearer ";
    if !has(text, at, NAME) {
        return None;
    }
    let from = at + NAME.len();
    let length = run(text, from, Alphabet::Base64Url, usize::MAX);
    let value = &text[from..from + length];
    let made = length >= 20 && value.bytes().any(|b| b.is_ascii_digit());
    let made = made && !stands_for_one(value);
    made.then_some((from..from + length, "authorization"))
}

/// `$6$…`: what a system keeps of a password.
fn password_hash(text: &str, at: usize) -> Option<(Range<usize>, &'static str)> {
    /// How each begins, and how long its last part is at least.
    const KINDS: &[(&str, usize)] = &[
        ("$1$", 22),
        ("$apr1$", 22),
        ("$2a$", 53),
        ("$2b$", 53),
        ("$2y$", 53),
        ("$5$", 43),
        ("$6$", 86),
        ("$7$", 43),
        ("$y$", 43),
        ("$gy$", 43),
        ("$argon2i$", 22),
        ("$argon2d$", 22),
        ("$argon2id$", 22),
        ("$scrypt$", 22),
        ("$pbkdf2-", 22),
    ];
    let (kind, least) = KINDS.iter().find(|(kind, _)| text[at..].starts_with(kind))?;
    let of_hash = |b: u8| b.is_ascii_alphanumeric() || b"./$=,+-".contains(&b);
    let body = at + kind.len();
    let end = body + span(text, body, 512, of_hash);
    let last = text[body..end].rsplit('$').next()?;
    (last.len() >= *least).then_some((at..end, "password-hash"))
}
