//! The parts of the `segno` command.
//!
//! Responsible for: everything that `main.rs` puts together; a library so that tests can reach it.
//! Must not: be used by other crates.

pub mod args;
pub mod commands;
pub mod config;
pub mod costs;
pub mod demo;
pub mod engine;
pub mod error;
pub mod history;
pub mod home;
pub mod inputs;
pub mod interactive;
pub mod listing;
pub mod others;
pub mod price;
pub mod secrets;
pub mod sessions;
pub mod stores;
pub mod terminal;
pub mod when;
