//! What the parent is told of an attempt: a result for its model, and a record for programs.
//!
//! Responsible for: the words, and one table from how an attempt ended to what that means for the call. Must
//! not: give text of an earlier attempt, or send the record to a model.

use super::Prepared;
use super::traces::Traces;
use segno_model::SessionId;
use segno_model::child::drift::Drift;
use segno_model::child::{attempt_id, detail};
use segno_model::record::{Attempt, AttemptStatus, Block, Child, ChildState, Outcome, RunEnd};
use segno_runtime::{CallAt, ToolOutput};

/// How an attempt ended, for its parent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Ending {
    pub(super) status: AttemptStatus,
    /// A code.
    pub(super) reason: Option<&'static str>,
    /// For people and for the model.
    pub(super) sentence: String,
}

impl Ending {
    fn new(
        status: AttemptStatus,
        reason: Option<&'static str>,
        sentence: impl Into<String>,
    ) -> Self {
        Self { status, reason, sentence: sentence.into() }
    }

    /// From the child's own run; `timed_out` when its deadline stopped it.
    pub(super) fn of(end: RunEnd, reason: Option<&str>, timed_out: bool) -> Self {
        let with = |what: &str| reason.map_or(what.to_owned(), |why| format!("{what}: {why}"));
        match end {
            RunEnd::Completed => Self::new(AttemptStatus::Completed, None, with("it finished")),
            RunEnd::Failed => Self::new(AttemptStatus::Failed, Some("failed"), with("it failed")),
            RunEnd::Exhausted => {
                Self::new(AttemptStatus::Exhausted, Some("exhausted"), with("a limit ended it"))
            }
            RunEnd::Stopped if timed_out => {
                Self::new(AttemptStatus::Timeout, Some("timeout"), "its time ran out")
            }
            RunEnd::Stopped => {
                Self::new(AttemptStatus::Stopped, Some("stopped"), "the user stopped it")
            }
            RunEnd::Suspended => Self::interrupted(),
        }
    }

    /// Its process ended, or was shut down, in the middle of it.
    pub(super) fn interrupted() -> Self {
        let sentence =
            "it was interrupted; what it did until then is kept, and it can be continued";
        Self::new(AttemptStatus::Interrupted, Some("interrupted"), sentence)
    }

    /// Another process asked for it in the middle of it.
    pub(super) fn taken_over() -> Self {
        let sentence = "another process took it over in the middle of this task; what it did until then is kept, \
                        and a person may go on with it there";
        Self::new(AttemptStatus::Interrupted, Some("taken-over"), sentence)
    }

    /// Its log could not be written.
    pub(super) fn lost(why: &str) -> Self {
        let sentence = format!("its log could not be written: {why}");
        Self::new(AttemptStatus::Failed, Some("write-failed"), sentence)
    }

    /// What that means for the call.
    fn outcome(&self) -> Outcome {
        match self.status {
            AttemptStatus::Completed => Outcome::Done,
            AttemptStatus::Stopped => Outcome::Stopped,
            AttemptStatus::Interrupted | AttemptStatus::Unknown => Outcome::Unknown,
            AttemptStatus::Rejected => Outcome::Denied,
            AttemptStatus::Failed | AttemptStatus::Exhausted | AttemptStatus::Timeout => {
                Outcome::Failed
            }
        }
    }
}

/// The result of an attempt that ran: its last words, who it was, and what it used.
pub(super) fn result(prepared: &Prepared, traces: &Traces, ending: &Ending) -> ToolOutput {
    let said = match traces.text.trim() {
        "" => "(the subagent said nothing)",
        text => text,
    };
    let Prepared { child, launch, drift, .. } = prepared;
    let mut about = format!(
        "[subagent {}, id {child}: {}; {} repl{}, {}",
        launch.role.name,
        ending.sentence,
        traces.turns,
        if traces.turns == 1 { "y" } else { "ies" },
        traces.used.phrase(),
    );
    if traces.lifetime != traces.used {
        about.push_str(&format!("; in its whole life {}", traces.lifetime.phrase()));
    }
    if !drift.is_empty() {
        about.push_str(&format!("; changed since its launch: {}", drift.join(", ")));
    }
    about.push_str(". `resume` with this id continues it.]");
    let outcome = ending.outcome();
    let content = vec![Block::text(format!("{said}\n\n{about}"))];
    let output = ToolOutput::new(String::new(), outcome != Outcome::Done, outcome);
    ToolOutput { content, child: Some(Box::new(ended(prepared, traces, ending))), ..output }
}

/// The record of an attempt that ran.
fn ended(prepared: &Prepared, traces: &Traces, ending: &Ending) -> Child {
    let Prepared { child, attempt, launch, resumed, drift, task, .. } = prepared;
    let attempt = Attempt {
        id: attempt.clone(),
        status: ending.status,
        launched: true,
        resumed: *resumed,
        reason: ending.reason.map(str::to_owned),
        detail: Some(detail(&ending.sentence)),
        role: Some(launch.role.name.clone()),
        model: Some(launch.model.clone()),
        cwd: Some(launch.cwd.clone()),
        tools: launch.tools.iter().map(|tool| tool.name.clone()).collect(),
        timeout_ms: task.timeout.and_then(|t| u64::try_from(t.as_millis()).ok()),
        run: traces.run,
        turns: traces.turns,
        text: !traces.text.trim().is_empty(),
        usage: Some(traces.used.usage),
        usage_incomplete: traces.used.incomplete,
        drift: drift.clone(),
        allowed: Vec::new(),
    };
    let record = Child::new(child.as_str(), "", ChildState::Ended);
    Child { attempt: Some(Box::new(attempt)), ..record }
}

/// The result of a call whose child works beside its parent's turns.
pub(crate) fn started(prepared: &Prepared) -> ToolOutput {
    let (role, child) = (&prepared.launch.role.name, &prepared.child);
    ToolOutput::done(format!(
        "The subagent {role} works in the background, id {child}. Its end comes as a message by itself: go on with \
         something else, or end your turn."
    ))
}

/// Nobody works on a child whose call returned at once, and it lies below another session.
pub(super) fn elsewhere(child: &SessionId) -> ToolOutput {
    let text = format!(
        "The subagent {child} worked for the session that this one is a copy of; what became of it is on record there. \
         `resume` with its id continues a copy of it."
    );
    ToolOutput::new(text, true, Outcome::Unknown)
}

/// The result of a call that was not begun: nothing of any child has changed.
pub(super) fn rejected(
    at: CallAt,
    child: Option<&SessionId>,
    code: &str,
    sentence: &str,
) -> ToolOutput {
    not_begun(&attempt_id(at.seq, at.index), child, (Outcome::Denied, code), sentence)
}

/// The result of a call whose intent is on record and that was certainly not begun.
pub(crate) fn not_started(prepared: &Prepared, code: &str, sentence: &str) -> ToolOutput {
    let Prepared { attempt, child, .. } = prepared;
    not_begun(attempt, Some(child), (Outcome::NotRun, code), sentence)
}

/// The end of a child in the background that its process did not come to making.
pub(super) fn never_started(child: &SessionId, attempt: &str) -> ToolOutput {
    let sentence = format!("The subagent {child} was never started.");
    not_begun(attempt, Some(child), (Outcome::NotRun, "never-started"), &sentence)
}

/// The end of a child in the background that cannot be told.
pub(super) fn lost_sight(child: &SessionId, attempt: &str, why: &str) -> ToolOutput {
    let sentence = format!("What became of the subagent {child} cannot be told: {why}.");
    let attempt = Attempt {
        id: attempt.to_owned(),
        status: AttemptStatus::Unknown,
        launched: true,
        reason: Some("unknown".to_owned()),
        detail: Some(detail(&sentence)),
        usage_incomplete: true,
        ..Attempt::default()
    };
    let record = Child::new(child.as_str(), "", ChildState::Ended);
    let record = Child { attempt: Some(Box::new(attempt)), ..record };
    let output = ToolOutput::new(sentence, true, Outcome::Unknown);
    ToolOutput { child: Some(Box::new(record)), ..output }
}

fn not_begun(
    id: &str,
    child: Option<&SessionId>,
    (outcome, code): (Outcome, &str),
    sentence: &str,
) -> ToolOutput {
    let attempt = Attempt {
        id: id.to_owned(),
        status: AttemptStatus::Rejected,
        reason: Some(code.to_owned()),
        detail: Some(detail(sentence)),
        ..Attempt::default()
    };
    let record = Child::new(child.map_or("", SessionId::as_str), "", ChildState::Ended);
    let record = Child { attempt: Some(Box::new(attempt)), ..record };
    let output = ToolOutput::new(format!("{sentence} ({code})"), true, outcome);
    ToolOutput { child: Some(Box::new(record)), ..output }
}

/// The result of a call of which it cannot be found out what became of it.
pub(super) fn unknown(prepared: &Prepared, why: &str) -> ToolOutput {
    let sentence = format!("what became of it cannot be told now: {why}");
    let ending = Ending::new(AttemptStatus::Unknown, Some("unknown"), sentence);
    let text = format!(
        "The subagent {} had been given the prompt, or was about to be; {}. Its id is {}.",
        prepared.launch.role.name, ending.sentence, prepared.child
    );
    let record = ended(prepared, &Traces::default(), &ending);
    let output = ToolOutput::new(text, true, Outcome::Unknown);
    ToolOutput { child: Some(Box::new(record)), ..output }
}

/// Why a fork does not go on with a child that has a worktree, and how its work is had all the same.
pub(super) fn not_owned(child: &SessionId, owner: &SessionId) -> String {
    let branch = crate::worktree::Worktrees::branch(child);
    format!(
        "The subagent is not continued: its worktree belongs to the session that this one was forked from, {owner}. \
         Start a new one instead, with `worktree` if it is to have one, and tell it what it needs to know: \
         `git merge {branch}` brings the commits of the other one. The user can go on with that one itself by \
         `segno resume {child}`."
    )
}

/// Why a child is not continued, all reasons in one answer.
pub(super) fn drifted(refusals: &[&Drift]) -> (String, String) {
    let codes: Vec<&str> = refusals.iter().map(|drift| drift.code).collect();
    let sentences: Vec<&str> = refusals.iter().map(|drift| drift.sentence.as_str()).collect();
    let sentence = format!("The subagent is not continued. {}.", sentences.join("; "));
    (codes.join(","), sentence)
}

/// The same for the model, which can do without this one.
pub(super) fn advised(sentence: &str) -> String {
    format!("{sentence} Start a new subagent instead, and tell it what it needs to know.")
}

/// Why nobody can tell what became of a child that was deleted, and how that can be told again.
pub(super) fn in_the_trash(child: &SessionId) -> String {
    format!("it was moved to the trash, and `segno trash restore {child}` brings it back")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every end of a child's run means one thing for the call. Covers: TR12.
    #[test]
    fn every_ending_has_a_status_and_an_outcome() {
        let cases = [
            (RunEnd::Completed, false, AttemptStatus::Completed, Outcome::Done),
            (RunEnd::Failed, false, AttemptStatus::Failed, Outcome::Failed),
            (RunEnd::Exhausted, false, AttemptStatus::Exhausted, Outcome::Failed),
            (RunEnd::Stopped, false, AttemptStatus::Stopped, Outcome::Stopped),
            (RunEnd::Stopped, true, AttemptStatus::Timeout, Outcome::Failed),
            (RunEnd::Suspended, false, AttemptStatus::Interrupted, Outcome::Unknown),
        ];
        for (end, timed_out, status, outcome) in cases {
            let ending = Ending::of(end, Some("why"), timed_out);
            assert_eq!((ending.status, ending.outcome()), (status, outcome), "{end:?}");
        }
    }
}
