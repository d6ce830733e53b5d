//! A session with its children in one file, and back.
//!
//! Responsible for: writing the file (`pack`), looking it through (`inspect`), and making sessions of it
//! (`unpack`), in bounded memory. Must not: overwrite a session, write anything before the whole file was looked
//! through, or take damage silently. The format is `docs/format/bundle.md`.

mod inspect;
mod pack;
mod unpack;

pub use inspect::{Broken, Inventory, Whole};
pub use pack::Packed;
pub use unpack::{Taken, Unpacked};

use segno_model::store::StoreError;

/// How much is read and written at once, in bytes.
const BLOCK: usize = 256 * 1024;

/// Why a file could not be written or brought in.
#[derive(Debug, thiserror::Error)]
pub enum BundleError {
    /// The sessions on this side.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The file.
    #[error("the file: {0}")]
    File(#[from] std::io::Error),
    /// It does not begin as one of these does.
    #[error("byte {offset}: {reason}")]
    NotOne {
        /// Where.
        offset: u64,
        /// Why.
        reason: String,
    },
    /// It is of a later version.
    #[error("its format {0} is newer than this version reads")]
    Newer(u64),
}
