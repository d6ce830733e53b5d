//! Passwords behind the short options of commands: `curl -u user:…`, `mysql -p…`.
//!
//! Responsible for: which commands take one, and where it is. Must not: take the port of another command for one.

use super::judge::{is_placeholder, names_itself};
use super::scan::{JUDGED, in_bare, line_before, span};
use super::spoken::cookie;
use std::ops::Range;

/// How an option's value follows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    /// `-p value`
    Spaced,
    /// `-pvalue`
    Joined,
    /// Either.
    Any,
}

/// Which option of which commands takes a password.
const OPTIONS: &[(&[&str], &str, Form)] = &[
    (&["login"], "-p", Form::Spaced),
    (
        &[
            "mysql",
            "mysqldump",
            "mysqladmin",
            "mysqlimport",
            "mysqlcheck",
            "mysqlsh",
            "mariadb",
            "mariadb-dump",
            "mariadb-admin",
        ],
        "-p",
        Form::Joined,
    ),
    (
        &["mongo", "mongosh", "mongodump", "mongorestore", "mongoexport", "mongoimport"],
        "-p",
        Form::Spaced,
    ),
    (&["redis-cli"], "-a", Form::Spaced),
    (&["sqlcmd", "bcp"], "-P", Form::Any),
    (&["ldapsearch", "ldapadd", "ldapmodify", "ldapdelete", "ldapwhoami"], "-w", Form::Any),
    (&["zip", "unzip"], "-P", Form::Spaced),
    (&["7z", "7za", "7zr"], "-p", Form::Joined),
];

/// The value of an option, from here on: in quotes or without.
pub(super) fn argument(text: &str, from: usize) -> Range<usize> {
    let from = from + span(text, from, JUDGED, |b| b == b' ');
    let slash = span(text, from, JUDGED, |b| b == b'\\');
    match text.as_bytes().get(from + slash) {
        Some(quote @ (b'"' | b'\'')) => {
            let start = from + slash + 1;
            start..start + span(text, start, JUDGED, |b| b != *quote && b != b'\n' && b != b'\\')
        }
        _ => from..from + span(text, from, JUDGED, in_bare),
    }
}

/// `sshpass -p password`, `mysql -ppassword`, where the option begins here.
pub(super) fn short_option(text: &str, at: usize) -> Option<(Range<usize>, &'static str)> {
    if !matches!(text.as_bytes().get(at + 1), Some(b'p' | b'P' | b'a' | b'w')) {
        return None;
    }
    let rest = &text[at..];
    let before = line_before(text, at).rsplit([';', '|', '&']).next()?;
    let spaced = rest.as_bytes().get(2).is_some_and(|b| *b == b' ');
    let value = argument(text, at + 2);
    let used = value.len() >= 4 && !is_placeholder(&text[value.clone()]);
    // What follows `sshpass -e` is another command with options of its own.
    let sshpass = rest.starts_with("-p") && before.trim_end().ends_with("sshpass");
    let takes = |(commands, option, form): &&(&[&str], &str, Form)| {
        rest.starts_with(option)
            && (*form == Form::Any || spaced == (*form == Form::Spaced))
            && before.split_whitespace().any(|word| {
                commands.contains(&word.rsplit(['/', '"', '\'']).next().unwrap_or(word))
            })
    };
    // `-p3306:3306` is a port.
    let letter = text[value.clone()].bytes().any(|b| b.is_ascii_alphabetic());
    let takes = sshpass
        || OPTIONS.iter().find(takes).is_some_and(|(.., form)| letter || *form == Form::Spaced);
    (used && takes).then_some((value, "password"))
}

/// `curl -u user:password`, `curl -sSu user:password`, `curl -b session=…`, where the option begins here.
pub(super) fn of_curl(text: &str, at: usize) -> Option<(Range<usize>, &'static str)> {
    /// Options of one letter without a value, which may stand in front of one with a value.
    const WITHOUT: &[u8] = b"#01234afgGiIjJklLnNOpqRsSvZ";
    const LONG: &[(&str, u8)] = &[("--user", b'u'), ("--proxy-user", b'u'), ("--cookie", b'b')];
    let rest = &text[at..];
    let short = span(text, at + 1, 12, |b| WITHOUT.contains(&b));
    let (option, from) = match LONG.iter().find(|(name, _)| rest.starts_with(name)) {
        Some((name, option)) => (*option, at + name.len()),
        None => (rest.as_bytes().get(1 + short)?.to_ascii_lowercase(), at + short + 2),
    };
    let long = rest.starts_with("--");
    let apart = matches!(text.as_bytes().get(from), Some(b' ' | b'='));
    if !matches!(option, b'u' | b'b') || long && !apart || !says_curl(text, at) {
        return None;
    }
    let value = argument(text, from + usize::from(long));
    if option == b'b' {
        return cookie(text, value.start, false);
    }
    let (user, password) = text[value.clone()].split_once(':')?;
    let start = value.start + user.len() + 1;
    // A mask has a colon as well.
    let mask = user.ends_with("[masked");
    let used = password.len() >= 4 && !is_placeholder(password) && !names_itself(password);
    (!mask && used).then_some((start..value.end, "password"))
}

fn says_curl(text: &str, at: usize) -> bool {
    let before = line_before(text, at);
    before.contains("curl ") || before.contains("curl.exe ")
}
