//! What an interrupted session needs before it goes on.
//!
//! Responsible for: one pure decision from the state at the end of the log to the records that settle
//! it (G6, G7, G9). Must not: write them, repeat an effect, or claim more than is known.
//!
//! | open run | rule |
//! |---|---|
//! | none | nothing about runs |
//! | running | it ended without a record: `suspended`, interrupted; a person may take it up again |
//! | stopping | the user's stop is finished: `stopped` |
//!
//! Independently: an open compaction is `failed`. Every call without a result, and every effect that
//! began and has none, gets a result:
//!
//! | call | rule |
//! |---|---|
//! | its intent is there, and its tool found out what became of it | what was found |
//! | its permission was asked, and no answer and no intent is there | it did not run, and the result says so |
//! | any other | its outcome is unknown |
//!
//! The second rule claims no more than is known: an intent is durable before its effect starts, and it is
//! written after the answer, so an open question proves that nothing had started.

use segno_model::checkpoint::{OpenAction, OpenRun};
use segno_model::context::{UNKNOWN_OUTCOME, Unanswered};
use segno_model::record::{
    Block, Body, Compaction, CompactionState, Established as Source, Message, Outcome, Run, RunEnd,
    RunState, ToolMessage,
};
use segno_model::{Checkpoint, Seq};
use std::collections::{HashMap, HashSet};

/// The reason that an interrupted run's end carries.
pub const INTERRUPTED: &str = "interrupted: the process ended during the run";

/// What the model is told about a call whose permission was never decided.
const NEVER_ALLOWED: &str = "Not run: Segno was interrupted while it waited for the permission. Ask \
    again if it is still needed.";

/// The results of effects, by their calls, as far as their tools found out what became of them.
pub(crate) type Established = HashMap<(Seq, String), Body>;

/// The records that settle what was left open, in the order in which they are to be appended.
pub(crate) fn settle(
    state: &Checkpoint,
    unanswered: &[Unanswered],
    found: &Established,
) -> Vec<Body> {
    let open = Open::of(state, found);
    let mut settled: HashSet<CallKey<'_>> =
        unanswered.iter().map(|call| (call.call_seq, call.call_id.as_str())).collect();
    let mut bodies: Vec<Body> = unanswered
        .iter()
        .map(|call| open.result((call.call_seq, call.call_id.as_str()), &call.name))
        .collect();
    for OpenAction { action, .. } in &state.open_actions {
        let key = (action.call_seq, action.call_id.as_str());
        if settled.insert(key) {
            bodies.push(open.result(key, &action.tool));
        }
    }
    if state.open_compaction.is_some() {
        let failed = Compaction::marker(CompactionState::Failed, Some(INTERRUPTED.to_owned()));
        bodies.push(Body::Compaction(Box::new(failed)));
    }
    bodies.extend(state.open_run.as_ref().map(end_of));
    bodies
}

fn end_of(open: &OpenRun) -> Body {
    let (end, reason) = if open.stopping {
        (RunEnd::Stopped, None)
    } else {
        (RunEnd::Suspended, Some(INTERRUPTED.to_owned()))
    };
    Body::Run(Run { run: open.run, state: RunState::Ended { end, reason } })
}

/// A call's record, and the id that it has there.
type CallKey<'a> = (Seq, &'a str);

/// What was asked about calls, and which of them began.
struct Open<'a> {
    asked: HashSet<CallKey<'a>>,
    began: HashSet<CallKey<'a>>,
    found: HashMap<CallKey<'a>, &'a Body>,
}

impl<'a> Open<'a> {
    fn of(state: &'a Checkpoint, found: &'a Established) -> Self {
        let asked = state.open_approvals.iter().map(|a| (a.call_seq, a.call_id.as_str()));
        let actions = state.open_actions.iter().map(|open| &open.action);
        let began = actions.map(|a| (a.call_seq, a.call_id.as_str()));
        let found = found.iter().map(|((seq, id), result)| ((*seq, id.as_str()), result));
        Self { asked: asked.collect(), began: began.collect(), found: found.collect() }
    }

    fn result(&self, call: CallKey<'_>, name: &str) -> Body {
        if let Some(found) = self.found.get(&call).filter(|_| self.began.contains(&call)) {
            return (*found).clone();
        }
        let (text, outcome) = if self.asked.contains(&call) && !self.began.contains(&call) {
            (NEVER_ALLOWED, Outcome::NotRun)
        } else {
            (UNKNOWN_OUTCOME, Outcome::Unknown)
        };
        Body::Message(Box::new(Message::Tool(ToolMessage {
            call_id: call.1.to_owned(),
            call_seq: Some(call.0),
            name: name.to_owned(),
            content: vec![Block::text(text)],
            whole: None,
            is_error: true,
            outcome,
            established: Source::Recovery,
        })))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use segno_model::record::{Action, Approval, ApprovalState, ReplayClass};

    fn open_run(stopping: bool) -> OpenRun {
        OpenRun { run: 3, attempt: 1, stopping }
    }

    fn action(id: &str, call_seq: u64) -> OpenAction {
        let action = Action {
            call_id: id.to_owned(),
            call_seq,
            tool: "bash".to_owned(),
            class: ReplayClass::Opaque,
            host: String::new(),
            boot: String::new(),
            key: None,
            probe: None,
            before: None,
        };
        OpenAction { seq: call_seq + 1, action }
    }

    fn text(bodies: &[Body]) -> String {
        bodies.iter().map(describe).collect::<Vec<_>>().join(", ")
    }

    fn describe(body: &Body) -> String {
        match body {
            Body::Message(message) => match &**message {
                Message::Tool(t) => format!("{}@{:?} {:?}", t.call_id, t.call_seq, t.outcome),
                other => format!("{other:?}"),
            },
            Body::Compaction(c) => format!("compaction {:?}", c.state),
            Body::Run(Run { run, state: RunState::Ended { end, .. } }) => {
                format!("run {run} {end:?}")
            }
            other => other.kind().to_owned(),
        }
    }

    /// Every combination of open run, open compaction, open effect and unanswered call.
    /// Covers: G6, G7, G9, #32, #123.
    #[test]
    fn every_state_is_settled_by_exactly_one_list() {
        let runs = [(None, ""), (Some(false), "run 3 Suspended"), (Some(true), "run 3 Stopped")];
        for (run, run_text) in runs {
            for compaction in [None, Some(9)] {
                for (actions, calls, results) in [
                    (vec![], vec![], ""),
                    (vec![action("a", 4)], vec![], "a@Some(4) Unknown"),
                    (vec![], vec![("b", 5)], "b@Some(5) Unknown"),
                    (vec![action("a", 4)], vec![("a", 4)], "a@Some(4) Unknown"),
                    (vec![action("a", 2)], vec![("a", 4)], "a@Some(4) Unknown, a@Some(2) Unknown"),
                ] {
                    let state = Checkpoint {
                        open_run: run.map(open_run),
                        open_compaction: compaction,
                        open_actions: actions.into(),
                        ..Checkpoint::default()
                    };
                    let unanswered: Vec<_> = calls
                        .iter()
                        .map(|(id, seq)| Unanswered {
                            call_seq: *seq,
                            call_id: (*id).to_owned(),
                            name: "bash".to_owned(),
                        })
                        .collect();
                    let expected: Vec<&str> = [
                        results,
                        if compaction.is_some() { "compaction Failed" } else { "" },
                        run_text,
                    ]
                    .into_iter()
                    .filter(|s| !s.is_empty())
                    .collect();
                    assert_eq!(
                        text(&settle(&state, &unanswered, &Established::new())),
                        expected.join(", ")
                    );
                }
            }
        }
    }

    /// A question that nobody answered proves that its call did not start; an intent disproves it.
    /// Covers: G7, #43.
    #[test]
    fn an_open_question_is_told_from_an_unknown_outcome() {
        let asked = Approval {
            call_id: "a".to_owned(),
            call_seq: 4,
            state: ApprovalState::Asked { question: String::new() },
        };
        let call = |id: &str, call_seq| Unanswered {
            call_seq,
            call_id: id.to_owned(),
            name: "bash".to_owned(),
        };
        let cases = [
            (vec![], call("a", 4), "a@Some(4) NotRun"),
            (vec![action("a", 4)], call("a", 4), "a@Some(4) Unknown"),
            (vec![], call("a", 9), "a@Some(9) Unknown"),
            (vec![], call("b", 4), "b@Some(4) Unknown"),
        ];
        for (open_actions, call, expected) in cases {
            let open_approvals = vec![asked.clone()];
            let open_actions = open_actions.into();
            let state = Checkpoint { open_actions, open_approvals, ..Checkpoint::default() };
            assert_eq!(text(&settle(&state, &[call], &Established::new())), expected);
        }
    }
}
