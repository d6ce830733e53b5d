//! Crush's sessions.
//!
//! Responsible for: where they are and how they are read. Must not: be known outside this module.
//!
//! `PROJECT/.crush/crush.db`; the projects are listed in `~/.local/share/crush/projects.json`
//! (`CRUSH_GLOBAL_DATA`, `XDG_DATA_HOME`), which also says where a project's data is when it was moved. Read
//! after the source of charmbracelet/crush (`internal/db/migrations`, `internal/message/content.go` and
//! `message.go`, `internal/projects`, 2025 to 2026); what the tests read is constructed from it.
//!
//! Traps: the message that the session's row names as summary begins the context, whatever stands before it.
//! Messages have times in seconds, so that their order is the rows'. A reply is rewritten while it streams: one
//! without a finish was interrupted. A subagent's session has the call in its id. The token counts of a session
//! are those of its last request and are no usage.

#[cfg(feature = "catalog")]
mod database;

#[cfg(feature = "catalog")]
pub(super) use database::{locate, read, recognises};

#[cfg(not(feature = "catalog"))]
pub(super) use without::{locate, read, recognises};

/// Builds without SQLite read nothing of Crush.
#[cfg(not(feature = "catalog"))]
mod without {
    use crate::foreign::agent::Agent;
    use crate::foreign::emitter::Emitter;
    use crate::foreign::input::{ForeignError, Head};
    use crate::foreign::locate::{Located, Roots};

    pub(in crate::foreign) fn recognises(_: &Head<'_>) -> bool {
        false
    }

    pub(in crate::foreign) fn locate(_: &Roots, _: &mut Vec<Located>, _: &mut Vec<ForeignError>) {}

    pub(in crate::foreign) fn read(_: &Located, _: &mut Emitter<'_>) -> Result<(), ForeignError> {
        Err(ForeignError::Unsupported { agent: Agent::Crush })
    }
}
