//! Sessions out of thin air: the same ones for the same seed.
//!
//! Responsible for: drafts and whole logs of a wanted size and shape. Must not: depend on a store; a
//! generator is driven by whoever writes its batches.

mod bodies;
mod generator;
mod log;
mod rng;

pub use bodies::{
    action, answer, call, every_kind, header, model, prompt, reply, result, set_model, summary,
    task, text_of,
};
pub use generator::{Generator, Shape};
pub use log::{Written, log_bytes, write_log};
pub use rng::Rng;
