//! What an interrupted session needs before it goes on.
//!
//! Responsible for: one pure decision from the state at the end of the log to the records that settle
//! it (G6, G7, G9). Must not: write them, repeat an effect, or claim more than is known.
//!
//! | open run | when something new begins | when it is taken up itself |
//! |---|---|---|
//! | none | nothing about runs | nothing about runs |
//! | running | `suspended`: it ended without a record | it goes on |
//! | stopping | `stopped`: the user's stop is finished | it is not taken up |
//!
//! Independently: an open compaction is `failed`, and the draft of a reply that was never recorded becomes
//! a partial reply. Every call without a result, and every effect that began and has none, gets a result:
//!
//! | call | rule |
//! |---|---|
//! | its tool found out what became of it, or that it only reads | what was found |
//! | its intent is there | its outcome is unknown |
//! | in its round a permission was asked, and no answer and no intent of the round is there | when the run goes on: none yet, the question is put again; otherwise: it did not run |
//! | any other of the interrupted run | its outcome is unknown, and no record says whether it started |
//! | any other | its outcome is unknown |
//!
//! The third rule claims no more than is known: a round's intents are durable before its first effect
//! starts, and they are written after the last answer, so an open question proves that nothing of the
//! round had started.

use segno_model::checkpoint::{OpenAction, OpenRun};
use segno_model::context::{UNKNOWN_OUTCOME, Unanswered};
use segno_model::record::{
    Block, Body, Child, ChildState, Compaction, CompactionState, Established as Source, Message,
    Outcome, Run, RunEnd, RunState, ToolMessage, UserMessage,
};
use segno_model::{Checkpoint, Seq};
use std::collections::{HashMap, HashSet};

/// The reason that an interrupted run's end carries.
pub const INTERRUPTED: &str = "interrupted: the process ended during the run";

/// What the model is told about a call whose permission was never decided.
const NEVER_ALLOWED: &str = "Not run: Segno was interrupted while it waited for the permission. Ask \
    again if it is still needed.";

/// What the model is told about a call of which there is neither an intent nor a result.
const NO_INTENT: &str = "The outcome of this call is unknown: Segno was interrupted before a result \
    was recorded, and no record says whether the call had started. Check before repeating it.";

/// What the model is told about a call that only reads.
pub(crate) const NOT_RECORDED: &str = "Not recorded: Segno was interrupted before the result of this \
    call was recorded. It changes nothing; read again if it is still needed.";

/// What the model is told behind a reply that was cut off.
pub(crate) const CUT_OFF: &str = "(Segno: your reply above was cut off by an interruption. What of it had \
    arrived is kept; tool calls in it were not run. Go on from where it ends.)";

/// The reason of the notice behind a reply that was cut off.
pub(crate) const NOTICE: &str = "interrupted";

/// The results of calls, as far as it was found out what became of them, each with what is recorded beside
/// it.
pub(crate) type Established = HashMap<(Seq, String), Vec<Body>>;

/// The notice that stands behind a reply that was cut off: providers refuse what ends with the assistant.
pub(crate) fn cut_off_notice() -> Body {
    Body::Message(Box::new(Message::User(UserMessage::notice(NOTICE, CUT_OFF))))
}

/// What the session goes on with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Then {
    /// Something new: the open run ends.
    Anew,
    /// The open run itself.
    GoOn,
}

/// Everything that is known about interrupted work.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Found<'a> {
    /// Calls of the context without a result.
    pub(crate) unanswered: &'a [Unanswered],
    /// What was found out about them, and about effects whose calls are not in the context.
    pub(crate) established: &'a Established,
    /// Calls that are left open: their effects still run, and somebody waits for their ends.
    pub(crate) awaited: &'a HashSet<(Seq, String)>,
    /// The reply that was being streamed.
    pub(crate) draft: Option<&'a Body>,
}

/// The records that settle what was left open, in the order in which they are to be appended.
pub(crate) fn settle(state: &Checkpoint, found: Found<'_>, then: Then) -> Vec<Body> {
    let open = Open::of(state, found.established);
    let mut settled: HashSet<CallKey<'_>> =
        found.unanswered.iter().map(|call| (call.call_seq, call.call_id.as_str())).collect();
    let calls = found.unanswered.iter().map(|c| (c.call_seq, c.call_id.as_str(), c.name.as_str()));
    let actions = state.open_actions.iter().map(|OpenAction { action, .. }| action);
    let effects: Vec<_> = actions
        .map(|a| (a.call_seq, a.call_id.as_str(), a.tool.as_str()))
        .filter(|(seq, id, _)| settled.insert((*seq, id)))
        .collect();
    let awaited = |seq: Seq, id: &str| found.awaited.iter().any(|(s, i)| *s == seq && i == id);
    let mut bodies: Vec<Body> = calls
        .chain(effects)
        .filter(|(seq, id, _)| !(then == Then::GoOn && awaited(*seq, id)))
        .filter(|(seq, ..)| !(then == Then::GoOn && open.is_undecided(*seq)))
        .flat_map(|(seq, id, name)| open.result((seq, id), name))
        .collect();
    bodies.extend(lost_children(state, &bodies));
    if let Some(draft) = found.draft {
        bodies.push(draft.clone());
        bodies.extend((then == Then::GoOn).then(cut_off_notice));
    }
    if state.open_compaction.is_some() {
        let failed = Compaction::marker(CompactionState::Failed, Some(INTERRUPTED.to_owned()));
        bodies.push(Body::Compaction(Box::new(failed)));
    }
    if then == Then::Anew {
        bodies.extend(state.open_run.as_ref().map(end_of));
    }
    bodies
}

/// An end for every subagent whose call is settled and of which nothing else is said.
fn lost_children(state: &Checkpoint, settled: &[Body]) -> Vec<Body> {
    let has_result = |child: &Child| {
        settled.iter().any(|body| match body {
            Body::Message(message) => matches!(&**message, Message::Tool(result)
                if result.call_id == child.call_id && result.call_seq == child.call_seq),
            _ => false,
        })
    };
    let is_told = |child: &Child| {
        settled.iter().any(|body| {
            matches!(body, Body::Child(told)
            if told.child == child.child && told.call_id == child.call_id)
        })
    };
    let open = state.open_children.iter().filter(|child| has_result(child) && !is_told(child));
    open.map(|child| {
        let detail = Some("nobody was there who could say what became of it".to_owned());
        Body::Child(Child { state: ChildState::Ended, detail, ..child.clone() })
    })
    .collect()
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
    /// The rounds with an open question and no intent.
    undecided: HashSet<Seq>,
    /// Where the run began that was interrupted: calls behind it are its own.
    since: Option<Seq>,
    began: HashSet<CallKey<'a>>,
    found: HashMap<CallKey<'a>, &'a Vec<Body>>,
}

impl<'a> Open<'a> {
    fn of(state: &'a Checkpoint, found: &'a Established) -> Self {
        let actions = state.open_actions.iter().map(|open| &open.action);
        let began: HashSet<_> = actions.map(|a| (a.call_seq, a.call_id.as_str())).collect();
        let found = found.iter().map(|((seq, id), result)| ((*seq, id.as_str()), result));
        let run = state.open_run.as_ref().or(state.suspended_run.as_ref());
        let since = run.map(|run| run.since);
        Self { undecided: undecided_rounds(state), since, began, found: found.collect() }
    }

    /// Whether a round waits for a permission, so that nothing of it has started.
    fn is_undecided(&self, round: Seq) -> bool {
        self.undecided.contains(&round)
    }

    fn result(&self, call: CallKey<'_>, name: &str) -> Vec<Body> {
        if let Some(found) = self.found.get(&call) {
            return (*found).clone();
        }
        let (text, outcome) = if self.began.contains(&call) {
            (UNKNOWN_OUTCOME, Outcome::Unknown)
        } else if self.is_undecided(call.0) {
            (NEVER_ALLOWED, Outcome::NotRun)
        } else if self.since.is_some_and(|since| call.0 > since) {
            (NO_INTENT, Outcome::Unknown)
        } else {
            (UNKNOWN_OUTCOME, Outcome::Unknown)
        };
        vec![result(call, name, text, outcome)]
    }
}

/// The rounds of calls that wait for a permission, so that nothing of them has started.
pub(crate) fn undecided_rounds(state: &Checkpoint) -> HashSet<Seq> {
    let began: HashSet<Seq> = state.open_actions.iter().map(|a| a.action.call_seq).collect();
    let asked = state.open_approvals.iter().map(|a| a.call_seq);
    asked.filter(|round| !began.contains(round)).collect()
}

/// A result that recovery gives.
pub(crate) fn result(call: (Seq, &str), name: &str, text: &str, outcome: Outcome) -> Body {
    Body::Message(Box::new(Message::Tool(ToolMessage {
        call_id: call.1.to_owned(),
        call_seq: Some(call.0),
        name: name.to_owned(),
        content: vec![Block::text(text)],
        whole: None,
        is_error: true,
        outcome,
        established: Source::Recovery,
        background: None,
    })))
}

#[cfg(test)]
mod tests {
    use super::*;
    use segno_model::record::{Action, Approval, ApprovalState, ReplayClass};

    fn open_run(stopping: bool) -> OpenRun {
        OpenRun { run: 3, attempt: 1, stopping, ..OpenRun::default() }
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

    fn anew(state: &Checkpoint, unanswered: &[Unanswered]) -> String {
        settled(state, unanswered, Then::Anew)
    }

    fn settled(state: &Checkpoint, unanswered: &[Unanswered], then: Then) -> String {
        let (established, awaited) = (Established::new(), HashSet::new());
        let found = Found { unanswered, established: &established, awaited: &awaited, draft: None };
        text(&settle(state, found, then))
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
                    assert_eq!(anew(&state, &unanswered), expected.join(", "));
                }
            }
        }
    }

    /// A question that nobody answered proves that nothing of its round started; an intent disproves it.
    /// When the run goes on, such a round stays open. Covers: G7, #43.
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
            (vec![], call("b", 4), "b@Some(4) NotRun"),
        ];
        for (open_actions, call, expected) in cases {
            let open_approvals = vec![asked.clone()];
            let open_actions = open_actions.into();
            let state = Checkpoint { open_actions, open_approvals, ..Checkpoint::default() };
            let goes_on = if expected.ends_with("NotRun") { "" } else { expected };
            assert_eq!(settled(&state, std::slice::from_ref(&call), Then::GoOn), goes_on);
            assert_eq!(anew(&state, &[call]), expected);
        }
    }
}
