//! The lines of version 4 that are no entries.
//!
//! Responsible for: lanes, facts, values and lists, as far as they tell where the session stands, what it
//! is called, what waits and what was spent. Must not: read entries; those are as in version 3.

use super::super::emitter::{Emitter, Meta};
use super::super::item::Origin;
use super::super::lines::Object;
use super::entry::{custom, kind_of, named};
use super::message;
use super::reader::{MAIN, Reader};
use super::row::{Row, Str, Tokens};
use segno_model::Body;
use segno_model::finding::Severity;
use segno_model::record::{Block, Message, ModelChange, UsageRecord};
use serde::Deserialize;
use serde_json::value::RawValue;

/// What a line that is no entry may hold.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Write<'a> {
    #[serde(borrow)]
    leaf_id: Option<Str<'a>>,
    #[serde(borrow)]
    fact: Option<Str<'a>>,
    #[serde(borrow)]
    op: Option<Str<'a>>,
    #[serde(borrow)]
    namespace: Option<Str<'a>>,
    #[serde(borrow)]
    key: Option<Str<'a>>,
    #[serde(borrow)]
    value: Option<&'a RawValue>,
    #[serde(borrow)]
    target: Option<Waiting<'a>>,
}

/// A prompt that waits.
#[derive(Debug, Deserialize)]
struct Waiting<'a> {
    #[serde(borrow, default)]
    id: Option<Str<'a>>,
    #[serde(borrow, alias = "payload", default)]
    message: Option<super::row::Msg<'a>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct LaneConfig {
    model: Option<LaneModel>,
    thinking_level: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct LaneModel {
    provider: String,
    model_id: String,
}

impl Reader {
    /// Takes a line of version 4 that is no entry.
    pub(super) fn v4(
        &mut self,
        kind: &str,
        row: Row<'_>,
        object: &Object<'_>,
        out: &mut Emitter<'_>,
    ) {
        let id = row.id.as_deref().map(str::to_owned);
        let origin = Origin { id, ..object.origin.clone() };
        let meta = Meta { at: row.timestamp.0, origin, ..Meta::default() };
        let write: Write<'_> = serde_json::from_str(object.json).unwrap_or_default();
        match (kind, row.what.as_deref(), write.namespace.as_deref()) {
            ("lane", ..) => {
                if row.lane.as_deref() == Some(MAIN) {
                    self.move_tip(write.leaf_id.as_deref(), &meta.origin, out);
                }
                custom("pi.lane", object.json, meta, out);
            }
            ("fact", ..) => self.fact(&write, row, object, meta, out),
            ("usage", ..) | ("record", Some("usage"), _) => self.ledger(&row, object, meta, out),
            ("record", Some(what), _) => self.record(what, write, &row, object, meta, out),
            ("value", _, Some(namespace)) => self.value(namespace, &write, object, meta, out),
            _ => {
                custom(&kind_of(kind), object.json, meta, out);
            }
        }
    }

    fn move_tip(&mut self, id: Option<&str>, at: &Origin, out: &mut Emitter<'_>) {
        match id.map(|id| self.tree.node_of(id)) {
            None => self.tip = Some(None),
            Some(Some(node)) => self.tip = Some(node.map(|node| self.tree.seq(node))),
            Some(None) => {
                let sentence = "The current place is a record that is not in the file.";
                let done = "The place before it counts.";
                out.found("missing-tip", Severity::Warning, at, sentence, done);
            }
        }
    }

    fn fact(
        &mut self,
        write: &Write<'_>,
        row: Row<'_>,
        object: &Object<'_>,
        meta: Meta,
        out: &mut Emitter<'_>,
    ) {
        match write.fact.as_deref() {
            Some("name") => {
                named(row.name.unwrap_or_default(), meta, out);
            }
            Some("label") => {
                let label = row.label.unwrap_or_default();
                self.label(row.target_id.as_deref(), label, object, meta, out);
            }
            _ => {
                custom("pi.fact", object.json, meta, out);
            }
        }
    }

    /// Tokens in version 4's own books. What an entry says itself is not counted again, and corrections
    /// are sums of such.
    fn ledger(&mut self, row: &Row<'_>, object: &Object<'_>, meta: Meta, out: &mut Emitter<'_>) {
        let entry = row.entry_id.as_deref();
        let is_told = row.adjustment || entry.is_some_and(|id| self.tree.is_counted(id));
        let Some(usage) = row.usage.and_then(Tokens::usage).filter(|_| !is_told) else {
            custom("pi.usage", object.json, meta, out);
            return;
        };
        let id = entry.map(str::to_owned).or_else(|| meta.origin.id.clone());
        let response = id.map(|id| format!("pi:{id}"));
        let purpose = row.cause.as_deref().unwrap_or("usage").to_owned();
        let spent = UsageRecord { purpose, model: self.model.clone(), usage };
        out.record(Body::Usage(spent), Meta { response, ..meta });
    }

    fn record(
        &mut self,
        what: &str,
        write: Write<'_>,
        row: &Row<'_>,
        object: &Object<'_>,
        meta: Meta,
        out: &mut Emitter<'_>,
    ) {
        match (what, write.target) {
            ("queue_enqueued", Some(target)) => self.enqueue(target, row.id.as_deref()),
            ("queue_cancelled", _) => {
                // Whatever it calls the field: the cancelled prompt is named in it.
                self.pending.retain(|(id, _)| !object.json.contains(&format!("\"{id}\"")));
            }
            _ => {}
        }
        custom(&kind_of(what), object.json, meta, out);
    }

    fn enqueue(&mut self, target: Waiting<'_>, otherwise: Option<&str>) {
        let Some(id) = target.id.as_deref().or(otherwise).map(str::to_owned) else { return };
        let Some(Message::User(said)) = target.message.and_then(message::message) else { return };
        let text = |block: &Block| match block {
            Block::Text { text } => Some(text.head().to_owned()),
            _ => None,
        };
        let texts: Vec<String> = said.content.iter().filter_map(text).collect();
        self.pending.push((id, texts.join("\n")));
    }

    fn value(
        &mut self,
        namespace: &str,
        write: &Write<'_>,
        object: &Object<'_>,
        meta: Meta,
        out: &mut Emitter<'_>,
    ) {
        let key = write.key.as_deref().unwrap_or_default();
        let text =
            || write.value.and_then(|raw| serde_json::from_str::<Option<String>>(raw.get()).ok());
        let text = text().flatten();
        match namespace {
            "pi.session.name" => {
                named(text.unwrap_or_default(), meta, out);
                return;
            }
            "pi.entry.label" => {
                self.label(Some(key), text.unwrap_or_default(), object, meta, out);
                return;
            }
            "pi.branch.tip" if key == MAIN => self.move_tip(text.as_deref(), &meta.origin, out),
            "pi.lane.config" if key == MAIN => self.lane_config(write.value, &meta, out),
            "pi.pending.entry" => self.pending_entry(key, write),
            _ => {}
        }
        custom(&kind_of(namespace.trim_start_matches("pi.")), object.json, meta, out);
    }

    fn lane_config(&mut self, value: Option<&RawValue>, meta: &Meta, out: &mut Emitter<'_>) {
        let config = value.and_then(|raw| serde_json::from_str::<LaneConfig>(raw.get()).ok());
        let Some(config) = config else { return };
        let model = config.model.map(|m| message::model(Some(&m.provider), Some(&m.model_id)));
        if let Some(model) = model.filter(|model| *model != self.model) {
            self.model = model.clone();
            let chosen = out.turns() > 0;
            out.record(Body::Model(ModelChange { model, chosen, base_url: None }), meta.clone());
        }
        if let Some(level) = config.thinking_level.filter(|level| *level != self.thinking) {
            self.thinking_change(&level, meta.clone(), out);
        }
    }

    fn pending_entry(&mut self, key: &str, write: &Write<'_>) {
        self.pending.retain(|(id, _)| id != key);
        let value = write.value.filter(|_| write.op.as_deref() == Some("set"));
        let waiting = value.and_then(|raw| serde_json::from_str::<Waiting<'_>>(raw.get()).ok());
        if let Some(waiting) = waiting {
            self.enqueue(waiting, Some(key));
        }
    }
}
