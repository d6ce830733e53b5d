//! JSON objects whose values keep their exact text.
//!
//! Responsible for: reading and writing provider items without re-formatting what is inside them.
//! Must not: know any provider's fields.

use serde::de::{DeserializeOwned, MapAccess, Visitor};
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::fmt;

/// An object: keys in their order, values as they were written.
#[derive(Debug, Clone, Default)]
pub(super) struct Object(Vec<(String, Box<RawValue>)>);

impl Object {
    /// Reads an object, or nothing if `text` is not one.
    pub(super) fn parse(text: &str) -> Option<Self> {
        serde_json::from_str(text).ok()
    }

    /// A value's own text.
    pub(super) fn raw(&self, key: &str) -> Option<&RawValue> {
        self.0.iter().find(|(k, _)| k == key).map(|(_, v)| &**v)
    }

    /// A value, if it is there and has this type; `null` counts as absent.
    pub(super) fn get<T: DeserializeOwned>(&self, key: &str) -> Option<T> {
        serde_json::from_str::<Option<T>>(self.raw(key)?.get()).ok()?
    }

    /// A text value; empty when it is absent or something else.
    pub(super) fn text(&self, key: &str) -> String {
        self.get(key).unwrap_or_default()
    }

    /// A nested object.
    pub(super) fn object(&self, key: &str) -> Option<Self> {
        self.get(key)
    }

    /// A nested list of objects; empty when absent.
    pub(super) fn objects(&self, key: &str) -> Vec<Self> {
        self.get(key).unwrap_or_default()
    }

    /// Sets a value, in its place if the key exists, else at the end.
    pub(super) fn set(&mut self, key: &str, value: &(impl Serialize + ?Sized)) {
        self.set_raw(key, to_raw(value));
    }

    /// Sets a value by its text.
    pub(super) fn set_raw(&mut self, key: &str, value: Box<RawValue>) {
        match self.0.iter_mut().find(|(k, _)| k == key) {
            Some((_, old)) => *old = value,
            None => self.0.push((key.to_owned(), value)),
        }
    }

    /// The keys with their values, in order.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&str, &RawValue)> {
        self.0.iter().map(|(k, v)| (k.as_str(), &**v))
    }

    /// The object as a value's text.
    pub(super) fn to_raw(&self) -> Box<RawValue> {
        to_raw(self)
    }
}

/// A value's JSON text.
pub(super) fn to_raw(value: &(impl Serialize + ?Sized)) -> Box<RawValue> {
    serde_json::value::to_raw_value(value).expect("invariant: our values have text keys only")
}

/// A call's arguments as they can be sent: exactly what the model wrote if it is a JSON object, and
/// otherwise an object that shows what it wrote, since providers refuse anything else.
pub(super) fn sendable_arguments(text: &str) -> Cow<'_, str> {
    let trimmed = text.trim();
    if trimmed.is_empty() {
        return Cow::Borrowed("{}");
    }
    // Read whole: strict readers refuse half a character pair, which a raw value may hold.
    if trimmed.starts_with('{') && serde_json::from_str::<serde_json::Value>(trimmed).is_ok() {
        return Cow::Borrowed(text);
    }
    Cow::Owned(serde_json::json!({ "unparsed_arguments": text }).to_string())
}

/// As [`sendable_arguments`], as a value.
pub(super) fn arguments_object(text: &str) -> Box<RawValue> {
    serde_json::from_str(&sendable_arguments(text))
        .expect("invariant: what can be sent is a JSON object")
}

impl Serialize for Object {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (key, value) in &self.0 {
            map.serialize_entry(key, value)?;
        }
        map.end()
    }
}

impl<'de> Deserialize<'de> for Object {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Entries;
        impl<'de> Visitor<'de> for Entries {
            type Value = Object;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a JSON object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Object, A::Error> {
                let mut entries = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    entries.push(entry);
                }
                Ok(Object(entries))
            }
        }
        deserializer.deserialize_map(Entries)
    }
}
