//! What a line is called, and what it names.
//!
//! Responsible for: the ids in the rows of Claude Code, pi and Codex. Must not: know what follows from them.

use super::super::agent::Agent;
use super::super::lines::{looks_whole, whole_objects};
use super::super::outline::hash;
use segno_model::Timestamp;
use serde::Deserialize;
use serde_json::value::RawValue;
use std::borrow::Cow;

/// The ids of one object of a line, as hashes.
#[derive(Debug, Default)]
pub(super) struct Links {
    /// Its record, and what that hangs on.
    pub(super) record: Option<(u64, Option<u64>)>,
    /// The calls that it makes.
    pub(super) calls: Vec<u64>,
    /// The calls whose results it holds.
    pub(super) results: Vec<u64>,
}

/// All that is looked at of any row: whatever stands there, the row is taken.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Row<'a> {
    #[serde(borrow, rename = "type")]
    kind: Option<&'a RawValue>,
    #[serde(borrow)]
    uuid: Option<&'a RawValue>,
    #[serde(borrow)]
    parent_uuid: Option<&'a RawValue>,
    #[serde(borrow)]
    logical_parent_uuid: Option<&'a RawValue>,
    #[serde(borrow)]
    id: Option<&'a RawValue>,
    #[serde(borrow)]
    parent_id: Option<&'a RawValue>,
    #[serde(borrow)]
    session_id: Option<&'a RawValue>,
    #[serde(borrow)]
    timestamp: Option<&'a RawValue>,
    #[serde(borrow)]
    seq: Option<&'a RawValue>,
    #[serde(borrow)]
    message: Option<&'a RawValue>,
    #[serde(borrow)]
    payload: Option<&'a RawValue>,
    #[serde(borrow, rename = "call_id")]
    call_id: Option<&'a RawValue>,
    #[serde(borrow)]
    role: Option<&'a RawValue>,
    #[serde(borrow)]
    tool_call_id: Option<&'a RawValue>,
    #[serde(borrow, rename = "tool_use_id")]
    tool_use_id: Option<&'a RawValue>,
    #[serde(borrow)]
    content: Option<&'a RawValue>,
}

/// The ids of a line, by its objects.
pub(super) fn links(agent: Agent, text: &str) -> Vec<Links> {
    if looks_whole(text)
        && let Some(row) = row(text)
    {
        return vec![Links::of(agent, &row)];
    }
    let (objects, lost) = whole_objects(text);
    // What stands behind a broken beginning may be a piece of what is broken.
    let is_record = |row: &Row<'_>| lost == 0 || row.is_record(agent);
    let row = |json| row(json).filter(is_record);
    let of = |json| row(json).map_or_else(Links::default, |row| Links::of(agent, &row));
    objects.into_iter().map(of).collect()
}

impl Row<'_> {
    /// Whether it is a row as its agent writes them, and not a piece of one.
    fn is_record(&self, agent: Agent) -> bool {
        match agent {
            Agent::Claude => {
                text(self.kind).is_some() && text(self.uuid.or(self.session_id)).is_some()
            }
            Agent::Pi => self.kind.is_some() && (self.is_dated() || self.parent_id.is_some()),
            _ => true,
        }
    }

    fn is_dated(&self) -> bool {
        let is_number = |raw: &RawValue| raw.get().starts_with(|c: char| c.is_ascii_digit());
        self.timestamp.is_some_and(|raw| match text(Some(raw)) {
            Some(time) => Timestamp::parse(&time).is_some(),
            None => is_number(raw),
        })
    }
}

impl Links {
    fn of(agent: Agent, row: &Row<'_>) -> Self {
        let mut links = Self::default();
        match agent {
            Agent::Claude => links.claude(row),
            Agent::Pi => links.pi(row),
            Agent::Codex => links.codex(row),
            _ => {}
        }
        links
    }

    /// What it is called.
    pub(super) fn own(&self) -> impl Iterator<Item = u64> {
        self.record.iter().map(|(id, _)| *id).chain(self.calls.iter().copied())
    }

    /// What it names.
    pub(super) fn needs(&self) -> impl Iterator<Item = u64> {
        self.record.iter().filter_map(|(_, parent)| *parent).chain(self.results.iter().copied())
    }

    fn claude(&mut self, of: &Row<'_>) {
        let Some(own) = text(of.uuid) else { return };
        let id = |id: Cow<'_, str>| hash(&("row", id.to_ascii_lowercase()));
        let parent = text(of.parent_uuid).or_else(|| text(of.logical_parent_uuid));
        self.record = Some((id(own), parent.map(id)));
        let content = of.message.and_then(|raw| row(raw.get())).and_then(|of| of.content);
        for block in blocks(content) {
            match text(block.kind).as_deref() {
                Some("tool_use") => self.calls.extend(call(block.id)),
                Some("tool_result") => self.results.extend(call(block.tool_use_id)),
                _ => {}
            }
        }
    }

    fn pi(&mut self, of: &Row<'_>) {
        if of.seq.is_some() {
            // Version 4 numbers its writes.
            return;
        }
        if text(of.kind).as_deref() == Some("session") {
            self.record = Some((hash("header"), None));
            return;
        }
        let own = text(of.id);
        let id = |id: Cow<'_, str>| hash(&("row", &*id));
        if own.is_some() {
            // A file that does not begin with its header is refused.
            self.results.push(hash("header"));
        }
        self.record = own.map(|own| (id(own), text(of.parent_id).map(id)));
        let Some(message) = of.message.and_then(|raw| row(raw.get())) else { return };
        if text(message.role).as_deref() == Some("toolResult") {
            self.results.extend(call(message.tool_call_id));
            return;
        }
        let calls = blocks(message.content).into_iter();
        let calls = calls.filter(|piece| text(piece.kind).as_deref() == Some("toolCall"));
        self.calls.extend(calls.filter_map(|piece| call(piece.id)));
    }

    fn codex(&mut self, of: &Row<'_>) {
        let wrapped = of.payload.filter(|_| text(of.kind).as_deref() == Some("response_item"));
        let item = wrapped.and_then(|raw| row(raw.get()));
        let item = match (&item, of.payload) {
            (Some(item), _) => item,
            (None, None) => of,
            (None, Some(_)) => return,
        };
        let kind = text(item.kind).unwrap_or_default();
        if kind.ends_with("_call") {
            self.calls.extend(call(item.call_id).or_else(|| call(item.id)));
        } else if kind.ends_with("_output") {
            self.results.extend(call(item.call_id));
        }
    }
}

fn row(json: &str) -> Option<Row<'_>> {
    serde_json::from_str(json).ok()
}

fn blocks(content: Option<&RawValue>) -> Vec<Row<'_>> {
    let content = content.map(RawValue::get).filter(|content| content.starts_with('['));
    let all: Vec<&RawValue> =
        content.and_then(|all| serde_json::from_str(all).ok()).unwrap_or_default();
    all.into_iter().filter_map(|block| row(block.get())).collect()
}

fn call(id: Option<&RawValue>) -> Option<u64> {
    let id = text(id).filter(|id| !id.is_empty())?;
    Some(hash(&("call", &*id)))
}

fn text(raw: Option<&RawValue>) -> Option<Cow<'_, str>> {
    let json = raw?.get();
    let inner = json.strip_prefix('"')?.strip_suffix('"')?;
    if !inner.contains('\\') {
        return Some(Cow::Borrowed(inner));
    }
    serde_json::from_str::<String>(json).ok().map(Cow::Owned)
}
