//! Secrets that were found once, so that they are found wherever else they stand.
//!
//! Responsible for: which ones are looked for, and where they are in a text. Must not: take a word that somebody
//! chose as a password for a secret everywhere.

use super::scan::span;
use std::collections::{BTreeSet, HashSet};
use std::ops::{Bound, Range};

/// Shorter ones are not looked for.
const LEAST: usize = 16;

/// Longer ones neither, so that a text is looked through in a time by its length.
const MOST: usize = 4096;

/// By so many bytes it is seen whether one may stand somewhere.
const FIRST: usize = 8;

/// The secrets that are looked for everywhere.
#[derive(Debug, Default)]
pub(super) struct Known {
    firsts: HashSet<[u8; FIRST]>,
    secrets: BTreeSet<String>,
}

impl Known {
    /// Takes one in, if it is one that a machine made: a chosen password may be a word of the language.
    pub(super) fn learn(&mut self, secret: &str) {
        let made = secret.bytes().any(|b| b.is_ascii_digit());
        let fits = (LEAST..=MOST).contains(&secret.len()) && made;
        if let Some(first) = secret.as_bytes().first_chunk().filter(|_| fits) {
            self.firsts.insert(*first);
            self.secrets.insert(secret.to_owned());
        }
    }

    /// Where they stand in a text, whatever is around them.
    pub(super) fn places(&self, text: &str) -> Vec<Range<usize>> {
        let mut found = Vec::new();
        if self.secrets.is_empty() {
            return found;
        }
        let mut at = 0;
        while let Some(first) = text.as_bytes().get(at..).and_then(|rest| rest.first_chunk()) {
            let here = self.firsts.contains(first).then(|| self.longest(text, at)).flatten();
            match here {
                Some(length) => {
                    found.push(at..at + length);
                    at += length;
                }
                None => at += 1,
            }
        }
        found
    }

    /// The longest one that begins here. In order, what begins a text is close in front of it.
    fn longest(&self, text: &str, at: usize) -> Option<usize> {
        /// Ones that are in between, with the same beginning and another end.
        const TRIES: usize = 4;
        let most = span(text, at, MOST, |_| true);
        let mut rest = text.get(at..at + most)?;
        for _ in 0..TRIES {
            let upto = (Bound::Unbounded, Bound::Included(rest));
            let near = self.secrets.range::<str, _>(upto).next_back()?;
            if rest.starts_with(near.as_str()) {
                return Some(near.len());
            }
            let same = rest.bytes().zip(near.bytes()).take_while(|(a, b)| a == b).count();
            rest = &rest[..(0..=same).rev().find(|i| rest.is_char_boundary(*i))?];
        }
        None
    }
}
