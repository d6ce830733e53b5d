//! Whether something is admitted under an id (G8).
//!
//! Responsible for: one table over what the inbox holds under the id, what the log says of it, and what
//! is asked. Must not: read or write. A store looks at the log *after* its own entry is durable in the
//! inbox: whoever settles an input writes the log first and takes the entry away after.

use super::{NewInput, Stage, Used};
use crate::record::InputKind;

/// What became of asking.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Admission {
    /// It is admitted now, and durable.
    Admitted,
    /// The same was admitted before; this is how far it has come. Nothing was added.
    Stands(Stage),
    /// Something else was admitted under this id. Nothing was added.
    Conflict(Stage),
}

/// What the inbox holds under the id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Held {
    /// What was asked; the asker has just put it there.
    Ours,
    /// The same, from before.
    Same,
    /// Something else.
    Other,
    /// Something that cannot be read.
    Damaged,
    /// Nothing any more, though there was something a moment ago.
    Gone,
}

/// What the log says of the id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Said {
    /// Nothing.
    Nothing,
    /// It waits for a person; what it is stands in the inbox.
    Parked(Stage),
    /// The same was settled.
    Same(Stage),
    /// Something else was settled.
    Other(Stage),
    /// Something was settled, and what it was is not recorded (a log from before that was).
    Untold(Stage),
}

impl Said {
    /// What the newest record about an id says, compared with what is asked.
    #[must_use]
    pub fn of(used: Option<&Used>, asked: &NewInput) -> Self {
        let Some(used) = used else { return Self::Nothing };
        let print: Option<(InputKind, &str)> =
            used.print.as_ref().map(|(kind, sha256)| (*kind, sha256.as_str()));
        match (used.stage, print) {
            (stage, _) if !stage.is_settled() => Self::Parked(stage),
            (stage, None) => Self::Untold(stage),
            (stage, Some(print)) if print == (asked.body.kind(), &*asked.body.sha256()) => {
                Self::Same(stage)
            }
            (stage, Some(_)) => Self::Other(stage),
        }
    }
}

/// What to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    /// Say so.
    Say(Admission),
    /// Take the entry that was just made away again, then say so.
    TakeBack(Admission),
    /// Keep the damaged entry elsewhere, then try again.
    SetAside,
    /// Try again: somebody else is just taking it away.
    Again,
}

/// One row: its name, the cases it is for, and what to do.
struct Row {
    #[cfg_attr(not(test), allow(dead_code, reason = "names the row in tests and for readers"))]
    name: &'static str,
    matches: fn(Held, Said) -> bool,
    decide: fn(Held, Said) -> Decision,
}

const ROWS: &[Row] = &[
    Row {
        name: "new: admitted",
        matches: |held, said| held == Held::Ours && waits(said),
        decide: |_, _| Decision::Say(Admission::Admitted),
    },
    Row {
        name: "new here, settled before: taken back, the first stands or is in conflict",
        matches: |held, said| held == Held::Ours && !waits(said),
        decide: |_, said| Decision::TakeBack(by_log(said)),
    },
    Row {
        name: "the same waits: it stands",
        matches: |held, said| held == Held::Same && waits(said),
        decide: |_, said| Decision::Say(Admission::Stands(stage(said))),
    },
    Row {
        name: "something else waits: conflict",
        matches: |held, said| held == Held::Other && waits(said),
        decide: |_, said| Decision::Say(Admission::Conflict(stage(said))),
    },
    Row {
        name: "what waits cannot be read: set aside, and again",
        matches: |held, said| held == Held::Damaged && waits(said),
        decide: |_, _| Decision::SetAside,
    },
    Row {
        name: "gone, and the log does not say why: again",
        matches: |held, said| held == Held::Gone && waits(said),
        decide: |_, _| Decision::Again,
    },
    Row {
        name: "settled before, whatever is still in the inbox: the log decides",
        matches: |held, said| held != Held::Ours && !waits(said),
        decide: |_, said| Decision::Say(by_log(said)),
    },
];

/// Decides.
#[must_use]
pub fn decide(held: Held, said: Said) -> Decision {
    let row = ROWS.iter().find(|row| (row.matches)(held, said));
    row.map_or(Decision::Again, |row| (row.decide)(held, said))
}

/// Whether the log leaves it to the inbox.
fn waits(said: Said) -> bool {
    matches!(said, Said::Nothing | Said::Parked(_))
}

fn stage(said: Said) -> Stage {
    match said {
        Said::Nothing => Stage::Pending,
        Said::Parked(stage) | Said::Same(stage) | Said::Other(stage) | Said::Untold(stage) => stage,
    }
}

fn by_log(said: Said) -> Admission {
    match said {
        Said::Other(stage) => Admission::Conflict(stage),
        _ => Admission::Stands(stage(said)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HELD: [Held; 5] = [Held::Ours, Held::Same, Held::Other, Held::Damaged, Held::Gone];

    fn said() -> Vec<Said> {
        let mut all = vec![Said::Nothing, Said::Parked(Stage::Parked { seq: 3 })];
        for stage in [
            Stage::Delivered { seq: 4 },
            Stage::Withdrawn { seq: 4 },
            Stage::Acted { seq: 4 },
            Stage::Dropped { seq: 4 },
        ] {
            all.extend([Said::Same(stage), Said::Other(stage), Said::Untold(stage)]);
        }
        all
    }

    /// Covers: G8.
    #[test]
    fn every_case_matches_exactly_one_row() {
        for held in HELD {
            for said in said() {
                let rows: Vec<_> = ROWS
                    .iter()
                    .filter(|row| (row.matches)(held, said))
                    .map(|row| row.name)
                    .collect();
                assert_eq!(rows.len(), 1, "{held:?} {said:?}: {rows:?}");
            }
        }
    }

    /// Covers: G8, #152. Never admitted twice; never in conflict with itself; nothing that may be the only
    /// copy is taken away.
    #[test]
    fn the_first_admission_stands_in_every_case() {
        for held in HELD {
            for said in said() {
                let decision = decide(held, said);
                let what = format!("{held:?} {said:?}: {decision:?}");
                let admission = match decision {
                    Decision::Say(admission) | Decision::TakeBack(admission) => Some(admission),
                    Decision::SetAside | Decision::Again => None,
                };
                if !waits(said) {
                    assert!(
                        matches!(
                            (admission, said),
                            (Some(Admission::Conflict(_)), Said::Other(_))
                                | (Some(Admission::Stands(_)), Said::Same(_) | Said::Untold(_))
                        ),
                        "{what}"
                    );
                }
                assert_eq!(
                    matches!(decision, Decision::TakeBack(_)),
                    held == Held::Ours && !waits(said),
                    "{what}"
                );
                assert_eq!(
                    admission == Some(Admission::Admitted),
                    held == Held::Ours && waits(said),
                    "{what}"
                );
            }
        }
    }
}
