//! A pi session in one pass: from lines to entries, and where the current place is.
//!
//! Responsible for: what is remembered while reading, and everything that can be wrong with an entry's
//! place. Must not: know what an entry says (that is in `entry` and `v4`).

use super::super::agent::Agent;
use super::super::calls::Calls;
use super::super::emitter::{Emitter, Meta};
use super::super::input::ForeignError;
use super::super::item::{Fact, Origin};
use super::super::lines::{Lines, Object, Taken};
use super::super::mend::Mended;
use super::edits::Edits;
use super::entry::{At, Written, custom};
use super::header;
use super::row::{Fields, Parent, Row};
use super::tree::{Became, New, Place, Text, Tree, Trouble};
use segno_model::finding::Severity;
use segno_model::record::ModelRef;
use segno_model::{Seq, Timestamp};
use serde_json::value::RawValue;
use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::path::Path;

/// The lane, or branch, on which the person talks.
pub(super) const MAIN: &str = "main";

/// The state of reading one session.
#[derive(Debug, Default)]
pub(super) struct Reader {
    pub(super) tree: Tree,
    pub(super) calls: Calls,
    pub(super) edits: Edits,
    /// The model and the thinking level in force.
    pub(super) model: ModelRef,
    pub(super) thinking: String,
    /// Version 4: prompts that wait, by the id that they will have.
    pub(super) pending: Vec<(String, String)>,
    /// Where the next turn hangs, as the format says. None before it said anything.
    pub(super) tip: Option<Option<Seq>>,
    /// Where it hangs according to what was handed on.
    current: Option<Seq>,
    header: Option<Text>,
    /// Entries from before this time were copied from the session that this is a fork of.
    copied_before: Option<Timestamp>,
    /// Whether the line before was a repeat of an earlier one.
    repeating: bool,
    /// Version 4: lines that were read. What one says again is not said anew.
    writes: HashSet<u64>,
    /// Replies that broke off: pi does not send them.
    pub(super) broken: HashSet<Seq>,
    /// Results that do not stand right behind their calls.
    pub(super) late: HashSet<Seq>,
    /// A label or name that was given elsewhere than at the current place.
    astray: Option<Origin>,
}

/// Reads a whole file.
pub(super) fn read(path: &Path, out: &mut Emitter<'_>) -> Result<(), ForeignError> {
    let mut lines = Lines::open(path)?;
    let mut reader = Reader::default();
    lines.each_in_order(Agent::Pi, "pi.unknown", out, |object, out, may_wait| {
        reader.line(object, may_wait, out)
    })?;
    reader.finish(out);
    out.finish(path, lines.bytes())
}

impl Reader {
    /// Takes a line, or what is whole of one. In version 4 it may be several writes at once.
    fn line(&mut self, object: &Object<'_>, may_wait: bool, out: &mut Emitter<'_>) -> Taken {
        let taken = if object.json.starts_with('[') {
            let Ok(writes) = serde_json::from_str::<Vec<&RawValue>>(object.json) else {
                return Taken::Unknown;
            };
            if self.is_said_again(object, out) {
                return Taken::Record;
            }
            let mut all = true;
            for write in writes {
                let write = Object { json: write.get(), origin: object.origin.clone() };
                all &= matches!(self.object(&write, false, out), Taken::Record);
            }
            Taken::is_record(all)
        } else {
            self.object(object, may_wait, out)
        };
        self.settle(out);
        taken
    }

    fn object(&mut self, object: &Object<'_>, may_wait: bool, out: &mut Emitter<'_>) -> Taken {
        let mended = Mended::default();
        match mended.parse::<Row<'_>>(object.json) {
            Some(row) if row.is_record() && may_wait && self.is_early(&row) => return Taken::Early,
            Some(row) if row.is_record() => {
                let at = row.timestamp.0;
                self.row(row, object, out);
                let meta = Meta { at, origin: object.origin.clone(), ..Meta::default() };
                mended.tell("pi.line", object.json, &meta, out);
            }
            Some(_) => return Taken::Unknown,
            None => {
                let row = Fields::of(object.json).map(|fields| fields.row());
                let Some(row) = row.filter(Row::is_record) else { return Taken::Unknown };
                tell_unknown(&object.origin, out);
                self.entry(row, object, out);
            }
        }
        Taken::Record
    }

    /// Whether an entry names another one, or a call, that was not read so far. Version 4 numbers its lines.
    fn is_early(&self, row: &Row<'_>) -> bool {
        let hangs = match &row.parent_id {
            Parent::Of(parent) => self.tree.known(parent).is_none(),
            Parent::Unsaid => false,
            Parent::Root => self.header.is_none() && row.what.as_deref() != Some("session"),
        };
        let message = row.message.as_ref().filter(|message| &*message.role == "toolResult");
        let call = message.and_then(|message| message.tool_call_id.as_deref());
        row.seq.is_none() && (hangs || call.is_some_and(|call| !self.calls.knows(call)))
    }

    /// Whether a line of version 4 stands in the file already.
    fn is_said_again(&mut self, object: &Object<'_>, out: &mut Emitter<'_>) -> bool {
        let mut hasher = DefaultHasher::new();
        object.json.hash(&mut hasher);
        let is_again = !self.writes.insert(hasher.finish());
        if is_again {
            self.tell_repeat(&object.origin, out);
        }
        is_again
    }

    fn row(&mut self, row: Row<'_>, object: &Object<'_>, out: &mut Emitter<'_>) {
        let is_write = row.kind.is_some() && row.seq.is_some();
        if is_write && self.is_said_again(object, out) {
            return;
        }
        match (row.kind.as_deref(), row.what.as_deref()) {
            (Some("header"), _) | (_, Some("session")) => self.take_header(&row, object, out),
            (Some(kind), _) if row.seq.is_some() && kind != "entry" => {
                let kind = kind.to_owned();
                self.v4(&kind, row, object, out);
            }
            _ => self.entry(row, object, out),
        }
    }

    fn take_header(&mut self, row: &Row<'_>, object: &Object<'_>, out: &mut Emitter<'_>) {
        let text = Text::of(object.json);
        if self.header == Some(text) {
            return self.tell_repeat(&object.origin, out);
        }
        let at = row.timestamp.0.or(row.created_at.0);
        if self.header.is_none() {
            self.header = Some(text);
            self.copied_before = header::facts(row, at, &object.origin, out);
        } else {
            let sentence = "A second header stands in the file.";
            out.found(
                "second-header",
                Severity::Warning,
                &object.origin,
                sentence,
                "The first one counts.",
            );
        }
        let meta = Meta { at, origin: object.origin.clone(), ..Meta::default() };
        custom("pi.session", object.json, meta.clone(), out);
        if row.model_id.is_some() {
            self.model_change(row, meta, out);
        }
    }

    fn tell_repeat(&mut self, at: &Origin, out: &mut Emitter<'_>) {
        if !std::mem::replace(&mut self.repeating, true) {
            let sentence = "Lines that stand in the file already stand here again.";
            out.found("duplicate-record", Severity::Note, at, sentence, "They were read once.");
        }
    }

    /// Takes an entry of the tree.
    fn entry(&mut self, mut row: Row<'_>, object: &Object<'_>, out: &mut Emitter<'_>) {
        let text = Text::of(object.json);
        if let Some(known) = row.id.as_deref().and_then(|id| self.tree.known(id)) {
            if known == text {
                return self.tell_repeat(&object.origin, out);
            }
            let sentence = "Two different records have one id.";
            let done = "Both were read; what follows that id hangs on the later one.";
            out.found("duplicate-record", Severity::Warning, &object.origin, sentence, done);
        }
        self.repeating = false;
        let place = self.tree.place(row.id.as_deref(), &row.parent_id);
        tell_trouble(place, &object.origin, out);
        let at = At { object, place, meta: self.meta(&row, place, object) };
        // A name or a label is about the session, wherever it is given.
        let is_about_all = matches!(row.what.as_deref(), Some("label" | "session_info"));
        if let Some(edits) = place.edits.filter(|_| !is_about_all) {
            self.edits.switch(edits, &at.meta, out);
        }
        let written = self.write(&mut row, &at, out);
        let edits = place.edits.filter(|_| is_about_all).unwrap_or(self.edits.newest());
        let line = object.origin.line;
        let Written { record, became, counted } = written;
        self.tree.add(
            row.id.as_ref(),
            &row.parent_id,
            New { place, record, became, edits, text, line, counted },
        );
        self.moved(&row, place, written, is_about_all, object);
    }

    fn meta(&self, row: &Row<'_>, place: Place, object: &Object<'_>) -> Meta {
        let id = row.id.as_deref().map(str::to_owned);
        let inherited = row.timestamp.0.is_some() && row.timestamp.0 < self.copied_before;
        Meta {
            parent: place.node.map(|node| self.tree.seq(node)),
            at: row.timestamp.0,
            origin: Origin { id, ..object.origin.clone() },
            copy: inherited,
            inherited,
            ..Meta::default()
        }
    }

    /// Keeps track of the current place.
    fn moved(
        &mut self,
        row: &Row<'_>,
        place: Place,
        written: Written,
        is_about_all: bool,
        object: &Object<'_>,
    ) {
        let is_node = written.became != Became::Metadata;
        let above = place.node.map(|node| self.tree.seq(node));
        let node = if is_node { Some(written.record) } else { above };
        if is_node {
            self.current = node;
            self.astray = None;
            if let Some(id) = row.id.as_deref() {
                self.pending.retain(|(of, _)| of != id);
            }
        }
        let is_v4 = row.seq.is_some();
        let on_main = row.lane.as_ref().is_some_and(|lane| &**lane == MAIN);
        // A record of version 4 that does not say that it is one has a lane, too.
        let is_entry = is_node || row.parent_id != Parent::Unsaid || is_v4 && row.kind.is_some();
        if is_about_all {
            self.astray = (node != self.current).then(|| object.origin.clone());
        } else if is_entry && (on_main || !is_v4) {
            self.tip = Some(node);
        }
    }

    /// Hands on where the next turn hangs, if that is not the last node.
    fn settle(&mut self, out: &mut Emitter<'_>) {
        if let Some(tip) = self.tip.filter(|tip| *tip != self.current) {
            out.fact(Fact::Tip(tip));
            self.current = tip;
        }
    }

    fn finish(&self, out: &mut Emitter<'_>) {
        if let Some(at) = &self.astray {
            let sentence = "The last name or label was given on another branch than the last turn.";
            let done = "The session goes on from the last turn; pi itself would go on from there.";
            out.found("stale-branch", Severity::Warning, at, sentence, done);
        }
        if !self.pending.is_empty() {
            let prompts = self.pending.iter().map(|(_, prompt)| prompt.clone());
            out.fact(Fact::Pending(prompts.collect()));
        }
        self.calls.finish(out);
    }
}

fn tell_unknown(at: &Origin, out: &mut Emitter<'_>) {
    let sentence = "The record has a shape that this reader does not know.";
    out.found("unknown-record", Severity::Note, at, sentence, "It was kept as it is.");
}

fn tell_trouble(place: Place, at: &Origin, out: &mut Emitter<'_>) {
    let done = "It was hung on the one before it.";
    match place.trouble {
        None => {}
        Some(Trouble::Missing) => {
            let sentence = "The record follows one that is not in the file.";
            out.found("missing-parent", Severity::Warning, at, sentence, done);
        }
        Some(Trouble::Cycle) => {
            let sentence = "The record follows itself, directly or through others.";
            out.found("cycle", Severity::Warning, at, sentence, done);
        }
    }
}
