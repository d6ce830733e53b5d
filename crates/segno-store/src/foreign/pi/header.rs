//! The first line of a pi session.
//!
//! Responsible for: the facts in it. Must not: read entries.

use super::super::emitter::Emitter;
use super::super::item::{Fact, Origin};
use super::row::Row;
use segno_model::Timestamp;
use segno_model::finding::Severity;

/// Hands on the facts of a header. Gives back the time before which entries were copied from the session
/// that this one is a fork of.
pub(super) fn facts(
    row: &Row<'_>,
    at: Option<Timestamp>,
    origin: &Origin,
    out: &mut Emitter<'_>,
) -> Option<Timestamp> {
    let format = format(row);
    if !KNOWN.contains(&&*format) {
        let sentence = "The file says that it has a format that this reader does not know.";
        let done = "It was read like the newest that is known.";
        out.found("unknown-version", Severity::Warning, origin, sentence, done);
    }
    out.fact(Fact::Format(format));
    if let Some(id) = &row.id {
        out.fact(Fact::Id(id.to_string()));
    }
    if let Some(cwd) = &row.cwd {
        out.fact(Fact::Cwd(cwd.clone()));
    }
    if let Some(at) = at {
        out.fact(Fact::Created(at));
    }
    let path = [&row.parent_session, &row.branched_from, &row.legacy_parent_session_path];
    let by_path = || path.into_iter().flatten().find_map(|path| id_of_path(path));
    let id = row.parent_session_id.clone().or_else(by_path)?;
    out.fact(Fact::ForkOf { id, up_to: None });
    at
}

const KNOWN: [&str; 5] = ["v1", "v2", "v3", "v4-lanes", "v4-values"];

fn format(row: &Row<'_>) -> String {
    match (row.kind.as_deref(), row.version, row.v) {
        (Some("header"), Some(4.0), _) => "v4-lanes".to_owned(),
        (Some("header"), _, Some(4.0)) => "v4-values".to_owned(),
        (_, version, v) => format!("v{}", version.or(v).unwrap_or(1.0)),
    }
}

/// The session's id in the path of its file: `…/2026-03-02T09-00-00-000Z_ID.jsonl`.
pub(super) fn id_of_path(path: &str) -> Option<String> {
    let name = path.rsplit(['/', '\\']).next()?.strip_suffix(".jsonl")?;
    let (time, id) = name.split_once('_')?;
    let is_time = time.len() >= 10 && time.starts_with(|c: char| c.is_ascii_digit());
    (is_time && time.contains('T') && !id.is_empty()).then(|| id.to_owned())
}
