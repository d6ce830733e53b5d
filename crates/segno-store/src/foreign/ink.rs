//! Ink's sessions (Ink was called imp before).
//!
//! Responsible for: where they are and how they are read. Must not: be known outside this module.
//!
//! `~/.ink/sessions/CWD/TIME_UUID.jsonl` (`~/.imp` before), a subagent's in `children/` beside its parent's
//! file. Line 1 is the header (version 1); then entries that form a tree by `id` and `parentId`, and lines
//! about the file as a whole: `position` and `session_model`. Read after a description of the format, not
//! after files of the agent: the files in the corpus are constructed from it. Where it leaves a name open,
//! both spellings are read.
//!
//! Traps: settings and names are entries of the tree, so that a turn may hang on one. The header's id is
//! not in the file's name. A compaction holds copies of the messages that it keeps, not their ids. A
//! `position` counts only if no entry follows it. One result message holds several results.

mod message;

use super::agent::Agent;
use super::chain::Chain;
use super::emitter::{Emitter, Meta};
use super::entries::{Entries, Parent};
use super::input::{ForeignError, Head};
use super::item::{Fact, Origin};
use super::lines::{Lines, Object};
use super::locate::{Located, Roots, files_below};
use super::mend::Mended;
use super::view::pos;
use message::{Usage, emit};
use segno_model::finding::Severity;
use segno_model::record::{
    BranchSummary, Compaction, CompactionState, Label, ModelChange, ModelRef, Name, Text,
    ThinkingChange,
};
use segno_model::{Body, Seq, Timestamp};
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;
use std::collections::HashMap;
use std::ffi::OsStr;
use std::hash::{DefaultHasher, Hash, Hasher};

/// Whether a file is one of Ink's, by its beginning: a header of version 1 with entries that have parents,
/// or an entry that only Ink has.
pub(super) fn recognises(head: &Head<'_>) -> bool {
    let rows: Vec<Value> = head.objects().take(64).collect();
    let kind = |row: &Value| row.get("type").and_then(Value::as_str).unwrap_or_default().to_owned();
    let is_header = |row: &Value| {
        matches!(kind(row).as_str(), "session" | "header")
            && row.get("version").and_then(Value::as_u64) == Some(1)
            && ["id", "cwd"].iter().all(|key| row.get(key).is_some())
    };
    let is_entry = |row: &Value| row.get("id").is_some() && row.get("parentId").is_some();
    let is_inks = |row: &Value| match kind(row).as_str() {
        "branchSummary" | "thinkingLevelChange" => is_entry(row),
        "session_model" => row.get("modelId").is_some(),
        "position" => row.get("leafId").is_some(),
        // pi's fourth version has the same, in an envelope.
        "compaction" => row.get("retainedTail").is_some() && row.get("kind").is_none(),
        _ => false,
    };
    // pi's newer versions have some of these entries too.
    if rows.iter().any(|row| row.get("version").is_some_and(|version| *version != 1)) {
        return false;
    }
    let by_header = rows.first().is_some_and(is_header)
        && rows.iter().skip(1).all(|row| is_entry(row) || is_inks(row));
    by_header || rows.iter().any(is_inks)
}

/// All sessions under `roots`.
pub(super) fn locate(roots: &Roots, found: &mut Vec<Located>, failed: &mut Vec<ForeignError>) {
    for dir in [".ink/sessions", ".imp/sessions"] {
        files_below(&roots.home.join(dir), ".jsonl", 3, failed, &mut |path, meta| {
            found.push(Located::file(Agent::Ink, path, &meta));
        });
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Row<'a> {
    #[serde(rename = "type")]
    kind: String,
    id: Option<String>,
    #[serde(default, deserialize_with = "Parent::given")]
    parent_id: Parent,
    timestamp: Option<String>,
    version: Option<u64>,
    cwd: Option<String>,
    parent: Option<String>,
    parent_session: Option<String>,
    #[serde(borrow)]
    launch: Option<&'a RawValue>,
    #[serde(borrow)]
    message: Option<&'a RawValue>,
    summary: Option<String>,
    #[serde(borrow, default)]
    retained_tail: Vec<&'a RawValue>,
    tokens_before: Option<u64>,
    usage: Option<Usage>,
    #[serde(borrow)]
    model: Option<&'a RawValue>,
    from_id: Option<String>,
    #[serde(alias = "level")]
    thinking_level: Option<String>,
    name: Option<String>,
    target_id: Option<String>,
    label: Option<String>,
    leaf_id: Option<String>,
    provider: Option<String>,
    model_id: Option<String>,
    #[serde(default)]
    explicit: bool,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Launch {
    parent_session_id: Option<String>,
    ink_version: Option<String>,
    imp_version: Option<String>,
    agent: Option<Role>,
}

#[derive(Deserialize)]
struct Role {
    name: Option<String>,
}

/// Reads one.
pub(super) fn read(session: &Located, out: &mut Emitter<'_>) -> Result<(), ForeignError> {
    let mut reader = Reader::default();
    let mut lines = Lines::open(&session.path)?;
    lines.each_object("ink.unknown", out, |object, out| Ok(reader.take(object, out)))?;
    reader.chain.finish(out);
    let is_child =
        session.path.parent().and_then(|dir| dir.file_name()) == Some(OsStr::new("children"));
    if is_child && !reader.launched {
        let at = Origin { line: Some(1), offset: Some(0), id: None };
        let sentence = "A subagent's session says nothing about how it was launched.";
        let done = "It is read; its parent is not known.";
        out.found("missing-launch", Severity::Note, &at, sentence, done);
    }
    out.finish(&session.path, lines.bytes())
}

#[derive(Default)]
struct Reader {
    /// Its last node is the leaf.
    chain: Chain,
    entries: Entries,
    /// The records of a message, by its text: the first and how many.
    said: HashMap<u64, (Seq, u32)>,
    launched: bool,
    /// The leaf as it was told.
    leaf: Option<Seq>,
}

impl Reader {
    fn take(&mut self, object: &Object<'_>, out: &mut Emitter<'_>) -> bool {
        let mended = Mended::default();
        let Some(row) = mended.parse::<Row<'_>>(object.json) else { return false };
        let at = row.timestamp.as_deref().and_then(Timestamp::parse);
        let mut origin = object.origin.clone();
        origin.id.clone_from(&row.id);
        let meta = Meta { at, origin, ..Meta::default() };
        let known = self.row(row, object, meta.clone(), out);
        if known {
            mended.tell("ink.row", object.json, &meta, out);
        }
        known
    }

    fn row(
        &mut self,
        row: Row<'_>,
        object: &Object<'_>,
        meta: Meta,
        out: &mut Emitter<'_>,
    ) -> bool {
        match row.kind.as_str() {
            "session" | "header" => self.header(&row, meta, out),
            "position" => self.position(&row, &meta, out),
            "session_model" => {
                let model = model_ref(&row);
                let change = ModelChange { model, chosen: row.explicit, base_url: None };
                out.record(Body::Model(change), meta);
                true
            }
            // A piece of an entry that was cut is none.
            _ if row.id.is_none() || row.parent_id == Parent::Absent => false,
            "label" => self.label(row, meta, out),
            _ => self.entry(row, object, meta, out),
        }
    }

    fn header(&mut self, row: &Row<'_>, meta: Meta, out: &mut Emitter<'_>) -> bool {
        let launch = row.launch.and_then(|raw| serde_json::from_str::<Launch>(raw.get()).ok());
        let named = row.parent.clone().or_else(|| row.parent_session.clone());
        let parent = named.or_else(|| launch.as_ref().and_then(|l| l.parent_session_id.clone()));
        self.launched = parent.is_some();
        let version = launch.as_ref().and_then(|l| l.ink_version.clone().or(l.imp_version.clone()));
        let role = launch.and_then(|launch| launch.agent).and_then(|agent| agent.name);
        let facts = [
            row.id.clone().map(Fact::Id),
            row.version.map(|version| Fact::Format(format!("v{version}"))),
            row.cwd.clone().map(Fact::Cwd),
            meta.at.map(Fact::Created),
            version.map(Fact::Version),
            parent.map(|parent| Fact::ChildOf { parent, call: None, role }),
        ];
        facts.into_iter().flatten().for_each(|fact| out.fact(fact));
        if let Some(model) = row.model.and_then(|raw| serde_json::from_str(raw.get()).ok()) {
            let model: message::Model = model;
            let change = ModelChange { model: model.into(), chosen: false, base_url: None };
            out.record(Body::Model(change), meta.clone());
        }
        if let Some(launch) = row.launch {
            out.custom("ink.launch", launch, meta);
        }
        true
    }

    /// The leaf, as long as no entry follows.
    fn position(&mut self, row: &Row<'_>, meta: &Meta, out: &mut Emitter<'_>) -> bool {
        let node = match &row.leaf_id {
            None => Some(None),
            Some(id) => self.entries.node(id),
        };
        if let Some(node) = node {
            self.chain.go_to(node);
            self.tell_leaf(out);
        } else {
            let sentence = "A position names an entry that is not there.";
            let done = "It is not followed.";
            out.found("missing-parent", Severity::Warning, &meta.origin, sentence, done);
        }
        true
    }

    fn label(&mut self, row: Row<'_>, meta: Meta, out: &mut Emitter<'_>) -> bool {
        let target = row.target_id.as_deref().and_then(|id| self.entries.node(id).flatten());
        if let Some(id) = row.id {
            let node = match &row.parent_id {
                Parent::Id(parent) => self.entries.node(parent).flatten(),
                _ => self.chain.last(),
            };
            self.entries.insert(&id, node);
        }
        let Some(target) = target else {
            let sentence = "A label names an entry that is not there.";
            out.found(
                "missing-target",
                Severity::Note,
                &meta.origin,
                sentence,
                "It names nothing.",
            );
            return true;
        };
        let label = Label { target: pos(target), label: row.label.unwrap_or_default() };
        out.record(Body::Label(label), meta);
        true
    }

    /// An entry of the tree.
    fn entry(
        &mut self,
        row: Row<'_>,
        object: &Object<'_>,
        meta: Meta,
        out: &mut Emitter<'_>,
    ) -> bool {
        if self.is_repeat(&row, &meta, out) {
            return true;
        }
        let parent = self.entries.hang(&row.parent_id, self.chain.last(), &meta.origin, out);
        self.chain.go_to(parent);
        let (id, first) = (row.id.clone(), out.next_seq());
        let known = match row.kind.as_str() {
            "message" => self.message(&row, &meta, out),
            "compaction" => self.compaction(row, meta, out),
            "branchSummary" => self.branch_summary(row, meta, out),
            "thinkingLevelChange" => {
                let level = row.thinking_level.unwrap_or_default();
                out.record(Body::Thinking(ThinkingChange { level }), meta);
                true
            }
            "session_info" => {
                let name = row.name.unwrap_or_default();
                out.fact(Fact::Named(name.clone()));
                out.record(Body::Name(Name { name }), meta);
                true
            }
            kind => match serde_json::from_str::<&RawValue>(object.json) {
                Ok(raw) => {
                    out.custom(&format!("ink.{kind}"), raw, meta);
                    true
                }
                Err(_) => false,
            },
        };
        if let Some(id) = id {
            self.entries.insert(&id, self.chain.last());
        }
        if self.chain.last().is_some_and(|last| last >= first) {
            self.leaf = self.chain.last();
        }
        self.tell_leaf(out);
        known
    }

    /// An entry that is no node moves the leaf too.
    fn tell_leaf(&mut self, out: &mut Emitter<'_>) {
        if self.leaf != self.chain.last() {
            self.leaf = self.chain.last();
            out.fact(Fact::Tip(self.leaf));
        }
    }

    fn is_repeat(&self, row: &Row<'_>, meta: &Meta, out: &mut Emitter<'_>) -> bool {
        let seen = row.id.as_deref().is_some_and(|id| self.entries.node(id).is_some());
        let text = row.message.map(|raw| text_hash(raw.get()));
        let same = text.is_some_and(|text| self.said.contains_key(&text));
        if seen {
            let sentence = "An entry stands here under the id of an earlier one.";
            let done = if same { "It is the same and was left out." } else { "Both are read." };
            out.found("duplicate-record", Severity::Warning, &meta.origin, sentence, done);
        }
        seen && same
    }

    fn message(&mut self, row: &Row<'_>, meta: &Meta, out: &mut Emitter<'_>) -> bool {
        let Some(raw) = row.message else { return false };
        let Some(nodes) = emit(raw, meta, &mut self.chain, out) else { return false };
        self.said.insert(text_hash(raw.get()), nodes);
        true
    }

    /// What a compaction keeps stands earlier in the file, or is written out as copies.
    fn compaction(&mut self, row: Row<'_>, meta: Meta, out: &mut Emitter<'_>) -> bool {
        let mut kept = Vec::new();
        for raw in &row.retained_tail {
            let nodes = match self.said.get(&text_hash(raw.get())) {
                Some(nodes) => Some(*nodes),
                None => emit(
                    raw,
                    &Meta { copy: true, inherited: false, ..meta.clone() },
                    &mut self.chain,
                    out,
                ),
            };
            if let Some((first, count)) = nodes {
                kept.extend((first..first + u64::from(count)).map(pos));
            }
        }
        let mut compaction = Compaction::marker(CompactionState::Done, None);
        compaction.summary = Some(Text::Inline(row.summary.unwrap_or_default()));
        compaction.kept = kept;
        compaction.tokens_before = row.tokens_before;
        compaction.usage = row.usage.map(Into::into);
        let model =
            row.model.and_then(|raw| serde_json::from_str::<message::Model>(raw.get()).ok());
        compaction.model = model.map(Into::into);
        self.chain.node(Body::Compaction(Box::new(compaction)), meta, out);
        true
    }

    fn branch_summary(&mut self, row: Row<'_>, meta: Meta, out: &mut Emitter<'_>) -> bool {
        let from = row.from_id.as_deref().and_then(|id| self.entries.node(id).flatten());
        let from = pos(from.or(self.chain.last()).unwrap_or_default());
        let summary = Text::Inline(row.summary.unwrap_or_default());
        self.chain.node(Body::BranchSummary(BranchSummary { summary, from }), meta, out);
        true
    }
}

fn model_ref(row: &Row<'_>) -> ModelRef {
    let (provider, id) = (row.provider.as_deref(), row.model_id.as_deref());
    ModelRef::new(provider.unwrap_or_default(), id.unwrap_or_default())
}

fn text_hash(text: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    hasher.finish()
}
