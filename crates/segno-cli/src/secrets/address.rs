//! Secrets in addresses: `scheme://user:password@host`, tokens as a user, paths that are the secret themselves.
//!
//! Responsible for: what of an address is secret. Must not: take a port, a tag or a checksum for a password.

use super::judge::{is_mixed, is_placeholder, names_itself};
use super::scan::{has, run, span};
use crate::secrets::makers::Alphabet;
use std::ops::Range;

/// Addresses whose paths let anybody in, and how long these are at least.
const PATHS: &[(&str, &str, usize)] = &[
    ("teams-webhook", "webhook.office.com/webhookb2/", 60),
    ("teams-webhook", "outlook.office.com/webhook/", 60),
    ("zapier-webhook", "hooks.zapier.com/hooks/catch/", 12),
];

/// So much of an address is looked at where its password may hold what ends others.
const WIDE: usize = 128;

/// A token as a user is not shorter.
const TOKEN: usize = 20;

/// What stands between the slashes of `scheme://…` and the `@`.
struct UserInfo<'a> {
    user: &'a str,
    /// Behind a colon.
    password: Option<&'a str>,
    host: &'a str,
}

/// `scheme://user:password@host`, where the colon of the scheme is here.
pub(super) fn user_info(text: &str, at: usize) -> Option<(Range<usize>, &'static str)> {
    let rest = text[at..].strip_prefix("://")?;
    let start = at + 3;
    let web = text[..at].ends_with("http") || text[..at].ends_with("https");
    let info = strict(rest).or_else(|| wide(rest, web))?;
    let user = start..start + info.user.len();
    let token = info.user.len() >= TOKEN && is_mixed(info.user) && !is_placeholder(info.user);
    // The key of a collector of errors is sent to every browser.
    let public = info.host.contains("sentry");
    let password = match info.password {
        None => return (web && token && !public).then_some((user, "token")),
        Some("" | "x" | "x-oauth-basic" | "api_token") if token => return Some((user, "token")),
        Some(password) => password,
    };
    let from = user.end + 1;
    let whole = from..from + password.len();
    match is_secret(&info, password) {
        true if token => Some((user.start..whole.end, "password")),
        true => Some((whole, "password")),
        false => None,
    }
}

fn is_secret(info: &UserInfo<'_>, password: &str) -> bool {
    let stands_for_one = password.starts_with(['$', '{', '*', '%', '[', '<']);
    let port = password.len() <= 5 && password.bytes().all(|b| b.is_ascii_digit());
    // `[::1]:8080`, `image:1.2@sha256:…`
    let other = info.user.starts_with('[') || info.host.starts_with("sha256:");
    let ports = port && info.user.contains('.');
    !password.is_empty() && !stands_for_one && !other && !ports && !names_itself(password)
}

fn strict(rest: &str) -> Option<UserInfo<'_>> {
    let of_authority = |b: u8| !b.is_ascii_whitespace() && !b"/?#\"'`<>\\,;()".contains(&b);
    let authority = &rest[..span(rest, 0, usize::MAX, of_authority)];
    let (info, host) = authority.rsplit_once('@')?;
    Some(match info.split_once(':') {
        Some((user, password)) => UserInfo { user, password: Some(password), host },
        None => UserInfo { user: info, password: None, host },
    })
}

/// The same where the password holds what would end it, as a person writes it who does not know: `/`, `?`, `#`. In
/// addresses of the web a slash does end it.
fn wide(rest: &str, web: bool) -> Option<UserInfo<'_>> {
    let inside = |b: u8| !b.is_ascii_whitespace() && !b"\"'`<>\\,;()".contains(&b);
    let some = &rest[..span(rest, 0, WIDE, |b| inside(b) && !(web && b == b'/'))];
    let (info, host) = some.rsplit_once('@')?;
    let (user, password) = info.split_once(':')?;
    let digits = password.bytes().take_while(u8::is_ascii_digit).count();
    let port = digits > 0 && password.get(digits..)?.starts_with(['/', '?', '#']);
    let plain = !user.contains(['/', '?', '#', '@']);
    (plain && !port).then_some(UserInfo { user, password: Some(password), host })
}

/// The path of an address that lets anybody in.
pub(super) fn path(text: &str, at: usize) -> Option<(Range<usize>, &'static str)> {
    let (label, begin, least) = PATHS.iter().find(|(_, begin, _)| has(text, at, begin))?;
    let from = at + begin.len();
    let length = span(text, from, usize::MAX, |b| Alphabet::Path.has(b) || b == b'@');
    (length >= *least).then_some((from..from + length, *label))
}

/// `123456789:AA…`, a bot's token, also in the address that is asked with it: `/bot123456789:AA…/getMe`.
pub(super) fn telegram(text: &str, at: usize) -> Option<(Range<usize>, &'static str)> {
    let at = if text[at..].starts_with("bot") { at + 3 } else { at };
    let digits = span(text, at, 11, |b| b.is_ascii_digit());
    let body = at + digits + 1;
    let marked = (8..=10).contains(&digits) && text.get(at + digits..)?.starts_with(":AA");
    let length = run(text, body, Alphabet::Word, 36);
    (marked && length == 35).then_some((at..body + length, "telegram-token"))
}
