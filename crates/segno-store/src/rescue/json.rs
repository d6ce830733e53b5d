//! Places in a line's JSON text.
//!
//! Responsible for: where a value or a key stands, so that a change touches nothing else. Must not: know any
//! agent.

use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::fmt;
use std::ops::Range;

/// A place in a text, in bytes.
pub(super) type Span = Range<usize>;

/// An object's members as they stand there.
#[derive(Debug, Default)]
pub(super) struct Fields<'a>(Vec<(Cow<'a, str>, &'a RawValue)>);

impl<'a> Fields<'a> {
    /// None when the text is no object.
    pub(super) fn of(json: &'a str) -> Option<Self> {
        serde_json::from_str(json).ok()
    }

    /// A member; of several with one name the last.
    pub(super) fn get(&self, name: &str) -> Option<&'a RawValue> {
        self.0.iter().rev().find(|(key, _)| key == name).map(|(_, value)| *value)
    }

    /// All members of one name: which of them counts differs from reader to reader.
    pub(super) fn all(&self, name: &str) -> impl Iterator<Item = &'a RawValue> {
        self.0.iter().filter(move |(key, _)| key == name).map(|(_, value)| *value)
    }

    /// A member that is neither absent nor null.
    pub(super) fn some(&self, name: &str) -> Option<&'a RawValue> {
        self.get(name).filter(|value| value.get() != "null")
    }

    /// A member that is a text.
    pub(super) fn text(&self, name: &str) -> Option<Cow<'a, str>> {
        text(self.get(name)?)
    }

    /// Whether a member is true.
    pub(super) fn is_true(&self, name: &str) -> bool {
        self.get(name).is_some_and(|value| value.get() == "true")
    }

    /// The members of a member.
    pub(super) fn object(&self, name: &str) -> Option<Fields<'a>> {
        Self::of(self.get(name)?.get())
    }

    /// The elements of a member.
    pub(super) fn list(&self, name: &str) -> Option<Vec<&'a RawValue>> {
        serde_json::from_str(self.get(name)?.get()).ok()
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Fields<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Members;
        impl<'de> Visitor<'de> for Members {
            type Value = Fields<'de>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Fields<'de>, A::Error> {
                let mut members = Vec::new();
                while let Some((Key(key), value)) = map.next_entry()? {
                    members.push((key, value));
                }
                Ok(Fields(members))
            }
        }
        deserializer.deserialize_map(Members)
    }
}

#[derive(Deserialize)]
struct Key<'a>(#[serde(borrow)] Cow<'a, str>);

/// A value that is a text.
pub(super) fn text(value: &RawValue) -> Option<Cow<'_, str>> {
    let json = value.get();
    let inner = json.strip_prefix('"')?.strip_suffix('"')?;
    if !inner.contains('\\') {
        return Some(Cow::Borrowed(inner));
    }
    serde_json::from_str::<String>(json).ok().map(Cow::Owned)
}

/// What stands for a piece of a kind that its agent does not know.
pub(super) fn unknown_piece(piece: &RawValue) -> String {
    format!("(a piece of a kind that is not known here: {})", piece.get())
}

/// A text as JSON.
pub(super) fn quote(text: &str) -> String {
    serde_json::Value::String(text.to_owned()).to_string()
}

/// Where a piece stands in the text from which it was borrowed.
pub(super) fn span(json: &str, piece: &RawValue) -> Option<Span> {
    place_of(json, piece.get())
}

fn place_of(json: &str, piece: &str) -> Option<Span> {
    let start = (piece.as_ptr() as usize).checked_sub(json.as_ptr() as usize)?;
    let end = start.checked_add(piece.len())?;
    (json.get(start..end) == Some(piece)).then_some(start..end)
}

/// What has to be replaced in `json` so that `object`, a piece of it, has these members with these values: one that is
/// there gets the value wherever it stands, whatever it was. The others are put behind the first of these that is
/// there, or else at the beginning.
pub(super) fn set_members(
    json: &str,
    object: &str,
    members: &[(&str, String)],
) -> Vec<(Span, String)> {
    let (Some(fields), Some(whole)) = (Fields::of(object), place_of(json, object)) else {
        return Vec::new();
    };
    let (mut splices, mut absent) = (Vec::new(), Vec::new());
    for (name, value) in members {
        let places: Vec<Span> = fields.all(name).filter_map(|raw| span(json, raw)).collect();
        if places.is_empty() {
            absent.push(format!("{}:{value}", quote(name)));
        }
        splices.extend(places.into_iter().map(|place| (place, value.clone())));
    }
    let absent = absent.join(",");
    let behind = splices.first().map(|(place, _)| place.end);
    let brace = object.find('{').map(|brace| whole.start + brace + 1);
    match (behind, brace) {
        _ if absent.is_empty() => {}
        (Some(end), _) => splices.push((end..end, format!(",{absent}"))),
        (None, Some(start)) if fields.0.is_empty() => splices.push((start..start, absent)),
        (None, Some(start)) => splices.push((start..start, format!("{absent},"))),
        (None, None) => {}
    }
    splices
}

/// Where the key of a member stands whose value stands at `value`.
pub(super) fn key_span(json: &str, key: &str, value: &Span) -> Option<Span> {
    let before = json.get(..value.start)?.trim_end().strip_suffix(':')?.trim_end();
    let key = quote(key);
    let start = before.strip_suffix(key.as_str())?.len();
    Some(start..start + key.len())
}

/// A text with some of its places replaced; places must not overlap.
pub(super) fn spliced(json: &str, splices: &[(Span, String)]) -> String {
    let mut sorted: Vec<_> = splices.iter().collect();
    // What is put in at a place comes before what is replaced from there on.
    sorted.sort_by_key(|(span, _)| (span.start, span.end));
    let (mut out, mut at) = (String::with_capacity(json.len()), 0);
    for (span, text) in sorted {
        // A place inside of one that was replaced is gone with it.
        if let Some(between) = json.get(at..span.start) {
            out.push_str(between);
            out.push_str(text);
            at = span.end;
        }
    }
    out.push_str(json.get(at..).unwrap_or_default());
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_found_and_nothing_else_changes() {
        let json = r#"{ "a" : "x\"" , "message":{"role":"user"},"a":"last" }"#;
        let fields = Fields::of(json).expect("an object");
        assert_eq!(fields.text("a").as_deref(), Some("last"));
        let value =
            span(json, fields.get("message").expect("it is there")).expect("it stands there");
        let key = key_span(json, "message", &value).expect("its key stands before it");
        let changed = spliced(json, &[(value, "1".to_owned()), (key, "\"data\"".to_owned())]);
        assert_eq!(changed, r#"{ "a" : "x\"" , "data":1,"a":"last" }"#);
        assert!(Fields::of("[1]").is_none());
        assert!(Fields::of("{\"a\":1").is_none());
    }

    /// Whichever of several members with one name a reader takes, it finds the value.
    #[test]
    fn a_member_is_set_whatever_stands_there() {
        let rows = [
            ("absent", r#"{"b":1}"#, r#"{"id":"n","b":1}"#),
            ("absent, of nothing", "{ }", r#"{"id":"n" }"#),
            ("null", r#"{"b":1,"id":null}"#, r#"{"b":1,"id":"n"}"#),
            ("a number", r#"{"id" : 17,"b":1}"#, r#"{"id" : "n","b":1}"#),
            ("an object", r#"{"id":{"id":"x"}}"#, r#"{"id":"n"}"#),
            ("a list", r#"{"id":["x"],"b":1}"#, r#"{"id":"n","b":1}"#),
            ("a text", r#"{"id":"x","b":1}"#, r#"{"id":"n","b":1}"#),
            ("escaped", r#"{"\u0069d":null}"#, r#"{"\u0069d":"n"}"#),
            ("twice", r#"{"id":"x","b":1,"id":null}"#, r#"{"id":"n","b":1,"id":"n"}"#),
            ("only deeper", r#"{"b":{"id":1}}"#, r#"{"id":"n","b":{"id":1}}"#),
        ];
        for (what, json, expected) in rows {
            for (before, behind) in [("", ""), (r#"{"id":"outer","in":"#, r#","id":2}"#)] {
                let whole = format!("{before}{json}{behind}");
                let object = &whole[before.len()..before.len() + json.len()];
                let set = spliced(&whole, &set_members(&whole, object, &[("id", quote("n"))]));
                assert_eq!(set, format!("{before}{expected}{behind}"), "{what}");
                let object = &set[before.len()..before.len() + expected.len()];
                let again = spliced(&set, &set_members(&set, object, &[("id", quote("n"))]));
                assert_eq!(again, set, "{what}, twice");
            }
        }
        let json = r#"{"type":"a","b":1}"#;
        let members = [("type", quote("n")), ("c", "2".to_owned()), ("d", "3".to_owned())];
        let set = spliced(json, &set_members(json, json, &members));
        assert_eq!(set, r#"{"type":"n","c":2,"d":3,"b":1}"#);
    }
}
