//! What tests of Segno stand on: simulated disk and clock, strict store, conformance suite, sessions.
//!
//! Responsible for: reproducible stand-ins for everything that a session touches. Must not: be used by
//! shipped code, except for what `segno demo` needs.

mod git;
pub mod scripted_model;
pub mod sessions;
pub mod sim_clock;
pub mod sim_disk;
mod skip;
pub mod store_suite;
pub mod strict_store;
pub mod ticket_service;
mod zstd;

pub use git::git;
pub use skip::{SKIPS, skipped};
pub use zstd::zstd;
