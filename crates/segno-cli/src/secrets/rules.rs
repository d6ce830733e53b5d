//! Where secrets are in a text.
//!
//! Responsible for: the rules, one after the other, and where what they find begins and ends. Must not:
//! change the text.

use super::makers::{Alphabet, TOKENS, Token};
use super::named;
use std::ops::Range;

/// So many letters of base64 in a row are a picture or a file, and nothing is looked for within.
const PICTURE: usize = 256;

/// Values behind a name that says what they are; the name may stand in any case.
const NAMED: &[(&str, &str, Alphabet, usize)] = &[
    ("aws-secret", "aws_secret_access_key", Alphabet::Base64, 16),
    ("aws-session-token", "aws_session_token", Alphabet::Base64, 16),
    ("azure-key", "AccountKey", Alphabet::Base64, 40),
    ("azure-key", "SharedAccessKey", Alphabet::Base64, 40),
    ("azure-signature", "sig", Alphabet::Url, 40),
    ("api-key", "x-api-key", Alphabet::Dotted, 12),
];

/// Where secrets are, in order and apart from each other.
pub(super) fn find(text: &str) -> Vec<(Range<usize>, &'static str)> {
    let bytes = text.as_bytes();
    let mut found = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        if let Some((range, label)) = secret_at(text, at) {
            at = range.end;
            found.push((range, label));
            continue;
        }
        let starts = bytes[at].is_ascii_alphanumeric() && starts_word(text, at);
        let picture = if starts { run(text, at, Alphabet::Base64) } else { 0 };
        at += if picture >= PICTURE { picture } else { 1 };
    }
    found
}

/// A secret whose mark begins here.
fn secret_at(text: &str, at: usize) -> Option<(Range<usize>, &'static str)> {
    match text.as_bytes()[at] {
        b'-' => private_key(text, at).or_else(|| flag(text, at)),
        b'_' if starts_word(text, at) => assigned(text, at),
        b':' => url_password(text, at),
        byte if byte.is_ascii_alphabetic() && starts_word(text, at) => of_maker(text, at)
            .or_else(|| json_web_token(text, at))
            .or_else(|| authorization(text, at))
            .or_else(|| bearer(text, at))
            .or_else(|| by_name(text, at))
            .or_else(|| named::spoken(text, at))
            .or_else(|| assigned(text, at)),
        byte if byte.is_ascii_digit() && starts_word(text, at) => telegram(text, at),
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
    named.or_else(|| named::curl_user(text, at)).or_else(|| named::short_option(text, at))
}

/// In JSON within JSON a word may follow the letter of an escape, as in `\nsk-…`.
fn starts_word(text: &str, at: usize) -> bool {
    let bytes = text.as_bytes();
    let before = at.checked_sub(1).map(|i| bytes[i]);
    let escape = at >= 2 && bytes[at - 2] == b'\\' && b"nrt".contains(&bytes[at - 1]);
    escape || before.is_none_or(|byte| !Alphabet::Word.has(byte))
}

fn run(text: &str, from: usize, alphabet: Alphabet) -> usize {
    let bytes = text.as_bytes().get(from..).unwrap_or_default();
    bytes.iter().take_while(|byte| alphabet.has(**byte)).count()
}

fn of_maker(text: &str, at: usize) -> Option<(Range<usize>, &'static str)> {
    let matching = |token: &&Token| {
        let body = at + token.prefix.len();
        text[at..].starts_with(token.prefix)
            && (token.least..=token.most).contains(&run(text, body, token.alphabet))
    };
    let token = TOKENS.iter().find(matching)?;
    let body = at + token.prefix.len();
    let end = body + run(text, body, token.alphabet);
    // What makers print in their own documentation.
    (!text[body..end].contains("EXAMPLE")).then_some((at..end, token.label))
}

fn json_web_token(text: &str, at: usize) -> Option<(Range<usize>, &'static str)> {
    if !text[at..].starts_with("eyJ") {
        return None;
    }
    let length = run(text, at, Alphabet::Dotted);
    let parts: Vec<&str> = text[at..at + length].trim_end_matches('.').split('.').collect();
    let whole = parts.len() == 3 && parts.iter().all(|part| part.len() >= 10);
    whole.then(|| (at..at + parts.iter().map(|part| part.len()).sum::<usize>() + 2, "web-token"))
}

fn private_key(text: &str, at: usize) -> Option<(Range<usize>, &'static str)> {
    let rest = text[at..].strip_prefix("-----BEGIN ")?;
    let kind = rest.get(..64.min(rest.len())).unwrap_or(rest).split("-----").next()?;
    if !kind.ends_with("PRIVATE KEY") && !kind.ends_with("PRIVATE KEY BLOCK") {
        return None;
    }
    let body = at + "-----BEGIN ".len() + kind.len() + "-----".len();
    let end_mark = format!("-----END {kind}-----");
    let end = text.get(body..)?.find(&end_mark).map(|found| body + found);
    // Numbered lines, escapes and the quotes of a program's text may stand between; a program does not.
    let stray = |c: char| "{}();<".contains(c);
    if let Some(end) = end.filter(|end| !text[body..*end].contains(stray)) {
        return Some((at..end + end_mark.len(), "private-key"));
    }
    // One that is cut off is a secret as far as it goes on.
    let of_key = |c: char| c.is_ascii_alphanumeric() || "+/=\\ \t\r\n".contains(c);
    let length = text[body..].find(|c| !of_key(c)).unwrap_or(text.len() - body);
    let letters = text[body..body + length].bytes().filter(u8::is_ascii_alphanumeric).count();
    let whole = body + length == text.len() && letters > 0;
    (whole || letters >= 40).then_some((at..body + length, "private-key"))
}

/// `scheme://user:password@host`
fn url_password(text: &str, at: usize) -> Option<(Range<usize>, &'static str)> {
    let rest = text[at..].strip_prefix("://")?;
    let start = at + 3;
    let end = rest.find(|c: char| c.is_whitespace() || "/?#\"'`<>\\,;()".contains(c));
    let authority = &rest[..end.unwrap_or(rest.len())];
    let (user_info, _host) = authority.rsplit_once('@')?;
    let (user, password) = user_info.split_once(':')?;
    let placeholder = password.starts_with(['$', '{', '*', '%', '[']) || password.is_empty();
    let from = start + user.len() + 1;
    (!placeholder).then(|| (from..from + password.len(), "password"))
}

/// Behind a name: quotes, a colon or an equals sign, and spaces, in any escaping.
fn behind_separator(text: &str, from: usize) -> Option<usize> {
    let rest = text.get(from..)?;
    let gap = rest.find(|c: char| !" \t\"'\\:=".contains(c)).unwrap_or(rest.len());
    rest[..gap].contains([':', '=']).then_some(from + gap)
}

fn has_name(text: &str, at: usize, name: &str) -> bool {
    text.as_bytes()
        .get(at..at + name.len())
        .is_some_and(|bytes| bytes.eq_ignore_ascii_case(name.as_bytes()))
}

fn authorization(text: &str, at: usize) -> Option<(Range<usize>, &'static str)> {
    const NAME: &str = "authorization";
    if !has_name(text, at, NAME) {
        return None;
    }
    let from = behind_separator(text, at + NAME.len())?;
    let scheme =
        ["bearer ", "basic ", "token ", "apikey "].iter().find(|s| has_name(text, from, s))?;
    let body = from + scheme.len();
    let end = text[body..].find(|c: char| c.is_whitespace() || "\"'`\\,;".contains(c));
    let end = end.map_or(text.len(), |end| body + end);
    let placeholder = text[body..].starts_with(['$', '{', '<', '*', '[']);
    (end - body >= 8 && !placeholder).then_some((body..end, "authorization"))
}

fn by_name(text: &str, at: usize) -> Option<(Range<usize>, &'static str)> {
    let (label, name, alphabet, least) =
        NAMED.iter().find(|(_, name, _, _)| has_name(text, at, name))?;
    let from = behind_separator(text, at + name.len())?;
    let length = run(text, from, *alphabet);
    (length >= *least).then_some((from..from + length, *label))
}

/// `Bearer` and what a machine made, wherever it stands.
fn bearer(text: &str, at: usize) -> Option<(Range<usize>, &'static str)> {
    const NAME: &str = "bearer ";
    if !has_name(text, at, NAME) {
        return None;
    }
    let from = at + NAME.len();
    let length = run(text, from, Alphabet::Base64Url);
    let value = &text[from..from + length];
    let made = length >= 20 && value.bytes().any(|b| b.is_ascii_digit());
    made.then_some((from..from + length, "authorization"))
}

/// `123456789:AA…`, a bot's token.
fn telegram(text: &str, at: usize) -> Option<(Range<usize>, &'static str)> {
    let digits = text.as_bytes()[at..].iter().take(11).take_while(|b| b.is_ascii_digit()).count();
    let body = at + digits + 1;
    let marked = (8..=10).contains(&digits) && text.get(at + digits..)?.starts_with(":AA");
    let length = run(text, body, Alphabet::Word);
    (marked && length == 35).then_some((at..body + length, "telegram-token"))
}
