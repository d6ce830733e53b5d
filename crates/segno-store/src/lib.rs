//! Session logs on a local file system.
//!
//! Responsible for: implementing the store traits of [`segno_model::store`] on files. Must not: decide
//! what a record means or whether a line is good; that is pure and lives in `segno-model`.

pub mod convert;
pub mod disk;
pub mod foreign;

mod blobs;
mod bundle;
#[cfg(feature = "catalog")]
pub mod catalog;
mod draft;
mod durable;
mod erase;
mod error;
mod find;
mod follow;
mod fork;
mod held;
mod inbox;
pub mod install;
pub mod kept;
mod layout;
mod leftovers;
mod lock;
mod log;
mod parallel;
mod platform;
mod prune;
mod reading;
mod remains;
pub mod rescue;
pub mod search;
mod set_aside;
mod store;
mod system;
mod trash;
mod writer;

pub use bundle::{Broken, BundleError, Inventory, Packed, Taken, Unpacked, Whole};
pub use disk::{Disk, DiskFile, RealDisk};
pub use erase::{Copy, Part, Removed, Study};
pub use find::Match;
pub use follow::Follower;
pub use held::{FileDamaged, FileHeld};
pub use lock::{is_running_here, this_process};
pub use log::FileLog;
pub use prune::{Item, Kind, Pruned, Survey};
pub use remains::Remains;
pub use store::{FileStore, Options};
pub use system::{SystemClock, UuidIds};
