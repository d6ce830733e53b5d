//! Whether a request extends the one before it, as a prompt cache needs (G10).
//!
//! Responsible for: comparing the pieces of a request with what the session sent last. Must not:
//! decide what to do about a change.

use std::hash::{DefaultHasher, Hash, Hasher};

/// How a request relates to what its session sent before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Prefix {
    /// The session's first request.
    First,
    /// The same request again.
    Equal,
    /// The one before, and more.
    Extended,
    /// Something before the end differs.
    Changed,
}

/// Side requests (summaries, titles, subagents under one key) run beside the main line, so several
/// heads are known; as many as this.
const HEADS: usize = 8;

/// What a session sent last, once per line of requests.
#[derive(Debug, Default)]
pub(crate) struct Heads(Vec<Head>);

/// The end of one line of requests; all but its last piece is kept as hashes.
#[derive(Debug)]
struct Head {
    before: Vec<u64>,
    last: String,
    bytes: usize,
}

impl Heads {
    /// Compares a request, remembers it, and gives the bytes that were known already.
    pub(crate) fn observe(&mut self, units: &[String]) -> (Prefix, usize) {
        let hashes: Vec<u64> = units.iter().map(|unit| hash(unit)).collect();
        let found = self.0.iter().position(|head| head.is_start_of(&hashes, units));
        let known = found.map(|index| self.0.remove(index));
        let prefix = match &known {
            Some(head)
                if head.before.len() + 1 == units.len() && units.last() == Some(&head.last) =>
            {
                Prefix::Equal
            }
            Some(_) => Prefix::Extended,
            None if self.0.is_empty() => Prefix::First,
            None => Prefix::Changed,
        };
        if self.0.len() == HEADS {
            self.0.remove(0);
        }
        if let Some((last, before)) = units.split_last() {
            self.0.push(Head {
                before: hashes.into_iter().take(before.len()).collect(),
                last: last.clone(),
                bytes: units.iter().map(String::len).sum(),
            });
        }
        (prefix, known.map_or(0, |head| head.bytes))
    }
}

impl Head {
    /// Text may go on inside the last piece: a client that joins two user messages in a row into one.
    fn is_start_of(&self, hashes: &[u64], units: &[String]) -> bool {
        let Some(next) = units.get(self.before.len()) else { return false };
        let open = self.last.strip_suffix("\"}").filter(|text| text.starts_with("user:"));
        hashes.starts_with(&self.before)
            && (*next == self.last || open.is_some_and(|text| next.starts_with(text)))
    }
}

fn hash(unit: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    unit.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn units(text: &str) -> Vec<String> {
        text.split(' ').map(str::to_owned).collect()
    }

    /// Covers: G10.
    #[test]
    fn requests_are_compared_with_the_newest_of_their_line() {
        let mut heads = Heads::default();
        let steps = [
            ("s a", Prefix::First, 0),
            ("s a", Prefix::Equal, 2),
            ("s a b", Prefix::Extended, 2),
            ("s a", Prefix::Changed, 0),
            ("x y", Prefix::Changed, 0),
            ("x y z", Prefix::Extended, 2),
            ("s a b c", Prefix::Extended, 3),
            ("s A b c d", Prefix::Changed, 0),
        ];
        for (text, expected, known) in steps {
            assert_eq!(heads.observe(&units(text)), (expected, known), "{text}");
        }
    }

    #[test]
    fn text_may_go_on_inside_the_last_user_piece() {
        let mut heads = Heads::default();
        heads.observe(&[r#"user:{"type":"text","text":"one"}"#.to_owned()]);
        let more = [r#"user:{"type":"text","text":"one\n\ntwo"}"#.to_owned()];
        assert_eq!(heads.observe(&more).0, Prefix::Extended);
        let other = [r#"user:{"type":"text","text":"on"}"#.to_owned()];
        assert_eq!(heads.observe(&other).0, Prefix::Changed);
    }
}
