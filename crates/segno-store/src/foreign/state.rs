//! Which records that are kept as they were written hold state.
//!
//! Responsible for: one table of the names of records with which an agent, an extension or an embedder can do something
//! again, so that it is missed where the record is not. Must not: list what each agent writes anew for itself.

use segno_model::record::Custom;
use segno_model::{Body, Record};
use serde::Deserialize;
use std::borrow::Cow;

/// Snapshots of files to go back to.
const SNAPSHOTS: [&str; 3] =
    ["claude.file-history-snapshot", "claude.file-history-delta", "codex.ghost_snapshot"];

/// What an extension of pi keeps.
#[derive(Deserialize)]
struct OfExtension<'a> {
    #[serde(rename = "customType", borrow, default)]
    name: Cow<'a, str>,
}

/// Whether a record says nothing to the model and holds such state; an embedder's own does.
pub(crate) fn is_state(record: &Record) -> bool {
    match record.body() {
        Body::Custom(Custom { name, context: None, data }) => match name.as_str() {
            "pi.custom" => !is_ours(data.get()),
            name => SNAPSHOTS.contains(&name) || is_an_embedders(name),
        },
        _ => false,
    }
}

/// What a copy or a repair by Segno noted.
fn is_ours(entry: &str) -> bool {
    serde_json::from_str::<OfExtension<'_>>(entry).is_ok_and(|of| of.name.starts_with("segno."))
}

fn is_an_embedders(name: &str) -> bool {
    let of = |word: &str| name.strip_prefix(word).is_some_and(|rest| rest.starts_with('.'));
    !of("segno") && !super::Agent::ALL.iter().any(|agent| of(agent.id()))
}
