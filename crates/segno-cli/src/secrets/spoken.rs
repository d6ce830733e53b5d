//! Values that what stands around them gives away without a name and a sign of its own: netrc, cookies, SQL, what
//! is piped into a command, keys of PuTTY, names of other languages.
//!
//! Responsible for: these ways to say it. Must not: judge by less than a whole word, or look back or ahead further
//! than a bounded way.

use super::judge::{Promise, Style, is_mixed, is_placeholder, looks_used};
use super::makers::Alphabet;
use super::named::{label, name_length, promise, value};
use super::options::argument;
use super::scan::{JUDGED, before, has, in_bare, line_before, run, span, starts_word};
use std::ops::Range;

/// How far from a value what gives it away may stand.
const NEAR: usize = 200;

/// Shorter passwords are not looked for.
const LEAST: usize = 4;

type Secret = (Range<usize>, &'static str);

/// A value that is given away by the words in front of it, of which the last begins here.
pub(super) fn spoken(text: &str, at: usize) -> Option<Secret> {
    match text.as_bytes()[at].to_ascii_lowercase() {
        b'p' => netrc(text, at)
            .or_else(|| sql_password(text, at))
            .or_else(|| putty(text, at))
            .or_else(|| piped(text, at, "printf ")),
        b'v' if has(text, at, "value") => beside_name(text, at),
        b'c' | b's' => cookie_header(text, at),
        b'b' => identified_by(text, at),
        b'e' => piped(text, at, "echo "),
        b'a' => ngrok(text, at),
        _ => None,
    }
}

/// The password of an entry of netrc, on one line or on several.
fn netrc(text: &str, at: usize) -> Option<Secret> {
    const NAME: &str = "password";
    if !has(text, at, NAME) {
        return None;
    }
    let gap = span(text, at + NAME.len(), 8, |b| b" \t\r\n".contains(&b));
    let from = at + NAME.len() + gap;
    let value = from..from + span(text, from, JUDGED, in_bare);
    let login = || {
        let entry = before(text, at, NEAR);
        let line = entry.rsplit('\n').next().unwrap_or(entry);
        let alone = !line.bytes().any(|b| b.is_ascii_alphabetic());
        let entry = entry.rsplit_once("machine").or_else(|| entry.rsplit_once("default"));
        line.contains("login ") || alone && entry.is_some_and(|(_, entry)| is_login(entry))
    };
    let fits = gap > 0 && value.len() >= LEAST && !is_placeholder(&text[value.clone()]);
    (fits && login()).then_some((value, "password"))
}

/// Whether an entry of netrc, behind its first word, is as one is: few words, of which one is `login`.
fn is_login(entry: &str) -> bool {
    // A diff's mark may stand in front of a word.
    let words = entry.split_whitespace().map(|word| word.trim_start_matches(['+', '-', '>']));
    let words = words.filter(|word| word.len() > 1);
    words.clone().count() <= 6 && words.into_iter().any(|word| word == "login")
}

/// `CREATE USER … WITH PASSWORD '…'`
fn sql_password(text: &str, at: usize) -> Option<Secret> {
    let from = at + "password ".len();
    if !has(text, at, "password ") || !opens_quote(text, from) {
        return None;
    }
    let line = line_before(text, at).to_ascii_lowercase();
    let says = line.ends_with("with ") || line.contains("create ") || line.contains("alter ");
    quoted_argument(text, from).filter(|_| says)
}

/// `IDENTIFIED BY '…'`, `IDENTIFIED WITH … BY '…'`
fn identified_by(text: &str, at: usize) -> Option<Secret> {
    let from = at + "by ".len();
    if !has(text, at, "by ") || !opens_quote(text, from) {
        return None;
    }
    let says = line_before(text, at).to_ascii_lowercase().contains("identified ");
    quoted_argument(text, from).filter(|_| says)
}

/// Whether a quote opens here, escaped or not.
fn opens_quote(text: &str, from: usize) -> bool {
    let at = from + span(text, from, 8, |b| b == b' ' || b == b'\\');
    matches!(text.as_bytes().get(at), Some(b'\'' | b'"'))
}

fn quoted_argument(text: &str, from: usize) -> Option<Secret> {
    let value = argument(text, from);
    let used = value.len() >= LEAST && !is_placeholder(&text[value.clone()]);
    used.then_some((value, "password"))
}

/// `echo … | docker login --password-stdin`, `echo user:… | chpasswd`, `echo … | sudo -S …`
fn piped(text: &str, at: usize, command: &str) -> Option<Secret> {
    if !has(text, at, command) {
        return None;
    }
    let mut from = at + command.len();
    while let Some(flag) = ["-n ", "-e ", "'%s' ", "\"%s\" "].iter().find(|f| has(text, from, f)) {
        from += flag.len();
    }
    let mut value = argument(text, from);
    let behind = value.end + span(text, value.end, 8, |b| b"\"'\\ ".contains(&b));
    let into = behind..behind + span(text, behind, JUDGED, |b| b != b'\n');
    let into = text[into].strip_prefix('|')?;
    if into.contains("chpasswd") {
        value.start += text[value.clone()].find(':')? + 1;
    } else if !into.contains("--password-stdin") && !into.contains("sudo -S") {
        return None;
    }
    let said = &text[value.clone()];
    let used = said.len() >= LEAST && !is_placeholder(said) && !said.contains(['(', '{']);
    used.then_some((value, "password"))
}

/// `ngrok config add-authtoken …`
fn ngrok(text: &str, at: usize) -> Option<Secret> {
    let name = ["add-authtoken ", "authtoken "].into_iter().find(|name| has(text, at, name))?;
    let value = argument(text, at + name.len());
    let says = line_before(text, at).contains("ngrok ");
    (says && value.len() >= 20 && is_mixed(&text[value.clone()])).then_some((value, "token"))
}

/// The lines of a key of PuTTY that are private: `Private-Lines: 8` and so many of base64.
fn putty(text: &str, at: usize) -> Option<Secret> {
    const NAME: &str = "Private-Lines: ";
    if !text[at..].starts_with(NAME) {
        return None;
    }
    let from = at + NAME.len();
    let digits = span(text, from, 3, |b| b.is_ascii_digit());
    let count: usize = text[from..from + digits].parse().ok()?;
    let first = from + digits + span(text, from + digits, 2, |b| b == b'\r' || b == b'\n');
    let (mut line, mut end) = (first, first);
    for _ in 0..count {
        let length = run(text, line, Alphabet::Base64, usize::MAX);
        if length == 0 {
            break;
        }
        end = line + length;
        line = end + span(text, end, 2, |b| b == b'\r' || b == b'\n');
    }
    (end >= first + 20).then_some((first..end, "private-key"))
}

/// `Cookie: …`, `Set-Cookie: …`, `document.cookie = '…'`
fn cookie_header(text: &str, at: usize) -> Option<Secret> {
    let name = ["cookie", "set-cookie"].into_iter().find(|name| has(text, at, name))?;
    let end = at + name.len();
    let gap = span(text, end, 8, |b| b" \t\"'`\\:=]".contains(&b));
    let header = text[end..end + gap].contains(':');
    let says = header || text[end..end + gap].contains('=');
    if says { cookie(text, end + gap, header) } else { None }
}

/// The pairs of a cookie, from the first on that is long enough for a secret.
pub(super) fn cookie(text: &str, from: usize, header: bool) -> Option<Secret> {
    /// What is said of a cookie, and no part of it.
    const SAID: &[&str] = &["path", "domain", "expires", "max-age", "samesite", "comment"];
    let on_line = |b: u8| !b"\n\r\"'\\`".contains(&b);
    let some = &text[from..from + span(text, from, NEAR, on_line)];
    let mut at = 0;
    for pair in some.split(';') {
        let (name, value) = pair.split_once('=').unwrap_or_default();
        let name = name.trim();
        let named = !name.is_empty() && name.bytes().all(|b| Alphabet::Dotted.has(b));
        let said = SAID.iter().any(|said| name.eq_ignore_ascii_case(said));
        let digit = header || value.bytes().any(|b| b.is_ascii_digit());
        let plain = !value.contains(|c: char| c.is_whitespace() || "({".contains(c));
        if named && !said && digit && plain && value.len() >= 16 && !is_placeholder(value) {
            let start = from + at + pair.len() - value.len();
            return Some((start..start + span(text, start, usize::MAX, on_line), "cookie"));
        }
        at += pair.len() + 1;
    }
    None
}

/// A value that stands beside a name, in a list of variables: `name: API_TOKEN` and `value: …`, in either order.
fn beside_name(text: &str, at: usize) -> Option<Secret> {
    let place = value(text, at, "value".len())?;
    let range = place.range(text, JUDGED);
    let name = name_in_front(text, at).or_else(|| name_behind(text, range.end))?;
    let promise = promise(name)?;
    let used = looks_used(&text[range], promise, Style::Environment);
    used.then(|| (place.range(text, usize::MAX), label(promise)))
}

fn name_in_front(text: &str, at: usize) -> Option<&str> {
    let window = before(text, at, NEAR);
    let lower = window.to_ascii_lowercase();
    let end = |word: &str| lower.rfind(word).map(|at| at + word.len());
    let named = window.get(end("name").or_else(|| end("key"))?..)?;
    let name = named.trim_start_matches([' ', '\t', '"', '\'', '\\', ':', '=']);
    let len = name_length(name, 0);
    let between = !name[len..].contains(|c: char| !" \t\r\n\"',\\".contains(c));
    (name.len() < named.len() && between).then(|| &name[..len])
}

/// The name behind a value that ends here: `", "name": "API_TOKEN"`.
pub(super) fn name_behind(text: &str, end: usize) -> Option<&str> {
    let some = text.get(end..end + span(text, end, NEAR, |_| true))?;
    let rest = some.trim_start_matches([' ', '\t', '\r', '\n', '"', '\'', '\\', ',']);
    let word = ["name", "key"].into_iter().find(|word| has(rest, 0, word))?;
    let name = rest[word.len()..].trim_start_matches(['"', '\'', '\\', ' ']);
    let name = name.strip_prefix(':')?.trim_start_matches(['"', '\'', '\\', ' ']);
    let len = name_length(name, 0);
    (rest.len() < some.len() && len > 0).then(|| &name[..len])
}

/// What passwords are called elsewhere, where that is not of Latin letters or of several words.
const ELSEWHERE: &[&str] = &[
    "contraseña",
    "Contraseña",
    "CONTRASEÑA",
    "mot de passe",
    "Mot de passe",
    "пароль",
    "Пароль",
    "ПАРОЛЬ",
    "密码",
    "密碼",
    "口令",
    "パスワード",
    "비밀번호",
    "lösenord",
    "Lösenord",
    "hasło",
    "Hasło",
];

/// Whether a name says so in another language.
pub(super) fn is_password_elsewhere(name: &str) -> bool {
    ELSEWHERE.contains(&name)
}

/// A password behind a name of another language.
pub(super) fn elsewhere(text: &str, at: usize) -> Option<Secret> {
    let rest = &text[at..];
    let name = ELSEWHERE.iter().find(|name| rest.starts_with(**name))?;
    let of_gap = |c: char| " \t\"'`\\:=*：".contains(c);
    let behind = &rest[name.len()..];
    let gap = behind.char_indices().take(8).find(|(_, c)| !of_gap(*c)).map(|(at, _)| at)?;
    let said = behind[..gap].contains([':', '=', '：']);
    let from = at + name.len() + gap;
    let value = from..from + span(text, from, JUDGED, in_bare);
    let used = said && looks_used(&text[value.clone()], Promise::Password, Style::Bare);
    used.then_some((value, "password"))
}

/// The secret in a list of AWS's keys, behind the id in front of this comma: `AKIA…,…`.
pub(super) fn behind_key_id(text: &str, at: usize) -> Option<Secret> {
    /// How long an id is, and a secret.
    const LENGTHS: (usize, usize) = (20, 40);
    let begin = at.checked_sub(LENGTHS.0)?;
    let id = text.get(begin..at)?;
    let marked = (id.starts_with("AKIA") || id.starts_with("ASIA"))
        && id.bytes().all(|b| Alphabet::Upper.has(b));
    let from = at + 1;
    let secret = marked && run(text, from, Alphabet::Base64, LENGTHS.1 + 1) == LENGTHS.1;
    secret.then_some((from..from + LENGTHS.1, "aws-secret"))
}

/// A secret of Azure's directory, by the `Q~` in it of which the second letter is here: `abc8Q~…`.
pub(super) fn of_azure(text: &str, at: usize) -> Option<Secret> {
    let of_it = |b: u8| Alphabet::Dotted.has(b) || b == b'~';
    let begin = at.checked_sub(5)?;
    let marked = matches!(text.as_bytes().get(begin..at)?, [a, b, c, digit, b'Q']
        if of_it(*a) && of_it(*b) && of_it(*c) && digit.is_ascii_digit());
    let from = at + 1;
    let length = span(text, from, 41, of_it);
    let fits = marked && (31..=40).contains(&length) && text.is_char_boundary(begin);
    (fits && starts_word(text, begin)).then_some((begin..from + length, "azure-secret"))
}

/// A key of Firebase's older messaging: `AAAA…:APA91b…`.
pub(super) fn of_firebase(text: &str, at: usize) -> Option<Secret> {
    /// What stands in front of the mark.
    const FIRST: usize = 11;
    let marked = text[at..].starts_with("AAAA")
        && run(text, at, Alphabet::Word, FIRST + 1) == FIRST
        && text[at + FIRST..].starts_with(":APA91b");
    let length = if marked { run(text, at + FIRST + 1, Alphabet::Word, usize::MAX) } else { 0 };
    (length >= 100).then_some((at..at + FIRST + 1 + length, "firebase-key"))
}

/// Whether a member of a key as JSON is private, and long enough.
pub(super) fn is_private_member(name: &str, value: &str) -> bool {
    let private = matches!(name, "d" | "p" | "q" | "dp" | "dq" | "qi" | "k");
    private && value.len() >= 20 && value.bytes().all(|b| Alphabet::Base64Url.has(b))
}

/// Whether a member at this place is one of a key as JSON: its kind stands near it.
pub(super) fn is_in_key(text: &str, at: usize) -> bool {
    /// The longest member of a usual key is shorter.
    const AROUND: usize = 1024;
    let behind = at + span(text, at, AROUND, |_| true);
    let kind = |part: &str| part.contains("\"kty\"");
    kind(before(text, at, AROUND)) || text.get(at..behind).is_some_and(kind)
}

/// A private member of a key as JSON, of which the name begins here: `"d":"…"`.
pub(super) fn private_member(text: &str, at: usize) -> Option<Secret> {
    let name = name_length(text, at).min(3);
    let gap = span(text, at + name, 8, |b| b"\": ".contains(&b));
    if name > 2 || !text[..at].ends_with('"') || !text[at + name..].starts_with('"') || gap < 3 {
        return None;
    }
    let from = at + name + gap;
    let value = from..from + run(text, from, Alphabet::Base64Url, usize::MAX);
    let private = is_private_member(&text[at..at + name], &text[value.clone()]);
    (private && is_in_key(text, from)).then_some((value, "private-key"))
}
