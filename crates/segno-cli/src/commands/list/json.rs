//! The JSON of `docs/protocol/cli-json.md` for lists.
//!
//! Responsible for: its shape. Must not: decide what is listed.

use super::Page;
use crate::listing::{Listed, OWN};
use crate::others::{self, Other, Others};
use crate::sessions::Entry;
use segno_model::Timestamp;
use segno_model::record::ProjectFacts;
use serde::Serialize;

#[derive(Serialize)]
pub(super) struct Listing<'a> {
    version: u32,
    project: Option<&'a str>,
    sessions: Vec<Item<'a>>,
    elsewhere: usize,
    children: usize,
    continued: usize,
    unreadable: usize,
    links: &'a [String],
    trouble: &'a [String],
    gone: Vec<Gone<'a>>,
}

#[derive(Serialize)]
struct Gone<'a> {
    source: &'static str,
    id: &'a str,
    title: Option<&'a str>,
    path: String,
}

#[derive(Serialize)]
struct Item<'a> {
    source: &'static str,
    id: &'a str,
    name: Option<&'a str>,
    title: Option<&'a str>,
    first_prompt: Option<&'a str>,
    state: &'static str,
    needs_attention: bool,
    created: Option<Timestamp>,
    last_message: Option<Timestamp>,
    user_messages: u64,
    assistant_messages: u64,
    tool_results: u64,
    tokens: Tokens,
    bytes: u64,
    model: Option<String>,
    cwd: Option<&'a str>,
    child: bool,
    parent: Option<&'a str>,
    fork_of: Option<&'a str>,
    continued_in: Option<&'a str>,
    path: Option<String>,
    agent_version: Option<&'a str>,
    archived: bool,
    kept: bool,
    original_gone: bool,
    original_unseen: bool,
    copy_gone: bool,
    kept_version: Option<u64>,
    pid: Option<u32>,
    findings: Option<Findings>,
    error: Option<&'a str>,
}

#[derive(Serialize)]
struct Tokens {
    input: u64,
    output: u64,
    cache_read: u64,
    cache_write: u64,
}

#[derive(Serialize)]
struct Findings {
    notes: u32,
    warnings: u32,
    damage: u32,
}

/// The whole listing.
pub(super) fn json<'a>(
    page: &'a Page,
    others: &'a Others,
    project: Option<&'a ProjectFacts>,
) -> Listing<'a> {
    Listing {
        version: 2,
        project: project.map(|project| project.cwd.as_str()),
        sessions: page.shown.iter().map(item).collect(),
        elsewhere: page.elsewhere,
        children: page.children,
        continued: page.continued,
        unreadable: page.unreadable(),
        links: &others.links,
        trouble: &others.trouble,
        gone: others.gone.iter().map(gone).collect(),
    }
}

fn gone(session: &Other) -> Gone<'_> {
    let row = &session.row;
    let path = row.path.display().to_string();
    Gone { source: row.agent.id(), id: &row.id, title: session.title(), path }
}

/// What is in the trash, in the shape of a list without places.
#[must_use]
pub fn trash_json(entries: &[&Entry]) -> serde_json::Value {
    let sessions: Vec<Item<'_>> = entries.iter().map(|e| own_item(e)).collect();
    serde_json::json!({ "version": 2, "sessions": sessions })
}

fn item(session: &Listed) -> Item<'_> {
    match session {
        Listed::Own(entry) => own_item(entry),
        Listed::Other(other) => other_item(session, other),
    }
}

fn own_item(entry: &Entry) -> Item<'_> {
    let usage = &entry.totals.usage;
    Item {
        source: OWN,
        id: entry.id.as_str(),
        name: entry.name.as_deref(),
        title: None,
        first_prompt: entry.first_prompt.as_deref(),
        state: entry.standing.word(),
        needs_attention: entry.standing.needs_attention(),
        created: Some(entry.created),
        last_message: entry.last_message,
        user_messages: entry.totals.user_messages,
        assistant_messages: entry.totals.assistant_messages,
        tool_results: entry.totals.tool_results,
        tokens: tokens(usage),
        bytes: entry.bytes,
        model: entry.model.as_ref().map(ToString::to_string),
        cwd: entry.project.as_ref().map(|project| project.cwd.as_str()),
        child: entry.is_child,
        parent: entry.parent.as_deref(),
        fork_of: None,
        continued_in: None,
        path: None,
        agent_version: None,
        archived: false,
        kept: false,
        original_gone: false,
        original_unseen: false,
        copy_gone: false,
        kept_version: None,
        pid: entry.pid,
        findings: None,
        error: entry.trouble.as_deref(),
    }
}

fn other_item<'a>(session: &'a Listed, other: &'a others::Other) -> Item<'a> {
    let row = &other.row;
    Item {
        source: session.source(),
        id: &row.id,
        name: row.name.as_deref(),
        title: row.title.as_deref(),
        first_prompt: row.first_prompt.as_deref(),
        state: other.state.word(),
        needs_attention: false,
        created: row.created,
        last_message: row.last_message_at,
        user_messages: row.totals.user_messages,
        assistant_messages: row.totals.assistant_messages,
        tool_results: row.totals.tool_results,
        tokens: tokens(&row.totals.usage),
        bytes: row.bytes,
        model: row.model.as_ref().map(ToString::to_string),
        cwd: Some(row.project.cwd.as_str()).filter(|cwd| !cwd.is_empty()),
        child: other.is_child(),
        parent: row.parent.as_deref(),
        fork_of: row.fork_of.as_deref(),
        continued_in: row.continued_in.as_deref(),
        path: Some(row.path.to_string_lossy().into_owned()),
        agent_version: row.version.as_deref(),
        archived: row.archived,
        kept: other.kept.is_some(),
        original_gone: other.is_gone(),
        original_unseen: other.is_copy() && !other.is_gone(),
        copy_gone: other.kept.as_ref().is_some_and(|kept| kept.is_lost),
        kept_version: other.kept.as_ref().and_then(|kept| kept.version),
        pid: other.pid,
        findings: Some(Findings { notes: row.notes, warnings: row.warnings, damage: row.damage }),
        error: row.problem.as_deref(),
    }
}

fn tokens(usage: &segno_model::record::Usage) -> Tokens {
    Tokens {
        input: usage.input,
        output: usage.output,
        cache_read: usage.cache_read,
        cache_write: usage.cache_write,
    }
}
