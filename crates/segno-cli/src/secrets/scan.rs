//! Looking along a text.
//!
//! Responsible for: how far something goes on, what stands in front of it, where words begin; all searches of
//! the rules with an open end go through [`span`], which counts the bytes that it looks at for the tests. Must
//! not: know what a secret is.

use super::makers::Alphabet;

/// By so many bytes of it a value is judged, so that no byte is looked at for more than that many values.
pub(super) const JUDGED: usize = 128;

/// So much of a line in front of something is looked at.
const BACK: usize = 200;

#[cfg(test)]
thread_local! {
    /// How many bytes were looked at.
    pub(super) static LOOKED: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

/// How many bytes from here on are of a kind, at most so many; it ends between characters.
pub(super) fn span(text: &str, from: usize, most: usize, mut of: impl FnMut(u8) -> bool) -> usize {
    let bytes = text.as_bytes().get(from..).unwrap_or_default();
    let mut length = bytes.iter().take(most).take_while(|byte| of(**byte)).count();
    #[cfg(test)]
    LOOKED.with(|looked| looked.set(looked.get() + length + 1));
    while length > 0 && !text.is_char_boundary(from + length) {
        length -= 1;
    }
    length
}

/// How many letters of an alphabet follow, at most so many.
pub(super) fn run(text: &str, from: usize, alphabet: Alphabet, most: usize) -> usize {
    span(text, from, most, |byte| alphabet.has(byte))
}

/// Whether a word stands here, in any case.
pub(super) fn has(text: &str, at: usize, word: &str) -> bool {
    let here = text.as_bytes().get(at..at.saturating_add(word.len()));
    here.is_some_and(|bytes| bytes.eq_ignore_ascii_case(word.as_bytes()))
}

/// Whether a word may begin here. In JSON within JSON one may follow the letter of an escape, as in `\nsk-…`; in
/// a diff, or as an option, a dash that is no part of a word.
pub(super) fn starts_word(text: &str, at: usize) -> bool {
    let bytes = text.as_bytes();
    let before = |back: usize| at.checked_sub(back).map(|i| bytes[i]);
    match (before(2), before(1)) {
        (Some(b'\\'), Some(b'n' | b'r' | b't')) => true,
        (first, Some(b'-')) => first.is_none_or(|byte| !Alphabet::Word.has(byte)),
        (_, byte) => byte.is_none_or(|byte| !Alphabet::Word.has(byte)),
    }
}

/// What stands in front of this on its line. Of long lines only the end.
pub(super) fn line_before(text: &str, at: usize) -> &str {
    let from = at.saturating_sub(BACK);
    let window = text.as_bytes().get(from..at).unwrap_or_default();
    #[cfg(test)]
    LOOKED.with(|looked| looked.set(looked.get() + window.len()));
    let start = window.iter().rposition(|b| *b == b'\n').map_or(from, |found| from + found + 1);
    let start = (start..=at).find(|i| text.is_char_boundary(*i)).unwrap_or(at);
    &text[start..at]
}

/// What stands in front of this, over lines, at most so many bytes.
pub(super) fn before(text: &str, at: usize, most: usize) -> &str {
    let from = at.saturating_sub(most);
    #[cfg(test)]
    LOOKED.with(|looked| looked.set(looked.get() + at - from));
    let start = (from..=at).find(|i| text.is_char_boundary(*i)).unwrap_or(at);
    &text[start..at]
}

/// Whether a value without quotes goes on with this.
pub(super) fn in_bare(byte: u8) -> bool {
    !byte.is_ascii_whitespace() && !b"\"'`,;)]}<>&|\\".contains(&byte)
}

/// Whether a space or a tab.
pub(super) fn is_blank(byte: u8) -> bool {
    byte == b' ' || byte == b'\t'
}
