//! Loads what resuming needs from the end of a log (G11), and judges it.
//!
//! Responsible for: which bytes to read, in what order, until the state, the path to the newest
//! compaction and everything that belongs to it are known; and which damage lies there. Must not: read
//! itself. A store asks [`Loader::next_want`] and feeds bytes, so it is the store that counts them.

mod collect;
mod image;
mod loader;
mod path;

pub use loader::{Loader, Want};

use crate::finding::Finding;
use crate::id::{Pos, Seq};
use crate::judge::{Basis, Damage, Tail, settle};
use crate::line::Record;
use crate::record::{FORMAT, FormatVersion, Header, RepairItem};
use crate::state::State;

/// What a log's active part turned out to be.
#[derive(Debug, Clone, Default)]
pub struct Loaded {
    /// Line 1; none when it is not there or cannot be read.
    pub header: Option<Header>,
    /// Where line 1 ends, in the file: what record offsets are counted from.
    pub origin: u64,
    /// The state after all records up to the tail.
    pub state: State,
    /// What the context needs, in the order of their numbers.
    pub records: Vec<Record>,
    /// The nodes from the tip to the last one that was needed, newest first.
    pub path: Vec<Seq>,
    /// What was noticed, damage included.
    pub findings: Vec<Finding>,
    /// Damage met, settled or not, in the order of the file.
    pub damages: Vec<Damage>,
    /// The tail, if there is one: the bytes from there on are not part of the log.
    pub tail: Option<Tail>,
    /// Where the sound part ends, in the file.
    pub content_end: u64,
    /// Whether the next append must begin with a line end, because the last record has none.
    /// `state.end` counts it already.
    pub needs_line_end: bool,
    /// The mark and the repairs in force.
    pub basis: Basis,
    /// The highest number that the log itself says is durable: what the next batch's mark may claim
    /// before anything is synced again. Never more than `basis.mark`, which also trusts checkpoints.
    pub durable: Option<Seq>,
}

impl Loaded {
    /// Damage in the active context that no repair settled: writing waits for a decision.
    pub fn blocking(&self) -> impl Iterator<Item = &Damage> {
        self.damages.iter().filter(|d| d.blocking && !d.settled)
    }

    /// What would settle all damage met. Altered records in `accept` are taken as they are.
    #[must_use]
    pub fn plan(&self, accept: &[Seq]) -> Vec<RepairItem> {
        settle::plan(&self.damages, accept)
    }

    /// The format, when it is newer than what this version may append to (G13).
    #[must_use]
    pub fn newer_format(&self) -> Option<FormatVersion> {
        self.header.as_ref().map(|h| h.format).filter(|f| f.major > FORMAT.major)
    }

    /// The basis for a forward scan of the same log.
    #[must_use]
    pub fn basis(&self) -> Basis {
        self.basis.clone()
    }
}

/// Loads the active part of a whole log in memory, at its own tip.
#[must_use]
pub fn load_bytes(bytes: &[u8]) -> Loaded {
    load_with(bytes, Loader::new(bytes.len() as u64)).0
}

/// Loads what the context at `tip` needs from a whole log in memory.
#[must_use]
pub fn load_bytes_at(bytes: &[u8], tip: Option<Pos>) -> Loaded {
    load_with(bytes, Loader::new(bytes.len() as u64).at_tip(tip)).0
}

/// Drives a loader over bytes in memory; also says how many of them it wanted.
#[must_use]
pub fn load_with(bytes: &[u8], mut loader: Loader) -> (Loaded, u64) {
    let mut read = 0;
    loop {
        match loader.next_want() {
            Want::Read { at, len } => {
                let start = usize::try_from(at).unwrap_or(bytes.len()).min(bytes.len());
                let end = start.saturating_add(len).min(bytes.len());
                read += (end - start) as u64;
                loader.feed(&bytes[start..end]);
            }
            Want::Done => return (loader.finish(), read),
        }
    }
}
