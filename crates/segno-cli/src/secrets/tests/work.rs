//! How much is looked at: what somebody wrote must not keep an export from ending.
//!
//! Responsible for: texts that could make each place look at all the rest, and that the bytes which are looked at
//! grow as the text does. Must not: measure time.

use super::super::scan::LOOKED;
use super::{mask, mask_json};

/// Pieces that, repeated, begin something that never ends.
const PIECES: &[&str] = &[
    "api_key=",
    "secret_key==",
    "api_key=QUJD",
    "password: ",
    "password:\"",
    "password=\"\\\"",
    "token: |\n  ",
    "<token>",
    "token\",\"",
    "|token|",
    "-----BEGIN RSA PRIVATE KEY-----\n",
    "-----BEGIN RSA PRIVATE KEY-----\nMIIE{",
    "-----BEGIN PRIVATE KEY-----",
    "------",
    "eyJ.",
    "eyJhbGciOi.",
    "SG.",
    "pat.",
    "ghp_",
    "sk-ant-",
    "AKIA/",
    "://a:",
    "http://a:b",
    "Authorization: Bearer ",
    "bearer ",
    "cookie: ",
    "set-cookie: a",
    "curl -u ",
    "curl -ssssssssssu ",
    "curl -b a=b;",
    "postgres://a:b/",
    "echo a | ",
    "Private-Lines: 99\nQUJD\n",
    "\"d\":\"QUJDQUJDQUJDQUJDQUJDQUJD\",",
    "\"value\":\"a\",\"name\":",
    "machine login ",
    "password '",
    "by '",
    "пароль:",
    "8Q~ ",
    "AKIAFAKEFAKEFAKEFAKE,",
    "Authorization: a ",
    "curl .-u",
    "mysql .-p",
    "login -p",
    "machine login password ",
    "name: API_TOKEN value: ",
    "sig=",
    "x-api-key:",
    "aws_session_token=",
    "a/",
    "a=",
    "a.",
    "-a",
    "_",
    "a",
    "\n",
    "\\",
    "\\u0061",
    "\\\\n",
    "%61",
    "&quot;",
    "&#x",
    "%",
    "\x1b[",
    "\x1b]",
    "\u{200b}",
    "$6$",
    "$6$a$",
    "QUJD",
    "deadbeef",
    "LS0tLS1CRUdJTiBQUklWQVRFIEtFWS0tLS0t",
    "YXBpX2tleT1hcGlfa2V5PWFwaV9rZXk9YXBpX2tleT1hcGlfa2V5PWFwaV9rZXk9YXBpX2tleT1h\n",
    "{\"a\":",
    "\"a\",",
    "{\"token\":\"",
    "é",
];

fn looked_at(text: &str, json: bool) -> usize {
    LOOKED.with(|looked| looked.set(0));
    let _ = if json { mask_json(text) } else { mask(text) };
    LOOKED.with(std::cell::Cell::get)
}

/// Of a text that is four times as long, four times as many bytes are looked at, and of none too many.
#[test]
fn what_is_looked_at_grows_as_the_text_does() {
    /// How often each byte may be looked at. What counts is that it is a number.
    const MOST: usize = 400;
    for piece in PIECES {
        let text = |length: usize| piece.repeat(length / piece.len());
        for json in [false, true] {
            let wrap = |text: String| match json {
                true => serde_json::json!([text, { "key": text }]).to_string(),
                false => text,
            };
            let (short, long) = (wrap(text(5_000)), wrap(text(20_000)));
            let (few, many) = (looked_at(&short, json), looked_at(&long, json));
            assert!(many <= few * 5 + 10_000, "{piece:?}, json {json}: {few}, then {many}");
            assert!(many <= long.len() * MOST, "{piece:?}, json {json}: {many}");
        }
    }
}

/// Many secrets with the same beginning, each once more behind them.
#[test]
fn many_secrets_with_one_beginning_are_found_in_a_time_by_their_length() {
    let text = |count: usize| -> String {
        let keys = |i: usize| format!("github_pat_11AAAAAAA0aaaaaaaaaaaaaaaaaaaaaaaaa{i:06} ");
        (0..count).chain(0..count).map(keys).collect()
    };
    let (few, many) = (looked_at(&text(100), false), looked_at(&text(400), false));
    assert!(many <= few * 5, "{few}, then {many}");
    assert_eq!(mask(&text(100)).1, 200);
}
