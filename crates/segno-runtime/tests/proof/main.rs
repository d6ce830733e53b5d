//! Proofs by going through what may happen: every state that power loss can leave, and lives of processes
//! under a seeded scheduler, clock, disk and model.
//!
//! Responsible for: naming the parts. Must not: hold a test.
#![allow(
    clippy::print_stderr,
    clippy::disallowed_methods,
    reason = "a run that takes minutes says how many and how fast; nothing depends on it"
)]

mod judge;
mod scene;
mod simulation;
mod states;
mod workloads;
