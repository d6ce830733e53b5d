//! Durable runs over a session log: input, request, effect, recovery.
//!
//! Responsible for: what is written when (section 4 of the design), opening and recovery (section 5),
//! and the loop that drives a run. Must not: know a provider, a concrete tool, or a concrete store; it
//! sees a [`Model`], [`Tools`] and the store traits of `segno-model`.

mod background;
mod blobs;
mod compaction;
mod coordinator;
mod draft;
mod effects;
mod event;
mod fit;
pub mod import;
mod inbox;
mod limits;
mod model;
pub mod picture;
mod recovery;
mod refusal;
mod retry;
mod run;
mod session;
mod settling;
mod stop;
mod take_up;
mod tools;

pub use blobs::LARGE_VALUE_BYTES;
pub use compaction::{CompactError, Compacted, compact};
pub use coordinator::{Coordinator, Waker};
pub use event::{CompactionCause, CompactionEvent, Event, Observer};
pub use inbox::{Attended, Due, InboxSource, StoreInbox, Waiting};
pub use limits::{Limits, Price, SpendLimit};

pub use model::{
    Model, ModelError, ModelErrorKind, ModelRequest, OwnCompaction, Refusal, RefusedPart,
    StreamEvent,
};
pub use recovery::INTERRUPTED;
pub use retry::RetryPolicy;
pub use run::{Finished, RunEnv, RunError, Sleep, run};
pub use session::Session;
pub use stop::{Stop, StopHandle, StopKind};
pub use take_up::take_up;
pub use tools::{
    Answer, Begun, CallAt, News, Progress, Settlement, ToolOutput, ToolPlan, ToolRun, ToolSpec,
    Tools, Verdict,
};
