//! JSON in which a field has a type that it never has.
//!
//! Responsible for: parsing an object at the cost of such fields and no more, and telling which they were. Must
//! not: know any agent, or make anything of what is no JSON.
//!
//! Nothing is spent on objects that are as they should be: only where parsing fails, its error tells the
//! place, and the innermost member or element there is left out before the next try.

use super::emitter::{Emitter, Meta};
use super::item::Origin;
use segno_model::finding::Severity;
use serde::Deserialize;
use serde_json::value::RawValue;
use std::cell::OnceCell;
use std::ops::Range;

/// How many fields of one object are left out at most.
const MOST: usize = 16;

/// Where an object was parsed: it holds the text without the fields that were left out, from which the
/// object borrows.
#[derive(Default)]
pub(super) struct Mended(OnceCell<Box<Step>>);

struct Step {
    json: String,
    field: String,
    /// Whether it was null: nothing is lost with it.
    was_null: bool,
    next: Mended,
}

impl Mended {
    /// The object in `json`; none when it is none of its kind even without its odd fields.
    pub(super) fn parse<'a, T: Deserialize<'a>>(&'a self, json: &'a str) -> Option<T> {
        self.parse_within(json, MOST)
    }

    fn parse_within<'a, T: Deserialize<'a>>(&'a self, json: &'a str, left: usize) -> Option<T> {
        let error = match serde_json::from_str(json) {
            Ok(parsed) => return Some(parsed),
            Err(error) => error,
        };
        if !error.is_data() || left == 0 {
            return None;
        }
        let entry = entry_at(json, offset(json, &error))?;
        let step = self.0.get_or_init(|| {
            let (json, was_null) =
                (entry.without(json), json[entry.value.clone()].trim() == "null");
            Box::new(Step { json, field: entry.path, was_null, next: Self::default() })
        });
        step.next.parse_within(&step.json, left - 1)
    }

    /// The fields that were left out, but for those that held nothing.
    fn fields(&self) -> Vec<&str> {
        let mut fields = Vec::new();
        let mut at = self;
        while let Some(step) = at.0.get() {
            fields.extend(Some(step.field.as_str()).filter(|_| !step.was_null));
            at = &step.next;
        }
        fields
    }

    /// Whether something was left out.
    pub(super) fn is_odd(&self) -> bool {
        !self.fields().is_empty()
    }

    /// Tells what was left out.
    pub(super) fn found(&self, at: &Origin, out: &mut Emitter<'_>) {
        let fields = self.fields();
        if fields.is_empty() {
            return;
        }
        let sentence = format!("A field has a type that it never has: {}.", fields.join(", "));
        let done = "The record was read without it, and is kept as it is, too.";
        out.found("odd-field", Severity::Warning, at, &sentence, done);
    }

    /// Tells what was left out of `json`, and keeps that as it is under the name `kind`.
    pub(super) fn tell(&self, kind: &str, json: &str, meta: &Meta, out: &mut Emitter<'_>) {
        if !self.is_odd() {
            return;
        }
        self.found(&meta.origin, out);
        if let Ok(raw) = serde_json::from_str::<&RawValue>(json) {
            out.custom(kind, raw, meta.clone());
        }
    }
}

/// The byte up to which an error says that it read.
fn offset(json: &str, error: &serde_json::Error) -> usize {
    let line = json.split_inclusive('\n').take(error.line().saturating_sub(1));
    line.map(str::len).sum::<usize>() + error.column()
}

/// A member of an object or an element of an array.
struct Entry {
    /// With its name.
    whole: Range<usize>,
    value: Range<usize>,
    /// The names on the way to it.
    path: String,
}

impl Entry {
    /// The text without it, and without one of the commas beside it.
    fn without(&self, json: &str) -> String {
        let (before, after) = (&json[..self.whole.start], &json[self.whole.end..]);
        match after.trim_start().strip_prefix(',') {
            Some(after) => format!("{before}{after}"),
            None => {
                let before = before.trim_end();
                format!("{}{after}", before.strip_suffix(',').unwrap_or(before))
            }
        }
    }
}

/// What is open around a place.
struct Frame<'a> {
    is_object: bool,
    name: Option<&'a str>,
    start: usize,
    value: usize,
}

/// The innermost entry that holds byte `at` or ends there.
fn entry_at(json: &str, at: usize) -> Option<Entry> {
    let bytes = json.as_bytes();
    let (mut open, mut i): (Vec<Frame<'_>>, usize) = (Vec::new(), 0);
    while let Some(&byte) = bytes.get(i) {
        let start = i;
        i += 1;
        let is_end = match byte {
            b' ' | b'\t' | b'\r' | b'\n' | b':' => continue,
            b',' => {
                open.last_mut()?.name = None;
                continue;
            }
            b'{' | b'[' => {
                enter(&mut open, start);
                open.push(Frame { is_object: byte == b'{', name: None, start, value: start });
                continue;
            }
            b'}' | b']' => open.pop().is_some(),
            b'"' => {
                i = string_end(bytes, i)?;
                let frame = open.last_mut()?;
                if frame.is_object && frame.name.is_none() {
                    (frame.name, frame.start) = (json.get(start + 1..i - 1), start);
                    // An error about the name itself.
                    frame.value = i;
                    continue;
                }
                enter(&mut open, start);
                true
            }
            _ => {
                let ends = |b: &u8| matches!(b, b',' | b'}' | b']' | b' ' | b'\n' | b'\r' | b'\t');
                i = bytes[i..].iter().position(ends).map_or(bytes.len(), |len| i + len);
                enter(&mut open, start);
                true
            }
        };
        if let Some(frame) = open.last().filter(|frame| is_end && (frame.start..=i).contains(&at)) {
            let names = open.iter().filter_map(|frame| frame.name);
            let path = names.collect::<Vec<_>>().join(".");
            return Some(Entry { whole: frame.start..i, value: frame.value..i, path });
        }
    }
    None
}

/// A value begins.
fn enter(open: &mut [Frame<'_>], start: usize) {
    if let Some(frame) = open.last_mut() {
        frame.value = start;
        if !frame.is_object {
            frame.start = start;
        }
    }
}

/// Where a string ends that began before `at`.
fn string_end(bytes: &[u8], mut at: usize) -> Option<usize> {
    loop {
        at += memchr::memchr2(b'"', b'\\', bytes.get(at..)?)?;
        if bytes[at] == b'"' {
            return Some(at + 1);
        }
        at += 2;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Default, PartialEq, Deserialize)]
    struct Row<'a> {
        kind: &'a str,
        at: Option<&'a str>,
        count: Option<u64>,
        #[serde(default)]
        flag: bool,
        inner: Option<Inner<'a>>,
        #[serde(default)]
        list: Vec<Inner<'a>>,
    }

    #[derive(Debug, Default, PartialEq, Deserialize)]
    struct Inner<'a> {
        kind: &'a str,
        text: Option<&'a str>,
    }

    #[test]
    fn an_odd_field_costs_itself_alone() {
        let cases = [
            (r#"{"kind":"a","at":"x","count":3}"#, "", "a Some(\"x\") Some(3) false None []"),
            (r#"{"kind":"a","at":5,"count":3}"#, "at", "a None Some(3) false None []"),
            (r#"{"at":{"kind":"b"},"kind":"a"}"#, "at", "a None None false None []"),
            (r#"{"kind":"a","count":[1,2] }"#, "count", "a None None false None []"),
            (r#"{"kind":"a","count":-1,"at":true}"#, "count at", "a None None false None []"),
            // It held nothing.
            (r#"{"kind":"a","flag":null}"#, "", "a None None false None []"),
            (
                "{\"kind\":\"a\",\n \"at\" : [ ] ,\n \"count\":4}",
                "at",
                "a None Some(4) false None []",
            ),
            (
                r#"{"kind":"a","inner":{"kind":"b","text":7}}"#,
                "inner.text",
                r#"a None None false Some(Inner { kind: "b", text: None }) []"#,
            ),
            // What an object cannot be without costs the object.
            (
                r#"{"kind":"a","inner":{"kind":7,"text":"t"},"count":1}"#,
                "inner.kind inner",
                "a None Some(1) false None []",
            ),
            (
                r#"{"kind":"a","list":[{"kind":"b"},7,{"kind":"c","text":{}}]}"#,
                "list list.text",
                r#"a None None false None [Inner { kind: "b", text: None }, Inner { kind: "c", text: None }]"#,
            ),
            (r#"{"kind":"a","at":"x","at":"y"}"#, "at", "a Some(\"x\") None false None []"),
        ];
        for (json, fields, expected) in cases {
            let mended = Mended::default();
            let row = mended.parse::<Row<'_>>(json).unwrap_or_else(|| panic!("{json}"));
            let Row { kind, at, count, flag, inner, list } = &row;
            assert_eq!(format!("{kind} {at:?} {count:?} {flag} {inner:?} {list:?}"), expected);
            assert_eq!(mended.fields().join(" "), fields, "{json}");
        }
    }

    #[test]
    fn what_is_no_such_object_stays_none() {
        let many = (0..=MOST).map(|_| "7").collect::<Vec<_>>().join(",");
        let many = format!(r#"{{"kind":"a","list":[{many}]}}"#);
        for json in ["", "{", "[]", "7", "{\"at\":1", "{\"kind\":5}", "{\"at\":\"x\"}", &many] {
            assert!(Mended::default().parse::<Row<'_>>(json).is_none(), "{json}");
        }
    }
}
