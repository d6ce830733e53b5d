//! What became of a supervised command.
//!
//! Responsible for: looking at its directory in the right order, and one table from what was found to
//! what is known (section 6 of the design). Must not: repeat anything, or take silence for an answer.
//!
//! | here | claim | status | lock | output | what is known |
//! |---|---|---|---|---|---|
//! | no | any | any | any | any | another machine, or another boot of this one: out of sight |
//! | yes | none | none | free | no | nobody has started it yet, and somebody may |
//! | yes | ours or of recovery | none | free | no | it did not start, and never will |
//! | yes | of a supervisor, or not whole | whole | any | any | it ended like that |
//! | yes | of a supervisor, or not whole | none, not whole | held | any | it runs |
//! | yes | of a supervisor, or not whole | none, not whole | free | any | its supervisor is gone without a word |
//! | yes | out of reach | any | any | any | nothing can be found out |
//! | yes | none, ours, of recovery | otherwise | | | the files contradict each other: nothing is known |
//!
//! The third row needs the claim itself: a supervisor that comes late finds it and exits. The last row is
//! what remains when somebody removed a claim underneath.

use super::action::{ActionDir, Claimant};
use std::time::Duration;

/// How often, and how far apart, a lock is looked at that a late supervisor may have for a moment.
const LATE_TRIES: u32 = 200;
const LATE_PAUSE: Duration = Duration::from_millis(10);

/// What was found of the claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Clue {
    /// None. (Only who looks without wanting to know leaves it at that.)
    Absent,
    /// We created it just now.
    Ours,
    /// An earlier recovery has it.
    Recovery,
    /// A supervisor has it.
    Supervisor,
    /// There is one that is not whole.
    Torn,
    /// It can be neither read nor created.
    Unreachable,
}

/// What was found of the status.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Word {
    /// None.
    Absent,
    /// One that is not whole.
    Torn,
    /// Whole.
    Whole,
}

/// What was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Facts {
    /// Whether the command was begun on this machine, in this boot.
    pub here: bool,
    /// The claim.
    pub claim: Clue,
    /// The status.
    pub status: Word,
    /// Whether a supervisor holds the lock.
    pub held: bool,
    /// Whether there is an output file, which is made behind the claim.
    pub began: bool,
}

/// What is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Standing {
    /// It is out of sight.
    Elsewhere,
    /// Nobody has started it yet.
    Unclaimed,
    /// It did not start, and never will.
    NotStarted,
    /// It ended, and the status says how.
    Ended,
    /// It runs.
    Running,
    /// Its supervisor is gone and left no word.
    Gone,
    /// Nothing can be found out.
    Unknown,
}

/// A row: its name, the findings that it is about, and what they show.
type Row = (&'static str, fn(&Facts) -> bool, Standing);

const TABLE: &[Row] = &[
    ("elsewhere", |f| !f.here, Standing::Elsewhere),
    (
        "not claimed yet",
        |f| f.here && f.claim == Clue::Absent && f.leaves_no_trace(),
        Standing::Unclaimed,
    ),
    (
        "kept from starting",
        |f| f.here && f.is_barred() && f.leaves_no_trace(),
        Standing::NotStarted,
    ),
    ("ended", |f| f.here && f.is_taken() && f.status == Word::Whole, Standing::Ended),
    ("runs", |f| f.here && f.is_taken() && f.status != Word::Whole && f.held, Standing::Running),
    (
        "gone without a word",
        |f| f.here && f.is_taken() && f.status != Word::Whole && !f.held,
        Standing::Gone,
    ),
    ("out of reach", |f| f.here && f.claim == Clue::Unreachable, Standing::Unknown),
    (
        "contradiction",
        |f| f.here && (f.claim == Clue::Absent || f.is_barred()) && !f.leaves_no_trace(),
        Standing::Unknown,
    ),
];

impl Facts {
    /// Nothing that only a running command, or one that ran, leaves.
    fn leaves_no_trace(&self) -> bool {
        self.status == Word::Absent && !self.held && !self.began
    }

    /// Nobody can start it any more.
    fn is_barred(&self) -> bool {
        matches!(self.claim, Clue::Ours | Clue::Recovery)
    }

    /// Somebody may have started it.
    fn is_taken(&self) -> bool {
        matches!(self.claim, Clue::Supervisor | Clue::Torn)
    }
}

/// What is known, from what was found.
#[must_use]
pub fn judge(facts: &Facts) -> Standing {
    let row = TABLE.iter().find(|(_, fits, _)| fits(facts));
    row.map_or(Standing::Unknown, |(_, _, standing)| *standing)
}

impl ActionDir {
    /// Looks, and changes nothing. `here`: whether the command was begun in this boot of this machine.
    #[must_use]
    pub fn look(&self, here: bool) -> Facts {
        // In this order: a supervisor has the lock before it has the claim, and leaves the status before
        // the lock. So a free lock behind a claim, and no status behind that, will stay so.
        let claim = self.clue();
        let held = self.is_locked();
        let claim = if held && claim == Clue::Absent { self.clue() } else { claim };
        self.facts(here, claim, held)
    }

    fn clue(&self) -> Clue {
        match self.claim() {
            Ok(None) => Clue::Absent,
            Ok(Some(claim)) => by(claim.by),
            Err(e) if e.kind() == std::io::ErrorKind::InvalidData => Clue::Torn,
            Err(_) => Clue::Unreachable,
        }
    }

    /// Finds out, for good: what has not started by now never will.
    #[must_use]
    pub fn find_out(&self, here: bool) -> Facts {
        if !here {
            return self.look(here);
        }
        match self.claim_for(Claimant::Recovery) {
            Ok(true) => self.facts(here, Clue::Ours, self.is_held_for_long()),
            Ok(false) => {
                let facts = self.look(here);
                let held = facts.held && (!facts.is_barred() || self.is_held_for_long());
                Facts { held, ..facts }
            }
            Err(_) => match self.look(here) {
                facts if facts.claim == Clue::Absent => Facts { claim: Clue::Unreachable, ..facts },
                facts => facts,
            },
        }
    }

    fn facts(&self, here: bool, claim: Clue, held: bool) -> Facts {
        let status = match self.status() {
            Ok(None) => Word::Absent,
            Ok(Some(_)) => Word::Whole,
            Err(_) => Word::Torn,
        };
        Facts { here, claim, status, held, began: self.has_output() }
    }

    /// A supervisor that finds a claim exits at once; one that stays has started something.
    fn is_held_for_long(&self) -> bool {
        for _ in 0..LATE_TRIES {
            if !self.is_locked() {
                return false;
            }
            std::thread::sleep(LATE_PAUSE);
        }
        true
    }
}

fn by(claimant: Claimant) -> Clue {
    match claimant {
        Claimant::Supervisor => Clue::Supervisor,
        Claimant::Recovery => Clue::Recovery,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn every() -> Vec<Facts> {
        let claims = [
            Clue::Absent,
            Clue::Ours,
            Clue::Recovery,
            Clue::Supervisor,
            Clue::Torn,
            Clue::Unreachable,
        ];
        let mut all = Vec::new();
        for here in [false, true] {
            for claim in claims {
                for status in [Word::Absent, Word::Torn, Word::Whole] {
                    for held in [false, true] {
                        for began in [false, true] {
                            all.push(Facts { here, claim, status, held, began });
                        }
                    }
                }
            }
        }
        all
    }

    /// Covers: G7.
    #[test]
    fn every_finding_fits_exactly_one_row() {
        let all = every();
        assert_eq!(all.len(), 144);
        for facts in all {
            let fitting: Vec<&str> =
                TABLE.iter().filter(|(_, fits, _)| fits(&facts)).map(|(name, ..)| *name).collect();
            assert_eq!(fitting.len(), 1, "{facts:?}: {fitting:?}");
        }
    }

    /// The two claims that can do harm: that it never ran, and how it ended.
    #[test]
    fn nothing_is_claimed_without_its_proof() {
        for facts in every() {
            match judge(&facts) {
                Standing::NotStarted => {
                    assert!(matches!(facts.claim, Clue::Ours | Clue::Recovery), "{facts:?}");
                    assert!(!facts.began && !facts.held, "{facts:?}");
                }
                Standing::Ended => assert!(facts.here && facts.status == Word::Whole, "{facts:?}"),
                Standing::Running => assert!(facts.here && facts.held, "{facts:?}"),
                _ => {}
            }
        }
    }
}
