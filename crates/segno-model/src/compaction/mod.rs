//! Compaction: when a context is made smaller, by how much, and what stands for what is left out.
//!
//! Responsible for: decisions and texts, as pure functions. Where a context is cut is decided by
//! [`crate::context::choose_boundary`]; the order of the records is the runtime's. Must not: call a model, or
//! change anything.

mod budget;
mod trigger;

pub use budget::{Budgets, Settings, USUAL_SHARE, USUAL_WINDOW, Window};
pub use trigger::{Decision, Facts, Last, Measure, Prunable, ROWS, Row, Size, Why};
