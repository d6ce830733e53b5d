//! What became of a change whose process died.
//!
//! Responsible for: looking at what is there, one pure decision from it ([`decide`]), and giving back or
//! keeping what somebody else wrote. Must not: claim more than the facts prove, carry the change out, or
//! remove the traces: they go when what was found is on record.
//!
//! The file named in the intent is the temp file, or in place the file itself. It is at the path when the
//! names were exchanged, and at its temp name when not; power loss can undo an exchange that was not
//! synced, and then it is at its temp name again. What came out of the path lies where the temp file was
//! (exchange) or at the second name (rename).

use super::file::{FileId, Lies};
use super::probe::Probe;
use super::replace::{Steps, give_back, keep, make_durable};
use super::temp::{kept_name, second_name};
use super::way::Way;
use std::path::{Path, PathBuf};

/// Where the file is that the intent names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Named {
    /// At the path.
    Path,
    /// At its temp name.
    Temp,
    /// At neither.
    Gone,
}

/// What the path holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Holds {
    /// What it held before the change (or nothing, when that is how it was).
    Old,
    /// What the change was to put there.
    New,
    /// In place: parts of both.
    Mixed,
    /// Anything else.
    Other,
    /// Nothing, though there was something before.
    Nothing,
    /// It cannot be read.
    Unreadable,
}

/// What came out of the path, if it is still there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Out {
    /// Nothing is there.
    Nothing,
    /// What was expected to come out, or our own file.
    Expected,
    /// Something that somebody else wrote.
    Other,
}

/// Everything that the decision is made from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Facts {
    /// Whether the change began on this host. (The boot may be another: files survive power loss.)
    pub(crate) same_host: bool,
    pub(crate) way: Way,
    pub(crate) named: Named,
    pub(crate) holds: Holds,
    pub(crate) out: Out,
}

/// What became of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Finding {
    /// The new content is there.
    Done,
    /// It was carried out, and somebody changed the file since.
    DoneThenChanged,
    /// It was not carried out; the file is as it was before.
    NotDone,
    /// It was written in place and is half done; what it held before is kept.
    HalfDone,
    /// It was not carried out, and somebody changed the file.
    Changed,
    /// It took somebody else's version out: that goes back, and it counts as not carried out.
    GiveBack,
    /// Somebody changed the file since; whether it was carried out before that cannot be told.
    ChangedSince,
    /// Nobody can tell.
    Unknown,
}

/// A row of the table: what it matches, and what it means. An empty list matches everything.
struct Row {
    /// What is so, as a person would say it.
    label: &'static str,
    same_host: bool,
    ways: &'static [Way],
    named: &'static [Named],
    holds: &'static [Holds],
    out: &'static [Out],
    finding: Finding,
}

const ALL: &[Way] = &[Way::New, Way::Exchange, Way::Rename, Way::Remove, Way::InPlace];
const MOVED: &[Way] = &[Way::New, Way::Exchange, Way::Rename];
const REPLACED: &[Way] = &[Way::Exchange, Way::Rename];
const OURS: &[Out] = &[Out::Nothing, Out::Expected];
const REMOVED: &[Way] = &[Way::Remove];
const LEFT: &[Holds] = &[Holds::Mixed, Holds::Other, Holds::Nothing];

/// The table. Every combination of facts matches exactly one row.
#[rustfmt::skip]
const TABLE: &[Row] = &[
    Row { label: "it was begun on another host", same_host: false, ways: ALL, named: &[], holds: &[], out: &[], finding: Finding::Unknown },
    Row { label: "the file cannot be read", same_host: true, ways: ALL, named: &[], holds: &[Holds::Unreadable], out: &[], finding: Finding::Unknown },
    // The temp file is at the path: it was carried out.
    Row { label: "made", same_host: true, ways: &[Way::New], named: &[Named::Path], holds: &[Holds::New], out: &[], finding: Finding::Done },
    Row { label: "replaced", same_host: true, ways: REPLACED, named: &[Named::Path], holds: &[Holds::New], out: OURS, finding: Finding::Done },
    Row { label: "replaced somebody else's version", same_host: true, ways: REPLACED, named: &[Named::Path], holds: &[Holds::New], out: &[Out::Other], finding: Finding::GiveBack },
    Row { label: "carried out, then written to", same_host: true, ways: MOVED, named: &[Named::Path], holds: &[Holds::Old, Holds::Mixed, Holds::Other, Holds::Nothing], out: &[], finding: Finding::DoneThenChanged },
    // The temp file is where it was made: it was not.
    Row { label: "not carried out", same_host: true, ways: MOVED, named: &[Named::Temp], holds: &[Holds::Old], out: &[], finding: Finding::NotDone },
    Row { label: "not carried out, changed", same_host: true, ways: MOVED, named: &[Named::Temp], holds: &[Holds::New, Holds::Mixed, Holds::Other, Holds::Nothing], out: &[], finding: Finding::Changed },
    // The temp file is gone: only the content speaks.
    Row { label: "holds the new content", same_host: true, ways: MOVED, named: &[Named::Gone], holds: &[Holds::New], out: &[], finding: Finding::Done },
    Row { label: "holds the old content", same_host: true, ways: REPLACED, named: &[Named::Gone], holds: &[Holds::Old], out: &[], finding: Finding::NotDone },
    Row { label: "the file does not exist, and it may have been written and removed since", same_host: true, ways: &[Way::New], named: &[Named::Gone], holds: &[Holds::Old], out: &[], finding: Finding::Unknown },
    Row { label: "changed since", same_host: true, ways: MOVED, named: &[Named::Gone], holds: LEFT, out: &[], finding: Finding::ChangedSince },
    // A removal: the file at the path is the one that is named, and it is to be at the temp name.
    Row { label: "not removed", same_host: true, ways: REMOVED, named: &[Named::Path, Named::Gone], holds: &[Holds::Old], out: &[], finding: Finding::NotDone },
    Row { label: "not removed, changed", same_host: true, ways: REMOVED, named: &[Named::Path], holds: &[Holds::New, Holds::Mixed, Holds::Other, Holds::Nothing], out: &[], finding: Finding::Changed },
    Row { label: "removed", same_host: true, ways: REMOVED, named: &[Named::Temp, Named::Gone], holds: &[Holds::New], out: OURS, finding: Finding::Done },
    Row { label: "removed somebody else's version", same_host: true, ways: REMOVED, named: &[Named::Temp, Named::Gone], holds: &[Holds::New], out: &[Out::Other], finding: Finding::GiveBack },
    Row { label: "removed, then made again", same_host: true, ways: REMOVED, named: &[Named::Temp], holds: &[Holds::Old, Holds::Mixed, Holds::Other, Holds::Nothing], out: &[], finding: Finding::DoneThenChanged },
    Row { label: "removed or not, and changed since", same_host: true, ways: REMOVED, named: &[Named::Gone], holds: LEFT, out: &[], finding: Finding::ChangedSince },
    // In place: the content speaks, and half of it only in the file itself.
    Row { label: "written in place", same_host: true, ways: &[Way::InPlace], named: &[], holds: &[Holds::New], out: &[], finding: Finding::Done },
    Row { label: "not written in place", same_host: true, ways: &[Way::InPlace], named: &[], holds: &[Holds::Old], out: &[], finding: Finding::NotDone },
    Row { label: "half written in place", same_host: true, ways: &[Way::InPlace], named: &[Named::Path], holds: &[Holds::Mixed], out: &[], finding: Finding::HalfDone },
    Row { label: "changed in place since", same_host: true, ways: &[Way::InPlace], named: &[Named::Path], holds: &[Holds::Other, Holds::Nothing], out: &[], finding: Finding::ChangedSince },
    Row { label: "another file is there", same_host: true, ways: &[Way::InPlace], named: &[Named::Temp, Named::Gone], holds: LEFT, out: &[], finding: Finding::ChangedSince },
];

impl Row {
    fn matches(&self, facts: &Facts) -> bool {
        fn any<T: PartialEq>(list: &[T], value: &T) -> bool {
            list.is_empty() || list.contains(value)
        }
        self.same_host == facts.same_host
            && self.ways.contains(&facts.way)
            && any(self.named, &facts.named)
            && any(self.holds, &facts.holds)
            && any(self.out, &facts.out)
    }
}

/// What the facts mean, by the table, and how a person would say what is so.
fn decide(facts: &Facts) -> (Finding, &'static str) {
    let row = TABLE.iter().find(|row| row.matches(facts));
    row.map_or((Finding::Unknown, "it is in no table"), |row| (row.finding, row.label))
}

/// What was found, and where a version of somebody else's is kept that could not stay at its path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Established {
    pub(crate) facts: Facts,
    pub(crate) finding: Finding,
    /// What is so, as a person would say it.
    pub(crate) because: &'static str,
    pub(crate) kept: Option<PathBuf>,
}

/// Finds out what became of a change. `contents` are the old and the new one, where they are known: in
/// place they tell half done from changed. May be done again at any time, also after a crash of its own.
pub(crate) fn establish(
    probe: &Probe,
    same_host: bool,
    contents: Option<(&[u8], &[u8])>,
    steps: Steps<'_>,
) -> Established {
    let facts = look(probe, same_host, contents);
    let (path, (finding, because)) = (probe.path(), decide(&facts));
    if matches!(finding, Finding::Done | Finding::DoneThenChanged) {
        // Whoever carried it out may have died before it was synced, and power may still be lost.
        if make_durable(&path, steps).is_err() {
            let because = "it is there, and could not be made durable";
            return Established { facts, finding: Finding::Unknown, because, kept: None };
        }
    }
    let out = out_of(probe).filter(|_| same_host && facts.out == Out::Other);
    if let Some(out) = &out {
        let returned = if finding == Finding::GiveBack {
            give_back(&path, out, probe.file, probe.way, steps)
        } else {
            keep(out).map(Some)
        };
        steps("settled");
        if returned.is_err() {
            // It lies where it lay; nothing is claimed.
            let (finding, kept) = (Finding::Unknown, Some(out.clone()));
            let because = "what lies beside the file could not be moved";
            return Established { facts, finding, because, kept };
        }
    }
    let kept = out_of(probe).map(|out| kept_name(&out)).filter(|kept| kept.exists() && same_host);
    Established { facts, finding, because, kept }
}

/// What is left when a change is over and is of no more use; its own temp file, or what it replaced.
pub(crate) fn remove_traces(probe: &Probe) {
    let Some(temp) = probe.temp() else { return };
    for path in [second_name(&temp), temp] {
        let Ok(lies) = Lies::at(&path) else { continue };
        if is_ours(probe, lies.id()) || is_old(probe, &lies) {
            let _ = std::fs::remove_file(&path);
        }
    }
}

/// Where that lies which came out of the path.
fn out_of(probe: &Probe) -> Option<PathBuf> {
    let temp = probe.temp()?;
    match probe.way {
        Way::Exchange | Way::Remove => Some(temp),
        Way::Rename => Some(second_name(&temp)),
        Way::New | Way::InPlace => None,
    }
}

/// Looks at what is there; changes nothing.
fn look(probe: &Probe, same_host: bool, contents: Option<(&[u8], &[u8])>) -> Facts {
    let path = probe.path();
    let lies = Lies::at(&path);
    let id = |path: &Path| FileId::at(path).ok().flatten();
    let named = if id(&path) == Some(probe.file) {
        Named::Path
    } else if probe.temp().is_some_and(|temp| id(&temp) == Some(probe.file)) {
        Named::Temp
    } else {
        Named::Gone
    };
    let holds = match &lies {
        Err(_) => Holds::Unreadable,
        Ok(lies) if is_old(probe, lies) => Holds::Old,
        Ok(lies) if is_new(probe, lies) => Holds::New,
        Ok(Lies::Nothing) => Holds::Nothing,
        Ok(Lies::File(found)) if contents.is_some_and(|(o, n)| is_mixed(&found.bytes, o, n)) => {
            Holds::Mixed
        }
        Ok(_) => Holds::Other,
    };
    let out = match out_of(probe).map(|out| Lies::at(&out)) {
        None | Some(Ok(Lies::Nothing)) => Out::Nothing,
        Some(Ok(lies)) if is_old(probe, &lies) || is_ours(probe, lies.id()) => Out::Expected,
        Some(_) => Out::Other,
    };
    Facts { same_host, way: probe.way, named, holds, out }
}

/// Whether it is what the change expected to find.
fn is_old(probe: &Probe, lies: &Lies) -> bool {
    match &probe.old_sha256 {
        None => matches!(lies, Lies::Nothing),
        Some(hash) => lies.hashes_to(hash),
    }
}

fn is_new(probe: &Probe, lies: &Lies) -> bool {
    match &probe.new_sha256 {
        None => matches!(lies, Lies::Nothing),
        Some(hash) => lies.hashes_to(hash),
    }
}

/// Whether a file under a temp name is the one that we made, or only the second name of the one at the
/// path. For a removal we made none.
fn is_ours(probe: &Probe, id: Option<FileId>) -> bool {
    let second = || id.is_some() && FileId::at(&probe.path()).ok().flatten() == id;
    match probe.way {
        Way::Remove => false,
        Way::Rename => id == Some(probe.file) || second(),
        Way::New | Way::Exchange | Way::InPlace => id == Some(probe.file),
    }
}

/// The block by which a disk writes.
const SECTOR: usize = 512;

/// Whether content is what an interrupted writing of `new` over `old` leaves: each sector is one of the
/// two, the first of them up to some byte and the other from there, or was never written.
pub(crate) fn is_mixed(content: &[u8], old: &[u8], new: &[u8]) -> bool {
    let lengths = old.len().min(new.len())..=old.len().max(new.len());
    let part = |bytes: &[u8], at: usize, end: usize| {
        bytes.get(at.min(bytes.len())..end.min(bytes.len())).map(<[u8]>::to_vec).unwrap_or_default()
    };
    let sector = |(number, found): (usize, &[u8])| {
        let (at, end) = (number * SECTOR, number * SECTOR + found.len());
        let (old_part, new_part) = (part(old, at, end), part(new, at, end));
        let written = found.iter().zip(&new_part).take_while(|(a, b)| a == b).count();
        let rest = found.get(written..) == old_part.get(written..);
        let unwritten = at >= old.len() && found.iter().all(|b| *b == 0);
        found == new_part || found == old_part || rest || unwritten
    };
    lengths.contains(&content.len()) && content.chunks(SECTOR).enumerate().all(sector)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every combination of facts matches exactly one row, and no row is without one.
    /// Covers: G7.
    #[test]
    fn every_state_is_in_exactly_one_row() {
        let mut used = vec![0; TABLE.len()];
        for same_host in [true, false] {
            for way in ALL.iter().copied() {
                for named in [Named::Path, Named::Temp, Named::Gone] {
                    for holds in [
                        Holds::Old,
                        Holds::New,
                        Holds::Mixed,
                        Holds::Other,
                        Holds::Nothing,
                        Holds::Unreadable,
                    ] {
                        for out in [Out::Nothing, Out::Expected, Out::Other] {
                            let facts = Facts { same_host, way, named, holds, out };
                            let rows: Vec<usize> =
                                (0..TABLE.len()).filter(|i| TABLE[*i].matches(&facts)).collect();
                            let labels: Vec<_> = rows.iter().map(|i| TABLE[*i].label).collect();
                            assert_eq!(rows.len(), 1, "{facts:?}: {labels:?}");
                            used[rows[0]] += 1;
                            claims_no_more_than_is_there(&facts);
                        }
                    }
                }
            }
        }
        for (row, used) in TABLE.iter().zip(used) {
            assert!(used > 0, "nothing is {}", row.label);
        }
    }

    fn claims_no_more_than_is_there(facts: &Facts) {
        match decide(facts).0 {
            Finding::Done | Finding::GiveBack => assert_eq!(facts.holds, Holds::New, "{facts:?}"),
            Finding::DoneThenChanged => {
                let there = if facts.way == Way::Remove { Named::Temp } else { Named::Path };
                assert_eq!(facts.named, there, "{facts:?}");
            }
            Finding::NotDone => assert_eq!(facts.holds, Holds::Old, "{facts:?}"),
            Finding::Changed => {
                let there = if facts.way == Way::Remove { Named::Path } else { Named::Temp };
                assert_eq!(facts.named, there, "{facts:?}");
            }
            Finding::HalfDone => assert_eq!(facts.way, Way::InPlace, "{facts:?}"),
            Finding::ChangedSince | Finding::Unknown => {}
        }
    }

    /// Whatever an interrupted writing in place can leave is told from what somebody else wrote.
    /// Covers: G7.
    #[test]
    fn half_written_is_told_from_changed() {
        let old = b"o".repeat(2000);
        for new_length in [0, 1, 511, 512, 1500, 2000, 3000] {
            let new = b"n".repeat(new_length);
            for written in 0..=new_length {
                let mut content = new[..written].to_vec();
                content.extend_from_slice(old.get(written..).unwrap_or_default());
                assert!(is_mixed(&content, &old, &new), "{written} of {new_length}");
            }
            // Power loss: sectors in any order, and some never written.
            let mut content = old.clone();
            content.resize(2000.max(new_length), 0);
            for number in [1, 3, 5] {
                let end = ((number + 1) * 512).min(new_length);
                if let Some(sector) = content.get_mut(number * 512..end) {
                    sector.fill(b'n');
                }
            }
            assert!(is_mixed(&content, &old, &new), "sectors of {new_length}");
            let mut theirs = content.clone();
            theirs[700] = b't';
            assert!(!is_mixed(&theirs, &old, &new), "theirs");
            theirs = content.clone();
            theirs.push(b'o');
            assert!(!is_mixed(&theirs, &old, &new) || theirs.len() <= new_length, "longer");
        }
    }
}
