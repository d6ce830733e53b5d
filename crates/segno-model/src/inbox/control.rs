//! What the holder of a session does about a control.
//!
//! Responsible for: one table over the controls and where the session stands, and the records that say
//! what was done. Must not: write them, or signal anything.

use super::{InputBody, NewInput, Pending};
use crate::id::Seq;
use crate::record::{Body, InputEvent, InputFate, InputKind};
use std::collections::BTreeSet;

/// Where a session stands, as far as controls ask.
#[derive(Debug, Clone, Default)]
pub struct Standing<'a> {
    /// The run that is open.
    pub run: Option<u64>,
    /// The one who holds the session, by its key.
    pub holder: &'a str,
    /// The permission questions that have no answer, by call.
    pub questions: &'a [(Seq, String)],
    /// What waits for the model, in the order of delivery.
    pub waiting: &'a [String],
}

/// What to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Act {
    /// It is no control.
    None,
    /// Stop the run, then let the record be written together with that.
    Stop,
    /// Suspend the run and let go of the session.
    Suspend,
    /// This input is taken back.
    Withdraw(String),
    /// All waiting inputs in their new order.
    Reorder(Vec<String>),
    /// This input need not wait for a person any more.
    Deliver(String),
    /// Hand the answer to the question.
    Answer,
    /// Nothing, and why.
    Drop(&'static str),
}

/// One row: the controls and the standing it is for, and what to do.
struct Row {
    #[cfg_attr(not(test), allow(dead_code, reason = "names the row in tests and for readers"))]
    name: &'static str,
    matches: fn(&InputBody, &Standing<'_>) -> bool,
    act: fn(&InputBody, &Standing<'_>) -> Act,
}

const ROWS: &[Row] = &[
    Row { name: "words", matches: |body, _| body.words().is_some(), act: |_, _| Act::None },
    Row {
        name: "a stop of the open run",
        matches: |body, now| is(body, InputKind::Stop) && names_run(body, now),
        act: |_, _| Act::Stop,
    },
    Row {
        name: "a stop of any other",
        matches: |body, now| is(body, InputKind::Stop) && !names_run(body, now),
        act: |_, _| Act::Drop("the run that it names is not open"),
    },
    Row {
        name: "a request to suspend, to this holder",
        matches: |body, now| is(body, InputKind::Suspend) && names_holder(body, now),
        act: |_, _| Act::Suspend,
    },
    Row {
        name: "a request to suspend, to another one",
        matches: |body, now| is(body, InputKind::Suspend) && !names_holder(body, now),
        act: |_, _| Act::Drop("it was meant for an earlier holder of the session"),
    },
    Row {
        name: "an answer to a question that waits",
        matches: |body, now| is(body, InputKind::Answer) && names_question(body, now),
        act: |_, _| Act::Answer,
    },
    Row {
        name: "an answer to none",
        matches: |body, now| is(body, InputKind::Answer) && !names_question(body, now),
        act: |_, _| Act::Drop("no such question waits for an answer"),
    },
    Row {
        name: "about an input that waits",
        matches: |body, now| is_about_input(body) && names_waiting(body, now),
        act: about_input,
    },
    Row {
        name: "about an input that does not wait",
        matches: |body, now| is_about_input(body) && !names_waiting(body, now),
        act: |_, _| Act::Drop("no such input waits"),
    },
];

/// Decides.
#[must_use]
pub fn act(body: &InputBody, now: &Standing<'_>) -> Act {
    let row = ROWS.iter().find(|row| (row.matches)(body, now));
    row.map_or(Act::None, |row| (row.act)(body, now))
}

fn is(body: &InputBody, kind: InputKind) -> bool {
    body.kind() == kind
}

fn names_run(body: &InputBody, now: &Standing<'_>) -> bool {
    matches!(body, InputBody::Stop { run } if now.run == Some(*run))
}

fn names_holder(body: &InputBody, now: &Standing<'_>) -> bool {
    matches!(body, InputBody::Suspend { holder } if holder == now.holder)
}

fn names_question(body: &InputBody, now: &Standing<'_>) -> bool {
    let InputBody::Answer { call_id, call_seq, .. } = body else { return false };
    now.questions.iter().any(|(seq, id)| seq == call_seq && id == call_id)
}

fn is_about_input(body: &InputBody) -> bool {
    matches!(body.kind(), InputKind::Withdraw | InputKind::Reorder | InputKind::Deliver)
}

fn names_waiting(body: &InputBody, now: &Standing<'_>) -> bool {
    let waits = |id: &String| now.waiting.contains(id);
    match body {
        InputBody::Withdraw { input_id } | InputBody::Deliver { input_id } => waits(input_id),
        InputBody::Reorder { input_id, before } => {
            waits(input_id)
                && before.as_ref().is_none_or(|before| waits(before) && before != input_id)
        }
        _ => false,
    }
}

fn about_input(body: &InputBody, now: &Standing<'_>) -> Act {
    match body {
        InputBody::Withdraw { input_id } => Act::Withdraw(input_id.clone()),
        InputBody::Deliver { input_id } => Act::Deliver(input_id.clone()),
        InputBody::Reorder { input_id, before } => {
            Act::Reorder(moved(now.waiting, input_id, before.as_deref()))
        }
        _ => Act::None,
    }
}

/// The order with one moved.
fn moved(waiting: &[String], input_id: &str, before: Option<&str>) -> Vec<String> {
    let mut order: Vec<String> = waiting.iter().filter(|id| *id != input_id).cloned().collect();
    let at = order.iter().position(|id| Some(id.as_str()) == before).unwrap_or(order.len());
    order.insert(at, input_id.to_owned());
    order
}

/// What is to be done about everything that waits.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Plan {
    /// The records that say what was done, to be appended together.
    pub bodies: Vec<InputEvent>,
    /// Controls that stop the open run; their records are written with that of the stop.
    pub stops: Vec<InputEvent>,
    /// Requests to suspend; their records are written with the end of the work.
    pub suspends: Vec<InputEvent>,
    /// Inputs that need not wait for a person any more.
    pub delivers: Vec<String>,
    /// Answers to questions; their records are written with those of the answers.
    pub answers: Vec<NewInput>,
}

impl Plan {
    /// The plan for what waits, in the order of delivery.
    #[must_use]
    pub fn of(pending: &[Pending], now: &Standing<'_>) -> Self {
        let mut plan = Self::default();
        let mut waiting = now.waiting.to_vec();
        let mut controls: Vec<&Pending> =
            pending.iter().filter(|p| p.input.body.words().is_none()).collect();
        // Controls are carried out as they came.
        controls.sort_by_key(|p| p.order);
        for Pending { input, .. } in controls {
            let acted = input.event(InputFate::Acted);
            match act(&input.body, &Standing { waiting: &waiting, ..now.clone() }) {
                Act::None => {}
                Act::Stop => plan.stops.push(acted),
                Act::Suspend => plan.suspends.push(acted),
                Act::Answer => plan.answers.push(input.clone()),
                Act::Deliver(id) => {
                    plan.delivers.push(id);
                    plan.bodies.push(acted);
                }
                Act::Withdraw(id) => {
                    waiting.retain(|waits| *waits != id);
                    let target = pending.iter().find(|p| p.input.id == id);
                    plan.bodies.extend(target.map(|p| p.input.event(InputFate::Withdrawn)));
                    plan.bodies.push(acted);
                }
                Act::Reorder(order) => {
                    plan.bodies.push(reordered(&input.body, &order));
                    plan.bodies.push(acted);
                    waiting = order;
                }
                Act::Drop(why) => {
                    let reason = Some(why.to_owned());
                    plan.bodies.push(InputEvent { reason, ..input.event(InputFate::Dropped) });
                }
            }
        }
        plan
    }

    /// Whether there is nothing to write or to signal.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// The order in which `waiting` stands once the plan is carried out.
    #[must_use]
    pub fn order(&self, waiting: &[String]) -> Vec<String> {
        let mut reorders = self.bodies.iter().filter(|event| event.event == InputFate::Reordered);
        reorders.next_back().map_or_else(|| waiting.to_vec(), |event| event.order.clone())
    }

    /// The ids of the inputs that the plan takes back.
    #[must_use]
    pub fn withdrawn(&self) -> BTreeSet<&str> {
        let gone = self.bodies.iter().filter(|event| event.event == InputFate::Withdrawn);
        gone.map(|event| event.input_id.as_str()).collect()
    }
}

fn reordered(body: &InputBody, order: &[String]) -> InputEvent {
    let InputBody::Reorder { input_id, before } = body else {
        return InputEvent::new("", InputFate::Reordered);
    };
    InputEvent {
        before: before.clone(),
        order: order.to_vec(),
        ..InputEvent::new(input_id, InputFate::Reordered)
    }
}

/// Records of what became of inputs.
#[must_use]
pub fn bodies(events: Vec<InputEvent>) -> Vec<Body> {
    events.into_iter().map(Body::Input).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::inbox::Words;
    use crate::time::Timestamp;

    fn controls() -> Vec<InputBody> {
        let id = |text: &str| text.to_owned();
        let answer = |call_id: &str, call_seq| InputBody::Answer {
            call_id: id(call_id),
            call_seq,
            allowed: true,
            scope: id("once"),
            reason: None,
        };
        let reorder = |input_id: &str, before: Option<&str>| InputBody::Reorder {
            input_id: id(input_id),
            before: before.map(id),
        };
        vec![
            InputBody::Steer(Words::text("a")),
            InputBody::Queue(Words::text("a")),
            InputBody::Stop { run: 2 },
            InputBody::Stop { run: 1 },
            InputBody::Suspend { holder: id("me") },
            InputBody::Suspend { holder: id("you") },
            answer("call", 7),
            answer("call", 8),
            answer("other", 7),
            InputBody::Withdraw { input_id: id("a") },
            InputBody::Withdraw { input_id: id("x") },
            InputBody::Deliver { input_id: id("b") },
            InputBody::Deliver { input_id: id("x") },
            reorder("b", Some("a")),
            reorder("b", None),
            reorder("b", Some("b")),
            reorder("x", Some("a")),
            reorder("a", Some("x")),
        ]
    }

    /// Covers: G9.
    #[test]
    fn every_control_in_every_standing_matches_exactly_one_row() {
        let questions = [(7, "call".to_owned())];
        let waiting = ["a".to_owned(), "b".to_owned()];
        for body in controls() {
            for run in [None, Some(2)] {
                for (questions, waiting) in [(&questions[..], &waiting[..]), (&[], &[])] {
                    let now = Standing { run, holder: "me", questions, waiting };
                    let rows: Vec<_> = ROWS
                        .iter()
                        .filter(|row| (row.matches)(&body, &now))
                        .map(|row| row.name)
                        .collect();
                    assert_eq!(rows.len(), 1, "{body:?} {now:?}: {rows:?}");
                }
            }
        }
    }

    fn pending(order: u64, id: &str, body: InputBody) -> Pending {
        Pending { order, at: Timestamp(0), stale: false, input: NewInput::new(id, body) }
    }

    fn plan_of(controls: Vec<InputBody>) -> String {
        let waiting = ["a", "b", "c"].map(str::to_owned);
        let mut all: Vec<Pending> = waiting
            .iter()
            .map(|id| pending(1, id, InputBody::Queue(Words::text(id.as_str()))))
            .collect();
        all.extend(
            controls.into_iter().zip(2..).map(|(body, n)| pending(n, &format!("k{n}"), body)),
        );
        let now = Standing { run: Some(2), holder: "me", questions: &[], waiting: &waiting };
        let plan = Plan::of(&all, &now);
        let event = |e: &InputEvent| format!("{:?} {} {}", e.event, e.input_id, e.order.join(""));
        let text = |events: &[InputEvent]| {
            events.iter().map(|e| event(e).trim().to_owned()).collect::<Vec<_>>().join(", ")
        };
        let parts =
            [text(&plan.bodies), text(&plan.stops), text(&plan.suspends), plan.delivers.join("")];
        parts.join(" | ")
    }

    /// Covers: G8, G9. One after the other, each on what the ones before it left.
    #[test]
    fn controls_are_planned_as_they_came() {
        let id = |text: &str| text.to_owned();
        let withdraw = |input: &str| InputBody::Withdraw { input_id: id(input) };
        let before = |input: &str, other: &str| InputBody::Reorder {
            input_id: id(input),
            before: Some(id(other)),
        };
        for (controls, expected) in [
            (vec![withdraw("b")], "Withdrawn b, Acted k2 |  |  | "),
            (vec![withdraw("b"), withdraw("b")], "Withdrawn b, Acted k2, Dropped k3 |  |  | "),
            (vec![before("c", "a")], "Reordered c cab, Acted k2 |  |  | "),
            (
                vec![before("c", "a"), before("b", "c")],
                "Reordered c cab, Acted k2, Reordered b bca, Acted k3 |  |  | ",
            ),
            (vec![withdraw("a"), before("c", "a")], "Withdrawn a, Acted k2, Dropped k3 |  |  | "),
            (vec![InputBody::Stop { run: 2 }], " | Acted k2 |  | "),
            (vec![InputBody::Stop { run: 1 }], "Dropped k2 |  |  | "),
            (vec![InputBody::Suspend { holder: id("me") }], " |  | Acted k2 | "),
            (vec![InputBody::Deliver { input_id: id("c") }], "Acted k2 |  |  | c"),
        ] {
            assert_eq!(plan_of(controls.clone()), expected, "{controls:?}");
        }
    }
}
