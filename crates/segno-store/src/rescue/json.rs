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
    let start = (piece.get().as_ptr() as usize).checked_sub(json.as_ptr() as usize)?;
    let end = start.checked_add(piece.get().len())?;
    (json.get(start..end) == Some(piece.get())).then_some(start..end)
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
    sorted.sort_by_key(|(span, _)| span.start);
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
}
