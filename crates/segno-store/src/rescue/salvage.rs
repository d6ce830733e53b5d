//! What can be had of one line.
//!
//! Responsible for: the whole JSON objects of a line as text that strict parsers take, and what had to be done
//! for that. The same rules as the readers' (`foreign/lines.rs`). Must not: know what an object means.

use super::rule::Rule;
use crate::foreign::control;
use crate::foreign::lines::{looks_whole, whole_objects, without_nuls};
use segno_model::line::readable_json;
use serde::de::IgnoredAny;
use std::borrow::Cow;

/// A line taken apart.
#[derive(Debug, Default)]
pub(super) struct Salvage {
    /// Its objects, in order.
    pub(super) objects: Vec<String>,
    /// How many bytes belong to none, NULs at the ends and marks not counted.
    pub(super) lost: usize,
    /// What had to be done.
    pub(super) rules: Vec<Rule>,
}

/// Takes a line apart, given without its end. `is_first`: it begins the file.
pub(super) fn salvage(bytes: &[u8], is_first: bool) -> Salvage {
    let mut found = Salvage::default();
    let marked = bytes.strip_prefix(b"\xEF\xBB\xBF").filter(|_| is_first);
    found.rules.extend(marked.map(|_| Rule::ByteOrderMark));
    let bytes = marked.unwrap_or(bytes);
    let inner = without_nuls(bytes);
    if inner.len() < bytes.len() {
        found.rules.push(Rule::NulRun);
    }
    let bytes = inner.trim_ascii();
    if bytes.is_empty() {
        return found;
    }
    let text = readable(bytes, &mut found.rules);
    if looks_whole(&text) && serde_json::from_str::<IgnoredAny>(&text).is_ok() {
        found.objects.push(text.into_owned());
        return found;
    }
    let (objects, lost) = whole_objects(&text);
    found.lost = lost;
    found.rules.extend(match (objects.len(), lost) {
        (0, _) => Some(Rule::TornLine),
        (1, 0) => None,
        _ => Some(Rule::FusedLine),
    });
    found.objects = objects.into_iter().map(str::to_owned).collect();
    found
}

fn readable<'b>(bytes: &'b [u8], rules: &mut Vec<Rule>) -> Cow<'b, str> {
    let is_utf8 = std::str::from_utf8(bytes);
    if is_utf8.is_err() {
        rules.push(Rule::BadUtf8);
    }
    let text = readable_json(bytes);
    let lossy = String::from_utf8_lossy(bytes);
    if *text != *lossy {
        rules.push(Rule::LoneSurrogate);
    }
    let Some(escaped) = control::escaped(&text) else { return text };
    rules.push(Rule::ControlByte);
    Cow::Owned(escaped)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Covers: G3.
    #[test]
    fn lines_are_taken_apart() {
        type Row = (&'static [u8], &'static [&'static str], usize, &'static [Rule]);
        let rows: &[Row] = &[
            (b"{\"a\":1}", &["{\"a\":1}"], 0, &[]),
            (b"  {\"a\":1}\r", &["{\"a\":1}"], 0, &[]),
            (b"", &[], 0, &[]),
            (b" \t\r", &[], 0, &[]),
            (b"\xEF\xBB\xBF{\"a\":1}", &["{\"a\":1}"], 0, &[Rule::ByteOrderMark]),
            (b"\0\0\0", &[], 0, &[Rule::NulRun]),
            (b"\0\0{\"a\":1}\0", &["{\"a\":1}"], 0, &[Rule::NulRun]),
            (b"{\"a\":", &[], 5, &[Rule::TornLine]),
            (b"{\"a\":1}{\"b\":2}", &["{\"a\":1}", "{\"b\":2}"], 0, &[Rule::FusedLine]),
            (b"{\"a\":\"x{\"b\":2}", &["{\"b\":2}"], 7, &[Rule::FusedLine]),
            (b"{\"a\":\"\xFF\"}", &["{\"a\":\"\u{fffd}\"}"], 0, &[Rule::BadUtf8]),
            (b"{\"a\":\"\\ud83c\"}", &["{\"a\":\"\\ufffd\"}"], 0, &[Rule::LoneSurrogate]),
            (b"{\"a\":\"\\ud83c\\udf55\"}", &["{\"a\":\"\\ud83c\\udf55\"}"], 0, &[]),
            (b"{\"a\":\"\x01\"}", &["{\"a\":\"\\u0001\"}"], 0, &[Rule::ControlByte]),
            (b"{\"a\":\"\x01", &[], 7, &[Rule::TornLine]),
            (b"17", &[], 2, &[Rule::TornLine]),
        ];
        for (bytes, objects, lost, rules) in rows {
            let found = salvage(bytes, true);
            let shown = String::from_utf8_lossy(bytes);
            assert_eq!(found.objects, *objects, "{shown}");
            assert_eq!((found.lost, found.rules.as_slice()), (*lost, *rules), "{shown}");
        }
    }
}
