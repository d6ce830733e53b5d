//! Errors that an agent wrote down where a reply would stand.
//!
//! Responsible for: telling them from the agent's other records, which nobody reads. Must not: take one for something
//! that the model said, or that it is sent.

use super::claude;
use segno_model::record::Custom;
use segno_model::{Body, Record};

/// What an agent told the person in the place of a reply: why there is none. Nothing of it is sent.
#[must_use]
pub fn failure(record: &Record) -> Option<String> {
    match record.body() {
        Body::Custom(Custom { name, context: None, data }) => match name.as_str() {
            "claude.assistant" => claude::failure(data.get()),
            _ => None,
        },
        _ => None,
    }
}
