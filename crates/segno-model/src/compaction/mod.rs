//! Compaction: when a context is made smaller, by how much, and what stands for what is left out.
//!
//! Responsible for: decisions and texts, as pure functions. Where a context is cut is decided by
//! [`crate::context::choose_boundary`]; the order of the records is the runtime's. Must not: call a model, or
//! change anything.

mod budget;
mod forecast;
mod prune;
mod result;
mod summary;
mod trigger;
mod words;

pub use budget::{Budgets, Native, Settings, USUAL_SHARE, USUAL_WINDOW, Window};
pub use forecast::{Forecast, Outlook};
pub use prune::{Pruning, cut_unanswered, prune};
pub use result::{cut_result, result_share};
pub use summary::{
    Asking, NoSummary, largest_summary, mechanical_summary, parse_summary, summary_request,
};
pub use trigger::{Decision, Facts, Last, Measure, Prunable, ROWS, Row, Size, Why};
pub use words::{Carried, beside_summary, carry};
