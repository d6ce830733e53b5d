//! Calls of other programs' tools.
//!
//! Responsible for: what is asked of a person, the operation id that goes into the intent before the call,
//! and handing calls on. Must not: talk to a server itself, or believe one that the user does not trust.

use super::error::ToolError;
use super::{ToolCallKey, key, lock};
use crate::mcp::{self, Servers};
use crate::permission::ExternalWish;
use segno_model::context::UNKNOWN_OUTCOME;
use segno_model::record::{Outcome, ReplayClass, ToolCall};
use segno_runtime::{Begun, Stop, ToolOutput, ToolPlan, ToolSpec};
use std::collections::HashMap;
use std::sync::{Arc, Mutex};

/// The tools of other programs, and the calls that are under way.
pub(super) struct External {
    servers: Option<Arc<Servers>>,
    /// Operation ids of prepared calls.
    keys: Mutex<HashMap<ToolCallKey, String>>,
}

impl External {
    pub(super) fn new(servers: Option<Arc<Servers>>) -> Self {
        Self { servers, keys: Mutex::default() }
    }

    pub(super) fn specs(&self) -> Vec<ToolSpec> {
        self.servers.as_ref().map(|servers| servers.specs()).unwrap_or_default()
    }

    /// What a call wants.
    pub(super) fn wish(&self, call: &ToolCall) -> Result<ExternalWish, ToolError> {
        let known = self.servers.as_ref().and_then(|servers| servers.known(&call.name));
        let known = known
            .ok_or_else(|| ToolError::Arguments(format!("there is no tool {:?} now", call.name)))?;
        Ok(ExternalWish {
            name: call.name.clone(),
            shown: format!("{} of the server {}", known.tool, known.server),
            arguments: call.arguments.clone(),
            reads: known.reads,
        })
    }

    pub(super) fn class(&self, call: &ToolCall) -> ReplayClass {
        let known = self.servers.as_ref().and_then(|servers| servers.known(&call.name));
        known.map_or(ReplayClass::Opaque, |known| known.class)
    }

    /// Gives a call its operation id, when its tool takes one; it is on disk before the call is made.
    pub(super) fn prepare(&self, call: &ToolCall, plan: ToolPlan) -> ToolPlan {
        let Some(servers) = &self.servers else { return plan };
        let Some(id) = servers.operation_id(&call.name) else { return plan };
        lock(&self.keys).insert(key(call), id.clone());
        ToolPlan { key: Some(id), ..plan }
    }

    pub(super) fn discard(&self, call: &ToolCall) {
        lock(&self.keys).remove(&key(call));
    }

    pub(super) async fn run(&self, call: &ToolCall, stop: &Stop) -> ToolOutput {
        let id = lock(&self.keys).remove(&key(call));
        match &self.servers {
            Some(servers) => servers.call(call, id.as_deref(), stop).await,
            None => mcp::gone(&call.name),
        }
    }

    /// What became of a call that another process made.
    pub(super) async fn establish(&self, begun: &Begun<'_>) -> ToolOutput {
        let keyed = begun.action.class == ReplayClass::Keyed;
        match &self.servers {
            Some(servers) if keyed => {
                servers.establish(begun.action, begun.call, begun.goes_on).await
            }
            _ => ToolOutput::new(UNKNOWN_OUTCOME, true, Outcome::Unknown),
        }
    }
}
