//! What a fork must say about work that only its source can finish.
//!
//! Responsible for: the records behind the copied ones. Must not: copy, or append them.

use crate::checkpoint::OpenAction;
use crate::context::UNKNOWN_OUTCOME;
use crate::id::Pos;
use crate::record::{
    Block, Body, Child, ChildState, Established, Message, Outcome, Run, RunEnd, RunState, Tip,
    ToolMessage,
};
use crate::state::State;

/// The records that end a copy whose state is `state` and whose tip shall be `tip`: open effects and the
/// open run are settled as the origin's (never run or collected here), then the tip is set. The run goes on
/// in the origin only, so it counts as stopped here: nothing in a copy starts unasked.
#[must_use]
pub fn closing(state: &State, tip: Option<Pos>) -> Vec<Body> {
    let in_force = &state.in_force;
    let mut bodies: Vec<Body> = in_force.open_actions.iter().map(origins_result).collect();
    // Results are nodes: they would become the tip.
    let moved = !bodies.is_empty() || state.tip() != tip;
    bodies.extend(in_force.open_children.iter().map(|child| {
        let detail = Some("it is the origin's".to_owned());
        Body::Child(Child { state: ChildState::Ended, detail, ..child.clone() })
    }));
    if let Some(open) = in_force.open_run.as_ref().or(in_force.suspended_run.as_ref()) {
        let (end, reason) = (RunEnd::Stopped, Some("the run is the origin's".to_owned()));
        bodies.push(Body::Run(Run { run: open.run, state: RunState::Ended { end, reason } }));
    }
    if moved {
        bodies.push(Body::Tip(Tip { tip }));
    }
    bodies
}

fn origins_result(open: &OpenAction) -> Body {
    let action = &open.action;
    Body::Message(Box::new(Message::Tool(ToolMessage {
        call_id: action.call_id.clone(),
        call_seq: Some(action.call_seq),
        name: action.tool.clone(),
        content: vec![Block::text(UNKNOWN_OUTCOME)],
        whole: None,
        is_error: true,
        outcome: Outcome::Unknown,
        established: Established::Origin,
        background: None,
    })))
}
