//! What the command and its terminal layer do, as a person sees it. One binary; one module per subject.

#![allow(clippy::unwrap_used, reason = "a test may fail that way")]

mod args;
mod binary;
mod clean;
mod error;
mod markdown;
mod picker;
mod prompt;
mod random;
mod terminal_process;
