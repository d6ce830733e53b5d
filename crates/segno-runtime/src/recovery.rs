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
//! Independently: an open compaction is `failed`; every call without a result, and every effect that
//! began and has none, gets a result that says that its outcome is unknown.

use segno_model::Checkpoint;
use segno_model::checkpoint::OpenRun;
use segno_model::context::{UNKNOWN_OUTCOME, Unanswered};
use segno_model::record::{
    Block, Body, Compaction, CompactionState, Established, Message, Outcome, Run, RunEnd, RunState,
    ToolMessage,
};

/// The reason that an interrupted run's end carries.
pub const INTERRUPTED: &str = "interrupted: the process ended during the run";

/// The records that settle what was left open, in the order in which they are to be appended.
pub(crate) fn settle(state: &Checkpoint, unanswered: &[Unanswered]) -> Vec<Body> {
    let mut bodies: Vec<Body> = unanswered
        .iter()
        .map(|call| unknown_result(&call.call_id, call.call_seq, &call.name))
        .collect();
    bodies.extend(state.open_actions.iter().filter_map(|open| {
        let action = &open.action;
        let listed =
            unanswered.iter().any(|u| u.call_seq == action.call_seq && u.call_id == action.call_id);
        (!listed).then(|| unknown_result(&action.call_id, action.call_seq, &action.tool))
    }));
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

fn unknown_result(call_id: &str, call_seq: u64, name: &str) -> Body {
    Body::Message(Box::new(Message::Tool(ToolMessage {
        call_id: call_id.to_owned(),
        call_seq: Some(call_seq),
        name: name.to_owned(),
        content: vec![Block::text(UNKNOWN_OUTCOME)],
        whole: None,
        is_error: true,
        outcome: Outcome::Unknown,
        established: Established::Recovery,
    })))
}

#[cfg(test)]
mod tests {
    use super::*;
    use segno_model::checkpoint::OpenAction;
    use segno_model::record::{Action, ReplayClass};

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
                        open_actions: actions,
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
                    assert_eq!(text(&settle(&state, &unanswered)), expected.join(", "));
                }
            }
        }
    }
}
