//! Secrets in JSON.
//!
//! Responsible for: what its strings stand for, JSON within them, and what keys and neighbours give away; all
//! else stays byte for byte. Must not: touch what a provider signs.

use super::{Masker, named, rules, spoken};
use crate::terminal::clean;
use serde_json::Value;
use std::borrow::Cow;

/// A value that its key gives away is not longer.
const LONGEST: usize = 4096;

/// How deep JSON in a string of JSON is looked into.
const DEPTH: u32 = 4;

/// Fields that providers check: masking one would break what it signs, and it is no credential.
const UNTOUCHED: &[&str] = &[
    "signature",
    "encrypted_content",
    "encryptedContent",
    "thought_signature",
    "thoughtSignature",
    "reasoning_opaque",
];

/// What stands in front of a string and may say what it is.
#[derive(Debug, Default)]
struct Before {
    /// The key that it belongs to.
    key: String,
    /// `{"name": "API_TOKEN", "value": …}`: the name says what the value is.
    name: String,
    /// `["X-Auth-Token", …]`: the string right in front of it in the same list.
    neighbour: Option<String>,
    /// It is a private member of a key.
    in_key: bool,
}

impl Masker {
    /// One JSON text, or several behind each other, without the secrets in their strings. Everything else stays
    /// byte for byte. Signatures that a provider checks stay.
    pub fn json<'a>(&mut self, json: &'a str) -> Cow<'a, str> {
        if self.off { Cow::Borrowed(json) } else { Cow::Owned(self.json_in(json, DEPTH)) }
    }

    /// Takes in the secrets of a JSON text that is masked later, so that each is known from its beginning on.
    pub fn look_through(&mut self, json: &str) {
        let before = self.masked;
        let _ = self.json(json);
        self.masked = before;
    }

    /// The arguments of a call, as [`Self::shown`] gives text: what their strings stand for is cleaned.
    pub fn arguments(&mut self, json: &str) -> String {
        let cleaned = serde_json::from_str(json).ok().and_then(|mut value: Value| {
            let changed = clean_strings(&mut value);
            changed.then(|| value.to_string())
        });
        let masked = self.json(cleaned.as_deref().unwrap_or(json)).into_owned();
        self.shown(&masked)
    }

    fn json_in(&mut self, json: &str, depth: u32) -> String {
        let mut out = String::with_capacity(json.len());
        let mut at = 0;
        let mut before = Before::default();
        while let Some(open) = json[at..].find('"').map(|found| at + found) {
            let Some(end) = literal_end(json, open) else { break };
            let literal = &json[open..end];
            let between = &json[at..open];
            if between.trim_start().starts_with('}') && between.ends_with('{') {
                // Another one of a list.
                before.name.clear();
            }
            out.push_str(between);
            at = end;
            let readable = segno_model::line::readable_json(literal.as_bytes());
            let text: String = serde_json::from_str(&readable).unwrap_or_default();
            if json[end..].trim_start().starts_with(':') {
                let masked = self.text(&text);
                match masked {
                    Cow::Borrowed(_) => out.push_str(literal),
                    Cow::Owned(masked) => out.push_str(&Value::String(masked).to_string()),
                }
                before.key = text;
                before.neighbour = None;
                continue;
            }
            if between.trim() != "," {
                before.neighbour = None;
            }
            if before.name.is_empty() && is_value(&before.key) {
                before.name = spoken::name_behind(json, end).unwrap_or_default().to_owned();
            }
            let member = spoken::is_private_member(&before.key, &text);
            before.in_key = member && spoken::is_in_key(json, open);
            match self.value(&before, &text, depth) {
                Some(masked) => out.push_str(&Value::String(masked).to_string()),
                None => out.push_str(literal),
            }
            if is_value(&before.key) {
                before.name.clear();
            }
            if before.key.eq_ignore_ascii_case("name") || before.key == "key" {
                before.name.clone_from(&text);
            }
            before.neighbour = Some(text);
        }
        out.push_str(&json[at..]);
        out
    }

    /// A string in JSON, if something in it is masked.
    fn value(&mut self, before: &Before, text: &str, depth: u32) -> Option<String> {
        if UNTOUCHED.contains(&before.key.as_str()) {
            return None;
        }
        if let Some(label) = given_away(before, text) {
            self.masked += 1;
            return Some(self.learn(text, label));
        }
        let count = self.masked;
        let inner = text.trim_start().starts_with(['{', '[']) && depth > 0;
        let text = if inner { self.json_in(text, depth - 1) } else { text.to_owned() };
        let text = self.text(&text).into_owned();
        (self.masked > count).then_some(text)
    }
}

/// Whether a member holds what another one beside it names.
fn is_value(key: &str) -> bool {
    key.eq_ignore_ascii_case("value")
}

/// What a string is by what stands in front of it.
fn given_away(before: &Before, text: &str) -> Option<&'static str> {
    if text.len() > LONGEST || before.key.len() > LONGEST {
        return None;
    }
    if before.in_key {
        return Some("private-key");
    }
    let key = if is_value(&before.key) && named::promises(&before.name) {
        &before.name
    } else {
        &before.key
    };
    let beside = || before.neighbour.as_deref().and_then(|name| named::beside(name, text));
    named::keyed(key, text).or_else(beside).or_else(|| header(key, text))
}

/// A key that is one only with its value behind it, as `x-api-key`.
fn header(key: &str, text: &str) -> Option<&'static str> {
    let line = rules::is_header(key).then(|| format!("{key}: {text}"))?;
    let found = rules::find_in(&line, false);
    let whole = found.into_iter().find(|(range, _)| *range == (key.len() + 2..line.len()));
    whole.map(|(_, label)| label)
}

/// Where a string literal that opens here ends.
fn literal_end(json: &str, open: usize) -> Option<usize> {
    let bytes = json.as_bytes();
    let mut at = open + 1;
    while at < bytes.len() {
        match bytes[at] {
            b'\\' => at += 2,
            b'"' => return Some(at + 1),
            _ => at += 1,
        }
    }
    None
}

/// Whether cleaning one of these changed it; all are cleaned.
fn changes<'a>(values: impl Iterator<Item = &'a mut Value>) -> bool {
    values.map(clean_strings).filter(|changed| *changed).count() > 0
}

/// Cleans all strings in a value; whether that changed one.
fn clean_strings(value: &mut Value) -> bool {
    match value {
        Value::String(text) => {
            let cleaned = clean::block(text);
            let changed = cleaned != *text;
            *text = cleaned;
            changed
        }
        Value::Array(items) => changes(items.iter_mut()),
        Value::Object(fields) => changes(fields.values_mut()),
        _ => false,
    }
}
