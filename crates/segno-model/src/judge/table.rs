//! The table that says what to do about each thing in a log.
//!
//! Responsible for: one verdict for every fact, as labelled rows over data. Must not: look at bytes.
//!
//! A fact's *place* is *above* the mark when the next record expected there has a higher number than
//! the largest intact `synced`: nothing from there on was ever acknowledged as durable. *Header* is
//! before the first record. *Loss* says whether numbers are missing there or may be.
//!
//! | label | explanation |
//! |---|---|
//! | `@next` | A record in its place. |
//! | `@unended` | The last record is complete but lacks its line end: a write was cut there, or another program took it off. It is kept, and the next append begins with a line end. |
//! | `@corrected` | One flipped bit is known and flipped back. The record is certain, so nothing waits and nothing is set aside for it. |
//! | `@accepted` | An altered record that a person took as it is. |
//! | `@displaced` | A line was moved, its record is intact and its number free: read in its place. |
//! | `@repeat` | Copies of records that were read: nothing is lost, nothing is counted twice. |
//! | `@earlier` | Copies of records before the part that was read: left alone. |
//! | `@formatting` | Blank lines, CR LF, a byte order mark: editors do that. |
//! | `@header-cut` | Cut inside line 1: an empty session. Its bytes are tail. |
//! | `@header-zeroed` | Line 1 and all that follows never reached the disk: an empty session. |
//! | `@before-header` | Zero bytes before an intact header cost nothing. |
//! | `@no-header` | Something else stands where the header should be: it cannot be established which format the log has, so it is not written to. |
//! | `@tail` | Bad, and above the mark: the tail begins here. |
//! | `@settled` | A repair names exactly this damage. |
//! | `@stray` | Bad bytes between two records that follow each other: a stub, a copy. Nothing is lost. |
//! | `@foreign` | An intact record that fits nowhere. Nothing of this log is lost. |
//! | `@lost` | Bad, and at or below the mark: something that was acknowledged cannot be read. |
//! | `@conflict` | Two intact records have one number. The first one in the file stands. |

use crate::finding::Severity;

/// What is judged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Thing {
    /// A record in its place.
    Next,
    /// The same after a bit was corrected.
    Corrected,
    /// The same with a wrong checksum that a repair accepts.
    Accepted,
    /// A moved record.
    Displaced,
    /// A copy.
    Repeat,
    /// A record from before the part that was read.
    Earlier,
    /// A record with a number that another record has.
    Conflict,
    /// A record that fits nowhere.
    Foreign,
    /// A well-formed record with a wrong checksum.
    Altered,
    /// No record.
    Malformed,
    /// Zero bytes.
    Nul,
    /// Numbers without any bytes.
    Gap,
    /// White space and the like.
    Formatting,
}

/// Where, in terms of what is known to have been durable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Place {
    /// Before the first record of the log.
    Header,
    /// At or below the mark.
    Below,
    /// Above it.
    Above,
}

/// Everything that a verdict depends on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Case {
    /// What.
    pub thing: Thing,
    /// Where.
    pub place: Place,
    /// Whether records are missing there, or may be.
    pub loss: bool,
    /// Whether a repair names it.
    pub settled: bool,
    /// Whether its line has an end.
    pub ended: bool,
}

/// What to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Verdict {
    /// Read the record.
    Read,
    /// Read it and say something.
    ReadAndSay(Severity),
    /// Pass over it and say so.
    Skip(Severity),
    /// The tail begins here.
    Tail,
    /// Damage: located, passed over, and in need of a decision if it lies in the active context.
    Damage,
}

/// A labelled row.
#[derive(Debug)]
pub struct Row {
    /// Its name.
    pub label: &'static str,
    things: &'static [Thing],
    places: &'static [Place],
    loss: Option<bool>,
    settled: Option<bool>,
    ended: Option<bool>,
    /// What to do.
    pub verdict: Verdict,
}

impl Row {
    /// Whether the row speaks about this case.
    #[must_use]
    pub fn matches(&self, case: &Case) -> bool {
        self.things.contains(&case.thing)
            && self.places.contains(&case.place)
            && self.loss.is_none_or(|loss| loss == case.loss)
            && self.settled.is_none_or(|settled| settled == case.settled)
            && self.ended.is_none_or(|ended| ended == case.ended)
    }
}

use Place::{Above, Below, Header};
use Severity::{Note, Warning};
use Thing::{
    Accepted, Altered, Conflict, Corrected, Displaced, Earlier, Foreign, Formatting, Gap,
    Malformed, Next, Nul, Repeat,
};

const ANYWHERE: &[Place] = &[Header, Below, Above];
const LATER: &[Place] = &[Below, Above];
const YES: Option<bool> = Some(true);
const NO: Option<bool> = Some(false);
const ANY: Option<bool> = None;

const fn row(
    label: &'static str,
    things: &'static [Thing],
    places: &'static [Place],
    [loss, settled, ended]: [Option<bool>; 3],
    verdict: Verdict,
) -> Row {
    Row { label, things, places, loss, settled, ended, verdict }
}

const BYTES: &[Thing] = &[Altered, Malformed, Nul];
const TEXT: &[Thing] = &[Altered, Malformed];
const BAD: &[Thing] = &[Altered, Malformed, Nul, Gap, Foreign, Conflict];
const NOT_HEADER: &[Thing] = &[Gap, Foreign, Conflict];

/// The rows. Columns: loss, settled, ended.
pub const TABLE: &[Row] = &[
    row("@next", &[Next], ANYWHERE, [ANY, ANY, YES], Verdict::Read),
    row("@unended", &[Next], ANYWHERE, [ANY, ANY, NO], Verdict::ReadAndSay(Note)),
    row("@corrected", &[Corrected], ANYWHERE, [ANY, ANY, ANY], Verdict::ReadAndSay(Warning)),
    row("@accepted", &[Accepted], ANYWHERE, [ANY, ANY, ANY], Verdict::ReadAndSay(Note)),
    row("@displaced", &[Displaced], ANYWHERE, [ANY, ANY, ANY], Verdict::ReadAndSay(Warning)),
    row("@repeat", &[Repeat], ANYWHERE, [ANY, ANY, ANY], Verdict::Skip(Note)),
    row("@earlier", &[Earlier], ANYWHERE, [ANY, ANY, ANY], Verdict::Skip(Warning)),
    row("@formatting", &[Formatting], ANYWHERE, [ANY, ANY, ANY], Verdict::Skip(Note)),
    row("@header-cut", BYTES, &[Header], [YES, ANY, NO], Verdict::Tail),
    row("@header-zeroed", &[Nul], &[Header], [YES, ANY, YES], Verdict::Tail),
    row("@before-header", &[Nul], &[Header], [NO, ANY, ANY], Verdict::Skip(Warning)),
    row("@no-header", TEXT, &[Header], [YES, ANY, YES], Verdict::Damage),
    row("@no-header", TEXT, &[Header], [NO, ANY, ANY], Verdict::Damage),
    row("@no-header", NOT_HEADER, &[Header], [ANY, ANY, ANY], Verdict::Damage),
    row("@tail", BAD, &[Above], [ANY, NO, ANY], Verdict::Tail),
    row("@settled", BAD, LATER, [ANY, YES, ANY], Verdict::Skip(Note)),
    row("@stray", BYTES, &[Below], [NO, NO, ANY], Verdict::Skip(Warning)),
    row("@foreign", &[Foreign], &[Below], [ANY, NO, ANY], Verdict::Skip(Warning)),
    row("@lost", BYTES, &[Below], [YES, NO, ANY], Verdict::Damage),
    row("@lost", &[Gap], &[Below], [ANY, NO, ANY], Verdict::Damage),
    row("@conflict", &[Conflict], &[Below], [ANY, NO, ANY], Verdict::Damage),
];

/// The row that speaks about this case. The test below proves that there is exactly one.
#[must_use]
pub fn judge(case: &Case) -> &'static Row {
    TABLE.iter().find(|row| row.matches(case)).unwrap_or(&TABLE[0])
}

#[cfg(test)]
mod tests {
    use super::*;

    const THINGS: &[Thing] = &[
        Next, Corrected, Accepted, Displaced, Repeat, Earlier, Conflict, Foreign, Altered,
        Malformed, Nul, Gap, Formatting,
    ];

    fn all_cases() -> impl Iterator<Item = Case> {
        let flags = |bits: u8| (bits & 1 != 0, bits & 2 != 0, bits & 4 != 0);
        THINGS.iter().flat_map(move |thing| {
            ANYWHERE.iter().flat_map(move |place| {
                (0..8).map(move |bits| {
                    let (loss, settled, ended) = flags(bits);
                    Case { thing: *thing, place: *place, loss, settled, ended }
                })
            })
        })
    }

    /// Covers: G2, G3.
    #[test]
    fn exactly_one_row_matches_every_case() {
        for case in all_cases() {
            let rows: Vec<_> = TABLE.iter().filter(|r| r.matches(&case)).map(|r| r.label).collect();
            assert_eq!(rows.len(), 1, "{case:?} is matched by {rows:?}");
        }
    }

    #[test]
    fn every_row_is_needed() {
        for (i, row) in TABLE.iter().enumerate() {
            assert!(all_cases().any(|case| row.matches(&case)), "row {i} {} is dead", row.label);
        }
    }

    /// Covers: G2.
    #[test]
    fn nothing_above_the_mark_blocks_and_no_tail_begins_below_it() {
        for case in all_cases() {
            let verdict = judge(&case).verdict;
            match case.place {
                Above => assert_ne!(verdict, Verdict::Damage, "{case:?}"),
                Below => assert_ne!(verdict, Verdict::Tail, "{case:?}"),
                Header => {}
            }
        }
    }
}
