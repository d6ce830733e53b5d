//! The same tools under the names of different agents.
//!
//! Responsible for: which calls mean the same in two agents, so that the target shows them as its own, and
//! how their arguments are called there. Must not: change a value, or map what only looks alike.

use crate::foreign::Agent;
use serde_json::{Map, Value};

/// A call's name and arguments as `agent` calls them; as they are where it has no such tool.
#[must_use]
pub fn for_agent(
    _agent: Agent,
    name: &str,
    arguments: &Map<String, Value>,
) -> (String, Map<String, Value>) {
    (name.to_owned(), arguments.clone())
}
