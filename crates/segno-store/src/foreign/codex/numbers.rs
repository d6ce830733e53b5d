//! Which lines of a rollout stand there already, and what their numbers say.
//!
//! Responsible for: the one rule by which everything here tells a repeated line from a repeated number, and a
//! number that is off from the end of a part. The reader, forks and repair ask it, so that they agree. Must not:
//! hand on records, or change a number.
//!
//! A number alone proves nothing: it may be far too high, be given twice or go backwards. A line is a repeat when
//! number and content are those of an earlier one. Lines of older files have no numbers: of those, calls and
//! results are repeats when all of the line is the same, its time and the call's id with it.

use super::super::item::Origin;
use super::rows::{Base, Item, Row, number, object, text};
use segno_model::line::checksum;
use serde_json::value::RawValue;
use std::collections::{HashMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};

/// The lines of one file so far, by their numbers.
#[derive(Default)]
pub(crate) struct Ordinals {
    /// The one after the highest; none before the first.
    pub(super) next: Option<u64>,
    /// The one after the last line's that was no repeat: one number that is far too high is then told
    /// once, not with each line behind it.
    follows: Option<u64>,
    /// By number, what its first line holds: tells a doubled line from a doubled number.
    seen: HashMap<u64, u32>,
    /// Calls and results without a number.
    unnumbered: HashSet<u64>,
}

/// What is the matter with a line's number.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Numbered {
    /// Nothing.
    Well,
    /// So many are missing before it.
    Gap(u64),
    /// No line had it before, but the one before it has a higher one.
    Late,
    /// It was there before, on another line.
    Again,
    /// The same line was there before.
    Twice,
}

impl Ordinals {
    /// Takes a line, given whole and as its fields.
    pub(super) fn row(&mut self, row: &Row<'_>, json: &str) -> Numbered {
        match number(row.ordinal) {
            Some(ordinal) => self.take(ordinal, row.payload.map_or(json, RawValue::get)),
            None if is_dated_call(row, json) && !self.unnumbered.insert(hash(json)) => {
                Numbered::Twice
            }
            None => Numbered::Well,
        }
    }

    /// Takes a line of which nothing is known but its text.
    pub(crate) fn line(&mut self, json: &str) -> Numbered {
        serde_json::from_str::<Row<'_>>(json).map_or(Numbered::Well, |row| self.row(&row, json))
    }

    fn take(&mut self, ordinal: u64, content: &str) -> Numbered {
        let print = checksum(content.as_bytes());
        if let Some(first) = self.seen.get(&ordinal) {
            return if *first == print { Numbered::Twice } else { Numbered::Again };
        }
        self.seen.insert(ordinal, print);
        let next = self.next.unwrap_or(0);
        let after = ordinal.saturating_add(1);
        let follows = self.follows.replace(after).unwrap_or(next);
        self.next = Some(next.max(after));
        if ordinal == next || ordinal == follows {
            return Numbered::Well;
        }
        let expected = if ordinal > next { next } else { follows };
        ordinal.checked_sub(expected).map_or(Numbered::Late, Numbered::Gap)
    }
}

/// The first line that is not part of a base any more.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct End {
    pub(super) ordinal: Option<u64>,
    pub(super) offset: Option<u64>,
}

impl End {
    pub(super) fn of(base: &Base<'_>) -> Self {
        Self { ordinal: number(base.ordinal), offset: number(base.offset) }
    }

    /// A fork may end its base before the base's own records begin: where a line stands there is not said.
    pub(super) fn or_earlier(self, end: Self) -> Self {
        match (self.ordinal, end.ordinal) {
            (Some(own), Some(ordinal)) if ordinal < own => {
                Self { ordinal: Some(ordinal), offset: None }
            }
            (own, ordinal) => Self { ordinal: own.or(ordinal), ..self },
        }
    }
}

/// Which lines of a file stand before an end.
///
/// Where the end is named as a place, that decides, whatever the lines' numbers say. Else the numbers do, but not
/// a single one: the end is where two numbered lines in a row have numbers that do not belong any more, or where
/// the file ends behind one.
pub(super) struct Before {
    end: End,
    /// A line whose number does not belong any more, and what came behind it.
    held: Vec<(String, Origin)>,
    /// Whether a line stands where the end is, or right before it.
    is_reached: bool,
}

/// What is known once a line was given.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Known {
    /// These lines belong to the base.
    Within(Vec<(String, Origin)>),
    /// The next lines will tell.
    NotYet,
    /// The end was passed; neither this line nor those that were held belong to it.
    Passed,
}

impl Before {
    pub(super) fn new(end: End) -> Self {
        let is_reached = end.ordinal.is_none_or(|end| end == 0) && end.offset.is_none();
        Self { end, held: Vec::new(), is_reached }
    }

    /// Whether the file goes on to the end, as far as was read.
    pub(super) fn is_reached(&self) -> bool {
        self.is_reached
    }

    pub(super) fn take(&mut self, row: &Row<'_>, json: &str, origin: &Origin) -> Known {
        /// The end of a line.
        const LINE_END: u64 = 2;
        let behind = origin.offset.map(|at| at.saturating_add(json.len() as u64 + LINE_END));
        let by_place = self.end.offset.zip(behind).is_some_and(|(end, behind)| behind >= end);
        let by_number = self.end.ordinal.zip(number(row.ordinal));
        self.is_reached |=
            by_place || by_number.is_some_and(|(end, own)| own >= end.saturating_sub(1));
        if let Some((end, offset)) = self.end.offset.zip(origin.offset) {
            let line = || vec![(json.to_owned(), origin.clone())];
            return if offset < end { Known::Within(line()) } else { Known::Passed };
        }
        let number = number(row.ordinal);
        let is_beyond = number.zip(self.end.ordinal).is_some_and(|(number, end)| number >= end);
        if is_beyond && !self.held.is_empty() {
            return Known::Passed;
        }
        let waits = is_beyond || number.is_none() && !self.held.is_empty();
        self.held.push((json.to_owned(), origin.clone()));
        if waits { Known::NotYet } else { Known::Within(std::mem::take(&mut self.held)) }
    }
}

/// Whether a line holds a call or a result, with its time and the call's id.
fn is_dated_call(row: &Row<'_>, json: &str) -> bool {
    const KINDS: &[&str] = &["function_call", "custom_tool_call", "local_shell_call"];
    if row.timestamp.is_none() || memchr::memmem::find(json.as_bytes(), b"\"call_id\"").is_none() {
        return false;
    }
    let bare = || serde_json::from_str::<Item<'_>>(json).ok().filter(|_| row.is_bare_item());
    let Some(item) = object::<Item<'_>>(row.item()).or_else(bare) else { return false };
    let kind = text(item.kind).unwrap_or_default();
    let is_call = KINDS.iter().any(|known| kind.strip_suffix("_output").unwrap_or(&kind) == *known);
    is_call && text(item.call_id).is_some_and(|id| !id.is_empty())
}

fn hash(json: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    json.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::{Before, End, Known, Numbered, Ordinals};
    use crate::foreign::codex::rows::Row;
    use crate::foreign::item::Origin;

    #[test]
    fn numbers_are_followed() {
        let rows = [
            (0, "1", Numbered::Well),
            (1, "2", Numbered::Well),
            (1, "2", Numbered::Twice),
            (1, "3", Numbered::Again),
            (1, "2", Numbered::Twice),
            (2, "4", Numbered::Well),
            (0, "1", Numbered::Twice),
            (5, "5", Numbered::Gap(2)),
            (3, "6", Numbered::Late),
            (3, "6", Numbered::Twice),
            (4, "6", Numbered::Well),
            (6, "7", Numbered::Well),
            (1_000_000, "far too high", Numbered::Gap(999_993)),
            (8, "8", Numbered::Late),
            (9, "8", Numbered::Well),
            (12, "9", Numbered::Gap(2)),
            (1_000_000, "another", Numbered::Again),
            (13, "10", Numbered::Well),
            (u64::MAX, "11", Numbered::Gap(u64::MAX - 1_000_001)),
            (u64::MAX, "12", Numbered::Again),
            (14, "13", Numbered::Late),
        ];
        let mut ordinals = Ordinals::default();
        for (ordinal, content, expected) in rows {
            assert_eq!(ordinals.take(ordinal, content), expected, "{ordinal} {content}");
        }
    }

    /// Of lines without numbers, calls and results are known again when all of the line is the same.
    #[test]
    fn lines_without_numbers_are_known_by_all_that_they_say() {
        let line = |at: &str, payload: &str| {
            format!("{{\"timestamp\":\"{at}\",\"type\":\"response_item\",\"payload\":{payload}}}")
        };
        let call =
            "{\"type\":\"function_call\",\"name\":\"x\",\"arguments\":\"{}\",\"call_id\":\"c\"}";
        let output = "{\"type\":\"function_call_output\",\"call_id\":\"c\",\"output\":\"o\"}";
        let words = "{\"type\":\"message\",\"role\":\"user\",\"content\":[]}";
        let nameless =
            "{\"type\":\"function_call\",\"name\":\"x\",\"arguments\":\"{}\",\"call_id\":\"\"}";
        let rows = [
            (line("1", call), Numbered::Well),
            (line("1", call), Numbered::Twice),
            (line("2", call), Numbered::Well),
            (line("2", output), Numbered::Well),
            (line("2", output), Numbered::Twice),
            (line("3", words), Numbered::Well),
            (line("3", words), Numbered::Well),
            (line("4", nameless), Numbered::Well),
            (line("4", nameless), Numbered::Well),
            (call.to_owned(), Numbered::Well),
            (call.to_owned(), Numbered::Well),
            ("no line".to_owned(), Numbered::Well),
        ];
        let mut ordinals = Ordinals::default();
        for (json, expected) in rows {
            assert_eq!(ordinals.line(&json), expected, "{json}");
        }
    }

    /// One wrong number ends nothing; a place decides before numbers.
    #[test]
    fn a_base_ends_where_two_lines_say_so() {
        type Case = (&'static [&'static str], End, &'static [usize]);
        let by = |ordinal| End { ordinal: Some(ordinal), offset: None };
        let rows: &[Case] = &[
            (&["0", "1", "2", "3"], by(2), &[0, 1]),
            (&["0", "1"], by(2), &[0, 1]),
            (&["0", "1", "2"], by(2), &[0, 1]),
            // Far too high, given twice, backwards, none.
            (&["0", "900", "2", "3", "4"], by(3), &[0, 1, 2]),
            (&["0", "1", "1", "2", "3", "4"], by(3), &[0, 1, 2, 3]),
            (&["0", "2", "1", "3", "4"], by(3), &[0, 1, 2]),
            (&["0", "900", "-", "2", "3", "4"], by(3), &[0, 1, 2, 3]),
            (&["0", "1", "-", "3", "-", "4"], by(3), &[0, 1, 2]),
            (&["0", "1", "3", "4", "2"], by(3), &[0, 1]),
            (&["900", "1", "2", "3"], by(2), &[0, 1]),
            (&["0", "900", "1", "5"], End { ordinal: Some(1), offset: Some(30) }, &[0, 1, 2]),
            (&["0", "1", "2"], End::default(), &[0, 1, 2]),
        ];
        for (numbers, end, expected) in rows {
            let mut before = Before::new(*end);
            let mut within = Vec::new();
            for (at, number) in (0_u64..).zip(*numbers) {
                let json = match *number {
                    "-" => format!("{{\"at\":{at}}}"),
                    number => format!("{{\"ordinal\":{number}}}"),
                };
                let origin = Origin { line: Some(at), offset: Some(at * 10), id: None };
                let row: Row<'_> = serde_json::from_str(&json).expect("a row");
                match before.take(&row, &json, &origin) {
                    Known::Within(lines) => within.extend(lines.into_iter().map(|(_, o)| o.line)),
                    Known::NotYet => {}
                    Known::Passed => break,
                }
            }
            let within: Vec<usize> = within.into_iter().flatten().map(|l| l as usize).collect();
            assert_eq!(within, *expected, "{numbers:?} {end:?}");
        }
    }
}
