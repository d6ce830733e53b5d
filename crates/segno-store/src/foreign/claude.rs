//! Claude Code's sessions.
//!
//! Responsible for: where they are and how they are read. Must not: be known outside this module.

use super::agent::Agent;
use super::emitter::Emitter;
use super::input::{ForeignError, Head};
use super::locate::{Located, Roots};

/// Whether a file is one of Claude Code's, by its beginning.
pub(super) fn recognises(_head: &Head<'_>) -> bool {
    false
}

/// All sessions under `roots`.
pub(super) fn locate(_roots: &Roots, _found: &mut Vec<Located>, _failed: &mut Vec<ForeignError>) {}

/// Reads one.
pub(super) fn read(_session: &Located, _out: &mut Emitter<'_>) -> Result<(), ForeignError> {
    Err(ForeignError::Unsupported { agent: Agent::Claude })
}
