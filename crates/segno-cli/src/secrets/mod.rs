//! Secrets in text, found by rules that hardly ever err.
//!
//! Responsible for: masking credentials in what leaves the machine (exports), the same secret by the same
//! mask. Pure. Must not: mask what only might be one (a hash, an id), touch a provider's signatures, or
//! change anything stored.

mod makers;
mod named;
mod rules;
#[cfg(test)]
mod tests;

use crate::terminal::clean;
use serde_json::Value;
use std::borrow::Cow;
use std::collections::HashMap;

/// A secret that was found is masked wherever else it stands when it is at least so long.
const KNOWN: usize = 16;

/// A value that its key gives away is not longer.
const LONGEST: usize = 4096;

/// Takes secrets out of the texts of one export.
#[derive(Debug, Default)]
pub struct Masker {
    off: bool,
    /// What stands for each secret.
    marks: HashMap<String, String>,
    /// How many different ones of each kind there were.
    kinds: HashMap<&'static str, usize>,
    /// Of the secrets that are looked for everywhere, by their first bytes.
    known: HashMap<[u8; 8], Vec<String>>,
    masked: usize,
}

impl Masker {
    /// One that masks, or one that lets everything through.
    #[must_use]
    pub fn new(on: bool) -> Self {
        Self { off: !on, ..Self::default() }
    }

    /// Whether it masks.
    #[must_use]
    pub fn is_on(&self) -> bool {
        !self.off
    }

    /// How many secrets were masked so far, each place counted.
    #[must_use]
    pub fn masked(&self) -> usize {
        self.masked
    }

    /// Text as a terminal may be shown it, without its secrets. It is cleaned first: a secret is one also where a
    /// control sequence hides in it.
    pub fn shown(&mut self, text: &str) -> String {
        self.text(&clean::block(text)).into_owned()
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

    /// Text without its secrets.
    pub fn text<'a>(&mut self, text: &'a str) -> Cow<'a, str> {
        if self.off {
            return Cow::Borrowed(text);
        }
        let found = rules::find(text);
        for (range, label) in &found {
            self.learn(&text[range.clone()], label);
        }
        let known = self.places(text);
        if found.is_empty() && known.is_empty() {
            return Cow::Borrowed(text);
        }
        let mut out = String::with_capacity(text.len());
        let mut at = 0;
        let mut places: Vec<_> = found.into_iter().map(|(range, _)| range).chain(known).collect();
        places.sort_by_key(|range| (range.start, std::cmp::Reverse(range.end)));
        for range in places {
            if range.start < at {
                continue;
            }
            out.push_str(&text[at..range.start]);
            out.push_str(self.marks.get(&text[range.clone()]).map_or("[masked]", String::as_str));
            at = range.end;
            self.masked += 1;
        }
        out.push_str(&text[at..]);
        Cow::Owned(out)
    }

    fn learn(&mut self, secret: &str, label: &'static str) {
        if self.marks.contains_key(secret) {
            return;
        }
        let number = self.kinds.entry(label).or_default();
        *number += 1;
        let mark = match *number {
            1 => format!("[masked: {label}]"),
            n => format!("[masked: {label} {n}]"),
        };
        self.marks.insert(secret.to_owned(), mark);
        // A chosen password may be a word of the language.
        let made = secret.len() >= KNOWN && secret.bytes().any(|b| b.is_ascii_digit());
        if let Some(first) = secret.as_bytes().first_chunk::<8>().filter(|_| made) {
            let known = self.known.entry(*first).or_default();
            known.push(secret.to_owned());
            known.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
        }
    }

    /// Where secrets stand that were found before, whatever is around them.
    fn places(&self, text: &str) -> Vec<std::ops::Range<usize>> {
        let mut found = Vec::new();
        if self.known.is_empty() {
            return found;
        }
        let bytes = text.as_bytes();
        let mut at = 0;
        while let Some(first) = bytes.get(at..).and_then(|rest| rest.first_chunk::<8>()) {
            let here = self.known.get(first).into_iter().flatten();
            let fits = |secret: &&String| bytes[at..].starts_with(secret.as_bytes());
            match here.into_iter().find(fits) {
                Some(secret) => {
                    found.push(at..at + secret.len());
                    at += secret.len();
                }
                None => at += 1,
            }
        }
        found
    }

    /// One JSON text, or several behind each other, without the secrets in their strings. Everything else stays
    /// byte for byte. Signatures that a provider checks stay.
    pub fn json<'a>(&mut self, json: &'a str) -> Cow<'a, str> {
        /// How deep JSON in a string of JSON is looked into.
        const DEPTH: u32 = 4;
        if self.off { Cow::Borrowed(json) } else { Cow::Owned(self.json_in(json, DEPTH)) }
    }

    fn json_in(&mut self, json: &str, depth: u32) -> String {
        let mut out = String::with_capacity(json.len());
        let mut at = 0;
        let mut key = String::new();
        // `{"name": "API_TOKEN", "value": …}`: the name says what the value is.
        let mut name = String::new();
        while let Some(open) = json[at..].find('"').map(|found| at + found) {
            let Some(end) = literal_end(json, open) else { break };
            let literal = &json[open..end];
            out.push_str(&json[at..open]);
            at = end;
            let readable = segno_model::line::readable_json(literal.as_bytes());
            let text: String = serde_json::from_str(&readable).unwrap_or_default();
            if json[end..].trim_start().starts_with(':') {
                key = text;
                out.push_str(literal);
                continue;
            }
            if key == "name" {
                name.clone_from(&text);
            }
            let said = if key == "value" && named::promises(&name) { &name } else { &key };
            match self.value(said, &text, depth) {
                Some(masked) => out.push_str(&serde_json::Value::String(masked).to_string()),
                None => out.push_str(literal),
            }
        }
        out.push_str(&json[at..]);
        out
    }

    /// A string in JSON, if something in it is masked.
    fn value(&mut self, key: &str, text: &str, depth: u32) -> Option<String> {
        if UNTOUCHED.contains(&key) {
            return None;
        }
        // The key may be what gives the value away.
        let short = text.len() <= LONGEST;
        let named = if short { format!("\"{key}\":\"{text}\"") } else { String::new() };
        let found = if short { rules::find(&named) } else { Vec::new() };
        let whole = found
            .into_iter()
            .find(|(range, _)| range.start == key.len() + 4 && range.end == named.len() - 1);
        if let Some((_, label)) = whole {
            self.learn(text, label);
            self.masked += 1;
            return self.marks.get(text).cloned();
        }
        let before = self.masked;
        let inner = text.trim_start().starts_with(['{', '[']) && depth > 0;
        let text = if inner { self.json_in(text, depth - 1) } else { text.to_owned() };
        let text = self.text(&text).into_owned();
        (self.masked > before).then_some(text)
    }
}

/// Fields that providers check: masking one would break what it signs, and it is no credential.
const UNTOUCHED: &[&str] = &[
    "signature",
    "encrypted_content",
    "encryptedContent",
    "thought_signature",
    "thoughtSignature",
    "reasoning_opaque",
];

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
