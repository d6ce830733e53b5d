//! Secrets in text, found by rules that hardly ever err.
//!
//! Responsible for: masking credentials in what leaves the machine (exports), the same secret by the same
//! mask, in a time by the length of the text, whatever is in it. Pure. Must not: mask what only might be one (a
//! hash, an id), touch a provider's signatures, or change anything stored.

mod address;
mod json;
mod judge;
mod known;
mod makers;
mod named;
mod options;
mod packed;
mod plain;
mod rules;
mod scan;
mod spoken;
#[cfg(test)]
mod tests;

use crate::terminal::clean;
use known::Known;
use plain::Plain;
use std::borrow::Cow;
use std::collections::HashMap;

/// Takes secrets out of the texts of one export.
#[derive(Debug, Default)]
pub struct Masker {
    off: bool,
    /// What stands for each secret.
    marks: HashMap<String, String>,
    /// How many different ones of each kind there were.
    kinds: HashMap<&'static str, usize>,
    known: Known,
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

    /// How many different secrets were masked so far.
    #[must_use]
    pub fn different(&self) -> usize {
        self.marks.len()
    }

    /// Text as a terminal may be shown it, without its secrets. It is cleaned first: a secret is one also where a
    /// control sequence hides in it.
    pub fn shown(&mut self, text: &str) -> String {
        self.text(&clean::block(text)).into_owned()
    }

    /// Text without its secrets.
    pub fn text<'a>(&mut self, text: &'a str) -> Cow<'a, str> {
        if self.off {
            return Cow::Borrowed(text);
        }
        let plain = Plain::of(text);
        let mut places: Vec<_> = rules::find(text, plain.as_ref())
            .into_iter()
            .map(|found| (found.range, self.learn(&found.secret, found.label)))
            .collect();
        for range in self.known.places(text) {
            let mark = self.mark(&text[range.clone()]);
            places.push((range, mark));
        }
        if let Some(plain) = &plain {
            for range in self.known.places(&plain.text) {
                places.push((plain.written(&range), self.mark(&plain.text[range])));
            }
        }
        if places.is_empty() {
            return Cow::Borrowed(text);
        }
        places.sort_by_key(|(range, _)| (range.start, std::cmp::Reverse(range.end)));
        let mut out = String::with_capacity(text.len());
        let mut at = 0;
        for (range, mark) in places {
            if range.start >= at {
                out.push_str(&text[at..range.start]);
                out.push_str(&mark);
                self.masked += 1;
            }
            // What another one goes beyond is a part of it.
            at = at.max(range.end);
        }
        out.push_str(&text[at..]);
        Cow::Owned(out)
    }

    fn mark(&self, secret: &str) -> String {
        self.marks.get(secret).map_or("[masked]", String::as_str).to_owned()
    }

    /// Takes a secret in; gives what stands for it.
    fn learn(&mut self, secret: &str, label: &'static str) -> String {
        if let Some(mark) = self.marks.get(secret) {
            return mark.clone();
        }
        let number = self.kinds.entry(label).or_default();
        *number += 1;
        let mark = match *number {
            1 => format!("[masked: {label}]"),
            n => format!("[masked: {label} {n}]"),
        };
        self.marks.insert(secret.to_owned(), mark.clone());
        self.known.learn(secret);
        mark
    }
}
