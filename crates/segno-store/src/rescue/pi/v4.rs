//! pi's version 4: a log of numbered writes, of which entries are one kind.
//!
//! Responsible for: what the library that writes it (pi-agent-core 0.84 to 0.99) refuses a file for: its numbers, ids that
//! stand there twice, parents, places and labels that are nowhere, and a header that is lost. Must not: know what
//! an entry says; that is as in version 3.
//!
//! Two dialects. In `lanes` (0.84) numbers count up by one, an entry hangs on the end of its lane, and lanes are moved by
//! writes of their own. In `values` (0.85 to 0.99) numbers only grow, a line may hold several writes, and
//! where a branch ends is a value. Both open a file as a whole or not at all.

use super::super::draft::{At, Draft, List};
use super::super::json::{Fields, Span, quote, set_members, span, spliced, text};
use super::super::rule::Rule;
use super::super::tree::{Row, Taken, hash};
use super::{MAIN, Pi};
use serde_json::json;
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

/// The largest number that it takes.
const LARGEST: u64 = (1 << 53) - 1;

/// The types of entries and records that the older dialect takes.
const ENTRIES: &[&str] = &[
    "message",
    "model_change",
    "thinking_level_change",
    "active_tools_change",
    "compaction",
    "branch_summary",
    "custom",
];
const RECORDS: &[&str] = &[
    "operation_started",
    "abort_requested",
    "operation_finished",
    "step_attempt",
    "tool_started",
    "queue_enqueued",
    "queue_cancelled",
    "write_deferred",
    "usage",
];

/// What is remembered of the writes.
#[derive(Default)]
pub(super) struct Writes {
    is_values: bool,
    has_header: bool,
    /// Lines and writes that stand there, to know them again.
    said: HashSet<u64>,
    /// Ids of records and of usage; entries are in the tree.
    ids: HashSet<u64>,
    /// Where each lane or branch ends.
    ends: HashMap<String, Option<String>>,
    last: u64,
    /// How many results do not stand right behind their calls.
    late: u64,
    /// When the last write was.
    time: u64,
    /// The first write whose number is changed.
    astray: Option<At>,
    /// Lines in which nothing stands.
    blank: Vec<At>,
    /// Lines before the first one that is of this version.
    strays: Vec<At>,
    /// The header, and which of its members are lost.
    header: Option<(At, Vec<(Span, String)>)>,
}

impl Writes {
    pub(super) fn take_stray(&mut self, at: &At) {
        self.strays.push(*at);
    }

    /// A result that would have to stand elsewhere.
    pub(super) fn takes_late(&mut self) {
        self.late += 1;
    }
}

/// What is done with a write.
#[derive(PartialEq, Eq)]
enum Fate {
    Stays,
    /// It stands there already.
    Again,
    /// The library takes none of its kind.
    Lost,
}

/// A write, and where it stands.
struct Write<'a> {
    at: &'a At,
    json: &'a str,
    object: &'a str,
    fields: Fields<'a>,
    /// Where its members begin, and what is put there.
    start: usize,
    before: String,
}

impl Write<'_> {
    fn place(&self, raw: Option<&RawValue>) -> Option<Span> {
        raw.and_then(|raw| span(self.json, raw))
    }

    /// Replaces a member that is there.
    fn replace(&self, name: &str, by: &str, draft: &mut Draft) {
        for place in self.fields.all(name).filter_map(|raw| span(self.json, raw)) {
            draft.splice(self.at, place, by);
        }
    }

    /// Sets a member, whatever stands there.
    fn set(&mut self, name: &str, to: &str, draft: &mut Draft) {
        if self.fields.get(name).is_none() {
            self.before.push_str(&format!("\"{name}\":{to},"));
        }
        self.replace(name, to, draft);
    }
}

impl Pi<'_> {
    /// Takes a line in which nothing stands.
    pub(in crate::rescue) fn take_blank(&mut self, at: &At) {
        self.writes.blank.push(*at);
    }

    /// Takes the next line.
    pub(super) fn take_writes(&mut self, at: &At, json: &str, draft: &mut Draft) {
        let list: Option<Vec<&RawValue>> = serde_json::from_str(json).ok();
        self.writes.is_values |= list.is_some();
        let one = || serde_json::from_str::<&RawValue>(json).into_iter().collect();
        let all = list.unwrap_or_else(one);
        if let [only] = all.as_slice()
            && let Some((fields, start)) = members(json, only)
            && fields.text("kind").as_deref() == Some("header")
        {
            let object = only.get();
            let header = Write { at, json, object, fields, start, before: String::new() };
            return self.writes_header(&header, draft);
        }
        if !self.writes.said.insert(hash(json)) && draft.has(Rule::RepeatedRecord) {
            draft.leave_out(at);
            return draft.tell(Rule::RepeatedRecord, Some(at), "the line stands there already");
        }
        let is_list = json.starts_with('[');
        let (mut rest, mut out, mut lost) = (List::of(json, &all), 0, false);
        for (n, raw) in all.iter().enumerate() {
            let mut fate = Fate::Lost;
            if let Some((fields, start)) = members(json, raw) {
                let object = raw.get();
                let mut write = Write { at, json, object, fields, start, before: String::new() };
                fate = if is_list && self.is_said_again(&write, draft) {
                    Fate::Again
                } else {
                    self.write(&mut write, draft)
                };
                if !write.before.is_empty() {
                    draft.splice(at, start..start, write.before);
                }
            }
            lost |= fate == Fate::Lost;
            if fate != Fate::Stays {
                rest.leave_out(n);
                out += 1;
            }
        }
        if lost {
            draft.set_aside(at);
            draft.tell(Rule::OddField, Some(at), "a write that the library does not take");
        }
        if out > 0 && out == all.len() {
            draft.leave_out(at);
        } else {
            rest.apply(at, draft);
        }
    }

    /// Whether a write of several on a line stands in the file already, though the line does not: of a copied line of
    /// which one write is another now, the others say nothing anew.
    fn is_said_again(&mut self, write: &Write<'_>, draft: &mut Draft) -> bool {
        let is_number = |raw: &RawValue| raw.get().parse::<f64>().is_ok();
        let is_write = write.fields.text("kind").is_some()
            && write.fields.get("seq").is_some_and(is_number)
            && draft.has(Rule::RepeatedRecord);
        if !is_write || self.writes.said.insert(hash(write.object)) {
            return false;
        }
        draft.tell(Rule::RepeatedRecord, Some(write.at), "a write that stands there already");
        true
    }

    fn write(&mut self, write: &mut Write<'_>, draft: &mut Draft) -> Fate {
        let kind = write.fields.text("kind").map(Cow::into_owned);
        let is_numbered =
            write.fields.get("seq").is_some_and(|raw| raw.get().parse::<u64>().is_ok());
        match kind.as_deref() {
            Some("entry") if !self.numbered_entry(write, draft) => return Fate::Again,
            Some("entry") => {}
            None if write.fields.get("parentId").is_some()
                && write.fields.get("type").is_some() =>
            {
                if !self.numbered_entry(write, draft) {
                    return Fate::Again;
                }
                write.before.push_str("\"kind\":\"entry\",");
                let what = "an entry that does not say that it is one";
                draft.tell(Rule::OddField, Some(write.at), what);
            }
            // Our reader takes nothing else without a number.
            _ if !is_numbered => return Fate::Lost,
            Some("lane") if write.fields.text("lane").is_none() => return Fate::Lost,
            Some("lane") => {
                if write.fields.get("leafId").is_none() {
                    write.before.push_str("\"leafId\":null,");
                    let what = "a lane that is moved to nowhere";
                    draft.tell(Rule::OddField, Some(write.at), what);
                }
                self.move_end(write, "lane", "leafId", draft);
            }
            Some("value" | "list") if write.fields.text("namespace").is_none() => {
                return Fate::Lost;
            }
            Some("value" | "list") => {
                if write.fields.get("key").is_none() {
                    write.before.push_str("\"key\":\"\",");
                    draft.tell(Rule::OddField, Some(write.at), "a value without a key");
                }
                self.writes.is_values = true;
                operation(write, draft);
                let is_tip = write.fields.text("namespace").as_deref() == Some("pi.branch.tip");
                if is_tip && write.fields.text("op").as_deref() == Some("set") {
                    self.move_end(write, "key", "value", draft);
                }
            }
            Some("record") if !is_one_of(&write.fields, RECORDS) => return Fate::Lost,
            Some("record") => {
                if write.fields.text("lane").is_none() && write.fields.get("lane").is_none() {
                    write.before.push_str("\"lane\":\"main\",");
                    draft.tell(Rule::OddField, Some(write.at), "a record of no lane");
                }
                self.own_id(write, draft);
                self.timed(write, draft);
            }
            Some("usage") => self.own_id(write, draft),
            Some("fact") if self.is_about_nothing(write, draft) => return Fate::Lost,
            Some("fact") => {}
            _ => return Fate::Lost,
        }
        self.number(write, draft);
        Fate::Stays
    }

    /// Entries and records say when they were made.
    fn timed(&mut self, write: &mut Write<'_>, draft: &mut Draft) {
        let raw = write.fields.get("timestamp");
        let own = raw.and_then(|raw| raw.get().parse::<u64>().ok()).filter(|own| *own <= LARGEST);
        if let Some(own) = own {
            self.writes.time = own;
            return;
        }
        let time = self.writes.time.to_string();
        write.set("timestamp", &time, draft);
        draft.tell(Rule::OddField, Some(write.at), "a write that does not say when it was");
    }

    fn writes_header(&mut self, write: &Write<'_>, draft: &mut Draft) {
        let is_repeat = std::mem::replace(&mut self.writes.has_header, true);
        if is_repeat && draft.has(Rule::RepeatedRecord) {
            draft.leave_out(write.at);
            if self.writes.said.insert(hash(write.json)) {
                draft.set_aside(write.at);
            }
            return draft.tell(Rule::RepeatedRecord, Some(write.at), "a second header stands here");
        }
        self.writes.said.insert(hash(write.json));
        let has = |name: &str| write.fields.some(name).is_some();
        let is_values = has("v") || has("storageVersion");
        self.writes.is_values = is_values;
        let marks: &[_] = if is_values { &["v", "storageVersion"] } else { &["version"] };
        let is_text = |name: &str| write.fields.text(name).is_some();
        let texts = ["id", "cwd"].into_iter().filter(|name| !is_text(name));
        let others = marks.iter().chain(&["createdAt"]).copied().filter(|name| !has(name));
        let lost = self.lost_members(write, texts.chain(others));
        if let Some(first) = self.first.filter(|first| first != write.at)
            && draft.has(Rule::MissingHeader)
        {
            draft.insert_before(&first, spliced(write.json, &lost));
            draft.leave_out(write.at);
            let what = "the line that says what the session is does not stand first";
            draft.tell(Rule::MissingHeader, Some(write.at), what);
        } else {
            self.writes.header = Some((*write.at, lost));
        }
    }

    /// What has to stand in a header that has lost some of its members.
    fn lost_members<'n>(
        &self,
        write: &Write<'_>,
        names: impl Iterator<Item = &'n str>,
    ) -> Vec<(Span, String)> {
        let (id, cwd, created) = self.reading.header();
        let value = |name: &str| match name {
            "id" => quote(&id),
            "cwd" => quote(&cwd),
            "createdAt" => created.0.max(0).to_string(),
            "storageVersion" => "1".to_owned(),
            _ => "4".to_owned(),
        };
        let members: Vec<(&str, String)> = names.map(|name| (name, value(name))).collect();
        set_members(write.json, write.object, &members)
    }

    /// An entry hangs on one that is there, under an id of its own. False: it stands there already.
    fn numbered_entry(&mut self, write: &mut Write<'_>, draft: &mut Draft) -> bool {
        let (at, json) = (write.at, write.json);
        let own = match write.fields.text("id") {
            Some(id) => id.into_owned(),
            None => {
                let id = self.tree.fresh(&format!("line {} {}", at.line, write.start));
                write.set("id", &quote(&id), draft);
                draft.tell(Rule::ReusedId, Some(at), "an entry without an id");
                id
            }
        };
        let parent = write.fields.some("parentId");
        let parent = parent.and_then(|raw| Some((text(raw)?, span(json, raw)?)));
        let tail = self.tree.tail(MAIN).map(str::to_owned);
        let named = parent.as_ref().map(|(id, _)| self.tree.renamed(id).unwrap_or(id).to_owned());
        let is_there = |id: &String| *id != own && self.tree.knows(id);
        let on = named.and_then(|named| Some(named).filter(is_there).or(tail));
        let row = Row {
            id: &own,
            id_span: write.place(write.fields.get("id")),
            parent: parent.as_ref().map(|(id, span)| (&**id, span.clone())),
            print: hash(write.object),
            is_node: self.reading.is_node(at.line, &write.fields.text("id").unwrap_or_default()),
            lane: MAIN,
            goes_on: false,
        };
        self.follow_renamed(at, json, &write.fields, draft);
        let Taken::Row { id, parent } = self.tree.take(at, &row, draft) else { return false };
        if let Some(lane) = write.fields.text("lane") {
            self.stand_at(&lane, on, at, draft);
            self.writes.ends.insert(lane.into_owned(), Some(id.clone()));
        }
        let kind = write.fields.text("type").unwrap_or_default().into_owned();
        self.entry(at, json, &write.fields, &kind, (id, parent), draft);
        if !self.writes.is_values {
            typed(write, draft);
        }
        self.timed(write, draft);
        true
    }

    /// A lane ends at an entry; where it does not, a write before this one moves it there.
    fn stand_at(&mut self, lane: &str, entry: Option<String>, at: &At, draft: &mut Draft) {
        let end = self.writes.ends.get(lane).cloned();
        if end.or((lane == "main").then_some(None)) == Some(entry.clone()) {
            return;
        }
        self.writes.last += 1;
        let write =
            json!({ "kind": "lane", "seq": self.writes.last, "lane": lane, "leafId": entry });
        match at.object.checked_sub(1) {
            Some(object) => draft.insert_after(&At { object, ..*at }, write.to_string()),
            None => draft.insert_before(at, write.to_string()),
        }
        draft.tell(Rule::StaleTip, Some(at), "it does not hang on the end of its lane");
        self.writes.ends.insert(lane.to_owned(), entry);
    }

    /// A lane or branch ends somewhere else from here on.
    fn move_end(&mut self, write: &Write<'_>, name: &str, target: &str, draft: &mut Draft) {
        let lane = write.fields.text(name).unwrap_or_default().into_owned();
        let to = write.fields.some(target).and_then(text).map(Cow::into_owned);
        if let Some(id) = &to
            && !self.tree.knows(id)
        {
            let before = self.writes.ends.get(&lane).cloned();
            let before = before.unwrap_or_else(|| self.tree.tail(MAIN).map(str::to_owned));
            let by = before.as_deref().map_or("null".to_owned(), quote);
            write.replace(target, &by, draft);
            let what = "the session goes on from an entry that is nowhere in the file";
            draft.tell(Rule::StaleTip, Some(write.at), what);
            self.writes.ends.insert(lane, before);
            return;
        }
        let to = to.map(|id| match self.tree.renamed(&id).map(str::to_owned) {
            Some(new) => {
                write.replace(target, &quote(&new), draft);
                new
            }
            None => id,
        });
        self.writes.ends.insert(lane, to);
    }

    /// A record has an id of its own, and a lane that is there.
    fn own_id(&mut self, write: &mut Write<'_>, draft: &mut Draft) {
        if let Some(id) = write.fields.text("id") {
            let is_used = !self.writes.ids.insert(hash(&id)) || self.tree.knows(&id);
            if is_used && draft.has(Rule::ReusedId) {
                let own = self.tree.fresh(&format!("{id} {} {}", write.at.line, write.start));
                write.replace("id", &quote(&own), draft);
                draft.tell(Rule::ReusedId, Some(write.at), format!("{id} was given before"));
                self.writes.ids.insert(hash(&own));
            }
        } else if write.fields.get("id").is_none() {
            let own = self.tree.fresh(&format!("record {} {}", write.at.line, write.start));
            write.before.push_str(&format!("\"id\":{},", quote(&own)));
            draft.tell(Rule::ReusedId, Some(write.at), "a record without an id");
            self.writes.ids.insert(hash(&own));
        }
        if let Some(lane) = write.fields.text("lane").filter(|lane| *lane != "main")
            && !self.writes.ends.contains_key(&*lane)
        {
            let tail = self.tree.tail(MAIN).map(str::to_owned);
            self.stand_at(&lane, tail, write.at, draft);
        }
    }

    /// Whether it is a label for an entry that is nowhere; that is kept beside the result.
    fn is_about_nothing(&mut self, write: &mut Write<'_>, draft: &mut Draft) -> bool {
        match write.fields.text("fact").as_deref() {
            Some("name") => {
                return write.fields.text("name").is_none() && write.fields.get("name").is_some();
            }
            Some("label") => {}
            _ => return true,
        }
        let Some(target) = write.fields.text("targetId") else { return true };
        if let Some(new) = self.tree.renamed(&target) {
            write.replace("targetId", &quote(new), draft);
            return false;
        }
        if self.tree.knows(&target) {
            return false;
        }
        true
    }

    /// Its number is the next one, or in the newer dialect a higher one.
    fn number(&mut self, write: &mut Write<'_>, draft: &mut Draft) {
        let raw = write.fields.get("seq");
        let own = raw.and_then(|raw| raw.get().parse::<u64>().ok()).filter(|own| *own <= LARGEST);
        let next = self.writes.last.saturating_add(1);
        let is_fit = |own: &u64| self.writes.is_values && *own >= next;
        let number = own.filter(is_fit).unwrap_or(next);
        self.writes.last = number;
        if own == Some(number) || !draft.has(Rule::Ordinals) {
            return;
        }
        write.set("seq", &number.to_string(), draft);
        self.writes.astray.get_or_insert(*write.at);
    }

    /// What a header has lost.
    fn complete_header(&mut self, draft: &mut Draft) {
        let Some((at, lost)) = self.writes.header.take().filter(|(_, lost)| !lost.is_empty())
        else {
            return;
        };
        draft.splice_all(&at, lost);
        draft.tell(Rule::MissingHeader, Some(&at), "the header has lost some of its members");
    }

    /// The end of the file.
    pub(super) fn finish_writes(&mut self, draft: &mut Draft) {
        self.complete_header(draft);
        for at in std::mem::take(&mut self.writes.strays) {
            draft.leave_out(&at);
            draft.set_aside(&at);
            draft.tell(Rule::OddField, Some(&at), "a line that the library does not take");
        }
        if let Some(first) = self.first.filter(|_| !self.writes.has_header)
            && draft.has(Rule::MissingHeader)
        {
            let (id, cwd, created) = self.reading.header();
            let (created, values) = (created.0.max(0), self.writes.is_values);
            let header = if values {
                json!({"v": 4, "kind": "header", "id": id, "storageVersion": 1, "createdAt": created, "cwd": cwd})
            } else {
                json!({"kind": "header", "version": 4, "id": id, "createdAt": created, "cwd": cwd})
            };
            draft.insert_before(&first, header.to_string());
            draft.tell(Rule::MissingHeader, None, self.reading.header_lost());
        }
        self.tree.finish(&HashMap::new(), draft);
        for at in self.writes.blank.drain(..) {
            draft.leave_out(&at);
            draft.tell(Rule::TornLine, Some(&at), "the line is empty");
        }
        if let Some(at) = self.writes.astray.take() {
            draft.tell(
                Rule::Ordinals,
                Some(&at),
                "the number of the write is not one that can follow",
            );
        }
        draft.note(
            "This is version 4, which pi itself refuses; the library that writes it (pi-agent-core) opens what is repaired. \
             `segno export --format pi` writes a session that pi opens.",
        );
        if self.writes.late > 0 {
            draft.note(format!(
                "{} results do not stand right behind their calls, and stay there: the writes of this version are numbered.",
                self.writes.late
            ));
        }
        let open = self.reading.unanswered.len();
        if open > 0 {
            draft.note(format!(
                "{open} calls have no result, and get none: the library settles calls itself from what it recorded of them, \
                 and a second result would be one too many."
            ));
        }
    }
}

/// The members of a write, and where they begin.
fn members<'a>(json: &'a str, write: &&'a RawValue) -> Option<(Fields<'a>, usize)> {
    Some((Fields::of(write.get())?, span(json, write)?.start + 1))
}

fn is_one_of(fields: &Fields<'_>, types: &[&str]) -> bool {
    fields.text("type").is_some_and(|own| types.contains(&&*own))
}

/// An entry of a type that the older library does not take becomes one that nobody is sent.
fn typed(write: &mut Write<'_>, draft: &mut Draft) {
    if is_one_of(&write.fields, ENTRIES) {
        return;
    }
    let custom = "\"custom\",\"customType\":\"segno.odd-field\"";
    match write.fields.get("type") {
        Some(_) => write.replace("type", custom, draft),
        None => write.before.push_str(&format!("\"type\":{custom},")),
    }
    draft.tell(Rule::OddField, Some(write.at), "an entry of a type that the library does not take");
}

/// What is done with a value or a list; our reader asks only which value it is.
fn operation(write: &mut Write<'_>, draft: &mut Draft) {
    let is_list = write.fields.text("kind").as_deref() == Some("list");
    let op = write.fields.text("op");
    let is_known = match op.as_deref() {
        Some("delete") => true,
        Some("set") => !is_list,
        Some("append") => is_list,
        _ => false,
    };
    if is_known {
        return;
    }
    let op = match (write.fields.get("value"), is_list) {
        (None, _) => "delete",
        (Some(_), true) => "append",
        (Some(_), false) => "set",
    };
    write.set("op", &quote(op), draft);
    draft.tell(Rule::OddField, Some(write.at), "a write that does not say what is done");
}
