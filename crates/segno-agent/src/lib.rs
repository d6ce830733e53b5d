//! The coding agent: model providers, tools, permissions, instructions.
//!
//! Responsible for: everything between the runtime's traits and the outside world, except files of
//! sessions and terminals. Must not: name a concrete store or print anything.

pub mod agent;
pub mod attach;
mod file_note;
mod git;
pub mod instructions;
pub mod mcp;
pub mod permission;
pub mod project;
pub mod provider;
pub mod rewind;
pub mod subagent;
pub mod supervisor;
pub mod surroundings;
pub mod tool;
pub mod worktree;

pub use agent::{Agent, AgentError, World};
pub use file_note::{FileFault, FileNote};
pub use surroundings::Surroundings;
