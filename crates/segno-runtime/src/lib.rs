//! Durable runs over a session log: input, request, effect, recovery.
//!
//! Responsible for: what is written when (section 4 of the design), opening and recovery (section 5),
//! and the loop that drives a run. Must not: know a provider, a concrete tool, or a concrete store; it
//! sees a [`Model`], [`Tools`] and the store traits of `segno-model`.

mod model;
mod stop;
mod tools;

pub use model::{Model, ModelError, ModelErrorKind, ModelRequest, StreamEvent};
pub use stop::{Stop, StopHandle, StopKind};
pub use tools::{Answer, Progress, ToolOutput, ToolPlan, ToolRun, ToolSpec, Tools, Verdict};
