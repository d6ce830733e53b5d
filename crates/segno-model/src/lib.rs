//! The pure core of Segno: records, line codec, tree, context, and every decision that is hard.
//!
//! Responsible for: what a session *is* and what follows from its records. Must not: do I/O, read a
//! clock, draw random numbers, or know an async runtime; the dependency list and the lints keep that.

pub mod accounting;
pub mod active;
pub mod batch;
pub mod bundle;
pub mod checkpoint;
pub mod child;
pub mod compaction;
pub mod context;
pub mod draft;
pub mod erase;
pub mod finding;
pub mod fork;
pub mod id;
pub mod inbox;
pub mod judge;
pub mod line;
pub mod pairing;
pub mod picture;
pub mod record;
pub mod standing;
pub mod state;
pub mod store;
pub mod time;
pub mod tree;

pub use checkpoint::Checkpoint;
pub use id::{Pos, Seq, SessionId, sha256_hex};
pub use line::{Envelope, Record};
pub use record::Body;
pub use standing::Standing;
pub use time::Timestamp;
