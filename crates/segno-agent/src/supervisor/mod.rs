//! Shell commands that outlive the process which asked for them, and what became of them.
//!
//! Responsible for: a command's own supervisor (a process of its own that starts the command, keeps its
//! output, enforces its deadline, and leaves its end on disk), the directory through which everybody
//! else deals with it, and the judgement of that directory after a crash. Must not: know a tool, the
//! model, or a log; `docs/format/actions.md` is the specification of the files.
//!
//! 1. [`ActionDir::create`] makes the directory and what the supervisor is told, durably; then the
//!    intent that names it is recorded.
//! 2. The supervisor takes the lock, creates the claim, and only then starts the command.
//! 3. Whoever wants to know what became of it and finds no claim creates one: a supervisor that comes
//!    late finds it and starts nothing. So "not started" is never concluded from an absence.

mod action;
mod output;
mod platform;
mod serve;
mod standing;

pub use action::{
    ActionDir, Claim, Claimant, End, LOST_CLAIM, MARK, NOTHING_STARTED, Request, Status,
};
pub use output::OutputReader;
pub use platform::{Survivor, this_program, wall_clock};
pub use serve::{FULL, supervise};
pub use standing::{Clue, Facts, Standing, Word, judge};
