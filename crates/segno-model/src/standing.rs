//! Where a session stands, from its records alone.
//!
//! Responsible for: one labelled table from facts to a [`Standing`], which recovery, lists and the service
//! entry share. Must not: know who holds the session (a store tells), or infer that something is finished:
//! that is a record (G9).

use crate::id::Seq;
use crate::line::Record;
use crate::record::{
    Body, Header, Message, OriginKind, Outcome, Run, RunEnd, RunState, ToolMessage,
};
use crate::state::State;
use serde::{Deserialize, Serialize};
use std::borrow::Borrow;

/// Where a session stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Standing {
    /// Nothing was said in it.
    Empty,
    /// Nothing is open, and no run of ours ever ended here.
    Idle,
    /// The newest run completed.
    Finished,
    /// The user stopped the newest run; final.
    Stopped,
    /// The user's stop was recorded and is still to be finished.
    Stopping,
    /// A question of permission has no answer, and its run has no end or was suspended.
    Waiting,
    /// The newest run has no end: its process died.
    Interrupted,
    /// The newest run was shut down cleanly.
    Suspended,
    /// Somebody said something that no reply and no ended run follows.
    Unanswered,
    /// The newest run failed.
    Failed,
    /// A budget of the newest run ran out.
    Exhausted,
    /// The user stopped the newest run, and what became of one of its effects is unknown.
    Unknown,
}

impl Standing {
    /// All of them.
    pub const ALL: [Self; 12] = [
        Self::Empty,
        Self::Idle,
        Self::Finished,
        Self::Stopped,
        Self::Stopping,
        Self::Waiting,
        Self::Interrupted,
        Self::Suspended,
        Self::Unanswered,
        Self::Failed,
        Self::Exhausted,
        Self::Unknown,
    ];

    /// Whether work was cut off that can be taken up again.
    #[must_use]
    pub fn is_open(self) -> bool {
        matches!(self, Self::Waiting | Self::Interrupted | Self::Suspended | Self::Unanswered)
    }

    /// Whether a person has to look at it before anything goes on.
    #[must_use]
    pub fn needs_attention(self) -> bool {
        matches!(self, Self::Failed | Self::Exhausted | Self::Unknown)
    }

    /// Whether taking the work up counts as an attempt: a crash does, a clean shutdown and waiting for a
    /// person do not.
    #[must_use]
    pub fn costs_an_attempt(self) -> bool {
        self == Self::Interrupted
    }

    /// Where a session stands; `records` are those of its active part.
    #[must_use]
    pub fn of<R: Borrow<Record>>(header: &Header, state: &State, records: &[R]) -> Self {
        Facts::of(header, state, records).row().standing
    }
}

/// The newest run that has no end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Open {
    No,
    Running,
    Stopping,
}

/// How the newest ended run ended, as far as it matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum End {
    None,
    Completed,
    Failed,
    Stopped,
    /// And nobody went elsewhere since.
    Suspended,
    /// Suspended, and then a person moved the tip: nobody waits for it any more.
    Left,
    Exhausted,
}

/// All that the table looks at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Facts {
    /// Whether there is any message.
    said: bool,
    open: Open,
    end: End,
    /// Whether a question of permission has no answer.
    asked: bool,
    /// Whether the current node waits for a reply, and no run ended behind it.
    unanswered: bool,
    /// Whether the newest results say that an outcome is unknown.
    unknown: bool,
}

/// A row of the table.
#[derive(Debug)]
struct Row {
    standing: Standing,
    matches: fn(&Facts) -> bool,
}

const ROWS: &[Row] = &[
    Row { standing: Standing::Empty, matches: |f| !f.said },
    Row { standing: Standing::Stopping, matches: |f| f.said && f.open == Open::Stopping },
    Row {
        standing: Standing::Waiting,
        matches: |f| f.asked && (f.runs() || f.ended(End::Suspended)),
    },
    Row { standing: Standing::Interrupted, matches: |f| !f.asked && f.runs() },
    Row { standing: Standing::Unanswered, matches: |f| f.rests() && f.unanswered },
    Row { standing: Standing::Suspended, matches: |f| !f.asked && f.ended(End::Suspended) },
    Row { standing: Standing::Failed, matches: |f| f.ended(End::Failed) },
    Row { standing: Standing::Exhausted, matches: |f| f.ended(End::Exhausted) },
    Row { standing: Standing::Unknown, matches: |f| f.unknown && f.ended(End::Stopped) },
    Row { standing: Standing::Stopped, matches: |f| !f.unknown && f.ended(End::Stopped) },
    Row { standing: Standing::Finished, matches: |f| f.ended(End::Completed) },
    Row { standing: Standing::Idle, matches: |f| f.ended(End::None) || f.ended(End::Left) },
];

impl Facts {
    fn of<R: Borrow<Record>>(header: &Header, state: &State, records: &[R]) -> Self {
        let now = &state.in_force;
        let totals = &now.totals;
        let open = match &now.open_run {
            None => Open::No,
            Some(run) if run.stopping => Open::Stopping,
            Some(_) => Open::Running,
        };
        let end = match now.last_end {
            None => End::None,
            Some(RunEnd::Completed) => End::Completed,
            Some(RunEnd::Failed) => End::Failed,
            Some(RunEnd::Stopped) => End::Stopped,
            Some(RunEnd::Suspended) if now.suspended_run.is_none() => End::Left,
            Some(RunEnd::Suspended) => End::Suspended,
            Some(RunEnd::Exhausted) => End::Exhausted,
        };
        let tail = Tail::of(state, records);
        Self {
            said: totals.user_messages > 0
                || totals.assistant_messages > 0
                || totals.tool_results > 0,
            open,
            end,
            asked: !now.open_approvals.is_empty(),
            unanswered: tail.waits && !is_copied(header, state),
            unknown: tail.unknown,
        }
    }

    /// Something was said, and no run is open.
    fn rests(&self) -> bool {
        self.said && self.open == Open::No
    }

    /// A run is open and goes on.
    fn runs(&self) -> bool {
        self.said && self.open == Open::Running
    }

    /// The newest run is over in this way, and nothing came behind it.
    fn ended(&self, end: End) -> bool {
        self.rests() && !self.unanswered && self.end == end
    }

    /// The one row that matches.
    fn row(&self) -> &'static Row {
        ROWS.iter().find(|row| (row.matches)(self)).unwrap_or(&ROWS[0])
    }
}

/// What the end of the conversation looks like.
struct Tail {
    /// The current node is the newest one, asks for a reply, and no run ended behind it.
    waits: bool,
    /// One of the results behind the newest reply says that the outcome is unknown.
    unknown: bool,
}

impl Tail {
    fn of<R: Borrow<Record>>(state: &State, records: &[R]) -> Self {
        let none = Self { waits: false, unknown: false };
        let Some(tip) = state.tip() else { return none };
        let Some(at) = records.iter().map(R::borrow).find(|r| r.seq() == tip.seq) else {
            return none;
        };
        // After navigation the current node is an old one; nobody waits for anything there.
        let newest = state.in_force.last_node.is_some_and(|last| last.seq == tip.seq);
        let ended =
            |r: &Record| matches!(r.body(), Body::Run(Run { state: RunState::Ended { .. }, .. }));
        let later = |seq: Seq| records.iter().map(R::borrow).filter(move |r| r.seq() > seq);
        let waits = newest && asks_for_a_reply(at) && !later(tip.seq).any(ended);
        let replied = records.iter().map(R::borrow).filter(|r| is_reply(r)).map(Record::seq).max();
        let unknown = later(replied.unwrap_or(Seq::MAX)).any(is_unknown);
        Self { waits, unknown }
    }
}

fn message(record: &Record) -> Option<&Message> {
    match record.body() {
        Body::Message(message) => Some(message),
        _ => None,
    }
}

fn is_reply(record: &Record) -> bool {
    matches!(message(record), Some(Message::Assistant(_)))
}

fn asks_for_a_reply(record: &Record) -> bool {
    match message(record) {
        Some(Message::User(user)) => user.notice.is_none(),
        Some(Message::Assistant(reply)) => reply.calls().next().is_some(),
        Some(Message::Tool(_)) => true,
        None => false,
    }
}

fn is_unknown(record: &Record) -> bool {
    matches!(message(record), Some(Message::Tool(ToolMessage { outcome: Outcome::Unknown, .. })))
}

/// Whether the current node came with a copy: what waits for a reply in it waits in the original.
fn is_copied(header: &Header, state: &State) -> bool {
    let Some(origin) = &header.origin else { return false };
    match origin.kind {
        OriginKind::Fork => {
            let tip = state.tip().map(|tip| tip.seq);
            origin.up_to.is_none_or(|up_to| tip.is_none_or(|tip| tip <= up_to))
        }
        OriginKind::Import => state.in_force.totals.runs == 0,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn every_fact() -> Vec<Facts> {
        let ends = [
            End::None,
            End::Completed,
            End::Failed,
            End::Stopped,
            End::Suspended,
            End::Left,
            End::Exhausted,
        ];
        let mut all = Vec::new();
        for bits in 0..16_u8 {
            for open in [Open::No, Open::Running, Open::Stopping] {
                for end in ends {
                    let bit = |n: u8| bits & (1 << n) != 0;
                    all.push(Facts {
                        said: bit(0),
                        open,
                        end,
                        asked: bit(1),
                        unanswered: bit(2),
                        unknown: bit(3),
                    });
                }
            }
        }
        all
    }

    /// Covers: G9.
    #[test]
    fn every_session_stands_in_exactly_one_place() {
        let mut met = BTreeSet::new();
        for facts in every_fact() {
            let rows: Vec<_> =
                ROWS.iter().filter(|r| (r.matches)(&facts)).map(|r| r.standing).collect();
            assert_eq!(rows.len(), 1, "{facts:?} stands in {rows:?}");
            met.extend(rows.iter().map(|s| format!("{s:?}")));
        }
        assert_eq!(met.len(), Standing::ALL.len());
    }

    /// A stop is final and "finished" is never inferred, whatever else is so. Covers: G9, #146.
    #[test]
    fn what_may_be_taken_up_was_cut_off_and_not_stopped() {
        for facts in every_fact() {
            let standing = facts.row().standing;
            if standing.is_open() {
                assert!(facts.open != Open::Stopping, "{facts:?}");
                let over = facts.end == End::Suspended || facts.unanswered;
                assert!(facts.open == Open::Running || over, "{facts:?}");
            }
            if standing == Standing::Finished {
                assert_eq!((facts.open, facts.end), (Open::No, End::Completed), "{facts:?}");
            }
            assert!(!standing.costs_an_attempt() || facts.open == Open::Running, "{facts:?}");
        }
    }
}
