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
use crate::id::{Pos, Seq, SessionId};
use crate::judge::{Basis, Damage, Tail, settle};
use crate::line::Record;
use crate::record::{FORMAT, FormatVersion, Header, RepairItem};
use crate::state::State;
use crate::store::StoreError;

/// What a log's active part turned out to be.
#[derive(Debug, Clone, Default)]
pub struct Loaded {
    /// Line 1; none when it is not there or cannot be read.
    pub header: Option<Header>,
    /// The format that line 1 claims, also when the rest of it cannot be read.
    pub format: Option<FormatVersion>,
    /// Whether line 1 is an intact record that this version cannot read as a header.
    pub opaque_header: bool,
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

    /// Whether a repair with this plan may be appended.
    ///
    /// # Errors
    /// [`StoreError::Refused`] when the header is damaged, which no repair settles, or when the plan is
    /// empty.
    pub fn check_plan(&self, plan: &[RepairItem]) -> Result<(), StoreError> {
        if self.blocking().any(|damage| damage.at_header) {
            return Err(StoreError::refused("line 1 cannot be read, and no repair settles that"));
        }
        if plan.is_empty() {
            return Err(StoreError::refused("a repair that settles nothing"));
        }
        Ok(())
    }

    /// Whether everything is settled after a repair. `what` names the log.
    ///
    /// # Errors
    /// [`StoreError::Damaged`] with the first damage that is still in the way of writing.
    pub fn check_repaired(&self, what: &str) -> Result<(), StoreError> {
        self.blocking().next().map_or(Ok(()), |damage| {
            let (what, reason) = (what.to_owned(), damage.finding.sentence.clone());
            Err(StoreError::Damaged { what, offset: damage.at, reason })
        })
    }

    /// Whether this version may append at all, and copy from it; damage is another question (G13).
    ///
    /// # Errors
    /// [`StoreError::ReadOnly`] when the format is newer, or line 1 is intact and says something that this
    /// version does not understand.
    pub fn check_writable(&self) -> Result<(), StoreError> {
        if let Some(newer) = self.format.filter(|format| format.major > FORMAT.major) {
            return Err(StoreError::ReadOnly(format!(
                "its format {}.{} is newer than this version's {}.{}",
                newer.major, newer.minor, FORMAT.major, FORMAT.minor
            )));
        }
        if self.opaque_header {
            let why = "its first line is intact and no header that this version can read";
            return Err(StoreError::ReadOnly(why.to_owned()));
        }
        Ok(())
    }

    /// The format of a copy: the copied lines stay what they are. When line 1 is lost, only the lines
    /// themselves can show that they are of this version's format: by being understood, all of them.
    ///
    /// # Errors
    /// [`StoreError::ReadOnly`] as [`Loaded::check_writable`], and when line 1 is lost and a record that
    /// is to be copied is not understood.
    pub fn format_of_copy(&self, all_understood: bool) -> Result<FormatVersion, StoreError> {
        self.check_writable()?;
        if self.format.is_none() && !all_understood {
            let why = "its first line is lost, and with it the format of the records that this \
                       version does not understand";
            return Err(StoreError::ReadOnly(why.to_owned()));
        }
        Ok(self.format.unwrap_or(FORMAT))
    }

    /// The header; when it cannot be read, what is certain about it and nothing else. Whoever knows the
    /// project says so with an `environment` record.
    #[must_use]
    pub fn header_or_bare(&self, id: &SessionId) -> Header {
        self.header.clone().unwrap_or_else(|| Header {
            format: self.format.unwrap_or(FORMAT),
            ..Header::new(id.clone(), env!("CARGO_PKG_VERSION"))
        })
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
