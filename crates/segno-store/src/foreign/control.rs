//! Control bytes that stand in the texts of JSON as they are, where JSON wants them escaped.
//!
//! Responsible for: text in which they are escaped, for readers and repairs alike. Must not: change what is JSON as
//! it stands, or what becomes none for it.

use super::lines::whole_objects;
use segno_model::line::readable_json;
use serde::de::IgnoredAny;
use std::borrow::Cow;
use std::cmp::Reverse;
use std::fmt::Write as _;

/// So many of them are no text but a hole in the file, which would take six times its length.
const MOST: usize = 1 << 20;

/// JSON as strict parsers want it: as [`readable_json`], and with control bytes escaped.
pub(crate) fn readable_text(bytes: &[u8]) -> Cow<'_, str> {
    let text = readable_json(bytes);
    match escaped(&text) {
        Some(escaped) => Cow::Owned(escaped),
        None => text,
    }
}

/// The text with control bytes escaped that stand in texts of it; none where no more of it is whole for that.
pub(crate) fn escaped(text: &str) -> Option<String> {
    let count = text.bytes().filter(|byte| *byte < b' ').count();
    if count == 0 || count > MOST || is_json(text) {
        return None;
    }
    let straight = escape(text, false);
    if straight.as_deref().is_some_and(is_json) {
        return straight;
    }
    // Behind a torn beginning, what stands between the quotation marks is what stood beside them.
    let ways = [straight, escape(text, true)].into_iter().flatten();
    let before = whole_bytes(text);
    let better = ways.map(|way| (whole_bytes(&way), way)).filter(|(bytes, _)| *bytes > before);
    better.min_by_key(|(bytes, _)| Reverse(*bytes)).map(|(_, way)| way)
}

fn is_json(text: &str) -> bool {
    serde_json::from_str::<IgnoredAny>(text).is_ok()
}

/// How much of a text belongs to whole objects.
fn whole_bytes(text: &str) -> usize {
    whole_objects(text).0.iter().map(|object| object.len()).sum()
}

/// Escapes the control bytes of texts; `within`: one has begun before. None: there are none.
fn escape(text: &str, mut within: bool) -> Option<String> {
    let (mut out, mut copied, mut is_escape) = (String::new(), 0, false);
    for (at, byte) in text.bytes().enumerate() {
        if within && byte < b' ' {
            out.push_str(text.get(copied..at).unwrap_or_default());
            // The backslash before it escapes nothing.
            out.push_str(if is_escape { "\\" } else { "" });
            push(&mut out, byte);
            copied = at + 1;
        }
        within ^= byte == b'"' && !is_escape;
        is_escape = within && byte == b'\\' && !is_escape;
    }
    out.push_str(text.get(copied..).unwrap_or_default());
    (copied > 0).then_some(out)
}

/// As the agents themselves write it.
fn push(out: &mut String, control: u8) {
    match control {
        0x08 => out.push_str("\\b"),
        b'\t' => out.push_str("\\t"),
        b'\n' => out.push_str("\\n"),
        0x0C => out.push_str("\\f"),
        b'\r' => out.push_str("\\r"),
        // Writing to a text does not fail.
        _ => drop(write!(out, "\\u{control:04x}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Covers: G3. What is whole stays as it is; of the rest, what is whole with them escaped.
    #[test]
    fn control_bytes_in_texts_are_escaped() {
        let rows: &[(&str, Option<&str>)] = &[
            (r#"{"a":1}"#, None),
            ("{\t\"a\" :\r\n 1}", None),
            ("{\"a\":\"\0\"}", Some(r#"{"a":"\u0000"}"#)),
            ("{\"a\":\"\x08\t\n\x0c\r\x1b\x1f\"}", Some(r#"{"a":"\b\t\n\f\r\u001b\u001f"}"#)),
            ("{\t\"a\tb\":\t\"c\td\"\t}", Some("{\t\"a\\tb\":\t\"c\\td\"\t}")),
            ("{\"a\":\"\\\"\x01\"}", Some(r#"{"a":"\"\u0001"}"#)),
            ("{\"a\":\"\\\\\x01\"}", Some(r#"{"a":"\\\u0001"}"#)),
            ("{\"a\":\"\\\x01\"}", Some(r#"{"a":"\\\u0001"}"#)),
            ("\"a\x01\"", Some(r#""a\u0001""#)),
            ("{\"a\":\"\x01\"}{\"b\":\"\t\"}", Some(r#"{"a":"\u0001"}{"b":"\t"}"#)),
            ("{\"a\":\"x{\"b\":\"\x01\"}", Some(r#"{"a":"x{"b":"\u0001"}"#)),
            ("{\"a\":\"x{\"b\":\t\"c\td\"}", Some("{\"a\":\"x{\"b\":\t\"c\\td\"}")),
            // What is broken otherwise stays broken, and as it is.
            ("{\"a\":\0\"x\"}", None),
            ("{\"a\":\"x\x01", None),
            ("{\"a\":\"x\x01{\"b\":1}", None),
            ("{\"a\":\"\\u00\x0141\"}", None),
        ];
        for (text, expected) in rows {
            let found = escaped(text);
            assert_eq!(found.as_deref(), *expected, "{text:?}");
            if let Some(found) = found {
                assert_eq!(escaped(&found), None, "{text:?}, twice");
            }
        }
        let hole = format!("{{\"a\":\"{}\"}}", "\0".repeat(MOST + 1));
        assert_eq!(escaped(&hole), None, "no text but a hole");
    }
}
