//! The commands, one file each.
//!
//! Responsible for: carrying out what `args` understood. Each command is a function that takes its
//! arguments and what it needs, prints to a screen and returns an exit code or a [`crate::error::CliError`].
//! Must not: parse arguments, or reach into each other.

pub mod completions;
pub mod models;
pub mod run;
