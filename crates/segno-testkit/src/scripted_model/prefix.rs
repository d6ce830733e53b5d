//! Whether a request extends the one before it, as a prompt cache needs (G10).
//!
//! Responsible for: comparing the pieces of a request with what the session sent last. Must not:
//! decide what to do about a change.

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
pub(crate) struct Heads(Vec<Vec<String>>);

impl Heads {
    /// Compares a request, remembers it, and gives the bytes that were known already.
    pub(crate) fn observe(&mut self, units: &[String]) -> (Prefix, usize) {
        let found = self.0.iter().position(|head| extends(head, units));
        let known = match found {
            Some(index) => self.0.remove(index),
            None => Vec::new(),
        };
        let prefix = match found {
            Some(_) if known.as_slice() == units => Prefix::Equal,
            Some(_) => Prefix::Extended,
            None if self.0.is_empty() => Prefix::First,
            None => Prefix::Changed,
        };
        if self.0.len() == HEADS {
            self.0.remove(0);
        }
        self.0.push(units.to_vec());
        (prefix, known.iter().map(String::len).sum())
    }
}

/// Text may go on inside the last piece: a client that joins two user messages in a row into one.
fn extends(head: &[String], units: &[String]) -> bool {
    let Some((last, before)) = head.split_last() else { return true };
    let Some(new_last) = units.get(before.len()) else { return false };
    let joined = last.strip_suffix("\"}").filter(|text| text.starts_with("user:"));
    units.starts_with(before)
        && (new_last == last || joined.is_some_and(|text| new_last.starts_with(text)))
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
