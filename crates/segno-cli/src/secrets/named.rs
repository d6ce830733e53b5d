//! Values that a name in front of them gives away: `FOO_TOKEN=…`, `"password": "…"`, `--api-key …`.
//!
//! Responsible for: which names say so, where the value is, and whether it looks like one that is in use.
//! Must not: take a placeholder, a word of a program or a number for a secret.

use std::ops::Range;

/// What a name promises, and so what its value may look like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Promise {
    /// People choose it.
    Password,
    /// The same, by a name that is also a verb (`ALL_PASS=yes`).
    Pass,
    /// Machines made it.
    Token,
}

/// How names end that promise a secret, without case and separators. A longer one stands before a shorter
/// one.
const NAMES: &[(&str, Promise)] = &[
    ("password", Promise::Password),
    ("passwd", Promise::Password),
    ("passphrase", Promise::Password),
    ("pgpass", Promise::Password),
    ("mysqlpwd", Promise::Password),
    ("pass", Promise::Pass),
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
    ("credential", Promise::Token),
    ("credentials", Promise::Token),
    ("secret", Promise::Token),
    ("token", Promise::Token),
    ("auth", Promise::Token),
];

/// How the value is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Style {
    /// `NAME=value` in capitals, as in the environment: there is no program text in it.
    Environment,
    /// In quotes.
    Quoted,
    /// Behind a space, as an argument of a command.
    Argument,
    /// Anything else.
    Bare,
}

/// A secret behind a name that begins here.
pub(super) fn assigned(text: &str, at: usize) -> Option<(Range<usize>, &'static str)> {
    let name_len = name_length(text, at);
    let name = &text[at..at + name_len];
    let promise = promise(name)?;
    let (value, style) = value(text, at, name_len)?;
    looks_used(&text[value.clone()], promise, style).then_some((value, label(promise)))
}

fn label(promise: Promise) -> &'static str {
    match promise {
        Promise::Password | Promise::Pass => "password",
        Promise::Token => "token",
    }
}

fn name_length(text: &str, at: usize) -> usize {
    let of_name = |b: &u8| b.is_ascii_alphanumeric() || *b == b'_' || *b == b'-';
    let bytes = text.as_bytes().get(at..).unwrap_or_default();
    bytes.iter().take(64).take_while(|b| of_name(b)).count()
}

fn promise(name: &str) -> Option<Promise> {
    // A number behind it (`TOKEN_2`) changes nothing.
    let name = name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '_' || c == '-');
    let plain: String =
        name.chars().filter(char::is_ascii_alphanumeric).collect::<String>().to_ascii_lowercase();
    let (word, promise) = NAMES.iter().find(|(word, _)| plain.ends_with(word))?;
    // `auth` is the end of `oauth`, `pass` of `bypass`: they count only as words of their own.
    let whole = match *word {
        "auth" => plain == "auth",
        "pass" => is_last_word(name, "pass"),
        _ => true,
    };
    whole.then_some(*promise)
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
fn value(text: &str, at: usize, name_len: usize) -> Option<(Range<usize>, Style)> {
    let end = at + name_len;
    let rest = &text[end..];
    if let Some(element) = rest.strip_prefix('>').filter(|_| text[..at].ends_with('<')) {
        let len = element.find(['<', '\n']).unwrap_or(element.len());
        return Some((end + 1..end + 1 + len, Style::Quoted));
    }
    let gap = rest.find(|c: char| !" \t\"'\\:=]".contains(c)).unwrap_or(rest.len());
    let between = &rest[..gap];
    let from = end + gap;
    // `map["token"] = …` says what it is; `map[token] = …` does not.
    let index = between.find(']').is_some_and(|i| !between[..i].ends_with(['"', '\'']));
    if between.contains("\"\"") || between.contains("''") || index {
        return None;
    }
    let quoted = between.ends_with(['"', '\'']);
    if !between.contains([':', '=']) {
        let style = if text[..at].ends_with("--") { Style::Argument } else { Style::Environment };
        let says = style == Style::Argument || sets_variable(text, at);
        return (says && between == " ").then(|| (from..from + bare(text, from), style));
    }
    if quoted {
        let quote = if between.ends_with('"') { '"' } else { '\'' };
        let body = &text[from..];
        let len = body.find([quote, '\n', '\\']).unwrap_or(body.len());
        return Some((from..from + len, Style::Quoted));
    }
    let capital = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_';
    let in_capitals = text[at..end].chars().all(capital);
    let style = if in_capitals && between == "=" { Style::Environment } else { Style::Bare };
    Some((from..from + bare(text, from), style))
}

/// Whether a command that sets a variable of the environment stands in front of its name: `ENV` of a Dockerfile,
/// `set -x` of fish, `setx`.
fn sets_variable(text: &str, at: usize) -> bool {
    let before = &text[line_start(text, at)..at];
    let fish = |word: &str| word.starts_with('-') && word.contains('x');
    match before.split_whitespace().collect::<Vec<_>>().as_slice() {
        [.., "ENV" | "setx"] => true,
        [.., "set", option] => fish(option),
        _ => false,
    }
}

/// The length of a value without quotes.
fn bare(text: &str, from: usize) -> usize {
    let rest = &text[from..];
    let ends = |c: char| c.is_whitespace() || "\"'`,;)]}<>&|\\".contains(c);
    rest.find(ends).unwrap_or(rest.len())
}

fn looks_used(value: &str, promise: Promise, style: Style) -> bool {
    if is_placeholder(value) || value.contains(['(', '{', '[']) {
        return false;
    }
    let digit = value.bytes().any(|b| b.is_ascii_digit());
    let letter = value.bytes().any(|b| b.is_ascii_alphabetic());
    let sign = value.bytes().any(|b| b"!@#$%^&*+=?~".contains(&b));
    if promise == Promise::Pass && !(letter && digit) {
        return false;
    }
    match (promise, style) {
        (Promise::Password | Promise::Pass, Style::Environment) => value.len() >= 6,
        (Promise::Password | Promise::Pass, Style::Quoted) => {
            value.len() >= 6 && !value.contains(' ') && letter && (digit || sign)
        }
        (Promise::Password | Promise::Pass, Style::Bare | Style::Argument) => {
            value.len() >= 8 && letter && digit && !is_path_of_names(value)
        }
        (Promise::Token, Style::Environment) => value.len() >= 8 && letter && digit,
        (Promise::Token, Style::Quoted | Style::Argument) => {
            value.len() >= 12 && letter && digit && is_mixed(value)
        }
        (Promise::Token, Style::Bare) => {
            value.len() >= 12 && letter && digit && is_mixed(value) && !is_path_of_names(value)
        }
    }
}

/// `process.env.API_KEY_2`, `self.token1`, `./etc/token2.txt`: program text, and no secret.
fn is_path_of_names(value: &str) -> bool {
    let names = |separator| value.split(separator).filter(|part: &&str| !part.is_empty());
    let word = |part: &str| part.bytes().all(|b| b.is_ascii_alphabetic() || b == b'_');
    let of_words = |separator| value.contains(separator) && names(separator).any(word);
    of_words('.') || of_words('/') || of_words(':')
}

/// Whether letters and digits change often enough for something that a machine made. `token_v2_cached`
/// does not.
fn is_mixed(value: &str) -> bool {
    let class = |b: u8| match b {
        b'a'..=b'z' => Some(0),
        b'A'..=b'Z' => Some(1),
        b'0'..=b'9' => Some(2),
        _ => None,
    };
    let classes: Vec<u8> = value.bytes().filter_map(class).collect();
    classes.windows(2).filter(|pair| pair[0] != pair[1]).count() >= 3
}

fn is_placeholder(value: &str) -> bool {
    const WORDS: &[&str] = &[
        "example",
        "placeholder",
        "changeme",
        "change-me",
        "change_me",
        "redacted",
        "masked",
        "dummy",
        "insert",
        "your",
        "xxxx",
        "0000000",
        "1234567",
        "...",
        "…",
        "***",
    ];
    let lower = value.to_ascii_lowercase();
    let first = value.chars().next();
    first.is_none_or(|c| "$%<*[{(".contains(c) || value.chars().all(|other| other == c))
        || WORDS.iter().any(|word| lower.contains(word))
}

/// The password of a netrc line, the value of a cookie, the value beside a name (`name: API_TOKEN`, `value: …`).
pub(super) fn spoken(text: &str, at: usize) -> Option<(Range<usize>, &'static str)> {
    let rest = &text[at..];
    let before = &text[line_start(text, at)..at];
    let has = |name: &str| {
        rest.as_bytes().get(..name.len()).is_some_and(|b| b.eq_ignore_ascii_case(name.as_bytes()))
    };
    if has("password ") && before.contains("login ") {
        let from = at + "password ".len();
        let len = bare(text, from);
        return (len >= 4 && !is_placeholder(&text[from..from + len]))
            .then_some((from..from + len, "password"));
    }
    if has("value") {
        return beside_name(text, at);
    }
    if has("cookie: ") || has("set-cookie: ") {
        let line = &rest[..rest.find(['\n', '\r', '"', '\'', '\\']).unwrap_or(rest.len())];
        let (name, value) = line.split_once('=')?;
        let from = at + name.len() + 1;
        let long = value.split(';').next().unwrap_or_default().len() >= 16;
        return (long && !is_placeholder(value)).then_some((from..at + line.len(), "cookie"));
    }
    None
}

/// `name: API_TOKEN` and, behind it, `value: …`, as in a list of variables.
fn beside_name(text: &str, at: usize) -> Option<(Range<usize>, &'static str)> {
    /// How far in front of the value its name may stand.
    const NEAR: usize = 200;
    let from = at.saturating_sub(NEAR);
    let from = (from..=at).find(|i| text.is_char_boundary(*i))?;
    let (_, named) = text[from..at].rsplit_once("name")?;
    let name = named.trim_start_matches([' ', '\t', '"', '\'', '\\', ':', '=']);
    let len = name_length(name, 0);
    let rest = &name[len..];
    if name.len() == named.len() || rest.contains(|c: char| !" \t\r\n\"',\\".contains(c)) {
        return None;
    }
    let promise = promise(&name[..len])?;
    let (value, _) = value(text, at, "value".len())?;
    let used = looks_used(&text[value.clone()], promise, Style::Environment);
    used.then_some((value, label(promise)))
}

fn line_start(text: &str, at: usize) -> usize {
    // Lines that are longer are no netrc.
    let from = at.saturating_sub(200);
    let window = text.as_bytes().get(from..at).unwrap_or_default();
    let start = window.iter().rposition(|b| *b == b'\n').map_or(from, |found| from + found + 1);
    (start..=at).find(|i| text.is_char_boundary(*i)).unwrap_or(at)
}

/// `curl -u user:password`, where the option begins here.
pub(super) fn curl_user(text: &str, at: usize) -> Option<(Range<usize>, &'static str)> {
    let flag = ["-u ", "--user ", "-u"].into_iter().find(|flag| text[at..].starts_with(flag))?;
    if !text[line_start(text, at)..at].contains("curl ") {
        return None;
    }
    let rest = &text[at + flag.len()..];
    let argument = rest.trim_start_matches(['"', '\'', '\\']);
    let from = text.len() - argument.len();
    let len = bare(text, from);
    let (user, password) = text[from..from + len].split_once(':')?;
    let start = from + user.len() + 1;
    (password.len() >= 4 && !is_placeholder(password)).then_some((start..from + len, "password"))
}

/// `sshpass -p password`, `docker login -p password`, where the option begins here.
pub(super) fn short_option(text: &str, at: usize) -> Option<(Range<usize>, &'static str)> {
    let before = &text[line_start(text, at)..at];
    let joined = before.trim_end().ends_with("sshpass");
    let option = text[at..].strip_prefix("-p").filter(|_| joined || before.contains(" login "))?;
    let spaced = option.starts_with(' ');
    let argument = option.trim_start_matches([' ', '"', '\'', '\\']);
    let from = text.len() - argument.len();
    let len = bare(text, from);
    let used = len >= 4 && !is_placeholder(&text[from..from + len]);
    (used && (spaced || joined)).then_some((from..from + len, "password"))
}
